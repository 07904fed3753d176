/* SPDX-License-Identifier: Apache-2.0 */
/* half_bands.c: see half_bands.h. */
#include "runtime/kernels/portable/half_bands.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <string.h>

enum {
    BLOCK = RT_HALF_LANES,
    LEAST_CHANNELS = 4,      /* each by itself: fewer leave most lanes empty */
    LARGEST_BAND = 96 << 10, /* bytes of scratch for a thread, where a few pixels take no more */
    NEAREST_BAND =
        24 << 10, /* of channels by themselves, which read the scratch about as often as they multiply */
    NEAR_WEIGHTS = 256 << 10, /* bytes of weights that are used for all bands before others are */
    MOST_ROUNDS = 4           /* of all threads, until bands are shared out evenly enough */
};

/* ---- weights ------------------------------------------------------------------------------------------------ */

static int64_t parts(int64_t count, int64_t each) {
    return (count + each - 1) / each;
}

/* Weights of a panel and a block of so many channels, for an element of the window. */
static int64_t block_elements(op_dtype dtype, int64_t channels) {
    return (dtype == OP_BFLOAT16 ? (channels + 1) / 2 * 2 : channels) * BLOCK;
}

bool rt_half_set_kind(rt_half_shape *shape) {
    if (shape->channels < 1 || shape->filters < 1 || shape->group < 1) return false;
    if (shape->channels > INT32_MAX || shape->filters > INT32_MAX || shape->group > INT32_MAX) return false;
    shape->all_channels = shape->group * shape->channels;
    shape->all_filters = shape->group * shape->filters;
    shape->by_channel = shape->group > 1 && shape->channels == 1 && shape->filters == 1;
    if (shape->by_channel) {
        if (shape->group < LEAST_CHANNELS) return false;
        shape->group = parts(shape->group, BLOCK);
        shape->channels = shape->filters = BLOCK;
    } else if (shape->group > 1 && (shape->channels % BLOCK != 0 || shape->filters % BLOCK != 0)) {
        return false;
    }
    if (shape->from == OP_LAYOUT_ROW_MAJOR ? shape->channels > RT_HALF_FEW || shape->group > 1
                                           : !rt_half_is_side_by_side(shape->from))
        return false;
    if (!rt_half_is_side_by_side(shape->to) || shape->kernel[0] > RT_HALF_TAPS ||
        shape->kernel[1] > RT_HALF_TAPS || shape->kernel[0] * shape->kernel[1] > RT_HALF_TAPS)
        return false;
    shape->blocks = parts(shape->channels, BLOCK);
    shape->pixel = shape->from == OP_LAYOUT_ROW_MAJOR ? RT_HALF_FEW : BLOCK;
    shape->panels = parts(shape->filters, BLOCK);
    const int64_t taps = shape->kernel[0] * shape->kernel[1],
                  last = shape->channels - (shape->blocks - 1) * BLOCK;
    shape->panel_elements = shape->by_channel
                                ? taps * BLOCK
                                : taps * ((shape->blocks - 1) * block_elements(shape->dtype, BLOCK) +
                                          block_elements(shape->dtype, last));
    shape->limits = rt_activation_limits(&shape->activation, &shape->low, &shape->high);
    int64_t all; /* what a plan says may be anything */
    return base_int64_multiply(shape->panel_elements, shape->panels, &all) &&
           base_int64_multiply(all, 2 * shape->group, &all);
}

int64_t rt_half_place(const rt_half_shape *shape, int64_t filter, int64_t channel, int64_t tap) {
    if (shape->by_channel) return filter / BLOCK * shape->panel_elements + tap * BLOCK + filter % BLOCK;
    const int64_t taps = shape->kernel[0] * shape->kernel[1], group = filter / shape->filters,
                  own = filter % shape->filters, block = channel / BLOCK, in_block = channel % BLOCK,
                  rest = shape->channels - block * BLOCK,
                  wide = block_elements(shape->dtype, rest < BLOCK ? rest : BLOCK);
    const int64_t panel = (group * shape->panels + own / BLOCK) * shape->panel_elements +
                          block * taps * block_elements(shape->dtype, BLOCK) + tap * wide;
    if (shape->dtype == OP_BFLOAT16) return panel + in_block / 2 * 2 * BLOCK + own % BLOCK * 2 + in_block % 2;
    return panel + in_block * BLOCK + own % BLOCK;
}

