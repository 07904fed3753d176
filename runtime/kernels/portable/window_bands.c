/* SPDX-License-Identifier: Apache-2.0 */
/* window_bands.c: implements window_bands.h. */
#include "runtime/kernels/portable/window_bands.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_digits.h"
#include "runtime/kernels/portable/window_run.h"

enum {
    LANES = RT_FIXED_COLUMNS,
    DIGITS = RT_FIXED_DIGITS,
    MOST_TAPS = 1 << 10,
    MOST_EXTENT = 1 << 24,
    MOST_BLOCKS = 4096,
    /* After the weights. What other kernels pack is a multiple of RT_ALIGNMENT: that tells these weights from those. */
    MARK_BYTES = RT_ALIGNMENT / 2
};

/* ---- shapes -------------------------------------------------------------------------------------------- */

size_t rt_window_packed_bytes(const rt_window_shape *s) {
    return (size_t)(rt_window_columns_of(s) * (RT_WINDOW_LINE + s->steps * RT_WINDOW_STEP_BYTES)) +
           MARK_BYTES;
}

static size_t scratch_bytes(const rt_window_shape *s) {
    return (size_t)(rt_window_largest_bytes(s) + s->threads * rt_window_own_bytes(s));
}

/* Cuts each image into so many bands. */
static void set_blocks(rt_window_shape *s, int64_t blocks) {
    const int64_t extent = rt_window_band_extent(s);
    s->band_rows = extent > 0 ? rt_window_up(extent, blocks) : 1;
    s->bands = s->images * rt_window_up(extent, s->band_rows);
    s->apart = s->threads > 1 && s->bands >= s->threads;
    const int64_t points = rt_window_band_points(s, s->band_rows), digits = rt_window_row_digits(s),
                  rows = (s->lying ? 1 : s->band_rows) + s->more_rows,
                  window = s->more_rows * digits + rt_window_row_pixels(s, 1),
                  seen = (rt_window_tiles_of(points) * rt_window_tile_rows(points) - 1) * s->between + window,
                  made = rows * digits;
    /* Steps read up to 64 bytes from a point on, and as many are written. */
    s->plane =
        rt_window_up((seen > made ? seen : made) * s->each, RT_WINDOW_LINE) * RT_WINDOW_LINE + RT_WINDOW_LINE;
    s->a_bytes = s->phase_count * s->groups * s->chunks * DIGITS * s->plane;
}

static void find_phases(rt_window_shape *s) {
    s->phase_count = 0;
    for (int64_t i = 0; i < s->kernel[0]; i++)
        if (rt_window_phase_index(s, i * s->dilation[0]) < 0)
            s->phases[s->phase_count++] = (int)(i * s->dilation[0] % s->stride[0]);
}

static bool fits(const rt_window_shape *s) {
    size_t points, bytes, all;
    return base_size_multiply((size_t)(s->output[0] + s->more_rows + LANES),
                              (size_t)((s->width + LANES) * s->between), &points) &&
           base_size_multiply(points, (size_t)(s->phase_count + 1) * RT_FIXED_STEP * DIGITS, &bytes) &&
           base_size_multiply(bytes, (size_t)(s->groups * s->chunks + rt_window_columns_of(s)), &all) &&
           base_size_multiply(all, (size_t)s->threads, &all) &&
           base_size_multiply((size_t)s->images, (size_t)s->threads, &points) && all < SIZE_MAX / 4 &&
           points < SIZE_MAX / LANES;
}

/* A window slides along this dimension. */
static bool slides(const rt_window_shape *s, int i) {
    return s->input[i] != 1 || s->output[i] != 1 || s->kernel[i] != 1 || s->before[i] != 0;
}

static void exchange(int64_t *height) {
    const int64_t width = height[1];
    height[1] = height[0];
    height[0] = width;
}

/* An image one point wide is the same bytes as one that is one point high, whose row can be cut anywhere. */
static void lay(rt_window_shape *s) {
    int64_t *each[] = {s->input, s->output, s->kernel, s->stride, s->dilation, s->before};
    const bool upright = !slides(s, 1);
    for (size_t i = 0; upright && i < sizeof each / sizeof *each; i++) exchange(each[i]);
    s->lying = !slides(s, 0);
    if (s->lying) s->stride[0] = 1;
}

