/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_indexed.c: operators that move elements where indices or positions say, that read images at other
 * points, whose size depends on data, or that are given by an equation, in the corners that ONNX's own cases do not
 * reach: negative indices, several puts to one place, ties, NaN, nothing at all, and what is refused. */
#include "ir/operators/small.h"
#include "runtime/kernels/portable/kernels.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* One node, its inputs as the caller's, against what it should give, bit for bit. */
typedef struct indexed_case {
    const char *name, *parameters, *node; /* "%x: float32[2]", "%y: float32[2] = Relu(%x)" */
    const char *constants;
    double inputs[3][16]; /* as numbers, converted to the parameter's type */
    double expected[16];  /* of a size that depends on data: ends with END */
} indexed_case;

enum { END = -12345 };

#define X "%x: float32[2,3]"

static const indexed_case cases[] = {
    {"elements by negative indices",
     X ", %i: int32[2,2]",
     "%y: float32[2,2] = GatherElements(%x, %i) {axis = -1}",
     "",
     {{1, 2, 3, 4, 5, 6}, {-1, 0, -2, 2}},
     {3, 1, 5, 6}},
    {"an axis in the middle, fewer indices than data",
     "%x: float32[2,2,3], %i: int64[2,1,2]",
     "%y: float32[2,1,2] = GatherElements(%x, %i) {axis = 1}",
     "",
     {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {1, 0, 0, -1}},
     {3, 1, 6, 10}},
    {"puts along the first axis, fewer than columns",
     "%x: int32[3,3], %i: int64[2,2], %u: int32[2,2]",
     "%y: int32[3,3] = ScatterElements(%x, %i, %u) {axis = 0}",
     "",
     {{0}, {2, 0, -2, -1}, {1, 2, 3, 4}},
     {0, 2, 0, 3, 0, 0, 1, 4, 0}},
    {"rows put where the same index stands in whole rows and in parts, added",
     "%x: float32[3,4], %i: int64[3,4], %u: float32[3,4]",
     "%y: float32[3,4] = ScatterElements(%x, %i, %u) {axis = 0, reduction = \"add\"}",
     "",
     {{1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8},
      {2, 2, 2, 2, -1, -1, 0, 0, 0, 2, 2, 1},
      {10, 20, 30, 40, 1, 2, 3, 4, 100, 200, 300, 400}},
     {101, 2, 6, 8, 0, 0, 0, 400, 16, 228, 337, 48}},
    {"the same of fewer columns, and the largest stays",
     "%x: int64[2,3], %i: int32[3,2], %u: int64[3,2]",
     "%y: int64[2,3] = ScatterElements(%x, %i, %u) {axis = 0, reduction = \"max\"}",
     "",
     {{5, 5, 5, 5, 5, 5}, {1, 1, 1, -1, 0, 0}, {4, 9, 7, 8, 6, 1}},
     {6, 5, 5, 7, 9, 5}},
    {"the same index along the last axis",
     "%x: float32[2,3], %i: int64[2,3], %u: float32[2,3]",
     "%y: float32[2,3] = ScatterElements(%x, %i, %u) {axis = 1, reduction = \"add\"}",
     "",
     {{0, 0, 0, 1, 1, 1}, {1, 1, 1, 2, 2, 0}, {1, 2, 4, 8, 16, 32}},
     {0, 7, 0, 33, 1, 25}},
    {"no elements",
     "%x: float32[2,3], %i: int64[0,3]",
     "%y: float32[0,3] = GatherElements(%x, %i)",
     "",
     {{1}},
     {0}},
    {"the last put stays",
     "%x: int16[4], %i: int64[3], %u: int16[3]",
     "%y: int16[4] = ScatterElements(%x, %i, %u)",
     "",
     {{1, 2, 3, 4}, {-1, 0, 3}, {7, 8, 9}},
     {8, 2, 3, 9}},
    {"several puts are added",
     "%x: float16[4], %i: int32[3], %u: float16[3]",
     "%y: float16[4] = ScatterElements(%x, %i, %u) {reduction = \"add\"}",
     "",
     {{1, 2, 3, 4}, {1, 1, -1}, {7, 8, 9}},
     {1, 17, 3, 13}},
    {"several puts are multiplied, wrapping around",
     "%x: uint8[2], %i: int64[2,1], %u: uint8[2]",
     "%y: uint8[2] = ScatterND(%x, %i, %u) {reduction = \"mul\"}",
     "",
     {{100, 1}, {0, 0}, {2, 3}},
     {88, 1}},
    {"slices in a batch",
     "%x: float32[2,2,2], %i: int64[2,1]",
     "%y: float32[2,2] = GatherND(%x, %i) {batch_dims = 1}",
     "",
     {{0, 1, 2, 3, 4, 5, 6, 7}, {1, -2}},
     {2, 3, 4, 5}},
    {"the whole tensor for each empty place",
     "%x: float32[2], %i: int64[2,0]",
     "%y: float32[2,2] = GatherND(%x, %i)",
     "",
     {{5, 6}},
     {5, 6, 5, 6}},
    {"classes that there are not",
     "%x: int32[3]",
     "%y: float32[3,2] = OneHot(%x, %d, %v)",
     "constant %d: int64[] = {2} constant %v: float32[2] = {-1, 1}",
     {{-1, 2, 0}},
     {-1, 1, -1, -1, 1, -1}},
    {"one hot along the first axis",
     "%x: int64[2]",
     "%y: int32[3,2] = OneHot(%x, %d, %v) {axis = 0}",
     "constant %d: int64[] = {3} constant %v: int32[2] = {0, 5}",
     {{2, 0}},
     {0, 5, 0, 0, 5, 0}},
    {"a diagonal below",
     "%x: float32[3,2]",
     "%y: int8[3,2] = EyeLike(%x) {dtype = 3, k = -1}",
     "",
     {{9}},
     {0, 0, 1, 0, 0, 1}},
    {"a diagonal far away", X, "%y: float32[2,3] = EyeLike(%x) {k = 9223372036854775807}", "", {{9}}, {0}},
    {"the lower half, one above the diagonal",
     X,
     "%y: float32[2,3] = Trilu(%x, %k) {upper = 0}",
     "constant %k: int64[] = {1}",
     {{1, 2, 3, 4, 5, 6}},
     {1, 2, 0, 4, 5, 6}},
    {"the upper half of nothing",
     X,
     "%y: float32[2,3] = Trilu(%x, %k)",
     "constant %k: int64[] = {9223372036854775807}",
     {{1, 2, 3, 4, 5, 6}},
     {0}},
    {"sequences of length 0 and 1 stay",
     "%x: float32[3,2], %l: int64[2]",
     "%y: float32[3,2] = ReverseSequence(%x, %l)",
     "",
     {{1, 2, 3, 4, 5, 6}, {0, 3}},
     {1, 6, 3, 4, 5, 2}},
    {"sums from the end, without the element",
     "%x: int32[4], %a: int32[]",
     "%y: int32[4] = CumSum(%x, %a) {exclusive = 1, reverse = 1}",
     "",
     {{1, 2, 3, 4}, {-1}},
     {9, 7, 4, 0}},
    {"equal elements keep their order",
     "%x: float32[5], %k: int64[1]",
     "%z: float32[3], %y: int64[3] = TopK(%x, %k)",
     "",
     {{2, 3, 3, 1, 3}, {3}},
     {1, 2, 4}},
    {"the smallest, unsigned",
     "%x: uint32[4], %k: int64[1]",
     "%y: uint32[2], _ = TopK(%x, %k) {largest = 0}",
     "",
     {{4294967295.0, 7, 9, 3}, {2}},
     {3, 7}},
    {"a NaN is larger than all",
     "%x: float32[3], %k: int64[1]",
     "%z: float32[2], %y: int64[2] = TopK(%x, %k)",
     "",
     {{1, NAN, INFINITY}, {2}},
     {1, 2}},
    {"columns before rows",
     "%x: float32[1,4,1,1]",
     "%y: float32[1,1,2,2] = DepthToSpace(%x) {blocksize = 2, mode = \"CRD\"}",
     "",
     {{1, 2, 3, 4}},
     {1, 2, 3, 4}},
    {"space to depth",
     "%x: float32[1,1,2,4]",
     "%y: float32[1,4,1,2] = SpaceToDepth(%x) {blocksize = 2}",
     "",
     {{1, 2, 3, 4, 5, 6, 7, 8}},
     {1, 3, 2, 4, 5, 7, 6, 8}},
    {"by all bits and more",
     "%x: uint16[3], %s: uint16[3]",
     "%y: uint16[3] = BitShift(%x, %s) {direction = \"LEFT\"}",
     "",
     {{1, 1, 65535}, {15, 16, 60}},
     {32768, 0, 0}},
    {"one number for all",
     "%x: uint64[2], %s: uint64[]",
     "%y: uint64[2] = BitShift(%x, %s) {direction = \"RIGHT\"}",
     "",
     {{1024, 5}, {2}},
     {256, 1}},
    {"infinities of one sign",
     "%x: float16[4]",
     "%y: bool[4] = IsInf(%x) {detect_positive = 0}",
     "",
     {{INFINITY, -INFINITY, NAN, 1}},
     {0, 1, 0, 0}},
    {"not numbers of 8 bits",
     "%x: float8e4m3fn[3]",
     "%y: bool[3] = IsNaN(%x)",
     "",
     {{NAN, -448, 0}},
     {1, 0, 0}},
    {"infinities of 8 bits",
     "%x: float8e5m2[4]",
     "%y: bool[4] = IsInf(%x) {detect_positive = 0}",
     "",
     {{NAN, INFINITY, -INFINITY, 1}},
     {0, 0, 1, 0}},
    {"not numbers", "%x: float64[3]", "%y: bool[3] = IsNaN(%x)", "", {{NAN, INFINITY, 0}}, {1, 0, 0}},
    {"a determinant that needs its rows exchanged",
     "%x: float32[2,2]",
     "%y: float32[] = Det(%x)",
     "",
     {{0, 2, 3, 4}},
     {-6}},
    {"a scalar has no axes", "%x: int16[]", "%y: int64[0,?] = NonZero(%x)", "", {{-3}}, {END}},
    {"nothing that is not zero",
     "%x: float32[2,2]",
     "%y: int64[2,?] = NonZero(%x)",
     "",
     {{0, -0.0, 0, 0}},
     {END}},
    {"places row by row",
     "%x: bool[2,2]",
     "%y: int64[2,?] = NonZero(%x)",
     "",
     {{0, 1, 1, 0}},
     {0, 1, 1, 0, END}},
    {"columns by flags that are too few",
     X ", %c: bool[2]",
     "%y: float32[2,?] = Compress(%x, %c) {axis = -1}",
     "",
     {{1, 2, 3, 4, 5, 6}, {0, 1}},
     {2, 5, END}},
    {"a list of what is wanted",
     "%x: uint8[2,2], %c: bool[9]",
     "%y: uint8[?] = Compress(%x, %c)",
     "",
     {{1, 2, 3, 4}, {1, 0, 0, 1}},
     {1, 4, END}},
    {"different rows, sorted",
     "%x: int32[3,2]",
     "%y: int32[?,2] = Unique(%x) {axis = 0}",
     "",
     {{2, 1, 1, 9, 2, 1}},
     {1, 9, 2, 1, END}},
    {"in the order of occurrence",
     "%x: float16[5]",
     "%y: float16[?] = Unique(%x) {sorted = 0}",
     "",
     {{2, 1, 2, 3, 1}},
     {2, 1, 3, END}},
    {"not numbers are one, and last",
     "%x: float32[4]",
     "%z: float32[?], %y: int64[?] = Unique(%x)",
     "",
     {{NAN, 1, NAN, 1}},
     {1, 0, END}},
    {"boxes of which none counts",
     "%b: float32[1,2,4], %s: float32[1,1,2]",
     "%y: int64[?,3] = NonMaxSuppression(%b, %s)",
     "",
     {{0, 0, 1, 1, 0, 0, 1, 1}, {0.5, 0.25}},
     {END}},
    {"of equal boxes the better one",
     "%b: float32[1,2,4], %s: float32[1,1,2], %m: int64[]",
     "%y: int64[?,3] = NonMaxSuppression(%b, %s, %m)",
     "",
     {{1, 1, 0, 0, 0, 0, 1, 1}, {0.25, 0.5}, {7}},
     {0, 0, 1, END}},
    {"a diagonal",
     "%x: int32[2,2]",
     "%y: int32[2] = Einsum(%x) {equation = \"ii->i\"}",
     "",
     {{1, 2, 3, 4}},
     {1, 4}},
    {"labels in the order of the alphabet",
     X,
     "%y: float32[3,2] = Einsum(%x) {equation = \"ba\"}",
     "",
     {{1, 2, 3, 4, 5, 6}},
     {1, 4, 2, 5, 3, 6}},
    {"an ellipsis that is broadcast",
     "%x: float32[2,1,2], %z: float32[2,2]",
     "%y: float32[2,2] = Einsum(%x, %z) {equation = \"...i , ...i -> ...\"}",
     "",
     {{1, 2, 3, 4}, {1, 1, 0, 1}},
     {3, 2, 7, 4}},
    {"a sum of nothing",
     "%x: float32[2,0]",
     "%y: float32[2] = Einsum(%x) {equation = \"ij->i\"}",
     "",
     {{0}},
     {0, 0}},
    {"groups, strides and padding that is cut off",
     "%x: float32[1,2,2], %w: float32[2,1,3], %b: float32[2]",
     "%y: float32[1,2,3] = ConvTranspose(%x, %w, %b) {group = 2, pads = [1, 1], strides = [2]}",
     "",
     {{1, 2, 3, 4}, {1, 10, 100, 1, 1, 1}, {0, 0.5}},
     {10, 102, 20, 3.5, 7.5, 4.5}},
    {"an output that is larger than what reaches it",
     "%x: float16[1,1,1], %w: float16[1,1,1]",
     "%y: float16[1,1,3] = ConvTranspose(%x, %w) {output_shape = [3]}",
     "",
     {{3}, {2}},
     {6, 0, 0}},
    {"every other element",
     "%x: int8[5]",
     "%y: int8[2] = Resize(%x, _, %s) {coordinate_transformation_mode = "
     "\"asymmetric\", nearest_mode = \"floor\"}",
     "constant %s: float32[1] = {0.5}",
     {{-1, 2, -3, 4, 5}},
     {-1, -3}},
    {"integers between integers, cut off",
     "%x: int32[3]",
     "%y: int32[6] = Resize(%x, _, %s) {mode = \"linear\"}",
     "constant %s: float32[1] = {2.0}",
     {{-7, 2, 2147483647}},
     {-7, -4, 0, 536870913, 1610612735, 2147483647}},
    {"what is outside of an image of integers, where it is no number",
     "%x: uint8[2], %r: float32[2]",
     "%y: uint8[3] = Resize(%x, %r, _, %s) {mode = \"linear\", coordinate_transformation_mode = "
     "\"tf_crop_and_resize\", extrapolation_value = nan}",
     "constant %s: int64[1] = {3}",
     {{3, 5}, {0, 2}},
     {3, 5, 0}},
    {"rounded up where an axis shrinks, down where it grows",
     "%x: float32[2,4]",
     "%y: float32[4,2] = Resize(%x, _, %s) {coordinate_transformation_mode = "
     "\"asymmetric\", nearest_mode = \"ouro.by_scale\"}",
     "constant %s: float32[2] = {2, 0.6}",
     {{1, 2, 3, 4, 5, 6, 7, 8}},
     {1, 3, 1, 3, 5, 7, 5, 7}},
    /* As a float, 0.6 is a little more, and 1.5 of the first result's steps a little less than 2.5 of the image's. */
    {"a position that is an element's stays it, whatever a float makes of the scale",
     "%x: float64[5]",
     "%y: float64[3] = Resize(%x, _, %s) {nearest_mode = \"floor\"}",
     "constant %s: float32[1] = {0.6}",
     {{1, 2, 3, 4, 5}},
     {1, 3, 4}},
    {"an extent that is 7, but for what a float of 0.7 lacks",
     "%x: float32[10]",
     "%y: float32[7] = Resize(%x, _, %s) {nearest_mode = \"ceil\", coordinate_transformation_mode = "
     "\"asymmetric\"}",
     "constant %s: float32[1] = {0.7}",
     {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
     {1, 3, 4, 6, 7, 9, 10}},
    {"a position in the middle of two elements, but for what a float of 1.2 lacks",
     "%x: float32[10]",
     "%y: float32[12] = Resize(%x, _, %s) {nearest_mode = \"round_prefer_ceil\", "
     "coordinate_transformation_mode = \"asymmetric\"}",
     "constant %s: float32[1] = {1.2}",
     {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
     {1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 9, 10}},
    {"a filter as wide as four pixels against aliasing",
     "%x: float64[8]",
     "%y: float64[2] = Resize(%x, _, %s) {mode = \"linear\", antialias = 1}",
     "constant %s: float32[1] = {0.25}",
     /* weights of 1, 3, 5, 7, 7, 5, 3, 1, over 32; the last two are outside, where the edge goes on */
     {{0, 0, 0, 0, 0, 0, 0, 32}},
     {0, 5 + 3 + 1}},
    {"in proportion, not larger than asked for, along named axes",
     "%x: float32[2,2]",
     "%y: float32[3,3] = Resize(%x, _, _, %s) {axes = [1, 0], keep_aspect_ratio_policy = \"not_larger\"}",
     "constant %s: int64[2] = {9, 3}",
     {{1, 2, 3, 4}},
     {1, 1, 2, 1, 1, 2, 3, 3, 4}},
    {"the middle stays the middle",
     "%x: float64[1,5]",
     "%y: float64[1,2] = Resize(%x, _, %s) {mode = \"linear\", "
     "coordinate_transformation_mode = \"half_pixel_symmetric\"}",
     "constant %s: float32[2] = {1, 0.5}",
     {{0, 10, 20, 30, 40}},
     {10, 30}},
    {"parts of which the last is smaller",
     "%x: float32[5]",
     "%y: float32[2], %second: float32[2], %last: float32[1] = Split(%x) {num_outputs = 3}",
     "",
     {{1, 2, 3, 4, 5}},
     {1, 2}},
    {"a margin of itself, more than once around",
     "%x: int16[3]",
     "%y: int16[9] = Pad(%x, %p) {mode = \"wrap\"}",
     "constant %p: int64[2] = {4, 2}",
     {{1, 2, 3}},
     {3, 1, 2, 3, 1, 2, 3, 1, 2}},
    {"margins of named axes",
     "%x: float32[2,2], %p: int64[2]",
     "%y: float32[2,3] = Pad(%x, %q, %v, %a)",
     "constant %q: int64[2] = {1, 0} constant %v: float32[] = {9} constant %a: int64[1] = {-1}",
     {{1, 2, 3, 4}},
     {9, 1, 2, 9, 3, 4}},
    {"the largest stays",
     "%x: float16[3], %i: int64[4], %u: float16[4]",
     "%y: float16[3] = ScatterElements(%x, %i, %u) {reduction = \"max\"}",
     "",
     {{1, 2, 3}, {0, 0, 1, 2}, {5, 4, 1, 3.5}},
     {5, 2, 3.5}},
    {"the smallest stays",
     "%x: int8[3], %i: int64[2,1], %u: int8[2]",
     "%y: int8[3] = ScatterND(%x, %i, %u) {reduction = \"min\"}",
     "",
     {{1, 2, 3}, {0, 2}, {-5, 4}},
     {-5, 2, 3}},
    {"a whole signal from half of its spectrum",
     "%x: float64[1,3,2]",
     "%y: float64[1,4,1] = DFT(%x) {inverse = 1, onesided = 1}",
     "",
     {{4, 0, 0, 0, 0, 0}}, /* 4 of frequency 0: ones */
     {1, 1, 1, 1}},
    {"a transform along an axis that a run names",
     "%x: float64[2,1,1], %a: int64[]",
     "%y: float64[?,?,2] = DFT(%x, _, %a)",
     "",
     {{3, 0}, {0}},
     {3, 0, 3, 0, END}},
    {"a point of a volume",
     "%x: float32[1,1,2,2,2], %g: float32[1,1,1,2,3]",
     "%y: float32[1,1,1,1,2] = GridSample(%x, %g) {align_corners = 1}",
     "",
     {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 0, 0, 1, -1, 1}},
     {3.5, 5}},
    {"all and any of some truths",
     "%x: bool[2,2]",
     "%y: bool[2] = ReduceMin(%x, %a) {keepdims = 0}",
     "constant %a: int64[1] = {1}",
     {{1, 0, 1, 1}},
     {0, 1}},
    {"a range of halves",
     "%x: float16[]",
     "%y: float16[3] = Range(%x, %l, %d)",
     "constant %l: float16[] = {3} constant %d: float16[] = {0.5}",
     {{1.5}},
     {1.5, 2, 2.5}},
    {"to nothing",
     "%x: float32[2]",
     "%y: float32[0] = Resize(%x, _, _, %s)",
     "constant %s: int64[1] = {0}",
     {{1, 2}},
     {0}},
    {"between two numbers",
     "%x: float64[2]",
     "%y: float64[4] = Resize(%x, _, _, %s) {mode = \"linear\", "
     "coordinate_transformation_mode = \"align_corners\"}",
     "constant %s: int64[1] = {4}",
     {{0, 3}},
     {0, 1, 2, 3}},
    {"outside of the image",
     "%x: float32[1,1,1,2], %g: float32[1,1,3,2]",
     "%y: float32[1,1,1,3] = GridSample(%x, %g) "
     "{mode = \"nearest\", padding_mode = \"border\"}",
     "",
     {{4, 8}, {-9, 0, 9, 9, 0.4, 0}},
     {4, 8, 8}},
    {"the middle of two pixels, but for what a float of 0.2 has too much",
     "%x: float32[1,1,1,5], %g: float32[1,1,1,2]",
     "%y: float32[1,1,1,1] = GridSample(%x, %g) {mode = \"nearest\"}",
     "",
     {{1, 2, 3, 4, 5}, {0.2, 0}},
     {3}},
    {"the middle of two pixels that are reflected: the even one, and then",
     "%x: float32[1,1,1,4], %g: float32[1,1,1,2]",
     "%y: float32[1,1,1,1] = GridSample(%x, %g) "
     "{mode = \"nearest\", padding_mode = \"reflection\"}",
     "",
     {{1, 2, 3, 4}, {-1.5, 0}},
     {2}},
    {"a maximum back in its place",
     "%x: float32[1,1,1], %i: int64[1,1,1]",
     "%y: float32[1,1,2] = MaxUnpool(%x, %i) {kernel_shape = [2], strides = [2]}",
     "",
     {{7}, {1}},
     {0, 7}},
    {"the transform of an impulse",
     "%x: float32[1,2,1]",
     "%y: float32[1,2,2] = DFT(%x)",
     "",
     {{1, 0}},
     {1, 0, 1, 0}},
    {"of a length that is an input",
     "%x: float32[1,2,1], %n: int64[]",
     "%y: float32[1,?,2] = DFT(%x, %n) {onesided = 1}",
     "",
     {{1, 0}, {5}},
     {1, 0, 1, 0, 1, 0, END}},
    {"of no rows", "%x: float32[0,0]", "%y: float32[] = Det(%x)", "", {{0}}, {1}},
};

/* What is refused, by the compiler or when it runs, and a word of the message. */
static const indexed_case refused[] = {
    {"outside", X ", %i: int64[1,1]", "%y: float32[1,1] = GatherElements(%x, %i)", "", {{0}, {2}}, {0}},
    {"outside", X ", %i: int64[1,2]", "%y: float32[1] = GatherND(%x, %i)", "", {{0}, {0, -4}}, {0}},
    {"outside",
     "%x: float32[2], %i: int64[1], %u: float32[1]",
     "%y: float32[2] = ScatterElements(%x, %i, %u)",
     "",
     {{0}, {-3}, {1}},
     {0}},
    {"length",
     "%x: float32[3,2], %l: int64[2]",
     "%y: float32[3,2] = ReverseSequence(%x, %l)",
     "",
     {{0}, {1, 4}},
     {0}},
    {"outside",
     "%x: float32[1,1,1], %i: int64[1,1,1]",
     "%y: float32[1,1,2] = MaxUnpool(%x, %i) {kernel_shape = [2], strides = [2]}",
     "",
     {{7}, {2}},
     {0}},
    {"image",
     "%x: float32[1,1,2,2], %r: float32[1,4], %b: int64[1]",
     "%y: float32[1,1,1,1] = RoiAlign(%x, %r, %b)",
     "",
     {{0}, {0, 0, 1, 1}, {1}},
     {0}},
    {"outside", "%x: float32[3], %a: int64[]", "%y: float32[3] = CumSum(%x, %a)", "", {{0}, {1}}, {0}},
};

static void put_number(op_dtype dtype, double value, unsigned char *to) {
    float single = (float)value;
    uint16_t half;
    switch (dtype) {
    case OP_FLOAT:
        memcpy(to, &single, 4);
        break;
    case OP_DOUBLE:
        memcpy(to, &value, 8);
        break;
    case OP_FLOAT16:
        half = base_half_from_double(value);
        memcpy(to, &half, 2);
        break;
    case OP_INT64:
        memcpy(to, &(int64_t){(int64_t)value}, 8);
        break;
    case OP_UINT64:
        memcpy(to, &(uint64_t){(uint64_t)value}, 8);
        break;
    case OP_INT32:
        memcpy(to, &(int32_t){(int32_t)value}, 4);
        break;
    case OP_UINT32:
        memcpy(to, &(uint32_t){(uint32_t)value}, 4);
        break;
    case OP_INT16:
        memcpy(to, &(int16_t){(int16_t)value}, 2);
        break;
    case OP_UINT16:
        memcpy(to, &(uint16_t){(uint16_t)value}, 2);
        break;
    default:
        to[0] = op_dtype_is_small(dtype) ? op_small_code(dtype, value, false, OP_ROUND_NEAREST)
                                         : (unsigned char)(int)value;
    }
}

static void open_case(const indexed_case *of, support_session *on, unsigned char data[3][256]) {
    char text[1024];
    int length = snprintf(text, sizeof text, "module \"m\" { %s graph main(%s) { %s yield %%y } }",
                          of->constants, of->parameters, of->node);
    assert_true(length > 0 && (size_t)length < sizeof text);
    support_session_open(on, text, 1);
    const plan *plan_of = rt_plan_of(on->plan);
    for (uint64_t i = 0; i < plan_of->header->inputs.count; i++) {
        const plan_tensor *tensor = &plan_of->tensors[plan_of->inputs[i].tensor];
        size_t element = op_dtype_bytes((op_dtype)tensor->dtype), count = (size_t)tensor->bytes / element;
        for (size_t e = 0; e < count; e++)
            put_number((op_dtype)tensor->dtype, of->inputs[i][e], data[i] + e * element);
        support_bind(on, (size_t)i, data[i], (size_t)tensor->bytes);
    }
}

static void corners(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        support_session on;
        unsigned char data[3][256] = {{0}}, expected[256] = {0};
        ouro_error error;
        ouro_tensor_info info;
        const void *output;
        open_case(&cases[c], &on, data);
        support_run(&on);
        if (ouro_session_output(on.session, 0, &info, &output, &error) != OURO_OK)
            fail_msg("%s", error.message);
        size_t element = op_dtype_bytes((op_dtype)info.dtype);
        size_t wanted = 0;
        while (wanted < 15 && cases[c].expected[wanted] != END) wanted++;
        if (strchr(cases[c].node, '?') && info.bytes != element * wanted)
            fail_msg("%s: %zu bytes", cases[c].name, info.bytes);
        for (size_t e = 0; e < info.bytes / element; e++)
            put_number((op_dtype)info.dtype, cases[c].expected[e], expected + e * element);
        if (info.bytes && memcmp(output, expected, info.bytes) != 0)
            fail_msg("%s: another result", cases[c].name);
        support_session_close(&on);
    }
}

