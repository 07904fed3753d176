/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: what the portable kernels share. One operator family a file.
 *
 * Two rules hold for all of them. Results do not depend on the number of threads, nor on the instruction set
 * that a function was compiled for: work is cut at places that follow from the shapes alone, sums are added
 * in an order that is written down, and no expression is contracted; attention, direct and Winograd's convolutions, recurrences and products of
 * 16 bits or with weights in panels or of few bits alone round a multiplication and its addition once, where the machine can; the left
 * matrix of products with weights of few bits may be in fixed point, where the machine is faster with that (digit_tiles.h); products
 * of bfloat16 take numbers below the least normal one for zero where it multiplies them by itself (pair_tiles.h). And a run allocates
 * nothing.
 */
#ifndef OURO_KERNELS_H
#define OURO_KERNELS_H

#include "runtime/kernels/base/kernel.h"
#include "runtime/kernels/base/x86.h"

/* Before a function: compiled for several instruction sets, the best is chosen when the program is loaded.
 * Not under sanitizers, whose run time is not ready when the choice is made. Not for functions that hold
 * OpenMP constructs other than simd, whose bodies are not cloned along. Static functions only: clones of others are
 * visible from outside of a library, whatever is asked for. */
#if RT_X86_KERNELS && defined(__gnu_linux__) && defined(__GLIBC__) && !defined(__clang__) &&                 \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define RT_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
/* The same for files that are compiled with -ffp-contract=fast: with the instruction that rounds a product and its sum once. */
#define RT_CLONES_FUSED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define RT_CLONES
#define RT_CLONES_FUSED
#endif

/* Before a loop whose iterations are independent although its pointers may be equal (in place). */
#define RT_VECTOR _Pragma("omp simd")

/* An integer of 8 bits. */
static inline bool rt_is_byte(op_dtype dtype) {
    return dtype == OP_UINT8 || dtype == OP_INT8;
}

/* ---- half precision -------------------------------------------------------------------------------------
 */

/* OP_FLOAT16 or OP_BFLOAT16: kernels compute on these in float, a block at a time. */
static inline bool rt_is_half(op_dtype dtype) {
    return dtype == OP_FLOAT16 || dtype == OP_BFLOAT16;
}

enum { RT_HALF_BLOCK = 256 };
void rt_half_load(op_dtype dtype, float *to, const uint16_t *from, int64_t count);
void rt_half_store(op_dtype dtype, uint16_t *to, const float *from, int64_t count);

/* ---- elements of less than a byte ------------------------------------------------------------------------ */

/* Codes of a packed type, one a byte, and back; the rest of the last byte becomes 0. Kernels that only move elements move them so. */
void rt_unpack(op_dtype dtype, uint8_t *to, const void *from, int64_t count);
void rt_pack(op_dtype dtype, void *to, const uint8_t *from, int64_t count);

/* ---- integers ------------------------------------------------------------------------------------------- */

/* Element `index` of a tensor of integers or bools, of 8 to 64 bits; uint64 as the same bits. */
int64_t rt_integer_load(op_dtype dtype, const void *data, int64_t index);
/* Stores the low bits of `value`. */
void rt_integer_store(op_dtype dtype, void *data, int64_t index, uint64_t value);

/* ---- loops ------------------------------------------------------------------------------------------------
 */

/* The steps [low, high), of `count`, at which start + i * step lies in [0, extent): what a window sees of an image. Where
 * there is none, low is not below high. */
typedef struct rt_part {
    int64_t low, high;
} rt_part;
static inline rt_part rt_part_inside(int64_t start, int64_t step, int64_t extent, int64_t count) {
    const int64_t rest = extent - start > 0 ? extent - start : 0, before = start < 0 ? -start : 0;
    if (step == 1)
        return (rt_part){before,
                         rest < count ? rest : count}; /* a division takes as long as a small window */
    const int64_t high = rest == 0 ? 0 : (rest - 1) / step + 1;
    return (rt_part){before == 0 ? 0 : (before + step - 1) / step, high < count ? high : count};
}

/* A nest of loops over up to RT_LOOP_OPERANDS tensors, each with a stride (in elements) in every dimension.
 */
enum { RT_LOOP_RANK = 2 * OP_MAX_RANK, RT_LOOP_OPERANDS = 4 };
typedef struct rt_loop {
    int32_t rank; /* at least 1 once it is collapsed */
    int32_t operands;
    int64_t dims[RT_LOOP_RANK];
    int64_t strides[RT_LOOP_OPERANDS][RT_LOOP_RANK];
} rt_loop;

/* Drops dimensions of extent 1 and joins neighbours that all operands can walk as one. */
void rt_loop_collapse(rt_loop *loop);
/* Operand 0 is the output, dense; the others are dense inputs of these shapes, broadcast to it. Collapsed:
 * the innermost stride of an input is then 1, or 0 where it is broadcast. */
void rt_loop_broadcast(rt_loop *loop, const op_shape *output, const op_shape *const *inputs, int32_t count);
int64_t rt_loop_elements(const rt_loop *loop);

/* Calls row(context, offsets, length) for pieces of innermost rows that together are all elements; offsets[k]
 * is the first element of operand k. On several threads where elements * work reaches RT_PARALLEL_WORK. */
typedef void rt_row_function(void *context, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length);
void rt_loop_run(const rt_loop *loop, int threads, int64_t work, rt_row_function *row, void *context);

