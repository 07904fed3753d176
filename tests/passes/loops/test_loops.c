/* SPDX-License-Identifier: Apache-2.0 */
/* test_loops.c: the cases that decide whether loops are allocated right: values, addresses (prologue, period,
 * number of buffers) and copies, for every number of iterations up to two periods and one.
 *
 * Values are judged by the check against unshared memory, which hands carried values on by copying, and by
 * plan_check, which every plan has passed when it is opened. C is MatMul, which cannot run in place; E is
 * Relu, which can.
 */
#include "compiler/compiler.h"
#include "compiler/report/loop.h"
#include "runtime/executor.h"
#include "tests/support/support.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SIDE = 4, ELEMENTS = SIDE * SIDE, BYTES = ELEMENTS * (int)sizeof(float), MOST_PLACES = 64 };

/* What is expected of one tensor: a view with this prologue and period; period 0: one fixed address. */
typedef struct expected_view {
    const char *name;
    uint32_t prologue, period;
} expected_view;

typedef struct loop_case {
    const char *name;
    const char *before; /* nodes of main before the loop; initial values are %a0, %b0, ... made by Neg of the
                           inputs */
    int carried;
    const char *initial;    /* "%a0, %b0" */
    const char *parameters; /* ", %x: float32[4,4]" for each */
    const char *body;       /* nodes and yield */
    const char *after;      /* nodes after the loop, which reads %p0, %p1, ... ; yields */
    expected_view views[8];
    uint64_t buffers; /* distinct addresses of all that is named in views; 0: not counted */
} loop_case;

#define T "float32[4,4]"

/* A state of one direction, batch and hidden size 4; weights of one, three and four gates, and an input. */
#define S "float32[1,4,4]"
#define WEIGHTS                                                                                              \
    "%w1: float32[1,4,4] = Reshape(%m, %state) %w3: float32[1,12,4] = Concat(%w1, %w1, %w1) {axis = 1}\n"    \
    " %w4: float32[1,16,4] = Concat(%w1, %w3) {axis = 1} %in: " S " = Reshape(%b0, %state)"

