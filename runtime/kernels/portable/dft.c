/* SPDX-License-Identifier: Apache-2.0 */
/* dft.c: DFT and STFT, computed in double.
 *
 * Where the length is known when a session is made, lines are transformed as fourier.h does it, several at once; a real line of even
 * length as a complex one of half the length. Any other is summed up bin by bin.
 */
#include "runtime/kernels/portable/fourier.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    TOGETHER = 8,
    BLOCK = 16 /* elements of lines together that are read or written at a time */,
    WORK_BYTES = 1 << 18 /* of lines together; one line may need more */
};

static bool accepts_real(const op_call *call, const rt_environment *environment) {
    (void)environment;
    op_dtype dtype = call->inputs[0].type.dtype;
    return rt_accepts_row_major(call) && (dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype));
}

typedef struct dft_state {
    int64_t outer, extent, inner, bins, parts; /* parts: 1 real, 2 complex */
    bool inverse, onesided;
    const rt_fourier *fourier; /* NULL: the length is not known yet */
    int64_t length;            /* that it was made for; half of it where `halved` */
    bool halved;
    const double *cosines, *sines; /* exp(-2 pi i k / length), where halved: length / 2 + 1 of them */
    int64_t together;              /* lines */
    size_t member_doubles;         /* scratch of a thread */
} dft_state;

/* Lines to transform: where they begin, and the elements between neighbours of a line. */
typedef struct dft_lines {
    int64_t per; /* lines in a row, of which there may be several */
    int64_t from_row, from_line, from_step, to_row, to_line, to_step;
} dft_lines;

typedef struct dft_run {
    const dft_state *state;
    const op_tensor *input, *window; /* window: NULL where there is none */
    op_tensor *output;
    dft_lines lines;
    int64_t count, length, samples, bins; /* lines; of a line */
    double *scratch;
} dft_run;

/* bins[k] = sum over t of line[t] * window[t] * exp(-+ 2 pi i k t / length); `step` elements from t to t + 1. */
static void transform(op_dtype dtype, const void *line, int64_t first, int64_t step, int64_t parts,
                      int64_t samples, const op_tensor *window, int64_t length, bool inverse, int64_t k,
                      double *real, double *imaginary) {
    const double turn = 6.283185307179586476925286766559 * (inverse ? 1 : -1) / (double)length;
    *real = *imaginary = 0;
    for (int64_t t = 0; t < samples && t < length; t++) {
        double x = rt_element_load(dtype, line, (first + t * step) * parts),
               y = parts == 2 ? rt_element_load(dtype, line, (first + t * step) * parts + 1) : 0;
        if (window) {
            double w = rt_element_load(window->type.dtype, window->data, t);
            x *= w;
            y *= w;
        }
        /* k t modulo the length first: angles stay small, and exact. */
        double angle = turn * (double)((int64_t)((uint64_t)k * (uint64_t)t % (uint64_t)length));
        double c = cos(angle), s = sin(angle);
        *real += x * c - y * s;
        *imaginary += x * s + y * c;
    }
    if (inverse) {
        *real /= (double)length;
        *imaginary /= (double)length;
    }
}

static int64_t scalar_at(const op_tensor *tensor) {
    return tensor->type.dtype == OP_INT64 ? *(const int64_t *)tensor->data : *(const int32_t *)tensor->data;
}

/* Element `at` of the whole spectrum of a real signal, of which the first half (and the middle) is stored. */
static double restore(const op_tensor *tensor, const dft_state *s, int64_t first, int64_t length, int64_t t) {
    double sum = 0;
    const double turn = 6.283185307179586476925286766559 / (double)length;
    for (int64_t k = 0; k < length; k++) {
        const bool mirrored = k > length / 2;
        const int64_t from = mirrored ? length - k : k;
        if (from >= s->extent) continue;
        const int64_t at = (first + from * s->inner) * s->parts;
        const double x = rt_element_load(tensor->type.dtype, tensor->data, at);
        const double y = s->parts == 2 ? rt_element_load(tensor->type.dtype, tensor->data, at + 1) : 0;
        const double angle = turn * (double)((int64_t)((uint64_t)k * (uint64_t)t % (uint64_t)length));
        sum += x * cos(angle) - (mirrored ? -y : y) * sin(angle);
    }
    return sum / (double)length;
}

/* ---- lines together ------------------------------------------------------------------------------------- */

