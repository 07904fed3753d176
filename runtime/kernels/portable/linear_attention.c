/* SPDX-License-Identifier: Apache-2.0 */
/* linear_attention.c: LinearAttention: a recurrence over a matrix a head, of keys by values, which each position changes and each query reads. The
 * matrix is kept in float, and rounded when it is given out.
 *
 *     r = (k d)' S     u = beta (v - r)     S' = d S + k u'     y = q' S' = (q d)' S + (q k) u
 *
 * Columns of the matrix do not depend on each other. A block of them stays in the nearest cache while a chunk of steps passes over it, and each
 * step reads it once for r and y together, and once more to change it. What the steps multiply it by, keys and queries times what they fade by, is
 * made once a chunk for all columns. Values and results of a chunk lie side by side meanwhile: outside, rows of a head lie so far apart that they meet in
 * the same sets of a cache. The first step reads the matrix where the caller has it, the last one writes it where it is wanted.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/vector_math.h"
#include <math.h>
#include <string.h>

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };
enum {
    VECTORS = 4,                 /* side by side in a block of columns */
    MOST_COLUMNS = VECTORS * 16, /* of a block */
    CHUNK = 16,                  /* steps */
    AHEAD = 4
};

/* ---- blocks of columns ------------------------------------------------------------------------------------- */

/* x = a' S and y = b' S of a block of columns, whose rows lie `row` floats apart. */
typedef void products_function(const float *matrix, int64_t row, int64_t depth, const float *a,
                               const float *b, float *x, float *y);
/* S' = d S + k u' */
typedef void change_function(const float *from, int64_t from_row, float *to, int64_t to_row, int64_t depth,
                             const float *fade, const float *key, const float *update);
/* to = factor x + other y */
typedef void mix_function(float factor, const float *x, float other, const float *y, float *to);