static const loop_case cases[] = {
    {"1: in place",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%y: " T " = Relu(%x) yield %k, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 0}, {"y", 0, 0}},
     1},
    {"2: not in place",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%y: " T " = MatMul(%x, %m) yield %k, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 2}, {"y", 0, 2}},
     2},
    {"3: twice not in place",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%t: " T " = MatMul(%x, %m) %y: " T " = MatMul(%t, %m) yield %k, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 0}, {"y", 0, 0}},
     1},
    {"4: two that feed each other",
     "",
     2,
     "%a0, %b0",
     ", %x: " T ", %a1: " T,
     "%y: " T " = Add(%x, %a1) %b1: " T " = Add(%x, %y) yield %k, %y, %b1",
     "%r: " T " = Add(%p0, %p1) yield %r",
     {{"x", 0, 2}, {"a1", 0, 2}, {"y", 0, 2}, {"b1", 0, 2}},
     2},
    {"5: one iteration further back",
     "",
     2,
     "%a0, %b0",
     ", %x0: " T ", %x1: " T,
     "%y: " T " = MatMul(%x0, %x1) yield %k, %x1, %y",
     "%r: " T " = Add(%p0, %p1) yield %r",
     {{"x0", 0, 3}, {"x1", 0, 3}, {"y", 0, 3}},
     3},
    {"6: delay of 4, not in place",
     "",
     4,
     "%a0, %b0, %c0, %d0",
     ", %x0: " T ", %x1: " T ", %x2: " T ", %x3: " T,
     "%y: " T " = MatMul(%x0, %m) yield %k, %x1, %x2, %x3, %y",
     "%r: " T " = Add(%p0, %p3) yield %r",
     {{"x0", 0, 5}, {"x3", 0, 5}, {"y", 0, 5}},
     5},
    {"6: delay of 4, in place",
     "",
     4,
     "%a0, %b0, %c0, %d0",
     ", %x0: " T ", %x1: " T ", %x2: " T ", %x3: " T,
     "%y: " T " = Relu(%x0) yield %k, %x1, %x2, %x3, %y",
     "%r: " T " = Add(%p0, %p3) yield %r",
     {{"x0", 0, 4}, {"x3", 0, 4}, {"y", 0, 4}},
     4},
    {"7: swap",
     "",
     2,
     "%a0, %b0",
     ", %x: " T ", %y: " T,
     "yield %k, %y, %x",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"x", 0, 2}, {"y", 0, 2}},
     2},
    {"8: rotation beside a swap",
     "",
     5,
     "%a0, %b0, %c0, %d0, %e0",
     ", %u: " T ", %v: " T ", %w: " T ", %x: " T ", %y: " T,
     "yield %k, %v, %w, %u, %y, %x",
     "%r: " T " = Sub(%p0, %p3) yield %r",
     {{"u", 0, 3}, {"v", 0, 3}, {"w", 0, 3}, {"x", 0, 2}, {"y", 0, 2}},
     5},
    {"9: periods 2 and 3 in one loop",
     "",
     3,
     "%a0, %b0, %c0",
     ", %x: " T ", %x0: " T ", %x1: " T,
     "%y: " T " = MatMul(%x, %m) %z: " T " = MatMul(%x0, %x1) yield %k, %y, %x1, %z",
     "%s: " T " = Add(%p0, %p1) %r: " T " = Add(%s, %p2) yield %r",
     {{"x", 0, 2}, {"y", 0, 2}, {"x0", 0, 3}, {"x1", 0, 3}, {"z", 0, 3}},
     5},
    {"10: one value for two parameters",
     "",
     2,
     "%a0, %b0",
     ", %x0: " T ", %x1: " T,
     "%y: " T " = MatMul(%x0, %x1) yield %k, %y, %y",
     "%r: " T " = Add(%p0, %p1) yield %r",
     {{"x0", 0, 2}, {"x1", 1, 2}, {"y", 0, 2}},
     3},
    {"11: never changed",
     "",
     1,
     "%a0",
     ", %x: " T,
     "yield %k, %x",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 0}},
     1},
    {"12: replaced by a value from outside",
     "",
     1,
     "%a0",
     ", %x: " T,
     "yield %k, %b0",
     "%r: " T " = Sub(%p0, %b0) yield %r",
     {{"x", 1, 1}},
     2},
    {"13: in place, the initial value is needed later",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%y: " T " = Relu(%x) yield %k, %y",
     "%r: " T " = Sub(%p0, %a0) yield %r",
     {{"x", 1, 1}, {"y", 0, 0}},
     2},
    {"14: not in place, the initial value is needed later",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%y: " T " = MatMul(%x, %m) yield %k, %y",
     "%r: " T " = Sub(%p0, %a0) yield %r",
     {{"x", 1, 2}, {"y", 0, 2}},
     3},
    {"15: one initial value for two parameters",
     "",
     2,
     "%a0, %a0",
     ", %x: " T ", %z: " T,
     "%y: " T " = MatMul(%x, %m) %u: " T " = MatMul(%z, %x) yield %k, %y, %u",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"y", 0, 2}, {"u", 0, 2}},
     4},
    {"16: the initial value is a weight",
     "",
     1,
     "%m",
     ", %x: " T,
     "%y: " T " = Relu(%x) yield %k, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 1, 1}, {"y", 0, 0}},
     2},
    {"16: the initial value is the caller's",
     "",
     1,
     "%a",
     ", %x: " T,
     "%y: " T " = MatMul(%x, %m) yield %k, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 1, 2}, {"y", 0, 2}},
     3},
    {"18: the condition comes before the new state",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%q: float32[] = ReduceMax(%x) {keepdims = 0} %go: bool[] = Less(%q, %limit) %y: " T
     " = MatMul(%x, %m) yield %go, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 2}, {"y", 0, 2}},
     2},
    {"19: nested",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%q: " T " = Loop(%n, _, %x) { graph inner(%j: int64[], %l: bool[], %s: " T ") { %w: " T
     " = MatMul(%s, %m) yield %l, %w } } "
     "%z: " T " = Add(%x, %q) yield %k, %z",
     "%r: " T " = Neg(%p0) yield %r",
     {{"s", 1, 2}, {"w", 0, 2}, {"x", 0, 0}, {"z", 0, 0}},
     0},
    {"20: a branch makes what is carried",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%y: " T " = If(%k) { graph yes() { %u: " T " = MatMul(%x, %m) yield %u } graph no() { %v: " T
     " = Relu(%x) yield %v } } "
     "yield %k, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 2}, {"y", 0, 2}},
     2},
    {"20a: a branch in place, or skipped: one buffer",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%t: int64[] = Mod(%i, %three) %c1: bool[] = Greater(%t, %i) %y: " T " = If(%c1) { graph yes() { %u: " T
     " = Relu(%x) yield %u } graph no() { yield %x } } yield %k, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 0}, {"y", 0, 0}},
     1},
    {"20b: a branch not in place, or skipped: then buffers are exchanged",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%t: int64[] = Mod(%i, %three) %c1: bool[] = Less(%t, %i) %y: " T " = If(%c1) { graph yes() { %u: " T
     " = MatMul(%x, %m) yield %u } graph no() { yield %x } } yield %k, %y",
     "%r: " T " = Relu(%p0) yield %r",
     {{"x", 0, 2}, {"y", 0, 2}},
     2},
    {"20c: the same of two, one after the other, and within another loop",
     "",
     2,
     "%a0, %b",
     ", %x: " T ", %y: " T,
     "%t: int64[] = Mod(%i, %three) %p: " T ", %q: " T
     " = Loop(%t, _, %x, %y) { graph inner(%j: int64[], %l: bool[], %f: " T ", %g: " T
     ") { %t2: int64[] = Mod(%j, %three) %c1: bool[] = Greater(%t2, %i) %w: " T
     " = If(%c1) { graph yes() { %u: " T
     " = MatMul(%f, %g) yield %u } graph no() { yield %f } } yield %l, %g, %w } }\n"
     " yield %k, %p, %q",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"x", 0, 1}, {"y", 1, 1}, {"w", 0, 3}},
     0},
    {"25: a loop begins with what another one leaves",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%y: " T " = MatMul(%x, %m) yield %k, %y",
     "%q: " T " = Loop(%n, _, %p0) { graph later(%j: int64[], %l: bool[], %z: " T ") { %w: " T
     " = MatMul(%z, %m) yield %l, %w } } %r: " T " = Neg(%q) yield %r",
     {{"x", 0, 2}, {"y", 0, 2}, {"z", 1, 2}, {"w", 0, 2}},
     5},
    {"26: the same in place: one buffer for both",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%y: " T " = Relu(%x) yield %k, %y",
     "%q: " T " = Loop(%n, _, %p0) { graph later(%j: int64[], %l: bool[], %z: " T ") { %w: " T
     " = Neg(%z) yield %l, %w } } %r: " T " = Neg(%q) yield %r",
     {{"x", 0, 0}, {"z", 0, 0}, {"w", 0, 0}},
     1},
    {"27: three loops: what the first leaves waits in the second, and may be all that comes to the third",
     "%c1: bool[] = Greater(%n, %three)",
     2,
     "%a0, %b0",
     ", %x: " T ", %v: " T,
     "%y: " T " = MatMul(%x, %v) yield %k, %v, %y",
     "%q: " T ", %s: " T " = Loop(%n, %c1, %p0, %p1) { graph second(%j: int64[], %l: bool[], %z: " T
     ", %u: " T ") { %o: float32[2,8] = Reshape(%z, %flat) %t: float32[2,8] = Neg(%o) %f: " T
     " = Reshape(%t, %square) %w: " T " = MatMul(%f, %u) yield %l, %u, %w } }\n"
     " %g: " T " = Loop(%n, %c1, %s) { graph third(%j3: int64[], %l3: bool[], %h: " T ") { %e1: " T
     " = MatMul(%h, %m) yield %l3, %e1 } }\n"
     " %r0: " T " = Add(%g, %q) %r: " T " = Sub(%r0, %p1) yield %r",
     {{"x", 0, 3}, {"z", 2, 2}, {"u", 1, 2}, {"h", 1, 2}},
     0},
    {"29: what an idle loop hands on is read after the next state is made: that cannot be over the last one",
     "%c1: bool[] = Greater(%n, %three)",
     1,
     "%a0",
     ", %x: " T,
     "%q: " T " = Loop(%n, %c1, %x) { graph first(%j: int64[], %l: bool[], %z: " T ") { %w: " T
     " = MatMul(%z, %m) yield %l, %w } }\n"
     " %s: " T " = Loop(%n, %c1, %q) { graph idle(%j2: int64[], %l2: bool[], %u: " T
     ") { %o: bool[] = Not(%l2) "
     "yield %o, %u } }\n"
     " %f: float32[] = Cast(%i) {to = 1} %y: " T " = Add(%b0, %f) %e1: " T " = MatMul(%s, %y)\n"
     " %t: float32[] = ReduceMax(%e1) {keepdims = 0} %g: bool[] = Less(%t, %limit) %h: bool[] = Not(%g)\n"
     " %e2: bool[] = Or(%g, %h) yield %e2, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 2}, {"z", 1, 2}, {"y", 0, 2}},
     0},
    {"28: within another loop, through one that does nothing",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%q: " T " = Loop(%n, %k, %x) { graph first(%j: int64[], %l: bool[], %z: " T ") { %w: " T
     " = MatMul(%z, %m) yield %l, %w } }\n"
     " %s: " T " = Loop(%n, %k, %q) { graph idle(%j2: int64[], %l2: bool[], %u: " T
     ") { %o: bool[] = Not(%l2) "
     "yield %o, %u } }\n"
     " %g: " T " = Loop(%n, %k, %s) { graph last(%j3: int64[], %l3: bool[], %h: " T ") { %e1: " T
     " = MatMul(%h, %m) yield %l3, %e1 } }\n"
     " %y: " T " = MatMul(%g, %s) yield %k, %y",
     "%r: " T " = Neg(%p0) yield %r",
     {{"z", 1, 2}, {"h", 1, 2}},
     0},
    {"30: what an inner loop leaves, after any number of iterations, is the next state: buffers are "
     "exchanged",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%t: int64[] = Mod(%i, %three) %z: " T " = Loop(%t, _, %x) { graph inner(%j: int64[], %l: bool[], %p: " T
     ") { %w: " T " = MatMul(%p, %m) yield %l, %w } }\n yield %k, %z",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 1}, {"p", 0, 2}, {"w", 0, 2}, {"z", 0, 1}},
     2},
    {"31: the same, beginning with a new value",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%t: int64[] = Mod(%i, %three) %y: " T " = MatMul(%x, %m) %z: " T
     " = Loop(%t, _, %y) { graph inner(%j: int64[], %l: bool[], %p: " T ") { %w: " T
     " = MatMul(%p, %m) yield %l, %w } }\n %s: " T " = Neg(%z) %h: float32[] = ReduceMax(%s) {keepdims = 0}\n"
     " %e1: bool[] = Less(%h, %limit) %e2: bool[] = Not(%e1) %e3: bool[] = Or(%e1, %e2) yield %e3, %z",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 1}, {"p", 0, 2}, {"w", 0, 2}, {"z", 0, 1}},
     2},
    {"32: the inner loop reads the old state in every iteration",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%t: int64[] = Mod(%i, %three) %z: " T " = Loop(%t, _, %x) { graph inner(%j: int64[], %l: bool[], %p: " T
     ") { %w: " T " = MatMul(%p, %x) yield %l, %w } }\n yield %k, %z",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 0, 1}, {"p", 1, 2}, {"w", 0, 2}, {"z", 0, 1}},
     3},
    {"33: an inner swap, and a second inner loop",
     "",
     3,
     "%a0, %b0, %c0",
     ", %x: " T ", %y: " T ", %v: " T,
     "%t: int64[] = Mod(%i, %three) %z: " T ", %s: " T
     " = Loop(%t, _, %x, %y) { graph inner(%j: int64[], %l: bool[], %p: " T ", %q: " T
     ") { yield %l, %q, %p } }\n"
     " %u: " T " = Loop(%t, _, %v) { graph second(%j2: int64[], %l2: bool[], %f: " T ") { %g: " T
     " = MatMul(%f, %z) yield %l2, %g } }\n yield %k, %z, %s, %u",
     "%r0: " T " = Add(%p0, %p2) %r: " T " = Sub(%r0, %p1) yield %r",
     {{"x", 0, 1}, {"y", 0, 1}, {"p", 0, 2}, {"z", 0, 1}, {"s", 0, 1}, {"v", 0, 1}, {"u", 0, 1}},
     0},
    {"34: two iterations back, handed on by both",
     "",
     2,
     "%a0, %b0",
     ", %x: " T ", %y: " T,
     "%t: int64[] = Mod(%i, %three) %z: " T ", %s: " T
     " = Loop(%t, _, %x, %y) { graph inner(%j: int64[], %l: bool[], %p: " T ", %q: " T ") { %w: " T
     " = MatMul(%p, %q) yield %l, %q, %w } }\n yield %k, %z, %s",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"x", 0, 1}, {"y", 0, 1}, {"p", 0, 3}, {"q", 0, 3}, {"w", 0, 3}, {"z", 0, 1}, {"s", 0, 1}},
     3},
    {"35: three loops deep, from the caller's buffer",
     "",
     1,
     "%a",
     ", %x: " T,
     "%t: int64[] = Mod(%i, %three) %z: " T
     " = Loop(%three, _, %x) { graph middle(%j: int64[], %l: bool[], %y: " T
     ") { %d1: int64[] = Add(%t, %j) %t2: int64[] = Mod(%d1, %three) %u: " T
     " = Loop(%t2, _, %y) { graph inner(%j2: int64[], %l2: bool[], %p: " T ") { %w: " T
     " = MatMul(%p, %m) yield %l2, %w } } yield %l, %u } }\n yield %k, %z",
     "%r: " T " = Neg(%p0) yield %r",
     {{"x", 1, 1}, {"y", 1, 1}, {"p", 1, 2}, {"z", 0, 1}, {"u", 0, 1}},
     0},
    {"36: read by an operator that could write over it, and by a later loop",
     "",
     1,
     "%a0",
     ", %x: " T,
     "%t: int64[] = Mod(%i, %three) %z: " T " = Loop(%t, _, %x) { graph inner(%j: int64[], %l: bool[], %p: " T
     ") { %w: " T " = MatMul(%p, %m) yield %l, %w } }\n yield %k, %z",
     "%q: " T " = Loop(%n, _, %p0) { graph later(%j2: int64[], %l2: bool[], %s: " T ") { %e1: " T
     " = MatMul(%s, %m) yield %l2, %e1 } } %r: " T " = Relu(%q) yield %r",
     {{"x", 0, 1}, {"p", 0, 2}, {"z", 0, 1}, {"s", 1, 2}},
     0},
    {"37: an LSTM writes its states over the old ones",
     WEIGHTS,
     2,
     "%a0, %c0",
     ", %x: " T ", %z: " T,
     "%h: " S " = Reshape(%x, %state) %cell: " S " = Reshape(%z, %state)\n"
     " %y: float32[1,1,4,4], %hn: " S ", %cn: " S
     " = LSTM(%in, %w4, %w4, _, _, %h, %cell) {hidden_size = 4}\n"
     " %h1: " T " = Reshape(%hn, %square) %c1: " T " = Reshape(%cn, %square) yield %k, %h1, %c1",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"x", 0, 0}, {"z", 0, 0}, {"hn", 0, 0}, {"cn", 0, 0}},
     2},
    {"38: but for one that is read once more",
     WEIGHTS,
     3,
     "%a0, %c0, %d0",
     ", %x: " T ", %z: " T ", %q: " T,
     "%h: " S " = Reshape(%x, %state) %cell: " S " = Reshape(%z, %state)\n"
     " %y: float32[1,1,4,4], %hn: " S ", %cn: " S
     " = LSTM(%in, %w4, %w4, _, _, %h, %cell) {hidden_size = 4}\n"
     " %h1: " T " = Reshape(%hn, %square) %c1: " T " = Reshape(%cn, %square) %t: " T " = MatMul(%x, %h1)\n"
     " %u: " T " = Add(%q, %t) yield %k, %h1, %c1, %u",
     "%r0: " T " = Sub(%p0, %p1) %r: " T " = Sub(%r0, %p2) yield %r",
     {{"x", 0, 2}, {"z", 0, 0}, {"hn", 0, 2}, {"cn", 0, 0}, {"q", 0, 0}},
     0},
    {"39: or is the input as well",
     WEIGHTS,
     2,
     "%a0, %c0",
     ", %x: " T ", %z: " T,
     "%h: " S " = Reshape(%x, %state) %cell: " S " = Reshape(%z, %state)\n"
     " %y: float32[1,1,4,4], %hn: " S ", %cn: " S " = LSTM(%h, %w4, %w4, _, _, %h, %cell) {hidden_size = 4}\n"
     " %h1: " T " = Reshape(%hn, %square) %c1: " T " = Reshape(%cn, %square) yield %k, %h1, %c1",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"x", 0, 2}, {"z", 0, 0}, {"hn", 0, 2}, {"cn", 0, 0}},
     3},
    {"40: both states begin with one value",
     WEIGHTS,
     2,
     "%a0, %a0",
     ", %x: " T ", %z: " T,
     "%h: " S " = Reshape(%x, %state) %cell: " S " = Reshape(%z, %state)\n"
     " %y: float32[1,1,4,4], %hn: " S ", %cn: " S
     " = LSTM(%in, %w4, %w4, _, _, %h, %cell) {hidden_size = 4}\n"
     " %h1: " T " = Reshape(%hn, %square) %c1: " T " = Reshape(%cn, %square) yield %k, %h1, %c1",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"hn", 0, 0}, {"cn", 0, 0}},
     2},
    {"41: the states are exchanged",
     WEIGHTS,
     2,
     "%a0, %c0",
     ", %x: " T ", %z: " T,
     "%h: " S " = Reshape(%x, %state) %cell: " S " = Reshape(%z, %state)\n"
     " %y: float32[1,1,4,4], %hn: " S ", %cn: " S
     " = LSTM(%in, %w4, %w4, _, _, %h, %cell) {hidden_size = 4}\n"
     " %h1: " T " = Reshape(%hn, %square) %c1: " T " = Reshape(%cn, %square) yield %k, %c1, %h1",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"hn", 0, 2}, {"cn", 0, 2}},
     2},
    {"42: a GRU, and an RNN after it",
     WEIGHTS,
     2,
     "%a0, %c0",
     ", %x: " T ", %z: " T,
     "%h: " S " = Reshape(%x, %state) %g: " S " = Reshape(%z, %state)\n"
     " %y: float32[1,1,4,4], %hn: " S " = GRU(%in, %w3, %w3, _, _, %h) {hidden_size = 4}\n"
     " %o: " S " = Reshape(%y, %state) _, %gn: " S " = RNN(%o, %w1, %w1, _, _, %g) {hidden_size = 4}\n"
     " %h1: " T " = Reshape(%hn, %square) %g1: " T " = Reshape(%gn, %square) yield %k, %h1, %g1",
     "%r: " T " = Sub(%p0, %p1) yield %r",
     {{"x", 0, 0}, {"z", 0, 0}, {"hn", 0, 0}, {"gn", 0, 0}},
     2},
};
enum { CASES = sizeof cases / sizeof *cases };

