# SPDX-License-Identifier: Apache-2.0
"""Algorithms as graphs, as scripted code becomes when it is exported: shortest paths, eliminations, factorisations by slices that grow, labels of regions, suppression that softens, sorts,
powers of matrices, while loops that end for each element by itself, sequences and strings that loops carry, states that change places. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT

INT64, BOOL, STRING = TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
END = np.iinfo(np.int64).max


def one(n, x):
    """A scalar as a vector of one."""
    return n.op("Unsqueeze", x, n.integers(0))


def any_of(n, x):
    return n.op("Cast", n.op("ReduceMax", n.op("Cast", x, to=TensorProto.INT32), keepdims=0), to=BOOL)


def shortest_paths(n):
    """All pairs, by Floyd and Warshall: a row and a column of each turn; then from one place by a queue that is an ArgMin over what is open, until all are done."""
    count = 96
    x = n.random.random((count, count)).astype("f") * 10 + 0.1
    far = n.input("distances", np.where(n.random.random((count, count)) < 0.1, x, 1e6).astype("f"), ["places", "places"])

    def step(b, i, d):
        return [b.op("Min", d, b.add(b.op("Gather", d, one(b, i), axis=1), b.op("Gather", d, one(b, i), axis=0)))], []

    n.output(n.loop(n.extent(far, 0), [(FLOAT, [None, None], far)], step)[0])
    start = n.op("ScatterElements", n.op("Expand", n.number(1e6), one(n, n.extent(far, 0))), n.integers(0), n.constant(np.zeros(1, "f")), axis=0)
    never = n.op("Greater", start, n.number(1e9))

    def visit(b, i, d, done):
        at = b.op("ArgMin", b.op("Where", done, b.number(1e7), d), axis=0, keepdims=1)
        done = b.op("ScatterElements", done, at, b.constant(np.array([True])), axis=0)
        d = b.op("Min", d, b.add(b.op("Gather", d, at), b.op("Squeeze", b.op("Gather", far, at, axis=0), b.integers(0))))
        return [d, done], [], any_of(b, b.op("Not", done))

    n.output(n.loop(n.index(END), [(FLOAT, [None], start), (BOOL, [None], never)], visit)[0])


def elimination(n):
    """Gauss and Jordan with pivots: the largest of a column by ArgMax, two rows change places by ScatterND, the others lose a multiple; 48 unknowns, four right sides."""
    size = 48
    a = n.floats("matrix", size, size + 4)
    rows = n.constant(np.arange(size))

    def step(b, i, a):
        column = b.op("Gather", a, i, axis=1)
        below = b.op("Where", b.op("GreaterOrEqual", rows, i), b.op("Abs", column), b.number(-1))
        pivot = b.op("ArgMax", below, axis=0, keepdims=0)
        both = b.op("Concat", one(b, i), one(b, pivot), axis=0)
        turned = b.op("Concat", one(b, pivot), one(b, i), axis=0)
        a = b.op("ScatterND", a, b.op("Unsqueeze", both, b.integers(1)), b.op("Gather", a, turned, axis=0))
        row = b.op("Gather", a, i, axis=0)
        row = b.op("Div", row, b.op("Gather", row, i, axis=0))
        factors = b.op("Where", b.op("Equal", rows, i), b.number(0), b.op("Gather", a, i, axis=1))
        a = b.op("ScatterND", a, b.op("Reshape", i, b.integers(1, 1)), b.op("Unsqueeze", row, b.integers(0)))
        return [b.op("Sub", a, b.mul(b.op("Unsqueeze", factors, b.integers(1)), b.op("Unsqueeze", row, b.integers(0))))], []

    n.output(n.slice(n.loop(n.index(size), [(FLOAT, [size, size + 4], a)], step)[0], 1, size, None))


def factors(n):
    """Cholesky by columns, whose products are of slices that grow with each turn; then two substitutions, by slices that grow and by ones from the end; 64 rows."""
    size = 64
    a = n.floats("half", size, size)
    a = n.add(n.op("MatMul", a, n.transpose(a, 1, 0)), n.constant((np.eye(size) * size).astype("f")))
    rows = n.constant(np.arange(size))
    cut = lambda b, x, start, end, axis: b.op("Slice", x, start, end, b.integers(axis))

    def step(b, i, low):
        at, then = one(b, i), one(b, b.op("Add", i, b.index(1)))
        left = cut(b, low, b.integers(0), at, 1)
        own = cut(b, left, at, then, 0)
        column = b.op("Sub", cut(b, a, at, then, 1), b.op("MatMul", left, b.transpose(own, 1, 0)))
        column = b.op("Div", column, b.op("Sqrt", b.op("Gather", column, at, axis=0)))
        column = b.op("Where", b.op("Unsqueeze", b.op("GreaterOrEqual", rows, i), b.integers(1)), column, b.number(0))
        return [b.op("ScatterElements", low, b.op("Expand", b.op("Reshape", i, b.integers(1, 1)), b.integers(size, 1)), column, axis=1)], []

    low = n.loop(n.index(size), [(FLOAT, [size, size], n.constant(np.zeros((size, size), "f")))], step)[0]
    right = n.floats("right", size)

    def forward(b, i, x):
        at = one(b, i)
        row = b.op("Gather", low, i, axis=0)
        known = b.op("ReduceSum", b.mul(cut(b, row, b.integers(0), at, 0), cut(b, x, b.integers(0), at, 0)), keepdims=1)
        value = b.op("Div", b.op("Sub", b.op("Gather", right, at), known), b.op("Gather", row, at))
        return [b.op("ScatterElements", x, at, value, axis=0)], []

    y = n.loop(n.index(size), [(FLOAT, [size], n.constant(np.zeros(size, "f")))], forward)[0]

    def backward(b, i, x):
        at = b.op("Sub", b.integers(size - 1), one(b, i))
        then = b.op("Add", at, b.integers(1))
        column = b.op("Squeeze", b.op("Gather", low, at, axis=1), b.integers(1))
        known = b.op("ReduceSum", b.mul(cut(b, column, then, b.integers(END), 0), cut(b, x, then, b.integers(END), 0)), keepdims=1)
        value = b.op("Div", b.op("Sub", b.op("Gather", y, at), known), b.op("Gather", column, at))
        return [b.op("ScatterElements", x, at, value, axis=0)], []

    n.output(low), n.output(n.loop(n.index(size), [(FLOAT, [size], n.constant(np.zeros(size, "f")))], backward)[0])


def regions(n):
    """Labels of regions: each pixel takes the largest number around it (MaxPool) where the mask is, until nothing changes; sizes by ScatterElements; holes are filled from the edge by the same."""
    image = n.input("mask", (n.random.random((2, 1, 40, 40)) < 0.6).astype("f"), ["images", 1, 40, 40])
    numbers = n.constant(np.arange(1, 1601, dtype="f").reshape(1, 1, 40, 40))

    def spread(b, i, labels):
        new = b.mul(b.op("MaxPool", labels, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1]), image)
        return [new], [], any_of(b, b.op("Not", b.op("Equal", new, labels)))

    labels = n.loop(n.index(END), [(FLOAT, [None, 1, 40, 40], n.mul(numbers, image))], spread)[0]
    n.output(labels)
    flat = n.op("Cast", n.reshape(labels, 0, -1), to=INT64)
    empty = n.op("ConstantOfShape", n.op("Concat", one(n, n.extent(image, 0)), n.integers(1601), axis=0), value=helper.make_tensor("", FLOAT, [1], [0.0]))
    n.output(n.op("ScatterElements", empty, flat, n.op("Expand", n.number(1), n.op("Shape", flat)), axis=1, reduction="add"))
    edge = np.zeros((1, 1, 40, 40), "f")
    edge[:, :, [0, -1]] = edge[:, :, :, [0, -1]] = 1
    outside = n.op("Sub", n.number(1), image)

    def flood(b, i, wet):
        cross = b.op("Max", b.op("MaxPool", wet, kernel_shape=[3, 1], pads=[1, 0, 1, 0], strides=[1, 1]), b.op("MaxPool", wet, kernel_shape=[1, 3], pads=[0, 1, 0, 1], strides=[1, 1]))
        new = b.mul(cross, outside)
        return [new], [], b.op("Greater", b.op("ReduceSum", b.op("Sub", new, wet), keepdims=0), b.number(0))

    n.output(n.op("Sub", n.number(1), n.loop(n.index(END), [(FLOAT, [None, 1, 40, 40], n.mul(n.constant(edge), outside))], flood)[0]))


def soft_suppression(n):
    """Boxes whose scores fall where a better one overlaps, by a bell; a loop of at most 50 that takes the best and ends when none is good enough; what is taken is written by ScatterND."""
    boxes = n.random.random((200, 4)).astype("f") * 60
    boxes[:, 2:] += boxes[:, :2] + 10
    boxes, scores = n.input("boxes", boxes, ["boxes", 4]), n.op("Sigmoid", n.floats("scores", 200, dims=["boxes"]))
    area = lambda b, x: b.op("ReduceProd", b.op("Sub", b.slice(x, 1, 2, 4), b.slice(x, 1, 0, 2)), axes=[1], keepdims=0)
    areas = area(n, boxes)

    def step(b, i, scores, taken, values):
        best, at = b.op("TopK", scores, b.integers(1), outs=2)
        box = b.op("Gather", boxes, at, axis=0)
        low, high = b.op("Max", b.slice(boxes, 1, 0, 2), b.slice(box, 1, 0, 2)), b.op("Min", b.slice(boxes, 1, 2, 4), b.slice(box, 1, 2, 4))
        common = b.op("ReduceProd", b.op("Max", b.op("Sub", high, low), b.number(0)), axes=[1], keepdims=0)
        ratio = b.op("Div", common, b.op("Sub", b.add(areas, area(b, box)), common))
        scores = b.mul(scores, b.op("Exp", b.op("Neg", b.op("Div", b.mul(ratio, ratio), b.number(0.5)))))
        scores = b.op("ScatterElements", scores, at, b.constant(np.zeros(1, "f")), axis=0)
        place = b.op("Reshape", i, b.integers(1, 1))
        return [scores, b.op("ScatterND", taken, place, at), b.op("ScatterND", values, place, best)], [], b.op("Greater", b.op("ReduceMax", scores, keepdims=0), b.number(0.4))

    made = n.loop(n.index(50), [(FLOAT, [None], scores), (INT64, [50], n.constant(np.full(50, -1))), (FLOAT, [50], n.constant(np.zeros(50, "f")))], step)
    n.output(made[1], kind=INT64), n.output(made[2])


def odd_even_sort(n):
    """Rows sorted by neighbours that change places, even and odd ones in turn by Where on the counter; then a bitonic network whose partners Gather finds at places by shifts of bits."""
    x = n.floats("rows", 16, 64, dims=["rows", 64])
    places = n.constant(np.arange(64))

    def step(b, i, x):
        odd = b.op("Mod", i, b.index(2))
        first = b.op("Equal", b.op("Mod", b.op("Add", places, odd), b.index(2)), b.index(0))
        other = b.op("Clip", b.op("Where", first, b.op("Add", places, b.index(1)), b.op("Sub", places, b.index(1))), b.index(0), b.index(63))
        beside = b.op("Gather", x, other, axis=1)
        return [b.op("Where", first, b.op("Min", x, beside), b.op("Max", x, beside))], []

    n.output(n.loop(n.index(64), [(FLOAT, [None, 64], x)], step)[0])
    pairs = n.constant(np.array([(k, j) for k in (2, 4, 8, 16, 32, 64) for j in (32, 16, 8, 4, 2, 1) if j < k]))

    def network(b, i, x):
        k, j = b.op("Split", b.op("Gather", pairs, i, axis=0), b.integers(1, 1), outs=2, axis=0)
        bit = lambda of: b.op("Mod", b.op("Div", places, of), b.index(2))
        other = b.op("Add", places, b.mul(j, b.op("Sub", b.index(1), b.mul(bit(j), b.index(2)))))
        beside = b.op("Gather", x, other, axis=1)
        small = b.op("Equal", bit(j), bit(k))
        return [b.op("Where", small, b.op("Min", x, beside), b.op("Max", x, beside))], []

    n.output(n.loop(n.index(21), [(FLOAT, [None, 64], x)], network)[0])


def powers(n):
    """A matrix to a power by squares, where bits of the exponent choose in an If; an exponential by halves and squares; a logarithm of a determinant by differences; batches of three."""
    x = n.mul(n.floats("matrices", 3, 24, 24), n.number(0.1))
    exponent = n.input("exponent", np.array(13), [])

    def step(b, i, left, base, result):
        odd = b.op("Equal", b.op("Mod", left, b.index(2)), b.index(1))
        result = b.branch(odd, lambda t: t.op("MatMul", result, base), lambda t: t.op("Identity", result))
        left = b.op("Div", left, b.index(2))
        return [left, b.op("MatMul", base, base), result], [], b.op("Greater", left, b.index(0))

    shape = [3, 24, 24]
    unit = n.constant(np.broadcast_to(np.eye(24, dtype="f"), (3, 24, 24)))
    n.output(n.loop(n.index(END), [(INT64, [], exponent), (FLOAT, shape, x), (FLOAT, shape, unit)], step)[2])

    def term(b, i, sum_, term):
        term = b.op("Div", b.op("MatMul", term, b.mul(x, b.number(0.25))), b.op("Cast", b.op("Add", i, b.index(1)), to=FLOAT))
        return [b.add(sum_, term), term], []

    exponential = n.loop(n.index(10), [(FLOAT, shape, unit), (FLOAT, shape, unit)], term)[0]
    n.output(n.loop(n.index(2), [(FLOAT, shape, exponential)], lambda b, i, y: ([b.op("MatMul", y, y)], []))[0])
    n.output(n.op("Log", n.op("Det", n.add(n.mul(x, x), unit))))


def escape(n):
    """Mandelbrot's set: a while loop over a plane, in which points that left stay as they are, and their turns are counted; it ends when all have left, or after 60."""
    y, x = np.meshgrid(np.linspace(-1.2, 1.2, 96), np.linspace(-2, 0.6, 128), indexing="ij")
    zoom = n.input("zoom", np.array(0.9, "f"), [])
    a, c = n.mul(n.constant(x.astype("f")), zoom), n.mul(n.constant(y.astype("f")), zoom)
    zero = n.constant(np.zeros((96, 128), "f"))

    def step(b, i, re, im, turns):
        square, other = b.mul(re, re), b.mul(im, im)
        inside = b.op("LessOrEqual", b.add(square, other), b.number(4))
        re, im = (b.op("Where", inside, new, old) for new, old in ((b.add(b.op("Sub", square, other), a), re), (b.add(b.mul(b.mul(re, im), b.number(2)), c), im)))
        return [re, im, b.add(turns, b.op("Cast", inside, to=FLOAT))], [], any_of(b, inside)

    n.output(n.loop(n.index(24), [(FLOAT, [96, 128], zero)] * 3, step)[2])


