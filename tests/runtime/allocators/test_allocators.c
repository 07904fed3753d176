/* SPDX-License-Identifier: Apache-2.0 */
/* test_allocators.c: run-time allocators: the rules of each, memory that runs out, and several threads at once, which is
 * also run under ThreadSanitizer (threads_allocators). */
#include "runtime/allocators/allocator.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static rt_allocator *make(const char *name, rt_allocator_options options) {
    rt_allocator *allocator = rt_allocator_new(name, &options);
    assert_non_null(allocator);
    return allocator;
}

/* ---- bfc ----------------------------------------------------------------------------------------------- */

static void chunks_are_split_and_merged(void **state) {
    (void)state;
    rt_allocator *a = make("bfc", (rt_allocator_options){.first_region = 4096});
    char *x = rt_allocator_take(a, 1), *y = rt_allocator_take(a, 300), *z = rt_allocator_take(a, 256);
    /* Sizes are multiples of 256, chunks are cut off from the front. */
    assert_ptr_equal(y, x + 256);
    assert_ptr_equal(z, y + 512);
    assert_int_equal(rt_allocator_capacity(a, y), 512);
    assert_int_equal(rt_allocator_look(a).in_use, 1024);
    assert_int_equal(rt_allocator_look(a).reserved, 4096);
    rt_allocator_give(a, x);
    rt_allocator_give(a, z);                        /* merged with the rest after it */
    assert_ptr_equal(rt_allocator_take(a, 256), x); /* the best fit */
    assert_ptr_equal(rt_allocator_take(a, 3072), z);
    rt_allocator_give(a, z);
    rt_allocator_give(a, x);
    rt_allocator_give(a, y); /* all of it is one chunk again */
    assert_ptr_equal(rt_allocator_take(a, 4096), x);
    rt_allocator_give(a, x);
    /* Less than twice as large as needed: not split. */
    char *w = rt_allocator_take(a, 2304);
    assert_ptr_equal(w, x);
    assert_int_equal(rt_allocator_capacity(a, w), 4096);
    rt_allocator_give(a, w);
    assert_int_equal(rt_allocator_look(a).in_use, 0);
    assert_int_equal(rt_allocator_look(a).from_system, 1);
    rt_allocator_free(a);
}

static void the_best_fit_is_the_lowest_of_equals(void **state) {
    (void)state;
    rt_allocator *a = make("bfc", (rt_allocator_options){.first_region = 1 << 16});
    char *holes[6], *walls[6];
    const size_t sizes[] = {1024, 512, 2048, 512, 768, 512};
    for (int i = 0; i < 6; i++) {
        holes[i] = rt_allocator_take(a, sizes[i]);
        walls[i] = rt_allocator_take(a, 256);
    }
    for (int i = 5; i >= 0; i--) rt_allocator_give(a, holes[i]);
    assert_ptr_equal(rt_allocator_take(a, 512), holes[1]);
    assert_ptr_equal(rt_allocator_take(a, 512), holes[3]);
    assert_ptr_equal(rt_allocator_take(a, 600), holes[4]);
    assert_ptr_equal(rt_allocator_take(a, 512), holes[5]);
    assert_ptr_equal(rt_allocator_take(a, 512), holes[0]); /* the next larger, split */
    assert_ptr_equal(rt_allocator_take(a, 512), holes[0] + 512);
    (void)walls;
    rt_allocator_free(a);
}

static void regions_double_and_go(void **state) {
    (void)state;
    rt_allocator *a = make("bfc", (rt_allocator_options){.first_region = 1024, .limit = 16384});
    void *x = rt_allocator_take(a, 1024), *y = rt_allocator_take(a, 1024);
    assert_int_equal(rt_allocator_look(a).reserved, 1024 + 2048);
    void *z = rt_allocator_take(a, 8000); /* doubled until it fits */
    assert_int_equal(rt_allocator_look(a).reserved, 1024 + 2048 + 8192);
    assert_null(rt_allocator_take(a, 8192)); /* beyond the limit */
    rt_allocator_give(a, z);
    /* Free regions are given back where another is needed. */
    void *w = rt_allocator_take(a, 12288);
    assert_non_null(w);
    assert_true(rt_allocator_look(a).reserved <= 16384);
    memset(w, 1, 12288);
    rt_allocator_give(a, x);
    rt_allocator_give(a, y);
    rt_allocator_give(a, w);
    assert_null(rt_allocator_take(a, 0));
    assert_null(rt_allocator_take(a, SIZE_MAX - 5));
    assert_null(rt_allocator_take(a, 20000));
    rt_allocator_give(a, NULL);
    rt_allocator_free(a);
}

