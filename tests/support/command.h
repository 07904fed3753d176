/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: running the built command, and looking at what it wrote. */
#ifndef TESTS_SUPPORT_COMMAND_H
#define TESTS_SUPPORT_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* What a run left. Ended by a signal: status is 128 + its number. */
typedef struct command_outcome {
    int status;
    char *out, *err; /* zero-terminated; from malloc */
} command_outcome;

/* Runs `ouro ARGUMENTS...` (the list ends with NULL) in `directory`. Exits the test where that is impossible.
 */
command_outcome command_execute(const char *directory, const char *const *arguments);
void command_outcome_free(command_outcome *outcome);

/* A whole file as text, from malloc; NULL where it cannot be read. *size may be NULL. */
char *command_file(const char *directory, const char *name, size_t *size);
bool command_file_exists(const char *directory, const char *name);
void command_file_put(const char *directory, const char *name, const void *bytes, size_t size);

/* Well-formed XML, as far as pictures need it: one root, tags that nest, quoted attributes that are not
 * repeated, known entities, valid UTF-8, no control characters. Otherwise false, with the place in *reason.
 */
bool command_xml_check(const char *text, const char **reason);
/* Valid JSON (one value). */
bool command_json_check(const char *text);

#endif
