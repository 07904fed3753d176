/* analyse_loops.c: loops move no data: carried values change their addresses instead.
 *
 *     loop { %y = Conv(%x, %w)   yield %c, %y }      x <= y
 *
 *     y lies in buffer 0, 1, 0, 1, ...; x in iteration t lies where y was made in iteration t - 1
 *
 * This is unrolling, as an analysis: instead of copies of the body there are instances of its storages.
 * docs/LOOPS.md explains it with pictures. In short:
 *
 * Origin. What parameter p holds in iteration t is found by going back: its replacement may be another
 * parameter (one iteration earlier, and so on), until a storage of the body in which it was made is reached,
 * `depth` iterations ago; or a value from outside of the loop; or, going round a cycle of parameters, nothing
 * at all: then initial values circulate. Before iteration `depth` it holds an initial value.
 *
 * Instances. A storage R with a carried value is made anew in each iteration; instance t must stay until its
 * last reader, which is `depth` iterations later. With S steps in the body, R lives from t * S + first to t *
 * S + last, where last counts on into later iterations. R needs as many buffers as instances overlap: the
 * least period P such that instances t and t + P do not.
 *
 * In place. A node that may write over parameter p, whose content dies there, makes its result where p lies:
 * R(t) is where R'(t - depth) was. Storages joined in this way form a class, in which each has a shift; a
 * cycle with a shift of K in all makes P a divisor of K. (The first `depth` iterations read initial values
 * elsewhere and write into the buffers all the same.)
 *
 * Initial values. Where the initial value of p may be overwritten (it is in the arena, and nobody needs it
 * later), it is made in the buffer where instance -depth of the class would be, and p has no prologue (type
 * I). Otherwise it is read where it lies (type II).
 *
 * Outputs. After k iterations output i is what parameter i would be in iteration k: a view of the same table,
 * with the number of iterations as its counter. If k is known, or there is only one buffer, it is that
 * buffer. Where the output's place is decided by others (the caller, a Concat, an enclosing loop), it is
 * copied there once, when the loop is left.
 *
 * Slices. What is scanned along the outermost axis is a view base + t * stride, and so is a slice that is
 * stacked.
 *
 * Exchange. Where the output of a loop that may end after any iteration replaces a parameter of the loop around it, buffers
 * are exchanged, not bytes: loop_exchange.h.
 *
 * Buffers of a class are storages of the graph around the loop: live while it runs, from before it for
 * initial values made there, until after it for outputs.
 *
 * Needs: choose-in-place; the schedule is final. Makes: views; carried storages in MEMORY_MULTIVIEW, or joined
 * with their buffer where there is but one address. Loops go innermost first, so that an inner loop's buffers
 * are storages of the outer body.
 */
#include "passes/loops/loop_exchange.h"
#include <string.h>

/* ---- buffers ------------------------------------------------------------------------------------------- */

static int64_t modulo(int64_t a, int64_t b) {
    return (a % b + b) % b;
}

static bool make_buffers(loop_analysis *a) {
    for (uint32_t c = 0; c < a->member_count; c++) {
        loop_member *class = &a->members[c];
        size_t bytes = 0;
        ir_value *value = NULL;
        int64_t shift;
        if (class->class != c) continue;
        for (uint32_t k = 0; k < a->member_count; k++) {
            if (loop_find_class(a, k, &shift) != c) continue;
            const pass_storage *storage = &a->memory->storages[a->members[k].storage];
            if (storage->bytes > bytes) bytes = storage->bytes;
            if (!value) value = storage->value;
        }
        class->buffers = BASE_ARRAY(a->arena, pass_storage_id, class->period);
        if (!class->buffers) return false;
        for (uint32_t i = 0; i < class->period; i++) {
            if (class->exchanged_in) {
                class->buffers[i] = loop_add_exchanged(a, class->exchanged_in, class->group, bytes, value);
                if (!class->buffers[i].index) return false;
                continue;
            }
            pass_storage buffer = {.space = MEMORY_ARENA,
                                   .graph = a->loop->graph,
                                   .value = value,
                                   .bytes = bytes,
                                   .carried_by = a->loop};
            class->buffers[i] = pass_memory_add(a->memory, &buffer);
            if (!class->buffers[i].index) return false;
        }
    }
    return true;
}

