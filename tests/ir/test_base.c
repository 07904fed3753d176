/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c: reports, arenas, checked sizes, hashes, maps. */
#include "tests/support/support.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- reports ------------------------------------------------------------------------------------ */

static void report_collects_messages_under_a_context(void **state) {
    (void)state;
    base_report report = {0};
    assert_int_equal(base_fail(&report, BASE_INVALID, "first %d", 1), BASE_INVALID);
    base_report_context(&report, "%s: node \"%s\"", "m.onnx", "add");
    assert_int_equal(base_fail(&report, BASE_SYSTEM_ERROR, "second"), BASE_SYSTEM_ERROR);
    base_report_context(&report, NULL);
    base_fail(&report, BASE_USAGE, "third");
    assert_string_equal(report.text, "first 1\nm.onnx: node \"add\": second\nthird\n");
    assert_int_equal(report.status, BASE_INVALID); /* the first one's */
    assert_int_equal(report.count, 3);
    assert_int_equal(report.length, strlen(report.text));
    base_report_clear(&report);
    assert_int_equal(report.status, BASE_OK);
    assert_string_equal(report.text, "");
}

static void report_keeps_a_message_on_one_line(void **state) {
    (void)state;
    base_report report = {0};
    base_report_context(&report, "a\nb");
    base_fail(&report, BASE_INVALID, "\x1b[2J \"%s\" \x7f", "x\r\ny");
    assert_string_equal(report.text, "a?b: ?[2J \"x??y\" ?\n");
}

static void report_counts_what_does_not_fit(void **state) {
    (void)state;
    base_report report = {0};
    char *huge = malloc(3 * BASE_REPORT_TEXT);
    assert_non_null(huge);
    memset(huge, 'x', 3 * BASE_REPORT_TEXT - 1);
    huge[3 * BASE_REPORT_TEXT - 1] = '\0';
    base_report_context(&report, "%s", huge);
    assert_int_equal(strlen(report.context), BASE_REPORT_CONTEXT - 1);
    base_fail(&report, BASE_INVALID, "%s", huge); /* the first one is cut, never lost */
    assert_int_equal(strlen(report.text), BASE_REPORT_TEXT - 1);
    assert_int_equal(report.text[BASE_REPORT_TEXT - 2], '\n');
    base_fail(&report, BASE_INVALID, "more");
    assert_int_equal(report.count, 2);
    assert_int_equal(report.length, BASE_REPORT_TEXT - 1);
    free(huge);

    base_report_clear(&report);
    for (int i = 0; i < 1000; i++) base_fail(&report, BASE_INVALID, "message %d", i);
    assert_int_equal(report.count, 1000);
    assert_true(report.length < BASE_REPORT_TEXT);
    assert_int_equal(report.text[report.length - 1], '\n');
}

static void report_may_be_absent_and_marks_what_is_not_supported(void **state) {
    (void)state;
    assert_int_equal(base_fail(NULL, BASE_SYSTEM_ERROR, "nobody listens"), BASE_SYSTEM_ERROR);
    assert_int_equal(base_fail_memory(NULL), BASE_SYSTEM_ERROR);
    assert_int_equal(base_fail_unsupported(NULL, "x"), BASE_INVALID);
    base_report report = {0};
    assert_int_equal(base_fail_unsupported(&report, "operator %s", "Foo"), BASE_INVALID);
    assert_true(report.unsupported);
    assert_string_equal(report.text, "operator Foo\n");
}

/* ---- arenas ------------------------------------------------------------------------------------- */

