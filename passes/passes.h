/* SPDX-License-Identifier: Apache-2.0 */
/* passes.h: the pipeline, which runs all passes of the folders below in the order of its table.
 *
 * A pass is a function that changes the module, or the memory plan, or both. Its row in the table of pipeline.c is its
 * contract: which facts must hold when it begins (needs), which no longer hold when it has ended (breaks), and which hold
 * from then on (makes). pass_pipeline_check looks that every need is met by an earlier row and that at the end all facts
 * hold. The runner runs the rows and frees what a pass took for itself; debug builds verify the module after each pass, and
 * the memory plan once there is one (passes/memory/verify.c).
 *
 *   infer-shapes         graph/infer_shapes.c          types of all values
 *   fuse-quantized       graph/fuse_quantized.c        operators between DequantizeLinear and QuantizeLinear become integer ones
 *   fold-constants       graph/fold_constants.c        what follows from constants is a constant
 *   infer-folded         graph/infer_shapes.c          shapes that follow from these
 *   fold-inferred        graph/fold_constants.c        what follows from these shapes
 *   check-states         loops/check_states.c          what is kept from run to run has one type
 *   split-batch          graph/split_batch.c           a model of which only the batch is open becomes that of one sample
 *   stack-sequences      loops/stack_sequences.c       what a loop appends to a sequence is stacked
 *   stack-old-states     loops/stack_old_states.c      where a loop stacks the old state, the next one is made in the next slot
 *   drop-unread          graph/drop_unread.c           what loops and branches carry and hand out for nobody goes
 *   slice-iterations     loops/slice_iterations.c      what an iteration takes by its number is scanned
 *   scan-gathers         loops/scan_gathers.c          what a loop gathers in order is scanned
 *   lower-einsum         graph/lower_einsum.c          Einsum becomes products
 *   lower-recurrent      graph/lower_recurrent.c       RNN, GRU, LSTM become loops, where that is better
 *   infer-lowered        graph/infer_shapes.c          types of what lowering put in
 *   fold-lowered         graph/fold_constants.c        constants of what lowering put in
 *   eliminate-dead-code  graph/eliminate_dead_code.c   what nobody reads goes
 *   check-constants      graph/check_constants.c       what would certainly fail when it runs is refused
 *   recognise-gelu       graph/recognise_gelu.c        Gelu in its parts becomes the operator
 *   sink-transposes      graph/sink_transposes.c       Transposes go past operators to their inverses
 *   turn-pools           graph/turn_pools.c            MaxPools between a Transpose and its inverse read images as they lie
 *   hoist-invariants     graph/hoist_invariants.c      what is the same in all iterations moves out of the loop
 *   carry-parts          loops/carry_parts.c           what is taken apart and put together is carried in parts
 *   carry-growth         loops/carry_growth.c          what a loop appends is carried with that axis first
 *   halve-states         loops/halve_states.c          states that grow in half precision, if that is asked for
 *   flatten-windows      loops/flatten_windows.c       a window along an inner axis slides along all of its elements
 *   sink-scans           loops/sink_scans.c            what is made only to be scanned is made in the loop, a slice at a time
 *   quantize-weights     graph/quantize_weights.c      constant weights of products in few bits, if that is asked for
 *   fuse                 graph/fuse.c                  operators become parts of the heavy one before or after them
 *   order-channels       graph/order_channels.c        weights give or take channels in another order
 *   scale-channels       graph/scale_channels.c        BatchNormalization that nothing has taken in becomes a product and a sum
 *   unfold-phases        graph/unfold_phases.c         a convolution of the phases of an image becomes one of the image
 *   join-convolutions    graph/join_convolutions.c    convolutions of one value with few filters become one
 *   halve-weights        layout/halve_weights.c        constant weights of products in half precision, if that is asked for or loses nothing
 *   halve-tables         layout/halve_tables.c         tables that lose nothing in 16 bits take 16 bits
 *   block-float-weights  layout/block_float_weights.c  constant weights of products of a few rows as block floating point
 *   compress-weights     layout/compress_weights.c     constant weights that come from memory in each run in fewer bits, without loss
 *   share-tables         layout/share_tables.c         tables that products read turned round are packed as these pack them
 *   select-layouts       layout/select_layouts.c       layouts of all values
 *   carry-layouts        layout/carry_layouts.c        loops carry blocked layouts
 *   eliminate-unused     graph/eliminate_dead_code.c   what fusion and layouts left over goes
 *   fuse-shuffles        layout/fuse_shuffles.c        convolutions of each channel read shuffled channels where they lie
 *   weigh-spills         memory/weigh_spills.c         how much bands are to save, and how much is spilled, where both may be
 *   recompute            memory/recompute.c            cheap values are computed again where the arena may not keep them
 *   make-bands           bands/make_bands.c            regions of spatial operators become loops over bands of rows
 *   fuse-attention       layout/fuse_attention.c       attention as exporters write it becomes one node
 *   fuse-normalization   layout/fuse_normalization.c   what LayerNormalization is made of becomes one node
 *   sum-bytes            layout/sum_bytes.c            means of dequantised bytes become sums of the bytes
 *   fuse-reductions      layout/fuse_reductions.c      sums and means of absolutes and squares take these themselves
 *   fuse-elementwise     layout/fuse_elementwise.c     trees of elementwise operators become one node
 *   select-kernels       layout/select_kernels.c       kernels, and their scratch
 *   spill                memory/spill.c                what the arena has no place for is put into a file, and read back
 *   limit-unrolling      loops/limit_unrolling.c       Copies where a carried value would be kept too long
 *   prepare-results      memory/prepare_results.c      Copies where a result has no bytes of its own
 *   join-aliases         memory/join_aliases.c         the memory plan: storages; Copies of parts of a Concat
 *   reserve-growth       loops/reserve_growth.c        capacities of what grows in loops
 *   reserve-bounds       memory/reserve_bounds.c       capacities of what depends on bounded dimensions
 *   schedule             memory/schedule.c             the order of nodes
 *   choose-in-place      memory/choose_in_place.c      what is made over what dies
 *   analyse-loops        loops/analyse_loops.c         addresses in each iteration: multi-views
 *   analyse-liveness     memory/analyse_liveness.c     live ranges
 *   choose-kernels       memory/choose_kernels.c       faster kernels, where the memory that they want is there
 *   allocate             memory/allocate.c             offsets
 */
