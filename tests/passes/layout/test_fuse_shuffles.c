/* SPDX-License-Identifier: Apache-2.0 */
/* test_fuse_shuffles.c: convolutions that read shuffled channels where they lie, from the text to numbers, beside the same ones where the
 * shuffled channels are a result, too: in networks of groups, in loops, of open batches, in bands of rows, of all types, on one thread to five. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CHANNELS = 24, ROWS = 13, COLUMNS = 11, SIZE = CHANNELS * ROWS * COLUMNS, TRIPS = 3, MOST_IMAGES = 3 };

typedef struct variant {
    const char *type;
    int groups, kernel, images;
    bool gathered; /* by a Gather */
    bool open;     /* the number of images */
    bool loops;    /* a loop carries the image */
    bool added;    /* what is not shuffled is added to what is made of the shuffled */
    int64_t band_rows;
} variant;

static char text[1 << 18];
static support_writer to;

/* One block: what is shuffled lies between two convolutions of groups. `seen`: it is a result. */
static void write_block(const variant *v, const char *x, const char *shape, bool seen) {
    support_write(&to, "  %%a: %s = Conv(%s, %%u) {group = %d, ouro.activation = \"Relu\"}\n", shape, x,
                  v->groups);
    if (v->gathered) {
        support_write(&to, "  %%c: %s = Gather(%%a, %%order) {axis = 1}\n", shape);
    } else {
        const int each = CHANNELS / v->groups;
        support_write(&to, "  %%s: %s[%s,%d,%d,%d] = Reshape(%%a, %%split)\n", v->type,
                      v->open          ? "\"n\""
                      : v->images == 1 ? "1"
                                       : "3",
                      v->groups, each, ROWS * COLUMNS);
        support_write(&to, "  %%t: %s[%s,%d,%d,%d] = Transpose(%%s) {perm = [0, 2, 1, 3]}\n", v->type,
                      v->open          ? "\"n\""
                      : v->images == 1 ? "1"
                                       : "3",
                      each, v->groups, ROWS * COLUMNS);
        support_write(&to, "  %%c: %s = Reshape(%%t, %%whole)\n", shape);
    }
    const int pad = v->kernel / 2;
    support_write(&to, "  %%d: %s = Conv(%%c, %%w, %%b) {group = %d, pads = [%d, %d, %d, %d]}\n", shape,
                  CHANNELS, pad, pad, pad, pad);
    if (v->added) support_write(&to, "  %%d1: %s = Add(%%d, %%a)\n", shape);
    support_write(&to, "  %%e: %s = Conv(%%d%s, %%u) {group = %d}\n  %%y: %s = Add(%%e, %s)\n", shape,
                  v->added ? "1" : "", v->groups, shape, x);
    if (seen) support_write(&to, "  %%z: %s = Identity(%%c)\n", shape);
}

static void write_module(const variant *v, bool seen) {
    char shape[128], dims[64];
    (void)snprintf(shape, sizeof shape, "%s[%s,%d,%d,%d]", v->type,
                   v->open          ? "\"n\""
                   : v->images == 1 ? "1"
                                    : "3",
                   CHANNELS, ROWS, COLUMNS);
    to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"shuffles\" {\n");
    (void)snprintf(dims, sizeof dims, "%d,%d,1,1", CHANNELS, CHANNELS / v->groups);
    support_write_constant(&to, "u", v->type, dims, CHANNELS * CHANNELS / v->groups, 1);
    (void)snprintf(dims, sizeof dims, "%d,1,%d,%d", CHANNELS, v->kernel, v->kernel);
    support_write_constant(&to, "w", v->type, dims, CHANNELS * v->kernel * v->kernel, 2);
    (void)snprintf(dims, sizeof dims, "%d", CHANNELS);
    support_write_constant(&to, "b", v->type, dims, CHANNELS, 3);
    support_write(&to, "  constant %%split: int64[4] = {0, %d, %d, -1}\n", v->groups, CHANNELS / v->groups);
    support_write(&to, "  constant %%whole: int64[4] = {0, %d, %d, %d}\n", CHANNELS, ROWS, COLUMNS);
    support_write(&to, "  constant %%trips: int64[] = {%d}\n  constant %%order: int64[%d] = {", TRIPS,
                  CHANNELS);
    for (int i = 0; i < CHANNELS; i++)
        support_write(&to, "%s%d", i ? ", " : "", i % v->groups * (CHANNELS / v->groups) + i / v->groups);
    support_write(&to, "}\n graph main(%%x: %s) {\n", shape);
    if (v->loops) {
        support_write(
            &to,
            "  %%l: %s%s = Loop(%%trips, _, %%x) {\n graph body(%%i: int64[], %%go: bool[], %%v: %s) {\n",
            shape, seen ? ", %all: float32[...]" : "", shape);
        write_block(v, "%v", shape, seen);
        support_write(&to, "  yield %%go, %%y%s\n } }\n  yield %%l%s\n } }\n", seen ? ", %z" : "",
                      seen ? ", %all" : "");
    } else {
        write_block(v, "%x", shape, seen);
        support_write(&to, "  yield %%y%s\n } }\n", seen ? ", %z" : "");
    }
}

