/* SPDX-License-Identifier: Apache-2.0 */
/* reserve_bounds.c: what depends on bounded dimensions gets as many bytes of the arena as it can become.
 *
 *     symbol S most 64      %y: float32[S,8] = MatMul(%x, %w)      %y has 2048 bytes of the arena, however many are used in a run
 *
 * Types are inferred anew with every bounded dimension at its bound. What then has a size gets a reservation of that size. A run
 * whose shapes make more of it (where less of one dimension is more of another) takes run-time memory instead: nothing depends on
 * the size being right.
 *
 * So is the scratch of kernels.
 *
 * Only nodes of the main graph. What is handed on by reference to what lives longer is left alone: what loops, branches and
 * sequences are given or give, and states. A Reshape, and its like, is the bytes of what it reads (dynamic.c lets it be that), so that
 * both have one reservation, or neither.
 *
 * Needs: types, storages. Breaks: nothing. Guarantees: reservations, which are storages in the arena for values whose type has no
 * size.
 */
#include "ir/loop.h"
#include "passes/memory/memory.h"

typedef struct bounded {
    op_tensor at_bound; /* the type, and symbolic values; data of constants */
    uint32_t root;      /* the value whose bytes it shares, by id; its own: it has bytes of its own */
    bool excluded;
} bounded;

typedef struct survey {
    const ir_module *module;
    pass_memory *memory;
    base_arena *arena;
    bounded *values; /* by value id */
} survey;

/* ---- types at the bounds --------------------------------------------------------------------------------- */

/* The most that a dimension can be; unknown where nobody says. */
static int64_t most_of(const ir_module *module, int64_t dim) {
    if (dim >= 0 || dim == OP_DIM_UNKNOWN || -dim >= (int64_t)module->symbol_count) return dim;
    const ir_symbol *symbol = &module->symbols[-dim];
    if (symbol->bound) return symbol->bound;
    if (symbol->name) return OP_DIM_UNKNOWN;
    const int64_t a = most_of(module, symbol->a);
    /* Less is taken away, or divided by, where that is not known. */
    const int64_t b = symbol->operation == '-' && symbol->b < 0 ? 0
                      : (symbol->operation == '/' || symbol->operation == '^') && symbol->b < 0
                          ? 1
                          : most_of(module, symbol->b);
    int64_t made;
    if (a < 0 || b < 0) return OP_DIM_UNKNOWN;
    switch (symbol->operation) {
    case '+':
        return base_int64_add(a, b, &made) ? made : OP_DIM_UNKNOWN;
    case '-':
        return a > b ? a - b : 0;
    case '*':
        return base_int64_multiply(a, b, &made) ? made : OP_DIM_UNKNOWN;
    default:
        return b ? a / b + (symbol->operation == '^' && a % b != 0) : OP_DIM_UNKNOWN;
    }
}

static op_type type_at_bound(const ir_module *module, const op_type *declared) {
    op_type type = *declared;
    for (int32_t d = 0; d < type.shape.rank; d++) type.shape.dims[d] = most_of(module, type.shape.dims[d]);
    return type;
}

static bool has_size(const op_type *type) {
    size_t bytes;
    return op_type_bytes(type, &bytes);
}

static bool is_plain(const ir_node *node) {
    return !(op_schema_of(node->code)->flags & OP_FLAG_GRAPHS) && !ir_node_has_lists(node);
}

/* The scratch that the kernel wants at the bounds is planned; a run that wants more takes it from run-time memory. */
static bool reserve_scratch(const survey *s, ir_node *node, op_call call, const rt_environment *environment) {
    base_report ignored = {0};
    rt_prepared prepared;
    bool sized = true, open = false;
    for (uint32_t i = 0; i < call.input_count; i++) {
        sized = sized && (!ir_input(node, i) || has_size(&call.inputs[i].type));
        open = open || (ir_input(node, i) && !has_size(&ir_input(node, i)->type));
    }
    for (uint32_t i = 0; i < call.output_count; i++) {
        if (!node->outputs[i]) continue;
        call.outputs[i] = s->values[node->outputs[i]->id.index].at_bound;
        sized = sized && has_size(&call.outputs[i].type);
    }
    if (!sized || !open || op_schema_of(node->code)->flags & OP_FLAG_DYNAMIC) return true;
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    if (!kernel) return true;
    if (rt_kernel_prepare(kernel, &call, environment, s->arena, &prepared, &ignored) == BASE_OK)
        node->scratch_bytes = prepared.scratch_bytes;
    rt_kernel_release(&prepared);
    return true;
}

/* The types of the outputs, given those of the inputs at the bounds; as declared, where these tell less. */
static bool infer_node(const survey *s, ir_node *node, const rt_environment *environment) {
    op_call call;
    base_report ignored = {0};
    if (!ir_node_call(node, s->arena, &call)) return false;
    op_tensor *inputs = BASE_ARRAY(s->arena, op_tensor, call.input_count);
    if (!inputs) return false;
    for (uint32_t i = 0; i < call.input_count; i++)
        if (ir_input(node, i)) inputs[i] = s->values[ir_input(node, i)->id.index].at_bound;
    call.inputs = inputs;
    call.dim_compute = NULL;
    if (op_infer(&call, &ignored) != BASE_OK) return true;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!node->outputs[i]) continue;
        op_tensor *known = &s->values[node->outputs[i]->id.index].at_bound;
        const op_layout layout = known->type.layout;
        if (!has_size(&call.outputs[i].type) && has_size(&known->type)) continue;
        *known = call.outputs[i];
        known->type.layout = layout;
    }
    return reserve_scratch(s, node, call, environment);
}

