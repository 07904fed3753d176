# SPDX-License-Identifier: Apache-2.0
"""Networks of fields that few others come from: rays and splats, points of interest and their matches, masks from clicks, flow by correlation, splines, states with gates,
series by their periods, histories of shoppers, tables whose rows attend, policies, edges of graphs. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def attend(n, q, k, v, size, mask=None):
    scores = n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(size ** -0.5))
    return n.op("MatMul", n.softmax(n.add(scores, mask) if mask else scores), v)


def unit(n, x, axis):
    """As F.normalize is exported."""
    length = n.op("ReduceL2", x, axes=[axis], keepdims=1)
    return n.op("Div", x, n.op("Expand", n.op("Clip", length, n.number(1e-12), ""), n.op("Shape", x)))


def radiance_field(n):
    """Rays: points along them, sines and cosines of their places, a network with a skip, densities summed up to what is seen of each (CumProd as a sum of logarithms, exclusive)."""
    rays, samples = 64, 48
    origin, way = n.floats("origins", rays, 3, dims=["rays", 3]), n.floats("directions", rays, 3, dims=["rays", 3])
    depth = n.constant(np.linspace(2, 6, samples).astype("f").reshape(1, -1, 1))
    points = n.add(n.op("Unsqueeze", origin, n.integers(1)), n.mul(n.op("Unsqueeze", way, n.integers(1)), depth))

    def placed(x, powers):
        parts = [x]
        for i in range(powers):
            parts += [n.op("Sin", n.mul(x, n.number(2.0 ** i))), n.op("Cos", n.mul(x, n.number(2.0 ** i)))]
        return n.op("Concat", *parts, axis=-1)

    at = placed(points, 6)
    seen = placed(n.op("Div", way, n.op("ReduceL2", way, axes=[-1], keepdims=1)), 4)
    h, width = at, 128
    for layer in range(5):
        taken = 39 if layer == 0 else width + 39 if layer == 3 else width
        h = n.relu(n.linear(n.op("Concat", h, at, axis=-1) if layer == 3 else h, taken, width))
    sigma = n.relu(n.linear(h, width, 1))
    seen = n.op("Expand", n.op("Unsqueeze", seen, n.integers(1)), n.op("Concat", n.op("Unsqueeze", n.extent(h, 0), n.integers(0)), n.integers(samples, 27), axis=0))
    colour = n.op("Sigmoid", n.linear(n.relu(n.linear(n.op("Concat", n.linear(h, width, width), seen, axis=-1), width + 27, 64)), 64, 3))
    alpha = n.op("Sub", n.number(1), n.op("Exp", n.mul(n.op("Neg", n.op("Squeeze", sigma, n.integers(-1))), n.number(4 / samples))))
    left = n.op("Exp", n.op("CumSum", n.op("Log", n.add(n.op("Sub", n.number(1), alpha), n.number(1e-10))), n.index(1), exclusive=1))
    weights = n.mul(alpha, left)
    n.output(n.reduce("ReduceSum", n.mul(n.op("Unsqueeze", weights, n.integers(-1)), colour), [1], 0))
    n.output(n.reduce("ReduceSum", n.mul(weights, n.op("Squeeze", depth, n.integers(-1))), [1], 0)), n.output(weights)


def splats(n):
    """Gaussians onto a tile: turns of quaternions to covariances, a camera, inverses of 2 x 2, an order by depth (TopK), and a Scan that blends from front to back."""
    count, side = 200, 24
    mean, turn, size = n.floats("means", count, 3, dims=["splats", 3]), n.floats("turns", count, 4, dims=["splats", 4]), n.floats("sizes", count, 3, dims=["splats", 3])
    colour, opacity = n.floats("colours", count, 3, dims=["splats", 3]), n.floats("opacities", count, 1, dims=["splats", 1])
    w, x, y, z = n.split(unit(n, turn, -1), 1, 1, 1, 1, 1)
    two, one = n.number(2), n.number(1)
    pair = lambda a, b: n.mul(two, n.mul(a, b))
    rows = [n.op("Sub", one, n.add(pair(y, y), pair(z, z))), n.op("Sub", pair(x, y), pair(w, z)), n.add(pair(x, z), pair(w, y)),
            n.add(pair(x, y), pair(w, z)), n.op("Sub", one, n.add(pair(x, x), pair(z, z))), n.op("Sub", pair(y, z), pair(w, x)),
            n.op("Sub", pair(x, z), pair(w, y)), n.add(pair(y, z), pair(w, x)), n.op("Sub", one, n.add(pair(x, x), pair(y, y)))]
    r = n.reshape(n.op("Concat", *rows, axis=1), -1, 3, 3)
    m = n.mul(r, n.op("Unsqueeze", n.mul(n.op("Exp", n.mul(size, n.number(0.3))), n.number(0.3)), n.integers(1)))
    cov = n.op("MatMul", m, n.transpose(m, 0, 2, 1))
    depth = n.add(n.slice(mean, 1, 2, 3), n.number(5))
    at = n.op("Div", n.mul(n.slice(mean, 1, 0, 2), n.number(20)), depth)
    flat = n.mul(n.slice(n.slice(cov, 1, 0, 2), 2, 0, 2), n.op("Unsqueeze", n.op("Pow", n.op("Div", n.number(20), depth), two), n.integers(2)))
    flat = n.add(flat, n.constant(0.3 * np.eye(2, dtype="f")))
    a, b, c = n.op("GatherND", n.transpose(flat, 1, 2, 0), n.integers(0, 0)), n.op("GatherND", n.transpose(flat, 1, 2, 0), n.integers(0, 1)), n.op("GatherND", n.transpose(flat, 1, 2, 0), n.integers(1, 1))
    det = n.op("Max", n.op("Sub", n.mul(a, c), n.mul(b, b)), n.number(1e-6))
    conic = n.op("Concat", *[n.op("Unsqueeze", n.op("Div", v, det), n.integers(1)) for v in (c, n.op("Neg", b), a)], axis=1)
    distance = n.op("Squeeze", depth, n.integers(1))
    _, order = n.op("TopK", distance, n.op("Shape", distance), outs=2, axis=0, largest=0, sorted=1)
    sorted_ = [n.op("Gather", v, order, axis=0) for v in (at, conic, n.op("Sigmoid", colour), n.op("Sigmoid", opacity))]
    pixels = n.constant((np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2) - side / 2 + 0.5).astype("f"))

    def step(s, light, left, at, conic, colour, opacity):
        dx, dy = s.split(s.op("Sub", pixels, at), 1, 1, 1)
        ca, cb, cc = s.split(conic, 0, 1, 1, 1)
        power = s.add(s.mul(s.add(s.mul(ca, s.mul(dx, dx)), s.mul(cc, s.mul(dy, dy))), s.number(-0.5)), s.op("Neg", s.mul(cb, s.mul(dx, dy))))
        alpha = s.op("Min", s.mul(opacity, s.op("Exp", s.op("Min", power, s.number(0)))), s.number(0.99))
        alpha = s.op("Where", s.op("Less", alpha, s.number(1 / 255)), s.number(0), alpha)
        light = s.add(light, s.mul(s.mul(alpha, left), colour))
        return [light, s.mul(left, s.op("Sub", s.number(1), alpha))], []

    states = [(FLOAT, [side * side, 3], n.constant(np.zeros((side * side, 3), "f"))), (FLOAT, [side * side, 1], n.constant(np.ones((side * side, 1), "f")))]
    light, left = n.scan(states, [(FLOAT, [k], v) for k, v in zip((2, 3, 3, 1), sorted_)], step)
    n.output(n.reshape(light, side, side, 3)), n.output(left)


def interest_points(n):
    """SuperPoint: 65 classes of cells, shuffled to the image's size, suppressed by pools, NonZero, the best by TopK, descriptors sampled there and made of unit length; height and width symbolic."""
    x, taken = n.floats("image", 1, 1, 120, 160, dims=["batch", 1, "height", "width"]), 1
    for i, made in enumerate((32, 32, 64, 64)):
        x, taken = n.relu(n.conv(n.relu(n.conv(x, taken, made, 3)), made, made, 3)), made
        if i < 3:
            x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    scores = n.conv(n.relu(n.conv(x, 64, 128, 3)), 128, 65)
    scores = n.slice(n.softmax(scores, 1), 1, 0, -1)
    b, h, w = (n.extent(scores, i) for i in (0, 2, 3))
    eight = n.index(8)
    scores = n.transpose(n.reshape(n.transpose(scores, 0, 2, 3, 1), b, h, w, 8, 8), 0, 1, 3, 2, 4)
    scores = n.reshape(scores, b, n.op("Mul", h, eight), n.op("Mul", w, eight))

    def pooled(v):
        return n.op("Squeeze", n.op("MaxPool", n.op("Unsqueeze", v, n.integers(1)), kernel_shape=[9, 9], pads=[4] * 4, strides=[1, 1]), n.integers(1))

    zeros = n.mul(scores, n.number(0))
    best = n.op("Equal", scores, pooled(scores))
    near = n.op("Greater", pooled(n.op("Cast", best, to=FLOAT)), n.number(0))
    rest = n.op("Where", near, zeros, scores)
    best = n.op("Or", best, n.op("And", n.op("Equal", rest, pooled(rest)), n.op("Not", near)))
    scores = n.op("Where", best, scores, zeros)
    at = n.transpose(n.op("NonZero", n.op("Greater", scores, n.number(0.0155))), 1, 0)
    found = n.op("GatherND", scores, at)
    count = n.op("Min", n.op("Shape", found), n.integers(64))
    top, order = n.op("TopK", found, count, outs=2, axis=0, largest=1, sorted=1)
    points = n.op("Gather", at, order, axis=0)
    points = n.op("Cast", n.op("Concat", n.slice(points, 1, 2, 3), n.slice(points, 1, 1, 2), axis=1), to=FLOAT)
    full = n.op("Cast", n.op("Concat", n.op("Unsqueeze", n.op("Mul", w, eight), n.integers(0)), n.op("Unsqueeze", n.op("Mul", h, eight), n.integers(0)), axis=0), to=FLOAT)
    grid = n.op("Sub", n.mul(n.op("Div", n.op("Sub", points, n.number(3.5)), n.op("Sub", full, n.number(4.5))), n.number(2)), n.number(1))
    grid = n.reshape(grid, 1, 1, -1, 2)
    d = unit(n, n.conv(n.relu(n.conv(x, 64, 128, 3)), 128, 128), 1)
    d = n.op("GridSample", d, grid, align_corners=1, mode="bilinear", padding_mode="zeros")
    d = unit(n, n.reshape(d, 1, 128, -1), 1)
    n.output(points), n.output(top), n.output(n.transpose(d, 0, 2, 1))


