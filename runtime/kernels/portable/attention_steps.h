/* SPDX-License-Identifier: Apache-2.0 */
/* attention_steps.h: the arithmetic of attention in one type; attention.c includes it once for float and once for double, with REAL,
 * OWN_TYPE (of REAL), NAME(function), EXP, EXP_FALLING (of numbers up to 0), TANH and TILES (products by rt_tiles_run) defined. */

typedef struct NAME(worker) {
    REAL *q, *o, *s, *k, *v, *raw, *largest, *sum;
    int64_t part;         /* queries whose scores are held */
    int64_t s_row, o_row; /* from a query's scores, or its result, to the next one's */
    bool once; /* no result waits for another block of keys: queries and results are those of a part */
} NAME(worker);

static size_t NAME(worker_reals)(const rt_attention *a, NAME(worker) * worker, REAL *at) {
    const int64_t depth = rounded(a->depth), width = rounded(a->width), wider = depth > width ? depth : width,
                  queries = chunk_rows(a), keys = rounded(least(BLOCK, a->keys));
    worker->s_row = keys ? keys : RT_PANEL;
    worker->o_row = width;
    worker->once = a->keys <= BLOCK;
    const int64_t most = least(PART * BLOCK / worker->s_row, MOST_PART), parts = (queries + most - 1) / most;
    worker->part = parts ? (queries + parts - 1) / parts : 0;
    const int64_t held = worker->once ? worker->part : queries;
    const int64_t parts_of[] = {rounded(held * a->depth),
                                held * width,
                                worker->part * worker->s_row,
                                keys * depth,
                                keys * width,
                                rt_is_half(a->stored) ? keys * wider : 0,
                                rounded(held),
                                rounded(held)};
    REAL **const places[] = {&worker->q, &worker->o,   &worker->s,       &worker->k,
                             &worker->v, &worker->raw, &worker->largest, &worker->sum};
    size_t total = 0;
    for (size_t i = 0; i < sizeof parts_of / sizeof *parts_of; i++) {
        if (at) *places[i] = at + total;
        total += (size_t)parts_of[i];
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

/* The scores of the queries [row, row + rows) that are held with a block of keys; tiles make whole panels. */
static void NAME(scores)(const rt_attention *a, const NAME(worker) * w, int64_t row, int64_t rows,
                         const REAL *k, int64_t step, int64_t count) {
#if TILES
    if (a->queries * a->shared >= TILE_ROWS) {
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = rounded(count),
                                 .depth = a->depth,
                                 .a = w->q + row * a->depth,
                                 .a_row = a->depth,
                                 .a_depth = 1,
                                 .panels = w->k,
                                 .c = w->s,
                                 .c_row = w->s_row,
                                 .fused = true});
        return;
    }
    for (int64_t i = 0; i < count; i += AHEAD) {
        const int64_t some = count - i < AHEAD ? count - i : AHEAD;
        for (int64_t next = i + AHEAD; next < i + 2 * AHEAD && next < count; next++)
            rt_prefetch(k + next * step, (size_t)a->depth * sizeof *k);
        for (int64_t r = 0; r < rows; r++)
            rt_dots(w->q + (row + r) * a->depth, k + i * step, step, a->depth, some, w->s + r * w->s_row + i);
    }
#else
    for (int64_t r = 0; r < rows; r++)
        NAME(dots)(w->q + (row + r) * a->depth, k, step, a->depth, count, w->s + r * w->s_row);
#endif
}

/* What a block of `held` keys, of which the queries see `count`, adds to their results; `fresh`: there are none yet. */
static void NAME(values)(const rt_attention *a, const NAME(worker) * w, int64_t row, int64_t rows,
                         const REAL *v, int64_t step, int64_t count, int64_t held, bool fresh) {
#if TILES
    if (a->queries * a->shared >= TILE_ROWS) {
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = w->o_row,
                                 .depth = count,
                                 .a = w->s,
                                 .a_row = w->s_row,
                                 .a_depth = 1,
                                 .panels = w->v,
                                 .panel_step = held * RT_PANEL,
                                 .c = w->o + row * w->o_row,
                                 .c_row = w->o_row,
                                 .add = !fresh,
                                 .fused = true});
        return;
    }
