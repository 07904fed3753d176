#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sixteen_bits.py FOLDER [OURO] [PART...]: products, convolutions, attention, recurrent layers, normalisations and activations in float, float16 and
bfloat16, some in double, one model each in FOLDER, and a table of the least time of 15 runs of each: milliseconds in float, and the ratios of the
other types to it. PART: only models whose names have it. OURO: the program (build/ouro). Needs python3-onnx."""
import json
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = sys.argv[1]
ouro = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "../../build/ouro")
parts = sys.argv[3:]
os.makedirs(folder, exist_ok=True)
random = np.random.default_rng(1)
TYPES = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "double": TensorProto.DOUBLE}
names, with_double = [], set()


def floats(*shape):
    return random.standard_normal(shape) * 0.05


def constant(name, values, kind):
    if kind != TensorProto.BFLOAT16:
        return numpy_helper.from_array(values.astype({TensorProto.FLOAT: "f", TensorProto.FLOAT16: "f2", TensorProto.DOUBLE: "d"}[kind]), name)
    bits = (np.ascontiguousarray(values.astype("f")).view("u4") + 0x8000 >> 16).astype("u2")
    return helper.make_tensor(name, TensorProto.BFLOAT16, values.shape, bits.tobytes(), raw=True)


def save(name, operator, inputs, output, constants, integers={}, outputs=("y",), domain="", doubles=True, **attributes):
    """`inputs`, `constants` and `integers` (constants of other types) by name, in the order of the operator's inputs; "": none is there."""
    if parts and not any(part in name for part in parts):
        return
    names.append(name)
    if doubles:
        with_double.add(name)
    node = helper.make_node(operator, [key.strip() for key in (*inputs, *constants, *integers)], list(outputs), domain=domain, **attributes)
    for text, kind in TYPES.items():
        graph = helper.make_graph([node], "graph", [helper.make_tensor_value_info(key, kind, shape) for key, shape in inputs.items()],
                                  [helper.make_tensor_value_info("y", kind, output)] + [onnx.ValueInfoProto(name=key) for key in outputs if key not in ("y", "")],
                                  [constant(key, value, kind) for key, value in constants.items() if key.strip()] +
                                  [numpy_helper.from_array(value, key) for key, value in integers.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)] + ([helper.make_opsetid(domain, 1)] if domain else []))
        model.ir_version = 10
        onnx.save(model, f"{folder}/{name}.{text}.onnx")


