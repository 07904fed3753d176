# SPDX-License-Identifier: Apache-2.0
"""Networks that decide as they go, with Loop, If and Scan in the graph: translation word by word, beams, alignments, tags, codes of lengths, solvers of equations,
points farthest apart, tokens from text. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT

INT64, BOOL, STRING = TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


def zeros(n, *shape):
    return n.constant(np.zeros(shape, "f"))


def ones_like(n, shape, value=1.0):
    return n.op("ConstantOfShape", shape, value=helper.make_tensor("", FLOAT, [1], [value]))


def attend(n, q, k, v, size, mask=None):
    """Heads stand apart already."""
    scores = n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(size ** -0.5))
    return n.op("MatMul", n.softmax(n.add(scores, mask) if mask else scores), v)


def translate_greedily(n):
    """Two encoder layers, then a Loop that ends at a mark or after 24 words: caches that grow by Concat, the likeliest word goes on."""
    width, heads, size, words = 128, 4, 32, 500
    ids = n.input("ids", n.random.integers(1, words, (1, 20)), [1, "length"])
    x = n.op("Gather", n.weight(words, width, fan=1), ids)
    for _ in range(2):
        x = n.layer_norm(n.add(x, n.self_attention(x, width, heads)), width)
        x = n.layer_norm(n.add(x, n.feed_forward(x, width, 256, n.relu)), width)
    layers = 2
    cross = [n.heads(n.linear(x, width, width), heads, size, -1) for _ in range(2 * layers)]
    table, head = n.weight(words, width, fan=1), n.weight(width, words)

    def step(b, i, token, found, *caches):
        y = b.op("Gather", table, token)
        y = b.add(y, b.op("Gather", b.bias(64, width), b.op("Unsqueeze", i, b.integers(0))))
        new = []
        for layer in range(layers):
            q, k, v = (b.heads(b.linear(y, width, width), heads, size, -1) for _ in range(3))
            k, v = b.op("Concat", caches[2 * layer], k, axis=2), b.op("Concat", caches[2 * layer + 1], v, axis=2)
            new += [k, v]
            z = b.reshape(b.transpose(attend(b, q, k, v, size), 0, 2, 1, 3), 0, -1, width)
            y = b.layer_norm(b.add(y, b.linear(z, width, width)), width)
            q = b.heads(b.linear(y, width, width), heads, size, -1)
            z = b.reshape(b.transpose(attend(b, q, cross[2 * layer], cross[2 * layer + 1], size), 0, 2, 1, 3), 0, -1, width)
            y = b.layer_norm(b.add(y, b.linear(z, width, width)), width)
            y = b.layer_norm(b.add(y, b.feed_forward(y, width, 256, b.relu)), width)
        logits = b.op("MatMul", b.slice(y, 1, -1, None), head)
        chosen = b.op("ArgMax", logits, axis=-1, keepdims=0)
        found = b.op("Concat", found, chosen, axis=1)
        go = b.op("Squeeze", b.op("Not", b.op("Equal", chosen, b.integers(0))))
        return [chosen, found, *new], [], go

    start = n.constant(np.array([[1]]))
    states = [(INT64, [1, 1], start), (INT64, [1, None], n.constant(np.zeros((1, 0), np.int64)))]
    states += [(FLOAT, [1, heads, None, size], zeros(n, 1, heads, 0, size)) for _ in range(2 * layers)]
    n.output(n.loop(n.index(24), states, step)[1], kind=7)


def beam_search(n):
    """Four beams of a GRU decoder with attention: TopK over beams and words, states reordered by Gather, words written by ScatterND, beams that are done stay as they are."""
    beams, words, width, frames, steps = 4, 400, 128, 30, 20
    memory = n.floats("memory", 1, frames, width, dims=[1, "frames", width])
    keys = n.linear(memory, width, width)
    table = n.weight(words, width, fan=1)

    def step(b, i, tokens, scores, done, written, h):
        last = b.op("Gather", table, tokens)
        energy = b.op("MatMul", b.op("Tanh", b.add(keys, b.op("Unsqueeze", b.gemm(h, width, width), b.integers(1)))), b.weight(width, 1))
        context = b.reduce("ReduceSum", b.mul(b.softmax(energy, 1), memory), [1], 0)
        x = b.op("Unsqueeze", b.op("Concat", last, context, axis=-1), b.integers(0))
        _, new = b.op("GRU", x, b.weight(1, 3 * width, 2 * width, fan=2 * width), b.weight(1, 3 * width, width, fan=width), b.bias(1, 6 * width), "",
                      b.op("Unsqueeze", h, b.integers(0)), outs=2, hidden_size=width, linear_before_reset=1)
        new = b.op("Squeeze", new, b.integers(0))
        likely = b.op("LogSoftmax", b.gemm(new, width, words), axis=-1)
        stays = b.constant(np.where(np.arange(words) == 0, 0, -1e9).astype("f")[None])
        likely = b.op("Where", b.op("Unsqueeze", done, b.integers(1)), stays, likely)
        total = b.reshape(b.add(b.op("Unsqueeze", scores, b.integers(1)), likely), 1, -1)
        best, at = b.op("TopK", total, b.integers(beams), outs=2, axis=-1, largest=1, sorted=1)
        at = b.reshape(at, -1)
        beam, token = b.op("Div", at, b.index(words)), b.op("Mod", at, b.index(words))
        written = b.op("Gather", written, beam, axis=0)
        places = b.op("Concat", b.constant(np.arange(beams)[:, None]), b.op("Expand", b.op("Unsqueeze", i, b.integers(0)), b.integers(beams, 1)), axis=1)
        written = b.op("ScatterND", written, places, token)
        done = b.op("Or", b.op("Gather", done, beam, axis=0), b.op("Equal", token, b.index(0)))
        go = b.op("Not", b.op("Cast", b.op("ReduceMin", b.op("Cast", done, to=TensorProto.INT32), axes=[0], keepdims=0), to=BOOL))
        return [token, b.reshape(best, -1), done, written, b.op("Gather", new, beam, axis=0)], [], go

    states = [(INT64, [beams], n.constant(np.ones(beams, np.int64))), (FLOAT, [beams], n.constant(np.array([0, -1e9, -1e9, -1e9], "f"))),
              (BOOL, [beams], n.constant(np.zeros(beams, bool))), (INT64, [beams, steps], n.constant(np.zeros((beams, steps), np.int64))),
              (FLOAT, [beams, width], n.op("Expand", n.op("Tanh", n.gemm(n.reduce("ReduceMean", memory, [1], 0), width, width)), n.integers(beams, width)))]
    made = n.loop(n.index(steps), states, step)
    lengths = n.reduce("ReduceSum", n.op("Cast", n.op("Not", n.op("Equal", made[3], n.index(0))), to=FLOAT), [1], 0)
    fair = n.op("Div", made[1], n.op("Pow", n.op("Div", n.add(lengths, n.number(5)), n.number(6)), n.number(0.6)))
    n.output(n.op("Gather", made[3], n.op("ArgMax", fair, axis=0, keepdims=0), axis=0), kind=7), n.output(fair)


def bahdanau(n):
    """A bidirectional GRU, then a Scan of a cell with attention over its frames: words that are known are fed, batch of 4."""
    width, frames, words, batch = 96, 40, 300, 4
    x = n.floats("frames", frames, batch, 64, dims=["frames", batch, 64])
    y, last = n.op("GRU", x, n.weight(2, 3 * width, 64, fan=64), n.weight(2, 3 * width, width, fan=width), n.bias(2, 6 * width), outs=2, hidden_size=width, direction="bidirectional",
                   linear_before_reset=1)
    memory = n.reshape(n.transpose(y, 2, 0, 1, 3), batch, -1, 2 * width)
    keys = n.op("MatMul", memory, n.weight(2 * width, width))
    tokens = n.input("tokens", n.random.integers(0, words, (15, batch)), ["words", batch])
    fed = n.op("Gather", n.weight(words, width, fan=1), tokens)

    def step(b, h, word):
        energy = b.op("MatMul", b.op("Tanh", b.add(keys, b.op("Unsqueeze", b.op("MatMul", h, b.weight(width, width)), b.integers(1)))), b.weight(width, 1))
        weights = b.softmax(b.op("Squeeze", energy, b.integers(2)), -1)
        context = b.op("Squeeze", b.op("MatMul", b.op("Unsqueeze", weights, b.integers(1)), memory), b.integers(1))
        x = b.op("Concat", word, context, axis=-1)
        gi, gh = b.gemm(x, 3 * width, 3 * width), b.gemm(h, width, 3 * width)
        (ri, zi, ni), (rh, zh, nh) = b.split(gi, 1, width, width, width), b.split(gh, 1, width, width, width)
        r, z = b.op("Sigmoid", b.add(ri, rh)), b.op("Sigmoid", b.add(zi, zh))
        c = b.op("Tanh", b.add(ni, b.mul(r, nh)))
        h = b.add(b.mul(b.op("Sub", b.number(1), z), c), b.mul(z, h))
        return [h], [b.op("Concat", h, context, axis=-1), weights]

    first = n.op("Tanh", n.gemm(n.op("Gather", last, n.index(1), axis=0), width, width))
    _, out, weights = n.scan([(FLOAT, [batch, width], first)], [(FLOAT, [batch, width], fed)], step)
    n.output(n.op("LogSoftmax", n.linear(out, 3 * width, words), axis=-1)), n.output(weights)


def ctc_words(n):
    """Sounds to letters: convolutions, an LSTM both ways, then what repeats and what is blank is taken out by Compress; a greedy decoder in the graph."""
    x = n.floats("features", 1, 1, 200, 64, dims=[1, 1, "frames", 64])
    for taken, made in ((1, 16), (16, 16)):
        x = n.op("Clip", n.op("Conv", x, n.weight(made, taken, 11, 5), n.bias(made), kernel_shape=[11, 5], strides=[2, 2] if taken == 1 else [1, 2], pads=[5, 2, 5, 2]), n.number(0), n.number(20))
    x = n.reshape(n.transpose(x, 2, 0, 1, 3), 0, 1, 256)
    taken = 256
    for _ in range(2):
        y = n.op("LSTM", x, n.weight(2, 512, taken, fan=taken), n.weight(2, 512, 128, fan=128), n.bias(2, 1024), outs=3, hidden_size=128, direction="bidirectional")[0]
        x, taken = n.reduce("ReduceSum", y, [1], 0), 128
    scores = n.op("LogSoftmax", n.linear(x, 128, 32), axis=-1)
    best = n.reshape(n.op("ArgMax", scores, axis=-1, keepdims=0), -1)
    before = n.op("Concat", n.integers(-1), n.slice(best, 0, 0, -1), axis=0)
    keep = n.op("And", n.op("Not", n.op("Equal", best, before)), n.op("Not", n.op("Equal", best, n.index(0))))
    n.output(n.op("Compress", best, keep, axis=0), kind=7)
    n.output(n.op("Squeeze", n.op("NonZero", keep), n.integers(0)), kind=7)
    n.output(n.op("Exp", n.reduce("ReduceMean", n.reduce("ReduceMax", scores, [-1], 0), [0], 0)))


def conv_norm(n, x, taken, made, size):
    """A convolution over time with channels last around it."""
    y = n.transpose(n.conv(n.transpose(x, 0, 2, 1), taken, made, size, rank=1), 0, 2, 1)
    return n.layer_norm(n.relu(y), made)


def speech_lengths(n):
    """Letters to frames: how long each lasts is predicted, and each row repeated that often by sums, comparisons and a product; pitch is put in between."""
    width, heads = 128, 2
    ids = n.input("phonemes", n.random.integers(0, 80, (1, 30)), ["batch", "letters"])
    x = n.op("Gather", n.weight(80, width, fan=1), ids)
    for _ in range(2):
        x = n.layer_norm(n.add(x, n.self_attention(x, width, heads)), width)
        y = n.conv(n.relu(n.conv(n.transpose(x, 0, 2, 1), width, 256, 9, rank=1)), 256, width, rank=1)
        x = n.layer_norm(n.add(x, n.transpose(y, 0, 2, 1)), width)
    d = n.op("Squeeze", n.linear(conv_norm(n, conv_norm(n, x, width, width, 3), width, width, 3), width, 1), n.integers(-1))
    d = n.op("Clip", n.op("Round", n.op("Sub", n.op("Exp", n.add(d, n.number(1.5))), n.number(1))), n.number(1), n.number(12))
    pitch = n.linear(conv_norm(n, x, width, width, 3), width, 1)
    x = n.add(x, n.transpose(n.conv(n.transpose(pitch, 0, 2, 1), 1, width, 9, rank=1), 0, 2, 1))
    ends = n.op("CumSum", d, n.index(1))
    total = n.op("Cast", n.op("ReduceMax", ends, keepdims=0), to=INT64)
    at = n.op("Cast", n.op("Range", n.index(0), total, n.index(1)), to=FLOAT)
    at = n.op("Unsqueeze", n.op("Unsqueeze", at, n.integers(0)), n.integers(2))
    ends, starts = n.op("Unsqueeze", ends, n.integers(1)), n.op("Unsqueeze", n.op("Sub", ends, d), n.integers(1))
    path = n.op("And", n.op("GreaterOrEqual", at, starts), n.op("Less", at, ends))
    x = n.op("MatMul", n.op("Cast", path, to=FLOAT), x)
    for _ in range(2):
        x = n.layer_norm(n.add(x, n.self_attention(x, width, heads)), width)
        y = n.conv(n.relu(n.conv(n.transpose(x, 0, 2, 1), width, 256, 9, rank=1)), 256, width, rank=1)
        x = n.layer_norm(n.add(x, n.transpose(y, 0, 2, 1)), width)
    n.output(n.linear(x, width, 80)), n.output(n.op("Cast", d, to=INT64), kind=7)


def repeat_by_loop(n):
    """A length regulator as scripted code is exported: a Loop that expands each row and inserts it into a sequence, joined by ConcatFromSequence; then a GRU."""
    width, letters = 64, 24
    x = n.floats("rows", letters, width, dims=["letters", width])
    counts = n.input("counts", n.random.integers(0, 6, letters), ["letters"])
    body = n.inner("body")
    at, go, held = (body.prefix + name for name in ("i", "go", "held"))
    row = body.op("Gather", x, at, axis=0)
    count = body.op("Gather", counts, at, axis=0)
    shape = body.op("Concat", body.op("Unsqueeze", count, body.integers(0)), body.integers(-1), axis=0)
    shape = body.op("Where", body.op("Equal", shape, body.integers(-1)), body.integers(1), shape)
    many = body.op("Expand", body.op("Unsqueeze", row, body.integers(0)), shape)
    new, same = body.op("SequenceInsert", held, many), body.op("Identity", go)
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [None, width]))
    graph = helper.make_graph(body.nodes, "body", [helper.make_tensor_value_info(at, INT64, []), helper.make_tensor_value_info(go, BOOL, []), helper.make_value_info(held, sequence)],
                              [helper.make_tensor_value_info(same, BOOL, []), helper.make_value_info(new, sequence)], body.constants)
    made = n.op("Loop", n.extent(x, 0), n.constant(np.array(True)), n.op("SequenceEmpty", dtype=FLOAT), body=graph)
    y = n.op("ConcatFromSequence", made, axis=0)
    y = n.op("Unsqueeze", y, n.integers(1))
    y = n.op("GRU", y, n.weight(1, 3 * width, width, fan=width), n.weight(1, 3 * width, width, fan=width), n.bias(1, 6 * width), outs=2, hidden_size=width, linear_before_reset=1)[0]
    n.output(n.linear(n.op("Squeeze", y, n.integers(1)), width, 80))


def neural_equation(n):
    """A differential equation by Runge and Kutta's method with steps of changing length: If takes a step or tries again; ends when time is up."""
    width, rows = 32, 64
    x = n.floats("start", rows, width, dims=["rows", width])
    weights = [n.weight(width + 1, 96), n.bias(96), n.weight(96, width), n.bias(width)]

    def rate(b, t, y):
        wide = b.op("Expand", t, b.op("Concat", b.op("Shape", b.slice(y, 1, 0, 1)), axis=0))
        h = b.op("Tanh", b.add(b.op("MatMul", b.op("Concat", y, wide, axis=1), weights[0]), weights[1]))
        return b.add(b.op("MatMul", h, weights[2]), weights[3])

    def step(b, i, t, h, y):
        k1 = rate(b, t, y)
        k2 = rate(b, b.add(t, b.mul(h, b.number(0.5))), b.add(y, b.mul(k1, b.mul(h, b.number(0.5)))))
        k3 = rate(b, b.add(t, b.mul(h, b.number(0.75))), b.add(y, b.mul(k2, b.mul(h, b.number(0.75)))))
        new = b.add(y, b.mul(h, b.add(b.mul(k1, b.number(2 / 9)), b.mul(k2, b.number(3 / 9)), b.mul(k3, b.number(4 / 9)))))
        k4 = rate(b, b.add(t, h), new)
        low = b.add(b.mul(k1, b.number(-5 / 72)), b.mul(k2, b.number(1 / 12)), b.mul(k3, b.number(1 / 9)), b.mul(k4, b.number(-1 / 8)))
        error = b.op("ReduceMax", b.op("Abs", b.mul(h, low)), keepdims=0)
        good = b.op("Less", error, b.number(0.002))
        t, y = b.branch(good, lambda c: [c.add(t, h), c.op("Identity", new)], lambda c: [c.op("Identity", t), c.op("Identity", y)], 2)
        factor = b.op("Clip", b.op("Pow", b.op("Div", b.number(0.002), b.add(error, b.number(1e-6))), b.number(1 / 3)), b.number(0.3), b.number(3.0))
        h = b.op("Min", b.mul(h, b.mul(factor, b.number(0.9))), b.add(b.op("Sub", b.number(1), t), b.number(1e-7)))
        return [t, h, y], [], b.op("Less", t, b.number(0.99999))

    made = n.loop(n.index(200), [(FLOAT, [], n.number(0)), (FLOAT, [], n.number(0.05)), (FLOAT, [None, width], x)], step)
    n.output(n.gemm(made[2], width, 10))


