#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run_learned.py OURO WORK: operators of ai.onnx.ml, one model each, through the command: what they give is what numpy computes from
their definitions, and attributes that do not fit are refused with words that say so. Ends with "N passed, N failed"."""
import os
import subprocess
import sys

import numpy as np
from onnx import SequenceProto, TensorProto, TypeProto, helper, numpy_helper

OURO, WORK = (os.path.abspath(a) for a in sys.argv[1:3])
passed = failed = 0
rng = np.random.default_rng(3)


def write_model(operator, inputs, attributes, outputs, version):
    kinds = {np.dtype('float32'): TensorProto.FLOAT, np.dtype('float64'): TensorProto.DOUBLE, np.dtype('int64'): TensorProto.INT64}
    names = ['x%d' % i for i in range(len(inputs))]
    results = ['y%d' % i for i in range(outputs)]
    node = helper.make_node(operator, names, results, domain='ai.onnx.ml', **attributes)
    graph = helper.make_graph([node], 'g', [helper.make_tensor_value_info(n, kinds[x.dtype], x.shape) for n, x in zip(names, inputs)],
                              [helper.make_empty_tensor_value_info(y) for y in results])
    opsets = [helper.make_opsetid('', 17), helper.make_opsetid('ai.onnx.ml', version)]
    with open(os.path.join(WORK, 'm.onnx'), 'wb') as file:
        file.write(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    given = []
    for name, x in zip(names, inputs):
        np.save(os.path.join(WORK, name + '.npy'), x)
        given += ['--input', '%s=%s.npy' % (name, name)]
    return given


def report(what, wrong):
    global passed, failed
    passed, failed = passed + (not wrong), failed + bool(wrong)
    if wrong:
        print('FAILED %s: %s' % (what, wrong))


def gives(operator, inputs, expected, version=3, tolerance=1e-5, **attributes):
    """Through a plan, with every step compared to its shadow. `expected`: arrays, or words that the command prints."""
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    given = write_model(operator, inputs, attributes, len(expected), version)
    for old in os.listdir(WORK):
        if old.startswith('y'):
            os.remove(os.path.join(WORK, old))
    done = subprocess.run([OURO, 'run', 'm.onnx', *given, '--check', '--output-dir', '.'], cwd=WORK, capture_output=True, text=True)
    wrong = '' if done.returncode == 0 else 'status %d: %s' % (done.returncode, (done.stderr + done.stdout).strip())
    for i, values in enumerate(expected):
        if wrong:
            break
        values = np.asarray(values)
        got = np.load(os.path.join(WORK, 'y%d.npy' % i), allow_pickle=False)
        if values.dtype.kind in 'US':
            wrong = '' if [v.decode() for v in got.ravel()] == list(values.ravel()) else 'output %d is %s' % (i, got)
        elif got.shape != values.shape or not np.allclose(got, values, rtol=1e-4, atol=tolerance):
            wrong = 'output %d is %s, expected %s' % (i, got.tolist(), values.tolist())
    report('%s %s' % (operator, {k: v for k, v in attributes.items() if isinstance(v, (str, int, bytes))}), wrong)


def refused(words, operator, inputs, outputs=1, version=3, **attributes):
    write_model(operator, inputs, attributes, outputs, version)
    done = subprocess.run([OURO, 'compile', 'm.onnx', '-q', '-o', 'p.plan'], cwd=WORK, capture_output=True, text=True)
    right = done.returncode == 1 and words in done.stderr
    report('%s, refused' % operator, '' if right else 'status %d: %s' % (done.returncode, done.stderr.strip()))


def draw(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


x = draw(4, 3)

# ---- preprocessing -------------------------------------------------------------------------------------------------------

gives('Scaler', [x], (x - np.float32([.5, 0, 1])) * np.float32([2, 1, 3]), offset=[.5, 0., 1.], scale=[2., 1., 3.])
gives('Scaler', [x], (x - np.float32(.25)) * 4, offset=[.25], scale=[4.])
gives('Scaler', [np.int64([[1, 2], [3, 4]])], np.float32([[0, 1], [2, 3]]), offset=[1.], scale=[1.])
holes = x.copy()
holes[1, 2] = holes[3, 0] = np.nan
gives('Imputer', [holes], np.where(np.isnan(holes), np.float32([7, 8, 9]), holes), imputed_value_floats=[7., 8., 9.], replaced_value_float=float('nan'))
gives('Imputer', [np.int64([[0, 5], [6, 0]])], np.int64([[3, 5], [6, 3]]), imputed_value_int64s=[3], replaced_value_int64=0)
refused('"imputed_value_int64s" is absent', 'Imputer', [np.int64([[1]])], imputed_value_floats=[1.])
gives('Binarizer', [x], (x > .25).astype(np.float32), threshold=.25)
gives('Binarizer', [x.astype(np.float64)], (x > 0).astype(np.float64))
for norm, size in (('MAX', x.max(1)), ('L1', np.abs(x).sum(1)), ('L2', np.sqrt((x * x).sum(1)))):
    gives('Normalizer', [x], x / size[:, None], norm=norm)
gives('Normalizer', [np.zeros((2, 2), np.float32)], np.zeros((2, 2)), norm='L2')
refused('"norm" is unknown', 'Normalizer', [x], norm='L3')
gives('ArrayFeatureExtractor', [x, np.int64([2, 0])], x[:, [2, 0]])
gives('ArrayFeatureExtractor', [x[0], np.int64([1])], x[:1, [1]])
gives('FeatureVectorizer', [x, draw(4, 2) * 0], np.hstack([x[:, :2], np.zeros((4, 3), np.float32)]), inputdimensions=[2, 3])
refused('has 1 numbers for 2 inputs', 'FeatureVectorizer', [x, x], inputdimensions=[3])
gives('OneHotEncoder', [np.int64([3, 1, 5])], np.float32([[0, 1], [1, 0], [0, 0]]), cats_int64s=[1, 3])
gives('OneHotEncoder', [np.float32([1, 3])], np.float32([[1, 0], [0, 1]]), cats_int64s=[1, 3])
gives('LabelEncoder', [np.int64([1, 2, 9])], np.array(['one', 'two', 'other']), keys_int64s=[1, 2], values_strings=['one', 'two'],
      default_string='other')
gives('LabelEncoder', [np.float32([1.5, np.nan, 2])], np.int64([4, 5, -1]), keys_floats=[1.5, float('nan')], values_int64s=[4, 5])
gives('LabelEncoder', [np.int64([1, 0, 7])], np.array(['b', 'a', '?']), version=1, classes_strings=['a', 'b'], default_string='?')
gives('CategoryMapper', [np.int64([20, 10, 30])], np.array(['b', 'a', 'no']), cats_int64s=[10, 20], cats_strings=['a', 'b'],
      default_string='no')

# ---- linear models -------------------------------------------------------------------------------------------------------

w, b = draw(2, 3), draw(2)
scores = x @ w.T + b


def softmax(s):
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def sigmoid(s):
    return 1 / (1 + np.exp(-s))


def probit(p):
    """Winitzki's approximation, as ONNX Runtime has it."""
    z = 2 * p - 1
    log = np.log((1 - z) * (1 + z))
    half = 2 / (np.pi * .147) + .5 * log
    return np.sqrt(2) * np.sign(z) * np.sqrt(np.sqrt(half * half - log / .147) - half)


