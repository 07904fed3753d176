/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c: attention, and the operator Attention; see attention.h. */
#include "runtime/kernels/portable/attention.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/turn.h"
#include "runtime/kernels/portable/vector_math.h"
#include <math.h>
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

enum {
    CHUNK =
        528, /* queries of a task, whose blocks of keys are packed once; in groups also those of several heads */
    LEAST_CHUNK = 48, /* fewer queries are not worth packing keys for once more */
    MANY_TASKS = 8,   /* with fewer, chunks are smaller: threads have as much to do as each other */
    PART = 48,        /* queries whose scores with a whole block are held at a time */
    MOST_PART = 96,   /* the same of fewer keys */
    BLOCK = 128,      /* keys of a block */
    TILE_ROWS = 12,   /* fewer queries read keys and values where they lie */
    LANES = 16,
    AHEAD =
        8 /* rows that are asked for before they are read where they lie: the next one is on another page */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Elements of a buffer of rows: panels are whole, and the next buffer is aligned. */
static int64_t rounded(int64_t count) {
    return (count + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
}

typedef struct attention_job {
    const rt_attention *attention;
    const rt_attention_data *data;
    void *scratch;
    int64_t groups, rows, chunks,
        tasks;             /* heads of keys; queries of a chunk; chunks of each head; all of them */
    const struct few *few; /* attention_few.h; NULL: there are many queries */
} attention_job;

/* Keys [low, high). */
typedef struct span {
    int64_t low, high;
} span;

typedef struct chunk {
    int64_t batch, group;
    int64_t first, rows; /* of the queries of all heads of the group */
    span seen;           /* keys that some of them see */
} chunk;

/* The keys that query i of batch b can see, whatever the mask says. */
static span seen_keys(const attention_job *job, int64_t b, int64_t i) {
    const rt_attention *a = job->attention;
    span seen = {0, a->keys};
    if (a->mask != OP_NONE && a->mask_keys < seen.high) seen.high = a->mask_keys;
    if (job->data->lengths && job->data->lengths[b] < seen.high) seen.high = job->data->lengths[b];
    if (a->causal) {
        int64_t offset = job->data->offsets ? job->data->offsets[b * a->offset_stride] : 0;
        /* Numbers of the caller: more than the keys means all of them. */
        if (offset > a->keys) offset = a->keys;
        if (offset < -a->queries) offset = -a->queries;
        if (i + offset + 1 < seen.high) seen.high = i + offset + 1;
        if (a->window > 0 && i + offset + 1 > a->window) seen.low = i + offset + 1 - a->window;
    }
    return seen;
}

/* What the rows [row, row + rows) of a group see together. Each query sees no less far than those before it, on both sides. */
static span seen_by(const attention_job *job, int64_t batch, int64_t row, int64_t rows) {
    const int64_t queries = job->attention->queries, first = row % queries;
    const bool turns = first + rows > queries; /* rows of several heads: all of one's or less */
    const span low = seen_keys(job, batch, turns ? 0 : first),
               high = seen_keys(job, batch, turns ? queries - 1 : first + rows - 1);
    return (span){low.low, high.high};
}

/* Queries of a chunk. It does not depend on the threads. */
static int64_t chunk_rows(const rt_attention *a) {
    const int64_t rows = a->queries * a->shared, groups = a->shared ? a->heads / a->shared : 0;
    /* More are as many as are wanted: their number may be of any size where there is nothing to compute. */
    const int64_t heads = least(a->batches, MANY_TASKS) * least(groups, MANY_TASKS);
    int64_t chunks = (rows + CHUNK - 1) / CHUNK;
    while (chunks > 0 && heads * chunks < MANY_TASKS && rows >= 2 * chunks * LEAST_CHUNK) chunks *= 2;
    return chunks > 1 ? (rows + chunks - 1) / chunks : rows;
}

static chunk chunk_of(const attention_job *job, int64_t task) {
    const rt_attention *a = job->attention;
    chunk c = {.batch = task / job->chunks / job->groups,
               .group = task / job->chunks % job->groups,
               .first = task % job->chunks * job->rows};
    c.rows = least(a->queries * a->shared - c.first, job->rows);
    c.seen = a->scores == RT_SCORES_NONE ? seen_by(job, c.batch, c.first, c.rows) : (span){0, a->keys};
    return c;
}

/* An element of a mask that is added. */
static double mask_number(op_dtype dtype, const void *mask, int64_t index) {
    switch (dtype) {
    case OP_FLOAT:
    case OP_DOUBLE:
    case OP_FLOAT16:
    case OP_BFLOAT16:
        return rt_element_load(dtype, mask, index);
    default:
        return (double)rt_integer_load(dtype, mask, index);
    }
}

/* Keys as the right matrix of a product, turned: panels[p][d][RT_PANEL]. Rows that follow lie on other pages: they are asked for. */
static void pack_keys(const float *k, int64_t step, int64_t count, int64_t depth, float *panels) {
    for (int64_t first = 0; first < count; first += RT_PANEL) {
        float *panel = panels + first * depth;
        const int64_t width = least(count - first, RT_PANEL);
        for (int64_t next = first + RT_PANEL; next < first + 2 * RT_PANEL && next < count; next++)
            rt_prefetch(k + next * step, (size_t)depth * sizeof *k);
        if (width < RT_PANEL) memset(panel, 0, (size_t)(depth * RT_PANEL) * sizeof *panel);
        rt_turn_words((const uint32_t *)(const void *)(k + first * step), step, width, depth,
                      (uint32_t *)(void *)panel, RT_PANEL);
    }
}

/* Values as the right matrix of a product: panels[p][k][RT_PANEL]. */
RT_CLONES_FUSED static void pack_values(const float *v, int64_t step, int64_t count, int64_t width,
                                        float *panels) {
    const int64_t whole = width - width % RT_PANEL;
    for (int64_t k = 0; k < count; k++) {
        if (k + AHEAD < count) rt_prefetch(v + (k + AHEAD) * step, (size_t)width * sizeof *v);
        for (int64_t first = 0; first < whole; first += RT_PANEL) {
            float *to = panels + first * count + k * RT_PANEL;
            const float *from = v + k * step + first;
            RT_VECTOR for (int j = 0; j < RT_PANEL; j++) to[j] = from[j];
        }
    }
    if (whole == width) return;
    float *panel = panels + whole * count;
    memset(panel, 0, (size_t)(count * RT_PANEL) * sizeof *panel);
    for (int64_t k = 0; k < count; k++)
        memcpy(panel + k * RT_PANEL, v + k * step + whole, (size_t)(width - whole) * sizeof *panel);
}

#include "runtime/kernels/portable/attention_wide.h"

#define REAL float
#define OWN_TYPE OP_FLOAT
#define NAME(function) function##_float
#define EXP rt_exp
#define EXP_FALLING rt_exp_falling
#define TANH rt_tanh
#define TILES 1
#include "runtime/kernels/portable/attention_steps.h"
#undef REAL
#undef OWN_TYPE
#undef NAME
#undef EXP
#undef EXP_FALLING
#undef TANH
#undef TILES
#include "runtime/kernels/portable/attention_few.h"

#define REAL double
#define OWN_TYPE OP_DOUBLE
#define NAME(function) function##_double
#define EXP exp
#define EXP_FALLING exp
#define TANH tanh
#define TILES 0
#include "runtime/kernels/portable/attention_steps.h"

/* Numbers that a worker holds stay small beside the operands; heads of absurd size are refused. */
enum { LONGEST_HEAD = 1 << 24 };

size_t rt_attention_scratch(const rt_attention *a, int threads) {
    size_t bytes;
    if (a->depth > LONGEST_HEAD || a->width > LONGEST_HEAD) return 0;
    worker_float narrow;
    worker_double wide;
    size_t each = a->dtype == OP_DOUBLE ? worker_reals_double(a, &wide, NULL) * sizeof(double)
                                        : worker_reals_float(a, &narrow, NULL) * sizeof(float);
    if (is_few(a)) {
        const few f = few_of(a, threads);
        each = few_reals(a, &f, &narrow, NULL) * sizeof(float);
    }
    if (!base_size_multiply(each, (size_t)threads, &bytes)) return 0;
    return bytes ? bytes : 1; /* of no queries nothing is held */
}

void rt_attention_run(const rt_attention *a, int threads, const rt_attention_data *data, void *scratch) {
    attention_job job = {.attention = a, .data = data, .scratch = scratch};
    job.groups = a->shared ? a->heads / a->shared : 0;
    job.rows = chunk_rows(a);
    job.chunks = job.rows ? (a->queries * a->shared + job.rows - 1) / job.rows : 0;
    job.tasks = a->batches * job.groups * job.chunks;
    if (job.tasks == 0 || (a->width == 0 && a->scores == RT_SCORES_NONE)) return;
    const int64_t rows = a->queries * a->heads * a->batches;
    const bool little = rows < RT_PARALLEL_WORK && rows * a->keys < RT_PARALLEL_WORK &&
                        rows * a->keys * (a->depth + a->width) < RT_PARALLEL_WORK;
    if (is_few(a)) {
        const few f = few_of(a, threads);
        job.few = &f;
        rt_team_run(little || a->batches * f.parts == 1 ? 1 : threads, few_member, &job);
        return;
    }
    rt_team_run(little || job.tasks == 1 ? 1 : threads, a->dtype == OP_DOUBLE ? member_double : member_float,
                &job);
}

/* ---- the operator -------------------------------------------------------------------------------------- */

enum { Q, K, V, MASK, LENGTHS, OFFSETS, SINKS };

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    const op_dtype dtype = call->inputs[Q].type.dtype, stored = call->inputs[K].type.dtype;
    return (dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype)) && rt_accepts_row_major(call) &&
           (stored == dtype || (dtype == OP_FLOAT && rt_is_half(stored))) &&
           call->inputs[V].type.dtype == stored;
}

