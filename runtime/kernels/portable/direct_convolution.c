/* SPDX-License-Identifier: Apache-2.0 */
/* direct_convolution.c: Conv in float on images whose channels lie side by side, in blocks of 16 or innermost, with windows of up to 128
 * elements. The image may also be row-major, of a few channels; a window of one row may then have up to 8,192 elements. Channels of the result lie
 * side by side; of signals it is row-major where nobody wants that, and made so (direct_rows.c) or turned.
 *
 * Lanes are filters. A tile is some panels of 16 filters at some points, whose sums stay in registers while all channels of all elements of the
 * window pass by (direct_tiles.c); results are finished before they are written. Nothing is made for a shape when a session begins but a table
 * of places. Weights that are computed in the run are packed into scratch (direct_weights.c). So are the rows of a signal, with zeros at their
 * ends, where many results see beyond it: without these zeros each such result would read all weights for itself. Chetlur et al., "cuDNN:
 * Efficient Primitives for Deep Learning" (2014), describes a convolution as a product of which one factor is never stored.
 *
 * The weights: [16 filters][part of the channels][element of the window][channel of the part][filter]; parts are blocks, or up to 64
 * channels that lie innermost, or single maps. They do not depend on the extents of images, which may be open when they are packed. After
 * them stands one number more, which tells these weights from those that other kernels pack, and whether all are finite.
 *
 * Sums begin with the bias and are made in the order of the weights, each product and its sum rounded once, whatever the tile and the number
 * of threads.
 */
#include "runtime/kernels/portable/direct_convolution.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/direct_rows.h"
#include <math.h>
#include <string.h>

enum {
    LANES = RT_DIRECT_LANES,
    DIMENSIONS = RT_DIRECT_DIMENSIONS,
    LEAST_FILTERS = 8, /* fewer leave most lanes empty */
    /* A tile may end a row and begin the next where rows have so many points at most, that see so many channels, with elements of the window
     * that lie no farther apart. */
    SHORT_ROW = 12,
    MANY_POINTS = 16, /* for each of those at the ends of a single row */
    MANY_CHANNELS = 16,
    NEAR_ELEMENTS = 3,
    WORTH_COPY = 4,        /* products that each number of a copy is to save */
    WORTH_POINTS = 32,     /* of results, to pack weights in a run */
    NEAR_BYTES = 256 << 10 /* of weights that pass over all points before others do */
};

/* ---- shapes -------------------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* How channels are read, and the weights with them. False for windows that are too large. */
static bool find_parts(rt_direct *s) {
    rt_direct_shape *tiles = &s->tiles;
    const int64_t most = s->from == OP_LAYOUT_NC16 ? LANES : RT_DIRECT_DEPTH;
    size_t bytes = LANES * sizeof(float);
    const bool maps = rt_direct_reads_maps(s), one_row = s->window.kernel[0] == 1 && s->window.kernel[1] == 1;
    const int64_t longest = maps && one_row ? RT_DIRECT_LONG : RT_DIRECT_TAPS;
    for (int i = 0; i < DIMENSIONS; i++)
        if (s->window.kernel[i] < 1 || s->window.kernel[i] > longest) return false;
    const int64_t elements = rt_direct_product(s->window.kernel);
    if (elements > longest || !base_size_multiply(bytes, (size_t)s->channels, &bytes) ||
        !base_size_multiply(bytes, (size_t)elements, &bytes))
        return false;
    tiles->taps = maps ? s->channels * elements : elements;
    tiles->depth = maps ? 1 : least(s->channels, most);
    tiles->parts = maps ? 1 : (s->channels + most - 1) / most;
    tiles->last = maps ? 1 : s->channels - (tiles->parts - 1) * most;
    tiles->panel_floats = (int64_t)(bytes / sizeof(float));
    return base_size_multiply(bytes, (size_t)(rt_direct_panel_count(s) * s->groups), &s->packed_bytes) &&
           base_size_add(s->packed_bytes, sizeof(float), &s->packed_bytes);
}

