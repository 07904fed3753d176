/* SPDX-License-Identifier: Apache-2.0 */
/* program.c: see program.h.
 *
 * Deleting for shrinking never moves anything: a statement is marked, and its values are replaced by inputs of
 * the same kind. So every edit can be taken back.
 */
#include "tests/support/program_parts.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- making -------------------------------------------------------------------------------------------- */

static int below(program *of, int limit) {
    return (int)(support_random(&of->random) % (uint64_t)limit);
}

static void *take(program *of, size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    void **grown = realloc(of->blocks_of_memory, (of->memory_count + 1) * sizeof *grown);
    assert_true(memory && grown);
    of->blocks_of_memory = grown;
    grown[of->memory_count++] = memory;
    return memory;
}

typedef struct scope {
    program *of;
    int visible[VALUES];
    int count;
    statement *loop;                 /* the innermost around */
    int left[VALUES], begun[VALUES]; /* what loops of this very block carried, and what it was first */
    int left_count;
    int depth;
} scope;

static int make_value(program *of, kind what) {
    assert_true(of->value_count < VALUES);
    of->kinds[of->value_count] = what;
    return of->value_count++;
}

static bool is_full(const program *of) {
    return of->value_count > VALUES - 64;
}

static void see(scope *s, int value) {
    s->visible[s->count++] = value;
}

/* Mostly something recent, so that programs are long rather than wide. There always is an input of the kind. */
static int pick(scope *s, kind what) {
    for (int tries = 0; tries < 12; tries++) {
        int recent = s->count < 7 || below(s->of, 3) == 0 ? s->count : 7;
        int value = s->visible[s->count - 1 - below(s->of, recent)];
        if (s->of->kinds[value] == what) return value;
    }
    return what == FLAG ? YES + below(s->of, 2) : what == MATRIX ? MATRIX_0 : ROW_0;
}

/* Often what an inner loop left: whole chains of loops hand on one state. */
static int pick_result(scope *s, kind what, int parameter) {
    for (int i = s->left_count; i-- > 0 && below(s->of, 4);)
        if (s->begun[i] == parameter) return s->left[i];
    for (int tries = 0; tries < 2 && s->left_count && below(s->of, 2); tries++) {
        int value = s->left[below(s->of, s->left_count)];
        if (s->of->kinds[value] == what) return value;
    }
    return pick(s, what);
}

/* Often a state of the loop around. */
static int pick_initial(scope *s, kind what) {
    if (s->loop && s->loop->carried && below(s->of, 3) == 0) {
        int value = s->loop->parameters[below(s->of, s->loop->carried)];
        if (s->of->kinds[value] == what) return value;
    }
    return pick(s, what);
}

static kind any_kind(scope *s) {
    return below(s->of, 2) ? ROW : MATRIX;
}

static void make_block(scope *s, block *into, int most);

