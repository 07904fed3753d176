/* SPDX-License-Identifier: Apache-2.0 */
/* row_loops.c: loops that run row by row.
 *
 *     loop { h = a[t] h + b[t];  y[t] = h c[t] }          h: [256, 16], y: [100, 256]
 *
 * A row of h, and an element of y, are made of that row of h alone. So each thread can run all iterations for rows of its own, and waits for the
 * others once, at the end; a step of such a loop is too short to be shared. And of what an iteration does otherwise only addresses are
 * left, on one thread too.
 *
 * Who reads what another thread writes is seen in memory: what a step writes there must be met by others as the same rows at the same place, or not
 * at all, in no iteration. That is looked at when the loop begins, when all addresses are known.
 */
#include "runtime/executor.h"

enum {
    FEWEST_TRIPS = 8,
    PAIRS_A_TRIP = 16, /* of places: an iteration saves at least the time that it takes to look at so many */
    MOST_PLACES = 64,  /* of all operands: all pairs are looked at */
    SHARED_WORK = 3 * RT_PARALLEL_WORK, /* of the whole loop, from which on it is worth several threads */
    LINE_BYTES = 64                     /* of a cache: no two threads write to the same one again and again */
};

/* A step, and where its operands begin among all. */
typedef struct row_step {
    const rt_step *step;
    uint32_t inputs, outputs;
    int64_t each; /* rows of the step in one of the loop */
} row_step;

/* An operand whose address changes with the iterations. */
typedef struct row_view {
    uint32_t operand;
    const rt_loop_multiview *multiview;
    uint64_t offset;
} row_view;

/* How an operand is used, and its view; NULL: it stays where it is. */
typedef struct row_use {
    bool written, by_rows;
    const row_view *view;
} row_use;

struct rt_row_loop {
    row_step *steps;
    uint32_t step_count;
    int64_t rows, together; /* a thread has a multiple of so many: lines of the cache */
    double work;            /* of an iteration */
    row_use *uses;
    op_tensor *operands; /* of member 0, then of the next one */
    uint32_t operand_count;
    row_view *views;
    uint32_t view_count;
    uint32_t place_count; /* of all operands, at most */
};

/* Bytes that an operand takes in some iterations: `count` times `bytes`, `stride` apart. */
typedef struct row_place {
    const unsigned char *at;
    int64_t stride, count;
    size_t bytes;
    const row_use *use;
} row_place;

/* ---- where operands lie -------------------------------------------------------------------------------- */

static bool is_apart(const row_place *a, const row_place *b) {
    const int64_t a_last = a->stride * (a->count - 1), b_last = b->stride * (b->count - 1);
    const uintptr_t a_low = (uintptr_t)a->at + (uintptr_t)(a_last < 0 ? a_last : 0),
                    a_end = (uintptr_t)a->at + (uintptr_t)(a_last > 0 ? a_last : 0) + a->bytes,
                    b_low = (uintptr_t)b->at + (uintptr_t)(b_last < 0 ? b_last : 0),
                    b_end = (uintptr_t)b->at + (uintptr_t)(b_last > 0 ? b_last : 0) + b->bytes;
    return a_end <= b_low || b_end <= a_low;
}

/* What of one lies where something of the other one does is the same rows. */
static bool has_same_rows(const row_place *a, const row_place *b) {
    const int64_t stride = a->stride ? a->stride : b->stride, size = stride < 0 ? -stride : stride;
    const int64_t distance = (int64_t)((uintptr_t)a->at - (uintptr_t)b->at);
    if (!a->use->by_rows || !b->use->by_rows || a->bytes != b->bytes) return false;
    if (stride == 0) return distance == 0;
    return (b->stride == 0 || b->stride == stride) && (uint64_t)size >= a->bytes && distance % size == 0;
}

/* All places of the operands of member 0 in so many iterations; returns their number, which is at most MOST_PLACES. */
static uint32_t find_places(const rt_row_loop *rows, int64_t trips, row_place *places) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < rows->operand_count; i++) {
        const row_use *use = &rows->uses[i];
        const op_tensor *operand = &rows->operands[i];
        const row_view *view = use->view;
        row_place place = {.at = operand->data, .count = 1, .bytes = operand->bytes, .use = use};
        if (!view) {
            places[count++] = place;
            continue;
        }
        const rt_loop_multiview *multiview = view->multiview;
        const uint32_t entries = multiview->prologue + multiview->period;
        for (uint32_t k = 0; k < entries && k < trips; k++) {
            place.at = multiview->table[k] + view->offset;
            if (k == multiview->prologue && multiview->period == 1) {
                place.stride = multiview->stride;
                place.count = trips - k;
            }
            places[count++] = place;
        }
    }
    return count;
}