static void times_keep_memory_back(void **state) {
    (void)state;
    rt_allocator *a = make("bfc", (rt_allocator_options){.first_region = 2048, .limit = 2048});
    char *x = rt_allocator_take(a, 1024), *y = rt_allocator_take(a, 1024);
    rt_allocator_give_at(a, x, 3);
    rt_allocator_give_at(a, y, 5);
    /* Who is as late may have it; two that wait are not merged. */
    assert_null(rt_allocator_take_before(a, 1024, 2));
    assert_ptr_equal(rt_allocator_take_before(a, 1024, 4), x);
    rt_allocator_give_at(a, x, 3);
    rt_allocator_advance(a, 3);
    assert_ptr_equal(rt_allocator_take(a, 512), x);
    rt_allocator_give(a, x);
    rt_allocator_advance(a, 5);
    assert_ptr_equal(rt_allocator_take(a, 2048), x);
    rt_allocator_give_at(a, x, 9);
    /* Where there is nothing else, waiting ends. */
    assert_ptr_equal(rt_allocator_take(a, 2048), x);
    rt_allocator_give_at(a, x, 4); /* that time is over */
    assert_ptr_equal(rt_allocator_take(a, 300), x);
    rt_allocator_free(a);
}

/* ---- pool ---------------------------------------------------------------------------------------------- */

static void blocks_come_back_to_their_size(void **state) {
    (void)state;
    rt_allocator *a = make("pool", (rt_allocator_options){.kept = 3});
    void *b[5];
    for (int i = 0; i < 5; i++) b[i] = rt_allocator_take(a, i < 3 ? 100 : 1000);
    rt_allocator_give(a, b[0]);
    rt_allocator_give(a, b[3]);
    rt_allocator_give(a, b[1]);
    assert_int_equal(rt_allocator_look(a).from_system, 5);
    assert_ptr_equal(rt_allocator_take(a, 90), b[1]); /* the last freed of the size, rounded up to 64 */
    assert_ptr_equal(rt_allocator_take(a, 1000), b[3]);
    assert_ptr_equal(rt_allocator_take(a, 128), b[0]);
    assert_int_equal(rt_allocator_look(a).from_system, 5);
    /* Three are kept: of four the first that was freed goes. */
    size_t reserved = rt_allocator_look(a).reserved;
    rt_allocator_give(a, b[4]);
    rt_allocator_give(a, b[0]);
    rt_allocator_give(a, b[1]);
    assert_int_equal(rt_allocator_look(a).reserved, reserved);
    rt_allocator_give(a, b[2]);
    assert_int_equal(rt_allocator_look(a).reserved, reserved - 1024 - 64);
    assert_ptr_equal(rt_allocator_take(a, 100), b[2]);
    rt_allocator_give(a, b[2]);
    rt_allocator_give(a, b[3]);
    assert_int_equal(rt_allocator_look(a).in_use, 0);
    rt_allocator_free(a);
}

static void a_pool_that_is_too_small_grows(void **state) {
    (void)state;
    rt_allocator *fixed = make("pool", (rt_allocator_options){.kept = 100}),
                 *grows = make("pool", (rt_allocator_options){0});
    static void *held[150];
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < 150; i++)
            assert_non_null(held[i] = rt_allocator_take(fixed, 64 * (size_t)(i + 1)));
        for (int i = 0; i < 150; i++) rt_allocator_give(fixed, held[i]);
        for (int i = 0; i < 150; i++)
            assert_non_null(held[i] = rt_allocator_take(grows, 64 * (size_t)(i + 1)));
        for (int i = 0; i < 150; i++) rt_allocator_give(grows, held[i]);
    }
    assert_true(rt_allocator_look(grows).from_system < rt_allocator_look(fixed).from_system / 2);
    rt_allocator_free(fixed);
    rt_allocator_free(grows);
}

