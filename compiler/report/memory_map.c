/* SPDX-License-Identifier: Apache-2.0 */
/* memory_map.c: a picture of the memory: steps across, addresses up, one rectangle a storage.
 *
 * Drawn are the live range and the place of every storage of the arena, the lower bound and the height as
 * lines, and the bytes live at each step as a curve. A step that owns sub-graphs is as wide as these have
 * steps; inside of its buffer their storages are drawn, at their absolute addresses; branches that share
 * memory stand side by side. Names are written where they fit; the tooltip of a rectangle holds everything.
 * In .html, pointing at a storage brings it out and tells the same below the picture; nothing is loaded from
 * elsewhere.
 *
 * First a list of rectangles is made (of a module, or of any solved problem), then it is drawn: the second
 * half knows neither.
 */
#include "compiler/report/report.h"
#include "compiler/report/emit.h"
#include "compiler/report/family.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is drawn ------------------------------------------------------------------------------------- */

typedef struct map_rectangle {
    double first, last;        /* across, in units of a step */
    uint64_t low, bytes;       /* up */
    const char *name;          /* short */
    const char *title;         /* everything, in lines */
    const emit_family *family; /* NULL: scratch */
    bool buffer;               /* holds others: drawn as a frame */
} map_rectangle;

typedef struct map_picture {
    const char *title;
    map_rectangle *rectangles;
    size_t count, capacity;
    double width; /* in units */
    uint64_t height, bound;
    double *curve_at; /* left ends of pieces, ascending, curve_count of them, and the last right end */
    uint64_t *curve;  /* live bytes of each piece */
    size_t curve_count;
    const char **columns; /* what runs at the units 0, 1, ...: NULL, or (size_t)width names, NULL for none */
    bool families;        /* the legend shows families */
} map_picture;

static map_rectangle *add_rectangle(map_picture *picture, base_arena *arena) {
    map_rectangle *grown =
        base_arena_grow(arena, picture->rectangles, &picture->capacity, picture->count + 1, sizeof *grown);
    if (!grown) return NULL;
    picture->rectangles = grown;
    return &grown[picture->count++];
}

/* ---- from a module ------------------------------------------------------------------------------------- */

/* Where steps are drawn. Node k of a graph spans [start, start + width) units. */
typedef struct map_columns {
    double *start; /* by node id */
    double *width;
    double *graph_start, *graph_width; /* by graph id */
} map_columns;

static double graph_width(const ir_graph *graph) {
    double width = 0;
    for (const ir_node *node = graph->first; node; node = node->next) {
        double inner = 0;
        for (uint32_t g = 0; g < node->graph_count; g++) inner += graph_width(node->graphs[g]);
        width += inner > 1 ? inner : 1;
    }
    return width > 1 ? width : 1;
}

static void place_columns(const ir_graph *graph, double start, map_columns *columns, const char **names) {
    columns->graph_start[graph->id.index] = start;
    for (const ir_node *node = graph->first; node; node = node->next) {
        double inner = 0;
        for (uint32_t g = 0; g < node->graph_count; g++) {
            place_columns(node->graphs[g], start + inner, columns, names);
            inner += columns->graph_width[node->graphs[g]->id.index];
        }
        double width = inner > 1 ? inner : 1;
        if (!node->graph_count) names[(size_t)start] = op_schema_of(node->code)->name;
        columns->start[node->id.index] = start;
        columns->width[node->id.index] = width;
        start += width;
    }
    double width = start - columns->graph_start[graph->id.index];
    columns->graph_width[graph->id.index] = width > 1 ? width : 1;
}

/* The left end of step `step` of a graph; after the last one, its right end. */
static double step_start(const ir_graph *graph, int64_t step, const map_columns *columns) {
    int64_t at = 0;
    for (const ir_node *node = graph->first; node; node = node->next, at++) {
        if (at >= step) return columns->start[node->id.index];
    }
    return columns->graph_start[graph->id.index] + columns->graph_width[graph->id.index];
}

static const emit_family *family_of_storage(const pass_storage *storage) {
    if (storage->scratch_of) return NULL;
    const ir_node *node = storage->buffer_of ? storage->buffer_of
                          : storage->value   ? storage->value->node
                                             : NULL;
    return &emit_families[node ? op_schema_of(node->code)->family : OP_FAMILY_NONE];
}

