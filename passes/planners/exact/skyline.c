/* SPDX-License-Identifier: Apache-2.0 */
/* skyline.c: see skyline.h. */
#include "passes/planners/exact/skyline.h"
#include "passes/planners/base/sorting.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PINS = 1 << 20 }; /* pairs of a fixed buffer and another one */

/* ---- sections ------------------------------------------------------------------------------------------ */

static int compare_times(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Sections are the maximal sets of buffers that are live together. Such a set is complete when a life ends
 * after another one began. Gives the times at which they end, in order, and their number. */
static uint32_t find_sections(const planner_problem *problem, int64_t *begins, int64_t *ends,
                              int64_t *closed) {
    uint32_t count = 0, sections = 0, began = 0, seen = 0;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        if (problem->buffers[b].size == 0) continue;
        begins[count] = problem->buffers[b].first;
        ends[count++] = problem->buffers[b].last;
    }
    if (count == 0) return 0;
    qsort(begins, count, sizeof *begins, compare_times);
    qsort(ends, count, sizeof *ends, compare_times);
    for (uint32_t i = 0; i < count; i++) {
        while (began < count && begins[began] < ends[i]) began++;
        if (began > seen) closed[sections++] = ends[i];
        seen = began;
    }
    return sections;
}

/* How many sections end by this time. */
static uint32_t count_sections(const int64_t *closed, uint32_t count, int64_t time) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (closed[middle] <= time) low = middle + 1;
        else high = middle;
    }
    return low;
}

typedef struct equal_key {
    uint32_t first, last, index;
    int32_t size, alignment, fixed;
} equal_key;

