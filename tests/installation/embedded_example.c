/* SPDX-License-Identifier: Apache-2.0 */
/* embedded_example.c PLAN: runs a plan on numbers of its own, with all memory from one block, and prints what comes out, so that
 * builds for other machines can be compared with this one's. How large the block must be is what `ouro inspect PLAN` says. */
#include "ouro.h"
#include <stdio.h>

#ifndef BLOCK_BYTES
#define BLOCK_BYTES (2 << 20)
#endif

static _Alignas(OURO_ALIGNMENT) unsigned char block[BLOCK_BYTES];

int main(int argc, char **argv) {
    ouro_error error;
    ouro_allocator memory;
    ouro_plan *plan;
    ouro_session *session;
    if (argc != 2) return 2;
    if (ouro_block_allocator(block, sizeof block, &memory, &error)) return ouro_error_print(&error);
    if (ouro_plan_load_with(argv[1], &memory, &plan, &error)) return ouro_error_print(&error);
    if (ouro_session_new(plan, NULL, &session, &error)) return ouro_error_print(&error);
    for (size_t i = 0; i < ouro_plan_input_count(plan); i++) {
        ouro_tensor_info input;
        if (ouro_plan_input(plan, i, &input) || input.dtype != OURO_FLOAT) return 1;
        float *x = memory.allocate(memory.user, input.bytes);
        if (!x) return 3;
        for (size_t k = 0; k < input.bytes / sizeof *x; k++) x[k] = (float)((int)(k * 7 % 13) - 6) / 8;
        if (ouro_session_bind_input(session, i, x, input.bytes, NULL, &error))
            return ouro_error_print(&error);
    }
    if (ouro_session_run(session, &error)) return ouro_error_print(&error);
    for (size_t i = 0; i < ouro_plan_output_count(plan); i++) {
        ouro_tensor_info output;
        const void *data;
        if (ouro_session_output(session, i, &output, &data, &error)) return ouro_error_print(&error);
        if (output.dtype != OURO_FLOAT) continue;
        const float *y = data;
        for (size_t k = 0; k < output.bytes / sizeof *y && k < 16; k++) printf("%.4f ", (double)y[k]);
        printf("of %zu\n", output.bytes / sizeof *y);
    }
    fprintf(stderr, "%zu of %zu bytes used\n", ouro_block_peak(&memory), sizeof block);
    return 0;
}
