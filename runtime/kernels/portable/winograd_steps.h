/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_steps.h: what winograd.c does before and after the products, for vectors of one width. It includes this once for each, with
 * LANES, VECTOR (so many floats), LOOSE (the same, aligned to single floats), TARGET (the attribute that lets a function use them),
 * LIMIT, SOME (the first `count` floats at an address, then zeros), WIDEN_HALF(from), WIDEN_BRAIN(from), NARROW_HALF(floats, to) and
 * NARROW_BRAIN(floats, to) of LANES numbers of 16 bits, and NAME(function) defined. Every width gives the same bits: lanes are channels or
 * tiles, which do not meet here.
 */

/* B' applied to six values that lie `step` apart. */
#define TRANSFORM_6(in, step, out, out_step)                                                                 \
    do {                                                                                                     \
        const VECTOR d0 = (in)[0], d1 = (in)[1 * (step)], d2 = (in)[2 * (step)], d3 = (in)[3 * (step)],      \
                     d4 = (in)[4 * (step)], d5 = (in)[5 * (step)];                                           \
        const VECTOR even = d4 - 4 * d2, odd = d3 - 4 * d1, wide = d4 - d2, twice = 2 * (d3 - d1);           \
        (out)[0] = 4 * d0 - 5 * d2 + d4;                                                                     \
        (out)[1 * (out_step)] = even + odd;                                                                  \
        (out)[2 * (out_step)] = even - odd;                                                                  \
        (out)[3 * (out_step)] = wide + twice;                                                                \
        (out)[4 * (out_step)] = wide - twice;                                                                \
        (out)[5 * (out_step)] = 4 * d1 - 5 * d3 + d5;                                                        \
    } while (0)

/* A' applied to six values: four outputs. */
#define TRANSFORM_4(in, step, out, out_step)                                                                 \
    do {                                                                                                     \
        const VECTOR m1 = (in)[1 * (step)], m2 = (in)[2 * (step)], m3 = (in)[3 * (step)],                    \
                     m4 = (in)[4 * (step)];                                                                  \
        const VECTOR sum = m1 + m2, difference = m1 - m2, far = m3 + m4, apart = m3 - m4;                    \
        (out)[0] = (in)[0] + sum + far;                                                                      \
        (out)[1 * (out_step)] = difference + 2 * apart;                                                      \
        (out)[2 * (out_step)] = sum + 4 * far;                                                               \
        (out)[3 * (out_step)] = difference + 8 * apart + (in)[5 * (step)];                                   \
    } while (0)

/* The first `count` numbers of 16 bits at an address, LANES at most, then zeros; and the way back, of whole vectors. */
TARGET static inline VECTOR NAME(widen)(op_dtype dtype, const void *from, int64_t count) {
    uint16_t some[LANES] = {0};
    if (count < LANES) from = memcpy(some, from, (size_t)count * sizeof *some);
    return dtype == OP_FLOAT16 ? (VECTOR)WIDEN_HALF(from) : (VECTOR)WIDEN_BRAIN(from);
}

TARGET static inline void NAME(narrow)(op_dtype dtype, VECTOR floats, uint16_t *to) {
    if (dtype == OP_FLOAT16) NARROW_HALF(floats, to);
    else NARROW_BRAIN(floats, to);
}

/* What the tile sees, row by row, as 36 addresses of `count` floats, LANES at most: to[point * step] gets the points. */
TARGET static inline void NAME(transform_input)(const float *const *seen, int64_t count, float *to,
                                                int64_t step) {
    VECTOR columns[POINTS];
    for (int i = 0; i < EDGE; i++) {
        VECTOR column[EDGE];
        for (int k = 0; k < EDGE; k++)
            column[k] = count < LANES ? SOME(seen[k * EDGE + i], count) : *(const LOOSE *)seen[k * EDGE + i];
        TRANSFORM_6(column, 1, columns + i, EDGE);
    }
    for (int i = 0; i < EDGE; i++) {
        VECTOR points[EDGE];
        TRANSFORM_6(columns + i * EDGE, 1, points, 1);
        for (int k = 0; k < EDGE; k++) *(LOOSE *)(to + (i * EDGE + k) * step) = points[k];
    }
}

