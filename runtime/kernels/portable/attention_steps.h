/* SPDX-License-Identifier: Apache-2.0 */
/* attention_steps.h: the arithmetic of attention in one type; attention.c includes it once for float and once for double, with REAL,
 * OWN_TYPE (of REAL), NAME(function), EXP, EXP_FALLING (of numbers up to 0), TANH and TILES (products by rt_tiles_run) defined. */

typedef struct NAME(worker) {
    REAL *q, *o, *s, *k, *v, *raw, *largest, *sum;
} NAME(worker);

static size_t NAME(worker_reals)(const rt_attention *a, NAME(worker) * worker, REAL *at) {
    const int64_t depth = rounded(a->depth), width = rounded(a->width), wider = depth > width ? depth : width,
                  queries = rounded(least(CHUNK, a->queries * a->shared)), some = least(PART, queries),
                  keys = rounded(least(BLOCK, a->keys));
    const int64_t parts[] = {queries * depth, queries * width, some * BLOCK, keys * depth,
                             keys * width,    keys * wider,    queries,      queries};
    REAL **const places[] = {&worker->q, &worker->o,   &worker->s,       &worker->k,
                             &worker->v, &worker->raw, &worker->largest, &worker->sum};
    size_t total = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (at) *places[i] = at + total;
        total += (size_t)parts[i];
    }
    return total;
}

/* `count` elements from element `offset` of a tensor. */
static void NAME(load)(op_dtype dtype, const void *from, int64_t offset, int64_t count, REAL *to) {
#if TILES
    if (rt_is_half(dtype)) {
        rt_half_load(dtype, to, (const uint16_t *)from + offset, count);
        return;
    }
#endif
    (void)dtype;
    memcpy(to, (const REAL *)from + offset, (size_t)count * sizeof *to);
}

static void NAME(store)(op_dtype dtype, void *to, int64_t offset, int64_t count, const REAL *from) {
#if TILES
    if (rt_is_half(dtype)) {
        rt_half_store(dtype, (uint16_t *)to + offset, from, count);
        return;
    }
#endif
    (void)dtype;
    memcpy((REAL *)to + offset, from, (size_t)count * sizeof *from);
}

/* Rows [first, first + count) of keys or values, as REAL: where they lie, or in `raw`; *step from row to row. */
static const REAL *NAME(rows)(op_dtype dtype, const void *from, int64_t base, int64_t row, int64_t count,
                              int64_t length, REAL *raw, int64_t *step) {
    if (!rt_is_half(dtype)) {
        *step = row;
        return (const REAL *)from + base;
    }
    *step = rounded(length);
    for (int64_t i = 0; i < count; i++) NAME(load)(dtype, from, base + i * row, length, raw + i * *step);
    return raw;
}

#if !TILES
/* y[i] = the sum of a[k] * b[i * step + k]. */
RT_CLONES_FUSED static void NAME(dots)(const REAL *a, const REAL *b, int64_t step, int64_t depth,
                                       int64_t count, REAL *y) {
    for (int64_t i = 0; i < count; i++) {
        REAL lanes[LANES] = {0}, sum = 0;
        int64_t k = 0;
        for (; k + LANES <= depth; k += LANES) {
            for (int j = 0; j < LANES; j++) lanes[j] += a[k + j] * b[i * step + k + j];
        }
        for (int j = 0; k < depth; k++, j++) lanes[j] += a[k] * b[i * step + k];
        for (int j = 0; j < LANES; j++) sum += lanes[j];
        y[i] = sum;
    }
}
#endif

/* o[j] += the sum over k of p[k] * v[k * step + j]. */
RT_CLONES_FUSED static void NAME(weigh)(const REAL *p, const REAL *v, int64_t step, int64_t count,
                                        int64_t width, REAL *restrict o) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        for (int64_t next = k + AHEAD; next < k + AHEAD + 4 && next < count; next++)
            rt_prefetch(v + next * step, (size_t)width * sizeof *v);
        const REAL p0 = p[k], p1 = p[k + 1], p2 = p[k + 2], p3 = p[k + 3];
        const REAL *v0 = v + k * step, *v1 = v0 + step, *v2 = v1 + step, *v3 = v2 + step;
        for (int64_t j = 0; j < width; j++) o[j] += (p0 * v0[j] + p1 * v1[j]) + (p2 * v2[j] + p3 * v3[j]);
    }
    for (; k < count; k++) {
        const REAL value = p[k];
        for (int64_t j = 0; j < width; j++) o[j] += value * v[k * step + j];
    }
}

