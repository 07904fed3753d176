# SPDX-License-Identifier: Apache-2.0
"""Transformers after ONNX Runtime's optimizer, with its operators of com.microsoft, and those whose attention is one operator of opsets 23 and 24, with caches. What
architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT

HALF, INT64, BOOL, MICROSOFT = TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL, "com.microsoft"


def microsoft(n, kind, *inputs, outs=1, **attributes):
    return n.op(kind, *inputs, outs=outs, domain=MICROSOFT, **attributes)


def product(n, x, taken, made):
    return n.op("MatMul", x, n.weight(taken, made))


def rotary_tables(n, length, size):
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(size // 2) / (size // 2))[None]
    return n.constant(np.cos(angles).astype("f")), n.constant(np.sin(angles).astype("f"))


def bert_optimized(n):
    """EmbedLayerNormalization, Attention with the lengths of padded rows, BiasGelu, SkipLayerNormalization; a pooler."""
    width, heads, rows, tokens = 256, 4, 2, 64
    ids = n.input("input_ids", n.random.integers(0, 1000, (rows, tokens)).astype("i4"), ["batch", "length"])
    kinds = n.input("token_type_ids", np.zeros((rows, tokens), "i4"), ["batch", "length"])
    mask = n.input("attention_mask", (np.arange(tokens)[None] < np.array([[64], [50]])).astype("i4"), ["batch", "length"])
    x, lengths = microsoft(n, "EmbedLayerNormalization", ids, kinds, n.weight(1000, width, fan=1), n.bias(128, width), n.bias(2, width), n.scale(width), n.bias(width), mask, outs=2,
                           epsilon=1e-12)
    for _ in range(4):
        y = microsoft(n, "Attention", x, n.weight(width, 3 * width), n.bias(3 * width), lengths, num_heads=heads)
        x = microsoft(n, "SkipLayerNormalization", product(n, y, width, width), x, n.scale(width), n.bias(width), n.bias(width), epsilon=1e-12)
        y = microsoft(n, "BiasGelu", product(n, x, width, 1024), n.bias(1024))
        x = microsoft(n, "SkipLayerNormalization", product(n, y, 1024, width), x, n.scale(width), n.bias(width), n.bias(width), epsilon=1e-12)
    n.output(x)
    n.output(n.op("Tanh", n.gemm(n.op("Gather", x, n.index(0), axis=1), width, width)))


def gpt2_optimized(n):
    """Attention of one direction with past and present as one tensor, FastGelu with its bias, sums handed on by SkipLayerNormalization; 1 token after 30."""
    width, heads, past, layers = 256, 4, 30, 4
    ids = n.input("input_ids", np.array([[11], [7]], "i4"), ["batch", "length"])
    places = n.input("position_ids", np.array([[past], [past]], "i4"), ["batch", "length"])
    mask = n.input("attention_mask", np.ones((2, past + 1), "i4"), ["batch", "total"])
    caches = [n.floats(f"past_{i}", 2, 2, heads, past, width // heads, dims=[2, "batch", heads, "past", width // heads]) for i in range(layers)]
    x = n.add(n.op("Gather", n.weight(1000, width, fan=1), ids), n.op("Gather", n.bias(256, width), places))
    y, made = n.op("LayerNormalization", x, n.scale(width), n.bias(width), epsilon=1e-5), []
    for layer in range(layers):
        y, new = microsoft(n, "Attention", y, n.weight(width, 3 * width), n.bias(3 * width), mask, caches[layer], outs=2, num_heads=heads, unidirectional=1)
        made.append(new)
        y, _, _, x = microsoft(n, "SkipLayerNormalization", x, product(n, y, width, width), n.scale(width), n.bias(width), n.bias(width), outs=4, epsilon=1e-5)
        y = microsoft(n, "FastGelu", product(n, y, width, 1024), n.bias(1024))
        y, _, _, x = microsoft(n, "SkipLayerNormalization", x, product(n, y, 1024, width), n.scale(width), n.bias(width), n.bias(width), outs=4, epsilon=1e-5)
    n.output(product(n, y, width, 1000), "logits")
    for i, new in enumerate(made):
        n.output(new, f"present_{i}")


def whisper_optimized(n):
    """A decoder step: MultiHeadAttention with caches and biases, and another whose keys and values came from the encoder as they are."""
    width, heads, size, past, frames, layers = 256, 4, 64, 20, 300, 3
    ids = n.input("decoder_input_ids", np.array([[5]], "i4"), ["batch", "length"])
    caches = [[n.floats(f"past_{what}_{i}", 1, heads, past if "self" in what else frames, size, dims=["batch", heads, "past" if "self" in what else frames, size])
               for what in ("key_self", "value_self", "key_cross", "value_cross")] for i in range(layers)]
    x = n.op("Gather", n.weight(2000, width, fan=1), ids)
    length = n.op("Unsqueeze", n.extent(caches[0][0], 2), n.integers(0))
    places = n.op("Slice", n.bias(128, width), length, n.op("Add", length, n.op("Unsqueeze", n.extent(ids, 1), n.integers(0))), n.integers(0))
    x = n.add(x, n.op("Unsqueeze", places, n.integers(0)))
    y, made = n.op("LayerNormalization", x, n.scale(width), n.bias(width), epsilon=1e-5), []
    for layer in range(layers):
        q, k, v = (product(n, y, width, width) for _ in range(3))
        y, *new = microsoft(n, "MultiHeadAttention", q, k, v, n.bias(3 * width), "", "", *caches[layer][:2], outs=3, num_heads=heads, unidirectional=1)
        made += new
        y, _, _, x = microsoft(n, "SkipLayerNormalization", x, product(n, y, width, width), n.scale(width), n.bias(width), n.bias(width), outs=4, epsilon=1e-5)
        y = microsoft(n, "MultiHeadAttention", product(n, y, width, width), *caches[layer][2:], n.bias(3 * width), num_heads=heads)
        y, _, _, x = microsoft(n, "SkipLayerNormalization", x, product(n, y, width, width), n.scale(width), n.bias(width), n.bias(width), outs=4, epsilon=1e-5)
        y = microsoft(n, "BiasGelu", product(n, y, width, 1024), n.bias(1024))
        y, _, _, x = microsoft(n, "SkipLayerNormalization", x, product(n, y, 1024, width), n.scale(width), n.bias(width), n.bias(width), outs=4, epsilon=1e-5)
    n.output(product(n, y, width, 2000), "logits")
    for i, new in enumerate(made):
        n.output(new, f"present_{i}")


def clip_optimized(n):
    """Words and an image: MultiHeadAttention with one matrix of queries, keys and values, QuickGelu, similarities of both."""
    width, heads = 192, 3

    def layers(x, count, mask=""):
        y = n.op("LayerNormalization", x, n.scale(width), n.bias(width), epsilon=1e-5)
        for _ in range(count):
            q, k, v = (n.linear(y, width, width) for _ in range(3))
            y = microsoft(n, "MultiHeadAttention", q, k, v, "", "", mask, num_heads=heads, scale=0.125)
            y, _, _, x = microsoft(n, "SkipLayerNormalization", x, n.linear(y, width, width), n.scale(width), n.bias(width), outs=4, epsilon=1e-5)
            y = microsoft(n, "QuickGelu", n.linear(y, width, 768), alpha=1.702)
            y, _, _, x = microsoft(n, "SkipLayerNormalization", x, n.linear(y, 768, width), n.scale(width), n.bias(width), outs=4, epsilon=1e-5)
        return y

    ids = n.input("input_ids", n.random.integers(0, 999, (3, 24)), ["texts", "length"])
    length = n.extent(ids, 1)
    row = n.op("Range", n.index(0), length, n.index(1))
    causal = n.op("Where", n.op("Less", n.op("Unsqueeze", row, n.integers(0)), n.op("Unsqueeze", n.add(row, n.index(1)), n.integers(1))), n.number(0), n.number(-3.4e38))
    places = n.op("Slice", n.bias(77, width), n.integers(0), n.op("Unsqueeze", length, n.integers(0)), n.integers(0))
    words = layers(n.add(n.op("Gather", n.weight(1000, width, fan=1), ids), places), 2, n.op("Unsqueeze", n.op("Unsqueeze", causal, n.integers(0)), n.integers(0)))
    ends = n.op("ArgMax", n.op("Cast", ids, to=TensorProto.INT32), axis=-1, keepdims=0)
    at = n.op("Concat", n.op("Unsqueeze", n.op("Range", n.index(0), n.extent(ids, 0), n.index(1)), n.integers(1)), n.op("Unsqueeze", ends, n.integers(1)), axis=1)
    words = n.op("MatMul", n.op("GatherND", words, at), n.weight(width, 128))
    x = n.reshape(n.conv(n.floats("pixels", 1, 3, 96, 96), 3, width, 16, 16, 0, bias=False), 1, width, 36)
    x = n.add(n.op("Concat", n.bias(1, 1, width), n.transpose(x, 0, 2, 1), axis=1), n.bias(1, 37, width))
    image = layers(n.layer_norm(x, width), 3)
    image = n.op("MatMul", n.op("Gather", image, n.index(0), axis=1), n.weight(width, 128))

    def unit(x):
        return n.op("Div", x, n.op("ReduceL2", x, axes=[-1], keepdims=1))

    scores = n.mul(n.op("MatMul", unit(image), n.transpose(unit(words), 1, 0)), n.number(14.3))
    n.output(scores), n.output(n.softmax(scores))


def phi_packed(n):
    """A prompt of 24, then caches of 40: GroupQueryAttention on packed queries, keys and values with rotation within, MatMulNBits with zero points, 4 bits in blocks of 64; masks as ORT GenAI has them."""
    width, heads, groups, size, hidden, layers, tokens, past = 256, 4, 2, 64, 640, 3, 2, 40
    ids = n.input("input_ids", n.random.integers(0, 1000, (1, tokens)), ["batch", "length"])
    mask = n.input("attention_mask", np.ones((1, past + tokens), np.int64), ["batch", "total"])
    caches = [n.floats(f"past_key_values.{i // 2}.{'value' if i % 2 else 'key'}", 1, groups, past, size, dims=["batch", groups, "past", size]) for i in range(2 * layers)]
    lengths = n.op("Cast", n.op("Sub", n.op("ReduceSum", mask, n.integers(1), keepdims=1), n.integers(1)), to=TensorProto.INT32)
    total = n.op("Cast", n.op("Gather", n.op("Shape", mask), n.index(1), axis=0), to=TensorProto.INT32)
    cos, sin = rotary_tables(n, 128, size)

    def few_bits(x, taken, made):
        blocks = taken // 64
        codes = n.constant(n.random.integers(0, 256, (made, blocks, 32)).astype("u1"))
        scales = n.constant(((n.random.random(made * blocks) + 0.5) * 0.2 * taken ** -0.5).astype("f"))
        zeros = n.constant(n.random.integers(0, 256, made * ((blocks + 1) // 2)).astype("u1"))
        return microsoft(n, "MatMulNBits", x, codes, scales, zeros, K=taken, N=made, bits=4, block_size=64, accuracy_level=4)

    x = n.op("Gather", n.weight(1000, width, fan=1), ids)
    y, made = n.op("SimplifiedLayerNormalization", x, n.scale(width), axis=-1, epsilon=1e-5, stash_type=1), []
    for layer in range(layers):
        packed = few_bits(y, width, (heads + 2 * groups) * size)
        y, *new = microsoft(n, "GroupQueryAttention", packed, "", "", caches[2 * layer], caches[2 * layer + 1], lengths, total, cos, sin, outs=3, num_heads=heads, kv_num_heads=groups,
                            do_rotary=1, rotary_interleaved=0, local_window_size=32, scale=0.125)
        made += new
        y, _, _, x = microsoft(n, "SkipSimplifiedLayerNormalization", x, few_bits(y, heads * size, width), n.scale(width), outs=4, epsilon=1e-5)
        gate, up = n.split(few_bits(y, width, 2 * hidden), -1, hidden, hidden)
        y = few_bits(n.mul(up, microsoft(n, "QuickGelu", gate, alpha=1.0)), hidden, width)
        y, _, _, x = microsoft(n, "SkipSimplifiedLayerNormalization", x, y, n.scale(width), outs=4, epsilon=1e-5)
    n.output(few_bits(y, width, 1000), "logits")
    for i, new in enumerate(made):
        n.output(new, f"present.{i // 2}.{'value' if i % 2 else 'key'}")


def experts_optimized(n):
    """MoE of com.microsoft: two of eight experts with layers of two products, RotaryEmbedding beside MultiHeadAttention, 16 tokens."""
    width, heads, size, hidden, experts, tokens = 128, 4, 32, 256, 8, 16
    x = n.floats("embeds", 1, tokens, width, dims=[1, "tokens", width])
    places = n.input("position_ids", np.arange(tokens)[None], [1, "tokens"])
    cos, sin = rotary_tables(n, 64, size)
    for _ in range(2):
        y = n.op("SimplifiedLayerNormalization", x, n.scale(width), axis=-1, epsilon=1e-5, stash_type=1)
        q, k, v = (product(n, y, width, width) for _ in range(3))
        q, k = (microsoft(n, "RotaryEmbedding", s, places, cos, sin, num_heads=heads) for s in (q, k))
        y = product(n, microsoft(n, "MultiHeadAttention", q, k, v, num_heads=heads, unidirectional=1), width, width)
        y, _, _, x = microsoft(n, "SkipSimplifiedLayerNormalization", x, y, n.scale(width), outs=4, epsilon=1e-5)
        routes = n.reshape(product(n, y, width, experts), -1, experts)
        y = microsoft(n, "MoE", y, routes, n.weight(experts, hidden, width, fan=width), n.bias(experts, hidden), n.weight(experts, width, hidden, fan=hidden), n.bias(experts, width),
                      activation_type="silu", k=2, normalize_routing_weights=1)
        x = n.add(x, y)
    n.output(x)


def bert_int8(n):
    """ONNX Runtime's dynamic quantisation after its optimizer: QAttention, DynamicQuantizeMatMul, BiasGelu and FastGelu, MatMulIntegerToFloat."""
    width, heads, tokens = 256, 4, 48
    x = n.floats("embeds", 1, tokens, width, dims=["batch", "length", width])
    lengths = n.input("ends", np.array([48], "i4"), ["batch"])

    def codes(taken, made):
        return n.constant(n.random.integers(-100, 100, (taken, made)).astype("i1"))

    def dynamic(x, taken, made, bias):
        scales = n.constant((0.006 + n.random.random(made) * 0.003).astype("f") * (128 / taken) ** 0.5)
        return microsoft(n, "DynamicQuantizeMatMul", x, codes(taken, made), scales, n.constant(np.zeros(made, "i1")), *[n.bias(made)] if bias else [])

    for _ in range(3):
        c, s, z = n.op("DynamicQuantizeLinear", x, outs=3)
        y = microsoft(n, "QAttention", c, codes(width, 3 * width), n.bias(3 * width), s, n.number(0.005), lengths, z, n.constant(np.array(0, "i1")), num_heads=heads)
        x = microsoft(n, "SkipLayerNormalization", dynamic(y, width, width, False), x, n.scale(width), n.bias(width), n.bias(width), epsilon=1e-12)
        y = microsoft(n, "BiasGelu", dynamic(x, width, 1024, False), n.bias(1024))
        x = microsoft(n, "SkipLayerNormalization", dynamic(y, 1024, width, True), x, n.scale(width), n.bias(width), epsilon=1e-12)
    c, s, z = n.op("DynamicQuantizeLinear", x, outs=3)
    n.output(microsoft(n, "MatMulIntegerToFloat", c, codes(width, 100), s, n.constant(np.full(100, 0.004, "f")), z, n.constant(np.zeros(100, "i1")), n.bias(100)))