/* ---- bands -------------------------------------------------------------------------------------------------- */

/* What windows at so many places see along an axis. */
static int64_t reach(const rt_half_shape *shape, int axis, int64_t places) {
    return (places - 1) * shape->stride[axis] +
           (shape->kernel[axis] ? (shape->kernel[axis] - 1) * shape->dilation[axis] : 0) + 1;
}

/* Sets the scratch of bands of so many outputs. */
static int64_t set_band(rt_half_shape *shape, int64_t rows, int64_t columns) {
    shape->rows = rows;
    shape->columns = columns;
    shape->band_rows = reach(shape, 0, rows);
    shape->phase_width = parts(reach(shape, 1, columns), shape->stride[1]);
    return shape->blocks * shape->band_rows * shape->stride[1] * shape->phase_width * shape->pixel *
           (int64_t)sizeof(float);
}

/* As many pixels as the scratch may hold: of a row, or whole rows. Plans have this size: it is the same on all machines. */
static int64_t choose_band(rt_half_shape *shape) {
    const int64_t most_bytes = shape->by_channel ? NEAREST_BAND : LARGEST_BAND;
    int64_t columns = shape->output[1];
    if (shape->by_channel && columns > 3 * RT_HALF_PIXELS)
        columns = parts(columns, parts(columns, 2 * RT_HALF_PIXELS));
    int64_t bytes = set_band(shape, 1, columns), low = 1, high = columns;
    if (bytes > most_bytes) {
        while (low < high) {
            const int64_t middle = (low + high + 1) / 2;
            if (set_band(shape, 1, middle) <= most_bytes) low = middle;
            else high = middle - 1;
        }
        const int64_t least = RT_HALF_PIXELS < shape->output[1] ? RT_HALF_PIXELS : shape->output[1];
        if (low > RT_HALF_PIXELS) low -= low % RT_HALF_PIXELS;
        return set_band(shape, 1, low > least / 2 ? low : (least + 1) / 2);
    }
    high = shape->output[0];
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (set_band(shape, middle, columns) <= most_bytes) low = middle;
        else high = middle - 1;
    }
    /* Rows are dealt out evenly. */
    return set_band(shape, parts(shape->output[0], parts(shape->output[0], low)), columns);
}

/* A window of one element sees every so many pixels: these are the image. Where it is of one element altogether, rows are one row. */
static void simplify(rt_half_shape *shape) {
    for (int i = 0; i < 2; i++) {
        shape->skip[i] = 1;
        if (shape->kernel[i] != 1 || shape->before[i] != 0) continue;
        shape->skip[i] = shape->stride[i];
        shape->stride[i] = 1;
        if (shape->input[i] > 0) shape->input[i] = (shape->input[i] - 1) / shape->skip[i] + 1;
    }
    const bool plain = shape->kernel[0] * shape->kernel[1] == 1 && shape->skip[0] == 1 &&
                       shape->skip[1] == 1 && shape->stride[0] == 1 && shape->stride[1] == 1 &&
                       shape->input[0] == shape->output[0] && shape->input[1] == shape->output[1] &&
                       shape->step[0] == 1 && shape->step[1] == 1;
    if (!plain) return;
    shape->input[1] = shape->output[1] = shape->source_width = shape->output_width =
        shape->output[0] * shape->output[1];
    shape->input[0] = shape->output[0] = 1;
}

