/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.c: sequences, optionals and maps. A value of either kind is an array of elements, each a value with the buffer that
 * owns it: no element is copied when a list is made of another. A list is never changed once it is there, but for
 * what is appended after its end, which shares the array while its capacity suffices: a loop that appends to a sequence
 * takes time in proportion to what it appends.
 *
 * An optional is a list of no or one element; a sequence in an optional is an element that is a list itself. A map is a list of
 * two vectors: its keys and its values.
 */
#include "runtime/executor.h"
#include <inttypes.h>
#include <string.h>

static const rt_element *elements_of(const op_tensor *list, size_t *count) {
    *count = list->bytes / sizeof(rt_element);
    return list->data;
}

static uint32_t input_of(const ouro_session *session, const rt_step *step, uint32_t index) {
    const plan_node *node = &session->of->nodes[step->node];
    return index < node->input_count ? session->of->tensor_ids[node->inputs + index] : PLAN_ABSENT;
}

static const op_tensor *input_value(const ouro_session *session, const rt_step *step, uint32_t index) {
    uint32_t id = input_of(session, step, index);
    return id == PLAN_ABSENT ? NULL : &session->run.tensors[id];
}

/* PLAN_ABSENT where nobody wants it. */
static uint32_t output_of(const ouro_session *session, const rt_step *step) {
    uint32_t id = session->of->tensor_ids[session->of->nodes[step->node].outputs];
    bool wanted = id != PLAN_ABSENT && session->of->tensors[id].address.space != MEMORY_NONE;
    return wanted ? id : PLAN_ABSENT;
}

/* ---- making lists -------------------------------------------------------------------------------------- */

/* An empty array with capacity for `count` elements; NULL when memory runs out (reported). */
static rt_buffer *new_sequence(ouro_session *session, size_t count) {
    size_t bytes;
    rt_buffer *buffer = base_size_multiply(count, sizeof(rt_element), &bytes)
                            ? rt_pool_take(&session->memory.pool, bytes)
                            : NULL;
    if (!buffer) {
        base_fail_memory(&session->run.report);
        return NULL;
    }
    buffer->is_sequence = true;
    buffer->used = 0;
    return buffer;
}

static void append(rt_buffer *list, const rt_element *element) {
    rt_buffer_retain(element->buffer);
    ((rt_element *)list->data)[list->used / sizeof *element] = *element;
    list->used += sizeof *element;
}

static void append_all(rt_buffer *list, const rt_element *elements, size_t count) {
    for (size_t i = 0; i < count; i++) append(list, &elements[i]);
}

/* The first `bytes` of the array become the value of the tensor, which keeps the array; the caller's reference ends. */
static base_status set_list(ouro_session *session, uint32_t id, rt_buffer *list, size_t bytes) {
    op_type type;
    plan_tensor_type(session->of, id, &type);
    rt_value_set(session, id, &type, list->data, bytes, list);
    rt_buffer_release(&session->memory.pool, list);
    return BASE_OK;
}

/* A tensor's bytes in memory of their own. */
static base_status copy_tensor(ouro_session *session, const op_tensor *from, rt_element *element) {
    rt_buffer *buffer = rt_pool_take(&session->memory.pool, from->bytes);
    if (!buffer) return base_fail_memory(&session->run.report);
    if (from->bytes) memcpy(buffer->data, from->data, from->bytes);
    *element = (rt_element){*from, buffer};
    element->tensor.data = buffer->data;
    return BASE_OK;
}

/* The value of the tensor as an element, with a reference to its buffer; copied where it lies in memory that others
 * will write to. */
static base_status take_element(ouro_session *session, uint32_t id, rt_element *element) {
    const op_tensor *value = &session->run.tensors[id];
    rt_buffer *buffer = session->run.buffers[id];
    *element = (rt_element){*value, buffer && !buffer->planned ? buffer : NULL};
    element->tensor.symbolic = NULL;
    if (element->buffer || rt_value_is_lasting(session, id)) {
        rt_buffer_retain(element->buffer);
        return BASE_OK;
    }
    if (value->type.kind == OP_KIND_TENSOR) return copy_tensor(session, value, element);
    size_t count; /* a sequence of the caller's: its array goes with the tensor, its elements do not */
    const rt_element *elements = elements_of(value, &count);
    rt_buffer *list = new_sequence(session, count);
    if (!list) return BASE_SYSTEM_ERROR;
    append_all(list, elements, count);
    element->buffer = list;
    element->tensor.data = list->data;
    return BASE_OK;
}

