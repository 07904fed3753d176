/* SPDX-License-Identifier: Apache-2.0 */
/* window_run.h: how convolutions with windows in fixed point run. For window_bands.c.
 */
#ifndef OURO_WINDOW_RUN_H
#define OURO_WINDOW_RUN_H

#include "runtime/kernels/portable/window_shape.h"

/* Of an application whose state is a rt_window_shape that rt_window_prepare has completed. */
base_status rt_window_run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                          void *scratch, base_report *report);

#endif