#ifndef OURO_PASSES_H
#define OURO_PASSES_H

#include "passes/base/pass.h"

/* What can be true of a module and its memory plan: name, what it means. */
#define PASS_FACTS(FACT)                                                                                     \
    FACT(TYPES, "types of all values")                                                                       \
    FACT(QUANTIZED, "what is quantised before and after is done on integers")                                \
    FACT(CONSTANTS, "what follows from constants is a constant")                                             \
    FACT(SHAPES, "shapes that follow from constants are known")                                              \
    FACT(FOLDED, "what follows from shapes is a constant")                                                   \
    FACT(STATES, "states have one type")                                                                     \
    FACT(BATCH, "samples of an open batch run one after another, where that takes no longer")                \
    FACT(SEQUENCES, "what loops append to sequences is stacked")                                             \
    FACT(OLD_STATES, "old states that are stacked are those that a loop makes, one place on")                \
    FACT(READ, "what loops and branches hand out is read")                                                   \
    FACT(SLICES, "what iterations take by their number is scanned")                                          \
    FACT(GATHERS, "what loops gather in order is scanned")                                                   \
    FACT(EINSUMS, "Einsums are products")                                                                    \
    FACT(RECURRENCES, "recurrences are loops, or have kernels")                                              \
    FACT(LOWERED, "what lowering put in is folded")                                                          \
    FACT(LIVE, "somebody reads every node")                                                                  \
    FACT(CHECKED, "operators take the constants that they are given")                                        \
    FACT(HOISTED, "loops compute no invariants")                                                             \
    FACT(PARTS, "what bodies take apart and put together is carried in parts")                               \
    FACT(GROWTH, "what loops append is carried with that axis first")                                        \
    FACT(HALF_STATES, "states are in half precision where that was asked for")                               \
    FACT(WINDOWS, "windows slide along one axis")                                                            \
    FACT(SUNK, "what is only scanned is made in the loop, where that takes less memory")                     \
    FACT(WEIGHTS, "weights have the bits that were asked for")                                               \
    FACT(GELUS, "Gelu is one node")                                                                          \
    FACT(TRANSPOSES, "Transposes stand where they meet their inverses")                                      \
    FACT(POOLS, "pools read images as they lie")                                                             \
    FACT(FUSED, "operators are fused")                                                                       \
    FACT(ORDERED, "weights are in the order of channels")                                                    \
    FACT(CHANNELS, "channels are scaled and shifted by elementwise operators")                               \
    FACT(UNFOLDED, "images are convolved as wholes, not their phases")                                       \
    FACT(JOINED, "convolutions of one value with few filters are one")                                       \
    FACT(HALVED, "weights are in half precision where that was asked for or loses nothing")                  \
    FACT(TABLES, "tables that lose nothing in half precision are in it")                                     \
    FACT(BLOCK_FLOATS, "weights of products of a few rows are in block floating point")                      \
    FACT(COMPRESSED, "weights that come from memory take few bytes")                                         \
    FACT(SHARED_TABLES, "tables are packed as products pack the same numbers")                               \
    FACT(LAYOUTS, "layouts of all values")                                                                   \
    FACT(LOOP_LAYOUTS, "loops carry blocked layouts")                                                        \
    FACT(SHUFFLES, "channels are read in another order where they lie")                                      \
    FACT(WEIGHED, "it is known how much bands are to save, and how much is spilled")                         \
    FACT(RECOMPUTED, "what is cheap is not kept where the arena has no memory for it")                       \
    FACT(BANDS, "feature maps that need not be whole are made by bands")                                     \
    FACT(ATTENTIONS, "attentions are one node")                                                              \
    FACT(NORMALIZATIONS, "normalisations are one node")                                                      \
    FACT(SUMS, "means of dequantised bytes are sums of bytes")                                               \
    FACT(REDUCTIONS, "sums take the absolutes and squares of what they read")                                \
    FACT(ELEMENTWISE, "elementwise operators are fused")                                                     \
    FACT(KERNELS, "kernels and their scratch")                                                               \
    FACT(SPILLED, "what the arena has no place for is spilled")                                              \
    FACT(UNROLLING, "no carried value is kept for more iterations than --max-unroll")                        \
    FACT(RESULTS, "results have bytes of their own")                                                         \
    FACT(STORAGES, "storages and aliases")                                                                   \
    FACT(CAPACITIES, "capacities of what grows")                                                             \
    FACT(BOUNDED, "capacities of what depends on bounded dimensions")                                        \
    FACT(ORDER, "the order of nodes")                                                                        \
    FACT(IN_PLACE, "what is made over what dies")                                                            \
    FACT(ADDRESSES, "addresses in each iteration")                                                           \
    FACT(LIVENESS, "live ranges")                                                                            \
    FACT(KERNEL_MEMORY, "kernels that are as fast as memory allows")                                         \
    FACT(OFFSETS, "offsets")

