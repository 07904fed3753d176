# SPDX-License-Identifier: Apache-2.0
"""Networks that look for objects, join convolutions with attention, or are stored in few bits, as exporters write them: what
architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from architecture_images import bottleneck
from architecture_net import FLOAT, Net


def segformer(n):
    """Keys and values of fewer tokens, by a convolution; feed-forwards with a depthwise convolution between; heads joined by Resize."""
    x, maps, taken, extent = n.floats("image", 1, 3, 128, 128), [], 3, 128
    for width, heads, size, stride, less in [(32, 1, 7, 4, 8), (64, 2, 3, 2, 4), (160, 5, 3, 2, 2), (256, 8, 3, 2, 1)]:
        x = n.conv(x, taken, width, size, stride)
        extent, taken = extent // stride, width
        x = n.layer_norm(n.transpose(n.reshape(x, 1, width, -1), 0, 2, 1), width)
        for _ in range(2):
            y = k = n.layer_norm(x, width)
            if less > 1:
                k = n.conv(n.reshape(n.transpose(y, 0, 2, 1), 1, width, extent, extent), width, width, less, less, 0)
                k = n.layer_norm(n.transpose(n.reshape(k, 1, width, -1), 0, 2, 1), width)
            q, k, v = (n.transpose(n.reshape(n.linear(s, width, width), 1, -1, heads, 32), 0, 2, 1, 3) for s in (y, k, k))
            scores = n.op("Div", n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(32 ** 0.5))
            y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 1, -1, width)
            x = n.add(n.linear(y, width, width), x)
            y = n.transpose(n.linear(n.layer_norm(x, width), width, 4 * width), 0, 2, 1)
            y = n.conv(n.reshape(y, 1, 4 * width, extent, extent), 4 * width, 4 * width, 3, groups=4 * width)
            y = n.gelu(n.transpose(n.reshape(y, 1, 4 * width, extent * extent), 0, 2, 1))
            x = n.add(n.linear(y, 4 * width, width), x)
        x = n.transpose(n.reshape(n.layer_norm(x, width), 1, extent, extent, -1), 0, 3, 1, 2)
        maps.append((x, width, extent))
    joined = []
    for x, width, extent in reversed(maps):
        y = n.transpose(n.linear(n.transpose(n.reshape(x, 1, width, -1), 0, 2, 1), width, 128), 0, 2, 1)
        joined.append(n.op("Resize", n.reshape(y, 1, 128, extent, extent), "", "", n.integers(1, 128, 32, 32), coordinate_transformation_mode="pytorch_half_pixel",
                           cubic_coeff_a=-0.75, mode="linear", nearest_mode="floor"))
    n.output(n.conv(n.relu(n.conv(n.op("Concat", *joined, axis=1), 512, 128)), 128, 150))


def attention(n, q, k, v, width, heads):
    """nn.MultiheadAttention, tokens first: heads within the batch."""
    size = width // heads
    q = n.mul(n.linear(q, width, width), n.number(size ** -0.5))
    q, k, v = (n.transpose(n.reshape(s, -1, heads, size), 1, 0, 2) for s in (q, n.linear(k, width, width), n.linear(v, width, width)))
    y = n.op("MatMul", n.softmax(n.op("MatMul", q, n.transpose(k, 0, 2, 1))), v)
    return n.linear(n.reshape(n.transpose(y, 1, 0, 2), -1, 1, width), width, width)


def detr(n):
    """Attention over a map of features, whose positions are added to queries and keys; thirty queries."""
    x = n.op("MaxPool", n.relu(n.conv(n.floats("image", 1, 3, 160, 160), 3, 64, 7, 2)), kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    taken = 64
    for stage in range(3):
        x, taken = bottleneck(n, x, taken, 64 << stage, 128 << stage, 2 if stage else 1, 1), 128 << stage
    x = n.transpose(n.reshape(n.conv(x, taken, 128), 1, 128, -1), 2, 0, 1)
    places = n.bias(100, 1, 128)
    for _ in range(3):
        y = n.add(x, places)
        x = n.layer_norm(n.add(x, attention(n, y, y, x, 128, 4)), 128)
        x = n.layer_norm(n.add(x, n.linear(n.relu(n.linear(x, 128, 512)), 512, 128)), 128)
    queries, y = n.bias(30, 1, 128), n.constant(np.zeros((30, 1, 128), "f"))
    for _ in range(3):
        z = n.add(y, queries)
        y = n.layer_norm(n.add(y, attention(n, z, z, y, 128, 4)), 128)
        y = n.layer_norm(n.add(y, attention(n, n.add(y, queries), n.add(x, places), x, 128, 4)), 128)
        y = n.layer_norm(n.add(y, n.linear(n.relu(n.linear(y, 128, 512)), 512, 128)), 128)
    y = n.transpose(n.layer_norm(y, 128), 1, 0, 2)
    n.output(n.linear(y, 128, 92))
    n.output(n.op("Sigmoid", n.linear(n.relu(n.linear(y, 128, 128)), 128, 4)))


def rt_detr(n):
    """The best of all points by TopK and GatherElements; attention to sampled points of three maps by GridSample."""
    width, heads, size, points, queries = 128, 4, 32, 4, 100
    x, taken, maps, rows = n.relu(n.conv(n.floats("image", 1, 3, 192, 192), 3, 32, 3, 2)), 32, [], []
    for made in (64, 128, 256, 256):
        x, taken = n.relu(n.conv(n.relu(n.conv(x, taken, made, 3, 2)), made, made, 3)), made
        if made >= 128:
            maps.append((n.conv(x, made, width), 192 // (2 << len(maps) + 2)))
            rows.append(n.transpose(n.reshape(maps[-1][0], 1, width, -1), 0, 2, 1))
    memory = n.op("Concat", *rows, axis=1)
    memory = n.layer_norm(n.linear(memory, width, width), width)
    best = n.reduce("ReduceMax", n.linear(memory, width, 80), [-1], 0)
    _, places = n.op("TopK", best, n.integers(queries), outs=2, axis=1, largest=1, sorted=1)
    boxes = n.linear(n.relu(n.linear(memory, width, width)), width, 4)
    chosen = n.op("GatherElements", boxes, n.op("Tile", n.op("Unsqueeze", places, n.integers(-1)), n.integers(1, 1, 4)), axis=1)
    y = n.op("GatherElements", memory, n.op("Tile", n.op("Unsqueeze", places, n.integers(-1)), n.integers(1, 1, width)), axis=1)
    reference = n.op("Sigmoid", chosen)
    for _ in range(2):
        y = n.layer_norm(n.add(y, n.self_attention(y, width, heads)), width)
        values = n.reshape(n.linear(memory, width, width), 1, -1, heads, size)
        offsets = n.reshape(n.linear(y, width, heads * 3 * points * 2), 1, queries, heads, 3, points, 2)
        shares = n.reshape(n.softmax(n.reshape(n.linear(y, width, heads * 3 * points), 1, queries, heads, 3 * points)), 1, queries, heads, 3, points)
        centre, extent = n.split(n.op("Unsqueeze", n.op("Unsqueeze", n.op("Unsqueeze", reference, n.integers(2)), n.integers(3)), n.integers(3)), -1, 2, 2)
        where = n.add(centre, n.mul(n.op("Div", offsets, n.number(points)), extent, n.number(0.5)))
        grids = n.op("Sub", n.mul(where, n.number(2)), n.number(1))
        parts = n.split(values, 1, *[e * e for _, e in maps])
        sampled = []
        for level, (part, (_, e)) in enumerate(zip(parts, maps)):
            image = n.reshape(n.transpose(n.reshape(part, 1, e * e, heads * size), 0, 2, 1), heads, size, e, e)
            grid = n.op("Gather", grids, n.index(level), axis=3)
            grid = n.reshape(n.transpose(grid, 0, 2, 1, 3, 4), heads, queries, points, 2)
            sampled.append(n.op("Unsqueeze", n.op("GridSample", image, grid, align_corners=0, mode="bilinear", padding_mode="zeros"), n.integers(-2)))
        sampled = n.reshape(n.op("Concat", *sampled, axis=-2), heads, size, queries, 3 * points)
        shares = n.reshape(n.transpose(shares, 0, 2, 1, 3, 4), heads, 1, queries, 3 * points)
        z = n.reduce("ReduceSum", n.mul(sampled, shares), [-1], 0)
        z = n.transpose(n.reshape(z, 1, width, queries), 0, 2, 1)
        y = n.layer_norm(n.add(y, n.linear(z, width, width)), width)
        y = n.layer_norm(n.add(y, n.linear(n.relu(n.linear(y, width, 512)), 512, width)), width)
    n.output(n.linear(y, width, 80)), n.output(reference)


def efficientdet(n):
    """Maps joined up and down with weights that are positive and sum to one; separable heads that all maps share."""
    x, taken, maps = n.silu(n.conv(n.floats("image", 1, 3, 256, 256), 3, 32, 3, 2)), 32, []
    for made in (40, 64, 112, 192):
        x = n.silu(n.conv(n.silu(n.conv(x, taken, taken, 3, 2, groups=taken)), taken, made))
        taken = made
        maps.append(n.conv(x, made, 64))
    maps.append(n.op("MaxPool", maps[-1], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]))

    def join(*values):
        weights = n.relu(n.scale(len(values)))
        weights = n.op("Div", weights, n.add(n.reduce("ReduceSum", weights, [0], 0), n.number(1e-4)))
        parts = [n.mul(n.op("Gather", weights, n.index(i), axis=0), value) for i, value in enumerate(values)]
        return n.conv(n.conv(n.silu(n.add(*parts)), 64, 64, 3, groups=64, bias=False), 64, 64)

    def up(x):
        return n.op("Resize", x, "", n.constant(np.array([1, 1, 2, 2], "f")), coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")

    for _ in range(2):
        down = [maps[-1]]
        for value in reversed(maps[:-1]):
            down.insert(0, join(value, up(down[0])))
        maps, before = [down[0]], maps
        for i in range(1, 5):
            lower = n.op("MaxPool", maps[-1], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
            maps.append(join(before[i], down[i], lower) if i < 4 else join(before[i], lower))
    for made in (9 * 20, 9 * 4):
        depthwise, pointwise, last = n.weight(64, 1, 3, 3), n.weight(64, 64, 1, 1), n.weight(made, 64, 1, 1)
        rows = []
        for x in maps:
            for _ in range(2):
                x = n.op("Conv", x, depthwise, group=64, kernel_shape=[3, 3], pads=[1] * 4)
                x = n.silu(n.op("Conv", x, pointwise, kernel_shape=[1, 1]))
            x = n.transpose(n.op("Conv", x, last, kernel_shape=[1, 1]), 0, 2, 3, 1)
            rows.append(n.reshape(x, 1, -1, made // 9))
        n.output(n.op("Concat", *rows, axis=1))


def mobilevit(n):
    """Patches of two by two by Reshape and Transpose, attention among those in the same place of each."""
    x, taken = n.silu(n.conv(n.floats("image", 1, 3, 128, 128), 3, 16, 3, 2)), 16

    def inverted(x, taken, made, stride):
        y = n.silu(n.conv(x, taken, 4 * taken))
        y = n.conv(n.silu(n.conv(y, 4 * taken, 4 * taken, 3, stride, groups=4 * taken)), 4 * taken, made)
        return n.add(x, y) if taken == made and stride == 1 else y

    for made, stride in [(32, 1), (48, 2), (48, 1), (64, 2)]:
        x, taken = inverted(x, taken, made, stride), made
    for width, made, extent, layers in [(96, 64, 16, 2), (120, 80, 8, 3)]:
        if made != taken:
            x, taken = inverted(x, taken, made, 2), made
        side = extent // 2
        y = n.conv(n.silu(n.conv(x, made, made, 3)), made, width)
        y = n.transpose(n.reshape(y, width * side, 2, side, 2), 0, 2, 1, 3)
        y = n.transpose(n.reshape(y, 1, width, side * side, 4), 0, 3, 2, 1)
        y = n.reshape(y, 4, side * side, width)
        for _ in range(layers):
            z = n.linear(n.layer_norm(y, width), width, 3 * width)
            z = n.transpose(n.reshape(z, 4, side * side, 3, 4, width // 4), 2, 0, 3, 1, 4)
            q, k, v = (n.op("Squeeze", s, n.integers(0)) for s in n.split(z, 0, 1, 1, 1))
            scores = n.op("MatMul", n.mul(q, n.number((width // 4) ** -0.5)), n.transpose(k, 0, 1, 3, 2))
            z = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 4, side * side, width)
            y = n.add(y, n.linear(z, width, width))
            y = n.add(y, n.linear(n.silu(n.linear(n.layer_norm(y, width), width, 2 * width)), 2 * width, width))
        y = n.transpose(n.reshape(n.layer_norm(y, width), 1, 4, side * side, width), 0, 3, 2, 1)
        y = n.transpose(n.reshape(y, width * side, side, 2, 2), 0, 2, 1, 3)
        y = n.silu(n.conv(n.reshape(y, 1, width, extent, extent), width, made))
        x = n.silu(n.conv(n.op("Concat", x, y, axis=1), 2 * made, made, 3))
    n.output(n.gemm(n.reduce("ReduceMean", n.silu(n.conv(x, taken, 320)), [2, 3], 0), 320, 1000))


def mask_rcnn(n):
    """The second stage: boxes taken from a map by RoiAlign, then classes, boxes and masks."""
    x = n.relu(n.conv(n.relu(n.conv(n.floats("image", 1, 3, 128, 128), 3, 32, 7, 4)), 32, 64, 3, 2))
    corners = n.random.random((20, 2)) * 80
    boxes = n.input("boxes", np.concatenate([corners, corners + 16 + n.random.random((20, 2)) * 30], 1).astype("f"), ["boxes", 4])
    images = n.op("ConstantOfShape", n.op("Unsqueeze", n.extent(boxes, 0), n.integers(0)), value=helper.make_tensor("", TensorProto.INT64, [1], [0]))

    def align(extent):
        return n.op("RoiAlign", x, boxes, images, coordinate_transformation_mode="half_pixel", mode="avg", output_height=extent, output_width=extent, sampling_ratio=2,
                    spatial_scale=0.125)

    y = n.relu(n.gemm(n.op("Flatten", align(7), axis=1), 64 * 49, 256))
    n.output(n.softmax(n.gemm(y, 256, 21))), n.output(n.gemm(y, 256, 84))
    z = align(14)
    for _ in range(2):
        z = n.relu(n.conv(z, 64, 64, 3))
    n.output(n.op("Sigmoid", n.conv(n.relu(n.conv_transpose(z, 64, 64, 2, 2)), 64, 21)))


def vits(n):
    """Couplings of a normalising flow, that turn channels round by Slice, and durations that become an alignment."""
    length, width = 50, 96
    x = n.floats("hidden", 1, width, length, dims=[1, width, "symbols"])
    logs = n.conv(n.relu(n.conv(x, width, width, 3, rank=1)), width, 1, rank=1)
    durations = n.op("Ceil", n.op("Exp", n.mul(n.op("Tanh", logs), n.number(1.2))))
    ends = n.op("CumSum", n.op("Squeeze", durations, n.integers(1)), n.index(-1))
    total = n.op("Cast", n.reduce("ReduceMax", ends, [0, 1], 0), to=7)
    frames = n.op("Cast", n.op("Range", n.index(0), total, n.index(1)), to=FLOAT)
    begun = n.op("Cast", n.op("Less", n.op("Unsqueeze", frames, n.integers(0)), n.op("Unsqueeze", n.op("Squeeze", ends, n.integers(0)), n.integers(1))), to=FLOAT)
    path = n.op("Sub", begun, n.op("Pad", n.slice(begun, 0, 0, -1), n.integers(1, 0, 0, 0), n.number(0), mode="constant"))
    z = n.op("MatMul", x, path)
    for _ in range(4):
        a, b = n.split(z, 1, width // 2, width // 2)
        h = n.conv(a, width // 2, width, rank=1)
        skips = None
        for layer in range(3):
            t, s = n.split(n.conv(h, width, 2 * width, 5, rank=1), 1, width, width)
            y = n.conv(n.mul(n.op("Tanh", t), n.op("Sigmoid", s)), width, 2 * width, rank=1)
            more, skip = n.split(y, 1, width, width)
            h, skips = n.add(h, more), n.add(skips, skip) if skips else skip
        z = n.op("Concat", a, n.op("Sub", b, n.conv(skips, width, width // 2, rank=1)), axis=1)
        z = n.op("Slice", z, n.integers(-1), n.integers(np.iinfo(np.int64).min), n.integers(1), n.integers(-1))
    n.output(z), n.output(durations)


def merged_decoder(n):
    """One model with an If: without caches it makes keys and values of all tokens, with them it appends to them."""
    width, heads, size, past = 256, 4, 64, 64
    tokens = n.input("input_ids", n.random.integers(0, 1000, (1, 1)), ["batch", "sequence"])
    states = n.floats("encoder_hidden_states", 1, 100, width, dims=["batch", "encoder", width])
    caches = [[n.floats(f"past.{i}.{kind}", 1, heads, past, size, dims=["batch", heads, "past", size]) for kind in ("key", "value")] for i in range(2)]
    use = n.input("use_cache_branch", np.array([True]))
    table = n.weight(1000, width, fan=1)

    def branch(cached):
        b = Net(n.opset, 5 + cached)
        b.prefix = f"branch{cached}."

        def heads_of(y):
            return b.transpose(b.reshape(y, 0, -1, heads, size), 0, 2, 1, 3)

        def attend(q, k, v):
            scores = b.op("MatMul", q, b.transpose(k, 0, 1, 3, 2))
            return b.linear(b.reshape(b.transpose(b.op("MatMul", b.softmax(scores), v), 0, 2, 1, 3), 0, -1, width), width, width)

        x, made = b.op("Gather", table, tokens), []
        for key, value in caches:
            y = b.layer_norm(x, width)
            q, k, v = heads_of(b.mul(b.linear(y, width, width), b.number(0.125))), heads_of(b.linear(y, width, width, False)), heads_of(b.linear(y, width, width))
            if cached:
                k, v = b.op("Concat", key, k, axis=2), b.op("Concat", value, v, axis=2)
            made += [k, v]
            x = b.add(x, attend(q, k, v))
            q = heads_of(b.mul(b.linear(b.layer_norm(x, width), width, width), b.number(0.125)))
            x = b.add(x, attend(q, heads_of(b.linear(states, width, width, False)), heads_of(b.linear(states, width, width))))
            x = b.add(x, b.feed_forward(b.layer_norm(x, width), width, 4 * width))
        results = [b.op("MatMul", b.layer_norm(x, width), b.transpose(table, 1, 0))] + made
        outer = {table, tokens, states, use, *sum(caches, [])}
        graph = helper.make_graph(b.nodes, f"branch{cached}", [], [helper.make_tensor_value_info(r, FLOAT, None) for r in results], b.constants)
        for node in graph.node:
            node.input[:] = [i if i in outer or not i else b.prefix + i for i in node.input]
            node.output[:] = [b.prefix + o for o in node.output]
        for value in list(graph.output) + list(graph.initializer):
            value.name = b.prefix + value.name
        return graph

    for value in n.op("If", use, outs=5, then_branch=branch(1), else_branch=branch(0)):
        n.output(value)


def bert_dynamic(n):
    """Dynamically quantised by the runtime's own tool: DynamicQuantizeLinear, MatMulInteger, Cast, Mul, Add; four layers of 256."""
    x = n.layer_norm(n.op("Gather", n.weight(2000, 256, fan=1), n.input("input_ids", n.random.integers(0, 2000, (1, 96)), ["batch", "sequence"])), 256)

    def products(x, taken, *made):
        codes, scale, zero = n.op("DynamicQuantizeLinear", x, outs=3)
        for columns in made:
            weights = n.constant(n.random.integers(-127, 128, (taken, columns)).astype("i1"))
            sums = n.op("Cast", n.op("MatMulInteger", codes, weights, zero, n.constant(np.array(0, "i1"))), to=FLOAT)
            yield n.add(n.bias(columns), n.mul(sums, n.op("Mul", scale, n.number(0.014 / taken ** 0.5))))

    for _ in range(4):
        q, k, v = (n.transpose(n.reshape(s, 0, -1, 4, 64), 0, 2, 1, 3) for s in products(x, 256, 256, 256, 256))
        scores = n.op("Div", n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(8))
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 0, -1, 256)
        x = n.layer_norm(n.add(next(products(y, 256, 256)), x), 256)
        y = n.gelu(next(products(x, 256, 1024)))
        x = n.layer_norm(n.add(next(products(y, 1024, 256)), x), 256)
    n.output(x)


