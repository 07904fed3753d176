/* SPDX-License-Identifier: Apache-2.0 */
/* wide_tiles.c: see wide_tiles.h. Two vectors of sums are finished a cycle where nothing else wants the units that do it: additions of
 * addresses do, so that two steps of the depth share them, and the depth of the left side lies side by side.
 */
#include "runtime/kernels/portable/wide_tiles.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/wide_tile.h"
#include <math.h>
#include <string.h>

#if RT_X86_KERNELS
#include <cpuid.h>
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

enum {
    MOST_ROWS = RT_WIDE_ROWS,
    MOST_PANELS = 8,
    COPIED_DEPTH = 384, /* of rows that are copied, at most */
    LINES = 8,          /* of a set of a nearest cache */
    PAGE = 4096         /* bytes: rows that are a multiple of so many apart meet in the nearest cache */
};

/* The vector at an element of a panel. */
AVX512 INLINE __m512 load(op_dtype stored, const char *at) {
    return stored == OP_FLOAT16    ? RT_LOAD_HALF_16(, at)
           : stored == OP_BFLOAT16 ? RT_LOAD_BRAIN_16(, at)
           : stored == OP_INT16    ? RT_LOAD_SHORT_16(, at)
                                   : _mm512_loadu_ps((const float *)(const void *)at);
}

/* Asks for what is written soon: as many lines as these sums go to. */
INLINE void ask_later(const rt_wide_tile *t, int rows, int panels) {
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < panels; v++)
            __builtin_prefetch((const void *)(t->later + (uintptr_t)(r * t->later_row + v * RT_ALIGNMENT)), 1,
                               3);
}

/* Adds what is there to sums. */
AVX512 INLINE void add_all(const float *from, int64_t row, __mmask16 last, int rows, int panels,
                           __m512 (*sums)[MOST_PANELS]) {
    _Pragma("GCC unroll 14") for (int r = 0; r < rows; r++) {
        _Pragma("GCC unroll 8") for (int v = 0; v < panels; v++) {
            const __mmask16 there = v == panels - 1 ? last : (__mmask16)0xffff;
            sums[r][v] =
                _mm512_add_ps(sums[r][v], _mm512_maskz_loadu_ps(there, from + r * row + v * RT_PANEL));
        }
    }
}

/* Sums begin with what is there, or with zeros, while the memory that they go to is asked for. */
AVX512 INLINE void begin(const rt_wide_tile *t, int rows, int panels, __m512 (*sums)[MOST_PANELS]) {
    float *c = t->c;
    const bool add = t->add;
    const int64_t c_row = t->c_row;
    _Pragma("GCC unroll 14") for (int r = 0; r < rows; r++) {
        float *row = c + r % 3 * c_row;
        _Pragma("GCC unroll 8") for (int v = 0; v < panels; v++) {
            const __mmask16 there = v == panels - 1 ? t->last : (__mmask16)0xffff;
            if (add) {
                sums[r][v] = _mm512_maskz_loadu_ps(there, row + v * RT_PANEL);
            } else {
                __builtin_prefetch(row + v * RT_PANEL, 1, 3);
                sums[r][v] = _mm512_setzero_ps();
            }
        }
        if (r % 3 == 2) c = (float *)(uintptr_t)rt_third(c, c_row);
    }
}

/* A number that is none stays one: it is the second operand. */
AVX512 INLINE void finish(const rt_wide_tile *t, int rows, int panels, __m512 (*sums)[MOST_PANELS]) {
    if (t->bias) {
        _Pragma("GCC unroll 8") for (int v = 0; v < panels; v++) {
            const __m512 bias =
                _mm512_maskz_loadu_ps(v == panels - 1 ? t->last : (__mmask16)0xffff, t->bias + v * RT_PANEL);
            _Pragma("GCC unroll 14") for (int r = 0; r < rows; r++) sums[r][v] =
                _mm512_add_ps(sums[r][v], bias);
        }
    }
    if (t->low > -INFINITY || t->high < INFINITY) {
        _Pragma("GCC unroll 14") for (int r = 0; r < rows; r++)
            _Pragma("GCC unroll 8") for (int v = 0; v < panels; v++) RT_LIMIT_16(sums[r][v], t->low, t->high);
    }
}

