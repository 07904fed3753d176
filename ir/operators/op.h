/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: the operators: types of tensors, attributes, and one row per operator.
 *
 * This is the vocabulary that the compiler and the runtime share. It knows neither graphs nor plans nor
 * kernels: an operator is asked about ONE application of it, described by an op_call. The same shape function
 * therefore serves the compiler (some dimensions symbolic, some inputs constant) and the executor (all
 * known).
 *
 * Words:
 *   dtype      element type; the numbers are those of ONNX's TensorProto.DataType
 *   layout     how the elements of a tensor lie in memory
 *   dimension  >= 0: known; OP_DIM_UNKNOWN: nothing is known; any other negative number: the symbol with that
 *              number (equal numbers mean equal extents)
 */
#ifndef OURO_OP_H
#define OURO_OP_H

#include "ir/base/base.h"

/* ---- types --------------------------------------------------------------------------------------------- */

enum { OP_MAX_RANK = 12 };
#define OP_DIM_UNKNOWN INT64_MIN

typedef enum op_dtype {
    OP_NONE = 0, /* absent, or not known yet */
    OP_FLOAT = 1,
    OP_UINT8 = 2,
    OP_INT8 = 3,
    OP_UINT16 = 4,
    OP_INT16 = 5,
    OP_INT32 = 6,
    OP_INT64 = 7,
    OP_STRING = 8,
    OP_BOOL = 9,
    OP_FLOAT16 = 10,
    OP_DOUBLE = 11,
    OP_UINT32 = 12,
    OP_UINT64 = 13,
    OP_COMPLEX64 = 14,
    OP_COMPLEX128 = 15,
    OP_BFLOAT16 = 16,
    OP_FLOAT8E4M3FN = 17,
    OP_FLOAT8E4M3FNUZ = 18,
    OP_FLOAT8E5M2 = 19,
    OP_FLOAT8E5M2FNUZ = 20,
    OP_UINT4 = 21,
    OP_INT4 = 22,
    OP_FLOAT4E2M1 = 23,
    OP_FLOAT8E8M0 = 24,
    OP_UINT2 = 25,
    OP_INT2 = 26,
    OP_DTYPE_COUNT
} op_dtype;

/* Bits of one element; 0 for OP_NONE. Elements of 4 and 2 bits are packed, see ir/operators/small.h. */
unsigned op_dtype_bits(op_dtype dtype);
/* Bytes of one element; 0 for OP_NONE and where several share one. An OP_STRING element is an op_string. */
size_t op_dtype_bytes(op_dtype dtype);
const char *op_dtype_name(op_dtype dtype);     /* "float32", "int64", "bool", ... ; never NULL */
op_dtype op_dtype_from_name(const char *name); /* OP_NONE when there is none */

/* One element of a string tensor. Not zero-terminated. While a plan runs the characters belong to the plan, to the
 * caller or to the session, and outlive every tensor: elements are copied and moved like numbers. */
typedef struct op_string {
    const char *data;
    size_t length;
} op_string;

typedef enum op_layout {
    OP_LAYOUT_ROW_MAJOR = 0, /* row-major, dense */
    OP_LAYOUT_NC8,           /* N, C/8, spatial..., 8 channels; C padded with zeros to a multiple of 8 */
    OP_LAYOUT_NC16,          /* the same with 16 */
    OP_LAYOUT_NHWC,          /* N, spatial..., C; dense */
    OP_LAYOUT_PACKED,        /* known to one kernel only (packed weights); the size is given beside it */
    OP_LAYOUT_COUNT
} op_layout;
const char *op_layout_name(op_layout layout); /* "row_major", "nc8", "nc16", "nhwc", "packed" */

/* How many channels lie together in a layout of blocks; 1 in the others. */
static inline int64_t op_layout_block(op_layout layout) {
    return layout == OP_LAYOUT_NC8 ? 8 : layout == OP_LAYOUT_NC16 ? 16 : 1;
}

/* A layout pads so many channels to no more than 5/4: more costs memory and time. */
static inline bool op_layout_is_cheap(op_layout layout, int64_t channels) {
    const int64_t together = op_layout_block(layout);
    return (channels + together - 1) / together * together * 4 <= channels * 5;
}

typedef struct op_shape {
    int32_t rank; /* -1: not known */
    int64_t dims[OP_MAX_RANK];
} op_shape;

typedef enum op_kind { OP_KIND_TENSOR = 0, OP_KIND_SEQUENCE, OP_KIND_OPTIONAL, OP_KIND_MAP } op_kind;

/* The type of a value. For a sequence or an optional, dtype and shape describe the element (rank -1 where the
 * elements differ); `element` says whether the element of an optional is itself a sequence. */
typedef struct op_type {
    op_kind kind;
    op_kind element;
    op_dtype dtype;
    op_layout layout;
    op_shape shape;
    size_t packed_bytes; /* OP_LAYOUT_PACKED only */
} op_type;

