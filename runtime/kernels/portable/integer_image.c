/* SPDX-License-Identifier: Apache-2.0 */
/* integer_image.c: lines and quadruples of the image of an integer convolution; see integer_image.h. */
#include "runtime/kernels/portable/integer_image.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/short_rows.h"
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

enum {
    JOINED_PART = 16,                   /* of a row that is copied */
    QUAD_LINE = 1024,                   /* bytes of a channel that are copied at a time */
    PANEL_BYTES = 4 * RT_INTEGER_PANEL, /* of a quadruple */
};

/* The output position with this number. */
static void locate(const op_window *window, int64_t position, int64_t at[OP_WINDOW_RANK]) {
    for (int32_t i = window->rank - 1; i >= 0; i--) {
        at[i] = position % window->output[i];
        position /= window->output[i];
    }
}

/* The number that an output position has in the grid. */
static int64_t grid_position(const rt_integer_image *shape, const int64_t at[OP_WINDOW_RANK]) {
    int64_t position = 0;
    for (int32_t i = 0; i < shape->window.rank; i++) position = position * shape->grid[i] + at[i];
    return position;
}

/* The next output row: at[rank - 1] becomes 0. */
static void next_row(const op_window *window, int64_t at[OP_WINDOW_RANK]) {
    at[window->rank - 1] = 0;
    for (int32_t i = window->rank - 2; i >= 0 && ++at[i] == window->output[i]; i--) at[i] = 0;
}

/* ---- the image, copied --------------------------------------------------------------------------------- */

/* The remainder that has number `part` in a dimension: those that window elements see, in order of appearance. */
static int64_t remainder_of(const op_window *window, int32_t i, int64_t part) {
    return part * window->dilation[i] % window->stride[i];
}

/* How many there are: they repeat. */
static int64_t count_parts(const op_window *window, int32_t i) {
    int64_t parts = 1;
    while (parts < window->kernel[i] && parts < window->stride[i] && remainder_of(window, i, parts) != 0)
        parts++;
    return parts;
}

/* Which elements of a dimension part `part` of the grid has: [first, end), of which the first one is that of the input, and what follows lies a
 * stride further. */
typedef struct part_range {
    int64_t first, end, input;
} part_range;

static part_range range_of(const rt_integer_image *shape, int32_t i, int64_t part) {
    const op_window *window = &shape->window;
    const int64_t stride = window->stride[i], shift = remainder_of(window, i, part) - window->before[i],
                  seen = window->input[i] - shift;
    part_range made = {.first = shift >= 0 ? 0 : (-shift + stride - 1) / stride,
                       .end = seen <= 0 ? 0 : (seen - 1) / stride + 1};
    if (made.end > shape->grid[i]) made.end = shape->grid[i];
    if (made.first > made.end) made.first = made.end;
    made.input = made.first * stride + shift;
    return made;
}

/* The part of a channel that is being copied: its remainders, and the elements [first, end) of its rows that are no
 * padding. */
typedef struct channel_part {
    int64_t number[OP_WINDOW_RANK], remainder[OP_WINDOW_RANK], first, end;
} channel_part;

static void enter_part(const rt_integer_image *shape, channel_part *part) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    for (int32_t i = 0; i <= last; i++) part->remainder[i] = remainder_of(window, i, part->number[i]);
    const part_range row = range_of(shape, last, part->number[last]);
    part->first = row.first;
    part->end = row.end;
}

/* How far a channel is copied: the part, and the row within it. */
typedef struct channel_cursor {
    channel_part part;
    int64_t at[OP_WINDOW_RANK];
    bool done;
} channel_cursor;

/* At most `rows` rows from there on; how many. */
static int64_t copy_rows(const rt_integer_image *shape, const uint8_t *x, uint8_t zero, int64_t rows,
                         channel_cursor *cursor, uint8_t *to) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    const int64_t width = shape->grid[last], stride = window->stride[last];
    channel_part *part = &cursor->part;
    int64_t *at = cursor->at, copied = 0;
    for (; copied < rows && !cursor->done; copied++, to += width) {
        int64_t row = 0;
        bool inside = part->end > part->first;
        for (int32_t i = 0; i < last; i++) {
            const int64_t in = at[i] * window->stride[i] + part->remainder[i] - window->before[i];
            inside = inside && in >= 0 && in < window->input[i];
            row = row * window->input[i] + in;
        }
        if (inside) {
            const int64_t from = row * window->input[last] + part->remainder[last] - window->before[last];
            rt_fill_side(to, zero, part->first);
            rt_copy_every(to + part->first, x + from + part->first * stride, part->end - part->first, stride);
            rt_fill_side(to + part->end, zero, width - part->end);
        } else {
            memset(to, zero, (size_t)width);
        }
        int32_t next = last - 1;
        for (; next >= 0 && ++at[next] == shape->grid[next]; next--) at[next] = 0;
        if (next >= 0) continue;
        for (next = last; next >= 0 && ++part->number[next] == shape->parts[next]; next--)
            part->number[next] = 0;
        if (next >= 0) enter_part(shape, part);
        cursor->done = next < 0;
    }
    return copied;
}

