/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c: the memory passes on random programs, judged by the plan's verifier, which shares no code
 * with them; and the search for orders against all orders of small problems. */
#include "compiler/compiler.h"
#include "passes/graph/graph.h"
#include "passes/loops/loops.h"
#include "passes/memory/memory.h"
#include "passes/memory/order.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static size_t below(uint64_t *state, size_t limit) {
    return (size_t)(support_random(state) % limit);
}

/* ---- random programs ----------------------------------------------------------------------------------- */

enum { VISIBLE = 256 };

/* Values of one type that a graph under construction can use: its own and those of enclosing graphs. */
typedef struct scope {
    ir_module *module;
    ir_graph *graph;
    ir_value *condition, *trips;
    ir_value *values[VISIBLE];
    size_t count, own; /* values[own ..) are of this graph */
    uint64_t *random;
} scope;

static op_type matrix(int64_t rows, int64_t columns) {
    return (op_type){.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {rows, columns}}};
}

static ir_value *pick(scope *s) {
    /* Mostly something recent, so that programs are long rather than wide. */
    size_t recent = s->count < 6 || below(s->random, 3) == 0 ? s->count : 6;
    return s->values[s->count - 1 - below(s->random, recent)];
}

static ir_value *pick_type(scope *s, const op_type *type, const ir_value *other_than) {
    for (size_t tries = 0; tries < 20; tries++) {
        ir_value *value = pick(s);
        if (value != other_than && op_shape_equal(&value->type.shape, &type->shape)) return value;
    }
    return NULL;
}

static void add(scope *s, ir_value *value) {
    assert_non_null(value);
    if (s->count < VISIBLE) s->values[s->count++] = value;
}

static ir_value *integers(scope *s, int64_t count, const int64_t *data) {
    op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {count}}};
    return ir_constant_copy(s->module, "k", &type, data, (size_t)count * sizeof *data);
}

static ir_value *node(scope *s, op_code code, op_attributes attributes, uint32_t count,
                      ir_value *const *inputs, op_type type) {
    ir_node *made = ir_node_new(s->graph, NULL, code, "", "main", attributes, count, inputs);
    assert_non_null(made);
    return ir_node_add_output(made, NULL, &type);
}

static op_attributes integer_attribute(scope *s, const char *name, int64_t value) {
    op_attributes attributes = {0};
    op_attribute attribute = {.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value};
    assert_true(ir_attribute_set(s->module, &attributes, &attribute));
    return attributes;
}

static void add_concat(scope *s) {
    ir_value *parts[4] = {pick(s)};
    uint32_t count = 1 + (uint32_t)below(s->random, 4);
    int64_t axis = below(s->random, 4) == 0, total = parts[0]->type.shape.dims[axis];
    for (uint32_t i = 1; i < count; i++) {
        parts[i] = pick(s);
        if (parts[i]->type.shape.dims[1 - axis] != parts[0]->type.shape.dims[1 - axis]) parts[i] = parts[0];
        total += parts[i]->type.shape.dims[axis];
    }
    if (total > 64) return;
    op_type type = parts[0]->type;
    type.shape.dims[axis] = total;
    add(s, node(s, OP_CONCAT, integer_attribute(s, "axis", axis), count, parts, type));
}

static void add_slice(scope *s) {
    ir_value *from = pick(s);
    int64_t axis = below(s->random, 4) == 0, extent = from->type.shape.dims[axis];
    int64_t first = (int64_t)below(s->random, (size_t)extent),
            last = first + 1 + (int64_t)below(s->random, (size_t)(extent - first));
    ir_value *inputs[4] = {from, integers(s, 1, &first), integers(s, 1, &last), integers(s, 1, &axis)};
    op_type type = from->type;
    type.shape.dims[axis] = last - first;
    add(s, node(s, OP_SLICE, (op_attributes){0}, 4, inputs, type));
}

