/* occupancy.c: see occupancy.h. */
#include "passes/planners/occupancy.h"
#include "passes/planners/sorting.h"
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

/* One of two, without a branch, as nobody could guess it. */
static inline size_t choose(bool second, size_t a, size_t b) {
    return a ^ ((a ^ b) & ((size_t)0 - (size_t)second));
}

/* The first of the first `count` ranges that ends above the address; `count`: none does. */
static inline size_t ends_above(const occupancy_row *row, size_t count, size_t address) {
    const occupancy_range *low = row->items;
    while (count > 1) { /* without branches, as nobody could guess them */
        size_t half = count / 2;
        low += half & ((size_t)0 - (size_t)(low[half - 1].high <= address));
        count -= half;
    }
    return (size_t)(low - row->items) + (count > 0 && low->high <= address);
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

/* Positions of all live ranges; the blocks are not known yet. */
static bool find_positions(occupancy *o) {
    const planner_buffer *buffers = o->problem->buffers;
    size_t n = o->problem->buffer_count;
    planner_key *order = BASE_ARRAY(o->arena, planner_key, n + 1),
                *room = BASE_ARRAY(o->arena, planner_key, n + 1);
    o->lives = BASE_ARRAY(o->arena, occupancy_life, n + 1);
    if (!order || !room || !o->lives) return false;
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
        if (o->problem->buffers[i].size == 0) continue;
        find_within(o, &o->lives[i], &span);
        for (unsigned k = 0; k < span.within_count; k++) o->asked[span.within[k]] = span.within[k];
        for (unsigned k = 0; k < span.edge_count; k++) o->blocks[span.edges[k].block].count++;
        parts += span.edge_count;
    }
    for (size_t node = 2; node < 2 * o->leaves; node++)
        if (!o->asked[node]) o->asked[node] = o->asked[node >> OCCUPANCY_FAN];
    occupancy_range *ranges = BASE_ARRAY(o->arena, occupancy_range, parts);
    uint8_t *ends = BASE_ARRAY(o->arena, uint8_t, 2 * parts);
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
    memmove(block->begins + at + 1, block->begins + at, count - at);
    memmove(block->ends + at + 1, block->ends + at, count - at);
    block->ranges[at] = range;
    block->begins[at] = (uint8_t)begin;
    block->ends[at] = (uint8_t)end;
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
    for (size_t i = 0; i < 2 * o->leaves; i++) o->nodes[i].all.count = o->nodes[i].any.count = 0;
    for (size_t b = 0; b < o->block_count; b++) o->blocks[b].count = 0;
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
    for (size_t i = 0; i < n; i++) ended[o->lives[i].end]++;
    for (size_t k = 0; k < n; k++) ended[k + 1] += ended[k];
    /* Those that begin before its end, without itself and those that have ended before it begins. */
    for (size_t i = 0; i < n; i++) degrees[i] = o->lives[i].end - 1 - ended[o->lives[i].begin];
    return degrees;
}

