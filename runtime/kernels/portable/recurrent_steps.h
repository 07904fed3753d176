/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_steps.h: the arithmetic of RNN, GRU and LSTM for one element type; recurrent.c includes it once
 * for float and once for double, with REAL, DTYPE and NAME(function) defined, DOTS, TANH, SIGMOID, EXP, LOG and ABS of that
 * type, and TILED where rt_tiles can be used.
 *
 * The inputs' part of all gates of all steps is one matrix product beforehand. In a step the state's part is added to
 * it, for all sequences of the batch together, then the gates are finished, a row at a time.
 *
 * Equations: ONNX operators RNN-14, GRU-14, LSTM-14. Gates stand in the order of the weights: LSTM i o f c,
 * GRU z r h.
 */

/* y (+)= R h: the rows of a matrix times a vector. From the last rows to the first, if so asked: one that goes through a
 * matrix to and fro finds what it has just read in the cache. */
static void NAME(multiply_vector)(REAL *y, const REAL *r, const REAL *h, int64_t rows, int64_t n, bool add,
                                  bool back) {
    enum { ROWS = 64 };
    for (int64_t done = 0; done < rows; done += ROWS) {
        const int64_t row = back ? (rows - 1 - done) / ROWS * ROWS : done;
        const int64_t count = rows - row < ROWS ? rows - row : ROWS;
        REAL sums[ROWS];
        DOTS(h, r + row * n, n, n, count, add ? sums : y + row);
        for (int64_t i = 0; add && i < count; i++) y[row + i] += sums[i];
    }
}

RT_CLONES static void NAME(activate)(const activation *f, REAL *x, int64_t n) {
    const REAL alpha = (REAL)f->alpha, beta = (REAL)f->beta;
    switch (f->kind) {
    case ACTIVATION_RELU:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
        return;
    case ACTIVATION_TANH:
        for (int64_t i = 0; i < n; i++) x[i] = TANH(x[i]);
        return;
    case ACTIVATION_SIGMOID:
        for (int64_t i = 0; i < n; i++) x[i] = SIGMOID(x[i]);
        return;
    case ACTIVATION_AFFINE:
        for (int64_t i = 0; i < n; i++) x[i] = alpha * x[i] + beta;
        return;
    case ACTIVATION_LEAKY_RELU:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] >= 0 ? x[i] : alpha * x[i];
        return;
    case ACTIVATION_THRESHOLDED_RELU:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] > alpha ? x[i] : 0;
        return;
    case ACTIVATION_SCALED_TANH:
        for (int64_t i = 0; i < n; i++) x[i] = alpha * TANH(beta * x[i]);
        return;
    case ACTIVATION_HARD_SIGMOID:
        for (int64_t i = 0; i < n; i++) {
            const REAL y = alpha * x[i] + beta;
            x[i] = y < 0 ? 0 : y > 1 ? 1 : y;
        }
        return;
    case ACTIVATION_ELU:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] >= 0 ? x[i] : alpha * (EXP(x[i]) - 1);
        return;
    case ACTIVATION_SOFTSIGN:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] / (1 + ABS(x[i]));
        return;
    case ACTIVATION_SOFTPLUS:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] + LOG(1 + EXP(-x[i])) : LOG(1 + EXP(x[i]));
        return;
    }
}

static void NAME(limit)(const recurrent *k, REAL *x, int64_t n) {
    const REAL clip = (REAL)k->clip;
    for (int64_t i = 0; k->has_clip && i < n; i++) x[i] = x[i] > clip ? clip : x[i] < -clip ? -clip : x[i];
}

