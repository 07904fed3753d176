/* SPDX-License-Identifier: Apache-2.0 */
/* non_max_suppression.c: of boxes that overlap, those with the best scores, class by class. They are selected when
 * they are measured; the scratch keeps them for the run. Of equal scores the one with the lower index comes first;
 * a score that is no number comes last.
 */
#include "runtime/kernels/portable/kernels.h"
#include <inttypes.h>

/* How a box lies, whichever corners it was given by. */
typedef struct nms_box {
    float bottom, left, top, right, area;
} nms_box;

typedef struct nms_state {
    int64_t batches, classes, boxes;
    bool centered;
} nms_state;

/* The scratch. Candidates of one class are a heap at the front of its part; what is selected of them is put at
 * the end of the same part, the first one last: no more can be selected than has left the heap. */
typedef struct nms_context {
    const nms_state *state;
    const float *given, *scores;
    int64_t *counts; /* a class: how many are selected */
    nms_box *boxes;
    int32_t *parts; /* a class: as many as there are boxes */
    int64_t most;
    float overlap, least;
    bool has_least;
} nms_context;

/* ---- boxes --------------------------------------------------------------------------------------------- */

static nms_box read_box(const float given[4], bool centered) {
    float a = given[0], b = given[1], c = given[2], d = given[3];
    if (centered) { /* x, y, width, height */
        float x = given[0], y = given[1], width = given[2] / 2, height = given[3] / 2;
        a = y - height, b = x - width, c = y + height, d = x + width;
    }
    nms_box box = {a < c ? a : c, b < d ? b : d, a < c ? c : a, b < d ? d : b, 0};
    box.area = (box.top - box.bottom) * (box.right - box.left);
    return box;
}

static void read_boxes(void *user, int64_t begin, int64_t end) {
    const nms_context *context = user;
    for (int64_t i = begin; i < end; i++)
        context->boxes[i] = read_box(context->given + 4 * i, context->state->centered);
}

static bool overlaps(const nms_box *a, const nms_box *b, float threshold) {
    float bottom = a->bottom > b->bottom ? a->bottom : b->bottom, top = a->top < b->top ? a->top : b->top;
    float left = a->left > b->left ? a->left : b->left, right = a->right < b->right ? a->right : b->right;
    if (!(top > bottom) || !(right > left)) return false;
    float common = (top - bottom) * (right - left), both = a->area + b->area - common;
    return both > 0 && common / both > threshold;
}

/* ---- candidates ---------------------------------------------------------------------------------------- */

static bool precedes(const float *scores, int32_t a, int32_t b) {
    float x = scores[a], y = scores[b];
    if (x > y) return true;
    if (x < y) return false;
    if (x != y && (x != x) != (y != y)) return y != y;
    return a < b;
}

/* The heap's root is the best candidate. */
static void sink(const float *scores, int32_t *heap, int64_t count, int64_t at) {
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && precedes(scores, heap[child + 1], heap[child])) child++;
        if (!precedes(scores, heap[child], heap[at])) return;
        int32_t kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
        at = child;
    }
}

static void select_classes(void *user, int64_t begin, int64_t end) {
    const nms_context *context = user;
    const nms_state *state = context->state;
    for (int64_t task = begin; task < end; task++) {
        const float *scores = context->scores + task * state->boxes;
        const nms_box *boxes = context->boxes + task / state->classes * state->boxes;
        int32_t *heap = context->parts + task * state->boxes, *last = heap + state->boxes - 1;
        int64_t count = 0, selected = 0;
        for (int64_t i = 0; i < state->boxes && context->most > 0; i++) {
            if (!context->has_least || scores[i] > context->least) heap[count++] = (int32_t)i;
        }
        for (int64_t at = count / 2; at-- > 0;) sink(scores, heap, count, at);
        while (count && selected < context->most) {
            const int32_t best = heap[0];
            heap[0] = heap[--count];
            sink(scores, heap, count, 0);
            bool free = true;
            for (int64_t i = 0; i < selected && free; i++)
                free = !overlaps(&boxes[best], &boxes[*(last - i)], context->overlap);
            if (free) *(last - selected++) = best;
        }
        context->counts[task] = selected;
    }
}

