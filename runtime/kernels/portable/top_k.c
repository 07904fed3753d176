/* SPDX-License-Identifier: Apache-2.0 */
/* top_k.c: the k largest or smallest along an axis, in order; of equal elements the one with the lower index comes
 * first. NaN is larger than every number. Threads share the rows.
 *
 * A heap of k (key, index) pairs is kept in the scratch of each thread, and sorted in the end. Floats, and what becomes floats without loss (16 bits,
 * and integers that are near each other), are looked at as integers that compare as they do. The extremes of some lanes give a limit that most
 * elements do not exceed: these are passed over, many at a time. Of the others up to 2 k are kept, and the best k of them chosen. The first few of
 * many lines are found in lanes (top_lanes.h).
 */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/top_lanes.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct top_state {
    op_dtype dtype;
    size_t size; /* of an element */
    int64_t outer, extent, inner, k;
    bool largest;
} top_state;

/* An element of any number type: `key` is larger the earlier it comes in the result, and of equal ones the one with the lower index comes first. */
typedef struct candidate {
    uint64_t key;
    int64_t index;
} candidate;

/* Of a double, which every real is: NaN is larger than every number, both zeros are equal. */
static inline uint64_t key_of_real(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits << 1) == 0 ? 0 : bits;
    bits ^= bits >> 63 ? UINT64_MAX : (uint64_t)1 << 63;
    return x != x ? UINT64_MAX : bits;
}

static inline candidate load(const top_state *state, const void *data, int64_t at, int64_t index) {
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t key;
    switch (state->dtype) {
    case OP_INT64:
        key = (uint64_t)((const int64_t *)data)[at] ^ sign;
        break;
    case OP_INT32:
        key = (uint64_t)(int64_t)((const int32_t *)data)[at] ^ sign;
        break;
    case OP_INT16:
        key = (uint64_t)(int64_t)((const int16_t *)data)[at] ^ sign;
        break;
    case OP_UINT64:
        key = ((const uint64_t *)data)[at];
        break;
    case OP_UINT32:
        key = ((const uint32_t *)data)[at];
        break;
    case OP_UINT16:
        key = ((const uint16_t *)data)[at];
        break;
    case OP_DOUBLE:
        key = key_of_real(((const double *)data)[at]);
        break;
    default:
        key = key_of_real(rt_element_load(state->dtype, data, at));
    }
    return (candidate){state->largest ? key : ~key, index};
}

/* Candidates lie as keys and as indices: words of eight bytes are read again sooner than pairs of them. */
typedef struct candidates {
    uint64_t *keys;
    int64_t *indices;
} candidates;

/* a comes before b in the result. */
static inline bool precedes(candidate a, candidate b) {
    return (a.key > b.key) | ((a.key == b.key) & (a.index < b.index));
}

static inline candidate candidate_at(candidates of, int64_t i) {
    return (candidate){of.keys[i], of.indices[i]};
}

static inline void place(candidates of, int64_t i, candidate c) {
    of.keys[i] = c.key;
    of.indices[i] = c.index;
}

/* The heap's root is what comes last. */
static void sink(candidates heap, int64_t count, int64_t at) {
    const candidate sunk = candidate_at(heap, at);
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && precedes(candidate_at(heap, child), candidate_at(heap, child + 1))) child++;
        const candidate below = candidate_at(heap, child);
        if (!precedes(sunk, below)) break;
        place(heap, at, below);
        at = child;
    }
    place(heap, at, sunk);
}

/* Puts candidates in their order. No branch of what parts them depends on a key. */
static void sort_candidates(candidates of, int64_t count, uint32_t *random) {
    enum { SHORT = 16 };
    while (count > SHORT) {
        *random = *random * 1664525u + 1013904223u;
        const int64_t drawn = (int64_t)((uint64_t)*random * (uint64_t)count >> 32);
        const candidate pivot = candidate_at(of, drawn);
        int64_t front = 0;
        place(of, drawn, candidate_at(of, count - 1));
        for (int64_t i = 0; i < count - 1; i++) {
            const candidate c = candidate_at(of, i);
            place(of, i, candidate_at(of, front));
            place(of, front, c);
            front += precedes(c, pivot);
        }
        place(of, count - 1, candidate_at(of, front));
        place(of, front, pivot);
        const int64_t after = count - front - 1;
        const candidates rest = {of.keys + front + 1, of.indices + front + 1};
        if (front < after) {
            sort_candidates(of, front, random);
            of = rest;
            count = after;
        } else {
            sort_candidates(rest, after, random);
            count = front;
        }
    }
    for (int64_t i = 1; i < count; i++) {
        const candidate c = candidate_at(of, i);
        int64_t to = i;
        for (; to > 0 && precedes(c, candidate_at(of, to - 1)); to--) place(of, to, candidate_at(of, to - 1));
        place(of, to, c);
    }
}

