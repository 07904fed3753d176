/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient.c: what Gradient gives, against differences of the function itself at points that lie close together. */
#include "compiler/ouro_compiler.h"
#include "tests/support/onnx.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 32, INPUTS = 2 };

/* y as nodes of a and b: "Op input,input>output attributes;" where attributes are "name=number", "name=1:0" lists.
 * In them, w is the constant 0.5, s the vector {1, -1} for shapes, and t the vector {0}. */
typedef struct function {
    const char *nodes;
    const char *a, *b; /* shapes */
} function;

static const function functions[] = {
    {"Add a,b>y", "2,3", "3"},
    {"Sub a,b>y", "3", "2,3"},
    {"Mul a,b>c;Mul c,a>y", "2,1", "1,3"},
    {"Div a,b>y", "2,3", "2,3"},
    {"Div a,b>y", "3", "2,1"},
    {"Neg a>c;Abs c>d;Mul d,b>y", "4", "4"},
    {"Exp a>c;Log b>d;Mul c,d>y", "2,2", "2,2"},
    {"Sqrt a>c;Reciprocal b>d;Mul c,d>y", "3", "3"},
    {"Tanh a>c;Sigmoid b>d;Mul c,d>y", "3", "3"},
    {"Softplus a>c;Sin b>d;Mul c,d>e;Cos e>y", "3", "3"},
    {"Sub a,b>c;Relu c>d;LeakyRelu c>e alpha=0.3;Add d,e>f;Mul f,a>y", "4", "4"},
    {"Pow a,b>y", "3", "3"},
    {"Max a,b>c;Min a,b>d;Mul c,d>e;Mul e,a>y", "5", "5"},
    {"MatMul a,b>y", "2,3", "3,4"},
    {"MatMul a,b>c;Mul c,c>y", "2,2,3", "3,2"},
    {"Gemm a,b,w>y alpha=0.5 transA=1", "3,2", "3,4"},
    {"Gemm a,b,w>c transB=1;Mul c,c>y", "2,3", "4,3"},
    {"Gemm a,b>y transA=1 transB=1 alpha=2.0", "3,2", "4,3"},
    {"ReduceSum a>c;Mul c,b>y", "2,3", "3"},
    {"ReduceMean a>c axes=1 keepdims=0;Mul c,b>y", "2,3", "2"},
    {"ReduceSum a,t>c keepdims=0;ReduceMean b>d keepdims=0;Mul c,d>y", "2,3", "2,2"},
    {"Transpose a>c perm=1:2:0;Mul c,b>y", "2,3,2", "3,2,2"},
    {"Reshape a,s>c;Unsqueeze b,t>d;Mul c,d>y", "2,3", "6"},
    {"Flatten a>c;Squeeze b,t>d;Mul c,d>y", "2,2,1", "1,2"},
    {"Softmax a>c axis=-1;Mul c,b>y", "2,3", "2,3"},
    {"Greater a,b>c;Where c,a,b>d;Mul d,a>y", "4", "4"},
    {"Identity a>c;Expand b,u>d;Mul c,d>y", "2,3", "3"},
    {"Sum a,b,a>y", "3", "3"},
    {"Mul a,a>y", "3", "3"}, /* b does not matter */
};

static void add_node(onnx *o, char *text) {
    char *inputs = strchr(text, ' '), *outputs = strchr(inputs, '>'), *rest = strchr(outputs, ' ');
    *inputs++ = *outputs++ = 0;
    if (rest) *rest++ = 0;
    Onnx__NodeProto *node = onnx_node(o, o->graph, text, "", inputs, outputs);
    for (char *save, *item = rest ? strtok_r(rest, " ", &save) : NULL; item;
         item = strtok_r(NULL, " ", &save)) {
        char *value = strchr(item, '=');
        *value++ = 0;
        for (char *c = value; *c; c++) *c = *c == ':' ? ',' : *c;
        if (strchr(value, '.')) onnx_set_real(o, node, item, strtof(value, NULL));
        else if (strchr(value, ',') || strcmp(item, "axes") == 0) onnx_set_integers(o, node, item, value);
        else onnx_set_integer(o, node, item, strtoll(value, NULL, 10));
    }
}