bool rt_half_set_extents(rt_half_shape *shape, size_t *bytes) {
    int64_t limit;
    *bytes = 0;
    if (shape->images < 0) return false;
    for (int i = 0; i < 2; i++)
        if (shape->input[i] < 0 || shape->output[i] < 0) return false;
    shape->steps = rt_half_steps_for(shape->dtype, shape->by_channel, RT_HALF_BEST);
    shape->source_width = shape->input[1];
    if (shape->output[0] == 0 || shape->output[1] == 0 || shape->images == 0) return true;
    if (!base_int64_multiply(shape->input[0], shape->input[1], &shape->input_size)) return false;
    simplify(shape);
    for (int i = 0; i < 2;
         i++) /* of all sizes here: the scratch of everything at once would be this at most */
        if (!base_int64_multiply(shape->output[i], shape->stride[i], &limit) || limit > INT32_MAX ||
            !base_int64_multiply(shape->kernel[i], shape->dilation[i], &limit) || limit > INT32_MAX)
            return false;
    const double all = (double)shape->blocks * (double)reach(shape, 0, 1) *
                       (double)(reach(shape, 1, shape->output[1]) + shape->stride[1]) * BLOCK * sizeof(float);
    if (!(all < INT32_MAX)) return false;
    *bytes = (size_t)choose_band(shape);
    const int64_t panel = shape->panel_elements * (int64_t)sizeof(uint16_t),
                  near = panel > 0 ? NEAR_WEIGHTS / panel / 2 * 2 : shape->panels;
    shape->together = near < 2 ? 2 : near;
    for (int64_t ky = 0; ky < shape->kernel[0]; ky++) {
        for (int64_t kx = 0; kx < shape->kernel[1]; kx++) {
            const int64_t column = kx * shape->dilation[1], row = ky * shape->dilation[0];
            shape->taps[ky * shape->kernel[1] + kx] =
                (int32_t)(((row * shape->stride[1] + column % shape->stride[1]) * shape->phase_width +
                           column / shape->stride[1]) *
                          shape->pixel);
        }
    }
    return true;
}

/* ---- running ------------------------------------------------------------------------------------------------ */

/* Outputs that are made from one scratch, with some panels. */
typedef struct band {
    int64_t image, group;
    int64_t row, rows, column, columns;
    int64_t panel, end_panel;
    int64_t top; /* the row of the image that is the first of the scratch */
} band;

/* Elements from the beginning of an image to a channel that begins a block, and from a pixel to the next. */
static int64_t channel_offset(op_layout layout, int64_t channel, int64_t pixels) {
    return layout == OP_LAYOUT_NHWC ? channel : channel * pixels;
}

static int64_t pixel_step(op_layout layout, int64_t channels) {
    return layout == OP_LAYOUT_NHWC ? channels : layout == OP_LAYOUT_NC16 ? BLOCK : 1;
}

