#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""learned_models.py FOLDER: models of attention, products with 4-bit weights, tree ensembles, normalisations and activations on the
shapes of transformers, for compare.sh:

    learned_models.py models && compare.sh models/*.onnx

Needs python3-onnx."""
import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

random = np.random.default_rng(1)
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
FLOAT, INT32 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32


def floats(*shape):
    return (random.standard_normal(shape) * 0.1).astype("f")


def save(name, node, inputs, constants, outputs=("y",), domain="com.microsoft", version=1):
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info(*i) for i in inputs], [onnx.ValueInfoProto(name=o) for o in outputs],
                              [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()])
    opsets = [helper.make_opsetid("", 20 if domain else version)] + ([helper.make_opsetid(domain, version)] if domain else [])
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    onnx.save(model, os.path.join(folder, name + ".onnx"))


HEADS, SIZE = 12, 64
for queries in 1, 128, 1024:
    shape = [1, queries, HEADS * SIZE]
    save(f"attention_{queries}", helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=HEADS),
         [("q", FLOAT, shape), ("k", FLOAT, [1, 1024, HEADS * SIZE]), ("v", FLOAT, [1, 1024, HEADS * SIZE])], {})

CACHE = 2048
save("group_query_2048", helper.make_node("GroupQueryAttention", ["q", "k", "v", "pk", "pv", "last", "total"], ["y", "nk", "nv"], domain="com.microsoft", num_heads=32,
                                          kv_num_heads=8),
     [("q", FLOAT, [1, 1, 32 * SIZE]), ("k", FLOAT, [1, 1, 8 * SIZE]), ("v", FLOAT, [1, 1, 8 * SIZE]), ("pk", FLOAT, [1, 8, CACHE, SIZE]), ("pv", FLOAT, [1, 8, CACHE, SIZE])],
     {"last": np.array([CACHE], "i4"), "total": np.array(CACHE + 1, "i4")}, ("y", "nk", "nv"))

for rows in 1, 64:
    save(f"weights_of_4_bits_{rows}", helper.make_node("MatMulNBits", ["a", "b", "s"], ["y"], domain="com.microsoft", K=4096, N=4096, bits=4, block_size=32),
         [("a", FLOAT, [rows, 4096])], {"b": random.integers(0, 256, (4096, 128, 16), dtype="u1"), "s": floats(4096 * 128)})


def trees(count, features, depth):
    nodes = {name: [] for name in ("falsenodeids", "featureids", "modes", "nodeids", "treeids", "truenodeids", "values")}
    target = {name: [] for name in ("ids", "nodeids", "treeids", "weights")}
    inner = 2 ** depth - 1
    for tree in range(count):
        for i in range(2 * inner + 1):
            leaf = i >= inner
            for name, value in (("falsenodeids", 0 if leaf else 2 * i + 2), ("featureids", int(random.integers(features))), ("modes", "LEAF" if leaf else "BRANCH_LEQ"),
                                ("nodeids", i), ("treeids", tree), ("truenodeids", 0 if leaf else 2 * i + 1), ("values", float(random.uniform(0, 1)))):
                nodes[name].append(value)
            if leaf:
                for name, value in (("ids", 0), ("nodeids", i), ("treeids", tree), ("weights", float(random.uniform(-1, 1)))):
                    target[name].append(value)
    return {**{"nodes_" + k: v for k, v in nodes.items()}, **{"target_" + k: v for k, v in target.items()}, "n_targets": 1}


for rows in 1, 1000:
    save(f"trees_1000_by_{rows}", helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **trees(1000, 50, 6)), [("x", FLOAT, [rows, 50])], {},
         domain="ai.onnx.ml")

ROWS = [1, 128, 768]
save("simplified_normalization", helper.make_node("SimplifiedLayerNormalization", ["x", "g"], ["y"], axis=-1, epsilon=1e-6), [("x", FLOAT, ROWS)], {"g": floats(768)}, domain="",
     version=17)
save("skip_normalization", helper.make_node("SkipLayerNormalization", ["x", "s", "g", "b"], ["y"], domain="com.microsoft", epsilon=1e-6), [("x", FLOAT, ROWS), ("s", FLOAT, ROWS)],
     {"g": floats(768), "b": floats(768)})
for name in "Gelu", "FastGelu", "QuickGelu":
    save(name.lower(), helper.make_node(name, ["x"], ["y"], domain="com.microsoft"), [("x", FLOAT, [1, 128, 3072])], {})
