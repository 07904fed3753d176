/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_shape.c: which convolutions Winograd's can do, and in which tiles and blocks; see winograd.c. */
#include "runtime/kernels/portable/winograd.h"

enum {
    FEWEST_CHANNELS = 8,
    FEWEST_EACH = 6,       /* tiles for each thread that shares them: so many rows a product has at least */
    OWN_CACHE = 640 << 10, /* bytes of transformed weights that a core keeps by itself */
    /* Times what is transformed in a block. Of weights up to there, threads that share tiles read them all in less time than tiles take
     * from one core to another: 0.54 to 0.95 of the time on two cores, 1.03 to 1.2 with more weights. */
    MOST_WEIGHTS = 3,
    FEWEST_TILES =
        64 /* of a block of several small images, at least, if there are so many: U is read for each block */
};

/* Tiles of a block that one thread computes by itself, at most: all of them, where threads do not share them out. */
static int64_t part_tiles(const winograd *shape) {
    const int64_t parts = shape->shared ? shape->threads : 1;
    return (shape->tiles_each + parts - 1) / parts;
}

static void set_tiles(winograd *shape, int64_t tiles) {
    shape->tiles_each = is_row_major(shape)   ? round_up(tiles, RT_PANEL)
                        : tiles < LEAST_TILES ? LEAST_TILES
                                              : tiles;
    shape->v_point = shape->tiles_each * shape->depth + PAD;
    /* Nobody has looked yet whether such numbers fit. */
    const double points = (double)shape->points,
                 weights = points * (double)shape->channels * (double)shape->columns * sizeof(float),
                 entered = points * (double)shape->v_point * sizeof(float),
                 left = points * (double)shape->tiles_each * (double)shape->columns * sizeof(float);
    /* Each of the threads that share tiles transforms all weights, where these are not constant. */
    const double most = shape->transforms ? entered : MOST_WEIGHTS * (entered + left);
    shape->shared = shape->threads > 1 && !is_row_major(shape) &&
                    shape->tiles_each >= FEWEST_EACH * shape->threads &&
                    (weights <= OWN_CACHE || weights <= most);
    shape->grouped = !is_row_major(shape) && (shape->transforms || shape->shared || shape->threads == 1 ||
                                              shape->columns / RT_PANEL >= PANELS_EACH * shape->threads);
    shape->m_point = part_tiles(shape) * row_of_m(shape) + PAD;
}

void rt_winograd_set_blocks(winograd *shape, int64_t blocks) {
    set_tiles(shape, (shape->tiles + blocks - 1) / blocks);
}

/* The work where so many blocks make up one image, of whose number nobody knew. */
static void set_image_blocks(winograd *shape, int64_t blocks) {
    const int64_t image = shape->grid[0] * shape->grid[1], all = round_up(shape->tiles, RT_PANEL);
    int64_t each = round_up((image + blocks - 1) / blocks, RT_PANEL);
    if (each < FEWEST_TILES) each = FEWEST_TILES;
    if (each > all) each = all;
    if (each == 0) each = RT_PANEL; /* no images */
    set_tiles(shape, each);
}

/* Windows along one axis of an image, or of a signal, which is an image one row high. */
static bool read_line(const op_window *window, winograd *shape) {
    const int across = window->rank - 1;
    for (int i = 0; i < 2; i++) {
        const int at = i - (2 - window->rank); /* the axis of the window; below 0: there is none */
        shape->input[i] = at < 0 ? 1 : window->input[at];
        shape->output[i] = at < 0 ? 1 : window->output[at];
        shape->before[i] = at < 0 ? 0 : window->before[at];
        shape->covers[i] = 1;
    }
    shape->line = window->rank == 2 && window->kernel[across] == 1 ? 0 : 1;
    const int at = shape->line - (2 - window->rank), other = 1 - shape->line;
    const int64_t weights = window->kernel[at];
    if ((weights != 3 && weights != MOST_LINE_WEIGHTS) || shape->output[other] != shape->input[other] ||
        shape->before[other] != 0 || (window->rank == 2 && window->kernel[other] != 1))
        return false;
    shape->points = LINE_POINTS;
    shape->weights = weights;
    shape->covers[shape->line] = LINE_POINTS - weights + 1;
    return !is_row_major(shape);
}

