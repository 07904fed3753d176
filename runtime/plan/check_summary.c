/* SPDX-License-Identifier: Apache-2.0 */
/* check_summary.c: loops within loops, in the verifier; see runtime/plan/check.c and docs/VERIFIER.md.
 *
 * A loop is replayed several times, so a nest of d loops would take a number of replays that grows exponentially with d. But
 * most of them find the same: what the replay of a loop does depends on nothing but
 *
 * - where the tensors lie that it uses, which follows from the multi-views of other loops that they lie in;
 * - what the tensors hold that come from outside of the loop, and in which places they may be;
 * - the bytes that it reads before it writes them: it finds there what it expects, or the plan is refused.
 *
 * Identities are compared for equality only. So a replay that succeeded is valid for every state that is the same up to
 * names of identities, and leaves the same, up to these names. This is kept as a summary (Sharir, Pnueli: Two approaches
 * to interprocedural data flow analysis, 1981) and applied when such a state comes again. Where the bytes are not as
 * the summary needs them, the loop is replayed once more.
 */
#include "runtime/plan/replay.h"
#include "ir/base/sort.h"
#include <string.h>

typedef struct id_list {
    uint32_t *items;
    size_t count, capacity;
} id_list;

/* What is known of one tensor. */
typedef struct tensor_state {
    bool made, through; /* made: the loop made it what it is */
    plan_address where;
    span at;
    content is;
    phase_list phases;
} tensor_state;

typedef struct summary {
    uint64_t hash;
    uint64_t *key; /* the state it was made in, identities numbered in the order in which they appear */
    size_t key_count;
    uint64_t *names; /* by that number: the identity it was */
    size_t name_count;
    uint64_t identity; /* the last one given before; later ones are its own */
    tagged_span *needs, *leaves;
    size_t need_count, leave_count;
    written_span *written; /* apart from each other, ascending */
    size_t written_count;
    tensor_state *tensors; /* by scope->tensors: what is left */
    uint64_t *counters;    /* by scope->loops */
    struct summary *next;
} summary;

/* What a loop within a loop has to do with what is around it. */
struct replay_scope {
    id_list tensors;    /* those it uses from outside of it, then its outputs */
    id_list multiviews; /* of other loops, in which tensors lie that it uses */
    id_list loops;      /* nodes: itself and all within it */
    id_list placed;     /* tensors outside of it that lie in multi-views of these */
    summary *summaries;
};

/* Marks by number: of the loop that was there last, so that lists are made without duplicates. */
typedef struct scope_marks {
    uint32_t *tensors, *multiviews, *graphs, *nodes, *placed;
} scope_marks;

/* ---- scopes -------------------------------------------------------------------------------------------- */

static bool add_id(replay *r, id_list *list, uint32_t id) {
    uint32_t *items =
        base_arena_grow(&r->arena, list->items, &list->capacity, list->count + 1, sizeof *items);
    if (!items) return replay_fail_memory(r);
    list->items = items;
    items[list->count++] = id;
    return replay_spend(r, 1);
}

/* Adds a number that this loop has not marked yet. */
static bool add_new(replay *r, id_list *list, uint32_t *marks, uint32_t loop, uint32_t id) {
    if (marks[id] == loop + 1) return true;
    marks[id] = loop + 1;
    return add_id(r, list, id);
}

static bool add_all(replay *r, id_list *list, uint32_t *marks, uint32_t loop, const uint32_t *ids,
                    uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (ids[i] != PLAN_ABSENT && !add_new(r, list, marks, loop, ids[i])) return false;
    return true;
}