/* Copies elements of `size` bytes (a power of two up to 16) from wherever operand 1 of the loop lies to
 * operand 0. Their innermost strides may be anything. For transposing, slicing, expanding, tiling. */
void rt_copy_strided(const rt_loop *loop, int threads, size_t size, void *to, const void *from);

/* `count` times memcpy of so many bytes; from one to the next are `to_step` and `from_step` bytes. */
void rt_copy_spans(char *to, int64_t to_step, const char *from, int64_t from_step, size_t bytes,
                   int64_t count);

/* memcpy on several threads. */
void rt_copy_bytes(int threads, void *to, const void *from, size_t bytes);
/* `count` times the element of `size` bytes at `value`. */
void rt_fill(void *to, int64_t count, size_t size, const void *value);

/* ---- what kernels accept ------------------------------------------------------------------------------- */

/* The run of a kernel where there is no element to make. */
rt_run_function rt_run_nothing;

/* All inputs and outputs are row-major tensors. */
bool rt_accepts_row_major(const op_call *call);
/* rt_kernel.accepts of kernels that ask for no more than that. */
bool rt_accepts_any_row_major(const op_call *call, const rt_environment *environment);
/* rt_kernel.accepts of kernels that read images at any places: the same, of reals or bytes. */
bool rt_accepts_pixels(const op_call *call, const rt_environment *environment);

/* How many bytes an input of this call has when it is packed; false where it never is. */
typedef bool rt_packed_bytes(const op_call *call, uint32_t input, size_t *bytes);
/* The same but for inputs that are packed, which have as many bytes as that says. */
bool rt_accepts_packed(const op_call *call, rt_packed_bytes *packed_bytes);
/* The elements that lie in memory, padding included. The shape must be known. */
int64_t rt_stored_elements(const op_type *type);
/* The inputs below `count` and output 0 lie in the same way, all of one shape unless row-major. Where that way
 * pads channels, either `zero_stays` (the operator maps zeros to zero) or there must be nothing to pad. */
bool rt_accepts_layouts(const op_call *call, uint32_t count, bool zero_stays);

/* ---- the kernels, named in ops.def, one family a file ---------------------------------------------------- */

/* Conv with fewer products, for more scratch and larger weights (winograd.c). */
extern const rt_kernel rt_kernel_winograd;
extern const rt_kernel rt_kernel_winograd_transforming; /* with weights that stay as small as they are */

/* MatMul and Gemm with a constant right matrix in panels (packed_product.c). */
extern const rt_kernel rt_kernel_packed_product;
extern const rt_kernel rt_kernel_fixed_convolution; /* the same of points (fixed_convolution.c) */
extern const rt_kernel rt_kernel_window_convolution; /* and of windows (window_convolution.c) */
/* The same of many rows, in seven products of halves in place of eight (strassen_product.c). */
extern const rt_kernel rt_kernel_strassen_product;
extern const rt_kernel rt_kernel_fixed_product; /* in fixed point in tiles of bytes (fixed_product.c) */
extern const rt_kernel
    rt_kernel_compressed_product; /* of one row, weights in 28 bits (compressed_product.c) */
extern const rt_kernel
    rt_kernel_block_float_product; /* of few rows, weights in block floating point (block_float_product.c) */
extern const rt_kernel rt_kernel_packed_halves; /* of 16 bits (packed_halves.c) */
/* MatMulNBits with constant weights in panels (packed_bits.c). */
extern const rt_kernel rt_kernel_packed_bits;
/* Gather of rows of a table that is packed as a product packs it (packed_gather.c). */
extern const rt_kernel rt_kernel_packed_gather;
/* LSTM and GRU with constant weights in panels (packed_recurrent.c). */
extern const rt_kernel rt_kernel_packed_recurrent;
/* Conv of images whose channels lie side by side, or of row-major ones of a few channels (direct_convolution.c). */
extern const rt_kernel rt_kernel_direct_convolution;
/* Conv of each channel by itself, where channels lie side by side (depthwise.c). */
extern const rt_kernel rt_kernel_depthwise;
/* Conv with a few filters, on images in several layouts (few_filters.c). */
extern const rt_kernel rt_kernel_few_filters;
/* Conv of 16 bits, where channels lie side by side (half_convolution.c). */
extern const rt_kernel rt_kernel_half_convolution;
extern const rt_kernel rt_kernel_half_transposed; /* ConvTranspose likewise (half_transposed.c) */
extern const rt_kernel rt_kernel_transposed_product; /* ConvTranspose in float (transposed_product.c) */
/* Conv of single points, from weights in tiles (pointwise.c). */
extern const rt_kernel rt_kernel_pointwise;

/* MaxPool and AveragePool where channels are innermost, or in blocks (pool_channels.c). */
extern const rt_kernel rt_kernel_pool_channels;
/* ReduceSum of bytes to 32 bits (sum_bytes.c). */
extern const rt_kernel rt_kernel_sum_bytes;
/* Pools of 16 bits where channels lie side by side (half_pool.c). */
extern const rt_kernel rt_kernel_half_pool;

#define OP(code, text, domain, since, imin, imax, omin, omax, attributes, inference, in_place, view, flags,  \
           kernel, family)                                                                                   \
    extern const rt_kernel rt_kernel_##kernel;
#include "ir/operators/ops.def"
#undef OP

#endif
