/* SPDX-License-Identifier: Apache-2.0 */
/* test_parse_spoiled.c: textual IR in which one token is left out, replaced by one of another kind, or preceded by it, each token in
 * turn. What parses prints to what parses to the same; what does not has one line with the place of the fault (golden:
 * cases/spoiled.err has each once). */
#include "ir/lex.h"
#include "tests/support/support.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_TOKENS = 4096, SLACK = 64 };

static const char *const texts[] = {"ir/cases/round_trip.ir", "ir/cases/control.ir",
                                    "ir/cases/convolution.ir"};
static const char *const others[] = {"",
                                     "(",
                                     ")",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "=",
                                     "?",
                                     "...",
                                     "*",
                                     "^",
                                     "_",
                                     "-1",
                                     "0",
                                     "1000000",
                                     "99999999999999999999",
                                     "1.5",
                                     "1e999",
                                     "nan",
                                     "word",
                                     "\"quoted\"",
                                     "\"a\\x00b\"",
                                     "\"\"",
                                     "%x",
                                     "%\"\"",
                                     "%never",
                                     "#00",
                                     "yield",
                                     "zeros",
                                     "hex",
                                     "s9",
                                     "sequence",
                                     "float32",
                                     "@",
                                     "packed",
                                     "tensor",
                                     "type",
                                     "integers",
                                     "kernel",
                                     "scratch",
                                     "states",
                                     "constant",
                                     "graph",
                                     "Relu",
                                     "true"};
enum { OTHERS = sizeof others / sizeof *others };

typedef struct sweep {
    base_arena arena;
    base_map seen;
    FILE *file;
    size_t tried, refused;
} sweep;

static base_report report;

static void try(sweep *s, const char *text, size_t length) {
    ir_module *module = NULL, *again = NULL;
    base_report_clear(&report);
    const base_status status = ir_parse(text, length, "t", NULL, &module, &report);
    s->tried++;
    if (status == BASE_OK) {
        char *printed = support_print(module, true);
        if (ir_parse(printed, strlen(printed), "again", NULL, &again, &report) != BASE_OK)
            fail_msg("%s\n%s", report.text, printed);
        char *twice = support_print(again, true);
        assert_string_equal(printed, twice);
        free(twice);
        free(printed);
        ir_module_free(again);
        ir_module_free(module);
        return;
    }
    assert_null(module);
    int line, column, at = 0;
    if (status != BASE_INVALID || sscanf(report.text, "t:%d:%d: %n", &line, &column, &at) != 2 || !at)
        fail_msg("status %d, \"%s\"", (int)status, report.text);
    s->refused++;
    /* Once, whatever its numbers and its names are. */
    char form[sizeof report.text];
    size_t used = 0;
    report.text[strcspn(report.text, "\n")] = '\0';
    for (const char *c = report.text + at; *c; c++) {
        if (*c == '%') c += strcspn(c, " "); /* a value */
        if (!*c || strncmp(c, "operator ", strlen("operator ")) == 0) break; /* which one does not matter */
        if (!isdigit((unsigned char)*c)) form[used++] = *c;
    }
    form[used] = '\0';
    if (base_map_get(&s->seen, form)) return;
    const char *kept = base_arena_text(&s->arena, form, used);
    assert_true(kept && base_map_put(&s->seen, kept, s));
    fprintf(s->file, "%s\n", report.text + at);
}

/* `insert` in place of the bytes from start to end. */
static void with(sweep *s, char *into, const char *text, size_t length, size_t start, size_t end,
                 const char *insert) {
    const size_t more = strlen(insert);
    memcpy(into, text, start);
    into[start] = ' ';
    memcpy(into + start + 1, insert, more);
    into[start + 1 + more] = ' ';
    memcpy(into + start + 2 + more, text + end, length - end);
    try(s, into, length - (end - start) + 2 + more);
}

static void each_token(sweep *s, const char *golden) {
    size_t length, count = 0;
    static size_t starts[MOST_TOKENS], ends[MOST_TOKENS];
    char *text = support_read_file(golden, &length), *into = malloc(length + SLACK);
    base_arena arena;
    base_arena_init(&arena, NULL);
    ir_lexer lexer = {.file = text, .name = "t", .length = length, .arena = &arena, .report = &report};
    assert_non_null(into);
    for (ir_lex_next(&lexer); lexer.token.kind != IR_TOKEN_END; ir_lex_next(&lexer)) {
        assert_true(count < MOST_TOKENS);
        starts[count] = lexer.token.start;
        ends[count++] = lexer.at;
    }
    assert_int_equal(lexer.status, BASE_OK);
    base_arena_free(&arena);
    for (size_t t = 0; t < count; t++) {
        for (size_t o = 0; o < OTHERS; o++) {
            with(s, into, text, length, starts[t], ends[t], others[o]);
            if (o) with(s, into, text, length, starts[t], starts[t], others[o]);
        }
        try(s, text, starts[t]); /* it ends here */
    }
    print_message("%s: %zu tokens\n", golden, count);
    free(into);
    free(text);
}

static void each_token_spoiled(void **state) {
    (void)state;
    char *text, path[512];
    size_t length;
    sweep s = {.file = open_memstream(&text, &length)};
    base_arena_init(&s.arena, NULL);
    s.seen.arena = &s.arena;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(path, sizeof path, "%s/tests/%s", TEST_SOURCE_DIR, texts[i]);
        each_token(&s, path);
    }
    fclose(s.file);
    print_message("%zu texts, %zu refused\n", s.tried, s.refused);
    support_expect_golden("ir/cases/spoiled.err", text);
    free(text);
    base_arena_free(&s.arena);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_token_spoiled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
