/* SPDX-License-Identifier: Apache-2.0 */
/* search.c: see search.h. */
#include "passes/bands/search.h"
#include "passes/bands/channels_last.h"
#include "passes/bands/estimate.h"
#include "passes/bands/joined.h"
#include <float.h>
#include <stdint.h>

/* Nodes that are looked at in all regions together, a second or two; each first node has the same share of what is left. */
static const double MOST_WORK = 1e8;
enum { MOST_NODES = 600, OUTSIDE = -1 };
static const int64_t heights[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 64};
enum { HEIGHTS = sizeof heights / sizeof *heights };

/* What a node reads by rows. */
typedef struct reading {
    int32_t maker;    /* the step that makes it; OUTSIDE: a parameter or a constant */
    double row_bytes; /* of what is read */
    int64_t rows;
    int32_t input; /* which input of the node */
    bool together; /* rows of tokens: there is one channel */
    bool blocked;  /* its channels lie in blocks: to put them innermost is a copy of its own */
    bool apart;    /* each channel lies by itself: to put them innermost takes longer than a copy */
    bool in_place; /* where channels are innermost otherwise: rows are read where they lie */
    bool joined;   /* where they are not: kept rows and new ones are read where they lie */
} reading;

/* What a faster kernel takes for some rows, by the scratch that it may have: half as much again from one entry to the next. */
enum { LEAST_SCRATCH = 1 << 15, SCRATCHES = 20 };
typedef struct fast_rows {
    int64_t rows;
    bool channels_last;
    bool there[SCRATCHES];
    band_fast with[SCRATCHES];
    struct fast_rows *next;
} fast_rows;

typedef struct step {
    const ir_node *node;
    bool supported, is_result;
    band_window window;
    int64_t rows;
    uint32_t reading_count;
    reading *readings;
    int32_t all_from; /* the last step that makes what is read as a whole; OUTSIDE */
    double row_bytes; /* of all outputs */
    double
        spans; /* in how many places rows that follow one another lie; where channels are innermost, in one */
    double bytes;        /* of all outputs, in the arena */
    int32_t last_reader; /* the last step that reads an output */
    int32_t *readers;    /* all of them that read by rows, in order */
    int32_t reader_count;
    band_estimate estimate;
    double saved; /* seconds, by a faster kernel, where there are no bands */
    fast_rows *fast;
    bool in_place; /* it can write over what it reads */
    int32_t apart; /* how many steps so far cannot have their channels innermost */
    bool joins;    /* Concat, Split, and what only names bytes anew: no memory of its own */
    double live;   /* around it: made before, read at this step or later */
    double alone;  /* live while it runs alone */
    /* of the region that is being looked at */
    int64_t advance, end, low, first;
    double window_bytes, kept_bytes;
    bool is_fast; /* it has a faster kernel in bands, too */
    int32_t last_inside;
    bool exported;
} step;

typedef struct edge {
    band_choice choice;
    double estimate; /* of its peak; choice.bytes is what was learnt since */
    bool is_known;   /* it was carried out */
    int32_t next;    /* of those that begin at the same step */
} edge;

struct band_search {
    base_arena *arena;
    step *steps;
    size_t count;
    edge *edges;
    size_t edge_count, edge_capacity;
    int32_t *begins; /* by step: its first edge; -1 */
    double whole, least, seconds, saved;
    double *peaks;          /* by step: the least one on the way there */
    double begin;           /* the part of their time that steps take to begin here */
    const int32_t *numbers; /* by node id: its step */
    const rt_environment *environment;
    const band_rates *rates;
    double work;
};

/* ---- the steps ------------------------------------------------------------------------------------------ */

static double bytes_of(const ir_value *value) {
    size_t bytes;
    return op_type_bytes(&value->type, &bytes) ? (double)bytes : 0;
}

static double row_bytes_of(const ir_value *value) {
    const int64_t rows = value->type.shape.rank > BAND_AXIS ? value->type.shape.dims[BAND_AXIS] : 1;
    return rows > 0 ? bytes_of(value) / (double)rows : 0;
}

/* Which step of the main graph the use belongs to. */
static int32_t step_of_use(const ir_use *use, const ir_graph *main, const int32_t *numbers) {
    if (!use->node) {
        if (use->graph == main) return INT32_MAX;
        return use->graph->owner ? numbers[use->graph->owner->id.index] : INT32_MAX;
    }
    const ir_node *node = use->node;
    while (node && node->graph != main) node = node->graph->owner;
    return node ? numbers[node->id.index] : INT32_MAX;
}

