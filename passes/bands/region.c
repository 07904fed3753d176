/* SPDX-License-Identifier: Apache-2.0 */
/* region.c: see region.h. */
#include "passes/bands/region.h"
#include <string.h>

enum { MOST_BANDS = 1 << 16 };

band_rows band_clip(band_rows rows, int64_t count) {
    const band_rows clipped = {rows.first < 0 ? 0 : rows.first, rows.end > count ? count : rows.end};
    return clipped.first < clipped.end ? clipped : (band_rows){0, 0};
}

static int64_t between(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

const band_node *band_region_maker(const band_region *region, const ir_value *value) {
    const uint32_t place = value->kind == IR_RESULT_OF_NODE && value->graph == region->graph
                               ? region->places[value->node->id.index]
                               : 0;
    return place ? &region->nodes[place - 1] : NULL;
}

band_rows band_region_reads(const band_node *node, uint32_t input, band_rows made) {
    /* A residual is read where it is added. */
    return input == 0 ? band_window_rows(&node->window, made) : made;
}

/* ---- who is in it -------------------------------------------------------------------------------------- */

static bool read_node(band_region *region, ir_node *node, base_arena *arena, bool *fits) {
    band_node *own = &region->nodes[region->count];
    if (!band_node_supported(node, arena)) {
        *fits = false;
        return true;
    }
    *own = (band_node){.node = node, .rows = band_node_rows(node)};
    if (!band_node_window(node, arena, &own->window)) return false;
    region->places[node->id.index] = (uint32_t)++region->count;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (band_node_reading(node, i) == BAND_READS_ALL && band_region_maker(region, ir_input(node, i)))
            *fits = false;
    }
    return true;
}

static void find_readers(band_region *region) {
    for (size_t n = 0; n < region->count; n++) {
        band_node *own = &region->nodes[n];
        own->sink = true;
        for (uint32_t o = 0; o < own->node->output_count; o++) {
            const ir_value *output = own->node->outputs[o];
            for (const ir_use *use = output ? output->uses : NULL; use; use = use->next) {
                if (use->node && use->node->graph == region->graph && region->places[use->node->id.index])
                    own->sink = false;
                else own->exported = true;
            }
        }
    }
}

/* ---- advances ------------------------------------------------------------------------------------------ */

/* How many rows of each node make one of the last one, as fractions: along readers and read, until all are known. */
typedef struct rate {
    int64_t up, down; /* 0: not known yet */
} rate;

static bool set_rate(rate *of, int64_t up, int64_t down) {
    enum { MOST = 1 << 20 };
    int64_t a = up, b = down;
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    up /= a;
    down /= a;
    if (up > MOST || down > MOST) return false;
    if (!of->down) *of = (rate){up, down};
    return of->up == up && of->down == down;
}

/* Between node n and what it reads as input `input`. */
static bool join_rates(const band_region *region, rate *rates, size_t n, uint32_t input) {
    const band_node *own = &region->nodes[n];
    const band_node *read = band_region_maker(region, ir_input(own->node, input));
    if (!read) return true;
    rate *inner = &rates[read - region->nodes], *outer = &rates[n];
    const int64_t stride = input == 0 ? own->window.stride : 1, up = input == 0 ? own->window.up : 1;
    if (outer->down) return set_rate(inner, outer->up * stride, outer->down * up);
    return !inner->down || set_rate(outer, inner->up * up, inner->down * stride);
}

