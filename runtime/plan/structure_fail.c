/* SPDX-License-Identifier: Apache-2.0 */
/* structure_fail.c: what the check of the structure of a plan says; see runtime/plan/structure.c. */
#include "runtime/plan/structure.h"
#include <stdarg.h>
#include <stdio.h>

bool structure_fail(structure_checker *c, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    base_fail(c->report, BASE_INVALID, "is malformed: %s", text);
    return false;
}
