/* SPDX-License-Identifier: Apache-2.0 */
/* integer_filters.c: arranged filters of integer convolutions and blocks of their products; see integer_filters.h. */
#include "runtime/kernels/portable/integer_filters.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/filter_tiles.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/quad_lanes.h"
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

enum {
    STRIP = RT_FILTERS_STRIP,
    PANEL_BYTES = 4 * RT_INTEGER_PANEL, /* of a quadruple */
    DEPTH_QUADS = 768                   /* copied at a time */
};

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- arranging ----------------------------------------------------------------------------------------- */

bool rt_filters_by_channels(rt_filters_shape shape) {
    enum { MOST = 9, OF = 8 }; /* parts of the channels */
    return OF * round_up(shape.channels, 4) <= MOST * shape.channels;
}

int64_t rt_filters_quads(rt_filters_shape shape) {
    if (rt_filters_by_channels(shape)) return round_up(shape.channels, 4) / 4 * shape.taps;
    return round_up(shape.channels * shape.taps, 4) / 4;
}

bool rt_filters_bytes(int64_t filters, rt_filters_shape shape, size_t *bytes) {
    int64_t depth;
    if (filters < 1 || shape.channels < 1 || shape.taps < 1 || shape.channels > INT32_MAX ||
        !base_int64_multiply(shape.channels, shape.taps, &depth) || depth > INT32_MAX)
        return false;
    return base_size_multiply((size_t)filters, 4 * (size_t)rt_filters_quads(shape) + sizeof(int32_t), bytes);
}

/* Byte `i` of quadruple `quad` of a filter, as a signed one. */
static int8_t filter_byte(const uint8_t *w, uint8_t flip, rt_filters_shape shape, int64_t quad, int64_t i) {
    int64_t channel = quad / shape.taps * 4 + i, at = channel * shape.taps + quad % shape.taps;
    if (!rt_filters_by_channels(shape)) {
        at = 4 * quad + i;
        channel = at / shape.taps;
    }
    return channel < shape.channels ? (int8_t)(w[at] ^ flip) : 0;
}

void rt_filters_arrange(op_dtype dtype, const uint8_t *w, int64_t groups, int64_t filters_each,
                        rt_filters_shape shape, void *arranged) {
    const int64_t quads = rt_filters_quads(shape), depth = shape.channels * shape.taps;
    const uint8_t flip = dtype == OP_UINT8 ? 0x80 : 0;
    int8_t *to = arranged;
    int32_t *sums = (int32_t *)(void *)(to + groups * filters_each * 4 * quads);
    for (int64_t group = 0; group < groups; group++, w += filters_each * depth) {
        int64_t strip = STRIP;
        for (int64_t row = 0; row < filters_each; row += strip) {
            while (strip > filters_each - row) strip /= 2;
            for (int64_t r = 0; r < strip; r++) sums[r] = 0;
            for (int64_t quad = 0; quad < quads; quad++) {
                for (int64_t r = 0; r < strip; r++) {
                    for (int64_t i = 0; i < 4; i++, to++) {
                        *to = filter_byte(w + (row + r) * depth, flip, shape, quad, i);
                        sums[r] += *to;
                    }
                }
            }
            sums += strip;
        }
    }
}

/* ---- scratch ------------------------------------------------------------------------------------------- */

/* Where the parts of the scratch begin, in bytes: panels, where these lie, sums, sums of columns. */
typedef struct parts {
    size_t offsets, sums, column_sums, end;
    int64_t pitch, deep; /* deep: quadruples at a time */
} parts;

static parts divide(int64_t rows, int64_t columns, int64_t quads, bool filled) {
    parts made = {.pitch = round_up(columns, RT_INTEGER_PANEL), .deep = quads};
    if (filled) made.deep = least(quads, DEPTH_QUADS);
    /* Sums of a strip are complete at once, or those of all rows are kept. */
    const int64_t kept = made.deep == quads ? least(rows, STRIP) : rows;
    made.offsets = filled ? (size_t)(made.pitch * 4 * made.deep) : 0;
    made.sums = made.offsets + (filled ? (size_t)round_up(made.deep * 8, RT_ALIGNMENT) : 0);
    made.column_sums = made.sums + (size_t)(kept * made.pitch) * sizeof(int32_t);
    made.end = made.column_sums + (size_t)made.pitch * sizeof(int32_t);
    return made;
}

