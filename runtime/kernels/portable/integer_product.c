/* SPDX-License-Identifier: Apache-2.0 */
/* integer_product.c: blocks of products of 8-bit integers; see integer_product.h. */
#include "runtime/kernels/portable/integer_product.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/quad_lanes.h"
#include "runtime/kernels/portable/quad_rows.h"
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

enum {
    STRIP = 8, /* rows of A that are copied at a time */
    DEPTH_PAIRS = 256 /* copied at a time, as pairs of 16-bit integers */,
    DEPTH_QUADS = RT_INTEGER_PACKED, /* or as quadruples of bytes */
    FEW_ROWS = 2                     /* of A: to copy B would cost more than the products */
};

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- scratch ------------------------------------------------------------------------------------------- */

/* Where the parts of the scratch begin, in bytes: panels of B, a strip of A, sums, sums of A's rows and of B's columns. All
 * are multiples of RT_ALIGNMENT, and the same on every machine. */
typedef struct parts {
    size_t strip, sums, row_sums, column_sums, end;
    int64_t pitch;
    bool
        by_strips; /* the whole depth is copied at once: sums of a strip are complete, and those of others need not be kept */
} parts;

static parts divide(int64_t rows, int64_t columns, int64_t depth, bool packed) {
    const int64_t deep = least(2 * round_up(depth, 4), DEPTH_QUADS);
    parts made = {.pitch = round_up(columns, RT_INTEGER_PANEL), .by_strips = depth <= DEPTH_PAIRS};
    const int64_t kept = made.by_strips ? least(rows, STRIP) : rows;
    made.strip = packed ? 0 : (size_t)(made.pitch * deep);
    made.sums = made.strip + (size_t)(STRIP * round_up(deep, RT_ALIGNMENT));
    made.row_sums = made.sums + (size_t)(kept * made.pitch) * sizeof(int32_t);
    made.column_sums = made.row_sums + (size_t)round_up(rows, RT_INTEGER_PANEL) * sizeof(int32_t);
    made.end = made.column_sums + (size_t)made.pitch * sizeof(int32_t);
    return made;
}

int64_t rt_integer_columns(int64_t rows, int64_t depth, bool small) {
    enum { FEWEST = 128, FEWEST_SMALL = 64, PANELS = 16384, SUMS = 16384 };
    int64_t columns = small && depth > DEPTH_PAIRS ? FEWEST_SMALL : FEWEST;
    while (columns < RT_INTEGER_COLUMNS && columns * depth < PANELS &&
           (depth <= DEPTH_PAIRS || columns * rows <= SUMS))
        columns *= 2;
    return columns;
}

size_t rt_integer_scratch(int64_t rows, int64_t columns, int64_t depth, bool packed) {
    return divide(rows, columns, depth, packed).end;
}

bool rt_integer_is_empty(const op_call *call) {
    int64_t elements;
    return op_shape_elements(&call->outputs[0].type.shape, &elements) && elements == 0;
}

/* ---- pairs: operands ----------------------------------------------------------------------------------- */

#define LOAD(type)                                                                                           \
    RT_CLONES static void load_##type(int16_t *restrict to, const type *from, int64_t count, int16_t zero) { \
        for (int64_t i = 0; i < count; i++) to[i] = (int16_t)(from[i] - zero);                               \
    }                                                                                                        \
    RT_CLONES static void load_each_##type(int16_t *restrict to, const type *from, int64_t count,            \
                                           const int16_t *zeros) {                                           \
        for (int64_t i = 0; i < count; i++) to[i] = (int16_t)(from[i] - zeros[i]);                           \
    }
LOAD(uint8_t)
LOAD(int8_t)

/* to[i] = from[i] - zeros[0], or zeros[i] */
static void load(op_dtype dtype, int16_t *to, const void *from, int64_t count, const int16_t *zeros,
                 bool each) {
    if (dtype == OP_INT8) {
        if (each) load_each_int8_t(to, from, count, zeros);
        else load_int8_t(to, from, count, zeros[0]);
    } else {
        if (each) load_each_uint8_t(to, from, count, zeros);
        else load_uint8_t(to, from, count, zeros[0]);
    }
}

/* Two lines of 16-bit integers side by side, a panel's columns at a time; panels are `distance` apart. */
RT_CLONES static void interleave(const int16_t *even, const int16_t *odd, int64_t columns, int16_t *panels,
                                 int64_t distance) {
    for (int64_t first = 0; first < columns; first += RT_INTEGER_PANEL, panels += distance) {
        for (int j = 0; j < RT_INTEGER_PANEL; j++) {
            panels[2 * j] = even[first + j];
            panels[2 * j + 1] = odd[first + j];
        }
    }
}

#if RT_X86_KERNELS
/* The same from bytes, which have one zero point: no shuffle crosses the halves of a register, as bytes are paired before they
 * are widened. */