def crf_tags(n):
    """An LSTM both ways and a chain of tags: a Loop forward with ArgMax of each, and another back along them."""
    tags, length, width = 17, 40, 64
    ids = n.input("ids", n.random.integers(0, 1000, (length, 1)), ["length", 1])
    x = n.op("Gather", n.weight(1000, 96, fan=1), ids)
    y = n.op("LSTM", x, n.weight(2, 4 * width, 96, fan=96), n.weight(2, 4 * width, width, fan=width), n.bias(2, 8 * width), outs=3, hidden_size=width, direction="bidirectional")[0]
    y = n.reshape(n.transpose(y, 0, 2, 1, 3), 0, 0, -1)
    scores = n.op("Squeeze", n.linear(y, 2 * width, tags), n.integers(1))
    steps = n.bias(tags, tags)

    def forward(b, i, best):
        both = b.add(b.op("Unsqueeze", best, b.integers(1)), steps)
        at = b.op("ArgMax", both, axis=0, keepdims=0)
        here = b.op("Gather", scores, b.add(i, b.index(1)), axis=0)
        return [b.add(b.op("ReduceMax", both, axes=[0], keepdims=0), here)], [at]

    trips = n.op("Sub", n.extent(scores, 0), n.index(1))
    best, ways = n.loop(trips, [(FLOAT, [tags], n.add(n.op("Gather", scores, n.index(0), axis=0), n.bias(tags)))], forward)
    last = n.op("ArgMax", n.add(best, n.bias(tags)), axis=0, keepdims=0)

    def backward(b, i, tag):
        row = b.op("Gather", ways, b.op("Sub", b.op("Sub", trips, i), b.index(1)), axis=0)
        tag = b.op("Gather", row, tag, axis=0)
        return [tag], [tag]

    _, path = n.loop(trips, [(INT64, [], last)], backward)
    path = n.slice(path, 0, -1, -np.iinfo(np.int64).max, -1)
    n.output(n.op("Concat", path, n.op("Unsqueeze", last, n.integers(0)), axis=0), kind=7), n.output(n.op("ReduceMax", best, keepdims=0))


