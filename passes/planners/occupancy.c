/* occupancy.c: see occupancy.h. */
#include "passes/planners/occupancy.h"
#include "passes/planners/sorting.h"
#include <stdlib.h>
#include <string.h>

enum { TOP = 1u << 31 }; /* the top of all addresses, in units: no placement comes up to it */

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

/* The first range that ends above the address; row->count: none does. */
static inline size_t ends_above(const occupancy_row *row, uint32_t address) {
    const occupancy_range *low = row->items;
    size_t count = row->count;
    while (count > 1) { /* without branches, as nobody could guess them */
        size_t half = count / 2;
        low += half & ((size_t)0 - (size_t)(low[half - 1].high <= address));
        count -= half;
    }
    return (size_t)(low - row->items) + (count > 0 && low->high <= address);
}

/* The union of the row and one range more. */
static bool row_add(occupancy *o, occupancy_row *row, occupancy_range range) {
    size_t at = range.low == 0 ? 0 : ends_above(row, range.low - 1), end = at;
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

/* Positions of all live ranges; the blocks are not known yet. */
static bool find_positions(occupancy *o) {
    const planner_buffer *buffers = o->problem->buffers;
    size_t n = o->problem->buffer_count;
    planner_key *order = BASE_ARRAY(o->arena, planner_key, n + 1),
                *room = BASE_ARRAY(o->arena, planner_key, n + 1);
    if (!order || !room) return false;
    for (size_t i = 0; i < n; i++) order[i] = (planner_key){planner_step_key(buffers[i].first), (uint32_t)i};
    planner_sort_keys(order, n, room);
    for (size_t i = 0; i < n; i++) o->lives[order[i].buffer].begin = (uint32_t)i;
    for (size_t i = 0; i < n; i++) {
        const size_t last = planner_step_key(buffers[i].last);
        size_t low = o->lives[i].begin + 1, high = n;         /* it covers its own position */
        for (size_t step = 1; low + step < high; step *= 2) { /* most are short: look nearby first */
            if (order[low + step].key >= last) high = low + step;
            else if (low + step < n) low += step;
        }
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (order[middle].key < last) low = middle + 1;
            else high = middle;
        }
        o->lives[i].end = (uint32_t)low;
    }
    return true;
}

/* Cuts positions into blocks, so that few live ranges begin or end within one. */
static bool cut_blocks(occupancy *o) {
    size_t n = o->problem->buffer_count, count = 0, edges = 0;
    uint32_t *ending = BASE_ARRAY(o->arena, uint32_t, n + 1);
    uint32_t *blocks = BASE_ARRAY(o->arena, uint32_t, n + 1); /* of a position */
    if (!ending || !blocks) return false;
    for (size_t i = 0; i < n; i++) ending[o->lives[i].end]++;
    for (size_t i = 0; i < n; i++) {
        edges += (size_t)ending[i] + 1;
        if (count == 0 || edges > OCCUPANCY_BLOCK) {
            count++;
            edges = 1; /* what ends where a block begins, ends with the one before */
        }
        blocks[i] = (uint32_t)(count - 1);
    }
    o->block_count = count;
    o->blocks = BASE_ARRAY(o->arena, occupancy_block, count + 1);
    if (!o->blocks) return false;
    for (size_t i = n; i-- > 0;) o->blocks[blocks[i]].start = (uint32_t)i;
    o->blocks[count].start = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        o->lives[i].first = blocks[o->lives[i].begin];
        o->lives[i].last = blocks[o->lives[i].end - 1];
    }
    return true;
}

