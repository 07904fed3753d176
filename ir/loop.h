/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h: a Loop node taken apart: what it carries, scans and stacks, and how often it runs.
 *
 *     ir_loop loop = ir_loop_of(node);
 *     for (uint32_t i = 0; i < loop.carried; i++) {
 *         ir_loop_carried c = ir_loop_carry(&loop, i);          c.parameter <= c.replacement
 *     }
 *
 * ir.h describes the node. What a body captures is found by ir_node_captures. Everything here only looks, in a module that may
 * be used by other threads at the same time as long as nobody changes it.
 */
#ifndef OURO_IR_LOOP_H
#define OURO_IR_LOOP_H

#include "ir/ir.h"

typedef struct ir_loop {
    const ir_node *node;
    ir_graph *body;
    uint32_t carried, scanned, stacked;     /* how many */
    uint32_t first_parameter, first_result; /* of the body: where the carried ones begin */
    bool runs;                              /* it is the loop around the model */
} ir_loop;

/* A carried value: `parameter` holds `initial` in the first iteration, and then what `replacement` held in the one before.
 * `output` is what is left at the end; NULL where nobody wants it. */
typedef struct ir_loop_carried {
    ir_value *parameter, *initial, *replacement, *output;
} ir_loop_carried;

/* A tensor that is scanned or stacked: iteration t takes or gives one slice of `whole`, at index t of this axis; at index t
 * from the end where it goes backwards. */
typedef struct ir_loop_slices {
    ir_value *whole; /* NULL: a stack that nobody wants */
    ir_value *slice; /* the body's parameter, or its result */
    int32_t axis;    /* from 0; -1 where the number of axes is not known, or has no such axis */
    /* The bytes of a slice lie together, the next slice's after them: every extent before the axis is 1. */
    bool together;
    bool backwards;
} ir_loop_slices;

/* A carried value that is only appended to: x <= Concat(x, ...), where no other part is x. */
typedef struct ir_loop_growth {
    ir_node *concat;
    int32_t axis;
    bool after; /* what is appended lies after what is there: every extent before the axis is 1 */
} ir_loop_growth;

/* ---- the loop around the model (ir/states.c) ------------------------------------------------------------
 *
 * A model that is run again and again, where some outputs become inputs of the next run, is the body of a loop that is not in
 * the model: a run is an iteration, and such a pair is a carried value. It is called a state. The module then has a Loop node
 * of which the main graph is the body, in a graph of its own around it. This loop has neither trip count nor condition, and the
 * main graph neither of the two parameters for them: its first parameters and results are the states, the others are the
 * inputs and outputs of each run, as ever. */

typedef struct ir_state_pair {
    uint32_t parameter, result; /* of main, by index */
} ir_state_pair;

/* Puts the loop around the main graph: each of these results becomes what its parameter is in the next run. Parameters and
 * results are sorted anew, those of the states first. The pairs have no parameter and no result twice. False when memory runs
 * out. */
bool ir_module_carry(ir_module *module, const ir_state_pair *pairs, uint32_t count);
/* How many states the module has: parameter i and result i of main are state i. */
uint32_t ir_module_states(const ir_module *module);
/* The graph is the body of the loop around the model. */
bool ir_graph_is_run(const ir_graph *graph);

/* ---- Loop nodes ------------------------------------------------------------------------------------------ */

/* Takes a node apart. False where it is no Loop, or its numbers of inputs, outputs, parameters and results do not fit. */
bool ir_loop_read(const ir_node *node, ir_loop *loop);
/* The same for a Loop of a module that ir_verify accepts. */
ir_loop ir_loop_of(const ir_node *node);
/* The loop whose body the graph is. False where it is not the body of one. */
bool ir_loop_around(const ir_graph *body, ir_loop *loop);

ir_loop_carried ir_loop_carry(const ir_loop *loop, uint32_t index);
ir_loop_slices ir_loop_scan(const ir_loop *loop, uint32_t index);
ir_loop_slices ir_loop_stack(const ir_loop *loop, uint32_t index);

/* What the model declares of the slices of stack `index`, for a loop that has no iteration; of unknown rank where it declares
 * nothing. */
op_shape ir_loop_declared(const ir_loop *loop, uint32_t index);
/* Declares the slices of all `count` stacks of a Loop node. Where all are of unknown rank, nothing is declared. False when memory
 * runs out. */
bool ir_loop_declare(ir_module *module, ir_node *node, uint32_t count, const op_shape *shapes);

/* Carried value `index` has one size, known now, before, in and after the loop, and it is not 0: it can be given addresses that
 * change, so that nothing is copied. Others are handed on by the executor, copied, or grow. */
bool ir_loop_is_static(const ir_loop *loop, uint32_t index);
/* Carried value `index` is only appended to. *growth may be NULL. */
bool ir_loop_grows(const ir_loop *loop, uint32_t index, ir_loop_growth *growth);
/* The extent of such a value, along the axis of its growth, after so many iterations; OP_DIM_UNKNOWN where that is not known. */
int64_t ir_loop_grown_extent(const ir_loop *loop, uint32_t index, const ir_loop_growth *growth,
                             int64_t trips);

/* Nothing but the trip count, or the end of what is scanned, ends the loop. */
bool ir_loop_is_counted(const ir_loop *loop);
/* How often the loop runs, if that is certain before it begins: by a constant trip count, by extents of what is scanned, or by
 * both, and no condition ends it before. -1 where it is not. */
int64_t ir_loop_trips(const ir_loop *loop);
/* How often it runs as a dimension, which may have a name: what a stack's extent is. OP_DIM_UNKNOWN where a condition may end it.
 * A loop that breaks its promise to run as often as its first scanned tensor has slices fails when it runs. */
int64_t ir_loop_extent(const ir_loop *loop);
/* The most that a constant trip count allows, whatever the condition says; -1 where there is none. */
int64_t ir_loop_most_trips(const ir_loop *loop);

#endif