def farthest_points(n):
    """Points that are farthest from those chosen so far, one a turn, in a Loop; then the nearest of each by TopK, a small network, a maximum."""
    count, chosen, near = 1024, 64, 16
    points = n.floats("points", 1, count, 3)

    def step(b, i, far, last):
        at = b.op("Gather", points, last, axis=1)
        away = b.reduce("ReduceSum", b.op("Pow", b.op("Sub", points, at), b.number(2)), [-1], 0)
        far = b.op("Min", far, away)
        new = b.reshape(b.op("ArgMax", far, axis=-1, keepdims=0), 1)
        return [far, new], [b.op("Squeeze", last, b.integers(0))]

    *_, which = n.loop(n.index(chosen), [(FLOAT, [1, count], n.constant(np.full((1, count), 1e10, "f"))), (INT64, [1], n.integers(0))], step)
    centres = n.op("Gather", points, which, axis=1)
    a, b = n.reduce("ReduceSum", n.mul(centres, centres), [-1]), n.transpose(n.reduce("ReduceSum", n.mul(points, points), [-1]), 0, 2, 1)
    away = n.add(n.add(n.mul(n.op("MatMul", centres, n.transpose(points, 0, 2, 1)), n.number(-2)), a), b)
    _, at = n.op("TopK", away, n.integers(near), outs=2, axis=-1, largest=0, sorted=1)
    groups = n.op("Sub", n.op("GatherND", n.op("Squeeze", points, n.integers(0)), n.op("Unsqueeze", n.op("Squeeze", at, n.integers(0)), n.integers(-1))),
                  n.op("Unsqueeze", n.op("Squeeze", centres, n.integers(0)), n.integers(1)))
    x = n.transpose(n.op("Unsqueeze", groups, n.integers(0)), 0, 3, 2, 1)
    for taken, made in ((3, 64), (64, 64), (64, 128)):
        x = n.relu(n.conv(x, taken, made))
    x = n.op("ReduceMax", x, axes=[2], keepdims=0)
    x = n.op("ReduceMax", n.relu(n.conv(x, 128, 256, rank=1)), axes=[2], keepdims=0)
    n.output(n.gemm(n.relu(n.gemm(x, 256, 128)), 128, 40)), n.output(which, kind=7)


