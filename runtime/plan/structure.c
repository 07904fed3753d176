/* SPDX-License-Identifier: Apache-2.0 */
/* structure.c: is a plan well formed? Every index, text, size and type, before anything follows one.
 *
 * Tables are checked in an order in which each refers only to what has been checked: texts, integers,
 * interface sizes, tensors, lists of tensor ids, graphs, nodes; then what needs all of them: scopes, definitions, and the
 * types that operators give.
 */
#include "runtime/plan/structure.h"
#include "ir/base/printable.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DEPTH = 200, MOST_THREADS = 1024, MOST_ATTRIBUTES = 256 };

static bool in_table(uint64_t first, uint64_t count, const plan_table *table) {
    return first <= table->count && count <= table->count - first;
}

static bool within(uint64_t offset, uint64_t bytes, uint64_t whole) {
    return offset <= whole && bytes <= whole - offset;
}

static bool is_text(const structure_checker *c, uint64_t text) {
    return text < c->of->header->texts.count;
}

/* Names are shown by many: see printable.h. */
static bool is_name(const structure_checker *c, uint64_t text) {
    return is_text(c, text) && base_text_is_printable(c->of->texts + text);
}

static const char *text_of(const structure_checker *c, uint32_t text) {
    return c->of->texts + text;
}

/* ---- header and interfaces ----------------------------------------------------------------------------- */

