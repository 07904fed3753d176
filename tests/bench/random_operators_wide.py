# SPDX-License-Identifier: Apache-2.0
"""Rows of random_operators.py beyond the usual ones: rarer operators, the forms that operators had in older opsets ("Name@opset"),
and changes that are made to some of the cases: other types, nothing along an axis, extremes of integers, attributes out of range."""
import numpy as np

F = np.float32
I64 = np.int64


def like(d, types=(np.float32, np.float64, np.int32)):
    return d.tensor(d.pick(types), d.shape())


def eye_like(d):
    return [d.tensor(d.pick([np.float32, np.int32, np.int64]), d.shape(2, 2))], {"k": d.number(-4, 4)}


def constant_of_shape(d):
    return [np.array(d.shape(0, 4), I64)], {}


def dropout(opset):
    def make(d):
        x = d.tensor(d.pick([np.float32, np.float64]), d.shape())
        if opset < 12:
            return [x], {"ratio": 0.5} if d.maybe() else {}, d.number(1, 2)
        return [x] + ([np.array(0.3, F)] if d.maybe() else []), {}, d.number(1, 2)
    return make


def cast_like(d):
    return [like(d, (np.float32, np.int32, np.bool_, np.uint8)), d.tensor(d.pick([np.float32, np.int64, np.float64, np.bool_]), [1])], {}


def image(d, low=1):
    return [d.number(1, 3), d.number(1, 4)] + [d.number(low, 6) for _ in range(d.number(1, 3))]


def global_lp(d):
    return [d.tensor(F, image(d), special=0)], {"p": d.number(1, 3)} if d.maybe() else {}


def mean_variance(d):
    x = d.tensor(F, [d.number(1, 3), d.number(1, 4), d.number(2, 5), d.number(2, 5)], special=0)
    return [x], {"axes": sorted(d.r.sample(range(4), d.number(1, 3)))} if d.maybe() else {}


def dynamic_quantize(d):
    return [d.tensor(F, d.shape(0, 4, empty=0), d.pick([-4, 1]), d.pick([4, -0.5]), 0)], {}, 3


def point(d, dtype):
    return np.array(d.number(0 if dtype == np.uint8 else -5, 20), dtype)


def integer_matmul(d):
    m, k, n = d.number(1, 7), d.number(1, 7), d.number(1, 7)
    left, right = (d.pick([np.uint8, np.int8]) for _ in range(2))
    out = left
    scale = lambda: np.array(d.r.uniform(0.005, 0.05), F)
    return [d.tensor(left, [m, k], -120, 120), scale(), point(d, left), d.tensor(right, [k, n], -120, 120), scale(), point(d, right), scale(), point(d, out)], {}


def windows(d, rank):
    kernel = [d.number(1, 3) for _ in range(rank)]
    attributes = {"kernel_shape": kernel, "strides": [d.number(1, 2) for _ in range(rank)]}
    if d.maybe():
        attributes["pads"] = [d.number(0, k - 1) for k in kernel * 2]
    if d.maybe(0.3):
        attributes["dilations"] = [d.number(1, 2) for _ in range(rank)]
    return kernel, attributes


