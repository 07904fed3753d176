/* SPDX-License-Identifier: Apache-2.0 */
/* reorder.c: changes of layout in portable C, between any two of row-major, nc8, nc16 and nhwc; implements `reorder.h`. Padding
 * channels are written as zeros.
 */
#include "runtime/kernels/portable/reorder.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/turn.h"
#include <string.h>

enum {
    STRIP = 16,  /* positions */
    TURNED = 256 /* positions that are turned at a time */
};

typedef struct reorder_job {
    const rt_reorder *shape;
    const char *x;
    char *y;
} reorder_job;

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    const op_type *from = &call->inputs[0].type, *to = &call->outputs[0].type;
    if (from->kind != OP_KIND_TENSOR || from->layout == OP_LAYOUT_PACKED || to->layout == OP_LAYOUT_PACKED) {
        return false;
    }
    switch (op_dtype_bytes(from->dtype)) {
    case 1:
    case 2:
    case 4:
    case 8:
    case 16:
        return from->dtype != OP_STRING || from->layout == to->layout;
    default:
        return false;
    }
}

static rt_arrangement arrange(op_layout layout, int64_t channels) {
    int64_t block = op_layout_block(layout);
    if (layout == OP_LAYOUT_NHWC) block = channels ? channels : 1;
    return (rt_arrangement){.block = block, .blocks = (channels + block - 1) / block};
}