/* Rows of an operand: [batch, head, row, element], or [batch, row, head and element]; `turned`: [row, batch, head, element], as a
 * cache is carried that grows by rows. */
static rt_attention_rows rows_of(const op_shape *shape, int64_t heads, bool turned, int64_t *count,
                                 int64_t *length) {
    const int64_t *d = shape->dims;
    if (turned) {
        *count = d[0];
        *length = d[3];
        return (rt_attention_rows){d[2] * d[3], d[3], d[1] * d[2] * d[3]};
    }
    if (shape->rank == 4) {
        *count = d[2];
        *length = d[3];
        return (rt_attention_rows){d[1] * d[2] * d[3], d[2] * d[3], d[3]};
    }
    *count = d[1];
    *length = heads ? d[2] / heads : 0;
    return (rt_attention_rows){d[1] * d[2], *length, d[2]};
}

static void read_mask(const op_call *call, rt_attention *a) {
    a->mask = OP_NONE;
    a->mask_keys = a->keys;
    if (!op_input_present(call, MASK)) return;
    const op_shape *shape = &call->inputs[MASK].type.shape;
    a->mask = call->inputs[MASK].type.dtype;
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1, at = 3; i >= 0; i--, at--) {
        const bool stretched =
            shape->dims[i] == 1 && (at < 3 || op_attribute_integer(&call->attributes, "ouro.stretch", 0));
        a->mask_strides[at] = stretched ? 0 : stride;
        if (at == 3 && !stretched) a->mask_keys = shape->dims[i] < a->keys ? shape->dims[i] : a->keys;
        stride *= shape->dims[i];
    }
}

