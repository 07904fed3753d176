/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: what was planned, in numbers, as one JSON object: `ouro compile --report`. */
#include "compiler/report/report.h"
#include "compiler/report/emit.h"
#include "compiler/report/loop.h"
#include "compiler/report/state.h"
#include "compiler/report/peak.h"
#include "compiler/report/spill.h"
#include <string.h>

static const char *text_of(const plan *of, uint32_t text) {
    return of->texts + text;
}

static bool is_node(const plan *of, const plan_node *node, const char *operator_name) {
    return strcmp(text_of(of, node->operator_name), operator_name) == 0;
}

/* Which tensor of a loop is copied, how many bytes, and why. */
static void emit_copy(emit_buffer *json, const plan *of, uint32_t id, const char *when, const char *why) {
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "tensor", text_of(of, of->tensors[id].name));
    emit_json_integer(json, "bytes", of->tensors[id].bytes);
    emit_json_text(json, "when", when);
    emit_json_text(json, "why", why);
    emit_json_close(json, '}');
}

/* Copy nodes of a graph and of its branches. */
static void emit_copy_nodes(emit_buffer *json, const plan *of, uint32_t index) {
    const plan_graph *graph = &of->graphs[index];
    for (uint64_t i = graph->nodes; i < graph->nodes + graph->node_count; i++) {
        const plan_node *node = &of->nodes[i];
        if (emit_loop_copied(of, node)) {
            emit_copy(json, of, of->tensor_ids[node->outputs], "iteration", plan_node_reason(of, node));
        }
        for (uint32_t g = 0; g < node->graph_count && !is_node(of, node, "Loop"); g++)
            emit_copy_nodes(json, of, node->first_graph + g);
    }
}

/* All that a loop copies. */
static void emit_copies(emit_buffer *json, const plan *of, const emit_loop *loop) {
    const plan_loop_form *form = &loop->form;
    emit_json_open(json, "copies", '[');
    for (uint32_t i = 0; i < form->carried; i++) {
        emit_moved moved = emit_loop_moved(of, loop, i);
        if (moved.entered) {
            emit_copy(json, of, form->parameters[2 + i], "entry",
                      "its size changes, or is not known before the run");
        }
        if (moved.handed_on) {
            emit_copy(json, of, form->parameters[2 + i], "iteration",
                      "its size changes, or is not known before the run");
        }
        if (moved.left) {
            emit_copy(json, of, form->outputs[i], "exit", emit_loop_why_left(of, loop, i));
        }
    }
    for (uint32_t i = 0; i < form->scan_inputs + form->scan_outputs; i++) {
        uint32_t id = emit_loop_copied_slice(of, loop, i);
        if (id != PLAN_ABSENT) {
            emit_copy(json, of, id, "iteration", emit_loop_why_slice(of, loop, i));
        }
    }
    emit_copy_nodes(json, of, of->nodes[loop->node].first_graph);
    emit_json_close(json, ']');
}

/* A loop: how it is carried out, and what it copies. `repeat_lengths` has one number for each carried
 * parameter, in their order: 1 where its address never changes (or does with an enclosing loop only).
 * `unroll` is the least common multiple of these and of all other tensors' in the body. */
static bool emit_one_loop(emit_buffer *json, const plan *of, uint32_t index) {
    const plan_node *node = &of->nodes[index];
    emit_loop loop;
    if (!emit_loop_measure(of, index, &loop)) return false;
    char name[512];
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "node", emit_loop_name(of, index, name, sizeof name));
    emit_json_text(json, "kind", text_of(of, node->operator_name));
    emit_json_integer(json, "carried", loop.form.carried);
    emit_json_integer(json, "unroll", loop.unroll);
    emit_json_open(json, "repeat_lengths", '[');
    for (uint32_t i = 0; i < loop.form.carried; i++) {
        const plan_multiview *view = emit_loop_view(of, loop.form.parameters[2 + i], index);
        emit_json_integer(json, NULL, view ? view->period : 1);
    }
    emit_json_close(json, ']');
    emit_json_integer(json, "multiview_tensors", loop.multiview);
    emit_json_integer(json, "carried_places", loop.places);
    emit_json_integer(json, "copied_bytes_per_iteration", loop.iteration_bytes);
    emit_json_integer(json, "copied_bytes_per_entry", loop.entry_bytes);
    emit_json_integer(json, "copying_bytes_per_iteration", loop.copying_bytes);
    emit_json_integer(json, "buffer_bytes", loop.buffer_bytes);
    emit_copies(json, of, &loop);
    emit_json_close(json, '}');
    return true;
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

