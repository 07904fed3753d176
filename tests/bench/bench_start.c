/* SPDX-License-Identifier: Apache-2.0 */
/* bench_start.c: what start.py measures of ouro: a program that opens a plan and runs it once.
 *
 *     bench_start SINCE map|read PLAN THREADS DIMS...
 *
 * DIMS are the extents of each input, as 1x3x224x224; inputs are zeros. Prints the seconds from SINCE, of the monotonic clock, to the first
 * output, and of these those for the plan, the session and the run; and the most memory of the process, in bytes. */
#include "ir/operators/op.h"
#include "runtime/ouro.h"
#include "tests/bench/start.h"

int main(int count, char **arguments) {
    ouro_error error;
    ouro_plan *plan;
    ouro_session *session;
    if (count < 5) return 2;
    const double begin = start_now();
    const bool maps = strcmp(arguments[2], "map") == 0;
    if ((maps ? ouro_plan_map : ouro_plan_load)(arguments[3], &plan, &error) != OURO_OK)
        return ouro_error_print(&error);
    const double opened = start_now();
    const ouro_session_options options = {.threads = atoi(arguments[4])};
    if (ouro_session_new(plan, &options, &session, &error) != OURO_OK) return ouro_error_print(&error);
    const double made = start_now();
    for (size_t i = 0; i < ouro_plan_input_count(plan); i++) {
        int64_t dims[START_RANK];
        ouro_tensor_info info;
        if (5 + (int)i >= count || ouro_plan_input(plan, i, &info) != OURO_OK) return 2;
        const size_t elements = start_dims(arguments[5 + i], dims, NULL);
        void *zeros = calloc(elements + 1, 16);
        if (!zeros) return 3;
        if (ouro_session_bind_input(session, i, zeros, elements * op_dtype_bytes((op_dtype)info.dtype), dims,
                                    &error) != OURO_OK)
            return ouro_error_print(&error);
    }
    const double bound = start_now();
    if (ouro_session_run(session, &error) != OURO_OK) return ouro_error_print(&error);
    const double end = start_now();
    start_print(end - strtod(arguments[1], NULL), opened - begin, made - opened, end - bound);
    return 0;
}
