/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c: the table of passes, in order, and the runner. Read the table and you know the compiler. */
#include "passes/passes.h"
#include "passes/bands/bands.h"
#include "passes/graph/graph.h"
#include "passes/layout/layout.h"
#include "passes/loops/loops.h"
#include "passes/memory/memory.h"
#include "runtime/kernels/table.h"
#include <string.h>

/* Lines that the formatter leaves alone: one row a pass, in the order in which they run.
 *
 * Where a need is not about what the pass reads, but about when it is worth running: quantised operators are found before their
 * weights are folded, fusion comes after what it should find
 * (Transposes that lowering and carry-growth put in), hoisting before fusion takes nodes into a body's heavy ones, and layouts are
 * chosen for what is left. */
/* clang-format off */
static const pass_row rows[] = {
/*  name                   run                       needs                                              breaks        makes */
    {"infer-shapes",        pass_infer_shapes,        0,                                                 0,            PASS_TYPES},
    {"fuse-quantized",      pass_fuse_quantized,      PASS_TYPES,                                        PASS_LIVE,    PASS_QUANTIZED},
    {"fold-constants",      pass_fold_constants,      PASS_TYPES | PASS_QUANTIZED,                       PASS_LIVE,    PASS_CONSTANTS},
    {"infer-folded",        pass_infer_shapes,        PASS_CONSTANTS,                                    0,            PASS_TYPES | PASS_SHAPES},
    {"fold-inferred",       pass_fold_constants,      PASS_TYPES | PASS_SHAPES,                          PASS_LIVE,    PASS_FOLDED},
    {"check-states",        pass_check_states,        PASS_TYPES | PASS_SHAPES,                          0,            PASS_STATES},
    {"split-batch",         pass_split_batch,         PASS_TYPES | PASS_FOLDED | PASS_STATES,            PASS_LIVE,    PASS_BATCH},
    {"stack-sequences",     pass_stack_sequences,     PASS_TYPES | PASS_FOLDED,                          PASS_LIVE,    PASS_SEQUENCES},
    {"stack-old-states",    pass_stack_old_states,    PASS_TYPES | PASS_FOLDED | PASS_SEQUENCES,         PASS_LIVE,    PASS_OLD_STATES},
    {"drop-unread",         pass_drop_unread,         PASS_TYPES | PASS_FOLDED | PASS_OLD_STATES,        PASS_LIVE,    PASS_READ},
    {"slice-iterations",    pass_slice_iterations,    PASS_TYPES | PASS_FOLDED,                          PASS_LIVE,    PASS_SLICES},
    {"scan-gathers",        pass_scan_gathers,        PASS_TYPES | PASS_SLICES,                          PASS_LIVE,    PASS_GATHERS},
    {"lower-einsum",        pass_lower_einsum,        PASS_TYPES | PASS_FOLDED,                          PASS_LIVE,    PASS_EINSUMS},
    {"lower-recurrent",     pass_lower_recurrent,     PASS_TYPES | PASS_FOLDED,                          PASS_TYPES | PASS_LIVE, PASS_RECURRENCES},
    {"infer-lowered",       pass_infer_shapes,        PASS_READ | PASS_EINSUMS | PASS_RECURRENCES | PASS_GATHERS, 0,            PASS_TYPES},
    {"fold-lowered",        pass_fold_constants,      PASS_TYPES | PASS_EINSUMS | PASS_RECURRENCES,      PASS_LIVE,    PASS_LOWERED},
    {"eliminate-dead-code", pass_eliminate_dead_code, PASS_LOWERED,                                      0,            PASS_LIVE},
    {"check-constants",     pass_check_constants,     PASS_TYPES | PASS_LIVE,                            0,            PASS_CHECKED},
    {"recognise-gelu",      pass_recognise_gelu,      PASS_TYPES | PASS_LIVE | PASS_LOWERED,             0,            PASS_GELUS},
    {"sink-transposes",     pass_sink_transposes,     PASS_TYPES | PASS_LIVE | PASS_LOWERED,             0,            PASS_TRANSPOSES},
    {"turn-pools",          pass_turn_pools,          PASS_TYPES | PASS_TRANSPOSES,                      0,            PASS_POOLS},
    {"hoist-invariants",    pass_hoist_invariants,    PASS_TYPES | PASS_LIVE,                            0,            PASS_HOISTED},
    {"carry-parts",         pass_carry_parts,         PASS_TYPES | PASS_LIVE,                            0,            PASS_PARTS},
    {"carry-growth",        pass_carry_growth,        PASS_TYPES | PASS_LIVE | PASS_PARTS,               PASS_LIVE,    PASS_GROWTH},
    {"halve-states",        pass_halve_states,        PASS_TYPES | PASS_GROWTH,                          0,            PASS_HALF_STATES},
    {"flatten-windows",     pass_flatten_windows,     PASS_TYPES | PASS_HOISTED,                         PASS_LIVE,    PASS_WINDOWS},
    {"sink-scans",          pass_sink_scans,          PASS_TYPES | PASS_HOISTED | PASS_GATHERS,           0,            PASS_SUNK},
    {"quantize-weights",    pass_quantize_weights,    PASS_TYPES | PASS_LOWERED,                           PASS_LIVE,    PASS_WEIGHTS},
    {"fuse",                pass_fuse,                PASS_TYPES | PASS_LOWERED | PASS_HOISTED | PASS_GROWTH | PASS_HALF_STATES | PASS_SUNK | PASS_WEIGHTS | PASS_GELUS | PASS_POOLS, PASS_LIVE, PASS_FUSED},
    {"order-channels",      pass_order_channels,      PASS_TYPES | PASS_FUSED,                           0,            PASS_ORDERED},
    {"scale-channels",      pass_scale_channels,      PASS_TYPES | PASS_FUSED,                           0,            PASS_CHANNELS},
    {"unfold-phases",       pass_unfold_phases,       PASS_TYPES | PASS_ORDERED,                         PASS_LIVE,    PASS_UNFOLDED},
    {"join-convolutions",   pass_join_convolutions,   PASS_TYPES | PASS_ORDERED,                         PASS_LIVE,    PASS_JOINED},
    {"halve-weights",       pass_halve_weights,       PASS_TYPES | PASS_ORDERED,                         0,            PASS_HALVED},
    {"halve-tables",        pass_halve_tables,        PASS_TYPES | PASS_FUSED | PASS_HALVED,             0,            PASS_TABLES},
    {"block-float-weights", pass_block_float_weights, PASS_TYPES | PASS_HALVED,                          0,            PASS_BLOCK_FLOATS},
    {"compress-weights",    pass_compress_weights,    PASS_TYPES | PASS_HALVED | PASS_BLOCK_FLOATS,      0,            PASS_COMPRESSED},
    {"share-tables",        pass_share_tables,        PASS_TYPES | PASS_COMPRESSED | PASS_TABLES,        0,            PASS_SHARED_TABLES},
    {"select-layouts",      pass_select_layouts,      PASS_TYPES | PASS_CHANNELS | PASS_JOINED | PASS_UNFOLDED | PASS_SHARED_TABLES | PASS_WINDOWS, PASS_LIVE,    PASS_LAYOUTS},
    {"carry-layouts",       pass_carry_layouts,       PASS_TYPES | PASS_LAYOUTS,                         PASS_LIVE,    PASS_LOOP_LAYOUTS},
    {"eliminate-unused",    pass_eliminate_dead_code, PASS_LOOP_LAYOUTS,                                 0,            PASS_LIVE},
    {"fuse-shuffles",       pass_fuse_shuffles,       PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS,        0,            PASS_SHUFFLES},
    {"weigh-spills",        pass_weigh_spills,        PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS | PASS_SHUFFLES, 0,   PASS_WEIGHED},
    {"recompute",           pass_recompute,           PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS | PASS_WEIGHED, 0,            PASS_RECOMPUTED},
    {"make-bands",          pass_make_bands,          PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS | PASS_RECOMPUTED, 0,   PASS_BANDS},
    {"fuse-attention",      pass_fuse_attention,      PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS | PASS_BANDS, 0,      PASS_ATTENTIONS},
    {"fuse-normalization",  pass_fuse_normalization,  PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS | PASS_BANDS, 0,      PASS_NORMALIZATIONS},
    {"sum-bytes",           pass_sum_bytes,           PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS | PASS_BANDS, 0,      PASS_SUMS},
    {"fuse-reductions",     pass_fuse_reductions,     PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS | PASS_NORMALIZATIONS, 0, PASS_REDUCTIONS},
    {"fuse-elementwise",    pass_fuse_elementwise,    PASS_TYPES | PASS_LIVE | PASS_LOOP_LAYOUTS | PASS_ATTENTIONS | PASS_NORMALIZATIONS | PASS_SUMS | PASS_REDUCTIONS, 0, PASS_ELEMENTWISE},
    {"select-kernels",      pass_select_kernels,      PASS_TYPES | PASS_LIVE | PASS_ELEMENTWISE,         0,            PASS_KERNELS},
    {"spill",               pass_spill,               PASS_TYPES | PASS_LIVE | PASS_KERNELS,             0,            PASS_SPILLED},
    {"limit-unrolling",     pass_limit_unrolling,     PASS_TYPES | PASS_KERNELS | PASS_SPILLED,          0,            PASS_UNROLLING},
    {"prepare-results",     pass_prepare_results,     PASS_TYPES | PASS_KERNELS | PASS_UNROLLING,        0,            PASS_RESULTS},
    {"join-aliases",        pass_join_aliases,        PASS_TYPES | PASS_KERNELS | PASS_RESULTS,          0,            PASS_STORAGES},
    {"reserve-growth",      pass_reserve_growth,      PASS_TYPES | PASS_STORAGES,                        0,            PASS_CAPACITIES},
    {"reserve-bounds",      pass_reserve_bounds,      PASS_TYPES | PASS_STORAGES,                        0,            PASS_BOUNDED},
    {"schedule",            pass_schedule,            PASS_STORAGES | PASS_CAPACITIES | PASS_BOUNDED,    0,            PASS_ORDER},
    {"choose-in-place",     pass_choose_in_place,     PASS_STORAGES | PASS_ORDER,                        0,            PASS_IN_PLACE},
    {"analyse-loops",       pass_analyse_loops,       PASS_STORAGES | PASS_ORDER | PASS_IN_PLACE,        0,            PASS_ADDRESSES},
    {"analyse-liveness",    pass_analyse_liveness,    PASS_STORAGES | PASS_ORDER | PASS_ADDRESSES,       0,            PASS_LIVENESS},
    {"choose-kernels",      pass_choose_kernels,      PASS_KERNELS | PASS_ORDER | PASS_LIVENESS,         0,            PASS_KERNEL_MEMORY},
    {"allocate",            pass_allocate,            PASS_ORDER | PASS_LIVENESS | PASS_KERNEL_MEMORY,   0,            PASS_OFFSETS},
};
/* clang-format on */
enum { PASS_COUNT = sizeof rows / sizeof *rows };

