/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.c: see mutate.h. */
#include "tests/support/mutate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- edits --------------------------------------------------------------------------------------------- */

typedef struct field {
    size_t table, record, offset, width; /* table: where in the header; SIZE_MAX: the header itself */
} field;

#define HEADER(name)                                                                                         \
    { SIZE_MAX, sizeof(plan_header), offsetof(plan_header, name), sizeof(((plan_header *)0)->name) }
#define WHOLE(part, type)                                                                                    \
    { offsetof(plan_header, part), sizeof(type), 0, sizeof(type) }
#define FIELD(part, type, name)                                                                              \
    { offsetof(plan_header, part), sizeof(type), offsetof(type, name), sizeof(((type *)0)->name) }
#define ADDRESS(part, type, name)                                                                            \
    FIELD(part, type, name.space), FIELD(part, type, name.index), FIELD(part, type, name.offset)

static const field fields[] = {
    HEADER(threads),
    HEADER(model_name),
    HEADER(allocator),
    HEADER(arena_bytes),
    HEADER(constants_bytes),
    WHOLE(integers, int64_t),
    WHOLE(tensor_ids, uint32_t),
    WHOLE(symbols, uint32_t),
    FIELD(tensors, plan_tensor, name),
    FIELD(tensors, plan_tensor, kind),
    FIELD(tensors, plan_tensor, element),
    FIELD(tensors, plan_tensor, dtype),
    FIELD(tensors, plan_tensor, layout),
    FIELD(tensors, plan_tensor, rank),
    FIELD(tensors, plan_tensor, graph),
    FIELD(tensors, plan_tensor, dims),
    FIELD(tensors, plan_tensor, bytes),
    ADDRESS(tensors, plan_tensor, address),
    FIELD(attributes, plan_attribute, name),
    FIELD(attributes, plan_attribute, kind),
    FIELD(attributes, plan_attribute, count),
    FIELD(attributes, plan_attribute, value),
    FIELD(nodes, plan_node, operator_name),
    FIELD(nodes, plan_node, kernel),
    FIELD(nodes, plan_node, flags),
    FIELD(nodes, plan_node, reason),
    FIELD(nodes, plan_node, graph),
    FIELD(nodes, plan_node, first_graph),
    FIELD(nodes, plan_node, graph_count),
    FIELD(nodes, plan_node, inputs),
    FIELD(nodes, plan_node, input_count),
    FIELD(nodes, plan_node, outputs),
    FIELD(nodes, plan_node, output_count),
    FIELD(nodes, plan_node, attributes),
    FIELD(nodes, plan_node, attribute_count),
    FIELD(nodes, plan_node, scratch_bytes),
    ADDRESS(nodes, plan_node, scratch),
    FIELD(graphs, plan_graph, owner),
    FIELD(graphs, plan_graph, parameters),
    FIELD(graphs, plan_graph, parameter_count),
    FIELD(graphs, plan_graph, results),
    FIELD(graphs, plan_graph, result_count),
    FIELD(graphs, plan_graph, nodes),
    FIELD(graphs, plan_graph, node_count),
    FIELD(graphs, plan_graph, region_offset),
    FIELD(graphs, plan_graph, region_bytes),
    FIELD(multiviews, plan_multiview, first),
    FIELD(multiviews, plan_multiview, prologue_count),
    FIELD(multiviews, plan_multiview, period),
    FIELD(multiviews, plan_multiview, stride),
    FIELD(multiviews, plan_multiview, loop),
    FIELD(multiviews, plan_multiview, group),
    FIELD(multiviews, plan_multiview, bytes),
    FIELD(multiviews, plan_multiview, from_end),
    FIELD(multiviews, plan_multiview, lazy),
    FIELD(addresses, plan_address, space),
    FIELD(addresses, plan_address, index),
    FIELD(addresses, plan_address, offset),
    FIELD(inputs, plan_interface, tensor),
    FIELD(outputs, plan_interface, tensor),
};

