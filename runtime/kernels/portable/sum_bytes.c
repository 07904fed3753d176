/* SPDX-License-Identifier: Apache-2.0 */
/* sum_bytes.c: ReduceSum of bytes with ouro.wide: sums in 32 bits, which are exact. What is more than they hold wraps around.
 *
 * The axes that are summed are neighbours, but for those of one element: the tensor is `outer` times `length` rows of `inner` bytes, which are
 * added. Rows of one byte are runs that become one number each; of others, columns are summed in 16 bits for as many rows as these hold.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

/* COLUMNS are summed side by side; STRETCH: rows whose sums 16 bits hold; TOGETHER: rows that are read before sums are stored. */
enum { COLUMNS = 64, STRETCH = 256, TOGETHER = 4 };

typedef struct sums {
    bool negative; /* int8, otherwise uint8 */
    int64_t outer, length, inner;
    int64_t groups; /* of columns */
} sums;

typedef struct sums_job {
    const sums *shape;
    const uint8_t *x;
    int32_t *y;
} sums_job;

/* ---- runs ---------------------------------------------------------------------------------------------- */

#define SUM_RUN(type)                                                                                        \
    RT_CLONES static void runs_##type(const uint8_t *x, int64_t length, int32_t *y, int64_t count) {         \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const type *run = (const type *)x + i * length;                                                  \
            uint32_t sum = 0;                                                                                \
            for (int64_t k = 0; k < length; k++) sum += (uint32_t)(int32_t)run[k];                           \
            y[i] = (int32_t)sum;                                                                             \
        }                                                                                                    \
    }
SUM_RUN(int8_t)
SUM_RUN(uint8_t)

#if RT_X86_KERNELS
enum { BYTES = 64 };

/* An instruction sums eight bytes that have no sign: those with one get 128 more, which are taken away from the sum. */
__attribute__((target("avx512bw"))) static void runs_512(const uint8_t *x, int64_t length, bool negative,
                                                         int32_t *y, int64_t count) {
    const __m512i none = _mm512_setzero_si512(), more = _mm512_set1_epi8(negative ? INT8_MIN : 0);
    const uint32_t all = negative ? 128U * (uint32_t)length : 0;
    for (int64_t i = 0; i < count; i++, x += length) {
        __m512i first = none, second = none;
        int64_t k = 0;
        for (; k + 2 * BYTES <= length; k += 2 * BYTES) {
            const __m512i a = _mm512_xor_si512(_mm512_loadu_si512(x + k), more),
                          b = _mm512_xor_si512(_mm512_loadu_si512(x + k + BYTES), more);
            first = _mm512_add_epi64(first, _mm512_sad_epu8(a, none));
            second = _mm512_add_epi64(second, _mm512_sad_epu8(b, none));
        }
        for (; k < length; k += BYTES) {
            const __mmask64 some = rt_first_lanes_64(length - k);
            const __m512i a = _mm512_mask_xor_epi32(none, 0xffff, _mm512_maskz_loadu_epi8(some, x + k),
                                                    _mm512_maskz_mov_epi8(some, more));
            first = _mm512_add_epi64(first, _mm512_sad_epu8(a, none));
        }
        const uint64_t sum = (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(first, second));
        y[i] = (int32_t)((uint32_t)sum - all);
    }
}
#endif

static void sum_runs(void *user, int64_t begin, int64_t end) {
    const sums_job *job = user;
    const int64_t length = job->shape->length;
    const uint8_t *x = job->x + begin * length;
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512bw")) {
        runs_512(x, length, job->shape->negative, job->y + begin, end - begin);
        return;
    }
#endif
    if (job->shape->negative) runs_int8_t(x, length, job->y + begin, end - begin);
    else runs_uint8_t(x, length, job->y + begin, end - begin);
}

/* ---- columns ------------------------------------------------------------------------------------------- */

