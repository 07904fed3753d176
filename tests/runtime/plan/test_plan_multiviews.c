/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_multiviews.c: plans of loops that are wrong on purpose: tables of views with another period, without
 * an entry, with entries moved or exchanged, other strides, other loops; tensors put over bytes that a later
 * iteration still reads. The verifier refuses each of them, or it computes the same for every number of
 * iterations. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TRIPS = 8, ELEMENTS = 16, OUTPUTS = 3, MOST_BYTES = 1024 };

#define T "float32[4,4]"

/* Every program takes %n: int64[] and two matrices; MatMul cannot run in place, Relu can. */
#define PROGRAM(body)                                                                                        \
    "module \"views\" { constant %m: " T " = {0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0} constant "     \
    "%row: int64[3] = {1, 2, 3} constant %halves: int64[2] = {2, 2} constant %limit: float32[] = {90}\n"     \
    " graph main(%n: int64[], %a: " T ", %b: " T ") {\n %a0: " T " = Neg(%a) %b0: " T " = Neg(%b)\n" body    \
    " } }\n"

/* Of what a loop carries, one of them is kept in some iterations: q. */
#define KEEP(make, kept)                                                                                     \
    "%three: int64[] = Size(%row) %p: " T ", %q: " T                                                         \
    " = Loop(%n, _, %a0, %b0) { graph body(%i: int64[], %k: bool[], %x: " T ", %best: " T                    \
    ") { %t: int64[] = Mod(%i, %three) %h: int64[] = Size(%halves) %c: bool[] = Less(%t, %h) %y: " T         \
    " = " make " %z: " T " = If(%c) { graph yes() { yield " kept                                             \
    " } graph no() { yield %best } } yield %k, %y, %z } }"

typedef struct view_case {
    const char *name, *text;
} view_case;