#endif
    (void)held;
    if (fresh) memset(w->o + row * w->o_row, 0, (size_t)(rows * w->o_row) * sizeof *w->o);
    for (int64_t r = 0; r < rows; r++)
        NAME(weigh)(w->s + r * w->s_row, v, step, count, a->width, w->o + (row + r) * w->o_row);
}

/* Nothing has to be done with scores but what absorb_wide does: one addition, and hiding the last ones. */
static bool NAME(is_simple)(const attention_job *job) {
    const rt_attention *a = job->attention;
    return a->softcap <= 0 && a->scores == RT_SCORES_NONE && (!a->causal || a->window <= 0) &&
           (a->mask == OP_NONE ||
            (a->mask == OWN_TYPE && a->mask_strides[3] == 1 && a->mask_keys >= a->keys));
}

/* Scores of queries of the chunk, whose largest scores and so on are those held from `row` on, become weights. */
static void NAME(absorb_rows)(const attention_job *job, const chunk *c, const NAME(worker) * w, int64_t row,
                              int64_t rows, int64_t first, int64_t count, bool fresh) {
    const rt_attention *a = job->attention;
#if TILES
    if (a->scores != RT_SCORES_WEIGHTS && HAS_WIDE) { /* weights that are given out are natural powers */
        const float *masks[MOST_PART];
        int64_t seen[MOST_PART], i = (c->first + row) % a->queries,
                                 h = c->group * a->shared + (c->first + row) / a->queries;
        const bool simple = NAME(is_simple)(job), masked = simple && a->mask != OP_NONE,
                   cut = simple && (a->causal || job->data->lengths);
        for (int64_t r = 0; r < rows && (masked || cut); r++) {
            if (masked)
                masks[r] = (const float *)job->data->mask + c->batch * a->mask_strides[0] +
                           h * a->mask_strides[1] + i * a->mask_strides[2] + first;
            if (cut) {
                const int64_t own = seen_keys(job, c->batch, i).high - first;
                seen[r] = own < 0 ? 0 : least(own, count);
            }
            if (++i == a->queries) i = 0, h++;
        }
        absorb_wide(&(wide_scores){.s = w->s,
                                   .row = w->s_row,
                                   .rows = rows,
                                   .count = count,
                                   .seen = cut ? seen : NULL,
                                   .masks = masked ? masks : NULL,
                                   .largest = w->largest + row,
                                   .sum = w->sum + row,
                                   .o = fresh ? NULL : w->o + row * w->o_row,
                                   .o_row = w->o_row});
        return;
    }
#endif
    (void)c, (void)first;
    for (int64_t r = row; r < row + rows; r++) NAME(absorb)
    (w->s + (r - row) * w->s_row, count, &w->largest[r], &w->sum[r], w->o + r * w->o_row,
     fresh ? 0 : a->width);
}

/* A block of keys with the queries [row, row + rows) of the chunk. `again`: largest and sum are final, only weights are given out. */
static void NAME(part)(const attention_job *job, const chunk *c, const NAME(worker) * w, int64_t row,
                       int64_t rows, int64_t first, int64_t count, bool again) {
    const rt_attention *a = job->attention;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t index = c->first + row + r, h = c->group * a->shared + index / a->queries,
                      i = index % a->queries;
        const int64_t out = ((c->batch * a->heads + h) * a->queries + i) * a->keys + first;
        REAL *s = w->s + r * w->s_row;
        if (a->scores == RT_SCORES_SCALED) NAME(store)(a->dtype, job->data->scores, out, count, s);
        if (a->softcap > 0) NAME(cap)(s, count, (REAL)a->softcap);
        if (a->scores == RT_SCORES_CAPPED) NAME(store)(a->dtype, job->data->scores, out, count, s);
        NAME(hide)(job, c->batch, h, i, first, count, s);
        if (a->scores == RT_SCORES_MASKED) NAME(store)(a->dtype, job->data->scores, out, count, s);
        if (!again) continue;
        NAME(weights)(s, count, w->largest[row + r], w->sum[row + r]);
        NAME(store)(a->dtype, job->data->scores, out, count, s);
    }
}

/* Keys and values of a block: where they lie, or as floats. */
typedef struct NAME(block) {
    int64_t first, count;
    const REAL *k, *v;
    int64_t k_step, v_step;
} NAME(block);