static bool read_step(band_search *s, size_t n, const ir_node *node, const int32_t *numbers,
                      base_arena *arena) {
    step *own = &s->steps[n];
    const ir_graph *main = node->graph;
    *own = (step){.node = node, .all_from = OUTSIDE, .last_reader = (int32_t)n};
    own->supported = band_node_supported(node, arena);
    const op_view view = op_schema_of(node->code)->view;
    own->in_place = op_schema_of(node->code)->in_place != 0;
    own->joins =
        view == OP_VIEW_SAME || view == OP_VIEW_CONCAT || view == OP_VIEW_SPLIT || view == OP_VIEW_SLICE;
    for (uint32_t o = 0; o < node->output_count; o++) {
        const ir_value *output = node->outputs[o];
        if (!output) continue;
        bool is_result = false;
        int32_t last = (int32_t)n;
        for (const ir_use *use = output->uses; use; use = use->next) {
            const int32_t reader = step_of_use(use, main, numbers);
            is_result = is_result || reader == INT32_MAX;
            if (reader != INT32_MAX && reader > last) last = reader;
        }
        own->is_result = own->is_result || is_result;
        if (last > own->last_reader) own->last_reader = last;
        if (!is_result) own->bytes += bytes_of(output);
        if (!own->supported) continue;
        own->row_bytes += row_bytes_of(output);
        const int64_t block = output->type.layout == OP_LAYOUT_NHWC ? output->type.shape.dims[1]
                                                                    : op_layout_block(output->type.layout);
        if (block > 0)
            own->spans +=
                (double)(output->type.shape.dims[0] * ((output->type.shape.dims[1] - 1) / block + 1));
    }
    own->estimate = band_estimate_node(node, own->supported, own->bytes, s->environment, arena);
    if (!own->supported) return true;
    own->rows = band_node_rows(node);
    own->readings = BASE_ARRAY(s->arena, reading, node->input_count);
    if (!own->readings || !band_node_window(node, arena, &own->window)) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        const band_reading how = band_node_reading(node, i);
        if (how == BAND_READS_NOTHING) continue;
        const int32_t maker = input->kind == IR_RESULT_OF_NODE && input->graph == main
                                  ? numbers[input->node->id.index]
                                  : OUTSIDE;
        if (how == BAND_READS_ALL) {
            if (maker > own->all_from) own->all_from = maker;
            continue;
        }
        own->readings[own->reading_count++] =
            (reading){maker,
                      row_bytes_of(input),
                      input->type.shape.dims[BAND_AXIS],
                      (int32_t)i,
                      input->type.shape.dims[0] == 1 && input->type.shape.dims[1] == 1,
                      input->type.layout != OP_LAYOUT_ROW_MAJOR && input->type.layout != OP_LAYOUT_NHWC,
                      input->type.layout == OP_LAYOUT_ROW_MAJOR && input->type.shape.dims[1] > 1,
                      i == 0 && band_reads_in_place(node, s->environment, arena),
                      i == 0 && band_reads_joined(node, s->environment, arena)};
    }
    own->apart = !band_keeps_channels_last(node, s->environment, arena);
    return true;
}

static bool find_readers(band_search *s) {
    for (size_t n = 0; n < s->count; n++)
        for (uint32_t i = 0; i < s->steps[n].reading_count; i++)
            if (s->steps[n].readings[i].maker != OUTSIDE)
                s->steps[s->steps[n].readings[i].maker].reader_count++;
    for (size_t n = 0; n < s->count; n++) {
        s->steps[n].readers = BASE_ARRAY(s->arena, int32_t, (size_t)s->steps[n].reader_count);
        if (!s->steps[n].readers) return false;
        s->steps[n].reader_count = 0;
    }
    for (size_t n = 0; n < s->count; n++)
        for (uint32_t i = 0; i < s->steps[n].reading_count; i++) {
            const int32_t maker = s->steps[n].readings[i].maker;
            if (maker != OUTSIDE) s->steps[maker].readers[s->steps[maker].reader_count++] = (int32_t)n;
        }
    return true;
}

/* What the step writes over of what it reads, when all of it is there at once. */
static double written_over(const band_search *s, size_t n) {
    const step *own = &s->steps[n];
    if (own->joins) return own->bytes;
    if (!own->in_place) return 0;
    const op_schema *schema = op_schema_of(own->node->code);
    for (uint32_t i = 0; i < own->node->input_count; i++) {
        const ir_value *input = ir_input(own->node, i);
        if (!op_may_write_over(schema, 0, i) || !input || input->kind != IR_RESULT_OF_NODE) continue;
        for (size_t m = n; m-- > 0;) {
            if (s->steps[m].node != input->node) continue;
            if (s->steps[m].last_reader == (int32_t)n && bytes_of(input) >= own->bytes) return own->bytes;
            break;
        }
    }
    return 0;
}

