/* SPDX-License-Identifier: Apache-2.0 */
/* map_page.c: a picture of memory as a page that stands alone: data, and the viewer of map_viewer.html around it. */
#include "compiler/report/map.h"
#include <string.h>

/* Made of map_viewer.html by the build. */
extern const char emit_map_viewer[];

#define DATA_MARK "/*DATA*/"

/* A script must not end where a name says "</script>". */
static void emit_script_json(emit_buffer *out, const emit_buffer *json) {
    for (size_t i = 0; i < json->length; i++) {
        if (json->data[i] == '<') emit_text(out, "\\u003c");
        else emit_bytes(out, json->data + i, 1);
    }
}

static void emit_data(emit_buffer *json, const map_picture *picture) {
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "title", picture->title);
    emit_json_integer(json, "height", picture->height);
    emit_json_integer(json, "bound", picture->bound);
    emit_json_integer(json, "top", emit_map_top(picture));
    emit_json_integer(json, "unsized", picture->unsized);
    emit_json_fixed(json, "width", picture->width);
    emit_json_open(json, "families", '[');
    for (size_t i = 0; i < OP_FAMILY_COUNT; i++) {
        emit_json_open(json, NULL, '[');
        emit_json_text(json, NULL, emit_families[i].name);
        emit_json_text(json, NULL, emit_families[i].fill);
        emit_json_text(json, NULL, emit_families[i].line);
        emit_json_close(json, ']');
    }
    emit_json_close(json, ']');
    emit_json_open(json, "boxes", '[');
    for (size_t i = 0; i < picture->count; i++) {
        const map_rectangle *r = &picture->rectangles[i];
        emit_json_open(json, NULL, '[');
        emit_json_fixed(json, NULL, r->first);
        emit_json_fixed(json, NULL, r->last);
        emit_json_integer(json, NULL, r->low);
        emit_json_integer(json, NULL, r->bytes);
        emit_json_integer(json, NULL, (uint64_t)r->kind);
        emit_json_signed(json, NULL, r->family ? (int64_t)(r->family - emit_families) : -1);
        emit_json_text(json, NULL, r->name);
        emit_json_text(json, NULL, r->title);
        emit_json_text(json, NULL, r->maker);
        emit_json_text(json, NULL, r->reads);
        emit_json_text(json, NULL, r->readers);
        emit_json_close(json, ']');
    }
    emit_json_close(json, ']');
    emit_json_open(json, "curve", '[');
    for (size_t i = 0; i < picture->curve_count; i++) {
        emit_json_fixed(json, NULL, picture->curve_at[i]);
        emit_json_integer(json, NULL, picture->curve[i]);
    }
    if (picture->curve_count) emit_json_fixed(json, NULL, picture->curve_at[picture->curve_count]);
    emit_json_close(json, ']');
    emit_json_open(json, "columns", '[');
    for (size_t i = 0; picture->columns && i < (size_t)picture->width; i++)
        emit_json_text(json, NULL, picture->columns[i] ? picture->columns[i] : "");
    emit_json_close(json, ']');
    emit_json_open(json, "spans", '[');
    for (size_t i = 0; i < picture->span_count; i++) {
        const map_span *span = &picture->spans[i];
        emit_json_open(json, NULL, '[');
        emit_json_fixed(json, NULL, span->first);
        emit_json_fixed(json, NULL, span->last);
        emit_json_integer(json, NULL, span->depth);
        emit_json_integer(json, NULL, span->iteration);
        emit_json_text(json, NULL, span->text);
        emit_json_close(json, ']');
    }
    emit_json_close(json, ']');
    emit_json_open(json, "bands", '[');
    for (size_t i = 0; i < picture->band_count; i++) {
        emit_json_open(json, NULL, '[');
        emit_json_integer(json, NULL, picture->bands[i].low);
        emit_json_integer(json, NULL, picture->bands[i].bytes);
        emit_json_text(json, NULL, picture->bands[i].name);
        emit_json_close(json, ']');
    }
    emit_json_close(json, ']');
    emit_json_close(json, '}');
}

void emit_map_page(emit_buffer *out, const map_picture *picture) {
    emit_buffer json = {.json_compact = true};
    const char *mark = strstr(emit_map_viewer, DATA_MARK);
    emit_data(&json, picture);
    emit_bytes(out, emit_map_viewer, (size_t)(mark - emit_map_viewer));
    emit_script_json(out, &json);
    emit_text(out, mark + strlen(DATA_MARK));
    out->failed |= json.failed;
    emit_free(&json);
}
