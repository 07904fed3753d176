/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_attention.c: attention against a plain reference that holds all scores: chunks and blocks that are full, begun and
 * nearly empty, heads that share keys, masks of every kind, limits of what a query sees, scores given out, every type. */
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct attention_case {
    op_dtype dtype;
    int64_t batch, heads, shared, queries, keys, depth, width;
    bool flat; /* queries, keys and values have rank 3 */
    int mask; /* 0: none; 1: bool by query and key; 2: numbers by head; 3: numbers that reach half of the keys; 4: integers, one a batch */
    bool causal, lengths;
    int64_t offset, window;
    float softcap;
    int scores;      /* -1: not given out */
    bool sinks;      /* of each head one more key */
    op_dtype stored; /* of keys and values, where it is another */
} attention_case;

static const attention_case cases[] = {
    {OP_FLOAT, 2, 3, 1, 4, 6, 8, 10, false, 0, false, false, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 1, 2, 1, 70, 300, 24, 17, false, 0, true, false, 230, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 2, 4, 2, 150, 129, 16, 16, true, 1, false, false, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 1, 6, 3, 100, 100, 5, 33, true, 2, true, false, 0, 0, 2.5f, 0, false, OP_NONE},
    {OP_FLOAT, 1, 4, 4, 1, 700, 32, 32, false, 0, false, true, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 2, 4, 2, 3, 260, 20, 12, false, 3, false, false, 0, 0, 0, 1, false, OP_NONE},
    {OP_FLOAT, 2, 2, 1, 40, 200, 16, 16, true, 4, true, true, 160, 37, 1, 2, false, OP_NONE},
    {OP_FLOAT, 1, 2, 2, 300, 260, 8, 8, false, 1, true, false, 0, 0, 0, 3, false, OP_NONE},
    {OP_DOUBLE, 2, 4, 2, 9, 140, 19, 21, true, 2, true, false, 131, 0, 3, 3, false, OP_NONE},
    {OP_DOUBLE, 1, 2, 1, 70, 64, 16, 16, false, 1, false, true, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT16, 1, 4, 2, 33, 150, 16, 24, true, 2, true, false, 120, 50, 0, -1, false, OP_NONE},
    {OP_FLOAT16, 2, 4, 4, 2, 150, 16, 24, false, 1, false, true, 0, 0, 0, 2, false, OP_NONE},
    {OP_BFLOAT16, 1, 2, 1, 3, 20, 16, 8, false, 0, true, false, 17, 0, 5, 3, false, OP_NONE},
    {OP_FLOAT, 2, 4, 2, 70, 150, 16, 24, true, 2, true, false, 80, 0, 0, 3, true, OP_NONE},
    {OP_FLOAT, 1, 4, 2, 1, 300, 16, 16, false, 0, false, true, 0, 0, 2, -1, true, OP_NONE},
    {OP_FLOAT16, 2, 2, 1, 5, 40, 8, 8, false, 1, true, false, 35, 9, 0, -1, true, OP_NONE},
    {OP_DOUBLE, 1, 3, 3, 4, 30, 8, 8, true, 0, true, false, 26, 0, 0, 3, true, OP_NONE},
    /* A few queries: more keys than a block, heads between each other's rows and not, halves. */
    {OP_FLOAT, 1, 6, 1, 1, 2100, 64, 64, true, 0, false, false, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 2, 6, 2, 2, 1090, 40, 24, true, 2, true, true, 1085, 1050, 3, -1, true, OP_NONE},
    {OP_FLOAT, 1, 8, 4, 1, 1300, 64, 64, false, 1, false, false, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 3, 70, 1, 1, 150, 8, 8, true, 0, false, false, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT16, 1, 6, 1, 1, 700, 64, 32, true, 0, false, true, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT16, 2, 8, 2, 1, 555, 24, 40, false, 1, true, false, 550, 300, 0, -1, false, OP_NONE},
    {OP_BFLOAT16, 1, 6, 3, 3, 1100, 16, 16, true, 2, true, false, 1090, 0, 0, -1, false, OP_NONE},
    /* Keys and values in half precision beside queries in float: a few queries of whole registers and not, and many. */
    {OP_FLOAT, 1, 6, 1, 1, 2100, 64, 32, true, 0, false, false, 0, 0, 0, -1, false, OP_FLOAT16},
    {OP_FLOAT, 1, 6, 1, 1, 15, 64, 64, true, 0, false, false, 0, 0, 0, -1, false, OP_BFLOAT16},
    {OP_FLOAT, 2, 8, 4, 1, 1091, 16, 48, false, 2, true, true, 1085, 1050, 3, -1, true, OP_FLOAT16},
    {OP_FLOAT, 2, 6, 2, 3, 777, 32, 16, true, 1, true, false, 775, 0, 0, -1, false, OP_BFLOAT16},
    {OP_FLOAT, 1, 4, 2, 2, 333, 24, 40, false, 0, false, false, 0, 0, 0, -1, false, OP_FLOAT16},
    {OP_FLOAT, 1, 4, 2, 1, 40, 16, 8, true, 0, false, false, 0, 0, 0, -1, false, OP_BFLOAT16},
    {OP_FLOAT, 1, 4, 2, 33, 150, 16, 24, true, 2, true, false, 120, 50, 0, -1, false, OP_FLOAT16},
    {OP_FLOAT, 2, 4, 4, 2, 150, 16, 24, false, 1, false, true, 0, 0, 0, 3, false, OP_BFLOAT16},
    /* Keys of one block: windows, many queries, heads that share keys in one part of the queries; one head in several chunks. */
    {OP_FLOAT, 4, 3, 1, 49, 49, 32, 32, false, 2, false, false, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 2, 6, 1, 64, 64, 10, 10, true, 2, true, false, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 1, 2, 1, 1000, 16, 32, 32, true, 0, false, true, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 2, 6, 3, 45, 77, 20, 18, true, 2, true, true, 32, 0, 0, -1, true, OP_NONE},
    {OP_FLOAT, 2, 6, 3, 45, 77, 20, 18, false, 2, true, false, 32, 20, 0, -1, false, OP_FLOAT16},
    {OP_FLOAT, 1, 4, 2, 60, 128, 16, 16, false, 1, true, false, 68, 0, 0, 3, false, OP_NONE},
    {OP_FLOAT, 1, 1, 1, 320, 320, 48, 48, true, 0, false, false, 0, 0, 0, -1, false, OP_NONE},
    {OP_FLOAT, 1, 1, 1, 250, 250, 15, 17, true, 2, true, true, 0, 0, 0, -1, true, OP_NONE},
    {OP_FLOAT16, 1, 2, 1, 70, 100, 24, 8, true, 2, true, false, 30, 0, 0, -1, false, OP_NONE},
    {OP_DOUBLE, 1, 4, 2, 100, 60, 8, 12, true, 2, true, false, 10, 0, 0, -1, true, OP_NONE},
};

