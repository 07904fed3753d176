# SPDX-License-Identifier: Apache-2.0
"""Networks on sound, text and series that few others are like, as exporters write them: codecs, transducers, states instead of attention, experts,
positions relative to others, forecasts. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT, Net


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def loop(n, body, trips, states, scanned, captured):
    """A Loop of `body`, whose states are (name, start, shape, new value, kind); `scanned` are (value, shape). Names that it captures stay."""
    go = body.op("Identity", "go_in")
    outs = [body.op("Identity", s[3]) for s in states]
    stacked = [(body.op("Identity", v), shape) for v, shape in scanned]
    graph = helper.make_graph(body.nodes, "body",
                              [info("i", TensorProto.INT64, []), info("go_in", TensorProto.BOOL, [])] + [info(s[0], s[4], s[2]) for s in states],
                              [info(go, TensorProto.BOOL, [])] + [info(o, s[4], s[2]) for o, s in zip(outs, states)] + [info(v, FLOAT, shape) for v, shape in stacked],
                              body.constants)
    for node in graph.node:
        node.input[:] = [i if i in captured or not i else "body." + i for i in node.input]
        node.output[:] = ["body." + o for o in node.output]
    for value in list(graph.input) + list(graph.output) + list(graph.initializer):
        value.name = "body." + value.name
    made = n.op("Loop", trips, n.constant(np.array(True)), *[s[1] for s in states], outs=len(states) + len(scanned), body=graph)
    return made if isinstance(made, list) else [made]


def elu(n, x):
    return n.op("Elu", x, alpha=1.0)


def padded_conv(n, x, taken, made, size, stride=1, dilation=1):
    """Causal: reflected on the left."""
    pad = (size - 1) * dilation - (stride - 1)
    x = n.op("Pad", x, n.integers(0, 0, pad, 0, 0, 0), "", mode="reflect")
    return n.conv(x, taken, made, size, stride, 0, dilation=dilation, rank=1)


def encodec(n):
    """Both ways: convolutions, two LSTM layers that are added, nearest codes of four tables, and transposed convolutions."""
    x, width = padded_conv(n, n.floats("sound", 1, 1, 6400), 1, 16, 7), 16

    def residual(x, width):
        y = padded_conv(n, elu(n, x), width, width // 2, 3)
        return n.add(n.conv(x, width, width, rank=1), n.conv(elu(n, y), width // 2, width, rank=1))

    def recurrent(x, width, frames):
        y = n.transpose(x, 2, 0, 1)
        for _ in range(2):
            zeros = n.constant(np.zeros((1, 1, width), "f"))
            y = n.op("LSTM", y, n.weight(1, 4 * width, width, fan=width), n.weight(1, 4 * width, width, fan=width), n.bias(1, 8 * width), "", zeros, zeros,
                     outs=3, hidden_size=width)[0]
            y = n.op("Squeeze", y, n.integers(1))
        return n.add(n.transpose(y, 1, 2, 0), x)

    for stride in (2, 4, 5):
        x = residual(x, width)
        x, width = padded_conv(n, elu(n, x), width, 2 * width, 2 * stride, stride), 2 * width
    frames = 6400 // 40
    x = padded_conv(n, elu(n, recurrent(x, width, frames)), width, 64, 7)
    rest, found, codes = n.transpose(x, 0, 2, 1), None, []
    for _ in range(4):
        table = n.random.standard_normal((256, 64)).astype("f")
        flat = n.reshape(rest, -1, 64)
        squares = n.reduce("ReduceSum", n.op("Pow", flat, n.number(2)), [1])
        product = n.op("MatMul", n.mul(flat, n.number(2)), n.constant(table.T))
        far = n.op("Neg", n.add(n.op("Sub", squares, product), n.constant((table.T ** 2).sum(0, keepdims=True))))
        code = n.reshape(n.op("ArgMax", far, axis=-1, keepdims=0), 1, -1)
        near = n.op("Gather", n.constant(table), code)
        rest, found = n.op("Sub", rest, near), n.add(found, near) if found else near
        codes.append(n.op("Unsqueeze", code, n.integers(0)))
    x = padded_conv(n, n.transpose(found, 0, 2, 1), 64, width, 7)
    x = recurrent(x, width, frames)
    for stride in (5, 4, 2):
        x = n.conv_transpose(elu(n, x), width, width // 2, 2 * stride, stride, rank=1)
        x, width = n.slice(x, 2, 0, -stride), width // 2
        x = residual(x, width)
    n.output(padded_conv(n, elu(n, x), width, 1, 7))
    n.output(n.op("Concat", *codes, axis=0), kind=7)


def dac(n):
    """A decoder whose activation is Snake: x + sin(a x)^2 / a."""
    def snake(x, width):
        a = n.scale(1, width, 1)
        y = n.op("Pow", n.op("Sin", n.mul(a, x)), n.number(2))
        return n.add(x, n.mul(n.op("Reciprocal", n.add(a, n.number(1e-9))), y))

    x, width = n.conv(n.floats("codes", 1, 128, 40), 128, 192, 7, rank=1), 192
    for stride in (8, 5, 2):
        x = snake(x, width)
        x = n.op("ConvTranspose", x, n.weight(width, width // 2, 2 * stride, fan=2 * width), n.bias(width // 2), dilations=[1], group=1, kernel_shape=[2 * stride],
                 pads=[(stride + 1) // 2] * 2, strides=[stride], output_padding=[stride % 2])
        width //= 2
        for dilation in (1, 3, 9):
            y = n.conv(snake(x, width), width, width, 7, dilation=dilation, rank=1)
            x = n.add(x, n.conv(snake(y, width), width, width, rank=1))
    n.output(n.op("Tanh", n.conv(snake(x, width), width, 1, 7, rank=1)))


def wave_rnn(n):
    """Samples one after another in a Loop: a GRU's gates as products and sums, two layers, and the likeliest class goes on."""
    frames, size = n.floats("frames", 1, 200, 48), 192
    body = Net(n.opset, 3)
    here = body.op("Gather", frames, "i", axis=1)
    x = body.op("Concat", "sample", here, axis=1)
    x = body.gemm(x, 49, size)
    new = []
    for name in ("h1", "h2"):
        gi, gh = body.gemm(x, size, 3 * size), body.gemm(name, size, 3 * size)
        (ri, zi, ni), (rh, zh, nh) = body.split(gi, 1, size, size, size), body.split(gh, 1, size, size, size)
        r, z = body.op("Sigmoid", body.add(ri, rh)), body.op("Sigmoid", body.add(zi, zh))
        c = body.op("Tanh", body.add(ni, body.mul(r, nh)))
        h = body.add(body.mul(body.op("Sub", name, c), z), c)
        x = body.add(x, h)
        new.append(h)
    logits = body.gemm(body.relu(body.gemm(x, size, size)), size, 256)
    code = body.op("Cast", body.op("ArgMax", body.softmax(logits, 1), axis=1, keepdims=1), to=FLOAT)
    sample = body.op("Sub", body.op("Div", body.mul(code, body.number(2)), body.number(255)), body.number(1))
    zeros = n.constant(np.zeros((1, size), "f"))
    made = loop(n, body, n.index(200), [("sample", n.constant(np.zeros((1, 1), "f")), [1, 1], sample, FLOAT), ("h1", zeros, [1, size], new[0], FLOAT),
                                        ("h2", zeros, [1, size], new[1], FLOAT)], [(sample, [1, 1])], {frames})
    n.output(n.reshape(made[3], 1, -1))


