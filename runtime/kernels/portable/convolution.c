/* SPDX-License-Identifier: Apache-2.0 */
/* convolution.c: Conv in portable C: 1 to 3 spatial dimensions, groups, strides, dilations, padding, any
 * float.
 *
 * Mostly it is a matrix product of filters and what windows see (convolution_products.c). Where there are few output positions, each filter is multiplied
 * with what each of them sees (convolution_windows.c). Groups of few filters see one channel after the other (convolution_maps.c).
 *
 * ShuffledConv, of each channel by itself, takes the channels of its image in another order; it has few filters, which read one channel after
 * the other anyway.
 *
 * Y = activation(X * W + bias + residual). The residual may lie in Y already (in place); where it does not,
 * it is copied there first, so that both add in the same order.
 */
#include "runtime/kernels/portable/convolution.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/product_blocks.h"

enum {
    FEW_FILTERS = 4,
    SHORT_DEPTH = 64 /* with few output positions: products are as good */
};

static bool takes_shuffle(const op_call *call) {
    const op_shape *x = &call->inputs[0].type.shape, *weights = &call->inputs[1].type.shape;
    const int64_t groups = op_attribute_integer(&call->attributes, "shuffle", 0);
    return x->rank > 2 && weights->rank == x->rank && weights->dims[1] == 1 && x->dims[1] > 0 &&
           op_attribute_integer(&call->attributes, "group", 1) == x->dims[1] &&
           weights->dims[0] / x->dims[1] < FEW_FILTERS && groups > 0 && x->dims[1] % groups == 0;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    rt_activation activation;
    const op_type *type = &call->inputs[0].type;
    return rt_accepts_row_major(call) && rt_activation_read(&call->attributes, &activation) &&
           (type->dtype == OP_FLOAT || type->dtype == OP_DOUBLE || rt_is_half(type->dtype)) &&
           (call->code != OP_SHUFFLED_CONV || takes_shuffle(call));
}

/* How a convolution is computed; each way has a file. */
typedef enum convolution_way { PRODUCTS, WINDOWS, MAPS } convolution_way;

static convolution_way way_of(const convolution *shape) {
    if (shape->filters < FEW_FILTERS) return MAPS;
    const bool few_outputs = !shape->part && shape->output_size <= RT_FEW_OUTPUTS &&
                             shape->channels * shape->kernel_size >= SHORT_DEPTH;
    return few_outputs && shape->dtype != OP_DOUBLE ? WINDOWS : PRODUCTS;
}

/* Into blocks of positions, and of filters too where there are not enough of these for all threads. */
static void cut_products(const convolution *shape, convolution_job *job, int threads) {
    job->column_parts = (shape->output_size + RT_BLOCK_COLUMNS - 1) / RT_BLOCK_COLUMNS;
    const int64_t parts = job->column_parts * shape->batch * shape->group;
    const int64_t wanted = parts >= 2 * threads || threads == 1 ? 1 : 2 * threads / parts;
    job->rows_each = ((shape->filters + wanted - 1) / wanted + 7) / 8 * 8;
    job->row_parts = (shape->filters + job->rows_each - 1) / job->rows_each;
}

static void run_job(const convolution *shape, convolution_job *job, int threads) {
    const double work = (double)shape->batch * (double)shape->group * (double)shape->filters *
                        (double)shape->output_size * (double)(shape->channels * shape->kernel_size + 1);
    const int used = work < RT_PARALLEL_WORK ? 1 : threads;
    switch (way_of(shape)) {
    case MAPS:
        rt_team_run(used, rt_convolution_maps, job);
        return;
    case WINDOWS:
        rt_team_run(used, rt_convolution_windows, job);
        return;
    case PRODUCTS:
        cut_products(shape, job, threads);
        rt_team_run(used, rt_convolution_products, job);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const convolution *shape = prepared->state;
    convolution_job job = {.shape = shape,
                           .x = inputs[0].data,
                           .weights = inputs[1].data,
                           .bias = shape->bias ? inputs[2].data : NULL,
                           .y = outputs[0].data,
                           .scratch = scratch,
                           .add = shape->residual};
    if (shape->residual && inputs[3].data != outputs[0].data) job.residual = inputs[3].data;
    if (shape->output_size == 0 || shape->filters == 0 || shape->batch == 0) return BASE_OK;
    run_job(shape, &job, prepared->threads);
    return BASE_OK;
}

/* False when memory runs out. */
static bool find_parts(convolution *shape, base_arena *arena) {
    for (int d = 0; d < 3; d++) {
        shape->inside[d] = BASE_ARRAY(arena, rt_part, (size_t)shape->kernel[d]);
        if (!shape->inside[d]) return false;
        for (int64_t k = 0; k < shape->kernel[d]; k++)
            shape->inside[d][k] = rt_part_inside(k * shape->dilation[d] - shape->before[d], shape->stride[d],
                                                 shape->input[d], shape->output[d]);
    }
    return true;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape, *weights = &call->inputs[1].type.shape;
    convolution *shape = BASE_NEW(arena, convolution);
    if (!shape) return base_fail_memory(report);
    op_window window;
    base_status status = op_window_read(call, weights->dims + 2, &window, report);
    if (status != BASE_OK) return status;
    *shape = (convolution){
        .dtype = call->inputs[0].type.dtype,
        .element = op_dtype_bytes(call->inputs[0].type.dtype),
        .batch = x->dims[0],
        .group = op_attribute_integer(&call->attributes, "group", 1),
        .channels = weights->dims[1],
        .input_size = 1,
        .output_size = 1,
        .kernel_size = 1,
        .shuffle = call->code == OP_SHUFFLED_CONV ? op_attribute_integer(&call->attributes, "shuffle", 1) : 1,
        .bias = op_input_present(call, 2),
        .residual = op_input_present(call, 3),
        .fused = !environment->portable_only};
    shape->filters = weights->dims[0] / shape->group;
    shape->part = op_attribute_find(&call->attributes, "ouro.packed_extents") != NULL;
    const op_window three = op_window_of_three(&window);
    for (int i = 0; i < 3; i++) {
        shape->input[i] = three.input[i];
        shape->output[i] = three.output[i];
        shape->kernel[i] = three.kernel[i];
        shape->stride[i] = three.stride[i];
        shape->dilation[i] = three.dilation[i];
        shape->before[i] = three.before[i];
        shape->input_size *= shape->input[i];
        shape->output_size *= shape->output[i];
        shape->kernel_size *= shape->kernel[i];
    }
    if (shape->input_size == 0) shape->channels = 0; /* nothing but padding is to be seen */
    rt_activation_read(&call->attributes, &shape->activation);
    if (!find_parts(shape, arena)) return base_fail_memory(report);
    prepared->state = shape;
    prepared->run = run;
    size_t *bytes = &shape->thread_bytes;
    bool fits = true;
    switch (way_of(shape)) {
    case MAPS:
        fits = rt_convolution_maps_prepare(shape, arena, bytes);
        break;
    case WINDOWS:
        fits = rt_convolution_windows_bytes(shape, bytes);
        break;
    case PRODUCTS:
        *bytes = rt_convolution_products_bytes(shape);
    }
    fits = fits && base_size_multiply((size_t)environment->threads, *bytes, &prepared->scratch_bytes);
    return fits ? BASE_OK : base_fail(report, BASE_INVALID, "the tensors are too large");
}

const rt_kernel rt_kernel_convolution = {.name = "portable.convolution",
                                         .accepts = accepts,
                                         .estimate = rt_gathering_convolution_estimate,
                                         .prepare = prepare};
