# SPDX-License-Identifier: Apache-2.0
"""More networks on images, as exporters write them: classifiers, segmentation, depth, restoration, flow and stereo. What architecture_models.py
saves."""
import numpy as np


def pool(n, x, size=3, stride=2, pads=1, kind="MaxPool", **more):
    return n.op(kind, x, kernel_shape=[size, size], pads=[pads] * 4, strides=[stride, stride], **more)


def hard_swish(n, x):
    return n.op("HardSwish", x)


def relu6(n, x):
    return n.op("Clip", x, n.number(0), n.number(6))


def nearest(n, x, factor=2):
    return n.op("Resize", x, "", n.constant(np.array([1, 1, factor, factor], "f")), coordinate_transformation_mode="asymmetric", cubic_coeff_a=-0.75, mode="nearest",
                nearest_mode="floor")


def bilinear(n, x, factor=2, corners=True):
    return n.op("Resize", x, "", n.constant(np.array([1, 1, factor, factor], "f")), coordinate_transformation_mode="align_corners" if corners else "half_pixel",
                cubic_coeff_a=-0.75, mode="linear", nearest_mode="floor")


def excite(n, x, channels, squeezed, activation=None, gate="Sigmoid"):
    y = n.op("GlobalAveragePool", x)
    y = n.conv((activation or n.relu)(n.conv(y, channels, squeezed)), squeezed, channels)
    return n.mul(x, n.op(gate, y))


def classify(n, x, channels, classes=1000):
    n.output(n.gemm(n.op("Flatten", n.op("GlobalAveragePool", x), axis=1), channels, classes))


