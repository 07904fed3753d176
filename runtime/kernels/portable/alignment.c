/* SPDX-License-Identifier: Apache-2.0 */
/* alignment.c: how two sequences go together: DynamicTimeWarping, the cheapest path through a matrix of costs, and
 * BifurcationDetector, which accepts predicted tokens up to the first that differs from the source. Both have results whose size
 * depends on data: it is found first, and kept in the scratch for the run.
 */
#include "runtime/kernels/portable/kernels.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- DynamicTimeWarping -------------------------------------------------------------------------------- */

/* From where a point of the matrix is reached. */
enum { FROM_BOTH, FROM_ROW, FROM_COLUMN };

typedef struct warping_state {
    int64_t rows, columns;
} warping_state;

/* The scratch: the length of the path; the path from its end to its start, as rows and columns; costs of a column (those of the
 * one before are replaced one by one); steps. */
typedef struct warping_scratch {
    int64_t *length;
    int32_t *path; /* [rows + columns][2] */
    float *costs;  /* [rows + 1] */
    uint8_t *from; /* [columns][rows] */
} warping_scratch;

static warping_scratch warping_of(const warping_state *s, void *scratch) {
    warping_scratch parts = {.length = scratch};
    parts.path = (int32_t *)(void *)(parts.length + 1);
    parts.costs = (float *)(void *)(parts.path + 2 * (s->rows + s->columns));
    parts.from = (uint8_t *)(parts.costs + s->rows + 1);
    return parts;
}

/* Ties go to the point before in the row, as in ONNX Runtime: a step in both has to be cheaper than each of the others. */
static base_status measure_warping(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                   void *scratch, base_report *report) {
    (void)report;
    const warping_state *s = prepared->state;
    const warping_scratch parts = warping_of(s, scratch);
    const float *cost = inputs[0].data;
    int64_t i = s->rows, j = s->columns, length = 0;
    parts.costs[0] = 0;
    for (int64_t r = 1; r <= s->rows; r++) parts.costs[r] = HUGE_VALF;
    for (int64_t c = 0; c < s->columns; c++) {
        float both = parts.costs[0]; /* what was at the row above, before this column */
        parts.costs[0] = HUGE_VALF;
        for (int64_t r = 1; r <= s->rows; r++) {
            const float above = parts.costs[r - 1], before = parts.costs[r];
            uint8_t *from = &parts.from[c * s->rows + r - 1];
            *from = both < above && both < before ? FROM_BOTH : above < both && above < before ? FROM_ROW : FROM_COLUMN;
            parts.costs[r] = (*from == FROM_BOTH ? both : *from == FROM_ROW ? above : before) +
                             cost[(r - 1) * s->columns + c];
            both = before;
        }
    }
    while (i > 0 && j > 0) {
        const uint8_t from = parts.from[(j - 1) * s->rows + i - 1];
        parts.path[2 * length] = (int32_t)(i - 1);
        parts.path[2 * length + 1] = (int32_t)(j - 1);
        length++;
        i -= from != FROM_COLUMN;
        j -= from != FROM_ROW;
    }
    *parts.length = length;
    outputs[0].type.shape = (op_shape){.rank = 2, .dims = {2, length}};
    return BASE_OK;
}

static base_status run_warping(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                               void *scratch, base_report *report) {
    (void)inputs;
    (void)report;
    const warping_scratch parts = warping_of(prepared->state, scratch);
    const int64_t length = *parts.length;
    int32_t *to = outputs[0].data;
    for (int64_t k = 0; k < 2 * length; k++)
        to[k] = parts.path[k < length ? 2 * (length - 1 - k) : 2 * (2 * length - 1 - k) + 1];
    return BASE_OK;
}