AVX512 INLINE void store(float *c, int64_t c_row, __mmask16 last, int rows, int panels,
                         __m512 (*sums)[MOST_PANELS]) {
    _Pragma("GCC unroll 14") for (int r = 0; r < rows; r++) {
        float *row = c + r % 3 * c_row;
        _Pragma("GCC unroll 8") for (int v = 0; v + 1 < panels; v++)
            _mm512_storeu_ps(row + v * RT_PANEL, sums[r][v]);
        _mm512_mask_storeu_ps(row + (panels - 1) * RT_PANEL, last, sums[r][panels - 1]);
        if (r % 3 == 2) c = (float *)(uintptr_t)rt_third(c, c_row);
    }
}

/* One step of the depth, `k` after where the addresses lead. */
AVX512 INLINE void add_products(op_dtype stored, int rows, int panels, const float *const *a, int64_t a_row,
                                const char *panel, int64_t step, int k, __m512 (*sums)[MOST_PANELS]) {
    const int64_t each = stored == OP_FLOAT ? sizeof(float) : sizeof(uint16_t);
    __m512 right[MOST_PANELS];
    panel += k * RT_PANEL * each;
    _Pragma("GCC unroll 8") for (int v = 0; v < panels; v++) right[v] = load(stored, panel + v * step);
    _Pragma("GCC unroll 14") for (int r = 0; r < rows; r++) {
        const __m512 left = _mm512_set1_ps(a[r / 3][r % 3 * a_row + k]);
        _Pragma("GCC unroll 8") for (int v = 0; v < panels; v++) sums[r][v] =
            _mm512_fmadd_ps(left, right[v], sums[r][v]);
    }
}

/* Sums of the whole depth. */
AVX512 INLINE void add_depth(const rt_wide_tile *t, op_dtype stored, int rows, int panels, const float *left,
                             int64_t a_row, const char *panel, __m512 (*sums)[MOST_PANELS]) {
    enum { ADDRESSES = (MOST_ROWS + 2) / 3 };
    const int64_t each = stored == OP_FLOAT ? sizeof(float) : sizeof(uint16_t), step = t->panel_step * each,
                  ahead = t->ahead, depth = t->depth;
    const int addresses = (rows + 2) / 3;
    const bool asks = panels <= 2 && ahead != 0;
    const float *a[ADDRESSES];
    _Pragma("GCC unroll 5") for (int i = 0; i < addresses; i++) a[i] = left + 3 * i * a_row;
    const char *const end = panel + depth / RT_WIDE_STEPS * RT_WIDE_STEPS * RT_PANEL * each;
    const int64_t stretch = t->stretch * RT_WIDE_STEPS * RT_PANEL * each;
    while (panel < end) {
        const char *const stop = asks && end - panel > stretch ? panel + stretch : end;
        if (asks)
            rt_wide_ask((uintptr_t)panel + (uintptr_t)ahead, panels, step, RT_WIDE_STEPS * RT_PANEL * each);
        do {
            /* Nothing else moves on: what is reached from these is not given registers that do, too. */
            __asm__("" : "+r"(panel));
            _Pragma("GCC unroll 5") for (int i = 0; i < addresses; i++) __asm__("" : "+r"(a[i]));
            add_products(stored, rows, panels, a, a_row, panel, step, 0, sums);
            add_products(stored, rows, panels, a, a_row, panel, step, 1, sums);
            panel += RT_WIDE_STEPS * RT_PANEL * each;
            _Pragma("GCC unroll 5") for (int i = 0; i < addresses; i++) a[i] += RT_WIDE_STEPS;
        } while (panel < stop);
    }
    if (depth % RT_WIDE_STEPS) add_products(stored, rows, panels, a, a_row, panel, step, 0, sums);
}