pass_storage_id loop_buffer_of(loop_analysis *a, uint32_t index, int64_t t) {
    int64_t shift;
    const loop_member *class = &a->members[loop_find_class(a, index, &shift)];
    return class->buffers[modulo(t + shift, class->period)];
}

/* Nobody needs the bytes of `value`, defined around the loop, once the loop has begun; and they can be
 * anywhere. */
static bool may_take_over(const loop_analysis *a, const ir_value *value) {
    pass_location at = pass_memory_location(a->memory, value);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    const ir_graph *graph = a->loop->graph;
    int64_t now = a->numbers[a->loop->id.index];
    if (at.offset || storage->space != MEMORY_ARENA || storage->graph != graph ||
        storage->bytes != loop_bytes_of(value))
        return false;
    if (storage->buffer_of || storage->scratch_of) return false;
    for (ir_value_id v = storage->values; v.index; v = a->memory->siblings[v.index]) {
        const ir_value *other = a->module->values[v.index];
        if (!other) continue;
        if (other->graph != graph || other->kind != IR_RESULT_OF_NODE ||
            a->numbers[other->node->id.index] >= now)
            return false;
        uint32_t here = 0;
        for (const ir_use *use = other->uses; use; use = use->next) {
            if (!use->node) return false; /* a result */
            if (use->node == a->loop) {
                if (other != value || ++here > 1) return false; /* twice an initial value */
            } else if (pass_step_in(graph, use->node, a->numbers) >= now) {
                return false; /* read later, or captured by the body */
            }
        }
    }
    return true;
}

/* The storage with the bytes of an exchanged buffer of this loop, as it is when the loop begins; storage zero for others. */
static pass_storage_id first_exchanged(const loop_analysis *a, pass_storage_id id) {
    const pass_multiview *view = pass_memory_swapped(a->memory, id);
    return view && view->loop == a->loop ? view->entries[0].storage : (pass_storage_id){0};
}

/* A value that was made in such bytes before the loop began is found through the buffer's view from then on. */
static pass_location named_exchanged(const loop_analysis *a, pass_location at) {
    for (size_t v = 1; v < a->memory->multiview_count; v++) {
        const pass_multiview *view = &a->memory->multiviews[v];
        if (view->group && view->loop == a->loop && view->entries[0].storage.index == at.storage.index)
            return (pass_location){view->buffer, at.offset};
    }
    return at;
}

static void take_over_initials(loop_analysis *a) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        loop_carried *c = &a->carried[i];
        pass_storage_id exchanged =
            c->kind == LOOP_ORIGIN_OUTSIDE ? first_exchanged(a, c->origin.storage) : (pass_storage_id){0};
        if ((c->kind != LOOP_ORIGIN_BODY && !exchanged.index) || !may_take_over(a, c->initial)) continue;
        bool anywhere;
        if (!loop_leaves_anywhere(a->context, a->numbers, a->arena, c->initial, &anywhere)) {
            a->out_of_memory = true;
            return;
        }
        if (anywhere) continue;
        if (exchanged.index) {
            pass_memory_join(a->memory, exchanged, pass_memory_location(a->memory, c->initial).storage, 0);
            continue;
        }
        uint32_t index = a->member_of[c->origin.storage.index];
        /* Two parameters of one depth whose origins share bytes: only one initial value can be the instance
         * before the first. */
        bool taken = false;
        for (uint32_t k = 0; k < i; k++) {
            const loop_carried *other = &a->carried[k];
            taken |= other->taken_over && other->depth == c->depth &&
                     other->origin.storage.index == c->origin.storage.index &&
                     other->origin.offset < c->origin.offset + loop_bytes_of(c->initial) &&
                     c->origin.offset < other->origin.offset + loop_bytes_of(other->initial);
        }
        pass_storage_id buffer = loop_buffer_of(a, index, -(int64_t)c->depth);
        for (uint32_t k = 0; k < a->carried_count; k++) { /* a parameter of the body around is there */
            const loop_carried *other = &a->carried[k];
            taken |=
                other->kind == LOOP_ORIGIN_BODY && other->exchanged_in && other->begins &&
                loop_buffer_of(a, a->member_of[other->origin.storage.index], -(int64_t)other->depth).index ==
                    buffer.index;
        }
        pass_location at = pass_memory_location(a->memory, c->initial);
        if (taken || at.storage.index == buffer.index ||
            c->origin.offset + loop_bytes_of(c->initial) > pass_memory_storage(a->memory, buffer)->bytes) {
            continue;
        }
        pass_storage_id first = first_exchanged(a, buffer);
        pass_memory_join(a->memory, first.index ? first : buffer, at.storage, c->origin.offset);
        c->taken_over = true;
    }
}

