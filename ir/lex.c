/* SPDX-License-Identifier: Apache-2.0 */
/* lex.c: the textual form cut into tokens; failures with line and column. See ir/lex.h. */
#include "ir/lex.h"

#include <stdio.h>
#include <string.h>

bool ir_lex_fail(ir_lexer *lexer, size_t place, const char *format, ...) {
    if (lexer->status != BASE_OK) return false;
    size_t line = 1, column = 1;
    for (size_t i = 0; i < place && i < lexer->length; i++) {
        if (lexer->file[i] == '\n') {
            line++;
            column = 1;
        } else {
            column++;
        }
    }
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    lexer->status =
        base_fail(lexer->report, BASE_INVALID, "%s:%zu:%zu: %s", lexer->name, line, column, message);
    lexer->token = (ir_token){.kind = IR_TOKEN_END, .text = "", .start = lexer->length};
    lexer->at = lexer->length;
    return false;
}

bool ir_lex_fail_memory(ir_lexer *lexer) {
    if (lexer->status == BASE_OK) lexer->status = base_fail_memory(lexer->report);
    lexer->token = (ir_token){.kind = IR_TOKEN_END, .text = "", .start = lexer->length};
    lexer->at = lexer->length;
    return false;
}

bool ir_lex_is_sign(const ir_lexer *lexer, char sign) {
    return lexer->token.kind == IR_TOKEN_SIGN && lexer->token.sign == sign;
}

bool ir_lex_is_word(const ir_lexer *lexer, const char *word) {
    return lexer->token.kind == IR_TOKEN_WORD && strcmp(lexer->token.text, word) == 0;
}

