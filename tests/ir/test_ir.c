/* SPDX-License-Identifier: Apache-2.0 */
/* test_ir.c: modules: making, changing and asking; the textual form; failing memory. The verifier has its own
 * program, test_ir_verify.c. */
#include "tests/support/support.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const corpus[] = {"ir/cases/convolution.ir", "ir/cases/control.ir",
                                     "ir/cases/round_trip.ir"};
enum { CORPUS = sizeof corpus / sizeof corpus[0] };

static ir_value *value_named(const ir_module *module, const char *name) {
    ir_value *value = base_map_get(&module->names, name);
    if (!value) fail_msg("no value %s", name);
    return value;
}

static void assert_verified(const ir_module *module, const char *when) {
    base_report report = {0};
    if (ir_verify(module, when, &report) != BASE_OK) fail_msg("%s", report.text);
}

/* ---- the textual form --------------------------------------------------------------------------- */

static void corpus_prints_as_it_was_written(void **state) {
    (void)state;
    for (size_t i = 0; i < CORPUS; i++) {
        char *text = support_read_golden(corpus[i], NULL);
        ir_module *module = support_module(text, true);
        for (int data = 0; data < 2; data++) { /* its large constants are zeros, which print as that */
            char *printed = support_print(module, data);
            support_expect_golden(corpus[i], printed);
            free(printed);
        }
        ir_module_free(module);
        free(text);
    }
}

static void large_constants_print_a_hash_or_all(void **state) {
    (void)state;
    ir_module *module = support_module("module \"m\" { graph main() { yield } }", true);
    float values[20];
    for (int i = 0; i < 20; i++) values[i] = 1.0f / (float)(i + 1);
    const op_type type = {.dtype = OP_FLOAT, .shape = {1, {20}}};
    assert_non_null(ir_constant_copy(module, "c", &type, values, sizeof values));
    char *hash = support_print(module, false), *all = support_print(module, true);
    assert_non_null(strstr(hash, "constant %c: float32[20] = #"));
    assert_non_null(strstr(all, "= {1.0, 0.5, 0.33333334, 0.25, 0.2,"));
    ir_module_free(module);

    module = support_module(all, true);
    const ir_constant *constant = value_named(module, "c")->constant;
    assert_int_equal(constant->tensor.bytes, sizeof values);
    assert_memory_equal(constant->tensor.data, values, sizeof values);
    ir_module_free(module);
    module = support_module(hash, true); /* as many zeros */
    constant = value_named(module, "c")->constant;
    assert_int_equal(constant->tensor.bytes, sizeof values);
    assert_int_equal(((const float *)constant->tensor.data)[3], 0);
    ir_module_free(module);
    free(hash);
    free(all);
}

/* Reals of every width: random bits, and the corners, come back bit by bit. */
static void reals_come_back_bit_by_bit(void **state) {
    (void)state;
    const uint64_t seed = 20260101;
    uint64_t random = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    static const op_dtype dtypes[] = {
        OP_FLOAT,          OP_DOUBLE,     OP_FLOAT16,        OP_BFLOAT16,   OP_FLOAT8E4M3FN,
        OP_FLOAT8E4M3FNUZ, OP_FLOAT8E5M2, OP_FLOAT8E5M2FNUZ, OP_FLOAT8E8M0, OP_INT4};
    static const uint64_t corners[] = {0, 1, UINT64_MAX, UINT64_C(0x8000000000000000),
                                       UINT64_C(0x7ff0000000000000)};
    enum { COUNT = 4096 };
    unsigned char *bits = malloc(COUNT * 8);
    assert_non_null(bits);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        size_t bytes = COUNT * (size_t)op_dtype_bits(dtypes[d]) / 8;
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t word = support_random(&random);
            memcpy(bits + 8 * i, &word, 8);
        }
        memcpy(bits, corners, sizeof corners);
        if (dtypes[d] == OP_FLOAT16) { /* sixteen bits: every one of an interesting stretch */
            for (uint32_t i = 0; i < COUNT; i++) {
                uint16_t half = (uint16_t)(i * 16 + i % 16);
                memcpy(bits + 2 * i, &half, 2);
            }
        }
        ir_module *module = support_module("module \"m\" { graph main() { yield } }", true);
        const op_type type = {.dtype = dtypes[d], .shape = {1, {COUNT}}};
        assert_non_null(ir_constant_copy(module, "c", &type, bits, bytes));
        char *text = support_print(module, true);
        ir_module_free(module);
        module = support_module(text, true);
        assert_memory_equal(value_named(module, "c")->constant->tensor.data, bits, bytes);
        ir_module_free(module);
        free(text);
    }
    free(bits);
}

