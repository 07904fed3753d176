/* analyse_loops.c: loops move no data: carried values change their addresses instead.
 *
 *     loop { %y = Conv(%x, %w)   yield %c, %y }      x <= y
 *
 *     y lies in buffer 0, 1, 0, 1, ...; x in iteration t lies where y was made in iteration t - 1
 *
 * This is unrolling, as an analysis: instead of copies of the body there are instances of its storages.
 * docs/LOOPS.md explains it with pictures. In short:
 *
 * Origin. What parameter p holds in iteration t is found by going back: its replacement may be another
 * parameter (one iteration earlier, and so on), until a storage of the body in which it was made is reached,
 * `depth` iterations ago; or a value from outside of the loop; or, going round a cycle of parameters, nothing
 * at all: then initial values circulate. Before iteration `depth` it holds an initial value.
 *
 * Instances. A storage R with a carried value is made anew in each iteration; instance t must stay until its
 * last reader, which is `depth` iterations later. With S steps in the body, R lives from t * S + first to t *
 * S + last, where last counts on into later iterations. R needs as many buffers as instances overlap: the
 * least period P such that instances t and t + P do not.
 *
 * In place. A node that may write over parameter p, whose content dies there, makes its result where p lies:
 * R(t) is where R'(t - depth) was. Storages joined in this way form a class, in which each has a shift; a
 * cycle with a shift of K in all makes P a divisor of K. (The first `depth` iterations read initial values
 * elsewhere and write into the buffers all the same.)
 *
 * Initial values. Where the initial value of p may be overwritten (it is in the arena, and nobody needs it
 * later), it is made in the buffer where instance -depth of the class would be, and p has no prologue (type
 * I). Otherwise it is read where it lies (type II).
 *
 * Outputs. After k iterations output i is what parameter i would be in iteration k: a view of the same table,
 * with the number of iterations as its counter. If k is known, or there is only one buffer, it is that
 * buffer. Where the output's place is decided by others (the caller, a Concat, an enclosing loop), it is
 * copied there once, when the loop is left.
 *
 * Slices. What is scanned along the outermost axis is a view base + t * stride, and so is a slice that is
 * stacked.
 *
 * Buffers of a class are storages of the graph around the loop: live while it runs, from before it for
 * initial values made there, until after it for outputs.
 *
 * Needs: choose-in-place; the schedule is final. Makes: views; carried storages in PASS_PLACE_VIEW, or joined
 * with their buffer where there is but one address. Loops go innermost first, so that an inner loop's buffers
 * are storages of the outer body.
 */
#include "passes/passes.h"
#include <string.h>

enum { NONE = UINT32_MAX, LONGEST_PERIOD = 4096 };

typedef enum origin_kind {
    ORIGIN_COPY,    /* of no certain size: handed on by the executor */
    ORIGIN_BODY,    /* made in a storage of the body */
    ORIGIN_OUTSIDE, /* a value from outside of the loop */
    ORIGIN_STACK,   /* its slice of a stacked output or scanned input */
    ORIGIN_CYCLE    /* initial values go round */
} origin_kind;

/* One carried parameter. */
typedef struct carried {
    ir_value *parameter, *initial, *replacement, *output; /* output NULL: not wanted */
    uint32_t next;                                        /* the parameter that replaces it, or NONE */
    origin_kind kind;
    uint32_t depth;       /* iterations back to the origin; of a cycle: parameters before it is entered */
    uint32_t cycle;       /* length of the cycle */
    pass_location origin; /* BODY: in the storage of the body; OUTSIDE: where the value lies */
    int64_t stride;       /* STACK: origin is where slice 0 is made, each further one lies so many bytes on */
    bool taken_over;      /* its initial value is made in a buffer of the class */
} carried;

/* A storage of the body that holds a carried value. */
typedef struct member {
    uint32_t storage;
    int64_t first, last; /* half steps, last inclusive and counting on into later iterations: see `half` */
    uint32_t class;      /* union-find: the parent member, itself for the representative */
    int64_t shift;       /* buffer number of instance t: t + shift, relative to the representative */
    int64_t modulus;     /* of the representative: the period must divide it; 0: free */
    uint32_t period;     /* of the representative */
    pass_storage_id *buffers; /* of the representative */
    ir_node *in_place;        /* the node that makes it over a parameter's bytes */
    uint32_t over;            /* that parameter's member */
    int64_t over_depth;
} member;

typedef struct analysis {
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
    carried *carried;
    member *members;
    uint32_t member_count;
    uint32_t *member_of; /* by storage: its member, or NONE */
    bool out_of_memory;
} analysis;

/* ---- questions ----------------------------------------------------------------------------------------- */

static bool same_location(pass_location a, pass_location b) {
    return a.storage.index == b.storage.index && a.offset == b.offset;
}

static bool is_static(const ir_value *value) {
    size_t bytes;
    return op_type_bytes(&value->type, &bytes);
}

static size_t bytes_of(const ir_value *value) {
    size_t bytes = 0;
    (void)op_type_bytes(&value->type, &bytes);
    return bytes;
}

/* The step of the body in which a use takes place; its length for a result of the body itself. */
static int64_t use_step(const analysis *a, const ir_use *use) {
    if (use->node) return pass_step_in(a->body, use->node, a->numbers);
    return use->graph == a->body ? a->steps : pass_step_in(a->body, use->graph->owner, a->numbers);
}