static bool check_basics(structure_checker *c) {
    const plan_header *header = c->of->header;
    uint64_t texts = header->texts.count;
    if (!texts || c->of->texts[0] || c->of->texts[texts - 1])
        return structure_fail(c, "its texts have no end");
    if (!is_name(c, header->model_name) || !is_name(c, header->allocator))
        return structure_fail(c, "a name is no text");
    if (!is_name(c, header->spill_path) || header->spill_bytes > INT64_MAX)
        return structure_fail(c, "its spill file is none");
    if (header->contracts > 1) return structure_fail(c, "contracts is %u", header->contracts);
    if (header->optimal > 1) return structure_fail(c, "optimal is %u", header->optimal);
    if (header->threads < 1 || header->threads > MOST_THREADS) {
        return structure_fail(c, "it is for %u threads", header->threads);
    }
    if (!header->symbols.count) return structure_fail(c, "it has no symbols");
    for (uint64_t i = 0; i < header->symbols.count; i++) {
        if (!is_name(c, c->of->symbols[i])) return structure_fail(c, "symbol %" PRIu64 " has no name", i);
    }
    if (header->bounds.count && header->bounds.count != header->symbols.count)
        return structure_fail(c, "not every symbol has a bound");
    const plan_table *tables[] = {&header->inputs, &header->outputs};
    const plan_interface *items[] = {c->of->inputs, c->of->outputs};
    for (int t = 0; t < 2; t++) {
        for (uint64_t i = 0; i < tables[t]->count; i++) {
            if (!is_name(c, items[t][i].name) || items[t][i].tensor >= header->tensors.count) {
                return structure_fail(c, "%s %" PRIu64 " refers to nothing", t ? "output" : "input", i);
            }
        }
    }
    if (header->batch >= header->symbols.count || (header->batch && header->states.count))
        return structure_fail(c, "it has no such batch");
    for (uint64_t i = 0; i < header->states.count; i++) {
        const plan_state *state = &c->of->states[i];
        if (!is_name(c, state->input) || !is_name(c, state->output) ||
            state->parameter >= header->tensors.count || state->result >= header->tensors.count)
            return structure_fail(c, "state %" PRIu64 " refers to nothing", i);
    }
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

static bool check_dims(structure_checker *c, int64_t rank, uint64_t first) {
    if (rank < -1 || rank > OP_MAX_RANK) return false;
    if (rank > 0 && !in_table(first, (uint64_t)rank, &c->of->header->integers)) return false;
    for (int64_t d = 0; d < rank; d++) {
        int64_t dim = c->of->integers[first + (uint64_t)d];
        if (dim < 0 && dim != OP_DIM_UNKNOWN && dim <= -(int64_t)c->of->header->symbols.count) return false;
    }
    return true;
}

/* The size of an interface's buffer. */
static uint64_t interface_bytes(const structure_checker *c, uint32_t place, uint32_t index) {
    const plan_interface *items = place == MEMORY_INPUT ? c->of->inputs : c->of->outputs;
    return c->of->tensors[items[index].tensor].bytes;
}

static bool check_place(structure_checker *c, uint32_t id, bool sized) {
    const plan *of = c->of;
    const plan_tensor *tensor = &of->tensors[id];
    const plan_address *address = &tensor->address;
    const char *name = text_of(c, tensor->name);
    uint64_t whole;
    switch (address->space) {
    case MEMORY_DYNAMIC:
        if (!sized && tensor->bytes) { /* a reservation */
            whole = of->header->arena_bytes;
            break;
        }
        /* fall through */
    case MEMORY_NONE:
        if (address->index || address->offset)
            return structure_fail(c, "tensor \"%s\" has an offset but no memory", name);
        return true;
    case MEMORY_ARENA:
        whole = of->header->arena_bytes;
        break;
    case MEMORY_STATE:
        whole = of->header->state_bytes;
        break;
    case MEMORY_SPILL:
        whole = of->header->spill_bytes;
        break;
    case MEMORY_CONSTANT:
        whole = of->header->constants_bytes;
        break;
    case MEMORY_INPUT:
    case MEMORY_OUTPUT:
        if (address->index >=
            (address->space == MEMORY_INPUT ? of->header->inputs : of->header->outputs).count) {
            return structure_fail(c, "tensor \"%s\" lies in an input or output that does not exist", name);
        }
        whole = interface_bytes(c, address->space, address->index);
        break;
    case MEMORY_MULTIVIEW:
        if (address->index >= of->header->multiviews.count) {
            return structure_fail(c, "tensor \"%s\" lies in a multi-view that does not exist", name);
        }
        return true;
    default:
        return structure_fail(c, "tensor \"%s\" lies in memory space %u", name, address->space);
    }
    if (address->space != MEMORY_INPUT && address->space != MEMORY_OUTPUT && address->index) {
        return structure_fail(c, "tensor \"%s\" has an index in a memory space without", name);
    }
    if (!sized && address->space != MEMORY_INPUT && address->space != MEMORY_DYNAMIC) {
        return structure_fail(c, "tensor \"%s\" of no known size has an address", name);
    }
    if (!within(address->offset, tensor->bytes, whole)) {
        return structure_fail(
            c, "tensor \"%s\": bytes %" PRIu64 " to %" PRIu64 " lie outside of their memory of %" PRIu64,
            name, address->offset, address->offset + tensor->bytes, whole);
    }
    size_t element = op_dtype_bytes((op_dtype)tensor->dtype);
    if (element && address->offset % (element < 8 ? element : 8) != 0) {
        return structure_fail(c, "tensor \"%s\" is not aligned to its elements", name);
    }
    /* What kernels pack has numbers of their own, and whole registers. */
    if (tensor->layout == OP_LAYOUT_PACKED && address->offset % PLAN_ALIGNMENT != 0)
        return structure_fail(c, "tensor \"%s\" is not aligned to its elements, which are packed", name);
    return true;
}

/* The characters of a constant tensor of strings lie among the constants. */
static bool check_strings(structure_checker *c, uint32_t id) {
    const plan *of = c->of;
    const plan_tensor *tensor = &of->tensors[id];
    for (uint64_t at = 0; at < tensor->bytes; at += sizeof(plan_string)) {
        plan_string record;
        uint64_t begin = tensor->address.offset + at;
        memcpy(&record, of->constants + begin, sizeof record);
        if (record.offset > of->header->constants_bytes - begin ||
            record.length > of->header->constants_bytes - begin - record.offset) {
            return structure_fail(
                c, "tensor \"%s\": the characters of element %" PRIu64 " lie outside of the constants",
                text_of(c, tensor->name), at / sizeof(plan_string));
        }
    }
    return true;
}

static bool check_tensor(structure_checker *c, uint32_t id) {
    const plan *of = c->of;
    const plan_tensor *tensor = &of->tensors[id];
    if (!is_name(c, tensor->name)) return structure_fail(c, "tensor %u has no name", id);
    const char *name = text_of(c, tensor->name);
    if (tensor->kind > OP_KIND_MAP || tensor->element > OP_KIND_MAP || tensor->dtype >= OP_DTYPE_COUNT ||
        tensor->layout >= OP_LAYOUT_COUNT || !check_dims(c, tensor->rank, tensor->dims)) {
        return structure_fail(c, "tensor \"%s\" has no valid type", name);
    }
    if (tensor->graph >= of->header->graphs.count)
        return structure_fail(c, "tensor \"%s\" is in no graph", name);
    op_type type;
    plan_tensor_type(of, id, &type);
    if (type.dtype == OP_NONE) {
        char text[256];
        base_fail_unsupported(c->report, "tensor \"%s\" is %s: that cannot be executed", name,
                              op_type_print(&type, text, sizeof text));
        return false;
    }
    size_t bytes = 0;
    bool sized = op_type_bytes(&type, &bytes);
    if (!sized && type.kind == OP_KIND_TENSOR && op_shape_known(&type.shape))
        return structure_fail(c, "tensor \"%s\" is too large", name);
    if (type.layout == OP_LAYOUT_PACKED && tensor->address.space != MEMORY_CONSTANT) {
        return structure_fail(c, "tensor \"%s\" is packed but no constant", name);
    }
    bool reserved = !sized && type.kind == OP_KIND_TENSOR && tensor->address.space == MEMORY_DYNAMIC;
    if (!reserved && tensor->bytes != (sized ? bytes : 0)) {
        return structure_fail(c, "tensor \"%s\" has %" PRIu64 " bytes, its type %zu", name, tensor->bytes,
                              bytes);
    }
    if (!check_place(c, id, sized)) return false;
    return type.dtype != OP_STRING || tensor->address.space != MEMORY_CONSTANT || check_strings(c, id);
}

static bool check_multiviews(structure_checker *c) {
    const plan *of = c->of;
    for (uint64_t i = 0; i < of->header->multiviews.count; i++) {
        const plan_multiview *multiview = &of->multiviews[i];
        if (!multiview->period ||
            !in_table(multiview->first, (uint64_t)multiview->prologue_count + multiview->period,
                      &of->header->addresses)) {
            return structure_fail(c, "multi-view %" PRIu64 " refers to nothing", i);
        }
    }
    for (uint64_t i = 0; i < of->header->addresses.count; i++) {
        const plan_address *address = &of->addresses[i];
        bool valid;
        switch (address->space) {
        case MEMORY_ARENA:
            valid = address->offset <= of->header->arena_bytes;
            break;
        case MEMORY_STATE:
            valid = address->offset <= of->header->state_bytes;
            break;
        case MEMORY_CONSTANT:
            valid = address->offset <= of->header->constants_bytes;
            break;
        case MEMORY_INPUT:
            valid = address->index < of->header->inputs.count;
            break;
        case MEMORY_OUTPUT:
            valid = address->index < of->header->outputs.count;
            break;
        case MEMORY_MULTIVIEW:
            valid = address->index < of->header->multiviews.count;
            break;
        default:
            valid = false;
        }
        if (!valid) return structure_fail(c, "entry %" PRIu64 " of the multi-views refers to nothing", i);
    }
    return true;
}

static bool check_tensors(structure_checker *c) {
    uint64_t count = c->of->header->tensors.count;
    for (uint32_t id = 0; id < count; id++) {
        if (!check_tensor(c, id)) return false;
    }
    for (uint64_t i = 0; i < c->of->header->tensor_ids.count; i++) {
        if (c->of->tensor_ids[i] != PLAN_ABSENT && c->of->tensor_ids[i] >= count) {
            return structure_fail(c, "tensor id %" PRIu64 " refers to no tensor", i);
        }
    }
    return check_multiviews(c);
}

/* ---- attributes ---------------------------------------------------------------------------------------- */

static bool is_string(const structure_checker *c, int64_t text, int64_t length) {
    return text >= 0 && length >= 0 && is_text(c, (uint64_t)text) &&
           (uint64_t)length < c->of->header->texts.count - (uint64_t)text && !c->of->texts[text + length];
}

static bool is_attribute(structure_checker *c, const plan_attribute *attribute) {
    const plan *of = c->of;
    if (!is_name(c, attribute->name)) return false;
    const plan_table *integers = &of->header->integers;
    uint64_t first = attribute->value;
    switch (attribute->kind) {
    case OP_ATTRIBUTE_INT:
    case OP_ATTRIBUTE_FLOAT:
        return true;
    case OP_ATTRIBUTE_STRING:
        return first <= INT64_MAX && is_string(c, (int64_t)first, (int64_t)attribute->count);
    case OP_ATTRIBUTE_INTS:
    case OP_ATTRIBUTE_FLOATS:
        return in_table(first, attribute->count, integers);
    case OP_ATTRIBUTE_STRINGS:
        if (attribute->count > integers->count || !in_table(first, 2 * attribute->count, integers))
            return false;
        for (uint64_t i = 0; i < attribute->count; i++) {
            if (!is_string(c, of->integers[first + 2 * i], of->integers[first + 2 * i + 1])) return false;
        }
        return true;
    case OP_ATTRIBUTE_TENSOR:
        return first < of->header->tensors.count && of->tensors[first].address.space == MEMORY_CONSTANT &&
               of->tensors[first].kind == OP_KIND_TENSOR && of->tensors[first].dtype != OP_STRING &&
               op_dtype_bits((op_dtype)of->tensors[first].dtype);
    case OP_ATTRIBUTE_TYPE: {
        if (!in_table(first, 4, integers)) return false;
        const int64_t *head = of->integers + first;
        return head[0] >= 0 && head[0] <= OP_KIND_MAP && head[1] >= 0 && head[1] <= OP_KIND_MAP &&
               head[2] >= 0 && head[2] < OP_DTYPE_COUNT && check_dims(c, head[3], first + 4);
    }
    default:
        return false;
    }
}

/* ---- graphs and nodes ---------------------------------------------------------------------------------- */

static bool check_graph(structure_checker *c, uint32_t number) {
    const plan *of = c->of;
    const plan_graph *graph = &of->graphs[number];
    if (!is_name(c, graph->name) ||
        !in_table(graph->parameters, graph->parameter_count, &of->header->tensor_ids) ||
        !in_table(graph->results, graph->result_count, &of->header->tensor_ids) ||
        !in_table(graph->nodes, graph->node_count, &of->header->nodes)) {
        return structure_fail(c, "graph %u refers to nothing", number);
    }
    const char *name = text_of(c, graph->name);
    if (!within(graph->region_offset, graph->region_bytes, of->header->arena_bytes)) {
        return structure_fail(c, "the region of graph \"%s\" lies outside of the arena", name);
    }
    for (uint64_t i = 0; i < graph->parameter_count; i++) {
        uint32_t id = of->tensor_ids[graph->parameters + i];
        if (id == PLAN_ABSENT || of->tensors[id].graph != number || c->defined[id]) {
            return structure_fail(c, "parameter %" PRIu64 " of graph \"%s\" is not its own", i, name);
        }
        c->defined[id] = 1;
    }
    for (uint64_t i = 0; i < graph->result_count; i++) {
        if (of->tensor_ids[graph->results + i] == PLAN_ABSENT) {
            return structure_fail(c, "graph \"%s\" has no result %" PRIu64, name, i);
        }
    }
    if (number == 0) {
        if (graph->owner != PLAN_ABSENT || graph->region_offset ||
            graph->region_bytes != of->header->arena_bytes) {
            return structure_fail(c, "its main graph is not the outermost");
        }
        c->depth[0] = 0;
        return true;
    }
    if (graph->owner >= of->header->nodes.count) return structure_fail(c, "graph \"%s\" has no owner", name);
    const plan_node *owner = &of->nodes[graph->owner];
    if (owner->first_graph > number || owner->graph_count <= number - owner->first_graph ||
        owner->graph >= number) { /* owners first: no cycles */
        return structure_fail(c, "graph \"%s\" is not owned by its owner", name);
    }
    c->depth[number] = c->depth[owner->graph] + 1;
    if (c->depth[number] > MOST_DEPTH)
        return structure_fail(c, "graphs are nested more than %d deep", (int)MOST_DEPTH);
    return true;
}

static bool check_scratch(structure_checker *c, const plan_node *node) {
    const plan_address *scratch = &node->scratch;
    if (!node->scratch_bytes)
        return scratch->space == MEMORY_NONE || structure_fail(c, "a scratch has no bytes");
    if (scratch->space != MEMORY_ARENA || scratch->index || scratch->offset % PLAN_ALIGNMENT != 0 ||
        !within(scratch->offset, node->scratch_bytes, c->of->header->arena_bytes)) {
        return structure_fail(c, "the scratch of node \"%s\" lies outside of the arena",
                              text_of(c, node->name));
    }
    return true;
}

static bool check_node(structure_checker *c, uint32_t number) {
    const plan *of = c->of;
    const plan_node *node = &of->nodes[number];
    const plan_header *header = of->header;
    if (!is_name(c, node->operator_name) || !is_name(c, node->operator_domain) || !is_name(c, node->name) ||
        !is_name(c, node->path) || !is_name(c, node->kernel) || node->graph >= header->graphs.count ||
        !in_table(node->inputs, node->input_count, &header->tensor_ids) ||
        !in_table(node->outputs, node->output_count, &header->tensor_ids) ||
        !in_table(node->attributes, node->attribute_count, &header->attributes) ||
        !in_table(node->first_graph, node->graph_count, &header->graphs) ||
        node->flags & ~(uint32_t)(PLAN_NODE_ALIAS | PLAN_NODE_DYNAMIC) || !is_name(c, node->reason)) {
        return structure_fail(c, "node %u refers to nothing", number);
    }
    const char *name = text_of(c, node->name), *operator_name = text_of(c, node->operator_name);
    op_code code = plan_node_code(of, node);
    if (code == OP_CODE_NONE) {
        base_fail_unsupported(c->report, "node \"%s\" applies operator %s, which this library does not have",
                              name, operator_name);
        return false;
    }
    const op_schema *row = op_schema_of(code);
    bool owns = row->flags & OP_FLAG_GRAPHS;
    if (node->graph_count != (code == OP_IF ? 2u : owns ? 1u : 0u)) {
        return structure_fail(c, "node \"%s\" (%s) owns %u graphs", name, operator_name, node->graph_count);
    }
    for (uint32_t g = 0; g < node->graph_count; g++) {
        if (of->graphs[node->first_graph + g].owner != number) {
            return structure_fail(c, "node \"%s\" (%s) does not own its graphs", name, operator_name);
        }
    }
    if (node->input_count > INT32_MAX || (int64_t)node->input_count < row->input_minimum ||
        (row->input_maximum >= 0 && (int64_t)node->input_count > row->input_maximum) ||
        node->output_count > INT32_MAX || (int64_t)node->output_count < row->output_minimum ||
        (row->output_maximum >= 0 && (int64_t)node->output_count > row->output_maximum)) {
        return structure_fail(c, "node \"%s\" (%s) has %" PRIu64 " inputs and %" PRIu64 " outputs", name,
                              operator_name, node->input_count, node->output_count);
    }
    if (node->attribute_count > MOST_ATTRIBUTES) {
        return structure_fail(c, "node \"%s\" (%s) has %" PRIu64 " attributes", name, operator_name,
                              node->attribute_count);
    }
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        if (!is_attribute(c, &of->attributes[node->attributes + i])) {
            return structure_fail(c, "attribute %" PRIu64 " of node \"%s\" (%s) is not valid", i, name,
                                  operator_name);
        }
    }
    if (row->flags & (OP_FLAG_DYNAMIC | OP_FLAG_LISTS) && !(node->flags & PLAN_NODE_DYNAMIC))
        return structure_fail(c, "node \"%s\" (%s) has results of sizes that only a run tells", name,
                              operator_name);
    if (owns && node->flags & PLAN_NODE_ALIAS)
        return structure_fail(c, "node \"%s\" (%s) is an alias", name, operator_name);
    const char *kernel = text_of(c, node->kernel);
    bool runs = !owns && !(node->flags & PLAN_NODE_ALIAS);
    if (!runs && kernel[0])
        return structure_fail(c, "node \"%s\" (%s) does not run a kernel", name, operator_name);
    if (runs && !kernel[0] && !(node->flags & PLAN_NODE_DYNAMIC)) {
        return structure_fail(c, "node \"%s\" (%s) has no kernel", name, operator_name);
    }
    if (kernel[0] && c->host && !c->host->has_kernel(code, kernel)) {
        return structure_fail(c, "node \"%s\" (%s) runs kernel \"%s\", which this library does not have",
                              name, operator_name, kernel);
    }
    return check_scratch(c, node);
}

