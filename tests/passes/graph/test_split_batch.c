/* SPDX-License-Identifier: Apache-2.0 */
/* test_split_batch.c: models of which only the size of the batch is open. Those that keep its samples apart become plans of one sample: no sample,
 * one and several give what a plan gives that runs them together, and the arena is the same for any number. Those that join samples, move
 * one to the place of another, compute with their number, or have little to do for each, do not.
 */
#include "runtime/executor.h"
#include "tests/support/application.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CHANNELS = 8, FILTERS = 32, SIDE = 12, MOST_SAMPLES = 4, POINTS = SIDE * SIDE, TEXT = 1 << 21 };

/* What is done with %c: float32[N,32,12,12], the result of two convolutions; it makes %y. */
typedef struct ending {
    const char *constants, *nodes;
} ending;

#define TWO "constant %two: float32[] = {2.0}\n"
#define AXIS(n) "constant %axis: int64[1] = {" #n "}\n"

static const ending apart[] = {
    {"", "%y: ? = Relu(%c)\n"},
    {TWO, "%a: ? = Mul(%two, %c) %y: ? = Sub(%a, %c)\n"},
    {"", "%y: ? = Softmax(%c) {axis = 1}\n"},
    {"", "%y: ? = LogSoftmax(%c) {axis = -1}\n"},
    {"constant %s: int64[2] = {-1, 4608}\n", "%y: ? = Reshape(%c, %s)\n"},
    {"", "%y: ? = Flatten(%c) {axis = 1}\n"},
    /* The shape is computed from the number of samples. */
    {"constant %zero: int64[1] = {0} constant %rest: int64[2] = {32, 144}\n",
     "%n: ? = Shape(%c) %g: ? = Gather(%n, %zero) %s: ? = Concat(%g, %rest) {axis = 0} %y: ? = Reshape(%c, "
     "%s)\n"},
    {"constant %zero: int64[1] = {0} constant %minus: int64[1] = {-1} constant %size: int64[1] = {144}\n",
     "%n: ? = Shape(%c) %g: ? = Gather(%n, %zero) %s: ? = Concat(%g, %minus, %size) {axis = 0} %y: ? = "
     "Reshape(%c, %s)\n"},
    /* Rows of all samples together. */
    {"constant %flat: int64[2] = {-1, 144} constant %back: int64[3] = {-1, 32, 144}\n",
     "%f: ? = Reshape(%c, %flat) %p: ? = Softmax(%f) {axis = 1} %q: ? = Add(%p, %f) %y: ? = Reshape(%q, "
     "%back)\n"},
    {"constant %flat: int64[4] = {-1, 8, 12, 12} constant %back: int64[4] = {-1, 128, 10, 10}\n",
     "%f: ? = Reshape(%c, %flat) %p: ? = Conv(%f, %u) %y: ? = Reshape(%p, %back)\n"},
    /* Positions first, as in attention of other exporters: rows of all samples for each. */
    {"constant %flat: int64[2] = {-1, 144} constant %back: int64[3] = {32, -1, 144}\n",
     "%r: ? = Reshape(%c, %rows) %t: ? = Transpose(%r) {perm = [1, 0, 2]} %f: ? = Reshape(%t, %flat) %p: ? = "
     "Softmax(%f) {axis = 1}\n"
     "%q: ? = Add(%p, %f) %o: ? = Reshape(%q, %back) %y: ? = Transpose(%o) {perm = [1, 0, 2]}\n"},
    /* The samples lie along another axis between. */
    {AXIS(0), "%t: ? = Transpose(%c) {perm = [1, 0, 2, 3]} %y: ? = ReduceMean(%t, %axis) {keepdims = 0}\n"},
    {"", "%t: ? = Transpose(%c) {perm = [2, 1, 0, 3]} %a: ? = CumSum(%t, %last) %y: ? = Transpose(%a) {perm "
         "= [2, 0, 1, 3]}\n"},
    {AXIS(1), "%m: ? = ReduceMax(%c, %axis) %y: ? = Sub(%c, %m)\n"},
    {"", "%i: ? = ArgMax(%c) {axis = 1} %y: ? = Cast(%i) {to = 1}\n"},
    {"constant %k: int64[1] = {3}\n", "%y: ? , %i: ? = TopK(%c, %k) {axis = 2}\n"},
    {"constant %from: int64[2] = {0, 4} constant %to: int64[2] = {9223372036854775807, 20} constant %axes: "
     "int64[2] = {0, 1}\n",
     "%y: ? = Slice(%c, %from, %to, %axes)\n"},
    {"constant %parts: int64[2] = {8, 24}\n",
     "%a: ?, %d: ? = Split(%c, %parts) {axis = 1} %y: ? = Concat(%d, %a, %a) {axis = 1}\n"},
    {"constant %some: int64[3] = {5, 0, 5}\n", "%y: ? = Gather(%c, %some) {axis = 1}\n"},
    {"constant %p: int64[8] = {0, 1, 0, 2, 0, 0, 3, 0}\n", "%y: ? = Pad(%c, %p)\n"},
    {"constant %f: float32[4] = {1.0, 1.0, 2.0, 2.0}\n",
     "%y: ? = Resize(%c, _, %f) {coordinate_transformation_mode = \"asymmetric\", mode = \"nearest\", "
     "nearest_mode = \"floor\"}\n"},
    {"", "%y: ? = DepthToSpace(%c) {blocksize = 2}\n"},
    {"", "%p: ? = MaxPool(%c) {kernel_shape = [2, 2], strides = [2, 2]} %q: ? = GlobalAveragePool(%p) %y: ? "
         "= Mul(%p, %q)\n"},
    {"", "%y: ? = MatMul(%c, %c)\n"},
    {"", "%y: ? = Einsum(%c, %c) {equation = \"nchw,nkhw->nkc\"}\n"},
    {"", "%f: ? = Flatten(%c) {axis = 1} %y: ? = Gemm(%f, %wide, %narrow)\n"},
    /* Beside each sample goes what is the same for all: once for each. */
    {"constant %first: float32[1,1,144] = zeros constant %zero: int64[1] = {0} constant %rest: int64[2] = "
     "{1, 144} constant %same: int64[3] = {0, 32, 144}\n",
     "%n: ? = Shape(%c) %g: ? = Gather(%n, %zero) %s: ? = Concat(%g, %rest) {axis = 0} %e: ? = "
     "Expand(%first, %s)\n"
     "%r: ? = Reshape(%c, %same) %y: ? = Concat(%e, %r) {axis = 1}\n"},
    {"constant %zero: int64[1] = {0} constant %rest: int64[3] = {1, 1, 1}\n",
     "%n: ? = Shape(%c) %g: ? = Gather(%n, %zero) %s: ? = Concat(%g, %rest) {axis = 0} %e: ? = "
     "ConstantOfShape(%s) %y: ? = Add(%c, %e)\n"},
    {"constant %small: float32[12] = zeros\n", "%y: ? = LayerNormalization(%c, %small)\n"},
    {TWO, "%a: ? = Greater(%c, %two) %y: ? = Where(%a, %two, %c)\n"},
    {"", "%y: ? = Trilu(%c)\n"},
    {"constant %same: int64[3] = {0, 32, 144} constant %w: float32[2,32,144] = zeros constant %r: "
     "float32[2,32,8] = zeros "
     "constant %h: float32[2,64] = zeros\n",
     "%s: ? = Reshape(%c, %same) %t: ? = Transpose(%s) {perm = [1, 0, 2]}\n"
     "%l: ?, _, _ = LSTM(%t, %w, %r, %h) {direction = \"bidirectional\", hidden_size = 8} %y: ? = "
     "Transpose(%l) {perm = [2, 0, 1, 3]}\n"},
    {"constant %same: int64[3] = {0, 32, 144} constant %w: float32[1,24,144] = zeros constant %r: "
     "float32[1,24,8] = zeros\n",
     "%s: ? = Reshape(%c, %same) %t: ? = Transpose(%s) {perm = [1, 0, 2]}\n"
     "_, %l: ? = GRU(%t, %w, %r) {hidden_size = 8} %y: ? = Transpose(%l) {perm = [1, 0, 2]}\n"},
    {"constant %mask: float32[12,12] = zeros\n", "%y: ? = Attention(%c, %c, %c, %mask)\n"},
};

