/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: what the portable kernels share: blocks of half precision, loops over several tensors, strided copies. */
#include "runtime/kernels/portable/kernels.h"
#include "ir/operators/small.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/half_lanes.h"
#include "runtime/kernels/portable/spans.h"
#include "runtime/kernels/portable/turn.h"
#include "runtime/kernels/portable/turn_groups.h"
#include <math.h>
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

/* ---- half precision -------------------------------------------------------------------------------------
 */

RT_CLONES static void half_load(float *to, const uint16_t *from, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) {
        uint32_t half = from[i], sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
        union {
            uint32_t bits;
            float value;
        } scaled = {.bits = rest << 13};
        scaled.value *= 0x1p112f;
        uint32_t special = 0x7f800000u | (rest & 0x3ffu) << 13;
        scaled.bits = sign | (rest >= 0x7c00u ? special : scaled.bits);
        to[i] = scaled.value;
    }
}

RT_CLONES static void brain_load(float *to, const uint16_t *from, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) {
        union {
            uint32_t bits;
            float value;
        } wide = {.bits = (uint32_t)from[i] << 16};
        to[i] = wide.value;
    }
}

/* The same roundings as base_half_from_float and base_bfloat16_from_float, without branches. */
RT_CLONES static void half_store(uint16_t *to, const float *from, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) {
        union {
            float value;
            uint32_t bits;
        } word = {.value = from[i]}, small;
        const uint32_t sign = word.bits >> 16 & 0x8000u, rest = word.bits & 0x7fffffffu;
        const uint32_t normal = ((rest + 0xfffu + (rest >> 13 & 1u)) >> 13) - (112u << 10);
        /* Added to 1/2, a number is rounded to a multiple of the smallest half: the addition does the work.
         */
        small.bits = rest;
        small.value += 0.5f;
        const uint32_t subnormal = small.bits - 0x3f000000u;
        uint32_t half = rest < 0x38800000u ? subnormal : normal;
        half = rest >= 0x47800000u ? 0x7c00u : half;
        half = rest > 0x7f800000u ? 0x7e00u : half;
        to[i] = (uint16_t)(sign | half);
    }
}

RT_CLONES static void brain_store(uint16_t *to, const float *from, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) {
        union {
            float value;
            uint32_t bits;
        } word = {.value = from[i]};
        const uint32_t rounded = (word.bits + 0x7fffu + (word.bits >> 16 & 1u)) >> 16;
        const bool nan = (word.bits & 0x7fffffffu) > 0x7f800000u;
        to[i] = (uint16_t)(nan ? word.bits >> 16 | 0x40u : rounded);
    }
}

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define F16C __attribute__((target("avx2,f16c")))

static bool has_halves_512(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

static bool has_halves_256(void) {
    return __builtin_cpu_supports("avx2") && rt_has_half_conversions();
}

/* Converts 16 elements at a time. Fewer, the last ones, are written through a mask, which takes longer. */
#define CONVERT_512(name, target, source, ALL, SOME)                                                         \
    AVX512 static void name(target *to, const source *from, int64_t count) {                                 \
        const int64_t whole = count - count % 16;                                                            \
        for (int64_t i = 0; i < whole; i += 16) ALL(from + i, to + i);                                       \
        if (whole < count) SOME(from + whole, to + whole, rt_first_lanes_16(count - whole));                 \
    }

#define WIDEN_HALVES(from, to)                                                                               \
    _mm512_storeu_ps(to, rt_widened_16(_mm256_loadu_si256((const __m256i *)(const void *)(from))))
#define WIDEN_SOME_HALVES(from, to, lanes)                                                                   \
    _mm512_mask_storeu_ps(to, lanes, rt_widened_16(_mm256_maskz_loadu_epi16(lanes, from)))
#define NARROW_HALVES(from, to)                                                                              \
    _mm256_storeu_si256((__m256i *)(void *)(to), rt_narrowed_16(_mm512_loadu_ps(from)))
#define NARROW_SOME_HALVES(from, to, lanes)                                                                  \
    _mm256_mask_storeu_epi16(to, lanes, rt_narrowed_16(_mm512_maskz_loadu_ps(lanes, from)))
#define WIDEN_BRAINS(from, to) _mm512_storeu_ps(to, RT_LOAD_BRAIN_16(, from))
#define WIDEN_SOME_BRAINS(from, to, lanes)                                                                   \
    _mm512_mask_storeu_epi32(                                                                                \
        to, lanes, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from)), 16))
