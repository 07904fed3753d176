/* SPDX-License-Identifier: Apache-2.0 */
/* occupancy.c: see occupancy.h. */
#include "passes/planners/occupancy.h"
#include "passes/planners/base/sorting.h"
#include <stdlib.h>
#include <string.h>

enum { TOP = 1u << 31 }; /* the top of all addresses, in units: no placement comes up to it */

/* ---- blocks and the tree over them --------------------------------------------------------------------- */

/* Positions of all live ranges; the blocks are not known yet. */
static bool find_positions(occupancy *o) {
    const planner_buffer *buffers = o->problem->buffers;
    size_t n = o->problem->buffer_count, count = 0;
    planner_key *order = BASE_ARRAY(o->arena, planner_key, n + 1),
                *scratch = BASE_ARRAY(o->arena, planner_key, n + 1);
    size_t *steps = BASE_ARRAY(o->arena, size_t, n + 1); /* of the positions */
    o->starting = BASE_ARRAY(o->arena, uint32_t, n + 1);
    o->ending = BASE_ARRAY(o->arena, uint32_t, n + 1);
    if (!order || !scratch || !steps || !o->starting || !o->ending) return false;
    for (size_t i = 0; i < n; i++) order[i] = (planner_key){planner_step_key(buffers[i].first), (uint32_t)i};
    planner_sort_keys(order, n, scratch);
    for (size_t i = 0; i < n; i++) {
        if (count == 0 || order[i].key != steps[count - 1]) steps[count++] = order[i].key;
        o->lives[order[i].buffer].begin = (uint32_t)(count - 1);
        o->starting[count - 1]++;
    }
    o->position_count = count;
    for (size_t i = 0; i < n; i++) {
        const uint64_t last = planner_step_key(buffers[i].last);
        size_t low = o->lives[i].begin + 1, high = count;     /* it covers its own position */
        for (size_t step = 1; low + step < high; step *= 2) { /* most are short: look nearby first */
            if (steps[low + step] >= last) high = low + step;
            else low += step;
        }
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (steps[middle] < last) low = middle + 1;
            else high = middle;
        }
        o->lives[i].end = (uint32_t)low;
        o->ending[low]++;
    }
    return true;
}

/* How many live ranges may begin or end in a block: an average one is to cover no more than OCCUPANCY_BLOCKS. */
static size_t find_most_edges(const occupancy *o) {
    size_t n = o->problem->buffer_count, length = 0;
    for (size_t i = 0; i < n; i++) length += o->lives[i].end - o->lives[i].begin;
    const size_t edges = n ? 2 * length / o->position_count / OCCUPANCY_BLOCKS : 0;
    if (edges < OCCUPANCY_FEWEST) return OCCUPANCY_FEWEST;
    return edges < UINT16_MAX - 1 ? edges
                                  : UINT16_MAX - 1; /* positions of a block are one more, at the most */
}

/* Cuts positions into blocks, so that few live ranges begin or end within one. */
static bool cut_blocks(occupancy *o) {
    size_t n = o->problem->buffer_count, count = 0, edges = 0;
    const size_t most = find_most_edges(o);
    uint32_t *blocks = BASE_ARRAY(o->arena, uint32_t, o->position_count + 1); /* of a position */
    if (!blocks) return false;
    for (size_t i = 0; i < o->position_count; i++) {
        edges += (size_t)o->starting[i] + o->ending[i];
        if (count == 0 || edges > most) {
            count++;
            edges = 0; /* what begins or ends where a block begins, is not cut by it */
        }
        blocks[i] = (uint32_t)(count - 1);
    }
    o->block_count = count;
    o->blocks = BASE_ARRAY(o->arena, occupancy_block, count + 1);
    if (!o->blocks) return false;
    for (size_t i = o->position_count; i-- > 0;) o->blocks[blocks[i]].start = (uint32_t)i;
    o->blocks[count].start = (uint32_t)o->position_count;
    for (size_t i = 0; i < n; i++) {
        o->lives[i].first = blocks[o->lives[i].begin];
        o->lives[i].last = blocks[o->lives[i].end - 1];
    }
    return true;
}

