/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_learned.c: what the operators of ai.onnx.ml are made of: random trees against a walk node by node, constants
 * that must be refused, keys of every kind; n-grams that share a place. */
#include "ir/operators/tree_ensemble.h"
#include "tests/support/application.h"
#include "tests/support/operators.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { TREES = 11, NODES = 15, FEATURES = 5, TARGETS = 3, ROWS = 37 };

/* Complete trees of depth 3: node i of a tree leads to 2 i + 1 and 2 i + 2, the last eight are leaves. */
typedef struct forest {
    op_tensor inputs[7];
    bool wide;
} forest;

static int32_t *node_of(const forest *f, int64_t node) {
    return (int32_t *)f->inputs[OP_TREE_NODES].data + node * (f->wide ? OP_TREE_WORDS_DOUBLE : OP_TREE_WORDS);
}

static double split_of(const int32_t *node, bool wide) {
    float narrow;
    double split;
    memcpy(&narrow, node + OP_TREE_SPLIT, sizeof narrow);
    if (wide) memcpy(&split, node + OP_TREE_SPLIT_DOUBLE, sizeof split);
    return wide ? split : (double)narrow;
}

static void set_split(int32_t *node, bool wide, double split) {
    const float narrow = (float)split;
    if (wide) memcpy(node + OP_TREE_SPLIT_DOUBLE, &split, sizeof split);
    else memcpy(node + OP_TREE_SPLIT, &narrow, sizeof narrow);
}

/* Each leaf gives `gifts` weights to targets. */
static forest make_forest(base_arena *arena, test_random *random, op_dtype x, bool wide, int64_t targets,
                          int gifts, int32_t flags) {
    const int count = TREES * NODES, entries = TREES * (NODES + 1) / 2 * gifts;
    forest f = {.wide = wide};
    const op_dtype real = wide ? OP_DOUBLE : OP_FLOAT;
    f.inputs[OP_TREE_X] = test_tensor(arena, x, &(op_shape){2, {ROWS, FEATURES}});
    test_fill(&f.inputs[OP_TREE_X], random);
    f.inputs[OP_TREE_NODES] =
        test_tensor(arena, OP_INT32, &(op_shape){2, {count, wide ? OP_TREE_WORDS_DOUBLE : OP_TREE_WORDS}});
    f.inputs[OP_TREE_ROOTS] = test_tensor(arena, OP_INT32, &(op_shape){1, {TREES}});
    f.inputs[OP_TREE_FIRST] = test_tensor(arena, OP_INT32, &(op_shape){1, {count + 1}});
    f.inputs[OP_TREE_TARGETS] = test_tensor(arena, OP_INT32, &(op_shape){1, {entries}});
    f.inputs[OP_TREE_WEIGHTS] = test_tensor(arena, real, &(op_shape){1, {entries}});
    f.inputs[OP_TREE_BASE] = test_tensor(arena, real, &(op_shape){1, {targets}});
    int32_t *roots = f.inputs[OP_TREE_ROOTS].data, *first = f.inputs[OP_TREE_FIRST].data;
    int entry = 0;
    for (int i = 0; i < count; i++) {
        int32_t *node = node_of(&f, i);
        const int within = i % NODES, tree = i - within;
        const bool leaf = within >= NODES / 2;
        roots[i / NODES] = tree;
        node[OP_TREE_LEFT] = leaf ? i : tree + 2 * within + 1;
        node[OP_TREE_RIGHT] = leaf ? i : tree + 2 * within + 2;
        node[OP_TREE_FEATURE] = leaf ? 0 : (int32_t)test_random_below(random, FEATURES);
        if (!leaf && test_random_below(random, 2)) node[OP_TREE_FEATURE] |= flags;
        set_split(node, wide, leaf ? INFINITY : (double)test_random_below(random, 7) - 3);
        first[i] = entry;
        for (int k = 0; leaf && k < gifts; k++, entry++) {
            ((int32_t *)f.inputs[OP_TREE_TARGETS].data)[entry] = (int32_t)test_random_below(random, targets);
            test_set(&f.inputs[OP_TREE_WEIGHTS], entry, (double)test_random_below(random, 64) / 8 - 4);
        }
    }
    first[count] = entry;
    for (int i = 0; i < targets; i++) test_set(&f.inputs[OP_TREE_BASE], i, i + 0.5);
    return f;
}

