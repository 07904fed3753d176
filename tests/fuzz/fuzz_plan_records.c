/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_plan_records.c: plans whose records are changed, one field after another, and whose checksum is mended: they are
 * refused, or run without harm. Where all that is changed is where things lie, the plan computes what it did. This reaches what is
 * after the checks of bounds more often than fuzz_plan.c does. The first byte chooses a plan of those that tests share, and whether
 * only places are changed; the others are edits (mutate.h). */
#include "tests/fuzz/fuzz.h"
#include "tests/support/mutate.h"
#include "tests/support/programs_of_plans.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_EDITS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    support_edit edits[MOST_EDITS];
    size_t bytes_count;
    if (size < 1 + sizeof *edits) return 0;
    size_t count = (size - 1) / sizeof *edits;
    if (count > MOST_EDITS) count = MOST_EDITS;
    memcpy(edits, data + 1, count * sizeof *edits);
    const unsigned char *good = support_shared_plan(data[0], &bytes_count);
    unsigned char *bytes = support_plan_copy(good, bytes_count);
    for (size_t i = 0; i < count; i++) {
        if (data[0] & 128) support_edit_only_places(&edits[i]);
        support_edit_apply(bytes, bytes_count, &edits[i]);
    }
    if (support_plan_try_beside(bytes, bytes_count, good, support_shared_outcome(data[0])) == SUPPORT_DIFFERS)
        fuzz_found("a plan that differs in places alone computes something else");
    free(bytes);
    return 0;
}
