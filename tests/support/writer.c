/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c: see writer.h. */
#include "tests/support/writer.h"
#include "tests/support/application.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

support_writer support_writer_on(char *text, size_t capacity) {
    assert_true(capacity > 0);
    text[0] = 0;
    return (support_writer){.text = text, .capacity = capacity};
}

void support_write(support_writer *to, const char *format, ...) {
    const size_t left = to->capacity - to->used;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(to->text + to->used, left, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= left)
        fail_msg("a text of %zu bytes cannot grow by %d: its capacity is %zu", to->used, length,
                 to->capacity);
    to->used += (size_t)length;
}

void support_write_constant(support_writer *to, const char *name, const char *dtype, const char *dims,
                            int count, uint64_t seed) {
    support_write(to, "  constant %%%s: %s[%s] = {", name, dtype, dims);
    for (int i = 0; i < count; i++)
        support_write(to, "%s%.4f", i ? ", " : "", 0.0001 * (double)random_range(&seed, -500, 500));
    support_write(to, "}\n");
}