/* ---- scopes and definitions ---------------------------------------------------------------------------- */

/* The value of the tensor is there for step `node` of `graph` (past the last: for its results): a constant, a
 * parameter of the graph or an enclosing one, or the output of a node that comes before the step, or before
 * the control node that holds it. */
static bool check_use(structure_checker *c, uint32_t id, uint32_t graph, uint64_t node) {
    const plan *of = c->of;
    uint32_t home = of->tensors[id].graph;
    while (graph > home) {
        node = of->graphs[graph].owner;
        graph = of->nodes[node].graph;
    }
    const char *name = text_of(c, of->tensors[id].name);
    if (graph != home) return structure_fail(c, "tensor \"%s\" is used outside of its graph", name);
    if (!c->defined[id] && of->tensors[id].address.space != MEMORY_CONSTANT) {
        return structure_fail(c, "tensor \"%s\" is used but never made", name);
    }
    return c->defined[id] < 2 || c->defined[id] - 2 < node ||
           structure_fail(c, "tensor \"%s\" is used before it is made", name);
}

static bool check_scopes(structure_checker *c) {
    const plan *of = c->of;
    uint64_t next = 0;
    for (uint32_t g = 0; g < of->header->graphs.count; g++) {
        const plan_graph *graph = &of->graphs[g];
        const char *name = text_of(c, graph->name);
        if (graph->nodes != next)
            return structure_fail(c, "the nodes of graph \"%s\" do not follow those before", name);
        next += graph->node_count;
        for (uint64_t n = graph->nodes; n < next; n++) {
            const plan_node *node = &of->nodes[n];
            if (node->graph != g) return structure_fail(c, "node %" PRIu64 " is not in its graph", n);
            for (uint64_t i = 0; i < node->output_count; i++) {
                uint32_t id = of->tensor_ids[node->outputs + i];
                if (id == PLAN_ABSENT) continue;
                if (of->tensors[id].graph != g || c->defined[id]) {
                    return structure_fail(c, "tensor \"%s\" is defined twice",
                                          text_of(c, of->tensors[id].name));
                }
                c->defined[id] = n + 2;
            }
        }
    }
    if (next != of->header->nodes.count) return structure_fail(c, "it has nodes outside of its graphs");
    for (uint32_t g = 0; g < of->header->graphs.count; g++) {
        const plan_graph *graph = &of->graphs[g];
        for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
            const plan_node *node = &of->nodes[n];
            for (uint64_t i = 0; i < node->input_count; i++) {
                uint32_t id = of->tensor_ids[node->inputs + i];
                if (id != PLAN_ABSENT && !check_use(c, id, g, n)) return false;
            }
        }
        for (uint64_t i = 0; i < graph->result_count; i++) {
            if (!check_use(c, of->tensor_ids[graph->results + i], g, graph->nodes + graph->node_count))
                return false;
        }
    }
    for (uint32_t id = 0; id < of->header->tensors.count; id++) {
        bool constant = of->tensors[id].address.space == MEMORY_CONSTANT;
        if (!c->defined[id] && constant && of->tensors[id].graph != 0) {
            return structure_fail(c, "constant \"%s\" belongs to a graph", text_of(c, of->tensors[id].name));
        }
    }
    return true;
}

