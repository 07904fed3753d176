/* SPDX-License-Identifier: Apache-2.0 */
/* test_compile_fails_once.c: one allocation of a whole compile with all its files fails, each in turn. The compile says so, or did
 * without: the files that are there are then the same as ever, and all memory is given back. The same for a plan that is loaded and run
 * on oneDNN, whose own allocations fail, too. A sample of the allocations; all
 * where OURO_EVERY_ALLOCATION is set. */
#include "compiler/ouro_compiler.h"
#include "models/models.h"
#include "tests/support/allocations.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#ifdef OURO_ONEDNN
#include <dlfcn.h>
#include <dnnl.h>
#endif

enum { SAMPLE = 40, FILES = 6, LOST_ITERATOR = 4 /* blocks */ };

/* ---- what is given back ----------------------------------------------------------------------------------- */

static atomic_size_t given_back;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void __libc_free(void *block);

#pragma GCC visibility push(default)
/* In place of the C library's, for the whole process. */
void free(void *block) {
    if (block) atomic_fetch_add(&given_back, 1);
    __libc_free(block);
}
#pragma GCC visibility pop
#endif

/* How many blocks were taken and not given back, but for what oneDNN keeps: primitives, and the message of a library that it
 * did not find. */
static size_t live_blocks(void) {
#ifdef OURO_ONEDNN
    while (dlerror())
        ;
    int capacity;
    assert_int_equal(dnnl_get_primitive_cache_capacity(&capacity), dnnl_success);
    assert_int_equal(dnnl_set_primitive_cache_capacity(0), dnnl_success);
    assert_int_equal(dnnl_set_primitive_cache_capacity(capacity), dnnl_success);
#endif
    return allocations_taken() - atomic_load(&given_back);
}

/* ---- compiles ---------------------------------------------------------------------------------------------- */

#define AT TEST_BINARY_DIR "/fails_once"

/* The report is not compared: it has times. */
static const char *const files[FILES] = {AT ".plan", AT ".dot", AT ".svg", AT ".html", AT ".csv", AT ".json"};

typedef struct compiled {
    const char *name;
    model *(*make)(void);
    const ouro_state_pair *states; /* one pair of names, or none */
    const ouro_dim *bounds;        /* two, or none */
    const char *state_type;
    size_t arena_limit;
    bool spills;
    const char *allocator;
    const char *weights;
    int threads;  /* 0: portable kernels only */
    bool of_page; /* the memory map is a page */
    bool costly;  /* a tenth of the allocations that others try is enough */
} compiled;

static const ouro_state_pair caches = {"past.*", "present.*"};
static const ouro_dim decoder_bounds[] = {{"past", 24}, {"sequence", 24}};

static const compiled models[] = {
    {.name = "swap", .make = model_swap, .of_page = true},
    {.name = "nested", .make = model_nested, .allocator = "nnc"},
    {.name = "branching_loop", .make = model_branching_loop, .allocator = "greedy-by-size", .of_page = true},
    {.name = "reverse_scan", .make = model_reverse_scan, .allocator = "chunk-simulation"},
    {.name = "growing_cache", .make = model_growing_cache, .allocator = "bfc", .weights = "float16"},
    {.name = "greedy_decoding", .make = model_greedy_decoding, .allocator = "pool", .weights = "int4"},
    {.name = "counted_best", .make = model_counted_best},
    {.name = "beam_search", .make = model_beam_search, .allocator = "exact"},
    {.name = "switch", .make = model_switch, .arena_limit = OURO_ARENA_LEAST},
    {.name = "branches", .make = model_branches, .of_page = true},
    {.name = "convolution_recurrence", .make = model_convolution_recurrence, .threads = 2},
    {.name = "decoder", .make = model_decoder, .states = &caches},
    {.name = "decoder with a bound",
     .make = model_decoder,
     .states = &caches,
     .bounds = decoder_bounds,
     .state_type = "bfloat16",
     .weights = "int16"},
    {.name = "way_back", .make = model_way_back, .arena_limit = OURO_ARENA_LEAST, .spills = true},
    {.name = "branches in bands", .make = model_branches, .arena_limit = OURO_ARENA_LEAST, .costly = true},
    {.name = "counted_swap", .make = model_counted_swap, .weights = "int8"},
    {.name = "counted_rotation", .make = model_counted_rotation},
    {.name = "counted_branches", .make = model_counted_branches},
};
enum { MODELS = sizeof models / sizeof *models };

