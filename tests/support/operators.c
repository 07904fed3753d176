/* SPDX-License-Identifier: Apache-2.0 */
/* operators.c: see operators.h. */
#include "tests/support/operators.h"
#include "ir/operators/range.h"
#include "ir/operators/small.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

uint64_t test_random_next(test_random *random) {
    return base_random(&random->state);
}

int64_t test_random_below(test_random *random, int64_t end) {
    return (int64_t)(test_random_next(random) % (uint64_t)end);
}

static void *aligned(base_arena *arena, size_t bytes) {
    void *memory = rt_arena_aligned(arena, bytes);
    assert_non_null(memory);
    return memory;
}

op_tensor test_tensor(base_arena *arena, op_dtype dtype, const op_shape *shape) {
    op_tensor tensor = {.type = {.dtype = dtype, .shape = *shape}};
    assert_true(op_type_bytes(&tensor.type, &tensor.bytes));
    tensor.data = aligned(arena, tensor.bytes);
    return tensor;
}

op_tensor test_vector(base_arena *arena, const int64_t *values, int64_t count) {
    op_shape shape = {.rank = 1, .dims = {count}};
    op_tensor tensor = test_tensor(arena, OP_INT64, &shape);
    if (count) memcpy(tensor.data, values, (size_t)count * sizeof *values);
    return tensor;
}

op_shape test_shape(int32_t rank, ...) {
    op_shape shape = {.rank = rank};
    va_list dims;
    va_start(dims, rank);
    for (int32_t i = 0; i < rank; i++) shape.dims[i] = va_arg(dims, int);
    va_end(dims);
    return shape;
}

int64_t test_elements(const op_tensor *tensor) {
    int64_t elements = 0;
    assert_true(op_shape_elements(&tensor->type.shape, &elements));
    return elements;
}

bool test_is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || dtype == OP_FLOAT16 || dtype == OP_BFLOAT16;
}

/* Written from the definition of the formats, not from the code under test. */
static double small_float(unsigned bits, int exponent_bits, int fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    int exponent = (int)(bits >> fraction_bits) & top;
    double fraction = (double)(bits & ((1u << fraction_bits) - 1)) / (double)(1 << fraction_bits);
    double value = exponent == top ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                   : exponent == 0 ? ldexp(fraction, 1 - bias)
                                   : ldexp(1 + fraction, exponent - bias);
    return bits >> (exponent_bits + fraction_bits) ? -value : value;
}

/* The nearest of all 65536, ties to the even one; slow and obvious. */
static unsigned nearest_small_float(double value, int exponent_bits, int fraction_bits) {
    if (isnan(value)) return 0x7fffu;
    unsigned sign = signbit(value) ? 0x8000u : 0, infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    double magnitude = fabs(value);
    unsigned low = 0, high = infinity; /* the largest not above; infinity counts as the next power of two */
    while (low < high) {
        unsigned middle = (low + high + 1) / 2;
        if (middle < infinity && small_float(middle, exponent_bits, fraction_bits) <= magnitude) low = middle;
        else high = middle - 1;
    }
    double below = small_float(low, exponent_bits, fraction_bits);
    double above = low + 1 == infinity ? ldexp(1, 1 << (exponent_bits - 1))
                                       : small_float(low + 1, exponent_bits, fraction_bits);
    if (isinf(magnitude)) return sign | infinity;
    if (magnitude - below > above - magnitude || (magnitude - below == above - magnitude && (low & 1))) low++;
    return sign | low;
}

double test_real(const op_tensor *tensor, int64_t index) {
    switch (tensor->type.dtype) {
    case OP_FLOAT:
        return (double)((const float *)tensor->data)[index];
    case OP_DOUBLE:
        return ((const double *)tensor->data)[index];
    case OP_FLOAT16:
        return small_float(((const uint16_t *)tensor->data)[index], 5, 10);
    case OP_BFLOAT16:
        return small_float(((const uint16_t *)tensor->data)[index], 8, 7);
    case OP_UINT64:
        return (double)((const uint64_t *)tensor->data)[index];
    default:
        if (op_dtype_is_small(tensor->type.dtype))
            return (double)op_small_value(tensor->type.dtype,
                                          op_small_load(tensor->type.dtype, tensor->data, index));
        return (double)test_integer(tensor, index);
    }
}