/* `count` elements that lie `step` apart, to places that lie `apart` doubles apart. */
static void read_line(op_dtype dtype, const void *data, int64_t first, int64_t step, int64_t count,
                      double *to, int64_t apart) {
    if (dtype == OP_FLOAT) {
        const float *from = (const float *)data + first;
        for (int64_t t = 0; t < count; t++) to[t * apart] = (double)from[t * step];
    } else {
        for (int64_t t = 0; t < count; t++) to[t * apart] = rt_element_load(dtype, data, first + t * step);
    }
}

/* Pairs of floats as the real and imaginary parts of `count` numbers, and back: each divided by the divisor. */
RT_CLONES static void part_pairs(const float *pairs, int64_t count, double *real, double *imaginary) {
    for (int64_t i = 0; i < count; i++) {
        real[i] = (double)pairs[2 * i];
        imaginary[i] = (double)pairs[2 * i + 1];
    }
}

RT_CLONES static void join_pairs(const double *real, const double *imaginary, int64_t count, double factor,
                                 double divisor, float *pairs) {
    if (factor != 0) {
        for (int64_t i = 0; i < count; i++) {
            pairs[2 * i] = (float)(real[i] * factor);
            pairs[2 * i + 1] = (float)(imaginary[i] * factor);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        pairs[2 * i] = (float)(real[i] / divisor);
        pairs[2 * i + 1] = (float)(imaginary[i] / divisor);
    }
}

/* 1 / divisor where a product by it is the quotient, to the bit; else 0. */
static double exact_factor(double divisor) {
    int exponent;
    return frexp(divisor, &exponent) == 0.5 ? 1.0 / divisor : 0.0;
}

/* Do lines lie side by side? */
static bool are_neighbours(const int64_t *first, int64_t count) {
    for (int64_t l = 1; l < count; l++)
        if (first[l] != first[0] + l) return false;
    return true;
}

/* `count` pairs of floats of each line, the first ones at from + first[line] * unit, those of a line `step` floats apart. */
static void read_pairs(const float *from, const int64_t *first, int64_t unit, int64_t step, int64_t lines,
                       int64_t count, double *real, double *imaginary) {
    float pairs[BLOCK * TOGETHER * 2];
    const bool together = unit == 2 && are_neighbours(first, lines);
    for (int64_t t = 0; t < count; t += BLOCK) {
        const int64_t some = count - t < BLOCK ? count - t : BLOCK;
        for (int64_t i = 0; together && i < some; i++)
            memcpy(pairs + 2 * i * lines, from + first[0] * 2 + (t + i) * step,
                   2 * (size_t)lines * sizeof *pairs);
        for (int64_t l = 0; !together && l < lines; l++) {
            const float *line = from + first[l] * unit + t * step;
            for (int64_t i = 0; i < some; i++)
                memcpy(pairs + 2 * (i * lines + l), line + i * step, 2 * sizeof *pairs);
        }
        part_pairs(pairs, some * lines, real + t * lines, imaginary + t * lines);
    }
}

/* The lines from `begin` on into the work of a transform; of the way back with real and imaginary parts exchanged. */
static void read_lines(const dft_run *run, const int64_t *first, int64_t count, const double *window,
                       double *work) {
    const dft_state *s = run->state;
    const op_dtype dtype = run->input->type.dtype;
    const void *data = run->input->data;
    const int64_t plane = rt_fourier_size(s->fourier) * count, step = run->lines.from_step;
    const int64_t samples = run->samples, half = s->halved ? run->length / 2 : run->length;
    const bool back = s->inverse && !s->halved;
    double *const real = back ? work + plane : work, *const imaginary = back ? work : work + plane;
    const bool pairs = dtype == OP_FLOAT && (s->halved ? step == 1 : s->parts == 2);
    const int64_t whole = s->halved ? samples / 2 : samples; /* pairs of a line, or elements */
    for (int64_t t = (pairs ? whole : 0) * count; t < half * count; t++) real[t] = imaginary[t] = 0.0;
    if (pairs) read_pairs(data, first, s->parts, s->halved ? 2 : 2 * step, count, whole, real, imaginary);
    for (int64_t l = 0; l < count; l++) {
        if (pairs) {
            if (s->halved && samples % 2)
                read_line(dtype, data, first[l] + samples - 1, 1, 1, real + whole * count + l, count);
        } else if (s->halved) {
            read_line(dtype, data, first[l], 2 * step, (samples + 1) / 2, real + l, count);
            read_line(dtype, data, first[l] + step, 2 * step, samples / 2, imaginary + l, count);
        } else {
            read_line(dtype, data, first[l] * s->parts, step * s->parts, samples, real + l, count);
            if (s->parts == 2)
                read_line(dtype, data, first[l] * s->parts + 1, step * s->parts, samples, imaginary + l,
                          count);
        }
    }
    /* The half of the spectrum that is not stored. */
    for (int64_t k = 1; s->inverse && s->onesided && k < run->length - k; k++) {
        for (int64_t l = 0; l < count; l++) {
            real[(run->length - k) * count + l] = real[k * count + l];
            imaginary[(run->length - k) * count + l] = -imaginary[k * count + l];
        }
    }
    for (int64_t t = 0; window && t < samples; t++) {
        const int64_t at = s->halved ? t / 2 : t;
        for (int64_t l = 0; l < count; l++) {
            if (!s->halved || t % 2 == 0) real[at * count + l] *= window[t];
            if (!s->halved || t % 2 == 1) imaginary[at * count + l] *= window[t];
        }
    }
}

/* Bins of the lines, `bins` of them from k on, or down from it: by bin, by line. */
static void write_bins(const dft_run *run, const int64_t *first, int64_t count, int64_t k, int64_t bins,
                       bool down, const double *real, const double *imaginary) {
    const dft_state *s = run->state;
    const op_dtype dtype = run->output->type.dtype;
    const bool real_alone = s->inverse && s->onesided;
    const int64_t step = down ? -run->lines.to_step : run->lines.to_step, at = k * run->lines.to_step;
    const double divisor = s->inverse ? (double)run->length : 1.0;
    if (dtype != OP_FLOAT) {
        for (int64_t i = 0; i < bins * count; i++) {
            const int64_t to = first[i % count] + at + i / count * step;
            rt_element_store(dtype, run->output->data, real_alone ? to : 2 * to, real[i] / divisor);
            if (!real_alone) rt_element_store(dtype, run->output->data, 2 * to + 1, imaginary[i] / divisor);
        }
        return;
    }
    float pairs[BLOCK * TOGETHER * 2], *const to = (float *)run->output->data;
    const bool together = !real_alone && are_neighbours(first, count);
    join_pairs(real, imaginary, bins * count, exact_factor(divisor), divisor, pairs);
    for (int64_t i = 0; together && i < bins; i++)
        memcpy(to + 2 * (first[0] + at + i * step), pairs + 2 * i * count, 2 * (size_t)count * sizeof *pairs);
    for (int64_t l = 0; !together && l < count; l++) {
        const int64_t line = first[l] + at;
        const float *from = pairs + 2 * l;
        for (int64_t i = 0; i < bins; i++, from += 2 * count) {
            if (real_alone) to[line + i * step] = from[0];
            else memcpy(to + 2 * (line + i * step), from, 2 * sizeof *from);
        }
    }
}

/* Real lines of even length were transformed as complex ones of half the length, even elements as real parts, odd ones as imaginary ones:
 * with Z that transform, and M its element at the mirrored place, the spectra of the even and of the odd elements are (Z + conj M) / 2 and
 * (Z - conj M) / 2i. */
RT_CLONES static void part_halves(const double *z, const double *m, int64_t plane, int64_t count, double c,
                                  double d, double sign, double *real, double *imaginary, double *mirrored) {
    for (int64_t l = 0; l < count; l++) {
        const double zr = z[l], zi = z[plane + l], mr = m[l], mi = m[plane + l];
        const double er = 0.5 * (zr + mr), ei = 0.5 * (zi - mi), dr = 0.5 * (zi + mi), di = 0.5 * (mr - zr);
        real[l] = er + (dr * c - di * d);
        imaginary[l] = sign * (ei + (dr * d + di * c));
        mirrored[l] = -imaginary[l];
    }
}

static void write_halved(const dft_run *run, const int64_t *first, int64_t count, const double *made) {
    const dft_state *s = run->state;
    const int64_t half = run->length / 2, plane = rt_fourier_size(s->fourier) * count;
    double real[BLOCK * TOGETHER], imaginary[BLOCK * TOGETHER], mirrored[BLOCK * TOGETHER];
    for (int64_t k = 0; k <= half; k += BLOCK) {
        const int64_t some = half + 1 - k < BLOCK ? half + 1 - k : BLOCK;
        for (int64_t i = 0; i < some; i++)
            part_halves(made + (k + i) % half * count, made + (half - k - i) % half * count, plane, count,
                        s->cosines[k + i], s->sines[k + i], s->inverse ? -1.0 : 1.0, real + i * count,
                        imaginary + i * count, mirrored + i * count);
        const int64_t stored = run->bins - k < some ? run->bins - k : some;
        if (stored > 0) write_bins(run, first, count, k, stored, false, real, imaginary);
        /* Bins length - k, and those before it, of k in (0, half). */
        const int64_t from = k ? 0 : 1, end = half - k < some ? half - k : some,
                      last = run->length - k - from;
        if (from < end && last < run->bins)
            write_bins(run, first, count, last, end - from, true, real + from * count,
                       mirrored + from * count);
    }
}

/* Groups of lines from `begin` on. */
static void run_groups(const dft_run *run, int64_t begin, int64_t end, double *work) {
    const dft_state *s = run->state;
    const dft_lines *lines = &run->lines;
    double *window = NULL;
    if (run->window) {
        window = work + rt_fourier_work(s->fourier, s->together);
        read_line(run->window->type.dtype, run->window->data, 0, 1, run->length, window, 1);
    }
    for (int64_t group = begin; group < end; group++) {
        const int64_t line = group * s->together, rest = run->count - line;
        const int64_t count = rest < s->together ? rest : s->together;
        int64_t from[TOGETHER], to[TOGETHER];
        for (int64_t l = 0; l < count; l++) {
            const int64_t row = (line + l) / lines->per, column = (line + l) % lines->per;
            from[l] = row * lines->from_row + column * lines->from_line;
            to[l] = row * lines->to_row + column * lines->to_line;
        }
        read_lines(run, from, count, window, work);
        const double *made = rt_fourier_run(s->fourier, count, work);
        if (s->halved) {
            write_halved(run, to, count, made);
            continue;
        }
        const int64_t plane = rt_fourier_size(s->fourier) * count;
        const double *const real = s->inverse ? made + plane : made, *const imaginary =
                                                                         s->inverse ? made : made + plane;
        for (int64_t k = 0; k < run->bins; k += BLOCK)
            write_bins(run, to, count, k, run->bins - k < BLOCK ? run->bins - k : BLOCK, false,
                       real + k * count, imaginary + k * count);
    }
}

static int64_t groups_of(const dft_run *run) {
    return (run->count + run->state->together - 1) / run->state->together;
}

static void run_member(void *user, int member, int members) {
    const dft_run *run = user;
    const int64_t groups = groups_of(run);
    run_groups(run, groups * member / members, groups * (member + 1) / members,
               run->scratch + (size_t)member * run->state->member_doubles);
}

static void run_together(dft_run *run, int threads) {
    if (threads > 1 && run->count * run->length * 16 >= RT_PARALLEL_WORK)
        rt_team_run(threads, run_member, run);
    else run_groups(run, 0, groups_of(run), run->scratch);
}

/* Tables and scratch for transforms of the length; `lines`: how many there will be. */
static base_status prepare_length(dft_state *s, int64_t length, int64_t lines, bool windowed,
                                  base_arena *arena, rt_prepared *prepared, base_report *report) {
    if (length < 1 || length > RT_FOURIER_LONGEST) return BASE_OK;
    s->halved = s->parts == 1 && length % 2 == 0 && !(s->inverse && s->onesided);
    s->length = length;
    rt_fourier *fourier = rt_fourier_new(s->halved ? length / 2 : length, arena);
    if (!fourier) return base_fail_memory(report);
    if (s->halved) {
        const int64_t count = length / 2 + 1;
        double *table = rt_arena_aligned(arena, 2 * (size_t)count * sizeof *table);
        if (!table) return base_fail_memory(report);
        for (int64_t k = 0; k < count; k++) {
            const double angle = 6.283185307179586476925286766559 * (double)k / (double)length;
            table[k] = cos(angle);
            table[count + k] = -sin(angle);
        }
        s->cosines = table;
        s->sines = table + count;
    }
    const int64_t one = rt_fourier_work(fourier, 1);
    for (s->together = TOGETHER;
         s->together > 1 &&
         (s->together / 2 >= lines || s->together * one > WORK_BYTES / (int64_t)sizeof(double));)
        s->together /= 2;
    const int64_t doubles = s->together * one + (windowed ? length : 0);
    s->member_doubles = (size_t)(doubles + 7) / 8 * 8;
    if (!base_size_multiply(s->member_doubles, sizeof(double) * (size_t)prepared->threads,
                            &prepared->scratch_bytes))
        return base_fail_memory(report);
    s->fourier = fourier;
    return BASE_OK;
}

/* ---- DFT ------------------------------------------------------------------------------------------------ */

/* The extents around the axis that input 2 names; the last signal axis where it is absent. */
static base_status find_dft_axis(const op_tensor *inputs, uint32_t count, const op_shape *to, dft_state *s,
                                 base_report *report) {
    const op_shape *from = &inputs[0].type.shape;
    int32_t axis = from->rank - 2;
    if (count > 2 && inputs[2].type.dtype != OP_NONE &&
        (!op_axis(scalar_at(&inputs[2]), from->rank, &axis) || axis == from->rank - 1)) {
        return base_fail(report, BASE_INVALID, "input 2 names axis %" PRId64 ", expected one before the last",
                         scalar_at(&inputs[2]));
    }
    s->outer = s->inner = 1;
    for (int32_t d = 0; d < axis; d++) s->outer *= from->dims[d];
    for (int32_t d = axis + 1; d < from->rank - 1; d++) s->inner *= from->dims[d];
    s->extent = from->dims[axis];
    s->bins = to->dims[axis];
    for (int32_t d = 0; d < from->rank - 1; d++) {
        if (d != axis && from->dims[d] != to->dims[d])
            return base_fail(report, BASE_INVALID, "input 2 names another axis than the result was made for");
    }
    return BASE_OK;
}

static base_status run_dft(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    dft_state found = *(const dft_state *)prepared->state;
    const dft_state *s = &found;
    base_status status = find_dft_axis(inputs, prepared->input_count, &outputs[0].type.shape, &found, report);
    if (status != BASE_OK) return status;
    /* Both lengths 2 b - 2 and 2 b - 1 have b bins: the signal's, or the one that is given, says which. */
    int64_t length = s->onesided && s->inverse ? 2 * (s->extent - 1) : s->extent;
    if (prepared->input_count > 1 && inputs[1].type.dtype != OP_NONE) length = scalar_at(&inputs[1]);
    if (length < (s->extent > 0 ? 1 : 0) ||
        (s->onesided && !s->inverse ? length / 2 + 1 : length) != s->bins) {
        return base_fail(report, BASE_INVALID,
                         "a transform of length %" PRId64 " does not have %" PRId64 " bins", length, s->bins);
    }
    if (s->fourier && s->length == length) {
        dft_run run = {
            .state = s,
            .input = &inputs[0],
            .output = &outputs[0],
            .lines = {s->inner, s->extent * s->inner, 1, s->inner, s->bins * s->inner, 1, s->inner},
            .count = s->outer * s->inner,
            .length = length,
            .samples = s->extent < length ? s->extent : length,
            .bins = s->bins,
            .scratch = scratch,
        };
        run_together(&run, prepared->threads);
        return BASE_OK;
    }
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t i = 0; i < s->inner; i++) {
            const int64_t first = o * s->extent * s->inner + i;
            for (int64_t k = 0; k < s->bins; k++) {
                double real, imaginary;
                const int64_t to = (o * s->bins + k) * s->inner + i;
                if (s->onesided && s->inverse) {
                    rt_element_store(outputs[0].type.dtype, outputs[0].data, to,
                                     restore(&inputs[0], s, first, length, k));
                    continue;
                }
                transform(inputs[0].type.dtype, inputs[0].data, first, s->inner, s->parts, s->extent, NULL,
                          length, s->inverse, k, &real, &imaginary);
                rt_element_store(outputs[0].type.dtype, outputs[0].data, 2 * to, real);
                rt_element_store(outputs[0].type.dtype, outputs[0].data, 2 * to + 1, imaginary);
            }
        }
    }
    return BASE_OK;
}