#define PAIR_BYTES(name, widen)                                                                              \
    __attribute__((target("avx2"))) static void name(const uint8_t *const lines[2], int16_t zero,            \
                                                     int64_t columns, int16_t *panels, int64_t distance) {   \
        const __m256i zeros = _mm256_set1_epi16(zero);                                                       \
        for (int64_t first = 0; first < columns; first += RT_INTEGER_PANEL, panels += distance) {            \
            const __m128i even = _mm_loadu_si128((const __m128i *)(const void *)(lines[0] + first));         \
            const __m128i odd = _mm_loadu_si128((const __m128i *)(const void *)(lines[1] + first));          \
            const __m256i low = widen(_mm_unpacklo_epi8(even, odd));                                         \
            const __m256i high = widen(_mm_unpackhi_epi8(even, odd));                                        \
            _mm256_storeu_si256((__m256i *)(void *)panels, _mm256_sub_epi16(low, zeros));                    \
            _mm256_storeu_si256((__m256i *)(void *)panels + 1, _mm256_sub_epi16(high, zeros));               \
        }                                                                                                    \
    }
PAIR_BYTES(pair_signed, _mm256_cvtepi8_epi16)
PAIR_BYTES(pair_unsigned, _mm256_cvtepu8_epi16)

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2");
}
static void pair_bytes(op_dtype dtype, const uint8_t *const lines[2], int16_t zero, int64_t columns,
                       int16_t *panels, int64_t distance) {
    (dtype == OP_INT8 ? pair_signed : pair_unsigned)(lines, zero, columns, panels, distance);
}
#else
static bool has_avx2(void) {
    return false;
}
static void pair_bytes(op_dtype dtype, const uint8_t *const lines[2], int16_t zero, int64_t columns,
                       int16_t *panels, int64_t distance) {
    (void)dtype, (void)lines, (void)zero, (void)columns, (void)panels, (void)distance;
}
#endif

/* ---- pairs: tiles -------------------------------------------------------------------------------------- */

/* sums[r][j] (+)= the sum over pairs of a[r][pair] . panel[pair][j], a few rows by a panel's columns. */
typedef void tile_function(int64_t pairs, const int16_t *a, int64_t a_row, const int16_t *panel,
                           int32_t *sums, int64_t pitch, bool add);

/* Both numbers of a pair are taken out of one of 32 bits. */
typedef int32_t pair_vector __attribute__((vector_size(16)));
typedef uint32_t sum_vector __attribute__((vector_size(16)));

static pair_vector first_of(pair_vector pair) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return pair >> 16;
#else
    return (pair_vector)((sum_vector)pair << 16) >> 16;
#endif
}

static pair_vector second_of(pair_vector pair) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (pair_vector)((sum_vector)pair << 16) >> 16;
#else
    return pair >> 16;
#endif
}

static void tile_1_plain(int64_t pairs, const int16_t *a, int64_t a_row, const int16_t *panel, int32_t *sums,
                         int64_t pitch, bool add) {
    enum { WIDE = sizeof(sum_vector) / sizeof(int32_t), VECTORS = RT_INTEGER_PANEL / WIDE };
    (void)a_row;
    (void)pitch;
    sum_vector sum[VECTORS] = {{0}};
    if (add) memcpy(sum, sums, sizeof sum);
    for (int64_t k = 0; k < pairs; k++, panel += 2 * RT_INTEGER_PANEL) {
        const int32_t even = a[2 * k], odd = a[2 * k + 1];
        pair_vector right[VECTORS];
        _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {
            memcpy(&right[v], panel + 2 * v * WIDE, sizeof right[v]);
            sum[v] += (sum_vector)(even * first_of(right[v])) + (sum_vector)(odd * second_of(right[v]));
        }
    }
    memcpy(sums, sum, sizeof sum);
}

#if RT_X86_KERNELS
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
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                memcpy(&right[v], panel + 2 * v * WIDE, sizeof(vector));                                     \
            }                                                                                                \
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
TILE_SSE2(1)
TILE_SSE2(2)
TILE_AVX2(1)
TILE_AVX2(2)
TILE_AVX2(4)
TILE_AVX512(1)
TILE_AVX512(2)
TILE_AVX512(4)
TILE_AVX512(8)
#endif

enum { TILE_SIZES = 4 }; /* 1, 2, 4, 8 rows */
#if RT_X86_KERNELS
static tile_function *const sse2_tiles[TILE_SIZES] = {tile_1_sse2, tile_2_sse2};
static tile_function *const avx2_tiles[TILE_SIZES] = {tile_1_avx2, tile_2_avx2, tile_4_avx2};
static tile_function *const avx512_tiles[TILE_SIZES] = {tile_1_avx512, tile_2_avx512, tile_4_avx512,
                                                        tile_8_avx512};
#endif
static tile_function *const plain_tiles[TILE_SIZES] = {tile_1_plain};

static tile_function *const *best_tiles(void) {
#if RT_X86_KERNELS
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
    /* A panel stays in the nearest cache while all rows pass it. */
    for (int64_t column = 0; column < columns; column += RT_INTEGER_PANEL) {
        int now = size;
        for (int64_t row = 0; row < rows; row += (int64_t)1 << now) {
            while (((int64_t)1 << now) > rows - row) now--;
            functions[now](pairs, a + row * 2 * pairs, 2 * pairs, panels + column * 2 * pairs,
                           sums + row * pitch + column, pitch, add);
        }
    }
}

