/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h: what the files of the verifier share; see runtime/plan/check.c.
 *
 * - replay.c: messages, how much work there is, what is read
 * - check_spans.c: where tensors lie: the map of bytes, addresses followed through multi-views
 * - check_contents.c: what bytes hold: reading, writing, handing values over
 * - check_swap.c: buffers that swap addresses when a loop is left
 * - check_control.c: branches and loops
 * - check_join.c: what is left of the bytes that these wrote
 * - check_summary.c: loops within loops, each replayed once for each state that it finds
 * - check.c: steps that run and that make aliases; all of a plan
 *
 * Functions that return bool return false after a report.
 */
#ifndef OURO_PLAN_REPLAY_H
#define OURO_PLAN_REPLAY_H

#include "runtime/plan/plan.h"
#include "runtime/plan/bytes.h"

/* Replaying stops being worth its time somewhere: states of loops in loops can multiply. So much beyond what the plan's
 * size allows, and so much for each tensor id and node. Buffers that are swapped in a nest of n loops have about n states in
 * each of them, each with about n buffers: that is allowed for graphs up to DEEPEST within each other, which is what an
 * import takes. */
enum {
    MOST_WORK = 8000000,
    WORK_OF_RECORD = 2048,
    WORK_OF_NEST = 128,
    DEEPEST = 100,
    REPLAYED_ITERATIONS = 3,
    MOST_ITERATIONS = 4096
};

/* `length` bytes of an identity, from its byte `offset` on. */
typedef struct piece {
    uint64_t identity, offset, length;
} piece;

typedef struct content {
    piece one;    /* where count is 1 */
    piece *many;  /* where it is more */
    size_t count; /* 0: no bytes */
} content;

/* Where a tensor lies in the map of bytes: the intervals [first, last). */
typedef struct span {
    uint64_t address;
    size_t first, last;
} span;

/* An output of a loop that may lie in several places, depending on the number of iterations: what it is in
 * each. What later loops begin with it, or is a part of it, has phases as well. */
typedef struct phase {
    uint64_t entry; /* of the multi-view's table */
    uint64_t of;    /* which phase of what lies there, from 1; 0: that has none */
    plan_address where;
    span at;
    bool through; /* the place is in a swap buffer, and found through its multi-view */
    content is;
} phase;

typedef struct phase_list {
    phase *items;
    uint64_t count; /* 0: it has one place */
    size_t capacity;
} phase_list;

/* A multi-view that is a swap buffer. */
typedef struct swap_buffer {
    uint32_t multiview;
    span at;           /* all of it */
    uint64_t identity; /* what it holds since its loop has ended; 0: nothing was written there while it ran */
} swap_buffer;

typedef struct written_span {
    size_t first, last;
} written_span;

/* Bytes of the map that have to hold, or that hold, this tag. */
typedef struct tagged_span {
    size_t first, last;
    plan_bytes_tag tag;
} tagged_span;

typedef struct tagged_list {
    tagged_span *items;
    size_t count, capacity;
} tagged_list;

/* What a loop within a loop uses from around it. (check_summary.c) */
typedef struct replay_scope replay_scope;

/* What is read while a loop within a loop is replayed, of what was there before. */
typedef struct replay_frame {
    struct replay_frame *outer;
    uint64_t identity; /* the last one given before */
    tagged_list needs;
} replay_frame;

/* When the addresses of a loop's multi-views repeat. */
typedef struct loop_periods {
    const uint32_t *multiviews; /* its own, swap buffers first */
    size_t multiview_count;
    uint64_t prologue; /* the longest */
    uint64_t multiple; /* the least common multiple of the periods; 0: beyond 2^32 */
    uint64_t horizon;  /* iterations that show all there is to see; 0: more than MOST_ITERATIONS */
    /* The least common multiple of those that count from the end; 1: none does. Beyond MOST_ITERATIONS: too many. */
    uint64_t from_end;
} loop_periods;