static void make_loop(scope *s, statement *loop) {
    program *of = s->of;
    loop->number = of->loop_count++;
    loop->counted = below(of, 3) == 0;
    loop->trips = loop->counted ? PROGRAM_SIDE : below(of, 2) ? -1 : below(of, 6);
    loop->begins = loop->counted || below(of, 3) ? 0 : pick(s, FLAG);
    loop->carried = below(of, CARRIED + 1);
    loop->scans = loop->counted ? below(of, SLICES + 1) : 0;
    loop->stacks = below(of, loop->counted ? SLICES + 1 : SLICES);
    if (loop->carried + loop->stacks == 0) loop->carried = 1;
    scope inner = *s;
    inner.loop = loop;
    inner.left_count = 0;
    inner.depth++;
    for (int i = 0; i < loop->carried; i++) {
        kind what = any_kind(s);
        loop->initial[i] = pick_initial(s, what);
        see(&inner, loop->parameters[i] = make_value(of, what));
    }
    for (int i = 0; i < loop->scans; i++) {
        loop->whole[i] = pick(s, MATRIX);
        loop->scan_axis[i] = below(of, 4) == 0;
        loop->scan_back[i] = below(of, 2);
        see(&inner, loop->slices[i] = make_value(of, ROW));
    }
    make_block(&inner, &loop->blocks[0], 6);
    block *body = &loop->blocks[0];
    bool permuted = below(of, 3) == 0;
    for (int i = 0; i < loop->carried; i++) {
        kind what = of->kinds[loop->parameters[i]];
        int other = loop->parameters[below(of, loop->carried)];
        body->results[i] =
            permuted && of->kinds[other] == what ? other : pick_result(&inner, what, loop->parameters[i]);
    }
    for (int i = 0; i < loop->stacks; i++) {
        body->results[loop->carried + i] = pick(&inner, ROW);
        loop->stack_axis[i] = loop->counted && below(of, 4) == 0;
        loop->stack_back[i] = loop->counted && below(of, 2);
        loop->grown[i] = below(of, 3) == 0 && !loop->stack_axis[i] && !loop->stack_back[i];
        if (loop->grown[i] && !loop->counted && below(of, 2)) loop->grown_from[i] = pick(s, ROW);
    }
    body->result_count = loop->carried + loop->stacks;
    body->again = loop->counted || below(of, 2) ? 0 : pick(&inner, FLAG);
    for (int i = 0; i < loop->carried; i++) {
        see(s, loop->outputs[i] = make_value(of, of->kinds[loop->parameters[i]]));
        s->begun[s->left_count] = loop->initial[i];
        s->left[s->left_count++] = loop->outputs[i];
    }
    for (int i = 0; i < loop->stacks; i++)
        see(s, loop->outputs[loop->carried + i] = make_value(of, loop->counted ? MATRIX : ROW));
}

static void make_branch(scope *s, statement *branch) {
    int count = 1 + below(s->of, 3);
    kind kinds[3];
    branch->inputs[0] = pick(s, FLAG);
    for (int i = 0; i < count; i++) kinds[i] = any_kind(s);
    for (int b = 0; b < 2; b++) {
        scope inner = *s;
        inner.left_count = 0;
        inner.depth++;
        make_block(&inner, &branch->blocks[b], 4);
        branch->blocks[b].result_count = count;
        for (int i = 0; i < count; i++) branch->blocks[b].results[i] = pick(&inner, kinds[i]);
    }
    for (int i = 0; i < count; i++) {
        see(s, branch->outputs[i] = make_value(s->of, kinds[i]));
        /* Often one of the two hands on a state of the loop around. */
        int state = s->loop && s->loop->carried ? s->loop->parameters[below(s->of, s->loop->carried)] : -1;
        if (state < 0 || s->of->kinds[state] != kinds[i] || below(s->of, 2)) continue;
        branch->blocks[below(s->of, 2)].results[i] = state;
        s->begun[s->left_count] = state;
        s->left[s->left_count++] = branch->outputs[i];
    }
}

static bool takes_matrices(operation which) {
    return which == ROW_OF || which == HALVES || which == WRITE_ROW || which == ATTEND || which == TURN ||
           which == PACKED;
}

static statement *make_statement(scope *s) {
    statement *made = take(s->of, 1, sizeof *made);
    int drawn = below(s->of, s->depth < DEPTH ? 22 : 18);
    kind what = any_kind(s);
    made->loop = s->loop;
    if (drawn >= 18) {
        made->operation = drawn >= 19 ? LOOP : BRANCH;
        if (drawn >= 19) make_loop(s, made);
        else make_branch(s, made);
        return made;
    }
    static const operation drawn_operations[] = {
        RELU,     RELU,      NEGATE,    MAXIMUM, MINIMUM,   SUM,       SUM,        DIFFERENCE,
        PRODUCT,  PRODUCT,   REVERSE,   REVERSE, ROW_OF,    ROW_OF,    STACK_ROWS, HALVES,
        IDENTITY, ITERATION, ITERATION, ABOVE,   WRITE_ROW, WRITE_ROW, SIGNS,      SWISH,
        GELU,     NORMALIZE, ATTEND,    ATTEND,  TURN,      BITS,      PACKED};
    enum { OPERATIONS = sizeof drawn_operations / sizeof *drawn_operations };
    made->operation = drawn_operations[below(s->of, OPERATIONS)];
    if (made->operation == ITERATION && !s->loop) made->operation = SUM;
    if (takes_matrices(made->operation)) what = MATRIX;
    if (made->operation == STACK_ROWS) what = ROW;
    for (int i = 0; i < OPERANDS; i++) made->inputs[i] = pick(s, what);
    if (made->operation == PRODUCT) made->inputs[1] = pick(s, MATRIX);
    if (made->operation == WRITE_ROW) made->inputs[1] = pick(s, ROW);
    made->amount = made->operation == ABOVE ? 10 * below(s->of, 4) : below(s->of, PROGRAM_SIDE);
    if (made->operation == ROW_OF) what = ROW;
    else if (made->operation == STACK_ROWS) what = MATRIX;
    else if (made->operation == ABOVE) what = FLAG;
    see(s, made->outputs[0] = make_value(s->of, what));
    return made;
}