int64_t rt_filters_columns(int64_t quads, bool filled) {
    enum { FEWEST = 64, FEWEST_DIRECT = 256, NEAR = 32768, MOST = RT_INTEGER_COLUMNS / 2 };
    const int64_t deep = 4 * least(quads, DEPTH_QUADS);
    int64_t columns = filled ? FEWEST : FEWEST_DIRECT;
    while (columns < MOST && 2 * columns * deep <= NEAR) columns *= 2;
    return columns;
}

size_t rt_filters_scratch(int64_t rows, int64_t columns, int64_t quads, bool filled) {
    return divide(rows, columns, quads, filled).end;
}

/* ---- quadruples of lines ------------------------------------------------------------------------------- */

static void interleave_plain(const uint8_t *const lines[4], int64_t count, int64_t step, uint8_t flip,
                             uint8_t *panels, int64_t distance) {
    for (int64_t j = 0; j < count; j++) {
        uint8_t *to = panels + j / RT_INTEGER_PANEL * distance + j % RT_INTEGER_PANEL * 4;
        for (int i = 0; i < 4; i++) to[i] = lines[i] ? lines[i][j * step] ^ flip : 0;
    }
}

#if RT_X86_KERNELS
static bool has_quads(void) {
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
}

enum { TOGETHER = 4 * RT_INTEGER_PANEL };
#define WIDE __attribute__((target("avx512bw")))

/* `count` bytes, at most 64, of which the next lies `step` bytes after one; zeros after them. */
WIDE static inline __attribute__((always_inline)) __m512i load_line(const uint8_t *from, int64_t count,
                                                                    int64_t step) {
    if (step == 1) return _mm512_maskz_loadu_epi8(rt_first_lanes_64(count), from);
    if (step == 2) { /* the last byte ends what is read */
        const __m512i low = _mm512_maskz_loadu_epi8(rt_first_lanes_64(2 * count - 1), from),
                      high = count > TOGETHER / 2
                                 ? _mm512_maskz_loadu_epi8(rt_first_lanes_64(2 * count - 1 - TOGETHER),
                                                           from + TOGETHER)
                                 : _mm512_setzero_si512();
        return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)),
                                  _mm512_cvtepi16_epi8(high), 1);
    }
    uint8_t line[TOGETHER] = {0};
    for (int64_t i = 0; i < count; i++) line[i] = from[i * step];
    return _mm512_loadu_si512(line);
}

/* At most 16 columns, of which a register has no more. */
WIDE static inline void interleave_16(const __m512i line[4], int64_t count, uint8_t *to) {
    const __m128i a = _mm512_castsi512_si128(line[0]), b = _mm512_castsi512_si128(line[1]),
                  c = _mm512_castsi512_si128(line[2]), d = _mm512_castsi512_si128(line[3]);
    const __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
    const __m128i low2 = _mm_unpacklo_epi8(c, d), high2 = _mm_unpackhi_epi8(c, d);
    const __m128i all[4] = {_mm_unpacklo_epi16(low, low2), _mm_unpackhi_epi16(low, low2),
                            _mm_unpacklo_epi16(high, high2), _mm_unpackhi_epi16(high, high2)};
    for (int64_t i = 0; i < 4 && 4 * i < count; i++) {
        uint8_t *at = to + i * (PANEL_BYTES / 4);
        if (4 * (i + 1) <= count) _mm_storeu_si128((__m128i *)(void *)at, all[i]);
        else _mm512_mask_storeu_epi32(at, rt_first_lanes_16(count - 4 * i), _mm512_castsi128_si512(all[i]));
    }
}

