/* SPDX-License-Identifier: Apache-2.0 */
/* family.c: see compiler/report/family.h. Colours are told apart also by those who see few: they differ in
 * lightness. */
#include "compiler/report/family.h"

const emit_family emit_families[OP_FAMILY_COUNT] = {
    [OP_FAMILY_NONE] = {"other", "#ffffff", "#555555"},
    [OP_FAMILY_CONVOLUTION] = {"convolution", "#9ec5e8", "#2b6ca3"},
    [OP_FAMILY_PRODUCT] = {"matrix product", "#c3b1e1", "#6a4c9c"},
    [OP_FAMILY_POOLING] = {"pooling", "#9fd8cb", "#2a7f6f"},
    [OP_FAMILY_NORMALIZATION] = {"normalisation, softmax", "#b9dca0", "#4f8a2c"},
    [OP_FAMILY_REDUCTION] = {"reduction", "#d3e59a", "#76892a"},
    [OP_FAMILY_ELEMENTWISE] = {"elementwise", "#fbe29a", "#a8842a"},
    [OP_FAMILY_MOVEMENT] = {"movement of data", "#d9d9d9", "#6f6f6f"},
    [OP_FAMILY_GENERATION] = {"making of values", "#ece5d8", "#8a7a5c"},
    [OP_FAMILY_CONTROL] = {"control", "#f6b9a8", "#b04a2f"},
    [OP_FAMILY_SEQUENCE] = {"sequences", "#f0cfe0", "#97547a"},
    [OP_FAMILY_SIGNAL] = {"signals, text", "#c9d3ee", "#4d5f9a"},
};

const emit_family *emit_family_of(const char *domain, const char *name) {
    return &emit_families[op_schema_of(op_code_from_name(domain, name))->family];
}
