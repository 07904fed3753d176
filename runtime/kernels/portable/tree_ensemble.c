/* SPDX-License-Identifier: Apache-2.0 */
/* tree_ensemble.c: decision trees (ir/operators/tree_ensemble.h has their form).
 *
 * One walk down a tree is a chain of loads that wait for each other. So LANES walks go on side by side: of as many rows down one
 * tree, or, of the last few rows, of one row down as many trees. A block of rows goes through all trees before the next, so that
 * rows stay in the nearest memory and trees are read once a block. A row's sum is taken in the order of the trees, whatever the
 * number of threads.
 */
#include "ir/operators/tree_ensemble.h"
#include "runtime/kernels/portable/kernels.h"
#include <math.h>
#include <string.h>

enum { LANES = 8, BLOCK_BYTES = 1 << 17, BLOCK_ROWS = 512, NODE_WORK = 64, FEW_STEPS = 8 };

typedef struct narrow_node {
    int32_t next[2];
    int32_t feature;
    float split;
} narrow_node;

typedef struct wide_node {
    int32_t next[2];
    int32_t feature, unused;
    double split;
} wide_node;

typedef struct tree_state {
    op_dtype x, dtype; /* of the rows; of splits, weights and results */
    int64_t rows, features, targets;
    int32_t trees;
    int32_t steps; /* the depth of the deepest tree, where that is few; otherwise 0 */
    int aggregate;
    bool single;          /* one target, and each leaf gives one weight to it */
    bool equal, nan_left; /* a node has such a flag */
    int64_t base;         /* how many numbers are added at the end: none, one, or one a target */
} tree_state;

typedef struct tree_context {
    const tree_state *state;
    const void *x, *nodes, *weights, *base;
    const int32_t *roots, *first, *targets;
    void *y;
    int64_t block;
} tree_context;

/* Steps LANES walks until all have ended. FLAGS: nodes may compare for equality, or send what is not a number to the left. */
#define WALK(name, node_type, real, FLAGS)                                                                   \
    static void name(const node_type *nodes, const real *const x[LANES], int32_t at[LANES]) {                \
        int32_t moved;                                                                                       \
        do {                                                                                                 \
            moved = 0;                                                                                       \
            for (int l = 0; l < LANES; l++) {                                                                \
                const node_type *node = &nodes[at[l]];                                                       \
                const real value = x[l][node->feature & OP_TREE_FEATURE_MASK];                               \
                int left = value <= node->split;                                                             \
                if (FLAGS && node->feature & OP_TREE_EQUAL) left = value == node->split;                     \
                if (FLAGS && node->feature & OP_TREE_NAN_LEFT) left |= value != value;                       \
                const int32_t next = node->next[!left];                                                      \
                moved |= next ^ at[l];                                                                       \
                at[l] = next;                                                                                \
            }                                                                                                \
        } while (moved);                                                                                     \
    }
WALK(walk_narrow, narrow_node, float, false)
WALK(walk_narrow_flags, narrow_node, float, true)
WALK(walk_wide, wide_node, double, false)
WALK(walk_wide_flags, wide_node, double, true)

/* LANES walks of one row down as many trees, of which none is deeper than `steps`: nobody asks whether a walk has ended. Where each walk is stays in
 * registers. */
#define WALK_ROW(name, node_type, real)                                                                      \
    static void name(const node_type *nodes, const real *x, int32_t at[LANES], int32_t steps) {              \
        int32_t now[LANES];                                                                                  \
        memcpy(now, at, sizeof now);                                                                         \
        for (int32_t step = 0; step < steps; step++) {                                                       \
            _Pragma("GCC unroll 8") for (int l = 0; l < LANES; l++) {                                        \
                const node_type *node = &nodes[now[l]];                                                      \
                now[l] = node->next[!(x[node->feature & OP_TREE_FEATURE_MASK] <= node->split)];              \
            }                                                                                                \
        }                                                                                                    \
        memcpy(at, now, sizeof now);                                                                         \
    }
WALK_ROW(walk_row_narrow, narrow_node, float)
WALK_ROW(walk_row_wide, wide_node, double)