/* Rows from .. from + depth of B as panels of pairs; where the depth is odd, the last pair has a 0. */
static void copy_panels(const rt_integer_block *block, int64_t from, int64_t depth, int64_t pitch,
                        int16_t *panels) {
    const int64_t distance = round_up(depth, 2) * RT_INTEGER_PANEL;
    const bool bytes = has_avx2() && !block->b_each;
    uint8_t spare[RT_INTEGER_LINES * RT_INTEGER_COLUMNS], nothing[RT_INTEGER_COLUMNS];
    /* What lies after the last column, and after an odd depth, is never stale. */
    int16_t lines[2][RT_INTEGER_COLUMNS] = {{0}};
    if (bytes && depth % 2) memset(nothing, (uint8_t)block->b_zeros[0], sizeof nothing);
    for (int64_t k = 0; k < depth; k += 2, panels += 2 * RT_INTEGER_PANEL) {
        const uint8_t *from_b[RT_INTEGER_LINES] = {NULL, nothing};
        const int64_t count = least(depth - k, 2);
        block->lines(block->context, from + k, count, from_b, spare);
        if (bytes) {
            pair_bytes(block->b_dtype, from_b, block->b_zeros[0], pitch, panels, distance);
            continue;
        }
        for (int64_t i = 0; i < count; i++)
            load(block->b_dtype, lines[i], from_b[i], block->columns, block->b_zeros, block->b_each);
        if (count < 2) memset(lines[1], 0, sizeof lines[1]);
        interleave(lines[0], lines[1], pitch, panels, distance);
    }
}

/* ---- pairs: few rows ----------------------------------------------------------------------------------- */

#define ADD_ROWS(type)                                                                                       \
    RT_CLONES static void add_rows_##type(uint32_t *restrict sums, const void *const lines[4],               \
                                          int64_t first, int64_t end, const int16_t a[4]) {                  \
        const type *b0 = lines[0], *b1 = lines[1], *b2 = lines[2], *b3 = lines[3];                           \
        for (int64_t j = first; j < end; j++) {                                                              \
            sums[j] += (uint32_t)(a[0] * b0[j] + a[1] * b1[j] + a[2] * b2[j] + a[3] * b3[j]);                \
        }                                                                                                    \
    }
ADD_ROWS(uint8_t)
ADD_ROWS(int8_t)

/* In columns [first, end). */
static void add_rows(op_dtype dtype, const uint8_t *const *lines, int64_t depth, const int16_t *a,
                     int64_t first, int64_t end, int32_t *sums) {
    for (int64_t k = 0; k < depth && first < end; k += 4) {
        const void *four[4];
        int16_t factors[4] = {0};
        for (int64_t i = 0; i < 4; i++) {
            four[i] = lines[k + i < depth ? k + i : k];
            if (k + i < depth) factors[i] = a[k + i];
        }
        if (dtype == OP_UINT8) add_rows_uint8_t((uint32_t *)sums, four, first, end, factors);
        else add_rows_int8_t((uint32_t *)sums, four, first, end, factors);
    }
}

#if RT_X86_KERNELS
/* A panel's columns at a time, pairs of rows, which are made in registers; lines[depth] and a[depth] can be read. */
#define ADD_PANELS(name, widen)                                                                              \
    __attribute__((target("avx2"))) static void name(const uint8_t *const *lines, int64_t depth,             \
                                                     const int16_t *a, int64_t columns, int32_t *sums) {     \
        for (int64_t first = 0; first < columns; first += RT_INTEGER_PANEL) {                                \
            __m256i *to = (__m256i *)(void *)(sums + first);                                                 \
            __m256i low = _mm256_loadu_si256(to), high = _mm256_loadu_si256(to + 1);                         \
            for (int64_t k = 0; k < depth; k += 2) {                                                         \
                const __m128i even = _mm_loadu_si128((const __m128i *)(const void *)(lines[k] + first));     \
                const __m128i odd = _mm_loadu_si128((const __m128i *)(const void *)(lines[k + 1] + first));  \
                int32_t pair;                                                                                \
                memcpy(&pair, a + k, sizeof pair);                                                           \
                const __m256i left = _mm256_set1_epi32(pair);                                                \
                low = ADD_AVX2(low, left, widen(_mm_unpacklo_epi8(even, odd)));                              \
                high = ADD_AVX2(high, left, widen(_mm_unpackhi_epi8(even, odd)));                            \
            }                                                                                                \
            _mm256_storeu_si256(to, low);                                                                    \
            _mm256_storeu_si256(to + 1, high);                                                               \
        }                                                                                                    \
    }
ADD_PANELS(add_panels_signed, _mm256_cvtepi8_epi16)
ADD_PANELS(add_panels_unsigned, _mm256_cvtepu8_epi16)