static bool given(const rt_prepared *prepared, const op_tensor *inputs, uint32_t input) {
    return prepared->input_count > input && inputs[input].type.dtype != OP_NONE;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const rt_attention *a = prepared->state;
    const bool lengths = given(prepared, inputs, LENGTHS), offsets = given(prepared, inputs, OFFSETS),
               sinks = given(prepared, inputs, SINKS);
    const rt_attention_data data = {.q = inputs[Q].data,
                                    .k = inputs[K].data,
                                    .v = inputs[V].data,
                                    .mask = a->mask != OP_NONE ? inputs[MASK].data : NULL,
                                    .lengths = lengths ? inputs[LENGTHS].data : NULL,
                                    .offsets = offsets ? inputs[OFFSETS].data : NULL,
                                    .sinks = sinks ? inputs[SINKS].data : NULL,
                                    .y = outputs[0].data,
                                    .scores = a->scores != RT_SCORES_NONE ? outputs[1].data : NULL};
    rt_attention_run(a, prepared->threads, &data, scratch);
    return BASE_OK;
}

static void read_call(const op_call *call, rt_attention *a) {
    const int64_t turned = op_attribute_integer(&call->attributes, "ouro.turned", 0);
    *a = (rt_attention){0};
    const op_shape *q = &call->inputs[Q].type.shape, *k = &call->inputs[K].type.shape,
                   *v = &call->inputs[V].type.shape;
    a->dtype = call->inputs[Q].type.dtype;
    a->stored = call->inputs[K].type.dtype;
    a->batches = q->dims[0];
    a->heads = q->rank == 4 ? q->dims[1] : op_attribute_integer(&call->attributes, "q_num_heads", 1);
    const int64_t groups = k->rank == 4 ? k->dims[turned >> K & 1 ? 2 : 1]
                                        : op_attribute_integer(&call->attributes, "kv_num_heads", 1);
    a->shared = groups ? a->heads / groups : 0;
    a->q = rows_of(q, a->heads, false, &a->queries, &a->depth);
    a->k = rows_of(k, groups, turned >> K & 1, &a->keys, &a->depth);
    a->v = rows_of(v, groups, turned >> V & 1, &a->keys, &a->width);
    int64_t rows;
    a->y = rows_of(&call->outputs[0].type.shape, a->heads, false, &rows, &a->width);
    const float scale = op_attribute_real(&call->attributes, "scale", 0);
    a->scale = op_attribute_find(&call->attributes, "scale") ? (double)scale
               : a->depth                                    ? 1 / sqrt((double)a->depth)
                                                             : 1;
    a->softcap = (double)op_attribute_real(&call->attributes, "softcap", 0);
    a->causal = op_attribute_integer(&call->attributes, "is_causal", 0) != 0;
    a->window = op_attribute_integer(&call->attributes, "ouro.window", 0);
    a->unseen_zeros = op_attribute_integer(&call->attributes, "ouro.unseen", 0) != 0;
    read_mask(call, a);
    const bool wanted = call->output_count > 1 && call->outputs[1].type.dtype != OP_NONE;
    a->scores = wanted
                    ? (rt_attention_scores)op_attribute_integer(&call->attributes, "qk_matmul_output_mode", 0)
                    : RT_SCORES_NONE;
    int64_t offsets = 1;
    if (op_input_present(call, OFFSETS)) (void)op_shape_elements(&call->inputs[OFFSETS].type.shape, &offsets);
    a->offset_stride = offsets > 1;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_attention *a = BASE_NEW(arena, rt_attention);
    if (!a) return base_fail_memory(report);
    read_call(call, a);
    prepared->state = a;
    prepared->run = run;
    prepared->scratch_bytes = rt_attention_scratch(a, environment->threads);
    return prepared->scratch_bytes
               ? BASE_OK
               : base_fail(report, BASE_INVALID, "heads of more than %d elements are not supported",
                           LONGEST_HEAD);
}

/* A cache that grows by a position in each run is another shape each time. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    rt_attention *a = prepared->state;
    if (!accepts(call, environment)) return false;
    read_call(call, a);
    prepared->scratch_bytes = rt_attention_scratch(a, environment->threads);
    return prepared->scratch_bytes != 0;
}

const rt_kernel rt_kernel_attention = {
    .name = "portable.attention", .accepts = accepts, .prepare = prepare, .adapt = adapt};