/* The edges of a span, and the nodes within it. */
static void find_within(const occupancy *o, const occupancy_life *life, occupancy_span *span) {
    const occupancy_block *first = &o->blocks[life->first], *last = &o->blocks[life->last];
    const bool cut_begin = life->begin != first->start, cut_end = life->end != last[1].start;
    uint32_t within = 0, edges = 0;
    if (cut_begin || (cut_end && first == last)) {
        span->edges[edges].block = life->first;
        span->edges[edges].begin = life->begin - first->start;
        span->edges[edges++].end = (first == last ? life->end : first[1].start) - first->start;
    }
    if (cut_end && first != last) {
        span->edges[edges].block = life->last;
        span->edges[edges].begin = 0;
        span->edges[edges++].end = life->end - last->start;
    }
    const size_t others = ((size_t)1 << OCCUPANCY_FAN) - 1;
    for (size_t low = o->leaves + life->first + cut_begin, high = o->leaves + life->last + 1 - cut_end;
         low < high; low >>= OCCUPANCY_FAN, high >>= OCCUPANCY_FAN) {
        while (low < high && (low & others)) span->within[within++] = (uint32_t)low++;
        while (low < high && (high & others)) span->within[within++] = (uint32_t)--high;
    }
    span->edge_count = edges;
    span->within_count = within;
}

/* What lies above a span begins before it or ends behind it, and so is on one of the paths from its ends to the root. */
static void find_above(const occupancy *o, const occupancy_life *life, occupancy_span *span) {
    const size_t left = o->leaves + life->first, right = o->leaves + life->last;
    const bool cut_begin = life->begin != o->blocks[life->first].start,
               cut_end = life->end != o->blocks[life->last + 1].start;
    const int depth = __builtin_clzll(o->leaves);
    uint32_t above = 0;
    for (size_t node = o->asked[left]; node; node = o->asked[node >> OCCUPANCY_FAN]) {
        const int level = __builtin_clzll(node) - depth;
        const bool before = cut_begin || node << level != left, together = right >> level == node;
        if (before || (together && (cut_end || (node + 1) << level != right + 1)))
            span->above[above++] = (uint32_t)node;
    }
    for (size_t node = o->asked[right]; node; node = o->asked[node >> OCCUPANCY_FAN]) {
        const int level = __builtin_clzll(node) - depth;
        if (left >> level == node) break; /* from there on the paths are one */
        if (cut_end || (node + 1) << level != right + 1) span->above[above++] = (uint32_t)node;
    }
    span->above_count = above;
}

const occupancy_span *occupancy_find_span(occupancy *o, uint32_t buffer) {
    for (unsigned i = 0; i < OCCUPANCY_SPANS; i++)
        if (o->spans[i].buffer == buffer) return &o->spans[i];
    occupancy_span *span = &o->spans[o->oldest];
    o->oldest = (o->oldest + 1) % OCCUPANCY_SPANS;
    span->buffer = buffer;
    find_within(o, &o->lives[buffer], span);
    find_above(o, &o->lives[buffer], span);
    return span;
}

/* Parts of a block that are looked at together. */
enum { AT_ONCE = 64 };

static bool tree_init(occupancy *o) {
    size_t n = o->problem->buffer_count, parts = 0;
    if (!find_positions(o) || !cut_blocks(o)) return false;
    o->leaves = 1;
    while (o->leaves < o->block_count) o->leaves <<= OCCUPANCY_FAN;
    o->asked = BASE_ARRAY(o->arena, uint32_t, 2 * o->leaves);
    o->nodes = BASE_ARRAY(o->arena, occupancy_node, 2 * o->leaves);
    if (!o->asked || !o->nodes) return false;
    for (uint32_t i = 0; i < n; i++) {
        occupancy_span span;
        if (o->lives[i].size == 0) continue;
        find_within(o, &o->lives[i], &span);
        for (unsigned k = 0; k < span.within_count; k++) o->asked[span.within[k]] = span.within[k];
        for (unsigned k = 0; k < span.edge_count; k++) o->blocks[span.edges[k].block].count++;
        parts += span.edge_count;
    }
    for (size_t node = 2; node < 2 * o->leaves; node++)
        if (!o->asked[node]) o->asked[node] = o->asked[node >> OCCUPANCY_FAN];
    occupancy_range *ranges = BASE_ARRAY(o->arena, occupancy_range, parts);
    uint16_t *ends = BASE_ARRAY(o->arena, uint16_t, 2 * parts + AT_ONCE); /* as many are read at the end */
    if (!ranges || !ends) return false;
    for (size_t b = 0; b < o->block_count; b++) {
        occupancy_block *block = &o->blocks[b];
        block->ranges = ranges;
        block->begins = ends;
        block->ends = ends + block->count;
        ranges += block->count;
        ends += 2 * (size_t)block->count;
        block->count = 0;
    }
    for (unsigned i = 0; i < OCCUPANCY_SPANS; i++) o->spans[i].buffer = UINT32_MAX;
    return true;
}