static const view_case cases[] = {
    {"two buffers in turn",
     PROGRAM("%p: " T " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T ") { %y: " T
             " = MatMul(%x, %m) yield %k, %y } } %r: " T " = Neg(%p) yield %r")},
    {"two buffers in turn, of which the caller's comes last",
     PROGRAM("%p: " T " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T ") { %y: " T
             " = MatMul(%x, %m) yield %k, %y } } yield %p")},
    {"a rotation that ends in the caller's buffers",
     PROGRAM("%p: " T ", %q: " T ", %r: " T
             " = Loop(%n, _, %a, %b, %m) { graph body(%i: int64[], %k: bool[], %u: " T ", %v: " T ", %w: " T
             ") { %x: " T " = MatMul(%u, %m) yield %k, %v, %w, %x } } yield %p, %q, %r")},
    {"another ends in the caller's buffer, with a loop and a branch in it",
     PROGRAM("%p: " T ", %q: " T " = Loop(%n, _, %a, %b) { graph body(%i: int64[], %k: bool[], %x: " T
             ", %z: " T ") {\n %s: " T " = Loop(%i, _, %x) { graph inner(%j: int64[], %l: bool[], %u: " T
             ") { %w: " T " = MatMul(%u, %m) yield %l, %w } }\n %size: int64[] = Size(%row) %c: bool[] = "
             "Less(%i, %size) %y: " T " = If(%c) { graph yes() { %d: " T
             " = MatMul(%z, %s) yield %d } graph no() { %e: " T " = Relu(%z) yield %e } } %f: " T
             " = Sub(%x, %z) yield %k, %f, %y } } yield %p, %q")},
    {"branches that choose an address",
     PROGRAM("%size: int64[] = Size(%row) %p: " T
             " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T
             ") { %c: bool[] = Less(%i, %size) %s: " T
             " = If(%c) { graph yes() { yield %b } graph no() { yield %b0 } } %y: " T " = Sub(%x, %s) %u: " T
             " = MatMul(%y, %m) yield %k, %u } } yield %p")},
    {"the initial value stays",
     PROGRAM("%p: " T " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T ") { %y: " T
             " = MatMul(%x, %m) yield %k, %y } } %r: " T " = Sub(%p, %a0) yield %r")},
    {"a delay",
     PROGRAM("%p: " T ", %q: " T " = Loop(%n, _, %a0, %b0) { graph body(%i: int64[], %k: bool[], %u: " T
             ", %v: " T ") { %y: " T " = MatMul(%u, %v) yield %k, %v, %y } } %r: " T
             " = Sub(%p, %q) yield %r")},
    {"a swap",
     PROGRAM("%p: " T ", %q: " T " = Loop(%n, _, %a0, %b0) { graph body(%i: int64[], %k: bool[], %u: " T
             ", %v: " T ") { yield %k, %v, %u } } %r: " T " = Sub(%p, %q) yield %r")},
    {"nested", PROGRAM("%p: " T " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T
                       ") { %q: " T " = Loop(%n, _, %x) { graph inner(%j: int64[], %l: bool[], %s: " T
                       ") { %w: " T " = MatMul(%s, %m) yield %l, %w } } %z: " T
                       " = Add(%x, %q) yield %k, %z } } %r: " T " = Neg(%p) yield %r")},
    {"one loop after another",
     PROGRAM("%p: " T " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T ") { %y: " T
             " = MatMul(%x, %m) yield %k, %y } }\n %q: " T ", %s: " T
             " = Loop(%n, _, %p, %p) { graph next(%j: int64[], %l: bool[], %u: " T ", %v: " T ") { %w: " T
             " = MatMul(%u, %m) yield %l, %w, %v } } %t: " T " = Add(%p, %s) %r: " T
             " = Sub(%q, %t) yield %r")},
    {"parts of what a loop leaves, in a branch",
     PROGRAM("%p: " T " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T ") { %y: " T
             " = MatMul(%x, %m) yield %k, %y } }\n"
             " %size: int64[] = Size(%row) %few: bool[] = Less(%n, %size)\n"
             " %q: " T " = If(%few) { graph yes() {\n"
             "  %u: float32[2,4], %v: float32[2,4] = Split(%p, %halves) {axis = 0}\n"
             "  %w: float32[2,4] = Neg(%v) %z: float32[2,4] = Sub(%u, %w) %d: " T
             " = Concat(%w, %z) {axis = 0} yield %d } graph no() { %o: " T " = Relu(%p) yield %o } }\n"
             " %r: " T " = Sub(%q, %b0) yield %r")},
    {"exchanged", PROGRAM("%three: int64[] = Size(%row) %p: " T
                          " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T
                          ") { %t: int64[] = Mod(%i, %three) %z: " T
                          " = Loop(%t, _, %x) { graph inner(%j: int64[], %l: bool[], %s: " T ") { %w: " T
                          " = MatMul(%s, %m) yield %l, %w } } %u: " T
                          " = Neg(%z) %f: float32[] = ReduceMax(%u) {keepdims = 0}\n"
                          " %e1: bool[] = Less(%f, %limit) yield %e1, %z } } %r: " T " = Neg(%p) yield %r")},
    {"exchanged, the old state is read meanwhile, another goes round",
     PROGRAM("%three: int64[] = Size(%row) %p: " T ", %q: " T ", %g: " T
             " = Loop(%n, _, %a0, %b0, %b) { graph body(%i: int64[], %k: bool[], %x: " T ", %y: " T ", %v: " T
             ") { %t: int64[] = Mod(%i, %three) %z: " T
             " = Loop(%t, _, %x) { graph inner(%j: int64[], %l: bool[], %s: " T ") { %w: " T
             " = MatMul(%s, %x) %o: " T " = Relu(%w) yield %l, %o } }\n %h: " T ", %d: " T
             " = Loop(%t, _, %y, %v) { graph swap(%j2: int64[], %l2: bool[], %c: " T ", %e: " T
             ") { yield %l2, %e, %c } } yield %k, %z, %h, %d } } %u: " T " = Sub(%p, %q) %r: " T
             " = Sub(%u, %g) yield %r")},
    {"exchanged in a branch",
     PROGRAM("%three: int64[] = Size(%row) %p: " T
             " = Loop(%n, _, %a0) { graph body(%i: int64[], %k: bool[], %x: " T
             ") { %t: int64[] = Mod(%i, %three) %c: bool[] = Less(%t, %i) %s: " T " = Relu(%x) %y: " T
             " = If(%c) { graph yes() { %u: " T " = MatMul(%x, %s) yield %u } graph no() { yield %x } } "
             "yield %k, %y } } %r: " T " = Neg(%p) yield %r")},
    {"kept in a branch, beside what it is made of",
     PROGRAM(KEEP("MatMul(%x, %m)", "%y") " %r: " T " = Sub(%p, %q) yield %r")},
    {"kept in a branch, beside what it is made over", PROGRAM(KEEP("Sub(%x, %b)", "%y") " yield %p, %q")},
    {"the old one is handed on in a branch",
     PROGRAM(KEEP("Sub(%x, %best)", "%x") " %r: " T " = Sub(%p, %q) yield %r")},
    {"kept in a branch of a loop in a loop",
     PROGRAM("%o: " T " = Loop(%n, _, %a0) { graph around(%i2: int64[], %k2: bool[], %s: " T ") {\n" KEEP(
         "MatMul(%x, %s)", "%y") " %d: " T " = Sub(%p, %q) %e: " T " = Relu(%d) yield %k2, %e } } %r: " T
                                 " = Neg(%o) yield %r")},
    {"slices and stacks",
     "module \"slices\" { constant %four: int64[] = {4}\n graph main(%n: int64[], %a: " T ", %b: " T
     ") { %a0: " T " = Neg(%a)\n %s: " T
     " = Loop(%four, _, %a0, %b) {ouro.scan_inputs = 2, ouro.scan_outputs = 1, ouro.scan_input_axes = [0, 0],"
     " ouro.scan_input_directions = [0, 1], ouro.scan_output_axes = [0], ouro.scan_output_directions = [0]} "
     "{\n"
     " graph body(%i: int64[], %k: bool[], %u: float32[4], %v: float32[4]) { %w: float32[4] = Sub(%u, %v) "
     "yield"
     " %k, %w } }\n %r: " T " = Neg(%s) yield %r } }\n"},
    {"what grows",
     "module \"growth\" { constant %eight: int64[] = {8} constant %one: int64[] = {1} constant %m: " T
     " = {0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0} constant %row: int64[1] = {0}\n"
     " graph main(%n: int64[], %a: " T ", %b: " T ") { %a0: " T " = Neg(%a) %b0: " T " = Neg(%b)\n"
     " %p: float32[?,4], %q: " T
     ", %s: float32[?,4,4] = Loop(%eight, _, %a0, %b0) {ouro.scan_outputs = 1} {\n"
     "  graph body(%i: int64[], %k: bool[], %c: float32[?,4], %x: " T ") { %j: int64[] = Add(%i, %one)\n"
     "   %go: bool[] = Less(%j, %n) %y: " T " = MatMul(%x, %m) %z: " T " = Relu(%x)\n"
     "   %d: float32[?,4] = Concat(%c, %z) {axis = 0} yield %go, %d, %y, %y } }\n"
     " %t: float32[4,?] = Transpose(%p) {perm = [1, 0]} %v: float32[4,4] = MatMul(%t, %p)\n"
     " %w: " T " = ReduceSum(%s, %row) {keepdims = 0} %f: " T " = MatMul(%v, %w) %r: " T
     " = Add(%f, %q) yield %r } }\n"}};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct outcome {
    bool ran;
    float data[TRIPS][OUTPUTS][ELEMENTS];
} outcome;