def integer_convolution(quantized):
    def make(d):
        rank, group = 2, d.pick([1, 1, 2])
        kernel, attributes = windows(d, rank)
        channels, filters = group * d.number(1, 3), group * d.number(1, 3)
        attributes["group"] = group
        left = np.uint8
        right = d.pick([np.uint8, np.int8]) if quantized else np.uint8
        x = d.tensor(left, [d.number(1, 2), channels] + [d.number(5, 8) for _ in range(rank)], 0, 200)
        w = d.tensor(right, [filters, channels // group] + kernel, -100, 100)
        if not quantized:
            return [x, w, point(d, left)] + ([point(d, right)] if d.maybe() else []), attributes
        scale = lambda n=None: np.array(d.r.uniform(0.005, 0.05), F) if n is None else d.tensor(F, [n], 0.005, 0.05, 0)
        inputs = [x, scale(), point(d, left), w, scale(), point(d, right), scale(), point(d, left)]
        if d.maybe():
            inputs.append(d.tensor(np.int32, [filters], -500, 500))
        return inputs, attributes
    return make


def determinant(d):
    n = d.number(1, 5)
    return [d.tensor(F, d.shape(0, 2) + [n, n], special=0)], {}


def window_function(d):
    return [np.array(d.number(0, 9), d.pick([np.int32, np.int64]))], {"periodic": d.number(0, 1)} if d.maybe(0.7) else {}


def fourier(d):
    shape = [d.number(1, 2), d.number(1, 9)] + d.shape(0, 1, empty=0) + [d.number(1, 2)]
    axis = d.number(1, len(shape) - 2)
    one = d.number(0, 1) if shape[-1] == 1 else 0
    attributes = {"axis": axis, "onesided": one, "inverse": 0 if one else d.number(0, 1)}
    inputs = [d.tensor(F, shape, special=0)]
    if d.maybe(0.3):
        inputs.append(np.array(d.number(1, 12), I64))
    return inputs, attributes


def short_fourier(d):
    length, frame = d.number(8, 20), d.number(2, 8)
    inputs = [d.tensor(F, [d.number(1, 2), length, 1], special=0), np.array(d.number(1, 4), I64)]
    inputs += [d.tensor(F, [frame], special=0), None] if d.maybe() else [None, np.array(frame, I64)]
    return inputs, {"onesided": d.number(0, 1)}


def mel(d):
    bins, dft, rate = d.number(2, 8), d.pick([16, 32, 64]), d.pick([8000, 16000])
    return [np.array(bins, I64), np.array(dft, I64), np.array(rate, I64), np.array(d.number(0, 100), F), np.array(d.number(1000, 4000), F)], {}


def suppression(d):
    batches, boxes, classes = d.number(1, 2), d.number(1, 7), d.number(1, 3)
    inputs = [d.tensor(F, [batches, boxes, 4], 0, 3, 0), d.tensor(F, [batches, classes, boxes], 0, 1, 0)]
    if d.maybe(0.9):
        inputs.append(np.array(d.number(0, 4), I64))
        if d.maybe(0.7):
            inputs.append(np.array(d.r.uniform(0, 1), F))
            if d.maybe():
                inputs.append(np.array(d.r.uniform(0, 0.8), F))
    return inputs, {"center_point_box": d.number(0, 1)}


def loss(cross):
    def make(d):
        n, c = d.number(1, 4), d.number(1, 5)
        rest = d.shape(0, 2, empty=0)
        inputs = [d.tensor(F, [n, c] + rest, special=0), d.n.randint(0, c, [n] + rest).astype(d.pick([np.int32, np.int64]))]
        if d.maybe():
            inputs.append(d.tensor(F, [c], 0.1, 2, 0))
        attributes = {"reduction": d.pick(["none", "sum", "mean"])}
        if d.maybe(0.4):
            attributes["ignore_index"] = d.number(-1, c)
        return inputs, attributes, d.number(1, 2) if cross else 1
    return make


def upsample(opset):
    def make(d):
        x = d.tensor(F, [1, d.number(1, 2), d.number(1, 4), d.number(1, 4)], special=0)
        scales = [1.0, 1.0] + [d.pick([1.0, 2.0, 3.0, 1.5]) for _ in range(2)]
        mode = d.pick(["nearest", "linear"])
        return ([x], {"mode": mode, "scales": scales}) if opset == 7 else ([x, np.array(scales, F)], {"mode": mode})
    return make


def scatter(d):
    shape = d.shape(1, 3, empty=0)
    axis = d.axis(len(shape))
    index = np.argsort(d.n.rand(*shape), axis)
    return [d.tensor(F, shape), index.astype(I64), d.tensor(F, shape)], {"axis": axis}


def roi_align(opset):
    def make(d):
        n, c, h, w, rois = d.number(1, 2), d.number(1, 3), d.number(2, 7), d.number(2, 7), d.number(0, 3)
        corner, extent = d.n.uniform(0, 3, (rois, 2)), d.n.uniform(0.5, 3, (rois, 2))
        attributes = {"output_height": d.number(1, 4), "output_width": d.number(1, 4), "sampling_ratio": d.number(0, 3), "spatial_scale": d.pick([1.0, 0.5])}
        if d.maybe():
            attributes["mode"] = d.pick(["avg", "max"])
        if opset == 16 and d.maybe():
            attributes["coordinate_transformation_mode"] = d.pick(["half_pixel", "output_half_pixel"])
        return [d.tensor(F, [n, c, h, w], special=0), np.concatenate([corner, corner + extent], 1).astype(F), d.n.randint(0, n, rois).astype(I64)], attributes
    return make


def roi_pool(d):
    n, rois = d.number(1, 2), d.number(1, 3)
    corner = d.n.randint(0, 3, (rois, 2))
    boxes = np.concatenate([d.n.randint(0, n, (rois, 1)), corner, corner + d.n.randint(0, 4, (rois, 2))], 1)
    return [d.tensor(F, [n, 2, 6, 7], special=0), boxes.astype(F)], {"pooled_shape": [d.number(1, 3), d.number(1, 3)], "spatial_scale": d.pick([1.0, 0.5])}


def unpool(d):
    h, w, k = d.number(1, 3), d.number(1, 3), 2
    index = [y * k * w * k + x * k + d.number(0, 1) for y in range(h) for x in range(w)]
    return [d.tensor(F, [1, 1, h, w], special=0), np.array(index, I64).reshape(1, 1, h, w)], {"kernel_shape": [k, k], "strides": [k, k]}


def n_grams(d):
    attributes = {"mode": d.pick(["TF", "IDF", "TFIDF"]), "min_gram_length": 1, "max_gram_length": d.number(1, 2), "max_skip_count": d.number(0, 3),
                  "ngram_counts": [0, 3], "ngram_indexes": [0, 2, 1, 4, 3], "pool_int64s": [1, 2, 3, 1, 2, 2, 3]}
    if d.maybe():
        attributes["weights"] = [1.0, 2.0, 0.5, 3.0, 1.5]
    return [d.tensor(d.pick([np.int32, np.int64]), [d.number(1, 8)] if d.maybe() else [d.number(1, 3), d.number(1, 8)], 1, 4)], attributes


def old_reduction(d):
    shape = d.shape(1, 5, empty=0)
    attributes = {"keepdims": d.number(0, 1)}
    if d.maybe(0.8):
        attributes["axes"] = [a % len(shape) for a in d.axes(len(shape))]
    return [d.tensor(d.pick([np.float32, np.int32]), shape, 1, 4, 0)], attributes


def old_squeeze(d):
    shape = d.shape(1, 3)
    at = d.number(0, len(shape))
    shape.insert(at, 1)
    return [d.tensor(F, shape)], {"axes": [at - (len(shape) if d.maybe() else 0)]}


def old_unsqueeze(d):
    shape = d.shape(0, 3)
    return [d.tensor(F, shape)], {"axes": sorted(d.r.sample(range(len(shape) + 2), 2))}


def old_slice(d):
    shape = d.shape(1, 4)
    axes = sorted(d.r.sample(range(len(shape)), d.number(1, len(shape))))
    attributes = {"starts": [d.number(-6, 6) for _ in axes], "ends": [d.number(-6, 9) for _ in axes], "axes": axes}
    return [d.tensor(d.pick([np.float32, np.int32, np.bool_]), shape)], attributes


def old_split(d):
    shape = d.shape(1, 4, empty=0)
    axis, sizes = d.axis(len(shape)), [d.number(0, 3) for _ in range(d.number(1, 3))]
    if d.maybe(0.4):
        shape[axis] = len(sizes) * d.number(1, 3)
        return [d.tensor(F, shape)], {"axis": axis}, len(sizes)
    shape[axis] = sum(sizes)
    return [d.tensor(F, shape)], {"axis": axis, "split": sizes}, len(sizes)


def old_pad(d):
    shape = d.shape(1, 4, empty=0)
    mode = d.pick(["constant", "reflect", "edge"])
    pads = [d.number(0, shape[i % len(shape)] - 1) if mode == "reflect" else d.number(0, 2) for i in range(2 * len(shape))]
    return [d.tensor(F, shape)], {"mode": mode, "pads": pads, "value": 1.5}


def old_clip(d):
    return [d.tensor(F, d.shape())], {name: value for name, value in (("min", -1.0), ("max", 2.0)) if d.maybe(0.7)}


def old_resize(d):
    x = d.tensor(F, [1, 2, d.number(1, 5), d.number(1, 5)], special=0)
    return [x, np.array([1, 1, d.pick([1.0, 2.0, 3.0]), d.pick([1.0, 2.0, 3.0])], F)], {"mode": d.pick(["nearest", "linear"])}


def old_along(d):
    shape = d.shape(1, 4, empty=0)
    return [d.tensor(F, shape, special=0)], {"axis": d.number(0, len(shape) - 1)} if d.maybe(0.8) else {}


def old_batch(d):
    shape = image(d)
    return [d.tensor(F, shape, special=0)] + [d.tensor(F, [shape[1]], 0.5, 2, 0) for _ in range(4)], {"epsilon": 0.01}


def old_pair(types):
    def make(d):
        dtype, shape = d.pick(types), d.shape()
        return [d.tensor(dtype, shape), d.tensor(dtype, d.broadcast(shape))], {}
    return make


def old_pool(d):
    rank = d.number(1, 3)
    kernel = [d.number(1, 3) for _ in range(rank)]
    attributes = {"kernel_shape": kernel, "strides": [d.number(1, 3) for _ in range(rank)], "pads": [d.number(0, k - 1) for k in kernel * 2]}
    return [d.tensor(F, [1, d.number(1, 3)] + [d.number(3, 8) for _ in range(rank)], special=0)], attributes


def pool_indices(d):
    inputs, attributes = old_pool(d)
    attributes["storage_order"] = d.number(0, 1)
    return [inputs[0].astype(d.pick([np.float32, np.float64]))], attributes, 2


def old_top_k(d):
    shape = d.shape(1, 3, empty=0)
    axis = d.axis(len(shape))
    return [d.tensor(F, shape, special=0), np.array([d.number(0, shape[axis])], I64)], {"axis": axis}, 2


def old_lstm(d):
    steps, batch, n, h, k = d.number(1, 4), d.number(1, 3), d.number(1, 4), d.number(1, 4), d.number(1, 2)
    draw = lambda *shape: d.tensor(F, shape, -1, 1, 0)
    inputs = [draw(steps, batch, n), draw(k, 4 * h, n), draw(k, 4 * h, h), draw(k, 8 * h), None, draw(k, batch, h), draw(k, batch, h), draw(k, 3 * h)]
    attributes = {"hidden_size": h, "direction": "bidirectional" if k == 2 else d.pick(["forward", "reverse"])}
    if d.maybe():
        attributes["clip"] = d.r.uniform(0.2, 2)
    if d.maybe():
        attributes["activations"] = [d.pick(["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign"]) for _ in range(3 * k)]
    return inputs, attributes, 3


WIDE = {
    "EyeLike": (9, eye_like), "ConstantOfShape": (9, constant_of_shape), "Dropout@13": (13, dropout(13)), "Dropout@10": (10, dropout(10)),
    "Dropout@7": (7, dropout(7)), "CastLike": (15, cast_like), "GlobalLpPool": (13, global_lp), "MeanVarianceNormalization": (13, mean_variance),
    "DynamicQuantizeLinear": (11, dynamic_quantize), "QLinearMatMul": (13, integer_matmul), "ConvInteger": (10, integer_convolution(False)),
    "QLinearConv": (10, integer_convolution(True)), "Det": (11, determinant), "HannWindow": (17, window_function), "HammingWindow": (17, window_function),
    "BlackmanWindow": (17, window_function), "DFT": (17, fourier), "STFT": (17, short_fourier), "MelWeightMatrix": (17, mel),
    "NonMaxSuppression": (11, suppression), "NegativeLogLikelihoodLoss": (13, loss(False)), "SoftmaxCrossEntropyLoss": (13, loss(True)),
    "Upsample@7": (7, upsample(7)), "Upsample@9": (9, upsample(9)), "Scatter@9": (9, scatter), "RoiAlign@10": (10, roi_align(10)), "RoiAlign": (16, roi_align(16)),
    "MaxRoiPool": (13, roi_pool), "MaxUnpool": (11, unpool), "TfIdfVectorizer": (9, n_grams), "LSTM@7": (7, old_lstm),
    **{f"{name}@7": (7, old_reduction) for name in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp"]},
    "Squeeze@11": (11, old_squeeze), "Unsqueeze@11": (11, old_unsqueeze), "Slice@9": (9, old_slice), "Split@11": (11, old_split), "Pad@10": (10, old_pad),
    "Clip@10": (10, old_clip), "Resize@10": (10, old_resize), "TopK@10": (10, old_top_k),
    **{f"{name}@{opset}": (opset, old_along) for name in ["Softmax", "LogSoftmax", "Hardmax", "Flatten"] for opset in (7, 11)},
    "BatchNormalization@7": (7, old_batch), "BatchNormalization@9": (9, old_batch),
    **{f"{name}@7": (7, old_pair([np.float32, np.int32, np.int64])) for name in ["Add", "Sub", "Mul"]},
    **{f"{name}@7": (7, old_pair([np.float32])) for name in ["Less", "Greater", "Pow"]},
    **{f"{name}@8": (8, old_pair([np.float32])) for name in ["Max", "Min", "Sum", "Mean"]},
    "MaxPool@8": (8, pool_indices), "AveragePool@7": (7, old_pool), "MaxPool@7": (7, old_pool),
}

RETYPED = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Gemm", "MatMul", "BatchNormalization", "Softmax", "LogSoftmax",
           "InstanceNormalization", "LayerNormalization", "Resize", "DepthToSpace", "SpaceToDepth", "Sin", "Cos", "Tan", "Sinh", "Softplus", "Softsign", "Round", "Elu",
           "LeakyRelu", "Selu", "HardSigmoid", "HardSwish", "ThresholdedRelu", "PRelu", "Clip", "ReduceMean", "ReduceMax", "ReduceSum", "GRU", "LSTM", "RNN",
           "ReverseSequence", "Trilu", "Einsum", "TopK", "CumSum", "LRN", "LpPool", "MeanVarianceNormalization", "Det", "Celu", "Pad", "ScatterElements"}
EXTREMES = {"Abs", "Neg", "Sign", "Identity", "Relu", "Add", "Sub", "Mul", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Max", "Min", "Clip", "Where",
            "Slice", "Concat", "Gather", "Transpose", "Reshape", "TopK", "ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "NonZero", "Unique", "CumSum", "BitShift", "Div", "Mod",
            "Pad", "Tile", "Split", "ScatterElements", "MatMul", "ReduceSum"}


def change(d, name, inputs, attributes):
    """Some of the cases become unusual: each change may well make the case one that both refuse."""
    inputs = list(inputs)
    name = name.split("@")[0]
    if name in RETYPED and d.maybe(0.12):
        to = d.pick([np.float64, np.float16, np.float16])
        inputs = [x.astype(to) if isinstance(x, np.ndarray) and x.dtype == F else x for x in inputs]
    if name in EXTREMES and d.maybe(0.12):
        x = inputs[0]
        if isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.integer) and x.size:
            bounds = np.iinfo(x.dtype)
            x = x.copy()
            x.reshape(-1)[d.number(0, x.size - 1)] = d.pick([bounds.min, bounds.max])
            inputs[0] = x
    if d.maybe(0.06):
        which = d.number(0, len(inputs) - 1)
        x = inputs[which]
        if isinstance(x, np.ndarray) and x.ndim:
            axis = d.number(0, x.ndim - 1)
            inputs[which] = np.ascontiguousarray(np.take(x, range(min(x.shape[axis], d.pick([0, 0, 1]))), axis))
    if attributes and d.maybe(0.06):
        key = d.pick(sorted(attributes))
        value = attributes[key]
        attributes = dict(attributes)
        if isinstance(value, bool) or isinstance(value, str):
            attributes[key] = value
        elif isinstance(value, int):
            attributes[key] = value + d.pick([-7, -2, -1, 1, 2, 7, 1 << 31, -(1 << 31)])
        elif isinstance(value, list) and value and isinstance(value[0], int):
            changed = list(value)
            changed[d.number(0, len(changed) - 1)] += d.pick([-7, -1, 1, 3, 1 << 31])
            attributes[key] = changed if d.maybe(0.7) else changed[:-1]
    if len(inputs) > 1 and d.maybe(0.02):
        inputs.pop()
    return inputs, attributes
