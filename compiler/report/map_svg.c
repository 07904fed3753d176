/* SPDX-License-Identifier: Apache-2.0 */
/* map_svg.c: a picture of memory as SVG; see map.h. Names are written where they fit; the tooltip of a rectangle holds everything.
 * More steps than can be read side by side are drawn in rows, as text is: what lives on at the end of a row goes on in the next. */
#include "compiler/report/map.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    LEFT = 84,
    TITLE = 64, /* the plot begins below the title, and below two lines for each nesting of loops */
    RIGHT = 150,
    BOTTOM = 130,
    PLOT_HEIGHT = 640,
    ROW_HEIGHT = 360, /* of the plot, where there are several rows */
    ROW_STEPS = 200,  /* as many names of operators can be read side by side */
    MOST_ROWS = 40,
    CHARACTER = 6,
    TEXT_HEIGHT = 11,
    SPAN_HEIGHT = 15
};

/* A row of the picture. */
typedef struct map_scale {
    double x, y;               /* pixels a unit, pixels a byte */
    double width, top, bottom; /* of the plot; where it begins, and where address 0 is */
    double spans;              /* where the names of loops begin, above it */
    double from, to;           /* the units that it shows */
} map_scale;

/* What lies outside of the row is at its ends. */
static double across(const map_scale *scale, double unit) {
    const double at = unit < scale->from ? scale->from : unit > scale->to ? scale->to : unit;
    return LEFT + (at - scale->from) * scale->x;
}
static bool is_shown(const map_scale *scale, double first, double last) {
    return first < scale->to && last > scale->from;
}
static double up(const map_scale *scale, double bytes) {
    return scale->bottom - bytes * scale->y;
}

/* At most `characters` characters of a name: its end, which tells tensors apart better than its beginning. */
static void emit_label(emit_buffer *out, const char *name, size_t characters) {
    size_t count = 0;
    for (const char *at = name; *at; at++) count += ((unsigned char)*at & 0xC0) != 0x80;
    if (count <= characters) {
        emit_xml(out, name);
        return;
    }
    const char *at = name;
    for (size_t skip = count - (characters - 1); skip && *at; skip--) {
        at++;
        while (((unsigned char)*at & 0xC0) == 0x80) at++;
    }
    emit_text(out, "\xE2\x80\xA6");
    emit_xml(out, at);
}

/* At most so many bytes of a text, from its start; only the first word where that is all that fits. */
static void emit_start(emit_buffer *out, const char *text, size_t most) {
    size_t length = strlen(text);
    if (length > most) length = strcspn(text, " ,:");
    if (length > most) return;
    char start[256];
    if (length >= sizeof start) length = sizeof start - 1;
    while (length && ((unsigned char)text[length] & 0xC0) == 0x80) length--;
    memcpy(start, text, length);
    start[length] = 0;
    emit_xml(out, start);
}