/* Up to four channels side by side, some rows at a time. */
static void copy_quads(const rt_integer_image *shape, const uint8_t *x, int64_t channels, uint8_t zero,
                       const channel_cursor *start, uint8_t *to) {
    uint8_t lines[4][QUAD_LINE];
    const uint8_t *four[4] = {NULL};
    const int64_t width = shape->grid[shape->window.rank - 1], rows = QUAD_LINE / width;
    channel_cursor cursor = *start;
    while (!cursor.done) {
        channel_cursor now = cursor;
        int64_t bytes = 0;
        for (int64_t i = 0; i < channels; i++) {
            now = cursor;
            bytes = width * copy_rows(shape, x + i * shape->input_size, zero, rows, &now, lines[i]);
            four[i] = lines[i];
        }
        rt_quads_interleave(four, bytes, rt_filters_flip(shape->dtype), to, PANEL_BYTES);
        to += 4 * bytes;
        cursor = now;
    }
}

RT_CLONES static void fill_quads(uint8_t *to, const uint8_t four[4], int64_t count) {
    for (int64_t i = 0; i < count; i++) memcpy(to + 4 * i, four, 4);
}

/* The same of maps: rows are read where they lie, between padding that is there before. */
static void copy_map_quads(const rt_integer_image *shape, const uint8_t *x, int64_t channels, uint8_t zero,
                           uint8_t *to) {
    const op_window *window = &shape->window;
    const uint8_t flip = rt_filters_flip(shape->dtype);
    const int64_t part_bytes = 4 * shape->grid[0] * shape->grid[1];
    rt_quad_rows rows = {.channels = channels,
                         .channel_step = shape->input_size,
                         .row_step = window->stride[0] * window->input[1],
                         .column_step = window->stride[1],
                         .to_step = 4 * shape->grid[1]};
    for (int64_t part = 0; part < shape->parts[0] * shape->parts[1]; part++, to += part_bytes) {
        const part_range y = range_of(shape, 0, part / shape->parts[1]),
                         z = range_of(shape, 1, part % shape->parts[1]);
        rows.rows = y.end - y.first;
        rows.columns = z.end - z.first;
        if (4 * rows.rows * rows.columns < part_bytes) {
            uint8_t four[4] = {0};
            memset(four, zero ^ flip, (size_t)channels);
            fill_quads(to, four, part_bytes / 4);
        }
        if (rows.rows == 0 || rows.columns == 0) continue;
        rows.from = x + y.input * window->input[1] + z.input;
        rows.to = to + 4 * (y.first * shape->grid[1] + z.first);
        rt_quads_interleave_rows(&rows, flip);
    }
}

