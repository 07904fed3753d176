/* integer_product.c: blocks of products of 8-bit integers; see integer_product.h. */
#include "runtime/kernels/integer_product.h"
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum { STRIP = 8 }; /* rows of A that are copied at a time */

/* ---- operands ------------------------------------------------------------------------------------------ */

#define LOAD(type)                                                                                           \
    RT_CLONES static void load_##type(int16_t *restrict to, const type *from, int64_t stride, int64_t count, \
                                      int16_t zero) {                                                        \
        if (stride == 1) {                                                                                   \
            for (int64_t i = 0; i < count; i++) to[i] = (int16_t)(from[i] - zero);                           \
        } else if (stride == 2) {                                                                            \
            for (int64_t i = 0; i < count; i++) to[i] = (int16_t)(from[2 * i] - zero);                       \
        } else {                                                                                             \
            for (int64_t i = 0; i < count; i++) to[i] = (int16_t)(from[stride * i] - zero);                  \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void load_each_##type(int16_t *restrict to, const type *from, int64_t count,            \
                                           const int16_t *zeros) {                                           \
        for (int64_t i = 0; i < count; i++) to[i] = (int16_t)(from[i] - zeros[i]);                           \
    }
LOAD(uint8_t)
LOAD(int8_t)

void rt_bytes_load(op_dtype dtype, int16_t *to, const void *from, int64_t stride, int64_t count,
                   int16_t zero) {
    if (dtype == OP_INT8) load_int8_t(to, from, stride, count, zero);
    else load_uint8_t(to, from, stride, count, zero);
}

void rt_bytes_load_each(op_dtype dtype, int16_t *to, const void *from, int64_t count, const int16_t *zeros) {
    if (dtype == OP_INT8) load_each_int8_t(to, from, count, zeros);
    else load_each_uint8_t(to, from, count, zeros);
}

/* Two lines side by side, a panel's columns at a time; panels are `distance` apart. */
RT_CLONES static void interleave(const int16_t *even, const int16_t *odd, int64_t columns, int16_t *panels,
                                 int64_t distance) {
    for (int64_t first = 0; first < columns; first += RT_INTEGER_PANEL, panels += distance) {
        for (int j = 0; j < RT_INTEGER_PANEL; j++) {
            panels[2 * j] = even[first + j];
            panels[2 * j + 1] = odd[first + j];
        }
    }
}

/* ---- tiles --------------------------------------------------------------------------------------------- */

/* sums[r][j] (+)= the sum over pairs of a[r][pair] . panel[pair][j], a few rows by a panel's columns. */
typedef void tile_function(int64_t pairs, const int16_t *a, int64_t a_row, const int16_t *panel,
                           int32_t *sums, int64_t pitch, bool add);

static void tile_1_plain(int64_t pairs, const int16_t *a, int64_t a_row, const int16_t *panel, int32_t *sums,
                         int64_t pitch, bool add) {
    (void)a_row;
    (void)pitch;
    uint32_t sum[RT_INTEGER_PANEL] = {0};
    if (add) memcpy(sum, sums, sizeof sum);
    for (int64_t k = 0; k < pairs; k++, panel += 2 * RT_INTEGER_PANEL) {
        const int32_t even = a[2 * k], odd = a[2 * k + 1];
        for (int j = 0; j < RT_INTEGER_PANEL; j++) {
            sum[j] += (uint32_t)(even * panel[2 * j] + odd * panel[2 * j + 1]);
        }
    }
    memcpy(sums, sum, sizeof sum);
}

#if defined(__x86_64__) && defined(__GNUC__)
#define TILE(name, isa, vector, spread, add_pairs, rows_count)                                               \
    __attribute__((target(isa))) static void name(int64_t pairs, const int16_t *a, int64_t a_row,            \
                                                  const int16_t *panel, int32_t *sums, int64_t pitch,        \
                                                  bool add) {                                                \
        enum { WIDE = sizeof(vector) / sizeof(int32_t), VECTORS = RT_INTEGER_PANEL / WIDE };                 \
        vector sum[rows_count][VECTORS];                                                                     \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                      \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                if (add) memcpy(&sum[r][v], sums + r * pitch + v * WIDE, sizeof(vector));                    \
                else sum[r][v] = (vector){0};                                                                \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < pairs; k++, panel += 2 * RT_INTEGER_PANEL) {                                 \
            vector right[VECTORS];                                                                           \
            memcpy(right, panel, sizeof right);                                                              \
            _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                  \
                int32_t pair;                                                                                \
                memcpy(&pair, a + r * a_row + 2 * k, sizeof pair);                                           \
                const vector left = spread(pair);                                                            \
                _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                 \
                    sum[r][v] = add_pairs(sum[r][v], left, right[v]);                                        \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                      \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                memcpy(sums + r * pitch + v * WIDE, &sum[r][v], sizeof(vector));                             \
            }                                                                                                \
        }                                                                                                    \
    }
