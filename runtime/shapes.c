/* SPDX-License-Identifier: Apache-2.0 */
/* shapes.c: offsets for the shapes of a run. Where dimensions of inputs are dynamic, sizes of tensors follow from those
 * that the caller binds: the main graph's types are inferred anew from them, without data, and what then has a size gets
 * an offset in one block of memory, by when it is live. Plans for the last few shapes are kept. What has no size even
 * then (it depends on data, or is made in a loop or branch) is left to the run-time allocator.
 *
 * Offsets are found by a planner. The planners are libraries that know no more than ir/base, so that a run can use them
 * as compilation does.
 */
#include "runtime/executor.h"
#include "passes/planners/planners.h"
#include <string.h>

enum { KEPT_PLANS = 8 };

typedef struct placement {
    uint32_t tensor;
    size_t bytes, offset; /* of bytes in the block; rounded up to RT_ALIGNMENT */
    size_t exact;         /* of the value */
    uint64_t first, last; /* steps of the main graph, last inclusive */
} placement;

/* Offsets for one choice of the dynamic dimensions. */
typedef struct shape_plan {
    int64_t *extents;      /* all dimensions of the dynamic inputs, one input after another */
    placement *placements; /* by tensor id */
    size_t placement_count, bytes;
    base_arena arena;
    uint64_t used; /* when it was used last */
} shape_plan;

struct rt_shapes {
    shape_plan plans[KEPT_PLANS];
    shape_plan *current; /* NULL: nothing is planned */
    size_t extent_count;
    int64_t *extents; /* of the inputs as they are bound */
    uint64_t runs;
    void *memory;
    size_t capacity;
    bool given; /* the memory is the caller's */
};

/* ---- what may have an offset --------------------------------------------------------------------------- */

/* The root whose bytes a tensor shares (Reshape and its like), and what is known of the tensor. */
typedef struct knowledge {
    op_tensor value; /* the type, and symbolic values; data of constants */
    uint32_t root;
    bool excluded; /* handed on by reference to what lives longer: by loops, branches, sequences */
    uint64_t first, last;
} knowledge;

typedef struct survey {
    const ouro_session *session;
    const plan *of;
    base_arena *arena;
    knowledge *tensors;
} survey;

static void exclude(survey *s, uint64_t list, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t id = s->of->tensor_ids[list + i];
        if (id != PLAN_ABSENT) s->tensors[id].excluded = true;
    }
}

static void begin_survey(survey *s) {
    const plan *of = s->of;
    for (uint32_t id = 0; id < of->header->tensors.count; id++) {
        knowledge *k = &s->tensors[id];
        k->root = id;
        k->first = k->last = UINT64_MAX;
        k->value = s->session->run.tensors[id];
        k->value.symbolic = NULL;
        bool constant =
            of->tensors[id].address.space == MEMORY_CONSTANT && of->tensors[id].dtype != OP_STRING;
        if (!constant) k->value.data = NULL;
        /* Dynamic inputs are as they are bound; all else is as the plan has it until it is inferred. */
        if (of->tensors[id].address.space != MEMORY_INPUT) plan_tensor_type(of, id, &k->value.type);
    }
    for (uint64_t i = 0; i < of->header->states.count; i++) {
        const rt_kept *kept = &s->session->states.kept[i];
        knowledge *parameter = &s->tensors[of->states[i].parameter];
        if (!kept->dynamic) continue;
        /* As large as it may come to be, so that one plan serves all runs. */
        parameter->value.type = kept->type;
        if (kept->axis >= 0 && of->states[i].bound)
            parameter->value.type.shape.dims[kept->axis] = (int64_t)of->states[i].bound;
        s->tensors[of->states[i].result].excluded = true; /* it outlives the run */
    }
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        const plan_node *node = &of->nodes[n];
        if (!(op_schema_of(plan_node_code(of, node))->flags & OP_FLAG_GRAPHS) &&
            !rt_sequence_is_node(of, node))
            continue;
        exclude(s, node->inputs, node->input_count);
        exclude(s, node->outputs, node->output_count);
    }
    for (uint64_t g = 1; g < of->header->graphs.count; g++)
        exclude(s, of->graphs[g].results, of->graphs[g].result_count);
}

