/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.c: implements `simulate.h`. */
#include "passes/bands/simulate.h"
#include <stdint.h>

/* ---- how far each step goes, and which rows it makes ------------------------------------------------------ */

static bool set_advance(band_step *of, int64_t advance) {
    if (!of->advance) of->advance = advance;
    return of->advance == advance;
}

/* How far each step goes in a band: from the last one to what it reads, then to those that read the same. */
static bool find_advances(band_steps *s, size_t first, size_t last, int64_t height) {
    for (size_t n = first; n <= last; n++) s->list[n].advance = 0;
    s->list[last].advance = height;
    for (int turn = 0; turn < 3; turn++) {
        size_t unknown = 0;
        for (size_t n = last + 1; n-- > first;) {
            band_step *own = &s->list[n];
            for (uint32_t i = 0; i < own->reading_count; i++) {
                const band_reads *r = &own->readings[i];
                if (r->maker < (int32_t)first) continue;
                const int64_t stride = r->input == 0 ? own->window.stride : 1,
                              up = r->input == 0 ? own->window.up : 1;
                band_step *maker = &s->list[r->maker];
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

static band_rows seen(const band_step *own, const band_reads *r, band_rows made) {
    return r->input == 0 ? band_window_rows(&own->window, made) : made;
}

/* Rows of each step in a band in the middle, where nothing is cut off: as region.c counts them. */
static void find_rows(band_steps *s, size_t first, size_t last) {
    for (size_t n = first; n <= last; n++) {
        band_step *own = &s->list[n];
        own->last_inside = -1;
        for (int32_t i = own->reader_count; i-- > 0 && own->last_inside < 0;)
            if (own->readers[i] <= (int32_t)last) own->last_inside = own->readers[i];
        own->exported = own->is_result || own->last_reader > (int32_t)last || n == last;
        own->end = own->last_inside < 0 ? 0 : INT64_MIN;
    }
    for (size_t n = last + 1; n-- > first;) {
        band_step *own = &s->list[n];
        own->end = band_round_up(own->end, own->window.up);
        for (uint32_t i = 0; i < own->reading_count; i++) {
            const band_reads *r = &own->readings[i];
            if (r->maker < (int32_t)first) continue;
            const int64_t end = seen(own, r, (band_rows){own->end - 1, own->end}).end;
            if (end > s->list[r->maker].end) s->list[r->maker].end = end;
        }
    }
    for (size_t n = first; n <= last; n++)
        s->list[n].low = s->list[n].exported ? s->list[n].end - s->list[n].advance : INT64_MAX;
    for (size_t n = last + 1; n-- > first;) {
        band_step *own = &s->list[n];
        const int64_t before = own->end - own->advance;
        own->low = band_round_down(own->low, own->window.up);
        own->first = own->low > before ? own->low : before;
        for (uint32_t i = 0; i < own->reading_count; i++) {
            const band_reads *r = &own->readings[i];
            if (r->maker < (int32_t)first) continue;
            const int64_t low = seen(own, r, (band_rows){own->first, own->first + 1}).first;
            if (low < s->list[r->maker].low) s->list[r->maker].low = low;
        }
    }
}

/* ---- one iteration ---------------------------------------------------------------------------------------- */

static double rows_bytes(const band_step *of, int64_t rows) {
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
static void copy_rows(const band_step *of, double bytes, iteration *it) {
    enum { FEW_BYTES = 64 };
    it->copied += 2 * bytes;
    it->copies++;
    if (!it->channels_last && bytes < FEW_BYTES * of->spans) it->spans += of->spans;
}

static double made_bytes(const band_step *own) {
    return rows_bytes(own, own->end - own->first);
}

/* All that read `t` in the region take kept rows and new ones from where they lie. */
static bool all_read_joined(const band_steps *s, const band_step *t) {
    for (int32_t i = 0; i < t->reader_count && t->readers[i] <= t->last_inside; i++) {
        const band_step *reader = &s->list[t->readers[i]];
        for (uint32_t k = 0; k < reader->reading_count; k++)
            if (reader->readings[k].maker == t - s->list && !reader->readings[k].joined) return false;
    }
    return true;
}

/* Rows of `t` for a reader: side by side in a window, or a part of what is there; returns what only this reader needs. */
static double take_rows(const band_steps *s, band_step *t, band_rows rows, const band_reads *r,
                        iteration *it) {
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
static void leave(band_step *t, iteration *it) {
    if (t->kept_bytes > 0) copy_rows(t, t->kept_bytes, it);
    if (t->window_bytes > 0 || t->kept_bytes > 0) reach(it, it->live + t->kept_bytes);
    it->live -= t->window_bytes > 0 ? t->window_bytes - t->kept_bytes : made_bytes(t);
    t->window_bytes = 0;
}

/* What a faster kernel takes for some rows, by the scratch that it may have: half as much again from one entry to the next. */
enum { LEAST_SCRATCH = 1 << 15, SCRATCHES = 20 };
typedef struct fast_rows {
    int64_t rows;
    bool channels_last;
    bool there[SCRATCHES];
    band_fast with[SCRATCHES];
    struct fast_rows *next;
} fast_rows;

/* What a faster kernel takes for these rows, with at most so much scratch. NULL: there is none, or no memory to look for it. */
static const band_fast *find_fast(band_steps *s, band_step *own, int64_t rows, bool channels_last,
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
static double run_fast(band_steps *s, band_step *own, int64_t rows, iteration *it) {
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

static void run_step(band_steps *s, size_t n, size_t first, iteration *it) {
    band_step *own = &s->list[n];
    const op_schema *schema = op_schema_of(own->node->code);
    const band_rows made = {own->first, own->end};
    double parts = 0, over = 0;
    const double bytes = made_bytes(own);
    for (uint32_t i = 0; i < own->reading_count; i++) {
        const band_reads *r = &own->readings[i];
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
            part = take_rows(s, &s->list[r->maker], rows, r, it);
        }
        parts += part;
        const bool dies =
            part > 0 || (s->list[r->maker].last_inside == (int32_t)n && !s->list[r->maker].exported &&
                         s->list[r->maker].window_bytes == 0 && s->list[r->maker].kept_bytes == 0);
        const double there = part > 0 ? part : made_bytes(&s->list[r->maker < 0 ? (int32_t)n : r->maker]);
        if (op_may_write_over(schema, 0, r->input) && dies && there >= bytes) over = bytes;
        if (own->joins && dies) over += there < bytes - over ? there : bytes - over;
    }
    double scratch = own->estimate.scratch * (double)(made.end - made.first) / (double)own->rows;
    const double wanted = run_fast(s, own, made.end - made.first, it);
    if (own->is_fast) scratch = wanted;
    reach(it, it->live + parts + bytes - over + scratch);
    it->live += bytes;
    for (uint32_t i = 0; i < own->reading_count; i++) {
        const band_reads *r = &own->readings[i];
        bool again = false;
        for (uint32_t k = 0; k < i; k++) again = again || own->readings[k].maker == r->maker;
        if (r->maker >= (int32_t)first && !again && s->list[r->maker].last_inside == (int32_t)n)
            leave(&s->list[r->maker], it);
    }
    if (own->exported) {
        const op_shape *shape = &own->node->outputs[0]->type.shape;
        const bool together = shape->dims[0] == 1 && shape->dims[1] == 1;
        copy_rows(own, together ? bytes / 2 : bytes, it); /* into another layout as well */
    }
    if (own->last_inside < 0) it->live -= bytes;
}

/* The step's result is written over what comes from outside: see band_region_written_over. */
static bool is_written_over_input(const band_steps *s, size_t n, size_t first, size_t last) {
    const band_step *own = &s->list[n];
    for (size_t m = first; m <= n; m++)
        for (uint32_t i = 0; i < s->list[m].reading_count; i++) {
            const int32_t maker = s->list[m].readings[i].maker;
            if (maker < 0 || maker >= (int32_t)first) continue;
            const band_step *input = &s->list[maker];
            if (input->is_result || input->bytes != own->bytes || input->last_reader > (int32_t)n ||
                input->node->output_count != 1 ||
                !band_same_type(&input->node->outputs[0]->type, &own->node->outputs[0]->type))
                continue;
            int32_t uses = 0, fine = 0;
            for (const ir_use *use = input->node->outputs[0]->uses; use; use = use->next)
                uses += band_step_of_use(use, input->node->graph, s->numbers) >= (int32_t)first;
            for (int32_t k = 0; k < input->reader_count; k++) {
                const int32_t reader = input->readers[k];
                if (reader < (int32_t)first || reader > (int32_t)last) continue;
                const band_step *of = &s->list[reader];
                for (uint32_t r = 0; r < of->reading_count; r++)
                    if (of->readings[r].maker == maker && (k == 0 || input->readers[k - 1] != reader))
                        fine += seen(of, &of->readings[r], (band_rows){of->first, of->end}).first >=
                                own->end - own->advance;
            }
            if (fine == uses) return true;
        }
    return false;
}

bool band_simulate(band_steps *s, size_t first, size_t last, int64_t height, bool fast, double most,
                   band_choice *made) {
    if (!find_advances(s, first, last, height)) return false;
    for (size_t n = first; n <= last; n++) {
        const band_step *own = &s->list[n];
        if (band_too_few(own->node, own->advance) || band_too_few(own->node, own->rows % own->advance))
            return false;
    }
    find_rows(s, first, last);
    const int32_t before = first ? s->list[first - 1].apart : 0;
    iteration it = {
        .live = s->list[first].live, .fast = fast, .channels_last = s->list[last].apart == before};
    for (size_t n = first; n <= last; n++) {
        band_step *own = &s->list[n];
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
    const double bands = (double)((s->list[last].rows + height - 1) / height);
    for (size_t n = first; n <= last; n++) {
        band_step *own = &s->list[n];
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
