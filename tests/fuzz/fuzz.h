/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h: what fuzz targets share. Each fuzz_NAME.c is one target: a function that takes any bytes and must come back, whatever
 * they are, with nothing leaked and nothing touched that it does not own; what else it checks stands at its head. With clang, the preset "fuzz"
 * links it with libFuzzer (tests/fuzz.sh runs all); else replay.c makes it a program that replays files. */
#ifndef OURO_FUZZ_H
#define OURO_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The path of a file that holds the bytes, in a folder of this process that goes when it ends; the text lives until the next
 * call. Aborts where the machine does not let it be written. */
const char *fuzz_file(const char *name, const void *data, size_t size);
/* That folder. */
const char *fuzz_folder(void);

/* Aborts with the text on stderr: a find. */
_Noreturn void fuzz_found(const char *text);

#endif
