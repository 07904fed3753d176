/* SPDX-License-Identifier: Apache-2.0 */
/* test_address_rows.c: rows of ranges and walks along them, against a map with one entry an address. */
#include "passes/planners/address_rows.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <string.h>

enum { TOP = 20000 };

typedef struct bench {
    address_pool pool;
    address_row row;
    bool taken[TOP];
} bench;

static uint32_t below(uint64_t *state, uint32_t limit) {
    return (uint32_t)(support_random(state) % limit);
}

/* The ranges of the row are those of the map, do not touch, and what is said of its runs is so. */
static void compare(const bench *b, uint64_t seed) {
    const address_row *row = &b->row;
    uint32_t at = 0;
    assert_true(!row->cut || row->count >= 1);
    for (uint32_t r = 0; r < (row->cut ? row->count : 1); r++) {
        const address_range *items = row->cut ? row->runs[r].items : row->items;
        const uint32_t count = row->cut ? row->runs[r].count : row->count;
        assert_true(count <= ADDRESS_RUN && (count > 0 || !row->cut));
        if (row->cut) assert_int_equal(row->runs[r].low, items->low);
        for (uint32_t k = 0; k < count; k++) {
            assert_true(items[k].low < items[k].high && items[k].high <= TOP);
            assert_true(at == 0 || items[k].low > at);
            for (; at < items[k].low; at++)
                if (b->taken[at]) fail_msg("seed %" PRIu64 ": %u is taken", seed, at);
            for (; at < items[k].high; at++)
                if (!b->taken[at]) fail_msg("seed %" PRIu64 ": %u is free", seed, at);
            const bool last = k + 1 == count;
            if (!row->cut || (last && r + 1 == row->count)) continue;
            assert_true((last ? row->runs[r + 1].low : items[k + 1].low) - at <= row->runs[r].gap);
        }
        if (row->cut && r + 1 == row->count) assert_int_equal(row->runs[r].gap, UINT32_MAX);
    }
    for (; at < TOP; at++)
        if (b->taken[at]) fail_msg("seed %" PRIu64 ": %u is taken", seed, at);
}

/* Several walks to the top of all. */
static void walk(const bench *b, uint64_t *state, uint64_t seed) {
    const uint32_t mask = (1u << below(state, below(state, 4) ? 4 : 12)) - 1,
                   size = 1 + below(state, below(state, 3) ? 60 : 800);
    const address_wanted w = {size, mask, below(state, 2) ? size : 0};
    address_walk ahead = address_walk_begin(&b->row);
    for (uint32_t at = address_align(&w, below(state, 50)); at < TOP - 1000;) {
        uint32_t expected = at, taken = 0;
        for (;; expected = address_align(&w, expected + 1)) {
            for (taken = 0; taken < size && !(expected + taken < TOP && b->taken[expected + taken]);) taken++;
            if (taken == size) break;
        }
        const uint32_t before = at;
        const bool stays = ahead.count == 0 || planner_address_walk_rise(&ahead, &w, &at);
        if (at != expected) fail_msg("seed %" PRIu64 ": from %u to %u, not %u", seed, before, at, expected);
        assert_int_equal(stays, at == before);
        at = address_align(&w, at + 1 + below(state, below(state, 10) ? 40 : 4000));
    }
}

static void rows_are_what_was_taken(void **unused) {
    (void)unused;
    static bench b;
    unsigned cuts = 0;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        base_arena arena;
        uint64_t state = seed;
        base_arena_init(&arena, NULL);
        memset(&b, 0, sizeof b);
        b.pool.arena = &arena;
        for (unsigned round = 0; round < 3; round++) {
            const uint32_t count = 1 + below(&state, seed % 3 ? 1500 : 100);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t length = 1 + below(&state, 4), low;
                if (below(&state, 300) == 0) length = below(&state, 3000) + 1; /* over several runs */
                low = below(&state, TOP - length);
                if (low < 2500 && i < count / 2) low += 2500;     /* what lies lowest comes late */
                if (seed % 5 == 0) low = i * 12 % (TOP - length); /* ascending */
                if (seed % 5 == 1) low = (TOP - i * 12 % TOP) % (TOP - length);
                assert_true(planner_address_row_add(&b.pool, &b.row, (address_range){low, low + length}));
                memset(b.taken + low, true, length);
                if (i % 200 == 0) walk(&b, &state, seed);
                if (i % 100 == 0) compare(&b, seed);
            }
            compare(&b, seed);
            for (unsigned k = 0; k < 5; k++) walk(&b, &state, seed);
            compare(&b, seed);
            cuts += b.row.cut;
            planner_address_row_clear(&b.pool, &b.row);
            memset(b.taken, false, sizeof b.taken);
            assert_int_equal(b.row.count, 0);
        }
        base_arena_free(&arena);
    }
    assert_true(cuts > 100);
}

/* Wherever memory ends, the row is as it was before that range. */
static void memory_that_runs_out_is_reported(void **unused) {
    (void)unused;
    static bench b;
    unsigned cuts = 0;
    for (size_t fail_at = 1;; fail_at++) {
        support_allocator failing;
        base_arena arena;
        uint64_t state = 7;
        bool enough = true;
        support_allocator_init(&failing);
        failing.fail_at = fail_at;
        base_arena_init(&arena, &failing.allocator);
        memset(&b, 0, sizeof b);
        b.pool.arena = &arena;
        for (unsigned i = 0; i < 20000 && enough; i++) {
            const uint32_t low = below(&state, TOP);
            enough = planner_address_row_add(&b.pool, &b.row, (address_range){low, low + 1});
            if (enough) b.taken[low] = true;
        }
        compare(&b, fail_at);
        base_arena_free(&arena);
        assert_int_equal(failing.live, 0);
        if (enough) break;
        cuts += b.row.cut;
    }
    assert_true(cuts > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_what_was_taken),
        cmocka_unit_test(memory_that_runs_out_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
