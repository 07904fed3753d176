/* pipeline.c: the table of passes, in order, and the runner. Read the table and you know the compiler. */
#include "passes/passes.h"
#include "passes/graph/graph.h"
#include "passes/layout/layout.h"
#include "passes/loops/loops.h"
#include "passes/memory/memory.h"
#include <string.h>

/* What passes need, keep and make. A pass that does not keep something makes it stale; the runner checks that
 * nothing stale is needed. */
enum fact {
    TYPES = 1,   /* shapes and dtypes of all values */
    LAYOUTS = 2, /* every value's layout is final */
    KERNELS = 4, /* every node has its kernel and scratch */
    RESULTS = 8, /* results can have bytes of their own */
    VIEWS = 16,  /* memory plan: storages and joined views */
    ORDER = 32,  /* the schedule is final */
    IN_PLACE = 64,
    LIVENESS = 128,
    OFFSETS = 256,
    ALL = 511
};

static const struct pass {
    const char *name;
    pass_function *run;
    unsigned needs, keeps, makes;
} passes[] = {
    {"infer-shapes", pass_infer_shapes, 0, ALL, TYPES},
    {"fold-constants", pass_fold_constants, TYPES, TYPES, 0},
    {"infer-folded", pass_infer_shapes, 0, ALL, TYPES},
    {"fold-inferred", pass_fold_constants, TYPES, TYPES, 0},
    {"stack-sequences", pass_stack_sequences, TYPES, TYPES, 0},
    {"drop-unread", pass_drop_unread, TYPES, TYPES, 0},
    {"slice-iterations", pass_slice_iterations, TYPES, TYPES, 0},
    {"scan-gathers", pass_scan_gathers, TYPES, TYPES, 0},
    {"lower-einsum", pass_lower_einsum, TYPES, TYPES, 0},
    {"lower-recurrent", pass_lower_recurrent, TYPES, 0, 0},
    {"infer-lowered", pass_infer_shapes, 0, ALL, TYPES},
    {"fold-lowered", pass_fold_constants, TYPES, TYPES, 0},
    {"eliminate-dead-code", pass_eliminate_dead_code, 0, ALL, 0},
    {"hoist-invariants", pass_hoist_invariants, TYPES, TYPES, 0},
    {"carry-growth", pass_carry_growth, TYPES, TYPES, 0},
    {"fuse", pass_fuse, TYPES, TYPES, 0},
    {"select-layouts", pass_select_layouts, TYPES, TYPES, LAYOUTS},
    {"carry-layouts", pass_carry_layouts, TYPES | LAYOUTS, ALL, 0},
    {"eliminate-unused", pass_eliminate_dead_code, 0, ALL, 0},
    {"select-kernels", pass_select_kernels, TYPES | LAYOUTS, ALL, KERNELS},
    {"limit-unrolling", pass_limit_unrolling, TYPES | KERNELS, TYPES | LAYOUTS | KERNELS, 0},
    {"prepare-results", pass_prepare_results, TYPES | KERNELS, TYPES | LAYOUTS | KERNELS, RESULTS},
    {"join-aliases", pass_join_aliases, KERNELS | RESULTS, TYPES | LAYOUTS | KERNELS | RESULTS, VIEWS},
    {"reserve-growth", pass_reserve_growth, TYPES | VIEWS, ALL, 0},
    {"schedule", pass_schedule, VIEWS, TYPES | LAYOUTS | KERNELS | RESULTS | VIEWS, ORDER},
    {"choose-in-place", pass_choose_in_place, VIEWS | ORDER, ALL, IN_PLACE},
    {"analyse-loops", pass_analyse_loops, VIEWS | ORDER | IN_PLACE, ALL, 0},
    {"analyse-liveness", pass_analyse_liveness, VIEWS | ORDER | IN_PLACE, ALL, LIVENESS},
    {"choose-kernels", pass_choose_kernels, KERNELS | LIVENESS, ALL, 0},
    {"allocate", pass_allocate, LIVENESS, ALL, OFFSETS},
};
enum { PASS_COUNT = sizeof passes / sizeof *passes };

const char *pass_pipeline_name(size_t index) {
    return index < PASS_COUNT ? passes[index].name : NULL;
}

/* An unknown name is told before anything runs. */
static base_status check_dump(const pass_options *options, base_report *report) {
    const char *wanted = options->dump_after;
    if (!wanted || strcmp(wanted, "all") == 0) return BASE_OK;
    char names[512] = "";
    for (size_t i = 0; i < PASS_COUNT; i++) {
        if (strcmp(passes[i].name, wanted) == 0) return BASE_OK;
        strncat(names, i ? ", " : "", sizeof names - strlen(names) - 1);
        strncat(names, passes[i].name, sizeof names - strlen(names) - 1);
    }
    return base_fail(report, BASE_USAGE, "there is no pass '%s'; the passes are %s", wanted, names);
}

static base_status dump(const pass_context *context, const struct pass *pass) {
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

base_status pass_pipeline_run(ir_module *module, const pass_options *options, base_arena *memory_arena,
                              pass_memory **memory, base_report *report) {
    base_arena scratch;
    base_arena_init(&scratch, memory_arena->allocator);
    pass_context context = {.module = module,
                            .options = options,
                            .scratch = &scratch,
                            .memory_arena = memory_arena,
                            .report = report};
    unsigned facts = 0;
    base_status status = check_dump(options, report);
    for (size_t i = 0; i < PASS_COUNT && status == BASE_OK; i++) {
        const struct pass *pass = &passes[i];
        if (pass->needs & ~facts) {
            status = base_fail(report, BASE_INVALID, "pass %s runs before what it needs", pass->name);
            break;
        }
        status = pass->run(&context);
        facts = (facts & pass->keeps) | pass->makes;
        base_arena_free(&scratch);
#ifdef OURO_DEBUG_CHECKS
        if (status == BASE_OK) status = ir_verify(module, pass->name, report);
#endif
        if (status == BASE_OK) status = dump(&context, pass);
    }
    base_arena_free(&scratch);
    *memory = context.memory;
    return status;
}