/* At most 64 columns: four panels, each of which has a quarter of the registers, which are put together at the end. */
WIDE static inline __attribute__((always_inline)) void interleave_64(const uint8_t *const lines[4],
                                                                     int64_t count, int64_t step,
                                                                     __m512i change, uint8_t *panels,
                                                                     int64_t distance) {
    __m512i line[4], quads[4];
    for (int i = 0; i < 4; i++)
        line[i] =
            lines[i] ? _mm512_xor_si512(load_line(lines[i], count, step), change) : _mm512_setzero_si512();
    if (count <= RT_INTEGER_PANEL) {
        interleave_16(line, count, panels);
        return;
    }
    rt_quads_of_lines(line, quads);
    rt_quads_in_order(quads, line);
    for (int64_t i = 0; i < 4 && i * RT_INTEGER_PANEL < count; i++) {
        uint8_t *to = panels + i * distance;
        if (count >= (i + 1) * RT_INTEGER_PANEL) _mm512_storeu_si512(to, line[i]);
        else _mm512_mask_storeu_epi32(to, rt_first_lanes_16(count - i * RT_INTEGER_PANEL), line[i]);
    }
}

WIDE static void interleave_wide(const uint8_t *const lines[4], int64_t count, uint8_t flip, uint8_t *panels,
                                 int64_t distance) {
    const __m512i change = _mm512_set1_epi8((char)flip);
    for (int64_t first = 0; first < count; first += TOGETHER, panels += 4 * distance) {
        const uint8_t *at[4];
        for (int i = 0; i < 4; i++) at[i] = lines[i] ? lines[i] + first : NULL;
        interleave_64(at, least(count - first, TOGETHER), 1, change, panels, distance);
    }
}

/* Rows of so many channels with this step, both known where this is called. */
WIDE static inline __attribute__((always_inline)) void
interleave_rows_as(const rt_quad_rows *rows, int64_t channels, int64_t step, uint8_t flip) {
    const __m512i change = _mm512_set1_epi8((char)flip);
    for (int64_t row = 0; row < rows->rows; row++) {
        for (int64_t first = 0; first < rows->columns; first += TOGETHER) {
            const uint8_t *at[4], *from = rows->from + row * rows->row_step + first * step;
            _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) at[i] =
                i < channels ? from + i * rows->channel_step : NULL;
            interleave_64(at, least(rows->columns - first, TOGETHER), step, change,
                          rows->to + row * rows->to_step + 4 * first, PANEL_BYTES);
        }
    }
}

WIDE static void interleave_rows_wide(const rt_quad_rows *rows, uint8_t flip) {
    if (rows->channels == 4 && rows->column_step == 1) interleave_rows_as(rows, 4, 1, flip);
    else if (rows->channels == 4 && rows->column_step == 2) interleave_rows_as(rows, 4, 2, flip);
    else interleave_rows_as(rows, rows->channels, rows->column_step, flip);
}
#else
static bool has_quads(void) {
    return false;
}
static void interleave_wide(const uint8_t *const lines[4], int64_t count, uint8_t flip, uint8_t *panels,
                            int64_t distance) {
    (void)lines, (void)count, (void)flip, (void)panels, (void)distance;
}
static void interleave_rows_wide(const rt_quad_rows *rows, uint8_t flip) {
    (void)rows, (void)flip;
}
#endif

void rt_quads_interleave(const uint8_t *const lines[4], int64_t count, uint8_t flip, uint8_t *panels,
                         int64_t distance) {
    if (has_quads()) interleave_wide(lines, count, flip, panels, distance);
    else interleave_plain(lines, count, 1, flip, panels, distance);
}

void rt_quads_interleave_rows(const rt_quad_rows *rows, uint8_t flip) {
    if (has_quads()) {
        interleave_rows_wide(rows, flip);
        return;
    }
    for (int64_t row = 0; row < rows->rows; row++) {
        const uint8_t *lines[4];
        for (int i = 0; i < 4; i++)
            lines[i] = i < rows->channels ? rows->from + i * rows->channel_step + row * rows->row_step : NULL;
        interleave_plain(lines, rows->columns, rows->column_step, flip, rows->to + row * rows->to_step,
                         PANEL_BYTES);
    }
}