/* The first and last step of the body that touches a storage within one iteration; being a result does not
 * count. */
static void touched_steps(const analysis *a, pass_storage_id id, int64_t *first, int64_t *last) {
    *first = a->steps;
    *last = -1;
    for (ir_value_id v = pass_memory_storage(a->memory, id)->values; v.index;
         v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        if (!value || !ir_graph_encloses(a->body, value->graph)) continue;
        int64_t made = value->node               ? pass_step_in(a->body, value->node, a->numbers)
                       : value->graph == a->body ? 0
                                                 : pass_step_in(a->body, value->graph->owner, a->numbers);
        if (made < *first) *first = made;
        if (made > *last) *last = made;
        for (const ir_use *use = value->uses; use; use = use->next) {
            int64_t step = use_step(a, use);
            if (step < a->steps && step > *last) *last = step;
        }
    }
}

/* ---- origins ------------------------------------------------------------------------------------------- */

static void find_next(analysis *a) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        carried *c = &a->carried[i];
        pass_location at = pass_memory_location(a->memory, c->replacement);
        c->next = NONE;
        for (uint32_t k = 0; k < a->carried_count && c->next == NONE && c->kind != ORIGIN_COPY; k++) {
            const ir_value *parameter = a->carried[k].parameter;
            if (a->carried[k].kind != ORIGIN_COPY &&
                same_location(at, pass_memory_location(a->memory, parameter)) &&
                bytes_of(parameter) == bytes_of(c->replacement)) {
                c->next = k;
            }
        }
    }
}

static void find_origin(analysis *a, uint32_t index) {
    carried *c = &a->carried[index];
    uint32_t at = index, hops = 0;
    while (a->carried[at].next != NONE && hops <= a->carried_count) {
        at = a->carried[at].next;
        hops++;
    }
    if (hops > a->carried_count) {
        /* Round and round: how long is the cycle, and how far is it? */
        uint32_t start = at, length = 1;
        for (uint32_t k = a->carried[at].next; k != start; k = a->carried[k].next) length++;
        uint32_t ahead = index, behind = index;
        for (uint32_t k = 0; k < length; k++) ahead = a->carried[ahead].next;
        for (c->depth = 0; ahead != behind; c->depth++) {
            ahead = a->carried[ahead].next;
            behind = a->carried[behind].next;
        }
        c->kind = ORIGIN_CYCLE;
        c->cycle = length;
        return;
    }
    c->depth = hops + 1;
    c->origin = pass_memory_location(a->memory, a->carried[at].replacement);
    const pass_storage *storage = pass_memory_storage(a->memory, c->origin.storage);
    c->kind = storage->graph == a->body && storage->place == PASS_PLACE_ARENA ? ORIGIN_BODY : ORIGIN_OUTSIDE;
}

static int64_t list_entry(const ir_node *node, const char *name, uint32_t index) {
    size_t count;
    const int64_t *list = op_attribute_integers(&node->attributes, name, &count);
    return index < count ? list[index] : 0;
}

/* Slice 0 of a stacked output, and the way to the next; false where slices cannot be made in their place:
 * another axis, an unknown number of them, or a slice that is no storage of the body by itself. */
static bool stack_of(const analysis *a, uint32_t index, pass_location *base, int64_t *stride) {
    const ir_value *whole = a->loop->outputs[a->carried_count + index];
    const ir_value *slice = a->body->results[1 + a->carried_count + index]->value;
    if (!whole || !is_static(slice) || list_entry(a->loop, "ouro.scan_output_axes", index) != 0) return false;
    if (!is_static(whole) &&
        pass_memory_storage(a->memory, pass_memory_location(a->memory, whole).storage)->place !=
            PASS_PLACE_ARENA)
        return false; /* it has no room either */
    pass_location at = pass_memory_location(a->memory, slice);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    int64_t bytes = (int64_t)bytes_of(slice),
            count = is_static(whole) ? whole->type.shape.dims[0] : INT64_MAX;
    bool backwards = list_entry(a->loop, "ouro.scan_output_directions", index) == 1;
    if (storage->place != PASS_PLACE_ARENA || storage->graph != a->body || at.offset ||
        storage->bytes != (size_t)bytes || slice->kind != IR_RESULT_OF_NODE ||
        whole->type.layout != OP_LAYOUT_PLAIN || count <= 0 || bytes == 0 ||
        (backwards && !is_static(whole))) {
        return false;
    }
    *base = pass_memory_location(a->memory, whole);
    if (pass_memory_storage(a->memory, base->storage)->place == PASS_PLACE_DYNAMIC) return false;
    if (backwards) base->offset += (size_t)(bytes * (count - 1));
    *stride = backwards ? -bytes : bytes;
    return true;
}

/* Where slice 0 of scanned input `index` lies, and the way to the next; false where slices are copied: along
 * another axis, or of a tensor whose size is found at run time. */
