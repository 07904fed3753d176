/* SPDX-License-Identifier: Apache-2.0 */
/* odd.h: applications that make little sense, for tests that nothing may break: types, shapes, attributes and data are drawn at
 * random, for some operators near what makes sense. Each tensor has memory of its own, to the byte, so that a build with
 * sanitizers sees every access outside of it.
 *
 *     odd_application app;
 *     odd_draw(&app, OP_CONV, 17);
 *     if (odd_infer(&app) && odd_take_outputs(&app)) ... run a kernel on app.call ...
 *     odd_free(&app);
 */
#ifndef OURO_SUPPORT_ODD_H
#define OURO_SUPPORT_ODD_H

#include "tests/support/operators.h"

enum { ODD_INPUTS = 10, ODD_OUTPUTS = 6, ODD_LARGEST = 1 << 18 };

typedef struct odd_application {
    op_call call;
    op_tensor inputs[ODD_INPUTS], outputs[ODD_OUTPUTS];
    void *owned[ODD_OUTPUTS]; /* memory of outputs, from malloc */
    base_arena arena;
} odd_application;

/* Operators that own graphs, and those of our own passes, are left out. */
bool odd_is_tried(op_code code);
/* Application `number` of the operator: the same each time. */
void odd_draw(odd_application *app, op_code code, uint64_t number);
/* Infers as the compiler and then the executor does: without data, then with it. False: refused, with a message. */
bool odd_infer(odd_application *app);
/* Memory for the outputs, unless a kernel measures them. False: too large for a test, or not known. */
bool odd_take_outputs(odd_application *app);
void odd_free(odd_application *app);

/* Runs a kernel that accepts the application, on its inputs as they are now. `known`: it sees them when it is prepared, as
 * constants. False: refused, with a message. */
bool odd_run(odd_application *app, const rt_kernel *kernel, const rt_environment *environment, bool known);

/* Small numbers, some of them far off or not a number. */
void odd_fill(test_random *random, op_tensor *tensor);
/* The ends of the type, infinities, NaN, the largest and the smallest numbers: alone, or among small ones; or any bits. */
void odd_fill_hostile(test_random *random, op_tensor *tensor);

#endif
