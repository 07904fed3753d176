/* SPDX-License-Identifier: Apache-2.0 */
/* choose_kernels.c: faster kernels, where the memory that they want is there.
 *
 * Some operators have several kernels, of which the faster ones want more scratch and larger weights (Winograd's convolution).
 * Scratch is live in one step only: where that step is not the one with the most bytes live, it costs nothing. So each
 * application may have as much as its step leaves free under the limit of the arena, whatever the others take. Weights add
 * up: the choices that save most time a byte come first, until the limit of the constants is reached. A kernel that is slower but
 * wants smaller constants is the fallback of a faster one. Nodes that read the same weights (bands of one convolution) share what they
 * are packed into, and what runs in a loop saves as much in each iteration.
 *
 * What a kernel takes is predicted, or measured (pass_options.tuning): the record of times then decides.
 *
 * The limits: pass_options.arena_limit and constant_limit. A graph inside of a loop or a branch may take what the step of
 * its node leaves.
 *
 * Where extents of images are open, kernels are asked about examples of them, of one image where their number is open. Scratch is then taken
 * when a run knows the extents: it is no part of the arena, hence limited by twice what the application reads and writes. The kernel is told
 * in how many blocks it works for each image (ouro.image_blocks), so that more images take no more scratch, or finds that itself.
 *
 * What is live at once may fit under the limit where the planner leaves gaps. So the choices are tried: where storages end above
 * the limit, the nodes of these steps get less, until the planner's arena fits.
 *
 * Needs: kernels, the order, live ranges. Breaks: nothing. Guarantees: every node that had a kernel has one, and its scratch a
 * storage of that size; pass_memory.choices lists what was chosen.
 */
#include "ir/loop.h"
#include "passes/layout/layout.h"
#include "passes/memory/memory.h"
#include "passes/memory/regions.h"
#include "passes/memory/tuning.h"
#include "runtime/kernels/table.h"
#include <stdlib.h>
#include <string.h>

enum {
    MOST_GROWTH_NUMERATOR = 5, /* of the arena, where no limit is given */
    MOST_GROWTH_DENOMINATOR = 4,
    SAVED_DENOMINATOR = 4, /* the part of what bands save of the arena that constants may add */
    GAPS_DENOMINATOR = 20, /* the part of the arena that choices may add as gaps */
    KERNELS = 2,           /* that ask of what is in the weights of an application, at most */
    TRIALS = 6,            /* of the planner, until nothing is chosen that takes memory */
    TRIAL_WORK = 200000,   /* of a planner that searches */
    /* Bytes that one application on images of dynamic dimensions may take: twice as many as it reads and writes, or up to */
    OPEN_SCRATCH = 8 << 20,
    OPEN_DENOMINATOR = 8 /* of the constants: beside these it is little */
};

/* A kernel that makes the arena larger takes at most this part of the time of one that does not. */
static const double NOTABLY = 0.9;
/* A kernel that makes constants larger, at most this part. */
static const double WORTH = 0.965;

/* One kernel for one application. */
typedef struct candidate {
    ir_node *node;
    const rt_kernel *kernel;
    rt_cost cost;
    double seconds_before;
    double runs;    /* of the node in one run of the module */
    bool measured;  /* both times are */
    bool open;      /* extents are not known, and scratch is no part of the arena */
    size_t scratch; /* rounded up */
    size_t more;    /* bytes of constants that this adds */
    /* Over the fallback, or over the kernel that the node has: */
    double gain; /* seconds */
    size_t step; /* bytes of constants */
} candidate;

/* Weights that were packed for a kernel, for all nodes that read the same ones: bands of one convolution. */
typedef struct packed_weights {
    size_t of; /* the id of the value that held them before */
    const rt_kernel *kernel;
    op_layout layout; /* of the image */
    ir_value *value;  /* NULL: chosen, not packed yet */
} packed_weights;

/* Whether the weights that a value has can be packed for a kernel. */
typedef struct suited_weights {
    size_t of; /* its id */
    const rt_kernel *kernel;
    bool suited;
} suited_weights;

typedef struct chooser {
    pass_context *context;
    base_arena arena;  /* of one node */
    size_t *free;      /* by node id: bytes that its step leaves under the limit, its own scratch included */
    size_t growth;     /* of the arena, up to the limit */
    size_t wanted;     /* of that, by the application that makes it largest */
    size_t grown;      /* of that, what is taken anyhow: free for all others */
    size_t limit;      /* of the arena */
    size_t least;      /* of the arena: bytes that are live at the peak without choices */
    size_t without;    /* what the planner's arena takes without choices; 0: not known yet */
    size_t constants;  /* bytes, before anything is chosen */
    ir_graph **graphs; /* outermost first */
    size_t graph_count;
    candidate *list;
    size_t count;
    const candidate **chosen; /* by node id; NULL: the node keeps its kernel */
    packed_weights *packed;
    size_t packed_count;
    suited_weights *suited;
    size_t suited_count;
} chooser;