static void remove_files(void) {
    for (int i = 0; i < FILES; i++) unlink(files[i]);
}

static ouro_status compile(const compiled *c, ouro_error *error) {
    const ouro_compile_options options = {.model_path = AT ".onnx",
                                          .plan_path = files[0],
                                          .dot_path = files[1],
                                          .memory_map_path = files[c->of_page ? 3 : 2],
                                          .problem_path = files[4],
                                          .report_path = files[5],
                                          .allocator = c->allocator,
                                          .states = c->states,
                                          .state_count = c->states ? 1 : 0,
                                          .bounds = c->bounds,
                                          .bound_count = c->bounds ? 2 : 0,
                                          .state_type = c->state_type,
                                          .arena_limit = c->arena_limit,
                                          .spill_path = c->spills ? AT ".spill" : NULL,
                                          .weights = c->weights,
                                          .threads = c->threads,
                                          .portable = !c->threads};
    return ouro_compile(&options, error);
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* The files that are there are whole. */
static void compare(const compiled *c, size_t at, char *const *expected, const size_t *lengths, bool all) {
    for (int i = 0; i < FILES; i++) {
        size_t length;
        if (!exists(files[i])) {
            if (all && lengths[i]) fail_msg("%s, allocation %zu: done, but no %s", c->name, at, files[i]);
            continue;
        }
        char *text = support_read_file(files[i], &length);
        if (i < FILES - 1 ? length != lengths[i] || memcmp(text, expected[i], length) != 0 : !length)
            fail_msg("%s, allocation %zu: another %s", c->name, at, files[i]);
        free(text);
    }
}

static void sweep(const compiled *c) {
    ouro_error error;
    char *expected[FILES] = {NULL};
    size_t lengths[FILES] = {0}, refused = 0;
    model *made = c->make();
    assert_int_equal(model_write(made, AT ".onnx"), 0);
    model_free(made);
    remove_files();
    if (compile(c, &error) != OURO_OK)
        fail_msg("%s: %s", c->name, error.message); /* what is made once is made */
    const size_t before = allocations_count(), live = live_blocks();
    if (compile(c, &error) != OURO_OK) fail_msg("%s: %s", c->name, error.message);
    const size_t count = allocations_count() - before;
    assert_int_equal(live_blocks(), live);
    for (int i = 0; i < FILES; i++)
        if (exists(files[i])) expected[i] = support_read_file(files[i], &lengths[i]);
    size_t held = live_blocks();
    const size_t step = support_allocation_step(count, support_share(SAMPLE)) * (c->costly ? 10 : 1);
    for (size_t at = 1 + (size_t)(c - models) % step; at <= count; at += step) {
        remove_files();
        allocations_fail_once(at);
        const ouro_status status = compile(c, &error);
        allocations_fail_at(0);
        if (status != OURO_OK && (status != OURO_MACHINE || !strstr(error.message, "memory")))
            fail_msg("%s, allocation %zu: status %d, \"%s\"", c->name, at, (int)status, error.message);
        refused += status != OURO_OK;
        compare(c, at, expected, lengths, status == OURO_OK);
        /* Asked again it works. */
        if (compile(c, &error) != OURO_OK)
            fail_msg("%s, after allocation %zu: %s", c->name, at, error.message);
        /* oneDNN (2.6.3) loses an iterator over kernels whose first step finds no memory. */
        if (c->threads && status != OURO_OK && live_blocks() == held + LOST_ITERATOR) held += LOST_ITERATOR;
        if (live_blocks() != held)
            fail_msg("%s, allocation %zu: %zd blocks are not given back", c->name, at,
                     (ssize_t)(live_blocks() - held));
    }
    print_message("%s: %zu allocations, %zu refused\n", c->name, count, refused);
    assert_true(refused > 0);
    for (int i = 0; i < FILES; i++) free(expected[i]);
    remove_files();
    unlink(AT ".onnx");
}

static void a_compile_without_memory_says_so(void **state) {
    (void)state;
    if (!allocations_are_counted()) return; /* sanitizers have an allocator of their own */
    for (int i = 0; i < MODELS; i++) sweep(&models[i]);
}

/* A plan for oneDNN is loaded and run; what failed, if anything, and the bytes of its output, which are freed. */
static ouro_status run_plan(void **bytes, size_t *size, ouro_error *error) {
    ouro_plan *plan = NULL;
    ouro_session *session = NULL;
    ouro_tensor_info info;
    const void *data;
    static float x[1 << 16];
    const ouro_session_options options = {.threads = 2};
    *bytes = NULL;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i % 17) - 8;
    ouro_status status = ouro_plan_load(files[0], &plan, error);
    if (status == OURO_OK) status = ouro_session_new(plan, &options, &session, error);
    if (status == OURO_OK) {
        assert_int_equal(ouro_plan_input_count(plan), 1);
        assert_int_equal(ouro_plan_input(plan, 0, &info), OURO_OK);
        assert_true(info.bytes && info.bytes <= sizeof x);
        status = ouro_session_bind_input(session, 0, x, info.bytes, NULL, error);
    }
    if (status == OURO_OK) status = ouro_session_run(session, error);
    if (status == OURO_OK) status = ouro_session_output(session, 0, &info, &data, error);
    allocations_fail_at(0);
    if (status == OURO_OK) {
        *size = info.bytes;
        *bytes = malloc(info.bytes);
        assert_non_null(*bytes);
        memcpy(*bytes, data, info.bytes);
    }
    ouro_session_free(session);
    ouro_plan_free(plan);
    return status;
}