static const char *storage_name(const pass_storage *storage) {
    const ir_node *node = storage->scratch_of ? storage->scratch_of : storage->buffer_of;
    if (!node) return storage->value ? storage->value->name : "";
    return node->name[0] ? node->name : op_schema_of(node->code)->name;
}

/* "\nalso holds a, b" of the other values in a storage, views and what runs in place; "" where there are
 * none. */
static char *other_values(const pass_memory *memory, const pass_storage *storage, const ir_module *module,
                          base_arena *arena) {
    char *text = base_arena_text(arena, "", 0);
    size_t count = 0;
    uint32_t at = storage->values.index;
    for (; text && at && at < memory->value_count; at = memory->siblings[at].index) {
        const ir_value *value = module->values[at];
        if (!value || value == storage->value) continue;
        if (++count > 6) return base_arena_format(arena, "%s, ...", text);
        text = base_arena_format(arena, "%s%s%s", text, count == 1 ? "\nalso holds " : ", ", value->name);
    }
    return text;
}

enum { MOST_NOTES = 6, MOST_NESTED_VIEWS = 16 };

/* What the buffers of a loop hold in which iteration, by storage: lines for the tooltip, and a short form for
 * the label. */
typedef struct map_notes {
    char **lines;       /* NULL: no buffer of a loop */
    const char **names; /* "x[1 of 2]" */
    size_t *counts;
} map_notes;

/* One more line: `name` lies in the place that `location` resolves to in the iterations that `when` tells.
 * Where that is a view of an enclosing loop, it is all places of that view. */
static bool add_note(const pass_memory *memory, map_notes *notes, pass_location location, const char *name,
                     const char *when, const char *label, int depth, base_arena *arena) {
    location = pass_memory_resolve(memory, location);
    uint32_t index = location.storage.index;
    const pass_storage *storage = &memory->storages[index];
    if (storage->space == MEMORY_MULTIVIEW && depth < MOST_NESTED_VIEWS) {
        const pass_multiview *view = &memory->multiviews[storage->index];
        for (uint32_t k = 0; k < view->prologue + view->repeat; k++) {
            const char *both =
                view->group ? base_arena_format(arena, "%s, exchanged in \"%s\"", when, view->loop->name)
                : k < view->prologue
                    ? base_arena_format(arena, "%s, iteration %u of \"%s\"", when, k, view->loop->name)
                    : base_arena_format(arena, "%s, iterations %u, %u, ... of \"%s\"", when, k,
                                        k + view->repeat, view->loop->name);
            if (!both || !add_note(memory, notes, view->entries[k], name, both, label, depth + 1, arena))
                return false;
        }
        return true;
    }
    if (storage->space != MEMORY_ARENA || ++notes->counts[index] > MOST_NOTES) return true;
    if (!notes->names[index]) notes->names[index] = label;
    notes->lines[index] = base_arena_format(arena, "%s\nholds %s in %s",
                                            notes->lines[index] ? notes->lines[index] : "", name, when);
    return notes->lines[index] != NULL;
}

static bool find_notes(const pass_memory *memory, const ir_module *module, map_notes *notes,
                       base_arena *arena) {
    notes->lines = BASE_ARRAY(arena, char *, memory->storage_count + 1);
    notes->names = BASE_ARRAY(arena, const char *, memory->storage_count + 1);
    notes->counts = BASE_ARRAY(arena, size_t, memory->storage_count + 1);
    if (!notes->lines || !notes->names || !notes->counts) return false;
    for (size_t i = 1; i < module->value_count && i < memory->value_count; i++) {
        const ir_value *value = module->values[i];
        pass_location location = value ? pass_memory_location(memory, value) : (pass_location){0};
        const pass_storage *storage = &memory->storages[location.storage.index];
        if (!location.storage.index || storage->space != MEMORY_MULTIVIEW) continue;
        const pass_multiview *view = &memory->multiviews[storage->index];
        if (view->stride) continue; /* a slice: the storage is what is scanned or stacked */
        for (uint32_t k = 0; k < view->prologue + view->repeat; k++) {
            const char *when = view->group ? base_arena_format(arena, "\"%s\", by exchange", view->loop->name)
                               : k < view->prologue
                                   ? base_arena_format(arena, "iteration %u of \"%s\"", k, view->loop->name)
                                   : base_arena_format(arena, "iterations %u, %u, ... of \"%s\"", k,
                                                       k + view->repeat, view->loop->name);
            const char *label = k < view->prologue || view->group
                                    ? value->name
                                    : base_arena_format(arena, "%s [%u of %u]", value->name,
                                                        k - view->prologue, view->repeat);
            if (!when || !label ||
                !add_note(memory, notes, view->entries[k], value->name, when, label, 0, arena))
                return false;
        }
    }
    return true;
}

