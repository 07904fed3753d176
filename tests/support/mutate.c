/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.c: see mutate.h. */
#include "tests/support/mutate.h"
#include "tests/support/plan.h"
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

/* First those that say what is computed, then, from FIRST_PLACE on, those that say where it lies, or nothing that a run looks at. */
static const field fields[] = {
    WHOLE(integers, int64_t),
    WHOLE(tensor_ids, uint32_t),
    WHOLE(symbols, uint32_t),
    WHOLE(bounds, int64_t),
    HEADER(constants_bytes),
    FIELD(tensors, plan_tensor, kind),
    FIELD(tensors, plan_tensor, element),
    FIELD(tensors, plan_tensor, dtype),
    FIELD(tensors, plan_tensor, layout),
    FIELD(tensors, plan_tensor, rank),
    FIELD(tensors, plan_tensor, graph),
    FIELD(tensors, plan_tensor, dims),
    FIELD(attributes, plan_attribute, name),
    FIELD(attributes, plan_attribute, kind),
    FIELD(attributes, plan_attribute, count),
    FIELD(attributes, plan_attribute, value),
    FIELD(nodes, plan_node, operator_name),
    FIELD(nodes, plan_node, kernel),
    FIELD(nodes, plan_node, graph),
    FIELD(nodes, plan_node, first_graph),
    FIELD(nodes, plan_node, graph_count),
    FIELD(nodes, plan_node, inputs),
    FIELD(nodes, plan_node, input_count),
    FIELD(nodes, plan_node, outputs),
    FIELD(nodes, plan_node, output_count),
    FIELD(nodes, plan_node, attributes),
    FIELD(nodes, plan_node, attribute_count),
    FIELD(graphs, plan_graph, owner),
    FIELD(graphs, plan_graph, parameters),
    FIELD(graphs, plan_graph, parameter_count),
    FIELD(graphs, plan_graph, results),
    FIELD(graphs, plan_graph, result_count),
    FIELD(graphs, plan_graph, nodes),
    FIELD(graphs, plan_graph, node_count),
    FIELD(inputs, plan_interface, tensor),
    FIELD(outputs, plan_interface, tensor),
    FIELD(states, plan_state, parameter),
    FIELD(states, plan_state, result),
    FIELD(states, plan_state, axis),
    FIELD(states, plan_state, turned),
    FIELD(states, plan_state, bound),
    HEADER(batch),
    FIELD(inputs, plan_interface, sample),
    FIELD(outputs, plan_interface, sample),

    HEADER(threads),
    HEADER(model_name),
    HEADER(allocator),
    HEADER(arena_bytes),
    HEADER(state_bytes),
    HEADER(spill_bytes),
    FIELD(tensors, plan_tensor, name),
    FIELD(tensors, plan_tensor, bytes),
    ADDRESS(tensors, plan_tensor, address),
    FIELD(nodes, plan_node, flags),
    FIELD(nodes, plan_node, reason),
    FIELD(nodes, plan_node, scratch_bytes),
    ADDRESS(nodes, plan_node, scratch),
    FIELD(graphs, plan_graph, region_offset),
    FIELD(graphs, plan_graph, region_bytes),
    FIELD(graphs, plan_graph, region_bound),
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
    FIELD(states, plan_state, input),
    FIELD(states, plan_state, output),
    FIELD(states, plan_state, offset),
    FIELD(states, plan_state, bytes),
};
enum { FIRST_PLACE = 44, FIELDS = sizeof fields / sizeof *fields };

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
    const field *of = &fields[edit->field % FIELDS];
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

void support_edit_only_places(support_edit *edit) {
    edit->field = FIRST_PLACE + edit->field % (FIELDS - FIRST_PLACE);
}

/* The address is that of a constant, in either plan, and another one: other numbers. */
static bool other_constant(const unsigned char *good, const unsigned char *changed) {
    plan_address was, is;
    memcpy(&was, good, sizeof was);
    memcpy(&is, changed, sizeof is);
    return (was.space == MEMORY_CONSTANT || is.space == MEMORY_CONSTANT) &&
           (was.space != is.space || was.offset != is.offset);
}

static bool other_constants(const unsigned char *good, const unsigned char *changed) {
    plan_header header;
    memcpy(&header, good, sizeof header);
    for (uint64_t i = 0; i < header.tensors.count; i++) {
        const size_t at = header.tensors.offset + i * sizeof(plan_tensor) + offsetof(plan_tensor, address);
        if (other_constant(good + at, changed + at)) return true;
    }
    for (uint64_t i = 0; i < header.addresses.count; i++) {
        const size_t at = header.addresses.offset + i * sizeof(plan_address);
        if (other_constant(good + at, changed + at)) return true;
    }
    return false;
}

