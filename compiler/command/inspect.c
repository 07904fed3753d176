/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c: `ouro inspect`: what a plan is, from the plan alone; a model is compiled first. */
#include "compiler/command/command.h"
#include "compiler/command/inspect.h"
#include "compiler/report/emit.h"
#include "compiler/report/loop.h"
#include "compiler/report/report.h"
#include "compiler/report/spill.h"
#include "compiler/report/state.h"
#include "compiler/report/peak.h"
#include "compiler/files/tensor_compare.h"
#include "ir/operators/fused.h"
#include "runtime/kernels/table.h"
#include "runtime/session.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct inspect_options {
    command_list dims, shapes;
    const char *memory_map;
    bool json;
} inspect_options;

static const command_option inspect_table[] = {
    {"--json", NULL, COMMAND_FLAG, NULL, "print one JSON object", offsetof(inspect_options, json)},
    {"--dim", NULL, COMMAND_LIST, "NAME=N", "bind a symbolic dimension; may be repeated",
     offsetof(inspect_options, dims)},
    {"--shape", NULL, COMMAND_LIST, "INPUT=AxBxC", "the shape of an input",
     offsetof(inspect_options, shapes)},
    {"--memory-map", NULL, COMMAND_TEXT, "FILE",
     "a picture of a plan's memory, or of what it gets for the shapes of --dim and --shape: .svg or .html",
     offsetof(inspect_options, memory_map)},
    {0},
};

/* ---- what both forms tell ------------------------------------------------------------------------------ */

typedef struct name_count {
    const char *name;
    size_t count, views;
} name_count;