static int64_t image_elements(op_layout layout, int64_t channels, int64_t pixels) {
    return (layout == OP_LAYOUT_NC16 ? parts(channels, BLOCK) * BLOCK : channels) * pixels;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Pixels of a few maps, as the windows of one phase of the stride see them: `count` from `from` on, every stride-th. */
static void place_floats(float (*maps)[RT_HALF_BLOCK], int64_t from, int64_t stride, int64_t count,
                         float *to) {
    for (int64_t i = from; i < count; i += stride, to += RT_HALF_FEW) {
        const rt_floats_4 pixel = {maps[0][i], maps[1][i], maps[2][i], maps[3][i]};
        memcpy(to, &pixel, sizeof pixel);
    }
}

static void place_halves(uint16_t (*maps)[RT_HALF_BLOCK], int64_t from, int64_t stride, int64_t count,
                         uint16_t *to) {
    for (int64_t i = from; i < count; i += stride, to += RT_HALF_FEW) {
        const uint16_t pixel[RT_HALF_FEW] = {maps[0][i], maps[1][i], maps[2][i], maps[3][i]};
        memcpy(to, pixel, sizeof pixel);
    }
}

/* Pixels of a few maps that are row-major: the channels beside each other. */
static void enter_planes(const rt_half_shape *s, const rt_half_line *line, int64_t elements, void *scratch) {
    uint16_t halves[RT_HALF_FEW][RT_HALF_BLOCK] = {{0}};
    float floats[RT_HALF_FEW][RT_HALF_BLOCK] = {{0}};
    const bool widened = s->steps->element == sizeof(float);
    memset(scratch, 0, (size_t)elements * s->steps->element);
    for (int64_t done = 0; done < line->inside; done += RT_HALF_BLOCK) {
        const int64_t some = least(line->inside - done, RT_HALF_BLOCK), first = line->before + done;
        for (int64_t c = 0; c < line->channels; c++) {
            const uint16_t *plane = line->from + c * s->input_size + done * line->pixel;
            if (line->pixel == 1) memcpy(halves[c], plane, (size_t)some * sizeof *plane);
            else
                for (int64_t i = 0; i < some; i++) halves[c][i] = plane[i * line->pixel];
            if (widened) rt_half_load(s->dtype, floats[c], halves[c], some);
        }
        for (int64_t i = 0; i < line->stride && i < some; i++) {
            const int64_t at = first + i,
                          to = (at % line->stride * line->phase_width + at / line->stride) * RT_HALF_FEW;
            if (widened) place_floats(floats, i, line->stride, some, (float *)scratch + to);
            else place_halves(halves, i, line->stride, some, (uint16_t *)scratch + to);
        }
    }
}

static void enter_band(const rt_half_job *job, const band *b, char *scratch) {
    const rt_half_shape *s = job->shape;
    const int64_t all = s->all_channels, row_elements = s->stride[1] * s->phase_width * s->pixel;
    const int64_t left = b->column * s->stride[1] - s->before[1], count = reach(s, 1, b->columns);
    const int64_t first = left < 0 ? 0 : left, end = left + count < s->input[1] ? left + count : s->input[1];
    rt_half_line line = {.pixel = pixel_step(s->from, all) * s->skip[1],
                         .count = count,
                         .before = first - left,
                         .inside = end > first ? end - first : 0,
                         .stride = s->stride[1],
                         .phase_width = s->phase_width};
    for (int64_t block = 0; block < s->blocks; block++) {
        const int64_t first_channel = b->group * s->channels + block * BLOCK,
                      rest = least(s->channels - block * BLOCK, s->all_channels - first_channel);
        const uint16_t *image = job->x + b->image * image_elements(s->from, all, s->input_size) +
                                channel_offset(s->from, first_channel, s->input_size);
        line.channels = rest < BLOCK ? rest : BLOCK;
        for (int64_t r = 0; r < reach(s, 0, b->rows); r++) {
            const int64_t row = b->top + r;
            if (row < 0 || row >= s->input[0]) continue;
            line.from = line.inside == 0 ? image
                                         : image + (row * s->skip[0] * s->source_width + first * s->skip[1]) *
                                                       pixel_step(s->from, all);
            void *to = scratch + (size_t)((block * s->band_rows + r) * row_elements) * s->steps->element;
            if (s->from == OP_LAYOUT_ROW_MAJOR) enter_planes(s, &line, row_elements, to);
            else s->steps->enter(&line, to);
        }
    }
}

/* The elements of the window, by rows, that see rows of the image. */
static void find_taps(const rt_half_shape *s, int64_t row, rt_half_tile *tile) {
    const rt_part inside =
        rt_part_inside(row * s->stride[0] - s->before[0], s->dilation[0], s->input[0], s->kernel[0]);
    tile->all_taps = s->kernel[0] * s->kernel[1];
    tile->first_tap = inside.low * s->kernel[1];
    tile->end_tap = inside.high * s->kernel[1];
    if (inside.low >= inside.high) tile->first_tap = tile->end_tap = 0;
}

/* One or two panels at the pixels of a band, or, in narrow vectors, two of them from `part` of a panel on. */
static void run_panels(const rt_half_job *job, const band *b, const char *scratch, int64_t panel,
                       int64_t part, int64_t count) {
    const rt_half_shape *s = job->shape;
    const rt_half_steps *steps = s->steps;
    const int64_t all = s->all_filters, begin = panel * BLOCK + part, first = b->group * s->filters + begin;
    const bool narrow = steps->lanes < BLOCK;
    const int64_t filter_weights = s->by_channel ? 1 : block_elements(s->dtype, 1) / BLOCK;
    float bias[2 * BLOCK] = {0};
    rt_half_tile tile = {.channels = s->channels,
                         .block_step = s->band_rows * s->stride[1] * s->phase_width * s->pixel,
                         .taps = s->taps,
                         .weights = job->weights + (b->group * s->panels + panel) * s->panel_elements +
                                    part * filter_weights,
                         .weights_vector = narrow ? filter_weights * steps->lanes : s->panel_elements,
                         .bias = bias,
                         .y_pixel = pixel_step(s->to, all) * s->step[1],
                         .y_vector = narrow ? steps->lanes : channel_offset(s->to, BLOCK, s->output_size),
                         .activation = s->limits ? NULL : &s->activation,
                         .low = s->limits ? s->low : -INFINITY,
                         .high = s->limits ? s->high : INFINITY};
    const int64_t vectors = narrow ? 2 : count,
                  at = b->image * image_elements(s->to, all, s->output_size) +
                       channel_offset(s->to, first - first % BLOCK, s->output_size) + first % BLOCK;
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t rest = least(s->filters - begin, s->all_filters - first) - v * steps->lanes;
        tile.lanes[v] = rest < 0 ? 0 : rest < steps->lanes ? rest : steps->lanes;
        tile.stored[v] = s->to == OP_LAYOUT_NHWC ? tile.lanes[v] : steps->lanes;
        if (s->bias)
            rt_half_load(s->dtype, bias + v * steps->lanes, job->bias + first + v * steps->lanes,
                         tile.lanes[v]);
    }
    tile.beside =
        tile.activation || tile.lanes[0] < steps->lanes || (vectors > 1 && tile.lanes[1] < steps->lanes);
    const int64_t tiles = parts(b->columns, steps->most);
    for (int64_t r = 0; r < b->rows; r++) {
        find_taps(s, b->row + r, &tile);
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t column = b->columns * t / tiles, wide = b->columns * (t + 1) / tiles - column;
            const int64_t row = (b->row + r) * s->step[0] + s->first[0],
                          y = at + (row * s->output_width + s->first[1]) * pixel_step(s->to, all) +
                              (b->column + column) * tile.y_pixel;
            const int64_t x = (r * s->stride[0] * s->stride[1] * s->phase_width + column) * s->pixel +
                              (s->by_channel ? part : 0);
            tile.x = scratch + (size_t)x * steps->element;
            tile.y = job->y + y;
            tile.residual = job->residual ? job->residual + y : NULL;
            (s->by_channel ? steps->channels
                           : steps->run[s->pixel == RT_HALF_FEW][vectors - 1])[wide - 1](&tile);
        }
    }
}

