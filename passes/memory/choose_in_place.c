/* SPDX-License-Identifier: Apache-2.0 */
/* choose_in_place.c: operators write over an input that dies.
 *
 *     %y = Relu(%x)      nobody reads %x later: %y becomes the bytes of %x
 *     %y = Conv(%x, %w, _, %r)      the residual %r is added to in place
 *
 * Allowed for input i and output 0, or a state and what it becomes, where the operator's row says so (for a Loop: carried value and output of
 * the same number), both have the same shape, layout and element size, the input is no parameter of main, constant or value of another graph,
 * and all values that share bytes with it are dead once the node has run. In a loop's body no result may come to lie in the place of a carried
 * parameter, but for its own replacement: the results are handed on one after another, and the parameter's place is written when it is its turn.
 * Nor is it made over a part of something larger, from which it would be copied. A value that the same node also reads in a way that is not
 * element by element (the input of a convolution as its residual) stays.
 *
 * Walks each graph in the order of the schedule and takes the first input that qualifies (a value that dies
 * here only), the residual before others because it saves a copy as well.
 *
 * Needs: storages, the order. Breaks: nothing. Guarantees: what shares a storage is never wanted at the same step, but for
 * exact aliases.
 */
#include "ir/loop.h"
#include "passes/memory/memory.h"
#include <string.h>

typedef struct chooser {
    const ir_module *module;
    pass_memory *memory;
    const int64_t *numbers;
    /* As pass_storage.values and pass_memory.siblings, without the values that are dead for good. */
    ir_value_id *heads, *next;
    int64_t *last_reads; /* by value id: last_read, plus 2; 0: not known yet */
    int64_t *loop_left;  /* by node id, and by storage: see find_left */
    int64_t *left;
} chooser;

/* The last step of value's own graph in which it is read; the node count where it is a result; -1: never. */
static int64_t last_read(const chooser *c, const ir_value *value) {
    int64_t *known = &c->last_reads[value->id.index], last = -1;
    if (*known) return *known - 2;
    for (const ir_use *use = value->uses; use; use = use->next) {
        int64_t step = use->node ? pass_step_in(value->graph, use->node, c->numbers)
                       : use->graph == value->graph
                           ? (int64_t)value->graph->node_count
                           : pass_step_in(value->graph, use->graph->owner, c->numbers);
        if (step > last) last = step;
    }
    *known = last + 2;
    return last;
}

/* A parameter of a loop's body that goes on to the next iteration. */
static bool is_carried(const ir_value *value) {
    return value->kind == IR_PARAMETER && value->graph->owner && value->graph->owner->code == OP_LOOP;
}

/* The node that makes `made` reads the value only where it may make this over it, and no sub-graph of it does. */
static bool reads_in_place(const chooser *c, const ir_value *value, const ir_value *made, bool exact) {
    const ir_node *node = made->node;
    int64_t now = c->numbers[node->id.index];
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (use->node == node) {
            if (!exact || !op_may_write_over(op_schema_of(node->code), made->index, use->index)) return false;
        } else if (use->node && pass_step_in(value->graph, use->node, c->numbers) == now) {
            return false;
        } else if (!use->node && use->graph != node->graph) {
            return false;
        }
    }
    return true;
}

/* No value shares bytes with `input` that is still wanted after the node that makes `made`, but for input itself as this very
 * input. */
static bool dies_here(const chooser *c, const ir_value *input, const ir_value *made) {
    const ir_node *node = made->node;
    pass_location at = pass_memory_location(c->memory, input);
    int64_t now = c->numbers[node->id.index];
    size_t bytes, other_bytes;
    if (!op_type_bytes(&input->type, &bytes)) return false;
    for (ir_value_id *link = &c->heads[at.storage.index]; link->index;) {
        const ir_value *other = c->module->values[link->index];
        ir_value_id *next = &c->next[link->index];
        if (!other) {
            *link = *next;
            continue;
        }
        if (other->graph != node->graph) {
            /* Sub-graphs work on what their node hands out; enclosing graphs have plans of their own. */
            if (!ir_graph_encloses(node->graph, other->graph)) return false;
            link = next;
            continue;
        }
        int64_t last = last_read(c, other);
        if (is_carried(other)) {
            return false; /* decided by analyse-loops, over all iterations */
        } else if (last < now && (!other->node || c->numbers[other->node->id.index] < now)) {
            *link = *next; /* dead for good: whoever asks later need not look at it again */
            continue;
        }
        pass_location place = pass_memory_location(c->memory, other);
        bool overlaps = op_type_bytes(&other->type, &other_bytes) && place.offset < at.offset + bytes &&
                        at.offset < place.offset + other_bytes;
        bool exact = place.offset == at.offset && other_bytes == bytes;
        if (overlaps && (last > now || (other->node && c->numbers[other->node->id.index] >= now) ||
                         !reads_in_place(c, other, made, exact))) {
            return false;
        }
        link = next;
    }
    return true;
}