static int compare_counts(const void *a, const void *b) {
    const name_count *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* The operator of a node. */
static const char *operator_of(const plan *of, const plan_node *node) {
    return of->texts + node->operator_name;
}

/* The kernel that runs a node; NULL: none does, or it is chosen when the shapes are known. */
static const char *kernel_of(const plan *of, const plan_node *node) {
    const char *name = of->texts + node->kernel;
    return node->flags & PLAN_NODE_DYNAMIC || !name[0] ? NULL : name;
}

/* How many nodes of the plan have each name, the most frequent first. `name_of` gives a node's name, or NULL. NULL when memory runs out.
 */
static name_count *count_names(const plan *of, const char *(*name_of)(const plan *of, const plan_node *node),
                               base_arena *arena, size_t *count) {
    base_map map = {.arena = arena};
    name_count *counts = BASE_ARRAY(arena, name_count, of->header->nodes.count + 1);
    *count = 0;
    for (size_t i = 0; counts && i < of->header->nodes.count; i++) {
        const char *name = name_of(of, &of->nodes[i]);
        if (!name) continue;
        name_count *entry = base_map_get(&map, name);
        if (!entry) {
            entry = &counts[(*count)++];
            entry->name = name;
            if (!base_map_put(&map, name, entry)) return NULL;
        }
        entry->count++;
        entry->views += (of->nodes[i].flags & PLAN_NODE_ALIAS) != 0;
    }
    if (counts) qsort(counts, *count, sizeof *counts, compare_counts);
    return counts;
}

/* The operators that are steps of the plan's Fused nodes, each once. False when memory runs out. */
static bool emit_fused_operators(emit_buffer *json, const plan *of, base_arena *arena) {
    bool *seen = BASE_ARRAY(arena, bool, OP_CODE_COUNT);
    op_fused *fused = BASE_ARRAY(arena, op_fused, 1);
    if (!seen || !fused) return false;
    emit_json_open(json, "fused_operators", '[');
    for (size_t i = 0; i < of->header->nodes.count; i++) {
        const plan_node *node = &of->nodes[i];
        op_attributes attributes;
        if (plan_node_code(of, node) != OP_FUSED) continue;
        if (!plan_node_attributes(of, node, arena, &attributes)) return false;
        if (!op_fused_read(&attributes, (uint32_t)node->input_count, fused)) continue;
        for (uint32_t k = 0; k < fused->step_count; k++) {
            const op_code code = fused->steps[k].code;
            if (!seen[code]) emit_json_text(json, NULL, op_schema_of(code)->name);
            seen[code] = true;
        }
    }
    emit_json_close(json, ']');
    return true;
}

static bool has_packed(const plan *of, const plan_node *node) {
    for (uint64_t i = 0; i < node->input_count; i++) {
        const uint32_t id = of->tensor_ids[node->inputs + i];
        if (id != PLAN_ABSENT && of->tensors[id].layout == OP_LAYOUT_PACKED) return true;
    }
    return false;
}

/* The kernels that may run the plan's nodes whose kernels are chosen when the shapes are known, each once: of a node with packed weights the one
 * that packed them, and of every such node all of its operator's that do without. False when memory runs out. */
static bool emit_kernels_at_run(emit_buffer *json, const plan *of, base_arena *arena) {
    base_map seen = {.arena = arena};
    const rt_environment environment = {.threads = 1, .portable_only = !of->header->contracts};
    emit_json_open(json, "kernels_at_run", '[');
    for (size_t i = 0; i < of->header->nodes.count; i++) {
        const plan_node *node = &of->nodes[i];
        const char *named = has_packed(of, node) ? of->texts + node->kernel : "";
        const rt_kernel *kernel;
        for (unsigned k = 0;
             node->flags & PLAN_NODE_DYNAMIC && (kernel = rt_kernel_candidate(plan_node_code(of, node), k));
             k++) {
            if ((kernel->only_packed && strcmp(kernel->name, named) != 0) ||
                !rt_kernel_allowed(kernel, &environment) || base_map_get(&seen, kernel->name))
                continue;
            if (!base_map_put(&seen, kernel->name, json)) return false;
            emit_json_text(json, NULL, kernel->name);
        }
    }
    emit_json_close(json, ']');
    return true;
}

/* Tells which operators the plan has, and which kernels run them. False when memory runs out. */
static bool emit_operators(emit_buffer *json, const plan *of, base_arena *arena) {
    size_t operator_count, kernel_count;
    const name_count *operators = count_names(of, operator_of, arena, &operator_count),
                     *kernels = count_names(of, kernel_of, arena, &kernel_count);
    if (!operators || !kernels) return false;
    emit_json_open(json, "operators", '{');
    for (size_t i = 0; i < operator_count; i++)
        emit_json_integer(json, operators[i].name, operators[i].count);
    emit_json_close(json, '}');
    emit_json_open(json, "kernels", '{');
    for (size_t i = 0; i < kernel_count; i++) emit_json_integer(json, kernels[i].name, kernels[i].count);
    emit_json_close(json, '}');
    return emit_kernels_at_run(json, of, arena) && emit_fused_operators(json, of, arena);
}

static bool is_operator(const plan *of, const plan_node *node, const char *name) {
    return strcmp(of->texts + node->operator_name, name) == 0;
}

/* The bytes that a node's sub-graphs ask of the region around it: the largest one's, as branches share memory.
 */
static uint64_t buffer_bytes(const plan *of, const plan_node *node) {
    uint64_t most = 0;
    for (uint32_t g = 0; g < node->graph_count; g++) {
        const plan_graph *graph = &of->graphs[node->first_graph + g];
        if (graph->region_bytes > most) most = graph->region_bytes;
    }
    return most;
}

static const char *dim_print(const plan *of, int64_t dim, char *text, size_t capacity) {
    if (dim >= 0) snprintf(text, capacity, "%" PRId64, dim);
    else if (dim == OP_DIM_UNKNOWN || (uint64_t)-dim >= of->header->symbols.count ||
             !of->texts[of->symbols[-dim]]) {
        snprintf(text, capacity, "?");
    } else {
        return of->texts + of->symbols[-dim];
    }
    return text;
}

/* ---- for people ---------------------------------------------------------------------------------------- */

static void print_interface(const plan *of, const char *title, const plan_interface *items, uint64_t count) {
    printf("%s:\n", title);
    for (uint64_t i = 0; i < count; i++) {
        op_type type;
        plan_interface_type(of, &items[i], &type);
        static const char *const kinds[] = {"", "sequence of ", "optional ", "map of "};
        printf("  %s: %s%s%s", of->texts + items[i].name, kinds[type.kind],
               type.kind == OP_KIND_TENSOR ? "" : kinds[type.element], op_dtype_name(type.dtype));
        const bool map = type.kind == OP_KIND_MAP || type.element == OP_KIND_MAP;
        if (type.shape.rank < 0 && !map) printf(" of unknown rank");
        for (int32_t d = 0; d < type.shape.rank; d++) {
            char text[32];
            printf("%s%s", d ? "," : "[", dim_print(of, type.shape.dims[d], text, sizeof text));
        }
        printf(type.shape.rank > 0 ? "]\n" : type.shape.rank == 0 ? "[]\n" : "\n");
    }
}

static void print_bytes(const char *label, uint64_t bytes) {
    char text[32];
    printf("%s: %s (%" PRIu64 " bytes)\n", label, emit_size_print((size_t)bytes, text, sizeof text), bytes);
}

/* "prologue input 0 @0; repeats 2 {@0, @256}": at most a handful of entries, the rest is counted. */
static void print_view(const plan *of, const plan_multiview *view, uint64_t offset) {
    enum { MOST = 8 };
    char text[64];
    if (view->group) {
        printf("%s, first %s", view->lazy ? "copied to lazily" : "swapped",
               emit_place_print(&of->addresses[view->first], offset, text, sizeof text));
        return;
    }
    for (uint32_t k = 0; k < view->prologue_count && k < MOST; k++) {
        printf("%s%s", k ? ", " : "prologue ",
               emit_place_print(&of->addresses[view->first + k], offset, text, sizeof text));
    }
    if (view->prologue_count > MOST) printf(", and %u more", view->prologue_count - MOST);
    printf("%srepeats %u {", view->prologue_count ? "; " : "", view->period);
    for (uint32_t k = 0; k < view->period && k < MOST; k++) {
        const plan_address *entry = &of->addresses[view->first + view->prologue_count + k];
        printf("%s%s", k ? ", " : "", emit_place_print(entry, offset, text, sizeof text));
    }
    if (view->period > MOST) printf(", and %u more", view->period - MOST);
    printf("}");
    if (view->stride) printf(", stride %" PRId64, view->stride);
    if (view->from_end) printf(", counted from the end");
}

/* One value of a loop: "  carried x <= y: 64 B, repeats 2 {@0, @64}". */
static void print_loop_value(const plan *of, uint32_t loop, const char *role, uint32_t id,
                             const char *source) {
    char text[64];
    const plan_tensor *tensor = &of->tensors[id];
    const plan_multiview *view = emit_loop_view(of, id, loop);
    printf("  %s %s%s%s: %s, ", role, of->texts + tensor->name, source ? " <= " : "", source ? source : "",
           emit_size_print((size_t)tensor->bytes, text, sizeof text));
    if (view) print_view(of, view, tensor->address.offset);
    else printf("%s", emit_place_print(&tensor->address, 0, text, sizeof text));
    printf("\n");
}

static bool print_loop(const plan *of, uint32_t node) {
    emit_loop loop;
    char text[2][32];
    if (!emit_loop_measure(of, node, &loop)) return false;
    const plan_loop_form *form = &loop.form;
    printf("  unroll %" PRIu64 ", %" PRIu64 " multi-view tensor%s, carried values in %" PRIu64
           " place%s, copied %s an iteration, %s an entry\n",
           loop.unroll, loop.multiview, loop.multiview == 1 ? "" : "s", loop.places,
           loop.places == 1 ? "" : "s",
           emit_size_print((size_t)loop.iteration_bytes, text[0], sizeof text[0]),
           emit_size_print((size_t)loop.entry_bytes, text[1], sizeof text[1]));
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t output = form->outputs[i];
        plan_address reserved;
        print_loop_value(of, node, "carried", form->parameters[2 + i],
                         of->texts + of->tensors[form->results[1 + i]].name);
        if (output != PLAN_ABSENT && plan_tensor_reservation(of, output, &reserved) &&
            plan_loop_grows(of, form, i, NULL))
            printf("    grows in a reservation of %s, %s\n",
                   emit_size_print((size_t)of->tensors[output].bytes, text[0], sizeof text[0]),
                   emit_place_print(&reserved, 0, text[1], sizeof text[1]));
    }
    for (uint32_t i = 0; i < form->scan_inputs; i++)
        print_loop_value(of, node, "slice of input", form->parameters[2 + form->carried + i], NULL);
    for (uint32_t i = 0; i < form->scan_outputs; i++)
        print_loop_value(of, node, "slice of output", form->results[1 + form->carried + i], NULL);
    return true;
}

