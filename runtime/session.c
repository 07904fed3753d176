/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: making a session: memory, the address of every tensor, a prepared kernel for every step. What is
 * done here is not done again when it runs.
 *
 * Where tensors are unshared (shadow.c), aliases are steps, too: they copy.
 */
#include "runtime/executor.h"
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------------------- */

static base_status make_memory(ouro_session *session, const ouro_session_options *options,
                               base_report *report) {
    size_t bytes = (size_t)session->of->header->arena_bytes;
    if (session->code.unshared) return BASE_OK;
    if (options && options->arena) {
        if (options->arena_bytes < bytes) {
            return base_fail(report, BASE_USAGE, "the arena given has %zu bytes, the plan needs %zu",
                             options->arena_bytes, bytes);
        }
        if ((uintptr_t)options->arena % RT_ALIGNMENT != 0) {
            return base_fail(report, BASE_USAGE, "the arena given is not aligned to %d", (int)RT_ALIGNMENT);
        }
        session->memory.arena = options->arena;
        return BASE_OK;
    }
    session->memory.arena = session->memory.own_arena = rt_take(&session->memory.source, bytes);
    if (session->memory.arena) return BASE_OK;
    return base_fail(report, BASE_SYSTEM_ERROR, "out of memory: the arena needs %zu bytes", bytes);
}