def transducer(n):
    """Predictor (a table and an LSTM with a state) and joiner: every frame beside every symbol."""
    encoded, tokens = n.floats("encoded", 1, 40, 256, dims=["batch", "frames", 256]), n.input("tokens", n.random.integers(0, 500, (1, 12)), ["batch", "symbols"])
    x = n.transpose(n.op("Gather", n.weight(500, 256, fan=1), tokens), 1, 0, 2)
    h, c = n.floats("h", 1, 1, 256, dims=[1, "batch", 256]), n.floats("c", 1, 1, 256, dims=[1, "batch", 256])
    y, h, c = n.op("LSTM", x, n.weight(1, 1024, 256, fan=256), n.weight(1, 1024, 256, fan=256), n.bias(1, 2048), "", h, c, outs=3, hidden_size=256)
    y = n.transpose(n.op("Squeeze", y, n.integers(1)), 1, 0, 2)
    a, b = n.op("Unsqueeze", n.linear(encoded, 256, 320), n.integers(2)), n.op("Unsqueeze", n.linear(y, 256, 320), n.integers(1))
    n.output(n.op("LogSoftmax", n.linear(n.op("Tanh", n.add(a, b)), 320, 500), axis=-1))
    n.output(h), n.output(c)


def rwkv(n):
    """Version 4, one token: states of five kinds a layer come in and go out."""
    width, layers = 384, 4
    token, state = n.input("token", np.array([17])), n.input("state", n.random.random((5 * layers, width)).astype("f"))
    x = n.layer_norm(n.op("Squeeze", n.op("Gather", n.weight(4000, width, fan=1), token), n.integers(0)), width)
    made = []

    def mixed(now, before, how):
        return n.add(n.mul(now, how), n.mul(before, n.op("Sub", n.number(1), how)))

    def product(x, taken, out):
        return n.op("MatMul", n.weight(out, taken, fan=taken), x)

    for layer in range(layers):
        old = [n.op("Gather", state, n.index(5 * layer + i), axis=0) for i in range(5)]
        y = n.layer_norm(x, width)
        k, v, r = (mixed(y, old[1], n.constant(n.random.random(width).astype("f"))) for _ in range(3))
        k, v, r = product(k, width, width), product(v, width, width), n.op("Sigmoid", product(r, width, width))
        a, b, p = old[2:]
        first = n.add(n.bias(width), k)
        q = n.op("Max", p, first)
        e, f = n.op("Exp", n.op("Sub", p, q)), n.op("Exp", n.op("Sub", first, q))
        up, down = n.add(n.mul(e, a), n.mul(f, v)), n.add(n.mul(e, b), f)
        x = n.add(x, product(n.mul(r, n.op("Div", up, down)), width, width))
        decayed = n.add(p, n.bias(width))
        q = n.op("Max", decayed, k)
        e, f = n.op("Exp", n.op("Sub", decayed, q)), n.op("Exp", n.op("Sub", k, q))
        new = [None, y, n.add(n.mul(e, a), n.mul(f, v)), n.add(n.mul(e, b), f), q]
        y = n.layer_norm(x, width)
        k, r = (mixed(y, old[0], n.constant(n.random.random(width).astype("f"))) for _ in range(2))
        new[0] = y
        k = n.op("Pow", n.relu(product(k, width, 4 * width)), n.number(2))
        x = n.add(x, n.mul(n.op("Sigmoid", product(r, width, width)), product(k, 4 * width, width)))
        made += [n.op("Unsqueeze", s, n.integers(0)) for s in new]
    n.output(product(n.layer_norm(x, width), width, 4000))
    n.output(n.op("Concat", *made, axis=0))


