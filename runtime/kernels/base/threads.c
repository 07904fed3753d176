/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c: teams of OpenMP threads, and loops cut into one part a thread. Without OpenMP there is one thread. */
#include "runtime/kernels/base/kernel.h"
#ifdef _OPENMP
#include <omp.h>
#endif

void rt_parallel(int threads, int64_t count, int64_t work, rt_range_function *run, void *context) {
    if (count <= 0) return;
    bool large = work > 0 && count >= (RT_PARALLEL_WORK + work - 1) / work;
    if (threads <= 1 || count == 1 || !large) {
        run(context, 0, count);
        return;
    }
#ifdef _OPENMP
    int parts = count < threads ? (int)count : threads;
    /* Always the same size of team, though some may have no part: another size would make the OpenMP run time
     * allocate. */
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int part = 0; part < parts; part++) {
        int64_t each = count / parts, rest = count % parts;
        int64_t begin = part * each + (part < rest ? part : rest);
        run(context, begin, begin + each + (part < rest));
    }
#else
    run(context, 0, count);
#endif
}

void rt_team_run(int threads, rt_member_function *function, void *context) {
    if (threads <= 1) {
        function(context, 0, 1);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
    function(context, omp_get_thread_num(), omp_get_num_threads());
#else
    function(context, 0, 1);
#endif
}

void rt_team_wait(void) {
#ifdef _OPENMP
#pragma omp barrier
#endif
}

static void do_nothing(void *context, int member, int members) {
    (void)context;
    (void)member;
    (void)members;
}

void rt_threads_warm(int threads) {
    rt_team_run(threads, do_nothing, NULL);
}
