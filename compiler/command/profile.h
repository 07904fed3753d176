/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h: where the time of a run goes: a table of nodes (`ouro bench --profile`) and a trace of steps
 * (`ouro run --profile`).
 *
 * Both are made by an observer of the session. While none is there, steps run as if there were no profile.
 */
#ifndef OURO_PROFILE_H
#define OURO_PROFILE_H

#include "compiler/command/command.h"
#include "compiler/command/machine.h"
#include "compiler/report/emit.h"
#include "compiler/report/work.h"

/* What one node took. */
typedef struct profile_node {
    uint32_t node;
    /* In one run, all its executions together: the median of the runs observed. Of a loop or a branch without what
     * its graphs take. */
    double seconds;
    double executions; /* in one run */
    work done;         /* in one execution */
} profile_node;

typedef struct profile {
    base_arena arena;
    size_t count;
    profile_node *nodes; /* those that took time, the one that took most first */
    double seconds;      /* of all of them */
    size_t runs;
    machine_peak peak;
} profile;

/* Runs the session, whose inputs are bound, for about half a second and at least three times; command_profile_free in either case.
 * 0, or the exit status with the message printed. */
int command_profile_measure(const command_model *model, ouro_session *session, int threads, profile *result);
void command_profile_free(profile *of);

/* "float32[1,64,56,56], float32[64,64,3,3] -> float32[1,64,56,56]"; returns text. */
char *command_profile_shapes_print(const plan *of, uint32_t node, char *text, size_t capacity);

/* The ten most expensive nodes on stdout; all of them as the member "profile" of a JSON object. */
void command_profile_print(const profile *of, const plan *from);
void command_profile_emit(const profile *of, const plan *from, emit_buffer *json);

/* One run after another that warms up, as a trace that Perfetto and chrome://tracing show: a slice a step, and one for each
 * iteration of a loop around those of its body. 0, or the exit status with the message printed. */
int command_profile_trace(ouro_session *session, const command_model *model, const char *path);

#endif