static void half_precision_rounds_to_nearest(void **state) {
    (void)state;
    ir_module *module =
        support_module("module \"m\" { constant %h: float16[8] = {1, 65519.9, 65520, 6e-8, 2.9e-8, "
                       "1.00048828125, 1.00146484375, -0.1}\n"
                       "constant %b: bfloat16[3] = {1.00390625, 1.01171875, 3.4e38}\n"
                       "graph main() { yield } }",
                       true);
    static const uint16_t half[8] = {0x3c00, 0x7bff, 0x7c00, 0x0001, 0x0000, 0x3c00, 0x3c02, 0xae66};
    static const uint16_t brain[3] = {0x3f80, 0x3f82, 0x7f80};
    assert_memory_equal(value_named(module, "h")->constant->tensor.data, half, sizeof half);
    assert_memory_equal(value_named(module, "b")->constant->tensor.data, brain, sizeof brain);
    ir_module_free(module);
}

static void wrong_texts_are_named_with_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "1:1: expected \"module\""},
        {"module m", "1:8: expected the name of the module in quotes"},
        {"module \"m\" {\n  graph main() {\n    %a: float32[1] = Foo()\n", "3:22: there is no operator Foo"},
        {"module \"m\" { graph main() { %a: float32[1] = Relu(%b)", "1:51: %b is not defined here"},
        {"module \"m\" { graph main(%x: float32[1]) { %x: float32[1] = Relu(%x)",
         "1:43: %x is defined twice"},
        {"module \"m\" { graph main(%x: float32[99999999999999999999",
         "1:37: the integer does not fit 64 bits"},
        {"module \"m\" { graph main(%x: float32[-1]", "1:37: expected an integer of at least 0"},
        {"module \"m\" { graph main(%x: float33[1]", "1:29: expected a type such as float32[1,N]"},
        {"module \"m\" { graph main(%x: float32[1,1,1,1,1,1,1,1,1,1,1,1,1]", "1:61: more than 12 dimensions"},
        {"module \"m\" { graph main(%x: float32[s1]", "1:37: symbol s1 is not declared"},
        {"module \"m\" { graph main(%x: float32[1]:nc4",
         "1:40: no such layout; row_major, nc8, nc16, nhwc and "
         "packed(BYTES) are"},
        {"module \"m\" { constant %c: int8[1] = {128}", "1:38: 128 does not fit int8"},
        {"module \"m\" { constant %c: uint8[1] = {-1}", "1:39: -1 does not fit uint8"},
        {"module \"m\" { constant %c: int8[2] = {1}", "1:38: 1 elements given, the type has 2"},
        {"module \"m\" { constant %c: int8[N] = {1}",
         "1:37: the size of the type must be known where data is given"},
        {"module \"m\" { constant %c: int8[9999999999] = zeros",
         "1:46: 9999999999 bytes that are not given are too many; a text may ask for 1073741824"},
        {"module \"m\" { constant %c: int8[4000] = zeros constant %d: int8[1073740000] = #0",
         "1:78: 1073740000 bytes that are not given are too many; a text may ask for 1073741824"},
        {"module \"m\" { constant %c: string[1] = {\"\\q\"}",
         "1:41: no such escape; \\n \\t \\\" \\\\ and \\xHH are"},
        {"module \"m\" { constant %c: string[1] = {\"abc", "1:40: the string does not end"},
        {"module \"m\" { symbol N symbol N", "1:30: symbol N is declared twice"},
        {"module \"m\" { symbol s1 = 3 - 4", "1:21: symbol s1 cannot be computed"},
        {"module \"m\" { graph main() { }", "1:29: expected \"yield\" before the end of the graph"},
        {"module \"m\" { graph main() { yield } } x", "1:39: expected the end of the text"},
        {"module \"m\" { graph main() { Loop() {a = 1, a = 2}", "1:44: attribute a is given twice"},
        {"module \"m\" { graph main() { Loop() {a = []}",
         "1:42: expected a number or a string; an empty list is "
         "`integers []`, `floats []`, `strings []`"},
        {"module \"m\" { graph main() { @", "1:29: '@' has no meaning here"},
        {"module \"m\" { graph main() { \x80", "1:29: byte 0x80 has no meaning here"},
        {"module \"m\" { graph main(%\"a\\x00b\": float32[1]", "1:25: a name may not hold a zero byte"},
        /* a value is not visible outside of its graph, nor a node's outputs inside its own */
        {"module \"m\" { graph main(%c: bool[]) { If(%c) { graph a() { %v: bool[] = Not(%c) yield }\n"
         "graph b() { yield %v } }",
         "2:19: %v is not defined here"},
        {"module \"m\" { graph main(%c: bool[]) { %o: bool[] = If(%c) { graph a() {\nyield %o } }",
         "2:7: %o is not defined here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_report report = {0};
        ir_module *module;
        assert_int_equal(ir_parse(cases[i].text, strlen(cases[i].text), "t", NULL, &module, &report),
                         BASE_INVALID);
        assert_null(module);
        char expected[512];
        snprintf(expected, sizeof expected, "t:%s\n", cases[i].message);
        assert_string_equal(report.text, expected);
    }
}