def fused_parts(n):
    """What the optimizer leaves of a network of other kinds: FusedConv, FusedGemm, FusedMatMul with a factor and transposed sides, Gelu, TransposeMatMul, CDist."""
    x, taken = n.floats("image", 2, 3, 64, 64), 3
    for made, stride in ((16, 2), (32, 1), (64, 2), (64, 1)):
        x = microsoft(n, "FusedConv", x, n.weight(made, taken, 3, 3), n.bias(made), kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2, activation="LeakyRelu", activation_params=[0.1])
        taken = made
    y = microsoft(n, "FusedConv", x, n.weight(64, 64, 1, 1), n.bias(64), x, kernel_shape=[1, 1], activation="Relu")
    y = n.reshape(y, 2, 64, 256)
    q = n.reshape(n.transpose(y, 0, 2, 1), 2, 256, 64)
    scores = microsoft(n, "FusedMatMul", q, q, alpha=0.125, transB=1)
    w = n.softmax(n.add(scores, n.bias(1, 256, 256)))
    y = microsoft(n, "FusedMatMul", w, y, transB=1, alpha=1.0)
    y = n.reshape(microsoft(n, "Gelu", n.linear(y, 64, 128)), 512, 128)
    y = microsoft(n, "FusedGemm", y, n.weight(64, 128, fan=128), n.bias(64), transB=1, activation="Relu", alpha=0.5, beta=1.0)
    away = microsoft(n, "CDist", y, n.bias(20, 64), metric="sqeuclidean")
    n.output(n.softmax(n.op("Neg", away)))


