# SPDX-License-Identifier: Apache-2.0
"""random_operators.py generate FOLDER COUNT SEED [OPERATOR]: models of one operator each, with random shapes, types, attributes and
inputs, as ONNX test folders without outputs; each with case.json and raw inputs for random_operators.js.
random_operators.py collect FOLDER: the outputs that ONNX Runtime wrote become output_I.pb; cases that it refused are moved
to FOLDER/refused, with outputs that nothing equals. Run by random_operators.sh."""
import json
import os
import random
import shutil
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

from random_contrib import CONSTANT_INPUTS, CONTRIB
from random_learned import LEARNED
from random_new import NEW, NEW_CONSTANTS
from random_operators_wide import WIDE, change

FLOATS = [np.float32, np.float32, np.float32, np.float64, np.float16]
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
NUMBERS = FLOATS + [np.int32, np.int64, np.int8, np.uint8]
ALL = NUMBERS + [np.bool_, np.uint32, np.uint64, np.int16, np.uint16]


class Draw:
    """Random shapes, tensors and choices from one seed."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.n = np.random.RandomState(seed % (1 << 32))

    def pick(self, items):
        return self.r.choice(items)

    def maybe(self, chance=0.5):
        return self.r.random() < chance

    def number(self, low, high):
        return self.r.randint(low, high)

    def shape(self, low=0, high=4, most=5, empty=0.04):
        return [0 if self.maybe(empty) else self.number(1, most) for _ in range(self.number(low, high))]

    def tensor(self, dtype, shape, low=-4, high=4, special=0.08):
        shape = tuple(shape)
        if dtype == np.bool_:
            return self.n.rand(*shape) < 0.5 if shape else np.bool_(self.maybe())
        if np.issubdtype(dtype, np.floating):
            values = np.asarray(self.n.uniform(low, high, shape)).astype(dtype)
            if values.size and self.maybe(special):
                flat = values.reshape(-1)
                for _ in range(self.number(1, 3)):
                    flat[self.number(0, flat.size - 1)] = self.pick([np.nan, np.inf, -np.inf, 0.0, -0.0])
            return values
        low = max(low, np.iinfo(dtype).min)
        values = np.asarray(self.n.randint(max(low, 0) if np.issubdtype(dtype, np.unsignedinteger) else low, high + 1, shape))
        return values.astype(dtype)

    def broadcast(self, shape):
        """A shape that broadcasts to `shape`."""
        kept = shape[self.number(0, len(shape)):] if self.maybe(0.3) else list(shape)
        return [1 if self.maybe(0.3) else d for d in kept]

    def axis(self, rank):
        return self.number(-rank, rank - 1)

    def axes(self, rank):
        chosen = self.r.sample(range(rank), self.number(1, rank))
        return [a - rank if self.maybe(0.3) else a for a in chosen]


def unary(types, low=-4, high=4, **attributes):
    def make(d):
        given = {name: value(d) for name, value in attributes.items() if d.maybe(0.7)}
        return [d.tensor(d.pick(types), d.shape(), low, high)], given
    return make


def binary(types, low=-4, high=4):
    def make(d):
        dtype, shape = d.pick(types), d.shape()
        pair = [d.tensor(dtype, shape, low, high), d.tensor(dtype, d.broadcast(shape), low, high)]
        if d.maybe():
            pair.reverse()
        return pair, {}
    return make


def division(d):
    dtype, shape = d.pick(NUMBERS), d.shape()
    a, b = d.tensor(dtype, shape), d.tensor(dtype, d.broadcast(shape))
    if not np.issubdtype(dtype, np.floating):
        b = np.where(b == 0, np.array(1, dtype), b).astype(dtype)
    return [a, b], {}


def modulo(d):
    inputs, _ = division(d)
    real = np.issubdtype(inputs[0].dtype, np.floating)
    return inputs, {"fmod": 1} if real or d.maybe(0.3) else {}


def power(d):
    shape = d.shape()
    return [d.tensor(d.pick([np.float32, np.float64]), shape, 0.1, 3), d.tensor(d.pick([np.float32, np.int32, np.int64]), d.broadcast(shape), -2, 3)], {}


def reduction(opset):
    def make(d):
        shape = d.shape(1, 5)
        x = d.tensor(d.pick([np.float32, np.float32, np.float64, np.int32, np.int64]), shape, 1, 4)
        attributes = {"keepdims": d.number(0, 1)} if d.maybe(0.7) else {}
        axes = d.axes(len(shape)) if d.maybe(0.8) else None
        if opset >= 13 and axes is not None:
            return [x, np.array(axes, np.int64)], attributes
        if axes is not None:
            attributes["axes"] = axes
        return [x], attributes
    return make


def arg_reduce(d):
    shape = [max(1, n) for n in d.shape(1, 4)]
    attributes = {"axis": d.axis(len(shape)), "keepdims": d.number(0, 1), "select_last_index": d.number(0, 1)}
    return [d.tensor(d.pick([np.float32, np.int32, np.float64, np.int8]), shape, special=0)], attributes


def along_axis(types, most_rank=4):
    def make(d):
        shape = d.shape(1, most_rank)
        return [d.tensor(d.pick(types), shape, special=0)], {"axis": d.axis(len(shape))} if d.maybe(0.8) else {}
    return make


def matmul(d):
    batch, m, k, n = d.shape(0, 2, 3), d.number(1, 6), d.number(1, 6), d.number(1, 6)
    dtype = d.pick([np.float32, np.float32, np.float64, np.int32, np.int64])
    a, b = d.broadcast(batch) + [m, k], d.broadcast(batch) + [k, n]
    if d.maybe(0.1):
        a = [k]
    if d.maybe(0.1):
        b = [k]
    return [d.tensor(dtype, a, special=0), d.tensor(dtype, b, special=0)], {}


def gemm(d):
    m, k, n = d.number(1, 6), d.number(1, 6), d.number(1, 6)
    left, right = d.number(0, 1), d.number(0, 1)
    dtype = d.pick([np.float32, np.float32, np.float64])
    inputs = [d.tensor(dtype, [k, m] if left else [m, k], special=0), d.tensor(dtype, [n, k] if right else [k, n], special=0)]
    if d.maybe(0.7):
        inputs.append(d.tensor(dtype, d.broadcast([m, n]), special=0))
    return inputs, {"transA": left, "transB": right, "alpha": 0.5, "beta": d.pick([0.0, 1.0, 2.0])}


def window(d, rank, transposed=False):
    kernel, strides = [d.number(1, 3) for _ in range(rank)], [d.number(1, 2) for _ in range(rank)]
    attributes = {"kernel_shape": kernel, "strides": strides}
    choice = d.number(0, 3)
    if choice == 0:
        attributes["auto_pad"] = d.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif choice < 3:
        attributes["pads"] = [d.number(0, k - 1) for k in kernel * 2]
    return kernel, attributes


def convolution(d):
    rank, group = d.number(1, 3), d.pick([1, 1, 1, 2, 3])
    kernel, attributes = window(d, rank)
    channels, filters = group * d.number(1, 4), group * d.number(1, 4)
    attributes["group"] = group
    if "auto_pad" not in attributes and d.maybe(0.3):
        attributes["dilations"] = [d.number(1, 2) for _ in range(rank)]
    inputs = [d.tensor(np.float32, [d.number(1, 2), channels] + [d.number(5, 8) for _ in range(rank)], special=0),
              d.tensor(np.float32, [filters, channels // group] + kernel, special=0)]
    if d.maybe():
        inputs.append(d.tensor(np.float32, [filters], special=0))
    return inputs, attributes


def transposed_convolution(d):
    rank, group = d.number(1, 3), d.pick([1, 1, 2])
    kernel, attributes = window(d, rank)
    channels, filters = group * d.number(1, 4), d.number(1, 4)
    attributes["group"] = group
    if "auto_pad" in attributes:
        del attributes["auto_pad"]
    elif d.maybe(0.3):
        attributes["output_padding"] = [d.number(0, s - 1) for s in attributes["strides"]]
    inputs = [d.tensor(np.float32, [d.number(1, 2), channels] + [d.number(3, 5) for _ in range(rank)], special=0),
              d.tensor(np.float32, [channels, filters] + kernel, special=0)]
    if d.maybe():
        inputs.append(d.tensor(np.float32, [group * filters], special=0))
    return inputs, attributes


def pooling(kind):
    def make(d):
        rank = d.number(1, 3)
        kernel, attributes = window(d, rank)
        if "auto_pad" not in attributes and d.maybe(0.3):
            attributes["ceil_mode"] = 1
        if kind == "average" and d.maybe():
            attributes["count_include_pad"] = 1
        if kind == "lp" and d.maybe():
            attributes["p"] = d.number(1, 3)
        if kind != "max":
            attributes.pop("ceil_mode", None)
        return [d.tensor(np.float32, [d.number(1, 2), d.number(1, 3)] + [d.number(4, 8) for _ in range(rank)], special=0)], attributes
    return make


def image(d):
    return [d.tensor(np.float32, [d.number(1, 3), d.number(1, 4)] + d.shape(1, 3, empty=0), special=0)], {}


def batch_normalization(d):
    inputs, _ = image(d)
    c = inputs[0].shape[1]
    return inputs + [d.tensor(np.float32, [c], 0.5, 2, 0) for _ in range(4)], {"epsilon": 0.01}


def instance_normalization(d):
    inputs, _ = image(d)
    c = inputs[0].shape[1]
    return inputs + [d.tensor(np.float32, [c], 0.5, 2, 0) for _ in range(2)], {"epsilon": 0.01}


def layer_normalization(d):
    shape = d.shape(1, 4, empty=0)
    axis = d.number(-len(shape), len(shape) - 1)
    inner = shape[axis:]
    inputs = [d.tensor(np.float32, shape, special=0), d.tensor(np.float32, inner, special=0)]
    if d.maybe():
        inputs.append(d.tensor(np.float32, inner, special=0))
    return inputs, {"axis": axis, "epsilon": 0.01}


def local_response(d):
    inputs, _ = image(d)
    return inputs, {"size": d.pick([1, 3, 5]), "alpha": 0.1, "beta": 0.7, "bias": 1.5}


def reshape(d):
    shape = d.shape(1, 4, empty=0)
    size = int(np.prod(shape))
    target, left = [], size
    while left > 1 and len(target) < 3:
        factor = d.pick([f for f in range(1, left + 1) if left % f == 0])
        target.append(factor)
        left //= factor
    target.append(left)
    if d.maybe():
        target[d.number(0, len(target) - 1)] = -1
    return [d.tensor(d.pick(ALL), shape), np.array(target, np.int64)], {}


def squeeze(d):
    shape = d.shape(1, 4)
    shape.insert(d.number(0, len(shape)), 1)
    ones = [i for i, n in enumerate(shape) if n == 1]
    chosen = d.r.sample(ones, d.number(1, len(ones)))
    inputs = [d.tensor(d.pick(ALL), shape)]
    if d.maybe(0.8):
        inputs.append(np.array([a - len(shape) if d.maybe() else a for a in chosen], np.int64))
    return inputs, {}


def unsqueeze(d):
    shape = d.shape(0, 3)
    rank = len(shape) + d.number(1, 2)
    axes = d.r.sample(range(rank), rank - len(shape))
    return [d.tensor(d.pick(ALL), shape), np.array([a - rank if d.maybe() else a for a in axes], np.int64)], {}


def flatten(d):
    shape = d.shape(1, 4)
    return [d.tensor(d.pick(ALL), shape)], {"axis": d.number(-len(shape), len(shape))}


def transpose(d):
    shape = d.shape(1, 5)
    order = list(range(len(shape)))
    d.r.shuffle(order)
    return [d.tensor(d.pick(ALL), shape)], {"perm": order} if d.maybe(0.8) else {}


def slicing(d):
    shape = d.shape(1, 4)
    count = d.number(1, len(shape))
    axes = d.r.sample(range(len(shape)), count)
    steps = [d.pick([1, 1, 2, -1, -2]) for _ in axes]
    starts = [d.number(-6, 6) for _ in axes]
    ends = [d.pick([d.number(-6, 6), 2**31, -2**31]) for _ in axes]
    index = d.pick([np.int32, np.int64])
    if index == np.int32:
        ends = [max(min(e, 2**31 - 1), -2**31) for e in ends]
    return [d.tensor(d.pick(ALL), shape)] + [np.array(v, index) for v in (starts, ends, axes, steps)], {}


def concatenation(d):
    shape, dtype = d.shape(1, 4), d.pick(ALL)
    axis = d.axis(len(shape))
    inputs = []
    for _ in range(d.number(1, 4)):
        own = list(shape)
        own[axis] = d.number(0, 4)
        inputs.append(d.tensor(dtype, own))
    return inputs, {"axis": axis}


def splitting(d):
    shape = d.shape(1, 4, empty=0)
    axis, parts = d.axis(len(shape)), d.number(1, 3)
    sizes = [d.number(0, 3) for _ in range(parts)]
    shape[axis] = sum(sizes)
    return [d.tensor(d.pick(ALL), shape), np.array(sizes, np.int64)], {"axis": axis}, parts


def gathering(d):
    shape = d.shape(1, 4, empty=0)
    axis = d.axis(len(shape))
    n = shape[axis]
    return [d.tensor(d.pick(ALL), shape), d.n.randint(-n, n, d.shape(0, 3)).astype(d.pick([np.int32, np.int64]))], {"axis": axis}


def gather_elements(d):
    shape = d.shape(1, 4, empty=0)
    axis = d.axis(len(shape))
    own = [d.number(1, n) for n in shape]
    own[axis] = d.number(1, 5)
    n = shape[axis]
    return [d.tensor(d.pick(ALL), shape), d.n.randint(-n, n, own).astype(d.pick([np.int32, np.int64]))], {"axis": axis}


def gather_nd(d):
    shape = d.shape(1, 4, empty=0)
    batch = d.number(0, len(shape) - 1)
    depth = d.number(1, len(shape) - batch)
    lead = shape[:batch] + d.shape(0 if batch else 1, 2, 3, 0)
    columns = [d.n.randint(-shape[batch + i], shape[batch + i], lead) for i in range(depth)]
    return [d.tensor(d.pick(ALL), shape), np.stack(columns, -1).astype(np.int64)], {"batch_dims": batch}


def scatter_elements(d):
    shape = d.shape(1, 3, empty=0)
    axis, dtype = d.axis(len(shape)), d.pick([np.float32, np.int32, np.float64, np.int64])
    own = [d.number(1, n) for n in shape]
    reduction = d.pick(["none", "none", "add", "mul"])
    n = shape[axis]
    if reduction == "none":
        own[axis] = n
        index = np.argsort(d.n.rand(*own), axis)
    else:
        index = d.n.randint(-n, n, own)
    return [d.tensor(dtype, shape, special=0), index.astype(np.int64), d.tensor(dtype, index.shape, special=0)], {"axis": axis, "reduction": reduction}


def scatter_nd(d):
    shape = d.shape(1, 3, empty=0)
    dtype = d.pick([np.float32, np.int32, np.float64])
    rows = d.r.sample(range(shape[0]), d.number(1, shape[0]))
    return [d.tensor(dtype, shape, special=0), np.array(rows, np.int64).reshape(-1, 1), d.tensor(dtype, [len(rows)] + shape[1:], special=0)], {"reduction": d.pick(["none", "add", "mul"])}


def one_hot(d):
    depth = d.number(1, 5)
    shape = d.shape(0, 3)
    index, kind = d.pick([np.int32, np.int64, np.float32]), d.pick([np.float32, np.int32, np.int64])
    return [d.n.randint(-depth, depth + 1, shape).astype(index), np.array(depth, np.int64), d.tensor(kind, [2], special=0)], {"axis": d.number(-len(shape) - 1, len(shape))}


def expansion(d):
    shape = d.shape(0, 4)
    return [d.tensor(d.pick(ALL), d.broadcast(shape)), np.array(shape, np.int64)], {}


def tiling(d):
    shape = d.shape(0, 4)
    return [d.tensor(d.pick(ALL), shape), np.array([d.number(0, 3) for _ in shape], np.int64)], {}


def padding(d):
    shape = d.shape(1, 4, empty=0)
    mode = d.pick(["constant", "reflect", "edge"])
    pads = [d.number(0, 2) if mode != "reflect" else d.number(0, shape[i % len(shape)] - 1) for i in range(2 * len(shape))]
    if mode == "constant" and d.maybe(0.3):
        pads = [p - 1 if shape[i % len(shape)] > 3 else p for i, p in enumerate(pads)]
    dtype = d.pick([np.float32, np.float64, np.int32, np.int64])
    inputs = [d.tensor(dtype, shape), np.array(pads, np.int64)]
    if mode == "constant" and d.maybe(0.7):
        inputs.append(d.tensor(dtype, []))
    return inputs, {"mode": mode}


def depth_space(to_depth):
    def make(d):
        block, c = d.number(1, 3), d.number(1, 3)
        h, w = d.number(1, 3), d.number(1, 3)
        if to_depth:
            return [d.tensor(np.float32, [1, c, h * block, w * block])], {"blocksize": block}
        return [d.tensor(np.float32, [1, c * block * block, h, w])], {"blocksize": block, "mode": d.pick(["DCR", "CRD"])}
    return make


def top_k(d):
    shape = d.shape(1, 3, empty=0)
    axis = d.axis(len(shape))
    return [d.tensor(d.pick([np.float32, np.float64, np.int32, np.int64]), shape, special=0), np.array([d.number(0, shape[axis])], np.int64)], {"axis": axis, "largest": d.number(0, 1), "sorted": 1}, 2


def choosing(d):
    shape, dtype = d.shape(), d.pick([np.float32, np.int32, np.int64, np.float64, np.uint8, np.bool_])
    return [d.tensor(np.bool_, d.broadcast(shape)), d.tensor(dtype, shape), d.tensor(dtype, d.broadcast(shape))], {}


def clipping(d):
    dtype = d.pick([np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8])
    inputs = [d.tensor(dtype, d.shape())]
    inputs.append(np.array(1, dtype) if d.maybe(0.7) else None)
    if d.maybe(0.7):
        inputs.append(np.array(2, dtype))
    return inputs, {}


def casting(d):
    to = d.pick(ALL)
    x = d.tensor(d.pick(ALL), d.shape(), 0 if np.issubdtype(to, np.unsignedinteger) else -4, 4, 0)
    return [x], {"to": int(helper.np_dtype_to_tensor_dtype(np.dtype(to))) if hasattr(helper, "np_dtype_to_tensor_dtype") else int(onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(to)])}


def cumulative(d):
    shape = d.shape(1, 4)
    return [d.tensor(d.pick([np.float32, np.float64, np.int32, np.int64]), shape, special=0), np.array(d.axis(len(shape)), d.pick([np.int32, np.int64]))], {"exclusive": d.number(0, 1), "reverse": d.number(0, 1)}


def compressing(d):
    shape = d.shape(1, 3)
    x = d.tensor(d.pick([np.float32, np.int32, np.int64]), shape)
    if d.maybe(0.3):
        return [x, d.n.rand(d.number(0, x.size)) < 0.5], {}
    axis = d.axis(len(shape))
    return [x, d.n.rand(d.number(0, shape[axis])) < 0.5], {"axis": axis}


def unique(d):
    shape = d.shape(1, 3, empty=0)
    attributes = {"sorted": d.number(0, 1)}
    if d.maybe():
        attributes["axis"] = d.axis(len(shape))
    return [d.tensor(d.pick([np.float32, np.int64, np.int8]), shape, -1, 1, 0).round()], attributes, 4


def einsum(d):
    labels = "abcde"
    extents = {c: d.number(1, 4) for c in labels}
    operands = ["".join(d.r.sample(labels, d.number(1, 3))) for _ in range(d.number(1, 3))]
    used = sorted(set("".join(operands)))
    output = d.r.sample(used, d.number(0, len(used)))
    return [d.tensor(np.float32, [extents[c] for c in o], special=0) for o in operands], {"equation": ",".join(operands) + "->" + "".join(output)}


def resize(d):
    rank = d.number(1, 2)
    x = d.tensor(np.float32, [1, d.number(1, 2)] + [d.number(2, 5) for _ in range(rank)], special=0)
    mode = d.pick(["nearest", "linear"] + (["cubic"] if rank == 2 else []))
    attributes = {"mode": mode, "coordinate_transformation_mode": d.pick(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])}
    if mode == "nearest":
        attributes["nearest_mode"] = d.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if d.maybe():
        # ONNX's own tests take the length scale * extent as it is for align_corners, ONNX Runtime rounds it down.
        scales = [2.0, 3.0] if attributes["coordinate_transformation_mode"] == "align_corners" else [0.5, 1.5, 2.0, 3.0]
        return [x, None, np.array([1, 1] + [d.pick(scales) for _ in range(rank)], np.float32)], attributes
    return [x, None, None, np.array(list(x.shape[:2]) + [d.number(1, 8) for _ in range(rank)], np.int64)], attributes


def grid_sample(d):
    x = d.tensor(np.float32, [1, 2, d.number(2, 5), d.number(2, 5)], special=0)
    grid = d.tensor(np.float32, [1, d.number(1, 4), d.number(1, 4), 2], -1.2, 1.2, 0)
    return [x, grid], {"mode": d.pick(["bilinear", "nearest"]), "padding_mode": d.pick(["zeros", "border", "reflection"]), "align_corners": d.number(0, 1)}


def quantizing(d):
    shape, kind = d.shape(1, 4), d.pick([np.int8, np.uint8])
    if d.maybe(0.3) and shape[0]:
        return [d.tensor(np.float32, shape, special=0), d.tensor(np.float32, [shape[0]], 0.01, 0.1, 0), d.tensor(kind, [shape[0]])], {"axis": 0}
    return [d.tensor(np.float32, shape, special=0), np.array(0.03, np.float32), np.array(3, kind)], {}


def dequantizing(d):
    kind = d.pick([np.int8, np.uint8])
    return [d.tensor(kind, d.shape(1, 4), -100, 100), np.array(0.03, np.float32), np.array(3, kind)], {}


def integer_product(d):
    m, k, n = d.number(1, 6), d.number(1, 6), d.number(1, 6)
    left, right = d.pick([np.uint8, np.int8]), d.pick([np.uint8, np.int8])
    return [d.tensor(left, [m, k], -100, 100), d.tensor(right, [k, n], -100, 100), np.array(3, left), np.array(2, right)], {}


def recurrent(gates):
    def make(d):
        steps, batch, n, h = d.number(1, 5), d.number(1, 3), d.number(1, 5), d.number(1, 5)
        direction = d.pick(["forward", "reverse", "bidirectional"])
        k = 2 if direction == "bidirectional" else 1
        inputs = [d.tensor(np.float32, [steps, batch, n], -1, 1, 0), d.tensor(np.float32, [k, gates * h, n], -1, 1, 0), d.tensor(np.float32, [k, gates * h, h], -1, 1, 0)]
        attributes = {"hidden_size": h, "direction": direction}
        inputs.append(d.tensor(np.float32, [k, 2 * gates * h], -1, 1, 0) if d.maybe(0.7) else None)
        inputs.append(d.n.randint(1, steps + 1, batch).astype(np.int32) if d.maybe(0.3) else None)
        if d.maybe():
            inputs.append(d.tensor(np.float32, [k, batch, h], -1, 1, 0))
            if gates == 4:
                inputs.append(d.tensor(np.float32, [k, batch, h], -1, 1, 0))
        if gates == 3:
            attributes["linear_before_reset"] = d.number(0, 1)
        return inputs, attributes, 3 if gates == 4 else 2
    return make


def range_of(d):
    dtype = d.pick([np.float32, np.int32, np.int64])
    return [np.array(d.number(-5, 5), dtype), np.array(d.number(-5, 5), dtype), np.array(d.pick([-2, -1, 1, 2]), dtype)], {}


def triangle(d):
    inputs = [d.tensor(d.pick([np.float32, np.int64, np.float64]), d.shape(2, 4))]
    if d.maybe():
        inputs.append(np.array(d.number(-3, 3), np.int64))
    return inputs, {"upper": d.number(0, 1)}


def reverse_sequence(d):
    shape = d.shape(2, 4, empty=0)
    time = d.number(0, 1)
    lengths = d.n.randint(1, shape[time] + 1, shape[1 - time])
    return [d.tensor(np.float32, shape), lengths.astype(np.int64)], {"time_axis": time, "batch_axis": 1 - time}


def prelu(d):
    shape = d.shape(1, 4)
    return [d.tensor(np.float32, shape, special=0), d.tensor(np.float32, d.broadcast(shape), special=0)], {}


def shift(d):
    dtype, shape = d.pick(UNSIGNED), d.shape()
    return [d.tensor(dtype, shape, 0, 100), d.tensor(dtype, d.broadcast(shape), 0, 6)], {"direction": d.pick(["LEFT", "RIGHT"])}


def variadic(types):
    def make(d):
        dtype, shape = d.pick(types), d.shape()
        return [d.tensor(dtype, d.broadcast(shape) if i else shape, special=0) for i in range(d.number(1, 4))], {}
    return make


def regions(d):
    count, h, w = d.number(1, 4), d.number(4, 8), d.number(4, 8)
    corners = np.sort(d.n.uniform(0, min(h, w), (count, 2, 2)), 1).reshape(count, 4).astype(np.float32)
    images = d.number(1, 2)
    attributes = {"output_height": d.number(1, 3), "output_width": d.number(1, 3), "mode": d.pick(["avg", "max"]), "sampling_ratio": d.number(1, 2), "spatial_scale": d.pick([0.5, 1.0])}
    if attributes["mode"] == "max":
        attributes["mode"] = "avg"  # ONNX Runtime 1.30 takes the maximum of weighted corners
    return [d.tensor(np.float32, [images, 2, h, w], special=0), corners, d.n.randint(0, images, count).astype(np.int64)], attributes


def pooled_regions(d):
    count, size = d.number(1, 4), d.number(4, 8)
    corners = np.sort(d.n.randint(0, size, (count, 2, 2)), 1).reshape(count, 4)
    images = d.number(1, 2)
    rows = np.concatenate([d.n.randint(0, images, (count, 1)), corners], 1).astype(np.float32)
    return [d.tensor(np.float32, [images, 2, size, size], special=0), rows], {"pooled_shape": [d.number(1, 3), d.number(1, 3)], "spatial_scale": 1.0}


def suppression(d):
    batches, boxes, classes = d.number(1, 2), d.number(1, 6), d.number(1, 3)
    corners = np.sort(d.n.uniform(0, 1, (batches, boxes, 2, 2)), 2).reshape(batches, boxes, 4).astype(np.float32)
    return [corners, d.tensor(np.float32, [batches, classes, boxes], 0, 1, 0), np.array([d.number(0, 4)], np.int64), np.array([0.3], np.float32), np.array([0.2], np.float32)], {}


def mean_variance(d):
    return [d.tensor(np.float32, d.shape(4, 4, empty=0), special=0)], {"axes": d.pick([[0, 2, 3], [0, 1, 2, 3], [2, 3]])}


def quantized_convolution(d):
    kernel, attributes = window(d, 2)
    channels, filters = d.number(1, 4), d.number(1, 4)
    kind = d.pick([np.uint8, np.int8])
    x = d.tensor(np.uint8, [1, channels, 6, 6], 0, 255)
    w = d.tensor(kind, [filters, channels] + kernel, -100, 100)
    scales = np.full(filters, 0.02, np.float32) if d.maybe() else np.array(0.02, np.float32)
    zeros = np.zeros(scales.shape, kind)
    inputs = [x, np.array(0.1, np.float32), np.array(120, np.uint8), w, scales, zeros, np.array(2.0, np.float32), np.array(100, np.uint8)]
    if d.maybe():
        inputs.append(d.tensor(np.int32, [filters], -100, 100))
    return inputs, attributes


def integer_convolution(d):
    kernel, attributes = window(d, 2)
    channels, filters = d.number(1, 4), d.number(1, 4)
    return [d.tensor(np.uint8, [1, channels, 6, 6], 0, 255), d.tensor(np.uint8, [filters, channels] + kernel, 0, 255), np.array(3, np.uint8)], attributes


def quantized_product(d):
    m, k, n = d.number(1, 6), d.number(1, 6), d.number(1, 6)
    kind = d.pick([np.uint8, np.int8])
    return [d.tensor(np.uint8, [m, k], 0, 255), np.array(0.02, np.float32), np.array(110, np.uint8), d.tensor(kind, [k, n], -100, 100), np.array(0.03, np.float32), np.array(3, kind), np.array(0.5, np.float32), np.array(100, np.uint8)], {}


def dynamic_quantizing(d):
    return [d.tensor(np.float32, d.shape(1, 3, empty=0), special=0)], {}, 3


def global_lp(d):
    inputs, _ = image(d)
    return inputs, {"p": d.number(1, 3)}


def determinant(d):
    n = d.number(1, 4)
    return [d.tensor(np.float32, d.shape(0, 2, empty=0) + [n, n], special=0)], {}


def eye(d):
    return [d.tensor(d.pick([np.float32, np.int64]), d.shape(2, 2, empty=0))], {"k": d.number(-3, 3)}


def filled(d):
    return [np.array(d.shape(0, 3), np.int64)], {"value": numpy_helper.from_array(d.tensor(d.pick([np.float32, np.int64, np.int32]), [1], special=0), "value")}


def fourier(d):
    shape = [d.number(1, 2), d.number(2, 8), 1]
    return [d.tensor(np.float32, shape, special=0)], {"axis": 1, "onesided": d.number(0, 1)}


def dropout(d):
    return [d.tensor(np.float32, d.shape()), np.array(0.3, np.float32)], {}, 2


def likelihood(d):
    n, c = d.number(1, 4), d.number(1, 4)
    more = d.shape(0, 2, 3, 0)
    inputs = [d.tensor(np.float32, [n, c] + more, special=0), d.n.randint(0, c, [n] + more).astype(np.int64)]
    if d.maybe():
        inputs.append(d.tensor(np.float32, [c], 0.1, 1, 0))
    return inputs, {"reduction": d.pick(["none", "mean", "sum"])}


def attribute_slice(d):
    inputs, _ = slicing(d)
    count = len(inputs[1])
    axes = [int(a) for a in inputs[3]]
    return [inputs[0]], {"starts": [int(v) for v in inputs[1]], "ends": [int(v) for v in inputs[2]], "axes": axes[:count]}


def attribute_clip(d):
    attributes = {"min": -1.0} if d.maybe() else {}
    if d.maybe():
        attributes["max"] = 1.5
    return [d.tensor(np.float32, d.shape(), special=0)], attributes


def attribute_pad(d):
    shape = d.shape(2, 4, empty=0)
    return [d.tensor(np.float32, shape)], {"mode": d.pick(["constant", "edge"]), "pads": [d.number(0, 2) for _ in range(2 * len(shape))], "value": 0.5}


def attribute_axes(d):
    shape = d.shape(1, 3, empty=0)
    shape.insert(d.number(0, len(shape)), 1)
    return [d.tensor(np.float32, shape)], {"axes": [shape.index(1)]}


def attribute_split(d):
    inputs, attributes, parts = splitting(d)
    return [inputs[0]], {**attributes, "split": [max(0, int(n)) for n in inputs[1]]}, parts


def upsample(d):
    return [d.tensor(np.float32, [1, 2, d.number(1, 4), d.number(1, 4)], special=0), np.array([1, 1, d.pick([1.0, 2.0, 3.0]), 2.0], np.float32)], {"mode": d.pick(["nearest", "linear"])}


def old_top_k(d):
    shape = d.shape(1, 3, empty=0)
    axis = d.number(0, len(shape) - 1)
    return [d.tensor(np.float32, shape, special=0), np.array([d.number(1, shape[axis])], np.int64)], {"axis": axis}, 2


def gru_cell(d):
    return recurrent(3)(d)


def cast_like(d):
    to = d.pick([np.float32, np.int32, np.int64, np.float64])
    return [d.tensor(d.pick([np.float32, np.int32]), d.shape(), special=0), d.tensor(to, [1], special=0)], {}


def taper(d):
    return [np.array(d.number(1, 12), np.int64)], {"periodic": d.number(0, 1)}


def real(low, high):
    return lambda d: d.r.uniform(low, high)


OPERATORS = {
    **{name: (13, unary(FLOATS)) for name in ["Ceil", "Floor", "Exp", "Sigmoid", "Tanh", "Erf", "Reciprocal"]},
    **{name: (13, unary(NUMBERS)) for name in ["Abs", "Neg", "Sign", "Identity"]},
    **{name: (13, unary([np.float32, np.float64], 0.01, 4)) for name in ["Log", "Sqrt"]},
    **{name: (13, unary([np.float32])) for name in ["Sin", "Cos", "Tan", "Sinh", "Cosh", "Atan", "Asinh", "Softplus", "Softsign", "Round"]},
    **{name: (13, unary([np.float32], -0.99, 0.99)) for name in ["Asin", "Acos", "Atanh"]},
    "Acosh": (13, unary([np.float32], 1, 5)), "Relu": (14, unary([np.float32, np.float64, np.int32, np.int8])),
    "LeakyRelu": (16, unary([np.float32], alpha=real(0, 1))), "Elu": (13, unary([np.float32], alpha=real(0, 2))),
    "Celu": (13, unary([np.float32], alpha=real(0.5, 2))), "Selu": (13, unary([np.float32], alpha=real(1, 2), gamma=real(1, 2))),
    "HardSigmoid": (13, unary([np.float32], alpha=real(0, 1), beta=real(0, 1))), "HardSwish": (14, unary([np.float32])),
    "ThresholdedRelu": (13, unary([np.float32], alpha=real(0, 2))), "Shrink": (13, unary([np.float32, np.int32], lambd=real(0, 2), bias=real(0, 2))),
    "Not": (13, unary([np.bool_])), "IsNaN": (13, unary([np.float32, np.float64])), "IsInf": (13, unary([np.float32, np.float64])),
    **{name: (14, binary(NUMBERS)) for name in ["Add", "Sub", "Mul"]}, "Div": (14, division), "Mod": (13, modulo), "Pow": (15, power),
    **{name: (13, binary(NUMBERS + [np.bool_] if name == "Equal" else NUMBERS)) for name in ["Equal", "Less", "Greater"]},
    **{name: (16, binary(NUMBERS)) for name in ["LessOrEqual", "GreaterOrEqual"]},
    **{name: (13, binary([np.bool_])) for name in ["And", "Or", "Xor"]},
    "BitShift": (13, shift), "PRelu": (16, prelu), "Where": (16, choosing), "Clip": (13, clipping), "Cast": (13, casting),
    **{name: (13, variadic([np.float32, np.float64, np.int32, np.int64])) for name in ["Max", "Min"]},
    **{name: (13, variadic([np.float32, np.float64])) for name in ["Sum", "Mean"]},
    "ReduceSum": (13, reduction(13)),
    **{name: (13, reduction(11)) for name in ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"]},
    "ArgMax": (13, arg_reduce), "ArgMin": (13, arg_reduce),
    **{name: (13, along_axis([np.float32, np.float64])) for name in ["Softmax", "LogSoftmax", "Hardmax"]},
    "LpNormalization": (13, along_axis([np.float32])), "MatMul": (13, matmul), "Gemm": (13, gemm), "Conv": (13, convolution),
    "ConvTranspose": (13, transposed_convolution), "MaxPool": (12, pooling("max")), "AveragePool": (11, pooling("average")), "LpPool": (11, pooling("lp")),
    "GlobalAveragePool": (13, image), "GlobalMaxPool": (13, image), "BatchNormalization": (15, batch_normalization),
    "InstanceNormalization": (13, instance_normalization), "LayerNormalization": (17, layer_normalization), "LRN": (13, local_response),
    "Reshape": (14, reshape), "Squeeze": (13, squeeze), "Unsqueeze": (13, unsqueeze), "Flatten": (13, flatten), "Transpose": (13, transpose),
    "Slice": (13, slicing), "Concat": (13, concatenation), "Split": (13, splitting), "Gather": (13, gathering), "GatherElements": (13, gather_elements),
    "GatherND": (13, gather_nd), "ScatterElements": (16, scatter_elements), "ScatterND": (16, scatter_nd), "OneHot": (11, one_hot), "Expand": (13, expansion),
    "Tile": (13, tiling), "Pad": (13, padding), "DepthToSpace": (13, depth_space(False)), "SpaceToDepth": (13, depth_space(True)), "TopK": (11, top_k),
    "CumSum": (14, cumulative), "Compress": (11, compressing), "Unique": (11, unique), "Einsum": (12, einsum), "Resize": (13, resize), "GridSample": (16, grid_sample),
    "QuantizeLinear": (13, quantizing), "DequantizeLinear": (13, dequantizing), "MatMulInteger": (10, integer_product), "RNN": (14, recurrent(1)),
    "GRU": (14, recurrent(3)), "LSTM": (14, recurrent(4)), "Range": (11, range_of), "Trilu": (14, triangle), "ReverseSequence": (10, reverse_sequence),
    "Shape": (15, unary(ALL)), "Size": (13, unary(ALL)), "NonZero": (13, unary([np.float32, np.int32, np.bool_, np.int64])),
}
OPERATORS.update({
    "RoiAlign": (16, regions), "MaxRoiPool": (1, pooled_regions), "NonMaxSuppression": (11, suppression), "MeanVarianceNormalization": (13, mean_variance),
    "QLinearConv": (10, quantized_convolution), "ConvInteger": (10, integer_convolution), "QLinearMatMul": (10, quantized_product),
    "DynamicQuantizeLinear": (11, dynamic_quantizing), "GlobalLpPool": (2, global_lp), "Det": (11, determinant), "EyeLike": (9, eye),
    "ConstantOfShape": (9, filled), "DFT": (17, fourier), "Dropout": (13, dropout), "NegativeLogLikelihoodLoss": (13, likelihood),
    "SoftmaxCrossEntropyLoss": (13, likelihood), "CastLike": (15, cast_like), "HannWindow": (17, taper), "HammingWindow": (17, taper), "BlackmanWindow": (17, taper),
    # older forms, which are converted when a model is read
    "Slice@9": (9, attribute_slice), "Clip@10": (10, attribute_clip), "Pad@10": (10, attribute_pad), "Squeeze@12": (12, attribute_axes),
    "Unsqueeze@12": (12, attribute_axes), "Split@12": (12, attribute_split), "Softmax@12": (12, along_axis([np.float32])), "LogSoftmax@11": (11, along_axis([np.float32])),
    "Hardmax@12": (12, along_axis([np.float32])), "Upsample@9": (9, upsample), "Resize@10": (10, upsample), "TopK@10": (10, old_top_k), "ReduceSum@12": (12, reduction(11)),
    "BatchNormalization@9": (9, batch_normalization), "AveragePool@7": (7, pooling("average")), "MaxPool@8": (8, pooling("max")), "Add@7": (7, binary([np.float32, np.int64])),
    "Gemm@7": (7, gemm), "Dropout@10": (10, unary([np.float32])), "PRelu@9": (9, prelu), "Cast@9": (9, casting), "Gather@11": (11, gathering), "Concat@4": (7, concatenation),
    "Flatten@11": (11, flatten), "LSTM@7": (7, recurrent(4)), "GRU@7": (7, recurrent(3)), "ArgMax@12": (12, arg_reduce), "Scatter@9": (9, scatter_elements), "Max@8": (8, variadic([np.float32])),
})


def either(one, other):
    return lambda d: (one if d.maybe() else other)(d)


OPERATORS.update(CONTRIB)
OPERATORS.update(LEARNED)
OPERATORS.update(NEW)
for key, (version, row) in WIDE.items():
    if key in OPERATORS and OPERATORS[key][0] == version:
        row = either(OPERATORS[key][1], row)
    elif key in OPERATORS:
        key = f"{key}@{version}"
    OPERATORS[key] = (version, row)
# Attributes that a version does not have yet.
OLD_ATTRIBUTES = {"MaxPool@8": {"ceil_mode", "dilations"}, "Scatter@9": {"reduction"}, "ArgMax@12": set(), "Concat@4": set()}
CONSTANTS = {"Upsample@9", "Resize@10", "TopK@10", "RoiAlign", "Reshape", "Squeeze", "Unsqueeze", "Slice", "Split", "Pad", "Expand", "Tile", "ReduceSum", "TopK", "Resize", "Conv", "MatMul", "Gemm"}


def dtype_of(inputs):
    if inputs and isinstance(inputs[0], onnx.TensorProto):
        return inputs[0].data_type
    return int(numpy_helper.from_array(np.asarray(inputs[0])).data_type) if inputs and inputs[0] is not None else 1


def output_types(name, opset, inputs, attributes, outputs):
    """The types of the outputs, which ONNX Runtime wants to be told; where inference does not know, that of the values."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    given = [helper.make_tensor_value_info(f"x{i}", dtype_of([x]), np.shape(x)) for i, x in enumerate(inputs) if x is not None]
    results = []
    for i in range(outputs):
        info = onnx.ValueInfoProto()
        info.name = f"y{i}"
        results.append(info)
    node = helper.make_node(name, names, [f"y{i}" for i in range(outputs)], **attributes)
    model = helper.make_model(helper.make_graph([node], name, given, results), opset_imports=[helper.make_opsetid("", opset)])
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph.output
    except RuntimeError:  # not a valid model
        inferred = model.graph.output
    same = dtype_of(inputs[2:]) if name == "OneHot" else dtype_of(inputs)
    return [known.type.tensor_type.elem_type or same for known in inferred]