/* ---- limits -------------------------------------------------------------------------------------------- */

static size_t default_limit(size_t least) {
    size_t larger;
    if (!base_size_multiply(least / MOST_GROWTH_DENOMINATOR, MOST_GROWTH_NUMERATOR, &larger)) return least;
    return larger < least ? least : larger;
}

/* What make-bands or the user says of the arena; 0: nothing, or only how much more time bands may take, of which faster kernels are a
 * part. */
static size_t asked_limit(const pass_context *context) {
    const pass_options *options = context->options;
    if (context->kernel_arena) return context->kernel_arena;
    return options->arena_limit == PASS_ARENA_LEAST && options->time_limit > 0 ? 0 : options->arena_limit;
}

static size_t constant_bytes(const ir_module *module) {
    size_t sum = 0;
    for (size_t i = 1; i < module->value_count; i++) {
        const ir_value *value = module->values[i];
        if (value && value->kind == IR_CONSTANT && value->uses) sum += value->constant->tensor.bytes;
    }
    return sum;
}

/* By node id: the bytes that are free in the node's step under `limit`, in the arena of the whole module. */
static bool find_free(pass_context *context, ir_graph *const *graphs, size_t graph_count, size_t limit,
                      size_t *free) {
    const pass_memory *memory = context->memory;
    size_t *limits = BASE_ARRAY(context->scratch, size_t, memory->graph_count);
    size_t **live = pass_region_live(memory, graphs, graph_count, context->scratch);
    if (!limits || !live) return false;
    limits[context->module->main->id.index] = limit;
    for (size_t g = 0; g < graph_count; g++) {
        const ir_graph *graph = graphs[g];
        const size_t of_graph = limits[graph->id.index];
        for (size_t step = 0; step < (size_t)graph->node_count; step++) {
            const ir_node *node = memory->order.nodes[graph->id.index][step];
            const size_t taken = live[graph->id.index][step];
            const size_t left = taken < of_graph ? of_graph - taken : 0;
            const pass_storage_id scratch = memory->scratch[node->id.index];
            free[node->id.index] = left + (scratch.index ? memory->storages[scratch.index].bytes : 0);
            for (uint32_t k = 0; k < node->graph_count; k++) limits[node->graphs[k]->id.index] = left;
        }
    }
    return true;
}

/* pass_context.live, where somebody asked for it. */
static bool note_live(const pass_context *context, ir_graph *const *graphs, size_t graph_count,
                      const size_t *peaks) {
    const pass_memory *memory = context->memory;
    const ir_graph *graph = context->module->main;
    if (!context->live) return true;
    size_t **live = pass_region_live(memory, graphs, graph_count, context->scratch);
    for (size_t step = 0; live && step < (size_t)graph->node_count; step++) {
        const ir_node *node = memory->order.nodes[graph->id.index][step];
        size_t inner = 0;
        for (uint32_t k = 0; k < node->graph_count; k++)
            if (peaks[node->graphs[k]->id.index] > inner) inner = peaks[node->graphs[k]->id.index];
        if (node->id.index < context->live_count)
            context->live[node->id.index] = live[graph->id.index][step] + inner;
    }
    return live != NULL;
}

/* ---- candidates ---------------------------------------------------------------------------------------- */

/* By a constant matrix, packed or not. */
static bool is_product(const ir_node *node) {
    const ir_value *weights = node->input_count > 1 ? ir_input(node, 1) : NULL;
    return (node->code == OP_MATMUL || node->code == OP_GEMM) && weights && weights->constant &&
           weights->type.shape.rank == 2;
}

/* Gives a product of constant weights a number of rows: one image, and so many of all else whose number is open; as many where the weights of
 * the network come from afar, as fewer take no longer then. */
static bool settle_rows(chooser *c, op_call *call) {
    enum { SOME_ROWS = 32, NEAR_BYTES = 4 << 20 };
    op_tensor *inputs = BASE_ARRAY(&c->arena, op_tensor, call->input_count),
              *output = BASE_NEW(&c->arena, op_tensor);
    if (!inputs || !output) return false;
    memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
    *output = call->outputs[0];
    op_shape *x = &inputs[0].type.shape, *y = &output->type.shape;
    for (int32_t i = 0; i < x->rank - 1; i++)
        if (x->dims[i] < 0) x->dims[i] = i > 0 || c->constants > NEAR_BYTES ? SOME_ROWS : 1;
    call->inputs = inputs;
    call->outputs = output;
    if (x->rank < 2 || !op_shape_known(x) || y->rank != x->rank || y->dims[y->rank - 1] < 0) return false;
    memcpy(y->dims, x->dims, (size_t)(x->rank - 1) * sizeof *x->dims);
    return true;
}