static bool read_window(const op_call *call, rt_direct *s) {
    op_window window;
    if (op_window_read(call, call->inputs[1].type.shape.dims + 2, &window, NULL) != BASE_OK) return false;
    s->window = op_window_of_three(&window);
    return true;
}

/* Whether results may lie so for images that lie so. Those of signals of a few channels may be row-major. */
static bool fits_layouts(const rt_direct *s) {
    if (s->to == OP_LAYOUT_ROW_MAJOR && !(rt_direct_reads_maps(s) && s->signal && !s->residual)) return false;
    const bool rows = s->to == OP_LAYOUT_ROW_MAJOR, blocks = s->to == OP_LAYOUT_NC16,
               innermost = s->to == OP_LAYOUT_NHWC;
    if (s->groups > 1 && (s->filters % LANES != 0 || (!innermost && s->channels % LANES != 0))) return false;
    if (!blocks && !innermost && !rows) return false;
    return rt_direct_reads_maps(s) ? s->channels <= RT_DIRECT_MAPS_READ && s->groups == 1 : s->from == s->to;
}

/* False where the application is no convolution of this kind. Extents of images may be open. */
static bool read_kind(const op_call *call, op_layout from, op_layout to, rt_direct *s) {
    const op_type *x = &call->inputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    if (call->code != OP_CONV || x->dtype != OP_FLOAT || x->shape.rank < 3 ||
        x->shape.rank > 2 + DIMENSIONS || weights->rank != x->shape.rank || !op_shape_known(weights))
        return false;
    *s = (rt_direct){.images = x->shape.dims[0],
                     .channels = weights->dims[1],
                     .groups = op_attribute_integer(&call->attributes, "group", 1),
                     .from = from,
                     .to = to,
                     .signal = x->shape.rank == 3,
                     .bias = op_input_present(call, 2),
                     .residual = op_input_present(call, 3)};
    if (s->groups < 1 || weights->dims[0] % s->groups != 0) return false;
    s->filters = weights->dims[0] / s->groups;
    if (s->filters < LEAST_FILTERS || s->channels < 1 || x->shape.dims[1] != s->channels * s->groups)
        return false;
    if (!read_window(call, s) || !find_parts(s) || !fits_layouts(s)) return false;
    if (!rt_activation_read(&call->attributes, &s->activation)) return false;
    const bool limits = rt_activation_limits(&s->activation, &s->tiles.low, &s->tiles.high);
    s->tiles.gated = s->activation.kind == RT_ACTIVATION_HARD_SWISH;
    s->finished = limits || s->tiles.gated;
    if (!limits) {
        s->tiles.low = -INFINITY;
        s->tiles.high = INFINITY;
    }
    return true;
}

/* There are enough points for each weight that is computed to be worth packing it. */
static bool are_many_points(const op_call *call) {
    const op_shape *y = &call->outputs[0].type.shape;
    int64_t points = 1;
    for (int32_t d = 0; d < y->rank; d++)
        if (d != 1 && (y->dims[d] < 0 || !base_int64_multiply(points, y->dims[d], &points))) return true;
    return points >= WORTH_POINTS;
}

/* They are no constant, and lie as ONNX has them. */
static bool are_computed(const op_tensor *weights) {
    return weights->type.layout == OP_LAYOUT_ROW_MAJOR && weights->type.dtype == OP_FLOAT && !weights->data;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_direct shape;
    const op_tensor *weights = &call->inputs[1];
    const bool packed = weights->type.layout == OP_LAYOUT_PACKED;
    return rt_has_wide_vectors(environment) && (packed || (are_computed(weights) && are_many_points(call))) &&
           read_kind(call, call->inputs[0].type.layout, call->outputs[0].type.layout, &shape) &&
           (!packed || weights->type.packed_bytes == shape.packed_bytes) &&
           (!shape.bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR) &&
           (!shape.residual || call->inputs[3].type.layout == shape.to);
}