void rt_image_copy(const rt_integer_image *shape, const uint8_t *x, uint8_t zero, int64_t first, int64_t end,
                   uint8_t *to) {
    const op_window *window = &shape->window;
    channel_cursor start = {.done = false};
    enter_part(shape, &start.part);
    for (int64_t plane = first; plane < end; plane++, to += shape->plane_bytes) {
        if (shape->quads) {
            const int64_t channel = plane % shape->planes * 4, left = shape->channels - channel;
            const uint8_t *from = x + (plane / shape->planes * shape->channels + channel) * shape->input_size;
            if (window->rank == 2) copy_map_quads(shape, from, left < 4 ? left : 4, zero, to);
            else copy_quads(shape, from, left < 4 ? left : 4, zero, &start, to);
            continue;
        }
        channel_cursor cursor = start;
        copy_rows(shape, x + plane * shape->input_size, zero, INT64_MAX, &cursor, to);
    }
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* The element of a filter with number `k` in the order of its depth. */
typedef struct element {
    int64_t channel, tap;
} element;

static element element_at(const rt_integer_image *shape, int64_t k) {
    if (!shape->by_channels) return (element){k / shape->kernel_size, k % shape->kernel_size};
    return (element){k / 4 / shape->kernel_size * 4 + k % 4, k / 4 % shape->kernel_size};
}

/* Goes to the next one, of the same quadruple where these are of channels. False: there it is filled up. */
static bool next_element(const rt_integer_image *shape, element *at) {
    if (shape->by_channels) {
        at->channel++;
    } else if (++at->tap == shape->kernel_size) {
        at->tap = 0;
        at->channel++;
    }
    return at->channel < shape->channels;
}

/* Where they lie in the image or its copy. */
static void find_lines(const rt_image_lines *context, int64_t k, int64_t count, const uint8_t **to,
                       uint8_t *spare) {
    const rt_integer_image *shape = context->image;
    const int64_t wide = (context->count + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL * RT_INTEGER_PANEL;
    const uint8_t *x = context->x + context->position;
    element at = element_at(shape, k);
    bool there = at.channel < shape->channels;
    for (int64_t i = 0; i < count; i++, there = next_element(shape, &at)) {
        to[i] = there ? x + at.channel * shape->channel_bytes + shape->taps[at.tap] : NULL;
        if (there && context->end - to[i] < wide) {
            uint8_t *line = spare + i * RT_INTEGER_COLUMNS;
            memcpy(line, to[i], (size_t)context->count);
            to[i] = line;
        }
    }
}

/* One row after another, in parts of JOINED_PART bytes: what is copied beyond the end of one is written over by the next. */
static inline void join_rows(const rt_image_runs *rows, int64_t parts, const uint8_t *x, uint8_t *line) {
    for (int64_t r = 0; r < rows->count; r++) {
        for (int64_t at = 0; at < parts; at += JOINED_PART)
            memcpy(line + rows->list[r].from + at, x + rows->list[r].to + at, JOINED_PART);
    }
}

static void join_lines(const rt_image_lines *context, int64_t k, int64_t count, const uint8_t **to,
                       uint8_t *spare) {
    const rt_integer_image *shape = context->image;
    const rt_image_runs *rows = context->runs;
    const rt_image_run *last = &rows->list[rows->count - 1];
    const int64_t width = shape->window.output[shape->window.rank - 1],
                  parts = (width + JOINED_PART - 1) / JOINED_PART * JOINED_PART;
    element at = element_at(shape, k);
    bool there = at.channel < shape->channels;
    for (int64_t i = 0; i < count; i++, spare += RT_INTEGER_COLUMNS, there = next_element(shape, &at)) {
        to[i] = there ? spare : NULL;
        if (!there) continue;
        const uint8_t *x = context->x + at.channel * shape->channel_bytes + shape->taps[at.tap];
        if (last->from + parts <= RT_INTEGER_COLUMNS && context->end - x - last->to >= parts) {
            if (parts == JOINED_PART) join_rows(rows, JOINED_PART, x, spare);
            else join_rows(rows, parts, x, spare);
            continue;
        }
        for (int64_t r = 0; r < rows->count; r++)
            memcpy(spare + rows->list[r].from, x + rows->list[r].to, (size_t)rows->list[r].count);
    }
}

/* Where the input row lies that an output row sees through window element `tap`, counted from the channel's first
 * element to the one that the row's first position sees, which may be padding. False: the whole row is. */
static bool find_row(const op_window *window, const int64_t *shift, const int64_t *at, int64_t *offset) {
    const int32_t last = window->rank - 1;
    int64_t row = 0;
    for (int32_t i = 0; i < last; i++) {
        const int64_t in = at[i] * window->stride[i] + shift[i];
        if (in < 0 || in >= window->input[i]) return false;
        row = row * window->input[i] + in;
    }
    *offset = row * window->input[last] + shift[last];
    return true;
}

/* What one window element of one channel sees at the block's positions. */
static void gather_line(const rt_image_lines *context, element from_element, uint8_t *line) {
    const rt_integer_image *shape = context->image;
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    const int64_t tap = from_element.tap, width = window->output[last];
    const uint8_t *x = context->x + from_element.channel * shape->input_size;
    const int64_t *shift = shape->shifts + tap * window->rank;
    int64_t at[OP_WINDOW_RANK];
    for (int32_t i = 0; i <= last; i++) at[i] = context->at[i];
    for (int64_t left = context->count; left > 0;) {
        const int64_t from = at[last], to = width - from < left ? width : from + left;
        int64_t offset, first = shape->firsts[tap], end = shape->ends[tap];
        if (!find_row(window, shift, at, &offset)) {
            memset(line, context->zero, (size_t)(to - from));
        } else {
            first = first < from ? from : first > to ? to : first;
            end = end < first ? first : end > to ? to : end;
            memset(line, context->zero, (size_t)(first - from));
            if (end > first) {
                rt_copy_every(line + (first - from), x + offset + first * window->stride[last], end - first,
                              window->stride[last]);
            }
            memset(line + (end - from), context->zero, (size_t)(to - end));
        }
        line += to - from;
        left -= to - from;
        next_row(window, at);
    }
}

static void gather_lines(const rt_image_lines *context, int64_t k, int64_t count, const uint8_t **to,
                         uint8_t *spare) {
    const rt_integer_image *shape = context->image;
    element at = element_at(shape, k);
    bool there = at.channel < shape->channels;
    for (int64_t i = 0; i < count; i++, spare += RT_INTEGER_COLUMNS, there = next_element(shape, &at)) {
        to[i] = there ? spare : NULL;
        if (there) gather_line(context, at, spare);
    }
}

void rt_image_begin_lines(rt_image_lines *lines) {
    if (lines->image->form == IMAGE_GATHERED) locate(&lines->image->window, lines->position, lines->at);
}

void rt_image_find_lines(const void *lines, int64_t k, int64_t count, const uint8_t **to, uint8_t *spare) {
    const rt_image_lines *context = lines;
    const bool gathered = context->image->form == IMAGE_GATHERED;
    (gathered                 ? gather_lines
     : context->image->joined ? join_lines
                              : find_lines)(context, k, count, to, spare);
}

/* ---- quadruples ---------------------------------------------------------------------------------------- */

bool rt_image_is_direct(const rt_integer_image *shape) {
    return shape->quads &&
           (!shape->joined || shape->window.output[shape->window.rank - 1] % RT_INTEGER_PANEL == 0);
}

/* Of a copy whose rows are whole panels, each row by itself: nothing is joined before. */
static void fill_rows(const rt_image_lines *context, int64_t first, int64_t count, uint8_t *panels) {
    const rt_integer_image *shape = context->image;
    const rt_image_runs *rows = context->runs;
    const uint8_t flip = rt_filters_flip(shape->dtype);
    for (int64_t k = 0; k < count; k++) {
        const uint8_t *lines[4] = {NULL};
        element at = element_at(shape, 4 * (first + k));
        bool there = at.channel < shape->channels;
        for (int64_t i = 0; i < 4 && there; i++, there = next_element(shape, &at))
            lines[i] = context->x + at.channel * shape->channel_bytes + shape->taps[at.tap];
        for (int64_t r = 0; r < rows->count; r++) {
            const uint8_t *in_row[4];
            for (int i = 0; i < 4; i++) in_row[i] = lines[i] ? lines[i] + rows->list[r].to : NULL;
            rt_quads_interleave(in_row, rows->list[r].count, flip,
                                panels + (rows->list[r].from / RT_INTEGER_PANEL * count + k) * PANEL_BYTES,
                                count * PANEL_BYTES);
        }
    }
}

static void fill_lines(const rt_image_lines *context, int64_t first, int64_t count, uint8_t *panels) {
    const uint8_t flip = rt_filters_flip(context->image->dtype);
    uint8_t spare[RT_INTEGER_LINES * RT_INTEGER_COLUMNS];
    for (int64_t k = 0; k < count; k++) {
        const uint8_t *lines[RT_INTEGER_LINES];
        rt_image_find_lines(context, 4 * (first + k), 4, lines, spare);
        rt_quads_interleave(lines, context->count, flip, panels + k * PANEL_BYTES, count * PANEL_BYTES);
    }
}

static void fill_panel_plain(const uint8_t *copy, const rt_image_piece *pieces, int64_t piece_count,
                             const int64_t *offsets, int64_t count, uint8_t *to) {
    for (int64_t k = 0; k < count; k++, to += PANEL_BYTES) {
        for (int64_t p = 0; p < piece_count; p++) {
            for (int64_t j = 0; j < RT_INTEGER_PANEL; j++)
                if (pieces[p].columns >> j & 1)
                    memcpy(to + 4 * j, copy + (pieces[p].at + offsets[k] + 4 * j), 4);
        }
    }
}

#if RT_X86_KERNELS
/* The columns of a piece are loaded to where they are in the panel. */
__attribute__((target("avx512f"))) static void fill_panel_512(const uint8_t *copy,
                                                              const rt_image_piece *pieces,
                                                              int64_t piece_count, const int64_t *offsets,
                                                              int64_t count, uint8_t *to) {
    for (int64_t k = 0; k < count; k++, to += PANEL_BYTES) {
        __m512i all = _mm512_maskz_loadu_epi32(pieces[0].columns, copy + (pieces[0].at + offsets[k]));
        for (int64_t p = 1; p < piece_count; p++)
            all = _mm512_mask_loadu_epi32(all, pieces[p].columns, copy + (pieces[p].at + offsets[k]));
        _mm512_storeu_si512(to, all);
    }
}

static void fill_panel(const uint8_t *copy, const rt_image_piece *pieces, int64_t piece_count,
                       const int64_t *offsets, int64_t count, uint8_t *to) {
    (__builtin_cpu_supports("avx512f") ? fill_panel_512 : fill_panel_plain)(copy, pieces, piece_count,
                                                                            offsets, count, to);
}
#else
static void fill_panel(const uint8_t *copy, const rt_image_piece *pieces, int64_t piece_count,
                       const int64_t *offsets, int64_t count, uint8_t *to) {
    fill_panel_plain(copy, pieces, piece_count, offsets, count, to);
}
#endif

void rt_image_fill(const void *lines, int64_t first, int64_t count, uint8_t *panels) {
    const rt_image_lines *context = lines;
    const rt_image_runs *runs = context->runs;
    if (!context->image->quads) {
        const op_window *window = &context->image->window;
        const bool whole = context->image->form != IMAGE_GATHERED && context->image->joined &&
                           window->output[window->rank - 1] % RT_INTEGER_PANEL == 0;
        (whole ? fill_rows : fill_lines)(context, first, count, panels);
        return;
    }
    for (int64_t p = 0, end; p < runs->count; p = end) {
        const int16_t panel = runs->pieces[p].panel;
        for (end = p; end < runs->count && runs->pieces[end].panel == panel; end++) {
        }
        fill_panel(context->x, runs->pieces + p, end - p, context->image->offsets + first, count,
                   panels + panel * count * PANEL_BYTES);
    }
}

/* ---- results -------------------------------------------------------------------------------------------- */

static int64_t find_runs(const rt_integer_image *shape, int64_t position, int64_t count, rt_image_run *runs) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    int64_t found = 0;
    if (shape->form == IMAGE_GATHERED) {
        runs[0] = (rt_image_run){0, (int32_t)count, position};
        return 1;
    }
    int64_t at[OP_WINDOW_RANK];
    for (int32_t i = last; i >= 0; i--) {
        at[i] = i ? position % shape->grid[i] : position;
        if (i) position /= shape->grid[i];
    }
    for (int64_t from = 0; from < count;) {
        const int64_t x = at[last], left = shape->grid[last] - x,
                      row = last > 0 && left < count - from ? left : count - from;
        bool counts = x < window->output[last];
        int64_t to = 0;
        for (int32_t i = 0; i < last; i++) {
            counts = counts && at[i] < window->output[i];
            to = (to + at[i]) * window->output[i + 1];
        }
        if (counts) {
            const int64_t length = window->output[last] - x < row ? window->output[last] - x : row;
            rt_image_run *before = found ? &runs[found - 1] : NULL;
            if (before && before->from + before->count == from && before->to + before->count == to + x)
                before->count += (int32_t)length;
            else runs[found++] = (rt_image_run){(int32_t)from, (int32_t)length, to + x};
        }
        from += row;
        at[last] = 0;
        for (int32_t i = last - 1; i >= 0 && ++at[i] == shape->grid[i] && i > 0; i--) at[i] = 0;
    }
    return found;
}

/* Parts of rows of the image, of `count` results from `position` on. */
static int64_t find_rows(const rt_integer_image *shape, int64_t position, int64_t count, rt_image_run *rows) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    int64_t at[OP_WINDOW_RANK], found = 0;
    locate(window, position, at);
    for (int64_t from = 0, length; from < count; from += length) {
        length = window->output[last] - at[last];
        if (length > count - from) length = count - from;
        rows[found++] = (rt_image_run){(int32_t)from, (int32_t)length, grid_position(shape, at)};
        next_row(window, at);
    }
    return found;
}

