/* SPDX-License-Identifier: Apache-2.0 */
/* tuning.c: see passes/memory/tuning.h. */
#include "passes/memory/tuning.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The least of so many runs; more, while they take less than this together. */
enum { LEAST_RUNS = 3, MOST_RUNS = 200, KEY_TEXT = 2048 };
static const double MEASURED_SECONDS = 0.02;

typedef struct pass_time {
    const char *what;
    uint64_t nanoseconds;
    struct pass_time *next;
} pass_time;

void pass_tuning_init(pass_tuning *tuning, bool measure) {
    *tuning = (pass_tuning){.measure = measure};
    base_arena_init(&tuning->arena, NULL);
    tuning->times.arena = &tuning->arena;
}

void pass_tuning_free(pass_tuning *tuning) {
    base_arena_free(&tuning->arena);
}

static bool add_time(pass_tuning *tuning, const char *what, size_t length, uint64_t nanoseconds) {
    char *text = BASE_ARRAY(&tuning->arena, char, length + 1);
    pass_time *time = BASE_NEW(&tuning->arena, pass_time);
    if (!text || !time) return false;
    memcpy(text, what, length);
    *time = (pass_time){text, nanoseconds, NULL};
    if (!base_map_put(&tuning->times, text, time)) return false;
    if (tuning->last) tuning->last->next = time;
    else tuning->first = time;
    tuning->last = time;
    return true;
}

/* ---- as text ------------------------------------------------------------------------------------------- */

base_status pass_tuning_read(pass_tuning *tuning, const char *text, size_t length, base_report *report) {
    int line = 1;
    for (const char *at = text, *end = text + length, *stop; at < end; at = stop + 1, line++) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        if (stop == at) continue;
        const char *tab = memchr(at, '\t', (size_t)(stop - at));
        uint64_t number = 0;
        bool valid = tab && tab > at && tab - at <= 18 && tab + 1 < stop && stop - tab <= KEY_TEXT;
        for (const char *digit = at; valid && digit < tab; digit++) {
            valid = *digit >= '0' && *digit <= '9';
            number = 10 * number + (uint64_t)(*digit - '0');
        }
        for (const char *c = tab; valid && c < stop; c++) valid = *c != 0;
        if (!valid)
            return base_fail(
                report, BASE_INVALID,
                "line %d: expected nanoseconds, a tab, and the kernel and application they are of", line);
        if (!add_time(tuning, tab + 1, (size_t)(stop - tab - 1), number)) return base_fail_memory(report);
    }
    return BASE_OK;
}

char *pass_tuning_write(const pass_tuning *tuning, size_t *length) {
    size_t bytes = 1, used = 0;
    for (const pass_time *time = tuning->first; time; time = time->next) bytes += strlen(time->what) + 24;
    char *text = malloc(bytes);
    if (!text) return NULL;
    text[0] = 0;
    for (const pass_time *time = tuning->first; time; time = time->next) {
        if (base_map_get(&tuning->times, time->what) != time) continue; /* another one came later */
        used +=
            (size_t)snprintf(text + used, bytes - used, "%" PRIu64 "\t%s\n", time->nanoseconds, time->what);
    }
    *length = used;
    return text;
}

/* ---- what is measured ---------------------------------------------------------------------------------- */

typedef struct key {
    char text[KEY_TEXT];
    size_t used;
} key;

static void __attribute__((format(printf, 2, 3))) append(key *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(to->text + to->used, KEY_TEXT - to->used, format, arguments);
    va_end(arguments);
    to->used += written > 0 ? (size_t)written : 0;
    if (to->used >= KEY_TEXT) to->used = KEY_TEXT - 1;
}

/* Types and attributes; of weights, which every kernel packs in its own way, the shape alone. */
static void describe(const rt_kernel *kernel, const op_call *call, const rt_environment *environment,
                     key *to) {
    to->used = 0;
    append(to, "%s %s threads=%d", kernel->name, op_schema_of(call->code)->name, environment->threads);
    for (size_t i = 0; i < call->attributes.count; i++) {
        const op_attribute *attribute = &call->attributes.items[i];
        if (strcmp(attribute->name, "ouro.packed_extents") == 0) continue;
        append(to, " %s=", attribute->name);
        if (attribute->kind == OP_ATTRIBUTE_INT) append(to, "%" PRId64, attribute->as.integer);
        if (attribute->kind == OP_ATTRIBUTE_FLOAT) {
            uint32_t bits;
            memcpy(&bits, &attribute->as.real, sizeof bits);
            append(to, "%08" PRIx32, bits);
        }
        for (size_t k = 0; attribute->kind == OP_ATTRIBUTE_INTS && k < attribute->count; k++)
            append(to, "%s%" PRId64, k ? "," : "", attribute->as.integers[k]);
        for (size_t k = 0; attribute->kind == OP_ATTRIBUTE_STRING && k < attribute->as.text.length; k++) {
            const char c = attribute->as.text.data[k];
            append(to, "%c", c > ' ' && c < 127 ? c : '?');
        }
    }
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const bool made = i >= call->input_count;
        op_type type = made ? call->outputs[i - call->input_count].type : call->inputs[i].type;
        char text[256] = "-";
        if (type.layout == OP_LAYOUT_PACKED) type.layout = OP_LAYOUT_ROW_MAJOR;
        if (type.dtype != OP_NONE) op_type_print(&type, text, sizeof text);
        append(to, "%s%s", made && i == call->input_count ? " -> " : " ", text);
    }
}

