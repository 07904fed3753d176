/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_fused.c: ouro.Fused gives the bits that its steps give one after another: on random trees, with inputs that are
 * broadcast in every way, in other layouts, on several threads, and over each input that it may be written over. And steps
 * that say nothing valid are refused. */
#include "ir/operators/fused.h"
#include "runtime/kernels/base/x86.h"
#include "tests/support/operators.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TREES = 3000, SEED = 7, VALUES = OP_FUSED_INPUTS + OP_FUSED_STEPS };

/* ---- one application ----------------------------------------------------------------------------------- */

/* Runs it with memory that the outputs have; `over`: output 0 lies over this input, which is copied before (-1: over none). */
static void run_call(const op_call *call, int threads, int over, base_arena *arena) {
    const rt_environment environment = {.threads = threads, .portable_only = true};
    base_report report = {0};
    const rt_kernel *kernel = rt_kernel_select(call, &environment);
    if (!kernel) fail_msg("no kernel for %s", op_schema_of(call->code)->name);
    op_tensor inputs[VALUES], output = call->outputs[0];
    memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
    if (over >= 0) {
        memcpy(output.data, inputs[over].data, output.bytes);
        for (uint32_t i = 0; i < call->input_count; i++) {
            if (call->inputs[i].data == call->inputs[over].data) inputs[i].data = output.data;
        }
    }
    rt_prepared prepared;
    if (rt_kernel_prepare(kernel, call, &environment, arena, &prepared, &report) != BASE_OK)
        fail_msg("%s", report.text);
    assert_int_equal(prepared.scratch_bytes, 0);
    for (int twice = 0; twice < (over >= 0 ? 1 : 2); twice++)
        assert_int_equal(prepared.run(&prepared, inputs, &output, NULL, &report), BASE_OK);
    rt_kernel_release(&prepared);
}

static void take_memory(op_tensor *tensor, base_arena *arena) {
    assert_true(op_type_bytes(&tensor->type, &tensor->bytes));
    tensor->data = rt_arena_aligned(arena, tensor->bytes);
    assert_non_null(tensor->data);
}

/* ---- random trees -------------------------------------------------------------------------------------- */

typedef struct tree {
    op_fused program;
    op_tensor values[VALUES];
    op_string texts[OP_FUSED_STEPS];
    op_attribute attributes[2];
} tree;

static const op_code unaries[] = {OP_NEG,          OP_ABS,  OP_TANH, OP_LEAKY_RELU, OP_SIGMOID, OP_EXP,
                                  OP_HARD_SIGMOID, OP_RELU, OP_SQRT, OP_RECIPROCAL, OP_SWISH,   OP_SOFTPLUS};

/* The last two have, but for AVX-512, another form for the last elements of a row, which may give a NaN another sign. */
static int64_t unaries_with_one_form(void) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) return 12;
#endif
    return 10;
}

static const op_code binaries[] = {OP_ADD, OP_SUB, OP_MUL, OP_MIN, OP_MAX, OP_DIV};

static void fill(op_tensor *tensor, test_random *random) {
    test_fill(tensor, random);
}

static int64_t below(test_random *random, int64_t end) {
    return test_random_below(random, end);
}

/* A shape that is broadcast to `whole`: some extents are 1, or left out. */
static op_shape broadcast_shape(const op_shape *whole, test_random *random) {
    op_shape shape = *whole;
    const int64_t kind = below(random, 4);
    for (int32_t d = 0; d < shape.rank && kind; d++) {
        if (kind == 1 || below(random, 2)) shape.dims[d] = 1;
    }
    int32_t drop = 0;
    while (drop < shape.rank && shape.dims[drop] == 1 && below(random, 2)) drop++;
    for (int32_t d = drop; d < shape.rank; d++) shape.dims[d - drop] = shape.dims[d];
    shape.rank -= drop;
    return shape;
}

/* [C, 1, ...] in the layout of the tree, or one element. */
static op_type broadcast_in_blocks(const op_type *whole, test_random *random) {
    op_type type = *whole;
    if (below(random, 3) == 0) {
        type.layout = OP_LAYOUT_ROW_MAJOR;
        type.shape = (op_shape){.rank = 0};
        return type;
    }
    for (int32_t d = 2; d < type.shape.rank; d++) type.shape.dims[d] = 1;
    if (below(random, 2)) type.shape.dims[0] = 1;
    if (whole->shape.dims[1] % 16 == 0 && below(random, 2)) type.layout = OP_LAYOUT_ROW_MAJOR;
    return type;
}