static void add_split(scope *s) {
    ir_value *from = pick(s);
    int64_t rows = from->type.shape.dims[0], sizes[2] = {rows / 2, rows - rows / 2};
    if (rows < 2) return;
    ir_value *inputs[2] = {from, integers(s, 2, sizes)};
    ir_node *split =
        ir_node_new(s->graph, NULL, OP_SPLIT, "", "main", integer_attribute(s, "axis", 0), 2, inputs);
    assert_non_null(split);
    for (int i = 0; i < 2; i++) {
        op_type type = from->type;
        type.shape.dims[0] = sizes[i];
        add(s, ir_node_add_output(split, NULL, &type));
    }
}

static void add_graph_node(scope *s, bool loop, int depth);

static void add_something(scope *s, int depth) {
    ir_value *x = pick(s), *y;
    op_type type = x->type;
    int64_t dims[2] = {type.shape.dims[1], type.shape.dims[0]};
    ir_value *reshape[2] = {x, NULL};
    switch (below(s->random, depth > 0 ? 14 : 12)) {
    case 0:
    case 1:
        add(s, node(s, OP_RELU, (op_attributes){0}, 1, &x, type));
        break;
    case 2:
        add(s, node(s, OP_SOFTMAX, (op_attributes){0}, 1, &x, type));
        break;
    case 3:
    case 4:
        y = pick_type(s, &type, below(s->random, 4) ? x : NULL);
        if (y) add(s, node(s, OP_ADD, (op_attributes){0}, 2, (ir_value *[]){x, y}, type));
        break;
    case 5:
        reshape[1] = integers(s, 2, dims);
        add(s, node(s, OP_RESHAPE, (op_attributes){0}, 2, reshape, matrix(dims[0], dims[1])));
        break;
    case 6:
        add(s, node(s, OP_TRANSPOSE, (op_attributes){0}, 1, &x, matrix(dims[0], dims[1])));
        break;
    case 7:
    case 8:
    case 9:
        add_concat(s);
        break;
    case 10:
        add_slice(s);
        break;
    case 11:
        add_split(s);
        break;
    default:
        add_graph_node(s, below(s->random, 2), depth - 1);
    }
}

static scope inner_scope(const scope *outer, ir_graph *graph) {
    scope inner = *outer;
    inner.graph = graph;
    inner.own = inner.count;
    return inner;
}

/* A value of this type: often one that is no good result (captured, a parameter, twice the same). */
static ir_value *result_of(scope *s, const op_type *type) {
    ir_value *value = pick_type(s, type, NULL);
    if (value) return value;
    for (size_t i = s->count; i-- > 0;) {
        if (op_shape_equal(&s->values[i]->type.shape, &type->shape)) return s->values[i];
    }
    fail_msg("no value of a type that is there");
    return NULL;
}

static void add_graph_node(scope *s, bool loop, int depth) {
    uint32_t count = 1 + (uint32_t)below(s->random, 3);
    op_type scalar = {.dtype = OP_INT64, .shape = {.rank = 0}},
            flag = {.dtype = OP_BOOL, .shape = {.rank = 0}};
    ir_value *inputs[5] = {s->condition};
    if (loop) {
        inputs[0] = s->trips;
        inputs[1] = below(s->random, 2) ? s->condition : NULL;
        for (uint32_t i = 0; i < count; i++) inputs[2 + i] = pick(s);
    }
    ir_value *like[3];
    for (uint32_t i = 0; i < count; i++) like[i] = loop ? inputs[2 + i] : pick(s);
    ir_node *made = ir_node_new(s->graph, NULL, loop ? OP_LOOP : OP_IF, "", "main", (op_attributes){0},
                                loop ? 2 + count : 1, inputs);
    assert_non_null(made);
    for (int g = 0; g < (loop ? 1 : 2); g++) {
        ir_graph *graph = ir_graph_new(s->module, "inner");
        assert_true(graph && ir_node_add_graph(made, graph));
        scope inner = inner_scope(s, graph);
        ir_value *go_on = s->condition;
        if (loop) {
            assert_non_null(ir_graph_add_parameter(graph, NULL, &scalar));
            go_on = ir_graph_add_parameter(graph, NULL, &flag);
            for (uint32_t i = 0; i < count; i++)
                add(&inner, ir_graph_add_parameter(graph, NULL, &like[i]->type));
        }
        size_t steps = below(s->random, 8);
        for (size_t i = 0; i < steps; i++) add_something(&inner, depth);
        if (loop) assert_true(ir_graph_add_result(graph, go_on));
        for (uint32_t i = 0; i < count; i++)
            assert_true(ir_graph_add_result(graph, result_of(&inner, &like[i]->type)));
    }
    for (uint32_t i = 0; i < count; i++) add(s, ir_node_add_output(made, NULL, &like[i]->type));
}

