/* SPDX-License-Identifier: Apache-2.0 */
/* info.h: what the passes on one loop know about it, and the questions that they share. Beneath all of them: it uses none.
 *
 * docs/LOOPS.md explains the words with examples. In short:
 *   origin     the storage in which the value of a carried parameter was made
 *   distance   the dependence distance: how many iterations ago that was
 *   instance   a storage of the body as one iteration has it. Instance t of a storage is made in iteration t.
 *   member     a storage of the body that holds a carried value
 *   class      members that share their buffers, because one is made over another
 *   period     how many buffers a class has: instance t lies in buffer (t + shift) % period
 *   congruent  two parameters that always hold the same instance: the same bytes under two names
 */
#ifndef OURO_LOOP_INFO_H
#define OURO_LOOP_INFO_H

#include "ir/loop.h"
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
    ir_value *parameter, *initial, *replacement, *output; /* as in ir_loop_carried */
    uint32_t next;                                        /* the parameter that replaces it, or LOOP_NONE */
    loop_origin_kind kind;
    uint32_t distance;    /* iterations back to the origin; of a cycle: parameters before it is entered */
    uint32_t cycle;       /* length of the cycle */
    pass_location origin; /* BODY: in the storage of the body; OUTSIDE: where the value lies */
    int64_t stride;       /* STACK: origin is where slice 0 is made, each further one lies so many bytes on */
    uint32_t next_at;     /* the next parameter that lies in the same storage, or LOOP_NONE (loop_first_at) */
    uint32_t next_made; /* the next one whose origin is in the same storage, or LOOP_NONE (loop_first_made) */
    bool taken_over;    /* its initial value is made in a buffer of the class */
    /* The output replaces a parameter of the body around, and gets there by a buffer swap (buffer_swaps.h). */
    const ir_node *swapped_in; /* the loop around it whose buffers these are; NULL: no swap */
    ir_value *replaced;        /* that parameter */
    bool begins;               /* the initial value is that parameter, which nobody else reads from then on */
    bool dead;                 /* the parameter is read only before the loop begins */
    pass_storage_id target;    /* the buffer with which it is swapped: where that parameter lies */
} loop_carried;

/* A number for some storages: open addressing, so that a loop costs what it carries, not what the module has. */
typedef struct loop_index {
    uint32_t *keys, *numbers; /* key zero: free */
    uint32_t mask;
} loop_index;

/* A storage of the body that holds a carried value, or (lazy_copies.h) one that an If copies from or to. */
typedef struct loop_member {
    uint32_t storage;
    int64_t first, last; /* half steps, last inclusive and counting on into later iterations: see `half` */
    uint32_t class;      /* union-find: the parent member, itself for the representative */
    uint32_t next;       /* the members of a class form a ring */
    int64_t shift;       /* buffer number of instance t: t + shift, relative to the representative */
    ir_node *in_place;   /* the node that makes it over a parameter's bytes */
    uint32_t over;       /* that parameter's member */
    int64_t over_distance;
    /* Of the representative: */
    bool holds_initial; /* an initial value begins in one of its buffers */
    int64_t modulus;    /* the period must divide it; 0: free */
    uint32_t period;
    /* It is a window: its buffers lie so many bytes apart, `turn` of them in one storage (windows.h); 0: it is none. */
    size_t step;
    uint32_t turn;
    pass_storage_id *buffers;
    bool from_end;             /* its tables are counted from the end of the loop (from_end.h) */
    bool branch_swaps;         /* a branch that hands a value on does so by a swap of two of its buffers */
    bool lazy;                 /* copies between its buffers, and those of others, only hand an address on */
    const ir_node *swapped_in; /* its buffers take part in swaps, in this loop or one around it */
    uint32_t group;            /* their group */
} loop_member;

typedef struct loop_info {
    pass_context *context;
    ir_module *module;
    pass_memory *memory;
    base_arena *arena;
    const int64_t *numbers; /* of memory->order */
    ir_loop loop;
    int64_t steps; /* of the body */
    /* Half steps of an iteration. Step s writes and reads in half step 2 * s; what must outlive it lives on in the next one. */
    int64_t half;
    loop_carried *carried; /* loop.carried of them */
    loop_member *members;
    uint32_t member_count, most_members;
    loop_index at, made, member_of; /* by storage; see loop_first_at, loop_first_made, loop_member_of */
    struct loop_info *
        *loops; /* by node id: the loops of this depth, their periods found; NULL for other nodes */
    bool swaps; /* an output gets to its place by a buffer swap */
    bool out_of_memory;
} loop_info;