/* ---- measuring ----------------------------------------------------------------------------------------- */

/* Of one thread its own time, which does not count what others do on the machine. */
static double now(int threads) {
    struct timespec time;
    clock_gettime(threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Data for a tensor that has none. Small numbers, whatever the type: no arithmetic on them is slow. */
static bool give_data(op_tensor *tensor, base_arena *arena) {
    if (tensor->type.dtype == OP_NONE || tensor->data) return true;
    if (!op_type_bytes(&tensor->type, &tensor->bytes)) return false;
    tensor->data = rt_arena_aligned(arena, tensor->bytes);
    if (!tensor->data) return false;
    memset(tensor->data, 0, tensor->bytes);
    for (size_t i = 0; tensor->type.dtype == OP_FLOAT && i < tensor->bytes / sizeof(float); i++)
        ((float *)tensor->data)[i] = (float)(i % 13) / 13;
    return true;
}

static bool run_often(const rt_kernel *kernel, const op_call *call, const rt_environment *environment,
                      base_arena *arena, double *seconds) {
    base_report ignored = {0};
    rt_prepared prepared;
    op_tensor *inputs = BASE_ARRAY(arena, op_tensor, call->input_count + 1),
              *outputs = BASE_ARRAY(arena, op_tensor, call->output_count + 1);
    if (!inputs || !outputs ||
        rt_kernel_prepare(kernel, call, environment, arena, &prepared, &ignored) != BASE_OK)
        return false;
    void *scratch = rt_arena_aligned(arena, prepared.scratch_bytes + 1);
    bool fine = scratch != NULL;
    for (uint32_t i = 0; i < call->input_count; i++) {
        inputs[i] = call->inputs[i];
        fine = fine && give_data(&inputs[i], arena);
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        outputs[i] = (op_tensor){.type = call->outputs[i].type};
        fine = fine && give_data(&outputs[i], arena);
    }
    double sum = 0;
    for (int run = -1; run < MOST_RUNS && fine && (run < LEAST_RUNS || sum < MEASURED_SECONDS); run++) {
        const double start = now(environment->threads);
        fine = prepared.run(&prepared, inputs, outputs, scratch, &ignored) == BASE_OK;
        const double took = now(environment->threads) - start;
        sum += took;
        if (run == 0 || (run > 0 && took < *seconds)) *seconds = took; /* the first one warms up */
    }
    rt_kernel_release(&prepared);
    return fine;
}

bool pass_tuning_find(const pass_tuning *tuning, const char *what, double *seconds) {
    const pass_time *known = base_map_get(&tuning->times, what);
    if (known) *seconds = (double)known->nanoseconds * 1e-9;
    return known != NULL;
}

bool pass_tuning_add(pass_tuning *tuning, const char *what, double seconds) {
    return add_time(tuning, what, strlen(what), (uint64_t)(seconds * 1e9));
}

bool pass_tuning_knows(const pass_tuning *tuning, const rt_kernel *kernel, const op_call *call,
                       const rt_environment *environment, double *seconds) {
    key what;
    describe(kernel, call, environment, &what);
    return pass_tuning_find(tuning, what.text, seconds);
}

bool pass_tuning_seconds(pass_tuning *tuning, const rt_kernel *kernel, const op_call *call,
                         const rt_environment *environment, double *seconds) {
    base_arena arena;
    key what;
    double measured = 0;
    describe(kernel, call, environment, &what);
    if (pass_tuning_find(tuning, what.text, seconds)) return true;
    if (!tuning->measure) return false;
    base_arena_init(&arena, NULL);
    const bool fine = run_often(kernel, call, environment, &arena, &measured);
    base_arena_free(&arena);
    if (!fine) return false;
    const uint64_t nanoseconds = (uint64_t)(measured * 1e9);
    *seconds = (double)nanoseconds * 1e-9; /* as the record will say */
    return add_time(tuning, what.text, what.used, nanoseconds);
}