static ir_module *random_module(uint64_t seed) {
    ir_module *module = ir_module_new(NULL, "random");
    assert_non_null(module);
    uint64_t random = seed;
    scope s = {.module = module, .graph = ir_graph_new(module, "main"), .random = &random};
    op_type scalar = {.dtype = OP_INT64, .shape = {.rank = 0}},
            flag = {.dtype = OP_BOOL, .shape = {.rank = 0}};
    s.condition = ir_graph_add_parameter(s.graph, "condition", &flag);
    s.trips = ir_graph_add_parameter(s.graph, "trips", &scalar);
    for (int i = 0; i < 2; i++) {
        op_type type = matrix(1 + (int64_t)below(&random, 8), 1 + (int64_t)below(&random, 8));
        add(&s, ir_graph_add_parameter(s.graph, "x", &type));
    }
    float data[64] = {1};
    op_type type = s.values[0]->type;
    add(&s, ir_constant_copy(module, "w", &type, data,
                             (size_t)(type.shape.dims[0] * type.shape.dims[1]) * sizeof *data));
    size_t steps = 4 + below(&random, 24);
    for (size_t i = 0; i < steps; i++) add_something(&s, 2);
    size_t results = 1 + below(&random, 4);
    for (size_t i = 0; i < results; i++) assert_true(ir_graph_add_result(s.graph, pick(&s)));
    return module;
}

/* ---- passes alone --------------------------------------------------------------------------------------- */

/* What a pass is called with, on portable kernels and one thread. */
typedef struct setting {
    base_arena arena, scratch;
    base_report report;
    pass_options options;
    pass_context context;
} setting;

static pass_context *set_up(setting *s, ir_module *module) {
    *s = (setting){.options = {.allocator = "nnc", .environment = {.threads = 1, .portable_only = true}}};
    base_arena_init(&s->arena, NULL);
    base_arena_init(&s->scratch, NULL);
    s->context = (pass_context){.module = module,
                                .options = &s->options,
                                .scratch = &s->scratch,
                                .memory_arena = &s->arena,
                                .report = &s->report};
    return &s->context;
}

static void tear_down(setting *s) {
    base_arena_free(&s->scratch);
    base_arena_free(&s->arena);
}

/* ---- the plans of random programs ---------------------------------------------------------------------- */

static void release(void *bytes) {
    free(bytes);
}

static void expect_plan(uint64_t seed, const char *allocator, size_t *copies) {
    ir_module *module = random_module(seed);
    base_arena arena;
    base_report report = {0};
    base_arena_init(&arena, NULL);
    pass_options options = {.allocator = allocator, .environment = {.threads = 1, .portable_only = true}};
    pass_memory *memory = NULL;
    if (ir_verify(module, "made", &report) != BASE_OK ||
        pass_pipeline_run(module, &options, &arena, &memory, &report) != BASE_OK) {
        fail_msg("seed %" PRIu64 ": %s", seed, report.text);
    }
    assert_true(memory->lower_bound_bytes <= memory->arena_bytes);
    assert_true(memory->arena_bytes <= memory->sum_bytes || memory->sum_bytes == 0);
    void *bytes;
    size_t size;
    plan opened;
    if (compile_write_plan(module, memory, &options, &bytes, &size, &report) != BASE_OK) {
        fail_msg("seed %" PRIu64 ": %s", seed, report.text);
    }
    if (plan_open(bytes, size, "plan", NULL, release, bytes, &opened, &report) != BASE_OK) {
        char *text = support_print(module, false);
        fputs(text, stderr);
        free(text);
        pass_memory_print(memory, module, stderr);
        fail_msg("seed %" PRIu64 ": %s", seed, report.text);
    }
    plan_close(&opened);
    for (size_t n = 1; n < module->node_count; n++)
        *copies += module->nodes[n] && module->nodes[n]->code == OP_COPY;
    base_arena_free(&arena);
    ir_module_free(module);
}