static const ending joined[] = {
    {"", "%y: ? = Softmax(%c) {axis = 0}\n"},
    {AXIS(0), "%m: ? = ReduceMean(%c, %axis) %y: ? = Sub(%c, %m)\n"},
    {"constant %axis: int64[] = {0}\n", "%y: ? = CumSum(%c, %axis)\n"},
    {"constant %from: int64[1] = {-1} constant %to: int64[1] = {-9223372036854775807} constant %step: "
     "int64[1] = {-1}" AXIS(0),
     "%y: ? = Slice(%c, %from, %to, %axis, %step)\n"},
    {"constant %row: int64[1] = {0}\n", "%g: ? = Gather(%c, %row) {axis = 0} %y: ? = Add(%c, %g)\n"},
    {"", "%y: ? = Concat(%c, %c) {axis = 0}\n"},
    {"constant %flat: int64[2] = {-1, 144} constant %back: int64[3] = {-1, 32, 144}" AXIS(0),
     "%f: ? = Reshape(%c, %flat) %m: ? = ReduceMean(%f, %axis) %q: ? = Sub(%f, %m) %y: ? = Reshape(%q, "
     "%back)\n"},
    {"constant %twice: int64[4] = {2, 1, 1, 1} constant %back: int64[3] = {-1, 64, 144}\n",
     "%t: ? = Tile(%c, %twice) %y: ? = Reshape(%t, %back)\n"},
    {"constant %flat: int64[2] = {-1, 144} constant %back: int64[3] = {-1, 32, 144}\n",
     "%r: ? = Reshape(%c, %rows) %t: ? = Transpose(%r) {perm = [1, 0, 2]} %f: ? = Reshape(%t, %flat) %y: ? = "
     "Reshape(%f, %back)\n"},
    {"constant %flat: int64[2] = {-1, 144} constant %back: int64[3] = {-1, 32, 144}\n",
     "%r: ? = Reshape(%c, %rows) %t: ? = Transpose(%r) {perm = [1, 0, 2]} %f: ? = Reshape(%t, %flat) %g: ? = "
     "Reshape(%c, %flat)\n"
     "%q: ? = Add(%f, %g) %y: ? = Reshape(%q, %back)\n"},
    /* Of one sample, the axis of the samples goes, too. */
    {"", "%p: ? = GlobalMaxPool(%c) %y: ? = Squeeze(%p)\n"},
    /* The elements of a sample come to lie among those of others. */
    {"constant %s: int64[4] = {32, -1, 12, 12}\n",
     "%r: ? = Reshape(%c, %s) %y: ? = Transpose(%r) {perm = [1, 0, 2, 3]}\n"},
    {"constant %zero: int64[1] = {0}\n",
     "%n: ? = Shape(%c) %g: ? = Gather(%n, %zero) %f: ? = Cast(%g) {to = 1} %y: ? = Mul(%c, %f)\n"},
    {"", "%z: ? = Size(%c) %f: ? = Cast(%z) {to = 1} %y: ? = Div(%c, %f)\n"},
    {"constant %zero: int64[] = {0} constant %one: int64[] = {1} constant %s: int64[4] = {-1, 1, 1, 1}\n",
     "%n: ? = Shape(%c) %g: ? = Gather(%n, %zero) %i: ? = Range(%zero, %g, %one) %r: ? = Reshape(%i, %s) %f: "
     "? = Cast(%r) {to = 1}\n"
     "%y: ? = Add(%c, %f)\n"},
    {"", "%f: ? = Flatten(%c) {axis = 1} %t: ? = Transpose(%f) {perm = [1, 0]} %y: ? = MatMul(%f, %t)\n"},
    {"", "%y: ? = Einsum(%c, %c) {equation = \"nchw,mchw->nm\"}\n"},
    {"", "%r: ? = RandomNormalLike(%c) {seed = 1.0} %y: ? = Add(%c, %r)\n"},
    {"", "%y: ?, %i: ? = MaxPool(%c) {kernel_shape = [2, 2], strides = [2, 2]}\n"},
    {"constant %k: int64[1] = {1}\n", "%t: ?, %i: ? = TopK(%c, %k) {axis = 0} %y: ? = Add(%c, %t)\n"},
    {"", "%q: ?, %s: ?, %z: ? = DynamicQuantizeLinear(%c) %y: ? = DequantizeLinear(%q, %s, %z)\n"},
    /* Sequences of one sample are another one's batch. */
    {"constant %same: int64[3] = {0, 32, 144} constant %w: float32[1,24,144] = zeros constant %r: "
     "float32[1,24,8] = zeros\n",
     "%s: ? = Reshape(%c, %same) %l: ?, _ = GRU(%s, %w, %r) {hidden_size = 8} %y: ? = Tanh(%l)\n"},
    /* No output has samples. */
    {AXIS(0), "%y: ? = ReduceMean(%c, %axis)\n"},
    {"", "%y: ? = Shape(%c)\n"},
};