static void make_block(scope *s, block *into, int most) {
    int count = below(s->of, most + 1);
    into->items = take(s->of, (size_t)count, sizeof *into->items);
    for (int i = 0; i < count && !is_full(s->of); i++) into->items[into->count++] = make_statement(s);
}

program *program_random(uint64_t seed) {
    program *of = calloc(1, sizeof *of);
    assert_non_null(of);
    of->random = seed;
    of->value_count = 1;
    scope *s = take(of, 1, sizeof *s);
    s->of = of;
    see(s, make_value(of, FLAG));
    see(s, make_value(of, FLAG));
    for (int i = 0; i < PROGRAM_MATRICES; i++) see(s, make_value(of, MATRIX));
    for (int i = 0; i < PROGRAM_ROWS; i++) see(s, make_value(of, ROW));
    see(s, make_value(of, MATRIX));
    see(s, make_value(of, ROW));
    of->first_made = of->value_count;
    for (int v = MATRIX_0; v < of->first_made; v++) {
        for (int e = 0; e < PROGRAM_ELEMENTS; e++) of->data[v][e] = (float)(below(of, 41) - 20);
    }
    make_block(s, &of->main, 10);
    of->main.result_count = 1 + below(of, PROGRAM_RESULTS);
    for (int i = 0; i < of->main.result_count; i++) of->main.results[i] = pick(s, any_kind(s));
    return of;
}

void program_free(program *of) {
    for (size_t i = 0; i < of->memory_count; i++) free(of->blocks_of_memory[i]);
    free(of->blocks_of_memory);
    free(of);
}

int program_value_of(const program *of, int value) {
    while (of->same_as[value]) value = of->same_as[value];
    return value;
}

int program_elements_of(const program *of, int value) {
    return of->kinds[value] == MATRIX ? PROGRAM_ELEMENTS : PROGRAM_SIDE;
}