static bool slice_of(const analysis *a, uint32_t index, pass_location *base, int64_t *stride) {
    const ir_value *whole = ir_input(a->loop, 2 + a->carried_count + index),
                   *slice = a->body->parameters[2 + a->carried_count + index];
    if (!is_static(whole) || !is_static(slice) || list_entry(a->loop, "ouro.scan_input_axes", index) != 0)
        return false;
    int64_t count = whole->type.shape.dims[0], bytes = (int64_t)bytes_of(slice);
    pass_location at = pass_memory_location(a->memory, slice);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    if (storage->place != PASS_PLACE_ARENA || storage->graph != a->body || at.offset || count <= 0 ||
        whole->type.layout != OP_LAYOUT_PLAIN || bytes == 0) {
        return false;
    }
    bool backwards = list_entry(a->loop, "ouro.scan_input_directions", index) == 1;
    *base = pass_memory_location(a->memory, whole);
    if (pass_memory_storage(a->memory, base->storage)->place == PASS_PLACE_DYNAMIC) return false;
    if (backwards) base->offset += (size_t)(bytes * (count - 1));
    *stride = backwards ? -bytes : bytes;
    return true;
}

/* Parameters that hold what storage `id` held look for it among the slices. */
static void look_among_slices(analysis *a, pass_storage_id id, pass_location base, int64_t stride) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        carried *c = &a->carried[i];
        if (c->kind != ORIGIN_BODY || c->origin.storage.index != id.index) continue;
        c->kind = ORIGIN_STACK;
        c->origin = (pass_location){base.storage, base.offset + c->origin.offset};
        c->stride = stride;
    }
}

/* What is scanned or stacked has a place of its own in every iteration; parameters that hold it look there. */
static void find_stacks(analysis *a) {
    pass_location base;
    int64_t stride;
    for (uint32_t k = 0; k < a->scan_inputs; k++) {
        const ir_value *slice = a->body->parameters[2 + a->carried_count + k];
        if (slice_of(a, k, &base, &stride))
            look_among_slices(a, pass_memory_location(a->memory, slice).storage, base, stride);
    }
    for (uint32_t k = 0; k < a->scan_outputs; k++) {
        const ir_value *slice = a->body->results[1 + a->carried_count + k]->value;
        if (stack_of(a, k, &base, &stride))
            look_among_slices(a, pass_memory_location(a->memory, slice).storage, base, stride);
    }
}

/* ---- members and their lives --------------------------------------------------------------------------- */

static bool add_member(analysis *a, pass_storage_id id) {
    if (a->member_of[id.index] != NONE) return true;
    member *m = &a->members[a->member_count];
    *m = (member){.storage = id.index, .class = a->member_count, .over = NONE};
    touched_steps(a, id, &m->first, &m->last);
    m->first *= 2;
    m->last *= 2;
    a->member_of[id.index] = a->member_count++;
    return true;
}

/* Readers in later iterations: through every parameter that holds what was made here. */
static void extend_lives(analysis *a) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        const carried *c = &a->carried[i];
        if (c->kind != ORIGIN_BODY) continue;
        member *m = &a->members[a->member_of[c->origin.storage.index]];
        int64_t first, last, base = (int64_t)c->depth * a->half;
        touched_steps(a, pass_memory_location(a->memory, c->parameter).storage, &first, &last);
        /* A parameter touches step 0 by being there; only readers count. */
        bool read = false;
        for (ir_value_id v =
                 pass_memory_storage(a->memory, pass_memory_location(a->memory, c->parameter).storage)
                     ->values;
             v.index; v = a->memory->siblings[v.index]) {
            const ir_value *value = a->module->values[v.index];
            for (const ir_use *use = value ? value->uses : NULL; use; use = use->next)
                read |= use_step(a, use) < a->steps;
        }
        /* At the boundary it must be there, read or not: it is handed on, or out. */
        if (m->last < base - 1) m->last = base - 1;
        if (read && base + 2 * last > m->last) m->last = base + 2 * last;
    }
}

/* ---- classes: storages that share buffers in place ----------------------------------------------------- */

static uint32_t find_class(analysis *a, uint32_t index, int64_t *shift) {
    *shift = 0;
    while (a->members[index].class != index) {
        *shift += a->members[index].shift;
        index = a->members[index].class;
    }
    return index;
}

