/* SPDX-License-Identifier: Apache-2.0 */
/* float_codes.c: see float_codes.h. */
#include "runtime/kernels/portable/float_codes.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum {
    EXPONENTS = 16, /* that a code can tell */
    FRACTION_BITS = 23,
    ALL_EXPONENTS = 256,
    TOGETHER = 2, /* panels that are read at once: of these, memory is read fastest in two places */
    RAREST = 512, /* of so many weights at most one may be an exception */
    LAST = RT_CODE_DEPTH - 1 /* row of a group, of which the others hold the parts */
};

/* Of the last row, row `row` of a group holds the bits that lie in PART when they are rotated to the left by ROTATION(row). */
#define PART UINT32_C(0x78000000)
#define ROTATION(row) (4 * (LAST - (row)))

/* ---- storing ------------------------------------------------------------------------------------------- */

static int64_t panels_of(int64_t columns) {
    return (columns + RT_PANEL - 1) / RT_PANEL;
}

static uint32_t bits_of(float weight) {
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits;
}

static int exponent_of(float weight) {
    return (int)(bits_of(weight) >> FRACTION_BITS) % ALL_EXPONENTS;
}

/* The columns of a panel. */
static int64_t width_of(const rt_code_matrix *matrix, int64_t panel) {
    const int64_t rest = matrix->columns - panel * RT_PANEL;
    return rest < RT_PANEL ? rest : RT_PANEL;
}

static float weight_at(const rt_code_matrix *matrix, int64_t panel, int64_t k, int64_t column) {
    return matrix->data[k * matrix->depth_step + (panel * RT_PANEL + column) * matrix->column_step];
}

/* The lowest of the exponents that a panel's codes tell: as many weights as can be have one of them. What is left are exceptions. */
static int lowest_exponent(const rt_code_matrix *matrix, int64_t panel, int64_t *exceptions) {
    int64_t counts[ALL_EXPONENTS] = {0}, within = 0, most = 0;
    const int64_t width = width_of(matrix, panel);
    for (int64_t k = 0; k < matrix->depth; k++)
        for (int64_t j = 0; j < width; j++) counts[exponent_of(weight_at(matrix, panel, k, j))]++;
    int lowest = 0;
    for (int e = 0; e < ALL_EXPONENTS; e++) {
        within += counts[e] - (e >= EXPONENTS ? counts[e - EXPONENTS] : 0);
        if (e < EXPONENTS - 1 || within <= most) continue;
        most = within;
        lowest = e - (EXPONENTS - 1);
    }
    *exceptions = matrix->depth * width - most;
    return lowest;
}

/* Bytes of all groups, and of what each panel has beside them. */
static bool panel_bytes(int64_t depth, int64_t columns, size_t *codes, size_t *all) {
    const size_t panels = (size_t)panels_of(columns);
    if (depth < 1 || columns < 1 || depth >= UINT32_MAX / RT_PANEL) return false;
    *codes = (size_t)((depth + RT_CODE_DEPTH - 1) / RT_CODE_DEPTH);
    return base_size_multiply(*codes, panels, codes) && base_size_multiply(*codes, RT_CODE_BYTES, codes) &&
           base_size_multiply(2 * panels + 1, sizeof(uint32_t), all) && base_size_add(*all, *codes, all);
}

/* A matrix has at most so many. */
static int64_t most_exceptions(int64_t depth, int64_t columns) {
    const int64_t most = depth * columns / RAREST;
    return most < UINT32_MAX ? most : UINT32_MAX;
}

bool rt_codes_bytes(const rt_code_matrix *matrix, size_t *bytes) {
    size_t codes;
    int64_t exceptions = 0;
    if (!panel_bytes(matrix->depth, matrix->columns, &codes, bytes)) return false;
    const int64_t most = most_exceptions(matrix->depth, matrix->columns);
    for (int64_t panel = 0; panel < panels_of(matrix->columns) && exceptions <= most; panel++) {
        int64_t more;
        lowest_exponent(matrix, panel, &more);
        exceptions += more;
    }
    return exceptions <= most && base_size_add(*bytes, (size_t)exceptions * sizeof(rt_code_exception), bytes);
}

bool rt_codes_may_take(int64_t depth, int64_t columns, size_t bytes) {
    size_t codes, all;
    if (!panel_bytes(depth, columns, &codes, &all) || bytes < all) return false;
    const size_t rest = bytes - all;
    return rest % sizeof(rt_code_exception) == 0 &&
           rest / sizeof(rt_code_exception) <= (size_t)most_exceptions(depth, columns);
}