def mamba2(n):
    """Two blocks on 128 tokens, by chunks of 32: sums of segments by CumSum and Trilu, Einsums, and states handed from chunk to chunk."""
    width, inner, heads, size, kept, tokens, chunk = 128, 256, 8, 32, 32, 128, 32
    x, chunks = n.floats("tokens", 1, tokens, width), tokens // chunk
    low = np.tril(np.ones((chunk, chunk), bool))
    def segments(a, length):
        """Sums of each run of elements, -inf above the diagonal."""
        y = n.op("Expand", n.op("Unsqueeze", a, n.integers(-1)), n.constant(np.array([1, heads] + ([chunks] if length == chunk else []) + [length, length])))
        y = n.op("Where", n.constant(np.tril(np.ones((length, length), bool), -1)), y, n.number(0))
        y = n.op("CumSum", y, n.index(-2))
        return n.op("Where", n.constant(np.tril(np.ones((length, length), bool))), y, n.number(-np.inf))
    for _ in range(2):
        y = n.linear(n.rms_norm(x, width), width, 2 * inner + 2 * kept + heads, False)
        z, both, dt = n.split(y, 2, inner, inner + 2 * kept, heads)
        both = n.conv(n.transpose(both, 0, 2, 1), inner + 2 * kept, inner + 2 * kept, 4, 1, 3, inner + 2 * kept, rank=1)
        both = n.silu(n.transpose(n.slice(both, 2, 0, tokens), 0, 2, 1))
        u, b, c = n.split(both, 2, inner, kept, kept)
        dt = n.op("Softplus", n.add(dt, n.bias(heads)))
        a = n.mul(n.op("Neg", n.op("Exp", n.bias(heads))), dt)
        u = n.mul(n.reshape(u, 1, tokens, heads, size), n.op("Unsqueeze", dt, n.integers(-1)))
        u, b, c = n.reshape(u, 1, chunks, chunk, heads, size), n.reshape(b, 1, chunks, chunk, 1, kept), n.reshape(c, 1, chunks, chunk, 1, kept)
        b, c = (n.op("Expand", v, n.integers(1, chunks, chunk, heads, kept)) for v in (b, c))
        a = n.transpose(n.reshape(a, 1, chunks, chunk, heads), 0, 3, 1, 2)
        sums = n.op("CumSum", a, n.index(-1))
        decay = n.op("Exp", segments(a, chunk))
        scores = n.op("Einsum", c, b, equation="bclhn,bcshn->bchls")
        scores = n.mul(scores, n.transpose(decay, 0, 2, 1, 3, 4))
        within = n.op("Einsum", scores, u, equation="bchls,bcshp->bclhp")
        last = n.slice(sums, 3, -1, None)
        left = n.op("Exp", n.op("Sub", last, sums))
        states = n.op("Einsum", b, n.mul(n.op("Unsqueeze", n.transpose(left, 0, 2, 3, 1), n.integers(-1)), u), equation="bclhn,bclhp->bchpn")
        zero = n.constant(np.zeros((1, 1, heads, size, kept), "f"))
        states = n.op("Concat", zero, states, axis=1)
        ends = n.op("Pad", n.op("Squeeze", last, n.integers(-1)), n.integers(0, 0, 1, 0, 0, 0), n.number(0), mode="constant")
        handed = n.op("Exp", segments(ends, chunks + 1))
        states = n.slice(n.op("Einsum", handed, states, equation="bhzc,bchpn->bzhpn"), 1, 0, -1)
        across = n.op("Einsum", c, states, equation="bclhn,bchpn->bclhp")
        across = n.mul(across, n.op("Unsqueeze", n.transpose(n.op("Exp", sums), 0, 2, 3, 1), n.integers(-1)))
        y = n.reshape(n.add(within, across), 1, tokens, heads, size)
        y = n.reshape(n.add(y, n.mul(n.reshape(u, 1, tokens, heads, size), n.scale(heads, 1))), 1, tokens, inner)
        x = n.add(x, n.linear(n.rms_norm(n.mul(y, n.silu(z)), inner), inner, width, False))
    n.output(x)


