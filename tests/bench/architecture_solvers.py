# SPDX-License-Identifier: Apache-2.0
"""Solvers and simulations, with Loop and Scan in the graph: heat and waves on grids, cells that live and die, ranks of pages, means of clusters, linear and least-squares
systems, particles, routes of capsules, values of a maze, bodies that attract each other, weights learned by gradients, phases of sound, filters. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
END = np.iinfo(np.int64).max


def true(n):
    return n.constant(np.array(True))


def round_pad(n, x, by=1):
    """Edges that meet: both last axes, as F.pad with mode circular is exported."""
    for axis in (2, 3):
        x = n.op("Concat", n.slice(x, axis, -by, END), x, n.slice(x, axis, 0, by), axis=axis)
    return x


def heat_equation(n):
    """Diffusion on 128 x 128 with sources: each turn a fixed kernel on edges that are repeated, conductivity of each cell, walls kept; every tenth state is wanted, so two loops."""
    u = n.floats("heat", 1, 1, 128, 128)
    conductivity = n.op("Sigmoid", n.floats("conductivity", 1, 1, 128, 128))
    walls = n.constant(n.random.random((1, 1, 128, 128)) < 0.05)
    source = n.bias(1, 1, 128, 128)
    kernel = n.constant(np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], "f")[None, None])

    def step(b, i, u):
        change = b.op("Conv", b.op("Pad", u, b.integers(0, 0, 1, 1, 0, 0, 1, 1), mode="edge"), kernel, kernel_shape=[3, 3])
        return [b.op("Where", walls, u, b.add(u, b.mul(b.add(b.mul(conductivity, change), source), b.number(0.1))))], []

    def often(b, i, u):
        u = b.loop(b.index(10), [(FLOAT, [1, 1, 128, 128], u)], step)[0]
        return [u], [u]

    made = n.loop(n.index(6), [(FLOAT, [1, 1, 128, 128], u)], often)
    n.output(made[0]), n.output(made[1])


def wave_equation(n):
    """Two fields of time that follow each other, edges that meet, damping near them, and a receiver's trace; 96 turns."""
    before, now = n.floats("before", 1, 1, 96, 96), n.floats("now", 1, 1, 96, 96)
    damping, speed = n.scale(1, 1, 96, 96), n.constant((0.1 + 0.1 * n.random.random((1, 1, 96, 96))).astype("f"))
    kernel = n.constant((np.array([[0.25, 0.5, 0.25], [0.5, -3, 0.5], [0.25, 0.5, 0.25]], "f"))[None, None])
    pulse = n.floats("pulse", 96)

    def step(b, i, before, now):
        bent = b.op("Conv", round_pad(b, now), kernel, kernel_shape=[3, 3])
        new = b.add(b.op("Sub", b.mul(now, b.number(2)), before), b.mul(speed, bent))
        drive = b.op("Pad", b.op("Reshape", b.op("Gather", pulse, i), b.integers(1, 1, 1, 1)), b.integers(0, 0, 48, 48, 0, 0, 47, 47), b.number(0))
        new = b.mul(b.add(new, drive), b.op("Clip", damping, b.number(0.9), b.number(0.99)))
        seen = b.op("Squeeze", b.op("Slice", new, b.integers(20, 0), b.integers(21, 96), b.integers(2, 3)), b.integers(0, 1, 2))
        return [now, new], [seen]

    shape = [1, 1, 96, 96]
    made = n.loop(n.index(96), [(FLOAT, shape, before), (FLOAT, shape, now)], step)
    n.output(made[1]), n.output(made[2])


def game_of_life(n):
    """Bytes in, bytes out: neighbours counted by a convolution whose edges meet, rules by And, Or and Equal; ends when nothing changes or after 64 turns."""
    cells = n.input("cells", (n.random.random((2, 1, 64, 64)) < 0.3).astype(np.uint8), ["boards", 1, 64, 64])

    def step(b, i, alive):
        count = b.op("Conv", round_pad(b, b.op("Cast", alive, to=FLOAT)), b.constant(np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], "f")[None, None]), kernel_shape=[3, 3])
        three, two = b.op("Equal", count, b.number(3)), b.op("Equal", count, b.number(2))
        new = b.op("Or", three, b.op("And", alive, two))
        changed = b.op("ReduceMax", b.op("Cast", b.op("Xor", new, alive), to=TensorProto.INT32), keepdims=0)
        return [new], [b.op("ReduceSum", b.op("Cast", new, to=FLOAT), keepdims=0)], b.op("Cast", changed, to=BOOL)

    made = n.loop(n.index(64), [(BOOL, [None, 1, 64, 64], n.op("Cast", cells, to=BOOL))], step)
    n.output(n.op("Cast", made[0], to=TensorProto.UINT8), kind=TensorProto.UINT8), n.output(made[1])


