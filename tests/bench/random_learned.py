# SPDX-License-Identifier: Apache-2.0
"""Rows of random_operators.py of the domain ai.onnx.ml ("ai.onnx.ml:Name@version")."""
import numpy as np
from onnx import helper

F = np.float32
I64 = np.int64
TRANSFORMS = ["NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


def matrix(d, columns, types=(F, F, np.float64, I64, np.int32)):
    return d.tensor(d.pick(types), [d.number(1, 20), columns], special=0.02)


def tree(d, features, depth, modes):
    """Nodes of one random tree as (mode, feature, split, true, false), None for leaves."""
    nodes = []

    def grow(level):
        at = len(nodes)
        nodes.append(None)
        if level < depth and (d.maybe(0.8) or not level):
            left = grow(level + 1)
            right = grow(level + 1)
            nodes[at] = (d.pick(modes), d.number(0, features - 1), float(F(d.pick([d.r.uniform(-3, 3), d.number(-3, 3)]))), left, right)
        return at

    grow(0)
    return nodes


def trees(d, prefix, targets, features, weights):
    modes = d.pick([["BRANCH_LEQ"], ["BRANCH_LEQ"], ["BRANCH_LT"], ["BRANCH_GT"], ["BRANCH_GTE"], ["BRANCH_EQ"], ["BRANCH_NEQ"],
                    ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]])
    a = {f"nodes_{name}": [] for name in ("falsenodeids", "featureids", "modes", "nodeids", "treeids", "truenodeids", "values", "missing_value_tracks_true")}
    a.update({f"{prefix}_{name}": [] for name in ("ids", "nodeids", "treeids", "weights")})
    missing = d.maybe(0.4)
    ids = d.pick([list(range(targets)), [0], [targets - 1]])
    for t in range(d.number(1, 12)):
        for i, node in enumerate(tree(d, features, d.number(1, 5), modes)):
            mode, feature, split, left, right = node or ("LEAF", 0, 0.0, 0, 0)
            for name, value in (("falsenodeids", right), ("featureids", feature), ("modes", mode), ("nodeids", i), ("treeids", t), ("truenodeids", left),
                                ("values", split), ("missing_value_tracks_true", int(missing and d.maybe()))):
                a["nodes_" + name].append(value)
            if node is None:
                for target in ids if d.maybe(0.8) else [d.pick(ids)]:
                    a[f"{prefix}_ids"].append(target)
                    a[f"{prefix}_nodeids"].append(i)
                    a[f"{prefix}_treeids"].append(t)
                    a[f"{prefix}_weights"].append(weights())
    if not missing and d.maybe():
        del a["nodes_missing_value_tracks_true"]
    return a


def tree_regressor(d):
    features, targets = d.number(1, 6), d.number(1, 3)
    a = trees(d, "target", targets, features, lambda: d.r.uniform(-1, 1))
    a.update({"n_targets": targets, "post_transform": d.pick(["NONE", "NONE", "LOGISTIC", "SOFTMAX"]), "aggregate_function": d.pick(["SUM", "SUM", "AVERAGE", "MIN", "MAX"])})
    if d.maybe(0.3):
        a["base_values"] = [d.r.uniform(-1, 1) for _ in range(targets)]
    return [matrix(d, features)], a


def tree_classifier(d):
    features, classes = d.number(1, 6), d.number(2, 4)
    positive = d.maybe(0.4)
    a = trees(d, "class", classes, features, lambda: d.r.uniform(0 if positive else -1, 1))
    a.update({"classlabels_int64s": d.r.sample(range(-9, 9), classes) if classes > 2 else [0, 1], "post_transform": d.pick(TRANSFORMS)})
    if d.maybe(0.3) and classes > 2:
        a["base_values"] = [d.r.uniform(-1, 1) for _ in range(classes)]
    # With leaves that name both classes ONNX Runtime leaves a score of theirs as it finds the memory.
    if classes == 2 and set(a["class_ids"]) == {0} and d.maybe(0.3):
        a["base_values"] = [d.r.uniform(-1, 1)]
    return [matrix(d, features)], a, 2