/* ---- views --------------------------------------------------------------------------------------------- */

/* Where parameter `index` lies in iteration t. */
static pass_location parameter_at(loop_analysis *a, uint32_t index, uint64_t t) {
    const loop_carried *c = &a->carried[index];
    if (c->kind == LOOP_ORIGIN_CYCLE || t < c->depth) {
        for (; t > 0; t--) index = a->carried[index].next;
        return named_exchanged(a, pass_memory_location(a->memory, a->carried[index].initial));
    }
    if (c->kind == LOOP_ORIGIN_OUTSIDE) return pass_memory_resolve(a->memory, c->origin);
    if (c->kind == LOOP_ORIGIN_STACK) {
        pass_location slice = c->origin;
        slice.offset += (size_t)(c->stride * (int64_t)(t - c->depth));
        return pass_memory_resolve(a->memory, slice);
    }
    pass_storage_id buffer =
        loop_buffer_of(a, a->member_of[c->origin.storage.index], (int64_t)(t - c->depth));
    return pass_memory_resolve(a->memory, (pass_location){buffer, c->origin.offset});
}

/* The table of a parameter, as short as it can be: a prologue that only repeats what the cycle says is
 * dropped. */
static bool table_of(loop_analysis *a, uint32_t index, pass_multiview *view) {
    const loop_carried *c = &a->carried[index];
    int64_t shift;
    uint32_t prologue = c->depth, period = 1;
    if (c->kind == LOOP_ORIGIN_CYCLE) period = c->cycle;
    else if (c->kind == LOOP_ORIGIN_BODY)
        period = a->members[loop_find_class(a, a->member_of[c->origin.storage.index], &shift)].period;
    while (prologue > 0 && c->kind != LOOP_ORIGIN_STACK &&
           loop_same_location(parameter_at(a, index, prologue - 1),
                              parameter_at(a, index, prologue - 1 + period)))
        prologue--;
    *view = (pass_multiview){.loop = a->loop, .prologue = prologue, .repeat = period, .stride = c->stride};
    view->entries = BASE_ARRAY(a->memory->arena, pass_location, (size_t)prologue + period);
    for (uint32_t t = 0; view->entries && t < prologue + period; t++)
        view->entries[t] = parameter_at(a, index, t);
    return view->entries != NULL;
}

/* The storage lies where the view says; where that is one place, it becomes part of it. */
static bool put_storage(loop_analysis *a, pass_storage_id id, const pass_multiview *view) {
    if (view->prologue == 0 && view->repeat == 1 && view->stride == 0) {
        const pass_storage *target = pass_memory_storage(a->memory, view->entries[0].storage);
        if (view->entries[0].storage.index != id.index && target->space != MEMORY_DYNAMIC) {
            pass_memory_join(a->memory, view->entries[0].storage, id, view->entries[0].offset);
            return true;
        }
    }
    uint32_t index = pass_memory_add_multiview(a->memory, view);
    pass_storage *storage = pass_memory_storage(a->memory, id);
    storage->space = MEMORY_MULTIVIEW;
    storage->index = index;
    return index != 0;
}

