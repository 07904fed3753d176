#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sixteen_bits.py FOLDER [OURO] [PART...]: products and convolutions in float, float16 and bfloat16, one model each in FOLDER, and a table of the
least time of 15 runs of each: milliseconds in float, and the ratios of the other types to it. PART: only models whose names have it. OURO: the
program (build/ouro). Needs python3-onnx."""
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
TYPES = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
names = []


def floats(*shape):
    return random.standard_normal(shape) * 0.05


def constant(name, values, kind):
    if kind != TensorProto.BFLOAT16:
        return numpy_helper.from_array(values.astype("f" if kind == TensorProto.FLOAT else "f2"), name)
    bits = (np.ascontiguousarray(values.astype("f")).view("u4") + 0x8000 >> 16).astype("u2")
    return helper.make_tensor(name, TensorProto.BFLOAT16, values.shape, bits.tobytes(), raw=True)


def save(name, operator, inputs, output, constants, **attributes):
    """`inputs` and `constants` by name, in the order of the operator's inputs."""
    if parts and not any(part in name for part in parts):
        return
    names.append(name)
    node = helper.make_node(operator, list(inputs) + list(constants), ["y"], **attributes)
    for text, kind in TYPES.items():
        graph = helper.make_graph([node], "graph", [helper.make_tensor_value_info(key, kind, shape) for key, shape in inputs.items()],
                                  [helper.make_tensor_value_info("y", kind, output)], [constant(key, value, kind) for key, value in constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
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

print("| | float, ms | float16 | bfloat16 |\n|---|--:|--:|--:|")
for name in names:
    least = {}
    for text in TYPES:
        subprocess.run([ouro, "bench", f"{folder}/{name}.{text}.onnx", "--warmup", "3", "--runs", "15", "--json", f"{folder}/bench.json"], check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/bench.json") as file:
            least[text] = json.load(file)[0]["min_ms"]
    print(f"| {name} | {least['float']:.4g} | {least['float16'] / least['float']:.2f} | {least['bfloat16'] / least['float']:.2f} |", flush=True)