base_status rt_sequence_move(ouro_session *session, uint32_t from, uint32_t to) {
    rt_element element;
    base_status status = take_element(session, from, &element);
    if (status != BASE_OK) return status;
    rt_value_set(session, to, &element.tensor.type, element.tensor.data, element.tensor.bytes,
                 element.buffer);
    rt_buffer_release(&session->memory.pool, element.buffer);
    return BASE_OK;
}

/* ---- handing elements out ------------------------------------------------------------------------------ */

static base_status put_element(ouro_session *session, uint32_t id, const rt_element *element) {
    if (id == PLAN_ABSENT) return BASE_OK;
    if (session->code.dynamic[id]) {
        const op_tensor value = element->tensor;
        rt_value_set(session, id, &value.type, value.data, value.bytes, element->buffer);
        return BASE_OK;
    }
    return rt_value_put(session, id, &element->tensor);
}

/* The number of a position input; `otherwise` where it is absent. */
static base_status read_position(ouro_session *session, const rt_step *step, uint32_t index,
                                 int64_t otherwise, int64_t *position) {
    const op_tensor *value = input_value(session, step, index);
    *position = otherwise;
    if (!value) return BASE_OK;
    if (value->bytes != op_dtype_bytes(value->type.dtype) || !value->data) {
        return base_fail(&session->run.report, BASE_INVALID, "input %u has %zu bytes, expected one position",
                         index, value->bytes);
    }
    if (value->type.dtype == OP_INT32) *position = *(const int32_t *)value->data;
    else *position = *(const int64_t *)value->data;
    return BASE_OK;
}

/* A position among `count`, from the end where it is negative. */
static base_status resolve_position(ouro_session *session, int64_t position, size_t count, size_t *index) {
    int64_t all = (int64_t)count, resolved = position < 0 ? position + all : position;
    if (resolved < 0 || resolved >= all) {
        return base_fail(&session->run.report, BASE_INVALID, "position %" PRId64 " of %zu is out of range",
                         position, count);
    }
    *index = (size_t)resolved;
    return BASE_OK;
}

/* ---- the operators ------------------------------------------------------------------------------------- */

static base_status construct(ouro_session *session, const rt_step *step) {
    const plan_node *node = &session->of->nodes[step->node];
    uint32_t output = output_of(session, step);
    if (output == PLAN_ABSENT) return BASE_OK;
    rt_buffer *list = new_sequence(session, (size_t)node->input_count);
    if (!list) return BASE_SYSTEM_ERROR;
    for (uint32_t i = 0; i < node->input_count; i++) {
        rt_element element;
        uint32_t id = input_of(session, step, i);
        if (id == PLAN_ABSENT) continue; /* an Optional of nothing */
        base_status status = take_element(session, id, &element);
        if (status != BASE_OK) {
            rt_buffer_release(&session->memory.pool, list);
            return status;
        }
        append(list, &element);
        rt_buffer_release(&session->memory.pool, element.buffer);
    }
    return set_list(session, output, list, list->used);
}

/* A list to which an element can be appended after the `count` first of the value: the value's own where they end it
 * and its capacity suffices, else a copy with capacity for as many again. With a reference for the caller. */
static rt_buffer *sequence_with_capacity(ouro_session *session, uint32_t id, const rt_element *elements,
                                         size_t count) {
    rt_buffer *list = session->run.buffers[id];
    const char *end = (const char *)elements + count * sizeof *elements;
    if (list && list->is_sequence && end == (char *)list->data + list->used &&
        list->capacity - list->used >= sizeof *elements) {
        rt_buffer_retain(list);
        return list;
    }
    list = new_sequence(session, 2 * count + 4);
    if (list) append_all(list, elements, count);
    return list;
}