/* Types of the outputs of one node, as far as they follow without data. */
static bool infer_node(survey *s, const plan_node *node, op_code code) {
    op_call call = {.code = code,
                    .input_count = (uint32_t)node->input_count,
                    .output_count = (uint32_t)node->output_count,
                    .arena = s->arena};
    op_tensor *inputs = BASE_ARRAY(s->arena, op_tensor, call.input_count);
    call.outputs = BASE_ARRAY(s->arena, op_tensor, call.output_count);
    call.inputs = inputs;
    if (!inputs || !call.outputs || !plan_node_attributes(s->of, node, s->arena, &call.attributes))
        return false;
    for (uint32_t i = 0; i < call.input_count; i++) {
        uint32_t id = s->of->tensor_ids[node->inputs + i];
        if (id != PLAN_ABSENT) inputs[i] = s->tensors[id].value;
    }
    base_report ignored = {0};
    if (op_infer(&call, &ignored) != BASE_OK) return true; /* the run will say what is wrong */
    for (uint32_t i = 0; i < call.output_count; i++) {
        uint32_t id = s->of->tensor_ids[node->outputs + i];
        if (id == PLAN_ABSENT) continue;
        op_layout layout = s->tensors[id].value.type.layout;
        s->tensors[id].value = call.outputs[i];
        s->tensors[id].value.type.layout = layout;
    }
    return true;
}

/* Where the executor lets the output have the bytes of the input (dynamic.c), they have one offset. */
static void share_root(survey *s, const plan_node *node) {
    uint32_t from = s->of->tensor_ids[node->inputs], to = s->of->tensor_ids[node->outputs];
    if (from == PLAN_ABSENT || to == PLAN_ABSENT) return;
    if (s->session->code.dynamic[from] || rt_value_is_lasting(s->session, from))
        s->tensors[to].root = s->tensors[from].root;
}

/* The steps in which each tensor is made and read last. */
static bool survey_graph(survey *s) {
    const plan *of = s->of;
    const plan_graph *graph = &of->graphs[0];
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const plan_node *node = &of->nodes[n];
        const rt_step *step = s->session->code.steps[n];
        op_code code = plan_node_code(of, node);
        bool plain = !(op_schema_of(code)->flags & OP_FLAG_GRAPHS) && !rt_sequence_is_node(of, node);
        if (plain && !infer_node(s, node, code)) return false;
        for (uint64_t i = 0; i < node->output_count; i++) {
            uint32_t id = of->tensor_ids[node->outputs + i];
            if (id != PLAN_ABSENT) s->tensors[id].first = n;
        }
        if (plain && op_schema_of(code)->view == OP_VIEW_SAME) share_root(s, node);
        for (uint32_t i = 0; step && i < step->release_count; i++) s->tensors[step->released[i]].last = n;
    }
    return true;
}

/* ---- placements ---------------------------------------------------------------------------------------- */

/* As TensorFlow Lite plans its arena: passes/planners/greedy_by_size.c. */
static bool assign_offsets(const plan *of, shape_plan *made, base_arena *scratch) {
    const planner_options options = {0};
    planner_buffer *buffers = BASE_ARRAY(scratch, planner_buffer, made->placement_count + 1);
    planner_solution solution;
    if (!buffers) return false;
    for (size_t i = 0; i < made->placement_count; i++) {
        const placement *one = &made->placements[i];
        const bool kept = one->last == UINT64_MAX; /* nobody gives it back: the run does */
        buffers[i] = (planner_buffer){.size = one->bytes,
                                      .alignment = RT_ALIGNMENT,
                                      .first = (int64_t)one->first,
                                      .last = (int64_t)(kept ? of->header->nodes.count : one->last) + 1,
                                      .fixed = PLANNER_NOT_FIXED};
    }
    const planner_problem problem = {.buffers = buffers, .buffer_count = made->placement_count};
    if (planner_run(&planner_greedy_by_size, &problem, &options, scratch, &solution, NULL) != BASE_OK)
        return false;
    for (size_t i = 0; i < made->placement_count; i++) made->placements[i].offset = solution.offsets[i];
    made->bytes = solution.height;
    return true;
}

