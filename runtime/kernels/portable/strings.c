/* SPDX-License-Identifier: Apache-2.0 */
/* strings.c: StringConcat, StringSplit. Texts are bytes of UTF-8, which may hold zeros. */
#include "runtime/kernels/portable/kernels.h"
#include <string.h>

typedef struct string_state {
    rt_loop loop; /* StringConcat: the result and both operands */
    int64_t count;
    op_string delimiter; /* of length 0: white space */
    int64_t most;        /* pieces of a text */
    base_arena *texts;
} string_state;

static string_state *begin(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, rt_run_function *run) {
    string_state *state = BASE_NEW(arena, string_state);
    if (!state) return NULL;
    state->texts = environment->texts ? environment->texts : arena;
    (void)op_shape_elements(&call->inputs[0].type.shape, &state->count);
    prepared->state = state;
    prepared->run = run;
    return state;
}

/* ---- StringConcat -------------------------------------------------------------------------------------- */

typedef struct concat_job {
    const string_state *state;
    const op_string *left, *right;
    op_string *to;
    bool exhausted;
} concat_job;

static void join(void *context, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {
    concat_job *job = context;
    const rt_loop *loop = &job->state->loop;
    for (int64_t i = 0; i < length && !job->exhausted; i++) {
        const op_string *a = job->left + offsets[1] + i * loop->strides[1][loop->rank - 1];
        const op_string *b = job->right + offsets[2] + i * loop->strides[2][loop->rank - 1];
        op_string *to = job->to + offsets[0] + i;
        size_t total;
        char *text = base_size_add(a->length, b->length, &total)
                         ? base_arena_alloc(job->state->texts, total ? total : 1, 1)
                         : NULL;
        job->exhausted = !text;
        if (!text) return;
        if (a->length) memcpy(text, a->data, a->length);
        if (b->length) memcpy(text + a->length, b->data, b->length);
        *to = (op_string){text, total};
    }
}

static base_status run_concat(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    const string_state *state = prepared->state;
    concat_job job = {state, inputs[0].data, inputs[1].data, outputs[0].data, false};
    /* On one thread: the texts are one arena's. */
    rt_loop_run(&state->loop, 1, 1, join, &job);
    return job.exhausted ? base_fail_memory(report) : BASE_OK;
}

static base_status prepare_concat(const op_call *call, const rt_environment *environment, base_arena *arena,
                                  rt_prepared *prepared, base_report *report) {
    string_state *state = begin(call, environment, arena, prepared, run_concat);
    if (!state) return base_fail_memory(report);
    const op_shape *shapes[2] = {&call->inputs[0].type.shape, &call->inputs[1].type.shape};
    rt_loop_broadcast(&state->loop, &call->outputs[0].type.shape, shapes, 2);
    return BASE_OK;
}

/* ---- StringSplit --------------------------------------------------------------------------------------- */

static bool is_space(char letter) {
    return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

/* The next piece of a text from *at on, of which `made` were there before; false: there is none. */
static bool next_piece(const string_state *state, const op_string *text, size_t *at, int64_t made,
                       op_string *piece) {
    const bool spaces = state->delimiter.length == 0;
    while (spaces && *at < text->length && is_space(text->data[*at])) ++*at;
    if (spaces ? *at == text->length : *at > text->length) return false;
    size_t end = *at, next = text->length + !spaces;
    bool found = false;
    for (; !found && made + 1 < state->most && end < text->length; end += !found) {
        if (spaces) {
            found = is_space(text->data[end]);
        } else {
            found = text->length - end >= state->delimiter.length &&
                    memcmp(text->data + end, state->delimiter.data, state->delimiter.length) == 0;
        }
    }
    if (found) {
        next = end + (spaces ? 1 : state->delimiter.length);
    } else {
        end = text->length;
    }
    *piece = (op_string){text->data + *at, end - *at};
    *at = next;
    return true;
}

static base_status measure_split(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                 void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const string_state *state = prepared->state;
    const op_string *texts = inputs[0].data;
    int64_t most = 0;
    for (int64_t i = 0; i < state->count; i++) {
        op_string piece;
        size_t at = 0;
        int64_t count = 0;
        while (next_piece(state, &texts[i], &at, count, &piece)) count++;
        if (count > most) most = count;
    }
    op_shape *shape = &outputs[0].type.shape;
    if (outputs[0].type.dtype != OP_NONE) shape->dims[shape->rank - 1] = most;
    return BASE_OK;
}

static base_status run_split(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const string_state *state = prepared->state;
    const op_string *texts = inputs[0].data;
    const op_shape *shape = &outputs[0].type.shape;
    const bool pieces = outputs[0].type.dtype != OP_NONE,
               counts = prepared->output_count > 1 && outputs[1].type.dtype != OP_NONE;
    for (int64_t i = 0; i < state->count; i++) {
        const int64_t most = pieces ? shape->dims[shape->rank - 1] : 0;
        op_string piece, *to = pieces ? (op_string *)outputs[0].data + i * most : NULL;
        size_t at = 0;
        int64_t count = 0;
        for (; next_piece(state, &texts[i], &at, count, &piece); count++) {
            if (pieces) to[count] = piece;
        }
        for (int64_t k = count; k < most; k++) to[k] = (op_string){"", 0};
        if (counts) ((int64_t *)outputs[1].data)[i] = count;
    }
    return BASE_OK;
}

static base_status prepare_split(const op_call *call, const rt_environment *environment, base_arena *arena,
                                 rt_prepared *prepared, base_report *report) {
    string_state *state = begin(call, environment, arena, prepared, run_split);
    if (!state) return base_fail_memory(report);
    const op_attribute *delimiter = op_attribute_find(&call->attributes, "delimiter");
    if (delimiter && delimiter->kind == OP_ATTRIBUTE_STRING) state->delimiter = delimiter->as.text;
    const int64_t splits = op_attribute_integer(&call->attributes, "maxsplit", -1);
    state->most = splits < 0 || splits == INT64_MAX ? INT64_MAX : splits + 1;
    return BASE_OK;
}

const rt_kernel rt_kernel_string_concat = {
    .name = "portable.string_concat", .accepts = rt_accepts_any_row_major, .prepare = prepare_concat};
const rt_kernel rt_kernel_string_split = {.name = "portable.string_split",
                                          .accepts = rt_accepts_any_row_major,
                                          .prepare = prepare_split,
                                          .measure = measure_split};
