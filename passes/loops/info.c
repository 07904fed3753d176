/* SPDX-License-Identifier: Apache-2.0 */
/* info.c: implements info.h. */
#include "passes/loops/info.h"

/* The copies in the branches of a body: each may be from one storage to another that are no members yet. */
static uint32_t copies_in_branches(const ir_graph *graph, bool body) {
    uint32_t count = 0;
    for (const ir_node *node = graph->first; node; node = node->next) {
        count += !body && node->code == OP_COPY;
        for (uint32_t g = 0; node->code == OP_IF && g < node->graph_count; g++)
            count += copies_in_branches(node->graphs[g], false);
    }
    return count;
}

/* Memory for as many storages as there can be members; false when memory runs out. */
static bool new_index(const loop_info *info, loop_index *index) {
    size_t size = 8;
    while (size < 2 * (size_t)info->most_members + 2) size *= 2;
    index->keys = BASE_ARRAY(info->arena, uint32_t, size);
    index->numbers = BASE_ARRAY(info->arena, uint32_t, size);
    index->mask = (uint32_t)(size - 1);
    return index->keys && index->numbers;
}

bool loop_info_read(pass_context *context, base_arena *arena, const ir_node *loop, loop_info *info) {
    *info = (loop_info){.context = context,
                        .module = context->module,
                        .memory = context->memory,
                        .arena = arena,
                        .numbers = context->memory->order.numbers,
                        .loop = ir_loop_of(loop)};
    const uint32_t nodes = info->loop.body->node_count;
    info->steps = nodes ? nodes : 1; /* slices are copied even to an empty body */
    info->half = 2 * info->steps;
    info->carried = BASE_ARRAY(arena, loop_carried, info->loop.carried);
    info->most_members = info->loop.carried + 2 * copies_in_branches(info->loop.body, true);
    info->members = BASE_ARRAY(arena, loop_member, info->most_members);
    if (!info->carried || !info->members || !new_index(info, &info->at) || !new_index(info, &info->made) ||
        !new_index(info, &info->member_of))
        return false;
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        const ir_loop_carried c = ir_loop_carry(&info->loop, i);
        info->carried[i] = (loop_carried){.parameter = c.parameter,
                                          .initial = c.initial,
                                          .replacement = c.replacement,
                                          .output = c.output,
                                          .next = LOOP_NONE};
        info->carried[i].kind = ir_loop_is_static(&info->loop, i) ? LOOP_ORIGIN_BODY : LOOP_ORIGIN_COPY;
    }
    for (uint32_t i = info->loop.carried; i-- > 0;) {
        const pass_location at = pass_memory_location(info->memory, info->carried[i].parameter);
        info->carried[i].next_at = loop_index_put(&info->at, at.storage, i);
    }
    return true;
}

/* ---- indices by storage -------------------------------------------------------------------------------- */

static uint32_t index_find(const loop_index *index, pass_storage_id id) {
    uint32_t at = id.index * UINT32_C(2654435761) & index->mask;
    while (index->keys[at] && index->keys[at] != id.index) at = (at + 1) & index->mask;
    return at;
}

uint32_t loop_index_put(loop_index *index, pass_storage_id id, uint32_t number) {
    const uint32_t at = index_find(index, id), before = index->keys[at] ? index->numbers[at] : LOOP_NONE;
    index->keys[at] = id.index;
    index->numbers[at] = number;
    return before;
}

static uint32_t index_get(const loop_index *index, pass_storage_id id) {
    const uint32_t at = index_find(index, id);
    return index->keys[at] ? index->numbers[at] : LOOP_NONE;
}

uint32_t loop_first_at(const loop_info *info, pass_storage_id id) {
    return index_get(&info->at, id);
}

uint32_t loop_first_made(const loop_info *info, pass_storage_id id) {
    return index_get(&info->made, id);
}

uint32_t loop_member_of(const loop_info *info, pass_storage_id id) {
    return index_get(&info->member_of, id);
}

/* ---- storages ------------------------------------------------------------------------------------------ */

bool loop_same_location(pass_location a, pass_location b) {
    return a.storage.index == b.storage.index && a.offset == b.offset;
}

size_t loop_bytes_of(const ir_value *value) {
    size_t bytes = 0;
    (void)op_type_bytes(&value->type, &bytes);
    return bytes;
}

bool loop_fills(const pass_memory *memory, const ir_value *value) {
    const pass_location at = pass_memory_location(memory, value);
    size_t bytes;
    return op_type_bytes(&value->type, &bytes) && at.offset == 0 &&
           pass_memory_storage(memory, at.storage)->bytes == bytes;
}

int64_t loop_use_step(const loop_info *info, const ir_use *use) {
    const ir_graph *body = info->loop.body;
    if (use->node) return pass_step_in(body, use->node, info->numbers);
    return use->graph == body ? info->steps : pass_step_in(body, use->graph->owner, info->numbers);
}