/* The 16 outputs of the tile, row by row, LANES floats each. */
TARGET static inline void NAME(transform_output)(const float *from, int64_t step, VECTOR *outputs) {
    VECTOR half[OUTPUTS * EDGE];
    for (int i = 0; i < EDGE; i++) {
        VECTOR column[EDGE];
        for (int k = 0; k < EDGE; k++) column[k] = *(const LOOSE *)(from + (k * EDGE + i) * step);
        TRANSFORM_4(column, 1, half + i, EDGE);
    }
    for (int i = 0; i < OUTPUTS; i++) TRANSFORM_4(half + i * EDGE, 1, outputs + i * OUTPUTS, 1);
}

/* The activation, on what all lanes of some outputs hold. */
TARGET static inline void NAME(finish)(const winograd *shape, VECTOR *outputs, int64_t count) {
    if (!shape->limits) {
        rt_activation_fused(&shape->activation, (float *)outputs, count * LANES);
        return;
    }
    for (int64_t i = 0; i < count; i++) LIMIT(outputs[i], shape->low, shape->high);
}

/* ---- channels innermost -------------------------------------------------------------------------------- */

/* V of one tile: [point][tile][channel]. What the next tile sees, and this one does not, is asked for. */
TARGET static void NAME(enter_channels)(const winograd_job *job, int64_t tile) {
    const winograd *shape = job->shape;
    const tile_place place = place_of(shape, job->first + tile);
    const int64_t area = shape->input[0] * shape->input[1], step = pixel_step(shape, shape->channels);
    const char *x = job->x + place.image * image_floats(shape, shape->channels, area) * shape->element;
    const float *seen[POINTS];
    int64_t pixels[POINTS];
    VECTOR widened[POINTS];
    find_pixels(shape, &place, pixels);
    const int64_t ahead = place.column - shape->before[1] + EDGE;
    const int64_t end = ahead + OUTPUTS < shape->input[1] ? ahead + OUTPUTS : shape->input[1];
    for (int64_t chunk = 0; chunk * LANES < shape->channels; chunk++) {
        const char *from = x + chunk_offset(shape, chunk, area, LANES) * shape->element;
        /* After the last channel of a pixel stands the next pixel, or nothing; in a block, zeros. */
        const int64_t count = shape->layout == OP_LAYOUT_NHWC ? shape->channels - chunk * LANES : LANES;
        for (int i = 0; i < POINTS; i++) {
            seen[i] = pixels[i] < 0 ? zeros
                                    : (const float *)(const void *)(from + pixels[i] * step * shape->element);
            if (shape->dtype == OP_FLOAT || pixels[i] < 0) continue;
            widened[i] = NAME(widen)(shape->dtype, seen[i], count);
            seen[i] = (const float *)&widened[i];
        }
        for (int r = 0; r < EDGE; r++) {
            const int64_t row = place.row - shape->before[0] + r;
            if (row < 0 || row >= shape->input[0]) continue;
            for (int64_t column = ahead; column < end; column++)
                __builtin_prefetch(from + (row * shape->input[1] + column) * step * shape->element);
        }
        NAME(transform_input)
        (seen, shape->dtype == OP_FLOAT ? count : LANES, job->v + tile * shape->depth + chunk * LANES,
         shape->v_point);
    }
}

/* Some of a pixel's channels, fewer than a vector has: the rest of a block is zeros. */
static void NAME(leave_some)(const void *output, size_t element, int64_t count, bool padded, char *to) {
    memcpy(to, output, (size_t)count * element);
    if (padded) memset(to + (size_t)count * element, 0, (size_t)(LANES - count) * element);
}

/* What is left of one chunk of filters: bias, residual and activation, and into the image. `pixels`: where each output lies in it,
 * -1: outside. */
