/* SPDX-License-Identifier: Apache-2.0 */
/* support.c: see support.h. */
#include "tests/support/support.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *support_read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    size_t capacity = 1 << 16, used = 0;
    char *text = malloc(capacity);
    assert_non_null(text);
    for (;;) {
        used += fread(text + used, 1, capacity - used - 1, file);
        if (used < capacity - 1) break;
        text = realloc(text, capacity *= 2);
        assert_non_null(text);
    }
    int failed = ferror(file);
    fclose(file);
    if (failed) fail_msg("cannot read %s", path);
    text[used] = '\0';
    if (length) *length = used;
    return text;
}

static void golden_path(const char *name, char *path, size_t capacity) {
    int length = snprintf(path, capacity, "%s/tests/%s", TEST_SOURCE_DIR, name);
    assert_true(length > 0 && (size_t)length < capacity);
}

char *support_read_golden(const char *name, size_t *length) {
    char path[4096];
    golden_path(name, path, sizeof path);
    return support_read_file(path, length);
}

void support_arguments(int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--bless") == 0) setenv("OURO_BLESS", "1", 1);
    }
}

/* The line in which `at` lies: where it starts, and its length. */
static const char *line_of(const char *text, const char *at, int *length) {
    while (at > text && at[-1] != '\n') at--;
    *length = (int)strcspn(at, "\n");
    return at;
}

void support_expect_golden(const char *name, const char *text) {
    char path[4096];
    golden_path(name, path, sizeof path);
    const char *bless = getenv("OURO_BLESS");
    if (bless && strcmp(bless, "1") == 0) {
        FILE *file = fopen(path, "wb");
        if (!file) fail_msg("cannot write %s", path);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
        return;
    }
    char *expected = support_read_file(path, NULL);
    size_t same = 0, line = 1;
    while (text[same] && text[same] == expected[same]) {
        if (text[same++] == '\n') line++;
    }
    if (text[same] != expected[same]) {
        int length_expected, length_found;
        const char *line_expected = line_of(expected, expected + same, &length_expected);
        const char *line_found = line_of(text, text + same, &length_found);
        print_error("%s:%zu differs (--bless rewrites it)\n  expected: %.*s\n  found:    %.*s\n", path, line,
                    length_expected, line_expected, length_found, line_found);
        free(expected);
        fail();
    }
    free(expected);
}

ir_module *support_module(const char *text, bool verified) {
    base_report *report = calloc(1, sizeof *report);
    assert_non_null(report);
    ir_module *module = NULL;
    base_status status = ir_parse(text, strlen(text), "test.ir", NULL, &module, report);
    if (status == BASE_OK && verified) status = ir_verify(module, "parsed", report);
    if (status != BASE_OK) {
        print_error("%s", report->text);
        free(report);
        ir_module_free(module);
        fail();
    }
    free(report);
    return module;
}

char *support_print(const ir_module *module, bool data) {
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    const ir_print_options options = {.data = data};
    bool printed = ir_print(module, &options, file);
    assert_int_equal(fclose(file), 0);
    assert_true(printed);
    return text;
}

static void *counting_allocate(void *user, size_t bytes) {
    support_allocator *counting = user;
    counting->count++;
    if (counting->fail_at && counting->count >= counting->fail_at &&
        (!counting->once || counting->count == counting->fail_at))
        return NULL;
    if (counting->largest && bytes > counting->largest) return NULL;
    void *block = malloc(bytes);
    if (block) counting->live++;
    return block;
}

static void counting_release(void *user, void *block) {
    support_allocator *counting = user;
    if (block) counting->live--;
    free(block);
}

void support_allocator_init(support_allocator *counting) {
    *counting = (support_allocator){.allocator = {counting_allocate, counting_release, counting}};
}

uint64_t support_random(uint64_t *state) {
    return base_random(state);
}

uint64_t support_share(uint64_t all) {
    const char *given = getenv("OURO_TEST_SHARE");
    const uint64_t share = given ? strtoull(given, NULL, 10) : 1;
    return share <= 1 ? all : all < share ? 1 : all / share;
}

size_t support_allocation_step(size_t count, size_t usual) {
    const char *given = getenv("OURO_EVERY_ALLOCATION");
    const size_t wanted = given ? strtoul(given, NULL, 10) : usual;
    return wanted <= 1 || count <= wanted ? 1 : count / wanted;
}