def efficientvit(n):
    """Attention that is linear: products of keys and values first, with a row of ones put beside the values."""
    def inverted(x, taken, made, stride, expand=4):
        y = hard_swish(n, n.conv(x, taken, taken * expand))
        y = n.conv(hard_swish(n, n.conv(y, taken * expand, taken * expand, 3, stride, groups=taken * expand)), taken * expand, made)
        return n.add(y, x) if taken == made and stride == 1 else y

    x = hard_swish(n, n.conv(n.floats("image", 1, 3, 192, 192), 3, 16, 3, 2))
    x = n.add(n.conv(hard_swish(n, n.conv(x, 16, 16, 3, groups=16)), 16, 16), x)
    for taken, made in [(16, 32), (32, 32), (32, 64), (64, 64)]:
        x = inverted(x, taken, made, 2 if made > taken else 1)
    for taken, width, extent in [(64, 128, 12), (128, 256, 6)]:
        x = inverted(x, taken, width, 2)
        for _ in range(2):
            qkv = n.conv(x, width, 3 * width, bias=False)
            more = n.conv(n.conv(qkv, 3 * width, 3 * width, 5, groups=3 * width, bias=False), 3 * width, 3 * width, groups=3 * width // 16, bias=False)
            both = n.transpose(n.reshape(n.op("Concat", qkv, more, axis=1), 1, -1, 48, extent * extent), 0, 1, 3, 2)
            q, k, v = n.slice(both, 3, 0, 16), n.slice(both, 3, 16, 32), n.slice(both, 3, 32, None)
            q, k = n.relu(q), n.transpose(n.relu(k), 0, 1, 3, 2)
            v = n.op("Pad", v, n.integers(0, 0, 0, 0, 0, 0, 0, 1), n.number(1), mode="constant")
            y = n.op("MatMul", q, n.op("MatMul", k, v))
            y = n.op("Div", n.slice(y, 3, 0, -1), n.add(n.slice(y, 3, -1, None), n.number(1e-15)))
            y = n.reshape(n.transpose(y, 0, 1, 3, 2), 1, -1, extent, extent)
            x = inverted(n.add(x, n.conv(y, 2 * width, width)), width, width, 1)
    classify(n, hard_swish(n, n.conv(x, 256, 1024)), 1024)


def ghostnet(n):
    """Half of the channels by convolutions of each one, put beside the others and cut to the number that is wanted."""
    def ghost(x, taken, made, act=True):
        half = (made + 1) // 2
        y = n.conv(x, taken, half)
        y = n.relu(y) if act else y
        z = n.conv(y, half, half, 3, groups=half)
        return n.slice(n.op("Concat", y, n.relu(z) if act else z, axis=1), 1, 0, made)

    x, taken = n.relu(n.conv(n.floats("image", 1, 3, 192, 192), 3, 16, 3, 2)), 16
    for size, wide, made, squeeze, stride in [(3, 16, 16, 0, 1), (3, 48, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 1, 2), (5, 120, 40, 1, 1), (3, 240, 80, 0, 2),
                                              (3, 200, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 1, 1), (5, 672, 160, 1, 2), (5, 960, 160, 0, 1), (5, 960, 160, 1, 1)]:
        y = ghost(x, taken, wide)
        if stride > 1:
            y = n.conv(y, wide, wide, size, stride, groups=wide)
        if squeeze:
            s = n.reduce("ReduceMean", y, [2, 3])
            s = n.conv(n.relu(n.conv(s, wide, wide // 4)), wide // 4, wide)
            y = n.mul(y, n.op("HardSigmoid", s, alpha=1 / 6))
        y = ghost(y, wide, made, False)
        if stride > 1 or taken != made:
            x = n.conv(n.conv(x, taken, taken, size, stride, groups=taken), taken, made)
        x, taken = n.add(y, x), made
    classify(n, n.relu(n.conv(x, 160, 960)), 960)


def hrnet(n):
    """Maps of four extents side by side, each added to all others by strides and nearest neighbours."""
    def basic(x, width):
        return n.relu(n.add(n.conv(n.relu(n.conv(x, width, width, 3)), width, width, 3), x))

    x = n.relu(n.conv(n.relu(n.conv(n.floats("image", 1, 3, 192, 160), 3, 32, 3, 2)), 32, 32, 3, 2))
    widths = [16, 32, 64, 128]
    maps = [n.relu(n.conv(x, 32, 16, 3)), n.relu(n.conv(x, 32, 32, 3, 2))]
    for stage in range(2, 5):
        for i, width in enumerate(widths[:stage]):
            maps[i] = basic(basic(maps[i], width), width)
        fused = []
        for i in range(stage):
            total = None
            for j in range(stage):
                y = maps[j]
                if j > i:
                    y = nearest(n, n.conv(y, widths[j], widths[i]), 1 << (j - i))
                elif j < i:
                    for step in range(i - j):
                        last = step == i - j - 1
                        y = n.conv(y, widths[j], widths[i] if last else widths[j], 3, 2)
                        y = y if last else n.relu(y)
                total = n.add(total, y) if total else y
            fused.append(n.relu(total))
        maps = fused
        if stage < 4:
            maps.append(n.relu(n.conv(maps[-1], widths[stage - 1], widths[stage], 3, 2)))
    n.output(n.conv(maps[0], 16, 17))


def regnet(n):
    """RegNetY: groups of eight channels, and gates whose width is that of what comes in."""
    x, taken = n.relu(n.conv(n.floats("image", 1, 3, 192, 192), 3, 32, 3, 2)), 32
    for made, repeats in [(48, 1), (104, 2), (208, 4), (440, 2)]:
        for repeat in range(repeats):
            stride = 1 if repeat else 2
            y = n.relu(n.conv(n.relu(n.conv(x, taken, made)), made, made, 3, stride, groups=made // 8))
            y = n.conv(excite(n, y, made, taken // 4), made, made)
            x = n.relu(n.add(y, n.conv(x, taken, made, 1, stride) if stride > 1 else x))
            taken = made
    classify(n, x, 440)


def nfnet(n):
    """No normalisation: Gelu times a number, residuals times another, shortcuts by AveragePool."""
    def act(x):
        return n.mul(n.gelu(x), n.number(1.7015))

    x, taken = n.conv(n.floats("image", 1, 3, 128, 128), 3, 16, 3, 2), 16
    for made, stride in [(32, 1), (64, 2)]:
        x, taken = n.conv(act(x), taken, made, 3, stride), made
    for made, repeats, stride in [(128, 1, 1), (256, 2, 2), (512, 2, 2)]:
        for repeat in range(repeats):
            y = n.mul(act(x), n.number(0.98))
            short = x
            if repeat == 0:
                short = pool(n, y, 2, 2, 0, "AveragePool", ceil_mode=1, count_include_pad=0) if stride > 1 else y
                short = n.conv(short, taken, made)
            half = made // 2
            z = act(n.conv(y, taken, half))
            z = act(n.conv(z, half, half, 3, 1 if repeat else stride, groups=half // 64))
            z = n.conv(act(n.conv(z, half, half, 3, groups=half // 64)), half, made)
            z = n.mul(excite(n, z, made, made // 4), n.number(2))
            x, taken = n.add(n.mul(z, n.number(0.2)), short), made
    classify(n, act(n.conv(x, 512, 1024)), 1024)


def inception_resnet(n):
    """Keras' by tf2onnx: windows of one row or one column, residuals times a number, NHWC at the input only."""
    x = n.transpose(n.floats("image", 1, 139, 139, 3), 0, 3, 1, 2)
    x = n.relu(n.conv(n.relu(n.conv(n.relu(n.conv(x, 3, 32, 3, 2, 0)), 32, 32, 3, 1, 0)), 32, 64, 3))
    x = pool(n, x, 3, 2, 0)
    x = pool(n, n.relu(n.conv(n.relu(n.conv(x, 64, 80)), 80, 192, 3, 1, 0)), 3, 2, 0)
    a = n.relu(n.conv(x, 192, 96))
    b = n.relu(n.conv(n.relu(n.conv(x, 192, 48)), 48, 64, 5))
    c = n.relu(n.conv(n.relu(n.conv(n.relu(n.conv(x, 192, 64)), 64, 96, 3)), 96, 96, 3))
    d = n.relu(n.conv(pool(n, x, 3, 1, 1, "AveragePool"), 192, 64))
    x = n.op("Concat", a, b, c, d, axis=1)
    for _ in range(2):
        parts = [n.relu(n.conv(x, 320, 32)), n.relu(n.conv(n.relu(n.conv(x, 320, 32)), 32, 32, 3)),
                 n.relu(n.conv(n.relu(n.conv(n.relu(n.conv(x, 320, 32)), 32, 48, 3)), 48, 64, 3))]
        y = n.conv(n.op("Concat", *parts, axis=1), 128, 320)
        x = n.relu(n.add(x, n.mul(y, n.number(0.17))))
    x = n.op("Concat", n.relu(n.conv(x, 320, 384, 3, 2, 0)), pool(n, x, 3, 2, 0), axis=1)
    for _ in range(3):
        z = n.relu(n.conv(n.relu(n.conv(n.relu(n.conv(x, 704, 128)), 128, 160, (1, 7))), 160, 192, (7, 1)))
        y = n.conv(n.op("Concat", n.relu(n.conv(x, 704, 192)), z, axis=1), 384, 704)
        x = n.relu(n.add(x, n.mul(y, n.number(0.1))))
    y = n.reduce("ReduceMean", n.transpose(x, 0, 2, 3, 1), [1, 2], 0)
    n.output(n.softmax(n.add(n.op("MatMul", y, n.weight(704, 1000)), n.bias(1000))))


def xception(n):
    """Keras' by tf2onnx: separable convolutions after Relu, pools that pad on one side only."""
    def separable(x, taken, made):
        return n.conv(n.conv(x, taken, taken, 3, groups=taken, bias=False), taken, made)

    x = n.transpose(n.floats("image", 1, 128, 128, 3), 0, 3, 1, 2)
    x = n.relu(n.conv(n.relu(n.conv(x, 3, 32, 3, 2, 0)), 32, 64, 3, 1, 0))
    taken = 64
    for made in (128, 256, 728):
        y = separable(n.relu(x) if taken > 64 else x, taken, made)
        y = separable(n.relu(y), made, made)
        y = n.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        x, taken = n.add(y, n.op("Conv", x, n.weight(made, taken, 1, 1), n.bias(made), strides=[2, 2], kernel_shape=[1, 1], auto_pad="SAME_UPPER")), made
    for _ in range(3):
        y = x
        for _ in range(3):
            y = separable(n.relu(y), 728, 728)
        x = n.add(y, x)
    x = n.relu(separable(x, 728, 1024))
    n.output(n.softmax(n.add(n.op("MatMul", n.op("Squeeze", n.op("GlobalAveragePool", x), n.integers(2, 3)), n.weight(1024, 1000)), n.bias(1000))))


def sam_encoder(n):
    """Windows of 7 of a map of 16, padded; relative positions of rows and columns added to the scores, by Einsum."""
    width, heads, size, extent = 192, 6, 32, 16
    x = n.transpose(n.conv(n.floats("image", 1, 3, 256, 256), 3, width, 16, 16, 0), 0, 2, 3, 1)
    x = n.add(x, n.bias(1, extent, extent, width))
    for whole in (False, False, True):
        y = n.layer_norm(x, width)
        side, count = (extent, 1) if whole else (7, 9)
        if not whole:
            y = n.op("Pad", y, n.integers(0, 0, 0, 0, 0, 5, 5, 0), "", mode="constant")
            y = n.reshape(n.transpose(n.reshape(y, 1, 3, 7, 3, 7, width), 0, 1, 3, 2, 4, 5), -1, 7, 7, width)
        qkv = n.transpose(n.reshape(n.linear(y, width, 3 * width), count, side * side, 3, heads, -1), 2, 0, 3, 1, 4)
        qkv = n.split(n.reshape(qkv, 3, count * heads, side * side, -1), 0, 1, 1, 1)
        q, k, v = (n.op("Squeeze", part, n.integers(0)) for part in qkv)
        scores = n.op("MatMul", n.mul(q, n.number(size ** -0.5)), n.transpose(k, 0, 2, 1))
        far = n.constant(np.arange(side)[:, None] - np.arange(side)[None] + side - 1)
        rows, columns = (n.op("Gather", n.bias(2 * side - 1, size), far, axis=0) for _ in range(2))
        r = n.reshape(q, count * heads, side, side, size)
        h, w = n.op("Einsum", r, rows, equation="bhwc,hkc->bhwk"), n.op("Einsum", r, columns, equation="bhwc,wkc->bhwk")
        scores = n.reshape(scores, count * heads, side, side, side, side)
        scores = n.add(n.add(scores, n.op("Unsqueeze", h, n.integers(4))), n.op("Unsqueeze", w, n.integers(3)))
        weights = n.softmax(n.reshape(scores, count * heads, side * side, side * side))
        y = n.reshape(n.op("MatMul", weights, v), count, heads, side, side, -1)
        y = n.linear(n.reshape(n.transpose(y, 0, 2, 3, 1, 4), count, side, side, -1), width, width)
        if not whole:
            y = n.reshape(n.transpose(n.reshape(y, 1, 3, 3, 7, 7, width), 0, 1, 3, 2, 4, 5), 1, 21, 21, width)
            y = n.slice(n.slice(y, 1, 0, extent), 2, 0, extent)
        x = n.add(x, y)
        x = n.add(x, n.feed_forward(n.layer_norm(x, width), width, 4 * width))
    x = n.conv(n.transpose(x, 0, 3, 1, 2), width, 64, bias=False)
    for step in range(2):
        mean = n.reduce("ReduceMean", x, [1])
        centred = n.op("Sub", x, mean)
        variance = n.reduce("ReduceMean", n.op("Pow", centred, n.number(2)), [1])
        x = n.op("Div", centred, n.op("Sqrt", n.add(variance, n.number(1e-6))))
        x = n.add(n.mul(n.scale(64, 1, 1), x), n.bias(64, 1, 1))
        x = x if step else n.conv(x, 64, 64, 3, bias=False)
    n.output(x)


def vit_layer(n, x, width, heads, tokens, scaled=False):
    """timm's, the product of queries and keys scaled before."""
    size = width // heads
    y = n.layer_norm(x, width, 1e-6)
    qkv = n.transpose(n.reshape(n.linear(y, width, 3 * width), 1, tokens, 3, heads, size), 2, 0, 3, 1, 4)
    q, k, v = (n.op("Gather", qkv, n.index(i), axis=0) for i in range(3))
    y = n.op("MatMul", n.softmax(n.op("MatMul", n.mul(q, n.number(size ** -0.5)), n.transpose(k, 0, 1, 3, 2))), v)
    y = n.linear(n.reshape(n.transpose(y, 0, 2, 1, 3), 1, tokens, width), width, width)
    x = n.add(x, n.mul(y, n.bias(width)) if scaled else y)
    y = n.feed_forward(n.layer_norm(x, width, 1e-6), width, 4 * width)
    return n.add(x, n.mul(y, n.bias(width)) if scaled else y)


def dinov2(n):
    """Any height and width: positions are stretched to them by a cubic Resize."""
    image = n.floats("image", 1, 3, 140, 112, dims=["batch", 3, "height", "width"])
    width, heads, size = 192, 3, 64
    x = n.conv(image, 3, width, 14, 14, 0)
    batch = n.extent(image, 0)
    rows, columns = (n.op("Div", n.extent(image, axis), n.index(14)) for axis in (2, 3))
    x = n.transpose(n.reshape(x, n.extent(x, 0), width, -1), 0, 2, 1)
    first = n.op("Expand", n.bias(1, 1, width), n.dims(batch, 1, width))
    x = n.op("Concat", first, x, axis=1)
    places = n.transpose(n.reshape(n.bias(1, 64, width), 1, 8, 8, width), 0, 3, 1, 2)
    shape = n.op("Concat", n.op("Slice", n.op("Shape", places), n.integers(0), n.integers(2), n.integers(0)),
                 n.op("Unsqueeze", rows, n.integers(0)), n.op("Unsqueeze", columns, n.integers(0)), axis=0)
    places = n.op("Resize", places, "", "", shape, coordinate_transformation_mode="pytorch_half_pixel", cubic_coeff_a=-0.75, mode="cubic", nearest_mode="floor")
    places = n.reshape(n.transpose(places, 0, 2, 3, 1), 1, -1, width)
    x = n.add(x, n.op("Concat", n.bias(1, 1, width), places, axis=1))
    for _ in range(4):
        y = n.layer_norm(x, width, 1e-6)
        q, k, v = (n.transpose(n.reshape(n.linear(y, width, width), n.extent(y, 0), n.extent(y, 1), heads, size), 0, 2, 1, 3) for _ in range(3))
        k = n.transpose(k, 0, 1, 3, 2)
        root = n.number(size ** -0.25)
        y = n.op("MatMul", n.softmax(n.op("MatMul", n.mul(q, root), n.mul(k, root))), v)
        y = n.transpose(y, 0, 2, 1, 3)
        y = n.linear(n.reshape(y, n.extent(y, 0), n.extent(y, 1), width), width, width)
        x = n.add(x, n.mul(y, n.scale(width)))
        x = n.add(x, n.mul(n.feed_forward(n.layer_norm(x, width, 1e-6), width, 4 * width), n.scale(width)))
    x = n.layer_norm(x, width, 1e-6)
    n.output(n.op("Concat", n.op("Gather", x, n.index(0), axis=1), n.reduce("ReduceMean", n.slice(x, 1, 1, None), [1], 0), axis=1))


def dpt(n):
    """Depth: tokens of four layers become maps of four extents, refined from the smallest to the largest."""
    width, heads, extent, features = 192, 3, 10, 64
    x = n.conv(n.floats("image", 1, 3, 160, 160), 3, width, 16, 16, 0)
    x = n.transpose(n.reshape(x, 1, width, 100), 0, 2, 1)
    x = n.add(n.op("Concat", n.bias(1, 1, width), x, axis=1), n.bias(1, 101, width))
    maps = []
    for layer, made in enumerate([48, 96, 192, 384]):
        x = vit_layer(n, x, width, heads, 101)
        y = n.slice(x, 1, 1, None)
        first = n.op("Expand", n.op("Unsqueeze", n.op("Gather", x, n.index(0), axis=1), n.integers(1)), n.op("Shape", y))
        y = n.gelu(n.linear(n.op("Concat", y, first, axis=-1), 2 * width, width))
        y = n.conv(n.reshape(n.transpose(y, 0, 2, 1), 1, width, extent, extent), width, made)
        y = n.conv_transpose(y, made, made, 4 >> layer, 4 >> layer) if layer < 2 else n.conv(y, made, made, 3, 2) if layer == 3 else y
        maps.append(n.conv(y, made, features, 3, bias=False))

    def refine(y):
        z = n.conv(n.relu(y), features, features, 3)
        return n.add(n.conv(n.relu(z), features, features, 3), y)

    y = None
    for z in reversed(maps):
        y = n.add(y, refine(z)) if y else z
        y = n.conv(bilinear(n, refine(y)), features, features)
    y = bilinear(n, n.conv(y, features, features // 2, 3))
    n.output(n.op("Squeeze", n.relu(n.conv(n.relu(n.conv(y, 32, 32, 3)), 32, 1)), n.integers(1)))


def segnet(n):
    """Pools that tell where their maxima were; MaxUnpool puts values back there."""
    x, taken, places = n.floats("image", 1, 3, 128, 128), 3, []
    for width in (32, 64, 128):
        x, taken = n.relu(n.conv(n.relu(n.conv(x, taken, width, 3)), width, width, 3)), width
        shape = n.op("Shape", x)
        x, at = n.op("MaxPool", x, outs=2, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
        places.append((at, shape, width))
    for (at, shape, width), made in zip(reversed(places), (64, 32, 16)):
        x = n.op("MaxUnpool", x, at, shape, kernel_shape=[2, 2], strides=[2, 2])
        x = n.relu(n.conv(n.relu(n.conv(x, width, width, 3)), width, made, 3))
    n.output(n.conv(x, 16, 12))


def channel_norm(n, x, width):
    """A LayerNorm over channels as restoration networks spell it."""
    centred = n.op("Sub", x, n.reduce("ReduceMean", x, [1]))
    variance = n.reduce("ReduceMean", n.op("Pow", centred, n.number(2)), [1])
    y = n.op("Div", centred, n.op("Sqrt", n.add(variance, n.number(1e-6))))
    return n.add(n.mul(n.scale(1, width, 1, 1), y), n.bias(1, width, 1, 1))


def nafnet(n):
    """Gates that multiply one half of the channels by the other; no other nonlinearity."""
    def gate(x, width):
        a, b = n.split(x, 1, width, width)
        return n.mul(a, b)

    def block(x, width):
        y = n.conv(channel_norm(n, x, width), width, 2 * width)
        y = gate(n.conv(y, 2 * width, 2 * width, 3, groups=2 * width), width)
        y = n.mul(y, n.conv(n.op("GlobalAveragePool", y), width, width))
        x = n.add(x, n.mul(n.conv(y, width, width), n.bias(1, width, 1, 1)))
        y = n.conv(gate(n.conv(channel_norm(n, x, width), width, 2 * width), width), width, width)
        return n.add(x, n.mul(y, n.bias(1, width, 1, 1)))

    image = n.floats("image", 1, 3, 96, 96)
    x, width, skips = n.conv(image, 3, 16, 3), 16, []
    for _ in range(3):
        x = block(x, width)
        skips.append(x)
        x, width = n.conv(x, width, 2 * width, 2, 2, 0), 2 * width
    x = block(block(x, width), width)
    for skip in reversed(skips):
        x, width = n.op("DepthToSpace", n.conv(x, width, 2 * width, bias=False), blocksize=2, mode="CRD"), width // 2
        x = block(n.add(x, skip), width)
    n.output(n.add(n.conv(x, 16, 3, 3), image))


def swinir(n):
    """Windows of 8 of a map of 48, shifted by Slice and Concat, with masks; up by PixelShuffle."""
    width, heads, size, extent = 60, 6, 10, 48
    first = n.conv(n.floats("image", 1, 3, extent, extent), 3, width, 3)

    def roll(x, shift):
        for axis in (1, 2):
            x = n.op("Concat", n.slice(x, axis, -shift if shift < 0 else extent - shift, None), n.slice(x, axis, 0, -shift if shift < 0 else extent - shift), axis=axis)
        return x

    mask = np.where(n.random.random((36, 64, 64)) < 0.2, -100, 0).astype("f")
    x = n.transpose(n.reshape(first, 1, width, extent * extent), 0, 2, 1)
    skip = x
    for layer in range(4):
        y = n.reshape(n.layer_norm(x, width), 1, extent, extent, width)
        y = roll(y, -4) if layer % 2 else y
        y = n.reshape(n.transpose(n.reshape(y, 1, 6, 8, 6, 8, width), 0, 1, 3, 2, 4, 5), -1, 64, width)
        qkv = n.transpose(n.reshape(n.linear(y, width, 3 * width), 36, 64, 3, heads, size), 2, 0, 3, 1, 4)
        q, k, v = (n.op("Gather", qkv, n.index(i), axis=0) for i in range(3))
        scores = n.op("MatMul", n.mul(q, n.number(size ** -0.5)), n.transpose(k, 0, 1, 3, 2))
        scores = n.add(scores, n.bias(1, heads, 64, 64))
        if layer % 2:
            scores = n.add(n.reshape(scores, 1, 36, heads, 64, 64), n.constant(mask[None, :, None]))
            scores = n.reshape(scores, -1, heads, 64, 64)
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 36, 64, width)
        y = n.reshape(n.linear(y, width, width), -1, 8, 8, width)
        y = n.reshape(n.transpose(n.reshape(y, 1, 6, 6, 8, 8, width), 0, 1, 3, 2, 4, 5), 1, extent, extent, width)
        y = n.reshape(roll(y, 4) if layer % 2 else y, 1, extent * extent, width)
        x = n.add(x, y)
        x = n.add(x, n.feed_forward(n.layer_norm(x, width), width, 2 * width))
        if layer % 2:
            y = n.conv(n.reshape(n.transpose(x, 0, 2, 1), 1, width, extent, extent), width, width, 3)
            x = skip = n.add(n.transpose(n.reshape(y, 1, width, extent * extent), 0, 2, 1), skip)
    y = n.reshape(n.transpose(n.layer_norm(x, width), 0, 2, 1), 1, width, extent, extent)
    y = n.conv(n.add(n.conv(y, width, width, 3), first), width, 12, 3)
    n.output(n.op("DepthToSpace", y, blocksize=2, mode="CRD"))


def esrgan(n):
    """Dense blocks: five convolutions, each of everything before it."""
    def leaky(x):
        return n.op("LeakyRelu", x, alpha=0.2)

    x = first = n.conv(n.floats("image", 1, 3, 48, 48), 3, 32, 3)
    for _ in range(2):
        start = x
        for _ in range(3):
            parts = [x]
            for i in range(4):
                parts.append(leaky(n.conv(n.op("Concat", *parts, axis=1) if i else x, 32 + 16 * i, 16, 3)))
            x = n.add(n.mul(n.conv(n.op("Concat", *parts, axis=1), 96, 32, 3), n.number(0.2)), x)
        x = n.add(n.mul(x, n.number(0.2)), start)
    x = n.add(n.conv(x, 32, 32, 3), first)
    x = leaky(n.conv(nearest(n, x), 32, 32, 3))
    n.output(n.conv(leaky(n.conv(x, 32, 32, 3)), 32, 3, 3))


def raft(n):
    """Two images' correlation at four extents, looked up by GridSample around points that move; a convolutional GRU, three times."""
    def encode(x, made):
        for taken, width, stride in [(3, 32, 2), (32, 32, 1), (32, 64, 2), (64, 96, 2)]:
            x = n.conv(x, taken, width, 3, stride)
            x = n.relu(n.op("InstanceNormalization", x, n.constant(np.ones(width, "f")), n.constant(np.zeros(width, "f")), epsilon=1e-5))
        return n.conv(x, 96, made)

    one, two = n.floats("first", 1, 3, 96, 128), n.floats("second", 1, 3, 96, 128)
    a, b = encode(one, 128), encode(two, 128)
    rows, columns = 12, 16
    volume = n.op("MatMul", n.transpose(n.reshape(a, 1, 128, rows * columns), 0, 2, 1), n.reshape(b, 1, 128, rows * columns))
    volume = n.op("Div", n.reshape(volume, rows * columns, 1, rows, columns), n.number(128 ** 0.5))
    pyramid = [volume]
    for _ in range(2):
        pyramid.append(pool(n, pyramid[-1], 2, 2, 0, "AveragePool"))
    hidden, context = n.split(encode(one, 128), 1, 64, 64)
    hidden, context = n.op("Tanh", hidden), n.relu(context)
    start = n.constant(np.stack(np.meshgrid(np.arange(columns), np.arange(rows)))[None].astype("f"))
    near = np.stack(np.meshgrid(np.arange(-3, 4), np.arange(-3, 4), indexing="ij"), -1).reshape(1, 7, 7, 2).astype("f")
    place = start
    for _ in range(3):
        points = n.reshape(n.transpose(place, 0, 2, 3, 1), rows * columns, 1, 1, 2)
        found = []
        for level, volume in enumerate(pyramid):
            at = n.add(n.op("Div", points, n.number(2 ** level)), n.constant(near))
            x, y = n.split(at, 3, 1, 1)
            wide, high = (columns >> level) - 1, (rows >> level) - 1
            x = n.op("Sub", n.op("Div", n.mul(x, n.number(2)), n.number(wide)), n.number(1))
            y = n.op("Sub", n.op("Div", n.mul(y, n.number(2)), n.number(high)), n.number(1))
            z = n.op("GridSample", volume, n.op("Concat", x, y, axis=-1), align_corners=1, mode="bilinear" if n.opset < 20 else "linear", padding_mode="zeros")
            found.append(n.reshape(z, 1, rows, columns, -1))
        z = n.transpose(n.op("Concat", *found, axis=-1), 0, 3, 1, 2)
        flow = n.op("Sub", place, start)
        z = n.relu(n.conv(z, 147, 96))
        f = n.relu(n.conv(n.relu(n.conv(flow, 2, 64, 7)), 64, 32, 3))
        z = n.relu(n.conv(n.op("Concat", z, f, axis=1), 128, 80, 3))
        taken = n.op("Concat", context, z, flow, axis=1)
        both = n.op("Concat", hidden, taken, axis=1)
        update, reset = n.op("Sigmoid", n.conv(both, 210, 64, 3)), n.op("Sigmoid", n.conv(both, 210, 64, 3))
        new = n.op("Tanh", n.conv(n.op("Concat", n.mul(reset, hidden), taken, axis=1), 210, 64, 3))
        hidden = n.add(n.mul(n.op("Sub", n.number(1), update), hidden), n.mul(update, new))
        place = n.add(place, n.conv(n.relu(n.conv(hidden, 64, 128, 3)), 128, 2, 3))
    n.output(n.op("Sub", place, start))


def stereo(n):
    """A volume of costs: features of both images, one moved by each disparity, through convolutions in three dimensions; the expected disparity."""
    def features(x):
        for taken, made, stride in [(3, 16, 2), (16, 32, 2), (32, 32, 1)]:
            x = n.relu(n.conv(x, taken, made, 3, stride))
        return n.conv(x, 32, 16)

    left, right = features(n.floats("left", 1, 3, 96, 160)), features(n.floats("right", 1, 3, 96, 160))
    costs = []
    for d in range(12):
        both = n.op("Concat", left, right if d == 0 else n.op("Pad", n.slice(right, 3, 0, -d), n.integers(0, 0, 0, d, 0, 0, 0, 0), n.number(0), mode="constant"), axis=1)
        costs.append(n.op("Unsqueeze", both, n.integers(2)))
    x = n.op("Concat", *costs, axis=2)
    x = n.relu(n.conv(x, 32, 16, 3, rank=3))
    y = n.relu(n.conv(x, 16, 32, 3, 2, rank=3))
    y = n.relu(n.conv(y, 32, 32, 3, rank=3))
    y = n.op("ConvTranspose", y, n.weight(32, 16, 3, 3, 3, fan=216), n.bias(16), dilations=[1] * 3, group=1, kernel_shape=[3] * 3, output_padding=[1] * 3, pads=[1] * 6, strides=[2] * 3)
    x = n.op("Squeeze", n.conv(n.relu(n.add(x, y)), 16, 1, 3, rank=3), n.integers(1))
    x = n.op("Resize", n.op("Unsqueeze", x, n.integers(1)), "", n.constant(np.array([1, 1, 2, 4, 4], "f")), coordinate_transformation_mode="half_pixel", mode="linear")
    weights = n.softmax(n.op("Neg", n.op("Squeeze", x, n.integers(1))), 1)
    n.output(n.reduce("ReduceSum", n.mul(weights, n.constant(np.arange(24, dtype="f").reshape(1, 24, 1, 1))), [1], 0))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (efficientvit, 17), (ghostnet, 17), (hrnet, 17), (regnet, 17), (nfnet, 17), (inception_resnet, 15), (xception, 15), (sam_encoder, 17), (dinov2, 17), (dpt, 17),
    (segnet, 17), (nafnet, 17), (swinir, 17), (esrgan, 17), (raft, 16), (stereo, 17)]}
