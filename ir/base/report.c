/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: messages collected without allocating. See base.h. */
#include "ir/base/base.h"
#include "ir/base/printable.h"

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

void base_report_context(base_report *report, const char *format, ...) {
    if (!report) return;
    report->context[0] = '\0';
    if (!format) return;
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(report->context, sizeof report->context, format, arguments) < 0) report->context[0] = '\0';
    va_end(arguments);
    base_text_make_printable(report->context);
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
    base_text_make_printable(message);

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