/* Whether a live range begins, and ends, within a block. */
typedef struct cuts {
    bool begin, end;
} cuts;

static cuts cuts_of(const occupancy *o, const occupancy_life *life) {
    return (cuts){life->begin != o->blocks[life->first].start, life->end != o->blocks[life->last + 1].start};
}

/* The edges of a span, and the nodes within it. */
static void find_within(const occupancy *o, const occupancy_life *life, occupancy_span *span) {
    const occupancy_block *first = &o->blocks[life->first], *last = &o->blocks[life->last];
    const cuts cut = cuts_of(o, life);
    uint32_t within = 0, edges = 0;
    if (cut.begin || (cut.end && first == last)) {
        span->edges[edges].block = life->first;
        span->edges[edges].begin = life->begin - first->start;
        span->edges[edges++].end = (first == last ? life->end : first[1].start) - first->start;
    }
    if (cut.end && first != last) {
        span->edges[edges].block = life->last;
        span->edges[edges].begin = 0;
        span->edges[edges++].end = life->end - last->start;
    }
    for (size_t low = o->leaves + life->first + cut.begin, high = o->leaves + life->last + 1 - cut.end;
         low < high; low /= 2, high /= 2) {
        if (low % 2) span->within[within++] = (uint32_t)low++;
        if (high % 2) span->within[within++] = (uint32_t)--high;
    }
    span->edge_count = edges;
    span->within_count = within;
}

/* What lies above a span begins before it or ends after it, and so is on one of the paths from its ends to the root. */
uint32_t planner_occupancy_find_above(const occupancy *o, uint32_t buffer, uint32_t *above) {
    const occupancy_life *life = &o->lives[buffer];
    const size_t left = o->leaves + life->first, right = o->leaves + life->last;
    const cuts cut = cuts_of(o, life);
    const int depth = __builtin_clzll(o->leaves);
    uint32_t count = 0;
    for (size_t node = o->asked[left]; node; node = o->asked[node / 2]) {
        const int level = __builtin_clzll(node) - depth;
        const bool before = cut.begin || node << level != left, together = right >> level == node;
        if (before || (together && (cut.end || (node + 1) << level != right + 1)))
            above[count++] = (uint32_t)node;
    }
    for (size_t node = o->asked[right]; node; node = o->asked[node / 2]) {
        const int level = __builtin_clzll(node) - depth;
        if (left >> level == node) break; /* from there on the paths are one */
        if (cut.end || (node + 1) << level != right + 1) above[count++] = (uint32_t)node;
    }
    return count;
}

/* Groups of one level: those that a live range meets, and those that it covers. */
typedef struct reach {
    size_t low, high;             /* the first and the last that it meets */
    size_t whole_low, whole_high; /* it covers those from the one up to the other, but not that */
} reach;

static reach reach_of(const occupancy *o, const occupancy_life *life) {
    const cuts cut = cuts_of(o, life);
    reach blocks = {life->first, life->last, (size_t)life->first + cut.begin,
                    (size_t)life->last + 1 - cut.end};
    if (blocks.whole_high < blocks.whole_low) blocks.whole_high = blocks.whole_low;
    return blocks;
}

static reach reach_above(const occupancy *o, reach below) {
    const size_t others = ((size_t)1 << o->group) - 1;
    reach above = {below.low >> o->group, below.high >> o->group, (below.whole_low + others) >> o->group,
                   below.whole_high >> o->group};
    if (above.whole_high < above.whole_low) above.whole_high = above.whole_low;
    return above;
}

static bool is_whole(const reach *r, size_t group) {
    return r->whole_low <= group && group < r->whole_high;
}

