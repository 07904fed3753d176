# SPDX-License-Identifier: Apache-2.0
"""Pipelines and models of tables, as sklearn-onnx, LightGBM's converter and torch write them: trees, vector machines, Gaussian processes, TabNet, and
attention on graphs. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_net import FLOAT, Net

LEARNED = "ai.onnx.ml"


def random_trees(n, trees, depth, features, classes, weights):
    """Attributes of a TreeEnsemble whose trees are full; `weights(classes)` are the leaves' rows."""
    node = {key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true", "hitrates")}
    leaf = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    inner = 2 ** depth - 1
    for tree in range(trees):
        for i in range(2 * inner + 1):
            last = i >= inner
            row = [tree, i, 0 if last else int(n.random.integers(features)), "LEAF" if last else "BRANCH_LEQ", 0.0 if last else float(np.float32(n.random.standard_normal())),
                   0 if last else 2 * i + 1, 0 if last else 2 * i + 2, 0, 1.0]
            for key, value in zip(node, row):
                node[key].append(value)
            if last:
                for kind, weight in weights(tree):
                    for key, value in zip(leaf, (tree, i, kind, float(weight))):
                        leaf[key].append(value)
    return {f"nodes_{key}": value for key, value in node.items()}, leaf


def probabilities(n, label, scores, kind=7):
    """Both results; ZipMap is left out as zipmap=False does."""
    n.output(label, "label", kind), n.output(scores, "probabilities")


def light_gbm(n):
    """A pipeline: numbers imputed and scaled, categories as codes of one, joined; 100 trees of two classes; labels by ArrayFeatureExtractor."""
    rows = 200
    numbers = n.floats("numbers", rows, 12, dims=["rows", 12])
    kinds = n.input("kinds", n.random.integers(0, 6, (rows, 1)), ["rows", 1])
    x = n.op("Imputer", numbers, domain=LEARNED, imputed_value_floats=[0.5] * 12, replaced_value_float=float("nan"))
    x = n.op("Scaler", x, domain=LEARNED, offset=n.random.standard_normal(12).astype("f").tolist(), scale=(n.random.random(12) + 0.5).astype("f").tolist())
    codes = n.op("OneHotEncoder", kinds, domain=LEARNED, cats_int64s=list(range(6)), zeros=1)
    x = n.op("Concat", x, n.reshape(codes, -1, 6), axis=-1)
    nodes, leaf = random_trees(n, 100, 5, 18, 1, lambda tree: [(0, n.random.standard_normal() * 0.1)])
    label, scores = n.op("TreeEnsembleClassifier", x, outs=2, domain=LEARNED, **nodes, class_treeids=leaf["treeids"], class_nodeids=leaf["nodeids"], class_ids=leaf["ids"],
                         class_weights=leaf["weights"], classlabels_int64s=[0, 1], post_transform="LOGISTIC")
    best = n.op("ArgMax", scores, axis=1, keepdims=0)
    found = n.op("ArrayFeatureExtractor", n.constant(np.array([10, 20], np.int64)), best, domain=LEARNED)
    label = n.op("Cast", n.reshape(found, -1), to=7)
    probabilities(n, label, scores)


def forest(n):
    """Sixty trees of five classes, leaves with a probability of each; 100 rows."""
    x = n.floats("rows", 100, 20, dims=["rows", 20])

    def shares(tree):
        p = n.random.dirichlet(np.ones(5)) / 60
        return list(enumerate(p))

    nodes, leaf = random_trees(n, 60, 7, 20, 5, shares)
    label, scores = n.op("TreeEnsembleClassifier", x, outs=2, domain=LEARNED, **nodes, class_treeids=leaf["treeids"], class_nodeids=leaf["nodeids"], class_ids=leaf["ids"],
                         class_weights=leaf["weights"], classlabels_strings=["a", "b", "c", "d", "e"], post_transform="NONE")
    probabilities(n, label, scores, 8)


def boosted_sums(n):
    """A regressor of 300 small trees, on one row, and its exponential as LightGBM's Tweedie objective has it."""
    x = n.floats("rows", 1, 30, dims=["rows", 30])
    nodes, leaf = random_trees(n, 300, 4, 30, 1, lambda tree: [(0, n.random.standard_normal() * 0.05)])
    y = n.op("TreeEnsembleRegressor", x, domain=LEARNED, **nodes, target_treeids=leaf["treeids"], target_nodeids=leaf["nodeids"], target_ids=leaf["ids"],
             target_weights=leaf["weights"], n_targets=1, aggregate_function="SUM", base_values=[0.3], post_transform="NONE")
    n.output(n.op("Exp", y))


def vector_machine(n):
    """RBF, four classes, probabilities by Platt's way; 64 rows after a Scaler and a Normalizer."""
    vectors, features, classes = 240, 24, 4
    x = n.floats("rows", 64, features, dims=["rows", features])
    x = n.op("Scaler", x, domain=LEARNED, offset=[0.1] * features, scale=[0.9] * features)
    pairs = classes * (classes - 1) // 2
    label, scores = n.op("SVMClassifier", x, outs=2, domain=LEARNED, classlabels_ints=list(range(classes)), vectors_per_class=[60] * classes, kernel_type="RBF",
                         kernel_params=[0.05, 0.0, 3.0], support_vectors=n.random.standard_normal(vectors * features).astype("f").tolist(),
                         coefficients=n.random.standard_normal((classes - 1) * vectors).astype("f").tolist(), rho=n.random.standard_normal(pairs).astype("f").tolist(),
                         prob_a=(-1 - n.random.random(pairs)).astype("f").tolist(), prob_b=n.random.standard_normal(pairs).astype("f").tolist(), post_transform="NONE")
    probabilities(n, label, scores)


def gaussian_process(n):
    """Distances to 200 points by a Scan over them, an RBF kernel, and means and deviations; 50 rows, as sklearn-onnx writes cdist."""
    features, points = 8, 200
    x = n.floats("rows", 50, features, dims=["rows", features])
    train = n.constant(n.random.standard_normal((points, features)).astype("f"))
    body = Net(n.opset, 5)
    difference = body.op("Sub", "next_in", "next")
    squares = body.op("ReduceSumSquare", difference, axes=[1], keepdims=0)
    same, row = body.op("Identity", "next_in"), body.op("Identity", squares)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(body.nodes, "scan", [info("next_in", FLOAT, [None, features]), info("next", FLOAT, [features])],
                              [info(same, FLOAT, [None, features]), info(row, FLOAT, [None])], body.constants)
    _, far = n.op("Scan", x, train, outs=2, body=graph, num_scan_inputs=1)
    far = n.transpose(far, 1, 0)
    k = n.mul(n.number(1.5), n.op("Exp", n.mul(n.op("Div", far, n.number(0.8 ** 2 * features)), n.number(-0.5))))
    mean = n.add(n.op("MatMul", k, n.weight(points, 1)), n.number(0.2))
    half = n.op("MatMul", k, n.weight(points, points))
    variance = n.op("Sub", n.number(1.5), n.reduce("ReduceSum", n.mul(half, k), [1], 0))
    n.output(mean), n.output(n.op("Sqrt", n.op("Abs", variance)))


def tab_net(n):
    """Two steps of features chosen by sparsemax (TopK, CumSum, GatherElements), gates of halves; 128 rows."""
    features, width = 32, 32
    x = n.floats("rows", 128, features, dims=["rows", features])

    def norm(x, width):
        return n.op("BatchNormalization", x, n.scale(width), n.bias(width), n.bias(width), n.constant(np.ones(width, "f")), epsilon=1e-5)

    def glu(x, taken, made):
        y = norm(n.op("MatMul", x, n.weight(taken, 2 * made)), 2 * made)
        return n.mul(n.slice(y, 1, 0, made), n.op("Sigmoid", n.slice(y, 1, made, None)))

    def transformer(x):
        y = glu(x, features, width)
        for _ in range(3):
            y = n.mul(n.add(y, glu(y, width, width)), n.number(0.5 ** 0.5))
        return y

    def sparsemax(x):
        x = n.op("Sub", x, n.op("ReduceMax", x, axes=[-1], keepdims=1))
        ordered, _ = n.op("TopK", x, n.integers(features), outs=2, axis=-1, largest=1, sorted=1)
        rho = n.constant(np.arange(1, features + 1, dtype="f")[None])
        sums = n.op("Sub", n.op("CumSum", ordered, n.index(-1)), n.number(1))
        support = n.op("Greater", n.mul(rho, ordered), sums)
        count = n.op("ReduceSum", n.op("Cast", support, to=7), n.integers(-1), keepdims=1)
        tau = n.op("GatherElements", sums, n.op("Sub", count, n.index(1)), axis=-1)
        tau = n.op("Div", tau, n.op("Cast", count, to=FLOAT))
        return n.op("Clip", n.op("Sub", x, tau), n.number(0), "")

    x = norm(x, features)
    prior = n.op("ConstantOfShape", n.op("Shape", x), value=helper.make_tensor("", FLOAT, [1], [1.0]))
    a, total = n.slice(transformer(x), 1, 16, None), None
    for _ in range(3):
        mask = sparsemax(n.mul(norm(n.op("MatMul", a, n.weight(16, features)), features), prior))
        prior = n.mul(n.op("Sub", n.number(1.3), mask), prior)
        y = transformer(n.mul(mask, x))
        out, a = n.relu(n.slice(y, 1, 0, 16)), n.slice(y, 1, 16, None)
        total = n.add(total, out) if total else out
    n.output(n.gemm(total, 16, 5))


def graph_attention(n):
    """Two GAT layers of four heads: scores of edges, maxima and sums of each target by ScatterElements, weights times messages added up."""
    points, edges = 400, 3000
    x = n.floats("points", points, 64, dims=["points", 64])
    ends = n.input("edges", n.random.integers(0, points, (2, edges)), [2, "edges"])
    source, target = (n.op("Gather", ends, n.index(i), axis=0) for i in (0, 1))
    taken = 64
    for heads, size in ((4, 16), (4, 16)):
        h = n.reshape(n.op("MatMul", x, n.weight(taken, heads * size)), -1, heads, size)
        left, right = (n.reduce("ReduceSum", n.mul(h, n.bias(1, heads, size)), [-1], 0) for _ in range(2))
        scores = n.op("LeakyRelu", n.add(n.op("Gather", left, source, axis=0), n.op("Gather", right, target, axis=0)), alpha=0.2)
        wide = n.op("Expand", n.op("Unsqueeze", target, n.integers(1)), n.op("Shape", scores))
        shape = n.dims(n.extent(x, 0), heads)
        low = n.op("ConstantOfShape", shape, value=helper.make_tensor("", FLOAT, [1], [-3.4e38]))
        most = n.op("ScatterElements", low, wide, scores, axis=0, reduction="max")
        weights = n.op("Exp", n.op("Sub", scores, n.op("Gather", most, target, axis=0)))
        zero = n.op("ConstantOfShape", shape, value=helper.make_tensor("", FLOAT, [1], [0.0]))
        sums = n.op("ScatterElements", zero, wide, weights, axis=0, reduction="add")
        weights = n.op("Div", weights, n.add(n.op("Gather", sums, target, axis=0), n.number(1e-16)))
        message = n.mul(n.op("Gather", h, source, axis=0), n.op("Unsqueeze", weights, n.integers(-1)))
        zero = n.op("ConstantOfShape", n.dims(n.extent(x, 0), heads, size), value=helper.make_tensor("", FLOAT, [1], [0.0]))
        at = n.op("Expand", n.op("Unsqueeze", target, n.integers(1, 2)), n.op("Shape", message))
        x = n.op("Elu", n.add(n.reshape(n.op("ScatterElements", zero, at, message, axis=0, reduction="add"), -1, heads * size), n.bias(heads * size)), alpha=1.0)
        taken = heads * size
    n.output(n.op("LogSoftmax", n.gemm(x, taken, 7), axis=1))


MODELS = {f.__name__: (f, opset) for f, opset in [
    (light_gbm, 17), (forest, 17), (boosted_sums, 17), (vector_machine, 17), (gaussian_process, 17), (tab_net, 17), (graph_attention, 18)]}
