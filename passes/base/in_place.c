/* SPDX-License-Identifier: Apache-2.0 */
/* in_place.c: what operators and types say about writing a result over an input. */
#include "ir/operators/range.h"
#include "passes/base/pass.h"

bool pass_may_write_over(const ir_node *node, uint32_t output, uint32_t input) {
    const ir_value *read = ir_input(node, input),
                   *made = output < node->output_count ? node->outputs[output] : NULL;
    return read && made && op_may_write_over(op_schema_of(node->code), output, input) &&
           op_same_form(&read->type, &made->type);
}
