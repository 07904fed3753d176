/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_places.c: tensors and entries of multi-views are laid where others lie, each alone and in pairs: what is valid computes what it
 * did. A sample of the pairs; all where OURO_EVERY_PLACE is set. */
#include "tests/support/mutate.h"
#include "tests/support/plan.h"
#include "tests/support/programs_of_plans.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SAMPLE = 3000, MOST_PLACES = 512 };

/* Where a plan says that something lies, and all addresses that it has, once each. */
typedef struct places {
    size_t at[MOST_PLACES]; /* bytes from the plan's begin */
    size_t count;
    plan_address addresses[MOST_PLACES];
    size_t address_count;
} places;

static plan_address read_address(const unsigned char *bytes, size_t at) {
    plan_address address;
    memcpy(&address, bytes + at, sizeof address);
    return address;
}

static void write_address(unsigned char *bytes, size_t at, plan_address address) {
    memcpy(bytes + at, &address, sizeof address);
}

static bool is_same(plan_address a, plan_address b) {
    return a.space == b.space && a.index == b.index && a.offset == b.offset;
}

static void add_place(places *all, const unsigned char *bytes, size_t at) {
    const plan_address address = read_address(bytes, at);
    if (address.space == MEMORY_NONE || address.space == MEMORY_CONSTANT) return;
    assert_true(all->count < MOST_PLACES);
    all->at[all->count++] = at;
    for (size_t i = 0; i < all->address_count; i++)
        if (is_same(all->addresses[i], address)) return;
    all->addresses[all->address_count++] = address;
}

static void find_places(const unsigned char *bytes, places *all) {
    plan_header header;
    memcpy(&header, bytes, sizeof header);
    *all = (places){.count = 0};
    for (uint64_t i = 0; i < header.tensors.count; i++)
        add_place(all, bytes,
                  header.tensors.offset + i * sizeof(plan_tensor) + offsetof(plan_tensor, address));
    for (uint64_t i = 0; i < header.addresses.count; i++)
        add_place(all, bytes, header.addresses.offset + i * sizeof(plan_address));
}

/* What was found of one program. */
typedef struct tally {
    size_t reached[SUPPORT_DIFFERS + 1];
} tally;

/* Two places (or one, twice) get other addresses; tried, and put back. */
static void try_pair(unsigned char *bytes, size_t size, const places *all, size_t number,
                     const unsigned char *good, size_t program, tally *found) {
    const size_t changes = all->count * all->address_count;
    const size_t changed[2] = {number % changes, number / changes};
    for (size_t i = 0; i < 2; i++)
        write_address(bytes, all->at[changed[i] / all->address_count],
                      all->addresses[changed[i] % all->address_count]);
    const support_reached how = support_plan_try_beside(bytes, size, good, support_shared_outcome(program));
    found->reached[how]++;
    if (how == SUPPORT_DIFFERS)
        print_error("%s: change %zu computes something else\n", support_plan_programs[program].name, number);
    for (size_t i = 0; i < 2; i++) {
        const size_t at = all->at[changed[i] / all->address_count];
        write_address(bytes, at, read_address(good, at));
    }
}

static void what_lies_where_others_do_computes_the_same(void **state) {
    const bool every = getenv("OURO_EVERY_PLACE") != NULL;
    static places all;
    size_t differ = 0;
    (void)state;
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++) {
        size_t size;
        tally found = {{0}};
        const unsigned char *good = support_shared_plan(p, &size);
        unsigned char *bytes = support_plan_copy(good, size);
        find_places(good, &all);
        const size_t changes = all.count * all.address_count, pairs = changes * changes;
        for (size_t i = 0; i < changes; i++) try_pair(bytes, size, &all, i * changes + i, good, p, &found);
        uint64_t random = p + 1;
        for (size_t i = 0; i < (every ? pairs : support_share(SAMPLE)); i++) {
            const size_t number = every ? i : (size_t)(support_random(&random) % pairs);
            if (!every || number / changes < number % changes)
                try_pair(bytes, size, &all, number, good, p, &found);
        }
        print_message("%s: %zu places, %zu refused, %zu ran, %zu differ\n", support_plan_programs[p].name,
                      all.count, found.reached[SUPPORT_REFUSED], found.reached[SUPPORT_RAN],
                      found.reached[SUPPORT_DIFFERS]);
        assert_true(found.reached[SUPPORT_REFUSED] > 0 && found.reached[SUPPORT_RAN] > 0);
        differ += found.reached[SUPPORT_DIFFERS];
        free(bytes);
    }
    assert_int_equal(differ, 0);
}

/* All pairs of changes of places from `first` on whose new addresses are multi-views. */
static size_t try_multiviews(size_t program, size_t first, size_t end) {
    static places all;
    size_t size;
    tally found = {{0}};
    const unsigned char *good = support_shared_plan(program, &size);
    unsigned char *bytes = support_plan_copy(good, size);
    find_places(good, &all);
    const size_t changes = all.count * all.address_count;
    for (size_t a = 0; a < changes; a++) {
        if (all.at[a / all.address_count] < first || all.at[a / all.address_count] >= end) continue;
        if (all.addresses[a % all.address_count].space != MEMORY_MULTIVIEW) continue;
        for (size_t b = a + 1; b < changes; b++) {
            if (all.at[b / all.address_count] < first || all.at[b / all.address_count] >= end) continue;
            if (all.addresses[b % all.address_count].space == MEMORY_MULTIVIEW)
                try_pair(bytes, size, &all, b * changes + a, good, program, &found);
        }
    }
    free(bytes);
    assert_true(found.reached[SUPPORT_REFUSED] > 0);
    return found.reached[SUPPORT_DIFFERS];
}

/* The program with these words in its name. */
static size_t find_program(const char *words) {
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++)
        if (strstr(support_plan_programs[p].name, words)) return p;
    fail_msg("no program %s", words);
    return 0;
}

/* Found by fuzzing: both parameters of a loop that changes them over lay where they do not move, so that one was copied over the other
 * before that was handed on. */
static void parameters_that_change_places_are_not_copied_in_turn(void **state) {
    const size_t program = find_program("loops within loops, buffers that swap");
    size_t size;
    plan_header header;
    plan_tensor first;
    (void)state;
    const unsigned char *good = support_shared_plan(program, &size);
    memcpy(&header, good, sizeof header);
    size_t at = header.tensors.offset, end = header.tensors.offset + header.tensors.count * sizeof first;
    for (;; at += sizeof first) { /* "c" and "e" stand one after another */
        assert_true(at < end);
        memcpy(&first, good + at, sizeof first);
        if (strcmp((const char *)good + header.texts.offset + first.name, "c") == 0) break;
    }
    assert_int_equal(try_multiviews(program, at, at + 2 * sizeof first), 0);
}

/* An inner loop's entry in a table of the loop around it, whose entries are lazy buffers. */
static void entries_do_not_lead_to_lazy_buffers(void **state) {
    const size_t program = find_program("a branch that keeps what others go on with");
    size_t size;
    plan_header header;
    (void)state;
    memcpy(&header, support_shared_plan(program, &size), sizeof header);
    assert_int_equal(try_multiviews(program, header.addresses.offset, size), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_lies_where_others_do_computes_the_same),
                                       cmocka_unit_test(parameters_that_change_places_are_not_copied_in_turn),
                                       cmocka_unit_test(entries_do_not_lead_to_lazy_buffers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