static void write_module(const loop_case *of, char *text, size_t capacity) {
    char outputs[256] = "", numbers[512] = "";
    for (int i = 0; i < of->carried; i++) {
        size_t length = strlen(outputs);
        snprintf(outputs + length, sizeof outputs - length, "%s%%p%d: " T, i ? ", " : "", i);
    }
    for (int i = 0; i < ELEMENTS; i++) {
        size_t length = strlen(numbers);
        snprintf(numbers + length, sizeof numbers - length, "%s%g", i ? ", " : "", 0.25 * (i % 5) - 0.375);
    }
    int written =
        snprintf(text, capacity,
                 "module \"case\" {\n constant %%m: " T " = {%s}\n"
                 " constant %%limit: float32[] = {0.45} constant %%three: int64[] = {3}\n"
                 " constant %%flat: int64[2] = {2, 8} constant %%square: int64[2] = {4, 4}\n"
                 " constant %%state: int64[3] = {1, 4, 4}\n"
                 " graph main(%%n: int64[], %%a: " T ", %%b: " T ", %%c: " T ", %%d: " T ", %%e: " T ") {\n"
                 " %%a0: " T " = Neg(%%a) %%b0: " T " = Neg(%%b) %%c0: " T " = Neg(%%c)\n"
                 " %%d0: " T " = Neg(%%d) %%e0: " T " = Neg(%%e)\n %s\n"
                 " %s = Loop(%%n, _, %s) { graph body(%%i: int64[], %%k: bool[]%s) {\n %s } }\n %s\n } }\n",
                 numbers, of->before, outputs, of->initial, of->parameters, of->body, of->after);
    assert_true(written > 0 && (size_t)written < capacity);
}