/* A step reads this parameter of the body, the number of the iteration or the condition, which is not written for each. */
static bool is_read(const ouro_session *session, uint32_t parameter, const row_place *places,
                    uint32_t count) {
    if (parameter == PLAN_ABSENT) return false;
    const op_tensor *tensor = &session->run.tensors[parameter];
    const row_place place = {.at = tensor->data, .count = 1, .bytes = tensor->bytes};
    for (uint32_t i = 0; i < count; i++) {
        if (!places[i].use->written && !is_apart(&places[i], &place)) return true;
    }
    return false;
}

static bool are_rows_apart(const ouro_session *session, const rt_step_loop *loop) {
    row_place places[MOST_PLACES];
    const uint32_t count = find_places(loop->rows, loop->trips, places);
    if (is_read(session, loop->iteration_parameter, places, count) ||
        is_read(session, loop->condition_parameter, places, count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count && places[i].use->written; k++) {
            if (!is_apart(&places[i], &places[k]) && !has_same_rows(&places[i], &places[k])) return false;
        }
    }
    return true;
}

/* Slices are where the scanned and stacked tensors have them: nothing is copied. */
static bool are_slices_there(const ouro_session *session, const rt_scan *scans, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const rt_scan *scan = &scans[i];
        const op_tensor *whole = &session->run.tensors[scan->whole];
        const size_t first = scan->backwards ? (size_t)(scan->extent - 1) * scan->inner : 0;
        if (session->of->tensors[scan->slice].address.space == MEMORY_NONE) continue;
        if (session->run.tensors[scan->slice].data != (char *)whole->data + first) return false;
    }
    return true;
}

/* ---- running ------------------------------------------------------------------------------------------- */

typedef struct row_job {
    ouro_session *session;
    const rt_row_loop *rows;
    int64_t trips;
    atomic_bool stopped;
} row_job;

/* The operands of the member as they are in iteration 0. */
static void point_operands(const rt_row_loop *rows, op_tensor *operands) {
    for (uint32_t s = 0; s < rows->step_count; s++) {
        const row_step *step = &rows->steps[s];
        for (uint32_t i = 0; i < step->step->prepared.input_count; i++)
            operands[step->inputs + i].data = step->step->inputs[i].data;
        operands[step->outputs].data = step->step->outputs[0].data;
    }
}

static int64_t first_row_of(const rt_row_loop *rows, int member, int members) {
    const int64_t together = members > 1 ? rows->together : 1;
    const int64_t parts = (rows->rows + together - 1) / together;
    const int64_t first = parts * member / members * together;
    return first < rows->rows ? first : rows->rows;
}

static void run_member(void *user, int member, int members) {
    row_job *job = user;
    const rt_row_loop *rows = job->rows;
    op_tensor *operands = rows->operands + (size_t)member * rows->operand_count;
    const int64_t begin = first_row_of(rows, member, members), end = first_row_of(rows, member + 1, members);
    if (begin == end) return;
    point_operands(rows, operands);
    for (int64_t t = 0; t < job->trips; t++) {
        if (rt_must_stop(job->session)) {
            atomic_store_explicit(&job->stopped, true, memory_order_relaxed);
            return;
        }
        for (uint32_t v = 0; v < rows->view_count; v++) {
            const row_view *view = &rows->views[v];
            operands[view->operand].data = rt_multiview_at(view->multiview, t) + view->offset;
        }
        for (uint32_t s = 0; s < rows->step_count; s++) {
            const row_step *step = &rows->steps[s];
            const rt_prepared *prepared = &step->step->prepared;
            if (members > 1)
                prepared->rows.run(prepared, operands + step->inputs, operands + step->outputs, member,
                                   begin * step->each, end * step->each);
            else
                (void)prepared->run(prepared, operands + step->inputs, operands + step->outputs,
                                    step->step->scratch, NULL); /* these do not fail */
        }
    }
}

/* Each thread has some whose results no line of the cache shares with another one's. */
static bool has_rows_for(const rt_row_loop *rows, int threads) {
    return rows->rows / rows->together >= threads;
}

