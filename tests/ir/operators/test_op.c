/* SPDX-License-Identifier: Apache-2.0 */
/* test_op.c: the operator table and the questions that shape functions ask. */
#include "tests/support/support.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static void every_row_is_found_by_its_name(void **state) {
    (void)state;
    for (int code = OP_CODE_NONE + 1; code < OP_CODE_COUNT; code++) {
        const op_schema *row = op_schema_of((op_code)code);
        assert_int_equal(row->code, code);
        assert_int_equal(op_code_from_name(row->domain, row->name), code); /* also: no name twice */
        assert_non_null(row->infer);
        assert_true(row->since >= 1);
        assert_true(row->input_maximum < 0 || row->input_maximum >= row->input_minimum);
        assert_true(row->output_maximum < 0 || row->output_maximum >= row->output_minimum);
        if (row->domain[0]) assert_int_equal(op_code_from_name("", row->name), OP_CODE_NONE);
        for (const char *at = row->attributes; *at;) { /* "name:kind name:kind" */
            size_t length = strcspn(at, " ");
            assert_true(length > 2 && at[length - 2] == ':' && strchr("ifstIFSp", at[length - 1]));
            at += length + (at[length] == ' ');
        }
    }
    assert_int_equal(op_code_from_name("", "Ad"), OP_CODE_NONE);
    assert_int_equal(op_code_from_name("", "Addd"), OP_CODE_NONE);
    assert_int_equal(op_code_from_name("other", "Add"), OP_CODE_NONE);
    assert_int_equal(op_code_from_name(NULL, "Add"), OP_ADD);
    assert_int_equal(op_schema_of(OP_CODE_COUNT)->code, OP_CODE_NONE);
}

static void types_have_names_and_sizes(void **state) {
    (void)state;
    for (int dtype = OP_NONE + 1; dtype < OP_DTYPE_COUNT; dtype++) {
        assert_true(op_dtype_bits((op_dtype)dtype) > 0);
        assert_int_equal(op_dtype_bytes((op_dtype)dtype), op_dtype_bits((op_dtype)dtype) / 8);
        assert_int_equal(op_dtype_from_name(op_dtype_name((op_dtype)dtype)), dtype);
    }
    assert_int_equal(op_dtype_from_name("none"), OP_NONE);
    assert_int_equal(op_dtype_bytes(OP_NONE), 0);

    char text[64];
    op_type type = {.dtype = OP_FLOAT, .layout = OP_LAYOUT_NC16, .shape = {4, {1, 3, OP_DIM_UNKNOWN, -2}}};
    assert_string_equal(op_type_print(&type, text, sizeof text), "float32[1,3,?,s2]:nc16");
    assert_string_equal(op_type_print(&type, text, 8), "float32");
    size_t bytes = 1;
    assert_false(op_type_bytes(&type, &bytes));
    type.shape.dims[2] = type.shape.dims[3] = 5;
    assert_true(op_type_bytes(&type, &bytes));
    assert_int_equal(bytes, 1 * 16 * 25 * 4); /* channels padded */
    type.layout = OP_LAYOUT_NC8;
    assert_true(op_type_bytes(&type, &bytes));
    assert_int_equal(bytes, 1 * 8 * 25 * 4);
    type = (op_type){.dtype = OP_INT4, .shape = {2, {3, 3}}};
    assert_true(op_type_bytes(&type, &bytes));
    assert_int_equal(bytes, 5); /* two a byte, the last one half empty */
    type.dtype = OP_UINT2;
    assert_true(op_type_bytes(&type, &bytes));
    assert_int_equal(bytes, 3);
    type.dtype = OP_FLOAT;
    type.shape = (op_shape){3, {INT64_MAX, 2, 0}};
    assert_true(op_type_bytes(&type, &bytes)); /* nothing, however large the rest */
    assert_int_equal(bytes, 0);
    type.shape.dims[2] = 1;
    assert_false(op_type_bytes(&type, &bytes));
    type.shape = (op_shape){1, {INT64_MAX}};
    assert_false(op_type_bytes(&type, &bytes));
    type = (op_type){
        .kind = OP_KIND_OPTIONAL, .element = OP_KIND_SEQUENCE, .dtype = OP_INT64, .shape = {.rank = -1}};
    assert_string_equal(op_type_print(&type, text, sizeof text), "optional(sequence(int64[...]))");
    assert_false(op_type_bytes(&type, &bytes));
}

static void dimensions_are_computed_where_they_can_be(void **state) {
    (void)state;
    const op_call call = {0};
    const int64_t unknown = OP_DIM_UNKNOWN;
    assert_true(op_dim_compute(&call, '+', 3, 4) == 7);
    assert_true(op_dim_compute(&call, '-', 3, 4) == unknown); /* no extent */
    assert_true(op_dim_compute(&call, '/', 7, 2) == 3);
    assert_true(op_dim_compute(&call, '^', 7, 2) == 4);
    assert_true(op_dim_compute(&call, '^', INT64_MAX, 2) == INT64_MAX / 2 + 1);
    assert_true(op_dim_compute(&call, '/', 7, 0) == unknown);
    assert_true(op_dim_compute(&call, '*', INT64_MAX, 2) == unknown);
    assert_true(op_dim_compute(&call, '+', INT64_MAX, 1) == unknown);
    assert_true(op_dim_compute(&call, '*', unknown, 0) == 0);
    assert_true(op_dim_compute(&call, '*', unknown, 1) == unknown);
    assert_true(op_dim_compute(&call, '+', -3, 0) == -3);
    assert_true(op_dim_compute(&call, '-', -3, -3) == 0);
    assert_true(op_dim_compute(&call, '*', 1, -3) == -3);
    assert_true(op_dim_compute(&call, '+', -3, 1) == unknown); /* nobody to ask */
}

