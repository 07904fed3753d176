# SPDX-License-Identifier: Apache-2.0
"""Networks whose weights, filters or windows are made in the run: convolutions by computed filters, mixed, modulated or taken from another image; and others that no file here has: scores with a slope for
each head, attention in running sums, tensor products, spikes, hashed grids, windows by shifts, blocks of cosines, tokens that are dropped. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto

from architecture_net import FLOAT

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def conditional_filters(n):
    """CondConv: a router mixes eight kernels for each image; the batch becomes groups of one convolution by computed weights."""
    x = n.relu(n.conv(n.floats("image", 2, 3, 64, 64), 3, 32, 3, 2))
    taken = 32
    for made, stride in ((32, 1), (64, 2), (64, 1)):
        routes = n.op("Sigmoid", n.gemm(n.op("Flatten", n.op("GlobalAveragePool", x), axis=1), taken, 8))
        kernels = n.constant((n.random.standard_normal((8, made * taken * 9)) * (0.5 / (taken * 9)) ** 0.5).astype("f"))
        mixed = n.reshape(n.op("MatMul", routes, kernels), -1, taken, 3, 3)
        side = {32: 32, 64: 32}[taken] if taken == 32 else 16
        rows = n.reshape(x, 1, -1, side, side)
        y = n.op("Conv", rows, mixed, group=2, kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2)
        x, taken = n.silu(n.reshape(y, 2, made, side // stride, side // stride)), made
    n.output(n.gemm(n.op("Flatten", n.op("GlobalAveragePool", x), axis=1), 64, 10))


def modulated_filters(n):
    """A style-based generator: styles scale the filters, these are divided by their norms, applied as a transposed or a plain convolution of one group, smoothed by a fixed filter in each channel,
    with noise and skips to colours."""
    z = n.floats("latent", 1, 128)
    w = n.op("Div", z, n.op("Sqrt", n.add(n.reduce("ReduceMean", n.mul(z, z), [1]), n.number(1e-8))))
    for _ in range(4):
        w = n.op("LeakyRelu", n.gemm(w, 128, 128), alpha=0.2)
    x, image, taken, side = n.constant(n.random.standard_normal((1, 96, 8, 8)).astype("f")), None, 96, 8
    blur = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype("f")
    blur *= 4 / blur.sum()

    def modulated(x, made, size, up):
        style = n.reshape(n.gemm(w, 128, taken), 1, 1, -1, 1, 1)
        weight = n.mul(n.mul(n.number((taken * size * size) ** -0.5), n.constant(n.random.standard_normal((1, made, taken, size, size)).astype("f"))), style)
        if size > 1:
            norm = n.op("Reciprocal", n.op("Sqrt", n.add(n.reduce("ReduceSum", n.op("Pow", weight, n.number(2)), [2, 3, 4], 0), n.number(1e-8))))
            weight = n.mul(weight, n.reshape(norm, 1, made, 1, 1, 1))
        if not up:
            return n.op("Conv", x, n.reshape(weight, made, taken, size, size), kernel_shape=[size] * 2, pads=[size // 2] * 4, group=1)
        turned = n.reshape(n.transpose(n.reshape(weight, 1, made, taken, size, size), 0, 2, 1, 3, 4), taken, made, size, size)
        y = n.op("ConvTranspose", x, turned, kernel_shape=[size] * 2, strides=[2, 2], group=1)
        kernel = n.constant(np.broadcast_to(blur, (made, 1, 4, 4)))
        return n.op("Conv", y, kernel, kernel_shape=[4, 4], pads=[1] * 4, group=made)

    for level in range(4):
        made = (96, 64, 48, 32)[level]
        for up in ([True, False] if level else [False]):
            x, taken, side = modulated(x, made, 3, up), made, side * 2 if up else side
            noise = n.mul(n.constant(n.random.standard_normal((1, 1, side, side)).astype("f")), n.number(0.1))
            x = n.mul(n.op("LeakyRelu", n.add(x, noise, n.bias(1, made, 1, 1)), alpha=0.2), n.number(2 ** 0.5))
        colours = n.add(modulated(x, 3, 1, False), n.bias(1, 3, 1, 1))
        if image:
            spread = n.op("Resize", image, "", n.constant(np.array([1, 1, 2, 2], "f")), mode="linear", coordinate_transformation_mode="half_pixel")
            colours = n.add(colours, spread)
        image = colours
    n.output(image)


def siamese_tracker(n):
    """What was seen is correlated with what is there, channel by channel: one image's features are the filters of the other's."""
    def features(x):
        for taken, made, stride in ((3, 32, 2), (32, 64, 2), (64, 96, 2), (96, 96, 1)):
            x = n.relu(n.conv(x, taken, made, 3, stride, 0))
        return x

    seen, there = features(n.floats("template", 1, 3, 95, 95)), features(n.floats("search", 1, 3, 191, 191))
    for made in (10, 20):
        kernel, map_ = n.relu(n.conv(seen, 96, 96, 3, 1, 0)), n.relu(n.conv(there, 96, 96, 3, 1, 0))
        turned = n.reshape(kernel, 96, 1, 7, 7)
        y = n.op("Conv", n.reshape(map_, 1, 96, 19, 19), turned, kernel_shape=[7, 7], group=96)
        n.output(n.conv(n.relu(n.conv(y, 96, 96)), 96, made))


def slopes(n):
    """BLOOM: queries, keys and values of one product lie side by side for each head; a slope for each head, times positions counted from a mask, is added to the scores by baddbmm."""
    ids, mask = n.input("input_ids", n.random.integers(0, 500, (1, 96)), ["batch", "length"]), n.input("attention_mask", np.ones((1, 96), np.int64), ["batch", "length"])
    width, heads, size = 256, 8, 32
    batch, length = n.extent(ids, 0), n.extent(ids, 1)
    x = n.layer_norm(n.op("Gather", n.weight(500, width, fan=1), ids), width)
    places = n.op("Cast", n.op("Unsqueeze", n.mul(n.op("Sub", n.op("CumSum", mask, n.index(1)), n.index(1)), mask), n.integers(1)), to=FLOAT)
    bias = n.mul(n.constant((2.0 ** -np.arange(1, heads + 1)).astype("f").reshape(heads, 1)), places)
    rows = n.op("Range", n.index(0), length, n.index(1))
    later = n.op("Less", n.op("Unsqueeze", rows, n.integers(1)), n.op("Unsqueeze", rows, n.integers(0)))
    hidden = n.op("Or", n.op("Unsqueeze", later, n.integers(0, 1)), n.op("Not", n.op("Cast", n.op("Unsqueeze", mask, n.integers(1, 2)), to=BOOL)))
    for _ in range(3):
        y = n.layer_norm(x, width)
        fused = n.reshape(n.linear(y, width, 3 * width), batch, length, heads, 3, size)
        q, k, v = (n.op("Gather", fused, n.index(i), axis=3) for i in range(3))
        q = n.reshape(n.transpose(q, 0, 2, 1, 3), -1, length, size)
        k = n.reshape(n.transpose(k, 0, 2, 3, 1), -1, size, length)
        v = n.reshape(n.transpose(v, 0, 2, 1, 3), -1, length, size)
        scores = n.add(n.mul(n.op("MatMul", q, k), n.number(size ** -0.5)), n.reshape(bias, -1, 1, length))
        scores = n.op("Where", hidden, n.number(-3e38), n.reshape(scores, batch, heads, length, length))
        weights = n.reshape(n.softmax(scores), -1, length, length)
        mixed = n.transpose(n.reshape(n.op("MatMul", weights, v), batch, heads, length, size), 0, 2, 1, 3)
        x = n.add(n.linear(n.reshape(mixed, batch, length, width), width, width), x)
        x = n.add(n.feed_forward(n.layer_norm(x, width), width, 4 * width, n.gelu_tanh), x)
    n.output(n.linear(n.layer_norm(x, width), width, 500, False))


def running_sums(n):
    """Linear attention that looks back only: outer products of keys and values, summed over what came before."""
    x = n.floats("x", 1, 128, 128, dims=["batch", 128, 128])
    for _ in range(2):
        y = n.layer_norm(x, 128)
        feature = lambda v: n.add(n.op("Elu", v), n.number(1))
        q, k, v = (n.heads(n.linear(y, 128, 128), 4, 32, 128) for _ in range(3))
        q, k = feature(q), feature(k)
        outer = n.op("CumSum", n.mul(n.op("Unsqueeze", k, n.integers(4)), n.op("Unsqueeze", v, n.integers(3))), n.index(2))
        above = n.op("Squeeze", n.op("MatMul", n.op("Unsqueeze", q, n.integers(3)), outer), n.integers(3))
        below = n.reduce("ReduceSum", n.mul(q, n.op("CumSum", k, n.index(2))), [-1])
        mixed = n.op("Div", above, n.add(below, n.number(1e-6)))
        x = n.add(x, n.linear(n.reshape(n.transpose(mixed, 0, 2, 1, 3), 0, 128, 128), 128, 128))
        x = n.add(x, n.feed_forward(n.layer_norm(x, 128), 128, 256))
    n.output(n.reduce("ReduceMean", x, [1], 0))


def tensor_products(n):
    """Equivariant messages: products of features and of spherical functions by Einsum of three and four operands, summed over neighbours."""
    atoms, edges = 24, 160
    features, directions = n.floats("features", atoms, 16, 4), n.floats("directions", edges, 3)
    source, target = n.input("source", n.random.integers(0, atoms, edges)), n.input("target", n.random.integers(0, atoms, edges))
    x, y, z = (n.slice(directions, 1, i, i + 1) for i in range(3))
    sphere = n.op("Concat", n.mul(x, y), n.mul(y, z), n.op("Sub", n.mul(z, z), n.mul(x, x)), n.op("Sub", n.mul(x, x), n.mul(y, y)), n.mul(x, z), axis=1)
    radial = n.linear(n.silu(n.linear(n.op("Sqrt", n.reduce("ReduceSum", n.mul(directions, directions), [1])), 1, 32)), 32, 16 * 16)
    for _ in range(2):
        coupling = n.constant(n.random.standard_normal((4, 5, 4)).astype("f") * 0.3)
        weights = n.reshape(radial, -1, 16, 16)
        sent = n.op("Gather", features, source, axis=0)
        message = n.op("Einsum", sent, sphere, coupling, weights, equation="eui,ej,ijk,euw->ewk")
        zeros = n.op("Expand", n.number(0), n.op("Shape", features))
        place = n.op("Expand", n.op("Unsqueeze", target, n.integers(1, 2)), n.op("Shape", message))
        summed = n.op("ScatterElements", zeros, place, message, axis=0, reduction="add")
        norms = n.op("Sqrt", n.add(n.op("Einsum", summed, summed, equation="aui,aui->au"), n.number(1e-6)))
        gate = n.op("Sigmoid", n.linear(norms, 16, 16))
        features = n.add(features, n.op("Einsum", summed, gate, n.weight(16, 16), equation="aui,au,uw->awi"))
    n.output(n.op("Einsum", features, n.weight(16, 1), equation="aui,uo->ai"))


def spikes(n):
    """A network of spiking neurons: in each of 16 steps potentials leak, fire above a threshold and are reset; convolutions in a loop, rates counted."""
    x = n.floats("image", 1, 2, 32, 32)
    zeros = lambda *shape: n.constant(np.zeros(shape, "f"))

    def step(body, i, a, b, c, counted):
        def fire(v, current):
            v = body.add(body.mul(v, body.number(0.9)), current)
            spike = body.op("Cast", body.op("Greater", v, body.number(0.5)), to=FLOAT)
            return body.op("Sub", v, body.mul(spike, body.number(0.5))), spike

        a, s = fire(a, body.op("Conv", x, first, first_bias, pads=[1] * 4))
        b, s = fire(b, body.op("Conv", body.op("MaxPool", s, kernel_shape=[2, 2], strides=[2, 2]), second, pads=[1] * 4))
        pooled = body.reshape(body.op("AveragePool", s, kernel_shape=[4, 4], strides=[4, 4]), 1, -1)
        c, s = fire(c, body.op("Gemm", pooled, third, transB=1))
        return [a, b, c, body.add(counted, s)], [body.reduce("ReduceMean", s, [1], 0)]

    first, first_bias, second, third = n.weight(16, 2, 3, 3), n.bias(16), n.weight(32, 16, 3, 3), n.weight(10, 512, fan=128)
    shapes = [(1, 16, 32, 32), (1, 32, 16, 16), (1, 10), (1, 10)]
    made = n.loop(n.index(16), [(FLOAT, list(s), zeros(*s)) for s in shapes], step)
    n.output(n.op("Div", made[3], n.number(16)))
    n.output(made[4])


def hashed_grid(n):
    """A field in hashed grids of eight levels: corners by BitwiseXor and Mod of 64-bit integers, features looked up and interpolated, a small network on them."""
    points = n.op("Sigmoid", n.floats("points", 1024, 3))
    corners = n.constant(np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)], np.int64).reshape(1, 8, 3))
    parts = []
    for level in range(8):
        scaled = n.mul(points, n.number(16 * 1.5 ** level))
        floor = n.op("Floor", scaled)
        rest = n.op("Unsqueeze", n.op("Sub", scaled, floor), n.integers(1))
        place = n.add(n.op("Unsqueeze", n.op("Cast", floor, to=INT64), n.integers(1)), corners)
        hashed = n.mul(place, n.constant(np.array([1, 2654435761, 805459861], np.int64)))
        a, b, c = (n.op("Gather", hashed, n.index(i), axis=2) for i in range(3))
        at = n.op("Mod", n.op("BitwiseXor", n.op("BitwiseXor", a, b), c), n.index(1 << 12))
        found = n.op("Gather", n.bias(1 << 12, 2), at, axis=0)
        weights = n.op("Where", n.op("Equal", corners, n.index(1)), rest, n.op("Sub", n.number(1), rest))
        weights = n.op("ReduceProd", weights, n.integers(2), keepdims=1)
        parts.append(n.reduce("ReduceSum", n.mul(found, weights), [1], 0))
    x = n.op("Concat", *parts, axis=1)
    x = n.relu(n.linear(x, 16, 64))
    n.output(n.op("Sigmoid", n.linear(n.relu(n.linear(x, 64, 64)), 64, 4)))


def shifted_windows(n):
    """A bilateral filter without a loop: 25 shifted copies of a padded image, weighted by how near and how alike, and a small network that says how strongly."""
    x = n.floats("image", 1, 3, 120, 160)
    strength = n.op("Softplus", n.conv(n.relu(n.conv(x, 3, 8, 3)), 8, 1, 3))
    padded = n.op("Pad", x, n.integers(0, 0, 2, 2, 0, 0, 2, 2), mode="reflect")
    above, below = None, None
    for i in range(5):
        for k in range(5):
            y = n.slice(n.slice(padded, 2, i, i + 120), 3, k, k + 160)
            apart = n.reduce("ReduceSum", n.op("Pow", n.op("Sub", y, x), n.number(2)), [1])
            near = n.op("Exp", n.op("Neg", n.add(n.op("Div", apart, strength), n.number(((i - 2) ** 2 + (k - 2) ** 2) / 4))))
            above, below = (n.add(above, n.mul(near, y)), n.add(below, near)) if above else (n.mul(near, y), near)
    n.output(n.op("Clip", n.op("Div", above, below), n.number(-3), n.number(3)))


def cosine_blocks(n):
    """What JPEG does, so that a network can learn through it: colours turned by a product, chroma halved, blocks of 8 by 8 by Reshape and Transpose, cosines, quantised by rounding with a residual, and all the way back."""
    x = n.mul(n.op("Sigmoid", n.floats("image", 1, 3, 128, 128)), n.number(255))
    turn = np.array([[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]], "f")
    cosines = np.array([[np.cos((2 * i + 1) * k * np.pi / 16) * (0.125 if k == 0 else 0.25) ** 0.5 for i in range(8)] for k in range(8)], "f")
    turned = n.op("MatMul", n.transpose(x, 0, 2, 3, 1), n.constant(turn.T))
    planes = [n.op("Squeeze", p, n.integers(3)) for p in n.split(turned, 3, 1, 1, 1)]
    done = []
    for i, plane in enumerate(planes):
        side = 128
        if i:
            plane, side = n.op("Squeeze", n.op("AveragePool", n.op("Unsqueeze", plane, n.integers(1)), kernel_shape=[2, 2], strides=[2, 2]), n.integers(1)), 64
        blocks = n.reshape(n.transpose(n.reshape(n.op("Sub", plane, n.number(128.0 if not i else 0.0)), 1, side // 8, 8, side // 8, 8), 0, 1, 3, 2, 4), -1, 8, 8)
        spectrum = n.op("MatMul", n.op("MatMul", n.constant(cosines), blocks), n.constant(cosines.T))
        table = n.constant((8 + 4 * np.add.outer(np.arange(8), np.arange(8))).astype("f"))
        scaled = n.op("Div", spectrum, table)
        rounded = n.op("Round", scaled)
        soft = n.add(rounded, n.op("Pow", n.op("Sub", scaled, rounded), n.number(3)))
        blocks = n.op("MatMul", n.op("MatMul", n.constant(cosines.T), n.mul(soft, table)), n.constant(cosines))
        plane = n.reshape(n.transpose(n.reshape(blocks, 1, side // 8, side // 8, 8, 8), 0, 1, 3, 2, 4), 1, 1, side, side)
        if i:
            plane = n.op("Resize", plane, "", n.constant(np.array([1, 1, 2, 2], "f")), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        else:
            plane = n.add(plane, n.number(128))
        done.append(plane)
    back = n.op("MatMul", n.transpose(n.op("Concat", *done, axis=1), 0, 2, 3, 1), n.constant(np.linalg.inv(turn).T.astype("f")))
    n.output(n.op("Div", n.op("Clip", n.transpose(back, 0, 3, 1, 2), n.number(0), n.number(255)), n.number(255)))


def dropped_tokens(n):
    """A vision transformer that goes on with the tokens that the class looks at most: TopK of the scores, GatherElements, what is left becomes one token."""
    x = n.conv(n.floats("image", 1, 3, 160, 160, dims=["batch", 3, 160, 160]), 3, 192, 16, 16, 0)
    batch = n.extent(x, 0)
    x = n.transpose(n.reshape(x, batch, 192, 100), 0, 2, 1)
    x = n.add(n.op("Concat", n.op("Expand", n.bias(1, 1, 192), n.dims(batch, 1, 192)), x, axis=1), n.bias(1, 101, 192))
    length = 101
    for layer in range(6):
        y = n.layer_norm(x, 192)
        q, k, v = (n.heads(n.linear(y, 192, 192), 3, 64, length) for _ in range(3))
        weights = n.softmax(n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(0.125)))
        mixed = n.reshape(n.transpose(n.op("MatMul", weights, v), 0, 2, 1, 3), batch, length, 192)
        x = n.add(x, n.linear(mixed, 192, 192))
        if layer in (1, 3):
            kept = (length - 1) * 7 // 10
            seen = n.reduce("ReduceMean", n.op("Squeeze", n.slice(n.slice(weights, 2, 0, 1), 3, 1, None), n.integers(2)), [1], 0)
            _, order = n.op("TopK", seen, n.integers(length - 1), outs=2, axis=1)
            place = n.op("Expand", n.op("Unsqueeze", order, n.integers(2)), n.dims(batch, length - 1, 192))
            sorted_ = n.op("GatherElements", n.slice(x, 1, 1, None), place, axis=1)
            score = n.op("Unsqueeze", n.op("GatherElements", seen, n.slice(order, 1, kept, None), axis=1), n.integers(2))
            rest = n.reduce("ReduceSum", n.mul(n.slice(sorted_, 1, kept, None), n.op("Div", score, n.reduce("ReduceSum", score, [1]))), [1])
            x, length = n.op("Concat", n.slice(x, 1, 0, 1), n.slice(sorted_, 1, 0, kept), rest, axis=1), kept + 2
        x = n.add(x, n.feed_forward(n.layer_norm(x, 192), 192, 768))
    n.output(n.gemm(n.op("Gather", n.layer_norm(x, 192), n.index(0), axis=1), 192, 100))


def image_decoder(n):
    """The decoder of a latent diffusion model: residual blocks of GroupNorm and SiLU, attention over a map by products of its points, sizes for Resize computed from shapes."""
    x = n.conv(n.floats("latent", 1, 4, 16, 16, dims=["batch", 4, "height", "width"]), 4, 128, 3)

    def block(x, taken, made):
        y = n.conv(n.silu(n.group_norm(x, taken, 16)), taken, made, 3)
        y = n.conv(n.silu(n.group_norm(y, made, 16)), made, made, 3)
        return n.add(x if taken == made else n.conv(x, taken, made), y)

    def attend(x, c):
        batch, height, width = n.extent(x, 0), n.extent(x, 2), n.extent(x, 3)
        y = n.group_norm(x, c, 16)
        points = n.transpose(n.reshape(y, batch, c, -1), 0, 2, 1)
        q, k, v = (n.linear(points, c, c) for _ in range(3))
        weights = n.softmax(n.mul(n.op("MatMul", q, n.transpose(k, 0, 2, 1)), n.number(c ** -0.5)))
        mixed = n.linear(n.op("MatMul", weights, v), c, c)
        return n.add(x, n.reshape(n.transpose(mixed, 0, 2, 1), batch, c, height, width))

    x = block(attend(block(x, 128, 128), 128), 128, 128)
    for taken, made in ((128, 96), (96, 64), (64, 32)):
        x = block(x, taken, made)
        shape = n.op("Shape", x)
        sizes = n.op("Concat", n.slice(shape, 0, 0, 2), n.mul(n.slice(shape, 0, 2, 4), n.integers(2, 2)), axis=0)
        x = n.conv(n.op("Resize", x, "", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"), made, made, 3)
    n.output(n.conv(n.silu(n.group_norm(x, 32, 16)), 32, 3, 3))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (conditional_filters, 17), (modulated_filters, 17), (siamese_tracker, 13), (slopes, 17), (running_sums, 17), (tensor_products, 17), (spikes, 17), (hashed_grid, 18), (shifted_windows, 17),
    (cosine_blocks, 17), (dropped_tokens, 17), (image_decoder, 17)]}