#define NARROW_BRAINS(from, to) RT_STORE_BRAIN_16(_mm512_loadu_ps(from), to)
#define NARROW_SOME_BRAINS(from, to, lanes)                                                                  \
    _mm256_mask_storeu_epi16(to, lanes,                                                                      \
                             _mm512_cvtepi32_epi16(rt_brains_16(_mm512_maskz_loadu_ps(lanes, from))))
CONVERT_512(half_load_512, float, uint16_t, WIDEN_HALVES, WIDEN_SOME_HALVES)
CONVERT_512(half_store_512, uint16_t, float, NARROW_HALVES, NARROW_SOME_HALVES)
CONVERT_512(brain_load_512, float, uint16_t, WIDEN_BRAINS, WIDEN_SOME_BRAINS)
CONVERT_512(brain_store_512, uint16_t, float, NARROW_BRAINS, NARROW_SOME_BRAINS)

/* The last vector begins where it ends with the others' elements; fewer than a vector holds, and vectors with a NaN, are left to the loops
 * above. */
F16C static void half_load_256(float *to, const uint16_t *from, int64_t count) {
    if (count < 8) {
        half_load(to, from, count);
        return;
    }
    for (int64_t i = 0; i < count; i += 8) {
        const int64_t at = i + 8 <= count ? i : count - 8;
        const __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + at)));
        if (_mm256_movemask_ps(_mm256_cmp_ps(wide, wide, _CMP_UNORD_Q))) half_load(to + at, from + at, 8);
        else _mm256_storeu_ps(to + at, wide);
    }
}

F16C static void half_store_256(uint16_t *to, const float *from, int64_t count) {
    if (count < 8) {
        half_store(to, from, count);
        return;
    }
    for (int64_t i = 0; i < count; i += 8) {
        const int64_t at = i + 8 <= count ? i : count - 8;
        const __m256 wide = _mm256_loadu_ps(from + at);
        if (_mm256_movemask_ps(_mm256_cmp_ps(wide, wide, _CMP_UNORD_Q))) half_store(to + at, from + at, 8);
        else _mm_storeu_si128((__m128i *)(void *)(to + at), _mm256_cvtps_ph(wide, RT_ROUND_HALF));
    }
}

void rt_half_load(op_dtype dtype, float *to, const uint16_t *from, int64_t count) {
    const bool half = dtype == OP_FLOAT16;
    if (has_halves_512()) (half ? half_load_512 : brain_load_512)(to, from, count);
    else (!half ? brain_load : has_halves_256() ? half_load_256 : half_load)(to, from, count);
}

void rt_half_store(op_dtype dtype, uint16_t *to, const float *from, int64_t count) {
    const bool half = dtype == OP_FLOAT16;
    if (has_halves_512()) (half ? half_store_512 : brain_store_512)(to, from, count);
    else (!half ? brain_store : has_halves_256() ? half_store_256 : half_store)(to, from, count);
}
#else
void rt_half_load(op_dtype dtype, float *to, const uint16_t *from, int64_t count) {
    (dtype == OP_FLOAT16 ? half_load : brain_load)(to, from, count);
}

void rt_half_store(op_dtype dtype, uint16_t *to, const float *from, int64_t count) {
    (dtype == OP_FLOAT16 ? half_store : brain_store)(to, from, count);
}
#endif

/* ---- elements of less than a byte ------------------------------------------------------------------------ */

void rt_unpack(op_dtype dtype, uint8_t *to, const void *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = op_small_load(dtype, from, i);
}

void rt_pack(op_dtype dtype, void *to, const uint8_t *from, int64_t count) {
    const int64_t each = 8 / (int64_t)op_dtype_bits(dtype);
    if (count > 0) memset(to, 0, (size_t)((count + each - 1) / each));
    for (int64_t i = 0; i < count; i++) op_small_store(dtype, to, i, from[i]);
}