static bool place_members(loop_analysis *a) {
    for (uint32_t k = 0; k < a->member_count; k++) {
        int64_t shift;
        uint32_t period = a->members[loop_find_class(a, k, &shift)].period;
        pass_multiview view = {.loop = a->loop, .repeat = period};
        view.entries = BASE_ARRAY(a->memory->arena, pass_location, period);
        if (!view.entries) return false;
        for (uint32_t t = 0; t < period; t++) view.entries[t] = (pass_location){loop_buffer_of(a, k, t), 0};
        if (!put_storage(a, (pass_storage_id){a->members[k].storage}, &view)) return false;
    }
    return true;
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

int64_t pass_known_trips(const ir_node *loop) {
    const ir_value *trips = ir_input(loop, 0), *condition = ir_input(loop, 1),
                   *again = loop->graphs[0]->results[0]->value;
    const bool goes_on =
        again == loop->graphs[0]->parameters[1] || (again->constant && again->constant->tensor.data &&
                                                    *(const unsigned char *)again->constant->tensor.data);
    const bool begins = !condition || (condition->constant && condition->constant->tensor.data &&
                                       *(const unsigned char *)condition->constant->tensor.data);
    const uint32_t scanned = (uint32_t)op_attribute_integer(&loop->attributes, "ouro.scan_inputs", 0);
    int64_t count = INT64_MAX;
    if (!goes_on || !begins) return -1;
    if (trips) {
        op_call call = {.input_count = 1};
        if (!trips->constant) return -1;
        call.inputs = &trips->constant->tensor;
        if (!op_input_integer(&call, 0, 0, &count)) return -1;
    }
    for (uint32_t i = 0; i < scanned; i++) {
        const ir_value *whole = ir_input(loop, loop->input_count - scanned + i);
        const op_shape *shape = &whole->type.shape;
        int32_t axis;
        /* An extent is certain where the plan holds the tensor to it, or the caller who binds it is. */
        if (!loop_is_static(whole) && !(whole->kind == IR_PARAMETER && !whole->graph->owner)) return -1;
        if (!op_axis(op_attribute_entry(&loop->attributes, "ouro.scan_input_axes", i), shape->rank, &axis) ||
            shape->dims[axis] < 0)
            return -1;
        if (shape->dims[axis] < count) count = shape->dims[axis];
    }
    return count == INT64_MAX ? -1 : count < 0 ? 0 : count;
}

/* A loop that begins with the value reads it where it lies: as a carried value of static size. */
static bool begins_with(const ir_use *use) {
    const ir_node *loop = use->node;
    if (loop->code != OP_LOOP || use->index < 2) return false;
    return use->index - 2 < pass_carried_count(loop) && pass_carried_is_static(loop, use->index - 2);
}

/* Only operators, and loops that begin with it, read the value, not the graph's owner. */
static bool is_read_anywhere(const loop_analysis *a, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (!use->node) return false;
        if ((op_schema_of(use->node->code)->flags & OP_FLAG_GRAPHS) && !begins_with(use)) return false;
        if (a->memory->executions[use->node->id.index] != PASS_RUN) return false;
    }
    return true;
}

/* The output can be resolved when the loop is left: nothing else shares its storage but parameters of later loops, which
 * hand it on, and what such loops leave unchanged. */
static bool is_plainly_read(const loop_analysis *a, const ir_value *output) {
    pass_location at = pass_memory_location(a->memory, output);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    if (storage->space != MEMORY_ARENA || at.offset || storage->carried_by) return false;
    for (ir_value_id v = storage->values; v.index; v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        if (!value) continue;
        if (loop_bytes_of(value) != storage->bytes) return false;
        if (value->kind == IR_PARAMETER) continue;
        if (!value->node || value->node->code != OP_LOOP || !is_read_anywhere(a, value)) return false;
    }
    return true;
}

