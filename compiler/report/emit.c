/* SPDX-License-Identifier: Apache-2.0 */
/* emit.c: see emit.h. */
#include "compiler/report/emit.h"
#include "compiler/files/files.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void emit_free(emit_buffer *buffer) {
    free(buffer->data);
    *buffer = (emit_buffer){0};
}

static bool reserve(emit_buffer *buffer, size_t more) {
    size_t needed;
    if (buffer->failed || !base_size_add(buffer->length, more, &needed) || needed >= SIZE_MAX / 2) {
        buffer->failed = true;
        return false;
    }
    if (needed < buffer->capacity) return true;
    size_t capacity = needed * 2 < 1024 ? 1024 : needed * 2;
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void emit_bytes(emit_buffer *buffer, const char *bytes, size_t length) {
    if (!reserve(buffer, length)) return;
    if (length) memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = 0;
}

void emit_text(emit_buffer *buffer, const char *text) {
    emit_bytes(buffer, text, strlen(text));
}

void emit_format(emit_buffer *buffer, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0) buffer->failed = true;
    else if (reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->data + buffer->length, buffer->capacity - buffer->length, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

base_status emit_write(const emit_buffer *buffer, const char *path, base_report *report) {
    if (buffer->failed) return base_fail_memory(report);
    return file_write(path, buffer->data ? buffer->data : "", buffer->length, report);
}

/* The length of the valid UTF-8 sequence at `text`; 0 where there is none (overlong forms, surrogates and
 * numbers above 0x10FFFF included, and U+FFFE and U+FFFF, which XML excludes). */
static size_t utf8_length(const unsigned char *text) {
    if (text[0] < 0x80) return 1;
    size_t length = text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : 2;
    if (text[0] < 0xC2 || text[0] > 0xF4) return 0;
    uint32_t point = text[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0;
        point = point << 6 | (text[i] & 0x3F);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < smallest[length] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000) ||
        point == 0xFFFE || point == 0xFFFF) {
        return 0;
    }
    return length;
}

/* Calls for each character: `escape` writes it where it must be escaped and says whether it did. */
static void emit_escaped(emit_buffer *buffer, const char *text,
                         bool (*escape)(emit_buffer *, unsigned char)) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        size_t length = utf8_length(at);
        if (length == 0) {
            emit_text(buffer, "\xEF\xBF\xBD");
            at++;
        } else {
            if (length > 1 || !escape(buffer, *at)) emit_bytes(buffer, (const char *)at, length);
            at += length;
        }
    }
}

static bool escape_xml(emit_buffer *buffer, unsigned char c) {
    if (c == '<') emit_text(buffer, "&lt;");
    else if (c == '>') emit_text(buffer, "&gt;");
    else if (c == '&') emit_text(buffer, "&amp;");
    else if (c == '"') emit_text(buffer, "&quot;");
    else if (c == '\'') emit_text(buffer, "&#39;");
    else if ((c < ' ' && c != '\n') || c == 127) emit_text(buffer, "\xEF\xBF\xBD");
    else return false;
    return true;
}

void emit_xml(emit_buffer *buffer, const char *text) {
    emit_escaped(buffer, text, escape_xml);
}

static bool escape_dot(emit_buffer *buffer, unsigned char c) {
    if (c == '"') emit_text(buffer, "\\\"");
    else if (c == '\\') emit_text(buffer, "\\\\");
    else if (c == '\n') emit_text(buffer, "\\n");
    else if (c == '&') emit_text(buffer, "&amp;"); /* Graphviz reads &...; in labels as HTML would */
    else if (c < ' ' || c == 127) emit_text(buffer, "\xEF\xBF\xBD");
    else return false;
    return true;
}

void emit_dot_text(emit_buffer *buffer, const char *text) {
    emit_text(buffer, "\"");
    emit_escaped(buffer, text, escape_dot);
    emit_text(buffer, "\"");
}

static bool escape_json(emit_buffer *buffer, unsigned char c) {
    if (c == '"') emit_text(buffer, "\\\"");
    else if (c == '\\') emit_text(buffer, "\\\\");
    else if (c == '\n') emit_text(buffer, "\\n");
    else if (c == '\t') emit_text(buffer, "\\t");
    else if (c < ' ' || c == 127) emit_format(buffer, "\\u%04x", c);
    else return false;
    return true;
}

static void json_string(emit_buffer *buffer, const char *text) {
    emit_text(buffer, "\"");
    emit_escaped(buffer, text, escape_json);
    emit_text(buffer, "\"");
}

static void json_line(emit_buffer *buffer) {
    if (buffer->json_compact) return;
    emit_text(buffer, "\n");
    for (unsigned i = 0; i < buffer->json_depth; i++) emit_text(buffer, "  ");
}

static void json_key(emit_buffer *buffer, const char *key) {
    if (buffer->json_comma) emit_text(buffer, ",");
    if (buffer->json_depth) json_line(buffer);
    if (key) {
        json_string(buffer, key);
        emit_text(buffer, ": ");
    }
    buffer->json_comma = true;
}

void emit_json_open(emit_buffer *buffer, const char *key, char bracket) {
    json_key(buffer, key);
    emit_bytes(buffer, &bracket, 1);
    buffer->json_depth++;
    buffer->json_comma = false;
}

void emit_json_close(emit_buffer *buffer, char bracket) {
    buffer->json_depth--;
    if (buffer->json_comma) json_line(buffer);
    emit_bytes(buffer, &bracket, 1);
    buffer->json_comma = true;
    if (buffer->json_depth == 0) emit_text(buffer, "\n");
}

void emit_json_text(emit_buffer *buffer, const char *key, const char *text) {
    json_key(buffer, key);
    if (text) json_string(buffer, text);
    else emit_text(buffer, "null");
}

void emit_json_integer(emit_buffer *buffer, const char *key, uint64_t value) {
    json_key(buffer, key);
    emit_format(buffer, "%" PRIu64, value);
}

void emit_json_signed(emit_buffer *buffer, const char *key, int64_t value) {
    json_key(buffer, key);
    emit_format(buffer, "%" PRId64, value);
}

void emit_json_real(emit_buffer *buffer, const char *key, double value) {
    json_key(buffer, key);
    if (isfinite(value)) emit_format(buffer, "%.6g", value);
    else emit_text(buffer, "null");
}

void emit_json_fixed(emit_buffer *buffer, const char *key, double value) {
    json_key(buffer, key);
    if (isfinite(value)) emit_format(buffer, "%.3f", value);
    else emit_text(buffer, "null");
}

void emit_json_bool(emit_buffer *buffer, const char *key, bool value) {
    json_key(buffer, key);
    emit_text(buffer, value ? "true" : "false");
}

char *emit_size_print(size_t bytes, char *text, size_t capacity) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    if (unit == 0) snprintf(text, capacity, "%zu B", bytes);
    else
        snprintf(text, capacity,
                 value < 10    ? "%.2f %s"
                 : value < 100 ? "%.1f %s"
                               : "%.0f %s",
                 value, units[unit]);
    return text;
}