int64_t loop_read_at(const loop_info *info, const ir_use *use) {
    if (use->node || use->graph != info->loop.body) return 2 * loop_use_step(info, use);
    return use->index == 0 && !info->loop.runs ? info->half - 1 : -1;
}

bool loop_view_reaches(const pass_memory *memory, const pass_multiview *view, pass_storage_id id) {
    for (uint32_t i = 0; i < view->prologue + view->repeat; i++) {
        pass_storage_id at = pass_memory_resolve(memory, view->entries[i]).storage;
        const pass_storage *storage = &memory->storages[at.index];
        if (at.index == id.index) return true;
        if (storage->space == MEMORY_MULTIVIEW &&
            loop_view_reaches(memory, &memory->multiviews[storage->index], id))
            return true;
    }
    return false;
}

bool loop_visit_left(const loop_info *info, const ir_graph *body, pass_storage_id id,
                     bool (*visit)(const loop_info *info, const ir_value *value, void *user), void *user) {
    const pass_memory *memory = info->memory;
    for (uint32_t v = memory->views_in[body->id.index]; v; v = memory->multiviews[v].next_in_graph) {
        const pass_multiview *view = &memory->multiviews[v];
        if (!loop_view_reaches(memory, view, id)) continue;
        for (uint32_t i = 0; i < view->loop->output_count; i++) {
            const ir_value *output = view->loop->outputs[i];
            if (!output) continue;
            const pass_storage *storage =
                pass_memory_storage(memory, pass_memory_location(memory, output).storage);
            if (storage->space != MEMORY_MULTIVIEW || storage->index != v) continue;
            for (ir_value_id s = storage->values; s.index; s = memory->siblings[s.index]) {
                const ir_value *value = info->module->values[s.index];
                if (value && !visit(info, value, user)) return false;
            }
        }
    }
    return true;
}

typedef struct last_read {
    const ir_graph *body;
    int64_t step;
} last_read;

static bool find_last_read(const loop_info *info, const ir_value *value, void *user) {
    last_read *last = user;
    for (const ir_use *use = value->uses; use; use = use->next) {
        const bool result = !use->node && use->graph == last->body;
        if (result && use->index != 0) continue; /* handed on; the condition is read */
        const int64_t step =
            result ? last->body->node_count
                   : pass_step_in(last->body, use->node ? use->node : use->graph->owner, info->numbers);
        if (step > last->step) last->step = step;
    }
    return true;
}

int64_t loop_last_left(const loop_info *info, const ir_graph *body, pass_storage_id id) {
    last_read last = {.body = body, .step = -1};
    (void)loop_visit_left(info, body, id, find_last_read, &last);
    return last.step;
}

void loop_touched(const loop_info *info, pass_storage_id id, int64_t *first, int64_t *last) {
    const ir_graph *body = info->loop.body;
    *first = info->half;
    *last = -1;
    for (ir_value_id v = pass_memory_storage(info->memory, id)->values; v.index;
         v = info->memory->siblings[v.index]) {
        const ir_value *value = info->module->values[v.index];
        if (!value || !ir_graph_encloses(body, value->graph)) continue;
        const int64_t made = value->node ? 2 * pass_step_in(body, value->node, info->numbers)
                             : value->graph == body
                                 ? 0
                                 : 2 * pass_step_in(body, value->graph->owner, info->numbers);
        if (made < *first) *first = made;
        if (made > *last) *last = made;
        for (const ir_use *use = value->uses; use; use = use->next) {
            const int64_t at = loop_read_at(info, use);
            if (at > *last) *last = at;
        }
    }
    const int64_t left = loop_last_left(info, body, id);
    const int64_t at = left >= info->steps ? info->half - 1 : 2 * left;
    if (left >= 0 && at > *last) *last = at;
}

uint32_t loop_add_member(loop_info *info, pass_storage_id id) {
    const uint32_t known = loop_member_of(info, id), index = info->member_count;
    if (known != LOOP_NONE) return known;
    loop_member *m = &info->members[info->member_count++];
    *m = (loop_member){.storage = id.index, .class = index, .next = index, .over = LOOP_NONE};
    loop_touched(info, id, &m->first, &m->last);
    (void)loop_index_put(&info->member_of, id, index);
    return index;
}