/* Which columns of which panels lie side by side. */
static int64_t find_pieces(const rt_integer_image *shape, int64_t position, int64_t count,
                           rt_image_piece *pieces) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    int64_t at[OP_WINDOW_RANK], found = 0;
    locate(window, position, at);
    for (int64_t from = 0, length; from < count; from += length) {
        const int64_t column = from % RT_INTEGER_PANEL, row_left = window->output[last] - at[last];
        length = RT_INTEGER_PANEL - column;
        if (length > count - from) length = count - from;
        if (length > row_left) length = row_left;
        pieces[found++] = (rt_image_piece){.at = 4 * (grid_position(shape, at) - column),
                                           .columns = (uint16_t)(((1u << length) - 1) << column),
                                           .panel = (int16_t)(from / RT_INTEGER_PANEL)};
        if (length == row_left) next_row(window, at);
        else at[last] += length;
    }
    return found;
}

/* Where panels begin in a copy of quadruples, of which no panel is of several rows. */
static void find_panels(const rt_integer_image *shape, int64_t position, int64_t count, int64_t *panels) {
    for (int64_t from = 0; from < count; from += RT_INTEGER_PANEL) {
        int64_t at[OP_WINDOW_RANK], to = position + from;
        if (shape->joined) {
            locate(&shape->window, to, at);
            to = grid_position(shape, at);
        }
        panels[from / RT_INTEGER_PANEL] = 4 * to;
    }
}