/* Adds an address to those seen; entries that are views of an enclosing loop count by themselves, exchanged buffers are where
 * they are at first. */
static void see(const plan *of, plan_address *seen, uint64_t *count, plan_address address) {
    if (address.space == MEMORY_MULTIVIEW && of->multiviews[address.index].group)
        address = plan_multiview_entry(of, address.index, 0);
    for (uint64_t i = 0; i < *count; i++) {
        if (seen[i].space == address.space && seen[i].index == address.index &&
            seen[i].offset == address.offset)
            return;
    }
    assert_true(*count < MOST_PLACES);
    seen[(*count)++] = address;
}

static uint64_t check_views(const plan *of, const loop_case *expected) {
    plan_address seen[MOST_PLACES];
    uint64_t count = 0, longest = 1;
    for (int i = 0; i < 8 && expected->views[i].name; i++) {
        const expected_view *view = &expected->views[i];
        const plan_tensor *tensor = support_find_tensor(of, view->name);
        if (view->period == 0) {
            if (tensor->address.space == MEMORY_MULTIVIEW) {
                fail_msg("%s: %%%s has an address that changes: prologue %u, period %u", expected->name,
                         view->name, of->multiviews[tensor->address.index].prologue_count,
                         of->multiviews[tensor->address.index].period);
            }
            see(of, seen, &count, tensor->address);
            continue;
        }
        if (tensor->address.space != MEMORY_MULTIVIEW)
            fail_msg("%s: %%%s has one fixed address", expected->name, view->name);
        const plan_multiview *table = &of->multiviews[tensor->address.index];
        if (table->prologue_count != view->prologue || table->period != view->period) {
            fail_msg("%s: %%%s has prologue %u and period %u, expected %u and %u", expected->name, view->name,
                     table->prologue_count, table->period, view->prologue, view->period);
        }
        for (uint32_t t = 0; t < table->prologue_count + table->period; t++) {
            plan_address entry = plan_multiview_entry(of, tensor->address.index, t);
            entry.offset += tensor->address.offset;
            see(of, seen, &count, entry);
        }
        if (table->prologue_count + table->period > longest) longest = table->prologue_count + table->period;
    }
    if (expected->buffers && count != expected->buffers) {
        fail_msg("%s: %llu places, expected %llu", expected->name, (unsigned long long)count,
                 (unsigned long long)expected->buffers);
    }
    return longest;
}