/* Gives dynamic dimensions of images numbers. False: they cannot be known by numbers, or change too often: those that have a name are the same
 * in all iterations of a loop. */
static bool settle_extents(chooser *c, const ir_node *node, op_call *call, bool *open) {
    *open = !pass_shapes_known(node);
    if (!*open) return true;
    if (op_schema_of(node->code)->flags & OP_FLAG_DYNAMIC) return false;
    for (uint32_t i = 0; i < call->input_count && node->graph != c->context->module->main; i++)
        if (call->inputs[i].type.dtype != OP_NONE && !op_shape_named(&call->inputs[i].type.shape))
            return false;
    if (is_product(node)) return settle_rows(c, call);
    return call->inputs[0].type.shape.rank > 2 && pass_example_image(call, &c->arena);
}

/* What an application on images of dynamic dimensions may take as scratch; nothing where the arena is to be the least. */
static size_t open_scratch(const chooser *c, const op_call *call) {
    size_t bytes = 0, each;
    if (asked_limit(c->context) == PASS_ARENA_LEAST) return 0;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const op_tensor *tensor =
            i < call->input_count ? &call->inputs[i] : &call->outputs[i - call->input_count];
        if (tensor->type.dtype == OP_NONE) continue;
        if (!op_type_bytes(&tensor->type, &each) || !base_size_add(bytes, each, &bytes)) return 0;
    }
    if (!base_size_multiply(bytes, 2, &bytes)) return 0;
    const size_t part = c->constants / OPEN_DENOMINATOR, least = part < OPEN_SCRATCH ? part : OPEN_SCRATCH;
    return bytes > least ? bytes : least;
}

/* Bytes that the node's step has for scratch without making the arena larger than it is anyhow. */
static size_t free_of_cost(const chooser *c, const ir_node *node) {
    const size_t most = c->free[node->id.index], unused = c->growth - c->grown;
    return most > unused ? most - unused : 0;
}

/* What `kernel` would take in the node's step: the arena grows only where that makes the kernel notably faster, or where it has to grow for another one. */
static bool estimate(const chooser *c, const ir_node *node, const rt_kernel *kernel, const op_call *call,
                     bool open, rt_cost *cost) {
    const rt_environment *environment = &c->context->options->environment;
    if (open) {
        if (!kernel->estimate(call, environment, open_scratch(c, call), cost) || cost->known_only)
            return false;
        if (cost->settles) cost->blocks = 0;
        return true;
    }
    const size_t most = c->free[node->id.index], within = free_of_cost(c, node);
    rt_cost larger;
    const bool fits = kernel->estimate(call, environment, within, cost);
    if (!kernel->estimate(call, environment, most, &larger)) return fits;
    if (!fits || larger.seconds < NOTABLY * cost->seconds) *cost = larger;
    return true;
}

/* The constant weights of an application as they were before a kernel packed them; in memory of the chooser. */
static base_status unpacked_weights(chooser *c, const ir_node *node, const op_call *call, op_tensor *plain) {
    base_report *report = c->context->report;
    const op_tensor *packed = &ir_input(node, 1)->constant->tensor;
    *plain = *packed;
    if (plain->type.layout != OP_LAYOUT_PACKED) return BASE_OK;
    plain->type.layout = OP_LAYOUT_ROW_MAJOR;
    plain->type.packed_bytes = 0;
    if (!op_type_bytes(&plain->type, &plain->bytes)) return base_fail_memory(report);
    plain->data = rt_arena_aligned(&c->arena, plain->bytes);
    if (!plain->data) return base_fail_memory(report);
    return rt_kernel_find(node->kernel)
        ->unpack(call, &c->context->options->environment, 1, packed, plain->data, report);
}

/* The application with weights of these bytes, packed for another kernel, and the blocks in which that works. */
static bool packed_call(chooser *c, const op_call *call, const rt_cost *cost, void *data, op_call *packed) {
    op_tensor *inputs = BASE_ARRAY(&c->arena, op_tensor, call->input_count);
    op_attribute *attributes = BASE_ARRAY(&c->arena, op_attribute, call->attributes.count + 1);
    if (!inputs || !attributes) return false;
    memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
    inputs[1].type.layout = OP_LAYOUT_PACKED;
    inputs[1].type.packed_bytes = inputs[1].bytes = cost->packed_bytes;
    inputs[1].data = data;
    *packed = *call;
    packed->inputs = inputs;
    if (!cost->blocks) return true;
    if (call->attributes.count)
        memcpy(attributes, call->attributes.items, call->attributes.count * sizeof *attributes);
    attributes[call->attributes.count] = (op_attribute){
        .name = "ouro.blocks", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = cost->blocks};
    packed->attributes = (op_attributes){call->attributes.count + 1, attributes};
    return true;
}

