/* SPDX-License-Identifier: Apache-2.0 */
/* limit_unrolling.c: no carried value waits for more iterations than --max-unroll allows.
 *
 *     loop(%a, %b, %c, %d) { %y = Conv(%a)  yield %k, %b, %c, %d, %y }       a delay of 4, with --max-unroll 3
 *  => loop(%a, %b, %c, %d) { %y = Conv(%a)  %u = ouro.Copy(%c)  yield %k, %b, %u, %d, %y }
 *
 * What a value's buffers cost is how many iterations it is kept: d iterations take d + 1 buffers in turn, and
 * views of that period. Parameters that replace each other form chains (and cycles, which never end). A chain
 * that is longer than the limit is cut by copies, as few as possible: after a copy the value is a new one.
 * With a limit of 1 everything that cannot be made in place is copied, at the end of the iteration, when the
 * parameter is read no more.
 *
 * Needs: types; kernels are chosen, so that no later pass takes the Copies away. Breaks: nothing. Guarantees: no chain of
 * carried parameters of static size is longer than the limit less one (for a limit of 1: than 1), and no cycle longer than the
 * limit.
 */
#include "ir/loop.h"
#include "passes/loops/loops.h"
#include <string.h>

enum { NONE = UINT32_MAX };

typedef struct chain {
    const ir_loop *loop;
    uint32_t count;
    uint32_t *next;     /* by parameter: the one that it holds in the next iteration, or NONE */
    uint32_t *distance; /* dependence distance: iterations that the value has been kept; 0: not known yet */
} chain;

static bool fail_memory(pass_context *context) {
    (void)base_fail_memory(context->report);
    return false;
}

/* The value whose bytes this is, within the graph. */
static const ir_value *origin_of(const ir_value *value, const ir_graph *graph) {
    while (value->graph == graph && value->node && op_schema_of(value->node->code)->view == OP_VIEW_SAME &&
           ir_input(value->node, 0))
        value = ir_input(value->node, 0);
    return value;
}

static bool replace_by_copy(pass_context *context, const ir_loop *loop, uint32_t index) {
    ir_graph *body = loop->body;
    ir_value *value = ir_loop_carry(loop, index).replacement;
    ir_value *copied = pass_copy(body, NULL, value, NULL, PASS_COPY_LIMIT);
    if (!copied) return fail_memory(context);
    ir_graph_set_result(body, loop->first_result + index, copied);
    return true;
}

/* Cuts the chain after parameter `index` wherever it gets too long. */
static bool cut_chain(pass_context *context, chain *c, uint32_t index, uint32_t longest) {
    /* Down to where the distance is known, or the value is made, then back up. */
    uint32_t *path = BASE_ARRAY(context->scratch, uint32_t, c->count), length = 0, known = 0;
    if (!path) return fail_memory(context);
    for (uint32_t at = index; at != NONE; at = c->next[at]) {
        if (c->distance[at]) {
            known = c->distance[at];
            break;
        }
        path[length++] = at;
        if (length == c->count) break;
    }
    while (length-- > 0) {
        uint32_t at = path[length];
        if (known >= longest && c->next[at] != NONE) {
            if (!replace_by_copy(context, c->loop, at)) return false;
            c->next[at] = NONE;
            known = 0;
        }
        c->distance[at] = ++known;
    }
    return true;
}

/* A cycle that is too long becomes a chain: the copy is made for its first parameter. */
static bool cut_cycle(pass_context *context, chain *c, uint32_t index, uint32_t longest) {
    uint32_t length = 1, at = c->next[index];
    for (; at != NONE && at != index && length <= c->count; at = c->next[at]) length++;
    if (at != index || length <= longest) return true;
    if (!replace_by_copy(context, c->loop, index)) return false;
    c->next[index] = NONE;
    return true;
}

/* The node that makes the replacement may be able to make it over the parameter. */
static bool may_be_in_place(const chain *c, uint32_t index) {
    const ir_value *made = origin_of(ir_loop_carry(c->loop, index).replacement, c->loop->body);
    if (!made->node || made->graph != c->loop->body) return true; /* from outside: nothing is kept in turn */
    if (made->node->code == OP_COPY) return true;                 /* the chain was cut here */
    unsigned allowed = op_schema_of(made->node->code)->in_place;
    for (uint32_t i = 0; i < made->node->input_count && i < 32; i++) {
        if ((allowed & OP_IN_PLACE(i)) && ir_input(made->node, i) == ir_loop_carry(c->loop, index).parameter)
            return true;
    }
    return false;
}

static bool limit_loop(pass_context *context, const ir_loop *loop, uint32_t limit) {
    chain c = {.loop = loop, .count = loop->carried};
    c.next = BASE_ARRAY(context->scratch, uint32_t, c.count);
    c.distance = BASE_ARRAY(context->scratch, uint32_t, c.count);
    if (!c.next || !c.distance) return fail_memory(context);
    for (uint32_t i = 0; i < c.count; i++) {
        const ir_value *from = origin_of(ir_loop_carry(loop, i).replacement, loop->body);
        c.next[i] = NONE;
        for (uint32_t k = 0; k < c.count; k++)
            if (from == ir_loop_carry(loop, k).parameter && ir_loop_is_static(loop, i)) c.next[i] = k;
    }
    for (uint32_t i = 0; i < c.count; i++)
        if (!cut_cycle(context, &c, i, limit)) return false;
    /* What remains of cycles is short enough, and would have no end. */
    for (uint32_t i = 0; i < c.count; i++) {
        uint32_t at = i, steps = 0;
        while (at != NONE && steps++ <= c.count) at = c.next[at];
        if (at == NONE && !c.distance[i] && !cut_chain(context, &c, i, limit > 1 ? limit - 1 : 1))
            return false;
    }
    for (uint32_t i = 0; i < c.count && limit == 1; i++) {
        if (c.next[i] == NONE && ir_loop_is_static(loop, i) && !may_be_in_place(&c, i) &&
            !replace_by_copy(context, c.loop, i))
            return false;
    }
    return true;
}

base_status pass_limit_unrolling(pass_context *context) {
    ir_module *module = context->module;
    uint32_t limit = pass_unroll_limit(context->options);
    for (size_t n = 1; n < module->node_count; n++) {
        const ir_node *node = module->nodes[n];
        ir_loop loop;
        if (!node || !ir_loop_read(node, &loop)) continue;
        if (!limit_loop(context, &loop, limit)) return BASE_SYSTEM_ERROR;
    }
    return BASE_OK;
}