/* The number of an input of this type; a new one, unless there are many. */
static int32_t add_input(tree *of, const op_type *type, base_arena *arena, test_random *random) {
    for (uint32_t i = 0; i < of->program.input_count; i++) {
        const op_type *had = &of->values[i].type;
        const bool same = had->dtype == type->dtype && had->layout == type->layout &&
                          op_shape_equal(&had->shape, &type->shape);
        if (same && (of->program.input_count == OP_FUSED_INPUTS || below(random, 2))) return (int32_t)i;
    }
    if (of->program.input_count == OP_FUSED_INPUTS) return -1;
    op_tensor *tensor = &of->values[of->program.input_count];
    *tensor = (op_tensor){.type = *type};
    take_memory(tensor, arena);
    if (type->layout == OP_LAYOUT_ROW_MAJOR) fill(tensor, random);
    else {
        /* The padding of blocks is zero. */
        op_tensor plain = *tensor;
        plain.type.layout = OP_LAYOUT_ROW_MAJOR;
        take_memory(&plain, arena);
        fill(&plain, random);
        const op_attribute layout = {
            .name = "ouro.layout", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = type->layout};
        const op_call call = {.code = OP_REORDER,
                              .attributes = {.count = 1, .items = &layout},
                              .input_count = 1,
                              .output_count = 1,
                              .inputs = &plain,
                              .outputs = tensor};
        run_call(&call, 1, -1, arena);
    }
    return (int32_t)of->program.input_count++;
}

/* What a step makes has the whole shape: a step before, or an input of it. */
static int32_t whole_operand(tree *of, const op_type *type, int32_t step, const op_dtype *made,
                             base_arena *arena, test_random *random) {
    for (int tries = 0; step > 0 && tries < 3; tries++) {
        const int32_t before = (int32_t)below(random, step);
        if (made[before] == type->dtype && below(random, 4)) return OP_FUSED_INPUTS + before;
    }
    return add_input(of, type, arena, random);
}

/* Floats of 32 and 16 bits may be in one tree. */
static op_type type_of_step(const op_type *whole, test_random *random) {
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_BFLOAT16};
    op_type type = *whole;
    if (whole->layout == OP_LAYOUT_ROW_MAJOR && whole->dtype != OP_DOUBLE && below(random, 4) == 0)
        type.dtype = dtypes[below(random, 3)];
    return type;
}

/* Steps are numbered from OP_FUSED_INPUTS on until all inputs are known. False: too many inputs. */
static bool make_tree(tree *of, const op_type *whole, base_arena *arena, test_random *random) {
    op_dtype made[OP_FUSED_STEPS];
    const int32_t steps = 1 + (int32_t)below(random, below(random, 4) ? 5 : OP_FUSED_STEPS);
    const bool blocks = whole->layout != OP_LAYOUT_ROW_MAJOR;
    static const op_attribute alpha = {
        .name = "alpha", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = 0.3f};
    for (int32_t s = 0; s < steps; s++) {
        op_fused_step *step = &of->program.steps[s];
        *step = (op_fused_step){0};
        const op_type type = type_of_step(whole, random);
        made[s] = type.dtype;
        const int64_t kind = below(random, blocks ? 5 : 9);
        if (kind < 2) {
            step->code = unaries[below(random, blocks ? 4 : unaries_with_one_form())];
            step->operand_count = 1;
            step->operands[0] = whole_operand(of, &type, s, made, arena, random);
            if (step->code == OP_LEAKY_RELU) step->attributes[step->attribute_count++] = alpha;
        } else if (kind < 5) {
            step->code = binaries[below(random, blocks ? 3 : 6)];
            step->operand_count = 2;
            const uint32_t first = (uint32_t)below(random, 2);
            op_type other = type;
            step->operands[first] = whole_operand(of, &type, s, made, arena, random);
            if (blocks && below(random, 2)) other = broadcast_in_blocks(&type, random);
            else if (!blocks) other.shape = broadcast_shape(&whole->shape, random);
            step->operands[1 - first] =
                op_shape_equal(&other.shape, &whole->shape) && other.layout == whole->layout
                    ? whole_operand(of, &type, s, made, arena, random)
                    : add_input(of, &other, arena, random);
        } else if (kind == 8) {
            step->code = OP_CAST;
            step->operand_count = 1;
            step->operands[0] = whole_operand(of, &type, s, made, arena, random);
            made[s] = type_of_step(whole, random).dtype;
            step->attributes[step->attribute_count++] =
                (op_attribute){.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = made[s]};
        } else if (kind == 5) {
            made[s] = whole->dtype;
            op_type condition = *whole;
            condition.dtype = OP_BOOL;
            step->code = OP_WHERE;
            step->operand_count = 3;
            step->operands[0] = whole_operand(of, &condition, s, made, arena, random);
            step->operands[1] = whole_operand(of, whole, s, made, arena, random);
            op_type other = *whole;
            other.shape = broadcast_shape(&whole->shape, random);
            step->operands[2] = add_input(of, &other, arena, random);
        } else if (kind == 6) {
            step->code = OP_LESS;
            step->operand_count = 2;
            step->operands[0] = whole_operand(of, whole, s, made, arena, random);
            step->operands[1] = whole_operand(of, whole, s, made, arena, random);
            made[s] = OP_BOOL;
        } else {
            op_type limit = {.dtype = whole->dtype};
            made[s] = whole->dtype;
            step->code = OP_CLIP;
            step->operand_count = 3;
            step->operands[0] = whole_operand(of, whole, s, made, arena, random);
            step->operands[1] = -1;
            step->operands[2] = add_input(of, &limit, arena, random);
            if (step->operands[2] < 0) return false;
        }
        for (uint32_t i = 0; i < step->operand_count; i++) {
            if (step->operands[i] < 0 && !(step->code == OP_CLIP && i == 1)) return false;
        }
    }
    of->program.step_count = (uint32_t)steps;
    for (int32_t s = 0; s < steps; s++) {
        for (uint32_t i = 0; i < of->program.steps[s].operand_count; i++) {
            int32_t *operand = &of->program.steps[s].operands[i];
            if (*operand >= OP_FUSED_INPUTS) *operand += (int32_t)of->program.input_count - OP_FUSED_INPUTS;
        }
    }
    return true;
}