def write_case(folder, name, seed):
    d = Draw(seed)
    opset, make = OPERATORS[name]
    made = make(d)
    outputs = made[2] if len(made) > 2 else 1
    after = made[3] if len(made) > 3 else []
    before, allowed = list(made[0]), {k: v for k, v in made[1].items() if k not in OLD_ATTRIBUTES.get(name, ())}
    domain, _, plain = name.split("@")[0].rpartition(":")
    inputs, attributes = change(d, name, before, allowed) if name not in LEARNED else (before, allowed)
    # ONNX's inference does not stand all that is changed.
    types = output_types(plain, opset, before, allowed, outputs) if ":" not in name else [0] * outputs
    if dtype_of(before) != dtype_of(inputs):
        types = [dtype_of(inputs) if known == dtype_of(before) else known for known in types]
    while inputs and inputs[-1] is None:
        inputs.pop()
    names, graph_inputs, initializers, data = [], [], [], []
    for i, value in enumerate(inputs):
        if value is None:
            names.append("")
            continue
        if isinstance(value, onnx.TensorProto):
            names.append(f"x{i}")
            value.name = f"x{i}"
            initializers.append(value)
            continue
        value = np.ascontiguousarray(value)
        if inputs[i] is not None and np.ndim(inputs[i]) == 0:
            value = value.reshape(())
        names.append(f"x{i}")
        if i and (name in CONSTANTS or name in CONSTANT_INPUTS or name in NEW_CONSTANTS) and d.maybe(0.6):
            initializers.append(numpy_helper.from_array(value, f"x{i}"))
        else:
            tensor = numpy_helper.from_array(value, f"x{i}")
            graph_inputs.append(helper.make_tensor_value_info(f"x{i}", tensor.data_type, value.shape))
            data.append((f"x{i}", value, tensor))
    made_names = [f"{'before' if after else 'y'}{i}" for i in range(outputs)]
    nodes = [helper.make_node(plain, names, made_names, domain=domain, **attributes)]
    for i, made_name in enumerate(made_names):
        for k, (follower, its) in enumerate(after):
            result = f"y{i}" if k == len(after) - 1 else f"{made_name}_{k}"
            nodes.append(helper.make_node(follower, [made_name], [result], **its))
            made_name = result
    results = []
    for i in range(outputs):
        info = onnx.ValueInfoProto()
        info.name = f"y{i}"
        results.append(info)
    model = helper.make_model(helper.make_graph(nodes, name, graph_inputs, results, initializers), opset_imports=[helper.make_opsetid("", 16 if domain else opset)] + ([helper.make_opsetid(domain, opset)] if domain else []))
    model.ir_version = 10 if name in NEW else 8
    for info, known in zip(model.graph.output, types):
        if known:
            info.type.tensor_type.elem_type = known
    sets = os.path.join(folder, "test_data_set_0")
    os.makedirs(sets)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(model.SerializeToString())
    given = ", ".join(f"{key}={str(attributes[key])[:80]!r}" if name in LEARNED else f"{key}={attributes[key]}" for key in sorted(attributes)) + "; " + " ".join(
        f"x{i}:{x.data_type}{list(x.dims)}" if isinstance(x, onnx.TensorProto) else f"x{i}:{np.asarray(x).dtype}{list(np.shape(x))}"
        for i, x in enumerate(inputs) if x is not None)
    case = {"operator": name, "seed": seed, "given": given, "inputs": [], "outputs": outputs}
    for i, (label, value, tensor) in enumerate(data):
        with open(os.path.join(sets, f"input_{i}.pb"), "wb") as file:
            file.write(tensor.SerializeToString())
        value.tofile(os.path.join(folder, f"input_{i}.raw"))
        case["inputs"].append({"name": label, "type": str(value.dtype), "dims": list(value.shape), "file": f"input_{i}.raw"})
    with open(os.path.join(folder, "case.json"), "w") as file:
        json.dump(case, file)