RT_CLONES_FUSED static void NAME(cap)(REAL *s, int64_t count, REAL softcap) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) s[i] = softcap * TANH(s[i] / softcap);
}

/* Sixteen lanes as one: halves on halves, which takes four steps instead of sixteen. */
static inline REAL NAME(sum_of)(const REAL *lanes) {
    REAL eight[8], quarter[4];
    for (int j = 0; j < 8; j++) eight[j] = lanes[j] + lanes[j + 8];
    for (int j = 0; j < 4; j++) quarter[j] = eight[j] + eight[j + 4];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

static inline REAL NAME(largest_of)(const REAL *lanes) {
    REAL eight[8], quarter[4];
    for (int j = 0; j < 8; j++) eight[j] = lanes[j] > lanes[j + 8] ? lanes[j] : lanes[j + 8];
    for (int j = 0; j < 4; j++) quarter[j] = eight[j] > eight[j + 4] ? eight[j] : eight[j + 4];
    const REAL even = quarter[0] > quarter[2] ? quarter[0] : quarter[2],
               odd = quarter[1] > quarter[3] ? quarter[1] : quarter[3];
    return even > odd ? even : odd;
}

/* A block of scores of one query becomes weights relative to the largest score so far; what was summed before is made relative to
 * it too. */
RT_CLONES_FUSED static void NAME(absorb)(REAL *s, int64_t count, REAL *largest, REAL *sum, REAL *o,
                                         int64_t width) {
    REAL lanes[LANES], top = *largest;
    const int64_t whole = count - count % LANES;
    for (int j = 0; j < LANES; j++) lanes[j] = top;
    for (int64_t i = 0; i < whole; i += LANES) {
        RT_VECTOR for (int j = 0; j < LANES; j++) lanes[j] = s[i + j] > lanes[j] ? s[i + j] : lanes[j];
    }
    for (int64_t i = whole; i < count; i++) lanes[0] = s[i] > lanes[0] ? s[i] : lanes[0];
    top = NAME(largest_of)(lanes);
    const REAL base = top == -(REAL)INFINITY ? 0 : top; /* nothing was seen yet */
    if (*largest != top) {
        const REAL down = EXP_FALLING(*largest - base);
        *largest = top;
        *sum *= down;
        RT_VECTOR for (int64_t j = 0; j < width; j++) o[j] *= down;
    }
    for (int j = 0; j < LANES; j++) lanes[j] = 0;
    for (int64_t i = 0; i < whole; i += LANES) {
        RT_VECTOR for (int j = 0; j < LANES; j++) {
            s[i + j] = EXP_FALLING(s[i + j] - base);
            lanes[j] += s[i + j];
        }
    }
    for (int64_t i = whole; i < count; i++) {
        s[i] = EXP_FALLING(s[i] - base);
        lanes[i - whole] += s[i];
    }
    *sum += NAME(sum_of)(lanes);
}

/* Adds the mask to the scores of one query with keys [first, first + count), and hides those that it does not see. */
RT_CLONES_FUSED static void NAME(hide)(const attention_job *job, int64_t b, int64_t h, int64_t i,
                                       int64_t first, int64_t count, REAL *s) {
    const rt_attention *a = job->attention;
    if (a->mask != OP_NONE) {
        const int64_t at = b * a->mask_strides[0] + h * a->mask_strides[1] + i * a->mask_strides[2] +
                           first * a->mask_strides[3];
        const int64_t step = a->mask_strides[3],
                      known = a->mask_keys - first < count ? a->mask_keys - first : count;
        if (a->mask == OP_BOOL) {
            const bool *seen = (const bool *)job->data->mask + at;
            for (int64_t j = 0; j < known; j++) s[j] = seen[j * step] ? s[j] : -(REAL)INFINITY;
        } else if (a->mask == OWN_TYPE && step == 1) {
            const REAL *added = (const REAL *)job->data->mask + at;
            for (int64_t j = 0; j < known; j++) s[j] += added[j];
        } else {
            for (int64_t j = 0; j < known; j++)
                s[j] += (REAL)mask_number(a->mask, job->data->mask, at + j * step);
        }
    }
    const span seen = seen_keys(job, b, i);
    for (int64_t j = 0; j < count && first + j < seen.low; j++) s[j] = -(REAL)INFINITY;
    for (int64_t j = seen.high > first ? seen.high - first : 0; j < count; j++) s[j] = -(REAL)INFINITY;
}

/* The weights of a query from its scores, once the largest of them and the sum are known. */
static void NAME(weights)(REAL *s, int64_t count, REAL largest, REAL sum) {
    for (int64_t i = 0; i < count; i++) s[i] = EXP(s[i] - largest) / sum;
}

/* The scores of `rows` queries of the chunk from row `row` on with a block of keys. */
static void NAME(scores)(const rt_attention *a, const NAME(worker) * w, int64_t row, int64_t rows,
                         const REAL *k, int64_t step, int64_t count) {
#if TILES
    if (a->queries * a->shared >= TILE_ROWS) {
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = count,
                                 .depth = a->depth,
                                 .a = w->q + row * a->depth,
                                 .a_row = a->depth,
                                 .a_depth = 1,
                                 .panels = w->k,
                                 .c = w->s,
                                 .c_row = BLOCK,
                                 .fused = true});
        return;
    }
    for (int64_t i = 0; i < count; i += AHEAD) {
        const int64_t some = count - i < AHEAD ? count - i : AHEAD;
        for (int64_t next = i + AHEAD; next < i + 2 * AHEAD && next < count; next++)
            rt_prefetch(k + next * step, (size_t)a->depth * sizeof *k);
        for (int64_t r = 0; r < rows; r++)
            rt_dots(w->q + (row + r) * a->depth, k + i * step, step, a->depth, some, w->s + r * BLOCK + i);
    }