/* Of `columns` columns of some rows, `step` bytes apart. */
#define SUM_COLUMNS(type, half)                                                                              \
    static inline __attribute__((always_inline)) void add_##type(const type *x, int64_t step, int64_t rows,  \
                                                                 int64_t columns, int32_t *restrict y) {     \
        half some[COLUMNS];                                                                                  \
        for (int64_t c = 0; c < columns; c++) y[c] = 0;                                                      \
        for (int64_t r = 0; r < rows;) {                                                                     \
            const int64_t end = rows - r < STRETCH ? rows : r + STRETCH;                                     \
            for (int64_t c = 0; c < columns; c++) some[c] = 0;                                               \
            for (; r + TOGETHER <= end; r += TOGETHER) {                                                     \
                const type *from = x + r * step;                                                             \
                RT_VECTOR for (int64_t c = 0; c < columns; c++) some[c] =                                    \
                    (half)(some[c] + from[c] + from[step + c] + from[2 * step + c] + from[3 * step + c]);    \
            }                                                                                                \
            for (; r < end; r++)                                                                             \
                RT_VECTOR for (int64_t c = 0; c < columns; c++) some[c] = (half)(some[c] + x[r * step + c]); \
            RT_VECTOR for (int64_t c = 0; c < columns; c++) y[c] =                                           \
                (int32_t)((uint32_t)y[c] + (uint32_t)(int32_t)some[c]);                                      \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void columns_##type(const sums *shape, const uint8_t *x, int64_t outer, int64_t group,  \
                                         int32_t *y) {                                                       \
        const int64_t first = group * COLUMNS, rest = shape->inner - first;                                  \
        const type *from = (const type *)x + outer * shape->length * shape->inner + first;                   \
        int32_t *to = y + outer * shape->inner + first;                                                      \
        if (rest >= COLUMNS) add_##type(from, shape->inner, shape->length, COLUMNS, to);                     \
        else add_##type(from, shape->inner, shape->length, rest, to);                                        \
    }
SUM_COLUMNS(int8_t, int16_t)
SUM_COLUMNS(uint8_t, uint16_t)

static void sum_columns(void *user, int64_t begin, int64_t end) {
    const sums_job *job = user;
    const sums *shape = job->shape;
    for (int64_t i = begin; i < end; i++) {
        const int64_t outer = i / shape->groups, group = i % shape->groups;
        if (shape->negative) columns_int8_t(shape, job->x, outer, group, job->y);
        else columns_uint8_t(shape, job->x, outer, group, job->y);
    }
}

/* ---- the kernel ---------------------------------------------------------------------------------------- */

/* Works out the extents. False where axes are summed that are no neighbours, or are not known. */
static bool read_sums(const op_call *call, sums *shape) {
    const op_type *x = &call->inputs[0].type;
    const int64_t *axes = op_input_present(call, 1) ? call->inputs[1].data : NULL;
    bool marks[OP_MAX_RANK] = {false};
    int64_t count;
    if (!axes || !op_shape_elements(&call->inputs[1].type.shape, &count) || count < 1) return false;
    for (int64_t i = 0; i < count; i++) {
        int32_t axis;
        if (!op_axis(axes[i], x->shape.rank, &axis)) return false;
        marks[axis] = true;
    }
    *shape = (sums){.negative = x->dtype == OP_INT8, .outer = 1, .length = 1, .inner = 1};
    bool begun = false, ended = false;
    for (int32_t d = 0; d < x->shape.rank; d++) {
        const int64_t dim = x->shape.dims[d];
        if (dim == 1) continue;
        if (marks[d] && ended) return false;
        begun |= marks[d];
        ended |= begun && !marks[d];
        int64_t *extent = marks[d] ? &shape->length : ended ? &shape->inner : &shape->outer;
        if (dim >= 0 && !base_int64_multiply(*extent, dim, extent)) return false; /* or an open number */
    }
    shape->groups = shape->inner / COLUMNS + (shape->inner % COLUMNS != 0);
    return true;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const sums *shape = prepared->state;
    sums_job job = {.shape = shape, .x = inputs[0].data, .y = outputs[0].data};
    const int64_t work = shape->length < 1 ? 1 : shape->length;
    if (shape->outer < 1 || shape->inner < 1) return BASE_OK;
    if (shape->inner == 1) rt_parallel(prepared->threads, shape->outer, work, sum_runs, &job);
    else rt_parallel(prepared->threads, shape->outer * shape->groups, work * COLUMNS / 4, sum_columns, &job);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    const op_dtype dtype = call->inputs[0].type.dtype;
    sums shape;
    return op_attribute_integer(&call->attributes, "ouro.wide", 0) != 0 && rt_is_byte(dtype) &&
           call->outputs[0].type.dtype == OP_INT32 && rt_accepts_row_major(call) && read_sums(call, &shape);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    sums *shape = BASE_NEW(arena, sums);
    if (!shape) return base_fail_memory(report);
    if (!read_sums(call, shape))
        return base_fail(report, BASE_INVALID, "input 1 names axes that are no neighbours");
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_sum_bytes = {.name = "portable.sum_bytes", .accepts = accepts, .prepare = prepare};
