#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run_defects.py OURO FOLDER WORK [slow]: models, plans and data on which something once went wrong (FOLDER/README.md says what),
through the command, each with what is expected of it now: it compiles, and every step gives the same bytes with its tensors
apart; it gives the values that numpy computes in double precision; it copies no more than so many bytes; it is refused with
status 1 and words that say why. Nothing ends by a signal, prints control characters, or takes more than a time and a memory that
are a multiple of what it needs ("slow", for builds that are slow on purpose: neither is looked at). A file of FOLDER for which nothing is
expected is a failure. Ends with "N passed, N failed"."""
import json
import os
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import numpy_helper

OURO, FOLDER, WORK = (os.path.abspath(a) for a in sys.argv[1:4])
SLOW = len(sys.argv) > 4
SECONDS, MEGABYTES = (600, None) if SLOW else (60, 1000)
passed, failed, seen = 0, 0, set()


class Wrong(Exception):
    pass


def run(*arguments, status=0, seconds=SECONDS):
    """Everything that `ouro` prints. Its status, its time and its memory are as they should be."""
    with open(os.path.join(WORK, 'said'), 'w+b') as said:
        begin = time.monotonic()
        child = subprocess.Popen([OURO, *arguments], stdout=said, stderr=subprocess.STDOUT, cwd=WORK, stdin=subprocess.DEVNULL)
        while True:
            pid, ended, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - begin > seconds:
                child.kill()
                os.wait4(child.pid, 0)
                child.returncode = -9
                raise Wrong('it takes longer than %d s' % seconds)
            time.sleep(0.002)
        child.returncode = ended
        said.seek(0)
        text = said.read().decode('utf-8')
    if any((ord(c) < 32 and c != '\n') or ord(c) == 127 for c in text):
        raise Wrong('it prints control characters: %r' % text[:300])
    if os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) != status:
        raise Wrong('wait status %d, expected exit status %d: %s' % (ended, status, text[-300:].strip()))
    if MEGABYTES and usage.ru_maxrss > MEGABYTES * 1024:
        raise Wrong('it takes %d MB' % (usage.ru_maxrss // 1024))
    return text


def path(name):
    full = os.path.join(FOLDER, name)
    if not os.path.exists(full):
        raise Wrong('it is not there')
    return full


def case(name, function, *arguments):
    """One defect; what it reads counts as seen."""
    global passed, failed
    seen.add(name)
    try:
        function(name, *arguments)
        passed += 1
    except Wrong as wrong:
        failed += 1
        print('FAILED %s: %s' % (name, wrong))


def wants(text, words):
    for word in [words] if isinstance(words, str) else words:
        if word not in text:
            raise Wrong('"%s" is not in: %s' % (word, text[-300:].strip()))


def outputs(name, inputs, *options):
    """What the model gives; through a plan, with every step compared to its shadow."""
    plan, out = os.path.join(WORK, 'plan'), os.path.join(WORK, 'out')
    run('compile', path(name), '-o', plan, '-q')
    given = []
    for key, value in inputs.items():
        file = os.path.join(WORK, 'in_%d.npy' % len(given))
        np.save(file, value)
        given += ['--input', '%s=%s' % (key, file)]
    os.makedirs(out, exist_ok=True)
    for old in os.listdir(out):
        os.remove(os.path.join(out, old))
    text = run('run', plan, *given, '--random', '1', '--check', '--output-dir', out, *options)
    wants(text, 'every step gives the same bytes')
    return [np.load(os.path.join(out, f)) for f in sorted(os.listdir(out))]


def works(name, inputs={}):
    outputs(name, inputs)


def gives(name, inputs, expected, rtol=1e-6, atol=0.0):
    (got,) = outputs(name, inputs)
    if got.shape != expected.shape:
        raise Wrong('shape %s, expected %s' % (got.shape, expected.shape))
    wide = got.astype(np.float64)
    apart = ~(np.abs(wide - expected) <= atol + rtol * np.abs(expected))
    if apart.any():
        at = tuple(np.argwhere(apart)[0])
        raise Wrong('%d of %d values differ, the first: %r, expected %r' % (apart.sum(), apart.size, wide[at], expected[at]))


def refused(name, words):
    wants(run('compile', path(name), '-o', os.path.join(WORK, 'plan'), '-q', status=1), words)


def cases(name):
    """A folder with test data."""
    wants(run('test', path(name)), '1 passed, 0 failed, 0 skipped')


def copies(name, iteration):
    """How many bytes each of its loops copies an iteration, at most."""
    report = os.path.join(WORK, 'report.json')
    run('compile', path(name), '-o', os.path.join(WORK, 'plan'), '--report', report, '-q')
    most = max(loop['copied_bytes_per_iteration'] for loop in json.load(open(report))['loops'])
    if most > iteration:
        raise Wrong('%d bytes are copied in an iteration, expected at most %d' % (most, iteration))
    wants(run('run', os.path.join(WORK, 'plan'), '--random', '1', '--check'), 'every step gives the same bytes')


def constants(name):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path(name)).graph.initializer}


# ---- 16-bit and 64-bit numbers: the values (tests/bench/sixteen_bits.py measures the time) ----------------------------

rng = np.random.default_rng(1)


def drawn(dtype, *shape):
    return rng.uniform(-1, 1, shape).astype(dtype)


def convolution(x, w):
    """3 x 3, with a border of zeros."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    h, width = x.shape[2:]
    return sum(np.einsum('oc,nchw->nohw', w[:, :, i, j], wide[:, :, i:i + h, j:j + width]) for i in range(3) for j in range(3))


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True).astype(np.float64))
    return e / e.sum(-1, keepdims=True)