static void run_member(void *context, int member, int members) {
    const rt_half_job *job = context;
    const rt_half_shape *s = job->shape;
    const int64_t down = parts(s->output[0], s->rows), across = parts(s->output[1], s->columns),
                  bands = down * across, images = s->images * s->group;
    /* Where there are few bands, threads share out the filters, too. */
    int64_t together = s->together;
    while (together > 2 && images * bands * parts(s->panels, together) < MOST_ROUNDS * members && members > 1)
        together = (together / 2 + 1) / 2 * 2;
    const int64_t groups = parts(s->panels, together), items = images * groups * bands;
    char *scratch = job->scratch + (size_t)member * job->each;
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t at = item % bands, group = item / bands % groups, image = item / bands / groups;
        band b = {.image = image / s->group,
                  .group = image % s->group,
                  .row = at / across * s->rows,
                  .column = at % across * s->columns,
                  .panel = group * together,
                  .end_panel = (group + 1) * together};
        b.rows = s->output[0] - b.row < s->rows ? s->output[0] - b.row : s->rows;
        b.columns = s->output[1] - b.column < s->columns ? s->output[1] - b.column : s->columns;
        b.top = b.row * s->stride[0] - s->before[0];
        if (b.end_panel > s->panels) b.end_panel = s->panels;
        enter_band(job, &b, scratch);
        const int64_t step = s->steps->lanes < BLOCK ? 1 : 2;
        for (int64_t panel = b.panel; panel < b.end_panel; panel += step)
            for (int64_t part = 0; part < BLOCK; part += 2 * s->steps->lanes)
                run_panels(job, &b, scratch, panel, part,
                           b.end_panel - panel < step ? b.end_panel - panel : step);
    }
}

void rt_half_run(const rt_half_job *job, int threads) {
    const rt_half_shape *shape = job->shape;
    if (shape->output[0] == 0 || shape->output[1] == 0 || shape->images == 0) return;
    const double work = (double)shape->images * (double)shape->output[0] * (double)shape->output[1] *
                        (double)(rt_half_elements(shape) + shape->all_filters);
    rt_half_job own = *job;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : threads, run_member, &own);
}
