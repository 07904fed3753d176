# SPDX-License-Identifier: Apache-2.0
"""More networks that look for faces, hands, people, texts and points, with what stands before and after them, as exporters write them. What
architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT, Net
from architecture_vision import nearest, pool


def prelu(n, x, channels):
    return n.op("PRelu", x, n.constant((0.25 + n.random.standard_normal((channels, 1, 1)) * 0.1).astype("f")))


def blaze_face(n):
    """TFLite's by tf2onnx: channels padded by Pad and pools beside the convolutions, heads in NHWC."""
    def block(x, taken, made, stride):
        y = n.op("Conv", x, n.weight(taken, 1, 5, 5), n.bias(taken), group=taken, kernel_shape=[5, 5], strides=[stride, stride], auto_pad="SAME_UPPER")
        y = n.conv(y, taken, made)
        if stride == 2:
            x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER")
        if made > taken:
            x = n.transpose(n.op("Pad", n.transpose(x, 0, 2, 3, 1), n.integers(0, 0, 0, 0, 0, 0, 0, made - taken), n.number(0)), 0, 3, 1, 2)
        return n.relu(n.add(x, y))

    x = n.transpose(n.floats("input", 1, 128, 128, 3), 0, 3, 1, 2)
    x = n.relu(n.op("Conv", x, n.weight(24, 3, 5, 5), n.bias(24), kernel_shape=[5, 5], strides=[2, 2], auto_pad="SAME_UPPER"))
    for taken, made, stride in [(24, 24, 1), (24, 28, 1), (28, 32, 2), (32, 36, 1), (36, 42, 1), (42, 48, 2), (48, 56, 1), (56, 64, 1), (64, 72, 1), (72, 80, 1), (80, 88, 1)]:
        x = block(x, taken, made, stride)
    y = x
    for taken, made, stride in [(88, 96, 2), (96, 96, 1), (96, 96, 1), (96, 96, 1)]:
        y = block(y, taken, made, stride)

    def head(x, taken, made, size):
        return n.reshape(n.transpose(n.conv(x, taken, made), 0, 2, 3, 1), 1, -1, size)

    n.output(n.op("Concat", head(x, 88, 2, 1), head(y, 96, 6, 1), axis=1))
    n.output(n.op("Concat", head(x, 88, 32, 16), head(y, 96, 96, 16), axis=1))