bool op_shape_known(const op_shape *shape); /* rank and all dimensions */
bool op_shape_equal(const op_shape *a, const op_shape *b);
/* The rank is known, and each dimension is a number or a symbol. */
bool op_shape_named(const op_shape *shape);
/* They are equal in every run: the same numbers, or symbols. */
bool op_shape_same(const op_shape *a, const op_shape *b);
/* The number of elements; false where not known or too large for int64. */
bool op_shape_elements(const op_shape *shape, int64_t *elements);
/* Bytes that a tensor of this type occupies in its layout, padding included; false where the shape is not
 * known, or the size overflows. */
bool op_type_bytes(const op_type *type, size_t *bytes);
/* Prints "float32[1,3,?,s2]:nc16" into text (cut to capacity); returns text. Symbols print as s<number>. */
char *op_type_print(const op_type *type, char *text, size_t capacity);

/* ---- tensors and attributes ---------------------------------------------------------------------------- */

/* A tensor as kernels and shape functions see it. Whoever made it owns `data`. */
typedef struct op_tensor {
    op_type type;
    size_t bytes; /* of data */
    void *data;   /* NULL: not known (compile time), or zero bytes */
    /* Compile time only: what is known of the values of an integer tensor of rank 0 or 1, one number an
     * element with the meaning of a dimension (>= 0 or negative symbol; values below zero that are truly
     * negative numbers appear only in `data`). NULL: nothing known beyond data. */
    const int64_t *symbolic;
} op_tensor;

typedef enum op_attribute_kind {
    OP_ATTRIBUTE_FLOAT = 1, /* the numbers are ONNX's AttributeProto.AttributeType */
    OP_ATTRIBUTE_INT = 2,
    OP_ATTRIBUTE_STRING = 3,
    OP_ATTRIBUTE_TENSOR = 4,
    OP_ATTRIBUTE_FLOATS = 6,
    OP_ATTRIBUTE_INTS = 7,
    OP_ATTRIBUTE_STRINGS = 8,
    OP_ATTRIBUTE_TYPE = 14
} op_attribute_kind;

typedef struct op_attribute {
    const char *name;
    op_attribute_kind kind;
    size_t count; /* of the array kinds; 1 otherwise */
    union {
        int64_t integer;
        float real;
        op_string text;
        const int64_t *integers;
        const float *reals;
        const op_string *texts;
        const op_tensor *tensor;
        const op_type *type;
    } as;
} op_attribute;

typedef struct op_attributes {
    size_t count;
    const op_attribute *items;
} op_attributes;

/* Look-ups by name; the otherwise value where the attribute is absent or of another kind. */
const op_attribute *op_attribute_find(const op_attributes *attributes, const char *name);
int64_t op_attribute_integer(const op_attributes *attributes, const char *name, int64_t otherwise);
float op_attribute_real(const op_attributes *attributes, const char *name, float otherwise);
/* NULL and *count = 0 where absent. */
const int64_t *op_attribute_integers(const op_attributes *attributes, const char *name, size_t *count);
/* Entry `index` of a list of integers; 0 where there is no list, or a shorter one. */
int64_t op_attribute_entry(const op_attributes *attributes, const char *name, size_t index);
const float *op_attribute_reals(const op_attributes *attributes, const char *name, size_t *count);
/* The text of the attribute equals `text`; `otherwise` is what an absent attribute equals. */
bool op_attribute_is(const op_attributes *attributes, const char *name, const char *text,
                     const char *otherwise);

/* The text is this word, letters of either case. */
bool op_string_is(const op_string *text, const char *word);

/* ---- one application of an operator -------------------------------------------------------------------- */

typedef enum op_code {
    OP_CODE_NONE = 0,
#define OP(code, ...) OP_##code,
#include "ir/operators/ops.def"
#undef OP
    OP_CODE_COUNT
} op_code;

/* An application: for shape functions, and for kernels before they run. An absent optional input or output
 * has dtype OP_NONE. */
typedef struct op_call {
    op_code code;
    op_attributes attributes;
    uint32_t input_count, output_count;
    const op_tensor *inputs;
    op_tensor *outputs; /* infer fills types (and, where it can, `symbolic` values from `arena`) */
    base_arena *arena;  /* for what infer makes; may be NULL at run time: then no symbolic values are made */
    /* Makes (or finds) the symbol for an extent that is computed from others, so that equal computations give
     * equal symbols; NULL at run time. `operation` is '+', '-', '*', '/' (floor), '^' (ceiling division);
     * returns OP_DIM_UNKNOWN when it cannot. */
    int64_t (*dim_compute)(void *user, char operation, int64_t a, int64_t b);
    void *user;
} op_call;

/* a OP b on dimensions: numbers where both are known, a symbol through call->dim_compute where it can,
 * otherwise OP_DIM_UNKNOWN. */
int64_t op_dim_compute(const op_call *call, char operation, int64_t a, int64_t b);

/* Element `index` of an integer input (int64 or int32) as far as it is known: a number in *value and true; or
 * false. */