static void add_panels(op_dtype dtype, const uint8_t *const *lines, int64_t depth, const int16_t *a,
                       int64_t columns, int32_t *sums) {
    (dtype == OP_INT8 ? add_panels_signed : add_panels_unsigned)(lines, depth, a, columns, sums);
}
#else
static void add_panels(op_dtype dtype, const uint8_t *const *lines, int64_t depth, const int16_t *a,
                       int64_t columns, int32_t *sums) {
    add_rows(dtype, lines, depth, a, 0, columns, sums);
}
#endif

void rt_integer_add_rows(op_dtype dtype, const uint8_t *b, int64_t b_row, int64_t depth, int64_t columns,
                         const int16_t *a, int32_t *sums) {
    const uint8_t *lines[RT_INTEGER_FEW + 1];
    int16_t factors[RT_INTEGER_FEW + 1] = {0};
    if (rt_quad_rows_add(dtype, b, b_row, depth, columns, a, sums)) return;
    for (int64_t k = 0; k <= depth; k++) lines[k] = b + (k < depth ? k : 0) * b_row;
    memcpy(factors, a, (size_t)depth * sizeof *a);
    const int64_t whole = has_avx2() ? columns / RT_INTEGER_PANEL * RT_INTEGER_PANEL : 0;
    add_panels(dtype, lines, depth, factors, whole, sums);
    add_rows(dtype, lines, depth, factors, whole, columns, sums);
}

/* A convolution of each channel by itself has one row of A, and as many rows of B as the window has elements. */
static bool is_few(const rt_integer_block *block) {
    return block->rows <= FEW_ROWS && block->depth <= RT_INTEGER_FEW && !block->b_each && has_avx2();
}

static void run_few(const rt_integer_block *block, const parts *places, char *scratch) {
    const uint8_t *lines[RT_INTEGER_FEW + 1];
    uint8_t spare[RT_INTEGER_FEW * RT_INTEGER_COLUMNS];
    int32_t *sums = (int32_t *)(void *)(scratch + places->sums);
    for (int64_t k = 0; k < block->depth; k += RT_INTEGER_LINES) {
        block->lines(block->context, k, least(block->depth - k, RT_INTEGER_LINES), lines + k,
                     spare + k * RT_INTEGER_COLUMNS);
    }
    lines[block->depth] = lines[0];
    for (int64_t row = 0; row < block->rows; row++) {
        int16_t a[RT_INTEGER_FEW + 1] = {0};
        int32_t *line = sums + row * places->pitch;
        uint32_t sum = 0;
        load(block->a_dtype, a, (const char *)block->a + row * block->a_row, block->depth,
             &block->a_zeros[row], false);
        for (int64_t k = 0; k < block->depth; k++) sum += (uint32_t)a[k];
        /* The zero point of B is taken away in advance, from all products at once. */
        const int32_t start = (int32_t)(0 - sum * (uint32_t)block->b_zeros[0]);
        for (int64_t j = 0; j < places->pitch; j++) line[j] = start;
        add_panels(block->b_dtype, lines, block->depth, a, places->pitch, line);
    }
    block->finish(block->results, 0, block->rows, sums, places->pitch);
}

/* ---- pairs: blocks ------------------------------------------------------------------------------------- */

static void run_pairs(const rt_integer_block *block, const parts *places, char *scratch) {
    int16_t *panels = (int16_t *)(void *)scratch, *strip = (int16_t *)(void *)(scratch + places->strip);
    int32_t *sums = (int32_t *)(void *)(scratch + places->sums);
    for (int64_t from = 0; from < block->depth; from += DEPTH_PAIRS) {
        const int64_t depth = least(block->depth - from, DEPTH_PAIRS), pairs = (depth + 1) / 2;
        copy_panels(block, from, depth, places->pitch, panels);
        for (int64_t row = 0; row < block->rows; row += STRIP) {
            const int64_t rows = least(block->rows - row, STRIP);
            for (int64_t i = 0; i < rows; i++) {
                const char *line = (const char *)block->a + (row + i) * block->a_row + from;
                load(block->a_dtype, strip + i * 2 * pairs, line, depth, &block->a_zeros[row + i], false);
                if (depth % 2) strip[i * 2 * pairs + depth] = 0;
            }
            int32_t *to = places->by_strips ? sums : sums + row * places->pitch;
            run_tiles(rows, places->pitch, pairs, strip, panels, to, places->pitch, from > 0);
            if (places->by_strips) block->finish(block->results, row, rows, to, places->pitch);
        }
    }
    if (!places->by_strips) block->finish(block->results, 0, block->rows, sums, places->pitch);
}

/* ---- quadruples: what does not depend on the machine ------------------------------------------------------ */

enum { QUAD_BYTES = 4 * RT_INTEGER_PANEL /* of four rows of B in a panel */ };

/* A has no sign, and B has one: both are taken as they are. */
static bool is_natural(const rt_integer_block *block) {
    return !block->packed && block->a_dtype == OP_UINT8 && block->b_dtype == OP_INT8;
}

/* Otherwise A is taken as signed, B as unsigned bytes. */
static uint8_t flip_of_a(const rt_integer_block *block) {
    return block->a_dtype == OP_UINT8 && !is_natural(block) ? 0x80 : 0;
}
static uint8_t flip_of_b(op_dtype dtype) {
    return dtype == OP_INT8 ? 0x80 : 0;
}

