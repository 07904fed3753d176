/* SPDX-License-Identifier: Apache-2.0 */
/* integers.c: sums and products that are checked for overflow, and the greatest common divisor. See base.h. */
#include "ir/base/base.h"

bool base_size_add(size_t a, size_t b, size_t *result) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *result = sum;
    return true;
}

bool base_size_multiply(size_t a, size_t b, size_t *result) {
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *result = product;
    return true;
}

bool base_size_align(size_t value, size_t alignment, size_t *result) {
    size_t sum;
    if (__builtin_add_overflow(value, alignment - 1, &sum)) return false;
    *result = sum & ~(alignment - 1);
    return true;
}

bool base_int64_add(int64_t a, int64_t b, int64_t *result) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *result = sum;
    return true;
}

bool base_int64_multiply(int64_t a, int64_t b, int64_t *result) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *result = product;
    return true;
}

uint64_t base_gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t base_lcm(uint64_t a, uint64_t b) {
    uint64_t multiple;
    if (!a || !b) return 0;
    return __builtin_mul_overflow(a / base_gcd(a, b), b, &multiple) ? UINT64_MAX : multiple;
}