def point_net(n):
    """Points through shared layers by convolutions of one, their maximum, and a matrix that turns them."""
    points = n.floats("points", 1, 3, 1024)

    def layers(x, *widths):
        for taken, made in zip(widths, widths[1:]):
            x = n.relu(n.op("BatchNormalization", n.conv(x, taken, made, rank=1), n.scale(made), n.bias(made), n.bias(made), n.constant(np.ones(made, "f")), epsilon=1e-5))
        return x

    x = n.reduce("ReduceMax", layers(points, 3, 64, 128, 512), [2])
    x = n.relu(n.gemm(n.reshape(x, -1, 512), 512, 256))
    turn = n.reshape(n.add(n.gemm(x, 256, 9), n.constant(np.eye(3, dtype="f").reshape(9))), -1, 3, 3)
    x = n.transpose(n.op("MatMul", n.transpose(points, 0, 2, 1), turn), 0, 2, 1)
    x = n.reduce("ReduceMax", layers(x, 3, 64, 128, 512), [2])
    x = n.relu(n.gemm(n.reshape(x, -1, 512), 512, 256))
    n.output(n.op("LogSoftmax", n.gemm(x, 256, 40), axis=1))


def demucs(n):
    """Strided convolutions with gates, two LSTMs, transposed convolutions and skips."""
    x, skips, taken = n.floats("sound", 1, 1, 4096), [], 1
    for made in (32, 64, 128):
        x = n.relu(n.conv(x, taken, made, 8, 4, 2, rank=1))
        a, gate = n.split(n.conv(x, made, 2 * made, rank=1), 1, made, made)
        x, taken = n.mul(a, n.op("Sigmoid", gate)), made
        skips.append(x)
    y = n.transpose(x, 2, 0, 1)
    for size in (128, 256):
        y = n.op("LSTM", y, n.weight(2, 512, size, fan=size * 2), n.weight(2, 512, 128, fan=256), n.bias(2, 1024), outs=3, direction="bidirectional", hidden_size=128)[0]
        y = n.op("Reshape", n.transpose(y, 0, 2, 1, 3), n.integers(0, 0, -1))
    x = n.transpose(n.linear(y, 256, 128), 1, 2, 0)
    for made in (64, 32, 1):
        x = n.add(x, skips.pop())
        a, gate = n.split(n.conv(x, taken, 2 * taken, 3, rank=1), 1, taken, taken)
        x = n.conv_transpose(n.mul(a, n.op("Sigmoid", gate)), taken, made, 8, 4, 2, rank=1)
        x, taken = n.relu(x) if made > 1 else x, made
    n.output(x)


def halves(n):
    """deit in float16, its inputs and outputs in float: the converter leaves a Cast at both ends."""
    from architecture_sequences import MODELS
    MODELS["deit"][0](n)
    names = {v.name for v in n.inputs}
    for i, tensor in enumerate(n.constants):
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            n.constants[i] = numpy_helper.from_array(array.astype(np.float16), tensor.name)
    casts = []
    for node in n.nodes:
        node.input[:] = [name + ".half" if name in names else name for name in node.input]
        if node.op_type == "Identity":
            node.op_type = "Cast"
            node.attribute.append(helper.make_attribute("to", FLOAT))
    for name in names:
        casts.append(helper.make_node("Cast", [name], [name + ".half"], to=TensorProto.FLOAT16))
    n.nodes = casts + n.nodes


MODELS = {f.__name__: (f, opset) for f, opset in [
    (segformer, 17), (detr, 17), (rt_detr, 17), (efficientdet, 17), (mobilevit, 17), (mask_rcnn, 17), (vits, 17), (merged_decoder, 17), (bert_dynamic, 17), (point_net, 17),
    (demucs, 17), (halves, 20)]}