/* What the kernel takes: as the record says, as measured, or (where neither is to be had) as predicted. */
static double seconds_of(chooser *c, const ir_node *node, const rt_kernel *kernel, const op_call *call,
                         const rt_cost *cost, bool *measured) {
    pass_tuning *tuning = c->context->options->tuning;
    const rt_environment *environment = &c->context->options->environment;
    double seconds = cost->seconds;
    op_call tried;
    op_tensor plain;
    *measured = false;
    if (!tuning) return seconds;
    if (strcmp(kernel->name, node->kernel) == 0) {
        *measured = pass_tuning_seconds(tuning, kernel, call, environment, &seconds);
        return *measured ? seconds : cost->seconds;
    }
    if (!packed_call(c, call, cost, NULL, &tried)) return cost->seconds;
    *measured = pass_tuning_knows(tuning, kernel, &tried, environment, &seconds);
    if (*measured || !tuning->measure) return seconds;
    void *data = rt_arena_aligned(&c->arena, cost->packed_bytes);
    if (!data || unpacked_weights(c, node, call, &plain) != BASE_OK ||
        !packed_call(c, call, cost, data, &tried))
        return cost->seconds;
    memset(data, 0, cost->packed_bytes);
    if (kernel->pack(&tried, environment, 1, &plain, data, c->context->report) != BASE_OK)
        return cost->seconds;
    *measured = pass_tuning_seconds(tuning, kernel, &tried, environment, &seconds);
    return *measured ? seconds : cost->seconds;
}

/* Whether the weights of an application can be packed for a kernel: asked once, as all of them are looked at. */
static bool weights_suit(chooser *c, const ir_node *node, const rt_kernel *kernel, const op_call *call) {
    const size_t of = ir_input(node, 1)->id.index;
    op_tensor plain;
    if (!kernel->suits || c->context->trial) return true; /* weights may not be there in a trial */
    for (size_t i = 0; i < c->suited_count; i++)
        if (c->suited[i].of == of && c->suited[i].kernel == kernel) return c->suited[i].suited;
    const bool suited = unpacked_weights(c, node, call, &plain) == BASE_OK &&
                        kernel->suits(call, &c->context->options->environment, 1, &plain);
    c->suited[c->suited_count++] = (suited_weights){of, kernel, suited};
    return suited;
}

/* How often the node runs in one run of the module, as far as that is certain. */
static double runs_of(const ir_module *module, const ir_node *node) {
    double runs = 1;
    for (const ir_node *owner = node->graph->owner; owner && owner != module->run;
         owner = owner->graph->owner) {
        ir_loop loop;
        if (owner->code != OP_LOOP || !ir_loop_read(owner, &loop)) continue;
        const int64_t trips = ir_loop_trips(&loop);
        if (trips > 1) runs *= (double)trips;
    }
    return runs;
}

/* The other kernels that the step has memory for and that are faster: the fastest, and the one with the smallest constants. Before,
 * `fastest` has what the kernel of the node takes. */
static void try_kernels(chooser *c, ir_node *node, const rt_kernel *now, const op_call *call, bool open,
                        candidate *fastest, candidate *smallest) {
    const rt_environment *environment = &c->context->options->environment;
    const ir_value *weights = ir_input(node, 1);
    const size_t now_bytes = weights->uses->next ? 0 : weights->constant->tensor.bytes;
    const double before = fastest->cost.seconds;
    const bool now_measured = fastest->measured;
    const rt_kernel *kernel;
    for (unsigned i = 0; (kernel = rt_kernel_candidate(node->code, i)); i++) {
        candidate tried = {.node = node,
                           .kernel = kernel,
                           .seconds_before = before,
                           .open = open,
                           .runs = runs_of(c->context->module, node)};
        if (kernel == now || !kernel->estimate || !kernel->pack) continue;
        if (!rt_kernel_allowed(kernel, environment)) continue;
        if (!estimate(c, node, kernel, call, open, &tried.cost)) continue;
        if (!tried.cost.packed_bytes)
            continue; /* its weights were packed when layouts were selected, or never */
        tried.cost.seconds = seconds_of(c, node, kernel, call, &tried.cost, &tried.measured);
        tried.measured &= now_measured;
        if (tried.cost.seconds >= before || !weights_suit(c, node, kernel, call)) continue;
        if (!open && !base_size_align(tried.cost.scratch_bytes, RT_ALIGNMENT, &tried.scratch)) continue;
        tried.step = tried.more =
            tried.cost.packed_bytes > now_bytes ? tried.cost.packed_bytes - now_bytes : 0;
        if (tried.more && tried.cost.seconds > WORTH * before) continue;
        tried.gain = (before - tried.cost.seconds) * tried.runs;
        if (tried.cost.seconds < fastest->cost.seconds) *fastest = tried;
        if (!smallest->node || tried.more < smallest->more) *smallest = tried;
    }
}

