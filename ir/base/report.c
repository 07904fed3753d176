/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: messages collected without allocating. See base.h. */
#include "ir/base/base.h"

#include <stdio.h>
#include <string.h>

void base_report_clear(base_report *report) {
    report->status = BASE_OK;
    report->unsupported = false;
    report->count = 0;
    report->length = 0;
    report->context[0] = '\0';
    report->text[0] = '\0';
}

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

/* Names come from files: a message must stay one line, must not drive a terminal, and is valid UTF-8 whatever
 * bytes the names have and wherever they were cut. */
static void replace_control_characters(char *text) {
    for (unsigned char *byte = (unsigned char *)text; *byte;) {
        size_t length = character_length(byte);
        bool control = *byte < 0x20 || *byte == 0x7f || (byte[0] == 0xc2 && byte[1] < 0xa0);
        if (length == 0 || control) {
            memset(byte, '?', length ? length : 1);
            length = length ? length : 1;
        }
        byte += length;
    }
}

void base_report_context(base_report *report, const char *format, ...) {
    if (!report) return;
    report->context[0] = '\0';
    if (!format) return;
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(report->context, sizeof report->context, format, arguments) < 0) report->context[0] = '\0';
    va_end(arguments);
    replace_control_characters(report->context);
}

base_status base_fail_va(base_report *report, base_status status, const char *format, va_list arguments) {
    if (!report) return status;
    if (report->status == BASE_OK) report->status = status;
    report->count++;

    char message[BASE_REPORT_TEXT];
    size_t used = 0;
    if (report->context[0]) {
        used = (size_t)snprintf(message, sizeof message, "%s: ", report->context);
    }
    int written = vsnprintf(message + used, sizeof message - used, format, arguments);
    if (written < 0) message[used] = '\0';
    replace_control_characters(message);

    /* Line break and terminating zero. The first message is always kept, cut where it must be. */
    size_t length = strlen(message);
    size_t left = sizeof report->text - report->length;
    if (length + 2 > left) {
        if (report->length > 0) return status;
        length = left - 2;
    }
    memcpy(report->text + report->length, message, length);
    report->length += length;
    report->text[report->length++] = '\n';
    report->text[report->length] = '\0';
    return status;
}

base_status base_fail(base_report *report, base_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    base_fail_va(report, status, format, arguments);
    va_end(arguments);
    return status;
}

base_status base_fail_unsupported(base_report *report, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    base_fail_va(report, BASE_INVALID, format, arguments);
    va_end(arguments);
    if (report) report->unsupported = true;
    return BASE_INVALID;
}

base_status base_fail_memory(base_report *report) {
    return base_fail(report, BASE_SYSTEM_ERROR, "out of memory");
}