static NAME(block) NAME(block_of)(const attention_job *job, const chunk *c, const NAME(worker) * w,
                                  int64_t first, bool again) {
    const rt_attention *a = job->attention;
    NAME(block) b = {.first = first, .count = least(a->keys - first, BLOCK)};
    const int64_t k_base = c->batch * a->k.batch + c->group * a->k.head + first * a->k.row;
    const int64_t v_base = c->batch * a->v.batch + c->group * a->v.head + first * a->v.row;
    b.k = NAME(rows)(a->stored, job->data->k, k_base, a->k.row, b.count, a->depth, w->raw, &b.k_step);
#if TILES
    const bool tiles = a->queries * a->shared >= TILE_ROWS;
    if (tiles) pack_keys(b.k, b.k_step, b.count, a->depth, w->k);
    const bool copied = rt_is_half(a->stored) && !tiles;
    /* Keys that lie in `raw` are needed as long as there are queries: values go elsewhere. */
    REAL *raw = copied ? w->v : w->raw;
#else
    (void)again;
    REAL *raw = w->raw;
#endif
    b.v = NAME(rows)(a->stored, job->data->v, v_base, a->v.row, b.count, a->width, raw, &b.v_step);
#if TILES
    if (tiles && !again && HAS_WIDE) pack_values_wide(b.v, b.v_step, b.count, a->width, w->v);
    else if (tiles && !again) pack_values(b.v, b.v_step, b.count, a->width, w->v);
#endif
    return b;
}

/* A block with queries of the chunk, of which those from `row` on are the ones that are held from `at` on. */
static void NAME(meet)(const attention_job *job, const chunk *c, const NAME(worker) * w,
                       const NAME(block) * b, int64_t row, int64_t rows, int64_t at, bool again, bool fresh) {
    const rt_attention *a = job->attention;
    chunk own = *c; /* whose rows are numbered as they are held */
    own.first = c->first + row - at;
    const span seen = seen_by(job, c->batch, c->first + row, rows);
    int64_t count = b->count;
    if (a->scores == RT_SCORES_NONE) count = least(count, seen.high - b->first);
    if (a->scores == RT_SCORES_NONE && (seen.low >= b->first + b->count || count <= 0)) {
        if (fresh) memset(w->o + at * w->o_row, 0, (size_t)(rows * w->o_row) * sizeof *w->o);
        return;
    }
    NAME(scores)(a, w, at, rows, b->k, b->k_step, count);
    const bool plain = a->mask == OP_NONE && !a->causal && !job->data->lengths && a->softcap <= 0 &&
                       a->scores == RT_SCORES_NONE;
    if (!plain && !(TILES && HAS_WIDE && NAME(is_simple)(job)))
        NAME(part)(job, &own, w, at, rows, b->first, count, again);
    if (again) return;
    NAME(absorb_rows)(job, &own, w, at, rows, b->first, count, fresh);
    NAME(values)(a, w, at, rows, b->v, b->v_step, count, b->count, fresh);
}

/* Rows of `length` elements, `row` apart, times `scale`, one after another. */
RT_CLONES_FUSED static void NAME(take_rows)(const REAL *from, int64_t row, int64_t rows, int64_t length,
                                            REAL scale, REAL *to) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < length; j++) to[r * length + j] = from[r * row + j] * scale;
    }
}

/* Rows of `length` elements, `o_row` apart, each divided by its number, `row` apart. */
RT_CLONES_FUSED static void NAME(give_rows)(const REAL *o, int64_t o_row, const REAL *sum, int64_t rows,
                                            int64_t length, REAL *to, int64_t row) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < length; j++) to[r * row + j] = o[r * o_row + j] / sum[r];
    }
}

/* Queries [row, row + rows) of the chunk, scaled, before any key is seen; they are held from the first place on. */
static void NAME(begin)(const attention_job *job, const chunk *c, const NAME(worker) * w, int64_t row,
                        int64_t rows) {
    const rt_attention *a = job->attention;
    const REAL scale = (REAL)a->scale;
    for (int64_t r = 0, some; r < rows; r += some) {
        const int64_t index = c->first + row + r, h = c->group * a->shared + index / a->queries,
                      i = index % a->queries;
        const int64_t at = c->batch * a->q.batch + h * a->q.head + i * a->q.row;
        some = least(a->queries - i, rows - r); /* of one head */
        REAL *q = w->q + r * a->depth, largest = -(REAL)INFINITY;
        const REAL *from = (const REAL *)job->data->q + at;
        int64_t step = a->q.row;
        if (rt_is_half(a->dtype)) {
            for (int64_t j = 0; j < some; j++)
                NAME(load)(a->dtype, job->data->q, at + j * a->q.row, a->depth, q + j * a->depth);
            from = q;
            step = a->depth;
        }
#if TILES
        if (HAS_WIDE) take_rows_wide(from, step, some, a->depth, scale, q);
        else
#endif
            NAME(take_rows)(from, step, some, a->depth, scale, q);
        if (job->data->sinks) NAME(load)(a->dtype, job->data->sinks, h, 1, &largest);
        for (int64_t j = r; j < r + some; j++) {
            w->largest[j] = largest;
            w->sum[j] = largest == -(REAL)INFINITY ? 0 : 1;
        }
    }
}

