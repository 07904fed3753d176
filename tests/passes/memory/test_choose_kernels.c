/* SPDX-License-Identifier: Apache-2.0 */
/* test_choose_kernels.c: faster kernels are chosen within the limits of the arena and of the constants, and not where the
 * arithmetic is to be exact; in loops too. Portable kernels, so that the choices are the same on every machine.
 */
#include "passes/memory/tuning.h"
#include "passes/passes.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "tests/support/operators.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CHANNELS = 64, EXTENT = 28 };

typedef struct compiled {
    ir_module *module;
    base_arena arena;
    pass_memory *memory;
    base_report report;
    base_status status;
} compiled;

static ir_value *add_weights(ir_module *module, const char *name) {
    const op_type type = {
        .kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {4, {CHANNELS, CHANNELS, 3, 3}}};
    void *data;
    ir_value *weights =
        ir_constant_reserve(module, name, &type, (size_t)CHANNELS * CHANNELS * 9 * sizeof(float), &data);
    assert_non_null(weights);
    for (int i = 0; i < CHANNELS * CHANNELS * 9; i++) ((float *)data)[i] = (float)(i % 7) / 7;
    return weights;
}

static ir_value *add_convolution(ir_graph *graph, ir_value *x, ir_value *weights) {
    static const int64_t pads[] = {1, 1, 1, 1};
    op_attributes attributes = {0};
    const op_attribute pad = {.name = "pads", .kind = OP_ATTRIBUTE_INTS, .count = 4, .as.integers = pads};
    assert_true(ir_attribute_set(graph->module, &attributes, &pad));
    ir_node *node = ir_node_new(graph, NULL, OP_CONV, "", "", attributes, 2, (ir_value *[]){x, weights});
    assert_non_null(node);
    ir_value *y = ir_node_add_output(node, "y", &x->type);
    assert_non_null(y);
    return y;
}

/* Three convolutions one after the other; the last two share weights. */
static void compile(compiled *c, const pass_options *options) {
    *c = (compiled){.module = ir_module_new(NULL, "chain")};
    assert_non_null(c->module);
    base_arena_init(&c->arena, NULL);
    const op_type type = {
        .kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {4, {1, CHANNELS, EXTENT, EXTENT}}};
    ir_graph *graph = ir_graph_new(c->module, "main");
    ir_value *x = ir_graph_add_parameter(graph, "x", &type);
    ir_value *own = add_weights(c->module, "own"), *shared = add_weights(c->module, "shared");
    x = add_convolution(graph, add_convolution(graph, add_convolution(graph, x, own), shared), shared);
    assert_true(ir_graph_add_result(graph, x));
    pass_options given = *options;
    given.environment = (rt_environment){.threads = 1, .portable_only = true};
    c->status = pass_pipeline_run(c->module, &given, &c->arena, &c->memory, &c->report);
}

static void release(compiled *c) {
    base_arena_free(&c->arena);
    ir_module_free(c->module);
}

static size_t constants_of(const ir_module *module) {
    size_t sum = 0;
    for (size_t i = 1; i < module->value_count; i++)
        if (module->values[i] && module->values[i]->kind == IR_CONSTANT && module->values[i]->uses)
            sum += module->values[i]->constant->tensor.bytes;
    return sum;
}

static size_t count_kernels(const ir_module *module, const char *kernel) {
    size_t count = 0;
    for (size_t n = 1; n < module->node_count; n++)
        count +=
            module->nodes[n] && module->nodes[n]->kernel && strcmp(module->nodes[n]->kernel, kernel) == 0;
    return count;
}

static void exact_arithmetic_keeps_kernels(void **unused) {
    (void)unused;
    compiled c;
    compile(&c, &(pass_options){.exact_arithmetic = true});
    assert_int_equal(c.status, BASE_OK);
    assert_int_equal(count_kernels(c.module, "portable.convolution"), 3);
    assert_int_equal(c.memory->choice_count, 0);
    release(&c);
}

/* X W, whose weights are `size` times others after the first of each column. */
static void compile_product(compiled *c, float size) {
    enum { ROWS = 128, DEPTH = 256, COLUMNS = 256 };
    *c = (compiled){.module = ir_module_new(NULL, "product")};
    assert_non_null(c->module);
    base_arena_init(&c->arena, NULL);
    const op_type x_type = {.kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {2, {ROWS, DEPTH}}},
                  w_type = {.kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {2, {DEPTH, COLUMNS}}};
    ir_graph *graph = ir_graph_new(c->module, "main");
    void *data;
    ir_value *inputs[] = {
        ir_graph_add_parameter(graph, "x", &x_type),
        ir_constant_reserve(c->module, "w", &w_type, DEPTH * COLUMNS * sizeof(float), &data)};
    assert_true(inputs[0] && inputs[1]);
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        ((float *)data)[i] = (i < COLUMNS ? 1 : size) * (float)(i % 7 + 1) / 7;
    ir_node *node = ir_node_new(graph, NULL, OP_MATMUL, "", "", (op_attributes){0}, 2, inputs);
    assert_non_null(node);
    assert_true(ir_graph_add_result(graph, ir_node_add_output(node, "y", &x_type)));
    const pass_options options = {.arena_limit = 64u << 20, .environment = {.threads = 1}};
    c->status = pass_pipeline_run(c->module, &options, &c->arena, &c->memory, &c->report);
    assert_int_equal(c->status, BASE_OK);
}

