#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run_contrib.py OURO WORK: operators of com.microsoft, one model each, through the command: what they give is what numpy computes from
their page. Those that ONNX Runtime's CPU has are compared with it by tests/bench/random_operators.sh; here are the others, and what decides
between ways to read a page. Ends with "N passed, N failed"."""
import os
import subprocess
import sys

import numpy as np
from onnx import helper
from onnx.mapping import NP_TYPE_TO_TENSOR_TYPE

OURO, WORK = (os.path.abspath(a) for a in sys.argv[1:3])
passed = failed = 0
rng = np.random.default_rng(5)
F = np.float32


def draw(*shape):
    return rng.uniform(-1, 1, shape).astype(F)


def gives(operator, inputs, expected, tolerance=1e-5, **attributes):
    """Through a plan, with every step compared to its shadow. `inputs` may be None; `expected`: one a result, or None."""
    global passed, failed
    names = ['' if x is None else 'x%d' % i for i, x in enumerate(inputs)]
    results = ['' if y is None else 'y%d' % i for i, y in enumerate(expected)]
    node = helper.make_node(operator, names, results, domain='com.microsoft', **attributes)
    graph = helper.make_graph([node], 'g', [helper.make_tensor_value_info(n, NP_TYPE_TO_TENSOR_TYPE[x.dtype], x.shape) for n, x in zip(names, inputs) if n],
                              [helper.make_empty_tensor_value_info(y) for y in results if y])
    opsets = [helper.make_opsetid('', 17), helper.make_opsetid('com.microsoft', 1)]
    with open(os.path.join(WORK, 'm.onnx'), 'wb') as file:
        file.write(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    given = []
    for name, x in zip(names, inputs):
        if name:
            np.save(os.path.join(WORK, name + '.npy'), x)
            given += ['--input', '%s=%s.npy' % (name, name)]
    done = subprocess.run([OURO, 'run', 'm.onnx', *given, '--check', '--output-dir', '.'], cwd=WORK, capture_output=True, text=True)
    wrong = '' if done.returncode == 0 else 'status %d: %s' % (done.returncode, (done.stderr + done.stdout).strip())
    for name, values in zip(results, expected):
        if wrong or not name:
            continue
        got = np.load(os.path.join(WORK, name + '.npy'))
        if got.shape != values.shape or got.dtype != values.dtype or not np.allclose(got, values, rtol=1e-4, atol=tolerance, equal_nan=True):
            wrong = '%s is %s, expected %s' % (name, got.tolist(), values.tolist())
    passed, failed = passed + (not wrong), failed + bool(wrong)
    if wrong:
        print('FAILED %s %s: %s' % (operator, attributes, wrong))


# ---- images --------------------------------------------------------------------------------------------------------------

def group_norm(x, scale, bias, groups, epsilon, act):
    """Channels last."""
    n, c = x.shape[0], x.shape[-1]
    g = x.astype(np.float64).reshape(n, -1, groups, c // groups)
    g = (g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + epsilon)
    y = g.reshape(x.shape) * scale + bias
    return y / (1 + np.exp(-y)) if act else y


for dtype, tolerance in (F, 1e-5), (np.float16, 2e-3):
    for last in 1, 0:
        x, skip, bias = draw(2, 3, 5, 6).astype(dtype), draw(2, 6).astype(dtype), draw(6).astype(dtype)
        scale, shift = draw(6), draw(6)
        front = (lambda a: a) if last else (lambda a: np.ascontiguousarray(a.transpose(0, 3, 1, 2)))
        gives('GroupNorm', [front(x), scale, shift], [front(group_norm(x, scale, shift, 3, 1e-3, 1).astype(dtype))], tolerance, groups=3, activation=1,
              epsilon=1e-3, channels_last=last)
        s = x.astype(F) + skip.astype(F)[:, None, None, :] + bias.astype(F)
        gives('SkipGroupNorm', [front(x), scale, shift, skip, bias], [front(group_norm(s, scale, shift, 2, 1e-5, 0).astype(dtype)), front(s.astype(dtype))],
              tolerance, groups=2, activation=0, channels_last=last)
gives('SkipGroupNorm', [x, scale, shift, x], [group_norm(2 * x.astype(F), scale, shift, 1, 1e-5, 0).astype(np.float16)], 2e-3, groups=1, activation=0)


def convolution(x, w):
    """Channels last in both, without padding."""
    kh, kw = w.shape[1:3]
    out = np.zeros((x.shape[0], x.shape[1] - kh + 1, x.shape[2] - kw + 1, w.shape[0]))
    for i in range(kh):
        for j in range(kw):
            out += np.einsum('nhwc,mc->nhwm', x[:, i:i + out.shape[1], j:j + out.shape[2]], w[:, i, j])
    return out.astype(x.dtype)


x, w, b = draw(2, 5, 6, 3), draw(4, 2, 3, 3), draw(4)
gives('NhwcConv', [x, w, b], [convolution(x, w) + b])
gives('NhwcFusedConv', [x, np.ascontiguousarray(w.transpose(0, 3, 1, 2)), b], [np.maximum(convolution(x, w) + b, 0)], activation='Relu')

# ---- attention -----------------------------------------------------------------------------------------------------------

def attend(q, k, v, mask=None):
    """[batch, heads, rows, size]"""
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    if mask is not None:
        p = p * mask
    return (p / p.sum(-1, keepdims=True) @ v).astype(F)


def heads(x, n):
    return x.reshape(x.shape[0], x.shape[1], n, -1).transpose(0, 2, 1, 3)


def joined(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


# Caches of a fixed size: rows after the new ones are not seen, and stay.
for past in 0, 3, 6:
    for rows, operator in (1, 'DecoderMaskedMultiHeadAttention'), (1, 'MultiHeadAttention'), (2, 'MultiHeadAttention'):
        q, k, v = (draw(2, rows, 8) for _ in range(3))
        caches = [draw(2, 2, 8, 4) for _ in range(2)]
        kept = [cache.copy() for cache in caches]
        for cache, new in zip(kept, (k, v)):
            cache[:, :, past:past + rows] = heads(new, 2)
        y = joined(attend(heads(q, 2), kept[0][:, :, :past + rows], kept[1][:, :, :past + rows]))
        if operator == 'MultiHeadAttention':
            gives(operator, [q, k, v, None, None, None, *caches, np.array([past], np.int32)], [y, *kept], num_heads=2)
            causal = np.arange(past + rows)[None, :] <= past + np.arange(rows)[:, None]
            y = joined(attend(heads(q, 2), kept[0][:, :, :past + rows], kept[1][:, :, :past + rows], causal))
            gives(operator, [q, k, v, None, None, None, *caches, np.array([past], np.int32)], [y, *kept], num_heads=2, unidirectional=1)
        else:
            gives(operator, [q, k, v, None, None, *caches, np.array([past], np.int32)], [y, *kept], num_heads=2, past_present_share_buffer=1)
            gives(operator, [np.concatenate([q, k, v], 2), None, None, None, None, *caches, np.array([past], np.int32)], [y, *kept], num_heads=2,
                  past_present_share_buffer=1)

# ---- weights of four bits ---------------------------------------------------------------------------------------------------

NF4 = F([-1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983,
         0.562617, 0.72295684, 1])
for k, n, block, rows in (64, 5, 32, 1), (96, 7, 16, 3), (128, 50, 64, 70), (40, 3, 16, 2):
    codes, scales, a = rng.integers(0, 256, (n * k + 1) // 2).astype(np.uint8), rng.uniform(.1, 1, (n * k + block - 1) // block).astype(F), draw(rows, k)
    weights = NF4[np.stack([codes >> 4, codes & 15], 1).reshape(-1)[:n * k]] * np.repeat(scales, block)[:n * k]
    gives('MatMulBnb4', [a, codes, scales], [a @ weights.reshape(n, k).T], 1e-4, K=k, N=n, block_size=block, quant_type=1)
    gives('MatMulBnb4', [draw(rows, n) * 0 + 1, codes, scales], [np.ones((rows, n), F) @ weights.reshape(n, k)], 1e-4, K=k, N=n, block_size=block,
          quant_type=1, transB=0)

# ---- bytes -----------------------------------------------------------------------------------------------------------------

def quantized(x):
    """What DynamicQuantizeLinear keeps of x."""
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = F(high - low) / F(255) if high > low else F(1)
    zero = np.round(np.clip(-low / scale, 0, 255))
    return (np.clip(np.round(x / scale) + zero, 0, 255) - zero).astype(F) * scale


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


steps, batch, wide, hidden = 4, 2, 3, 5
x, weights = draw(steps, batch, wide), [rng.integers(0, 256, (1, rows, 4 * hidden)).astype(np.uint8) for rows in (wide, hidden)]
bias, lengths, zero = draw(1, 8 * hidden), np.int32([4, 2]), np.full((1, 4 * hidden), 120, np.uint8)
scales = [rng.uniform(.002, .01, (1, 4 * hidden)).astype(F) for _ in range(2)]
w, r = ((v[0].astype(F) - 120) * scale for v, scale in zip(weights, scales))
for length in lengths, np.int32([4, 4]), np.int32([2, 2]):
    h, c, all_h = np.zeros((batch, hidden), F), np.zeros((batch, hidden), F), np.zeros((steps, 1, batch, hidden), F)
    rows = quantized(x[:length.max()]) @ w + bias[0, :4 * hidden] + bias[0, 4 * hidden:]
    for t in range(length.max()):
        i, o, f, g = np.split(rows[t] + quantized(h) @ r, 4, 1)
        new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        going = (t < length)[:, None]
        c = np.where(going, new_c, c).astype(F)
        h = np.where(going, sigmoid(o) * np.tanh(new_c), h).astype(F)
        all_h[t, 0] = np.where(going, h, 0)
    gives('DynamicQuantizeLSTM', [x, *weights, bias, length, None, None, None, scales[0], zero, scales[1], zero], [all_h, h[None], c[None]], 1e-3, hidden_size=hidden)
x, w, b = rng.integers(0, 256, (2, 3, 6)).astype(np.uint8), rng.integers(-128, 128, (6, 24)).astype(np.int8), draw(24)
q, k, v = np.split((x.astype(F) - 100) * F(.01) @ (w.astype(F) - 3) * F(.02) + b, 3, 2)
gives('QAttention', [x, w, b, F(.01), F([.02]), None, np.uint8(100), np.int8([3])], [joined(attend(heads(q, 2), heads(k, 2), heads(v, 2)))], 1e-4, num_heads=2)

# ---- mixtures of experts ---------------------------------------------------------------------------------------------------

EXPERTS, WIDE, INNER = 4, 128, 64


def packed(q, bits):
    """Whole bytes of the last axis, the first number in the lowest bits."""
    apart = q.reshape(*q.shape[:-1], -1, 8 // bits)
    return sum(apart[..., j] << bits * j for j in range(8 // bits)).astype(np.uint8)


def expert_weights(bits, block, zeros):
    """The inputs weights, scales and zero points of each of three products, and the weights that they stand for."""
    given, meant = [], []
    for rows, columns in (2 * INNER, WIDE), (WIDE, INNER), (INNER, WIDE):
        if not bits:
            meant.append(draw(EXPERTS, rows, columns) / 4)
            given.append((meant[-1], None, None))
            continue
        length = block or columns
        q = rng.integers(0, 1 << bits, (EXPERTS, rows, columns))
        z = rng.integers(0, 1 << bits, (EXPERTS, rows, columns // length)) if zeros else np.full((EXPERTS, rows, columns // length), 1 << bits - 1)
        s = rng.uniform(.5, 1, z.shape).astype(F) / (4 << bits)
        meant.append(((q - z.repeat(length, 2)) * s.repeat(length, 2)).astype(F))
        given.append((packed(q, bits), s if block else s[..., 0], packed(z if block else z[..., 0], bits) if zeros else None))
    return given, meant


def mixture(x, router, weights, biases, chosen, normalized, act, third, limit=np.inf, alpha=1., beta=0., fusion=0):
    first, last, linear = weights
    y = np.zeros_like(x)
    for t, row in enumerate(x):
        p = np.exp(router[t] - router[t].max())
        p /= p.sum()
        best = np.argsort(-p, kind='stable')[:chosen]
        for e in best:
            h = first[e] @ row + biases[0][e]
            if fusion:
                h, l = (h[::2], h[1::2]) if fusion == 1 else np.split(h, 2)
            elif third:
                l = linear[e] @ row + biases[2][e]
            if act == 'swiglu':
                h, l = np.minimum(h, limit), np.clip(l, -limit, limit)
                h = h * sigmoid(alpha * h) * (l + beta)
            else:
                h = {'relu': np.maximum(h, 0), 'silu': h * sigmoid(h), 'identity': h,
                     'gelu': h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + .044715 * h ** 3)))}[act]
                h = h * l if third else h
            y[t] += p[e] / (p[best].sum() if normalized else 1) * (last[e] @ h + biases[1][e])
    return y


for bits, block, zeros in (0, 0, 0), (4, 0, 0), (4, 0, 1), (4, 16, 1), (8, 32, 0), (8, 0, 1), (2, 16, 1):
    for rows, chosen, normalized, act, third, more in (
            (1, 2, 1, 'swiglu', 0, {'swiglu_fusion': 1}), (5, 2, 0, 'swiglu', 0, {'swiglu_fusion': 2, 'swiglu_limit': .4}),
            (5, 1, 0, 'swiglu', 1, {'activation_alpha': 1.702, 'activation_beta': 1., 'swiglu_limit': .5}), (3, 4, 1, 'silu', 1, {}),
            (5, 2, 1, 'gelu', 0, {}), (2, 3, 0, 'relu', 0, {}), (1, 1, 1, 'identity', 1, {}),
            (21, 2, 1, 'silu', 1, {}), (70, 1, 0, 'relu', 0, {})):  # in blocks of rows
        fusion = more.get('swiglu_fusion', 0)
        given, meant = expert_weights(bits, block, zeros)
        if not fusion:
            given[0], meant[0] = tuple(None if g is None else g[:, :INNER // (8 // bits if bits and i == 2 and not block else 1)] for i, g in enumerate(given[0])), meant[0][:, :INNER]
        biases = [draw(*m.shape[:2]) for m in meant]
        x, router = draw(rows, WIDE), draw(rows, EXPERTS) * 3
        answer = mixture(x, router, meant, biases, chosen, normalized, act, third, *[more.get(k, v) for k, v in (
            ('swiglu_limit', np.inf), ('activation_alpha', 1.), ('activation_beta', 0.))], fusion)
        used = [0, 1, 2] if third else [0, 1]
        if bits:
            inputs = [v for i in used for v in (*given[i][:2], biases[i])] + ([] if third else [None] * 3) + [given[i][2] for i in used]
        else:
            inputs = [v for i in used for v in (given[i][0], biases[i])]
        while inputs[-1] is None:
            inputs.pop()
        if rows == 2:
            x, answer = x[None], answer[None]
        flags = {'k': chosen, 'normalize_routing_weights': normalized, 'activation_type': act, **more}
        if bits:
            flags.update({'expert_weight_bits': bits}, **({'block_size': block} if block else {}))
        gives('QMoE' if bits else 'MoE', [x, router, *inputs], [answer], 1e-4, **flags)

# ---- regions -----------------------------------------------------------------------------------------------------------------

x = draw(2, 3, 5, 7)
corner = x[1][:, [0, 4]][:, :, [0, 6]]
gives('CropAndResize', [x, F([[0, 0, 1, 1]]), np.int32([1]), np.int32([2, 2])], [corner[None]])
gives('CropAndResize', [x, F([[0, 0, 1, 1]]), np.int32([1]), np.int32([1, 1])], [x[1][None, :, 2:3, 3:4]])
gives('CropAndResize', [x, F([[.5, -.5, .5, 0]]), np.int32([0]), np.int32([1, 2])], [np.stack([np.full(3, 7, F), x[0, :, 2, 0]], 1)[None, :, None]], extrapolation_value=7.)
gives('CropAndResize', [x[:, :, :, :0], F([[0, 0, 1, 1]]), np.int32([1]), np.int32([2, 3])], [np.full((1, 3, 2, 3), 7, F)], extrapolation_value=7.)
ids, scores = np.int64([[1, 2, 3, 1, 2], [0, 0, 0, 0, 4]]), draw(2, 6)
blocked = scores.copy()
blocked[0, 3] = -np.inf
gives('NGramRepeatBlock', [ids, scores], [blocked], ngram_size=3)
gives('NGramRepeatBlock', [ids[:, :1], scores], [scores], ngram_size=3)

# ---- arrays ----------------------------------------------------------------------------------------------------------------

x = draw(3, 8)
y = np.fft.rfft(x).astype(np.complex64).view(F).reshape(3, 5, 2)
gives('Rfft', [x], [y], signal_ndim=1)
gives('Irfft', [y], [x], signal_ndim=1)
for bad, flags, answer in (0, {}, True), (np.inf, {}, False), (np.nan, {}, False), (np.inf, {'isnan_only': 1}, True), (np.nan, {'isinf_only': 1}, True), (-np.inf, {'isinf_only': 1}, False):
    spoiled = draw(2, 3)
    spoiled[1, 1] = bad
    gives('IsAllFinite', [draw(4), spoiled], [np.array(answer)], **flags)
a, b = rng.integers(0, 256, (2, 3)).astype(np.uint8), rng.integers(0, 256, 3).astype(np.uint8)
gives('MulInteger', [a, np.uint8(7), b], [(a.astype(np.int32) - 7) * b])
gives('MulInteger', [a, None, b, np.uint8(9)], [a.astype(np.int32) * (b.astype(np.int32) - 9)])
w, i = draw(5, 3), rng.integers(0, 5, (2, 2))
gives('TorchEmbedding', [w, i], [w[i]])
gives('BitmaskDropout', [w], [w])
gives('UnfoldTensor', [np.arange(7, dtype=np.int64)], [np.int64([[0, 1, 2], [2, 3, 4], [4, 5, 6]])], size=3, step=2)
emb, q, qr, k, kr = draw(2, 3, 4), *(draw(2, h, 3, 4).astype(np.float16) for h in (2, 2, 1, 1))
sine, cosine = np.sin(emb).astype(np.float16)[:, None], np.cos(emb).astype(np.float16)[:, None]
gives('GemmaRotaryEmbedding', [emb, q, qr, k, kr], [q * cosine + qr * sine, k * cosine + kr * sine], 2e-3)
gives('Inverse', [F([[2, 1], [1, 1]])], [F([[1, -1], [-1, 2]])])
gives('Inverse', [F([[0, 1], [1, 0]])], [F([[0, 1], [1, 0]])])
gives('DynamicTimeWarping', [F([[1, 9, 9], [9, 1, 9], [9, 9, 1]])], [np.int32([[0, 1, 2], [0, 1, 2]])])
# Rows that are nearly equal, far from 0: squares of floats would cancel.
near = F(1000) + draw(5, 7)
beside = near[[3, 1, 4, 0]] + F([[0.0], [0.001], [0.002], [0.1]])
for dtype in F, np.float64:
    a, b = near.astype(dtype), beside.astype(dtype)
    squares = ((a[:, None].astype(np.float64) - b[None]) ** 2).sum(-1)
    gives('CDist', [a, b], [squares.astype(dtype)], 1e-8, metric='sqeuclidean')
    gives('CDist', [a, b], [np.sqrt(squares).astype(dtype)], 1e-4, metric='euclidean')
tokens = np.int64([5, 6, 7, 8])
gives('BifurcationDetector', [tokens, np.int64([4]), np.int64([1]), np.int64([6, 9, 9, 9])], [np.int64([4, 6, 9]), np.int64([-1])], min_ngram_size=1, max_ngram_size=2)
gives('BifurcationDetector', [tokens, np.int64([5, 6]), np.int64([0])], [np.int64([5, 6]), np.int64([2])], min_ngram_size=1, max_ngram_size=3)

# Without a zero point the result stays in floats, and has its scale all the same; without a scale, that is 1.
a, b, half = np.uint8([[7, 200], [31, 4]]), np.int8([[3, -90], [-5, 66]]), np.float32(0.5)
y = (a.astype(int) - 9) @ (b.astype(int) - 2) * 0.25
operands = [a, half, np.uint8(9), b, half, np.int8(2), None]
gives('QGemm', [*operands, np.float32(8)], [F(y / 8)])
gives('QGemm', operands[:6], [F(y)])
gives('QGemm', [*operands, np.float32(64), np.int8(-3)], [np.int8(np.clip(np.rint(y / 64) - 3, -128, 127))])
gives('QGemm', [*operands, None, np.uint8(100)], [np.uint8(np.clip(np.rint(y) + 100, 0, 255))])

# ---- linear attention ----------------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def linear_attention(q, k, v, state, decay, beta, heads, key_heads, states):
    """Of each head by itself, token by token, in double; queries and keys of fewer heads are read by several states."""
    batch, steps = q.shape[:2]
    size, wide, out = q.shape[2] // heads, v.shape[2] // states, max(heads, states)
    result, left = np.zeros((batch, steps, out, wide)), np.zeros((batch, states, size, wide)) if state is None else state.astype(np.float64)
    for b, h in np.ndindex(batch, states):
        s = left[b, h]
        for t in range(steps):
            key = k[b, t].reshape(key_heads, size)[h * key_heads // states].astype(np.float64)
            value = v[b, t].reshape(states, wide)[h].astype(np.float64)
            if decay is not None:
                s = s * np.exp(decay[b, t].reshape(states, -1)[h].astype(np.float64))[:, None]
            if beta is not None:
                value = beta[b, t, h % beta.shape[2]] * (value - key @ s)
            s = s + np.outer(key, value)
            for o in range(out):
                if o * states // out == h:
                    result[b, t, o] = q[b, t].reshape(heads, size)[o * heads // out] @ s / np.sqrt(size)
        left[b, h] = s
    return F(result.reshape(batch, steps, -1)), F(left)


for heads, key_heads, states, steps, size, wide in (2, 2, 2, 5, 4, 4), (4, 2, 2, 3, 8, 70), (2, 2, 6, 4, 3, 5), (2, 1, 2, 1, 16, 17), (1, 1, 1, 70, 5, 33):
    q, k, v = draw(2, steps, heads * size), draw(2, steps, key_heads * size), draw(2, steps, states * wide)
    for rule in 'linear', 'gated', 'delta', 'gated_delta':
        decay = -np.abs(draw(2, steps, states * (size if steps > 1 else 1))) if 'gated' in rule else None
        beta = np.abs(draw(2, steps, states if steps > 1 else 1)) / 4 if 'delta' in rule else None
        for past in None, draw(2, states, size, wide):
            expected = linear_attention(q, k, v, past, decay, beta, heads, key_heads, states)
            given = [q, k, v, past, decay, beta]
            while given[-1] is None:
                given.pop()
            gives('LinearAttention', given, list(expected), 1e-4, q_num_heads=heads, kv_num_heads=states, update_rule=rule)

a, b, offset, factor = draw(2, 3, 4), draw(2, 3, 4), draw(4), -np.exp(draw(4))
gives('LinearAttentionGate', [a, offset, factor, b], [F(factor * np.log1p(np.exp(a + offset))), F(sigmoid(b))])
gives('LinearAttentionGate', [a, offset, factor], [F(factor * np.log1p(np.exp(a + offset)))])
x, gate, factor = draw(2, 3, 12), draw(2, 3, 12), draw(4)
groups = x.reshape(2, 3, 3, 4)
normal = groups / np.sqrt((groups ** 2).mean(-1, keepdims=True) + 1e-5) * factor
gives('GatedRMSNorm', [x, factor, gate], [F(normal.reshape(x.shape) * gate * sigmoid(gate))])
gives('GatedAdd', [x, gate, a[..., :1]], [x + gate * a[..., :1]])
for dilation, last in (1, 0), (2, 0), (1, 1), (3, 1):
    x, past, w, bias = draw(2, 5, 7), draw(2, 5, 3 * dilation), draw(5, 1, 4), draw(5)
    whole = np.concatenate([past, x], 2)
    y = sum(w[:, 0, j, None] * whole[..., j * dilation:j * dilation + 7] for j in range(4)) + bias[:, None]
    turned = [np.ascontiguousarray(t.transpose(0, 2, 1)) if last else t for t in (x, past, F(y * sigmoid(y)), whole[..., 7:])]
    gives('CausalConvWithState', [turned[0], w, bias, turned[1]], turned[2:], activation='silu', dilation=dilation, channels_last=last)
apart = [turned[0].reshape(2, 7, 5, 1), w, bias, turned[1].reshape(2, 9, 5, 1)]
gives('CausalConvWithState', apart, [turned[2].reshape(2, 7, 5, 1), turned[3].reshape(2, 9, 5, 1)], activation='silu', dilation=3, channels_last=1)
places, cosine, sine, x = rng.integers(0, 9, (3, 2, 5)), draw(9, 8), draw(9, 8), draw(2, 5, 3 * 16)
for layout, streams in (0, [0, 0, 0, 0, 1, 1, 2, 2]), (1, [0, 1, 2, 0, 1, 2, 0, 0]):
    c, s = (np.stack([t[places[stream]][..., i] for i, stream in enumerate(streams)], -1)[:, :, None] for t in (cosine, sine))
    low, high = x.reshape(2, 5, 3, 16)[..., :8], x.reshape(2, 5, 3, 16)[..., 8:]
    y = np.concatenate([low * c - high * s, low * s + high * c], -1).reshape(x.shape)
    gives('MRotaryEmbedding', [x, places, cosine, sine], [y], mrope_section=[4, 2, 2], mrope_layout=layout, num_heads=3)
keys, queries, value, k_scale, q_scale = draw(2, 3, 2, 8), draw(2, 3, 2, 8), draw(2, 3, 8), draw(2, 8), draw(2, 8)
k, q = (t / np.sqrt((t ** 2).mean(-1, keepdims=True) + 1e-5) * scale for t, scale in ((keys, k_scale), (queries, q_scale)))
dot = (k * q).sum(-1) / np.sqrt(8)
gives('EngramGate', [keys, queries, value, k_scale, q_scale], [F(sigmoid(np.sign(dot) * np.sqrt(np.maximum(np.abs(dot), 1e-6)))[..., None] * value[:, :, None])])
ids, factors, sizes, past = rng.integers(0, 99, (2, 4)), np.int64([7, 11, 2 ** 62 + 1]), rng.integers(2, 50, 4), rng.integers(0, 99, (2, 2))
for before in None, past:
    whole = np.concatenate([np.full((2, 2), 5) if before is None else before, ids], 1)
    two = whole[:, 2:] * 7 ^ whole[:, 1:-1] * 11
    three = two ^ whole[:, :-2] * factors[2]
    hashes = np.concatenate([two[..., None] % sizes[:2], three[..., None] % sizes[2:]], 2)
    gives('NGramHashMapping', [ids, factors, sizes] + ([] if before is None else [before]), [hashes, whole[:, -2:]], max_ngram_size=3, n_head_per_ngram=2, pad_id=5)

# ---- sums, and 8-bit numbers of operators that have others of their name in the default domain -----------------------------

x, bias, skip = draw(2, 3, 4), draw(4), draw(2, 3, 4)
gives('BiasAdd', [x, bias, skip], [x + bias + skip])
gives('BiasDropout', [x, bias, skip], [x + bias + skip])
gives('BiasDropout', [x, bias], [x + bias])
w, shift = draw(4, 5), draw(5)
y = x @ w + shift
gives('GemmFastGelu', [x, w, shift], [y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y ** 3))) / 2])
for a, b, wide in (np.int16, np.int16, np.int32), (np.uint16, np.int16, np.int32), (np.uint16, np.uint16, np.uint32):
    p, q = (rng.integers(0 if t is np.uint16 else -300, 300, n).astype(t) for t, n in ((a, (3, 4)), (b, (4, 2))))
    gives('MatMulInteger16', [p, q], [p.astype(np.int64).dot(q.astype(np.int64)).astype(wide)])


def to_bytes(y, scale, zero):
    return np.clip(np.rint(y / scale) + zero, 0, 255).astype(np.uint8)


u8, x_scale, x_zero, y_scale, y_zero = np.uint8, F(0.5), np.uint8(7), F(0.25), np.uint8(130)
x = draw(3, 4) * F(20)
scales, zeros = np.array([.125, .25, .5, 1], F), np.array([3, 128, 0, 9], u8)
gives('QuantizeLinear', [x, scales, zeros], [to_bytes(x, scales, zeros.astype(int))], axis=1)
b = rng.integers(0, 256, (3, 4)).astype(u8)
gives('DequantizeLinear', [b, scales, zeros], [((b.astype(int) - zeros) * scales).astype(F)], axis=1)
b = rng.integers(0, 60, (2, 3, 4, 5)).astype(u8)
whole = (b.astype(F) - x_zero) * x_scale
scalars = [np.array(v) for v in (x_scale, x_zero, y_scale, y_zero)]
for keep in 0, 1:
    gives('QLinearReduceMean', [b, *scalars], [to_bytes(whole.mean((1, 3), keepdims=bool(keep)), y_scale, int(y_zero))], axes=[1, 3], keepdims=keep)
for last in 0, 1:
    axes = (1, 2) if last else (2, 3)
    gives('QLinearGlobalAveragePool', [b, *scalars], [to_bytes(whole.mean(axes, keepdims=True), y_scale, int(y_zero))], channels_last=last)
    w, w_scale = rng.integers(-9, 9, (2, 5 if last else 3, 1, 1)).astype(np.int8), F(0.125)
    sums = np.einsum('nhwc,fc->nhwf' if last else 'nchw,fc->nfhw', whole, w[:, :, 0, 0] * w_scale)
    gives('QLinearConv', [b, *scalars[:2], w, np.array(w_scale), np.array(np.int8(0)), np.array(F(2)), scalars[3]], [to_bytes(sums, 2, int(y_zero))],
          channels_last=last)

print('%d passed, %d failed' % (passed, failed))
sys.exit(failed > 0)
