/* SPDX-License-Identifier: Apache-2.0 */
/* test_ir_verify.c: the verifier names each broken rule. Every case breaks one thing of a module that holds,
 * by hand or in its text, and looks for the message. */
#include "tests/support/support.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const model = "module \"m\" {\n"
                                 "  symbol N\n"
                                 "  constant %k: float32[2] = {1.0, 2.0}\n"
                                 "  graph main(%x: float32[N,2], %c: bool[]) at \"main\" {\n"
                                 "    %a: float32[N,2] = Add(%x, %k) \"first\"\n"
                                 "    %s: float32[N,2] = Softmax(%a) {axis = 1} \"soft\"\n"
                                 "    %i: float32[N,2] = If(%c) \"choice\" {\n"
                                 "      graph then() {\n"
                                 "        %t: float32[N,2] = Relu(%s) \"inside\"\n"
                                 "        yield %t\n"
                                 "      }\n"
                                 "      graph else() {\n"
                                 "        yield %a\n"
                                 "      }\n"
                                 "    }\n"
                                 "    yield %i\n"
                                 "  }\n"
                                 "}\n";

static ir_value *value_named(const ir_module *module, const char *name) {
    ir_value *value = base_map_get(&module->names, name);
    if (!value) fail_msg("no value %s", name);
    return value;
}

static void expect_broken(const ir_module *module, const char *message) {
    base_report report = {0};
    base_report_context(&report, "before");
    assert_int_equal(ir_verify(module, "after test", &report), BASE_INVALID);
    if (!strstr(report.text, message)) fail_msg("expected: %s\nfound: %s", message, report.text);
    assert_string_equal(report.context, "before"); /* the caller's context stays */
    assert_int_equal(ir_verify(module, "after test", NULL), BASE_INVALID);
}

static void a_whole_module_holds(void **state) {
    (void)state;
    ir_module_free(support_module(model, true));
    ir_module *empty = ir_module_new(NULL, "m");
    expect_broken(empty, "m: after test: there is no main graph");
    ir_module_free(empty);
}

/* ---- broken by hand ----------------------------------------------------------------------------- */

typedef struct breakage {
    void (*apply)(ir_module *module);
    const char *message;
} breakage;

static void use_before_definition(ir_module *m) {
    ir_node_move(value_named(m, "a")->node, NULL);
}
static void use_outside_of_graph(ir_module *m) {
    ir_graph_set_result(m->main, 0, value_named(m, "t"));
}
static void use_inside_of_owner(ir_module *m) {
    ir_graph_set_result(value_named(m, "t")->graph, 0, value_named(m, "i"));
}
static void absent_input(ir_module *m) {
    ir_node_set_input(value_named(m, "a")->node, 1, NULL);
}
static void too_many_inputs(ir_module *m) {
    ir_node_set_input(value_named(m, "s")->node, 1, value_named(m, "k"));
}
static void too_few_inputs(ir_module *m) {
    ir_node_remove_input(value_named(m, "a")->node, 1);
}
static void too_many_outputs(ir_module *m) {
    ir_node_add_output(value_named(m, "a")->node, "more", NULL);
}
static void absent_output(ir_module *m) {
    ir_node *node = ir_node_new(m->main, NULL, OP_RELU, "r", "main", (op_attributes){0}, 1,
                                (ir_value *[]){value_named(m, "x")});
    ir_node_add_absent_output(node);
}
static void operator_number(ir_module *m) {
    value_named(m, "a")->node->code = OP_CODE_COUNT;
}