def retnet(n):
    """Retention in parallel: scores times powers of a decay, divided by their sums; rotated positions by interleaved pairs."""
    width, heads, size, tokens = 256, 4, 64, 128
    x = n.floats("tokens", 1, tokens, width)
    powers = np.maximum(np.arange(tokens)[:, None] - np.arange(tokens)[None], 0)
    decays = np.stack([np.where(np.tril(np.ones((tokens, tokens))) > 0, (1 - 2.0 ** -(5 + h)) ** powers, 0) for h in range(heads)])
    decays = (decays / np.sqrt(decays.sum(-1, keepdims=True))).astype("f")[None]
    angles = np.arange(tokens)[:, None] * np.repeat(1 / 10000 ** np.linspace(0, 1, size // 2), 2)[None]
    sin, cos = n.constant(np.sin(angles).astype("f")), n.constant(np.cos(angles).astype("f"))

    def turned(x):
        even, odd = n.slice(x, 3, 0, None, 2), n.slice(x, 3, 1, None, 2)
        pairs = n.op("Concat", n.op("Unsqueeze", n.op("Neg", odd), n.integers(-1)), n.op("Unsqueeze", even, n.integers(-1)), axis=-1)
        return n.add(n.mul(x, cos), n.mul(n.reshape(pairs, 1, heads, tokens, size), sin))

    for _ in range(3):
        y = n.layer_norm(x, width)
        q, k = (turned(n.heads(n.linear(y, width, width), heads, size, tokens)) for _ in range(2))
        v = n.heads(n.linear(y, width, 2 * width), heads, 2 * size, tokens)
        scores = n.mul(n.op("MatMul", q, n.transpose(n.mul(k, n.number(size ** -0.5)), 0, 1, 3, 2)), n.constant(decays))
        total = n.op("Clip", n.op("Abs", n.reduce("ReduceSum", n.op("Abs", scores), [-1])), n.number(1), "")
        out = n.transpose(n.op("MatMul", n.op("Div", scores, total), v), 0, 2, 1, 3)
        squares = n.reduce("ReduceMean", n.op("Pow", out, n.number(2)), [-1])
        out = n.mul(out, n.op("Div", n.number(1), n.op("Sqrt", n.add(squares, n.number(1e-6)))))
        out = n.mul(n.silu(n.linear(y, width, 2 * width)), n.reshape(out, 1, tokens, 2 * width))
        x = n.add(x, n.linear(out, 2 * width, width))
        x = n.add(x, n.feed_forward(n.layer_norm(x, width), width, 2 * width))
    n.output(x)


def experts(n):
    """Mixtral's: for each expert the tokens that chose it (OneHot, NonZero), gathered and added back by ScatterND."""
    width, hidden, count, tokens = 128, 256, 8, 96
    x = n.floats("tokens", tokens, width, dims=["tokens", width])
    for _ in range(2):
        y = n.rms_norm(x, width)
        weights, chosen = n.op("TopK", n.softmax(n.linear(y, width, count, False)), n.integers(2), outs=2, axis=-1, largest=1, sorted=1)
        weights = n.op("Div", weights, n.reduce("ReduceSum", weights, [-1]))
        mask = n.transpose(n.op("OneHot", chosen, n.integers(count), n.integers(0, 1), axis=-1), 2, 1, 0)
        total = n.op("ConstantOfShape", n.op("Shape", x), value=helper.make_tensor("", FLOAT, [1], [0.0]))
        for expert in range(count):
            where = n.op("NonZero", n.op("Gather", mask, n.index(expert), axis=0))
            which, token = (n.op("Squeeze", part, n.integers(0)) for part in n.split(where, 0, 1, 1))
            z = n.op("Gather", y, token, axis=0)
            z = n.linear(n.mul(n.silu(n.linear(z, width, hidden, False)), n.linear(z, width, hidden, False)), hidden, width, False)
            at = n.op("Concat", n.op("Unsqueeze", token, n.integers(-1)), n.op("Unsqueeze", which, n.integers(-1)), axis=-1)
            z = n.mul(z, n.op("Unsqueeze", n.op("GatherND", weights, at), n.integers(-1)))
            total = n.op("ScatterND", total, n.op("Unsqueeze", token, n.integers(-1)), z, reduction="add")
        x = n.add(x, total)
    n.output(x)


def t5_decoder(n):
    """One step with caches of 20 tokens: attention to itself and to 40 encoded ones, whose keys and values came in too."""
    width, heads, size, layers, past = 256, 4, 64, 4, 20
    token = n.input("token", np.array([[5]]), ["batch", 1])
    mask = n.input("encoder_mask", np.ones((1, 40), np.int64), ["batch", "encoded"])
    caches = [[n.floats(f"past.{i}.{what}", 1, heads, past if "self" in what else 40, size, dims=["batch", heads, "past" if "self" in what else "encoded", size])
               for what in ("self.key", "self.value", "cross.key", "cross.value")] for i in range(layers)]
    x = n.op("Gather", n.weight(4000, width, fan=1), token)
    shown = n.op("Unsqueeze", n.op("Unsqueeze", n.op("Cast", mask, to=FLOAT), n.integers(1)), n.integers(2))
    shown = n.mul(n.op("Sub", n.number(1), shown), n.number(-3.4e38))
    length = n.add(n.extent(caches[0][0], 2), n.index(1))
    keys, queries = n.op("Unsqueeze", n.op("Range", n.index(0), length, n.index(1)), n.integers(0)), n.op("Unsqueeze", n.op("Range", n.index(0), length, n.index(1)), n.integers(1))
    far = n.op("Neg", n.op("Min", n.op("Sub", keys, queries), n.op("ConstantOfShape", n.op("Shape", n.op("Sub", keys, queries)), value=helper.make_tensor("", 7, [1], [0]))))
    ratio = n.mul(n.op("Div", n.op("Log", n.op("Div", n.op("Cast", far, to=FLOAT), n.number(16))), n.number(np.log(8))), n.number(16))
    large = n.op("Min", n.add(n.op("Cast", n.op("Clip", ratio, n.number(-100), n.number(100)), to=7), n.index(16)), n.index(31))
    bucket = n.op("Where", n.op("Less", far, n.index(16)), far, large)
    bias = n.op("Unsqueeze", n.transpose(n.op("Gather", n.bias(32, heads), bucket), 2, 0, 1), n.integers(0))
    bias = n.slice(bias, 2, -1, None)
    made = []
    for layer in range(layers):
        def attend(q, k, v, added):
            scores = n.add(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), added)
            return n.linear(n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), n.extent(token, 0), -1, width), width, width, False)
        y = n.rms_norm(x, width)
        q, k, v = (n.transpose(n.reshape(n.linear(y, width, width, False), n.extent(token, 0), -1, heads, size), 0, 2, 1, 3) for _ in range(3))
        k, v = n.op("Concat", caches[layer][0], k, axis=2), n.op("Concat", caches[layer][1], v, axis=2)
        made += [k, v]
        x = n.add(x, attend(q, k, v, bias))
        q = n.transpose(n.reshape(n.linear(n.rms_norm(x, width), width, width, False), n.extent(token, 0), -1, heads, size), 0, 2, 1, 3)
        x = n.add(x, attend(q, caches[layer][2], caches[layer][3], shown))
        y = n.rms_norm(x, width)
        x = n.add(x, n.linear(n.mul(n.gelu_tanh(n.linear(y, width, 512, False)), n.linear(y, width, 512, False)), 512, width, False))
    n.output(n.linear(n.mul(n.rms_norm(x, width), n.number(width ** -0.5)), width, 4000, False), "logits")
    for i, value in enumerate(made):
        n.output(value, f"present.{i // 2}.self.{'value' if i % 2 else 'key'}")