static bool collect_placements(const survey *s, shape_plan *made) {
    const plan_header *header = s->of->header;
    made->placements = BASE_ARRAY(&made->arena, placement, (size_t)header->tensors.count);
    if (!made->placements) return false;
    for (uint32_t id = 0; id < header->tensors.count; id++) {
        const knowledge *k = &s->tensors[id];
        placement own = {.tensor = id, .first = k->first, .last = k->last};
        plan_address reserved;
        if (plan_tensor_reservation(s->of, id, &reserved)) continue;
        if (!s->session->code.dynamic[id] || s->of->tensors[id].graph != 0 || k->first == UINT64_MAX ||
            k->root != id || !op_type_bytes(&k->value.type, &own.exact) || !own.exact ||
            !base_size_align(own.exact, RT_ALIGNMENT, &own.bytes))
            continue;
        bool kept = k->excluded;
        /* Whatever shares its bytes keeps them. */
        for (uint32_t other = 0; other < header->tensors.count; other++) {
            if (s->tensors[other].root != id || other == id) continue;
            if (s->tensors[other].last > own.last) own.last = s->tensors[other].last;
            kept |= s->tensors[other].excluded;
        }
        if (!kept) made->placements[made->placement_count++] = own;
    }
    return true;
}

static bool make_plan(const ouro_session *session, shape_plan *made) {
    base_arena arena;
    base_arena_init(&arena, &session->memory.source);
    survey s = {.session = session, .of = session->of, .arena = &arena};
    s.tensors = BASE_ARRAY(&arena, knowledge, (size_t)session->of->header->tensors.count);
    bool fine = s.tensors != NULL;
    if (fine) begin_survey(&s);
    fine =
        fine && survey_graph(&s) && collect_placements(&s, made) && assign_offsets(session->of, made, &arena);
    base_arena_free(&arena);
    return fine;
}

/* ---- around runs --------------------------------------------------------------------------------------- */

static size_t copy_extents(const ouro_session *session, int64_t *to) {
    size_t count = 0;
    for (uint64_t i = 0; i < session->of->header->inputs.count; i++) {
        const rt_binding *binding = &session->bound.inputs[i];
        const op_type *type = &session->run.tensors[binding->tensor].type;
        if (!binding->dynamic || type->kind != OP_KIND_TENSOR) continue;
        for (int32_t d = 0; d < type->shape.rank; d++) {
            if (to) to[count] = type->shape.dims[d];
            count++;
        }
    }
    for (uint64_t i = 0; i < session->of->header->states.count; i++) {
        const rt_kept *kept = &session->states.kept[i];
        for (int32_t d = 0; kept->dynamic && d < kept->type.shape.rank; d++) {
            if (d == kept->axis && session->of->states[i].bound) continue;
            if (to) to[count] = kept->type.shape.dims[d];
            count++;
        }
    }
    return count;
}

static rt_binding *find_output(const ouro_session *session, uint32_t id) {
    for (uint64_t i = 0; i < session->of->header->outputs.count; i++)
        if (session->bound.outputs[i].tensor == id && session->bound.outputs[i].dynamic)
            return &session->bound.outputs[i];
    return NULL;
}