def cellular_network(n):
    """A neural automaton: sixteen channels, fixed filters of each, two layers of one, a mask of those that live by MaxPool, 48 turns; the grid is symbolic."""
    x = n.floats("cells", 1, 16, 40, 40, dims=[1, 16, "height", "width"])
    filters = np.stack([f for _ in range(16) for f in (np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]]), np.outer([1, 2, 1], [-1, 0, 1]) / 8, np.outer([-1, 0, 1], [1, 2, 1]) / 8)])[:, None].astype("f")
    filters = n.constant(filters)
    first, first_bias, last = n.weight(96, 48, 1, 1), n.bias(96), n.constant((n.random.standard_normal((16, 96, 1, 1)) * 0.02).astype("f"))

    def alive(b, x):
        return b.op("Greater", b.op("MaxPool", b.op("Slice", x, b.integers(3), b.integers(4), b.integers(1)), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]), b.number(0.1))

    def step(b, i, x):
        was = alive(b, x)
        y = b.op("Conv", x, filters, group=16, kernel_shape=[3, 3], pads=[1] * 4)
        y = b.op("Conv", b.relu(b.op("Conv", y, first, first_bias, kernel_shape=[1, 1])), last, kernel_shape=[1, 1])
        x = b.add(x, y)
        return [b.mul(x, b.op("Cast", b.op("And", was, alive(b, x)), to=FLOAT))], []

    n.output(n.op("Clip", n.slice(n.loop(n.index(48), [(FLOAT, [1, 16, None, None], x)], step)[0], 1, 0, 4), n.number(0), n.number(1)))


def page_rank(n):
    """Ranks by edges: gathered, divided by how many leave, added up by ScatterElements, until the change is small (ReduceL1) or 100 turns are over; beside it a power iteration on the dense matrix."""
    nodes, edges = 500, 4000
    source = n.input("source", n.random.integers(0, nodes, edges), ["edges"])
    target = n.input("target", n.random.integers(0, nodes, edges), ["edges"])
    ones = n.op("Expand", n.number(1), n.op("Shape", source))
    empty = n.constant(np.zeros(nodes, "f"))
    leaving = n.op("ScatterElements", empty, source, ones, axis=0, reduction="add")
    share = n.op("Where", n.op("Greater", leaving, n.number(0)), n.op("Reciprocal", n.op("Max", leaving, n.number(1))), n.number(0))
    lost = n.op("Cast", n.op("Equal", leaving, n.number(0)), to=FLOAT)

    def step(b, i, rank):
        sent = b.op("Gather", b.mul(rank, share), source)
        got = b.op("ScatterElements", empty, target, sent, axis=0, reduction="add")
        spare = b.op("Div", b.op("ReduceSum", b.mul(rank, lost), keepdims=0), b.number(nodes))
        new = b.add(b.mul(b.add(got, spare), b.number(0.85)), b.number(0.15 / nodes))
        far = b.op("ReduceSum", b.op("Abs", b.op("Sub", new, rank)), keepdims=0)
        return [new], [], b.op("Greater", far, b.number(1e-5))

    n.output(n.loop(n.index(100), [(FLOAT, [nodes], n.constant(np.full(nodes, 1 / nodes, "f")))], step)[0])
    matrix = n.random.random((200, 200)).astype("f")
    matrix = n.constant((matrix + matrix.T) / 200)

    def turn(b, i, v, value):
        w = b.op("MatMul", matrix, v)
        length = b.op("ReduceL2", w, keepdims=0)
        return [b.op("Div", w, length), length], []

    made = n.loop(n.index(30), [(FLOAT, [200, 1], n.floats("start", 200, 1)), (FLOAT, [], n.number(0))], turn)
    n.output(made[0]), n.output(made[1])


