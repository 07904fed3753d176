# SPDX-License-Identifier: Apache-2.0
"""Networks on words, sound, tables and graphs, as exporters write them: what architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT, Net


def swin(n):
    """Two stages at 112: windows by Reshape and Transpose, shifted by Slice and Concat."""
    def roll(x, shift):
        for axis in (1, 2):
            x = n.op("Concat", n.slice(x, axis, shift, None), n.slice(x, axis, 0, shift), axis=axis)
        return x

    def attention(x, width, heads, mask):
        qkv = n.reshape(n.linear(x, width, 3 * width), -1, 49, 3, heads, width // heads)
        q, k, v = (n.op("Gather", n.transpose(qkv, 2, 0, 3, 1, 4), n.index(i), axis=0) for i in range(3))
        scores = n.op("MatMul", n.mul(q, n.number((width // heads) ** -0.5)), n.transpose(k, 0, 1, 3, 2))
        table = n.op("Gather", n.bias(169, heads), n.constant(n.random.integers(0, 169, 49 * 49)), axis=0)
        bias = n.op("Unsqueeze", n.transpose(n.reshape(table, 49, 49, -1), 2, 0, 1), n.integers(0))
        scores = n.add(scores, bias)
        if mask is not None:
            windows = mask.shape[0]
            scores = n.add(n.reshape(scores, 1, windows, heads, 49, 49), n.constant(mask[None, :, None]))
            scores = n.reshape(scores, -1, heads, 49, 49)
        y = n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3)
        return n.linear(n.reshape(y, -1, 49, width), width, width)

    def block(x, width, heads, extent, shift):
        side = extent // 7
        y = n.reshape(n.layer_norm(x, width), 1, extent, extent, width)
        y = roll(y, shift) if shift else y
        y = n.transpose(n.reshape(y, 1, side, 7, side, 7, width), 0, 1, 3, 2, 4, 5)
        mask = np.where(n.random.random((side * side, 49, 49)) < 0.3, -100, 0).astype("f") if shift else None
        y = attention(n.reshape(y, -1, 49, width), width, heads, mask)
        y = n.transpose(n.reshape(y, 1, side, side, 7, 7, width), 0, 1, 3, 2, 4, 5)
        y = n.reshape(y, 1, extent, extent, width)
        y = roll(y, -shift) if shift else y
        x = n.add(x, n.reshape(y, 1, extent * extent, width))
        return n.add(x, n.feed_forward(n.layer_norm(x, width), width, 4 * width))

    x = n.conv(n.floats("image", 1, 3, 112, 112), 3, 96, 4, 4, 0)
    x = n.layer_norm(n.transpose(n.reshape(x, 1, 96, -1), 0, 2, 1), 96)
    for shift in (0, 3):
        x = block(x, 96, 3, 28, shift)
    x = n.reshape(x, 1, 28, 28, 96)
    parts = [n.slice(n.slice(x, 1, a, None, 2), 2, b, None, 2) for b in (0, 1) for a in (0, 1)]
    x = n.linear(n.layer_norm(n.reshape(n.op("Concat", *parts, axis=-1), 1, -1, 384), 384), 384, 192, False)
    for shift in (0, 3):
        x = block(x, 192, 6, 14, shift)
    x = n.transpose(n.layer_norm(x, 192), 0, 2, 1)
    n.output(n.gemm(n.op("Flatten", n.op("GlobalAveragePool", x), axis=1), 192, 1000))


def vit(n):
    """torchvision's, by nn.MultiheadAttention: tokens first, heads in the batch; six layers of 192."""
    image = n.floats("image", 1, 3, 160, 160, dims=["batch", 3, 160, 160])
    batch = n.extent(image, 0)
    x = n.transpose(n.reshape(n.conv(image, 3, 192, 16, 16, 0), batch, 192, 100), 0, 2, 1)
    shape = n.dims(batch, -1, -1)
    ones = n.op("ConstantOfShape", n.integers(3), value=helper.make_tensor("", TensorProto.INT64, [1], [1]))
    shape = n.op("Where", n.op("Equal", shape, n.op("Mul", ones, n.index(-1))), ones, shape)
    x = n.add(n.op("Concat", n.op("Expand", n.bias(1, 1, 192), shape), x, axis=1), n.bias(1, 101, 192))
    for _ in range(6):
        y = n.transpose(n.layer_norm(x, 192), 1, 0, 2)
        qkv = n.linear(y, 192, 576)
        tokens, rows = n.extent(y, 0), n.extent(y, 1)
        qkv = n.op("Unsqueeze", n.reshape(qkv, tokens, rows, 3, 192), n.integers(0))
        qkv = n.op("Squeeze", n.transpose(qkv, 3, 1, 2, 0, 4), n.integers(3))
        wide = n.op("Mul", rows, n.index(3))
        q, k, v = (n.transpose(n.reshape(n.op("Gather", qkv, n.index(i), axis=0), tokens, wide, 64), 1, 0, 2) for i in range(3))
        q, k, v = (n.reshape(s, rows, 3, tokens, 64) for s in (q, k, v))
        root = n.op("Sqrt", n.op("Sqrt", n.op("Div", n.number(1), n.number(1 / 64))))
        inverse = n.op("Div", n.number(1), root)
        scores = n.op("MatMul", n.mul(q, inverse), n.mul(n.transpose(k, 0, 1, 3, 2), inverse))
        y = n.transpose(n.op("MatMul", n.softmax(scores), v), 2, 0, 1, 3)
        y = n.gemm(n.reshape(y, n.op("Mul", tokens, rows), 192), 192, 192)
        x = n.add(n.transpose(n.reshape(y, tokens, rows, n.extent(y, 1)), 1, 0, 2), x)
        x = n.add(x, n.feed_forward(n.layer_norm(x, 192), 192, 768))
    n.output(n.gemm(n.op("Gather", n.layer_norm(x, 192), n.index(0), axis=1), 192, 1000))