def sinkhorn(n):
    """Two sets of points matched: attention among them and across, then twenty rounds of a Loop that makes rows and columns sum to one, in logarithms."""
    width, heads, first, second = 128, 4, 100, 120
    a, b = n.floats("first", 1, first, width, dims=[1, "first", width]), n.floats("second", 1, second, width, dims=[1, "second", width])

    def message(x, y):
        q, k, v = (n.heads(n.linear(s, width, width), heads, 32, -1) for s in (x, y, y))
        m = n.linear(n.reshape(n.transpose(attend(n, q, k, v, 32), 0, 2, 1, 3), 0, -1, width), width, width)
        return n.add(x, n.linear(n.relu(n.linear(n.op("Concat", x, m, axis=-1), 2 * width, 2 * width)), 2 * width, width))

    for _ in range(2):
        a, b = message(a, a), message(b, b)
        a, b = message(a, b), message(b, a)
    scores = n.mul(n.op("MatMul", n.linear(a, width, width), n.transpose(n.linear(b, width, width), 0, 2, 1)), n.number(0.05 * width ** -0.5))
    bin_score = n.number(0.7)
    scores = n.op("Pad", scores, n.integers(0, 0, 0, 0, 1, 1), bin_score)
    total = n.op("Log", n.op("Cast", n.add(n.extent(a, 1), n.extent(b, 1)), to=FLOAT))

    def margin(extent, other):
        shape = n.op("Unsqueeze", extent, n.integers(0))
        rows = n.op("Expand", n.op("Neg", total), shape)
        last = n.op("Unsqueeze", n.op("Sub", n.op("Log", n.op("Cast", other, to=FLOAT)), total), n.integers(0))
        return n.op("Unsqueeze", n.op("Concat", rows, last, axis=0), n.integers(0))

    mu, nu = margin(n.extent(a, 1), n.extent(b, 1)), margin(n.extent(b, 1), n.extent(a, 1))

    def step(b, i, u, v):
        u = b.op("Sub", mu, b.op("ReduceLogSumExp", b.add(scores, b.op("Unsqueeze", v, b.integers(1))), axes=[2], keepdims=0))
        v = b.op("Sub", nu, b.op("ReduceLogSumExp", b.add(scores, b.op("Unsqueeze", u, b.integers(2))), axes=[1], keepdims=0))
        return [u, v], []

    u, v = n.loop(n.index(20), [(FLOAT, [1, None], n.mul(mu, n.number(0))), (FLOAT, [1, None], n.mul(nu, n.number(0)))], step)
    plan = n.op("Sub", n.add(n.add(scores, n.op("Unsqueeze", u, n.integers(2))), n.op("Unsqueeze", v, n.integers(1))), n.op("Neg", total))
    inner = n.slice(n.slice(plan, 1, 0, -1), 2, 0, -1)
    best, at = n.op("ReduceMax", inner, axes=[2], keepdims=0), n.op("ArgMax", inner, axis=2, keepdims=0)
    back = n.op("GatherElements", n.op("ArgMax", inner, axis=1, keepdims=0), at, axis=1)
    mutual = n.op("Equal", n.op("Unsqueeze", n.op("Range", n.index(0), n.extent(a, 1), n.index(1)), n.integers(0)), back)
    n.output(n.op("Where", n.op("And", mutual, n.op("Greater", n.op("Exp", best), n.number(0.001))), at, n.index(-1)), kind=7), n.output(plan)