/* What an identity is called at some time. */
typedef struct replay_name {
    uint64_t time, name;
} replay_name;

/* Tensors whose address depends on the counter of a loop. */
typedef struct dependent_list {
    uint32_t *items;
    size_t count, capacity;
} dependent_list;

typedef struct replay {
    const plan *of;
    base_report *report;
    base_arena arena;
    plan_bytes bytes;
    plan_address *where; /* by tensor id: its address now, multi-views followed */
    uint64_t *counters;  /* by node: the iteration of a loop; after the last node, the number of the run */
    uint64_t *trips; /* by node: the rest of how often a loop runs, where multi-views count from its end */
    bool *dynamic;   /* by tensor: see replay_is_dynamic */
    const bool *failures; /* plan_find_failures; NULL where there are no states */
    bool *running;        /* by node: the loop has begun and not ended */
    bool *swapping;       /* by node: from then on its swap buffers may not be where they were at first */
    bool *
        through; /* by tensor id: where it lies now is in a swap buffer, and was found through its multi-view */
    swap_buffer *buffers;
    size_t buffer_count;
    dependent_list *dependents; /* by node */
    loop_periods *periods;      /* by node */
    const uint32_t *order;      /* all multi-views, by the numbers of their loops, swap buffers first */
    span *spans;                /* by tensor id: of tensors in the arena and in outputs; where they lie now */
    span *scratches;            /* by node */
    uint64_t *outputs;          /* by output: the address of its buffer */
    uint64_t spills;            /* the address of the spill file */
    uint64_t states;            /* the address of the memory that is kept from run to run */
    content *contents;          /* by tensor id */
    phase_list *phases;         /* by tensor id */
    uint64_t *defined;          /* by tensor id: the epoch of its graph in which it was defined */
    uint64_t *epochs;           /* by graph: the current one */
    uint64_t epoch;
    phase_list
        *ends; /* of the loop that is replayed: by carried value, where its output is after k iterations */
    uint64_t identity; /* the last one given */
    uint32_t *owners;  /* by identity: the tensor id that it was given to; PLAN_ABSENT for scratch */
    size_t owner_count, owner_capacity;
    written_span *written;
    size_t written_count, written_capacity;
    replay_scope **scopes; /* by node: of loops within loops */
    replay_frame *frame;   /* of the innermost loop within a loop; NULL: none is replayed */
    replay_name *names;    /* by identity, from the first that is written on */
    size_t name_capacity;
    uint64_t name_time;
    uint64_t *key; /* the state that a loop finds, made last */
    size_t key_count, key_capacity;
    uint64_t *used; /* the identities in it, in the order in which they appear */
    size_t used_count, used_capacity;
    bool fully; /* without summaries */
    /* What is written now has a piece of its own, where it is in a lazy group: a kernel writes it, or has. */
    bool own_piece;
    uint64_t work, most_work; /* done, and allowed */
    char file[BASE_REPORT_CONTEXT];
    const plan_node *node; /* being replayed, for messages */
    uint64_t step;
    bool (*graph)(struct replay *r,
                  uint32_t graph); /* replays all steps of a graph: control nodes hold graphs */
} replay;

/* Identities of what nobody writes. */
static inline uint64_t constants_identity(void) {
    return 1;
}
static inline uint64_t input_identity(uint64_t index) {
    return 2 + index;
}

