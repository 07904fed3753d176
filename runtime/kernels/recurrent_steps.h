/* recurrent_steps.h: the arithmetic of RNN, GRU and LSTM for one element type; recurrent.c includes it once
 * for float and once for double, with REAL and NAME(function) defined, and TANH, EXP, LOG, ABS of that type.
 *
 * Equations: ONNX operators RNN-14, GRU-14, LSTM-14. Gates stand in the order of the weights: LSTM i o f c,
 * GRU z r h.
 */

/* Lanes are summed apart and then in order, so that the sum is the same whatever vectors the machine has. */
static REAL NAME(dot)(const REAL *a, const REAL *b, int64_t count) {
    enum { LANES = 16 };
    REAL lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int k = 0; k < LANES; k++) lanes[k] += a[i + k] * b[i + k];
    }
    for (; i < count; i++) sum += a[i] * b[i];
    for (int k = 0; k < LANES; k++) sum += lanes[k];
    return sum;
}

static REAL NAME(activate)(const activation *f, REAL x) {
    REAL alpha = (REAL)f->alpha, beta = (REAL)f->beta;
    switch (f->kind) {
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_TANH:
        return TANH(x);
    case ACTIVATION_SIGMOID:
        return 1 / (1 + EXP(-x));
    case ACTIVATION_AFFINE:
        return alpha * x + beta;
    case ACTIVATION_LEAKY_RELU:
        return x >= 0 ? x : alpha * x;
    case ACTIVATION_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    case ACTIVATION_SCALED_TANH:
        return alpha * TANH(beta * x);
    case ACTIVATION_HARD_SIGMOID: {
        REAL y = alpha * x + beta;
        return y < 0 ? 0 : y > 1 ? 1 : y;
    }
    case ACTIVATION_ELU:
        return x >= 0 ? x : alpha * (EXP(x) - 1);
    case ACTIVATION_SOFTSIGN:
        return x / (1 + ABS(x));
    case ACTIVATION_SOFTPLUS:
        return x > 0 ? x + LOG(1 + EXP(-x)) : LOG(1 + EXP(x));
    }
    return x;
}

static REAL NAME(limit)(const recurrent *k, REAL x) {
    if (!k->has_clip) return x;
    REAL clip = (REAL)k->clip;
    return x > clip ? clip : x < -clip ? -clip : x;
}

/* One direction's tensors; a NULL weight is absent. */
typedef struct NAME(direction) {
    const recurrent *k;
    const activation *f; /* f, g, h */
    const REAL *w, *r, *wb, *rb, *p;
    const REAL *x;
    REAL *projected; /* [sequence][batch][gates * hidden]: the inputs' part of the gates */
    REAL *gates;     /* [gates * hidden] */
    REAL *reset;     /* [hidden], GRU */
    REAL *h, *c;     /* [batch][hidden] */
} NAME(direction);

/* Rows [begin, end) of projected: x W^T + Wb, and Rb where nothing multiplies it. */
static void NAME(project)(void *context, int64_t begin, int64_t end) {
    const NAME(direction) *d = context;
    const recurrent *k = d->k;
    int64_t wide = k->gates * k->hidden;
    for (int64_t row = begin; row < end; row++) {
        int64_t t = row / k->batch, b = row % k->batch;
        const REAL *x = d->x + (k->batch_first ? b * k->sequence + t : row) * k->input;
        REAL *y = d->projected + row * wide;
        for (int64_t g = 0; g < wide; g++) {
            bool apart = k->code == OP_GRU && k->linear_before_reset && g >= 2 * k->hidden;
            y[g] = NAME(dot)(x, d->w + g * k->input, k->input);
            if (d->wb) y[g] += d->wb[g] + (apart ? 0 : d->rb[g]);
        }
    }
}

static void NAME(step_rnn)(const NAME(direction) * d, const REAL *x, REAL *h) {
    const recurrent *k = d->k;
    for (int64_t j = 0; j < k->hidden; j++) {
        REAL sum = x[j] + NAME(dot)(h, d->r + j * k->hidden, k->hidden);
        d->gates[j] = NAME(activate)(&d->f[0], NAME(limit)(k, sum));
    }
    memcpy(h, d->gates, (size_t)k->hidden * sizeof *h);
}

static void NAME(step_gru)(const NAME(direction) * d, const REAL *x, REAL *h) {
    const recurrent *k = d->k;
    int64_t n = k->hidden;
    REAL *z = d->gates, *reset = d->gates + n, *fresh = d->gates + 2 * n;
    for (int64_t j = 0; j < 2 * n; j++) {
        REAL sum = x[j] + NAME(dot)(h, d->r + j * n, n);
        d->gates[j] = NAME(activate)(&d->f[0], NAME(limit)(k, sum));
    }
    for (int64_t j = 0; j < n; j++) d->reset[j] = reset[j] * h[j];
    for (int64_t j = 2 * n; j < 3 * n; j++) {
        REAL sum = x[j];
        if (k->linear_before_reset) {
            sum += reset[j - 2 * n] * (NAME(dot)(h, d->r + j * n, n) + (d->rb ? d->rb[j] : 0));
        } else {
            sum += NAME(dot)(d->reset, d->r + j * n, n);
        }
        d->gates[j] = NAME(activate)(&d->f[1], NAME(limit)(k, sum));
    }
    for (int64_t j = 0; j < n; j++) h[j] = (1 - z[j]) * fresh[j] + z[j] * h[j];
}