typedef struct mutation {
    unsigned char *good, *bytes;
    size_t size;
    outcome expected;
    size_t refused, harmless;
    bool not_lazy; /* with swaps in place of lazy copies it was refused */
    const char *name;
    plan_header *header;
    plan_multiview *multiviews;
    plan_address *addresses;
    plan_tensor *tensors;
} mutation;

static void execute(const unsigned char *bytes, size_t size, outcome *made) {
    ouro_plan *opened;
    ouro_session *session = NULL;
    float a[ELEMENTS], b[ELEMENTS];
    *made = (outcome){.ran = true};
    for (int e = 0; e < ELEMENTS; e++) {
        a[e] = (float)(e % 5) - 2;
        b[e] = (float)(e * 3 % 7) - 3;
    }
    if (ouro_plan_open(bytes, size, &opened, NULL) != OURO_OK) {
        made->ran = false;
        return;
    }
    assert_int_equal(ouro_session_new(opened, NULL, &session, NULL), OURO_OK);
    for (int64_t n = 0; n < TRIPS && made->ran; n++) {
        const size_t outputs = ouro_plan_output_count(opened);
        made->ran = ouro_session_bind_input(session, 0, &n, sizeof n, NULL, NULL) == OURO_OK &&
                    ouro_session_bind_input(session, 1, a, sizeof a, NULL, NULL) == OURO_OK &&
                    ouro_session_bind_input(session, 2, b, sizeof b, NULL, NULL) == OURO_OK &&
                    ouro_session_run(session, NULL) == OURO_OK;
        if (!made->ran) break;
        assert_true(outputs <= OUTPUTS);
        for (size_t k = 0; k < outputs; k++) {
            const void *output;
            ouro_tensor_info info;
            assert_int_equal(ouro_session_output(session, k, &info, &output, NULL), OURO_OK);
            memcpy(made->data[n][k], output, sizeof made->data[n][k]);
        }
    }
    ouro_session_free(session);
    ouro_plan_free(opened);
}

