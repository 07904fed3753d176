/* SPDX-License-Identifier: Apache-2.0 */
/* sort.c: see sort.h. */
#include "ir/base/sort.h"

static void swap(char *a, char *b, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Item `at` goes down until none below it is larger. */
static void sift(char *items, size_t at, size_t count, size_t size,
                 int (*compare)(const void *, const void *)) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && compare(items + child * size, items + (child + 1) * size) < 0) child++;
        if (compare(items + at * size, items + child * size) >= 0) return;
        swap(items + at * size, items + child * size, size);
    }
}

void base_sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *)) {
    char *list = items;
    for (size_t i = count / 2; i-- > 0;) sift(list, i, count, size, compare);
    for (size_t last = count; last-- > 1;) {
        swap(list, list + last * size, size);
        sift(list, 0, last, size, compare);
    }
}