static size_t nodes_of(const support_session *on, op_code code) {
    const plan *of = rt_plan_of(on->plan);
    size_t nodes = 0;
    for (uint64_t i = 0; i < of->header->nodes.count; i++) nodes += plan_node_code(of, &of->nodes[i]) == code;
    return nodes;
}

/* The bytes of output 0. */
static void run(const variant *v, bool seen, bool portable, int threads, unsigned char *y, size_t bytes) {
    static _Alignas(64) unsigned char x[MOST_IMAGES * SIZE * sizeof(double)];
    const pass_options options = {.band_rows = seen ? 0 : v->band_rows,
                                  .environment = {.threads = threads, .portable_only = portable}};
    support_session on;
    ouro_error error;
    write_module(v, seen);
    support_session_open_with(&on, text, &options);
    const bool wide = strcmp(v->type, "float64") == 0;
    if (v->band_rows && !seen && portable) { /* in each band; rows alone are gathered */
        assert_true(nodes_of(&on, OP_SHUFFLED_CONV) > 1);
    } else if (!v->band_rows || seen) {
        /* Other kernels may like blocks of channels better on other machines. */
        const size_t fused = nodes_of(&on, OP_SHUFFLED_CONV);
        assert_int_equal(fused + nodes_of(&on, OP_TRANSPOSE) + nodes_of(&on, OP_GATHER), 1);
        if (seen || portable) assert_int_equal(fused, seen ? 0 : 1);
    }
    for (size_t i = 0; i < (size_t)v->images * SIZE; i++) {
        const double number = (double)((i * 37 + i / 11) % 101) / 50 - 1;
        if (wide) ((double *)(void *)x)[i] = number;
        else ((float *)(void *)x)[i] = (float)number;
    }
    const int64_t dims[] = {v->images, CHANNELS, ROWS, COLUMNS};
    if (ouro_session_bind_input(on.session, 0, x, bytes, v->open ? dims : NULL, &error) != OURO_OK)
        fail_msg("%s", error.message);
    support_run(&on);
    memcpy(y, support_output(&on, 0, bytes), bytes);
    support_session_close(&on);
}

static void shuffled_channels_are_read(void **state) {
    (void)state;
    static const variant variants[] = {
        {.type = "float32", .groups = 4, .kernel = 3, .images = 1},
        {.type = "float32", .groups = 3, .kernel = 5, .images = 3},
        {.type = "float32", .groups = 2, .kernel = 7, .images = 1, .gathered = true},
        {.type = "float32", .groups = 6, .kernel = 1, .images = 1},
        {.type = "float64", .groups = 4, .kernel = 3, .images = 1},
        {.type = "float32", .groups = 4, .kernel = 3, .images = 1, .added = true},
        {.type = "float32", .groups = 4, .kernel = 3, .images = 1, .added = true, .loops = true},
        {.type = "float32", .groups = 4, .kernel = 3, .images = 3, .open = true},
        {.type = "float32", .groups = 4, .kernel = 3, .images = 2, .open = true, .gathered = true},
        {.type = "float32", .groups = 4, .kernel = 3, .images = 1, .loops = true},
        {.type = "float32", .groups = 8, .kernel = 5, .images = 3, .loops = true, .gathered = true},
        {.type = "float32", .groups = 4, .kernel = 3, .images = 1, .band_rows = 3},
        {.type = "float32", .groups = 3, .kernel = 5, .images = 1, .band_rows = 4, .gathered = true},
    };
    static unsigned char want[MOST_IMAGES * SIZE * sizeof(double)], got[MOST_IMAGES * SIZE * sizeof(double)];
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const variant *v = &variants[i];
        const size_t bytes =
            (size_t)v->images * SIZE * (strcmp(v->type, "float64") ? sizeof(float) : sizeof(double));
        for (int portable = 0; portable < 2; portable++) {
            run(v, true, portable, 1, want, bytes);
            for (int threads = 1; threads <= 5; threads += 2) {
                run(v, false, portable, threads, got, bytes);
                if (memcmp(want, got, bytes) != 0)
                    fail_msg("variant %zu, %d threads: other bits", i, threads);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shuffled_channels_are_read)};
    return cmocka_run_group_tests_name("shuffles", tests, NULL, NULL);
}