ends = {'NONE': lambda s: s, 'LOGISTIC': sigmoid, 'SOFTMAX': softmax}
for end, function in ends.items():
    gives('LinearRegressor', [x], function(scores), coefficients=w.ravel().tolist(), intercepts=b.tolist(), targets=2, post_transform=end)
    gives('LinearClassifier', [x], [np.int64([10, 20])[scores.argmax(1)], function(scores)], coefficients=w.ravel().tolist(),
          intercepts=b.tolist(), classlabels_ints=[10, 20], post_transform=end)
gives('LinearRegressor', [np.float32([[.2, .7]])], probit(np.float32([[.2, .7]])), coefficients=[1., 0., 0., 1.], targets=2, post_transform='PROBIT')
some = np.float32([[0, 1], [2, 0], [1, 3]])
some_softmax = np.where(some != 0, np.exp(some) / np.where(some != 0, np.exp(some), 0).sum(1, keepdims=True), 0)
gives('LinearRegressor', [some], some_softmax, coefficients=[1., 0., 0., 1.], targets=2, post_transform='SOFTMAX_ZERO')
refused('"post_transform" is unknown', 'LinearRegressor', [x], coefficients=w.ravel().tolist(), targets=2, post_transform='NO')
w3 = draw(3, 3)
gives('LinearClassifier', [x], [np.array(['a', 'b', 'c'])[(x @ w3.T).argmax(1)], x @ w3.T], coefficients=w3.ravel().tolist(),
      classlabels_strings=['a', 'b', 'c'])