/* Most time saved for each byte of constants first; of equal ones in the order of the nodes. */
static int compare_candidates(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    const double first = a->gain * (double)(b->step + 1), second = b->gain * (double)(a->step + 1);
    if (first != second) return first > second ? -1 : 1;
    return a->node->id.index < b->node->id.index ? -1 : a->node->id.index > b->node->id.index;
}

static void consider(chooser *c, ir_node *node) {
    const rt_environment *environment = &c->context->options->environment;
    const rt_kernel *now = node->kernel ? rt_kernel_find(node->kernel) : NULL;
    const ir_value *weights = node->input_count > 1 ? ir_input(node, 1) : NULL;
    op_call call;
    bool open;
    candidate fastest = {.node = NULL}, smallest = {.node = NULL};
    if (!now || !now->estimate || !weights || !weights->constant || !ir_node_call(node, &c->arena, &call))
        return;
    if (!settle_extents(c, node, &call, &open)) return;
    if (weights->type.layout == OP_LAYOUT_PACKED && !now->unpack) return;
    if (!now->estimate(&call, environment, SIZE_MAX, &fastest.cost)) return;
    fastest.cost.seconds = seconds_of(c, node, now, &call, &fastest.cost, &fastest.measured);
    try_kernels(c, node, now, &call, open, &fastest, &smallest);
    if (!fastest.node) return;
    if (smallest.more < fastest.more) {
        candidate step = fastest;
        step.gain = (smallest.cost.seconds - fastest.cost.seconds) * fastest.runs;
        step.step = fastest.more - smallest.more;
        /* A fallback that saves less a byte than the step from it would never be taken by itself. */
        if (compare_candidates(&smallest, &step) < 0) {
            c->list[c->count++] = smallest;
            fastest = step;
        }
    }
    c->list[c->count++] = fastest;
    const size_t least = free_of_cost(c, node), grows = fastest.scratch > least ? fastest.scratch - least : 0;
    if (!open && grows > c->wanted) c->wanted = grows;
}

/* All nodes; once more where some make the arena larger: then others may take as much. */
static void consider_all(chooser *c) {
    const ir_module *module = c->context->module;
    for (unsigned again = 0; again < 2; again++) {
        c->count = 0;
        c->wanted = 0;
        for (size_t n = 1; n < module->node_count; n++) {
            if (module->nodes[n]) consider(c, module->nodes[n]);
            base_arena_free(&c->arena);
        }
        if (!c->wanted) return;
        c->grown = c->wanted < c->growth ? c->wanted : c->growth;
    }
}

/* ---- a choice carried out ------------------------------------------------------------------------------- */

/* These weights for this kernel: packed already, or new. */
static packed_weights *find_packed(chooser *c, const candidate *chosen) {
    const size_t of = ir_input(chosen->node, 1)->id.index;
    const op_layout layout = ir_input(chosen->node, 0)->type.layout;
    for (size_t i = 0; i < c->packed_count; i++) {
        packed_weights *packed = &c->packed[i];
        if (packed->of == of && packed->kernel == chosen->kernel && packed->layout == layout) return packed;
    }
    c->packed[c->packed_count] = (packed_weights){.of = of, .kernel = chosen->kernel, .layout = layout};
    return &c->packed[c->packed_count++];
}

static base_status read_packed(chooser *c, const candidate *chosen, ir_value *packed) {
    ir_value *weights = ir_input(chosen->node, 1);
    if (!ir_node_set_input(chosen->node, 1, packed)) return base_fail_memory(c->context->report);
    if (!weights->uses) ir_constant_remove(c->context->module, weights);
    return BASE_OK;
}

