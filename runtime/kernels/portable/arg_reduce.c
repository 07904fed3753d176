/* SPDX-License-Identifier: Apache-2.0 */
/* arg_reduce.c: where along an axis the largest or smallest element is. A NaN counts as more extreme than any
 * number. Of equal elements the first is taken, or the last with select_last_index. */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

typedef struct arg_state {
    int64_t outer, extent, inner;
    bool smallest, last;
    op_dtype dtype;
} arg_state;

typedef void arg_function(const arg_state *state, int64_t *to, const void *from, int64_t begin, int64_t end);

/* Results that are found side by side, so that rows are read as they lie; elements of a line that are, likewise. */
enum { ABREAST = 512, LANES = 32 };

/* Element i of each column against the best before it; `unordered` says when a NaN is taken. */
#define ARG_ROW(value, read, compare, unordered)                                                             \
    {                                                                                                        \
        RT_VECTOR for (int64_t c = 0; c < count; c++) {                                                      \
            const value a = read(row[c]), b = best[c];                                                       \
            const int32_t taken = (a compare b) | (unordered);                                               \
            best[c] = taken ? a : b;                                                                         \
            where[c] = taken ? (int32_t)i : where[c];                                                        \
        }                                                                                                    \
    }

/* Results are counted as outer * inner. */
#define ARG(name, type, value, read, clones)                                                                   \
    clones static void name(const arg_state *state, int64_t *to, const void *from, int64_t begin,              \
                            int64_t end) {                                                                     \
        const type *values = from;                                                                             \
        while (begin < end) {                                                                                  \
            /* A line is read as rows of LANES, whose results are compared at its end; of short lines, those \
               that are side by side are read together. */ \
            const bool line = state->inner == 1 && state->extent >= LANES;                                     \
            const bool lines = state->inner == 1 && !line;                                                     \
            const int64_t column = begin % state->inner;                                                       \
            const type *x = values + begin / state->inner * state->extent * state->inner + column;             \
            const int64_t most = lines ? end - begin : state->inner - column;                                  \
            int64_t count = end - begin < most ? end - begin : most;                                           \
            if (count > ABREAST) count = ABREAST;                                                              \
            if (line) count = LANES;                                                                           \
            const int64_t rows = line ? state->extent / LANES : state->extent;                                 \
            const int64_t stride = line ? LANES : state->inner;                                                \
            const int64_t apart = lines ? state->extent : 1;                                                   \
            type turned[ABREAST];                                                                              \
            value best[ABREAST];                                                                               \
            int32_t where[ABREAST];                                                                            \
            for (int64_t c = 0; c < count; c++) {                                                              \
                best[c] = read(x[c * apart]);                                                                  \
                where[c] = 0;                                                                                  \
            }                                                                                                  \
            for (int64_t i = 1; i < rows; i++) {                                                               \
                const type *row = lines ? turned : x + i * stride;                                             \
                for (int64_t c = 0; lines && c < count; c++) turned[c] = x[c * apart + i];                     \
                if (state->smallest && state->last) ARG_ROW(value, read, <=, a != a)                           \
                else if (state->smallest) ARG_ROW(value, read, <, (a != a) & (b == b))                         \
                else if (state->last) ARG_ROW(value, read, >=, a != a)                                         \
                else ARG_ROW(value, read, >, (a != a) & (b == b))                                              \
            }                                                                                                  \
            if (line) {                                                                                        \
                int64_t found = (int64_t)where[0] * LANES;                                                     \
                value b = best[0];                                                                             \
                for (int64_t c = 1; c < state->extent - rows * LANES + LANES; c++) {                           \
                    const bool rest = c >= LANES;                                                              \
                    const int64_t at = rest ? rows * LANES + c - LANES : (int64_t)where[c] * LANES + c;        \
                    const value a = rest ? read(x[at]) : best[c];                                              \
                    const bool equal = (a == b) | ((a != a) & (b != b));                                       \
                    const bool better = state->smallest ? a < b : a > b;                                       \
                    if (better || (a != a && b == b) || (equal && (at > found) == state->last)) {              \
                        b = a;                                                                                 \
                        found = at;                                                                            \
                    }                                                                                          \
                }                                                                                              \
                to[begin++] = found;                                                                           \
                continue;                                                                                      \
            }                                                                                                  \
            for (int64_t c = 0; c < count; c++) to[begin + c] = where[c];                                      \
            begin += count;                                                                                    \
        }                                                                                                      \
    }

#define SELF(element) (element)
ARG(arg_float, float, float, SELF, RT_CLONES)
ARG(arg_double, double, double, SELF, RT_CLONES)
ARG(arg_half, uint16_t, float, base_float_from_half, )
ARG(arg_brain, uint16_t, float, base_float_from_bfloat16, )
ARG(arg_int8, int8_t, int8_t, SELF, )
ARG(arg_int16, int16_t, int16_t, SELF, )
ARG(arg_int32, int32_t, int32_t, SELF, RT_CLONES)
ARG(arg_int64, int64_t, int64_t, SELF, RT_CLONES)
ARG(arg_uint8, uint8_t, uint8_t, SELF, RT_CLONES)
ARG(arg_uint16, uint16_t, uint16_t, SELF, )
ARG(arg_uint32, uint32_t, uint32_t, SELF, )
ARG(arg_uint64, uint64_t, uint64_t, SELF, )

