/* SPDX-License-Identifier: Apache-2.0 */
/* test_import_spoiled.c: every model of one node of tests/support/conversions.c, spoiled in each of many ways: an input absent, of
 * another type or shape; an attribute absent or of another value; an output absent; another opset. What import takes keeps the
 * rules of the IR; what it refuses gets one line that says why, which is never that memory ran out (golden:
 * cases/spoiled.err has each line once). And every allocation of every model fails. */
#include "compiler/onnx/import.h"
#include "tests/support/conversions.h"
#include "tests/support/support.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST_PARTS = 24, LONGEST = 400 };

static base_report report;

/* ---- lines that were seen ------------------------------------------------------------------------------- */

typedef struct lines {
    base_arena arena;
    base_map seen;
    FILE *file;
    size_t tried, refused;
} lines;

/* The line of the report, after the operator's name where it is one of a node; once, whatever its numbers are. */
static void add_line(lines *l, const support_conversion *c) {
    char text[sizeof report.text + LONGEST], form[sizeof text];
    const char *colon = strstr(report.text, "): ");
    size_t length = 0;
    if (colon) snprintf(text, sizeof text, "%s: %s", c->op, colon + 3);
    else snprintf(text, sizeof text, "%s", report.text);
    text[strcspn(text, "\n")] = '\0';
    for (const char *at = text; *at; at++)
        if (!isdigit(*at)) form[length++] = *at;
    form[length] = '\0';
    if (base_map_get(&l->seen, form)) return;
    const char *kept = base_arena_text(&l->arena, form, length);
    assert_true(kept && base_map_put(&l->seen, kept, l));
    fprintf(l->file, "%s\n", text);
}

/* ---- spoiling -------------------------------------------------------------------------------------------- */

static void try(lines *l, const support_conversion *c) {
    ir_module *module;
    onnx *o = support_conversion_model(c);
    onnx_write(o, "model.onnx");
    onnx_free(o);
    base_report_clear(&report);
    const base_status status = import_model("model.onnx", NULL, 0, NULL, &module, &report);
    l->tried++;
    if (status == BASE_OK) {
        if (ir_verify(module, "imported", &report) != BASE_OK)
            fail_msg("%s-%lld(%s) %s: %s", c->op, (long long)c->opset, c->inputs, c->attributes, report.text);
        ir_module_free(module);
        return;
    }
    if (status != BASE_INVALID || !report.length || strstr(report.text, "memory"))
        fail_msg("%s-%lld(%s) -> %s %s: status %d, \"%s\"", c->op, (long long)c->opset, c->inputs, c->outputs,
                 c->attributes, (int)status, report.text);
    l->refused++;
    add_line(l, c);
}

/* The parts of a list, of which one is replaced; NULL: left out. */
typedef struct parts {
    char text[LONGEST];
    char *part[MOST_PARTS];
    size_t count;
    char separator;
} parts;

static void split(parts *p, const char *list, char separator) {
    char *rest = p->text, only[2] = {separator, '\0'};
    assert_true(strlen(list) < sizeof p->text);
    strcpy(p->text, list);
    p->separator = separator;
    for (p->count = 0; *list && rest; p->count++) {
        assert_true(p->count < MOST_PARTS);
        p->part[p->count] = strsep(&rest, only);
    }
}

static const char *joined(const parts *p, size_t spoiled, const char *instead, char *text) {
    size_t length = 0;
    bool first = true;
    for (size_t i = 0; i < p->count; i++) {
        const char *part = i == spoiled ? instead : p->part[i];
        if (!part) continue;
        if (!first) text[length++] = p->separator;
        length += (size_t)snprintf(text + length, LONGEST - length, "%s", part);
        assert_true(length < LONGEST - 1);
        first = false;
    }
    text[length] = '\0';
    return text;
}

static void spoil_inputs(lines *l, const support_conversion *c) {
    static const char *const forms[] = {
        "%.*s:%s:-",  "%.*s:0:-",      "%.*s:%s:", "%.*s:%s:2,2,2,2,2", "%.*s:8:3",
        "%.*s:9:2,3", "%.*s:11:2,3,4", "%.*s:7:2", "%.*s:%s:0"};
    parts p;
    char text[LONGEST], instead[120];
    support_conversion other = *c;
    split(&p, c->inputs, ';');
    for (size_t i = 0; i < p.count; i++) {
        const int name = (int)strcspn(p.part[i], ":=");
        const bool constant = p.part[i][name] == '=';
        char dtype[8] = "7";
        if (!constant)
            snprintf(dtype, sizeof dtype, "%.*s", (int)strcspn(p.part[i] + name + 1, ":"),
                     p.part[i] + name + 1);
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            snprintf(instead, sizeof instead, forms[f], name, p.part[i], dtype);
            other.inputs = joined(&p, i, instead, text);
            try(l, &other);
        }
        snprintf(instead, sizeof instead, "%.*s=9,-9,1", name, p.part[i]);
        other.inputs = joined(&p, i, instead, text);
        try(l, &other);
        other.inputs = joined(&p, i, "", text); /* absent */
        try(l, &other);
    }
    if (!p.count) return;
    p.count--; /* the last is not there */
    other.inputs = joined(&p, SIZE_MAX, NULL, text);
    try(l, &other);
}