static base_status add_storage(map_picture *picture, const pass_memory *memory, const ir_module *module,
                               const pass_storage *storage, size_t index, const map_columns *columns,
                               const map_notes *notes, base_arena *arena, base_report *report) {
    map_rectangle *rectangle = add_rectangle(picture, arena);
    if (!rectangle) return base_fail_memory(report);
    uint64_t low = pass_memory_offset(memory, (pass_location){.storage = {(uint32_t)index}});
    char size[32], type[256] = "";
    bool tensor = !storage->scratch_of && !storage->buffer_of && storage->value;
    if (tensor) op_type_print(&storage->value->type, type, sizeof type);
    char *others = other_values(memory, storage, module, arena);
    if (!others) return base_fail_memory(report);
    const char *kind = storage->scratch_of ? "scratch of " : storage->buffer_of ? "buffer of " : "";
    *rectangle = (map_rectangle){
        .first = step_start(storage->graph, storage->first, columns),
        .last = step_start(storage->graph, storage->last, columns),
        .low = low,
        .bytes = storage->bytes,
        .name = notes->names[index] ? notes->names[index] : storage_name(storage),
        .family = family_of_storage(storage),
        .buffer = storage->buffer_of != NULL,
    };
    rectangle->title = base_arena_format(
        arena, "%s%s%s%s\n%zu bytes (%s)\nsteps %" PRId64 " to %" PRId64 "%s%s\noffset %" PRIu64 "%s%s%s",
        kind, rectangle->name, type[0] ? "\n" : "", type, storage->bytes,
        emit_size_print(storage->bytes, size, sizeof size), storage->first, storage->last - 1,
        storage->graph->owner ? " of " : "", storage->graph->owner ? storage->graph->name : "", low, others,
        notes->lines[index] ? notes->lines[index] : "",
        notes->counts[index] > MOST_NOTES ? "\nand others" : "");
    return rectangle->title ? BASE_OK : base_fail_memory(report);
}

static base_status picture_of_module(const compile_result *result, map_picture *picture, base_arena *arena,
                                     base_report *report) {
    const ir_module *module = result->module;
    const pass_memory *memory = result->memory;
    const ir_graph *main_graph = module->main;
    double width = graph_width(main_graph);
    map_columns columns = {.start = BASE_ARRAY(arena, double, module->node_count),
                           .width = BASE_ARRAY(arena, double, module->node_count),
                           .graph_start = BASE_ARRAY(arena, double, module->graph_count),
                           .graph_width = BASE_ARRAY(arena, double, module->graph_count)};
    picture->columns = BASE_ARRAY(arena, const char *, (size_t)width + 1);
    size_t steps = main_graph->node_count;
    picture->curve = BASE_ARRAY(arena, uint64_t, steps + 1);
    picture->curve_at = BASE_ARRAY(arena, double, steps + 2);
    if (!columns.start || !columns.width || !columns.graph_start || !columns.graph_width ||
        !picture->columns || !picture->curve || !picture->curve_at) {
        return base_fail_memory(report);
    }
    map_notes notes;
    if (!find_notes(memory, module, &notes, arena)) return base_fail_memory(report);
    place_columns(main_graph, 0, &columns, picture->columns);
    *picture = (map_picture){.title = module->name,
                             .width = width,
                             .height = memory->arena_bytes,
                             .bound = memory->lower_bound_bytes,
                             .columns = picture->columns,
                             .curve = picture->curve,
                             .curve_at = picture->curve_at,
                             .curve_count = steps,
                             .families = true};
    size_t at = 0;
    for (const ir_node *node = main_graph->first; node; node = node->next) {
        picture->curve_at[at++] = columns.start[node->id.index];
    }
    picture->curve_at[steps] = width;
    /* Frames first, so that what lies in them is drawn over them; outer ones have the smaller number. */
    for (int frames = 1; frames >= 0; frames--) {
        for (size_t i = 1; i < memory->storage_count; i++) {
            const pass_storage *storage = &memory->storages[i];
            bool drawn = emit_storage_placed(storage) && (storage->buffer_of != NULL) == (frames == 1);
            if (!drawn) continue;
            base_status status =
                add_storage(picture, memory, module, storage, i, &columns, &notes, arena, report);
            if (status != BASE_OK) return status;
            if (storage->graph != main_graph) continue;
            for (int64_t step = storage->first; step < storage->last && step < (int64_t)steps; step++) {
                if (step >= 0) picture->curve[step] += storage->bytes;
            }
        }
    }
    return BASE_OK;
}