def cluster_means(n):
    """Lloyd's: distances by a product, ArgMin, sums of each cluster by OneHot and a product, empty ones kept; until no mean moves, at most 25 turns; 2,000 points of 16 numbers."""
    points = n.floats("points", 2000, 16, dims=["points", 16])
    squares = n.reduce("ReduceSum", n.mul(points, points), [1])

    def near(b, means):
        cross = b.op("MatMul", points, b.transpose(means, 1, 0))
        far = b.add(b.op("Sub", squares, b.mul(cross, b.number(2))), b.op("Unsqueeze", b.reduce("ReduceSum", b.mul(means, means), [1], 0), b.integers(0)))
        return b.op("ArgMin", far, axis=1, keepdims=0), far

    def step(b, i, means):
        chosen, _ = near(b, means)
        hot = b.op("OneHot", chosen, b.integers(12), b.constant(np.array([0, 1], "f")), axis=-1)
        count = b.op("Unsqueeze", b.op("ReduceSum", hot, b.integers(0), keepdims=0), b.integers(1))
        new = b.op("Div", b.op("MatMul", b.transpose(hot, 1, 0), points), b.op("Max", count, b.number(1)))
        new = b.op("Where", b.op("Greater", count, b.number(0)), new, means)
        moved = b.op("ReduceMax", b.op("Abs", b.op("Sub", new, means)), keepdims=0)
        return [new], [], b.op("Greater", moved, b.number(1e-4))

    means = n.loop(n.index(25), [(FLOAT, [12, 16], n.slice(points, 0, 0, 12))], step)[0]
    chosen, far = near(n, means)
    n.output(means), n.output(chosen, kind=7), n.output(n.op("ReduceSum", n.op("ReduceMin", far, axes=[1], keepdims=0), keepdims=0))


def conjugate_gradients(n):
    """A system of 256 unknowns, three vectors carried and two numbers, until the residual is small; then twenty steps of Gauss and Newton's with damping on four parameters of a curve, whose
    normal equations are solved by Cholesky's method written out."""
    size = 256
    a = n.random.standard_normal((size, size)).astype("f")
    matrix = n.constant((a @ a.T / size + 2 * np.eye(size)).astype("f"))
    right = n.floats("right", size, 1)

    def step(b, i, x, r, p, rr):
        ap = b.op("MatMul", matrix, p)
        alpha = b.op("Div", rr, b.op("ReduceSum", b.mul(p, ap), keepdims=0))
        x, r = b.add(x, b.mul(alpha, p)), b.op("Sub", r, b.mul(alpha, ap))
        new = b.op("ReduceSum", b.mul(r, r), keepdims=0)
        p = b.add(r, b.mul(b.op("Div", new, rr), p))
        return [x, r, p, new], [], b.op("Greater", new, b.number(1e-8))

    shape = [size, 1]
    zero = n.constant(np.zeros((size, 1), "f"))
    made = n.loop(n.index(size), [(FLOAT, shape, zero), (FLOAT, shape, right), (FLOAT, shape, right), (FLOAT, [], n.op("ReduceSum", n.mul(right, right), keepdims=0))], step)
    n.output(made[0])
    at = np.linspace(0, 2, 64, dtype="f")[:, None]
    times, seen = n.constant(at), n.constant((2 * np.exp(-1.3 * at) + 0.5 * at + 0.2).astype("f"))

    def newton(b, i, q, damping):
        amplitude, decay, slope, offset = (b.op("Gather", q, b.index(k), axis=0) for k in range(4))
        bell = b.op("Exp", b.op("Neg", b.mul(decay, times)))
        left = b.op("Sub", b.add(b.mul(amplitude, bell), b.mul(slope, times), offset), seen)
        jacobian = b.op("Concat", bell, b.op("Neg", b.mul(amplitude, times, bell)), times, b.op("Expand", b.number(1), b.op("Shape", times)), axis=1)
        turned = b.transpose(jacobian, 1, 0)
        normal = b.add(b.op("MatMul", turned, jacobian), b.mul(damping, b.op("EyeLike", b.op("ConstantOfShape", b.integers(4, 4)), dtype=1)))
        pick = lambda r, c: b.op("Gather", b.op("Gather", normal, b.index(r), axis=0), b.index(c), axis=0)
        low, y, z = {}, [], [None] * 4
        for r in range(4):
            for c in range(r + 1):
                rest = pick(r, c)
                for k in range(c):
                    rest = b.op("Sub", rest, b.mul(low[r, k], low[c, k]))
                low[r, c] = b.op("Sqrt", rest) if r == c else b.op("Div", rest, low[c, c])
        g = b.op("MatMul", turned, left)
        for r in range(4):
            rest = b.op("Gather", b.op("Squeeze", g, b.integers(1)), b.index(r), axis=0)
            for k in range(r):
                rest = b.op("Sub", rest, b.mul(low[r, k], y[k]))
            y.append(b.op("Div", rest, low[r, r]))
        for r in reversed(range(4)):
            rest = y[r]
            for k in range(r + 1, 4):
                rest = b.op("Sub", rest, b.mul(low[k, r], z[k]))
            z[r] = b.op("Div", rest, low[r, r])
        moved = b.op("Concat", *[b.op("Unsqueeze", v, b.integers(0)) for v in z], axis=0)
        return [b.op("Sub", q, moved), b.mul(damping, b.number(0.5))], [b.op("ReduceSumSquare", left, keepdims=0)]

    made = n.loop(n.index(20), [(FLOAT, [4], n.constant(np.array([1, 1, 0, 0], "f"))), (FLOAT, [], n.number(0.1))], newton)
    n.output(made[0])


