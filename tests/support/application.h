/* SPDX-License-Identifier: Apache-2.0 */
/* application.h: one application of an operator, made, run and freed by a test.
 *
 *     application app;
 *     application_init(&app, OP_CONV);
 *     application_random(&app, OP_FLOAT, 4, (int64_t[]){1, 3, 8, 8}, &seed);
 *     application_random(&app, OP_FLOAT, 4, (int64_t[]){4, 3, 3, 3}, &seed);
 *     application_integers(&app, "pads", 4, (int64_t[]){1, 1, 1, 1});
 *     assert_int_equal(application_infer(&app), BASE_OK);
 *     application_run(&app, "portable.convolution", 1);
 *     const float *y = app.call.outputs[0].data;
 *     application_free(&app);
 */
#ifndef SUPPORT_APPLICATION_H
#define SUPPORT_APPLICATION_H

#include "runtime/kernels/table.h"

/* A list of extents: DIMS(1, 3, 8, 8). */
#define DIMS(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }

enum { APPLICATION_INPUTS = 8, APPLICATION_OUTPUTS = 3, APPLICATION_ATTRIBUTES = 16 };

typedef struct application {
    op_call call;
    op_tensor inputs[APPLICATION_INPUTS], outputs[APPLICATION_OUTPUTS];
    op_attribute attributes[APPLICATION_ATTRIBUTES];
    base_arena arena;
    base_report report;
} application;

/* Numbers that are the same everywhere: xorshift64*. */
uint64_t random_next(uint64_t *seed);
int64_t random_range(uint64_t *seed, int64_t low, int64_t high); /* both included */
float random_float(uint64_t *seed);                              /* [-1, 1) */

void application_init(application *app, op_code code);
void application_free(application *app);
/* Adds an input of zeros, of random numbers, or an absent one; returns its data. */
void *application_input(application *app, op_dtype dtype, int32_t rank, const int64_t *dims);
void *application_random(application *app, op_dtype dtype, int32_t rank, const int64_t *dims, uint64_t *seed);
void application_absent(application *app);
void application_integer(application *app, const char *name, int64_t value);
void application_real(application *app, const char *name, float value);
void application_text(application *app, const char *name, const char *value);
void application_texts(application *app, const char *name, size_t count, const char *const *values);
void application_integers(application *app, const char *name, size_t count, const int64_t *values);
/* Begins a Gemm of m x k times k x n with random operands, turned round where that is said. What is added has by
 * `form` the shape [], [n], [m, 1], [m, n] or [1, n] (1 to 5), or is absent (0). */
void application_gemm(application *app, op_dtype dtype, int64_t m, int64_t k, int64_t n, bool turn_a,
                      bool turn_b, int64_t form, uint64_t *seed);
/* Infers the outputs' types; messages are in app->report. */
base_status application_infer(application *app);
/* Memory of `bytes`, aligned as the executor's, that lives as long as the application. */
void *application_memory(application *app, size_t bytes);
/* The tensor in another layout, through the portable kernel: itself, or in memory of the application. */
op_tensor application_reordered(application *app, const op_tensor *from, op_layout layout);
/* Infers where that has not been done, allocates outputs that have no data, runs the kernel of this name
 * (failing the test if it does not accept). */
void application_run(application *app, const char *kernel, int threads);
/* Whether the machine has vectors of 16 floats, which some kernels want: asked of the machine itself. */
bool application_machine_is_wide(void);
/* Runs what is prepared for so many threads, and releases it. Fails the test unless it does well, allocates nothing and wants no scratch. */
void application_run_prepared(application *app, rt_prepared *prepared, const op_tensor *inputs,
                              op_tensor *output, int threads);
/* Runs a kernel that packs the weights, input 1, into so many bytes: input 0 lies as `from`, the result and input 3, which is added to it, as
 * `to`. With `in_place` the result takes the memory of input 3. Fails the test unless the weights come back from what they are packed
 * into, nothing is allocated, nothing is written after the scratch, and what pads blocks of the result is zeros. The result is row-major.
 * 0 bytes: only the run has the weights, and the kernel packs them into scratch. */
op_tensor application_packed(application *app, const rt_kernel *kernel, op_layout from, op_layout to,
                             size_t packed_bytes, int threads, bool in_place);
/* The element as a number, whatever its dtype (row-major tensors). */
double application_element(const op_tensor *tensor, int64_t index);

/* How far from the exact value a sum of products may be, relative to it. */
double application_tolerance(op_dtype dtype);
/* Output 0 of the same application on the same numbers in float, by the row-major kernel of this name; in memory of `app`. */
op_tensor application_floats(application *app, const char *kernel);
/* Fails the test unless the two are as near as `relative` of 1 + |want|; seed and index are for the message. */
void application_check_near(double got, double want, double relative, uint64_t seed, int64_t index);
/* Inferring is refused with a message that has this in it; gives this shape to the first output. Both free the
 * application. */
void application_expect_failure(application *app, const char *message);
void application_expect_shape(application *app, int32_t rank, const int64_t *dims);

/* Runs a kernel that is chosen by its estimate, with images in `layout`, in as many blocks as fit into `scratch_limit` bytes, or in `blocks` if these
 * are not 0. With `in_place` the result takes the memory of input 3. Fails the test unless it estimates, packs and accepts the application, stays
 * within the scratch that it said, allocates nothing, and leaves zeros in channels that pad a block. The output, row-major. */
op_tensor application_run_blocks(application *app, const char *name, op_layout layout, size_t scratch_limit,
                                 int64_t blocks, int threads, bool in_place);
/* Such a kernel beside another one that computes the same, named `plain`: near it, and the same bits on 1 to 5 threads, in as many blocks as it likes and in
 * 1 to 3. Else the test fails, naming the seed. With `residual`, input 3 is taken over once. */
void application_check_blocks(application *app, const char *name, const char *plain, op_layout layout,
                              bool residual, uint64_t seed);

/* One of the first `kinds` activations that may be fused (none, Relu, LeakyRelu, Clip, Sigmoid, Swish, HardSwish, Tanh), and their numbers. */
void application_draw_activation(application *app, int kinds, uint64_t *seed);

/* A convolution of one square image by square windows, with as many points around the image as give it its extent again where the stride is 1. What
 * is zero is one; the type: float; the filters: as many as channels. */
typedef struct application_square {
    op_dtype dtype;
    op_layout layout; /* of both images */
    int64_t channels, filters, extent, kernel, stride, dilation, group;
    bool portable_only;
} application_square;

/* Whether the kernel estimates it on one thread, within so much scratch. */
bool application_estimates_square(const char *name, const application_square *of, size_t scratch_limit,
                                  rt_cost *cost);
/* So many times as long as the kernel named `other`, as predicted; the test fails where one of them does not estimate it. */
double application_square_ratio(const char *name, const char *other, const application_square *of);

/* A random product of `rows` rows by constant weights, in floats or halves, which may be turned and scaled, with bias and activation or without. */
void application_draw_product(application *app, op_dtype dtype, int64_t rows, uint64_t *seed);

/* Whether the kernel estimates MatMul of these extents and this type on one thread. */
bool application_estimates_product(const char *name, int64_t rows, int64_t depth, int64_t columns,
                                   op_dtype dtype, bool portable_only);

#endif