static base_status insert(ouro_session *session, const rt_step *step) {
    uint32_t output = output_of(session, step), from = input_of(session, step, 0);
    size_t count, index = 0;
    const rt_element *elements = elements_of(&session->run.tensors[from], &count);
    int64_t position;
    base_status status = read_position(session, step, 2, (int64_t)count, &position);
    if (status == BASE_OK && position == (int64_t)count) index = count; /* after the last */
    else if (status == BASE_OK) status = resolve_position(session, position, count, &index);
    if (status != BASE_OK || output == PLAN_ABSENT) return status;
    rt_element element;
    status = take_element(session, input_of(session, step, 1), &element);
    if (status != BASE_OK) return status;
    bool last = index == count;
    rt_buffer *list =
        last ? sequence_with_capacity(session, from, elements, count) : new_sequence(session, count + 1);
    if (list) {
        if (!last) append_all(list, elements, index);
        append(list, &element);
        if (!last) append_all(list, elements + index, count - index);
        status = set_list(session, output, list, (count + 1) * sizeof element);
    }
    rt_buffer_release(&session->memory.pool, element.buffer);
    return list ? status : BASE_SYSTEM_ERROR;
}

static base_status erase(ouro_session *session, const rt_step *step) {
    uint32_t output = output_of(session, step);
    size_t count, index = 0;
    const rt_element *elements = elements_of(input_value(session, step, 0), &count);
    int64_t position;
    base_status status = read_position(session, step, 1, -1, &position);
    if (status == BASE_OK) status = resolve_position(session, position, count, &index);
    if (status != BASE_OK || output == PLAN_ABSENT) return status;
    rt_buffer *list = new_sequence(session, count - 1);
    if (!list) return BASE_SYSTEM_ERROR;
    append_all(list, elements, index);
    append_all(list, elements + index + 1, count - index - 1);
    return set_list(session, output, list, list->used);
}

static base_status at(ouro_session *session, const rt_step *step) {
    size_t count, index = 0;
    const rt_element *elements = elements_of(input_value(session, step, 0), &count);
    int64_t position;
    base_status status = read_position(session, step, 1, 0, &position);
    if (status == BASE_OK) status = resolve_position(session, position, count, &index);
    return status == BASE_OK ? put_element(session, output_of(session, step), &elements[index]) : status;
}

static base_status get_element(ouro_session *session, const rt_step *step) {
    size_t count;
    const rt_element *elements = elements_of(input_value(session, step, 0), &count);
    if (count == 1) return put_element(session, output_of(session, step), elements);
    return base_fail(&session->run.report, BASE_INVALID,
                     "the optional is empty, expected one that holds a value");
}

/* A scalar that the executor computes. */
static base_status put_scalar(ouro_session *session, const rt_step *step, op_dtype dtype, const void *value) {
    uint32_t id = output_of(session, step);
    const op_tensor scalar = {
        .type = {.dtype = dtype}, .bytes = op_dtype_bytes(dtype), .data = (void *)(uintptr_t)value};
    return id == PLAN_ABSENT ? BASE_OK : rt_value_put(session, id, &scalar);
}

static base_status count_elements(ouro_session *session, const rt_step *step, bool whether) {
    size_t count;
    (void)elements_of(input_value(session, step, 0), &count);
    const int64_t length = (int64_t)count;
    const uint8_t some = count != 0;
    return whether ? put_scalar(session, step, OP_BOOL, &some) : put_scalar(session, step, OP_INT64, &length);
}

/* ---- parts and wholes ---------------------------------------------------------------------------------- */

/* Element `index` of the vector (or scalar) of sizes. */
static int64_t size_at(const op_tensor *sizes, int64_t index) {
    return sizes->type.dtype == OP_INT32 ? ((const int32_t *)sizes->data)[index]
                                         : ((const int64_t *)sizes->data)[index];
}