/* One direction's tensors; a NULL weight is absent. */
typedef struct NAME(direction) {
    const recurrent *k;
    const activation *f; /* f, g, h */
    const REAL *w, *r, *wb, *rb, *p;
    const REAL *x;
    REAL *projected; /* a row of gates * hidden for each step and sequence, in the order of x */
    REAL *bias;      /* [gates * hidden] */
    REAL *spare;     /* [batch][hidden] */
    REAL *h, *c;     /* [batch][hidden] */
    bool back;       /* this step goes through R from the end */
    REAL *panels;    /* R as rt_tiles wants it, gate by gate; NULL: as it is */
    void *scratch;
#ifdef TILED
    /* With weights of bytes: how many steps the longest sequence has, whose inputs are quantised together; W and R, the codes of
     * what is multiplied by one of them (of all sequences), their scale; sums. */
    int64_t steps;
    rt_byte_weights byte_w, byte_r;
    int16_t *codes;
    float code_scale;
    int32_t *sums;
#endif
} NAME(direction);

#ifdef TILED
/* Rows of codes of all inputs times weights of bytes. */
typedef struct byte_projection {
    const NAME(direction) * d;
    int64_t rows;
    float scale;
} byte_projection;

/* Some of them, four at a time. */
static void project_bytes(void *context, int member, int members) {
    const byte_projection *of = context;
    const NAME(direction) *d = of->d;
    const int64_t wide = d->k->gates * d->k->hidden, fours = (of->rows + 3) / 4,
                  first = fours * member / members * 4;
    int64_t end = fours * (member + 1) / members * 4;
    if (end > of->rows) end = of->rows;
    const rt_dynamic_rows results = {d->projected + first * wide, wide, d->wb ? d->bias : NULL, 0};
    rt_dynamic_multiply(&d->byte_w, d->codes + first * d->k->input, of->scale, end - first, &results,
                        d->sums);
}
#endif

/* The inputs' part of all gates: x W^T + Wb, and Rb where nothing multiplies it. */
static void NAME(project)(const NAME(direction) * d, int threads) {
    const recurrent *k = d->k;
    const int64_t wide = k->gates * k->hidden;
    for (int64_t g = 0; g < wide && d->wb; g++) {
        bool apart = k->code == OP_GRU && k->linear_before_reset && g >= 2 * k->hidden;
        d->bias[g] = d->wb[g] + (apart ? 0 : d->rb[g]);
    }
#ifdef TILED
    if (k->bytes) {
        byte_projection of = {d, d->steps * k->batch, 0};
        of.scale = rt_dynamic_quantize(d->x, of.rows * k->input, d->codes);
        rt_dynamic_begin(&d->byte_w, d->sums);
        /* What is not packed may be multiplied in `sums`, of which there is one. */
        const double work = (double)of.rows * (double)k->input * (double)wide;
        rt_team_run(d->byte_w.packed && work >= RT_PARALLEL_WORK ? threads : 1, project_bytes, &of);
        rt_dynamic_begin(&d->byte_r, d->sums);
        return;
    }
#endif
    rt_product product = recurrent_projection(k, DTYPE, d->wb != NULL);
    rt_product_run(&product, threads, d->x, d->w, d->bias, d->projected, d->scratch);
}