def particle_filter(n):
    """250 particles over 40 measurements: moved, weighed, drawn again where sums of weights pass evenly spaced marks (comparisons, a sum, Gather); an If draws only where few particles count."""
    count, steps = 250, 40
    seen = n.floats("seen", steps, 2, dims=["steps", 2])
    noise = n.floats("noise", steps, count, 4, dims=["steps", count, 4])
    motion = n.constant(np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0.1, 0, 0.9, 0], [0, 0.1, 0, 0.9]], "f"))
    marks = n.constant(((np.arange(count) + 0.5) / count).astype("f"))
    even = n.constant(np.full(count, 1 / count, "f"))

    def step(b, particles, weights, at, shaken):
        particles = b.add(b.op("MatMul", particles, motion), b.mul(shaken, b.number(0.05)))
        far = b.reduce("ReduceSum", b.op("Pow", b.op("Sub", b.slice(particles, 1, 0, 2), at), b.number(2)), [1], 0)
        weights = b.mul(weights, b.op("Exp", b.mul(far, b.number(-0.5))))
        weights = b.op("Div", weights, b.op("ReduceSum", weights, keepdims=0))
        mean = b.op("ReduceSum", b.mul(particles, b.op("Unsqueeze", weights, b.integers(1))), b.integers(0), keepdims=0)
        few = b.op("Less", b.op("Reciprocal", b.op("ReduceSumSquare", weights, keepdims=0)), b.number(count / 2))

        def drawn(t):
            sums = t.op("CumSum", weights, t.index(0))
            below = t.op("Less", t.op("Unsqueeze", sums, t.integers(0)), t.op("Unsqueeze", marks, t.integers(1)))
            place = t.op("Min", t.op("ReduceSum", t.op("Cast", below, to=INT64), t.integers(1), keepdims=0), t.index(count - 1))
            return [t.op("Gather", particles, place, axis=0), t.op("Identity", even)]

        particles, weights = b.branch(few, drawn, lambda t: [t.op("Identity", particles), t.op("Identity", weights)], 2)
        return [particles, weights], [mean]

    made = n.scan([(FLOAT, [count, 4], n.floats("particles", count, 4)), (FLOAT, [count], even)], [(FLOAT, [2], seen), (FLOAT, [count, 4], noise)], step)
    n.output(made[2])