def deit(n):
    """timm's, one product for queries, keys and values, taken apart by Gather: opset 20's Gelu; six layers of 192."""
    x = n.conv(n.floats("image", 1, 3, 160, 160), 3, 192, 16, 16, 0)
    x = n.transpose(n.reshape(x, 1, 192, 100), 0, 2, 1)
    x = n.add(n.op("Concat", n.bias(1, 1, 192), n.bias(1, 1, 192), x, axis=1), n.bias(1, 102, 192))
    for _ in range(6):
        qkv = n.transpose(n.reshape(n.linear(n.layer_norm(x, 192), 192, 576), 1, 102, 3, 3, 64), 2, 0, 3, 1, 4)
        q, k, v = (n.op("Squeeze", s, n.integers(0)) for s in n.split(qkv, 0, 1, 1, 1))
        scores = n.op("MatMul", n.mul(q, n.number(0.125)), n.transpose(k, 0, 1, 3, 2))
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 1, 102, 192)
        x = n.add(x, n.linear(y, 192, 192))
        x = n.add(x, n.feed_forward(n.layer_norm(x, 192), 192, 768))
    x = n.layer_norm(x, 192)
    first, second = (n.gemm(n.op("Gather", x, n.index(i), axis=1), 192, 1000) for i in (0, 1))
    n.output(n.op("Div", n.add(first, second), n.number(2)))


def clip_text(n):
    """CLIP's tower for text: a causal mask, QuickGelu, the token of the end by ArgMax; four layers of 256."""
    tokens = n.input("input_ids", n.random.integers(0, 1000, (2, 77)), ["batch", 77])
    x = n.add(n.op("Gather", n.weight(1000, 256, fan=1), tokens), n.bias(77, 256))
    mask = n.constant(np.triu(np.full((1, 1, 77, 77), -3.4e38, "f"), 1))
    batch = n.extent(tokens, 0)
    for _ in range(4):
        y = n.layer_norm(x, 256)
        q = n.mul(n.linear(y, 256, 256), n.number(0.125))
        q, k, v = (n.reshape(n.transpose(n.reshape(s, batch, -1, 4, 64), 0, 2, 1, 3), n.op("Mul", batch, n.index(4)), -1, 64)
                   for s in (q, n.linear(y, 256, 256), n.linear(y, 256, 256)))
        scores = n.op("MatMul", q, n.transpose(k, 0, 2, 1))
        scores = n.reshape(n.add(n.reshape(scores, batch, 4, 77, 77), mask), -1, 77, 77)
        y = n.reshape(n.op("MatMul", n.softmax(scores), v), batch, 4, 77, 64)
        x = n.add(n.linear(n.reshape(n.transpose(y, 0, 2, 1, 3), batch, 77, 256), 256, 256), x)
        x = n.add(x, n.feed_forward(n.layer_norm(x, 256), 256, 1024, lambda t: n.mul(t, n.op("Sigmoid", n.mul(t, n.number(1.702))))))
    x = n.layer_norm(x, 256)
    last = n.op("ArgMax", n.op("Cast", tokens, to=6), axis=-1, keepdims=0, select_last_index=0)
    rows = n.op("Range", n.index(0), batch, n.index(1))
    where = n.op("Concat", n.op("Unsqueeze", rows, n.integers(-1)), n.op("Unsqueeze", last, n.integers(-1)), axis=-1)
    n.output(n.op("MatMul", n.op("GatherND", x, where, batch_dims=0), n.weight(256, 256)))