def tree_ensemble(d):
    dtype, features, targets = d.pick([F, np.float64]), d.number(1, 6), d.number(1, 3)
    a = {name: [] for name in ("nodes_falseleafs", "nodes_falsenodeids", "nodes_featureids", "nodes_missing_value_tracks_true", "nodes_trueleafs", "nodes_truenodeids",
                               "leaf_targetids", "tree_roots")}
    modes, splits, weights, members = [], [], [], []
    kinds = d.pick([[0], [0, 1, 2, 3], [0, 4, 5], [0, 6]])
    for _ in range(d.number(1, 8)):
        nodes = tree(d, features, d.number(1, 4), kinds)
        inner = {i: len(modes) + k for k, i in enumerate(i for i, node in enumerate(nodes) if node)}
        a["tree_roots"].append(inner[0])
        for node in nodes:
            if not node:
                continue
            mode, feature, split, left, right = node
            modes.append(mode)
            splits.append(split)
            if mode == 6:
                members.extend([float(v) for v in d.r.sample(range(-3, 4), d.number(1, 3))] + [np.nan])
            a["nodes_featureids"].append(feature)
            a["nodes_missing_value_tracks_true"].append(d.number(0, 1))
            for side, child in (("true", left), ("false", right)):
                leaf = nodes[child] is None
                a[f"nodes_{side}leafs"].append(int(leaf))
                a[f"nodes_{side}nodeids"].append(len(weights) if leaf else inner[child])
                if leaf:
                    a["leaf_targetids"].append(d.number(0, targets - 1))
                    weights.append(d.r.uniform(-1, 1))
    kind = 1 if dtype == F else 11
    a["nodes_modes"] = helper.make_tensor("modes", 2, [len(modes)], modes)
    a["nodes_splits"] = helper.make_tensor("splits", kind, [len(splits)], splits)
    a["leaf_weights"] = helper.make_tensor("weights", kind, [len(weights)], weights)
    if 6 in modes:
        a["membership_values"] = helper.make_tensor("members", kind, [len(members)], members)
    a.update({"n_targets": targets, "aggregate_function": d.number(0, 3), "post_transform": d.pick([0, 0, 1, 2])})
    x = d.tensor(dtype, [d.number(1, 20), features], special=0.02)
    # ONNX Runtime's sets are of integers: it takes 0.6 for a member of {0}.
    return [np.round(x) if d.maybe() or 6 in modes else x], a


def linear_regressor(d):
    features, targets = d.number(1, 6), d.number(1, 3)
    a = {"coefficients": [d.r.uniform(-1, 1) for _ in range(features * targets)], "targets": targets, "post_transform": d.pick(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])}
    if d.maybe(0.7):
        a["intercepts"] = [d.r.uniform(-1, 1) for _ in range(targets)]
    return [matrix(d, features, (F,))], a


def linear_classifier(d):
    features, classes = d.number(1, 6), d.number(1, 4)
    a = {"coefficients": [d.r.uniform(-1, 1) for _ in range(features * classes)], "intercepts": [d.r.uniform(-1, 1) for _ in range(classes)],
         "classlabels_ints": d.r.sample(range(-9, 9), max(classes, 2)), "post_transform": d.pick(TRANSFORMS)}
    return [matrix(d, features)], a, 2


def support_vectors(d, features, vectors):
    kernel = d.pick(["LINEAR", "RBF", "POLY", "SIGMOID"])
    return {"kernel_type": kernel, "kernel_params": [d.r.uniform(0.05, 0.5), d.r.uniform(-0.5, 0.5), float(d.number(1, 3))],
            "support_vectors": [d.r.uniform(-2, 2) for _ in range(features * vectors)]}


def svm_regressor(d):
    features, vectors = d.number(1, 6), d.number(1, 8)
    a = support_vectors(d, features, vectors)
    a.update({"coefficients": [d.r.uniform(-1, 1) for _ in range(vectors)], "n_supports": vectors, "rho": [d.r.uniform(-1, 1)], "one_class": int(d.maybe(0.3))})
    return [matrix(d, features, (F,))], a