static void nesting_is_bounded(void **state) {
    (void)state;
    for (int depth = IR_MAX_DEPTH; depth <= 100000; depth = depth == IR_MAX_DEPTH ? 100000 : depth + 1) {
        size_t capacity = (size_t)depth * 64 + 256, length = 0;
        char *text = malloc(capacity);
        assert_non_null(text);
        length += (size_t)snprintf(text, capacity, "module \"m\" { graph main(%%c: bool[]) {");
        for (int i = 1; i < depth; i++) {
            length += (size_t)snprintf(text + length, capacity - length, "Loop(_, %%c) { graph g() {");
        }
        for (int i = 1; i < depth; i++)
            length += (size_t)snprintf(text + length, capacity - length, "yield } }");
        length += (size_t)snprintf(text + length, capacity - length, "yield } }");
        ir_module *module;
        base_report report = {0};
        base_status status = ir_parse(text, length, "deep", NULL, &module, &report);
        assert_int_equal(status, depth == IR_MAX_DEPTH ? BASE_OK : BASE_INVALID);
        if (status != BASE_OK) assert_non_null(strstr(report.text, "graphs nest deeper than 100"));
        ir_module_free(module);
        free(text);
    }
}

/* Whatever the bytes: a message, or a module that prints and parses back; nothing lost. */
static void mutated_texts_neither_crash_nor_leak(void **state) {
    (void)state;
    const uint64_t seed = 7;
    uint64_t random = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    support_allocator counting;
    support_allocator_init(&counting);
    counting.largest = 1 << 24; /* texts may ask for a lot of zeros */
    static const char spice[] = "{}()[]<>,:=?+-*/^%\"#_.\\ \n0123456789eNsx";
    size_t parsed = 0;
    for (size_t i = 0; i < CORPUS; i++) {
        size_t length;
        char *text = support_read_golden(corpus[i], &length);
        char *mutated = malloc(2 * length + 64);
        assert_non_null(mutated);
        for (int round = 0; round < 7000; round++) {
            memcpy(mutated, text, length);
            size_t now = length;
            uint64_t changes = 1 + support_random(&random) % 3;
            for (uint64_t c = 0; c < changes; c++) {
                size_t at = support_random(&random) % now, size = 1 + support_random(&random) % 16;
                switch (support_random(&random) % 5) {
                case 0:
                    mutated[at] ^= (char)(1 << support_random(&random) % 8);
                    break;
                case 1:
                    mutated[at] = spice[support_random(&random) % (sizeof spice - 1)];
                    break;
                case 2:
                    now = at + 1;
                    break; /* truncated */
                case 3:    /* a piece lost */
                    if (size > now - at) size = now - at;
                    memmove(mutated + at, mutated + at + size, now - at - size);
                    now -= size;
                    break;
                default: /* a piece twice */
                    if (size > now - at) size = now - at;
                    memmove(mutated + at + size, mutated + at, now - at);
                    now += size;
                }
                if (now == 0) now = 1;
            }
            /* A copy of the exact size, so that a sanitizer sees reading beyond the end. */
            char *exact = malloc(now);
            assert_non_null(exact);
            memcpy(exact, mutated, now);
            base_report report = {0};
            ir_module *module = NULL;
            base_status status = ir_parse(exact, now, "mutated", &counting.allocator, &module, &report);
            assert_true((status == BASE_OK) == (module != NULL));
            assert_true((status == BASE_OK) == (report.length == 0));
            if (module) {
                parsed++;
                ir_verify(module, "parsed", &report);
                char *printed = support_print(module, true);
                ir_module *again = support_module(printed, false);
                char *reprinted = support_print(again, true);
                assert_string_equal(printed, reprinted);
                ir_module_free(again);
                free(printed);
                free(reprinted);
            }
            ir_module_free(module);
            free(exact);
            assert_int_equal(counting.live, 0);
        }
        free(mutated);
        free(text);
    }
    print_message("%zu of %d mutated texts still parse\n", parsed, 7000 * CORPUS);
    assert_true(parsed > 100 && parsed < 7000 * CORPUS);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < CORPUS; i++) {
        size_t length;
        char *text = support_read_golden(corpus[i], &length);
        bool finished = false;
        for (size_t fail_at = 1; !finished; fail_at++) {
            support_allocator counting;
            support_allocator_init(&counting);
            counting.fail_at = fail_at;
            counting.once = true;
            base_report report = {0};
            ir_module *module = NULL;
            base_status status = ir_parse(text, length, corpus[i], &counting.allocator, &module, &report);
            if (status == BASE_OK) {
                char *printed = support_print(module, false);
                assert_string_equal(printed, text);
                free(printed);
                status = ir_verify(module, "parsed", &report);
            }
            finished = status == BASE_OK;
            if (!finished) {
                assert_int_equal(status, BASE_SYSTEM_ERROR);
                assert_non_null(strstr(report.text, "out of memory"));
            }
            ir_module_free(module);
            assert_int_equal(counting.live, 0);
            if (finished) assert_true(counting.count < fail_at);
            assert_true(fail_at < 1000);
        }
        free(text);
    }
}