static bool describe(tree *of, base_arena *arena) {
    for (uint32_t s = 0; s < of->program.step_count; s++) {
        char *text = BASE_ARRAY(arena, char, OP_FUSED_TEXT);
        assert_true(op_fused_print(&of->program.steps[s], text));
        of->texts[s] = (op_string){text, strlen(text)};
    }
    of->attributes[0] = (op_attribute){.name = "steps",
                                       .kind = OP_ATTRIBUTE_STRINGS,
                                       .count = of->program.step_count,
                                       .as.texts = of->texts};
    return of->program.input_count > 0;
}

/* Each step by itself. False where that cannot be: what a step makes does not have the whole shape, or it has no kernel in this
 * layout. */
static bool run_steps(tree *of, const op_type *whole, base_arena *arena) {
    base_report report = {0};
    if (op_fused_infer(&of->program, of->values, &report) != BASE_OK) fail_msg("%s", report.text);
    for (uint32_t s = 0; s < of->program.step_count; s++) {
        op_tensor operands[OP_FUSED_OPERANDS], *made = &of->values[of->program.input_count + s];
        op_call call;
        if (!op_shape_equal(&made->type.shape, &whole->shape) || made->type.layout != whole->layout)
            return false;
        take_memory(made, arena);
        op_fused_call(&of->program, s, of->values, operands, made, &call);
        if (!rt_kernel_select(&call, &(rt_environment){.threads = 1, .portable_only = true})) return false;
        run_call(&call, 1, -1, arena);
    }
    return true;
}