TARGET static inline void NAME(leave_chunk)(const winograd_job *job, int64_t chunk, int64_t image,
                                            const int64_t *pixels, int64_t number, VECTOR *outputs) {
    const winograd *shape = job->shape;
    const int64_t rest = shape->filters - chunk * LANES, count = rest < LANES ? (rest < 0 ? 0 : rest) : LANES;
    const int64_t at = image + chunk_offset(shape, chunk, shape->output[0] * shape->output[1], LANES);
    const bool padded = shape->layout != OP_LAYOUT_NHWC, wide = shape->dtype == OP_FLOAT;
    float bias[LANES] = {0};
    if (shape->bias && count && wide)
        memcpy(bias, job->bias + chunk * LANES * shape->element, (size_t)count * sizeof(float));
    else if (shape->bias && count)
        rt_half_load(shape->dtype, bias, (const uint16_t *)(const void *)job->bias + chunk * LANES, count);
    for (int64_t i = 0; i < number; i++) {
        outputs[i] += *(const LOOSE *)bias;
        if (!job->residual || pixels[i] < 0) continue;
        const char *residual = job->residual + (at + pixels[i]) * shape->element;
        if (!wide) outputs[i] += NAME(widen)(shape->dtype, residual, count);
        else if (count == LANES) outputs[i] += *(const LOOSE *)(const void *)residual;
        else
            for (int64_t k = 0; k < count; k++)
                ((float *)&outputs[i])[k] += ((const float *)(const void *)residual)[k];
    }
    NAME(finish)(shape, outputs, number);
    for (int64_t i = 0; i < number; i++) {
        if (pixels[i] < 0) continue;
        char *to = job->y + (at + pixels[i]) * shape->element;
        uint16_t some[LANES];
        if (wide && count == LANES) *(LOOSE *)(void *)to = outputs[i];
        else if (wide) NAME(leave_some)(&outputs[i], sizeof(float), count, padded, to);
        else if (count == LANES) NAME(narrow)(shape->dtype, outputs[i], (uint16_t *)(void *)to);
        else {
            NAME(narrow)(shape->dtype, outputs[i], some);
            NAME(leave_some)(some, sizeof *some, count, padded, to);
        }
    }
}

/* Y of one tile, from M: [point][tile][filter]. */
TARGET static void NAME(leave_channels)(const winograd_job *job, int64_t tile) {
    const winograd *shape = job->shape;
    const tile_place place = place_of(shape, job->first + tile);
    const int64_t image = place.image * output_floats(shape), step = pixel_step(shape, shape->filters);
    int64_t pixels[OUTPUTS * OUTPUTS];
    for (int i = 0; i < OUTPUTS * OUTPUTS; i++) {
        const int64_t row = place.row + i / OUTPUTS, column = place.column + i % OUTPUTS;
        const bool inside = row < shape->output[0] && column < shape->output[1];
        pixels[i] = inside ? (row * shape->output[1] + column) * step : -1;
    }
    const int64_t end = last_filter(job);
    const float *m = job->m + tile * row_of_m(shape) - job->first_filter;
    for (int64_t chunk = job->first_filter / LANES; chunk * LANES < end; chunk++) {
        VECTOR outputs[OUTPUTS * OUTPUTS];
        NAME(transform_output)(m + chunk * LANES, shape->m_point, outputs);
        NAME(leave_chunk)(job, chunk, image, pixels, OUTPUTS * OUTPUTS, outputs);
    }
}

/* ---- lines ---------------------------------------------------------------------------------------------- */

