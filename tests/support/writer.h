/* SPDX-License-Identifier: Apache-2.0 */
/* writer.h: a text that tests write piece by piece, such as a module:
 *
 *     static char text[1 << 16];
 *     support_writer to = support_writer_on(text, sizeof text);
 *     support_write(&to, "module \"m\" {\n");
 */
#ifndef OURO_TEST_WRITER_H
#define OURO_TEST_WRITER_H

#include <stddef.h>
#include <stdint.h>

/* The text is always terminated. What comes before `used` stays as it is. */
typedef struct support_writer {
    char *text;
    size_t capacity, used; /* bytes; `used` is without the one that terminates */
} support_writer;

/* An empty text in memory of the caller. */
support_writer support_writer_on(char *text, size_t capacity);

/* Adds what printf would print; fails the test where that exceeds the capacity. */
void support_write(support_writer *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a constant of a module, a line with `count` numbers between -0.05 and 0.05; its type is dtype[dims]. */
void support_write_constant(support_writer *to, const char *name, const char *dtype, const char *dims,
                            int count, uint64_t seed);

#endif