static void set_attribute(ir_module *m, const char *value, op_attribute attribute) {
    assert_true(ir_attribute_set(m, &value_named(m, value)->node->attributes, &attribute));
}
static void unknown_attribute(ir_module *m) {
    set_attribute(m, "s", (op_attribute){.name = "axes", .kind = OP_ATTRIBUTE_INT, .count = 1});
}
static void prefix_of_attribute(ir_module *m) {
    set_attribute(m, "s", (op_attribute){.name = "axi", .kind = OP_ATTRIBUTE_INT, .count = 1});
}
static void attribute_kind(ir_module *m) {
    set_attribute(m, "s", (op_attribute){.name = "axis", .kind = OP_ATTRIBUTE_FLOAT, .count = 1});
}
static void attribute_twice(ir_module *m) {
    op_attributes *attributes = &value_named(m, "s")->node->attributes;
    op_attribute *twice = BASE_ARRAY(&m->arena, op_attribute, 2);
    twice[0] = twice[1] = attributes->items[0];
    *attributes = (op_attributes){2, twice};
}
static void graphs_of_relu(ir_module *m) {
    ir_node_add_graph(value_named(m, "s")->node, ir_graph_new(m, "g"));
}
static void orphan_graph(ir_module *m) {
    ir_graph_new(m, "orphan");
}
static void owner_of_graph(ir_module *m) {
    value_named(m, "t")->graph->owner = value_named(m, "a")->node;
}
static void graph_twice(ir_module *m) {
    ir_node *node = value_named(m, "i")->node;
    node->graphs[1] = node->graphs[0];
}
static void removed_from_table(ir_module *m) {
    m->values[value_named(m, "a")->id.index] = NULL;
}
static void node_removed_from_table(ir_module *m) {
    m->nodes[value_named(m, "a")->node->id.index] = NULL;
}
static void name_of_another(ir_module *m) {
    value_named(m, "a")->name = "x";
}
static void no_name(ir_module *m) {
    value_named(m, "a")->name = "";
}
static void wrong_number(ir_module *m) {
    value_named(m, "k")->id.index++;
}
static void wrong_index(ir_module *m) {
    value_named(m, "c")->index = 0;
}
static void wrong_node(ir_module *m) {
    value_named(m, "a")->node = value_named(m, "s")->node;
}
static void output_twice(ir_module *m) {
    value_named(m, "s")->node->outputs[0] = value_named(m, "a");
}
static void slot_index(ir_module *m) {
    value_named(m, "a")->node->inputs[0]->index = 1;
}
static void use_not_listed(ir_module *m) {
    value_named(m, "x")->uses = NULL;
}
static void use_list_loops(ir_module *m) {
    ir_use *use = value_named(m, "a")->uses;
    use->next->next = use;
}
static void use_of_another(ir_module *m) {
    value_named(m, "x")->uses->value = value_named(m, "k"); /* lists disagree with slots */
}
static void list_loops(ir_module *m) {
    value_named(m, "s")->node->next = value_named(m, "a")->node;
}
static void list_backwards(ir_module *m) {
    value_named(m, "s")->node->previous = NULL;
}
static void node_count(ir_module *m) {
    m->main->node_count++;
}
static void last_node(ir_module *m) {
    m->main->last = m->main->first;
}
static void node_of_another_graph(ir_module *m) {
    value_named(m, "t")->node->graph = m->main;
}
static void absent_result(ir_module *m) {
    ir_graph_set_result(m->main, 0, NULL);
}
static void rank(ir_module *m) {
    value_named(m, "x")->type.shape.rank = OP_MAX_RANK + 1;
}
static void symbol(ir_module *m) {
    value_named(m, "x")->type.shape.dims[0] = -99;
}
static void dtype(ir_module *m) {
    value_named(m, "x")->type.dtype = OP_DTYPE_COUNT;
}
static void constant_bytes(ir_module *m) {
    value_named(m, "k")->constant->tensor.bytes = 4;
}
static void constant_data(ir_module *m) {
    value_named(m, "k")->constant->tensor.data = NULL;
}
static void constant_type(ir_module *m) {
    value_named(m, "k")->type.shape.dims[0] = OP_DIM_UNKNOWN;
}
static void missing_graph(ir_module *m) {
    value_named(m, "i")->node->graph_count = 1;
}
static void results_of_branch(ir_module *m) {
    ir_graph_add_result(value_named(m, "t")->graph, value_named(m, "t"));
}
static void parameters_of_branch(ir_module *m) {
    ir_graph_add_parameter(value_named(m, "t")->graph, "p", NULL);
}
static void type_of_branch(ir_module *m) {
    value_named(m, "t")->type.dtype = OP_DOUBLE;
}
static void kind_of_branch(ir_module *m) {
    value_named(m, "t")->type.kind = OP_KIND_SEQUENCE;
}
static void type_of_condition(ir_module *m) {
    value_named(m, "c")->type.dtype = OP_FLOAT;
}
static void elements_of_condition(ir_module *m) {
    value_named(m, "c")->type.shape = (op_shape){1, {2}};
}