static void print_states(const plan *of) {
    char text[32];
    if (!of->header->states.count) return;
    print_bytes("states", of->header->state_bytes);
    for (uint32_t i = 0; i < of->header->states.count; i++) {
        const emit_state state = emit_state_measure(of, i);
        const plan_multiview *view = emit_state_view(of, i);
        op_type type;
        char shape[256];
        plan_state_type(of, i, &type);
        printf("  %s <= %s: %s, %s", state.input, state.output,
               plan_type_print(of, &type, shape, sizeof shape), state.how);
        if (state.axis >= 0) printf(" along axis %" PRId64, state.axis);
        if (state.bound) printf(", at most %" PRIu64 " position%s", state.bound, emit_plural(state.bound));
        if (state.bytes) printf(", %s", emit_size_print((size_t)state.bytes, text, sizeof text));
        if (view) {
            printf(", ");
            print_view(of, view, of->tensors[of->states[i].parameter].address.offset);
        }
        printf(", copied %s a run", emit_size_print((size_t)state.copied, text, sizeof text));
        printf(" (a caller would copy %s)\n",
               emit_size_print((size_t)state.caller_copied, text, sizeof text));
    }
}

/* The sum suffices for both in one block. */
static void print_blocks(const plan *of) {
    inspect_blocks blocks;
    char texts[2][32];
    if (!command_inspect_blocks(of, &blocks)) return;
    printf("without a heap: a block of %zu bytes (%s to open the plan, %s for a session)\n",
           blocks.plan + blocks.session, emit_size_print(blocks.plan, texts[0], sizeof texts[0]),
           emit_size_print(blocks.session, texts[1], sizeof texts[1]));
}

