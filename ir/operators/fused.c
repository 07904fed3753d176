/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c: see ir/operators/fused.h. */
#include "ir/operators/fused.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool op_is_fusible(op_code code) {
    const op_schema *schema = op_schema_of(code);
    if (code == OP_QUANTIZE_LINEAR || code == OP_DEQUANTIZE_LINEAR) return true;
    return code != OP_CODE_NONE && schema->family == OP_FAMILY_ELEMENTWISE && schema->domain[0] == 0 &&
           schema->in_place && schema->output_maximum == 1 && schema->view == OP_VIEW_NONE &&
           schema->input_maximum <= OP_FUSED_OPERANDS && !(schema->flags & ~(unsigned)OP_FLAG_COMMUTATIVE) &&
           code != OP_BIT_SHIFT;
}

/* ---- attributes ---------------------------------------------------------------------------------------- */

/* Those that fusible operators have. */
static const struct known_attribute {
    const char *name;
    op_attribute_kind kind;
} known[] = {
    {"alpha", OP_ATTRIBUTE_FLOAT},  {"approximate", OP_ATTRIBUTE_STRING},
    {"beta", OP_ATTRIBUTE_FLOAT},   {"fmod", OP_ATTRIBUTE_INT},
    {"gamma", OP_ATTRIBUTE_FLOAT},  {"round_mode", OP_ATTRIBUTE_STRING},
    {"saturate", OP_ATTRIBUTE_INT}, {"to", OP_ATTRIBUTE_INT},
};
enum { KNOWN_COUNT = sizeof known / sizeof *known };

static const struct known_attribute *find_known(const char *name, size_t length) {
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        if (strlen(known[i].name) == length && memcmp(known[i].name, name, length) == 0) return &known[i];
    }
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* What is left of a text. */
typedef struct cursor {
    const char *at, *end;
} cursor;

/* The next word, up to a blank or the end; empty where there is none. */
static op_string next_word(cursor *of) {
    while (of->at < of->end && *of->at == ' ') of->at++;
    op_string word = {.data = of->at};
    while (of->at < of->end && *of->at != ' ') of->at++;
    word.length = (size_t)(of->at - word.data);
    return word;
}

/* All of the text is a number of this base, at most `most` digits, with a sign where that is allowed. */
static bool read_number(op_string text, int base, size_t most, bool sign, int64_t *number) {
    char digits[32];
    if (text.length == 0 || text.length > most || most >= sizeof digits) return false;
    memcpy(digits, text.data, text.length);
    digits[text.length] = 0;
    size_t first = sign && digits[0] == '-' && text.length > 1;
    for (size_t i = first; i < text.length; i++) {
        const bool decimal = digits[i] >= '0' && digits[i] <= '9',
                   letter = digits[i] >= 'a' && digits[i] <= 'f';
        if (!decimal && !(base == 16 && letter)) return false;
    }
    *number = strtoll(digits, NULL, base);
    return true;
}

static bool read_attribute(op_string word, op_attribute *attribute) {
    const char *equals = memchr(word.data, '=', word.length);
    if (!equals) return false;
    const struct known_attribute *found = find_known(word.data, (size_t)(equals - word.data));
    const op_string text = {.data = equals + 1, .length = (size_t)(word.data + word.length - equals - 1)};
    int64_t number = 0;
    if (!found) return false;
    *attribute = (op_attribute){.name = found->name, .kind = found->kind, .count = 1};
    switch (found->kind) {
    case OP_ATTRIBUTE_INT:
        if (!read_number(text, 10, 20, true, &number)) return false;
        attribute->as.integer = number;
        return true;
    case OP_ATTRIBUTE_FLOAT: {
        if (!read_number(text, 16, 8, false, &number)) return false;
        const uint32_t bits = (uint32_t)number;
        memcpy(&attribute->as.real, &bits, sizeof bits);
        return true;
    }
    default:
        attribute->as.text = text;
        return text.length > 0;
    }
}