/* Row `row` of a head of an operand of either rank. */
static int64_t row_at(const attention_case *c, int64_t heads, int64_t rows, int64_t size, int64_t b,
                      int64_t h, int64_t row) {
    return c->flat ? ((b * rows + row) * heads + h) * size : ((b * heads + h) * rows + row) * size;
}

static void add_rows(application *app, const attention_case *c, int64_t heads, int64_t rows, int64_t size,
                     op_dtype dtype, uint64_t *seed) {
    if (c->flat) application_random(app, dtype, 3, DIMS(c->batch, rows, heads * size), seed);
    else application_random(app, dtype, 4, DIMS(c->batch, heads, rows, size), seed);
}

static void add_mask(application *app, const attention_case *c, uint64_t *seed) {
    if (c->mask == 0) application_absent(app);
    if (c->mask == 1) {
        bool *seen = application_input(app, OP_BOOL, 2, DIMS(c->queries, c->keys));
        /* One key is always seen: a query that sees none has no weights. */
        for (int64_t i = 0; i < c->queries * c->keys; i++)
            seen[i] = i % c->keys == 0 || random_range(seed, 0, 3) > 0;
    }
    if (c->mask == 2) application_random(app, c->dtype, 3, DIMS(c->heads, c->queries, c->keys), seed);
    if (c->mask == 3) application_random(app, c->dtype, 4, DIMS(c->batch, 1, 1, c->keys / 2), seed);
    if (c->mask == 4) {
        int32_t *added = application_input(app, OP_INT32, 4, DIMS(c->batch, 1, 1, c->keys));
        for (int64_t i = 0; i < c->batch * c->keys; i++) added[i] = (int32_t)random_range(seed, -2, 2);
    }
}