/* The character `ahead` of the place, or 0 after the end. */
static char peek(const ir_lexer *lexer, size_t ahead) {
    return lexer->length - lexer->at > ahead ? lexer->file[lexer->at + ahead] : '\0';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_word_part(char c) {
    return is_letter(c) || is_digit(c) || c == '.';
}
static bool is_name_part(char c) {
    return is_word_part(c) || c == '$' || c == '/' || c == '-';
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Ends a token whose characters are the file's from `start` to here. */
static void finish(ir_lexer *lexer, ir_token_kind kind, size_t start) {
    lexer->token.kind = kind;
    lexer->token.length = lexer->at - start;
    lexer->token.text = base_arena_text(lexer->arena, lexer->file + start, lexer->token.length);
    if (!lexer->token.text) ir_lex_fail_memory(lexer);
}

static void lex_string(ir_lexer *lexer) {
    size_t start = lexer->at++, end = lexer->at;
    while (end < lexer->length && lexer->file[end] != '"') end += lexer->file[end] == '\\' ? 2 : 1;
    if (end >= lexer->length) {
        ir_lex_fail(lexer, start, "the string does not end");
        return;
    }
    char *text = base_arena_alloc(lexer->arena, end - lexer->at + 1, 1);
    if (!text) {
        ir_lex_fail_memory(lexer);
        return;
    }
    size_t length = 0;
    while (lexer->at < end) {
        char c = lexer->file[lexer->at++];
        if (c == '\\') {
            char escape = lexer->file[lexer->at++];
            int high = hex_digit(peek(lexer, 0)), low = hex_digit(peek(lexer, 1));
            if (escape == 'n') c = '\n';
            else if (escape == 't') c = '\t';
            else if (escape == '"' || escape == '\\') c = escape;
            else if (escape == 'x' && high >= 0 && low >= 0 && lexer->at + 2 <= end) {
                c = (char)(high * 16 + low);
                lexer->at += 2;
            } else {
                ir_lex_fail(lexer, lexer->at - 2, "no such escape; \\n \\t \\\" \\\\ and \\xHH are");
                return;
            }
        }
        text[length++] = c;
    }
    lexer->at = end + 1;
    lexer->token.kind = IR_TOKEN_STRING;
    lexer->token.text = text;
    lexer->token.length = length;
}

static void lex_number(ir_lexer *lexer) {
    size_t start = lexer->at;
    ir_token_kind kind = IR_TOKEN_INTEGER;
    if (peek(lexer, 0) == '-') lexer->at++;
    if (peek(lexer, 0) == 'i' && peek(lexer, 1) == 'n' && peek(lexer, 2) == 'f') {
        lexer->at += 3;
        finish(lexer, IR_TOKEN_REAL, start);
        return;
    }
    for (;;) {
        char c = peek(lexer, 0);
        if (c == '.' || c == 'e' || c == 'E') {
            kind = IR_TOKEN_REAL;
            char sign = peek(lexer, 1);
            if (c != '.' && (sign == '-' || sign == '+')) lexer->at++;
        } else if (!is_digit(c)) {
            break;
        }
        lexer->at++;
    }
    finish(lexer, kind, start);
}

void ir_lex_next(ir_lexer *lexer) {
    if (lexer->status != BASE_OK) return;
    for (;;) {
        char c = peek(lexer, 0);
        if (lexer->at < lexer->length && (c == ' ' || c == '\n' || c == '\t' || c == '\r')) {
            lexer->at++;
        } else if (c == '/' && peek(lexer, 1) == '/') {
            while (lexer->at < lexer->length && lexer->file[lexer->at] != '\n') lexer->at++;
        } else {
            break;
        }
    }
    size_t start = lexer->at;
    lexer->token = (ir_token){.kind = IR_TOKEN_END, .text = "", .start = start};
    if (start >= lexer->length) return;

    char c = peek(lexer, 0);
    if (is_letter(c)) {
        while (is_word_part(peek(lexer, 0))) lexer->at++;
        finish(lexer, IR_TOKEN_WORD, start);
        const char *word = lexer->token.text;
        if (strcmp(word, "inf") == 0) lexer->token.kind = IR_TOKEN_REAL;
        if (strcmp(word, "nan") == 0) {
            if (peek(lexer, 0) == '(') {
                while (lexer->at < lexer->length && lexer->file[lexer->at] != ')' &&
                       lexer->file[lexer->at] != '\n') {
                    lexer->at++;
                }
                if (lexer->at < lexer->length) lexer->at++;
            }
            finish(lexer, IR_TOKEN_REAL, start);
        }
    } else if (c == '%' && peek(lexer, 1) == '"') {
        lexer->at++;
        lex_string(lexer);
        if (lexer->token.kind == IR_TOKEN_STRING) lexer->token.kind = IR_TOKEN_VALUE;
    } else if (c == '%' && is_name_part(peek(lexer, 1))) {
        lexer->at++;
        while (is_name_part(peek(lexer, 0))) lexer->at++;
        finish(lexer, IR_TOKEN_VALUE, start + 1);
    } else if (c == '"') {
        lex_string(lexer);
    } else if (is_digit(c) ||
               (c == '-' && (is_digit(peek(lexer, 1)) || peek(lexer, 1) == 'i'))) { /* also -inf */
        lex_number(lexer);
    } else if (c == '#' && hex_digit(peek(lexer, 1)) >= 0) {
        lexer->at++;
        while (hex_digit(peek(lexer, 0)) >= 0) lexer->at++;
        finish(lexer, IR_TOKEN_HASH, start);
    } else if (c == '.' && peek(lexer, 1) == '.' && peek(lexer, 2) == '.') {
        lexer->at += 3;
        lexer->token.kind = IR_TOKEN_DOTS;
    } else if (c != '\0' && strchr("(){}[]<>,:=?+-*/^", c)) {
        lexer->at++;
        lexer->token.kind = IR_TOKEN_SIGN;
        lexer->token.sign = c;
    } else if (c >= 0x20 && c < 0x7f) {
        ir_lex_fail(lexer, start, "'%c' has no meaning here", c);
    } else {
        ir_lex_fail(lexer, start, "byte 0x%02x has no meaning here", (unsigned char)c);
    }
}
