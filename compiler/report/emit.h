/* SPDX-License-Identifier: Apache-2.0 */
/* emit.h: text that grows in memory, and the escapes of the formats that the emitters write. */
#ifndef OURO_EMIT_H
#define OURO_EMIT_H

#include "ir/base/base.h"

/* Zero-initialise; free with emit_free. A failed allocation is remembered: test once, at the end. */
typedef struct emit_buffer {
    char *data; /* zero-terminated once something was written */
    size_t length, capacity;
    bool failed;
    bool json_comma;   /* a value stands before: the next one needs a comma */
    bool json_compact; /* no line breaks */
    unsigned json_depth;
} emit_buffer;

void emit_free(emit_buffer *buffer);
void emit_text(emit_buffer *buffer, const char *text);
void emit_bytes(emit_buffer *buffer, const char *bytes, size_t length);
void emit_format(emit_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the whole text to a file, see file_write; BASE_SYSTEM_ERROR where memory ran out on the way. */
base_status emit_write(const emit_buffer *buffer, const char *path, base_report *report);

/* What is not valid UTF-8, and control characters, become U+FFFD in the next two. */
void emit_xml(emit_buffer *buffer, const char *text);
/* A Graphviz string with its quotes; `\` and `"` are escaped, so that no name can be read as an escape. */
void emit_dot_text(emit_buffer *buffer, const char *text);

/* The end of a noun that `count` stands before: "" for one, else "s". */
static inline const char *emit_plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

/* JSON, one key a line. `key` NULL: an element of a list. */
void emit_json_open(emit_buffer *buffer, const char *key, char bracket);     /* '{' or '[' */
void emit_json_close(emit_buffer *buffer, char bracket);                     /* '}' or ']' */
void emit_json_text(emit_buffer *buffer, const char *key, const char *text); /* NULL: null */
void emit_json_integer(emit_buffer *buffer, const char *key, uint64_t value);
void emit_json_signed(emit_buffer *buffer, const char *key, int64_t value);
void emit_json_real(emit_buffer *buffer, const char *key, double value);  /* what is not finite: null */
void emit_json_fixed(emit_buffer *buffer, const char *key, double value); /* three digits after the point */
void emit_json_bool(emit_buffer *buffer, const char *key, bool value);

/* "1.5 MiB", "12.3 KiB", "640 B"; returns text. */
char *emit_size_print(size_t bytes, char *text, size_t capacity);

#endif