#define BLOCK(name, target, vector, ADD_PRODUCT)                                                             \
    typedef vector anywhere_##name __attribute__((aligned(sizeof(float))));                                  \
    target static void products_##name(const float *matrix, int64_t row, int64_t depth, const float *a,      \
                                       const float *b, float *x, float *y) {                                 \
        enum { WIDE = sizeof(vector) / sizeof(float) };                                                      \
        vector p[VECTORS], q[VECTORS];                                                                       \
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) p[v] = q[v] = (vector){0};                 \
        for (int64_t i = 0; i < depth; i++, matrix += row) {                                                 \
            _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {                                      \
                const vector part = *(const anywhere_##name *)(const void *)(matrix + v * WIDE);             \
                ADD_PRODUCT(p[v], a[i], part);                                                               \
                ADD_PRODUCT(q[v], b[i], part);                                                               \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {                                          \
            *(anywhere_##name *)(void *)(x + v * WIDE) = p[v];                                               \
            *(anywhere_##name *)(void *)(y + v * WIDE) = q[v];                                               \
        }                                                                                                    \
    }                                                                                                        \
    target static void change_##name(const float *from, int64_t from_row, float *to, int64_t to_row,         \
                                     int64_t depth, const float *fade, const float *key,                     \
                                     const float *update) {                                                  \
        enum { WIDE = sizeof(vector) / sizeof(float) };                                                      \
        vector u[VECTORS];                                                                                   \
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) u[v] =                                     \
            *(const anywhere_##name *)(const void *)(update + v * WIDE);                                     \
        for (int64_t i = 0; i < depth; i++, from += from_row, to += to_row) {                                \
            _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {                                      \
                vector part = *(const anywhere_##name *)(const void *)(from + v * WIDE) * fade[i];           \
                ADD_PRODUCT(part, key[i], u[v]);                                                             \
                *(anywhere_##name *)(void *)(to + v * WIDE) = part;                                          \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    target static void mix_##name(float factor, const float *x, float other, const float *y, float *to) {    \
        enum { WIDE = sizeof(vector) / sizeof(float) };                                                      \
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {                                          \
            vector part = *(const anywhere_##name *)(const void *)(y + v * WIDE) * other;                    \
            ADD_PRODUCT(part, factor, *(const anywhere_##name *)(const void *)(x + v * WIDE));               \
            *(anywhere_##name *)(void *)(to + v * WIDE) = part;                                              \
        }                                                                                                    \
    }

#define ADD(sum, left, right) ((sum) += (left) * (right))
BLOCK(baseline, , rt_floats_4, ADD)
#if RT_X86_KERNELS
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#define ADD_8(sum, left, right) ((sum) = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_16(sum, left, right) ((sum) = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
BLOCK(avx2, AVX2, rt_floats_8, ADD_8)
BLOCK(avx512, AVX512, rt_floats_16, ADD_16)
/* For plans whose results are the same on any machine: products are rounded before they are added. */
BLOCK(avx2_apart, AVX2, rt_floats_8, ADD)
BLOCK(avx512_apart, AVX512, rt_floats_16, ADD)
#endif

typedef struct block_functions {
    int64_t columns;
    products_function *products;
    change_function *change;
    mix_function *mix;
} block_functions;

static block_functions best_blocks(bool fused) {
#define FOR(name, wide) ((block_functions){VECTORS * (wide), products_##name, change_##name, mix_##name})
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) return fused ? FOR(avx512, 16) : FOR(avx512_apart, 16);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return fused ? FOR(avx2, 8) : FOR(avx2_apart, 8);
#endif
    (void)fused;
    return FOR(baseline, 4);
}

/* ---- shapes ---------------------------------------------------------------------------------------------------- */

typedef struct linear_state {
    op_dtype dtype, kept; /* of the activations; of the matrix outside */
    int64_t batches, steps, heads, shared, depth, width;
    bool gated, delta;
    int64_t decay_size; /* depth: one for each element of a key; 1: one a head */
    int64_t beta_heads; /* 1: shared by all heads */
    float scale;
    block_functions block;
} linear_state;

typedef struct linear_job {
    const linear_state *state;
    const op_tensor *inputs;
    op_tensor *outputs;
    float *scratch;
    bool wanted; /* the matrix is given out */
} linear_job;

static int64_t block_count(const linear_state *s) {
    return (s->width + s->block.columns - 1) / s->block.columns;
}

/* What one thread works in: the matrix block by block, and of each step of a chunk. Rows of values and results are as wide as all blocks. */
typedef struct workspace {
    float *matrix;  /* [blocks][depth][columns] */
    float *keys;    /* [CHUNK][depth] */
    float *fades;   /* the same: what the rows of the matrix are multiplied by */
    float *factors; /* [CHUNK][1 + shared][depth]: of r, and of each query */
    float *common;  /* [CHUNK][shared]: what each query has in common with the key */
    float *values;  /* [CHUNK][wide] */
    float *results; /* [CHUNK][shared][wide] */
    float *read;    /* [MOST_COLUMNS]: r */
    float *update;  /* [MOST_COLUMNS] */
    float *betas;   /* [CHUNK] */
} workspace;

/* In floats; false where these are too many. `base` NULL: only counts. */
static bool lay_out(const linear_state *s, float *base, workspace *of, size_t *floats) {
    const int64_t wide = block_count(s) * s->block.columns;
    const int64_t each[] = {wide * s->depth,
                            CHUNK * s->depth,
                            CHUNK * s->depth,
                            CHUNK * (1 + s->shared) * s->depth,
                            CHUNK * s->shared,
                            CHUNK * wide,
                            CHUNK * s->shared * wide,
                            MOST_COLUMNS,
                            MOST_COLUMNS,
                            CHUNK};
    float **const places[] = {&of->matrix, &of->keys,    &of->fades, &of->factors, &of->common,
                              &of->values, &of->results, &of->read,  &of->update,  &of->betas};
    *floats = 0;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        if (base) *places[i] = base + *floats;
        /* Whole lines of a cache, so that each begins at one. */
        if (!base_size_add(*floats, ((size_t)each[i] + 15) / 16 * 16, floats)) return false;
    }
    return true;
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static void load(op_dtype dtype, const op_tensor *from, int64_t at, int64_t count, float *to) {
    if (dtype == OP_FLOAT) memcpy(to, (const float *)from->data + at, (size_t)count * sizeof *to);
    else rt_half_load(dtype, to, (const uint16_t *)from->data + at, count);
}

static void store(op_dtype dtype, op_tensor *to, int64_t at, int64_t count, const float *from) {
    if (dtype == OP_FLOAT) memcpy((float *)to->data + at, from, (size_t)count * sizeof *from);
    else rt_half_store(dtype, (uint16_t *)to->data + at, from, count);
}

RT_CLONES static void exponentials(float *x, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) x[i] = rt_exp(x[i]);
}

RT_CLONES static void multiply(const float *x, const float *y, float factor, int64_t count, float *to) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = x[i] * factor * y[i];
}

/* Asks for what a later step reads and writes: the rows of a head lie far apart. */
static void ask_ahead(const linear_job *job, int64_t row, int64_t h) {
    const linear_state *s = job->state;
    const size_t size = s->dtype == OP_FLOAT ? sizeof(float) : sizeof(uint16_t),
                 keys = (size_t)s->depth * size, values = (size_t)s->width * size,
                 at = (size_t)(row * s->heads + h), shared = (size_t)s->shared;
    const char *made = (const char *)job->outputs[0].data + at * shared * values;
    rt_prefetch((const char *)job->inputs[KEY].data + at * keys, keys);
    rt_prefetch((const char *)job->inputs[QUERY].data + at * shared * keys, shared * keys);
    rt_prefetch((const char *)job->inputs[VALUE].data + at * values, values);
    for (size_t i = 0; i < shared * values; i += RT_ALIGNMENT) __builtin_prefetch(made + i, 1, 2);
}

/* What step t of a head multiplies the matrix by, as step `at` of a chunk. */
static void prepare_step(const linear_job *job, int64_t b, int64_t h, int64_t t, int64_t at,
                         const workspace *w) {
    const linear_state *s = job->state;
    const int64_t row = b * s->steps + t, depth = s->depth;
    float *key = w->keys + at * depth, *fade = w->fades + at * depth,
          *factors = w->factors + at * (1 + s->shared) * depth;
    if (t + AHEAD < s->steps) ask_ahead(job, row + AHEAD, h);
    load(s->dtype, &job->inputs[KEY], (row * s->heads + h) * depth, depth, key);
    if (s->gated) {
        load(s->dtype, &job->inputs[DECAY], (row * s->heads + h) * s->decay_size, s->decay_size, fade);
        exponentials(fade, s->decay_size);
    }
    for (int64_t i = s->gated ? s->decay_size : 0; i < depth; i++) fade[i] = s->gated ? fade[0] : 1;
    multiply(key, fade, 1, depth, factors);
    for (int64_t g = 0; g < s->shared; g++) {
        float *query = factors + (1 + g) * depth, common;
        load(s->dtype, &job->inputs[QUERY], (row * s->heads * s->shared + h * s->shared + g) * depth, depth,
             query);
        rt_dots(key, query, depth, depth, 1, &common);
        w->common[at * s->shared + g] = common * s->scale;
        multiply(query, fade, s->scale, depth, query);
    }
    float *value = w->values + at * block_count(s) * s->block.columns;
    memset(value + s->width, 0, (size_t)(block_count(s) * s->block.columns - s->width) * sizeof *value);
    load(s->dtype, &job->inputs[VALUE], (row * s->heads + h) * s->width, s->width, value);
    if (s->delta)
        load(s->dtype, &job->inputs[BETA], s->beta_heads == 1 ? row : row * s->heads + h, 1, &w->betas[at]);
}

/* Step `at` of a chunk over a block of columns, from `column` on: reads `from`, and makes `to` of it. */
static void run_step(const linear_state *s, int64_t at, int64_t column, const workspace *w, const float *from,
                     int64_t from_row, float *to, int64_t to_row) {
    const int64_t depth = s->depth, wide = block_count(s) * s->block.columns;
    const float *factors = w->factors + at * (1 + s->shared) * depth, *value = w->values + at * wide + column,
                *update = s->delta ? w->update : value;
    float *results = w->results + at * s->shared * wide + column;
    /* Two products at a time; without a delta that of the key is not wanted. */
    for (int64_t g = s->delta ? -1 : 0; g < s->shared; g += 2) {
        const int64_t other = g + 1 < s->shared ? g + 1 : g;
        s->block.products(from, from_row, depth, factors + (1 + g) * depth, factors + (1 + other) * depth,
                          g < 0 ? w->read : results + g * wide, other < 0 ? w->read : results + other * wide);
    }
    if (s->delta) s->block.mix(w->betas[at], value, -w->betas[at], w->read, w->update);
    for (int64_t g = 0; g < s->shared; g++)
        s->block.mix(w->common[at * s->shared + g], update, 1, results + g * wide, results + g * wide);
    s->block.change(from, from_row, to, to_row, depth, w->fades + at * depth, w->keys + at * depth, update);
}

/* The first step reads the matrix where it lies, and the last one writes it where it is wanted. */
static bool is_direct(const linear_state *s) {
    return s->steps > 0 && s->kept == OP_FLOAT && s->width % s->block.columns == 0;
}

/* The matrix of a head between where it lies outside and the blocks. */
static void read_matrix(const linear_job *job, int64_t head, const workspace *w) {
    const linear_state *s = job->state;
    memset(w->matrix, 0, (size_t)(block_count(s) * s->block.columns * s->depth) * sizeof *w->matrix);
    for (int64_t column = 0; column < s->width && job->inputs[PAST].data; column += s->block.columns) {
        const int64_t rest = s->width - column, columns = rest < s->block.columns ? rest : s->block.columns;
        for (int64_t i = 0; i < s->depth; i++)
            load(s->kept, &job->inputs[PAST], (head * s->depth + i) * s->width + column, columns,
                 w->matrix + column * s->depth + i * s->block.columns);
    }
}

static void write_matrix(const linear_job *job, int64_t head, const workspace *w) {
    const linear_state *s = job->state;
    for (int64_t column = 0; column < s->width; column += s->block.columns) {
        const int64_t rest = s->width - column, columns = rest < s->block.columns ? rest : s->block.columns;
        for (int64_t i = 0; i < s->depth; i++)
            store(s->kept, &job->outputs[1], (head * s->depth + i) * s->width + column, columns,
                  w->matrix + column * s->depth + i * s->block.columns);
    }
}

/* Some steps of a chunk over a block of columns. */
static void run_block(const linear_job *job, int64_t head, int64_t first, int64_t count, int64_t column,
                      const workspace *w) {
    const linear_state *s = job->state;
    const int64_t place = head * s->depth * s->width + column;
    const bool direct = is_direct(s);
    for (int64_t i = 0; i < count; i++) {
        const int64_t t = first + i;
        float *block = w->matrix + column * s->depth, *to = block;
        const float *from = block;
        if (direct && t == 0 && job->inputs[PAST].data) from = (const float *)job->inputs[PAST].data + place;
        if (direct && t == s->steps - 1 && job->wanted) to = (float *)job->outputs[1].data + place;
        run_step(s, i, column, w, from, from == block ? s->block.columns : s->width, to,
                 to == block ? s->block.columns : s->width);
    }
}

/* The results of a chunk. */
static void give(const linear_job *job, int64_t head, int64_t first, int64_t count, const workspace *w) {
    const linear_state *s = job->state;
    const int64_t wide = block_count(s) * s->block.columns,
                  row = (head / s->heads * s->steps + first) * s->heads + head % s->heads;
    for (int64_t i = 0; i < count * s->shared; i++)
        store(s->dtype, &job->outputs[0],
              ((row + i / s->shared * s->heads) * s->shared + i % s->shared) * s->width, s->width,
              w->results + i * wide);
}

static void run_head(const linear_job *job, int64_t head, const workspace *w) {
    const linear_state *s = job->state;
    const bool direct = is_direct(s);
    if (!direct || !job->inputs[PAST].data) read_matrix(job, head, w);
    for (int64_t first = 0; first < s->steps; first += CHUNK) {
        const int64_t count = s->steps - first < CHUNK ? s->steps - first : CHUNK;
        for (int64_t i = 0; i < count; i++)
            prepare_step(job, head / s->heads, head % s->heads, first + i, i, w);
        for (int64_t column = 0; column < s->width; column += s->block.columns)
            run_block(job, head, first, count, column, w);
        give(job, head, first, count, w);
    }
    if (job->wanted && !direct) write_matrix(job, head, w);
}

static void member(void *context, int index, int members) {
    const linear_job *job = context;
    const linear_state *s = job->state;
    workspace w;
    size_t floats;
    (void)lay_out(s, NULL, &w, &floats);
    (void)lay_out(s, job->scratch + (size_t)index * floats, &w, &floats);
    for (int64_t head = index; head < s->batches * s->heads; head += members) run_head(job, head, &w);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const linear_state *s = prepared->state;
    op_tensor all[6] = {{.data = NULL}};
    for (uint32_t i = 0; i < prepared->input_count && i < 6; i++) {
        if (inputs[i].type.dtype != OP_NONE) all[i] = inputs[i];
    }
    linear_job job = {s, all, outputs, scratch,
                      prepared->output_count > 1 && outputs[1].type.dtype != OP_NONE};
    rt_team_run(s->batches * s->heads > 1 ? prepared->threads : 1, member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    linear_state *s = BASE_NEW(arena, linear_state);
    if (!s) return base_fail_memory(report);
    const op_attributes *attributes = &call->attributes;
    const op_shape *query = &call->inputs[QUERY].type.shape, *value = &call->inputs[VALUE].type.shape;
    const int64_t heads = op_attribute_integer(attributes, "q_num_heads", 1);
    s->dtype = call->inputs[QUERY].type.dtype;
    s->kept = op_input_present(call, PAST) ? call->inputs[PAST].type.dtype : s->dtype;
    s->batches = query->dims[0];
    s->steps = query->dims[1];
    s->heads = op_attribute_integer(attributes, "kv_num_heads", 1);
    s->shared = heads / s->heads;
    s->depth = query->dims[2] / heads;
    s->width = value->dims[2] / s->heads;
    s->gated = op_attribute_is(attributes, "update_rule", "gated", "gated_delta") ||
               op_attribute_is(attributes, "update_rule", "gated_delta", "gated_delta");
    s->delta = op_attribute_is(attributes, "update_rule", "delta", "gated_delta") ||
               op_attribute_is(attributes, "update_rule", "gated_delta", "gated_delta");
    if (s->gated) s->decay_size = call->inputs[DECAY].type.shape.dims[2] / s->heads;
    if (s->delta) s->beta_heads = call->inputs[BETA].type.shape.dims[2];
    s->scale = op_attribute_real(attributes, "scale", 0);
    if (!(s->scale < 0 || s->scale > 0)) s->scale = s->depth ? 1 / sqrtf((float)s->depth) : 1;
    s->block = best_blocks(!environment->portable_only);
    prepared->state = s;
    prepared->run = run;
    workspace none;
    size_t bytes;
    if (s->depth > INT32_MAX || s->width > INT32_MAX || s->depth * s->width > INT32_MAX ||
        s->shared > INT32_MAX / CHUNK / (s->depth + s->width + MOST_COLUMNS) ||
        !lay_out(s, NULL, &none, &bytes) ||
        !base_size_multiply(bytes, sizeof(float) * (size_t)environment->threads, &bytes))
        return base_fail(report, BASE_INVALID, "heads of this size are not supported");
    prepared->scratch_bytes = bytes;
    return BASE_OK;
}

const rt_kernel rt_kernel_linear_attention = {
    .name = "portable.linear_attention", .accepts = rt_accepts_any_row_major, .prepare = prepare};