def product(name, x, function, **tolerance):
    gives(name, {'x': x}, function(x, constants(name).get('w')), **tolerance)


def matrix(x, w):
    return x.astype(np.float64) @ w.astype(np.float64)


half, double = dict(rtol=2e-3, atol=2e-2), dict(rtol=1e-9, atol=1e-9)
for name, dtype, shape, function, tolerance in (
        ('conv_f16', np.float16, (1, 64, 56, 56), convolution, half),
        ('conv_f64', np.float64, (1, 64, 56, 56), convolution, double),
        ('gemm_f16', np.float16, (64, 512), matrix, half),
        ('matmul_f16', np.float16, (64, 512), matrix, half),
        ('matmul_f64', np.float64, (64, 512), matrix, double),
        ('softmax_f16', np.float16, (64, 4096), lambda x, w: softmax(x), dict(rtol=2e-3, atol=1e-7))):
    case(name + '.onnx', lambda n: product(n, drawn(dtype, *shape), function, **tolerance))

case('SqueezeNet_fp16.onnx', works)


# ---- composites in 16 bits, whose sums leave that range ----------------------------------------------------------------


def normalised(x, axes, epsilon):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def blocks(x):
    return x.reshape(2, 4, 4, 2, 4, 2)


def in_half(name, function):
    given = name.replace('.onnx', '_x.npy')
    seen.add(given)
    x = np.load(path(given))
    gives(name, {'x': x}, function(x.astype(np.float64), constants(name)), rtol=2e-3, atol=1e-3)


def length(x, *axes):
    return np.sqrt((x * x).sum(axes, keepdims=True))


for name, function in {
        'GlobalLpPool_300': lambda x, c: length(x, 2, 3),
        'InstanceNorm_300': lambda x, c: normalised(x, (2, 3), 1e-5) * c['s'].reshape(1, 4, 1, 1) + c['z'].reshape(1, 4, 1, 1),
        'LpNorm2_300': lambda x, c: x / length(x, 3),
        'LpPool_300': lambda x, c: length(blocks(x), 3, 5).reshape(2, 4, 4, 4),
        'MVN_300': lambda x, c: normalised(x, (0, 2, 3), 1e-9),
        'Mean_2000': lambda x, c: x,
        'ReduceL2_300': lambda x, c: length(x, 3),
        'ReduceLogSumExp_300': lambda x, c: np.log(np.exp(x - x.max(3, keepdims=True)).sum(3, keepdims=True)) + x.max(3, keepdims=True),
}.items():
    case('fp16/%s.onnx' % name, in_half, function)

x = drawn(np.float16, 1, 2, 3, 3)
scale, bias = drawn(np.float16, 2), drawn(np.float16, 2)
case('instance_norm_half_test.onnx', gives, {'0': x, '1': scale, '2': bias},
     normalised(x, (2, 3), 1e-5) * scale.astype(np.float64).reshape(1, 2, 1, 1) + bias.astype(np.float64).reshape(1, 2, 1, 1), 2e-3, 2e-3)

# ---- Resize 10, nearest: at position / scale, rounded down, but up where the image becomes smaller -------------------------


def nearest(x, scales):
    # Extents and places are computed in float32, as ONNX Runtime does: 6 / 1.2 is 5, and not 4.9999998.
    for axis in range(x.ndim):
        count = int(np.floor(np.float32(x.shape[axis]) * np.float32(scales[axis])))
        at = np.arange(count, dtype=np.float32) / np.float32(scales[axis])
        at = (np.ceil(at) if scales[axis] < 1 else np.floor(at)).astype(int)
        x = np.take(x, np.minimum(at, x.shape[axis] - 1), axis)
    return x


for scales in ('0.3_0.7', '0.6_0.6', '0.6_1.7', '1.2_0.9'):
    x = drawn(np.float32, 1, 1, 8, 8)
    case('Resize10_nearest_%s.onnx' % scales, gives, {'x': x}, nearest(x, constants('Resize10_nearest_%s.onnx' % scales)['s']))
for name in ('test_resize_downsample_nearest', 'test_resize_nearest'):
    data = [np.load(path('test_resize_downsample_nearest/in%d.npy' % i)) for i in range(2)]
    inputs = [i.name for i in onnx.load(path(name + '/model.onnx')).graph.input]
    case(name + '/model.onnx', gives, dict(zip(inputs, data)), nearest(*data))
    case(name, cases)
seen |= {'test_resize_downsample_nearest/in%d.npy' % i for i in range(2)}