/* ---- measuring and running ----------------------------------------------------------------------------- */

static nms_context context_of(const nms_state *state, const op_tensor *inputs, void *scratch) {
    nms_context context = {.state = state, .given = inputs[0].data, .scores = inputs[1].data};
    context.counts = scratch;
    context.boxes = (nms_box *)(context.counts + state->batches * state->classes);
    context.parts = (int32_t *)(context.boxes + state->batches * state->boxes);
    return context;
}

/* The scalar at input `index`; NULL where it is absent. */
static const void *scalar(const rt_prepared *prepared, const op_tensor *inputs, uint32_t index) {
    return index < prepared->input_count && inputs[index].type.dtype != OP_NONE ? inputs[index].data : NULL;
}

static base_status measure(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    const nms_state *state = prepared->state;
    nms_context context = context_of(state, inputs, scratch);
    const int64_t *most = scalar(prepared, inputs, 2);
    const float *overlap = scalar(prepared, inputs, 3), *least = scalar(prepared, inputs, 4);
    context.most = most ? *most : 0;
    context.overlap = overlap ? *overlap : 0;
    context.has_least = least != NULL;
    context.least = least ? *least : 0;
    if (!(context.overlap >= 0 && context.overlap <= 1)) {
        return base_fail(report, BASE_INVALID, "iou_threshold is %g, expected a number in [0, 1]",
                         (double)context.overlap);
    }
    const int64_t tasks = state->batches * state->classes;
    int64_t total = 0;
    rt_parallel(prepared->threads, state->batches * state->boxes, 8, read_boxes, &context);
    rt_parallel(prepared->threads, tasks, 16 * state->boxes, select_classes, &context);
    for (int64_t task = 0; task < tasks; task++) total += context.counts[task];
    outputs[0].type.shape = (op_shape){.rank = 2, .dims = {total, 3}};
    return BASE_OK;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const nms_state *state = prepared->state;
    const nms_context context = context_of(state, inputs, scratch);
    int64_t *to = outputs[0].data;
    for (int64_t task = 0; task < state->batches * state->classes; task++) {
        const int32_t *last = context.parts + (task + 1) * state->boxes - 1;
        for (int64_t i = 0; i < context.counts[task]; i++) {
            *to++ = task / state->classes;
            *to++ = task % state->classes;
            *to++ = *(last - i);
        }
    }
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    nms_state *state = BASE_NEW(arena, nms_state);
    if (!state) return base_fail_memory(report);
    const op_shape *scores = &call->inputs[1].type.shape;
    state->batches = scores->dims[0];
    state->classes = scores->dims[1];
    state->boxes = scores->dims[2];
    state->centered = op_attribute_integer(&call->attributes, "center_point_box", 0) != 0;
    size_t tasks, parts, boxes, bytes;
    if (state->boxes > INT32_MAX ||
        !base_size_multiply((size_t)state->batches, (size_t)state->classes, &tasks) ||
        !base_size_multiply(tasks, (size_t)state->boxes, &parts) ||
        !base_size_multiply(parts, sizeof(int32_t), &parts) ||
        !base_size_multiply(tasks, sizeof(int64_t), &tasks) ||
        !base_size_multiply((size_t)state->batches, (size_t)state->boxes, &boxes) ||
        !base_size_multiply(boxes, sizeof(nms_box), &boxes) || !base_size_add(tasks, boxes, &bytes) ||
        !base_size_add(bytes, parts, &prepared->scratch_bytes)) {
        return base_fail(report, BASE_INVALID, "there are too many boxes");
    }
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_non_max_suppression = {.name = "portable.non_max_suppression",
                                                 .accepts = rt_accepts_any_row_major,
                                                 .prepare = prepare,
                                                 .measure = measure};