def llama_opset23(n):
    """RMSNormalization, RotaryEmbedding and Attention as operators, caches in and out, groups of queries, a mask of booleans; 3 new tokens."""
    width, heads, groups, size, hidden, layers, tokens, past = 256, 8, 2, 32, 512, 3, 3, 37
    ids = n.input("input_ids", n.random.integers(0, 1000, (1, tokens)), ["batch", "length"])
    places = n.input("position_ids", past + np.arange(tokens)[None], ["batch", "length"])
    caches = [n.floats(f"past.{i}", 1, groups, past, size, dims=["batch", groups, "past", size]) for i in range(2 * layers)]
    cos, sin = rotary_tables(n, 128, size)
    x, made = n.op("Gather", n.weight(1000, width, fan=1), ids), []
    for layer in range(layers):
        y = n.op("RMSNormalization", x, n.scale(width), axis=-1, epsilon=1e-6)
        q, k, v = product(n, y, width, heads * size), product(n, y, width, groups * size), product(n, y, width, groups * size)
        q, k, v = (n.heads(s, count, size, -1) for s, count in ((q, heads), (k, groups), (v, groups)))
        q, k = (n.op("RotaryEmbedding", s, cos, sin, places) for s in (q, k))
        y, *new = n.op("Attention", q, k, v, "", caches[2 * layer], caches[2 * layer + 1], outs=3, is_causal=1)
        made += new
        x = n.add(x, product(n, n.reshape(n.transpose(y, 0, 2, 1, 3), 0, -1, heads * size), heads * size, width))
        y = n.op("RMSNormalization", x, n.scale(width), axis=-1, epsilon=1e-6)
        gate = product(n, y, width, hidden)
        x = n.add(x, product(n, n.mul(n.silu(gate), product(n, y, width, hidden)), hidden, width))
    n.output(product(n, n.op("RMSNormalization", x, n.scale(width), axis=-1), width, 1000), "logits")
    for i, new in enumerate(made):
        n.output(new, f"present.{i}")