/* The changed plan is refused, or computes the same; then it is restored. True where it was refused. */
static bool try_mutation(mutation *m, const char *what, size_t index, int64_t by) {
    outcome is;
    if (memcmp(m->bytes, m->good, m->size) == 0) return false; /* it changed nothing */
    support_plan_seal(m->bytes, m->size);
    execute(m->bytes, m->size, &is);
    if (is.ran && memcmp(is.data, m->expected.data, sizeof is.data) != 0) {
        fail_msg("%s: %s %zu by %lld: accepted, and computes something else", m->name, what, index,
                 (long long)by);
    }
    m->refused += !is.ran;
    m->harmless += is.ran;
    memcpy(m->bytes, m->good, m->size);
    return !is.ran;
}

static void begin(mutation *m, const view_case *of) {
    *m = (mutation){.name = of->name};
    m->good = support_plan(of->text, true, &m->size);
    m->bytes = aligned_alloc(64, (m->size + 63) / 64 * 64); /* as plans must lie */
    assert_non_null(m->bytes);
    memcpy(m->bytes, m->good, m->size);
    m->header = (plan_header *)(void *)m->bytes;
    m->multiviews = (plan_multiview *)(void *)(m->bytes + m->header->multiviews.offset);
    m->addresses = (plan_address *)(void *)(m->bytes + m->header->addresses.offset);
    m->tensors = (plan_tensor *)(void *)(m->bytes + m->header->tensors.offset);
    execute(m->bytes, m->size, &m->expected);
    if (!m->expected.ran) fail_msg("%s: the plan does not run", m->name);
    assert_true(m->header->multiviews.count > 0);
}

static void mutate_periods(mutation *m) {
    for (size_t v = 0; v < m->header->multiviews.count; v++) {
        plan_multiview *view = &m->multiviews[v];
        for (int64_t by = -3; by <= 3; by++) {
            view->period = (uint32_t)((int64_t)view->period + by);
            (void)try_mutation(m, "the period of view", v, by);
            view->prologue_count = (uint32_t)((int64_t)view->prologue_count + by);
            (void)try_mutation(m, "the prologue of view", v, by);
        }
        if (view->prologue_count) { /* the initial value is read where it is not */
            view->prologue_count--;
            view->first++;
            /* Where the cycle is counted from the end, it goes on as before: the value is copied to where it then begins. */
            if (!try_mutation(m, "an entry dropped of view", v, -1) && view->period > 1 && !view->from_end)
                fail_msg("%s: a type II entry can be dropped", m->name);
        }
        if (view->period > 1) { /* a live range is cut: fewer buffers than instances that are live together */
            view->period--;
            assert_true(try_mutation(m, "a buffer less for view", v, -1));
        }
    }
}