#else
    for (int64_t r = 0; r < rows; r++)
        NAME(dots)(w->q + (row + r) * a->depth, k, step, a->depth, count, w->s + r * BLOCK);
#endif
}

static void NAME(values)(const rt_attention *a, const NAME(worker) * w, int64_t row, int64_t rows,
                         const REAL *v, int64_t step, int64_t count) {
#if TILES
    if (a->queries * a->shared >= TILE_ROWS) {
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = a->width,
                                 .depth = count,
                                 .a = w->s,
                                 .a_row = BLOCK,
                                 .a_depth = 1,
                                 .panels = w->v,
                                 .c = w->o + row * a->width,
                                 .c_row = a->width,
                                 .add = true,
                                 .fused = true});
        return;
    }
#endif
    for (int64_t r = 0; r < rows; r++)
        NAME(weigh)(w->s + r * BLOCK, v, step, count, a->width, w->o + (row + r) * a->width);
}

/* Scores become weights of the queries from row `row` of the chunk on. */
static void NAME(absorb_rows)(const rt_attention *a, const NAME(worker) * w, int64_t row, int64_t rows,
                              int64_t count) {
#if TILES
    if (a->scores != RT_SCORES_WEIGHTS && HAS_WIDE) { /* weights that are given out are natural powers */
        absorb_wide(w->s, rows, count, w->largest + row, w->sum + row, w->o + row * a->width, a->width);
        return;
    }
#endif
    for (int64_t r = row; r < row + rows; r++) NAME(absorb)
    (w->s + (r - row) * BLOCK, count, &w->largest[r], &w->sum[r], w->o + r * a->width, a->width);
}

/* Scores stay as the product has made them. */
static bool NAME(are_plain)(const attention_job *job) {
    const rt_attention *a = job->attention;
    return a->mask == OP_NONE && !a->causal && !job->data->lengths && a->softcap <= 0 &&
           a->scores == RT_SCORES_NONE;
}

/* A block of keys with a part of the queries. `again`: largest and sum are final, only weights are given out. */
static void NAME(part)(const attention_job *job, const chunk *c, const NAME(worker) * w, int64_t row,
                       int64_t rows, int64_t first, int64_t count, bool again) {
    const rt_attention *a = job->attention;
    for (int64_t r = 0; r < rows && !NAME(are_plain)(job); r++) {
        const int64_t index = c->first + row + r, h = c->group * a->shared + index / a->queries,
                      i = index % a->queries;
        const int64_t out = ((c->batch * a->heads + h) * a->queries + i) * a->keys + first;
        REAL *s = w->s + r * BLOCK;
        if (a->scores == RT_SCORES_SCALED) NAME(store)(a->dtype, job->data->scores, out, count, s);
        if (a->softcap > 0) NAME(cap)(s, count, (REAL)a->softcap);
        if (a->scores == RT_SCORES_CAPPED) NAME(store)(a->dtype, job->data->scores, out, count, s);
        NAME(hide)(job, c->batch, h, i, first, count, s);
        if (a->scores == RT_SCORES_MASKED) NAME(store)(a->dtype, job->data->scores, out, count, s);
        if (!again) continue;
        NAME(weights)(s, count, w->largest[row + r], w->sum[row + r]);
        NAME(store)(a->dtype, job->data->scores, out, count, s);
    }
    if (!again) NAME(absorb_rows)(a, w, row, rows, count);
}