# ---- support vectors -----------------------------------------------------------------------------------------------------

vectors, alpha = draw(5, 3), draw(5)
gamma, shift, degree = .7, .3, 3
kernels = {'LINEAR': lambda v: x @ v.T, 'POLY': lambda v: (gamma * (x @ v.T) + shift)**degree, 'SIGMOID': lambda v: np.tanh(gamma * (x @ v.T) + shift),
           'RBF': lambda v: np.exp(-gamma * ((x[:, None] - v[None])**2).sum(2))}
for name, kernel in kernels.items():
    fixed = dict(kernel_type=name, kernel_params=[gamma, shift, float(degree)], support_vectors=vectors.ravel().tolist())
    values = kernel(vectors) @ alpha[:, None] + np.float32(.1)
    gives('SVMRegressor', [x], values, coefficients=alpha.tolist(), rho=[.1], n_supports=5, **fixed)
    gives('SVMRegressor', [x], np.where(values > 0, 1, -1), coefficients=alpha.tolist(), rho=[.1], n_supports=5, one_class=1, **fixed)
    # Three classes of 2, 1 and 2 vectors: the pairs (0, 1), (0, 2), (1, 2) vote, the first of equals wins.
    sizes, rho, weights = [2, 1, 2], draw(3), draw(2, 5)
    starts, k, pair = np.cumsum([0] + sizes), kernel(vectors), 0
    votes, decisions = np.zeros((4, 3)), []
    for i in range(3):
        for j in range(i + 1, 3):
            of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            decision = k[:, of_i] @ weights[j - 1, of_i] + k[:, of_j] @ weights[i, of_j] + rho[pair]
            votes[np.arange(4), np.where(decision > 0, i, j)] += 1
            decisions.append(decision)
            pair += 1
    gives('SVMClassifier', [x], [np.int64([5, 6, 7])[votes.argmax(1)], np.stack(decisions, 1)], coefficients=weights.ravel().tolist(),
          rho=rho.tolist(), vectors_per_class=sizes, classlabels_ints=[5, 6, 7], **fixed)
# Of two classes the probability of the first is a logistic function of its decision, as near as libsvm's iteration comes to it.
two = dict(coefficients=alpha.tolist(), rho=[.2], vectors_per_class=[3, 2], support_vectors=vectors.ravel().tolist(), classlabels_ints=[5, 6], prob_b=[.3])
decision = x @ vectors.T @ alpha + .2
first = 1 / (1 + np.exp(-1.5 * decision + .3))
gives('SVMClassifier', [x], [np.where(decision > 0, 5, 6), np.stack([first, 1 - first], 1)], tolerance=.005, prob_a=[-1.5], **two)
refused('prob_a and prob_b have 2 and 1 numbers', 'SVMClassifier', [x], outputs=2, prob_a=[-1.5, 1.], **two)
one = draw(3)
gives('SVMRegressor', [x], x @ one[:, None] + .5, coefficients=one.tolist(), rho=[.5], n_supports=0)
refused('kernel_type', 'SVMRegressor', [x], coefficients=alpha.tolist(), rho=[.1], n_supports=5, support_vectors=vectors.ravel().tolist(),
        kernel_type='CUBE')
refused('have 4 coefficients', 'SVMRegressor', [x], coefficients=alpha.tolist()[:4], rho=[.1], n_supports=5, support_vectors=vectors.ravel().tolist())
refused('support_vectors has 14 numbers for 5 vectors', 'SVMRegressor', [x], coefficients=alpha.tolist(), rho=[.1], n_supports=5,
        support_vectors=vectors.ravel().tolist()[:14])