/* The bytes of the field in the record; NULL where there is no such record. */
static unsigned char *find_field(unsigned char *bytes, size_t size, const field *of, uint32_t record) {
    plan_table table = {0, 1};
    if (of->table != SIZE_MAX) memcpy(&table, bytes + of->table, sizeof table);
    if (!table.count || table.offset > size || table.count > (size - table.offset) / of->record) return NULL;
    return bytes + table.offset + record % table.count * of->record + of->offset;
}

void support_edit_apply(unsigned char *bytes, size_t size, const support_edit *edit) {
    static const uint64_t values[] = {0,         1,         2,          3,          4,
                                      8,         63,        64,         255,        4096,
                                      INT32_MAX, INT64_MAX, UINT64_MAX, UINT32_MAX, (uint64_t)1 << 63,
                                      1u << 31,  7,         16};
    const field *of = &fields[edit->field % (sizeof fields / sizeof *fields)];
    unsigned char *at = find_field(bytes, size, of, edit->record), *other = NULL;
    uint64_t value = 0;
    if (!at) return;
    memcpy(&value, at, of->width);
    switch (edit->kind % 5) {
    case 0:
        value = values[edit->value % (sizeof values / sizeof *values)];
        break;
    case 1:
        value += edit->value % 9;
        value -= 4;
        break;
    case 2: /* what the same field of another record holds */
        other = find_field(bytes, size, of, edit->value);
        memcpy(&value, other, of->width);
        break;
    case 3:
        value ^= (uint64_t)1 << edit->value % (8 * of->width);
        break;
    default:
        value = edit->value % 16;
        break;
    }
    memcpy(at, &value, of->width);
}

/* ---- trying -------------------------------------------------------------------------------------------- */

enum { LARGEST_ARENA = 1 << 26, INPUT_BYTES = 1 << 18 };
/* Loops without an end take nearly all the time of a fuzz target; what runs at all has run after a moment. */
#define LONGEST_RUN 0.003

/* Numbers of the type, so that loops run twice and indices are within small shapes. */
static void fill(void *data, op_dtype dtype, size_t bytes) {
    memset(data, 0, bytes);
    switch (dtype) {
    case OP_FLOAT:
        for (size_t i = 0; i < bytes / sizeof(float); i++) ((float *)data)[i] = (float)(i % 7) * 0.5f - 1;
        break;
    case OP_INT32:
        for (size_t i = 0; i < bytes / sizeof(int32_t); i++) ((int32_t *)data)[i] = 2;
        break;
    case OP_INT64:
        for (size_t i = 0; i < bytes / sizeof(int64_t); i++) ((int64_t *)data)[i] = 2;
        break;
    case OP_BOOL:
        memset(data, 1, bytes);
        break;
    default:
        break;
    }
}

/* Memory for an input, of these bytes and no more, so that sanitizers see reads after its end; filled. NULL: none. */
static void *new_input(op_dtype dtype, size_t bytes) {
    void *data;
    if (bytes > INPUT_BYTES || posix_memalign(&data, 64, bytes ? bytes : 1)) return NULL;
    fill(data, dtype, bytes);
    return data;
}