/* Steps of a small network begin sooner. */
static void scale_beginnings(band_search *s) {
    double bytes = s->whole;
    for (size_t n = 0; n < s->count; n++)
        for (uint32_t i = 0; i < s->steps[n].node->input_count; i++) {
            const ir_value *input = ir_input(s->steps[n].node, i);
            if (input && input->constant) bytes += bytes_of(input);
        }
    s->begin = band_begin_part(s->rates, bytes);
    for (size_t n = 0; n < s->count; n++) {
        band_estimate *of = &s->steps[n].estimate;
        const double less = of->call * (1 - s->begin);
        of->seconds -= less;
        s->seconds -= less;
        if (of->again > 0) of->again -= less;
    }
}

static void find_live(band_search *s) {
    double live = 0;
    for (size_t n = 0; n < s->count; n++) {
        step *own = &s->steps[n];
        own->live = live;
        own->alone = live + own->bytes + own->estimate.scratch - written_over(s, n);
        if (own->alone > s->whole) s->whole = own->alone;
        s->seconds += own->estimate.seconds;
        live += own->bytes;
        for (size_t m = 0; m <= n; m++)
            if (s->steps[m].last_reader == (int32_t)n) live -= s->steps[m].bytes;
    }
}

/* ---- a region -------------------------------------------------------------------------------------------- */

static bool set_advance(step *of, int64_t advance) {
    if (!of->advance) of->advance = advance;
    return of->advance == advance;
}

/* How far each step goes in a band: from the last one to what it reads, then to those that read the same. */
static bool find_advances(band_search *s, size_t first, size_t last, int64_t height) {
    for (size_t n = first; n <= last; n++) s->steps[n].advance = 0;
    s->steps[last].advance = height;
    for (int turn = 0; turn < 3; turn++) {
        size_t unknown = 0;
        for (size_t n = last + 1; n-- > first;) {
            step *own = &s->steps[n];
            for (uint32_t i = 0; i < own->reading_count; i++) {
                const reading *r = &own->readings[i];
                if (r->maker < (int32_t)first) continue;
                const int64_t stride = r->input == 0 ? own->window.stride : 1,
                              up = r->input == 0 ? own->window.up : 1;
                step *maker = &s->steps[r->maker];
                if (own->advance) {
                    if (own->advance * stride % up || !set_advance(maker, own->advance * stride / up))
                        return false;
                } else if (maker->advance) {
                    if (maker->advance * up % stride) return false;
                    own->advance = maker->advance * up / stride;
                }
            }
            if (own->advance % own->window.up) return false;
            unknown += own->advance == 0;
        }
        if (!unknown) return true;
    }
    return false;
}

static band_rows seen(const step *own, const reading *r, band_rows made) {
    return r->input == 0 ? band_window_rows(&own->window, made) : made;
}

/* Rows of each step in a band in the middle, where nothing is cut off: as region.c counts them. */
static void find_rows(band_search *s, size_t first, size_t last) {
    for (size_t n = first; n <= last; n++) {
        step *own = &s->steps[n];
        own->last_inside = -1;
        for (int32_t i = own->reader_count; i-- > 0 && own->last_inside < 0;)
            if (own->readers[i] <= (int32_t)last) own->last_inside = own->readers[i];
        own->exported = own->is_result || own->last_reader > (int32_t)last || n == last;
        own->end = own->last_inside < 0 ? 0 : INT64_MIN;
    }
    for (size_t n = last + 1; n-- > first;) {
        step *own = &s->steps[n];
        own->end = band_round_up(own->end, own->window.up);
        for (uint32_t i = 0; i < own->reading_count; i++) {
            const reading *r = &own->readings[i];
            if (r->maker < (int32_t)first) continue;
            const int64_t end = seen(own, r, (band_rows){own->end - 1, own->end}).end;
            if (end > s->steps[r->maker].end) s->steps[r->maker].end = end;
        }
    }
    for (size_t n = first; n <= last; n++)
        s->steps[n].low = s->steps[n].exported ? s->steps[n].end - s->steps[n].advance : INT64_MAX;
    for (size_t n = last + 1; n-- > first;) {
        step *own = &s->steps[n];
        const int64_t before = own->end - own->advance;
        own->low = band_round_down(own->low, own->window.up);
        own->first = own->low > before ? own->low : before;
        for (uint32_t i = 0; i < own->reading_count; i++) {
            const reading *r = &own->readings[i];
            if (r->maker < (int32_t)first) continue;
            const int64_t low = seen(own, r, (band_rows){own->first, own->first + 1}).first;
            if (low < s->steps[r->maker].low) s->steps[r->maker].low = low;
        }
    }
}

