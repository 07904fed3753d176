/* SPDX-License-Identifier: Apache-2.0 */
/* printable.h: names come from files: what shows them must stay one line, must not drive a terminal, and is valid UTF-8. Modules and plans
 * hold only such names, so that nobody who prints one has to think of it. */
#ifndef OURO_PRINTABLE_H
#define OURO_PRINTABLE_H

#include <stdbool.h>

/* No control characters (those of 8 bits, as UTF-8 has them, included), and valid UTF-8. */
bool base_text_is_printable(const char *text);
/* Each byte that hinders that becomes '?'. */
void base_text_make_printable(char *text);

#endif