/* `count` gates from `first` on of `rows` sequences: c (+)= h R^T. */
static void NAME(multiply)(const NAME(direction) * d, int64_t rows, const REAL *h, int64_t first,
                           int64_t count, REAL *c, int64_t c_row, bool add) {
    const int64_t n = d->k->hidden;
#ifdef TILED
    if (d->k->bytes) {
        const rt_dynamic_rows results = {c, c_row, add ? c : NULL, c_row};
        rt_dynamic_multiply(&d->byte_r, d->codes + (h - d->h), d->code_scale, rows, &results, d->sums);
        return;
    }
    for (int64_t g = 0; d->panels && rows == 1 && g < count; g++)
        multiply_panels(c + g * n, d->panels + (first + g) * d->k->panel_floats, h, n, add, d->back);
    for (int64_t g = 0; d->panels && rows > 1 && g < count; g++) {
        const rt_tiles tiles = {.rows = rows,
                                .columns = n,
                                .depth = n,
                                .a = h,
                                .a_row = n,
                                .a_depth = 1,
                                .panels = d->panels + (first + g) * d->k->panel_floats,
                                .c = c + g * n,
                                .c_row = c_row,
                                .add = add};
        rt_tiles_run(&tiles);
    }
    if (d->panels) return;
#endif
    if (rows == 1 || n == 0) {
        NAME(multiply_vector)(c, d->r + first * n * n, h, count * n, n, add, d->back);
        return;
    }
    /* Some rows of R at a time, which stay in the nearest cache for all sequences. */
    const int64_t near = NEAR_BYTES / (n * (int64_t)sizeof *h) / 4 * 4, each = near > 4 ? near : 4,
                  parts = (count * n + each - 1) / each;
    for (int64_t part = 0; part < parts; part++) {
        const int64_t from = (d->back ? parts - 1 - part : part) * each,
                      some = count * n - from < each ? count * n - from : each;
        for (int64_t row = 0; row < rows; row++) NAME(multiply_vector)
        (c + row * c_row + from, d->r + (first * n + from) * n, h + row * n, some, n, add, false);
    }
}

static void NAME(step_rnn)(const NAME(direction) * d, int64_t rows, REAL *x, int64_t x_row, REAL *h) {
    const recurrent *k = d->k;
    const int64_t n = k->hidden;
    NAME(multiply)(d, rows, h, 0, 1, x, x_row, true);
    for (int64_t row = 0; row < rows; row++, x += x_row, h += n) {
        NAME(limit)(k, x, n);
        NAME(activate)(&d->f[0], x, n);
        memcpy(h, x, (size_t)n * sizeof *h);
    }
}

static void NAME(step_gru)(const NAME(direction) * d, int64_t rows, REAL *x, int64_t x_row, REAL *h) {
    const recurrent *k = d->k;
    const int64_t n = k->hidden;
    NAME(multiply)(d, rows, h, 0, 2, x, x_row, true);
    if (k->linear_before_reset) NAME(multiply)(d, rows, h, 2, 1, d->spare, n, false);
    for (int64_t row = 0; row < rows; row++) {
        REAL *z = x + row * x_row, *reset = z + n, *fresh = z + 2 * n, *spare = d->spare + row * n;
        const REAL *state = h + row * n;
        NAME(limit)(k, z, 2 * n);
        NAME(activate)(&d->f[0], z, 2 * n);
        if (!k->linear_before_reset) {
            for (int64_t j = 0; j < n; j++) spare[j] = reset[j] * state[j];
        } else if (d->rb) {
            for (int64_t j = 0; j < n; j++) fresh[j] += reset[j] * (spare[j] + d->rb[2 * n + j]);
        } else {
            for (int64_t j = 0; j < n; j++) fresh[j] += reset[j] * spare[j];
        }
    }
    if (!k->linear_before_reset) NAME(multiply)(d, rows, d->spare, 2, 1, x + 2 * n, x_row, true);
    for (int64_t row = 0; row < rows; row++, x += x_row, h += n) {
        REAL *fresh = x + 2 * n;
        NAME(limit)(k, fresh, n);
        NAME(activate)(&d->f[1], fresh, n);
        for (int64_t j = 0; j < n; j++) h[j] = (1 - x[j]) * fresh[j] + x[j] * h[j];
    }
}