static void spoil_attributes(lines *l, const support_conversion *c) {
    static const char *const integers[] = {"0", "-1", "5", "9223372036854775807", "-9223372036854775808"},
                             *const reals[] = {"0", "-1", "nan", "1e38"}, *const words[] = {"", "nonsense"},
                             *const lists[] = {"0", "-9", "3,1,2,0,4", "9223372036854775807,1", "-1,-1"};
    parts p;
    char text[LONGEST], instead[120];
    support_conversion other = *c;
    split(&p, c->attributes, ';');
    for (size_t i = 0; i < p.count; i++) {
        const int name = (int)strcspn(p.part[i], " ");
        const char kind = p.part[i][name + 1];
        const char *const *values = kind == 'i'   ? integers
                                    : kind == 'f' ? reals
                                    : kind == 's' ? words
                                                  : lists;
        const size_t count = kind == 'f' ? 4 : kind == 's' ? 2 : 5;
        for (size_t v = 0; v < count; v++) {
            snprintf(instead, sizeof instead, "%.*s %c %s", name, p.part[i], kind, values[v]);
            other.attributes = joined(&p, i, instead, text);
            try(l, &other);
        }
        snprintf(instead, sizeof instead, "%.*s %c 1", name, p.part[i],
                 kind == 's' ? 'i' : 's'); /* another kind */
        other.attributes = joined(&p, i, instead, text);
        try(l, &other);
        other.attributes = joined(&p, i, NULL, text);
        try(l, &other);
    }
    snprintf(text, sizeof text, "%s%sunheard i 1", c->attributes, *c->attributes ? ";" : "");
    other.attributes = text;
    try(l, &other);
}

static void spoil_outputs(lines *l, const support_conversion *c) {
    parts p;
    char text[LONGEST];
    support_conversion other = *c;
    split(&p, c->outputs, ',');
    for (size_t i = 0; i < p.count && p.count > 1; i++) {
        other.outputs = joined(&p, i, "", text);
        try(l, &other);
    }
    snprintf(text, sizeof text, "%s,another", c->outputs);
    other.outputs = text;
    try(l, &other);
    other.outputs = "";
    try(l, &other);
}

static void spoil_opset(lines *l, const support_conversion *c) {
    static const int64_t opsets[] = {1, 5, 7, 9, 10, 11, 12, 13, 16, 18, 20, 21, 23, 24, 26, 27, 28, 1000};
    support_conversion other = *c;
    if (strchr(c->op, '/')) return; /* other domains have one version */
    for (size_t i = 0; i < sizeof opsets / sizeof *opsets; i++) {
        other.opset = opsets[i];
        try(l, &other);
    }
}

static void test_spoiled(void **state) {
    (void)state;
    char *text;
    size_t length;
    lines l = {.file = open_memstream(&text, &length)};
    base_arena_init(&l.arena, NULL);
    l.seen.arena = &l.arena;
    for (size_t t = 0; t < SUPPORT_CONVERSION_LISTS; t++) {
        for (size_t i = 0; i < support_conversions[t].count; i++) {
            const support_conversion *c = &support_conversions[t].rows[i];
            spoil_inputs(&l, c);
            spoil_attributes(&l, c);
            spoil_outputs(&l, c);
            spoil_opset(&l, c);
        }
    }
    fclose(l.file);
    print_message("%zu models, %zu refused\n", l.tried, l.refused);
    support_expect_golden("compiler/onnx/cases/spoiled.err", text);
    free(text);
    base_arena_free(&l.arena);
    unlink("model.onnx");
}

/* ---- allocations that fail ------------------------------------------------------------------------------- */

/* A sample of them; all where OURO_EVERY_ALLOCATION is set. In builds where each piece of an arena is an allocation these are
 * hundreds for a model, else few. */
static void test_failing_allocations(void **state) {
    (void)state;
    for (size_t t = 0; t < SUPPORT_CONVERSION_LISTS; t++) {
        for (size_t i = 0; i < support_conversions[t].count; i++) {
            const support_conversion *c = &support_conversions[t].rows[i];
            onnx *o = support_conversion_model(c);
            onnx_write(o, "model.onnx");
            onnx_free(o);
            if (!onnx_import_without_memory("model.onnx", NULL, 0))
                fail_msg("%s-%lld(%s) %s is refused", c->op, (long long)c->opset, c->inputs, c->attributes);
        }
    }
    unlink("model.onnx");
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    char folder[] = "/tmp/ouro_spoiled_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1; /* messages then have no path in them */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spoiled),
                                       cmocka_unit_test(test_failing_allocations)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("/") != 0 || rmdir(folder) != 0 ? 1 : failed;
}