static size_t count_characters(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

/* The name, and the size below it, where it fits; turned where only the height has it. */
static void draw_label(emit_buffer *out, const map_rectangle *rectangle, double x, double y, double width,
                       double height) {
    char size[32];
    emit_size_print((size_t)rectangle->bytes, size, sizeof size);
    size_t wanted = count_characters(rectangle->name), least = wanted < 6 ? wanted : 6;
    double most = width >= height || width >= CHARACTER * (double)wanted + 6 ? width : height;
    bool turned = most != width;
    double thickness = turned ? width : height;
    if (rectangle->kind == MAP_FRAME || !wanted || thickness < TEXT_HEIGHT ||
        most < CHARACTER * (double)least + 6)
        return;
    size_t fits = (size_t)((most - 6) / CHARACTER);
    bool two = thickness >= 2 * TEXT_HEIGHT + 2 && fits >= strlen(size);
    double cx = x + width / 2, cy = y + height / 2;
    emit_format(out, "<text x=\"%.1f\" y=\"%.1f\"", cx, cy + (two ? -2 : 3.5));
    if (turned) emit_format(out, " transform=\"rotate(-90 %.1f %.1f)\"", cx, cy);
    emit_text(out, ">");
    emit_label(out, rectangle->name, fits);
    if (two) {
        emit_format(out, "<tspan class=\"s\" x=\"%.1f\" dy=\"11\">%s</tspan>", cx, size);
    }
    emit_text(out, "</text>");
}

static void draw_rectangles(emit_buffer *out, const map_picture *picture, const map_scale *scale) {
    for (size_t i = 0; i < picture->count; i++) {
        const map_rectangle *rectangle = &picture->rectangles[i];
        if (!is_shown(scale, rectangle->first, rectangle->last)) continue;
        double x = across(scale, rectangle->first), width = across(scale, rectangle->last) - x;
        double height = (double)rectangle->bytes * scale->y;
        double y = up(scale, (double)rectangle->low) - height;
        const char *fill = rectangle->family ? rectangle->family->fill : "url(#scratch)";
        const char *line = rectangle->family ? rectangle->family->line : "#666666";
        emit_text(out, "<g class=\"t\"><title>");
        emit_xml(out, rectangle->title);
        emit_format(out, "</title><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", x, y,
                    width > 0.5 ? width : 0.5, height > 0.3 ? height : 0.3);
        if (rectangle->kind == MAP_FRAME) {
            emit_format(out, " fill=\"%s\" fill-opacity=\"0.35\" stroke=\"%s\" stroke-width=\"1.5\"/>", fill,
                        line);
        } else {
            emit_format(out, " fill=\"%s\" stroke=\"%s\" stroke-width=\"%s\"/>", fill, line,
                        height > 3 && width > 3 ? "0.8" : "0.25");
        }
        draw_label(out, rectangle, x, y, width, height);
        emit_text(out, "</g>\n");
    }
}

/* A round number of bytes (a power of two) that divides the height into 4 to 8 pieces. */
static uint64_t tick_bytes(uint64_t height) {
    uint64_t tick = 1;
    while (tick < UINT64_MAX / 16 && tick * 8 < height) tick *= 2;
    return tick;
}

static void draw_axes(emit_buffer *out, const map_picture *picture, const map_scale *scale, uint64_t top) {
    double right = LEFT + scale->width;
    uint64_t tick = tick_bytes(top);
    char text[32];
    for (uint64_t at = 0; at <= top; at += tick) {
        double y = up(scale, (double)at);
        emit_format(out, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", (int)LEFT, y,
                    right, y);
        emit_format(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                    y + 3.5, emit_size_print((size_t)at, text, sizeof text));
    }
    /* Numbers of steps at multiples of 1, 2, 5, 10, ... that stand at least 30 pixels apart. */
    double every = 1;
    for (int turn = 0; every * scale->x < 30; turn++) every *= turn % 3 == 1 ? 2.5 : 2;
    for (double at = ceil(scale->from / every) * every; at <= scale->to; at += every) {
        double x = across(scale, at);
        emit_format(out, "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x,
                    scale->bottom, x, scale->bottom + 4);
        emit_format(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%.0f</text>\n", x, scale->bottom + 15,
                    picture->steps ? (double)picture->steps[(size_t)at] : at);
    }
    for (size_t unit = (size_t)scale->from; picture->columns && scale->x >= 9 && unit < (size_t)scale->to;
         unit++) {
        if (!picture->columns[unit]) continue;
        double x = across(scale, (double)unit + 0.5) + 3;
        emit_format(out, "<text class=\"op\" x=\"%.1f\" y=\"%.1f\" transform=\"rotate(-90 %.1f %.1f)\">", x,
                    scale->bottom + 22, x, scale->bottom + 22);
        emit_label(out, picture->columns[unit], 16);
        emit_text(out, "</text>\n");
    }
    emit_format(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">step</text>\n", LEFT - 6,
                scale->bottom + 15);
    emit_format(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">address</text>\n",
                LEFT - 6, scale->top - 6);
    emit_format(out,
                "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" class=\"axis\"/>\n",
                (int)LEFT, scale->top, scale->width, scale->bottom - scale->top);
}

/* The live bytes of each step: an area under the rectangles, and (`line`) its edge over them. */
static void draw_curve(emit_buffer *out, const map_picture *picture, const map_scale *scale, bool line) {
    bool begun = false;
    for (size_t i = 0; i < picture->curve_count; i++) {
        const double first = picture->curve_at[i], last = picture->curve_at[i + 1];
        if (!is_shown(scale, first, last)) continue;
        const double x = across(scale, first), y = up(scale, (double)picture->curve[i]);
        if (begun) emit_format(out, "V%.1f", y);
        else if (line) emit_format(out, "<path class=\"live\" d=\"M%.1f %.1f", x, y);
        else emit_format(out, "<path class=\"area\" d=\"M%.1f %.1fV%.1f", x, scale->bottom, y);
        emit_format(out, "H%.1f", across(scale, last));
        begun = true;
    }
    if (!begun) return;
    if (!line) emit_format(out, "V%.1fZ", scale->bottom);
    emit_text(out, "\"/>\n");
}

/* Buffers of the caller above the arena. */
static void draw_bands(emit_buffer *out, const map_picture *picture, const map_scale *scale) {
    for (size_t i = 0; i < picture->band_count; i++) {
        const map_band *band = &picture->bands[i];
        const double height = (double)band->bytes * scale->y, y = up(scale, (double)band->low) - height;
        emit_format(out, "<rect class=\"band\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                    (int)LEFT, y, scale->width, height);
        emit_format(out, "<text class=\"legend\" x=\"%.1f\" y=\"%.1f\">", LEFT + scale->width + 10,
                    y + height / 2 + 3);
        emit_label(out, band->name, 22);
        emit_text(out, "</text>\n");
    }
}

/* Loops and their iterations, and blocks that repeat: names above the plot, lines through it where one begins. */
static void draw_spans(emit_buffer *out, const map_picture *picture, const map_scale *scale) {
    for (size_t i = 0; i < picture->span_count; i++) {
        const map_span *span = &picture->spans[i];
        if (!is_shown(scale, span->first, span->last)) continue;
        const double x = across(scale, span->first), width = across(scale, span->last) - x;
        const double y = scale->spans + (2 * span->depth + (span->iteration ? 1 : 0)) * SPAN_HEIGHT;
        const char *lines = span->repeats ? "blockline" : "loopline";
        const size_t fits = width > 8 ? (size_t)((width - 6) / CHARACTER) : 0;
        emit_format(out, "<g class=\"t\"><title>");
        emit_xml(out, span->text);
        emit_format(out,
                    "</title><rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/></g>",
                    span->iteration ? "turn"
                    : span->repeats ? "block"
                                    : "loop",
                    x, y, width, SPAN_HEIGHT - 2);
        emit_format(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                    span->iteration ? "turnline" : lines, x, y, x, scale->bottom);
        if (!span->iteration)
            emit_format(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", lines,
                        x + width, y, x + width, scale->bottom);
        if (fits) {
            emit_format(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"s\">", x + width / 2, y + 10);
            emit_start(out, span->text, fits);
            emit_text(out, "</text>");
        }
        emit_text(out, "\n");
    }
}

static void draw_lines(emit_buffer *out, const map_picture *picture, const map_scale *scale) {
    double right = LEFT + scale->width;
    char text[32];
    draw_curve(out, picture, scale, true);
    double bound = up(scale, (double)picture->bound), peak = up(scale, (double)picture->height);
    /* Where both are close, their labels are kept apart; the dashes are drawn over the whole line. */
    double bound_text = bound - peak < 26 ? peak + 30 : bound + 4;
    emit_format(out, "<line class=\"peak\" x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", (int)LEFT, peak,
                right + 6, peak);
    emit_format(
        out,
        "<text class=\"peaktext\" x=\"%.1f\" y=\"%.1f\">peak<tspan x=\"%.1f\" dy=\"11\">%s</tspan></text>\n",
        right + 10, peak + 1, right + 10, emit_size_print((size_t)picture->height, text, sizeof text));
    emit_format(out, "<line class=\"bound\" x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", (int)LEFT,
                bound, right + 6, bound);
    emit_format(out,
                "<text class=\"boundtext\" x=\"%.1f\" y=\"%.1f\">lower bound<tspan x=\"%.1f\" "
                "dy=\"11\">%s</tspan></text>\n",
                right + 10, bound_text, right + 10,
                emit_size_print((size_t)picture->bound, text, sizeof text));
}

/* One line below the picture. */
static void draw_legend(emit_buffer *out, const map_picture *picture, double x, double y) {
    for (size_t i = 0; i < OP_FAMILY_COUNT + 1 && picture->families; i++) {
        bool used = false, scratch = i == OP_FAMILY_COUNT;
        for (size_t k = 0; k < picture->count && !used; k++) {
            used =
                scratch ? !picture->rectangles[k].family : picture->rectangles[k].family == &emit_families[i];
        }
        if (!used) continue;
        const char *name = scratch ? "scratch" : emit_families[i].name;
        emit_format(out,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"10\" fill=\"%s\" stroke=\"%s\" "
                    "stroke-width=\"0.8\"/>",
                    x, y, scratch ? "url(#scratch)" : emit_families[i].fill,
                    scratch ? "#666666" : emit_families[i].line);
        emit_format(out, "<text class=\"legend\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 17, y + 9, name);
        x += 30 + CHARACTER * (double)strlen(name);
    }
    emit_format(out,
                "<path class=\"live\" d=\"M%.1f %.1fh12\"/><text class=\"legend\" x=\"%.1f\" y=\"%.1f\">live "
                "bytes</text>\n",
                x, y + 5, x + 17, y + 9);
}

/* How the picture is divided: `rows` rows of `units` each, drawn `x` pixels wide. */
typedef struct map_rows {
    size_t rows;
    double units, x;
} map_rows;

static map_rows divide_rows(const map_picture *picture) {
    const double width = picture->width > 0 ? picture->width : 1;
    map_rows rows = {.rows = 1, .units = width};
    if (picture->columns && width > ROW_STEPS * 1.2) {
        const double wanted = ceil(width / ROW_STEPS);
        rows.rows = wanted < MOST_ROWS ? (size_t)wanted : MOST_ROWS;
        rows.units = ceil(width / (double)rows.rows);
    }
    /* Few steps are drawn wide; a scale of millions of time units fits a screen. */
    const double widest = picture->span_count ? 110 : 60;
    rows.x = (picture->columns && width > 100 ? 1800 : 1300) / rows.units;
    if (rows.x > widest) rows.x = widest;
    return rows;
}

static void draw_head(emit_buffer *out, const map_picture *picture, double width, double height) {
    emit_format(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"Helvetica,Arial,sans-serif\" font-size=\"10\">\n",
        width, height, width, height);
    emit_text(
        out,
        "<style>text{text-anchor:middle;fill:#222}.s{fill:#555;font-size:9px}.grid{stroke:#e4e4e4}"
        ".axis{stroke:#888}.tick,.legend,.op{fill:#444}.legend,.peaktext,.boundtext,.title{text-anchor:start}"
        ".op{text-anchor:end;font-size:9px}.tick[text-anchor=end]{text-anchor:end}"
        ".area{fill:#dfe6ee;stroke:none}.band{fill:#fbfaf3;stroke:#b9a96b;stroke-dasharray:3 2}"
        ".loop{fill:#fbe9e4;stroke:#b04a2f}.turn{fill:#fff8f5;stroke:#d9a393}.loopline{stroke:#b04a2f;stroke-"
        "width:1.2}.block{fill:#e6effa;stroke:#2f5f9e}.blockline{stroke:#2f5f9e;stroke-width:1.2}"
        ".turnline{stroke:#b04a2f;stroke-width:0.8;stroke-dasharray:4 3}"
        ".live{fill:none;stroke:#222;stroke-width:1.4}.bound{stroke:#1c6e2b;stroke-width:1.4;stroke-"
        "dasharray:6 4}"
        ".boundtext{fill:#1c6e2b}.peak{stroke:#b3261e;stroke-width:1.4}.peaktext{fill:#b3261e}"
        ".t text{pointer-events:none}.t:hover>rect,.t.on>rect{stroke:#000;stroke-width:2}</style>\n"
        "<defs><pattern id=\"scratch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">"
        "<rect width=\"5\" height=\"5\" fill=\"#f4f4f4\"/><path d=\"M0 5L5 0\" stroke=\"#888\" "
        "stroke-width=\"0.8\"/>"
        "</pattern></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    char peak[32], bound[32];
    emit_size_print((size_t)picture->height, peak, sizeof peak);
    emit_size_print((size_t)picture->bound, bound, sizeof bound);
    emit_format(out, "<text class=\"title\" x=\"%d\" y=\"24\" font-size=\"16\" font-weight=\"bold\">",
                (int)LEFT);
    emit_label(out, picture->title, 80);
    emit_format(out,
                "</text>\n<text class=\"title\" x=\"%d\" y=\"42\" font-size=\"12\">peak %s (%" PRIu64
                " bytes), lower bound %s (%" PRIu64 " bytes), %zu boxes",
                (int)LEFT, peak, picture->height, bound, picture->bound, picture->count + picture->left_out);
    if (picture->left_out)
        emit_format(out, ", %zu of them in blocks that repeat, drawn once", picture->left_out);
    if (picture->unsized)
        emit_format(out, "; %u tensor%s sized at run time, not drawn", picture->unsized,
                    picture->unsized == 1 ? " is" : "s are");
    emit_text(out, "</text>\n");
}

void emit_map_svg(emit_buffer *out, const map_picture *picture) {
    const map_rows rows = divide_rows(picture);
    uint64_t top = emit_map_top(picture);
    if (!top) top = 1;
    const unsigned lines = emit_map_depth(picture);
    const double plot = rows.rows > 1 ? ROW_HEIGHT : PLOT_HEIGHT;
    const double row = 2.0 * lines * SPAN_HEIGHT + plot + BOTTOM; /* from one to the next */
    const double width = rows.x * rows.units;
    draw_head(out, picture, LEFT + (width > 500 ? width : 500) + RIGHT, TITLE + row * (double)rows.rows);
    map_scale scale = {.x = rows.x, .y = plot / ((double)top * 1.03), .width = width};
    for (size_t i = 0; i < rows.rows; i++) {
        scale.from = (double)i * rows.units;
        scale.to = scale.from + rows.units < picture->width ? scale.from + rows.units : picture->width;
        scale.width = (scale.to - scale.from) * rows.x;
        scale.spans = TITLE + row * (double)i;
        scale.top = scale.spans + 2.0 * lines * SPAN_HEIGHT;
        scale.bottom = scale.top + plot;
        draw_axes(out, picture, &scale, top);
        draw_curve(out, picture, &scale, false);
        draw_bands(out, picture, &scale);
        draw_rectangles(out, picture, &scale);
        draw_spans(out, picture, &scale);
        draw_lines(out, picture, &scale);
    }
    draw_legend(out, picture, LEFT, scale.bottom + BOTTOM - 22);
    emit_text(out, "</svg>\n");
}