bool op_input_integer(const op_call *call, uint32_t input, int64_t index, int64_t *value);
/* The same with symbols: a dimension (number >= 0, symbol or OP_DIM_UNKNOWN). */
int64_t op_input_dim(const op_call *call, uint32_t input, int64_t index);
/* The input is present: its index is in range and its dtype is not OP_NONE. */
bool op_input_present(const op_call *call, uint32_t input);
/* The shape of MatMul's operand (0 or 1) as the product sees it, with the stride of each of its dimensions, in elements: in
 * the order of the axes that attribute ouro.left or ouro.right gives, or (NULL strides: shape only) as it stands. False where
 * that is no order of its axes. */
bool op_matmul_operand(const op_call *call, uint32_t operand, op_shape *shape, int64_t *strides);
/* Normalises a possibly negative axis; false when it is outside [-rank, rank). */
bool op_axis(int64_t axis, int32_t rank, int32_t *normal);
/* numpy's broadcasting of two shapes with symbols; false where they cannot be broadcast. */
bool op_shape_broadcast(const op_call *call, const op_shape *a, const op_shape *b, op_shape *result);

/* ---- the operator table (op.c, ops.def) ---------------------------------------------------------------- */

/* How an operator's result can lie in the bytes of its inputs, so that nothing is executed. Whether a
 * particular application does is decided by passes/memory/join_aliases.c (contiguity, layout). */
typedef enum op_view {
    OP_VIEW_NONE = 0,
    OP_VIEW_SAME,      /* output 0 has the bytes of input 0: Reshape, Squeeze, Identity, ... */
    OP_VIEW_TRANSPOSE, /* the same where only dimensions of extent 1 move */
    OP_VIEW_SLICE,     /* output 0 can be a contiguous sub-range of input 0 */
    OP_VIEW_SPLIT,     /* each output can be a contiguous sub-range of input 0 */
    OP_VIEW_CONCAT     /* each input can be a contiguous sub-range of output 0 */
} op_view;

enum op_flags {
    OP_FLAG_COMMUTATIVE = 1,
    OP_FLAG_EFFECT = 2,   /* not to be folded, merged or reordered: random numbers */
    OP_FLAG_GRAPHS = 4,   /* owns sub-graphs: Loop, If, Scan */
    OP_FLAG_DYNAMIC = 8,  /* the extent of an output depends on values of the inputs, always */
    OP_FLAG_CHECKED = 16, /* its run can fail, depending on values of the inputs: an index out of range */
    OP_FLAG_LISTS = 32    /* takes or gives sequences or optionals: no kernel, the executor does it */
};

/* Bits of op_schema.in_place: output 0 may be written over input i (same bytes, element by element). i is below 24. */
#define OP_IN_PLACE(i) (1u << (i))
/* The same for states, which an operator takes and gives anew: output 1 may be written over input i, output 2 over the next one, and so on.
 * i is 1 or more. */
#define OP_STATES_IN_PLACE(i) ((unsigned)(i) << 24)

typedef base_status op_infer_function(op_call *call, base_report *report);

/* Operators that a reader thinks of together, for pictures and reports. */
typedef enum op_family {
    OP_FAMILY_NONE, /* of OP_CODE_NONE alone */
    OP_FAMILY_CONVOLUTION,
    OP_FAMILY_PRODUCT,
    OP_FAMILY_POOLING,
    OP_FAMILY_NORMALIZATION,
    OP_FAMILY_REDUCTION,
    OP_FAMILY_ELEMENTWISE,
    OP_FAMILY_MOVEMENT,
    OP_FAMILY_GENERATION,
    OP_FAMILY_CONTROL,
    OP_FAMILY_SEQUENCE,
    OP_FAMILY_SIGNAL,
    OP_FAMILY_COUNT
} op_family;

/* An operator schema: one row of ops.def. */
typedef struct op_schema {
    op_code code;
    const char *name;   /* as in ONNX */
    const char *domain; /* "" is ai.onnx; "ouro" is internal */
    int since;          /* the opset version whose meaning the operator has here: the canonical form */
    int input_minimum, input_maximum, output_minimum, output_maximum; /* -1: any number */
    const char *attributes; /* "name:kind name:kind ..."; kinds: i f s t I F S p(type); see ops.def */
    op_infer_function *infer;
    unsigned in_place; /* see op_may_write_over */
    op_view view;
    unsigned flags;
    op_family family;
} op_schema;

const op_schema *op_schema_of(op_code code);                     /* never NULL for a valid code */
/* The operator may write this output over this input. */
bool op_may_write_over(const op_schema *schema, uint64_t output, uint64_t input);
bool op_takes_attribute(op_code code, const char *name);         /* one of its row in ops.def */
op_code op_code_from_name(const char *domain, const char *name); /* OP_CODE_NONE when there is none */

/* Shape inference of one application. On BASE_OK every output has a dtype; shapes as far as they follow.
 * Checks arity, dtypes and shapes and reports what would be accepted. Not for OP_FLAG_GRAPHS. Thread-safe. */
base_status op_infer(op_call *call, base_report *report);

/* Shape functions, one per family, named in ops.def. */
#define OP_INFER(name) base_status op_infer_##name(op_call *call, base_report *report)
#define OP(code, text, domain, since, imin, imax, omin, omax, attributes, inference, ...) OP_INFER(inference);
#include "ir/operators/ops.def"
#undef OP

#endif