/* What a loop leaves is not written over, unless the number of iterations is known and the last one makes it in the body. So it
 * can be read wherever it is when the loop ends: analyse-loops copies it to one place where somebody writes over it. */
static bool is_left_by_loop(const ir_value *value) {
    ir_loop loop;
    if (!value->node || !ir_loop_read(value->node, &loop)) return false;
    if (value->index >= loop.carried || !ir_loop_is_static(&loop, value->index)) return false;
    const ir_value *replacement = ir_loop_carry(&loop, value->index).replacement;
    if (ir_loop_trips(&loop) <= 0 || replacement->graph != loop.body || !replacement->node) return true;
    /* An inner loop made it, and left it in one of several buffers. */
    if (replacement->node->code == OP_LOOP && is_left_by_loop(replacement)) return true;
    /* A branch that hands its state on may do so by a buffer swap. */
    for (uint32_t g = 0; g < replacement->node->graph_count && replacement->node->code == OP_IF; g++) {
        const ir_value *result = replacement->node->graphs[g]->results[replacement->index]->value;
        if (result->node && result->node->code == OP_COPY) return true;
    }
    uint32_t results = 0; /* what is stacked as well is a slice of the stack */
    for (const ir_use *use = replacement->uses; use; use = use->next) results += !use->node;
    return results > 1;
}

/* Branches hand on what is from outside of the graph: the If can choose between the addresses (loops/branch_addresses.h). */
static bool is_chosen_by_branch(const ir_value *value) {
    const ir_node *branch = value->node;
    if (!branch || branch->code != OP_IF) return false;
    for (uint32_t g = 0; g < branch->graph_count; g++) {
        const ir_node *copy = branch->graphs[g]->results[value->index]->value->node;
        const ir_value *from =
            copy && copy->graph == branch->graphs[g] && copy->code == OP_COPY ? ir_input(copy, 0) : NULL;
        if (!from || (from->graph && ir_graph_encloses(branch->graph, from->graph))) return false;
    }
    return true;
}

/* ---- what loops may leave as it was ---------------------------------------------------------------------- */

/* A loop that may end after any iteration, before the first one, too: what it leaves may be the very bytes that it began
 * with. */
static bool may_end_early(const ir_node *node) {
    ir_loop loop;
    return ir_loop_read(node, &loop) && ir_loop_trips(&loop) < 0;
}

/* By loop of this graph, the last step in which what it leaves is read, or what later loops of the graph that begin with that
 * leave. By storage, the last such step of all loops that begin with something in it. */
static void find_left(const chooser *c, const ir_graph *graph) {
    ir_node *const *nodes = c->memory->order.nodes[graph->id.index];
    for (uint32_t step = graph->node_count; step-- > 0;) {
        const ir_node *loop = nodes[step];
        if (!may_end_early(loop)) continue;
        int64_t last = -1;
        for (uint32_t i = 0; i < loop->output_count; i++) {
            if (!loop->outputs[i]) continue;
            int64_t read = last_read(c, loop->outputs[i]);
            if (read > last) last = read;
            for (const ir_use *use = loop->outputs[i]->uses; use; use = use->next) {
                if (use->node && use->node->graph == graph && use->index >= 2 && may_end_early(use->node) &&
                    c->loop_left[use->node->id.index] > last)
                    last = c->loop_left[use->node->id.index];
            }
        }
        c->loop_left[loop->id.index] = last;
        for (uint32_t i = 2; i < loop->input_count; i++) {
            if (!ir_input(loop, i)) continue;
            int64_t *left = &c->left[pass_memory_location(c->memory, ir_input(loop, i)).storage.index];
            if (last > *left) *left = last;
        }
    }
}

/* The storages of this graph's loops say nothing about other graphs. */
static void forget_left(const chooser *c, const ir_graph *graph) {
    for (ir_node **at = c->memory->order.nodes[graph->id.index]; *at; at++) {
        for (uint32_t i = 2; i < (*at)->input_count && may_end_early(*at); i++) {
            if (ir_input(*at, i))
                c->left[pass_memory_location(c->memory, ir_input(*at, i)).storage.index] = -1;
        }
    }
}

/* ---- one output ------------------------------------------------------------------------------------------ */

/* What a body or a branch hands on should be made where it is wanted: not as a part of something larger, from which it would be
 * copied. */
static bool leaves_graph(const ir_value *value) {
    for (const ir_use *use = value->uses; use && value->graph->owner; use = use->next) {
        if (!use->node) return true;
    }
    return false;
}