static double rows_bytes(const step *of, int64_t rows) {
    return (double)(rows < of->rows ? rows : of->rows) * of->row_bytes;
}

/* The peak of an iteration, and what it copies. */
typedef struct iteration {
    double live, peak, state;
    /* Bytes that copies read and write; rows of tokens lie together, and half of them are read where they lie. */
    double copied;
    double copies;      /* steps that copy rows */
    double spans;       /* that they copy, of few bytes */
    double lost;        /* seconds that faster kernels save without bands, and not with them */
    bool fast;          /* there may be faster kernels */
    bool channels_last; /* rows lie one after another: made in windows, and read there */
} iteration;

static void reach(iteration *it, double bytes) {
    if (bytes > it->peak) it->peak = bytes;
}

/* A step copies so many bytes of what `of` makes. */
static void copy_rows(const step *of, double bytes, iteration *it) {
    enum { FEW_BYTES = 64 };
    it->copied += 2 * bytes;
    it->copies++;
    if (!it->channels_last && bytes < FEW_BYTES * of->spans) it->spans += of->spans;
}

static double made_bytes(const step *own) {
    return rows_bytes(own, own->end - own->first);
}

/* All that read `t` in the region take kept rows and new ones from where they lie. */
static bool all_read_joined(const band_search *s, const step *t) {
    for (int32_t i = 0; i < t->reader_count && t->readers[i] <= t->last_inside; i++) {
        const step *reader = &s->steps[t->readers[i]];
        for (uint32_t k = 0; k < reader->reading_count; k++)
            if (reader->readings[k].maker == t - s->steps && !reader->readings[k].joined) return false;
    }
    return true;
}

/* Rows of `t` for a reader: side by side in a window, or a part of what is there; returns what only this reader needs. */
static double take_rows(const band_search *s, step *t, band_rows rows, const reading *r, iteration *it) {
    const int64_t kept = t->end - t->advance;
    if (r->joined && !it->channels_last && all_read_joined(s, t)) return 0;
    if (rows.first < kept && rows.end > t->first && kept > t->low) {
        if (t->window_bytes > 0) return 0;
        t->window_bytes = rows_bytes(t, t->end - t->low);
        reach(it, it->live + t->window_bytes - (it->channels_last ? made_bytes(t) : 0));
        it->live += t->window_bytes - made_bytes(t) - t->kept_bytes;
        copy_rows(t, it->channels_last ? t->kept_bytes : t->window_bytes, it);
        /* Where the window ends before what was made does, that is cut off first. */
        if (!it->channels_last && rows.end < t->end) copy_rows(t, rows_bytes(t, rows.end - kept), it);
        return 0;
    }
    if (it->channels_last) return 0;
    const bool whole = rows.first == t->first && rows.end == t->end;
    const double part = whole ? 0 : (double)(rows.end - rows.first) * r->row_bytes;
    if (!whole) copy_rows(t, part, it);
    return part;
}

/* Nobody reads the rows in this iteration any more: those for the next one stay. */
static void leave(step *t, iteration *it) {
    if (t->kept_bytes > 0) copy_rows(t, t->kept_bytes, it);
    if (t->window_bytes > 0 || t->kept_bytes > 0) reach(it, it->live + t->kept_bytes);
    it->live -= t->window_bytes > 0 ? t->window_bytes - t->kept_bytes : made_bytes(t);
    t->window_bytes = 0;
}

/* What a faster kernel takes for these rows, with at most so much scratch. NULL: there is none, or no memory to look for it. */
static const band_fast *find_fast(band_search *s, step *own, int64_t rows, bool channels_last,
                                  double scratch) {
    int level = -1;
    for (double next = LEAST_SCRATCH; level + 1 < SCRATCHES && scratch >= next; next *= 1.5) level++;
    if (level < 0) return NULL;
    fast_rows *of = own->fast;
    while (of && (of->rows != rows || of->channels_last != channels_last)) of = of->next;
    if (!of) {
        of = BASE_NEW(s->arena, fast_rows);
        if (!of) return NULL;
        *of = (fast_rows){.rows = rows, .channels_last = channels_last, .next = own->fast};
        own->fast = of;
        base_arena arena;
        base_arena_init(&arena, s->arena->allocator);
        double most = LEAST_SCRATCH;
        for (int i = 0; i < SCRATCHES; i++, most *= 1.5)
            of->there[i] = band_estimate_fast(own->node, rows, channels_last, (size_t)most, s->environment,
                                              &arena, &of->with[i]);
        base_arena_free(&arena);
    }
    return of->there[level] ? &of->with[level] : NULL;
}