static int64_t gcd(int64_t a, int64_t b) {
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Instance t of x and instance t + distance of y are the same bytes one after the other, in place. */
static bool handed_on(const analysis *a, uint32_t x, uint32_t y, int64_t distance) {
    const member *m = &a->members[y];
    return m->in_place && m->over == x && m->over_depth == distance;
}

/* No two instances that lie in one buffer of the class are live together, with this period. */
static bool period_fits(analysis *a, uint32_t class, int64_t period) {
    for (uint32_t x = 0; x < a->member_count; x++) {
        int64_t shift_x, shift_y;
        if (find_class(a, x, &shift_x) != class) continue;
        for (uint32_t y = 0; y < a->member_count; y++) {
            if (find_class(a, y, &shift_y) != class) continue;
            const member *mx = &a->members[x], *my = &a->members[y];
            int64_t reach = (mx->last - mx->first) / a->half + 2;
            /* Instance 0 of x against later or equal instances t of y in the same buffer. */
            for (int64_t t = -1; t <= reach; t++) {
                if (x == y && t == 0) continue;
                if ((t + shift_y - shift_x) % period != 0) continue;
                int64_t begin = t * a->half + my->first, end = t * a->half + my->last;
                if (begin > mx->last || end < mx->first) continue;
                if (begin == mx->last && handed_on(a, x, y, t)) continue;
                if (end == mx->first && handed_on(a, y, x, -t)) continue;
                return false;
            }
        }
    }
    return true;
}

/* The least period that fits, or 0. */
static int64_t find_period(analysis *a, uint32_t class) {
    int64_t modulus = a->members[class].modulus, limit = modulus ? modulus : LONGEST_PERIOD;
    for (int64_t period = 1; period <= limit; period++) {
        if (modulus && modulus % period) continue;
        if (period_fits(a, class, period)) return period;
    }
    return 0;
}

/* Joins the class of `of` to that of `over`: instance t of the one lies where instance t - depth of the other
 * did. */
static void join_classes(analysis *a, uint32_t of, uint32_t over, int64_t depth) {
    int64_t shift_of, shift_over;
    uint32_t from = find_class(a, of, &shift_of), to = find_class(a, over, &shift_over);
    int64_t shift = shift_over - depth - shift_of; /* of the one representative relative to the other */
    if (from == to) {
        a->members[to].modulus = gcd(a->members[to].modulus, shift);
        return;
    }
    a->members[to].modulus = gcd(a->members[to].modulus, a->members[from].modulus);
    a->members[from].class = to;
    a->members[from].shift = shift;
}

/* The node reads the parameter's bytes exactly, as this input, and nothing else reads them in its step. */
static bool reads_only(const analysis *a, const ir_node *node, uint32_t input, pass_storage_id storage) {
    for (ir_value_id v = pass_memory_storage(a->memory, storage)->values; v.index;
         v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        for (const ir_use *use = value ? value->uses : NULL; use; use = use->next) {
            if (use_step(a, use) != a->numbers[node->id.index]) continue;
            if (use->node != node || value != ir_input(node, input)) return false;
        }
    }
    return true;
}

/* Another parameter holds the same instance, and the node reads it. */
static bool reads_twin(const analysis *a, const ir_node *node, uint32_t index) {
    const carried *c = &a->carried[index];
    for (uint32_t k = 0; k < a->carried_count; k++) {
        const carried *other = &a->carried[k];
        if (k == index || other->kind != ORIGIN_BODY || other->depth != c->depth ||
            other->origin.storage.index != c->origin.storage.index) {
            continue;
        }
        pass_storage_id storage = pass_memory_location(a->memory, other->parameter).storage;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const ir_value *input = ir_input(node, i);
            if (input && pass_memory_location(a->memory, input).storage.index == storage.index) return true;
        }
    }
    return false;
}

/* Tries to make the storage of `m` over input `input` of the node that begins it. */
static bool try_in_place(analysis *a, uint32_t of, const ir_node *node, uint32_t input) {
    member *m = &a->members[of];
    const ir_value *read = ir_input(node, input), *made = node->outputs[0];
    if (!read || !made || read->graph != a->body) return false;
    pass_location from = pass_memory_location(a->memory, read), to = pass_memory_location(a->memory, made);
    if (to.storage.index != m->storage || to.offset || from.offset) return false;
    size_t bytes = bytes_of(made);
    if (bytes != pass_memory_storage(a->memory, to.storage)->bytes || bytes != bytes_of(read)) return false;
    if (!op_shape_equal(&read->type.shape, &made->type.shape) || read->type.layout != made->type.layout ||
        op_dtype_bytes(read->type.dtype) != op_dtype_bytes(made->type.dtype)) {
        return false;
    }
    for (uint32_t i = 0; i < a->carried_count; i++) {
        const carried *c = &a->carried[i];
        if (c->kind != ORIGIN_BODY || !same_location(from, pass_memory_location(a->memory, c->parameter)))
            continue;
        uint32_t over = a->member_of[c->origin.storage.index];
        const member *old = &a->members[over];
        if (c->origin.offset || pass_memory_storage(a->memory, c->origin.storage)->bytes != bytes)
            return false;
        if (old->last != (int64_t)c->depth * a->half + m->first ||
            !reads_only(a, node, input, from.storage) || reads_twin(a, node, i)) {
            return false;
        }
        /* Taken on trial: kept only if a period fits. */
        member *saved = BASE_ARRAY(a->arena, member, a->member_count);
        if (!saved) {
            a->out_of_memory = true;
            return false;
        }
        memcpy(saved, a->members, a->member_count * sizeof *saved);
        m->in_place = (ir_node *)node;
        m->over = over;
        m->over_depth = c->depth;
        join_classes(a, of, over, c->depth);
        int64_t shift, period = find_period(a, find_class(a, of, &shift)),
                       limit = pass_unroll_limit(a->context->options);
        if (period && period <= limit) return true;
        memcpy(a->members, saved, a->member_count * sizeof *saved);
        return false;
    }
    return false;
}

static void choose_in_place(analysis *a) {
    for (const ir_node *node = a->body->first; node; node = node->next) {
        unsigned allowed = op_row_of(node->code)->in_place;
        if (!allowed || node->output_count == 0 || !node->outputs[0]) continue;
        if (a->memory->executions[node->id.index] != PASS_RUN) continue;
        uint32_t of = a->member_of[pass_memory_location(a->memory, node->outputs[0]).storage.index];
        if (of == NONE || a->members[of].in_place || a->members[of].first != 2 * a->numbers[node->id.index])
            continue;
        for (uint32_t i = node->input_count; i-- > 0;) {
            if (i < 32 && (allowed & OP_IN_PLACE(i)) && try_in_place(a, of, node, i)) break;
        }
    }
}

/* ---- buffers ------------------------------------------------------------------------------------------- */

static int64_t modulo(int64_t a, int64_t b) {
    return (a % b + b) % b;
}