/* oneDNN's take up to a sixth less time for windows in space, and for those whose elements lie far apart. */
static bool is_usual(const rt_direct *s) {
    return s->window.kernel[0] == 1 && s->window.dilation[1] <= NEAR_ELEMENTS &&
           s->window.dilation[2] <= NEAR_ELEMENTS;
}

/* What has its channels innermost keeps them there; else blocks of 16, which let a Concat along the channels be a view. Blocks that would
 * be padding to a large part cost memory and time. */
static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    static const struct {
        op_layout from, to;
    } forms[] = {{OP_LAYOUT_NHWC, OP_LAYOUT_NHWC},
                 {OP_LAYOUT_NC16, OP_LAYOUT_NC16},
                 {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16},
                 {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NHWC},
                 {OP_LAYOUT_NHWC, OP_LAYOUT_NHWC}};
    rt_direct shape;
    const bool computed = !call->inputs[1].data;
    if (!rt_has_wide_vectors(environment) || call->code != OP_CONV ||
        (computed && (!are_computed(&call->inputs[1]) || !are_many_points(call))))
        return false;
    for (size_t i = preference->inputs[0] == OP_LAYOUT_NHWC ? 0 : 1; i < sizeof forms / sizeof *forms; i++) {
        if (!op_layout_is_cheap(forms[i].from, call->inputs[0].type.shape.dims[1]) ||
            !op_layout_is_cheap(forms[i].to, call->outputs[0].type.shape.dims[1]) ||
            !read_kind(call, forms[i].from, forms[i].to, &shape) || (!computed && !is_usual(&shape)))
            continue;
        *preference =
            (rt_preference){.inputs = {forms[i].from, computed ? OP_LAYOUT_ROW_MAJOR : OP_LAYOUT_PACKED},
                            .output = forms[i].to};
        preference->packed_bytes[1] = computed ? 0 : shape.packed_bytes;
        if (shape.residual) preference->inputs[3] = forms[i].to;
        return true;
    }
    return false;
}

/* Results along the last dimension whose windows reach beside the image. */
static int64_t clipped_results(const rt_direct *s) {
    const int64_t stride = s->window.stride[2], results = s->window.output[2],
                  first = least((s->window.before[2] + stride - 1) / stride, results),
                  end = least(rt_direct_inside_end(s, 2), results);
    return end > first ? results - (end - first) : results;
}

/* Of a row with zeros at its ends, as far as windows see it. */
static int64_t margined_width(const rt_direct *s) {
    return (s->window.output[2] - 1) * s->window.stride[2] +
           (s->window.kernel[2] - 1) * s->window.dilation[2] + 1;
}

/* Bytes of a copy whose rows have zeros at their ends; 0: none is made. Each result that sees beside a signal would be a tile, which reads all
 * weights for itself. `as_rows`: results are made as rows, and the copy is as direct_rows.c wants it. */
