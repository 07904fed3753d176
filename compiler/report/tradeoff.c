/* SPDX-License-Identifier: Apache-2.0 */
/* tradeoff.c: the curve of memory against time, as a table and as a picture. */
#include "compiler/report/emit.h"
#include "compiler/report/report.h"

/* Measured times are told where every point has one. */
static bool is_measured(const tradeoff_curve *curve) {
    for (size_t i = 0; i < curve->count; i++)
        if (curve->points[i].measured <= 0) return false;
    return curve->count > 0;
}

void emit_tradeoff_table(emit_buffer *text, const tradeoff_curve *curve) {
    char size[32];
    const bool measured = is_measured(curve);
    emit_format(text, "%12s  %14s  ", "arena", "predicted time");
    if (measured) emit_format(text, "%13s  ", "measured time");
    emit_format(text, "%16s  %14s\n", "nodes in bands", "faster kernels");
    for (size_t i = 0; i < curve->count; i++) {
        const tradeoff_point *point = &curve->points[i];
        emit_format(text, "%12s  %14.2f  ", emit_size_print(point->arena_bytes, size, sizeof size),
                    curve->whole_seconds > 0 ? point->seconds / curve->whole_seconds : 1);
        if (measured) emit_format(text, "%13.2f  ", point->measured);
        emit_format(text, "%16zu  %14zu%s\n", point->banded, point->kernels,
                    point->arena_bytes == curve->whole_bytes ? "  the graph as it is written" : "");
    }
    emit_format(text, "1 is the predicted time without bands and on direct kernels, %.1f ms\n",
                curve->whole_seconds * 1e3);
    if (measured) emit_text(text, "and the measured one of the plan that is made without a limit\n");
}

/* ---- the picture ---------------------------------------------------------------------------------------- */

enum { WIDTH = 640, HEIGHT = 400, LEFT = 60, RIGHT = 20, TOP = 40, BOTTOM = 50 };

typedef struct frame {
    double most_bytes, most_time;
} frame;

static double across(const frame *f, double bytes) {
    return LEFT + bytes / f->most_bytes * (WIDTH - LEFT - RIGHT);
}

static double up(const frame *f, double time) {
    return HEIGHT - BOTTOM - time / f->most_time * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(emit_buffer *svg, const frame *f, bool measured) {
    char size[32];
    for (int i = 0; i <= 4; i++) {
        const double bytes = f->most_bytes * i / 4, time = f->most_time * i / 4;
        emit_format(svg, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>\n", across(f, bytes), TOP,
                    across(f, bytes), HEIGHT - BOTTOM);
        emit_format(svg, "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n", across(f, bytes),
                    HEIGHT - BOTTOM + 16, emit_size_print((size_t)bytes, size, sizeof size));
        emit_format(svg, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n", LEFT, up(f, time),
                    WIDTH - RIGHT, up(f, time));
        emit_format(svg, "<text x='%d' y='%.1f' text-anchor='end'>%.2f</text>\n", LEFT - 6, up(f, time) + 4,
                    time);
    }
    emit_format(svg, "<text x='%d' y='%d' text-anchor='middle'>arena</text>\n", (WIDTH + LEFT - RIGHT) / 2,
                HEIGHT - 12);
    emit_format(svg, "<text x='%d' y='%d'>%s</text>\n", LEFT, TOP - 8,
                measured ? "measured time, 1: the plan that is made without a limit"
                         : "predicted time, 1: without bands, on direct kernels");
}

base_status emit_tradeoff_picture(const tradeoff_curve *curve, const char *path, base_report *report) {
    emit_buffer svg = {0};
    frame f = {1, 1};
    char size[32];
    const bool measured = is_measured(curve);
    double times[TRADEOFF_POINTS];
    for (size_t i = 0; i < curve->count; i++) {
        const tradeoff_point *point = &curve->points[i];
        if ((double)point->arena_bytes > f.most_bytes) f.most_bytes = (double)point->arena_bytes;
        times[i] = measured                   ? point->measured
                   : curve->whole_seconds > 0 ? point->seconds / curve->whole_seconds
                                              : 1;
        if (times[i] > f.most_time) f.most_time = times[i];
    }
    f.most_time *= 1.1;
    emit_format(&svg,
                "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' "
                "font-size='12'>\n<rect width='100%%' height='100%%' fill='white'/>\n<text x='%d' y='16'>",
                WIDTH, HEIGHT, LEFT);
    emit_xml(&svg, curve->model_path);
    emit_text(&svg, "</text>\n");
    draw_axes(&svg, &f, measured);
    if (curve->whole_bytes)
        emit_format(&svg,
                    "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#b00' stroke-dasharray='4'>"
                    "<title>lower bound of the graph as it is written</title></line>\n",
                    across(&f, (double)curve->whole_bytes), TOP, across(&f, (double)curve->whole_bytes),
                    HEIGHT - BOTTOM);
    emit_text(&svg, "<polyline fill='none' stroke='#06c' stroke-width='2' points='");
    for (size_t i = 0; i < curve->count; i++)
        emit_format(&svg, "%s%.1f,%.1f", i ? " " : "", across(&f, (double)curve->points[i].arena_bytes),
                    up(&f, times[i]));
    emit_text(&svg, "'/>\n");
    for (size_t i = 0; i < curve->count; i++) {
        const tradeoff_point *point = &curve->points[i];
        emit_format(&svg,
                    "<circle cx='%.1f' cy='%.1f' r='4' fill='#06c'><title>%s, %.2f: %zu node%s in bands, %zu "
                    "faster kernel%s</title></circle>\n",
                    across(&f, (double)point->arena_bytes), up(&f, times[i]),
                    emit_size_print(point->arena_bytes, size, sizeof size), times[i], point->banded,
                    emit_plural(point->banded), point->kernels, emit_plural(point->kernels));
    }
    emit_text(&svg, "</svg>\n");
    base_status status = emit_write(&svg, path, report);
    emit_free(&svg);
    return status;
}