def capsules(n):
    """Convolutions to capsules of eight, squashed; predictions by products of each, three turns of routing in a Loop; lengths, and a decoder of the longest."""
    x = n.relu(n.conv(n.floats("image", 4, 1, 28, 28, dims=["batch", 1, 28, 28]), 1, 64, 9, 1, 0))
    x = n.reshape(n.conv(x, 64, 64, 9, 2, 0), 0, 8, 288)

    def squash(b, v, axis):
        square = b.reduce("ReduceSum", b.mul(v, v), [axis])
        return b.op("Div", b.mul(v, square), b.mul(b.add(square, b.number(1)), b.op("Sqrt", b.add(square, b.number(1e-8)))))

    u = squash(n, n.transpose(x, 0, 2, 1), -1)
    u = n.op("Unsqueeze", n.op("Unsqueeze", u, n.integers(1)), n.integers(-1))
    hat = n.op("Squeeze", n.op("MatMul", n.weight(1, 10, 288, 16, 8, fan=8), u), n.integers(-1))
    logits = n.op("ConstantOfShape", n.op("Concat", n.op("Unsqueeze", n.extent(hat, 0), n.integers(0)), n.integers(10, 288, 1), axis=0), value=helper.make_tensor("", FLOAT, [1], [0.0]))

    def step(b, i, logits, v):
        c = b.softmax(logits, 1)
        v = squash(b, b.reduce("ReduceSum", b.mul(c, hat), [2]), -1)
        return [b.add(logits, b.reduce("ReduceSum", b.mul(hat, v), [-1])), v], []

    first = n.mul(n.reduce("ReduceSum", hat, [2]), n.number(0))
    v = n.op("Squeeze", n.loop(n.index(3), [(FLOAT, [None, 10, 288, 1], logits), (FLOAT, [None, 10, 1, 16], first)], step)[1], n.integers(2))
    length = n.op("Sqrt", n.reduce("ReduceSum", n.mul(v, v), [-1], 0))
    hot = n.op("OneHot", n.op("ArgMax", length, axis=1, keepdims=0), n.integers(10), n.constant(np.array([0, 1], "f")), axis=-1)
    y = n.reshape(n.mul(v, n.op("Unsqueeze", hot, n.integers(2))), -1, 160)
    n.output(length), n.output(n.op("Sigmoid", n.gemm(n.relu(n.gemm(n.relu(n.gemm(y, 160, 256)), 256, 512)), 512, 784)))


def value_iteration(n):
    """A planner in a network: rewards of a maze by convolutions, 40 turns of values by a convolution and a maximum over actions, the values at a place by GatherND."""
    maze = n.floats("maze", 8, 2, 24, 24, dims=["batch", 2, 24, 24])
    place = n.input("place", n.random.integers(0, 24, (8, 2)), ["batch", 2])
    reward = n.conv(n.conv(maze, 2, 96, 3), 96, 1, bias=False)
    of_reward, of_value = n.weight(10, 1, 3, 3), n.weight(10, 1, 3, 3)

    def actions(b, value):
        return b.op("Conv", b.op("Concat", reward, value, axis=1), b.op("Concat", of_reward, of_value, axis=1), kernel_shape=[3, 3], pads=[1] * 4)

    first = n.op("ReduceMax", n.op("Conv", reward, of_reward, kernel_shape=[3, 3], pads=[1] * 4), axes=[1], keepdims=1)
    value = n.loop(n.index(40), [(FLOAT, [None, 1, 24, 24], first)], lambda b, i, value: ([b.mul(b.op("ReduceMax", actions(b, value), axes=[1], keepdims=1), b.number(0.5))], []))[0]
    rows = n.op("Concat", n.op("Unsqueeze", n.op("Range", n.index(0), n.extent(maze, 0), n.index(1)), n.integers(1)), place, axis=1)
    n.output(n.softmax(n.gemm(n.op("GatherND", n.transpose(actions(n, value), 0, 2, 3, 1), rows), 10, 8))), n.output(value)


def bodies(n):
    """96 bodies that attract each other, by differences of all pairs, moved by leapfrog in a Loop; every place is kept, and the energy is known in the end."""
    count = 96
    place, speed = n.floats("places", count, 3, dims=["bodies", 3]), n.mul(n.floats("speeds", count, 3, dims=["bodies", 3]), n.number(0.1))
    mass = n.op("Abs", n.floats("masses", count, dims=["bodies"]))

    def pull(b, place):
        apart = b.op("Sub", b.op("Unsqueeze", place, b.integers(0)), b.op("Unsqueeze", place, b.integers(1)))
        square = b.add(b.reduce("ReduceSum", b.mul(apart, apart), [-1]), b.number(0.05))
        strength = b.op("Div", b.op("Unsqueeze", mass, b.integers(0, 2)), b.op("Pow", square, b.number(1.5)))
        return b.mul(b.reduce("ReduceSum", b.mul(apart, strength), [1], 0), b.number(0.01))

    def step(b, i, place, speed, force):
        speed = b.add(speed, b.mul(force, b.number(0.005)))
        place = b.add(place, b.mul(speed, b.number(0.01)))
        force = pull(b, place)
        speed = b.add(speed, b.mul(force, b.number(0.005)))
        return [place, speed, force], [place]

    shape = [None, 3]
    made = n.loop(n.index(50), [(FLOAT, shape, place), (FLOAT, shape, speed), (FLOAT, shape, pull(n, place))], step)
    n.output(made[0]), n.output(made[3]), n.output(n.op("ReduceSum", n.mul(mass, n.reduce("ReduceSumSquare", made[1], [1], 0)), keepdims=0))