static size_t copied_bytes(const rt_direct *s, bool *as_rows) {
    size_t floats = sizeof(float), turned;
    int64_t length;
    *as_rows = rt_direct_makes_rows(s) && rt_direct_rows_copy(s, &length, &turned);
    if (*as_rows) return turned;
    if (!rt_direct_reads_maps(s) || !rt_direct_is_one_row(s) || s->images < 1 || s->window.output[2] < 1)
        return 0;
    for (int d = 0; d < DIMENSIONS; d++)
        if (s->window.input[d] < 1) return 0;
    const int64_t rows = s->window.input[0] * s->window.input[1], width = margined_width(s);
    const double weights = (double)rt_direct_product(s->window.kernel) * (double)s->filters,
                 copied = (double)s->images * (double)rows * (double)width;
    if ((double)s->images * (double)clipped_results(s) * weights < WORTH_COPY * copied) return 0;
    if (!base_size_multiply(floats, (size_t)(s->images * s->channels), &floats) ||
        !base_size_multiply(floats, (size_t)rows, &floats) ||
        !base_size_multiply(floats, (size_t)width, &floats))
        return 0;
    return base_size_align(floats, RT_ALIGNMENT, &floats) ? floats : 0; /* for what follows */
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_direct shape;
    if (!rt_has_wide_vectors(environment) || are_computed(&call->inputs[1]) ||
        !read_kind(call, call->inputs[0].type.layout, call->outputs[0].type.layout, &shape) ||
        !rt_direct_convolution_estimate(call, environment, scratch_limit, cost))
        return false;
    cost->packed_bytes = shape.packed_bytes;
    cost->scratch_bytes = copied_bytes(&shape, &shape.rows);
    return true;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

static bool read_packed(const op_call *call, rt_direct *s) {
    return read_kind(call, call->inputs[0].type.layout, call->outputs[0].type.layout, s);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    rt_direct shape;
    (void)environment;
    if (input != 1 || !read_packed(call, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    rt_direct_pack(&shape, plain->data, packed, 1);
    return BASE_OK;
}

static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *plain, base_report *report) {
    rt_direct shape;
    (void)environment;
    if (input != 1 || !read_packed(call, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    rt_direct_unpack(&shape, packed->data, plain);
    return BASE_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* The largest part of all that one of the members has, where units are dealt out whole. */
static double largest_part(int64_t units, int members) {
    return (double)((units + members - 1) / members) / (double)units;
}

/* Threads share the points, so that what one wrote it reads again; or the panels, where these can be dealt out more evenly. */
static void run_member(void *context, int member, int members) {
    const rt_direct_job *job = context;
    const rt_direct *s = job->shape;
    static const double MUCH = 0.95;
    const int64_t panels = rt_direct_panel_count(s),
                  pairs = (panels + RT_DIRECT_PANELS - 1) / RT_DIRECT_PANELS, all = s->groups * pairs;
    const bool shared = largest_part(all, members) < MUCH * largest_part(rt_direct_units(s), members);
    const int64_t near = NEAR_BYTES / (s->tiles.panel_floats * (int64_t)sizeof(float)) / RT_DIRECT_PANELS,
                  together = near < 1 ? 1 : near, first = shared ? all * member / members : 0,
                  end = shared ? all * (member + 1) / members : all;
    for (int64_t pair = first; pair < end;) {
        const int64_t at = pair % pairs, count = least(least(together, pairs - at), end - pair);
        const rt_direct_panels range = {.group = pair / pairs,
                                        .first = at * RT_DIRECT_PANELS,
                                        .end = least((at + count) * RT_DIRECT_PANELS, panels)};
        rt_direct_run_part(job, &range, shared ? 0 : member, shared ? 1 : members);
        pair += count;
    }
}

void rt_direct_run_all(const rt_direct_job *job, int threads) {
    const rt_direct *s = job->shape;
    const double work = (double)s->images * (double)rt_direct_product(s->window.output) *
                        (double)(s->groups * s->filters) *
                        (double)(s->channels * rt_direct_product(s->window.kernel));
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : threads, run_member, (void *)(uintptr_t)job);
}

/* All rows of all images with zeros at their ends. */
static void copy_rows(const rt_direct *s, const float *x, float *copy) {
    const int64_t width = s->window.input[2], wide = s->margined->window.input[2],
                  before = least(s->window.before[2], wide), seen = least(width, wide - before),
                  rows = s->images * s->channels * s->window.input[0] * s->window.input[1];
    for (int64_t row = 0; row < rows; row++, x += width, copy += wide) {
        memset(copy, 0, (size_t)before * sizeof *copy);
        memcpy(copy + before, x, (size_t)seen * sizeof *copy);
        memset(copy + before + seen, 0, (size_t)(wide - before - seen) * sizeof *copy);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const rt_direct *shape = prepared->state;
    float *copy = scratch,
          *weights = shape->computed ? copy + shape->copy_bytes / sizeof *copy : inputs[1].data;
    if (shape->computed) rt_direct_pack(shape, inputs[1].data, weights, prepared->threads);
    rt_direct_job job = {.shape = shape,
                         .x = inputs[0].data,
                         .weights = weights,
                         .bias = shape->bias ? inputs[2].data : NULL,
                         .residual = shape->residual ? inputs[3].data : NULL,
                         .y = outputs[0].data,
                         .finite = rt_direct_are_finite(shape, weights)};
    if (shape->images * rt_direct_product(shape->window.output) == 0) return BASE_OK;
    /* Zeros at the ends count for nothing if all weights are finite. */
    if (shape->rows && job.finite) {
        rt_direct_run_rows(&job, shape->margined->places, copy, prepared->threads);
        return BASE_OK;
    }
    if (shape->copy_bytes && !shape->rows && job.finite) {
        copy_rows(shape, inputs[0].data, copy);
        job.shape = shape->margined;
        job.x = copy;
    }
    rt_direct_run_all(&job, prepared->threads);
    return BASE_OK;
}

bool rt_direct_set_points(rt_direct *s, op_layout from, int64_t channels, int64_t filters) {
    *s = (rt_direct){.images = 1,
                     .channels = channels,
                     .filters = filters,
                     .groups = 1,
                     .from = from,
                     .to = OP_LAYOUT_NC16,
                     .finished = true};
    s->tiles.low = -INFINITY;
    s->tiles.high = INFINITY;
    for (int d = 0; d < DIMENSIONS; d++)
        s->window.kernel[d] = s->window.stride[d] = s->window.dilation[d] = s->window.input[d] =
            s->window.output[d] = 1;
    return find_parts(s);
}

void rt_direct_set_place(rt_direct *s, int64_t pixels, int64_t count, int64_t capacity) {
    static const int64_t here = 0;
    const bool innermost = s->from == OP_LAYOUT_NHWC;
    s->window.input[DIMENSIONS - 1] = s->window.output[DIMENSIONS - 1] = count;
    s->pixel = innermost ? s->channels : LANES;
    s->channels_step = innermost ? RT_DIRECT_DEPTH : pixels * LANES;
    s->y_pixel = LANES;
    s->tiles.y_panel = s->y_panel = capacity * LANES;
    s->places = &here;
}

/* Whether tiles go through all rows: where rows are shorter than tiles; and in a single row, where each point at its ends would be a tile, if
 * these are not few. */
static bool has_short_rows(const rt_direct *s) {
    const int64_t points = s->window.output[2];
    return points <= SHORT_ROW || (rt_direct_is_one_row(s) && points <= MANY_POINTS * clipped_results(s));
}

/* Once the extents of images are known. */
static bool read_extents(const op_call *call, const rt_environment *environment, rt_direct *s) {
    if (!accepts(call, environment) || !read_packed(call, s) || s->images < 0) return false;
    s->computed = are_computed(&call->inputs[1]);
    bool single = rt_direct_product(s->window.kernel) == 1;
    for (int d = 0; d < DIMENSIONS; d++) {
        if (s->window.input[d] < 0 || s->window.output[d] < 0) return false;
        single &=
            s->window.stride[d] == 1 && s->window.before[d] == 0 && s->window.output[d] == s->window.input[d];
    }
    const bool maps = rt_direct_reads_maps(s), innermost = s->from == OP_LAYOUT_NHWC,
               to_blocks = s->to == OP_LAYOUT_NC16, to_rows = s->to == OP_LAYOUT_ROW_MAJOR;
    const int64_t channels = s->groups * s->channels, pixels = rt_direct_product(s->window.input),
                  filters = s->groups * s->filters, panels = rt_direct_panel_count(s),
                  points = rt_direct_product(s->window.output);
    s->pixel = maps ? 1 : innermost ? channels : LANES;
    s->channels_step = innermost ? RT_DIRECT_DEPTH : pixels * s->pixel;
    s->image_step = pixels * (maps || innermost ? channels : (channels + LANES - 1) / LANES * LANES);
    s->group_step = s->channels * (innermost ? 1 : pixels);
    s->y_pixel = to_blocks ? LANES : to_rows ? 1 : filters;
    s->y_panel = to_blocks || to_rows ? points * LANES : LANES;
    s->tiles.y_panel = to_rows ? LANES : s->y_panel; /* rows are turned after the tiles */
    s->y_image_step = points * (to_blocks ? s->groups * panels * LANES : filters);
    s->y_group_step = to_blocks ? panels * s->y_panel : s->filters;
    for (int d = 0; d < DIMENSIONS && single; d++) /* which see each point in turn: they are one row */
        s->window.input[d] = s->window.output[d] = d == DIMENSIONS - 1 ? points : 1;
    s->spots = !single && !maps && s->tiles.depth >= MANY_CHANNELS && has_short_rows(s) &&
               s->window.dilation[1] <= NEAR_ELEMENTS && s->window.dilation[2] <= NEAR_ELEMENTS;
    return true;
}

static void fill_places(rt_direct *s, int64_t *places) {
    const int64_t *kernel = s->window.kernel, elements = rt_direct_product(kernel);
    for (int64_t t = 0; t < s->tiles.taps; t++) {
        const int64_t channel = t / elements,
                      at[] = {t % elements / kernel[2] / kernel[1], t / kernel[2] % kernel[1], t % kernel[2]};
        int64_t place = 0;
        for (int d = 0; d < DIMENSIONS; d++)
            place = place * s->window.input[d] + at[d] * s->window.dilation[d];
        places[t] = place * s->pixel + channel * s->channels_step;
    }
    s->places = places;
}

/* The tables of places, and where a copy is made, the convolution of that. */
static void settle(rt_direct *s, rt_prepared *prepared) {
    rt_direct *margined = (rt_direct *)(uintptr_t)s->margined;
    fill_places(s, (int64_t *)(uintptr_t)s->places);
    s->copy_bytes = margined ? copied_bytes(s, &s->rows) : 0;
    prepared->scratch_bytes = s->copy_bytes + (s->computed ? s->packed_bytes : 0);
    if (s->rows) rt_direct_rows_places(s, (int64_t *)(uintptr_t)margined->places);
    if (s->copy_bytes == 0 || s->rows) return;
    const int64_t *places = margined->places;
    *margined = *s;
    margined->window.before[2] = 0;
    margined->window.input[2] = margined_width(s);
    margined->channels_step = rt_direct_product(margined->window.input);
    margined->image_step = margined->group_step = s->channels * margined->channels_step;
    fill_places(margined, (int64_t *)(uintptr_t)places);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_direct *shape = BASE_NEW(arena, rt_direct), *margined = NULL;
    if (!shape) return base_fail_memory(report);
    if (!read_extents(call, environment, shape))
        return base_fail(report, BASE_INVALID, "this convolution has no weights in panels");
    const size_t taps = (size_t)shape->tiles.taps;
    shape->places = BASE_ARRAY(arena, int64_t, taps);
    if (rt_direct_reads_maps(shape)) {
        margined = BASE_NEW(arena, rt_direct);
        if (!margined || !(margined->places = BASE_ARRAY(arena, int64_t, taps)))
            return base_fail_memory(report);
        shape->margined = margined;
    }
    if (!shape->places) return base_fail_memory(report);
    settle(shape, prepared);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

/* Images of other extents: the tables are as large. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    rt_direct *shape = prepared->state;
    const int64_t *const places = shape->places;
    const rt_direct *const margined = shape->margined;
    if (!read_extents(call, environment, shape)) return false;
    shape->places = places;
    shape->margined = margined;
    settle(shape, prepared);
    return true;
}

const rt_kernel rt_kernel_direct_convolution = {.name = "portable.direct_convolution",
                                                .accepts = accepts,
                                                .prefer = prefer,
                                                .pack = pack,
                                                .unpack = unpack,
                                                .estimate = estimate,
                                                .never_portable = true,
                                                .prepare = prepare,
                                                .adapt = adapt,
                                                .packs_for_any_output = true};