bool support_plan_is_placed_anew(const unsigned char *good, const unsigned char *changed, size_t size) {
    unsigned char *copy = support_plan_copy(changed, size);
    for (size_t f = FIRST_PLACE; f < FIELDS; f++) {
        plan_table table = {0, 1};
        if (fields[f].table != SIZE_MAX) memcpy(&table, good + fields[f].table, sizeof table);
        for (uint64_t i = 0; i < table.count; i++) {
            const size_t at = table.offset + i * fields[f].record + fields[f].offset;
            memcpy(copy + at, good + at, fields[f].width);
        }
    }
    memcpy(copy + offsetof(plan_header, checksum), good + offsetof(plan_header, checksum), sizeof(uint64_t));
    const bool same = memcmp(copy, good, size) == 0 && !other_constants(good, changed);
    free(copy);
    return same;
}

/* ---- trying -------------------------------------------------------------------------------------------- */

enum { LARGEST_ARENA = 1 << 26, INPUT_BYTES = 1 << 18 };
/* Loops without an end take nearly all the time of a fuzz target; what runs at all has run after a moment. */
#define LONGEST_RUN 0.003

/* What integers of the inputs are in each run of several: how often loops run, which element is meant. One is an index beyond all
 * shapes, so that runs fail in their midst. */
static const int turns[SUPPORT_RUNS] = {2, 3, 9, 1, 5, 0, 4};

/* Numbers of the type, others in each input and each turn, so that loops run a few times and indices are within small shapes. */
static void fill(void *data, op_dtype dtype, size_t bytes, size_t index, size_t turn) {
    memset(data, 0, bytes);
    switch (dtype) {
    case OP_FLOAT:
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            ((float *)data)[i] = (float)((i * 7 + index * 5 + turn * 3) % 29) * 0.125f - 1.5f;
        break;
    case OP_INT32:
        for (size_t i = 0; i < bytes / sizeof(int32_t); i++) ((int32_t *)data)[i] = turns[turn];
        break;
    case OP_INT64:
        for (size_t i = 0; i < bytes / sizeof(int64_t); i++) ((int64_t *)data)[i] = turns[turn];
        break;
    case OP_BOOL:
        memset(data, turn % 2 == 0, bytes);
        break;
    default:
        break;
    }
}

/* Memory for input `index`, of these bytes and no more, so that sanitizers see reads after its end; filled. NULL: none. */
static void *new_input(op_dtype dtype, size_t bytes, size_t index, size_t turn) {
    void *data;
    if (bytes > INPUT_BYTES || posix_memalign(&data, 64, bytes ? bytes : 1)) return NULL;
    fill(data, dtype, bytes, index, turn);
    return data;
}

/* Something of the input's kind, in *data, to be freed after the run; OURO_USAGE where it would be too large. */
static ouro_status bind(ouro_session *session, const ouro_plan *handle, size_t index, size_t turn,
                        void **data) {
    ouro_tensor_info info;
    ouro_error error;
    if (ouro_plan_input(handle, index, &info) != OURO_OK) return OURO_USAGE;
    const op_dtype dtype = (op_dtype)info.dtype;
    const size_t size = op_dtype_bytes(dtype);
    ouro_value tensor = {.kind = OURO_TENSOR, .dtype = info.dtype, .rank = 1, .dims = {2}};
    if (info.kind != OURO_TENSOR) {
        tensor.bytes = 2 * size;
        if (!(tensor.data = *data = new_input(dtype, tensor.bytes, index, turn))) return OURO_USAGE;
        const ouro_value sequence = {.kind = OURO_SEQUENCE, .elements = &tensor, .count = 1},
                         optional = {.kind = OURO_OPTIONAL,
                                     .elements = info.element == OURO_SEQUENCE ? &sequence : &tensor,
                                     .count = 1};
        return ouro_session_bind_value(session, index, info.kind == OURO_SEQUENCE ? &sequence : &optional,
                                       &error);
    }
    tensor.rank = info.rank;
    tensor.bytes = size;
    for (int d = 0; d < info.rank; d++) {
        tensor.dims[d] = info.dims[d] < 0 ? 2 + (int)turn % 2 : info.dims[d];
        if (!base_size_multiply(tensor.bytes, (size_t)tensor.dims[d], &tensor.bytes)) return OURO_USAGE;
    }
    if (!(tensor.data = *data = new_input(dtype, tensor.bytes, index, turn))) return OURO_USAGE;
    return ouro_session_bind_value(session, index, &tensor, &error);
}

static void digest(const void *data, size_t bytes, uint64_t *to) { /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) *to = (*to ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
}

static void digest_value(const ouro_value *value, uint64_t *to) {
    digest(&value->kind, sizeof value->kind, to);
    digest(&value->dtype, sizeof value->dtype, to);
    digest(value->dims, (size_t)value->rank * sizeof *value->dims, to);
    digest(&value->count, sizeof value->count, to);
    if (value->kind == OURO_TENSOR && value->dtype != OURO_STRING) digest(value->data, value->bytes, to);
    for (size_t i = 0; value->kind != OURO_TENSOR && i < value->count; i++)
        digest_value(&value->elements[i], to);
}