static void shapes_broadcast(void **state) {
    (void)state;
    const op_call call = {0};
    const op_shape a = {3, {1, -5, 4}}, b = {2, {7, 1}};
    op_shape result;
    assert_true(op_shape_broadcast(&call, &a, &b, &result));
    const op_shape expected = {3, {1, 7, 4}};
    assert_true(op_shape_equal(&result, &expected));
    const op_shape c = {1, {3}}, any = {.rank = -1}, zero = {1, {0}}, one = {1, {1}};
    assert_false(op_shape_broadcast(&call, &a, &c, &result));
    assert_true(op_shape_broadcast(&call, &a, &any, &result));
    assert_int_equal(result.rank, -1);
    assert_true(op_shape_broadcast(&call, &zero, &one, &result));
    assert_int_equal(result.dims[0], 0);
    int32_t axis;
    assert_true(op_axis(-3, 3, &axis));
    assert_int_equal(axis, 0);
    assert_false(op_axis(3, 3, &axis));
    assert_false(op_axis(INT64_MIN, 3, &axis));
    assert_false(op_axis(0, 0, &axis));
}

static void integer_inputs_are_read_from_data_or_symbols(void **state) {
    (void)state;
    int64_t wide[] = {5, -2};
    int32_t narrow[] = {-7};
    const int64_t symbolic[] = {3, -4};
    const op_type pair = {.dtype = OP_INT64, .shape = {1, {2}}};
    const op_tensor inputs[] = {
        {.type = pair, .bytes = sizeof wide, .data = wide},
        {.type = {.dtype = OP_INT32, .shape = {0, {0}}}, .bytes = sizeof narrow, .data = narrow},
        {.type = pair, .symbolic = symbolic},
        {.type = {.dtype = OP_FLOAT, .shape = {1, {2}}}, .bytes = sizeof wide, .data = wide},
        {.type = {.dtype = OP_NONE}},
    };
    const op_call call = {.input_count = 5, .inputs = inputs};
    int64_t value;
    assert_true(op_input_integer(&call, 0, 1, &value) && value == -2);
    assert_true(op_input_integer(&call, 1, 0, &value) && value == -7);
    assert_true(op_input_integer(&call, 2, 0, &value) && value == 3);
    assert_false(op_input_integer(&call, 2, 1, &value)); /* a symbol is no number */
    assert_false(op_input_integer(&call, 0, 2, &value));
    assert_false(op_input_integer(&call, 0, -1, &value));
    assert_false(op_input_integer(&call, 3, 0, &value));
    assert_false(op_input_integer(&call, 4, 0, &value));
    assert_false(op_input_integer(&call, 9, 0, &value));
    assert_true(op_input_dim(&call, 0, 0) == 5);
    assert_true(op_input_dim(&call, 0, 1) == OP_DIM_UNKNOWN); /* truly negative: no extent */
    assert_true(op_input_dim(&call, 2, 1) == -4);
    assert_true(op_input_dim(&call, 2, 2) == OP_DIM_UNKNOWN);
    assert_false(op_input_present(&call, 4));
}

static void inference_checks_the_counts(void **state) {
    (void)state;
    base_report report = {0};
    op_tensor inputs[3] = {
        {.type = {.dtype = OP_FLOAT}}, {.type = {.dtype = OP_FLOAT}}, {.type = {.dtype = OP_FLOAT}}};
    op_tensor outputs[2] = {{.bytes = 0}, {.bytes = 0}};
    op_call call = {
        .code = OP_ADD, .input_count = 1, .output_count = 1, .inputs = inputs, .outputs = outputs};
    assert_int_equal(op_infer(&call, &report), BASE_INVALID);
    assert_string_equal(report.text, "1 inputs given, Add takes 2\n");
    call.input_count = 2;
    assert_int_equal(op_infer(&call, NULL), BASE_OK);
    assert_int_equal(outputs[0].type.dtype, OP_FLOAT);
    call.output_count = 2;
    assert_int_equal(op_infer(&call, NULL), BASE_INVALID);
    call.output_count = 1;
    inputs[1].type.dtype = OP_NONE;
    base_report_clear(&report);
    assert_int_equal(op_infer(&call, &report), BASE_INVALID);
    assert_string_equal(report.text, "input 1 is absent or of no known type, Add needs it\n");
    call.code = OP_LOOP;
    assert_int_equal(op_infer(&call, NULL), BASE_INVALID);
    call.code = OP_CODE_COUNT;
    assert_int_equal(op_infer(&call, NULL), BASE_INVALID);
}

static void every_operator_has_a_family(void **state) {
    (void)state;
    unsigned members[OP_FAMILY_COUNT] = {0};
    for (int code = OP_CODE_NONE + 1; code < OP_CODE_COUNT; code++) {
        const op_family family = op_schema_of((op_code)code)->family;
        assert_in_range(family, OP_FAMILY_NONE + 1, OP_FAMILY_COUNT - 1);
        members[family]++;
    }
    assert_int_equal(op_schema_of(OP_CODE_NONE)->family, OP_FAMILY_NONE);
    for (int i = OP_FAMILY_NONE + 1; i < OP_FAMILY_COUNT; i++) assert_true(members[i] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found_by_its_name),
        cmocka_unit_test(every_operator_has_a_family),
        cmocka_unit_test(types_have_names_and_sizes),
        cmocka_unit_test(dimensions_are_computed_where_they_can_be),
        cmocka_unit_test(shapes_broadcast),
        cmocka_unit_test(integer_inputs_are_read_from_data_or_symbols),
        cmocka_unit_test(inference_checks_the_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