static void random_programs_have_valid_plans(void **unused) {
    (void)unused;
    const char *text = getenv("OURO_TEST_PROGRAMS");
    uint64_t programs = text ? strtoull(text, NULL, 10) : 600;
    size_t copies = 0;
    for (uint64_t seed = 1; seed <= programs; seed++)
        expect_plan(seed, seed % 2 ? "nnc" : "greedy-by-size", &copies);
    assert_true(copies > 0); /* the hard cases do occur */
}

/* ---- the plan as a function ----------------------------------------------------------------------------- */

static char *plan_text(const pass_memory *memory, const ir_module *module) {
    char *text = NULL, *program = support_print(module, false);
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    fputs(program, file);
    pass_memory_print(memory, module, file);
    assert_int_equal(fclose(file), 0);
    free(program);
    return text;
}

static char *planned(const pass_context *context, const pass_order *order) {
    base_arena arena;
    pass_memory *made;
    base_arena_init(&arena, NULL);
    if (pass_memory_plan(context, order, &arena, &made) != BASE_OK) fail_msg("%s", context->report->text);
    char *text = plan_text(made, context->module);
    base_arena_free(&arena);
    return text;
}

static void expect_same(uint64_t seed, char *a, char *b) {
    if (strcmp(a, b) != 0) fail_msg("seed %" PRIu64 ":\n%s\nis not\n%s", seed, a, b);
    free(a);
    free(b);
}

/* Asking for the plan of an order changes nothing, gives the same answer each time, and what the passes decide once the
 * order is chosen is what schedule was told. */
static void plans_are_a_function_of_the_order(void **unused) {
    (void)unused;
    size_t reordered = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        ir_module *module = random_module(seed);
        setting s;
        pass_context *context = set_up(&s, module);
        static pass_function *const prepare[] = {pass_infer_shapes, pass_prepare_results, pass_join_aliases};
        static pass_function *const decide[] = {pass_choose_in_place, pass_analyse_loops,
                                                pass_analyse_liveness};
        for (size_t i = 0; i < 3; i++)
            if (prepare[i](context) != BASE_OK) fail_msg("seed %" PRIu64 ": %s", seed, s.report.text);
        pass_order order;
        assert_true(pass_order_read(module, &s.arena, &order));
        char *before = plan_text(context->memory, module), *first = planned(context, &order);
        expect_same(seed, before, plan_text(context->memory, module));
        if (pass_schedule(context) != BASE_OK) fail_msg("seed %" PRIu64 ": %s", seed, s.report.text);
        char *chosen = planned(context, &context->memory->order);
        reordered += strcmp(chosen, first) != 0;
        free(first);
        for (size_t i = 0; i < 3; i++)
            if (decide[i](context) != BASE_OK ||
                pass_memory_verify(context->memory, module, "a decision", &s.report) != BASE_OK)
                fail_msg("seed %" PRIu64 ": %s", seed, s.report.text);
        expect_same(seed, chosen, plan_text(context->memory, module));
        tear_down(&s);
        ir_module_free(module);
    }
    assert_true(reordered > 0);
}

/* ---- orders -------------------------------------------------------------------------------------------- */

enum { STEPS = 7, STORAGES = 9 };

typedef struct small_problem {
    order_problem problem;
    uint32_t before_starts[STEPS + 1], before[STEPS * STEPS];
    uint32_t touch_starts[STEPS + 1], touches[STEPS * STORAGES];
    uint32_t in_place_starts[STEPS + 1];
    order_in_place in_place[STEPS];
    size_t needs[STEPS], sizes[STORAGES];
    bool live_in[STORAGES], live_out[STORAGES];
} small_problem;