/* All that a graph of the loop mentions, with what the loops in it have gathered before. */
static bool gather_graph(replay *r, replay_scope *scope, scope_marks *marks, uint32_t loop, uint32_t number) {
    const plan *of = r->of;
    const plan_graph *graph = &of->graphs[number];
    const uint32_t *ids = of->tensor_ids;
    marks->graphs[number] = loop + 1;
    if (!add_all(r, &scope->tensors, marks->tensors, loop, ids + graph->parameters, graph->parameter_count) ||
        !add_all(r, &scope->tensors, marks->tensors, loop, ids + graph->results, graph->result_count))
        return false;
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const plan_node *node = &of->nodes[n];
        const replay_scope *inner = r->scopes[n];
        if (!add_all(r, &scope->tensors, marks->tensors, loop, ids + node->inputs, node->input_count) ||
            !add_all(r, &scope->tensors, marks->tensors, loop, ids + node->outputs, node->output_count))
            return false;
        if (inner) {
            if (!add_all(r, &scope->tensors, marks->tensors, loop, inner->tensors.items,
                         inner->tensors.count) ||
                !add_all(r, &scope->multiviews, marks->multiviews, loop, inner->multiviews.items,
                         inner->multiviews.count) ||
                !add_all(r, &scope->loops, marks->nodes, loop, inner->loops.items, inner->loops.count) ||
                !add_all(r, &scope->placed, marks->placed, loop, inner->placed.items, inner->placed.count))
                return false;
            continue;
        }
        for (uint32_t g = 0; g < node->graph_count; g++)
            if (!gather_graph(r, scope, marks, loop, node->first_graph + g)) return false;
    }
    return true;
}

/* Only multi-views of other loops are left; those that entries of its own lie in are added. */
static bool follow_multiviews(replay *r, replay_scope *scope, scope_marks *marks, uint32_t loop) {
    id_list *list = &scope->multiviews;
    size_t kept = 0;
    for (size_t i = 0; i < scope->tensors.count; i++) {
        const plan_address *address = &r->of->tensors[scope->tensors.items[i]].address;
        if (address->space == MEMORY_MULTIVIEW && !add_new(r, list, marks->multiviews, loop, address->index))
            return false;
    }
    for (size_t i = 0; i < list->count; i++) {
        const uint32_t v = list->items[i];
        const plan_multiview *multiview = &r->of->multiviews[v];
        if (marks->nodes[multiview->loop] != loop + 1) {
            list->items[kept++] = v;
            continue;
        }
        for (uint64_t k = 0; k < (uint64_t)multiview->prologue_count + multiview->period; k++) {
            const plan_address *entry = &r->of->addresses[multiview->first + k];
            if (!replay_spend(r, 1)) return false;
            if (entry->space == MEMORY_MULTIVIEW && !add_new(r, list, marks->multiviews, loop, entry->index))
                return false;
        }
    }
    list->count = kept;
    return true;
}

/* Those of the tensors stay whose graph is not this loop's. */
static void keep_outside(const replay *r, id_list *list, const scope_marks *marks, uint32_t loop) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (marks->graphs[r->of->tensors[list->items[i]].graph] != loop + 1)
            list->items[kept++] = list->items[i];
    list->count = kept;
}

/* The scopes of the loops in it are there. */
static bool find_scope(replay *r, uint32_t loop, scope_marks *marks) {
    const plan_node *node = &r->of->nodes[loop];
    const uint32_t *ids = r->of->tensor_ids;
    replay_scope *scope = BASE_NEW(&r->arena, replay_scope);
    if (!scope) return replay_fail_memory(r);
    if (!add_new(r, &scope->loops, marks->nodes, loop, loop) ||
        !gather_graph(r, scope, marks, loop, node->first_graph) ||
        !add_all(r, &scope->tensors, marks->tensors, loop, ids + node->inputs, node->input_count) ||
        !add_all(r, &scope->tensors, marks->tensors, loop, ids + node->outputs, node->output_count) ||
        !add_all(r, &scope->placed, marks->placed, loop, r->dependents[loop].items,
                 r->dependents[loop].count) ||
        !follow_multiviews(r, scope, marks, loop))
        return false;
    keep_outside(r, &scope->tensors, marks, loop);
    keep_outside(r, &scope->placed, marks, loop);
    r->scopes[loop] = scope;
    return true;
}

