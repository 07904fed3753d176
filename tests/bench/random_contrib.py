# SPDX-License-Identifier: Apache-2.0
"""Rows of random_operators.py of the domain com.microsoft ("com.microsoft:Name")."""
import numpy as np

F = np.float32
I64 = np.int64
BYTES = [np.uint8, np.int8]


def byte(d, dtype, shape):
    bounds = np.iinfo(dtype)
    return np.asarray(d.n.randint(bounds.min, bounds.max + 1, tuple(shape))).astype(dtype)


def scale(d, low=0.01, high=0.1):
    return np.array(d.n.uniform(low, high), F)


def zero(d, dtype):
    return byte(d, dtype, ())


def gelu(d):
    return [d.tensor(F, d.shape(1))], {}


def bias_gelu(optional):
    def make(d):
        x = d.tensor(F, d.shape(1, empty=0))
        return [x] + ([] if optional and d.maybe(0.4) else [d.tensor(F, x.shape[-1:])]), {}
    return make


def quick_gelu(d):
    return [d.tensor(F, d.shape(1))], {"alpha": d.r.uniform(0.1, 2)} if d.maybe() else {}


def fused_convolution(d):
    channels, maps = d.number(1, 4), d.number(1, 4)
    size, kernel = d.number(3, 7), d.number(1, 3)
    x, w = d.tensor(F, [d.number(1, 2), channels, size, size], special=0), d.tensor(F, [maps, channels, kernel, kernel], special=0)
    inputs = [x, w, d.tensor(F, [maps], special=0) if d.maybe() else None]
    if d.maybe(0.4):
        inputs.append(d.tensor(F, [x.shape[0], maps, size - kernel + 1, size - kernel + 1], special=0))
    name = d.pick(["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"])
    parameters = {"LeakyRelu": [d.r.uniform(0, 1)], "Clip": [-1.0, 1.5], "HardSigmoid": [0.3, 0.4]}.get(name)
    return inputs, {"activation": name, **({"activation_params": parameters} if parameters else {})}


