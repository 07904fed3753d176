/* SPDX-License-Identifier: Apache-2.0 */
/* lex.h: the tokens of the textual form, for ir/parse.c. */
#ifndef OURO_IR_LEX_H
#define OURO_IR_LEX_H

#include "ir/base/base.h"

typedef enum ir_token_kind {
    IR_TOKEN_END,
    IR_TOKEN_SIGN,  /* one character: ( ) { } [ ] < > , : = ? + - * / ^ */
    IR_TOKEN_DOTS,  /* ... */
    IR_TOKEN_WORD,  /* letters, digits, _ and . */
    IR_TOKEN_VALUE, /* %name; text is the name */
    IR_TOKEN_INTEGER,
    IR_TOKEN_REAL,   /* with a point or an exponent; inf, nan */
    IR_TOKEN_STRING, /* text is what the escapes stand for */
    IR_TOKEN_HASH    /* #hexadecimal */
} ir_token_kind;

typedef struct ir_token {
    ir_token_kind kind;
    char sign;        /* IR_TOKEN_SIGN */
    const char *text; /* zero-terminated, in the lexer's arena; a string may hold zeros of its own */
    size_t length;
    size_t start; /* where in the file, in bytes */
} ir_token;

/* Reads one file. The token is the one that is looked at; ir_lex_next goes on. */
typedef struct ir_lexer {
    const char *file, *name;
    size_t length, at;
    base_arena *arena; /* of the texts of tokens */
    base_report *report;
    base_status status; /* of the first failure; then every further token is IR_TOKEN_END */
    ir_token token;
} ir_lexer;

void ir_lex_next(ir_lexer *lexer);
bool ir_lex_is_sign(const ir_lexer *lexer, char sign);
bool ir_lex_is_word(const ir_lexer *lexer, const char *word);

/* Reports "NAME:LINE:COLUMN: message" at a token's place, once; returns false. */
bool ir_lex_fail(ir_lexer *lexer, size_t place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool ir_lex_fail_memory(ir_lexer *lexer);

#endif