static double masked(const application *app, const attention_case *c, double score, int64_t b, int64_t h,
                     int64_t i, int64_t j) {
    const op_tensor *mask = &app->inputs[3];
    if (c->mask == 1 && !((const bool *)mask->data)[i * c->keys + j]) return -(double)INFINITY;
    if (c->mask == 2) score += application_element(mask, (h * c->queries + i) * c->keys + j);
    if (c->mask == 3)
        score =
            j < c->keys / 2 ? score + application_element(mask, b * (c->keys / 2) + j) : -(double)INFINITY;
    if (c->mask == 4) score += ((const int32_t *)mask->data)[b * c->keys + j];
    if (c->lengths && j >= c->keys - 1 - b) return -(double)INFINITY;
    if (c->causal && j > i + c->offset) return -(double)INFINITY;
    if (c->causal && c->window && j <= i + c->offset - c->window) return -(double)INFINITY;
    return score;
}

static void check_query(application *app, const attention_case *c, int64_t b, int64_t h, int64_t i,
                        uint64_t seed) {
    const int64_t groups = c->heads / c->shared;
    double *scores = calloc((size_t)c->keys * 2, sizeof *scores), *given = scores + c->keys,
           largest = -(double)INFINITY, sum = 0;
    assert_non_null(scores);
    for (int64_t j = 0; j < c->keys; j++) {
        const int64_t q = row_at(c, c->heads, c->queries, c->depth, b, h, i);
        const int64_t k = row_at(c, groups, c->keys, c->depth, b, h / c->shared, j);
        double score = 0;
        for (int64_t d = 0; d < c->depth; d++)
            score +=
                application_element(&app->inputs[0], q + d) * application_element(&app->inputs[1], k + d);
        score /= sqrt((double)c->depth);
        given[j] = score;
        if (c->softcap > 0) score = (double)c->softcap * tanh(score / (double)c->softcap);
        if (c->scores >= 1) given[j] = score;
        scores[j] = masked(app, c, score, b, h, i, j);
        if (c->scores == 2) given[j] = scores[j];
        largest = fmax(largest, scores[j]);
    }
    const double sink = c->sinks ? application_element(&app->inputs[6], h) : -(double)INFINITY;
    largest = fmax(largest, sink);
    sum = exp(sink - largest);
    for (int64_t j = 0; j < c->keys; j++) sum += scores[j] = exp(scores[j] - largest);
    /* Sums that cancel are compared with what was added, which is at most one. */
    const double tolerance = c->dtype == OP_BFLOAT16  ? 2e-2
                             : c->dtype == OP_FLOAT16 ? 2e-3
                             : c->dtype == OP_DOUBLE  ? 1e-12
                                                      : 5e-6;
    for (int64_t d = 0; d < c->width; d++) {
        double y = 0;
        for (int64_t j = 0; j < c->keys; j++) {
            const int64_t v = row_at(c, groups, c->keys, c->width, b, h / c->shared, j);
            y += scores[j] / sum * application_element(&app->inputs[2], v + d);
        }
        const int64_t at = row_at(c, c->heads, c->queries, c->width, b, h, i) + d;
        application_check_near(application_element(&app->outputs[0], at), y, tolerance, seed, at);
    }
    for (int64_t j = 0; c->scores >= 0 && j < c->keys; j++) {
        const int64_t at = ((b * c->heads + h) * c->queries + i) * c->keys + j;
        const double got = application_element(&app->outputs[1], at),
                     want = c->scores == 3 ? scores[j] / sum : given[j];
        if (isinf(want)) assert_true(isinf(got) && got < 0);
        else application_check_near(got, want, tolerance, seed, at);
    }
    free(scores);
}