/* ---- integers ------------------------------------------------------------------------------------------- */

int64_t rt_integer_load(op_dtype dtype, const void *data, int64_t index) {
    switch (dtype) {
    case OP_INT64:
    case OP_UINT64:
        return ((const int64_t *)data)[index];
    case OP_INT32:
        return ((const int32_t *)data)[index];
    case OP_UINT32:
        return ((const uint32_t *)data)[index];
    case OP_INT16:
        return ((const int16_t *)data)[index];
    case OP_UINT16:
        return ((const uint16_t *)data)[index];
    case OP_INT8:
        return ((const int8_t *)data)[index];
    default:
        return ((const uint8_t *)data)[index];
    }
}

void rt_integer_store(op_dtype dtype, void *data, int64_t index, uint64_t value) {
    switch (op_dtype_bytes(dtype)) {
    case 8:
        ((uint64_t *)data)[index] = value;
        break;
    case 4:
        ((uint32_t *)data)[index] = (uint32_t)value;
        break;
    case 2:
        ((uint16_t *)data)[index] = (uint16_t)value;
        break;
    default:
        ((uint8_t *)data)[index] = (uint8_t)value;
    }
}

/* ---- loops ------------------------------------------------------------------------------------------------
 */

void rt_loop_collapse(rt_loop *loop) {
    int32_t rank = 0;
    for (int32_t i = 0; i < loop->rank; i++) {
        if (loop->dims[i] == 1) continue;
        bool joins = rank > 0;
        for (int32_t k = 0; k < loop->operands && joins; k++) {
            joins = loop->strides[k][rank - 1] == loop->strides[k][i] * loop->dims[i];
        }
        int32_t at = joins ? rank - 1 : rank++;
        loop->dims[at] = joins ? loop->dims[at] * loop->dims[i] : loop->dims[i];
        for (int32_t k = 0; k < loop->operands; k++) loop->strides[k][at] = loop->strides[k][i];
    }
    if (rank == 0) {
        rank = 1;
        loop->dims[0] = 1;
        for (int32_t k = 0; k < loop->operands; k++) loop->strides[k][0] = 1;
    }
    loop->rank = rank;
}

void rt_loop_broadcast(rt_loop *loop, const op_shape *output, const op_shape *const *inputs, int32_t count) {
    loop->rank = output->rank;
    loop->operands = count + 1;
    for (int32_t k = 0; k <= count; k++) {
        const op_shape *shape = k == 0 ? output : inputs[k - 1];
        int64_t stride = 1;
        for (int32_t i = output->rank - 1; i >= 0; i--) {
            int32_t own = i - (output->rank - shape->rank);
            int64_t dim = own >= 0 ? shape->dims[own] : 1;
            loop->dims[i] = output->dims[i];
            loop->strides[k][i] = dim == 1 ? 0 : stride;
            stride *= dim;
        }
    }
    rt_loop_collapse(loop);
}

int64_t rt_loop_elements(const rt_loop *loop) {
    int64_t elements = 1;
    for (int32_t i = 0; i < loop->rank; i++) elements *= loop->dims[i];
    return elements;
}

typedef struct row_context {
    const rt_loop *loop;
    rt_row_function *row;
    void *context;
    int64_t pieces, grain; /* of an innermost row */
} row_context;

static void run_rows(void *user, int64_t begin, int64_t end) {
    const row_context *rows = user;
    const rt_loop *loop = rows->loop;
    int32_t outer = loop->rank - 1, operands = loop->operands;
    int64_t index[RT_LOOP_RANK], offsets[RT_LOOP_OPERANDS] = {0}, inner = loop->dims[outer];
    int64_t rest = begin / rows->pieces, piece = begin % rows->pieces;
    for (int32_t i = outer - 1; i >= 0; i--) {
        index[i] = rest % loop->dims[i];
        rest /= loop->dims[i];
        for (int32_t k = 0; k < operands; k++) offsets[k] += index[i] * loop->strides[k][i];
    }
    for (int64_t task = begin; task < end;) {
        if (rows->pieces == 1) {
            rows->row(rows->context, offsets, inner);
        } else {
            int64_t first = piece * rows->grain,
                    length = inner - first < rows->grain ? inner - first : rows->grain;
            int64_t at[RT_LOOP_OPERANDS];
            for (int32_t k = 0; k < operands; k++) at[k] = offsets[k] + first * loop->strides[k][outer];
            rows->row(rows->context, at, length);
        }
        if (++task == end) return;
        if (++piece < rows->pieces) continue;
        piece = 0;
        for (int32_t i = outer - 1; i >= 0; i--) {
            for (int32_t k = 0; k < operands; k++) offsets[k] += loop->strides[k][i];
            if (++index[i] < loop->dims[i]) break;
            index[i] = 0;
            for (int32_t k = 0; k < operands; k++) offsets[k] -= loop->dims[i] * loop->strides[k][i];
        }
    }
}