static void part_add(occupancy_block *block, uint32_t begin, uint32_t end, occupancy_range range) {
    size_t count = block->count++, at = 0;
    for (size_t rest = count; rest > 0;) {
        size_t half = rest / 2;
        bool below = block->ranges[at + half].low <= range.low;
        at = below ? at + half + 1 : at;
        rest = below ? rest - half - 1 : half;
    }
    memmove(block->ranges + at + 1, block->ranges + at, (count - at) * sizeof range);
    memmove(block->begins + at + 1, block->begins + at, (count - at) * sizeof *block->begins);
    memmove(block->ends + at + 1, block->ends + at, (count - at) * sizeof *block->ends);
    block->ranges[at] = range;
    block->begins[at] = (uint16_t)begin;
    block->ends[at] = (uint16_t)end;
}

static bool tree_add(occupancy *o, uint32_t buffer, occupancy_range range) {
    const occupancy_span *span = occupancy_find_span(o, buffer);
    for (unsigned i = 0; i < span->edge_count; i++)
        part_add(&o->blocks[span->edges[i].block], span->edges[i].begin, span->edges[i].end, range);
    for (unsigned i = 0; i < span->within_count; i++) {
        occupancy_node *node = &o->nodes[span->within[i]];
        if (!row_add(o, &node->all, range) || !row_add(o, &node->any, range)) return false;
    }
    for (unsigned i = 0; i < span->above_count; i++) {
        if (!row_add(o, &o->nodes[span->above[i]].any, range)) return false;
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
        if (o->placed[other]) o->room[count++] = o->taken[other];
    }
    if (count) qsort(o->room, count, sizeof *o->room, compare_ranges);
    for (size_t k = 0; k < count; k++) row_append(&row, o->room[k]);
    return row;
}

/* ---- what both share ----------------------------------------------------------------------------------- */

/* What all buffers take together, one above the other; SIZE_MAX: more than can be said. */
static size_t sum_of_units(const planner_problem *problem, unsigned shift) {
    size_t sum = 0, pinned = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        const size_t size = b->size >> shift, alignment = b->alignment >> shift;
        if (b->size == 0) continue;
        if (b->fixed != PLANNER_NOT_FIXED && pinned < ((b->fixed + b->size) >> shift) + 1)
            pinned = ((b->fixed + b->size) >> shift) + 1;
        if (__builtin_add_overflow(sum, size + 1, &sum) || __builtin_add_overflow(sum, alignment, &sum))
            return SIZE_MAX;
    }
    return __builtin_add_overflow(sum, pinned, &sum) ? SIZE_MAX : sum;
}

/* Finds the unit, and what each buffer takes in it. */
static bool find_units(occupancy *o) {
    const planner_problem *problem = o->problem;
    size_t bits = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        bits |= b->size;
        if (b->fixed != PLANNER_NOT_FIXED) bits |= b->fixed;
    }
    o->shift = bits ? (unsigned)__builtin_ctzll(bits) : 0;
    while (sum_of_units(problem, o->shift) >= TOP)
        if (++o->shift == 64) return false;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        const size_t low = b->fixed == PLANNER_NOT_FIXED ? 0 : b->fixed, high = low + b->size;
        occupancy_life *life = &o->lives[i];
        if (b->size) life->size = occupancy_units(o, high) - (uint32_t)(low >> o->shift);
        life->alignment = (uint32_t)(b->alignment >> o->shift);
        if (life->alignment == 0) life->alignment = 1;
    }
    return true;
}

