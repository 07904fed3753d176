# SPDX-License-Identifier: Apache-2.0
"""Networks that make something step by step, with Loop, If and Scan in the graph: pictures from noise, letters from sound, words that a small model guesses and a large one checks, samples
of sound with rings of what was, caches that slide or have a fixed size, marks that are filled in, flow that is corrected, tours, memories that are addressed. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
END = np.iinfo(np.int64).max


def zeros(n, *shape):
    return n.constant(np.zeros(shape, "f"))


def first_axis(n, x):
    return n.op("Unsqueeze", x, n.integers(0))


def attend(n, q, k, v, size, mask=None):
    """Heads stand apart already."""
    scores = n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(size ** -0.5))
    return n.op("MatMul", n.softmax(n.add(scores, mask) if mask else scores), v)


def denoise(n):
    """DDIM in the graph: a small U-Net of two extents with time, attention and a text, run for both halves of a batch (with and without the text) in each of ten turns; then a decoder."""
    noise, text = n.floats("noise", 1, 4, 16, 16), n.floats("text", 2, 12, 64)
    steps = 10
    alphas = np.linspace(0.99, 0.7, steps + 1).astype("f")[::-1].copy()
    table, times = n.constant(alphas), n.constant(np.linspace(950, 50, steps).astype("f"))
    waves = n.constant(np.exp(-np.log(10000) * np.arange(16) / 16).astype("f")[None])

    def block(b, x, taken, made, time):
        y = b.conv(b.silu(b.group_norm(x, taken, 8)), taken, made, 3)
        y = b.add(y, b.op("Unsqueeze", b.op("Unsqueeze", b.gemm(b.silu(time), 64, made), b.integers(-1)), b.integers(-1)))
        y = b.conv(b.silu(b.group_norm(y, made, 8)), made, made, 3)
        return b.add(x if taken == made else b.conv(x, taken, made), y)

    def look(b, x, width, extent):
        y = b.reshape(b.transpose(b.group_norm(x, width, 8), 0, 2, 3, 1), 2, extent * extent, width)
        y = b.add(y, b.self_attention(b.layer_norm(y, width), width, 4))
        q = b.heads(b.linear(b.layer_norm(y, width), width, width, False), 4, width // 4)
        k, v = (b.heads(b.linear(text, 64, width, False), 4, width // 4) for _ in range(2))
        y = b.add(y, b.linear(b.reshape(b.transpose(attend(b, q, k, v, width // 4), 0, 2, 1, 3), 0, 0, width), width, width))
        y = b.add(y, b.feed_forward(b.layer_norm(y, width), width, 4 * width))
        return b.add(x, b.transpose(b.reshape(y, 2, extent, extent, width), 0, 3, 1, 2))

    def step(b, i, x):
        angle = b.mul(b.op("Gather", times, i), waves)
        time = b.op("Concat", b.op("Cos", angle), b.op("Sin", angle), axis=-1)
        time = b.gemm(b.silu(b.gemm(time, 32, 64)), 64, 64)
        y = b.conv(b.op("Concat", x, x, axis=0), 4, 32, 3)
        first = block(b, y, 32, 32, time)
        y = look(b, block(b, b.conv(first, 32, 32, 3, 2), 32, 64, time), 64, 8)
        y = b.op("Resize", y, "", b.constant(np.array([1, 1, 2, 2], "f")), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        y = block(b, b.op("Concat", y, first, axis=1), 96, 32, time)
        without, with_text = b.split(b.conv(b.silu(b.group_norm(y, 32, 8)), 32, 4, 3), 0, 1, 1)
        guess = b.add(without, b.mul(b.op("Sub", with_text, without), b.number(2)))
        now, then = b.op("Gather", table, i), b.op("Gather", table, b.op("Add", i, b.index(1)))
        root = lambda a: b.op("Sqrt", a)
        clean = b.op("Div", b.op("Sub", x, b.mul(root(b.op("Sub", b.number(1), now)), guess)), root(now))
        clean = b.op("Clip", clean, b.number(-1), b.number(1))
        return [b.add(b.mul(root(then), clean), b.mul(root(b.op("Sub", b.number(1), then)), guess))], []

    x = n.loop(n.index(steps), [(FLOAT, [1, 4, 16, 16], noise)], step)[0]
    y = n.conv(x, 4, 32, 3)
    for _ in range(2):
        y = n.op("Resize", y, "", n.constant(np.array([1, 1, 2, 2], "f")), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        y = n.silu(n.conv(y, 32, 32, 3))
    n.output(x), n.output(n.op("Tanh", n.conv(y, 32, 3, 3)))


def transducer_greedy(n):
    """RNN-T: an encoder of LSTMs, then a Loop over frames and symbols at once: the joiner's best, an If that runs the predictor only after a letter and moves on in time after a blank; letters
    are appended by Concat, and the loop ends when the frames do."""
    width, letters = 96, 60
    x = n.floats("features", 60, 1, 40, dims=["frames", 1, 40])
    y = n.op("LSTM", x, n.weight(1, 4 * width, 40, fan=40), n.weight(1, 4 * width, width, fan=width), n.bias(1, 8 * width), outs=3, hidden_size=width)[0]
    encoded = n.linear(n.op("Squeeze", y, n.integers(1, 2)), width, width)
    frames = n.extent(x, 0)
    table = n.weight(letters, width, fan=1)
    w, r, bias = n.weight(1, 4 * width, width, fan=width), n.weight(1, 4 * width, width, fan=width), n.bias(1, 8 * width)
    of_guess, head, head_bias = n.weight(width, width), n.weight(width, letters), n.constant(np.where(np.arange(letters) == 0, 0.6, 0).astype("f"))

    def predict(b, letter, h, c):
        row = b.op("Unsqueeze", b.op("Gather", table, letter), b.integers(1))
        _, h, c = b.op("LSTM", row, w, r, bias, "", h, c, outs=3, hidden_size=width)
        return [b.op("MatMul", b.op("Squeeze", h, b.integers(0)), of_guess), h, c]

    def step(b, i, at, count, found, guess, h, c):
        joint = b.op("Tanh", b.add(b.op("Gather", encoded, first_axis(b, at)), guess))
        best = b.op("ArgMax", b.add(b.op("MatMul", joint, head), head_bias), axis=1, keepdims=0)
        full = b.op("GreaterOrEqual", count, b.index(3))
        letter = b.op("And", b.op("Not", b.op("Equal", b.op("Squeeze", best, b.integers(0)), b.index(0))), b.op("Not", full))
        made = b.branch(letter, lambda t: [t.op("Concat", found, best, axis=0), t.op("Identity", at), t.op("Add", count, t.index(1)), *predict(t, best, h, c)],
                        lambda t: [t.op("Identity", found), t.op("Add", at, t.index(1)), t.op("Identity", n_zero), *(t.op("Identity", v) for v in (guess, h, c))], 6)
        found, at, count, *states = made
        return [at, count, found, *states], [], b.op("Less", at, frames)

    n_zero = n.index(0)
    start = predict(n, n.integers(1), zeros(n, 1, 1, width), zeros(n, 1, 1, width))
    shapes = [[1, width], [1, 1, width], [1, 1, width]]
    made = n.loop(n.index(240), [(INT64, [], n.index(0)), (INT64, [], n_zero), (INT64, [None], n.constant(np.zeros(0, np.int64)))] + [(FLOAT, shape, v) for shape, v in zip(shapes, start)], step)
    n.output(made[2], kind=INT64), n.output(made[3])


def layer(b, x, width, heads, weights, keys, values, mask):
    """A decoder's layer that looks at `keys` and `values`, of heads apart; `weights` are names from around the loop."""
    size = width // heads
    q = b.heads(b.op("MatMul", x, weights["q"]), heads, size, -1)
    y = b.reshape(b.transpose(attend(b, q, keys, values, size, mask), 0, 2, 1, 3), 0, -1, width)
    x = b.op("LayerNormalization", b.add(x, b.op("MatMul", y, weights["o"])), weights["s"], weights["b"], axis=-1, epsilon=1e-5)
    y = b.op("MatMul", b.relu(b.op("MatMul", x, weights["up"])), weights["down"])
    return b.op("LayerNormalization", b.add(x, y), weights["s"], weights["b"], axis=-1, epsilon=1e-5)


