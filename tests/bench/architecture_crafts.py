# SPDX-License-Identifier: Apache-2.0
"""Networks of crafts and of tools whose exports differ: Keras with channels last, Caffe2 at old opsets, JAX, scikit-learn and boosting at large sizes, dense heads of detectors with what follows
them, video and volumes, deformed convolutions, speakers, separated sources, features of sound, histories and towers, graphs that turn with their atoms, images read as sequences.
What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT
from architecture_tables import LEARNED, random_trees

INT64, BOOL, STRING = TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


def fill(n, shape, value=0.0):
    return n.op("ConstantOfShape", shape, value=helper.make_tensor("", FLOAT, [1], [value]))


def batch_norm(n, x, channels):
    return n.op("BatchNormalization", x, n.scale(channels), n.bias(channels), n.bias(channels), n.constant((0.5 + n.random.random(channels)).astype("f")), epsilon=1e-3)


def keras_separable(n):
    """Keras by tf2onnx, nothing folded: a Transpose round each convolution, depthwise weights by Reshape and Transpose in the graph, SAME as Pad and as auto_pad, BatchNormalization apart, pools
    in NHWC, a Dense on four axes, gates of squeeze and excite; the batch is symbolic."""
    x = n.floats("image", 2, 96, 96, 3, dims=["batch", 96, 96, 3])
    there, back = lambda v: n.transpose(v, 0, 3, 1, 2), lambda v: n.transpose(v, 0, 2, 3, 1)
    six = lambda v: n.op("Min", n.op("Max", v, n.number(0)), n.number(6))
    norm = lambda v, c: back(batch_norm(n, there(v), c))
    x = n.op("Pad", x, n.integers(0, 0, 0, 0, 0, 1, 1, 0), n.number(0))
    x = six(norm(back(n.op("Conv", there(x), n.weight(16, 3, 3, 3), kernel_shape=[3, 3], strides=[2, 2])), 16))
    taken = 16
    for made, stride in ((24, 1), (48, 2), (48, 1), (96, 2), (96, 1)):
        if stride == 2:
            x = n.op("Pad", x, n.integers(0, 0, 0, 0, 0, 1, 1, 0), n.number(0))
        w = n.transpose(n.reshape(n.constant((n.random.standard_normal((3, 3, taken, 1)) * 0.4).astype("f")), 3, 3, 1, taken), 3, 2, 0, 1)
        y = n.op("Conv", there(x), w, group=taken, kernel_shape=[3, 3], strides=[stride] * 2, **({"auto_pad": "SAME_UPPER"} if stride == 1 else {}))
        y = six(norm(back(y), taken))
        y = norm(back(n.op("Conv", there(y), n.weight(made, taken, 1, 1), kernel_shape=[1, 1])), made)
        s = n.reduce("ReduceMean", y, [1, 2])
        s = n.op("Sigmoid", n.linear(n.relu(n.linear(s, made, made // 4)), made // 4, made))
        y = n.mul(y, s)
        x, taken = n.add(x, y) if taken == made and stride == 1 else six(y), made
    x = n.relu(n.add(n.reshape(n.op("MatMul", n.reshape(x, -1, 96), n.weight(96, 128)), -1, 12, 12, 128), n.bias(128)))
    x = back(n.op("MaxPool", there(x), kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"))
    n.output(n.softmax(n.linear(n.reduce("ReduceMean", x, [1, 2], 0), 128, 100)))


def keras_forecast(n):
    """Keras by tf2onnx: a GRU that resets after, backwards and forwards with a mask as sequence_lens, TimeDistributed layers by Reshapes, Conv1D by Unsqueeze and Conv of two axes, a second
    GRU's last state, RepeatVector by Tile, a decoder; the batch is symbolic."""
    x = n.floats("series", 16, 48, 12, dims=["batch", 48, 12])
    batch = n.op("Unsqueeze", n.extent(x, 0), n.integers(0))
    y = n.op("Conv", n.op("Unsqueeze", n.transpose(x, 0, 2, 1), n.integers(2)), n.weight(32, 12, 1, 5), kernel_shape=[1, 5], strides=[1, 1], pads=[0, 4, 0, 0])
    y = n.transpose(n.op("Squeeze", y, n.integers(2)), 0, 2, 1)
    y = n.relu(n.add(y, n.bias(32)))
    lengths = n.op("Cast", n.op("Expand", n.index(48), batch), to=TensorProto.INT32)
    w, r, b = n.weight(2, 144, 32, fan=32), n.weight(2, 144, 48, fan=48), n.bias(2, 288)
    y = n.op("GRU", n.transpose(y, 1, 0, 2), w, r, b, lengths, n.op("Expand", n.number(0), n.op("Concat", n.integers(2), batch, n.integers(48), axis=0)), outs=2, hidden_size=48,
             direction="bidirectional", linear_before_reset=1)[0]
    y = n.reshape(n.transpose(y, 2, 0, 1, 3), -1, 48, 96)
    y = n.reshape(n.relu(n.add(n.op("MatMul", n.reshape(y, -1, 96), n.weight(96, 64)), n.bias(64))), -1, 48, 64)
    last = n.op("GRU", n.transpose(y, 1, 0, 2), n.weight(1, 144, 64, fan=64), n.weight(1, 144, 48, fan=48), n.bias(1, 288), outs=2, hidden_size=48, linear_before_reset=1)[1]
    held = n.op("Tile", n.op("Unsqueeze", n.op("Squeeze", last, n.integers(0)), n.integers(1)), n.integers(1, 12, 1))
    y = n.op("LSTM", n.transpose(held, 1, 0, 2), n.weight(1, 128, 48, fan=48), n.weight(1, 128, 32, fan=32), n.bias(1, 256), outs=3, hidden_size=32)[0]
    y = n.transpose(n.op("Squeeze", y, n.integers(1)), 1, 0, 2)
    n.output(n.reshape(n.add(n.op("MatMul", n.reshape(y, -1, 32), n.weight(32, 3)), n.bias(3)), -1, 12, 3))


