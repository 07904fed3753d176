/* SPDX-License-Identifier: Apache-2.0 */
/* support.h: what several test programs share: files, golden texts, modules as text, failing allocators. */
#ifndef OURO_TEST_SUPPORT_H
#define OURO_TEST_SUPPORT_H

#include "ir/ir.h"

/* The bytes of a file, zero-terminated, to be freed; fails the test where there is none. *length may be NULL.
 */
char *support_read_file(const char *path, size_t *length);

/* The same of tests/NAME: "ir/cases/control.ir". */
char *support_read_golden(const char *name, size_t *length);

/* Compares text with tests/NAME; the test fails on the first line that differs and shows both. With
 * OURO_BLESS=1 in the environment, or `--bless` on the command line (see support_arguments), the file is
 * rewritten instead: look at the difference that the version control shows. */
void support_expect_golden(const char *name, const char *text);

/* Call it first in main where a test program compares golden files. */
void support_arguments(int count, char **arguments);

/* A module from text: fails the test, with the message, where it does not parse or (where `verified`) does
 * not hold. */
ir_module *support_module(const char *text, bool verified);

/* The module as text, to be freed. */
char *support_print(const ir_module *module, bool data);

/* An allocator on the heap that counts and can fail: the allocation number `fail_at` (from 1; 0: none) and
 * all after it give NULL, and so does whatever would exceed `largest` bytes (0: no limit). */
typedef struct support_allocator {
    base_allocator allocator;
    size_t count; /* allocations asked for */
    size_t live;  /* blocks not given back */
    size_t fail_at;
    bool once; /* number `fail_at` alone */
    size_t largest;
} support_allocator;
void support_allocator_init(support_allocator *counting);

/* Of `count` allocations `usual` are made to fail, in turn, or as many as the environment's OURO_EVERY_ALLOCATION says (1: all): how far
 * one is from the next. */
size_t support_allocation_step(size_t count, size_t usual);

/* Of `all` equal rounds those that a test is to do: all, or one of so many as the environment's OURO_TEST_SHARE says, but at least one. CTest
 * asks for fewer in builds that repeat what another one does (tests/CMakeLists.txt). */
uint64_t support_share(uint64_t all);

/* A small random number generator: every run prints its seed, so that a failure can be repeated. */
uint64_t support_random(uint64_t *state);

#endif