#define ADD_SSE2(sum, a, b) _mm_add_epi32(sum, _mm_madd_epi16(a, b))
#define ADD_AVX2(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#define ADD_AVX512(sum, a, b) _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
#define TILE_SSE2(rows) TILE(tile_##rows##_sse2, "sse2", __m128i, _mm_set1_epi32, ADD_SSE2, rows)
#define TILE_AVX2(rows) TILE(tile_##rows##_avx2, "avx2", __m256i, _mm256_set1_epi32, ADD_AVX2, rows)
#define TILE_AVX512(rows) TILE(tile_##rows##_avx512, "avx512bw", __m512i, _mm512_set1_epi32, ADD_AVX512, rows)
#define TILE_VNNI(rows)                                                                                      \
    TILE(tile_##rows##_vnni, "avx512bw,avx512vnni", __m512i, _mm512_set1_epi32, _mm512_dpwssd_epi32, rows)
TILE_SSE2(1)
TILE_SSE2(2)
TILE_AVX2(1)
TILE_AVX2(2)
TILE_AVX2(4)
TILE_AVX512(1)
TILE_AVX512(2)
TILE_AVX512(4)
TILE_AVX512(8)
TILE_VNNI(1)
TILE_VNNI(2)
TILE_VNNI(4)
TILE_VNNI(8)
#endif

enum { TILE_SIZES = 4 }; /* 1, 2, 4, 8 rows */
#if defined(__x86_64__) && defined(__GNUC__)
static tile_function *const sse2_tiles[TILE_SIZES] = {tile_1_sse2, tile_2_sse2};
static tile_function *const avx2_tiles[TILE_SIZES] = {tile_1_avx2, tile_2_avx2, tile_4_avx2};
static tile_function *const avx512_tiles[TILE_SIZES] = {tile_1_avx512, tile_2_avx512, tile_4_avx512,
                                                        tile_8_avx512};
static tile_function *const vnni_tiles[TILE_SIZES] = {tile_1_vnni, tile_2_vnni, tile_4_vnni, tile_8_vnni};
#endif
static tile_function *const plain_tiles[TILE_SIZES] = {tile_1_plain};

static tile_function *const *best_tiles(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) return vnni_tiles;
    if (__builtin_cpu_supports("avx512bw")) return avx512_tiles;
    if (__builtin_cpu_supports("avx2")) return avx2_tiles;
    if (__builtin_cpu_supports("sse2")) return sse2_tiles;
#endif
    return plain_tiles;
}