/* ---- making and changing ------------------------------------------------------------------------ */

static void uses_follow_every_change(void **state) {
    (void)state;
    ir_module *module = support_module("module \"m\" { constant %k: float32[] = {1.0}\n"
                                       "graph main(%x: float32[4], %y: float32[4]) {\n"
                                       "%a: float32[4] = Add(%x, %x)\n%b: float32[4] = Mul(%a, %x)\n"
                                       "%c: float32[4] = Relu(%b) yield %c, %x } }",
                                       true);
    ir_value *x = value_named(module, "x"), *y = value_named(module, "y"), *k = value_named(module, "k");
    ir_node *a = value_named(module, "a")->node, *b = value_named(module, "b")->node;
    ir_node *c = value_named(module, "c")->node;
    assert_int_equal(ir_value_use_count(x), 4);
    ir_value_replace(x, y);
    assert_int_equal(ir_value_use_count(x), 0);
    assert_int_equal(ir_value_use_count(y), 4);
    assert_ptr_equal(ir_input(a, 1), y);
    assert_null(ir_input(a, 2));
    assert_verified(module, "replaced");

    assert_true(ir_node_set_input(a, 1, k));
    ir_graph_set_result(module->main, 1, x);
    assert_int_equal(ir_value_use_count(y), 2);
    assert_int_equal(ir_value_use_count(x), 1);
    assert_verified(module, "set");

    ir_value_replace(b->outputs[0], a->outputs[0]); /* b is dead now */
    ir_node_remove(b);
    assert_int_equal(ir_value_use_count(y), 1);
    assert_null(base_map_get(&module->names, "b"));
    assert_verified(module, "removed");
    ir_value *reused = ir_node_add_output(a, "b", NULL); /* the name is free again */
    assert_string_equal(reused->name, "b");
    a->output_count--; /* an operator with one output has one */
    module->values[reused->id.index] = NULL;
    base_map_put(&module->names, "b", NULL);

    ir_node_move(a, NULL); /* after its use */
    base_report report = {0};
    assert_int_equal(ir_verify(module, "moved", &report), BASE_INVALID);
    ir_node_move(a, c);
    assert_verified(module, "moved back");

    ir_node_set_input(a, 1, x);
    ir_constant_remove(module, k);
    assert_verified(module, "constant removed");
    char *text = support_print(module, false);
    assert_string_equal(text, "module \"m\" {\n"
                              "  graph main(%x: float32[4], %y: float32[4]) {\n"
                              "    %a: float32[4] = Add(%y, %x)\n"
                              "    %c: float32[4] = Relu(%a)\n"
                              "    yield %c, %x\n"
                              "  }\n"
                              "}\n");
    free(text);
    ir_module_free(module);
}

