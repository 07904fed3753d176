/* SPDX-License-Identifier: Apache-2.0 */
/* tuning.h: how long kernels took for applications, measured: what choose-kernels goes by in place of predictions.
 *
 * A record of times is text, a line an application and kernel: nanoseconds, a tab, what was measured. Compiling with a record that
 * has all that is asked for gives the same plan every time, on every machine.
 */
#ifndef OURO_PASSES_TUNING_H
#define OURO_PASSES_TUNING_H

#include "passes/base/pass.h"

typedef struct pass_tuning {
    base_arena arena; /* of all below */
    base_map times;   /* by what was measured: a pass_time */
    struct pass_time *first, *last;
    bool measure; /* what the record lacks */
} pass_tuning;

/* An empty record. */
void pass_tuning_init(pass_tuning *tuning, bool measure);
void pass_tuning_free(pass_tuning *tuning);
/* Adds what the text says. BASE_INVALID names the line that says nothing valid. */
base_status pass_tuning_read(pass_tuning *tuning, const char *text, size_t length, base_report *report);
/* The record as text, in the order in which times were added; to be freed. NULL when memory runs out. */
char *pass_tuning_write(const pass_tuning *tuning, size_t *length);

/* A time of anything else, by its name. */
bool pass_tuning_find(const pass_tuning *tuning, const char *what, double *seconds);
/* False when memory runs out. */
bool pass_tuning_add(pass_tuning *tuning, const char *what, double seconds);

/* How long the kernel takes for the application, whose constant inputs have data as the kernel wants them: from the record, or
 * measured and added to it. False: it is not known and nothing is measured, or that failed. */
bool pass_tuning_seconds(pass_tuning *tuning, const rt_kernel *kernel, const op_call *call,
                         const rt_environment *environment, double *seconds);
/* The record has the time, or it will be measured: data is wanted only in the latter case. */
bool pass_tuning_knows(const pass_tuning *tuning, const rt_kernel *kernel, const op_call *call,
                       const rt_environment *environment, double *seconds);

#endif
