#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mobilenet_model.py WIDTH EXTENT OUT.onnx: MobileNetV2 with its channels times WIDTH (to a multiple of 8), for images of EXTENT x EXTENT, with
random weights: for memory and time, not for numbers. 1 and 224 is the network of models/; 0.35 and 144 is the size that papers on microcontrollers
compare. quantize_model.py makes 8 bits of it. Needs Debian's python3-onnx and python3-numpy."""
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def channels_of(count, width):
    """A multiple of 8 that is at least nine tenths of what was asked for."""
    rounded = max(8, int(count * width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * count * width else rounded


class Network:
    def __init__(self):
        self.nodes, self.weights, self.random = [], [], numpy.random.default_rng(1)

    def constant(self, name, array):
        self.weights.append(numpy_helper.from_array(numpy.asarray(array, numpy.float32), name))
        return name

    def node(self, operator, name, inputs, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def convolve(self, name, x, taken, made, extent, stride=1, groups=1, cut=True):
        deviation = (2 / (taken // groups * extent * extent)) ** 0.5
        weights = self.constant(name + ".weights", self.random.normal(0, deviation, (made, taken // groups, extent, extent)))
        bias = self.constant(name + ".bias", self.random.normal(0, 0.1, made))
        y = self.node("Conv", name, [x, weights, bias], kernel_shape=[extent] * 2, strides=[stride] * 2, pads=[extent // 2] * 4, group=groups)
        return self.node("Clip", name + ".clip", [y, "zero", "six"]) if cut else y


def main():
    width, extent, path = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    of = Network()
    of.constant("zero", 0), of.constant("six", 6)
    channels, number = channels_of(32, width), 0
    x = of.convolve("stem", "image", 3, channels, 3, 2)
    for expansion, count, repeats, stride in STAGES:
        made = channels_of(count, width)
        for repeat in range(repeats):
            name, wide, step = f"block{number}", channels * expansion, 1 if repeat else stride
            y = of.convolve(name + ".expand", x, channels, wide, 1) if expansion > 1 else x
            y = of.convolve(name + ".depthwise", y, wide, wide, 3, step, wide)
            y = of.convolve(name + ".project", y, wide, made, 1, cut=False)
            x = of.node("Add", name, [x, y]) if step == 1 and channels == made else y
            channels, number = made, number + 1
    last = channels_of(1280, max(1.0, width))
    x = of.convolve("head", x, channels, last, 1)
    x = of.node("Flatten", "features", [of.node("GlobalAveragePool", "pool", [x])])
    x = of.node("Gemm", "scores", [x, of.constant("classifier", of.random.normal(0, 0.02, (1000, last))), of.constant("bias", [0] * 1000)], transB=1)
    graph = helper.make_graph(of.nodes, "mobilenet_v2", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, extent, extent])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 1000])], of.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


if __name__ == "__main__":
    main()