def kalman(n):
    """A filter that predicts and corrects, in a Scan over measurements of 16 tracks: small matrices, an inverse of 2 x 2 written out."""
    tracks, steps = 16, 60
    z = n.floats("measured", steps, tracks, 2, dims=["steps", tracks, 2])
    f = np.eye(4, dtype="f")
    f[0, 2] = f[1, 3] = 0.1
    h = np.eye(4, dtype="f")[:2]
    F, Ft, H, Ht, Q, R = (n.constant(m.astype("f")) for m in (f, f.T, h, h.T, 0.01 * np.eye(4), 0.1 * np.eye(2)))

    def step(b, x, p, z):
        x = b.op("MatMul", x, Ft)
        p = b.add(b.op("MatMul", b.op("MatMul", F, p), Ft), Q)
        s = b.add(b.op("MatMul", b.op("MatMul", H, p), Ht), R)
        cell = lambda i, j: b.op("Gather", b.op("Gather", s, b.index(i), axis=1), b.index(j), axis=1)
        s00, s01, s10, s11 = cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)
        det = b.op("Sub", b.mul(s00, s11), b.mul(s01, s10))
        flat = b.op("Concat", *[b.op("Unsqueeze", b.op("Div", v, det), b.integers(1)) for v in (s11, b.op("Neg", s01), b.op("Neg", s10), s00)], axis=1)
        inverse = b.reshape(flat, -1, 2, 2)
        k = b.op("MatMul", b.op("MatMul", p, Ht), inverse)
        y = b.op("Sub", z, b.op("MatMul", x, Ht))
        x = b.add(x, b.op("Squeeze", b.op("MatMul", k, b.op("Unsqueeze", y, b.integers(2))), b.integers(2)))
        p = b.op("Sub", p, b.op("MatMul", b.op("MatMul", k, H), p))
        return [x, p], [x, b.reduce("ReduceSum", b.mul(y, y), [1], 0)]

    p0 = n.constant(np.broadcast_to(np.eye(4, dtype="f"), (tracks, 4, 4)))
    x, p, path, error = n.scan([(FLOAT, [tracks, 4], zeros(n, tracks, 4)), (FLOAT, [tracks, 4, 4], p0)], [(FLOAT, [tracks, 2], z)], step)
    n.output(path), n.output(p), n.output(error)


