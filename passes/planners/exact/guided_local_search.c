/* guided_local_search.c: see guided_local_search.h.
 *
 * What is to become 0 is the weighted sum of overlaps: of two interfering buffers, how far one must be moved
 * until they are apart. A buffer that overlaps is moved to the best of the places where that sum can have a
 * minimum: on top of or right below one that it interferes with, at the bottom, at the capacity. When no buffer
 * can be moved for the better, the weights of the overlaps that are left grow, in proportion to their depth, and
 * what was a minimum no longer is one: a guided local search.
 *
 * All numbers are integers, so that the outcome is the same on every machine.
 */
#include "passes/planners/exact/guided_local_search.h"
#include "passes/planners/base/sorting.h"
#include <string.h>

/* Sums of weights times depths stay below 2^59. */
enum { WEIGHT = 16, HEAVIEST = 1 << 20, PAIRS = 1 << 22, BUFFERS = 1 << 13, CAPACITY = 1 << 26 };

struct guided_search {
    const skyline *sky;
    uint32_t count;
    int64_t capacity;
    int64_t *sizes, *places, *alignments;
    bool *pinned;
    uint32_t *starts, *others; /* those that interfere with b: others[starts[b] .. starts[b + 1]) */
    uint32_t *pairs;           /* beside others: the number of the pair */
    int64_t *weights;          /* by pair */
    uint32_t pair_count;
    int64_t *near_places, *near_sizes, *near_weights; /* of those that interfere with the one looked at */
    uint32_t *queue;                                  /* buffers that may overlap something */
    bool *queued;
    uint32_t queue_count;
    uint64_t random;
    planner_budget *budget;
    uint64_t work;
};

static uint64_t draw(guided_search *s) {
    return base_random(&s->random);
}

/* The budget is over, or the part of it that is for this run. */
static bool spend(guided_search *s, uint64_t cost) {
    if (s->work <= cost || budget_spend(s->budget, cost)) return true;
    s->work -= cost;
    return false;
}

/* ---- pairs --------------------------------------------------------------------------------------------- */

static bool meet(const skyline *sky, uint32_t a, uint32_t b) {
    const skyline_item *i = &sky->items[a], *k = &sky->items[b];
    return i->size > 0 && k->size > 0 && i->first < k->last && k->first < i->last;
}