bool replay_find_scopes(replay *r) {
    const plan_header *header = r->of->header;
    const size_t nodes = (size_t)header->nodes.count, graphs = (size_t)header->graphs.count;
    bool *repeats = BASE_ARRAY(&r->arena, bool, graphs); /* it is in a loop's body */
    scope_marks marks = {
        .tensors = BASE_ARRAY(&r->arena, uint32_t, (size_t)header->tensors.count),
        .multiviews = BASE_ARRAY(&r->arena, uint32_t, (size_t)header->multiviews.count),
        .graphs = BASE_ARRAY(&r->arena, uint32_t, graphs),
        .nodes = BASE_ARRAY(&r->arena, uint32_t, nodes + 1),
        .placed = BASE_ARRAY(&r->arena, uint32_t, (size_t)header->tensors.count),
    };
    r->scopes = BASE_ARRAY(&r->arena, replay_scope *, nodes);
    if (r->scopes && r->fully) return true;
    if (!repeats || !marks.tensors || !marks.multiviews || !marks.graphs || !marks.nodes || !marks.placed ||
        !r->scopes)
        return replay_fail_memory(r);
    repeats[0] = header->states.count != 0; /* in that of the loop around the model */
    /* Owners stand before what they own, so this goes from the outside to the inside, and then back. */
    for (size_t g = 1; g < graphs; g++) {
        const plan_node *owner = &r->of->nodes[r->of->graphs[g].owner];
        repeats[g] = repeats[owner->graph] || plan_node_code(r->of, owner) == OP_LOOP;
    }
    for (size_t g = graphs; g-- > 1;) {
        const uint32_t owner = r->of->graphs[g].owner;
        const plan_node *node = &r->of->nodes[owner];
        if (repeats[node->graph] && plan_node_code(r->of, node) == OP_LOOP && !r->scopes[owner] &&
            !find_scope(r, owner, &marks))
            return false;
    }
    return true;
}

/* ---- the state that a loop finds ----------------------------------------------------------------------- */

static uint64_t first_identity(const replay *r) {
    return input_identity(r->of->header->inputs.count);
}

/* Identities get other names from now on. */
static bool begin_names(replay *r) {
    replay_name *names =
        base_arena_grow(&r->arena, r->names, &r->name_capacity, r->owner_count + 1, sizeof *names);
    if (!names) return replay_fail_memory(r);
    r->names = names;
    r->name_time++;
    return true;
}

static bool push(replay *r, uint64_t word) {
    uint64_t *key = base_arena_grow(&r->arena, r->key, &r->key_capacity, r->key_count + 1, sizeof *key);
    if (!key) return replay_fail_memory(r);
    r->key = key;
    key[r->key_count++] = word;
    return true;
}

/* The number of an identity: what is never written keeps its own. */
static bool push_identity(replay *r, uint64_t identity) {
    const uint64_t first = first_identity(r);
    if (identity < first) return push(r, identity);
    replay_name *name = &r->names[identity - first];
    if (name->time != r->name_time) {
        uint64_t *used =
            base_arena_grow(&r->arena, r->used, &r->used_capacity, r->used_count + 1, sizeof *used);
        if (!used) return replay_fail_memory(r);
        r->used = used;
        used[r->used_count] = identity;
        *name = (replay_name){r->name_time, first + r->used_count++};
    }
    return push(r, name->name);
}

static bool push_address(replay *r, const plan_address *address) {
    return push(r, (uint64_t)address->space << 32 | address->index) && push(r, address->offset);
}

static bool push_content(replay *r, const content *is) {
    const piece *pieces = is->count > 1 ? is->many : &is->one;
    if (!push(r, is->count)) return false;
    for (size_t i = 0; i < is->count; i++)
        if (!push_identity(r, pieces[i].identity) || !push(r, pieces[i].offset) || !push(r, pieces[i].length))
            return false;
    return true;
}

