/* SPDX-License-Identifier: Apache-2.0 */
/* symbol_text.c: see symbol_text.h. */
#include "ir/operators/symbol_text.h"
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 60 };

/* The length of "s<number>" at `at`, where it is a whole extent of a shape: after '[' or ',', before ',' or ']'. 0: it is not. */
static size_t symbol_length(const char *text, const char *at, uint64_t *number) {
    if (at == text || (at[-1] != '[' && at[-1] != ',') || at[0] != 's') return 0;
    const size_t digits = strspn(at + 1, "0123456789");
    if (digits == 0 || digits > 18 || (at[1 + digits] != ',' && at[1 + digits] != ']')) return 0;
    *number = strtoull(at + 1, NULL, 10);
    return 1 + digits;
}

void op_symbols_named(char *text, size_t capacity, op_symbol_name *name, const void *user) {
    enum { USUAL = 512 }; /* a type: runs must not allocate */
    char usual[USUAL];
    const size_t length = strlen(text);
    char *from = length < USUAL ? usual : malloc(length + 1);
    if (!from) return; /* the numbers stay */
    memcpy(from, text, length + 1);
    size_t used = 0;
    for (const char *at = from; *at && used + 1 < capacity;) {
        uint64_t number;
        const size_t symbol = symbol_length(from, at, &number);
        if (!symbol) {
            text[used++] = *at++;
            continue;
        }
        const char *named = name(user, number);
        if (!named || !named[0]) named = "?";
        size_t bytes = strlen(named);
        if (bytes > NAME_BYTES) bytes = NAME_BYTES;
        while (bytes && bytes < strlen(named) && ((unsigned char)named[bytes] & 0xC0) == 0x80) bytes--;
        if (bytes > capacity - 1 - used) bytes = capacity - 1 - used;
        for (size_t i = 0; i < bytes; i++) { /* names come from files */
            const unsigned char c = (unsigned char)named[i];
            text[used++] = c < ' ' || c == 127 ? '?' : (char)c;
        }
        at += symbol;
    }
    text[used] = 0;
    if (from != usual) free(from);
}