static void inputs_grow_and_shrink(void **state) {
    (void)state;
    ir_module *module = support_module("module \"m\" { graph main(%x: float32[4], %y: float32[4]) {\n"
                                       "%a: float32[...] = Concat(%x) {axis = 0} yield %a } }",
                                       true);
    ir_node *node = value_named(module, "a")->node;
    ir_value *x = value_named(module, "x"), *y = value_named(module, "y");
    for (uint32_t i = 0; i < 100; i++) assert_true(ir_node_set_input(node, i, i % 2 ? y : x));
    assert_int_equal(node->input_count, 100);
    assert_int_equal(ir_value_use_count(x), 50);
    assert_verified(module, "grown");
    assert_true(ir_node_set_input(node, 300, y)); /* with absent ones between */
    assert_int_equal(node->input_count, 301);
    assert_null(ir_input(node, 200));
    while (node->input_count > 3) ir_node_remove_input(node, 1);
    assert_ptr_equal(ir_input(node, 0), x);
    assert_ptr_equal(ir_input(node, 2), y);
    assert_int_equal(ir_value_use_count(x), 1);
    ir_node_remove_input(node, 1);
    ir_node_remove_input(node, 99);
    assert_verified(module, "shrunk");
    ir_module_free(module);
}

static void removing_a_node_removes_what_it_owns(void **state) {
    (void)state;
    char *text = support_read_golden("ir/cases/control.ir", NULL);
    ir_module *module = support_module(text, true);
    ir_node *loop = value_named(module, "last")->node;
    ir_graph_set_result(module->main, 0, value_named(module, "a"));
    ir_graph_set_result(module->main, 1, value_named(module, "a"));
    ir_node_remove(loop);
    assert_verified(module, "removed");
    assert_int_equal(module->main->node_count, 0);
    assert_int_equal(ir_value_use_count(value_named(module, "a")), 2);
    assert_int_equal(ir_value_use_count(value_named(module, "seq")), 0);
    assert_null(base_map_get(&module->names, "sum"));
    ir_module_free(module);
    free(text);
}

static void captures_are_found_once_in_order_of_use(void **state) {
    (void)state;
    char *text = support_read_golden("ir/cases/control.ir", NULL);
    ir_module *module = support_module(text, true);
    base_arena arena;
    base_arena_init(&arena, NULL);
    ir_value **values;
    size_t count;
    assert_true(ir_node_captures(value_named(module, "last")->node, &arena, &values, &count));
    assert_int_equal(count, 2); /* %a is an input of the node and a capture of a branch inside */
    assert_string_equal(values[0]->name, "seq");
    assert_string_equal(values[1]->name, "a");
    assert_true(ir_node_captures(value_named(module, "inner")->node, &arena, &values, &count));
    assert_int_equal(count, 1); /* the constant %one does not count */
    assert_string_equal(values[0]->name, "s");
    assert_true(ir_node_captures(value_named(module, "sum")->node, &arena, &values, &count));
    assert_int_equal(count, 0);
    assert_true(ir_graph_encloses(module->main, value_named(module, "sum")->graph));
    assert_false(ir_graph_encloses(value_named(module, "sum")->graph, module->main));
    base_report report = {0};
    ir_node_context(value_named(module, "sum")->node, &report);
    assert_string_equal(report.context, "control: main/outer/inner: node of \"sum\" (Add)");
    ir_node_context(value_named(module, "inner")->node, &report);
    assert_string_equal(report.context, "control: main/outer: node \"inner\" (Loop)");
    base_arena_free(&arena);
    ir_module_free(module);
    free(text);
}

