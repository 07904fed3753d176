#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quantize_model.py IN.onnx OUT.onnx: a float network of convolutions with QuantizeLinear and DequantizeLinear around its operators, as quantisers
write it: for memory and time, not for numbers, since no data is looked at. Activations are int8 in one scale for all, or 0 to 6 in place of a
Clip or Relu, weights int8 by filter, biases int32. Needs Debian's python3-onnx and python3-numpy."""
import sys

import numpy
import onnx
from onnx import helper, numpy_helper

INTEGER = {"Conv", "Gemm", "Add", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat"}
CUT = {"Clip", "Relu"}


class Quantizer:
    def __init__(self, graph):
        self.graph = graph
        self.weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self.readers = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.nodes, self.constants, self.done, self.renamed = [], dict(self.weights), {}, {}
        self.maker = {name: node.op_type for node in graph.node for name in node.output}

    def constant(self, name, array):
        self.constants[name] = array
        return name

    def dequantized(self, name, source, scale, zero, axis=None):
        attributes = {} if axis is None else {"axis": axis}
        self.nodes.append(helper.make_node("DequantizeLinear", [source, scale, zero], [name], **attributes))
        return name

    def activation(self, name, cut):
        """The tensor in 8 bits and back; `cut`: 0 to 6."""
        if name in self.done:
            return self.done[name]
        scale = self.constant(name + "_scale", numpy.float32(6 / 255 if cut else 8 / 127))
        zero = self.constant(name + "_zero", numpy.int8(-128 if cut else 0))
        self.nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [name + "_bytes"]))
        self.done[name] = self.dequantized(name + "_again", name + "_bytes", scale, zero)
        self.done[name + " scale"] = numpy.float32(6 / 255 if cut else 8 / 127)
        return self.done[name]

    def parameters(self, node, scale_of_input):
        """Weights by filter, a bias in the scale of the products."""
        weights = self.weights[node.input[1]]
        scales = (numpy.abs(weights.reshape(len(weights), -1)).max(axis=1) / 127 + 1e-9).astype(numpy.float32)
        shape = (-1,) + (1,) * (weights.ndim - 1)
        one = node.input[1]
        names = [self.dequantized(one + "_again", self.constant(one + "_bytes", numpy.round(weights / scales.reshape(shape)).astype(numpy.int8)),
                                  self.constant(one + "_scale", scales), self.constant(one + "_zero", numpy.zeros(len(scales), numpy.int8)), 0)]
        if len(node.input) > 2:
            one, both = node.input[2], (scales * scale_of_input).astype(numpy.float32)
            names.append(self.dequantized(one + "_again", self.constant(one + "_integers", numpy.round(self.weights[one] / both).astype(numpy.int32)),
                                          self.constant(one + "_scale", both), self.constant(one + "_zero", numpy.zeros(len(scales), numpy.int32)), 0))
        return names

    def node(self, node):
        inputs = [self.renamed.get(name, name) for name in node.input]
        if node.op_type in CUT and self.maker.get(inputs[0]) in INTEGER:
            # What is cut off has no number in 8 bits.
            self.renamed[node.output[0]] = inputs[0]
            self.activation(inputs[0], True)
            return
        if node.op_type in INTEGER:
            for i, name in enumerate(inputs):
                if name not in self.weights:
                    inputs[i] = self.activation(name, False)
            if node.op_type in ("Conv", "Gemm"):
                inputs[1:] = self.parameters(node, self.done[self.renamed.get(node.input[0], node.input[0]) + " scale"])
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(inputs)
        self.nodes.append(copy)
        following = self.readers.get(node.output[0], [])
        if node.op_type in INTEGER | CUT and not (len(following) == 1 and following[0].op_type in CUT):
            self.activation(node.output[0], node.op_type in CUT)

    def run(self):
        for node in self.graph.node:
            self.node(node)
        del self.graph.node[:], self.graph.initializer[:]
        self.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in node.input}
        self.graph.initializer.extend(numpy_helper.from_array(numpy.asarray(array), name) for name, array in self.constants.items() if name in used)


def main():
    model = onnx.load(sys.argv[1])
    Quantizer(model.graph).run()
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[2])


if __name__ == "__main__":
    main()