/* ---- tiles --------------------------------------------------------------------------------------------- */

/* sums[r][j] = start[r] (add: and what it was) and the sum over quadruples of filters[quad][r] . image[panel + offsets[quad]][j], of a few
 * filters and panels. */
typedef void tile_function(int64_t quads, const int8_t *filters, const uint8_t *const *panels,
                           const int64_t *offsets, const int32_t *start, int32_t *sums, int64_t pitch,
                           bool add);

RT_CLONES static void tile_plain(int64_t quads, int64_t rows, const int8_t *filters, const uint8_t *panel,
                                 const int64_t *offsets, const int32_t *start, int32_t *sums, int64_t pitch,
                                 bool add) {
    for (int64_t r = 0; r < rows; r++) {
        uint32_t line[RT_INTEGER_PANEL];
        for (int j = 0; j < RT_INTEGER_PANEL; j++)
            line[j] = (uint32_t)start[r] + (add ? (uint32_t)sums[r * pitch + j] : 0);
        for (int64_t k = 0; k < quads; k++) {
            const int8_t *a = filters + 4 * (k * rows + r);
            const uint8_t *b = panel + offsets[k];
            for (int j = 0; j < RT_INTEGER_PANEL; j++)
                line[j] += (uint32_t)(a[0] * b[4 * j] + a[1] * b[4 * j + 1] + a[2] * b[4 * j + 2] +
                                      a[3] * b[4 * j + 3]);
        }
        memcpy(sums + r * pitch, line, sizeof line);
    }
}

#if RT_X86_KERNELS
#define TILE(name, rows_count, panels_count)                                                                 \
    __attribute__((target("avx512bw,avx512vnni"))) static void name(                                         \
        int64_t quads, const int8_t *filters, const uint8_t *const *panels, const int64_t *offsets,          \
        const int32_t *start, int32_t *sums, int64_t pitch, bool add) {                                      \
        __m512i sum[rows_count][panels_count];                                                               \
        const uint8_t *from[panels_count];                                                                   \
        _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) from[p] = panels[p];                 \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                      \
            _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) {                                \
                sum[r][p] = _mm512_set1_epi32(start[r]);                                                     \
                if (add) {                                                                                   \
                    const __m512i before = _mm512_loadu_si512(sums + r * pitch + p * RT_INTEGER_PANEL);      \
                    sum[r][p] = _mm512_add_epi32(sum[r][p], before);                                         \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < quads; k++, filters += 4 * rows_count) {                                     \
            const int64_t offset = offsets[k];                                                               \
            __m512i right[panels_count];                                                                     \
            _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) {                                \
                right[p] = _mm512_loadu_si512(from[p] + offset);                                             \
            }                                                                                                \
            _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                  \
                int32_t four;                                                                                \
                memcpy(&four, filters + 4 * r, sizeof four);                                                 \
                const __m512i left = _mm512_set1_epi32(four);                                                \
                _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) {                            \
                    sum[r][p] = _mm512_dpbusd_epi32(sum[r][p], right[p], left);                              \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                      \
            _Pragma("GCC unroll 16") for (int p = 0; p < panels_count; p++) {                                \
                _mm512_storeu_si512(sums + r * pitch + p * RT_INTEGER_PANEL, sum[r][p]);                     \
            }                                                                                                \
        }                                                                                                    \
    }