AVX512 INLINE void make(const rt_wide_tile *t, op_dtype stored, int rows, int panels) {
    __m512 sums[MOST_ROWS][MOST_PANELS];
    if (t->later) ask_later(t, rows, panels);
    begin(t, rows, panels, sums);
    add_depth(t, stored, rows, panels, t->a, t->a_row, t->panels, sums);
    finish(t, rows, panels, sums);
    store(t->c, t->c_row, t->last, rows, panels, sums);
}

/* The same, and then what rt_tiles_then says. */
AVX512 INLINE void make_both(const rt_wide_tile *t, int rows, int panels) {
    const rt_tiles_then *then = t->then;
    __m512 sums[MOST_ROWS][MOST_PANELS];
    if (t->later) ask_later(t, rows, panels);
    begin(t, rows, panels, sums);
    add_depth(t, OP_FLOAT, rows, panels, t->a, t->a_row, t->panels, sums);
    store(t->c, t->c_row, t->last, rows, panels, sums);
    if (t->more) add_all(t->more, t->c_row, t->last, rows, panels, sums);
    add_depth(t, OP_FLOAT, rows, panels, t->then_a, then->a_row, t->panels + t->then_panels, sums);
    if (then->add) add_all(t->then_c, then->c_row, t->last, rows, panels, sums);
    finish(t, rows, panels, sums);
    store(t->then_c, then->c_row, t->last, rows, panels, sums);
}

#define TILE(name, stored, rows, panels)                                                                     \
    AVX512 static void name##_##rows##_##panels(const rt_wide_tile *t) {                                     \
        make(t, stored, rows, panels);                                                                       \
    }
#define FEW(name, stored, rows)                                                                              \
    TILE(name, stored, rows, 1)                                                                              \
    TILE(name, stored, rows, 2)                                                                              \
    TILE(name, stored, rows, 4)                                                                              \
    TILE(name, stored, rows, 8)
#define SOME(name, stored, rows)                                                                             \
    TILE(name, stored, rows, 1)                                                                              \
    TILE(name, stored, rows, 2)                                                                              \
    TILE(name, stored, rows, 4)
#define MANY(name, stored, rows)                                                                             \
    TILE(name, stored, rows, 1)                                                                              \
    TILE(name, stored, rows, 2)
/* Of few rows, more panels side by side: additions do not wait for those before, and several streams are read, which needs no asking. */
#define ALL(name, stored)                                                                                    \
    FEW(name, stored, 1)                                                                                     \
    FEW(name, stored, 2)                                                                                     \
    FEW(name, stored, 3)                                                                                     \
    SOME(name, stored, 4)                                                                                    \
    SOME(name, stored, 5)                                                                                    \
    SOME(name, stored, 6)                                                                                    \
    MANY(name, stored, 7)                                                                                    \
    MANY(name, stored, 8)                                                                                    \
    MANY(name, stored, 9)                                                                                    \
    MANY(name, stored, 10)                                                                                   \
    MANY(name, stored, 11)                                                                                   \
    MANY(name, stored, 12)                                                                                   \
    MANY(name, stored, 13)                                                                                   \
    MANY(name, stored, 14)
ALL(floats, OP_FLOAT)
ALL(halves, OP_FLOAT16)
ALL(brains, OP_BFLOAT16)
ALL(shorts, OP_INT16)
#define BOTH(rows)                                                                                           \
    AVX512 static void both_##rows##_1(const rt_wide_tile *t) {                                              \
        make_both(t, rows, 1);                                                                               \
    }                                                                                                        \
    AVX512 static void both_##rows##_2(const rt_wide_tile *t) {                                              \
        make_both(t, rows, 2);                                                                               \
    }
BOTH(1)
BOTH(2)
BOTH(3)
BOTH(4)
BOTH(5)
BOTH(6)
BOTH(7)
BOTH(8)
BOTH(9)
BOTH(10)
BOTH(11)
BOTH(12)
BOTH(13)
BOTH(14)