static void NAME(blocks)(const attention_job *job, const chunk *c, const NAME(worker) * w, bool again) {
    const rt_attention *a = job->attention;
    for (int64_t first = c->seen.low / BLOCK * BLOCK; first < c->seen.high; first += BLOCK) {
        const int64_t count = a->keys - first < BLOCK ? a->keys - first : BLOCK;
        int64_t k_step, v_step;
        const int64_t k_base = c->batch * a->k.batch + c->group * a->k.head + first * a->k.row;
        const int64_t v_base = c->batch * a->v.batch + c->group * a->v.head + first * a->v.row;
        const REAL *k =
            NAME(rows)(a->stored, job->data->k, k_base, a->k.row, count, a->depth, w->raw, &k_step);
#if TILES
        const bool tiles = a->queries * a->shared >= TILE_ROWS;
        if (tiles) pack_keys(k, k_step, count, a->depth, w->k);
        const bool copied = rt_is_half(a->stored) && !tiles;
        /* Keys that lie in `raw` are needed as long as there are queries: values go elsewhere. */
        REAL *raw = copied ? w->v : w->raw;
#else
        REAL *raw = w->raw;
#endif
        const REAL *v = NAME(rows)(a->stored, job->data->v, v_base, a->v.row, count, a->width, raw, &v_step);
#if TILES
        if (tiles && !again) pack_values(v, v_step, count, a->width, w->v);
#endif
        for (int64_t row = 0; row < c->rows; row += PART) {
            const int64_t rows = c->rows - row < PART ? c->rows - row : PART;
            if (a->scores == RT_SCORES_NONE && !any_seen(job, c, row, rows, first, count)) continue;
            NAME(scores)(a, w, row, rows, k, k_step, count);
            NAME(part)(job, c, w, row, rows, first, count, again);
            if (!again) NAME(values)(a, w, row, rows, v, v_step, count);
        }
    }
}

/* The queries of a chunk, scaled, before any key is seen. */
static void NAME(begin)(const attention_job *job, const chunk *c, const NAME(worker) * w) {
    const rt_attention *a = job->attention;
    for (int64_t r = 0; r < c->rows; r++) {
        const int64_t index = c->first + r, h = c->group * a->shared + index / a->queries,
                      i = index % a->queries;
        REAL *q = w->q + r * a->depth;
        NAME(load)(a->dtype, job->data->q, c->batch * a->q.batch + h * a->q.head + i * a->q.row, a->depth, q);
        for (int64_t j = 0; j < a->depth; j++) q[j] *= (REAL)a->scale;
        w->largest[r] = -(REAL)INFINITY;
        w->sum[r] = 0;
        if (!job->data->sinks) continue;
        NAME(load)(a->dtype, job->data->sinks, h, 1, &w->largest[r]);
        w->sum[r] = w->largest[r] == -(REAL)INFINITY ? 0 : 1;
    }
    memset(w->o, 0, (size_t)(c->rows * a->width) * sizeof *w->o);
}

/* The results of a chunk, after all keys. */
static void NAME(end)(const attention_job *job, const chunk *c, const NAME(worker) * w) {
    const rt_attention *a = job->attention;
    for (int64_t r = 0; r < c->rows; r++) {
        const int64_t index = c->first + r, h = c->group * a->shared + index / a->queries,
                      i = index % a->queries;
        REAL *o = w->o + r * a->width;
        for (int64_t j = 0; j < a->width; j++) o[j] /= w->sum[r];
        NAME(store)
        (a->dtype, job->data->y, c->batch * a->y.batch + h * a->y.head + i * a->y.row, a->width, o);
    }
}

static void NAME(attend)(const attention_job *job, const chunk *c, const NAME(worker) * w) {
    NAME(begin)(job, c, w);
    NAME(blocks)(job, c, w, false);
    if (job->attention->scores == RT_SCORES_WEIGHTS) NAME(blocks)(job, c, w, true);
    NAME(end)(job, c, w);
}

static void NAME(member)(void *context, int member, int members) {
    const attention_job *job = context;
    NAME(worker) worker;
    const size_t each = NAME(worker_reals)(job->attention, &worker, NULL);
    NAME(worker_reals)(job->attention, &worker, (REAL *)job->scratch + (size_t)member * each);
    for (int64_t task = member; task < job->tasks; task += members) {
        const chunk c = chunk_of(job, task);
        NAME(attend)(job, &c, &worker);
    }
}