static base_status prepare_dft(const op_call *call, const rt_environment *environment, base_arena *arena,
                               rt_prepared *prepared, base_report *report) {
    (void)environment;
    dft_state *s = BASE_NEW(arena, dft_state);
    if (!s) return base_fail_memory(report);
    const op_shape *from = &call->inputs[0].type.shape;
    s->inverse = op_attribute_integer(&call->attributes, "inverse", 0) != 0;
    s->onesided = op_attribute_integer(&call->attributes, "onesided", 0) != 0;
    s->parts = from->dims[from->rank - 1];
    prepared->state = s;
    prepared->run = run_dft;
    /* Of transforms to one half of a spectrum the bins alone do not tell the length. */
    const bool given = op_input_present(call, 1), half = s->onesided && !s->inverse;
    base_report none = {0};
    if ((op_input_present(call, 2) && !call->inputs[2].data) || (given && half && !call->inputs[1].data) ||
        find_dft_axis(call->inputs, call->input_count, &call->outputs[0].type.shape, s, &none) != BASE_OK)
        return BASE_OK;
    const int64_t length = !half ? s->bins : given ? scalar_at(&call->inputs[1]) : s->extent;
    return prepare_length(s, length, s->outer * s->inner, false, arena, prepared, report);
}

/* ---- STFT ----------------------------------------------------------------------------------------------- */