/* What a buffer interferes with, gathered from the tree or the list. */
typedef struct gathered {
    occupancy_row rows[2 * OCCUPANCY_NODES + 2]; /* none is empty */
    unsigned count;
    occupancy_range parts[2][OCCUPANCY_BLOCK + 1];
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
    if (count > EARLY) {
        __builtin_prefetch(&o->lives[order[EARLY]]);
        __builtin_prefetch(&o->problem->buffers[order[EARLY]]);
    }
    if (count > LATE) {
        const occupancy_span *span = occupancy_find_span(o, order[LATE]);
        for (unsigned i = 0; i < span->within_count; i++) __builtin_prefetch(&o->nodes[span->within[i]]);
        for (unsigned i = 0; i < span->above_count; i++) __builtin_prefetch(&o->nodes[span->above[i]]);
    }
    const occupancy_span *span = occupancy_find_span(o, order[0]);
    for (unsigned i = 0; i < span->edge_count; i++) {
        const occupancy_block *block = &o->blocks[span->edges[i].block];
        fetch(block->ranges, block->count * sizeof *block->ranges);
        fetch(block->begins, block->count);
        fetch(block->ends, block->count);
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

/* The union of the parts of a block that meet [begin, end), without gaps shorter than `least`. In two steps, so that
 * no branch depends on a part: nobody could guess it. */
static uint32_t gather_parts(const occupancy_block *block, uint32_t begin, uint32_t end, size_t least,
                             occupancy_range *items) {
    uint8_t meets[OCCUPANCY_BLOCK], meeting[OCCUPANCY_BLOCK];
    const uint8_t *begins = block->begins, *ends = block->ends;
    const occupancy_range *ranges = block->ranges;
    const uint8_t low_end = (uint8_t)begin, high_end = (uint8_t)end;
    uint32_t found = 0;
    for (uint32_t k = 0; k < block->count; k++) meets[k] = (begins[k] < high_end) & (low_end < ends[k]);
    for (uint32_t k = 0; k < block->count; k++) {
        meeting[found] = (uint8_t)k;
        found += meets[k];
    }
    if (found == 0) return 0;
    size_t low = ranges[meeting[0]].low, high = low, at = 0;
    for (uint32_t k = 0; k < found; k++) {
        const occupancy_range range = ranges[meeting[k]];
        const bool apart = range.low >= high + least;
        low = choose(apart, low, range.low);
        high = choose(range.high > high, high, range.high);
        at += apart;
        items[at] = (occupancy_range){low, high};
    }
    return (uint32_t)at + 1;
}

static void gather(occupancy *o, uint32_t buffer, size_t least, gathered *g) {
    g->count = 0;
    if (o->placed) {
        g->rows[0] = row_of_neighbours(o, buffer);
        g->count = g->rows[0].count > 0;
        return;
    }
    const occupancy_span *span = occupancy_find_span(o, buffer);
    for (unsigned i = span->within_count; i-- > 0;) {
        g->rows[g->count] = o->nodes[span->within[i]].any;
        g->count += g->rows[g->count].count > 0;
    }
    for (unsigned i = span->above_count; i-- > 0;) {
        g->rows[g->count] = o->nodes[span->above[i]].all;
        g->count += g->rows[g->count].count > 0;
    }
    for (unsigned i = 0; i < span->edge_count; i++) {
        occupancy_row row = {.items = g->parts[i]};
        row.count = gather_parts(&o->blocks[span->edges[i].block], span->edges[i].begin, span->edges[i].end,
                                 least, g->parts[i]);
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
    gather(o, buffer, size, &g);
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
    gather(o, buffer, size, &g);
    size_t at = 0;
    for (unsigned i = 0; i < g.count;) i = rise(&g.rows[i], size, mask, &at) ? i + 1 : ask_again(&g, i);
    return at;
}

/* A union that grows at its end. What is put there starts in ascending order; gaps shorter than `least` are left out.
 * Without branches, as nobody could guess them: the low end is written in any case, and counts where there is a gap. */
typedef struct united {
    occupancy_range *items; /* with room for one more */
    size_t count, high, least;
} united;

static inline void put(united *u, size_t low, size_t high) {
    u->items[u->count].low = low;
    u->count += low >= u->high + u->least;
    u->high = high > u->high ? high : u->high;
    u->items[u->count - 1].high = u->high;
}

/* The union of two rows, neither of them empty. */
static occupancy_row unite(const occupancy_row *a, const occupancy_row *b, size_t least,
                           occupancy_range *items) {
    const occupancy_range *x = a->items, *y = b->items, *x_end = x + a->count, *y_end = y + b->count;
    united u = {items, 1, 0, least};
    u.items[0].low = x->low < y->low ? x->low : y->low;
    u.high = u.items[0].low;
    while (x < x_end && y < y_end) {
        const bool second = y->low < x->low;
        put(&u, choose(second, x->low, y->low), choose(second, x->high, y->high));
        x += !second;
        y += second;
    }
    for (; x < x_end; x++) put(&u, x->low, x->high);
    for (; y < y_end; y++) put(&u, y->low, y->high);
    return (occupancy_row){.items = items, .count = (uint32_t)u.count};
}

/* Room for the union of all rows, twice. */
static bool grow_unions(occupancy *o, const gathered *g) {
    size_t needed = 1;
    for (unsigned i = 0; i < g->count; i++) needed += g->rows[i].count;
    if (needed <= o->union_room) return true;
    needed += needed / 2;
    for (unsigned i = 0; i < 2; i++) {
        o->unions[i] = BASE_ARRAY(o->arena, occupancy_range, needed);
        if (!o->unions[i]) return false;
    }
    o->union_room = needed;
    return true;
}

/* All rows as one, without gaps shorter than `least`: short rows first, so that the long ones meet what has become short,
 * too. */
static occupancy_row unite_all(occupancy *o, gathered *g, size_t least) {
    if (g->count == 0) return (occupancy_row){0};
    for (unsigned i = 1; i < g->count; i++) {
        const occupancy_row row = g->rows[i];
        unsigned k = i;
        for (; k > 0 && g->rows[k - 1].count > row.count; k--) g->rows[k] = g->rows[k - 1];
        g->rows[k] = row;
    }
    for (unsigned i = 1; i < g->count; i++)
        g->rows[0] = unite(&g->rows[0], &g->rows[i], least, o->unions[i % 2]);
    return g->rows[0];
}

bool occupancy_best_fit(occupancy *o, uint32_t buffer, size_t *offset) {
    gathered g;
    const size_t size = o->problem->buffers[buffer].size, mask = ~(alignment_of(o, buffer) - 1);
    gather(o, buffer, size, &g);
    if (!grow_unions(o, &g)) return false;
    const occupancy_row row = unite_all(o, &g, size);
    size_t top = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (size_t k = 0; k < row.count; k++) {
        const size_t at = (top + ~mask) & mask, next = row.items[k].low;
        if (at <= next && next - at >= size && next - at < best_gap) {
            best = at;
            best_gap = next - at;
        }
        top = row.items[k].high;
    }
    *offset = best != SIZE_MAX ? best : (top + ~mask) & mask;
    return true;
}

bool occupancy_is_free(occupancy *o, uint32_t buffer, size_t offset) {
    gathered g;
    const size_t end = offset + o->problem->buffers[buffer].size;
    gather(o, buffer, 1, &g);
    for (unsigned i = 0; i < g.count; i++) {
        size_t k = ends_above(&g.rows[i], g.rows[i].count, offset);
        if (k < g.rows[i].count && g.rows[i].items[k].low < end) return false;
    }
    return true;
}