void rt_loop_run(const rt_loop *loop, int threads, int64_t work, rt_row_function *row, void *context) {
    int64_t elements = rt_loop_elements(loop), inner = loop->dims[loop->rank - 1];
    if (elements == 0) return;
    if (loop->rank == 1 && (threads <= 1 || elements < RT_PARALLEL_WORK / work)) {
        const int64_t offsets[RT_LOOP_OPERANDS] = {0};
        row(context, offsets, inner);
        return;
    }
    row_context rows = {.loop = loop, .row = row, .context = context, .grain = 4096, .pieces = 1};
    if (threads > 1 && inner > 2 * rows.grain) rows.pieces = (inner + rows.grain - 1) / rows.grain;
    int64_t length = rows.pieces > 1 ? rows.grain : inner;
    rt_parallel(threads, elements / inner * rows.pieces, length * work, run_rows, &rows);
}

/* ---- copies ---------------------------------------------------------------------------------------------
 */

typedef struct element16 {
    uint64_t parts[2];
} element16;

typedef struct copy_context {
    char *to;
    const char *from;
    size_t size;
    int64_t to_stride, from_stride;                /* innermost */
    int64_t across, to_across, from_across, inner; /* of a tile: the dimension outside of the innermost */
} copy_context;

static void row_bytes(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {
    const copy_context *copy = user;
    memcpy(copy->to + offsets[0] * (int64_t)copy->size, copy->from + offsets[1] * (int64_t)copy->size,
           (size_t)length * copy->size);
}

/* Rows of single elements, and tiles in which one side runs along one dimension and the other side along the
 * next: both are walked in squares that fit the nearest cache. */
#define COPY_ROWS(type)                                                                                      \
    static void row_##type(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {            \
        const copy_context *copy = user;                                                                     \
        type *to = (type *)(void *)copy->to + offsets[0];                                                    \
        const type *from = (const type *)(const void *)copy->from + offsets[1];                              \
        const int64_t to_stride = copy->to_stride, from_stride = copy->from_stride;                          \
        if (from_stride == 0 && to_stride == 1) {                                                            \
            const type value = from[0];                                                                      \
            for (int64_t i = 0; i < length; i++) to[i] = value;                                              \
        } else if (to_stride == 1 && from_stride == 2) { /* a constant, for the vectoriser */                \
            for (int64_t i = 0; i < length; i++) to[i] = from[2 * i];                                        \
        } else if (to_stride == 1) {                                                                         \
            for (int64_t i = 0; i < length; i++) to[i] = from[i * from_stride];                              \
        } else {                                                                                             \
            for (int64_t i = 0; i < length; i++) to[i * to_stride] = from[i * from_stride];                  \
        }                                                                                                    \
    }