static void arena_gives_zeroed_aligned_separate_pieces(void **state) {
    (void)state;
    support_allocator counting;
    support_allocator_init(&counting);
    base_arena arena;
    base_arena_init(&arena, &counting.allocator);
    unsigned char *pieces[200];
    size_t sizes[200];
    uint64_t random = 1;
    for (size_t i = 0; i < 200; i++) {
        sizes[i] = i % 50 == 49 ? 100000 : support_random(&random) % 300;
        pieces[i] = base_arena_alloc(&arena, sizes[i], 1);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(pieces[i][k], 0);
        if (sizes[i]) memset(pieces[i], (int)(i + 1), sizes[i]);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(pieces[i][k], (i + 1) & 0xff);
    }
#ifdef OURO_ARENA_PIECES
    assert_int_equal(counting.count, 200); /* each is an allocation */
#else
    assert_true(counting.count < 20); /* blocks, not pieces */
#endif
    base_arena_free(&arena);
    assert_int_equal(counting.live, 0);
    assert_non_null(base_arena_alloc(&arena, 1, 1)); /* usable afterwards */
    base_arena_free(&arena);
    assert_int_equal(counting.live, 0);
}

static void arena_refuses_what_overflows_or_is_not_there(void **state) {
    (void)state;
    support_allocator counting;
    support_allocator_init(&counting);
    base_arena arena;
    base_arena_init(&arena, &counting.allocator);
    assert_null(base_arena_alloc(&arena, SIZE_MAX / 2, 3));
    assert_null(base_arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(base_arena_alloc(&arena, SIZE_MAX - 40, 1));
    assert_int_equal(counting.count, 0);
    counting.fail_at = 1;
    size_t capacity = 0;
    assert_null(base_arena_alloc(&arena, 1, 1));
    assert_null(base_arena_text(&arena, "abc", 3));
    assert_null(base_arena_format(&arena, "%d", 1));
    assert_null(base_arena_grow(&arena, NULL, &capacity, 1, 1));
    assert_int_equal(capacity, 0);
    base_arena_free(&arena);
}

static void arena_makes_texts_and_grows_arrays(void **state) {
    (void)state;
    base_arena arena;
    base_arena_init(&arena, NULL);
    assert_string_equal(base_arena_text(&arena, "abcdef", 3), "abc");
    assert_string_equal(base_arena_text(&arena, NULL, 0), "");
    assert_string_equal(base_arena_format(&arena, "%s-%d", "x", 42), "x-42");
    int *numbers = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 10000; i++) {
        numbers = base_arena_grow(&arena, numbers, &capacity, (size_t)i + 1, sizeof *numbers);
        assert_non_null(numbers);
        assert_int_equal(numbers[i], 0);
        numbers[i] = i;
    }
    for (int i = 0; i < 10000; i++) assert_int_equal(numbers[i], i);
    assert_true(arena.reserved < 10000 * sizeof *numbers * 8);
    assert_null(base_arena_grow(&arena, numbers, &capacity, SIZE_MAX / 2, sizeof *numbers));
    assert_int_equal(numbers[9999], 9999);
    base_arena_free(&arena);
}

/* ---- sizes -------------------------------------------------------------------------------------- */

static void sizes_are_exact_or_refused(void **state) {
    (void)state;
    size_t size = 7;
    assert_true(base_size_add(SIZE_MAX - 1, 1, &size));
    assert_true(size == SIZE_MAX);
    assert_false(base_size_add(SIZE_MAX, 1, &size));
    assert_true(size == SIZE_MAX); /* left alone */
    assert_false(base_size_multiply(SIZE_MAX / 2 + 1, 2, &size));
    assert_true(base_size_multiply(SIZE_MAX, 0, &size));
    assert_int_equal(size, 0);
    assert_true(base_size_align(65, 64, &size));
    assert_int_equal(size, 128);
    assert_true(base_size_align(64, 64, &size));
    assert_int_equal(size, 64);
    assert_true(base_size_align(0, 64, &size));
    assert_int_equal(size, 0);
    assert_false(base_size_align(SIZE_MAX - 10, 64, &size));
    int64_t number = 3;
    assert_false(base_int64_add(INT64_MAX, 1, &number));
    assert_false(base_int64_add(INT64_MIN, -1, &number));
    assert_false(base_int64_multiply(INT64_MIN, -1, &number));
    assert_int_equal(number, 3);
    assert_true(base_int64_multiply(INT64_MIN / 2, 2, &number));
    assert_true(number == INT64_MIN);
}