def tensor_scatter(n):
    """Caches of a fixed size written by TensorScatter where a length says, Attention with the number of rows that are there, Swish; two sequences of other lengths, opset 24."""
    width, heads, size, hidden, layers, full = 256, 4, 64, 512, 3, 64
    ids = n.input("input_ids", np.array([[3], [4]]), ["batch", 1])
    at = n.input("write_indices", np.array([10, 33]), ["batch"])
    caches = [n.floats(f"past.{i}", 2, heads, full, size, dims=["batch", heads, full, size]) for i in range(2 * layers)]
    cos, sin = rotary_tables(n, 128, size)
    there = n.add(at, n.index(1))
    x, made = n.op("Gather", n.weight(1000, width, fan=1), ids), []
    for layer in range(layers):
        y = n.op("RMSNormalization", x, n.scale(width), axis=-1, epsilon=1e-6)
        q, k, v = (n.heads(product(n, y, width, width), heads, size, -1) for _ in range(3))
        q, k = (n.op("RotaryEmbedding", s, cos, sin, n.op("Unsqueeze", at, n.integers(1))) for s in (q, k))
        k, v = n.op("TensorScatter", caches[2 * layer], k, at, mode="linear", axis=-2), n.op("TensorScatter", caches[2 * layer + 1], v, at, mode="linear", axis=-2)
        made += [k, v]
        y = n.op("Attention", q, k, v, "", "", "", there)
        x = n.add(x, product(n, n.reshape(n.transpose(y, 0, 2, 1, 3), 0, -1, width), width, width))
        y = n.op("RMSNormalization", x, n.scale(width), axis=-1, epsilon=1e-6)
        x = n.add(x, product(n, n.mul(n.op("Swish", product(n, y, width, hidden)), product(n, y, width, hidden)), hidden, width))
    n.output(product(n, n.op("RMSNormalization", x, n.scale(width), axis=-1), width, 1000), "logits")
    for i, new in enumerate(made):
        n.output(new, f"present.{i}")


