/* SPDX-License-Identifier: Apache-2.0 */
/* primitive.c: see primitive.h. */
#include "runtime/kernels/onednn/primitive.h"
#include "runtime/argument_pool/argument_pool.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* A program may do without. */
#pragma weak ouro_argument_pool_enter
#pragma weak ouro_argument_pool_leave

/* Multiplications, or elements moved, below which several threads do not pay for their start. */
enum { ONE_THREAD_WORK = 131072 };

base_status rt_onednn_fail(base_report *report, const char *format, ...) {
    va_list arguments;
    if (rt_dnnl_exhausted()) return base_fail_memory(report);
    va_start(arguments, format);
    base_fail_va(report, BASE_INVALID, format, arguments);
    va_end(arguments);
    return BASE_INVALID;
}

static base_status fail(base_report *report, const char *what, dnnl_status_t status) {
    if (status == dnnl_out_of_memory) return base_fail_memory(report);
    return base_fail(report, BASE_INVALID, "oneDNN refused: %s (status %d)", what, (int)status);
}

double rt_work_of(const op_tensor *tensor) {
    double work = 1;
    for (int32_t i = 0; i < tensor->type.shape.rank; i++) work *= (double)tensor->type.shape.dims[i];
    return work;
}

int rt_threads_for(double work, const rt_environment *environment) {
    return work < ONE_THREAD_WORK ? 1 : environment->threads;
}

int rt_threads_set(int threads) {
    const int before = omp_get_max_threads();
    if (before != threads) omp_set_num_threads(threads);
    return before;
}

void rt_threads_restore(int before) {
    if (omp_get_max_threads() != before) omp_set_num_threads(before);
}

base_status rt_check_packed(const op_call *call, const rt_descriptor *open, base_report *report) {
    const size_t bytes = dnnl_memory_desc_get_size(rt_descriptor_memory(open, dnnl_query_weights_md));
    if (bytes == call->inputs[1].type.packed_bytes) return BASE_OK;
    return base_fail(report, BASE_INVALID,
                     "the plan was packed for another machine: weights have %zu bytes, expected %zu",
                     call->inputs[1].type.packed_bytes, bytes);
}

bool rt_floats_known(const op_call *call) {
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const op_type *type =
            i < call->input_count ? &call->inputs[i].type : &call->outputs[i - call->input_count].type;
        if (type->dtype == OP_NONE) continue;
        if (type->kind != OP_KIND_TENSOR || type->dtype != OP_FLOAT) return false;
        int64_t count;
        if (!op_shape_elements(&type->shape, &count) || count == 0) return false;
    }
    return true;
}

/* ---- descriptions -------------------------------------------------------------------------------------- */

static dnnl_format_tag_t tag_of(int32_t rank, op_layout layout) {
    static const dnnl_format_tag_t row_major[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde, dnnl_abcdef};
    static const dnnl_format_tag_t others[][3] = {{dnnl_nCw8c, dnnl_nChw8c, dnnl_nCdhw8c},
                                                  {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c},
                                                  {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc}};
    if (layout == OP_LAYOUT_ROW_MAJOR) return rank < 1 || rank > 6 ? dnnl_format_tag_undef : row_major[rank];
    if (rank < 3 || rank > 5 || layout >= OP_LAYOUT_PACKED) return dnnl_format_tag_undef;
    return others[layout - OP_LAYOUT_NC8][rank - 3];
}

bool rt_describe_as(const op_shape *shape, op_layout layout, dnnl_memory_desc_t *description) {
    const dnnl_format_tag_t tag = tag_of(shape->rank, layout);
    return tag != dnnl_format_tag_undef &&
           dnnl_memory_desc_init_by_tag(description, shape->rank, shape->dims, dnnl_f32, tag) == dnnl_success;
}

bool rt_describe(const op_type *type, dnnl_memory_desc_t *description) {
    return rt_describe_as(&type->shape, type->layout, description);
}