static void attributes_are_copied_in_depth_and_set(void **state) {
    (void)state;
    ir_module *module = ir_module_new(NULL, "m");
    assert_non_null(module);
    char words[] = "ab", name[] = "texts";
    op_string texts[] = {{words, 1}, {words + 1, 1}};
    op_tensor tensor = {
        .type = {.dtype = OP_STRING, .shape = {1, {2}}}, .bytes = sizeof texts, .data = texts};
    op_attribute items[] = {{.name = name, .kind = OP_ATTRIBUTE_STRINGS, .count = 2, .as.texts = texts},
                            {.name = "value", .kind = OP_ATTRIBUTE_TENSOR, .count = 1, .as.tensor = &tensor}};
    op_attributes from = {2, items}, copy;
    assert_true(ir_attributes_copy(module, &from, &copy));
    words[0] = words[1] = name[0] = '?';
    memset(texts, 0, sizeof texts);
    const op_attribute *found = op_attribute_find(&copy, "texts");
    assert_non_null(found);
    assert_string_equal(found->as.texts[1].data, "b");
    const op_string *strings = op_attribute_find(&copy, "value")->as.tensor->data;
    assert_string_equal(strings[0].data, "a");

    op_attributes before = copy;
    op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
    assert_true(ir_attribute_set(module, &copy, &axis));
    axis.as.integer = -2;
    assert_true(ir_attribute_set(module, &copy, &axis));
    assert_int_equal(copy.count, 3);
    assert_true(op_attribute_integer(&copy, "axis", 0) == -2);
    assert_int_equal(before.count, 2); /* the old list is another list */
    ir_module_free(module);
}

static void equal_computations_give_equal_symbols(void **state) {
    (void)state;
    ir_module *module = ir_module_new(NULL, "m");
    assert_non_null(module);
    int64_t n = ir_symbol_named(module, "N"), m = ir_symbol_named(module, "M");
    assert_true(n < 0 && m < 0 && n != m && n != OP_DIM_UNKNOWN);
    assert_true(ir_symbol_named(module, "N") == n);
#define COMPUTE(operation, a, b) ir_symbol_compute(module, operation, a, b)
    assert_true(COMPUTE('+', n, 1) == COMPUTE('+', 1, n));
    assert_true(COMPUTE('*', n, m) == COMPUTE('*', m, n));
    assert_true(COMPUTE('-', n, m) != COMPUTE('-', m, n));
    assert_true(COMPUTE('+', COMPUTE('+', n, 1), 2) == COMPUTE('+', n, 3));
    assert_true(COMPUTE('-', COMPUTE('+', n, 5), 2) == COMPUTE('+', n, 3));
    assert_true(COMPUTE('-', COMPUTE('+', n, 2), 5) == COMPUTE('-', n, 3));
    assert_true(COMPUTE('+', COMPUTE('-', n, 2), 2) == n);
    assert_true(COMPUTE('-', COMPUTE('-', n, 2), 2) == COMPUTE('-', n, 4));
    assert_true(COMPUTE('*', COMPUTE('*', n, 2), 3) == COMPUTE('*', n, 6));
    assert_true(COMPUTE('/', COMPUTE('*', n, 6), 3) == COMPUTE('*', n, 2));
    assert_true(COMPUTE('/', COMPUTE('*', COMPUTE('*', n, m), 6), COMPUTE('*', m, 2)) == COMPUTE('*', n, 3));
    assert_true(COMPUTE('/', COMPUTE('*', n, m), n) == m);
    assert_true(COMPUTE('^', COMPUTE('*', n, m), m) == n);
    assert_true(COMPUTE('/', n, n) == 1);
    assert_true(COMPUTE('/', n, 2) != COMPUTE('^', n, 2));
    assert_true(COMPUTE('/', COMPUTE('*', n, 3), 2) != n);
    assert_true(COMPUTE('/', n, 0) == OP_DIM_UNKNOWN);
    assert_true(COMPUTE('+', n, OP_DIM_UNKNOWN) == OP_DIM_UNKNOWN);
    assert_true(COMPUTE('+', COMPUTE('+', n, INT64_MAX), INT64_MAX) !=
                OP_DIM_UNKNOWN); /* not folded: it would overflow */
    assert_true(COMPUTE('?', n, m) == OP_DIM_UNKNOWN);
#undef COMPUTE
    ir_module_free(module);
}

