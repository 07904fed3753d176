/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c: see runtime/plan/bytes.h. */
#include "runtime/plan/bytes.h"
#include "ir/base/sort.h"

/* The identity of a tree node whose intervals have tags of their own. */
#define MIXED UINT64_MAX

static int compare_bounds(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

bool plan_bytes_init(plan_bytes *bytes, base_arena *arena, uint64_t *bounds, size_t count) {
    base_sort(bounds, count, sizeof *bounds, compare_bounds);
    size_t unique = 0;
    for (size_t i = 0; i < count; i++) {
        if (!unique || bounds[unique - 1] != bounds[i]) bounds[unique++] = bounds[i];
    }
    *bytes = (plan_bytes){.arena = arena, .bounds = bounds, .bound_count = unique};
    size_t leaves = 1;
    while (leaves < unique) leaves *= 2;
    bytes->tags = BASE_ARRAY(arena, plan_bytes_tag, 2 * leaves);
    return bytes->tags != NULL;
}

size_t plan_bytes_bound(const plan_bytes *bytes, uint64_t address) {
    size_t low = 0, high = bytes->bound_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes->bounds[middle] < address) low = middle + 1;
        else high = middle;
    }
    return low < bytes->bound_count && bytes->bounds[low] == address ? low : SIZE_MAX;
}

static bool is_equal(plan_bytes_tag a, plan_bytes_tag b) {
    return a.identity == b.identity && (a.origin == b.origin || a.identity == 0);
}

static bool set_tag(plan_bytes *bytes, size_t node, plan_bytes_tag tag) {
    if (is_equal(bytes->tags[node], tag)) return true;
    if (bytes->marks) {
        plan_bytes_change *journal = base_arena_grow(bytes->arena, bytes->journal, &bytes->journal_capacity,
                                                     bytes->journal_count + 1, sizeof *journal);
        if (!journal) return false;
        bytes->journal = journal;
        journal[bytes->journal_count++] = (plan_bytes_change){node, bytes->tags[node]};
    }
    bytes->tags[node] = tag;
    return true;
}

/* `node` spans the intervals [low, high). */
static bool write_node(plan_bytes *bytes, size_t node, size_t low, size_t high, size_t first, size_t last,
                       plan_bytes_tag tag) {
    if (last <= low || high <= first) return true;
    if (first <= low && high <= last) return set_tag(bytes, node, tag);
    plan_bytes_tag own = bytes->tags[node];
    if (own.identity != MIXED) {
        if (is_equal(own, tag)) return true;
        if (!set_tag(bytes, 2 * node, own) || !set_tag(bytes, 2 * node + 1, own) ||
            !set_tag(bytes, node, (plan_bytes_tag){MIXED, 0})) {
            return false;
        }
    }
    size_t middle = low + (high - low) / 2;
    if (!write_node(bytes, 2 * node, low, middle, first, last, tag) ||
        !write_node(bytes, 2 * node + 1, middle, high, first, last, tag)) {
        return false;
    }
    plan_bytes_tag left = bytes->tags[2 * node], right = bytes->tags[2 * node + 1];
    return left.identity == MIXED || !is_equal(left, right) || set_tag(bytes, node, left);
}

static size_t leaf_count(const plan_bytes *bytes) {
    size_t leaves = 1;
    while (leaves < bytes->bound_count) leaves *= 2;
    return leaves;
}

bool plan_bytes_write(plan_bytes *bytes, size_t first, size_t last, plan_bytes_tag tag) {
    return first >= last || write_node(bytes, 1, 0, leaf_count(bytes), first, last, tag);
}

static size_t differ_node(const plan_bytes *bytes, size_t node, size_t low, size_t high, size_t first,
                          size_t last, plan_bytes_tag tag, plan_bytes_tag *found) {
    if (last <= low || high <= first) return last;
    plan_bytes_tag own = bytes->tags[node];
    if (own.identity != MIXED) {
        if (own.identity && is_equal(own, tag)) return last;
        *found = own;
        return low > first ? low : first;
    }
    size_t middle = low + (high - low) / 2;
    size_t at = differ_node(bytes, 2 * node, low, middle, first, last, tag, found);
    return at < last ? at : differ_node(bytes, 2 * node + 1, middle, high, first, last, tag, found);
}

size_t plan_bytes_differ(const plan_bytes *bytes, size_t first, size_t last, plan_bytes_tag tag,
                         plan_bytes_tag *found) {
    return first >= last ? last : differ_node(bytes, 1, 0, leaf_count(bytes), first, last, tag, found);
}

plan_bytes_tag plan_bytes_at(const plan_bytes *bytes, size_t interval) {
    size_t node = 1, low = 0, high = leaf_count(bytes);
    while (bytes->tags[node].identity == MIXED) {
        const size_t middle = low + (high - low) / 2;
        node = 2 * node + (interval >= middle);
        if (interval >= middle) low = middle;
        else high = middle;
    }
    return bytes->tags[node];
}

size_t plan_bytes_mark(plan_bytes *bytes) {
    bytes->marks++;
    return bytes->journal_count;
}

void plan_bytes_take_back(plan_bytes *bytes, size_t mark) {
    while (bytes->journal_count > mark) {
        const plan_bytes_change *change = &bytes->journal[--bytes->journal_count];
        bytes->tags[change->node] = change->tag;
    }
    bytes->marks--;
}