bool loop_may_take_over(const loop_info *info, const ir_value *value) {
    pass_location at = pass_memory_location(info->memory, value);
    const pass_storage *storage = pass_memory_storage(info->memory, at.storage);
    const ir_graph *graph = info->loop.node->graph;
    int64_t now = info->numbers[info->loop.node->id.index];
    if (at.offset || storage->space != MEMORY_ARENA || storage->graph != graph ||
        storage->bytes != loop_bytes_of(value))
        return false;
    if (storage->buffer_of || storage->scratch_of) return false;
    for (ir_value_id v = storage->values; v.index; v = info->memory->siblings[v.index]) {
        const ir_value *other = info->module->values[v.index];
        if (!other) continue;
        if (other->graph != graph || other->kind != IR_RESULT_OF_NODE ||
            info->numbers[other->node->id.index] >= now)
            return false;
        uint32_t here = 0;
        for (const ir_use *use = other->uses; use; use = use->next) {
            if (!use->node) return false; /* a result */
            if (use->node == info->loop.node) {
                if (other != value || ++here > 1) return false; /* twice an initial value */
            } else if (pass_step_in(graph, use->node, info->numbers) >= now) {
                return false; /* read later, or captured by the body */
            }
        }
    }
    return true;
}

/* ---- slices -------------------------------------------------------------------------------------------- */

/* Slices of these bytes, one after another in the whole, of which there are `count`. */
static bool slices_at(const loop_info *info, const ir_loop_slices *slices, int64_t count, pass_location *base,
                      int64_t *stride) {
    const int64_t bytes = (int64_t)loop_bytes_of(slices->slice);
    const pass_location at = pass_memory_location(info->memory, slices->slice);
    const pass_storage *storage = pass_memory_storage(info->memory, at.storage);
    if (!slices->together || slices->whole->type.layout != OP_LAYOUT_ROW_MAJOR || count <= 0 || bytes == 0 ||
        storage->space != MEMORY_ARENA || storage->graph != info->loop.body || at.offset)
        return false;
    *base = pass_memory_location(info->memory, slices->whole);
    if (pass_memory_storage(info->memory, base->storage)->space == MEMORY_DYNAMIC) return false;
    if (slices->backwards) base->offset += (size_t)(bytes * (count - 1));
    *stride = slices->backwards ? -bytes : bytes;
    return true;
}

/* Not where they lie along another axis, where nobody knows how many there are, or where a slice is no storage of the body by
 * itself. */
bool loop_stack_of(const loop_info *info, uint32_t index, pass_location *base, int64_t *stride) {
    const ir_loop_slices stack = ir_loop_stack(&info->loop, index);
    size_t bytes;
    if (!stack.whole || stack.slice->kind != IR_RESULT_OF_NODE || !loop_fills(info->memory, stack.slice))
        return false;
    const bool certain = op_type_bytes(&stack.whole->type, &bytes);
    const pass_location at = pass_memory_location(info->memory, stack.whole);
    if (!certain && (stack.axis != 0 || stack.backwards ||
                     pass_memory_storage(info->memory, at.storage)->space != MEMORY_ARENA))
        return false; /* there is no reservation for it either */
    return slices_at(info, &stack,
                     certain && stack.together ? stack.whole->type.shape.dims[stack.axis] : INT64_MAX, base,
                     stride);
}

/* Not where they lie along another axis, or where the size of the whole is found at run time. */
bool loop_slice_of(const loop_info *info, uint32_t index, pass_location *base, int64_t *stride) {
    const ir_loop_slices scan = ir_loop_scan(&info->loop, index);
    size_t bytes;
    return op_type_bytes(&scan.whole->type, &bytes) && op_type_bytes(&scan.slice->type, &bytes) &&
           scan.together && slices_at(info, &scan, scan.whole->type.shape.dims[scan.axis], base, stride);
}

/* ---- classes ------------------------------------------------------------------------------------------- */

bool loop_are_congruent(const loop_carried *a, const loop_carried *b) {
    return a != b && a->kind == LOOP_ORIGIN_BODY && b->kind == LOOP_ORIGIN_BODY &&
           a->distance == b->distance && a->origin.storage.index == b->origin.storage.index;
}

uint32_t loop_find_class(const loop_info *info, uint32_t index, int64_t *shift) {
    *shift = 0;
    while (info->members[index].class != index) {
        *shift += info->members[index].shift;
        index = info->members[index].class;
    }
    return index;
}

loop_member *loop_class_of(const loop_info *info, const loop_carried *c) {
    int64_t shift;
    if (c->kind != LOOP_ORIGIN_BODY) return NULL;
    return &info->members[loop_find_class(info, loop_member_of(info, c->origin.storage), &shift)];
}

size_t loop_class_bytes(const loop_info *info, uint32_t class) {
    size_t bytes = 0;
    uint32_t k = class;
    do {
        const size_t of_member = info->memory->storages[info->members[k].storage].bytes;
        if (of_member > bytes) bytes = of_member;
        k = info->members[k].next;
    } while (k != class);
    return bytes;
}

pass_storage_id loop_buffer_of(const loop_info *info, uint32_t index, int64_t t) {
    int64_t shift;
    const loop_member *class = &info->members[loop_find_class(info, index, &shift)];
    const int64_t period = class->period;
    return class->buffers[((t + shift) % period + period) % period];
}