/* Reads the loop: `carried`, and no members yet. Everything lives in the arena. False when memory runs out. */
bool loop_info_read(pass_context *context, base_arena *arena, const ir_node *loop, loop_info *info);

/* ---- storages ------------------------------------------------------------------------------------------ */

bool loop_same_location(pass_location a, pass_location b);
/* The first of the parameters that lie in this storage, in order, before anything is joined; LOOP_NONE. */
uint32_t loop_first_at(const loop_info *info, pass_storage_id id);
/* The first of those whose origin is, or before find_stacks was, in this storage; LOOP_NONE. */
uint32_t loop_first_made(const loop_info *info, pass_storage_id id);
/* The member that is this storage, or LOOP_NONE. */
uint32_t loop_member_of(const loop_info *info, pass_storage_id id);
/* The member that is this storage, a new one in a class of its own where there was none. */
uint32_t loop_add_member(loop_info *info, pass_storage_id id);
/* The number of the storage becomes `number`; what it was, or LOOP_NONE. */
uint32_t loop_index_put(loop_index *index, pass_storage_id id, uint32_t number);
/* The bytes of a value whose size is known now; 0 for others. */
size_t loop_bytes_of(const ir_value *value);
/* The value lies exactly in a storage of its own size. */
bool loop_fills(const pass_memory *memory, const ir_value *value);
/* The step of the body in which a use takes place; its length for a result of the body itself. */
int64_t loop_use_step(const loop_info *info, const ir_use *use);
/* The half step of an iteration in which a use reads. The condition is tested after the last step, when replaced parameters must
 * still be there; other results of the body are not read: -1. */
int64_t loop_read_at(const loop_info *info, const ir_use *use);
/* The first and last half step that touches a storage within one iteration; being handed on does not count. */
void loop_touched(const loop_info *info, pass_storage_id id, int64_t *first, int64_t *last);
/* One of the addresses of the multi-view is in this storage, through multi-views of other loops, too. */
bool loop_view_reaches(const pass_memory *memory, const pass_multiview *view, pass_storage_id id);
/* What loops of `body` leave may lie in this storage, which they began with. Calls `visit` for each such value, and for those
 * to which later loops hand it on unchanged, until it returns false. */
bool loop_visit_left(const loop_info *info, const ir_graph *body, pass_storage_id id,
                     bool (*visit)(const loop_info *info, const ir_value *value, void *user), void *user);
/* The last step of `body` in which what its loops leave is read, as far as it may lie in this storage; its length where that is
 * its condition; -1. */
int64_t loop_last_left(const loop_info *info, const ir_graph *body, pass_storage_id id);

/* Nobody needs the bytes of `value`, defined around the loop, once the loop has begun; and they can be anywhere. */
bool loop_may_take_over(const loop_info *info, const ir_value *value);

/* ---- slices -------------------------------------------------------------------------------------------- */

/* Where slice 0 of a stacked output is made, and how many bytes on the next; false where slices cannot be made in their place. */
bool loop_stack_of(const loop_info *info, uint32_t index, pass_location *base, int64_t *stride);
/* Where slice 0 of a scanned input lies, and how many bytes on the next; false where slices are copied. */
bool loop_slice_of(const loop_info *info, uint32_t index, pass_location *base, int64_t *stride);

/* ---- classes ------------------------------------------------------------------------------------------- */

bool loop_are_congruent(const loop_carried *a, const loop_carried *b);
/* The representative of member `index`'s class, and the shift of the member against it. */
uint32_t loop_find_class(const loop_info *info, uint32_t index, int64_t *shift);
/* The representative of the class in whose buffers a carried value is made; NULL where that is no storage of the body. */
loop_member *loop_class_of(const loop_info *info, const loop_carried *c);
size_t loop_class_bytes(const loop_info *info, uint32_t class);
/* The buffer of a class in which instance t of its member lies; of one that counts from the end: t iterations after some in
 * which the number of all iterations comes round. */
pass_storage_id loop_buffer_of(const loop_info *info, uint32_t index, int64_t t);

#endif