/* The node has the faster kernel in the band, if that is worth it and half of what is live is enough for it. Returns its
 * scratch. */
static double run_fast(band_search *s, step *own, int64_t rows, iteration *it) {
    own->is_fast = false;
    if (own->saved <= 0) return 0;
    const band_fast *fast =
        it->fast && rows > 0 ? find_fast(s, own, rows, it->channels_last, it->live / 2) : NULL;
    const double whole = own->estimate.products - own->saved,
                 lost = fast ? fast->seconds * (double)own->rows / (double)rows - whole : own->saved;
    own->is_fast = lost < own->saved * 0.9;
    it->lost += own->is_fast ? lost > 0 ? lost : 0 : own->saved;
    return own->is_fast ? fast->scratch : 0;
}

static void run_step(band_search *s, size_t n, size_t first, iteration *it) {
    step *own = &s->steps[n];
    const op_schema *schema = op_schema_of(own->node->code);
    const band_rows made = {own->first, own->end};
    double parts = 0, over = 0;
    const double bytes = made_bytes(own);
    for (uint32_t i = 0; i < own->reading_count; i++) {
        const reading *r = &own->readings[i];
        const band_rows rows = seen(own, r, made);
        double part;
        if (r->maker < (int32_t)first) {
            const int64_t count = rows.end - rows.first;
            if (it->channels_last && r->in_place) continue;
            part = (double)(count < r->rows ? count : r->rows) * r->row_bytes;
            const bool reordered = it->channels_last && r->blocked;
            const bool turned = it->channels_last && r->apart;
            it->copied += (r->together ? 1 : reordered ? 4 : turned ? 8 : 2) * part;
            it->copies += r->together ? 0 : reordered ? 2 : 1;
            if (reordered) reach(it, it->live + 2 * part);
        } else {
            part = take_rows(s, &s->steps[r->maker], rows, r, it);
        }
        parts += part;
        const bool dies =
            part > 0 || (s->steps[r->maker].last_inside == (int32_t)n && !s->steps[r->maker].exported &&
                         s->steps[r->maker].window_bytes == 0 && s->steps[r->maker].kept_bytes == 0);
        const double there = part > 0 ? part : made_bytes(&s->steps[r->maker < 0 ? (int32_t)n : r->maker]);
        if (op_may_write_over(schema, 0, r->input) && dies && there >= bytes) over = bytes;
        if (own->joins && dies) over += there < bytes - over ? there : bytes - over;
    }
    double scratch = own->estimate.scratch * (double)(made.end - made.first) / (double)own->rows;
    const double wanted = run_fast(s, own, made.end - made.first, it);
    if (own->is_fast) scratch = wanted;
    reach(it, it->live + parts + bytes - over + scratch);
    it->live += bytes;
    for (uint32_t i = 0; i < own->reading_count; i++) {
        const reading *r = &own->readings[i];
        bool again = false;
        for (uint32_t k = 0; k < i; k++) again = again || own->readings[k].maker == r->maker;
        if (r->maker >= (int32_t)first && !again && s->steps[r->maker].last_inside == (int32_t)n)
            leave(&s->steps[r->maker], it);
    }
    if (own->exported) {
        const op_shape *shape = &own->node->outputs[0]->type.shape;
        const bool together = shape->dims[0] == 1 && shape->dims[1] == 1;
        copy_rows(own, together ? bytes / 2 : bytes, it); /* into another layout as well */
    }
    if (own->last_inside < 0) it->live -= bytes;
}

/* The step's result is written over what comes from outside: see band_region_written_over. */
static bool is_written_over_input(const band_search *s, size_t n, size_t first, size_t last) {
    const step *own = &s->steps[n];
    for (size_t m = first; m <= n; m++)
        for (uint32_t i = 0; i < s->steps[m].reading_count; i++) {
            const int32_t maker = s->steps[m].readings[i].maker;
            if (maker < 0 || maker >= (int32_t)first) continue;
            const step *input = &s->steps[maker];
            if (input->is_result || input->bytes != own->bytes || input->last_reader > (int32_t)n ||
                input->node->output_count != 1 ||
                !band_same_type(&input->node->outputs[0]->type, &own->node->outputs[0]->type))
                continue;
            int32_t uses = 0, fine = 0;
            for (const ir_use *use = input->node->outputs[0]->uses; use; use = use->next)
                uses += step_of_use(use, input->node->graph, s->numbers) >= (int32_t)first;
            for (int32_t k = 0; k < input->reader_count; k++) {
                const int32_t reader = input->readers[k];
                if (reader < (int32_t)first || reader > (int32_t)last) continue;
                const step *of = &s->steps[reader];
                for (uint32_t r = 0; r < of->reading_count; r++)
                    if (of->readings[r].maker == maker && (k == 0 || input->readers[k - 1] != reader))
                        fine += seen(of, &of->readings[r], (band_rows){of->first, of->end}).first >=
                                own->end - own->advance;
            }
            if (fine == uses) return true;
        }
    return false;
}