/* How many parts an axis is cut into, after checking that the sizes fit. */
static base_status count_parts(ouro_session *session, const op_tensor *sizes, int64_t extent,
                               int64_t *count) {
    base_report *report = &session->run.report;
    *count = extent;
    if (!sizes) return BASE_OK;
    if (sizes->type.shape.rank == 0) {
        int64_t size = size_at(sizes, 0);
        if (size < 1)
            return base_fail(report, BASE_INVALID, "parts of %" PRId64 " are wanted, expected 1 or more",
                             size);
        *count = extent / size + (extent % size != 0);
        return BASE_OK;
    }
    int64_t sum = 0;
    *count = sizes->type.shape.dims[0];
    for (int64_t i = 0; i < *count; i++) {
        int64_t size = size_at(sizes, i);
        if (size < 0 || size > extent - sum) {
            return base_fail(report, BASE_INVALID,
                             "part %" PRId64 " has size %" PRId64 ", there are %" PRId64 " left", i, size,
                             extent - sum);
        }
        sum += size;
    }
    if (sum == extent) return BASE_OK;
    return base_fail(report, BASE_INVALID, "the parts have %" PRId64 " entries together, expected %" PRId64,
                     sum, extent);
}

/* The bytes of `count` entries from `first` on along an axis, of `extent` with `outer` before it and `inner` bytes each:
 * as they lie where nothing is before the axis and they stay there, else copied. */
static base_status cut_part(ouro_session *session, const rt_element *whole, size_t outer, size_t extent,
                            size_t inner, size_t first, size_t count, rt_element *part) {
    const char *from = whole->tensor.data;
    size_t row = count * inner;
    part->tensor.bytes = outer * row;
    if (outer == 1) {
        part->buffer = whole->buffer;
        part->tensor.data = part->tensor.bytes ? (char *)whole->tensor.data + first * inner : NULL;
        rt_buffer_retain(part->buffer);
        return BASE_OK;
    }
    part->buffer = rt_pool_take(&session->memory.pool, part->tensor.bytes);
    if (!part->buffer) return base_fail_memory(&session->run.report);
    part->tensor.data = part->buffer->data;
    for (size_t o = 0; o < outer && row; o++)
        memcpy((char *)part->tensor.data + o * row, from + (o * extent + first) * inner, row);
    return BASE_OK;
}

static base_status split(ouro_session *session, const rt_step *step) {
    const op_attributes *attributes = step->detail;
    uint32_t output = output_of(session, step);
    const op_tensor *sizes = input_value(session, step, 1);
    rt_element whole;
    base_status status = take_element(session, input_of(session, step, 0), &whole);
    if (status != BASE_OK) return status;
    const op_shape *shape = &whole.tensor.type.shape;
    int32_t axis;
    int64_t parts = 0;
    rt_buffer *list = NULL;
    if (!op_axis(op_attribute_integer(attributes, "axis", 0), shape->rank, &axis)) {
        status = base_fail(&session->run.report, BASE_INVALID, "input 0 has rank %d, it has no such axis",
                           shape->rank);
    } else {
        status = count_parts(session, sizes, shape->dims[axis], &parts);
    }
    if (status == BASE_OK && !(list = new_sequence(session, (size_t)parts))) status = BASE_SYSTEM_ERROR;
    size_t outer = 1, inner = op_dtype_bytes(whole.tensor.type.dtype), first = 0;
    for (int32_t d = 0; d < axis && status == BASE_OK; d++) outer *= (size_t)shape->dims[d];
    for (int32_t d = axis + 1; d < shape->rank && status == BASE_OK; d++) inner *= (size_t)shape->dims[d];
    bool keep = sizes || op_attribute_integer(attributes, "keepdims", 1) != 0;
    for (int64_t i = 0; i < parts && status == BASE_OK; i++) {
        size_t extent = (size_t)shape->dims[axis], count = 1;
        if (sizes) count = (size_t)size_at(sizes, sizes->type.shape.rank ? i : 0);
        if (count > extent - first) count = extent - first; /* the last of parts of one size */
        rt_element part = {.tensor.type = whole.tensor.type};
        op_shape *own = &part.tensor.type.shape;
        own->dims[axis] = (int64_t)count;
        if (!keep) {
            own->rank--;
            for (int32_t d = axis; d < own->rank; d++) own->dims[d] = own->dims[d + 1];
        }
        status = cut_part(session, &whole, outer, extent, inner, first, count, &part);
        if (status != BASE_OK) break;
        append(list, &part);
        rt_buffer_release(&session->memory.pool, part.buffer);
        first += count;
    }
    rt_buffer_release(&session->memory.pool, whole.buffer);
    if (status == BASE_OK && output != PLAN_ABSENT) return set_list(session, output, list, list->used);
    rt_buffer_release(&session->memory.pool, list);
    return status;
}