def changing_places(n):
    """Two populations, of which a condition chooses who is first: an If in a loop that hands on both in either order; beside it the best so far, and a pair that turns round in every third turn."""
    a, b_ = n.floats("a", 64, 64), n.floats("b", 64, 64)
    w = n.weight(64, 64)

    def step(b, i, first, second, best, score):
        made = b.op("Tanh", b.op("MatMul", first, w))
        value = b.op("ReduceMean", made, keepdims=0)
        first, second = b.branch(b.op("Greater", value, b.number(0)), lambda t: [t.op("Identity", second), t.op("Identity", made)], lambda t: [t.op("Identity", made), t.op("Identity", second)], 2)
        better = b.op("Greater", value, score)
        best = b.branch(better, lambda t: t.op("Identity", made), lambda t: t.op("Identity", best))
        score = b.op("Max", value, score)
        third = b.op("Equal", b.op("Mod", i, b.index(3)), b.index(2))
        first, second = b.branch(third, lambda t: [t.op("Identity", second), t.op("Identity", first)], lambda t: [t.op("Identity", first), t.op("Identity", second)], 2)
        return [first, second, best, score], []

    shape = [64, 64]
    made = n.loop(n.index(30), [(FLOAT, shape, a), (FLOAT, shape, b_), (FLOAT, shape, a), (FLOAT, [], n.number(-10))], step)
    for k in range(4):
        n.output(made[k])


