/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h: how long a kernel takes for one application. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "tests/support/application.h"
#include <time.h>

/* Seconds of the fastest run by this clock, of runs that take `least` seconds together; negative where the kernel is NULL or
 * does not accept. The operands get memory of the application and made-up numbers. */
double bench_measure(application *app, const rt_kernel *kernel, int threads, clockid_t clock, double least);

#endif