/* V of one tile of a line: [point][tile][channel]. */
TARGET static void NAME(enter_lines)(const winograd_job *job, int64_t tile) {
    const winograd *shape = job->shape;
    const tile_place place = place_of(shape, job->first + tile);
    const int64_t area = shape->input[0] * shape->input[1], step = pixel_step(shape, shape->channels);
    const char *x = job->x + place.image * image_floats(shape, shape->channels, area) * shape->element;
    const int64_t first = (shape->line ? place.column : place.row) - shape->before[shape->line];
    const int64_t begin = shape->line ? place.row * shape->input[1] : place.column;
    const int64_t along = shape->line ? 1 : shape->input[1];
    for (int64_t chunk = 0; chunk * LANES < shape->channels; chunk++) {
        const char *from = x + chunk_offset(shape, chunk, area, LANES) * shape->element;
        const int64_t count = shape->layout == OP_LAYOUT_NHWC ? shape->channels - chunk * LANES : LANES;
        VECTOR d[LINE_POINTS];
        for (int i = 0; i < LINE_POINTS; i++) {
            const bool inside = first + i >= 0 && first + i < shape->input[shape->line];
            const float *seen = inside ? (const float *)(const void *)(from + (begin + (first + i) * along) *
                                                                                  step * shape->element)
                                       : zeros;
            d[i] = shape->dtype != OP_FLOAT ? NAME(widen)(shape->dtype, seen, count)
                   : count < LANES          ? SOME(seen, count)
                                            : *(const LOOSE *)seen;
        }
        float *to = job->v + tile * shape->depth + chunk * LANES;
        const VECTOR ones = d[2] + d[6] - 4.25f * d[4], odd_ones = d[1] + d[5] - 4.25f * d[3];
        const VECTOR twos = d[6] + 0.25f * d[2] - 1.25f * d[4],
                     odd_twos = 0.5f * d[1] - 2.5f * d[3] + 2 * d[5];
        const VECTOR halves = d[6] + 4 * (d[2] - 1.25f * d[4]),
                     odd_halves = 2 * d[1] - 2.5f * d[3] + 0.5f * d[5];
        const VECTOR points[LINE_POINTS] = {d[0] - d[6] + 5.25f * (d[4] - d[2]),
                                            ones + odd_ones,
                                            ones - odd_ones,
                                            twos + odd_twos,
                                            twos - odd_twos,
                                            halves + odd_halves,
                                            halves - odd_halves,
                                            d[7] - d[1] + 5.25f * (d[3] - d[5])};
        for (int p = 0; p < LINE_POINTS; p++) *(LOOSE *)(to + p * shape->v_point) = points[p];
    }
}

/* Y of one tile of a line. */
TARGET static void NAME(leave_lines)(const winograd_job *job, int64_t tile) {
    const winograd *shape = job->shape;
    const tile_place place = place_of(shape, job->first + tile);
    const int64_t image = place.image * output_floats(shape), step = pixel_step(shape, shape->filters);
    const int64_t number = shape->covers[shape->line], first = shape->line ? place.column : place.row;
    int64_t pixels[MOST_LINE_OUTPUTS];
    for (int64_t i = 0; i < number; i++) {
        const int64_t row = place.row + (shape->line ? 0 : i), column = place.column + (shape->line ? i : 0);
        pixels[i] = first + i < shape->output[shape->line] ? (row * shape->output[1] + column) * step : -1;
    }
    const int64_t end = last_filter(job);
    const float *from = job->m + tile * row_of_m(shape) - job->first_filter;
    for (int64_t chunk = job->first_filter / LANES; chunk * LANES < end; chunk++) {
        VECTOR m[LINE_POINTS];
        for (int p = 0; p < LINE_POINTS; p++)
            m[p] = *(const LOOSE *)(from + chunk * LANES + p * shape->m_point);
        const VECTOR ones = m[1] + m[2], odd_ones = m[1] - m[2], twos = m[3] + m[4], odd_twos = m[3] - m[4],
                     halves = m[5] + m[6], odd_halves = m[5] - m[6];
        VECTOR outputs[MOST_LINE_OUTPUTS] = {
            m[0] + ones + twos + halves,         odd_ones + 2 * odd_twos + 0.5f * odd_halves,
            ones + 4 * twos + 0.25f * halves,    odd_ones + 8 * odd_twos + 0.125f * odd_halves,
            ones + 16 * twos + 0.0625f * halves, odd_ones + 32 * odd_twos + 0.03125f * odd_halves};
        outputs[number - 1] += m[LINE_POINTS - 1];
        NAME(leave_chunk)(job, chunk, image, pixels, number, outputs);
    }
}

/* ---- row-major images ---------------------------------------------------------------------------------- */