static void begin(const survey *s) {
    for (uint32_t i = 1; i < s->module->value_count; i++) {
        const ir_value *value = s->module->values[i];
        if (!value) continue;
        s->values[i] = (bounded){.root = i, .at_bound.type = type_at_bound(s->module, &value->type)};
        if (value->constant && value->type.dtype != OP_STRING)
            s->values[i].at_bound = value->constant->tensor;
    }
}

/* ---- who may have a reservation -------------------------------------------------------------------------- */

static void exclude(const survey *s, const ir_value *value) {
    if (value) s->values[value->id.index].excluded = true;
}

static void exclude_handed_on(const survey *s) {
    const ir_module *module = s->module;
    for (size_t n = 1; n < module->node_count; n++) {
        const ir_node *node = module->nodes[n];
        if (!node || is_plain(node) || node == module->run)
            continue; /* of runs, states alone are handed on */
        for (uint32_t i = 0; i < node->input_count; i++) exclude(s, ir_input(node, i));
        for (uint32_t i = 0; i < node->output_count; i++) exclude(s, node->outputs[i]);
        for (uint32_t g = 0; g < node->graph_count; g++)
            for (uint32_t i = 0; i < node->graphs[g]->result_count; i++)
                exclude(s, node->graphs[g]->results[i]->value);
    }
    for (uint32_t i = 0; i < ir_module_states(module); i++) exclude(s, module->main->results[i]->value);
}

/* It is made by the executor in memory of the run, and would be there alone. */
static bool wants_memory(const survey *s, const ir_value *value) {
    const pass_location at = pass_memory_location(s->memory, value);
    return value->graph == s->module->main && value->node && is_plain(value->node) &&
           value->type.kind == OP_KIND_TENSOR && value->type.dtype != OP_STRING && !has_size(&value->type) &&
           !at.offset && pass_memory_storage(s->memory, at.storage)->space == MEMORY_DYNAMIC &&
           pass_memory_storage(s->memory, at.storage)->values.index == value->id.index &&
           !s->memory->siblings[value->id.index].index;
}

/* The executor lets the output of a Reshape have the bytes of what it reads, those of the caller too. */
static void share_root(const survey *s, const ir_node *node) {
    const ir_value *from = ir_input(node, 0), *to = node->output_count ? node->outputs[0] : NULL;
    if (!from || !to || op_schema_of(node->code)->view != OP_VIEW_SAME || has_size(&to->type) ||
        from->type.layout != OP_LAYOUT_ROW_MAJOR || to->type.layout != OP_LAYOUT_ROW_MAJOR)
        return;
    s->values[to->id.index].root = s->values[from->id.index].root;
}

/* All that share bytes with a value that cannot have a reservation have none. */
static void exclude_roots(const survey *s) {
    size_t bytes, others;
    for (size_t i = 1; i < s->module->value_count; i++) {
        const ir_value *value = s->module->values[i];
        if (!value) continue;
        bounded *own = &s->values[i], *root = &s->values[own->root];
        const bool fits = wants_memory(s, value) && op_type_bytes(&own->at_bound.type, &bytes) && bytes &&
                          op_type_bytes(&root->at_bound.type, &others) && bytes == others;
        if (own->excluded || !fits) root->excluded = true;
    }
}

static void reserve(const survey *s) {
    for (size_t i = 1; i < s->module->value_count; i++) {
        const ir_value *value = s->module->values[i];
        if (!value || s->values[s->values[i].root].excluded) continue;
        const pass_storage_id id = pass_memory_location(s->memory, value).storage;
        pass_storage *storage = pass_memory_storage(s->memory, id);
        if (s->values[i].root != i) {
            const ir_value *root = s->module->values[s->values[i].root];
            pass_memory_join(s->memory, pass_memory_location(s->memory, root).storage, id, 0);
        } else if (op_type_bytes(&s->values[i].at_bound.type, &storage->bytes)) {
            storage->space = MEMORY_ARENA;
        }
    }
}

static bool has_bounds(const ir_module *module) {
    for (size_t i = 1; i < module->symbol_count; i++)
        if (module->symbols[i].bound) return true;
    return false;
}

base_status pass_reserve_bounds(pass_context *context) {
    const ir_module *module = context->module;
    survey s = {.module = module, .memory = context->memory, .arena = context->scratch};
    if (!has_bounds(module)) return BASE_OK;
    s.values = BASE_ARRAY(s.arena, bounded, module->value_count);
    if (!s.values) return base_fail_memory(context->report);
    begin(&s);
    exclude_handed_on(&s);
    for (ir_node *node = module->main->first; node; node = node->next) {
        if (!is_plain(node)) continue;
        if (!infer_node(&s, node, &context->options->environment)) return base_fail_memory(context->report);
        share_root(&s, node);
    }
    exclude_roots(&s);
    reserve(&s);
    return BASE_OK;
}