/* The weights of the application, packed for the kernel that is chosen: a constant of their own. */
static base_status repack(chooser *c, const candidate *chosen, op_call *call) {
    base_report *report = c->context->report;
    const rt_environment *environment = &c->context->options->environment;
    ir_module *module = c->context->module;
    ir_value *weights = ir_input(chosen->node, 1);
    packed_weights *known = find_packed(c, chosen);
    if (known->value) return read_packed(c, chosen, known->value);
    op_type type = weights->type;
    type.layout = OP_LAYOUT_PACKED;
    type.packed_bytes = chosen->cost.packed_bytes;
    void *data = NULL;
    ir_value *packed = ir_constant_reserve(module, weights->name, &type, type.packed_bytes, &data);
    if (!packed) return base_fail_memory(report);
    known->value = packed;
    if (c->context->trial) return read_packed(c, chosen, packed);
    op_tensor plain;
    base_status status = unpacked_weights(c, chosen->node, call, &plain);
    if (status != BASE_OK) return status;
    memset(data, 0, type.packed_bytes);
    op_tensor *inputs = BASE_ARRAY(&c->arena, op_tensor, call->input_count);
    if (!inputs) return base_fail_memory(report);
    memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
    inputs[1].type = type;
    call->inputs = inputs;
    status = chosen->kernel->pack(call, environment, 1, &plain, data, report);
    return status == BASE_OK ? read_packed(c, chosen, packed) : status;
}

/* The storage of the node's scratch is as large as what is chosen wants it. */
static bool set_scratch(pass_memory *memory, const candidate *chosen) {
    ir_node *node = chosen->node;
    const size_t step = (size_t)memory->order.numbers[node->id.index];
    pass_storage_id *scratch = &memory->scratch[node->id.index];
    if (!scratch->index && chosen->scratch) {
        pass_storage storage = {.space = MEMORY_ARENA, .graph = node->graph, .scratch_of = node};
        *scratch = pass_memory_add(memory, &storage);
        if (!scratch->index) return false;
    }
    if (!scratch->index) return true;
    pass_storage *storage = pass_memory_storage(memory, *scratch);
    storage->bytes = chosen->scratch;
    storage->first = (int64_t)step;
    storage->last = storage->first + 1;
    return true;
}

static base_status carry_out(chooser *c, const candidate *chosen) {
    pass_memory *memory = c->context->memory;
    base_report *report = c->context->report;
    ir_node *node = chosen->node;
    op_call call;
    ir_node_context(node, report);
    bool open;
    if (!ir_node_call(node, &c->arena, &call) || !settle_extents(c, node, &call, &open))
        return base_fail_memory(report);
    base_status status = repack(c, chosen, &call);
    if (status != BASE_OK) return status;
    memory->choices[memory->choice_count++] =
        (pass_choice){.node = node,
                      .instead_of = node->kernel,
                      .seconds = chosen->cost.seconds * chosen->runs,
                      .measured = chosen->measured,
                      .seconds_before = chosen->seconds_before * chosen->runs,
                      .scratch_bytes = chosen->cost.scratch_bytes,
                      .constant_bytes = chosen->more};
    node->kernel = chosen->kernel->name;
    op_attribute blocks = {.name = chosen->open ? "ouro.image_blocks" : "ouro.blocks",
                           .kind = OP_ATTRIBUTE_INT,
                           .count = 1,
                           .as.integer = chosen->cost.blocks};
    if (chosen->cost.blocks && !ir_attribute_set(c->context->module, &node->attributes, &blocks))
        return base_fail_memory(report);
    /* It asked for another kernel, and tells how many bits weights have there (compress_weights.c). */
    if (!ir_attribute_remove(c->context->module, &node->attributes, "ouro.weights_bits"))
        return base_fail_memory(report);
    if (!chosen->open) { /* where extents are open, a run takes what it needs */
        node->scratch_bytes = chosen->cost.scratch_bytes;
        if (!set_scratch(memory, chosen)) return base_fail_memory(report);
    }
    base_arena_free(&c->arena);
    return BASE_OK;
}

static base_status carry_out_all(chooser *c) {
    pass_memory *memory = c->context->memory;
    c->packed_count = 0;
    memory->choices = BASE_ARRAY(memory->arena, pass_choice, c->count + 1);
    if (!memory->choices) return base_fail_memory(c->context->report);
    for (size_t i = 0; i < c->count; i++) {
        if (c->chosen[c->list[i].node->id.index] != &c->list[i]) continue;
        base_status status = carry_out(c, &c->list[i]);
        if (status != BASE_OK) return status;
    }
    return pass_memory_extend(memory, c->context->module) ? BASE_OK : base_fail_memory(c->context->report);
}

/* ---- what is chosen ------------------------------------------------------------------------------------- */

/* What constants may take: half as much again, or a quarter of what bands save of the arena. */
static size_t constant_limit(const chooser *c) {
    const pass_bands *bands = c->context->bands;
    const size_t given = c->context->options->constant_limit;
    const size_t saved = bands && bands->whole_bytes > c->least ? bands->whole_bytes - c->least : 0;
    size_t more = c->constants / 2, limit;
    if (given) return given;
    if (saved / SAVED_DENOMINATOR > more) more = saved / SAVED_DENOMINATOR;
    return base_size_add(c->constants, more, &limit) ? limit : c->constants;
}

