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
#include "runtime/shape_survey.h"
#include <string.h>

enum { KEPT_PLANS = 8 };

typedef struct placement {
    uint32_t tensor;
    size_t bytes, offset; /* of bytes in the block; rounded up to RT_ALIGNMENT */
    size_t exact;         /* of the value */
    uint64_t first, last; /* steps of the main graph, last inclusive */
} placement;

/* A tensor that lies within a placement: it is made there, as a part of what others are put together to, or is cut from it. */
typedef struct part {
    uint32_t tensor;
    size_t placement; /* which */
    size_t at, bytes;
    bool cut;
} part;

/* Offsets for one choice of the dynamic dimensions. */
typedef struct shape_plan {
    int64_t *extents;      /* all dimensions of the dynamic inputs, one input after another */
    placement *placements; /* by tensor id */
    part *parts;
    size_t placement_count, part_count, bytes;
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

/* What lies in the bytes of the root keeps them, and may be made there itself. */
static void collect_members(const rt_shape_survey *s, uint32_t root, placement *own, shape_plan *made) {
    for (uint32_t id = s->values[root].next; id != PLAN_ABSENT; id = s->values[id].next) {
        const rt_shape_value *value = &s->values[id];
        part one = {.tensor = id,
                    .placement = made->placement_count,
                    .at = value->at,
                    .cut = value->how == RT_SHAPE_CUT};
        if (value->last > own->last) own->last = value->last;
        if (value->first < own->first) own->first = value->first;
        if (value->how != RT_SHAPE_SAME && op_type_bytes(&value->tensor.type, &one.bytes))
            made->parts[made->part_count++] = one;
    }
}

static bool collect_placements(const rt_shape_survey *s, shape_plan *made) {
    const size_t count = (size_t)s->of->header->tensors.count;
    made->placements = BASE_ARRAY(&made->arena, placement, count);
    made->parts = BASE_ARRAY(&made->arena, part, count);
    if (!made->placements || !made->parts) return false;
    for (uint32_t id = 0; id < count; id++) {
        placement own = {.tensor = id, .first = s->values[id].first, .last = s->values[id].last};
        if (!rt_shape_may_be_placed(s, id, &own.exact) ||
            !base_size_align(own.exact, RT_ALIGNMENT, &own.bytes))
            continue;
        collect_members(s, id, &own, made);
        made->placements[made->placement_count++] = own;
    }
    return true;
}

static bool make_plan(const ouro_session *session, shape_plan *made) {
    base_arena arena;
    rt_shape_survey s;
    base_arena_init(&arena, &session->memory.source);
    const bool fine = rt_shape_survey_begin(&s, session, &arena) && rt_shape_survey_graph(&s) &&
                      rt_shape_place_parts(&s) && collect_placements(&s, made) &&
                      assign_offsets(session->of, made, &arena);
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
    for (size_t i = 0; made && i < made->part_count; i++) {
        const part *one = &made->parts[i];
        const placement *whole = &made->placements[one->placement];
        rt_planned *planned = &session->memory.planned[one->tensor];
        planned->shares = memory && one->cut;
        if (one->cut) continue;
        planned->data = memory ? memory + whole->offset + one->at : NULL;
        planned->bytes = one->bytes;
        planned->part_of = memory ? session->memory.planned[whole->tensor].output : NULL;
        planned->at = one->at;
        planned->whole = whole->exact;
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
    rt_shape_survey s;
    const bool begun = rt_shape_survey_begin(&s, session, &arena);
    for (uint64_t i = 0; begun && i < of->header->states.count;
         i++) /* as they are, not as they may come to be */
        if (session->states.kept[i].dynamic)
            s.values[of->states[i].parameter].tensor.type = session->states.kept[i].type;
    const bool fine = begun && rt_shape_survey_graph(&s);
    for (uint64_t i = 0; fine && i < of->header->outputs.count; i++) {
        op_type declared;
        size_t bytes;
        const uint32_t id = of->outputs[i].tensor;
        plan_tensor_type(of, id, &declared);
        types[i] = s.values[id].tensor.type;
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
