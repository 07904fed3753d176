/* SPDX-License-Identifier: Apache-2.0 */
/* strassen_product.c: MatMul and Gemm in float with a constant right matrix, in seven products of halves where others take eight.
 *
 * Rows, depth and columns are cut into halves:
 *
 *     | A11 A12 |   | B11 B12 |   | C11 C12 |
 *     | A21 A22 | x | B21 B22 | = | C21 C22 |
 *
 *     S1 = A21 + A22    S2 = S1 - A11      T1 = B12 - B11    T2 = B22 - T1
 *     S3 = A11 - A21    S4 = A12 - S2      T3 = B22 - B12    T4 = B21 - T2
 *
 *     U1 = A11 B11      U2 = U1 + S2 T2    U3 = U2 + S3 T3    U4 = S1 T1
 *     C11 = U1 + A12 B21         C12 = U2 + U4 + S4 B22
 *     C21 = U3 + A22 T4          C22 = U3 + U4
 *
 * (Strassen, "Gaussian Elimination is not Optimal" (1969), in Winograd's form, which has 15 sums.) The matrix B is constant, so what is made of it is
 * packed when the plan is made: 7/4 of its bytes. The sums of A are scratch. Of large products this takes 0.9 of the time of packed_product.c.
 *
 * A row of the lower half shares sums with one of the upper half. Where its numbers were much smaller, it would have the rounding errors of the
 * larger ones. So it is multiplied by a power of two first, which makes the largest numbers of both about equal, and its results are divided by it. A row
 * with a number that is not finite, or nearly so, shares nothing: it is computed by itself, as is the last upper row where their number is odd.
 *
 * Which rows share sums follows from the number of rows alone, and elements are added in one order: results do not depend on the number of
 * threads, nor on how many rows and columns are computed at a time (ouro.blocks).
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/packed_product.h"
#include <string.h>

enum {
    BLOCK_COLUMNS = 128,    /* of a half, computed at a time, at most: their panels stay in a near cache */
    FEWEST_BLOCK = 32,      /* at least */
    FINISHED_COLUMNS = 128, /* of a half, finished at a time where tiles cannot do that */
    BLOCK_DEPTH = 192,      /* of a half, at most */
    MOST_ROWS = 70,         /* of a half, computed at a time, at most */
    /* Of a half: with as many for each of them, threads share out the rows, else the columns. From memory, where each thread reads weights of its own, an
     * encoder of 128 rows takes 0.94 of the time on two threads so; weights that a cache holds are read as fast by both. */
    LEAST_EACH = 48,
    FEWEST_ROWS =
        96, /* of all: with fewer, more bytes of weights that come from memory take the time that products save */
    FEWEST_DEPTH = 192, /* with less to sum, sums take more time than they save */
    FEWEST_COLUMNS = 128,
    MOST_BLOCKS = 64,
    PRODUCTS = 7,
    SUMS = 4,
    AHEAD = 2, /* products: while one is computed, the panels of the one after the next are asked for */
    FLOATS = RT_ALIGNMENT / (int)sizeof(float) /* extents of scratch are multiples of so many */
};

/* The products in the order in which they are computed and their panels lie. */
typedef enum right_factor { B11, B21, T2, T1, B22, T3, T4 } right_factor;

typedef struct strassen {
    rt_packed_product product;
    int64_t
        upper; /* rows of the upper half; the lower one has as many, or one less. Below 0: a run knows it */
    int64_t depth;  /* of a half */
    int64_t left;   /* columns of the left half, which are whole panels; the right one has as many or fewer */
    int64_t parts;  /* in which the depth of a half is added up */
    int64_t blocks; /* 1, or 0: most scratch; more: less of it (sizes_of) */
    bool finished;  /* tiles add the bias and limit sums to these: */
    float low, high;
} strassen;

/* ---- shapes -------------------------------------------------------------------------------------------- */