def layer_weights(n, width):
    return {"q": n.weight(width, width), "k": n.weight(width, width), "v": n.weight(width, width), "o": n.weight(width, width), "up": n.weight(width, 2 * width),
            "down": n.weight(2 * width, width), "s": n.scale(width), "b": n.bias(width)}


def speculative(n):
    """A small model guesses four tokens in a Loop within a Loop, a larger one checks all of them at once; how many are right by a product of comparisons, the caches of a fixed size are written by
    ScatterND and what is after the end masked; ends when 40 tokens are there."""
    words, most, width, heads = 200, 48, 96, 4
    size = width // heads
    prompt = n.input("prompt", n.random.integers(1, words, (1,)), [1])
    tables = n.weight(words, width, fan=1), n.mul(n.weight(most, width, fan=1), n.number(0.5))
    small, large = layer_weights(n, width), [layer_weights(n, width) for _ in range(2)]
    head = n.weight(width, words)
    positions = n.constant(np.arange(most))

    def embed(b, tokens, places):
        return b.op("Unsqueeze", b.add(b.op("Gather", tables[0], tokens), b.op("Gather", tables[1], places)), b.integers(0))

    def store(b, cache, rows, places):
        """A cache is [most, heads, size], as it is written by rows."""
        return b.op("ScatterND", cache, b.op("Unsqueeze", places, b.integers(1)), b.reshape(rows, -1, heads, size))

    def looked(b, x, places, weights, keys, values):
        keys, values = store(b, keys, b.op("MatMul", x, weights["k"]), places), store(b, values, b.op("MatMul", x, weights["v"]), places)
        mask = b.op("Where", b.op("LessOrEqual", b.op("Unsqueeze", positions, b.integers(0)), b.op("Unsqueeze", places, b.integers(1))), b.number(0), b.number(-1e9))
        turned = [first_axis(b, b.transpose(v, 1, 0, 2)) for v in (keys, values)]
        return layer(b, x, width, heads, weights, *turned, mask), keys, values

    def step(b, i, length, tokens, *caches):
        last = b.op("Gather", tokens, b.op("Sub", length, b.index(1)))

        def guess(c, j, token, keys, values):
            place = first_axis(c, c.op("Add", c.op("Sub", length, c.index(1)), j))
            y, keys, values = looked(c, embed(c, token, place), place, small, keys, values)
            token = c.reshape(c.op("ArgMax", c.op("MatMul", y, head), axis=-1, keepdims=0), 1)
            return [token, keys, values], [token]

        _, keys, values, guessed = b.loop(b.index(4), [(INT64, [1], first_axis(b, last)), (FLOAT, [most, heads, size], caches[0]), (FLOAT, [most, heads, size], caches[1])], guess)
        guessed = b.reshape(guessed, 4)
        asked = b.op("Concat", first_axis(b, last), guessed, axis=0)
        places = b.op("Add", b.op("Sub", length, b.index(1)), b.constant(np.arange(5)))
        x, new = embed(b, asked, places), [keys, values]
        for k, weights in enumerate(large):
            x, keys, values = looked(b, x, places, weights, caches[2 + 2 * k], caches[3 + 2 * k])
            new += [keys, values]
        told = b.reshape(b.op("ArgMax", b.op("MatMul", x, head), axis=-1, keepdims=0), 5)
        right = b.op("Cast", b.op("Equal", guessed, b.slice(told, 0, 0, 4)), to=INT64)
        run = b.op("Cast", b.op("Equal", b.op("CumSum", right, b.index(0)), b.constant(np.arange(1, 5))), to=INT64)
        accepted = b.op("Add", b.op("ReduceSum", run, b.integers(0), keepdims=0), b.index(1))
        kept = b.op("Less", b.constant(np.arange(5)), accepted)
        before = b.op("Slice", tokens, first_axis(b, length), first_axis(b, b.op("Add", length, b.index(5))), b.integers(0))
        written = b.op("ScatterND", tokens, b.op("Unsqueeze", b.op("Add", length, b.constant(np.arange(5))), b.integers(1)), b.op("Where", kept, told, before))
        length = b.op("Add", length, accepted)
        return [length, written, *new], [accepted], b.op("Less", length, b.index(40))

    tokens = n.op("Pad", prompt, n.integers(0, most - 1), n.index(0))
    cache = (FLOAT, [most, heads, size], zeros(n, most, heads, size))
    made = n.loop(n.index(40), [(INT64, [], n.index(1)), (INT64, [most], tokens)] + [cache] * 6, step)
    n.output(made[1], kind=INT64), n.output(made[0], kind=INT64)