static void print_shapes(const inspect_shapes *shapes) {
    char texts[3][32];
    printf("a run with %s: %zu tensor%s in %s (%zu bytes), lower bound %s, without reuse %s\n",
           shapes->inputs, shapes->tensors, shapes->tensors == 1 ? "" : "s",
           emit_size_print(shapes->bytes, texts[0], sizeof texts[0]), shapes->bytes,
           emit_size_print(shapes->bound, texts[1], sizeof texts[1]),
           emit_size_print(shapes->sum, texts[2], sizeof texts[2]));
}

static int print_plan(const plan *of, const inspect_shapes *shapes, base_arena *arena) {
    const plan_header *header = of->header;
    printf("model: %s\n", of->texts + header->model_name);
    print_interface(of, "inputs", of->inputs, header->inputs.count);
    print_interface(of, "outputs", of->outputs, header->outputs.count);
    print_states(of);
    printf("symbols:");
    bool any = false;
    for (uint64_t i = 1; i < header->symbols.count; i++) {
        const char *name = of->texts + of->symbols[i];
        if (!name[0]) continue;
        printf("%s %s", any ? "," : "", name);
        any = true;
    }
    printf(any ? "\n" : " none\n");
    char batch[32];
    if (header->batch)
        printf("batch: %s, a sample at a time\n",
               dim_print(of, -(int64_t)header->batch, batch, sizeof batch));
    print_bytes("arena", header->arena_bytes);
    print_bytes("lower bound", header->lower_bound_bytes);
    print_bytes("without reuse", header->sum_bytes);
    print_bytes("lower bound in the file's order", header->file_order_peak_bytes);
    print_bytes("constants", header->constants_bytes);
    emit_spilled_print(stdout, of);
    printf("allocator: %s%s\n", of->texts + header->allocator, header->optimal ? " (proved optimal)" : "");
    printf("machine: %s, %u thread%s\n", header->machine, header->threads, header->threads == 1 ? "" : "s");
    print_blocks(of);
    if (shapes->inputs) print_shapes(shapes);
    if (!emit_peak_print(stdout, of, arena)) return command_fail_memory();
    size_t count;
    const name_count *counts = count_names(of, operator_of, arena, &count);
    if (!counts) return command_fail_memory();
    printf("operators: %" PRIu64 "\n", header->nodes.count);
    for (size_t i = 0; i < count; i++) {
        printf("  %6zu %s", counts[i].count, counts[i].name);
        if (counts[i].views) printf(" (%zu as aliases)", counts[i].views);
        printf("\n");
    }
    for (uint32_t i = 0; i < header->nodes.count; i++) {
        const plan_node *node = &of->nodes[i];
        if (!node->graph_count) continue;
        char text[32], name[512];
        printf("%s %s: %u sub-graph%s, buffer %s\n", of->texts + node->operator_name,
               emit_loop_name(of, i, name, sizeof name), node->graph_count, node->graph_count == 1 ? "" : "s",
               emit_size_print((size_t)buffer_bytes(of, node), text, sizeof text));
        if (is_operator(of, node, "Loop") && !print_loop(of, i)) return command_fail_memory();
    }
    return 0;
}