/* After all keys: a query that has seen none has weights of zero. A score that is not a number is in the sum. */
static void NAME(settle)(const attention_job *job, const NAME(worker) * w, int64_t rows) {
    for (int64_t r = 0; r < rows && job->attention->unseen_zeros; r++) {
        if (w->largest[r] != -(REAL)INFINITY || w->sum[r] != 0) continue;
        w->largest[r] = 0;
        w->sum[r] = 1;
    }
}

/* The results of these queries, after all keys. */
static void NAME(end)(const attention_job *job, const chunk *c, const NAME(worker) * w, int64_t row,
                      int64_t rows) {
    const rt_attention *a = job->attention;
    for (int64_t r = 0, some; r < rows; r += some) {
        const int64_t index = c->first + row + r, h = c->group * a->shared + index / a->queries,
                      i = index % a->queries;
        const int64_t at = c->batch * a->y.batch + h * a->y.head + i * a->y.row;
        some = least(a->queries - i, rows - r);
        REAL *o = w->o + r * w->o_row, *to = (REAL *)job->data->y + at;
        int64_t step = a->y.row;
        if (rt_is_half(a->dtype)) {
            to = o;
            step = w->o_row;
        }
#if TILES
        if (HAS_WIDE) give_rows_wide(o, w->o_row, w->sum + r, some, a->width, to, step);
        else
#endif
            NAME(give_rows)(o, w->o_row, w->sum + r, some, a->width, to, step);
        if (!rt_is_half(a->dtype)) continue;
        for (int64_t j = 0; j < some; j++)
            NAME(store)(a->dtype, job->data->y, at + j * a->y.row, a->width, o + j * w->o_row);
    }
}

/* All keys are one block: it is packed once, and each part of the queries is done before the next one. */
static void NAME(attend_once)(const attention_job *job, const chunk *c, const NAME(worker) * w) {
    const bool weights = job->attention->scores == RT_SCORES_WEIGHTS;
    const NAME(block) b = NAME(block_of)(job, c, w, 0, false);
    for (int64_t row = 0; row < c->rows; row += w->part) {
        const int64_t rows = least(c->rows - row, w->part);
        NAME(begin)(job, c, w, row, rows);
        NAME(meet)(job, c, w, &b, row, rows, 0, false, true);
        NAME(settle)(job, w, rows);
        if (weights) NAME(meet)(job, c, w, &b, row, rows, 0, true, false);
        NAME(end)(job, c, w, row, rows);
    }
}

static void NAME(blocks)(const attention_job *job, const chunk *c, const NAME(worker) * w, bool again) {
    for (int64_t first = c->seen.low / BLOCK * BLOCK; first < c->seen.high; first += BLOCK) {
        const NAME(block) b = NAME(block_of)(job, c, w, first, again);
        for (int64_t row = 0; row < c->rows; row += w->part)
            NAME(meet)(job, c, w, &b, row, least(c->rows - row, w->part), row, again, false);
    }
}

static void NAME(attend)(const attention_job *job, const chunk *c, const NAME(worker) * w) {
    if (w->once) {
        NAME(attend_once)(job, c, w);
        return;
    }
    NAME(begin)(job, c, w, 0, c->rows);
    memset(w->o, 0, (size_t)(c->rows * w->o_row) * sizeof *w->o);
    NAME(blocks)(job, c, w, false);
    NAME(settle)(job, w, c->rows);
    if (job->attention->scores == RT_SCORES_WEIGHTS) NAME(blocks)(job, c, w, true);
    NAME(end)(job, c, w, 0, c->rows);
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