const float *program_input(const program *of, int index, int *elements) {
    int value = MATRIX_0 + index - 3;
    *elements = program_elements_of(of, value);
    return of->data[value];
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static const char *type_text(kind what) {
    return what == MATRIX ? "float32[4,4]" : what == ROW ? "float32[4]" : "bool[]";
}

int program_weight(int row, int column) {
    return (5 * row + 3 * column) % 16 - 8;
}

int program_quarters(int row, int pair) {
    return (row + 3 * pair) % 4;
}

/* Integers by operators whose results are exact, or are rounded. */
static void write_rarer(FILE *file, const statement *s, const char *type, const char *out,
                        const char (*in)[NAME]) {
    switch (s->operation) {
    case WRITE_ROW:
        fprintf(file, "%%%s.0: float32[1,4,4] = Reshape(%%%s, %%as_batch)\n", out, in[0]);
        fprintf(file, "%%%s.1: float32[1,1,4] = Reshape(%%%s, %%as_batch_row)\n", out, in[1]);
        fprintf(file, "%%%s.2: float32[1,4,4] = TensorScatter(%%%s.0, %%%s.1, %%k%d) {axis = 1}\n", out, out,
                out, s->amount);
        fprintf(file, "%%%s: %s = Reshape(%%%s.2, %%square)\n", out, type, out);
        break;
    case SIGNS:
        fprintf(file, "%%%s.t: %s = Sign(%%%s)\n", out, type, in[0]);
        fprintf(file, "%%%s: %s = CumProd(%%%s.t, %%trips0) {reverse = %d}\n", out, type, out, s->amount & 1);
        break;
    case SWISH:
        fprintf(file, "%%%s.t: %s = Swish(%%%s) {alpha = 64.0}\n", out, type, in[0]);
        fprintf(file, "%%%s: %s = Round(%%%s.t)\n", out, type, out);
        break;
    case GELU:
        fprintf(file, "%%%s.0: %s = Mul(%%%s, %%n10)\n", out, type, in[0]);
        fprintf(file, "%%%s.1: %s = Gelu(%%%s.0)\n", out, type, out);
        fprintf(file, "%%%s.2: %s = Clip(%%%s.1, %%low, %%high)\n", out, type, out);
        fprintf(file, "%%%s: %s = Round(%%%s.2)\n", out, type, out);
        break;
    case NORMALIZE:
        fprintf(file, "%%%s.t: %s = RMSNormalization(%%%s, %%factor)\n", out, type, in[0]);
        fprintf(file, "%%%s: %s = Round(%%%s.t)\n", out, type, out);
        break;
    case ATTEND:
        for (int i = 0; i < 3; i++)
            fprintf(file, "%%%s.%d: float32[1,1,4,4] = Reshape(%%%s, %%as_head)\n", out, i, in[i]);
        fprintf(
            file,
            "%%%s.3: float32[1,1,4,4] = Attention(%%%s.0, %%%s.1, %%%s.2) {scale = 64.0, is_causal = %d}\n",
            out, out, out, out, s->amount & 1);
        fprintf(file, "%%%s.4: float32[1,1,4,4] = Round(%%%s.3)\n", out, out);
        fprintf(file, "%%%s: %s = Reshape(%%%s.4, %%square)\n", out, type, out);
        break;
    case TURN:
        fprintf(file, "%%%s.0: float32[1,1,4,4] = Reshape(%%%s, %%as_head)\n", out, in[0]);
        fprintf(file, "%%%s.1: float32[1,1,4,4] = RotaryEmbedding(%%%s.0, %%cosines, %%sines)\n", out, out);
        fprintf(file, "%%%s: %s = Reshape(%%%s.1, %%square)\n", out, type, out);
        break;
    case BITS:
        for (int i = 0; i < 2; i++)
            fprintf(file, "%%%s.%d: int32%s = Cast(%%%s) {to = 6}\n", out, i, type + strlen("float32"),
                    in[i]);
        fprintf(file, "%%%s.2: int32%s = BitwiseXor(%%%s.0, %%%s.1)\n", out, type + strlen("float32"), out,
                out);
        fprintf(file, "%%%s.3: %s = Cast(%%%s.2) {to = 1}\n", out, type, out);
        fprintf(file, "%%%s: %s = Clip(%%%s.3, %%low, %%high)\n", out, type, out);
        break;
    case PACKED:
        fprintf(file,
                "%%%s.t: %s = com.microsoft.MatMulNBits(%%%s, %%packed, %%ones) {K = 4, N = 4, bits = 4, "
                "block_size = 16}\n",
                out, type, in[0]);
        fprintf(file, "%%%s: %s = Clip(%%%s.t, %%low, %%high)\n", out, type, out);
        break;
    default:
        break;
    }
}

/* Constants of the rarer operators. */
static void write_constants(FILE *file) {
    static const int cosine[] = {1, 0, -1, 0}, sine[] = {0, 1, 0, -1};
    fprintf(file,
            "constant %%as_batch: int64[3] = {1, 4, 4}\nconstant %%as_batch_row: int64[3] = {1, 1, 4}\n");
    fprintf(file, "constant %%as_head: int64[4] = {1, 1, 4, 4}\nconstant %%square: int64[2] = {4, 4}\n");
    fprintf(file, "constant %%factor: float32[4] = {7.3, 7.3, 7.3, 7.3}\n");
    fprintf(file, "constant %%ones: float32[4] = {1, 1, 1, 1}\nconstant %%cosines: float32[1,4,2] = {");
    for (int i = 0; i < 8; i++) fprintf(file, "%s%d", i ? ", " : "", cosine[program_quarters(i / 2, i % 2)]);
    fprintf(file, "}\nconstant %%sines: float32[1,4,2] = {");
    for (int i = 0; i < 8; i++) fprintf(file, "%s%d", i ? ", " : "", sine[program_quarters(i / 2, i % 2)]);
    /* Columns of the product are rows of blocks of 16 weights, two a byte, of which 4 are used; 8 is zero. */
    fprintf(file, "}\nconstant %%packed: uint8[4,1,8] = {");
    for (int i = 0; i < 32; i++) {
        const int column = i / 8, row = i % 8 * 2;
        const int low = row < 4 ? program_weight(row, column) + 8 : 8,
                  high = row < 4 ? program_weight(row + 1, column) + 8 : 8;
        fprintf(file, "%s%d", i ? ", " : "", low + 16 * high);
    }
    fprintf(file, "}\n");
}

/* One operation on values of these names; `count` is the name of the iteration's number as a real. */
void program_write_operation(FILE *file, const statement *s, kind what, kind of_input, const char *out,
                             const char (*in)[NAME], const char *count) {
    const char *type = type_text(what);
    switch (s->operation) {
    case RELU:
        fprintf(file, "%%%s: %s = Relu(%%%s)\n", out, type, in[0]);
        break;
    case NEGATE:
        fprintf(file, "%%%s: %s = Neg(%%%s)\n", out, type, in[0]);
        break;
    case MAXIMUM:
    case MINIMUM:
        fprintf(file, "%%%s: %s = %s(%%%s, %%%s)\n", out, type, s->operation == MAXIMUM ? "Max" : "Min",
                in[0], in[1]);
        break;
    case SUM:
    case DIFFERENCE:
    case PRODUCT:
    case ITERATION:
        fprintf(file, "%%%s.t: %s = %s(%%%s, %%%s)\n", out, type,
                s->operation == DIFFERENCE ? "Sub"
                : s->operation == PRODUCT  ? "MatMul"
                                           : "Add",
                in[0], s->operation == ITERATION ? count : in[1]);
        fprintf(file, "%%%s: %s = Clip(%%%s.t, %%low, %%high)\n", out, type, out);
        break;
    case REVERSE:
        if (what == MATRIX) fprintf(file, "%%%s: %s = Transpose(%%%s)\n", out, type, in[0]);
        else fprintf(file, "%%%s: %s = Slice(%%%s, %%minus1, %%minus9, %%k0, %%minus1)\n", out, type, in[0]);
        break;
    case ROW_OF:
        fprintf(file, "%%%s.t: float32[1,4] = Slice(%%%s, %%k%d, %%k%d, %%k0)\n", out, in[0], s->amount,
                s->amount + 1);
        fprintf(file, "%%%s: %s = Reshape(%%%s.t, %%as_row)\n", out, type, out);
        break;
    case STACK_ROWS:
        for (int i = 0; i < PROGRAM_SIDE; i++)
            fprintf(file, "%%%s.%d: float32[1,4] = Reshape(%%%s, %%as_matrix)\n", out, i, in[i]);
        fprintf(file, "%%%s: %s = Concat(%%%s.0, %%%s.1, %%%s.2, %%%s.3) {axis = 0}\n", out, type, out, out,
                out, out);
        break;
    case HALVES:
        fprintf(file, "%%%s.0: float32[2,4], %%%s.1: float32[2,4] = Split(%%%s, %%halves) {axis = 0}\n", out,
                out, in[0]);
        fprintf(file, "%%%s: %s = Concat(%%%s.1, %%%s.0) {axis = 0}\n", out, type, out, out);
        break;
    case IDENTITY:
        fprintf(file, "%%%s: %s = Identity(%%%s)\n", out, type, in[0]);
        break;
    case ABOVE:
        fprintf(file, "%%%s.t: float32[] = ReduceMax(%%%s) {keepdims = 0}\n", out, in[0]);
        fprintf(file, "%%%s: bool[] = Greater(%%%s.t, %%n%d)\n", out, out, s->amount);
        break;
    default:
        write_rarer(file, s, type, out, in);
        break;
    }
    (void)of_input;
}

static void write_numbers(FILE *file, const float *data, int count) {
    for (int i = 0; i < count; i++) fprintf(file, "%s%g", i ? ", " : "", (double)data[i]);
}

void program_write_head(const program *of, FILE *file) {
    fprintf(file,
            "module \"program\" {\nconstant %%low: float32[] = {-99}\nconstant %%high: float32[] = {99}\n");
    for (int i = 0; i <= 4; i++) fprintf(file, "constant %%k%d: int64[1] = {%d}\n", i, i);
    for (int i = 0; i <= 30; i += i < 10 ? 1 : 10) fprintf(file, "constant %%n%d: float32[] = {%d}\n", i, i);
    for (int i = 0; i < 6; i++) fprintf(file, "constant %%trips%d: int64[] = {%d}\n", i, i);
    fprintf(file,
            "constant %%minus1: int64[1] = {-1}\nconstant %%minus9: int64[1] = {-9223372036854775807}\n");
    fprintf(file, "constant %%as_row: int64[1] = {-1}\nconstant %%as_matrix: int64[2] = {1, -1}\n");
    fprintf(file, "constant %%halves: int64[2] = {2, 2}\n");
    fprintf(file, "constant %%none: float32[0,4] = {}\n");
    write_constants(file);
    for (int v = WEIGHT; v <= BIAS; v++) {
        fprintf(file, "constant %%v%d: %s = {", v, type_text(of->kinds[v]));
        write_numbers(file, of->data[v], program_elements_of(of, v));
        fprintf(file, "}\n");
    }
    fprintf(file, "graph main(%%trips: int64[], %%v1: bool[], %%v2: bool[]");
    for (int v = MATRIX_0; v < WEIGHT; v++) fprintf(file, ", %%v%d: %s", v, type_text(of->kinds[v]));
    fprintf(file, ") {\n");
}

static void write_block(const program *of, const block *b, FILE *file);

static void write_list(FILE *file, const char *name, const int *numbers, int count) {
    fprintf(file, ", %s = [", name);
    for (int i = 0; i < count; i++) fprintf(file, "%s%d", i ? ", " : "", numbers[i]);
    fprintf(file, "]");
}

/* Stacks that are stacked, of all that the loop has. */
static int true_stacks(const statement *s, int numbers[SLICES]) {
    int count = 0;
    for (int i = 0; i < s->stacks; i++)
        if (!s->grown[i]) numbers[count++] = i;
    return count;
}

static void write_loop(const program *of, const statement *s, FILE *file) {
    const char *between = "";
    int backwards[SLICES], axes[SLICES], stacked[SLICES], stacks = true_stacks(s, stacked);
    for (int i = 0; i < s->stacks; i++) {
        if (s->grown_from[i])
            fprintf(file, "%%v%d.i: float32[1,4] = Reshape(%%v%d, %%as_matrix)\n", s->outputs[s->carried + i],
                    program_value_of(of, s->grown_from[i]));
    }
    for (int i = 0; i < s->carried; i++) {
        if (s->dropped[i]) continue;
        fprintf(file, "%s%%v%d: %s", between, s->outputs[i], type_text(of->kinds[s->outputs[i]]));
        between = ", ";
    }
    for (int k = 0; k < 2 * s->stacks; k++) { /* carried values come first */
        int i = k % s->stacks, output = s->outputs[s->carried + i];
        if (s->grown[i] != (k < s->stacks)) continue;
        fprintf(file, s->counted ? "%s%%v%d: float32[4,4]" : "%s%%v%d.d: float32[?,4]", between, output);
        between = ", ";
    }
    if (s->trips >= 0) fprintf(file, " = Loop(%%trips%d", s->trips);
    else fprintf(file, " = Loop(%%trips");
    if (s->begins) fprintf(file, ", %%v%d", program_value_of(of, s->begins));
    else fprintf(file, ", _");
    for (int i = 0; i < s->carried; i++)
        if (!s->dropped[i]) fprintf(file, ", %%v%d", program_value_of(of, s->initial[i]));
    for (int i = 0; i < s->stacks; i++) {
        if (s->grown_from[i]) fprintf(file, ", %%v%d.i", s->outputs[s->carried + i]);
        else if (s->grown[i]) fprintf(file, ", %%none");
    }
    for (int i = 0; i < s->scans; i++) fprintf(file, ", %%v%d", program_value_of(of, s->whole[i]));
    fprintf(file, ") {ouro.scan_inputs = %d, ouro.scan_outputs = %d", s->scans, stacks);
    if (s->scans) {
        for (int i = 0; i < s->scans; i++) backwards[i] = s->scan_back[i];
        write_list(file, "ouro.scan_input_axes", s->scan_axis, s->scans);
        write_list(file, "ouro.scan_input_directions", backwards, s->scans);
    }
    if (stacks) {
        for (int i = 0; i < stacks; i++) {
            axes[i] = s->stack_axis[stacked[i]];
            backwards[i] = s->stack_back[stacked[i]];
        }
        write_list(file, "ouro.scan_output_axes", axes, stacks);
        write_list(file, "ouro.scan_output_directions", backwards, stacks);
    }
    fprintf(file, "} {\ngraph body%d(%%i%d: int64[], %%again%d: bool[]", s->number, s->number, s->number);
    for (int i = 0; i < s->carried; i++)
        if (!s->dropped[i])
            fprintf(file, ", %%v%d: %s", s->parameters[i], type_text(of->kinds[s->parameters[i]]));
    for (int i = 0; i < s->stacks; i++)
        if (s->grown[i]) fprintf(file, ", %%v%d.c: float32[?,4]", s->outputs[s->carried + i]);
    for (int i = 0; i < s->scans; i++) fprintf(file, ", %%v%d: float32[4]", s->slices[i]);
    fprintf(file, ") {\n");
    write_block(of, &s->blocks[0], file);
    const block *body = &s->blocks[0];
    for (int i = 0; i < s->stacks; i++) {
        int output = s->outputs[s->carried + i];
        if (!s->grown[i]) continue;
        fprintf(file, "%%v%d.e: float32[1,4] = Reshape(%%v%d, %%as_matrix)\n", output,
                program_value_of(of, body->results[s->carried + i]));
        fprintf(file, "%%v%d.g: float32[?,4] = Concat(%%v%d.c, %%v%d.e) {axis = 0}\n", output, output,
                output);
    }
    if (body->again) fprintf(file, "yield %%v%d", program_value_of(of, body->again));
    else fprintf(file, "yield %%again%d", s->number);
    for (int i = 0; i < s->carried; i++)
        if (!s->dropped[i]) fprintf(file, ", %%v%d", program_value_of(of, body->results[i]));
    for (int i = 0; i < s->stacks; i++)
        if (s->grown[i]) fprintf(file, ", %%v%d.g", s->outputs[s->carried + i]);
    for (int i = 0; i < stacks; i++)
        fprintf(file, ", %%v%d", program_value_of(of, body->results[s->carried + stacked[i]]));
    fprintf(file, "\n} }\n");
    for (int i = 0; i < s->stacks && !s->counted; i++) {
        int output = s->outputs[s->carried + i];
        fprintf(file, "%%v%d.s: float32[4] = ReduceSum(%%v%d.d, %%k0) {keepdims = 0}\n", output, output);
        fprintf(file, "%%v%d: float32[4] = Clip(%%v%d.s, %%low, %%high)\n", output, output);
    }
}

static void write_branch(const program *of, const statement *s, FILE *file) {
    for (int i = 0; i < s->blocks[0].result_count; i++)
        fprintf(file, "%s%%v%d: %s", i ? ", " : "", s->outputs[i], type_text(of->kinds[s->outputs[i]]));
    fprintf(file, " = If(%%v%d) {\n", program_value_of(of, s->inputs[0]));
    for (int b = 0; b < 2; b++) {
        fprintf(file, "graph branch() {\n");
        write_block(of, &s->blocks[b], file);
        for (int i = 0; i < s->blocks[b].result_count; i++)
            fprintf(file, "%s%%v%d", i ? ", " : "yield ", program_value_of(of, s->blocks[b].results[i]));
        fprintf(file, "\n}\n");
    }
    fprintf(file, "}\n");
}

static void write_block(const program *of, const block *b, FILE *file) {
    for (int k = 0; k < b->count; k++) {
        const statement *s = b->items[k];
        char out[NAME], in[OPERANDS][NAME], count[NAME] = "";
        if (s->deleted) continue;
        if (s->operation == LOOP) {
            write_loop(of, s, file);
            continue;
        }
        if (s->operation == BRANCH) {
            write_branch(of, s, file);
            continue;
        }
        snprintf(out, sizeof out, "v%d", s->outputs[0]);
        for (int i = 0; i < OPERANDS; i++) snprintf(in[i], NAME, "v%d", program_value_of(of, s->inputs[i]));
        if (s->operation == ITERATION) {
            snprintf(count, sizeof count, "v%d.c", s->outputs[0]);
            fprintf(file, "%%%s: float32[] = Cast(%%i%d) {to = 1}\n", count, s->loop->number);
        }
        program_write_operation(file, s, of->kinds[s->outputs[0]], of->kinds[s->inputs[0]], out,
                                (const char(*)[NAME])in, count);
    }
}

char *program_text(const program *of) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    program_write_head(of, file);
    write_block(of, &of->main, file);
    for (int i = 0; i < of->main.result_count; i++)
        fprintf(file, "%s%%v%d", i ? ", " : "yield ", program_value_of(of, of->main.results[i]));
    fprintf(file, "\n} }\n");
    assert_int_equal(fclose(file), 0);
    return text;
}