/* Which kernels were chosen because there was memory for them, what each costs and what it gains. */
static void emit_choices(emit_buffer *json, const pass_memory *memory) {
    emit_json_open(json, "choices", '[');
    for (size_t i = 0; i < memory->choice_count; i++) {
        const pass_choice *choice = &memory->choices[i];
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "node", choice->node->name);
        emit_json_text(json, "operator", op_schema_of(choice->node->code)->name);
        emit_json_text(json, "kernel", choice->node->kernel);
        emit_json_text(json, "instead_of", choice->instead_of);
        emit_json_bool(json, "measured", choice->measured);
        emit_json_real(json, "predicted_seconds", choice->seconds);
        emit_json_real(json, "predicted_seconds_before", choice->seconds_before);
        emit_json_integer(json, "scratch_bytes", choice->scratch_bytes);
        emit_json_integer(json, "more_constant_bytes", choice->constant_bytes);
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
}

/* The node's weights are packed in fewer bits than floats have: without loss, or in block floating point. */
static bool read_packed(const ir_node *node, emit_weights *of) {
    if (!node || node->code == OP_GATHER || !op_attribute_find(&node->attributes, "ouro.weights_bits"))
        return false;
    const op_type *type = &ir_input(node, 1)->type;
    int64_t count = 0;
    (void)op_shape_elements(&type->shape, &count);
    *of = (emit_weights){.count = 1,
                         .bits = (int)op_attribute_integer(&node->attributes, "ouro.weights_bits", 0),
                         .type = op_dtype_name(type->dtype),
                         .bytes = type->packed_bytes,
                         .float_bytes = (size_t)count * sizeof(float),
                         .error = (double)op_attribute_real(&node->attributes, "ouro.weights_error", 0)};
    return true;
}

/* The node's weights were stored in few bits by the compiler. */
static bool read_weights(const ir_node *node, emit_weights *of) {
    if (!node || op_attribute_find(&node->attributes, "ouro.weights_bits") ||
        !op_attribute_find(&node->attributes, "ouro.weights_error"))
        return false;
    *of = (emit_weights){.count = 1,
                         .bits = 16,
                         .error = (double)op_attribute_real(&node->attributes, "ouro.weights_error", 0)};
    if (node->code == OP_MATMUL_BITS) {
        const double elements = (double)op_attribute_integer(&node->attributes, "K", 0) *
                                (double)op_attribute_integer(&node->attributes, "N", 0);
        of->bits = (int)op_attribute_integer(&node->attributes, "bits", 0);
        of->bytes = ir_input(node, 1)->constant->tensor.bytes + ir_input(node, 2)->constant->tensor.bytes;
        of->float_bytes = (size_t)(elements * sizeof(float));
        return true;
    }
    /* W and R of a cell, which are packed and have the type of floats; or the matrix of a product. */
    const bool cell = node->code == OP_LSTM || node->code == OP_GRU;
    of->type = op_dtype_name(cell ? (op_dtype)op_attribute_integer(&node->attributes, "ouro.weights_type", 0)
                                  : ir_input(node, 1)->type.dtype);
    for (uint32_t i = 1; i <= (cell ? 2 : 1); i++) {
        const op_type *type = &ir_input(node, i)->type;
        int64_t count = 0;
        (void)op_shape_elements(&type->shape, &count);
        of->bytes += cell ? type->packed_bytes : (size_t)count * sizeof(uint16_t);
        of->float_bytes += (size_t)count * sizeof(float);
    }
    return true;
}

emit_weights emit_weights_sum(const ir_module *module, emit_weights_kind kind) {
    emit_weights sum = {0}, one;
    for (size_t n = 1; n < module->node_count; n++) {
        const ir_node *node = module->nodes[n];
        const bool packed = read_packed(node, &one);
        if (!packed && !read_weights(node, &one)) continue;
        if (kind != (one.error == 0 ? EMIT_WEIGHTS_SAME : packed ? EMIT_WEIGHTS_ROUNDED : EMIT_WEIGHTS_ASKED))
            continue;
        sum.bits = sum.count == 0 || sum.bits == one.bits ? one.bits : 0;
        sum.count++;
        sum.type = one.type;
        sum.bytes += one.bytes;
        sum.float_bytes += one.float_bytes;
        if (one.error > sum.error) sum.error = one.error;
    }
    return sum;
}

static void emit_weights_list(emit_buffer *json, const ir_module *module) {
    emit_weights one;
    emit_json_open(json, "weights", '[');
    for (size_t n = 1; n < module->node_count; n++) {
        if (!read_weights(module->nodes[n], &one) && !read_packed(module->nodes[n], &one)) continue;
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "node", module->nodes[n]->name);
        emit_json_integer(json, "bits", (uint64_t)one.bits);
        if (one.type) emit_json_text(json, "type", one.type);
        else
            emit_json_integer(json, "block",
                              (uint64_t)op_attribute_integer(&module->nodes[n]->attributes, "block_size", 0));
        emit_json_integer(json, "bytes", one.bytes);
        emit_json_integer(json, "float_bytes", one.float_bytes);
        emit_json_real(json, "relative_error", one.error);
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
}