static void try_tree(uint64_t seed, int *tried) {
    static const op_dtype dtypes[] = {OP_FLOAT,   OP_FLOAT,   OP_FLOAT,   OP_DOUBLE,
                                      OP_FLOAT16, OP_FLOAT16, OP_BFLOAT16};
    test_random random = {seed};
    base_arena arena;
    base_arena_init(&arena, NULL);
    op_type whole = {.dtype = dtypes[below(&random, 7)]};
    static const int64_t extents[] = {1, 2, 3, 5, 16, 31, 130, 32};
    whole.shape.rank = 1 + (int32_t)below(&random, 4);
    for (int32_t d = 0; d < whole.shape.rank; d++) whole.shape.dims[d] = extents[below(&random, 8)];
    if (below(&random, 8) == 0) whole.shape.dims[whole.shape.rank - 1] = 5000;
    /* Short rows, broadcast along any dimension. */
    const bool short_rows = below(&random, 5) == 0;
    if (short_rows) {
        whole.dtype = OP_FLOAT;
        whole.shape = (op_shape){
            .rank = 3,
            .dims = {2 + below(&random, 4), below(&random, 2) ? 130 : 40, 16 << below(&random, 3)}};
    }
    if (!short_rows && below(&random, 3) == 0) {
        whole.dtype = OP_FLOAT;
        whole.layout = (op_layout[]){OP_LAYOUT_NC8, OP_LAYOUT_NC16, OP_LAYOUT_NHWC}[below(&random, 3)];
        whole.shape = (op_shape){
            .rank = 4,
            .dims = {1 + below(&random, 2), below(&random, 2) ? 32 : 12, 7, extents[below(&random, 8)]}};
    }
    int64_t elements;
    assert_true(op_shape_elements(&whole.shape, &elements));
    static tree of;
    memset(&of, 0, sizeof of);
    if (elements < 100000 && make_tree(&of, &whole, &arena, &random) && describe(&of, &arena) &&
        run_steps(&of, &whole, &arena)) {
        const op_tensor *expected = &of.values[of.program.input_count + of.program.step_count - 1];
        op_tensor made = {0};
        base_report report = {0};
        of.attributes[1] = (op_attribute){
            .name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = expected->type.dtype};
        op_call call = {.code = OP_FUSED,
                        .attributes = {.count = 2, .items = of.attributes},
                        .input_count = of.program.input_count,
                        .output_count = 1,
                        .inputs = of.values,
                        .outputs = &made};
        if (op_infer(&call, &report) != BASE_OK) fail_msg("%s", report.text);
        assert_int_equal(made.type.dtype, expected->type.dtype);
        assert_int_equal(made.type.layout, expected->type.layout);
        take_memory(&made, &arena);
        for (int way = -1; way <= (int)call.input_count; way++) {
            const bool over = way >= 0 && way < (int)call.input_count;
            if (over &&
                (of.values[way].bytes != made.bytes || of.values[way].type.layout != made.type.layout ||
                 !op_shape_equal(&of.values[way].type.shape, &made.type.shape)))
                continue;
            memset(made.data, 0xa5, made.bytes);
            run_call(&call, way == (int)call.input_count ? 3 : 1, over ? way : -1, &arena);
            if (memcmp(made.data, expected->data, made.bytes) == 0) continue;
            for (uint32_t s = 0; s < of.program.step_count; s++) printf("  %s\n", of.texts[s].data);
            fail_msg("seed %llu, way %d: other bits", (unsigned long long)seed, way);
        }
        ++*tried;
    }
    base_arena_free(&arena);
}

static void test_trees(void **state) {
    (void)state;
    int tried = 0;
    for (uint64_t i = 0; i < TREES; i++) try_tree(SEED + i, &tried);
    printf("%d of %d trees\n", tried, TREES);
    assert_true(tried > TREES / 2);
}

/* A sum of bytes: as many bits as the four steps one after another. */
static void test_quantized(void **state) {
    (void)state;
    test_random random = {SEED};
    base_arena arena;
    base_arena_init(&arena, NULL);
    static tree of;
    memset(&of, 0, sizeof of);
    const op_type bytes = {.dtype = OP_INT8, .shape = {.rank = 2, .dims = {3, 1001}}};
    const op_type types[] = {bytes, {.dtype = OP_FLOAT}, {.dtype = OP_INT8}, bytes, {.dtype = OP_FLOAT}};
    for (size_t i = 0; i < 5; i++) {
        of.values[i].type = types[i];
        take_memory(&of.values[i], &arena);
        fill(&of.values[i], &random);
    }
    *(float *)of.values[1].data = 0.25f;
    *(float *)of.values[4].data = 0.375f;
    static const op_code codes[] = {OP_DEQUANTIZE_LINEAR, OP_DEQUANTIZE_LINEAR, OP_ADD, OP_QUANTIZE_LINEAR};
    static const int32_t operands[4][3] = {{0, 1, 2}, {3, 4, 2}, {5, 6, 0}, {7, 4, 2}};
    of.program.input_count = 5;
    of.program.step_count = 4;
    for (int s = 0; s < 4; s++) {
        of.program.steps[s] = (op_fused_step){.code = codes[s], .operand_count = s == 2 ? 2 : 3};
        memcpy(of.program.steps[s].operands, operands[s], sizeof operands[s]);
    }
    assert_true(describe(&of, &arena));
    assert_true(run_steps(&of, &bytes, &arena));
    op_tensor made = {0};
    base_report report = {0};
    of.attributes[1] =
        (op_attribute){.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = OP_INT8};
    op_call call = {.code = OP_FUSED,
                    .attributes = {.count = 2, .items = of.attributes},
                    .input_count = 5,
                    .output_count = 1,
                    .inputs = of.values,
                    .outputs = &made};
    assert_int_equal(op_infer(&call, &report), BASE_OK);
    take_memory(&made, &arena);
    for (int over = -1; over <= 3; over += over < 0 ? 1 : 3) {
        run_call(&call, 1, over, &arena);
        assert_memory_equal(made.data, of.values[8].data, made.bytes);
    }
    /* One scale a row is not for blocks. */
    of.values[1].type.shape = (op_shape){.rank = 1, .dims = {1001}};
    assert_null(rt_kernel_select(&call, &(rt_environment){.threads = 1, .portable_only = true}));
    base_arena_free(&arena);
}

