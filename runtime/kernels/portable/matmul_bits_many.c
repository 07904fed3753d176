/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits_many.c: many rows times weights of 2, 4 or 8 bits: some columns at a time are unpacked into memory, as bytes for products of
 * integers, where the machine is faster with these (digit_tiles.h), or as the left matrix of the tiles of the float product; the rows of x are
 * their panels. With groups of the file's own (g_idx), a column is unpacked element by element.
 */
#include "runtime/kernels/portable/matmul_bits_groups.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/turn.h"

enum {
    NUMBERED = 8, /* rows of x that are written as integers together */
    COLUMNS = 48, /* unpacked at a time: whole tiles of 6 or 12 rows */
    DEPTH = 128   /* of those: whole groups */
};

/* Where element k of a column goes. */
static int64_t split_place(int64_t k, int bits) {
    const int64_t each = 32 / bits, within = k % (each * LANES);
    return k - within + within % each * LANES + within / each;
}

/* Rows [row, row + count) as panels, split: DEPTH after DEPTH, in each panels[p][k][RT_PANEL]. A line of each row at a time: rows may
 * lie so far apart that few of them stay in the nearest cache. */
static void pack_rows(const bits_context *c) {
    enum { LINE = RT_ALIGNMENT / sizeof(float) };
    const bits_state *s = c->state;
    const int64_t panels = (c->count + RT_PANEL - 1) / RT_PANEL;
    for (int64_t from = 0; from < s->padded; from += LINE) {
        const int64_t some = s->padded - from < LINE ? s->padded - from : LINE;
        float *places[LINE]; /* of the first panel */
        int64_t steps[LINE]; /* to the next one */
        for (int64_t i = 0; i < some; i++) {
            const int64_t place = split_place(from + i, s->bits), first = place / DEPTH * DEPTH,
                          deep = s->padded - first < DEPTH ? s->padded - first : DEPTH;
            places[i] = c->split + first * panels * RT_PANEL + (place - first) * RT_PANEL;
            steps[i] = deep * RT_PANEL;
        }
        int64_t row = 0;
        for (; row + RT_PANEL <= c->count && from + some <= s->depth; row += RT_PANEL) {
            float turned[LINE * RT_PANEL];
            rt_turn_words((const uint32_t *)(const void *)(c->x + (c->row + row) * s->depth + from), s->depth,
                          RT_PANEL, some, (uint32_t *)(void *)turned, RT_PANEL);
            for (int64_t i = 0; i < some; i++)
                memcpy(places[i] + row / RT_PANEL * steps[i], turned + i * RT_PANEL,
                       RT_PANEL * sizeof *turned);
        }
        for (; row < panels * RT_PANEL; row++) {
            const float *x = c->x + (c->row + row) * s->depth;
            for (int64_t i = 0; i < some; i++)
                places[i][row / RT_PANEL * steps[i] + row % RT_PANEL] =
                    row < c->count && from + i < s->depth ? x[from + i] : 0;
        }
    }
}

/* Groups [from, to) of bytes of a column. */
static inline __attribute__((always_inline)) void unpack(const uint8_t *column, const float *scales,
                                                         const float *zeros, int64_t from, int64_t to,
                                                         int64_t bytes, int shift, int bits,
                                                         const float *levels, float *left) {
    const uint32_t mask = (uint32_t)((1 << bits) - 1);
    for (; from < to; from += GROUP) {
        words group;
        reals scale, zero;
        load_group(column, from, bytes, &group);
        spread(scales, from, bytes, shift, &scale);
        if (!levels) spread(zeros, from, bytes, shift, &zero);
        for (int j = 0; j < 32 / bits; j++, left += LANES) {
            reals weight;
            if (levels) pick(levels, &group, j * bits, &weight);
            else weight = __builtin_convertvector((integers)(group >> (j * bits) & mask), reals) - zero;
            *(reals *)left = scale * weight;
        }
    }
}

#define UNPACK(name, bits, levelled)                                                                         \
    RT_CLONES_FUSED static void unpack_##name(const uint8_t *column, const float *scales,                    \
                                              const float *zeros, int64_t from, int64_t to, int64_t bytes,   \
                                              int shift, const float *levels, float *left) {                 \
        unpack(column, scales, zeros, from, to, bytes, shift, bits, levelled ? levels : NULL, left);         \
    }
UNPACK(2, 2, false)
UNPACK(4, 4, false)
UNPACK(8, 8, false)
UNPACK(levels, 4, true)

typedef void unpack_function(const uint8_t *column, const float *scales, const float *zeros, int64_t from,
                             int64_t to, int64_t bytes, int shift, const float *levels, float *left);

/* The same with groups of the file's own. */
static void unpack_elements(const bits_context *c, int64_t column, int64_t from, int64_t count, float *left) {
    const bits_state *s = c->state;
    const uint8_t *weights = c->weights + column * s->blocks * s->block_bytes;
    const int each = 8 / s->bits;
    for (int64_t k = from; k < from + count; k++) {
        float *to = left + split_place(k, s->bits) - from;
        *to = 0;
        if (k >= s->depth) continue;
        const int code = weights[k / each] >> (int)(k % each) * s->bits & ((1 << s->bits) - 1);
        const float weight = s->levelled ? s->levels[code] : (float)code - zero_of(c, column, c->groups[k]);
        *to = c->scales[column * s->blocks + c->groups[k]] * weight;
    }
}