/* Is there an element among `count`, a multiple of 16, that may precede the root? */
RT_CLONES static bool any_precedes(const float *x, int64_t count, float root, bool largest) {
    uint32_t found = 0;
    if (largest) {
        for (int64_t i = 0; i < count; i++) found |= !(x[i] <= root);
    } else {
        for (int64_t i = 0; i < count; i++) found |= !(x[i] >= root);
    }
    return found != 0;
}

/* ---- floats as keys ------------------------------------------------------------------------------------- */

enum {
    PASSED = 256,  /* elements that are passed over together */
    MANY = 32,     /* elements that are looked at together */
    FEW_KEYS = 32, /* at most so many and as many more lie on the stack */
    SHORT_SORT = 16,
    WIDENED = 4096, /* elements of 16 bits that become floats at once */
    FEW_LANES = 64,
    MANY_LANES = 256,
    MOST_APART = 1 << 24, /* integers up to there are floats */
    ELEMENT_WORK = 4,     /* as of so many additions */
    LANES_SHARE = 4       /* what a lane has, at least, for its extreme to say something */
};

/* An integer that is larger the earlier the element comes in the result. */
static inline uint64_t key_of(float x, int64_t index, uint32_t flipped) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits << 1) == 0 ? 0 : bits; /* both zeros are equal */
    bits ^= bits >> 31 ? UINT32_MAX : 0x80000000u;
    bits = x != x ? UINT32_MAX : bits;
    return (uint64_t)(bits ^ flipped) << 32 | (UINT32_MAX - (uint32_t)index);
}

/* Moves the keys above one of them, drawn by `random`, to the front, that one after them: where it is then. No branch depends on a key. */
static int64_t part_keys(uint64_t *keys, int64_t count, uint32_t *random) {
    *random = *random * 1664525u + 1013904223u;
    const int64_t drawn = (int64_t)((uint64_t)*random * (uint64_t)count >> 32);
    const uint64_t pivot = keys[drawn];
    int64_t front = 0;
    keys[drawn] = keys[count - 1];
    for (int64_t i = 0; i < count - 1; i++) {
        const uint64_t key = keys[i];
        keys[i] = keys[front];
        keys[front] = key;
        front += key > pivot;
    }
    keys[count - 1] = keys[front];
    keys[front] = pivot;
    return front;
}

/* The `wanted` largest to the front, the least of them last. Fewer than `count`. */
static void select_keys(uint64_t *keys, int64_t count, int64_t wanted, uint32_t *random) {
    while (count > 1) {
        const int64_t at = part_keys(keys, count, random);
        if (at == wanted - 1) return;
        if (at >= wanted) {
            count = at;
            continue;
        }
        keys += at + 1;
        count -= at + 1;
        wanted -= at + 1;
    }
}

static void sort_keys(uint64_t *keys, int64_t count, uint32_t *random) {
    while (count > SHORT_SORT) {
        const int64_t at = part_keys(keys, count, random), after = count - at - 1;
        if (at < after) {
            sort_keys(keys, at, random);
            keys += at + 1;
            count = after;
        } else {
            sort_keys(keys + at + 1, after, random);
            count = at;
        }
    }
    for (int64_t i = 1; i < count; i++) {
        const uint64_t key = keys[i];
        int64_t to = i;
        for (; to > 0 && keys[to - 1] < key; to--) keys[to] = keys[to - 1];
        keys[to] = key;
    }
}

/* The largest, or smallest, number of every lane: of elements that lie FEW_LANES, or MANY_LANES, apart. */
#define EXTREMES(name, LANES)                                                                                \
    RT_CLONES static void name(const float *x, int64_t count, bool largest, float *found) {                  \
        float lanes[LANES];                                                                                  \
        for (int64_t j = 0; j < LANES; j++) lanes[j] = largest ? -INFINITY : INFINITY;                       \
        for (int64_t i = 0; i + LANES <= count && largest; i += LANES) {                                     \
            RT_VECTOR for (int64_t j = 0; j < LANES; j++) lanes[j] =                                         \
                x[i + j] > lanes[j] ? x[i + j] : lanes[j];                                                   \
        }                                                                                                    \
        for (int64_t i = 0; i + LANES <= count && !largest; i += LANES) {                                    \
            RT_VECTOR for (int64_t j = 0; j < LANES; j++) lanes[j] =                                         \
                x[i + j] < lanes[j] ? x[i + j] : lanes[j];                                                   \
        }                                                                                                    \
        memcpy(found, lanes, sizeof lanes);                                                                  \
    }