def hand_landmarks(n):
    """PRelu after each convolution, channels padded, strides by pools; two heads of sums and one of Sigmoid."""
    x = n.transpose(n.floats("input", 1, 160, 160, 3), 0, 3, 1, 2)
    x = prelu(n, n.op("Conv", x, n.weight(16, 3, 3, 3), n.bias(16), kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"), 16)
    taken = 16
    for made, stride in [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (128, 2), (128, 1)]:
        y = n.op("Conv", x, n.weight(taken, 1, 5, 5), n.bias(taken), group=taken, kernel_shape=[5, 5], strides=[stride, stride], auto_pad="SAME_UPPER")
        y = n.conv(y, taken, made)
        if stride == 2:
            x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER")
        if made > taken:
            x = n.op("Pad", x, n.integers(0, 0, 0, 0, 0, made - taken, 0, 0), n.number(0))
        x, taken = prelu(n, n.add(x, y), made), made
    y = n.transpose(x, 0, 2, 3, 1)
    flat = n.reshape(y, 1, -1)
    n.output(n.gemm(flat, 5 * 5 * 128, 63)), n.output(n.op("Sigmoid", n.gemm(flat, 5 * 5 * 128, 1)))


def scrfd(n):
    """Faces: nine outputs of three strides, scores by Sigmoid, boxes times learned scales; height and width symbolic."""
    image = n.floats("input", 1, 3, 160, 160, dims=[1, 3, "height", "width"])
    x, taken, maps = n.relu(n.conv(image, 3, 16, 3, 2)), 16, []
    for made, stride, keep in [(32, 2, 0), (48, 2, 1), (64, 2, 1), (96, 2, 1)]:
        for repeat in range(2):
            x = n.relu(n.conv(x, taken, taken, 3, 1 if repeat else stride, groups=taken))
            x, taken = n.relu(n.conv(x, taken, made)), made
        if keep:
            maps.append((x, made))
    x = [n.conv(m, c, 24) for m, c in maps]
    for i in (1, 0):
        shape = n.op("Concat", n.op("Slice", n.op("Shape", x[i + 1]), n.integers(0), n.integers(2), n.integers(0)),
                     n.op("Unsqueeze", n.extent(x[i], 2), n.integers(0)), n.op("Unsqueeze", n.extent(x[i], 3), n.integers(0)), axis=0)
        x[i] = n.add(x[i], n.op("Resize", x[i + 1], "", "", shape, coordinate_transformation_mode="asymmetric", cubic_coeff_a=-0.75, mode="nearest", nearest_mode="floor"))
    for m in x:
        m = n.conv(m, 24, 24, 3)
        for _ in range(2):
            m = n.relu(n.conv(n.relu(n.conv(m, 24, 24, 3, groups=24)), 24, 48)) if _ == 0 else n.relu(n.conv(n.relu(n.conv(m, 48, 48, 3, groups=48)), 48, 48))
        for made, size, kind in ((2, 1, "Sigmoid"), (8, 4, None), (20, 10, None)):
            y = n.conv(m, 48, made, 3)
            y = n.mul(y, n.number(0.9)) if size == 4 else y
            y = n.reshape(n.transpose(y, 2, 3, 0, 1), -1, size)
            n.output(n.op(kind, y) if kind else y)


def yolo_v3(n):
    """The tiny one: LeakyRelu, a pool of stride one that pads on one side, Resize by a constant, boxes from anchors, then NonMaxSuppression as Keras' converter has it."""
    def conv(x, taken, made, size=3):
        return n.op("LeakyRelu", n.conv(x, taken, made, size), alpha=0.1)

    x, taken = n.transpose(n.floats("image", 1, 160, 160, 3), 0, 3, 1, 2), 3
    for made in (16, 32, 64, 128, 256):
        x, taken = conv(x, taken, made), made
        early = x
        x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER")
    x = n.op("MaxPool", conv(x, 256, 512), kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER")
    x = conv(conv(x, 512, 512), 512, 128, 1)
    big = n.conv(conv(x, 128, 256), 256, 255)
    x = n.op("Resize", conv(x, 128, 64, 1), "", n.constant(np.array([1, 1, 2, 2], "f")), coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")
    small = n.conv(conv(n.op("Concat", x, early, axis=1), 320, 128), 128, 255)
    boxes, scores = [], []
    for y, extent in ((big, 5), (small, 10)):
        y = n.reshape(n.transpose(y, 0, 2, 3, 1), -1, extent, extent, 3, 85)
        grid = np.stack(np.meshgrid(np.arange(extent), np.arange(extent)), -1).reshape(1, extent, extent, 1, 2).astype("f")
        xy = n.op("Div", n.add(n.op("Sigmoid", n.slice(y, 4, 0, 2)), n.constant(grid)), n.number(extent))
        wh = n.op("Div", n.mul(n.op("Exp", n.slice(y, 4, 2, 4)), n.constant((n.random.random((1, 1, 1, 3, 2)) * 40).astype("f"))), n.number(160))
        half = n.op("Div", wh, n.number(2))
        box = n.op("Concat", n.op("Sub", xy, half), n.add(xy, half), axis=-1)
        score = n.mul(n.op("Sigmoid", n.slice(y, 4, 4, 5)), n.op("Sigmoid", n.slice(y, 4, 5, None)))
        boxes.append(n.reshape(box, 1, -1, 4)), scores.append(n.reshape(score, 1, -1, 80))
    boxes, scores = n.op("Concat", *boxes, axis=1), n.transpose(n.op("Concat", *scores, axis=1), 0, 2, 1)
    chosen = n.op("NonMaxSuppression", boxes, scores, n.integers(20), n.constant(np.array([0.45], "f")), n.constant(np.array([0.6], "f")))
    n.output(boxes), n.output(scores), n.output(chosen, kind=7)


def yolo_v10(n):
    """Attention on the last map (C2PSA), depthwise heads, and no suppression: TopK of the best, twice, then GatherElements."""
    def conv(x, taken, made, size=1, stride=1, groups=1):
        return n.silu(n.conv(x, taken, made, size, stride, groups=groups))

    def c3k(x, taken, made):
        half = made // 2
        a, b = n.split(conv(x, taken, made), 1, half, half)
        c = n.add(b, conv(conv(b, half, half // 2, 3), half // 2, half, 3))
        return conv(n.op("Concat", a, b, c, axis=1), 3 * half, made)

    x = conv(n.floats("images", 1, 3, 192, 192), 3, 16, 3, 2)
    x = c3k(conv(x, 16, 32, 3, 2), 32, 64)
    a = c3k(conv(x, 64, 64, 3, 2), 64, 128)
    b = c3k(conv(a, 128, 128, 3, 2), 128, 128)
    c = conv(b, 128, 256, 1)
    c = n.conv(c, 256, 256, 3, 2, groups=256)
    c = c3k(c, 256, 256)
    p, q = n.split(conv(c, 256, 256), 1, 128, 128)
    qkv = n.reshape(n.conv(q, 128, 256), 1, 2, 128, 36)
    k1, k2, v = n.split(qkv, 2, 32, 32, 64)
    scores = n.softmax(n.mul(n.op("MatMul", n.transpose(k1, 0, 1, 3, 2), k2), n.number(32 ** -0.5)))
    y = n.reshape(n.op("MatMul", v, n.transpose(scores, 0, 1, 3, 2)), 1, 128, 6, 6)
    y = n.add(y, n.conv(n.reshape(v, 1, 128, 6, 6), 128, 128, 3, groups=128))
    q = n.add(q, n.conv(y, 128, 128))
    q = n.add(q, n.conv(conv(q, 128, 256), 256, 128))
    c = conv(n.op("Concat", p, q, axis=1), 256, 256)
    d = c3k(n.op("Concat", nearest(n, c), b, axis=1), 384, 128)
    e = c3k(n.op("Concat", nearest(n, d), a, axis=1), 256, 64)
    heads, points, strides = [], [], []
    for x, taken, extent, stride in ((e, 64, 24, 8), (d, 128, 12, 16), (c, 256, 6, 32)):
        box = n.conv(conv(conv(x, taken, 32, 3), 32, 32, 3), 32, 4)
        kind = conv(conv(x, taken, taken, 3, groups=taken), taken, 80)
        kind = n.conv(conv(conv(kind, 80, 80, 3, groups=80), 80, 80), 80, 80)
        heads.append(n.reshape(n.op("Concat", box, kind, axis=1), 1, 84, -1))
        points.append(np.stack(np.meshgrid(np.arange(extent) + 0.5, np.arange(extent) + 0.5)).reshape(2, -1))
        strides.append(np.full((1, extent * extent), stride))
    box, kind = n.split(n.op("Concat", *heads, axis=2), 1, 4, 80)
    at = n.constant(np.concatenate(points, 1)[None].astype("f"))
    low, high = n.op("Sub", at, n.slice(box, 1, 0, 2)), n.add(at, n.slice(box, 1, 2, 4))
    box = n.mul(n.op("Concat", low, high, axis=1), n.constant(np.concatenate(strides, 1).astype("f")))
    both = n.transpose(n.op("Concat", box, n.op("Sigmoid", kind), axis=1), 0, 2, 1)
    boxes, scores = n.split(both, 2, 4, 80)
    best = n.op("ReduceMax", scores, axes=[-1], keepdims=0)
    _, first = n.op("TopK", best, n.integers(100), outs=2, axis=-1, largest=1, sorted=1)
    first = n.op("Unsqueeze", first, n.integers(-1))
    boxes = n.op("GatherElements", boxes, n.op("Tile", first, n.integers(1, 1, 4)), axis=1)
    scores = n.op("GatherElements", scores, n.op("Tile", first, n.integers(1, 1, 80)), axis=1)
    top, at = n.op("TopK", n.reshape(scores, 1, -1), n.integers(100), outs=2, axis=-1, largest=1, sorted=1)
    row, label = n.op("Div", at, n.index(80)), n.op("Mod", at, n.index(80))
    boxes = n.op("GatherElements", boxes, n.op("Tile", n.op("Unsqueeze", row, n.integers(-1)), n.integers(1, 1, 4)), axis=1)
    n.output(n.op("Concat", boxes, n.op("Unsqueeze", top, n.integers(-1)), n.op("Unsqueeze", n.op("Cast", label, to=FLOAT), n.integers(-1)), axis=-1))


def rtm_pose(n):
    """People: CSPNeXt (depthwise windows of 5), a gated attention unit with squares of Relu, and each coordinate as a row of classes."""
    def conv(x, taken, made, size=1, stride=1, groups=1):
        return n.silu(n.conv(x, taken, made, size, stride, groups=groups))

    x, taken = conv(n.floats("input", 1, 3, 192, 128, dims=["batch", 3, 192, 128]), 3, 24, 3, 2), 24
    for made, attend in [(48, 1), (96, 1), (192, 1), (384, 1)]:
        x = conv(x, taken, made, 3, 2)
        half = made // 2
        y, short = conv(x, made, half), conv(x, made, half)
        z = conv(y, half, half, 3)
        y = n.add(conv(n.conv(z, half, half, 5, groups=half), half, half), y)
        x = n.op("Concat", y, short, axis=1)
        x = n.mul(x, n.op("HardSigmoid", n.conv(n.op("GlobalAveragePool", x), made, made), alpha=1 / 6))
        x, taken = conv(x, made, made), made
    points, width = 17, 128
    x = n.reshape(n.conv(x, 384, points, 7), n.extent(x, 0), points, -1)

    def scale_norm(x, taken):
        length = n.op("ReduceL2", x, axes=[-1], keepdims=1)
        return n.mul(n.op("Div", x, n.op("Clip", n.mul(length, n.number(taken ** -0.5)), n.number(1e-5), "")), n.number(1.1))

    x = n.op("MatMul", scale_norm(x, 24), n.weight(24, width))
    y = n.silu(n.op("MatMul", scale_norm(x, width), n.weight(width, 2 * 256 + 64)))
    u, v, base = n.split(y, 2, 256, 256, 64)
    both = n.add(n.mul(n.op("Unsqueeze", base, n.integers(2)), n.scale(1, 1, 2, 64)), n.bias(2, 64))
    q, k = (n.op("Squeeze", part, n.integers(2)) for part in n.split(both, 2, 1, 1))
    scores = n.op("Div", n.op("MatMul", q, n.transpose(k, 0, 2, 1)), n.number(8))
    kernel = n.mul(n.relu(scores), n.relu(scores))
    y = n.op("MatMul", n.mul(u, n.op("MatMul", kernel, v)), n.weight(256, width))
    x = n.add(n.mul(x, n.scale(width)), y)
    n.output(n.op("MatMul", x, n.weight(width, 256))), n.output(n.op("MatMul", x, n.weight(width, 384)))


def svtr(n):
    """PaddleOCR's recogniser by paddle2onnx: HardSigmoid times its input, BatchNormalization apart, two layers of attention on a row of columns; the width symbolic."""
    def hard(x):
        return n.mul(x, n.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))

    def norm(x, channels):
        return n.op("BatchNormalization", x, n.scale(channels), n.bias(channels), n.bias(channels), n.constant((1 + n.random.random(channels)).astype("f")), epsilon=1e-5, momentum=0.9)

    x = hard(norm(n.conv(n.floats("x", 1, 3, 48, 160, dims=["batch", 3, 48, "width"]), 3, 16, 3, 2, bias=False), 16))
    taken = 16
    for made, size, stride, gate in [(32, 3, (1, 1), 0), (64, 3, (1, 1), 0), (64, 3, (1, 1), 0), (128, 3, (2, 1), 0), (128, 3, (1, 1), 0), (256, 5, (1, 2), 0), (256, 5, (1, 1), 0),
                                     (256, 5, (1, 1), 0), (512, 5, (2, 1), 1), (512, 5, (1, 1), 1)]:
        y = n.op("Conv", x, n.weight(taken, 1, size, size), group=taken, kernel_shape=[size] * 2, pads=[size // 2] * 4, strides=list(stride), dilations=[1, 1])
        y = hard(norm(y, taken))
        if gate:
            s = n.conv(n.relu(n.conv(n.op("GlobalAveragePool", y), taken, taken // 4)), taken // 4, taken)
            y = n.mul(y, n.op("HardSigmoid", s, alpha=0.2, beta=0.5))
        x, taken = hard(norm(n.conv(y, taken, made, bias=False), made)), made
    x = n.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
    x = first = n.silu(norm(n.conv(x, 512, 64, 3, bias=False), 64))
    x = n.silu(norm(n.conv(x, 64, 120, bias=False), 120))
    shape = n.op("Shape", x)
    high, wide = (n.op("Slice", shape, n.integers(i), n.integers(i + 1), n.integers(0)) for i in (2, 3))
    x = n.transpose(n.reshape(x, 0, 120, -1), 0, 2, 1)
    for _ in range(2):
        y = n.layer_norm(x, 120)
        qkv = n.transpose(n.reshape(n.linear(y, 120, 360), 0, -1, 3, 8, 15), 2, 0, 3, 1, 4)
        q, k, v = (n.op("Squeeze", n.slice(qkv, 0, i, i + 1), n.integers(0)) for i in range(3))
        weights = n.softmax(n.op("MatMul", n.mul(q, n.number(15 ** -0.5)), n.transpose(k, 0, 1, 3, 2)))
        y = n.reshape(n.transpose(n.op("MatMul", weights, v), 0, 2, 1, 3), 0, -1, 120)
        x = n.add(x, n.linear(y, 120, 120))
        x = n.add(x, n.feed_forward(n.layer_norm(x, 120), 120, 240, n.silu))
    x = n.op("Reshape", n.transpose(n.layer_norm(x, 120), 0, 2, 1), n.op("Concat", n.integers(0, 120), high, wide, axis=0))
    x = n.silu(norm(n.conv(x, 120, 64, bias=False), 64))
    x = n.silu(norm(n.conv(n.op("Concat", first, x, axis=1), 128, 64, 3, bias=False), 64))
    x = n.transpose(n.reshape(n.reduce("ReduceMean", x, [2]), 0, 64, -1), 0, 2, 1)
    n.output(n.softmax(n.linear(x, 64, 1000), 2))


def crnn(n):
    """Text in a line: convolutions whose pools halve the height only, two bidirectional LSTM layers, batch symbolic."""
    x, taken = n.floats("image", 1, 1, 32, 128, dims=["batch", 1, 32, 128]), 1
    for made, kernel in [(32, (2, 2)), (64, (2, 2)), (128, None), (128, (2, 1)), (256, (2, 1))]:
        x, taken = n.relu(n.conv(x, taken, made, 3)), made
        if kernel:
            x = n.op("MaxPool", x, kernel_shape=list(kernel), strides=list(kernel), pads=[0] * 4)
    x = n.relu(n.conv(x, 256, 256, 2, 1, 0))
    x = n.transpose(n.op("Squeeze", x, n.integers(2)), 2, 0, 1)
    taken = 256
    for made in (128, 80):
        batch = n.op("Unsqueeze", n.extent(x, 1), n.integers(0))
        zeros = n.op("ConstantOfShape", n.op("Concat", n.integers(2), batch, n.integers(128), axis=0), value=helper.make_tensor("", FLOAT, [1], [0.0]))
        y = n.op("LSTM", x, n.weight(2, 512, taken, fan=taken), n.weight(2, 512, 128, fan=128), n.bias(2, 1024), "", zeros, zeros, outs=3, direction="bidirectional", hidden_size=128)[0]
        y = n.op("Reshape", n.transpose(y, 0, 2, 1, 3), n.integers(0, 0, -1))
        rows = n.op("Reshape", y, n.op("Concat", n.op("Unsqueeze", n.mul(n.extent(y, 0), n.extent(y, 1)), n.integers(0)), n.integers(256), axis=0))
        x = n.op("Reshape", n.gemm(rows, 256, made), n.op("Concat", n.op("Unsqueeze", n.extent(y, 0), n.integers(0)), n.op("Unsqueeze", n.extent(y, 1), n.integers(0)), n.integers(-1), axis=0))
        taken = made
    n.output(x)


def point_pillars(n):
    """Points of pillars by a small network and a maximum, put into a map by ScatterND, then convolutions."""
    pillars, extent = 400, 48
    x = n.floats("pillars", pillars, 20, 10, dims=["pillars", 20, 10])
    at = n.input("coordinates", n.random.permutation(extent * extent)[:pillars].reshape(-1, 1), ["pillars", 1])
    y = n.op("MatMul", x, n.weight(10, 32))
    y = n.op("BatchNormalization", n.transpose(y, 0, 2, 1), n.scale(32), n.bias(32), n.bias(32), n.constant(np.ones(32, "f")), epsilon=1e-3)
    y = n.op("ReduceMax", n.relu(n.transpose(y, 0, 2, 1)), axes=[1], keepdims=0)
    canvas = n.op("ScatterND", n.constant(np.zeros((extent * extent, 32), "f")), at, y)
    x = n.reshape(n.transpose(canvas, 1, 0), 1, 32, extent, extent)
    ups, taken = [], 32
    for made, factor in [(32, 1), (64, 2), (128, 4)]:
        x = n.relu(n.conv(x, taken, made, 3, 1 if factor == 1 else 2))
        x, taken = n.relu(n.conv(n.relu(n.conv(x, made, made, 3)), made, made, 3)), made
        ups.append(n.relu(n.conv_transpose(x, made, 64, factor, factor)))
    x = n.op("Concat", *ups, axis=1)
    n.output(n.conv(x, 192, 6)), n.output(n.conv(x, 192, 14)), n.output(n.conv(x, 192, 4))


def photo_pipeline(n):
    """Bytes of an image to boxes: Cast, Resize to the shorter side, a crop, normalisation, a small network, suppression, and the best ones scaled back."""
    image = n.input("image", n.random.integers(0, 256, (180, 240, 3)).astype("u1"), ["height", "width", 3])
    shape = n.op("Shape", image)
    high, wide = (n.op("Cast", n.op("Gather", shape, n.index(i), axis=0), to=FLOAT) for i in (0, 1))
    ratio = n.op("Div", n.number(144), n.op("Min", high, wide))
    x = n.op("Unsqueeze", n.transpose(n.op("Cast", image, to=FLOAT), 2, 0, 1), n.integers(0))
    sizes = n.op("Concat", n.integers(1, 3), *[n.op("Unsqueeze", n.op("Cast", n.op("Round", n.mul(v, ratio)), to=7), n.integers(0)) for v in (high, wide)], axis=0)
    x = n.op("Resize", x, "", "", sizes, coordinate_transformation_mode="half_pixel", mode="linear")
    shape = n.op("Shape", x)
    for axis in (2, 3):
        start = n.op("Div", n.op("Sub", n.op("Gather", shape, n.index(axis), axis=0), n.index(128)), n.index(2))
        start = n.op("Unsqueeze", start, n.integers(0))
        x = n.op("Slice", x, start, n.add(start, n.integers(128)), n.integers(axis), n.integers(1))
    mean, deviation = n.constant(np.array([123.7, 116.3, 103.5], "f").reshape(1, 3, 1, 1)), n.constant(np.array([58.4, 57.1, 57.4], "f").reshape(1, 3, 1, 1))
    x = n.reshape(n.op("Div", n.op("Sub", x, mean), deviation), 1, 3, 128, 128)
    taken = 3
    for made in (16, 32, 64, 64):
        x, taken = n.relu(n.conv(x, taken, made, 3, 2)), made
    y = n.transpose(n.reshape(n.conv(x, 64, 9, 3), 1, 9, 64), 0, 2, 1)
    boxes, scores = n.op("Sigmoid", n.slice(y, 2, 0, 4)), n.op("Sigmoid", n.slice(y, 2, 4, None))
    chosen = n.op("NonMaxSuppression", boxes, n.transpose(scores, 0, 2, 1), n.integers(5), n.constant(np.array([0.5], "f")), n.constant(np.array([0.5], "f")))
    which = n.op("Gather", chosen, n.index(2), axis=1)
    n.output(n.op("Div", n.mul(n.op("Gather", n.op("Squeeze", boxes, n.integers(0)), which, axis=0), n.number(128)), ratio))
    n.output(n.op("Gather", chosen, n.index(1), axis=1), kind=7)


MODELS = {f.__name__: (f, opset) for f, opset in [
    (blaze_face, 13), (hand_landmarks, 13), (scrfd, 11 + 4), (yolo_v3, 13), (yolo_v10, 17), (rtm_pose, 15), (svtr, 14), (crnn, 14), (point_pillars, 15), (photo_pipeline, 17)]}
