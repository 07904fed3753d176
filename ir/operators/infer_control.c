/* infer_control.c: Loop and If own graphs: what they give follows from those, not from one application. */
#include "ir/operators/op.h"

base_status op_infer_control(op_call *call, base_report *report) {
    return base_fail(report, BASE_INVALID,
                     "the types of %s follow from its graphs, not from its inputs alone",
                     op_schema_of(call->code)->name);
}
