# SPDX-License-Identifier: Apache-2.0
"""Networks in the manner of particular exporters: local functions and sub-graphs of PyTorch's newest, tf2onnx with channels last and flat products, Keras, Paddle, MXNet's old opsets,
pipelines of scikit-learn, quantised weights in blocks. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT, Net

HALF, INT64, BOOL, STRING, LEARNED = TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING, "ai.onnx.ml"
TORCH = "pkg.onnxscript.torch_lib"


def function(n, name, inputs, outputs, nodes, attributes=()):
    n.functions.append(helper.make_function(TORCH, name, inputs, outputs, nodes, [helper.make_opsetid("", n.opset), helper.make_opsetid(TORCH, 1)], list(attributes)))


def node(kind, inputs, outputs, domain=None, **attributes):
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def attribute(name, kind, of):
    """An attribute of a node in a function that is the function's own."""
    import onnx
    a = onnx.AttributeProto()
    a.name, a.ref_attr_name, a.type = name, of, kind
    return a


def dynamo_vision(n):
    """Torch's dynamo exporter before its functions are put in line: layers as local functions that call others, IsScalar with If within, Shape with start and end."""
    rank = "Rank"
    function(n, rank, ["x"], ["r"], [node("Shape", ["x"], ["s"]), node("Size", ["s"], ["r"])])
    function(n, "IsScalar", ["x"], ["r"], [node(rank, ["x"], ["k"], TORCH), node("Constant", [], ["zero"], value_int=0), node("Equal", ["k", "zero"], ["r"])])
    scalar = helper.make_graph([node("Constant", [], ["minus"], value_ints=[-1]), node("Reshape", ["x", "minus"], ["flat"]), node("ReduceMean", ["flat"], ["m1"], keepdims=0)], "then", [],
                               [helper.make_tensor_value_info("m1", FLOAT, None)])
    plain = node("ReduceMean", ["x", "dim"], ["m2"])
    plain.attribute.append(attribute("keepdims", 2, "keepdim"))
    other = helper.make_graph([plain], "else", [], [helper.make_tensor_value_info("m2", FLOAT, None)])
    function(n, "aten_mean_dim", ["x", "dim"], ["r"], [node("IsScalar", ["x"], ["alone"], TORCH), node("If", ["alone"], ["r"], then_branch=scalar, else_branch=other)], ["keepdim"])
    function(n, "aten_gelu", ["x"], ["r"], [node("Constant", [], ["half"], value_float=0.5), node("Constant", [], ["root"], value_float=0.70710678), node("Constant", [], ["one"], value_float=1.0),
                                            node("Mul", ["x", "root"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"]), node("Mul", ["half", "c"], ["d"]), node("Mul", ["x", "d"], ["r"])])
    function(n, "aten_linear", ["x", "w", "b"], ["r"], [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"]), node("Add", ["y", "b"], ["r"])])
    dropout = node("aten_linear", ["x", "w1", "b1"], ["a"], TORCH)
    function(n, "feed_forward", ["x", "w1", "b1", "w2", "b2"], ["r"], [dropout, node("aten_gelu", ["a"], ["g"], TORCH), node("aten_linear", ["g", "w2", "b2"], ["r"], TORCH)])

    def call(name, *inputs, **attributes):
        return n.op(name, *inputs, domain=TORCH, **attributes)

    image = n.floats("x", 2, 3, 96, 96, dims=["s0", 3, 96, 96])
    width = 192
    x = n.conv(image, 3, width, 16, 16, 0)
    batch = n.op("Shape", x, start=0, end=1)
    x = n.transpose(n.op("Reshape", x, n.op("Concat", batch, n.integers(width, 36), axis=0), allowzero=1), 0, 2, 1)
    token = n.op("Expand", n.bias(1, 1, width), n.op("Concat", batch, n.integers(1, 1), axis=0))
    x = n.add(n.op("Concat", token, x, axis=1), n.bias(1, 37, width))
    for _ in range(3):
        y = n.layer_norm(x, width)
        qkv = call("aten_linear", y, n.weight(3 * width, width, fan=width), n.bias(3 * width))
        qkv = n.transpose(n.op("Reshape", qkv, n.op("Concat", batch, n.integers(37, 3, 3, 64), axis=0), allowzero=1), 2, 0, 3, 1, 4)
        q, k, v = n.op("Split", qkv, outs=3, axis=0, num_outputs=3)
        q, k, v = (n.op("Squeeze", s, n.integers(0)) for s in (q, k, v))
        scale = n.op("Sqrt", n.op("Div", n.number(1), n.op("Sqrt", n.op("Cast", n.op("Gather", n.op("Shape", q, start=3, end=4), n.index(0)), to=FLOAT))))
        scores = n.op("MatMul", n.mul(q, scale), n.mul(n.transpose(k, 0, 1, 3, 2), scale))
        y = n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3)
        y = n.op("Reshape", y, n.op("Concat", batch, n.integers(37, width), axis=0), allowzero=1)
        x = n.add(x, call("aten_linear", y, n.weight(width, width), n.bias(width)))
        x = n.add(x, call("feed_forward", n.layer_norm(x, width), n.weight(768, width, fan=width), n.bias(768), n.weight(width, 768, fan=768), n.bias(width)))
    x = call("aten_mean_dim", n.layer_norm(x, width), n.integers(1), keepdim=0)
    n.output(call("aten_linear", x, n.weight(100, width, fan=width), n.bias(100)))


def control_flow(n):
    """torch.cond, while_loop and scan of the dynamo exporter: an If that chooses experts by the input's mean, a while whose end depends on data, sums of prefixes by Scan."""
    rows, width = 32, 64
    x = n.floats("x", rows, width, dims=["rows", width])
    mean = n.reduce("ReduceMean", x, [0, 1], 0)

    def deep(b):
        return b.gemm(b.relu(b.gemm(x, width, 128)), 128, width)

    y = n.branch(n.op("Greater", mean, n.number(0)), deep, lambda b: b.op("Tanh", b.gemm(x, width, width)))

    def halve(b, i, v, count):
        v = b.mul(v, b.number(0.7))
        v = b.op("MatMul", v, b.weight(width, width))
        norm = b.op("Sqrt", b.reduce("ReduceSum", b.mul(v, v), [0, 1], 0))
        return [v, b.add(count, b.index(1))], [], b.op("Greater", norm, b.number(8))

    last, count = n.loop("", [(FLOAT, [None, width], y), (INT64, [], n.index(0))], halve, n.op("Greater", n.reduce("ReduceSum", n.mul(y, y), [0, 1], 0), n.number(64)))
    sums, stacked = n.scan([(FLOAT, [width], n.constant(np.zeros(width, "f")))], [(FLOAT, [width], last)],
                           lambda b, s, r: ([b.add(b.mul(s, b.number(0.9)), r)], [b.op("Softplus", b.add(b.mul(s, b.number(0.9)), r))]))
    n.output(stacked), n.output(sums), n.output(count, kind=INT64)


def tf_bert(n):
    """TensorFlow's BERT by tf2onnx: flat products between Reshapes whose shapes come from StridedSlice and Pack, a one-hot product for kinds, norms in pieces, masks by Cast and Sub."""
    width, heads, size, rows, tokens = 256, 4, 64, 2, 48
    ids = n.input("input_ids:0", n.random.integers(0, 1000, (rows, tokens)).astype("i4"), ["unk__1", tokens])
    mask = n.input("input_mask:0", np.ones((rows, tokens), "i4"), ["unk__2", tokens])
    kinds = n.input("segment_ids:0", n.random.integers(0, 2, (rows, tokens)).astype("i4"), ["unk__3", tokens])

    def extent(x, axis):
        s = n.op("Cast", n.op("Shape", x), to=TensorProto.INT32)
        return n.op("Squeeze", n.op("Slice", s, n.integers(axis), n.integers(axis + 1), n.integers(0)), n.integers(0))

    def packed(*dims):
        return n.op("Cast", n.op("Concat", *[n.op("Unsqueeze", d if isinstance(d, str) else n.constant(np.array(d, "i4")), n.integers(0)) for d in dims], axis=0), to=INT64)

    def norm(x):
        mean = n.op("ReduceMean", x, axes=[-1], keepdims=1)
        off = n.op("Sub", x, mean)
        variance = n.op("ReduceMean", n.mul(off, off), axes=[-1], keepdims=1)
        factor = n.mul(n.op("Reciprocal", n.op("Sqrt", n.add(variance, n.number(1e-12)))), n.scale(width))
        return n.add(n.mul(x, factor), n.op("Sub", n.bias(width), n.mul(mean, factor)))

    x = n.op("Gather", n.weight(1000, width, fan=1), n.reshape(ids, -1))
    batch = extent(ids, 0)
    x = n.op("Reshape", x, packed(batch, tokens, width))
    hot = n.op("OneHot", n.op("Cast", n.reshape(kinds, -1), to=INT64), n.integers(2), n.constant(np.array([0, 1], "f")), axis=-1)
    x = n.add(x, n.op("Reshape", n.op("MatMul", hot, n.bias(2, width)), packed(batch, tokens, width)))
    x = n.reshape(norm(n.add(x, n.reshape(n.slice(n.bias(128, width), 0, 0, tokens), 1, tokens, width))), -1, width)
    shown = n.op("Cast", n.op("Reshape", mask, packed(batch, 1, tokens)), to=FLOAT)
    shown = n.mul(ones(n, packed(batch, tokens, 1)), shown)
    added = n.mul(n.op("Sub", n.number(1), n.op("Unsqueeze", shown, n.integers(1))), n.number(-10000))
    for _ in range(3):
        q, k, v = (n.add(n.op("MatMul", x, n.weight(width, width)), n.bias(width)) for _ in range(3))
        q, k, v = (n.transpose(n.op("Reshape", s, packed(batch, tokens, heads, size)), 0, 2, 1, 3) for s in (q, k, v))
        scores = n.add(n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(0.125)), added)
        y = n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3)
        y = n.op("Reshape", y, packed(n.op("Mul", batch, n.constant(np.array(tokens, "i4"))), width))
        x = norm(n.add(n.add(n.op("MatMul", y, n.weight(width, width)), n.bias(width)), x))
        y = n.add(n.op("MatMul", x, n.weight(width, 1024)), n.bias(1024))
        cubed = n.mul(n.op("Pow", y, n.number(3)), n.number(0.044715))
        y = n.mul(y, n.mul(n.number(0.5), n.add(n.number(1), n.op("Tanh", n.mul(n.number(0.7978846), n.add(y, cubed))))))
        x = norm(n.add(n.add(n.op("MatMul", y, n.weight(1024, width)), n.bias(width)), x))
    x = n.op("Reshape", n.add(n.op("MatMul", x, n.transpose(n.weight(2, width, fan=width), 1, 0)), n.bias(2)), packed(batch, tokens, 2))
    start, end = n.op("Split", n.transpose(x, 2, 0, 1), n.integers(1, 1), outs=2, axis=0)
    n.output(n.op("Squeeze", start, n.integers(0))), n.output(n.op("Squeeze", end, n.integers(0)))


def ones(n, shape):
    return n.op("ConstantOfShape", shape, value=helper.make_tensor("", FLOAT, [1], [1.0]))


def tf_detector(n):
    """TensorFlow's object detection by tf2onnx: bytes in NHWC resized in a Loop, image by image, MobileNet with Relu6 and SAME pads, anchors, suppression in a Loop, class by class tops."""
    images = n.input("image_tensor:0", n.random.integers(0, 256, (1, 120, 160, 3)).astype("u1"), ["batch", "height", "width", 3])

    def resized(b, i):
        x = b.op("Cast", b.op("Gather", images, i, axis=0), to=FLOAT)
        x = b.transpose(b.op("Unsqueeze", x, b.integers(0)), 0, 3, 1, 2)
        high_wide = b.slice(b.op("Shape", x), 0, 2, 4)
        sizes = b.op("Div", b.op("Cast", b.integers(128, 128), to=FLOAT), b.op("Cast", high_wide, to=FLOAT))
        x = b.op("Resize", x, "", b.op("Concat", b.constant(np.ones(2, "f")), sizes, axis=0), coordinate_transformation_mode="asymmetric", mode="linear", nearest_mode="floor")
        return [], [b.op("Squeeze", b.transpose(x, 0, 2, 3, 1), b.integers(0))]

    (x,) = n.loop(n.extent(images, 0), [], resized)
    x = n.op("Sub", n.mul(x, n.number(2 / 255)), n.number(1))
    x = n.transpose(n.op("Reshape", x, n.integers(-1, 128, 128, 3)), 0, 3, 1, 2)

    def conv(x, taken, made, size, stride, groups=1, relu=True):
        x = n.op("Conv", x, n.weight(made, taken // groups, size, size), auto_pad="SAME_UPPER", strides=[stride] * 2, kernel_shape=[size] * 2, group=groups, dilations=[1, 1])
        x = n.op("BatchNormalization", x, n.scale(made), n.bias(made), n.bias(made), n.constant((1 + n.random.random(made)).astype("f")), epsilon=1e-3)
        return n.op("Clip", x, n.number(0), n.number(6)) if relu else x

    x, taken, maps = conv(x, 3, 16, 3, 2), 16, []
    for made, stride in ((24, 2), (24, 1), (48, 2), (48, 1), (96, 2), (96, 1)):
        y = conv(conv(x, taken, 4 * taken, 1, 1), 4 * taken, 4 * taken, 3, stride, 4 * taken)
        y = conv(y, 4 * taken, made, 1, 1, relu=False)
        x, taken = n.add(x, y) if made == taken and stride == 1 else y, made
        if stride == 1 and made > 24:
            maps.append((x, made, 16 if made == 48 else 8))
    boxes, scores, count = [], [], 0
    for m, made, extent in maps:
        at = n.transpose(n.add(n.op("Conv", m, n.weight(12, made, 1, 1), kernel_shape=[1, 1]), n.bias(1, 12, 1, 1)), 0, 2, 3, 1)
        kind = n.transpose(n.add(n.op("Conv", m, n.weight(18, made, 1, 1), kernel_shape=[1, 1]), n.bias(1, 18, 1, 1)), 0, 2, 3, 1)
        boxes.append(n.reshape(at, -1, extent * extent * 3, 4)), scores.append(n.reshape(kind, -1, extent * extent * 3, 6))
        count += extent * extent * 3
    boxes, scores = n.op("Concat", *boxes, axis=1), n.op("Sigmoid", n.op("Concat", *scores, axis=1))
    anchors = n.constant(n.random.random((4, count)).astype("f") * 0.5 + 0.1)
    ty, tx, th, tw = n.op("Split", n.transpose(n.reshape(boxes, -1, 4), 1, 0), n.integers(1, 1, 1, 1), outs=4, axis=0)
    ay, ax, ah, aw = n.op("Split", anchors, n.integers(1, 1, 1, 1), outs=4, axis=0)
    cy, cx = n.add(n.mul(n.op("Div", ty, n.number(10)), ah), ay), n.add(n.mul(n.op("Div", tx, n.number(10)), aw), ax)
    h, w = n.mul(n.op("Exp", n.op("Div", th, n.number(5))), ah), n.mul(n.op("Exp", n.op("Div", tw, n.number(5))), aw)
    half = n.number(0.5)
    box = n.op("Concat", n.op("Sub", cy, n.mul(h, half)), n.op("Sub", cx, n.mul(w, half)), n.add(cy, n.mul(h, half)), n.add(cx, n.mul(w, half)), axis=0)
    box = n.op("Clip", n.reshape(n.transpose(box, 1, 0), -1, count, 4), n.number(0), n.number(1))
    scores = n.slice(scores, 2, 1, None)

    def suppressed(b, i):
        here, likely = b.op("Gather", box, i, axis=0), b.op("Gather", scores, i, axis=0)
        chosen = b.op("NonMaxSuppression", b.op("Unsqueeze", here, b.integers(0)), b.op("Unsqueeze", b.transpose(likely, 1, 0), b.integers(0)), b.integers(10), b.constant(np.array([0.6], "f")),
                      b.constant(np.array([0.1], "f")))
        kind, which = b.reshape(b.slice(chosen, 1, 1, 2), -1), b.reshape(b.slice(chosen, 1, 2, 3), -1)
        score = b.op("GatherND", likely, b.slice(b.op("Concat", b.op("Unsqueeze", which, b.integers(1)), b.op("Unsqueeze", kind, b.integers(1)), axis=1), 1, 0, 2))
        many = b.op("Min", b.op("Shape", score), b.integers(20))
        best, order = b.op("TopK", score, many, outs=2, axis=0, largest=1, sorted=1)
        missing = b.op("Sub", b.integers(20), many)
        pads = b.op("Concat", b.integers(0), missing, axis=0)
        rows = b.op("Gather", here, b.op("Gather", which, order, axis=0), axis=0)
        rows = b.op("Pad", rows, b.op("Concat", b.integers(0, 0), missing, b.integers(0), axis=0), b.number(0))
        kinds = b.op("Pad", b.op("Cast", b.op("Gather", kind, order, axis=0), to=FLOAT), pads, b.number(0))
        return [], [rows, b.op("Pad", best, pads, b.number(0)), kinds, b.op("Cast", b.op("Squeeze", many, b.integers(0)), to=FLOAT)]

    for value in n.loop(n.extent(images, 0), [], suppressed):
        n.output(value)


def keras_text(n):
    """Keras 3 by tf2onnx: an embedding with a mask, a bidirectional GRU whose outputs are masked, attention by Dot, convolutions on sequences with channels last."""
    rows, tokens, width = 4, 60, 64
    ids = n.input("ids", np.where(np.arange(tokens) < np.array([60, 40, 50, 30])[:, None], n.random.integers(1, 500, (rows, tokens)), 0).astype("f"), ["unk__5", tokens])
    whole = n.op("Cast", ids, to=TensorProto.INT32)
    mask = n.op("Not", n.op("Equal", whole, n.constant(np.array(0, "i4"))))
    x = n.op("Gather", n.weight(500, width, fan=1), whole)
    for taken in (width, 2 * width):
        w, r, b = n.weight(2, 3 * width, taken, fan=taken), n.weight(2, 3 * width, width, fan=width), n.bias(2, 6 * width)
        batch = n.op("Slice", n.op("Shape", x), n.integers(0), n.integers(1), n.integers(0))
        start = n.op("Expand", n.number(0), n.op("Concat", n.integers(2), batch, n.integers(width), axis=0))
        y = n.op("GRU", n.transpose(x, 1, 0, 2), w, r, b, "", start, outs=2, hidden_size=width, direction="bidirectional", linear_before_reset=1)[0]
        x = n.reshape(n.transpose(y, 2, 0, 1, 3), -1, tokens, 2 * width)
    x = n.mul(x, n.op("Unsqueeze", n.op("Cast", mask, to=FLOAT), n.integers(2)))
    y = n.op("Squeeze", n.op("Conv", n.op("Unsqueeze", n.transpose(x, 0, 2, 1), n.integers(2)), n.weight(96, 2 * width, 1, 5), n.bias(96), kernel_shape=[1, 5], auto_pad="SAME_UPPER"), n.integers(2))
    y = n.transpose(n.relu(y), 0, 2, 1)
    scores = n.op("MatMul", y, n.transpose(y, 0, 2, 1))
    off = n.mul(n.op("Cast", n.op("Not", n.op("Unsqueeze", mask, n.integers(1))), to=FLOAT), n.number(-1e9))
    y = n.op("MatMul", n.softmax(n.add(scores, off), 2), y)
    y = n.op("Squeeze", n.op("GlobalMaxPool", n.transpose(y, 0, 2, 1)), n.integers(2))
    n.output(n.softmax(n.add(n.op("MatMul", y, n.weight(96, 5)), n.bias(5)), 1))


def paddle_text_boxes(n):
    """PaddleOCR's search for text (DB) by paddle2onnx at opset 10: Slice and Squeeze with attributes' successors, Clip and Div for hard swish, Resize by scales, ConvTranspose, height and width symbolic."""
    def norm(x, c):
        return n.op("BatchNormalization", x, n.scale(c), n.bias(c), n.bias(c), n.constant((1 + n.random.random(c)).astype("f")), epsilon=1e-5, momentum=0.9)

    def hard(x):
        return n.op("Div", n.mul(x, n.op("Clip", n.add(x, n.number(3)), min=0.0, max=6.0)), n.number(6))

    def conv(x, taken, made, size=1, stride=1, groups=1):
        return norm(n.conv(x, taken, made, size, stride, groups=groups, bias=False), made)

    x, taken, maps = hard(conv(n.floats("x", 1, 3, 128, 160, dims=["batch", 3, "height", "width"]), 3, 8, 3, 2)), 8, []
    for made, wide, stride, gate in ((8, 8, 1, 0), (16, 32, 2, 0), (16, 48, 1, 0), (24, 48, 2, 1), (24, 64, 1, 1), (48, 96, 2, 0), (48, 120, 1, 1), (80, 192, 2, 1), (80, 240, 1, 1)):
        y = n.relu(conv(x, taken, wide)) if made < 24 else hard(conv(x, taken, wide))
        y = conv(y, wide, wide, 5 if gate else 3, stride, wide)
        y = n.relu(y) if made < 24 else hard(y)
        if gate:
            s = n.relu(n.conv(n.op("GlobalAveragePool", y), wide, wide // 4))
            s = n.op("Clip", n.add(n.mul(n.conv(s, wide // 4, wide), n.number(0.2)), n.number(0.5)), min=0.0, max=1.0)
            y = n.mul(y, s)
        y = conv(y, wide, made)
        if stride == 2 and made > 16:
            maps.append((x, taken))
        x, taken = n.add(x, y) if made == taken and stride == 1 else y, made
    maps.append((x, taken))

    def double(x, factor):
        return n.op("Resize", x, n.constant(np.array([1, 1, factor, factor], "f")), mode="nearest")

    maps = [n.conv(m, c, 48, bias=False) for m, c in maps]
    for i in (2, 1, 0):
        if i + 1 < len(maps):
            maps[i] = n.add(maps[i], double(maps[i + 1], 2))
    parts = [n.conv(m, 48, 12, 3, bias=False) for m in maps]
    x = n.op("Concat", *[double(p, 2 ** i) if i else p for i, p in reversed(list(enumerate(parts)))], axis=1)
    x = n.relu(conv(x, 12 * len(parts), 12, 3))
    x = n.relu(norm(n.conv_transpose(x, 12, 12, 2, 2), 12))
    n.output(n.op("Sigmoid", n.conv_transpose(x, 12, 1, 2, 2)))


def mxnet_faces(n):
    """ArcFace by MXNet's exporter at opset 7: BatchNormalization before and after, PRelu with slopes of one axis reshaped, Sub and Mul of pixels, Dropout, Flatten and a fixed gamma, then a unit length by L2."""
    def norm(x, c, eps=2e-5):
        return n.op("BatchNormalization", x, n.scale(c), n.bias(c), n.bias(c), n.constant((1 + n.random.random(c)).astype("f")), epsilon=eps, momentum=0.9)

    def prelu(x, c):
        return n.op("PRelu", x, n.constant((0.25 + 0.05 * n.random.standard_normal((c, 1, 1))).astype("f")))

    x = n.floats("data", 1, 3, 112, 112)
    x = n.mul(n.op("Sub", x, n.number(0.1)), n.number(0.8))
    x, taken = prelu(norm(n.conv(x, 3, 32, 3, bias=False), 32), 32), 32
    for made, stride in ((32, 2), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2)):
        y = n.conv(norm(x, taken), taken, made, 3, bias=False)
        y = norm(n.conv(prelu(norm(y, made), made), made, made, 3, stride, bias=False), made)
        x = n.add(y, norm(n.conv(x, taken, made, 1, stride, bias=False), made) if stride == 2 else x)
        taken = made
    x = n.op("Dropout", norm(x, 256), ratio=0.4)
    x = norm(n.op("Gemm", n.op("Flatten", x), n.weight(128, 256 * 49, fan=256 * 49), n.bias(128), transA=0, transB=1, alpha=1.0, beta=1.0), 128)
    n.output(n.op("Div", x, n.op("Sqrt", n.op("ReduceSum", n.mul(x, x), axes=[1], keepdims=1))))


def old_upsample(n):
    """Opset 8: Upsample with scales as an attribute, Pad, Slice and Squeeze with attributes, Sum of three, LRN, Elu, ThresholdedRelu, ImageScaler's like, a Reshape to 0 and -1, MaxPool with indices, MaxUnpool."""
    x = n.conv(n.floats("data", 1, 3, 96, 96), 3, 16, 5, 2)
    x = n.op("LRN", n.relu(x), size=5, alpha=1e-4, beta=0.75, bias=1.0)
    x = n.op("Pad", x, mode="edge", pads=[0, 0, 1, 1, 0, 0, 1, 1])
    x = n.op("Elu", n.conv(x, 16, 32, 3, 1, 0), alpha=0.9)
    y, at = n.op("MaxPool", x, outs=2, kernel_shape=[2, 2], strides=[2, 2])
    y = n.op("Sum", n.conv(y, 32, 32, 3), n.conv(y, 32, 32), y)
    up = n.op("Upsample", y, mode="nearest", scales=[1.0, 1.0, 2.0, 2.0])
    z = n.op("Upsample", n.conv(y, 32, 8), mode="linear", scales=[1.0, 1.0, 2.0, 2.0])
    x = n.op("Concat", x, up, z, axis=1)
    x = n.op("Slice", x, axes=[1, 2], starts=[4, 0], ends=[68, -1])
    x = n.op("ThresholdedRelu", n.conv(x, 64, 16, 3), alpha=0.1)
    x = n.op("Squeeze", n.op("ReduceMean", x, axes=[2, 3], keepdims=1), axes=[2, 3])
    n.output(n.op("LogSoftmax", n.op("Gemm", x, n.weight(16, 10), n.bias(10)), axis=1))
    n.output(n.op("Hardmax", n.op("Unsqueeze", n.op("Mean", x, x, n.op("Neg", x)), axes=[0]), axis=2))


def text_pipeline(n):
    """sklearn-onnx: strings tokenised by n-grams' weights (TfIdfVectorizer), scaled, a linear classifier of strings, probabilities as maps (ZipMap)."""
    words = n.input("words", n.random.integers(0, 40, (6, 12)).astype("i8"), ["rows", 12])
    grams = list(range(40)) + [int(v) for pair in n.random.integers(0, 40, (60, 2)) for v in pair]
    x = n.op("TfIdfVectorizer", words, mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 40], ngram_indexes=list(range(100)),
             pool_int64s=grams, weights=(n.random.random(100) + 0.5).astype("f").tolist())
    x = n.op("Normalizer", x, domain=LEARNED, norm="L2")
    label, scores = n.op("LinearClassifier", x, outs=2, domain=LEARNED, classlabels_strings=["a", "b", "c"], coefficients=n.random.standard_normal(300).astype("f").tolist(),
                         intercepts=[0.1, -0.2, 0.05], multi_class=0, post_transform="SOFTMAX")
    scores = n.op("Normalizer", scores, domain=LEARNED, norm="L1")
    n.output(label, kind=STRING), n.output(scores)


def nearest_neighbours(n):
    """sklearn-onnx: imputed, scaled and projected rows, distances by a Scan, TopK, votes of the nearest by OneHot and sums, beside a network (MLPClassifier) and a soft vote."""
    features, points, rows = 20, 300, 40
    x = n.floats("rows", rows, features, dims=["rows", features])
    x = n.op("Scaler", x, domain=LEARNED, offset=n.random.standard_normal(features).astype("f").tolist(), scale=(n.random.random(features) + 0.5).astype("f").tolist())
    p = n.op("MatMul", n.op("Sub", x, n.bias(1, features)), n.weight(features, 8))
    train = n.constant(n.random.standard_normal((points, 8)).astype("f"))
    _, far = n.scan([(FLOAT, [None, 8], p)], [(FLOAT, [8], train)],
                    lambda b, s, t: ([b.op("Identity", s)], [b.op("ReduceSumSquare", b.op("Sub", s, t), axes=[1], keepdims=0)]))
    far = n.transpose(far, 1, 0)
    distance, at = n.op("TopK", n.op("Neg", n.op("Sqrt", far)), n.integers(7), outs=2, axis=1)
    kinds = n.op("ArrayFeatureExtractor", n.constant(n.random.integers(0, 4, points).reshape(1, -1)), n.reshape(at, -1), domain=LEARNED)
    kinds = n.op("Reshape", kinds, n.op("Shape", at))
    votes = n.op("OneHot", kinds, n.integers(4), n.constant(np.array([0, 1], "f")), axis=-1)
    weights = n.op("Unsqueeze", n.op("Reciprocal", n.add(n.op("Neg", distance), n.number(1e-6))), n.integers(2))
    votes = n.reduce("ReduceSum", n.mul(votes, weights), [1], 0)
    near = n.op("Div", votes, n.reduce("ReduceSum", votes, [1]))
    y = n.softmax(n.add(n.op("MatMul", n.relu(n.add(n.op("MatMul", n.relu(n.add(n.op("MatMul", x, n.weight(features, 100)), n.bias(100))), n.weight(100, 50)), n.bias(50))), n.weight(50, 4)), n.bias(4)), 1)
    both = n.add(n.mul(near, n.number(0.4)), n.mul(y, n.number(0.6)))
    n.output(n.op("ArrayFeatureExtractor", n.constant(np.array([[3, 5, 7, 9]])), n.op("ArgMax", both, axis=1, keepdims=0), domain=LEARNED), kind=INT64)
    n.output(both)


def codes_of_sixteen(n):
    """QDQ with activations of 16 bits (opset 21), weights of 8 bits a channel, around norms, Softmax, Gelu, pools and Resize: what Qualcomm's tools make, two kinds of code in one graph."""
    def coded(x, scale, zero, kind="u2"):
        s, z = n.number(scale), n.constant(np.array(zero, kind))
        return n.op("DequantizeLinear", n.op("QuantizeLinear", x, s, z), s, z)

    def wide(x, scale=2e-4):
        return coded(x, scale, 32768)

    def matrix(taken, made):
        scales = ((n.random.random(made) + 0.5) * 0.02 * taken ** -0.5).astype("f")
        return n.op("DequantizeLinear", n.constant(n.random.integers(-127, 128, (taken, made)).astype("i1")), n.constant(scales), n.constant(np.zeros(made, "i1")), axis=1)

    def filters(made, taken, size):
        scales = ((n.random.random(made) + 0.5) * 0.02 * (taken * size * size) ** -0.5).astype("f")
        return n.op("DequantizeLinear", n.constant(n.random.integers(-127, 128, (made, taken, size, size)).astype("i1")), n.constant(scales), n.constant(np.zeros(made, "i1")), axis=0)

    x = wide(n.floats("image", 1, 3, 64, 64))
    for taken, made in ((3, 32), (32, 64)):
        x = wide(n.relu(n.op("Conv", x, filters(made, taken, 3), n.bias(made), kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])), 1e-4)
    x = coded(n.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), 0.02, 100, "u1")
    x = wide(n.transpose(n.reshape(x, 1, 64, 64), 0, 2, 1))
    for _ in range(2):
        y = wide(n.layer_norm(x, 64))
        q, k, v = (wide(n.heads(wide(n.add(n.op("MatMul", y, matrix(64, 64)), n.bias(64))), 4, 16)) for _ in range(3))
        w = coded(n.softmax(wide(n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(0.25)))), 1 / 65535, 0)
        y = wide(n.reshape(n.transpose(wide(n.op("MatMul", w, v)), 0, 2, 1, 3), 1, 64, 64))
        x = wide(n.add(x, wide(n.add(n.op("MatMul", y, matrix(64, 64)), n.bias(64)))))
        y = wide(n.gelu(wide(n.op("MatMul", wide(n.layer_norm(x, 64)), matrix(64, 256)))))
        x = wide(n.add(x, wide(n.op("MatMul", y, matrix(256, 64)))))
    x = wide(n.reshape(n.transpose(x, 0, 2, 1), 1, 64, 8, 8))
    x = wide(n.op("Resize", x, "", n.constant(np.array([1, 1, 4, 4], "f")), coordinate_transformation_mode="half_pixel", mode="linear"))
    n.output(coded(n.op("Conv", x, filters(8, 64, 1), n.bias(8), kernel_shape=[1, 1]), 0.05, 0, "i1"))


def blocked_weights(n):
    """Opset 21: DequantizeLinear of int8 weights in blocks of 32 along the depth before MatMul, tables of 8 bits by Gather then DequantizeLinear, norms in float16 between Casts."""
    width, heads, tokens = 256, 4, 40
    ids = n.input("ids", n.random.integers(0, 500, (1, tokens)), [1, "length"])

    def blocked(taken, made):
        codes = n.constant(n.random.integers(-127, 128, (taken, made)).astype("i1"))
        scales = n.constant(((n.random.random((taken // 32, made)) + 0.5) * 0.018 * taken ** -0.5).astype("f"))
        return n.op("DequantizeLinear", codes, scales, axis=0, block_size=32)

    x = n.op("DequantizeLinear", n.op("Gather", n.constant(n.random.integers(-127, 128, (500, width)).astype("i1")), ids), n.number(0.01), n.constant(np.array(0, "i1")))
    for _ in range(3):
        y = n.op("Cast", n.op("LayerNormalization", n.op("Cast", x, to=HALF), n.constant(np.ones(width, "f2")), n.constant(np.zeros(width, "f2")), axis=-1, epsilon=1e-5), to=FLOAT)
        q, k, v = (n.heads(n.op("MatMul", y, blocked(width, width)), heads, 64, -1) for _ in range(3))
        scores = n.mul(n.op("MatMul", q, n.transpose(k, 0, 1, 3, 2)), n.number(0.125))
        y = n.reshape(n.transpose(n.op("MatMul", n.softmax(scores), v), 0, 2, 1, 3), 0, -1, width)
        x = n.add(x, n.op("MatMul", y, blocked(width, width)))
        y = n.gelu(n.op("MatMul", n.layer_norm(x, width), blocked(width, 768)))
        x = n.add(x, n.op("MatMul", y, blocked(768, width)))
    n.output(x)


MODELS = {f.__name__: (f, opset) for f, opset in [
    (dynamo_vision, 18), (control_flow, 18), (tf_bert, 15), (tf_detector, 16), (keras_text, 17), (paddle_text_boxes, 10), (mxnet_faces, 7), (old_upsample, 8), (text_pipeline, 15),
    (nearest_neighbours, 15), (codes_of_sixteen, 21), (blocked_weights, 21)]}