static bool may_overwrite(const chooser *c, const ir_value *input, const ir_value *output) {
    const ir_node *node = output->node;
    if (!input || input->graph != node->graph || input->kind == IR_CONSTANT) return false;
    if (input->type.dtype == OP_NONE || input->type.kind != OP_KIND_TENSOR || is_left_by_loop(input) ||
        is_chosen_by_branch(input))
        return false;
    pass_location from = pass_memory_location(c->memory, input), to = pass_memory_location(c->memory, output);
    const pass_storage *place = pass_memory_storage(c->memory, from.storage);
    const pass_storage *target = pass_memory_storage(c->memory, to.storage);
    if (place->space != MEMORY_ARENA && place->space != MEMORY_OUTPUT) return false;
    if (from.storage.index == to.storage.index) return false;
    size_t bytes;
    if (!op_type_bytes(&output->type, &bytes)) return false;
    if (leaves_graph(output) && place->bytes > bytes) return false;
    /* One of the two must be free to move into the other. */
    bool output_free =
        target->space == MEMORY_ARENA && target->graph == node->graph && target->bytes == bytes;
    bool input_free = place->space == MEMORY_ARENA && place->graph == node->graph && place->bytes == bytes &&
                      (target->bytes == bytes || target->space == MEMORY_OUTPUT);
    if (!output_free && !input_free) return false;
    return dies_here(c, input, output) && c->left[from.storage.index] < c->numbers[node->id.index];
}

/* Joins storages here and in the lists of this pass. */
static void join(const chooser *c, pass_storage_id whole, pass_storage_id part, size_t offset) {
    pass_memory_join(c->memory, whole, part, offset);
    if (c->left[part.index] > c->left[whole.index]) c->left[whole.index] = c->left[part.index];
    ir_value_id last = c->heads[part.index];
    if (!last.index) return;
    while (c->next[last.index].index) last = c->next[last.index];
    c->next[last.index] = c->heads[whole.index];
    c->heads[whole.index] = c->heads[part.index];
    c->heads[part.index].index = 0;
}

static void overwrite(const chooser *c, const ir_value *input, const ir_value *output) {
    pass_location from = pass_memory_location(c->memory, input), to = pass_memory_location(c->memory, output);
    const pass_storage *target = pass_memory_storage(c->memory, to.storage);
    size_t bytes = 0;
    (void)op_type_bytes(&output->type, &bytes);
    bool output_free =
        target->space == MEMORY_ARENA && target->graph == output->graph && target->bytes == bytes;
    if (output_free) join(c, from.storage, to.storage, from.offset);
    else join(c, to.storage, from.storage, to.offset);
}

/* The node may write the output over the very parameter that it replaces. That is decided over all iterations, by
 * analyse-loops, and not here: the loop is better served by it than by writing over any other input. */
static bool is_left_to_loop(const ir_value *output) {
    const ir_node *node = output->node;
    for (const ir_use *use = output->uses; use; use = use->next) {
        for (uint32_t i = 0; !use->node && use->graph == node->graph && i < node->input_count; i++) {
            const ir_value *input = ir_input(node, i);
            if (pass_may_write_over(node, output->index, i) && is_carried(input) &&
                input->graph == node->graph && input->index == use->index + 1)
                return true;
        }
    }
    return false;
}

static void choose(const chooser *c, const ir_value *output) {
    const ir_node *node = output->node;
    if (is_left_to_loop(output)) return;
    for (uint32_t i = node->input_count; i-- > 0;) {
        if (!pass_may_write_over(node, output->index, i) || !may_overwrite(c, ir_input(node, i), output))
            continue;
        overwrite(c, ir_input(node, i), output);
        return;
    }
}

base_status pass_choose_in_place(pass_context *context) {
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    if (!graphs) return base_fail_memory(context->report);
    pass_memory *memory = context->memory;
    chooser c = {.module = context->module, .memory = memory, .numbers = memory->order.numbers};
    c.heads = BASE_ARRAY(context->scratch, ir_value_id, memory->storage_count);
    c.next = BASE_ARRAY(context->scratch, ir_value_id, memory->value_count);
    c.last_reads = BASE_ARRAY(context->scratch, int64_t, memory->value_count);
    c.loop_left = BASE_ARRAY(context->scratch, int64_t, memory->node_count);
    c.left = BASE_ARRAY(context->scratch, int64_t, memory->storage_count);
    if (!c.heads || !c.next || !c.last_reads || !c.loop_left || !c.left)
        return base_fail_memory(context->report);
    for (size_t i = 1; i < memory->storage_count; i++) {
        c.heads[i] = memory->storages[i].values;
        c.left[i] = -1;
    }
    memcpy(c.next, memory->siblings, memory->value_count * sizeof *c.next);
    for (size_t g = 0; g < graph_count; g++) {
        find_left(&c, graphs[g]);
        for (ir_node **at = memory->order.nodes[graphs[g]->id.index]; *at; at++) {
            const bool runs = memory->executions[(*at)->id.index] == PASS_RUN;
            for (uint32_t i = 0; runs && i < (*at)->output_count; i++)
                if ((*at)->outputs[i]) choose(&c, (*at)->outputs[i]);
        }
        forget_left(&c, graphs[g]);
    }
    return BASE_OK;
}
