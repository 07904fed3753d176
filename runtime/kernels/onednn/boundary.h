/* SPDX-License-Identifier: Apache-2.0 */
/* boundary.h: oneDNN's functions that allocate, for C. oneDNN is written in C++: where memory runs out, some of these throw
 * instead of returning dnnl_out_of_memory, and an exception that reaches C ends the process. boundary.cpp calls each of
 * them, catches whatever comes, and returns dnnl_out_of_memory (or NULL). Elsewhere they are not called. All are as thread-safe
 * as what they call. */
#ifndef OURO_RUNTIME_ONEDNN_BOUNDARY_H
#define OURO_RUNTIME_ONEDNN_BOUNDARY_H

#include <dnnl.h>

/* Whether it makes objects or code, what follows "dnnl_" in the name, parameters, arguments. (Execution makes neither; what one
 * thread of several throws there would end the process.) */
#define RT_DNNL_FUNCTIONS(FUNCTION)                                                                          \
    FUNCTION(true, engine_create, (dnnl_engine_t * engine, dnnl_engine_kind_t kind, size_t index),           \
             (engine, kind, index))                                                                          \
    FUNCTION(true, stream_create, (dnnl_stream_t * stream, dnnl_engine_t engine, unsigned flags),            \
             (stream, engine, flags))                                                                        \
    FUNCTION(                                                                                                \
        true, memory_create,                                                                                 \
        (dnnl_memory_t * memory, const dnnl_memory_desc_t *description, dnnl_engine_t engine, void *data),   \
        (memory, description, engine, data))                                                                 \
    FUNCTION(false, memory_set_data_handle_v2, (dnnl_memory_t memory, void *data, dnnl_stream_t stream),     \
             (memory, data, stream))                                                                         \
    FUNCTION(true, primitive_attr_create, (dnnl_primitive_attr_t * attributes), (attributes))                \
    FUNCTION(true, primitive_attr_set_output_scales,                                                         \
             (dnnl_primitive_attr_t attributes, dnnl_dim_t count, int mask, const float *scales),            \
             (attributes, count, mask, scales))                                                              \
    FUNCTION(true, primitive_attr_set_post_ops,                                                              \
             (dnnl_primitive_attr_t attributes, const_dnnl_post_ops_t operations), (attributes, operations)) \
    FUNCTION(true, post_ops_create, (dnnl_post_ops_t * operations), (operations))                            \
    FUNCTION(true, post_ops_append_sum, (dnnl_post_ops_t operations, float scale), (operations, scale))      \
    FUNCTION(true, post_ops_append_eltwise,                                                                  \
             (dnnl_post_ops_t operations, float scale, dnnl_alg_kind_t kind, float alpha, float beta),       \
             (operations, scale, kind, alpha, beta))                                                         \
    FUNCTION(true, primitive_desc_iterator_create,                                                           \
             (dnnl_primitive_desc_iterator_t * iterator, const_dnnl_op_desc_t operation,                     \
              const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine,                                  \
              const_dnnl_primitive_desc_t hint),                                                             \
             (iterator, operation, attributes, engine, hint))                                                \
    FUNCTION(true, primitive_desc_iterator_next, (dnnl_primitive_desc_iterator_t iterator), (iterator))      \
    FUNCTION(false, primitive_desc_query,                                                                    \
             (const_dnnl_primitive_desc_t descriptor, dnnl_query_t what, int index, void *result),           \
             (descriptor, what, index, result))                                                              \
    FUNCTION(true, reorder_primitive_desc_create,                                                            \
             (dnnl_primitive_desc_t * descriptor, const dnnl_memory_desc_t *from, dnnl_engine_t from_engine, \
              const dnnl_memory_desc_t *to, dnnl_engine_t to_engine,                                         \
              const_dnnl_primitive_attr_t attributes),                                                       \
             (descriptor, from, from_engine, to, to_engine, attributes))                                     \
    FUNCTION(true, primitive_create, (dnnl_primitive_t * primitive, const_dnnl_primitive_desc_t descriptor), \
             (primitive, descriptor))                                                                        \
    FUNCTION(false, primitive_execute,                                                                       \
             (const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,                             \
              const dnnl_exec_arg_t *arguments),                                                             \
             (primitive, stream, count, arguments))

#ifdef __cplusplus
extern "C" {
#endif
#define RT_DNNL_DECLARE(makes, name, parameters, arguments) dnnl_status_t rt_dnnl_##name parameters;
RT_DNNL_FUNCTIONS(RT_DNNL_DECLARE)
#undef RT_DNNL_DECLARE
dnnl_primitive_desc_t rt_dnnl_primitive_desc_iterator_fetch(const_dnnl_primitive_desc_iterator_t iterator);
/* Asks for memory when it is called first. */
dnnl_status_t rt_dnnl_get_effective_cpu_isa(dnnl_cpu_isa_t *isa);
/* Memory ran out in one of these functions, in this thread, since this was asked last. */
int rt_dnnl_exhausted(void);
/* How often that was so far. */
size_t rt_dnnl_exhaustions(void);
#ifdef __cplusplus
}
#endif

#endif