/* A packed matrix: for every DEPTH_QUADS of its rows panel after panel, in each four rows after four rows, of which those of a column
 * lie together; then the sums of the columns. What fills up is 0. */
const uint8_t *rt_integer_packed_panel(const void *packed, int64_t depth, int64_t columns, int64_t from,
                                       int64_t column) {
    return (const uint8_t *)packed + from * round_up(columns, RT_INTEGER_PANEL) +
           column * round_up(least(depth - from, DEPTH_QUADS), 4);
}

const uint32_t *rt_integer_packed_sums(const void *packed, int64_t depth, int64_t columns) {
    return (const uint32_t *)(const void *)((const uint8_t *)packed +
                                            round_up(columns, RT_INTEGER_PANEL) * round_up(depth, 4));
}

static const uint8_t *packed_panels(const rt_integer_block *block, int64_t from) {
    return rt_integer_packed_panel(block->packed, block->depth, block->packed_columns, from,
                                   block->packed_column);
}

static const uint32_t *packed_sums(const rt_integer_block *block) {
    return rt_integer_packed_sums(block->packed, block->depth, block->packed_columns) + block->packed_column;
}

bool rt_integer_packed_bytes(int64_t depth, int64_t columns, size_t *bytes) {
    if (depth < 1 || columns < 1 || depth > INT32_MAX || columns > INT32_MAX) return false;
    const int64_t pitch = round_up(columns, RT_INTEGER_PANEL);
    return base_size_multiply((size_t)pitch, (size_t)round_up(depth, 4) + sizeof(uint32_t), bytes);
}

void rt_integer_pack(op_dtype dtype, const uint8_t *b, int64_t depth, int64_t columns, void *packed) {
    const int64_t pitch = round_up(columns, RT_INTEGER_PANEL), deep = round_up(depth, 4);
    const uint8_t flip = flip_of_b(dtype);
    uint8_t *to = packed;
    uint32_t *sums = (uint32_t *)(void *)(to + pitch * deep);
    memset(sums, 0, (size_t)pitch * sizeof *sums);
    for (int64_t from = 0; from < deep; from += DEPTH_QUADS) {
        const int64_t end = least(from + DEPTH_QUADS, deep);
        for (int64_t first = 0; first < pitch; first += RT_INTEGER_PANEL) {
            for (int64_t k = from; k < end; k += 4) {
                for (int64_t i = 0; i < QUAD_BYTES; i++) {
                    const int64_t row = k + i % 4, column = first + i / 4;
                    *to = row < depth && column < columns ? b[row * columns + column] ^ flip : 0;
                    sums[column] += *to++;
                }
            }
        }
    }
}

/* What was computed is the sum of a b, wanted that of (a - a_zero) (b - b_zero). */
RT_CLONES static void add_constant(uint32_t *sums, int64_t count, uint32_t value) {
    for (int64_t j = 0; j < count; j++) sums[j] += value;
}
RT_CLONES static void add_multiples(uint32_t *restrict sums, const uint32_t *restrict of, int64_t count,
                                    uint32_t factor) {
    for (int64_t j = 0; j < count; j++) sums[j] += factor * of[j];
}

/* What the zero point of B, the same for all columns, makes of a row's sums. */
static uint32_t row_constant(const rt_integer_block *block, int64_t row, uint32_t row_sum) {
    const bool natural = is_natural(block);
    const int32_t a_shift = block->a_dtype == OP_UINT8 && !natural ? -128 : 0,
                  b_shift = block->b_dtype == OP_INT8 && !natural ? 128 : 0;
    const uint32_t factor = (uint32_t)block->depth * (uint32_t)(block->a_zeros[row] + a_shift) - row_sum;
    return factor * (uint32_t)(block->b_zeros[0] + b_shift);
}

/* `begun`: the sums of rows began with their constants. */
static void finish_quads(const rt_integer_block *block, int64_t pitch, int64_t first, int64_t rows,
                         bool begun, int32_t *sums, const uint32_t *row_sums, const uint32_t *column_sums) {
    const bool natural = is_natural(block);
    const int32_t a_shift = block->a_dtype == OP_UINT8 && !natural ? -128 : 0,
                  b_shift = block->b_dtype == OP_INT8 && !natural ? 128 : 0;
    for (int64_t row = first; row < first + rows; row++) {
        uint32_t *line = (uint32_t *)(void *)(sums + (row - first) * pitch);
        const uint32_t a_zero = (uint32_t)(block->a_zeros[row] + a_shift);
        if (block->b_each) {
            const uint32_t factor = (uint32_t)block->depth * a_zero - row_sums[row];
            for (int64_t j = 0; j < block->columns; j++)
                line[j] += factor * (uint32_t)(block->b_zeros[j] + b_shift);
        } else if (!begun && block->b_zeros[0] + b_shift) {
            add_constant(line, block->columns, row_constant(block, row, row_sums[row]));
        }
        if (a_zero) add_multiples(line, column_sums, block->columns, 0 - a_zero);
    }
}