#define COPY_TILES(type)                                                                                     \
    static void tile_##type(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {           \
        const copy_context *copy = user;                                                                     \
        type *to = (type *)(void *)copy->to + offsets[0];                                                    \
        const type *from = (const type *)(const void *)copy->from + offsets[1];                              \
        const int64_t to_across = copy->to_across, from_stride = copy->from_stride, inner = copy->inner;     \
        enum { SIDE = 16 };                                                                                  \
        for (int64_t r = 0; r < length; r += SIDE) {                                                         \
            const int64_t rows = length - r < SIDE ? length - r : SIDE;                                      \
            for (int64_t c = 0; c < inner; c += SIDE) {                                                      \
                const int64_t columns = inner - c < SIDE ? inner - c : SIDE;                                 \
                for (int64_t i = 0; i < rows; i++) {                                                         \
                    type *line = to + (r + i) * to_across + c;                                               \
                    const type *column = from + (r + i) + c * from_stride;                                   \
                    for (int64_t k = 0; k < columns; k++) line[k] = column[k * from_stride];                 \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

/* Small elements are turned in registers. */
#define COPY_TURNED(name, type)                                                                              \
    static void name(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {                  \
        const copy_context *copy = user;                                                                     \
        rt_##name((const type *)(const void *)copy->from + offsets[1], copy->from_stride, copy->inner,       \
                  length, (type *)(void *)copy->to + offsets[0], copy->to_across);                           \
    }
COPY_TURNED(turn_bytes, uint8_t)
COPY_TURNED(turn_halves, uint16_t)
COPY_TURNED(turn_words, uint32_t)
COPY_TURNED(turn_longs, uint64_t)

COPY_ROWS(uint8_t)
COPY_ROWS(uint16_t)
COPY_ROWS(uint32_t)
COPY_ROWS(uint64_t)
COPY_ROWS(element16)
COPY_TILES(element16)

/* Two to four elements that lie together, as a picture's colours do, apart from each other, and those side by side that lie apart: all of
 * them in one pass. `across` of them, to_across or from_across apart. */
#define COPY_FEW(type, few)                                                                                  \
    RT_CLONES static void part_##few##_##type(type *restrict to, int64_t across, const type *restrict from,  \
                                              int64_t length) {                                              \
        for (int64_t i = 0; i < length; i++)                                                                 \
            for (int k = 0; k < few; k++) to[k * across + i] = from[i * few + k];                            \
    }                                                                                                        \
    RT_CLONES static void join_##few##_##type(type *restrict to, const type *restrict from, int64_t across,  \
                                              int64_t length) {                                              \
        for (int64_t i = 0; i < length; i++)                                                                 \
            for (int k = 0; k < few; k++) to[i * few + k] = from[k * across + i];                            \
    }
#define COPY_FEWS(type)                                                                                      \
    COPY_FEW(type, 2)                                                                                        \
    COPY_FEW(type, 3)                                                                                        \
    COPY_FEW(type, 4)                                                                                        \
    static void few_##type(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {            \
        const copy_context *copy = user;                                                                     \
        type *to = (type *)(void *)copy->to + offsets[0];                                                    \
        const type *from = (const type *)(const void *)copy->from + offsets[1];                              \
        const int64_t to_across = copy->to_across, from_across = copy->from_across;                          \
        if (to_across > 1) {                                                                                 \
            if (copy->across == 2) part_2_##type(to, to_across, from, length);                               \
            else if (copy->across == 3) part_3_##type(to, to_across, from, length);                          \
            else part_4_##type(to, to_across, from, length);                                                 \
        } else {                                                                                             \
            if (copy->across == 2) join_2_##type(to, from, from_across, length);                             \
            else if (copy->across == 3) join_3_##type(to, from, from_across, length);                        \
            else join_4_##type(to, from, from_across, length);                                               \
        }                                                                                                    \
    }
COPY_FEWS(uint8_t)
COPY_FEWS(uint16_t)
COPY_FEWS(uint32_t)

/* Rows of one to four elements, `to_across` or `from_across` apart, that are to_stride or from_stride apart. */
#define SHORT_ROWS(few)                                                                                      \
    for (int64_t i = 0; i < length; i++)                                                                     \
        for (int k = 0; k < few; k++)                                                                        \
            to[i * to_stride + k * to_across] = from[i * from_stride + k * from_across];
#define COPY_SHORT(type)                                                                                     \
    static void short_##type(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {          \
        const copy_context *copy = user;                                                                     \
        type *to = (type *)(void *)copy->to + offsets[0];                                                    \
        const type *from = (const type *)(const void *)copy->from + offsets[1];                              \
        const int64_t to_stride = copy->to_stride, from_stride = copy->from_stride,                          \
                      to_across = copy->to_across, from_across = copy->from_across;                          \
        if (copy->across == 2) {                                                                             \
            SHORT_ROWS(2)                                                                                    \
        } else if (copy->across == 3) {                                                                      \
            SHORT_ROWS(3)                                                                                    \
        } else if (copy->across == 4) {                                                                      \
            SHORT_ROWS(4)                                                                                    \
        } else {                                                                                             \
            SHORT_ROWS(1)                                                                                    \
        }                                                                                                    \
    }
