/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: implements `steps.h`. */
#include "passes/bands/steps.h"
#include "passes/bands/channels_last.h"
#include "passes/bands/joined.h"
#include <stdint.h>

static double bytes_of(const ir_value *value) {
    size_t bytes;
    return op_type_bytes(&value->type, &bytes) ? (double)bytes : 0;
}

static double row_bytes_of(const ir_value *value) {
    const int64_t rows = value->type.shape.rank > BAND_AXIS ? value->type.shape.dims[BAND_AXIS] : 1;
    return rows > 0 ? bytes_of(value) / (double)rows : 0;
}

int32_t band_step_of_use(const ir_use *use, const ir_graph *main, const int32_t *numbers) {
    if (!use->node) {
        if (use->graph == main) return INT32_MAX;
        return use->graph->owner ? numbers[use->graph->owner->id.index] : INT32_MAX;
    }
    const ir_node *node = use->node;
    while (node && node->graph != main) node = node->graph->owner;
    return node ? numbers[node->id.index] : INT32_MAX;
}

static bool read_step(band_steps *s, size_t n, const ir_node *node, const int32_t *numbers,
                      base_arena *arena) {
    band_step *own = &s->list[n];
    const ir_graph *main = node->graph;
    *own = (band_step){.node = node, .all_from = BAND_OUTSIDE, .last_reader = (int32_t)n};
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
            const int32_t reader = band_step_of_use(use, main, numbers);
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
    own->readings = BASE_ARRAY(s->arena, band_reads, node->input_count);
    if (!own->readings || !band_node_window(node, arena, &own->window)) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        const band_reading how = band_node_reading(node, i);
        if (how == BAND_READS_NOTHING) continue;
        const int32_t maker = input->kind == IR_RESULT_OF_NODE && input->graph == main
                                  ? numbers[input->node->id.index]
                                  : BAND_OUTSIDE;
        if (how == BAND_READS_ALL) {
            if (maker > own->all_from) own->all_from = maker;
            continue;
        }
        own->readings[own->reading_count++] =
            (band_reads){maker,
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

static bool find_readers(band_steps *s) {
    for (size_t n = 0; n < s->count; n++)
        for (uint32_t i = 0; i < s->list[n].reading_count; i++)
            if (s->list[n].readings[i].maker != BAND_OUTSIDE)
                s->list[s->list[n].readings[i].maker].reader_count++;
    for (size_t n = 0; n < s->count; n++) {
        s->list[n].readers = BASE_ARRAY(s->arena, int32_t, (size_t)s->list[n].reader_count);
        if (!s->list[n].readers) return false;
        s->list[n].reader_count = 0;
    }
    for (size_t n = 0; n < s->count; n++)
        for (uint32_t i = 0; i < s->list[n].reading_count; i++) {
            const int32_t maker = s->list[n].readings[i].maker;
            if (maker != BAND_OUTSIDE) s->list[maker].readers[s->list[maker].reader_count++] = (int32_t)n;
        }
    return true;
}

/* What the step writes over of what it reads, when all of it is there at once. */
static double written_over(const band_steps *s, size_t n) {
    const band_step *own = &s->list[n];
    if (own->joins) return own->bytes;
    if (!own->in_place) return 0;
    const op_schema *schema = op_schema_of(own->node->code);
    for (uint32_t i = 0; i < own->node->input_count; i++) {
        const ir_value *input = ir_input(own->node, i);
        if (!op_may_write_over(schema, 0, i) || !input || input->kind != IR_RESULT_OF_NODE) continue;
        for (size_t m = n; m-- > 0;) {
            if (s->list[m].node != input->node) continue;
            if (s->list[m].last_reader == (int32_t)n && bytes_of(input) >= own->bytes) return own->bytes;
            break;
        }
    }
    return 0;
}

/* Steps of a small network begin sooner. */
static void scale_beginnings(band_steps *s) {
    double bytes = s->whole;
    for (size_t n = 0; n < s->count; n++)
        for (uint32_t i = 0; i < s->list[n].node->input_count; i++) {
            const ir_value *input = ir_input(s->list[n].node, i);
            if (input && input->constant) bytes += bytes_of(input);
        }
    s->begin = band_begin_part(s->rates, bytes);
    for (size_t n = 0; n < s->count; n++) {
        band_estimate *of = &s->list[n].estimate;
        const double less = of->call * (1 - s->begin);
        of->seconds -= less;
        s->seconds -= less;
        if (of->again > 0) of->again -= less;
    }
}

static void find_live(band_steps *s) {
    double live = 0;
    for (size_t n = 0; n < s->count; n++) {
        band_step *own = &s->list[n];
        own->live = live;
        own->alone = live + own->bytes + own->estimate.scratch - written_over(s, n);
        if (own->alone > s->whole) s->whole = own->alone;
        s->seconds += own->estimate.seconds;
        live += own->bytes;
        for (size_t m = 0; m <= n; m++)
            if (s->list[m].last_reader == (int32_t)n) live -= s->list[m].bytes;
    }
}

/* What was measured of some convolutions tells how fast this machine is at all of them. */
static void scale_products(band_steps *s, const band_savings *savings) {
    double predicted = 0, before = 0;
    for (size_t n = 0; n < s->count; n++) {
        const band_step *own = &s->list[n];
        if (own->saved <= 0 || own->estimate.products <= 0) continue;
        predicted += own->estimate.products;
        before += savings->before[own->node->id.index];
    }
    for (size_t n = 0; n < s->count && predicted > 0; n++) {
        band_step *own = &s->list[n];
        const double products = own->saved > 0 ? savings->before[own->node->id.index]
                                               : own->estimate.products * before / predicted;
        if (own->estimate.products <= 0) continue;
        own->estimate.seconds += products - own->estimate.products;
        own->estimate.products = products;
    }
}

bool band_steps_read(const ir_module *module, const rt_environment *environment, const band_savings *savings,
                     base_arena *arena, band_steps *s) {
    int32_t *numbers = BASE_ARRAY(arena, int32_t, module->node_count);
    if (!numbers) return false;
    *s = (band_steps){
        .arena = arena, .numbers = numbers, .environment = environment, .rates = band_rates_of(environment)};
    for (const ir_node *node = module->main->first; node; node = node->next)
        numbers[node->id.index] = (int32_t)s->count++;
    s->list = BASE_ARRAY(arena, band_step, s->count + 1);
    if (!s->list) return false;
    base_arena scratch;
    base_arena_init(&scratch, arena->allocator);
    bool fine = true;
    for (const ir_node *node = module->main->first; node && fine; node = node->next) {
        const size_t n = (size_t)numbers[node->id.index];
        fine = read_step(s, n, node, numbers, &scratch);
        s->list[n].saved = node->id.index < savings->count ? savings->saved[node->id.index] : 0;
        s->saved += s->list[n].saved;
        if (n) s->list[n].apart += s->list[n - 1].apart;
        base_arena_free(&scratch);
    }
    if (!fine || !find_readers(s)) return false;
    scale_products(s, savings);
    find_live(s);
    scale_beginnings(s);
    return true;
}