static int64_t rounded_up(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

static bool read_shape(const op_call *call, strassen *s) {
    if (!rt_packed_product_read(call, &s->product)) return false;
    const rt_packed_product *product = &s->product;
    if (product->dtype != OP_FLOAT || product->stored != OP_FLOAT || product->depth % 2 ||
        product->depth < FEWEST_DEPTH || product->columns < FEWEST_COLUMNS)
        return false;
    s->upper = product->rows < 0 ? -1 : (product->rows + 1) / 2;
    s->depth = product->depth / 2;
    s->left = rounded_up((product->columns + 1) / 2, RT_PANEL);
    s->parts = (s->depth + BLOCK_DEPTH - 1) / BLOCK_DEPTH;
    s->blocks = op_attribute_integer(&call->attributes, "ouro.blocks", 0);
    s->finished = rt_packed_product_tiles_finish(product, &s->low, &s->high);
    return s->blocks >= 0 && s->blocks <= MOST_BLOCKS;
}

static bool packed_bytes(const strassen *s, size_t *bytes) {
    return base_size_multiply((size_t)s->depth, (size_t)s->left, bytes) &&
           base_size_multiply(*bytes, PRODUCTS * sizeof(float), bytes);
}

/* Rows of a half that a thread has: of `members`, those that share out rows or columns. */
static bool shares_rows(const strassen *s, int members) {
    return s->upper >= (int64_t)LEAST_EACH * members;
}

static int64_t most_rows_of(const strassen *s, int members) {
    return shares_rows(s, members) ? (s->upper + members - 1) / members : s->upper;
}

/* What a thread computes at a time. */
typedef struct sizes {
    int64_t rows, columns; /* of a half */
} sizes;

/* With less scratch first fewer columns, then fewer rows: for these, weights are read again. */
static sizes sizes_of(const strassen *s, int members) {
    const int64_t rows = most_rows_of(s, members), blocks = s->blocks < 1 ? 1 : s->blocks,
                  narrower = BLOCK_COLUMNS >> (blocks - 1 < 2 ? blocks - 1 : 2),
                  parts = (rows + MOST_ROWS - 1) / MOST_ROWS + (blocks > 3 ? blocks - 3 : 0),
                  each = parts > 0 ? (rows + parts - 1) / parts : 0;
    return (sizes){each > 0 ? each : 1, s->left < narrower ? s->left : narrower};
}

/* The scratch of a thread, in floats: the sums of a part of the depth, then U1 to U3 and U4 of a block of columns. */
typedef struct places {
    sizes at_once;
    int64_t sum, columns, all;
} places;

static places find_places(const strassen *s, int members) {
    const sizes at_once = sizes_of(s, members);
    const int64_t deepest = rounded_up((s->depth + s->parts - 1) / s->parts, FLOATS),
                  sum = at_once.rows * deepest, columns = at_once.rows * at_once.columns;
    return (places){at_once, sum, columns, SUMS * sum + 2 * columns};
}

static bool scratch_bytes(const strassen *s, int threads, size_t *bytes) {
    return base_size_multiply((size_t)find_places(s, threads).all, sizeof(float), bytes) &&
           base_size_multiply(*bytes, (size_t)threads, bytes);
}

static bool is_accepted(const op_call *call, strassen *s) {
    size_t bytes;
    return call->inputs[1].type.layout == OP_LAYOUT_PACKED && read_shape(call, s) &&
           packed_bytes(s, &bytes) && call->inputs[1].type.packed_bytes == bytes;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    strassen s;
    (void)environment;
    return is_accepted(call, &s);
}

/* What it takes in these blocks. */
static double predict(const strassen *s, const rt_environment *environment, size_t bytes) {
    const rt_packed_product *product = &s->product;
    const double rows = (double)product->rows, depth = (double)product->depth,
                 columns = (double)product->columns;
    const int64_t each = most_rows_of(s, environment->threads),
                  at_once = sizes_of(s, environment->threads).rows;
    const rt_strassen_work work = {.rows = rows,
                                   .depth = depth,
                                   .columns = columns,
                                   .parts = (double)s->parts,
                                   .passes = (double)((each + at_once - 1) / at_once),
                                   .weight_bytes = (double)bytes,
                                   .shared = shares_rows(s, environment->threads)};
    return rt_strassen_seconds(&work, environment);
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    strassen s;
    if (!rt_has_wide_vectors(environment) || !read_shape(call, &s) || s.product.rows < FEWEST_ROWS)
        return false;
    /* Where only a run knows the rows there may be few, for which all weights would be read. */
    *cost = (rt_cost){.known_only = true};
    if (!packed_bytes(&s, &cost->packed_bytes)) return false;
    for (s.blocks = 1; s.blocks <= MOST_BLOCKS; s.blocks++) {
        if (!scratch_bytes(&s, environment->threads, &cost->scratch_bytes)) return false;
        if (cost->scratch_bytes <= scratch_limit) break;
    }
    cost->blocks = s.blocks;
    if (s.blocks > MOST_BLOCKS) return false;
    cost->seconds = predict(&s, environment, cost->packed_bytes);
    return true;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

/* Begin of the panels of this column of a half, and of those after it, in the part of the depth [from, from + depth): for each panel one of each factor. */
static int64_t panels_at(const strassen *s, int64_t column, int64_t from, int64_t depth) {
    return PRODUCTS * (s->left * from + column * depth);
}

static int64_t part_begin(const strassen *s, int64_t part) {
    return s->depth * part / s->parts;
}

/* An element of the weights; zero beyond the last column. */
static float weight_at(const strassen *s, const float *from, int64_t k, int64_t j) {
    const rt_packed_product *product = &s->product;
    return j < product->columns ? product->alpha * from[k * product->b_depth + j * product->b_column] : 0;
}

/* One column of a half at one of its depths, of all seven factors. */
static void make_factors(const strassen *s, const float *from, int64_t k, int64_t j, float *factors) {
    const double b11 = (double)weight_at(s, from, k, j), b12 = (double)weight_at(s, from, k, s->left + j),
                 b21 = (double)weight_at(s, from, s->depth + k, j),
                 b22 = (double)weight_at(s, from, s->depth + k, s->left + j);
    factors[B11] = (float)b11;
    factors[B21] = (float)b21;
    factors[T2] = (float)(b22 - b12 + b11);
    factors[T1] = (float)(b12 - b11);
    factors[B22] = (float)b22;
    factors[T3] = (float)(b22 - b12);
    factors[T4] = (float)(b21 - b22 + b12 - b11);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    strassen s;
    (void)environment;
    if (input != 1 || !read_shape(call, &s))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    for (int64_t part = 0; part < s.parts; part++) {
        const int64_t from = part_begin(&s, part), depth = part_begin(&s, part + 1) - from;
        for (int64_t column = 0; column < s.left; column += RT_PANEL) {
            float *panel = (float *)packed + panels_at(&s, column, from, depth);
            for (int64_t k = 0; k < depth; k++) {
                for (int64_t j = 0; j < RT_PANEL; j++) {
                    float factors[PRODUCTS];
                    make_factors(&s, plain->data, from + k, column + j, factors);
                    for (int64_t i = 0; i < PRODUCTS; i++) panel[(i * depth + k) * RT_PANEL + j] = factors[i];
                }
            }
        }
    }
    return BASE_OK;
}

/* ---- rows that share sums ------------------------------------------------------------------------------- */

/* The bits of the largest number of a row without its sign: so ordered, too, are infinities and what is no number. */
RT_CLONES static uint32_t largest_bits(const float *row, int64_t count) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, row + i, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* By what a lower row is multiplied, a power of two; 0: it shares nothing with this upper row. */
static float find_scale(const float *upper, const float *lower, int64_t depth) {
    /* LARGE: of 2^123 and more, whose sums could be infinite, of infinities and of what is no number. */
    enum { MANTISSA = 23, LARGE = 250, BIAS = 127, MOST = 60 };
    const int high = (int)(largest_bits(upper, depth) >> MANTISSA),
              low = (int)(largest_bits(lower, depth) >> MANTISSA);
    if (high >= LARGE || low >= LARGE) return 0;
    const int apart = high - low, power = apart > MOST ? MOST : apart < -MOST ? -MOST : apart;
    const uint32_t bits = (uint32_t)(BIAS + power) << MANTISSA;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* S1 to S4 of a row of each half. */
RT_CLONES static void make_sums(const float *restrict a11, const float *restrict a12,
                                const float *restrict a21, const float *restrict a22, float scale,
                                int64_t depth, float *restrict s1, float *restrict s2, float *restrict s3,
                                float *restrict s4) {
    for (int64_t k = 0; k < depth; k++) {
        const float sum = scale * (a21[k] + a22[k]), second = sum - a11[k];
        s1[k] = sum;
        s2[k] = second;
        s3[k] = a11[k] - scale * a21[k];
        s4[k] = a12[k] - second;
    }
}

/* The same of an upper row alone. */
RT_CLONES static void make_sums_alone(const float *restrict a11, const float *restrict a12, int64_t depth,
                                      float *restrict s1, float *restrict s2, float *restrict s3,
                                      float *restrict s4) {
    for (int64_t k = 0; k < depth; k++) {
        s1[k] = 0;
        s2[k] = -a11[k];
        s3[k] = a11[k];
        s4[k] = a12[k] + a11[k];
    }
}

/* What U3 and U4 give to a lower row, of which `left` has more columns than `right`. */
RT_CLONES static void leave_lower(const float *restrict u, const float *restrict v, float factor,
                                  int64_t left_columns, int64_t right_columns, bool add, float *restrict left,
                                  float *restrict right) {
    if (add) {
        for (int64_t j = 0; j < left_columns; j++) left[j] += factor * u[j];
        for (int64_t j = 0; j < right_columns; j++) right[j] += factor * (u[j] + v[j]);
    } else {
        for (int64_t j = 0; j < left_columns; j++) left[j] = factor * u[j];
        for (int64_t j = 0; j < right_columns; j++) right[j] = factor * (u[j] + v[j]);
    }
}

/* ---- running ------------------------------------------------------------------------------------------- */

typedef struct strassen_job {
    const strassen *s;
    const float *x, *panels, *bias;
    float *y, *scratch;
    int threads;
} strassen_job;

/* Rows of both halves that are computed together, in columns [first, end) of both halves. */
typedef struct rows {
    int64_t upper, lower; /* the first of each */
    int64_t count;
    int64_t lower_count; /* as many or fewer */
    int64_t first, end;
    int64_t columns;     /* at a time */
    const float *scales; /* of the lower ones, and zeros */
    float *sums, *u, *v;
    int64_t sum_step; /* from one of S1 to S4 to the next */
} rows;

/* A block of columns and a part of the depth. */
typedef struct block {
    int64_t column, left, right; /* columns of both halves */
    int64_t from, depth;
    const float *panels;
    bool add, last; /* it is not the first part, is the last one */
    bool begins;    /* nothing has been read before it */
    bool ends;      /* nothing is read after it */
} block;

/* Panels of a factor, and how they lie. */
static rt_tiles tiles_of(const block *b, right_factor which) {
    const int64_t factor = b->depth * RT_PANEL, panel = PRODUCTS * factor, ahead = which + AHEAD;
    const float *next = b->panels + ahead % PRODUCTS * factor;
    if (ahead >= PRODUCTS) next = b->ends ? NULL : next + b->left / RT_PANEL * panel;
    return (rt_tiles){.depth = b->depth,
                      .a_depth = 1,
                      .stored = OP_FLOAT,
                      .panels = b->panels + which * factor,
                      .panel_step = panel,
                      .far = b->begins && which == B11,
                      .next = next,
                      .fused = true};
}

/* The last sums of an element have the bias and the limits, if tiles can do that. */
static void set_finish(const strassen_job *job, const block *b, int64_t column, rt_tiles *tiles) {
    const strassen *s = job->s;
    if (!b->last || !s->finished) return;
    tiles->bias = job->bias ? job->bias + column : NULL;
    tiles->limited = s->product.activation.kind != RT_ACTIVATION_NONE;
    tiles->low = s->low;
    tiles->high = s->high;
}

/* One product into U or V. `later`: a place in Y that is written soon. */
static void multiply(const strassen_job *job, const block *b, right_factor which, int64_t count,
                     const float *a, int64_t a_row, bool add, float *to, float *later) {
    rt_tiles tiles = tiles_of(b, which);
    tiles.rows = count;
    tiles.columns = b->left;
    tiles.a = a;
    tiles.a_row = a_row;
    tiles.c = to;
    tiles.c_row = b->left;
    tiles.add = add;
    tiles.later = later;
    tiles.later_row = job->s->product.columns;
    rt_tiles_run(&tiles);
}

/* U1 and C11, or U4 and C12: the left factor is followed by that of the next product. */
static void multiply_both(const strassen_job *job, const block *b, right_factor which, const rows *r,
                          const float *a, int64_t a_row, float *to, rt_tiles_then *then, int64_t column) {
    rt_tiles tiles = tiles_of(b, which);
    then->panels = (const float *)tiles.panels + b->depth * RT_PANEL;
    then->c = job->y + r->upper * job->s->product.columns + column;
    then->c_row = job->s->product.columns;
    then->add = b->add;
    tiles.rows = r->count;
    tiles.columns = which == B11 ? b->left : b->right;
    tiles.a = a;
    tiles.a_row = a_row;
    tiles.c = to;
    tiles.c_row = b->left;
    tiles.then = then;
    tiles.later = then->c;
    tiles.later_row = then->c_row;
    set_finish(job, b, column, &tiles);
    rt_tiles_run(&tiles);
}

/* C21 and C22, once U2 and U4 are there. */
static void run_lower(const strassen_job *job, const rows *r, const block *b, const float *s3) {
    const strassen *s = job->s;
    const int64_t wide = s->product.columns;
    float *left_y = job->y + r->lower * wide + b->column, *right_y = b->right > 0 ? left_y + s->left : left_y;
    multiply(job, b, T3, r->lower_count, s3, b->depth, true, r->u, NULL);
    for (int64_t i = 0; i < r->lower_count; i++) {
        const float scale = r->scales[i], factor = scale != 0 ? 1 / scale : 0;
        leave_lower(r->u + i * b->left, r->v + i * b->left, factor, b->left, b->right, b->add,
                    left_y + i * wide, right_y + i * wide);
    }
    rt_tiles last = tiles_of(b, T4);
    last.rows = r->lower_count;
    last.columns = b->left;
    last.a = job->x + r->lower * s->product.depth + s->depth + b->from;
    last.a_row = s->product.depth;
    last.c = left_y;
    last.c_row = wide;
    last.add = true;
    set_finish(job, b, b->column, &last);
    rt_tiles_run(&last);
}

static void run_block(const strassen_job *job, const rows *r, const block *b) {
    const strassen *s = job->s;
    const int64_t deep = s->product.depth, right = s->left + b->column;
    const float *upper = job->x + r->upper * deep + b->from, *s1 = r->sums, *s2 = s1 + r->sum_step,
                *s3 = s2 + r->sum_step, *s4 = s3 + r->sum_step;
    float *lower_y = r->lower_count ? job->y + r->lower * s->product.columns : NULL;
    rt_tiles_then c11 = {.a = upper + s->depth, .a_row = deep},
                  c12 = {.a = s4, .a_row = b->depth, .more = r->u};
    multiply_both(job, b, B11, r, upper, deep, r->u, &c11, b->column);
    multiply(job, b, T2, r->count, s2, b->depth, true, r->u, lower_y ? lower_y + b->column : NULL);
    if (b->right > 0) multiply_both(job, b, T1, r, s1, b->depth, r->v, &c12, right);
    if (r->lower_count) run_lower(job, r, b, s3);
}

static void sum_rows(const strassen_job *job, const rows *r, int64_t from, int64_t depth) {
    const strassen *s = job->s;
    for (int64_t i = 0; i < r->count; i++) {
        const float *upper = job->x + (r->upper + i) * s->product.depth + from;
        float *s1 = r->sums + i * depth, *s2 = s1 + r->sum_step, *s3 = s2 + r->sum_step,
              *s4 = s3 + r->sum_step;
        if (i < r->lower_count && r->scales[i] != 0) {
            const float *lower = job->x + (r->lower + i) * s->product.depth + from;
            make_sums(upper, upper + s->depth, lower, lower + s->depth, r->scales[i], depth, s1, s2, s3, s4);
        } else {
            make_sums_alone(upper, upper + s->depth, depth, s1, s2, s3, s4);
        }
    }
}

static void finish_rows(const strassen_job *job, int64_t row, int64_t count, int64_t column,
                        int64_t columns) {
    const rt_packed_product *product = &job->s->product;
    for (int64_t i = 0; i < count && columns > 0; i++)
        rt_packed_product_finish(product, job->bias, column, columns,
                                 job->y + (row + i) * product->columns + column);
}

/* What tiles have not finished of these columns of both halves. */
static void finish_columns(const strassen_job *job, const rows *r, int64_t first, int64_t end) {
    const strassen *s = job->s;
    const int64_t right = s->left + first, rest = s->product.columns - right,
                  right_columns = rest < end - first ? rest : end - first;
    if (!s->finished) {
        finish_rows(job, r->upper, r->count, first, end - first);
        finish_rows(job, r->upper, r->count, right, right_columns);
        finish_rows(job, r->lower, r->lower_count, first, end - first);
    }
    finish_rows(job, r->lower, r->lower_count, right, right_columns);
}

static void run_rows(const strassen_job *job, const rows *r) {
    const strassen *s = job->s;
    for (int64_t part = 0; part < s->parts; part++) {
        const int64_t from = part_begin(s, part), depth = part_begin(s, part + 1) - from;
        int64_t unfinished = r->first;
        sum_rows(job, r, from, depth);
        for (int64_t column = r->first; column < r->end; column += r->columns) {
            const int64_t rest = r->end - column, rest_right = s->product.columns - s->left - column,
                          columns = rest < r->columns ? rest : r->columns;
            const block b = {.column = column,
                             .left = columns,
                             .right = rest_right < columns ? rest_right : columns,
                             .from = from,
                             .depth = depth,
                             .panels = job->panels + panels_at(s, column, from, depth),
                             .add = part > 0,
                             .last = part == s->parts - 1,
                             .begins = column == r->first,
                             .ends = column + columns >= r->end};
            run_block(job, r, &b);
            if (!b.last || (column + columns - unfinished < FINISHED_COLUMNS && !b.ends)) continue;
            finish_columns(job, r, unfinished, column + columns);
            unfinished = column + columns;
        }
    }
}

/* Lower rows that share nothing with an upper row, each by itself. */
static void run_alone(const strassen_job *job, const rows *shared) {
    const float zero = 0;
    for (int64_t i = 0; i < shared->lower_count; i++) {
        if (shared->scales[i] != 0) continue;
        rows alone = *shared;
        alone.upper = shared->lower + i;
        alone.count = 1;
        alone.lower_count = 0;
        alone.scales = &zero;
        run_rows(job, &alone);
    }
}

/* Rows of the upper half [first, end), no more than MOST_ROWS, and those of the lower half that share sums with them. */
static void run_some(const strassen_job *job, rows *r, int64_t first, int64_t end) {
    const strassen *s = job->s;
    const int64_t deep = s->product.depth, below = s->product.rows - s->upper - first;
    float scales[MOST_ROWS];
    r->upper = first;
    r->lower = s->upper + first;
    r->count = end - first;
    r->lower_count = below < r->count ? below : r->count;
    r->scales = scales;
    for (int64_t i = 0; i < r->lower_count; i++)
        scales[i] = find_scale(job->x + (r->upper + i) * deep, job->x + (r->lower + i) * deep, deep);
    run_rows(job, r);
    run_alone(job, r);
}

static void run_member(void *context, int member, int members) {
    const strassen_job *job = context;
    const strassen *s = job->s;
    const places p = find_places(s, job->threads);
    float *scratch = job->scratch + member * p.all;
    rows r = {.end = s->left,
              .columns = p.at_once.columns,
              .sums = scratch,
              .sum_step = p.sum,
              .u = scratch + SUMS * p.sum,
              .v = scratch + SUMS * p.sum + p.columns};
    int64_t begin = 0, end = s->upper;
    if (shares_rows(s, job->threads)) {
        begin = s->upper * member / members;
        end = s->upper * (member + 1) / members;
    } else {
        const int64_t units = (s->left + FEWEST_BLOCK - 1) / FEWEST_BLOCK,
                      after = units * (member + 1) / members * FEWEST_BLOCK;
        r.first = units * member / members * FEWEST_BLOCK;
        r.end = after < s->left ? after : s->left;
    }
    const int64_t count = end - begin, parts = (count + p.at_once.rows - 1) / p.at_once.rows;
    for (int64_t i = 0; i < parts && r.first < r.end; i++)
        run_some(job, &r, begin + count * i / parts, begin + count * (i + 1) / parts);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const strassen *s = prepared->state;
    strassen_job job = {.s = s,
                        .x = inputs[0].data,
                        .panels = inputs[1].data,
                        .bias = s->product.bias != RT_BIAS_NONE ? inputs[2].data : NULL,
                        .y = outputs[0].data,
                        .scratch = scratch,
                        .threads = prepared->threads};
    if (s->product.rows > 0) rt_team_run(prepared->threads, run_member, &job);
    return BASE_OK;
}

static bool set_scratch(const strassen *s, rt_prepared *prepared) {
    return scratch_bytes(s, prepared->threads, &prepared->scratch_bytes);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    strassen *s = BASE_NEW(arena, strassen);
    if (!s) return base_fail_memory(report);
    if (!is_accepted(call, s) || s->upper < 0)
        return base_fail(report, BASE_INVALID, "this is no product with weights in sums of panels");
    if (!set_scratch(s, prepared)) return base_fail_memory(report);
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

/* Another number of rows. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    strassen *s = prepared->state;
    (void)environment;
    return is_accepted(call, s) && s->upper >= 0 && set_scratch(s, prepared);
}

const rt_kernel rt_kernel_strassen_product = {.name = "portable.strassen_product",
                                              .accepts = accepts,
                                              .estimate = estimate,
                                              .pack = pack,
                                              .only_packed = true,
                                              .prepare = prepare,
                                              .adapt = adapt};
