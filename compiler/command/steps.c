/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: `ouro run --steps N`: runs one after another. States go on from run to run; inputs that are stacked have another slice
 * in each; what is fed comes from the outputs of the step before. */
#include "compiler/command/command.h"
#include "compiler/files/tensor_compare.h"
#include "runtime/session.h"
#include <stdlib.h>
#include <string.h>

/* ---- what is fed ----------------------------------------------------------------------------------------- */

typedef struct feed {
    size_t output, input;
    bool argmax;
    int64_t *chosen; /* by argmax: the numbers of one step */
    size_t capacity;
    int64_t *all; /* those of all steps */
    size_t count, all_capacity;
} feed;

typedef struct stepper {
    const command_steps *steps;
    const command_model *model;
    ouro_session *session;
    base_arena arena;
    feed *feeds;
    ouro_value *outputs; /* of the last step */
    ouro_value **kept;   /* by output, then by step: what is written */
    const char **names;  /* of the outputs */
    size_t output_count;
} stepper;

/* The bytes of an output mean for the input what they meant; chosen is among numbers. */
static int check_types(const stepper *s, const char *text, const feed *fed) {
    const plan *of = s->model->plan;
    const plan_interface *output = &of->outputs[fed->output], *input = &of->inputs[fed->input];
    op_type from, to;
    plan_tensor_type(of, output->tensor, &from);
    plan_tensor_type(of, input->tensor, &to);
    if (from.kind != OP_KIND_TENSOR || to.kind != OP_KIND_TENSOR)
        return command_fail(BASE_USAGE, "%s: --feed '%s': %s '%s' is no tensor", s->model->path, text,
                            from.kind != OP_KIND_TENSOR ? "output" : "input",
                            of->texts + (from.kind != OP_KIND_TENSOR ? output : input)->name);
    if (fed->argmax && from.dtype == OP_STRING)
        return command_fail(BASE_USAGE, "%s: --feed '%s': output '%s' has no numbers to choose from", s->model->path,
                            text, of->texts + output->name);
    if (!fed->argmax && from.dtype != to.dtype)
        return command_fail(BASE_USAGE, "%s: --feed '%s': output '%s' is %s, input '%s' takes %s", s->model->path,
                            text, of->texts + output->name, op_dtype_name(from.dtype), of->texts + input->name,
                            op_dtype_name(to.dtype));
    return 0;
}

/* "OUT:argmax=IN", or "OUT=IN". */
static int read_feed(stepper *s, const char *text, feed *fed) {
    static const char mark[] = ":argmax";
    const size_t end = sizeof mark - 1;
    const char *output, *input;
    if (!command_split(s->steps->self, "--feed", text, &s->arena, &output, &input)) return BASE_USAGE;
    const size_t length = strlen(output);
    fed->argmax = length > end && strcmp(output + length - end, mark) == 0;
    if (fed->argmax) output = base_arena_text(&s->arena, output, length - end);
    if (!output) return command_fail_memory();
    const int from = ouro_plan_find_output(s->model->handle, output),
              to = ouro_plan_find_input(s->model->handle, input);
    if (from < 0)
        return command_fail(BASE_USAGE, "%s: --feed '%s': there is no output '%s'", s->model->path, text,
                            output);
    if (to < 0)
        return command_fail(BASE_USAGE, "%s: --feed '%s': there is no input '%s'", s->model->path, text,
                            input);
    if (s->model->stacked[to])
        return command_fail(BASE_USAGE, "%s: input '%s' is both stacked and fed", s->model->path, input);
    fed->output = (size_t)from;
    fed->input = (size_t)to;
    return check_types(s, text, fed);
}

/* The index of the largest of `count` elements from `first` on; the first of equal ones. */
static int64_t find_largest(const op_tensor *from, int64_t first, int64_t count) {
    int64_t best = 0;
    if (from->type.dtype == OP_FLOAT) {
        const float *at = (const float *)from->data + first;
        for (int64_t i = 1; i < count; i++)
            if (at[i] > at[best]) best = i;
        return best;
    }
    for (int64_t i = 1; i < count; i++)
        if (file_tensor_number(from, (size_t)(first + i)) > file_tensor_number(from, (size_t)(first + best)))
            best = i;
    return best;
}