# ---- shapes that are not what they say -------------------------------------------------------------------------------

case('lpnorm_zero.onnx', gives, {}, np.array([[0, 1 / np.sqrt(5)], [0, 2 / np.sqrt(5)]]))
case('a_plus_b_dyn_rank.onnx', gives, {'A': np.array([[1, 2, 3], [4, 5, 6]]), 'B': np.array(7)}, np.array([[8, 9, 10], [11, 12, 13]]))
case('dim_minus1_and.onnx', gives, {'X': np.array([True, True, False]), 'Y': np.array([True, False, True])}, np.array([1, 0, 0]))
case('dim_minus1_qrelu_1.onnx', works, {'input': drawn(np.float32, 3, 10)})
case('fp16model_loop.onnx', works)
case('crop_and_resize.onnx', works, {'input2:0': np.array([0, 1], np.int32)})

# ---- plans of a version that had holes: the rules that close them are those of docs/VERIFIER.md -----------------------

for name in sorted(os.listdir(os.path.join(FOLDER, 'plans'))):
    for command in ('verify', 'run', 'inspect'):
        case('plans/' + name, lambda n, c=command: wants(run(c, path(n), status=1), 'is a plan of version 4, this library reads version'))

# ---- hostile models and data -------------------------------------------------------------------------------------------


def survives(name, *options):
    """Any data: values or a message."""
    plan = os.path.join(WORK, 'plan')
    run('compile', path(name), '-o', plan, '-q')
    run('run', plan, *options, seconds=10 * SECONDS if SLOW else 10)


for boxes in ('maxroi_r.npy', 'maxroi_hang.npy'):
    case('hostile/maxroipool.onnx', survives, '--input', 'x=' + path('hostile/maxroi_x.npy'), '--input', 'r=' + path('hostile/' + boxes))
seen |= {'hostile/maxroi_x.npy', 'hostile/maxroi_r.npy', 'hostile/maxroi_hang.npy', 'hostile/ii_x.npy', 'hostile/ii_t.npy'}
# The label 2^53 + 1 is the one that is ignored: no double can tell it from 2^53.
case('hostile/ignore_index.onnx', gives, {'x': np.load(path('hostile/ii_x.npy')), 't': np.load(path('hostile/ii_t.npy'))}, np.array([0.0, 5.0]))
case('hostile/float_attr_to_int_ub.onnx', works)
case('hostile/gather_const.onnx', refused, 'main: node of "y" (Gather): index 7 is outside of [-2, 2)')
case('hostile/topk_neg.onnx', refused, 'main: node of "y" (TopK): k is -1, expected 0 or more')
for which in ('0f83', '8250'):
    case('hostile/import_ir_verify_%s.onnx' % which, refused, '(LogSoftmax): input 0 is int')
case('hostile/chain_50k.onnx', works)
case('hostile/loop_carried_10000.onnx', works)


def evil(name):
    dot, graph, svg, page, plan = (os.path.join(WORK, 'evil.' + end) for end in ('dot', 'graph.svg', 'svg', 'html', 'plan'))
    run('compile', path(name), '-o', plan, '--dump-after', 'all', '--dot', dot, '--memory-map', svg)
    run('compile', path(name), '-o', plan, '-v', '--dot', graph, '--memory-map', page)
    for what in (plan, path(name)):
        run('inspect', what)
        run('inspect', what, '--json')
    run('verify', plan)
    run('run', plan, '--random', '1', '-v')
    for file in (dot, graph, svg, page): # in a .dot file the name stands in quotation marks
        text = open(file, encoding='utf-8').read()
        if '\x1b' in text or '\x07' in text or (file != dot and '<script>alert' in text):
            raise Wrong('%s holds what the name says, raw' % os.path.basename(file))


case('hostile/evil_names.onnx', evil)

# ---- loops: values, and what they copy -----------------------------------------------------------------------------------

for name in sorted(os.listdir(os.path.join(FOLDER, 'loops'))):
    if name != 'copies':
        case('loops/' + name, cases)

# Bytes that are still copied in an iteration, by model; 0 for all others. docs/LOOPS.md tells why.
STILL = {'h_if_best_so_far_new': 4000, 'h_if_best_so_far_old': 4000, 'h_scan_input_read_axis1': 20,
         'h_stack_delay': 16, 'h_stack_old': 16, 'h_stack_old_new': 16, 'h_stack_old_nolast': 16, 'h_window': 3}
for name in sorted(os.listdir(os.path.join(FOLDER, 'loops', 'copies'))):
    case('loops/copies/' + name, copies, STILL.get(name[:-5], 0))

# ---- nothing is left out ----------------------------------------------------------------------------------------------------

for folder, _, files in os.walk(FOLDER):
    for file in files:
        name = os.path.relpath(os.path.join(folder, file), FOLDER)
        if name != 'README.md' and name not in seen and not any(name.startswith(s + '/') for s in seen):
            failed += 1
            print('FAILED %s: nothing is expected of it' % name)
print('%d passed, %d failed' % (passed, failed))
sys.exit(1 if failed else 0)