static uint32_t place_of(const guided_search *s, uint32_t b, uint32_t other) {
    uint32_t low = s->starts[b], high = s->starts[b + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->others[middle] < other) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool list_pairs(guided_search *s, base_arena *arena) {
    size_t entries = 0;
    for (uint32_t b = 0; b < s->count; b++) {
        s->starts[b] = (uint32_t)entries;
        for (uint32_t other = 0; other < s->count; other++) entries += other != b && meet(s->sky, b, other);
        if (entries > 2 * (size_t)PAIRS) return false;
    }
    s->starts[s->count] = (uint32_t)entries;
    s->others = BASE_ARRAY(arena, uint32_t, entries);
    s->pairs = BASE_ARRAY(arena, uint32_t, entries);
    s->weights = BASE_ARRAY(arena, int64_t, entries / 2);
    if (!s->others || !s->pairs || !s->weights) return false;
    size_t at = 0;
    for (uint32_t b = 0; b < s->count; b++) {
        for (uint32_t other = 0; other < s->count; other++) {
            if (other != b && meet(s->sky, b, other)) s->others[at++] = other;
        }
    }
    for (uint32_t b = 0; b < s->count; b++) {
        for (uint32_t k = s->starts[b]; k < s->starts[b + 1]; k++) {
            if (s->others[k] < b) continue;
            s->pairs[place_of(s, s->others[k], b)] = s->pair_count;
            s->pairs[k] = s->pair_count++;
        }
    }
    return true;
}

guided_search *guided_search_new(const skyline *sky, planner_budget *budget, base_arena *arena) {
    if (sky->item_count > BUFFERS) return NULL;
    guided_search *s = BASE_ARRAY(arena, guided_search, 1);
    if (!s) return NULL;
    uint32_t n = sky->item_count;
    *s = (guided_search){.sky = sky, .count = n, .budget = budget};
    s->sizes = BASE_ARRAY(arena, int64_t, n);
    s->places = BASE_ARRAY(arena, int64_t, n);
    s->alignments = BASE_ARRAY(arena, int64_t, n);
    s->pinned = BASE_ARRAY(arena, bool, n);
    s->starts = BASE_ARRAY(arena, uint32_t, (size_t)n + 1);
    s->near_places = BASE_ARRAY(arena, int64_t, n);
    s->near_sizes = BASE_ARRAY(arena, int64_t, n);
    s->near_weights = BASE_ARRAY(arena, int64_t, n);
    s->queue = BASE_ARRAY(arena, uint32_t, n);
    s->queued = BASE_ARRAY(arena, bool, n);
    if (!s->sizes || !s->places || !s->alignments || !s->pinned || !s->starts || !s->near_places ||
        !s->near_sizes || !s->near_weights || !s->queue || !s->queued || !list_pairs(s, arena))
        return NULL;
    for (uint32_t b = 0; b < n; b++) {
        const skyline_item *i = &sky->items[b];
        s->sizes[b] = i->size;
        s->alignments[b] = i->alignment;
        s->pinned[b] = i->fixed != SKYLINE_NEVER || i->size == 0;
    }
    return s;
}

/* ---- overlaps ------------------------------------------------------------------------------------------ */

static void enqueue(guided_search *s, uint32_t b) {
    if (s->queued[b] || s->pinned[b]) return;
    s->queued[b] = true;
    s->queue[s->queue_count++] = b;
}

/* How far one of two must be moved until they are apart; 0 or less: they are. */
static int64_t depth_of(int64_t a, int64_t a_size, int64_t b, int64_t b_size) {
    int64_t down = a + a_size - b, up = b + b_size - a;
    return down < up ? down : up;
}

/* The weighted overlaps of a buffer of this size at this place; no more than `limit` is of interest. */
static int64_t cost_at(const guided_search *s, uint32_t count, int64_t place, int64_t size, int64_t limit) {
    int64_t sum = 0;
    for (uint32_t k = 0; k < count && sum <= limit; k++) {
        int64_t depth = depth_of(place, size, s->near_places[k], s->near_sizes[k]);
        if (depth > 0) sum += s->near_weights[k] * depth;
    }
    return sum;
}

/* Moves b to the best place; ties: any of them. */
static void move_to_best(guided_search *s, uint32_t b) {
    uint32_t count = s->starts[b + 1] - s->starts[b], ties = 1;
    const uint32_t *others = &s->others[s->starts[b]];
    for (uint32_t k = 0; k < count; k++) {
        s->near_places[k] = s->places[others[k]];
        s->near_sizes[k] = s->sizes[others[k]];
        s->near_weights[k] = s->weights[s->pairs[s->starts[b] + k]];
    }
    int64_t size = s->sizes[b], align = s->alignments[b], highest = s->capacity - size;
    int64_t before = cost_at(s, count, s->places[b], size, INT64_MAX), least = before, best = s->places[b];
    if (before == 0) return;
    for (uint32_t c = 0; c < 2 * count + 2; c++) {
        int64_t place;
        if (c == 0) place = 0;
        else if (c == 1) place = highest - highest % align;
        else if (c % 2)
            place = (s->near_places[c / 2 - 1] + s->near_sizes[c / 2 - 1] + align - 1) / align * align;
        else place = s->near_places[c / 2 - 1] - size;
        if (place < 0 || place > highest) continue;
        place -= place % align;
        if (place == best) continue;
        int64_t cost = cost_at(s, count, place, size, least);
        if (cost < least) {
            least = cost;
            best = place;
            ties = 1;
        } else if (cost == least && least < before && draw(s) % ++ties == 0) {
            best = place;
        }
    }
    if (least == before) return;
    s->places[b] = best;
    for (uint32_t k = 0; k < count; k++) {
        if (depth_of(best, size, s->near_places[k], s->near_sizes[k]) > 0) enqueue(s, others[k]);
    }
    if (least > 0) enqueue(s, b);
}

/* Every overlap weighs more now. False: there is none. */
static bool weigh(guided_search *s) {
    int64_t deepest = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t b = 0; b < s->count; b++) {
            for (uint32_t k = s->starts[b]; k < s->starts[b + 1]; k++) {
                uint32_t other = s->others[k];
                if (other < b) continue;
                int64_t depth = depth_of(s->places[b], s->sizes[b], s->places[other], s->sizes[other]);
                if (depth <= 0) continue;
                if (pass == 0) {
                    if (depth > deepest) deepest = depth;
                    continue;
                }
                int64_t *weight = &s->weights[s->pairs[k]];
                if (*weight < HEAVIEST) *weight += 1 + (WEIGHT - 1) * depth / deepest;
                enqueue(s, b);
                enqueue(s, other);
            }
        }
        if (deepest == 0) return false;
    }
    return true;
}

bool guided_search_run(guided_search *s, size_t capacity, uint64_t seed, uint64_t work, size_t *offsets) {
    if (capacity > CAPACITY) return false;
    s->capacity = (int64_t)capacity;
    s->random = seed;
    s->work = work;
    s->queue_count = 0;
    memset(s->queued, 0, s->count * sizeof *s->queued);
    for (uint32_t k = 0; k < s->pair_count; k++) s->weights[k] = WEIGHT;
    for (uint32_t b = 0; b < s->count; b++) {
        int64_t place = (int64_t)offsets[b];
        if (s->sizes[b] > 0 &&
            (s->sizes[b] > s->capacity || (s->pinned[b] && place + s->sizes[b] > s->capacity)))
            return false;
        if (!s->pinned[b] && place > s->capacity - s->sizes[b]) {
            place = (int64_t)(draw(s) % (uint64_t)(s->capacity - s->sizes[b] + 1));
            place -= place % s->alignments[b];
        }
        s->places[b] = place;
    }
    for (uint32_t b = 0; b < s->count; b++) enqueue(s, b);
    for (;;) {
        if (s->queue_count == 0) {
            if (spend(s, 1 + s->pair_count / 256)) return false;
            if (!weigh(s)) break;
            if (s->queue_count == 0) return false; /* pinned buffers only: nothing can be moved */
        }
        uint32_t at = (uint32_t)(draw(s) % s->queue_count), b = s->queue[at];
        uint64_t near = s->starts[b + 1] - s->starts[b];
        if (spend(s, 1 + near * near / 2048)) return false;
        s->queue[at] = s->queue[--s->queue_count];
        s->queued[b] = false;
        move_to_best(s, b);
    }
    for (uint32_t b = 0; b < s->count; b++) {
        if (!s->pinned[b]) offsets[b] = (size_t)s->places[b];
    }
    return true;
}