/* ---- from a solved problem ----------------------------------------------------------------------------- */

static int compare_steps(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static size_t find_step(const int64_t *steps, size_t count, int64_t step) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (steps[middle] < step) low = middle + 1;
        else high = middle;
    }
    return low;
}

static base_status picture_of_solution(const planner_problem *problem, const char *const *ids,
                                       const planner_solution *solution, const char *title,
                                       map_picture *picture, base_arena *arena, base_report *report) {
    size_t count = problem->buffer_count, kept = 0;
    int64_t *steps = BASE_ARRAY(arena, int64_t, 2 * count + 1);
    if (!steps) return base_fail_memory(report);
    for (size_t i = 0; i < count; i++) {
        steps[2 * i] = problem->buffers[i].first;
        steps[2 * i + 1] = problem->buffers[i].last;
    }
    qsort(steps, 2 * count, sizeof *steps, compare_steps);
    for (size_t i = 0; i < 2 * count; i++) {
        if (kept == 0 || steps[kept - 1] != steps[i]) steps[kept++] = steps[i];
    }
    size_t pieces = kept ? kept - 1 : 0;
    *picture = (map_picture){.title = title,
                             .width = kept ? (double)steps[kept - 1] - (double)steps[0] : 1,
                             .height = solution->height,
                             .bound = solution->lower_bound,
                             .curve = BASE_ARRAY(arena, uint64_t, pieces + 1),
                             .curve_at = BASE_ARRAY(arena, double, pieces + 2),
                             .curve_count = pieces};
    if (!picture->curve || !picture->curve_at) return base_fail_memory(report);
    for (size_t i = 0; i < kept; i++) picture->curve_at[i] = (double)steps[i] - (double)steps[0];
    for (size_t i = 0; i < count; i++) {
        const planner_buffer *buffer = &problem->buffers[i];
        /* Unsigned: the change at the end of a range is a subtraction that wraps until the sums are made. */
        picture->curve[find_step(steps, kept, buffer->first)] += buffer->size;
        picture->curve[find_step(steps, kept, buffer->last)] -= buffer->size;
        if (!buffer->size) continue;
        map_rectangle *rectangle = add_rectangle(picture, arena);
        char size[32], number[32];
        snprintf(number, sizeof number, "%zu", i);
        const char *name = ids ? ids[i] : base_arena_text(arena, number, strlen(number));
        if (!rectangle || !name) return base_fail_memory(report);
        *rectangle = (map_rectangle){.first = (double)buffer->first - (double)steps[0],
                                     .last = (double)buffer->last - (double)steps[0],
                                     .low = solution->offsets[i],
                                     .bytes = buffer->size,
                                     .name = name,
                                     .family = &emit_families[1 + i % (OP_FAMILY_COUNT - 1)]};
        rectangle->title =
            base_arena_format(arena, "%s\n%zu bytes (%s)\nlive [%" PRId64 ", %" PRId64 ")\noffset %zu", name,
                              buffer->size, emit_size_print(buffer->size, size, sizeof size), buffer->first,
                              buffer->last, solution->offsets[i]);
        if (!rectangle->title) return base_fail_memory(report);
    }
    for (size_t i = 1; i < pieces; i++) picture->curve[i] += picture->curve[i - 1];
    return BASE_OK;
}

/* ---- drawing ------------------------------------------------------------------------------------------- */