static bool push_tensor(replay *r, uint32_t id) {
    const phase_list *phases = &r->phases[id];
    const bool defined = replay_is_defined(r, id);
    if (!push(r, defined)) return false;
    if (!defined) return true;
    if (!push_content(r, &r->contents[id]) || !push(r, phases->count)) return false;
    for (uint64_t i = 0; i < phases->count; i++) {
        const phase *of = &phases->items[i];
        if (!push(r, of->entry) || !push(r, of->of) || !push_address(r, &of->where) ||
            !push(r, of->at.first) || !push(r, of->at.last) || !push(r, of->through) ||
            !push_content(r, &of->is))
            return false;
    }
    return true;
}

/* All of the state that the replay of the loop depends on, bytes apart. */
static bool make_key(replay *r, const replay_scope *scope) {
    r->key_count = r->used_count = 0;
    if (!begin_names(r)) return false;
    for (size_t i = 0; i < scope->multiviews.count; i++) {
        const plan_address address = {.space = MEMORY_MULTIVIEW, .index = scope->multiviews.items[i]};
        uint64_t reservation;
        const plan_address now = replay_follow(r, address, &reservation),
                           source = replay_follow_running(r, address);
        if (!push_address(r, &now) || !push(r, reservation) || !push_address(r, &source)) return false;
    }
    for (size_t i = 0; i < scope->tensors.count; i++)
        if (!push_tensor(r, scope->tensors.items[i])) return false;
    return replay_spend(r, r->key_count);
}

/* ---- making a summary ---------------------------------------------------------------------------------- */

static int compare_tagged(const void *a, const void *b) {
    const tagged_span *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    if (x->tag.identity != y->tag.identity) return x->tag.identity < y->tag.identity ? -1 : 1;
    return x->tag.origin < y->tag.origin ? -1 : x->tag.origin > y->tag.origin;
}

/* The needs of a loop that has been replayed, once each; those that an outer loop finds, too, are its needs. */
static bool close_frame(replay *r, replay_frame *frame) {
    tagged_list *needs = &frame->needs;
    size_t kept = 0;
    base_sort(needs->items, needs->count, sizeof *needs->items, compare_tagged);
    for (size_t i = 0; i < needs->count; i++)
        if (!kept || compare_tagged(&needs->items[kept - 1], &needs->items[i]))
            needs->items[kept++] = needs->items[i];
    needs->count = kept;
    r->frame = frame->outer;
    for (size_t i = 0; i < kept; i++) {
        const tagged_span *need = &needs->items[i];
        if (!replay_note_read(r, need->first, need->last, need->tag)) return false;
    }
    return replay_spend(r, kept);
}

static bool note_leaves(replay *r, tagged_list *list, const written_span *written) {
    for (size_t at = written->first; at < written->last;) {
        plan_bytes_tag tag = plan_bytes_at(&r->bytes, at), other;
        size_t end;
        if (tag.identity) end = plan_bytes_differ(&r->bytes, at, written->last, tag, &other);
        else
            for (end = at + 1; end < written->last && !plan_bytes_at(&r->bytes, end).identity;) end++;
        if (!replay_add_tagged(r, list, at, end, tag)) return false;
        at = end;
    }
    return true;
}

/* What is known of the tensor, and whether that is something else than before. */
static tensor_state state_of(const replay *r, uint32_t id, const tensor_state *before) {
    const content *is = &r->contents[id], *was = &before->is;
    const bool same = replay_is_defined(r, id) == before->made && is->count == was->count &&
                      is->many == was->many && is->one.identity == was->one.identity &&
                      is->one.offset == was->one.offset && is->one.length == was->one.length &&
                      r->phases[id].items == before->phases.items &&
                      r->phases[id].count == before->phases.count;
    return (tensor_state){.made = !same && replay_is_defined(r, id),
                          .through = r->through[id],
                          .where = r->where[id],
                          .at = r->spans[id],
                          .is = *is,
                          .phases = r->phases[id]};
}

