/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c: how long threads that find no work look for it before they sleep. OpenMP reads that from its environment when a process starts:
 * where the environment does not say, the process starts once more.
 */
#include "compiler/command/command.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(_OPENMP) && defined(__linux__)
/* How often OpenMP looks for work is told as a number of looks, after each of which it pauses: for 10 ns to 100, depending on the processor. */
enum { LEAST_LOOKS = 5000, MOST_LOOKS = 50000, TRIED = 500, TRIES = 3 };
static const double wait_seconds = 0.4e-3;

static int looks_of_a_wait(void) {
    double each = 1;
    for (int t = 0; t < TRIES; t++) {
        volatile int nothing = 0;
        const double start = command_seconds();
        for (int i = 0; i < TRIED && !nothing; i++) {
#if defined(__x86_64__) && defined(__GNUC__)
            __builtin_ia32_pause();
#endif
        }
        const double taken = (command_seconds() - start) / TRIED;
        if (taken < each) each = taken;
    }
    if (each * MOST_LOOKS < wait_seconds) return MOST_LOOKS;
    const int looks = (int)(wait_seconds / each);
    return looks < LEAST_LOOKS ? LEAST_LOOKS : looks;
}
#endif

static char **process_arguments;

void command_waits_remember(char **arguments) {
    process_arguments = arguments;
}

void command_waits_shorten(int threads) {
    static bool is_decided;
    const bool is_first = !is_decided;
    is_decided = true;
    if (threads <= 1 || !is_first || !process_arguments) return;
#if defined(_OPENMP) && defined(__linux__)
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    /* These bind this thread to one processor as the process starts; one that starts from here would have no other for its threads. */
    if (getenv("OMP_PROC_BIND") || getenv("OMP_PLACES") || getenv("GOMP_CPU_AFFINITY")) return;
    char looks[16];
    snprintf(looks, sizeof looks, "%d", looks_of_a_wait());
    if (setenv("GOMP_SPINCOUNT", looks, 0) == 0)
        execv("/proc/self/exe", process_arguments); /* where that fails, as if nothing had been said */
#endif
}