def fused_gemm(d):
    m, k, n = d.number(1, 5), d.number(1, 6), d.number(1, 5)
    ta, tb = d.number(0, 1), d.number(0, 1)
    inputs = [d.tensor(F, [k, m] if ta else [m, k], special=0), d.tensor(F, [n, k] if tb else [k, n], special=0)]
    if d.maybe():
        inputs.append(d.tensor(F, d.pick([[n], [m, n], [1, n], [m, 1]]), special=0))
    name = d.pick(["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
    return inputs, {"transA": ta, "transB": tb, "activation": name, **({"activation_alpha": 0.3} if name == "LeakyRelu" else {}),
                    **({"alpha": 0.5, "beta": 2.0} if d.maybe() else {})}


def fused_matmul(d):
    rank = d.number(2, 4)
    m, k, n = d.number(1, 5), d.number(1, 6), d.number(1, 5)
    stack = [d.number(1, 3) for _ in range(rank - 2)]
    attributes, pair = {}, []
    for letter, rows, columns in ("A", m, k), ("B", k, n):
        shape = stack + [rows, columns]
        if d.maybe(0.4):
            attributes["trans" + letter] = 1
            shape[-1], shape[-2] = shape[-2], shape[-1]
        if d.maybe(0.3) and rank > 2:
            attributes["transBatch" + letter] = 1
            shape = [shape[-2]] + shape[:-2] + [shape[-1]]
        pair.append(d.tensor(F, shape, special=0))
    if d.maybe():
        attributes["alpha"] = d.r.uniform(0.1, 2)
    return pair, attributes


def skip_normalization(simple):
    def make(d):
        b, s, h = d.number(1, 3), d.number(1, 5), d.number(1, 24)
        x = d.tensor(F, [b, s, h], special=0)
        skip = d.tensor(F, [b, s, h] if simple else d.pick([[b, s, h], [b, s, h], [1, s, h], [s, h]]), special=0)
        inputs = [x, skip, d.tensor(F, [h], special=0)]
        if not simple:
            inputs.append(d.tensor(F, [h], special=0) if d.maybe(0.7) else None)
        if d.maybe():
            inputs.append(d.tensor(F, [h], special=0))
        return inputs, {"epsilon": 1e-5} if d.maybe() else {"epsilon": 1e-3}, d.pick([1, 1, 4]) if not simple else 1
    return make


def simplified(d):
    shape = d.shape(1, 4, empty=0)
    axis = d.number(-len(shape), len(shape) - 1)
    return [d.tensor(F, shape, special=0), d.tensor(F, shape[axis:], special=0)], {"axis": axis, "epsilon": 1e-5}


def embedding(d):
    b, s, h, words = d.number(1, 3), d.number(1, 6), d.number(1, 16), d.number(1, 9)
    ids = d.n.randint(0, words, (b, s)).astype(np.int32)
    segments = d.n.randint(0, 2, (b, s)).astype(np.int32) if d.maybe(0.7) else None
    mask = (np.arange(s)[None, :] < d.n.randint(0, s + 1, (b, 1))).astype(np.int32) if d.maybe() else None
    inputs = [ids, segments, d.tensor(F, [words, h], special=0), d.tensor(F, [s + d.number(0, 3), h], special=0),
              None if segments is None else d.tensor(F, [2, h], special=0), d.tensor(F, [h], special=0), d.tensor(F, [h], special=0), mask]
    if d.maybe(0.3):
        inputs.append(d.n.randint(0, s, (d.pick([1, b]), s)).astype(np.int32))
    return inputs, {"epsilon": 1e-5}, d.pick([1, 2, 2, 3])


def qlinear_binary(d):
    dtype, shape = d.pick(BYTES), d.shape(1, empty=0)
    inputs = []
    for part in (shape, d.broadcast(shape)):
        inputs += [byte(d, dtype, part), scale(d), zero(d, dtype) if d.maybe(0.8) else None]
    return inputs + [scale(d), zero(d, dtype) if d.maybe(0.8) else None], {}


def qlinear_unary(leaky):
    def make(d):
        dtype = d.pick(BYTES)
        inputs = [byte(d, dtype, d.shape(1, empty=0)), scale(d), zero(d, dtype) if d.maybe(0.8) else None, scale(d, 0.004, 0.1), zero(d, dtype) if d.maybe(0.8) else None]
        return inputs, {"alpha": d.r.uniform(0.01, 0.9)} if leaky and d.maybe() else {}
    return make


def qlinear_pool(global_one):
    def make(d):
        dtype, last = d.pick(BYTES), d.number(0, 1)
        spatial = [d.number(3, 7) for _ in range(2)]
        n, c = d.number(1, 2), d.number(1, 5)
        x = byte(d, dtype, [n] + spatial + [c] if last else [n, c] + spatial)
        attributes = {"channels_last": last}
        if not global_one:
            attributes["kernel_shape"] = [d.number(1, 3) for _ in range(2)]
            if d.maybe():
                attributes["strides"] = [d.number(1, 2) for _ in range(2)]
            if d.maybe(0.4):
                attributes["pads"] = [d.number(0, k - 1) for k in attributes["kernel_shape"]] * 2
                attributes["count_include_pad"] = d.number(0, 1)
        return [x, scale(d), zero(d, dtype), scale(d), zero(d, dtype)], attributes
    return make


def qlinear_concat(d):
    dtype, shape = d.pick(BYTES), d.shape(1, 3, empty=0)
    axis = d.axis(len(shape))
    inputs = [scale(d), zero(d, dtype)]
    for _ in range(d.number(1, 3)):
        part = list(shape)
        part[axis] = d.number(1, 4)
        inputs += [byte(d, dtype, part), scale(d), zero(d, dtype)]
    return inputs, {"axis": axis}


def qlinear_softmax(d):
    dtype, shape = d.pick(BYTES), d.shape(1, 4, empty=0)
    return [byte(d, dtype, shape), scale(d), zero(d, dtype), np.array(1 / 256, F), np.array(0 if dtype == np.uint8 else -128, dtype)], {
        "axis": d.axis(len(shape)), "opset": d.pick([12, 13])}


def qlinear_where(d):
    dtype, shape = d.pick(BYTES), d.shape(1, empty=0)
    inputs = [d.tensor(np.bool_, d.broadcast(shape))]
    for part in (shape, d.broadcast(shape)):
        inputs += [byte(d, dtype, part), scale(d), zero(d, dtype)]
    return inputs + [scale(d), zero(d, dtype)], {}


def qgemm(d):
    a, b = d.pick(BYTES), d.pick(BYTES)
    m, k, n = d.number(1, 5), d.number(1, 6), d.number(1, 5)
    ta, tb = d.number(0, 1), d.number(0, 1)
    columns = d.maybe(0.4)
    inputs = [byte(d, a, [k, m] if ta else [m, k]), scale(d), zero(d, a), byte(d, b, [n, k] if tb else [k, n]),
              d.n.uniform(0.01, 0.1, n).astype(F) if columns else scale(d), byte(d, b, [n]) if columns else zero(d, b)]
    if d.maybe(0.7):
        inputs.append(d.n.randint(-500, 500, d.pick([[n], [m, n]])).astype(np.int32) if d.maybe() else None)
        if d.maybe():
            inputs += [scale(d, 0.5, 2), zero(d, a)]
    return inputs, {"transA": ta, "transB": tb, **({"alpha": 0.5} if d.maybe(0.3) else {})}


def integer_to_float(dynamic):
    def make(d):
        a, b = np.uint8, d.pick(BYTES)
        m, k, n = d.number(1, 5), d.number(1, 6), d.number(1, 5)
        columns = d.maybe(0.4)
        weights = byte(d, b, [k, n])
        b_scale = d.n.uniform(0.01, 0.1, n).astype(F) if columns else scale(d)
        b_zero = (byte(d, b, [n]) if columns else zero(d, b)) if d.maybe() else None
        bias = d.tensor(F, [n], special=0) if d.maybe() else None
        if dynamic:
            return [d.tensor(F, d.shape(0, 2) + [m, k], special=0), weights, b_scale, b_zero, bias], {}
        return [byte(d, a, d.shape(0, 2) + [m, k]), weights, scale(d), b_scale, zero(d, a) if d.maybe() else None, b_zero, bias], {}
    return make


def quantizing(d):
    dtype = d.pick(BYTES + [np.int16, np.uint16])
    return [d.tensor(F, d.shape(1, empty=0), special=0), np.array(d.n.uniform(0.01, 0.1), F), byte(d, dtype, ())], {}


def dequantizing(d):
    dtype = d.pick(BYTES + [np.int32, np.int16, np.uint16])
    return [d.n.randint(0, 100, d.shape(1, empty=0)).astype(dtype), np.array(d.n.uniform(0.01, 0.1), F), np.array(0 if dtype == np.int32 else 3, dtype)], {}


def ranging(d):
    dtype = d.pick([np.float32, np.int32, np.int64])
    start, end, step = (np.array(v, dtype) for v in (d.number(-5, 5), d.number(-5, 9), d.pick([1, 2, 3])))
    return [start, end] + ([step] if d.maybe() else []), {}


def complex_product(d):
    shape = d.shape(1, 3, empty=0) + [2]
    return [d.tensor(F, shape, special=0), d.tensor(F, shape, special=0)], {}


def distances(d):
    k = d.number(1, 6)
    return [d.tensor(F, [d.number(1, 5), k], special=0), d.tensor(F, [d.number(1, 5), k], special=0)], {"metric": d.pick(["sqeuclidean", "euclidean"])}


def expand_dims(d):
    x = d.tensor(F, d.shape(1))
    return [x, np.array(d.number(-x.ndim - 1, x.ndim), np.int32)], {}


def wide_product(d):
    m, k, n = d.number(1, 5), d.number(1, 6), d.number(1, 5)
    dtype = np.int16
    return [d.tensor(dtype, [m, k], -90, 90), d.tensor(dtype, [k, n], -90, 90)], {}


def nhwc_pool(d):
    kernel = [d.number(1, 3), d.number(1, 3)]
    return [byte(d, d.pick(BYTES), [1, d.number(3, 6), d.number(3, 6), d.number(1, 5)])], {"kernel_shape": kernel}


def trilu(d):
    x = d.tensor(d.pick([np.float32, np.int64]), d.shape(2, 4, empty=0))
    return [x] + ([np.array(d.number(-4, 4), I64)] if d.maybe() else []), {"upper": d.number(0, 1)} if d.maybe() else {}


def unique(d):
    return [d.n.randint(0, 5, d.number(1, 9)).astype(F)], {}, 3


def weight_bits(d):
    bits, block = d.pick([2, 4, 4, 8]), d.pick([16, 32, 64])
    k, n, rows = d.pick([d.number(1, 150), block * d.number(1, 4)]), d.number(1, 60), d.pick([1, 1, 2, 3, 5, 17, 70])
    blocks = (k + block - 1) // block
    inputs = [d.tensor(F, d.pick([[rows, k], [1, rows, k]]), special=0), byte(d, np.uint8, [n, blocks, block * bits // 8]), d.n.uniform(0.01, 0.1, [n * blocks]).astype(F)]
    if d.maybe():
        inputs.append(byte(d, np.uint8, [n * ((blocks * bits + 7) // 8)]) if d.maybe(0.7) else d.n.uniform(0, 15, [n * blocks]).astype(F))
    if bits == 4 and k % block == 0 and d.maybe(0.6): # groups of the file's own: elsewhere ONNX Runtime reads others
        inputs = (inputs + [None])[:4] + [d.n.randint(0, blocks, k).astype(np.int32)]
    return inputs, {"K": k, "N": n, "bits": bits, "block_size": block}


def attention_mask(d, b, s, t):
    kind = d.number(0, 3)
    if kind == 0:
        return d.n.randint(1, t + 1, b).astype(np.int32)
    if kind == 3: # ends, then beginnings
        begin = d.n.randint(0, t, b)
        return np.concatenate([[d.number(x + 1, t) for x in begin], begin]).astype(np.int32)
    mask = (d.n.rand(*([b, t] if kind == 1 else [b, s, t])) < 0.7).astype(np.int32)
    mask[..., 0] = 1
    return mask


def multi_head(d):
    b, n, h, s = d.number(1, 3), d.number(1, 4), d.pick([4, 8, 16]), d.number(1, 6)
    kv = d.pick([s, d.number(1, 7)])
    past = d.number(1, 5) if d.maybe(0.3) and kv == s else 0
    def rows(r): return d.tensor(F, [b, r, n * h], -1, 1, special=0)
    inputs, attributes = [rows(s), rows(kv), rows(kv)], {"num_heads": n}
    inputs.append(d.tensor(F, [3 * n * h], -1, 1, special=0) if d.maybe(0.4) else None)
    inputs.append(attention_mask(d, b, s, kv + past) if d.maybe(0.4) else None)
    if inputs[-1] is not None and inputs[-1].ndim == 1 and past:
        inputs[-1] = None
    inputs.append(d.tensor(F, [d.pick([1, b]), d.pick([1, n]), s, kv + past], -1, 1, special=0) if d.maybe(0.3) else None)
    if past:
        inputs += [d.tensor(F, [b, n, past, h], -1, 1, special=0) for _ in range(2)]
    if d.maybe(0.3):
        attributes["scale"] = d.r.uniform(0.1, 1)
    if d.maybe(0.3) and kv == s:
        attributes["unidirectional"] = 1
    return inputs, attributes, 3 if past else d.pick([1, 3])


def projected_attention(d):
    b, n, h, s, wide = d.number(1, 3), d.number(1, 4), d.pick([4, 8]), d.number(1, 6), d.number(1, 9)
    past = d.number(1, 5) if d.maybe(0.3) else 0
    inputs = [d.tensor(F, [b, s, wide], -1, 1, special=0), d.tensor(F, [wide, 3 * n * h], -1, 1, special=0), d.tensor(F, [3 * n * h], -1, 1, special=0)]
    mask = attention_mask(d, b, s, s + past) if d.maybe(0.4) else None
    inputs.append(None if mask is not None and mask.ndim == 1 and past else mask)
    inputs.append(d.tensor(F, [2, b, n, past, h], -1, 1, special=0) if past else None)
    inputs.append(d.tensor(F, [d.pick([1, b]), d.pick([1, n]), s, s + past], -1, 1, special=0) if d.maybe(0.3) else None)
    return inputs, {"num_heads": n, **({"unidirectional": 1} if d.maybe(0.4) else {}), **({"scale": 0.4} if d.maybe(0.3) else {})}, 2 if past else 1


def group_query(d):
    b, shared, h = d.number(1, 3), d.number(1, 3), d.pick([8, 16])
    n, past = shared * d.number(1, 3), d.pick([0, 0, d.number(1, 6)])
    s = 1 if past else d.number(1, 6)
    total = past + s
    packed = d.maybe(0.4)
    inputs = [d.tensor(F, [b, s, (n + 2 * shared) * h if packed else n * h], -1, 1, special=0)]
    inputs += [None, None] if packed else [d.tensor(F, [b, s, shared * h], -1, 1, special=0) for _ in range(2)]
    inputs += [d.tensor(F, [b, shared, past, h], -1, 1, special=0) for _ in range(2)]
    inputs += [np.full([b], total - 1, np.int32), np.array(total, np.int32)]
    attributes = {"num_heads": n, "kv_num_heads": shared}
    if d.maybe():
        attributes.update({"do_rotary": 1, "rotary_interleaved": d.number(0, 1)})
        inputs += [d.tensor(F, [total + d.number(0, 4), h // 2], -1, 1, special=0)]
        inputs += [d.tensor(F, inputs[-1].shape, -1, 1, special=0)]
    if d.maybe(0.3):
        attributes["softcap"] = d.r.uniform(1, 5)
    if d.maybe(0.3):
        attributes["scale"] = d.r.uniform(0.1, 1)
    if d.maybe(0.3):
        attributes["local_window_size"] = d.number(1, 6)
    if d.maybe(0.3):
        attributes["smooth_softmax"] = 1
    elif d.maybe(0.3):
        inputs += [None] * (11 - len(inputs)) + [d.tensor(F, [n], -2, 2, special=0)]
    if d.maybe(0.2):
        attributes["qk_output"] = 2
        return inputs, attributes, 4
    return inputs, attributes, 3


def rotary(d):
    b, n, s, h = d.number(1, 3), d.number(1, 4), d.number(1, 5), d.pick([4, 8, 16])
    most = s + d.number(0, 5)
    x = d.tensor(F, [b, s, n * h] if d.maybe() else [b, n, s, h], special=0)
    positions = np.array([d.number(0, most - s)], I64) if d.maybe() else d.n.randint(0, most, [b, s]).astype(I64)
    return [x, positions] + [d.tensor(F, [most, h // 2], -1, 1, special=0) for _ in range(2)], {"interleaved": d.number(0, 1)}


def four_bits(d):
    block, k, n = d.pick([16, 32, 64, 128]), d.number(1, 100), d.number(1, 40)
    k = d.pick([k, block * d.number(1, 4)])
    across = d.maybe(0.8)
    rows = d.pick([1, 1, 2, 3, 9, 70])
    count = n * k
    inputs = [d.tensor(F, d.pick([[], [1]]) + [rows, k if across else n], special=0), byte(d, np.uint8, [(count + 1) // 2]), d.n.uniform(0.05, 1, [(count + block - 1) // block]).astype(F)]
    return inputs, {"K": k, "N": n, "block_size": block, "quant_type": d.number(0, 1), **({} if across else {"transB": 0})}


def quantized_attention(d):
    b, n, h, s, wide = d.number(1, 3), d.number(1, 4), d.pick([4, 8]), d.number(1, 6), d.number(1, 9)
    past = d.number(1, 5) if d.maybe(0.3) else 0
    w, columns = d.pick(BYTES), d.maybe(0.4)
    weight_scale = d.n.uniform(0.002, 0.02, 3 * n * h).astype(F) if columns else scale(d, 0.002, 0.02)
    weight_zero = (byte(d, w, [3 * n * h]) if columns else zero(d, w)) if d.maybe(0.7) else None
    inputs = [byte(d, np.uint8, [b, s, wide]), byte(d, w, [wide, 3 * n * h]), d.tensor(F, [3 * n * h], -1, 1, special=0), scale(d, 0.002, 0.02), weight_scale]
    mask = attention_mask(d, b, s, s + past) if d.maybe(0.4) else None
    inputs.append(None if mask is not None and mask.ndim == 1 and past else mask)
    inputs += [zero(d, np.uint8) if d.maybe(0.7) else None, weight_zero, d.tensor(F, [2, b, n, past, h], -1, 1, special=0) if past else None]
    return inputs, {"num_heads": n, **({"unidirectional": 1} if d.maybe(0.4) else {}), **({"scale": 0.4} if d.maybe(0.3) else {})}, 2 if past else 1


def quantized_embedding(d):
    b, s, h, words, dtype = d.number(1, 3), d.number(1, 6), d.number(1, 16), d.number(1, 9), d.pick(BYTES)
    kinds = d.maybe(0.7)
    inputs = [d.n.randint(0, words, (b, s)).astype(np.int32), d.n.randint(0, 2, (b, s)).astype(np.int32) if kinds else None]
    inputs += [byte(d, dtype, [words, h]), byte(d, dtype, [s + d.number(0, 3), h]), byte(d, dtype, [2, h]) if kinds else None, byte(d, dtype, [h]), byte(d, dtype, [h])]
    inputs.append((np.arange(s)[None, :] < d.n.randint(0, s + 1, (b, 1))).astype(np.int32) if d.maybe() else None)
    inputs += [scale(d) if kinds or i != 2 else None for i in range(5)] + [zero(d, dtype) if kinds or i != 2 else None for i in range(5)]
    return inputs, {"epsilon": 1e-5}, 2


def decoder_attention(d):
    b, n, h, most = d.number(1, 3), d.number(1, 4), d.pick([4, 8]), d.number(2, 9)
    past, cross = d.number(1, most - 1), d.maybe(0.3) # without a past, ONNX Runtime takes all rows of the cache for one
    inputs = [d.tensor(F, [b, 1, n * h], -1, 1, special=0)]
    keys = [b, n, d.number(1, 6), h] if cross else [b, 1, n * h]
    inputs += [d.tensor(F, keys, -1, 1, special=0) for _ in range(2)]
    total = keys[2] if cross else past + 1
    mask = (d.n.rand(b, total) < 0.7).astype(np.int32)
    mask[:, 0] = 1
    inputs.append(mask if d.maybe(0.3) else None)
    inputs.append(d.tensor(F, [d.pick([1, b]), d.pick([1, n]), 1, total], -1, 1, special=0) if d.maybe(0.3) and not cross else None)
    attributes = {"num_heads": n, **({"scale": 0.4} if d.maybe(0.3) else {})}
    if cross:
        inputs += [None] * 5
    else:
        inputs += [d.tensor(F, [b, n, most, h], -1, 1, special=0) for _ in range(2)] + [np.array([past], np.int32), None, None]
        attributes["past_present_share_buffer"] = 1
    inputs.append(d.tensor(F, [3 * n * h], -1, 1, special=0) if d.maybe(0.3) else None)
    return inputs, attributes, 1 if cross else 3


def quantized_lstm(d):
    steps, b, wide, hidden, directions, dtype = d.number(1, 6), d.pick([1, 1, 2, 3]), d.number(1, 9), d.number(1, 20), d.number(1, 2), d.pick(BYTES)
    columns = d.maybe(0.4)
    def weights(rows):
        small = d.n.randint(0, 256, (directions, rows, 4 * hidden)).astype(np.uint8)
        return small if dtype == np.uint8 else (small.astype(np.int16) - 128).astype(np.int8)
    def scales(): return d.n.uniform(0.001, 0.01, (directions, 4 * hidden) if columns else (directions,)).astype(F)
    def zeros():
        value = 0 if dtype == np.int8 else d.number(110, 140)
        return np.full((directions, 4 * hidden) if columns else (directions,), value, dtype)
    inputs = [d.tensor(F, [steps, b, wide], -2, 2, special=0), weights(wide), weights(hidden)]
    inputs.append(d.tensor(F, [directions, 8 * hidden], -1, 1, special=0) if d.maybe(0.7) else None)
    inputs.append(d.n.randint(1, steps + 1, b).astype(np.int32) if d.maybe(0.3) else None)
    inputs += [d.tensor(F, [directions, b, hidden], -1, 1, special=0) if d.maybe(0.4) else None for _ in range(2)]
    inputs.append(d.tensor(F, [directions, 3 * hidden], -1, 1, special=0) if d.maybe(0.3) else None)
    inputs += [scales(), zeros(), scales(), zeros()]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else d.pick(["forward", "reverse"])}
    if d.maybe(0.2):
        attributes["clip"] = 0.5
    if d.maybe(0.2):
        attributes["input_forget"] = 1
    return inputs, attributes, 3


def bifurcation(d):
    count = d.number(1, 12)
    source = d.n.randint(0, 4, count).astype(I64)
    start = d.number(0, count)
    current = d.n.randint(0, 4, d.number(1, 6)).astype(I64)
    inputs = [source, current, np.array([start], I64)]
    if d.maybe(0.7):
        predicted = np.concatenate([source[start:], d.n.randint(0, 4, 1)]).astype(I64)
        if d.maybe(0.6):
            predicted[d.number(0, len(predicted) - 1)] = d.number(0, 4)
        inputs.append(predicted)
    low = d.number(1, 2)
    return inputs, {"min_ngram_size": low, "max_ngram_size": low + d.number(0, 3)}, 2


def time_warping(d):
    shape = [d.number(1, 9), d.number(1, 9)]
    return [d.tensor(F, d.pick([[], [1]]) + shape, special=0)], {}


def inversion(d):
    n = d.number(1, 6)
    x = d.tensor(d.pick([np.float32, np.float64]), d.shape(0, 2, empty=0) + [n, n], -1, 1, special=0)
    return [(x + 3 * np.eye(n)).astype(x.dtype)], {}


def unfolding(d):
    shape = d.shape(1, 4, empty=0)
    axis = d.axis(len(shape))
    size = d.number(1, shape[axis])
    return [d.tensor(d.pick([np.float32, np.int64, np.uint8]), shape)], {"dim": axis, "size": size, **({"step": d.number(1, 3)} if d.maybe() else {})}


def repeated_ngrams(d):
    b, length, words = d.number(1, 3), d.number(1, 10), d.number(2, 6)
    return [d.n.randint(0, min(words, 3), (b, length)).astype(I64), d.tensor(F, [b, words], special=0)], {"ngram_size": d.number(1, 4)}


def cropping(d):
    n, regions = d.number(1, 3), d.number(1, 4)
    corners = np.sort(d.n.uniform(-0.1, 1.1, (regions, 2, 2)), 1).reshape(regions, 4)
    if d.maybe():
        corners = np.clip(corners, 0, 1)
    if d.maybe(0.3):
        corners[:] = [0, 0, 1, 1]
    inputs = [d.tensor(F, [n, d.number(1, 3), d.number(1, 7), d.number(1, 7)], special=0), corners.astype(F), d.n.randint(0, n, regions).astype(np.int32), d.n.randint(1, 6, 2).astype(np.int32)]
    return inputs, {"mode": d.pick(["bilinear", "nearest"]), "extrapolation_value": d.pick([0.0, 2.5])}


def padded_transposed(d):
    channels, filters, kernel = d.number(1, 3), d.number(1, 3), [d.number(2, 4), d.number(2, 4)]
    inputs = [d.tensor(F, [d.number(1, 2), channels, d.number(2, 5), d.number(2, 5)], special=0), d.tensor(F, [channels, filters] + kernel, special=0)]
    inputs.append(np.array([d.number(0, 1) for _ in range(4)], I64) if d.maybe(0.8) else None)
    if d.maybe():
        inputs.append(d.tensor(F, [filters], special=0))
    return inputs, {"strides": [d.number(1, 2), d.number(1, 2)], "kernel_shape": kernel}


def experts(quantised):
    """Of what ONNX Runtime's CPU has: SwiGLU with alternating rows, no third product."""
    def make(d):
        number, rows, bits = d.number(1, 5), d.number(1, 40) if d.maybe() else d.number(1, 5), d.pick([4, 8])
        wide, inner = (32 * d.number(1, 3), 32 * d.number(1, 2)) if quantised else (d.number(1, 9), d.number(1, 7))
        act = d.pick(["relu", "gelu", "silu", "identity", "swiglu"])
        attributes = {"k": d.number(1, number), "activation_type": act, "normalize_routing_weights": d.number(0, 1)}
        if act == "swiglu":
            attributes.update({"swiglu_fusion": 1}, **({"swiglu_limit": d.r.uniform(.3, 2)} if d.maybe() else {}),
                              **({"activation_alpha": 1.702, "activation_beta": 1.0} if d.maybe() else {}))
        block = d.pick([0, 16]) if quantised else 0
        if quantised:
            attributes.update({"expert_weight_bits": bits}, **({"block_size": block} if block else {}))
        inputs = [d.tensor(F, [rows, wide], special=0), d.tensor(F, [rows, number], special=0)]
        for m, k in ((2 if act == "swiglu" else 1) * inner, wide), (wide, inner):
            if quantised:
                inputs.append(byte(d, np.uint8, [number, m, k * bits // 8]))
                inputs.append(np.asarray(d.n.uniform(.01, .1, [number, m] + ([k // block] if block else []))).astype(F) / (1 << bits - 4))
            else:
                inputs.append(d.tensor(F, [number, m, k], special=0))
            inputs.append(d.tensor(F, [number, m], special=0) if d.maybe() else None)
        while inputs[-1] is None:
            inputs.pop()
        return inputs, attributes
    return make


def linear_attention(d):
    heads, more, size, wide, steps = d.number(1, 3), d.number(1, 3), d.number(1, 20), d.number(1, 40), d.number(1, 9)
    q, states = (heads * more, heads) if d.maybe() else (heads, heads * more)
    keys = d.pick([states, 1])
    rule = d.pick(["linear", "gated", "delta", "gated_delta"])
    inputs = [d.tensor(F, [2, steps, q * size], special=0), d.tensor(F, [2, steps, keys * size], special=0) / F(2 * size), d.tensor(F, [2, steps, states * wide], special=0),
              d.tensor(F, [2, states, size, wide], special=0) if d.maybe() else None,
              -np.abs(d.tensor(F, [2, steps, states * d.pick([1, size])], special=0)) if "gated" in rule else None,
              np.abs(d.tensor(F, [2, steps, d.pick([1, states])], special=0)) / F(100) if "delta" in rule else None]
    while inputs[-1] is None:
        inputs.pop()
    return inputs, {"q_num_heads": q, "kv_num_heads": states, "update_rule": rule, **({"scale": d.r.uniform(.1, 1)} if d.maybe() else {})}, 2


def attention_gate(d):
    heads, dtype = d.number(1, 9), d.pick([F, np.float16])
    a = d.tensor(dtype, [d.number(1, 3), d.number(1, 5), heads], special=0)
    return [a, d.tensor(F, [heads], special=0), -np.abs(d.tensor(F, [heads], special=0)), d.tensor(dtype, a.shape, special=0)], {}, 2


def gated_norm(d):
    size, dtype = d.number(1, 20), d.pick([F, np.float16])
    x = d.tensor(dtype, [d.number(1, 3), d.number(1, 5), size * d.number(1, 4)], special=0)
    return [x, d.tensor(dtype, [size], special=0), d.tensor(dtype, x.shape, special=0)], {"epsilon": 10.0 ** -d.number(1, 6)} if d.maybe() else {}


def gated_sum(d):
    x = d.tensor(F, d.shape(1, empty=0), special=0)
    return [x, d.tensor(F, x.shape, special=0), d.tensor(F, list(x.shape[:-1]) + [1], special=0)], {}


def causal_convolution(d):
    channels, length, kernel, dilation, last = d.number(1, 20), d.number(1, 9), d.number(1, 5), d.number(1, 3), d.number(0, 1)
    def turned(steps):
        return d.tensor(F, [2, steps, channels] if last else [2, channels, steps], special=0)
    inputs = [turned(length), d.tensor(F, [channels, 1, kernel], special=0), d.tensor(F, [channels], special=0) if d.maybe() else None,
              turned((kernel - 1) * dilation) if d.maybe() else None]
    while inputs[-1] is None:
        inputs.pop()
    return inputs, {"activation": d.pick(["none", "silu", "swish"]), "dilation": dilation, "channels_last": last}, 2


def multimodal_rotary(d):
    sections, heads, rows = [d.number(0, 4) for _ in range(2)] + [d.number(1, 4)], d.number(1, 3), d.number(1, 5)
    half = sum(sections)
    x = d.tensor(F, [2, rows, heads * 2 * half] if d.maybe() else [2, heads, rows, 2 * half], special=0)
    return ([x, d.n.randint(0, 9, (3, 2, rows)).astype(I64), d.tensor(F, [9, half], special=0), d.tensor(F, [9, half], special=0)],
            {"mrope_section": sections, "mrope_layout": d.number(0, 1), "interleaved": d.number(0, 1), "num_heads": heads})


def engram_gate(d):
    rows, parts, size = d.number(1, 4), d.number(1, 3), d.number(1, 20)
    keys = [2, rows, parts, size]
    return [d.tensor(F, keys, special=0), d.tensor(F, keys, special=0), d.tensor(F, [2, rows, size], special=0), d.tensor(F, keys[2:], special=0), d.tensor(F, keys[2:], special=0)], {}


def ngram_hash(d):
    most, heads, dtype = d.number(2, 4), d.number(1, 3), d.pick([I64, np.int32])
    inputs = [d.n.randint(0, 5000, (2, d.number(1, 6))).astype(dtype), d.n.randint(-1 << 30, 1 << 30, most).astype(dtype), d.n.randint(1, 999, (most - 1) * heads).astype(dtype)]
    if d.maybe():
        inputs.append(d.n.randint(0, 5000, (2, most - 1)).astype(dtype))
    return inputs, {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": d.number(0, 9)}, 2


MS = {
    "LinearAttention": linear_attention, "LinearAttentionGate": attention_gate, "GatedRMSNorm": gated_norm, "GatedAdd": gated_sum, "CausalConvWithState": causal_convolution,
    "MRotaryEmbedding": multimodal_rotary, "EngramGate": engram_gate, "NGramHashMapping": ngram_hash,
    "MoE": experts(False), "QMoE": experts(True),
    "MultiHeadAttention": multi_head, "Attention": projected_attention, "GroupQueryAttention": group_query, "RotaryEmbedding": rotary,
    "MatMulNBits": weight_bits,
    "Gelu": gelu, "BiasGelu": bias_gelu(False), "FastGelu": bias_gelu(True), "QuickGelu": quick_gelu, 
    "FusedConv": fused_convolution, "FusedGemm": fused_gemm, "FusedMatMul": fused_matmul, "TransposeMatMul": fused_matmul,
    "SkipLayerNormalization": skip_normalization(False), "SkipSimplifiedLayerNormalization": skip_normalization(True),
    "EmbedLayerNormalization": embedding, "QLinearAdd": qlinear_binary, "QLinearMul": qlinear_binary, "QLinearSigmoid": qlinear_unary(False),
    "QLinearLeakyRelu": qlinear_unary(True), "QLinearAveragePool": qlinear_pool(False), "QLinearGlobalAveragePool": qlinear_pool(True),
    "QLinearConcat": qlinear_concat, "QLinearSoftmax": qlinear_softmax, "QLinearWhere": qlinear_where, "QGemm": qgemm,
    "MatMulIntegerToFloat": integer_to_float(False), "DynamicQuantizeMatMul": integer_to_float(True), "QuantizeLinear": quantizing, "DequantizeLinear": dequantizing,
    "Range": ranging, "CDist": distances, "ExpandDims": expand_dims, "MatMulInteger16": wide_product, "NhwcMaxPool": nhwc_pool, "Trilu": trilu, "Unique": unique,
    "MatMulBnb4": four_bits, "QAttention": quantized_attention, "QEmbedLayerNormalization": quantized_embedding, "DecoderMaskedMultiHeadAttention": decoder_attention,
    "DynamicQuantizeLSTM": quantized_lstm, "BifurcationDetector": bifurcation, "DynamicTimeWarping": time_warping, "Inverse": inversion, "UnfoldTensor": unfolding,
    "NGramRepeatBlock": repeated_ngrams, "CropAndResize": cropping, "ConvTransposeWithDynamicPads": padded_transposed,
}
CONTRIB = {f"com.microsoft:{name}": (1, make) for name, make in MS.items()}
CONTRIB[":SimplifiedLayerNormalization"] = (1, simplified)
# Inputs that ONNX Runtime wants as constants: scales, zero points, weights.
CONSTANT_INPUTS = {name for name in CONTRIB if any(part in name for part in ("QLinear", "NBits", "QGemm", "Bnb4", "QAttention", "LSTM", "QMoE"))}