/* ---- hashes and maps ---------------------------------------------------------------------------- */

static void hash_sees_every_byte_the_length_and_the_seed(void **state) {
    (void)state;
    unsigned char bytes[40] = {0};
    uint64_t seen[64];
    size_t count = 0;
    seen[count++] = base_hash(bytes, 40, 0);
    seen[count++] = base_hash(bytes, 40, 1);
    seen[count++] = base_hash(bytes, 39, 0);
    seen[count++] = base_hash(bytes, 0, 0);
    for (size_t i = 0; i < 40; i++) {
        bytes[i] = 0x80;
        seen[count++] = base_hash(bytes, 40, 0);
        bytes[i] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) assert_true(seen[i] != seen[k]);
    }
    /* Top bits of neighbouring words do not cancel. */
    unsigned char words[16] = {0};
    uint64_t none = base_hash(words, 16, 0);
    words[7] = words[15] = 0x80;
    assert_true(base_hash(words, 16, 0) != none);
    /* The same on every machine and in every version, because plan files carry it: computed by other means.
     */
    assert_true(base_hash("a name of nineteen.", 19, 5) == UINT64_C(0xd00fdd67db2ab350));
    unsigned char longer[205];
    for (size_t i = 0; i < sizeof longer; i++) longer[i] = (unsigned char)(7 * i + 3);
    assert_true(base_hash(longer, sizeof longer, 1) == UINT64_C(0xada1cf204e4ef58d));
    for (size_t i = 0; i < sizeof longer; i++) { /* in the lanes, after them, and in the rest */
        longer[i] ^= 0x80;
        assert_true(base_hash(longer, sizeof longer, 1) != UINT64_C(0xada1cf204e4ef58d));
        longer[i] ^= 0x80;
    }
}

static void map_finds_replaces_and_keeps_order_out_of_it(void **state) {
    (void)state;
    base_arena arena;
    base_arena_init(&arena, NULL);
    base_map map = {.arena = &arena};
    assert_null(base_map_get(&map, "nothing"));
    static int marks[5000];
    for (int i = 0; i < 5000; i++) {
        assert_true(base_map_put(&map, base_arena_format(&arena, "key %d", i), &marks[i]));
    }
    assert_int_equal(map.count, 5000);
    for (int i = 0; i < 5000; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        assert_ptr_equal(base_map_get(&map, key), &marks[i]);
    }
    assert_null(base_map_get(&map, "key 5000"));
    assert_true(base_map_put(&map, "key 17", &marks[0]));
    assert_ptr_equal(base_map_get(&map, "key 17"), &marks[0]);
    assert_int_equal(map.count, 5000);
    base_arena_free(&arena);
}

static void map_that_cannot_grow_stays_whole(void **state) {
    (void)state;
    support_allocator counting;
    support_allocator_init(&counting);
    base_arena arena;
    base_arena_init(&arena, &counting.allocator);
    base_map map = {.arena = &arena};
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    static int mark;
    for (int i = 0; i < 8; i++) assert_true(base_map_put(&map, keys[i], &mark));
    while (base_arena_alloc(&arena, 1, 64) && counting.count == 1) continue; /* the block is full now */
    counting.fail_at = 1;
    bool refused = false;
    char names[4000][12];
    for (int i = 0; i < 4000 && !refused; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        refused = !base_map_put(&map, names[i], &mark);
    }
    assert_true(refused);
    for (int i = 0; i < 8; i++) assert_ptr_equal(base_map_get(&map, keys[i]), &mark);
    assert_true(base_map_put(&map, "a", NULL)); /* replacing needs no memory */
    base_arena_free(&arena);
}