def learn_inside(n):
    """What training loops become: a network of two layers learns 30 steps of Adam in a Loop, its gradients written out; then it is asked about other points."""
    rows, taken, hidden = 128, 16, 64
    x, y, asked = n.floats("points", rows, taken), n.floats("values", rows, 1), n.floats("asked", 32, taken)
    shapes = [[taken, hidden], [hidden], [hidden, 1], [1]]
    weights = [n.weight(taken, hidden), n.bias(hidden), n.weight(hidden, 1), n.bias(1)]
    zeros = [n.constant(np.zeros(shape, "f")) for shape in shapes]

    def step(b, i, *states):
        (w, v, u, c), first, second = states[:4], states[4:8], states[8:]
        h = b.op("Tanh", b.add(b.op("MatMul", x, w), v))
        error = b.op("Sub", b.add(b.op("MatMul", h, u), c), y)
        loss = b.op("ReduceMean", b.mul(error, error), keepdims=0)
        back = b.mul(error, b.number(2 / rows))
        inner = b.mul(b.op("MatMul", back, b.transpose(u, 1, 0)), b.op("Sub", b.number(1), b.mul(h, h)))
        total = lambda g: b.op("ReduceSum", g, b.integers(0), keepdims=0)
        slopes = [b.op("MatMul", b.transpose(x, 1, 0), inner), total(inner), b.op("MatMul", b.transpose(h, 1, 0), back), total(back)]
        turn = b.op("Cast", b.op("Add", i, b.index(1)), to=FLOAT)
        grown = [b.op("Sub", b.number(1), b.op("Pow", b.number(beta), turn)) for beta in (0.9, 0.999)]
        first = [b.add(b.mul(m, b.number(0.9)), b.mul(g, b.number(0.1))) for m, g in zip(first, slopes)]
        second = [b.add(b.mul(s, b.number(0.999)), b.mul(b.mul(g, g), b.number(0.001))) for s, g in zip(second, slopes)]
        new = [b.op("Sub", p, b.op("Div", b.mul(b.op("Div", m, grown[0]), b.number(0.02)), b.add(b.op("Sqrt", b.op("Div", s, grown[1])), b.number(1e-3))))
               for p, m, s in zip((w, v, u, c), first, second)]
        return [*new, *first, *second], [loss]

    made = n.loop(n.index(30), [(FLOAT, shape, start) for shape, start in zip(shapes * 3, weights + zeros + zeros)], step)
    w, v, u, c = made[:4]
    n.output(n.add(n.op("MatMul", n.op("Tanh", n.add(n.op("MatMul", asked, w), v)), u), c)), n.output(made[12])


