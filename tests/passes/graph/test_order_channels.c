/* SPDX-License-Identifier: Apache-2.0 */
/* test_order_channels.c: convolutions that make or read channels in another order, from the text to numbers, beside the same ones where only the
 * run knows the order, so that channels are gathered: shuffles, Gathers and Slices, past pools and convolutions of each channel, of groups, in
 * loops, of open batches, on one thread to three; with exact arithmetic. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CHANNELS = 12, EXTENT = 9, IMAGES = 2, SIZE = IMAGES * CHANNELS * EXTENT * EXTENT };

typedef enum way { SHUFFLED, GATHERED, TURNED, WITHIN, WAYS } way;

typedef struct variant {
    bool makes, reads, far; /* far: between pools and convolutions of each channel */
    bool loops, open;
    int group;
    const char *type;
} variant;

static char text[1 << 17];
static support_writer to;

/* Where the channel comes from. WITHIN: of groups of four. */
static int64_t from(way by, int i) {
    static const int drawn[CHANNELS] = {7, 0, 11, 3, 2, 9, 1, 5, 10, 4, 8, 6};
    switch (by) {
    case SHUFFLED:
        return i % 3 * (CHANNELS / 3) + i / 3;
    case GATHERED:
        return drawn[i];
    case TURNED:
        return CHANNELS - 1 - i;
    default:
        return i / 4 * 4 + (i + 1) % 4;
    }
}

/* %c is %a in the order. `known`: by constants. */
static void write_order(const variant *v, way by, bool known, const char *shape) {
    const char *images = v->open ? "\"n\"" : "2";
    if (!known || by == GATHERED || by == WITHIN) {
        support_write(&to, "  %%c: %s = Gather(%%a, %%order) {axis = 1}\n", shape);
    } else if (by == TURNED) {
        support_write(&to, "  %%c: %s = Slice(%%a, %%minus, %%least, %%one, %%minus)\n", shape);
    } else {
        support_write(&to, "  %%s: %s[%s,3,%d,%d,%d] = Reshape(%%a, %%split)\n", v->type, images,
                      CHANNELS / 3, EXTENT, EXTENT);
        support_write(&to, "  %%t: %s[%s,%d,3,%d,%d] = Transpose(%%s) {perm = [0, 2, 1, 3, 4]}\n", v->type,
                      images, CHANNELS / 3, EXTENT, EXTENT);
        support_write(&to, "  %%c: %s = Reshape(%%t, %%whole)\n", shape);
    }
}

static void write_body(const variant *v, way by, bool known, const char *x, const char *shape) {
    if (v->makes)
        support_write(
            &to,
            "  %%a: %s = Conv(%s, %%w, %%b) {group = %d, pads = [1, 1, 1, 1], ouro.activation = \"Relu\"}\n",
            shape, x, v->group);
    else support_write(&to, "  %%a: %s = Identity(%s)\n", shape, x);
    write_order(v, by, known, shape);
    if (v->far)
        support_write(
            &to,
            "  %%d: %s = MaxPool(%%c) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
            "  %%e: %s = Conv(%%d, %%u, %%b2) {group = %d, pads = [1, 1, 1, 1], ouro.activation = \"Relu\"}\n"
            "  %%f: %s = Sigmoid(%%e)\n",
            shape, shape, CHANNELS, shape);
    if (v->reads)
        support_write(&to, "  %%y: %s = Conv(%%%s, %%v) {group = %d, pads = [1, 1, 1, 1]}\n", shape,
                      v->far ? "f" : "c", v->group);
    else support_write(&to, "  %%y: %s = Sigmoid(%%c)\n", shape);
}

