/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: plans made from modules as text. */
#ifndef OURO_TEST_SUPPORT_PLAN_H
#define OURO_TEST_SUPPORT_PLAN_H

#include "compiler/compiler.h"
#include "runtime/session.h"

/* Spilled values in memory of the heap, for sessions of plans that may be wrong: at most a few MiB. */
extern const ouro_spill support_spill;

/* The bytes of the plan of a module, after all passes; to be freed. Fails the test where it does not compile.
 * `portable`: on portable kernels only. */
unsigned char *support_plan(const char *text, bool portable, size_t *size);
/* The same with other options. */
unsigned char *support_plan_with(const char *text, const pass_options *options, size_t *size);
/* The checksum becomes right again. */
void support_plan_seal(unsigned char *bytes, size_t size);

/* A session on a plan of its own. */
typedef struct support_session {
    unsigned char *bytes;
    ouro_plan *plan;
    ouro_session *session;
} support_session;
/* On portable kernels and `threads` threads. Fails the test where that is impossible. */
void support_session_open(support_session *opened, const char *text, int threads);
/* The same on any kernels, or portable ones only. */
void support_session_open_on(support_session *opened, const char *text, bool portable, int threads);
/* The same with other options. */
void support_session_open_with(support_session *opened, const char *text, const pass_options *options);
void support_session_close(support_session *opened);
/* Binds input `index` (bytes as many as the data has). */
void support_bind(const support_session *on, size_t index, const void *data, size_t bytes);
/* Runs, and checks against unshared memory too; fails the test with the message. */
void support_run(const support_session *on);
/* The output after a run; its size must be `bytes`. */
const void *support_output(const support_session *on, size_t index, size_t bytes);

/* Runs twice, and fails the test where the second run allocates, if allocations are counted (allocations.h). */
void support_expect_no_allocations(const support_session *on);

/* How many nodes of the plan run on the kernel of this name. */
size_t support_count_kernel(const plan *of, const char *kernel);
/* This machine has vectors of 16 floats, so that recurrences want panels of weights, and products of one row want them in 28 bits. */
bool support_wants_panels(void);

/* The tensor with this name; fails the test where there is none. */
const plan_tensor *support_find_tensor(const plan *of, const char *name);
/* No carried parameter is ever copied to from its replacement, nor is anything when loops are entered or left: else the
 * test fails, naming `name`. */
void support_check_no_copies(const plan *of, const char *name);

#endif