EXTREMES(few_extremes, FEW_LANES)
EXTREMES(many_extremes, MANY_LANES)

/* The extreme of a lane that comes k-th among them: k elements are as good, so that most of the others need not be looked at. Infinite: nothing is
 * known. */
static float bound_of(const top_state *state, const float *x, uint32_t *random) {
    const int64_t k = state->k, lanes = k <= FEW_LANES / 2 ? FEW_LANES : MANY_LANES;
    const float worst = state->largest ? -INFINITY : INFINITY;
    float found[MANY_LANES];
    uint64_t keys[MANY_LANES], best = 0;
    if (k > lanes / 2 || state->extent < lanes * LANES_SHARE) return worst;
    (lanes == FEW_LANES ? few_extremes : many_extremes)(x, state->extent, state->largest, found);
    for (int64_t j = 0; j < lanes; j++) keys[j] = key_of(found[j], j, state->largest ? 0 : UINT32_MAX);
    if (k == 1) { /* no order is needed */
        for (int64_t j = 0; j < lanes; j++) best = keys[j] > best ? keys[j] : best;
        return found[UINT32_MAX - (uint32_t)best];
    }
    select_keys(keys, lanes, k, random);
    return found[UINT32_MAX - (uint32_t)keys[k - 1]];
}

/* A row of floats: the first k of `keys`, which are memory for `capacity` of them, at least k + MANY. */
static void top_floats(const top_state *state, const float *x, uint64_t *keys, int64_t capacity) {
    const int64_t k = state->k;
    const uint32_t flipped = state->largest ? 0 : UINT32_MAX;
    uint32_t random = 1;
    /* Elements that are not better than `root` do not matter, nor do keys that are not above `least`: those of k others. */
    float root = bound_of(state, x, &random);
    uint64_t least = isinf(root) ? 0 : key_of(root, UINT32_MAX, flipped);
    if (least) root = nextafterf(root, state->largest ? -INFINITY : INFINITY);
    const bool sparse = state->extent / PASSED > 4 * k;
    int64_t count = 0;
    for (int64_t e = 0; e < state->extent;) {
        while (least && sparse && e + PASSED <= state->extent &&
               !any_precedes(x + e, PASSED, root, state->largest))
            e += PASSED;
        const int64_t rest = state->extent - e, some = rest < MANY ? rest : MANY;
        if (least && some == MANY && !any_precedes(x + e, MANY, root, state->largest)) {
            e += MANY;
            continue;
        }
        for (const int64_t end = e + some; e < end;) {
            const int64_t part = end - e < MANY / 2 ? end - e : MANY / 2;
            const bool any = !least || part < MANY / 2 || any_precedes(x + e, part, root, state->largest);
            for (const int64_t stop = e + part; e < stop && any; e++) {
                const uint64_t key = key_of(x[e], e, flipped);
                keys[count] = key;
                count += key >= least;
            }
            e += any ? 0 : part;
        }
        if (count <= capacity - MANY) continue;
        select_keys(keys, count, k, &random);
        count = k;
        least = keys[k - 1];
        root = x[UINT32_MAX - (uint32_t)least];
    }
    if (count > k) select_keys(keys, count, k, &random);
    sort_keys(keys, k, &random);
}

/* Rows of 16 bits and integers become floats; those of another axis than the last are put together. */
static bool is_read_first(const top_state *state) {
    return state->inner > 1 || state->dtype != OP_FLOAT;
}

static bool runs_in_rows(const top_state *state) {
    const op_dtype dtype = state->dtype;
    if (state->k == 0 || (dtype != OP_FLOAT && !rt_is_half(dtype) && dtype != OP_INT64 && dtype != OP_INT32))
        return false;
    return state->extent <= (is_read_first(state) ? WIDENED : (int64_t)UINT32_MAX);
}

/* Integers, `inner` apart, as floats: how far each is above the least of them. False: some are so far apart that floats do not tell
 * all of them from each other. */
#define READ_INTEGERS(name, type, wide)                                                                      \
    RT_CLONES static bool name(const type *x, int64_t extent, int64_t inner, float *row) {                   \
        type least = x[0], most = x[0];                                                                      \
        for (int64_t e = 0; e < extent; e++) {                                                               \
            least = x[e * inner] < least ? x[e * inner] : least;                                             \
            most = x[e * inner] > most ? x[e * inner] : most;                                                \
        }                                                                                                    \
        if ((wide)most - (wide)least > MOST_APART) return false;                                             \
        for (int64_t e = 0; e < extent; e++) row[e] = (float)(int32_t)((wide)x[e * inner] - (wide)least);    \
        return true;                                                                                         \
    }