static void begin(application *app, const attention_case *c, uint64_t *seed) {
    const int64_t groups = c->heads / c->shared;
    application_init(app, OP_ATTENTION);
    const op_dtype stored = c->stored != OP_NONE ? c->stored : c->dtype;
    add_rows(app, c, c->heads, c->queries, c->depth, c->dtype, seed);
    add_rows(app, c, groups, c->keys, c->depth, stored, seed);
    add_rows(app, c, groups, c->keys, c->width, stored, seed);
    if (c->stored != OP_NONE) application_integer(app, "ouro.halves", 1);
    add_mask(app, c, seed);
    if (c->lengths) {
        int64_t *lengths = application_input(app, OP_INT64, 1, DIMS(c->batch));
        for (int64_t b = 0; b < c->batch; b++) lengths[b] = c->keys - 1 - b;
    } else {
        application_absent(app);
    }
    if (c->offset) *(int64_t *)application_input(app, OP_INT64, 0, NULL) = c->offset;
    if (c->sinks && !c->offset) application_absent(app);
    if (c->sinks) application_random(app, c->dtype, 1, DIMS(c->heads), seed);
    if (c->flat) {
        application_integer(app, "q_num_heads", c->heads);
        application_integer(app, "kv_num_heads", groups);
    }
    if (c->causal) application_integer(app, "is_causal", 1);
    if (c->window) application_integer(app, "ouro.window", c->window);
    if (c->softcap > 0) application_real(app, "softcap", c->softcap);
    app->call.output_count = c->scores < 0 ? 1 : 2;
    if (c->scores >= 0) application_integer(app, "qk_matmul_output_mode", c->scores);
}

static void test_attention(void **state) {
    (void)state;
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const attention_case *c = &cases[index];
        void *alone = NULL; /* what one thread computes */
        for (int threads = 1; threads <= 3; threads++) {
            uint64_t seed = 7919 * (index + 1);
            application app;
            begin(&app, c, &seed);
            if (application_infer(&app) != BASE_OK) fail_msg("case %zu: %s", index, app.report.text);
            application_run(&app, "portable.attention", threads);
            for (int64_t b = 0; b < c->batch; b++) {
                for (int64_t h = 0; h < c->heads; h++) {
                    for (int64_t i = 0; i < c->queries; i += 1 + c->queries / 40)
                        check_query(&app, c, b, h, i, index);
                }
            }
            const size_t bytes = app.outputs[0].bytes;
            if (!alone) {
                assert_non_null(alone = malloc(bytes));
                memcpy(alone, app.outputs[0].data, bytes);
            }
            assert_memory_equal(alone, app.outputs[0].data, bytes);
            application_free(&app);
        }
        free(alone);
    }
}

/* Values without a limit stay so. */
static void test_infinite_values(void **state) {
    (void)state;
    enum { KEYS = 20, SIZE = 8 };
    for (int64_t queries = 1; queries <= 31; queries += 10) {
        uint64_t seed = 3;
        application app;
        application_init(&app, OP_ATTENTION);
        application_random(&app, OP_FLOAT, 4, DIMS(1, 1, queries, SIZE), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(1, 1, KEYS, SIZE), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(1, 1, KEYS, SIZE), &seed);
        float *v = app.inputs[2].data;
        v[3 * SIZE + 1] = INFINITY;
        v[7 * SIZE + 4] = -INFINITY;
        assert_int_equal(application_infer(&app), BASE_OK);
        application_run(&app, "portable.attention", 1);
        const float *y = app.outputs[0].data;
        for (int64_t i = 0; i < queries * SIZE; i++)
            assert_true(i % SIZE == 1   ? y[i] == INFINITY
                        : i % SIZE == 4 ? y[i] == -INFINITY
                                        : isfinite(y[i]));
        application_free(&app);
    }
}