/* ---- steps between bytes and floats ------------------------------------------------------------------------ */

/* One more step, of these operands. Returns the number of what it makes. */
static int32_t add_step(tree *of, op_code code, uint32_t count, const int32_t *operands) {
    op_fused_step *step = &of->program.steps[of->program.step_count];
    *step = (op_fused_step){.code = code, .operand_count = count};
    memcpy(step->operands, operands, count * sizeof *operands);
    return (int32_t)(of->program.input_count + of->program.step_count++);
}

static int32_t new_input(tree *of, op_dtype dtype, const op_shape *shape, base_arena *arena,
                         test_random *random) {
    op_tensor *tensor = &of->values[of->program.input_count];
    *tensor = (op_tensor){.type = {.dtype = dtype, .shape = *shape}};
    take_memory(tensor, arena);
    fill(tensor, random);
    return (int32_t)of->program.input_count++;
}

/* Scales whose quotients are often in the middle of two numbers, one with many digits, one without a reciprocal. */
static const float scales[] = {0.25f, 0.5f, 0.0371f, 3.0f, 1e-39f};

typedef struct byte_inputs {
    int32_t bytes[2], added, scales[3], zeros[3]; /* zeros: -1: none */
} byte_inputs;

static byte_inputs make_byte_inputs(tree *of, const op_shape *whole, op_dtype dtype, base_arena *arena,
                                    test_random *random) {
    byte_inputs in;
    const op_shape one = {0};
    const op_shape some = broadcast_shape(whole, random);
    for (int i = 0; i < 2; i++) in.bytes[i] = new_input(of, dtype, whole, arena, random);
    in.added = new_input(of, OP_FLOAT, &some, arena, random);
    if (below(random, 4) == 0) ((float *)of->values[in.added].data)[0] = below(random, 2) ? NAN : INFINITY;
    for (int i = 0; i < 3; i++) {
        in.scales[i] = new_input(of, OP_FLOAT, &one, arena, random);
        *(float *)of->values[in.scales[i]].data = scales[below(random, i == 2 ? 5 : 4)];
        in.zeros[i] = below(random, 3) ? new_input(of, dtype, &one, arena, random) : -1;
    }
    return in;
}

/* Bytes become floats, some operators work on these, they become bytes, and perhaps floats and bytes again. */
static void make_byte_steps(tree *of, const byte_inputs *in, test_random *random) {
    const uint32_t back = in->zeros[0] < 0 ? 2 : 3, there = in->zeros[2] < 0 ? 2 : 3;
    int32_t x =
        add_step(of, OP_DEQUANTIZE_LINEAR, back, (int32_t[]){in->bytes[0], in->scales[0], in->zeros[0]});
    if (below(random, 2)) {
        const int32_t y = add_step(of, OP_DEQUANTIZE_LINEAR, in->zeros[1] < 0 ? 2 : 3,
                                   (int32_t[]){in->bytes[1], in->scales[1], in->zeros[1]});
        x = add_step(of, below(random, 2) ? OP_ADD : OP_MUL, 2,
                     below(random, 2) ? (int32_t[]){x, y} : (int32_t[]){y, x});
    }
    if (below(random, 3) == 0) x = add_step(of, OP_TANH, 1, &x);
    if (below(random, 3) == 0) x = add_step(of, OP_SUB, 2, (int32_t[]){x, in->added});
    x = add_step(of, OP_QUANTIZE_LINEAR, there, (int32_t[]){x, in->scales[2], in->zeros[2]});
    if (below(random, 3) == 0) {
        const int32_t y =
            add_step(of, OP_DEQUANTIZE_LINEAR, there, (int32_t[]){x, in->scales[2], in->zeros[2]});
        x = add_step(of, OP_ADD, 2, (int32_t[]){y, y});
        if (below(random, 2))
            add_step(of, OP_QUANTIZE_LINEAR, back, (int32_t[]){x, in->scales[0], in->zeros[0]});
    }
}