/* Elements of a row of the window that are multiplied in one step, where so many channels lie together. */
static int64_t together_of(const rt_window_shape *s, int64_t each) {
    return rt_window_least(s->kernel[1], (RT_FIXED_STEP / each - 1) / s->dilation[1] + 1);
}

/* How many channels lie together: such that there are few steps. */
static void choose_channels(rt_window_shape *s) {
    s->steps = 0;
    for (int64_t each = RT_FIXED_STEP; each >= LANES; each /= 2) {
        const int64_t together = together_of(s, each), row_steps = rt_window_up(s->kernel[1], together),
                      chunks = rt_window_up(s->channels, each), steps = chunks * s->kernel[0] * row_steps;
        if (s->steps > 0 && steps >= s->steps) continue;
        s->each = each;
        s->together = together;
        s->row_steps = row_steps;
        s->chunks = chunks;
        s->steps = steps;
    }
}

bool rt_window_complete(rt_window_shape *s, const op_call *call, const rt_environment *environment) {
    const int64_t blocks = op_attribute_integer(&call->attributes, "ouro.blocks", 0);
    if (blocks < 0 || blocks > MOST_BLOCKS) return false;
    s->threads = environment->threads > 0 ? environment->threads : 1;
    lay(s);
    for (int i = 0; i < 2; i++)
        if (s->stride[i] > MOST_EXTENT || s->input[i] > MOST_EXTENT || s->output[i] > MOST_EXTENT ||
            s->kernel[i] > MOST_TAPS || s->dilation[i] > MOST_EXTENT)
            return false;
    if (s->stride[0] > RT_WINDOW_MOST_STRIDE || s->kernel[0] * s->kernel[1] > MOST_TAPS) return false;
    const bool one = s->kernel[1] == 1; /* then only the pixels that windows see become digits */
    s->along = one ? s->stride[1] : 1;
    s->between = one ? 1 : s->stride[1];
    choose_channels(s);
    find_phases(s);
    s->more_rows = (s->kernel[0] - 1) * s->dilation[0] / s->stride[0];
    s->width = rt_window_up(rt_window_row_pixels(s, s->output[1] > 0 ? s->output[1] : 1), s->between);
    s->limits = rt_activation_limits(&s->activation, &s->low, &s->high);
    if (!fits(s)) return false;
    s->open = !blocks;
    set_blocks(s, blocks ? blocks : 1);
    return true;
}

/* ---- what it costs ------------------------------------------------------------------------------------- */

static rt_window_work work_of(const rt_window_shape *s) {
    const int64_t points = rt_window_band_points(s, s->band_rows), rows = rt_window_tile_rows(points);
    const double bands = (double)s->bands,
                 rounds = s->apart ? (double)rt_window_up(s->bands, s->threads) * s->threads / bands : 1,
                 tiles =
                     bands * rounds * (double)rt_window_tiles_of(points) * (double)rt_window_columns_of(s);
    return (rt_window_work){.products = rt_window_products(s),
                            .steps = tiles * (double)s->steps,
                            .rows = (double)rows,
                            .sums = tiles * (double)rt_window_parts_of(s),
                            .split_bytes = bands * rounds * (s->apart ? 1 : s->threads) * (double)s->a_bytes,
                            .band_bytes = (double)s->a_bytes,
                            .image_bytes = (double)(s->images * rt_window_image_numbers(s)) * sizeof(float),
                            .weight_bytes = (double)rt_window_packed_bytes(s),
                            .bands = bands * rounds / (s->apart ? s->threads : 1)};
}