def griffin_lim(n):
    """Sound from magnitudes: windows of 256 by DFT back and forth, overlapped by ConvTranspose with an identity, phases kept, 12 turns; frames are symbolic."""
    size, hop, frames = 256, 64, 40
    magnitude = n.op("Abs", n.floats("magnitude", 1, frames, size // 2 + 1, dims=[1, "frames", size // 2 + 1]))
    window = n.constant(np.hanning(size).astype("f"))
    overlap = n.constant(np.eye(size, dtype="f")[:, None])

    def back(b, real, imaginary):
        both = b.op("Concat", b.op("Unsqueeze", real, b.integers(-1)), b.op("Unsqueeze", imaginary, b.integers(-1)), axis=-1)
        mirrored = b.op("Slice", both, b.integers(size // 2 - 1), b.integers(0), b.integers(2), b.integers(-1))
        whole = b.op("Concat", both, b.mul(mirrored, b.constant(np.array([1, -1], "f"))), axis=2)
        parts = b.mul(b.op("Squeeze", b.op("Slice", b.op("DFT", whole, axis=2, inverse=1), b.integers(0), b.integers(1), b.integers(3)), b.integers(3)), window)
        sound = b.op("ConvTranspose", b.transpose(parts, 0, 2, 1), overlap, strides=[hop], kernel_shape=[size])
        heard = b.op("ConvTranspose", b.transpose(b.op("Expand", b.mul(window, window), b.op("Shape", parts)), 0, 2, 1), overlap, strides=[hop], kernel_shape=[size])
        return b.op("Div", sound, b.op("Max", heard, b.number(1e-2)))

    def step(b, i, cosine, sine):
        sound = back(b, b.mul(magnitude, cosine), b.mul(magnitude, sine))
        heard = b.op("STFT", b.op("Squeeze", sound, b.integers(1)), b.index(hop), window, b.index(size), onesided=1)
        real, imaginary = (b.op("Squeeze", part, b.integers(3)) for part in b.op("Split", heard, b.integers(1, 1), outs=2, axis=3))
        length = b.op("Sqrt", b.add(b.mul(real, real), b.mul(imaginary, imaginary), b.number(1e-6)))
        return [b.op("Div", real, length), b.op("Div", imaginary, length)], []

    start = n.op("Div", n.add(magnitude, n.number(0.1)), n.add(magnitude, n.number(0.1)))
    shape = [1, None, size // 2 + 1]
    made = n.loop(n.index(12), [(FLOAT, shape, start), (FLOAT, shape, n.mul(start, n.number(0)))], step)
    n.output(back(n, n.mul(magnitude, made[0]), n.mul(magnitude, made[1])))


def filter_bank(n):
    """Sound through eight bands of two biquads each: a Scan over 2,000 samples that carries four delays a band, then an envelope follower by another; both are stacked."""
    samples, bands = 2000, 8
    sound = n.floats("sound", samples, dims=["samples"])
    radius, angle = 0.6 + 0.3 * n.random.random(bands), np.linspace(0.2, 2.4, bands)
    a1, a2 = n.constant((-2 * radius * np.cos(angle)).astype("f")), n.constant((radius ** 2).astype("f"))
    b0, b1, b2 = n.constant(np.full(bands, 0.1, "f")), n.constant(np.zeros(bands, "f")), n.constant(np.full(bands, -0.1, "f"))
    zero = n.constant(np.zeros(bands, "f"))

    def step(b, p, q, r, s, x):
        def one(x, p, q):
            y = b.add(b.mul(b0, x), p)
            return y, b.add(b.op("Sub", b.mul(b1, x), b.mul(a1, y)), q), b.op("Sub", b.mul(b2, x), b.mul(a2, y))

        y, p, q = one(x, p, q)
        z, r, s = one(y, r, s)
        return [p, q, r, s], [z]

    *_, filtered = n.scan([(FLOAT, [bands], zero)] * 4, [(FLOAT, [], sound)], step)

    def follow(b, level, x):
        rises = b.op("Greater", b.op("Abs", x), level)
        rate = b.op("Where", rises, b.number(0.3), b.number(0.01))
        level = b.add(level, b.mul(rate, b.op("Sub", b.op("Abs", x), level)))
        return [level], [level]

    _, levels = n.scan([(FLOAT, [bands], zero)], [(FLOAT, [bands], filtered)], follow)
    n.output(filtered), n.output(levels)


def edit_distance(n):
    """Two words apart, letter by letter: a Loop over rows whose Scan goes along columns; then time warping of two series, by a Scan over rows and a running minimum in another."""
    first, second = n.input("first", n.random.integers(0, 6, 24), ["first"]), n.input("second", n.random.integers(0, 6, 30), ["second"])
    length = n.extent(second, 0)
    row = n.op("Cast", n.op("Range", n.index(0), n.op("Add", length, n.index(1)), n.index(1)), to=FLOAT)

    def step(b, i, row):
        same = b.op("Equal", second, b.op("Gather", first, i))
        cost = b.op("Where", same, b.number(0), b.number(1))
        swap = b.add(b.op("Slice", row, b.integers(0), b.integers(-1), b.integers(0)), cost)
        drop = b.add(b.op("Slice", row, b.integers(1), b.integers(END), b.integers(0)), b.number(1))
        best = b.op("Min", swap, drop)
        start = b.op("Cast", b.op("Add", i, b.index(1)), to=FLOAT)

        def along(c, left, best):
            new = c.op("Min", best, c.add(left, c.number(1)))
            return [new], [new]

        _, rest = b.scan([(FLOAT, [], start)], [(FLOAT, [], best)], along)
        return [b.op("Concat", b.op("Unsqueeze", start, b.integers(0)), rest, axis=0)], []

    row = n.loop(n.extent(first, 0), [(FLOAT, [None], row)], step)[0]
    n.output(n.op("Gather", row, n.index(-1)))
    one, other = n.floats("one", 40, 8, dims=["ones", 8]), n.floats("other", 50, 8, dims=["others", 8])
    apart = n.op("Sub", n.op("Unsqueeze", one, n.integers(1)), n.op("Unsqueeze", other, n.integers(0)))
    far = n.op("Sqrt", n.reduce("ReduceSum", n.mul(apart, apart), [2], 0))

    def rows(b, above, cost):
        shifted = b.op("Concat", b.constant(np.array([1e6], "f")), b.op("Slice", above, b.integers(0), b.integers(-1), b.integers(0)), axis=0)
        least = b.op("Min", above, shifted)

        def along(c, left, least, cost):
            new = c.add(c.op("Min", least, left), cost)
            return [new], [new]

        _, new = b.scan([(FLOAT, [], b.number(1e6))], [(FLOAT, [], least), (FLOAT, [], cost)], along)
        return [new], []

    start = n.op("Concat", n.constant(np.zeros(1, "f")), n.op("Expand", n.number(1e6), n.op("Sub", n.op("Shape", n.op("Gather", far, n.index(0), axis=0)), n.integers(1))), axis=0)
    n.output(n.op("Gather", n.scan([(FLOAT, [None], start)], [(FLOAT, [None], far)], rows)[0], n.index(-1)))


def sharper(n):
    """Deconvolution after Richardson and Lucy, 20 turns of two blurs and a quotient in a Loop; then total variation taken down by 30 turns of dual steps with slices and pads; any extents."""
    image = n.op("Abs", n.floats("image", 1, 1, 96, 96, dims=[1, 1, "height", "width"]))
    bell = np.outer(*[np.exp(-np.arange(-4, 5) ** 2 / 6)] * 2)
    kernel = n.constant((bell / bell.sum()).astype("f")[None, None])
    blur = lambda b, x: b.op("Conv", x, kernel, kernel_shape=[9, 9], pads=[4] * 4)

    def step(b, i, guess):
        return [b.mul(guess, blur(b, b.op("Div", image, b.add(blur(b, guess), b.number(0.05)))))], []

    sharp = n.loop(n.index(20), [(FLOAT, [1, 1, None, None], image)], step)[0]

    def forward(b, x, axis):
        ends = [0] * 8
        ends[4 + axis] = 1
        return b.op("Pad", b.op("Sub", b.slice(x, axis, 1, None), b.slice(x, axis, 0, -1)), b.integers(*ends), b.number(0))

    def backward(b, x, axis):
        starts = [0] * 8
        starts[axis] = 1
        return b.op("Sub", x, b.op("Pad", b.slice(x, axis, 0, -1), b.integers(*starts), b.number(0)))

    def dual(b, i, p, q):
        smooth = b.op("Sub", b.add(backward(b, p, 2), backward(b, q, 3)), b.mul(sharp, b.number(8)))
        u, v = forward(b, smooth, 2), forward(b, smooth, 3)
        down = b.add(b.mul(b.op("Sqrt", b.add(b.mul(u, u), b.mul(v, v))), b.number(0.2)), b.number(1))
        return [b.op("Div", b.add(p, b.mul(u, b.number(0.2))), down), b.op("Div", b.add(q, b.mul(v, b.number(0.2))), down)], []

    zero = n.mul(sharp, n.number(0))
    p, q = n.loop(n.index(30), [(FLOAT, [1, 1, None, None], zero)] * 2, dual)
    n.output(n.op("Sub", sharp, n.mul(n.add(backward(n, p, 2), backward(n, q, 3)), n.number(0.125))))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (heat_equation, 17), (wave_equation, 17), (game_of_life, 17), (cellular_network, 17), (page_rank, 16), (cluster_means, 17), (conjugate_gradients, 16), (particle_filter, 17), (capsules, 17),
    (value_iteration, 16), (bodies, 17), (learn_inside, 17), (griffin_lim, 17), (filter_bank, 17), (edit_distance, 17), (sharper, 17)]}
