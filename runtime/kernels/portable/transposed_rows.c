/* SPDX-License-Identifier: Apache-2.0 */
/* transposed_rows.c: the part of transposed_product.c that makes outputs of few filters; see transposed_product.h.
 *
 * Lanes are points that follow one another. Products are made a row at a time for each element of the window (row_tiles.c), of points whose
 * channels are rows: where they lie side by side they are turned first. Outputs that lie a stride apart add parts of the same rows, which
 * follow one another, too: these sums stay in registers. The stride's sets of outputs are put between one another at the end.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/row_tiles.h"
#include "runtime/kernels/portable/transposed_product.h"
#include "runtime/kernels/portable/turn.h"
#include <string.h>

enum {
    LANES = RT_DIRECT_LANES,
    FILTERS = RT_ROW_TILE_FILTERS,
    TILE = RT_ROW_TILE_POINTS,
    NEAR_FLOATS = 1 << 13, /* of points, which are multiplied by all weights before others are */
    LEAST_TILES = 2        /* at a time */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* Points that are multiplied by all weights at a time. */
static int64_t points_at_a_time(const rt_transposed *t) {
    return most(NEAR_FLOATS / t->channels / TILE, LEAST_TILES) * TILE;
}

/* Channels of `count` points from point number `first` on become rows. */
static void copy_points(const rt_transposed_points *p, int64_t first, int64_t count) {
    const rt_transposed *t = p->t;
    const int64_t pixels = t->input[0] * t->input[1], from = p->first + first;
    for (int64_t channel = 0; channel < t->channels; channel += LANES) {
        const int64_t there = least(t->channels - channel, LANES);
        float *to = p->copy + channel * t->capacity + first;
        if (t->from == OP_LAYOUT_ROW_MAJOR) {
            for (int64_t c = 0; c < there; c++)
                memcpy(to + c * t->capacity, p->image + (channel + c) * pixels + from,
                       (size_t)count * sizeof *to);
            continue;
        }
        const bool innermost = t->from == OP_LAYOUT_NHWC;
        const float *x =
            p->image + (innermost ? from * t->channels + channel : channel * pixels + from * LANES);
        rt_turn_words((const uint32_t *)(const void *)x, innermost ? t->channels : LANES, count, there,
                      (uint32_t *)(void *)to, t->capacity);
    }
}

static void multiply(void *context, int64_t begin, int64_t end) {
    const rt_transposed_points *p = context;
    const rt_transposed *t = p->t;
    const int64_t each = points_at_a_time(t), rows = t->filters * t->kernel[0] * t->kernel[1];
    for (int64_t first = begin * each; first < least(end * each, p->count); first += each) {
        const int64_t count = least(each, p->count - first);
        if (t->copied) copy_points(p, first, count);
        for (int64_t row = 0; row < rows; row += FILTERS) {
            const rt_row_strip strip = {.x = t->copied ? p->copy + first : p->image + p->first + first,
                                        .places = t->places,
                                        .elements = t->channels,
                                        .weights = p->weights + row / LANES * t->points.tiles.panel_floats +
                                                   row % LANES,
                                        .y = p->y + row * t->capacity + first,
                                        .y_row = t->capacity,
                                        .filters = least(rows - row, FILTERS),
                                        .points = count};
            rt_row_strip_make(&strip);
        }
    }
}

void rt_transposed_multiply(const rt_transposed_points *points, int threads) {
    const rt_transposed *t = points->t;
    const int64_t each = points_at_a_time(t);
    rt_parallel(threads, (points->count + each - 1) / each,
                each * t->channels * t->filters * t->kernel[0] * t->kernel[1], multiply,
                (void *)(uintptr_t)points);
}

/* ---- sums ---------------------------------------------------------------------------------------------- */

/* Elements of the window along an axis that `place`, counted from the first place that an element reaches, is made of: the first of them, and
 * how far each is from the next. Those between them are made of nothing; where elements lie apart, some of these are, too. */
typedef struct steps {
    int64_t first, step;
} steps;

static steps steps_to(int64_t place, int64_t stride, int64_t dilation) {
    return dilation == 1 ? (steps){(place % stride + stride) % stride, stride} : (steps){0, 1};
}