rt_codes rt_codes_view(int64_t depth, int64_t columns, size_t bytes, const void *packed) {
    size_t codes = 0, all = 0;
    if (!panel_bytes(depth, columns, &codes, &all)) return (rt_codes){0};
    const int64_t panels = panels_of(columns);
    const uint32_t *lowest = (const void *)((const char *)packed + codes);
    return (rt_codes){.depth = depth,
                      .panels = panels,
                      .groups = (depth + RT_CODE_DEPTH - 1) / RT_CODE_DEPTH,
                      .codes = packed,
                      .lowest = lowest,
                      .starts = lowest + panels,
                      .exceptions = (const void *)((const char *)packed + all),
                      .exception_count = (uint32_t)((bytes - all) / sizeof(rt_code_exception))};
}

static uint32_t rotate_left(uint32_t bits, int by) {
    return bits << by | bits >> (32 - by);
}

/* One weight of a group, whose exponent is `above` the panel's lowest one. */
static void store_code(char *group, int64_t row, int64_t column, uint32_t bits, uint32_t above) {
    const uint32_t code = (bits & UINT32_C(0x807FFFFF)) | above << FRACTION_BITS;
    for (int r = 0; r < LAST; r++) {
        if (row != LAST && row != r) continue;
        const uint32_t part = row != LAST ? code : rotate_left(code, ROTATION(r)) & PART;
        char *at = group + (r * RT_PANEL + column) * (int64_t)sizeof part;
        uint32_t there;
        memcpy(&there, at, sizeof there);
        there |= part;
        memcpy(at, &there, sizeof there);
    }
}

