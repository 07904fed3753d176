/* overlaps.c: see overlaps.h. */
#include "passes/planners/overlaps.h"
#include <string.h>

bool planner_sort(uint32_t *order, size_t count, planner_less *less, const void *user, base_arena *arena) {
    uint32_t *from = order, *to = BASE_ARRAY(arena, uint32_t, count);
    if (!to) return false;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = start + 2 * width < count ? start + 2 * width : count;
            size_t a = start, b = middle;
            for (size_t k = start; k < end; k++) {
                bool left = a < middle && (b >= end || !less(user, from[b], from[a]));
                to[k] = left ? from[a++] : from[b++];
            }
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order) memcpy(order, from, count * sizeof *order);
    return true;
}

void planner_sort_keys(planner_key *keys, size_t count, planner_key *room) {
    size_t differ = 0;
    bool sorted = true;
    for (size_t i = 1; i < count; i++) {
        differ |= keys[i].offset ^ keys[i - 1].offset;
        sorted &= keys[i].offset >= keys[i - 1].offset;
    }
    planner_key *from = keys, *to = room;
    for (unsigned shift = 0; !sorted && shift < sizeof(size_t) * 8; shift += 8) {
        size_t starts[257] = {0};
        if (!(differ >> shift & 255)) continue;
        for (size_t i = 0; i < count; i++) starts[(from[i].offset >> shift & 255) + 1]++;
        for (size_t b = 0; b < 256; b++) starts[b + 1] += starts[b];
        for (size_t i = 0; i < count; i++) to[starts[from[i].offset >> shift & 255]++] = from[i];
        planner_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys) memcpy(keys, from, count * sizeof *keys);
}

static bool earlier(const void *user, uint32_t a, uint32_t b) {
    const planner_buffer *buffers = user;
    return buffers[a].first < buffers[b].first;
}

bool planner_overlaps_init(planner_overlaps *overlaps, const planner_problem *problem, base_arena *arena) {
    size_t count = problem->buffer_count;
    *overlaps = (planner_overlaps){.problem = problem, .leaves = 1};
    overlaps->placed = BASE_ARRAY(arena, bool, count + 1);
    overlaps->found = BASE_ARRAY(arena, uint32_t, count + 1);
    overlaps->keys = BASE_ARRAY(arena, planner_key, count + 1);
    if (!overlaps->placed || !overlaps->found || !overlaps->keys) return false;
    if (problem->starts) return true;
    while (overlaps->leaves * PLANNER_BUCKET < count) overlaps->leaves *= 2;
    size_t room = overlaps->leaves * PLANNER_BUCKET;
    overlaps->order = BASE_ARRAY(arena, uint32_t, count + 1);
    overlaps->position = BASE_ARRAY(arena, uint32_t, count + 1);
    overlaps->first = BASE_ARRAY(arena, int64_t, room);
    overlaps->last = BASE_ARRAY(arena, int64_t, room);
    overlaps->latest = BASE_ARRAY(arena, int64_t, 2 * overlaps->leaves);
    if (!overlaps->order || !overlaps->position || !overlaps->latest || !overlaps->first || !overlaps->last)
        return false;
    for (size_t i = 0; i < count; i++) overlaps->order[i] = (uint32_t)i;
    if (!planner_sort(overlaps->order, count, earlier, problem->buffers, arena)) return false;
    for (size_t i = 0; i < count; i++) {
        overlaps->position[overlaps->order[i]] = (uint32_t)i;
        overlaps->first[i] = problem->buffers[overlaps->order[i]].first;
    }
    for (size_t i = 0; i < room; i++) overlaps->last[i] = INT64_MIN;
    for (size_t i = 0; i < 2 * overlaps->leaves; i++) overlaps->latest[i] = INT64_MIN;
    return true;
}

static void set_last(planner_overlaps *overlaps, uint32_t buffer, int64_t last) {
    if (!overlaps->latest) return;
    size_t at = overlaps->position[buffer], bucket = at / PLANNER_BUCKET;
    int64_t largest = last, before = overlaps->last[at];
    overlaps->last[at] = last;
    at = overlaps->leaves + bucket;
    if (last < before && before == overlaps->latest[at]) { /* it may have been the largest of its bucket */
        for (size_t i = bucket * PLANNER_BUCKET; i < (bucket + 1) * PLANNER_BUCKET; i++)
            if (overlaps->last[i] > largest) largest = overlaps->last[i];
    } else if (overlaps->latest[at] > largest) {
        return;
    }
    overlaps->latest[at] = largest;
    for (at /= 2; at > 0; at /= 2) {
        int64_t a = overlaps->latest[2 * at], b = overlaps->latest[2 * at + 1], larger = a > b ? a : b;
        if (overlaps->latest[at] == larger) break;
        overlaps->latest[at] = larger;
    }
}

void planner_overlaps_add(planner_overlaps *overlaps, uint32_t buffer) {
    overlaps->placed[buffer] = true;
    set_last(overlaps, buffer, overlaps->problem->buffers[buffer].last);
}

void planner_overlaps_remove(planner_overlaps *overlaps, uint32_t buffer) {
    overlaps->placed[buffer] = false;
    set_last(overlaps, buffer, INT64_MIN);
}