void rt_image_find_runs(const rt_integer_image *image, int64_t position, int64_t count, rt_image_runs *runs) {
    if (runs->position == position) return;
    runs->position = position;
    if (image->quads && image->joined && !rt_image_is_direct(image))
        runs->count = find_pieces(image, position, count, runs->pieces);
    else runs->count = (image->joined ? find_rows : find_runs)(image, position, count, runs->list);
    if (rt_image_is_direct(image)) find_panels(image, position, count, runs->panels);
}

/* ---- how the image is read ------------------------------------------------------------------------------ */

/* Positions in panels: all numbers of the image that are seen, or results, where these are put side by side. What lies between costs a product each
 * filter; to copy quadruples costs as much as some filters do. */
static bool joins_quads(const rt_integer_image *shape, int64_t positions) {
    enum { COPY = 2, PIECE = 2 }; /* what a panel takes, and each row of which it has a part, in filters */
    const int64_t width = shape->window.output[shape->window.rank - 1],
                  whole = (positions + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL,
                  joined = (shape->output_size + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL,
                  copied = width % RT_INTEGER_PANEL ? COPY + PIECE * (1 + RT_INTEGER_PANEL / width) : 0;
    return (double)joined * (double)(shape->filters + copied) < (double)whole * (double)shape->filters;
}

void rt_image_choose_form(rt_integer_image *shape) {
    enum { MOST_POSITIONS = 3 /* halves of the results */, MOST_BYTES = 8, SMALL = 65536, JOINED = 256 };
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    bool as_it_is = true;
    shape->form = IMAGE_GATHERED;
    shape->positions = shape->output_size;
    if (shape->channels == 0) return;
    size_t bytes = 1, most;
    int64_t last_position = 0;
    if (!base_size_multiply((size_t)(shape->input_size + shape->output_size), MOST_BYTES, &most) ||
        !base_size_add(most, SMALL, &most))
        return;
    for (int32_t i = 0; i < window->rank; i++) {
        const int64_t needed =
            (window->output[i] - 1) * window->stride[i] + (window->kernel[i] - 1) * window->dilation[i] + 1;
        as_it_is = as_it_is && !(shape->by_channels && shape->kernel_size > 1) && window->stride[i] == 1 &&
                   window->before[i] == 0 && needed <= window->input[i];
        shape->parts[i] = count_parts(window, i);
        shape->grid[i] = (needed + window->stride[i] - 1) / window->stride[i];
        if (!base_size_multiply(bytes, (size_t)(shape->grid[i] * shape->parts[i]), &bytes) || bytes > most)
            return;
    }
    if (as_it_is) {
        for (int32_t i = 0; i <= last; i++) shape->grid[i] = window->input[i];
        bytes = (size_t)shape->input_size;
    }
    for (int32_t i = 0; i <= last; i++)
        last_position = last_position * shape->grid[i] + window->output[i] - 1;
    const int64_t positions = last_position + 1;
    if (2 * (double)positions > MOST_POSITIONS * (double)shape->output_size + 2 * RT_INTEGER_PANEL) return;
    shape->positions = positions;
    shape->channel_bytes = (int64_t)bytes;
    shape->form = as_it_is ? IMAGE_AS_IT_IS : IMAGE_COPIED;
    shape->quads = !as_it_is && shape->by_channels && (window->rank == 2 || shape->grid[last] <= QUAD_LINE);
    shape->planes = shape->channels;
    shape->plane_bytes = shape->channel_bytes;
    if (shape->quads) {
        shape->planes = (shape->channels + 3) / 4;
        shape->plane_bytes *= 4;
    }
    /* What lies between rows costs a product each filter; to put rows together takes a line as long as a few of them. */
    const int64_t between = shape->grid[last] - window->output[last];
    shape->joined =
        between > 0 && positions > RT_INTEGER_PANEL && (double)between * (double)shape->filters >= JOINED;
    if (shape->quads) shape->joined = joins_quads(shape, positions);
    if (shape->joined) shape->positions = shape->output_size;
}

/* Where window elements begin in a channel of the copy. */
static bool tabulate_taps(rt_integer_image *shape, base_arena *arena) {
    const op_window *window = &shape->window;
    int64_t *taps = BASE_ARRAY(arena, int64_t, (size_t)shape->kernel_size);
    if (!taps) return false;
    int64_t size = 1;
    for (int32_t i = 0; i < window->rank; i++) size *= shape->grid[i];
    for (int64_t tap = 0; tap < shape->kernel_size; tap++) {
        int64_t rest = tap, at = 0, scale = 1, part = 0, part_scale = 1;
        for (int32_t i = window->rank - 1; i >= 0; i--) {
            const int64_t k = rest % window->kernel[i];
            at += k * window->dilation[i] / window->stride[i] * scale;
            part += k % shape->parts[i] * part_scale;
            scale *= shape->grid[i];
            part_scale *= shape->parts[i];
            rest /= window->kernel[i];
        }
        taps[tap] = part * size + at;
    }
    shape->taps = taps;
    return true;
}

/* Where quadruples begin in the copy of a group: those of four channels after each other. */
static bool tabulate_quads(rt_integer_image *shape, base_arena *arena) {
    int64_t *offsets =
        base_arena_alloc(arena, (size_t)shape->planes, (size_t)shape->kernel_size * sizeof *offsets);
    if (!offsets) return false;
    for (int64_t plane = 0; plane < shape->planes; plane++) {
        for (int64_t tap = 0; tap < shape->kernel_size; tap++)
            offsets[plane * shape->kernel_size + tap] = plane * shape->plane_bytes + 4 * shape->taps[tap];
    }
    shape->offsets = offsets;
    return true;
}

/* What window elements see where lines are gathered. */
static bool tabulate_shifts(rt_integer_image *shape, base_arena *arena) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    int64_t *shifts =
        base_arena_alloc(arena, (size_t)shape->kernel_size, (size_t)(window->rank + 2) * sizeof(int64_t));
    if (!shifts) return false;
    int64_t *firsts = shifts + shape->kernel_size * window->rank, *ends = firsts + shape->kernel_size;
    for (int64_t tap = 0; tap < shape->kernel_size; tap++) {
        int64_t rest = tap, *shift = shifts + tap * window->rank;
        for (int32_t i = last; i >= 0; i--) {
            shift[i] = rest % window->kernel[i] * window->dilation[i] - window->before[i];
            rest /= window->kernel[i];
        }
        const int64_t stride = window->stride[last], seen = window->input[last] - shift[last];
        firsts[tap] = shift[last] >= 0 ? 0 : (-shift[last] + stride - 1) / stride;
        ends[tap] = seen <= 0 ? 0 : (seen - 1) / stride + 1;
        if (ends[tap] > window->output[last]) ends[tap] = window->output[last];
    }
    shape->shifts = shifts;
    shape->firsts = firsts;
    shape->ends = ends;
    return true;
}

bool rt_image_tabulate(rt_integer_image *image, base_arena *arena) {
    if (image->form == IMAGE_GATHERED) return tabulate_shifts(image, arena);
    return tabulate_taps(image, arena) && (!image->quads || tabulate_quads(image, arena));
}