static void NAME(step_lstm)(const NAME(direction) * d, int64_t rows, REAL *x, int64_t x_row, REAL *h,
                            REAL *c) {
    const recurrent *k = d->k;
    const int64_t n = k->hidden;
    NAME(multiply)(d, rows, h, 0, 4, x, x_row, true);
    for (int64_t row = 0; row < rows; row++, x += x_row, h += n, c += n) {
        REAL *i = x, *o = x + n, *f = x + 2 * n, *fresh = x + 3 * n;
        for (int64_t j = 0; d->p && j < n; j++) {
            i[j] += d->p[j] * c[j];
            f[j] += d->p[2 * n + j] * c[j];
        }
        NAME(limit)(k, i, n);
        NAME(activate)(&d->f[0], i, n);
        if (k->input_forget) {
            for (int64_t j = 0; j < n; j++) f[j] = 1 - i[j];
        } else {
            NAME(limit)(k, f, n);
            NAME(activate)(&d->f[0], f, n);
        }
        NAME(limit)(k, fresh, n);
        NAME(activate)(&d->f[1], fresh, n);
        for (int64_t j = 0; j < n; j++) c[j] = f[j] * c[j] + i[j] * fresh[j];
        for (int64_t j = 0; d->p && j < n; j++) o[j] += d->p[n + j] * c[j];
        NAME(limit)(k, o, n);
        NAME(activate)(&d->f[0], o, n);
        memcpy(h, c, (size_t)n * sizeof *h);
        NAME(activate)(&d->f[2], h, n);
        for (int64_t j = 0; j < n; j++) h[j] *= o[j];
    }
}

static void NAME(step)(const NAME(direction) * d, int64_t first, int64_t rows, int64_t t) {
    const recurrent *k = d->k;
    const int64_t wide = k->gates * k->hidden, x_row = (k->batch_first ? k->sequence : 1) * wide;
    REAL *x = d->projected + (k->batch_first ? first * k->sequence + t : t * k->batch + first) * wide;
    REAL *h = d->h + first * k->hidden, *c = d->c + first * k->hidden;
    if (k->code == OP_LSTM) NAME(step_lstm)(d, rows, x, x_row, h, c);
    else if (k->code == OP_GRU) NAME(step_gru)(d, rows, x, x_row, h);
    else NAME(step_rnn)(d, rows, x, x_row, h);
}

static const REAL *NAME(part)(const op_tensor *inputs, const recurrent *k, uint32_t input, int64_t direction,
                              int64_t elements) {
    if (input >= k->inputs || inputs[input].type.dtype == OP_NONE) return NULL;
    return (const REAL *)inputs[input].data + direction * elements;
}

/* Step i of all sequences: its results go to `all`, where that is wanted. */
static void NAME(run_step)(NAME(direction) * d, int64_t i, int64_t direction, bool backward,
                           const int32_t *lengths, REAL *all) {
    const recurrent *k = d->k;
    const int64_t n = k->hidden;
#ifdef TILED
    if (k->bytes) d->code_scale = rt_dynamic_quantize(d->h, k->batch * n, d->codes);
#endif
    if (!lengths) NAME(step)(d, 0, k->batch, backward ? k->sequence - 1 - i : i);
    for (int64_t b = 0; b < k->batch && (lengths || all); b++) {
        const int64_t length = lengths ? lengths[b] : k->sequence,
                      t = i < length && backward ? length - 1 - i : i;
        if (lengths && i < length) NAME(step)(d, b, 1, t);
        if (!all) continue;
        const int64_t row = k->batch_first ? (b * k->sequence + t) * k->directions + direction
                                           : (t * k->directions + direction) * k->batch + b;
        if (i < length) memcpy(all + row * n, d->h + b * n, (size_t)n * sizeof *all);
        else memset(all + row * n, 0, (size_t)n * sizeof *all);
    }
}

/* All directions, or of two each by a thread of its own, with `each` bytes of scratch. */
typedef struct NAME(directions) {
    const rt_prepared *prepared;
    const op_tensor *inputs;
    op_tensor *outputs;
    const int32_t *lengths;
    char *scratch;
    size_t each;
} NAME(directions);