static void common_divisors(void **state) {
    (void)state;
    assert_int_equal(base_gcd(12, 18), 6);
    assert_int_equal(base_gcd(0, 7), 7);
    assert_int_equal(base_gcd(7, 0), 7);
    assert_int_equal(base_gcd(UINT64_MAX, UINT64_MAX), UINT64_MAX);
    assert_int_equal(base_lcm(4, 6), 12);
    assert_int_equal(base_lcm(0, 7), 0);
    assert_int_equal(base_lcm(7, 0), 0);
    assert_true(base_lcm(UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    assert_true(base_lcm(UINT64_MAX, 2) == UINT64_MAX); /* more than there is */
    assert_true(base_lcm(UINT64_C(1) << 63, 6) == UINT64_MAX);
    assert_true(base_lcm(UINT64_C(1) << 62, UINT64_C(1) << 61) == UINT64_C(1) << 62);
}

/* The first numbers of the reference implementation from seed 0. */
static void random_numbers_are_those_of_splitmix64(void **state) {
    (void)state;
    uint64_t seed = 0;
    assert_true(base_random(&seed) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(base_random(&seed) == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(base_random(&seed) == UINT64_C(0x06c45d188009454f));
}

/* Every float16 and bfloat16 comes back; a number between two goes to the nearer one, a tie to the even one. */
static void half_precision_rounds_to_nearest_even(void **state) {
    (void)state;
    float least = base_float_from_half(1);
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float half = base_float_from_half((uint16_t)bits), brain = base_float_from_bfloat16((uint16_t)bits);
        if (isnan(half)) assert_true(isnan(base_float_from_half(base_half_from_float(half))));
        else assert_int_equal(base_half_from_float(half), bits);
        if (isnan(brain)) assert_true(isnan(base_float_from_bfloat16(base_bfloat16_from_float(brain))));
        else assert_int_equal(base_bfloat16_from_float(brain), bits);
        if ((bits & 0x7fff) + 1 >= 0x7c00) continue; /* no finite number follows */
        double next = (double)base_float_from_half((uint16_t)(bits + 1)), middle = ((double)half + next) / 2;
        assert_int_equal(base_half_from_double(middle), bits + (bits & 1));
        assert_int_equal(base_half_from_double(middle + (middle - (double)half) * 0x1p-30), bits + 1);
        assert_int_equal(base_half_from_double(middle - (middle - (double)half) * 0x1p-30), bits);
    }
    assert_true((double)least == 0x1p-24);
    assert_int_equal(base_half_from_float(65519.0f), 0x7bff);
    assert_int_equal(base_half_from_float(65520.0f), 0x7c00); /* infinity */
    assert_int_equal(base_bfloat16_from_double(1 + 0x1p-8), 0x3f80);
    assert_int_equal(base_bfloat16_from_double(1 + 0x1p-8 + 0x1p-50),
                     0x3f81); /* by way of a float it would be even */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_collects_messages_under_a_context),
        cmocka_unit_test(report_keeps_a_message_on_one_line),
        cmocka_unit_test(report_counts_what_does_not_fit),
        cmocka_unit_test(report_may_be_absent_and_marks_what_is_not_supported),
        cmocka_unit_test(arena_gives_zeroed_aligned_separate_pieces),
        cmocka_unit_test(arena_refuses_what_overflows_or_is_not_there),
        cmocka_unit_test(arena_makes_texts_and_grows_arrays),
        cmocka_unit_test(sizes_are_exact_or_refused),
        cmocka_unit_test(common_divisors),
        cmocka_unit_test(random_numbers_are_those_of_splitmix64),
        cmocka_unit_test(half_precision_rounds_to_nearest_even),
        cmocka_unit_test(hash_sees_every_byte_the_length_and_the_seed),
        cmocka_unit_test(map_finds_replaces_and_keeps_order_out_of_it),
        cmocka_unit_test(map_that_cannot_grow_stays_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
