/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h: the nodes of the main graph, in their order, as the search for regions sees them: what each reads by rows, what it takes, and what is
 * live around it.
 */
#ifndef OURO_BANDS_STEPS_H
#define OURO_BANDS_STEPS_H

#include "passes/bands/estimate.h"
#include "passes/bands/row_maps.h"
#include "passes/bands/search.h"

enum { BAND_OUTSIDE = -1 };

/* What a node reads by rows. */
typedef struct band_reads {
    int32_t maker;    /* the step that makes it; BAND_OUTSIDE: a parameter or a constant */
    double row_bytes; /* of what is read */
    int64_t rows;
    int32_t input; /* which input of the node */
    bool together; /* rows of tokens: there is one channel */
    bool blocked;  /* its channels lie in blocks: to put them innermost is a copy of its own */
    bool apart;    /* each channel lies by itself: to put them innermost takes longer than a copy */
    bool in_place; /* where channels are innermost otherwise: rows are read where they lie */
    bool joined;   /* where they are not: kept rows and new ones are read where they lie */
} band_reads;

typedef struct band_step {
    const ir_node *node;
    bool supported, is_result;
    band_window window;
    int64_t rows;
    uint32_t reading_count;
    band_reads *readings;
    int32_t all_from; /* the last step that makes what is read as a whole; BAND_OUTSIDE */
    double row_bytes; /* of all outputs */
    double
        spans; /* in how many places rows that follow one another lie; where channels are innermost, in one */
    double bytes;        /* of all outputs, in the arena */
    int32_t last_reader; /* the last step that reads an output */
    int32_t *readers;    /* all of them that read by rows, in order */
    int32_t reader_count;
    band_estimate estimate;
    double saved;           /* seconds, by a faster kernel, where there are no bands */
    struct fast_rows *fast; /* what find_fast of simulate.c remembers */
    bool in_place;          /* it can write over what it reads */
    int32_t apart;          /* how many steps so far cannot have their channels innermost */
    bool joins;             /* Concat, Split, and what only names bytes anew: no memory of its own */
    double live;            /* around it: made before, read at this step or later */
    double alone;           /* live while it runs alone */
    /* of the region that is being looked at */
    int64_t advance, end, low, first;
    double window_bytes, kept_bytes;
    bool is_fast; /* it has a faster kernel in bands, too */
    int32_t last_inside;
    bool exported;
} band_step;

typedef struct band_steps {
    base_arena *arena;
    band_step *list;
    size_t count;
    const int32_t *numbers; /* by node id: its step */
    double whole;           /* the estimated peak without bands */
    double seconds, saved;  /* the time without bands, on direct kernels; what faster ones save of it */
    double begin;           /* the part of their time that steps take to begin here */
    const rt_environment *environment;
    const band_rates *rates;
} band_steps;

/* Reads the main graph; lives in `arena`. False when memory runs out. */
bool band_steps_read(const ir_module *module, const rt_environment *environment, const band_savings *savings,
                     base_arena *arena, band_steps *steps);

/* Which step of the main graph the use belongs to; INT32_MAX: it is a result. */
int32_t band_step_of_use(const ir_use *use, const ir_graph *main, const int32_t *numbers);

#endif
