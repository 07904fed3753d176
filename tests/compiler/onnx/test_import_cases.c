/* SPDX-License-Identifier: Apache-2.0 */
/* test_import_cases.c: the models of ONNX's own cases of operators, spoiled: inputs left out, of another type or shape, attributes
 * with other values, other opsets; and while memory runs out. What is read keeps the rules of the IR, what is refused gets
 * a message. A sample of the cases; OURO_EVERY_CASE=N: every Nth (1: all). */
#include "compiler/onnx/import.h"
#include "tests/support/onnx.h"
#include "tests/support/support.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { USUAL = 40, NODES = 4 }; /* cases, and nodes of a case that are spoiled */

#define DEBIAN "/usr/lib/python3/dist-packages/onnx/backend/test/data/node/*/model.onnx"
#define NEWEST TEST_BINARY_DIR "/tests/onnx_cases/node/*/model.onnx" /* where that test has unpacked them */

static base_report report;

typedef struct sweep {
    const char *path;
    Onnx__ModelProto *model;
    size_t tried, refused, models;
} sweep;

/* ---- what is spoiled -------------------------------------------------------------------------------------- */

static void try(sweep *s, const char *what) {
    const size_t size = protobuf_c_message_get_packed_size(&s->model->base);
    uint8_t *bytes = malloc(size + 1);
    ir_module *module;
    assert_non_null(bytes);
    protobuf_c_message_pack(&s->model->base, bytes);
    onnx_write_bytes("case.onnx", bytes, size);
    free(bytes);
    base_report_clear(&report);
    const base_status status = import_model("case.onnx", NULL, 0, NULL, &module, &report);
    if (status == BASE_OK && ir_verify(module, "imported", &report) != BASE_OK)
        fail_msg("%s, %s: %s", s->path, what, report.text);
    if (status != BASE_OK &&
        (status != BASE_INVALID || !report.length || strstr(report.text, "out of memory")))
        fail_msg("%s, %s: status %d, \"%s\"", s->path, what, (int)status, report.text);
    ir_module_free(module);
    s->tried++;
    s->refused += status != BASE_OK;
}

static void spoil_type(sweep *s, Onnx__ValueInfoProto *input) {
    Onnx__TypeProto *type = input->type;
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return;
    Onnx__TypeProto__Tensor *tensor = type->tensor_type;
    static const int32_t types[] = {0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 16, 99};
    const int32_t type_before = tensor->elem_type;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        tensor->elem_type = types[i];
        try(s, "an input of another type");
    }
    tensor->elem_type = type_before;
    Onnx__TensorShapeProto *shape = tensor->shape;
    if (!shape) return;
    tensor->shape = NULL;
    try(s, "an input of no shape");
    tensor->shape = shape;
    const size_t rank = shape->n_dim;
    Onnx__TensorShapeProto__Dimension **dims = shape->dim, **longer = calloc(rank + 1, sizeof *dims),
                                      extra = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT;
    assert_non_null(longer);
    for (shape->n_dim = 0; shape->n_dim < rank; shape->n_dim++) try(s, "an input of less dimensions");
    extra.value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    extra.dim_value = 2;
    if (rank) memcpy(longer, dims, rank * sizeof *dims);
    longer[rank] = &extra;
    shape->dim = longer;
    shape->n_dim = rank + 1;
    try(s, "an input of one dimension more");
    shape->n_dim = rank;
    for (size_t k = 0; k < rank; k++) {
        static const int64_t extents[] = {0, 1, 2, 5, 7, INT64_C(1) << 40, -1};
        longer[k] = &extra;
        for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
            extra.dim_value = extents[i];
            try(s, "a dimension of another extent");
        }
        extra.value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
        try(s, "a dimension that is not known");
        extra.value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        longer[k] = dims[k];
    }
    shape->dim = dims;
    free(longer);
}

static void spoil_attribute(sweep *s, Onnx__AttributeProto *a) {
    static const int64_t integers[] = {-2, -1, 0, 1, 2, 3, 17, INT64_MAX, INT64_MIN};
    static const float reals[] = {-1, 0, 0.5f, 1e30f};
    static const char *const texts[] = {"", "x", "linear", "SAME_LOWER", "VALID", "mul", "Relu", "reflect"};
    const int64_t i = a->i;
    const float f = a->f;
    const ProtobufCBinaryData text = a->s;
    for (size_t k = 0; a->has_i && k < sizeof integers / sizeof *integers; k++) {
        a->i = integers[k];
        try(s, a->name);
    }
    a->i = i;
    for (size_t k = 0; a->has_f && k < sizeof reals / sizeof *reals; k++) {
        a->f = reals[k];
        try(s, a->name);
    }
    a->f = f;
    for (size_t k = 0; a->has_s && k < sizeof texts / sizeof *texts; k++) {
        a->s = (ProtobufCBinaryData){strlen(texts[k]), (uint8_t *)(uintptr_t)texts[k]};
        try(s, a->name);
    }
    a->s = text;
    size_t *const counts[] = {&a->n_ints, &a->n_floats, &a->n_strings};
    for (int k = 0; k < 3; k++) {
        if (!*counts[k]) continue;
        --*counts[k];
        try(s, "a list that is shorter");
        ++*counts[k];
    }
    for (size_t k = 0; k < a->n_ints && k < 3; k++) {
        const int64_t before = a->ints[k];
        for (size_t at = 0; at < sizeof integers / sizeof *integers; at++) {
            a->ints[k] = integers[at];
            try(s, a->name);
        }
        a->ints[k] = before;
    }
}