void rt_codes_pack(const rt_code_matrix *matrix, size_t bytes, void *packed) {
    const rt_codes codes = rt_codes_view(matrix->depth, matrix->columns, bytes, packed);
    char *groups = packed;
    uint32_t *lowest = (void *)(groups + ((const char *)codes.lowest - codes.codes)),
             *starts = lowest + codes.panels;
    rt_code_exception *exceptions = (void *)(groups + ((const char *)codes.exceptions - codes.codes));
    uint32_t count = 0;
    for (int64_t panel = 0; panel < codes.panels; panel++, groups += codes.groups * RT_CODE_BYTES) {
        int64_t expected;
        const int first = lowest_exponent(matrix, panel, &expected);
        const int64_t width = width_of(matrix, panel);
        lowest[panel] = (uint32_t)first << FRACTION_BITS;
        starts[panel] = count;
        for (int64_t k = 0; k < matrix->depth; k++) {
            char *group = groups + k / RT_CODE_DEPTH * RT_CODE_BYTES;
            for (int64_t j = 0; j < width; j++) {
                const float weight = weight_at(matrix, panel, k, j);
                const int above = exponent_of(weight) - first;
                if (above >= 0 && above < EXPONENTS)
                    store_code(group, k % RT_CODE_DEPTH, j, bits_of(weight), (uint32_t)above);
                else exceptions[count++] = (rt_code_exception){(uint32_t)(k * RT_PANEL + j), weight};
            }
        }
    }
    starts[codes.panels] = count;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* The exceptions of one panel, as they are met from front to back. */
typedef struct walk {
    const rt_code_exception *next, *end;
} walk;

static inline walk walk_from(const rt_codes *codes, int64_t panel) {
    const uint32_t count = codes->exception_count, from = codes->starts[panel], to = codes->starts[panel + 1];
    const uint32_t end = to < count ? to : count, first = from < end ? from : end;
    return (walk){codes->exceptions + first, codes->exceptions + end};
}

/* The group in which the next exception is; -1: there is none. */
static inline int64_t next_group(const walk *w) {
    return w->next < w->end ? (int64_t)(w->next->place / RT_CODE_WEIGHTS) : -1;
}

/* Puts the exceptions of a group into its weights. */
static void put_exceptions(walk *w, int64_t group, float *weights) {
    for (; next_group(w) == group; w->next++) weights[w->next->place % RT_CODE_WEIGHTS] = w->next->weight;
}

/* All weights of a group, but for exceptions. */
RT_CLONES static void decode_group(const char *group, uint32_t lowest, float *weights) {
    uint32_t last[RT_PANEL] = {0}, codes[RT_PANEL], floats[RT_PANEL];
    for (int row = 0; row < LAST; row++) {
        memcpy(codes, group + (size_t)row * sizeof codes, sizeof codes);
        for (int j = 0; j < RT_PANEL; j++) {
            floats[j] = (codes[j] & ~PART) + lowest;
            last[j] |= rotate_left(codes[j] & PART, 32 - ROTATION(row));
        }
        memcpy(weights + row * RT_PANEL, floats, sizeof floats);
    }
    for (int j = 0; j < RT_PANEL; j++) last[j] += lowest;
    memcpy(weights + LAST * RT_PANEL, last, sizeof last);
}

void rt_codes_decode(const rt_codes *codes, int64_t panel, int64_t from, int64_t count, float *to) {
    walk w = walk_from(codes, panel);
    const int64_t first = from / RT_CODE_DEPTH, end = (from + count + RT_CODE_DEPTH - 1) / RT_CODE_DEPTH;
    while (w.next < w.end && next_group(&w) < first) w.next++;
    const char *group = codes->codes + (panel * codes->groups + first) * RT_CODE_BYTES;
    for (int64_t g = first; g < end; g++, group += RT_CODE_BYTES, to += RT_CODE_WEIGHTS) {
        const int64_t rest = from + count - g * RT_CODE_DEPTH;
        if (rest >= RT_CODE_DEPTH) {
            decode_group(group, codes->lowest[panel], to);
            put_exceptions(&w, g, to);
            continue;
        }
        float last[RT_CODE_WEIGHTS];
        decode_group(group, codes->lowest[panel], last);
        put_exceptions(&w, g, last);
        memcpy(to, last, (size_t)rest * RT_PANEL * sizeof *to);
    }
}

/* ---- one row ------------------------------------------------------------------------------------------- */

/* Panels are `step` apart. */
typedef void row_function(const rt_codes *codes, const float *a, int64_t first, int64_t step, float *y);

/* A group of which some weights are exceptions, or which is not full: its sums are added in the same order. `rows` of it are weights. */
#define SLOW_GROUP(name, target, vector, ADD_PRODUCT)                                                        \
    target static void name(const char *group, uint32_t lowest, walk *w, int64_t number, const float *a,     \
                            int64_t rows, void *even, void *odd) {                                           \
        enum { WIDE = sizeof(vector) / sizeof(float) };                                                      \
        _Alignas(RT_ALIGNMENT) float weights[RT_CODE_WEIGHTS];                                               \
        decode_group(group, lowest, weights);                                                                \
        put_exceptions(w, number, weights);                                                                  \
        const int64_t paired = rows / 4 * 4; /* what follows is added to the even sums */                    \
        for (int64_t k = 0; k < rows; k++) {                                                                 \
            float *sums = k < paired && k % 2 ? odd : even;                                                  \
            for (int part = 0; part < RT_PANEL; part += WIDE) {                                              \
                vector sum;                                                                                  \
                memcpy(&sum, sums + part, sizeof sum);                                                       \
                ADD_PRODUCT(sum, a[k], RT_LOAD_FLOATS(vector, weights + k * RT_PANEL + part));               \
                memcpy(sums + part, &sum, sizeof sum);                                                       \
            }                                                                                                \
        }                                                                                                    \
    }

/* One panel, all of whose groups are read slowly: for processors whose registers are short. */
#define SLOW_ROW(name, target, vector, ADD_PRODUCT)                                                          \
    SLOW_GROUP(name##_group, target, vector, ADD_PRODUCT)                                                    \
    target static void name(const rt_codes *codes, const float *a, int64_t first, int64_t step, float *y) {  \
        _Alignas(RT_ALIGNMENT) float even[RT_PANEL] = {0}, odd[RT_PANEL] = {0};                              \
        walk w = walk_from(codes, first);                                                                    \
        (void)step;                                                                                          \
        for (int64_t g = 0; g < codes->groups; g++) {                                                        \
            const int64_t rest = codes->depth - g * RT_CODE_DEPTH;                                           \
            name##_group(codes->codes + (first * codes->groups + g) * RT_CODE_BYTES, codes->lowest[first],   \
                         &w, g, a + g * RT_CODE_DEPTH, rest < RT_CODE_DEPTH ? rest : RT_CODE_DEPTH, even,    \
                         odd);                                                                               \
        }                                                                                                    \
        for (int j = 0; j < RT_PANEL; j++) y[j] = even[j] + odd[j];                                          \
    }

#define ADD(sum, left, right) ((sum) += (left) * (right))
SLOW_ROW(row_baseline, , rt_floats_4, ADD)

#if RT_X86_KERNELS
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#define ADD_8(sum, left, right) ((sum) = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_16(sum, left, right) ((sum) = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
SLOW_ROW(row_avx2, AVX2, rt_floats_8, ADD_8)
SLOW_GROUP(slow_group, AVX512, rt_floats_16, ADD_16)

/* Adds row ROW of a group times left[ROW] to some sums, and puts its part of the last row next to those before it. */
#define ADD_ROW(sums, ROW)                                                                                   \
    do {                                                                                                     \
        const __m512i row = _mm512_loadu_si512(group + 64 * (ROW));                                          \
        ADD_16(sums, left[ROW],                                                                              \
               _mm512_castsi512_ps(_mm512_add_epi32(_mm512_andnot_si512(part, row), lowest[p])));            \
        last = _mm512_ternarylogic_epi32(part, row, _mm512_ror_epi32(last, 4), A_AND_B_OR_C);                \
    } while (0)
enum { A_AND_B_OR_C = 0xEA };

/* PANELS panels. Groups without exceptions are run through with all sums in registers. */
#define FAST_ROW(name, PANELS)                                                                               \
    AVX512 static void name(const rt_codes *codes, const float *a, int64_t first, int64_t step, float *y) {  \
        const __m512i part = _mm512_set1_epi32((int)PART);                                                   \
        const int64_t full = codes->depth / RT_CODE_DEPTH;                                                   \
        __m512 even[PANELS], odd[PANELS];                                                                    \
        __m512i lowest[PANELS];                                                                              \
        const char *groups[PANELS];                                                                          \
        walk walks[PANELS];                                                                                  \
        _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++) {                                           \
            even[p] = odd[p] = _mm512_setzero_ps();                                                          \
            lowest[p] = _mm512_set1_epi32((int)codes->lowest[first + p * step]);                             \
            groups[p] = codes->codes + (first + p * step) * codes->groups * RT_CODE_BYTES;                   \
            walks[p] = walk_from(codes, first + p * step);                                                   \
        }                                                                                                    \
        for (int64_t g = 0; g < codes->groups; g++) {                                                        \
            int64_t end = full;                                                                              \
            for (int p = 0; p < PANELS; p++) {                                                               \
                const int64_t slow = next_group(&walks[p]);                                                  \
                if (slow >= g && slow < end) end = slow;                                                     \
            }                                                                                                \
            for (; g < end; g++) {                                                                           \
                const float *left = a + g * RT_CODE_DEPTH;                                                   \
                _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++) {                                   \
                    const char *group = groups[p] + g * RT_CODE_BYTES;                                       \
                    __m512i last = _mm512_setzero_si512();                                                   \
                    ADD_ROW(even[p], 0);                                                                     \
                    ADD_ROW(odd[p], 1);                                                                      \
                    ADD_ROW(even[p], 2);                                                                     \
                    ADD_ROW(odd[p], 3);                                                                      \
                    ADD_ROW(even[p], 4);                                                                     \
                    ADD_ROW(odd[p], 5);                                                                      \
                    ADD_ROW(even[p], 6);                                                                     \
                    last = _mm512_add_epi32(_mm512_ror_epi32(last, 4), lowest[p]);                           \
                    ADD_16(odd[p], left[LAST], _mm512_castsi512_ps(last));                                   \
                }                                                                                            \
            }                                                                                                \
            if (g == codes->groups) break;                                                                   \
            const int64_t rows = g < full ? RT_CODE_DEPTH : codes->depth % RT_CODE_DEPTH;                    \
            _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++)                                         \
                slow_group(groups[p] + g * RT_CODE_BYTES, codes->lowest[first + p * step], &walks[p], g,     \
                           a + g * RT_CODE_DEPTH, rows, &even[p], &odd[p]);                                  \
        }                                                                                                    \
        _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++)                                             \
            _mm512_storeu_ps(y + p * step * RT_PANEL, _mm512_add_ps(even[p], odd[p]));                       \
    }
FAST_ROW(row_several, TOGETHER)
FAST_ROW(row_one, 1)
#endif

static row_function *best_row(bool several) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) return several ? row_several : row_one;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return several ? NULL : row_avx2;
#endif
    return several ? NULL : row_baseline;
}

void rt_codes_row(const rt_codes *codes, const float *a, int64_t first, int64_t count, float *y) {
    row_function *several = best_row(true), *one = best_row(false);
    const int64_t each = several ? count / TOGETHER : 0;
    for (int64_t p = 0; p < each; p++) several(codes, a, first + p, each, y + p * RT_PANEL);
    for (int64_t p = each * TOGETHER; p < count; p++) one(codes, a, first + p, 1, y + p * RT_PANEL);
}