static bool simulate(band_search *s, size_t first, size_t last, int64_t height, bool fast, double most,
                     band_choice *made) {
    if (!find_advances(s, first, last, height)) return false;
    for (size_t n = first; n <= last; n++) {
        const step *own = &s->steps[n];
        if (band_too_few(own->node, own->advance) || band_too_few(own->node, own->rows % own->advance))
            return false;
    }
    find_rows(s, first, last);
    const int32_t before = first ? s->steps[first - 1].apart : 0;
    iteration it = {
        .live = s->steps[first].live, .fast = fast, .channels_last = s->steps[last].apart == before};
    for (size_t n = first; n <= last; n++) {
        step *own = &s->steps[n];
        own->window_bytes = 0;
        const int64_t kept = own->end - own->advance - own->low;
        own->kept_bytes = kept > 0 ? rows_bytes(own, kept) : 0;
        it.state += own->kept_bytes;
        if (own->exported && own->bytes > 0 && !is_written_over_input(s, n, first, last))
            it.live += own->bytes;
    }
    const double outside = it.live;
    it.live += it.state;
    it.peak = it.live;
    if (it.live > most) return true; /* no use; and longer ones have no less */
    double more = 0;
    const double bands = (double)((s->steps[last].rows + height - 1) / height);
    for (size_t n = first; n <= last; n++) {
        step *own = &s->steps[n];
        run_step(s, n, first, &it);
        if (!own->is_fast && own->rows > own->advance)
            more += own->estimate.again * ((double)own->rows / (double)own->advance - 1);
        /* Rows that nobody outside reads are read while they are in a cache. */
        if (!own->exported && !own->joins) more -= own->estimate.far;
        if (it.channels_last) more += own->estimate.innermost;
    }
    more += bands * (band_copy_seconds(s->rates, it.copied, it.channels_last ? 0 : it.peak - outside) +
                     band_span_seconds(s->rates, it.spans) +
                     ((double)(last - first + 4) + it.copies) * s->begin * band_step_seconds(s->rates));
    *made = (band_choice){first, last, height, it.peak, it.state, more + it.lost, it.lost, it.channels_last};
    return true;
}

/* ---- all regions ----------------------------------------------------------------------------------------- */

static bool add_edge(band_search *s, const band_choice *choice) {
    edge *edges = base_arena_grow(s->arena, s->edges, &s->edge_capacity, s->edge_count + 1, sizeof *edges);
    if (!edges || s->edge_count >= INT32_MAX) return false;
    s->edges = edges;
    edges[s->edge_count] = (edge){*choice, choice->bytes, false, s->begins[choice->first]};
    s->begins[choice->first] = (int32_t)s->edge_count++;
    return true;
}

/* The regions that begin here, the shorter ones first. */
static bool try_regions(band_search *s, size_t first) {
    double state[HEIGHTS] = {0};
    const double until = s->work + (MOST_WORK - s->work) / (double)(s->count - first);
    bool hopeless[HEIGHTS] = {false};
    bool saves = false;
    for (size_t last = first; last < s->count && last - first < MOST_NODES; last++) {
        const step *own = &s->steps[last];
        if (!own->supported || own->all_from >= (int32_t)first) break;
        saves = saves || own->saved > 0;
        if (last == first) continue;
        for (int h = 0; h < HEIGHTS && heights[h] * 2 <= own->rows; h++) {
            band_choice choice = {0};
            if (hopeless[h]) continue;
            s->work += (double)(last - first);
            if (!simulate(s, first, last, heights[h], false, s->whole, &choice)) continue;
            if (!choice.rows) {
                state[h] += 1; /* what goes out later may be less, but not for long */
                hopeless[h] = state[h] > 60;
                continue;
            }
            if (choice.bytes < s->whole && !add_edge(s, &choice)) return false;
            band_choice faster = {0};
            if (!saves || !simulate(s, first, last, heights[h], true, s->whole, &faster)) continue;
            s->work += (double)(last - first);
            if (faster.rows && faster.bytes < s->whole && faster.more_seconds < choice.more_seconds &&
                !add_edge(s, &faster))
                return false;
        }
        if (s->work > until) break;
    }
    return true;
}