/* The type of all elements side by side along the axis (a new one where `added`). */
static base_status join_types(ouro_session *session, const rt_element *elements, size_t count, int64_t axis,
                              bool added, op_type *joined, int32_t *normal) {
    base_report *report = &session->run.report;
    char first[256], other[256];
    if (!count)
        return base_fail(report, BASE_INVALID, "the sequence is empty, there is nothing to concatenate");
    *joined = elements[0].tensor.type;
    op_shape *shape = &joined->shape;
    if (shape->rank + added > OP_MAX_RANK || !op_axis(axis, shape->rank + added, normal)) {
        return base_fail(report, BASE_INVALID,
                         "the elements are %s: they cannot be joined along axis %" PRId64,
                         op_type_print(joined, first, sizeof first), axis);
    }
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const op_shape *own = &elements[i].tensor.type.shape;
        bool fits = own->rank == shape->rank;
        for (int32_t d = 0; d < own->rank && fits; d++)
            fits = (!added && d == *normal) || own->dims[d] == elements[0].tensor.type.shape.dims[d];
        if (!fits) {
            return base_fail(report, BASE_INVALID, "element %zu is %s, the first is %s", i,
                             op_type_print(&elements[i].tensor.type, other, sizeof other),
                             op_type_print(&elements[0].tensor.type, first, sizeof first));
        }
        if (__builtin_add_overflow(sum, added ? 1 : own->dims[*normal], &sum))
            return base_fail(report, BASE_INVALID, "the result is too large");
    }
    for (int32_t d = shape->rank; d > *normal && added; d--) shape->dims[d] = shape->dims[d - 1];
    shape->rank += added;
    shape->dims[*normal] = sum;
    return BASE_OK;
}

static base_status join(ouro_session *session, const rt_step *step) {
    const op_attributes *attributes = step->detail;
    uint32_t output = output_of(session, step);
    bool added = op_attribute_integer(attributes, "new_axis", 0) != 0;
    size_t count, bytes;
    const rt_element *elements = elements_of(input_value(session, step, 0), &count);
    op_type type;
    int32_t axis;
    base_status status = join_types(session, elements, count, op_attribute_integer(attributes, "axis", 0),
                                    added, &type, &axis);
    if (status != BASE_OK || output == PLAN_ABSENT) return status;
    if (!op_type_bytes(&type, &bytes))
        return base_fail(&session->run.report, BASE_INVALID, "the result is too large");
    status = rt_value_prepare(session, output, &type, bytes);
    if (status != BASE_OK) return status;
    size_t outer = 1;
    for (int32_t d = 0; d < axis; d++) outer *= (size_t)type.shape.dims[d];
    char *to = session->run.tensors[output].data;
    for (size_t o = 0; o < outer; o++) {
        for (size_t i = 0; i < count; i++) {
            size_t row = elements[i].tensor.bytes / outer;
            if (row) memcpy(to, (const char *)elements[i].tensor.data + o * row, row);
            to += row;
        }
    }
    return BASE_OK;
}

/* ---- maps ---------------------------------------------------------------------------------------------- */