static void spoil_node(sweep *s, Onnx__NodeProto *node) {
    char **const inputs = node->input, **const outputs = node->output;
    const size_t input_count = node->n_input, output_count = node->n_output,
                 attribute_count = node->n_attribute;
    for (size_t i = 0; i < input_count; i++) {
        char *before = inputs[i];
        inputs[i] = (char *)(uintptr_t) "";
        try(s, "an absent input");
        inputs[i] = i ? inputs[0] : input_count > 1 ? inputs[1] : before;
        try(s, "another input");
        inputs[i] = before;
    }
    for (node->n_input = 0; node->n_input < input_count; node->n_input++) try(s, "less inputs");
    char **more = calloc(input_count + output_count + 1, sizeof *more);
    assert_non_null(more);
    if (input_count) memcpy(more, inputs, input_count * sizeof *more);
    more[input_count] = input_count ? inputs[0] : (char *)(uintptr_t) "x";
    node->input = more;
    node->n_input = input_count + 1;
    try(s, "more inputs");
    node->input = inputs;
    node->n_input = input_count;
    if (output_count) memcpy(more, outputs, output_count * sizeof *more);
    more[output_count] = (char *)(uintptr_t) "more";
    node->output = more;
    node->n_output = output_count + 1;
    try(s, "more outputs");
    node->output = outputs;
    node->n_output = output_count;
    free(more);
    for (size_t i = 0; i < attribute_count; i++) {
        Onnx__AttributeProto *a = node->attribute[i];
        node->attribute[i] = node->attribute[attribute_count - 1];
        node->n_attribute--;
        try(s, "an attribute is left out");
        node->n_attribute++;
        node->attribute[i] = a;
        spoil_attribute(s, a);
        if (a->g)
            for (size_t k = 0; k < a->g->n_node; k++) spoil_node(s, a->g->node[k]);
    }
}

static void spoil(sweep *s) {
    Onnx__GraphProto *graph = s->model->graph;
    for (size_t i = 0; i < graph->n_input; i++) spoil_type(s, graph->input[i]);
    for (size_t i = 0; i < graph->n_output; i++) spoil_type(s, graph->output[i]);
    for (size_t i = 0; i < graph->n_node && i < NODES; i++) spoil_node(s, graph->node[i]);
    for (size_t i = 0; i < s->model->n_opset_import; i++) {
        static const int64_t versions[] = {1, 6, 7, 8, 9, 10, 11, 12, 13, 17, 18, 21, 23, 27};
        const int64_t before = s->model->opset_import[i]->version;
        for (size_t k = 0; k < sizeof versions / sizeof *versions; k++) {
            s->model->opset_import[i]->version = versions[k];
            try(s, "another opset");
        }
        s->model->opset_import[i]->version = before;
    }
}

/* ---- all ----------------------------------------------------------------------------------------------------- */

static void try_all(sweep *s, const char *pattern) {
    const char *given = getenv("OURO_EVERY_CASE");
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) return;
    const size_t every = given && strtoul(given, NULL, 10) ? strtoul(given, NULL, 10) : found.gl_pathc / USUAL + 1;
    for (size_t i = 0; i < found.gl_pathc; i += every) {
        size_t length;
        s->path = found.gl_pathv[i];
        char *bytes = support_read_file(s->path, &length);
        s->model = onnx__model_proto__unpack(NULL, length, (uint8_t *)bytes);
        free(bytes);
        if (!s->model || length > 1 << 16 || !s->model->graph) { /* a file that is large is so in its numbers */
            if (s->model) onnx__model_proto__free_unpacked(s->model, NULL);
            continue;
        }
        const bool read = onnx_import_without_memory(s->path, NULL, 0);
        spoil(s);
        const size_t refused = s->refused;
        try(s, "as it was"); /* nothing spoiled is left */
        if (s->refused != refused && read) fail_msg("%s: %s", s->path, report.text);
        onnx__model_proto__free_unpacked(s->model, NULL);
        s->models++;
    }
    globfree(&found);
}

static void cases_of_operators(void **state) {
    (void)state;
    sweep s = {0};
    try_all(&s, DEBIAN);
    try_all(&s, NEWEST);
    print_message("%zu models spoiled in %zu ways, %zu refused\n", s.models, s.tried, s.refused);
    unlink("case.onnx");
    if (s.models) assert_true(s.refused > s.tried / 10 && s.refused < s.tried);
}

int main(void) {
    char folder[] = "/tmp/ouro_cases_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_of_operators)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("/") != 0 || rmdir(folder) != 0 ? 1 : failed;
}