bool rt_describe_any(const op_shape *shape, dnnl_memory_desc_t *description) {
    return shape->rank >= 1 && shape->rank <= 6 &&
           dnnl_memory_desc_init_by_tag(description, shape->rank, shape->dims, dnnl_f32,
                                        dnnl_format_tag_any) == dnnl_success;
}

void rt_window_describe(const op_window *window, rt_window_dims *dims) {
    *dims = (rt_window_dims){0};
    for (int32_t i = 0; i < window->rank; i++) {
        const int64_t extent = (window->kernel[i] - 1) * window->dilation[i] + 1;
        dims->kernel[i] = window->kernel[i];
        dims->strides[i] = window->stride[i];
        dims->dilates[i] = window->dilation[i] - 1;
        dims->before[i] = window->before[i];
        dims->after[i] =
            (window->output[i] - 1) * window->stride[i] + extent - window->input[i] - window->before[i];
    }
}

/* ---- descriptors --------------------------------------------------------------------------------------- */

static bool append_activation(dnnl_post_ops_t operations, const rt_activation *activation) {
    dnnl_alg_kind_t kind;
    float alpha = activation->alpha, beta = activation->beta;
    switch (activation->kind) {
    case RT_ACTIVATION_NONE:
        return true;
    case RT_ACTIVATION_RELU:
        kind = dnnl_eltwise_relu;
        alpha = 0;
        break;
    case RT_ACTIVATION_LEAKY_RELU:
        kind = dnnl_eltwise_relu;
        break;
    case RT_ACTIVATION_CLIP:
        kind = dnnl_eltwise_clip;
        if (isnan(alpha) || isnan(beta) || alpha > beta) return false;
        break;
    case RT_ACTIVATION_SIGMOID:
        kind = dnnl_eltwise_logistic;
        break;
    case RT_ACTIVATION_TANH:
        kind = dnnl_eltwise_tanh;
        break;
    case RT_ACTIVATION_SWISH:
        kind = dnnl_eltwise_swish;
        break;
    case RT_ACTIVATION_HARD_SWISH:
        kind = dnnl_eltwise_hardswish;
        alpha = beta = 0;
        break;
    case RT_ACTIVATION_GELU:
        kind = dnnl_eltwise_gelu_erf;
        alpha = beta = 0;
        break;
    case RT_ACTIVATION_GELU_TANH:
        kind = dnnl_eltwise_gelu_tanh;
        alpha = beta = 0;
        break;
    default:
        return false;
    }
    return rt_dnnl_post_ops_append_eltwise(operations, 1, kind, alpha, beta) == dnnl_success;
}

bool rt_descriptor_open(rt_descriptor *open, float sum, const rt_activation *activation) {
    *open = (rt_descriptor){0};
    (void)rt_dnnl_exhausted(); /* that was before */
    dnnl_post_ops_t operations = NULL;
    bool done = rt_dnnl_engine_create(&open->engine, dnnl_cpu, 0) == dnnl_success &&
                rt_dnnl_primitive_attr_create(&open->attributes) == dnnl_success &&
                dnnl_primitive_attr_set_scratchpad_mode(open->attributes, dnnl_scratchpad_mode_user) ==
                    dnnl_success &&
                rt_dnnl_post_ops_create(&operations) == dnnl_success;
    if (done && sum != 0) done = rt_dnnl_post_ops_append_sum(operations, sum) == dnnl_success;
    if (done && activation) done = append_activation(operations, activation);
    done = done && rt_dnnl_primitive_attr_set_post_ops(open->attributes, operations) == dnnl_success;
    if (operations) dnnl_post_ops_destroy(operations);
    if (!done) rt_descriptor_close(open);
    return done;
}

/* Reference implementations ("ref:any", "bnorm_ref:any") are slower than our portable kernels. Those on oneDNN's own general product
 * ("gemm:jit") take buffers from the heap whenever they run. Those for SSE4.1 (of version 2.6.3) read with instructions
 * that want multiples of 16 bytes from where there are none, and crash. Those for groups take a channel that is a group by itself for a
 * block of 16 (30 times as long as those whose names say "dw"). The descriptor that is returned owns itself. */