/* By their numbers: PASS_FACT_TYPES is bit 0. */
enum pass_fact_number {
#define FACT(name, text) PASS_FACT_NUMBER_##name,
    PASS_FACTS(FACT)
#undef FACT
        PASS_FACT_COUNT
};
enum pass_fact {
#define FACT(name, text) PASS_##name = UINT64_C(1) << PASS_FACT_NUMBER_##name,
    PASS_FACTS(FACT)
#undef FACT
        PASS_ALL_FACTS = (UINT64_C(1) << PASS_FACT_COUNT) - 1
};

/* One row of the table. */
typedef struct pass_row {
    const char *name; /* for --dump-after and messages */
    pass_function *run;
    uint64_t needs, breaks, makes; /* enum pass_fact; what it makes holds, whatever it breaks */
} pass_row;

/* The table. */
const pass_row *pass_pipeline_rows(size_t *count);
/* Each row's needs are met by rows before it, and at the end all facts hold; BASE_INVALID names the first row and fact for
 * which that is not so. */
base_status pass_pipeline_check(const pass_row *rows, size_t count, base_report *report);

/* Runs all passes on the module. On BASE_OK *memory (in memory_arena, which the caller owns) is the memory
 * plan. */
base_status pass_pipeline_run(ir_module *module, const pass_options *options, base_arena *memory_arena,
                              pass_memory **memory, base_report *report);
/* The names, for --dump-after and its error message; NULL after the last. */
const char *pass_pipeline_name(size_t index);

#endif