/* What a leaf gives is added to a row of results, where no number means that none has been given yet. */
#define GIVE(name, real)                                                                                     \
    static void name(const tree_context *c, int32_t leaf, real *y) {                                         \
        const real *weights = c->weights;                                                                    \
        const int aggregate = c->state->aggregate;                                                           \
        for (int32_t i = c->first[leaf]; i < c->first[leaf + 1]; i++) {                                      \
            real *to = &y[c->targets[i]];                                                                    \
            if (aggregate == OP_TREE_SUM || aggregate == OP_TREE_AVERAGE)                                    \
                *to = *to != *to ? weights[i] : *to + weights[i];                                            \
            else if (aggregate == OP_TREE_MINIMUM ? !(*to <= weights[i]) : !(*to >= weights[i]))             \
                *to = weights[i];                                                                            \
        }                                                                                                    \
    }
GIVE(give_narrow, float)
GIVE(give_wide, double)

/* Rows [begin, end) through all trees, and what is left to do to their results. */
#define ROWS(name, node_type, real, walk, walk_flags, walk_row, give)                                        \
    static void name(const tree_context *c, const real *x, real *y, int64_t count, bool flags) {             \
        const tree_state *s = c->state;                                                                      \
        const real *weights = c->weights, *base = c->base;                                                   \
        const real *lanes[LANES];                                                                            \
        int32_t at[LANES];                                                                                   \
        const int64_t whole = count / LANES * LANES;                                                         \
        for (int64_t i = 0; i < count * s->targets; i++) y[i] = s->single ? 0 : (real)NAN;                   \
        for (int32_t tree = 0; tree < s->trees && whole; tree++) {                                           \
            for (int64_t row = 0; row < whole; row += LANES) {                                               \
                for (int l = 0; l < LANES; l++) {                                                            \
                    lanes[l] = x + (row + l) * s->features;                                                  \
                    at[l] = c->roots[tree];                                                                  \
                }                                                                                            \
                if (flags) walk_flags(c->nodes, lanes, at);                                                  \
                else walk(c->nodes, lanes, at);                                                              \
                if (s->single) {                                                                             \
                    for (int l = 0; l < LANES; l++) y[row + l] += weights[c->first[at[l]]];                  \
                } else {                                                                                     \
                    for (int l = 0; l < LANES; l++) give(c, at[l], y + (row + l) * s->targets);              \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t row = whole; row < count; row++) {                                                      \
            for (int32_t tree = 0; tree < s->trees; tree += LANES) {                                         \
                const int32_t few = s->trees - tree < LANES ? s->trees - tree : LANES;                       \
                for (int l = 0; l < LANES; l++) {                                                            \
                    lanes[l] = x + row * s->features;                                                        \
                    at[l] = c->roots[l < few ? tree + l : tree];                                             \
                }                                                                                            \
                if (flags) walk_flags(c->nodes, lanes, at);                                                  \
                else if (s->steps) walk_row(c->nodes, lanes[0], at, s->steps);                               \
                else walk(c->nodes, lanes, at);                                                              \
                if (s->single) {                                                                             \
                    real sum = y[row];                                                                       \
                    for (int l = 0; l < few; l++) sum += weights[c->first[at[l]]];                           \
                    y[row] = sum;                                                                            \
                } else {                                                                                     \
                    for (int l = 0; l < few; l++) give(c, at[l], y + row * s->targets);                      \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t i = 0; i < count * s->targets; i++) {                                                   \
            const bool given = y[i] == y[i];                                                                 \
            real value = given ? y[i] : 0;                                                                   \
            if (s->aggregate == OP_TREE_AVERAGE) value /= (real)s->trees;                                    \
            y[i] = base && given ? value + base[s->base == 1 ? 0 : i % s->targets] : value;                  \
        }                                                                                                    \
    }
ROWS(rows_narrow, narrow_node, float, walk_narrow, walk_narrow_flags, walk_row_narrow, give_narrow)
ROWS(rows_wide, wide_node, double, walk_wide, walk_wide_flags, walk_row_wide, give_wide)

static bool has_nan(const tree_state *s, const void *x, int64_t count) {
    int found = 0;
    if (s->dtype == OP_DOUBLE)
        for (int64_t i = 0; i < count; i++) found |= ((const double *)x)[i] != ((const double *)x)[i];
    else
        for (int64_t i = 0; i < count; i++) found |= ((const float *)x)[i] != ((const float *)x)[i];
    return found;
}

static void blocks(void *user, int64_t begin, int64_t end) {
    const tree_context *c = user;
    const tree_state *s = c->state;
    for (int64_t block = begin; block < end; block++) {
        const int64_t row = block * c->block, count = s->rows - row < c->block ? s->rows - row : c->block;
        const size_t bytes = op_dtype_bytes(s->dtype);
        const char *x = (const char *)c->x + (size_t)(row * s->features) * bytes;
        char *y = (char *)c->y + (size_t)(row * s->targets) * bytes;
        const bool flags = s->equal || (s->nan_left && has_nan(s, x, count * s->features));
        if (s->dtype == OP_DOUBLE)
            rows_wide(c, (const double *)(const void *)x, (double *)(void *)y, count, flags);
        else rows_narrow(c, (const float *)(const void *)x, (float *)(void *)y, count, flags);
    }
}

/* ---- rows of other types ------------------------------------------------------------------------------- */

/* The smallest float that is not below: compared with floats, it says the same as the double. */
static float round_up(double value) {
    const float near = (float)value;
    return (double)near < value ? nextafterf(near, INFINITY) : near;
}

static const void *converted(const tree_state *s, const void *x, void *scratch) {
    const int64_t count = s->rows * s->features;
    if (s->x == s->dtype) return x;
    for (int64_t i = 0; i < count; i++) {
        const double value = s->x == OP_DOUBLE  ? ((const double *)x)[i]
                             : s->x == OP_FLOAT ? (double)((const float *)x)[i]
                             : s->x == OP_INT32 ? (double)((const int32_t *)x)[i]
                                                : (double)((const int64_t *)x)[i];
        if (s->dtype == OP_DOUBLE) ((double *)scratch)[i] = value;
        else if (s->x == OP_DOUBLE) ((float *)scratch)[i] = round_up(value);
        else if (s->x == OP_INT64) ((float *)scratch)[i] = (float)((const int64_t *)x)[i];
        else ((float *)scratch)[i] = (float)value;
    }
    return scratch;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const tree_state *s = prepared->state;
    int64_t rows = BLOCK_BYTES / ((int64_t)op_dtype_bytes(s->dtype) * (s->features ? s->features : 1));
    rows = rows < LANES ? LANES : rows > BLOCK_ROWS ? BLOCK_ROWS : rows / LANES * LANES;
    /* A block for each thread at least, of whole lanes. A row's result does not depend on the rows beside it. */
    const int64_t share = (s->rows + prepared->threads - 1) / prepared->threads;
    if (rows > share) rows = (share + LANES - 1) / LANES * LANES;
    tree_context context = {.state = s,
                            .x = converted(s, inputs[OP_TREE_X].data, scratch),
                            .nodes = inputs[OP_TREE_NODES].data,
                            .roots = inputs[OP_TREE_ROOTS].data,
                            .first = inputs[OP_TREE_FIRST].data,
                            .targets = inputs[OP_TREE_TARGETS].data,
                            .weights = inputs[OP_TREE_WEIGHTS].data,
                            .base = s->base ? inputs[OP_TREE_BASE].data : NULL,
                            .y = outputs[0].data,
                            .block = rows};
    rt_parallel(prepared->threads, (s->rows + rows - 1) / rows, rows * s->trees * NODE_WORK, blocks,
                &context);
    return BASE_OK;
}

/* ---- before ---------------------------------------------------------------------------------------------- */

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    for (uint32_t i = OP_TREE_NODES; i < call->input_count; i++) {
        int64_t elements;
        if (!op_shape_elements(&call->inputs[i].type.shape, &elements)) return false;
        if (elements && !call->inputs[i].data && op_input_present(call, i)) return false;
    }
    return rt_accepts_row_major(call);
}

static int64_t elements_of(const op_call *call, uint32_t input) {
    int64_t elements = 0;
    if (op_input_present(call, input)) op_shape_elements(&call->inputs[input].type.shape, &elements);
    return elements;
}

/* The depth of a tree from `node` on, or one more than `most`. */
static int32_t depth_of(const int32_t *nodes, int32_t words, int32_t node, int32_t most) {
    const int32_t *at = nodes + (int64_t)node * words;
    if (at[OP_TREE_LEFT] == node) return 0;
    if (!most) return 1;
    const int32_t left = depth_of(nodes, words, at[OP_TREE_LEFT], most - 1);
    const int32_t right =
        left < most ? depth_of(nodes, words, at[OP_TREE_RIGHT], most - 1) : left; /* enough is known */
    return 1 + (left > right ? left : right);
}

/* Walks end, and stay within the constants and the features of a row. */
static base_status check(const op_call *call, tree_state *s, base_report *report) {
    const op_shape *shape = &call->inputs[OP_TREE_NODES].type.shape;
    const int32_t words = s->dtype == OP_DOUBLE ? OP_TREE_WORDS_DOUBLE : OP_TREE_WORDS;
    const int32_t *nodes = call->inputs[OP_TREE_NODES].data, *roots = call->inputs[OP_TREE_ROOTS].data,
                  *first = call->inputs[OP_TREE_FIRST].data, *targets = call->inputs[OP_TREE_TARGETS].data;
    const int64_t count = shape->rank == 2 ? shape->dims[0] : 0, entries = elements_of(call, OP_TREE_WEIGHTS);
    const int64_t trees = elements_of(call, OP_TREE_ROOTS);
    bool good = s->features > 0 && shape->rank == 2 && shape->dims[1] == words && count <= INT32_MAX &&
                trees <= INT32_MAX && elements_of(call, OP_TREE_FIRST) == count + 1 && entries <= INT32_MAX &&
                elements_of(call, OP_TREE_TARGETS) == entries && first[0] == 0;
    s->trees = (int32_t)trees;
    s->single = s->targets == 1 && s->aggregate == OP_TREE_SUM;
    for (int64_t i = 0; good && i < count; i++) {
        const int32_t *node = nodes + i * words, left = node[OP_TREE_LEFT], right = node[OP_TREE_RIGHT];
        const bool leaf = left == i && right == i;
        const int32_t feature = node[OP_TREE_FEATURE] & OP_TREE_FEATURE_MASK;
        good = node[OP_TREE_FEATURE] >= 0 &&
               (leaf || (left > i && right > i && left < count && right < count)) &&
               first[i + 1] >= first[i] && first[i + 1] <= entries;
        if (good && !leaf && feature >= s->features) {
            return base_fail(report, BASE_INVALID, "a node tests feature %d, the rows have %lld", feature,
                             (long long)s->features);
        }
        s->equal = s->equal || node[OP_TREE_FEATURE] & OP_TREE_EQUAL;
        s->nan_left = s->nan_left || node[OP_TREE_FEATURE] & OP_TREE_NAN_LEFT;
        s->single = s->single && (!leaf || first[i + 1] - first[i] == 1);
    }
    for (int64_t i = 0; good && i < trees; i++) good = roots[i] >= 0 && roots[i] < count;
    for (int64_t i = 0; good && i < trees && s->steps <= FEW_STEPS; i++) {
        const int32_t depth = depth_of(nodes, words, roots[i], FEW_STEPS);
        s->steps = depth > s->steps ? depth : s->steps;
    }
    if (s->steps > FEW_STEPS) s->steps = 0;
    for (int64_t i = 0; good && i < entries; i++) good = targets[i] >= 0 && targets[i] < s->targets;
    good = good && (s->base == 0 || s->base == 1 || s->base == s->targets);
    return good ? BASE_OK
                : base_fail(report, BASE_INVALID, "the constants of the trees do not fit each other");
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    tree_state *s = BASE_NEW(arena, tree_state);
    if (!s) return base_fail_memory(report);
    const op_type *x = &call->inputs[OP_TREE_X].type;
    *s = (tree_state){.x = x->dtype,
                      .dtype = call->inputs[OP_TREE_WEIGHTS].type.dtype,
                      .rows = x->shape.rank == 2 ? x->shape.dims[0] : 1,
                      .features = x->shape.dims[x->shape.rank - 1],
                      .targets = op_attribute_integer(&call->attributes, "targets", 1),
                      .aggregate = (int)op_attribute_integer(&call->attributes, "aggregate", OP_TREE_SUM),
                      .base = elements_of(call, OP_TREE_BASE)};
    size_t bytes = op_dtype_bytes(s->dtype);
    base_status status = check(call, s, report);
    if (status != BASE_OK) return status;
    prepared->state = s;
    prepared->run = s->rows ? run : rt_run_nothing;
    if (s->x != s->dtype && (!base_size_multiply((size_t)s->rows, bytes, &bytes) ||
                             !base_size_multiply((size_t)s->features, bytes, &prepared->scratch_bytes)))
        return base_fail_memory(report);
    return BASE_OK;
}

const rt_kernel rt_kernel_tree_ensemble = {
    .name = "portable.tree_ensemble", .accepts = accepts, .prepare = prepare};