enum { LEFT = 84, TOP = 64, RIGHT = 150, BOTTOM = 112, PLOT_HEIGHT = 640, CHARACTER = 6, TEXT_HEIGHT = 11 };

typedef struct map_scale {
    double x, y;          /* pixels a unit, pixels a byte */
    double width, bottom; /* of the plot; where address 0 is */
} map_scale;

static double across(const map_scale *scale, double unit) {
    return LEFT + unit * scale->x;
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
    if (rectangle->buffer || !wanted || thickness < TEXT_HEIGHT || most < CHARACTER * (double)least + 6)
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
        double x = across(scale, rectangle->first), width = (rectangle->last - rectangle->first) * scale->x;
        double height = (double)rectangle->bytes * scale->y;
        double y = up(scale, (double)rectangle->low) - height;
        const char *fill = rectangle->family ? rectangle->family->fill : "url(#scratch)";
        const char *line = rectangle->family ? rectangle->family->line : "#666666";
        emit_text(out, "<g class=\"t\"><title>");
        emit_xml(out, rectangle->title);
        emit_format(out, "</title><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", x, y,
                    width > 0.5 ? width : 0.5, height > 0.3 ? height : 0.3);
        if (rectangle->buffer) {
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
    for (double at = 0; at <= picture->width; at += every) {
        double x = across(scale, at);
        emit_format(out, "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x,
                    scale->bottom, x, scale->bottom + 4);
        emit_format(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%.0f</text>\n", x, scale->bottom + 15,
                    at);
    }
    for (size_t unit = 0; picture->columns && scale->x >= 9 && unit < (size_t)picture->width; unit++) {
        if (!picture->columns[unit]) continue;
        double x = across(scale, (double)unit + 0.5) + 3;
        emit_format(out, "<text class=\"op\" x=\"%.1f\" y=\"%.1f\" transform=\"rotate(-90 %.1f %.1f)\">", x,
                    scale->bottom + 22, x, scale->bottom + 22);
        emit_label(out, picture->columns[unit], 16);
        emit_text(out, "</text>\n");
    }
    emit_format(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">step</text>\n", LEFT - 6,
                scale->bottom + 15);
    emit_format(out, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"end\">address</text>\n", LEFT - 6,
                TOP - 10);
    emit_format(out,
                "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" class=\"axis\"/>\n",
                (int)LEFT, (int)TOP, scale->width, scale->bottom - TOP);
}

static void draw_lines(emit_buffer *out, const map_picture *picture, const map_scale *scale) {
    double right = LEFT + scale->width;
    char text[32];
    if (picture->curve_count) {
        emit_text(out, "<path class=\"live\" d=\"");
        for (size_t i = 0; i < picture->curve_count; i++) {
            double y = up(scale, (double)picture->curve[i]);
            if (i) emit_format(out, "V%.1f", y);
            else emit_format(out, "M%.1f %.1f", across(scale, picture->curve_at[0]), y);
            emit_format(out, "H%.1f", across(scale, picture->curve_at[i + 1]));
        }
        emit_text(out, "\"/>\n");
    }
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

static void draw_legend(emit_buffer *out, const map_picture *picture, double x, double y) {
    for (size_t i = 0; i < OP_FAMILY_COUNT + 1 && picture->families; i++) {
        bool used = false, scratch = i == OP_FAMILY_COUNT;
        for (size_t k = 0; k < picture->count && !used; k++) {
            used =
                scratch ? !picture->rectangles[k].family : picture->rectangles[k].family == &emit_families[i];
        }
        if (!used) continue;
        emit_format(out,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"10\" fill=\"%s\" stroke=\"%s\" "
                    "stroke-width=\"0.8\"/>",
                    x, y, scratch ? "url(#scratch)" : emit_families[i].fill,
                    scratch ? "#666666" : emit_families[i].line);
        emit_format(out, "<text class=\"legend\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 17, y + 9,
                    scratch ? "scratch" : emit_families[i].name);
        y += 16;
    }
    emit_format(out,
                "<path class=\"live\" d=\"M%.1f %.1fh12\"/><text class=\"legend\" x=\"%.1f\" y=\"%.1f\">live "
                "bytes</text>\n",
                x, y + 5, x + 17, y + 9);
}

static void draw(emit_buffer *out, const map_picture *picture) {
    double width = picture->width > 0 ? picture->width : 1;
    /* Few steps are drawn wide, many down to 4 pixels each; a scale of millions of time units fits a screen.
     */
    double unit = picture->columns ? (width <= 100 ? 1300 / width : 1800 / width) : 1300 / width;
    if (unit > 60) unit = 60;
    if (picture->columns && unit < 4) unit = 4;
    if (unit * width > 30000) unit = 30000 / width;
    uint64_t top = picture->height > picture->bound ? picture->height : picture->bound;
    if (!top) top = 1;
    map_scale scale = {.x = unit, .y = PLOT_HEIGHT / ((double)top * 1.03), .bottom = TOP + PLOT_HEIGHT};
    scale.width = unit * width;
    double plot = scale.width > 500 ? scale.width : 500, total = LEFT + plot + RIGHT;
    int height = TOP + PLOT_HEIGHT + BOTTOM;
    emit_format(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%d\" viewBox=\"0 0 %.0f %d\" "
        "font-family=\"Helvetica,Arial,sans-serif\" font-size=\"10\">\n",
        total, height, total, height);
    emit_text(
        out,
        "<style>text{text-anchor:middle;fill:#222}.s{fill:#555;font-size:9px}.grid{stroke:#e4e4e4}"
        ".axis{stroke:#888}.tick,.legend,.op{fill:#444}.legend,.peaktext,.boundtext,.title{text-anchor:start}"
        ".op{text-anchor:end;font-size:9px}.tick[text-anchor=end]{text-anchor:end}"
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
                " bytes), lower bound %s (%" PRIu64 " bytes), %zu storages</text>\n",
                (int)LEFT, peak, picture->height, bound, picture->bound, picture->count);
    draw_axes(out, picture, &scale, top);
    draw_rectangles(out, picture, &scale);
    draw_lines(out, picture, &scale);
    draw_legend(out, picture, LEFT + scale.width + 14, TOP + 90);
    emit_text(out, "</svg>\n");
}

static base_status write_picture(const map_picture *picture, const char *path, base_report *report) {
    emit_buffer out = {0};
    size_t length = strlen(path);
    bool html = length > 5 && strcmp(path + length - 5, ".html") == 0;
    if (html) {
        emit_text(&out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>");
        emit_xml(&out, picture->title);
        emit_text(
            &out,
            "</title><style>body{margin:0;font-family:Helvetica,Arial,sans-serif}#about{position:sticky;"
            "left:0;bottom:0;background:#fff;border-top:1px solid #bbb;padding:6px 84px;font-size:13px;"
            "white-space:pre-wrap;min-height:5em}</style></head><body>\n");
    } else {
        emit_text(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    }
    draw(&out, picture);
    if (html) {
        emit_text(&out, "<div id=\"about\">Point at a storage; click to keep it.</div>\n<script>\n"
                        "(function () {\n"
                        "  var about = document.getElementById('about'), kept = null;\n"
                        "  function show(g) { about.textContent = g.querySelector('title').textContent; }\n"
                        "  document.querySelectorAll('.t').forEach(function (g) {\n"
                        "    g.addEventListener('mouseenter', function () { if (!kept) show(g); });\n"
                        "    g.addEventListener('click', function () {\n"
                        "      if (kept) kept.classList.remove('on');\n"
                        "      kept = kept === g ? null : g;\n"
                        "      if (kept) { g.classList.add('on'); show(g); }\n"
                        "    });\n"
                        "  });\n"
                        "})();\n</script></body></html>\n");
    }
    base_status status = emit_write(&out, path, report);
    emit_free(&out);
    return status;
}

base_status emit_memory_map(const compile_result *result, const char *path, base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    map_picture picture = {0};
    base_status status = picture_of_module(result, &picture, &arena, report);
    if (status == BASE_OK) status = write_picture(&picture, path, report);
    base_arena_free(&arena);
    return status;
}

base_status emit_solution_map(const planner_problem *problem, const char *const *ids,
                              const planner_solution *solution, const char *title, const char *path,
                              base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    map_picture picture = {0};
    base_status status = picture_of_solution(problem, ids, solution, title, &picture, &arena, report);
    if (status == BASE_OK) status = write_picture(&picture, path, report);
    base_arena_free(&arena);
    return status;
}