static int compare_equal(const void *left, const void *right) {
    const equal_key *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    if (a->last != b->last) return a->last < b->last ? -1 : 1;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    if (a->alignment != b->alignment) return a->alignment < b->alignment ? -1 : 1;
    if (a->fixed != b->fixed) return a->fixed < b->fixed ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

/* Equal buffers are interchangeable: a solution with them in another order is the same solution. */
static bool find_equal(skyline *s) {
    equal_key *keys = BASE_ARRAY(s->arena, equal_key, s->item_count);
    if (!keys) return false;
    for (uint32_t b = 0; b < s->item_count; b++) {
        const skyline_item *i = &s->items[b];
        keys[b] = (equal_key){i->first, i->last, b, i->size, i->alignment, i->fixed};
    }
    qsort(keys, s->item_count, sizeof *keys, compare_equal);
    for (uint32_t k = 1; k < s->item_count; k++) {
        const equal_key *a = &keys[k - 1], *b = &keys[k];
        if (a->first == b->first && a->last == b->last && a->size == b->size &&
            a->alignment == b->alignment && a->fixed == b->fixed && a->size > 0) {
            s->items[b->index].equal = a->index;
            for (uint32_t section = a->first; section < a->last; section++) s->has_equal[section] = true;
        }
    }
    return true;
}

static int compare_pins(const void *left, const void *right) {
    const skyline_pin *a = left, *b = right;
    return a->low != b->low ? (a->low > b->low) - (a->low < b->low)
                            : (a->high > b->high) - (a->high < b->high);
}

/* By buffer, the fixed ones that it interferes with, the lowest first. Where these are very many, inference goes
 * without. */
static bool find_pins(skyline *s) {
    uint32_t *fixed = BASE_ARRAY(s->arena, uint32_t, s->item_count);
    if (!fixed) return false;
    uint32_t fixed_count = 0;
    for (uint32_t b = 0; b < s->item_count; b++) {
        if (s->items[b].fixed != SKYLINE_NEVER && s->items[b].size > 0) fixed[fixed_count++] = b;
    }
    if ((uint64_t)fixed_count * s->item_count > PINS) return true;
    size_t count = 0;
    s->pins = BASE_ARRAY(s->arena, skyline_pin, (size_t)fixed_count * s->item_count);
    if (!s->pins) return false;
    for (uint32_t b = 0; b < s->item_count; b++) {
        skyline_item *i = &s->items[b];
        if (i->fixed != SKYLINE_NEVER) continue;
        i->pins = (uint32_t)count;
        for (uint32_t f = 0; f < fixed_count; f++) {
            const skyline_item *pin = &s->items[fixed[f]];
            if (i->first < pin->last && pin->first < i->last)
                s->pins[count++] = (skyline_pin){pin->fixed, pin->fixed + pin->size};
        }
        i->pin_count = (uint32_t)count - i->pins;
        if (i->pin_count) qsort(&s->pins[i->pins], i->pin_count, sizeof *s->pins, compare_pins);
    }
    return true;
}

/* Buffers in units of 32 bits, their sections, and the sums of these. False: too large. */
static bool fill_items(skyline *s, const planner_problem *problem, const int64_t *closed) {
    const uint32_t m = s->section_count;
    for (uint32_t b = 0; b < s->item_count; b++) {
        const planner_buffer *from = &problem->buffers[b];
        const bool pinned = from->fixed != PLANNER_NOT_FIXED;
        if (from->size > SKYLINE_MOST || (pinned && from->fixed > SKYLINE_MOST - from->size)) return false;
        /* With the largest there is no other place than 0. */
        const size_t alignment = from->alignment < SKYLINE_MOST ? from->alignment : SKYLINE_MOST;
        skyline_item *i = &s->items[b];
        *i = (skyline_item){.size = (int32_t)from->size,
                            .alignment = alignment ? (int32_t)alignment : 1,
                            .fixed = pinned ? (int32_t)from->fixed : SKYLINE_NEVER,
                            .first = count_sections(closed, m, from->first),
                            .last = count_sections(closed, m, from->last),
                            .equal = SKYLINE_NONE};
        s->placed[b] = i->size == 0;
        if (i->size == 0) {
            s->offsets[b] = pinned ? from->fixed : 0;
            continue;
        }
        if (i->alignment > s->most_alignment) s->most_alignment = i->alignment;
        for (uint32_t k = i->first; k < i->last; k++) {
            if (from->size > SKYLINE_MOST - (size_t)s->to_come[k]) return false;
            s->to_come[k] += i->size;
            s->left[k]++;
            if (k > i->first) s->spans[k]++;
        }
        s->keys[b] = planner_mix(b + 1);
        s->sets[i->first] += s->keys[b];
    }
    return true;
}

/* Every buffer stands in every section of its life. False: memory runs out, or there are too many entries. */
static bool fill_entries(skyline *s) {
    const uint32_t m = s->section_count;
    size_t entry_count = 0, cover_count = 0, widest = 0;
    for (uint32_t k = 0; k < m; k++) {
        const size_t entries = (s->left[k] + SKYLINE_LANES - 1) / SKYLINE_LANES * SKYLINE_LANES;
        s->cover_starts[k] = (uint32_t)entry_count;
        entry_count += entries;
        cover_count += s->left[k];
        widest = entries > widest ? entries : widest;
        s->too_large = entry_count > SKYLINE_COVERS;
        if (s->too_large) return false;
    }
    s->cover_starts[m] = (uint32_t)entry_count;
    s->covers = BASE_ARRAY(s->arena, uint32_t, entry_count);
    s->entries = BASE_ARRAY(s->arena, uint32_t, cover_count);
    s->starts = BASE_ARRAY(s->arena, int32_t, entry_count);
    s->sizes = BASE_ARRAY(s->arena, int32_t, entry_count);
    s->firsts = BASE_ARRAY(s->arena, uint32_t, entry_count);
    s->lasts = BASE_ARRAY(s->arena, uint32_t, entry_count);
    s->levels = BASE_ARRAY(s->arena, int32_t, widest);
    uint32_t *fill = BASE_ARRAY(s->arena, uint32_t, m);
    if (!s->covers || !s->entries || !s->starts || !s->sizes || !s->firsts || !s->lasts || !s->levels ||
        !fill)
        return false;
    for (size_t c = 0; c < entry_count; c++) {
        s->covers[c] = SKYLINE_NONE;
        s->starts[c] = SKYLINE_NEVER;
    }
    uint32_t next = 0;
    for (uint32_t b = 0; b < s->item_count; b++) {
        const skyline_item *i = &s->items[b];
        s->entry_starts[b] = next;
        if (s->placed[b]) continue;
        for (uint32_t k = i->first; k < i->last; k++) {
            const uint32_t entry = s->cover_starts[k] + fill[k]++;
            s->covers[entry] = b;
            s->starts[entry] = 0;
            s->sizes[entry] = i->size;
            s->firsts[entry] = i->first;
            s->lasts[entry] = i->last;
            s->entries[next++] = entry;
        }
    }
    return true;
}

static bool queue_init(skyline_queue *queue, uint32_t section_count, base_arena *arena) {
    queue->sections = BASE_ARRAY(arena, uint32_t, section_count);
    queue->holds = BASE_ARRAY(arena, bool, section_count);
    return queue->sections && queue->holds;
}

bool exact_skyline_init(skyline *s, const planner_problem *problem, base_arena *arena) {
    *s = (skyline){.arena = arena, .item_count = (uint32_t)problem->buffer_count, .most_alignment = 1};
    uint32_t n = s->item_count;
    int64_t *begins = BASE_ARRAY(arena, int64_t, n), *ends = BASE_ARRAY(arena, int64_t, n);
    int64_t *closed = BASE_ARRAY(arena, int64_t, n);
    s->items = BASE_ARRAY(arena, skyline_item, n);
    s->start = BASE_ARRAY(arena, int32_t, n);
    s->placed = BASE_ARRAY(arena, bool, n);
    s->offsets = BASE_ARRAY(arena, size_t, n);
    if (!begins || !ends || !closed || !s->items || !s->start || !s->placed || !s->offsets) return false;
    s->section_count = find_sections(problem, begins, ends, closed);
    uint32_t m = s->section_count;
    s->cover_starts = BASE_ARRAY(arena, uint32_t, (size_t)m + 1);
    s->floor = BASE_ARRAY(arena, int32_t, m);
    s->top = BASE_ARRAY(arena, int32_t, m);
    s->lifts = BASE_ARRAY(arena, int32_t, m);
    s->to_come = BASE_ARRAY(arena, int32_t, m);
    s->reach = BASE_ARRAY(arena, int32_t, m);
    s->left = BASE_ARRAY(arena, uint32_t, m);
    s->lowest = BASE_ARRAY(arena, uint32_t, m);
    s->spans = BASE_ARRAY(arena, uint32_t, (size_t)m + 1);
    s->fits = BASE_ARRAY(arena, uint32_t, m);
    s->known = BASE_ARRAY(arena, bool, m);
    s->has_equal = BASE_ARRAY(arena, bool, m);
    s->sets = BASE_ARRAY(arena, uint64_t, m);
    s->keys = BASE_ARRAY(arena, uint64_t, n);
    s->entry_starts = BASE_ARRAY(arena, uint32_t, n);
    if (!s->cover_starts || !s->floor || !s->top || !s->lifts || !s->to_come || !s->reach || !s->left ||
        !s->lowest || !s->spans || !s->fits || !s->known || !s->has_equal || !s->sets || !s->keys ||
        !s->entry_starts || !queue_init(&s->to_follow, m, arena) || !queue_init(&s->to_check, m, arena))
        return false;
    s->too_large = !fill_items(s, problem, closed);
    return !s->too_large && fill_entries(s) && find_equal(s) && find_pins(s);
}

void exact_skyline_free(skyline *s) {
    free(s->trail);
    s->trail = NULL;
    s->trail_capacity = s->trail_count = 0;
}

/* ---- questions for the buffers of a section ------------------------------------------------------------- */

enum { LANES = 4 };
static_assert(SKYLINE_LANES % LANES == 0, "no vector ends after a section");
typedef int32_t lanes __attribute__((vector_size(LANES * sizeof(int32_t)), may_alias, aligned(4)));

static bool any(lanes found) {
    int64_t halves[2];
    memcpy(halves, &found, sizeof halves);
    return halves[0] | halves[1];
}

static int32_t least_lane(lanes v) {
    int32_t least = v[0];
    for (int i = 1; i < LANES; i++) least = v[i] < least ? v[i] : least;
    return least;
}

static lanes lower_of(lanes a, lanes b) {
    const lanes lower = a < b;
    return (a & lower) | (b & ~lower);
}

static const lanes never = {SKYLINE_NEVER, SKYLINE_NEVER, SKYLINE_NEVER, SKYLINE_NEVER};

/* The least start, and how many buffers start at a level. */
static int32_t least_start(const skyline *s, uint32_t k, int32_t level, uint32_t *at_level) {
    lanes least = never, count = {0};
    for (uint32_t c = s->cover_starts[k]; c < s->cover_starts[k + 1]; c += LANES) {
        const lanes starts = *(const lanes *)&s->starts[c];
        least = lower_of(starts, least);
        count -= starts == level;
    }
    *at_level = (uint32_t)(count[0] + count[1] + count[2] + count[3]);
    return least_lane(least);
}

/* The lowest end of those that are over before a section, or begin after it. */
static int32_t least_end_before(const skyline *s, uint32_t k, uint32_t section) {
    lanes least = never;
    for (uint32_t c = s->cover_starts[k]; c < s->cover_starts[k + 1]; c += LANES) {
        const lanes ends = *(const lanes *)&s->starts[c] + *(const lanes *)&s->sizes[c],
                    other = *(const lanes *)&s->lasts[c] > (int32_t)section;
        least = lower_of(ends | (other & never), least);
    }
    return least_lane(least);
}

static int32_t least_end_after(const skyline *s, uint32_t k, uint32_t section) {
    lanes least = never;
    for (uint32_t c = s->cover_starts[k]; c < s->cover_starts[k + 1]; c += LANES) {
        const lanes ends = *(const lanes *)&s->starts[c] + *(const lanes *)&s->sizes[c],
                    other = *(const lanes *)&s->firsts[c] <= (int32_t)section;
        least = lower_of(ends | (other & never), least);
    }
    return least_lane(least);
}

/* The first entry from c on, of LANES each, with a buffer that starts below a level; `end` where there is none. */
static uint32_t find_below(const skyline *s, uint32_t c, uint32_t end, int32_t level) {
    for (; c < end; c += LANES) {
        const lanes found = *(const lanes *)&s->starts[c] < level;
        if (any(found)) break;
    }
    return c;
}

/* The same for those that start at it. */
static uint32_t find_at(const skyline *s, uint32_t c, uint32_t end, int32_t level) {
    for (; c < end; c += LANES) {
        const lanes found = *(const lanes *)&s->starts[c] == level;
        if (any(found)) break;
    }
    return c;
}

/* The sizes of those that start above a level. */
static int32_t sizes_above(const skyline *s, uint32_t k, int32_t level) {
    lanes sum = {0};
    for (uint32_t c = s->cover_starts[k]; c < s->cover_starts[k + 1]; c += LANES)
        sum += *(const lanes *)&s->sizes[c] & (*(const lanes *)&s->starts[c] > level);
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* ---- changes, undone when a branch ends ---------------------------------------------------------------- */

static bool remember(skyline *s, skyline_change change) {
    if (s->trail_count == s->trail_capacity) {
        size_t capacity = s->trail_capacity ? 2 * s->trail_capacity : 4096;
        skyline_change *grown = realloc(s->trail, capacity * sizeof *grown);
        if (!grown) {
            s->out_of_memory = true;
            return false;
        }
        s->trail = grown;
        s->trail_capacity = capacity;
    }
    s->trail[s->trail_count++] = change;
    return true;
}

static void enqueue(skyline_queue *queue, uint32_t section) {
    if (queue->holds[section]) return;
    queue->holds[section] = true;
    queue->sections[queue->count++] = section;
}

static uint32_t dequeue(skyline_queue *queue) {
    const uint32_t section = queue->sections[--queue->count];
    queue->holds[section] = false;
    return section;
}

/* Takes b out of its sections, or puts it back. */
static void set_placed(skyline *s, uint32_t b, bool placed) {
    const skyline_item *i = &s->items[b];
    const uint32_t *entries = &s->entries[s->entry_starts[b]], last = i->last;
    const int32_t start = placed ? SKYLINE_NEVER : s->start[b], size = placed ? 0 : i->size,
                  more_reach = placed ? i->size : -i->size;
    const uint32_t more_left = placed ? -1u : 1u;
    int32_t *starts = s->starts, *sizes = s->sizes, *reach = s->reach;
    uint32_t *left = s->left, *spans = s->spans;
    bool *known = s->known;
    s->placed[b] = placed;
    s->sets[i->first] += placed ? -s->keys[b] : s->keys[b];
    spans[i->first] -= more_left; /* it does not cover the section before */
    for (uint32_t k = i->first; k < last; k++) {
        const uint32_t entry = *entries++;
        starts[entry] = start;
        sizes[entry] = size;
        reach[k] += more_reach;
        left[k] += more_left;
        spans[k] += more_left;
        known[k] = false;
    }
}

/* The lowest offset from `offset` on at which b may lie: aligned, clear of the fixed buffers that it interferes
 * with. */
static int32_t lowest_allowed(const skyline *s, uint32_t b, int32_t offset) {
    const skyline_item *i = &s->items[b];
    if (i->fixed != SKYLINE_NEVER) return offset <= i->fixed ? i->fixed : SKYLINE_NEVER;
    const uint32_t mask = (uint32_t)i->alignment - 1;
    uint32_t at = ((uint32_t)offset + mask) & ~mask; /* both are at most SKYLINE_MOST */
    for (uint32_t p = i->pins; p < i->pins + i->pin_count; p++) {
        const uint32_t low = (uint32_t)s->pins[p].low, high = (uint32_t)s->pins[p].high;
        if (high <= at) continue;
        if (low >= at && low - at >= (uint32_t)i->size) break;
        at = (high + mask) & ~mask;
    }
    return at <= SKYLINE_MOST ? (int32_t)at : SKYLINE_NEVER;
}

/* b, put down on this top, lies at its start. */
static bool carries(const skyline *s, int32_t top, uint32_t b) {
    return top <= s->start[b] && s->start[b] - top < s->items[b].alignment;
}

/* What the top of b carries, or no longer carries, fits in those sections whose floor it starts at. */
static void forget_carried(skyline *s, uint32_t b) {
    const int32_t top = s->start[b] + s->items[b].size, *floor = s->floor;
    const uint32_t most_alignment = (uint32_t)s->most_alignment, count = s->section_count;
    bool *known = s->known;
    for (uint32_t k = 0; k < count; k++) known[k] &= (uint32_t)floor[k] - (uint32_t)top >= most_alignment;
}

static void undo_start(skyline *s, uint32_t b, int32_t before) {
    const skyline_item *i = &s->items[b];
    const uint32_t *entries = &s->entries[s->entry_starts[b]];
    int32_t *starts = s->starts;
    const int32_t *floor = s->floor;
    uint32_t *lowest = s->lowest;
    bool *known = s->known;
    s->start[b] = before;
    for (uint32_t k = i->first, last = i->last; k < last; k++) {
        const bool is_lowest = before == floor[k];
        starts[*entries++] = before;
        known[k] &= !is_lowest;
        lowest[k] += is_lowest;
    }
}

void exact_skyline_undo(skyline *s, size_t mark) {
    while (s->trail_count > mark) {
        const skyline_change *c = &s->trail[--s->trail_count];
        if (c->what == SKYLINE_TOP) {
            s->top[c->index] = c->before;
        } else if (c->what == SKYLINE_FLOOR) {
            s->floor[c->index] = c->before;
            s->lowest[c->index] = c->lowest;
            s->known[c->index] = false;
        } else if (c->what == SKYLINE_START) {
            undo_start(s, c->index, c->before);
        } else {
            set_placed(s, c->index, false);
            forget_carried(s, c->index);
        }
    }
}

/* ---- inference ----------------------------------------------------------------------------------------- */

static void clear_queues(skyline *s) {
    while (s->to_follow.count > 0) dequeue(&s->to_follow);
    while (s->to_check.count > 0) dequeue(&s->to_check);
}

/* A section is looked at again where b was the last one that kept the floor down, or is too high now to lie below all
 * others to come. */
static bool set_start(skyline *s, uint32_t b, int32_t start) {
    const skyline_item *i = &s->items[b];
    const uint32_t *entries = &s->entries[s->entry_starts[b]];
    const int32_t before = s->start[b];
    if (!remember(s, (skyline_change){.what = SKYLINE_START, .index = b, .before = before})) return false;
    s->start[b] = start;
    /* Without branches, where nobody could guess them. */
    int32_t *starts = s->starts;
    const int32_t *floor = s->floor, *reach = s->reach;
    uint32_t *lowest = s->lowest;
    bool *known = s->known;
    for (uint32_t k = i->first, last = i->last; k < last; k++) {
        const bool was_lowest = before == floor[k];
        starts[*entries++] = start;
        known[k] &= !was_lowest;
        lowest[k] -= was_lowest;
        if (was_lowest & (lowest[k] == 0)) enqueue(&s->to_follow, k);
        if (start > reach[k]) enqueue(&s->to_check, k);
    }
    return true;
}

static bool set_floor(skyline *s, uint32_t k, int32_t floor) {
    if (!remember(s, (skyline_change){SKYLINE_FLOOR, k, s->floor[k], s->lowest[k]})) return false;
    s->floor[k] = floor;
    s->known[k] = false;
    return true;
}

/* The starts of a section follow its floor, and the floor the least of them. False: no solution. */
static bool follow(skyline *s, uint32_t k) {
    const int32_t floor = s->floor[k], reach = s->reach[k];
    if (floor > reach) return false;
    uint32_t lowest;
    int32_t least = least_start(s, k, floor, &lowest);
    if (least < floor) {
        const uint32_t end = s->cover_starts[k + 1];
        for (uint32_t at = s->cover_starts[k]; (at = find_below(s, at, end, floor)) < end; at += LANES) {
            for (uint32_t c = at; c < at + LANES; c++) {
                if (s->starts[c] >= floor) continue;
                const int32_t start = lowest_allowed(s, s->covers[c], floor);
                if (start > s->capacity - s->sizes[c] || !set_start(s, s->covers[c], start)) return false;
            }
        }
        least = least_start(s, k, floor, &lowest);
    }
    if (least > floor) {
        if (least > reach || !set_floor(s, k, least)) return false;
        least_start(s, k, least, &lowest);
    }
    s->lowest[k] = lowest;
    return true;
}

/* The buffers to come in a section, put one on another in the order of their starts, end within the capacity: the bound
 * of one machine with release dates. That is so where those that start above what the others reach are none. */
static bool check(const skyline *s, uint32_t k) {
    for (int32_t reach = s->reach[k];;) {
        const int32_t above = sizes_above(s, k, reach);
        if (above == 0) return true;
        if (s->capacity - above == reach) return false;
        reach = s->capacity - above;
    }
}

static bool propagate(skyline *s) {
    bool alive = true;
    while (alive && s->to_follow.count + s->to_check.count > 0) {
        if (s->to_follow.count > 0) {
            const uint32_t k = dequeue(&s->to_follow);
            alive = s->left[k] == 0 || follow(s, k);
        } else {
            alive = check(s, dequeue(&s->to_check));
        }
    }
    if (!alive) clear_queues(s);
    return alive;
}

static bool raise(skyline *s, uint32_t k, int32_t level) {
    if (!set_floor(s, k, level)) return false;
    enqueue(&s->to_follow, k);
    return true;
}

static bool carried(const skyline *s, uint32_t b) {
    const skyline_item *i = &s->items[b];
    const int32_t start = s->start[b];
    if (start == 0 || i->fixed != SKYLINE_NEVER) return true;
    for (uint32_t k = i->first; k < i->last; k++) {
        if (carries(s, s->top[k], b)) return true;
    }
    return false;
}

/* b, which starts at the floor of section k, could be placed there. */
static bool stands(const skyline *s, uint32_t b, uint32_t k) {
    return (s->items[b].equal == SKYLINE_NONE || s->placed[s->items[b].equal]) &&
           (s->top[k] == s->floor[k] || carried(s, b));
}

bool exact_skyline_fits(const skyline *s, uint32_t b, uint32_t k) {
    return !s->placed[b] && s->start[b] == s->floor[k] && stands(s, b, k);
}

uint32_t exact_skyline_count_fits(skyline *s, uint32_t k) {
    if (s->known[k]) return s->fits[k];
    const int32_t floor = s->floor[k];
    const uint32_t end = s->cover_starts[k + 1];
    uint32_t count = 0, rest = s->lowest[k];
    if (s->top[k] == floor && !s->has_equal[k]) { /* which carries them all */
        count = rest;
        rest = 0;
    }
    for (uint32_t at = s->cover_starts[k]; rest > 0 && (at = find_at(s, at, end, floor)) < end; at += LANES) {
        for (uint32_t c = at; c < at + LANES; c++) {
            if (s->starts[c] != floor) continue;
            count += stands(s, s->covers[c], k);
            rest--;
        }
    }
    s->known[k] = true;
    return s->fits[k] = count;
}

void exact_skyline_valley(const skyline *s, uint32_t k, uint32_t *first, uint32_t *last) {
    *first = k;
    *last = k + 1;
    while (*first > 0 && s->spans[*first] > 0 && s->floor[*first - 1] == s->floor[k]) --*first;
    while (*last < s->section_count && s->spans[*last] > 0 && s->floor[*last] == s->floor[k]) ++*last;
}

/* No buffer to come starts at the floor of section k, which lies in the valley [first, last): each that could
 * is lifted by one that does not cover k, or by one that does and is lifted itself. */
static bool lift(skyline *s, uint32_t k, uint32_t first, uint32_t last) {
    const int32_t floor = s->floor[k];
    int32_t least = SKYLINE_NEVER;
    for (uint32_t j = k; j-- > first;) {
        const int32_t end = least_end_before(s, j, k);
        s->lifts[j] = least = end < least ? end : least;
    }
    least = SKYLINE_NEVER;
    for (uint32_t j = k + 1; j < last; j++) {
        const int32_t end = least_end_after(s, j, k);
        s->lifts[j] = least = end < least ? end : least;
    }
    /* The lowest ends among those that cover k; one may not lift itself. */
    const uint32_t begin = s->cover_starts[k], end = s->cover_starts[k + 1];
    int32_t lowest = SKYLINE_NEVER, second = SKYLINE_NEVER, *levels = s->levels;
    uint32_t lowest_at = SKYLINE_NONE;
    for (uint32_t c = begin; c < end; c++) {
        levels[c - begin] = s->starts[c];
        if (s->starts[c] == floor) {
            int32_t by = SKYLINE_NEVER;
            if (s->firsts[c] < k) by = s->lifts[s->firsts[c]];
            if (s->lasts[c] > k + 1 && s->lifts[s->lasts[c] - 1] < by) by = s->lifts[s->lasts[c] - 1];
            levels[c - begin] = by == SKYLINE_NEVER ? by : lowest_allowed(s, s->covers[c], by);
        }
        if (levels[c - begin] > s->capacity) continue;
        const int32_t top = levels[c - begin] + s->sizes[c];
        if (top < lowest) {
            second = lowest;
            lowest = top;
            lowest_at = c;
        } else if (top < second) {
            second = top;
        }
    }
    for (uint32_t c = begin; c < end; c++) {
        if (s->starts[c] != floor) continue;
        const int32_t by = c == lowest_at ? second : lowest;
        int32_t level = by > s->capacity ? SKYLINE_NEVER : lowest_allowed(s, s->covers[c], by);
        if (levels[c - begin] < level) level = levels[c - begin];
        if (level > s->capacity - s->sizes[c] || !set_start(s, s->covers[c], level)) return false;
    }
    enqueue(&s->to_follow, k);
    return true;
}

/* A valley in which nothing can be put onto the floor fills up to its lower wall: the lowest buffer that comes
 * into it would be carried by nothing, unless it reaches beyond. The same for a single section, as far as
 * others could lift what comes there. */
static bool fill_valley(skyline *s, uint32_t first, uint32_t last, bool *changed) {
    uint32_t empty = SKYLINE_NONE, some = 0;
    for (uint32_t k = first; k < last; k++) {
        if (exact_skyline_count_fits(s, k) > 0) some++;
        else empty = k;
    }
    if (empty == SKYLINE_NONE) return true;
    *changed = true;
    if (some > 0) return lift(s, empty, first, last);
    int32_t level = SKYLINE_NEVER;
    if (first > 0 && s->spans[first] > 0) level = s->floor[first - 1];
    if (last < s->section_count && s->spans[last] > 0 && s->floor[last] < level) level = s->floor[last];
    for (uint32_t k = first; k < last; k++) {
        for (uint32_t c = s->cover_starts[k]; c < s->cover_starts[k + 1]; c++) {
            if (s->starts[c] < level && s->starts[c] > s->floor[k] && carried(s, s->covers[c]))
                level = s->starts[c];
        }
    }
    if (level > s->capacity) return false;
    /* Before anything is changed: most branches of a problem without slack end here. */
    for (uint32_t k = first; k < last; k++) {
        if (level > s->reach[k]) return false;
    }
    for (uint32_t k = first; k < last; k++) {
        if (!raise(s, k, level)) return false;
    }
    return true;
}

/* Inference until nothing changes. */
static bool infer(skyline *s) {
    bool changed = true;
    while (changed) {
        changed = false;
        if (!propagate(s)) return false;
        for (uint32_t k = 0, last; k < s->section_count && !changed; k = last) {
            last = k + 1;
            if (s->left[k] == 0) continue;
            while (last < s->section_count && s->spans[last] > 0 && s->floor[last] == s->floor[k]) last++;
            if (k > 0 && s->spans[k] > 0 && s->floor[k - 1] < s->floor[k]) continue;
            if (last < s->section_count && s->spans[last] > 0 && s->floor[last] < s->floor[k]) continue;
            if (!fill_valley(s, k, last, &changed)) {
                clear_queues(s);
                return false;
            }
        }
    }
    return true;
}

bool exact_skyline_begin(skyline *s, size_t capacity) {
    assert(capacity <= SKYLINE_MOST);
    s->capacity = (int32_t)capacity;
    for (uint32_t k = 0; k < s->section_count; k++) s->reach[k] = s->capacity - s->to_come[k];
    for (uint32_t b = 0; b < s->item_count; b++) {
        if (s->placed[b]) continue;
        const int32_t start = lowest_allowed(s, b, s->start[b]);
        if (start > s->capacity - s->items[b].size || (start != s->start[b] && !set_start(s, b, start))) {
            clear_queues(s);
            return false;
        }
    }
    for (uint32_t k = 0; k < s->section_count; k++) {
        enqueue(&s->to_follow, k);
        enqueue(&s->to_check, k);
    }
    return infer(s);
}

/* With b at its start a gap stays open below it that another buffer fits into. Moved there it would leave a
 * solution whose offsets have a smaller sum: the one with the smallest is not lost. */
static bool leaves_room(const skyline *s, uint32_t b) {
    const skyline_item *i = &s->items[b];
    const int32_t start = s->start[b];
    for (uint32_t k = i->first; k < i->last; k++) {
        if (s->top[k] == start) continue;
        for (uint32_t c = s->cover_starts[k]; c < s->cover_starts[k + 1]; c++) {
            if (s->firsts[c] != k || s->sizes[c] > start - s->top[k] || s->lasts[c] > i->last ||
                s->starts[c] == SKYLINE_NEVER)
                continue;
            const uint32_t other = s->covers[c];
            if (other == b || s->items[other].fixed != SKYLINE_NEVER) continue;
            int32_t top = 0;
            for (uint32_t j = k; j < s->lasts[c]; j++) top = s->top[j] > top ? s->top[j] : top;
            top = lowest_allowed(s, other, top);
            if (top <= start && s->sizes[c] <= start - top) return true;
        }
    }
    return false;
}

bool exact_skyline_place(skyline *s, uint32_t b) {
    const skyline_item *i = &s->items[b];
    if (leaves_room(s, b)) return false;
    if (!remember(s, (skyline_change){.what = SKYLINE_PLACED, .index = b})) return false;
    set_placed(s, b, true);
    s->offsets[b] = (size_t)s->start[b];
    forget_carried(s, b);
    const int32_t top = s->start[b] + i->size;
    for (uint32_t k = i->first; k < i->last; k++) {
        if (!remember(s, (skyline_change){.what = SKYLINE_TOP, .index = k, .before = s->top[k]}))
            return false;
        s->top[k] = top;
        if (!raise(s, k, top)) return false;
    }
    return infer(s);
}

bool exact_skyline_waste(skyline *s, uint32_t k) {
    uint32_t first, last;
    exact_skyline_valley(s, k, &first, &last);
    if (!lift(s, k, first, last)) {
        clear_queues(s);
        return false;
    }
    return infer(s);
}