/* Results may be written over the queries. */
static void test_in_place(void **state) {
    (void)state;
    const attention_case c = {OP_FLOAT, 2,    4,     2, 30, 40, 16, 16,    true,
                              0,        true, false, 0, 0,  0,  -1, false, OP_NONE};
    uint64_t seed = 5, again = 5;
    application apart, over;
    begin(&apart, &c, &seed);
    begin(&over, &c, &again);
    assert_int_equal(application_infer(&apart), BASE_OK);
    assert_int_equal(application_infer(&over), BASE_OK);
    application_run(&apart, "portable.attention", 2);
    over.outputs[0].data = over.inputs[0].data;
    over.outputs[0].bytes = over.inputs[0].bytes;
    application_run(&over, "portable.attention", 2);
    assert_memory_equal(apart.outputs[0].data, over.inputs[0].data, over.inputs[0].bytes);
    application_free(&apart);
    application_free(&over);
}

/* A query that sees nothing but a sink gives zeros. */
static void test_only_sink_seen(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_ATTENTION);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 2, 4));
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 0, 4));
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 0, 3));
    for (int i = 0; i < 3; i++) application_absent(&app);
    application_input(&app, OP_FLOAT, 1, DIMS(2));
    assert_int_equal(application_infer(&app), BASE_OK);
    application_run(&app, "portable.attention", 1);
    for (int64_t i = 0; i < 12; i++) assert_true(application_element(&app.outputs[0], i) == 0);
    application_free(&app);
}

/* With ouro.unseen a query that sees nothing gives zeros, and weights of zero; the other queries give what they give without. */
static void test_unseen_zeros(void **state) {
    (void)state;
    static const op_dtype types[] = {OP_FLOAT, OP_FLOAT16, OP_DOUBLE};
    static const int64_t extents[][2] = {{1, 5}, {3, 40}, {33, 20}, {70, 300}}; /* queries and keys */
    for (int i = 0; i < 3 * 4 * 2; i++) {
        const int64_t queries = extents[i / 3 % 4][0], keys = extents[i / 3 % 4][1];
        const bool weights = i >= 12;
        application apps[2];
        for (int unseen = 0; unseen < 2; unseen++) {
            application *app = &apps[unseen];
            uint64_t seed = 3;
            application_init(app, OP_ATTENTION);
            application_random(app, types[i % 3], 4, DIMS(2, 2, queries, 9), &seed);
            application_random(app, types[i % 3], 4, DIMS(2, 2, keys, 9), &seed);
            application_random(app, types[i % 3], 4, DIMS(2, 2, keys, 7), &seed);
            bool *seen = application_input(app, OP_BOOL, 2, DIMS(queries, keys));
            for (int64_t at = 0; at < queries * keys; at++) seen[at] = at / keys % 3 != 0 && at % 2 == 0;
            application_integer(app, "ouro.unseen", unseen);
            if (weights) {
                app->call.output_count = 2;
                application_integer(app, "qk_matmul_output_mode", 3);
            }
            assert_int_equal(application_infer(app), BASE_OK);
            application_run(app, "portable.attention", 1);
        }
        for (uint32_t output = 0; output <= weights; output++) {
            const int64_t length = output ? keys : 7;
            for (int64_t at = 0; at < 4 * queries * length; at++) {
                const double none = application_element(&apps[0].outputs[output], at),
                             zero = application_element(&apps[1].outputs[output], at);
                if (at / length % queries % 3) assert_true(zero == none);
                else assert_true(isnan(none) && zero == 0);
            }
        }
        for (int unseen = 0; unseen < 2; unseen++) application_free(&apps[unseen]);
    }
}

/* A query that sees nothing has no weights: 0 / 0, as Softmax has it. No keys at all is the same. */
static void test_nothing_seen(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_ATTENTION);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 1, 2, 4));
    application_input(&app, OP_FLOAT, 4, DIMS(1, 1, 0, 4));
    application_input(&app, OP_FLOAT, 4, DIMS(1, 1, 0, 3));
    assert_int_equal(application_infer(&app), BASE_OK);
    application_run(&app, "portable.attention", 1);
    for (int64_t i = 0; i < 6; i++) assert_true(isnan(application_element(&app.outputs[0], i)));
    application_free(&app);
    application_init(&app, OP_ATTENTION); /* nobody asks */
    for (int i = 0; i < 3; i++) application_input(&app, OP_FLOAT, 4, DIMS(1, 1, 0, 4));
    assert_int_equal(application_infer(&app), BASE_OK);
    application_run(&app, "portable.attention", 1);
    application_free(&app);
}