/* sums[j] (+)= the sum over quadruples of a[quad] . panel[quad][j]. */
RT_CLONES static void multiply_packed(int64_t quads, const int8_t *a, const uint8_t *panel, uint32_t *sums) {
    for (int64_t k = 0; k < quads; k++, a += 4, panel += QUAD_BYTES) {
        for (int j = 0; j < RT_INTEGER_PANEL; j++)
            sums[j] += (uint32_t)(a[0] * panel[4 * j] + a[1] * panel[4 * j + 1] + a[2] * panel[4 * j + 2] +
                                  a[3] * panel[4 * j + 3]);
    }
}

/* Of a packed matrix, on machines that do not multiply bytes: row by row. */
static void run_packed(const rt_integer_block *block, const parts *places, char *scratch) {
    int8_t strip[DEPTH_QUADS];
    int32_t *sums = (int32_t *)(void *)(scratch + places->sums);
    uint32_t *row_sums = (uint32_t *)(void *)(scratch + places->row_sums);
    const uint8_t flip = flip_of_a(block);
    memset(row_sums, 0, (size_t)block->rows * sizeof *row_sums);
    for (int64_t row = 0; row < block->rows; row++) {
        memset(sums, 0, (size_t)places->pitch * sizeof *sums);
        for (int64_t from = 0; from < block->depth; from += DEPTH_QUADS) {
            const int64_t depth = least(block->depth - from, DEPTH_QUADS), quads = (depth + 3) / 4;
            const uint8_t *panels = packed_panels(block, from),
                          *line = (const uint8_t *)block->a + row * block->a_row + from;
            memset(strip + depth, 0, (size_t)(4 * quads - depth));
            for (int64_t k = 0; k < depth; k++) {
                strip[k] = (int8_t)(line[k] ^ flip);
                row_sums[row] += (uint32_t)strip[k];
            }
            for (int64_t column = 0; column < block->columns; column += RT_INTEGER_PANEL)
                multiply_packed(quads, strip, panels + column * 4 * quads, (uint32_t *)sums + column);
        }
        finish_quads(block, places->pitch, row, 1, false, sums, row_sums, packed_sums(block));
        block->finish(block->results, row, 1, sums, places->pitch);
    }
}

/* ---- quadruples ---------------------------------------------------------------------------------------- */

#if RT_X86_KERNELS

static bool has_quads(void) {
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
}

/* Four lines side by side, each byte changed by `flip`, a panel's columns at a time; panels are `distance` apart. */
static void interleave_panels(const uint8_t *const lines[4], int64_t from, int64_t columns, uint8_t flip,
                              uint8_t *panels, int64_t distance) {
    const __m128i change = _mm_set1_epi8((char)flip);
    for (int64_t first = from; first < columns; first += RT_INTEGER_PANEL, panels += distance) {
        __m128i line[4];
        for (int i = 0; i < 4; i++) {
            line[i] =
                _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(lines[i] + first)), change);
        }
        const __m128i low = _mm_unpacklo_epi8(line[0], line[1]), high = _mm_unpackhi_epi8(line[0], line[1]);
        const __m128i low2 = _mm_unpacklo_epi8(line[2], line[3]), high2 = _mm_unpackhi_epi8(line[2], line[3]);
        __m128i *to = (__m128i *)(void *)panels;
        _mm_store_si128(to, _mm_unpacklo_epi16(low, low2));
        _mm_store_si128(to + 1, _mm_unpackhi_epi16(low, low2));
        _mm_store_si128(to + 2, _mm_unpacklo_epi16(high, high2));
        _mm_store_si128(to + 3, _mm_unpackhi_epi16(high, high2));
    }
}

/* The same, four panels at a time: each has a quarter of the registers, which are put together at the end. */
__attribute__((target("avx512bw"))) static void interleave_quads(const uint8_t *const lines[4],
                                                                 int64_t columns, uint8_t flip,
                                                                 uint8_t *panels, int64_t distance) {
    enum { TOGETHER = 4 * RT_INTEGER_PANEL };
    const __m512i change = _mm512_set1_epi8((char)flip);
    int64_t first = 0;
    for (; first + TOGETHER <= columns; first += TOGETHER, panels += 4 * distance) {
        __m512i line[4], quads[4];
        for (int i = 0; i < 4; i++) line[i] = _mm512_xor_si512(_mm512_loadu_si512(lines[i] + first), change);
        rt_quads_of_lines(line, quads);
        rt_quads_in_order(quads, line);
        for (int i = 0; i < 4; i++) _mm512_storeu_si512(panels + i * distance, line[i]);
    }
    interleave_panels(lines, first, columns, flip, panels, distance);
}

