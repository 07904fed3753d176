/* SPDX-License-Identifier: Apache-2.0 */
/* test_npz.c: archives of tensors: stored and deflated, in the form for large files too, as numpy writes them; and hostile ones, which
 * are refused or give what they hold. */
#include "compiler/files/npy.h"
#include "compiler/files/npz.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <zlib.h>

/* ---- archives made here ---------------------------------------------------------------------------------- */

enum { MOST = 16 << 10, MEMBERS = 3 };

typedef struct archive {
    unsigned char bytes[MOST];
    size_t size;
} archive;

static void put(archive *to, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) to->bytes[to->size++] = (unsigned char)(number >> 8 * i);
}

static void put_bytes(archive *to, const void *bytes, size_t size) {
    assert_true(to->size + size <= sizeof to->bytes);
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

/* The .npy file of a float tensor [count]: 0.5, 1.5, ... */
static unsigned char *make_npy(size_t count, base_arena *arena, size_t *size) {
    base_report report = {0};
    unsigned char *bytes;
    float *data = BASE_ARRAY(arena, float, count);
    for (size_t i = 0; i < count; i++) data[i] = (float)i + 0.5f;
    const op_tensor tensor = {.type = {.dtype = OP_FLOAT, .shape = {.rank = 1, .dims = {(int64_t)count}}},
                              .bytes = 4 * count,
                              .data = data};
    assert_int_equal(file_npy_encode(&tensor, arena, &bytes, size, &report), BASE_OK);
    return bytes;
}

/* A zip of members m0.npy, m1.npy, ... of 10, 200 and 0 floats. `large`: sizes and places in 64 bits. */
static void make(archive *to, bool deflated, bool large, base_arena *arena) {
    static const size_t counts[MEMBERS] = {10, 200, 0};
    size_t offsets[MEMBERS], stored[MEMBERS], sizes[MEMBERS];
    uint32_t sums[MEMBERS];
    to->size = 0;
    for (int i = 0; i < MEMBERS; i++) {
        unsigned char *npy = make_npy(counts[i], arena, &sizes[i]), packed[MOST];
        const char name[] = {'m', (char)('0' + i), '.', 'n', 'p', 'y'};
        stored[i] = sizes[i];
        sums[i] = (uint32_t)crc32(0, npy, (uInt)sizes[i]);
        if (deflated) {
            z_stream stream = {
                .next_in = npy, .avail_in = (uInt)sizes[i], .next_out = packed, .avail_out = sizeof packed};
            assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
            assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
            stored[i] = stream.total_out;
            deflateEnd(&stream);
        }
        offsets[i] = to->size;
        put_bytes(to, "PK\3\4", 4);
        put(to, 20, 2), put(to, 0, 2), put(to, deflated ? 8 : 0, 2), put(to, 0, 4), put(to, sums[i], 4);
        put(to, large ? UINT32_MAX : stored[i], 4), put(to, large ? UINT32_MAX : sizes[i], 4);
        put(to, sizeof name, 2), put(to, large ? 20 : 0, 2);
        put_bytes(to, name, sizeof name);
        if (large) put(to, 1, 2), put(to, 16, 2), put(to, sizes[i], 8), put(to, stored[i], 8);
        put_bytes(to, deflated ? packed : npy, stored[i]);
    }
    const size_t directory = to->size;
    for (int i = 0; i < MEMBERS; i++) {
        const char name[] = {'m', (char)('0' + i), '.', 'n', 'p', 'y'};
        put_bytes(to, "PK\1\2", 4);
        put(to, 20, 2), put(to, 20, 2), put(to, 0, 2), put(to, deflated ? 8 : 0, 2), put(to, 0, 4),
            put(to, sums[i], 4);
        put(to, large ? UINT32_MAX : stored[i], 4), put(to, large ? UINT32_MAX : sizes[i], 4);
        put(to, sizeof name, 2), put(to, large ? 33 : 0, 2), put(to, 0, 2), put(to, 0, 2), put(to, 0, 2),
            put(to, 0, 4);
        put(to, large ? UINT32_MAX : offsets[i], 4);
        put_bytes(to, name, sizeof name);
        if (large) { /* another extra field before it */
            put(to, 7, 2), put(to, 1, 2), put(to, 0, 1);
            put(to, 1, 2), put(to, 24, 2), put(to, sizes[i], 8), put(to, stored[i], 8),
                put(to, offsets[i], 8);
        }
    }
    const size_t end = to->size;
    if (large) {
        put_bytes(to, "PK\6\6", 4);
        put(to, 44, 8), put(to, 45, 2), put(to, 45, 2), put(to, 0, 4), put(to, 0, 4), put(to, MEMBERS, 8),
            put(to, MEMBERS, 8);
        put(to, end - directory, 8), put(to, directory, 8);
        put_bytes(to, "PK\6\7", 4);
        put(to, 0, 4), put(to, end, 8), put(to, 1, 4);
    }
    put_bytes(to, "PK\5\6", 4);
    put(to, 0, 2), put(to, 0, 2), put(to, large ? UINT16_MAX : MEMBERS, 2),
        put(to, large ? UINT16_MAX : MEMBERS, 2);
    put(to, end - directory, 4), put(to, large ? UINT32_MAX : directory, 4), put(to, 5, 2);
    put_bytes(to, "hello", 5);
}

/* Reads all; how many members are there and right. BASE_OK and fewer: some are refused, but none is wrong. */
static size_t read_all(const unsigned char *bytes, size_t size, base_report *report) {
    base_arena arena;
    file_npz list;
    size_t right = 0;
    base_arena_init(&arena, NULL);
    if (file_npz_open(bytes, size, "a.npz", &arena, &list, report) == BASE_OK) {
        for (size_t i = 0; i < list.count; i++) {
            op_tensor tensor;
            if (file_npz_read(&list, &list.members[i], &arena, &tensor, report) != BASE_OK) continue;
            assert_int_equal((uintptr_t)tensor.data % 64, 0);
            bool fine = tensor.type.dtype == OP_FLOAT;
            for (size_t k = 0; fine && k < tensor.bytes / 4; k++)
                fine = ((float *)tensor.data)[k] == (float)k + 0.5f;
            assert_true(fine); /* the checksum would have told */
            right++;
        }
    }
    base_arena_free(&arena);
    return right;
}

static void every_form_is_read(void **state) {
    (void)state;
    for (int form = 0; form < 4; form++) {
        static archive made;
        base_arena arena;
        base_report report = {0};
        file_npz list;
        op_tensor tensor;
        base_arena_init(&arena, NULL);
        make(&made, form & 1, form & 2, &arena);
        assert_true(file_is_npz(made.bytes, made.size));
        if (read_all(made.bytes, made.size, &report) != MEMBERS) fail_msg("form %d: %s", form, report.text);
        assert_int_equal(file_npz_open(made.bytes, made.size, "a.npz", &arena, &list, &report), BASE_OK);
        assert_string_equal(list.members[1].name, "m1");
        assert_null(file_npz_find(&list, "m9"));
        assert_ptr_equal(file_npz_find(&list, "m1"), &list.members[1]);
        assert_int_equal(file_npz_read(&list, &list.members[1], &arena, &tensor, &report), BASE_OK);
        assert_int_equal(tensor.type.shape.dims[0], 200);
        base_arena_free(&arena);
    }
}

static void other_files_are_none(void **state) {
    (void)state;
    assert_false(file_is_npz((const unsigned char *)"\x93NUMPY", 6));
    assert_false(file_is_npz((const unsigned char *)"PK", 2));
    assert_true(file_is_npz((const unsigned char *)"PK\5\6", 4));
}

static void expect_refused(archive *made, const char *says) {
    base_report report = {0};
    assert_int_equal(read_all(made->bytes, made->size, &report) < MEMBERS, true);
    if (!strstr(report.text, says)) fail_msg("\"%s\" does not say \"%s\"", report.text, says);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    static archive made, changed;
    base_arena arena;
    base_arena_init(&arena, NULL);
    make(&made, true, false, &arena);
    unsigned char *entry = changed.bytes; /* the first of the directory */
    changed = made;
    while (memcmp(entry, "PK\1\2", 4) != 0) entry++;
    entry[8] |= 1;
    expect_refused(&changed, "'m0' is encrypted");
    changed = made;
    entry[10] = 12;
    expect_refused(&changed, "method 12, expected 0 (stored) or 8 (deflate)");
    changed = made;
    entry[16] ^= 1;
    expect_refused(&changed, "its checksum is wrong");
    changed = made;
    entry[24] ^= 1;
    expect_refused(&changed, "it cannot be inflated");
    changed = made;
    memset(entry + 24, 0x7f, 4); /* two gigabytes from a few bytes */
    expect_refused(&changed, "the size of a member cannot be right");
    changed = made;
    memset(entry + 42, 0x7f, 4);
    expect_refused(&changed, "lies outside of the file");
    changed = made;
    changed.size -= 40;
    expect_refused(&changed, "it has no directory");
    base_arena_free(&arena);
}

/* Any byte changed, any end cut off: what is read is right or refused; nothing outside of the file is touched. */
static void damage_is_refused_or_harmless(void **state) {
    (void)state;
    static archive made;
    base_arena arena;
    uint64_t random = 3;
    base_arena_init(&arena, NULL);
    for (int form = 0; form < 4; form++) {
        make(&made, form & 1, form & 2, &arena);
        for (int round = 0; round < 3000; round++) {
            const size_t size = round % 3 ? made.size : support_random(&random) % made.size;
            unsigned char *copy = malloc(size ? size : 1); /* exact, so that tools see what is read beyond */
            base_report report = {0};
            assert_non_null(copy);
            memcpy(copy, made.bytes, size);
            for (int k = 0; size && k < 1 + round % 4; k++)
                copy[support_random(&random) % size] = (unsigned char)support_random(&random);
            (void)read_all(copy, size, &report);
            free(copy);
        }
    }
    base_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_read),
        cmocka_unit_test(other_files_are_none),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(damage_is_refused_or_harmless),
    };
    return cmocka_run_group_tests_name("npz", tests, NULL, NULL);
}