/* A kernel that would lose bits of some weights is not chosen for these. */
static void weights_have_to_suit(void **unused) {
    (void)unused;
    compiled fit, unfit;
    if (!rt_fixed_wanted()) skip();
    compile_product(&fit, 1);
    compile_product(&unfit, 1e-6f);
    assert_int_equal(count_kernels(fit.module, "portable.fixed_product"), 1);
    assert_int_equal(count_kernels(unfit.module, "portable.fixed_product"), 0);
    release(&fit);
    release(&unfit);
}

static void memory_is_traded_for_time(void **unused) {
    (void)unused;
    compiled exact, free;
    compile(&exact, &(pass_options){.exact_arithmetic = true});
    compile(&free, &(pass_options){.arena_limit = 64u << 20, .constant_limit = 64u << 20});
    assert_int_equal(free.status, BASE_OK);
    assert_int_equal(count_kernels(free.module, "portable.winograd"), 3);
    assert_int_equal(free.memory->choice_count, 3);
    assert_int_equal(free.memory->least_arena_bytes, exact.memory->arena_bytes);
    for (size_t i = 0; i < 3; i++) {
        assert_true(free.memory->choices[i].seconds < free.memory->choices[i].seconds_before);
        assert_string_equal(free.memory->choices[i].instead_of, "portable.convolution");
        assert_true(free.memory->choices[i].scratch_bytes > 0);
    }
    release(&exact);
    release(&free);
}

/* Weights that two convolutions read, four times: a panel of each takes as much as the weights, and the limit is half as much again. But the weights
 * go where both convolutions have the panel, so that all fit in turn. */
static void shared_weights_that_nobody_reads_any_more_do_not_count(void **unused) {
    (void)unused;
    enum { PAIRS = 4, FILTERS = 64 };
    const op_type type = {.kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {4, {1, FILTERS, 8, 8}}};
    const op_type kind = {.kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {4, {FILTERS, FILTERS, 1, 1}}};
    compiled c = {.module = ir_module_new(NULL, "pairs")};
    base_arena_init(&c.arena, NULL);
    ir_graph *graph = ir_graph_new(c.module, "main");
    ir_value *x = ir_graph_add_parameter(graph, "x", &type);
    size_t before = 0;
    for (int i = 0; i < PAIRS; i++) {
        const size_t bytes = FILTERS * FILTERS * sizeof(float);
        void *data;
        ir_value *weights = ir_constant_reserve(c.module, "w", &kind, bytes, &data);
        assert_non_null(weights);
        for (int k = 0; k < FILTERS * FILTERS; k++) ((float *)data)[k] = (float)((k + i) % 7) / 7;
        before += bytes;
        for (int k = 0; k < 2; k++) {
            ir_node *node =
                ir_node_new(graph, NULL, OP_CONV, "", "", (op_attributes){0}, 2, (ir_value *[]){x, weights});
            assert_non_null(node);
            x = ir_node_add_output(node, "y", &type);
        }
    }
    assert_true(ir_graph_add_result(graph, x));
    const pass_options options = {.environment = {.threads = 1, .portable_only = true}};
    c.status = pass_pipeline_run(c.module, &options, &c.arena, &c.memory, &c.report);
    assert_int_equal(c.status, BASE_OK);
    assert_int_equal(count_kernels(c.module, "portable.pointwise"), 2 * PAIRS);
    assert_true(constants_of(c.module) <= before + before / 2);
    release(&c);
}

static void limits_are_kept(void **unused) {
    (void)unused;
    compiled exact, least, few;
    compile(&exact, &(pass_options){.exact_arithmetic = true});
    compile(&least, &(pass_options){.arena_limit = PASS_ARENA_LEAST, .constant_limit = 64u << 20});
    assert_int_equal(least.status, BASE_OK);
    assert_true(least.memory->arena_bytes <= exact.memory->arena_bytes);
    /* Weights of their own four times as large are too much; nothing is chosen that does not fit. */
    const size_t constants = constants_of(exact.module);
    compile(&few, &(pass_options){.arena_limit = 64u << 20, .constant_limit = constants + constants / 2});
    assert_int_equal(few.status, BASE_OK);
    assert_true(constants_of(few.module) <= constants + constants / 2);
    release(&exact);
    release(&least);
    release(&few);
}