int64_t test_integer(const op_tensor *tensor, int64_t index) {
    switch (tensor->type.dtype) {
    case OP_BOOL:
    case OP_UINT8:
        return ((const uint8_t *)tensor->data)[index];
    case OP_INT8:
        return ((const int8_t *)tensor->data)[index];
    case OP_UINT16:
        return ((const uint16_t *)tensor->data)[index];
    case OP_INT16:
        return ((const int16_t *)tensor->data)[index];
    case OP_UINT32:
        return ((const uint32_t *)tensor->data)[index];
    case OP_INT32:
        return ((const int32_t *)tensor->data)[index];
    case OP_INT64:
    case OP_UINT64:
        return ((const int64_t *)tensor->data)[index];
    default:
        return (int64_t)test_real(tensor, index);
    }
}

void test_set(op_tensor *tensor, int64_t index, double value) {
    static const char *const words[] = {"", "a", "bc", "def"};
    switch (tensor->type.dtype) {
    case OP_FLOAT:
        ((float *)tensor->data)[index] = (float)value;
        break;
    case OP_DOUBLE:
        ((double *)tensor->data)[index] = value;
        break;
    case OP_FLOAT16:
        ((uint16_t *)tensor->data)[index] = (uint16_t)nearest_small_float(value, 5, 10);
        break;
    case OP_BFLOAT16:
        ((uint16_t *)tensor->data)[index] = (uint16_t)nearest_small_float(value, 8, 7);
        break;
    case OP_BOOL:
        ((uint8_t *)tensor->data)[index] = (int64_t)value & 1;
        break;
    case OP_UINT8:
    case OP_INT8:
        ((uint8_t *)tensor->data)[index] = (uint8_t)(int64_t)value;
        break;
    case OP_UINT16:
    case OP_INT16:
        ((uint16_t *)tensor->data)[index] = (uint16_t)(int64_t)value;
        break;
    case OP_UINT32:
    case OP_INT32:
        ((uint32_t *)tensor->data)[index] = (uint32_t)(int64_t)value;
        break;
    case OP_UINT64:
    case OP_INT64:
        ((int64_t *)tensor->data)[index] = (int64_t)value;
        break;
    case OP_COMPLEX64:
        ((float *)tensor->data)[2 * index] = (float)value;
        break;
    case OP_COMPLEX128:
        ((double *)tensor->data)[2 * index] = value;
        break;
    case OP_STRING: {
        const char *word = words[(uint64_t)(int64_t)value % 4];
        ((op_string *)tensor->data)[index] = (op_string){word, strlen(word)};
        break;
    }
    default:
        if (op_dtype_is_small(tensor->type.dtype))
            op_small_store(tensor->type.dtype, tensor->data, index,
                           op_small_code(tensor->type.dtype, value, true, OP_ROUND_NEAREST));
        break;
    }
}

void test_fill(op_tensor *tensor, test_random *random) {
    bool is_signed = test_is_real(tensor->type.dtype) || tensor->type.dtype == OP_INT8 ||
                     tensor->type.dtype == OP_INT16 || tensor->type.dtype == OP_INT32 ||
                     tensor->type.dtype == OP_INT64;
    for (int64_t i = 0; op_dtype_is_packed(tensor->type.dtype) && i < test_elements(tensor); i++)
        test_set(tensor, i, (double)test_random_below(random, 4));
    if (op_dtype_is_packed(tensor->type.dtype)) return;
    /* The 25 values are converted once; the conversions here are slow. */
    enum { VALUES = 25 };
    size_t size = op_dtype_bytes(tensor->type.dtype);
    _Alignas(16) char palette[VALUES * 16] = {0};
    op_tensor values = {.type = tensor->type, .data = palette};
    for (int64_t i = 0; i < VALUES; i++) {
        double value = (double)(is_signed ? i - VALUES / 2 : i);
        test_set(&values, i, test_is_real(tensor->type.dtype) ? value / 4 : value);
    }
    for (int64_t i = 0, count = test_elements(tensor); i < count; i++) {
        memcpy((char *)tensor->data + (size_t)i * size,
               palette + (size_t)test_random_below(random, VALUES) * size, size);
    }
}