/* It grows along an axis that it has, in memory for as many positions as it may have. */
static bool check_growth(structure_checker *c, const plan_state *state, const op_type *held, bool sized) {
    const plan *of = c->of;
    op_type most = *held;
    size_t bytes = 0;
    bool fits = state->turned <= 1 && state->bound <= INT64_MAX;
    if (state->axis == PLAN_ABSENT) {
        fits = fits && !state->turned && !state->bound && !state->bytes && !state->offset;
    } else {
        fits = fits && !sized && (int64_t)state->axis < held->shape.rank;
        const uint32_t axis = state->turned ? 0 : state->axis;
        if (fits) most.shape.dims[axis] = (int64_t)state->bound;
        if (fits && state->bytes)
            fits = state->bound && op_type_bytes(&most, &bytes) && bytes <= state->bytes &&
                   state->offset % PLAN_ALIGNMENT == 0 &&
                   within(state->offset, state->bytes, of->header->state_bytes);
        else fits = fits && !state->offset;
    }
    return fits || structure_fail(c, "state \"%s\" cannot grow like that", text_of(c, state->input));
}

/* Parameter and result of one size, in memory that the session keeps. */
static bool check_state(structure_checker *c, const plan_state *state) {
    const plan *of = c->of;
    op_type held, made;
    size_t bytes;
    plan_tensor_type(of, state->parameter, &held);
    plan_tensor_type(of, state->result, &made);
    const bool sized = op_type_bytes(&held, &bytes);
    if (held.kind != OP_KIND_TENSOR || made.kind != OP_KIND_TENSOR || held.dtype != made.dtype ||
        held.dtype == OP_STRING || held.layout != OP_LAYOUT_ROW_MAJOR || made.layout != OP_LAYOUT_ROW_MAJOR ||
        held.shape.rank < 0 || held.shape.rank != made.shape.rank || sized != op_type_bytes(&made, &bytes) ||
        (sized && !op_shape_equal(&held.shape, &made.shape)))
        return structure_fail(c, "state \"%s\" changes its type", text_of(c, state->input));
    if (!check_growth(c, state, &held, sized)) return false;
    const plan_address *address = &of->tensors[state->parameter].address;
    if (address->space == MEMORY_STATE) return true;
    if (!sized && address->space == MEMORY_DYNAMIC && !of->tensors[state->parameter].bytes) return true;
    const plan_multiview *view = address->space == MEMORY_MULTIVIEW ? &of->multiviews[address->index] : NULL;
    bool kept = view && view->loop == plan_run_loop(of);
    for (uint64_t i = 0; kept && i < (uint64_t)view->prologue_count + view->period; i++) {
        const uint32_t space = of->addresses[view->first + i].space;
        /* What is a constant from some run on may lie there, after the first. */
        kept = space == MEMORY_STATE || (space == MEMORY_CONSTANT && i);
    }
    return kept || structure_fail(c, "state \"%s\" lies in no memory that is kept", text_of(c, state->input));
}