static void a_full_pool_makes_room(void **state) {
    (void)state;
    rt_allocator *a = make("pool", (rt_allocator_options){.limit = 4096});
    void *x = rt_allocator_take(a, 1000), *y = rt_allocator_take(a, 2000);
    assert_null(rt_allocator_take(a, 2000));
    rt_allocator_give(a, x);
    rt_allocator_give(a, y);
    assert_non_null(x = rt_allocator_take(a, 3000)); /* what was kept went back to the system */
    rt_allocator_give(a, x);
    rt_allocator_free(a);
}

/* ---- all ----------------------------------------------------------------------------------------------- */

enum { SLOTS = 64, ROUNDS = 20000, THREADS = 4, SHARED = 8 };

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

typedef struct worker {
    rt_allocator *allocator;
    uint64_t seed;
    bool failed;
} worker;

/* Takes and gives blocks of all sizes; what is in them must stay as long as they are held. */
static void *work(void *context) {
    worker *w = context;
    unsigned char *blocks[SLOTS] = {0};
    size_t sizes[SLOTS];
    uint64_t random = w->seed;
    for (int round = 0; round < ROUNDS && !w->failed; round++) {
        size_t slot = next_random(&random) % SLOTS;
        unsigned char mark = (unsigned char)(w->seed * 31 + slot);
        if (blocks[slot]) {
            w->failed = blocks[slot][0] != mark || blocks[slot][sizes[slot] - 1] != mark ||
                        blocks[slot][sizes[slot] / 2] != mark ||
                        rt_allocator_capacity(w->allocator, blocks[slot]) < sizes[slot];
            uint64_t time = next_random(&random) % 4 ? 0 : next_random(&random) % 100 + 1;
            rt_allocator_give_at(w->allocator, blocks[slot], time);
            blocks[slot] = NULL;
            if (round % 64 == 0) rt_allocator_advance(w->allocator, time);
        } else {
            sizes[slot] = (size_t)1 << next_random(&random) % 14;
            sizes[slot] += next_random(&random) % sizes[slot];
            blocks[slot] = rt_allocator_take(w->allocator, sizes[slot]);
            if (!blocks[slot]) continue;
            w->failed = (uintptr_t)blocks[slot] % RT_ALLOCATOR_ALIGNMENT != 0;
            memset(blocks[slot], mark, sizes[slot]);
        }
    }
    for (size_t slot = 0; slot < SLOTS; slot++) rt_allocator_give(w->allocator, blocks[slot]);
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state) {
    (void)state;
    static const char *const names[] = {"bfc", "pool"};
    for (size_t n = 0; n < 2; n++) {
        for (int limited = 0; limited < 2; limited++) {
            pthread_t threads[THREADS];
            worker workers[THREADS];
            rt_allocator *a = make(names[n], (rt_allocator_options){.limit = limited ? 1 << 19 : 0});
            for (int i = 0; i < THREADS; i++) {
                workers[i] = (worker){a, BASE_RANDOM_STEP * (uint64_t)(i + 1), false};
                assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
            }
            for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                assert_false(workers[i].failed);
            }
            rt_allocator_statistics is = rt_allocator_look(a);
            assert_int_equal(is.in_use, 0);
            assert_true(is.most_in_use <= is.most_reserved);
            if (limited) assert_true(is.most_reserved <= 1 << 19);
            rt_allocator_free(a);
        }
    }
    assert_null(rt_allocator_new("none", NULL));
    assert_true(rt_allocator_exists("bfc"));
    assert_false(rt_allocator_exists("nnc"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_split_and_merged),
        cmocka_unit_test(the_best_fit_is_the_lowest_of_equals),
        cmocka_unit_test(regions_double_and_go),
        cmocka_unit_test(times_keep_memory_back),
        cmocka_unit_test(blocks_come_back_to_their_size),
        cmocka_unit_test(a_pool_that_is_too_small_grows),
        cmocka_unit_test(a_full_pool_makes_room),
        cmocka_unit_test(threads_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
