/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_row.c: see recurrent_row.h.
 *
 *     group 0: sums | group 1: sums, between which are pieces of the cells of 0 | group 2: sums, cells of 1 | ... | cells of the last
 *
 * Weights come from the second cache, three quarters of a line a cycle at best: products take a quarter of the time that this takes,
 * and cells fit into the rest. But a cell is a long chain, and no processor looks beyond one at the weights that follow: a whole cell at a
 * time stops the stream, and so do all cells after the last group. Pieces of it do not.
 */
#include "runtime/kernels/portable/recurrent_row.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/recurrent_cells_512.h"

#ifdef RT_HAS_MATH_512
enum {
    LSTM_GATES = 4,
    GRU_GATES = 3,
    MOST_CHAINS = 4, /* sums of an element of one that is alone */
    BLOCK = 8 /* of the depth, between two pieces: no loop, at whose end the processor would guess wrong */
};

/* What is a constant wherever these functions are called: all sums are in registers. */
typedef struct form {
    int gates, chains; /* panels of a group, sums of an element */
} form;

typedef struct group {
    const float *state;
    const char *panels;
    size_t apart;
    int64_t left; /* of the depth, which has to be added up yet */
    __m512 sums[MOST_CHAINS][LSTM_GATES];
} group;

/* Adds up `count` of the depth, a constant wherever this is called. */
RT_MATH_512_INLINE void add_some(group *g, form f, int count) {
    enum { LINE = RT_PANEL * sizeof(float) };
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
        const __m512 left = _mm512_set1_ps(g->state[i]);
#pragma GCC unroll 4
        for (int p = 0; p < f.gates; p++) {
            const float *panel =
                (const float *)(const void *)(g->panels + (size_t)p * g->apart) + i * RT_PANEL;
            __m512 *sum = &g->sums[i % f.chains][p];
            *sum = _mm512_fmadd_ps(left, *(const rt_floats_16 *)(const void *)panel, *sum);
        }
    }
    g->state += count;
    g->panels += count * LINE;
    g->left -= count;
}

/* What is left of the depth, and the sums to where the cells read them. */
RT_MATH_512_INLINE void finish(group *g, form f, float *to) {
    const form rest = {f.gates, 1};
    while (g->left >= MOST_CHAINS) add_some(g, f, MOST_CHAINS);
    while (g->left > 0) add_some(g, rest, 1);
#pragma GCC unroll 4
    for (int p = 0; p < f.gates; p++) {
        __m512 sum = g->sums[0][p];
        if (f.chains == MOST_CHAINS)
            sum =
                _mm512_add_ps(_mm512_add_ps(sum, g->sums[2][p]), _mm512_add_ps(g->sums[1][p], g->sums[3][p]));
        _mm512_storeu_ps(to + p * RT_PANEL, sum);
    }
}

/* The compiler is not to move it. */
RT_MATH_512_INLINE void do_piece(const rt_cells *cells, form f, rt_cell_512 *cell, int piece) {
    if (f.gates == LSTM_GATES) rt_lstm_512(cells, 0, cell, piece, piece + 1);
    else rt_gru_512(cells, 0, cell, piece, piece + 1);
    __asm__("" : "+v"(cell->first), "+v"(cell->second), "+v"(cell->third), "+v"(cell->exp));
}

/* The sums of a group, meanwhile the cells of the one before; NULL: there is none. */
RT_MATH_512_INLINE void run_group(const rt_row_step *step, form f, int64_t index, const rt_cells *before,
                                  float *to) {
    const int pieces = f.gates == LSTM_GATES ? RT_LSTM_PIECES : RT_GRU_PIECES;
    const size_t apart = (size_t)step->depth * RT_PANEL * sizeof(float);
    group g = {.state = step->state,
               .panels = (const char *)step->panels + (size_t)(index * f.gates) * apart,
               .apart = apart,
               .left = step->depth};
    rt_cell_512 cell = {0};
#pragma GCC unroll 4
    for (int s = 0; s < f.chains; s++)
#pragma GCC unroll 4
        for (int p = 0; p < f.gates; p++) g.sums[s][p] = _mm512_setzero_ps();
    if (before) {
#pragma GCC unroll 7
        for (int piece = 0; piece < pieces; piece++) {
            if (g.left >= BLOCK) add_some(&g, f, BLOCK);
            do_piece(before, f, &cell, piece);
        }
    }
    finish(&g, f, to);
}

/* The cells of a group whose sums are there. */
static rt_cells cells_of(const rt_row_step *step, form f, int64_t index, const float *sums) {
    rt_cells own = step->cells;
    own.rows = 1;
    const int64_t unit = index * RT_PANEL;
    own.units = step->units - unit < RT_PANEL ? step->units - unit : RT_PANEL;
    own.bias += index * step->bias_group;
    own.x += unit * f.gates;
    own.sums = sums;
    own.h += unit;
    own.h_next += unit;
    if (own.c) own.c += unit;
    if (own.c_next) own.c_next += unit;
    return own;
}

RT_MATH_512_INLINE void run_form(const rt_row_step *step, form f) {
    float sums[2][LSTM_GATES * RT_PANEL];
    rt_cells cells = {0};
    for (int64_t i = 0; i < step->groups; i++) {
        const int64_t index = step->back ? step->groups - 1 - i : i;
        float *to = sums[i % 2];
        run_group(step, f, index, i > 0 ? &cells : NULL, to);
        cells = cells_of(step, f, index, to);
    }
    if (f.gates == LSTM_GATES) rt_cells_lstm(&cells);
    else rt_cells_gru(&cells);
}

#define FORM(name, gates, chains)                                                                            \
    RT_MATH_512 static void name(const rt_row_step *step) {                                                  \
        run_form(step, (form){gates, chains});                                                               \
    }
FORM(lstm_alone, LSTM_GATES, MOST_CHAINS)
FORM(lstm_one, LSTM_GATES, 1)
FORM(gru_alone, GRU_GATES, MOST_CHAINS)
FORM(gru_one, GRU_GATES, 1)
#endif

bool rt_row_runs_here(void) {
#ifdef RT_HAS_MATH_512
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

void rt_row_run(const rt_row_step *step) {
#ifdef RT_HAS_MATH_512
    if (step->lstm) (step->alone ? lstm_alone : lstm_one)(step);
    else (step->alone ? gru_alone : gru_one)(step);
#else
    (void)step;
#endif
}