static void try_bytes(uint64_t seed, int *tried) {
    test_random random = {seed};
    base_arena arena;
    base_arena_init(&arena, NULL);
    static const int64_t extents[] = {1, 3, 16, 130, 1001, 3000};
    op_shape whole = {.rank = 2, .dims = {extents[below(&random, 4)], extents[below(&random, 6)]}};
    if (below(&random, 4) == 0) whole = (op_shape){.rank = 1, .dims = {9001}};
    static tree of;
    memset(&of, 0, sizeof of);
    const byte_inputs in =
        make_byte_inputs(&of, &whole, below(&random, 2) ? OP_INT8 : OP_UINT8, &arena, &random);
    make_byte_steps(&of, &in, &random);
    const op_type type = {.dtype = OP_FLOAT, .shape = whole};
    if (describe(&of, &arena) && run_steps(&of, &type, &arena)) {
        const op_tensor *expected = &of.values[of.program.input_count + of.program.step_count - 1];
        op_tensor made = {0};
        base_report report = {0};
        of.attributes[1] = (op_attribute){
            .name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = expected->type.dtype};
        op_call call = {.code = OP_FUSED,
                        .attributes = {.count = 2, .items = of.attributes},
                        .input_count = of.program.input_count,
                        .output_count = 1,
                        .inputs = of.values,
                        .outputs = &made};
        if (op_infer(&call, &report) != BASE_OK) fail_msg("%s", report.text);
        take_memory(&made, &arena);
        for (int way = 0; way < 3; way++) {
            const bool over = way == 2 && expected->type.dtype != OP_FLOAT;
            memset(made.data, 0xa5, made.bytes);
            run_call(&call, way == 1 ? 3 : 1, over ? in.bytes[0] : -1, &arena);
            if (memcmp(made.data, expected->data, made.bytes) == 0) continue;
            for (uint32_t s = 0; s < of.program.step_count; s++) printf("  %s\n", of.texts[s].data);
            fail_msg("seed %llu, way %d: other bits", (unsigned long long)seed, way);
        }
        ++*tried;
    }
    base_arena_free(&arena);
}

static void test_bytes(void **state) {
    (void)state;
    int tried = 0;
    for (uint64_t i = 0; i < TREES; i++) try_bytes(SEED + i, &tried);
    printf("%d of %d of bytes\n", tried, TREES);
    assert_true(tried > TREES / 2);
}

/* ---- decays -------------------------------------------------------------------------------------------- */

/* Runs these steps on two rows of `count` floats. */
static void run_text(const op_string *steps, size_t step_count, int64_t count, float *x, float *h, float *y,
                     bool portable) {
    const rt_environment environment = {.threads = 1, .portable_only = portable};
    const op_type row = {.dtype = OP_FLOAT, .shape = {.rank = 1, .dims = {count}}};
    const size_t bytes = (size_t)count * sizeof *x;
    const op_attribute attributes[] = {
        {.name = "steps", .kind = OP_ATTRIBUTE_STRINGS, .count = step_count, .as.texts = steps},
        {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = OP_FLOAT}};
    const op_tensor inputs[] = {{.type = row, .data = x, .bytes = bytes},
                                {.type = row, .data = h, .bytes = bytes}};
    op_tensor output = {.type = row, .data = y, .bytes = bytes};
    const op_call call = {.code = OP_FUSED,
                          .attributes = {.count = 2, .items = attributes},
                          .input_count = 2,
                          .output_count = 1,
                          .inputs = (op_tensor *)inputs,
                          .outputs = &output};
    const rt_kernel *kernel = rt_kernel_select(&call, &environment);
    base_report report = {0};
    rt_prepared prepared;
    base_arena arena;
    base_arena_init(&arena, NULL);
    assert_non_null(kernel);
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &arena, &prepared, &report), BASE_OK);
    assert_int_equal(prepared.run(&prepared, inputs, &output, NULL, &report), BASE_OK);
    rt_kernel_release(&prepared);
    base_arena_free(&arena);
}

