/* skyline.c: see skyline.h. */
#include "passes/planners/skyline.h"
#include <stdlib.h>
#include <string.h>

/* ---- sections ------------------------------------------------------------------------------------------ */

static int compare_times(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static uint32_t find_section(const int64_t *times, uint32_t count, int64_t time) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (times[middle] < time) low = middle + 1;
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

static uint64_t mix(uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

bool skyline_init(skyline *s, const planner_problem *problem, base_arena *arena) {
    *s = (skyline){.arena = arena, .item_count = (uint32_t)problem->buffer_count};
    uint32_t n = s->item_count;
    int64_t *times = BASE_ARRAY(arena, int64_t, 2 * (size_t)n);
    s->items = BASE_ARRAY(arena, skyline_item, n);
    s->start = BASE_ARRAY(arena, size_t, n);
    s->placed = BASE_ARRAY(arena, bool, n);
    s->offsets = BASE_ARRAY(arena, size_t, n);
    if (!times || !s->items || !s->start || !s->placed || !s->offsets) return false;
    uint32_t time_count = 0;
    for (uint32_t b = 0; b < n; b++) {
        times[time_count++] = problem->buffers[b].first;
        times[time_count++] = problem->buffers[b].last;
    }
    if (n) qsort(times, time_count, sizeof *times, compare_times);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < time_count; i++) {
        if (distinct == 0 || times[i] != times[distinct - 1]) times[distinct++] = times[i];
    }
    s->section_count = distinct ? distinct - 1 : 0;
    uint32_t m = s->section_count;
    s->cover_starts = BASE_ARRAY(arena, uint32_t, (size_t)m + 1);
    s->floor = BASE_ARRAY(arena, size_t, m);
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
    if (!s->cover_starts || !s->floor || !s->to_come || !s->left || !s->spans || !s->queue || !s->queued ||
        !s->fits || !s->known || !s->sets || !s->keys || !s->slot_starts)
        return false;

    size_t cover_count = 0;
    for (uint32_t b = 0; b < n; b++) {
        const planner_buffer *from = &problem->buffers[b];
        skyline_item *i = &s->items[b];
        *i = (skyline_item){.size = from->size,
                            .alignment = from->alignment ? from->alignment : 1,
                            .fixed = from->fixed,
                            .first = find_section(times, distinct, from->first),
                            .last = find_section(times, distinct, from->last),
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
        s->keys[b] = mix(b + 1);
        s->sets[i->first] += s->keys[b];
        if (cover_count <= UINT32_MAX) s->slot_starts[b] = (uint32_t)cover_count;
        cover_count += i->last - i->first;
    }
    if (cover_count > UINT32_MAX / 2) return false;
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
    return find_twins(s);
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

void skyline_undo(skyline *s, size_t mark) {
    while (s->trail_count > mark) {
        const skyline_change *c = &s->trail[--s->trail_count];
        if (c->what == SKYLINE_FLOOR) {
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

/* The lowest offset from `offset` on at which b may lie. */
static size_t settle(const skyline *s, uint32_t b, size_t offset) {
    const skyline_item *i = &s->items[b];
    if (i->fixed != PLANNER_NOT_FIXED) return offset <= i->fixed ? i->fixed : SIZE_MAX;
    size_t aligned;
    return base_size_align(offset, i->alignment, &aligned) ? aligned : SIZE_MAX;
}

/* Starts follow the floor of section k; gives the least of them. False: no solution. */
static bool update_starts(skyline *s, uint32_t k, size_t *least) {
    *least = SIZE_MAX;
    size_t low = s->floor[k];
    const uint32_t *covers = &s->covers[s->cover_starts[k]];
    for (uint32_t c = 0; c < s->left[k]; c++) {
        uint32_t b = covers[c];
        if (s->start[b] < low) {
            size_t start = settle(s, b, low);
            if (start > s->capacity || s->items[b].size > s->capacity - start) return false;
            if (!remember(s, SKYLINE_START, b, s->start[b])) return false;
            s->start[b] = start;
            for (uint32_t other = s->items[b].first; other < s->items[b].last; other++) {
                s->known[other] = false;
                if (other != k && s->floor[other] < start) enqueue(s, other);
            }
        }
        if (s->start[b] < *least) *least = s->start[b];
    }
    return true;
}

/* The buffers to come in section k, put one on another in the order of their starts, end within the
 * capacity: the bound of one machine with release dates. */
static bool reaches(const skyline *s, uint32_t k) {
    size_t reach = s->capacity - s->to_come[k]; /* how high a start may be with what is below it so far */
    const uint32_t *covers = &s->covers[s->cover_starts[k]];
    size_t waiting = 0;
    for (uint32_t c = 0; c < s->left[k]; c++) {
        uint32_t b = covers[c];
        if (s->start[b] <= reach) continue;
        s->above[2 * waiting] = s->start[b];
        s->above[2 * waiting++ + 1] = s->items[b].size;
    }
    if (waiting == 0) return true;
    size_t total = s->to_come[k];
    for (size_t w = 0; w < waiting; w++) total -= s->above[2 * w + 1];
    reach += total;
    while (waiting > 0) {
        size_t stay = 0, gained = 0;
        for (size_t w = 0; w < waiting; w++) {
            if (s->above[2 * w] <= reach) {
                gained += s->above[2 * w + 1];
            } else {
                s->above[2 * stay] = s->above[2 * w];
                s->above[2 * stay++ + 1] = s->above[2 * w + 1];
            }
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
        size_t least;
        if (!alive || s->left[k] == 0) continue; /* a dead branch only empties the queue */
        alive = update_starts(s, k, &least);
        if (alive && least > s->floor[k]) {
            alive = remember(s, SKYLINE_FLOOR, k, s->floor[k]);
            s->floor[k] = least;
            s->known[k] = false;
        }
        if (s->floor[k] > s->capacity || s->to_come[k] > s->capacity - s->floor[k]) alive = false;
        alive = alive && reaches(s, k);
        if (!alive) s->died = k;
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
    return propagate(s);
}

bool skyline_place(skyline *s, uint32_t b) {
    const skyline_item *i = &s->items[b];
    if (!remember(s, SKYLINE_PLACED, b, 0)) return false;
    place(s, b);
    s->offsets[b] = s->start[b];
    for (uint32_t k = i->first; k < i->last; k++) {
        if (!raise(s, k, s->start[b] + i->size)) return false;
    }
    return propagate(s);
}

bool skyline_waste(skyline *s, uint32_t k, size_t level) {
    if (level > s->capacity || s->to_come[k] > s->capacity - level) return false;
    return raise(s, k, level) && propagate(s);
}

size_t skyline_next_level(const skyline *s, uint32_t k) {
    size_t level = SIZE_MAX;
    for (uint32_t c = s->cover_starts[k]; c < s->cover_starts[k] + s->left[k]; c++) {
        uint32_t b = s->covers[c];
        if (s->start[b] > s->floor[k]) {
            if (s->start[b] < level) level = s->start[b];
            continue;
        }
        /* It would start at the floor: what lifts it does not cover k, or would be the lower one itself. */
        for (uint32_t other = s->items[b].first; other < s->items[b].last; other++) {
            if (other == k) continue;
            for (uint32_t d = s->cover_starts[other]; d < s->cover_starts[other] + s->left[other]; d++) {
                uint32_t lift = s->covers[d];
                if (s->items[lift].first <= k && k < s->items[lift].last) continue;
                size_t top = s->start[lift] + s->items[lift].size;
                if (top < level) level = top;
            }
        }
    }
    return level;
}

bool skyline_fits(const skyline *s, uint32_t b, uint32_t k) {
    return !s->placed[b] && s->start[b] == s->floor[k] &&
           (s->items[b].twin == SKYLINE_NONE || s->placed[s->items[b].twin]);
}

uint32_t skyline_count_fits(skyline *s, uint32_t k) {
    if (s->known[k]) return s->fits[k];
    uint32_t count = 0;
    const uint32_t *covers = &s->covers[s->cover_starts[k]];
    for (uint32_t c = 0; c < s->left[k]; c++) count += skyline_fits(s, covers[c], k);
    s->known[k] = true;
    return s->fits[k] = count;
}