def deberta(n):
    """Disentangled attention: scores of contents and of distances, whose elements GatherElements picks."""
    width, heads, size, tokens, span = 256, 4, 64, 64, 64
    ids = n.input("ids", n.random.integers(0, 2000, (1, tokens)))
    mask = n.input("mask", np.ones((1, tokens), np.int64))
    x = n.layer_norm(n.op("Gather", n.weight(2000, width, fan=1), ids), width, 1e-7)
    x = n.mul(x, n.op("Unsqueeze", n.op("Cast", mask, to=FLOAT), n.integers(2)))
    both = n.op("Unsqueeze", n.op("Unsqueeze", mask, n.integers(1)), n.integers(2))
    both = n.op("Cast", n.mul(both, n.op("Unsqueeze", n.op("Squeeze", both, n.integers(-2)), n.integers(-1))), to=9)
    table = n.layer_norm(n.bias(2 * span, width), width, 1e-7)
    far = np.arange(tokens)[:, None] - np.arange(tokens)[None]
    c2p = n.constant(np.broadcast_to(np.clip(far + span, 0, 2 * span - 1), (heads, tokens, tokens)))
    p2c = n.constant(np.broadcast_to(np.clip(-far + span, 0, 2 * span - 1), (heads, tokens, tokens)))

    def dealt(x, length):
        return n.reshape(n.transpose(n.reshape(x, 1, length, heads, size), 0, 2, 1, 3), -1, length, size)

    for _ in range(4):
        weights = [n.weight(width, width) for _ in range(3)]
        biases = [n.bias(width) for _ in range(3)]
        q, k, v = (dealt(n.add(biases[i], n.op("MatMul", x, weights[i])), tokens) for i in range(3))
        pk, pq = (dealt(n.op("Unsqueeze", n.add(biases[i], n.op("MatMul", table, weights[i])), n.integers(0)), 2 * span) for i in (1, 0))
        root = n.number((3 * size) ** 0.5)
        scores = n.op("MatMul", q, n.op("Div", n.transpose(k, 0, 2, 1), root))
        one = n.op("GatherElements", n.op("MatMul", q, n.transpose(pk, 0, 2, 1)), c2p, axis=-1)
        other = n.op("GatherElements", n.op("MatMul", k, n.transpose(pq, 0, 2, 1)), p2c, axis=-1)
        added = n.add(n.op("Div", one, root), n.op("Div", n.transpose(other, 0, 2, 1), root))
        scores = n.reshape(n.add(scores, added), -1, heads, tokens, tokens)
        hidden = n.op("Not", both)
        weights = n.softmax(n.op("Where", hidden, n.number(-3.4e38), scores))
        weights = n.op("Where", hidden, n.number(0), weights)
        y = n.op("MatMul", n.reshape(weights, -1, tokens, tokens), v)
        y = n.reshape(n.transpose(n.reshape(y, -1, heads, tokens, size), 0, 2, 1, 3), 1, tokens, -1)
        x = n.layer_norm(n.add(n.linear(y, width, width), x), width, 1e-7)
        x = n.layer_norm(n.add(n.feed_forward(x, width, 1024), x), width, 1e-7)
    n.output(n.linear(x, width, 9))