/* Step i makes storage i and reads those of steps before it; storages STEPS and up are written by several. */
static void make_small_problem(small_problem *p, uint64_t seed) {
    uint64_t random = seed;
    uint32_t before = 0, touches = 0, in_place = 0, count = 2 + (uint32_t)below(&random, STEPS - 1);
    *p = (small_problem){0};
    for (uint32_t s = 0; s < STORAGES; s++) {
        p->sizes[s] = below(&random, 3) ? 8 : 1 + below(&random, 40);
        p->live_in[s] = s >= STEPS && below(&random, 3) == 0;
        p->live_out[s] = below(&random, 5) == 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        p->touches[touches++] = i;
        if (below(&random, 4) == 0)
            p->touches[touches++] = STEPS + (uint32_t)below(&random, STORAGES - STEPS);
        for (uint32_t b = 0; b < i; b++) {
            if (below(&random, 3)) continue;
            p->before[before++] = b;
            p->touches[touches++] = b;
            if (p->sizes[b] == p->sizes[i] && in_place == p->in_place_starts[i] && below(&random, 2)) {
                p->in_place[in_place++] = (order_in_place){.from = b, .to = i};
            }
        }
        p->needs[i] = below(&random, 4) ? 0 : below(&random, 20);
        p->before_starts[i + 1] = before;
        p->touch_starts[i + 1] = touches;
        p->in_place_starts[i + 1] = in_place;
    }
    p->problem = (order_problem){count,           STORAGES,   p->before_starts,   p->before,
                                 p->touch_starts, p->touches, p->in_place_starts, p->in_place,
                                 p->needs,        p->sizes,   p->live_in,         p->live_out};
}

static bool follows(const order_problem *p, const uint32_t *order, uint32_t count, uint32_t step) {
    for (uint32_t b = p->before_starts[step]; b < p->before_starts[step + 1]; b++) {
        uint32_t k = 0;
        while (k < count && order[k] != p->before[b]) k++;
        if (k == count) return false;
    }
    for (uint32_t k = 0; k < count; k++) {
        if (order[k] == step) return false;
    }
    return true;
}

static size_t best_order(const order_problem *p, uint32_t *order, uint32_t count) {
    size_t best = SIZE_MAX;
    if (count == p->step_count) {
        base_arena arena;
        base_arena_init(&arena, NULL);
        assert_true(pass_order_peak(p, order, &arena, &best));
        base_arena_free(&arena);
        return best;
    }
    for (uint32_t step = 0; step < p->step_count; step++) {
        if (!follows(p, order, count, step)) continue;
        order[count] = step;
        size_t peak = best_order(p, order, count + 1);
        if (peak < best) best = peak;
    }
    return best;
}

static void small_orders_are_the_best(void **unused) {
    (void)unused;
    size_t improved = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        small_problem p;
        uint32_t order[STEPS], tried[STEPS];
        size_t peak, file, again;
        base_arena arena;
        base_arena_init(&arena, NULL);
        make_small_problem(&p, seed);
        for (uint32_t i = 0; i < STEPS; i++) tried[i] = i;
        assert_true(pass_order_peak(&p.problem, tried, &arena, &file));
        assert_true(pass_order_find(&p.problem, &arena, order, &peak));
        for (uint32_t i = 0; i < p.problem.step_count; i++)
            assert_true(follows(&p.problem, order, i, order[i]));
        assert_true(pass_order_peak(&p.problem, order, &arena, &again));
        assert_int_equal(peak, again);
        if (peak == file) {
            for (uint32_t i = 0; i < p.problem.step_count; i++) assert_int_equal(order[i], i);
        }
        improved += peak < file;
        size_t best = best_order(&p.problem, tried, 0);
        if (peak != best) fail_msg("seed %" PRIu64 ": %zu, but %zu is possible", seed, peak, best);
        base_arena_free(&arena);
    }
    assert_true(improved > 20);
}

