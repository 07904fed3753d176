/* SPDX-License-Identifier: Apache-2.0 */
/* analyse_loops.c: loops move no data: carried values change their addresses instead.
 *
 *     loop { %y = Conv(%x, %w)   yield %c, %y }      x <= y
 *
 *     y lies in buffer 0, 1, 0, 1, ...; x in iteration t lies where y was made in iteration t - 1
 *
 * This is unrolling, as an analysis: instead of copies of the body there are instances of its storages. docs/LOOPS.md explains
 * it on examples. The parts, in the order in which they run for each loop:
 *
 *   periods.h        how many buffers each carried value needs
 *   buffer_swaps.h   which buffers swap their names when an inner loop is left, or a branch hands a value on
 *   lazy_copies.h    which copies in branches only hand an address on
 *   from_end.h       which tables are counted from the end, so that the last iteration writes where the caller wants it
 *   windows.h        which are sliding windows, that move through a longer buffer
 *   here             the buffers. They are storages of the graph around the loop: live while it runs, before it for initial
 *                    values that are made there, after it for outputs. An initial value that may be overwritten is made in the
 *                    buffer where instance -distance would be (type I); others are read where they lie (type II)
 *   outputs.h        where the outputs lie
 *   tables.h         the addresses of parameters, and of what replaces them
 *   branch_addresses.h  which branches only choose an address
 *   here             slices: what is scanned or stacked along the outermost axis lies at base + t * stride
 *
 * Needs: storages, the order, what is made in place. Breaks: nothing. Guarantees: every carried value of static size has its
 * addresses: its storage is in MEMORY_MULTIVIEW, or joined with its buffer where there is but one address. Loops go innermost
 * first, so that an inner loop's buffers are storages of the outer body.
 */
#include "passes/loops/branch_addresses.h"
#include "passes/loops/buffer_swaps.h"
#include "passes/loops/from_end.h"
#include "passes/loops/lazy_copies.h"
#include "passes/loops/outputs.h"
#include "passes/loops/periods.h"
#include "passes/loops/tables.h"
#include "passes/loops/windows.h"

/* ---- buffers ------------------------------------------------------------------------------------------- */

static bool make_buffers(loop_info *info) {
    for (uint32_t c = 0; c < info->member_count; c++) {
        loop_member *class = &info->members[c];
        if (class->class != c) continue;
        const size_t bytes = loop_class_bytes(info, c);
        uint32_t first = c; /* of its members: it is called by that one's value */
        for (uint32_t k = class->next; k != c; k = info->members[k].next)
            if (k < first) first = k;
        ir_value *value = info->memory->storages[info->members[first].storage].value;
        class->buffers = BASE_ARRAY(info->arena, pass_storage_id, class->period);
        if (!class->buffers) return false;
        if (class->step) {
            if (!loop_make_window(info, class, bytes, value)) return false;
            continue;
        }
        for (uint32_t i = 0; i < class->period; i++) {
            if (class->swapped_in) {
                class->buffers[i] =
                    loop_add_swapped(info, class->swapped_in, class->group, class->lazy, bytes, value);
                if (!class->buffers[i].index) return false;
                continue;
            }
            pass_storage buffer = {.space = MEMORY_ARENA,
                                   .graph = info->loop.node->graph,
                                   .value = value,
                                   .bytes = bytes,
                                   .last_made = -1,
                                   .carried_by = info->loop.node};
            class->buffers[i] = pass_memory_add(info->memory, &buffer);
            if (!class->buffers[i].index) return false;
        }
    }
    return true;
}

/* The storage with the bytes of a buffer that this loop swaps, as it is when the loop begins; storage zero for others. */
static pass_storage_id first_swapped(const loop_info *info, pass_storage_id id) {
    const pass_multiview *view = pass_memory_swapped(info->memory, id);
    return view && view->loop == info->loop.node ? view->entries[0].storage : (pass_storage_id){0};
}