static bool make_buffers(analysis *a) {
    for (uint32_t c = 0; c < a->member_count; c++) {
        member *class = &a->members[c];
        size_t bytes = 0;
        ir_value *value = NULL;
        int64_t shift;
        if (class->class != c) continue;
        for (uint32_t k = 0; k < a->member_count; k++) {
            if (find_class(a, k, &shift) != c) continue;
            const pass_storage *storage = &a->memory->storages[a->members[k].storage];
            if (storage->bytes > bytes) bytes = storage->bytes;
            if (!value) value = storage->value;
        }
        class->period = (uint32_t)find_period(a, c);
        class->buffers = BASE_ARRAY(a->arena, pass_storage_id, class->period);
        if (!class->buffers) return false;
        for (uint32_t i = 0; i < class->period; i++) {
            pass_storage buffer = {.place = PASS_PLACE_ARENA,
                                   .graph = a->loop->graph,
                                   .value = value,
                                   .bytes = bytes,
                                   .carried_by = a->loop};
            class->buffers[i] = pass_memory_add(a->memory, &buffer);
            if (!class->buffers[i].index) return false;
        }
    }
    return true;
}

/* The buffer in which instance t of the member lies. */
static pass_storage_id buffer_of(analysis *a, uint32_t index, int64_t t) {
    int64_t shift;
    const member *class = &a->members[find_class(a, index, &shift)];
    return class->buffers[modulo(t + shift, class->period)];
}

/* Nobody needs the bytes of `value`, defined around the loop, once the loop has begun; and they can be
 * anywhere. */
static bool may_take_over(const analysis *a, const ir_value *value) {
    pass_location at = pass_memory_location(a->memory, value);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    const ir_graph *graph = a->loop->graph;
    int64_t now = a->numbers[a->loop->id.index];
    if (at.offset || storage->place != PASS_PLACE_ARENA || storage->graph != graph ||
        storage->bytes != bytes_of(value))
        return false;
    if (storage->buffer_of || storage->scratch_of) return false;
    for (ir_value_id v = storage->values; v.index; v = a->memory->siblings[v.index]) {
        const ir_value *other = a->module->values[v.index];
        if (!other) continue;
        if (other->graph != graph || other->kind != IR_RESULT_OF_NODE ||
            a->numbers[other->node->id.index] >= now)
            return false;
        uint32_t here = 0;
        for (const ir_use *use = other->uses; use; use = use->next) {
            if (!use->node) return false; /* a result */
            if (use->node == a->loop) {
                if (other != value || ++here > 1) return false; /* twice an initial value */
            } else if (pass_step_in(graph, use->node, a->numbers) >= now) {
                return false; /* read later, or captured by the body */
            }
        }
    }
    return true;
}

static void take_over_initials(analysis *a) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        carried *c = &a->carried[i];
        if (c->kind != ORIGIN_BODY || !may_take_over(a, c->initial)) continue;
        uint32_t index = a->member_of[c->origin.storage.index];
        /* Two parameters of one depth whose origins share bytes: only one initial value can be the instance
         * before the first. */
        bool taken = false;
        for (uint32_t k = 0; k < i; k++) {
            const carried *other = &a->carried[k];
            taken |= other->taken_over && other->depth == c->depth &&
                     other->origin.storage.index == c->origin.storage.index &&
                     other->origin.offset < c->origin.offset + bytes_of(c->initial) &&
                     c->origin.offset < other->origin.offset + bytes_of(other->initial);
        }
        pass_storage_id buffer = buffer_of(a, index, -(int64_t)c->depth);
        pass_location at = pass_memory_location(a->memory, c->initial);
        if (taken || at.storage.index == buffer.index ||
            c->origin.offset + bytes_of(c->initial) > pass_memory_storage(a->memory, buffer)->bytes) {
            continue;
        }
        pass_memory_join(a->memory, buffer, at.storage, c->origin.offset);
        c->taken_over = true;
    }
}

/* ---- views --------------------------------------------------------------------------------------------- */

static uint32_t add_view(analysis *a, const pass_view *view) {
    pass_memory *memory = a->memory;
    size_t needed = memory->view_count ? memory->view_count + 1 : 2;
    pass_view *grown =
        base_arena_grow(memory->arena, memory->views, &memory->view_capacity, needed, sizeof *grown);
    if (memory->view_capacity < needed || (!grown && memory->view_capacity == 0)) return 0;
    if (grown) memory->views = grown;
    if (!memory->view_count) memory->view_count = 1;
    memory->views[memory->view_count] = *view;
    return (uint32_t)memory->view_count++;
}

/* Where parameter `index` lies in iteration t. */
static pass_location parameter_at(analysis *a, uint32_t index, uint64_t t) {
    const carried *c = &a->carried[index];
    if (c->kind == ORIGIN_CYCLE || t < c->depth) {
        for (; t > 0; t--) index = a->carried[index].next;
        return pass_memory_location(a->memory, a->carried[index].initial);
    }
    if (c->kind == ORIGIN_OUTSIDE) return pass_memory_resolve(a->memory, c->origin);
    if (c->kind == ORIGIN_STACK) {
        pass_location slice = c->origin;
        slice.offset += (size_t)(c->stride * (int64_t)(t - c->depth));
        return pass_memory_resolve(a->memory, slice);
    }
    pass_storage_id buffer = buffer_of(a, a->member_of[c->origin.storage.index], (int64_t)(t - c->depth));
    return pass_memory_resolve(a->memory, (pass_location){buffer, c->origin.offset});
}