static char text[TEXT];

/* `outputs`: "%y", or more. */
static const char *module_text(const ending *end, const char *outputs) {
    support_writer to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"batch\" {\n symbol N\n");
    support_write_constant(&to, "u", "float32", "32,8,3,3", FILTERS * CHANNELS * 9, 1);
    support_write_constant(&to, "v", "float32", "32,32,3,3", FILTERS * FILTERS * 9, 2);
    support_write_constant(&to, "wide", "float32", "4608,6", FILTERS * POINTS * 6, 3);
    support_write_constant(&to, "narrow", "float32", "6", 6, 4);
    support_write(&to, " constant %%last: int64[] = {3} constant %%rows: int64[3] = {0, 32, 144}\n %s",
                  end->constants);
    support_write(
        &to,
        " graph main(%%x: float32[N,8,12,12]) {\n"
        " %%b: ? = Conv(%%x, %%u) {pads = [1, 1, 1, 1]}\n %%c: ? = Conv(%%b, %%v) {pads = [1, 1, 1, 1]}\n");
    support_write(&to, " %s yield %s\n }\n}\n", end->nodes, outputs);
    return text;
}

static void bind_samples(const support_session *to, size_t input, const float *x, int samples) {
    const int64_t shape[] = {samples, CHANNELS, SIDE, SIDE};
    ouro_error error;
    if (ouro_session_bind_input(to->session, input, x, (size_t)samples * CHANNELS * POINTS * sizeof *x, shape,
                                &error) != OURO_OK)
        fail_msg("%s", error.message);
}