/* Elements [from, from + count) of a column, split: whole groups. */
static void unpack_column(const bits_context *c, int64_t column, int64_t from, int64_t count, float *left) {
    const bits_state *s = c->state;
    const int64_t first = from * s->bits / 8, after = (from + count) * s->bits / 8,
                  bytes = s->blocks * s->block_bytes, low = first >> s->shift,
                  high = (after + s->block_bytes - 1) >> s->shift;
    float zeros[DEPTH / 4]; /* of at most so many blocks; they are counted from the first */
    if (s->grouped) {
        unpack_elements(c, column, from, count, left);
        return;
    }
    const bool middle = !s->zeros_real && !s->zeros_packed;
    for (int64_t b = low; b < high && b < s->blocks; b++)
        zeros[b - low] = middle ? (float)(1 << (s->bits - 1)) : zero_of(c, column, b);
    const int64_t skipped = low * s->block_bytes;
    /* The next ones are wanted after a product, and lie alone: no processor asks for them by itself. */
    const uint8_t *next = c->weights + column * bytes + after;
    for (int64_t at = 0; at < after - first && after + at < bytes; at += RT_ALIGNMENT)
        __builtin_prefetch(next + at);
    if (high < s->blocks) __builtin_prefetch(c->scales + column * s->blocks + high);
    unpack_function *const function = s->levelled    ? unpack_levels
                                      : s->bits == 2 ? unpack_2
                                      : s->bits == 4 ? unpack_4
                                                     : unpack_8;
    function(c->weights + column * bytes + skipped, c->scales + column * s->blocks + low, zeros,
             first - skipped, after - skipped, bytes - skipped, s->shift, s->levels, left);
}

/* Groups of columns, times the rows of which there are panels. */
static void columns_of_many(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const bits_state *s = c->state;
    _Alignas(RT_ALIGNMENT) float left[COLUMNS * DEPTH], turned[COLUMNS * MANY_ROWS];
    const int64_t wide = (c->count + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
    for (int64_t group = begin; group < end; group++) {
        const int64_t column = group * c->together;
        const int64_t columns = s->columns - column < c->together ? s->columns - column : c->together;
        for (int64_t from = 0; from < s->padded; from += DEPTH) {
            const int64_t deep = s->padded - from < DEPTH ? s->padded - from : DEPTH;
            for (int64_t i = 0; i < columns; i++) unpack_column(c, column + i, from, deep, left + i * deep);
            /* Rows of the result lie far apart, and are written after the last product. */
            for (int64_t r = 0; r < c->count && from + deep == s->padded; r++)
                rt_prefetch(c->y + (c->row + r) * s->columns + column, (size_t)columns * sizeof *c->y);
            rt_tiles_run(&(rt_tiles){.rows = columns,
                                     .columns = wide,
                                     .depth = deep,
                                     .a = left,
                                     .a_row = deep,
                                     .a_depth = 1,
                                     .panels = c->split + from * wide,
                                     .c = turned,
                                     .c_row = wide,
                                     .add = from > 0,
                                     .fused = true});
        }
        for (int64_t i = 0; i < columns && s->bias; i++) {
            for (int64_t r = 0; r < c->count; r++) turned[i * wide + r] += c->bias[column + i];
        }
        rt_turn_words((const uint32_t *)(const void *)turned, wide, columns, c->count,
                      (uint32_t *)(void *)(c->y + c->row * s->columns + column), s->columns);
    }
}

/* Fewer columns at a time where the threads would have unequal shares of them. */
int64_t rt_matmul_bits_together(int64_t columns, int threads) {
    enum { TILE = 12 };
    int64_t best = COLUMNS, least = INT64_MAX;
    for (int64_t each = COLUMNS; each >= TILE && threads > 1; each -= TILE) {
        const int64_t groups = (columns + each - 1) / each, share = (groups + threads - 1) / threads * each;
        if (share >= least) continue;
        best = each;
        least = share;
    }
    return best;
}

/* Rows as integers, some at a time. */
static void number_rows(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const bits_state *s = c->state;
    for (int64_t i = begin; i < end; i++) {
        const int64_t after = (i + 1) * NUMBERED;
        c->finite[i] = rt_digit_rows(&s->numbers, c->x + c->row * s->depth, c->count, i * NUMBERED,
                                     after < c->count ? after : c->count, c->split);
    }
}

static void panels_of_many(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const rt_digit_weights weights = {c->weights, c->scales, c->bias, {c->real_zeros, c->zeros}};
    rt_digit_columns(&c->state->numbers, c->split, c->count, &weights, begin, end,
                     c->y + c->row * c->state->columns);
}

bool rt_matmul_bits_integers(bits_context *c, int threads) {
    const bits_state *s = c->state;
    if (!s->numbers.form || (uintptr_t)c->weights % sizeof(uint32_t))
        return false; /* weights are read as words */
    bool finite[RT_DIGIT_MOST_ROWS / NUMBERED];
    const int64_t parts = (c->count + NUMBERED - 1) / NUMBERED;
    c->finite = finite;
    rt_parallel(threads, parts, NUMBERED * s->depth, number_rows, c);
    for (int64_t i = 0; i < parts; i++)
        if (!finite[i]) return false;
    rt_parallel(threads, (s->columns + RT_DIGIT_COLUMNS - 1) / RT_DIGIT_COLUMNS,
                c->count * s->depth * RT_DIGIT_COLUMNS, panels_of_many, c);
    return true;
}

void rt_matmul_bits_floats(bits_context *c, int64_t after, int threads) {
    const bits_state *s = c->state;
    for (; c->row < after; c->row += MANY_ROWS) {
        c->count = after - c->row < MANY_ROWS ? after - c->row : MANY_ROWS;
        pack_rows(c);
        rt_parallel(threads, (s->columns + c->together - 1) / c->together, c->count * s->depth * c->together,
                    columns_of_many, c);
    }
}