static void test_cases(void **state) {
    (void)state;
    static float data[5][ELEMENTS];
    for (int i = 0; i < 5; i++) {
        for (int e = 0; e < ELEMENTS; e++) data[i][e] = (float)((e * 7 + i * 3) % 11) / 8 - 0.5f;
    }
    for (int c = 0; c < CASES; c++) {
        char text[8192];
        support_session on;
        write_module(&cases[c], text, sizeof text);
        support_session_open(&on, text, 1);
        const plan *of = rt_plan_of(on.plan);
        uint64_t longest = check_views(of, &cases[c]);
        support_check_no_copies(of, cases[c].name);
        for (int i = 0; i < 5; i++) support_bind(&on, 1 + (size_t)i, data[i], BYTES);
        for (int64_t n = 0; n <= 2 * (int64_t)longest + 1; n++) {
            support_bind(&on, 0, &n, sizeof n);
            support_run(&on);
        }
        support_session_close(&on);
    }
}

/* 23: one input scanned backwards, one forwards, the result stacked backwards: every slice where it lies. */
static void test_slices(void **state) {
    (void)state;
    support_session on;
    float x[6] = {1, 2, 3, 4, 5, 6}, z[6] = {10, 20, 30, 40, 50, 60};
    support_session_open(
        &on,
        "module \"scan\" { constant %n: int64[] = {3}\n"
        " graph main(%x: float32[3,2], %z: float32[3,2]) {\n"
        "  %y: float32[3,2] = Loop(%n, _, %x, %z) {ouro.scan_inputs = 2, ouro.scan_outputs = 1,\n"
        "   ouro.scan_input_axes = [0, 0], ouro.scan_input_directions = [1, 0], ouro.scan_output_axes = "
        "[0],\n"
        "   ouro.scan_output_directions = [1]} {\n"
        "   graph body(%i: int64[], %k: bool[], %u: float32[2], %v: float32[2]) { %w: float32[2] = Add(%u, "
        "%v) yield %k, %w } }\n"
        "  yield %y } }\n",
        1);
    const plan *of = rt_plan_of(on.plan);
    static const struct {
        const char *name;
        uint32_t place;
        uint64_t first;
        int64_t stride;
    } expected[3] = {{"u", MEMORY_INPUT, 16, -8}, {"v", MEMORY_INPUT, 0, 8}, {"w", MEMORY_OUTPUT, 16, -8}};
    for (int i = 0; i < 3; i++) {
        const plan_tensor *tensor = support_find_tensor(of, expected[i].name);
        assert_int_equal(tensor->address.space, MEMORY_MULTIVIEW);
        assert_int_equal(of->multiviews[tensor->address.index].stride, expected[i].stride);
        plan_address first = plan_multiview_entry(of, tensor->address.index, 0);
        assert_int_equal(first.space, expected[i].place);
        assert_int_equal(first.offset, expected[i].first);
    }
    support_bind(&on, 0, x, sizeof x);
    support_bind(&on, 1, z, sizeof z);
    support_run(&on);
    const float *y = support_output(&on, 0, sizeof x);
    /* Iteration 0 adds x[2] and z[0] and lies last. */
    assert_true(y[4] == 5 + 10 && y[5] == 6 + 20 && y[2] == 3 + 30 && y[3] == 4 + 40 && y[0] == 1 + 50 &&
                y[1] == 2 + 60);
    support_session_close(&on);
}