static bool find_advances(band_region *region, base_arena *arena, bool *fits) {
    rate *rates = BASE_ARRAY(arena, rate, region->count);
    if (!rates) return false;
    rates[region->count - 1] = (rate){1, 1};
    bool changed = true;
    while (changed && *fits) {
        changed = false;
        for (size_t n = region->count; n-- > 0 && *fits;) {
            const ir_node *node = region->nodes[n].node;
            const rate before = rates[n];
            for (uint32_t i = 0; i < node->input_count && *fits; i++) {
                const band_node *read = band_node_reading(node, i) == BAND_READS_ROWS
                                            ? band_region_maker(region, ir_input(node, i))
                                            : NULL;
                if (!read) continue;
                const rate old = rates[read - region->nodes];
                *fits = join_rates(region, rates, n, i);
                changed = changed || old.down != rates[read - region->nodes].down;
            }
            changed = changed || before.down != rates[n].down;
        }
    }
    for (size_t n = 0; n < region->count && *fits; n++) {
        *fits = rates[n].down && region->height * rates[n].up % rates[n].down == 0;
        if (*fits) region->nodes[n].advance = region->height * rates[n].up / rates[n].down;
        if (*fits) *fits = region->nodes[n].advance % region->nodes[n].window.up == 0;
    }
    return true;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* How far each node has to be when band `i` ends, ends not yet cut off; and how many of its rows anybody needs. */
static void find_ends(band_region *region, int64_t i, int64_t *ends) {
    for (size_t n = 0; n < region->count; n++)
        ends[n] = region->nodes[n].sink ? region->nodes[n].advance * (i + 1) : INT64_MIN;
    for (size_t n = region->count; n-- > 0;) {
        const ir_node *node = region->nodes[n].node;
        ends[n] = band_round_up(ends[n], region->nodes[n].window.up);
        for (uint32_t k = 0; k < node->input_count; k++) {
            if (band_node_reading(node, k) != BAND_READS_ROWS) continue;
            const band_node *read = band_region_maker(region, ir_input(node, k));
            if (!read) continue;
            const int64_t end =
                band_region_reads(&region->nodes[n], k, (band_rows){ends[n] - 1, ends[n]}).end;
            int64_t *own = &ends[read - region->nodes];
            if (end > *own) *own = end;
        }
    }
}

static void find_needed(band_region *region) {
    for (size_t n = region->count; n-- > 0;) {
        band_node *own = &region->nodes[n];
        if (own->exported) own->needed = own->rows;
        own->needed = band_round_up(own->needed, own->window.up);
        for (uint32_t k = 0; k < own->node->input_count; k++) {
            if (band_node_reading(own->node, k) != BAND_READS_ROWS) continue;
            const band_node *maker = band_region_maker(region, ir_input(own->node, k));
            if (!maker) continue;
            band_node *read = &region->nodes[maker - region->nodes];
            const band_rows rows =
                band_clip(band_region_reads(own, k, (band_rows){own->needed - 1, own->needed}), read->rows);
            if (rows.end > read->needed) read->needed = rows.end;
        }
    }
}

/* The first and the last band that make anything. */
static void find_bands(band_region *region, int64_t *ends, int64_t *first, int64_t *last) {
    bool any = true;
    for (*first = 0; any; --*first) {
        any = false;
        find_ends(region, *first - 1, ends);
        for (size_t n = 0; n < region->count; n++) any = any || ends[n] > 0;
        if (!any) break;
    }
    /* A result that is read outside may have rows that no reader inside asks for. */
    *last = -1;
    for (any = true; any && *last < MOST_BANDS;) {
        any = false;
        find_ends(region, ++*last, ends);
        for (size_t n = 0; n < region->count; n++) any = any || ends[n] < region->nodes[n].needed;
    }
}

/* Which rows are made in band b, and from which on they are kept: the readers come first. */
static void find_made(band_region *region, int64_t b, const int64_t *ends) {
    for (size_t n = 0; n < region->count; n++) {
        band_node *own = &region->nodes[n];
        own->high[b] = between(ends[n], 0, own->needed);
        own->low[b] = own->exported ? (b ? own->high[b - 1] : 0) : own->needed;
    }
    for (size_t n = region->count; n-- > 0;) {
        band_node *own = &region->nodes[n];
        const int64_t before = b ? own->high[b - 1] : 0;
        own->low[b] = band_round_down(own->low[b], own->window.up);
        const int64_t from = before > own->low[b] ? before : own->low[b];
        own->made[b] = (band_rows){from, own->high[b] > from ? own->high[b] : from};
        if (from >= own->needed) continue; /* it reads nothing any more */
        for (uint32_t k = 0; k < own->node->input_count; k++) {
            if (band_node_reading(own->node, k) != BAND_READS_ROWS) continue;
            const band_node *maker = band_region_maker(region, ir_input(own->node, k));
            if (!maker) continue;
            band_node *read = &region->nodes[maker - region->nodes];
            int64_t low = band_region_reads(own, k, (band_rows){from, from + 1}).first;
            if (low < 0) low = 0;
            if (low < read->low[b]) read->low[b] = low;
        }
    }
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

/* Band b makes something of every node, sees no padding, and all its numbers are those of the band before, so many rows on. */
static bool goes_on(const band_region *region, int64_t b) {
    for (size_t n = 0; n < region->count; n++) {
        const band_node *own = &region->nodes[n];
        const int64_t by = own->advance;
        if (own->made[b].first != own->made[b - 1].first + by ||
            own->made[b].end != own->made[b - 1].end + by || own->low[b] != own->low[b - 1] + by ||
            own->high[b] != own->high[b - 1] + by)
            return false;
    }
    return true;
}

static bool sees_no_padding(const band_region *region, int64_t b) {
    for (size_t n = 0; n < region->count; n++) {
        const band_node *own = &region->nodes[n];
        if (own->made[b].first == own->made[b].end) return false;
        for (uint32_t k = 0; k < own->node->input_count; k++) {
            if (band_node_reading(own->node, k) != BAND_READS_ROWS) continue;
            const band_rows rows = band_region_reads(own, k, own->made[b]);
            if (rows.first < 0 || rows.end > ir_input(own->node, k)->type.shape.dims[BAND_AXIS]) return false;
        }
    }
    return true;
}

/* What is kept when the first band begins is as much as later. */
static bool begins(const band_region *region, int64_t b) {
    for (size_t n = 0; n < region->count; n++) {
        const band_node *own = &region->nodes[n];
        const int64_t before = b ? own->high[b - 1] : 0;
        if (own->high[b] - before != own->advance) return false;
    }
    return true;
}

static void find_loop(band_region *region) {
    int64_t first = -1;
    for (int64_t b = 0; b < region->band_count; b++) {
        const bool steady = sees_no_padding(region, b);
        if (!steady) first = -1;
        else if (first < 0 || !goes_on(region, b)) first = begins(region, b) ? b : -1;
        if (first >= 0 && b + 1 - first > region->loop_end - region->loop_first) {
            region->loop_first = first;
            region->loop_end = b + 1;
        }
    }
    if (region->loop_end - region->loop_first < 2) region->loop_first = region->loop_end = 0;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bool find_rows(band_region *region, base_arena *arena, bool *fits) {
    int64_t *ends = BASE_ARRAY(arena, int64_t, region->count), first, last;
    if (!ends) return false;
    find_needed(region);
    find_bands(region, ends, &first, &last);
    region->band_count = last + 1 - first;
    if (region->band_count > MOST_BANDS) {
        *fits = false;
        return true;
    }
    for (size_t n = 0; n < region->count; n++) {
        band_node *own = &region->nodes[n];
        const size_t bands = (size_t)region->band_count;
        own->made = BASE_ARRAY(arena, band_rows, bands);
        own->low = BASE_ARRAY(arena, int64_t, bands + 1);
        own->high = BASE_ARRAY(arena, int64_t, bands);
        if (!own->made || !own->low || !own->high) return false;
        own->low[bands] = own->needed;
    }
    for (int64_t b = 0; b < region->band_count; b++) {
        find_ends(region, first + b, ends);
        find_made(region, b, ends);
        for (size_t n = 0; n < region->count; n++) {
            const band_rows made = region->nodes[n].made[b];
            if (band_too_few(region->nodes[n].node, made.end - made.first)) *fits = false;
        }
    }
    find_loop(region);
    return true;
}

bool band_region_new(ir_node *first, ir_node *last, int64_t height, base_arena *arena, band_region **made,
                     bool *fits) {
    size_t count = 1;
    for (const ir_node *node = first; node != last; node = node->next) count++;
    band_region *region = BASE_NEW(arena, band_region);
    *made = region;
    *fits = true;
    if (!region) return false;
    *region = (band_region){.graph = first->graph, .height = height};
    region->nodes = BASE_ARRAY(arena, band_node, count);
    region->places = BASE_ARRAY(arena, uint32_t, first->graph->module->node_count);
    if (!region->nodes || !region->places) return false;
    for (ir_node *node = first; *fits; node = node->next) {
        if (!read_node(region, node, arena, fits)) return false;
        if (node == last) break;
    }
    if (!*fits) return true;
    find_readers(region);
    return find_advances(region, arena, fits) && (!*fits || find_rows(region, arena, fits));
}

/* ---- results in the place of what comes in ---------------------------------------------------------------- */

/* No band of the node reads rows of its input that the maker of the result has made in an earlier band. */
static bool reads_ahead(const band_region *region, const band_node *reader, uint32_t input,
                        const band_node *maker) {
    if (reader > maker) return false;
    for (int64_t b = 1; b < region->band_count; b++) {
        const band_rows made = reader->made[b];
        if (made.first == made.end) continue;
        if (band_region_reads(reader, input, made).first < maker->high[b - 1]) return false;
    }
    return true;
}

static bool precedes(const ir_node *node, const ir_node *first) {
    for (const ir_node *at = first->previous; at; at = at->previous)
        if (at == node) return true;
    return false;
}

static bool may_be_written_over(const band_region *region, const ir_value *value, const band_node *maker) {
    if (value->kind != IR_RESULT_OF_NODE || value->graph != region->graph) return false;
    for (const ir_use *use = value->uses; use; use = use->next) {
        const uint32_t place =
            use->node && use->node->graph == region->graph ? region->places[use->node->id.index] : 0;
        if (!place && use->node && use->node->graph == region->graph &&
            precedes(use->node, region->nodes[0].node))
            continue; /* it has read all before the first band */
        if (!place || band_node_reading(use->node, use->index) != BAND_READS_ROWS ||
            !reads_ahead(region, &region->nodes[place - 1], use->index, maker))
            return false;
    }
    return true;
}

ir_value *band_region_written_over(const band_region *region, const ir_value *result) {
    const band_node *maker = band_region_maker(region, result);
    for (const band_node *own = region->nodes; own <= maker; own++)
        for (uint32_t i = 0; i < own->node->input_count; i++) {
            ir_value *input = ir_input(own->node, i);
            if (input && !band_region_maker(region, input) && band_same_type(&input->type, &result->type) &&
                may_be_written_over(region, input, maker))
                return input;
        }
    return NULL;
}