/* What nodes of the main graph make is an output, or has the bytes of the arena that the plan has reserved for it. */
static void plan_reservations(ouro_session *session) {
    const plan *of = session->of;
    const plan_graph *main = &of->graphs[0];
    for (uint64_t n = main->nodes; n < main->nodes + main->node_count; n++) {
        const plan_node *node = &of->nodes[n];
        for (uint64_t i = 0; i < node->output_count && !node->graph_count; i++) {
            const uint32_t id = of->tensor_ids[node->outputs + i];
            plan_address at;
            if (id == PLAN_ABSENT || of->tensors[id].kind != OP_KIND_TENSOR) continue;
            rt_planned *planned = &session->memory.planned[id];
            planned->output = find_output(session, id);
            if (!plan_tensor_reservation(of, id, &at)) continue;
            planned->data = session->memory.arena + at.offset;
            planned->bytes = (size_t)of->tensors[id].bytes;
        }
    }
}

bool rt_shapes_make(ouro_session *session) {
    if (!session->code.has_dynamic || session->code.unshared) return true;
    session->memory.planned =
        BASE_ARRAY(&session->code.tables, rt_planned, (size_t)session->of->header->tensors.count);
    if (!session->memory.planned) return false;
    plan_reservations(session);
    const size_t count = copy_extents(session, NULL);
    if (!count) return true;
    rt_shapes *shapes = BASE_NEW(&session->code.tables, rt_shapes);
    if (!shapes) return false;
    shapes->extent_count = count;
    shapes->extents = BASE_ARRAY(&session->code.tables, int64_t, count);
    session->memory.shapes = shapes;
    return shapes->extents;
}

/* The plan for the extents at hand, made where there is none; NULL where it cannot be made. */
static shape_plan *find_plan(const ouro_session *session) {
    rt_shapes *shapes = session->memory.shapes;
    const size_t bytes = shapes->extent_count * sizeof *shapes->extents;
    shape_plan *oldest = &shapes->plans[0];
    for (size_t i = 0; i < KEPT_PLANS; i++) {
        shape_plan *known = &shapes->plans[i];
        if (known->extents && memcmp(known->extents, shapes->extents, bytes) == 0) return known;
        if (known->used < oldest->used) oldest = known;
    }
    base_arena_free(&oldest->arena);
    *oldest = (shape_plan){0};
    base_arena_init(&oldest->arena, &session->memory.source);
    if (!make_plan(session, oldest)) return NULL;
    oldest->extents = BASE_ARRAY(&oldest->arena, int64_t, shapes->extent_count);
    if (!oldest->extents) return NULL;
    memcpy(oldest->extents, shapes->extents, bytes);
    return oldest;
}

/* The block is as large as the plan wants. */
static bool reserve(const base_allocator *source, rt_shapes *shapes, const shape_plan *wanted) {
    if (wanted->bytes > shapes->capacity) {
        void *larger = rt_take(source, wanted->bytes);
        if (!larger) return false;
        if (!shapes->given) rt_give(source, shapes->memory);
        shapes->memory = larger;
        shapes->capacity = wanted->bytes;
        shapes->given = false;
    }
    return true;
}

/* Tells where the values of the plan's tensors are to lie; `memory` NULL: nowhere. */
static void publish(ouro_session *session, const shape_plan *made, char *memory) {
    for (size_t i = 0; made && i < made->placement_count; i++) {
        const placement *one = &made->placements[i];
        rt_planned *planned = &session->memory.planned[one->tensor];
        planned->data = memory ? memory + one->offset : NULL;
        planned->bytes = one->exact;
    }
}

bool rt_shapes_prepare(ouro_session *session, const ouro_span *memory, size_t *bytes) {
    rt_shapes *shapes = session->memory.shapes;
    *bytes = 0;
    if (!shapes) return true;
    publish(session, shapes->current, NULL);
    shapes->current = NULL;
    copy_extents(session, shapes->extents);
    shape_plan *found = find_plan(session);
    if (!found) return false;
    *bytes = found->bytes;
    if (!memory) return true;
    if (memory->data && memory->bytes >= found->bytes) {
        if (!shapes->given) rt_give(&session->memory.source, shapes->memory);
        shapes->memory = memory->data;
        shapes->capacity = memory->bytes;
        shapes->given = true;
    }
    if (!reserve(&session->memory.source, shapes, found)) return false;
    found->used = ++shapes->runs;
    shapes->current = found;
    publish(session, found, shapes->memory);
    return true;
}