def gemma_opset23(n):
    """A prompt of 48: norms of queries and keys, softcap, windows as a mask made of positions, tanh Gelu, embeddings that are scaled; Attention on three axes."""
    width, heads, groups, size, hidden, tokens = 256, 4, 1, 64, 768, 48
    ids = n.input("input_ids", n.random.integers(0, 1000, (1, tokens)), [1, "length"])
    length = n.extent(ids, 1)
    row = n.op("Range", n.index(0), length, n.index(1))
    far = n.op("Sub", n.op("Unsqueeze", row, n.integers(1)), n.op("Unsqueeze", row, n.integers(0)))
    causal = n.op("GreaterOrEqual", far, n.index(0))
    window = n.op("And", causal, n.op("Less", far, n.index(16)))
    table = n.weight(1000, width, fan=1)
    x = n.mul(n.op("Gather", table, ids), n.number(width ** 0.5 / 16))
    cos, sin = rotary_tables(n, 64, size)
    places = n.op("Unsqueeze", row, n.integers(0))
    for layer in range(4):
        y = n.op("RMSNormalization", x, n.scale(width), axis=-1, epsilon=1e-6)
        q, k, v = product(n, y, width, heads * size), product(n, y, width, groups * size), product(n, y, width, groups * size)
        q, k = (n.op("RMSNormalization", n.reshape(s, 0, 0, count, size), n.scale(size), axis=-1, epsilon=1e-6) for s, count in ((q, heads), (k, groups)))
        q, k = n.reshape(q, 0, 0, -1), n.reshape(k, 0, 0, -1)
        q = n.op("RotaryEmbedding", q, cos, sin, places, num_heads=heads)
        k = n.op("RotaryEmbedding", k, cos, sin, places, num_heads=groups)
        y = n.op("Attention", q, k, v, causal if layer % 2 else window, q_num_heads=heads, kv_num_heads=groups, softcap=50.0, scale=size ** -0.5)
        x = n.add(x, n.op("RMSNormalization", product(n, y, heads * size, width), n.scale(width), axis=-1))
        y = n.op("RMSNormalization", x, n.scale(width), axis=-1, epsilon=1e-6)
        y = n.mul(n.op("Gelu", product(n, y, width, hidden), approximate="tanh"), product(n, y, width, hidden))
        x = n.add(x, n.op("RMSNormalization", product(n, y, hidden, width), n.scale(width), axis=-1))
    y = n.op("MatMul", n.slice(n.op("RMSNormalization", x, n.scale(width), axis=-1), 1, -1, None), n.transpose(table, 1, 0))
    n.output(n.mul(n.op("Tanh", n.op("Div", y, n.number(30))), n.number(30)))