def xlnet(n):
    """Einsums of queries with contents and with positions; the positions' scores shifted by Reshape, Slice and Gather; tokens first."""
    width, heads, size, tokens = 256, 4, 64, 64
    ids = n.input("ids", n.random.integers(0, 2000, (1, tokens)))
    x = n.op("Gather", n.weight(2000, width, fan=1), n.transpose(ids, 1, 0))
    places = n.constant(n.random.standard_normal((2 * tokens, 1, width)).astype("f"))
    for _ in range(3):
        def projected(y):
            return n.op("Einsum", y, n.weight(width, heads, size, fan=width), equation="ibh,hnd->ibnd")
        q, k, v, r = projected(x), projected(x), projected(x), projected(places)
        content = n.op("Einsum", n.add(q, n.bias(heads, size)), k, equation="ibnd,jbnd->bnij")
        place = n.op("Einsum", n.add(q, n.bias(heads, size)), r, equation="ibnd,jbnd->bnij")
        place = n.slice(n.reshape(place, 1, heads, 2 * tokens, tokens), 2, 1, None)
        place = n.op("Gather", n.reshape(place, 1, heads, tokens, 2 * tokens - 1), n.constant(np.arange(tokens)), axis=3)
        weights = n.softmax(n.mul(n.add(content, place), n.number(size ** -0.5)), 3)
        y = n.op("Einsum", weights, v, equation="bnij,jbnd->ibnd")
        y = n.op("Einsum", y, n.weight(width, heads, size, fan=width), equation="ibnd,hnd->ibh")
        x = n.layer_norm(n.add(y, x), width, 1e-12)
        x = n.layer_norm(n.add(n.feed_forward(x, width, 1024), x), width, 1e-12)
    n.output(n.linear(n.transpose(x, 1, 0, 2), width, 4))


def albert(n):
    """One layer's weights, six times; attention weights and the sequence's extents from Shape; batch and length are symbolic."""
    width, heads, size = 256, 4, 64
    ids = n.input("ids", n.random.integers(0, 2000, (2, 48)), ["batch", "sequence"])
    mask = n.input("mask", np.ones((2, 48), np.int64), ["batch", "sequence"])
    hidden = n.mul(n.op("Sub", n.number(1), n.op("Cast", n.op("Unsqueeze", n.op("Unsqueeze", mask, n.integers(1)), n.integers(2)), to=FLOAT)), n.number(-3.4e38))
    places = n.op("Gather", n.bias(512, 128), n.slice(n.constant(np.arange(512)[None]), 1, 0, 48))
    length = n.op("Unsqueeze", n.extent(ids, 1), n.integers(0))
    places = n.op("Gather", n.bias(512, 128), n.op("Slice", n.constant(np.arange(512)[None]), n.integers(0), length, n.integers(1), n.integers(1)))
    x = n.layer_norm(n.add(n.op("Gather", n.weight(2000, 128, fan=1), ids), places), 128, 1e-12)
    x = n.linear(x, 128, width)
    shared = {}

    def linear(name, x, taken, made):
        if name not in shared:
            shared[name] = (n.weight(taken, made), n.bias(made))
        return n.add(n.op("MatMul", x, shared[name][0]), shared[name][1])

    norms = [(n.scale(width), n.bias(width)) for _ in range(2)]
    for _ in range(6):
        q, k, v = (linear(w, x, width, width) for w in "qkv")
        q, k, v = (n.transpose(n.reshape(s, n.extent(s, 0), n.extent(s, 1), heads, size), 0, 2, 1, 3) for s in (q, k, v))
        scores = n.op("Div", n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(8))
        y = n.transpose(n.op("MatMul", n.softmax(n.add(scores, hidden)), v), 0, 2, 1, 3)
        y = linear("o", n.reshape(y, n.extent(y, 0), n.extent(y, 1), width), width, width)
        x = n.op("LayerNormalization", n.add(x, y), *norms[0], axis=-1, epsilon=1e-12)
        y = linear("g", n.gelu_tanh(linear("f", x, width, 1024)), 1024, width)
        x = n.op("LayerNormalization", n.add(y, x), *norms[1], axis=-1, epsilon=1e-12)
    n.output(n.op("Tanh", n.gemm(n.op("Gather", x, n.index(0), axis=1), width, width)))


def perceiver(n):
    """Thirty-two latents that attend to 1024 inputs of other width, then to themselves."""
    inputs, width, taken = n.floats("inputs", 1, 1024, 64), 256, 64

    def attend(x, y, taken, heads):
        size = width // heads
        q, k, v = n.linear(x, width, width), n.linear(y, taken, width), n.linear(y, taken, width)
        q, k, v = (n.transpose(n.reshape(s, 1, -1, heads, size), 0, 2, 1, 3) for s in (q, k, v))
        scores = n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(size ** -0.5))
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 1, -1, width)
        return n.linear(y, width, width)

    x = n.op("Expand", n.op("Unsqueeze", n.bias(32, width), n.integers(0)), n.integers(1, 32, width))
    for _ in range(2):
        x = n.add(x, attend(n.layer_norm(x, width), n.layer_norm(inputs, taken), taken, 1))
        x = n.add(x, n.feed_forward(n.layer_norm(x, width), width, width))
        for _ in range(2):
            y = n.layer_norm(x, width)
            x = n.add(x, attend(y, y, width, 4))
            x = n.add(x, n.feed_forward(n.layer_norm(x, width), width, width))
    n.output(n.gemm(n.reduce("ReduceMean", x, [1], 0), width, 40))