bool occupancy_init(occupancy *o, const planner_problem *problem, occupancy_end end, base_arena *arena) {
    *o = (occupancy){.problem = problem, .arena = arena, .downward = end == OCCUPANCY_HIGHEST};
    o->lives = BASE_ARRAY(arena, occupancy_life, problem->buffer_count + 1);
    if (!o->lives || !find_units(o)) return false;
    if (!problem->starts) return tree_init(o);
    o->placed = BASE_ARRAY(arena, bool, problem->buffer_count + 1);
    o->taken = BASE_ARRAY(arena, occupancy_range, problem->buffer_count + 1);
    o->room = BASE_ARRAY(arena, occupancy_range, problem->buffer_count + 1);
    return o->placed && o->taken && o->room;
}

void occupancy_clear(occupancy *o, occupancy_end end) {
    o->downward = end == OCCUPANCY_HIGHEST;
    if (o->placed) {
        memset(o->placed, 0, o->problem->buffer_count * sizeof *o->placed);
        return;
    }
    for (size_t i = 0; i < 2 * o->leaves; i++) o->nodes[i].all.count = o->nodes[i].any.count = 0;
    for (size_t b = 0; b < o->block_count; b++) o->blocks[b].count = 0;
}

bool occupancy_add(occupancy *o, uint32_t buffer, size_t offset) {
    const uint32_t size = o->lives[buffer].size, low = (uint32_t)(offset >> o->shift), high = low + size;
    const occupancy_range range =
        o->downward ? (occupancy_range){TOP - high, TOP - low} : (occupancy_range){low, high};
    if (size == 0) return true;
    if (!o->placed) return tree_add(o, buffer, range);
    o->placed[buffer] = true;
    o->taken[buffer] = range;
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
    for (size_t i = 0; i < n; i++) ended[o->lives[i].end]++;
    for (size_t k = 0; k < n; k++) ended[k + 1] += ended[k];
    /* Those that begin before its end, without itself and those that have ended before it begins. */
    for (size_t i = 0; i < n; i++) degrees[i] = o->lives[i].end - 1 - ended[o->lives[i].begin];
    return degrees;
}

/* Ranges that a buffer interferes with, the lowest first: a row of the tree, or those parts of a block that meet its
 * positions [begin, end). Of AT_ONCE parts it is found at once which do, so that no branch depends on one of them: nobody
 * could guess it. */
typedef struct source {
    const occupancy_range *items;
    uint32_t count;
    uint16_t begin, end;
    const uint16_t *begins, *ends; /* NULL: it is a row */
    uint64_t meeting;
} source;

typedef struct gathered {
    source sources[OCCUPANCY_SOURCES]; /* none is empty */
    unsigned count;
} gathered;

/* Lines of 64 bytes. */
static inline void fetch(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)from + at);
}

static inline void fetch_row(const occupancy_row *row) {
    fetch(row->items, (row->count < 64 ? row->count : 64) * sizeof *row->items);
}

void occupancy_expect(occupancy *o, const uint32_t *order, size_t count) {
    enum { EARLY = 8, LATE = 2 }; /* when to fetch what the others say the place of */
    if (o->placed || count == 0) return;
    if (count > EARLY) __builtin_prefetch(&o->lives[order[EARLY]]);
    if (count > LATE) {
        const occupancy_span *span = occupancy_find_span(o, order[LATE]);
        for (unsigned i = 0; i < span->within_count; i++) __builtin_prefetch(&o->nodes[span->within[i]]);
        for (unsigned i = 0; i < span->above_count; i++) __builtin_prefetch(&o->nodes[span->above[i]]);
    }
    const occupancy_span *span = occupancy_find_span(o, order[0]);
    for (unsigned i = 0; i < span->edge_count; i++) {
        const occupancy_block *block = &o->blocks[span->edges[i].block];
        fetch(block->ranges, block->count * sizeof *block->ranges);
        fetch(block->begins, block->count * sizeof *block->begins);
        fetch(block->ends, block->count * sizeof *block->ends);
    }
    for (unsigned i = 0; i < span->within_count; i++) {
        fetch_row(&o->nodes[span->within[i]].any);
        fetch_row(&o->nodes[span->within[i]].all);
    }
    for (unsigned i = 0; i < span->above_count; i++) {
        fetch_row(&o->nodes[span->above[i]].all);
        fetch_row(&o->nodes[span->above[i]].any);
    }
}