/* A row of A with each byte changed by `flip`, zeros up to a multiple of four; returns its sum. `natural`: of bytes without a sign. */
__attribute__((target("avx512bw,avx512vnni"))) static int32_t
copy_row(const uint8_t *from, int64_t count, uint8_t flip, bool natural, int8_t *to) {
    const __m512i change = _mm512_set1_epi8((char)flip), ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();
    for (int64_t i = 0; i < count; i += 64) {
        const int64_t left = count - i;
        const __mmask64 mask = rt_first_lanes_64(left);
        const __m512i bytes =
            _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from + i), _mm512_maskz_mov_epi8(mask, change));
        sum = natural ? _mm512_dpbusd_epi32(sum, bytes, ones) : _mm512_dpbusd_epi32(sum, ones, bytes);
        if (left > 60) _mm512_storeu_si512(to + i, bytes);
        else _mm512_mask_storeu_epi8(to + i, ((__mmask64)1 << round_up(left, 4)) - 1, bytes);
    }
    return _mm512_reduce_add_epi32(sum);
}

/* sums[r][j] (+)= more[r] and the sum over quads of a[r][quad] . panel[quad][j], a few rows, a_row bytes apart, by one panel or two. */
typedef void quad_function(int64_t quads, const int8_t *a, int64_t a_row, const uint8_t *panel, int32_t *sums,
                           int64_t pitch, bool add, const int32_t *more);

#define QUAD_TILE(name, rows_count, panels_count)                                                            \
    __attribute__((target("avx512bw,avx512vnni"), always_inline)) static inline void name##_any(             \
        bool natural, int64_t quads, const int8_t *a, int64_t a_row, const uint8_t *panel, int32_t *sums,    \
        int64_t pitch, bool add, const int32_t *more) {                                                      \
        __m512i sum[rows_count][panels_count];                                                               \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                      \
            _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) {                                \
                sum[r][p] = _mm512_set1_epi32(more[r]);                                                      \
                if (add) {                                                                                   \
                    const __m512i before = _mm512_loadu_si512(sums + r * pitch + p * RT_INTEGER_PANEL);      \
                    sum[r][p] = _mm512_add_epi32(sum[r][p], before);                                         \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < quads; k++, panel += QUAD_BYTES) {                                           \
            __m512i right[panels_count];                                                                     \
            _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) {                                \
                right[p] = _mm512_loadu_si512(panel + p * quads * QUAD_BYTES);                               \
            }                                                                                                \
            _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                  \
                int32_t four;                                                                                \
                memcpy(&four, a + r * a_row + 4 * k, sizeof four);                                           \
                const __m512i left = _mm512_set1_epi32(four);                                                \
                _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) {                            \
                    sum[r][p] = natural ? _mm512_dpbusd_epi32(sum[r][p], left, right[p])                     \
                                        : _mm512_dpbusd_epi32(sum[r][p], right[p], left);                    \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                      \
            _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) {                                \
                _mm512_storeu_si512(sums + r * pitch + p * RT_INTEGER_PANEL, sum[r][p]);                     \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    __attribute__((target("avx512bw,avx512vnni"))) static void name(                                         \
        int64_t quads, const int8_t *a, int64_t a_row, const uint8_t *panel, int32_t *sums, int64_t pitch,   \
        bool add, const int32_t *more) {                                                                     \
        name##_any(false, quads, a, a_row, panel, sums, pitch, add, more);                                   \
    }                                                                                                        \
    __attribute__((target("avx512bw,avx512vnni"))) static void name##_natural(                               \
        int64_t quads, const int8_t *a, int64_t a_row, const uint8_t *panel, int32_t *sums, int64_t pitch,   \
        bool add, const int32_t *more) {                                                                     \
        name##_any(true, quads, a, a_row, panel, sums, pitch, add, more);                                    \
    }
QUAD_TILE(quads_1_1, 1, 1)
QUAD_TILE(quads_2_1, 2, 1)
QUAD_TILE(quads_4_1, 4, 1)
QUAD_TILE(quads_8_1, 8, 1)
QUAD_TILE(quads_1_2, 1, 2)
QUAD_TILE(quads_2_2, 2, 2)
QUAD_TILE(quads_4_2, 4, 2)
QUAD_TILE(quads_8_2, 8, 2)

static void run_quad_tiles(bool natural, int64_t rows, int64_t columns, int64_t quads, const int8_t *a,
                           int64_t a_row, const uint8_t *panels, int32_t *sums, int64_t pitch, bool add,
                           const int32_t *more) {
    static quad_function *const functions[2][TILE_SIZES][2] = {
        {{quads_1_1, quads_1_2}, {quads_2_1, quads_2_2}, {quads_4_1, quads_4_2}, {quads_8_1, quads_8_2}},
        {{quads_1_1_natural, quads_1_2_natural},
         {quads_2_1_natural, quads_2_2_natural},
         {quads_4_1_natural, quads_4_2_natural},
         {quads_8_1_natural, quads_8_2_natural}}};
    int size = TILE_SIZES - 1;
    for (int64_t row = 0; row < rows;) {
        while (((int64_t)1 << size) > rows - row) size--;
        for (int64_t column = 0; column < columns;) {
            const bool two = columns - column >= 2 * RT_INTEGER_PANEL;
            functions[natural][size][two](quads, a + row * a_row, a_row, panels + column * 4 * quads,
                                          sums + row * pitch + column, pitch, add, more + row);
            column += two ? 2 * RT_INTEGER_PANEL : RT_INTEGER_PANEL;
        }
        row += (int64_t)1 << size;
    }
}

