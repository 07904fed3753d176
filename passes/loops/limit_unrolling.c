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
    uint32_t *path;     /* scratch of cut_chain */
    uint32_t *walk;     /* scratch: by parameter, which walk has passed it first, from 1 */
    bool *endless;      /* by parameter: it leads into a cycle */
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

/* Which of the carried values has it as its parameter; NONE where none has. */
static uint32_t carried_index(const ir_loop *loop, const ir_value *value) {
    if (value->kind != IR_PARAMETER || value->graph != loop->body || value->index < loop->first_parameter ||
        value->index - loop->first_parameter >= loop->carried)
        return NONE;
    return value->index - loop->first_parameter;
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
    uint32_t *path = c->path, length = 0, known = 0;
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

/* Walks from `index` to the end, or to where a walk has been: that parameter. */
static uint32_t walk_from(chain *c, uint32_t index) {
    uint32_t at = index;
    for (; at != NONE && !c->walk[at]; at = c->next[at]) c->walk[at] = index + 1;
    return at;
}

/* Cycles that are too long become chains: the copy is made for the first parameter of each. In O(n). */
static bool cut_cycles(pass_context *context, chain *c, uint32_t longest) {
    memset(c->walk, 0, c->count * sizeof *c->walk);
    for (uint32_t i = 0; i < c->count; i++) {
        const uint32_t met = walk_from(c, i);
        if (met == NONE || c->walk[met] != i + 1) continue;
        uint32_t first = met, length = 1;
        for (uint32_t at = c->next[met]; at != met; at = c->next[at], length++)
            if (at < first) first = at;
        if (length <= longest) continue;
        if (!replace_by_copy(context, c->loop, first)) return false;
        c->next[first] = NONE;
    }
    return true;
}

/* Marks what leads into a cycle. In O(n). */
static void find_endless(chain *c) {
    memset(c->walk, 0, c->count * sizeof *c->walk);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->walk[i]) continue;
        const uint32_t met = walk_from(c, i);
        const bool endless = met != NONE && (c->walk[met] == i + 1 || c->endless[met]);
        for (uint32_t at = i; endless && at != NONE && c->walk[at] == i + 1 && !c->endless[at];
             at = c->next[at])
            c->endless[at] = true;
    }
}

/* The node that makes the replacement may be able to make it over the parameter. */
static bool may_be_in_place(const chain *c, uint32_t index) {
    const ir_value *made = origin_of(ir_loop_carry(c->loop, index).replacement, c->loop->body);
    if (!made->node || made->graph != c->loop->body) return true; /* from outside: nothing is kept in turn */
    if (made->node->code == OP_COPY) return true;                 /* the chain was cut here */
    for (uint32_t i = 0; i < made->node->input_count; i++) {
        if (op_may_write_over(op_schema_of(made->node->code), made->index, i) &&
            ir_input(made->node, i) == ir_loop_carry(c->loop, index).parameter)
            return true;
    }
    return false;
}

static bool limit_loop(pass_context *context, const ir_loop *loop, uint32_t limit) {
    chain c = {.loop = loop, .count = loop->carried};
    c.next = BASE_ARRAY(context->scratch, uint32_t, c.count);
    c.distance = BASE_ARRAY(context->scratch, uint32_t, c.count);
    c.path = BASE_ARRAY(context->scratch, uint32_t, c.count);
    c.walk = BASE_ARRAY(context->scratch, uint32_t, c.count);
    c.endless = BASE_ARRAY(context->scratch, bool, c.count);
    if (!c.next || !c.distance || !c.path || !c.walk || !c.endless) return fail_memory(context);
    for (uint32_t i = 0; i < c.count; i++) {
        const ir_value *from = origin_of(ir_loop_carry(loop, i).replacement, loop->body);
        c.next[i] = ir_loop_is_static(loop, i) ? carried_index(loop, from) : NONE;
    }
    if (!cut_cycles(context, &c, limit)) return false;
    /* What remains of cycles is short enough, and would have no end. */
    find_endless(&c);
    for (uint32_t i = 0; i < c.count; i++) {
        if (!c.endless[i] && !c.distance[i] && !cut_chain(context, &c, i, limit > 1 ? limit - 1 : 1))
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