const pass_row *pass_pipeline_rows(size_t *count) {
    *count = PASS_COUNT;
    return rows;
}

const char *pass_pipeline_name(size_t index) {
    return index < PASS_COUNT ? rows[index].name : NULL;
}

/* What the first of these facts means. */
static const char *fact_text(uint64_t facts) {
    static const char *const texts[] = {
#define FACT(name, text) text,
        PASS_FACTS(FACT)
#undef FACT
    };
    size_t first = 0;
    while (!(facts >> first & 1)) first++;
    return texts[first];
}

base_status pass_pipeline_check(const pass_row *checked, size_t count, base_report *report) {
    uint64_t facts = 0;
    for (size_t i = 0; i < count; i++) {
        if (checked[i].needs & ~facts)
            return base_fail(report, BASE_INVALID, "pass %s needs \"%s\", which does not hold before it",
                             checked[i].name, fact_text(checked[i].needs & ~facts));
        facts = (facts & ~checked[i].breaks) | checked[i].makes;
    }
    if (facts != PASS_ALL_FACTS)
        return base_fail(report, BASE_INVALID, "\"%s\" does not hold after the last pass",
                         fact_text(PASS_ALL_FACTS & ~facts));
    return BASE_OK;
}

/* An unknown name is told before anything runs. */
static base_status check_dump(const pass_options *options, base_report *report) {
    const char *wanted = options->dump_after;
    if (!wanted || strcmp(wanted, "all") == 0) return BASE_OK;
    char names[1024] = "";
    for (size_t i = 0; i < PASS_COUNT; i++) {
        if (strcmp(rows[i].name, wanted) == 0) return BASE_OK;
        strncat(names, i ? ", " : "", sizeof names - strlen(names) - 1);
        strncat(names, rows[i].name, sizeof names - strlen(names) - 1);
    }
    return base_fail(report, BASE_USAGE, "there is no pass '%s'; the passes are %s", wanted, names);
}