static void take_over_initials(loop_info *info) {
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        loop_carried *c = &info->carried[i];
        pass_storage_id swapped =
            c->kind == LOOP_ORIGIN_OUTSIDE ? first_swapped(info, c->origin.storage) : (pass_storage_id){0};
        const loop_member *class = loop_class_of(info, c);
        if ((!class && !swapped.index) || (class && class->from_end) || !loop_may_take_over(info, c->initial))
            continue;
        const ir_node *maker = c->initial->node;
        const loop_info *earlier = maker ? info->loops[maker->id.index] : NULL;
        if (earlier && loop_leaves_anywhere(earlier, c->initial->index)) continue;
        if (swapped.index) {
            pass_memory_join(info->memory, swapped, pass_memory_location(info->memory, c->initial).storage,
                             0);
            continue;
        }
        uint32_t index = loop_member_of(info, c->origin.storage);
        /* Two parameters of one distance whose origins share bytes: only one initial value can be the instance
         * before the first. */
        bool taken = false;
        uint32_t k = loop_first_made(info, c->origin.storage);
        for (; k < i; k = info->carried[k].next_made) {
            const loop_carried *other = &info->carried[k];
            taken |= other->taken_over && other->distance == c->distance &&
                     other->origin.storage.index == c->origin.storage.index &&
                     other->origin.offset < c->origin.offset + loop_bytes_of(c->initial) &&
                     c->origin.offset < other->origin.offset + loop_bytes_of(other->initial);
        }
        pass_storage_id buffer = loop_buffer_of(info, index, -(int64_t)c->distance);
        for (k = 0; info->swaps && k < info->loop.carried;
             k++) { /* a parameter of the body around is there */
            const loop_carried *other = &info->carried[k];
            taken |=
                other->kind == LOOP_ORIGIN_BODY && other->swapped_in && other->begins &&
                loop_buffer_of(info, loop_member_of(info, other->origin.storage), -(int64_t)other->distance)
                        .index == buffer.index;
        }
        pass_location at = pass_memory_location(info->memory, c->initial);
        if (taken || at.storage.index == buffer.index ||
            c->origin.offset + loop_bytes_of(c->initial) > pass_memory_storage(info->memory, buffer)->bytes) {
            continue;
        }
        pass_storage_id first = first_swapped(info, buffer);
        pass_memory_join(info->memory, first.index ? first : buffer, at.storage, c->origin.offset);
        c->taken_over = true;
        loop_class_of(info, c)->holds_initial = true;
    }
}

static bool place_members(loop_info *info) {
    for (uint32_t k = 0; k < info->member_count; k++) {
        int64_t shift;
        uint32_t period = info->members[loop_find_class(info, k, &shift)].period;
        pass_multiview view = {.loop = info->loop.node,
                               .repeat = period,
                               .from_end = info->members[loop_find_class(info, k, &shift)].from_end};
        view.entries = BASE_ARRAY(info->memory->arena, pass_location, period);
        if (!view.entries) return false;
        for (uint32_t t = 0; t < period; t++)
            view.entries[t] = (pass_location){loop_buffer_of(info, k, t), 0};
        if (!loop_put_storage(info, (pass_storage_id){info->members[k].storage}, &view)) return false;
    }
    return true;
}

/* ---- slices -------------------------------------------------------------------------------------------- */

static bool place_slices(loop_info *info) {
    for (uint32_t i = 0; i < info->loop.scanned + info->loop.stacked; i++) {
        bool input = i < info->loop.scanned;
        uint32_t index = input ? i : i - info->loop.scanned;
        pass_multiview view = {.loop = info->loop.node, .repeat = 1};
        view.entries = BASE_ARRAY(info->memory->arena, pass_location, 1);
        if (!view.entries) return false;
        if (!(input ? loop_slice_of(info, index, &view.entries[0], &view.stride)
                    : loop_stack_of(info, index, &view.entries[0], &view.stride)))
            continue;
        const ir_value *slice =
            (input ? ir_loop_scan(&info->loop, index) : ir_loop_stack(&info->loop, index)).slice;
        if (!loop_put_storage(info, pass_memory_location(info->memory, slice).storage, &view)) return false;
    }
    return true;
}

/* ---- one loop ------------------------------------------------------------------------------------------ */