static const float *make_samples(void) {
    static float x[MOST_SAMPLES * CHANNELS * POINTS];
    uint64_t seed = 11;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 0.001f * (float)random_range(&seed, -1000, 1000);
    return x;
}

static pass_options options_of(bool whole, int threads) {
    return (pass_options){.max_unroll = 16,
                          .exact_arithmetic = true,
                          .whole_batch = whole,
                          .environment = {.threads = threads}};
}

static void read_output(const support_session *of, ouro_tensor_info *info, const float **data) {
    ouro_error error;
    const void *found;
    if (ouro_session_output(of->session, 0, info, &found, &error) != OURO_OK) fail_msg("%s", error.message);
    *data = found;
}

static void expect_same(const support_session *split, const support_session *whole, const ending *end,
                        int samples) {
    ouro_tensor_info a, b;
    const float *got, *want;
    read_output(split, &a, &got);
    read_output(whole, &b, &want);
    assert_int_equal(a.rank, b.rank);
    for (int d = 0; d < a.rank; d++) assert_int_equal(a.dims[d], b.dims[d]);
    assert_int_equal(a.dims[0], samples);
    assert_int_equal(a.bytes, b.bytes);
    for (size_t i = 0; i < a.bytes / sizeof *got; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
            fail_msg("%s: %d samples: element %zu is %g, expected %g", end->nodes, samples, i, (double)got[i],
                     (double)want[i]);
}

static void samples_apart(void **state) {
    (void)state;
    const float *x = make_samples();
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        for (int threads = 1; threads <= 2; threads++) {
            const pass_options each = options_of(false, threads), together = options_of(true, threads);
            support_session split, whole;
            support_session_open_with(&split, module_text(&apart[i], "%y"), &each);
            support_session_open_with(&whole, text, &together);
            const plan_header *header = split.session->of->header;
            if (!header->batch) fail_msg("not split: %s", apart[i].nodes);
            assert_int_equal(whole.session->of->header->batch, 0);
            assert_true(header->arena_bytes > 0);
            static const int numbers[] = {1, 3, 0, MOST_SAMPLES, 2};
            for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
                /* Of no sample, nothing says what the -1 of such a shape stands for. */
                if (!numbers[k] && strstr(apart[i].constants, "%minus")) continue;
                bind_samples(&split, 0, x, numbers[k]);
                bind_samples(&whole, 0, x, numbers[k]);
                support_run(&split);
                support_run(&whole);
                expect_same(&split, &whole, &apart[i], numbers[k]);
            }
            support_expect_no_allocations(&split);
            support_session_close(&split);
            support_session_close(&whole);
        }
    }
}

