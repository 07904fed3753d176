/* op_select.c: see op_select.h. */
#include "ir/op_select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool op_is_nonzero(const op_tensor *tensor, int64_t index) {
    static const unsigned char zeros[16] = {0};
    size_t bytes = op_dtype_bytes(tensor->type.dtype);
    const unsigned char *at = (const unsigned char *)tensor->data + (size_t)index * bytes;
    switch (tensor->type.dtype) {
    case OP_FLOAT:
        return *(const float *)(const void *)at != 0;
    case OP_DOUBLE:
        return *(const double *)(const void *)at != 0;
    case OP_FLOAT16:
    case OP_BFLOAT16:
        return (*(const uint16_t *)(const void *)at & 0x7fffu) != 0; /* minus zero is zero, too */
    default:
        return memcmp(at, zeros, bytes < sizeof zeros ? bytes : sizeof zeros) != 0;
    }
}

int64_t op_count_nonzero(const op_tensor *tensor, int64_t count) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) found += op_is_nonzero(tensor, i);
    return found;
}

/* ---- Unique -------------------------------------------------------------------------------------------- */

typedef struct slices {
    const op_tensor *tensor;
    int64_t outer, extent, inner;
} slices;

/* The bits of a half, as numbers that are in the order of the values. */
static int32_t half_order(uint16_t half) {
    return half & 0x8000u ? -(int32_t)(half & 0x7fffu) : (int32_t)half;
}

static bool is_nan_half(op_dtype dtype, uint16_t half) {
    return (half & 0x7fffu) > (dtype == OP_FLOAT16 ? 0x7c00u : 0x7f80u);
}

#define COMPARE(type)                                                                                        \
    {                                                                                                        \
        const type x = ((const type *)data)[a], y = ((const type *)data)[b];                                 \
        return x < y ? -1 : x > y;                                                                           \
    }

/* NaNs come last; two of them by their places. */
static int compare_elements(const op_tensor *tensor, int64_t a, int64_t b) {
    const void *data = tensor->data;
    switch (tensor->type.dtype) {
    case OP_FLOAT: {
        const float x = ((const float *)data)[a], y = ((const float *)data)[b];
        if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? (a < b ? -1 : a > b) : isnan(x) ? 1 : -1;
        return x < y ? -1 : x > y;
    }
    case OP_DOUBLE: {
        const double x = ((const double *)data)[a], y = ((const double *)data)[b];
        if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? (a < b ? -1 : a > b) : isnan(x) ? 1 : -1;
        return x < y ? -1 : x > y;
    }
    case OP_FLOAT16:
    case OP_BFLOAT16: {
        const uint16_t x = ((const uint16_t *)data)[a], y = ((const uint16_t *)data)[b];
        bool left = is_nan_half(tensor->type.dtype, x), right = is_nan_half(tensor->type.dtype, y);
        if (left || right) return left && right ? (a < b ? -1 : a > b) : left ? 1 : -1;
        return half_order(x) < half_order(y) ? -1 : half_order(x) > half_order(y);
    }
    case OP_INT8:
        COMPARE(int8_t)
    case OP_INT16:
        COMPARE(int16_t)
    case OP_UINT16:
        COMPARE(uint16_t)
    case OP_INT32:
        COMPARE(int32_t)
    case OP_UINT32:
        COMPARE(uint32_t)
    case OP_INT64:
        COMPARE(int64_t)
    case OP_UINT64:
        COMPARE(uint64_t)
    default: {
        size_t bytes = op_dtype_bytes(tensor->type.dtype);
        return memcmp((const char *)data + (size_t)a * bytes, (const char *)data + (size_t)b * bytes, bytes);
    }
    }
}

static int compare_slices(const slices *s, int64_t a, int64_t b) {
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t i = 0; i < s->inner; i++) {
            int order = compare_elements(s->tensor, (o * s->extent + a) * s->inner + i,
                                         (o * s->extent + b) * s->inner + i);
            if (order) return order;
        }
    }
    return 0;
}

/* Merge sort of slice numbers: stable, so that of equal slices the first stays first. */
static void sort_slices(const slices *s, int64_t *items, int64_t *other, int64_t count) {
    if (count < 2) return;
    int64_t half = count / 2, left = 0, right = half, to = 0;
    sort_slices(s, items, other, half);
    sort_slices(s, items + half, other, count - half);
    while (left < half || right < count) {
        bool take_left = right >= count || (left < half && compare_slices(s, items[left], items[right]) <= 0);
        other[to++] = items[take_left ? left++ : right++];
    }
    memcpy(items, other, (size_t)count * sizeof *items);
}