bool rt_window_estimate(rt_window_shape *s, const rt_environment *environment, size_t scratch_limit,
                        rt_cost *cost) {
    cost->blocks = 0;
    if (!rt_window_has_points(s)) return false;
    const int64_t most = rt_window_least(rt_window_band_extent(s), MOST_BLOCKS);
    for (int64_t blocks = 1; blocks <= most; blocks++) {
        const int64_t before = s->band_rows;
        set_blocks(s, blocks);
        if (blocks > 1 && s->band_rows == before) continue;
        if (scratch_bytes(s) > scratch_limit) continue;
        const rt_window_work work = work_of(s);
        const double seconds = rt_window_seconds(&work, environment);
        if (cost->blocks && seconds >= cost->seconds) continue;
        cost->seconds = seconds;
        cost->blocks = blocks;
        cost->scratch_bytes = scratch_bytes(s);
    }
    return cost->blocks != 0;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

static rt_fixed_columns filter_of(const rt_window_shape *s, const float *weights, int64_t filter) {
    const int64_t depth = s->channels * s->kernel[0] * s->kernel[1];
    return (rt_fixed_columns){.from = weights + filter * depth,
                              .digits = DIGITS,
                              .along = 1,
                              .step = depth,
                              .count = 1,
                              .depth = depth,
                              .factor = 1};
}

bool rt_window_suits(const rt_window_shape *s, const float *weights) {
    for (int64_t filter = 0; filter < s->filters; filter++) {
        const rt_fixed_columns columns = filter_of(s, weights, filter);
        if (!rt_fixed_is_fit(&columns)) return false;
    }
    return true;
}

void rt_window_pack(const rt_window_shape *s, const float *weights, char *packed) {
    enum { QUAD = 4 };
    const int64_t taps = s->kernel[0] * s->kernel[1];
    float *scales = (float *)(void *)packed;
    char *tiles = packed + rt_window_columns_of(s) * RT_WINDOW_LINE;
    for (int64_t filter = 0; filter < s->filters; filter++) {
        const float *of = weights + filter * s->channels * taps;
        float largest = 0;
        for (int64_t i = 0; i < s->channels * taps; i++) largest = fmaxf(largest, fabsf(of[i]));
        const rt_fixed_scale scale = rt_fixed_scale_of(largest, DIGITS);
        scales[filter] = scale.down;
        char *to = tiles + filter / LANES * rt_window_tile_bytes(s) + filter % LANES * QUAD;
        for (int64_t channel = 0; channel < s->channels; channel++)
            for (int64_t tap = 0; tap < taps; tap++)
                rt_fixed_write_digits(
                    (int32_t)lrintf(of[channel * taps + tap] * scale.up), DIGITS, RT_WINDOW_LINE,
                    to + rt_window_weight_at(s, channel, tap / s->kernel[1], tap % s->kernel[1]));
    }
}

/* ---- preparing ----------------------------------------------------------------------------------------- */

static void fill_places(const rt_window_shape *s, int64_t *places) {
    for (int64_t i = 0; i < s->steps; i++) {
        const int64_t chunk = i / (s->kernel[0] * s->row_steps), row = i / s->row_steps % s->kernel[0],
                      column = i % s->row_steps * s->together * s->dilation[1],
                      below = row * s->dilation[0] / s->stride[0];
        places[i] = (rt_window_phase_index(s, row * s->dilation[0]) * s->groups * s->chunks + chunk) *
                        DIGITS * s->plane +
                    (below * rt_window_row_digits(s) + column) * s->each;
    }
}

/* What an image and its result take, and the weights. */
static size_t touched_bytes(const rt_window_shape *s) {
    return (size_t)(s->input[0] * s->input[1] * rt_window_up(rt_window_all_channels(s), LANES) +
                    s->output[0] * s->output[1] * rt_window_columns_of(s)) *
               LANES * sizeof(float) +
           rt_window_packed_bytes(s);
}

/* Chooses into how many bands images are cut; as many as can be, where all take more than they may. */
static void settle(rt_window_shape *s, const rt_environment *environment) {
    rt_cost cost;
    const bool fitting = rt_window_estimate(s, environment, 2 * touched_bytes(s), &cost);
    set_blocks(s, fitting ? cost.blocks : rt_window_least(rt_window_band_extent(s), MOST_BLOCKS));
}

base_status rt_window_prepare(rt_window_shape *s, const rt_environment *environment, base_arena *arena,
                              rt_prepared *prepared, base_report *report) {
    if (s->open && rt_window_has_points(s)) settle(s, environment);
    int64_t *places = BASE_ARRAY(arena, int64_t, (size_t)s->steps);
    if (!places) return base_fail_memory(report);
    fill_places(s, places);
    s->places = places;
    prepared->state = s;
    prepared->run = rt_window_run;
    prepared->scratch_bytes = scratch_bytes(s);
    return BASE_OK;
}