COPY_SHORT(uint8_t)
COPY_SHORT(uint16_t)
COPY_SHORT(uint32_t)
COPY_SHORT(uint64_t)
COPY_SHORT(element16)

/* Dimension `from` of a loop as the next one of another. */
static void move_dimension(const rt_loop *loop, int32_t from, rt_loop *to) {
    to->dims[to->rank] = loop->dims[from];
    to->strides[0][to->rank] = loop->strides[0][from];
    to->strides[1][to->rank] = loop->strides[1][from];
    to->rank++;
}

#ifdef RT_SPANS
RT_SPANS static void copy_short_spans(char *to, int64_t to_step, const char *from, int64_t from_step,
                                      size_t bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++) rt_copy_span(to + i * to_step, from + i * from_step, bytes);
}
#endif

void rt_copy_spans(char *to, int64_t to_step, const char *from, int64_t from_step, size_t bytes,
                   int64_t count) {
#ifdef RT_SPANS
    if (rt_spans_are_short(bytes)) {
        copy_short_spans(to, to_step, from, from_step, bytes, count);
        return;
    }
#endif
    for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, bytes);
}

/* Where a dimension of a few elements, dense in one of both, stands beside a long one that is dense in the other. */
static bool copy_few(const rt_loop *loop, int threads, copy_context *copy) {
    enum { MOST = 4, LONG = 64 };
    const int32_t last = loop->rank - 1;
    rt_row_function *row = copy->size == 1   ? few_uint8_t
                           : copy->size == 2 ? few_uint16_t
                           : copy->size == 4 ? few_uint32_t
                                             : NULL;
    int32_t few = -1, along = -1;
    for (int32_t i = 0; i < last && row && copy->to_stride == 1; i++) {
        if (loop->strides[1][i] != 1) continue;
        if (loop->dims[i] <= MOST && copy->from_stride == loop->dims[i]) few = i, along = last;
        if (loop->dims[last] <= MOST && loop->strides[0][i] == loop->dims[last]) few = last, along = i;
    }
    if (few < 0 || loop->dims[along] < LONG || loop->dims[few] < 2) return false;
    rt_loop nest = {.operands = 2};
    for (int32_t i = 0; i <= last; i++)
        if (i != few && i != along) move_dimension(loop, i, &nest);
    move_dimension(loop, along, &nest);
    copy->across = loop->dims[few];
    copy->to_across = loop->strides[0][few];
    copy->from_across = loop->strides[1][few];
    rt_loop_run(&nest, threads, copy->across, row, copy);
    return true;
}

/* Very short rows, many of them: without a call for each. */
static bool copy_short(const rt_loop *loop, int threads, copy_context *copy) {
    enum { MOST = 4, MANY = 16 };
    const int32_t last = loop->rank - 1;
    if (last < 1 || loop->dims[last] > MOST || loop->dims[last - 1] < MANY) return false;
    rt_loop nest = {.operands = 2};
    for (int32_t i = 0; i < last; i++) move_dimension(loop, i, &nest);
    copy->across = loop->dims[last];
    copy->to_across = loop->strides[0][last];
    copy->from_across = loop->strides[1][last];
    copy->to_stride = loop->strides[0][last - 1];
    copy->from_stride = loop->strides[1][last - 1];
    rt_loop_run(&nest, threads, copy->across,
                copy->size == 1   ? short_uint8_t
                : copy->size == 2 ? short_uint16_t
                : copy->size == 4 ? short_uint32_t
                : copy->size == 8 ? short_uint64_t
                                  : short_element16,
                copy);
    return true;
}