/* Something of the input's kind, in *data, to be freed after the run; false where it would be too large. */
static bool bind(ouro_session *session, const ouro_plan *handle, size_t index, void **data) {
    ouro_tensor_info info;
    ouro_error error;
    if (ouro_plan_input(handle, index, &info) != OURO_OK) return false;
    const size_t size = op_dtype_bytes((op_dtype)info.dtype);
    ouro_value tensor = {.kind = OURO_TENSOR, .dtype = info.dtype, .rank = 1, .dims = {2}};
    if (info.kind != OURO_TENSOR) {
        tensor.bytes = 2 * size;
        if (!(tensor.data = *data = new_input((op_dtype)info.dtype, tensor.bytes))) return false;
        const ouro_value sequence = {.kind = OURO_SEQUENCE, .elements = &tensor, .count = 1},
                         optional = {.kind = OURO_OPTIONAL,
                                     .elements = info.element == OURO_SEQUENCE ? &sequence : &tensor,
                                     .count = 1};
        return ouro_session_bind_value(session, index, info.kind == OURO_SEQUENCE ? &sequence : &optional,
                                       &error) == OURO_OK;
    }
    tensor.rank = info.rank;
    tensor.bytes = size;
    for (int d = 0; d < info.rank; d++) {
        tensor.dims[d] = info.dims[d] < 0 ? 2 : info.dims[d];
        if (!base_size_multiply(tensor.bytes, (size_t)tensor.dims[d], &tensor.bytes)) return false;
    }
    if (!(tensor.data = *data = new_input((op_dtype)info.dtype, tensor.bytes))) return false;
    return ouro_session_bind_value(session, index, &tensor, &error) == OURO_OK;
}

/* Inputs stay where they are until the run is done. */
static support_reached run(ouro_session *session, const ouro_plan *handle, bool check) {
    const size_t count = ouro_plan_input_count(handle);
    ouro_error error;
    support_reached reached = SUPPORT_RAN;
    base_report report = {0};
    void **data = calloc(count ? count : 1, sizeof *data);
    if (!data) return SUPPORT_OPENED;
    for (size_t i = 0; i < count && reached == SUPPORT_RAN; i++)
        if (!bind(session, handle, i, &data[i])) reached = SUPPORT_OPENED;
    if (reached == SUPPORT_RAN && (check ? (ouro_status)rt_session_check(session, &report)
                                         : ouro_session_run(session, &error)) != OURO_OK)
        reached = strstr(report.text, "differs from the same step") ? SUPPORT_DIFFERS : SUPPORT_OPENED;
    if (reached == SUPPORT_DIFFERS) fputs(report.text, stderr);
    for (size_t i = 0; i < ouro_plan_output_count(handle) && reached == SUPPORT_RAN; i++) {
        ouro_value value;
        if (ouro_session_output_value(session, i, &value, &error) != OURO_OK) abort();
    }
    for (size_t i = 0; i < count; i++) free(data[i]);
    free(data);
    return reached;
}

support_reached support_plan_run(ouro_plan *handle, bool check) {
    const ouro_session_options options = {.run_seconds = LONGEST_RUN};
    const plan *of = rt_plan_of(handle);
    ouro_session *session;
    ouro_error error;
    if (ouro_plan_arena_bytes(handle) > LARGEST_ARENA || ouro_plan_state_bytes(handle) > LARGEST_ARENA)
        return SUPPORT_OPENED;
    for (uint64_t i = 0; i < of->header->tensors.count; i++)
        if (of->tensors[i].bytes > LARGEST_ARENA) return SUPPORT_OPENED;
    if (ouro_session_new(handle, &options, &session, &error) != OURO_OK) return SUPPORT_OPENED;
    const support_reached reached = run(session, handle, check);
    ouro_session_free(session);
    return reached;
}

support_reached support_plan_try(unsigned char *bytes, size_t size) {
    ouro_plan *handle;
    ouro_error error;
    plan_header header;
    if (size < sizeof header) return SUPPORT_REFUSED;
    memcpy(&header, bytes, sizeof header);
    header.checksum = plan_checksum(bytes, size);
    memcpy(bytes, &header, sizeof header);
    if (ouro_plan_open(bytes, size, &handle, &error) != OURO_OK) {
        if (!error.message[0]) abort();
        return SUPPORT_REFUSED;
    }
    const support_reached reached = support_plan_run(handle, false);
    ouro_plan_free(handle);
    return reached;
}

unsigned char *support_plan_copy(const void *bytes, size_t size) {
    unsigned char *copy =
        aligned_alloc(PLAN_ALIGNMENT, (size + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT);
    if (!copy) abort();
    memcpy(copy, bytes, size);
    return copy;
}