/* All weights are multiples of 1/8, so that sums are exact in any order. */
static double walked(const forest *f, int64_t row, int64_t target, int aggregate) {
    double sum = 0;
    bool given = false;
    for (int tree = 0; tree < TREES; tree++) {
        int32_t at = ((const int32_t *)f->inputs[OP_TREE_ROOTS].data)[tree];
        for (const int32_t *node = node_of(f, at); node[OP_TREE_LEFT] != at; node = node_of(f, at)) {
            const double x = test_real(&f->inputs[OP_TREE_X],
                                       row * FEATURES + (node[OP_TREE_FEATURE] & OP_TREE_FEATURE_MASK)),
                         split = split_of(node, f->wide);
            bool left = node[OP_TREE_FEATURE] & OP_TREE_EQUAL ? x == split : x <= split;
            if (isnan(x)) left = (node[OP_TREE_FEATURE] & OP_TREE_NAN_LEFT) != 0;
            at = node[left ? OP_TREE_LEFT : OP_TREE_RIGHT];
        }
        const int32_t *first = f->inputs[OP_TREE_FIRST].data;
        for (int32_t i = first[at]; i < first[at + 1]; i++) {
            if (((const int32_t *)f->inputs[OP_TREE_TARGETS].data)[i] != target) continue;
            const double weight = test_real(&f->inputs[OP_TREE_WEIGHTS], i);
            if (!given) sum = weight;
            else if (aggregate == OP_TREE_MINIMUM) sum = weight < sum ? weight : sum;
            else if (aggregate == OP_TREE_MAXIMUM) sum = weight > sum ? weight : sum;
            else sum += weight;
            given = true;
        }
    }
    if (aggregate == OP_TREE_AVERAGE) sum /= TREES;
    return given ? sum + test_real(&f->inputs[OP_TREE_BASE], target) : 0;
}

static base_status give(forest *f, base_arena *arena, int64_t targets, int aggregate, int threads,
                        op_tensor *y) {
    const op_attribute attributes[] = {
        {.name = "targets", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = targets},
        {.name = "aggregate", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = aggregate}};
    op_call call = {.code = OP_TREE_ENSEMBLE,
                    .attributes = {2, attributes},
                    .input_count = 7,
                    .output_count = 1,
                    .inputs = f->inputs,
                    .outputs = y};
    const rt_environment environment = {.threads = threads, .portable_only = true};
    base_report report = {0};
    base_status status = op_infer(&call, &report);
    return status == BASE_OK ? rt_kernel_evaluate(&call, &environment, arena, &report) : status;
}

static void test_trees(void **state) {
    (void)state;
    static const op_dtype types[] = {OP_FLOAT, OP_DOUBLE, OP_INT32, OP_INT64};
    static const int32_t flags[] = {0, OP_TREE_NAN_LEFT, OP_TREE_EQUAL, OP_TREE_EQUAL | OP_TREE_NAN_LEFT};
    test_random random = {5};
    for (int i = 0; i < 128; i++) {
        base_arena arena;
        base_arena_init(&arena, NULL);
        const int64_t targets = i & 64 ? TARGETS : 1;
        const int aggregate = i >> 2 & 3, gifts = i & 64 ? 2 : 1;
        forest f = make_forest(&arena, &random, types[i & 3], i & 16, targets, gifts, flags[i >> 4 & 3]);
        if (test_is_real(types[i & 3]) && i & 32) test_set(&f.inputs[OP_TREE_X], 7, NAN);
        op_tensor y = {0}, again = {0};
        assert_int_equal(give(&f, &arena, targets, aggregate, 1, &y), BASE_OK);
        for (int64_t k = 0; k < ROWS * targets; k++) {
            const double wanted = walked(&f, k / targets, k % targets, aggregate), got = test_real(&y, k);
            if (fabs(wanted - got) > 1e-6 * fabs(wanted))
                fail_msg("case %d: row %lld gives %g, expected %g", i, (long long)(k / targets), got, wanted);
        }
        assert_int_equal(give(&f, &arena, targets, aggregate, 2, &again), BASE_OK);
        assert_memory_equal(y.data, again.data, y.bytes);
        base_arena_free(&arena);
    }
}

