/* skyline.c: see skyline.h. */
#include "passes/planners/skyline.h"
#include "passes/planners/sorting.h"
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

typedef struct twin_key {
    uint32_t first, last, index;
    size_t size, alignment, fixed;
} twin_key;

static int compare_twins(const void *left, const void *right) {
    const twin_key *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    if (a->last != b->last) return a->last < b->last ? -1 : 1;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    if (a->alignment != b->alignment) return a->alignment < b->alignment ? -1 : 1;
    if (a->fixed != b->fixed) return a->fixed < b->fixed ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

/* Equal buffers are interchangeable: a solution with them in another order is the same solution. */
static bool find_twins(skyline *s) {
    twin_key *keys = BASE_ARRAY(s->arena, twin_key, s->item_count);
    if (!keys) return false;
    for (uint32_t b = 0; b < s->item_count; b++) {
        const skyline_item *i = &s->items[b];
        keys[b] = (twin_key){i->first, i->last, b, i->size, i->alignment, i->fixed};
    }
    qsort(keys, s->item_count, sizeof *keys, compare_twins);
    for (uint32_t k = 1; k < s->item_count; k++) {
        const twin_key *a = &keys[k - 1], *b = &keys[k];
        if (a->first == b->first && a->last == b->last && a->size == b->size &&
            a->alignment == b->alignment && a->fixed == b->fixed && a->size > 0) {
            s->items[b->index].twin = a->index;
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
        if (s->items[b].fixed != PLANNER_NOT_FIXED && s->items[b].size > 0) fixed[fixed_count++] = b;
    }
    if ((uint64_t)fixed_count * s->item_count > PINS) return true;
    size_t count = 0;
    s->pins = BASE_ARRAY(s->arena, skyline_pin, (size_t)fixed_count * s->item_count);
    if (!s->pins) return false;
    for (uint32_t b = 0; b < s->item_count; b++) {
        skyline_item *i = &s->items[b];
        if (i->fixed != PLANNER_NOT_FIXED) continue;
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

bool skyline_init(skyline *s, const planner_problem *problem, base_arena *arena) {
    *s = (skyline){.arena = arena, .item_count = (uint32_t)problem->buffer_count};
    uint32_t n = s->item_count;
    int64_t *begins = BASE_ARRAY(arena, int64_t, n), *ends = BASE_ARRAY(arena, int64_t, n);
    int64_t *closed = BASE_ARRAY(arena, int64_t, n);
    s->items = BASE_ARRAY(arena, skyline_item, n);
    s->start = BASE_ARRAY(arena, size_t, n);
    s->placed = BASE_ARRAY(arena, bool, n);
    s->offsets = BASE_ARRAY(arena, size_t, n);
    if (!begins || !ends || !closed || !s->items || !s->start || !s->placed || !s->offsets) return false;
    s->section_count = find_sections(problem, begins, ends, closed);
    uint32_t m = s->section_count;
    s->cover_starts = BASE_ARRAY(arena, uint32_t, (size_t)m + 1);
    s->floor = BASE_ARRAY(arena, size_t, m);
    s->top = BASE_ARRAY(arena, size_t, m);
    s->lifts = BASE_ARRAY(arena, size_t, m);
    s->levels = BASE_ARRAY(arena, size_t, n);
    s->to_come = BASE_ARRAY(arena, size_t, m);
    s->left = BASE_ARRAY(arena, uint32_t, m);
    s->spans = BASE_ARRAY(arena, uint32_t, (size_t)m + 1);
    s->queue = BASE_ARRAY(arena, uint32_t, m);
    s->queued = BASE_ARRAY(arena, bool, m);
    s->fits = BASE_ARRAY(arena, uint32_t, m);
    s->known = BASE_ARRAY(arena, bool, m);
    s->sets = BASE_ARRAY(arena, uint64_t, m);
    s->keys = BASE_ARRAY(arena, uint64_t, n);
    s->slot_starts = BASE_ARRAY(arena, uint32_t, n);
    if (!s->cover_starts || !s->floor || !s->top || !s->lifts || !s->levels || !s->to_come || !s->left ||
        !s->spans || !s->queue || !s->queued || !s->fits || !s->known || !s->sets || !s->keys ||
        !s->slot_starts)
        return false;

    size_t cover_count = 0;
    for (uint32_t b = 0; b < n; b++) {
        const planner_buffer *from = &problem->buffers[b];
        skyline_item *i = &s->items[b];
        *i = (skyline_item){.size = from->size,
                            .alignment = from->alignment ? from->alignment : 1,
                            .fixed = from->fixed,
                            .first = count_sections(closed, m, from->first),
                            .last = count_sections(closed, m, from->last),
                            .twin = SKYLINE_NONE};
        s->placed[b] = i->size == 0;
        if (i->size == 0) {
            s->offsets[b] = i->fixed == PLANNER_NOT_FIXED ? 0 : i->fixed;
            continue;
        }
        for (uint32_t k = i->first; k < i->last; k++) {
            if (!base_size_add(s->to_come[k], i->size, &s->to_come[k])) return false;
            s->left[k]++;
            if (k > i->first) s->spans[k]++;
        }
        s->keys[b] = planner_mix(b + 1);
        s->sets[i->first] += s->keys[b];
        if (cover_count <= UINT32_MAX) s->slot_starts[b] = (uint32_t)cover_count;
        cover_count += i->last - i->first;
    }
    s->too_large = cover_count > SKYLINE_COVERS;
    if (s->too_large) return false;
    s->covers = BASE_ARRAY(arena, uint32_t, cover_count);
    s->slots = BASE_ARRAY(arena, uint32_t, cover_count);
    s->above = BASE_ARRAY(arena, size_t, 2 * (size_t)n);
    uint32_t *fill = BASE_ARRAY(arena, uint32_t, m);
    if (!s->covers || !s->slots || !s->above || !fill) return false;
    for (uint32_t k = 0; k < m; k++) s->cover_starts[k + 1] = s->cover_starts[k] + s->left[k];
    for (uint32_t b = 0; b < n; b++) {
        if (s->placed[b]) continue;
        for (uint32_t k = s->items[b].first; k < s->items[b].last; k++) {
            uint32_t slot = s->cover_starts[k] + fill[k]++;
            s->covers[slot] = b;
            s->slots[s->slot_starts[b] + k - s->items[b].first] = slot;
        }
    }
    return find_twins(s) && find_pins(s);
}

void skyline_free(skyline *s) {
    free(s->trail);
    s->trail = NULL;
    s->trail_capacity = s->trail_count = 0;
}

/* ---- changes, undone when a branch ends ---------------------------------------------------------------- */

static bool remember(skyline *s, int what, uint32_t index, size_t before) {
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
    s->trail[s->trail_count++] = (skyline_change){.what = what, .index = index, .before = before};
    return true;
}

static void enqueue(skyline *s, uint32_t section) {
    if (s->queued[section]) return;
    s->queued[section] = true;
    s->queue[s->queue_count++] = section;
}

static void place(skyline *s, uint32_t b) {
    const skyline_item *i = &s->items[b];
    uint32_t *slots = &s->slots[s->slot_starts[b]];
    s->placed[b] = true;
    s->sets[i->first] -= s->keys[b];
    for (uint32_t k = i->first; k < i->last; k++) {
        s->to_come[k] -= i->size;
        s->known[k] = false;
        if (k > i->first) s->spans[k]--;
        /* Changes places with the last one to come. */
        uint32_t last = s->cover_starts[k] + --s->left[k], slot = slots[k - i->first],
                 other = s->covers[last];
        s->covers[slot] = other;
        s->slots[s->slot_starts[other] + k - s->items[other].first] = slot;
        s->covers[last] = b;
        slots[k - i->first] = last;
    }
}

/* b was the last one placed: it stands right behind those to come. */
static void take_back(skyline *s, uint32_t b) {
    const skyline_item *i = &s->items[b];
    s->placed[b] = false;
    s->sets[i->first] += s->keys[b];
    for (uint32_t k = i->first; k < i->last; k++) {
        s->to_come[k] += i->size;
        s->left[k]++;
        s->known[k] = false;
        if (k > i->first) s->spans[k]++;
    }
}

static void forget_fits(skyline *s, uint32_t b) {
    for (uint32_t k = s->items[b].first; k < s->items[b].last; k++) s->known[k] = false;
}

/* The lowest offset from `offset` on at which b may lie: aligned, clear of the fixed buffers that it interferes
 * with. */
static size_t settle(const skyline *s, uint32_t b, size_t offset) {
    const skyline_item *i = &s->items[b];
    if (i->fixed != PLANNER_NOT_FIXED) return offset <= i->fixed ? i->fixed : SIZE_MAX;
    if (i->alignment > 1 && !base_size_align(offset, i->alignment, &offset)) return SIZE_MAX;
    for (uint32_t p = i->pins; p < i->pins + i->pin_count; p++) {
        const skyline_pin *pin = &s->pins[p];
        if (pin->high <= offset) continue;
        if (pin->low >= offset && pin->low - offset >= i->size) break;
        offset = pin->high;
        if (i->alignment > 1 && !base_size_align(offset, i->alignment, &offset)) return SIZE_MAX;
    }
    return offset;
}

/* b, put down on this top, lies at its start. */
static bool carries(const skyline *s, size_t top, uint32_t b) {
    return top <= s->start[b] && s->start[b] - top < s->items[b].alignment;
}

/* What the top of section k carries, or no longer carries. */
static void forget_carried(skyline *s, uint32_t k) {
    const uint32_t *covers = &s->covers[s->cover_starts[k]];
    for (uint32_t c = 0; c < s->left[k]; c++) {
        if (carries(s, s->top[k], covers[c])) forget_fits(s, covers[c]);
    }
}

void skyline_undo(skyline *s, size_t mark) {
    while (s->trail_count > mark) {
        const skyline_change *c = &s->trail[--s->trail_count];
        if (c->what == SKYLINE_TOP) {
            forget_carried(s, c->index);
            s->top[c->index] = c->before;
        } else if (c->what == SKYLINE_FLOOR) {
            s->floor[c->index] = c->before;
            s->known[c->index] = false;
        } else if (c->what == SKYLINE_START) {
            s->start[c->index] = c->before;
            forget_fits(s, c->index);
        } else {
            take_back(s, c->index);
        }
    }
}

/* ---- inference ----------------------------------------------------------------------------------------- */

static void clear_queue(skyline *s) {
    while (s->queue_count > 0) s->queued[s->queue[--s->queue_count]] = false;
}

/* Sections are looked at again, but for `known`, where b was what the floor follows, or is too high now to lie below all
 * others to come. */
static bool set_start(skyline *s, uint32_t b, size_t start, uint32_t known) {
    const size_t before = s->start[b];
    if (!remember(s, SKYLINE_START, b, before)) return false;
    s->start[b] = start;
    for (uint32_t k = s->items[b].first; k < s->items[b].last; k++) {
        s->known[k] = false;
        if (k != known && (before <= s->floor[k] ? s->floor[k] < start : start > s->capacity - s->to_come[k]))
            enqueue(s, k);
    }
    return true;
}

/* Starts follow the floor of section k, and the floor follows the least of them. Then the buffers to come there,
 * put one on another in the order of their starts, must end within the capacity: the bound of one machine with
 * release dates. False: no solution. */
static bool update(skyline *s, uint32_t k) {
    size_t floor = s->floor[k], reach = s->capacity - s->to_come[k], least = SIZE_MAX;
    if (floor > reach) return false;
    const uint32_t *covers = &s->covers[s->cover_starts[k]];
    /* Those that start higher than what is below them so far can reach. */
    size_t waiting = 0, waiting_size = 0;
    for (uint32_t c = 0, left = s->left[k]; c < left; c++) {
        uint32_t b = covers[c];
        size_t start = s->start[b], size = s->items[b].size;
        if (start < floor) {
            start = settle(s, b, floor);
            if (start > s->capacity || size > s->capacity - start) return false;
            if (!set_start(s, b, start, k)) return false;
        }
        if (start < least) least = start;
        /* Without branches, as nobody could guess them. */
        const bool waits = start > reach;
        s->above[2 * waiting] = start;
        s->above[2 * waiting + 1] = size;
        waiting += waits;
        waiting_size += waits ? size : 0;
    }
    if (least > floor) {
        if (!remember(s, SKYLINE_FLOOR, k, floor)) return false;
        s->floor[k] = least;
        s->known[k] = false;
    }
    if (least > reach) return false;
    reach += s->to_come[k] - waiting_size;
    while (waiting > 0) {
        size_t stay = 0, gained = 0;
        for (size_t w = 0; w < waiting; w++) {
            const size_t start = s->above[2 * w], size = s->above[2 * w + 1];
            const bool waits = start > reach;
            s->above[2 * stay] = start;
            s->above[2 * stay + 1] = size;
            stay += waits;
            gained += waits ? 0 : size;
        }
        if (stay == waiting) return false;
        waiting = stay;
        reach += gained;
    }
    return true;
}

static bool propagate(skyline *s) {
    bool alive = true;
    while (s->queue_count > 0) {
        uint32_t k = s->queue[--s->queue_count];
        s->queued[k] = false;
        /* A dead branch only empties the queue. */
        if (alive && s->left[k] > 0) alive = s->to_come[k] <= s->capacity && update(s, k);
    }
    return alive;
}

static bool raise(skyline *s, uint32_t k, size_t level) {
    if (!remember(s, SKYLINE_FLOOR, k, s->floor[k])) return false;
    s->floor[k] = level;
    s->known[k] = false;
    enqueue(s, k);
    return true;
}

static bool carried(const skyline *s, uint32_t b) {
    size_t start = s->start[b];
    if (start == 0 || s->items[b].fixed != PLANNER_NOT_FIXED) return true;
    for (uint32_t k = s->items[b].first; k < s->items[b].last; k++) {
        if (carries(s, s->top[k], b)) return true;
    }
    return false;
}

bool skyline_fits(const skyline *s, uint32_t b, uint32_t k) {
    return !s->placed[b] && s->start[b] == s->floor[k] &&
           (s->items[b].twin == SKYLINE_NONE || s->placed[s->items[b].twin]) && carried(s, b);
}

uint32_t skyline_count_fits(skyline *s, uint32_t k) {
    if (s->known[k]) return s->fits[k];
    uint32_t count = 0;
    const uint32_t *covers = &s->covers[s->cover_starts[k]];
    for (uint32_t c = 0; c < s->left[k]; c++) count += skyline_fits(s, covers[c], k);
    s->known[k] = true;
    return s->fits[k] = count;
}

void skyline_valley(const skyline *s, uint32_t k, uint32_t *first, uint32_t *last) {
    *first = k;
    *last = k + 1;
    while (*first > 0 && s->spans[*first] > 0 && s->floor[*first - 1] == s->floor[k]) --*first;
    while (*last < s->section_count && s->spans[*last] > 0 && s->floor[*last] == s->floor[k]) ++*last;
}

/* No buffer to come starts at the floor of section k, which lies in the valley [first, last): each that could
 * is lifted by one that does not cover k, or by one that does and is lifted itself. */
static bool lift(skyline *s, uint32_t k, uint32_t first, uint32_t last) {
    size_t floor = s->floor[k];
    for (int side = 0; side < 2; side++) {
        size_t least = SIZE_MAX;
        for (uint32_t j = k;;) {
            if (side == 0 ? j == first : j + 1 == last) break;
            j = side == 0 ? j - 1 : j + 1;
            const uint32_t *covers = &s->covers[s->cover_starts[j]];
            for (uint32_t c = 0; c < s->left[j]; c++) {
                const skyline_item *i = &s->items[covers[c]];
                if (i->first <= k && k < i->last) continue;
                size_t top = s->start[covers[c]] + i->size;
                if (top < least) least = top;
            }
            s->lifts[j] = least;
        }
    }
    const uint32_t *covers = &s->covers[s->cover_starts[k]];
    uint32_t count = s->left[k];
    for (uint32_t c = 0; c < count; c++) {
        uint32_t b = covers[c];
        const skyline_item *i = &s->items[b];
        s->levels[c] = s->start[b];
        if (s->start[b] > floor) continue;
        size_t least = SIZE_MAX;
        if (i->first < k) least = s->lifts[i->first];
        if (i->last > k + 1 && s->lifts[i->last - 1] < least) least = s->lifts[i->last - 1];
        s->levels[c] = least == SIZE_MAX ? SIZE_MAX : settle(s, b, least);
    }
    /* The lowest ends among those that cover k; one may not lift itself. */
    size_t lowest = SIZE_MAX, second = SIZE_MAX;
    uint32_t lowest_at = SKYLINE_NONE;
    for (uint32_t c = 0; c < count; c++) {
        if (s->levels[c] > s->capacity) continue;
        size_t top = s->levels[c] + s->items[covers[c]].size;
        if (top < lowest) {
            second = lowest;
            lowest = top;
            lowest_at = c;
        } else if (top < second) {
            second = top;
        }
    }
    for (uint32_t c = 0; c < count; c++) {
        uint32_t b = covers[c];
        if (s->start[b] > floor) continue;
        size_t by = c == lowest_at ? second : lowest;
        size_t level = by > s->capacity ? SIZE_MAX : settle(s, b, by);
        if (s->levels[c] < level) level = s->levels[c];
        if (level > s->capacity || s->items[b].size > s->capacity - level) return false;
        if (!set_start(s, b, level, SKYLINE_NONE)) return false;
    }
    enqueue(s, k);
    return true;
}

/* A valley in which nothing can be put onto the floor fills up to its lower wall: the lowest buffer that comes
 * into it would be carried by nothing, unless it reaches beyond. The same for a single section, as far as
 * others could lift what comes there. */
static bool fill_valley(skyline *s, uint32_t first, uint32_t last, bool *changed) {
    uint32_t empty = SKYLINE_NONE, some = 0;
    for (uint32_t k = first; k < last; k++) {
        if (skyline_count_fits(s, k) > 0) some++;
        else empty = k;
    }
    if (empty == SKYLINE_NONE) return true;
    *changed = true;
    if (some > 0) return lift(s, empty, first, last);
    size_t level = SIZE_MAX;
    if (first > 0 && s->spans[first] > 0) level = s->floor[first - 1];
    if (last < s->section_count && s->spans[last] > 0 && s->floor[last] < level) level = s->floor[last];
    for (uint32_t k = first; k < last; k++) {
        const uint32_t *covers = &s->covers[s->cover_starts[k]];
        for (uint32_t c = 0; c < s->left[k]; c++) {
            uint32_t b = covers[c];
            if (s->start[b] < level && s->start[b] > s->floor[k] && carried(s, b)) level = s->start[b];
        }
    }
    if (level > s->capacity) return false;
    /* Before anything is changed: most branches of a problem without slack end here. */
    for (uint32_t k = first; k < last; k++) {
        if (s->to_come[k] > s->capacity - level) return false;
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
                clear_queue(s);
                return false;
            }
        }
    }
    return true;
}

bool skyline_begin(skyline *s, size_t capacity) {
    s->capacity = capacity;
    for (uint32_t b = 0; b < s->item_count; b++) {
        if (s->placed[b]) continue;
        size_t start = settle(s, b, s->start[b]);
        if (start > capacity || s->items[b].size > capacity - start) return false;
        if (start != s->start[b] && !remember(s, SKYLINE_START, b, s->start[b])) return false;
        s->start[b] = start;
    }
    for (uint32_t k = 0; k < s->section_count; k++) enqueue(s, k);
    return infer(s);
}

/* With b at its start a gap stays open below it in which another buffer has room. Moved there it would leave a
 * solution whose offsets have a smaller sum: the one with the smallest is not lost. */
static bool leaves_room(const skyline *s, uint32_t b) {
    const skyline_item *i = &s->items[b];
    size_t start = s->start[b];
    for (uint32_t k = i->first; k < i->last; k++) {
        if (s->top[k] == start) continue;
        const uint32_t *covers = &s->covers[s->cover_starts[k]];
        for (uint32_t c = 0; c < s->left[k]; c++) {
            uint32_t other = covers[c];
            const skyline_item *o = &s->items[other];
            if (o->first != k || o->last > i->last || other == b || o->size > start - s->top[k] ||
                o->fixed != PLANNER_NOT_FIXED)
                continue;
            size_t top = 0;
            for (uint32_t j = o->first; j < o->last; j++) top = s->top[j] > top ? s->top[j] : top;
            top = settle(s, other, top);
            if (top <= start && o->size <= start - top) return true;
        }
    }
    return false;
}

bool skyline_place(skyline *s, uint32_t b) {
    const skyline_item *i = &s->items[b];
    if (leaves_room(s, b)) return false;
    if (!remember(s, SKYLINE_PLACED, b, 0)) return false;
    place(s, b);
    s->offsets[b] = s->start[b];
    for (uint32_t k = i->first; k < i->last; k++) {
        size_t top = s->start[b] + i->size;
        if (!remember(s, SKYLINE_TOP, k, s->top[k])) return false;
        s->top[k] = top;
        forget_carried(s, k);
        if (!raise(s, k, top)) return false;
    }
    return infer(s);
}

bool skyline_waste(skyline *s, uint32_t k) {
    uint32_t first, last;
    skyline_valley(s, k, &first, &last);
    if (!lift(s, k, first, last)) {
        clear_queue(s);
        return false;
    }
    return infer(s);
}