static bool read_step(const op_string *text, uint32_t values, op_fused_step *step) {
    cursor rest = {.at = text->data, .end = text->data + text->length};
    const op_string name = next_word(&rest);
    char known_name[32];
    *step = (op_fused_step){0};
    if (name.length == 0 || name.length >= sizeof known_name) return false;
    memcpy(known_name, name.data, name.length);
    known_name[name.length] = 0;
    step->code = op_code_from_name("", known_name);
    if (step->code == OP_CODE_NONE || !op_is_fusible(step->code)) return false;
    for (op_string word = next_word(&rest); word.length; word = next_word(&rest)) {
        if (memchr(word.data, '=', word.length)) {
            if (step->attribute_count == OP_FUSED_ATTRIBUTES ||
                !read_attribute(word, &step->attributes[step->attribute_count++]))
                return false;
            continue;
        }
        int64_t number = -1;
        const bool absent = word.length == 1 && word.data[0] == '_';
        if (step->operand_count == OP_FUSED_OPERANDS || step->attribute_count) return false;
        if (!absent && (!read_number(word, 10, 3, false, &number) || number >= values)) return false;
        step->operands[step->operand_count++] = (int32_t)number;
    }
    const op_schema *schema = op_schema_of(step->code);
    return (int)step->operand_count >= schema->input_minimum &&
           (int)step->operand_count <= schema->input_maximum;
}

bool op_fused_read(const op_attributes *attributes, uint32_t input_count, op_fused *fused) {
    const op_attribute *steps = op_attribute_find(attributes, "steps");
    *fused = (op_fused){.input_count = input_count};
    if (!steps || steps->kind != OP_ATTRIBUTE_STRINGS || steps->count == 0 || steps->count > OP_FUSED_STEPS ||
        input_count > OP_FUSED_INPUTS)
        return false;
    for (size_t i = 0; i < steps->count; i++) {
        if (!read_step(&steps->as.texts[i], input_count + (uint32_t)i, &fused->steps[i])) return false;
    }
    fused->step_count = (uint32_t)steps->count;
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

bool op_fused_print(const op_fused_step *step, char text[OP_FUSED_TEXT]) {
    const size_t capacity = OP_FUSED_TEXT;
    size_t used = (size_t)snprintf(text, capacity, "%s", op_schema_of(step->code)->name);
    for (uint32_t i = 0; i < step->operand_count && used < capacity; i++) {
        if (step->operands[i] < 0) used += (size_t)snprintf(text + used, capacity - used, " _");
        else used += (size_t)snprintf(text + used, capacity - used, " %" PRId32, step->operands[i]);
    }
    for (size_t i = 0; i < step->attribute_count && used < capacity; i++) {
        const op_attribute *attribute = &step->attributes[i];
        const struct known_attribute *found = find_known(attribute->name, strlen(attribute->name));
        if (!found || found->kind != attribute->kind) return false;
        used += (size_t)snprintf(text + used, capacity - used, " %s=", found->name);
        if (used >= capacity) return false;
        if (found->kind == OP_ATTRIBUTE_INT) {
            used += (size_t)snprintf(text + used, capacity - used, "%" PRId64, attribute->as.integer);
        } else if (found->kind == OP_ATTRIBUTE_FLOAT) {
            uint32_t bits;
            memcpy(&bits, &attribute->as.real, sizeof bits);
            used += (size_t)snprintf(text + used, capacity - used, "%08" PRIx32, bits);
        } else {
            const op_string *value = &attribute->as.text;
            if (value->length == 0 || memchr(value->data, ' ', value->length) ||
                memchr(value->data, 0, value->length))
                return false;
            used += (size_t)snprintf(text + used, capacity - used, "%.*s", (int)value->length, value->data);
        }
    }
    return used < capacity;
}

/* ---- applications -------------------------------------------------------------------------------------- */

void op_fused_call(const op_fused *fused, uint32_t number, const op_tensor *values,
                   op_tensor operands[OP_FUSED_OPERANDS], op_tensor *made, op_call *call) {
    const op_fused_step *step = &fused->steps[number];
    for (uint32_t i = 0; i < step->operand_count; i++)
        operands[i] = step->operands[i] < 0 ? (op_tensor){0} : values[step->operands[i]];
    *call = (op_call){.code = step->code,
                      .attributes = {.count = step->attribute_count, .items = step->attributes},
                      .input_count = step->operand_count,
                      .output_count = 1,
                      .inputs = operands,
                      .outputs = made};
}

base_status op_fused_infer(const op_fused *fused, op_tensor *values, base_report *report) {
    for (uint32_t i = 0; i < fused->step_count; i++) {
        op_tensor operands[OP_FUSED_OPERANDS], *made = &values[fused->input_count + i];
        op_call call;
        *made = (op_tensor){0};
        op_fused_call(fused, i, values, operands, made, &call);
        const base_status status = op_infer(&call, report);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}