/* Trees of one branch, so deep and less deep, in one row and in several. */
static void test_deep_trees(void **state) {
    (void)state;
    test_random random = {8};
    for (int i = 0; i < 26 * 4; i++) {
        const int most = 1 + i % 13;
        const int64_t rows = i % 26 < 13 ? 1 : 1 + test_random_below(&random, 12);
        const int aggregate = i & 1 ? OP_TREE_SUM : OP_TREE_AVERAGE;
        base_arena arena;
        base_arena_init(&arena, NULL);
        forest f = make_forest(&arena, &random, OP_FLOAT, i >= 52, 1, 1, 0);
        for (int tree = 0; tree < TREES; tree++) {
            const int deep = tree ? 1 + (int)test_random_below(&random, most) : most, root = tree * NODES;
            for (int j = 0; j < NODES - 2; j++) {
                int32_t *node = node_of(&f, root + j);
                const int left = (int)test_random_below(&random, 2), next = j + 1 < deep ? j + 1 : NODES - 1;
                node[left ? OP_TREE_LEFT : OP_TREE_RIGHT] = root + next;
                node[left ? OP_TREE_RIGHT : OP_TREE_LEFT] = root + NODES - 2;
                node[OP_TREE_FEATURE] = (int32_t)test_random_below(&random, FEATURES);
                set_split(node, f.wide, (double)test_random_below(&random, 7) - 3);
            }
        }
        f.inputs[OP_TREE_X].type.shape.dims[0] = rows;
        op_tensor y = {0};
        assert_int_equal(give(&f, &arena, 1, aggregate, 1, &y), BASE_OK);
        for (int64_t k = 0; k < rows; k++) {
            const double wanted = walked(&f, k, 0, aggregate), got = test_real(&y, k);
            if (fabs(wanted - got) > 1e-6 * fabs(wanted))
                fail_msg("case %d: row %lld gives %g, expected %g", i, (long long)k, got, wanted);
        }
        base_arena_free(&arena);
    }
}

/* A walk that would not end, or leave the constants or the row, is refused. */
static void test_hostile_trees(void **state) {
    (void)state;
    test_random random = {6};
    for (int i = 0; i < 9; i++) {
        base_arena arena;
        base_arena_init(&arena, NULL);
        forest f = make_forest(&arena, &random, OP_FLOAT, false, 1, 1, 0);
        op_tensor y = {0};
        int32_t *node = node_of(&f, NODES);
        if (i == 1) node[OP_TREE_LEFT] = NODES - 1;
        if (i == 2) node[OP_TREE_RIGHT] = NODES; /* to itself, but on one side only */
        if (i == 3) node[OP_TREE_LEFT] = TREES * NODES;
        if (i == 4) node[OP_TREE_FEATURE] = FEATURES;
        if (i == 5) ((int32_t *)f.inputs[OP_TREE_ROOTS].data)[2] = -1;
        if (i == 6) ((int32_t *)f.inputs[OP_TREE_FIRST].data)[9] = 1 << 20;
        if (i == 7) ((int32_t *)f.inputs[OP_TREE_TARGETS].data)[0] = 1;
        if (i == 8) node[OP_TREE_FEATURE] = -1;
        assert_int_equal(give(&f, &arena, 1, OP_TREE_SUM, 1, &y), i ? BASE_INVALID : BASE_OK);
        base_arena_free(&arena);
    }
}

static op_tensor texts(base_arena *arena, int64_t count, const char *const *list) {
    op_tensor tensor = test_tensor(arena, OP_STRING, &(op_shape){1, {count}});
    for (int64_t i = 0; i < count; i++) ((op_string *)tensor.data)[i] = (op_string){list[i], strlen(list[i])};
    return tensor;
}

static op_tensor encoded(base_arena *arena, op_tensor x, op_tensor keys, op_tensor values,
                         op_tensor otherwise) {
    const op_tensor inputs[] = {x, keys, values, otherwise};
    op_tensor y = {0};
    op_call call = {
        .code = OP_LABEL_ENCODER, .input_count = 4, .output_count = 1, .inputs = inputs, .outputs = &y};
    const rt_environment environment = {.threads = 1, .portable_only = true};
    base_report report = {0};
    assert_int_equal(op_infer(&call, &report), BASE_OK);
    assert_int_equal(rt_kernel_evaluate(&call, &environment, arena, &report), BASE_OK);
    return y;
}