static void test_refused(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_ATTENTION);
    application_input(&app, OP_FLOAT, 3, DIMS(1, 2, 8));
    application_input(&app, OP_FLOAT, 3, DIMS(1, 2, 8));
    application_input(&app, OP_FLOAT, 3, DIMS(1, 2, 8));
    application_expect_failure(&app, "attribute \"q_num_heads\"");
    application_init(&app, OP_ATTENTION);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 2, 8));
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 2, 8));
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 2, 8));
    application_expect_failure(&app, "3 heads of queries, expected a multiple of the 2 of keys");
    application_init(&app, OP_ATTENTION);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 2, 8));
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 5, 8));
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 5, 8));
    application_input(&app, OP_FLOAT, 2, DIMS(3, 5));
    application_expect_failure(&app, "input 3 has shape [3,5]");
    for (int i = 0; i < 4; i++) { /* types that nobody mixes, but for our passes */
        static const op_dtype types[][3] = {{OP_FLOAT, OP_FLOAT16, OP_FLOAT16},
                                            {OP_FLOAT, OP_FLOAT16, OP_BFLOAT16},
                                            {OP_DOUBLE, OP_FLOAT16, OP_FLOAT16},
                                            {OP_FLOAT, OP_FLOAT, OP_FLOAT16}};
        application_init(&app, OP_ATTENTION);
        for (int k = 0; k < 3; k++) application_input(&app, types[i][k], 4, DIMS(1, 2, 2, 8));
        if (i) application_integer(&app, "ouro.halves", 1);
        application_expect_failure(&app, i == 1 || i == 3 ? "input 2 is " : "input 1 is float16");
    }
    application_init(&app, OP_ATTENTION);
    for (int i = 0; i < 3; i++) application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 2, 8));
    for (int i = 0; i < 3; i++) application_absent(&app);
    application_input(&app, OP_FLOAT, 1, DIMS(3));
    application_expect_failure(&app, "input 6");
}

/* Two keys that are far better than all others, and as good as each other, share the weight: the result is exact. */
static void test_equal_scores(void **state) {
    (void)state;
    enum { KEYS = 37, SIZE = 4, FIRST = 5, SECOND = 30 };
    for (int64_t queries = 1; queries <= 25; queries += 6) {
        application app;
        application_init(&app, OP_ATTENTION);
        float *q = application_input(&app, OP_FLOAT, 4, DIMS(1, 1, queries, SIZE)),
              *k = application_input(&app, OP_FLOAT, 4, DIMS(1, 1, KEYS, SIZE)),
              *v = application_input(&app, OP_FLOAT, 4, DIMS(1, 1, KEYS, SIZE));
        for (int64_t i = 0; i < queries * SIZE; i++) q[i] = 1.1f + (float)(i / SIZE);
        for (int i = 0; i < KEYS * SIZE; i++) {
            const int key = i / SIZE;
            k[i] = key == FIRST || key == SECOND ? 7.3f : -100.0f;
            v[i] = (float)(i * 7 % 23) - 11;
        }
        application_run(&app, "portable.attention", 1);
        const float *y = app.outputs[0].data;
        for (int64_t i = 0; i < queries * SIZE; i++)
            assert_true(y[i] == (v[FIRST * SIZE + i % SIZE] + v[SECOND * SIZE + i % SIZE]) / 2);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_scores), cmocka_unit_test(test_attention),
        cmocka_unit_test(test_in_place),     cmocka_unit_test(test_unseen_zeros),
        cmocka_unit_test(test_nothing_seen), cmocka_unit_test(test_only_sink_seen),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_infinite_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