/* One map: a list of its keys and of row `row` of the values, which stay where they are. */
static base_status append_map(ouro_session *session, rt_buffer *list, const rt_element *keys,
                              const rt_element *values, size_t row) {
    const size_t columns = (size_t)keys->tensor.type.shape.dims[0],
                 bytes = columns * op_dtype_bytes(values->tensor.type.dtype);
    rt_buffer *pair = new_sequence(session, 2);
    if (!pair) return BASE_SYSTEM_ERROR;
    rt_element part = *values;
    part.tensor.type.shape = (op_shape){.rank = 1, .dims = {(int64_t)columns}};
    part.tensor.bytes = bytes;
    part.tensor.data = bytes ? (char *)values->tensor.data + row * bytes : NULL;
    append(pair, keys);
    append(pair, &part);
    const rt_element map = {
        .tensor = {.type = {.kind = OP_KIND_MAP, .dtype = part.tensor.type.dtype, .shape.rank = -1},
                   .bytes = pair->used,
                   .data = pair->data},
        .buffer = pair};
    append(list, &map);
    rt_buffer_release(&session->memory.pool, pair);
    return BASE_OK;
}

/* Each row of a matrix, or a vector, as a map from the keys of the columns. */
static base_status zip_map(ouro_session *session, const rt_step *step) {
    const uint32_t output = output_of(session, step);
    rt_element values, keys;
    base_status status = take_element(session, input_of(session, step, 0), &values);
    if (status != BASE_OK) return status;
    status = take_element(session, input_of(session, step, 1), &keys);
    if (status != BASE_OK) {
        rt_buffer_release(&session->memory.pool, values.buffer);
        return status;
    }
    const op_shape *shape = &values.tensor.type.shape;
    const size_t rows = shape->rank == 2 ? (size_t)shape->dims[0] : 1;
    rt_buffer *list = NULL;
    if (shape->rank < 1 || shape->rank > 2 ||
        shape->dims[shape->rank - 1] != keys.tensor.type.shape.dims[0]) {
        char text[256];
        status =
            base_fail(&session->run.report, BASE_INVALID, "input 0 is %s, for %" PRId64 " keys",
                      op_type_print(&values.tensor.type, text, sizeof text), keys.tensor.type.shape.dims[0]);
    } else if (!(list = new_sequence(session, rows))) {
        status = BASE_SYSTEM_ERROR;
    }
    for (size_t r = 0; r < rows && status == BASE_OK; r++)
        status = append_map(session, list, &keys, &values, r);
    rt_buffer_release(&session->memory.pool, values.buffer);
    rt_buffer_release(&session->memory.pool, keys.buffer);
    if (status == BASE_OK && output != PLAN_ABSENT) return set_list(session, output, list, list->used);
    if (list) rt_buffer_release(&session->memory.pool, list);
    return status;
}

/* The keys and the values of a map. */
static base_status map_parts(ouro_session *session, const rt_step *step) {
    const plan_node *node = &session->of->nodes[step->node];
    const int64_t wanted = op_attribute_integer(step->detail, "keys", OP_INT64);
    size_t count;
    const rt_element *elements = elements_of(input_value(session, step, 0), &count);
    if (count != 2 || elements[0].tensor.type.dtype != (op_dtype)wanted) {
        return base_fail(
            &session->run.report, BASE_INVALID, "the keys of the map are of type %s, expected %s",
            count == 2 ? op_dtype_name(elements[0].tensor.type.dtype) : "?", op_dtype_name((op_dtype)wanted));
    }
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < 2 && status == BASE_OK; i++) {
        const uint32_t id = session->of->tensor_ids[node->outputs + i];
        const bool used = id != PLAN_ABSENT && session->of->tensors[id].address.space != MEMORY_NONE;
        if (used) status = put_element(session, id, &elements[i]);
    }
    return status;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

bool rt_sequence_is_node(const plan *of, const plan_node *node) {
    bool lists = op_schema_of(plan_node_code(of, node))->flags & OP_FLAG_LISTS;
    for (uint64_t i = 0; i < node->input_count + node->output_count && !lists; i++) {
        uint32_t id =
            of->tensor_ids[i < node->input_count ? node->inputs + i : node->outputs + i - node->input_count];
        lists = id != PLAN_ABSENT && of->tensors[id].kind != OP_KIND_TENSOR;
    }
    return lists;
}