/* Bindings, and memory for the outputs: what the caller binds is given back (binding.c). */
static base_status make_bindings(ouro_session *session, base_report *report) {
    const plan *of = session->of;
    const size_t inputs = (size_t)of->header->inputs.count, outputs = (size_t)of->header->outputs.count;
    session->bound.inputs = BASE_ARRAY(&session->code.tables, rt_binding, inputs);
    session->bound.outputs = BASE_ARRAY(&session->code.tables, rt_binding, outputs);
    if (!session->bound.inputs || !session->bound.outputs) return base_fail_memory(report);
    for (size_t i = 0; i < inputs + outputs; i++) {
        rt_binding *binding = i < inputs ? &session->bound.inputs[i] : &session->bound.outputs[i - inputs];
        binding->tensor = i < inputs ? of->inputs[i].tensor : of->outputs[i - inputs].tensor;
        binding->patches = PLAN_ABSENT;
        base_arena_init(&binding->lists, &session->memory.source);
        binding->dynamic = rt_is_dynamic(of, binding->tensor);
        binding->is_sample = (i < inputs ? of->inputs[i] : of->outputs[i - inputs]).sample;
        binding->samples = 1;
        binding->bytes = (size_t)of->tensors[binding->tensor].bytes;
        if (i >= inputs && !rt_binding_own(session, binding)) return base_fail_memory(report);
    }
    return BASE_OK;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static base_status make_kernel(ouro_session *session, const plan_node *node, op_code code, rt_step *step,
                               base_report *report) {
    const plan *of = session->of;
    op_call call = {.code = code,
                    .input_count = (uint32_t)node->input_count,
                    .output_count = (uint32_t)node->output_count,
                    .outputs = step->outputs};
    /* Kernels see the data of constants only: other data is not there yet. */
    op_tensor *inputs = BASE_ARRAY(&session->code.tables, op_tensor, call.input_count);
    if (!inputs || !plan_node_attributes(of, node, &session->code.tables, &call.attributes)) {
        return base_fail_memory(report);
    }
    for (uint32_t i = 0; i < call.input_count; i++) {
        uint32_t id = of->tensor_ids[node->inputs + i];
        inputs[i] = step->inputs[i];
        if (id == PLAN_ABSENT || of->tensors[id].address.space != MEMORY_CONSTANT) inputs[i].data = NULL;
    }
    call.inputs = inputs;
    const size_t exhaustions = rt_kernel_exhaustions();
    const rt_kernel *kernel = rt_kernel_of(code, of->texts + node->kernel);
    if (!kernel || !kernel->accepts(&call, &session->code.environment)) {
        if (rt_kernel_exhaustions() != exhaustions) return base_fail_memory(report);
        return base_fail(report, BASE_INVALID, "kernel \"%s\" %s", of->texts + node->kernel,
                         kernel ? "does not accept these types" : "is not in this library");
    }
    session->code.environment.execution = &session->run.executions[node->graph];
    base_status status = rt_kernel_prepare(kernel, &call, &session->code.environment, &session->code.tables,
                                           &step->prepared, report);
    if (status != BASE_OK) return status;
    step->run = step->prepared.run;
    if (!step->prepared.scratch_bytes) return BASE_OK;
    if (!session->code.unshared && step->prepared.scratch_bytes <= node->scratch_bytes) {
        step->scratch = session->memory.arena + node->scratch.offset;
    } else if (step->prepared.scratch_bytes > session->memory.scratch_bytes) {
        session->memory.scratch_bytes =
            step->prepared.scratch_bytes; /* one for all: steps run one after another */
    }
    return BASE_OK;
}

static base_status make_step(ouro_session *session, uint32_t number, rt_step *step, base_report *report) {
    const plan *of = session->of;
    const plan_node *node = &of->nodes[number];
    op_code code = plan_node_code(of, node);
    step->node = number;
    step->inputs = BASE_ARRAY(&session->code.tables, op_tensor, (size_t)node->input_count);
    step->outputs = BASE_ARRAY(&session->code.tables, op_tensor, (size_t)node->output_count);
    if (!step->inputs || !step->outputs) return base_fail_memory(report);
    for (uint64_t i = 0; i < node->input_count; i++) {
        if (!rt_operand_make(session, of->tensor_ids[node->inputs + i], &step->inputs[i]))
            return base_fail_memory(report);
    }
    for (uint64_t i = 0; i < node->output_count; i++) {
        if (!rt_operand_make(session, of->tensor_ids[node->outputs + i], &step->outputs[i]))
            return base_fail_memory(report);
    }
    bool made = true;
    const uint32_t swapped = code == OP_COPY && !session->code.unshared
                                 ? plan_swap_buffer(of, number, 0, of->tensor_ids[node->inputs])
                                 : PLAN_ABSENT;
    const bool lazy = swapped != PLAN_ABSENT && of->multiviews[swapped].lazy;
    if (swapped != PLAN_ABSENT && !lazy) {
        rt_swap_list *list = BASE_NEW(&session->code.tables, rt_swap_list);
        step->kind = RT_STEP_SWAP;
        step->special = rt_swap_step;
        step->detail = list;
        made = list && rt_swap_add(session, list, of->tensor_ids[node->inputs], of->tensor_ids[node->outputs],
                                   swapped);
    } else if (op_schema_of(code)->flags & OP_FLAG_GRAPHS) made = rt_control_make(session, node, step);
    else if ((code == OP_SPILL || code == OP_RESTORE) && !session->code.unshared)
        rt_spill_make(session, node, step);
    else if (rt_sequence_is_node(of, node)) made = rt_sequence_make(session, node, step);
    else if (node->flags & PLAN_NODE_DYNAMIC) made = rt_dynamic_make(session, node, step);
    else if (node->flags & PLAN_NODE_ALIAS) {
        step->kind = RT_STEP_ALIAS;
        step->special = rt_alias_run;
    } else {
        const base_status status = make_kernel(session, node, code, step, report);
        if (status != BASE_OK) return status;
        made = rt_lazy_make(session, step, lazy);
    }
    return made ? BASE_OK : base_fail_memory(report);
}

static bool is_skipped(const ouro_session *session, const plan_node *node) {
    return node->flags & PLAN_NODE_ALIAS && !(node->flags & PLAN_NODE_DYNAMIC) && !session->code.unshared;
}

static base_status make_programs(ouro_session *session, base_report *report) {
    const plan *of = session->of;
    const size_t graphs = (size_t)of->header->graphs.count;
    session->code.programs = BASE_ARRAY(&session->code.tables, rt_program, graphs);
    session->run.executions = BASE_ARRAY(&session->code.tables, uint64_t, graphs);
    session->run.remaining = BASE_ARRAY(&session->code.tables, int64_t, graphs);
    session->code.steps = BASE_ARRAY(&session->code.tables, rt_step *, (size_t)of->header->nodes.count);
    if (!session->code.programs || !session->code.steps || !session->run.executions ||
        !session->run.remaining)
        return base_fail_memory(report);
    for (uint32_t g = 0; g < of->header->graphs.count; g++) {
        const plan_graph *graph = &of->graphs[g];
        rt_program *program = &session->code.programs[g];
        program->steps = BASE_ARRAY(&session->code.tables, rt_step, (size_t)graph->node_count);
        if (!program->steps) return base_fail_memory(report);
        for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
            if (is_skipped(session, &of->nodes[n])) continue;
            rt_step *step = &program->steps[program->step_count++];
            session->code.steps[n] = step;
            plan_node_context(of, &of->nodes[n], NULL, report);
            base_status status = make_step(session, (uint32_t)n, step, report);
            if (status != BASE_OK) return status;
        }
    }
    base_report_context(report, "%s", of->texts + of->header->model_name);
    return BASE_OK;
}

