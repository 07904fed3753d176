/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h: what every pass stands on: what it is given, and walks over the graphs of a module. */
#ifndef OURO_PASS_H
#define OURO_PASS_H

#include "ir/ir.h"
#include "passes/base/storage.h"
#include "runtime/kernels/table.h"

/* ---- options of a compile ------------------------------------------------------------------------------ */

/* What becomes of RNN, GRU and LSTM where they can be loops (lower_recurrent.c). */
typedef enum pass_recurrent {
    PASS_RECURRENT_BEST = 0,
    PASS_RECURRENT_LOOPS,
    PASS_RECURRENT_KERNELS
} pass_recurrent;

#define PASS_ARENA_LEAST SIZE_MAX

typedef struct pass_options {
    const char *allocator; /* name of a planner; NULL: auto, or what stands for it */
    double seconds;        /* for searching planners */
    size_t arena_limit;    /* bytes; 0: 5/4 of the least; PASS_ARENA_LEAST: the least (choose_kernels.c) */
    /* With PASS_ARENA_LEAST: the least whose predicted time is at most so many times that without bands; 0: any. */
    double time_limit;
    const char
        *spill_path; /* of the file for what the arena has no place for (spill.c); NULL: there is none */
    size_t constant_limit; /* bytes of all constants; 0: 3/2 of what they take at least (choose_kernels.c) */
    /* Only kernels whose products and sums are those of the operators as they are written. */
    bool exact_arithmetic;
    bool whole_batch; /* the samples of an open batch run together (graph/split_batch.c) */
    /* Without a limit: bands where these take less time than none, and less memory. */
    bool free_bands;
    /* For tests: bands of so many rows, wherever there can be any (make_bands.c); 0: none. */
    int64_t band_rows;
    size_t band_nodes; /* with them: at most so many nodes in a region; 0: any number */
    int weight_bits;   /* 8 or 4: of constant weights of products (quantize_weights.c); 0: as they are */
    /* OP_FLOAT16, OP_BFLOAT16 or OP_INT16: of constant weights of products in float (halve_weights.c); OP_NONE: as they are. */
    op_dtype weight_type;
    /* For tests: weights that take so many bytes together come from memory in each run (compress_weights.c); 0: as in most machines. */
    size_t cached_weight_bytes;
    op_dtype state_type;        /* the first two, of states in float that grow (halve_states.c) */
    int max_unroll;             /* the largest unroll factor of a loop (limit_unrolling.c); 0: 16 */
    struct pass_tuning *tuning; /* measured times of kernels (memory/tuning.h); NULL: predictions */
    pass_recurrent recurrent;
    rt_environment environment; /* threads; portable_only */
    const char *dump_after;     /* name of a pass, "all", or NULL */
    FILE *dump_file;            /* where to; NULL: stderr */
    /* Told the name of each pass before it runs; NULL: nobody asks. */
    void (*progress)(void *user, const char *pass);
    void *progress_user;
} pass_options;

static inline uint32_t pass_unroll_limit(const pass_options *options) {
    return options->max_unroll > 0 ? (uint32_t)options->max_unroll : 16;
}

/* ---- the context of a pass ----------------------------------------------------------------------------- */

typedef struct pass_context pass_context;

/* Of an arena: the lower bound with the kernels that take least, and what the planner comes to. */
struct pass_measured {
    size_t bound, arena;
    /* Given by the caller: where the bound is at least that, the arena is not asked for, and `arena` is that bound. 0: it is always. */
    size_t enough;
    /* By node id, for so many: what faster kernels save, predicted, in seconds; given by the caller, zero. NULL: only the kernels that take
     * least are asked for. */
    double *saved, *before;
    size_t saved_count;
    /* Given by the caller: faster kernels are chosen, which then save so much. */
    bool kernels;
    double saved_seconds;
    /* Given by the caller: pass_context.kernel_arena. */
    size_t kernel_arena;
    /* By id of the nodes of the main graph, for so many: the bytes that are live in the node's step with the kernels that take least; given
     * by the caller, zero. NULL: that is not asked for. */
    size_t *live;
    size_t live_count;
    /* Given by the caller: with bands, within the limits of the options; and then what these take more, predicted, in seconds. */
    bool banded;
    double more_seconds;
    /* Given by the caller, for passes on spilling. `spilled`: all passes from recompute on, with pass_context.band_limit; more_seconds and
     * saved_seconds are then of everything. `look`: the passes after spill, without any limit; it sees what they make of the module. */
    bool spilled;
    size_t band_limit;
    void (*look)(void *user, const pass_memory *memory);
    void *user;
};

/* Everything that a pass sees. `scratch` is reset after each pass. */
struct pass_context {
    ir_module *module;
    const pass_options *options;
    base_arena *scratch;
    base_arena *memory_arena; /* of the memory plan */
    pass_memory *memory;      /* NULL before join-aliases */
    base_report *report;
    const pass_bands *bands;           /* what make-bands has done; NULL: nothing */
    const pass_recomputed *recomputed; /* what recompute has done */
    size_t recomputed_count;
    double spill_seconds; /* predicted, of what spill has done */
    /* The arena that recompute and make-bands are to reach; 0: as the options say. What is more is spilled. */
    size_t band_limit;
    size_t
        kernel_arena; /* from make-bands to choose-kernels: the arena that faster kernels may fill; 0: as the options say */
    bool
        trial; /* the module is a copy that is only measured: what weights are packed into need not be filled */
    bool least_kernels; /* and stays with the kernels that take least memory */
    size_t *live;       /* pass_measured.live */
    size_t live_count;
    /* What the passes after make-bands would come to on `module`, a copy of this one's, which they change. */
    base_status (*measure)(const pass_context *context, ir_module *module, struct pass_measured *measured);
};