static void run_quads(const rt_integer_block *block, const parts *places, char *scratch) {
    uint8_t *own = (uint8_t *)scratch;
    int8_t *strip = (int8_t *)(scratch + places->strip);
    int32_t *sums = (int32_t *)(void *)(scratch + places->sums);
    uint32_t *row_sums = (uint32_t *)(void *)(scratch + places->row_sums);
    int32_t *column_sums = (int32_t *)(void *)(scratch + places->column_sums);
    const uint32_t *sums_of_columns = block->packed ? packed_sums(block) : (const uint32_t *)column_sums;
    const bool natural = is_natural(block);
    /* Nobody asks for sums of its rows then. */
    const bool as_it_lies = natural && block->depth % 4 == 0 && !block->b_each && block->b_zeros[0] == 0;
    const uint8_t a_flip = flip_of_a(block), b_flip = natural ? 0 : flip_of_b(block->b_dtype);
    const int64_t pitch = block->direct ? block->direct_row : places->pitch;
    uint8_t spare[RT_INTEGER_LINES * RT_INTEGER_COLUMNS], nothing[RT_INTEGER_COLUMNS];
    const int32_t none = 0;
    bool a_zero = false;
    for (int64_t i = 0; i < block->rows; i++) a_zero |= block->a_zeros[i] != (a_flip ? 128 : 0);
    memset(nothing, b_flip, (size_t)places->pitch); /* which becomes 0 */
    memset(row_sums, 0, (size_t)block->rows * sizeof *row_sums);
    for (int64_t from = 0; from < block->depth; from += DEPTH_QUADS) {
        const int64_t depth = least(block->depth - from, DEPTH_QUADS), quads = (depth + 3) / 4;
        const uint8_t *panels = block->packed ? packed_panels(block, from) : own;
        for (int64_t k = 0; k < quads && !block->packed; k++) {
            const uint8_t *lines[RT_INTEGER_LINES] = {nothing, nothing, nothing, nothing};
            block->lines(block->context, from + 4 * k, least(depth - 4 * k, 4), lines, spare);
            interleave_quads(lines, places->pitch, b_flip, own + k * QUAD_BYTES, quads * QUAD_BYTES);
        }
        if (a_zero && !block->packed) { /* a row of ones adds up the columns */
            memset(strip, 1, (size_t)(4 * quads));
            run_quad_tiles(natural, 1, places->pitch, quads, strip, 4 * quads, panels, column_sums,
                           places->pitch, from > 0, &none);
        }
        for (int64_t row = 0; row < block->rows; row += STRIP) {
            const int64_t rows = least(block->rows - row, STRIP);
            int32_t more[STRIP] = {0};
            const uint8_t *lines_of_a = (const uint8_t *)block->a + row * block->a_row + from;
            for (int64_t i = 0; i < rows && !as_it_lies; i++) {
                const uint8_t *line = lines_of_a + i * block->a_row;
                row_sums[row + i] += (uint32_t)copy_row(line, depth, a_flip, natural, strip + i * 4 * quads);
                if (!block->b_each && from + depth == block->depth)
                    more[i] = (int32_t)row_constant(block, row + i, row_sums[row + i]);
            }
            int32_t *to = block->direct       ? block->direct + row * pitch
                          : places->by_strips ? sums
                                              : sums + row * pitch;
            run_quad_tiles(natural, rows, places->pitch, quads,
                           as_it_lies ? (const int8_t *)lines_of_a : strip,
                           as_it_lies ? block->a_row : 4 * quads, panels, to, pitch, from > 0, more);
            if (!places->by_strips) continue;
            finish_quads(block, pitch, row, rows, true, to, row_sums, sums_of_columns);
            if (!block->direct) block->finish(block->results, row, rows, to, pitch);
        }
    }
    if (places->by_strips) return;
    finish_quads(block, pitch, 0, block->rows, true, block->direct ? block->direct : sums, row_sums,
                 sums_of_columns);
    if (!block->direct) block->finish(block->results, 0, block->rows, sums, pitch);
}

#else

static bool has_quads(void) {
    return false;
}
static void run_quads(const rt_integer_block *block, const parts *places, char *scratch) {
    (void)block, (void)places, (void)scratch;
}

#endif

bool rt_integer_packs(void) {
    return has_quads();
}

void rt_integer_block_run(const rt_integer_block *block, void *scratch) {
    const parts places = divide(block->rows, block->columns, block->depth, block->packed != NULL);
    if (block->depth == 0) {
        int32_t *zeros = (int32_t *)(void *)((char *)scratch + places.sums);
        memset(zeros, 0, (size_t)places.pitch * sizeof *zeros);
        for (int64_t row = 0; row < block->rows; row++)
            block->finish(block->results, row, 1, zeros, places.pitch);
    } else if (block->packed) {
        (has_quads() ? run_quads : run_packed)(block, &places, scratch);
    } else if (is_few(block)) {
        run_few(block, &places, scratch);
    } else {
        (has_quads() ? run_quads : run_pairs)(block, &places, scratch);
    }
}
