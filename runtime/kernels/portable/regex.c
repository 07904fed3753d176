/* SPDX-License-Identifier: Apache-2.0 */
/* regex.c: RegexFullMatch, on PCRE2 (OURO_PCRE2). What a pattern means is what RE2 says: `.` is no end of line, `$` is the end of
 * the text alone, classes such as \d are those of ASCII, letters are those of UTF-8. PCRE2 walks alternatives one after the other; a
 * pattern that would take it too long on a text is an error, not a wait. */
#include "runtime/kernels/portable/kernels.h"

#ifdef OURO_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

typedef struct regex_state {
    pcre2_code *code;
    pcre2_match_data *match;
    int64_t count;
} regex_state;

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const regex_state *state = prepared->state;
    const op_string *texts = inputs[0].data;
    bool *y = outputs[0].data;
    for (int64_t i = 0; i < state->count; i++) {
        const char *text = texts[i].length ? texts[i].data : "";
        const int found =
            pcre2_match(state->code, (PCRE2_SPTR)text, texts[i].length, 0, 0, state->match, NULL);
        /* Negative numbers from UTF8_ERR1 down say that the text is not UTF-8: RE2 does not match it either. */
        if (found < PCRE2_ERROR_PARTIAL && found < PCRE2_ERROR_UTF8_ERR21) {
            char message[128];
            pcre2_get_error_message(found, (PCRE2_UCHAR *)message, sizeof message);
            return base_fail(report, BASE_INVALID, "the pattern on text %lld: %s", (long long)i, message);
        }
        y[i] = found >= 0;
    }
    return BASE_OK;
}

static void release(rt_prepared *prepared) {
    regex_state *state = prepared->state;
    if (!state) return;
    pcre2_match_data_free(state->match);
    pcre2_code_free(state->code);
}

static pcre2_code *compile(const op_string *pattern, base_report *report, base_status *status) {
    int number;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) {
        *status = base_fail_memory(report);
        return NULL;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    const uint32_t options = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY |
                             PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)(pattern->length ? pattern->data : ""), pattern->length,
                                     options, &number, &offset, context);
    pcre2_compile_context_free(context);
    if (code) return code;
    char message[128];
    pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
    *status = base_fail(report, BASE_INVALID, "attribute \"pattern\", character %zu: %s", offset, message);
    return NULL;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    regex_state *state = BASE_NEW(arena, regex_state);
    if (!state) return base_fail_memory(report);
    base_status status = BASE_OK;
    (void)op_shape_elements(&call->inputs[0].type.shape, &state->count);
    prepared->state = state;
    prepared->run = run;
    state->code = compile(&op_attribute_find(&call->attributes, "pattern")->as.text, report, &status);
    if (!state->code) return status;
    state->match = pcre2_match_data_create_from_pattern(state->code, NULL);
    if (state->match) return BASE_OK;
    release(prepared);
    return base_fail_memory(report);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

const rt_kernel rt_kernel_regex_full_match = {
    .name = "portable.regex_full_match", .accepts = accepts, .prepare = prepare, .release = release};
#else
static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)call;
    (void)environment;
    return false;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)call;
    (void)environment;
    (void)arena;
    (void)prepared;
    return base_fail_unsupported(report, "this build has no regular expressions (OURO_PCRE2)");
}

const rt_kernel rt_kernel_regex_full_match = {
    .name = "portable.regex_full_match", .accepts = accepts, .prepare = prepare};
#endif