/* Chains side by side, far too many for an exact search: each wants to be run to its end before the next. */
static void wide_graphs_are_ordered_in_time(void **unused) {
    (void)unused;
    enum { CHAINS = 2000, LENGTH = 50, COUNT = CHAINS * LENGTH };
    base_arena arena;
    base_arena_init(&arena, NULL);
    uint32_t *starts = BASE_ARRAY(&arena, uint32_t, COUNT + 1), *before = BASE_ARRAY(&arena, uint32_t, COUNT);
    uint32_t *touch_starts = BASE_ARRAY(&arena, uint32_t, COUNT + 1),
             *touches = BASE_ARRAY(&arena, uint32_t, 2 * COUNT);
    uint32_t *none = BASE_ARRAY(&arena, uint32_t, COUNT + 1), *order = BASE_ARRAY(&arena, uint32_t, COUNT);
    size_t *needs = BASE_ARRAY(&arena, size_t, COUNT), *sizes = BASE_ARRAY(&arena, size_t, COUNT), peak, file;
    bool *never = BASE_ARRAY(&arena, bool, COUNT);
    uint32_t b = 0, t = 0;
    for (uint32_t i = 0; i < COUNT;
         i++) { /* the file runs the first steps of all chains, then the second, ... */
        order[i] = i;
        sizes[i] = 64;
        if (i >= CHAINS) before[b++] = touches[t++] = i - CHAINS;
        touches[t++] = i;
        starts[i + 1] = b;
        touch_starts[i + 1] = t;
    }
    order_problem problem = {COUNT, COUNT, starts, before, touch_starts, touches,
                             none,  NULL,  needs,  sizes,  never,        never};
    assert_true(pass_order_peak(&problem, order, &arena, &file));
    assert_true(pass_order_find(&problem, &arena, order, &peak));
    assert_int_equal(file, 64 * (CHAINS + 1));
    assert_int_equal(peak, 64 * 2);
    base_arena_free(&arena);
}

/* ---- what the passes decide, to be read ---------------------------------------------------------------- */

/* The memory passes alone on a module in text, so that no other pass changes the program; kernels stand in
 * the text or are not needed. */
static void expect_memory_plan(const char *golden, const char *text) {
    ir_module *module = support_module(text, true);
    setting s;
    pass_context *context = set_up(&s, module);
    static pass_function *const passes[] = {pass_prepare_results, pass_join_aliases,  pass_schedule,
                                            pass_choose_in_place, pass_analyse_loops, pass_analyse_liveness,
                                            pass_allocate};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i](context) != BASE_OK) fail_msg("%s", s.report.text);
    }
    char *printed = support_print(module, false), *dump = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&dump, &length);
    assert_non_null(file);
    fputs(printed, file);
    pass_memory_print(context->memory, module, file);
    assert_int_equal(fclose(file), 0);
    support_expect_golden(golden, dump);
    free(dump);
    free(printed);
    tear_down(&s);
    ir_module_free(module);
}

static void views_are_found(void **unused) {
    (void)unused;
    expect_memory_plan("passes/memory/cases/views.txt",
                       "module \"views\" {\n"
                       "  constant %shape: int64[2] = {4, 16}\n"
                       "  constant %one: int64[1] = {1}\n"
                       "  constant %three: int64[1] = {3}\n"
                       "  constant %zero: int64[1] = {0}\n"
                       "  graph main(%x: float32[4,4,4]) {\n"
                       "    %a: float32[4,4,4] = LRN(%x) {size = 1}\n"
                       "    %b: float32[4,16] = Reshape(%a, %shape)\n"
                       "    %c: float32[2,16] = Slice(%b, %one, %three, %zero)\n"
                       "    %d: float32[4,2] = Slice(%b, %one, %three, %one)\n"
                       "    %e: float32[2,16] = Softmax(%c)\n"
                       "    %f: float32[2,16] = Softmax(%e)\n"
                       "    yield %f, %d\n"
                       "  }\n"
                       "}\n");
}