READ_INTEGERS(read_int32, int32_t, uint32_t)
READ_INTEGERS(read_int64, int64_t, uint64_t)

/* Elements from `from` on, `inner` apart, as floats. False: they are no floats. */
static bool read_row(const top_state *state, const char *from, float *row) {
    uint16_t halves[WIDENED];
    if (state->dtype == OP_INT32)
        return read_int32((const int32_t *)(const void *)from, state->extent, state->inner, row);
    if (state->dtype == OP_INT64)
        return read_int64((const int64_t *)(const void *)from, state->extent, state->inner, row);
    if (state->dtype == OP_FLOAT) {
        const float *x = (const float *)(const void *)from;
        for (int64_t e = 0; e < state->extent; e++) row[e] = x[e * state->inner];
        return true;
    }
    const uint16_t *x = (const uint16_t *)(const void *)from;
    for (int64_t e = 0; e < state->extent && state->inner > 1; e++) halves[e] = x[e * state->inner];
    rt_half_load(state->dtype, row, state->inner > 1 ? halves : x, state->extent);
    return true;
}

/* Indices are NULL where they are not asked for. `scratch`: `each` bytes for every thread. */
typedef struct top_job {
    const top_state *state;
    const char *from;
    char *to;
    int64_t *indices;
    char *scratch;
    size_t each;
} top_job;

/* Where the elements of a line begin, and those of its result; `inner` apart. */
typedef struct top_line {
    int64_t from, to;
} top_line;

static top_line line_of(const top_state *state, int64_t line) {
    if (state->inner == 1) return (top_line){line * state->extent, line * state->k};
    const int64_t o = line / state->inner, i = line % state->inner;
    return (top_line){o * state->extent * state->inner + i, o * state->k * state->inner + i};
}

/* Element `e` of the line's result is its element `index`. */
static inline void put(const top_job *job, const top_line *line, int64_t e, int64_t index) {
    const int64_t inner = job->state->inner, to = line->to + e * inner;
    const size_t size = job->state->size;
    char *const target = job->to + (size_t)to * size;
    const char *const source = job->from + (size_t)(line->from + index * inner) * size;
    if (size == 4) memcpy(target, source, 4);
    else if (size == 8) memcpy(target, source, 8);
    else memcpy(target, source, size);
    if (job->indices) job->indices[to] = index;
}

/* A line of floats, or of what becomes floats. False: this one does not. */
static bool top_of_row(const top_job *job, const top_line *line, void *scratch) {
    const top_state *state = job->state;
    const int64_t k = state->k;
    uint64_t few[FEW_KEYS + MANY];
    float read[WIDENED];
    const bool small = k <= FEW_KEYS;
    uint64_t *keys = small ? few : scratch;
    const char *row = job->from + (size_t)line->from * state->size;
    const float *x = (const float *)(const void *)row;
    if (is_read_first(state)) {
        if (!read_row(state, row, read)) return false;
        x = read;
    }
    top_floats(state, x, keys, small ? FEW_KEYS + MANY : 2 * k);
    for (int64_t i = 0; i < k; i++) put(job, line, i, UINT32_MAX - (uint32_t)keys[i]);
    return true;
}

/* A line of any numbers, with memory for k candidates. */
static void top_by_heap(const top_job *job, const top_line *line, void *scratch) {
    const top_state *state = job->state;
    const int64_t k = state->k;
    const candidates heap = {scratch, (int64_t *)scratch + k};
    uint32_t random = 1;
    for (int64_t e = 0; e < k; e++) place(heap, e, load(state, job->from, line->from + e * state->inner, e));
    if (k < state->extent)
        for (int64_t at = k / 2; at-- > 0;) sink(heap, k, at);
    for (int64_t e = k; e < state->extent; e++) {
        const candidate c = load(state, job->from, line->from + e * state->inner, e);
        if (!precedes(c, candidate_at(heap, 0))) continue;
        place(heap, 0, c);
        sink(heap, k, 0);
    }
    sort_candidates(heap, k, &random);
    for (int64_t e = 0; e < k; e++) put(job, line, e, heap.indices[e]);
}

/* Several lines at once, where there are so many that lie side by side, or short ones one after another: of long ones, and of others than the
 * shortest where vectors are short, most elements are passed over faster line by line. */
