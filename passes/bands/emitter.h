/* SPDX-License-Identifier: Apache-2.0 */
/* emitter.h: nodes of a band, and the rows of tensors that are there in it.
 *
 * An emitter carries the status of all that it has done: after an error its functions do nothing, and those that return values give
 * NULL. Nodes come before `before`, in `graph`.
 */
#ifndef OURO_BANDS_EMITTER_H
#define OURO_BANDS_EMITTER_H

#include "passes/bands/region.h"
#include "runtime/kernels/table.h"

/* Some rows of a tensor that are there in the present band. */
typedef struct band_piece {
    ir_value *value;
    band_rows rows;
    bool kept; /* from an earlier band */
    struct band_piece *next;
} band_piece;

/* A tensor whose rows are read or made. */
typedef struct band_tensor {
    ir_value *original;
    const band_node *maker;   /* NULL: it comes from outside, whole */
    band_piece *pieces;       /* the latest first */
    bool joined;              /* in the present band, kept and new rows of it are read where they lie */
    ir_value *whole;          /* so far, where somebody outside reads it */
    struct band_tensor *over; /* of what comes from outside: the result that is written over it */
    size_t last;              /* in the present band: the last node that reads or makes it, from 1; 0: none */
    struct band_tensor *next;
} band_tensor;

/* Within the body of the loop. */
typedef struct band_body {
    ir_value *iteration;
    ir_value *offset; /* iteration * advance, of the last advance that was asked for */
    int64_t advance;
} band_body;

typedef struct band_emitter {
    const band_region *region;
    const rt_environment *environment;
    ir_module *module;
    base_arena *arena;
    base_report *report;
    ir_graph *graph;
    ir_node *before;
    const ir_node *origin; /* whose name and path new nodes get */
    band_body *body;       /* NULL: outside of the loop */
    band_tensor *all, **last;
    base_status status;
} band_emitter;

/* ---- nodes ---------------------------------------------------------------------------------------------- */

/* Memory ran out: that is the status, unless there is another error. */
void band_fail_memory(band_emitter *e);

/* A node without outputs; `reason` is what dumps say of it. */
ir_node *band_make_node(band_emitter *e, op_code code, const char *reason, op_attributes attributes,
                        uint32_t count, ir_value *const *inputs);
/* Its next output: another form of `like`. */
ir_value *band_make_output(band_emitter *e, ir_node *node, const ir_value *like, const op_type *type);
/* The shape function must agree with the rows that were counted. */
void band_check_node(band_emitter *e, ir_node *node);
/* A node with one output, checked. */
ir_value *band_make(band_emitter *e, op_code code, const char *reason, op_attributes attributes,
                    uint32_t count, ir_value *const *inputs, const ir_value *like, const op_type *type);

/* Attributes of nodes to come. */
void band_set_attribute(band_emitter *e, op_attributes *attributes, const op_attribute *attribute);
void band_set_integer(band_emitter *e, op_attributes *attributes, const char *name, int64_t value);

/* A constant of rank 0 or 1. */
ir_value *band_integers(band_emitter *e, int32_t rank, int64_t count, const int64_t *values);
/* `count` numbers from `first` on, each by `step` larger than the one before it. */
ir_value *band_integers_from(band_emitter *e, int64_t first, int64_t count, int64_t step);

/* ---- rows ----------------------------------------------------------------------------------------------- */

static inline int64_t band_count(band_rows rows) {
    return rows.end - rows.first;
}

/* Those in both. */
static inline band_rows band_common(band_rows a, band_rows b) {
    const band_rows both = {a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
    return both.first < both.end ? both : (band_rows){0, 0};
}

/* The type of so many rows of a tensor. */
static inline op_type band_type_of_rows(const ir_value *of, int64_t count) {
    op_type type = of->type;
    type.shape.dims[BAND_AXIS] = count;
    return type;
}

/* What is known of a tensor of the region; NULL, with the status, when memory runs out. */
band_tensor *band_find_tensor(band_emitter *e, ir_value *value);
/* These rows of it are `value` now. */
void band_remember(band_emitter *e, band_tensor *tensor, ir_value *value, band_rows rows);
/* These rows, which are there, in the present band. `advance`: how many more of them there are in the next one. */
ir_value *band_get_rows(band_emitter *e, band_tensor *tensor, band_rows rows, int64_t advance);
/* Of the pieces that have row `at`, the one with the most rows after it; NULL: there is none. */
const band_piece *band_furthest(const band_tensor *tensor, int64_t at);
/* Rows [first, first + count) of `from`, which has rows of `original`. */
ir_value *band_slice_rows(band_emitter *e, const ir_value *original, ir_value *from, int64_t first,
                          int64_t count);
/* Rows of what comes from outside, at addresses that follow from the band, in this layout. */
ir_value *band_gather_rows(band_emitter *e, ir_value *whole, band_rows rows, int64_t advance,
                           op_layout layout);
/* `base`, numbers of rows in the first band of the loop, in the present one. */
ir_value *band_in_band(band_emitter *e, ir_value *base, int64_t advance);
/* The same rows, with bytes of their own. */
ir_value *band_copy_rows(band_emitter *e, const band_tensor *tensor, ir_value *rows);
/* The same, but only where rows lie one after another. What is kept is copied so, and what of that is put into a window: as a range of the window
 * it would keep all of the window from band to band. */
ir_value *band_copy_range(band_emitter *e, const band_tensor *tensor, ir_value *rows);

#endif
