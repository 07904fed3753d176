/* SPDX-License-Identifier: Apache-2.0 */
/* where.c: choice between two tensors, element by element. */
#include "runtime/kernels/portable/kernels.h"
#include <string.h>

typedef struct element16 {
    uint64_t parts[2];
} element16;

typedef void where_function(void *to, const uint8_t *condition, const void *yes, const void *no,
                            int64_t count, int64_t condition_stride, int64_t yes_stride, int64_t no_stride);

#define WHERE(type, clones)                                                                                  \
    clones static void where_##type(void *to, const uint8_t *condition, const void *yes, const void *no,     \
                                    int64_t count, int64_t condition_stride, int64_t yes_stride,             \
                                    int64_t no_stride) {                                                     \
        type *z = to;                                                                                        \
        const type *x = yes, *y = no;                                                                        \
        if (condition_stride == 1 && yes_stride == 1 && no_stride == 1) {                                    \
            RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                  \
                const type a = x[i], b = y[i];                                                               \
                z[i] = condition[i] ? a : b;                                                                 \
            }                                                                                                \
        } else if (condition_stride == 1 && yes_stride == 1 && no_stride == 0) {                             \
            const type b = y[0];                                                                             \
            RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                  \
                const type a = x[i];                                                                         \
                z[i] = condition[i] ? a : b;                                                                 \
            }                                                                                                \
        } else if (condition_stride == 1 && yes_stride == 0 && no_stride == 1) {                             \
            const type a = x[0];                                                                             \
            RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                  \
                const type b = y[i];                                                                         \
                z[i] = condition[i] ? a : b;                                                                 \
            }                                                                                                \
        } else if (condition_stride == 1 && yes_stride == 0 && no_stride == 0) {                             \
            const type a = x[0], b = y[0];                                                                   \
            RT_VECTOR for (int64_t i = 0; i < count; i++) z[i] = condition[i] ? a : b;                       \
        } else if (condition_stride == 0) {                                                                  \
            const type *from = condition[0] ? x : y;                                                         \
            const int64_t stride = condition[0] ? yes_stride : no_stride;                                    \
            RT_VECTOR for (int64_t i = 0; i < count; i++) z[i] = from[i * stride];                           \
        } else {                                                                                             \
            RT_VECTOR for (int64_t i = 0; i < count;                                                         \
                           i++) { /* both are read: branches would be guessed wrong */                       \
                const type a = x[i * yes_stride], b = y[i * no_stride];                                      \
                z[i] = condition[i * condition_stride] ? a : b;                                              \
            }                                                                                                \
        }                                                                                                    \
    }
WHERE(uint8_t, RT_CLONES)
WHERE(uint16_t, RT_CLONES)
WHERE(uint32_t, RT_CLONES)
WHERE(uint64_t, RT_CLONES)
WHERE(element16, )

typedef struct where_state {
    where_function *function;
    size_t size;
    rt_loop loop;
} where_state;

typedef struct where_context {
    const where_state *state;
    const op_tensor *inputs;
    op_tensor *output;
} where_context;

static void run_row(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {
    const where_context *context = user;
    const where_state *state = context->state;
    const rt_loop *loop = &state->loop;
    const int64_t size = (int64_t)state->size;
    int32_t last = loop->rank - 1;
    state->function((char *)context->output->data + offsets[0] * size,
                    (const uint8_t *)context->inputs[0].data + offsets[1],
                    (const char *)context->inputs[1].data + offsets[2] * size,
                    (const char *)context->inputs[2].data + offsets[3] * size, length, loop->strides[1][last],
                    loop->strides[2][last], loop->strides[3][last]);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const where_state *state = prepared->state;
    where_context context = {state, inputs, &outputs[0]};
    rt_loop_run(&state->loop, prepared->threads, 1, run_row, &context);
    return BASE_OK;
}

static base_status run_single(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const where_state *state = prepared->state;
    const void *from = inputs[*(const uint8_t *)inputs[0].data ? 1 : 2].data;
    if (from != outputs[0].data) memcpy(outputs[0].data, from, state->size);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_layouts(call, 3, true);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    where_state *state = BASE_NEW(arena, where_state);
    if (!state) return base_fail_memory(report);
    const op_type *to = &call->outputs[0].type;
    state->size = op_dtype_bytes(to->dtype);
    state->function = state->size == 1   ? where_uint8_t
                      : state->size == 2 ? where_uint16_t
                      : state->size == 4 ? where_uint32_t
                      : state->size == 8 ? where_uint64_t
                                         : where_element16;
    if (to->layout == OP_LAYOUT_ROW_MAJOR) {
        const op_shape *shapes[] = {&call->inputs[0].type.shape, &call->inputs[1].type.shape,
                                    &call->inputs[2].type.shape};
        rt_loop_broadcast(&state->loop, &to->shape, shapes, 3);
    } else {
        state->loop = (rt_loop){
            .rank = 1, .operands = 4, .dims = {rt_stored_elements(to)}, .strides = {{1}, {1}, {1}, {1}}};
    }
    prepared->state = state;
    prepared->run = rt_loop_elements(&state->loop) == 1 ? run_single : run;
    return BASE_OK;
}

const rt_kernel rt_kernel_where = {.name = "portable.where", .accepts = accepts, .prepare = prepare};