static base_status dump(const pass_context *context, const pass_row *pass) {
    const pass_options *options = context->options;
    if (!options->dump_after) return BASE_OK;
    if (strcmp(options->dump_after, "all") != 0 && strcmp(options->dump_after, pass->name) != 0)
        return BASE_OK;
    FILE *file = options->dump_file ? options->dump_file : stderr;
    fprintf(file, "// after %s\n", pass->name);
    ir_print_options print = {0};
    if (!ir_print(context->module, &print, file)) {
        return base_fail(context->report, BASE_SYSTEM_ERROR, "writing the dump after %s failed", pass->name);
    }
    if (context->memory) pass_memory_print(context->memory, context->module, file);
    return BASE_OK;
}

/* The first pass that a trial runs. */
static size_t first_measured(const struct pass_measured *measured) {
    pass_function *const run = measured->spilled ? pass_recompute
                               : measured->look  ? pass_spill
                                                 : pass_make_bands;
    size_t first = 0;
    while (rows[first].run != run) first++;
    return measured->spilled || measured->banded ? first : first + 1;
}

static bool is_enough(const struct pass_measured *measured, const pass_memory *memory) {
    return measured->enough && memory->least_arena_bytes >= measured->enough;
}

/* pass_context.measure: runs the passes from make-bands on, or after it, or (for those on spilling) others, with the one that places what
 * lies in the arena: not every planner reaches the lower bound. */
