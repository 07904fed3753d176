#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""operator_models.py FOLDER: models of one operator each (and some of a few), on shapes that networks have, for compare.sh:

    operator_models.py models && compare.sh models/*.onnx | sort -t "|" -k 6 -g

shows which kernels are slower. What random_operators.sh is for values, this is for time. Needs python3-onnx."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8
random = np.random.default_rng(1)
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
IMAGE = [1, 64, 56, 56]


def floats(*shape):
    return (random.standard_normal(shape) * 0.1).astype('f')


def integers(*values):
    return np.array(values, 'i8')


def save(name, nodes, inputs, outputs, constants, opset=13):
    graph = helper.make_graph(nodes, 'graph', [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(o, t, None) for o, t in outputs],
                              [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', opset)])
    model.ir_version = 8
    onnx.save(model, '%s/%s.onnx' % (folder, name))


def one(name, operator, shapes, constants=None, types=None, results=(FLOAT,), opset=13, **attributes):
    """An operator whose first inputs are given at run time, the others constants (a name of None: absent)."""
    constants = constants or {}
    inputs = [('x%d' % i, (types or [FLOAT] * len(shapes))[i], shape) for i, shape in enumerate(shapes)]
    names = [i[0] for i in inputs] + ['' if key.startswith('none') else key for key in constants]
    outputs = [('y%d' % i, kind) for i, kind in enumerate(results)]
    node = helper.make_node(operator, names, [o[0] for o in outputs], **attributes)
    save(name, [node], inputs, outputs, {k: v for k, v in constants.items() if not k.startswith('none')}, opset)


def chain(name, shape, steps, constants):
    """Several operators, each written as (operator, inputs, output, attributes); x0 goes in, y comes out."""
    nodes = [helper.make_node(operator, inputs, [output], **attributes) for operator, inputs, output, attributes in steps]
    save(name, nodes, [('x0', FLOAT, shape)], [('y', FLOAT)], constants)


def elementwise():
    for operator in ('Relu Sigmoid Tanh Exp Log Sqrt Erf Abs Neg Floor Softplus HardSigmoid Elu LeakyRelu Selu Sin Reciprocal '
                     'Softsign Round Sign Cos Tan Asin Acos Atan Sinh Cosh Asinh Atanh').split():
        one('unary_' + operator, operator, [IMAGE])
    one('unary_HardSwish', 'HardSwish', [IMAGE], opset=14)
    one('unary_Clip', 'Clip', [IMAGE], {'low': np.float32(0), 'high': np.float32(6)})
    for operator in 'Add Mul Div Pow Max'.split():
        one('binary_' + operator, operator, [IMAGE, IMAGE])
    for operator in 'Equal Less'.split():
        one('binary_' + operator, operator, [IMAGE, IMAGE], results=(BOOL,))
    for name, shape in (('channel', [64, 1, 1]), ('row', [56]), ('column', [56, 1]), ('scalar', [1])):
        one('broadcast_' + name, 'Add', [IMAGE, shape])
    one('broadcast_outer', 'Mul', [[512, 1], [1, 512]])
    one('power_2', 'Pow', [IMAGE], {'p': np.float32(2)})
    one('add_int64', 'Add', [[200000], [200000]], types=[INT64] * 2, results=(INT64,))
    one('where', 'Where', [IMAGE] * 3, types=[BOOL, FLOAT, FLOAT])
    one('prelu', 'PRelu', [IMAGE, [64, 1, 1]])
    for name, kind, to in (('uint8_float', UINT8, FLOAT), ('float_int64', FLOAT, INT64), ('int64_float', INT64, FLOAT),
                           ('bool_float', BOOL, FLOAT), ('float_half', FLOAT, TensorProto.FLOAT16)):
        one('cast_' + name, 'Cast', [IMAGE], types=[kind], results=(to,), to=to)
    scale = {'s': np.float32(0.1), 'z': np.uint8(3)}
    one('quantize', 'QuantizeLinear', [IMAGE], scale, results=(UINT8,))
    one('dequantize', 'DequantizeLinear', [IMAGE], scale, types=[UINT8])
    one('dynamic_quantize', 'DynamicQuantizeLinear', [IMAGE], results=(UINT8, FLOAT, UINT8), opset=11)


def kinds():
    """Other element types, constants that are broadcast, and remainders."""
    half = TensorProto.FLOAT16
    for operator in 'Relu Sigmoid Tanh Sqrt'.split():
        one('half_' + operator, operator, [IMAGE], types=[half], results=(half,))
    one('half_add', 'Add', [IMAGE, IMAGE], types=[half] * 2, results=(half,))
    one('half_softmax', 'Softmax', [[12, 128, 128]], types=[half], results=(half,), axis=-1)
    for name, kind in (('int64', INT64), ('int32', TensorProto.INT32)):
        for operator in 'Mul Sub Mod'.split():
            value = np.array(7, {'int64': 'i8', 'int32': 'i4'}[name])
            one('%s_%s' % (operator.lower(), name), operator, [[200000]], {'c': value}, types=[kind], results=(kind,))
        one('equal_' + name, 'Equal', [[200000]], {'c': np.array(7, {'int64': 'i8', 'int32': 'i4'}[name])}, types=[kind], results=(BOOL,))
    one('mod_float', 'Mod', [IMAGE, IMAGE], fmod=1)
    one('and', 'And', [[400000]] * 2, types=[BOOL] * 2, results=(BOOL,))
    one('not', 'Not', [[400000]], types=[BOOL], results=(BOOL,))
    one('where_channel', 'Where', [[1, 1, 56, 56], IMAGE], {'c': np.float32(-1e9)}, types=[BOOL, FLOAT])
    one('where_mask', 'Where', [[1, 1, 128, 128], [1, 12, 128, 128]], {'c': np.float32(-1e9)}, types=[BOOL, FLOAT])
    one('clip_int32', 'Clip', [[200000]], {'l': np.int32(0), 'h': np.int32(90)}, types=[TensorProto.INT32], results=(TensorProto.INT32,))
    one('sum_3', 'Sum', [IMAGE] * 3)
    for name, kind, to in (('half_float', half, FLOAT), ('int32_float', TensorProto.INT32, FLOAT), ('float_int32', FLOAT, TensorProto.INT32),
                           ('int64_int32', INT64, TensorProto.INT32), ('float_bool', FLOAT, BOOL), ('float_uint8', FLOAT, UINT8)):
        one('cast_' + name, 'Cast', [IMAGE], types=[kind], results=(to,), to=to)


def doubles():
    """Functions in double, what is computed with them, and what else has other types than float."""
    double, types = TensorProto.DOUBLE, {'types': [TensorProto.DOUBLE], 'results': (TensorProto.DOUBLE,)}
    for operator in ('Sigmoid Tanh Exp Log Erf Softplus Elu Selu Celu Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Sqrt').split():
        one('double_' + operator, operator, [IMAGE], **types)
    one('double_Gelu', 'Gelu', [IMAGE], opset=20, **types)
    one('double_Gelu_tanh', 'Gelu', [IMAGE], opset=20, approximate='tanh', **types)
    one('double_Mish', 'Mish', [IMAGE], opset=18, **types)
    one('double_Pow', 'Pow', [IMAGE], {'p': np.float64(0.6)}, **types)
    for name, shape, axis in (('rows', [512, 256], 1), ('columns', [4, 128, 256], 1), ('wide', [1, 50000], 1)):
        for operator in ('Softmax', 'LogSoftmax'):
            one('double_%s_%s' % (operator, name), operator, [shape], axis=axis, **types)
    for name, kind in (('uint8', UINT8), ('int8', TensorProto.INT8), ('int32', TensorProto.INT32), ('int64', INT64), ('float', FLOAT)):
        one('cast_double_' + name, 'Cast', [IMAGE], types=[double], results=(kind,), to=kind)
    for operator, gates in (('LSTM', 4), ('GRU', 3)):
        for batch in (1, 16):
            weights = {key: floats(*shape).astype('d') for key, shape in (('w', [1, gates * 128, 128]), ('r', [1, gates * 128, 128]), ('b', [1, 256 * gates]))}
            one('double_%s_%d' % (operator, batch), operator, [[50, batch, 128]], weights, hidden_size=128, **types)
    for name, kind in (('int64', INT64), ('int32', TensorProto.INT32), ('double', double), ('uint8', UINT8)):
        for axis in (0, 1):
            one('argmax_%s_%d' % (name, axis), 'ArgMax', [[512, 1024]], types=[kind], results=(INT64,), axis=axis)


def signals():
    """Sound, and what chooses among boxes."""
    window = {'h': np.array(160), 'w': np.hanning(400).astype('f'), 'l': np.array(400)}
    one('stft', 'STFT', [[1, 16000, 1]], window, opset=17)
    for name, length in (('400', 400), ('512', 512), ('1009', 1009)):
        one('dft_' + name, 'DFT', [[64, length, 1]], opset=17, axis=1, onesided=1)
    one('dft_rows', 'DFT', [[16, 128, 64, 2]], opset=17, axis=1)
    one('non_max_suppression', 'NonMaxSuppression', [[1, 8400, 4], [1, 80, 8400]],
        {'m': integers(100), 'i': np.array([0.5], 'f'), 's': np.array([0.9], 'f')}, results=(INT64,))
    one('top_300', 'TopK', [[1, 8400]], {'k': integers(300)}, results=(FLOAT, INT64))
    one('top_1', 'TopK', [[80, 2100]], {'k': integers(1)}, results=(FLOAT, INT64))
    one('softmax_short', 'Softmax', [[512, 8]], axis=-1)
    one('softmax_64', 'Softmax', [[8, 64, 64]], axis=-1)
    one('log_softmax_wide', 'LogSoftmax', [[64, 5000]], axis=-1)
    one('cumsum_rows', 'CumSum', [[64, 1024]], {'a': np.array(1)})
    one('grid_sample_still', 'GridSample', [[1, 16, 64, 64]], {'g': (random.random((1, 64, 64, 2)) * 2 - 1).astype('f')}, opset=16)
    one('instance_normalization_groups', 'InstanceNormalization', [[1, 32, 8192]], {'s': floats(32), 'b': floats(32)})
    one('sum_middle', 'ReduceSum', [[64, 256, 64]], {'a': integers(1)}, keepdims=0)
    one('MaxPool_5_1', 'MaxPool', [[1, 128, 20, 20]], kernel_shape=[5, 5], pads=[2] * 4)
    one('group_normalization', 'GroupNormalization', [[1, 64, 32, 32]], {'s': floats(8), 'b': floats(8)}, opset=18, num_groups=8)
    one('layer_normalization_short', 'LayerNormalization', [[500, 64]], {'s': floats(64), 'b': floats(64)}, opset=17)
    one('trilu', 'Trilu', [[12, 128, 128]], opset=14)
    one('power_root', 'Pow', [IMAGE], {'p': np.float32(0.6)})
    chain('where_above', IMAGE, [('Greater', ['x0', 'zero'], 'c', {}), ('Where', ['c', 'x0', 'low'], 'y', {})],
          {'zero': np.float32(0), 'low': np.float32(-1)})


def reductions():
    for axes in ([1], [2], [3], [2, 3], [0, 1], [1, 2, 3], [1, 3]):
        for operator in ('ReduceMean', 'ReduceMax'):
            one('%s_%s' % (operator, ''.join(map(str, axes))), operator, [IMAGE], axes=axes)
    for axis in (0, 1):
        one('sum_%d' % axis, 'ReduceSum', [[512, 1024]], {'a': integers(axis)})
        one('argmax_%d' % axis, 'ArgMax', [[512, 1024]], results=(INT64,), axis=axis)
        one('cumsum_%d' % axis, 'CumSum', [[512, 512]], {'a': np.array(axis)})
    for operator in ('ReduceL2', 'ReduceLogSumExp', 'ReduceProd'):
        one(operator, operator, [[512, 1024]], axes=[1])
    one('argmax_classes', 'ArgMax', [[1, 21, 128, 128]], results=(INT64,), axis=1)
    for axis in (1, 2, 3):
        one('softmax_%d' % axis, 'Softmax', [[1, 12, 128, 128]], axis=axis)
    one('softmax_wide', 'Softmax', [[1, 50000]], axis=1)
    one('log_softmax', 'LogSoftmax', [[64, 1000]], axis=1)
    one('top_5', 'TopK', [[64, 1000]], {'k': integers(5)}, results=(FLOAT, INT64))
    one('top_100', 'TopK', [[1, 30000]], {'k': integers(100)}, results=(FLOAT, INT64))


def movement():
    for order in ([0, 2, 3, 1], [0, 3, 1, 2], [0, 2, 1, 3], [0, 1, 3, 2], [1, 0, 2, 3], [3, 2, 1, 0]):
        one('transpose_' + ''.join(map(str, order)), 'Transpose', [[2, 64, 48, 56]], perm=order)
    one('transpose_matrix', 'Transpose', [[1024, 768]], perm=[1, 0])
    one('transpose_image', 'Transpose', [[1, 224, 224, 3]], perm=[0, 3, 1, 2])
    for axis in (1, 3):
        one('concat_%d' % axis, 'Concat', [IMAGE] * 3, axis=axis)
        one('split_%d' % axis, 'Split', [IMAGE], results=(FLOAT,) * 4, axis=axis)
    for name, start, end, step in (('inner', 1, 40, 1), ('step', 0, 56, 2), ('reverse', -1, -2**62, -1)):
        one('slice_' + name, 'Slice', [IMAGE],
            {'s': integers(start), 'e': integers(end), 'a': integers(3), 'p': integers(step)})
    for mode in ('constant', 'reflect', 'edge'):
        one('pad_' + mode, 'Pad', [IMAGE], {'p': integers(0, 0, 2, 2, 0, 0, 2, 2)}, mode=mode)
    for axis in (1, 3):
        one('gather_%d' % axis, 'Gather', [IMAGE], {'i': np.arange(0, IMAGE[axis], 2)}, axis=axis)
    one('gather_elements', 'GatherElements', [[512, 512]], {'i': random.integers(0, 512, (512, 512))}, axis=1)
    one('gather_nd', 'GatherND', [[512, 512]], {'i': random.integers(0, 512, (2000, 2))})
    one('scatter_nd', 'ScatterND', [[512, 512]], {'i': random.integers(0, 512, (2000, 2)), 'u': floats(2000)})
    one('scatter_elements', 'ScatterElements', [[512, 512]],
        {'i': random.integers(0, 512, (512, 64)), 'u': floats(512, 64)}, axis=1)
    for mode, coordinates in (('nearest', 'asymmetric'), ('linear', 'half_pixel'), ('linear', 'align_corners'),
                              ('cubic', 'half_pixel')):
        one('resize_%s_%s' % (mode, coordinates), 'Resize', [[1, 32, 56, 56]],
            {'none': None, 's': np.array([1, 1, 2, 2], 'f')}, mode=mode, nearest_mode='floor',
            coordinate_transformation_mode=coordinates)
    one('resize_down', 'Resize', [[1, 3, 224, 224]], {'none1': None, 'none2': None, 'z': integers(1, 3, 100, 100)},
        mode='linear', coordinate_transformation_mode='pytorch_half_pixel')
    one('depth_to_space', 'DepthToSpace', [IMAGE], blocksize=2)
    one('space_to_depth', 'SpaceToDepth', [[1, 16, 112, 112]], blocksize=2)
    one('tile', 'Tile', [[1, 64, 28, 28]], {'r': integers(1, 1, 2, 2)})
    one('expand', 'Expand', [[1, 64, 1, 1]], {'r': integers(*IMAGE)})
    one('non_zero', 'NonZero', [[200000]], types=[BOOL], results=(INT64,))
    one('one_hot', 'OneHot', [[1, 2048]], {'d': integers(257), 'v': np.array([0, 1], 'f')}, types=[INT64])
    one('grid_sample', 'GridSample', [[1, 32, 56, 56], [1, 56, 56, 2]], opset=16)


def images():
    for kernel, stride, pad in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
        for operator in ('MaxPool', 'AveragePool'):
            one('%s_%d_%d' % (operator, kernel, stride), operator, [[1, 64, 112, 112]], kernel_shape=[kernel] * 2,
                strides=[stride] * 2, pads=[pad] * 4)
    for operator in ('MaxPool', 'AveragePool'):
        one(operator + '_signal', operator, [[1, 64, 4000]], kernel_shape=[4], strides=[4])
        one('Global' + operator, 'Global' + operator, [[1, 512, 14, 14]])
    one('MaxPool_volume', 'MaxPool', [[1, 16, 16, 56, 56]], kernel_shape=[2] * 3, strides=[2] * 3)
    one('MaxPool_indices', 'MaxPool', [[1, 64, 112, 112]], results=(FLOAT, INT64), kernel_shape=[2, 2], strides=[2, 2])
    vectors = {key: floats(64) for key in 'sb'}
    one('instance_normalization', 'InstanceNormalization', [IMAGE], vectors)
    one('batch_normalization', 'BatchNormalization', [IMAGE], dict(vectors, m=floats(64), v=abs(floats(64))))
    one('lrn', 'LRN', [IMAGE], size=5)
    one('layer_normalization', 'LayerNormalization', [[1, 128, 768]], {'s': floats(768), 'b': floats(768)}, opset=17)
    for name, x, weights, attributes in (
            ('3x3', [1, 64, 56, 56], [64, 64, 3, 3], {'pads': [1] * 4}),
            ('1x1', [1, 256, 28, 28], [128, 256, 1, 1], {}),
            ('depthwise_3', [1, 144, 56, 56], [144, 1, 3, 3], {'group': 144, 'pads': [1] * 4}),
            ('depthwise_7', [1, 96, 56, 56], [96, 1, 7, 7], {'group': 96, 'pads': [3] * 4}),
            ('groups', [1, 128, 28, 28], [128, 32, 3, 3], {'group': 4, 'pads': [1] * 4}),
            ('stem', [1, 3, 224, 224], [64, 3, 7, 7], {'pads': [3] * 4, 'strides': [2, 2]}),
            ('dilated', [1, 64, 56, 56], [64, 64, 3, 3], {'pads': [2] * 4, 'dilations': [2, 2]}),
            ('signal', [1, 64, 2000], [128, 64, 3], {'pads': [1, 1]}),
            ('signal_depthwise', [1, 256, 1000], [256, 1, 31], {'group': 256, 'pads': [15, 15]}),
            ('row', [1, 64, 1, 2000], [128, 64, 1, 3], {'pads': [0, 1, 0, 1]}),
            ('column', [1, 64, 2000, 1], [128, 64, 3, 1], {'pads': [1, 0, 1, 0]}),
            ('volume', [1, 16, 16, 56, 56], [32, 16, 3, 3, 3], {'pads': [1] * 6}),
            ('odd', [1, 37, 50, 50], [41, 37, 3, 3], {'pads': [1] * 4}),
            ('patches', [1, 3, 224, 224], [384, 3, 16, 16], {'strides': [16, 16]}),
            ('small', [1, 512, 4, 4], [512, 512, 3, 3], {'pads': [1] * 4}),
            ('batch', [8, 64, 28, 28], [64, 64, 3, 3], {'pads': [1] * 4})):
        one('conv_' + name, 'Conv', [x], {'w': floats(*weights), 'b': floats(weights[0])}, **attributes)
    for name, x, weights, attributes in (
            ('2x2', [1, 64, 56, 56], [64, 32, 2, 2], {'strides': [2, 2]}),
            ('4x4', [1, 64, 28, 28], [64, 32, 4, 4], {'strides': [2, 2], 'pads': [1] * 4}),
            ('signal', [1, 128, 250], [128, 64, 16], {'strides': [8], 'pads': [4, 4]})):
        one('transposed_' + name, 'ConvTranspose', [x], {'w': floats(*weights), 'b': floats(weights[1])}, **attributes)


def rarer():
    """Operators of fewer models, and inputs that others have as constants."""
    for name, rows, block, attributes in (('windows', [1, 576, 3136], [3, 3], {'pads': [1] * 4}), ('twice', [1, 256, 784], [2, 2], {'strides': [2, 2]}),
                                          ('patches', [1, 768, 196], [16, 16], {'strides': [16, 16]})):
        image = [224, 224] if block[0] == 16 else [56, 56]
        one('col2im_' + name, 'Col2Im', [rows], {'i': integers(*image), 'b': integers(*block)}, opset=18, **attributes)
    one('deform_conv', 'DeformConv', [[1, 64, 28, 28], [64, 64, 3, 3], [1, 18, 28, 28]], opset=19, pads=[1] * 4)
    for name, weights, attributes in (('2x2', [64, 32, 2, 2], {'strides': [2, 2]}), ('4x4', [64, 32, 4, 4], {'strides': [2, 2], 'pads': [1] * 4}),
                                      ('groups', [64, 1, 4, 4], {'strides': [2, 2], 'pads': [1] * 4, 'group': 64})):
        one('transposed_computed_' + name, 'ConvTranspose', [[1, 64, 28, 28], weights], **attributes)
    for name, kind in (('int64', INT64), ('float', FLOAT)):
        one('unique_' + name, 'Unique', [[10000]], types=[kind], results=(kind, INT64, INT64, INT64))
        one('pow_' + name, 'Pow', [[200000]], {'p': np.array(3, {'int64': 'i8', 'float': 'f'}[name])}, types=[kind], results=(kind,))
    one('gather_elements_0', 'GatherElements', [[512, 512]], {'i': random.integers(-512, 512, (512, 512))}, axis=0)
    boxes = np.repeat(random.integers(0, 8400, (1, 300, 1)), 84, 2)
    one('gather_elements_boxes', 'GatherElements', [[1, 8400, 84]], {'i': boxes}, axis=1)


def products():
    for name, a, b in (('512', [512, 512], [512, 512]), ('vector', [1, 1024], [1024, 4096]),
                       ('sequence', [1, 128, 768], [768, 3072]), ('tall', [4096, 16], [16, 16]),
                       ('column', [1024, 1024], [1024, 1])):
        one('matmul_' + name, 'MatMul', [a], {'w': floats(*b)})
    for name, a, b in (('heads', [1, 12, 128, 64], [1, 12, 64, 128]), ('values', [1, 12, 128, 128], [1, 12, 128, 64]),
                       ('shared', [8, 64, 64], [64, 64]), ('both', [256, 256], [256, 256]),
                       ('many_small', [1000, 8, 8], [1000, 8, 8])):
        one('matmul_' + name, 'MatMul', [a, b])
    one('gemm_turned', 'Gemm', [[128, 256]], {'w': floats(512, 256), 'c': floats(512)}, transB=1)
    one('einsum_heads', 'Einsum', [[1, 12, 128, 64]] * 2, equation='bhqd,bhkd->bhqk')
    for operator, gates in (('LSTM', 4), ('GRU', 3)):
        weights = {'w': floats(1, gates * 128, 128), 'r': floats(1, gates * 128, 128), 'b': floats(1, 8 * 32 * gates)}
        one(operator, operator, [[100, 1, 128]], weights, hidden_size=128)


def little_graphs():
    one_half = {'half': np.float32(0.5), 'one': np.float32(1), 'root': np.float32(2**0.5), 'two': np.float32(2),
                'epsilon': np.float32(1e-5), 'scale': floats(768), 'shift': floats(768)}
    chain('gelu', [1, 128, 3072], [('Div', ['x0', 'root'], 'a', {}), ('Erf', ['a'], 'b', {}), ('Add', ['b', 'one'], 'c', {}),
                                   ('Mul', ['x0', 'c'], 'd', {}), ('Mul', ['d', 'half'], 'y', {})],
          {key: one_half[key] for key in ('root', 'one', 'half')})
    chain('layer_normalization_in_parts', [1, 128, 768],
          [('ReduceMean', ['x0'], 'm', {'axes': [-1]}), ('Sub', ['x0', 'm'], 'd', {}), ('Pow', ['d', 'two'], 'q', {}),
           ('ReduceMean', ['q'], 'v', {'axes': [-1]}), ('Add', ['v', 'epsilon'], 'e', {}), ('Sqrt', ['e'], 's', {}),
           ('Div', ['d', 's'], 'n', {}), ('Mul', ['n', 'scale'], 'g', {}), ('Add', ['g', 'shift'], 'y', {})],
          {key: one_half[key] for key in ('two', 'epsilon', 'scale', 'shift')})
    chain('swish', IMAGE, [('Sigmoid', ['x0'], 's', {}), ('Mul', ['x0', 's'], 'y', {})], {})
    chain('mish', IMAGE, [('Softplus', ['x0'], 's', {}), ('Tanh', ['s'], 't', {}), ('Mul', ['x0', 't'], 'y', {})], {})


for family in (elementwise, kinds, doubles, signals, reductions, movement, images, rarer, products, little_graphs):
    family()