/* V of LANES tiles: [point][panel of tiles][channel][RT_PANEL tiles]. */
TARGET static void NAME(enter_rows)(const winograd_job *job, int64_t group) {
    const winograd *shape = job->shape;
    const int64_t area = shape->input[0] * shape->input[1], tile = group * LANES;
    _Alignas(64) float seen[POINTS][LANES];
    const float *addresses[POINTS];
    int64_t pixels[LANES][POINTS];
    for (int i = 0; i < POINTS; i++) addresses[i] = seen[i];
    for (int64_t k = 0; k < LANES; k++) {
        if (tile + k >= job->count) {
            for (int i = 0; i < POINTS; i++) pixels[k][i] = -1;
            continue;
        }
        const tile_place place = place_of(shape, job->first + tile + k);
        find_pixels(shape, &place, pixels[k]);
        for (int i = 0; i < POINTS; i++)
            if (pixels[k][i] >= 0) pixels[k][i] += place.image * shape->channels * area;
    }
    float *to = job->v + tile / RT_PANEL * shape->channels * RT_PANEL + tile % RT_PANEL;
    for (int64_t channel = 0; channel < shape->channels; channel++) {
        const float *x = (const float *)(const void *)job->x + channel * area;
        for (int64_t k = 0; k < LANES; k++)
            for (int i = 0; i < POINTS; i++) seen[i][k] = pixels[k][i] < 0 ? 0 : x[pixels[k][i]];
        NAME(transform_input)(addresses, LANES, to + channel * RT_PANEL, shape->v_point);
    }
}

/* Where the outputs of LANES tiles lie in the first map; -1: outside. */
static void NAME(find_outputs)(const winograd_job *job, int64_t group, int64_t at[OUTPUTS * OUTPUTS][LANES]) {
    const winograd *shape = job->shape;
    const int64_t area = shape->output[0] * shape->output[1];
    for (int64_t k = 0; k < LANES; k++) {
        const bool there = group * LANES + k < job->count;
        const tile_place place = place_of(shape, job->first + (there ? group * LANES + k : 0));
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++) {
            const int64_t row = place.row + i / OUTPUTS, column = place.column + i % OUTPUTS;
            const bool inside = there && row < shape->output[0] && column < shape->output[1];
            at[i][k] = inside ? place.image * shape->filters * area + row * shape->output[1] + column : -1;
        }
    }
}

/* Y of LANES tiles, from M: [point][filter][tile]. */
TARGET static void NAME(leave_rows)(const winograd_job *job, int64_t group) {
    const winograd *shape = job->shape;
    const int64_t area = shape->output[0] * shape->output[1];
    int64_t at[OUTPUTS * OUTPUTS][LANES];
    NAME(find_outputs)(job, group, at);
    for (int64_t filter = 0; filter < shape->filters; filter++) {
        const float bias = shape->bias ? ((const float *)(const void *)job->bias)[filter] : 0;
        const float *residual =
            job->residual ? (const float *)(const void *)job->residual + filter * area : NULL;
        float *y = (float *)(void *)job->y + filter * area;
        VECTOR outputs[OUTPUTS * OUTPUTS];
        float *floats = (float *)outputs;
        NAME(transform_output)
        (job->m + filter * shape->tiles_each + group * LANES, shape->m_point, outputs);
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++) outputs[i] += bias;
        for (int i = 0; residual && i < OUTPUTS * OUTPUTS; i++)
            for (int64_t k = 0; k < LANES; k++)
                if (at[i][k] >= 0) floats[i * LANES + k] += residual[at[i][k]];
        NAME(finish)(shape, outputs, OUTPUTS * OUTPUTS);
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++)
            for (int64_t k = 0; k < LANES; k++)
                if (at[i][k] >= 0) y[at[i][k]] = floats[i * LANES + k];
    }
}

static const winograd_steps NAME(steps) = {LANES,
                                           NAME(enter_channels),
                                           NAME(leave_channels),
                                           NAME(enter_lines),
                                           NAME(leave_lines),
                                           NAME(enter_rows),
                                           NAME(leave_rows)};

#undef TRANSFORM_6
#undef TRANSFORM_4
#undef LANES
#undef VECTOR
#undef LOOSE
#undef TARGET
#undef LIMIT
#undef SOME
#undef WIDEN_HALF
#undef WIDEN_BRAIN
#undef NARROW_HALF
#undef NARROW_BRAIN
#undef NAME
