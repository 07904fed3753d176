/* occupancy.c: see occupancy.h. */
#include "passes/planners/occupancy.h"
#include "passes/planners/sorting.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t alignment_of(const occupancy *o, uint32_t buffer) {
    size_t alignment = o->problem->buffers[buffer].alignment;
    return alignment ? alignment : 1;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* Room for one more range. Arrays that are too small are kept for other rows. */
static bool row_grow(occupancy *o, occupancy_row *row) {
    if (row->count < row->room) return true;
    if (row->room > UINT32_MAX / 2) return false;
    uint32_t room = row->room ? 2 * row->room : 2;
    void **spare = &o->spare[__builtin_ctz(room)];
    occupancy_range *items = *spare;
    if (items) memcpy(spare, items, sizeof *spare);
    else items = BASE_ARRAY(o->arena, occupancy_range, room);
    if (!items) return false;
    if (row->items) {
        memcpy(items, row->items, row->count * sizeof *items);
        spare = &o->spare[__builtin_ctz(row->room)];
        memcpy(row->items, spare, sizeof *spare);
        *spare = row->items;
    }
    row->items = items;
    row->room = room;
    return true;
}

/* The first of the first `count` ranges that ends above the address; `count`: none does. */
static inline size_t ends_above(const occupancy_row *row, size_t count, size_t address) {
    size_t low = 0;
    while (count > 0) {
        size_t half = count / 2;
        if (row->items[low + half].high <= address) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* The union of the row and one range more. */
static bool row_add(occupancy *o, occupancy_row *row, occupancy_range range) {
    size_t at = range.low == 0 ? 0 : ends_above(row, row->count, range.low - 1), end = at;
    while (end < row->count && row->items[end].low <= range.high) end++;
    if (at == end) {
        if (!row_grow(o, row)) return false;
        memmove(row->items + at + 1, row->items + at, (row->count - at) * sizeof range);
        row->items[at] = range;
        row->count++;
        return true;
    }
    occupancy_range *into = &row->items[at];
    if (row->items[end - 1].high > range.high) range.high = row->items[end - 1].high;
    if (into->low < range.low) range.low = into->low;
    *into = range;
    if (end - at > 1) {
        memmove(into + 1, row->items + end, (row->count - end) * sizeof range);
        row->count -= (uint32_t)(end - at - 1);
    }
    return true;
}

/* ---- blocks and the tree over them --------------------------------------------------------------------- */

/* Steps as numbers in the same order that are never negative. */
static size_t step_key(int64_t step) {
    static_assert(sizeof(size_t) == sizeof step, "keys hold steps");
    return (size_t)((uint64_t)step ^ (uint64_t)1 << 63);
}

/* Positions of all live ranges. */
static bool find_positions(occupancy *o) {
    const planner_buffer *buffers = o->problem->buffers;
    size_t n = o->problem->buffer_count;
    planner_key *order = BASE_ARRAY(o->arena, planner_key, n + 1),
                *room = BASE_ARRAY(o->arena, planner_key, n + 1);
    int64_t *firsts = BASE_ARRAY(o->arena, int64_t, n + 1);
    o->begins = BASE_ARRAY(o->arena, uint32_t, n + 1);
    o->ends = BASE_ARRAY(o->arena, uint32_t, n + 1);
    if (!order || !room || !firsts || !o->begins || !o->ends) return false;
    for (size_t i = 0; i < n; i++) order[i] = (planner_key){step_key(buffers[i].first), (uint32_t)i};
    planner_sort_keys(order, n, room);
    for (size_t i = 0; i < n; i++) {
        o->begins[order[i].buffer] = (uint32_t)i;
        firsts[i] = buffers[order[i].buffer].first;
    }
    for (size_t i = 0; i < n; i++) {
        size_t low = o->begins[i] + 1, high = n;              /* it covers its own position */
        for (size_t step = 1; low + step < high; step *= 2) { /* most are short: look nearby first */
            if (firsts[low + step] >= buffers[i].last) high = low + step;
            else if (low + step < n) low += step;
        }
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (firsts[middle] < buffers[i].last) low = middle + 1;
            else high = middle;
        }
        o->ends[i] = (uint32_t)low;
    }
    return true;
}

/* Cuts positions into blocks, so that few live ranges begin or end within one. */
static bool cut_blocks(occupancy *o, size_t *block_count) {
    size_t n = o->problem->buffer_count, count = 0, edges = 0;
    uint32_t *ending = BASE_ARRAY(o->arena, uint32_t, n + 1);
    o->blocks = BASE_ARRAY(o->arena, uint32_t, n + 1);
    o->starts = BASE_ARRAY(o->arena, uint32_t, n + 2);
    if (!ending || !o->blocks || !o->starts) return false;
    for (size_t i = 0; i < n; i++) ending[o->ends[i]]++;
    for (size_t i = 0; i < n; i++) {
        edges += (size_t)ending[i] + 1;
        if (count == 0 || edges > OCCUPANCY_BLOCK) {
            o->starts[count++] = (uint32_t)i;
            edges = 1; /* what ends where a block begins, ends with the one before */
        }
        o->blocks[i] = (uint32_t)(count - 1);
    }
    o->starts[count] = (uint32_t)n;
    *block_count = count;
    return true;
}

void occupancy_find_span(const occupancy *o, uint32_t buffer, occupancy_span *span) {
    const uint32_t begin = o->begins[buffer], end = o->ends[buffer];
    const uint32_t first = o->blocks[begin], last = o->blocks[end - 1];
    const bool cut_begin = begin != o->starts[first], cut_end = end != o->starts[last + 1];
    const size_t left = o->leaves + first, right = o->leaves + last;
    unsigned within = 0, above = 0, level = 0;
    span->edge_count = 0;
    if (cut_begin || (cut_end && first == last)) {
        span->edges[span->edge_count].block = first;
        span->edges[span->edge_count].begin = begin;
        span->edges[span->edge_count++].end = first == last ? end : o->starts[first + 1];
    }
    if (cut_end && first != last) {
        span->edges[span->edge_count].block = last;
        span->edges[span->edge_count].begin = o->starts[last];
        span->edges[span->edge_count++].end = end;
    }
    for (size_t low = left + cut_begin, high = right + 1 - cut_end; low < high; low /= 2, high /= 2) {
        if (low & 1) span->within[within++] = (uint32_t)low++;
        if (high & 1) span->within[within++] = (uint32_t)--high;
    }
    /* What lies above begins before the live range or ends behind it, and so is on one of the paths from its ends. */
    while (o->leaves >> level > 1) level++;
    for (;; level--) {
        size_t from = left >> level, to = right >> level;
        bool before = cut_begin || from << level != left, behind = cut_end || (to + 1) << level != right + 1;
        if (before) span->above[above++] = (uint32_t)from;
        if (behind && !(before && from == to)) span->above[above++] = (uint32_t)to;
        if (level == 0) break;
    }
    span->within_count = within;
    span->above_count = above;
}

static bool tree_init(occupancy *o) {
    size_t n = o->problem->buffer_count, blocks, parts = 0;
    if (!find_positions(o) || !cut_blocks(o, &blocks)) return false;
    o->leaves = 1;
    while (o->leaves < blocks) o->leaves *= 2;
    o->asked = BASE_ARRAY(o->arena, bool, 2 * o->leaves);
    o->any = BASE_ARRAY(o->arena, occupancy_row, 2 * o->leaves);
    o->all = BASE_ARRAY(o->arena, occupancy_row, 2 * o->leaves);
    o->part_starts = BASE_ARRAY(o->arena, size_t, blocks + 1);
    o->part_counts = BASE_ARRAY(o->arena, uint32_t, blocks + 1);
    if (!o->asked || !o->any || !o->all || !o->part_starts || !o->part_counts) return false;
    for (uint32_t i = 0; i < n; i++) {
        occupancy_span span;
        if (o->problem->buffers[i].size == 0) continue;
        occupancy_find_span(o, i, &span);
        for (unsigned k = 0; k < span.within_count; k++) o->asked[span.within[k]] = true;
        for (unsigned k = 0; k < span.edge_count; k++) o->part_counts[span.edges[k].block]++;
    }
    for (size_t b = 0; b < blocks; b++) {
        o->part_starts[b] = parts;
        parts += o->part_counts[b];
        o->part_counts[b] = 0;
    }
    o->parts = BASE_ARRAY(o->arena, occupancy_part, parts);
    return o->parts != NULL;
}

static void part_add(occupancy *o, uint32_t block, uint32_t begin, uint32_t end, occupancy_range range) {
    occupancy_part *parts = o->parts + o->part_starts[block];
    size_t k = o->part_counts[block]++;
    for (; k > 0 && parts[k - 1].range.low > range.low; k--) parts[k] = parts[k - 1];
    parts[k] =
        (occupancy_part){range, (uint8_t)(begin - o->starts[block]), (uint8_t)(end - o->starts[block])};
}

static bool tree_add(occupancy *o, uint32_t buffer, occupancy_range range) {
    occupancy_span span;
    occupancy_find_span(o, buffer, &span);
    for (unsigned i = 0; i < span.edge_count; i++)
        part_add(o, span.edges[i].block, span.edges[i].begin, span.edges[i].end, range);
    for (unsigned i = 0; i < span.within_count; i++) {
        size_t node = span.within[i];
        if (!row_add(o, &o->all[node], range) || !row_add(o, &o->any[node], range)) return false;
    }
    for (unsigned i = 0; i < span.above_count; i++) {
        size_t node = span.above[i];
        if (o->asked[node] && !row_add(o, &o->any[node], range)) return false;
    }
    return true;
}

/* ---- listed interference ------------------------------------------------------------------------------- */

static int compare_ranges(const void *left, const void *right) {
    const occupancy_range *a = left, *b = right;
    if (a->low != b->low) return a->low < b->low ? -1 : 1;
    return (a->high > b->high) - (a->high < b->high);
}

/* Puts a range behind the others of a row; it does not start below them. */
static inline void row_append(occupancy_row *row, occupancy_range range) {
    if (row->count > 0 && range.low <= row->items[row->count - 1].high) {
        if (range.high > row->items[row->count - 1].high) row->items[row->count - 1].high = range.high;
    } else {
        row->items[row->count++] = range;
    }
}

static occupancy_row row_of_neighbours(const occupancy *o, uint32_t buffer) {
    const planner_problem *problem = o->problem;
    occupancy_row row = {.items = o->room};
    size_t count = 0;
    for (size_t k = problem->starts[buffer]; k < problem->starts[buffer + 1]; k++) {
        uint32_t other = problem->neighbours[k];
        if (!o->placed[other]) continue;
        size_t low = o->offsets[other];
        o->room[count++] = (occupancy_range){low, low + problem->buffers[other].size};
    }
    if (count) qsort(o->room, count, sizeof *o->room, compare_ranges);
    for (size_t k = 0; k < count; k++) row_append(&row, o->room[k]);
    return row;
}

/* ---- what both share ----------------------------------------------------------------------------------- */

bool occupancy_init(occupancy *o, const planner_problem *problem, base_arena *arena) {
    *o = (occupancy){.problem = problem, .arena = arena};
    if (!problem->starts) return tree_init(o);
    o->placed = BASE_ARRAY(arena, bool, problem->buffer_count + 1);
    o->offsets = BASE_ARRAY(arena, size_t, problem->buffer_count + 1);
    o->room = BASE_ARRAY(arena, occupancy_range, problem->buffer_count + 1);
    return o->placed && o->offsets && o->room;
}

void occupancy_clear(occupancy *o) {
    if (o->placed) {
        memset(o->placed, 0, o->problem->buffer_count * sizeof *o->placed);
        return;
    }
    for (size_t i = 0; i < 2 * o->leaves; i++) o->all[i].count = o->any[i].count = 0;
    if (o->problem->buffer_count == 0) return;
    memset(o->part_counts, 0, (o->blocks[o->problem->buffer_count - 1] + 1) * sizeof *o->part_counts);
}

bool occupancy_add(occupancy *o, uint32_t buffer, size_t offset) {
    size_t size = o->problem->buffers[buffer].size;
    if (size == 0) return true;
    if (!o->placed) return tree_add(o, buffer, (occupancy_range){offset, offset + size});
    o->placed[buffer] = true;
    o->offsets[buffer] = offset;
    return true;
}

uint32_t *occupancy_degrees(const occupancy *o) {
    size_t n = o->problem->buffer_count;
    uint32_t *degrees = BASE_ARRAY(o->arena, uint32_t, n + 1);
    uint32_t *ended =
        o->placed ? NULL : BASE_ARRAY(o->arena, uint32_t, n + 1); /* at a position or before it */
    if (!degrees || (!o->placed && !ended)) return NULL;
    for (size_t i = 0; o->placed && i < n; i++)
        degrees[i] = (uint32_t)(o->problem->starts[i + 1] - o->problem->starts[i]);
    if (o->placed) return degrees;
    for (size_t i = 0; i < n; i++) ended[o->ends[i]]++;
    for (size_t k = 0; k < n; k++) ended[k + 1] += ended[k];
    /* Those that begin before its end, without itself and those that have ended before it begins. */
    for (size_t i = 0; i < n; i++) degrees[i] = o->ends[i] - 1 - ended[o->begins[i]];
    return degrees;
}

/* What a buffer interferes with, gathered from the tree or the list. */
typedef struct gathered {
    occupancy_row rows[2 * OCCUPANCY_NODES + 2]; /* none is empty */
    unsigned count;
    occupancy_range parts[2][OCCUPANCY_BLOCK + 1];
} gathered;

/* Asks the machine for what is going to be read, and then written where the buffer is placed: with many buffers hardly
 * any of it is in a cache, and one wait for all is shorter than one for each. */
static void fetch(const occupancy *o, const occupancy_span *span) {
    for (unsigned i = 0; i < span->edge_count; i++) {
        uint32_t block = span->edges[i].block;
        const char *parts = (const char *)(o->parts + o->part_starts[block]);
        for (size_t k = 0; k < o->part_counts[block] * sizeof *o->parts; k += 64)
            __builtin_prefetch(parts + k);
    }
    for (unsigned i = 0; i < span->within_count; i++) {
        __builtin_prefetch(o->any[span->within[i]].items);
        __builtin_prefetch(o->all[span->within[i]].items);
    }
    for (unsigned i = 0; i < span->above_count; i++) {
        __builtin_prefetch(o->all[span->above[i]].items);
        if (o->asked[span->above[i]]) __builtin_prefetch(o->any[span->above[i]].items);
    }
}

static void gather(const occupancy *o, uint32_t buffer, gathered *g) {
    g->count = 0;
    if (o->placed) {
        g->rows[0] = row_of_neighbours(o, buffer);
        g->count = g->rows[0].count > 0;
        return;
    }
    occupancy_span span;
    occupancy_find_span(o, buffer, &span);
    fetch(o, &span);
    for (unsigned i = span.within_count; i-- > 0;) {
        g->rows[g->count] = o->any[span.within[i]];
        g->count += g->rows[g->count].count > 0;
    }
    for (unsigned i = 0; i < span.above_count; i++) {
        g->rows[g->count] = o->all[span.above[i]];
        g->count += g->rows[g->count].count > 0;
    }
    for (unsigned i = 0; i < span.edge_count; i++) {
        uint32_t block = span.edges[i].block, begin = span.edges[i].begin - o->starts[block],
                 end = span.edges[i].end - o->starts[block];
        const occupancy_part *parts = o->parts + o->part_starts[block];
        occupancy_row row = {.items = g->parts[i]};
        for (uint32_t k = 0; k < o->part_counts[block]; k++) {
            if (parts[k].begin < end && begin < parts[k].end) row_append(&row, parts[k].range);
        }
        g->rows[g->count] = row;
        g->count += row.count > 0;
    }
}

/* Lowers the end of a place until the row leaves it free; false: it had to be lowered. Places never rise again:
 * ranges above are cut off the row. An end below `size` means that there is none. */
static bool sink(occupancy_row *row, size_t size, size_t mask, size_t *end) {
    size_t at = (*end - size) & mask, k = row->count;
    while (k > 0 && row->items[k - 1].low >= at + size) k--;
    bool agrees = true;
    while (k > 0 && row->items[k - 1].high > at) {
        agrees = false;
        *end = row->items[--k].low;
        if (*end < size) break;
        at = (*end - size) & mask;
        while (k > 0 && row->items[k - 1].low >= at + size) k--;
    }
    row->count = (uint32_t)k;
    return agrees;
}

/* After row `at` has moved the place, all rows are asked again: it early (it may soon move the place once more), and
 * not at all if nothing is left of it. */
static unsigned ask_again(gathered *g, unsigned at) {
    if (g->rows[at].count == 0) {
        g->rows[at] = g->rows[--g->count];
    } else if (at > 0) {
        occupancy_row moved = g->rows[at];
        g->rows[at] = g->rows[at - 1];
        g->rows[at - 1] = moved;
    }
    return 0;
}

bool occupancy_highest(occupancy *o, uint32_t buffer, size_t height, size_t *offset) {
    gathered g;
    const size_t size = o->problem->buffers[buffer].size, mask = ~(alignment_of(o, buffer) - 1);
    gather(o, buffer, &g);
    size_t top = 0, end = height;
    for (unsigned i = 0; i < g.count; i++) {
        size_t high = g.rows[i].items[g.rows[i].count - 1].high;
        if (high > top) top = high;
    }
    for (unsigned i = 0; end >= size && i < g.count;)
        i = sink(&g.rows[i], size, mask, &end) ? i + 1 : ask_again(&g, i);
    *offset = end >= size ? (end - size) & mask : (top + ~mask) & mask;
    return end >= size;
}

/* Raises a place until the row leaves it free, as `sink` lowers it. */
static bool rise(occupancy_row *row, size_t size, size_t mask, size_t *at) {
    size_t k = 0;
    while (k < row->count && row->items[k].high <= *at) k++;
    bool agrees = true;
    while (k < row->count && row->items[k].low < *at + size) {
        agrees = false;
        *at = (row->items[k++].high + ~mask) & mask;
        while (k < row->count && row->items[k].high <= *at) k++;
    }
    row->items += k;
    row->count -= (uint32_t)k;
    return agrees;
}

size_t occupancy_lowest(occupancy *o, uint32_t buffer) {
    gathered g;
    const size_t size = o->problem->buffers[buffer].size, mask = ~(alignment_of(o, buffer) - 1);
    gather(o, buffer, &g);
    size_t at = 0;
    for (unsigned i = 0; i < g.count;) i = rise(&g.rows[i], size, mask, &at) ? i + 1 : ask_again(&g, i);
    return at;
}

/* Raises an address past all ranges that hold it; gives where the next one begins, SIZE_MAX behind the last. */
static size_t leave(gathered *g, size_t *address) {
    for (;;) {
        size_t next = SIZE_MAX, before = *address;
        for (unsigned i = 0; i < g->count;) {
            occupancy_row *row = &g->rows[i];
            while (row->count > 0 && row->items[0].low <= *address) {
                if (row->items[0].high > *address) *address = row->items[0].high;
                row->items++;
                row->count--;
            }
            if (row->count == 0) {
                *row = g->rows[--g->count];
                continue;
            }
            if (row->items[0].low < next) next = row->items[0].low;
            i++;
        }
        if (*address == before || next > *address) return next;
    }
}

size_t occupancy_best_fit(occupancy *o, uint32_t buffer) {
    gathered g;
    const size_t size = o->problem->buffers[buffer].size, mask = ~(alignment_of(o, buffer) - 1);
    size_t top = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    gather(o, buffer, &g);
    for (;;) {
        size_t next = leave(&g, &top), at = (top + ~mask) & mask;
        if (next == SIZE_MAX) return best != SIZE_MAX ? best : at;
        if (at <= next && next - at >= size && next - at < best_gap) {
            best = at;
            best_gap = next - at;
        }
        top = next;
    }
}

bool occupancy_is_free(occupancy *o, uint32_t buffer, size_t offset) {
    gathered g;
    const size_t end = offset + o->problem->buffers[buffer].size;
    gather(o, buffer, &g);
    for (unsigned i = 0; i < g.count; i++) {
        size_t k = ends_above(&g.rows[i], g.rows[i].count, offset);
        if (k < g.rows[i].count && g.rows[i].items[k].low < end) return false;
    }
    return true;
}