int64_t rt_transposed_find_added(const rt_transposed *t, int64_t row, int64_t phase,
                                 rt_transposed_added added[RT_TRANSPOSED_ELEMENTS]) {
    const int64_t stride = t->stride[1], down = row + t->before[0], right = phase + t->before[1];
    const steps lines = steps_to(down, t->stride[0], t->dilation[0]),
                columns = steps_to(right, stride, t->dilation[1]);
    int64_t count = 0;
    for (int64_t i = lines.first; i < t->kernel[0]; i += lines.step) {
        const int64_t up = down - i * t->dilation[0], line = up / t->stride[0];
        if (up < 0 || line * t->stride[0] != up || line >= t->input[0]) continue;
        int64_t shift = (right - columns.first) / stride;
        for (int64_t j = columns.first; j < t->kernel[1]; j += columns.step, shift--) {
            const int64_t left = right - j * t->dilation[1];
            if (columns.step == 1) shift = left / stride;
            if (shift * stride == left)
                added[count++] = (rt_transposed_added){i * t->kernel[1] + j, line, shift};
        }
    }
    return count;
}

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f")))

/* A row of products of one element of the window, for the outputs of a phase: output number q of these adds at[q], if first <= q < end. */
typedef struct source {
    const float *at;
    int64_t first, end;
} source;

/* What outputs of a phase add, of one filter. */
static int64_t find_sources(const rt_transposed_products *p, int64_t filter, int64_t row, int64_t phase,
                            source sources[RT_TRANSPOSED_ELEMENTS]) {
    const rt_transposed *t = p->t;
    const int64_t width = t->input[1], filter_rows = filter * t->kernel[0] * t->kernel[1];
    rt_transposed_added added[RT_TRANSPOSED_ELEMENTS];
    const int64_t count = rt_transposed_find_added(t, row, phase, added);
    for (int64_t k = 0; k < count; k++) {
        const int64_t along = t->axis == 0 ? (added[k].line - p->first) * width : -p->first,
                      shift = added[k].shift;
        sources[k] =
            (source){.at = rt_address(p->at, (filter_rows + added[k].element) * p->step + along + shift),
                     .first = -shift,
                     .end = width - shift};
    }
    return count;
}

/* Outputs number [first, end) of a phase, side by side. */
AVX512 static void add_sources(const source *sources, int64_t source_count, float bias, int64_t first,
                               int64_t end, float *y) {
    int64_t inner = first, inner_end = end;
    for (int64_t k = 0; k < source_count; k++) {
        inner = most(inner, sources[k].first);
        inner_end = least(inner_end, sources[k].end);
    }
    for (int64_t q = first; q < end; q += LANES) {
        __m512 sum = _mm512_set1_ps(bias);
        if (q >= inner && q + LANES <= inner_end) {
            for (int64_t k = 0; k < source_count; k++)
                sum = _mm512_add_ps(sum, _mm512_loadu_ps(rt_address(sources[k].at, q)));
        } else {
            for (int64_t k = 0; k < source_count; k++) {
                const source *of = &sources[k];
                const __mmask16 there = (__mmask16)(rt_first_lanes_16(least(of->end, end) - q) &
                                                    ~(unsigned)rt_first_lanes_16(of->first - q));
                sum =
                    _mm512_mask_add_ps(sum, there, sum, _mm512_maskz_loadu_ps(there, rt_address(of->at, q)));
            }
        }
        _mm512_mask_storeu_ps(y + (q - first), rt_first_lanes_16(end - q), sum);
    }
}

void rt_transposed_add_row(const rt_transposed_products *p, int64_t filter, int64_t row, int64_t from,
                           int64_t to) {
    const rt_transposed *t = p->t;
    const int64_t stride = t->stride[1], first = from / stride, length = (to - from + stride - 1) / stride,
                  whole = (to - from) / stride;
    float *y = p->y + (filter * t->output[0] + row) * t->output[1] + from;
    const float bias = p->bias ? 0.0f + p->bias[filter] : 0;
    source sources[RT_TRANSPOSED_ELEMENTS];
    float phases[2 * RT_TRANSPOSED_PIECE + RT_TRANSPOSED_STRIDE];
    for (int64_t phase = 0; phase < stride; phase++) {
        const int64_t count = find_sources(p, filter, row, phase, sources),
                      end = first + (to - from - phase + stride - 1) / stride;
        add_sources(sources, count, bias, first, end, stride == 1 ? y : phases + phase * length);
    }
    if (stride == 1) return;
    rt_turn_words((const uint32_t *)(const void *)phases, length, stride, whole, (uint32_t *)(void *)y,
                  stride);
    for (int64_t phase = 0; phase < to - from - whole * stride; phase++)
        y[whole * stride + phase] = phases[phase * length + whole];
}
#else
void rt_transposed_add_row(const rt_transposed_products *products, int64_t filter, int64_t row, int64_t from,
                           int64_t to) {
    (void)products, (void)filter, (void)row, (void)from, (void)to; /* nothing is accepted on such machines */
}
#endif