static bool fits(const op_shape *declared, const op_shape *given) {
    if (declared->rank < 0) return true;
    if (declared->rank != given->rank) return false;
    for (int32_t d = 0; d < declared->rank; d++)
        if (declared->dims[d] >= 0 && declared->dims[d] != given->dims[d]) return false;
    return true;
}

/* Along the last axis, for the last position of the axis before: what comes after the sequence [batch, positions, choices] is
 * [batch, 1]. Where the input is another shape, so many elements of it. */
static int choose(stepper *s, feed *fed, op_tensor *next) {
    const op_tensor from = command_value_tensor(&s->outputs[fed->output]);
    const op_shape *shape = &from.type.shape;
    op_type declared;
    plan_interface_type(s->model->plan, &s->model->plan->inputs[fed->input], &declared);
    const int64_t choices = shape->rank > 0 ? shape->dims[shape->rank - 1] : 0;
    const bool integers = declared.dtype == OP_INT64 || declared.dtype == OP_INT32;
    if (choices < 1 || !integers)
        return command_fail(BASE_INVALID, "%s: --feed: %s", s->model->path,
                            integers ? "the output has nothing to choose from"
                                     : "the input takes no indices: expected int64 or int32");
    op_shape chosen = *shape;
    chosen.rank--;
    const int64_t positions = chosen.rank > 1 ? chosen.dims[chosen.rank - 1] : 1;
    if (chosen.rank > 1) chosen.dims[chosen.rank - 1] = 1;
    int64_t count = 1;
    (void)op_shape_elements(&chosen, &count);
    if (!fits(&declared.shape, &chosen)) { /* as the input is declared, if that is as many elements */
        op_shape own = declared.shape;
        int64_t elements = 1;
        for (int32_t d = 0; d < own.rank; d++) own.dims[d] = own.dims[d] < 0 ? 1 : own.dims[d];
        if (own.rank < 0 || !op_shape_elements(&own, &elements) || elements != count)
            return command_fail(BASE_INVALID, "%s: --feed: the output has %lld choices, the input takes %lld",
                                s->model->path, (long long)count, (long long)elements);
        chosen = own;
    }
    if ((size_t)count > fed->capacity) {
        fed->chosen = BASE_ARRAY(&s->arena, int64_t, (size_t)count);
        if (!fed->chosen) return command_fail_memory();
        fed->capacity = (size_t)count;
    }
    int64_t *all =
        base_arena_grow(&s->arena, fed->all, &fed->all_capacity, fed->count + (size_t)count, sizeof *all);
    if (!all) return command_fail_memory();
    fed->all = all;
    for (int64_t i = 0; i < count; i++) {
        const int64_t best = find_largest(&from, ((i + 1) * positions - 1) * choices, choices);
        all[fed->count++] = best;
        if (declared.dtype == OP_INT64) fed->chosen[i] = best;
        else ((int32_t *)fed->chosen)[i] = (int32_t)best;
    }
    *next = (op_tensor){.type = {.dtype = declared.dtype, .shape = chosen},
                        .bytes = (size_t)count * op_dtype_bytes(declared.dtype),
                        .data = fed->chosen};
    return 0;
}

/* The next step's inputs, from the outputs of this one. */
static int bind_fed(stepper *s) {
    for (size_t i = 0; i < s->steps->feeds.count; i++) {
        feed *fed = &s->feeds[i];
        op_tensor next = {0};
        ouro_error error;
        if (fed->argmax) {
            const int status = choose(s, fed, &next);
            if (status) return status;
        } else { /* the output's memory is written again in the next run */
            const op_tensor made = command_value_tensor(&s->outputs[fed->output]);
            next = made;
            next.data = base_arena_alloc(&s->arena, made.bytes ? made.bytes : 1, 1);
            if (!next.data) return command_fail_memory();
            if (made.bytes) memcpy(next.data, made.data, made.bytes);
        }
        if (ouro_session_bind_input(s->session, fed->input, next.data, next.bytes, next.type.shape.dims,
                                    &error) != OURO_OK)
            return command_fail((int)error.status, "%s: %s", s->model->path, error.message);
    }
    return 0;
}

