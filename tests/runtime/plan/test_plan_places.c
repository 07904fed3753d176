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
        for (size_t i = 0; i < (every ? pairs : SAMPLE); i++) {
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_lies_where_others_do_computes_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