/* The groups in which a span begins and ends, but does not cover: first the blocks of its edges, in their order. */
static void find_groups(const occupancy *o, const occupancy_life *life, occupancy_span *span) {
    reach r = reach_of(o, life);
    uint32_t count = 0;
    for (size_t level = 0; level < o->levels; level++, r = reach_above(o, r)) {
        if (!is_whole(&r, r.low)) span->groups[count++] = &o->groups[level][r.low];
        if (r.high != r.low && !is_whole(&r, r.high)) span->groups[count++] = &o->groups[level][r.high];
    }
    span->group_count = count;
}

const occupancy_span *planner_occupancy_find_span(occupancy *o, uint32_t buffer) {
    for (unsigned i = 0; i < OCCUPANCY_SPANS; i++)
        if (o->spans[i].buffer == buffer) return &o->spans[i];
    occupancy_span *span = &o->spans[o->oldest];
    o->oldest = (o->oldest + 1) % OCCUPANCY_SPANS;
    span->buffer = buffer;
    find_within(o, &o->lives[buffer], span);
    find_groups(o, &o->lives[buffer], span);
    return span;
}

/* Parts of a block that are looked at together. */
enum { AT_ONCE = 64 };

static bool tree_init(occupancy *o) {
    size_t n = o->problem->buffer_count, parts = 0, covered = 0;
    if (!find_positions(o) || !cut_blocks(o)) return false;
    o->leaves = 1;
    while (o->leaves < o->block_count) o->leaves *= 2;
    o->asked = BASE_ARRAY(o->arena, uint32_t, 2 * o->leaves);
    o->nodes = BASE_ARRAY(o->arena, address_row, 2 * o->leaves);
    if (!o->asked || !o->nodes) return false;
    for (uint32_t i = 0; i < n; i++) {
        occupancy_span span;
        if (o->lives[i].size == 0) continue;
        find_within(o, &o->lives[i], &span);
        for (unsigned k = 0; k < span.within_count; k++) o->asked[span.within[k]] = span.within[k];
        for (unsigned k = 0; k < span.edge_count; k++) o->blocks[span.edges[k].block].count++;
        parts += span.edge_count;
        covered += o->lives[i].last - o->lives[i].first;
    }
    const bool grouped = o->block_count > OCCUPANCY_MANY && covered / n >= OCCUPANCY_FEW;
    o->group = OCCUPANCY_GROUP;
    while (!grouped && o->leaves >> o->group > 0) o->group++; /* one level */
    for (size_t groups = o->leaves; groups > 0; groups >>= o->group) {
        o->groups[o->levels] = BASE_ARRAY(o->arena, address_row, groups);
        if (!o->groups[o->levels++]) return false;
    }
    for (size_t node = 2; node < 2 * o->leaves; node++)
        if (!o->asked[node]) o->asked[node] = o->asked[node / 2];
    address_range *ranges = BASE_ARRAY(o->arena, address_range, parts);
    uint16_t *ends = BASE_ARRAY(o->arena, uint16_t, 2 * parts + AT_ONCE); /* as many are read at the end */
    uint32_t *tops = BASE_ARRAY(o->arena, uint32_t, parts / AT_ONCE + o->block_count);
    if (!ranges || !ends || !tops) return false;
    for (size_t b = 0; b < o->block_count; b++) {
        occupancy_block *block = &o->blocks[b];
        block->ranges = ranges;
        block->begins = ends;
        block->ends = ends + block->count;
        block->tops = tops;
        tops += (block->count + AT_ONCE - 1) / AT_ONCE;
        ranges += block->count;
        ends += 2 * (size_t)block->count;
        block->count = 0;
    }
    for (unsigned i = 0; i < OCCUPANCY_SPANS; i++) o->spans[i].buffer = UINT32_MAX;
    return true;
}

static void part_add(occupancy_block *block, uint32_t begin, uint32_t end, address_range range) {
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
    if (count % AT_ONCE == 0) block->tops[count / AT_ONCE] = count ? block->tops[count / AT_ONCE - 1] : 0;
    for (size_t k = at / AT_ONCE; k <= count / AT_ONCE; k++)
        if (block->tops[k] < range.high) block->tops[k] = range.high;
    block->ranges[at] = range;
    block->begins[at] = (uint16_t)begin;
    block->ends[at] = (uint16_t)end;
}