def generate(folder, count, seed, only):
    names = [name for name in sorted(OPERATORS) if only in (None, name, name.rpartition(":")[0]) or (only == "new" and name in NEW)]
    for i in range(count):
        name = names[i % len(names)]
        write_case(os.path.join(folder, f"{i:05d}_{name}"), name, seed + i)


def collect(folder):
    refused = os.path.join(folder, "refused")
    os.makedirs(refused, exist_ok=True)
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        if not os.path.exists(os.path.join(path, "case.json")):
            continue
        with open(os.path.join(path, "result.json")) as file:
            result = json.load(file)
        with open(os.path.join(path, "case.json")) as file:
            case = json.load(file)
        if "error" in result:
            # ouro runs it too: an output that nothing equals tells what it takes from what it refuses.
            for i in range(case["outputs"]):
                with open(os.path.join(path, "test_data_set_0", f"output_{i}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(np.zeros((11, 13, 17, 1, 1, 1, 1), np.complex64), f"y{i}").SerializeToString())
            shutil.move(path, os.path.join(refused, entry))
            continue
        for i, output in enumerate(result["outputs"]):
            raw = np.fromfile(os.path.join(path, output["file"]), np.dtype(output["type"])).reshape(output["dims"])
            with open(os.path.join(path, "test_data_set_0", f"output_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(raw, f"y{i}").SerializeToString())


if __name__ == "__main__":
    if sys.argv[1] == "generate":
        generate(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else None)
    else:
        collect(sys.argv[2])