refused('do not fit 2 classes', 'SVMClassifier', [x], outputs=2, coefficients=alpha.tolist(), rho=[.1, .2], vectors_per_class=[3, 2],
        support_vectors=vectors.ravel().tolist(), classlabels_ints=[0, 1])

# ---- trees of one node and two leaves ------------------------------------------------------------------------------------

MODES = {'LEQ': np.less_equal, 'LT': np.less, 'GTE': np.greater_equal, 'GT': np.greater, 'EQ': np.equal, 'NEQ': np.not_equal}


def stumps(kind, splits, mode='BRANCH_LEQ'):
    """Tree t asks for feature t; leaf 1 is for yes, leaf 2 for no."""
    count = len(splits)
    return {'nodes_treeids': [t for t in range(count) for _ in range(3)], 'nodes_nodeids': [0, 1, 2] * count,
            'nodes_featureids': [f for t in range(count) for f in (t, 0, 0)], 'nodes_modes': [mode, 'LEAF', 'LEAF'] * count,
            'nodes_values': [v for s in splits for v in (s, 0., 0.)], 'nodes_truenodeids': [1, 0, 0] * count,
            'nodes_falsenodeids': [2, 0, 0] * count, kind + '_treeids': [t for t in range(count) for _ in range(2)],
            kind + '_nodeids': [1, 2] * count}


data = np.float32([[.1, 1], [.2, 2], [.3, 3], [.4, 4]])
for mode, function in MODES.items():
    gives('TreeEnsembleRegressor', [data], np.where(function(data[:, :1], np.float32(.2)), 1.5, -2.), n_targets=1, target_ids=[0, 0],
          target_weights=[1.5, -2.], **stumps('target', [.2], 'BRANCH_' + mode))
each = np.stack([np.where(data[:, 0] <= np.float32(.2), 1., 2.), np.where(data[:, 1] <= 3, 4., 7.)], 1)
regressor = dict(stumps('target', [.2, 3.]), target_weights=[1., 2., 4., 7.])
for name, function in (('SUM', np.sum), ('AVERAGE', np.mean), ('MIN', np.min), ('MAX', np.max)):
    gives('TreeEnsembleRegressor', [data], function(each, 1)[:, None] + 10, n_targets=1, target_ids=[0] * 4, aggregate_function=name,
          base_values=[10.], **regressor)
gives('TreeEnsembleRegressor', [data], each, n_targets=2, target_ids=[0, 0, 1, 1], **regressor)
classes = dict(stumps('class', [.2, 3.]), class_weights=[1., 2., 4., 7.], class_ids=[0, 1, 1, 2])
votes = np.stack([np.where(each[:, 0] == 1, 1, 0), np.where(each[:, 0] == 2, 2, 0) + np.where(each[:, 1] == 4, 4, 0),
                  np.where(each[:, 1] == 7, 7, 0)], 1)
gives('TreeEnsembleClassifier', [data], [np.int64([5, 6, 7])[votes.argmax(1)], votes], classlabels_int64s=[5, 6, 7], **classes)
gives('TreeEnsembleClassifier', [data], [np.int64([5, 6, 7])[(votes + [9, 0, 0]).argmax(1)], votes + [9, 0, 0]],
      classlabels_int64s=[5, 6, 7], base_values=[9., 0., 0.], **classes)
def votes_of(left, right):
    """A stump whose leaves give (class, weight), any number of them."""
    given = [(leaf, k, w) for leaf, pairs in ((1, left), (2, right)) for k, w in pairs]
    return dict(stumps('class', [.2]), class_treeids=[0] * len(given), class_nodeids=[g[0] for g in given],
                class_ids=[g[1] for g in given], class_weights=[g[2] for g in given])


def logistic(*values):
    return 1 / (1 + np.exp(-np.float64(values)))