def n_beats(n):
    """Blocks of four layers, each taking off what it explained; 256 series."""
    x, total = n.floats("series", 256, 96, dims=["batch", 96]), None
    for _ in range(4):
        y, taken = x, 96
        for _ in range(4):
            y, taken = n.relu(n.gemm(y, taken, 128)), 128
        back, ahead = n.split(n.op("MatMul", y, n.weight(128, 120)), 1, 96, 24)
        x = n.op("Sub", x, back)
        total = n.add(total, ahead) if total else ahead
    n.output(total)


def patch_tst(n):
    """Series cut into patches by Gather, normalised over the batch's tokens, seven channels apart."""
    width, heads, size, channels = 128, 8, 16, 7
    x = n.floats("series", 4, 336, channels)
    mean = n.reduce("ReduceMean", x, [1])
    x = n.op("Sub", x, mean)
    deviation = n.op("Sqrt", n.add(n.reduce("ReduceMean", n.mul(x, x), [1]), n.number(1e-5)))
    x = n.transpose(n.op("Div", x, deviation), 0, 2, 1)
    x = n.op("Pad", x, n.integers(0, 0, 0, 0, 0, 8), "", mode="edge")
    at = (np.arange(42)[:, None] * 8 + np.arange(16)[None])
    x = n.op("Gather", x, n.constant(at), axis=2)
    x = n.reshape(n.linear(x, 16, width), 4 * channels, 42, width)
    x = n.add(x, n.bias(42, width))
    scores = None

    def batch_norm(x):
        y = n.op("BatchNormalization", n.transpose(x, 0, 2, 1), n.scale(width), n.bias(width), n.bias(width), n.constant(np.ones(width, "f")), epsilon=1e-5)
        return n.transpose(y, 0, 2, 1)

    for _ in range(3):
        q, k, v = n.heads(n.linear(x, width, width), heads, size, -1), n.heads(n.linear(x, width, width), heads, size, -1, (0, 2, 3, 1)), n.heads(n.linear(x, width, width), heads, size, -1)
        new = n.mul(n.op("MatMul", q, k), n.number(size ** -0.5))
        scores = n.add(new, scores) if scores else new
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 4 * channels, -1, width)
        x = batch_norm(n.add(x, n.linear(y, width, width)))
        x = batch_norm(n.add(x, n.feed_forward(x, width, 256)))
    x = n.reshape(n.transpose(n.reshape(x, 4, channels, 42, width), 0, 1, 3, 2), 4, channels, -1)
    x = n.transpose(n.linear(x, 42 * width, 96), 0, 2, 1)
    n.output(n.add(n.mul(x, deviation), mean))


def fusion_forecast(n):
    """A temporal fusion transformer: gated residual networks, weights of eight variables, an LSTM, attention with one set of values."""
    size, steps, variables = 64, 96, 8
    series = n.floats("series", 8, steps, variables, dims=["batch", steps, variables])

    def gated(x, taken, made):
        y = n.linear(elu(n, n.linear(x, taken, size)), size, made)
        a, gate = n.split(n.linear(y, made, 2 * made), -1, made, made)
        short = n.linear(x, taken, made) if taken != made else x
        return n.layer_norm(n.add(n.mul(a, n.op("Sigmoid", gate)), short), made)

    found = [n.linear(part, 1, size) for part in n.split(series, 2, *[1] * variables)]
    weights = n.op("Unsqueeze", n.softmax(gated(n.op("Concat", *found, axis=-1), size * variables, variables)), n.integers(2))
    made = n.op("Concat", *[n.op("Unsqueeze", gated(x, size, size), n.integers(3)) for x in found], axis=3)
    x = n.reduce("ReduceSum", n.mul(made, weights), [-1], 0)
    y = n.transpose(x, 1, 0, 2)
    zeros = n.op("Expand", n.number(0), n.op("Concat", n.integers(1), n.op("Unsqueeze", n.extent(series, 0), n.integers(0)), n.integers(size), axis=0))
    y = n.op("LSTM", y, n.weight(1, 4 * size, size, fan=size), n.weight(1, 4 * size, size, fan=size), n.bias(1, 8 * size), "", zeros, zeros, outs=3, hidden_size=size)[0]
    y = n.transpose(n.op("Squeeze", y, n.integers(1)), 1, 0, 2)
    a, gate = n.split(n.linear(y, size, 2 * size), -1, size, size)
    x = gated(n.layer_norm(n.add(n.mul(a, n.op("Sigmoid", gate)), x), size), size, size)
    v, heads = n.linear(x, size, 16), []
    hidden = n.constant(np.triu(np.ones((steps, steps), bool), 1))
    for _ in range(4):
        q, k = n.linear(x, size, 16), n.linear(x, size, 16)
        scores = n.op("Div", n.op("MatMul", q, n.transpose(k, 0, 2, 1)), n.number(4))
        heads.append(n.op("Unsqueeze", n.op("MatMul", n.softmax(n.op("Where", hidden, n.number(-1e9), scores)), v), n.integers(2)))
    y = n.linear(n.reduce("ReduceMean", n.op("Concat", *heads, axis=2), [2], 0), 16, size)
    n.output(n.linear(gated(n.layer_norm(n.add(y, x), size), size, size), size, 3))


