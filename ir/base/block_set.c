/* SPDX-License-Identifier: Apache-2.0 */
/* block_set.c: see block_set.h. */
#include "ir/base/block_set.h"

static uint32_t priority(uint32_t block) {
    uint32_t z = block + 0x9E3779B9u;
    z = (z ^ (z >> 16)) * 0x85EBCA6Bu;
    z = (z ^ (z >> 13)) * 0xC2B2AE35u;
    return z ^ (z >> 16);
}

static bool before(const base_block_set *set, uint32_t a, uint32_t b) {
    if (set->sizes[a] != set->sizes[b]) return set->sizes[a] < set->sizes[b];
    if (set->ties && set->ties[a] != set->ties[b]) return set->ties[a] < set->ties[b];
    return a < b;
}

/* Splits a tree into what comes before `block` and the rest. */
static void split(base_block_set *set, uint32_t tree, uint32_t block, uint32_t *low, uint32_t *high) {
    while (tree != BASE_NO_BLOCK) {
        if (before(set, tree, block)) {
            *low = tree;
            low = &set->right[tree];
            tree = *low;
        } else {
            *high = tree;
            high = &set->left[tree];
            tree = *high;
        }
    }
    *low = *high = BASE_NO_BLOCK;
}

void base_block_set_add(base_block_set *set, uint32_t block) {
    uint32_t *place = &set->root;
    while (*place != BASE_NO_BLOCK && priority(*place) >= priority(block)) {
        place = before(set, block, *place) ? &set->left[*place] : &set->right[*place];
    }
    split(set, *place, block, &set->left[block], &set->right[block]);
    *place = block;
}

void base_block_set_remove(base_block_set *set, uint32_t block) {
    uint32_t *place = &set->root;
    while (*place != block) place = before(set, block, *place) ? &set->left[*place] : &set->right[*place];
    uint32_t low = set->left[block], high = set->right[block];
    while (low != BASE_NO_BLOCK && high != BASE_NO_BLOCK) {
        if (priority(low) >= priority(high)) {
            *place = low;
            place = &set->right[low];
            low = *place;
        } else {
            *place = high;
            place = &set->left[high];
            high = *place;
        }
    }
    *place = low != BASE_NO_BLOCK ? low : high;
}

uint32_t base_block_set_find(const base_block_set *set, size_t size) {
    uint32_t found = BASE_NO_BLOCK;
    for (uint32_t tree = set->root; tree != BASE_NO_BLOCK;) {
        if (set->sizes[tree] >= size) {
            found = tree;
            tree = set->left[tree];
        } else {
            tree = set->right[tree];
        }
    }
    return found;
}

uint32_t base_block_set_largest(const base_block_set *set) {
    uint32_t found = BASE_NO_BLOCK;
    for (uint32_t tree = set->root; tree != BASE_NO_BLOCK; tree = set->right[tree]) found = tree;
    return found;
}
