/* SPDX-License-Identifier: Apache-2.0 */
/* attention_few.h: attention of a few queries, in float and in half precision, which is bound by reading keys and values; attention.c
 * includes it once, after the steps in float.
 *
 * Keys and values are read where they lie, in turns of FEW_BLOCK rows: so many that a processor, which reads ahead by itself, seldom
 * begins anew. Heads that lie between each other's rows, as those of a cache do that grows by positions, are read together, row by
 * row for all of them. How many these are follows from the threads, but the bits of a result do not.
 */
#ifndef OURO_ATTENTION_FEW_H
#define OURO_ATTENTION_FEW_H

enum {
    FEW_BLOCK = 1024,  /* keys whose scores are held at a time, at most */
    FEW_HALVES = 32,   /* rows of half precision that become floats at a time */
    FEW_TOGETHER = 64, /* queries that read together, at most */
};

typedef struct few {
    int64_t heads, parts; /* heads of keys that are read together; how many times in a batch */
    int64_t block;        /* keys whose scores are held */
} few;

static bool is_few(const rt_attention *a) {
    const int64_t rows = a->queries * a->shared;
    return a->dtype != OP_DOUBLE && a->scores == RT_SCORES_NONE && rows > 0 && rows < TILE_ROWS;
}

static size_t few_reals(const rt_attention *a, const few *f, worker_float *worker, float *at) {
    const int64_t rows = f->heads * a->shared * a->queries, wider = a->depth > a->width ? a->depth : a->width,
                  halves = rt_is_half(a->stored) ? FEW_HALVES : 0;
    const int64_t parts[] = {
        rows * a->depth, rows * a->width, rows * f->block, halves * f->heads * wider, rows, rows};
    float **const places[] = {&worker->q,   &worker->o,       &worker->s,
                              &worker->raw, &worker->largest, &worker->sum};
    size_t total = 0;
    worker->o_row = a->width;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (at) *places[i] = at + total;
        total += (size_t)rounded(parts[i]);
    }
    return total;
}

/* In as much scratch as the blocks of other attention would take: it shall not cost an arena. */
static few few_of(const rt_attention *a, int threads) {
    worker_float worker;
    const int64_t groups = a->heads / a->shared, keys = rounded(a->keys);
    /* Scores of a tile of queries, and rows as floats, which those would have. */
    const size_t most =
        worker_reals_float(a, &worker, NULL) +
        (size_t)(RT_PANEL * BLOCK + least(BLOCK, keys) * rounded(a->depth > a->width ? a->depth : a->width));
    const bool among_rows = a->k.head < a->k.row && a->v.head < a->v.row;
    few f = {.heads = 1, .block = keys < FEW_BLOCK ? keys : FEW_BLOCK};
    while (f.block > BLOCK && few_reals(a, &f, &worker, NULL) > most) f.block = rounded(f.block / 2);
    if (among_rows) {
        const int64_t members = a->batches < threads ? threads : 1,
                      most_heads = FEW_TOGETHER / (a->shared * a->queries);
        f.heads = (groups + members - 1) / members;
        if (f.heads > most_heads) f.heads = most_heads;
        while (f.heads > 1 && few_reals(a, &f, &worker, NULL) > most) f.heads--;
    }
    f.parts = (groups + f.heads - 1) / f.heads;
    return f;
}

/* Rows of some heads as floats: [row, head, element]. */
static void widen_rows(const rt_attention *a, const rt_attention_rows *at, const uint16_t *from,
                       int64_t heads, int64_t length, int64_t rows, float *to) {
    const bool together = heads == 1 || at->head == length;
    if (together && at->row == heads * length) {
        rt_half_load(a->stored, to, from, rows * heads * length);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t h = 0; h < heads; h += together ? heads : 1)
            rt_half_load(a->stored, to + (r * heads + h) * length, from + r * at->row + h * at->head,
                         together ? heads * length : length);
    }
}

typedef struct few_block {
    const chunk *chunk;
    const few *few;
    int64_t heads, first, count; /* keys [first, first + count) */
} few_block;