/* Each Concat is the prefix of the next one: one storage for all; %x cannot lie in it and is copied. */
static void concats_chain(void **unused) {
    (void)unused;
    expect_memory_plan("passes/memory/cases/concats.txt",
                       "module \"concats\" {\n"
                       "  graph main(%x: float32[1,16,4,4]) {\n"
                       "    %a: float32[1,16,4,4] = LRN(%x) {size = 1}\n"
                       "    %b: float32[1,32,4,4] = Concat(%x, %a) {axis = 1}\n"
                       "    %c: float32[1,32,4,4] = LRN(%b) {size = 1}\n"
                       "    %d: float32[1,64,4,4] = Concat(%b, %c) {axis = 1}\n"
                       "    %e: float32[1,64,4,4] = LRN(%d) {size = 1}\n"
                       "    %f: float32[1,64,1,1] = GlobalMaxPool(%e)\n"
                       "    yield %f\n"
                       "  }\n"
                       "}\n");
}

/* The residual is overwritten, the input of the same convolution is not; a swap in a loop keeps its copies.
 */
static void in_place_where_it_is_right(void **unused) {
    (void)unused;
    expect_memory_plan(
        "passes/memory/cases/in_place.txt",
        "module \"in_place\" {\n"
        "  constant %w: float32[8,8,1,1] = zeros\n"
        "  graph main(%x: float32[1,8,4,4], %n: int64[]) {\n"
        "    %a: float32[1,8,4,4] = LRN(%x) {size = 1}\n"
        "    %b: float32[1,8,4,4] = LRN(%a) {size = 1}\n"
        "    %c: float32[1,8,4,4] = Conv(%a, %w, _, %b)\n"
        "    %d: float32[1,8,4,4] = Conv(%c, %w, _, %c)\n"
        "    %e: float32[1,8,4,4] = Relu(%d)\n"
        "    %f: float32[1,8,4,4] = LRN(%e) {size = 1}\n"
        "    %p: float32[1,8,4,4], %q: float32[1,8,4,4] = Loop(%n, _, %e, %f) {\n"
        "      graph body(%i: int64[], %k: bool[], %s: float32[1,8,4,4], %t: float32[1,8,4,4]) {\n"
        "        %u: float32[1,8,4,4] = Relu(%s)\n"
        "        yield %k, %t, %u\n"
        "      }\n"
        "    }\n"
        "    %r: float32[1,8,4,4] = Add(%p, %q)\n"
        "    yield %r\n"
        "  }\n"
        "}\n");
}

/* Two long branches: the file runs their first halves one after the other; each is better run to its end. */
static void schedules_lower_the_peak(void **unused) {
    (void)unused;
    expect_memory_plan("passes/memory/cases/schedule.txt", "module \"schedule\" {\n"
                                                           "  graph main(%x: float32[1,8,8,8]) {\n"
                                                           "    %a: float32[1,8,8,8] = LRN(%x) {size = 1}\n"
                                                           "    %b: float32[1,8,8,8] = LRN(%x) {size = 3}\n"
                                                           "    %c: float32[1,8,8,8] = LRN(%x) {size = 5}\n"
                                                           "    %d: float32[1,8,1,1] = GlobalMaxPool(%a)\n"
                                                           "    %e: float32[1,8,1,1] = GlobalMaxPool(%b)\n"
                                                           "    %f: float32[1,8,1,1] = GlobalMaxPool(%c)\n"
                                                           "    %g: float32[1,8,1,1] = Add(%d, %e)\n"
                                                           "    %h: float32[1,8,1,1] = Add(%g, %f)\n"
                                                           "    yield %h\n"
                                                           "  }\n"
                                                           "}\n");
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_found),
        cmocka_unit_test(concats_chain),
        cmocka_unit_test(in_place_where_it_is_right),
        cmocka_unit_test(schedules_lower_the_peak),
        cmocka_unit_test(random_programs_have_valid_plans),
        cmocka_unit_test(plans_are_a_function_of_the_order),
        cmocka_unit_test(small_orders_are_the_best),
        cmocka_unit_test(wide_graphs_are_ordered_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
