/* SPDX-License-Identifier: Apache-2.0 */
/* test_npy.c: .npy files: every type there and back, the forms that numpy writes, and hostile ones. */
#include "compiler/files/npy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static int setup(void **state) {
    static base_arena arena;
    base_arena_init(&arena, NULL);
    *state = &arena;
    return 0;
}

static int teardown(void **state) {
    base_arena_free(*state);
    return 0;
}

/* A version 1 file with this header and data; the header is padded as numpy pads it. */
static size_t make_file(unsigned char *file, const char *header, const void *data, size_t bytes) {
    size_t length = strlen(header) + 1, padded = (length + 10 + 63) / 64 * 64 - 10;
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)(padded & 0xFF);
    file[9] = (unsigned char)(padded >> 8);
    memset(file + 10, ' ', padded);
    memcpy(file + 10, header, length - 1);
    file[10 + padded - 1] = '\n';
    if (bytes) memcpy(file + 10 + padded, data, bytes);
    return 10 + padded + bytes;
}

static base_status decode(base_arena *arena, const char *header, const void *data, size_t bytes,
                          op_tensor *tensor, base_report *report) {
    static unsigned char file[65536];
    return file_npy_decode(file, make_file(file, header, data, bytes), "x.npy", arena, tensor, report);
}

static void test_every_type_there_and_back(void **state) {
    static const op_dtype dtypes[] = {OP_FLOAT,  OP_UINT8,  OP_INT8,      OP_UINT16,    OP_INT16,
                                      OP_INT32,  OP_INT64,  OP_BOOL,      OP_FLOAT16,   OP_DOUBLE,
                                      OP_UINT32, OP_UINT64, OP_COMPLEX64, OP_COMPLEX128};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        unsigned char data[6 * 16];
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (unsigned char)(dtypes[k] == OP_BOOL ? i & 1 : i * 7 + k);
        op_tensor tensor = {.type = {.dtype = dtypes[k], .shape = {.rank = 2, .dims = {2, 3}}},
                            .bytes = 6 * op_dtype_bytes(dtypes[k]),
                            .data = data};
        op_tensor back;
        unsigned char *bytes;
        size_t size;
        base_report report = {0};
        assert_int_equal(file_npy_encode(&tensor, *state, &bytes, &size, &report), BASE_OK);
        assert_int_equal((size - tensor.bytes) % 64, 0);
        assert_int_equal(file_npy_decode(bytes, size, "x.npy", *state, &back, &report), BASE_OK);
        assert_int_equal(back.type.dtype, dtypes[k]);
        assert_true(op_shape_equal(&back.type.shape, &tensor.type.shape));
        assert_int_equal(back.bytes, tensor.bytes);
        assert_memory_equal(back.data, data, tensor.bytes);
        assert_int_equal((uintptr_t)back.data % 64, 0);
    }
}

static void test_scalars_and_empty_ones(void **state) {
    float number = 2.5f;
    op_tensor scalar = {.type = {.dtype = OP_FLOAT, .shape = {.rank = 0}}, .bytes = 4, .data = &number}, back;
    op_tensor empty = {
        .type = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {0, 3}}}, .bytes = 0, .data = &number};
    unsigned char *bytes;
    size_t size;
    assert_int_equal(file_npy_encode(&scalar, *state, &bytes, &size, NULL), BASE_OK);
    assert_int_equal(file_npy_decode(bytes, size, "x.npy", *state, &back, NULL), BASE_OK);
    assert_int_equal(back.type.shape.rank, 0);
    assert_true(*(float *)back.data == number);
    assert_int_equal(file_npy_encode(&empty, *state, &bytes, &size, NULL), BASE_OK);
    assert_int_equal(file_npy_decode(bytes, size, "x.npy", *state, &back, NULL), BASE_OK);
    assert_int_equal(back.type.shape.dims[0], 0);
    assert_int_equal(back.bytes, 0);
}

static void test_bfloat16_is_written_as_float32(void **state) {
    uint16_t half[2] = {0x3FC0, 0xC000}; /* 1.5 and -2 */
    op_tensor tensor = {.type = {.dtype = OP_BFLOAT16, .shape = {.rank = 1, .dims = {2}}},
                        .bytes = 4,
                        .data = half},
              back;
    unsigned char *bytes;
    size_t size;
    assert_int_equal(file_npy_encode(&tensor, *state, &bytes, &size, NULL), BASE_OK);
    assert_int_equal(file_npy_decode(bytes, size, "x.npy", *state, &back, NULL), BASE_OK);
    assert_int_equal(back.type.dtype, OP_FLOAT);
    assert_true(((float *)back.data)[0] == 1.5f && ((float *)back.data)[1] == -2.0f);
}