static void each_broken_rule_is_named(void **state) {
    (void)state;
    static const breakage breakages[] = {
        {use_before_definition,
         "m: main: node \"soft\" (Softmax): after test: input 0, %a, is not defined before it "
         "is used"},
        {use_outside_of_graph,
         "m: graph \"main\": after test: result 0, %t, is not defined before it is used"},
        {use_inside_of_owner,
         "m: graph \"then\": after test: result 0, %i, is not defined before it is used"},
        {absent_input, "m: main: node \"first\" (Add): after test: input 1 is absent, Add needs it"},
        {too_many_inputs, "2 inputs given, Softmax takes 1 to 1"},
        {too_few_inputs, "1 inputs given, Add takes 2 to 2"},
        {too_many_outputs, "2 outputs given, Add makes 1 to 1"},
        {absent_output, "output 0 is absent, Relu always makes it"},
        {operator_number, "which does not exist"},
        {unknown_attribute, "Softmax has no attribute axes; it has: axis:i"},
        {prefix_of_attribute, "Softmax has no attribute axi; it has: axis:i"},
        {attribute_kind, "attribute axis is of kind f, expected i"},
        {attribute_twice, "attribute axis is given twice"},
        {graphs_of_relu, "Softmax owns no graphs"},
        {orphan_graph, "graph \"orphan\" is neither main nor owned"},
        {owner_of_graph, "m: graph \"then\": after test: the graph names another owner"},
        {graph_twice, "m: graph \"then\": after test: the graph is owned twice"},
        {removed_from_table, "output 0 is a value that was removed"},
        {node_removed_from_table, "the node is not in the module's table"},
        {name_of_another, "the name %x is not this value's alone"},
        {no_name, "has no name"},
        {wrong_number, "%k has number"},
        {wrong_index, "%c does not know that it is parameter 1 here"},
        {wrong_node, "%a does not know that it is output 0 here"},
        {output_twice, "%a is defined in two places"},
        {slot_index, "the slot of input 0 believes to be elsewhere"},
        {use_not_listed, "uses are listed with the values"},
        {use_list_loops, "the list of uses of %a holds one that is none"},
        {use_of_another, "the list of uses of %x holds one that is none"},
        {list_loops, "nodes stand in the list"},
        {list_backwards, "node \"soft\" does not know the one before it"},
        {node_count, "3 nodes stand in the list, 4 are counted"},
        {last_node, "the last node of the list is another one"},
        {node_of_another_graph,
         "m: graph \"then\": after test: node \"inside\" (Relu) believes to stand in another "
         "graph"},
        {absent_result, "m: graph \"main\": after test: result 0 is absent"},
        {rank, "the rank of %x is 13, at most 12 is possible"},
        {symbol, "dimension 0 of %x is a symbol that does not exist"},
        {dtype, "the type of %x has a number that stands for nothing"},
        {constant_bytes, "constant %k has 4 bytes, its type 8"},
        {constant_data, "constant %k has no data"},
        {constant_type, "the size of constant %k does not follow from its type"},
        {missing_graph, "m: main: node \"choice\" (If): after test: If owns 1 graphs, expected two"},
        {results_of_branch, "branch 0 has 2 results, the node 1 outputs"},
        {parameters_of_branch, "branch 0 has parameters, expected none"},
        {type_of_branch, "result of then 0: %t is float64, %i is float32"},
        {kind_of_branch, "result of then 0: %t is no tensor of float32, %i is float32"},
        {type_of_condition, "the condition is float32, expected bool"},
        {elements_of_condition, "the condition has 2 elements, expected one"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++) {
        ir_module *module = support_module(model, true);
        breakages[i].apply(module);
        expect_broken(module, breakages[i].message);
        ir_module_free(module);
    }
}

/* ---- loops -------------------------------------------------------------------------------------- */

static void loops_fit_their_bodies(void **state) {
    (void)state;
#define LOOP(parameters, inputs, outputs, attributes, results)                                               \
    "module \"m\" { constant %n: int64[] = {3} constant %n2: int64[2] = {3, 3}\n"                            \
    "graph main(%a: float32[4], %q: float32[9,4], %go: bool[], %d: float64[4]) {" outputs " = Loop(" inputs  \
    ") " attributes " \"loop\" { graph body(" parameters ") { yield " results " } } yield } }"
#define BODY "%i: int64[], %k: bool[], %s: float32[4]"
    static const struct {
        const char *text, *message; /* NULL: it holds */
    } cases[] = {
        {LOOP(BODY, "%n, %go, %a", "%y: float32[4]", "", "%k, %s"), NULL},
        {LOOP(BODY, "_, _, %a", "%y: float32[4], %z: float32[?,4]", "", "%k, %s, %s"), NULL},
        {LOOP(BODY ", %l: float32[4]", "%n, _, %a, %q", "%y: float32[4], %z: float32[9,4]",
              "{ouro.scan_inputs = 1, ouro.scan_outputs = 1, ouro.scan_input_axes = [0]}", "%k, %l, %s"),
         NULL},
        {LOOP(BODY, "%n2, _, %a", "%y: float32[4]", "", "%k, %s"),
         "the trip count has 2 elements, expected one"},
        {LOOP(BODY, "%go, _, %a", "%y: float32[4]", "", "%k, %s"), "the trip count is bool, expected int64"},
        {LOOP(BODY, "%n, %n, %a", "%y: float32[4]", "", "%k, %s"), "the condition is int64, expected bool"},
        {LOOP(BODY, "%n, _, _", "%y: float32[4]", "", "%k, %s"), "input 2 is absent"},
        {LOOP(BODY, "%n, _", "%y: float32[4]", "", "%k, %s"), "the body has 3 parameters, expected 2"},
        {LOOP(BODY, "%n, _, %a", "%y: float32[4]", "", "%k"), "the body has 1 results, expected 2"},
        {LOOP(BODY, "%n, _, %a, %a", "%y: float32[4]", "", "%k, %s"), "1 outputs for 2 carried parameters"},
        {LOOP(BODY, "%n, _, %a", "%y: float32[4]", "", "%s, %s"),
         "the condition result is float32, expected bool"},
        {LOOP(BODY, "%n, _, %d", "%y: float32[4]", "", "%k, %s"), "carried 0: %d is float64, %s is float32"},
        {LOOP(BODY, "%n, _, %a", "%y: float64[4]", "", "%k, %s"), "carried 0: %s is float32, %y is float64"},
        {LOOP(BODY, "%n, _, %a", "%y: ?", "", "%k, %d"), "carried 0: %s is float32, %d is float64"},
        {LOOP(BODY, "%n, _, %a", "%y: float32[4], %z: float64[?,4]", "", "%k, %s, %s"),
         "stacked 1: %s is float32, %z is float64"},
        {LOOP("%i: int32[], %k: bool[], %s: float32[4]", "%n, _, %a", "%y: float32[4]", "", "%k, %s"),
         "the iteration number is int32, expected int64"},
        {LOOP(BODY, "%n, _, %a", "%y: float32[4]", "{ouro.scan_inputs = 2}", "%k, %s"),
         "ouro.scan_inputs is 2, expected 0 to 1"},
        {LOOP(BODY, "%n, _, %a", "%y: float32[4]", "{ouro.scan_inputs = -1}", "%k, %s"),
         "ouro.scan_inputs is -1, expected 0 to 1"},
        {LOOP(BODY, "%n, _, %a", "%y: float32[4]", "{ouro.scan_outputs = 1}", "%k, %s"),
         "ouro.scan_outputs is 1, 0 outputs follow the carried ones"},
        {LOOP(BODY, "%n, _, %a", "%y: float32[4]", "{ouro.scan_output_axes = [0]}", "%k, %s"),
         "ouro.scan_output_axes lists 1 numbers, expected 0"},
        {LOOP(BODY, "%n, _, %a", "%y: float32[4], %z: float32[?,4]", "{ouro.scan_output_shapes = [2, 4]}",
              "%k, %s, %s"),
         "ouro.scan_output_shapes does not list 1 shapes"},
    };
#undef BODY
#undef LOOP
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ir_module *module = support_module(cases[i].text, cases[i].message == NULL);
        if (cases[i].message) expect_broken(module, cases[i].message);
        ir_module_free(module);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_module_holds),
        cmocka_unit_test(each_broken_rule_is_named),
        cmocka_unit_test(loops_fit_their_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