/* Rows that are to take the same range: they are fetched together, as each would wait for memory. */
typedef struct batch {
    address_row *rows[16];
    unsigned count;
} batch;

static bool batch_take(occupancy *o, batch *rows, address_range range) {
    for (unsigned i = 0; i < rows->count; i++) planner_address_row_expect(rows->rows[i], range.low);
    for (unsigned i = 0; i < rows->count; i++)
        if (!planner_address_row_add(&o->pool, rows->rows[i], range)) return false;
    rows->count = 0;
    return true;
}

static bool batch_put(occupancy *o, batch *rows, address_row *row, address_range range) {
    rows->rows[rows->count++] = row;
    return rows->count < sizeof rows->rows / sizeof *rows->rows || batch_take(o, rows, range);
}

/* Puts the nodes of one level of the tree from one to another, but for those from passed_low up to passed_high. */
static bool nodes_add(occupancy *o, batch *rows, address_range range, size_t low, size_t high,
                      size_t passed_low, size_t passed_high) {
    for (size_t node = low; node <= high; node++) {
        if (node == passed_low && passed_low < passed_high) node = passed_high;
        if (node <= high && o->asked[node] == node && !batch_put(o, rows, &o->nodes[node], range))
            return false;
    }
    return true;
}

static bool tree_add(occupancy *o, uint32_t buffer, address_range range) {
    const occupancy_span *span = planner_occupancy_find_span(o, buffer);
    batch rows = {.count = 0};
    for (unsigned i = 0; i < span->edge_count; i++)
        part_add(&o->blocks[span->edges[i].block], span->edges[i].begin, span->edges[i].end, range);
    reach r = reach_of(o, &o->lives[buffer]);
    size_t first = o->leaves; /* of a level of the tree, its first node */
    for (size_t level = 0; level < o->levels; level++) {
        /* What lies in groups of the next level that the live range covers is said of these. */
        reach above = reach_above(o, r);
        if (level + 1 == o->levels) above.whole_high = above.whole_low;
        const size_t passed_low = above.whole_low << o->group, passed_high = above.whole_high << o->group;
        for (size_t group = r.whole_low; group < r.whole_high; group++) {
            if (group == passed_low && passed_low < passed_high) group = passed_high;
            if (group < r.whole_high && !batch_put(o, &rows, &o->groups[level][group], range)) return false;
        }
        for (unsigned height = 0; height < o->group && first > 0; height++, first /= 2) {
            if (!nodes_add(o, &rows, range, first + (r.low >> height), first + (r.high >> height),
                           first + (passed_low >> height), first + (passed_high >> height)))
                return false;
        }
        r = above;
    }
    return batch_take(o, &rows, range);
}

/* ---- listed interference ------------------------------------------------------------------------------- */

static int compare_ranges(const void *left, const void *right) {
    const address_range *a = left, *b = right;
    if (a->low != b->low) return a->low < b->low ? -1 : 1;
    return (a->high > b->high) - (a->high < b->high);
}

/* Puts a range after the others of a row; it does not start below them. */
static inline void row_append(address_row *row, address_range range) {
    if (row->count > 0 && range.low <= row->items[row->count - 1].high) {
        if (range.high > row->items[row->count - 1].high) row->items[row->count - 1].high = range.high;
    } else {
        row->items[row->count++] = range;
    }
}

