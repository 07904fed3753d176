# SPDX-License-Identifier: Apache-2.0
"""More networks in few bits, as ONNX quantisers and converters to float16 write them: QDQ, QOperator, dynamic, weights of 4 bits, islands of Cast. What
architecture_models.py saves."""
import numpy as np
from onnx import TensorProto

from architecture_images import quantized, quantized_conv
from architecture_net import FLOAT, Net

MICROSOFT = "com.microsoft"
HALF = TensorProto.FLOAT16


def efficientnet_qdq(n):
    """Sigmoid, Mul and the gates have their own codes; the mean of a map too."""
    def silu(x, scale):
        return quantized(n, n.mul(x, quantized(n, n.op("Sigmoid", x), 1 / 255, -128)), scale, -100)

    x = quantized(n, n.floats("image", 1, 3, 128, 128), 0.04, 0)
    x, taken = silu(quantized(n, quantized_conv(n, x, 3, 32, 3, 2), 0.05, 0), 0.04), 32
    for expand, made, stride, size in [(1, 16, 1, 3), (6, 24, 2, 3), (6, 24, 1, 3), (6, 40, 2, 5), (6, 40, 1, 5), (6, 80, 2, 3), (6, 80, 1, 3), (6, 112, 1, 5), (6, 192, 2, 5)]:
        wide = taken * expand
        y = silu(quantized(n, quantized_conv(n, x, taken, wide), 0.05, 0), 0.04) if expand > 1 else x
        y = silu(quantized(n, quantized_conv(n, y, wide, wide, size, stride, wide), 0.05, 0), 0.04)
        s = quantized(n, n.op("GlobalAveragePool", y), 0.02, -100)
        s = silu(quantized(n, quantized_conv(n, s, wide, taken // 4), 0.05, 0), 0.04)
        s = quantized(n, n.op("Sigmoid", quantized(n, quantized_conv(n, s, taken // 4, wide), 0.05, 0)), 1 / 255, -128)
        y = quantized(n, quantized_conv(n, quantized(n, n.mul(y, s), 0.03, -100), wide, made), 0.05, 2)
        x, taken = quantized(n, n.add(y, x), 0.06, -3) if stride == 1 and taken == made else y, made
    n.output(n.op("GlobalAveragePool", x))


def dense(n, taken, made):
    """Weights of 8 bits by column."""
    scales = ((n.random.random(made) + 0.5) * 0.02 * taken ** -0.5).astype("f")
    return n.op("DequantizeLinear", n.constant(n.random.integers(-127, 128, (taken, made)).astype("i1")), n.constant(scales), n.constant(np.zeros(made, "i1")), axis=1)


def vit_qdq(n):
    """Products, Softmax and Add quantised, normalisation and Gelu not; unsigned codes."""
    width, heads, size, tokens = 192, 3, 64, 65

    def coded(x, scale=0.04, zero=128):
        s, z = n.number(scale), n.constant(np.array(zero, "u1"))
        return n.op("DequantizeLinear", n.op("QuantizeLinear", x, s, z), s, z)

    def linear(x, taken, made):
        return coded(n.add(coded(n.op("MatMul", x, dense(n, taken, made)), 0.03), n.bias(made)), 0.03)

    x = coded(quantized_conv(n, coded(n.floats("image", 1, 3, 128, 128)), 3, width, 16, 16, pad=0))
    x = n.transpose(n.reshape(x, 1, width, 64), 0, 2, 1)
    x = coded(n.add(n.op("Concat", n.bias(1, 1, width), x, axis=1), n.bias(1, tokens, width)))
    for _ in range(4):
        y = coded(n.layer_norm(x, width, 1e-6))
        q, k, v = (n.heads(linear(y, width, width), heads, size, tokens) for _ in range(3))
        scores = coded(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), 0.1)
        weights = coded(n.softmax(coded(n.op("Div", scores, n.number(8)), 0.02)), 1 / 255, 0)
        y = coded(n.op("MatMul", weights, v), 0.02)
        x = coded(n.add(x, linear(n.reshape(n.transpose(y, 0, 2, 1, 3), 1, tokens, width), width, width)))
        y = linear(coded(n.layer_norm(x, width, 1e-6)), width, 4 * width)
        x = coded(n.add(x, linear(coded(n.gelu(y), 0.02, 10), 4 * width, width)))
    y = coded(n.op("Gather", n.layer_norm(x, width, 1e-6), n.index(0), axis=1))
    n.output(coded(n.op("Gemm", y, dense(n, width, 100), n.bias(100)), 0.03))


def unet_qdq(n):
    """Concat, Resize, MaxPool and ConvTranspose among the codes."""
    def step(x, taken, made):
        return quantized(n, n.relu(quantized_conv(n, x, taken, made, 3)), 0.03, -128)

    x, skips, taken = quantized(n, n.floats("image", 1, 3, 96, 96), 0.04, 0), [], 3
    for width in (16, 32, 64):
        x, taken = step(step(x, taken, width), width, width), width
        skips.append((x, width))
        x = quantized(n, n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 0.03, -128)
    x, taken = step(x, 64, 128), 128
    for i, (skip, width) in enumerate(reversed(skips)):
        if i % 2:
            scales = n.number(0.004)
            w = n.op("DequantizeLinear", n.constant(n.random.integers(-127, 128, (taken, width, 2, 2)).astype("i1")), scales, n.constant(np.array(0, "i1")))
            x = n.op("ConvTranspose", x, w, n.bias(width), kernel_shape=[2, 2], strides=[2, 2])
        else:
            x = n.op("Resize", x, "", n.constant(np.array([1, 1, 2, 2], "f")), coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")
            x = quantized_conv(n, quantized(n, x, 0.03, -128), taken, width)
        x = quantized(n, n.op("Concat", quantized(n, x, 0.03, -128), skip, axis=1), 0.03, -128)
        x, taken = step(x, 2 * width, width), width
    n.output(quantized(n, quantized_conv(n, x, 16, 4), 0.05, 0))


def yolo_qdq(n):
    """C3 blocks whose parts join in Concat, pools of a pool, nearest Resize, codes of Sigmoid; the boxes in float."""
    def silu(x):
        x = quantized(n, x, 0.05, 0)
        return quantized(n, n.mul(x, quantized(n, n.op("Sigmoid", x), 1 / 255, -128)), 0.03, -118)

    def conv(x, taken, made, size=1, stride=1):
        return silu(quantized_conv(n, x, taken, made, size, stride))

    def join(*values):
        return quantized(n, n.op("Concat", *values, axis=1), 0.03, -118)

    def c3(x, taken, made):
        half = made // 2
        y = conv(x, taken, half)
        y = quantized(n, n.add(y, conv(conv(y, half, half), half, half, 3)), 0.03, -100)
        return conv(join(y, conv(x, taken, half)), made, made)

    x = conv(quantized(n, n.floats("image", 1, 3, 160, 160), 0.01, -128), 3, 16, 3, 2)
    x = c3(conv(x, 16, 32, 3, 2), 32, 32)
    a = c3(conv(x, 32, 64, 3, 2), 64, 64)
    b = c3(conv(a, 64, 128, 3, 2), 128, 128)
    y = [conv(b, 128, 64)]
    for _ in range(3):
        y.append(n.op("MaxPool", y[-1], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]))
    b = conv(join(*y), 256, 128)
    up = n.op("Resize", conv(b, 128, 64), "", n.constant(np.array([1, 1, 2, 2], "f")), coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")
    c = c3(join(up, a), 128, 64)
    rows = []
    for x, taken, extent in ((c, 64, 20), (b, 128, 10)):
        y = quantized(n, quantized_conv(n, x, taken, 18), 0.05, 0)
        rows.append(n.reshape(n.transpose(n.reshape(y, 1, 3, 6, extent, extent), 0, 1, 3, 4, 2), 1, -1, 6))
    n.output(n.op("Sigmoid", n.op("Concat", *rows, axis=1)))


class Codes:
    """QOperator form: values are codes, each with the names of its scale and its zero."""

    def __init__(self, n, kind="u1"):
        self.n, self.kind = n, kind

    def ends(self, scale, zero):
        return self.n.number(scale), self.n.constant(np.array(zero, self.kind))

    def start(self, x, scale, zero):
        ends = self.ends(scale, zero)
        return (self.n.op("QuantizeLinear", x, *ends), *ends)

    def end(self, x):
        return self.n.op("DequantizeLinear", *x)

    def conv(self, x, taken, made, size=1, stride=1, groups=1, scale=0.03, zero=0):
        n, ends = self.n, self.ends(scale, zero)
        fan = taken // groups * size * size
        scales = ((n.random.random(made) + 0.5) * 0.012 * (4 / fan) ** 0.5).astype("f")
        w = n.constant(n.random.integers(-127, 128, (made, taken // groups, size, size)).astype("i1"))
        y = n.op("QLinearConv", *x, w, n.constant(scales), n.constant(np.zeros(made, "i1")), *ends, n.constant(n.random.integers(-900, 900, made).astype("i4")),
                 dilations=[1, 1], group=groups, kernel_shape=[size] * 2, pads=[size // 2] * 4, strides=[stride] * 2)
        return (y, *ends)

    def other(self, kind, *values, scale=0.03, zero=0, **attributes):
        ends = self.ends(scale, zero)
        flat = [part for value in values for part in value]
        inputs = [*ends, *flat] if kind == "QLinearConcat" else [*flat, *ends]
        return (self.n.op(kind, *inputs, domain=MICROSOFT, **attributes), *ends)


def resnet_qoperator(n):
    q = Codes(n)
    x = q.conv(q.start(n.floats("image", 1, 3, 128, 128), 0.04, 128), 3, 64, 7, 2)
    x = (n.op("MaxPool", x[0], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]), *x[1:])
    taken = 64
    for made, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1)]:
        y = q.conv(q.conv(x, taken, made, 3, stride), made, made, 3, zero=120)
        short = q.conv(x, taken, made, 1, stride, zero=120) if made != taken else x
        x, taken = q.other("QLinearAdd", y, short), made
    x = q.other("QLinearGlobalAveragePool", x, channels_last=0)
    x = (n.op("Flatten", x[0], axis=1), *x[1:])
    ends = q.ends(0.05, 110)
    w = [n.constant(n.random.integers(-127, 128, (100, 256)).astype("i1")), n.number(0.002), n.constant(np.array(0, "i1"))]
    y = n.op("QGemm", *x, *w, n.constant(n.random.integers(-900, 900, 100).astype("i4")), *ends, domain=MICROSOFT, alpha=1.0, transB=1)
    n.output(q.end((y, *ends)))


def shuffle_qoperator(n):
    """Two halves of channels, one by depthwise convolutions, shuffled by Transpose; gates by QLinearSigmoid and QLinearMul, LeakyRelu and Concat of codes."""
    q = Codes(n, "i1")

    def moved(x, kind, *inputs, **attributes):
        return (n.op(kind, x[0], *inputs, **attributes), *x[1:])

    x, taken, extent = q.conv(q.start(n.floats("image", 1, 3, 160, 160), 0.04, 0), 3, 24, 3, 2, zero=-128), 24, 80
    for made, repeats in [(48, 2), (96, 3), (192, 2)]:
        a = q.conv(q.conv(x, taken, taken, 3, 2, taken, zero=2), taken, made // 2, zero=-128)
        b = q.conv(q.conv(q.conv(x, taken, made // 2, zero=-128), made // 2, made // 2, 3, 2, made // 2, zero=2), made // 2, made // 2, zero=-128)
        x, taken, extent = q.other("QLinearConcat", a, b, zero=-128, axis=1), made, extent // 2
        for _ in range(repeats):
            half = made // 2
            x = moved(moved(moved(x, "Reshape", n.integers(1, 2, half, extent, extent)), "Transpose", perm=[0, 2, 1, 3, 4]), "Reshape", n.integers(1, made, extent, extent))
            names = n.split(x[0], 1, half, half)
            a, b = (names[0], *x[1:]), (names[1], *x[1:])
            b = q.other("QLinearLeakyRelu", q.conv(b, half, half, zero=0), zero=-100, alpha=0.1)
            b = q.conv(q.conv(b, half, half, 3, 1, half, zero=2), half, half, zero=-128)
            s = q.other("QLinearSigmoid", q.conv(q.other("QLinearGlobalAveragePool", b, zero=-128, channels_last=0), half, half), scale=1 / 256, zero=-128)
            x = q.other("QLinearConcat", a, q.other("QLinearMul", b, s, zero=-128), zero=-128, axis=1)
    n.output(q.end(q.other("QLinearGlobalAveragePool", q.conv(x, 192, 512, zero=-128), zero=-128, channels_last=0)))


def lstm_dynamic(n):
    """Dynamically quantised: DynamicQuantizeLSTM, then MatMulInteger with Casts and Muls; batch and time are symbolic."""
    size = 128
    x = n.floats("features", 40, 2, 64, dims=["time", "batch", 64])
    taken = 64
    for _ in range(2):
        w, r = n.random.integers(-127, 128, (1, taken, 4 * size)).astype("i1"), n.random.integers(-127, 128, (1, size, 4 * size)).astype("i1")
        y = n.op("DynamicQuantizeLSTM", x, n.constant(w), n.constant(r), n.bias(1, 8 * size), "", "", "", "", n.constant(np.full((1,), 0.001, "f")),
                 n.constant(np.zeros(1, "i1")), n.constant(np.full((1,), 0.001, "f")), n.constant(np.zeros(1, "i1")), outs=3, domain=MICROSOFT, hidden_size=size,
                 direction="forward")[0]
        x, taken = n.op("Squeeze", y, n.integers(1)), size
    codes, scale, zero = n.op("DynamicQuantizeLinear", x, outs=3)
    y = n.op("MatMulInteger", codes, n.constant(n.random.integers(-127, 128, (size, 200)).astype("i1")), zero, n.constant(np.array(0, "i1")))
    y = n.mul(n.op("Cast", y, to=FLOAT), n.mul(scale, n.number(0.002)))
    n.output(n.softmax(n.add(y, n.bias(200))))


def llama_4bit(n):
    """A prompt of 32 tokens through weights of 4 bits in blocks of 32, with GroupQueryAttention, RMS norms with skips and rotary tables, as onnxruntime-genai writes it."""
    width, heads, groups, size, hidden, layers, tokens = 256, 4, 2, 64, 512, 3, 32
    ids = n.input("ids", n.random.integers(0, 1000, (1, tokens)))
    caches = [n.input(f"past.{i}", np.zeros((1, groups, 0, size), "f"), [1, groups, "past", size]) for i in range(2 * layers)]
    lengths, total = n.input("lengths", np.array([[tokens - 1]], np.int32)), n.input("total", np.array(tokens, np.int32))
    angles = np.arange(128)[:, None] / 10000 ** (np.arange(size // 2) / (size // 2))[None]
    cos, sin = n.constant(np.cos(angles).astype("f")), n.constant(np.sin(angles).astype("f"))

    def product(x, taken, made):
        blocks = taken // 32
        codes = n.constant(n.random.integers(0, 256, (made, blocks, 16)).astype("u1"))
        scales = n.constant(((n.random.random(made * blocks) + 0.5) * 0.2 * taken ** -0.5).astype("f"))
        return n.op("MatMulNBits", x, codes, scales, domain=MICROSOFT, K=taken, N=made, bits=4, block_size=32)

    x = n.op("Gather", n.weight(1000, width, fan=1), ids)
    y = n.op("SimplifiedLayerNormalization", x, n.scale(width), axis=-1, epsilon=1e-6)
    made = []
    for layer in range(layers):
        q, k, v = product(y, width, heads * size), product(y, width, groups * size), product(y, width, groups * size)
        y, *new = n.op("GroupQueryAttention", q, k, v, caches[2 * layer], caches[2 * layer + 1], lengths, total, cos, sin, outs=3, domain=MICROSOFT, num_heads=heads,
                       kv_num_heads=groups, do_rotary=1)
        made += new
        y, _, _, x = n.op("SkipSimplifiedLayerNormalization", x, product(y, heads * size, width), n.scale(width), outs=4, domain=MICROSOFT, epsilon=1e-6)
        y = product(n.mul(n.silu(product(y, width, hidden)), product(y, width, hidden)), hidden, width)
        y, _, _, x = n.op("SkipSimplifiedLayerNormalization", x, y, n.scale(width), outs=4, domain=MICROSOFT, epsilon=1e-6)
    n.output(product(y, width, 1000))
    for value in made:
        n.output(value)


def half_weight(n, *shape):
    return n.constant((n.random.standard_normal(shape) * (1.2 / shape[0]) ** 0.5).astype("f2"))


def bert_halves(n):
    """In float16 by a converter: normalisation and Softmax between Casts to float and back."""
    width, heads, size, tokens = 256, 4, 64, 64
    x = n.op("Cast", n.floats("tokens", 1, tokens, width), to=HALF)

    def linear(x, taken, made):
        return n.add(n.op("MatMul", x, half_weight(n, taken, made)), n.constant((n.random.standard_normal(made) * 0.1).astype("f2")))

    def island(f, x, *more):
        return n.op("Cast", f(n.op("Cast", x, to=FLOAT), *more), to=HALF)

    for _ in range(3):
        q, k, v = (n.heads(linear(x, width, width), heads, size, tokens, order) for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = n.op("Div", n.op("MatMul", q, k), n.constant(np.array(8, "f2")))
        y = n.op("MatMul", island(n.softmax, scores), v)
        y = linear(n.reshape(n.transpose(y, 0, 2, 1, 3), 1, tokens, width), width, width)
        x = island(lambda z: n.layer_norm(z, width), n.add(x, y))
        y = linear(x, width, 1024)
        erf = n.op("Erf", n.op("Div", y, n.constant(np.array(2 ** 0.5, "f2"))))
        y = n.mul(n.mul(y, n.add(erf, n.constant(np.array(1, "f2")))), n.constant(np.array(0.5, "f2")))
        x = island(lambda z: n.layer_norm(z, width), n.add(x, linear(y, 1024, width)))
    n.output(n.op("Cast", x, to=FLOAT))


def resnet_halves(n):
    """Convolutions in float16; Resize and the head in float, between Casts."""
    def conv(x, taken, made, size=1, stride=1):
        w = n.constant((n.random.standard_normal((made, taken, size, size)) * (1.6 / (taken * size * size)) ** 0.5).astype("f2"))
        return n.op("Conv", x, w, n.constant((n.random.standard_normal(made) * 0.1).astype("f2")), kernel_shape=[size] * 2, pads=[size // 2] * 4, strides=[stride] * 2)

    x = n.op("Cast", n.floats("image", 1, 3, 96, 96), to=HALF)
    x, taken = n.relu(conv(x, 3, 32, 3, 2)), 32
    for made, stride in [(32, 1), (64, 2), (64, 1), (128, 2), (128, 1)]:
        y = conv(n.relu(conv(x, taken, made, 3, stride)), made, made, 3)
        x, taken = n.relu(n.add(y, conv(x, taken, made, 1, stride) if made != taken else x)), made
    x = n.op("Resize", n.op("Cast", x, to=FLOAT), "", n.constant(np.array([1, 1, 4, 4], "f")), coordinate_transformation_mode="half_pixel", mode="linear")
    x = conv(n.op("Cast", x, to=HALF), 128, 8)
    n.output(n.op("Cast", n.softmax(x, 1), to=FLOAT))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (efficientnet_qdq, 17), (vit_qdq, 17), (unet_qdq, 17), (yolo_qdq, 17), (resnet_qoperator, 17), (shuffle_qoperator, 17), (lstm_dynamic, 17), (llama_4bit, 17),
    (bert_halves, 17), (resnet_halves, 17)]}