bool replay_add_tagged(replay *r, tagged_list *list, size_t first, size_t last, plan_bytes_tag tag);
/* These bytes were found to hold this tag. */
bool replay_note_read(replay *r, size_t first, size_t last, plan_bytes_tag tag);
/* The plan is wrong, for this reason. */
__attribute__((format(printf, 2, 3))) bool replay_fail(replay *r, const char *format, ...);
bool replay_fail_memory(replay *r);
/* The tensor's name, for messages. */
const char *replay_name_of(const replay *r, uint32_t id);
/* "bytes 64 to 128 of the arena", written into text; returns text. */
const char *replay_place_text(const replay *r, uint64_t address, uint64_t bytes, char *text, size_t capacity);
/* The multi-view that the buffer is. */
static inline const plan_multiview *replay_multiview_of(const replay *r, const swap_buffer *buffer) {
    return &r->of->multiviews[buffer->multiview];
}
/* The places of outputs in the map, after the arena. */
bool replay_map_outputs(replay *r);
/* When the multi-views of each loop repeat. */
bool replay_find_periods(replay *r);
/* The map of bytes, with bounds for all places that tensors can have, and where they lie at first. */
bool replay_map_spans(replay *r);
/* Where an address in the map is in it. */
uint64_t replay_map_address(const replay *r, const plan_address *address);
/* Within the arena or its output: what is not has no bounds in the map, and cannot be read or written. */
bool replay_in_space(const replay *r, const plan_address *address, uint64_t bytes);
/* In the arena or in an output: its bytes are followed. */
bool replay_in_map(const plan_address *address);
/* Not known before the run: made by the run-time allocator, or bound with dimensions. */
bool replay_is_dynamic(const replay *r, uint32_t id);
/* Finds out for all tensors. */
bool replay_find_dynamic(replay *r);
/* How much work the plan may take. */
bool replay_allow_work(replay *r);
/* So much work more; false where it comes to too much. */
bool replay_spend(replay *r, uint64_t work);
/* Whatever happens the loop runs *trips times: its condition holds always, and its trip count is a constant, or
 * absent; what it scans may be shorter. */
bool replay_is_certain(const replay *r, const plan_loop_form *form, uint64_t *trips);
/* The address that the multi-view gives now. */
plan_address replay_entry(const replay *r, uint32_t multiview);
/* The address as it is now: multi-views followed with the counters of their loops. *reservation: where the last of them is a
 * swap buffer, the bytes of that from there on; UINT64_MAX otherwise. */
plan_address replay_follow(const replay *r, plan_address address, uint64_t *reservation);
/* The same, but a multi-view of a loop that has ended stays one. */
plan_address replay_follow_running(const replay *r, plan_address address);
/* Where the tensor lies is found anew. */
void replay_place(replay *r, uint32_t id);
/* The loop is in iteration t, or has run t times. */
bool replay_set_counter(replay *r, const plan_node *loop, uint64_t t);
/* `length` bytes of one identity. */
content replay_content_of(uint64_t identity, uint64_t offset, uint64_t length);
/* From now on the tensor is this, where it lies now. */
void replay_define(replay *r, uint32_t id, content is);
/* One content after another, runs of one identity made one piece; *capacity: of to->many. */
bool replay_content_append(replay *r, content *to, size_t *capacity, const content *from);
/* Bytes [offset, offset + length) of some content. */
bool replay_content_part(replay *r, const content *whole, uint64_t offset, uint64_t length, content *part);
/* The tensor has been made, and its bytes are where it lies: in all places where it may lie. */
bool replay_verify(replay *r, uint32_t id);
/* From now on the tensor lies in this one of the places where it may lie. */
void replay_enter_phase(replay *r, uint32_t id, const phase *of);
/* The same for one of the places where it may lie, or for its only one. */
bool replay_verify_phase(replay *r, uint32_t id, const phase *of);
/* A new identity, of what is written for tensor `owner`; PLAN_ABSENT: for no single one. */
bool replay_new_identity(replay *r, uint32_t owner, uint64_t *identity);
/* These bytes of the map are written: the log of what is written has them. */
bool replay_note_written(replay *r, size_t first, size_t last);
/* The tensor has been made in this run of its graph. */
bool replay_is_defined(const replay *r, uint32_t id);
/* These bytes of the map get this tag. */
bool replay_write_span(replay *r, size_t first, size_t last, plan_bytes_tag tag);
/* The tensor is made: an identity of its own where it lies. */
bool replay_write(replay *r, uint32_t id);
bool replay_is_same_address(const plan_address *x, const plan_address *y);
bool replay_is_same_place(const replay *r, uint32_t a, uint32_t b);
/* The address of a tensor, followed through multi-views of loops that run; a multi-view of a loop that has ended stays one. */
plan_address replay_source(const replay *r, uint32_t id);
/* From now on the tensor is bytes [offset, ...) of another one, in whichever places that is. */
bool replay_define_part(replay *r, uint32_t whole, uint64_t offset, uint32_t id);
/* Their bytes overlap. */
bool replay_do_overlap(const replay *r, uint32_t a, uint32_t b);
/* All that swap buffers are said to be: whole pieces of the arena, apart from each other, of a loop. */
bool replay_find_swap_buffers(replay *r);
/* Bytes of the map that are read or written other than through the multi-view of a buffer: while loops swap buffers, they are
 * not these. `what` names the reader in a message. */
