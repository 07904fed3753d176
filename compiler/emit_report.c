/* emit_report.c: what was planned, in numbers, as one JSON object: `ouro compile --report`. */
#include "compiler/compiler.h"
#include "compiler/emit.h"
#include <string.h>

static const char *text_of(const plan *of, uint32_t text) {
    return of->texts + text;
}

static bool same_address(const plan_address *a, const plan_address *b) {
    return a->place == b->place && a->index == b->index && a->offset == b->offset;
}

/* Bytes that move when tensor `from` becomes tensor `to`; 0 where both are the same bytes. */
static uint64_t moved_bytes(const plan *of, uint32_t from, uint32_t to) {
    if (from == PLAN_ABSENT || to == PLAN_ABSENT) return 0;
    const plan_tensor *source = &of->tensors[from], *target = &of->tensors[to];
    if (target->address.place == PLAN_PLACE_NONE) return 0;
    return same_address(&source->address, &target->address) ? 0 : target->bytes;
}

static int64_t attribute_integer(const plan *of, const plan_node *node, const char *name, int64_t otherwise) {
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        const plan_attribute *attribute = &of->attributes[node->attributes + i];
        if (attribute->kind == OP_ATTRIBUTE_INT && strcmp(text_of(of, attribute->name), name) == 0) {
            return (int64_t)attribute->value;
        }
    }
    return otherwise;
}

static bool is_node(const plan *of, const plan_node *node, const char *operator_name) {
    return strcmp(text_of(of, node->operator_name), operator_name) == 0;
}

uint64_t compile_loop_carried(const plan *of, const plan_node *node) {
    const plan_graph *body = &of->graphs[node->first_graph];
    uint64_t others = 2 + (uint64_t)attribute_integer(of, node, "ouro.scan_inputs", 0);
    uint64_t carried = body->parameter_count >= others ? body->parameter_count - others : 0;
    return body->result_count && carried >= body->result_count ? body->result_count - 1 : carried;
}

/* What is copied from a parameter to its output when the loop is left: nothing, where it is known that the last iteration leaves
 * it there. */
static uint64_t left_bytes(const plan *of, const plan_node *node, uint32_t parameter, uint32_t output) {
    const plan_address *address = &of->tensors[parameter].address;
    if (address->place != PLAN_PLACE_VIEW) return moved_bytes(of, parameter, output);
    if (of->tensors[output].address.place == PLAN_PLACE_VIEW) return 0; /* its readers look where it is */
    uint32_t trips = of->slots[node->inputs];
    int64_t count;
    if (trips == PLAN_ABSENT || of->tensors[trips].address.place != PLAN_PLACE_CONSTANT || of->tensors[trips].bytes != sizeof count) {
        return of->tensors[output].bytes;
    }
    memcpy(&count, of->constants + of->tensors[trips].address.offset, sizeof count);
    plan_address last = plan_view_entry(of, address->index, count < 0 ? 0 : (uint64_t)count);
    last.offset += address->offset;
    return same_address(&last, &of->tensors[output].address) ? 0 : of->tensors[output].bytes;
}

static uint64_t common_multiple(uint64_t a, uint64_t b) {
    uint64_t x = a, y = b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* A loop: how it is carried out, and what it copies. See ir.h for the slots of Loop and of its body. */
static void emit_loop(emit_buffer *json, const plan *of, const plan_node *node) {
    const plan_graph *body = &of->graphs[node->first_graph];
    const uint32_t *inputs = of->slots + node->inputs, *outputs = of->slots + node->outputs;
    const uint32_t *parameters = of->slots + body->parameters, *results = of->slots + body->results;
    uint64_t carried = compile_loop_carried(of, node);
    uint64_t iteration = 0, entry = 0, multiview = 0;
    for (uint64_t i = 0; i < carried && i + 2 < node->input_count; i++) {
        /* A parameter whose address is a view lies where its replacement was made, and in the first iteration where the view
         * begins; what leaves it for another place is copied once. */
        const plan_tensor *parameter = &of->tensors[parameters[2 + i]];
        bool moves = parameter->address.place != PLAN_PLACE_VIEW;
        if (moves) {
            entry += moved_bytes(of, inputs[2 + i], parameters[2 + i]);
            iteration += moved_bytes(of, results[1 + i], parameters[2 + i]);
        }
        if (i < node->output_count && outputs[i] != PLAN_ABSENT) entry += left_bytes(of, node, parameters[2 + i], outputs[i]);
    }
    for (uint64_t i = carried; i + 2 < body->parameter_count; i++) {
        /* A slice that lies inside of what is scanned moves nothing: its address then is a view. */
        const plan_tensor *slice = &of->tensors[parameters[2 + i]];
        if (slice->address.place != PLAN_PLACE_VIEW) iteration += slice->bytes;
    }
    for (uint64_t i = carried; i < node->output_count && i + 1 < body->result_count; i++) {
        const plan_tensor *slice = &of->tensors[results[1 + i]];
        if (outputs[i] != PLAN_ABSENT && slice->address.place != PLAN_PLACE_VIEW) iteration += slice->bytes;
    }
    for (uint64_t i = body->nodes; i < body->nodes + body->node_count; i++) {
        if (!is_node(of, &of->nodes[i], "Copy") || !of->nodes[i].output_count) continue;
        iteration += of->tensors[of->slots[of->nodes[i].outputs]].bytes;
    }
    uint32_t body_index = node->first_graph;
    const char *name = text_of(of, node->name);
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "node", name[0] ? name : text_of(of, node->path));
    emit_json_text(json, "kind", text_of(of, node->operator_name));
    emit_json_integer(json, "carried", carried);
    emit_json_open(json, "repeat_lengths", '[');
    uint64_t unroll = 1;
    for (uint64_t i = 0; i < of->header->tensors.count; i++) {
        const plan_tensor *tensor = &of->tensors[i];
        if (tensor->address.place != PLAN_PLACE_VIEW || tensor->graph != body_index) continue;
        multiview++;
        uint64_t period = of->views[tensor->address.index].period;
        unroll = common_multiple(unroll, period);
        emit_json_integer(json, NULL, period);
    }
    emit_json_close(json, ']');
    emit_json_integer(json, "unroll", unroll);
    emit_json_integer(json, "multiview_tensors", multiview);
    emit_json_integer(json, "copied_bytes_per_iteration", iteration);
    emit_json_integer(json, "copied_bytes_per_entry", entry);
    emit_json_integer(json, "buffer_bytes", body->frame_bytes);
    emit_json_close(json, '}');
}