/* Bytes of weights that several nodes read, and none any more once all of these have what is chosen. */
static size_t left_behind(const chooser *c) {
    size_t sum = 0;
    for (size_t n = 1; n < c->context->module->node_count; n++) {
        if (!c->chosen[n]) continue;
        const ir_value *weights = ir_input(c->chosen[n]->node, 1);
        bool left = weights->uses->next && weights->uses->node == c->chosen[n]->node;
        for (const ir_use *use = weights->uses; use && left; use = use->next)
            left = use->node && c->chosen[use->node->id.index] && ir_input(use->node, 1) == weights;
        if (left) sum += weights->constant->tensor.bytes;
    }
    return sum;
}

/* All candidates, while the constants stay within their limit. Weights that nobody reads then any more do not count, so that more of them fit. */
static void choose(chooser *c) {
    const size_t limit = constant_limit(c);
    size_t sum = c->constants, left = 0;
    if (c->count) qsort(c->list, c->count, sizeof *c->list, compare_candidates);
    memset(c->chosen, 0, c->context->module->node_count * sizeof *c->chosen);
    c->packed_count = 0;
    for (bool again = true; again;) {
        for (size_t i = 0; i < c->count; i++) {
            const candidate **chosen = &c->chosen[c->list[i].node->id.index];
            if (*chosen && *chosen >= &c->list[i]) continue;
            const size_t packed = c->packed_count;
            const bool there = find_packed(c, &c->list[i]) < &c->packed[packed];
            size_t larger;
            if (!base_size_add(sum, there ? 0 : c->list[i].step, &larger) || larger > limit) {
                c->packed_count = packed;
                continue;
            }
            sum = larger;
            *chosen = &c->list[i];
        }
        const size_t now = left_behind(c);
        again = now > left;
        sum -= now > left ? now - left : 0;
        left = now > left ? now : left;
    }
}

static size_t scratch_now(const pass_memory *memory, const ir_node *node) {
    const pass_storage_id scratch = memory->scratch[node->id.index];
    return scratch.index ? memory->storages[scratch.index].bytes : 0;
}

/* What the arena may take with choices that have `live` bytes at the peak. Where the user gives no limit in bytes, choices may make
 * it larger by bytes that they use, hardly by gaps between them; what the planner needs without choices is free to take. */
static size_t most_bytes(const chooser *c, size_t live) {
    const size_t asked = asked_limit(c->context);
    if (asked && asked != PASS_ARENA_LEAST) return asked;
    size_t most = live > c->without ? live : c->without, slack = most / GAPS_DENOMINATOR;
    if (asked || !base_size_add(most, slack, &most)) return c->without > c->limit ? c->without : c->limit;
    const size_t limit = default_limit(c->without > c->least ? c->without : c->least);
    return most < limit ? most : limit;
}

/* One trial: what the planner's arena takes, and what it may. */
typedef struct trial {
    size_t bytes, most;
    bool *above; /* by node id, as pass_try_regions has it; or NULL */
} trial;

/* The arena of the planner with what is chosen (`c->chosen`), or without. The memory plan stays as it was. A planner that searches
 * does so only where it must. */
static base_status try_choices(chooser *c, bool with, trial *tried) {
    pass_context *context = c->context;
    pass_memory *memory = context->memory;
    const size_t storages = memory->storage_count, nodes = context->module->node_count;
    pass_storage *kept = BASE_ARRAY(context->scratch, pass_storage, storages);
    pass_storage_id *scratch = BASE_ARRAY(context->scratch, pass_storage_id, nodes);
    size_t *peaks = BASE_ARRAY(context->scratch, size_t, memory->graph_count);
    if (!kept || !scratch || !peaks) return base_fail_memory(context->report);
    memcpy(kept, memory->storages, storages * sizeof *kept);
    memcpy(scratch, memory->scratch, nodes * sizeof *scratch);
    bool done = true;
    for (size_t n = 1; with && n < nodes && done; n++)
        if (c->chosen[n]) done = set_scratch(memory, c->chosen[n]);
    done = done && pass_region_peaks(memory, c->graphs, c->graph_count, context->scratch, peaks);
    base_status status = done ? BASE_OK : base_fail_memory(context->report);
    const size_t live = peaks[context->module->main->id.index];
    tried->most = with ? most_bytes(c, live) : live;
    const uint64_t efforts[] = {1, TRIAL_WORK};
    for (unsigned i = 0; i < 2 && status == BASE_OK; i++) {
        const planner_options options = {.work = efforts[i]};
        status = pass_try_regions(context, &options, c->graphs, c->graph_count, tried->most, &tried->bytes,
                                  tried->above);
        if (tried->bytes <= tried->most) break;
    }
    memcpy(memory->storages, kept, storages * sizeof *kept);
    memcpy(memory->scratch, scratch, nodes * sizeof *scratch);
    memory->storage_count = storages;
    return status;
}

