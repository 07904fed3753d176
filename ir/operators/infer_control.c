/* SPDX-License-Identifier: Apache-2.0 */
/* infer_control.c: Loop and If own graphs: what they give follows from those, not from one application. */
#include "ir/operators/infer.h"

base_status op_infer_control(op_call *call, base_report *report) {
    (void)call;
    return base_fail(report, BASE_INVALID,
                     "the types of its outputs follow from its graphs, not from its inputs alone");
}