/* Which of the next parts meet the positions. */
static uint64_t find_meeting(const source *s) {
    const uint16_t *begins = s->begins, *ends = s->ends;
    const uint16_t begin = s->begin, end = s->end;
    uint8_t meets[AT_ONCE];
    uint64_t found = 0;
    for (unsigned k = 0; k < AT_ONCE; k++) meets[k] = (begins[k] < end) & (begin < ends[k]);
    for (unsigned k = 0; k < AT_ONCE; k += 8) { /* eight bytes of 0 or 1 become eight bits */
        uint64_t bytes;
        memcpy(&bytes, meets + k, sizeof bytes);
        found |= (bytes * 0x0102040810204080u >> 56) << k;
    }
    return s->count < AT_ONCE ? found & (((uint64_t)1 << s->count) - 1) : found;
}

/* Goes on to the parts behind, when all those marked are done with; false: there are none. */
static bool next_parts(source *s) {
    while (s->count > AT_ONCE) {
        s->items += AT_ONCE;
        s->begins += AT_ONCE;
        s->ends += AT_ONCE;
        s->count -= AT_ONCE;
        s->meeting = find_meeting(s);
        if (s->meeting) return true;
    }
    s->count = 0;
    return false;
}

static void put_row(gathered *g, const occupancy_row *row) {
    g->sources[g->count] = (source){.items = row->items, .count = row->count};
    g->count += row->count > 0;
}

static void gather(occupancy *o, uint32_t buffer, gathered *g) {
    g->count = 0;
    if (o->placed) {
        const occupancy_row row = row_of_neighbours(o, buffer);
        put_row(g, &row);
        return;
    }
    const occupancy_span *span = occupancy_find_span(o, buffer);
    for (unsigned i = span->within_count; i-- > 0;) put_row(g, &o->nodes[span->within[i]].any);
    for (unsigned i = span->above_count; i-- > 0;) put_row(g, &o->nodes[span->above[i]].all);
    for (unsigned i = 0; i < span->edge_count; i++) {
        const occupancy_block *block = &o->blocks[span->edges[i].block];
        source *s = &g->sources[g->count];
        *s = (source){.items = block->ranges,
                      .count = block->count,
                      .begins = block->begins,
                      .ends = block->ends,
                      .begin = (uint16_t)span->edges[i].begin,
                      .end = (uint16_t)span->edges[i].end};
        s->meeting = find_meeting(s);
        g->count += s->meeting || next_parts(s);
    }
}

/* The first range of a source. */
static occupancy_range first_of(const source *s) {
    return s->items[s->begins ? __builtin_ctzll(s->meeting) : 0];
}

/* What is to be placed. Counted downward, its upper end is what must be aligned. */
typedef struct wanted {
    uint32_t size, mask, end;
} wanted;

static wanted want(const occupancy *o, uint32_t buffer) {
    const occupancy_life *life = &o->lives[buffer];
    return (wanted){life->size, life->alignment - 1, o->downward ? life->size : 0};
}

static inline uint32_t align(const wanted *w, uint32_t at) {
    return ((at + w->end + w->mask) & ~w->mask) - w->end;
}

/* Raises a place until the source leaves it free; true: it did not have to be raised. Places never sink again: ranges
 * below are cut off the source. */