/* Nothing is written over the places of this view behind the loop, as long as its readers keep them live:
 * constants, the caller's inputs, and storages that hold only what is made before the loop or by it. (What
 * runs in place has been decided already.) */
static bool is_left_alone(const loop_analysis *a, const pass_multiview *view, size_t bytes) {
    for (uint32_t i = 0; i < view->prologue + view->repeat; i++) {
        pass_location at = pass_memory_resolve(a->memory, view->entries[i]);
        const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
        const pass_multiview *exchanged = pass_memory_swapped(a->memory, at.storage);
        if (storage->space == MEMORY_CONSTANT || storage->space == MEMORY_INPUT) continue;
        if (exchanged && exchanged->loop == a->loop) continue; /* its group belongs to the loop alone */
        if (storage->swapped) return false;
        bool planned = storage->space == MEMORY_ARENA || storage->space == MEMORY_OUTPUT;
        if (!planned || storage->graph != a->loop->graph) return false;
        if (storage->carried_again || (storage->carried_by && storage->carried_by != a->loop))
            return false; /* another loop writes there */
        /* A part of a buffer shares its bytes with another output, which may come to have a place of its own.
         */
        if (storage->carried_by && (at.offset || storage->bytes != bytes)) return false;
        for (ir_value_id v = storage->values; v.index; v = a->memory->siblings[v.index]) {
            const ir_value *value = a->module->values[v.index];
            if (!value) continue;
            if (value->graph != a->loop->graph) return false;
            if (value->kind == IR_PARAMETER) continue; /* of an enclosing loop, which counts the readers */
            if (a->numbers[value->node->id.index] > a->numbers[a->loop->id.index]) return false;
        }
    }
    return true;
}

/* What this storage holds: outputs of the loop, and values that are written behind it. */
static void held_behind(const loop_analysis *a, const pass_storage *storage, bool *output, bool *written) {
    *output = false;
    /* A later loop has taken it over: these are analysed first. */
    *written = storage->carried_again || (storage->carried_by && storage->carried_by != a->loop);
    for (ir_value_id v = storage->values; v.index; v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        if (!value || !value->node) continue;
        if (value->node == a->loop) *output = true;
        else if (a->memory->executions[value->node->id.index] == PASS_RUN &&
                 ir_graph_encloses(a->loop->graph, value->graph) &&
                 pass_step_in(a->loop->graph, value->node, a->numbers) > a->numbers[a->loop->id.index])
            *written = true;
    }
}

/* The storage of an output can become bytes of this buffer: no other output is there already that something
 * written over one of the two would destroy, or that begins with another initial value. */
static bool can_share(const loop_analysis *a, const pass_storage *buffer, const pass_storage *storage,
                      bool certain) {
    bool output, other_output, written, other_written;
    held_behind(a, buffer, &output, &written);
    held_behind(a, storage, &other_output, &other_written);
    return !output || (certain && !written && !other_written);
}

/* After so many iterations the parameter is in a buffer of the loop: it was made there, or was begun there. */
static bool is_in_buffer(const loop_analysis *a, uint32_t index, int64_t trips) {
    if (trips >= (int64_t)a->carried[index].depth) return true;
    for (; trips > 0; trips--) index = a->carried[index].next;
    return a->carried[index].taken_over;
}

/* An initial value begins in a buffer of this parameter's class. */
static bool holds_initial(loop_analysis *a, uint32_t index) {
    int64_t shift;
    uint32_t class = loop_find_class(a, a->member_of[a->carried[index].origin.storage.index], &shift);
    for (uint32_t k = 0; k < a->carried_count; k++) {
        const loop_carried *c = &a->carried[k];
        if (c->taken_over && loop_find_class(a, a->member_of[c->origin.storage.index], &shift) == class)
            return true;
    }
    return false;
}