def svm_classifier(d):
    features, classes = d.number(1, 6), d.number(2, 4)
    counts = [d.number(1, 4) for _ in range(classes)]
    vectors, pairs = sum(counts), classes * (classes - 1) // 2
    a = support_vectors(d, features, vectors)
    a.update({"coefficients": [d.r.uniform(-1, 1) for _ in range(vectors * (classes - 1))], "rho": [d.r.uniform(-1, 1) for _ in range(pairs)], "vectors_per_class": counts,
              "classlabels_ints": d.r.sample(range(-9, 9), classes), "post_transform": d.pick(["NONE", "NONE", "LOGISTIC", "SOFTMAX"])})
    if d.maybe(0.4):
        a.update({"prob_a": [d.r.uniform(-2, -0.5) for _ in range(pairs)], "prob_b": [d.r.uniform(-0.5, 0.5) for _ in range(pairs)]})
    return [matrix(d, features, (F, F, np.float64))], a, 2


def scaler(d):
    features = d.number(1, 5)
    count = d.pick([1, features])
    return [matrix(d, features)], {"offset": [d.r.uniform(-1, 1) for _ in range(count)], "scale": [d.r.uniform(-1, 1) for _ in range(count)]}


def imputer(d):
    features = d.number(1, 5)
    count = d.pick([1, features])
    if d.maybe():
        x = d.tensor(F, [d.number(1, 6), features], special=0.5)
        return [x], {"imputed_value_floats": [d.r.uniform(-1, 1) for _ in range(count)], "replaced_value_float": d.pick([float("nan"), 0.0])}
    return [d.tensor(I64, [d.number(1, 6), features])], {"imputed_value_int64s": [d.number(5, 9) for _ in range(count)], "replaced_value_int64": d.number(-2, 2)}


def normalizer(d):
    return [d.tensor(d.pick([F, F, np.float64, I64, np.int32]), d.shape(1, 2, empty=0), special=0)], {"norm": d.pick(["MAX", "L1", "L2"])}


def binarizer(d):
    return [d.tensor(F, d.shape(1, 3))], {"threshold": d.r.uniform(-2, 2)} if d.maybe() else {}


def extractor(d):
    x = d.tensor(d.pick([F, I64, np.float64]), d.shape(1, 3, empty=0))
    return [x, d.n.randint(0, x.shape[-1], d.number(1, 6)).astype(I64)], {}


def vectorizer(d):
    rows, dtype = d.number(1, 4), d.pick([F, I64, np.float64])
    parts = [d.tensor(dtype, [rows, d.number(1, 4)]) for _ in range(d.number(1, 4))]
    return parts, {"inputdimensions": [p.shape[1] if d.maybe(0.8) else d.number(1, 5) for p in parts]}


def label_encoder(d):
    keys = d.r.sample(range(-8, 8), d.number(1, 8))
    kind = d.pick(["int64s", "floats"])
    a = {f"keys_{kind}": keys if kind == "int64s" else [float(k) for k in keys]}
    values = d.pick(["int64s", "floats"])
    a[f"values_{values}"] = [d.number(0, 99) if values == "int64s" else d.r.uniform(0, 9) for _ in keys]
    if d.maybe():
        a["default_int64" if values == "int64s" else "default_float"] = 77 if values == "int64s" else 0.5
    x = d.n.randint(-8, 8, d.shape(1, 3)).astype(I64 if kind == "int64s" else F)
    return [x], a


def one_hot(d):
    cats = d.r.sample(range(-8, 8), d.number(1, 8))
    return [d.n.randint(-8, 8, d.shape(1, 3, empty=0)).astype(d.pick([I64, F, np.int32]))], {"cats_int64s": cats, "zeros": d.pick([1, 1, 0])}


ML = {
    "TreeEnsembleRegressor@3": (3, tree_regressor), "TreeEnsembleRegressor": (1, tree_regressor), "TreeEnsembleClassifier@3": (3, tree_classifier),
    "TreeEnsembleClassifier": (1, tree_classifier), "TreeEnsemble": (5, tree_ensemble), "LinearRegressor": (1, linear_regressor),
    "LinearClassifier": (1, linear_classifier), "SVMRegressor": (1, svm_regressor), "SVMClassifier": (1, svm_classifier), "Scaler": (1, scaler),
    "Imputer": (1, imputer), "Normalizer": (1, normalizer), "Binarizer": (1, binarizer), "ArrayFeatureExtractor": (1, extractor),
    "FeatureVectorizer": (1, vectorizer), "LabelEncoder@2": (2, label_encoder), "LabelEncoder@4": (4, label_encoder), "OneHotEncoder": (1, one_hot),
}
LEARNED = {f"ai.onnx.ml:{name}": row for name, row in ML.items()}