static base_status run_stft(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    const dft_state *s = prepared->state;
    const int64_t *out = outputs[0].type.shape.dims;
    const bool windowed = prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE;
    const bool framed = prepared->input_count > 3 && inputs[3].type.dtype != OP_NONE;
    const int64_t step = scalar_at(&inputs[1]),
                  frame = framed ? scalar_at(&inputs[3]) : inputs[2].type.shape.dims[0];
    if (step < 1 || frame < 1 || (windowed && inputs[2].type.shape.dims[0] != frame) ||
        (out[1] > 0 && (frame > s->extent || out[1] - 1 > (s->extent - frame) / step))) {
        return base_fail(report, BASE_INVALID,
                         "frames of %" PRId64 " every %" PRId64 " samples do not fit the window or "
                         "the signal",
                         frame, step);
    }
    if (s->fourier && s->length == frame) {
        dft_run run = {
            .state = s,
            .input = &inputs[0],
            .window = windowed ? &inputs[2] : NULL,
            .output = &outputs[0],
            .lines = {out[1], s->extent, step, 1, out[1] * out[2], out[2], 1},
            .count = out[0] * out[1],
            .length = frame,
            .samples = frame,
            .bins = out[2],
            .scratch = scratch,
        };
        run_together(&run, prepared->threads);
        return BASE_OK;
    }
    for (int64_t b = 0; b < out[0]; b++) {
        for (int64_t f = 0; f < out[1]; f++) {
            for (int64_t k = 0; k < out[2]; k++) {
                double real, imaginary;
                int64_t to = ((b * out[1] + f) * out[2] + k) * 2;
                transform(inputs[0].type.dtype, inputs[0].data, b * s->extent + f * step, 1, s->parts, frame,
                          windowed ? &inputs[2] : NULL, frame, false, k, &real, &imaginary);
                rt_element_store(outputs[0].type.dtype, outputs[0].data, to, real);
                rt_element_store(outputs[0].type.dtype, outputs[0].data, to + 1, imaginary);
            }
        }
    }
    return BASE_OK;
}

