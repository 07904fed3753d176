/* SPDX-License-Identifier: Apache-2.0 */
/* direct_points.c: which points of an image the tiles of direct_convolution.c see, and in which order.
 *
 * Along each dimension, points whose windows see the image with the same elements follow one another: before the image begins some elements see
 * nothing, between its sides all see it. So results fall into boxes, whose points all see with the same elements. A box is made row by row, or
 * column by column where that is longer: nothing is multiplied with zeros that stand for what lies beside the image, and nothing is copied.
 *
 * Rows of small images are shorter than tiles, and all weights are read again for each tile. There a tile is any points that follow one another
 * through all rows, each of which is told where it is and what it sees; what lies beside the image is zeros.
 */
#include "runtime/kernels/portable/direct_convolution.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/turn.h"
#include <string.h>

enum {
    LANES = RT_DIRECT_LANES,
    DIMENSIONS = RT_DIRECT_DIMENSIONS,
    PAGE = 4096,
    NEAR_FLOATS = 1 << 17, /* of points and of their results, that stay in the second cache */
    NEAREST_FLOATS = 4096  /* of results to which an activation is applied afterwards */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Results of an image from `first` to before `end`, whose windows see it with the same elements. */
typedef struct box {
    int64_t first[DIMENSIONS], end[DIMENSIONS];
    int64_t element[DIMENSIONS], element_end[DIMENSIONS];
    rt_direct_run runs[RT_DIRECT_TAPS * RT_DIRECT_MAPS_READ];
    int64_t run_count;
} box;

/* Points of one row or column of a box, made of some panels. */
typedef struct line {
    const rt_direct_job *job;
    const rt_direct_panels *range;
    int64_t image;
    int64_t at[DIMENSIONS]; /* the first point */
    int along;              /* the dimension */
    int64_t count;
    const box *of;
    int64_t turn, turns; /* the number of this row of its box, and of all rows; 0: these ask for no weights */
} line;

/* ---- panels -------------------------------------------------------------------------------------------- */

/* What tiles do not apply is applied to results that have just been written. Lanes that pad a block stay zero. */
static void activate(const rt_direct *s, const rt_direct_panels *range, float *y, int64_t y_point,
                     int64_t count) {
    const int64_t first = range->first * LANES, filters = least(range->end * LANES, s->filters) - first;
    if (s->to != OP_LAYOUT_NC16) {
        if (y_point == filters) rt_activation_fused(&s->activation, y, count * filters);
        for (int64_t p = 0; p < count && y_point != filters; p++)
            rt_activation_fused(&s->activation, y + p * y_point, filters);
        return;
    }
    for (int64_t at = 0; at < filters; at += LANES, y += s->tiles.y_panel) {
        const int64_t there = filters - at;
        if (y_point == LANES) rt_activation_fused(&s->activation, y, count * LANES);
        for (int64_t p = 0; p < count && (y_point != LANES || there < LANES); p++) {
            if (y_point != LANES) rt_activation_fused(&s->activation, y + p * y_point, LANES);
            if (there < LANES) memset(y + p * y_point + there, 0, (size_t)(LANES - there) * sizeof *y);
        }
    }
}

/* So many points on, in the image and in the result. */
static void move_on(rt_direct_row *row, int64_t points) {
    row->x = rt_address(row->x, points * row->apart);
    row->y += points * row->y_point;
    if (row->residual) row->residual += points * row->y_point;
}

/* `count` points in tiles of equal size, or nearly. The row moves on by them. */
static void run_tiles(rt_direct_row *row, rt_direct_kind kind, int64_t panels, int64_t count, int64_t most) {
    if (count <= most) {
        row->times = 1;
        rt_direct_function_for(kind, count, panels)(row, NULL);
        move_on(row, count);
        return;
    }
    const int64_t tiles = (count + most - 1) / most, points = count / tiles, larger = count % tiles,
                  done = larger * (points + 1);
    const int64_t lines = row->next_lines;
    const float *const next = row->next;
    row->times = larger;
    row->next_lines = lines * larger / tiles;
    if (larger) rt_direct_function_for(kind, points + 1, panels)(row, NULL);
    move_on(row, done);
    row->times = tiles - larger;
    row->next += row->next_lines * LANES;
    row->next_lines = lines - row->next_lines;
    rt_direct_function_for(kind, points, panels)(row, NULL);
    move_on(row, count - done);
    row->next = next;
    row->next_lines = lines;
}

static rt_direct_kind kind_of(const rt_direct *s, int64_t apart) {
    if (rt_direct_reads_maps(s)) return apart == 2 ? RT_DIRECT_PAIRS : RT_DIRECT_MAPS;
    return apart == LANES ? RT_DIRECT_BLOCKS : RT_DIRECT_ROWS;
}

/* Points that lie a multiple of a page apart meet in few sets of the nearest cache: a tile has fewer of them, and more panels. */
static bool is_page_apart(int64_t floats) {
    return floats * (int64_t)sizeof(float) % PAGE == 0;
}

/* What tiles at `point`, counted through all rows, are made of: all but where they see. Such a row is made where it is used, and not handed on as a
 * copy: of small images that takes as long as their tiles. */
static inline __attribute__((always_inline)) rt_direct_row
row_at(const rt_direct_job *job, const rt_direct_panels *range, int64_t image, int64_t point) {
    const rt_direct *s = job->shape;
    const int64_t filter = range->group * s->filters + range->first * LANES,
                  panel = range->group * rt_direct_panel_count(s) + range->first,
                  y_at = image * s->y_image_step + point * s->y_pixel + range->group * s->y_group_step +
                         range->first * s->y_panel;
    return (rt_direct_row){.shape = &s->tiles,
                           .part_step = s->channels_step,
                           .places = s->places,
                           .panels = job->weights + panel * s->tiles.panel_floats,
                           .bias = job->bias ? job->bias + filter : NULL,
                           .residual = job->residual ? job->residual + y_at : NULL,
                           .y = job->y + y_at,
                           .y_point = s->y_pixel,
                           .padded = s->to == OP_LAYOUT_NC16};
}

/* These panels, up to as many as a tile has, at `count` points of a row, in tiles of up to `most`. An activation that tiles do not apply is
 * applied while the nearest cache holds the results. */
static void run_row(const rt_direct *s, rt_direct_row *row, const rt_direct_panels *range,
                    rt_direct_kind kind, int64_t count, int64_t most) {
    const int64_t panels = range->end - range->first;
    if (s->finished) {
        run_tiles(row, kind, panels, count, most);
        return;
    }
    const int64_t near = NEAREST_FLOATS / (panels * LANES) / most * most, each = near < most ? count : near;
    for (int64_t done = 0; done < count; done += each) {
        const int64_t part = least(each, count - done);
        float *const y = row->y;
        run_tiles(row, kind, panels, part, most);
        activate(s, range, y, row->y_point, part);
    }
}

/* The same where results are row-major: some points at a time, whose filters lie side by side before they are turned. */
static void run_turned(const rt_direct *s, rt_direct_row *row, const rt_direct_panels *range,
                       rt_direct_kind kind, int64_t count, int64_t most) {
    enum { TURNED_POINTS = 128, WIDEST = RT_DIRECT_PANELS * LANES };
    alignas(64) float turned[TURNED_POINTS * WIDEST];
    const int64_t wide = (range->end - range->first) * LANES, each = TURNED_POINTS / most * most,
                  points = s->window.output[DIMENSIONS - 1];
    float *const y = row->y;
    row->y_point = wide;
    for (int64_t done = 0; done < count; done += each) {
        const int64_t part = least(each, count - done);
        row->y = turned;
        run_tiles(row, kind, range->end - range->first, part, most);
        if (!s->finished) activate(s, range, turned, wide, part);
        rt_turn_words((const uint32_t *)(const void *)turned, wide, part, row->filters,
                      (uint32_t *)(void *)(y + done), points);
    }
}

/* Which weights tiles ask for that read `panels` panels, of which others follow in the range: all that are read next, in the first of these rows;
 * where no others follow, each row asks for its part of those of the next range. */
static void find_next(const rt_direct *s, rt_direct_row *row, int64_t panels, int64_t next, bool others,
                      const line *points) {
    const int64_t lines = next * s->tiles.panel_floats / LANES, turn = points->turn, turns = points->turns,
                  first = others ? (turn ? lines : 0) : lines * turn / turns,
                  end = others ? lines : lines * (turn + 1) / turns;
    row->next = row->panels + panels * s->tiles.panel_floats + first * LANES;
    row->next_lines = end - first;
}

/* All of these panels at `count` points: of spots, or of the line; the other is NULL. The row moves on as it likes. */
static void run_panels(const rt_direct *s, const rt_direct_panels *range, rt_direct_row *row,
                       const rt_direct_spots *spots, const line *points, int64_t count) {
    const rt_direct_kind kind = spots ? RT_DIRECT_SPOTS : kind_of(s, row->apart);
    const bool few = (kind == RT_DIRECT_ROWS || spots) && is_page_apart(row->apart);
    const float *const x = row->x, *residual = row->residual;
    float *y = row->y;
    const int64_t most = few ? RT_DIRECT_MORE_PANELS : RT_DIRECT_PANELS;
    int64_t left = s->filters - range->first * LANES;
    for (int64_t p = range->first; p < range->end; p += most, left -= most * LANES) {
        const int64_t panels = least(range->end - p, most);
        const rt_direct_panels these = {.group = range->group, .first = p, .end = p + panels};
        row->filters = least(left, panels * LANES);
        row->x = x;
        row->y = y;
        row->residual = residual;
        if (points && points->turns)
            find_next(s, row, panels, least(rt_direct_panel_count(s) - p - panels, most),
                      range->end - range->first > most, points);
        if (spots) {
            rt_direct_function_for(kind, count, panels)(row, spots);
            if (!s->finished) activate(s, &these, y, row->y_point, count);
        } else {
            (s->to == OP_LAYOUT_ROW_MAJOR ? run_turned : run_row)(s, row, &these, kind, count,
                                                                  few          ? RT_DIRECT_FEW_POINTS
                                                                  : panels > 1 ? RT_DIRECT_POINTS
                                                                               : RT_DIRECT_MORE_POINTS);
        }
        row->panels += most * s->tiles.panel_floats;
        y += most * s->y_panel;
        if (row->bias) row->bias += most * LANES;
        if (residual) residual += most * s->y_panel;
    }
}

static void run_line(const line *points) {
    const rt_direct_job *job = points->job;
    const rt_direct *s = job->shape;
    int64_t place = 0, point = 0, apart = s->window.stride[points->along], y_apart = 1;
    for (int d = 0; d < DIMENSIONS; d++) {
        place = place * s->window.input[d] + points->at[d] * s->window.stride[d] - s->window.before[d];
        point = point * s->window.output[d] + points->at[d];
        if (d <= points->along) continue;
        apart *= s->window.input[d];
        y_apart *= s->window.output[d];
    }
    rt_direct_row row = row_at(job, points->range, points->image, point);
    row.x = rt_address(job->x, points->image * s->image_step + points->range->group * s->group_step +
                                   place * s->pixel);
    row.apart = apart * s->pixel;
    row.y_point *= y_apart;
    row.runs = points->of->runs;
    row.run_count = points->of->run_count;
    run_panels(s, points->range, &row, NULL, points, points->count);
}

/* ---- boxes --------------------------------------------------------------------------------------------- */

/* Elements of a window in so many pixels, one begun counts. (Divisions of small images take as long as their tiles.) */
static int64_t elements_in(int64_t pixels, int64_t dilation) {
    return dilation == 1 ? pixels : (pixels + dilation - 1) / dilation;
}

/* The elements of the window along dimension d that see the image from result number `at`. */
static void find_seen(const rt_direct *s, int d, int64_t at, int64_t *first, int64_t *end) {
    const int64_t begin = at * s->window.stride[d] - s->window.before[d], dilation = s->window.dilation[d],
                  left = s->window.input[d] - begin, last = left > 0 ? elements_in(left, dilation) : 0;
    *first = begin < 0 ? least(elements_in(-begin, dilation), s->window.kernel[d]) : 0;
    *end = least(last, s->window.kernel[d]);
    if (*end < *first) *end = *first;
}

/* How far the points reach along dimension d, from `from` on and before `end`, that see with the same elements as the first. */
static int64_t find_box(const rt_direct *s, int d, int64_t from, int64_t end, box *of) {
    int64_t first, last, to = from + 1;
    find_seen(s, d, from, &of->element[d], &of->element_end[d]);
    for (; to < end; to++) {
        find_seen(s, d, to, &first, &last);
        if (first != of->element[d] || last != of->element_end[d]) break;
        /* Between the sides nothing changes before the last element reaches the end. */
        if (first == 0 && last == s->window.kernel[d]) {
            to = least(end, rt_direct_inside_end(s, d));
            break;
        }
    }
    of->first[d] = from;
    of->end[d] = to;
    return to;
}

/* The elements that the points of a box see, as few runs of them as possible. */
static void find_runs(const rt_direct *s, box *of) {
    const int64_t *kernel = s->window.kernel, maps = rt_direct_reads_maps(s) ? s->channels : 1;
    of->run_count = 0;
    for (int64_t map = 0; map < maps; map++) {
        for (int64_t plane = of->element[0]; plane < of->element_end[0]; plane++) {
            for (int64_t row = of->element[1]; row < of->element_end[1]; row++) {
                const int64_t at = ((map * kernel[0] + plane) * kernel[1] + row) * kernel[2],
                              first = at + of->element[2], end = at + of->element_end[2];
                if (first == end) continue;
                if (of->run_count && of->runs[of->run_count - 1].end == first)
                    of->runs[of->run_count - 1].end = end;
                else of->runs[of->run_count++] = (rt_direct_run){first, end};
            }
        }
    }
}

/* Whether the points of a box see with the whole window: most points do. */
static bool sees_all(const rt_direct *s, const box *of) {
    for (int d = 0; d < DIMENSIONS; d++)
        if (of->element_end[d] - of->element[d] < s->window.kernel[d]) return false;
    return true;
}

/* Along the rows, or along the columns where these are longer. Of single points, which lie in one row, as many are made of all panels before
 * others are as stay in the second cache. */
static void run_box(const rt_direct_job *job, const rt_direct_panels *range, int64_t image, const box *of) {
    const rt_direct *s = job->shape;
    const int along = of->end[1] - of->first[1] > of->end[2] - of->first[2] ? 1 : 2, across = 3 - along;
    const int64_t filters = (range->end - range->first) * LANES, near = NEAR_FLOATS / (s->channels + filters),
                  most = near < RT_DIRECT_MORE_POINTS ? RT_DIRECT_MORE_POINTS : near;
    line points = {.job = job, .range = range, .image = image, .along = along, .of = of};
    if (sees_all(s, of)) points.turns = (of->end[0] - of->first[0]) * (of->end[across] - of->first[across]);
    for (int64_t i = of->first[0]; i < of->end[0]; i++) {
        for (int64_t j = of->first[across]; j < of->end[across]; j++, points.turn++) {
            for (int64_t k = of->first[along]; k < of->end[along]; k += points.count) {
                points.at[0] = i;
                points.at[across] = j;
                points.at[along] = k;
                points.count = least(of->end[along] - k, most);
                run_line(&points);
            }
        }
    }
}

/* Results of one image, from `first` to before `end`. */
static void run_results(const rt_direct_job *job, const rt_direct_panels *range, int64_t image,
                        const int64_t first[DIMENSIONS], const int64_t end[DIMENSIONS]) {
    const rt_direct *s = job->shape;
    box of;
    for (int64_t i = first[0]; i < end[0];) {
        i = find_box(s, 0, i, end[0], &of);
        for (int64_t j = first[1]; j < end[1];) {
            j = find_box(s, 1, j, end[1], &of);
            for (int64_t k = first[2]; k < end[2];) {
                k = find_box(s, 2, k, end[2], &of);
                find_runs(s, &of);
                run_box(job, range, image, &of);
            }
        }
    }
}

/* ---- spots --------------------------------------------------------------------------------------------- */

/* Where a point lies among the results of an image, and what planes and rows of its window see the image. */
typedef struct spot {
    int64_t at[DIMENSIONS], first[DIMENSIONS], end[DIMENSIONS];
    int64_t place; /* of the image, that a window at column 0 sees first, in pixels */
} spot;

static void enter_row(const rt_direct *s, spot *to) {
    to->place = 0;
    for (int d = 0; d < DIMENSIONS - 1; d++) {
        to->place =
            (to->place + to->at[d] * s->window.stride[d] - s->window.before[d]) * s->window.input[d + 1];
        find_seen(s, d, to->at[d], &to->first[d], &to->end[d]);
    }
    to->place -= s->window.before[2];
}

static void next_spot(const rt_direct *s, spot *to) {
    if (++to->at[2] < s->window.output[2]) return;
    to->at[2] = 0;
    if (++to->at[1] == s->window.output[1]) {
        to->at[1] = 0;
        to->at[0]++;
    }
    enter_row(s, to);
}

/* Notes that spot number p of a tile sees these elements of the window. */
static void see(const rt_direct *s, const spot *from, int p, uint32_t *visible) {
    for (int64_t i = from->first[0]; i < from->end[0]; i++)
        for (int64_t j = from->first[1]; j < from->end[1]; j++)
            for (int64_t k = from->first[2]; k < from->end[2]; k++)
                visible[(i * s->window.kernel[1] + j) * s->window.kernel[2] + k] |= UINT32_C(1) << p;
}

/* One tile of `count` points of an image from `point` on. */
static void run_spots(const rt_direct_job *job, const rt_direct_panels *range, int64_t image, int64_t point,
                      int64_t count) {
    const rt_direct *s = job->shape;
    const float *x = job->x + image * s->image_step + range->group * s->group_step;
    rt_direct_spots spots = {0};
    spot at = {.at = {point / s->window.output[2] / s->window.output[1],
                      point / s->window.output[2] % s->window.output[1], point % s->window.output[2]}};
    enter_row(s, &at);
    for (int p = 0; p < count; p++) {
        spots.points[p] = rt_address(x, (at.place + at.at[2] * s->window.stride[2]) * s->pixel);
        find_seen(s, 2, at.at[2], &at.first[2], &at.end[2]);
        see(s, &at, p, spots.visible);
        next_spot(s, &at);
    }
    rt_direct_row row = row_at(job, range, image, point);
    row.times = 1;
    row.apart = s->window.stride[2] * s->pixel;
    run_panels(s, range, &row, &spots, NULL, count);
}

/* Zeros beside the image count for nothing if all weights are finite. */
static bool has_spots(const rt_direct_job *job) {
    return job->shape->spots && job->finite;
}

static int64_t points_of_spots(const rt_direct *s) {
    return is_page_apart(s->window.stride[2] * s->pixel) ? RT_DIRECT_FEW_POINTS : RT_DIRECT_POINTS;
}

/* ---- threads ------------------------------------------------------------------------------------------- */

int64_t rt_direct_units(const rt_direct *s) {
    const int64_t most = points_of_spots(s), points = rt_direct_product(s->window.output);
    return s->images * (s->spots || rt_direct_is_one_row(s) ? (points + most - 1) / most
                                                            : s->window.output[0] * s->window.output[1]);
}

/* A member's part of all spots. */
static void run_all_spots(const rt_direct_job *job, const rt_direct_panels *range, int member, int members) {
    const rt_direct *s = job->shape;
    const int64_t points = rt_direct_product(s->window.output), all = rt_direct_units(s),
                  tiles = all / s->images;
    for (int64_t i = all * member / members; i < all * (member + 1) / members; i++) {
        const int64_t t = i % tiles, first = points * t / tiles;
        run_spots(job, range, i / tiles, first, points * (t + 1) / tiles - first);
    }
}

/* A member's part of all rows, or of all columns where there is one row: planes of an image, or rows of one, as many at a time as there are. */
static void run_all_rows(const rt_direct_job *job, const rt_direct_panels *range, int member, int members) {
    const rt_direct *s = job->shape;
    const int along = rt_direct_is_one_row(s) ? 2 : 1;
    const int64_t of_plane = s->window.output[along], each = s->window.output[0] * of_plane,
                  all = s->images * each, end = all * (member + 1) / members;
    for (int64_t i = all * member / members; i < end;) {
        const int64_t image = i / each, plane = i % each / of_plane, at = i % of_plane,
                      left = least(end - i, (plane + 1) * of_plane - i % each);
        int64_t first[] = {plane, 0, 0}, last[] = {plane + 1, s->window.output[1], s->window.output[2]};
        first[along] = at;
        last[along] = at + left;
        run_results(job, range, image, first, last);
        i += left;
    }
}

void rt_direct_run_part(const rt_direct_job *job, const rt_direct_panels *range, int member, int members) {
    (has_spots(job) ? run_all_spots : run_all_rows)(job, range, member, members);
}
