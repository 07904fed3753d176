#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""half_model.py MODEL.onnx OUT.onnx: the model in float16: all floats are, constants too, but for what goes in and comes out, which is
converted at the edge. For models whose operators want no floats. Needs python3-onnx."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def halved(tensor):
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name)


model = onnx.load(sys.argv[1])
graph = model.graph
constants = {constant.name for constant in graph.initializer}
for constant in graph.initializer:
    if constant.data_type == TensorProto.FLOAT:
        constant.CopyFrom(halved(constant))
del graph.value_info[:]
edges = set()
before, after = [], []
for value in graph.input:
    if value.type.tensor_type.elem_type != TensorProto.FLOAT:
        continue
    if value.name in constants:
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
        continue
    edges.add(value.name)
    before.append(helper.make_node("Cast", [value.name], [value.name + "/half"], to=TensorProto.FLOAT16))
for value in graph.output:
    if value.type.tensor_type.elem_type == TensorProto.FLOAT:
        edges.add(value.name)
        after.append(helper.make_node("Cast", [value.name + "/half"], [value.name], to=TensorProto.FLOAT))
for node in graph.node:
    for names in (node.input, node.output):
        for i, name in enumerate(names):
            if name in edges:
                names[i] = name + "/half"
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == TensorProto.FLOAT:
            attribute.t.CopyFrom(halved(attribute.t))
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.FLOAT16
nodes = before + list(graph.node) + after
del graph.node[:]
graph.node.extend(nodes)
onnx.save(model, sys.argv[2])