/* One run. Inputs stay where they are until it is done. */
static support_reached run(ouro_session *session, const ouro_plan *handle, bool check, size_t turn,
                           support_ran *ran) {
    const size_t count = ouro_plan_input_count(handle);
    ouro_error error;
    support_reached reached = SUPPORT_RAN;
    base_report report = {0};
    *ran = (support_ran){.status = OURO_USAGE};
    void **data = calloc(count ? count : 1, sizeof *data);
    if (!data) return SUPPORT_OPENED;
    for (size_t i = 0; i < count && reached == SUPPORT_RAN; i++) {
        const ouro_status bound = bind(session, handle, i, turn, &data[i]);
        if (bound == OURO_MACHINE) ran->status = bound;
        if (bound != OURO_OK) reached = SUPPORT_OPENED;
    }
    if (reached == SUPPORT_RAN) {
        ran->status =
            check ? (ouro_status)rt_session_check(session, &report) : ouro_session_run(session, &error);
        if (ran->status != OURO_OK)
            reached = strstr(report.text, "differs from the same step") ? SUPPORT_DIFFERS : SUPPORT_OPENED;
    }
    if (reached == SUPPORT_DIFFERS) fputs(report.text, stderr);
    for (size_t i = 0; i < ouro_plan_output_count(handle) && reached == SUPPORT_RAN; i++) {
        ouro_value value;
        ouro_status read = ouro_session_output_value(session, i, &value, &error);
        if (read == OURO_MACHINE) read = ouro_session_output_value(session, i, &value, &error);
        if (read != OURO_OK) abort();
        digest_value(&value, &ran->outputs);
    }
    for (size_t i = 0; i < count; i++) free(data[i]);
    free(data);
    return reached;
}

support_ran support_session_run_once(ouro_session *session, const ouro_plan *handle, size_t turn) {
    support_ran ran;
    run(session, handle, false, turn, &ran);
    return ran;
}

static ouro_session *new_session(ouro_plan *handle, double seconds) {
    const ouro_session_options options = {.run_seconds = seconds, .spill = &support_spill};
    const plan *of = rt_plan_of(handle);
    ouro_session *session;
    ouro_error error;
    if (ouro_plan_arena_bytes(handle) > LARGEST_ARENA || ouro_plan_state_bytes(handle) > LARGEST_ARENA)
        return NULL;
    for (uint64_t i = 0; i < of->header->tensors.count; i++)
        if (of->tensors[i].bytes > LARGEST_ARENA) return NULL;
    return ouro_session_new(handle, &options, &session, &error) == OURO_OK ? session : NULL;
}

support_reached support_plan_run(ouro_plan *handle, bool check) {
    ouro_session *session = new_session(handle, LONGEST_RUN);
    if (!session) return SUPPORT_OPENED;
    support_ran ran;
    support_reached reached = run(session, handle, check, 0, &ran);
    /* What a run leaves to the next one is read by that. */
    if (reached == SUPPORT_RAN && rt_plan_of(handle)->header->states.count)
        reached = run(session, handle, check, 1, &ran);
    ouro_session_free(session);
    return reached;
}

bool support_plan_outcome(ouro_plan *handle, double seconds, support_ran ran[SUPPORT_RUNS]) {
    ouro_session *session = new_session(handle, seconds);
    if (!session) return false;
    for (size_t turn = 0; turn < SUPPORT_RUNS; turn++) run(session, handle, false, turn, &ran[turn]);
    ouro_session_free(session);
    return true;
}

bool support_outcomes_differ(const support_ran good[SUPPORT_RUNS], const support_ran other[SUPPORT_RUNS]) {
    for (size_t i = 0; i < SUPPORT_RUNS; i++) {
        /* A run that ended too early keeps the states that were, and the next ones differ by that. */
        if (other[i].status == OURO_CANCELLED || other[i].status == OURO_MACHINE) return false;
        if (good[i].status != other[i].status || good[i].outputs != other[i].outputs) return true;
    }
    return false;
}

support_reached support_plan_try_beside(unsigned char *bytes, size_t size, const unsigned char *good,
                                        const support_ran expected[SUPPORT_RUNS]) {
    ouro_plan *handle;
    ouro_error error;
    plan_header header;
    support_reached reached;
    support_ran ran[SUPPORT_RUNS];
    if (size < sizeof header) return SUPPORT_REFUSED;
    memcpy(&header, bytes, sizeof header);
    header.checksum = plan_checksum(bytes, size);
    memcpy(bytes, &header, sizeof header);
    if (ouro_plan_open(bytes, size, &handle, &error) != OURO_OK) {
        if (!error.message[0]) abort();
        return SUPPORT_REFUSED;
    }
    if (good && support_plan_is_placed_anew(good, bytes, size)) {
        reached = !support_plan_outcome(handle, LONGEST_RUN, ran) ? SUPPORT_OPENED
                  : support_outcomes_differ(expected, ran)        ? SUPPORT_DIFFERS
                                                                  : SUPPORT_RAN;
    } else {
        reached = support_plan_run(handle, false);
    }
    ouro_plan_free(handle);
    return reached;
}

support_reached support_plan_try(unsigned char *bytes, size_t size) {
    return support_plan_try_beside(bytes, size, NULL, NULL);
}

unsigned char *support_plan_copy(const void *bytes, size_t size) {
    unsigned char *copy =
        aligned_alloc(PLAN_ALIGNMENT, (size + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT);
    if (!copy) abort();
    memcpy(copy, bytes, size);
    return copy;
}
