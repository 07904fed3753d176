/* SPDX-License-Identifier: Apache-2.0 */
/* file_error.c: see file_error.h. */
#include "ir/base/file_error.h"
#include <errno.h>
#include <string.h>

base_status base_fail_file(base_report *report, const char *path, const char *what, int number) {
    const bool users = number == ENOENT || number == ENOTDIR || number == EISDIR || number == EACCES ||
                       number == EPERM || number == ENAMETOOLONG || number == ELOOP || number == ENXIO;
    char text[128];
    return base_fail(report, users ? BASE_INVALID : BASE_SYSTEM_ERROR, "%s: %s: %s", path, what,
                     strerror_r(number, text, sizeof text));
}