def light_matcher(n):
    """LightGlue: learned rotations of points' places, attention among and across, a softmax both ways, matches that choose each other, by where they are sure; the numbers of points symbolic."""
    width, heads, size = 128, 4, 32
    sets = [(n.floats(f"points{i}", 1, count, 2, dims=[1, f"points{i}", 2]), n.floats(f"descriptors{i}", 1, count, width, dims=[1, f"points{i}", width])) for i, count in ((0, 90), (1, 110))]
    turn = n.weight(2, size // 2)
    states = []
    for points, d in sets:
        angle = n.op("MatMul", points, turn)
        both = [n.op("Unsqueeze", n.op("Unsqueeze", n.op(kind, angle), n.integers(-1)), n.integers(1)) for kind in ("Cos", "Sin")]
        both = [n.op("Expand", v, n.op("Where", n.constant(np.array([0, 0, 0, 0, 1], bool)), n.integers(1, 1, 1, 1, 2), n.op("Shape", v))) for v in both]
        both = [n.op("Reshape", v, n.integers(1, 1, -1, size)) for v in both]
        states.append([d, both])

    def turned(x, cos, sin):
        pairs = n.op("Reshape", x, n.integers(1, heads, -1, size // 2, 2))
        a, b = n.split(pairs, -1, 1, 1)
        half = n.op("Reshape", n.op("Concat", n.op("Neg", b), a, axis=-1), n.op("Shape", x))
        return n.add(n.mul(x, cos), n.mul(half, sin))

    def update(x, message):
        y = n.op("Concat", x, message, axis=-1)
        y = n.gelu(n.layer_norm(n.linear(y, 2 * width, 2 * width), 2 * width))
        return n.add(x, n.linear(y, 2 * width, width))

    for _ in range(3):
        for state in states:
            x, (cos, sin) = state
            qkv = n.op("Reshape", n.linear(x, width, 3 * width), n.integers(1, -1, heads, size, 3))
            qkv = n.transpose(qkv, 0, 2, 1, 3, 4)
            q, k, v = (n.op("Squeeze", s, n.integers(-1)) for s in n.split(qkv, -1, 1, 1, 1))
            y = attend(n, turned(q, cos, sin), turned(k, cos, sin), v, size)
            state[0] = update(x, n.linear(n.reshape(n.transpose(y, 0, 2, 1, 3), 1, -1, width), width, width))
        (a, _), (b, _) = states
        qa, qb, va, vb = (n.heads(n.linear(s, width, width), heads, size, -1) for s in (a, b, a, b))
        scores = n.op("Einsum", n.mul(qa, n.number(size ** -0.25)), n.mul(qb, n.number(size ** -0.25)), equation="bhid,bhjd->bhij")
        ma = n.op("Einsum", n.softmax(scores), vb, equation="bhij,bhjd->bhid")
        mb = n.op("Einsum", n.transpose(n.softmax(scores, 2), 0, 1, 3, 2), va, equation="bhji,bhid->bhjd")
        for state, m in zip(states, (ma, mb)):
            state[0] = update(state[0], n.linear(n.reshape(n.transpose(m, 0, 2, 1, 3), 1, -1, width), width, width))
    a, b = states[0][0], states[1][0]
    similar = n.mul(n.op("MatMul", n.linear(a, width, width), n.transpose(n.linear(b, width, width), 0, 2, 1)), n.number(0.2 / width))
    za, zb = (n.op("Log", n.op("Sigmoid", n.linear(s, width, 1))) for s in (a, b))
    certain = n.add(za, n.transpose(zb, 0, 2, 1))
    scores = n.add(n.add(n.op("LogSoftmax", similar, axis=2), n.op("LogSoftmax", similar, axis=1)), certain)
    m0, m1 = n.op("ArgMax", scores, axis=2, keepdims=0), n.op("ArgMax", scores, axis=1, keepdims=0)
    back = n.op("GatherElements", m1, m0, axis=1)
    mutual = n.op("Equal", n.op("Unsqueeze", n.op("Range", n.index(0), n.extent(a, 1), n.index(1)), n.integers(0)), back)
    chosen = n.transpose(n.op("NonZero", mutual), 1, 0)
    other = n.op("GatherND", m0, chosen)
    n.output(n.op("Concat", n.slice(chosen, 1, 1, 2), n.op("Unsqueeze", other, n.integers(1)), axis=1), kind=INT64)
    n.output(n.op("Exp", n.op("GatherND", n.op("ReduceMax", scores, axes=[2], keepdims=0), chosen)))


def mask_decoder(n):
    """SAM's: points become sines, a token of each kind by Where and Equal, attention both ways, transposed convolutions with norms over channels, a network of each mask's own, a size that comes in."""
    width, heads, side = 128, 4, 32
    image = n.floats("image_embeddings", 1, width, side, side)
    points, labels = n.floats("point_coords", 1, 3, 2, dims=[1, "points", 2]), n.input("point_labels", np.array([[1, 0, -1]], "f"), [1, "points"])
    had, before = n.input("has_mask_input", np.array([1], "f")), n.floats("mask_input", 1, 1, 4 * side, 4 * side)
    wanted = n.input("orig_im_size", np.array([150, 200], "f"))
    matrix = n.constant(n.random.standard_normal((2, width // 2)).astype("f"))

    def sines(x):
        x = n.mul(n.op("MatMul", n.op("Sub", n.mul(x, n.number(2)), n.number(1)), matrix), n.number(2 * np.pi))
        return n.op("Concat", n.op("Sin", x), n.op("Cos", x), axis=-1)

    p = sines(n.mul(points, n.number(0.1)))
    kind = n.op("Expand", n.op("Unsqueeze", labels, n.integers(-1)), n.op("Shape", p))
    for value in (-1, 0, 1):
        is_it = n.op("Cast", n.op("Equal", kind, n.number(value)), to=FLOAT)
        p = n.mul(p, n.op("Sub", n.number(1), is_it)) if value < 0 else p
        p = n.add(p, n.mul(n.bias(1, width), is_it))
    dense = n.gelu(n.conv(n.gelu(n.conv(before, 1, 4, 2, 2, 0)), 4, 16, 2, 2, 0))
    dense = n.conv(dense, 16, width)
    dense = n.add(n.mul(had, dense), n.mul(n.op("Sub", n.number(1), had), n.bias(1, width, 1, 1)))
    grid = np.stack(np.meshgrid((np.arange(side) + 0.5) / side, (np.arange(side) + 0.5) / side), -1).astype("f")
    places = n.reshape(sines(n.constant(grid)), 1, side * side, width)
    tokens = n.op("Concat", n.bias(1, 5, width), p, axis=1)
    keys = n.transpose(n.reshape(n.add(image, dense), 1, width, -1), 0, 2, 1)

    def cross(q, k, v, inner):
        q, k, v = (n.heads(n.linear(s, width, inner), heads, inner // heads, -1) for s in (q, k, v))
        return n.linear(n.reshape(n.transpose(attend(n, q, k, v, inner // heads), 0, 2, 1, 3), 1, -1, inner), inner, width)

    x = tokens
    for _ in range(2):
        q = n.add(x, tokens)
        x = n.layer_norm(n.add(x, cross(q, q, x, width)), width)
        x = n.layer_norm(n.add(x, cross(n.add(x, tokens), n.add(keys, places), keys, width // 2)), width)
        x = n.layer_norm(n.add(x, n.feed_forward(x, width, 256, n.relu)), width)
        keys = n.layer_norm(n.add(keys, cross(n.add(keys, places), n.add(x, tokens), x, width // 2)), width)
    x = n.layer_norm(n.add(x, cross(n.add(x, tokens), n.add(keys, places), keys, width // 2)), width)
    y = n.conv_transpose(n.reshape(n.transpose(keys, 0, 2, 1), 1, width, side, side), width, 32, 2, 2)
    mean = n.reduce("ReduceMean", y, [1])
    off = n.op("Sub", y, mean)
    y = n.op("Div", off, n.op("Sqrt", n.add(n.reduce("ReduceMean", n.op("Pow", off, n.number(2)), [1]), n.number(1e-6))))
    y = n.gelu(n.add(n.mul(y, n.scale(32, 1, 1)), n.bias(32, 1, 1)))
    y = n.gelu(n.conv_transpose(y, 32, 16, 2, 2))
    own = []
    for i in range(4):
        h = n.op("Gather", x, n.index(i + 1), axis=1)
        own.append(n.op("Unsqueeze", n.gemm(n.relu(n.gemm(n.relu(n.gemm(h, width, width)), width, width)), width, 16), n.integers(1)))
    masks = n.reshape(n.op("MatMul", n.op("Concat", *own, axis=1), n.reshape(y, 1, 16, -1)), 1, 4, 4 * side, 4 * side)
    quality = n.gemm(n.relu(n.gemm(n.op("Gather", x, n.index(0), axis=1), width, width)), width, 4)
    big = n.op("Resize", masks, "", "", n.integers(1, 4, 256, 256), mode="linear", coordinate_transformation_mode="half_pixel")
    scale = n.op("Div", n.number(256), n.op("ReduceMax", wanted, keepdims=0))
    inner = n.op("Cast", n.op("Floor", n.add(n.mul(wanted, scale), n.number(0.5))), to=INT64)
    big = n.op("Slice", big, n.integers(0, 0), inner, n.integers(2, 3))
    big = n.op("Resize", big, "", "", n.op("Concat", n.integers(1, 4), n.op("Cast", wanted, to=INT64), axis=0), mode="linear", coordinate_transformation_mode="half_pixel")
    n.output(big), n.output(quality), n.output(masks)


def flow_pyramid(n):
    """PWC-Net: two images' pyramids, one bent by GridSample along the flow so far, 81 shifts compared by Pad, Slice and means, flows handed up by transposed convolutions."""
    def pyramid(x, shared):
        maps, taken = [], 3
        for i, made in enumerate((16, 32, 64)):
            if len(shared) <= i:
                shared.append([(n.weight(made, taken, 3, 3), n.bias(made)), (n.weight(made, made, 3, 3), n.bias(made))])
            for (w, b), stride in zip(shared[i], (2, 1)):
                x = n.op("LeakyRelu", n.op("Conv", x, w, b, kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2), alpha=0.1)
            taken = made
            maps.append((x, made))
        return maps

    shared = []
    first, second = pyramid(n.floats("first", 1, 3, 96, 128), shared), pyramid(n.floats("second", 1, 3, 96, 128), shared)
    flow = None
    for (a, channels), (b, _), (h, w) in reversed(list(zip(first, second, ((48, 64), (24, 32), (12, 16))))):
        if flow:
            flow = n.conv_transpose(flow, 2, 2, 4, 2, 1)
            grid = n.constant(np.stack(np.meshgrid(np.linspace(-1, 1, w), np.linspace(-1, 1, h)))[None].astype("f"))
            fx, fy = n.split(flow, 1, 1, 1)
            bent = n.op("Concat", n.op("Div", fx, n.number((w - 1) / 2)), n.op("Div", fy, n.number((h - 1) / 2)), axis=1)
            b = n.op("GridSample", b, n.transpose(n.add(grid, bent), 0, 2, 3, 1), align_corners=1, mode="bilinear", padding_mode="border")
        wide = n.op("Pad", b, n.integers(0, 0, 4, 4, 0, 0, 4, 4), n.number(0), mode="constant")
        costs = []
        for dy in range(0, 9, 2):
            for dx in range(0, 9, 2):
                shifted = n.slice(n.slice(wide, 2, dy, dy + h), 3, dx, dx + w)
                costs.append(n.reduce("ReduceMean", n.mul(a, shifted), [1]))
        x = n.op("LeakyRelu", n.op("Concat", *costs, axis=1), alpha=0.1)
        x, taken = n.op("Concat", x, a, *([flow] if flow else []), axis=1), 25 + channels + (2 if flow else 0)
        for made in (48, 32):
            x = n.op("Concat", n.op("LeakyRelu", n.conv(x, taken, made, 3), alpha=0.1), x, axis=1)
            taken += made
        new = n.conv(x, taken, 2, 3)
        flow = n.add(flow, new) if flow else new
    n.output(flow)


def spline_network(n):
    """KAN: bases of splines by recursion, from comparisons on, times weights, beside silu; 256 rows."""
    x, taken, grid, order = n.floats("rows", 256, 12, dims=["rows", 12]), 12, 5, 3
    for made in (32, 16, 3):
        knots = (np.arange(-order, grid + order + 1) * (2 / grid) - 1).astype("f")
        wide = n.op("Unsqueeze", x, n.integers(-1))
        edge = lambda lo, hi: n.constant(np.broadcast_to(knots[lo:hi], (taken, len(knots[lo:hi]))))
        bases = n.op("Cast", n.op("And", n.op("GreaterOrEqual", wide, edge(0, -1)), n.op("Less", wide, edge(1, None))), to=FLOAT)
        for k in range(1, order + 1):
            left = n.mul(n.op("Div", n.op("Sub", wide, edge(0, -k - 1)), n.op("Sub", edge(k, -1), edge(0, -k - 1))), n.slice(bases, 2, 0, -1))
            right = n.mul(n.op("Div", n.op("Sub", edge(k + 1, None), wide), n.op("Sub", edge(k + 1, None), edge(1, -k))), n.slice(bases, 2, 1, None))
            bases = n.add(left, right)
        count = grid + order
        spline = n.op("MatMul", n.reshape(bases, -1, taken * count), n.transpose(n.reshape(n.weight(made, taken, count), made, taken * count), 1, 0))
        x, taken = n.add(n.op("MatMul", n.silu(x), n.weight(taken, made)), spline), made
    n.output(x)


def griffin(n):
    """Hawk's blocks: short convolutions that look back, gates, a linear recurrence by Scan whose decay depends on the input, then a local attention of windows; 64 tokens."""
    width, inner, tokens = 128, 160, 64
    x = n.floats("tokens", 1, tokens, width, dims=[1, "tokens", width])
    for _ in range(2):
        y = n.rms_norm(x, width)
        gate = n.gelu_tanh(n.linear(y, width, inner))
        u = n.transpose(n.linear(y, width, inner), 0, 2, 1)
        u = n.transpose(n.conv(n.op("Pad", u, n.integers(0, 0, 3, 0, 0, 0), n.number(0)), inner, inner, 4, 1, 0, inner, rank=1), 0, 2, 1)
        r, i = n.op("Sigmoid", n.linear(u, inner, inner)), n.op("Sigmoid", n.linear(u, inner, inner))
        log_a = n.mul(n.mul(n.number(-8), r), n.op("Softplus", n.bias(inner)))
        a = n.op("Exp", log_a)
        u = n.mul(n.mul(u, i), n.op("Sqrt", n.op("Sub", n.number(1), n.op("Exp", n.mul(n.number(2), log_a)))))
        last, h = n.scan([(FLOAT, [1, inner], n.constant(np.zeros((1, inner), "f")))], [(FLOAT, [1, inner], a), (FLOAT, [1, inner], u)],
                         lambda s, h, a, u: ((lambda new: ([new], [new]))(s.add(s.mul(a, h), u))), scan_input_axes=[1, 1], scan_output_axes=[1])
        x = n.add(x, n.linear(n.mul(h, gate), inner, width))
        y = n.rms_norm(x, width)
        x = n.add(x, n.linear(n.mul(n.gelu_tanh(n.linear(y, width, 256)), n.linear(y, width, 256)), 256, width))
        n.output(last)
    n.output(x)


def matrix_memory(n):
    """xLSTM: a memory that is a matrix, with exponential gates and a stabiliser, in a Loop that takes a token at a time by Gather, stacks what it reads; a batch of 2."""
    width, heads, size, tokens, rows = 128, 4, 32, 48, 2
    x = n.floats("tokens", rows, tokens, width, dims=[rows, "tokens", width])
    y = n.layer_norm(x, width)
    q, k, v = (n.heads(n.linear(y, width, width), heads, size, -1, (1, 0, 2, 3)) for _ in range(3))
    k = n.mul(k, n.number(size ** -0.5))
    i, f = (n.transpose(n.linear(y, width, heads), 1, 0, 2) for _ in range(2))
    o = n.op("Sigmoid", n.linear(y, width, width))

    def step(b, t, c, norm, m):
        qt, kt, vt, it, ft = (b.op("Gather", s, t, axis=0) for s in (q, k, v, i, f))
        logf = b.op("Neg", b.op("Softplus", b.op("Neg", ft)))
        new = b.op("Max", b.add(logf, m), it)
        fg, ig = b.op("Exp", b.op("Sub", b.add(logf, m), new)), b.op("Exp", b.op("Sub", it, new))
        wide = lambda s, *axes: b.op("Unsqueeze", s, b.integers(*axes))
        outer = b.op("MatMul", wide(vt, 3), wide(kt, 2))
        c = b.add(b.mul(wide(fg, 2, 3), c), b.mul(wide(ig, 2, 3), outer))
        norm = b.add(b.mul(wide(fg, 2), norm), b.mul(wide(ig, 2), kt))
        up = b.op("Squeeze", b.op("MatMul", c, wide(qt, 3)), b.integers(3))
        down = b.op("Max", b.op("Abs", b.op("ReduceSum", b.mul(norm, qt), b.integers(-1), keepdims=1)), b.op("Exp", b.op("Neg", wide(new, 2))))
        return [c, norm, new], [b.op("Div", up, down)]

    zeros = lambda *shape: n.constant(np.zeros(shape, "f"))
    states = [(FLOAT, [rows, heads, size, size], zeros(rows, heads, size, size)), (FLOAT, [rows, heads, size], zeros(rows, heads, size)), (FLOAT, [rows, heads], zeros(rows, heads))]
    c, norm, m, h = n.loop(n.extent(x, 1), states, step)
    h = n.reshape(n.transpose(h, 1, 0, 2, 3), rows, -1, width)
    n.output(n.add(x, n.linear(n.mul(o, n.layer_norm(h, width)), width, width))), n.output(c), n.output(m)


def times_net(n):
    """TimesNet: the strongest periods by DFT and TopK; for each, the series padded, folded into rows as long as the period is, convolved, unfolded, and weighed by Softmax. Shapes depend on data."""
    width, length = 32, 96
    x = n.linear(n.floats("series", 2, length, 7, dims=["batch", length, 7]), 7, width)
    spectrum = n.op("DFT", n.op("Unsqueeze", x, n.integers(-1)), "", axis=1, onesided=1)
    power = n.op("Sqrt", n.reduce("ReduceSum", n.mul(spectrum, spectrum), [-1], 0))
    strong = n.reduce("ReduceMean", n.reduce("ReduceMean", power, [0], 0), [-1], 0)
    strong = n.mul(strong, n.constant(np.concatenate([[0], np.ones(length // 2)]).astype("f")))
    _, top = n.op("TopK", strong, n.integers(3), outs=2, axis=0, largest=1, sorted=1)
    periods = n.op("Div", n.index(length), top)
    weights = n.softmax(n.op("Gather", n.reduce("ReduceMean", power, [-1], 0), top, axis=1))
    kernels = [(n.weight(width, width, size, size), n.bias(width), size) for size in (1, 3, 5)]
    results = []
    for i in range(3):
        period = n.op("Gather", periods, n.index(i), axis=0)
        rows = n.op("Div", n.op("Sub", n.op("Add", n.index(length), period), n.index(1)), period)
        missing = n.op("Sub", n.op("Mul", rows, period), n.index(length))
        y = n.op("Pad", x, n.op("Concat", n.integers(0, 0, 0, 0), n.op("Unsqueeze", missing, n.integers(0)), n.integers(0), axis=0), n.number(0))
        y = n.transpose(n.op("Reshape", y, n.dims(n.extent(x, 0), rows, period, width)), 0, 3, 1, 2)
        parts = [n.op("Conv", y, w, b, kernel_shape=[s, s], pads=[s // 2] * 4) for w, b, s in kernels]
        y = n.gelu(n.op("Div", n.add(*parts), n.number(3)))
        y = n.op("Reshape", n.transpose(y, 0, 2, 3, 1), n.dims(n.extent(x, 0), -1, width))
        results.append(n.op("Unsqueeze", n.slice(y, 1, 0, length), n.integers(-1)))
    y = n.op("Concat", *results, axis=-1)
    weights = n.op("Unsqueeze", n.op("Unsqueeze", weights, n.integers(1)), n.integers(1))
    x = n.layer_norm(n.add(n.reduce("ReduceSum", n.mul(y, weights), [-1], 0), x), width)
    n.output(n.linear(x, width, 7)), n.output(periods, kind=INT64)


def informer(n):
    """Attention of few queries: some keys at places drawn before, the queries that stand out by TopK, the others get the mean, ScatterND puts them in; then a convolution, Elu and a pool halve the series."""
    width, heads, size, length = 128, 4, 32, 96
    x = n.transpose(n.conv(n.transpose(n.floats("series", 2, length, 7), 0, 2, 1), 7, width, 3, rank=1), 0, 2, 1)
    for layer in range(2):
        q, k, v = (n.heads(n.linear(x, width, width), heads, size, length) for _ in range(3))
        drawn = 25 if layer == 0 else 20
        picked = n.op("Gather", k, n.constant(n.random.integers(0, length, (length, drawn))), axis=2)
        some = n.op("Squeeze", n.op("MatMul", n.op("Unsqueeze", q, n.integers(-2)), n.transpose(picked, 0, 1, 2, 4, 3)), n.integers(-2))
        sparse = n.op("Sub", n.op("ReduceMax", some, axes=[-1], keepdims=0), n.op("Div", n.reduce("ReduceSum", some, [-1], 0), n.number(length)))
        _, top = n.op("TopK", sparse, n.integers(drawn), outs=2, axis=-1, largest=1, sorted=0)
        order = n.op("Unsqueeze", n.op("TopK", top, n.integers(drawn), outs=2, axis=-1, largest=0)[0], n.integers(-1))
        batch = n.constant(np.broadcast_to(np.arange(2).reshape(2, 1, 1, 1), (2, heads, drawn, 1)))
        head = n.constant(np.broadcast_to(np.arange(heads).reshape(1, heads, 1, 1), (2, heads, drawn, 1)))
        at = n.op("Concat", batch, head, order, axis=-1)
        few = n.op("GatherND", q, at)
        weights = n.softmax(n.mul(n.op("MatMul", few, n.transpose(k, 0, 1, 3, 2)), n.number(size ** -0.5)))
        context = n.op("Expand", n.reduce("ReduceMean", v, [2]), n.integers(2, heads, length, size))
        context = n.op("ScatterND", context, at, n.op("MatMul", weights, v))
        x = n.layer_norm(n.add(x, n.linear(n.reshape(n.transpose(context, 0, 2, 1, 3), 2, length, width), width, width)), width)
        y = n.transpose(x, 0, 2, 1)
        y = n.transpose(n.conv(n.op("Elu", n.conv(y, width, 256, rank=1), alpha=1.0), 256, width, rank=1), 0, 2, 1)
        x = n.layer_norm(n.add(x, y), width)
        if layer == 0:
            y = n.op("Elu", n.op("BatchNormalization", n.conv(n.op("Pad", n.transpose(x, 0, 2, 1), n.integers(0, 0, 1, 0, 0, 1), "", mode="edge"), width, width, 3, 1, 0, rank=1), n.scale(width),
                                 n.bias(width), n.bias(width), n.constant(np.ones(width, "f"))), alpha=1.0)
            x, length = n.transpose(n.op("MaxPool", y, kernel_shape=[3], strides=[2], pads=[1, 1]), 0, 2, 1), length // 2
    n.output(n.linear(x, width, 7))


def shop_history(n):
    """DIN and a cross network: a bag of words as EmbeddingBag becomes a Loop of slices and means, attention of the wanted over what was bought, Dice, masks by lengths, crosses of features; rows symbolic."""
    rows, past, size = 32, 20, 16
    bought, wanted = n.input("history", n.random.integers(0, 500, (rows, past)), ["rows", past]), n.input("wanted", n.random.integers(0, 500, rows), ["rows"])
    lengths = n.input("lengths", n.random.integers(1, past + 1, rows), ["rows"])
    words, starts = n.input("words", n.random.integers(0, 300, 150), ["words"]), n.input("starts", np.sort(np.concatenate([[0], n.random.choice(np.arange(1, 150), rows - 1, False)])), ["rows"])
    table, bag = n.weight(500, size, fan=1), n.weight(300, size, fan=1)
    ends = n.op("Concat", n.slice(starts, 0, 1, None), n.op("Shape", words), axis=0)

    def step(b, i):
        rows_of = lambda v: b.op("Unsqueeze", b.op("Gather", v, i, axis=0), b.integers(0))
        here = b.op("Slice", words, rows_of(starts), rows_of(ends), b.integers(0))
        return [], [b.reduce("ReduceMean", b.op("Gather", bag, here, axis=0), [0], 0)]

    (texts,) = n.loop(n.extent(starts, 0), [], step)
    h, w = n.op("Gather", table, bought), n.op("Gather", table, wanted)
    wide = n.op("Expand", n.op("Unsqueeze", w, n.integers(1)), n.op("Shape", h))
    y = n.op("Concat", wide, h, n.op("Sub", wide, h), n.mul(wide, h), axis=-1)

    def dice(x, c):
        p = n.op("Sigmoid", n.op("Div", n.op("Sub", x, n.bias(c)), n.op("Sqrt", n.add(n.constant(np.ones(c, "f")), n.number(1e-8)))))
        return n.add(n.mul(p, x), n.mul(n.mul(n.op("Sub", n.number(1), p), n.bias(c)), x))

    scores = n.linear(dice(n.linear(dice(n.linear(y, 4 * size, 36), 36), 36, 16), 16), 16, 1)
    there = n.op("Less", n.op("Unsqueeze", n.op("Range", n.index(0), n.index(past), n.index(1)), n.integers(0)), n.op("Unsqueeze", lengths, n.integers(1)))
    weights = n.softmax(n.op("Where", there, n.op("Squeeze", scores, n.integers(-1)), n.number(-4e9)))
    interest = n.op("Squeeze", n.op("MatMul", n.op("Unsqueeze", weights, n.integers(1)), h), n.integers(1))
    x0 = x = n.op("Concat", interest, w, texts, axis=-1)
    for _ in range(3):
        x = n.add(n.mul(x0, n.gemm(x, 3 * size, 3 * size)), x)
    deep = n.relu(n.gemm(n.relu(n.gemm(x0, 3 * size, 64)), 64, 32))
    n.output(n.op("Sigmoid", n.gemm(n.op("Concat", x, deep, axis=-1), 3 * size + 32, 1)))
    n.output(n.op("MatMul", unit(n, n.gemm(interest, size, 24), -1), n.transpose(unit(n, n.gemm(w, size, 24), -1), 1, 0)))


def table_prior(n):
    """TabPFN: cells with holes (IsNaN), scaled by what the training rows say, attention over features and over rows in turn, where all rows see the training rows alone; how many these are is an input."""
    rows, features, width, heads = 40, 8, 64, 4
    cells = n.random.standard_normal((rows, features)).astype("f")
    cells[n.random.random((rows, features)) < 0.05] = np.nan
    x, y = n.input("x", cells, ["rows", features]), n.floats("y", 28, dims=["train"])
    count = n.op("Shape", y)
    hole = n.op("IsNaN", x)
    known = n.op("Where", hole, n.number(0), x)
    train = n.op("Slice", known, n.integers(0), count, n.integers(0))
    mean = n.reduce("ReduceMean", train, [0])
    deviation = n.add(n.op("Sqrt", n.reduce("ReduceMean", n.op("Pow", n.op("Sub", train, mean), n.number(2)), [0])), n.number(1e-6))
    known = n.op("Clip", n.op("Div", n.op("Sub", known, mean), deviation), n.number(-100), n.number(100))
    pair = n.op("Concat", n.op("Unsqueeze", known, n.integers(-1)), n.op("Unsqueeze", n.op("Cast", hole, to=FLOAT), n.integers(-1)), axis=-1)
    h = n.linear(pair, 2, width)
    missing = n.op("Sub", n.op("Unsqueeze", n.extent(x, 0), n.integers(0)), count)
    label = n.op("Pad", y, n.op("Concat", n.integers(0), missing, axis=0), n.number(0))
    h = n.op("Concat", h, n.linear(n.op("Unsqueeze", n.op("Unsqueeze", label, n.integers(-1)), n.integers(-1)), 1, width), axis=1)

    def among(x, seen):
        q, k, v = (n.heads(n.linear(s, width, width), heads, width // heads, -1) for s in (x, seen, seen))
        return n.linear(n.reshape(n.transpose(attend(n, q, k, v, width // heads), 0, 2, 1, 3), 0, -1, width), width, width)

    for _ in range(2):
        h = n.layer_norm(n.add(h, among(h, h)), width)
        t = n.transpose(h, 1, 0, 2)
        t = n.layer_norm(n.add(t, among(t, n.op("Slice", t, n.integers(0), count, n.integers(1)))), width)
        h = n.transpose(t, 1, 0, 2)
        h = n.layer_norm(n.add(h, n.feed_forward(h, width, 128)), width)
    last = n.op("Slice", n.op("Gather", h, n.index(-1), axis=1), count, n.integers(np.iinfo(np.int64).max), n.integers(0))
    n.output(n.softmax(n.linear(n.gelu(n.linear(last, width, 128)), 128, 10)))


def edge_network(n):
    """Molecules: distances of edges, bases of bells, filters of edges, sums, maxima and means of neighbours by ScatterElements and ScatterND with reductions, places moved along edges, pools by graph."""
    nodes, edges, width = 80, 320, 64
    kinds, places = n.input("kinds", n.random.integers(0, 20, nodes), ["nodes"]), n.floats("places", nodes, 3, dims=["nodes", 3])
    ends, graph = n.input("edges", n.random.integers(0, nodes, (2, edges)), [2, "edges"]), n.input("graphs", np.sort(n.random.integers(0, 4, nodes)), ["nodes"])
    source, target = (n.op("Gather", ends, n.index(i), axis=0) for i in (0, 1))
    h = n.op("Gather", n.weight(20, width, fan=1), kinds)

    def scattered(values, kind, start):
        shape = n.op("Concat", n.op("Shape", kinds), n.integers(width), axis=0)
        empty = n.op("ConstantOfShape", shape, value=helper.make_tensor("", FLOAT, [1], [start]))
        at = n.op("Expand", n.op("Unsqueeze", target, n.integers(1)), n.op("Shape", values))
        return n.op("ScatterElements", empty, at, values, axis=0, reduction=kind)

    ones = n.op("Expand", n.number(1), n.op("Concat", n.op("Shape", target), n.integers(width), axis=0))
    degree = n.op("Max", scattered(ones, "add", 0.0), n.number(1))
    for _ in range(2):
        off = n.op("Sub", n.op("Gather", places, source, axis=0), n.op("Gather", places, target, axis=0))
        far = n.op("Sqrt", n.add(n.reduce("ReduceSum", n.mul(off, off), [1]), n.number(1e-8)))
        bell = n.op("Exp", n.mul(n.op("Pow", n.op("Sub", far, n.constant(np.linspace(0, 5, 16).astype("f"))), n.number(2)), n.number(-4.5)))
        filters = n.gemm(n.op("Softplus", n.gemm(bell, 16, width)), width, width)
        m = n.mul(n.op("Gather", n.gemm(h, width, width), source, axis=0), filters)
        total, most = scattered(m, "add", 0.0), scattered(m, "max", -1e30)
        most = n.op("Where", n.op("Less", most, n.number(-1e29)), n.number(0), most)
        mean = n.op("Div", total, degree)
        square = n.op("Div", scattered(n.mul(m, m), "add", 0.0), degree)
        spread = n.op("Sqrt", n.add(n.relu(n.op("Sub", square, n.mul(mean, mean))), n.number(1e-5)))
        h = n.add(h, n.silu(n.gemm(n.op("Concat", h, total, most, mean, spread, axis=1), 5 * width, width)))
        push = n.mul(off, n.op("Tanh", n.gemm(m, width, 1)))
        moved = n.op("ScatterND", n.mul(places, n.number(0)), n.op("Unsqueeze", target, n.integers(1)), push, reduction="add")
        places = n.add(places, n.mul(moved, n.number(0.1)))
    pooled = n.op("ScatterND", n.constant(np.zeros((4, width), "f")), n.op("Unsqueeze", graph, n.integers(1)), h, reduction="add")
    n.output(n.gemm(n.silu(n.gemm(pooled, width, width)), width, 1)), n.output(places)


def game_policy(n):
    """A policy of many frames: bytes of an image in NHWC, convolutions, an LSTM whose state is cleared where a game began, heads of actions with masks, a value; logits and the likeliest action."""
    frames, envs = 4, 3
    image = n.input("frames", n.random.integers(0, 256, (frames, envs, 42, 42, 4)).astype("u1"), ["frames", envs, 42, 42, 4])
    begun = n.input("begun", (n.random.random((frames, envs)) < 0.2).astype("f"), ["frames", envs])
    mask = n.input("allowed", n.random.random((frames, envs, 9)) < 0.7, ["frames", envs, 9])
    h, c = n.floats("h", 1, envs, 128), n.floats("c", 1, envs, 128)
    x = n.op("Div", n.op("Cast", n.op("Reshape", image, n.integers(-1, 42, 42, 4)), to=FLOAT), n.number(255))
    x, taken = n.transpose(x, 0, 3, 1, 2), 4
    for made, size, stride in ((16, 8, 4), (32, 4, 2), (32, 3, 1)):
        x, taken = n.relu(n.conv(x, taken, made, size, stride, size // 2)), made
    x = n.relu(n.gemm(n.op("Flatten", x, axis=1), 32 * 6 * 6, 128))
    x = n.op("Reshape", x, n.integers(-1, envs, 128))
    w, r, b = n.weight(1, 512, 128, fan=128), n.weight(1, 512, 128, fan=128), n.bias(1, 1024)

    def step(s, h, c, x, begun):
        keep = s.op("Unsqueeze", s.op("Unsqueeze", s.op("Sub", s.number(1), begun), s.integers(1)), s.integers(0))
        y, h, c = s.op("LSTM", s.op("Unsqueeze", x, s.integers(0)), w, r, b, "", s.mul(h, keep), s.mul(c, keep), outs=3, hidden_size=128)
        return [h, c], [s.op("Squeeze", y, s.integers(0, 1))]

    h, c, y = n.scan([(FLOAT, [1, envs, 128], h), (FLOAT, [1, envs, 128], c)], [(FLOAT, [envs, 128], x), (FLOAT, [envs], begun)], step)
    logits = n.op("Where", mask, n.linear(y, 128, 9), n.number(-1e8))
    n.output(n.op("LogSoftmax", logits, axis=-1)), n.output(n.op("ArgMax", logits, axis=-1, keepdims=0), kind=INT64)
    n.output(n.op("Squeeze", n.linear(y, 128, 1), n.integers(-1))), n.output(h), n.output(c)


def code_images(n):
    """VQ-VAE: an image to a grid of nearest codes and back, GroupNorm decomposed, attention on the map of 16 x 16, nearest Resize; codes, distances and the picture."""
    def swish_norm(x, c):
        return n.silu(n.group_norm(x, c, 8))

    def residual(x, taken, made):
        y = n.conv(swish_norm(n.conv(swish_norm(x, taken), taken, made, 3), made), made, made, 3)
        return n.add(n.conv(x, taken, made) if made != taken else x, y)

    def attention(x, c, extent):
        y = n.group_norm(x, c, 8)
        q, k, v = (n.reshape(n.conv(y, c, c), 1, c, extent * extent) for _ in range(3))
        w = n.softmax(n.mul(n.op("MatMul", n.transpose(q, 0, 2, 1), k), n.number(c ** -0.5)), 2)
        y = n.op("MatMul", v, n.transpose(w, 0, 2, 1))
        return n.add(x, n.conv(n.reshape(y, 1, c, extent, extent), c, c))

    x, taken = n.conv(n.floats("image", 1, 3, 64, 64), 3, 32, 3), 32
    for made in (32, 64):
        x = residual(x, taken, made)
        x = n.op("Conv", n.op("Pad", x, n.integers(0, 0, 0, 0, 0, 0, 1, 1), n.number(0)), n.weight(made, made, 3, 3), n.bias(made), kernel_shape=[3, 3], strides=[2, 2])
        taken = made
    x = attention(residual(x, 64, 64), 64, 16)
    z = n.transpose(n.conv(swish_norm(x, 64), 64, 32), 0, 2, 3, 1)
    flat, table = n.reshape(z, -1, 32), n.random.standard_normal((256, 32)).astype("f")
    far = n.op("Sub", n.add(n.reduce("ReduceSum", n.mul(flat, flat), [1]), n.constant((table ** 2).sum(1))), n.mul(n.number(2), n.op("Einsum", flat, n.constant(table.T), equation="bd,dn->bn")))
    code = n.op("ArgMin", far, axis=1, keepdims=0)
    n.output(n.reshape(code, 1, 16, 16), kind=INT64)
    q = n.reshape(n.op("Gather", n.constant(table), code), 1, 16, 16, 32)
    q = n.transpose(n.add(z, n.op("Sub", q, z)), 0, 3, 1, 2)
    x, taken = attention(residual(n.conv(q, 32, 64, 3), 64, 64), 64, 16), 64
    for made in (64, 32):
        x, taken = residual(x, taken, made), made
        x = n.op("Resize", x, "", n.constant(np.array([1, 1, 2, 2], "f")), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        x = n.conv(x, made, made, 3)
    n.output(n.op("Clip", n.conv(swish_norm(x, 32), 32, 3, 3), n.number(-1), n.number(1)))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (radiance_field, 17), (splats, 17), (interest_points, 16), (light_matcher, 17), (mask_decoder, 17), (flow_pyramid, 16), (spline_network, 17), (griffin, 17), (matrix_memory, 17), (times_net, 17),
    (informer, 16), (shop_history, 17), (table_prior, 17), (edge_network, 18), (game_policy, 16), (code_images, 17)]}