/* ---- lives of dynamic tensors -------------------------------------------------------------------------- */

/* The node of graph `home` in which a use by `node` happens. */
static uint64_t step_in(const plan *of, uint32_t home, uint64_t node) {
    while (of->nodes[node].graph != home) node = of->graphs[of->nodes[node].graph].owner;
    return node;
}

/* Lists for every step the dynamic tensors whose last use it is, and for every graph those that it makes. */
static bool make_lives(ouro_session *session) {
    const plan *of = session->of;
    size_t tensors = (size_t)of->header->tensors.count, nodes = (size_t)of->header->nodes.count;
    if (!session->code.has_dynamic) return true;
    uint64_t *last = BASE_ARRAY(&session->code.tables, uint64_t, tensors); /* the node + 1 */
    bool *kept = BASE_ARRAY(&session->code.tables, bool, tensors);
    bool *parameter = BASE_ARRAY(&session->code.tables, bool, tensors);
    uint32_t *counts = BASE_ARRAY(&session->code.tables, uint32_t, nodes);
    uint32_t *lists = BASE_ARRAY(&session->code.tables, uint32_t, 2 * tensors);
    if (!last || !kept || !parameter || !counts || !lists) return false;
    for (uint64_t n = 0; n < nodes; n++) {
        const plan_node *node = &of->nodes[n];
        for (uint64_t i = 0; i < node->input_count + node->output_count; i++) {
            bool input = i < node->input_count;
            uint32_t id = of->tensor_ids[input ? node->inputs + i : node->outputs + i - node->input_count];
            if (id == PLAN_ABSENT || !session->code.dynamic[id]) continue;
            uint64_t step = step_in(of, of->tensors[id].graph, n) + 1;
            if (step > last[id]) last[id] = step;
        }
    }
    for (uint32_t g = 0; g < of->header->graphs.count; g++) {
        const plan_graph *graph = &of->graphs[g];
        for (uint64_t i = 0; i < graph->result_count; i++) {
            uint32_t id = of->tensor_ids[graph->results + i];
            if (!session->code.dynamic[id]) continue;
            if (of->tensors[id].graph == g) {
                kept[id] = true; /* the graph's owner takes it */
            } else {
                uint64_t step = step_in(of, of->tensors[id].graph, graph->owner) + 1;
                if (step > last[id]) last[id] = step;
            }
        }
        for (uint64_t i = 0; i < graph->parameter_count; i++)
            parameter[of->tensor_ids[graph->parameters + i]] = true;
    }
    for (uint32_t id = 0; id < tensors; id++) {
        /* What the caller bound stays. */
        bool bound = parameter[id] && of->tensors[id].graph == 0;
        if (!session->code.dynamic[id] || kept[id] || bound || !last[id]) last[id] = 0;
        else counts[last[id] - 1]++;
    }
    uint32_t used = 0;
    for (uint64_t n = 0; n < nodes; n++) {
        rt_step *step = session->code.steps[n];
        if (!step) continue;
        step->released = lists + used;
        used += counts[n];
    }
    for (uint32_t id = 0; id < tensors; id++) {
        if (!last[id]) continue;
        rt_step *step = session->code.steps[last[id] - 1];
        if (step) ((uint32_t *)(uintptr_t)step->released)[step->release_count++] = id;
    }
    for (uint32_t g = 0; g < of->header->graphs.count; g++) {
        rt_program *program = &session->code.programs[g];
        uint32_t *list = lists + used;
        program->dynamic = list;
        for (uint64_t i = 0; i < of->graphs[g].parameter_count && g; i++) {
            uint32_t id = of->tensor_ids[of->graphs[g].parameters + i];
            if (session->code.dynamic[id]) list[program->dynamic_count++] = id;
        }
        for (uint64_t n = of->graphs[g].nodes; n < of->graphs[g].nodes + of->graphs[g].node_count; n++) {
            for (uint64_t i = 0; i < of->nodes[n].output_count; i++) {
                uint32_t id = of->tensor_ids[of->nodes[n].outputs + i];
                if (id != PLAN_ABSENT && session->code.dynamic[id]) list[program->dynamic_count++] = id;
            }
        }
        used += program->dynamic_count;
    }
    return true;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

/* Scratch beyond the plan: where the session has more threads than the plan, or unshared tensors. */
static base_status make_scratch(ouro_session *session, base_report *report) {
    if (!session->memory.scratch_bytes) return BASE_OK;
    session->memory.own_scratch = rt_take(&session->memory.source, session->memory.scratch_bytes);
    if (!session->memory.own_scratch) return base_fail_memory(report);
    for (uint64_t n = 0; n < session->of->header->nodes.count; n++) {
        rt_step *step = session->code.steps[n];
        if (step && step->prepared.scratch_bytes && !step->scratch)
            step->scratch = session->memory.own_scratch;
    }
    return BASE_OK;
}

static base_status make_all(ouro_session *session, const ouro_session_options *options, base_report *report) {
    session->code.commit = plan_commit(session->of);
    base_status status = make_memory(session, options, report);
    if (status == BASE_OK) status = rt_spill_open(session, options, report);
    if (status == BASE_OK) status = rt_states_make(session, report);
    if (status == BASE_OK) status = make_bindings(session, report);
    if (status == BASE_OK) status = rt_tensors_make(session, report);
    if (status == BASE_OK) status = make_programs(session, report);
    if (status == BASE_OK) status = make_scratch(session, report);
    if (status == BASE_OK &&
        (!make_lives(session) || !rt_row_loops_make(session) || !rt_shapes_make(session)))
        status = base_fail_memory(report);
    if (status != BASE_OK) return status;
    for (size_t i = 0; i < session->of->header->outputs.count; i++) {
        rt_binding_point(session, &session->bound.outputs[i], session->bound.outputs[i].data);
    }
    rt_states_begin(session);
    return BASE_OK;
}

/* The allocator that is asked for; else the plan's, where that is one; else bfc. */
static base_status make_pool(ouro_session *session, const ouro_session_options *options,
                             base_report *report) {
    const char *planned = session->of->texts + session->of->header->allocator,
               *name = options && options->allocator  ? options->allocator
                       : rt_allocator_exists(planned) ? planned
                                                      : "bfc";
    if (!rt_allocator_exists(name))
        return base_fail(report, BASE_USAGE, "there is no run-time allocator '%s', expected bfc or pool",
                         name);
    session->allocator = base_arena_text(&session->code.tables, name, strlen(name));
    const rt_allocator_options from = {.source = &session->memory.source};
    session->memory.pool.allocator = rt_allocator_new(name, &from);
    return session->memory.pool.allocator ? BASE_OK : base_fail_memory(report);
}

/* Steps, prepared kernels, tables: what is neither a value nor scratch. */
static size_t table_bytes(const ouro_session *session) {
    size_t bytes = sizeof *session + session->code.tables.reserved + session->run.texts.reserved +
                   session->memory.blocks.bytes + rt_shapes_table_bytes(session);
    for (uint64_t i = 0; i < session->of->header->inputs.count; i++)
        bytes += session->bound.inputs[i].lists.reserved;
    for (uint64_t i = 0; i < session->of->header->outputs.count; i++)
        bytes += session->bound.outputs[i].lists.reserved;
    return bytes;
}

void ouro_session_memory(const ouro_session *session, ouro_memory *memory) {
    const rt_allocator_statistics statistics = rt_allocator_look(session->memory.pool.allocator);
    *memory = (ouro_memory){.arena_bytes = (size_t)session->of->header->arena_bytes,
                            .shape_bytes = rt_shapes_bytes(session),
                            .run_time_bytes = statistics.in_use,
                            .run_time_peak_bytes = statistics.most_in_use,
                            .run_time_reserved_bytes = statistics.reserved,
                            .run_time_allocations = statistics.taken,
                            .state_bytes = rt_states_bytes(session),
                            .output_bytes = session->memory.output_bytes,
                            .scratch_bytes = session->memory.own_scratch ? session->memory.scratch_bytes : 0,
                            .table_bytes = table_bytes(session)};
    memory->total_bytes = (session->memory.own_arena ? memory->arena_bytes : 0) +
                          rt_shapes_capacity(session) + memory->run_time_reserved_bytes +
                          memory->state_bytes + memory->output_bytes + memory->scratch_bytes +
                          memory->table_bytes;
}

base_status rt_session_make(const plan *of, const ouro_session_options *options, bool unshared,
                            ouro_session **made, base_report *report) {
    int threads = options && options->threads ? options->threads : (int)of->header->threads;
    *made = NULL;
    base_report_context(report, "%s", of->texts + of->header->model_name);
    if (threads < 1 || threads > 1024) {
        return base_fail(report, BASE_USAGE, "%d threads, expected 1 to 1024", threads);
    }
    const base_allocator source = rt_source(options ? options->memory : NULL, of->memory);
    ouro_session *session = rt_take(&source, sizeof *session);
    if (!session) return base_fail_memory(report);
    memset(session, 0, sizeof *session);
    session->of = of;
    session->memory.source = source;
    rt_blocks_init(&session->memory.blocks, &session->memory.source);
    session->code.unshared = unshared;
    session->run_seconds = options ? options->run_seconds : 0;
    session->code.environment = (rt_environment){.threads = threads,
                                                 .constant_bytes = (size_t)of->header->constants_bytes,
                                                 .memory = &session->memory.source,
                                                 .texts = &session->run.texts,
                                                 .portable_only = !of->header->contracts};
    base_arena_init(&session->code.tables, &session->memory.source);
    base_arena_init(&session->run.texts, &session->memory.source);
    base_status status = make_pool(session, options, report);
    if (status == BASE_OK) status = make_all(session, options, report);
    if (status != BASE_OK) {
        ouro_session_free(session);
        return status;
    }
    rt_threads_warm(threads);
    *made = session;
    return BASE_OK;
}

ouro_status ouro_session_new(ouro_plan *handle, const ouro_session_options *options, ouro_session **session,
                             ouro_error *error) {
    base_report report = {0};
    base_status status = rt_session_make(&handle->opened, options, false, session, &report);
    return status == BASE_OK ? OURO_OK : rt_error_set(error, &report);
}

static void free_step(ouro_session *session, rt_step *step) {
    rt_kernel_release(&step->prepared);
    if (step->kind == RT_STEP_DYNAMIC) rt_dynamic_free(step);
    if (step->kind == RT_STEP_LOOP && step->detail) rt_control_reset(session, step->detail);
}

void ouro_session_free(ouro_session *session) {
    if (!session) return;
    const plan_header *header = session->of->header;
    const base_allocator source = session->memory.source;
    for (uint64_t n = 0; session->code.steps && n < header->nodes.count; n++) {
        if (session->code.steps[n]) free_step(session, session->code.steps[n]);
    }
    for (uint32_t id = 0; id < header->tensors.count; id++) {
        if (session->run.buffers) rt_buffer_release(&session->memory.pool, session->run.buffers[id]);
        if (session->memory.own_tensors) rt_give(&source, session->memory.own_tensors[id]);
    }
    for (uint64_t i = 0; session->bound.outputs && i < header->outputs.count; i++) {
        rt_buffer_release(&session->memory.pool, session->bound.outputs[i].held);
        rt_give(&source, session->bound.outputs[i].own);
        base_arena_free(&session->bound.outputs[i].lists);
    }
    for (uint64_t i = 0; session->bound.inputs && i < header->inputs.count; i++)
        base_arena_free(&session->bound.inputs[i].lists);
    rt_spill_close(session);
    rt_states_free(session);
    rt_pool_flush(&session->memory.pool);
    rt_allocator_free(session->memory.pool.allocator);
    rt_shapes_free(session);
    rt_blocks_free(&session->memory.blocks);
    rt_give(&source, session->memory.own_arena);
    rt_give(&source, session->memory.own_scratch);
    base_arena_free(&session->run.texts);
    base_arena_free(&session->code.tables);
    rt_give(&source, session);
}
