/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_plan.c: damaged plans are refused, or run without harm. With clang, build it with -fsanitize=fuzzer,address; here it
 * is a program that damages plan files at random:  fuzz_plan ROUNDS PLAN...  Build it with sanitizers. */
#include "runtime/plan/plan.h"
#include "tests/support/mutate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static support_reached try_plan(const uint8_t *data, size_t size) {
    uint8_t *bytes =
        aligned_alloc(PLAN_ALIGNMENT, (size + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT);
    if (!bytes) return SUPPORT_REFUSED;
    memcpy(bytes, data, size);
    const support_reached reached = support_plan_try(bytes, size);
    free(bytes);
    return reached;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)try_plan(data, size);
    return 0;
}

#ifndef OURO_LIBFUZZER
int main(int count, char **arguments) {
    const long rounds = count > 2 ? strtol(arguments[1], NULL, 10) : 0;
    uint64_t random = 88172645463325252u;
    long reached[3] = {0};
    for (int i = 2; i < count; i++) {
        FILE *file = fopen(arguments[i], "rb");
        static uint8_t whole[1 << 20], damaged[1 << 20];
        const size_t size = file ? fread(whole, 1, sizeof whole, file) : 0;
        if (file) fclose(file);
        for (long round = 0; round < rounds && size > sizeof(plan_header); round++) {
            memcpy(damaged, whole, size);
            for (int k = 0; k < 1 + (int)(round % 3); k++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                const size_t at = sizeof(((plan_header *)0)->magic) + (random >> 16) % (size - 8);
                if (random & 1) damaged[at] = (uint8_t)(random >> 8);
                else damaged[at] ^= (uint8_t)(1u << (random >> 1 & 7));
            }
            reached[try_plan(damaged, size)]++;
        }
    }
    printf("%ld refused, %ld opened, %ld of these ran\n", reached[0], reached[1] + reached[2], reached[2]);
    return 0;
}
#endif