bool rt_shapes_outputs(const ouro_session *session, op_type *types) {
    const plan *of = session->of;
    base_arena arena;
    base_arena_init(&arena, &session->memory.source);
    survey s = {.session = session, .of = of, .arena = &arena};
    s.tensors = BASE_ARRAY(&arena, knowledge, (size_t)of->header->tensors.count);
    if (s.tensors) begin_survey(&s);
    for (uint64_t i = 0; s.tensors && i < of->header->states.count;
         i++) /* as they are, not as they may come to be */
        if (session->states.kept[i].dynamic)
            s.tensors[of->states[i].parameter].value.type = session->states.kept[i].type;
    const bool fine = s.tensors && survey_graph(&s);
    for (uint64_t i = 0; fine && i < of->header->outputs.count; i++) {
        op_type declared;
        size_t bytes;
        const uint32_t id = of->outputs[i].tensor;
        plan_tensor_type(of, id, &declared);
        types[i] = s.tensors[id].value.type;
        if (op_type_bytes(&types[i], &bytes)) continue;
        for (int32_t d = 0; d < declared.shape.rank; d++) /* of a loop or a branch: what the symbols say */
            if (declared.shape.dims[d] < 0 && declared.shape.dims[d] != OP_DIM_UNKNOWN)
                declared.shape.dims[d] = rt_symbol_known(session, declared.shape.dims[d]);
        types[i] = declared;
    }
    base_arena_free(&arena);
    return fine;
}

void rt_shapes_before_run(ouro_session *session) {
    rt_shapes *shapes = session->memory.shapes;
    if (!shapes) return;
    copy_extents(session, shapes->extents);
    const size_t bytes = shapes->extent_count * sizeof *shapes->extents;
    bool same = shapes->current && memcmp(shapes->current->extents, shapes->extents, bytes) == 0;
    if (!same) {
        /* Without memory for a plan the run-time allocator may still have some: it says so if not. */
        publish(session, shapes->current, NULL);
        shape_plan *found = find_plan(session);
        shapes->current = found && reserve(&session->memory.source, shapes, found) ? found : NULL;
        publish(session, shapes->current, shapes->memory);
    }
    if (shapes->current) shapes->current->used = ++shapes->runs;
}

size_t rt_shapes_bytes(const ouro_session *session) {
    return session->memory.shapes && session->memory.shapes->current ? session->memory.shapes->current->bytes
                                                                     : 0;
}

size_t rt_shapes_capacity(const ouro_session *session) {
    const rt_shapes *shapes = session->memory.shapes;
    return shapes && !shapes->given ? shapes->capacity : 0;
}

size_t rt_shapes_table_bytes(const ouro_session *session) {
    const rt_shapes *shapes = session->memory.shapes;
    size_t bytes = 0;
    for (size_t i = 0; shapes && i < KEPT_PLANS; i++) bytes += shapes->plans[i].arena.reserved;
    return bytes;
}

size_t rt_shapes_places(const ouro_session *session, rt_shape_place *places) {
    const shape_plan *made = session->memory.shapes ? session->memory.shapes->current : NULL;
    for (size_t i = 0; made && places && i < made->placement_count; i++) {
        const placement *one = &made->placements[i];
        places[i] = (rt_shape_place){.tensor = one->tensor,
                                     .offset = one->offset,
                                     .bytes = one->bytes,
                                     .first = one->first,
                                     .last = one->last};
    }
    return made ? made->placement_count : 0;
}

void rt_shapes_free(ouro_session *session) {
    rt_shapes *shapes = session->memory.shapes;
    if (!shapes) return;
    for (size_t i = 0; i < KEPT_PLANS; i++) base_arena_free(&shapes->plans[i].arena);
    if (!shapes->given) rt_give(&session->memory.source, shapes->memory);
    session->memory.shapes = NULL;
}
