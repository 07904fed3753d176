/* SPDX-License-Identifier: Apache-2.0 */
/* binary_rows.c: see binary_rows.h. The expressions are those of elementwise_binary.c. */
#include "runtime/kernels/portable/binary_rows.h"

/* A row of each operand is walked in pieces of RT_ROW_UNIT elements, for which a machine has whole registers. */
#define PIECES(row_width, left_element, right_element, expression)                                           \
    for (int64_t r = 0; r < rows; r++) {                                                                     \
        for (int64_t k = 0; k < (row_width); k += RT_ROW_UNIT) {                                             \
            RT_VECTOR for (int64_t i = k; i < k + RT_ROW_UNIT; i++) {                                        \
                const float a = left_element, b = right_element;                                             \
                z[i] = (expression);                                                                         \
            }                                                                                                \
        }                                                                                                    \
        z += (row_width);                                                                                    \
        x += left_at.next;                                                                                   \
        y += right_at.next;                                                                                  \
    }

/* The shortest rows are usual, and need no loop. */
#define WALK(left_element, right_element, expression)                                                        \
    if (width == RT_ROW_UNIT) {                                                                              \
        PIECES(RT_ROW_UNIT, left_element, right_element, expression)                                         \
    } else {                                                                                                 \
        PIECES(width, left_element, right_element, expression)                                               \
    }

#define ROWS(name, expression)                                                                               \
    RT_CLONES static void name(float *to, const float *left, const float *right, int64_t rows,               \
                               int64_t width, rt_row_operand left_at, rt_row_operand right_at) {             \
        float *z = to;                                                                                       \
        const float *x = left, *y = right;                                                                   \
        if (left_at.step && right_at.step) {                                                                 \
            WALK(x[i], y[i], expression)                                                                     \
        } else if (left_at.step) {                                                                           \
            WALK(x[i], *y, expression)                                                                       \
        } else if (right_at.step) {                                                                          \
            WALK(*x, y[i], expression)                                                                       \
        } else {                                                                                             \
            WALK(*x, *y, expression)                                                                         \
        }                                                                                                    \
    }

ROWS(add, a + b)
ROWS(subtract, a - b)
ROWS(multiply, a *b)
ROWS(divide, a / b)
ROWS(minimum, (a < b || a != a ? a : b))
ROWS(maximum, (a > b || a != a ? a : b))

rt_binary_rows *rt_binary_rows_select(op_code code) {
    switch (code) {
    case OP_ADD:
        return add;
    case OP_SUB:
        return subtract;
    case OP_MUL:
        return multiply;
    case OP_DIV:
        return divide;
    case OP_MIN:
        return minimum;
    case OP_MAX:
        return maximum;
    default:
        return NULL;
    }
}
