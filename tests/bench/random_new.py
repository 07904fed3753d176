# SPDX-License-Identifier: Apache-2.0
"""Rows of random_operators.py of what opset 18 and later brought (":Name" or ":Name@VERSION"): new operators, new forms of old
ones, small types. An input that is a TensorProto is a constant of the model; the fourth part of a case is the nodes that follow each
output."""
import numpy as np
from onnx import TensorProto

F = np.float32
I64 = np.int64
REALS = [F, F, F, np.float64, np.float16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOAT8, INT4, UINT4 = (17, 18, 19, 20), 22, 21


def constant(kind, shape, raw):
    tensor = TensorProto()
    tensor.data_type = kind
    tensor.dims.extend(shape)
    tensor.raw_data = bytes(raw)
    return tensor


def attention(d):
    b, groups, h, w, s, t = d.number(1, 2), d.number(1, 3), d.pick([4, 8, 16]), d.pick([4, 8]), d.number(1, 6), d.number(1, 7)
    heads, past = groups * d.number(1, 3), d.pick([0, 0, 0, d.number(1, 5)])
    dtype = d.pick([F, F, F, np.float16])
    flat = d.maybe()
    def rows(n, r, size): return d.tensor(dtype, [b, r, n * size] if flat else [b, n, r, size], -1, 1, special=0)
    inputs, attributes = [rows(heads, s, h), rows(groups, t, h), rows(groups, t, w)], {}
    if flat:
        attributes.update({"q_num_heads": heads, "kv_num_heads": groups})
    mask = None
    if d.maybe(0.5):
        shape = d.pick([[s, t + past], [1, 1, s, t + past], [b, heads, s, t + past], [b, 1, s, t + past]])
        mask = d.tensor(dtype, shape, -2, 2, special=0)
        if d.maybe():
            mask = d.n.rand(*shape) < 0.7
            mask[..., 0] = True
    inputs.append(mask)
    if past:
        inputs += [d.tensor(dtype, [b, groups, past, size], -1, 1, special=0) for size in (h, w)]
    if d.maybe(0.3):
        attributes["scale"] = d.r.uniform(0.1, 1)
    if d.maybe(0.3):
        attributes["softcap"] = d.r.uniform(1, 4)
    if d.maybe(0.3):
        attributes["is_causal"] = 1
    outputs = 3 if past or d.maybe(0.2) else 1
    if d.maybe(0.3):
        attributes["qk_matmul_output_mode"] = d.number(0, 3)
        outputs = 4
    return inputs, attributes, outputs


def rotary(d):
    b, n, s, h = d.number(1, 3), d.number(1, 4), d.number(1, 5), d.pick([4, 8, 16])
    flat, ids, part = d.maybe(), d.maybe(), d.pick([0, 0, h // 2])
    dtype, half, most = d.pick([F, F, np.float16]), (part or h) // 2, s + d.number(0, 4)
    x = d.tensor(dtype, [b, s, n * h] if flat else [b, n, s, h], special=0)
    caches = [d.tensor(dtype, [most, half] if ids else [b, s, half], -1, 1, special=0) for _ in range(2)]
    attributes = {"interleaved": d.number(0, 1)}
    if flat:
        attributes["num_heads"] = n
    if part:
        attributes["rotary_embedding_dim"] = part
    return [x] + caches + ([d.n.randint(0, most, [b, s]).astype(I64)] if ids else []), attributes


def rms(d):
    shape = d.shape(1, 4, empty=0)
    axis = d.axis(len(shape))
    dtype = d.pick(REALS)
    return [d.tensor(dtype, shape, special=0), d.tensor(dtype, d.pick([shape[axis:], shape[-1:]]) if axis else shape, special=0)], {"axis": axis, "epsilon": d.pick([1e-5, 1e-3])}


def group_norm(d):
    groups = d.number(1, 3)
    channels = groups * d.number(1, 3)
    shape = [d.number(1, 3), channels] + [d.number(1, 5) for _ in range(d.number(1, 3))]
    dtype = d.pick([F, F, np.float64, np.float16])
    return [d.tensor(dtype, shape, special=0)] + [d.tensor(dtype, [channels], special=0) for _ in range(2)], {"num_groups": groups}


def unary(types, low=-4, high=4, **attributes):
    def make(d):
        return [d.tensor(d.pick(types), d.shape(), low, high)], {k: v(d) for k, v in attributes.items() if d.maybe(0.7)}
    return make


def bitwise(d):
    dtype, shape = d.pick(INTEGERS), d.shape()
    pair = [d.tensor(dtype, shape, -100, 100), d.tensor(dtype, d.broadcast(shape), -100, 100)]
    return (pair if d.maybe() else pair[::-1]), {}


def tensor_scatter(d):
    rank = d.number(2, 4)
    shape = [d.number(1, 4) for _ in range(rank)]
    axis = d.number(1, rank - 1)
    new = list(shape)
    new[axis] = d.number(1, shape[axis])
    dtype, circular = d.pick([F, np.float16, np.int32, np.uint8]), d.maybe(0.4)
    last = shape[axis] - 1 if circular else shape[axis] - new[axis]
    inputs = [d.tensor(dtype, shape), d.tensor(dtype, new)]
    if d.maybe(0.8):
        inputs.append(d.n.randint(0, last + 1, shape[0]).astype(I64))
    return inputs, {"axis": axis - rank if d.maybe(0.3) else axis, "mode": "circular" if circular else "linear"}


def center_crop_pad(d):
    shape = d.shape(1, 4, empty=0)
    axes = d.axes(len(shape)) if d.maybe() else None
    count = len(axes) if axes else len(shape)
    return [d.tensor(d.pick([F, np.int32, np.uint8]), shape), d.n.randint(1, 7, count).astype(I64)], {"axes": axes} if axes else {}


def col2im(d):
    rank = d.number(1, 3)
    block, strides, dilations = ([d.number(1, 3) for _ in range(rank)] for _ in range(3))
    pads = [d.number(0, 1) for _ in range(2 * rank)]
    image = [d.number(dilations[i] * (block[i] - 1) + 1, 7) if dilations[i] * (block[i] - 1) < 7 else 7 for i in range(rank)]
    columns = 1
    for i in range(rank):
        columns *= (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
    shape = [d.number(1, 2), d.number(1, 3) * int(np.prod(block)), max(columns, 1)]
    return [d.tensor(F, shape, special=0), np.array(image, I64), np.array(block, I64)], {"strides": strides, "dilations": dilations, "pads": pads}


def deform(d):
    kernel, size, groups, offsets = [d.number(1, 3), d.number(1, 3)], [d.number(3, 7), d.number(3, 7)], d.number(1, 2), d.number(1, 2)
    pads, strides = [d.number(0, 1) for _ in range(4)], [d.number(1, 2), d.number(1, 2)]
    channels, maps = groups * offsets * d.number(1, 2), groups * d.number(1, 2)
    out = [(size[i] + pads[i] + pads[2 + i] - kernel[i]) // strides[i] + 1 for i in range(2)]
    b = d.number(1, 2)
    inputs = [d.tensor(F, [b, channels] + size, special=0), d.tensor(F, [maps, channels // groups] + kernel, special=0),
              d.tensor(F, [b, offsets * kernel[0] * kernel[1] * 2] + out, -1, 1, special=0), d.tensor(F, [maps], special=0) if d.maybe() else None]
    if d.maybe():
        inputs.append(d.tensor(F, [b, offsets * kernel[0] * kernel[1]] + out, 0, 1, special=0))
    return inputs, {"group": groups, "offset_group": offsets, "pads": pads, "strides": strides, "kernel_shape": kernel}


def affine_grid(d):
    rank, b = d.number(2, 3), d.number(1, 3)
    return [d.tensor(d.pick([F, np.float64]), [b, rank, rank + 1], special=0), np.array([b, d.number(1, 3)] + [d.number(2, 5) for _ in range(rank)], I64)], {"align_corners": d.number(0, 1)}


def split(d):
    shape = d.shape(1, 4, empty=0)
    axis = d.axis(len(shape))
    parts = d.number(1, shape[axis])
    step = -(-shape[axis] // parts)
    if step * (parts - 1) >= shape[axis]:
        parts = -(-shape[axis] // step)
    return [d.tensor(d.pick([F, I64, np.uint8]), shape)], {"axis": axis, "num_outputs": parts}, parts


def pad(d):
    shape = [d.number(2, 5) for _ in range(d.number(1, 4))]
    mode = d.pick(["constant", "reflect", "edge", "wrap"])
    axes = d.axes(len(shape)) if d.maybe(0.4) else None
    count = len(axes) if axes else len(shape)
    low = -1 if mode == "constant" else 0
    inputs = [d.tensor(d.pick([F, np.int32, np.uint8]), shape), d.n.randint(low, 2, 2 * count).astype(I64)]
    if axes or (mode == "constant" and d.maybe()):
        inputs.append(np.array(1, inputs[0].dtype) if mode == "constant" else None)
    if axes:
        inputs.append(np.array(axes, I64))
    return inputs, {"mode": mode}


def resize(d):
    rank = d.number(1, 3)
    shape = [d.number(1, 2), d.number(1, 3)] + [d.number(2, 7) for _ in range(rank)]
    mode = d.pick(["nearest", "linear", "cubic"]) if rank == 2 else d.pick(["nearest", "linear"])
    attributes = {"mode": mode, "coordinate_transformation_mode": d.pick(["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"])}
    if mode == "nearest":
        attributes["nearest_mode"] = d.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    elif d.maybe(0.5) and rank == 2:
        attributes["antialias"] = 1
    if mode == "cubic":
        attributes["cubic_coeff_a"] = d.pick([-0.5, -0.75])
        attributes["exclude_outside"] = d.number(0, 1)
    axes = list(range(2, 2 + rank))
    attributes["axes"] = axes
    x = d.tensor(F, shape, special=0)
    if d.maybe():
        return [x, None, np.array([d.pick([0.5, 0.6, 1.0, 1.5, 2.0, 3.0]) for _ in axes], F)], attributes
    if d.maybe(0.4):
        attributes["keep_aspect_ratio_policy"] = d.pick(["stretch", "not_larger", "not_smaller"])
    return [x, None, None, np.array([d.number(1, 9) for _ in axes], I64)], attributes


def reduce(types):
    def make(d):
        shape = d.shape(0, 4)
        inputs = [d.tensor(d.pick(types), shape)]
        if shape and d.maybe(0.7):
            inputs.append(np.array(d.axes(len(shape)), I64))
        attributes = {"keepdims": d.number(0, 1)} if d.maybe() else {}
        if d.maybe(0.2):
            attributes["noop_with_empty_axes"] = 1
        return inputs, attributes
    return make


def cast_small(d):
    """To a small type and back to float."""
    kind = d.pick(list(FLOAT8) * 2 + [INT4, UINT4, 16])
    attributes = {"to": kind}
    if kind in FLOAT8:
        attributes["saturate"] = d.number(0, 1)
    low, high = {INT4: (-8, 7), UINT4: (0, 15)}.get(kind, (-600, 600) if d.maybe() else (-4, 4))
    return [d.tensor(d.pick([F, F, np.float16]), d.shape(), low, high, special=0.08 if kind not in (INT4, UINT4) else 0)], attributes, 1, [("Cast", {"to": 1})]


def scales(d, shape, dtype=F):
    return d.n.uniform(0.02, 0.5, shape).astype(dtype)


def quantize_small(d):
    shape = [d.number(1, 5) for _ in range(d.number(1, 3))]
    kind, axis, form = d.pick([INT4, UINT4, 2, 3, 4, 5, 17, 19]), d.number(0, len(shape) - 1), d.number(0, 2)
    attributes = {"output_dtype": kind}
    if form == 0:
        scale = scales(d, ())
    elif form == 1:
        scale = scales(d, (shape[axis],))
        attributes["axis"] = axis
    else:
        block = d.number(1, 3)
        shape[axis] = block * d.number(1, 3)
        scale = scales(d, [n // block if i == axis else n for i, n in enumerate(shape)])
        attributes.update({"axis": axis, "block_size": block})
    return [d.tensor(F, shape, special=0), scale], attributes, 1, [("Cast", {"to": 1})]


def dequantize_small(d):
    shape = [d.number(1, 5) for _ in range(d.number(1, 3))]
    kind, axis, form = d.pick([INT4, UINT4, INT4, 17, 19]), d.number(0, len(shape) - 1), d.number(0, 2)
    attributes, block = {}, 1
    if form == 2:
        block = d.number(1, 3)
        shape[axis] = block * d.number(1, 3)
        attributes["block_size"] = block
    if form:
        attributes["axis"] = axis
    scale_shape = [] if form == 0 else [shape[axis]] if form == 1 else [n // block if i == axis else n for i, n in enumerate(shape)]
    def raw(extents):
        count = int(np.prod(extents))
        if kind in FLOAT8:
            return constant(kind, extents, d.n.randint(0, 0x78, count).astype(np.uint8))
        data = d.n.randint(0, 256, (count + 1) // 2).astype(np.uint8)
        if count % 2:
            data[-1] &= 15
        return constant(kind, extents, data)
    inputs = [raw(shape), scales(d, scale_shape)]
    if d.maybe() and kind not in FLOAT8:
        inputs.append(raw(scale_shape))
    return inputs, attributes


def average_pool(d):
    rank = d.number(1, 3)
    shape = [d.number(1, 2), d.number(1, 3)] + [d.number(4, 8) for _ in range(rank)]
    attributes = {"kernel_shape": [d.number(1, 3) for _ in range(rank)], "strides": [d.number(1, 3) for _ in range(rank)], "dilations": [d.number(1, 2) for _ in range(rank)],
                  "ceil_mode": d.number(0, 1), "count_include_pad": d.number(0, 1)}
    if d.maybe():
        attributes["pads"] = [d.number(0, k - 1) for k in attributes["kernel_shape"]] * 2
    return [d.tensor(F, shape, special=0)], attributes


def lp_pool(d):
    inputs, attributes = average_pool(d)
    attributes.pop("count_include_pad")
    return inputs, {**attributes, "p": d.number(1, 3)}


def grid_sample(d):
    rank, b = d.number(2, 3), d.number(1, 2)
    mode = d.pick(["linear", "nearest", "cubic"]) if rank == 2 else d.pick(["linear", "nearest"])
    return [d.tensor(F, [b, d.number(1, 2)] + [d.number(1, 5) for _ in range(rank)], special=0), d.tensor(F, [b] + [d.number(1, 4) for _ in range(rank)] + [rank], -1.2, 1.2, special=0)], {
        "mode": mode, "padding_mode": d.pick(["zeros", "border", "reflection"]), "align_corners": d.number(0, 1)}


def dft(d):
    shape = d.shape(1, 3, empty=0) + [d.pick([1, 2])]
    inputs = [d.tensor(d.pick([F, np.float64]), shape, special=0)]
    axis = d.number(0, len(shape) - 2)
    inputs.append(np.array(d.number(1, 7), I64) if d.maybe(0.4) else None)
    inputs.append(np.array(axis, I64))
    attributes = {}
    if shape[-1] == 1 and d.maybe():
        attributes["onesided"] = 1
    elif shape[-1] == 2 and d.maybe():
        attributes["inverse"] = 1
    return inputs, attributes


def scatter_elements(d):
    shape = d.shape(1, 3, empty=0)
    axis = d.axis(len(shape))
    reduction = d.pick(["none", "add", "mul", "max", "min"])
    extents = [d.number(1, n) for n in shape]
    if reduction == "none":  # no position twice
        extents[axis] = min(extents[axis], shape[axis])
        indices = np.zeros(extents, I64)
        order = d.n.permutation(shape[axis])[:extents[axis]]
        indices += order.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    else:
        indices = d.n.randint(-shape[axis], shape[axis], extents).astype(I64)
    dtype = d.pick([F, np.float64, np.int32, I64, np.float16])
    return [d.tensor(dtype, shape, special=0), indices, d.tensor(dtype, extents, special=0)], {"axis": axis, "reduction": reduction}


def scatter_nd(d):
    shape = d.shape(1, 3, empty=0)
    depth = d.number(1, len(shape))
    reduction, count = d.pick(["add", "mul", "max", "min"]), d.number(1, 4)
    indices = np.stack([d.n.randint(-n, n, count) for n in shape[:depth]], -1).astype(I64)
    dtype = d.pick([F, np.float64, np.int32, I64])
    return [d.tensor(dtype, shape, special=0), indices, d.tensor(dtype, [count] + shape[depth:], special=0)], {"reduction": reduction}


def cumulative(d):
    shape = d.shape(1, 3)
    return [d.tensor(d.pick([F, np.float64, np.int32, I64]), shape, -2, 2), np.array(d.axis(len(shape)), d.pick([I64, np.int32]))], {"exclusive": d.number(0, 1), "reverse": d.number(0, 1)}


def layer_norm(d):
    shape = d.shape(1, 4, empty=0)
    axis = d.axis(len(shape))
    return [d.tensor(F, shape, special=0)] + [d.tensor(F, shape[axis:], special=0) for _ in range(d.number(1, 2))], {"axis": axis}


def is_inf(d):
    return [d.tensor(d.pick([F, np.float64, np.float16]), d.shape(), special=0.6)], {k: d.number(0, 1) for k in ("detect_negative", "detect_positive") if d.maybe()}


def sized(d):
    return [np.array(d.shape(1, 3), I64)], {}


ROWS = {
    "Attention": (23, attention), "Attention@24": (24, attention), "RotaryEmbedding": (23, rotary), "RMSNormalization": (23, rms), "GroupNormalization": (21, group_norm), "LayerNormalization": (17, layer_norm),
    "Gelu": (20, unary(REALS, approximate=lambda d: d.pick(["none", "tanh"]))), "Mish": (18, unary(REALS)), "Swish": (24, unary(REALS, alpha=lambda d: d.r.uniform(0.2, 2))),
    "TensorScatter": (24, tensor_scatter), "CenterCropPad": (18, center_crop_pad), "Col2Im": (18, col2im), "DeformConv": (19, deform), "AffineGrid": (20, affine_grid),
    "BitwiseAnd": (18, bitwise), "BitwiseOr": (18, bitwise), "BitwiseXor": (18, bitwise), "BitwiseNot": (18, unary(INTEGERS, -100, 100)),
    "Split": (18, split), "Pad": (19, pad), "Resize": (19, resize), "ReduceMax": (20, reduce([F, np.float64, np.bool_, np.int32, np.uint8])), "ReduceMin": (20, reduce([F, np.float64, np.bool_, np.int32, np.uint8])),
    "ReduceMean": (18, reduce([F, np.float64])), "ReduceL2": (18, reduce([F])), "ReduceLogSumExp": (18, reduce([F, np.float64])), "ReduceProd": (18, reduce([F, np.int32])), "ReduceSumSquare": (18, reduce([F, np.int32])),
    "Cast": (21, cast_small), "QuantizeLinear": (21, quantize_small), "DequantizeLinear": (21, dequantize_small), "AveragePool": (19, average_pool), "AveragePool@22": (22, average_pool), "LpPool": (18, lp_pool),
    "GridSample": (20, grid_sample), "DFT": (20, dft), "ScatterElements": (18, scatter_elements), "ScatterND": (18, scatter_nd), "CumProd": (26, cumulative), "CumSum": (14, cumulative), "IsInf": (20, is_inf), "Size": (23, unary([F, I64])),
    "Elu": (22, unary([F, np.float64, np.float16])), "HardSwish": (22, unary(REALS)), "Softplus": (22, unary(REALS)), "Selu": (22, unary(REALS)), "ThresholdedRelu": (22, unary(REALS)), "Acosh": (22, unary(REALS, 1, 5)), "Round": (22, unary(REALS)),
}
NEW = {":" + name: row for name, row in ROWS.items()}
# What ONNX Runtime wants as constants.
NEW_CONSTANTS = {":Pad", ":Resize", ":CenterCropPad", ":Col2Im", ":DFT", ":ReduceMax", ":ReduceMean"}