def bert(n):
    """The older exporter at opset 14: shapes asked for everywhere, normalisation taken apart; four layers of 256."""
    dims = ["batch", "sequence"]
    tokens, mask = n.input("input_ids", n.random.integers(0, 3000, (1, 128)), dims), n.input("attention_mask", np.ones((1, 128), "i8"), dims)
    kinds = n.input("token_type_ids", np.zeros((1, 128), "i8"), dims)
    shown = n.op("Cast", n.op("Unsqueeze", n.op("Unsqueeze", mask, n.integers(1)), n.integers(2)), to=FLOAT)
    shown = n.mul(n.op("Sub", n.number(1), shown), n.number(-3.4e38))
    length = n.extent(tokens, 1)
    positions = n.op("Slice", n.constant(np.arange(512)[None]), n.integers(0), n.op("Unsqueeze", length, n.integers(0)), n.integers(1), n.integers(1))
    x = n.add(n.op("Gather", n.weight(3000, 256, fan=1), tokens), n.op("Gather", n.weight(2, 256, fan=1), kinds))
    x = n.layer_norm(n.add(x, n.op("Gather", n.weight(512, 256, fan=1), positions)), 256, 1e-12)

    def heads(y, *order):
        return n.transpose(n.reshape(y, n.extent(y, 0), n.extent(y, 1), 4, 64), *order)

    for _ in range(4):
        q, k, v = (heads(n.linear(x, 256, 256), 0, 2, 1, 3) for _ in range(3))
        scores = n.add(n.op("Div", n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(8)), shown)
        y = n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3)
        y = n.reshape(y, n.extent(y, 0), n.extent(y, 1), 256)
        x = n.layer_norm(n.add(n.linear(y, 256, 256), x), 256, 1e-12)
        x = n.layer_norm(n.add(n.feed_forward(x, 256, 1024), x), 256, 1e-12)
    n.output(x)
    n.output(n.op("Tanh", n.gemm(n.op("Gather", x, n.index(0), axis=1), 256, 256)))


def gpt2(n, length, past):
    """transformers' with caches, four layers of 256: Conv1D as Gemm between two Reshapes, the causal mask sliced from a constant."""
    dims = ["batch", "sequence"]
    tokens = n.input("input_ids", n.random.integers(0, 2000, (1, length)), dims)
    caches = [[n.floats(f"past_key_values.{i}.{kind}", 1, 4, past, 64, dims=["batch", 4, "past_sequence", 64]) for kind in ("key", "value")] for i in range(4)]
    mask = n.input("attention_mask", np.ones((1, past + length), "i8"), ["batch", "past_sequence + sequence"])
    before, now = n.extent(caches[0][0], 2), n.extent(tokens, 1)
    positions = n.op("Range", before, n.add(now, before), n.index(1))
    shown = n.op("Cast", n.op("Unsqueeze", n.op("Unsqueeze", n.reshape(mask, n.extent(tokens, 0), -1), n.integers(1)), n.integers(2)), to=FLOAT)
    shown = n.mul(n.op("Sub", n.number(1), shown), n.number(-3.4e38))
    table = n.weight(2000, 256, fan=1)
    x = n.add(n.op("Gather", table, tokens), n.op("Gather", n.weight(512, 256, fan=1), n.op("Unsqueeze", positions, n.integers(0))))
    causal = np.tril(np.ones((1, 1, 512, 512), bool))

    def conv1d(y, taken, made):
        product = n.op("Gemm", n.op("Reshape", y, n.integers(-1, taken)), n.weight(taken, made), n.bias(made), alpha=1.0, beta=1.0)
        return n.reshape(product, n.extent(y, 0), n.extent(y, 1), made)

    def cut(y, axis, start, end):
        return n.op("Slice", y, n.op("Unsqueeze", start, n.integers(0)), n.op("Unsqueeze", end, n.integers(0)), n.integers(axis), n.integers(1))

    for key, value in caches:
        q, k, v = n.split(conv1d(n.layer_norm(x, 256), 256, 768), 2, 256, 256, 256)
        q, k, v = (n.transpose(n.reshape(s, n.extent(s, 0), n.extent(s, 1), 4, 64), 0, 2, 1, 3) for s in (q, k, v))
        k, v = n.op("Concat", key, k, axis=-2), n.op("Concat", value, v, axis=-2)
        scores = n.op("Div", n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.op("Cast", n.op("Sqrt", n.number(64)), to=FLOAT))
        total, rows = n.extent(k, -2), n.extent(q, -2)
        seen = cut(cut(n.constant(causal), 2, n.op("Sub", total, rows), total), 3, n.index(0), total)
        scores = n.add(n.op("Where", seen, scores, n.number(-3.4e38)), shown)
        y = n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3)
        x = n.add(conv1d(n.reshape(y, n.extent(y, 0), n.extent(y, 1), 256), 256, 256), x)
        x = n.add(x, conv1d(n.gelu_tanh(conv1d(n.layer_norm(x, 256), 256, 1024)), 1024, 256))
        n.output(k), n.output(v)
    n.output(n.op("MatMul", n.layer_norm(x, 256), n.transpose(table, 1, 0)))