bool replay_check_apart(replay *r, const span *at, const char *what);
/* The end of a loop, for outputs that are swapped: they are what the parameters are, all at once; the buffers in which these
 * were hold nothing that anybody knows. */
bool replay_swap(replay *r, const plan_node *node, const plan_loop_form *form);
/* The same for a Copy node whose output is in the group of this multi-view. */
bool replay_swap_copy(replay *r, const plan_node *node, uint32_t multiview);
/* The loop whose buffers they are has ended: what was written there since, and has been merged, is of one identity in each. */
bool replay_end_swaps(replay *r, const plan_node *node, size_t since);
/* The buffer of this very loop in which the place is, found through its multi-view; NULL: it is in none. */
const swap_buffer *replay_own_buffer(const replay *r, const plan_node *node, const phase *place);
/* Then what lies in one may be in each other of its group that was written: a phase more for each. */
bool replay_spread(replay *r, const plan_node *node, phase_list *ends, uint64_t bytes);
/* A value is handed over, as the executor does between graphs (plan.h). */
bool replay_move(replay *r, uint32_t from, uint32_t to);
/* What was written since, once each, in order. */
bool replay_merge_written(replay *r, size_t since);
/* Bytes of the span were written since: all until then has been merged. */
bool replay_was_written(const replay *r, size_t since, size_t until, const span *at);
/* Spans of outputs, to find one that contains another. */
typedef struct output_span {
    uint64_t begin, end, index;
} output_span;
/* By where they begin; of those that begin together the longest comes first. */
void replay_sort_outputs(output_span *spans, size_t count);
/* Sorts them, and leaves those that lie in no other; how many. `containers`: by index, the one that it lies in, or itself; NULL: not
 * wanted. */
size_t replay_find_containers(output_span *spans, size_t count, uint64_t *containers);
/* All that was written since becomes garbage, except what `outputs` hold. An output that lies in the bytes of
 * another one is a part of it: at every end both were seen to be there. */
bool replay_join(replay *r, size_t since, const uint32_t *outputs, uint64_t count);
/* All of these that are wanted. */
bool replay_verify_all(replay *r, const uint32_t *ids, uint64_t count);
/* What a tensor is, constants included, after looking whether it is there. */
bool replay_content_of_tensor(replay *r, uint32_t id, content *is);
/* Runs, until all addresses of the loop around the model have come round twice. (runtime/plan/check_states.c) */
bool replay_runs(replay *r);
/* Before and after a node of the main graph that can fail: the states are as they were when the run began. */
bool replay_check_commit(replay *r, uint32_t node);
/* Branches, each from the same state; a loop, every iteration that matters. (runtime/plan/check_control.c) */
bool replay_if(replay *r, const plan_node *node);
bool replay_loop_fully(replay *r, const plan_node *node);
/* What loops within loops have to do with what is around them. After replay_map_spans. (runtime/plan/check_summary.c) */
bool replay_find_scopes(replay *r);
/* A loop: a summary where it has been replayed in such a state before. */
bool replay_loop(replay *r, const plan_node *node);

#endif