# Which classes the leaf of a row names decides: the left leaf has the first two rows. As ONNX Runtime does.
pair = data[1:3]
zero, both = [(0, .7)], [(0, .7), (1, .3)]
for left, right, attributes, labels, scores in [
        (zero, both, {}, [1, 1], [[-.7, .7], [.7, .3]]),
        (zero, [(0, .7), (1, -.3)], {}, [1, 0], [[-.7, .7], [.7, -.3]]),
        ([(0, -.2)], [(1, .2)], {}, [0, 1], [[.2, -.2], [0, .2]]),
        (zero, [(0, .2)], {}, [1, 0], [[.3, .7], [.8, .2]]),
        (zero, [(0, -.2)], {}, [1, 0], [[-.7, .7], [.2, -.2]]),
        ([(1, .7)], [(1, .2)], {}, [1, 0], [[0, .7], [0, .2]]),
        ([], [(1, .7)], {}, [0, 1], [[1, 0], [0, .7]]),
        ([], [(1, -.7)], {}, [0, 0], [[0, 0], [0, -.7]]),
        ([], [(0, .7)], {}, [0, 1], [[1, 0], [.3, .7]]),
        ([], both, {}, [0, 1], [[0, 0], [.7, .3]]),
        (zero, both, {'post_transform': 'LOGISTIC'}, [1, 1], [logistic(-.7, .7), logistic(.7, .3)]),
        (zero, both, {'post_transform': 'SOFTMAX'}, [1, 1], [[-.7, .7], logistic(.4, -.4)]),
        (zero, [(1, .7)], {'post_transform': 'SOFTMAX_ZERO'}, [1, 1], [[-.7, .7], [0, 1]]),
        (zero, both, {'post_transform': 'PROBIT'}, [1, 1], [[.524446, -np.inf], [.524446, -.524446]]),
        (zero, zero, {'base_values': [.1]}, [1, 1], [[.2, .8], [.2, .8]]),
        (zero, [(0, -.2)], {'base_values': [.3]}, [1, 1], [[-1, 1], [-.1, .1]]),
        ([], [(0, -.2)], {'base_values': [.3]}, [0, 1], [[0, 0], [-.1, .1]]),
        (zero, both, {'base_values': [.3]}, [1, 1], [[1, 0], [1, .3]]),
        ([(0, -.2)], [(1, -.2)], {'base_values': [.3]}, [1, 0], [[.1, 0], [0, -.2]]),
        ([], [(1, .2)], {'base_values': [.7]}, [0, 0], [[1, 0], [0, .2]]),
        ([(0, -.7)], [(0, -.7), (1, -.3)], {'classlabels_int64s': [0, 1, 2]}, [0, 1], [[-.7, 0, 0], [-.7, -.3, 0]]),
        ([(0, -.7)], [(2, -.7), (1, -.3)], {'classlabels_int64s': [0, 1, 2]}, [0, 1], [[-.7, 0, 0], [0, -.3, -.7]]),
        ([(0, -.7), (0, .1)], [(2, -.3), (1, -.7)], {'classlabels_int64s': [4, 3, 5]}, [4, 5], [[-.6, 0, 0], [0, -.7, -.3]]),
        ([(0, -.7)], [(2, -.3)], {'classlabels_int64s': [0, 1, 2], 'base_values': [.1, .2, .3]}, [2, 1], [[-.6, .2, .3], [.1, .2, 0]])]:
    gives('TreeEnsembleClassifier', [pair], [labels, scores], **{'classlabels_int64s': [0, 1], **votes_of(left, right), **attributes})
# The second class is named by each leaf of the second tree, or of none.
three = dict(stumps('class', [.2, 2.]), class_weights=[.1, -.2, .3, -.4])
gives('TreeEnsembleClassifier', [pair], [[1, 0], [[.1, .3], [-.2, -.4]]], classlabels_int64s=[0, 1], class_ids=[0, 0, 1, 1], **three)
gives('TreeEnsembleClassifier', [pair], [[1, 0], [[-.4, .4], [-.2, -.4]]], classlabels_int64s=[0, 1], class_ids=[0, 0, 0, 1], **three)
refused('a leaf gives to class 2, there are 2', 'TreeEnsembleClassifier', [data], outputs=2, classlabels_int64s=[0, 1], **votes_of(zero, [(2, 1.)]))
refused('a leaf gives to class -1, there are 2', 'TreeEnsembleClassifier', [data], outputs=2, classlabels_int64s=[0, 1], **votes_of(zero, [(-1, 1.)]))
refused('2 base values for 1 targets', 'TreeEnsembleRegressor', [data], target_ids=[0] * 4, base_values=[1., 2.], **regressor)
refused('"aggregate_function" is unknown', 'TreeEnsembleRegressor', [data], target_ids=[0] * 4, aggregate_function='MEDIAN', **regressor)
refused('"nodes_modes" has "BRANCH_NO"', 'TreeEnsembleRegressor', [data], target_ids=[0] * 2, target_weights=[1., 2.],
        **stumps('target', [.2], 'BRANCH_NO'))
