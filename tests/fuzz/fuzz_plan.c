/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_plan.c: damaged plans, with a checksum that is right, are refused or run without harm. The bytes say which plan of those
 * that tests share is damaged, and how: three bytes each are a place and what stands there. Bytes that begin as a plan
 * does are one. */
#include "runtime/plan/plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/mutate.h"
#include "tests/support/programs_of_plans.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    size_t bytes_count = size;
    const bool whole = size >= 8 && memcmp(data, PLAN_MAGIC, 8) == 0;
    const unsigned char *good = whole ? data : support_shared_plan(data[0], &bytes_count);
    unsigned char *bytes = support_plan_copy(good, bytes_count);
    for (size_t i = 1; !whole && i + 3 <= size; i += 3)
        bytes[(data[i] | (size_t)data[i + 1] << 8) % bytes_count] ^= data[i + 2];
    if (support_plan_try_beside(bytes, bytes_count, whole ? NULL : good,
                                whole ? NULL : support_shared_outcome(data[0])) == SUPPORT_DIFFERS)
        fuzz_found("a plan that differs in places alone computes something else");
    free(bytes);
    return 0;
}