/* Output `index` lies where the last iteration leaves it: in one certain buffer, or where its view is then.
 * Only where its place is decided by others it is copied there once, when the loop is left. */
static bool place_output(loop_analysis *a, uint32_t index, int64_t trips, bool views) {
    const loop_carried *c = &a->carried[index];
    pass_multiview view;
    if (!c->output || !loop_is_static(c->output) || c->kind == LOOP_ORIGIN_COPY) return true;
    if (!table_of(a, index, &view)) return false;
    pass_location at = pass_memory_location(a->memory, c->output);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    /* What an inner loop exchanges for the sake of a loop further out is handed through. */
    const pass_multiview *handed =
        c->kind == LOOP_ORIGIN_OUTSIDE ? pass_memory_swapped(a->memory, c->origin.storage) : NULL;
    if (handed && handed->loop == a->loop) handed = NULL;
    if (c->target.index || handed) {
        pass_storage_id target = handed ? c->origin.storage : c->target;
        if (!views) pass_memory_join(a->memory, target, at.storage, 0);
        return true;
    }
    if (at.offset || storage->bytes != loop_bytes_of(c->output) || storage->graph != a->loop->graph)
        return true;
    int64_t shift;
    const bool traded = c->kind == LOOP_ORIGIN_BODY &&
                        a->members[loop_find_class(a, a->member_of[c->origin.storage.index], &shift)].traded;
    bool certain = trips >= 0 && c->kind == LOOP_ORIGIN_BODY && !traded && is_in_buffer(a, index, trips);
    /* One buffer: with no iteration the initial value is copied there, if it lies elsewhere, and nothing else is
     * there then. */
    bool one = view.repeat == 1 && c->kind == LOOP_ORIGIN_BODY && trips < 0 &&
               (view.prologue == 0 || !holds_initial(a, index));
    if (views) {
        if (trips >= 0) { /* it is a slice, or an initial value, or what another output is */
            view.entries[0] = parameter_at(a, index, (uint64_t)trips);
            view.prologue = 0;
            view.repeat = 1;
            view.stride = 0;
        }
        bool resolved = !one && !certain && view.stride == 0 &&
                        (trips >= 0 || view.prologue + view.repeat > 1 || c->kind != LOOP_ORIGIN_BODY) &&
                        is_plainly_read(a, c->output) && is_left_alone(a, &view, loop_bytes_of(c->output));
        return !resolved || put_storage(a, at.storage, &view);
    }
    if (!one && !certain) return true;
    pass_location last = parameter_at(a, index, one ? view.prologue : (uint64_t)trips);
    const pass_storage *target = pass_memory_storage(a->memory, last.storage);
    if (last.storage.index == at.storage.index || target->graph != a->loop->graph ||
        target->space != MEMORY_ARENA || !can_share(a, target, storage, certain))
        return true;
    if (storage->space == MEMORY_ARENA) {
        pass_memory_join(a->memory, last.storage, at.storage, last.offset);
    } else if ((storage->space == MEMORY_OUTPUT || pass_memory_swapped(a->memory, at.storage)) &&
               last.offset == 0 && target->bytes == storage->bytes) {
        pass_memory_join(a->memory, at.storage, last.storage,
                         0); /* the caller's buffer, or one that later loops exchange, is one of the loop's */
    }
    return true;
}

/* ---- slices -------------------------------------------------------------------------------------------- */

static bool place_slices(loop_analysis *a) {
    for (uint32_t i = 0; i < a->scan_inputs + a->scan_outputs; i++) {
        bool input = i < a->scan_inputs;
        uint32_t index = input ? i : i - a->scan_inputs;
        pass_multiview view = {.loop = a->loop, .repeat = 1};
        view.entries = BASE_ARRAY(a->memory->arena, pass_location, 1);
        if (!view.entries) return false;
        if (!(input ? loop_slice_of(a, index, &view.entries[0], &view.stride)
                    : loop_stack_of(a, index, &view.entries[0], &view.stride)))
            continue;
        const ir_value *slice = input ? a->body->parameters[2 + a->carried_count + index]
                                      : a->body->results[1 + a->carried_count + index]->value;
        if (!put_storage(a, pass_memory_location(a->memory, slice).storage, &view)) return false;
    }
    return true;
}