/* ---- for programs -------------------------------------------------------------------------------------- */

static void emit_interface(emit_buffer *json, const plan *of, const char *key, const plan_interface *items,
                           uint64_t count) {
    emit_json_open(json, key, '[');
    for (uint64_t i = 0; i < count; i++) {
        op_type type;
        plan_interface_type(of, &items[i], &type);
        static const char *const kinds[] = {"tensor", "sequence", "optional", "map"};
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "name", of->texts + items[i].name);
        emit_json_text(json, "kind", kinds[type.kind]);
        emit_json_text(json, "type", op_dtype_name(type.dtype));
        if (type.shape.rank < 0) {
            emit_json_text(json, "shape", NULL);
        } else {
            emit_json_open(json, "shape", '[');
            for (int32_t d = 0; d < type.shape.rank; d++) {
                char text[32];
                if (type.shape.dims[d] >= 0) emit_json_signed(json, NULL, type.shape.dims[d]);
                else emit_json_text(json, NULL, dim_print(of, type.shape.dims[d], text, sizeof text));
            }
            emit_json_close(json, ']');
        }
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
}

static void emit_places(emit_buffer *json, const plan *of, const char *key, uint64_t first, uint64_t count,
                        uint64_t offset) {
    char text[64];
    emit_json_open(json, key, '[');
    for (uint64_t k = 0; k < count; k++)
        emit_json_text(json, NULL, emit_place_print(&of->addresses[first + k], offset, text, sizeof text));
    emit_json_close(json, ']');
}

/* One value of a loop. A fixed address is a table of one entry. */
static void emit_loop_value(emit_buffer *json, const plan *of, uint32_t loop, const char *role, uint32_t id,
                            uint32_t source) {
    const plan_tensor *tensor = &of->tensors[id];
    const plan_multiview *view = emit_loop_view(of, id, loop);
    char text[64];
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "role", role);
    emit_json_text(json, "name", of->texts + tensor->name);
    if (source != PLAN_ABSENT) emit_json_text(json, "replaced_by", of->texts + of->tensors[source].name);
    emit_json_integer(json, "bytes", tensor->bytes);
    emit_json_integer(json, "prologue", view ? view->prologue_count : 0);
    emit_json_integer(json, "period", view ? view->period : 1);
    emit_json_signed(json, "stride", view ? view->stride : 0);
    if (view && view->from_end) emit_json_integer(json, "from_end", 1);
    if (view) {
        emit_places(json, of, "first_places", view->first, view->prologue_count, tensor->address.offset);
        emit_places(json, of, "places", view->first + view->prologue_count, view->period,
                    tensor->address.offset);
    } else {
        emit_json_open(json, "first_places", '[');
        emit_json_close(json, ']');
        emit_json_open(json, "places", '[');
        emit_json_text(json, NULL, emit_place_print(&tensor->address, 0, text, sizeof text));
        emit_json_close(json, ']');
    }
    emit_json_close(json, '}');
}

