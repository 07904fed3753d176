/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c: how long threads that find no work look for it before they sleep. OpenMP reads that from its environment when a process starts:
 * where the environment does not say, the process starts once more.
 */
#include "compiler/command/command.h"
#include <stdlib.h>
#include <unistd.h>

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
    if (setenv("GOMP_SPINCOUNT", "5000", 0) == 0)
        execv("/proc/self/exe", process_arguments); /* where that fails, as if nothing had been said */
#endif
}