/* For so many rows, those of 1, 2, 4 and 8 panels. */
#define ROW(name, rows)                                                                                      \
    { name##_##rows##_1, name##_##rows##_2 }
#define ROW_4(name, rows)                                                                                    \
    { name##_##rows##_1, name##_##rows##_2, name##_##rows##_4 }
#define ROW_8(name, rows)                                                                                    \
    { name##_##rows##_1, name##_##rows##_2, name##_##rows##_4, name##_##rows##_8 }
#define TABLE(name)                                                                                          \
    {                                                                                                        \
        {NULL}, ROW_8(name, 1), ROW_8(name, 2), ROW_8(name, 3), ROW_4(name, 4), ROW_4(name, 5),              \
            ROW_4(name, 6), ROW(name, 7), ROW(name, 8), ROW(name, 9), ROW(name, 10), ROW(name, 11),          \
            ROW(name, 12), ROW(name, 13), ROW(name, 14)                                                      \
    }
static rt_wide_function *const tiles_of[4][MOST_ROWS + 1][RT_WIDE_WIDTHS] = {TABLE(floats), TABLE(halves),
                                                                             TABLE(brains), TABLE(shorts)};

static rt_wide_function *const tiles_of_both[MOST_ROWS + 1][RT_WIDE_WIDTHS] = {
    {NULL},        ROW(both, 1),  ROW(both, 2),  ROW(both, 3),  ROW(both, 4),
    ROW(both, 5),  ROW(both, 6),  ROW(both, 7),  ROW(both, 8),  ROW(both, 9),
    ROW(both, 10), ROW(both, 11), ROW(both, 12), ROW(both, 13), ROW(both, 14)};

static rt_wide_functions functions_of(op_dtype stored) {
    if (!rt_wide_vectors_here()) return rt_wide_functions_avx2(stored);
    return (rt_wide_functions){.rows = MOST_ROWS,
                               .cuts = true,
                               .both = tiles_of_both,
                               .of = tiles_of[stored == OP_FLOAT16    ? 1
                                              : stored == OP_BFLOAT16 ? 2
                                              : stored == OP_INT16    ? 3
                                                                      : 0]};
}

bool rt_wide_vectors_here(void) {
    return __builtin_cpu_supports("avx512f");
}

bool rt_wide_tiles_here(void) {
    return rt_wide_vectors_here() ||
           (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && rt_has_half_conversions());
}

static bool is_wide(const rt_tiles *tiles) {
    return tiles->stored == OP_NONE || tiles->stored == OP_FLOAT;
}

/* Sets what is asked for while these panels are read, some of all columns, in pass `pass` of `passes` over all of them. What is far is asked for a
 * little before it is read. What the next tiles read is asked for by all passes, each for its part of every stretch: a core can wait for so few lines
 * of memory at a time that a pass which asks for all of a panel has its own reads wait, too. */
static void set_ahead(const rt_tiles *tiles, rt_wide_tile *t, int64_t pass, int64_t passes, int64_t size,
                      int64_t column, int64_t panels) {
    const bool near = pass == 0 && (tiles->far || (tiles->next && passes == 1));
    const int64_t first = tiles->far ? 1 : 0, bytes = panels * t->panel_step * size;
    const char *next = (const char *)tiles->next;
    t->stretch = near ? 1 : passes - first;
    if (near && column + panels * RT_PANEL < tiles->columns) t->ahead = bytes;
    else if (!next) t->ahead = 0;
    else if (near) t->ahead = next - t->panels;
    else t->ahead = next - (const char *)tiles->panels + (pass - first) * RT_WIDE_STEPS * RT_PANEL * size;
}

/* GCC has instructions for copies and zeros that are slow to begin: not for panels' rows. */
INLINE void clear_panel(float *to) {
    _Pragma("GCC unroll 4") for (int i = 0; i < RT_PANEL; i += 4) * (rt_floats_4 *)(void *)(to + i) =
        (rt_floats_4){0};
}

/* Fewer than RT_PANEL numbers of each row. */
INLINE void copy_some(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows,
                      int64_t count) {
    _Pragma("GCC unroll 4") for (int64_t some = RT_PANEL / 2; some > 0; some /= 2) {
        if (!(count & some)) continue;
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * to_row, from + r * from_row, (size_t)some * sizeof *to);
        to += some;
        from += some;
    }
}

/* The last columns, fewer than a panel, of tiles that do not cut it: they pass through a full one beside. */
static void run_edge(const rt_tiles *tiles, rt_wide_tile *t, rt_wide_function *run, int64_t rows,
                     int64_t columns) {
    _Alignas(RT_ALIGNMENT) float edge[MOST_ROWS * RT_PANEL], bias[RT_PANEL];
    float *const c = t->c;
    const int64_t c_row = t->c_row;
    if (tiles->add) {
        for (int64_t r = 0; r < rows; r++) clear_panel(edge + r * RT_PANEL);
        copy_some(edge, RT_PANEL, c, c_row, rows, columns);
    }
    if (t->bias) {
        clear_panel(bias);
        copy_some(bias, 0, t->bias, 0, 1, columns);
        t->bias = bias;
    }
    t->c = edge;
    t->c_row = RT_PANEL;
    run(t);
    t->c_row = c_row;
    copy_some(c, c_row, edge, RT_PANEL, rows, columns);
}

/* Some rows over all panels. */
static void run_rows(const rt_tiles *tiles, const rt_wide_functions *functions, rt_wide_tile *t, int64_t rows,
                     int64_t pass, int64_t passes) {
    const int64_t size = is_wide(tiles) ? sizeof(float) : sizeof(uint16_t);
    rt_wide_function *const *of = tiles->then ? functions->both[rows] : functions->of[rows];
    int width = RT_WIDE_WIDTHS - 1;
    for (int64_t column = 0; column < tiles->columns;) {
        const int64_t rest = tiles->columns - column, whole = rest / RT_PANEL,
                      panels = whole + (rest % RT_PANEL && (functions->cuts || !whole));
        while (!of[width] || panels < INT64_C(1) << width) width--;
        const int64_t some = INT64_C(1) << width, columns = some * RT_PANEL;
        t->panels = (const char *)tiles->panels + column / RT_PANEL * t->panel_step * size;
        set_ahead(tiles, t, pass, passes, size, column, some);
        t->c = tiles->c + t->row * tiles->c_row + column;
        t->later = tiles->later ? (uintptr_t)tiles->later +
                                      (uintptr_t)(t->row * t->later_row + column * (int64_t)sizeof(float))
                                : 0;
        t->bias = tiles->bias ? tiles->bias + column : NULL;
        if (tiles->then) {
            const rt_tiles_then *then = tiles->then;
            t->then_c = then->c + t->row * then->c_row + column;
            t->more = then->more ? then->more + t->row * tiles->c_row + column : NULL;
        }
        t->last = rt_first_lanes_16(rest - (some - 1) * RT_PANEL);
        if (rest < columns && !functions->cuts) run_edge(tiles, t, of[width], rows, rest);
        else of[width](t);
        column += columns;
    }
}

/* Lines of a set of the nearest cache of data; 0: the processor does not say. */
static int lines_of_set(void) {
    enum { AMD_CACHES = 0x8000001D, CACHES = 4, KIND = 0x1F, DATA = 1, WAYS = 22 };
    /* Asked once: a hypervisor answers slowly. Threads may all ask, and get the same answer. */
    static _Atomic int known; /* one more than the answer; 0: not yet */
    if (!known) {
        unsigned a, b, c, d;
        const unsigned leaf = __builtin_cpu_is("amd") ? AMD_CACHES : CACHES;
        const bool said = __get_cpuid_count(leaf, 0, &a, &b, &c, &d) && (a & KIND) == DATA;
        known = said ? (int)(b >> WAYS) + 2 : 1;
    }
    return known - 1;
}

/* Rows are copied where their depth does not lie side by side, and where so many lie so far apart that they meet in one set of a nearest
 * cache of LINES lines a set. Where it has 12 (from Ice Lake and Zen 5 on), the copy takes more time than what it saves. */
static bool is_copied(const rt_tiles *tiles, const rt_wide_functions *functions) {
    if (tiles->a_depth != 1) return true;
    if (functions->rows < LINES || tiles->then) return false;
    return tiles->a_row * (int64_t)sizeof(float) % PAGE == 0 && lines_of_set() <= LINES;
}

static void copy_rows(const rt_tiles *tiles, int64_t row, int64_t rows, float *to) {
    const int64_t depth = tiles->depth, a_row = tiles->a_row, a_depth = tiles->a_depth;
    const float *a = tiles->a + row * a_row;
    for (int64_t r = 0; r < rows && a_depth == 1; r++)
        memcpy(to + r * depth, a + r * a_row, (size_t)depth * sizeof *a);
    for (int64_t k = 0; k < depth && a_depth != 1; k++)
        for (int64_t r = 0; r < rows; r++) to[r * depth + k] = a[r * a_row + k * a_depth];
}

/* A depth that a copy holds, where rows are copied. Rows are dealt out evenly. */
static void run_depth(const rt_tiles *tiles, const rt_wide_functions *functions) {
    float copied[MOST_ROWS * COPIED_DEPTH];
    const bool copies = is_copied(tiles, functions);
    const rt_tiles_then *then = tiles->then;
    /* Small products do not wait for divisions. */
    const int64_t passes =
        tiles->rows <= functions->rows ? 1 : (tiles->rows + functions->rows - 1) / functions->rows;
    rt_wide_tile t; /* the others are set for each tile */
    t.row = 0;
    t.depth = tiles->depth;
    t.a_row = copies ? tiles->depth : tiles->a_row;
    t.panel_step = tiles->panel_step ? tiles->panel_step : tiles->depth * RT_PANEL;
    t.c_row = tiles->c_row;
    t.low = tiles->limited ? tiles->low : -INFINITY;
    t.high = tiles->limited ? tiles->high : INFINITY;
    t.add = tiles->add;
    t.later_row = tiles->later_row * (int64_t)sizeof(float);
    t.then = then;
    t.then_panels = then ? (const char *)then->panels - (const char *)tiles->panels : 0;
    for (int64_t pass = 0; pass < passes; pass++) {
        const int64_t left = passes - pass, rest = tiles->rows - t.row,
                      rows = left == 1 ? rest : (rest + left - 1) / left;
        if (copies) copy_rows(tiles, t.row, rows, copied);
        t.a = copies ? copied : tiles->a + t.row * tiles->a_row;
        t.then_a = then ? then->a + t.row * then->a_row : NULL;
        run_rows(tiles, functions, &t, rows, pass, passes);
        t.row += rows;
    }
}

void rt_wide_tiles_run_with(const rt_wide_functions *functions, const rt_tiles *tiles) {
    if (!is_copied(tiles, functions) || tiles->depth <= COPIED_DEPTH) {
        run_depth(tiles, functions);
        return;
    }
    const int64_t size = is_wide(tiles) ? sizeof(float) : sizeof(uint16_t);
    rt_tiles part = *tiles;
    if (!part.panel_step) part.panel_step = tiles->depth * RT_PANEL;
    for (int64_t from = 0; from < tiles->depth; from += COPIED_DEPTH) {
        const int64_t rest = tiles->depth - from;
        const bool last = rest <= COPIED_DEPTH;
        part.depth = last ? rest : COPIED_DEPTH;
        part.a = tiles->a + from * tiles->a_depth;
        part.panels = (const char *)tiles->panels + from * RT_PANEL * size;
        part.add = tiles->add || from > 0;
        part.bias = last ? tiles->bias : NULL;
        part.limited = last && tiles->limited;
        run_depth(&part, functions);
    }
}

void rt_wide_tiles_run(const rt_tiles *tiles) {
    const rt_wide_functions functions = functions_of(tiles->stored);
    rt_wide_tiles_run_with(&functions, tiles);
}
#else
bool rt_wide_vectors_here(void) {
    return false;
}

bool rt_wide_tiles_here(void) {
    return false;
}

void rt_wide_tiles_run(const rt_tiles *tiles) {
    (void)tiles;
}
#endif