static bool read_square(const op_window *window, winograd *shape) {
    shape->line = -1;
    shape->points = POINTS;
    shape->weights = WEIGHTS;
    for (int i = 0; i < 2; i++) {
        if (window->kernel[i] != WINDOW) return false;
        shape->input[i] = window->input[i];
        shape->output[i] = window->output[i];
        shape->before[i] = window->before[i];
        shape->covers[i] = OUTPUTS;
    }
    return true;
}

bool rt_winograd_read(const op_call *call, const rt_environment *environment, bool transforms,
                      winograd *shape) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_window window;
    if (call->code != OP_CONV || (x->dtype != OP_FLOAT && !rt_is_half(x->dtype)) || x->shape.rank < 3 ||
        x->shape.rank > 4 || weights->rank != x->shape.rank)
        return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(&y->shape) || !op_shape_known(weights)) return false;
    if (op_attribute_integer(&call->attributes, "group", 1) != 1 || x->layout != y->layout) return false;
    if (x->layout >= OP_LAYOUT_PACKED) return false;
    if (rt_is_half(x->dtype) && x->layout != OP_LAYOUT_NC16 && x->layout != OP_LAYOUT_NHWC) return false;
    if (op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK) return false;
    *shape = (winograd){.layout = x->layout,
                        .dtype = x->dtype,
                        .element = (int64_t)op_dtype_bytes(x->dtype),
                        .images = x->shape.dims[0],
                        .channels = x->shape.dims[1],
                        .filters = weights->dims[0],
                        .bias = op_input_present(call, 2),
                        .residual = op_input_present(call, 3)};
    if (shape->residual && call->inputs[3].type.layout != y->layout) return false;
    if (!rt_activation_read(&call->attributes, &shape->activation)) return false;
    shape->limits = rt_activation_limits(&shape->activation, &shape->low, &shape->high);
    for (int i = 0; i < window.rank; i++)
        if (window.stride[i] != 1 || window.dilation[i] != 1) return false;
    const bool square = window.rank == 2 && window.kernel[0] == WINDOW && window.kernel[1] == WINDOW;
    if (!(square ? read_square(&window, shape) : read_line(&window, shape))) return false;
    for (int i = 0; i < 2; i++) shape->grid[i] = (shape->output[i] + shape->covers[i] - 1) / shape->covers[i];
    shape->tiles = shape->images * shape->grid[0] * shape->grid[1];
    shape->depth = round_up(shape->channels, RT_PANEL);
    shape->columns = is_row_major(shape) ? shape->filters : round_up(shape->filters, RT_PANEL);
    shape->transforms = transforms;
    shape->threads = environment->threads > 0 ? environment->threads : 1;
    const int64_t blocks = op_attribute_integer(&call->attributes, "ouro.blocks", 1),
                  image_blocks = op_attribute_integer(&call->attributes, "ouro.image_blocks", 0);
    if (blocks < 1 || blocks > MOST_BLOCKS || image_blocks < 0 || image_blocks > MOST_BLOCKS) return false;
    if (shape->tiles < 1 && !image_blocks) return false;
    if (shape->channels < FEWEST_CHANNELS || shape->filters < FEWEST_CHANNELS) return false;
    if (image_blocks) set_image_blocks(shape, image_blocks);
    else rt_winograd_set_blocks(shape, blocks);
    size_t limit; /* of all sizes here: they are products of these */
    return base_size_multiply((size_t)(shape->tiles_each * shape->threads + shape->filters + GROUP),
                              (size_t)(shape->depth + shape->columns), &limit) &&
           base_size_multiply(limit, 2 * POINTS * sizeof(float), &limit);
}