#define TILES(rows)                                                                                          \
    TILE(tile_##rows##_1, rows, 1) TILE(tile_##rows##_2, rows, 2) TILE(tile_##rows##_3, rows, 3)
TILES(1)
TILES(2)
TILES(4)
TILES(8)

enum { MOST_PANELS = 3 };

static tile_function *best_tile(int64_t rows, int64_t panels) {
    static tile_function *const tiles[4][MOST_PANELS] = {{tile_1_1, tile_1_2, tile_1_3},
                                                         {tile_2_1, tile_2_2, tile_2_3},
                                                         {tile_4_1, tile_4_2, tile_4_3},
                                                         {tile_8_1, tile_8_2, tile_8_3}};
    return tiles[rows == 8 ? 3 : rows / 2][panels - 1];
}
#else
enum { MOST_PANELS = 1 };

static tile_function *best_tile(int64_t rows, int64_t panels) {
    (void)rows, (void)panels;
    return NULL;
}
#endif

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* The panels of some quadruples: where each begins, and from there each quadruple. */
typedef struct panels {
    const uint8_t *image;
    const int64_t *begins; /* NULL: they lie one after another, `distance` bytes apart */
    int64_t distance;
    const int64_t *offsets;
} panels;

static void run_tiles(const panels *from, int64_t quads, int64_t rows, int64_t columns, const int8_t *filters,
                      const int32_t *start, int32_t *sums, int64_t pitch, bool add) {
    const bool wide = has_quads();
    const int64_t count = (columns + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL;
    for (int64_t panel = 0, now; panel < count; panel += now) {
        const uint8_t *begins[MOST_PANELS];
        now = count - panel;
        /* Two at a time, and three where one would be left alone. */
        if (now > 3) now = 2;
        if (now > MOST_PANELS || !wide) now = 1;
        for (int64_t p = 0; p < now; p++)
            begins[p] = from->image + (from->begins ? from->begins[panel + p] : (panel + p) * from->distance);
        int32_t *to = sums + panel * RT_INTEGER_PANEL;
        if (wide) best_tile(rows, now)(quads, filters, begins, from->offsets, start, to, pitch, add);
        else tile_plain(quads, rows, filters, begins[0], from->offsets, start, to, pitch, add);
    }
}

RT_CLONES static void add_multiples(uint32_t *restrict sums, const uint32_t *restrict of, int64_t count,
                                    uint32_t factor) {
    for (int64_t j = 0; j < count; j++) sums[j] += factor * of[j];
}

/* What is computed is the sum of f i, wanted that of (f - f_zero) (i - i_zero): the zero point of a filter as it is taken, with which its sums
 * have to change by so much of the sum of each column. */
static int32_t zero_of(const rt_filters_block *block, int64_t row) {
    return block->zeros[row] + (block->filter_dtype == OP_UINT8 ? -128 : 0);
}

/* And what all sums of a filter have in common. */
static int32_t start_of(const rt_filters_block *block, int64_t row) {
    const int32_t image_zero = block->image_zero + (block->image_dtype == OP_INT8 ? 128 : 0);
    const uint32_t factor =
        (uint32_t)block->depth * (uint32_t)zero_of(block, row) - (uint32_t)block->sums[row];
    return (int32_t)(factor * (uint32_t)image_zero + (block->biases ? (uint32_t)block->biases[row] : 0));
}

static void finish(const rt_filters_block *block, int64_t row, int64_t rows, int32_t *sums, int64_t pitch,
                   const int32_t *column_sums) {
    for (int64_t i = 0; i < rows; i++) {
        const uint32_t zero = (uint32_t)zero_of(block, row + i);
        if (zero)
            add_multiples((uint32_t *)sums + i * pitch, (const uint32_t *)column_sums, block->columns,
                          0 - zero);
    }
    block->finish(block->results, row, rows, sums, pitch);
}

/* The sums of the columns: a filter of ones adds them up. */
static void add_columns(const rt_filters_block *block, const panels *from, int64_t quads,
                        int32_t *column_sums, int64_t pitch, bool add) {
    static const int32_t none = 0;
    int8_t ones[4 * DEPTH_QUADS];
    panels part = *from;
    memset(ones, 1, sizeof ones);
    for (int64_t k = 0; k < quads; k += DEPTH_QUADS, part.offsets += DEPTH_QUADS)
        run_tiles(&part, least(quads - k, DEPTH_QUADS), 1, block->columns, ones, &none, column_sums, pitch,
                  add || k > 0);
}

/* What a part of the depth adds to the sums of a block, which are kept there, or finished at once. */
typedef struct depth_part {
    int64_t first, quads; /* quadruples */
    int32_t *sums;
    const int32_t *column_sums;
    int64_t pitch;
    bool at_once;
} depth_part;

static void run_strips(const rt_filters_block *block, const panels *from, const depth_part *part) {
    const int8_t *filters = block->filters;
    int64_t strip = STRIP;
    for (int64_t row = 0; row < block->rows; row += strip, filters += 4 * block->quads * strip) {
        int32_t start[STRIP] = {0};
        while (strip > block->rows - row) strip /= 2;
        for (int64_t i = 0; i < strip && part->first == 0; i++) start[i] = start_of(block, row + i);
        int32_t *to = part->at_once ? part->sums : part->sums + row * part->pitch;
        run_tiles(from, part->quads, strip, block->columns, filters + 4 * part->first * strip, start, to,
                  part->pitch, part->first > 0);
        if (part->at_once) finish(block, row, strip, to, part->pitch, part->column_sums);
    }
}

static void run_in_tiles(const rt_filters_block *block, const panels *from, const depth_part *part) {
    int32_t own[RT_FILTER_TILES_ROWS * RT_FILTER_TILES_COLUMNS];
    for (int64_t row = 0; row < block->rows; row += RT_FILTER_TILES_ROWS) {
        const int64_t rows = least(block->rows - row, RT_FILTER_TILES_ROWS);
        int32_t start[RT_FILTER_TILES_ROWS];
        for (int64_t i = 0; i < rows; i++) start[i] = start_of(block, row + i);
        const rt_filter_tiles tiles = {.filters = block->filters + 4 * block->quads * row,
                                       .rows = rows,
                                       .columns = block->columns,
                                       .quads = block->quads,
                                       .first = part->first,
                                       .count = part->quads,
                                       .step = block->step,
                                       .image = from->image,
                                       .begins = from->begins,
                                       .offsets = from->offsets,
                                       .distance = from->distance,
                                       .start = part->first ? NULL : start,
                                       .sums = part->at_once ? own : part->sums + row * part->pitch,
                                       .pitch = part->pitch};
        rt_filter_tiles_run(&tiles);
        if (part->at_once) finish(block, row, rows, own, part->pitch, part->column_sums);
    }
}

void rt_filters_block_run(const rt_filters_block *block, void *scratch) {
    const bool filled = !block->image;
    const parts places = divide(block->rows, block->columns, block->quads, filled);
    /* Parts of the depth are whole tiles. */
    const int64_t tile = RT_FILTER_TILES_QUADS * block->step;
    const bool tiles = block->tiles &&
                       rt_filter_tiles_fit(block->rows, block->columns, block->quads, block->step) &&
                       (places.deep == block->quads || places.deep >= tile);
    const int64_t deep = tiles && places.deep < block->quads ? places.deep / tile * tile : places.deep;
    uint8_t *own = scratch;
    int64_t *own_offsets = (int64_t *)(void *)((char *)scratch + places.offsets);
    int32_t *column_sums = (int32_t *)(void *)((char *)scratch + places.column_sums);
    panels from = {.image = block->image, .begins = block->panels, .offsets = block->offsets};
    depth_part part = {.sums = (int32_t *)(void *)((char *)scratch + places.sums),
                       .column_sums = column_sums,
                       .pitch = places.pitch,
                       .at_once = places.deep == block->quads};
    bool zero = false;
    for (int64_t row = 0; row < block->rows; row++) zero |= zero_of(block, row) != 0;
    for (int64_t k = 0; k < places.deep && filled; k++) own_offsets[k] = k * PANEL_BYTES;
    if (filled) from = (panels){.image = own, .offsets = own_offsets};
    for (; part.first < block->quads; part.first += deep) {
        part.quads = least(block->quads - part.first, deep);
        if (filled) {
            from.distance = part.quads * PANEL_BYTES;
            block->fill(block->context, part.first, part.quads, own);
        }
        if (zero) add_columns(block, &from, part.quads, column_sums, places.pitch, part.first > 0);
        (tiles ? run_in_tiles : run_strips)(block, &from, &part);
    }
    if (!part.at_once) finish(block, 0, block->rows, part.sums, places.pitch, column_sums);
}

bool rt_filters_wanted(void) {
    return has_quads();
}