/* An Exp that is a factor may be 0 where it is subnormal, but is not where others read it, nor in portable plans. */
static void test_decays(void **state) {
    (void)state;
    enum { COUNT = 401 };
    static const op_string product[] = {{"Exp 0", 5}, {"Mul 1 2", 7}},
                           both[] = {{"Exp 0", 5}, {"Mul 1 2", 7}, {"Add 3 2", 7}};
    float x[COUNT], h[COUNT], y[COUNT], zero[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) x[i] = -0.5f * (float)i, h[i] = (float)(i % 7) - 3.0f;
    for (int portable = 0; portable < 2; portable++) {
        run_text(product, 2, COUNT, x, h, y, portable);
        for (int i = 0; i < COUNT; i++) {
            const double want = exp((double)x[i]) * (double)h[i];
            assert_true(fabs((double)y[i] - want) <= 4e-7 * fabs(want) + 0x1p-126 * fabs((double)h[i]));
            if (portable && h[i] != 0 && x[i] > -103) assert_true(y[i] != 0);
            if (x[i] < -105) assert_true(y[i] == 0);
        }
        run_text(both, 3, COUNT, x, zero, y, portable);
        for (int i = 0; i < COUNT; i++) {
            const double want = exp((double)x[i]);
            assert_true(fabs((double)y[i] - want) <= 4e-7 * want + 0x1p-149);
        }
    }
    x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY;
    h[0] = h[1] = h[2] = 2;
    run_text(product, 2, COUNT, x, h, y, false);
    assert_true(isnan(y[0]) && isinf(y[1]) && y[1] > 0 && y[2] == 0);
}

/* ---- outer products ------------------------------------------------------------------------------------ */

enum { MOST_ROWS = 40, MOST_WIDTH = 64 };

/* Steps on x (rows of `width`), e (a number for each row) and f (one row for all); the rows at once, and then in two parts. */
static void run_rows(const char *text, int64_t rows, int64_t width, const float *x, const float *e,
                     const float *f, float *y) {
    const rt_environment environment = {.threads = 1};
    op_string steps[OP_FUSED_STEPS];
    size_t step_count = 0;
    for (const char *at = text; *at; at += strcspn(at, ";") + (at[strcspn(at, ";")] != 0))
        steps[step_count++] = (op_string){at, strcspn(at, ";")};
    const op_type whole = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {rows, width}}},
                  each = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {rows, 1}}},
                  one = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {1, width}}};
    const op_attribute attributes[] = {
        {.name = "steps", .kind = OP_ATTRIBUTE_STRINGS, .count = step_count, .as.texts = steps},
        {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = OP_FLOAT}};
    const size_t bytes = sizeof *x * (size_t)(rows * width);
    op_tensor inputs[] = {{.type = whole, .data = (float *)(uintptr_t)x, .bytes = bytes},
                          {.type = each, .data = (float *)(uintptr_t)e, .bytes = sizeof *e * (size_t)rows},
                          {.type = one, .data = (float *)(uintptr_t)f, .bytes = sizeof *f * (size_t)width}};
    op_tensor output = {.type = whole, .data = y, .bytes = bytes};
    const op_call call = {.code = OP_FUSED,
                          .attributes = {.count = 2, .items = attributes},
                          .input_count = 3,
                          .output_count = 1,
                          .inputs = inputs,
                          .outputs = &output};
    float parts[MOST_ROWS * MOST_WIDTH];
    base_report report = {0};
    rt_prepared prepared;
    base_arena arena;
    base_arena_init(&arena, NULL);
    const rt_kernel *kernel = rt_kernel_select(&call, &environment);
    assert_non_null(kernel);
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &arena, &prepared, &report), BASE_OK);
    assert_int_equal(prepared.run(&prepared, inputs, &output, NULL, &report), BASE_OK);
    output.data = parts;
    for (int64_t cut = 0; prepared.rows.run && cut <= prepared.rows.count; cut++) {
        memset(parts, 0xa5, sizeof parts);
        prepared.rows.run(&prepared, inputs, &output, 0, cut, prepared.rows.count);
        prepared.rows.run(&prepared, inputs, &output, 0, 0, cut);
        assert_memory_equal(parts, y, bytes);
    }
    rt_kernel_release(&prepared);
    base_arena_free(&arena);
}

