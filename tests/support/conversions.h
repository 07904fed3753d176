/* SPDX-License-Identifier: Apache-2.0 */
/* conversions.h: models of one node, a line each: every operator whose form has changed over the opsets, or that import composes of
 * others. For tests of what import makes of them, as they are and spoiled. */
#ifndef OURO_TEST_SUPPORT_CONVERSIONS_H
#define OURO_TEST_SUPPORT_CONVERSIONS_H

#include "tests/support/onnx.h"

/* inputs: "NAME:DTYPE:SHAPE;..." or "NAME=NUMBERS" (int64 initializer), DTYPE as in ONNX, SHAPE "-" for none, nothing for an
 * absent input; attributes: "NAME KIND VALUE;..." with i, f, s or I for the kind. op: "DOMAIN/NAME" in other domains. */
typedef struct support_conversion {
    const char *op;
    int64_t opset;
    const char *inputs, *outputs, *attributes;
} support_conversion;

typedef struct support_conversion_list {
    const char *name;
    const support_conversion *rows;
    size_t count;
} support_conversion_list;

enum { SUPPORT_CONVERSION_LISTS = 3 };
/* "convert": of the default domain; "trials": operators that ONNX had for trial; "domains": of other domains. */
extern const support_conversion_list support_conversions[SUPPORT_CONVERSION_LISTS];

/* The model of a row, to be freed. Without outputs its graph gives a constant. */
onnx *support_conversion_model(const support_conversion *c);

#endif