static bool runs_in_lanes(const top_state *state) {
    enum { FEWEST_LINES = 8, SHORT = 160, SHORT_FOR_WIDE = 2048 };
    const bool wide = rt_top_lanes_wide() || state->size == 8;
    if (state->k == 0 || state->k > (wide ? RT_TOP_LEVELS : RT_TOP_LEVELS / 2) ||
        !rt_top_lanes_can(state->dtype, state->extent))
        return false;
    if (state->inner > 1) return state->inner >= FEWEST_LINES;
    return state->outer >= FEWEST_LINES &&
           (state->size == 8 || state->extent <= (wide ? SHORT_FOR_WIDE : SHORT));
}

/* The first lines of [begin, end): how many. Those that lie side by side have the same place along the axes before. */
static int64_t top_of_lanes(const top_job *job, int64_t begin, int64_t end, char *scratch) {
    const top_state *state = job->state;
    const bool across = state->inner > 1;
    const rt_top_lines lines = {.dtype = state->dtype,
                                .across = across,
                                .largest = state->largest,
                                .step = across ? state->inner : state->extent,
                                .extent = state->extent,
                                .k = state->k};
    int64_t count = end - begin < RT_TOP_LANES ? end - begin : RT_TOP_LANES,
            places[RT_TOP_LEVELS * RT_TOP_LANES];
    if (across && count > state->inner - begin % state->inner) count = state->inner - begin % state->inner;
    rt_top_lanes(&lines, job->from + (size_t)line_of(state, begin).from * state->size, count, places);
    for (int64_t l = 0; l < count; l++) {
        const top_line line = line_of(state, begin + l);
        if (places[(state->k - 1) * RT_TOP_LANES + l] < 0) top_by_heap(job, &line, scratch);
        else
            for (int64_t e = 0; e < state->k; e++) put(job, &line, e, places[e * RT_TOP_LANES + l]);
    }
    return count;
}

static void run_member(void *user, int member, int members) {
    const top_job *job = user;
    const top_state *state = job->state;
    const int64_t lines = state->outer * state->inner, each = lines / members, more = lines % members,
                  begin = each * member + (member < more ? member : more),
                  end = begin + each + (member < more);
    char *scratch = job->scratch + (size_t)member * job->each;
    const bool in_rows = runs_in_rows(state);
    if (runs_in_lanes(state)) {
        for (int64_t i = begin; i < end;) i += top_of_lanes(job, i, end, scratch);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const top_line line = line_of(state, i);
        if (!in_rows || !top_of_row(job, &line, scratch)) top_by_heap(job, &line, scratch);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const top_state *state = prepared->state;
    const int64_t k = state->k, wanted = *(const int64_t *)inputs[1].data,
                  lines = state->outer * state->inner;
    if (wanted != k)
        return base_fail(report, BASE_INVALID, "k is %" PRId64 ", it was planned as %" PRId64, wanted, k);
    if (k == 0 || lines == 0) return BASE_OK;
    top_job job = {.state = state,
                   .from = inputs[0].data,
                   .to = outputs[0].data,
                   .indices = prepared->output_count > 1 ? outputs[1].data : NULL,
                   .scratch = scratch,
                   .each = (size_t)k * sizeof(candidate)};
    const double work = (double)lines * (double)state->extent * ELEMENT_WORK;
    rt_team_run(work < RT_PARALLEL_WORK || lines == 1 ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    top_state *state = BASE_NEW(arena, top_state);
    if (!state) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", -1), shape->rank, &axis);
    state->dtype = call->inputs[0].type.dtype;
    state->size = op_dtype_bytes(state->dtype);
    state->largest = op_attribute_integer(&call->attributes, "largest", 1) != 0;
    state->outer = state->inner = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (d < axis) state->outer *= shape->dims[d];
        else if (d == axis) state->extent = shape->dims[d];
        else state->inner *= shape->dims[d];
    }
    state->k = call->outputs[0].type.shape.dims[axis];
    if (state->k > state->extent)
        return base_fail(report, BASE_INVALID, "k is %" PRId64 ", the axis has %" PRId64 " elements",
                         state->k, state->extent);
    const size_t threads = environment->threads > 0 ? (size_t)environment->threads : 1;
    if (!base_size_multiply((size_t)state->k, sizeof(candidate), &prepared->scratch_bytes) ||
        !base_size_multiply(prepared->scratch_bytes, threads, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "k is too large");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_top_k = {
    .name = "portable.top_k", .accepts = rt_accepts_any_row_major, .prepare = prepare};