def doubling(n):
    """Sums of all before by doubled shifts (Pad and Slice by numbers that change in a loop), a Fourier transform by butterflies in a loop of Reshapes, primes by a sieve of ScatterElements."""
    x = n.floats("series", 8, 256, dims=["series", 256])

    def shift(b, i, x, by):
        padded = b.op("Pad", x, b.op("Concat", b.integers(0), by, b.integers(0, 0), axis=0), b.number(0))
        return [b.add(x, b.op("Slice", padded, b.integers(0), b.integers(256), b.integers(1))), b.op("Mul", by, b.integers(2))], []

    n.output(n.loop(n.index(8), [(FLOAT, [None, None], x), (INT64, [1], n.integers(1))], shift)[0])
    order = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)])

    def butterfly(b, i, re, im, half):
        angle = b.op("Div", b.mul(b.op("Cast", b.op("Range", b.index(0), half, b.index(1)), to=FLOAT), b.number(-np.pi)), b.op("Cast", half, to=FLOAT))
        cosine, sine = b.op("Cos", angle), b.op("Sin", angle)
        shape = b.op("Concat", b.integers(0, -1, 2), one(b, half), axis=0)
        (r0, r1), (i0, i1) = ((b.op("Squeeze", part, b.integers(2)) for part in b.op("Split", b.op("Reshape", v, shape), b.integers(1, 1), outs=2, axis=2)) for v in (re, im))
        r, j = b.op("Sub", b.mul(r1, cosine), b.mul(i1, sine)), b.add(b.mul(r1, sine), b.mul(i1, cosine))
        join = lambda p, q: b.reshape(b.op("Concat", b.op("Unsqueeze", p, b.integers(2)), b.op("Unsqueeze", q, b.integers(2)), axis=2), 0, 256)
        return [join(b.add(r0, r), b.op("Sub", r0, r)), join(b.add(i0, j), b.op("Sub", i0, j)), b.op("Mul", half, b.index(2))], []

    start = n.op("Gather", x, n.constant(order), axis=1)
    made = n.loop(n.index(8), [(FLOAT, [None, 256], start), (FLOAT, [None, 256], n.mul(start, n.number(0))), (INT64, [], n.index(1))], butterfly)
    n.output(made[0]), n.output(made[1])

    def sieve(b, i, prime):
        number = b.op("Add", i, b.index(2))
        many = b.op("Range", b.mul(number, b.index(2)), b.index(400), number)
        return [b.op("ScatterElements", prime, many, b.op("Expand", b.index(0), b.op("Shape", many)), axis=0)], []

    n.output(n.loop(n.index(19), [(INT64, [400], n.constant(np.array([0, 0] + [1] * 398)))], sieve)[0], kind=INT64)