bool rt_row_loop_fits(const ouro_session *session, const rt_step_loop *loop) {
    const rt_row_loop *rows = loop->rows;
    const int threads = session->code.environment.threads;
    if (!rows || session->observers || loop->trips < FEWEST_TRIPS ||
        (double)rows->place_count * rows->place_count > (double)loop->trips * PAIRS_A_TRIP)
        return false;
    /* Several threads can share a step, but not the loop. */
    if (threads > 1 && !has_rows_for(rows, threads) && rows->work >= RT_PARALLEL_WORK) return false;
    if (!are_slices_there(session, loop->inputs, loop->input_count) ||
        !are_slices_there(session, loop->outputs, loop->output_count))
        return false;
    point_operands(rows, rows->operands);
    return are_rows_apart(session, loop);
}

base_status rt_row_loop_run(ouro_session *session, rt_step_loop *loop) {
    const rt_row_loop *rows = loop->rows;
    row_job job = {.session = session, .rows = rows, .trips = loop->trips};
    const int threads = session->code.environment.threads;
    const bool shared = has_rows_for(rows, threads) && rows->work * (double)loop->trips >= SHARED_WORK;
    atomic_init(&job.stopped, false);
    rt_team_run(shared ? threads : 1, run_member, &job);
    if (atomic_load_explicit(&job.stopped, memory_order_relaxed))
        return rt_fail_at(session, rows->steps[0].step->node, rt_stop(session));
    session->run.executions[loop->body] += (uint64_t)loop->trips;
    loop->iteration = loop->trips;
    rt_multiviews_count(session, loop, loop->trips);
    return BASE_OK;
}

/* ---- making -------------------------------------------------------------------------------------------- */

/* Slices of which iteration t finds its own `inner` bytes after, or before, the last one's. */
static bool have_places(const ouro_session *session, uint32_t node, const rt_step_loop *loop,
                        const rt_scan *scans, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const rt_scan *scan = &scans[i];
        const plan_address *address = &session->of->tensors[scan->slice].address;
        bool found = address->space == MEMORY_NONE;
        for (uint32_t v = 0; v < loop->multiview_count && !found; v++) {
            const rt_loop_multiview *multiview = &loop->multiviews[v];
            found = address->space == MEMORY_MULTIVIEW && address->index == multiview->multiview &&
                    session->of->multiviews[address->index].loop == node && multiview->prologue == 0 &&
                    multiview->period == 1 &&
                    multiview->stride == (scan->backwards ? -(int64_t)scan->inner : (int64_t)scan->inner);
        }
        if (!scan->fixed || scan->outer != 1 || !found) return false;
    }
    return true;
}

static bool is_row_step(const ouro_session *session, const rt_step *step) {
    const rt_prepared *prepared = &step->prepared;
    if (step->kind != RT_STEP_KERNEL || !step->run || step->run != prepared->run || step->release_count ||
        !prepared->rows.run || prepared->rows.count < 1 || prepared->output_count != 1)
        return false;
    const uint32_t output = session->of->tensor_ids[session->of->nodes[step->node].outputs];
    return output != PLAN_ABSENT && session->of->tensors[output].address.space != MEMORY_NONE;
}

/* Whether an iteration does nothing but run steps that have rows. */
static bool has_row_steps(const ouro_session *session, uint32_t node, const rt_step_loop *loop) {
    const rt_program *body = &session->code.programs[loop->body];
    if (session->code.unshared || !loop->counted || loop->next.count || loop->growth_count ||
        loop->release_count || body->dynamic_count || !body->step_count)
        return false;
    for (size_t s = 0; s < body->step_count; s++) {
        if (!is_row_step(session, &body->steps[s])) return false;
    }
    return have_places(session, node, loop, loop->inputs, loop->input_count) &&
           have_places(session, node, loop, loop->outputs, loop->output_count);
}

/* The fewest rows of a step, where all others have a multiple of them; 0: not so. */
static int64_t common_rows(const rt_program *body) {
    int64_t least = body->steps[0].prepared.rows.count;
    for (size_t s = 1; s < body->step_count; s++) {
        if (body->steps[s].prepared.rows.count < least) least = body->steps[s].prepared.rows.count;
    }
    for (size_t s = 0; s < body->step_count; s++) {
        if (body->steps[s].prepared.rows.count % least) return 0;
    }
    return least;
}

