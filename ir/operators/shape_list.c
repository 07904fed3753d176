/* SPDX-License-Identifier: Apache-2.0 */
/* shape_list.c: implements `shape_list.h`. */
#include "ir/operators/shape_list.h"

/* Goes over one shape at `at`: where the next one begins, or 0 where there is none here. */
static size_t after(const int64_t *list, size_t length, size_t at) {
    if (at >= length || list[at] < -1 || list[at] > OP_MAX_RANK) return 0;
    const size_t extents = list[at] < 0 ? 0 : (size_t)list[at];
    if (length - at - 1 < extents) return 0;
    for (size_t d = 0; d < extents; d++)
        if (list[at + 1 + d] < -1) return 0;
    return at + 1 + extents;
}

bool op_shape_list_read(const int64_t *list, size_t length, size_t index, op_shape *shape) {
    size_t at = 0;
    *shape = (op_shape){.rank = -1};
    for (size_t i = 0; i < index; i++) {
        at = after(list, length, at);
        if (!at) return false;
    }
    if (!after(list, length, at)) return false;
    shape->rank = (int32_t)list[at];
    for (int32_t d = 0; d < shape->rank; d++) {
        const int64_t extent = list[at + 1 + (size_t)d];
        shape->dims[d] = extent < 0 ? OP_DIM_UNKNOWN : extent;
    }
    return true;
}

bool op_shape_list_holds(const int64_t *list, size_t length, size_t count) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        at = after(list, length, at);
        if (!at) return false;
    }
    return at == length;
}

size_t op_shape_list_write(const op_shape *shapes, size_t count, int64_t *list) {
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        list[length++] = shapes[i].rank < 0 ? -1 : shapes[i].rank;
        for (int32_t d = 0; d < shapes[i].rank; d++)
            list[length++] = shapes[i].dims[d] < 0 ? -1 : shapes[i].dims[d];
    }
    return length;
}
