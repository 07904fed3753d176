/* SPDX-License-Identifier: Apache-2.0 */
/* file_error.h: why a file cannot be used: whose fault it is. */
#ifndef OURO_FILE_ERROR_H
#define OURO_FILE_ERROR_H

#include "ir/base/base.h"

enum { BASE_ERROR_TEXT = 128 }; /* characters that an error's text may want */

/* What the error with this number (errno) means; in `text` or in static memory. On any C library, and on several threads. */
const char *base_error_text(int number, char text[BASE_ERROR_TEXT]);

/* Whose fault the error with this number (errno) is: BASE_INVALID or BASE_SYSTEM_ERROR, as below. */
base_status base_file_status(int number);

/* Reports "PATH: WHAT: the error with this number (errno)". BASE_INVALID where the path is wrong: it does not exist, is
 * no file, or is not for this user; BASE_SYSTEM_ERROR where the machine failed: disk, memory, open files. */
base_status base_fail_file(base_report *report, const char *path, const char *what, int number);

#endif