/* Walks the tree in order; the stack holds at most one node a level, beside the path. */
static size_t find_by_range(planner_overlaps *overlaps, uint32_t buffer) {
    const planner_buffer *buffers = overlaps->problem->buffers;
    const int64_t first = buffers[buffer].first, last = buffers[buffer].last;
    size_t count = 0, stack[130], depth = 0, n = overlaps->problem->buffer_count;
    if (n == 0) return 0;
    stack[depth++] = 1;
    while (depth > 0) {
        size_t at = stack[--depth];
        if (overlaps->latest[at] <= first) continue;
        if (at < overlaps->leaves) {
            /* The left half first: when its smallest first step is past the range, the right half's is too. */
            stack[depth++] = 2 * at + 1;
            stack[depth++] = 2 * at;
            continue;
        }
        size_t begin = (at - overlaps->leaves) * PLANNER_BUCKET, end = begin + PLANNER_BUCKET;
        if (end > n) end = n;
        if (begin >= n || overlaps->first[begin] >= last) break;
        for (size_t i = begin; i < end && overlaps->first[i] < last; i++) {
            /* Without a branch: which of them overlap cannot be foreseen. */
            overlaps->found[count] = overlaps->order[i];
            count += overlaps->last[i] > first && overlaps->order[i] != buffer;
        }
    }
    return count;
}

size_t planner_overlaps_find(planner_overlaps *overlaps, uint32_t buffer) {
    const planner_problem *problem = overlaps->problem;
    if (!problem->starts) return find_by_range(overlaps, buffer);
    size_t count = 0;
    for (size_t k = problem->starts[buffer]; k < problem->starts[buffer + 1]; k++) {
        if (overlaps->placed[problem->neighbours[k]]) overlaps->found[count++] = problem->neighbours[k];
    }
    return count;
}

static inline bool lower(planner_key a, planner_key b) {
    return a.offset != b.offset ? a.offset < b.offset : a.buffer < b.buffer;
}

static void sort_short(planner_key *items, size_t count) {
    for (size_t i = 1; i < count; i++) {
        planner_key item = items[i];
        size_t k = i;
        for (; k > 0 && lower(item, items[k - 1]); k--) items[k] = items[k - 1];
        items[k] = item;
    }
}

static void sift(planner_key *items, size_t at, size_t count) {
    planner_key item = items[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && lower(items[child], items[child + 1])) child++;
        if (!lower(item, items[child])) break;
        items[at] = items[child];
    }
    items[at] = item;
}

static void sort_heap(planner_key *items, size_t count) {
    for (size_t i = count / 2; i-- > 0;) sift(items, i, count);
    for (size_t end = count; end-- > 1;) {
        planner_key largest = items[0];
        items[0] = items[end];
        items[end] = largest;
        sift(items, 0, end);
    }
}

/* Quicksort on the middle element; where that splits badly too often, heapsort. This is where planners spend
 * their time. */
static void sort_by_offset(planner_key *items, size_t count, unsigned patience) {
    while (count > 16) {
        if (patience-- == 0) {
            sort_heap(items, count);
            return;
        }
        planner_key pivot = items[count / 2];
        size_t low = 0, high = count - 1;
        for (;;) {
            while (lower(items[low], pivot)) low++;
            while (lower(pivot, items[high])) high--;
            if (low >= high) break;
            planner_key swap = items[low];
            items[low++] = items[high];
            items[high--] = swap;
        }
        /* [0, low) is not above the pivot, [low, count) not below. */
        if (low < count - low) {
            sort_by_offset(items, low, patience);
            items += low;
            count -= low;
        } else {
            sort_by_offset(items + low, count - low, patience);
            count = low;
        }
    }
    sort_short(items, count);
}

/* Distributes keys over as many buckets as there are keys, by the leading bits of their offsets, and then sorts
 * what is almost sorted. False, and nothing done, where offsets crowd in few buckets. */
static bool distribute(const uint32_t *found, size_t count, const size_t *offsets, planner_key *keys) {
    enum { MOST = 1024, CROWDED = 24 };
    uint16_t starts[MOST + 1] = {0};
    size_t largest = 0, buckets = 64;
    unsigned shift = 0;
    if (count > 32 * MOST) return false;
    while (buckets < count && buckets < MOST) buckets *= 2;
    for (size_t i = 0; i < count; i++) largest = offsets[found[i]] > largest ? offsets[found[i]] : largest;
    while (largest >> shift >= buckets) shift++;
    for (size_t i = 0; i < count; i++) starts[(offsets[found[i]] >> shift) + 1]++;
    for (size_t b = 0; b < buckets; b++) {
        if (starts[b + 1] > CROWDED) return false;
        starts[b + 1] = (uint16_t)(starts[b + 1] + starts[b]);
    }
    for (size_t i = 0; i < count; i++) {
        size_t offset = offsets[found[i]];
        keys[starts[offset >> shift]++] = (planner_key){offset, found[i]};
    }
    sort_short(keys, count);
    return true;
}

size_t planner_overlaps_sorted(planner_overlaps *overlaps, uint32_t buffer, const size_t *offsets) {
    size_t count = planner_overlaps_find(overlaps, buffer);
    unsigned patience = 2;
    for (size_t n = count; n > 1; n /= 2) patience += 2;
    /* Offsets stand beside the numbers while they are sorted: looking them up is what takes the time. */
    if (count < 48 || !distribute(overlaps->found, count, offsets, overlaps->keys)) {
        for (size_t i = 0; i < count; i++)
            overlaps->keys[i] = (planner_key){offsets[overlaps->found[i]], overlaps->found[i]};
        sort_by_offset(overlaps->keys, count, patience);
    }
    for (size_t i = 0; i < count; i++) overlaps->found[i] = overlaps->keys[i].buffer;
    return count;
}

bool planner_interfere(const planner_problem *problem, uint32_t a, uint32_t b) {
    if (!problem->starts) {
        return problem->buffers[a].first < problem->buffers[b].last &&
               problem->buffers[b].first < problem->buffers[a].last;
    }
    size_t low = problem->starts[a], high = problem->starts[a + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (problem->neighbours[middle] < b) low = middle + 1;
        else high = middle;
    }
    return low < problem->starts[a + 1] && problem->neighbours[low] == b;
}