def caffe_shuffle(n):
    """Caffe2's and PyTorch 1.0's at opset 7: BatchNormalization after grouped convolutions, channels shuffled by Reshape with 0 and Transpose, Upsample with scales as an attribute, Concat, LRN,
    Dropout, SpatialBN's Mul and Add with `unsqueezed` vectors, a Reshape whose shape comes from Shape, Slice and Concat, Gemm with a bias of one row."""
    x = n.floats("image", 1, 3, 128, 128)
    conv = lambda x, taken, made, size, stride=1, groups=1: n.relu(batch_norm(n, n.conv(x, taken, made, size, stride, groups=groups, bias=False), made))
    x = n.op("LRN", conv(x, 3, 24, 3, 2), size=5, alpha=1e-4, beta=0.75, bias=1.0)
    x, taken = n.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 24
    stages = []
    for made, repeats in ((120, 2), (240, 3)):
        for k in range(repeats):
            groups = 3 if taken > 24 else 1
            grown = made - taken if k == 0 else made
            mid = made // 4 // 3 * 3
            y = conv(x, taken, mid, 1, groups=groups)
            extent = 32 >> (len(stages) + (k > 0))
            y = n.reshape(n.transpose(n.reshape(y, 0, 3, mid // 3, -1), 0, 2, 1, 3), 0, mid, -1, extent)
            y = batch_norm(n, n.conv(y, mid, mid, 3, 2 if k == 0 else 1, groups=mid, bias=False), mid)
            y = batch_norm(n, n.conv(y, mid, grown, 1, groups=3, bias=False), grown)
            x = n.relu(n.op("Concat", n.op("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), y, axis=1) if k == 0 else n.op("Sum", x, y))
            taken = made
        stages.append(x)
    up = n.op("Upsample", conv(stages[1], 240, 120, 1), mode="nearest", scales=[1.0, 1.0, 2.0, 2.0])
    y = n.mul(n.op("Concat", up, stages[0], axis=1), n.scale(240, 1, 1))
    y = n.op("Dropout", n.add(y, n.bias(240, 1, 1)), ratio=0.5)
    y = n.op("GlobalAveragePool", conv(y, 240, 256, 3))
    shape = n.op("Concat", n.op("Slice", n.op("Shape", y), axes=[0], starts=[0], ends=[1]), n.integers(-1), axis=0)
    n.output(n.softmax(n.op("Gemm", n.op("Reshape", y, shape), n.weight(100, 256, fan=256), n.bias(100), transB=1), 1))
    n.output(n.op("Upsample", n.conv(stages[0], 120, 2, 1), mode="linear", scales=[1.0, 1.0, 4.0, 4.0]))


def jax_transformer(n):
    """JAX by way of StableHLO: dot_general as Einsum and as MatMul between Reshapes, iota by Range and Expand for the causal mask, select by Where, normalisation and softmax in pieces with
    their maxima, rsqrt as Reciprocal of Sqrt, gelu by Tanh and integer powers, embeddings by GatherND with clamped indices, a dynamic slice of the last token."""
    words, width, heads, length = 300, 192, 6, 48
    size = width // heads
    ids = n.input("ids", n.random.integers(0, words, (2, length)), [2, length])
    end = n.input("end", np.array(40), [])
    rows = n.op("Unsqueeze", n.op("Min", n.op("Max", ids, n.index(0)), n.index(words - 1)), n.integers(2))
    x = n.add(n.op("GatherND", n.weight(words, width, fan=1), rows), n.op("Expand", n.op("Unsqueeze", n.bias(length, width), n.integers(0)), n.integers(2, length, width)))
    iota = lambda axis: n.op("Expand", n.op("Unsqueeze", n.op("Range", n.index(0), n.index(length), n.index(1)), n.integers(axis)), n.integers(length, length))
    causal = n.op("Expand", n.op("Unsqueeze", n.op("GreaterOrEqual", iota(1), iota(0)), n.integers(0, 1)), n.integers(2, heads, length, length))

    def norm(x):
        mean = n.op("Div", n.reduce("ReduceSum", x, [2]), n.number(width))
        square = n.op("Div", n.reduce("ReduceSum", n.mul(x, x), [2]), n.number(width))
        variance = n.op("Max", n.op("Sub", square, n.mul(mean, mean)), n.number(0))
        factor = n.mul(n.op("Expand", n.op("Reciprocal", n.op("Sqrt", n.add(variance, n.number(1e-6)))), n.integers(2, length, width)), n.op("Expand", n.scale(1, 1, width), n.integers(2, length, width)))
        return n.add(n.mul(n.op("Sub", x, n.op("Expand", mean, n.integers(2, length, width))), factor), n.op("Expand", n.bias(1, 1, width), n.integers(2, length, width)))

    for _ in range(3):
        y = norm(x)
        q, k, v = (n.add(n.op("Einsum", y, n.weight(width, heads, size, fan=width), equation="abc,cde->abde"), n.op("Expand", n.bias(1, 1, heads, size), n.integers(2, length, heads, size))) for _ in range(3))
        scores = n.op("Einsum", n.op("Div", q, n.number(size ** 0.5)), k, equation="bqhd,bkhd->bhqk")
        scores = n.op("Where", causal, scores, n.op("Expand", n.number(-1e10), n.integers(2, heads, length, length)))
        most = n.op("Max", n.reduce("ReduceMax", scores, [3]), n.number(float("-inf")))
        e = n.op("Exp", n.op("Sub", scores, most))
        weights = n.op("Div", e, n.reduce("ReduceSum", e, [3]))
        y = n.transpose(n.op("Einsum", v, weights, equation="bkhd,bhqk->bhdq"), 0, 3, 1, 2)
        x = n.add(x, n.op("Einsum", y, n.weight(heads, size, width, fan=width), equation="abcd,cde->abe"))
        h = n.reshape(n.add(n.op("MatMul", n.reshape(norm(x), 2 * length, width), n.weight(width, 4 * width)), n.op("Expand", n.bias(1, 4 * width), n.integers(2 * length, 4 * width))), 2, length, 4 * width)
        cube = n.mul(n.mul(h, h), h)
        h = n.mul(h, n.mul(n.number(0.5), n.add(n.number(1), n.op("Tanh", n.mul(n.number((2 / np.pi) ** 0.5), n.add(h, n.mul(n.number(0.044715), cube)))))))
        x = n.add(x, n.op("Einsum", h, n.weight(4 * width, width), equation="abc,cd->abd"))
    at = n.op("Unsqueeze", n.op("Where", n.op("Less", end, n.index(0)), n.op("Add", end, n.index(length)), end), n.integers(0))
    last = n.reshape(n.op("Slice", norm(x), at, n.op("Add", at, n.integers(1)), n.integers(1)), 2, width)
    n.output(n.op("Gemm", last, n.weight(width, words), n.bias(words)))


def large_boost(n):
    """XGBoost's: 600 trees of depth 7 on 80 columns, three classes, 2,000 rows, Softmax."""
    x = n.floats("rows", 2000, 80, dims=["rows", 80])
    nodes, leaf = random_trees(n, 600, 7, 80, 3, lambda tree: [(tree % 3, n.random.standard_normal() * 0.05)])
    nodes["nodes_modes"] = ["BRANCH_LT" if mode != "LEAF" else mode for mode in nodes["nodes_modes"]]
    label, scores = n.op("TreeEnsembleClassifier", x, outs=2, domain=LEARNED, **nodes, class_treeids=leaf["treeids"], class_nodeids=leaf["nodeids"], class_ids=leaf["ids"],
                         class_weights=leaf["weights"], classlabels_int64s=[0, 1, 2], post_transform="SOFTMAX", base_values=[0.5, 0.5, 0.5])
    n.output(label, kind=INT64), n.output(scores)


def uneven_trees(n):
    """LightGBM's: 300 trees of 63 leaves each, that grow where it helps and so are deep on one side, missing values that go either way, categories as BRANCH_EQ, one output; 500 rows."""
    x = n.random.standard_normal((500, 40)).astype("f")
    x[n.random.random(x.shape) < 0.1] = np.nan
    x[:, 30:] = np.floor(n.random.random((500, 10)) * 8)
    rows = n.input("rows", x, ["rows", 40])
    node = {key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true", "hitrates")}
    leaf = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(300):
        kinds, branches, leaves = {0: None}, {}, [0]
        while len(leaves) < 63:
            at = leaves.pop(int(len(leaves) * n.random.random() ** 3))
            branches[at] = (len(kinds), len(kinds) + 1)
            for child in branches[at]:
                kinds[child] = None
                leaves.insert(0, child)
        for i in kinds:
            inner = i in branches
            feature = int(n.random.integers(40)) if inner else 0
            mode = ("BRANCH_EQ" if feature >= 30 else "BRANCH_LEQ") if inner else "LEAF"
            value = float(n.random.integers(8)) if feature >= 30 else float(np.float32(n.random.standard_normal()))
            row = [tree, i, feature, mode, value if inner else 0.0, *(branches[i] if inner else (0, 0)), int(n.random.integers(2)) if inner else 0, 1.0]
            for key, v in zip(node, row):
                node[key].append(v)
            if not inner:
                for key, v in zip(leaf, (tree, i, 0, float(n.random.standard_normal() * 0.05))):
                    leaf[key].append(v)
    n.output(n.op("TreeEnsembleRegressor", rows, domain=LEARNED, **{f"nodes_{key}": v for key, v in node.items()}, n_targets=1, target_treeids=leaf["treeids"], target_nodeids=leaf["nodeids"],
                  target_ids=leaf["ids"], target_weights=leaf["weights"], post_transform="NONE", aggregate_function="SUM"))


def mixed_columns(n):
    """A ColumnTransformer: columns of strings through OneHotEncoder and LabelEncoder, numbers imputed, scaled, cut into bins by comparisons and made polynomials of by products, a sparse-like
    projection, then a stack of a linear SVM, a logistic regression and a Gaussian naive Bayes whose votes are averaged; strings out."""
    count = 300
    colours, towns = ["red", "green", "blue", "grey"], [f"town {k}" for k in range(30)]
    colour = n.input("colour", n.random.choice(colours, (count, 1)).astype(object), ["rows", 1])
    town = n.input("town", n.random.choice(towns, (count, 1)).astype(object), ["rows", 1])
    values = n.random.standard_normal((count, 10)).astype("f")
    values[n.random.random(values.shape) < 0.05] = np.nan
    numbers = n.input("numbers", values, ["rows", 10])
    hot = n.reshape(n.op("OneHotEncoder", colour, domain=LEARNED, cats_strings=colours, zeros=1), -1, 4)
    code = n.op("LabelEncoder", town, domain=LEARNED, keys_strings=towns, values_floats=n.random.random(30).astype("f").tolist(), default_float=-1.0)
    x = n.op("Imputer", numbers, domain=LEARNED, imputed_value_floats=[0.1] * 10, replaced_value_float=float("nan"))
    x = n.op("Scaler", x, domain=LEARNED, offset=[0.1] * 10, scale=[1.2] * 10)
    columns = [n.op("ArrayFeatureExtractor", x, n.integers(k), domain=LEARNED) for k in range(5)]
    powers = [n.mul(columns[a], columns[b]) for a in range(5) for b in range(a, 5)]
    edges = n.constant(np.linspace(-1, 1, 6).astype("f")[None, None])
    bins = n.op("Cast", n.op("ReduceSum", n.op("Cast", n.op("Greater", n.op("Unsqueeze", x, n.integers(2)), edges), to=FLOAT), n.integers(2), keepdims=0), to=FLOAT)
    x = n.op("Concat", x, bins, *powers, code, hot, axis=1)
    wide = 10 + 10 + 15 + 1 + 4
    x = n.op("Normalizer", n.op("MatMul", n.op("Sub", x, n.bias(wide)), n.weight(wide, 24)), domain=LEARNED, norm="L2")
    _, first = n.op("LinearClassifier", x, outs=2, domain=LEARNED, coefficients=n.random.standard_normal(72).astype("f").tolist(), intercepts=[0.1, 0.0, -0.1], classlabels_ints=[0, 1, 2],
                    multi_class=1, post_transform="SOFTMAX")
    support = n.random.standard_normal((60, 24)).astype("f")
    _, second = n.op("SVMClassifier", x, outs=2, domain=LEARNED, kernel_type="LINEAR", kernel_params=[0.1, 0.0, 3.0], support_vectors=support.ravel().tolist(), vectors_per_class=[20, 20, 20],
                     coefficients=(n.random.standard_normal(120) * 0.3).astype("f").tolist(), rho=[0.1, -0.1, 0.05], prob_a=[-1.0, -1.2, -0.9], prob_b=[0.0, 0.1, 0.0], classlabels_ints=[0, 1, 2])
    means, spread = n.bias(1, 3, 24), n.constant((0.5 + n.random.random((1, 3, 24))).astype("f"))
    far = n.op("Div", n.op("Pow", n.op("Sub", n.op("Unsqueeze", x, n.integers(1)), means), n.number(2)), spread)
    joint = n.add(n.mul(n.reduce("ReduceSum", far, [2], 0), n.number(-0.5)), n.bias(3))
    third = n.op("Exp", n.op("Sub", joint, n.reduce("ReduceLogSumExp", joint, [1])))
    votes = n.op("Div", n.add(first, second, third), n.number(3))
    label = n.op("ArrayFeatureExtractor", n.constant(np.array([["low", "middle", "high"]], object)), n.op("ArgMax", votes, axis=1, keepdims=0), domain=LEARNED)
    n.output(n.reshape(label, -1), kind=STRING), n.output(votes)


def outliers(n):
    """sklearn-onnx: an isolation forest, whose paths' lengths come from two tree ensembles and are made one number, and a local outlier factor by distances (CDist), TopK and Gather; 200 rows."""
    x = n.floats("rows", 200, 8, dims=["rows", 8])
    lengths = []
    for _ in range(2):
        nodes, leaf = random_trees(n, 50, 6, 8, 1, lambda tree: [(0, 4 + n.random.random() * 4)])
        lengths.append(n.op("TreeEnsembleRegressor", x, domain=LEARNED, **nodes, n_targets=1, target_treeids=leaf["treeids"], target_nodeids=leaf["nodeids"], target_ids=leaf["ids"],
                            target_weights=leaf["weights"]))
    score = n.op("Pow", n.number(2), n.op("Neg", n.op("Div", n.add(*lengths), n.number(100 * 6.5))))
    train = n.constant(n.random.standard_normal((400, 8)).astype("f"))
    own = n.constant((0.8 + n.random.random(400)).astype("f"))
    density = n.constant((0.5 + n.random.random(400)).astype("f"))
    far = n.op("CDist", x, train, domain="com.microsoft", metric="euclidean")
    near, at = n.op("TopK", far, n.integers(20), outs=2, axis=1, largest=0, sorted=1)
    reach = n.op("Max", near, n.op("Gather", own, at))
    mine = n.op("Reciprocal", n.add(n.reduce("ReduceMean", reach, [1], 0), n.number(1e-10)))
    factor = n.op("Div", n.reduce("ReduceMean", n.op("Gather", density, at), [1], 0), mine)
    n.output(score), n.output(factor)
    n.output(n.op("Where", n.op("Less", factor, n.number(1.5)), n.index(1), n.index(-1)), kind=INT64)


def retina_net(n):
    """torchvision's: heads that five maps share, scores of each map above a threshold by NonZero and TopK of at most 200, boxes decoded and clipped, all maps' joined, suppression by classes as
    offsets of boxes, the best 50."""
    x = n.op("MaxPool", n.relu(n.conv(n.floats("image", 1, 3, 192, 192), 3, 32, 7, 2)), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    maps, taken = [], 32
    for made in (48, 64, 96):
        x = n.relu(n.conv(n.relu(n.conv(x, taken, made, 3, 2)), made, made, 3))
        maps.append(n.conv(x, made, 64))
        taken = made
    for k in (1, 0):
        up = n.op("Resize", maps[k + 1], "", "", n.op("Concat", n.integers(1, 64), n.op("Slice", n.op("Shape", maps[k]), n.integers(2), n.integers(4), n.integers(0)), axis=0), mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        maps[k] = n.add(maps[k], up)
    maps.append(n.conv(x, taken, 64, 3, 2))
    maps.append(n.conv(n.relu(maps[-1]), 64, 64, 3, 2))
    towers = [[(n.weight(64, 64, 3, 3), n.bias(64)) for _ in range(2)] + [(n.weight(6 * made, 64, 3, 3), n.constant(np.full(6 * made, -2.0 if made > 4 else 0, "f")))] for made in (8, 4)]
    boxes, scores, labels = [], [], []
    for level, x in enumerate(maps):
        heads = []
        for tower, made in zip(towers, (8, 4)):
            y = x
            for k, (w, b) in enumerate(tower):
                y = n.op("Conv", y, w, b, kernel_shape=[3, 3], pads=[1] * 4)
                y = n.relu(y) if k < 2 else y
            shape = n.op("Shape", y)
            h, w = (n.op("Gather", shape, n.index(axis)) for axis in (2, 3))
            y = n.transpose(n.op("Reshape", y, n.dims(1, 6, made, h, w)), 0, 3, 4, 1, 2)
            heads.append(n.reshape(y, -1, made))
        extent = [24, 12, 6, 3, 2][level]
        ys, xs = np.meshgrid(np.arange(extent), np.arange(extent), indexing="ij")
        sides = np.array([[s, s * r] for s in (1, 1.4) for r in (0.5, 1, 2)], "f") * 8 * 2 ** level * 2
        centre = np.stack([xs, ys], -1).reshape(-1, 1, 2) * 8 * 2 ** level + 4
        anchors = np.concatenate([np.broadcast_to(centre, (extent ** 2, 6, 2)), np.broadcast_to(sides, (extent ** 2, 6, 2))], -1).reshape(-1, 4).astype("f")
        flat = n.reshape(n.op("Sigmoid", heads[0]), -1)
        kept = n.op("Squeeze", n.op("NonZero", n.op("Greater", flat, n.number(0.15))), n.integers(0))
        count = n.op("Min", n.extent(kept, 0), n.index(200))
        best, order = n.op("TopK", n.op("Gather", flat, kept), n.reshape(count, 1), outs=2)
        at = n.op("Gather", kept, order)
        row = n.op("Div", at, n.index(8))
        labels.append(n.op("Mod", at, n.index(8)))
        delta, anchor = n.op("Gather", heads[1], row, axis=0), n.op("Gather", n.constant(anchors), row, axis=0)
        (dxy, dwh), (pxy, pwh) = n.split(delta, 1, 2, 2), n.split(anchor, 1, 2, 2)
        middle = n.add(pxy, n.mul(dxy, pwh))
        half = n.mul(n.op("Exp", n.op("Clip", dwh, "", n.number(4))), pwh, n.number(0.5))
        boxes.append(n.op("Clip", n.op("Concat", n.op("Sub", middle, half), n.add(middle, half), axis=1), n.number(0), n.number(192)))
        scores.append(best)
    boxes, scores, labels = (n.op("Concat", *v, axis=0) for v in (boxes, scores, labels))
    shift = n.mul(n.op("Cast", labels, to=FLOAT), n.add(n.op("ReduceMax", boxes, keepdims=0), n.number(1)))
    moved = n.add(boxes, n.op("Unsqueeze", shift, n.integers(1)))
    chosen = n.op("NonMaxSuppression", n.op("Unsqueeze", moved, n.integers(0)), n.op("Unsqueeze", scores, n.integers(0, 1)), n.index(1000), n.number(0.5))
    chosen = n.slice(n.op("Squeeze", n.op("Gather", chosen, n.integers(2), axis=1), n.integers(1)), 0, 0, 50)
    n.output(n.op("Gather", boxes, chosen, axis=0)), n.output(n.op("Gather", scores, chosen)), n.output(n.op("Gather", labels, chosen), kind=INT64)


def center_net(n):
    """Peaks of maps by a pool that equals its input, TopK twice, offsets and sizes by GatherElements; transposed convolutions up, a deformed convolution at the end (DeformConv of opset 19)."""
    x, taken = n.floats("image", 1, 3, 128, 128, dims=["batch", 3, 128, 128]), 3
    for made in (32, 48, 64, 96):
        x, taken = n.relu(n.conv(n.relu(n.conv(x, taken, made, 3, 2)), made, made, 3)), made
    for made in (64, 48):
        offset, mask = n.conv(x, taken, 18, 3), n.op("Sigmoid", n.conv(x, taken, 9, 3))
        x = n.relu(n.op("DeformConv", x, n.weight(made, taken, 3, 3), offset, n.bias(made), mask, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1], dilations=[1, 1], group=1, offset_group=1))
        x, taken = n.relu(n.conv_transpose(x, made, made, 4, 2, 1)), made
    heat, offset, size = (n.conv(n.relu(n.conv(x, taken, 48, 3)), 48, made) for made in (10, 2, 2))
    heat = n.op("Sigmoid", heat)
    peak = n.mul(heat, n.op("Cast", n.op("Equal", n.op("MaxPool", heat, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1]), heat), to=FLOAT))
    each, at = n.op("TopK", n.reshape(peak, 0, 10, -1), n.integers(40), outs=2)
    best, which = n.op("TopK", n.reshape(each, 0, -1), n.integers(40), outs=2)
    kinds = n.op("Div", which, n.index(40))
    place = n.op("GatherElements", n.reshape(at, 0, -1), which, axis=1)
    rows, columns = n.op("Cast", n.op("Div", place, n.index(32)), to=FLOAT), n.op("Cast", n.op("Mod", place, n.index(32)), to=FLOAT)
    wanted = n.op("Expand", n.op("Unsqueeze", place, n.integers(2)), n.integers(1, 1, 2))
    pick = lambda v: n.op("GatherElements", n.reshape(n.transpose(v, 0, 2, 3, 1), 0, -1, 2), wanted, axis=1)
    centre = n.add(n.op("Concat", n.op("Unsqueeze", columns, n.integers(2)), n.op("Unsqueeze", rows, n.integers(2)), axis=2), pick(offset))
    half = n.mul(pick(size), n.number(0.5))
    n.output(n.mul(n.op("Concat", n.op("Sub", centre, half), n.add(centre, half), axis=2), n.number(4))), n.output(best), n.output(kinds, kind=INT64)


def video_x3d(n):
    """X3D: a convolution of space, then of time of each channel, blocks with depthwise convolutions in three dimensions, gates of squeeze and excite, Swish; 8 frames of 64."""
    x = n.conv(n.floats("video", 1, 3, 8, 64, 64, dims=["batch", 3, 8, 64, 64]), 3, 24, (1, 3, 3), 1, [0, 1, 1], rank=3, bias=False)
    x = n.relu(n.op("Conv", x, n.weight(24, 1, 5, 1, 1), n.bias(24), group=24, kernel_shape=[5, 1, 1], pads=[2, 0, 0, 2, 0, 0], strides=[1, 1, 1], dilations=[1, 1, 1]))
    taken = 24
    for made, repeats in ((24, 2), (48, 2), (96, 2)):
        for k in range(repeats):
            inner, stride = int(made * 2.25), 2 if k == 0 else 1
            y = n.relu(n.conv(x, taken, inner, 1, rank=3))
            y = n.op("Conv", y, n.weight(inner, 1, 3, 3, 3), n.bias(inner), group=inner, kernel_shape=[3, 3, 3], pads=[1] * 6, strides=[1, stride, stride], dilations=[1, 1, 1])
            if k == 0:
                s = n.op("GlobalAveragePool", y)
                y = n.mul(y, n.op("Sigmoid", n.conv(n.relu(n.conv(s, inner, 8, rank=3)), 8, inner, rank=3)))
            y = n.conv(n.silu(y), inner, made, 1, rank=3)
            x = n.relu(n.add(y, x if stride == 1 else n.op("Conv", x, n.weight(made, taken, 1, 1, 1), n.bias(made), kernel_shape=[1, 1, 1], strides=[1, 2, 2])))
            taken = made
    x = n.relu(n.conv(n.op("AveragePool", x, kernel_shape=[8, 8, 8], strides=[1, 1, 1]), 96, 256, 1, rank=3))
    n.output(n.softmax(n.gemm(n.op("Flatten", x, axis=1), 256, 100)))


def volumes(n):
    """nnU-Net on volumes of 32: convolutions in three dimensions with InstanceNormalization and LeakyRelu, strides down, transposed convolutions up, skips, a window by Softmax over classes."""
    block = lambda x, taken, made, stride=1: n.op("LeakyRelu", n.op("InstanceNormalization", n.conv(x, taken, made, 3, stride, rank=3), n.scale(made), n.bias(made), epsilon=1e-5), alpha=0.01)
    x, taken, kept = n.floats("volume", 1, 1, 32, 32, 32), 1, []
    for k, made in enumerate((16, 32, 64)):
        x = block(block(x, taken, made, 1 if k == 0 else 2), made, made)
        kept.append(x)
        taken = made
    for made, skip in ((32, kept[1]), (16, kept[0])):
        x = n.op("Concat", n.conv_transpose(x, taken, made, 2, 2, rank=3), skip, axis=1)
        x, taken = block(block(x, 2 * made, made), made, made), made
    n.output(n.softmax(n.conv(x, 16, 4, 1, rank=3), 1))


def deformed(n):
    """DCNv2 as it is written out where there is no operator: offsets and masks by a convolution, points of nine taps sampled by GridSample, one product; then an OCR head with a bent grid (TPS)."""
    x = n.relu(n.conv(n.floats("image", 1, 3, 64, 128), 3, 32, 3, 2))
    h, w = 32, 64
    ys, xs = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    taps = np.stack(np.meshgrid(np.arange(-1, 2), np.arange(-1, 2), indexing="ij"), -1).reshape(9, 1, 1, 2)[..., ::-1]
    base = n.constant((np.stack([xs, ys], -1)[None] + taps).astype("f").reshape(1, 9 * h, w, 2))
    for taken, made in ((32, 48), (48, 48)):
        offset = n.transpose(n.reshape(n.conv(x, taken, 18, 3), 1, 9, 2, h, w), 0, 1, 3, 4, 2)
        mask = n.op("Sigmoid", n.conv(x, taken, 9, 3))
        points = n.add(base, n.reshape(offset, 1, 9 * h, w, 2))
        points = n.op("Sub", n.op("Div", n.mul(points, n.number(2)), n.constant(np.array([w - 1, h - 1], "f"))), n.number(1))
        seen = n.reshape(n.op("GridSample", x, points, mode="bilinear", align_corners=1, padding_mode="zeros"), 1, taken, 9, h * w)
        seen = n.reshape(n.mul(seen, n.reshape(mask, 1, 1, 9, h * w)), taken * 9, h * w)
        x = n.relu(n.add(n.reshape(n.op("MatMul", n.weight(made, taken * 9, fan=taken * 9), seen), 1, made, h, w), n.bias(made, 1, 1)))
    local = n.op("Flatten", n.op("GlobalAveragePool", n.relu(n.conv(x, 48, 64, 3, 2))), axis=1)
    control = n.reshape(n.op("Tanh", n.gemm(local, 64, 40)), 1, 20, 2)
    bent = n.op("MatMul", n.constant((n.random.standard_normal((16 * 48, 23)) * 0.1).astype("f")), n.op("Concat", n.op("MatMul", n.weight(20, 20), control), n.constant(np.zeros((1, 3, 2), "f")), axis=1))
    y = n.op("GridSample", x, n.reshape(bent, 1, 16, 48, 2), mode="bilinear", align_corners=1, padding_mode="border")
    y = n.op("Squeeze", n.op("MaxPool", n.relu(n.conv(y, 48, 64, 3)), kernel_shape=[16, 1], strides=[16, 1]), n.integers(2))
    n.output(n.op("LogSoftmax", n.linear(n.transpose(y, 2, 0, 1), 64, 40), axis=-1))


def speaker(n):
    """ECAPA-TDNN: Res2 blocks of dilated convolutions on eighths of the channels, gates, attention over frames with means and deviations as context; features from sound by STFT, mel bands,
    logarithms and means taken off; the samples are symbolic."""
    x = n.floats("sound", 1, 16000, dims=["batch", "samples"])
    spectrum = n.op("STFT", x, n.index(160), n.constant(np.hamming(400).astype("f")), n.index(400), onesided=1)
    power = n.reduce("ReduceSum", n.mul(spectrum, spectrum), [3], 0)
    mel = np.maximum(0, 1 - np.abs(np.linspace(0, 40, 201)[:, None] - np.arange(1, 41)[None] * 0.97)).astype("f")
    x = n.op("Log", n.op("Max", n.op("MatMul", power, n.constant(mel)), n.number(1e-3)))
    x = n.transpose(n.op("Sub", x, n.reduce("ReduceMean", x, [1])), 0, 2, 1)
    conv = lambda x, taken, made, size=1, dilation=1: batch_norm(n, n.relu(n.conv(x, taken, made, size, dilation=dilation, rank=1)), made)
    x, kept = conv(x, 40, 128, 5), []
    for dilation in (2, 3, 4):
        y = conv(x, 128, 128)
        parts = n.split(y, 1, *[16] * 8)
        made = [parts[0]]
        for k in range(1, 8):
            made.append(conv(parts[k] if k == 1 else n.add(parts[k], made[-1]), 16, 16, 3, dilation))
        y = conv(n.op("Concat", *made, axis=1), 128, 128)
        s = n.reduce("ReduceMean", y, [2])
        s = n.op("Sigmoid", n.conv(n.relu(n.conv(s, 128, 32, rank=1)), 32, 128, rank=1))
        x = n.add(n.mul(y, s), x)
        kept.append(x)
    x = n.relu(n.conv(n.op("Concat", *kept, axis=1), 384, 384, rank=1))
    mean = n.reduce("ReduceMean", x, [2])
    spread = n.op("Sqrt", n.op("Max", n.reduce("ReduceMean", n.op("Pow", n.op("Sub", x, mean), n.number(2)), [2]), n.number(1e-4)))
    shape = n.op("Shape", x)
    seen = n.op("Concat", x, n.op("Expand", mean, shape), n.op("Expand", spread, shape), axis=1)
    a = n.softmax(n.conv(n.op("Tanh", conv(seen, 1152, 64)), 64, 384, rank=1), 2)
    mean = n.reduce("ReduceSum", n.mul(a, x), [2])
    spread = n.op("Sqrt", n.op("Max", n.reduce("ReduceSum", n.mul(a, n.op("Pow", n.op("Sub", x, mean), n.number(2))), [2]), n.number(1e-4)))
    y = n.op("Flatten", batch_norm(n, n.op("Concat", mean, spread, axis=1), 768), axis=1)
    y = n.gemm(y, 768, 96)
    n.output(n.op("Div", y, n.op("Clip", n.op("ReduceL2", y, axes=[1], keepdims=1), n.number(1e-12))))


def two_voices(n):
    """Conv-TasNet: 16 samples a frame, blocks of depthwise dilated convolutions with PRelu and norms over everything (means of two axes), masks for two voices, frames overlapped by ConvTranspose."""
    x = n.floats("sound", 1, 1, 8000, dims=["batch", 1, "samples"])
    frames = n.relu(n.conv(x, 1, 128, 16, 8, 0, rank=1, bias=False))

    def norm(x, channels):
        mean = n.reduce("ReduceMean", n.reduce("ReduceMean", x, [1]), [2])
        centred = n.op("Sub", x, mean)
        variance = n.reduce("ReduceMean", n.reduce("ReduceMean", n.op("Pow", centred, n.number(2)), [1]), [2])
        return n.add(n.op("Div", n.mul(n.scale(1, channels, 1), centred), n.op("Sqrt", n.add(variance, n.number(1e-8)))), n.bias(1, channels, 1))

    x = n.conv(norm(frames, 128), 128, 64, rank=1)
    slope = lambda: n.constant(np.array([[0.25]], "f"))
    skips = None
    for _ in range(2):
        for k in range(5):
            y = norm(n.op("PRelu", n.conv(x, 64, 128, rank=1), slope()), 128)
            y = norm(n.op("PRelu", n.conv(y, 128, 128, 3, groups=128, dilation=2 ** k, rank=1), slope()), 128)
            x = n.add(x, n.conv(y, 128, 64, rank=1))
            skip = n.conv(y, 128, 64, rank=1)
            skips = n.add(skips, skip) if skips else skip
    mask = n.relu(n.conv(n.op("PRelu", skips, slope()), 64, 256, rank=1))
    shape = n.op("Concat", n.op("Slice", n.op("Shape", frames), n.integers(0), n.integers(1)), n.integers(2, 128, -1), axis=0)
    both = n.mul(n.op("Reshape", mask, shape), n.op("Unsqueeze", frames, n.integers(1)))
    y = n.op("ConvTranspose", n.reshape(both, -1, 128, 999), n.weight(128, 1, 16, fan=128), kernel_shape=[16], strides=[8])
    n.output(n.reshape(y, -1, 2, 8000))


def sound_features(n):
    """Features without a network: pre-emphasis, windows by Gather, DFT, mel bands, a cosine transform (MFCC), differences of them by convolution, means and deviations over sliding windows, pitch by
    autocorrelation and ArgMax, a zero-crossing rate; the samples are symbolic."""
    x = n.floats("sound", 8000, dims=["samples"])
    y = n.op("Sub", n.slice(x, 0, 1, None), n.mul(n.slice(x, 0, 0, -1), n.number(0.97)))
    count = n.op("Div", n.op("Sub", n.extent(y, 0), n.index(400 - 160)), n.index(160))
    starts = n.mul(n.op("Range", n.index(0), count, n.index(1)), n.index(160))
    frames = n.op("Gather", y, n.add(n.op("Unsqueeze", starts, n.integers(1)), n.constant(np.arange(400)[None])))
    padded = n.op("Pad", n.mul(frames, n.constant(np.hanning(400).astype("f"))), n.integers(0, 0, 0, 112), n.number(0))
    spectrum = n.op("DFT", n.op("Unsqueeze", padded, n.integers(2)), axis=1, onesided=1)
    power = n.op("ReduceSumSquare", spectrum, axes=[2], keepdims=0)
    mel = np.maximum(0, 1 - np.abs(np.linspace(0, 27, 257)[:, None] - np.arange(1, 27)[None])).astype("f")
    logs = n.op("Log", n.op("Max", n.op("MatMul", power, n.constant(mel)), n.number(1e-2)))
    cosines = np.cos(np.pi / 26 * (np.arange(26)[:, None] + 0.5) * np.arange(13)[None]).astype("f") * (2 / 26) ** 0.5
    mfcc = n.op("MatMul", logs, n.constant(cosines))
    rows = n.op("Unsqueeze", n.transpose(mfcc, 1, 0), n.integers(1))
    slope = n.constant((np.arange(-2, 3) / 10).astype("f")[None, None])
    first = n.op("Conv", n.op("Pad", rows, n.integers(0, 0, 2, 0, 0, 2), mode="edge"), slope, kernel_shape=[5])
    second = n.op("Conv", n.op("Pad", first, n.integers(0, 0, 2, 0, 0, 2), mode="edge"), slope, kernel_shape=[5])
    all_ = n.transpose(n.op("Squeeze", n.op("Concat", rows, first, second, axis=0), n.integers(1)), 1, 0)
    mean = n.op("AveragePool", n.op("Unsqueeze", n.transpose(all_, 1, 0), n.integers(0)), kernel_shape=[21], strides=[1], pads=[10, 10], count_include_pad=0)
    n.output(n.op("Sub", all_, n.transpose(n.op("Squeeze", mean, n.integers(0)), 1, 0)))
    whole = n.op("DFT", n.op("Unsqueeze", n.op("Pad", frames, n.integers(0, 0, 0, 624), n.number(0)), n.integers(2)), axis=1)
    square = n.op("ReduceSumSquare", whole, axes=[2], keepdims=1)
    likeness = n.slice(n.op("Squeeze", n.slice(n.op("DFT", n.op("Concat", square, n.mul(square, n.number(0)), axis=2), axis=1, inverse=1), 2, 0, 1), n.integers(2)), 1, 30, 300)
    n.output(n.op("Div", n.number(16000), n.op("Cast", n.op("Add", n.op("ArgMax", likeness, axis=1, keepdims=0), n.index(30)), to=FLOAT)))
    sign = n.op("Sign", frames)
    n.output(n.reduce("ReduceMean", n.op("Abs", n.op("Sub", n.slice(sign, 1, 1, None), n.slice(sign, 1, 0, -1))), [1], 0))


def towers(n):
    """A recommender: bags of items by offsets (a Loop that slices, means and stacks), a history by a causal transformer (SASRec), experts with gates for two tasks (MMoE), products with 5,000
    candidates and the best 20; 16 users."""
    users, width, items = 16, 64, 5000
    table = n.weight(items, width, fan=4)
    bag = n.input("bag", n.random.integers(0, items, 200), ["words"])
    offsets = n.input("offsets", np.arange(0, 200, 13)[:users].astype(np.int64), ["users"])
    ends = n.op("Concat", n.slice(offsets, 0, 1, None), n.op("Shape", bag), axis=0)

    def step(b, i):
        at = [b.op("Unsqueeze", b.op("Gather", v, i), b.integers(0)) for v in (offsets, ends)]
        rows = b.op("Gather", table, b.op("Slice", bag, *at, b.integers(0)))
        return [], [b.reduce("ReduceMean", rows, [0], 0)]

    bags = n.loop(n.extent(offsets, 0), [], step)[0]
    history = n.input("history", n.random.integers(0, items, (users, 30)), ["users", 30])
    x = n.add(n.mul(n.op("Gather", table, history), n.number(8)), n.bias(30, width))
    mask = n.constant(np.triu(np.full((30, 30), -1e9, "f"), 1))
    for _ in range(2):
        x = n.layer_norm(n.add(x, n.self_attention(x, width, 2, mask)), width)
        x = n.layer_norm(n.add(x, n.feed_forward(x, width, width, n.relu)), width)
    last = n.op("Gather", x, n.index(-1), axis=1)
    dense = n.floats("dense", users, 13, dims=["users", 13])
    x = n.op("Concat", last, bags, n.relu(n.gemm(n.op("Log", n.add(n.op("Abs", dense), n.number(1))), 13, 32)), axis=1)
    experts = n.op("Concat", *[n.op("Unsqueeze", n.relu(n.gemm(x, 160, 64)), n.integers(1)) for _ in range(4)], axis=1)
    for _ in range(2):
        gate = n.op("Unsqueeze", n.softmax(n.gemm(x, 160, 4)), n.integers(1))
        n.output(n.op("Sigmoid", n.gemm(n.relu(n.gemm(n.op("Squeeze", n.op("MatMul", gate, experts), n.integers(1)), 64, 32)), 32, 1)))
    unit = lambda v: n.op("Div", v, n.op("Max", n.op("ReduceL2", v, axes=[1], keepdims=1), n.number(1e-12)))
    best, at = n.op("TopK", n.op("MatMul", unit(n.gemm(x, 160, width)), n.transpose(unit(table), 1, 0)), n.integers(20), outs=2)
    n.output(best), n.output(at, kind=INT64)


def turning_atoms(n):
    """E(n)-equivariant: messages of edges from distances, places moved along differences, sums by ScatterElements and means by counts, three layers; then pooling of two molecules and a Set2Set."""
    width, atoms, edges = 64, 60, 500
    kinds = n.input("kinds", n.random.integers(0, 10, atoms), ["atoms"])
    place = n.floats("places", atoms, 3, dims=["atoms", 3])
    edge = n.input("edges", n.random.integers(0, atoms, (2, edges)), [2, "edges"])
    of = n.input("molecules", np.sort(n.random.integers(0, 2, atoms)), ["atoms"])
    source, target = (n.op("Squeeze", n.slice(edge, 0, k, k + 1), n.integers(0)) for k in (0, 1))
    h = n.op("Gather", n.weight(10, width, fan=1), kinds)
    count = n.op("Unsqueeze", n.extent(h, 0), n.integers(0))

    def total(rows, at, size, wide):
        index = n.op("Expand", n.op("Unsqueeze", at, n.integers(1)), n.op("Shape", rows))
        return n.op("ScatterElements", fill(n, n.op("Concat", size, n.integers(wide), axis=0)), index, rows, axis=0, reduction="add")

    many = n.op("Max", total(n.op("Expand", n.constant(np.ones((1, 1), "f")), n.op("Concat", n.op("Shape", target), n.integers(1), axis=0)), target, count, 1), n.number(1))
    for _ in range(3):
        apart = n.op("Sub", n.op("Gather", place, source, axis=0), n.op("Gather", place, target, axis=0))
        square = n.op("ReduceSumSquare", apart, axes=[1], keepdims=1)
        m = n.op("Concat", n.op("Gather", h, source, axis=0), n.op("Gather", h, target, axis=0), square, axis=1)
        m = n.silu(n.linear(n.silu(n.linear(m, 2 * width + 1, width)), width, width))
        push = n.linear(n.silu(n.linear(m, width, width)), width, 1, False)
        place = n.add(place, n.op("Div", n.mul(total(n.mul(n.op("Div", apart, n.add(n.op("Sqrt", square), n.number(1))), push), target, count, 3), n.number(0.1)), many))
        h = n.add(h, n.linear(n.silu(n.linear(n.op("Concat", h, total(m, target, count, width), axis=1), 2 * width, width)), width, width))
    n.output(place)
    size = n.op("Add", n.op("ReduceMax", of, keepdims=1), n.integers(1))
    w, r, b = n.weight(1, 4 * width, 2 * width, fan=2 * width), n.weight(1, 4 * width, width, fan=width), n.bias(1, 8 * width)
    q = fill(n, n.op("Concat", size, n.integers(2 * width), axis=0))
    state = [fill(n, n.op("Concat", n.integers(1), size, n.integers(width), axis=0))] * 2
    for _ in range(3):
        _, *state = n.op("LSTM", n.op("Unsqueeze", q, n.integers(0)), w, r, b, "", *state, outs=3, hidden_size=width)
        y = n.op("Squeeze", state[0], n.integers(0))
        e = n.reduce("ReduceSum", n.mul(h, n.op("Gather", y, of, axis=0)), [1])
        top = n.op("ScatterElements", fill(n, n.op("Concat", size, n.integers(1), axis=0), -1e9), n.op("Unsqueeze", of, n.integers(1)), e, axis=0, reduction="max")
        e = n.op("Exp", n.op("Sub", e, n.op("Gather", top, of, axis=0)))
        a = n.op("Div", e, n.add(n.op("Gather", total(e, of, size, 1), of, axis=0), n.number(1e-16)))
        q = n.op("Concat", y, total(n.mul(a, h), of, size, width), axis=1)
    n.output(n.linear(n.silu(n.linear(q, 2 * width, width)), width, 1))


def vision_mamba(n):
    """Vim: patches as a sequence, two directions (one turned round by Slice with a step of -1), short convolutions, and the selective recurrence as a Loop over tokens, in the older exporter's
    manner with Gather and Concat by Unsqueeze; an image of 64, a class token in the middle."""
    width, inner, states, tokens = 96, 192, 8, 65
    x = n.conv(n.floats("image", 1, 3, 64, 64), 3, width, 8, 8, 0)
    x = n.transpose(n.reshape(x, 1, width, 64), 0, 2, 1)
    x = n.add(n.op("Concat", n.slice(x, 1, 0, 32), n.bias(1, 1, width), n.slice(x, 1, 32, None), axis=1), n.bias(1, tokens, width))

    def recurrence(y):
        y = n.silu(n.op("Slice", n.conv(y, inner, inner, 4, 1, [3], inner, rank=1), n.integers(0), n.integers(tokens), n.integers(2)))
        parts = n.linear(n.transpose(y, 0, 2, 1), inner, 6 + 2 * states, False)
        dt, b_, c_ = n.split(parts, 2, 6, states, states)
        dt = n.op("Softplus", n.linear(dt, 6, inner))
        a = n.op("Neg", n.op("Exp", n.bias(inner, states)))
        decay = n.op("Exp", n.mul(n.op("Unsqueeze", dt, n.integers(3)), a))
        given = n.mul(n.op("Unsqueeze", n.mul(dt, n.transpose(y, 0, 2, 1)), n.integers(3)), n.op("Unsqueeze", b_, n.integers(2)))

        def step(b, i, state):
            state = b.add(b.mul(b.op("Gather", decay, i, axis=1), state), b.op("Gather", given, i, axis=1))
            read = b.op("MatMul", state, b.op("Unsqueeze", b.op("Gather", c_, i, axis=1), b.integers(2)))
            return [state], [b.op("Squeeze", read, b.integers(2))]

        read = n.loop(n.index(tokens), [(FLOAT, [1, inner, states], n.constant(np.zeros((1, inner, states), "f")))], step)[1]
        return n.add(n.transpose(read, 1, 2, 0), n.mul(y, n.scale(1, inner, 1)))

    for _ in range(2):
        y = n.linear(n.rms_norm(x, width), width, 2 * inner, False)
        u, z = n.split(n.transpose(y, 0, 2, 1), 1, inner, inner)
        turned = lambda v: n.op("Slice", v, n.integers(-1), n.integers(np.iinfo(np.int64).min), n.integers(2), n.integers(-1))
        both = n.add(recurrence(u), turned(recurrence(turned(u))))
        x = n.add(x, n.linear(n.transpose(n.mul(both, n.silu(z)), 0, 2, 1), inner, width, False))
    n.output(n.gemm(n.op("Gather", n.rms_norm(x, width), n.index(32), axis=1), width, 100))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (keras_separable, 15), (keras_forecast, 15), (caffe_shuffle, 7), (jax_transformer, 17), (large_boost, 15), (uneven_trees, 15), (mixed_columns, 15), (outliers, 15), (retina_net, 17), (center_net, 19),
    (video_x3d, 17), (volumes, 17), (deformed, 17), (speaker, 17), (two_voices, 17), (sound_features, 17), (towers, 17), (turning_atoms, 16), (vision_mamba, 17)]}