static void expect_whole(const char *module, const char *what) {
    const pass_options each = options_of(false, 1);
    size_t size;
    unsigned char *bytes = support_plan_with(module, &each, &size);
    if (((const plan_header *)(const void *)bytes)->batch) fail_msg("split: %s", what);
    free(bytes);
}

static void samples_joined(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
        expect_whole(module_text(&joined[i], "%y"), joined[i].nodes);
    expect_whole(module_text(&joined[18], "%y, %i"), "indices of MaxPool");
    /* An output that no sample has a part of. */
    const ending also = {AXIS(0), "%y: ? = Relu(%c) %z: ? = ReduceSum(%c, %axis)\n"};
    expect_whole(module_text(&also, "%y, %z"), "a sum beside");
}

/* Products of single rows, and small images, stay together; so does what has another dimension without a number. */
static void too_little(void **state) {
    (void)state;
    expect_whole("module \"m\" {\n symbol N\n constant %w: float32[512,512] = zeros\n"
                 " graph main(%x: float32[N,512]) {\n  %y: ? = MatMul(%x, %w)\n  yield %y\n }\n}\n",
                 "single rows");
    expect_whole("module \"m\" {\n symbol N\n constant %w: float32[8,8,1,1] = zeros\n"
                 " graph main(%x: float32[N,8,4,4]) {\n  %a: ? = Conv(%x, %w)\n  %y: ? = Tanh(%a)\n  yield "
                 "%y\n }\n}\n",
                 "small images");
    expect_whole("module \"m\" {\n symbol N\n constant %w: float32[1,256,64] = zeros\n constant %r: "
                 "float32[1,256,64] = zeros\n"
                 " graph main(%x: float32[N,64,64]) {\n  %t: ? = Transpose(%x) {perm = [1, 0, 2]}\n"
                 "  _, %l: ?, _ = LSTM(%t, %w, %r) {hidden_size = 64}\n  %y: ? = Transpose(%l) {perm = [1, "
                 "0, 2]}\n  yield %y\n }\n}\n",
                 "a recurrence");
    expect_whole("module \"m\" {\n symbol N\n symbol H\n constant %w: float32[64,64,3,3] = zeros\n"
                 " graph main(%x: float32[N,64,H,32]) {\n  %y: ? = Conv(%x, %w)\n  yield %y\n }\n}\n",
                 "two dimensions");
    expect_whole("module \"m\" {\n symbol N\n constant %w: float32[64,64,3,3] = zeros\n"
                 " graph main(%x: float32[64,64,N,32]) {\n  %y: ? = Conv(%x, %w)\n  yield %y\n }\n}\n",
                 "an extent that is no batch");
}

/* ---- the interface ------------------------------------------------------------------------------------- */

static const char two_inputs[] =
    "module \"pair\" {\n symbol N most 3\n constant %u: float32[64,8,3,3] = zeros\n constant %one: float32[] "
    "= {1.0}\n"
    " graph main(%x: float32[N,8,12,12], %z: float32[N,8,12,12], %f: float32[1,1,12,12]) {\n"
    "  %a: ? = Add(%x, %z)\n  %b: ? = Add(%a, %f)\n  %c: ? = Conv(%b, %u)\n  %y: ? = Add(%c, %one)\n  yield "
    "%b, %y\n }\n}\n";

