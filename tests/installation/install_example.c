/* SPDX-License-Identifier: Apache-2.0 */
/* install_example.c PLAN: what a user of the installed runtime library writes: loads a plan, runs it on zeros
 * in buffers of its own, and checks that the outputs are written there. */
#include <ouro/ouro.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    ouro_error error;
    ouro_plan *plan;
    ouro_session *session;
    if (argc != 2) return 2;
    if (ouro_plan_load(argv[1], &plan, &error)) return ouro_error_print(&error);
    if (ouro_session_new(plan, NULL, &session, &error)) return ouro_error_print(&error);
    ouro_tensor_info input, output;
    if (ouro_plan_input(plan, 0, &input) || ouro_plan_output(plan, 0, &output)) return 1;
    void *x = calloc(1, input.bytes), *y = malloc(output.bytes);
    if (!x || !y) return 3;
    if (ouro_session_bind_input(session, 0, x, input.bytes, NULL, &error)) return ouro_error_print(&error);
    if (ouro_session_bind_output(session, 0, y, output.bytes, &error)) return ouro_error_print(&error);
    if (ouro_session_run(session, &error)) return ouro_error_print(&error);
    const void *data;
    if (ouro_session_output(session, 0, &output, &data, &error)) return ouro_error_print(&error);
    if (data != y) return 1;
    printf("%s: %zu bytes in, %zu bytes out, an arena of %zu bytes\n", argv[1], input.bytes, output.bytes,
           ouro_plan_arena_bytes(plan));
    ouro_session_free(session);
    ouro_plan_free(plan);
    free(x);
    free(y);
    return 0;
}