static address_row row_of_neighbours(const occupancy *o, uint32_t buffer) {
    const planner_problem *problem = o->problem;
    address_row row = {.items = o->scratch};
    size_t count = 0;
    for (size_t k = problem->starts[buffer]; k < problem->starts[buffer + 1]; k++) {
        uint32_t other = problem->neighbours[k];
        if (o->placed[other]) o->scratch[count++] = o->taken[other];
    }
    if (count) qsort(o->scratch, count, sizeof *o->scratch, compare_ranges);
    for (size_t k = 0; k < count; k++) row_append(&row, o->scratch[k]);
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

bool planner_occupancy_init(occupancy *o, const planner_problem *problem, occupancy_end end,
                            base_arena *arena) {
    *o = (occupancy){
        .problem = problem, .arena = arena, .pool = {.arena = arena}, .downward = end == OCCUPANCY_HIGHEST};
    o->lives = BASE_ARRAY(arena, occupancy_life, problem->buffer_count + 1);
    if (!o->lives || !find_units(o)) return false;
    if (!problem->starts) return tree_init(o);
    o->placed = BASE_ARRAY(arena, bool, problem->buffer_count + 1);
    o->taken = BASE_ARRAY(arena, address_range, problem->buffer_count + 1);
    o->scratch = BASE_ARRAY(arena, address_range, problem->buffer_count + 1);
    return o->placed && o->taken && o->scratch;
}

void planner_occupancy_clear(occupancy *o, occupancy_end end) {
    o->downward = end == OCCUPANCY_HIGHEST;
    if (o->placed) {
        memset(o->placed, 0, o->problem->buffer_count * sizeof *o->placed);
        return;
    }
    for (size_t i = 0; i < 2 * o->leaves; i++) planner_address_row_clear(&o->pool, &o->nodes[i]);
    for (size_t level = 0, groups = o->leaves; level < o->levels; level++, groups >>= o->group)
        for (size_t i = 0; i < groups; i++) planner_address_row_clear(&o->pool, &o->groups[level][i]);
    for (size_t b = 0; b < o->block_count; b++) o->blocks[b].count = 0;
}

bool planner_occupancy_add(occupancy *o, uint32_t buffer, size_t offset) {
    const uint32_t size = o->lives[buffer].size, low = (uint32_t)(offset >> o->shift), high = low + size;
    const address_range range =
        o->downward ? (address_range){TOP - high, TOP - low} : (address_range){low, high};
    if (size == 0) return true;
    if (!o->placed) return tree_add(o, buffer, range);
    o->placed[buffer] = true;
    o->taken[buffer] = range;
    return true;
}

uint32_t *planner_occupancy_degrees(const occupancy *o) {
    const size_t n = o->problem->buffer_count;
    uint32_t *degrees = BASE_ARRAY(o->arena, uint32_t, n + 1);
    if (!degrees) return NULL;
    if (o->placed) {
        for (size_t i = 0; i < n; i++)
            degrees[i] = (uint32_t)(o->problem->starts[i + 1] - o->problem->starts[i]);
        return degrees;
    }
    uint32_t *started = BASE_ARRAY(o->arena, uint32_t, o->position_count + 1), /* before a position */
        *ended = BASE_ARRAY(o->arena, uint32_t, o->position_count + 1); /* before it, or where it begins */
    if (!started || !ended) return NULL;
    for (size_t k = 0; k < o->position_count; k++) {
        started[k + 1] = started[k] + o->starting[k];
        ended[k + 1] = ended[k] + o->ending[k + 1];
    }
    for (size_t i = 0; i < n; i++) degrees[i] = started[o->lives[i].end] - ended[o->lives[i].begin] - 1;
    return degrees;
}

/* Ranges that a buffer interferes with, the lowest first: a row, or those parts of a block that meet its
 * positions [begin, end). Of AT_ONCE parts it is found at once which do, so that no branch depends on one of them: nobody
 * could guess it. */
typedef struct source {
    address_walk row;
    const address_range *items;
    uint32_t count;
    uint16_t begin, end;
    const uint16_t *begins, *ends; /* NULL: it is a row */
    const uint32_t *tops;
    uint64_t meeting;
} source;

typedef struct gathered {
    source sources[OCCUPANCY_SOURCES]; /* none is empty */
    uint32_t lows[OCCUPANCY_SOURCES];  /* of the first range of each; UINT32_MAX: nothing is left of it */
    unsigned count;
} gathered;

/* Lines of 64 bytes. */
static inline void fetch(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)from + at);
}

