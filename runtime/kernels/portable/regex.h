/* SPDX-License-Identifier: Apache-2.0 */
/* regex.h: regular expressions that mean what RE2 says, on PCRE2 (OURO_PCRE2): `.` is no end of line, `$` is the end of the text alone, classes
 * such as \d are those of ASCII, letters are those of UTF-8. A pattern that would take too long on a text is an error, not a wait. */
#ifndef OURO_REGEX_H
#define OURO_REGEX_H

#include "ir/base/base.h"
#include "ir/operators/op.h"

typedef struct rt_regex rt_regex;

/* A pattern; `whole`: it has to match all of a text. `name` is the attribute that it comes from, for messages. PCRE2 takes memory of its own. */
base_status rt_regex_new(const op_string *pattern, const char *name, bool whole, base_arena *arena,
                         rt_regex **regex, base_report *report);
void rt_regex_free(rt_regex *regex); /* NULL is allowed */
/* Whether a text matches from its beginning. */
base_status rt_regex_matches(rt_regex *regex, const op_string *text, bool *found, base_report *report);
/* The first match of a text from byte `start` on, of those that begin there the longest: its bytes [*begin, *end). */
base_status rt_regex_find(rt_regex *regex, const op_string *text, size_t start, bool *found, size_t *begin,
                          size_t *end, base_report *report);

#endif
