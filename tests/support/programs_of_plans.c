/* SPDX-License-Identifier: Apache-2.0 */
/* programs_of_plans.c: see programs_of_plans.h. */
#include "tests/support/programs_of_plans.h"
#include "tests/support/plan.h"
#include <stdlib.h>

#define T "float32[4,4]"

const support_plan_program support_plan_programs[SUPPORT_PLAN_PROGRAMS] = {
    {"in a line",
     "module \"line\" { constant %ends: int64[2] = {1, 3} constant %k: int64[1] = {2} constant %form: "
     "int64[2] = {2, 8}\n"
     " graph main(%x: " T ", %y: " T ") { %a: " T " = MatMul(%x, %y)\n"
     "  %p: float32[1,4], %q: float32[3,4] = Split(%a, %ends) {axis = 0}\n"
     "  %b: float32[1,4] = Exp(%p) %c: float32[3,4] = Cos(%q)\n"
     "  %d: " T " = Concat(%b, %c) {axis = 0} %e: " T " = Softmax(%d) {axis = 1}\n"
     "  %v: float32[4,2], %i: int64[4,2] = TopK(%e, %k) {axis = 1}\n"
     "  %f: float32[2,8] = Reshape(%y, %form) %g: float32[2,8] = Exp(%f) yield %v, %i, %d, %g } }\n"},
    {"a loop that swaps",
     "module \"swap\" { constant %trips: int64[] = {5}\n"
     " graph main(%x: " T ", %y: " T ") { %m: " T " = Neg(%x)\n"
     "  %p: " T ", %q: " T " = Loop(%trips, _, %m, %y) { graph body(%i: int64[], %k: bool[], %a: " T
     ", %b: " T ") { %c: " T " = MatMul(%a, %b) yield %k, %b, %c } }\n"
     "  %r: " T " = Add(%p, %q) yield %r } }\n"},
    {"slices, stacks, a branch",
     "module \"slices\" { constant %trips: int64[] = {4}\n"
     " graph main(%x: " T ", %go: bool[]) { %m: " T " = Neg(%x)\n"
     "  %s: " T " = Loop(%trips, _, %m) {ouro.scan_inputs = 1, ouro.scan_outputs = 1} {\n"
     "   graph body(%i: int64[], %k: bool[], %u: float32[4]) {\n"
     "    %w: float32[4] = If(%go) { graph yes() { %f: float32[4] = Abs(%u) yield %f }"
     " graph no() { %g: float32[4] = Exp(%u) yield %g } }\n"
     "    yield %k, %w } }\n"
     "  %r: " T " = Neg(%s) yield %r } }\n"},
    {"what grows", "module \"growth\" { constant %eight: int64[] = {8}\n"
                   " graph main(%n: int64[], %a: " T ") { %a0: " T " = Neg(%a)\n"
                   "  %p: float32[?,4] = Loop(%eight, _, %a0) {\n"
                   "   graph body(%i: int64[], %k: bool[], %c: float32[?,4]) { %go: bool[] = Less(%i, %n)\n"
                   "    %d: float32[?,4] = Concat(%c, %a) {axis = 0} yield %go, %d } }\n"
                   "  %t: float32[?,4] = Abs(%p) yield %t } }\n"},
    {"sequences and dynamic dimensions",
     "module \"sequences\" { symbol N constant %one: int64[] = {1}\n"
     " graph main(%x: float32[N,4], %y: float32[4]) { %a: float32[N,4] = Add(%x, %y)\n"
     "  %s: sequence(float32[...]) = SequenceConstruct(%a, %x)\n"
     "  %t: sequence(float32[...]) = SequenceInsert(%s, %a)\n"
     "  %z: float32[...] = SequenceAt(%t, %one) yield %z, %t } }\n"},
    {"loops within loops, buffers that swap",
     "module \"nested\" { constant %three: int64[] = {3}\n"
     " graph main(%n: int64[], %a: " T ", %b: " T ") { %a0: " T " = Neg(%a) %b0: " T " = Neg(%b)\n"
     "  %p: " T ", %q: " T ", %g: " T
     " = Loop(%three, _, %a0, %b0, %b) { graph body(%i: int64[], %k: bool[], %x: " T ", %y: " T ", %v: " T
     ") { %t: int64[] = Mod(%i, %three) %z: " T
     " = Loop(%t, _, %x) { graph inner(%j: int64[], %l: bool[], %s: " T ") { %w: " T
     " = MatMul(%s, %x) %o: " T " = Relu(%w) yield %l, %o } }\n %h: " T ", %d: " T
     " = Loop(%t, _, %y, %v) { graph swap(%j2: int64[], %l2: bool[], %c: " T ", %e: " T
     ") { yield %l2, %e, %c } } yield %k, %z, %h, %d } } %u: " T " = Sub(%p, %q) %r: " T
     " = Sub(%u, %g) yield %r } }\n"},
    {"a loop that ends in the caller's buffers, one that ends anywhere, a branch that chooses",
     "module \"ends\" { graph main(%n: int64[], %go: bool[], %x: " T ", %y: " T ", %z: " T ") {\n"
     "  %p: " T ", %q: " T " = Loop(%n, _, %x, %y) { graph body(%i: int64[], %k: bool[], %a: " T ", %b: " T
     ") { %c: " T " = MatMul(%a, %b) yield %k, %b, %c } }\n"
     "  %r: " T " = Loop(%n, _, %x) { graph other(%j: int64[], %l: bool[], %d: " T ") { %e: " T
     " = MatMul(%d, %y) %f: float32[] = ReduceMax(%e) {keepdims = 0} %g: float32[] = Neg(%f)\n"
     "    %h: bool[] = Less(%f, %g) yield %h, %e } }\n"
     "  %u: " T " = If(%go) { graph yes() { yield %x } graph no() { yield %z } }\n"
     "  %v: " T " = MatMul(%u, %z) yield %p, %q, %r, %v } }\n"},
    {"a branch that keeps what others go on with, beside a buffer that swaps",
     "module \"kept\" { constant %three: int64[] = {3} constant %one: int64[] = {1}\n"
     " graph main(%n: int64[], %a: " T ", %b: " T ") { %a0: " T " = Neg(%a) %b0: " T " = Neg(%b) %c0: " T
     " = Abs(%a)\n  %p: " T ", %q: " T ", %g: " T
     " = Loop(%n, _, %a0, %b0, %c0) { graph body(%i: int64[], %k: bool[], %x: " T ", %best: " T ", %v: " T
     ") { %t: int64[] = Mod(%i, %three) %c: bool[] = Less(%t, %one) %y: " T " = MatMul(%x, %b)\n"
     "   %z: " T " = If(%c) { graph yes() { yield %y } graph no() { yield %best } }\n"
     "   %w: " T " = Loop(%t, _, %v) { graph inner(%j: int64[], %l: bool[], %s: " T ") { %o: " T
     " = MatMul(%s, %b) yield %l, %o } } yield %k, %y, %z, %w } } %u: " T " = Sub(%p, %q) %r: " T
     " = Sub(%u, %g) yield %r } }\n"},
    {"states, and a step that can fail",
     "module \"states\" {\n"
     " graph main(%h: " T ", %c: " T ", %x: " T ", %at: int64[4]) states 2 { %y: " T " = Add(%h, %x)\n"
     "  %g: " T " = Gather(%x, %at) {axis = 0} %m: " T " = MatMul(%c, %g) %o: " T " = Sub(%m, %y)\n"
     "  yield %y, %m, %o } }\n"},
    {"a cache that grows up to a bound",
     "module \"cache\" { symbol P most 6\n"
     " graph main(%past: float32[2,P,4], %m: " T ", %q: " T ", %x: float32[2,1,4]) states 2 {\n"
     "  %present: float32[2,?,4] = Concat(%past, %x) {axis = 1} %n: " T " = MatMul(%m, %q)\n"
     "  %t: float32[2,4,?] = Transpose(%present) {perm = [0, 2, 1]} %s: float32[2,1,?] = MatMul(%x, %t)\n"
     "  yield %present, %n, %s } }\n"},
    {"bands of rows",
     "module \"bands\" { constant %trips: int64[] = {3} constant %two: int64[] = {2} constant %rows: "
     "int64[2] = {1, 2}\n"
     " constant %at: int64[1] = {0} constant %axis: int64[1] = {2} constant %end: int64[1] = {4}\n"
     " graph main(%x: float32[1,2,8,4], %k0: float32[1,2,2,4]) { %k1: float32[1,2,2,4] = Neg(%k0)\n"
     "  %y1: float32[1,2,8,4] = Neg(%x) %p: float32[1,2,2,4], %q: float32[1,2,8,4] = Loop(%trips, _, %k1, "
     "%y1) {\n"
     "   graph body(%i: int64[], %c: bool[], %k: float32[1,2,2,4], %y: float32[1,2,8,4]) {\n"
     "    %o: int64[] = Mul(%i, %two) %r: int64[2] = Add(%rows, %o)\n"
     "    %b: float32[1,2,2,4] = Gather(%x, %r) {axis = 2} %s: float32[1,2,4,4] = Concat(%k, %b) {axis = 2}\n"
     "    %z: float32[1,2,2,4] = AveragePool(%s) {kernel_shape = [3, 1]}\n"
     "    %n: float32[1,2,2,4] = Slice(%s, %axis, %end, %axis) %t: int64[1] = Add(%at, %o)\n"
     "    %u: float32[1,2,8,4] = TensorScatter(%y, %z, %t) {axis = 2} yield %c, %n, %u } }\n"
     "  %v: float32[1,2,8,4] = Neg(%q) yield %v, %p } }\n"},
    {"weights in four bits, a loop that hands on what a branch makes",
     "module \"bits\" { constant %trips: int64[] = {3}\n"
     " constant %packed: uint8[4,1,8] = {1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0, 0, 0, "
     "0, 0, 7, "
     "8, 0, 0, 0, 0, 0, 0}\n"
     " constant %ones: float32[4] = {1, 0.5, 0.25, 2}\n"
     " graph main(%x: " T ", %go: bool[]) { %m: " T " = Neg(%x)\n"
     "  %s: " T " = Loop(%trips, _, %m) { graph body(%i: int64[], %k: bool[], %u: " T ") {\n"
     "   %p: " T
     " = com.microsoft.MatMulNBits(%u, %packed, %ones) {K = 4, N = 4, bits = 4, block_size = 16}\n"
     "   %w: " T " = If(%go) { graph yes() { %f: " T " = Abs(%p) yield %f }"
     " graph no() { %g: " T " = Softmax(%p) {axis = 1} yield %g } }\n"
     "   yield %k, %w } }\n"
     "  %r: " T " = Neg(%s) yield %r, %s } }\n"},
    {"a sample of a batch",
     "module \"samples\" { symbol N batch N constant %w: float32[4,4] = {1, 0.5, 0.25, 2, 3, 1, 0, 1, 0, 1, "
     "2, 1, 1, 0, 0, 1}\n"
     " graph main(%x: float32[1,4] sample, %k: " T ", %z: float32[1,1]) { %m: float32[1,4] = MatMul(%x, %w)\n"
     "  %a: float32[1,4] = Add(%m, %z) %p: float32[1,4] = MatMul(%a, %k) %s: float32[1,4] = Tanh(%p)\n"
     "  yield %p, %s } }\n"},
    {"what is spilled, beside a state",
     "module \"spilled\" { graph main(%h: " T ", %x: " T ", %go: bool[]) states 1 {\n"
     "  %a: " T " = MatMul(%x, %h) %s: " T " = ouro.Spill(%a) %b: " T " = Softmax(%a) {axis = 1}\n"
     "  %c: " T " = MatMul(%b, %x) %t: float32[4,4] = ouro.Spill(%c) %d: " T " = Softmax(%c) {axis = 0}\n"
     "  %r: " T " = ouro.Restore(%s) %e: " T " = MatMul(%d, %r) %q: " T " = ouro.Spill(%e)\n"
     "  %f: " T " = If(%go) { graph yes() { %i: " T " = MatMul(%e, %x) yield %i } graph no() { yield %e } }\n"
     "  %u: " T " = ouro.Restore(%t) %g: " T " = MatMul(%f, %u) %v: " T " = ouro.Restore(%q)\n"
     "  %w: " T " = ouro.Restore(%t) %o: " T " = Add(%g, %v) %z: " T " = MatMul(%w, %o) %y: " T
     " = Add(%h, %x)\n"
     "  yield %y, %z } }\n"},
};

const unsigned char *support_shared_plan(size_t number, size_t *size) {
    static unsigned char *plans[SUPPORT_PLAN_PROGRAMS];
    static size_t sizes[SUPPORT_PLAN_PROGRAMS];
    number %= SUPPORT_PLAN_PROGRAMS;
    if (!plans[number])
        plans[number] = support_plan(support_plan_programs[number].text, true, &sizes[number]);
    *size = sizes[number];
    return plans[number];
}

const support_ran *support_shared_outcome(size_t number) {
    static support_ran outcomes[SUPPORT_PLAN_PROGRAMS][SUPPORT_RUNS];
    static bool known[SUPPORT_PLAN_PROGRAMS];
    enum { MOST_SECONDS = 60 };
    number %= SUPPORT_PLAN_PROGRAMS;
    if (!known[number]) {
        size_t size;
        ouro_plan *handle;
        ouro_error error;
        const unsigned char *bytes = support_shared_plan(number, &size);
        if (ouro_plan_open(bytes, size, &handle, &error) != OURO_OK ||
            !support_plan_outcome(handle, MOST_SECONDS, outcomes[number]))
            abort();
        ouro_plan_free(handle);
        known[number] = true;
    }
    return outcomes[number];
}