/* Runs the application with a portable kernel into fresh memory; output `made` over input `over` where that is not -1. */
static base_status run_again(const op_call *call, int threads, bool hide, int over, uint32_t made,
                             base_arena *arena, op_tensor *outputs, base_report *report) {
    rt_environment environment = {.threads = threads, .portable_only = true};
    op_tensor inputs[16], known[16];
    assert_true(call->input_count <= 16);
    for (uint32_t i = 0; i < call->input_count; i++) {
        inputs[i] = known[i] = call->inputs[i];
        if (hide) known[i].data = NULL;
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        outputs[i] = call->outputs[i];
        outputs[i].data = aligned(arena, outputs[i].bytes);
    }
    if (over >= 0) {
        if (outputs[made].bytes) memcpy(outputs[made].data, inputs[over].data, outputs[made].bytes);
        inputs[over].data = outputs[made].data;
    }
    op_call again = *call;
    again.inputs = known;
    again.outputs = outputs;
    const rt_kernel *kernel = rt_kernel_select(&again, &environment);
    assert_non_null(kernel);
    assert_false(kernel->only_packed); /* nothing is packed */
    rt_prepared prepared;
    base_status status = rt_kernel_prepare(kernel, &again, &environment, arena, &prepared, report);
    if (status == BASE_OK) {
        void *scratch = prepared.scratch_bytes ? aligned(arena, prepared.scratch_bytes) : NULL;
        status = prepared.run(&prepared, inputs, outputs, scratch, report);
    }
    rt_kernel_release(&prepared);
    return status;
}

/* Strings are compared as text: those made by Cast lie elsewhere each time. */
static void assert_same(const op_tensor *a, const op_tensor *b) {
    if (a->type.dtype != OP_STRING) {
        if (a->bytes) assert_memory_equal(a->data, b->data, a->bytes);
        return;
    }
    const op_string *x = a->data, *y = b->data;
    for (int64_t i = 0, count = test_elements(a); i < count; i++) {
        assert_int_equal(x[i].length, y[i].length);
        if (x[i].length) assert_memory_equal(x[i].data, y[i].data, x[i].length);
    }
}

base_status test_apply(op_call *call, base_arena *arena, unsigned *in_place, base_report *report) {
    call->arena = arena;
    for (uint32_t i = 0; i < call->output_count; i++) call->outputs[i] = (op_tensor){0};
    base_status status = op_infer(call, report);
    if (status != BASE_OK) return status;

    op_tensor hidden[16], outputs[16] = {0};
    for (uint32_t i = 0; i < call->input_count; i++) {
        hidden[i] = call->inputs[i];
        hidden[i].data = NULL;
    }
    op_call blind = *call;
    blind.inputs = hidden;
    blind.outputs = outputs;
    assert_int_equal(op_infer(&blind, report), BASE_OK);
    for (uint32_t i = 0; i < call->output_count; i++) {
        const op_shape *less = &outputs[i].type.shape, *more = &call->outputs[i].type.shape;
        assert_int_equal(outputs[i].type.dtype, call->outputs[i].type.dtype);
        assert_true(op_shape_known(more));
        assert_true(less->rank == -1 || less->rank == more->rank);
        for (int32_t k = 0; k < less->rank; k++)
            assert_true(less->dims[k] < 0 || less->dims[k] == more->dims[k]);
    }

    const rt_environment environment = {.threads = 1, .portable_only = true};
    status = rt_kernel_evaluate(call, &environment, arena, report);
    if (status != BASE_OK) return status;
    for (int form = 0; form < 2; form++) {
        assert_int_equal(run_again(call, 2, form == 1, -1, 0, arena, outputs, report), BASE_OK);
        for (uint32_t i = 0; i < call->output_count; i++) assert_same(&outputs[i], &call->outputs[i]);
    }
    const op_schema *row = op_schema_of(call->code);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_tensor *input = &call->inputs[i];
        uint32_t output = 0;
        while (output < call->output_count && !op_may_write_over(row, output, i)) output++;
        if (output == call->output_count || input->bytes != call->outputs[output].bytes ||
            test_elements(input) != test_elements(&call->outputs[output])) {
            continue;
        }
        for (int threads = 1; threads <= 2; threads++) {
            assert_int_equal(run_again(call, threads, false, (int)i, output, arena, outputs, report),
                             BASE_OK);
            for (uint32_t k = 0; k < call->output_count; k++) assert_same(&outputs[k], &call->outputs[k]);
        }
        if (in_place && input->bytes) *in_place |= OP_IN_PLACE(i);
    }
    return BASE_OK;
}