static void set_names(onnx *o, Onnx__NodeProto *node, const char *name, int count, const char *const *names) {
    Onnx__AttributeProto *attribute =
        onnx_attribute(o, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    attribute->n_strings = (size_t)count;
    attribute->strings = onnx_take(o, (size_t)count * sizeof *attribute->strings);
    for (int i = 0; i < count; i++) {
        attribute->strings[i].data = (uint8_t *)onnx_text(o, names[i]);
        attribute->strings[i].len = strlen(names[i]);
    }
}

/* Outputs y, dy/da, dy/db. With `moved`, the derivative is taken at the inputs p and q instead of a and b. */
static ouro_plan *compile(const function *f, bool moved) {
    static const char *const names[] = {"a", "b"};
    const int64_t shape[] = {1, -1}, zero[] = {0}, wide[] = {2, 1};
    const double half = 0.5;
    char text[512], *save;
    onnx *o = onnx_new(13);
    onnx_opset(o, "ai.onnx.preview.training", 1);
    onnx_input(o, o->graph, "a", 11, f->a);
    onnx_input(o, o->graph, "b", 11, f->b);
    if (moved) {
        onnx_input(o, o->graph, "p", 11, f->a);
        onnx_input(o, o->graph, "q", 11, f->b);
    }
    onnx_integers(o, o->graph, "s", 2, shape);
    onnx_integers(o, o->graph, "t", 1, zero);
    onnx_integers(o, o->graph, "u", 2, wide);
    Onnx__TensorProto *w = onnx_tensor(o, "w", 11, "");
    onnx_raw(o, w, &half, sizeof half);
    onnx_initializer(o, o->graph, w);
    Onnx__NodeProto *node =
        onnx_node(o, o->graph, "Gradient", "", moved ? "p,q" : "a,b", "da,db"); /* before y */
    node->domain = onnx_text(o, "ai.onnx.preview.training");
    set_names(o, node, "xs", INPUTS, names);
    onnx_set_text(o, node, "y", "y");
    snprintf(text, sizeof text, "%s", f->nodes);
    for (char *part = strtok_r(text, ";", &save); part; part = strtok_r(NULL, ";", &save)) {
        char own[128];
        snprintf(own, sizeof own, "%s", part);
        add_node(o, own);
    }
    onnx_output(o, o->graph, "y");
    onnx_output(o, o->graph, "da");
    onnx_output(o, o->graph, "db");
    onnx_write(o, "gradient.onnx");
    onnx_free(o);
    ouro_compile_options options = {.model_path = "gradient.onnx"};
    ouro_plan *plan;
    ouro_error error;
    if (ouro_compile_plan(&options, &plan, &error) != OURO_OK) fail_msg("%s: %s", f->nodes, error.message);
    if (!moved) assert_true(onnx_import_without_memory("gradient.onnx", NULL, 0) > 0);
    unlink("gradient.onnx");
    return plan;
}

/* The sum of the elements of y; the derivatives where asked for. */
static double evaluate(ouro_session *session, double *const derivatives[]) {
    ouro_tensor_info info;
    const void *data;
    ouro_error error;
    assert_int_equal(ouro_session_run(session, &error), OURO_OK);
    for (size_t i = 0; derivatives && i < INPUTS; i++) {
        assert_int_equal(ouro_session_output(session, i + 1, &info, &data, &error), OURO_OK);
        memcpy(derivatives[i], data, info.bytes);
    }
    assert_int_equal(ouro_session_output(session, 0, &info, &data, &error), OURO_OK);
    double sum = 0;
    for (size_t i = 0; i < info.bytes / sizeof sum; i++) sum += ((const double *)data)[i];
    return sum;
}

static void derivatives_are_those_of_the_function(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof functions / sizeof *functions); i++) {
        const function *f = &functions[i / 2];
        bool moved = i % 2;
        ouro_plan *plan = compile(f, moved);
        ouro_session *session;
        ouro_error error;
        assert_int_equal(ouro_session_new(plan, NULL, &session, &error), OURO_OK);
        double given[INPUTS][MOST], other[INPUTS][MOST], derivative[INPUTS][MOST];
        size_t counts[INPUTS];
        for (size_t k = 0; k < INPUTS; k++) {
            ouro_tensor_info info;
            assert_int_equal(ouro_plan_input(plan, k, &info), OURO_OK);
            counts[k] = info.bytes / sizeof(double);
            for (size_t e = 0; e < counts[k]; e++) {
                given[k][e] = 0.6 + 0.37 * (double)((5 * e + 3 * k + 1) % 7) / 2; /* positive, no two alike */
                other[k][e] = 3 - given[k][e] / 2;
            }
            assert_int_equal(ouro_session_bind_input(session, k, given[k], info.bytes, NULL, &error),
                             OURO_OK);
            if (!moved) continue;
            /* The derivative is wanted at `given`, the function of the graph itself is at `other`. */
            assert_int_equal(ouro_session_bind_input(session, k, other[k], info.bytes, NULL, &error),
                             OURO_OK);
            assert_int_equal(ouro_session_bind_input(session, 2 + k, given[k], info.bytes, NULL, &error),
                             OURO_OK);
        }
        double *const derivatives[] = {derivative[0], derivative[1]};
        evaluate(session, derivatives);
        for (size_t k = 0; k < INPUTS; k++) /* the function at `given` from here on */
            assert_int_equal(
                ouro_session_bind_input(session, k, given[k], counts[k] * sizeof(double), NULL, &error),
                OURO_OK);
        for (size_t k = 0; k < INPUTS; k++) {
            for (size_t e = 0; e < counts[k]; e++) {
                const double step = 1e-6, at = given[k][e];
                given[k][e] = at + step;
                double above = evaluate(session, NULL);
                given[k][e] = at - step;
                double below = evaluate(session, NULL), slope = (above - below) / (2 * step);
                given[k][e] = at;
                if (fabs(slope - derivative[k][e]) > 1e-6 * (1 + fabs(slope)))
                    fail_msg("%s: by input %zu [%zu]: %.9g, the differences say %.9g", f->nodes, k, e,
                             derivative[k][e], slope);
            }
        }
        ouro_session_free(session);
        ouro_plan_free(plan);
    }
}