/* 21: what is carried is stacked, too: the parameter reads the slice before. */
static void test_stacked_and_carried(void **state) {
    (void)state;
    support_session on;
    float x[2] = {1, 2};
    support_session_open(
        &on,
        "module \"stack\" { constant %n: int64[] = {3} constant %m: float32[2,2] = {0, 1, 2, 0}\n"
        " graph main(%x: float32[1,2]) {\n"
        "  %p: float32[1,2], %y: float32[3,1,2] = Loop(%n, _, %x) {ouro.scan_outputs = 1, "
        "ouro.scan_output_axes = [0]} {\n"
        "   graph body(%i: int64[], %k: bool[], %u: float32[1,2]) { %w: float32[1,2] = MatMul(%u, %m) yield "
        "%k, %w, %w } }\n"
        "  %r: float32[1,2] = Neg(%p) yield %r, %y } }\n",
        1);
    const plan *of = rt_plan_of(on.plan);
    const plan_tensor *u = support_find_tensor(of, "u"), *w = support_find_tensor(of, "w");
    assert_int_equal(u->address.space, MEMORY_MULTIVIEW);
    assert_int_equal(w->address.space, MEMORY_MULTIVIEW);
    assert_int_equal(of->multiviews[u->address.index].prologue_count, 1);
    assert_int_equal(of->multiviews[u->address.index].stride, 8);
    assert_int_equal(of->multiviews[w->address.index].stride, 8);
    support_check_no_copies(of, "21");
    support_bind(&on, 0, x, sizeof x);
    support_run(&on);
    const float *y = support_output(&on, 1, 24), *p = support_output(&on, 0, 8);
    /* (a, b) becomes (2 b, a). */
    assert_true(y[0] == 4 && y[1] == 1 && y[2] == 2 && y[3] == 4 && y[4] == 8 && y[5] == 2 && p[0] == -8 &&
                p[1] == -2);
    support_session_close(&on);
}