/* ---- what is kept ---------------------------------------------------------------------------------------- */

/* A copy of this step's outputs, for the files. */
static int keep_outputs(stepper *s, size_t step) {
    for (size_t i = 0; i < s->output_count; i++) {
        ouro_value *to = &s->kept[i][step];
        *to = s->outputs[i];
        if (to->kind != OURO_TENSOR)
            return command_fail(BASE_INVALID, "%s: output '%s' is no tensor: --steps cannot write it",
                                s->model->path, s->names[i]);
        void *data = base_arena_alloc(&s->arena, to->bytes ? to->bytes : 1, 8);
        if (!data) return command_fail_memory();
        if (to->bytes) memcpy(data, to->data, to->bytes);
        to->data = data;
    }
    return 0;
}

static bool same_shape(const ouro_value *a, const ouro_value *b) {
    return a->rank == b->rank && a->bytes == b->bytes &&
           (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

/* All steps of one output along a new first axis; false where their shapes differ, or there is no axis left. */
static bool stack(stepper *s, size_t output, size_t count, ouro_value *whole) {
    const ouro_value *kept = s->kept[output];
    bool fine = kept[0].rank < OURO_MAX_RANK && kept[0].dtype != OURO_STRING;
    for (size_t t = 1; t < count && fine; t++) fine = same_shape(&kept[0], &kept[t]);
    unsigned char *data = fine ? base_arena_alloc(&s->arena, count * kept[0].bytes + 1, 8) : NULL;
    if (!data) return false;
    for (size_t t = 0; t < count; t++)
        if (kept[t].bytes) memcpy(data + t * kept[0].bytes, kept[t].data, kept[t].bytes);
    *whole = kept[0];
    whole->rank++;
    memmove(whole->dims + 1, kept[0].dims, (size_t)kept[0].rank * sizeof *whole->dims);
    whole->dims[0] = (int64_t)count;
    whole->bytes = count * kept[0].bytes;
    whole->data = data;
    return true;
}

/* Stacked, or as NAME.0, NAME.1, ... where their shapes differ from step to step; and what was chosen. */
static int write_kept(stepper *s, size_t count) {
    const size_t all = s->output_count + s->steps->feeds.count;
    const char **names = BASE_ARRAY(&s->arena, const char *, all);
    ouro_value *values = BASE_ARRAY(&s->arena, ouro_value, all);
    size_t written = 0;
    if (!names || !values) return command_fail_memory();
    for (size_t i = 0; i < s->output_count; i++) {
        names[written] = s->names[i];
        if (!stack(s, i, count, &values[written]))
            values[written] = (ouro_value){.kind = OURO_SEQUENCE, .elements = s->kept[i], .count = count};
        written++;
    }
    for (size_t i = 0; i < s->steps->feeds.count; i++) {
        const feed *fed = &s->feeds[i];
        if (!fed->argmax) continue;
        names[written] = s->model->plan->texts + s->model->plan->inputs[fed->input].name;
        values[written++] = (ouro_value){.dtype = OURO_INT64,
                                         .rank = 2,
                                         .dims = {(int64_t)count, (int64_t)(fed->count / count)},
                                         .data = fed->all,
                                         .bytes = fed->count * sizeof *fed->all};
    }
    return command_write_values(s->steps->directory, names, values, written);
}

static void print_chosen(const stepper *s) {
    enum { MOST = 64 };
    for (size_t i = 0; i < s->steps->feeds.count; i++) {
        const feed *fed = &s->feeds[i];
        if (!fed->argmax) continue;
        printf("fed to %s:", s->model->plan->texts + s->model->plan->inputs[fed->input].name);
        for (size_t k = 0; k < fed->count && k < MOST; k++) printf(" %lld", (long long)fed->all[k]);
        printf(fed->count > MOST ? " ...\n" : "\n");
    }
}

/* ---- steps ------------------------------------------------------------------------------------------------ */

static int run_one(stepper *s) {
    ouro_error error;
    if (s->steps->check) {
        base_report report = {0};
        if (rt_session_check(s->session, &report) != BASE_OK) return command_fail_report(&report);
    } else if (ouro_session_run(s->session, &error) != OURO_OK) {
        return command_fail((int)error.status, "%s: %s", s->model->path, error.message);
    }
    for (size_t i = 0; i < s->output_count; i++)
        if (ouro_session_output_value(s->session, i, &s->outputs[i], &error) != OURO_OK)
            return command_fail_error(&error);
    return 0;
}

static int prepare(stepper *s, size_t count) {
    const size_t feeds = s->steps->feeds.count;
    s->output_count = ouro_plan_output_count(s->model->handle);
    s->feeds = BASE_ARRAY(&s->arena, feed, feeds);
    s->outputs = BASE_ARRAY(&s->arena, ouro_value, s->output_count);
    s->kept = BASE_ARRAY(&s->arena, ouro_value *, s->output_count);
    s->names = BASE_ARRAY(&s->arena, const char *, s->output_count);
    if (!s->feeds || !s->outputs || !s->kept || !s->names) return command_fail_memory();
    for (size_t i = 0; i < s->output_count; i++) {
        ouro_tensor_info info;
        (void)ouro_plan_output(s->model->handle, i, &info);
        s->names[i] = info.name;
        s->kept[i] = BASE_ARRAY(&s->arena, ouro_value, s->steps->directory ? count : 1);
        if (!s->kept[i]) return command_fail_memory();
    }
    for (size_t i = 0; i < feeds; i++) {
        const int status = read_feed(s, s->steps->feeds.items[i], &s->feeds[i]);
        if (status) return status;
    }
    const size_t most = command_model_steps(s->model);
    if (count <= most) return 0;
    return command_fail(BASE_USAGE, "%s: there are stacked inputs for %zu step%s, not for %zu",
                        s->model->path, most, most == 1 ? "" : "s", count);
}

static int run_all(stepper *s, size_t count, command_progress *progress) {
    int status = prepare(s, count);
    for (size_t step = 0; step < count && !status; step++) {
        status = command_model_bind_step(s->model, s->session, step);
        if (!status && step) status = bind_fed(s);
        if (!status) status = run_one(s);
        if (!status && s->steps->directory) status = keep_outputs(s, step);
        if (step % 64 == 0)
            command_progress_say(progress, "step %zu of %zu of %s", step, count, s->model->path);
    }
    if (!status) { /* what would come next */
        for (size_t i = 0; i < s->steps->feeds.count && !status; i++) {
            op_tensor next;
            if (s->feeds[i].argmax) status = choose(s, &s->feeds[i], &next);
        }
    }
    return status;
}

int command_run_steps(const command_steps *steps, const command_model *model, ouro_session *session,
                      command_progress *progress) {
    const size_t count = steps->count ? steps->count : 1;
    stepper s = {.steps = steps, .model = model, .session = session};
    base_arena_init(&s.arena, NULL);
    int status = run_all(&s, count, progress);
    command_progress_end(progress);
    const bool stacked = steps->count > 0 && steps->directory;
    if (!status && stacked) status = write_kept(&s, count);
    if (!status && !stacked)
        status = command_write_values(steps->directory, s.names, s.outputs, s.output_count);
    if (!status && !steps->directory) print_chosen(&s);
    if (!status && steps->check)
        printf("check: every step gives the same bytes with every tensor in memory of its own\n");
    base_arena_free(&s.arena);
    return status;
}