/* By step: the least peak on the way there. */
void band_search_settle(band_search *s) {
    double *peaks = s->peaks;
    peaks[0] = 0;
    for (size_t n = 1; n <= s->count; n++) peaks[n] = DBL_MAX;
    for (size_t n = 0; n < s->count; n++) {
        const double alone = s->steps[n].alone > peaks[n] ? s->steps[n].alone : peaks[n];
        if (alone < peaks[n + 1]) peaks[n + 1] = alone;
        for (int32_t e = s->begins[n]; e >= 0; e = s->edges[e].next) {
            const band_choice *choice = &s->edges[e].choice;
            const double peak = choice->bytes > peaks[n] ? choice->bytes : peaks[n];
            if (peak < peaks[choice->last + 1]) peaks[choice->last + 1] = peak;
        }
    }
    s->least = peaks[s->count];
}

/* Of all steps of two regions, at least three quarters are in both. */
static bool are_alike(const band_choice *a, const band_choice *b) {
    const size_t first = a->first > b->first ? a->first : b->first,
                 last = a->last < b->last ? a->last : b->last;
    if (first > last) return false;
    const size_t both = last - first + 1, all = (a->last > b->last ? a->last : b->last) -
                                                (a->first < b->first ? a->first : b->first) + 1;
    return 4 * both >= 3 * all;
}

void band_search_learn(band_search *s, const band_choice *choice, double bytes, bool is_peak) {
    double estimate = choice->bytes;
    if (!is_peak && bytes >= choice->bytes) return;
    for (size_t e = 0; e < s->edge_count; e++) {
        edge *of = &s->edges[e];
        if (of->choice.first != choice->first || of->choice.last != choice->last ||
            of->choice.rows != choice->rows || of->choice.channels_last != choice->channels_last)
            continue;
        estimate = of->estimate;
        of->choice.bytes = bytes;
        of->is_known = true;
    }
    for (size_t e = 0; e < s->edge_count; e++) {
        edge *of = &s->edges[e];
        if (!of->is_known && are_alike(&of->choice, choice))
            of->choice.bytes = of->estimate * bytes / estimate;
    }
}

void band_search_learn_step(band_search *s, size_t n, double bytes, bool is_peak) {
    if (is_peak || bytes < s->steps[n].alone) s->steps[n].alone = bytes;
}

/* What was measured of some convolutions tells how fast this machine is at all of them. */
static void scale_products(band_search *s, const band_savings *savings) {
    double predicted = 0, before = 0;
    for (size_t n = 0; n < s->count; n++) {
        const step *own = &s->steps[n];
        if (own->saved <= 0 || own->estimate.products <= 0) continue;
        predicted += own->estimate.products;
        before += savings->before[own->node->id.index];
    }
    for (size_t n = 0; n < s->count && predicted > 0; n++) {
        step *own = &s->steps[n];
        const double products = own->saved > 0 ? savings->before[own->node->id.index]
                                               : own->estimate.products * before / predicted;
        if (own->estimate.products <= 0) continue;
        own->estimate.seconds += products - own->estimate.products;
        own->estimate.products = products;
    }
}

band_search *band_search_new(const ir_module *module, const rt_environment *environment,
                             const band_savings *savings, base_arena *arena) {
    band_search *s = BASE_NEW(arena, band_search);
    int32_t *numbers = BASE_ARRAY(arena, int32_t, module->node_count);
    if (!s || !numbers) return NULL;
    *s = (band_search){
        .arena = arena, .numbers = numbers, .environment = environment, .rates = band_rates_of(environment)};
    for (const ir_node *node = module->main->first; node; node = node->next)
        numbers[node->id.index] = (int32_t)s->count++;
    s->steps = BASE_ARRAY(arena, step, s->count + 1);
    s->begins = BASE_ARRAY(arena, int32_t, s->count + 1);
    if (!s->steps || !s->begins) return NULL;
    base_arena scratch;
    base_arena_init(&scratch, arena->allocator);
    bool fine = true;
    for (const ir_node *node = module->main->first; node && fine; node = node->next) {
        const size_t n = (size_t)numbers[node->id.index];
        s->begins[n] = -1;
        fine = read_step(s, n, node, numbers, &scratch);
        s->steps[n].saved = node->id.index < savings->count ? savings->saved[node->id.index] : 0;
        s->saved += s->steps[n].saved;
        if (n) s->steps[n].apart += s->steps[n - 1].apart;
        base_arena_free(&scratch);
    }
    if (!fine || !find_readers(s)) return NULL;
    scale_products(s, savings);
    find_live(s);
    scale_beginnings(s);
    for (size_t n = 0; n < s->count && fine; n++) fine = !s->steps[n].supported || try_regions(s, n);
    s->peaks = BASE_ARRAY(arena, double, s->count + 1);
    if (!fine || !s->peaks) return NULL;
    band_search_settle(s);
    return s;
}