static dnnl_primitive_desc_t usable(dnnl_primitive_desc_iterator_t iterator, const rt_descriptor *open) {
    do {
        dnnl_primitive_desc_t descriptor = rt_dnnl_primitive_desc_iterator_fetch(iterator);
        const char *name = NULL;
        if (!descriptor) return NULL;
        if (rt_dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
            !strstr(name, "ref") && (!open->by_channel || strstr(name, "dw")) &&
            strncmp(name, "gemm:", 5) != 0 &&
            strncmp(name, "simple_nchw", 11) != 0 && /* pools of row-major images, window by window */
            !strstr(name, ":gemm:") && !strstr(name, "sse41")) {
            return descriptor;
        }
        dnnl_primitive_desc_destroy(descriptor);
    } while (rt_dnnl_primitive_desc_iterator_next(iterator) == dnnl_success);
    return NULL;
}

bool rt_descriptor_make(rt_descriptor *open, const_dnnl_op_desc_t operation, int threads) {
    dnnl_primitive_desc_iterator_t iterator = NULL;
    open->threads = threads;
    const int before = rt_threads_set(threads);
    if (rt_dnnl_primitive_desc_iterator_create(&iterator, operation, open->attributes, open->engine, NULL) ==
        dnnl_success) {
        open->descriptor = usable(iterator, open);
        dnnl_primitive_desc_iterator_destroy(iterator);
    }
    rt_threads_restore(before);
    if (open->descriptor) return true;
    rt_descriptor_close(open);
    return false;
}

void rt_descriptor_close(rt_descriptor *open) {
    if (open->descriptor) dnnl_primitive_desc_destroy(open->descriptor);
    if (open->attributes) dnnl_primitive_attr_destroy(open->attributes);
    if (open->engine) dnnl_engine_destroy(open->engine);
    *open = (rt_descriptor){0};
}

const dnnl_memory_desc_t *rt_descriptor_memory(const rt_descriptor *open, dnnl_query_t what) {
    return dnnl_primitive_desc_query_md(open->descriptor, what, 0);
}

/* ---- primitives ---------------------------------------------------------------------------------------- */

/* Bytes as a vector: a memory object that has no padding to be cleared when its pointer is set. Primitives
 * take the layout of what they read from their own descriptor. */
static base_status flat_memory(rt_primitive *primitive, size_t bytes, dnnl_memory_t *memory,
                               base_report *report) {
    dnnl_memory_desc_t flat;
    const dnnl_dims_t dims = {(dnnl_dim_t)bytes};
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&flat, 1, dims, dnnl_u8, dnnl_a);
    if (status == dnnl_success)
        status = rt_dnnl_memory_create(memory, &flat, primitive->engine, DNNL_MEMORY_NONE);
    return status == dnnl_success ? BASE_OK : fail(report, "memory", status);
}

base_status rt_primitive_make(rt_primitive *primitive, rt_descriptor *open, base_report *report) {
    *primitive = (rt_primitive){.engine = open->engine, .threads = open->threads};
    open->engine = NULL;
    const int before = rt_threads_set(open->threads);
    dnnl_status_t status =
        rt_dnnl_stream_create(&primitive->stream, primitive->engine, dnnl_stream_default_flags);
    if (status == dnnl_success) status = rt_dnnl_primitive_create(&primitive->primitive, open->descriptor);
    rt_threads_restore(before);
    if (status != dnnl_success) return fail(report, "primitive", status);
    primitive->scratch_bytes = dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(open->descriptor, dnnl_query_scratchpad_md, 0));
    if (primitive->scratch_bytes == 0) return BASE_OK;
    /* The scratch is always argument 0. */
    primitive->arguments[0].arg = DNNL_ARG_SCRATCHPAD;
    primitive->count = 1;
    return flat_memory(primitive, primitive->scratch_bytes, &primitive->arguments[0].memory, report);
}