uint32_t pass_carried_count(const ir_node *loop) {
    return loop->input_count - 2 - (uint32_t)op_attribute_integer(&loop->attributes, "ouro.scan_inputs", 0);
}

bool pass_carried_is_static(const ir_node *loop, uint32_t index) {
    const ir_graph *body = loop->graphs[0];
    const ir_value *parameter = body->parameters[2 + index], *initial = ir_input(loop, 2 + index),
                   *replacement = body->results[1 + index]->value;
    return loop_is_static(parameter) && loop_is_static(initial) && loop_is_static(replacement) &&
           loop_bytes_of(parameter) != 0 && loop_bytes_of(parameter) == loop_bytes_of(initial) &&
           loop_bytes_of(parameter) == loop_bytes_of(replacement);
}

/* ---- one loop ------------------------------------------------------------------------------------------ */

static bool analyse_loop(loop_analysis *a) {
    if (!loop_find_periods(a)) return false;
    loop_find_trades(a);
    loop_find_exchanges(a);
    if (!make_buffers(a)) return false;
    take_over_initials(a);
    if (a->out_of_memory || !loop_choose_targets(a)) return false;
    int64_t trips = pass_known_trips(a->loop);
    /* First those that have one place: what is written there later decides whether views can stay. */
    for (uint32_t i = 0; i < 2 * a->carried_count; i++) {
        if (!place_output(a, i % a->carried_count, trips, i >= a->carried_count)) return false;
    }
    pass_multiview *views = BASE_ARRAY(a->arena, pass_multiview, a->carried_count);
    if (!views) return false;
    for (uint32_t i = 0; i < a->carried_count; i++) {
        if (a->carried[i].kind != LOOP_ORIGIN_COPY && !table_of(a, i, &views[i])) return false;
    }
    for (uint32_t i = 0; i < a->carried_count; i++) {
        pass_location at = pass_memory_location(a->memory, a->carried[i].parameter);
        if (a->carried[i].kind != LOOP_ORIGIN_COPY && !put_storage(a, at.storage, &views[i])) return false;
    }
    if (!place_members(a)) return false;
    return place_slices(a);
}

/* What outer loops have decided since can make a prologue say only what the cycle says. */
static void shorten_views(pass_memory *memory) {
    for (size_t v = 1; v < memory->multiview_count; v++) {
        pass_multiview *view = &memory->multiviews[v];
        while (
            view->prologue > 0 && view->stride == 0 &&
            loop_same_location(pass_memory_resolve(memory, view->entries[view->prologue - 1]),
                               pass_memory_resolve(memory, view->entries[view->prologue - 1 + view->repeat])))
            view->prologue--;
    }
}

base_status pass_analyse_loops(pass_context *context) {
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    const int64_t *numbers = context->memory->order.numbers;
    base_arena arena;
    context->memory->swapped = BASE_ARRAY(context->memory->arena, bool, context->memory->value_count);
    if (!graphs || !context->memory->swapped) return base_fail_memory(context->report);
    base_arena_init(&arena, context->scratch->allocator);
    bool fine = true;
    for (size_t g = graph_count; g-- > 0 && fine;) {
        ir_graph *body = graphs[g];
        if (!body->owner || body->owner->code != OP_LOOP) continue;
        loop_analysis a = {.context = context,
                           .module = context->module,
                           .memory = context->memory,
                           .arena = &arena,
                           .numbers = numbers,
                           .loop = body->owner,
                           .body = body};
        fine = analyse_loop(&a);
        base_arena_free(&arena);
    }
    base_arena_free(&arena);
    shorten_views(context->memory);
    return fine ? BASE_OK : base_fail_memory(context->report);
}