/* A few elements that lie together in both tensors are one larger element, where all others lie whole numbers of those apart. */
static bool join_elements(const rt_loop *loop, size_t *size, const void *to, const void *from,
                          rt_loop *joined) {
    const int32_t last = loop->rank - 1;
    const int64_t few = loop->dims[last];
    const size_t bytes = few <= 16 ? (size_t)few * *size : 0, aligned = bytes < 8 ? bytes : 8;
    if (last < 1 || few < 2 || loop->strides[0][last] != 1 || loop->strides[1][last] != 1) return false;
    if (!(bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16) || (uintptr_t)to % aligned ||
        (uintptr_t)from % aligned)
        return false;
    *joined = *loop;
    joined->rank = last;
    for (int32_t i = 0; i < last; i++) {
        for (int k = 0; k < 2; k++) {
            if (loop->strides[k][i] % few) return false;
            joined->strides[k][i] = loop->strides[k][i] / few;
        }
    }
    *size = bytes;
    return true;
}

void rt_copy_strided(const rt_loop *given, int threads, size_t size, void *to, const void *from) {
    rt_loop joined;
    const rt_loop *loop = join_elements(given, &size, to, from, &joined) ? &joined : given;
    const int32_t last = loop->rank - 1;
    copy_context copy = {.to = to,
                         .from = from,
                         .size = size,
                         .to_stride = loop->strides[0][last],
                         .from_stride = loop->strides[1][last]};
    if (copy.to_stride == 1 && copy.from_stride == 1 && loop->dims[last] * (int64_t)size >= 16) {
        int64_t work = (int64_t)size / 4;
        if (work < 1) work = 1;
        if (loop->rank == 2 && (threads <= 1 || rt_loop_elements(loop) < RT_PARALLEL_WORK / work))
            rt_copy_spans(to, loop->strides[0][0] * (int64_t)size, from, loop->strides[1][0] * (int64_t)size,
                          (size_t)loop->dims[last] * size, loop->dims[0]);
        else rt_loop_run(loop, threads, work, row_bytes, &copy);
        return;
    }
    rt_row_function *row = size == 1   ? row_uint8_t
                           : size == 2 ? row_uint16_t
                           : size == 4 ? row_uint32_t
                           : size == 8 ? row_uint64_t
                                       : row_element16;
    if (copy_few(loop, threads, &copy) || rt_turn_groups(loop, threads, size, to, from)) return;
    /* The source is dense along another dimension: the transposition of a matrix, many times over. That
     * dimension becomes the innermost of the nest and tiles take care of both. */
    int32_t dense = -1;
    for (int32_t i = 0; i < last && copy.to_stride == 1; i++) {
        if (loop->strides[1][i] == 1 && loop->dims[i] >= 4) dense = i;
    }
    if (dense >= 0 && copy.from_stride != 0 && loop->dims[last] >= 4) {
        rt_loop nest = {.operands = 2};
        for (int32_t i = 0; i < last; i++)
            move_dimension(loop, i < dense ? i : i < last - 1 ? i + 1 : dense, &nest);
        copy.to_across = loop->strides[0][dense];
        copy.inner = loop->dims[last];
        row = size == 1   ? turn_bytes
              : size == 2 ? turn_halves
              : size == 4 ? turn_words
              : size == 8 ? turn_longs
                          : tile_element16;
        rt_loop_run(&nest, threads, copy.inner, row, &copy);
        return;
    }
    /* Too narrow for tiles: the long rows of the source are spread. */
    if (dense >= 0 && copy.from_stride != 0) {
        rt_loop nest = {.operands = 2};
        for (int32_t i = 0; i <= last; i++)
            move_dimension(loop, i < dense ? i : i < last ? i + 1 : dense, &nest);
        copy.to_stride = loop->strides[0][dense];
        copy.from_stride = 1;
        rt_loop_run(&nest, threads, 1, row, &copy);
        return;
    }
    if (copy_short(loop, threads, &copy)) return;
    rt_loop_run(loop, threads, 1, row, &copy);
}

typedef struct bytes_context {
    char *to;
    const char *from;
    size_t bytes;
} bytes_context;

enum { BYTES_GRAIN = 65536 };