static void release_is_called_once_also_on_failure(void **state) {
    (void)state;
    support_allocator counting;
    support_allocator_init(&counting);
    ir_module *module = ir_module_new(&counting.allocator, "m");
    const op_type type = {.dtype = OP_UINT8, .shape = {1, {1000}}};
    void *data;
    ir_value *value = ir_constant_reserve(module, "c", &type, 1000, &data);
    assert_non_null(value);
    assert_int_equal((uintptr_t)data % 64, 0);
    memset(data, 1, 1000);
    size_t live = counting.live;
    ir_constant_remove(module, value);
    assert_int_equal(counting.live, live - 1);
    assert_non_null(ir_constant_reserve(module, "c", &type, 1000, &data));
    assert_null(ir_constant_reserve(module, "c", &type, SIZE_MAX - 8, &data));
    counting.fail_at = counting.count + 1;
    live = counting.live;
    while (base_arena_alloc(&module->arena, 1, 16)) continue; /* until nothing is left */
    op_tensor tensor = {.type = type, .bytes = 1000, .data = malloc(1000)};
    assert_null(
        ir_constant_new(module, "d", &tensor, free, tensor.data)); /* a leak would be seen by a sanitizer */
    assert_int_equal(counting.live, live);
    ir_module_free(module);
    assert_int_equal(counting.live, 0);
}

/* A clone prints as what it is a clone of, and changes alone. */
static void clones_are_equal(void **state) {
    (void)state;
    static const char *const cases[] = {"ir/cases/control.ir", "ir/cases/round_trip.ir"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = support_read_golden(cases[i], NULL);
        ir_module *module = support_module(text, false), *clone = ir_module_clone(module);
        assert_non_null(clone);
        char *first = support_print(module, true), *second = support_print(clone, true);
        assert_string_equal(first, second);
        assert_int_equal(ir_verify(clone, "clone", NULL), ir_verify(module, "clone", NULL));
        ir_module_free(clone);
        ir_module_free(module);
        free(first);
        free(second);
        free(text);
    }
}

/* Many values of one name, uses of one value, nested captures: nothing that grows with the square. */
static void large_modules_are_made_in_linear_time(void **state) {
    (void)state;
    enum { NODES = 200000 };
    ir_module *module = ir_module_new(NULL, "large");
    ir_graph *graph = ir_graph_new(module, "main");
    const op_type type = {.dtype = OP_FLOAT, .shape = {1, {4}}};
    ir_value *x = ir_graph_add_parameter(graph, "x", &type), *value = x;
    for (int i = 0; i < NODES; i++) {
        ir_value *inputs[] = {value, x};
        ir_node *node = ir_node_new(graph, NULL, OP_ADD, "add", "main", (op_attributes){0}, 2, inputs);
        assert_non_null(node);
        value = ir_node_add_output(node, i % 2 ? "same" : NULL, &type);
        assert_non_null(value);
        assert_true(ir_symbol_compute(module, '+', ir_symbol_named(module, "N"), i + 1) != OP_DIM_UNKNOWN);
    }
    assert_true(ir_graph_add_result(graph, value));
    assert_verified(module, "made");
    assert_int_equal(ir_value_use_count(x), NODES + 1);
    ir_value *y = ir_graph_add_parameter(graph, "y", &type);
    ir_value_replace(x, y);
    assert_int_equal(ir_value_use_count(y), NODES + 1);
    char *text = support_print(module, false);
    ir_module_free(module);
    module = support_module(text, true);
    assert_int_equal(module->main->node_count, NODES);
    ir_module_free(module);
    free(text);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_prints_as_it_was_written),
        cmocka_unit_test(large_constants_print_a_hash_or_all),
        cmocka_unit_test(reals_come_back_bit_by_bit),
        cmocka_unit_test(half_precision_rounds_to_nearest),
        cmocka_unit_test(wrong_texts_are_named_with_line_and_column),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(mutated_texts_neither_crash_nor_leak),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(uses_follow_every_change),
        cmocka_unit_test(inputs_grow_and_shrink),
        cmocka_unit_test(removing_a_node_removes_what_it_owns),
        cmocka_unit_test(captures_are_found_once_in_order_of_use),
        cmocka_unit_test(attributes_are_copied_in_depth_and_set),
        cmocka_unit_test(equal_computations_give_equal_symbols),
        cmocka_unit_test(release_is_called_once_also_on_failure),
        cmocka_unit_test(large_modules_are_made_in_linear_time),
        cmocka_unit_test(clones_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
