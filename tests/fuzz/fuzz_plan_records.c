/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_plan_records.c: plans whose records are changed, one field after another, and whose checksum is mended: they are
 * refused, or run without harm. This reaches what is after the checks of bounds more often than fuzz_plan.c does. With
 * clang, build it with -DOURO_LIBFUZZER -fsanitize=fuzzer,address; PLANS in the environment names plan files, separated
 * by colons, that the input chooses from. Here it is a program: fuzz_plan_records SEED ROUNDS PLAN... */
#include "tests/support/mutate.h"
#include "ir/base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_PLANS = 64, MOST_BYTES = 1 << 20, MOST_EDITS = 8 };

static unsigned char *plans[MOST_PLANS], *changed;
static size_t sizes[MOST_PLANS], plan_count;

static void read_plan(const char *path) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = aligned_alloc(64, MOST_BYTES);
    const size_t size = file && bytes ? fread(bytes, 1, MOST_BYTES, file) : 0;
    if (file) fclose(file);
    if (size && plan_count < MOST_PLANS) {
        sizes[plan_count] = size;
        plans[plan_count++] = bytes;
    } else {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(bytes);
    }
}

static support_reached try_edits(size_t plan, const support_edit *edits, size_t count) {
    if (!changed) changed = aligned_alloc(64, MOST_BYTES);
    memcpy(changed, plans[plan], sizes[plan]);
    for (size_t i = 0; i < count; i++) support_edit_apply(changed, sizes[plan], &edits[i]);
    return support_plan_try(changed, sizes[plan]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    support_edit edits[MOST_EDITS];
    if (!plan_count) {
        char *names = strdup(getenv("PLANS") ? getenv("PLANS") : ""), *rest = names;
        for (char *name; (name = strsep(&rest, ":"));)
            if (*name) read_plan(name);
        free(names);
        if (!plan_count) abort();
    }
    if (size < 1 + sizeof *edits) return 0;
    size_t count = (size - 1) / sizeof *edits;
    if (count > MOST_EDITS) count = MOST_EDITS;
    memcpy(edits, data + 1, count * sizeof *edits);
    (void)try_edits(data[0] % plan_count, edits, count);
    return 0;
}

#ifndef OURO_LIBFUZZER
int main(int count, char **arguments) {
    uint64_t random = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    const uint64_t rounds = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
    uint64_t reached[3] = {0};
    for (int i = 3; i < count; i++) read_plan(arguments[i]);
    for (uint64_t round = 0; round < rounds && plan_count; round++) {
        support_edit edits[3];
        for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
            const uint64_t a = base_random(&random), b = base_random(&random);
            edits[i] = (support_edit){(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)};
        }
        reached[try_edits(round % plan_count, edits, 1 + round % 3)]++;
    }
    printf("%llu refused, %llu opened, %llu of these ran\n", (unsigned long long)reached[SUPPORT_REFUSED],
           (unsigned long long)(reached[SUPPORT_OPENED] + reached[SUPPORT_RAN]),
           (unsigned long long)reached[SUPPORT_RAN]);
    for (size_t i = 0; i < plan_count; i++) free(plans[i]);
    free(changed);
    return 0;
}
#endif