double band_search_whole(const band_search *search) {
    return search->whole;
}

double band_search_least(const band_search *search) {
    return search->least;
}

double band_search_saved(const band_search *search) {
    return search->saved;
}

double band_search_seconds(const band_search *search) {
    return search->seconds;
}

/* ---- the least time within a limit ------------------------------------------------------------------------ */

typedef struct arrival {
    double seconds;
    int32_t edge; /* the region that ends here; -1: a step alone */
    bool reached;
} arrival;

static void arrive(arrival *at, double seconds, int32_t by) {
    if (at->reached && at->seconds <= seconds) return;
    *at = (arrival){seconds, by, true};
}

bool band_search_within(const band_search *s, double bytes, base_arena *arena, band_choices *choices) {
    const double limit = bytes > s->least ? bytes : s->least;
    arrival *arrivals = BASE_ARRAY(arena, arrival, s->count + 1);
    *choices = (band_choices){.list = BASE_ARRAY(arena, band_choice, s->count + 1)};
    if (!arrivals || !choices->list) return false;
    arrivals[0].reached = true;
    for (size_t n = 0; n < s->count; n++) {
        const arrival *here = &arrivals[n];
        if (!here->reached) continue;
        if (s->steps[n].alone <= limit) arrive(&arrivals[n + 1], here->seconds, -1);
        for (int32_t e = s->begins[n]; e >= 0; e = s->edges[e].next) {
            const band_choice *choice = &s->edges[e].choice;
            if (choice->bytes <= limit)
                arrive(&arrivals[choice->last + 1], here->seconds + choice->more_seconds, e);
        }
    }
    choices->more_seconds = arrivals[s->count].seconds;
    for (size_t n = s->count; n > 0;) {
        const int32_t e = arrivals[n].edge;
        const double peak = e < 0 ? s->steps[n - 1].alone : s->edges[e].choice.bytes;
        if (peak > choices->bytes) choices->bytes = peak;
        if (e < 0) {
            n--;
            continue;
        }
        choices->list[choices->count++] = s->edges[e].choice;
        n = s->edges[e].choice.first;
    }
    for (size_t i = 0; i < choices->count / 2; i++) {
        const band_choice other = choices->list[i];
        choices->list[i] = choices->list[choices->count - 1 - i];
        choices->list[choices->count - 1 - i] = other;
    }
    return true;
}

bool band_search_lower(const band_search *s, const band_choices *choices, base_arena *arena,
                       band_choices *lower) {
    static const double NEARLY = 0.97;
    double peak = 0;
    *lower = (band_choices){.list = BASE_ARRAY(arena, band_choice, choices->count)};
    if (!lower->list) return false;
    band_choice *const list = lower->list;
    for (size_t i = 0; i < choices->count; i++) {
        list[i] = choices->list[i];
        for (int32_t e = s->begins[list[i].first]; e >= 0; e = s->edges[e].next) {
            const band_choice *known = &s->edges[e].choice;
            if (known->last == list[i].last && known->rows == list[i].rows &&
                known->channels_last == list[i].channels_last)
                list[i].bytes = known->bytes;
        }
        if (list[i].bytes > peak) peak = list[i].bytes;
    }
    for (size_t i = 0; i < choices->count; i++) {
        const band_choice *best = NULL;
        for (int32_t e = s->begins[list[i].first]; e >= 0 && list[i].bytes >= NEARLY * peak;
             e = s->edges[e].next) {
            const band_choice *other = &s->edges[e].choice;
            if (other->last != list[i].last || other->rows >= list[i].rows ||
                (best && other->rows < best->rows))
                continue;
            if (!best || other->rows > best->rows || other->more_seconds < best->more_seconds) best = other;
        }
        if (!best && list[i].bytes >= NEARLY * peak) return true;
        if (best) list[i] = *best;
        lower->more_seconds += list[i].more_seconds;
        if (list[i].bytes > lower->bytes) lower->bytes = list[i].bytes;
    }
    lower->count = choices->count;
    return true;
}
