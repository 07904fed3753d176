/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: MaxPool without indices, AveragePool and the global pools on oneDNN. */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/onednn/simple.h"
#include "runtime/kernels/portable/pool_maps.h"

/* Elements of a window, for the portable kernel to be as fast on row-major images: with registers of AVX-512, which want rows that are not
 * short (with a stride of two, a little longer), and without. */
enum { FEW_ELEMENTS = 4, SUMS_ELEMENTS = 64, LARGEST_ELEMENTS = 256, WIDE_ROW = 20, MORE = 4 };

static bool is_few(bool maximum, int64_t elements, int64_t row, int64_t stride) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f"))
        return row >= WIDE_ROW + MORE * (stride - 1) && stride <= 2 &&
               elements <= (maximum ? LARGEST_ELEMENTS : SUMS_ELEMENTS);
#endif
    (void)maximum;
    (void)row;
    (void)stride;
    return elements <= FEW_ELEMENTS;
}

/* Small maps, of which the portable kernel makes one line each. */
static bool is_small(const op_call *call, const rt_window_dims *dims) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    rt_pool_map map = {.maximum = call->code == OP_MAX_POOL};
    if (x->shape.rank != 4 || x->dtype != OP_FLOAT) return false;
    for (int i = 0; i < 2; i++) {
        map.input[i] = x->shape.dims[2 + i];
        map.output[i] = y->shape.dims[2 + i];
        map.kernel[i] = dims->kernel[i];
        map.stride[i] = dims->strides[i];
        map.before[i] = dims->before[i];
        if (dims->dilates[i] != 0) return false;
    }
    return rt_pool_map_fits(&map);
}

/* Rows of single numbers, whole maps and windows of few elements are read where they lie by the portable kernel. */
static bool is_row(const op_call *call, const rt_window_dims *dims) {
    const op_type *x = &call->inputs[0].type;
    const int32_t rank = x->shape.rank;
    int64_t elements = 1;
    if (x->layout != OP_LAYOUT_ROW_MAJOR) return false;
    for (int32_t i = 2; i < rank; i++) elements *= dims->kernel[i - 2];
    return rank == 3 || call->code == OP_GLOBAL_MAX_POOL || call->code == OP_GLOBAL_AVERAGE_POOL ||
           is_few(call->code == OP_MAX_POOL, elements, x->shape.dims[rank - 1], dims->strides[rank - 3]) ||
           is_small(call, dims);
}

static bool make_descriptor(const op_call *call, const rt_environment *environment, rt_descriptor *open) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const bool maximum = call->code == OP_MAX_POOL || call->code == OP_GLOBAL_MAX_POOL;
    const bool include = op_attribute_integer(&call->attributes, "count_include_pad", 0) != 0;
    rt_window_dims dims = {0};
    if (call->output_count > 1 && call->outputs[1].type.dtype != OP_NONE) return false;
    if (op_attribute_integer(&call->attributes, "ouro.sum", 0) != 0) return false;
    if (call->code == OP_GLOBAL_MAX_POOL || call->code == OP_GLOBAL_AVERAGE_POOL) {
        if (x->shape.rank < 3 || x->shape.rank > 5) return false;
        for (int32_t i = 2; i < x->shape.rank; i++) {
            dims.kernel[i - 2] = x->shape.dims[i];
            dims.strides[i - 2] = 1;
        }
    } else {
        op_window window;
        if (op_window_read(call, NULL, &window, NULL) != BASE_OK) return false;
        rt_window_describe(&window, &dims);
        /* oneDNN would count the elements that ceil_mode puts after the padding. */
        for (int32_t i = 0; include && i < window.rank; i++) {
            if (dims.after[i] > window.after[i]) return false;
        }
    }
    if (is_row(call, &dims)) return false;
    double work = 1;
    for (int32_t i = 0; i < y->shape.rank; i++) work *= (double)y->shape.dims[i];
    for (int32_t i = 2; i < y->shape.rank; i++) work *= (double)dims.kernel[i - 2];
    dnnl_memory_desc_t source, target;
    dnnl_pooling_v2_desc_t operation;
    const dnnl_alg_kind_t kind = maximum   ? dnnl_pooling_max
                                 : include ? dnnl_pooling_avg_include_padding
                                           : dnnl_pooling_avg_exclude_padding;
    if (!rt_describe(x, &source) || !rt_describe(y, &target) ||
        dnnl_pooling_v2_forward_desc_init(&operation, dnnl_forward_inference, kind, &source, &target,
                                          dims.strides, dims.kernel, dims.dilates, dims.before,
                                          dims.after) != dnnl_success ||
        !rt_descriptor_open(open, 0, NULL)) {
        return false;
    }
    return rt_descriptor_make(open, &operation, rt_threads_for(work, environment));
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    return rt_simple_accepts(call, environment, true, make_descriptor);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    return rt_simple_prepare(call, environment, make_descriptor, NULL, 0, arena, prepared, report);
}

const rt_kernel rt_onednn_pool = {.name = "onednn.pool",
                                  .backend = RT_BACKEND_ONEDNN,
                                  .accepts = accepts,
                                  .prepare = prepare,
                                  .release = rt_simple_release};