def deep_ar(n):
    """Forecasts one step after another in a Loop, by two LSTM cells as LSTM nodes of one step; 64 series."""
    size, rows = 64, 64
    covariates = n.floats("covariates", 30, rows, 8)
    body = Net(n.opset, 4)
    here = body.op("Gather", covariates, "i", axis=0)
    x = body.op("Unsqueeze", body.gemm(body.op("Concat", "last", here, axis=-1), 9, size), body.integers(0))
    new = []
    for layer in range(2):
        y, h, c = body.op("LSTM", x, body.weight(1, 4 * size, size, fan=size), body.weight(1, 4 * size, size, fan=size), body.bias(1, 8 * size), "", f"h{layer}", f"c{layer}",
                          outs=3, hidden_size=size)
        x = body.op("Squeeze", y, body.integers(1))
        new += [h, c]
    flat = body.op("Squeeze", x, body.integers(0))
    mean, spread = body.gemm(flat, size, 1), body.op("Softplus", body.gemm(flat, size, 1))
    zeros = n.constant(np.zeros((1, rows, size), "f"))
    states = [("last", n.floats("last", rows, 1), [rows, 1], mean, FLOAT)]
    states += [(name, zeros, [1, rows, size], value, FLOAT) for name, value in zip(("h0", "c0", "h1", "c1"), new)]
    made = loop(n, body, n.index(30), states, [(mean, [rows, 1]), (spread, [rows, 1])], {covariates})
    n.output(made[5]), n.output(made[6])


def stft_mel(n):
    """A second of sound, as 64 mel bands by STFT, then convolutions."""
    sound = n.floats("sound", 1, 16000)
    window = n.constant(np.hanning(400).astype("f"))
    padded = n.op("Pad", n.op("Unsqueeze", sound, n.integers(1)), n.integers(0, 0, 200, 0, 0, 200), "", mode="reflect")
    x = n.op("STFT", n.op("Squeeze", padded, n.integers(1)), n.index(160), window, n.index(400), onesided=1)
    power = n.reduce("ReduceSum", n.op("Pow", x, n.number(2)), [-1], 0)
    x = n.op("MatMul", power, n.constant(n.random.random((201, 64)).astype("f") * 0.05))
    x = n.op("Log", n.op("Clip", x, n.number(1e-10), ""))
    x = n.op("Unsqueeze", n.transpose(x, 0, 2, 1), n.integers(1))
    for taken, made in [(1, 32), (32, 64), (64, 128)]:
        x = n.relu(n.conv(x, taken, made, 3))
        x = n.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
    x = n.reduce("ReduceMean", x, [3], 0)
    x = n.add(n.op("ReduceMax", x, axes=[2], keepdims=0), n.reduce("ReduceMean", x, [2], 0))
    n.output(n.gemm(x, 128, 50))


def fourier_operator(n):
    """Spectral convolutions of a 64 x 64 field: two-dimensional transforms, products of low frequencies as complex Einsums, and back."""
    width, modes, extent = 16, 8, 64
    x = n.linear(n.floats("field", 1, extent, extent, 3), 3, width)
    x = n.transpose(x, 0, 3, 1, 2)
    for layer in range(3):
        y = n.op("Unsqueeze", x, n.integers(-1))
        y = n.op("DFT", y, "", axis=3, onesided=1)
        y = n.op("DFT", y, "", axis=2)
        corner = n.slice(n.slice(y, 3, 0, modes), 2, 0, modes)
        other = n.slice(n.slice(y, 3, 0, modes), 2, -modes, None)
        parts = []
        for part in (corner, other):
            re, im = (n.op("Gather", part, n.index(i), axis=4) for i in (0, 1))
            wr, wi = n.weight(width, width, modes, modes, fan=width), n.weight(width, width, modes, modes, fan=width)
            e = "bixy,ioxy->boxy"
            real = n.op("Sub", n.op("Einsum", re, wr, equation=e), n.op("Einsum", im, wi, equation=e))
            imaginary = n.add(n.op("Einsum", re, wi, equation=e), n.op("Einsum", im, wr, equation=e))
            parts.append(n.op("Concat", n.op("Unsqueeze", real, n.integers(-1)), n.op("Unsqueeze", imaginary, n.integers(-1)), axis=-1))
        middle = n.constant(np.zeros((1, width, extent - 2 * modes, modes, 2), "f"))
        z = n.op("Concat", parts[0], middle, parts[1], axis=2)
        z = n.op("Pad", z, n.integers(0, 0, 0, 0, 0, 0, 0, 0, extent - modes, 0), n.number(0), mode="constant")
        z = n.op("DFT", n.op("DFT", z, "", axis=2, inverse=1), "", axis=3, inverse=1)
        z = n.op("Gather", z, n.index(0), axis=4)
        x = n.add(z, n.conv(x, width, width))
        x = n.gelu(x) if layer < 2 else x
    x = n.transpose(x, 0, 2, 3, 1)
    n.output(n.linear(n.gelu(n.linear(x, width, 64)), 64, 1))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (encodec, 17), (dac, 17), (wave_rnn, 17), (transducer, 17), (rwkv, 17), (mamba2, 17), (retnet, 17), (experts, 18), (t5_decoder, 17), (deberta, 17), (xlnet, 17),
    (albert, 17), (perceiver, 17), (n_beats, 17), (patch_tst, 17), (fusion_forecast, 17), (deep_ar, 17), (stft_mel, 17), (fourier_operator, 17)]}