/* The table of a parameter, as short as it can be: a prologue that only repeats what the cycle says is
 * dropped. */
static bool table_of(analysis *a, uint32_t index, pass_view *view) {
    const carried *c = &a->carried[index];
    int64_t shift;
    uint32_t prologue = c->depth, period = 1;
    if (c->kind == ORIGIN_CYCLE) period = c->cycle;
    else if (c->kind == ORIGIN_BODY)
        period = a->members[find_class(a, a->member_of[c->origin.storage.index], &shift)].period;
    while (prologue > 0 && c->kind != ORIGIN_STACK &&
           same_location(parameter_at(a, index, prologue - 1), parameter_at(a, index, prologue - 1 + period)))
        prologue--;
    *view = (pass_view){.loop = a->loop, .prologue = prologue, .period = period, .stride = c->stride};
    view->entries = BASE_ARRAY(a->memory->arena, pass_location, (size_t)prologue + period);
    for (uint32_t t = 0; view->entries && t < prologue + period; t++)
        view->entries[t] = parameter_at(a, index, t);
    return view->entries != NULL;
}

/* The storage lies where the view says; where that is one place, it becomes part of it. */
static bool put_storage(analysis *a, pass_storage_id id, const pass_view *view) {
    if (view->prologue == 0 && view->period == 1 && view->stride == 0) {
        const pass_storage *target = pass_memory_storage(a->memory, view->entries[0].storage);
        if (view->entries[0].storage.index != id.index && target->place != PASS_PLACE_DYNAMIC) {
            pass_memory_join(a->memory, view->entries[0].storage, id, view->entries[0].offset);
            return true;
        }
    }
    uint32_t index = add_view(a, view);
    pass_storage *storage = pass_memory_storage(a->memory, id);
    storage->place = PASS_PLACE_VIEW;
    storage->index = index;
    return index != 0;
}