def mistral_halves(n):
    """In float16 by a builder: GroupQueryAttention and norms in float16, products of halves, the head in float; one token after 20."""
    width, heads, groups, size, hidden, layers, past = 256, 4, 2, 64, 512, 2, 20
    half = lambda *shape, by=None: n.constant((n.random.standard_normal(shape) * (by or (1.2 / shape[0]) ** 0.5)).astype("f2"))
    ids = n.input("input_ids", np.array([[9]]), ["batch", "length"])
    caches = [n.input(f"past.{i}", n.random.standard_normal((1, groups, past, size)).astype("f2"), ["batch", groups, "past", size]) for i in range(2 * layers)]
    lengths, total = n.input("lengths", np.array([[past]], np.int32)), n.input("total", np.array(past + 1, np.int32))
    angles = np.arange(64)[:, None] / 10000 ** (np.arange(size // 2) / (size // 2))[None]
    cos, sin = n.constant(np.cos(angles).astype("f2")), n.constant(np.sin(angles).astype("f2"))
    x, made = n.op("Gather", half(1000, width, by=1.0), ids), []
    ones = lambda: n.constant((1 + 0.1 * n.random.standard_normal(width)).astype("f2"))
    y = n.op("SimplifiedLayerNormalization", x, ones(), axis=-1, epsilon=1e-5, stash_type=1)
    for layer in range(layers):
        q, k, v = (n.op("MatMul", y, half(width, count * size)) for count in (heads, groups, groups))
        y, *new = microsoft(n, "GroupQueryAttention", q, k, v, caches[2 * layer], caches[2 * layer + 1], lengths, total, cos, sin, outs=3, num_heads=heads, kv_num_heads=groups, do_rotary=1)
        made += new
        y, _, _, x = microsoft(n, "SkipSimplifiedLayerNormalization", x, n.op("MatMul", y, half(width, width)), ones(), outs=4, epsilon=1e-5)
        gate, up = n.op("MatMul", y, half(width, hidden)), n.op("MatMul", y, half(width, hidden))
        y = n.op("MatMul", n.mul(n.mul(gate, n.op("Sigmoid", gate)), up), half(hidden, width))
        y, _, _, x = microsoft(n, "SkipSimplifiedLayerNormalization", x, y, ones(), outs=4, epsilon=1e-5)
    n.output(n.op("MatMul", n.op("Cast", y, to=FLOAT), n.weight(width, 1000)), "logits")
    for i, new in enumerate(made):
        n.output(new, f"present.{i}", HALF)


MODELS = {f.__name__: (f, opset) for f, opset in [
    (bert_optimized, 17), (gpt2_optimized, 17), (whisper_optimized, 17), (clip_optimized, 17), (phi_packed, 17), (experts_optimized, 17), (bert_int8, 17), (fused_parts, 17),
    (llama_opset23, 23), (tensor_scatter, 24), (gemma_opset23, 23), (mistral_halves, 17)]}