/* How many steps each kernel runs, in order of first use. */
static base_status emit_kernels(emit_buffer *json, const plan *of, base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    base_map seen = {.arena = &arena};
    const char **names = BASE_ARRAY(&arena, const char *, of->header->nodes.count + 1);
    uint64_t *counts = BASE_ARRAY(&arena, uint64_t, of->header->nodes.count + 1);
    size_t count = 0;
    bool memory = names && counts;
    for (uint64_t i = 0; memory && i < of->header->nodes.count; i++) {
        const char *kernel = text_of(of, of->nodes[i].kernel);
        if (!kernel[0]) continue;
        uint64_t *found = base_map_get(&seen, kernel);
        if (!found) {
            names[count] = kernel;
            found = &counts[count++];
            memory = base_map_put(&seen, kernel, found);
        }
        ++*found;
    }
    emit_json_open(json, "kernels", '{');
    for (size_t i = 0; memory && i < count; i++) emit_json_integer(json, names[i], counts[i]);
    emit_json_close(json, '}');
    base_arena_free(&arena);
    return memory ? BASE_OK : base_fail_memory(report);
}

base_status emit_report(const compile_result *result, const ouro_compile_options *options, const char *path,
                        base_report *report) {
    const pass_memory *memory = result->memory;
    const plan *of = &result->plan;
    size_t steps = 0, views = 0;
    for (uint64_t i = 0; i < of->header->nodes.count; i++) {
        if (of->nodes[i].flags & PLAN_NODE_VIEW) views++;
        else steps++;
    }
    emit_buffer json = {0};
    emit_json_open(&json, NULL, '{');
    emit_json_text(&json, "model", options->model_path);
    emit_json_text(&json, "allocator", text_of(of, of->header->allocator));
    emit_json_integer(&json, "arena_bytes", memory->arena_bytes);
    emit_json_integer(&json, "lower_bound_bytes", memory->lower_bound_bytes);
    emit_json_bool(&json, "optimal", memory->optimal);
    emit_json_integer(&json, "sum_bytes", memory->sum_bytes);
    emit_json_integer(&json, "constant_bytes", of->header->constants_bytes);
    emit_json_integer(&json, "dynamic_tensors", memory->dynamic_values);
    emit_json_real(&json, "plan_seconds", memory->plan_seconds);
    emit_json_real(&json, "compile_seconds", result->compile_seconds);
    emit_json_real(&json, "import_seconds", result->import_seconds);
    emit_json_integer(&json, "file_order_peak_bytes", memory->file_order_peak_bytes);
    emit_json_real(&json, "arena_to_bound",
                   memory->lower_bound_bytes ? (double)memory->arena_bytes / (double)memory->lower_bound_bytes
                                             : 1);
    emit_json_integer(&json, "plan_bytes", of->header->file_bytes);
    emit_json_text(&json, "machine", of->header->machine);
    emit_json_integer(&json, "threads", of->header->threads);
    emit_json_integer(&json, "steps", steps);
    emit_json_integer(&json, "views", views);
    base_status status = emit_kernels(&json, of, report);
    emit_json_open(&json, "loops", '[');
    for (uint64_t i = 0; i < of->header->nodes.count; i++) {
        if (is_node(of, &of->nodes[i], "Loop") && of->nodes[i].graph_count)
            emit_loop(&json, of, &of->nodes[i]);
    }
    emit_json_close(&json, ']');
    emit_json_close(&json, '}');
    if (status == BASE_OK) status = emit_write(&json, path, report);
    emit_free(&json);
    return status;
}