typedef base_status pass_function(pass_context *context);

/* The limit of the arena for recompute and make-bands; 0: none. */
static inline size_t pass_band_limit(const pass_context *context) {
    return context->band_limit && context->options->arena_limit ? context->band_limit
                                                                : context->options->arena_limit;
}

/* ---- walks (walk.c) ------------------------------------------------------------------------------------ */

/* The step of `graph` in which `node` runs: its own number there, or that of the control node that holds it.
 */
int64_t pass_step_in(const ir_graph *graph, const ir_node *node, const int64_t *numbers);
/* The order in which the lists of the module have their nodes, in `arena`. False when memory runs out. */
bool pass_order_read(const ir_module *module, base_arena *arena, pass_order *order);
/* The graphs of a module, enclosing ones before enclosed ones. NULL when memory runs out. */
ir_graph **pass_graphs_outermost_first(const ir_module *module, base_arena *scratch, size_t *count);

/* a stands before b in their graph. Linear in their distance, looked for from both. */
bool pass_stands_before(const ir_node *a, const ir_node *b);

/* ---- patterns (pattern.c) -------------------------------------------------------------------------------- */

/* The node that alone reads what `node` makes, if it has this operator, one output, and stands in the same graph; else NULL. */
ir_node *pass_only_reader(const ir_node *node, op_code code);
/* The operand of a node of two that is not `known`. */
ir_value *pass_other_operand(const ir_node *node, const ir_value *known);
/* A node of this graph and of this operator makes the value (which may be NULL). */
bool pass_is_made_by(const ir_value *value, const ir_graph *graph, op_code code);
/* A constant of float or 16 bits, of at most `rank` dimensions: one number, which no result grows by. */
bool pass_read_number(const ir_value *value, int32_t rank, float *number);

/* A Resize looks at the same place of an axis that it leaves as long as it is. */
bool pass_resize_keeps_places(const ir_node *node);
/* A MatMul or Gemm in float with a constant matrix in float, row-major. */
bool pass_multiplies_constant(const ir_node *node);
/* A Gemm whose second matrix is turned: it lies as [columns, depth]. A MatMul's never is. */
bool pass_is_turned(const ir_node *product);
/* A Gather of rows of a constant matrix in float, row-major. */
bool pass_gathers_rows(const ir_node *node);
/* The rows of a constant matrix are, to the bit, the columns of another one, [depth, columns], or, where that is `turned`, [columns, depth]. Both may
 * be one constant. */
bool pass_has_columns_as_rows(const ir_value *table, const ir_value *matrix, bool turned);
/* Sets marks[axis] for each axis that a constant vector names. False: it is no constant of int64, names none, or one that a tensor of this rank
 * does not have. */
bool pass_read_axes(const ir_value *axes, int32_t rank, bool *marks);
/* The axes of its input in the order in which a Transpose puts them; false where they are not so many. */
bool pass_transpose_order(const ir_node *transpose, int32_t rank, int64_t *order);
/* The value is `x` with its channels in another order, all other axes the same: channel i is channel op_shuffled_channel(i, ...) of x (window.h). By a
 * Reshape, a Transpose of two axes and a Reshape, which nobody else reads, or by a Gather. */
bool pass_read_shuffle(const ir_value *shuffled, ir_value **x, int64_t *groups);
/* The nodes of that, or one Gather or Slice, go with the constants that they alone read; nobody may read the value any more. */
void pass_remove_shuffle(ir_value *shuffled);

/* ---- types (cast.c) -------------------------------------------------------------------------------------- */

/* A number as float16 or bfloat16, rounded; and back. */
uint16_t pass_narrow(op_dtype dtype, float number);
float pass_widen(op_dtype dtype, uint16_t stored);
/* A row-major constant of these numbers, in float, float16 or bfloat16. NULL when memory runs out. */
ir_value *pass_constant_of(ir_module *module, const char *name, op_dtype dtype, const op_shape *shape,
                           const float *numbers);
/* The value as another type, by a Cast before this node (NULL: at the end of the graph). NULL when memory runs out. */
ir_value *pass_cast(ir_graph *graph, ir_node *before, const char *path, ir_value *value, op_dtype dtype);

/* ---- copies (copy.c) ------------------------------------------------------------------------------------ */

/* Why a pass puts a Copy in: ir_node.reason says it in words. */
typedef enum pass_copy_reason {
    PASS_COPY_RESULT, /* a result that has to have bytes of its own (prepare_results.c) */
    PASS_COPY_PART,   /* a part of a Concat that cannot be made where the Concat lies (join_aliases.c) */
    PASS_COPY_LIMIT,  /* a carried value that would be kept too long (limit_unrolling.c) */
    PASS_COPY_ROWS    /* rows of a band that the next one reads again, so that the others go (bands/emit.c) */
} pass_copy_reason;

/* A Copy of the value, with its kernel, before `before` or (NULL) at the end of the graph; `origin`, which may be NULL, is
 * the node of the model for whose sake it is there. NULL when memory runs out. */
ir_value *pass_copy(ir_graph *graph, ir_node *before, ir_value *value, const ir_node *origin,
                    pass_copy_reason reason);

/* ---- in place (in_place.c) ----------------------------------------------------------------------------- */

/* The operator of this node may write this output over this input, as far as operator and types say; when the input dies, and
 * who else shares its bytes, is another question. */
bool pass_may_write_over(const ir_node *node, uint32_t output, uint32_t input);

#endif