static bool emit_one_loop(emit_buffer *json, const plan *of, uint32_t node) {
    emit_loop loop;
    if (!emit_loop_measure(of, node, &loop)) return false;
    const plan_loop_form *form = &loop.form;
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "node", of->texts + of->nodes[node].name);
    emit_json_text(json, "path", of->texts + of->nodes[node].path);
    emit_json_integer(json, "unroll", loop.unroll);
    emit_json_integer(json, "multiview_tensors", loop.multiview);
    emit_json_integer(json, "carried_places", loop.places);
    emit_json_integer(json, "copied_bytes_per_iteration", loop.iteration_bytes);
    emit_json_integer(json, "copied_bytes_per_entry", loop.entry_bytes);
    emit_json_integer(json, "buffer_bytes", loop.buffer_bytes);
    emit_json_open(json, "values", '[');
    for (uint32_t i = 0; i < form->carried; i++)
        emit_loop_value(json, of, node, "carried", form->parameters[2 + i], form->results[1 + i]);
    for (uint32_t i = 0; i < form->scan_inputs; i++)
        emit_loop_value(json, of, node, "scan input", form->parameters[2 + form->carried + i], PLAN_ABSENT);
    for (uint32_t i = 0; i < form->scan_outputs; i++)
        emit_loop_value(json, of, node, "scan output", form->results[1 + form->carried + i], PLAN_ABSENT);
    emit_json_close(json, ']');
    emit_json_close(json, '}');
    return true;
}

static int emit_plan(const plan *of, const inspect_shapes *shapes, base_arena *arena) {
    const plan_header *header = of->header;
    emit_buffer json = {0};
    emit_json_open(&json, NULL, '{');
    emit_json_text(&json, "model", of->texts + header->model_name);
    emit_interface(&json, of, "inputs", of->inputs, header->inputs.count);
    emit_interface(&json, of, "outputs", of->outputs, header->outputs.count);
    emit_json_open(&json, "states", '[');
    for (uint32_t i = 0; i < header->states.count; i++) {
        const emit_state state = emit_state_measure(of, i);
        emit_json_open(&json, NULL, '{');
        emit_json_text(&json, "input", state.input);
        emit_json_text(&json, "output", state.output);
        emit_json_integer(&json, "bytes", state.bytes);
        emit_json_integer(&json, "period", state.period);
        emit_json_text(&json, "carried", state.how);
        emit_json_signed(&json, "axis", state.axis);
        emit_json_integer(&json, "bound", state.bound);
        emit_json_integer(&json, "copied_bytes_per_run", state.copied);
        emit_json_integer(&json, "caller_copy_bytes_per_run", state.caller_copied);
        emit_json_close(&json, '}');
    }
    emit_json_close(&json, ']');
    emit_json_integer(&json, "state_bytes", header->state_bytes);
    char batch[32];
    emit_json_text(&json, "batch",
                   header->batch ? dim_print(of, -(int64_t)header->batch, batch, sizeof batch) : NULL);
    emit_json_open(&json, "symbols", '[');
    for (uint64_t i = 1; i < header->symbols.count; i++) {
        if (of->texts[of->symbols[i]]) emit_json_text(&json, NULL, of->texts + of->symbols[i]);
    }
    emit_json_close(&json, ']');
    emit_json_integer(&json, "arena_bytes", header->arena_bytes);
    emit_json_integer(&json, "lower_bound_bytes", header->lower_bound_bytes);
    emit_json_integer(&json, "sum_bytes", header->sum_bytes);
    emit_json_integer(&json, "file_order_peak_bytes", header->file_order_peak_bytes);
    emit_json_integer(&json, "constant_bytes", header->constants_bytes);
    emit_spilled_emit(&json, of);
    emit_json_bool(&json, "optimal", header->optimal != 0);
    emit_json_text(&json, "allocator", of->texts + header->allocator);
    emit_json_text(&json, "machine", header->machine);
    emit_json_integer(&json, "threads", header->threads);
    emit_json_integer(&json, "plan_bytes", header->file_bytes);
    inspect_blocks blocks;
    if (command_inspect_blocks(of, &blocks)) {
        emit_json_integer(&json, "plan_block_bytes", blocks.plan);
        emit_json_integer(&json, "session_block_bytes", blocks.session);
    }
    if (shapes->inputs) {
        emit_json_open(&json, "shapes", '{');
        emit_json_text(&json, "inputs", shapes->inputs);
        emit_json_integer(&json, "tensors", shapes->tensors);
        emit_json_integer(&json, "bytes", shapes->bytes);
        emit_json_integer(&json, "lower_bound_bytes", shapes->bound);
        emit_json_integer(&json, "sum_bytes", shapes->sum);
        emit_json_close(&json, '}');
    }
    const bool ranked = emit_peak_emit(&json, of, arena);
    const bool counted = emit_operators(&json, of, arena);
    emit_json_open(&json, "loops", '[');
    bool measured = true;
    for (uint32_t i = 0; i < header->nodes.count && measured; i++) {
        if (is_operator(of, &of->nodes[i], "Loop")) measured = emit_one_loop(&json, of, i);
    }
    emit_json_close(&json, ']');
    emit_json_close(&json, '}');
    bool failed = json.failed || !counted || !measured || !ranked;
    if (!failed) fwrite(json.data, 1, json.length, stdout);
    emit_free(&json);
    return failed ? command_fail_memory() : 0;
}