/* What a sum makes with a product of a column and a row is as near as if both were rounded, on either side, and when others read the product. */
static void test_outer_products(void **state) {
    (void)state;
    static const char *const texts[] = {"Mul 0 0;Mul 1 2;Add 3 4",
                                        "Mul 2 1;Mul 0 0;Add 3 4",
                                        "Mul 1 2;Add 0 3",
                                        "Mul 1 2;Add 3 0;Mul 4 3",
                                        "Mul 1 2;Mul 2 1;Add 3 4",
                                        "Mul 1 2;Add 3 3",
                                        "Mul 0 0;Mul 1 2;Mul 3 0;Add 4 5;Sub 6 3"};
    static float x[MOST_ROWS * MOST_WIDTH], y[MOST_ROWS * MOST_WIDTH];
    float e[MOST_ROWS], f[MOST_WIDTH];
    test_random random = {SEED};
    for (int i = 0; i < MOST_ROWS * MOST_WIDTH; i++) x[i] = (float)below(&random, 2001) / 700.0f - 1.5f;
    for (int i = 0; i < MOST_ROWS; i++) e[i] = (float)below(&random, 2001) / 900.0f - 1.1f;
    for (int i = 0; i < MOST_WIDTH; i++) f[i] = (float)below(&random, 2001) / 300.0f - 3.1f;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        for (int64_t width = 16; width <= MOST_WIDTH; width *= 2) {
            for (int64_t rows = 3; rows <= MOST_ROWS; rows += 7) {
                run_rows(texts[t], rows, width, x, e, f, y);
                for (int64_t i = 0; i < rows * width; i++) {
                    const double a = x[i], p = (double)e[i / width] * (double)f[i % width];
                    const double wants[] = {
                        a * a + p, p + a * a, a + p, (p + a) * p, p + p, p + p, p + a * a * a - a * a};
                    assert_true(fabs((double)y[i] - wants[t]) <=
                                3e-7 * (fabs(p) + a * a + fabs(a) + fabs(a * a * a)) * (1 + fabs(p)));
                }
            }
        }
    }
}

/* ---- what is refused ----------------------------------------------------------------------------------- */

/* The kernel takes these steps on a vector and on a matrix of such vectors, with a result of this type. */
static bool is_taken(const op_string *steps, size_t count, op_dtype to) {
    const op_attribute attributes[] = {
        {.name = "steps", .kind = OP_ATTRIBUTE_STRINGS, .count = count, .as.texts = steps},
        {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = to}};
    op_tensor inputs[2] = {{.type = {.dtype = OP_FLOAT, .shape = {.rank = 1, .dims = {4}}}},
                           {.type = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {3, 4}}}}},
              output = {.type = {.dtype = to,
                                 .shape = {.rank = count == 1 ? 1 : 2, .dims = {count == 1 ? 4 : 3, 4}}}};
    const op_call call = {.code = OP_FUSED,
                          .attributes = {.count = 2, .items = attributes},
                          .input_count = 2,
                          .output_count = 1,
                          .inputs = inputs,
                          .outputs = &output};
    return rt_kernel_select(&call, &(rt_environment){.threads = 1, .portable_only = true}) != NULL;
}

static void test_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "Add",
                                      "Add 0",
                                      "Add 0 2",
                                      "Add 0 1 1",
                                      "Conv 0 1",
                                      "Add 0 x",
                                      "Add 0 -1",
                                      "Neg 0 alpha",
                                      "Neg 0 alpha=",
                                      "Neg 0 bet=1",
                                      "LeakyRelu 0 alpha=zz",
                                      "Cast 0 to=1x",
                                      "Softmax 0",
                                      "Fused 0",
                                      "LeakyRelu alpha=3d4ccccd 0",
                                      "Neg 00000000000000000000000",
                                      "DequantizeLinear 0 1 2",
                                      "Add 0 99999999999999999999",
                                      "Neg 0 alpha=3d4ccccd0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const op_string text = {bad[i], strlen(bad[i])};
        if (is_taken(&text, 1, OP_FLOAT)) fail_msg("\"%s\" is taken", bad[i]);
    }
    const op_string sum = {"Add 0 0", 7}, both[] = {{"Neg 0", 5}, {"Add 2 1", 7}}, less = {"Less 0 0", 8};
    assert_true(is_taken(&sum, 1, OP_FLOAT));
    assert_false(is_taken(&sum, 1, OP_INT32));
    assert_false(is_taken(&less, 1, OP_FLOAT));
    assert_true(is_taken(&less, 1, OP_BOOL));
    assert_false(is_taken(both, 2, OP_FLOAT)); /* what is made within is not broadcast */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees),  cmocka_unit_test(test_quantized),      cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_decays), cmocka_unit_test(test_outer_products), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