static void write_module(const variant *v, way by, bool known) {
    char shape[128], dims[64];
    (void)snprintf(shape, sizeof shape, "%s[%s,%d,%d,%d]", v->type, v->open ? "\"n\"" : "2", CHANNELS, EXTENT,
                   EXTENT);
    (void)snprintf(dims, sizeof dims, "%d,%d,3,3", CHANNELS, CHANNELS / v->group);
    to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"order\" {\n");
    support_write_constant(&to, "w", v->type, dims, CHANNELS * CHANNELS / v->group * 9, 1);
    support_write_constant(&to, "v", v->type, dims, CHANNELS * CHANNELS / v->group * 9, 2);
    (void)snprintf(dims, sizeof dims, "%d,1,3,3", CHANNELS);
    support_write_constant(&to, "u", v->type, dims, CHANNELS * 9, 3);
    (void)snprintf(dims, sizeof dims, "%d", CHANNELS);
    support_write_constant(&to, "b", v->type, dims, CHANNELS, 4);
    support_write_constant(&to, "b2", v->type, dims, CHANNELS, 5);
    support_write(
        &to,
        "  constant %%split: int64[5] = {0, 3, %d, %d, %d}\n  constant %%whole: int64[4] = {0, %d, %d, %d}\n"
        "  constant %%minus: int64[1] = {-1}\n  constant %%one: int64[1] = {1}\n"
        "  constant %%least: int64[1] = {-9223372036854775808}\n  constant %%trips: int64[] = {2}\n",
        CHANNELS / 3, EXTENT, EXTENT, CHANNELS, EXTENT, EXTENT);
    if (known) {
        support_write(&to, "  constant %%order: int64[%d] = {", CHANNELS);
        for (int i = 0; i < CHANNELS; i++) support_write(&to, "%s%d", i ? ", " : "", (int)from(by, i));
        support_write(&to, "}\n");
    }
    support_write(&to, " graph main(%%x: %s", shape);
    if (!known) support_write(&to, ", %%order: int64[%d]", CHANNELS);
    support_write(&to, ") {\n");
    if (v->loops) {
        support_write(
            &to, "  %%l: %s = Loop(%%trips, _, %%x) {\n graph body(%%i: int64[], %%go: bool[], %%p: %s) {\n",
            shape, shape);
        write_body(v, by, known, "%p", shape);
        support_write(&to, "  yield %%go, %%y\n } }\n  yield %%l\n } }\n");
    } else {
        write_body(v, by, known, "%x", shape);
        support_write(&to, "  yield %%y\n } }\n");
    }
}

static size_t moving_nodes(const support_session *on) {
    const plan *of = rt_plan_of(on->plan);
    size_t nodes = 0;
    for (uint64_t i = 0; i < of->header->nodes.count; i++) {
        const op_code code = plan_node_code(of, &of->nodes[i]);
        nodes += code == OP_GATHER || code == OP_TRANSPOSE || code == OP_SLICE;
    }
    return nodes;
}

static void run(const variant *v, way by, bool known, const pass_options *options, bool moves, float *y) {
    static float x[SIZE];
    int64_t order[CHANNELS];
    const int64_t dims[] = {IMAGES, CHANNELS, EXTENT, EXTENT};
    support_session on;
    ouro_error error;
    write_module(v, by, known);
    support_session_open_with(&on, text, options);
    assert_int_equal(moving_nodes(&on), moves ? 1 : 0);
    for (int i = 0; i < SIZE; i++) x[i] = (float)((i * 37 + i / 11) % 101) / 50 - 1;
    for (int i = 0; i < CHANNELS; i++) order[i] = from(by, i);
    if (ouro_session_bind_input(on.session, 0, x, sizeof x, v->open ? dims : NULL, &error) != OURO_OK)
        fail_msg("%s", error.message);
    if (!known) support_bind(&on, 1, order, sizeof order);
    support_run(&on);
    memcpy(y, support_output(&on, 0, sizeof x), sizeof x);
    support_session_close(&on);
}

static void channels_are_in_order(void **state) {
    (void)state;
    static const variant variants[] = {
        {.makes = true, .group = 1},
        {.reads = true, .group = 1},
        {.makes = true, .reads = true, .group = 1},
        {.reads = true, .far = true, .group = 1},
        {.makes = true, .group = 3},
        {.reads = true, .group = 3},
        {.reads = true, .far = true, .group = 3},
        {.makes = true, .group = 1, .loops = true},
        {.reads = true, .group = 1, .loops = true},
        {.reads = true, .far = true, .group = 1, .open = true},
        {.makes = true, .group = 1, .open = true},
    };
    static float want[SIZE], got[SIZE];
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        variant v = variants[i];
        v.type = "float32";
        for (int by = 0; by < WAYS; by++) {
            if (v.group > 1 && by != WITHIN) continue;
            for (int portable = 0; portable < 2; portable++) {
                for (int threads = 1; threads <= 3; threads += 2) {
                    pass_options options = {.environment = {.threads = threads, .portable_only = portable}};
                    run(&v, (way)by, false, &options, true, want);
                    run(&v, (way)by, true, &options, false, got);
                    for (int e = 0; e < SIZE; e++)
                        if (!(fabsf(want[e] - got[e]) <= 1e-5f * (1 + fabsf(want[e]))))
                            fail_msg("variant %zu, way %d: %g, expected %g", i, by, (double)got[e],
                                     (double)want[e]);
                    options.exact_arithmetic = true;
                    run(&v, (way)by, true, &options, !v.makes, got);
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(channels_are_in_order)};
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