/* The view of the tensor, if it changes its place with the iterations; false where these would be too many to look at. */
static bool add_view(const ouro_session *session, uint32_t node, const rt_step_loop *loop, uint32_t tensor,
                     uint32_t operand, rt_row_loop *rows, uint32_t *places) {
    const plan_address *address = &session->of->tensors[tensor].address;
    const rt_loop_multiview *multiview = NULL;
    for (uint32_t v = 0; v < loop->multiview_count && address->space == MEMORY_MULTIVIEW; v++) {
        if (loop->multiviews[v].multiview == address->index) multiview = &loop->multiviews[v];
    }
    if (multiview && session->of->multiviews[address->index].loop == node && !multiview->swapped) {
        row_view *view = &rows->views[rows->view_count++];
        *view = (row_view){.operand = operand, .multiview = multiview, .offset = address->offset};
        rows->uses[operand].view = view;
        *places += multiview->prologue + multiview->period;
    } else {
        *places += 1;
    }
    return *places <= MOST_PLACES;
}

static bool add_step(const ouro_session *session, uint32_t node, const rt_step_loop *loop,
                     const rt_step *step, rt_row_loop *rows, uint32_t *places) {
    const plan_node *planned = &session->of->nodes[step->node];
    const rt_rows *own = &step->prepared.rows;
    row_step *made = &rows->steps[rows->step_count++];
    bool fits = true;
    const int64_t bytes = (int64_t)step->outputs[0].bytes / rows->rows;
    if (bytes > 0 && LINE_BYTES / bytes > rows->together) rows->together = LINE_BYTES / bytes;
    *made = (row_step){.step = step, .inputs = rows->operand_count, .each = own->count / rows->rows};
    made->outputs = made->inputs + step->prepared.input_count;
    rows->work += (double)own->work;
    for (uint32_t i = 0; i <= step->prepared.input_count && fits; i++) {
        const bool written = i == step->prepared.input_count;
        const uint32_t operand = rows->operand_count++;
        const uint32_t tensor = session->of->tensor_ids[written ? planned->outputs : planned->inputs + i];
        rows->operands[operand] = written ? step->outputs[0] : step->inputs[i];
        rows->uses[operand] = (row_use){.written = written, .by_rows = written || (own->inputs >> i & 1)};
        if (tensor != PLAN_ABSENT) fits = add_view(session, node, loop, tensor, operand, rows, places);
    }
    return fits;
}

/* False when memory runs out. */
static bool make(ouro_session *session, uint32_t node, rt_step_loop *loop) {
    const rt_program *body = &session->code.programs[loop->body];
    const int threads = session->code.environment.threads > 1 ? session->code.environment.threads : 1;
    base_arena *arena = &session->code.tables;
    uint32_t operands = 0, places = 0;
    bool fits = true;
    for (size_t s = 0; s < body->step_count; s++) operands += body->steps[s].prepared.input_count + 1;
    rt_row_loop *rows = BASE_NEW(arena, rt_row_loop);
    if (!rows) return false;
    rows->rows = common_rows(body);
    rows->together = 1;
    rows->steps = BASE_ARRAY(arena, row_step, body->step_count);
    rows->uses = BASE_ARRAY(arena, row_use, operands);
    rows->views = BASE_ARRAY(arena, row_view, operands);
    rows->operands = BASE_ARRAY(arena, op_tensor, (size_t)operands * (size_t)threads);
    if (!rows->steps || !rows->uses || !rows->views || !rows->operands) return false;
    for (size_t s = 0; s < body->step_count && fits; s++)
        fits = add_step(session, node, loop, &body->steps[s], rows, &places);
    if (!fits) return true;
    rows->place_count = places;
    for (int member = 1; member < threads; member++) {
        for (uint32_t i = 0; i < operands; i++)
            rows->operands[(size_t)member * operands + i] = rows->operands[i];
    }
    loop->rows = rows;
    return true;
}

bool rt_row_loops_make(ouro_session *session) {
    for (uint32_t n = 0; n < session->of->header->nodes.count; n++) {
        const rt_step *step = session->code.steps[n];
        if (!step || step->kind != RT_STEP_LOOP) continue;
        rt_step_loop *loop = step->detail;
        if (has_row_steps(session, n, loop) && common_rows(&session->code.programs[loop->body]) > 0 &&
            !make(session, n, loop))
            return false;
    }
    return true;
}