/* One output block of one image: `width` channels from `channel` on, the rest of the block is padding. */
#define MOVE_BLOCK(name, type)                                                                               \
    RT_CLONES static void name(const rt_reorder *shape, const type *x, type *y, int64_t channel,             \
                               int64_t width) {                                                              \
        const int64_t block = shape->to.block, source = shape->from.block, size = shape->size,               \
                      plane = shape->from.plane;                                                             \
        for (int64_t i = width; i < block; i++) {                                                            \
            for (int64_t p = 0; p < size; p++) y[p * block + i] = 0;                                         \
        }                                                                                                    \
        if (source == 1 && block <= 16) { /* from row-major: a few rows side by side */                      \
            for (int64_t p = 0; p < size; p++) {                                                             \
                for (int64_t i = 0; i < width; i++) y[p * block + i] = x[(channel + i) * plane + p];         \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        if (source > 1 && block > 1 && channel % 16 == 0 && width % 16 == 0 && source % 16 == 0) {           \
            for (int64_t i = 0; i < width; i += 16) { /* 16 channels lie side by side in both */             \
                const type *from = x + (channel + i) / source * source * plane + (channel + i) % source;     \
                for (int64_t p = 0; p < size; p++)                                                           \
                    memcpy(y + p * block + i, from + p * source, 16 * sizeof *y);                            \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        /* A few positions at a time, so that what is read and written side by side stays in the cache. */   \
        for (int64_t first = 0; first < size; first += STRIP) {                                              \
            const int64_t last = first + STRIP < size ? first + STRIP : size;                                \
            for (int64_t i = 0; i < width; i++) {                                                            \
                const type *from = x + (channel + i) / source * source * plane + (channel + i) % source;     \
                for (int64_t p = first; p < last; p++) y[p * block + i] = from[p * source];                  \
            }                                                                                                \
        }                                                                                                    \
    }
MOVE_BLOCK(move_1, uint8_t)
MOVE_BLOCK(move_2, uint16_t)
MOVE_BLOCK(move_4, uint32_t)
MOVE_BLOCK(move_8, uint64_t)
typedef struct wide_element {
    uint64_t low, high;
} wide_element;

static void move_16(const rt_reorder *shape, const wide_element *x, wide_element *y, int64_t channel,
                    int64_t width) {
    const int64_t block = shape->to.block, source = shape->from.block;
    for (int64_t p = 0; p < shape->size; p++) {
        for (int64_t i = 0; i < block; i++) {
            const int64_t at = channel + i;
            y[p * block + i] = i < width ? x[(at / source * shape->from.plane + p) * source + at % source]
                                         : (wide_element){0, 0};
        }
    }
}

static void reorder_member(void *context, int member, int members) {
    const reorder_job *job = context;
    const rt_reorder *shape = job->shape;
    const int64_t items = shape->batch * shape->to.blocks;
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t image = item / shape->to.blocks, channel = item % shape->to.blocks * shape->to.block;
        const int64_t rest = shape->channels - channel,
                      width = rest < shape->to.block ? rest : shape->to.block;
        const char *x =
            job->x +
            (size_t)(image * shape->from.blocks * shape->from.block * shape->from.plane) * shape->element;
        char *y = job->y + (size_t)(item * shape->to.block * shape->to.plane) * shape->element;
        switch (shape->element) {
        case 1:
            move_1(shape, (const uint8_t *)x, (uint8_t *)y, channel, width);
            break;
        case 2:
            move_2(shape, (const uint16_t *)(const void *)x, (uint16_t *)(void *)y, channel, width);
            break;
        case 4:
            move_4(shape, (const uint32_t *)(const void *)x, (uint32_t *)(void *)y, channel, width);
            break;
        case 8:
            move_8(shape, (const uint64_t *)(const void *)x, (uint64_t *)(void *)y, channel, width);
            break;
        default:
            move_16(shape, (const wide_element *)(const void *)x, (wide_element *)(void *)y, channel, width);
            break;
        }
    }
}

/* Words, or numbers of 16 bits, between row-major and any other layout: matrices of positions and the channels of a block, turned round. */
static bool is_turn(const rt_reorder *shape) {
    return (shape->element == sizeof(uint32_t) || shape->element == sizeof(uint16_t)) &&
           (shape->from.block == 1 || shape->to.block == 1);
}

static void turn(const rt_reorder *shape, const char *x, int64_t x_row, int64_t rows, int64_t columns,
                 char *y, int64_t y_row) {
    if (shape->element == sizeof(uint16_t))
        rt_turn_halves((const uint16_t *)(const void *)x, x_row, rows, columns, (uint16_t *)(void *)y, y_row);
    else rt_turn_words((const uint32_t *)(const void *)x, x_row, rows, columns, (uint32_t *)(void *)y, y_row);
}

/* The positions from `first` on of one block. */
static void turn_block(const rt_reorder *shape, const char *x, char *y, int64_t channel, int64_t first,
                       int64_t count) {
    const bool spread = shape->to.block == 1; /* channels that lay together */
    const int64_t size = (int64_t)shape->element, block = spread ? shape->from.block : shape->to.block,
                  width = shape->channels - channel < block ? shape->channels - channel : block;
    x += (channel * shape->from.plane + first * shape->from.block) * size;
    y += (channel * shape->to.plane + first * shape->to.block) * size;
    if (spread) {
        turn(shape, x, block, count, width, y, shape->to.plane);
        return;
    }
    turn(shape, x, shape->from.plane, width, count, y, block);
    for (int64_t p = 0; p < count && width < block; p++)
        memset(y + (p * block + width) * size, 0, (size_t)((block - width) * size));
}

static void turn_member(void *context, int member, int members) {
    const reorder_job *job = context;
    const rt_reorder *shape = job->shape;
    const rt_arrangement *wide = shape->to.block == 1 ? &shape->from : &shape->to;
    const int64_t pieces = (shape->size + TURNED - 1) / TURNED, items = shape->batch * wide->blocks * pieces;
    for (int64_t i = items * member / members; i < items * (member + 1) / members; i++) {
        const int64_t first = i % pieces * TURNED, block = i / pieces % wide->blocks,
                      image = i / pieces / wide->blocks;
        const int64_t count = shape->size - first < TURNED ? shape->size - first : TURNED;
        const int64_t size = (int64_t)shape->element;
        turn_block(shape, job->x + image * shape->from.blocks * shape->from.block * shape->from.plane * size,
                   job->y + image * shape->to.blocks * shape->to.block * shape->to.plane * size,
                   block * wide->block, first, count);
    }
}

void rt_reorder_init(const op_type *from, const op_type *to, rt_reorder *shape) {
    const op_shape *dims = &from->shape;
    *shape = (rt_reorder){.element = op_dtype_bytes(from->dtype), .batch = 1, .channels = 1, .size = 1};
    if (dims->rank > 0) shape->batch = dims->dims[0];
    if (dims->rank > 1) shape->channels = dims->dims[1];
    for (int32_t i = 2; i < dims->rank; i++) shape->size *= dims->dims[i];
    shape->from = arrange(from->layout, shape->channels);
    shape->to = arrange(to->layout, shape->channels);
    shape->from.plane = shape->to.plane = shape->size;
}

void rt_reorder_run(const rt_reorder *shape, int threads, const void *x, void *y) {
    reorder_job job = {.shape = shape, .x = x, .y = y};
    const bool large =
        (double)shape->batch * (double)shape->channels * (double)shape->size >= RT_PARALLEL_WORK;
    rt_team_run(large ? threads : 1, is_turn(shape) ? turn_member : reorder_member, &job);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const rt_reorder *shape = prepared->state;
    if (shape->from.block == shape->to.block) {
        const int64_t count = shape->batch * shape->from.blocks * shape->from.block * shape->size;
        if (count) memcpy(outputs[0].data, inputs[0].data, (size_t)count * shape->element);
        return BASE_OK;
    }
    rt_reorder_run(shape, prepared->threads, inputs[0].data, outputs[0].data);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    rt_reorder *shape = BASE_NEW(arena, rt_reorder);
    if (!shape) return base_fail_memory(report);
    rt_reorder_init(&call->inputs[0].type, &call->outputs[0].type, shape);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_reorder = {.name = "portable.reorder", .accepts = accepts, .prepare = prepare};