/* Those in whose steps a storage ends too high (if there are none: all) may take less scratch, and are considered again. False: there
 * was nothing to take away. */
static bool reduce(chooser *c, const bool *above, size_t excess, bool last) {
    const pass_memory *memory = c->context->memory;
    const size_t nodes = c->context->module->node_count;
    size_t affected = 0, kept = 0;
    for (size_t n = 1; n < nodes; n++)
        affected +=
            above[n] && c->chosen[n] && c->chosen[n]->scratch > scratch_now(memory, c->chosen[n]->node);
    bool *again = BASE_ARRAY(c->context->scratch, bool, nodes);
    if (!again) return false;
    bool any = false;
    for (size_t n = 1; n < nodes; n++) {
        const candidate *chosen = c->chosen[n];
        if (!chosen || (affected && !last && !above[n])) continue;
        const size_t least = scratch_now(memory, chosen->node);
        if (chosen->scratch <= least) continue;
        const size_t less = excess > chosen->scratch / 4 ? excess : chosen->scratch / 4;
        c->free[n] = last || chosen->scratch - least <= less ? least : chosen->scratch - less;
        again[n] = any = true;
    }
    for (size_t i = 0; i < c->count; i++)
        if (!again[c->list[i].node->id.index]) c->list[kept++] = c->list[i];
    c->count = kept;
    for (size_t n = 1; n < nodes; n++) {
        if (again[n]) consider(c, c->context->module->nodes[n]);
        base_arena_free(&c->arena);
    }
    return any;
}

/* Chooses what the planner places within what the arena may take. */
static base_status choose_within(chooser *c) {
    bool *above = BASE_ARRAY(c->context->scratch, bool, c->context->module->node_count);
    if (!above) return base_fail_memory(c->context->report);
    for (unsigned count = 1;; count++) {
        trial with = {.above = above}, without = {0};
        choose(c);
        base_status status = try_choices(c, true, &with);
        if (status != BASE_OK || with.bytes <= with.most) return status;
        const size_t asked = asked_limit(c->context);
        if (count == 1 && (!asked || asked == PASS_ARENA_LEAST)) { /* The planner leaves gaps anyhow? */
            status = try_choices(c, false, &without);
            if (status != BASE_OK) return status;
            c->without = without.bytes;
            if (without.bytes > c->least) continue;
        }
        if (count > TRIALS || !reduce(c, above, with.bytes - with.most, count == TRIALS)) return BASE_OK;
    }
}

base_status pass_choose_kernels(pass_context *context) {
    const pass_options *options = context->options;
    ir_module *module = context->module;
    pass_memory *memory = context->memory;
    chooser c = {.context = context, .constants = constant_bytes(module)};
    const size_t node_count = module->node_count;
    c.graphs = pass_graphs_outermost_first(module, context->scratch, &c.graph_count);
    size_t *peaks = BASE_ARRAY(context->scratch, size_t, memory->graph_count);
    c.free = BASE_ARRAY(context->scratch, size_t, node_count);
    c.list = BASE_ARRAY(context->scratch, candidate, 2 * node_count); /* at most two for each */
    c.chosen = BASE_ARRAY(context->scratch, const candidate *, node_count);
    c.packed = BASE_ARRAY(context->scratch, packed_weights, 2 * node_count);
    c.suited = BASE_ARRAY(context->scratch, suited_weights, KERNELS * node_count);
    if (!c.graphs || !peaks || !c.free || !c.list || !c.chosen || !c.packed || !c.suited ||
        !pass_region_peaks(memory, c.graphs, c.graph_count, context->scratch, peaks))
        return base_fail_memory(context->report);
    memory->least_arena_bytes = peaks[module->main->id.index];
    if (!note_live(context, c.graphs, c.graph_count, peaks)) return base_fail_memory(context->report);
    if (options->exact_arithmetic || context->least_kernels) return BASE_OK;
    c.least = memory->least_arena_bytes;
    const size_t asked = asked_limit(context);
    c.limit = asked == PASS_ARENA_LEAST ? c.least : asked ? asked : default_limit(c.least);
    if (!find_free(context, c.graphs, c.graph_count, c.limit, c.free))
        return base_fail_memory(context->report);
    c.growth = c.limit > c.least ? c.limit - c.least : 0;
    base_arena_init(&c.arena, context->scratch->allocator);
    consider_all(&c);
    base_status status = c.count ? choose_within(&c) : BASE_OK;
    if (status == BASE_OK) status = carry_out_all(&c);
    base_arena_free(&c.arena);
    base_report_context(context->report, NULL);
    return status;
}
