/* SPDX-License-Identifier: Apache-2.0 */
/* test_sink_scans.c: what is made only to be scanned is made in the loop: the same bits along every axis, in both directions, and
 * without the tensor of all slices. */
#include "compiler/compiler.h"
#include "runtime/executor.h"
#include "tests/support/support.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { RANK = 4, INPUTS = 4 };
static const int whole[RANK] = {5, 4, 16, 24};

static size_t elements_of(const int *dims, int rank) {
    size_t count = 1;
    for (int d = 0; d < rank; d++) count *= (size_t)dims[d];
    return count;
}

static void write_shape(char *text, size_t capacity, const int *dims, int rank) {
    size_t used = 0;
    for (int d = 0; d < rank; d++)
        used += (size_t)snprintf(text + used, capacity - used, d ? ",%d" : "%d", dims[d]);
}

/* Sub(Exp(Mul(d, a)), b), scanned along `axis`. d has one element along another axis, b along the one that is scanned. `kept`: what is
 * scanned is an output as well, so that it has to be made as a whole. */
static void open_scan(support_session *on, int axis, bool backwards, bool kept, float *data[INPUTS],
                      size_t counts[INPUTS], size_t *slice_elements) {
    char text[2048], all[64], d[64], a[64], b[64], slice[64];
    int d_dims[RANK], b_dims[RANK], slice_dims[RANK];
    for (int i = 0; i < RANK; i++) {
        d_dims[i] = i == (axis + 1) % RANK ? 1 : whole[i];
        b_dims[i] = i == axis ? 1 : whole[i];
        if (i != axis) slice_dims[i - (i > axis)] = whole[i];
    }
    const int a_dims[2] = {axis == 2 ? 1 : whole[2], axis == 3 ? 1 : whole[3]};
    write_shape(all, sizeof all, whole, RANK);
    write_shape(d, sizeof d, d_dims, RANK);
    write_shape(a, sizeof a, a_dims, 2);
    write_shape(b, sizeof b, b_dims, RANK);
    write_shape(slice, sizeof slice, slice_dims, RANK - 1);
    *slice_elements = elements_of(slice_dims, RANK - 1);
    counts[0] = elements_of(d_dims, RANK);
    counts[1] = elements_of(a_dims, 2);
    counts[2] = elements_of(b_dims, RANK);
    counts[3] = *slice_elements;
    snprintf(
        text, sizeof text,
        "module \"sink\" { constant %%n: int64[] = {%d} constant %%half: float32[] = {0.5}\n"
        " graph main(%%d: float32[%s], %%a: float32[%s], %%b: float32[%s], %%x: float32[%s]) {\n"
        "  %%m: float32[%s] = Mul(%%d, %%a) %%e: float32[%s] = Exp(%%m) %%p: float32[%s] = Sub(%%e, %%b)\n"
        "  %%y: float32[%s] = Loop(%%n, _, %%x, %%p) {ouro.scan_inputs = 1, ouro.scan_input_axes = [%d], "
        "ouro.scan_input_directions = [%d]} {\n"
        "   graph body(%%i: int64[], %%k: bool[], %%h: float32[%s], %%s: float32[%s]) {\n"
        "    %%t: float32[%s] = Mul(%%h, %%half) %%u: float32[%s] = Add(%%t, %%s) yield %%k, %%u } }\n"
        "  yield %%y%s } }",
        whole[axis], d, a, b, slice, all, all, all, slice, axis, backwards, slice, slice, slice, slice,
        kept ? ", %p" : "");
    support_session_open(on, text, 1);
    for (size_t i = 0; i < INPUTS; i++) support_bind(on, i, data[i], counts[i] * sizeof(float));
    support_run(on);
}

static void expect_same(int axis, bool backwards) {
    const size_t most = elements_of(whole, RANK);
    float *data[INPUTS];
    size_t counts[INPUTS], slice;
    uint32_t random = 7;
    for (int i = 0; i < INPUTS; i++) {
        data[i] = malloc(most * sizeof(float));
        assert_non_null(data[i]);
        for (size_t k = 0; k < most; k++) {
            random = random * 1664525u + 1013904223u;
            data[i][k] = (float)(random >> 8) / (float)(1 << 24) - 0.5f;
        }
    }
    support_session sunk, kept;
    open_scan(&sunk, axis, backwards, false, data, counts, &slice);
    open_scan(&kept, axis, backwards, true, data, counts, &slice);
    assert_true(sunk.session->of->header->arena_bytes < most * sizeof(float));
    assert_memory_equal(support_output(&sunk, 0, slice * sizeof(float)),
                        support_output(&kept, 0, slice * sizeof(float)), slice * sizeof(float));
    support_session_close(&sunk);
    support_session_close(&kept);
    for (int i = 0; i < INPUTS; i++) free(data[i]);
}

static void slices_are_made_in_the_loop(void **state) {
    (void)state;
    for (int axis = 0; axis < RANK; axis++) {
        expect_same(axis, false);
        expect_same(axis, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(slices_are_made_in_the_loop)};
    return cmocka_run_group_tests_name("sunk scans", tests, NULL, NULL);
}
