/* SPDX-License-Identifier: Apache-2.0 */
/* file_error.c: see file_error.h. */
#include "ir/base/file_error.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* GNU's strerror_r returns the text, which need not be in `text`; that of POSIX a status. */
static inline const char *text_of_gnu(const char *given, const char *text) {
    (void)text;
    return given;
}

static inline const char *text_of_posix(int status, const char *text) {
    (void)status;
    return text;
}

const char *base_error_text(int number, char text[BASE_ERROR_TEXT]) {
    snprintf(text, BASE_ERROR_TEXT, "unknown error");
    return _Generic(strerror_r(number, text, BASE_ERROR_TEXT), int
                    : text_of_posix, default
                    : text_of_gnu)(strerror_r(number, text, BASE_ERROR_TEXT), text);
}

base_status base_file_status(int number) {
    const bool users = number == ENOENT || number == ENOTDIR || number == EISDIR || number == EACCES ||
                       number == EPERM || number == ENAMETOOLONG || number == ELOOP || number == ENXIO;
    return users ? BASE_INVALID : BASE_SYSTEM_ERROR;
}

base_status base_fail_file(base_report *report, const char *path, const char *what, int number) {
    char text[BASE_ERROR_TEXT];
    return base_fail(report, base_file_status(number), "%s: %s: %s", path, what,
                     base_error_text(number, text));
}