static bool rise(source *s, const wanted *w, uint32_t *at) {
    uint32_t k = 0;
    while (k < s->count && s->items[k].high <= *at) k++;
    bool agrees = true;
    while (k < s->count && s->items[k].low < *at + w->size) {
        agrees = false;
        *at = align(w, s->items[k++].high);
        while (k < s->count && s->items[k].high <= *at) k++;
    }
    s->items += k;
    s->count -= k;
    return agrees;
}

/* The same with parts of a block, whose ends need not ascend. */
static bool rise_among_parts(source *s, const wanted *w, uint32_t *at) {
    bool agrees = true;
    do {
        for (; s->meeting; s->meeting &= s->meeting - 1) {
            const occupancy_range range = s->items[__builtin_ctzll(s->meeting)];
            if (range.low >= *at + w->size) return agrees;
            if (range.high <= *at) continue;
            *at = align(w, range.high);
            agrees = false;
        }
    } while (next_parts(s));
    return agrees;
}

/* After source `at` has moved the place, all are asked again: it early (it may soon move the place once more), and not
 * at all if nothing is left of it. */
static unsigned ask_again(source **order, unsigned *count, unsigned at) {
    source *moved = order[at];
    if (moved->count == 0) {
        order[at] = order[--*count];
    } else if (at > 0) {
        order[at] = order[at - 1];
        order[at - 1] = moved;
    }
    return 0;
}

/* Raises a place until all leave it free, or it is above the limit. */
static uint32_t find_lowest(gathered *g, const wanted *w, uint32_t at, uint32_t limit) {
    source *order[OCCUPANCY_SOURCES];
    unsigned count = g->count;
    for (unsigned i = 0; i < count; i++) order[i] = &g->sources[i];
    for (unsigned i = 0; i < count && at <= limit;) {
        const bool agrees = order[i]->begins ? rise_among_parts(order[i], w, &at) : rise(order[i], w, &at);
        i = agrees ? i + 1 : ask_again(order, &count, i);
    }
    return at;
}

size_t occupancy_lowest(occupancy *o, uint32_t buffer) {
    gathered g;
    const wanted w = want(o, buffer);
    gather(o, buffer, &g);
    return (size_t)find_lowest(&g, &w, 0, TOP) << o->shift;
}

bool occupancy_highest(occupancy *o, uint32_t buffer, size_t height, size_t *offset) {
    gathered g;
    const wanted w = want(o, buffer);
    uint32_t bottom = TOP;
    gather(o, buffer, &g);
    for (unsigned i = 0; i < g.count; i++) {
        const uint32_t low = first_of(&g.sources[i]).low;
        if (low < bottom) bottom = low;
    }
    const uint32_t at = find_lowest(&g, &w, align(&w, TOP - occupancy_units(o, height)), TOP - w.size);
    const bool found = at <= TOP - w.size;
    *offset = (size_t)(found ? TOP - at - w.size : (TOP - bottom + w.mask) & ~w.mask) << o->shift;
    return found;
}

bool occupancy_is_free(occupancy *o, uint32_t buffer, size_t offset) {
    gathered g;
    const wanted w = want(o, buffer);
    const uint32_t low = (uint32_t)(offset >> o->shift);
    const uint32_t at = o->downward ? TOP - low - w.size : low;
    gather(o, buffer, &g);
    return find_lowest(&g, &w, at, at) == at;
}

size_t occupancy_best_fit(occupancy *o, uint32_t buffer) {
    gathered g;
    const wanted w = want(o, buffer);
    gather(o, buffer, &g);
    uint32_t best = TOP, best_gap = UINT32_MAX, at = 0, end = 0; /* TOP: what is above all is no gap */
    while (best_gap > w.size && end != TOP) {
        at = find_lowest(&g, &w, at, TOP);
        end = TOP;
        for (unsigned i = 0; i < g.count; i++) {
            const source *s = &g.sources[i];
            if (s->count > 0 && first_of(s).low < end) end = first_of(s).low;
        }
        if (end != TOP ? end - at < best_gap : best == TOP) {
            best = at;
            best_gap = end - at;
        }
        at = end;
    }
    return (size_t)best << o->shift;
}