static bool check_states(structure_checker *c) {
    const plan *of = c->of;
    const plan_graph *graph = &of->graphs[0];
    if (of->header->state_bytes % PLAN_ALIGNMENT) return structure_fail(c, "its states are not aligned");
    if (of->header->state_bytes && !of->header->states.count)
        return structure_fail(c, "it keeps %" PRIu64 " bytes from run to run, but has no states",
                              of->header->state_bytes);
    for (uint32_t i = 0; i < of->header->states.count; i++) {
        if (of->states[i].parameter != of->tensor_ids[graph->parameters + i] ||
            of->states[i].result != of->tensor_ids[graph->results + i])
            return structure_fail(c, "state \"%s\" is not what a run begins and ends with",
                                  text_of(c, of->states[i].input));
        if (!check_state(c, &of->states[i])) return false;
    }
    return true;
}

static bool check_interfaces(structure_checker *c) {
    const plan *of = c->of;
    const plan_graph *graph = &of->graphs[0];
    const uint64_t states = of->header->states.count;
    if (graph->parameter_count != states + of->header->inputs.count ||
        graph->result_count != states + of->header->outputs.count) {
        return structure_fail(c, "its main graph does not have its inputs and outputs");
    }
    if (!check_states(c)) return false;
    for (uint32_t i = 0; i < of->header->inputs.count; i++) {
        uint32_t id = of->tensor_ids[graph->parameters + states + i];
        const plan_address *address = &of->tensors[id].address;
        if (of->inputs[i].tensor != id || address->space != MEMORY_INPUT || address->index != i ||
            address->offset) {
            return structure_fail(c, "input \"%s\" does not lie in the caller's buffer",
                                  text_of(c, of->inputs[i].name));
        }
    }
    for (uint32_t i = 0; i < of->header->outputs.count; i++) {
        uint32_t id = of->tensor_ids[graph->results + states + i];
        const plan_address *address = &of->tensors[id].address;
        bool bound = address->space == MEMORY_OUTPUT && address->index == i && !address->offset;
        if (of->outputs[i].tensor != id || !(bound || address->space == MEMORY_DYNAMIC)) {
            return structure_fail(c, "output \"%s\" does not lie in the caller's buffer",
                                  text_of(c, of->outputs[i].name));
        }
    }
    return true;
}