static bool place_members(analysis *a) {
    for (uint32_t k = 0; k < a->member_count; k++) {
        int64_t shift;
        uint32_t period = a->members[find_class(a, k, &shift)].period;
        pass_view view = {.loop = a->loop, .period = period};
        view.entries = BASE_ARRAY(a->memory->arena, pass_location, period);
        if (!view.entries) return false;
        for (uint32_t t = 0; t < period; t++) view.entries[t] = (pass_location){buffer_of(a, k, t), 0};
        if (!put_storage(a, (pass_storage_id){a->members[k].storage}, &view)) return false;
    }
    return true;
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

int64_t pass_known_trips(const ir_node *loop) {
    const ir_value *trips = ir_input(loop, 0), *condition = ir_input(loop, 1),
                   *again = loop->graphs[0]->results[0]->value;
    const bool goes_on =
        again == loop->graphs[0]->parameters[1] || (again->constant && again->constant->tensor.data &&
                                                    *(const unsigned char *)again->constant->tensor.data);
    const bool begins = !condition || (condition->constant && condition->constant->tensor.data &&
                                       *(const unsigned char *)condition->constant->tensor.data);
    const uint32_t scanned = (uint32_t)op_attribute_integer(&loop->attributes, "ouro.scan_inputs", 0);
    int64_t count = INT64_MAX;
    if (!goes_on || !begins) return -1;
    if (trips) {
        op_call call = {.input_count = 1};
        if (!trips->constant) return -1;
        call.inputs = &trips->constant->tensor;
        if (!op_input_integer(&call, 0, 0, &count)) return -1;
    }
    for (uint32_t i = 0; i < scanned; i++) {
        const ir_value *whole = ir_input(loop, loop->input_count - scanned + i);
        const op_shape *shape = &whole->type.shape;
        int32_t axis;
        /* An extent is certain where the plan holds the tensor to it, or the caller who binds it is. */
        if (!is_static(whole) && !(whole->kind == IR_PARAMETER && !whole->graph->owner)) return -1;
        if (!op_axis(list_entry(loop, "ouro.scan_input_axes", i), shape->rank, &axis) ||
            shape->dims[axis] < 0)
            return -1;
        if (shape->dims[axis] < count) count = shape->dims[axis];
    }
    return count == INT64_MAX ? -1 : count < 0 ? 0 : count;
}

/* The output can be resolved when the loop is left: nothing else shares its storage, and only operators read
 * it, not control nodes or the graph's owner. */
static bool is_plainly_read(const analysis *a, const ir_value *output) {
    const pass_storage *storage =
        pass_memory_storage(a->memory, pass_memory_location(a->memory, output).storage);
    if (storage->place != PASS_PLACE_ARENA || storage->values.index != output->id.index ||
        a->memory->siblings[output->id.index].index) {
        return false;
    }
    for (const ir_use *use = output->uses; use; use = use->next) {
        if (!use->node || (op_row_of(use->node->code)->flags & OP_FLAG_GRAPHS)) return false;
        if (a->memory->executions[use->node->id.index] != PASS_RUN) return false;
    }
    return true;
}

/* Nothing is written over the places of this view behind the loop, as long as its readers keep them live:
 * constants, the caller's inputs, and storages that hold only what is made before the loop or by it. (What
 * runs in place has been decided already.) */
static bool is_left_alone(const analysis *a, const pass_view *view, size_t bytes) {
    for (uint32_t i = 0; i < view->prologue + view->period; i++) {
        pass_location at = pass_memory_resolve(a->memory, view->entries[i]);
        const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
        if (storage->place == PASS_PLACE_CONSTANT || storage->place == PASS_PLACE_INPUT) continue;
        bool planned = storage->place == PASS_PLACE_ARENA || storage->place == PASS_PLACE_OUTPUT;
        if (!planned || storage->graph != a->loop->graph) return false;
        if (storage->carried_again || (storage->carried_by && storage->carried_by != a->loop))
            return false; /* another loop writes there */
        /* A part of a buffer shares its bytes with another output, which may come to have a place of its own.
         */
        if (storage->carried_by && (at.offset || storage->bytes != bytes)) return false;
        for (ir_value_id v = storage->values; v.index; v = a->memory->siblings[v.index]) {
            const ir_value *value = a->module->values[v.index];
            if (!value) continue;
            if (value->graph != a->loop->graph || !value->node) return false;
            if (a->numbers[value->node->id.index] > a->numbers[a->loop->id.index]) return false;
        }
    }
    return true;
}

/* What this storage holds: outputs of the loop, and values that are written behind it. */
static void held_behind(const analysis *a, const pass_storage *storage, bool *output, bool *written) {
    *output = false;
    /* A later loop has taken it over: these are analysed first. */
    *written = storage->carried_again || (storage->carried_by && storage->carried_by != a->loop);
    for (ir_value_id v = storage->values; v.index; v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        if (!value || !value->node) continue;
        if (value->node == a->loop) *output = true;
        else if (a->memory->executions[value->node->id.index] == PASS_RUN &&
                 ir_graph_encloses(a->loop->graph, value->graph) &&
                 pass_step_in(a->loop->graph, value->node, a->numbers) > a->numbers[a->loop->id.index])
            *written = true;
    }
}

/* The storage of an output can become bytes of this buffer: no other output is there already that something
 * written over one of the two would destroy, or that begins with another initial value. */
static bool can_share(const analysis *a, const pass_storage *buffer, const pass_storage *storage,
                      bool certain) {
    bool output, other_output, written, other_written;
    held_behind(a, buffer, &output, &written);
    held_behind(a, storage, &other_output, &other_written);
    return !output || (certain && !written && !other_written);
}

/* After so many iterations the parameter is in a buffer of the loop: it was made there, or was begun there. */
static bool is_in_buffer(const analysis *a, uint32_t index, int64_t trips) {
    if (trips >= (int64_t)a->carried[index].depth) return true;
    for (; trips > 0; trips--) index = a->carried[index].next;
    return a->carried[index].taken_over;
}

/* An initial value begins in a buffer of this parameter's class. */
static bool holds_initial(analysis *a, uint32_t index) {
    int64_t shift;
    uint32_t class = find_class(a, a->member_of[a->carried[index].origin.storage.index], &shift);
    for (uint32_t k = 0; k < a->carried_count; k++) {
        const carried *c = &a->carried[k];
        if (c->taken_over && find_class(a, a->member_of[c->origin.storage.index], &shift) == class)
            return true;
    }
    return false;
}

/* Output `index` lies where the last iteration leaves it: in one certain buffer, or where its view is then.
 * Only where its place is decided by others it is copied there once, when the loop is left. */
static bool place_output(analysis *a, uint32_t index, int64_t trips, bool views) {
    const carried *c = &a->carried[index];
    pass_view view;
    if (!c->output || !is_static(c->output) || c->kind == ORIGIN_COPY) return true;
    if (!table_of(a, index, &view)) return false;
    pass_location at = pass_memory_location(a->memory, c->output);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    if (at.offset || storage->bytes != bytes_of(c->output) || storage->graph != a->loop->graph) return true;
    bool certain = trips >= 0 && c->kind == ORIGIN_BODY && is_in_buffer(a, index, trips);
    /* One buffer: with no iteration the initial value is copied there, if it lies elsewhere, and nothing else is
     * there then. */
    bool one = view.period == 1 && c->kind == ORIGIN_BODY && trips < 0 &&
               (view.prologue == 0 || !holds_initial(a, index));
    if (views) {
        if (trips >= 0) { /* it is a slice, or an initial value, or what another output is */
            view.entries[0] = parameter_at(a, index, (uint64_t)trips);
            view.prologue = 0;
            view.period = 1;
            view.stride = 0;
        }
        bool resolved = !one && !certain && view.stride == 0 &&
                        (trips >= 0 || view.prologue + view.period > 1) && is_plainly_read(a, c->output) &&
                        is_left_alone(a, &view, bytes_of(c->output));
        return !resolved || put_storage(a, at.storage, &view);
    }
    if (!one && !certain) return true;
    pass_location last = parameter_at(a, index, one ? view.prologue : (uint64_t)trips);
    const pass_storage *target = pass_memory_storage(a->memory, last.storage);
    if (last.storage.index == at.storage.index || target->graph != a->loop->graph ||
        target->place != PASS_PLACE_ARENA || !can_share(a, target, storage, certain))
        return true;
    if (storage->place == PASS_PLACE_ARENA) {
        pass_memory_join(a->memory, last.storage, at.storage, last.offset);
    } else if (storage->place == PASS_PLACE_OUTPUT && last.offset == 0 && target->bytes == storage->bytes) {
        pass_memory_join(a->memory, at.storage, last.storage,
                         0); /* the caller's buffer is one of the loop's */
    }
    return true;
}

/* ---- slices -------------------------------------------------------------------------------------------- */

static bool place_slices(analysis *a) {
    for (uint32_t i = 0; i < a->scan_inputs + a->scan_outputs; i++) {
        bool input = i < a->scan_inputs;
        uint32_t index = input ? i : i - a->scan_inputs;
        pass_view view = {.loop = a->loop, .period = 1};
        view.entries = BASE_ARRAY(a->memory->arena, pass_location, 1);
        if (!view.entries) return false;
        if (!(input ? slice_of(a, index, &view.entries[0], &view.stride)
                    : stack_of(a, index, &view.entries[0], &view.stride)))
            continue;
        const ir_value *slice = input ? a->body->parameters[2 + a->carried_count + index]
                                      : a->body->results[1 + a->carried_count + index]->value;
        if (!put_storage(a, pass_memory_location(a->memory, slice).storage, &view)) return false;
    }
    return true;
}

bool pass_carried_is_static(const ir_node *loop, uint32_t index) {
    const ir_graph *body = loop->graphs[0];
    const ir_value *parameter = body->parameters[2 + index], *initial = ir_input(loop, 2 + index),
                   *replacement = body->results[1 + index]->value;
    return is_static(parameter) && is_static(initial) && is_static(replacement) && bytes_of(parameter) != 0 &&
           bytes_of(parameter) == bytes_of(initial) && bytes_of(parameter) == bytes_of(replacement);
}

/* ---- one loop ------------------------------------------------------------------------------------------ */

static bool read_loop(analysis *a) {
    ir_node *loop = a->loop;
    a->scan_inputs = (uint32_t)op_attribute_integer(&loop->attributes, "ouro.scan_inputs", 0);
    a->carried_count = loop->input_count - 2 - a->scan_inputs;
    a->scan_outputs = a->body->result_count - 1 - a->carried_count;
    a->carried = BASE_ARRAY(a->arena, carried, a->carried_count);
    a->members = BASE_ARRAY(a->arena, member, a->carried_count);
    a->member_of = BASE_ARRAY(a->arena, uint32_t, a->memory->storage_count);
    if (!a->carried || !a->members || !a->member_of) return false;
    memset(a->member_of, 0xff, a->memory->storage_count * sizeof *a->member_of);
    for (uint32_t i = 0; i < a->carried_count; i++) {
        carried *c = &a->carried[i];
        c->parameter = a->body->parameters[2 + i];
        c->initial = ir_input(loop, 2 + i);
        c->replacement = a->body->results[1 + i]->value;
        c->output = i < loop->output_count ? loop->outputs[i] : NULL;
    }
    return true;
}

static bool analyse_loop(analysis *a) {
    if (!read_loop(a)) return false;
    a->steps = a->body->node_count ? a->body->node_count : 1; /* slices are copied even to an empty body */
    a->half = 2 * a->steps;
    for (uint32_t i = 0; i < a->carried_count; i++)
        a->carried[i].kind = pass_carried_is_static(a->loop, i) ? ORIGIN_BODY : ORIGIN_COPY;
    find_next(a);
    for (uint32_t i = 0; i < a->carried_count; i++)
        if (a->carried[i].kind != ORIGIN_COPY) find_origin(a, i);
    find_stacks(a);
    for (uint32_t i = 0; i < a->carried_count; i++) {
        if (a->carried[i].kind == ORIGIN_BODY && !add_member(a, a->carried[i].origin.storage)) return false;
    }
    extend_lives(a);
    choose_in_place(a);
    if (a->out_of_memory || !make_buffers(a)) return false;
    take_over_initials(a);
    int64_t trips = pass_known_trips(a->loop);
    /* First those that have one place: what is written there later decides whether views can stay. */
    for (uint32_t i = 0; i < 2 * a->carried_count; i++) {
        if (!place_output(a, i % a->carried_count, trips, i >= a->carried_count)) return false;
    }
    pass_view *views = BASE_ARRAY(a->arena, pass_view, a->carried_count);
    if (!views) return false;
    for (uint32_t i = 0; i < a->carried_count; i++) {
        if (a->carried[i].kind != ORIGIN_COPY && !table_of(a, i, &views[i])) return false;
    }
    for (uint32_t i = 0; i < a->carried_count; i++) {
        pass_location at = pass_memory_location(a->memory, a->carried[i].parameter);
        if (a->carried[i].kind != ORIGIN_COPY && !put_storage(a, at.storage, &views[i])) return false;
    }
    if (!place_members(a)) return false;
    return place_slices(a);
}

base_status pass_analyse_loops(pass_context *context) {
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    int64_t *numbers = pass_number_nodes(context->module, context->scratch);
    base_arena arena;
    if (!graphs || !numbers) return base_fail_memory(context->report);
    base_arena_init(&arena, context->scratch->allocator);
    bool fine = true;
    for (size_t g = graph_count; g-- > 0 && fine;) {
        ir_graph *body = graphs[g];
        if (!body->owner || body->owner->code != OP_LOOP) continue;
        analysis a = {.context = context,
                      .module = context->module,
                      .memory = context->memory,
                      .arena = &arena,
                      .numbers = numbers,
                      .loop = body->owner,
                      .body = body};
        fine = analyse_loop(&a);
        base_arena_free(&arena);
    }
    base_arena_free(&arena);
    return fine ? BASE_OK : base_fail_memory(context->report);
}