base_status rt_primitive_argument(rt_primitive *primitive, int argument,
                                  const dnnl_memory_desc_t *description, bool written, base_report *report) {
    if (primitive->count == RT_PRIMITIVE_ARGUMENTS) {
        return base_fail(report, BASE_INVALID, "oneDNN refused: too many arguments");
    }
    dnnl_exec_arg_t *place = &primitive->arguments[primitive->count++];
    *place = (dnnl_exec_arg_t){.arg = argument};
    if (!written)
        return flat_memory(primitive, dnnl_memory_desc_get_size(description), &place->memory, report);
    /* The padding of what is written must be known: primitives clear it through this object. */
    const dnnl_status_t status =
        rt_dnnl_memory_create(&place->memory, description, primitive->engine, DNNL_MEMORY_NONE);
    return status == dnnl_success ? BASE_OK : fail(report, "memory", status);
}

base_status rt_primitive_run(rt_primitive *primitive, void *const *data, void *scratch, base_report *report) {
    const int own = primitive->scratch_bytes ? 1 : 0;
    const int before = rt_threads_set(primitive->threads);
    if (ouro_argument_pool_enter) ouro_argument_pool_enter();
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < primitive->count && status == dnnl_success; i++) {
        void *pointer = i < own ? scratch : data[i - own];
        if (pointer == primitive->data[i]) continue;
        status =
            rt_dnnl_memory_set_data_handle_v2(primitive->arguments[i].memory, pointer, primitive->stream);
        primitive->data[i] = pointer;
    }
    if (status == dnnl_success) {
        status = rt_dnnl_primitive_execute(primitive->primitive, primitive->stream, primitive->count,
                                           primitive->arguments);
    }
    if (ouro_argument_pool_leave) ouro_argument_pool_leave();
    rt_threads_restore(before);
    return status == dnnl_success ? BASE_OK : fail(report, "execution", status);
}

void rt_primitive_close(rt_primitive *primitive) {
    for (int i = 0; i < primitive->count; i++) {
        if (primitive->arguments[i].memory) dnnl_memory_destroy(primitive->arguments[i].memory);
    }
    if (primitive->primitive) dnnl_primitive_destroy(primitive->primitive);
    if (primitive->stream) dnnl_stream_destroy(primitive->stream);
    if (primitive->engine) dnnl_engine_destroy(primitive->engine);
    *primitive = (rt_primitive){0};
}

base_status rt_reorder(const dnnl_memory_desc_t *from, const void *data, const dnnl_memory_desc_t *to,
                       void *packed, float scale, int threads, base_report *report) {
    dnnl_engine_t engine = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t descriptor = NULL;
    rt_primitive primitive = {0};
    base_status result = BASE_OK;
    const int before = rt_threads_set(threads);
    dnnl_status_t status = rt_dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (status == dnnl_success) status = rt_dnnl_primitive_attr_create(&attributes);
    if (status == dnnl_success && scale != 1)
        status = rt_dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &scale);
    if (status == dnnl_success) {
        status = rt_dnnl_reorder_primitive_desc_create(&descriptor, from, engine, to, engine, attributes);
    }
    if (status == dnnl_success)
        status = rt_dnnl_stream_create(&primitive.stream, engine, dnnl_stream_default_flags);
    if (status == dnnl_success) status = rt_dnnl_primitive_create(&primitive.primitive, descriptor);
    if (status != dnnl_success) result = fail(report, "packing", status);
    rt_threads_restore(before);
    primitive.engine = engine;
    primitive.threads = threads;
    if (result == BASE_OK) result = rt_primitive_argument(&primitive, DNNL_ARG_FROM, from, false, report);
    if (result == BASE_OK) result = rt_primitive_argument(&primitive, DNNL_ARG_TO, to, true, report);
    if (result == BASE_OK) {
        union {
            const void *constant;
            void *data;
        } source = {data}; /* only read, see rt_primitive_argument */
        result = rt_primitive_run(&primitive, (void *[]){source.data, packed}, NULL, report);
    }
    if (descriptor) dnnl_primitive_desc_destroy(descriptor);
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    rt_primitive_close(&primitive);
    return result;
}