/* ---- the command --------------------------------------------------------------------------------------- */

/* A plan that is looked at: a file of any machine, or what a model is compiled to. */
typedef struct inspected {
    const plan *of;
    plan opened;
    file_bytes file;
    command_model model;
    inspect_shapes shapes; /* of a plan, where --dim or --shape is given */
} inspected;

static int open_inspected(const command *self, const inspect_options *options, const char *path,
                          base_arena *arena, inspected *made) {
    bool is_plan = false;
    *made = (inspected){0};
    int status = command_is_plan(path, &is_plan);
    const bool shaped = options->shapes.count || options->dims.count;
    if (!status && is_plan && shaped)
        status = command_inspect_shapes(self, path, &options->dims, &options->shapes, options->memory_map,
                                        arena, &made->shapes);
    else if (!status && !is_plan && options->memory_map)
        return command_fail_usage(self, "%s is a model: `ouro compile --memory-map` draws its memory", path);
    if (!status && is_plan) {
        base_report report = {0};
        if (file_read(path, &made->file, &report) != BASE_OK ||
            plan_open(made->file.data, made->file.size, path, NULL, NULL, NULL, &made->opened, &report) !=
                BASE_OK)
            return command_fail_report(&report);
        if (options->memory_map && !shaped &&
            emit_plan_map(&made->opened, options->memory_map, &report) != BASE_OK)
            return command_fail_report(&report);
        made->of = &made->opened;
    } else if (!status) {
        command_progress progress;
        command_model_request request = {
            .self = self, .path = path, .dims = options->dims, .shapes = options->shapes};
        command_progress_begin(&progress, "loading");
        status = command_model_open(&request, &made->model, &progress);
        command_progress_end(&progress);
        made->of = made->model.plan;
    }
    return status;
}

static void close_inspected(inspected *made) {
    if (made->opened.base) plan_close(&made->opened);
    if (made->file.data) file_release(&made->file);
    if (made->model.path) command_model_close(&made->model);
}

static int inspect_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    inspect_options options = {0};
    command_list operands;
    inspected plans[2] = {0};
    int status = command_parse(self, count, arguments, &options, &operands, &arena);
    for (size_t i = 0; !status && i < operands.count; i++)
        status = open_inspected(self, &options, operands.items[i], &arena, &plans[i]);
    if (!status && operands.count == 2 && !options.json) {
        status = command_inspect_compare(plans[0].of, plans[1].of, operands.items, &arena);
    } else if (!status) {
        if (options.json && operands.count == 2) printf("[");
        for (size_t i = 0; i < operands.count && !status; i++) {
            if (i) printf(",");
            status = options.json ? emit_plan(plans[i].of, &plans[i].shapes, &arena)
                                  : print_plan(plans[i].of, &plans[i].shapes, &arena);
        }
        if (options.json && operands.count == 2) printf("]\n");
    }
    for (size_t i = 0; i < operands.count && i < 2; i++) close_inspected(&plans[i]);
    base_arena_free(&arena);
    return status;
}

const command command_inspect = {
    .name = "inspect",
    .usage = "inspect PLAN|MODEL.onnx [PLAN|MODEL.onnx] [options]",
    .summary = "print what a plan holds: inputs, outputs, memory, operators, loops",
    .details = "A model is compiled first. Plans of other machines can be inspected too. Of two plans the "
               "differences "
               "are printed.",
    .options = inspect_table,
    .operand_minimum = 1,
    .operand_maximum = 2,
    .operand = "a plan or a model",
    .run = inspect_main,
};