static void test_keys(void **state) {
    (void)state;
    base_arena arena;
    base_arena_init(&arena, NULL);
    const int64_t numbers[] = {10, 20, 30}, other[] = {-1};
    op_tensor values = test_vector(&arena, numbers, 3), otherwise = test_vector(&arena, other, 1);
    op_tensor y = encoded(&arena, texts(&arena, 4, (const char *const[]){"b", "", "x", "a"}),
                          texts(&arena, 3, (const char *const[]){"a", "b", ""}), values, otherwise);
    static const int64_t wanted[] = {20, 30, -1, 10};
    for (int i = 0; i < 4; i++) assert_int_equal(test_integer(&y, i), wanted[i]);
    /* All that is no number is one key, and so are both zeros; the last of equal keys counts. */
    op_tensor x = test_tensor(&arena, OP_FLOAT, &(op_shape){1, {4}}),
              keys = test_tensor(&arena, OP_FLOAT, &(op_shape){1, {3}});
    const double elements[] = {-0.0, -NAN, 1, 0}, marks[] = {NAN, -0.0, 0};
    for (int i = 0; i < 4; i++) test_set(&x, i, elements[i]);
    for (int i = 0; i < 3; i++) test_set(&keys, i, marks[i]);
    y = encoded(&arena, x, keys, values, otherwise);
    static const int64_t found[] = {30, 10, -1, 30};
    for (int i = 0; i < 4; i++) assert_int_equal(test_integer(&y, i), found[i]);
    base_arena_free(&arena);
}

/* Pairs that probabilities of classes explain give these back, within the error that ends the iteration. */
static void test_coupling(void **state) {
    (void)state;
    enum { CLASSES = 6, PAIRS = CLASSES * (CLASSES - 1) / 2 };
    for (int threads = 1; threads <= 3; threads++) {
        base_arena arena;
        base_arena_init(&arena, NULL);
        test_random random = {19};
        op_tensor x = test_tensor(&arena, OP_FLOAT, &(op_shape){2, {ROWS, PAIRS}}), y = {0};
        double wanted[ROWS][CLASSES];
        for (int row = 0; row < ROWS; row++) {
            double sum = 0;
            for (int i = 0; i < CLASSES; i++)
                sum += wanted[row][i] = (double)(1 + test_random_below(&random, 20));
            for (int i = 0; i < CLASSES; i++) wanted[row][i] /= sum;
            for (int i = 0, pair = 0; i < CLASSES; i++) {
                for (int j = i + 1; j < CLASSES; j++, pair++)
                    test_set(&x, row * PAIRS + pair, wanted[row][i] / (wanted[row][i] + wanted[row][j]));
            }
        }
        const op_attribute classes = {
            .name = "classes", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = CLASSES};
        op_call call = {.code = OP_PAIRWISE_COUPLING,
                        .attributes = {.count = 1, .items = &classes},
                        .input_count = 1,
                        .output_count = 1,
                        .inputs = &x,
                        .outputs = &y};
        const rt_environment environment = {.threads = threads, .portable_only = true};
        base_report report = {0};
        assert_int_equal(op_infer(&call, &report), BASE_OK);
        assert_int_equal(rt_kernel_evaluate(&call, &environment, &arena, &report), BASE_OK);
        for (int row = 0; row < ROWS; row++) {
            double sum = 0;
            for (int i = 0; i < CLASSES; i++) {
                const double got = test_real(&y, row * CLASSES + i);
                sum += got;
                assert_true(fabs(got - wanted[row][i]) < 0.005);
            }
            assert_true(fabs(sum - 1) < 1e-5);
        }
        x.type.shape.dims[1] = PAIRS - 1;
        assert_int_equal(op_infer(&call, &report), BASE_INVALID);
        base_arena_free(&arena);
    }
}

/* Two n-grams of one place in the result: each counts with its own weight. */
static void test_ngrams(void **state) {
    (void)state;
    static const char *const modes[] = {"TF", "TFIDF", "IDF"};
    static const float weights[] = {1, 2, 0.5f}, expected[][2] = {{1, 4}, {1, 6.5f}, {1, 2}};
    for (int mode = 0; mode < 3; mode++) {
        application app;
        application_init(&app, OP_TF_IDF_VECTORIZER);
        const int64_t row[] = {2, 1, 3, 2, 2};
        memcpy(application_input(&app, OP_INT64, 1, DIMS(5)), row, sizeof row);
        application_text(&app, "mode", modes[mode]);
        application_integer(&app, "min_gram_length", 1);
        application_integer(&app, "max_gram_length", 1);
        application_integer(&app, "max_skip_count", 0);
        application_integers(&app, "ngram_counts", 1, DIMS(0));
        application_integers(&app, "ngram_indexes", 3, DIMS(0, 1, 1));
        application_integers(&app, "pool_int64s", 3, DIMS(1, 2, 3));
        app.attributes[app.call.attributes.count++] =
            (op_attribute){.name = "weights", .kind = OP_ATTRIBUTE_FLOATS, .count = 3, .as.reals = weights};
        application_run(&app, "portable.tf_idf", 1);
        assert_memory_equal(app.outputs[0].data, expected[mode], sizeof expected[mode]);
        application_free(&app);
    }
}