static base_status measure(const pass_context *context, ir_module *module, struct pass_measured *measured) {
    pass_options options = *context->options;
    base_arena scratch, memory_arena;
    if (!measured->banded && !measured->spilled)
        options.arena_limit = 0; /* how much it is, is the question */
    if (!measured->spilled) options.spill_path = NULL;
    options.dump_after = NULL;
    base_arena_init(&scratch, context->scratch->allocator);
    base_arena_init(&memory_arena, context->scratch->allocator);
    pass_context inner = {.module = module,
                          .options = &options,
                          .scratch = &scratch,
                          .memory_arena = &memory_arena,
                          .report = context->report,
                          .bands = context->bands,
                          .band_limit = measured->spilled ? measured->band_limit : context->band_limit,
                          .kernel_arena = measured->kernel_arena,
                          .live = measured->live,
                          .live_count = measured->live_count,
                          .trial = true,
                          .least_kernels = !measured->saved && !measured->kernels,
                          .measure = measure};
    base_status status = BASE_OK;
    for (size_t i = first_measured(measured);
         i < PASS_COUNT && rows[i - 1].run != pass_allocate && status == BASE_OK; i++) {
        if (rows[i].run == pass_allocate && is_enough(measured, inner.memory)) break;
        status = rows[i].run(&inner);
        base_arena_free(&scratch);
    }
    for (size_t i = 0; status == BASE_OK && i < inner.memory->choice_count; i++) {
        const pass_choice *choice = &inner.memory->choices[i];
        const double saved = choice->seconds_before - choice->seconds;
        if (measured->saved && choice->node->id.index < measured->saved_count) {
            measured->saved[choice->node->id.index] += saved;
            measured->before[choice->node->id.index] += choice->seconds_before;
        }
        measured->saved_seconds += saved;
    }
    for (size_t i = 0; inner.bands && i < inner.bands->count; i++)
        measured->more_seconds += inner.bands->list[i].more_seconds;
    for (size_t i = 0; measured->spilled && i < inner.recomputed_count; i++)
        measured->more_seconds += inner.recomputed[i].seconds;
    measured->more_seconds += inner.spill_seconds;
    if (status == BASE_OK && measured->look) measured->look(measured->user, inner.memory);
    if (status == BASE_OK) {
        measured->bound = inner.memory->least_arena_bytes;
        measured->arena = is_enough(measured, inner.memory) ? measured->bound : inner.memory->arena_bytes;
    }
    base_arena_free(&scratch);
    base_arena_free(&memory_arena);
    return status;
}

/* A pass that goes on where memory ran out has made another plan than it makes else. */
static base_status run_pass(const pass_row *pass, pass_context *context,
                            const base_watched_allocator *watched) {
    const size_t exhaustions = rt_kernel_exhaustions();
    const base_status status = pass->run(context);
    if (status == BASE_SYSTEM_ERROR ||
        (!watched->failed && !context->module->memory.failed && rt_kernel_exhaustions() == exhaustions))
        return status;
    base_report_clear(context->report);
    return base_fail_memory(context->report);
}

base_status pass_pipeline_run(ir_module *module, const pass_options *options, base_arena *memory_arena,
                              pass_memory **memory, base_report *report) {
    const base_allocator *allocator = memory_arena->allocator;
    base_watched_allocator watched;
    base_arena scratch;
    base_watch_allocator(&watched, allocator);
    memory_arena->allocator = &watched.allocator;
    base_arena_init(&scratch, &watched.allocator);
    pass_context context = {.module = module,
                            .options = options,
                            .scratch = &scratch,
                            .memory_arena = memory_arena,
                            .report = report,
                            .measure = measure};
    base_status status = check_dump(options, report);
    if (status == BASE_OK) status = pass_pipeline_check(rows, PASS_COUNT, report);
    for (size_t i = 0; i < PASS_COUNT && status == BASE_OK; i++) {
        const pass_row *pass = &rows[i];
        if (options->progress) options->progress(options->progress_user, pass->name);
        status = run_pass(pass, &context, &watched);
        base_arena_free(&scratch);
#ifdef OURO_DEBUG_CHECKS
        if (status == BASE_OK) status = ir_verify(module, pass->name, report);
        if (status == BASE_OK && context.memory)
            status = pass_memory_verify(context.memory, module, pass->name, report);
#endif
        if (status == BASE_OK) status = dump(&context, pass);
    }
    base_arena_free(&scratch);
    memory_arena->allocator = allocator;
    if (context.memory) {
        context.memory->bands = context.bands;
        context.memory->recomputed = context.recomputed;
        context.memory->recomputed_count = context.recomputed_count;
        context.memory->spill_seconds = context.spill_seconds;
    }
    *memory = context.memory;
    return status;
}