bool op_select_unique(const op_tensor *tensor, int32_t axis, bool sorted, base_arena *arena,
                      op_unique *unique) {
    slices s = {.tensor = tensor, .outer = 1, .extent = 1, .inner = 1};
    const op_shape *shape = &tensor->type.shape;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (axis < 0 || d == axis) s.extent *= shape->dims[d];
        else if (d < axis) s.outer *= shape->dims[d];
        else s.inner *= shape->dims[d];
    }
    size_t count = (size_t)s.extent;
    int64_t *order = BASE_ARRAY(arena, int64_t, count + 1), *spare = BASE_ARRAY(arena, int64_t, count + 1);
    *unique = (op_unique){.slices = s.extent,
                          .first = BASE_ARRAY(arena, int64_t, count + 1),
                          .inverse = BASE_ARRAY(arena, int64_t, count + 1),
                          .counts = BASE_ARRAY(arena, int64_t, count + 1)};
    if (!order || !spare || !unique->first || !unique->inverse || !unique->counts) return false;
    for (int64_t i = 0; i < s.extent; i++) order[i] = i;
    sort_slices(&s, order, spare, s.extent);
    for (int64_t i = 0; i < s.extent; i++) {
        bool new_one = i == 0 || compare_slices(&s, order[i - 1], order[i]) != 0;
        if (new_one) unique->first[unique->count++] = order[i];
        unique->inverse[order[i]] = unique->count - 1;
        unique->counts[unique->count - 1]++;
    }
    if (sorted) return true;
    /* In the order in which they occur: number them anew. */
    int64_t *renamed = order, *counts = spare, next = 0;
    for (int64_t u = 0; u < unique->count; u++) renamed[u] = -1;
    for (int64_t i = 0; i < s.extent; i++) {
        int64_t u = unique->inverse[i];
        if (renamed[u] < 0) {
            counts[next] = unique->counts[u];
            unique->first[next] = i;
            renamed[u] = next++;
        }
    }
    for (int64_t i = 0; i < s.extent; i++) unique->inverse[i] = renamed[unique->inverse[i]];
    memcpy(unique->counts, counts, (size_t)unique->count * sizeof *counts);
    return true;
}

/* ---- NonMaxSuppression --------------------------------------------------------------------------------- */

typedef struct rectangle {
    float top, left, bottom, right;
} rectangle;

static rectangle read_box(const float *box, bool centred) {
    if (centred) /* x and y of the centre, width, height */
        return (rectangle){box[1] - box[3] / 2, box[0] - box[2] / 2, box[1] + box[3] / 2,
                           box[0] + box[2] / 2};
    return (rectangle){fminf(box[0], box[2]), fminf(box[1], box[3]), fmaxf(box[0], box[2]),
                       fmaxf(box[1], box[3])};
}

static float overlap(rectangle a, rectangle b) {
    float high = fminf(a.bottom, b.bottom) - fmaxf(a.top, b.top),
          wide = fminf(a.right, b.right) - fmaxf(a.left, b.left);
    if (!(high > 0) || !(wide > 0)) return 0;
    float shared = high * wide,
          area = (a.bottom - a.top) * (a.right - a.left) + (b.bottom - b.top) * (b.right - b.left);
    return area - shared > 0 ? shared / (area - shared) : 0;
}

static double first_real(const op_call *call, uint32_t input, double otherwise) {
    return op_input_present(call, input) ? (double)*(const float *)call->inputs[input].data : otherwise;
}

bool op_select_boxes(const op_call *call, base_arena *arena, int64_t **triples, int64_t *count) {
    const int64_t batches = call->inputs[1].type.shape.dims[0], classes = call->inputs[1].type.shape.dims[1],
                  boxes = call->inputs[0].type.shape.dims[1];
    const float *places = call->inputs[0].data, *scores = call->inputs[1].data;
    int64_t most = op_input_present(call, 2) ? *(const int64_t *)call->inputs[2].data : 0;
    const float limit = (float)first_real(call, 3, 0), least = (float)first_real(call, 4, -INFINITY);
    const bool centred = op_attribute_integer(&call->attributes, "center_point_box", 0) != 0;
    if (most > boxes) most = boxes;
    if (most < 0) most = 0;
    size_t all;
    *count = 0;
    if (!base_size_multiply((size_t)batches, (size_t)classes, &all) ||
        !base_size_multiply(all, (size_t)most, &all) || !base_size_multiply(all, 3, &all))
        return false;
    *triples = BASE_ARRAY(arena, int64_t, all + 1);
    int64_t *order = BASE_ARRAY(arena, int64_t, (size_t)boxes + 1),
            *spare = BASE_ARRAY(arena, int64_t, (size_t)boxes + 1);
    if (!*triples || !order || !spare) return false;
    for (int64_t group = 0; group < batches * classes; group++) {
        const float *score = scores + group * boxes, *box = places + group / classes * boxes * 4;
        int64_t candidates = 0, kept = 0, *into = *triples + 3 * *count;
        for (int64_t i = 0; i < boxes; i++)
            if (score[i] > least) order[candidates++] = i;
        /* Falling scores, of equal ones the first: a merge sort from the bottom up. */
        for (int64_t width = 1; width < candidates; width *= 2) {
            for (int64_t begin = 0; begin < candidates; begin += 2 * width) {
                int64_t middle = begin + width < candidates ? begin + width : candidates,
                        end = begin + 2 * width < candidates ? begin + 2 * width : candidates, left = begin,
                        right = middle;
                for (int64_t to = begin; to < end; to++) {
                    bool take_left =
                        right >= end || (left < middle && score[order[left]] >= score[order[right]]);
                    spare[to] = order[take_left ? left++ : right++];
                }
            }
            memcpy(order, spare, (size_t)candidates * sizeof *order);
        }
        for (int64_t c = 0; c < candidates && kept < most; c++) {
            rectangle one = read_box(box + order[c] * 4, centred);
            bool free_of = true;
            for (int64_t k = 0; k < kept && free_of; k++)
                free_of = overlap(one, read_box(box + into[3 * k + 2] * 4, centred)) <= limit;
            if (!free_of) continue;
            into[3 * kept] = group / classes;
            into[3 * kept + 1] = group % classes;
            into[3 * kept + 2] = order[c];
            kept++;
        }
        *count += kept;
    }
    return true;
}