/* ---- shrinking ----------------------------------------------------------------------------------------- */

static int stand_in(const program *of, int value) {
    return of->kinds[value] == FLAG ? YES : of->kinds[value] == MATRIX ? MATRIX_0 : ROW_0;
}

static int output_count(const statement *s) {
    return s->operation == LOOP     ? s->carried + s->stacks
           : s->operation == BRANCH ? s->blocks[0].result_count
                                    : 1;
}

static void replace(program *of, int value, bool replaced) {
    of->same_as[value] = replaced ? stand_in(of, value) : 0;
}

typedef struct shrinking {
    program *of;
    bool (*fails)(const program *of, void *user);
    void *user;
    bool changed;
} shrinking;

static void set_deleted(program *of, statement *s, bool deleted) {
    s->deleted = deleted;
    for (int i = 0; i < output_count(s); i++)
        if (i >= s->carried || !s->dropped[i]) replace(of, s->outputs[i], deleted);
}

static void set_dropped(program *of, statement *s, int index, bool dropped) {
    s->dropped[index] = dropped;
    replace(of, s->parameters[index], dropped);
    replace(of, s->outputs[index], dropped);
}

static void shrink_block(shrinking *by, block *b) {
    for (int k = b->count; k-- > 0;) {
        statement *s = b->items[k];
        if (s->deleted) continue;
        set_deleted(by->of, s, true);
        if (by->fails(by->of, by->user)) {
            by->changed = true;
            continue;
        }
        set_deleted(by->of, s, false);
        int left = 0;
        for (int i = 0; s->operation == LOOP && i < s->carried; i++) left += !s->dropped[i];
        for (int i = 0; s->operation == LOOP && i < s->carried && left + s->stacks > 1; i++) {
            if (s->dropped[i]) continue;
            set_dropped(by->of, s, i, true);
            if (by->fails(by->of, by->user)) {
                by->changed = true;
                left--;
            } else {
                set_dropped(by->of, s, i, false);
            }
        }
        if (s->operation == LOOP || s->operation == BRANCH) shrink_block(by, &s->blocks[0]);
        if (s->operation == BRANCH) shrink_block(by, &s->blocks[1]);
    }
}

void program_shrink(program *of, bool (*fails)(const program *of, void *user), void *user) {
    shrinking by = {.of = of, .fails = fails, .user = user, .changed = true};
    while (by.changed) {
        by.changed = false;
        while (of->main.result_count > 1) {
            int last = of->main.results[--of->main.result_count];
            if (fails(of, user)) {
                by.changed = true;
                continue;
            }
            int first = of->main.results[0];
            of->main.results[0] = last;
            if (fails(of, user)) {
                by.changed = true;
                continue;
            }
            of->main.results[0] = first;
            of->main.results[of->main.result_count++] = last;
            break;
        }
        shrink_block(&by, &of->main);
    }
}