static void refusals(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof refused / sizeof *refused; c++) {
        support_session on;
        unsigned char data[3][256] = {{0}};
        ouro_error error = {0};
        open_case(&refused[c], &on, data);
        assert_int_not_equal(ouro_session_run(on.session, &error), OURO_OK);
        if (!strstr(error.message, refused[c].name)) fail_msg("%s: %s", refused[c].node, error.message);
        support_session_close(&on);
    }
}

/* What does not fit together is refused when it is compiled: the nodes of a module, and a word of the message. */
static void shapes_refused(void **state) {
    (void)state;
    static const char *const modules[][2] = {
        {"%x: float32[2,3], %i: int64[4,1]", "%y: float32[4] = GatherND(%x, %i) {batch_dims = 1}"},
        {"%x: bool[3], %i: int64[1], %u: bool[1]",
         "%y: bool[3] = ScatterElements(%x, %i, %u) {reduction = \"add\"}"},
        {"%x: string[3], %i: int64[1,1], %u: string[1]",
         "%y: string[3] = ScatterND(%x, %i, %u) {reduction = \"mul\"}"},
        {"%x: float32[3,2], %l: int64[1]", "%y: float32[3,2] = ReverseSequence(%x, %l)"},
        {"%x: int64[3], %d: int64[0], %v: float32[2]", "%y: float32[3,?] = OneHot(%x, %d, %v)"},
        {"%x: int64[3], %d: int64[1], %v: float32[1]", "%y: float32[3,?] = OneHot(%x, %d, %v)"},
        {"%x: float32[3,2], %k: int64[0]", "%y: float32[3,2] = Trilu(%x, %k)"},
        {"%x: float32[3], %k: int64[0]", "%y: float32[3] = CumSum(%x, %k)"},
        {"%x: float32[3], %k: int64[2]", "%y: float32[?], _ = TopK(%x, %k)"},
    };
    static const char *const words[] = {"4 batches",  "bool",       "string",     "1 elements", "0 elements",
                                        "1 elements", "0 elements", "0 elements", "2 elements"};
    for (size_t c = 0; c < sizeof modules / sizeof *modules; c++) {
        char text[512];
        base_report report = {0};
        base_arena arena;
        pass_memory *memory;
        pass_options options = {.max_unroll = 16, .environment = {.threads = 1, .portable_only = true}};
        base_arena_init(&arena, NULL);
        snprintf(text, sizeof text, "module \"m\" { graph main(%s) { %s yield %%y } }", modules[c][0],
                 modules[c][1]);
        ir_module *module = support_module(text, true);
        if (pass_pipeline_run(module, &options, &arena, &memory, &report) == BASE_OK)
            fail_msg("%s: taken", modules[c][1]);
        if (!strstr(report.text, words[c])) fail_msg("%s", report.text);
        base_arena_free(&arena);
        ir_module_free(module);
    }
}

/* There and back again. */
static void depth_and_space(void **state) {
    (void)state;
    support_session on;
    float x[2 * 12 * 3 * 2];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)i;
    support_session_open(&on,
                         "module \"m\" { graph main(%x: float32[2,12,3,2]) {\n"
                         " %w: float32[2,3,6,4] = DepthToSpace(%x) {blocksize = 2}\n"
                         " %y: float32[2,12,3,2] = SpaceToDepth(%w) {blocksize = 2}\n yield %y } }",
                         1);
    support_bind(&on, 0, x, sizeof x);
    support_run(&on);
    assert_memory_equal(support_output(&on, 0, sizeof x), x, sizeof x);
    support_session_close(&on);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(corners), cmocka_unit_test(refusals),
                                       cmocka_unit_test(shapes_refused), cmocka_unit_test(depth_and_space)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