static void NAME(run_direction)(const NAME(directions) * of, int64_t direction, char *scratch, int threads) {
    const recurrent *k = of->prepared->state;
    const op_tensor *inputs = of->inputs;
    const int64_t n = k->hidden, wide = k->gates * n;
    NAME(direction) d = {.k = k, .x = inputs[0].data, .projected = (REAL *)(void *)scratch};
    d.bias = d.projected + k->sequence * k->batch * wide;
    d.spare = d.bias + wide;
    d.h = d.spare + k->batch * n;
    d.c = d.h + k->batch * n;
    char *rest = scratch + k->state_bytes;
    d.scratch = rest + k->panel_bytes;
    const bool backward = k->reverse || direction == 1;
    d.f = &k->activations[3 * direction];
#ifdef TILED
    if (k->panel_bytes) d.panels = (REAL *)(void *)rest;
    if (k->bytes) {
        d.steps = of->lengths ? 0 : k->sequence;
        for (int64_t b = 0; of->lengths && b < k->batch; b++)
            d.steps = of->lengths[b] > d.steps ? of->lengths[b] : d.steps;
        d.codes = (int16_t *)(void *)rest;
        d.sums = (int32_t *)(void *)(rest + k->code_bytes);
        d.byte_w = byte_weights(k, inputs, 1, direction);
        d.byte_r = byte_weights(k, inputs, 2, direction);
    }
#endif
    d.w = k->bytes ? NULL : NAME(part)(inputs, k, 1, direction, wide * k->input);
    d.r = k->bytes ? NULL : NAME(part)(inputs, k, 2, direction, wide * n);
    d.wb = NAME(part)(inputs, k, 3, direction, 2 * wide);
    d.rb = d.wb ? d.wb + wide : NULL;
    d.p = NAME(part)(inputs, k, 7, direction, 3 * n);
    NAME(project)(&d, threads);
#ifdef TILED
    if (d.panels) pack_panels(k, d.r, d.panels);
#endif
    const REAL *h0 = NAME(part)(inputs, k, 5, 0, 0), *c0 = NAME(part)(inputs, k, 6, 0, 0);
    for (int64_t b = 0; b < k->batch; b++) {
        int64_t state = (k->batch_first ? b * k->directions + direction : direction * k->batch + b) * n;
        for (int64_t j = 0; j < n; j++) {
            d.h[b * n + j] = h0 ? h0[state + j] : 0;
            d.c[b * n + j] = c0 ? c0[state + j] : 0;
        }
    }
    REAL *all = k->outputs > 0 && of->outputs[0].type.dtype != OP_NONE ? of->outputs[0].data : NULL;
    for (int64_t i = 0; i < k->sequence; i++) {
        d.back = i % 2;
        NAME(run_step)(&d, i, direction, backward, of->lengths, all);
    }
    for (uint32_t o = 1; o < k->outputs; o++) {
        if (of->outputs[o].type.dtype == OP_NONE) continue;
        for (int64_t b = 0; b < k->batch; b++) {
            int64_t state = (k->batch_first ? b * k->directions + direction : direction * k->batch + b) * n;
            memcpy((REAL *)of->outputs[o].data + state, (o == 1 ? d.h : d.c) + b * n,
                   (size_t)n * sizeof(REAL));
        }
    }
}

static void NAME(member)(void *context, int member, int members) {
    const NAME(directions) *of = context;
    const recurrent *k = of->prepared->state;
    for (int64_t direction = member; direction < k->directions; direction += members) NAME(run_direction)
    (of, direction, of->scratch + (size_t)member * of->each, members > 1 ? 1 : of->prepared->threads);
}

static base_status NAME(run)(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    const recurrent *k = prepared->state;
    const int32_t *lengths;
    const base_status status =
        rt_sequence_lengths(inputs, k->inputs, k->batch, k->sequence, &lengths, report);
    if (status) return status;
    NAME(directions) of = {prepared, inputs, outputs, lengths, scratch, k->direction_bytes};
    rt_team_run(k->direction_bytes ? prepared->threads : 1, NAME(member), &of);
    return BASE_OK;
}