static void interface_of_batch(void **state) {
    (void)state;
    const float *x = make_samples();
    static float f[POINTS], made_there[MOST_SAMPLES * CHANNELS * POINTS];
    const size_t sample = CHANNELS * POINTS * sizeof(float);
    const pass_options each = options_of(false, 1);
    support_session on;
    ouro_tensor_info info, made[2];
    ouro_needs needs;
    ouro_error error;
    for (int i = 0; i < POINTS; i++) f[i] = (float)i;
    support_session_open_with(&on, two_inputs, &each);
    assert_true(on.session->of->header->batch != 0);
    assert_int_equal(ouro_plan_input(on.plan, 0, &info), OURO_OK);
    assert_int_equal(info.dims[0], -1);
    assert_string_equal(info.dim_names[0], "N");
    assert_int_equal(ouro_plan_input(on.plan, 2, &info), OURO_OK);
    assert_int_equal(info.dims[0], 1);
    assert_int_equal(ouro_plan_output(on.plan, 1, &info), OURO_OK);
    assert_int_equal(info.dims[0], -1);

    /* What a run of two samples gives is told before it. */
    const int64_t two[] = {2, CHANNELS, SIDE, SIDE}, *const dims[] = {two, two, NULL};
    assert_int_equal(ouro_session_prepare(on.session, dims, NULL, &needs, made, &error), OURO_OK);
    assert_int_equal(made[0].dims[0], 2);
    assert_int_equal(made[0].bytes, 2 * sample);
    assert_int_equal(needs.output_bytes, 2 * sample + 2 * 64 * 100 * sizeof(float));

    bind_samples(&on, 0, x, 3);
    bind_samples(&on, 1, x, 2);
    support_bind(&on, 2, f, sizeof f);
    assert_int_equal(ouro_session_run(on.session, &error), OURO_INVALID);
    assert_non_null(
        strstr(error.message, "inputs 'x' and 'z' have different extents for dimension 'N': 3 and 2"));
    bind_samples(&on, 0, x, 4);
    bind_samples(&on, 1, x, 4);
    assert_int_equal(ouro_session_run(on.session, &error), OURO_INVALID);
    assert_non_null(strstr(error.message, "input 'x': dimension 'N' is 4, the plan was made for at most 3"));

    /* Into the caller's memory, where there is enough of it. */
    bind_samples(&on, 0, x, 3);
    bind_samples(&on, 1, x, 3);
    assert_int_equal(ouro_session_bind_output(on.session, 0, made_there, 2 * sample, &error), OURO_OK);
    assert_int_equal(ouro_session_run(on.session, &error), OURO_USAGE);
    assert_non_null(strstr(error.message, "output 'b' was given 9216 bytes, this run makes 13824"));
    assert_int_equal(ouro_session_bind_output(on.session, 0, made_there, 3 * sample, &error), OURO_OK);
    support_run(&on);
    for (int i = 0; i < 3 * CHANNELS * POINTS; i++) assert_true(made_there[i] == 2 * x[i] + f[i % POINTS]);
    /* And into the session's again. */
    assert_int_equal(ouro_session_bind_output(on.session, 0, NULL, 0, &error), OURO_OK);
    bind_samples(&on, 0, x, 1);
    bind_samples(&on, 1, x, 1);
    support_run(&on);
    const float *b = support_output(&on, 0, sample);
    for (int i = 0; i < CHANNELS * POINTS; i++) assert_true(b[i] == 2 * x[i] + f[i % POINTS]);
    support_session_close(&on);
}

/* Plans that say something impossible of their batch are refused. */
static void spoiled_batch(void **state) {
    (void)state;
    const pass_options each = options_of(false, 1);
    size_t size;
    unsigned char *bytes = support_plan_with(two_inputs, &each, &size);
    plan_header *header = (plan_header *)(void *)bytes;
    plan_interface *inputs = (plan_interface *)(void *)(bytes + header->inputs.offset),
                   *outputs = (plan_interface *)(void *)(bytes + header->outputs.offset);
    const uint64_t batch = header->batch;
    for (int change = 0; change < 5; change++) {
        ouro_plan *opened;
        ouro_error error;
        header->batch = change == 0 ? 0 : change == 1 ? header->symbols.count : batch;
        inputs[0].sample = change != 4;
        inputs[1].sample = change != 4;
        outputs[1].sample = change == 2 ? 0 : change == 3 ? 2 : 1;
        support_plan_seal(bytes, size);
        assert_int_equal(ouro_plan_open(bytes, size, &opened, &error), OURO_INVALID);
        assert_non_null(strstr(error.message, "batch"));
    }
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_apart),      cmocka_unit_test(samples_joined), cmocka_unit_test(too_little),
        cmocka_unit_test(interface_of_batch), cmocka_unit_test(spoiled_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
