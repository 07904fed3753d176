/* SPDX-License-Identifier: Apache-2.0 */
/* in_place.c: what operators and types say about writing a result over an input. */
#include "ir/operators/range.h"
#include "passes/base/pass.h"

bool pass_may_write_over(const ir_node *node, uint32_t input) {
    const ir_value *read = ir_input(node, input), *made = node->output_count ? node->outputs[0] : NULL;
    return read && made && input < 32 && (op_schema_of(node->code)->in_place & OP_IN_PLACE(input)) &&
           op_same_form(&read->type, &made->type);
}
