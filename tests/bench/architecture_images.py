# SPDX-License-Identifier: Apache-2.0
"""Networks on images, as exporters write them: what architecture_models.py saves."""
import numpy as np

from architecture_net import Net


def mobilenet_v3(n):
    """torchvision's small one."""
    def excite(x, channels, squeezed):
        y = n.conv(n.relu(n.conv(n.op("GlobalAveragePool", x), channels, squeezed)), squeezed, channels)
        return n.mul(n.op("HardSigmoid", y, alpha=1 / 6), x)

    def hard_swish(x):
        return n.op("HardSwish", x)

    x = hard_swish(n.conv(n.floats("image", 1, 3, 224, 224), 3, 16, 3, 2))
    taken = 16
    for size, wide, made, squeeze, hard, stride in [(3, 16, 16, 8, 0, 2), (3, 72, 24, 0, 0, 2), (3, 88, 24, 0, 0, 1), (5, 96, 40, 24, 1, 2), (5, 240, 40, 64, 1, 1),
                                                    (5, 240, 40, 64, 1, 1), (5, 120, 48, 32, 1, 1), (5, 144, 48, 40, 1, 1), (5, 288, 96, 72, 1, 2),
                                                    (5, 576, 96, 144, 1, 1), (5, 576, 96, 144, 1, 1)]:
        act = hard_swish if hard else n.relu
        y = act(n.conv(x, taken, wide)) if wide != taken else x
        y = act(n.conv(y, wide, wide, size, stride, groups=wide))
        y = n.conv(excite(y, wide, squeeze) if squeeze else y, wide, made)
        x, taken = n.add(x, y) if stride == 1 and taken == made else y, made
    x = n.op("GlobalAveragePool", hard_swish(n.conv(x, 96, 576)))
    n.output(n.gemm(hard_swish(n.gemm(n.op("Flatten", x, axis=1), 576, 1024)), 1024, 1000))