refused('"target_weights" has 3 numbers, expected 4', 'TreeEnsembleRegressor', [data], target_ids=[0] * 4, **dict(regressor, target_weights=[1.] * 3))
refused('"target_ids" has 3 numbers, expected 4', 'TreeEnsembleRegressor', [data], target_ids=[0] * 3, **regressor)
refused('nodes_values has 5 numbers, nodes_modes 6', 'TreeEnsembleRegressor', [data], target_ids=[0] * 4, **dict(regressor, nodes_values=[0.] * 5))
refused('tree 0 has two nodes 1', 'TreeEnsembleRegressor', [data], target_ids=[0] * 4, 
        **dict(regressor, nodes_nodeids=[0, 1, 1, 0, 1, 2], nodes_falsenodeids=[1, 0, 0, 2, 0, 0]))
refused('tree 0 has no node 4', 'TreeEnsembleRegressor', [data], target_ids=[0] * 4, **dict(regressor, nodes_falsenodeids=[4, 0, 0, 2, 0, 0]))
refused('"nodes_modes" is absent or empty', 'TreeEnsembleRegressor', [data], n_targets=1)
refused('no class labels', 'TreeEnsembleClassifier', [data], outputs=2, **classes)
refused('2 base values for 3 classes', 'TreeEnsembleClassifier', [data], outputs=2, classlabels_int64s=[5, 6, 7], base_values=[1., 2.], **classes)

# ---- maps: a folder with a model and its data, as ONNX's tests are -------------------------------------------------------


def map_of(keys, values):
    texts = isinstance(keys[0], str)
    listed = helper.make_sequence('', SequenceProto.TENSOR, [numpy_helper.from_array(np.asarray(v)) for v in values])
    return helper.make_map('', TensorProto.STRING if texts else TensorProto.INT64, [k.encode() for k in keys] if texts else keys, listed)


def map_type(key, value):
    kind = TypeProto()
    kind.map_type.key_type = key
    kind.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(value, []))
    return kind


def maps(what, operator, given, given_type, expected, expected_type, words='', **attributes):
    """Passes, or fails with these words."""
    folder = os.path.join(WORK, 'case')
    os.makedirs(os.path.join(folder, 'test_data_set_0'), exist_ok=True)
    node = helper.make_node(operator, ['x'], ['y'], domain='ai.onnx.ml', **attributes)
    graph = helper.make_graph([node], 'g', [helper.make_value_info('x', given_type)], [helper.make_value_info('y', expected_type)])
    opsets = [helper.make_opsetid('', 17), helper.make_opsetid('ai.onnx.ml', 3)]
    for name, proto in (('model.onnx', helper.make_model(graph, opset_imports=opsets, ir_version=8)),
                        ('test_data_set_0/input_0.pb', given), ('test_data_set_0/output_0.pb', expected)):
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(proto.SerializeToString())
    done = subprocess.run([OURO, 'test', folder], cwd=WORK, capture_output=True, text=True)
    right = done.returncode == bool(words) and words in done.stdout and ('0 passed, 1 failed' if words else '1 passed, 0 failed') in done.stdout
    report(what, '' if right else 'status %d: %s' % (done.returncode, (done.stdout + done.stderr).strip()))


def tensor_of(values):
    return numpy_helper.from_array(np.asarray(values))


def tensor_type(dtype, shape):
    return helper.make_tensor_type_proto(dtype, shape)


FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
rows = np.float32([[.1, .9], [.8, .2]])
for labels, key, attribute in ((['no', 'yes'], STRING, 'classlabels_strings'), ([4, 5], INT64, 'classlabels_int64s')):
    listed = helper.make_sequence('', SequenceProto.MAP, [map_of(labels, row) for row in rows])
    kind = helper.make_sequence_type_proto(map_type(key, FLOAT))
    maps('ZipMap', 'ZipMap', tensor_of(rows), tensor_type(FLOAT, [2, 2]), listed, kind, **{attribute: labels})
    turned = helper.make_sequence('', SequenceProto.MAP, [map_of(labels[::-1], row[::-1]) for row in rows])
    maps('ZipMap, another order', 'ZipMap', tensor_of(rows), tensor_type(FLOAT, [2, 2]), turned, kind, **{attribute: labels})
    wrong = helper.make_sequence('', SequenceProto.MAP, [map_of(labels, row + np.float32(.5)) for row in rows])
    maps('ZipMap, other values', 'ZipMap', tensor_of(rows), tensor_type(FLOAT, [2, 2]), wrong, kind, 'differs at []: 0.1, expected 0.6', **{attribute: labels})
    fewer = helper.make_sequence('', SequenceProto.MAP, [map_of(labels[:1], row[:1]) for row in rows])
    maps('ZipMap, fewer keys', 'ZipMap', tensor_of(rows), tensor_type(FLOAT, [2, 2]), fewer, kind, 'has 2 keys of', **{attribute: labels})

def written(what, arguments, words, files):
    """`ouro run` on the last folder's model prints these words and writes these files."""
    np.save(os.path.join(WORK, 'x0.npy'), rows)
    done = subprocess.run([OURO, 'run', 'case/model.onnx', '--input', 'x=x0.npy', *arguments], cwd=WORK, capture_output=True, text=True)
    missing = [w for w in words if w not in done.stdout] + [f for f in files if not os.path.exists(os.path.join(WORK, f))]
    report(what, '' if done.returncode == 0 and not missing else 'status %d: %s lacks %s' % (done.returncode, done.stdout + done.stderr, missing))


written('maps are printed', [], ['y: a sequence, 2 elements', 'y.0: a map, 2 keys', 'y.1.values: float32[2]: 0.8 0.2'], [])
written('maps are written', ['--output-dir', 'maps'], [], ['maps/y.%d.%s.npy' % (i, part) for i in range(2) for part in ('keys', 'values')])
written('maps are expected', ['--expect', 'maps'], [], [])
values = np.float32([3, 4])
maps('DictVectorizer', 'DictVectorizer', map_of(['b', 'a'], values), map_type(STRING, FLOAT), tensor_of(np.float32([[4, 0, 3]])),
     tensor_type(FLOAT, [1, 3]), string_vocabulary=['a', 'x', 'b'])
maps('DictVectorizer', 'DictVectorizer', map_of([7, 2], values), map_type(INT64, FLOAT), tensor_of(np.float32([[4, 3, 0]])),
     tensor_type(FLOAT, [1, 3]), int64_vocabulary=[2, 7, 9])
maps('DictVectorizer, none', 'DictVectorizer', map_of([7, 2], values), map_type(INT64, FLOAT), tensor_of(np.float32([[0]])),
     tensor_type(FLOAT, [1, 1]), 'are absent')
numbers = map_of([5, 1, 3], np.float32([50, 10, 30]))
maps('CastMap', 'CastMap', numbers, map_type(INT64, FLOAT), tensor_of(np.float32([[10, 30, 50]])), tensor_type(FLOAT, [1, 3]))
maps('CastMap, integers', 'CastMap', numbers, map_type(INT64, FLOAT), tensor_of(np.int64([[10, 30, 50]])), tensor_type(INT64, [1, 3]),
     cast_to='TO_INT64')
maps('CastMap, sparse', 'CastMap', numbers, map_type(INT64, FLOAT), tensor_of(np.float32([[0, 10, 0, 30, 0, 50]])),
     tensor_type(FLOAT, [1, 6]), map_form='SPARSE', max_map=6)
maps('CastMap, no form', 'CastMap', numbers, map_type(INT64, FLOAT), tensor_of(np.float32([[0]])), tensor_type(FLOAT, [1, 1]), '"map_form" is unknown',
     map_form='THIN')
maps('CastMap, no columns', 'CastMap', numbers, map_type(INT64, FLOAT), tensor_of(np.float32([[0]])), tensor_type(FLOAT, [1, 1]), '"max_map" is 0',
     map_form='SPARSE', max_map=0)

print('%d passed, %d failed' % (passed, failed))
sys.exit(1 if failed else 0)