/* What a loop of unknown length leaves of one value may be a part of what it leaves of another. */
static void test_part_of_another(void **state) {
    (void)state;
    support_session on;
    const float a[4] = {1, -2, 3, -4}, b[16] = {5, 6, 7, 8};
    support_session_open(
        &on,
        "module \"part\" { graph main(%n: int64[], %a: float32[1,4], %b: float32[4,4]) { %b0: float32[4,4] = "
        "Neg(%b)\n"
        "  %p: float32[1,4], %q: float32[4,4] = Loop(%n, _, %a, %b0) {\n"
        "   graph body(%i: int64[], %k: bool[], %x: float32[1,4], %m: float32[4,4]) {\n"
        "    %f: float32[] = Cast(%i) {to = 1} %y0: float32[1,4] = Add(%a, %f) %y1: float32[1,4] = Sub(%a, "
        "%f)\n"
        "    %y2: float32[1,4] = Mul(%a, %f) %y3: float32[1,4] = Max(%a, %f)\n"
        "    %z: float32[4,4] = Concat(%y0, %y1, %y2, %y3) {axis = 0} yield %k, %y2, %z } }\n"
        "  %r: float32[1,4] = Relu(%p) yield %q, %r } }\n",
        1);
    for (int64_t n = 0; n <= 4; n++) {
        support_bind(&on, 0, &n, sizeof n);
        support_bind(&on, 1, a, sizeof a);
        support_bind(&on, 2, b, sizeof b);
        support_run(&on);
        const float *q = support_output(&on, 0, sizeof b), *r = support_output(&on, 1, sizeof a);
        for (int e = 0; e < 4; e++) {
            float t = (float)n - 1, last = n ? a[e] * t : a[e];
            assert_true(r[e] == (last > 0 ? last : 0));
            assert_true(n ? q[8 + e] == last && q[e] == a[e] + t : q[e] == -b[e]);
        }
    }
    support_session_close(&on);
}