static void test_strings_there_and_back(void **state) {
    op_string strings[3] = {{"a", 1}, {"", 0}, {"h\xC3\xA9", 3}};
    op_tensor tensor = {.type = {.dtype = OP_STRING, .shape = {.rank = 1, .dims = {3}}},
                        .bytes = sizeof strings,
                        .data = strings};
    op_tensor back;
    unsigned char *bytes;
    size_t size;
    assert_int_equal(file_npy_encode(&tensor, *state, &bytes, &size, NULL), BASE_OK);
    assert_int_equal(file_npy_decode(bytes, size, "x.npy", *state, &back, NULL), BASE_OK);
    const op_string *read = back.data;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read[i].length, strings[i].length);
        assert_memory_equal(read[i].data, strings[i].data, strings[i].length);
    }
    /* What numpy makes of ['é', 'x']: UTF-32. */
    static const unsigned char wide[] = {0xE9, 0, 0, 0, 'x', 0, 0, 0};
    assert_int_equal(
        decode(*state, "{'descr': '<U1', 'fortran_order': False, 'shape': (2,), }", wide, 8, &back, NULL),
        BASE_OK);
    read = back.data;
    assert_int_equal(read[0].length, 2);
    assert_memory_equal(read[0].data, "\xC3\xA9", 2);
    assert_memory_equal(read[1].data, "x", 1);
}

static void test_fortran_order_and_big_endian(void **state) {
    static const unsigned char columns[] = {0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6};
    op_tensor tensor;
    assert_int_equal(decode(*state, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", columns, 12,
                            &tensor, NULL),
                     BASE_OK);
    for (int i = 0; i < 6; i++) assert_int_equal(((int16_t *)tensor.data)[i], i + 1);
    /* Both parts of a complex number are turned, each in itself. */
    static const unsigned char complex[] = {0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0};
    assert_int_equal(decode(*state, "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }", complex, 8,
                            &tensor, NULL),
                     BASE_OK);
    assert_true(((float *)tensor.data)[0] == 1.0f && ((float *)tensor.data)[1] == -2.0f);
}

static void test_booleans_become_zero_or_one(void **state) {
    static const unsigned char data[] = {0, 1, 2, 255};
    static const unsigned char expected[] = {0, 1, 1, 1};
    op_tensor tensor;
    assert_int_equal(
        decode(*state, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }", data, 4, &tensor, NULL),
        BASE_OK);
    assert_memory_equal(tensor.data, expected, 4);
}

static void test_other_spellings_of_headers(void **state) {
    static const float data[2] = {1, 2};
    op_tensor tensor;
    static const char *const headers[] = {
        "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<f4\"}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }",
        "{ 'descr' : '=f4' , 'fortran_order' : True , 'shape' : ( 1 , 2 ) }",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        assert_int_equal(decode(*state, headers[i], data, 8, &tensor, NULL), BASE_OK);
    }
}

static void test_hostile_headers(void **state) {
    static const char *const headers[] = {
        "",
        "{",
        "{}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'extra': 1, }",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f99999999999999999999', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,2), }",
        "{'descr': '|S0', 'fortran_order': False, 'shape': (9223372036854775807,), }",
        "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x",
    };
    static const float data[2] = {1, 2};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        op_tensor tensor;
        base_report report = {0};
        assert_int_equal(decode(*state, headers[i], data, sizeof data, &tensor, &report), BASE_INVALID);
        assert_int_equal(report.count, 1);
        assert_non_null(strstr(report.text, "x.npy"));
    }
}

static void test_every_truncation_is_an_error(void **state) {
    unsigned char file[256];
    static const float data[2] = {1, 2};
    size_t size =
        make_file(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", data, sizeof data);
    op_tensor tensor;
    assert_int_equal(file_npy_decode(file, size, "x.npy", *state, &tensor, NULL), BASE_OK);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(file_npy_decode(file, cut, "x.npy", *state, &tensor, NULL), BASE_INVALID);
    }
    file[6] = 9;
    assert_int_equal(file_npy_decode(file, size, "x.npy", *state, &tensor, NULL), BASE_INVALID);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_type_there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scalars_and_empty_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bfloat16_is_written_as_float32, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strings_there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fortran_order_and_big_endian, setup, teardown),
        cmocka_unit_test_setup_teardown(test_booleans_become_zero_or_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_spellings_of_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_truncation_is_an_error, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