static base_status prepare_stft(const op_call *call, const rt_environment *environment, base_arena *arena,
                                rt_prepared *prepared, base_report *report) {
    (void)environment;
    dft_state *s = BASE_NEW(arena, dft_state);
    if (!s) return base_fail_memory(report);
    const op_shape *signal = &call->inputs[0].type.shape;
    s->extent = signal->dims[1];
    s->parts = signal->rank == 3 ? signal->dims[2] : 1;
    if (s->parts != 1 && s->parts != 2)
        return base_fail(report, BASE_INVALID, "samples have %" PRId64 " parts, expected 1 or 2", s->parts);
    prepared->state = s;
    prepared->run = run_stft;
    const int64_t *out = call->outputs[0].type.shape.dims;
    const bool windowed = op_input_present(call, 2), framed = op_input_present(call, 3);
    int64_t frame = 0;
    if (windowed) frame = call->inputs[2].type.shape.dims[0];
    else if (framed && call->inputs[3].data) frame = scalar_at(&call->inputs[3]);
    return prepare_length(s, frame, out[0] * out[1], windowed, arena, prepared, report);
}

const rt_kernel rt_kernel_dft = {.name = "portable.dft", .accepts = accepts_real, .prepare = prepare_dft};
const rt_kernel rt_kernel_stft = {.name = "portable.stft", .accepts = accepts_real, .prepare = prepare_stft};