def text_classifier(n):
    """Strings in, strings out: lower case, words apart, indices by a table, rows of an embedding averaged, a class by its name; opset 20."""
    texts = n.input("texts", np.array(["the Plan is small", "loops copy nothing at ALL here", "memory"], dtype=object), ["texts"])
    words = ["the", "plan", "is", "small", "loops", "copy", "nothing", "at", "all", "memory"]
    x = n.op("StringNormalizer", texts, case_change_action="LOWER", is_case_sensitive=1, locale="C")
    good = n.op("RegexFullMatch", x, pattern="[a-z ]+")
    parts, counts = n.op("StringSplit", n.op("StringConcat", x, n.constant(np.array(" end", dtype=object))), outs=2, delimiter=" ")
    ids = n.op("LabelEncoder", parts, domain="ai.onnx.ml", keys_strings=words, values_int64s=list(range(1, len(words) + 1)), default_int64=0)
    rows = n.op("Gather", n.weight(len(words) + 1, 64, fan=1), ids)
    there = n.op("Less", n.op("Unsqueeze", n.op("Range", n.index(0), n.extent(ids, 1), n.index(1)), n.integers(0)), n.op("Unsqueeze", counts, n.integers(1)))
    rows = n.mul(rows, n.op("Unsqueeze", n.op("Cast", there, to=FLOAT), n.integers(-1)))
    mean = n.op("Div", n.reduce("ReduceSum", rows, [1], 0), n.op("Cast", n.op("Unsqueeze", counts, n.integers(1)), to=FLOAT))
    scores = n.softmax(n.gemm(n.relu(n.gemm(mean, 64, 128)), 128, 3))
    label = n.op("LabelEncoder", n.op("ArgMax", scores, axis=1, keepdims=0), domain="ai.onnx.ml", keys_int64s=[0, 1, 2], values_strings=["short", "long", "odd"], default_string="?")
    n.output(n.op("Where", good, label, n.constant(np.array("bad", dtype=object)))), n.output(scores)


MODELS = {f.__name__: (f, opset) for f, opset in [
    (translate_greedily, 17), (beam_search, 16), (bahdanau, 13), (ctc_words, 17), (speech_lengths, 17), (repeat_by_loop, 16), (neural_equation, 15), (crf_tags, 13), (farthest_points, 16),
    (sinkhorn, 16), (kalman, 16), (text_classifier, 20)]}