static inline void fetch_row(const address_row *row) {
    fetch(row->array, row->cut ? (row->count < 32 ? row->count : 32) * sizeof *row->runs
                               : (row->count < 64 ? row->count : 64) * sizeof *row->items);
}

void planner_occupancy_expect(occupancy *o, const uint32_t *order, size_t count) {
    enum { EARLY = 8, LATE = 2 }; /* when to fetch what the others say the place of */
    if (o->placed || count == 0) return;
    if (count > EARLY) __builtin_prefetch(&o->lives[order[EARLY]]);
    if (count > LATE) {
        const occupancy_span *span = planner_occupancy_find_span(o, order[LATE]);
        for (unsigned i = 0; i < span->within_count; i++) __builtin_prefetch(&o->nodes[span->within[i]]);
        for (unsigned i = 0; i < span->edge_count; i++) __builtin_prefetch(&o->blocks[span->edges[i].block]);
        for (unsigned i = 0; i < span->group_count; i++) __builtin_prefetch(span->groups[i]);
    }
    const occupancy_span *span = planner_occupancy_find_span(o, order[0]);
    for (unsigned i = 0; i < span->edge_count; i++) {
        const occupancy_block *block = &o->blocks[span->edges[i].block];
        const size_t parts = block->count < OCCUPANCY_FEWEST ? block->count : OCCUPANCY_FEWEST;
        fetch(block->ranges, parts * sizeof *block->ranges);
        fetch(block->begins, parts * sizeof *block->begins);
        fetch(block->ends, parts * sizeof *block->ends);
    }
    for (unsigned i = 0; i < span->group_count; i++) fetch_row(span->groups[i]);
    for (unsigned i = 0; i < span->within_count; i++) fetch_row(&o->nodes[span->within[i]]);
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

/* Goes on to parts after that end above the address, when all those marked are done with; false: there are none. */
static bool next_parts(source *s, uint32_t at) {
    while (s->count > AT_ONCE) {
        s->items += AT_ONCE;
        s->begins += AT_ONCE;
        s->ends += AT_ONCE;
        s->count -= AT_ONCE;
        if (*++s->tops <= at) continue;
        s->meeting = find_meeting(s);
        if (s->meeting) return true;
    }
    s->count = 0;
    return false;
}

/* Where the first range of a source begins. */
static uint32_t find_low(const source *s) {
    if (s->begins) return s->count > 0 ? s->items[__builtin_ctzll(s->meeting)].low : UINT32_MAX;
    return s->row.count > 0 ? s->row.items->low : UINT32_MAX;
}

static void put_row(gathered *g, const address_row *row) {
    if (row->count == 0) return;
    source *s = &g->sources[g->count];
    s->row = address_walk_begin(row);
    s->begins = NULL;
    g->lows[g->count++] = find_low(s);
}

static void gather(occupancy *o, uint32_t buffer, gathered *g) {
    g->count = 0;
    if (o->placed) {
        const address_row row = row_of_neighbours(o, buffer);
        put_row(g, &row);
        return;
    }
    const occupancy_span *span = planner_occupancy_find_span(o, buffer);
    if (span->within_count > 0) put_row(g, &o->nodes[span->within[span->within_count - 1]]);
    for (unsigned i = span->edge_count; i < span->group_count; i++) put_row(g, span->groups[i]);
    for (unsigned i = span->within_count; i-- > 1;) put_row(g, &o->nodes[span->within[i - 1]]);
    for (unsigned i = 0; i < span->edge_count; i++) {
        const occupancy_block *block = &o->blocks[span->edges[i].block];
        put_row(g, span->groups[i]);
        source *s = &g->sources[g->count];
        *s = (source){.items = block->ranges,
                      .count = block->count,
                      .begins = block->begins,
                      .ends = block->ends,
                      .tops = block->tops,
                      .begin = (uint16_t)span->edges[i].begin,
                      .end = (uint16_t)span->edges[i].end};
        s->meeting = find_meeting(s);
        if (s->meeting || next_parts(s, 0)) g->lows[g->count++] = find_low(s);
    }
}

static address_wanted want(const occupancy *o, uint32_t buffer) {
    const occupancy_life *life = &o->lives[buffer];
    return (address_wanted){life->size, life->alignment - 1, o->downward ? life->size : 0};
}

/* planner_address_walk_rise, with parts of a block, whose ends need not ascend. */
static bool rise_among_parts(source *s, const address_wanted *w, uint32_t *at) {
    bool agrees = true;
    if (*s->tops <= *at) s->meeting = 0;
    do {
        for (; s->meeting; s->meeting &= s->meeting - 1) {
            const address_range range = s->items[__builtin_ctzll(s->meeting)];
            if (range.low >= *at + w->size) return agrees;
            if (range.high <= *at) continue;
            *at = address_align(w, range.high);
            agrees = false;
        }
    } while (next_parts(s, *at));
    return agrees;
}

/* Raises a place until all leave it free, or it is above the limit. Only those are asked whose next range is in the way,
 * and of these always the first: most places come to nothing there. */
static uint32_t find_lowest(gathered *g, const address_wanted *w, uint32_t at, uint32_t limit) {
    for (unsigned i = 0; i < g->count && at <= limit;) {
        if (g->lows[i] >= at + w->size) {
            i++;
            continue;
        }
        source *s = &g->sources[i];
        const bool agrees =
            s->begins ? rise_among_parts(s, w, &at) : planner_address_walk_rise(&s->row, w, &at);
        g->lows[i] = find_low(s);
        i = agrees ? i + 1 : 0;
    }
    return at;
}

size_t planner_occupancy_lowest(occupancy *o, uint32_t buffer) {
    gathered g;
    const address_wanted w = want(o, buffer);
    gather(o, buffer, &g);
    return (size_t)find_lowest(&g, &w, 0, TOP) << o->shift;
}

bool planner_occupancy_highest(occupancy *o, uint32_t buffer, size_t height, size_t *offset) {
    gathered g;
    const address_wanted w = want(o, buffer);
    uint32_t bottom = TOP;
    gather(o, buffer, &g);
    for (unsigned i = 0; i < g.count; i++) bottom = g.lows[i] < bottom ? g.lows[i] : bottom;
    const uint32_t at =
        find_lowest(&g, &w, address_align(&w, TOP - occupancy_units(o, height)), TOP - w.size);
    const bool found = at <= TOP - w.size;
    *offset = (size_t)(found ? TOP - at - w.size : (TOP - bottom + w.mask) & ~w.mask) << o->shift;
    return found;
}

bool planner_occupancy_is_free(occupancy *o, uint32_t buffer, size_t offset) {
    gathered g;
    const address_wanted w = want(o, buffer);
    const uint32_t low = (uint32_t)(offset >> o->shift);
    const uint32_t at = o->downward ? TOP - low - w.size : low;
    gather(o, buffer, &g);
    return find_lowest(&g, &w, at, at) == at;
}

size_t planner_occupancy_best_fit(occupancy *o, uint32_t buffer) {
    gathered g;
    const address_wanted w = want(o, buffer);
    gather(o, buffer, &g);
    uint32_t best = TOP, best_gap = UINT32_MAX, at = 0, end = 0; /* TOP: what is above all is no gap */
    while (best_gap > w.size && end != TOP) {
        at = find_lowest(&g, &w, at, TOP);
        end = TOP;
        for (unsigned i = 0; i < g.count; i++) end = g.lows[i] < end ? g.lows[i] : end;
        if (end != TOP ? end - at < best_gap : best == TOP) {
            best = at;
            best_gap = end - at;
        }
        at = end;
    }
    return (size_t)best << o->shift;
}