static void mutate_entries(mutation *m) {
    size_t count = (size_t)m->header->addresses.count;
    for (size_t i = 0; i < count; i++) {
        const int64_t steps[] = {64, -64, 16, -16, 4, -4, 128, 1 << 20};
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            m->addresses[i].offset += (uint64_t)steps[k];
            (void)try_mutation(m, "the entry", i, steps[k]);
        }
        for (size_t j = 0; j < count; j++) {
            plan_address kept = m->addresses[i];
            m->addresses[i] = m->addresses[j];
            (void)try_mutation(m, "entries made equal", i, (int64_t)j);
            m->addresses[i] = m->addresses[j];
            m->addresses[j] = kept;
            (void)try_mutation(m, "entries exchanged", i, (int64_t)j);
        }
        for (uint32_t place = 0; place <= MEMORY_MULTIVIEW; place++) {
            m->addresses[i].space = place;
            m->addresses[i].index = 0;
            (void)try_mutation(m, "the place of entry", i, place);
        }
    }
}

static void mutate_strides(mutation *m) {
    for (size_t v = 0; v < m->header->multiviews.count; v++) {
        int64_t stride = m->multiviews[v].stride;
        const int64_t strides[] = {0,  -stride, stride + 4, stride - 16, 2 * stride,
                                   64, -64,     INT64_MAX,  INT64_MIN};
        for (size_t k = 0; k < sizeof strides / sizeof *strides; k++) {
            m->multiviews[v].stride = strides[k];
            (void)try_mutation(m, "the stride of view", v, strides[k]);
        }
        for (uint32_t n = 0; n < m->header->nodes.count; n++) {
            m->multiviews[v].loop = n;
            (void)try_mutation(m, "the loop of view", v, n);
        }
    }
}

/* Tensors are put over what a view may be, and views where another one is. */
static void mutate_tensors(mutation *m) {
    for (size_t i = 0; i < m->header->tensors.count; i++) {
        plan_address at = m->tensors[i].address;
        for (size_t k = 0; k < m->header->addresses.count && at.space != MEMORY_CONSTANT; k++) {
            m->tensors[i].address = m->addresses[k];
            (void)try_mutation(m, "put where an entry is: tensor", i, (int64_t)k);
        }
        for (uint32_t v = 0; v < m->header->multiviews.count; v++) {
            m->tensors[i].address = (plan_address){.space = MEMORY_MULTIVIEW, .index = v};
            (void)try_mutation(m, "put where a view is: tensor", i, v);
        }
        if (at.space != MEMORY_MULTIVIEW) continue;
        for (int64_t by = -128; by <= 128; by += 16) {
            m->tensors[i].address.offset += (uint64_t)by;
            (void)try_mutation(m, "moved within its view: tensor", i, by);
        }
    }
}

/* The reservation of what grows is moved, or made smaller; other tensors are put into it. */
static void mutate_reservations(mutation *m) {
    for (size_t i = 0; i < m->header->tensors.count; i++) {
        if (m->tensors[i].address.space != MEMORY_DYNAMIC || !m->tensors[i].bytes) continue;
        const plan_tensor reservation = m->tensors[i];
        for (int64_t by = -512; by <= 512; by += 64) {
            m->tensors[i].address.offset += (uint64_t)by;
            (void)try_mutation(m, "moved reservation", i, by);
        }
        for (uint64_t bytes = 0; bytes < reservation.bytes; bytes += 64) {
            m->tensors[i].bytes = bytes;
            (void)try_mutation(m, "smaller reservation", i, (int64_t)bytes);
        }
        for (size_t k = 0; k < m->header->tensors.count; k++) {
            if (m->tensors[k].address.space != MEMORY_ARENA) continue;
            m->tensors[k].address.offset = reservation.address.offset + 64;
            (void)try_mutation(m, "put into a reservation: tensor", k, (int64_t)i);
        }
    }
}