static void too_small_an_arena_is_an_error(void **unused) {
    (void)unused;
    compiled c;
    compile(&c, &(pass_options){.arena_limit = 64});
    assert_int_equal(c.status, BASE_INVALID);
    assert_non_null(strstr(c.report.text, "the least is"));
    release(&c);
}

/* A 3x3 convolution of `x`, with weights of its own. */
static ir_value *widen(ir_graph *graph, ir_value *x, int64_t channels) {
    static const int64_t pads[] = {1, 1, 1, 1};
    const op_type type = {
        .kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {4, {channels, x->type.shape.dims[1], 3, 3}}};
    op_attributes attributes = {0};
    const op_attribute pad = {.name = "pads", .kind = OP_ATTRIBUTE_INTS, .count = 4, .as.integers = pads};
    size_t bytes;
    void *data;
    assert_true(op_type_bytes(&type, &bytes));
    ir_value *weights = ir_constant_reserve(graph->module, "weights", &type, bytes, &data);
    assert_non_null(weights);
    memset(data, 0, bytes);
    assert_true(ir_attribute_set(graph->module, &attributes, &pad));
    ir_node *node = ir_node_new(graph, NULL, OP_CONV, "", "", attributes, 2, (ir_value *[]){x, weights});
    op_type made = x->type;
    made.shape.dims[1] = channels;
    ir_value *y = node ? ir_node_add_output(node, "y", &made) : NULL;
    assert_non_null(y);
    return y;
}

/* Branches of convolutions of random widths, joined again and again, as in Inception: tensors and scratch of many sizes are live
 * at once, and planners that go by size leave gaps. */
static void compile_branches(compiled *c, uint64_t seed, const pass_options *options) {
    enum { MODULES = 3, BRANCHES = 3, ROWS = 12 };
    test_random random = {seed};
    *c = (compiled){.module = ir_module_new(NULL, "branches")};
    assert_non_null(c->module);
    base_arena_init(&c->arena, NULL);
    op_type type = {.kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {4, {1, 32, ROWS, ROWS}}};
    ir_graph *graph = ir_graph_new(c->module, "main");
    ir_value *x = ir_graph_add_parameter(graph, "x", &type);
    for (int m = 0; m < MODULES; m++) {
        ir_value *branches[BRANCHES];
        op_attributes attributes = {0};
        const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
        assert_true(ir_attribute_set(c->module, &attributes, &axis));
        type.shape.dims[1] = 0;
        for (int b = 0; b < BRANCHES; b++) {
            branches[b] = x;
            for (int64_t depth = 1 + test_random_below(&random, 2); depth > 0; depth--)
                branches[b] = widen(graph, branches[b], 8 + 8 * test_random_below(&random, 6));
            type.shape.dims[1] += branches[b]->type.shape.dims[1];
        }
        ir_node *joined = ir_node_new(graph, NULL, OP_CONCAT, "", "", attributes, BRANCHES, branches);
        assert_non_null(joined);
        x = ir_node_add_output(joined, "joined", &type);
        assert_non_null(x);
    }
    assert_true(ir_graph_add_result(graph, widen(graph, x, 16)));
    pass_options given = *options;
    given.environment = (rt_environment){.threads = 1, .portable_only = true};
    c->status = pass_pipeline_run(c->module, &given, &c->arena, &c->memory, &c->report);
}

/* What is chosen fits under the limit as the planner places it, gaps included: whatever fits without choices fits with them. */
static void limits_hold_for_gaps(void **unused) {
    static const char *const allocators[] = {"nnc", "greedy-by-size", "bfc", "auto"};
    (void)unused;
    for (uint64_t seed = 1; seed <= support_share(5); seed++) {
        for (size_t a = 0; a < sizeof allocators / sizeof *allocators; a++) {
            compiled exact, least, usual;
            compile_branches(&exact, seed,
                             &(pass_options){.exact_arithmetic = true, .allocator = allocators[a]});
            const size_t needed = exact.memory->arena_bytes;
            print_message("seed %llu, %s: %zu bytes\n", (unsigned long long)seed, allocators[a], needed);
            assert_int_equal(exact.status, BASE_OK);
            compile_branches(&least, seed,
                             &(pass_options){.arena_limit = PASS_ARENA_LEAST, .allocator = allocators[a]});
            assert_int_equal(least.status, BASE_OK);
            assert_true(least.memory->arena_bytes <= needed);
            compile_branches(&usual, seed, &(pass_options){.allocator = allocators[a]});
            assert_int_equal(usual.status, BASE_OK);
            const size_t live =
                usual.memory->lower_bound_bytes > needed ? usual.memory->lower_bound_bytes : needed;
            assert_true(usual.memory->arena_bytes <= needed + needed / 4);
            assert_true(usual.memory->arena_bytes <= live + live / 20);
            for (size_t limit = needed; limit <= needed + needed / 2; limit += needed / 5) {
                compiled limited;
                compile_branches(&limited, seed,
                                 &(pass_options){.arena_limit = limit, .allocator = allocators[a]});
                if (limited.status != BASE_OK) print_message("limit %zu: %s\n", limit, limited.report.text);
                assert_int_equal(limited.status, BASE_OK);
                assert_true(limited.memory->arena_bytes <= limit);
                release(&limited);
            }
            release(&exact);
            release(&least);
            release(&usual);
        }
    }
}

