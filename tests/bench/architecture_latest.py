# SPDX-License-Identifier: Apache-2.0
"""Networks of kinds that came last: memories of pictures, states with removal and replacement, exponential gates, filters as long as what they filter, caches of a fixed size, voxels, edges that
depend on features, rays, quantum states, words that are grounded in pictures, texts of scikit-learn, very large windows. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT

INT32, INT64, BOOL, DOUBLE = TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE
END = np.iinfo(np.int64).max


def one(n, x):
    """A scalar as a vector of one."""
    return n.op("Unsqueeze", x, n.integers(0))


def filled(n, value, *dims):
    """ConstantOfShape, of numbers and of extents."""
    kind = {bool: BOOL, int: INT64, float: FLOAT}[type(value)]
    return n.op("ConstantOfShape", n.dims(*dims), value=helper.make_tensor("", kind, [1], [value]))


def reach(n, q, k, v, size):
    """Scores scaled on both sides, as the dynamo exporter writes scaled_dot_product_attention."""
    side = n.number(size ** -0.25)
    return n.op("MatMul", n.softmax(n.op("MatMul", n.mul(q, side), n.mul(n.transpose(k, 0, 1, 3, 2), side))), v)


def sam2_memory(n):
    """SAM 2's memory attention: positions rotated by pairs, over and over again for the keys of several memories, but not for pointers to objects, whose number is an input; the number of memory
    tokens is symbolic."""
    width, side, narrow = 128, 16, 64
    tokens = 2 * side * side + 8
    current = n.floats("current", side * side, 1, width)
    memory, places = (n.floats(name, tokens, 1, narrow, dims=["memory_tokens", 1, narrow]) for name in ("memory", "memory_positions"))
    pointers = n.input("pointers", np.array(8), [])
    angles = (np.arange(side * side)[:, None] / 10000 ** (np.arange(0, width, 2) / width)).astype("f")
    cosine, sine = n.constant(np.cos(angles)), n.constant(np.sin(angles))
    x, memory, places = (n.transpose(v, 1, 0, 2) for v in (current, memory, places))

    def rotate(x, cosine, sine):
        pairs = n.op("Reshape", x, n.op("Concat", n.slice(n.op("Shape", x), 0, 0, -1), n.integers(-1, 2), axis=0))
        a, b = (n.op("Gather", pairs, n.index(i), axis=-1) for i in range(2))
        turned = (n.op("Sub", n.mul(a, cosine), n.mul(b, sine)), n.add(n.mul(a, sine), n.mul(b, cosine)))
        return n.op("Reshape", n.op("Concat", *[n.op("Unsqueeze", part, n.integers(-1)) for part in turned], axis=-1), n.op("Shape", x))

    head = lambda y: n.op("Unsqueeze", y, n.integers(1))
    for _ in range(2):
        y = n.layer_norm(x, width)
        q, k, v = (head(n.linear(y, width, width)) for _ in range(3))
        y = reach(n, rotate(q, cosine, sine), rotate(k, cosine, sine), v, width)
        x = n.add(x, n.linear(n.op("Squeeze", y, n.integers(1)), width, width))
        q = rotate(head(n.linear(n.layer_norm(x, width), width, width)), cosine, sine)
        k, v = head(n.linear(n.add(memory, places), narrow, width)), head(n.linear(memory, narrow, width))
        count = n.op("Sub", n.extent(k, 2), pointers)
        times = n.op("Concat", one(n, n.op("Div", count, n.index(side * side))), n.integers(1), axis=0)
        pictures = rotate(n.op("Slice", k, n.integers(0), one(n, count), n.integers(2)), n.op("Tile", cosine, times), n.op("Tile", sine, times))
        k = n.op("Concat", pictures, n.op("Slice", k, one(n, count), n.integers(END), n.integers(2)), axis=2)
        x = n.add(x, n.linear(n.op("Squeeze", reach(n, q, k, v, width), n.integers(1)), width, width))
        x = n.add(x, n.feed_forward(n.layer_norm(x, width), width, 4 * width, n.relu))
    n.output(n.transpose(n.layer_norm(x, width), 1, 0, 2))


def rwkv7(n):
    """RWKV-7: tokens shifted, decays by products of low rank, keys that remove and keys that replace, a Scan over tokens whose state is a matrix for each head; batch and length symbolic."""
    width, heads, size, low = 128, 4, 32, 16
    x = n.floats("x", 2, 24, width, dims=["batch", "length", width])
    start = n.mul(n.floats("state", 2, heads, size, size, dims=["batch", heads, size, size]), n.number(0.1))
    batch, length, first_values = n.extent(x, 0), n.extent(x, 1), None
    narrow = lambda y, activation=None: n.linear(activation(n.linear(y, width, low, False)) if activation else n.linear(y, width, low, False), low, width, False)
    apart = lambda y: n.reshape(y, batch, length, heads, size)

    def shifted(y):
        return n.op("Sub", n.op("Concat", n.mul(n.slice(y, 1, 0, 1), n.number(0)), n.slice(y, 1, 0, -1), axis=1), y)

    def step(b, state, r, decay, k, v, removed, rate):
        beside = lambda y, axis: b.op("Unsqueeze", y, b.integers(axis))
        gone = b.op("MatMul", state, beside(b.op("Neg", removed), -1))
        state = b.add(b.mul(state, beside(decay, -2)), b.op("MatMul", gone, beside(b.mul(removed, rate), -2)), b.op("MatMul", beside(v, -1), beside(k, -2)))
        return [state], [b.op("Squeeze", b.op("MatMul", state, beside(r, -1)), b.integers(-1))]

    for _ in range(2):
        y = n.layer_norm(x, width)
        change = shifted(y)
        mixed = [n.add(y, n.mul(change, n.bias(width))) for _ in range(6)]
        r, k, v = (n.linear(part, width, width, False) for part in mixed[:3])
        decay = n.op("Exp", n.mul(n.number(-0.606531), n.op("Sigmoid", n.add(narrow(mixed[3], lambda z: n.op("Tanh", z)), n.bias(width)))))
        rate = n.op("Sigmoid", n.add(narrow(mixed[4]), n.bias(width)))
        gate = narrow(mixed[5], lambda z: n.op("Sigmoid", z))
        if first_values is None:
            first_values = v
        else:
            v = n.add(v, n.mul(n.op("Sub", first_values, v), n.op("Sigmoid", n.add(narrow(mixed[2]), n.bias(width)))))
        removed = apart(n.mul(k, n.scale(width)))
        removed = n.op("Div", removed, n.op("Max", n.op("ReduceL2", removed, axes=[-1], keepdims=1), n.number(1e-12)))
        k = n.mul(k, n.add(n.number(1), n.mul(n.op("Sub", rate, n.number(1)), n.scale(width))))
        r, decay, k, v, rate = (apart(part) for part in (r, decay, k, v, rate))
        slices = [(FLOAT, [None, heads, size], n.transpose(part, 1, 0, 2, 3)) for part in (r, decay, k, v, removed, rate)]
        state, made = n.scan([(FLOAT, [None, heads, size, size], start)], slices, step)
        n.output(state)
        rows = n.reshape(n.transpose(made, 1, 0, 2, 3), -1, heads, size)
        rows = n.op("InstanceNormalization", rows, n.constant(np.ones(heads, "f")), n.constant(np.zeros(heads, "f")), epsilon=64e-5)
        y = n.add(n.mul(n.reshape(rows, batch, length, width), n.scale(width)), n.bias(width))
        bonus = n.mul(n.reduce("ReduceSum", n.mul(r, k, n.scale(heads, size)), [-1]), v)
        x = n.add(x, n.linear(n.mul(n.add(y, n.reshape(bonus, batch, length, width)), gate), width, width, False))
        y = n.layer_norm(x, width)
        k = n.linear(n.add(y, n.mul(shifted(y), n.bias(width))), width, 4 * width, False)
        x = n.add(x, n.linear(n.op("Pow", n.relu(k), n.number(2)), 4 * width, width, False))
    n.output(n.layer_norm(x, width))


def xlstm(n):
    """xLSTM: a block with a matrix as memory, in its parallel form (running sums of forget gates, kept in range by the largest), then one with numbers as memory in a Loop, whose gates are
    exponentials; batch and time symbolic."""
    width, heads = 128, 4
    x = n.floats("x", 1, 64, width, dims=["batch", "time", width])
    batch, time = n.extent(x, 0), n.extent(x, 1)
    forget = lambda b, y: b.op("Neg", b.op("Softplus", b.op("Neg", y)))
    y, gate = n.split(n.linear(n.layer_norm(x, width), width, 4 * width), -1, 2 * width, 2 * width)
    near = n.op("Conv", n.transpose(y, 0, 2, 1), n.weight(2 * width, 1, 4), n.bias(2 * width), group=2 * width, kernel_shape=[4], pads=[3, 3], strides=[1], dilations=[1])
    near = n.silu(n.transpose(n.slice(near, 2, 0, -3), 0, 2, 1))
    q, k, v = (n.heads(n.linear(part, 2 * width, 2 * width), heads, width // 2, -1) for part in (near, near, y))
    enter, keep = (n.op("Unsqueeze", n.transpose(n.linear(near, 2 * width, heads), 0, 2, 1), n.integers(-1)) for _ in range(2))
    sums = n.op("CumSum", forget(n, keep), n.index(-2))
    sums = n.op("Concat", n.mul(n.slice(sums, 2, 0, 1), n.number(0)), sums, axis=2)
    longer = n.op("Add", time, n.index(1))
    rows = n.op("Expand", sums, n.dims(batch, heads, longer, longer))
    between = n.slice(n.slice(n.op("Sub", rows, n.transpose(rows, 0, 1, 3, 2)), 2, 1, None), 3, 1, None)
    before = n.op("Cast", n.op("Trilu", n.op("Cast", filled(n, True, time, time), to=INT64), upper=0), to=BOOL)
    weights = n.add(n.op("Where", before, between, n.number(-np.inf)), n.transpose(enter, 0, 1, 3, 2))
    largest = n.reduce("ReduceMax", weights, [-1])
    weights = n.op("Exp", n.op("Sub", weights, largest))
    scores = n.mul(n.op("MatMul", q, n.transpose(n.op("Div", k, n.number((width // 2) ** 0.5)), 0, 1, 3, 2)), weights)
    size = n.op("Max", n.op("Abs", n.reduce("ReduceSum", scores, [-1])), n.op("Exp", n.op("Neg", largest)))
    y = n.op("MatMul", n.op("Div", scores, n.add(size, n.number(1e-6))), v)
    y = n.reshape(n.transpose(y, 0, 2, 1, 3), 0, -1, 2 * width)
    x = n.add(x, n.linear(n.mul(n.add(y, n.mul(near, n.scale(2 * width))), n.silu(gate)), 2 * width, width))

    given = n.transpose(n.linear(n.layer_norm(x, width), width, 4 * width), 1, 0, 2)
    again = n.constant((n.random.standard_normal((heads, width // heads, 4 * width // heads)) * 0.1).astype("f"))
    zero = filled(n, 0.0, batch, width)

    def step(b, i, h, c, count, most):
        own = b.op("MatMul", b.transpose(b.reshape(h, -1, heads, width // heads), 1, 0, 2), again)
        z, out, enter, keep = b.split(b.add(b.op("Gather", given, i, axis=0), b.reshape(b.transpose(own, 1, 0, 2), -1, 4 * width)), -1, *[width] * 4)
        keep = b.add(forget(b, keep), most)
        most = b.op("Max", enter, keep)
        keep, enter = (b.op("Exp", b.op("Sub", part, most)) for part in (keep, enter))
        c, count = b.add(b.mul(keep, c), b.mul(enter, b.op("Tanh", z))), b.add(b.mul(keep, count), enter)
        h = b.mul(b.op("Sigmoid", out), b.op("Div", c, b.op("Max", count, b.number(1e-6))))
        return [h, c, count, most], [h]

    n.output(n.layer_norm(n.add(x, n.transpose(n.loop(time, [(FLOAT, [None, width], zero)] * 4, step)[4], 1, 0, 2)), width))


def hyena(n):
    """Hyena: filters as long as the sequence come from a small network of sines, and are applied by Fourier transforms of twice the length, whose other half is the first one turned round, with the other sign; two gates; batch
    and length symbolic."""
    width = 64
    x = n.floats("x", 2, 128, width, dims=["batch", "length", width])
    length = n.extent(x, 1)
    twice = n.op("Mul", length, n.index(2))
    y = n.transpose(n.linear(x, width, 3 * width), 0, 2, 1)
    y = n.op("Conv", y, n.weight(3 * width, 1, 3), n.bias(3 * width), group=3 * width, kernel_shape=[3], pads=[2, 2], strides=[1], dilations=[1])
    *gates, y = n.split(n.op("Slice", y, n.integers(0), one(n, length), n.integers(2)), 1, width, width, width)
    time = n.op("Unsqueeze", n.op("Div", n.op("Cast", n.op("Range", n.index(0), length, n.index(1)), to=FLOAT), n.op("Cast", length, to=FLOAT)), n.integers(1))
    waves = n.mul(time, n.constant((np.arange(1, 5) * 2 * np.pi).astype("f")[None]))
    filters = n.op("Concat", time, n.op("Cos", waves), n.op("Sin", waves), axis=1)
    for taken in (9, 32):
        filters = n.op("Sin", n.linear(filters, taken, 32))
    fall = n.op("Exp", n.mul(n.op("Neg", time), n.constant(np.linspace(1, 20, 2 * width).astype("f")[None])))
    filters = n.mul(n.linear(filters, 32, 2 * width, False), fall)
    filters = n.transpose(n.op("Div", filters, n.reduce("ReduceL1", filters, [0])), 1, 0)

    def filtered(x, filter):
        spectra = [n.op("DFT", n.op("Unsqueeze", part, n.integers(-1)), twice, n.index(-2), onesided=1) for part in (x, one(n, filter))]
        (a, b), (c, d) = (n.split(part, -1, 1, 1) for part in spectra)
        half = n.op("Concat", n.op("Sub", n.mul(a, c), n.mul(b, d)), n.add(n.mul(a, d), n.mul(b, c)), axis=-1)
        turned = n.op("Slice", half, one(n, n.op("Sub", length, n.index(1))), n.integers(0), n.integers(2), n.integers(-1))
        whole = n.op("Concat", half, n.mul(turned, n.constant(np.array([1, -1], "f"))), axis=2)
        back = n.op("Gather", n.op("DFT", whole, "", n.index(-2), inverse=1), n.index(0), axis=-1)
        return n.op("Slice", back, n.integers(0), one(n, length), n.integers(2))

    for gate, filter in zip(gates, n.split(filters, 0, width, width)):
        y = n.mul(gate, n.add(filtered(y, filter), n.mul(y, n.bias(width, 1))))
    n.output(n.linear(n.transpose(y, 0, 2, 1), width, width))


def static_cache(n):
    """One token of transformers' StaticCache, by dynamo: caches of a fixed size turned round, written by ScatterND at positions that are an input, and turned back; what is not written yet is masked
    by comparisons of positions; heads of keys repeated by Expand; three layers."""
    width, heads, groups, size, most = 256, 8, 2, 32, 128
    x = n.floats("inputs_embeds", 1, 1, width)
    at = n.input("cache_position", np.array([40]))
    slopes = n.constant((1 / 10000 ** (np.arange(0, size, 2) / size)).astype("f")[None, :, None])
    angles = n.transpose(n.op("MatMul", slopes, one(n, one(n, n.op("Cast", at, to=FLOAT)))), 0, 2, 1)
    angles = n.op("Concat", angles, angles, axis=-1)
    cosine, sine = (n.op("Unsqueeze", n.op(kind, angles), n.integers(1)) for kind in ("Cos", "Sin"))
    seen = n.op("LessOrEqual", one(n, n.constant(np.arange(most))), n.op("Unsqueeze", at, n.integers(1)))
    mask = n.op("Where", one(n, one(n, seen)), n.number(0), n.number(np.finfo("f").min))

    def rotate(x):
        return n.add(n.mul(x, cosine), n.mul(n.op("Concat", n.op("Neg", n.slice(x, 3, size // 2, None)), n.slice(x, 3, 0, size // 2), axis=-1), sine))

    def put(name, new):
        rows = n.op("ScatterND", n.transpose(n.floats(name, 1, groups, most, size), 2, 0, 1, 3), n.op("Unsqueeze", at, n.integers(-1)), n.transpose(new, 2, 0, 1, 3))
        cache = n.transpose(rows, 1, 2, 0, 3)
        n.output(cache)
        return n.reshape(n.op("Expand", n.op("Unsqueeze", cache, n.integers(2)), n.integers(1, groups, heads // groups, most, size)), 1, heads, most, size)

    for layer in range(3):
        y = n.rms_norm(x, width)
        q, k, v = (n.heads(n.linear(y, width, count * size, False), count, size, -1) for count in (heads, groups, groups))
        k, v = put(f"key_cache.{layer}", rotate(k)), put(f"value_cache.{layer}", v)
        side = n.number(size ** -0.25)
        scores = n.op("MatMul", n.mul(rotate(q), side), n.mul(n.transpose(k, 0, 1, 3, 2), side))
        y = n.op("MatMul", n.softmax(n.add(scores, mask)), v)
        x = n.add(x, n.linear(n.reshape(n.transpose(y, 0, 2, 1, 3), 1, -1, width), width, width, False))
        y = n.rms_norm(x, width)
        x = n.add(x, n.linear(n.mul(n.silu(n.linear(y, width, 2 * width, False)), n.linear(y, width, 2 * width, False)), 2 * width, width, False))
    n.output(n.linear(n.rms_norm(x, width), width, 1000, False))


def voxel_scatter(n):
    """Dynamic voxels: points become cells by Floor, those outside are dropped by NonZero; Unique of rows with inverses and counts, maxima and means of each voxel by ScatterElements, a map by ScatterND,
    convolutions; the number of points is symbolic."""
    side, width = 48, 32
    points = n.floats("points", 3000, 4, dims=["points", 4])
    cells = n.op("Add", n.op("Cast", n.op("Floor", n.mul(n.slice(points, 1, 0, 2), n.number(10))), to=INT64), n.integers(side // 2))
    inside = n.op("And", n.op("GreaterOrEqual", cells, n.index(0)), n.op("Less", cells, n.index(side)))
    inside = n.op("Equal", n.reduce("ReduceSum", n.op("Cast", inside, to=INT32), [1], 0), n.constant(np.array(2, np.int32)))
    kept = n.op("Reshape", n.op("NonZero", inside), n.integers(-1))
    points, cells = n.op("Gather", points, kept, axis=0), n.op("Gather", cells, kept, axis=0)
    voxels, _, inverse, counts = n.op("Unique", cells, outs=4, axis=0, sorted=1)
    x = n.relu(n.linear(points, 4, width))
    at, empty = n.op("Expand", n.op("Unsqueeze", inverse, n.integers(1)), n.op("Shape", x)), filled(n, 0.0, n.extent(voxels, 0), width)
    largest = n.op("ScatterElements", empty, at, x, axis=0, reduction="max")
    mean = n.op("Div", n.op("ScatterElements", empty, at, x, axis=0, reduction="add"), n.op("Unsqueeze", n.op("Cast", counts, to=FLOAT), n.integers(1)))
    y = n.relu(n.linear(n.op("Concat", largest, mean, axis=1), 2 * width, width))
    x = n.relu(n.linear(n.op("Concat", x, n.op("Gather", y, inverse, axis=0), axis=1), 2 * width, width))
    y = n.op("ScatterElements", empty, at, x, axis=0, reduction="max")
    y = one(n, n.transpose(n.op("ScatterND", n.constant(np.zeros((side, side, width), "f")), voxels, y), 2, 0, 1))
    y = n.relu(n.conv(n.relu(n.conv(y, width, 48, 3, 2)), 48, 48, 3))
    n.output(n.conv(y, 48, 8)), n.output(counts, kind=INT64), n.output(voxels, kind=INT64)


def edge_conv(n):
    """Graphs that change: the nearest by features (TopK), messages reduced by ScatterElements with maxima; then GATv2 on given edges, whose softmax is over the edges of each node; means of each graph of
    a batch; nodes and edges symbolic."""
    nodes, width = 400, 64
    x = n.floats("x", nodes, 16, dims=["nodes", 16])
    edges = n.input("edges", n.random.integers(0, nodes, (2, 2400)), [2, "edges"])
    graphs = n.input("graphs", np.sort(n.random.integers(0, 8, nodes)), ["nodes"])
    count = n.extent(x, 0)
    along = lambda i, values: n.op("Expand", n.op("Unsqueeze", i, n.integers(-1)), n.op("Shape", values))
    gather = lambda values, i: n.op("Gather", values, i, axis=0)

    def reduced(i, values, wide, kind, rows=count):
        return n.op("ScatterElements", filled(n, -1e30 if kind == "max" else 0.0, rows, wide), along(i, values), values, axis=0, reduction=kind)

    squares = n.reduce("ReduceSum", n.mul(x, x), [1])
    distances = n.add(n.op("Sub", squares, n.mul(n.number(2), n.op("MatMul", x, n.transpose(x, 1, 0)))), n.transpose(squares, 1, 0))
    _, near = n.op("TopK", distances, n.integers(8), outs=2, axis=1, largest=0)
    owners = n.op("Reshape", n.op("Expand", n.op("Unsqueeze", n.op("Range", n.index(0), count, n.index(1)), n.integers(1)), n.dims(count, 8)), n.integers(-1))
    own, other = gather(x, owners), gather(x, n.op("Reshape", near, n.integers(-1)))
    messages = n.gemm(n.relu(n.gemm(n.op("Concat", own, n.op("Sub", other, own), axis=1), 32, width)), width, width)
    x = n.relu(reduced(owners, messages, width, "max"))
    source, target = (n.op("Squeeze", part, n.integers(0)) for part in n.split(edges, 0, 1, 1))
    for _ in range(2):
        left, right = n.gemm(x, width, width), n.gemm(x, width, width)
        scores = n.op("LeakyRelu", n.add(gather(left, source), gather(right, target)), alpha=0.2)
        scores = n.reduce("ReduceSum", n.mul(n.reshape(scores, -1, 4, 16), n.bias(1, 4, 16)), [-1], 0)
        weights = n.op("Exp", n.op("Sub", scores, gather(reduced(target, scores, 4, "max"), target)))
        weights = n.op("Div", weights, n.add(gather(reduced(target, weights, 4, "add"), target), n.number(1e-16)))
        messages = n.reshape(n.mul(n.reshape(gather(left, source), -1, 4, 16), n.op("Unsqueeze", weights, n.integers(-1))), -1, width)
        x = n.op("Elu", n.add(reduced(target, messages, width, "add"), n.bias(width)))
    many = n.op("Add", n.op("ReduceMax", graphs, keepdims=0), n.index(1))
    sizes = n.op("ScatterElements", filled(n, 0.0, many), graphs, n.op("Expand", n.number(1), n.op("Shape", graphs)), axis=0, reduction="add")
    n.output(n.gemm(n.op("Div", reduced(graphs, x, width, "add", many), n.op("Unsqueeze", n.op("Max", sizes, n.number(1)), n.integers(1))), width, 5))


def ray_march(n):
    """Spheres along rays: those that still fly are picked by NonZero and GatherND in each turn, moved on as far as nothing is near, and written back by ScatterND; the loop ends when none flies; then
    normals by differences, and shades; the number of rays is symbolic."""
    rows, columns = np.meshgrid(np.linspace(-1, 1, 40), np.linspace(-1.4, 1.4, 56), indexing="ij")
    pixels = n.input("pixels", np.stack([rows, columns], -1).reshape(-1, 2).astype("f"), ["rays", 2])
    count = n.extent(pixels, 0)
    rays = n.op("Concat", pixels, n.op("Expand", n.number(1.5), n.dims(count, 1)), axis=1)
    rays = n.op("Div", rays, n.op("ReduceL2", rays, axes=[1], keepdims=1))
    eye = np.array([[0, 0, -3]], "f")

    def distance(b, p):
        ball = b.op("Sub", b.op("ReduceL2", p, axes=[1], keepdims=0), b.number(1))
        beyond = b.op("Sub", b.op("Abs", b.op("Sub", p, b.constant(np.array([[1.2, 0, 0]], "f")))), b.constant(np.array([[0.4, 0.6, 0.4]], "f")))
        outside, inside = b.op("ReduceL2", b.op("Max", beyond, b.number(0)), axes=[1], keepdims=0), b.op("Min", b.op("ReduceMax", beyond, axes=[1], keepdims=0), b.number(0))
        return b.op("Min", ball, b.add(outside, inside))

    def step(b, i, far, flies):
        at = b.transpose(b.op("NonZero", flies), 1, 0)
        own, ray = b.op("GatherND", far, at), b.op("GatherND", rays, at)
        free = distance(b, b.add(b.constant(eye), b.mul(ray, b.op("Unsqueeze", own, b.integers(1)))))
        own = b.add(own, free)
        on = b.op("And", b.op("Greater", free, b.number(1e-3)), b.op("Less", own, b.number(8)))
        far, flies = b.op("ScatterND", far, at, own), b.op("ScatterND", flies, at, on)
        return [far, flies], [b.op("Size", own)], b.op("Cast", b.op("ReduceMax", b.op("Cast", flies, to=INT32), keepdims=0), to=BOOL)

    zero = filled(n, 0.0, count)
    far, _, _ = n.loop(n.index(80), [(FLOAT, [None], zero), (BOOL, [None], n.op("Equal", zero, zero))], step)
    hit = n.add(n.constant(eye), n.mul(rays, n.op("Unsqueeze", far, n.integers(1))))
    sides = [n.constant(side[None]) for side in np.eye(3, dtype="f") * 0.01]
    slopes = [n.op("Sub", distance(n, n.add(hit, side)), distance(n, n.op("Sub", hit, side))) for side in sides]
    normal = n.op("Concat", *[n.op("Unsqueeze", slope, n.integers(1)) for slope in slopes], axis=1)
    normal = n.op("Div", normal, n.add(n.op("ReduceL2", normal, axes=[1], keepdims=1), n.number(1e-6)))
    shade = n.op("Max", n.op("MatMul", normal, n.constant(np.array([[0.5], [0.5], [-0.7]], "f"))), n.number(0))
    n.output(far), n.output(n.op("Where", n.op("Unsqueeze", n.op("Less", far, n.number(8)), n.integers(1)), shade, n.number(0.1)))


def quantum(n):
    """A state of twelve qubits as two vectors of doubles: a Loop over rotations by given angles, each with a controlled flip, both by Gather at places that bits say; probabilities, what each qubit is on
    average by sums over eleven of twelve axes, and the state with its axes in another order; the number of gates is symbolic."""
    qubits = 12
    count = 2 ** qubits
    angles = n.input("angles", n.random.random(24) * 3, ["gates"])
    places, bits = n.constant(np.arange(count)), n.constant(2 ** np.arange(qubits)[::-1])
    real = lambda b, *values: b.constant(np.array(values if len(values) > 1 else values[0], np.float64))

    def step(b, i, re, im):
        qubit = b.op("Mod", i, b.index(qubits))

        def look(which):
            bit = b.op("Gather", bits, b.op("Mod", which, b.index(qubits)), axis=0)
            on = b.op("Equal", b.op("Mod", b.op("Div", places, bit), b.index(2)), b.index(1))
            return on, b.op("Where", on, b.op("Sub", places, bit), b.op("Add", places, bit))

        (on, other), (_, flipped) = look(qubit), look(b.op("Add", qubit, b.index(1)))
        half = b.mul(b.op("Gather", angles, i, axis=0), real(b, 0.5))
        cosine, sine = b.op("Cos", half), b.op("Sin", half)
        beside = [b.op("Gather", part, other, axis=0) for part in (re, im)]
        re, im = b.add(b.mul(cosine, re), b.mul(sine, beside[1])), b.op("Sub", b.mul(cosine, im), b.mul(sine, beside[0]))
        order = b.op("Where", on, flipped, places)
        return [b.op("Gather", part, order, axis=0) for part in (re, im)], []

    start = np.zeros((2, count))
    start[0, 0] = 1
    re, im = n.loop(n.extent(angles, 0), [(DOUBLE, [count], n.constant(part)) for part in start], step)
    likely = n.add(n.mul(re, re), n.mul(im, im))
    cube = n.reshape(likely, *[2] * qubits)
    means = [n.mul(n.reduce("ReduceSum", cube, [a for a in range(qubits) if a != k], 0), real(n, 1, -1)) for k in range(qubits)]
    n.output(likely), n.output(n.op("Concat", *[n.reduce("ReduceSum", mean, [0]) for mean in means], axis=0))
    n.output(n.transpose(n.reshape(re, *[2] * qubits), 11, 0, 10, 1, 9, 2, 8, 3, 7, 4, 6, 5))


def grounding(n):
    """Grounding DINO: which words see each other is made by a Loop over special tokens (NonZero) with an If at both ends, positions within each phrase too; attention both ways between words and picture
    with limits; similarities written into 256 columns of -inf; words and pixels symbolic."""
    width, heads = 64, 4
    size = width // heads
    words = n.input("input_ids", np.array([[101, 7, 8, 1012, 9, 10, 11, 1012, 12, 102]]), [1, "words"])
    image = n.floats("image", 1, 200, width, dims=[1, "pixels", width])
    special = n.op("Or", n.op("Or", *[n.op("Equal", words, n.index(token)) for token in (101, 102)]), n.op("Equal", words, n.index(1012)))
    ends, count = n.transpose(n.op("NonZero", special), 1, 0), n.extent(words, 1)
    places, own = n.op("Range", n.index(0), count, n.index(1)), n.op("EyeLike", filled(n, 0, count, count), dtype=INT64)

    def step(b, i, seen, position, last):
        column = b.op("Gather", b.op("Gather", ends, i, axis=0), b.index(1), axis=0)
        edge = b.op("Or", b.op("Equal", column, b.index(0)), b.op("Equal", column, b.op("Sub", count, b.index(1))))
        inside = b.op("And", b.op("Greater", places, last), b.op("LessOrEqual", places, column))
        phrase = b.op("Cast", b.op("And", b.op("Unsqueeze", inside, b.integers(1)), one(b, inside)), to=INT64)
        within = lambda t: t.op("Where", inside, t.op("Sub", places, t.op("Add", last, t.index(1))), position)
        return [*b.branch(edge, lambda t: [t.op("Identity", seen), t.op("Identity", position)], lambda t: [t.op("Max", seen, phrase), within(t)], 2), column], []

    states = [(INT64, [None, None], own), (INT64, [None], n.op("Mul", places, n.index(0))), (INT64, [], n.index(0))]
    seen, position, _ = n.loop(n.extent(ends, 0), states, step)
    x = n.add(n.op("Gather", n.weight(1100, width, fan=1), words), n.op("Gather", n.weight(64, width, fan=1), position))
    mask = n.op("Where", n.op("Equal", seen, n.index(0)), n.number(np.finfo("f").min), n.number(0))
    x = n.layer_norm(n.add(x, n.self_attention(x, width, heads, mask)), width)
    apart = lambda y: n.op("Squeeze", n.heads(y, heads, size, -1), n.integers(0))
    joined = lambda y: one(n, n.reshape(n.transpose(y, 1, 0, 2), -1, width))
    limited = lambda y: n.op("Clip", y, n.number(-50000), n.number(50000))
    for _ in range(2):
        q, k, v, w = (apart(n.linear(y, width, width)) for y in (image, x, image, x))
        scores = n.op("MatMul", n.mul(q, n.number(size ** -0.5)), n.transpose(k, 0, 2, 1))
        scores = limited(n.op("Sub", scores, n.op("ReduceMax", scores, keepdims=0)))
        turned = n.transpose(scores, 0, 2, 1)
        turned = limited(n.op("Sub", turned, n.reduce("ReduceMax", turned, [-1])))
        parts = (n.linear(joined(n.op("MatMul", n.softmax(s), y)), width, width) for s, y in ((scores, w), (turned, v)))
        image, x = (n.layer_norm(n.add(y, n.mul(n.bias(width), part)), width) for y, part in zip((image, x), parts))
    alike = n.op("MatMul", image, n.transpose(x, 0, 2, 1))
    nothing = n.op("Expand", n.number(-np.inf), n.op("Concat", n.slice(n.op("Shape", alike), 0, 0, 2), n.integers(256), axis=0))
    n.output(n.op("ScatterElements", nothing, n.op("Expand", places, n.op("Shape", alike)), alike, axis=2)), n.output(seen, kind=INT64), n.output(position, kind=INT64)


def text_topics(n):
    """sklearn-onnx: texts in small letters, cut into words (Tokenizer of com.microsoft, with a pattern), weights of words and of pairs, 16 topics by a product, norms, a linear classifier of strings."""
    words = "the a model of graph loop cat dog runs sleeps fast slow on under mat tree house blue red green".split()
    texts = [", ".join(n.random.choice(words, size=size)).title() + "." for size in n.random.integers(3, 12, 64)]
    x = n.input("texts", np.array(texts, dtype=object).reshape(-1, 1), ["rows", 1])
    x = n.op("StringNormalizer", n.reshape(x, -1), case_change_action="LOWER", is_case_sensitive=0, locale="C")
    x = n.op("Tokenizer", x, domain="com.microsoft", mark=0, mincharnum=1, pad_value="#", tokenexp="[a-zA-Z0-9_]+")
    pool = words + [word for i in range(30) for word in (words[i % 20], words[(i * 7 + 3 + i // 20) % 20])]
    x = n.op("TfIdfVectorizer", x, mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 20], ngram_indexes=list(range(50)), pool_strings=pool,
             weights=[float(v) for v in n.random.random(50) + 0.5])
    x = n.op("Normalizer", n.op("MatMul", x, n.weight(50, 16)), domain="ai.onnx.ml", norm="L2")
    label, scores = n.op("LinearClassifier", x, domain="ai.onnx.ml", outs=2, classlabels_strings=["first", "second", "third"], coefficients=[float(v) for v in n.random.standard_normal(48)],
                         intercepts=[0.1, -0.2, 0.0], multi_class=1, post_transform="SOFTMAX")
    n.output(label), n.output(scores)


def large_windows(n):
    """VAN, SegNeXt and RepLKNet: gates of depthwise windows of 5x5 and, dilated, of 7x7; strips of 1x7 to 21x1; windows of 13x13 and of 31x31 beside ones of 5x5; dilations of 6 and 12; height and width
    symbolic."""
    x = n.conv(n.floats("image", 1, 3, 112, 112, dims=[1, 3, "height", "width"]), 3, 64, 7, 4)
    wide = lambda y, size, dilation=1: n.conv(y, 64, 64, size, groups=64, dilation=dilation)
    y = n.gelu(n.conv(x, 64, 64))
    x = n.add(x, n.conv(n.mul(y, n.conv(wide(wide(y, 5), 7, dilation=3), 64, 64)), 64, 64))
    y = wide(n.gelu(n.conv(x, 64, 64)), 5)
    strips = [wide(wide(y, (1, size)), (size, 1)) for size in (7, 11, 21)]
    x = n.add(x, n.mul(n.conv(n.add(y, *strips), 64, 64), y))
    for size in (13, 31):
        y = n.relu(n.conv(x, 64, 64))
        x = n.add(x, n.conv(n.relu(n.add(wide(y, size), wide(y, 5))), 64, 64))
    spread = [n.relu(n.conv(wide(x, 3, dilation), 64, 64)) for dilation in (1, 6, 12)]
    n.output(n.op("Sigmoid", n.conv(n.op("Concat", *spread, axis=1), 192, 21)))


def hybrid_decoder(n):
    """Qwen 3.5's text decoder as ONNX Runtime's model builder writes it, its operators those of com.microsoft: three layers of gated delta rules with a short convolution before and a gated norm
    after, then one of attention with positions of three axes; caches of both kinds are handed on; batch and length symbolic."""
    width, heads, states, size, kernel, length = 256, 4, 8, 32, 4, 18
    conv = 2 * heads * size + states * size
    x = n.floats("x", 1, length, width, dims=["batch", "length", width])
    places = n.input("positions", np.tile(np.arange(7, 7 + length), (3, 1, 1)), [3, "batch", "length"])
    lengths, total = n.input("lengths", np.array([6 + length], np.int32), ["batch"]), n.input("total", np.array(7 + length, np.int32), [])
    angles = np.outer(np.arange(64), 1e4 ** (-np.arange(0, size, 2) / size)).astype("f")
    cosine, sine = n.constant(np.cos(angles)), n.constant(np.sin(angles))

    def own(kind, *inputs, outs=1, **attributes):
        return n.op(kind, *inputs, outs=outs, domain="com.microsoft", **attributes)

    def delta_layer(y, i):
        past = n.floats(f"past_conv.{i}", 1, conv, kernel - 1, dims=["batch", conv, kernel - 1])
        state = n.mul(n.floats(f"past_state.{i}", 1, states, size, size, dims=["batch", states, size, size]), n.number(0.1))
        mixed, window = own("CausalConvWithState", n.transpose(n.linear(y, width, conv, False), 0, 2, 1), n.weight(conv, 1, kernel, fan=kernel), n.bias(conv), past, outs=2, activation="silu")
        q, k, v = n.split(n.transpose(mixed, 0, 2, 1), 2, heads * size, heads * size, states * size)
        flat = [n.reshape(n.op("LpNormalization", n.reshape(part, 0, 0, heads, size), axis=-1, p=2), 0, 0, heads * size) for part in (q, k)]
        decay, beta = own("LinearAttentionGate", n.linear(y, width, states, False), n.bias(states), n.op("Neg", n.op("Exp", n.bias(states))), n.linear(y, width, states, False), outs=2)
        y, state = own("LinearAttention", *flat, v, state, decay, beta, outs=2, q_num_heads=heads, kv_num_heads=states, update_rule="gated_delta")
        gate = n.linear(x, width, states * size, False)
        n.output(window)
        n.output(state)
        return n.linear(own("GatedRMSNorm", y, n.scale(size), gate, epsilon=1e-6), states * size, width, False)

    def full_layer(y):
        q, k, v = (n.linear(y, width, h * size, False) for h in (8, 2, 2))
        q, k = (own("MRotaryEmbedding", part, places, cosine, sine, mrope_section=[6, 5, 5], mrope_layout=1, num_heads=h) for part, h in ((q, 8), (k, 2)))
        past = [n.floats(f"past_{name}", 1, 2, 7, size, dims=["batch", 2, "past", size]) for name in ("key", "value")]
        y, *present = own("GroupQueryAttention", q, k, v, *past, lengths, total, outs=3, num_heads=8, kv_num_heads=2)
        for cache in present:
            n.output(cache)
        return n.linear(n.mul(y, n.op("Sigmoid", n.linear(x, width, 8 * size, False))), 8 * size, width, False)

    for i in range(4):
        y = n.rms_norm(x, width)
        x = n.add(x, delta_layer(y, i) if i < 3 else full_layer(y))
        y = n.rms_norm(x, width)
        x = n.add(x, n.linear(n.mul(n.silu(n.linear(y, width, 512, False)), n.linear(y, width, 512, False)), 512, width, False))
    n.output(n.mul(n.linear(n.rms_norm(x, width), width, 1000, False), n.number(0.125)))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (sam2_memory, 18), (rwkv7, 17), (xlstm, 18), (hyena, 20), (static_cache, 18), (voxel_scatter, 18), (edge_conv, 18), (ray_march, 16), (quantum, 13), (grounding, 17), (text_topics, 15),
    (large_windows, 17), (hybrid_decoder, 22)]}
