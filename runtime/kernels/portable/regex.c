/* SPDX-License-Identifier: Apache-2.0 */
/* regex.c: implements regex.h; RegexFullMatch. */
#include "runtime/kernels/portable/regex.h"
#include "runtime/kernels/portable/kernels.h"

#ifdef OURO_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    WORKSPACE = 1000
}; /* numbers that the search for the longest match may take: some alternatives at once */

struct rt_regex {
    pcre2_code *code;
    pcre2_match_data *match;
    int workspace[WORKSPACE];
};

void rt_regex_free(rt_regex *regex) {
    if (!regex) return;
    pcre2_match_data_free(regex->match);
    pcre2_code_free(regex->code);
}

base_status rt_regex_new(const op_string *pattern, const char *name, bool whole, base_arena *arena,
                         rt_regex **regex, base_report *report) {
    int number;
    PCRE2_SIZE offset;
    *regex = NULL;
    rt_regex *made = BASE_NEW(arena, rt_regex);
    pcre2_compile_context *context = made ? pcre2_compile_context_create(NULL) : NULL;
    if (!context) return base_fail_memory(report);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    const uint32_t options = PCRE2_UTF | (whole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0) |
                             PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
    made->code = pcre2_compile((PCRE2_SPTR)(pattern->length ? pattern->data : ""), pattern->length, options,
                               &number, &offset, context);
    pcre2_compile_context_free(context);
    if (!made->code) {
        char message[128];
        pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
        return base_fail(report, BASE_INVALID, "attribute \"%s\", character %zu: %s", name, offset, message);
    }
    made->match = pcre2_match_data_create_from_pattern(made->code, NULL);
    if (!made->match) {
        rt_regex_free(made);
        return base_fail_memory(report);
    }
    *regex = made;
    return BASE_OK;
}

/* What PCRE2 found, as a number. Negative numbers from UTF8_ERR1 down say that the text is not UTF-8: RE2 does not match it either. */
static base_status read_result(int number, bool *found, base_report *report) {
    *found = number >= 0;
    if (number >= PCRE2_ERROR_PARTIAL || number >= PCRE2_ERROR_UTF8_ERR21) return BASE_OK;
    char message[128];
    pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
    return base_fail(report, BASE_INVALID, "%s", message);
}

base_status rt_regex_matches(rt_regex *regex, const op_string *text, bool *found, base_report *report) {
    const char *data = text->length ? text->data : "";
    return read_result(pcre2_match(regex->code, (PCRE2_SPTR)data, text->length, 0, 0, regex->match, NULL),
                       found, report);
}

base_status rt_regex_find(rt_regex *regex, const op_string *text, size_t start, bool *found, size_t *begin,
                          size_t *end, base_report *report) {
    const char *data = text->length ? text->data : "";
    const int number = pcre2_dfa_match(regex->code, (PCRE2_SPTR)data, text->length, start, 0, regex->match,
                                       NULL, regex->workspace, WORKSPACE);
    const base_status status = read_result(number, found, report);
    if (status != BASE_OK || !*found) return status;
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(regex->match);
    *begin = places[0];
    *end = places[1];
    return BASE_OK;
}
#else
base_status rt_regex_new(const op_string *pattern, const char *name, bool whole, base_arena *arena,
                         rt_regex **regex, base_report *report) {
    (void)arena;
    (void)pattern;
    (void)name;
    (void)whole;
    *regex = NULL;
    return base_fail_unsupported(report, "this build has no regular expressions (OURO_PCRE2)");
}

void rt_regex_free(rt_regex *regex) {
    (void)regex;
}

base_status rt_regex_matches(rt_regex *regex, const op_string *text, bool *found, base_report *report) {
    (void)regex;
    (void)text;
    (void)report;
    *found = false;
    return BASE_OK;
}

base_status rt_regex_find(rt_regex *regex, const op_string *text, size_t start, bool *found, size_t *begin,
                          size_t *end, base_report *report) {
    *begin = *end = start;
    return rt_regex_matches(regex, text, found, report);
}
#endif

/* ---- RegexFullMatch ------------------------------------------------------------------------------------ */

typedef struct full_match {
    rt_regex *regex;
    int64_t count;
} full_match;

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const full_match *state = prepared->state;
    const op_string *texts = inputs[0].data;
    bool *y = outputs[0].data;
    for (int64_t i = 0; i < state->count; i++) {
        base_report why = {0};
        const base_status status = rt_regex_matches(state->regex, &texts[i], &y[i], &why);
        if (status != BASE_OK)
            return base_fail(report, status, "the pattern on text %lld: %s", (long long)i, why.text);
    }
    return BASE_OK;
}

static void release(rt_prepared *prepared) {
    full_match *state = prepared->state;
    if (state) rt_regex_free(state->regex);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    full_match *state = BASE_NEW(arena, full_match);
    if (!state) return base_fail_memory(report);
    (void)op_shape_elements(&call->inputs[0].type.shape, &state->count);
    prepared->state = state;
    prepared->run = run;
    return rt_regex_new(&op_attribute_find(&call->attributes, "pattern")->as.text, "pattern", true, arena,
                        &state->regex, report);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
#ifdef OURO_PCRE2
    return rt_accepts_row_major(call);
#else
    (void)call;
    return false;
#endif
}

const rt_kernel rt_kernel_regex_full_match = {
    .name = "portable.regex_full_match", .accepts = accepts, .prepare = prepare, .release = release};