/* Loading and running what oneDNN runs: each allocation fails in turn, oneDNN's own too. */
static void a_run_without_memory_says_so(void **state) {
    (void)state;
    enum { RUN_SAMPLE = 60 };
    ouro_error error;
    void *expected, *made;
    size_t size, length, refused = 0;
    const compiled *c = models;
    while (!c->threads) c++;
    if (!allocations_are_counted()) return;
    model *written = c->make();
    assert_int_equal(model_write(written, AT ".onnx"), 0);
    model_free(written);
    if (compile(c, &error) != OURO_OK) fail_msg("%s", error.message);
    if (run_plan(&expected, &size, &error) != OURO_OK) fail_msg("%s", error.message);
    (void)live_blocks(); /* nor are primitives there that are made already */
    const size_t before = allocations_count();
    if (run_plan(&made, &length, &error) != OURO_OK) fail_msg("%s", error.message);
    const size_t count = allocations_count() - before,
                 step = support_allocation_step(count, support_share(RUN_SAMPLE));
    free(made);
    size_t held = live_blocks();
    for (size_t at = 1; at <= count; at += step) {
        allocations_fail_once(at);
        const ouro_status status = run_plan(&made, &length, &error);
        if (status != OURO_OK && (status != OURO_MACHINE || !strstr(error.message, "memory")))
            fail_msg("allocation %zu: status %d, \"%s\"", at, (int)status, error.message);
        if (status == OURO_OK && (length != size || memcmp(made, expected, size) != 0))
            fail_msg("allocation %zu: another result", at);
        free(made);
        refused += status != OURO_OK;
        if (run_plan(&made, &length, &error) != OURO_OK || memcmp(made, expected, size) != 0)
            fail_msg("after allocation %zu: %s", at, error.message);
        free(made);
        if (status != OURO_OK && live_blocks() == held + LOST_ITERATOR) held += LOST_ITERATOR;
        if (live_blocks() != held)
            fail_msg("allocation %zu: %zd blocks are not given back", at, (ssize_t)(live_blocks() - held));
    }
    print_message("a run: %zu allocations, %zu refused\n", count, refused);
    assert_true(refused > 0);
    free(expected);
    remove_files();
    unlink(AT ".onnx");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_compile_without_memory_says_so),
                                       cmocka_unit_test(a_run_without_memory_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