/* Pools of pairs and triples, some of which stand there twice, against a search through all of the pool. */
static void test_pools(void **state) {
    (void)state;
    enum { COLUMNS = 14, POOL = 200, KINDS = 5 };
    test_random random = {2026};
    for (int round = 0; round < 60; round++) {
        const int64_t counts[] = {(int64_t)test_random_below(&random, 8),
                                  (int64_t)test_random_below(&random, 20),
                                  (int64_t)test_random_below(&random, 20)};
        const int64_t starts[] = {0, counts[0], counts[0] + 2 * counts[1]};
        const int64_t grams = counts[0] + counts[1] + counts[2], items = starts[2] + 3 * counts[2];
        int64_t pool[POOL], indexes[POOL];
        float weights[POOL];
        for (int64_t i = 0; i < items; i++) pool[i] = (int64_t)test_random_below(&random, KINDS);
        for (int64_t i = 0; i < grams; i++) {
            indexes[i] = (int64_t)test_random_below(&random, 30);
            weights[i] = 0.5f * (float)(1 + test_random_below(&random, 6));
        }
        if (!grams) continue;
        const int64_t least = 1 + (int64_t)test_random_below(&random, 3),
                      most = least + (int64_t)test_random_below(&random, (uint64_t)(4 - least)),
                      skips = (int64_t)test_random_below(&random, 4);
        application app;
        application_init(&app, OP_TF_IDF_VECTORIZER);
        int64_t *x = application_input(&app, OP_INT64, 2, DIMS(ROWS, COLUMNS));
        for (int64_t i = 0; i < ROWS * COLUMNS; i++) x[i] = (int64_t)test_random_below(&random, KINDS);
        application_text(&app, "mode", "TFIDF");
        application_integer(&app, "min_gram_length", least);
        application_integer(&app, "max_gram_length", most);
        application_integer(&app, "max_skip_count", skips);
        application_integers(&app, "ngram_counts", 3, starts);
        application_integers(&app, "ngram_indexes", (size_t)grams, indexes);
        application_integers(&app, "pool_int64s", (size_t)items, pool);
        app.attributes[app.call.attributes.count++] = (op_attribute){
            .name = "weights", .kind = OP_ATTRIBUTE_FLOATS, .count = (size_t)grams, .as.reals = weights};
        application_run(&app, "portable.tf_idf", 1 + round % 2);
        const int64_t width = app.outputs[0].type.shape.dims[1];
        for (int64_t row = 0; row < ROWS; row++) {
            float wanted[30] = {0};
            for (int64_t n = least, first = 0; n <= 3; n++) {
                first = n == 1 ? 0 : n == 2 ? counts[0] : counts[0] + counts[1];
                for (int64_t apart = 1; n <= most && apart <= (n == 1 ? 1 : skips + 1); apart++)
                    for (int64_t at = 0; at + (n - 1) * apart < COLUMNS; at++)
                        for (int64_t g = 0; g < counts[n - 1]; g++) {
                            bool same = true;
                            for (int64_t k = 0; k < n; k++)
                                same = same &&
                                       x[row * COLUMNS + at + k * apart] == pool[starts[n - 1] + g * n + k];
                            if (same) wanted[indexes[first + g]] += weights[first + g];
                        }
            }
            for (int64_t i = 0; i < width; i++)
                assert_true(test_real(&app.outputs[0], row * width + i) == (double)wanted[i]);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools),         cmocka_unit_test(test_trees), cmocka_unit_test(test_deep_trees),
        cmocka_unit_test(test_hostile_trees), cmocka_unit_test(test_keys),  cmocka_unit_test(test_coupling),
        cmocka_unit_test(test_ngrams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