def convolution(channels, filters, extent, kernel, stride=1, group=1):
    pad = kernel // 2
    size = (extent + 2 * pad - kernel) // stride + 1
    name = f"Conv {channels} to {filters}, {extent} x {extent}, windows of {kernel}" + (f", stride {stride}" if stride > 1 else "") + (f", {group} groups" if group > 1 else "")
    save(name, "Conv", {"x": [1, channels, extent, extent]}, [1, filters, size, size], {"w": floats(filters, channels // group, kernel, kernel), "b": floats(filters)},
         strides=[stride, stride], pads=[pad] * 4, group=group)


for size in 64, 128, 256, 512, 1024:
    save(f"MatMul {size} x {size} x {size}", "MatMul", {"a": [size, size], "b": [size, size]}, [size, size], {})
    save(f"MatMul {size} x {size} x {size}, constant weights", "MatMul", {"a": [size, size]}, [size, size], {"b": floats(size, size)})
for rows in 1, 4, 16:
    save(f"MatMul {rows} x 4096 x 4096, constant weights", "MatMul", {"a": [rows, 4096]}, [rows, 4096], {"b": floats(4096, 4096)})
save("MatMul 1 x 4096 x 4096", "MatMul", {"a": [1, 4096], "b": [4096, 4096]}, [1, 4096], {})
save("Gemm 1 x 4096 x 4096, transB", "Gemm", {"a": [1, 4096], "b": [4096, 4096]}, [1, 4096], {}, transB=1)
save("MatMul 12 of 128 x 64 x 128", "MatMul", {"a": [12, 128, 64], "b": [12, 64, 128]}, [12, 128, 128], {})
save("MatMul 12 of 128 x 128 x 64", "MatMul", {"a": [12, 128, 128], "b": [12, 128, 64]}, [12, 128, 64], {})
for turn_a, turn_b in (1, 0), (0, 1), (1, 1):
    save("Gemm 512 x 512 x 512" + (", transA" if turn_a else "") + (", transB" if turn_b else ""), "Gemm", {"a": [512, 512], "b": [512, 512]}, [512, 512], {}, transA=turn_a,
         transB=turn_b)
save("Gemm 128 x 768 x 3072, constant weights, bias", "Gemm", {"a": [128, 768]}, [128, 3072], {"b": floats(768, 3072), "c": floats(3072)})
for case in [(64, 64, 56, 3), (128, 128, 28, 3), (256, 256, 14, 3), (512, 512, 7, 3), (128, 128, 56, 3, 2), (64, 256, 56, 1), (256, 64, 56, 1), (1024, 256, 14, 1),
             (512, 2048, 7, 1), (3, 64, 224, 7, 2), (96, 96, 56, 3, 1, 96)]:
    convolution(*case)


HEADS, SIZE = 12, 64
for queries in 1, 128, 1024:
    keys = [1, 1024, HEADS * SIZE]
    save(f"MultiHeadAttention, {queries} queries of 1,024", "MultiHeadAttention", {"q": [1, queries, HEADS * SIZE], "k": keys, "v": keys}, [1, queries, HEADS * SIZE], {},
         domain="com.microsoft", doubles=False, num_heads=HEADS)
    save(f"Attention, {queries} queries of 1,024", "Attention", {"q": [1, HEADS, queries, SIZE], "k": [1, HEADS, 1024, SIZE], "v": [1, HEADS, 1024, SIZE]},
         [1, HEADS, queries, SIZE], {}, doubles=False)
cache, one = [1, 8, 2048, SIZE], [1, 1, 8 * SIZE]
save("GroupQueryAttention, cache of 2,048", "GroupQueryAttention", {"q": [1, 1, 32 * SIZE], "k": one, "v": one, "pk": cache, "pv": cache}, [1, 1, 32 * SIZE], {},
     {"last": np.array([2048], "i4"), "total": np.array(2049, "i4")}, ("y", "nk", "nv"), "com.microsoft", doubles=False, num_heads=32, kv_num_heads=8)
for operator, gates in ("LSTM", 4), ("GRU", 3):
    for steps, batch, hidden in (64, 1, 256), (64, 16, 256), (1, 1, 512):
        save(f"{operator} of {hidden}, {steps} steps, batch {batch}", operator, {"x": [steps, batch, hidden]}, [steps, 1, batch, hidden],
             {"w": floats(1, gates * hidden, hidden), "r": floats(1, gates * hidden, hidden), "b": floats(1, 2 * gates * hidden)}, hidden_size=hidden)
row = [128, 768]
save("LayerNormalization, 128 x 768", "LayerNormalization", {"x": row}, row, {"s": floats(768), "b": floats(768)}, doubles=False)
save("RMSNormalization, 128 x 768", "RMSNormalization", {"x": row}, row, {"s": floats(768)}, doubles=False)
save("SkipLayerNormalization, 128 x 768", "SkipLayerNormalization", {"x": row, "s": row}, row, {"g": floats(768), "b": floats(768)}, domain="com.microsoft", doubles=False)
save("InstanceNormalization, 64 x 56 x 56", "InstanceNormalization", {"x": [1, 64, 56, 56]}, [1, 64, 56, 56], {"s": floats(64), "b": floats(64)}, doubles=False)
save("GroupNormalization, 64 x 56 x 56", "GroupNormalization", {"x": [1, 64, 56, 56]}, [1, 64, 56, 56], {"s": floats(64), "b": floats(64)}, doubles=False, num_groups=8)
save("BatchNormalization, 64 x 56 x 56", "BatchNormalization", {"x": [1, 64, 56, 56]}, [1, 64, 56, 56],
     {"s": floats(64), "b": floats(64), "m": floats(64), "v": np.abs(floats(64)) + 0.5}, doubles=False)
save("Softmax, 12 x 128 x 128", "Softmax", {"x": [12, 128, 128]}, [12, 128, 128], {}, doubles=False)
save("LogSoftmax, 128 x 1000", "LogSoftmax", {"x": [128, 1000]}, [128, 1000], {}, doubles=False)
wide = [128, 3072]
for operator in "Relu", "Sigmoid", "Tanh", "Gelu", "Erf", "HardSwish", "Exp", "Sqrt", "Neg", "Softplus", "Mish", "Elu":
    save(f"{operator}, 128 x 3072", operator, {"x": wide}, wide, {}, doubles=False)
for operator in "Add", "Mul", "Div", "Pow", "Max":
    save(f"{operator}, 128 x 3072", operator, {"x": wide, "z": wide}, wide, {}, doubles=False)
save("Add of a row, 128 x 3072", "Add", {"x": wide, "z": [3072]}, wide, {}, doubles=False)
for operator in "ReduceMean", "ReduceMax", "ReduceL2":
    for axis in 0, 1:
        save(f"{operator} along axis {axis}, 128 x 3072", operator, {"x": wide}, [1, 3072] if axis == 0 else [128, 1], {}, {"axes": np.array([axis], "i8")}, doubles=False)
save("Transpose, 12 x 128 x 64", "Transpose", {"x": [128, 12, 64]}, [12, 128, 64], {}, doubles=False, perm=[1, 0, 2])
save("TopK, 128 x 1000", "TopK", {"x": [128, 1000]}, [128, 10], {}, {"k": np.array([10], "i8")}, ("y", "i"), doubles=False)
save("CumSum, 128 x 3072", "CumSum", {"x": wide}, wide, {}, {"axis": np.array(1, "i8")}, doubles=False)
save("AveragePool, 64 x 56 x 56, windows of 3, stride 2", "AveragePool", {"x": [1, 64, 56, 56]}, [1, 64, 28, 28], {}, doubles=False, kernel_shape=[3, 3], strides=[2, 2],
     pads=[1] * 4)
save("MaxPool, 64 x 56 x 56, windows of 3, stride 2", "MaxPool", {"x": [1, 64, 56, 56]}, [1, 64, 28, 28], {}, doubles=False, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
save("Resize, linear, 64 x 28 x 28, twice", "Resize", {"x": [1, 64, 28, 28]}, [1, 64, 56, 56], {" ": floats(1)}, {"scales": np.array([1, 1, 2, 2], "f")}, doubles=False,
     mode="linear")

print("| | float, ms | float16 | bfloat16 | double |\n|---|--:|--:|--:|--:|")
for name in names:
    least = {}
    for text in TYPES:
        if text == "double" and name not in with_double:
            continue
        done = subprocess.run([ouro, "bench", f"{folder}/{name}.{text}.onnx", "--warmup", "3", "--runs", "15", "--json", f"{folder}/bench.json"], stdout=subprocess.DEVNULL)
        if done.returncode == 0:
            with open(f"{folder}/bench.json") as file:
                least[text] = json.load(file)[0]["min_ms"]
    ratios = [f"{least[text] / least['float']:.2f}" if text in least else "" for text in ("float16", "bfloat16", "double")]
    print(f"| {name} | {least['float']:.4g} | {' | '.join(ratios)} |", flush=True)
