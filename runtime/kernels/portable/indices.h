/* SPDX-License-Identifier: Apache-2.0 */
/* indices.h: indices of entries along an axis, which may be negative. */
#ifndef OURO_INDICES_H
#define OURO_INDICES_H

#include "ir/operators/op.h"

typedef struct rt_indices {
    const void *data;
    int64_t count, extent; /* of the axis */
    bool wide;             /* of 64 bits, else of 32 */
} rt_indices;

/* Indices of this type along an axis of `extent` entries, without data; a count of -1 where only a run knows it. False: no index has this type. */
static inline bool rt_indices_of(const op_type *type, int64_t extent, rt_indices *of) {
    *of = (rt_indices){.count = -1, .extent = extent, .wide = type->dtype == OP_INT64};
    (void)op_shape_elements(&type->shape, &of->count);
    return type->dtype == OP_INT64 || type->dtype == OP_INT32;
}

static inline int64_t rt_index_read(const rt_indices *of, int64_t i) {
    return of->wide ? ((const int64_t *)of->data)[i] : ((const int32_t *)of->data)[i];
}

/* The same, counted from the front. */
static inline int64_t rt_index_at(const rt_indices *of, int64_t i) {
    const int64_t index = rt_index_read(of, i);
    return index < 0 ? index + of->extent : index;
}

/* BASE_INVALID with a report, where one of them is out of range. */
static inline base_status rt_indices_check(const rt_indices *of, base_report *report) {
    for (int64_t i = 0; i < of->count; i++) {
        const int64_t index = rt_index_at(of, i);
        if (index >= 0 && index < of->extent) continue;
        return base_fail(report, BASE_INVALID, "index %lld is outside of [%lld, %lld)",
                         (long long)rt_index_read(of, i), -(long long)of->extent, (long long)of->extent);
    }
    return BASE_OK;
}

#endif