static bool analyse_loop(loop_info *info) {
    loop_find_branch_swaps(info);
    loop_find_lazy_copies(info);
    loop_find_output_swaps(info);
    loop_find_windows(info);
    loop_count_from_end(info);
    if (!make_buffers(info)) return false;
    take_over_initials(info);
    if (info->out_of_memory || !loop_choose_targets(info)) return false;
    int64_t trips = ir_loop_trips(&info->loop);
    for (uint32_t i = 0; i < info->loop.node->output_count; i++) {
        const ir_value *output = info->loop.node->outputs[i];
        if (!output) continue;
        const pass_location at = pass_memory_location(info->memory, output);
        pass_memory_storage(info->memory, at.storage)->left_by = info->loop.node;
    }
    /* First those that have one place: what is written there later decides whether views can stay. */
    for (uint32_t i = 0; i < 2 * info->loop.carried; i++) {
        if (!loop_place_output(info, i % info->loop.carried, trips, i >= info->loop.carried)) return false;
    }
    pass_multiview *views = BASE_ARRAY(info->arena, pass_multiview, info->loop.carried);
    if (!views) return false;
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        if (info->carried[i].kind != LOOP_ORIGIN_COPY && !loop_table_of(info, i, &views[i])) return false;
    }
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        pass_location at = pass_memory_location(info->memory, info->carried[i].parameter);
        if (info->carried[i].kind != LOOP_ORIGIN_COPY && !loop_put_storage(info, at.storage, &views[i]))
            return false;
    }
    if (!place_members(info)) return false;
    return place_slices(info);
}

/* What outer loops have decided since can make a prologue say only what the cycle says. */
static void shorten_views(pass_memory *memory) {
    for (size_t v = 1; v < memory->multiview_count; v++) {
        pass_multiview *view = &memory->multiviews[v];
        while (
            view->prologue > 0 && view->stride == 0 && !view->from_end &&
            loop_same_location(pass_memory_resolve(memory, view->entries[view->prologue - 1]),
                               pass_memory_resolve(memory, view->entries[view->prologue - 1 + view->repeat])))
            view->prologue--;
    }
}

/* The last step that makes something in each storage, as pass_memory_join keeps it from then on. */
static void find_last_made(pass_context *context) {
    const pass_memory *memory = context->memory;
    for (size_t v = 1; v < context->module->value_count; v++) {
        const ir_value *value = context->module->values[v];
        if (!value || !value->node || memory->executions[value->node->id.index] != PASS_RUN) continue;
        pass_storage *storage = pass_memory_storage(memory, pass_memory_location(memory, value).storage);
        if (!storage->graph || !ir_graph_encloses(storage->graph, value->graph)) continue;
        const int64_t step = pass_step_in(storage->graph, value->node, memory->order.numbers);
        if (step > storage->last_made) storage->last_made = step;
    }
}

static uint32_t depth_of(const ir_graph *graph) {
    uint32_t depth = 0;
    for (; graph->owner; graph = graph->owner->graph) depth++;
    return depth;
}

/* The loops whose bodies are these graphs, all of one depth: first the periods of each, then where each keeps its buffers. One
 * may begin with what another leaves. */
static bool analyse_depth(pass_context *context, base_arena *arena, ir_graph *const *graphs, size_t count,
                          loop_info **loops) {
    loop_info *infos = BASE_ARRAY(arena, loop_info, count);
    if (!infos) return false;
    for (size_t g = 0; g < count; g++) {
        const ir_node *loop = graphs[g]->owner;
        if (!loop || loop->code != OP_LOOP) continue;
        if (!loop_info_read(context, arena, loop, &infos[g]) || !loop_find_periods(&infos[g])) return false;
        infos[g].loops = loops;
        loops[loop->id.index] = &infos[g];
    }
    for (size_t g = count; g-- > 0;) {
        if (infos[g].loops && !analyse_loop(&infos[g])) return false;
    }
    for (size_t g = 0; g < count; g++) {
        if (infos[g].loops) loops[infos[g].loop.node->id.index] = NULL;
    }
    return true;
}

base_status pass_analyse_loops(pass_context *context) {
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    loop_info **loops = BASE_ARRAY(context->scratch, loop_info *, context->module->node_count);
    base_arena arena;
    context->memory->swapped = BASE_ARRAY(context->memory->arena, bool, context->memory->value_count);
    if (!graphs || !loops || !context->memory->swapped) return base_fail_memory(context->report);
    base_arena_init(&arena, context->scratch->allocator);
    find_last_made(context);
    bool fine = true;
    for (size_t end = graph_count, first; end > 0 && fine; end = first) {
        const uint32_t depth = depth_of(graphs[end - 1]);
        first = end - 1;
        while (first > 0 && depth_of(graphs[first - 1]) == depth) first--;
        fine = analyse_depth(context, &arena, graphs + first, end - first, loops);
        base_arena_free(&arena);
    }
    base_arena_free(&arena);
    shorten_views(context->memory);
    fine = fine && loop_choose_branch_addresses(context);
    return fine ? BASE_OK : base_fail_memory(context->report);
}