static void what_has_no_derivative_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *nodes, *a, *b, *message;
    } cases[] = {
        {"Erf a>y", "2", "2", "the derivative of Erf (making \"y\") is not supported"},
        {"MatMul a,b>y", "2", "2", "the derivative of MatMul (making \"y\") is not supported for vectors"},
        {"Mul a,b>y", "N", "2",
         "the derivative of Mul (making \"y\") is not supported where extents are not known"},
        {"Less a,b>y", "2", "2", "\"y\" is of type bool, only reals have derivatives"},
        {"Neg a>z", "2", "2", "attribute \"y\" names \"y\", which is no tensor here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        onnx *o = onnx_new(13);
        static const char *const names[] = {"a", "b"};
        char text[128];
        onnx_opset(o, "ai.onnx.preview.training", 1);
        onnx_input(o, o->graph, "a", 1, cases[i].a);
        onnx_input(o, o->graph, "b", 1, cases[i].b);
        snprintf(text, sizeof text, "%s", cases[i].nodes);
        add_node(o, text);
        Onnx__NodeProto *node = onnx_node(o, o->graph, "Gradient", "", "a,b", "da,db");
        node->domain = onnx_text(o, "ai.onnx.preview.training");
        set_names(o, node, "xs", INPUTS, names);
        onnx_set_text(o, node, "y", "y");
        onnx_output(o, o->graph, "da");
        onnx_write(o, "gradient.onnx");
        onnx_free(o);
        ouro_compile_options options = {.model_path = "gradient.onnx"};
        ouro_plan *plan;
        ouro_error error;
        assert_int_equal(ouro_compile_plan(&options, &plan, &error), OURO_INVALID);
        if (!strstr(error.message, cases[i].message))
            fail_msg("\"%s\" does not say \"%s\"", error.message, cases[i].message);
        unlink("gradient.onnx");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(derivatives_are_those_of_the_function),
                                       cmocka_unit_test(what_has_no_derivative_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