/* What is kept from run to run. */
static void emit_states(emit_buffer *json, const plan *of) {
    emit_json_integer(json, "state_bytes", of->header->state_bytes);
    emit_json_open(json, "states", '[');
    for (uint32_t i = 0; i < of->header->states.count; i++) {
        const emit_state state = emit_state_measure(of, i);
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "input", state.input);
        emit_json_text(json, "output", state.output);
        emit_json_integer(json, "bytes", state.bytes);
        if (state.bound) emit_json_integer(json, "bound", state.bound);
        else emit_json_text(json, "bound", NULL);
        emit_json_signed(json, "axis", state.axis);
        emit_json_integer(json, "unroll", state.period);
        emit_json_open(json, "repeat_lengths", '[');
        emit_json_integer(json, NULL, state.period);
        emit_json_close(json, ']');
        emit_json_text(json, "carried", state.how);
        emit_json_integer(json, "copied_bytes_per_run", state.copied);
        emit_json_integer(json, "caller_copy_bytes_per_run", state.caller_copied);
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
}

double emit_predicted_seconds(const pass_memory *memory, double whole) {
    double seconds = whole;
    for (size_t i = 0; memory->bands && i < memory->bands->count; i++)
        seconds += memory->bands->list[i].more_seconds;
    for (size_t i = 0; i < memory->recomputed_count; i++) seconds += memory->recomputed[i].seconds;
    for (size_t i = 0; i < memory->choice_count; i++)
        seconds -= memory->choices[i].seconds_before - memory->choices[i].seconds;
    return seconds + memory->spill_seconds;
}

/* What is computed band by band, because the arena may take less than the graph as it is written would. */
static void emit_bands(emit_buffer *json, const compile_result *result) {
    const pass_memory *memory = result->memory;
    const pass_bands *bands = memory->bands;
    if (!bands) return;
    emit_json_open(json, "bands", '{');
    emit_json_integer(json, "lower_bound_bytes_without", bands->whole_bytes);
    emit_json_real(json, "predicted_seconds_without", bands->whole_seconds - bands->saved_seconds);
    emit_json_real(json, "predicted_seconds", emit_predicted_seconds(memory, bands->whole_seconds));
    if (result->measured_ratio > 0) emit_json_real(json, "measured_ratio", result->measured_ratio);
    emit_json_open(json, "regions", '[');
    for (size_t i = 0; i < bands->count; i++) {
        const pass_banded *region = &bands->list[i];
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "first", region->first);
        emit_json_text(json, "last", region->last);
        emit_json_integer(json, "nodes", region->nodes);
        emit_json_integer(json, "rows", (uint64_t)region->rows);
        emit_json_integer(json, "state_bytes", region->state_bytes);
        emit_json_real(json, "predicted_more_seconds", region->more_seconds);
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
    emit_json_close(json, '}');
}

/* What is computed again, because the arena may not take as much as keeping it would. */
static void emit_recomputed(emit_buffer *json, const pass_memory *memory) {
    if (!memory->recomputed_count) return;
    emit_json_open(json, "recomputed", '[');
    for (size_t i = 0; i < memory->recomputed_count; i++) {
        const pass_recomputed *value = &memory->recomputed[i];
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "node", value->node);
        emit_json_text(json, "operator", op_schema_of(value->code)->name);
        emit_json_text(json, "reader", value->reader);
        emit_json_integer(json, "bytes", value->bytes);
        emit_json_real(json, "predicted_more_seconds", value->seconds);
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
}

base_status emit_report(const compile_result *result, const char *path, base_report *report) {
    const pass_memory *memory = result->memory;
    const plan *of = &result->plan;
    size_t steps = 0, views = 0;
    for (uint64_t i = 0; i < of->header->nodes.count; i++) {
        if (of->nodes[i].flags & PLAN_NODE_ALIAS) views++;
        else steps++;
    }
    emit_buffer json = {0};
    emit_json_open(&json, NULL, '{');
    emit_json_text(&json, "model", result->model_path);
    emit_json_text(&json, "allocator", text_of(of, of->header->allocator));
    emit_json_integer(&json, "arena_bytes", memory->arena_bytes);
    emit_json_integer(&json, "least_arena_bytes", memory->least_arena_bytes);
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
    emit_choices(&json, memory);
    emit_weights_list(&json, result->module);
    emit_states(&json, of);
    base_arena arena;
    base_arena_init(&arena, NULL);
    if (status == BASE_OK && !emit_peak_emit(&json, of, &arena)) status = base_fail_memory(report);
    base_arena_free(&arena);
    emit_bands(&json, result);
    emit_recomputed(&json, memory);
    emit_spilled_emit(&json, of);
    if (memory->spill_bytes) emit_json_real(&json, "predicted_spill_seconds", memory->spill_seconds);
    emit_json_open(&json, "loops", '[');
    for (uint32_t i = 0; i < of->header->nodes.count && status == BASE_OK; i++) {
        if (!is_node(of, &of->nodes[i], "Loop") || !of->nodes[i].graph_count) continue;
        if (!emit_one_loop(&json, of, i)) status = base_fail_memory(report);
    }
    emit_json_close(&json, ']');
    emit_json_close(&json, '}');
    if (status == BASE_OK) status = emit_write(&json, path, report);
    emit_free(&json);
    return status;
}