static base_status prepare_warping(const op_call *call, const rt_environment *environment, base_arena *arena,
                                   rt_prepared *prepared, base_report *report) {
    (void)environment;
    warping_state *s = BASE_NEW(arena, warping_state);
    if (!s) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    s->rows = shape->dims[shape->rank - 2];
    s->columns = shape->dims[shape->rank - 1];
    size_t steps, path, most = INT32_MAX;
    if ((size_t)s->rows > most || (size_t)s->columns > most ||
        !base_size_multiply((size_t)s->rows, (size_t)s->columns, &steps) ||
        !base_size_multiply((size_t)(s->rows + s->columns), 2 * sizeof(int32_t), &path) ||
        !base_size_add(steps, path, &steps) || !base_size_add(steps, sizeof(int64_t), &steps) ||
        !base_size_add(steps, (size_t)(s->rows + 1) * sizeof(float), &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "input 0 is too large");
    prepared->state = s;
    prepared->run = run_warping;
    return BASE_OK;
}

/* ---- BifurcationDetector ---------------------------------------------------------------------------------- */

typedef struct detector_state {
    int64_t source, current, predicted; /* how many tokens; the last: -1 where there are none */
    int64_t low, high;                  /* sizes of sequences that are looked for */
} detector_state;

/* How many predicted tokens go to the back of the current ones: up to the first that differs from the source, and that one. */
static base_status measure_detector(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                    void *scratch, base_report *report) {
    const detector_state *s = prepared->state;
    const int64_t *source = inputs[0].data, *start = inputs[2].data;
    int64_t accepted = 0;
    if (s->predicted >= 0) {
        const int64_t *predicted = inputs[3].data;
        if (*start < 0 || *start > s->source || s->predicted != s->source + 1 - *start)
            return base_fail(report, BASE_INVALID,
                             "%" PRId64 " tokens are predicted from place %" PRId64 " of %" PRId64
                             " on, expected one more than are left",
                             s->predicted, *start, s->source);
        while (accepted < s->predicted - 1 && predicted[accepted] == source[*start + accepted]) accepted++;
        accepted++;
    }
    memcpy(scratch, &accepted, sizeof accepted);
    outputs[0].type.shape = (op_shape){.rank = 1, .dims = {s->current + accepted}};
    return BASE_OK;
}

/* The first place from `from` on at which `tokens` stand in the source; -1: none. */
static int64_t find(const int64_t *source, int64_t count, int64_t from, const int64_t *tokens, int64_t size) {
    for (int64_t i = from; i + size <= count; i++)
        if (memcmp(source + i, tokens, (size_t)size * sizeof *source) == 0) return i;
    return -1;
}

/* Where the source goes on after its only occurrence of the last tokens; longer ends are tried until there is none. */
static int64_t suffix_match(const detector_state *s, const int64_t *source, const int64_t *tokens, int64_t count) {
    int64_t match = -1;
    for (int64_t size = s->low; size <= s->high && size <= count; size++) {
        const int64_t *end = tokens + count - size;
        const int64_t at = find(source, s->source, 0, end, size);
        if (at < 0) break;
        match = at + size;
        if (match >= s->source) break;
        if (find(source, s->source, at + 1, end, size) >= 0) match = -1;
    }
    return match;
}

static base_status run_detector(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                void *scratch, base_report *report) {
    (void)report;
    const detector_state *s = prepared->state;
    int64_t accepted, *tokens = outputs[0].data;
    memcpy(&accepted, scratch, sizeof accepted);
    if (s->current) memcpy(tokens, inputs[1].data, (size_t)s->current * sizeof *tokens);
    if (accepted) memcpy(tokens + s->current, inputs[3].data, (size_t)accepted * sizeof *tokens);
    if (prepared->output_count > 1 && outputs[1].type.dtype != OP_NONE)
        *(int64_t *)outputs[1].data = suffix_match(s, inputs[0].data, tokens, s->current + accepted);
    return BASE_OK;
}

static base_status prepare_detector(const op_call *call, const rt_environment *environment, base_arena *arena,
                                    rt_prepared *prepared, base_report *report) {
    (void)environment;
    detector_state *s = BASE_NEW(arena, detector_state);
    if (!s) return base_fail_memory(report);
    s->source = call->inputs[0].type.shape.dims[0];
    s->current = call->inputs[1].type.shape.dims[0];
    s->predicted = op_input_present(call, 3) ? call->inputs[3].type.shape.dims[0] : -1;
    s->low = op_attribute_integer(&call->attributes, "min_ngram_size", 1);
    s->high = op_attribute_integer(&call->attributes, "max_ngram_size", 3);
    prepared->scratch_bytes = sizeof(int64_t);
    prepared->state = s;
    prepared->run = run_detector;
    return BASE_OK;
}

const rt_kernel rt_kernel_time_warping = {.name = "portable.time_warping",
                                          .accepts = rt_accepts_any_row_major,
                                          .prepare = prepare_warping,
                                          .measure = measure_warping};
const rt_kernel rt_kernel_bifurcation = {.name = "portable.bifurcation",
                                         .accepts = rt_accepts_any_row_major,
                                         .prepare = prepare_detector,
                                         .measure = measure_detector};