static void NAME(step_lstm)(const NAME(direction) * d, const REAL *x, REAL *h, REAL *c) {
    const recurrent *k = d->k;
    int64_t n = k->hidden;
    for (int64_t j = 0; j < 4 * n; j++) d->gates[j] = x[j] + NAME(dot)(h, d->r + j * n, n);
    for (int64_t j = 0; j < n; j++) {
        REAL i = d->gates[j], o = d->gates[n + j], f = d->gates[2 * n + j], fresh = d->gates[3 * n + j];
        if (d->p) {
            i += d->p[j] * c[j];
            f += d->p[2 * n + j] * c[j];
        }
        i = NAME(activate)(&d->f[0], NAME(limit)(k, i));
        f = k->input_forget ? 1 - i : NAME(activate)(&d->f[0], NAME(limit)(k, f));
        fresh = NAME(activate)(&d->f[1], NAME(limit)(k, fresh));
        c[j] = f * c[j] + i * fresh;
        if (d->p) o += d->p[n + j] * c[j];
        o = NAME(activate)(&d->f[0], NAME(limit)(k, o));
        h[j] = o * NAME(activate)(&d->f[2], c[j]);
    }
}

static const REAL *NAME(part)(const op_tensor *inputs, const recurrent *k, uint32_t input, int64_t direction,
                              int64_t elements) {
    if (input >= k->inputs || inputs[input].type.dtype == OP_NONE) return NULL;
    return (const REAL *)inputs[input].data + direction * elements;
}

static base_status NAME(run)(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    const recurrent *k = prepared->state;
    int64_t n = k->hidden, wide = k->gates * n;
    const int32_t *lengths = k->inputs > 4 && inputs[4].type.dtype != OP_NONE ? inputs[4].data : NULL;
    for (int64_t b = 0; lengths && b < k->batch; b++) {
        if (lengths[b] < 0 || lengths[b] > k->sequence) {
            return base_fail(report, BASE_INVALID, "sequence length %d of batch %lld is outside 0 to %lld",
                             (int)lengths[b], (long long)b, (long long)k->sequence);
        }
    }
    REAL *memory = scratch;
    NAME(direction) d = {.k = k, .x = inputs[0].data, .projected = memory};
    d.gates = d.projected + k->sequence * k->batch * wide;
    d.reset = d.gates + wide;
    d.h = d.reset + n;
    d.c = d.h + k->batch * n;
    REAL *all = k->outputs > 0 && outputs[0].type.dtype != OP_NONE ? outputs[0].data : NULL;
    for (int64_t direction = 0; direction < k->directions; direction++) {
        bool backward = k->reverse || direction == 1;
        d.f = &k->activations[3 * direction];
        d.w = NAME(part)(inputs, k, 1, direction, wide * k->input);
        d.r = NAME(part)(inputs, k, 2, direction, wide * n);
        d.wb = NAME(part)(inputs, k, 3, direction, 2 * wide);
        d.rb = d.wb ? d.wb + wide : NULL;
        d.p = NAME(part)(inputs, k, 7, direction, 3 * n);
        rt_parallel(prepared->threads, k->sequence * k->batch, wide * k->input, NAME(project), &d);
        for (int64_t b = 0; b < k->batch; b++) {
            int64_t state = (k->batch_first ? b * k->directions + direction : direction * k->batch + b) * n;
            REAL *h = d.h + b * n, *c = d.c + b * n;
            const REAL *h0 = NAME(part)(inputs, k, 5, 0, 0), *c0 = NAME(part)(inputs, k, 6, 0, 0);
            if (h0) memcpy(h, h0 + state, (size_t)n * sizeof *h);
            else memset(h, 0, (size_t)n * sizeof *h);
            if (c0) memcpy(c, c0 + state, (size_t)n * sizeof *c);
            else memset(c, 0, (size_t)n * sizeof *c);
            int64_t length = lengths ? lengths[b] : k->sequence;
            for (int64_t i = 0; i < k->sequence; i++) {
                int64_t t = i < length && backward ? length - 1 - i : i;
                const REAL *x = d.projected + (t * k->batch + b) * wide;
                if (i < length) {
                    if (k->code == OP_LSTM) NAME(step_lstm)(&d, x, h, c);
                    else if (k->code == OP_GRU) NAME(step_gru)(&d, x, h);
                    else NAME(step_rnn)(&d, x, h);
                }
                if (!all) continue;
                int64_t row = k->batch_first ? (b * k->sequence + t) * k->directions + direction
                                             : (t * k->directions + direction) * k->batch + b;
                if (i < length) memcpy(all + row * n, h, (size_t)n * sizeof *h);
                else memset(all + row * n, 0, (size_t)n * sizeof *h);
            }
            for (uint32_t o = 1; o < k->outputs; o++) {
                if (outputs[o].type.dtype == OP_NONE) continue;
                memcpy((REAL *)outputs[o].data + state, o == 1 ? h : c, (size_t)n * sizeof *h);
            }
        }
    }
    return BASE_OK;
}