/* The record with other times: of Winograd's convolution, and of the direct one. */
static char *with_times(const char *record, unsigned winograd, unsigned direct) {
    char *text = malloc(2 * strlen(record) + 64), *to = text;
    assert_non_null(text);
    *to = 0;
    for (const char *line = record; *line; line = strchr(line, '\n') + 1) {
        const char *what = strchr(line, '\t') + 1;
        const bool is_winograd = strncmp(what, "portable.winograd ", 18) == 0;
        to += sprintf(to, "%u\t%.*s\n", is_winograd ? winograd : direct, (int)(strchr(line, '\n') - what),
                      what);
    }
    return text;
}

static size_t chosen_with(const char *record) {
    compiled c;
    pass_tuning tuning;
    base_report report = {0};
    pass_tuning_init(&tuning, false);
    assert_int_equal(pass_tuning_read(&tuning, record, strlen(record), &report), BASE_OK);
    compile(&c, &(pass_options){.arena_limit = 64u << 20, .constant_limit = 64u << 20, .tuning = &tuning});
    assert_int_equal(c.status, BASE_OK);
    const size_t chosen = count_kernels(c.module, "portable.winograd");
    release(&c);
    pass_tuning_free(&tuning);
    return chosen;
}

static void measured_times_decide(void **unused) {
    (void)unused;
    compiled c;
    pass_tuning tuning;
    size_t length, again;
    pass_tuning_init(&tuning, true);
    compile(&c, &(pass_options){.arena_limit = 64u << 20, .constant_limit = 64u << 20, .tuning = &tuning});
    assert_int_equal(c.status, BASE_OK);
    release(&c);
    char *record = pass_tuning_write(&tuning, &length);
    assert_non_null(record);
    assert_non_null(strstr(record, "\tportable.winograd Conv threads=1 pads=1,1,1,1 ouro.blocks="));
    assert_non_null(
        strstr(record, "\tportable.convolution Conv threads=1 pads=1,1,1,1 float32[1,64,28,28] "));
    /* The three are alike: each kernel is measured once, and nothing again where the record has it. */
    compile(&c, &(pass_options){.arena_limit = 64u << 20, .constant_limit = 64u << 20, .tuning = &tuning});
    release(&c);
    char *same = pass_tuning_write(&tuning, &again);
    assert_int_equal(length, again);
    assert_memory_equal(record, same, length);
    char *slow = with_times(record, 1000, 10), *fast = with_times(record, 10, 1000);
    assert_int_equal(chosen_with(slow), 0);
    assert_int_equal(chosen_with(fast), 3);
    pass_tuning_free(&tuning);
    free(record);
    free(same);
    free(slow);
    free(fast);
}

static void records_are_checked(void **unused) {
    (void)unused;
    static const char *const bad[] = {"x\ty\n",        "12\n",   "\ty\n",
                                      "1\ta\n-2\tb\n", "12\t\n", "12345678901234567890\ta\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pass_tuning tuning;
        base_report report = {0};
        pass_tuning_init(&tuning, false);
        assert_int_equal(pass_tuning_read(&tuning, bad[i], strlen(bad[i]), &report), BASE_INVALID);
        assert_non_null(strstr(report.text, "expected nanoseconds, a tab"));
        pass_tuning_free(&tuning);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_arithmetic_keeps_kernels),
        cmocka_unit_test(weights_have_to_suit),
        cmocka_unit_test(memory_is_traded_for_time),
        cmocka_unit_test(shared_weights_that_nobody_reads_any_more_do_not_count),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(limits_hold_for_gaps),
        cmocka_unit_test(too_small_an_arena_is_an_error),
        cmocka_unit_test(measured_times_decide),
        cmocka_unit_test(records_are_checked),
    };
    return cmocka_run_group_tests_name("choose_kernels", tests, NULL, NULL);
}