/* few_pass of halves that are widened in registers. */
static void few_halves(const attention_job *job, const worker_float *w, const few_block *b, bool keys) {
    const rt_attention *a = job->attention;
    const rt_attention_rows *at = keys ? &a->k : &a->v;
    const int64_t each = a->shared * a->queries, rows = b->heads * each;
    const uint16_t *from = (const uint16_t *)(keys ? job->data->k : job->data->v) +
                           b->chunk->batch * at->batch + b->chunk->group * at->head + b->first * at->row;
    rt_thin_halves stack[FEW_TOGETHER];
    for (int64_t r = 0; r < rows; r++) {
        float *scores = w->s + r * b->few->block;
        stack[r] = keys ? (rt_thin_halves){w->q + r * a->depth, from + r / each * at->head, scores}
                        : (rt_thin_halves){scores, from + r / each * at->head, w->o + r * a->width};
    }
    if (keys) rt_dots_halves(a->stored, stack, rows, at->row, a->depth, b->count);
    else rt_rows_halves(a->stored, stack, rows, at->row, b->count, a->width);
}

/* The scores of all queries with a block of keys, or (`keys` false) what its values add to the results. */
static void few_pass(const attention_job *job, const worker_float *w, const few_block *b, bool keys) {
    const rt_attention *a = job->attention;
    const rt_attention_rows *at = keys ? &a->k : &a->v;
    const bool half = rt_is_half(a->stored);
    if (half && rt_halves_run_here(keys ? a->depth : a->width)) {
        few_halves(job, w, b, keys);
        return;
    }
    const int64_t length = keys ? a->depth : a->width, each = a->shared * a->queries, rows = b->heads * each;
    const int64_t base = b->chunk->batch * at->batch + b->chunk->group * at->head + b->first * at->row;
    const void *data = keys ? job->data->k : job->data->v;
    const int64_t step = half ? b->heads * length : at->row, head = half ? length : at->head,
                  part = half ? FEW_HALVES : b->count;
    rt_thin stack[FEW_TOGETHER];
    for (int64_t from = 0; from < b->count; from += part) {
        const int64_t some = b->count - from < part ? b->count - from : part;
        if (half)
            widen_rows(a, at, (const uint16_t *)data + base + from * at->row, b->heads, length, some, w->raw);
        const float *where = half ? w->raw : (const float *)data + base;
        for (int64_t r = 0; r < rows; r++) {
            float *scores = w->s + r * b->few->block + from;
            stack[r] = keys ? (rt_thin){w->q + r * a->depth, where + r / each * head, scores}
                            : (rt_thin){scores, where + r / each * head, w->o + r * a->width};
        }
        if (keys) rt_dots_stack(stack, rows, step, length, some);
        else rt_rows_stack(stack, rows, 1, step, some, length);
    }
}

static void few_attend(const attention_job *job, const chunk *c, const worker_float *w, const few *f,
                       int64_t heads) {
    const rt_attention *a = job->attention;
    begin_float(job, c, w, 0, c->rows);
    memset(w->o, 0, (size_t)(c->rows * a->width) * sizeof *w->o);
    for (int64_t first = c->seen.low / LANES * LANES; first < c->seen.high; first += f->block) {
        const int64_t rest = c->seen.high - first, count = rest < f->block ? rest : f->block;
        const few_block b = {c, f, heads, first, count};
        few_pass(job, w, &b, true);
        for (int64_t r = 0; r < c->rows; r++) {
            float *s = w->s + r * f->block, *o = w->o + r * a->width;
            if (a->softcap > 0) cap_float(s, count, (float)a->softcap);
            if (a->mask != OP_NONE || a->causal || job->data->lengths)
                hide_float(job, c->batch, c->group * a->shared + r / a->queries, r % a->queries, first, count,
                           s);
            if (HAS_WIDE)
                absorb_wide(&(wide_scores){.s = s,
                                           .rows = 1,
                                           .count = count,
                                           .largest = w->largest + r,
                                           .sum = w->sum + r,
                                           .o = o,
                                           .o_row = a->width});
            else absorb_float(s, count, w->largest + r, w->sum + r, o, a->width);
        }
        few_pass(job, w, &b, false);
    }
    settle_float(job, w, c->rows);
    end_float(job, c, w, 0, c->rows);
}

static void few_member(void *context, int member, int members) {
    const attention_job *job = context;
    const rt_attention *a = job->attention;
    const few f = *job->few;
    const int64_t groups = a->heads / a->shared;
    worker_float worker;
    const size_t reals = few_reals(a, &f, &worker, NULL);
    few_reals(a, &f, &worker, (float *)job->scratch + (size_t)member * reals);
    for (int64_t task = member; task < a->batches * f.parts; task += members) {
        chunk c = {.batch = task / f.parts, .group = task % f.parts * f.heads};
        const int64_t heads = groups - c.group < f.heads ? groups - c.group : f.heads;
        c.rows = heads * a->shared * a->queries;
        c.seen = seen_by(job, c.batch, 0, a->queries);
        few_attend(job, &c, &worker, &f, heads);
    }
}

#endif