/* 24: a million swaps, ended by what they compute: the arena is what two values need. */
static void test_many_trips(void **state) {
    (void)state;
    support_session on;
    float x[1] = {1}, y[1] = {2};
    int64_t limit = 1000000;
    support_session_open(&on,
                         "module \"many\" { constant %one: int64[] = {1}\n"
                         " graph main(%limit: int64[], %x: float32[1], %y: float32[1]) {\n"
                         "  %p: float32[1], %q: float32[1] = Loop(_, _, %x, %y) { graph body(%i: int64[], "
                         "%k: bool[], %a: float32[1],\n"
                         "   %b: float32[1]) { %j: int64[] = Add(%i, %one) %go: bool[] = Less(%j, %limit) "
                         "yield %go, %b, %a } }\n"
                         "  yield %p, %q } }\n",
                         1);
    support_bind(&on, 0, &limit, sizeof limit);
    support_bind(&on, 1, x, sizeof x);
    support_bind(&on, 2, y, sizeof y);
    ouro_error error;
    assert_int_equal(ouro_session_run(on.session, &error), OURO_OK);
    assert_true(*(const float *)support_output(&on, 0, 4) == 1);
    limit = 999999;
    assert_int_equal(ouro_session_run(on.session, &error), OURO_OK);
    assert_true(*(const float *)support_output(&on, 0, 4) == 2);
    assert_true(ouro_plan_arena_bytes(on.plan) <= 1024);
    support_session_close(&on);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_slices),
                                       cmocka_unit_test(test_stacked_and_carried),
                                       cmocka_unit_test(test_many_trips),
                                       cmocka_unit_test(test_part_of_another)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