static base_status run_sequence(ouro_session *session, const rt_step *step) {
    uint32_t output = output_of(session, step);
    switch (plan_node_code(session->of, &session->of->nodes[step->node])) {
    case OP_SEQUENCE_EMPTY:
    case OP_SEQUENCE_CONSTRUCT:
    case OP_OPTIONAL:
        return construct(session, step);
    case OP_SEQUENCE_INSERT:
        return insert(session, step);
    case OP_SEQUENCE_ERASE:
        return erase(session, step);
    case OP_SEQUENCE_AT:
        return at(session, step);
    case OP_SEQUENCE_LENGTH:
        return count_elements(session, step, false);
    case OP_SPLIT_TO_SEQUENCE:
        return split(session, step);
    case OP_CONCAT_FROM_SEQUENCE:
        return join(session, step);
    case OP_OPTIONAL_HAS_ELEMENT:
        return count_elements(session, step, true);
    case OP_OPTIONAL_GET_ELEMENT:
        return get_element(session, step);
    case OP_ZIP_MAP:
        return zip_map(session, step);
    case OP_MAP_PARTS:
        return map_parts(session, step);
    case OP_IDENTITY:
    case OP_COPY:
        return output == PLAN_ABSENT ? BASE_OK
                                     : rt_sequence_move(session, input_of(session, step, 0), output);
    default:
        return base_fail(&session->run.report, BASE_INVALID, "does not take sequences or optionals");
    }
}

/* ---- for others ---------------------------------------------------------------------------------------- */

bool rt_value_equal(const op_tensor *a, const op_tensor *b, size_t *at) {
    *at = 0;
    if (a->bytes != b->bytes || !op_shape_equal(&a->type.shape, &b->type.shape)) return false;
    if (a->type.kind != OP_KIND_TENSOR) {
        size_t count, within;
        const rt_element *first = elements_of(a, &count), *second = elements_of(b, &count);
        for (size_t i = 0; i < count; i++, *at += sizeof *first) {
            if (!rt_value_equal(&first[i].tensor, &second[i].tensor, &within)) return false;
        }
        return true;
    }
    if (a->type.dtype == OP_STRING) {
        const op_string *first = a->data, *second = b->data;
        for (; *at < a->bytes; first++, second++, *at += sizeof *first) {
            if (first->length != second->length ||
                (first->length && memcmp(first->data, second->data, first->length) != 0))
                return false;
        }
        return true;
    }
    if (!a->bytes || memcmp(a->data, b->data, a->bytes) == 0) return true;
    const unsigned char *first = a->data, *second = b->data;
    while (first[*at] == second[*at]) ++*at;
    return false;
}

base_status rt_sequence_keep(ouro_session *session, const op_tensor *value, rt_buffer **kept, void **data) {
    size_t count;
    const rt_element *elements = elements_of(value, &count);
    rt_buffer *list = new_sequence(session, count);
    base_status status = list ? BASE_OK : BASE_SYSTEM_ERROR;
    for (size_t i = 0; i < count && status == BASE_OK; i++) {
        rt_element element = elements[i];
        if (element.tensor.type.kind != OP_KIND_TENSOR) {
            status = rt_sequence_keep(session, &elements[i].tensor, &element.buffer, &element.tensor.data);
        } else if (!element.buffer) {
            status = copy_tensor(session, &elements[i].tensor, &element);
        } else {
            rt_buffer_retain(element.buffer);
        }
        if (status != BASE_OK) break;
        append(list, &element);
        rt_buffer_release(&session->memory.pool, element.buffer);
    }
    if (status != BASE_OK) {
        rt_buffer_release(&session->memory.pool, list);
        return status;
    }
    *kept = list;
    *data = list->data;
    return BASE_OK;
}

/* ---- making -------------------------------------------------------------------------------------------- */

bool rt_sequence_make(ouro_session *session, const plan_node *node, rt_step *step) {
    op_attributes *attributes = BASE_NEW(&session->code.tables, op_attributes);
    step->kind = RT_STEP_SEQUENCE;
    step->special = run_sequence;
    step->detail = attributes;
    return attributes && plan_node_attributes(session->of, node, &session->code.tables, attributes);
}