/* Buffers leave their group, or join another; they are said to be larger or smaller. */
static void mutate_groups(mutation *m) {
    for (size_t v = 0; v < m->header->multiviews.count; v++) {
        for (uint32_t group = 0; group < 4; group++) {
            const uint64_t is = m->multiviews[v].bytes;
            m->multiviews[v].group = group;
            (void)try_mutation(m, "the group of view", v, group);
            m->multiviews[v].group = group;
            m->multiviews[v].bytes = is ? 0 : 64;
            (void)try_mutation(m, "the group and bytes of view", v, group);
        }
        for (uint64_t bytes = 0; bytes <= 256; bytes += 16) {
            m->multiviews[v].bytes = bytes;
            (void)try_mutation(m, "the bytes of view", v, (int64_t)bytes);
        }
    }
}

/* Tables are counted from the other end, alone or all of them; one begins elsewhere. */
static void mutate_ends(mutation *m) {
    const size_t count = (size_t)m->header->multiviews.count;
    for (size_t v = 0; v < count; v++) {
        plan_multiview *view = &m->multiviews[v];
        const uint32_t is = view->from_end;
        for (uint32_t from_end = 0; from_end < 3; from_end++) {
            view->from_end = from_end;
            const bool refused = try_mutation(m, "the end of view", v, from_end);
            if (from_end == 2 && !refused) fail_msg("%s: a view counts from no end", m->name);
        }
        for (uint32_t lazy = 0; lazy < 3; lazy++) {
            view->lazy = lazy;
            const bool refused = try_mutation(m, "the laziness of view", v, lazy);
            if ((lazy == 2 || (lazy && !view->group)) && !refused)
                fail_msg("%s: a view is lazy alone", m->name);
        }
        for (uint32_t k = 0; is && k < view->period; k++) {
            const uint64_t first = view->first + view->prologue_count;
            const plan_address moved = m->addresses[first];
            memmove(&m->addresses[first], &m->addresses[first + 1], (view->period - 1) * sizeof moved);
            m->addresses[first + view->period - 1] = moved;
            (void)try_mutation(m, "turned: view", v, k);
        }
        for (size_t i = 0; i < count; i++) m->multiviews[i].from_end = !is;
        (void)try_mutation(m, "all ends at view", v, !is);
    }
    for (uint32_t lazy = 0; lazy < 2; lazy++) { /* a swap leaves what a copy keeps */
        for (size_t i = 0; i < count; i++) m->multiviews[i].lazy = lazy && m->multiviews[i].group;
        if (try_mutation(m, "all groups are made lazy, or none", 0, lazy) && !lazy) m->not_lazy = true;
    }
    plan_node *nodes = (plan_node *)(void *)(m->bytes + m->header->nodes.offset);
    uint32_t *ids = (uint32_t *)(void *)(m->bytes + m->header->tensor_ids.offset);
    for (size_t v = 0; v < count; v++) { /* the loop ends by something else, or nobody knows when */
        plan_node *loop = &nodes[m->multiviews[v].loop];
        const bool from_end = m->multiviews[v].from_end;
        for (uint32_t id = 0; id < m->header->tensors.count; id++) {
            ids[loop->inputs + 1] = id;
            (void)try_mutation(m, "the condition of loop", v, id);
        }
        ids[loop->inputs] = PLAN_ABSENT;
        if (from_end) assert_true(try_mutation(m, "the trip count of loop", v, 0));
        memcpy(m->bytes, m->good, m->size);
    }
}

/* Elements of 4 bytes: any entry, stride or offset that is no multiple of 4 takes a tensor off its alignment in some
 * iteration. */
static void mutate_alignment(mutation *m) {
    for (size_t v = 0; v < m->header->multiviews.count; v++) {
        bool read = false;
        for (size_t i = 0; i < m->header->tensors.count; i++)
            read |= m->tensors[i].address.space == MEMORY_MULTIVIEW && m->tensors[i].address.index == v;
        for (uint32_t k = 0; k < m->multiviews[v].prologue_count + m->multiviews[v].period && read; k++) {
            m->addresses[m->multiviews[v].first + k].offset += 2;
            assert_true(try_mutation(m, "the alignment of multi-view", v, k));
        }
        if (m->multiviews[v].stride && read) {
            m->multiviews[v].stride += 1;
            assert_true(try_mutation(m, "the stride of multi-view", v, 1));
        }
    }
    for (size_t i = 0; i < m->header->tensors.count; i++) {
        if (m->tensors[i].address.space != MEMORY_MULTIVIEW) continue;
        m->tensors[i].address.offset += 1;
        assert_true(try_mutation(m, "the alignment of tensor", i, 1));
    }
}

