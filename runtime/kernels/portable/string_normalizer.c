/* SPDX-License-Identifier: Apache-2.0 */
/* string_normalizer.c: StringNormalizer: stop words are left out, the rest is put in upper or lower case. Texts are
 * UTF-8; case is that of Unicode whatever the locale of the machine, so that every run gives the same. */
#include "runtime/kernels/portable/kernels.h"
#include <locale.h>
#include <string.h>
#include <wctype.h>

typedef enum letter_case { CASE_SAME, CASE_LOWER, CASE_UPPER } letter_case;

typedef struct normalizer_state {
    const op_string *stops; /* in lower case where case does not matter */
    size_t stop_count;
    int64_t count;
    letter_case letters;
    bool exact; /* stop words are told apart by case */
    base_arena *texts;
    locale_t locale;              /* 0: letters of ASCII only have case */
    const base_allocator *memory; /* of what is given back when a call ends */
} normalizer_state;

/* ---- texts --------------------------------------------------------------------------------------------- */

/* The code point at `text`, and how many bytes it takes; *bytes = 1 and -1 for what is not UTF-8. */
static int32_t decode(const unsigned char *text, size_t length, size_t *bytes) {
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t count = text[0] < 0x80       ? 1
                   : text[0] >> 5 == 6  ? 2
                   : text[0] >> 4 == 14 ? 3
                   : text[0] >> 3 == 30 ? 4
                                        : 0;
    *bytes = 1;
    if (count == 1) return text[0];
    if (count == 0 || count > length) return -1;
    int32_t point = text[0] & (0x7f >> count);
    for (size_t i = 1; i < count; i++) {
        if (text[i] >> 6 != 2) return -1;
        point = point << 6 | (text[i] & 0x3f);
    }
    if (point < least[count] || point > 0x10ffff) return -1;
    *bytes = count;
    return point;
}

static size_t encode(int32_t point, char *to) {
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    size_t count = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = count; i-- > 1; point >>= 6) to[i] = (char)(0x80 | (point & 0x3f));
    to[0] = (char)(0xf00 >> count | point);
    return count;
}

static int32_t convert_letter(const normalizer_state *state, int32_t point, letter_case letters) {
    if (point < 0x80 || !state->locale) {
        if (letters == CASE_LOWER && point >= 'A' && point <= 'Z') return point + ('a' - 'A');
        if (letters == CASE_UPPER && point >= 'a' && point <= 'z') return point - ('a' - 'A');
        return point;
    }
    wint_t letter = (wint_t)point;
    return (int32_t)(letters == CASE_LOWER ? towlower_l(letter, state->locale)
                                           : towupper_l(letter, state->locale));
}

/* The text in another case. NULL when memory runs out. */
static const char *convert(const normalizer_state *state, base_arena *arena, const op_string *from,
                           letter_case letters, size_t *length) {
    enum { LONGEST = 4 };
    char *text = base_arena_alloc(arena, from->length ? from->length : 1, LONGEST), *to = text;
    const unsigned char *at = (const unsigned char *)from->data;
    for (size_t i = 0, bytes; i < from->length && text; i += bytes) {
        int32_t point = decode(at + i, from->length - i, &bytes);
        if (point < 0) *to++ = (char)at[i];
        else to += encode(convert_letter(state, point, letters), to);
    }
    *length = (size_t)(to - text);
    return text;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static bool is_same(const op_string *a, const op_string *b) {
    return a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
}

static base_status is_stop(const normalizer_state *state, base_arena *arena, const op_string *word,
                           bool *stop, base_report *report) {
    op_string letters = *word;
    *stop = false;
    if (!state->exact && state->stop_count) {
        letters.data = convert(state, arena, word, CASE_LOWER, &letters.length);
        if (!letters.data) return base_fail_memory(report);
    }
    for (size_t i = 0; i < state->stop_count && !*stop; i++) *stop = is_same(&letters, &state->stops[i]);
    return BASE_OK;
}

/* Scratch: how many words stay, then which. */
static base_status measure(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    const normalizer_state *state = prepared->state;
    const op_string *words = inputs[0].data;
    int64_t *kept = scratch, *chosen = kept + 1;
    base_arena arena; /* of words in lower case, to compare */
    base_arena_init(&arena, state->memory);
    base_status status = BASE_OK;
    *kept = 0;
    for (int64_t i = 0; i < state->count && status == BASE_OK; i++) {
        bool stop;
        status = is_stop(state, &arena, &words[i], &stop, report);
        if (status == BASE_OK && !stop) chosen[(*kept)++] = i;
    }
    base_arena_free(&arena);
    op_shape *shape = &outputs[0].type.shape;
    shape->dims[shape->rank - 1] = *kept ? *kept : 1;
    return status;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const normalizer_state *state = prepared->state;
    const op_string *from = inputs[0].data;
    op_string *to = outputs[0].data;
    const int64_t *kept = scratch, *chosen = kept + 1;
    if (!*kept) to[0] = (op_string){"", 0};
    for (int64_t i = 0; i < *kept; i++) {
        to[i] = from[chosen[i]];
        if (state->letters == CASE_SAME) continue;
        to[i].data = convert(state, state->texts, &from[chosen[i]], state->letters, &to[i].length);
        if (!to[i].data) return base_fail_memory(report);
    }
    return BASE_OK;
}

static base_status make_stops(normalizer_state *state, const op_attribute *words, base_arena *arena,
                              base_report *report) {
    if (!words || words->kind != OP_ATTRIBUTE_STRINGS) return BASE_OK;
    op_string *stops = BASE_ARRAY(arena, op_string, words->count);
    if (!stops) return base_fail_memory(report);
    for (size_t i = 0; i < words->count; i++) {
        stops[i] = words->as.texts[i];
        if (state->exact) continue;
        stops[i].data = convert(state, arena, &words->as.texts[i], CASE_LOWER, &stops[i].length);
        if (!stops[i].data) return base_fail_memory(report);
    }
    state->stops = stops;
    state->stop_count = words->count;
    return BASE_OK;
}

static void release(rt_prepared *prepared) {
    normalizer_state *state = prepared->state;
    if (state && state->locale) freelocale(state->locale);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    normalizer_state *state = BASE_NEW(arena, normalizer_state);
    if (!state) return base_fail_memory(report);
    prepared->state = state;
    prepared->run = run;
    state->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", 0);
    state->memory = environment->memory;
    state->texts = environment->texts ? environment->texts : arena;
    state->exact = op_attribute_integer(&call->attributes, "is_case_sensitive", 0) != 0;
    if (op_attribute_is(&call->attributes, "case_change_action", "LOWER", "NONE"))
        state->letters = CASE_LOWER;
    if (op_attribute_is(&call->attributes, "case_change_action", "UPPER", "NONE"))
        state->letters = CASE_UPPER;
    size_t words;
    if (!op_shape_elements(&call->inputs[0].type.shape, &state->count) ||
        !base_size_add((size_t)state->count, 1, &words) ||
        !base_size_multiply(words, sizeof(int64_t), &prepared->scratch_bytes)) {
        return base_fail(report, BASE_INVALID, "input 0 is too large");
    }
    return make_stops(state, op_attribute_find(&call->attributes, "stopwords"), arena, report);
}

const rt_kernel rt_kernel_string_normalizer = {.name = "portable.string_normalizer",
                                               .accepts = rt_accepts_any_row_major,
                                               .prepare = prepare,
                                               .measure = measure,
                                               .release = release};