def sequences(n):
    """Sequences that a loop carries: rows of different lengths taken apart by SplitToSequence, each summed up by a loop, inserted at the front, joined along a new axis; a list that grows and shrinks."""
    x = n.floats("rows", 20, 8, dims=["rows", 8])
    lengths = n.input("lengths", np.array([3, 5, 1, 7, 4]), ["parts"])
    parts = n.op("SplitToSequence", x, lengths, axis=0)
    body = n.inner("body")
    at, go, held = (body.prefix + name for name in ("i", "go", "held"))
    part = body.op("SequenceAt", parts, at)
    row = body.reduce("ReduceSum", body.op("Softmax", part, axis=0), [0], 0)
    weight = body.op("Div", row, body.op("Cast", body.extent(part, 0), to=FLOAT))
    new, same = body.op("SequenceInsert", held, weight, body.index(0)), body.op("Identity", go)
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    graph = helper.make_graph(body.nodes, "body", [helper.make_tensor_value_info(at, INT64, []), helper.make_tensor_value_info(go, BOOL, []), helper.make_value_info(held, sequence)],
                              [helper.make_tensor_value_info(same, BOOL, []), helper.make_value_info(new, sequence)], body.constants)
    made = n.op("Loop", n.op("SequenceLength", parts), n.constant(np.array(True)), n.op("SequenceEmpty", dtype=FLOAT), body=graph)
    n.output(n.op("ConcatFromSequence", made, axis=0, new_axis=1))
    rest = n.op("SequenceErase", made, n.index(-2))
    n.output(n.op("ConcatFromSequence", rest, axis=0, new_axis=0)), n.output(n.op("SequenceAt", rest, n.index(-1)))
    n.output(n.op("SequenceLength", rest), kind=INT64)