/* A sample is a tensor of a known size that begins with 1; all outputs have one for each, and an input tells how many there are. */
static bool check_samples(structure_checker *c) {
    const plan *of = c->of;
    const bool batched = of->header->batch != 0;
    bool told = !batched;
    for (uint64_t i = 0; i < of->header->inputs.count + of->header->outputs.count; i++) {
        const bool is_input = i < of->header->inputs.count;
        const plan_interface *item = is_input ? &of->inputs[i] : &of->outputs[i - of->header->inputs.count];
        const plan_tensor *tensor = &of->tensors[item->tensor];
        const bool fits = tensor->kind == OP_KIND_TENSOR && tensor->dtype != OP_STRING &&
                          tensor->address.space != MEMORY_DYNAMIC && tensor->rank > 0 &&
                          of->integers[tensor->dims] == 1;
        if (item->sample > batched || (item->sample && !fits) || (!is_input && item->sample != batched))
            return structure_fail(c, "\"%s\" is no sample of its batch", text_of(c, item->name));
        told |= is_input && item->sample;
    }
    return told || structure_fail(c, "no input tells how many samples its batch has");
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bool check_all(structure_checker *c) {
    const plan_header *header = c->of->header;
    if (!header->graphs.count) return structure_fail(c, "it has no graph");
    c->depth = BASE_ARRAY(&c->arena, uint32_t, (size_t)header->graphs.count);
    c->defined = BASE_ARRAY(&c->arena, uint64_t, (size_t)header->tensors.count);
    if (!c->depth || !c->defined) {
        base_fail_memory(c->report);
        return false;
    }
    if (!check_basics(c) || !check_tensors(c)) return false;
    for (uint32_t n = 0; n < header->nodes.count; n++) {
        if (!check_node(c, n)) return false;
    }
    for (uint32_t g = 0; g < header->graphs.count; g++) {
        if (!check_graph(c, g)) return false;
    }
    return check_scopes(c) && structure_check_multiviews(c) && check_interfaces(c) && check_samples(c) &&
           structure_check_types(c) && structure_check_operands(c) && structure_check_spills(c);
}

base_status plan_check_structure(const plan *checked, const plan_host *host, base_report *report) {
    base_report own = {0};
    structure_checker c = {.of = checked, .report = report ? report : &own, .host = host};
    base_arena_init(&c.arena, checked->memory);
    memcpy(c.file, c.report->context, sizeof c.file);
    bool valid = check_all(&c);
    base_arena_free(&c.arena);
    memcpy(c.report->context, c.file, sizeof c.file);
    return valid ? BASE_OK : c.report->status;
}
