#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kernel_models.py FOLDER: models of one recurrence, quantised convolution or integer product each, with random weights, for
compare.sh: what the choice between kernels, and the figures of docs/OPERATORS.md, rest on. Needs python3-onnx."""
import os
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

random = numpy.random.default_rng(1)
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)


def save(name, node, inputs, outputs, constants):
    graph = helper.make_graph([node], 'graph', [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*o) for o in outputs],
                              [numpy_helper.from_array(value, key) for key, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 14)])
    model.ir_version = 8
    onnx.save(model, '%s/%s.onnx' % (folder, name))


def recurrence(operator, steps, batch, size, hidden, direction='forward'):
    gates = {'LSTM': 4, 'GRU': 3, 'RNN': 1}[operator]
    both = 2 if direction == 'bidirectional' else 1
    weights = {key: (random.standard_normal(shape) * 0.1).astype('f') for key, shape in
               [('w', (both, gates * hidden, size)), ('r', (both, gates * hidden, hidden)),
                ('b', (both, 2 * gates * hidden))]}
    node = helper.make_node(operator, ['x', 'w', 'r', 'b'], ['y'], hidden_size=hidden, direction=direction)
    save('%s_%dx%d_%d%s' % (operator.lower(), steps, batch, hidden, '_both' if both == 2 else ''), node,
         [('x', TensorProto.FLOAT, [steps, batch, size])], [('y', TensorProto.FLOAT, [steps, both, batch, hidden])],
         weights)


def bytes_of(shape, signed):
    return random.integers(-127, 128, shape).astype('i1') if signed else random.integers(0, 256, shape).astype('u1')


def convolution(channels, filters, extent, kernel, stride=1, group=1, signed=False, signed_weights=True):
    constants = {'x_scale': numpy.array(0.02, 'f'), 'x_zero': numpy.array(5, 'i1' if signed else 'u1'),
                 'w': bytes_of((filters, channels // group, kernel, kernel), signed_weights),
                 'w_scale': numpy.full(filters, 0.01, 'f'),
                 'w_zero': numpy.full(filters, 0 if signed_weights else 128, 'i1' if signed_weights else 'u1'),
                 'y_scale': numpy.array(0.3, 'f'), 'y_zero': numpy.array(100, 'i1' if signed else 'u1'),
                 'b': random.integers(-1000, 1000, filters).astype('i4')}
    pad = kernel // 2
    size = (extent + 2 * pad - kernel) // stride + 1
    kind = TensorProto.INT8 if signed else TensorProto.UINT8
    node = helper.make_node('QLinearConv', ['x'] + list(constants), ['y'], strides=[stride, stride], pads=[pad] * 4,
                            group=group)
    name = 'qconv_%dto%d_%d_k%d_s%d' % (channels, filters, extent, kernel, stride)
    save(name + ('_g%d' % group if group > 1 else '') + ('_s8' if signed else '') + ('' if signed_weights else '_u8w'),
         node, [('x', kind, [1, channels, extent, extent])], [('y', kind, [1, filters, size, size])], constants)


def product(rows, depth, columns, signed_weights=True):
    node = helper.make_node('MatMulInteger', ['x', 'w', 'x_zero'], ['y'])
    save('matmul_%dx%dx%d%s' % (rows, depth, columns, '' if signed_weights else '_u8w'), node,
         [('x', TensorProto.UINT8, [rows, depth])], [('y', TensorProto.INT32, [rows, columns])],
         {'w': bytes_of((depth, columns), signed_weights), 'x_zero': numpy.array(5, 'u1')})


for case in [('LSTM', 20, 1, 64, 64), ('LSTM', 20, 1, 128, 256), ('LSTM', 20, 8, 128, 128),
             ('LSTM', 50, 32, 256, 256, 'bidirectional'), ('GRU', 20, 1, 64, 64), ('GRU', 20, 8, 128, 128),
             ('RNN', 50, 8, 128, 128)]:
    recurrence(*case)
for case in [(64, 64, 56, 3), (256, 64, 56, 1), (256, 256, 14, 3), (512, 2048, 7, 1), (3, 64, 224, 7, 2),
             (128, 128, 56, 3, 2), (96, 96, 56, 3, 1, 96), (96, 96, 112, 3, 2, 96), (64, 64, 28, 3, 1, 4),
             (256, 128, 28, 1, 1, 1, False, False), (64, 64, 28, 3, 1, 1, True)]:
    convolution(*case)
for case in [(1, 768, 3072), (16, 768, 3072), (128, 768, 768), (128, 768, 768, False)]:
    product(*case)