/* The input over which the row allows output `output`, a state, to be written: none is the number of inputs. */
static uint32_t state_of(const op_call *call, uint32_t output) {
    uint32_t i = 0;
    while (i < call->input_count &&
           !(op_may_write_over(op_schema_of(call->code), output, i) && op_input_present(call, i) &&
             op_same_form(&call->inputs[i].type, &call->outputs[output].type)))
        i++;
    return i;
}

/* Bit o of `over`: output o lies where the state is that it replaces. Memory has something in it. */
static void run_states(const rt_kernel *kernel, const op_call *call, const rt_environment *environment,
                       unsigned over, base_arena *arena, op_tensor *outputs) {
    base_report report = {0};
    op_tensor inputs[16];
    assert_true(call->input_count <= 16);
    memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
    for (uint32_t o = 0; o < call->output_count; o++) {
        outputs[o] = call->outputs[o];
        if (outputs[o].type.dtype == OP_NONE) continue;
        assert_true(op_type_bytes(&outputs[o].type, &outputs[o].bytes));
        outputs[o].data = memset(aligned(arena, outputs[o].bytes), 0x7f, outputs[o].bytes);
        if (!(over >> o & 1)) continue;
        op_tensor *state = &inputs[state_of(call, o)];
        if (outputs[o].bytes) memcpy(outputs[o].data, state->data, outputs[o].bytes);
        state->data = outputs[o].data;
    }
    op_call own = *call;
    own.outputs = outputs;
    rt_prepared prepared;
    if (rt_kernel_prepare(kernel, &own, environment, arena, &prepared, &report) != BASE_OK)
        fail_msg("%s", report.text);
    void *scratch = memset(aligned(arena, prepared.scratch_bytes), 0x7f, prepared.scratch_bytes);
    if (prepared.run(&prepared, inputs, outputs, scratch, &report) != BASE_OK) fail_msg("%s", report.text);
    rt_kernel_release(&prepared);
}

int test_states_in_place(const rt_kernel *kernel, const op_call *call, const rt_environment *environment) {
    op_tensor apart[16], outputs[16];
    unsigned all = 0;
    int count = 0;
    base_arena arena;
    base_arena_init(&arena, NULL);
    run_states(kernel, call, environment, 0, &arena, apart);
    for (uint32_t o = 1; o < call->output_count; o++) {
        if (call->outputs[o].type.dtype == OP_NONE || state_of(call, o) == call->input_count) continue;
        all |= 1u << o;
        count++;
    }
    for (unsigned over = 1; over <= all; over++) {
        if (over & ~all) continue;
        run_states(kernel, call, environment, over, &arena, outputs);
        for (uint32_t o = 0; o < call->output_count; o++)
            if (outputs[o].type.dtype != OP_NONE) assert_same(&outputs[o], &apart[o]);
    }
    base_arena_free(&arena);
    return count;
}

op_tensor test_coarse_floats(base_arena *arena, uint32_t count) {
    const op_shape shape = {.rank = 1, .dims = {count}};
    const op_tensor made = test_tensor(arena, OP_FLOAT, &shape);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t bits = i * 4096u + 1234u;
        memcpy((float *)made.data + i, &bits, sizeof bits);
    }
    return made;
}
