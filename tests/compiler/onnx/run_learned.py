#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run_learned.py OURO WORK: operators of ai.onnx.ml, one model each, through the command: what they give is what numpy computes from
their definitions, and attributes that do not fit are refused with words that say so. Ends with "N passed, N failed"."""
import os
import subprocess
import sys

import numpy as np
from onnx import TensorProto, helper

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


def gives(operator, inputs, expected, version=3, **attributes):
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
        elif got.shape != values.shape or not np.allclose(got, values, rtol=1e-4, atol=1e-5):
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
one = draw(3)
gives('SVMRegressor', [x], x @ one[:, None] + .5, coefficients=one.tolist(), rho=[.5], n_supports=0)
refused('kernel_type', 'SVMRegressor', [x], coefficients=alpha.tolist(), rho=[.1], n_supports=5, support_vectors=vectors.ravel().tolist(),
        kernel_type='CUBE')
refused('have 4 coefficients', 'SVMRegressor', [x], coefficients=alpha.tolist()[:4], rho=[.1], n_supports=5, support_vectors=vectors.ravel().tolist())
refused('support_vectors has 14 numbers for 5 vectors', 'SVMRegressor', [x], coefficients=alpha.tolist(), rho=[.1], n_supports=5,
        support_vectors=vectors.ravel().tolist()[:14])
refused('do not fit 2 classes', 'SVMClassifier', [x], outputs=2, coefficients=alpha.tolist(), rho=[.1, .2], vectors_per_class=[3, 2],
        support_vectors=vectors.ravel().tolist(), classlabels_ints=[0, 1])

print('%d passed, %d failed' % (passed, failed))
sys.exit(1 if failed else 0)