static void run_tiles(int64_t rows, int64_t columns, int64_t pairs, const int16_t *a, const int16_t *panels,
                      int32_t *sums, int64_t pitch, bool add) {
    tile_function *const *functions = best_tiles();
    int size = TILE_SIZES - 1;
    while (!functions[size]) size--;
    for (int64_t row = 0; row < rows;) {
        while (((int64_t)1 << size) > rows - row) size--;
        for (int64_t column = 0; column < columns; column += RT_INTEGER_PANEL) {
            functions[size](pairs, a + row * 2 * pairs, 2 * pairs, panels + column * 2 * pairs,
                            sums + row * pitch + column, pitch, add);
        }
        row += (int64_t)1 << size;
    }
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Where the parts of the scratch begin, in bytes: panels, a strip of A, sums. All are multiples of RT_ALIGNMENT. */
typedef struct parts {
    size_t strip, sums, end;
    int64_t pitch;
} parts;

static parts divide(int64_t rows, int64_t columns, int64_t depth) {
    const int64_t deep = round_up(least(depth, RT_INTEGER_DEPTH), 2);
    parts made = {.pitch = round_up(least(columns, RT_INTEGER_COLUMNS), RT_INTEGER_PANEL)};
    made.strip = (size_t)(made.pitch * deep) * sizeof(int16_t);
    made.sums = made.strip + (size_t)(STRIP * round_up(deep, RT_ALIGNMENT)) * sizeof(int16_t);
    made.end = made.sums + (size_t)(least(rows, RT_INTEGER_ROWS) * made.pitch) * sizeof(int32_t);
    return made;
}

bool rt_integer_is_empty(const op_call *call) {
    int64_t elements;
    return op_shape_elements(&call->outputs[0].type.shape, &elements) && elements == 0;
}

base_status rt_integer_run_nothing(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                   void *scratch, base_report *report) {
    (void)prepared;
    (void)inputs;
    (void)outputs;
    (void)scratch;
    (void)report;
    return BASE_OK;
}

size_t rt_integer_scratch(int64_t rows, int64_t columns, int64_t depth) {
    return divide(rows, columns, depth).end;
}

const int32_t *rt_integer_block_run(const rt_integer_block *block, void *scratch, int64_t *pitch) {
    const parts places = divide(block->rows, block->columns, block->depth);
    int16_t *panels = scratch, *strip = (int16_t *)(void *)((char *)scratch + places.strip);
    int32_t *sums = (int32_t *)(void *)((char *)scratch + places.sums);
    /* What lies behind the last column, and behind an odd depth, is never stale. */
    int16_t lines[2][RT_INTEGER_COLUMNS] = {{0}};
    *pitch = places.pitch;
    if (block->depth == 0) memset(sums, 0, places.end - places.sums);
    for (int64_t from = 0; from < block->depth; from += RT_INTEGER_DEPTH) {
        const int64_t depth = least(block->depth - from, RT_INTEGER_DEPTH), pairs = (depth + 1) / 2;
        for (int64_t k = 0; k < depth; k += 2) {
            block->line(block->context, from + k, lines[0]);
            if (k + 1 < depth) block->line(block->context, from + k + 1, lines[1]);
            else memset(lines[1], 0, sizeof lines[1]);
            interleave(lines[0], lines[1], places.pitch, panels + k * RT_INTEGER_PANEL,
                       2 * pairs * RT_INTEGER_PANEL);
        }
        for (int64_t row = 0; row < block->rows; row += STRIP) {
            const int64_t rows = least(block->rows - row, STRIP);
            for (int64_t i = 0; i < rows; i++) {
                const char *line = (const char *)block->a + (row + i) * block->a_row + from;
                rt_bytes_load(block->dtype, strip + i * 2 * pairs, line, 1, depth, block->a_zeros[row + i]);
                if (depth % 2) strip[i * 2 * pairs + depth] = 0;
            }
            run_tiles(rows, places.pitch, pairs, strip, panels, sums + row * places.pitch, places.pitch,
                      from > 0);
        }
    }
    return sums;
}

/* ---- results ------------------------------------------------------------------------------------------- */

#define REQUANTIZE(type, low, high)                                                                          \
    RT_CLONES static void requantize_##type(const int32_t *sums, type *y, int64_t count, uint32_t bias,      \
                                            float scale, float zero) {                                       \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const float value = (float)(int32_t)((uint32_t)sums[i] + bias) * scale;                          \
            y[i] = (type)(int32_t)(rt_round_within(value, low - zero, high - zero) + zero);                  \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void requantize_each_##type(const int32_t *sums, type *y, int64_t count, uint32_t bias, \
                                                 float a_scale, const float *b_scale, float y_scale,         \
                                                 float zero) {                                               \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const float value =                                                                              \
                (float)(int32_t)((uint32_t)sums[i] + bias) * (a_scale * b_scale[i] / y_scale);               \
            y[i] = (type)(int32_t)(rt_round_within(value, low - zero, high - zero) + zero);                  \
        }                                                                                                    \
    }
REQUANTIZE(uint8_t, 0.0f, 255.0f)
REQUANTIZE(int8_t, -128.0f, 127.0f)

void rt_requantize(const rt_requantization *how, const int32_t *sums, int64_t count, void *y) {
    const uint32_t bias = (uint32_t)how->bias;
    const float zero = (float)how->zero, scale = how->a_scale * how->b_scale[0] / how->y_scale;
    if (how->dtype == OP_UINT8) {
        if (how->each)
            requantize_each_uint8_t(sums, y, count, bias, how->a_scale, how->b_scale, how->y_scale, zero);
        else requantize_uint8_t(sums, y, count, bias, scale, zero);
    } else {
        if (how->each)
            requantize_each_int8_t(sums, y, count, bias, how->a_scale, how->b_scale, how->y_scale, zero);
        else requantize_int8_t(sums, y, count, bias, scale, zero);
    }
}
