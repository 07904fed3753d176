/* loop_periods.h: what the carried parameters of one loop hold, for how long, and after how many iterations the buffer in
 * which a value was made can be used again. The first half of analyse_loops.c, whose head explains the words; it only
 * looks, and changes nothing.
 */
#ifndef OURO_LOOP_PERIODS_H
#define OURO_LOOP_PERIODS_H

#include "passes/loops/loops.h"

enum { LOOP_NONE = UINT32_MAX };

typedef enum loop_origin_kind {
    LOOP_ORIGIN_COPY,    /* of no certain size: handed on by the executor */
    LOOP_ORIGIN_BODY,    /* made in a storage of the body */
    LOOP_ORIGIN_OUTSIDE, /* a value from outside of the loop */
    LOOP_ORIGIN_STACK,   /* its slice of a stacked output or scanned input */
    LOOP_ORIGIN_CYCLE    /* initial values go round */
} loop_origin_kind;

/* One carried parameter. */
typedef struct loop_carried {
    ir_value *parameter, *initial, *replacement, *output; /* output NULL: not wanted */
    uint32_t next;                                        /* the parameter that replaces it, or LOOP_NONE */
    loop_origin_kind kind;
    uint32_t depth;       /* iterations back to the origin; of a cycle: parameters before it is entered */
    uint32_t cycle;       /* length of the cycle */
    pass_location origin; /* BODY: in the storage of the body; OUTSIDE: where the value lies */
    int64_t stride;       /* STACK: origin is where slice 0 is made, each further one lies so many bytes on */
    bool taken_over;      /* its initial value is made in a buffer of the class */
    /* The output is what replaces a parameter of the body around, and gets there by exchange (loop_exchange.h). */
    ir_node *exchanged_in;  /* the loop around it whose buffers these are; NULL: no exchange */
    ir_value *replaced;     /* that parameter */
    bool begins;            /* the initial value is that parameter, which nobody else reads from then on */
    bool dead;              /* the parameter is read only before the loop begins */
    pass_storage_id target; /* the buffer with which it is exchanged: where that parameter lies */
} loop_carried;

/* A storage of the body that holds a carried value. */
typedef struct loop_member {
    uint32_t storage;
    int64_t first, last; /* half steps, last inclusive and counting on into later iterations: see `half` */
    uint32_t class;      /* union-find: the parent member, itself for the representative */
    int64_t shift;       /* buffer number of instance t: t + shift, relative to the representative */
    int64_t modulus;     /* of the representative: the period must divide it; 0: free */
    uint32_t period;     /* of the representative */
    pass_storage_id *buffers; /* of the representative */
    bool traded; /* of the representative: a branch that is skipped hands its buffers on by exchange */
    ir_node
        *exchanged_in; /* of the representative: its buffers are exchanged, in this loop or one around it */
    uint32_t group;    /* of the representative: their group */
    ir_node *in_place; /* the node that makes it over a parameter's bytes */
    uint32_t over;     /* that parameter's member */
    int64_t over_depth;
} loop_member;

typedef struct loop_analysis {
    pass_context *context;
    ir_module *module;
    pass_memory *memory;
    base_arena *arena;
    const int64_t *numbers;
    ir_node *loop;
    ir_graph *body;
    int64_t steps;
    int64_t half; /* half steps of an iteration. Step s writes and reads in half step 2 * s; what must outlive
                     it lives in 2 * s + 1 */
    uint32_t carried_count, scan_inputs, scan_outputs;
    loop_carried *carried;
    loop_member *members;
    uint32_t member_count;
    uint32_t *member_of; /* by storage: its member, or LOOP_NONE */
    bool out_of_memory;
} loop_analysis;

/* Finds origins, members, classes and their periods. Set before: module to body. False when memory runs out. */
bool loop_find_periods(loop_analysis *a);
/* The representative of member `index`'s class, and the shift of the member against it. */
uint32_t loop_find_class(loop_analysis *a, uint32_t index, int64_t *shift);
/* Slice 0 of a stacked output, and the way to the next; false where slices cannot be made in their place. */
bool loop_stack_of(const loop_analysis *a, uint32_t index, pass_location *base, int64_t *stride);
/* Where slice 0 of a scanned input lies, and the way to the next; false where slices are copied. */
bool loop_slice_of(const loop_analysis *a, uint32_t index, pass_location *base, int64_t *stride);

/* The value is what a loop carried, and that loop leaves it in one of several places, or in one that is not its own: it
 * is best read where it is. An estimate where inner loops are not analysed yet. False when memory runs out. */
bool loop_leaves_anywhere(pass_context *context, const int64_t *numbers, base_arena *arena,
                          const ir_value *value, bool *anywhere);

/* One of the places of the view is in this storage, through views of other loops, too. */
bool loop_view_reaches(const pass_memory *memory, const pass_multiview *view, pass_storage_id id);
/* Both branches of the node make what lies in storage `made` when they have read storage `over`, or element by element over
 * it: the output can be made where the parameter is, which is there still if it is skipped. (loop_branch.c) */
bool loop_branches_in_place(const loop_analysis *a, const ir_node *branch, pass_storage_id made,
                            pass_storage_id over);
/* The last step of the body in which what inner loops leave is read, as far as it may lie in this storage, with which they
 * began; -1. */
int64_t loop_last_left(const loop_analysis *a, pass_storage_id id);

/* Two parameters that hold the same instance: the same bytes under two names. */
bool loop_are_twins(const loop_carried *a, const loop_carried *b);
bool loop_same_location(pass_location a, pass_location b);
/* The value has a size that is known now: so many bytes, 0 where it has none. */
bool loop_is_static(const ir_value *value);
size_t loop_bytes_of(const ir_value *value);

#endif
