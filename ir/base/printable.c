/* SPDX-License-Identifier: Apache-2.0 */
/* printable.c: see printable.h. */
#include "ir/base/printable.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The bytes of the UTF-8 character at `text`, 0 where there is none: ill-formed, too long a form, a
 * surrogate. */
static size_t character_length(const unsigned char *text) {
    static const struct {
        unsigned char lead_mask, lead;
        size_t length;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if ((text[0] & forms[i].lead_mask) != forms[i].lead) continue;
        uint32_t code = text[0] & (unsigned char)~forms[i].lead_mask;
        for (size_t k = 1; k < forms[i].length; k++) {
            if ((text[k] & 0xc0) != 0x80) return 0; /* the terminating zero is none either */
            code = code << 6 | (text[k] & 0x3f);
        }
        bool valid = code >= forms[i].least && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
        return valid ? forms[i].length : 0;
    }
    return 0;
}

/* The length of the character at the beginning; 0 where it may not stand there. */
static size_t printable_length(const unsigned char *text) {
    const bool control = *text < 0x20 || *text == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0);
    return control ? 0 : character_length(text);
}

bool base_text_is_printable(const char *text) {
    for (const unsigned char *byte = (const unsigned char *)text; *byte;) {
        const size_t length = printable_length(byte);
        if (!length) return false;
        byte += length;
    }
    return true;
}

void base_text_make_printable(char *text) {
    for (unsigned char *byte = (unsigned char *)text; *byte;) {
        const size_t length = printable_length(byte), wrong = character_length(byte);
        if (!length) memset(byte, '?', wrong ? wrong : 1);
        byte += length ? length : wrong ? wrong : 1;
    }
}