def growing_rows(n):
    """A batch of four that grows along an inner axis: rows appended with heads before them, a mask as long as they are, means over all so far, a list of what was chosen; batch and start symbolic."""
    width, heads, size = 64, 4, 16
    x = n.floats("rows", 4, 6, width, dims=["batch", "start", width])
    wq, wk, wv, wo = (n.weight(width, width) for _ in range(4))
    split = lambda b, y: b.transpose(b.reshape(y, 0, -1, heads, size), 0, 2, 1, 3)
    keys, values = split(n, n.op("MatMul", x, wk)), split(n, n.op("MatMul", x, wv))
    last = n.slice(x, 1, -1, None)

    def step(b, i, last, keys, values, lengths):
        keys, values = b.op("Concat", keys, split(b, b.op("MatMul", last, wk)), axis=2), b.op("Concat", values, split(b, b.op("MatMul", last, wv)), axis=2)
        scores = b.mul(b.op("MatMul", split(b, b.op("MatMul", last, wq)), b.transpose(keys, 0, 1, 3, 2)), b.number(size ** -0.5))
        count = b.extent(keys, 2)
        back = b.op("Cast", b.op("Sub", b.op("Sub", count, b.index(1)), b.op("Range", b.index(0), count, b.index(1))), to=FLOAT)
        scores = b.op("Sub", scores, b.mul(back, b.number(0.1)))
        y = b.reshape(b.transpose(b.op("MatMul", b.softmax(scores), values), 0, 2, 1, 3), 0, -1, width)
        last = b.op("Tanh", b.add(last, b.op("MatMul", y, wo)))
        return [last, keys, values, b.op("Concat", lengths, one(b, count), axis=0)], [b.op("Squeeze", last, b.integers(1))]

    states = [(FLOAT, [None, 1, width], last), (FLOAT, [None, heads, None, size], keys), (FLOAT, [None, heads, None, size], values), (INT64, [None], n.constant(np.zeros(0, np.int64)))]
    made = n.loop(n.index(24), states, step)
    n.output(n.transpose(made[4], 1, 0, 2)), n.output(made[1]), n.output(made[3], kind=INT64)


MODELS = {f.__name__: (f, opset) for f, opset in [
    (shortest_paths, 17), (elimination, 17), (factors, 17), (regions, 17), (soft_suppression, 17), (odd_even_sort, 17), (powers, 17), (escape, 17), (changing_places, 17), (doubling, 17),
    (sequences, 17), (growing_rows, 17)]}