/* What the loop has left. */
static bool note_state(replay *r, const replay_scope *scope, const tensor_state *before, summary *made,
                       size_t since) {
    tagged_list leaves = {0};
    if (!replay_merge_written(r, since)) return false;
    made->written_count = r->written_count - since;
    made->written = BASE_ARRAY(&r->arena, written_span, made->written_count);
    made->tensors = BASE_ARRAY(&r->arena, tensor_state, scope->tensors.count);
    made->counters = BASE_ARRAY(&r->arena, uint64_t, scope->loops.count);
    if (!made->written || !made->tensors || !made->counters) return replay_fail_memory(r);
    for (size_t i = 0; i < made->written_count; i++) {
        made->written[i] = r->written[since + i];
        if (!note_leaves(r, &leaves, &made->written[i])) return false;
    }
    made->leaves = leaves.items;
    made->leave_count = leaves.count;
    for (size_t i = 0; i < scope->tensors.count; i++) {
        const uint32_t id = scope->tensors.items[i];
        made->tensors[i] = state_of(r, id, &before[i]);
    }
    for (size_t i = 0; i < scope->loops.count; i++) made->counters[i] = r->counters[scope->loops.items[i]];
    return replay_spend(r, scope->tensors.count + scope->loops.count);
}

/* Replays the loop and keeps what came of it. */
static bool summarise(replay *r, const plan_node *node, replay_scope *scope, uint64_t hash) {
    const size_t since = r->written_count;
    replay_frame frame = {.outer = r->frame, .identity = r->identity};
    summary *made = BASE_NEW(&r->arena, summary);
    if (!made) return replay_fail_memory(r);
    made->hash = hash;
    made->key_count = r->key_count;
    made->key = BASE_ARRAY(&r->arena, uint64_t, r->key_count);
    made->name_count = r->used_count;
    made->names = BASE_ARRAY(&r->arena, uint64_t, r->used_count);
    made->identity = r->identity;
    tensor_state *before = BASE_ARRAY(&r->arena, tensor_state, scope->tensors.count);
    if (!made->key || !made->names || !before) return replay_fail_memory(r);
    for (size_t i = 0; i < scope->tensors.count; i++) {
        const uint32_t id = scope->tensors.items[i];
        before[i] =
            (tensor_state){.made = replay_is_defined(r, id), .is = r->contents[id], .phases = r->phases[id]};
    }
    if (r->key_count) memcpy(made->key, r->key, r->key_count * sizeof *r->key);
    if (r->used_count) memcpy(made->names, r->used, r->used_count * sizeof *r->used);
    r->frame = &frame;
    const bool valid = replay_loop_fully(r, node);
    r->frame = frame.outer;
    if (!valid || !close_frame(r, &frame) || !note_state(r, scope, before, made, since)) return false;
    made->needs = frame.needs.items;
    made->need_count = frame.needs.count;
    made->next = scope->summaries;
    scope->summaries = made;
    return true;
}

/* ---- applying a summary -------------------------------------------------------------------------------- */

/* The identity in the state that there is now; one that the loop gave itself is given anew. */
static bool rename_identity(replay *r, const summary *from, uint64_t *identity) {
    const uint64_t first = first_identity(r), old = *identity;
    if (old < first) return true;
    replay_name *name = &r->names[old - first];
    if (name->time != r->name_time) {
        if (old <= from->identity) {
            *identity = 0; /* nothing that the loop knows has it: garbage */
            return true;
        }
        uint64_t fresh;
        if (!replay_new_identity(r, r->owners[old - first], &fresh)) return false;
        *name = (replay_name){r->name_time, fresh};
    }
    *identity = name->name;
    return true;
}

static bool rename_content(replay *r, const summary *from, content *is) {
    if (is->count <= 1) return !is->count || rename_identity(r, from, &is->one.identity);
    piece *many = BASE_ARRAY(&r->arena, piece, is->count);
    if (!many) return replay_fail_memory(r);
    for (size_t i = 0; i < is->count; i++) {
        many[i] = is->many[i];
        if (!rename_identity(r, from, &many[i].identity)) return false;
    }
    is->many = many;
    is->one = many[0];
    return replay_spend(r, is->count);
}