def efficientnet_b0(n):
    """timm's, at 192."""
    x = n.silu(n.conv(n.floats("image", 1, 3, 192, 192), 3, 32, 3, 2))
    taken = 32
    for expand, made, repeats, stride, size in [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]:
        for repeat in range(repeats):
            wide, step = taken * expand, stride if repeat == 0 else 1
            y = n.silu(n.conv(x, taken, wide)) if expand > 1 else x
            y = n.silu(n.conv(y, wide, wide, size, step, groups=wide))
            s = n.reduce("ReduceMean", y, [2, 3])
            s = n.conv(n.silu(n.conv(s, wide, taken // 4)), taken // 4, wide)
            y = n.conv(n.mul(y, n.op("Sigmoid", s)), wide, made)
            x, taken = n.add(y, x) if step == 1 and taken == made else y, made
    x = n.op("GlobalAveragePool", n.silu(n.conv(x, 320, 1280)))
    n.output(n.gemm(n.op("Flatten", x, axis=1), 1280, 1000))


def convnext(n):
    """torchvision's tiny one, at 128: opset 17 writes Gelu out."""
    def norm(x, width):
        return n.transpose(n.layer_norm(n.transpose(x, 0, 2, 3, 1), width, 1e-6), 0, 3, 1, 2)

    x = norm(n.conv(n.floats("image", 1, 3, 128, 128), 3, 96, 4, 4, 0), 96)
    for stage, (width, repeats) in enumerate([(96, 3), (192, 3), (384, 6), (768, 3)]):
        if stage:
            x = n.conv(norm(x, width // 2), width // 2, width, 2, 2, 0)
        for _ in range(repeats):
            y = n.layer_norm(n.transpose(n.conv(x, width, width, 7, groups=width), 0, 2, 3, 1), width, 1e-6)
            y = n.transpose(n.feed_forward(y, width, 4 * width), 0, 3, 1, 2)
            x = n.add(n.mul(n.bias(width, 1, 1), y), x)
    x = n.op("Flatten", norm(n.op("GlobalAveragePool", x), 768), axis=1)
    n.output(n.gemm(x, 768, 1000))


def bottleneck(n, x, taken, width, made, stride, groups, dilation=1):
    y = n.relu(n.conv(x, taken, width))
    y = n.conv(n.relu(n.conv(y, width, width, 3, stride, groups=groups, dilation=dilation)), width, made)
    return n.relu(n.add(y, n.conv(x, taken, made, 1, stride) if taken != made or stride > 1 else x))


def resnext(n):
    x = n.op("MaxPool", n.relu(n.conv(n.floats("image", 1, 3, 160, 160), 3, 64, 7, 2)), ceil_mode=0, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    taken = 64
    for stage, repeats in enumerate([2, 2, 3, 2]):
        for repeat in range(repeats):
            x, taken = bottleneck(n, x, taken, 128 << stage, 256 << stage, 2 if stage and not repeat else 1, 32), 256 << stage
    n.output(n.gemm(n.op("Flatten", n.op("GlobalAveragePool", x), axis=1), taken, 1000))


def deeplab(n):
    """Dilated stages, pooled pyramid, bilinear Resize whose extents come from Shape."""
    image = n.floats("image", 1, 3, 160, 160, dims=["batch", 3, 160, 160])
    x = n.op("MaxPool", n.relu(n.conv(image, 3, 64, 7, 2)), kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    taken = 64
    for width, made, stride, dilation in [(64, 256, 1, 1), (128, 512, 2, 1), (256, 1024, 1, 2), (512, 1024, 1, 4)]:
        x, taken = bottleneck(n, bottleneck(n, x, taken, width, made, stride, 1, max(1, dilation // 2)), made, width, made, 1, 1, dilation), made

    def resize(x, like, axes=(2, 3)):
        sizes = n.op("Cast", n.op("Concat", *[n.op("Unsqueeze", n.extent(like, a), n.integers(0)) for a in axes], axis=0), to=7)
        sizes = n.op("Concat", n.op("Slice", n.op("Shape", x), n.integers(0), n.integers(2), n.integers(0)), sizes, axis=0)
        return n.op("Resize", x, "", "", sizes, coordinate_transformation_mode="pytorch_half_pixel", cubic_coeff_a=-0.75, mode="linear", nearest_mode="floor")

    branches = [n.relu(n.conv(x, taken, 128))] + [n.relu(n.conv(x, taken, 128, 3, dilation=d)) for d in (6, 12, 18)]
    branches.append(resize(n.relu(n.conv(n.op("GlobalAveragePool", x), taken, 128)), x))
    x = n.relu(n.conv(n.op("Concat", *branches, axis=1), 640, 128))
    x = n.conv(n.relu(n.conv(x, 128, 128, 3)), 128, 21)
    n.output(resize(x, image))


def unet(n):
    """Up by ConvTranspose; pads that come from the shapes of both sides, as the older exporter writes them."""
    def double(x, taken, made):
        return n.relu(n.conv(n.relu(n.conv(x, taken, made, 3)), made, made, 3))

    x, skips, taken = n.floats("image", 1, 3, 96, 96, dims=["batch", 3, "height", "width"]), [], 3
    for width in (32, 64, 128):
        x = double(x, taken, width)
        skips.append((x, width))
        x, taken = n.op("MaxPool", x, kernel_shape=[2, 2], pads=[0] * 4, strides=[2, 2]), width
    x = double(x, 128, 256)
    for skip, width in reversed(skips):
        x = n.conv_transpose(x, 2 * width, width, 2, 2)
        pads = []
        for axis in (3, 2):
            more = n.op("Sub", n.extent(skip, axis), n.extent(x, axis))
            half = n.op("Div", more, n.index(2))
            pads += [half, n.op("Sub", more, half)]
        left, right, top, bottom = (n.op("Unsqueeze", n.op("Cast", p, to=7), n.integers(0)) for p in pads)
        x = n.op("Pad", x, n.op("Concat", n.integers(0, 0), top, left, n.integers(0, 0), bottom, right, axis=0), n.number(0), mode="constant")
        x = double(n.op("Concat", skip, x, axis=1), 2 * width, width)
    n.output(n.conv(x, 32, 2))


def unet_resize(n):
    """Up by Resize (align_corners)."""
    def double(x, taken, made):
        return n.relu(n.conv(n.relu(n.conv(x, taken, made, 3)), made, made, 3))

    x, skips, taken = n.floats("image", 1, 1, 128, 128), [], 1
    for width in (16, 32, 64):
        x = double(x, taken, width)
        skips.append((x, width))
        x, taken = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), width
    x = double(x, 64, 64)
    for skip, width in reversed(skips):
        x = n.op("Resize", x, "", n.constant(np.array([1, 1, 2, 2], "f")), coordinate_transformation_mode="align_corners", mode="linear")
        x = double(n.op("Concat", skip, x, axis=1), 2 * width, max(16, width // 2))
    n.output(n.op("Sigmoid", n.conv(x, 16, 1)))


def c3(n, x, taken, made, repeats, shortcut=True):
    half = made // 2
    y = n.silu(n.conv(x, taken, half))
    for _ in range(repeats):
        z = n.silu(n.conv(n.silu(n.conv(y, half, half)), half, half, 3))
        y = n.add(y, z) if shortcut else z
    return n.silu(n.conv(n.op("Concat", y, n.silu(n.conv(x, taken, half)), axis=1), made, made))


def c2f(n, x, taken, made, repeats, shortcut=True):
    half = made // 2
    parts = n.split(n.silu(n.conv(x, taken, made)), 1, half, half)
    for _ in range(repeats):
        z = n.silu(n.conv(n.silu(n.conv(parts[-1], half, half, 3)), half, half, 3))
        parts.append(n.add(parts[-1], z) if shortcut else z)
    return n.silu(n.conv(n.op("Concat", *parts, axis=1), (2 + repeats) * half, made))


def pooled_pyramid(n, x, channels):
    x = [n.silu(n.conv(x, channels, channels // 2))]
    for _ in range(3):
        x.append(n.op("MaxPool", x[-1], ceil_mode=0, kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]))
    return n.silu(n.conv(n.op("Concat", *x, axis=1), channels * 2, channels))


def yolo_body(n, block, extent, stem):
    def up(x):
        return n.op("Resize", x, "", n.constant(np.array([1, 1, 2, 2], "f")), coordinate_transformation_mode="asymmetric", cubic_coeff_a=-0.75, mode="nearest",
                    nearest_mode="floor")

    x = n.silu(n.conv(n.floats("images", 1, 3, extent, extent), 3, 16, *stem))
    x = block(n, n.silu(n.conv(x, 16, 32, 3, 2)), 32, 32, 1)
    a = block(n, n.silu(n.conv(x, 32, 64, 3, 2)), 64, 64, 2)
    b = block(n, n.silu(n.conv(a, 64, 128, 3, 2)), 128, 128, 2)
    c = pooled_pyramid(n, block(n, n.silu(n.conv(b, 128, 256, 3, 2)), 256, 256, 1), 256)
    p = block(n, n.op("Concat", up(c), b, axis=1), 384, 128, 1, False)
    q = block(n, n.op("Concat", up(p), a, axis=1), 192, 64, 1, False)
    r = block(n, n.op("Concat", n.silu(n.conv(q, 64, 64, 3, 2)), p, axis=1), 192, 128, 1, False)
    s = block(n, n.op("Concat", n.silu(n.conv(r, 128, 128, 3, 2)), c, axis=1), 384, 256, 1, False)
    return [(q, 64, extent // 8), (r, 128, extent // 16), (s, 256, extent // 32)]


def yolov5(n):
    """The nano one at 256, three anchors a point."""
    rows = []
    for (x, channels, extent), stride in zip(yolo_body(n, c3, 256, (6, 2, 2)), (8, 16, 32)):
        x = n.transpose(n.reshape(n.conv(x, channels, 255), 1, 3, 85, extent, extent), 0, 1, 3, 4, 2)
        xy, wh, scores = n.split(n.op("Sigmoid", x), 4, 2, 2, 81)
        grid = np.stack(np.meshgrid(np.arange(extent), np.arange(extent)), -1).reshape(1, 1, extent, extent, 2).astype("f") - 0.5
        xy = n.mul(n.add(n.mul(xy, n.number(2)), n.constant(np.broadcast_to(grid, (1, 3, extent, extent, 2)))), n.number(stride))
        wh = n.mul(n.op("Pow", n.mul(wh, n.number(2)), n.number(2)), n.constant(np.broadcast_to(n.random.random((1, 3, 1, 1, 2)).astype("f") * 100, (1, 3, extent, extent, 2))))
        rows.append(n.reshape(n.op("Concat", xy, wh, scores, axis=4), 1, 3 * extent * extent, 85))
    n.output(n.op("Concat", *rows, axis=1))


def yolov8(n):
    """The nano one at 256, boxes as distributions."""
    heads, anchors, strides = [], [], []
    for (x, channels, extent), stride in zip(yolo_body(n, c2f, 256, (3, 2)), (8, 16, 32)):
        box = n.conv(n.silu(n.conv(n.silu(n.conv(x, channels, 64, 3)), 64, 64, 3)), 64, 64)
        kind = n.conv(n.silu(n.conv(n.silu(n.conv(x, channels, 80, 3)), 80, 80, 3)), 80, 80)
        heads.append(n.reshape(n.op("Concat", box, kind, axis=1), 1, 144, -1))
        anchors.append(np.stack(np.meshgrid(np.arange(extent) + 0.5, np.arange(extent) + 0.5)).reshape(2, -1))
        strides.append(np.full((1, extent * extent), stride))
    count = sum(a.shape[1] for a in anchors)
    box, kind = n.split(n.op("Concat", *heads, axis=2), 1, 64, 80)
    box = n.softmax(n.transpose(n.reshape(box, 1, 4, 16, count), 0, 2, 1, 3), 1)
    box = n.op("Conv", box, n.constant(np.arange(16, dtype="f").reshape(1, 16, 1, 1)), dilations=[1, 1], group=1, kernel_shape=[1, 1], pads=[0] * 4, strides=[1, 1])
    box = n.reshape(box, 1, 4, count)
    points = n.constant(np.concatenate(anchors, 1)[None].astype("f"))
    low, high = n.op("Sub", points, n.slice(box, 1, 0, 2)), n.add(points, n.slice(box, 1, 2, 4))
    centre, extent = n.op("Div", n.add(low, high), n.number(2)), n.op("Sub", high, low)
    box = n.mul(n.op("Concat", centre, extent, axis=1), n.constant(np.concatenate(strides, 1).astype("f")))
    n.output(n.op("Concat", box, n.op("Sigmoid", kind), axis=1))


def ssd(n):
    """Two heads a map, moved to channels last, joined, decoded, and chosen among by NonMaxSuppression."""
    x, taken, maps = n.relu(n.conv(n.floats("image", 1, 3, 224, 224), 3, 32, 3, 2)), 32, []
    for made, stride in [(64, 2), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]:
        x = n.op("Clip", n.conv(x, taken, taken, 3, stride, groups=taken), n.number(0), n.number(6))
        x, taken = n.op("Clip", n.conv(x, taken, made), n.number(0), n.number(6)), made
        if made >= 256 and stride == 1 or made == 512:
            maps.append((x, made))
    boxes, scores = [], []
    for x, channels in maps:
        for values, size in ((boxes, 4), (scores, 21)):
            y = n.reshape(n.conv(x, channels, 6 * size, 3), n.extent(x, 0), 6, size, n.extent(x, 2), n.extent(x, 3))
            values.append(n.op("Reshape", n.transpose(y, 0, 3, 4, 1, 2), n.integers(1, -1, size)))
    boxes, scores = n.op("Concat", *boxes, axis=1), n.softmax(n.op("Concat", *scores, axis=1), 2)
    count = 6 * (14 * 14 + 7 * 7)
    prior = n.random.random((1, count, 4)).astype("f")
    xy = n.add(n.mul(n.slice(boxes, 2, 0, 2), n.constant(prior[..., 2:] * 0.1)), n.constant(prior[..., :2]))
    wh = n.mul(n.op("Exp", n.mul(n.slice(boxes, 2, 2, 4), n.number(0.2))), n.constant(prior[..., 2:] * 0.2))
    half = n.op("Div", wh, n.number(2))
    boxes = n.op("Concat", n.op("Sub", xy, half), n.add(xy, half), axis=2)
    kinds = n.slice(n.transpose(scores, 0, 2, 1), 1, 1, None)
    chosen = n.op("NonMaxSuppression", boxes, kinds, n.integers(20), n.constant(np.array([0.45], "f")), n.constant(np.array([0.15], "f")))
    n.output(n.op("Gather", n.op("Squeeze", boxes, n.integers(0)), n.op("Gather", chosen, n.index(2), axis=1), axis=0))
    n.output(chosen, kind=7)


def super_resolution(n):
    """EDSR: residual blocks, then PixelShuffle as DepthToSpace and as the Reshapes of opset 9."""
    x = first = n.conv(n.floats("image", 1, 3, 48, 48), 3, 64, 3)
    for _ in range(6):
        x = n.add(n.mul(n.conv(n.relu(n.conv(x, 64, 64, 3)), 64, 64, 3), n.number(0.1)), x)
    x = n.conv(n.add(n.conv(x, 64, 64, 3), first), 64, 256, 3)
    x = n.conv(n.op("DepthToSpace", x, blocksize=2, mode="CRD"), 64, 256, 3)
    x = n.reshape(n.transpose(n.reshape(x, -1, 64, 2, 2, 96, 96), 0, 1, 4, 2, 5, 3), -1, 64, 192, 192)
    n.output(n.conv(x, 64, 3, 3))


def style_transfer(n):
    def layer(x, taken, made, size, stride=1):
        pad = size // 2
        return n.conv(n.op("Pad", x, n.integers(0, 0, pad, pad, 0, 0, pad, pad), mode="reflect"), taken, made, size, stride, 0)

    def norm(x, channels):
        return n.op("InstanceNormalization", x, n.scale(channels), n.bias(channels), epsilon=1e-5)

    x = n.floats("image", 1, 3, 96, 96)
    for taken, made, size, stride in [(3, 32, 9, 1), (32, 64, 3, 2), (64, 128, 3, 2)]:
        x = n.relu(norm(layer(x, taken, made, size, stride), made))
    for _ in range(3):
        x = n.add(norm(layer(n.relu(norm(layer(x, 128, 128, 3), 128)), 128, 128, 3), 128), x)
    for taken, made in [(128, 64), (64, 32)]:
        x = n.op("Resize", x, "", n.constant(np.array([1, 1, 2, 2], "f")), coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")
        x = n.relu(norm(layer(x, taken, made, 3), made))
    n.output(layer(x, 32, 3, 9))


def diffusion(n):
    """A level of a latent diffusion model's network: GroupNorm, time, attention to itself and to a text."""
    time = n.floats("timestep_embedding", 1, 320)
    text = n.floats("encoder_hidden_states", 1, 77, 256)
    time = n.gemm(n.silu(n.gemm(time, 320, 640)), 640, 640)

    def residual(x, taken, made):
        y = n.conv(n.silu(n.group_norm(x, taken, 32)), taken, made, 3)
        shift = n.gemm(n.silu(time), 640, made)
        y = n.add(y, n.op("Unsqueeze", n.op("Unsqueeze", shift, n.integers(2)), n.integers(3)))
        y = n.conv(n.silu(n.group_norm(y, made, 32)), made, made, 3)
        return n.op("Div", n.add(n.conv(x, taken, made) if taken != made else x, y), n.number(1))

    def attention(x, context, width, taken):
        q, k, v = (n.heads(n.linear(s, t, width, False), 8, width // 8, -1) for s, t in ((x, width), (context, taken), (context, taken)))
        scores = n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number((width // 8) ** -0.5))
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 1, -1, width)
        return n.linear(y, width, width)

    def transformer(x, width, extent):
        y = n.conv(n.group_norm(x, width, 32), width, width)
        y = n.reshape(n.transpose(y, 0, 2, 3, 1), 1, extent * extent, width)
        y = n.add(attention(*[n.layer_norm(y, width)] * 2, width, width), y)
        y = n.add(attention(n.layer_norm(y, width), text, width, 256), y)
        a, gate = n.split(n.linear(n.layer_norm(y, width), width, 8 * width), 2, 4 * width, 4 * width)
        y = n.add(n.linear(n.mul(a, n.gelu(gate)), 4 * width, width), y)
        y = n.transpose(n.reshape(y, 1, extent, extent, width), 0, 3, 1, 2)
        return n.add(n.conv(y, width, width), x)

    x = n.conv(n.floats("sample", 1, 4, 32, 32), 4, 128, 3)
    x = first = transformer(residual(x, 128, 128), 128, 32)
    x = n.conv(x, 128, 128, 3, 2)
    x = transformer(residual(x, 128, 256), 256, 16)
    x = n.op("Resize", x, "", n.constant(np.array([1, 1, 2, 2], "f")), coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")
    x = n.op("Concat", n.conv(x, 256, 256, 3), first, axis=1)
    x = residual(x, 384, 128)
    n.output(n.conv(n.silu(n.group_norm(x, 128, 32)), 128, 4, 3))


def quantized(n, x, scale, zero):
    scale, zero = n.number(scale), n.constant(np.array(zero, "i1"))
    return n.op("DequantizeLinear", n.op("QuantizeLinear", x, scale, zero), scale, zero)


def quantized_conv(n, x, taken, made, size=1, stride=1, groups=1, scale=0.04, bias=True, pad=None):
    """Weights of 8 bits by filter, the bias of 32."""
    scales = ((n.random.random(made) + 0.5) * 0.01 * (4 / (taken // groups * size * size)) ** 0.5).astype("f")
    weights = n.random.integers(-127, 128, (made, taken // groups, size, size)).astype("i1")
    w = n.op("DequantizeLinear", n.constant(weights), n.constant(scales), n.constant(np.zeros(made, "i1")), axis=0)
    inputs = [x, w]
    if bias:
        inputs.append(n.op("DequantizeLinear", n.constant(n.random.integers(-900, 900, made).astype("i4")), n.constant((scales * scale).astype("f")), n.constant(np.zeros(made, "i4")), axis=0))
    pad = size // 2 if pad is None else pad
    return n.op("Conv", *inputs, dilations=[1, 1], group=groups, kernel_shape=[size] * 2, pads=[pad] * 4, strides=[stride] * 2)


def resnet_qdq(n):
    x = quantized(n, n.floats("image", 1, 3, 128, 128), 0.04, 0)
    x = quantized(n, n.relu(quantized_conv(n, x, 3, 64, 7, 2)), 0.04, -128)
    x = quantized(n, n.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]), 0.04, -128)
    taken = 64
    for made, stride in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]:
        y = quantized(n, n.relu(quantized_conv(n, x, taken, made, 3, stride)), 0.04, -128)
        y = quantized(n, quantized_conv(n, y, made, made, 3), 0.05, 3)
        if made != taken:
            x = quantized(n, quantized_conv(n, x, taken, made, 1, stride), 0.05, -4)
        x, taken = quantized(n, n.relu(n.add(y, x)), 0.04, -128), made
    x = n.op("Flatten", quantized(n, n.op("GlobalAveragePool", x), 0.04, -128), axis=1)
    w = n.op("DequantizeLinear", n.constant(n.random.integers(-127, 128, (1000, 512)).astype("i1")), n.constant(np.full(1000, 0.002, "f")), n.constant(np.zeros(1000, "i1")), axis=0)
    n.output(quantized(n, n.op("Gemm", x, w, n.bias(1000), transB=1), 0.1, 0))


def mobilenet_qdq(n):
    def cut(x):
        return quantized(n, n.op("Clip", x, n.number(0), n.number(6)), 6 / 255, -128)

    x = cut(quantized_conv(n, quantized(n, n.floats("image", 1, 3, 160, 160), 0.04, 0), 3, 32, 3, 2))
    taken, given = 32, 6 / 255
    for made, stride, repeats in [(16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 3), (96, 1, 2), (160, 2, 2)]:
        for repeat in range(repeats):
            step = 1 if repeat else stride
            y = cut(quantized_conv(n, x, taken, 6 * taken, scale=given))
            y = cut(quantized_conv(n, y, 6 * taken, 6 * taken, 3, step, 6 * taken, scale=6 / 255))
            y = quantized(n, quantized_conv(n, y, 6 * taken, made, scale=6 / 255), 0.05, 2)
            joined = taken == made and step == 1
            x, taken, given = quantized(n, n.add(x, y), 0.06, -3) if joined else y, made, 0.06 if joined else 0.05
    n.output(n.reduce("ReduceMean", x, [2, 3]))


def convolution_3d(n):
    def block(x, taken, made, stride):
        y = n.conv(n.relu(n.conv(x, taken, made, 3, stride, rank=3)), made, made, 3, rank=3)
        return n.relu(n.add(y, n.conv(x, taken, made, 1, stride, rank=3) if taken != made else x))

    x = n.relu(n.conv(n.floats("video", 1, 3, 8, 64, 64), 3, 32, (3, 7, 7), 2, rank=3))
    x = n.op("MaxPool", x, kernel_shape=[3, 3, 3], pads=[1] * 6, strides=[2, 2, 2])
    for taken, made, stride in [(32, 32, 1), (32, 64, 1), (64, 128, 2)]:
        x = block(x, taken, made, stride)
    n.output(n.gemm(n.op("Flatten", n.op("GlobalAveragePool", x), axis=1), 128, 101))


def mlp_mixer(n):
    x = n.conv(n.floats("image", 1, 3, 128, 128), 3, 256, 16, 16, 0)
    x = n.transpose(n.reshape(x, n.extent(x, 0), n.extent(x, 1), -1), 0, 2, 1)
    for _ in range(6):
        y = n.transpose(n.layer_norm(x, 256), 0, 2, 1)
        x = n.add(x, n.transpose(n.feed_forward(y, 64, 128), 0, 2, 1))
        x = n.add(x, n.feed_forward(n.layer_norm(x, 256), 256, 1024))
    n.output(n.gemm(n.reduce("ReduceMean", n.layer_norm(x, 256), [1], 0), 256, 1000))


def autoencoder(n):
    x = n.floats("image", 1, 3, 128, 128)
    for taken, made in [(3, 32), (32, 64), (64, 128)]:
        x = n.op("LeakyRelu", n.conv(x, taken, made, 4, 2, 1), alpha=0.2)
    x = n.conv(n.relu(n.conv(n.conv(x, 128, 32), 32, 32, 3)), 32, 128)
    for taken, made in [(128, 64), (64, 32), (32, 3)]:
        x = n.conv_transpose(x, taken, made, 4, 2, 1)
        x = n.op("Tanh" if made == 3 else "Elu", x)
    n.output(x)


def keras(n):
    """A channels-last network as a converter that removes nothing writes it: a Transpose on either side of each convolution."""
    def convolve(x, taken, made, size=1, stride=1, groups=1):
        x = n.transpose(x, 0, 3, 1, 2)
        if stride > 1:
            x = n.op("Pad", x, n.integers(0, 0, 0, 0, 0, 0, 1, 1), mode="constant")
        x = n.conv(x, taken, made, size, stride, [0] * 4 if stride > 1 else size // 2, groups, bias=False)
        x = n.transpose(x, 0, 2, 3, 1)
        return n.add(n.mul(x, n.scale(1, 1, 1, made)), n.bias(1, 1, 1, made))

    def cut(x):
        return n.op("Min", n.op("Max", x, n.number(0)), n.number(6))

    x = cut(convolve(n.floats("input", 1, 160, 160, 3, dims=["unknown", 160, 160, 3]), 3, 32, 3, 2))
    taken = 32
    for made, stride, repeats in [(16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 3), (96, 1, 2)]:
        for repeat in range(repeats):
            step = 1 if repeat else stride
            y = cut(convolve(cut(convolve(x, taken, 6 * taken)), 6 * taken, 6 * taken, 3, step, 6 * taken))
            y = convolve(y, 6 * taken, made)
            x, taken = n.add(x, y) if taken == made and step == 1 else y, made
    x = n.reduce("ReduceMean", x, [1, 2], 0)
    n.output(n.softmax(n.add(n.op("MatMul", x, n.weight(96, 1000)), n.bias(1000))))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (mobilenet_v3, 17), (efficientnet_b0, 17), (convnext, 17), (resnext, 17), (deeplab, 17), (unet, 17), (unet_resize, 18), (yolov5, 17), (yolov8, 17), (ssd, 17),
    (super_resolution, 17), (style_transfer, 17), (diffusion, 17), (resnet_qdq, 17), (mobilenet_qdq, 17), (convolution_3d, 18), (mlp_mixer, 17), (autoencoder, 18), (keras, 13)]}