static void broken_views_are_refused(void **state) {
    (void)state;
    static void (*const kinds[])(mutation *) = {mutate_periods, mutate_entries,      mutate_strides,
                                                mutate_tensors, mutate_reservations, mutate_groups,
                                                mutate_ends,    mutate_alignment};
    for (int c = 0; c < CASES; c++) {
        mutation m;
        begin(&m, &cases[c]);
        size_t lazy = 0;
        for (size_t v = 0; v < m.header->multiviews.count; v++) lazy += m.multiviews[v].lazy;
        if ((lazy > 1) != (strstr(m.name, "kept in a branch") != NULL))
            fail_msg("%s: %zu of its views are lazy", m.name, lazy);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            size_t before = m.refused;
            kinds[k](&m);
            bool has_reservation = strcmp(m.name, "what grows") == 0;
            bool exchanges = strncmp(m.name, "exchanged", 9) == 0;
            assert_true(m.refused > before || (kinds[k] == mutate_reservations && !has_reservation) ||
                        (kinds[k] == mutate_groups && !exchanges));
        }
        assert_int_equal(m.not_lazy, lazy > 1);
        print_message("%s: %zu refused, %zu harmless\n", m.name, m.refused, m.harmless);
        assert_true(m.refused > 4 * m.harmless);
        free(m.good);
        free(m.bytes);
    }
}

static plan_tensor *find_tensor(const mutation *m, const char *name) {
    const char *texts = (const char *)m->bytes + m->header->texts.offset;
    for (uint64_t i = 0; i < m->header->tensors.count; i++)
        if (strcmp(texts + m->tensors[i].name, name) == 0) return &m->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* What a loop leaves in one of two places has parts there: they follow the same table. Passes copy it instead, so this
 * plan is made by hand. */
static void parts_lie_where_the_whole_does(void **state) {
    (void)state;
    mutation m;
    for (int c = 0; c < CASES; c++)
        if (strcmp(cases[c].name, "parts of what a loop leaves, in a branch") == 0) begin(&m, &cases[c]);
    const plan_address parameter = find_tensor(&m, "x")->address;
    assert_int_equal(parameter.space, MEMORY_MULTIVIEW);
    const plan_multiview *of = &m.multiviews[parameter.index];
    assert_int_equal(of->period, 2);
    plan_tensor *p = find_tensor(&m, "p"), *u = find_tensor(&m, "u"), *v = find_tensor(&m, "v");
    p->address = u->address = v->address = parameter;
    v->address.offset += u->bytes;
    /* The condition lies in what the copy left free. */
    find_tensor(&m, "few")->address.offset = m.header->arena_bytes;
    ((plan_graph *)(void *)(m.bytes + m.header->graphs.offset))->region_bytes = m.header->arena_bytes += 64;
    unsigned char *changed = malloc(m.size), *good = m.good;
    assert_non_null(changed);
    memcpy(changed, m.bytes, m.size);
    assert_false(try_mutation(&m, "the whole in a multi-view, and its parts", 0, 0));
    memcpy(m.bytes, changed, m.size);
    m.good = changed;
    for (uint32_t k = 0; k < of->period; k++) {
        v->address = m.addresses[of->first + k];
        v->address.offset += u->bytes;
        assert_true(try_mutation(&m, "a part at an entry", k, 0));
        u->address = m.addresses[of->first + k];
        assert_true(try_mutation(&m, "the first part at an entry", k, 0));
    }
    for (uint32_t i = 0; i < m.header->multiviews.count; i++) {
        if (i == parameter.index) continue;
        v->address.index = i;
        assert_true(try_mutation(&m, "a part in another multi-view", i, 0));
    }
    free(good);
    free(changed);
    free(m.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(broken_views_are_refused),
                                       cmocka_unit_test(parts_lie_where_the_whole_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