def gpt2_token(n):
    gpt2(n, 1, 128)


def gpt2_prompt(n):
    gpt2(n, 64, 16)


def llama(n, length, past):
    """Four layers of 256, eight heads on two: rotary positions from position_ids, keys and values repeated by Expand, a causal mask of bools."""
    width, heads, groups, size = 256, 8, 2, 32
    tokens = n.input("input_ids", n.random.integers(0, 2000, (1, length)), ["batch", "sequence"])
    positions = n.input("position_ids", np.arange(past, past + length)[None], ["batch", "sequence"])
    caches = [[n.floats(f"past_key_values.{i}.{kind}", 1, groups, past, size, dims=["batch", groups, "past_sequence", size]) for kind in ("key", "value")] for i in range(4)]
    batch, now = n.extent(tokens, 0), n.extent(tokens, 1)
    total = n.add(n.extent(caches[0][0], 2), now)
    x = n.op("Gather", n.weight(2000, width, fan=1), tokens)
    frequencies = n.constant((10000 ** (-np.arange(0, size, 2) / size)).astype("f").reshape(1, -1, 1))
    angles = n.op("MatMul", n.op("Expand", frequencies, n.dims(batch, size // 2, 1)), n.op("Cast", n.op("Unsqueeze", positions, n.integers(1)), to=FLOAT))
    angles = n.transpose(angles, 0, 2, 1)
    angles = n.op("Concat", angles, angles, axis=-1)
    cosines, sines = (n.op("Unsqueeze", n.mul(n.op(kind, angles), n.number(1)), n.integers(1)) for kind in ("Cos", "Sin"))
    row = n.op("Unsqueeze", n.op("Range", n.extent(caches[0][0], 2), total, n.index(1)), n.integers(1))
    mask = n.op("Where", n.op("LessOrEqual", n.op("Range", n.index(0), total, n.index(1)), row), n.number(0), n.number(-3.4e38))
    mask = n.op("Unsqueeze", n.op("Unsqueeze", mask, n.integers(0)), n.integers(0))

    def rotate(y):
        half = n.op("Concat", n.op("Neg", n.slice(y, 3, size // 2, None)), n.slice(y, 3, 0, size // 2), axis=-1)
        return n.add(n.mul(y, cosines), n.mul(half, sines))

    def repeat(y):
        shape = n.dims(batch, groups, heads // groups, total, size)
        return n.reshape(n.op("Expand", n.op("Unsqueeze", y, n.integers(2)), shape), batch, heads, total, size)

    for key, value in caches:
        y = n.rms_norm(x, width)
        q, k, v = (n.transpose(n.reshape(n.linear(y, width, h * size, False), batch, now, -1, size), 0, 2, 1, 3) for h in (heads, groups, groups))
        q, k = rotate(q), rotate(k)
        k, v = n.op("Concat", key, k, axis=-2), n.op("Concat", value, v, axis=-2)
        n.output(k), n.output(v)
        k, v = repeat(k), repeat(v)
        scale = n.number(size ** -0.25)
        scores = n.op("MatMul", n.mul(q, scale), n.mul(n.transpose(k, 0, 1, 3, 2), scale))
        y = n.op("MatMul", n.softmax(n.add(scores, mask)), v)
        x = n.add(x, n.linear(n.reshape(n.transpose(y, 0, 2, 1, 3), batch, now, -1), width, width, False))
        y = n.rms_norm(x, width)
        x = n.add(x, n.linear(n.mul(n.silu(n.linear(y, width, 688, False)), n.linear(y, width, 688, False)), 688, width, False))
    n.output(n.linear(n.rms_norm(x, width), width, 2000, False))


def llama_token(n):
    llama(n, 1, 128)


def llama_prompt(n):
    llama(n, 64, 16)


def t5(n):
    """T5's encoder, four layers of 256: relative positions in buckets, normalisation without a mean."""
    tokens = n.input("input_ids", n.random.integers(0, 2000, (1, 96)), ["batch", "sequence"])
    mask = n.input("attention_mask", np.ones((1, 96), "i8"), ["batch", "sequence"])
    length = n.extent(tokens, 1)
    shown = n.op("Cast", n.op("Unsqueeze", n.op("Unsqueeze", mask, n.integers(1)), n.integers(2)), to=FLOAT)
    shown = n.mul(n.op("Sub", n.number(1), shown), n.number(-3.4e38))
    steps = n.op("Range", n.index(0), length, n.index(1))
    apart = n.op("Sub", n.op("Unsqueeze", steps, n.integers(0)), n.op("Unsqueeze", steps, n.integers(1)))
    side = n.mul(n.op("Cast", n.op("Greater", apart, n.index(0)), to=7), n.index(16))
    far = n.op("Abs", apart)
    ratio = n.op("Div", n.op("Log", n.op("Div", n.op("Cast", far, to=FLOAT), n.number(8))), n.number(np.log(16)))
    large = n.add(n.op("Cast", n.mul(ratio, n.number(8)), to=7), n.index(8))
    large = n.op("Min", large, n.op("Expand", n.integers(15), n.op("Shape", large)))
    bucket = n.add(side, n.op("Where", n.op("Less", far, n.index(8)), far, large))
    bias = n.op("Unsqueeze", n.transpose(n.op("Gather", n.bias(32, 4), bucket), 2, 0, 1), n.integers(0))
    bias = n.add(bias, shown)
    x = n.op("Gather", n.weight(2000, 256, fan=1), tokens)
    for _ in range(4):
        y = n.rms_norm(x, 256)
        q, k, v = (n.transpose(n.reshape(n.linear(y, 256, 256, False), n.extent(tokens, 0), -1, 4, 64), 0, 2, 1, 3) for _ in range(3))
        scores = n.add(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), bias)
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), n.extent(tokens, 0), -1, 256)
        x = n.add(x, n.linear(y, 256, 256, False))
        x = n.add(x, n.linear(n.relu(n.linear(n.rms_norm(x, 256), 256, 1024, False)), 1024, 256, False))
    n.output(n.rms_norm(x, 256))


def whisper(n):
    """Its encoder, three layers of 256 on 400 frames."""
    x = n.gelu(n.conv(n.floats("mel", 1, 80, 400), 80, 256, 3, rank=1))
    x = n.add(n.transpose(n.gelu(n.conv(x, 256, 256, 3, 2, rank=1)), 0, 2, 1), n.bias(200, 256))
    for _ in range(3):
        y = n.layer_norm(x, 256)
        q = n.heads(n.mul(n.linear(y, 256, 256), n.number(0.125)), 4, 64, 200)
        k, v = n.heads(n.linear(y, 256, 256, False), 4, 64, 200), n.heads(n.linear(y, 256, 256), 4, 64, 200)
        y = n.op("MatMul", n.softmax(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2))), v)
        x = n.add(x, n.linear(n.reshape(n.transpose(y, 0, 2, 1, 3), 1, 200, 256), 256, 256))
        x = n.add(x, n.feed_forward(n.layer_norm(x, 256), 256, 1024))
    n.output(n.layer_norm(x, 256))


def conformer(n):
    """Three blocks of 144 on 250 frames: halves of feed-forwards, gated and depthwise convolutions, relative positions shifted by Pad and Reshape."""
    width, heads, size, frames = 144, 4, 36, 250
    x = n.floats("features", 1, frames, width)
    positions = n.constant(n.random.standard_normal((1, 2 * frames - 1, width)).astype("f"))

    def forward(y):
        return n.mul(n.feed_forward(n.layer_norm(y, width), width, 4 * width, n.silu), n.number(0.5))

    for _ in range(3):
        x = n.add(x, forward(x))
        y = n.layer_norm(x, width)
        q, k, v = (n.reshape(n.linear(y, width, width), 1, -1, heads, size) for _ in range(3))
        k, v = n.transpose(k, 0, 2, 1, 3), n.transpose(v, 0, 2, 1, 3)
        p = n.transpose(n.reshape(n.linear(positions, width, width, False), 1, -1, heads, size), 0, 2, 1, 3)
        near, far = (n.transpose(n.add(q, n.bias(heads, size)), 0, 2, 1, 3) for _ in range(2))
        content, place = n.op("MatMul", near, n.transpose(k, 0, 1, 3, 2)), n.op("MatMul", far, n.transpose(p, 0, 1, 3, 2))
        place = n.op("Pad", place, n.integers(0, 0, 0, 1, 0, 0, 0, 0), n.number(0), mode="constant")
        place = n.slice(n.reshape(place, 1, heads, -1, frames), 2, 1, None)
        place = n.slice(n.reshape(place, 1, heads, frames, 2 * frames - 1), 3, 0, frames)
        scores = n.op("Div", n.add(content, place), n.number(size ** 0.5))
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 1, -1, width)
        x = n.add(x, n.linear(y, width, width))
        y = n.conv(n.transpose(n.layer_norm(x, width), 0, 2, 1), width, 2 * width, rank=1)
        a, gate = n.split(y, 1, width, width)
        y = n.conv(n.mul(a, n.op("Sigmoid", gate)), width, width, 31, groups=width, rank=1)
        y = n.silu(n.op("BatchNormalization", y, n.scale(width), n.bias(width), n.bias(width), n.constant(np.ones(width, "f")), epsilon=1e-5, momentum=0.9))
        x = n.add(x, n.transpose(n.conv(y, width, width, rank=1), 0, 2, 1))
        x = n.layer_norm(n.add(x, forward(x)), width)
    n.output(x)


def wav2vec(n):
    """Convolutions of a second of sound at 8 kHz, a grouped one for positions, two layers of 256."""
    x = n.op("Unsqueeze", n.floats("sound", 1, 8000), n.integers(1))
    x = n.gelu(n.group_norm(n.conv(x, 1, 256, 10, 5, 0, rank=1, bias=False), 256, 256, 1))
    for size in (3, 3, 3, 2):
        x = n.gelu(n.conv(x, 256, 256, size, 2, 0, rank=1, bias=False))
    x = n.linear(n.layer_norm(n.transpose(x, 0, 2, 1), 256), 256, 256)
    y = n.conv(n.transpose(x, 0, 2, 1), 256, 256, 128, 1, 64, 16, rank=1)
    y = n.gelu(n.slice(y, 2, 0, -1))
    x = n.layer_norm(n.add(x, n.transpose(y, 0, 2, 1)), 256)
    for _ in range(2):
        x = n.layer_norm(n.add(x, n.self_attention(x, 256, 4)), 256)
        x = n.layer_norm(n.add(x, n.feed_forward(x, 256, 1024)), 256)
    n.output(n.linear(x, 256, 32))


def wavenet(n):
    """Causal dilated convolutions after Pad, gates of Tanh and Sigmoid, sums of skips."""
    x, sums = n.conv(n.floats("sound", 1, 1, 2000), 1, 64, rank=1), None
    for layer in range(10):
        dilation = 1 << layer % 5
        y = n.conv(n.op("Pad", x, n.integers(0, 0, 2 * dilation, 0, 0, 0), n.number(0), mode="constant"), 64, 128, 3, 1, 0, dilation=dilation, rank=1)
        a, gate = n.split(y, 1, 64, 64)
        y = n.mul(n.op("Tanh", a), n.op("Sigmoid", gate))
        x, skip = n.add(n.conv(y, 64, 64, rank=1), x), n.conv(y, 64, 64, rank=1)
        sums = n.add(sums, skip) if sums else skip
    n.output(n.conv(n.relu(n.conv(n.relu(sums), 64, 64, rank=1)), 64, 256, rank=1))


def tcn(n):
    """Blocks of two causal convolutions, padded on both sides and cut by Slice."""
    x, taken = n.floats("series", 4, 16, 400), 16
    for layer, made in enumerate([32, 64, 64, 128]):
        y, width = x, taken
        for _ in range(2):
            y = n.conv(y, width, made, 5, 1, 4 << layer, dilation=1 << layer, rank=1)
            y, width = n.relu(n.slice(y, 2, 0, -(4 << layer))), made
        x, taken = n.relu(n.add(y, n.conv(x, taken, made, rank=1))), made
    n.output(n.gemm(n.op("Gather", x, n.index(-1), axis=2), 128, 10))


def hifi_gan(n):
    """A vocoder: three transposed convolutions, three chains of dilated convolutions after each."""
    x, width = n.conv(n.floats("mel", 1, 80, 60), 80, 128, 7, rank=1), 128
    for size, stride in [(16, 8), (8, 4), (4, 2)]:
        x = n.conv_transpose(n.op("LeakyRelu", x, alpha=0.1), width, width // 2, size, stride, (size - stride) // 2, rank=1)
        width, chains = width // 2, None
        for kernel in (3, 7, 11):
            y = x
            for dilation in (1, 3, 5):
                z = n.conv(n.op("LeakyRelu", y, alpha=0.1), width, width, kernel, dilation=dilation, rank=1)
                y = n.add(n.conv(n.op("LeakyRelu", z, alpha=0.1), width, width, kernel, rank=1), y)
            chains = n.add(chains, y) if chains else y
        x = n.op("Div", chains, n.number(3))
    n.output(n.op("Tanh", n.conv(n.op("LeakyRelu", x, alpha=0.01), width, 1, 7, rank=1)))


def lstm_cell(n, x, h, c, taken, size):
    """nn.LSTMCell as scripted modules write it."""
    gates = n.add(n.gemm(x, taken, 4 * size), n.gemm(h, size, 4 * size))
    i, f, g, o = n.split(gates, 1, size, size, size, size)
    c = n.add(n.mul(n.op("Sigmoid", f), c), n.mul(n.op("Sigmoid", i), n.op("Tanh", g)))
    return n.mul(n.op("Sigmoid", o), n.op("Tanh", c)), c


def tacotron(n):
    """A decoder with attention to 60 encoded symbols, whose Loop makes 80 frames."""
    memory = n.floats("memory", 1, 60, 256)
    keys = n.linear(memory, 256, 128, False)
    body = Net(n.opset, 2)
    info = helper.make_tensor_value_info
    frame, h1, c1, h2, c2, weights, sums = "frame", "h1", "c1", "h2", "c2", "weights", "sums"
    pre = body.relu(body.gemm(body.relu(body.gemm(frame, 80, 128)), 128, 128))
    context = body.op("Squeeze", body.op("MatMul", body.op("Unsqueeze", weights, body.integers(1)), memory), body.integers(1))
    h, c = lstm_cell(body, body.op("Concat", pre, context, axis=-1), h1, c1, 384, 256)
    both = body.op("Concat", body.op("Unsqueeze", weights, body.integers(1)), body.op("Unsqueeze", sums, body.integers(1)), axis=1)
    where = body.linear(body.transpose(body.conv(both, 2, 16, 31, rank=1, bias=False), 0, 2, 1), 16, 128, False)
    query = body.op("Unsqueeze", body.op("MatMul", h, body.weight(256, 128)), body.integers(1))
    energy = body.op("MatMul", body.op("Tanh", body.add(query, where, keys)), body.weight(128, 1))
    new = body.softmax(body.op("Squeeze", energy, body.integers(-1)), 1)
    seen = body.op("Squeeze", body.op("MatMul", body.op("Unsqueeze", new, body.integers(1)), memory), body.integers(1))
    g, d = lstm_cell(body, body.op("Concat", h, seen, axis=-1), h2, c2, 512, 256)
    out = body.gemm(body.op("Concat", g, seen, axis=-1), 512, 80)
    stop = body.op("Sigmoid", body.gemm(g, 256, 1))
    go = body.op("Identity", "go_in")
    states = [("frame", 80, out), ("h1", 256, h), ("c1", 256, c), ("h2", 256, g), ("c2", 256, d), ("weights", 60, new), ("sums", 60, body.add(sums, new))]
    again = [body.op("Identity", value) for value in (out, stop, new)]
    graph = helper.make_graph(body.nodes, "body", [info("i", TensorProto.INT64, []), info("go_in", TensorProto.BOOL, [])] + [info(k, FLOAT, [1, s]) for k, s, _ in states],
                              [info(go, TensorProto.BOOL, [])] + [info(v, FLOAT, [1, s]) for _, s, v in states] +
                              [info(v, FLOAT, [1, s]) for v, s in zip(again, (80, 1, 60))], body.constants)
    for node in graph.node:
        node.input[:] = [i if i in (memory, keys, "") else "body." + i for i in node.input]
        node.output[:] = ["body." + o for o in node.output]
    for value in list(graph.input) + list(graph.output) + list(graph.initializer):
        value.name = "body." + value.name
    zeros = [n.constant(np.zeros((1, s), "f")) for _, s, _ in states]
    results = n.op("Loop", n.index(80), n.constant(np.array(True)), *zeros, outs=10, body=graph)
    n.output(n.transpose(results[7], 1, 2, 0)), n.output(results[8]), n.output(results[9])


def recurrent(n, kind, gates):
    """Two bidirectional layers on packed sequences: lengths as sequence_lens, directions put side by side by Transpose and Reshape."""
    x = n.transpose(n.floats("features", 2, 60, 64, dims=["batch", "time", 64]), 1, 0, 2)
    lengths = n.op("Cast", n.input("lengths", np.array([60, 41])), to=6)
    taken, size = 64, 128
    for _ in range(2):
        batch = n.op("Unsqueeze", n.extent(x, 1), n.integers(0))
        zeros = n.op("Expand", n.number(0), n.op("Concat", n.integers(2), batch, n.integers(size), axis=0))
        weights = [n.weight(2, gates * size, taken, fan=taken * 2), n.weight(2, gates * size, size, fan=size * 2), n.bias(2, 2 * gates * size)]
        states = [zeros, zeros] if kind == "LSTM" else [zeros]
        attributes = {} if kind == "LSTM" else {"linear_before_reset": 1}
        y = n.op(kind, x, *weights, lengths, *states, outs=len(states) + 1, direction="bidirectional", hidden_size=size, **attributes)[0]
        x, taken = n.op("Reshape", n.transpose(y, 0, 2, 1, 3), n.integers(0, 0, -1)), 2 * size
    n.output(n.op("LogSoftmax", n.linear(n.transpose(x, 1, 0, 2), taken, 40), axis=-1))


def lstm_packed(n):
    recurrent(n, "LSTM", 4)


def gru_packed(n):
    recurrent(n, "GRU", 3)


def dlrm(n):
    """Twelve tables, products of all pairs, whose lower half is gathered; 64 rows."""
    tables, size, rows = 12, 32, 64
    dense = n.floats("dense", rows, 13, dims=["batch", 13])
    sparse = n.input("sparse", n.random.integers(0, 5000, (rows, tables)), ["batch", tables])
    x = dense
    for taken, made in [(13, 256), (256, 128), (128, size)]:
        x = n.relu(n.gemm(x, taken, made))
    found = [n.op("Gather", n.weight(5000, size, fan=1), n.op("Gather", sparse, n.index(i), axis=1)) for i in range(tables)]
    both = n.reshape(n.op("Concat", x, *found, axis=1), n.extent(x, 0), -1, size)
    products = n.op("MatMul", both, n.transpose(both, 0, 2, 1))
    low = np.array([(i, j) for i in range(tables + 1) for j in range(i)])
    flat = n.transpose(n.op("GatherND", n.transpose(products, 1, 2, 0), n.constant(low)), 1, 0)
    y, taken = n.op("Concat", x, flat, axis=1), size + len(low)
    for made in (256, 128):
        y, taken = n.relu(n.gemm(y, taken, made)), made
    n.output(n.op("Sigmoid", n.gemm(y, taken, 1)))


def graph_network(n):
    """Messages along edges: endpoints gathered, sums by ScatterElements, as torch_geometric writes it, and by ScatterND."""
    points, edges, width = 500, 4000, 64
    x = n.floats("points", points, width, dims=["points", width])
    ends = n.input("edges", n.random.integers(0, points, (2, edges)), [2, "edges"])
    source, target = (n.op("Gather", ends, n.index(i), axis=0) for i in (0, 1))
    for layer in range(3):
        a, b = n.op("Gather", x, source, axis=0), n.op("Gather", x, target, axis=0)
        message = n.gemm(n.relu(n.gemm(n.op("Concat", b, n.op("Sub", a, b), axis=-1), 2 * width, width)), width, width)
        zeros = n.op("ConstantOfShape", n.dims(n.extent(x, 0), width), value=helper.make_tensor("", FLOAT, [1], [0.0]))
        column = n.op("Unsqueeze", target, n.integers(1))
        if layer < 2:
            sums = n.op("ScatterElements", zeros, n.op("Expand", column, n.op("Shape", message)), message, axis=0, reduction="add")
        else:
            sums = n.op("ScatterND", zeros, column, message, reduction="add")
        x = n.relu(n.add(n.gemm(x, width, width), sums))
    n.output(n.softmax(n.gemm(n.reduce("ReduceMean", x, [0]), width, 10)))


def deepfm(n):
    """A table for all fields, sums of squares, and a network beside them; 128 rows."""
    fields, size = 20, 16
    tokens = n.input("fields", n.random.integers(0, 500, (128, fields)), ["batch", fields])
    tokens = n.add(tokens, n.constant(np.arange(fields)[None] * 500))
    x = n.op("Gather", n.weight(10000, size, fan=1), tokens)
    linear = n.reduce("ReduceSum", n.op("Gather", n.weight(10000, 1, fan=1), tokens), [1], 0)
    sums = n.op("Pow", n.reduce("ReduceSum", x, [1], 0), n.number(2))
    squares = n.reduce("ReduceSum", n.op("Pow", x, n.number(2)), [1], 0)
    pairs = n.mul(n.reduce("ReduceSum", n.op("Sub", sums, squares), [1]), n.number(0.5))
    y, taken = n.reshape(x, -1, fields * size), fields * size
    for made in (256, 128):
        y = n.gemm(y, taken, made)
        y = n.relu(n.op("BatchNormalization", y, n.scale(made), n.bias(made), n.bias(made), n.constant(np.ones(made, "f")), epsilon=1e-5))
        taken = made
    n.output(n.op("Squeeze", n.op("Sigmoid", n.add(n.add(linear, pairs), n.gemm(y, taken, 1))), n.integers(1)))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (swin, 17), (vit, 17), (deit, 20), (clip_text, 17), (bert, 14), (gpt2_token, 17), (gpt2_prompt, 17), (llama_token, 17), (llama_prompt, 18), (t5, 17), (whisper, 20),
    (conformer, 17), (wav2vec, 17), (wavenet, 17), (tcn, 17), (hifi_gan, 17), (tacotron, 17), (lstm_packed, 17), (gru_packed, 17), (dlrm, 17), (graph_network, 17),
    (deepfm, 17)]}