static arg_function *const functions[OP_DTYPE_COUNT] = {
    [OP_FLOAT] = arg_float, [OP_DOUBLE] = arg_double, [OP_FLOAT16] = arg_half,  [OP_BFLOAT16] = arg_brain,
    [OP_INT8] = arg_int8,   [OP_INT16] = arg_int16,   [OP_INT32] = arg_int32,   [OP_INT64] = arg_int64,
    [OP_UINT8] = arg_uint8, [OP_UINT16] = arg_uint16, [OP_UINT32] = arg_uint32, [OP_UINT64] = arg_uint64,
};

#if RT_X86_KERNELS
#define HAS_LINES_512 __builtin_cpu_supports("avx512f")
#define WIDE __attribute__((target("avx512f")))
enum { WIDTH = 16, CHAINS = 4 };

/* The extreme of a line of at least WIDTH floats; *none: there is a NaN. */
WIDE static float extreme_512(const float *x, int64_t count, bool smallest, bool *none) {
    __m512 best[CHAINS];
    __mmask16 unordered = 0;
    for (int k = 0; k < CHAINS; k++) best[k] = _mm512_loadu_ps(x);
    for (int64_t i = 0; i < count; i += CHAINS * WIDTH) {
        _Pragma("GCC unroll 4") for (int k = 0; k < CHAINS; k++) {
            const int64_t at = i + k * WIDTH, last = count - WIDTH;
            const __m512 a = _mm512_loadu_ps(x + (at < last ? at : last)); /* the last ones again */
            unordered = (__mmask16)(unordered | _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q));
            best[k] = smallest ? _mm512_min_ps(a, best[k]) : _mm512_max_ps(a, best[k]);
        }
    }
    *none = unordered;
    if (smallest)
        return _mm512_reduce_min_ps(
            _mm512_min_ps(_mm512_min_ps(best[0], best[1]), _mm512_min_ps(best[2], best[3])));
    return _mm512_reduce_max_ps(
        _mm512_max_ps(_mm512_max_ps(best[0], best[1]), _mm512_max_ps(best[2], best[3])));
}

/* Which of 16 are the extreme, or NaNs. */
WIDE static inline __mmask16 found_512(__m512 a, __m512 extreme, bool none) {
    return none ? _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) : _mm512_cmp_ps_mask(a, extreme, _CMP_EQ_OQ);
}

/* Where the line has it. Lanes that each keep a place, as in arg_float, would have to be compared one by one at its end. */
WIDE static int64_t line_512(const arg_state *state, const float *x) {
    const int64_t count = state->extent, last = count - WIDTH;
    bool none;
    const __m512 extreme = _mm512_set1_ps(extreme_512(x, count, state->smallest, &none));
    for (int64_t i = 0; i < count; i += WIDTH) {
        const int64_t at = state->last ? (last > i ? last - i : 0) : i < last ? i : last;
        const unsigned found = found_512(_mm512_loadu_ps(x + at), extreme, none);
        if (found) return at + (state->last ? 31 - __builtin_clz(found) : __builtin_ctz(found));
    }
    return 0;
}
#else
#define HAS_LINES_512 false
static int64_t line_512(const arg_state *state, const float *x) {
    (void)state, (void)x;
    return 0;
}
#endif

typedef struct arg_context {
    const arg_state *state;
    int64_t *to;
    const void *from;
} arg_context;

static void run_tasks(void *user, int64_t begin, int64_t end) {
    const arg_context *context = user;
    const arg_state *state = context->state;
    if (state->dtype == OP_FLOAT && state->inner == 1 && state->extent >= LANES && HAS_LINES_512) {
        for (int64_t i = begin; i < end; i++)
            context->to[i] = line_512(state, (const float *)context->from + i * state->extent);
        return;
    }
    functions[context->state->dtype](context->state, context->to, context->from, begin, end);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const arg_state *state = prepared->state;
    arg_context context = {state, outputs[0].data, inputs[0].data};
    rt_parallel(prepared->threads, state->outer * state->inner, 2 * state->extent, run_tasks, &context);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return functions[call->inputs[0].type.dtype] && rt_accepts_row_major(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    arg_state *state = BASE_NEW(arena, arg_state);
    if (!state) return base_fail_memory(report);
    const op_type *type = &call->inputs[0].type;
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", 0), type->shape.rank, &axis);
    *state = (arg_state){.outer = 1, .extent = 1, .inner = 1, .dtype = type->dtype};
    state->smallest = call->code == OP_ARG_MIN;
    state->last = op_attribute_integer(&call->attributes, "select_last_index", 0) != 0;
    for (int32_t i = 0; i < type->shape.rank; i++) {
        int64_t *part = i < axis ? &state->outer : i == axis ? &state->extent : &state->inner;
        *part *= type->shape.dims[i];
    }
    if (state->extent > INT32_MAX) return base_fail(report, BASE_INVALID, "the axis is too long");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_arg_reduce = {
    .name = "portable.arg_reduce", .accepts = accepts, .prepare = prepare};