/* The bytes that the loop reads are as it needs them. */
static bool are_needs_met(replay *r, const summary *from, bool *met) {
    *met = true;
    for (size_t i = 0; i < from->need_count && *met; i++) {
        const tagged_span *need = &from->needs[i];
        plan_bytes_tag tag = need->tag, found;
        if (!rename_identity(r, from, &tag.identity)) return false;
        *met =
            tag.identity && plan_bytes_differ(&r->bytes, need->first, need->last, tag, &found) == need->last;
    }
    return replay_spend(r, from->need_count);
}

static bool leave_bytes(replay *r, const summary *from) {
    for (size_t i = 0; i < from->need_count; i++) {
        plan_bytes_tag tag = from->needs[i].tag;
        if (!rename_identity(r, from, &tag.identity) ||
            !replay_note_read(r, from->needs[i].first, from->needs[i].last, tag))
            return false;
    }
    for (size_t i = 0; i < from->leave_count; i++) {
        plan_bytes_tag tag = from->leaves[i].tag;
        if (!rename_identity(r, from, &tag.identity)) return false;
        if (!plan_bytes_write(&r->bytes, from->leaves[i].first, from->leaves[i].last, tag))
            return replay_fail_memory(r);
    }
    for (size_t i = 0; i < from->written_count; i++)
        if (!replay_note_written(r, from->written[i].first, from->written[i].last)) return false;
    return replay_spend(r, from->leave_count);
}

static bool leave_tensor(replay *r, const summary *from, uint32_t id, tensor_state state) {
    if (state.made) {
        if (!rename_content(r, from, &state.is)) return false;
        replay_define(r, id, state.is);
        if (state.phases.count) {
            phase *items = BASE_ARRAY(&r->arena, phase, (size_t)state.phases.count);
            if (!items) return replay_fail_memory(r);
            for (uint64_t i = 0; i < state.phases.count; i++) {
                items[i] = state.phases.items[i];
                if (!rename_content(r, from, &items[i].is)) return false;
            }
            r->phases[id] = (phase_list){items, state.phases.count, (size_t)state.phases.count};
        }
    }
    r->where[id] = state.where;
    r->spans[id] = state.at;
    r->through[id] = state.through;
    return replay_spend(r, 1 + state.phases.count);
}

/* The names that the summary knows stand for those of the key made last. */
static bool take_names(replay *r, const summary *from) {
    const uint64_t first = first_identity(r);
    if (!begin_names(r)) return false;
    for (size_t i = 0; i < from->name_count; i++)
        r->names[from->names[i] - first] = (replay_name){r->name_time, r->used[i]};
    return true;
}

static bool apply(replay *r, const replay_scope *scope, const summary *from) {
    if (!leave_bytes(r, from)) return false;
    for (size_t i = 0; i < scope->loops.count; i++) r->counters[scope->loops.items[i]] = from->counters[i];
    for (size_t i = 0; i < scope->placed.count; i++) replay_place(r, scope->placed.items[i]);
    for (size_t i = 0; i < scope->tensors.count; i++)
        if (!leave_tensor(r, from, scope->tensors.items[i], from->tensors[i])) return false;
    return replay_spend(r, scope->loops.count + scope->placed.count);
}

bool replay_loop(replay *r, const plan_node *node) {
    replay_scope *scope = r->scopes[node - r->of->nodes];
    if (!scope) return replay_loop_fully(r, node);
    if (!make_key(r, scope)) return false;
    const uint64_t hash = base_hash(r->key, r->key_count * sizeof *r->key, 0);
    for (const summary *known = scope->summaries; known; known = known->next) {
        bool met;
        if (!replay_spend(r, 1)) return false;
        if (known->hash != hash || known->key_count != r->key_count ||
            memcmp(known->key, r->key, r->key_count * sizeof *r->key) != 0)
            continue;
        if (!take_names(r, known) || !are_needs_met(r, known, &met)) return false;
        if (met) return apply(r, scope, known);
    }
    return summarise(r, node, scope, hash);
}