def wave_ring(n):
    """WaveNet sample by sample: each of ten layers remembers what its dilation needs in a ring, read at i mod d by Gather and written there by ScatterElements; the class goes on, by ArgMax."""
    channels, skip, classes, samples = 32, 64, 64, 200
    table = n.weight(classes, channels, fan=1)
    dilations = [1, 2, 4, 8, 16] * 2
    weights = [(n.weight(2 * channels, 2 * channels), n.bias(2 * channels), n.weight(channels, channels + skip), n.bias(channels + skip)) for _ in dilations]
    condition = n.op("Tanh", n.gemm(n.floats("speaker", 1, 24), 24, 2 * channels))

    def step(b, i, token, *rings):
        x, total, new = b.op("Gather", table, token), None, []
        for ring, d, (w, v, u, c) in zip(rings, dilations, weights):
            place = b.op("Mod", i, b.index(d))
            old = b.op("Gather", ring, first_axis(b, place), axis=0)
            where = b.op("Expand", b.op("Reshape", place, b.integers(1, 1)), b.integers(1, channels))
            new.append(b.op("ScatterElements", ring, where, x, axis=0))
            y = b.add(b.op("MatMul", b.op("Concat", old, x, axis=1), w), v, condition)
            left, right = b.split(y, 1, channels, channels)
            y = b.add(b.op("MatMul", b.mul(b.op("Tanh", left), b.op("Sigmoid", right)), u), c)
            stays, out = b.split(y, 1, channels, skip)
            x, total = b.add(x, stays), b.add(total, out) if total else out
        scores = b.gemm(b.relu(b.gemm(b.relu(total), skip, skip)), skip, classes)
        return [b.op("ArgMax", scores, axis=1, keepdims=0), *new], [b.op("Squeeze", scores, b.integers(0))]

    states = [(INT64, [1], n.integers(classes // 2))] + [(FLOAT, [d, channels], zeros(n, d, channels)) for d in dilations]
    made = n.loop(n.index(samples), states, step)
    n.output(made[-1]), n.output(n.op("ArgMax", made[-1], axis=-1, keepdims=0), kind=INT64)


def sliding_cache(n):
    """A decoder whose caches hold the last 32 rows: Concat, then Slice of the last ones along the axis of time, heads before it; a penalty on words that were, temperature, the best of 20 by TopK
    with noise that is given, probabilities that sum to nine tenths; 40 tokens."""
    words, width, heads, window, steps = 300, 128, 4, 32, 40
    size = width // heads
    noise = n.floats("noise", steps, 20)
    table, head = n.weight(words, width, fan=1), n.weight(width, words)
    layers = [layer_weights(n, width) for _ in range(2)]

    def step(b, i, token, counts, *caches):
        x, new = b.op("Gather", table, token), []
        for k, weights in enumerate(layers):
            kept = []
            for cache, which in zip(caches[2 * k:2 * k + 2], "kv"):
                row = b.heads(b.op("MatMul", x, weights[which]), heads, size, -1)
                kept.append(b.op("Slice", b.op("Concat", cache, row, axis=2), b.integers(-window), b.integers(END), b.integers(2)))
            new += kept
            x = layer(b, x, width, heads, weights, *kept, None)
        logits = b.op("Squeeze", b.op("MatMul", x, head), b.integers(0, 1))
        logits = b.op("Sub", logits, b.mul(counts, b.number(0.7)))
        best, at = b.op("TopK", b.op("Div", logits, b.number(0.8)), b.integers(20), outs=2, axis=-1, largest=1, sorted=1)
        sums = b.op("CumSum", b.softmax(best), b.index(0), exclusive=1)
        best = b.op("Where", b.op("Less", sums, b.number(0.9)), best, b.number(float("-inf")))
        drawn = b.op("ArgMax", b.add(best, b.op("Gather", noise, i)), axis=0, keepdims=1)
        token = b.op("Gather", at, drawn)
        counts = b.op("ScatterElements", counts, token, b.constant(np.ones(1, "f")), axis=0, reduction="add")
        return [b.op("Unsqueeze", token, b.integers(0)), counts, *new], [token]

    states = [(INT64, [1, 1], n.input("token", np.array([[5]]))), (FLOAT, [words], zeros(n, words))] + [(FLOAT, [1, heads, window, size], zeros(n, 1, heads, window, size))] * 4
    made = n.loop(n.index(steps), states, step)
    n.output(n.reshape(made[-1], -1), kind=INT64), n.output(made[1])


def fill_in(n):
    """MaskGIT: all of 64 tokens are marks at first; an encoder tells all of them at once, eight turns keep those that are surest (TopK of a number that a cosine tells), the others are marks again."""
    words, count, width, turns = 256, 64, 96, 8
    kind = n.input("kind", np.array([3]), ["batch"])
    table = n.weight(words + 1, width, fan=1)
    place, of_kind = n.bias(1, count, width), n.op("Unsqueeze", n.op("Gather", n.weight(10, width, fan=1), kind), n.integers(1))

    def step(b, i, tokens):
        x = b.add(b.op("Gather", table, tokens), place, of_kind)
        for _ in range(2):
            x = b.add(x, b.self_attention(b.layer_norm(x, width), width, 4))
            x = b.add(x, b.feed_forward(b.layer_norm(x, width), width, 4 * width))
        chance = b.softmax(b.linear(b.layer_norm(x, width), width, words))
        best, told = b.op("ReduceMax", chance, axes=[-1], keepdims=0), b.op("ArgMax", chance, axis=-1, keepdims=0)
        empty = b.op("Equal", tokens, b.index(words))
        told, best = b.op("Where", empty, told, tokens), b.op("Where", empty, best, b.number(2))
        part = b.op("Cos", b.mul(b.op("Div", b.op("Cast", b.op("Add", i, b.index(1)), to=FLOAT), b.number(turns)), b.number(np.pi / 2)))
        unsure = b.op("Cast", b.op("Max", b.op("Floor", b.mul(part, b.number(count))), b.number(0)), to=INT64)
        _, at = b.op("TopK", best, b.reshape(unsure, 1), outs=2, axis=-1, largest=0, sorted=1)
        tokens = b.op("ScatterElements", told, at, b.op("Expand", b.index(words), b.op("Shape", at)), axis=1)
        return [tokens], []

    start = n.op("Expand", n.index(words), n.op("Concat", n.op("Shape", kind), n.integers(count), axis=0))
    tokens = n.loop(n.index(turns), [(INT64, [None, count], start)], step)[0]
    n.output(tokens, kind=INT64)


def flow_loop(n):
    """RAFT with a Loop: correlations of all pairs at three extents, looked up around where points are now by GridSample, a convolutional GRU, eight turns; the flow is carried up by Unfold's like."""
    h = w = 20

    def features(n, x, made):
        for taken, mid, stride in ((3, 32, 2), (32, 48, 2), (48, 64, 2)):
            x = n.relu(n.op("InstanceNormalization", n.conv(x, taken, mid, 3, stride), n.constant(np.ones(mid, "f")), zeros(n, mid), epsilon=1e-5))
        return n.conv(x, 64, made)

    one, two = n.floats("one", 1, 3, 8 * h, 8 * w), n.floats("two", 1, 3, 8 * h, 8 * w)
    both = features(n, n.op("Concat", one, two, axis=0), 64)
    a, b_ = n.split(both, 0, 1, 1)
    volume = n.op("Div", n.op("MatMul", n.transpose(n.reshape(a, 64, h * w), 1, 0), n.reshape(b_, 64, h * w)), n.number(8))
    pyramid = [n.reshape(volume, h * w, 1, h, w)]
    for _ in range(2):
        pyramid.append(n.op("AveragePool", pyramid[-1], kernel_shape=[2, 2], strides=[2, 2]))
    context = features(n, one, 96)
    hidden, inner = n.split(context, 1, 48, 48)
    ys, xs = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    grid = n.constant(np.stack([xs, ys], 0).astype("f")[None])
    d = np.arange(-3, 4)
    window = np.stack(np.meshgrid(d, d, indexing="ij"), -1).astype("f").reshape(1, 7, 7, 2)
    hidden, inner = n.op("Tanh", hidden), n.relu(inner)

    def step(b, i, hidden, at):
        centre = b.reshape(b.transpose(at, 0, 2, 3, 1), h * w, 1, 1, 2)
        found = []
        for level, volume in enumerate(pyramid):
            extent = np.array([w >> level, h >> level], "f") - 1
            points = b.add(b.op("Div", centre, b.number(2 ** level)), b.constant(window))
            points = b.op("Sub", b.mul(points, b.constant(2 / extent)), b.number(1))
            seen = b.op("GridSample", volume, points, align_corners=1, mode="bilinear" if b.opset < 20 else "linear", padding_mode="zeros")
            found.append(b.reshape(seen, 1, h, w, 49))
        seen = b.transpose(b.op("Concat", *found, axis=3), 0, 3, 1, 2)
        flow = b.op("Sub", at, grid)
        motion = b.relu(b.conv(b.op("Concat", b.relu(b.conv(seen, 147, 48)), b.relu(b.conv(flow, 2, 16, 7)), axis=1), 64, 46, 3))
        x = b.op("Concat", inner, motion, flow, axis=1)
        hx = b.op("Concat", hidden, x, axis=1)
        z, r = b.op("Sigmoid", b.conv(hx, 144, 48, 3)), b.op("Sigmoid", b.conv(hx, 144, 48, 3))
        q = b.op("Tanh", b.conv(b.op("Concat", b.mul(r, hidden), x, axis=1), 144, 48, 3))
        hidden = b.add(b.mul(b.op("Sub", b.number(1), z), hidden), b.mul(z, q))
        change = b.conv(b.relu(b.conv(hidden, 48, 64, 3)), 64, 2, 3)
        return [hidden, b.add(at, change)], []

    hidden, at = n.loop(n.index(8), [(FLOAT, [1, 48, h, w], hidden), (FLOAT, [1, 2, h, w], grid)], step)
    mask = n.softmax(n.reshape(n.mul(n.conv(n.relu(n.conv(hidden, 48, 64, 3)), 64, 576), n.number(0.25)), 1, 1, 9, 8, 8, h, w), 2)
    flow = n.op("Pad", n.op("Sub", at, grid), n.integers(0, 0, 1, 1, 0, 0, 1, 1), n.number(0))
    parts = [n.op("Unsqueeze", n.op("Slice", flow, n.integers(y, x), n.integers(y + h, x + w), n.integers(2, 3)), n.integers(2)) for y in range(3) for x in range(3)]
    up = n.reshape(n.op("Concat", *parts, axis=2), 1, 2, 9, 1, 1, h, w)
    up = n.transpose(n.reduce("ReduceSum", n.mul(mask, up), [2], 0), 0, 1, 4, 2, 5, 3)
    n.output(n.reshape(up, 1, 2, 8 * h, 8 * w))


def tour(n):
    """A pointer network for tours: cities encoded by attention, then a Loop that glimpses and points, never twice to the same (masks by ScatterElements); costs of the tour; four maps of 30 cities."""
    width, heads, cities = 96, 4, 30
    places = n.op("Sigmoid", n.floats("places", 4, cities, 2, dims=["batch", cities, 2]))
    x = n.linear(places, 2, width)
    for _ in range(3):
        x = n.layer_norm(n.add(x, n.self_attention(x, width, heads)), width)
        x = n.layer_norm(n.add(x, n.feed_forward(x, width, 2 * width, n.relu)), width)
    mean = n.linear(n.reduce("ReduceMean", x, [1]), width, width)
    keys, values, logit_keys = (n.linear(x, width, width, False) for _ in range(3))
    keys, values = (n.heads(v, heads, width // heads) for v in (keys, values))
    batch = first_axis(n, n.extent(x, 0))
    free = n.op("ConstantOfShape", n.op("Concat", batch, n.integers(cities), axis=0), value=helper.make_tensor("", FLOAT, [1], [0.0]))
    start = n.op("Expand", n.bias(1, 1, width), n.op("Concat", batch, n.integers(1, width), axis=0))

    def step(b, i, mask, last, first):
        query = b.add(mean, b.linear(b.op("Concat", last, first, axis=-1), 2 * width, width))
        y = attend(b, b.heads(query, heads, width // heads), keys, values, width // heads, b.op("Unsqueeze", mask, b.integers(1, 2)))
        y = b.linear(b.reshape(b.transpose(y, 0, 2, 1, 3), 0, 1, width), width, width)
        scores = b.mul(b.op("Tanh", b.mul(b.op("MatMul", y, b.transpose(logit_keys, 0, 2, 1)), b.number(width ** -0.5))), b.number(10))
        likely = b.op("LogSoftmax", b.add(b.op("Squeeze", scores, b.integers(1)), mask), axis=-1)
        chosen = b.op("ArgMax", likely, axis=1, keepdims=1)
        mask = b.op("ScatterElements", mask, chosen, b.op("Expand", b.number(-1e9), b.op("Shape", chosen)), axis=1)
        row = b.op("Expand", b.op("Unsqueeze", chosen, b.integers(2)), b.integers(1, 1, width))
        last = b.op("GatherElements", x, row, axis=1)
        first = b.op("Where", b.op("Equal", i, b.index(0)), last, first)
        return [mask, last, first], [b.op("Squeeze", chosen, b.integers(1)), b.op("ReduceMax", likely, axes=[1], keepdims=0)]

    shape = [None, 1, width]
    made = n.loop(n.index(cities), [(FLOAT, [None, cities], free), (FLOAT, shape, start), (FLOAT, shape, start)], step)
    order = n.transpose(made[3], 1, 0)
    ordered = n.op("GatherElements", places, n.op("Expand", n.op("Unsqueeze", order, n.integers(2)), n.integers(1, 1, 2)), axis=1)
    after = n.op("Concat", n.slice(ordered, 1, 1, None), n.slice(ordered, 1, 0, 1), axis=1)
    n.output(order, kind=INT64), n.output(n.reduce("ReduceSum", n.op("ReduceL2", n.op("Sub", after, ordered), axes=[2], keepdims=0), [1], 0))
    n.output(n.reduce("ReduceSum", made[4], [0], 0))


def turing_machine(n):
    """A memory of 64 rows that an LSTM cell reads and writes by likeness and by shifts (a circular convolution by Gather), sharpened; 30 turns of a Scan, a batch of two."""
    rows, width, size, batch = 64, 24, 64, 2
    x = n.floats("letters", 30, batch, 9, dims=["turns", batch, 9])
    shifted = n.constant((np.arange(rows)[None] + np.array([[-1], [0], [1]])) % rows)
    kernels = n.weight(9 + width + size, 4 * size), n.bias(4 * size)
    of_head = n.weight(size, 2 * (width + 6) + 2 * width), n.bias(2 * (width + 6) + 2 * width)

    def address(b, told, memory, old):
        key, strength, gate, shift, sharp = b.split(told, 1, width, 1, 1, 3, 1)
        key = b.op("Unsqueeze", b.op("Tanh", key), b.integers(1))
        alike = b.op("Div", b.reduce("ReduceSum", b.mul(memory, key), [2], 0),
                     b.add(b.mul(b.op("ReduceL2", memory, axes=[2], keepdims=0), b.op("ReduceL2", key, axes=[2], keepdims=0)), b.number(1e-6)))
        w = b.softmax(b.mul(b.op("Softplus", strength), alike), 1)
        gate = b.op("Sigmoid", gate)
        w = b.add(b.mul(gate, w), b.mul(b.op("Sub", b.number(1), gate), old))
        around = b.op("Gather", w, shifted, axis=1)
        w = b.reduce("ReduceSum", b.mul(around, b.op("Unsqueeze", b.softmax(shift, 1), b.integers(2))), [1], 0)
        w = b.op("Pow", b.add(w, b.number(1e-6)), b.add(b.op("Softplus", sharp), b.number(1)))
        return b.op("Div", w, b.reduce("ReduceSum", w, [1]))

    def step(b, memory, reads, writes, read, h, c, x):
        z = b.add(b.op("MatMul", b.op("Concat", x, read, h, axis=1), kernels[0]), kernels[1])
        i, f, g, o = b.split(z, 1, size, size, size, size)
        c = b.add(b.mul(b.op("Sigmoid", f), c), b.mul(b.op("Sigmoid", i), b.op("Tanh", g)))
        h = b.mul(b.op("Sigmoid", o), b.op("Tanh", c))
        told = b.add(b.op("MatMul", h, of_head[0]), of_head[1])
        for_read, for_write, erase, add = b.split(told, 1, width + 6, width + 6, width, width)
        writes = address(b, for_write, memory, writes)
        where = b.op("Unsqueeze", writes, b.integers(2))
        memory = b.mul(memory, b.op("Sub", b.number(1), b.mul(where, b.op("Unsqueeze", b.op("Sigmoid", erase), b.integers(1)))))
        memory = b.add(memory, b.mul(where, b.op("Unsqueeze", b.op("Tanh", add), b.integers(1))))
        reads = address(b, for_read, memory, reads)
        read = b.op("Squeeze", b.op("MatMul", b.op("Unsqueeze", reads, b.integers(1)), memory), b.integers(1))
        return [memory, reads, writes, read, h, c], [b.op("Concat", h, read, axis=1)]

    even = n.constant(np.full((batch, rows), 1 / rows, "f"))
    states = [([batch, rows, width], n.constant(np.full((batch, rows, width), 0.1, "f"))), ([batch, rows], even), ([batch, rows], even), ([batch, width], zeros(n, batch, width)),
              ([batch, size], zeros(n, batch, size)), ([batch, size], zeros(n, batch, size))]
    made = n.scan([(FLOAT, shape, value) for shape, value in states], [(FLOAT, [batch, 9], x)], step)
    n.output(n.op("Sigmoid", n.linear(made[6], size + width, 8))), n.output(made[0])


def tree_lstm(n):
    """A tree of words, children before parents: a Loop that gathers the states of both children, a cell of its own forgetting for each, and writes the new state by ScatterND."""
    width, nodes = 96, 31
    words = n.input("words", n.random.integers(0, 100, nodes), ["nodes"])
    left = n.input("left", np.array([nodes if i < 16 else 2 * (i - 16) for i in range(nodes)]), ["nodes"])
    right = n.input("right", np.array([nodes if i < 16 else 2 * (i - 16) + 1 for i in range(nodes)]), ["nodes"])
    x = n.linear(n.op("Gather", n.weight(100, 64, fan=1), words), 64, 5 * width)
    count = n.extent(words, 0)
    empty = n.op("ConstantOfShape", n.op("Concat", first_axis(n, n.op("Add", count, n.index(1))), n.integers(width), axis=0), value=helper.make_tensor("", FLOAT, [1], [0.0]))
    u = n.weight(2 * width, 5 * width)

    def step(b, i, h, c):
        at = [first_axis(b, b.op("Gather", side, i)) for side in (left, right)]
        hs, (cl, cr) = [b.op("Gather", h, a, axis=0) for a in at], [b.op("Gather", c, a, axis=0) for a in at]
        z = b.add(b.op("Gather", x, first_axis(b, i), axis=0), b.op("MatMul", b.op("Concat", *hs, axis=1), u))
        i_, fl, fr, o, g = b.split(z, 1, *[width] * 5)
        new = b.add(b.mul(b.op("Sigmoid", i_), b.op("Tanh", g)), b.mul(b.op("Sigmoid", fl), cl), b.mul(b.op("Sigmoid", fr), cr))
        out = b.mul(b.op("Sigmoid", o), b.op("Tanh", new))
        place = b.op("Reshape", i, b.integers(1, 1))
        return [b.op("ScatterND", h, place, out), b.op("ScatterND", c, place, new)], []

    h, _ = n.loop(count, [(FLOAT, [None, width], empty), (FLOAT, [None, width], empty)], step)
    n.output(n.softmax(n.linear(n.slice(h, 0, 0, -1), width, 5)))


def rainfall(n):
    """Keras' ConvLSTM2D by tf2onnx: eight frames in NHWC, a Loop that takes a frame by Gather, two convolutions of four gates with hard sigmoids, two layers of it, and frames that are made after."""
    x = n.floats("frames", 1, 8, 40, 40, 1, dims=["batch", 8, 40, 40, 1])
    x = n.transpose(x, 1, 0, 2, 3, 4)
    batch = first_axis(n, n.op("Gather", n.op("Shape", x), n.index(1)))
    taken = 1
    for made in (24, 16):
        empty = n.op("ConstantOfShape", n.op("Concat", batch, n.integers(40, 40, made), axis=0), value=helper.make_tensor("", FLOAT, [1], [0.0]))
        kernel, recurrent, bias = n.weight(4 * made, taken, 3, 3), n.weight(4 * made, made, 3, 3), n.bias(4 * made)

        def step(b, i, h, c):
            frame = b.op("Gather", x, i, axis=0)
            seen = b.transpose(b.op("Conv", b.transpose(frame, 0, 3, 1, 2), kernel, bias, auto_pad="SAME_UPPER", kernel_shape=[3, 3], strides=[1, 1]), 0, 2, 3, 1)
            kept = b.transpose(b.op("Conv", b.transpose(h, 0, 3, 1, 2), recurrent, auto_pad="SAME_UPPER", kernel_shape=[3, 3], strides=[1, 1]), 0, 2, 3, 1)
            i_, f, g, o = b.split(b.add(seen, kept), 3, *[made] * 4)
            hard = lambda v: b.op("Clip", b.add(b.mul(v, b.number(0.2)), b.number(0.5)), b.number(0), b.number(1))
            c = b.add(b.mul(hard(f), c), b.mul(hard(i_), b.op("Tanh", g)))
            h = b.mul(hard(o), b.op("Tanh", c))
            return [h, c], [h]

        shape = [None, 40, 40, made]
        x = n.loop(n.index(8), [(FLOAT, shape, empty), (FLOAT, shape, empty)], step)[2]
        taken = made
    x = n.transpose(x, 1, 4, 0, 2, 3)
    y = n.op("Conv", x, n.weight(1, 16, 3, 3, 3), n.bias(1), auto_pad="SAME_UPPER", kernel_shape=[3, 3, 3], strides=[1, 1, 1])
    n.output(n.op("Sigmoid", n.transpose(y, 0, 2, 3, 4, 1)))


def residual_codes(n):
    """A codec's codes: a Scan over eight tables takes the nearest of each and hands on what is left; another Scan adds them up again; then transposed convolutions; frames are symbolic."""
    width, entries = 64, 256
    x = n.floats("sound", 1, 1, 4800, dims=[1, 1, "samples"])
    for taken, made, stride in ((1, 16, 4), (16, 32, 5), (32, width, 6)):
        x = n.op("Elu", n.op("Conv", x, n.weight(made, taken, 2 * stride), n.bias(made), kernel_shape=[2 * stride], strides=[stride], pads=[stride // 2, stride - stride // 2]))
    rows = n.reshape(n.transpose(x, 0, 2, 1), -1, width)
    tables = n.constant((n.random.standard_normal((8, entries, width)) * 0.2).astype("f"))

    def nearest(b, left, table):
        square = b.reduce("ReduceSum", b.mul(table, table), [1], 0)
        far = b.op("Sub", square, b.mul(b.op("MatMul", left, b.transpose(table, 1, 0)), b.number(2)))
        code = b.op("ArgMin", far, axis=1, keepdims=0)
        return [b.op("Sub", left, b.op("Gather", table, code))], [code]

    _, codes = n.scan([(FLOAT, [None, width], rows)], [(FLOAT, [entries, width], tables)], nearest)
    total, = n.scan([(FLOAT, [None, width], n.mul(rows, n.number(0)))], [(FLOAT, [entries, width], tables), (INT64, [None], codes)],
                    lambda b, total, table, code: ([b.add(total, b.op("Gather", table, code))], []))
    y = n.transpose(first_axis(n, total), 0, 2, 1)
    for taken, made, stride in ((width, 32, 6), (32, 16, 5), (16, 8, 4)):
        y = n.op("Elu", n.op("ConvTranspose", y, n.weight(taken, made, 2 * stride, fan=2 * taken), n.bias(made), kernel_shape=[2 * stride], strides=[stride], pads=[stride // 2, stride - stride // 2]))
    n.output(codes, kind=INT64), n.output(n.op("Tanh", n.op("Conv", y, n.weight(1, 8, 7), n.bias(1), kernel_shape=[7], pads=[3, 3])))


def turned_flow(n):
    """A flow that is undone one variable at a time: each of 24 turns runs a masked network on all, takes one column, and puts it in by Where; 64 rows; then its likelihood by one run."""
    size, hidden = 24, 96
    z = n.floats("noise", 64, size, dims=["rows", size])
    order = np.arange(1, size + 1)
    inner = np.arange(hidden) % (size - 1) + 1
    masks = (inner[None] >= order[:, None]), (inner[None] >= inner[:, None]), (order[None] > inner[:, None])
    weights = [n.constant((n.random.standard_normal(mask.shape) * 0.2 * mask).astype("f")) for mask in (masks[0], masks[1], np.concatenate([masks[2]] * 2, 1))]
    biases = [n.bias(hidden), n.bias(hidden), n.bias(2 * size)]

    def told(b, x):
        for k, (w, v) in enumerate(zip(weights, biases)):
            x = b.add(b.op("MatMul", x, w), v)
            x = b.relu(x) if k < 2 else x
        mean, scale = b.split(x, 1, size, size)
        return mean, b.op("Tanh", scale)

    def step(b, i, x):
        mean, scale = told(b, x)
        new = b.add(b.mul(z, b.op("Exp", scale)), mean)
        return [b.op("Where", b.op("Equal", b.constant(np.arange(size)), i), new, x)], []

    x = n.loop(n.index(size), [(FLOAT, [None, size], n.mul(z, n.number(0)))], step)[0]
    mean, scale = told(n, x)
    back = n.mul(n.op("Sub", x, mean), n.op("Exp", n.op("Neg", scale)))
    n.output(x), n.output(n.op("Sub", n.mul(n.reduce("ReduceSum", n.mul(back, back), [1], 0), n.number(-0.5)), n.reduce("ReduceSum", scale, [1], 0)))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (denoise, 17), (transducer_greedy, 17), (speculative, 17), (wave_ring, 17), (sliding_cache, 17), (fill_in, 17), (flow_loop, 17), (tour, 17), (turing_machine, 17), (tree_lstm, 17), (rainfall, 15),
    (residual_codes, 17), (turned_flow, 17)]}