static void copy_grains(void *user, int64_t begin, int64_t end) {
    const bytes_context *copy = user;
    size_t first = (size_t)begin * BYTES_GRAIN, last = (size_t)end * BYTES_GRAIN;
    if (last > copy->bytes) last = copy->bytes;
    memcpy(copy->to + first, copy->from + first, last - first);
}

void rt_copy_bytes(int threads, void *to, const void *from, size_t bytes) {
    if (bytes == 0 || to == from) return;
    if (threads <= 1 || bytes < 4 * BYTES_GRAIN) {
        memcpy(to, from, bytes);
        return;
    }
    bytes_context copy = {to, from, bytes};
    rt_parallel(threads, (int64_t)((bytes + BYTES_GRAIN - 1) / BYTES_GRAIN), BYTES_GRAIN / 4, copy_grains,
                &copy);
}

void rt_fill(void *to, int64_t count, size_t size, const void *value) {
    if (count <= 0) return;
    static const char zeros[16];
    if (memcmp(value, zeros, size) == 0) {
        memset(to, 0, (size_t)count * size);
        return;
    }
    /* Doubling: each copy is from what is filled already. */
    size_t bytes = (size_t)count * size, filled = size;
    memcpy(to, value, size);
    while (filled < bytes) {
        size_t next = filled < bytes - filled ? filled : bytes - filled;
        memcpy((char *)to + filled, to, next);
        filled += next;
    }
}

/* ---- what kernels accept ------------------------------------------------------------------------------- */

static bool is_row_major(const op_type *type) {
    return type->dtype == OP_NONE || (type->kind == OP_KIND_TENSOR && type->layout == OP_LAYOUT_ROW_MAJOR);
}

base_status rt_run_nothing(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    (void)prepared;
    (void)inputs;
    (void)outputs;
    (void)scratch;
    (void)report;
    return BASE_OK;
}

static bool never_packed(const op_call *call, uint32_t input, size_t *bytes) {
    (void)call, (void)input, (void)bytes;
    return false;
}

bool rt_accepts_row_major(const op_call *call) {
    return rt_accepts_packed(call, never_packed);
}

bool rt_accepts_any_row_major(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

bool rt_accepts_pixels(const op_call *call, const rt_environment *environment) {
    (void)environment;
    const op_dtype dtype = call->inputs[0].type.dtype;
    return rt_accepts_row_major(call) &&
           (dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype) || rt_is_byte(dtype));
}

bool rt_accepts_packed(const op_call *call, rt_packed_bytes *packed_bytes) {
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        size_t bytes;
        if (is_row_major(type)) continue;
        if (type->kind != OP_KIND_TENSOR || type->layout != OP_LAYOUT_PACKED ||
            !packed_bytes(call, i, &bytes) || bytes != type->packed_bytes)
            return false;
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (!is_row_major(&call->outputs[i].type)) return false;
    }
    return true;
}

int64_t rt_stored_elements(const op_type *type) {
    size_t bytes = 0;
    int64_t elements;
    if (op_dtype_is_packed(type->dtype)) return op_shape_elements(&type->shape, &elements) ? elements : 0;
    op_type_bytes(type, &bytes);
    return (int64_t)(bytes / op_dtype_bytes(type->dtype));
}

bool rt_accepts_layouts(const op_call *call, uint32_t count, bool zero_stays) {
    const op_type *output = &call->outputs[0].type;
    for (uint32_t i = count; i < call->input_count; i++) {
        if (!is_row_major(&call->inputs[i].type)) return false;
    }
    if (output->kind != OP_KIND_TENSOR || output->layout >= OP_LAYOUT_PACKED) return false;
    for (uint32_t i = 0; i < count && i < call->input_count; i++) {
        const op_type *input = &call->inputs[i].type;
        if (input->kind != OP_KIND_TENSOR || input->layout != output->layout) return false;
        if (output->layout != OP_LAYOUT_ROW_MAJOR && !op_shape_equal(&input->shape, &output->shape))
            return false;
    }
    if (output->layout == OP_LAYOUT_ROW_MAJOR) return true;
    if (!op_shape_known(&output->shape) || output->shape.rank < 2) return false;
    const int64_t block = op_layout_block(output->layout);
    return zero_stays || output->shape.dims[1] % block == 0;
}
