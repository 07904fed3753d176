/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c: Tokenizer of com.microsoft: texts are cut into their letters, at matches of one pattern after the other, or what matches a
 * pattern is kept. Tokens are parts of the texts where these lie; shorter ones than `mincharnum` letters are left out, and rows are
 * filled up to the longest. Patterns without any letter that means more than itself need no library. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/regex.h"
#include <string.h>

/* A pattern, and what of a text is still to be cut by it. */
typedef struct stage {
    op_string pattern;
    rt_regex *regex; /* NULL: the pattern stands for itself */
    op_string text;
    size_t at;
} stage;

typedef struct tokenizer {
    int64_t count, least;
    bool letters, keeps, marks;
    op_string padding;
    uint32_t stage_count;
    stage *stages;
    uint32_t stage; /* whose text is being cut */
} tokenizer;

/* Bytes of the letter that begins with this one, 0 where none does. */
static size_t letter_bytes(unsigned char first) {
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* The letters of a text, -1 where it is not UTF-8. */
static int64_t count_letters(const op_string *text) {
    int64_t count = 0;
    for (size_t i = 0; i < text->length; count++) {
        const size_t bytes = letter_bytes((unsigned char)text->data[i]);
        if (bytes == 0 || bytes > text->length - i) return -1;
        for (size_t k = 1; k < bytes; k++)
            if (((unsigned char)text->data[i + k] & 0xc0) != 0x80) return -1;
        i += bytes;
    }
    return count;
}

static base_status find(const stage *s, bool *found, size_t *begin, size_t *end, base_report *report) {
    if (s->regex) return rt_regex_find(s->regex, &s->text, s->at, found, begin, end, report);
    *found = false;
    const size_t length = s->pattern.length;
    for (size_t i = s->at; s->text.length - i >= length && !*found; i++) {
        *found = memcmp(s->text.data + i, s->pattern.data, length) == 0;
        *begin = i;
        *end = i + length;
    }
    return BASE_OK;
}

static void begin_text(tokenizer *t, const op_string *text) {
    t->stage = 0;
    t->stages[0].text = *text;
    t->stages[0].at = 0;
}

/* The next token of the text that was begun; *found: there is one. */
static base_status next_token(tokenizer *t, op_string *token, bool *found, base_report *report) {
    *found = false;
    while (!*found) {
        stage *s = &t->stages[t->stage];
        if (s->at >= s->text.length) {
            if (t->stage == 0) return BASE_OK;
            t->stage--;
            continue;
        }
        size_t begin = s->text.length, end = begin, from = s->at;
        if (t->letters) {
            begin = end = s->at + letter_bytes((unsigned char)s->text.data[s->at]);
        } else {
            bool matches;
            const base_status status = find(s, &matches, &begin, &end, report);
            if (status != BASE_OK) return status;
            if (!matches) begin = end = s->text.length;
            if (!matches && t->keeps) from = end;
        }
        *token = t->keeps && begin < end ? (op_string){s->text.data + begin, end - begin}
                                         : (op_string){s->text.data + from, t->keeps ? 0 : begin - from};
        /* An empty match takes the letter after it along: else there would be no end. */
        s->at = begin < end || t->letters || end == s->text.length
                    ? end
                    : end + letter_bytes((unsigned char)s->text.data[end]);
        if (token->length == 0 || count_letters(token) < t->least) continue;
        *found = t->stage + 1 == t->stage_count;
        if (*found) continue;
        stage *next = &t->stages[++t->stage];
        next->text = *token;
        next->at = 0;
    }
    return BASE_OK;
}

static base_status measure(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    (void)scratch;
    tokenizer *t = prepared->state;
    const op_string *texts = inputs[0].data;
    int64_t most = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (count_letters(&texts[i]) < 0)
            return base_fail(report, BASE_INVALID, "text %lld is not UTF-8", (long long)i);
        op_string token;
        int64_t count = 0;
        bool found = true;
        begin_text(t, &texts[i]);
        while (found) {
            const base_status status = next_token(t, &token, &found, report);
            if (status != BASE_OK) return status;
            count += found;
        }
        if (count > most) most = count;
    }
    op_shape *shape = &outputs[0].type.shape;
    shape->dims[shape->rank - 1] = most ? most + 2 * t->marks : 0;
    return BASE_OK;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    tokenizer *t = prepared->state;
    const op_string *texts = inputs[0].data;
    const op_shape *shape = &outputs[0].type.shape;
    const int64_t most = shape->dims[shape->rank - 1];
    op_string *to = outputs[0].data;
    for (int64_t i = 0; i < t->count && most; i++, to += most) {
        int64_t count = 0;
        bool found = true;
        if (t->marks) to[count++] = (op_string){"\x02", 1};
        begin_text(t, &texts[i]);
        while (found) {
            op_string token;
            const base_status status = next_token(t, &token, &found, report);
            if (status != BASE_OK) return status;
            if (found) to[count++] = token;
        }
        if (t->marks) to[count++] = (op_string){"\x03", 1};
        while (count < most) to[count++] = t->padding;
    }
    return BASE_OK;
}

static void release(rt_prepared *prepared) {
    tokenizer *t = prepared->state;
    for (uint32_t i = 0; t && t->stages && i < t->stage_count; i++) rt_regex_free(t->stages[i].regex);
}

static bool stands_for_itself(const op_string *pattern) {
    for (size_t i = 0; i < pattern->length; i++)
        if (!pattern->data[i] || strchr("\\^$.|?*+()[]{}", pattern->data[i])) return false;
    return pattern->length > 0;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    tokenizer *t = BASE_NEW(arena, tokenizer);
    if (!t) return base_fail_memory(report);
    prepared->state = t;
    prepared->run = run;
    (void)op_shape_elements(&call->inputs[0].type.shape, &t->count);
    const op_attribute *padding = op_attribute_find(&call->attributes, "pad_value"),
                       *separators = op_attribute_find(&call->attributes, "separators"),
                       *kept = op_attribute_find(&call->attributes, "tokenexp");
    t->least = op_attribute_integer(&call->attributes, "mincharnum", 1);
    t->marks = op_attribute_integer(&call->attributes, "mark", 0) != 0;
    if (padding) t->padding = padding->as.text;
    t->keeps = !separators || separators->count == 0;
    t->stage_count = t->keeps ? 1 : (uint32_t)separators->count;
    t->stages = BASE_ARRAY(arena, stage, t->stage_count);
    if (!t->stages) return base_fail_memory(report);
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < t->stage_count && status == BASE_OK; i++) {
        t->stages[i].pattern = t->keeps ? kept->as.text : separators->as.texts[i];
        t->letters = !t->keeps && t->stage_count == 1 && t->stages[i].pattern.length == 0;
        if (!t->letters && !stands_for_itself(&t->stages[i].pattern))
            status = rt_regex_new(&t->stages[i].pattern, t->keeps ? "tokenexp" : "separators", false, arena,
                                  &t->stages[i].regex, report);
    }
    if (status != BASE_OK) release(prepared);
    return status;
}

const rt_kernel rt_kernel_tokenizer = {.name = "portable.tokenizer",
                                       .accepts = rt_accepts_any_row_major,
                                       .prepare = prepare,
                                       .release = release,
                                       .measure = measure};
