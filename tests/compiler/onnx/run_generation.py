#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run_generation.py OURO WORK [CASES [SEED]]: GreedySearch, Sampling, BeamSearch and WhisperBeamSearch around small random decoders, through the command: what they give is what
a search in numpy gives, which runs the same decoder word by word. Then what is refused, with its message. Ends with "N passed, N failed".

run_generation.py models FOLDER CASES [SEED] writes the same cases as test folders, for `ouro test --compare-ort FOLDER`. Cases that end early are left out where
ONNX Runtime does not write what is left of a result: GreedySearch, Sampling, and scores; so are those that it fails with."""
import os
import subprocess
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, LOWEST = np.float32, np.finfo(np.float32).min
INT32, FLOAT, PRIME = TensorProto.INT32, TensorProto.FLOAT, 2**31 - 1
INPUTS = {'GreedySearch': ['input_ids', 'max_length', 'min_length', 'repetition_penalty', 'vocab_mask', 'prefix_vocab_mask', 'attention_mask'],
          'BeamSearch': ['input_ids', 'max_length', 'min_length', 'num_beams', 'num_return_sequences', 'length_penalty', 'repetition_penalty', 'vocab_mask',
                         'prefix_vocab_mask', 'attention_mask', 'decoder_input_ids']}
INPUTS['Sampling'] = INPUTS['GreedySearch'] + ['', 'seed']
INPUTS['WhisperBeamSearch'] = INPUTS['BeamSearch'] + ['', '', '', 'temperature']

np.seterr(over='ignore')  # scores of forbidden words


# ---- decoders: what a word adds to the cache is a row of a table; scores follow from the word, its position and the mean of the cache -----------

def graph_parts():
    """Lists of nodes and of constants, and functions that add one to either and give its name."""
    nodes, constants = [], []

    def constant(value):
        constants.append(numpy_helper.from_array(np.asarray(value), 'constant.%d' % len(constants)))
        return constants[-1].name

    def op(kind, *given, name=None, **attributes):
        nodes.append(helper.make_node(kind, list(given), [name or 'value.%d' % len(nodes)], **attributes))
        return nodes[-1].output[0]

    return nodes, constants, constant, op


class Decoder:
    def __init__(self, rng, words, size=4, layers=1, encoded=False):
        self.words, self.size, self.layers, self.encoded = words, size, layers, encoded
        self.table, self.kept = rng.normal(0, 1.5, (words, words)).astype(F), [rng.normal(0, 1, (words, 2 * size)).astype(F) for _ in range(layers)]
        self.place, self.mix = rng.normal(0, 1, (40, words)).astype(F), [rng.normal(0, 1, (2 * size, words)).astype(F) for _ in range(layers)]

    def run(self, ids, positions, mask, past):
        """In numpy. `past`: for each layer [rows, positions, 2 * size]."""
        present = [np.concatenate([p, k[ids]], 1) for p, k in zip(past, self.kept)]
        scores = self.table[ids] + self.place[positions]
        for p, m in zip(present, self.mix):
            scores = scores + ((p * mask[..., None]).sum(1) / np.maximum(mask.sum(1), 1)[:, None]).astype(F)[:, None] @ m
        return scores.astype(F), present

    def graph(self, inputs=None, logits=None):
        """With caches [2, rows, 1, positions, size]; `inputs` and `logits` are names and dimensions that are wrong."""
        nodes, constants, constant, op = graph_parts()

        shares = op('Cast', 'attention_mask', to=FLOAT)
        count = op('Max', op('ReduceSum', shares, constant(np.array([1])), keepdims=1), constant(F(1)))
        scores = op('Add', op('Gather', constant(self.table), 'input_ids'), op('Gather', constant(self.place), 'position_ids'))
        for layer in range(self.layers):
            new = op('Reshape', op('Gather', constant(self.kept[layer]), 'input_ids'), constant(np.array([0, 0, 2, 1, self.size])))
            present = op('Concat', 'past_%d' % layer, op('Transpose', new, perm=[2, 0, 3, 1, 4]), axis=3, name='present_%d' % layer)
            rows = op('Reshape', op('Transpose', present, perm=[1, 3, 0, 2, 4]), constant(np.array([0, 0, -1])))
            mean = op('Div', op('ReduceSum', op('Mul', rows, op('Unsqueeze', shares, constant(np.array([2])))), constant(np.array([1])), keepdims=0), count)
            scores = op('Add', scores, op('Unsqueeze', op('MatMul', mean, constant(self.mix[layer])), constant(np.array([1]))))
        op('Identity', scores, name='logits')
        names = [('input_ids', INT32, ['rows', 'some']), ('position_ids', INT32, ['rows', 'some']), ('attention_mask', INT32, ['rows', 'all'])]
        names += [('past_%d' % i, FLOAT, [2, 'rows', 1, 'before', self.size]) for i in range(self.layers)]
        results = [('logits', FLOAT, logits or ['rows', 'some', self.words])] + [('present_%d' % i, FLOAT, [2, 'rows', 1, 'all', self.size]) for i in range(self.layers)]
        return helper.make_graph(nodes, 'decoder', [helper.make_tensor_value_info(*i) for i in inputs or names],
                                 [helper.make_tensor_value_info(*r) for r in results], constants)

    def graphs_encoded(self, own, heard=False):
        """An encoder whose cache is a row for each word that it reads, and a decoder that takes the mean of these; `own`: the encoder gives that alone. `heard`: frames
        of sound in place of words, which are the rows."""
        nodes, constants, constant, op = graph_parts()

        caches = lambda kind: ['%s_%d' % (half + '_' + kind, i) for i in range(self.layers) for half in ('key', 'value')]

        def cached(layer, half, ids, name=None):
            rows = op('Gather', constant(self.kept[layer][:, half * self.size:(half + 1) * self.size]), ids)
            return op('Unsqueeze', rows, constant(np.array([1])), name=name)

        def mean(cache, shares=None):
            flat = op('Squeeze', cache, constant(np.array([1])))
            if shares is None:
                return op('ReduceMean', flat, axes=[1], keepdims=0)
            total = op('ReduceSum', op('Mul', flat, op('Unsqueeze', shares, constant(np.array([2])))), constant(np.array([1])), keepdims=0)
            return op('Div', total, op('Max', op('ReduceSum', shares, constant(np.array([1])), keepdims=1), constant(F(1))))

        def decode(ids, past, cross):
            shares = None if heard else op('Cast', 'encoder_attention_mask', to=FLOAT)
            scores = op('Gather', constant(self.table), ids)
            for layer in range(self.layers):
                means = []
                for half in range(2):
                    name = 'present_' + caches('self')[2 * layer + half]
                    new = cached(layer, half, ids, None if past else name)
                    present = op('Concat', past[2 * layer + half], new, axis=2, name=name) if past else new
                    means.append(op('Add', mean(present), mean(cross[2 * layer + half], shares)))
                both = op('MatMul', op('Concat', *means, axis=1), constant(self.mix[layer]))
                scores = op('Add', scores, op('Unsqueeze', both, constant(np.array([1]))))
            op('Identity', scores, name='logits')

        info, cross_dims, self_dims = helper.make_tensor_value_info, ['rows', 1, 'read', self.size], ['rows', 1, 'before', self.size]
        hear = lambda half, name: op('Unsqueeze', op('Mul', op('Transpose', 'encoder_input_ids', perm=[0, 2, 1]), constant(F(half + 1))), constant(np.array([1])), name=name)
        cross = [hear(i % 2, 'present_' + n) if heard else cached(i // 2, i % 2, 'encoder_input_ids', 'present_' + n) for i, n in enumerate(caches('cross'))]
        taken, given = [info(n, INT32, ['rows', 'read']) for n in ('encoder_input_ids', 'encoder_attention_mask')], []
        if heard:
            taken = [info('encoder_input_ids', FLOAT, ['rows', self.size, 'read'])]
        if not own:
            if heard:
                op('Transpose', 'encoder_input_ids', perm=[0, 2, 1], name='encoder_hidden_states')
            else:
                op('Unsqueeze', op('Cast', 'encoder_input_ids', to=FLOAT), constant(np.array([2])), name='encoder_hidden_states')
            decode('decoder_input_ids', None, cross)
            taken.append(info('decoder_input_ids', INT32, ['rows', 'begun' if heard else 1]))
            given = [info('logits', FLOAT, ['rows', 'begun' if heard else 1, self.words]), info('encoder_hidden_states', FLOAT, ['rows', 'read', self.size if heard else 1])]
            given += [info('present_' + n, FLOAT, ['rows', 1, 'begun' if heard else 1, self.size]) for n in caches('self')]
        encoder = helper.make_graph(nodes, 'encoder', taken, given + [info(n, FLOAT, cross_dims) for n in cross], constants)
        nodes, constants, constant, op = graph_parts()
        decode('input_ids', ['past_' + n for n in caches('self')], ['past_' + n for n in caches('cross')])
        taken = [info('input_ids', INT32, ['rows', 1])]
        taken.append(info('encoder_hidden_states', FLOAT, ['rows', 'read', self.size]) if heard else info('encoder_attention_mask', INT32, ['rows', 'read']))
        taken += [info('past_' + n, FLOAT, self_dims) for n in caches('self')] + [info('past_' + n, FLOAT, cross_dims) for n in caches('cross')]
        given = [info('logits', FLOAT, ['rows', 1, self.words])] + [info('present_' + n, FLOAT, ['rows', 1, 'after', self.size]) for n in caches('self')]
        return encoder, helper.make_graph(nodes, 'decoder', taken, given, constants)


# ---- searches in numpy -------------------------------------------------------------------------------------------------------------------------

class Search:
    """The state of a decoder for rows of words."""

    def __init__(self, decoder, attributes, given, beams):
        self.decoder, self.pad = decoder, attributes['pad_token_id']
        ids = given['input_ids']
        if ids.ndim == 3:
            mean = ids.mean(2)
            self.rows = np.repeat(np.arange(len(ids)), beams)
            self.read = [np.concatenate([mean, 2 * mean], 1)[self.rows].astype(F)] * decoder.layers
            self.past = [np.zeros((len(self.rows), 0, 2 * decoder.size), F)] * decoder.layers
            self.start = given.get('decoder_input_ids', np.full((len(ids), 1), attributes['decoder_start_token_id'], np.int32))
            return
        there = (ids != self.pad).astype(np.int32)
        self.rows = np.repeat(np.arange(len(ids)), beams)
        if decoder.encoded:
            mask = given.get('attention_mask', (np.cumsum(there, 1) > 0).astype(np.int32))
            each = lambda k: ((k[ids] * mask[..., None]).sum(1) / np.maximum(mask.sum(1), 1)[:, None])
            self.read = [each(k)[self.rows].astype(F) for k in decoder.kept]
            self.past = [np.zeros((len(self.rows), 0, 2 * decoder.size), F)] * decoder.layers
            self.start = np.full((len(ids), 1), attributes['decoder_start_token_id'], np.int32)
        else:
            self.mask = given.get('attention_mask', there)[self.rows]
            self.positions = ((np.cumsum(there, 1) - 1) * there)[self.rows]
            self.next = there.sum(1)[self.rows]
            self.past, self.start = [np.zeros((len(self.rows), 0, 2 * decoder.size), F)] * decoder.layers, ids

    def read_words(self, ids):
        if self.decoder.encoded:
            self.past = [np.concatenate([p, k[ids]], 1) for p, k in zip(self.past, self.decoder.kept)]
            scores = self.decoder.table[ids[:, -1]]
            for p, r, m in zip(self.past, self.read, self.decoder.mix):
                scores = scores + (p.mean(1) + r) @ m
            return scores.astype(F)
        scores, self.past = self.decoder.run(ids, self.positions, self.mask, self.past)
        self.positions = self.next[:, None]
        self.next, self.mask = self.next + 1, np.concatenate([self.mask, np.ones((len(ids), 1), np.int32)], 1)
        return scores[:, -1]

    def move(self, rows):
        self.past = [p[rows] for p in self.past]


def change(scores, sequences, first, attributes, given, beams):
    penalty, size = given.get('repetition_penalty', [F(1)])[0], attributes.get('no_repeat_ngram_size', 0)
    for row, words in zip(scores, sequences):
        for word in set(words):
            row[word] = row[word] * penalty if row[word] < 0 else row[word] / penalty
        if 0 < size <= len(words):
            for i in range(len(words) - size + 1):
                if list(words[i:i + size - 1]) == list(words[len(words) - size + 1:]):
                    row[words[i + size - 1]] = LOWEST
    if 'vocab_mask' in given:
        scores[:, given['vocab_mask'] == 0] = LOWEST
    if first and 'prefix_vocab_mask' in given:
        scores[np.repeat(given['prefix_vocab_mask'], beams, 0) == 0] = LOWEST
    if len(sequences[0]) < given.get('min_length', [0])[0]:
        scores[:, attributes['eos_token_id']] = LOWEST
    scores /= F(given['temperature'][0] if 'temperature' in given else attributes.get('temperature', 1))


def sample(scores, attributes, state):
    """A word for each row: the unlikeliest are left out, and the generator of C++'s minstd_rand0 gives two numbers for each."""
    words, top, falling = [], F(attributes['top_p']), attributes['custom']
    for row in scores:
        order = np.argsort(-row if falling else row, kind='stable')
        sums = np.exp(row[order] - row.max())
        sums = np.cumsum((sums / sums.sum()).astype(F), dtype=F)
        out = np.concatenate([[False], sums[:-1] > top]) if falling else sums <= F(1) - top
        if not falling:
            out[max(1, len(row) - attributes['min_tokens_to_keep']):] = False
        row[order[out]] = -1e20
        low = state = state * 16807 % PRIME
        state = state * 16807 % PRIME
        sums = np.cumsum(np.exp(row.astype(np.float64) - row.max()))
        words.append(np.searchsorted(sums, ((low - 1) + (state - 1) * (PRIME - 1.0)) / (PRIME - 1.0)**2 * sums[-1], side='right'))
    return np.array(words, np.int32), state


def greedy(decoder, attributes, given):
    """What is left when all sequences have ended is 0."""
    search, limit = Search(decoder, attributes, given, 1), given['max_length'][0]
    sequences, ended, ids = search.start, np.zeros(len(search.start), bool), search.start
    state = int(given.get('seed', [0])[0]) % 2**32 % PRIME or 1
    while sequences.shape[1] < limit and not ended.all():
        scores = search.read_words(ids)
        change(scores, sequences, ids is search.start, attributes, given, 1)
        word = scores.argmax(1).astype(np.int32)
        if 'top_p' in attributes:
            word, state = sample(scores, attributes, state)
        ended |= word == attributes['eos_token_id']
        ids = np.where(ended, attributes['pad_token_id'], word).astype(np.int32)[:, None]
        sequences = np.concatenate([sequences, ids], 1)
    decoder.unwritten = sequences.shape[1] < limit
    return [np.pad(sequences, [(0, 0), (0, limit - sequences.shape[1])])]


def beam(decoder, attributes, given):
    beams, limit, end, words = given['num_beams'][0], given['max_length'][0], attributes['eos_token_id'], decoder.words
    power, early = given.get('length_penalty', [F(1)])[0], attributes.get('early_stopping', 0)
    search = Search(decoder, attributes, given, beams)
    batch, ids = len(search.start), np.repeat(search.start, beams, 0)
    sequences, sums = ids, np.tile(np.array([0] + [-1e9] * (beams - 1), F), batch)
    kept, done, steps = [[] for _ in range(batch)], [False] * batch, []

    def keep(b, sequence, total):
        score = F(total / F(F(len(sequence)) ** power))
        at = sum(1 for s, _ in kept[b] if s >= score)
        kept[b] = (kept[b][:at] + [(score, sequence)] + kept[b][at:])[:beams]

    first = True
    while sequences.shape[1] < limit and not all(done):
        scores, length = search.read_words(ids), sequences.shape[1]
        scores = scores - scores.max(1, keepdims=True)
        scores = (scores - np.log(np.exp(scores).sum(1, keepdims=True))).astype(F)
        change(scores, sequences, first, attributes, given, beams)
        scores, first = scores + sums[:, None], False
        steps.append(scores.reshape(batch, beams, words))
        flat = scores.reshape(batch, -1)
        best = np.argsort(-flat, 1, kind='stable')[:, :2 * beams]
        top = np.take_along_axis(flat, best, 1)
        ids, rows, sums = np.full((batch * beams, 1), attributes['pad_token_id'], np.int32), np.zeros(batch * beams, int), np.zeros(batch * beams, F)
        for b in range(batch):
            if done[b]:
                continue
            taken = 0
            for j in range(2 * beams):
                row, word = b * beams + best[b, j] // words, best[b, j] % words
                if word == end:
                    if j < beams:
                        keep(b, sequences[row], top[b, j])
                elif taken < beams:
                    ids[b * beams + taken], rows[b * beams + taken], sums[b * beams + taken] = word, row, top[b, j]
                    taken += 1
            # ONNX Runtime looks at K candidates of the batch, and at K that follow these.
            highest = top.ravel()[b * beams:(b + 2) * beams].max()
            if len(kept[b]) == beams and (early or not kept[b][-1][0] < F(highest / F(F(length) ** power))):
                done[b] = True
        sequences = np.concatenate([sequences[rows], ids], 1)
        search.move(rows if beams > 1 else slice(None))
    for b in range(batch):
        for i in range(b * beams, (b + 1) * beams):
            if not done[b]:
                keep(b, sequences[i], sums[i])
    some, fill = given.get('num_return_sequences', [1])[0], attributes['pad_token_id']
    rows = [[np.pad(s, (0, limit - len(s)), constant_values=fill) for _, s in k[:some]] for k in kept]
    decoder.unwritten = limit - search.start.shape[1] > len(steps)
    steps += [np.zeros_like(steps[0])] * (limit - search.start.shape[1] - len(steps))
    return [np.array(rows, np.int32), np.array([[s for s, _ in k[:some]] for k in kept], F), np.array(steps)]


# ---- cases -------------------------------------------------------------------------------------------------------------------------------------

def model(operator, attributes, given, constants, outputs, words, fixed):
    names = [n if n in given else '' for n in INPUTS[operator]]
    while not names[-1]:
        names.pop()
    node = helper.make_node(operator, names, outputs, domain='com.microsoft', **attributes)
    kinds, open_dims = {np.dtype(np.int32): INT32, np.dtype(F): FLOAT}, {'input_ids': ['batch', 'length'], 'decoder_input_ids': ['batch', 'begun'], 'attention_mask': ['batch', 'length'],
                                                                        'prefix_vocab_mask': ['batch', words]}
    inputs = [helper.make_tensor_value_info(n, kinds[given[n].dtype], given[n].shape if fixed or given[n].ndim == 3 else open_dims.get(n, given[n].shape))
              for n in names if n and n not in constants]
    made = {'sequences': (INT32, ['batch', 'limit'] if operator in ('GreedySearch', 'Sampling') else ['batch', 'some', 'limit']), 'sequences_scores': (FLOAT, ['batch', 'some']),
            'scores': (FLOAT, ['steps', 'batch', 'beams', words])}
    if operator == 'BeamSearch' and given['max_length'][0] % 2:  # results that nobody reads may be named all the same
        node.output.extend(['unread.%d' % i for i in range(3 - len(outputs))])
    graph = helper.make_graph([node], 'search', inputs, [helper.make_tensor_value_info(o, *made[o]) for o in outputs],
                              [numpy_helper.from_array(given[n], n) for n in names if n in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17), helper.make_opsetid('com.microsoft', 1)], ir_version=8)


def one(kind, value):
    return np.array([value], kind)


def draw(seed):
    """A case: its model, what it is given, which of that are constants, what is expected, and whether ONNX Runtime writes all of that."""
    rng = np.random.default_rng(seed)
    some = lambda a, b: int(rng.integers(a, b + 1))
    kind = seed % 6
    operator = {0: 'GreedySearch', 5: 'Sampling', 4: ['BeamSearch', 'WhisperBeamSearch'][some(0, 1)]}.get(kind, 'BeamSearch')
    words, batch, length = some(6, 24), some(1, 3), some(1, 5)
    decoder = Decoder(rng, words, 2 * some(1, 3), some(1, 2), encoded=kind in (3, 4))
    limit, end = (some(3, 14) if kind == 3 else length + some(1, 12)), some(0, words - 1)
    pad = end if some(0, 2) == 0 else some(0, words - 1)
    ids = rng.integers(0, words, (batch, length)).astype(np.int32)
    for row in ids if kind != 4 else []:
        row[:some(0, length - 1) if some(0, 2) == 0 else 0] = pad
    attributes = dict(eos_token_id=end, pad_token_id=pad, model_type={3: 1, 4: 2}.get(kind, 0))
    if some(0, 2) == 0:
        attributes['no_repeat_ngram_size'] = some(1, 4)
    given = dict(input_ids=ids, max_length=one(np.int32, limit), min_length=one(np.int32, some(0, limit - 1)),
                 repetition_penalty=one(F, rng.choice([1, 1, 1.3, 2, 0.7])))
    if some(0, 3) == 0:
        given['vocab_mask'] = (rng.random(words) < 0.7).astype(np.int32)
        given['vocab_mask'][:4] = 1
    if some(0, 3) == 0:
        given['prefix_vocab_mask'] = (rng.random((batch, words)) < 0.6).astype(np.int32)
    if kind == 4:
        given['input_ids'] = rng.normal(0, 1, (batch, decoder.size, some(1, 6))).astype(F)
        if some(0, 1):
            given['decoder_input_ids'] = ids
        if operator == 'WhisperBeamSearch':
            given['temperature'] = one(F, rng.choice([1, 0.7, 2]))
    elif some(0, 3) == 0:
        given['attention_mask'] = np.array([np.arange(length) >= some(0, length - 1) for _ in range(batch)]).astype(np.int32)
    outputs = ['sequences']
    if kind in (0, 5):
        attributes['decoder'] = decoder.graph()
        if kind == 5:
            attributes.update(temperature=float(rng.choice([1, 1.3, 2])), top_p=float(rng.choice([0.4, 0.8, 1])), custom=some(0, 1), min_tokens_to_keep=some(0, 3))
            if some(0, 3):
                given['seed'] = one(np.int32, some(-9, 100000))
    else:
        beams = some(1, 4)
        given.update(num_beams=one(np.int32, beams), num_return_sequences=one(np.int32, some(1, beams)), length_penalty=one(F, rng.choice([1, 0.5, 2, -1])))
        attributes['early_stopping'] = some(0, 1)
        outputs += ['sequences_scores', 'scores'][:some(0, 2)]
        if kind in (3, 4):
            attributes['encoder'], attributes['decoder'] = decoder.graphs_encoded(kind == 3 and some(0, 1) == 1, kind == 4)
            attributes['decoder_start_token_id'] = some(0, words - 1)
        else:
            attributes['decoder'] = decoder.graph()
    numbers = [n for n in given if n.startswith(('max', 'min', 'num', 'length', 'rep', 'temp', 'seed'))]
    constants = [[], numbers, [n for n in numbers if some(0, 1)]][some(0, 2)]
    expected = (greedy if kind in (0, 5) else beam)(decoder, attributes, given)[:len(outputs)]
    # With an encoder it wants to give more than one word.
    begun = given.get('decoder_input_ids', ids[:, :1]).shape[1] if kind in (3, 4) else 0
    written = limit > begun + 1 and (not decoder.unwritten or (kind not in (0, 5) and 'scores' not in outputs))
    return model(operator, attributes, given, constants, outputs, words, some(0, 1)), given, constants, dict(zip(outputs, expected)), written


def write(file, message):
    with open(file, 'wb') as out:
        out.write(message.SerializeToString())


def run(work, made, given, constants):
    write(os.path.join(work, 'm.onnx'), made)
    options = []
    for name in [i.name for i in made.graph.input]:
        np.save(os.path.join(work, name + '.npy'), given[name])
        options += ['--input', '%s=%s.npy' % (name, name)]
    return subprocess.run([OURO, 'run', 'm.onnx', *options, '--check', '--output-dir', '.'], cwd=work, capture_output=True, text=True)


def differs(work, expected):
    for name, values in expected.items():
        got = np.load(os.path.join(work, name + '.npy'))
        if got.shape != values.shape or got.dtype != values.dtype or not np.allclose(got, values, rtol=1e-4, atol=1e-4):
            return '%s is %s, expected %s' % (name, got.tolist(), values.tolist())
    return ''


# ---- what is refused ---------------------------------------------------------------------------------------------------------------------------

def refusals():
    """Models that are wrong, or not supported, and a part of the message."""
    decoder = Decoder(np.random.default_rng(1), 8)
    base, ids = dict(eos_token_id=5, pad_token_id=7, model_type=0), np.array([[1, 2]], np.int32)

    def case(expected, operator='GreedySearch', fixed=True, graph=None, constants=('max_length', 'num_beams', 'num_return_sequences', 'repetition_penalty'),
             attributes=(), **more):
        given = dict(dict(input_ids=ids, max_length=one(np.int32, 6)), **more)
        return expected, model(operator, dict(dict(base, decoder=graph or decoder.graph()), **dict(attributes)), given, [c for c in constants if c in given], ['sequences'], 8,
                               fixed), given

    names = [('input_ids', INT32, ['r', 's']), ('position_ids', INT32, ['r', 's']), ('attention_mask', INT32, ['r', 'a']), ('past_0', FLOAT, [2, 'r', 1, 'p', 4])]
    change = lambda i, name: decoder.graph([(name if k == i else n, t, d) for k, (n, t, d) in enumerate(names)])
    yield case('max_length is -3, expected more than', max_length=one(np.int32, -3))
    yield case('max_length is 2, expected more than', max_length=one(np.int32, 2))
    yield case('and at most 1048576', max_length=one(np.int32, 2000000))
    yield case('max_length is int32[2], expected one int32', max_length=np.array([5, 6], np.int32))
    yield case('', max_length=one(np.int32, 1), constants=())
    yield case('repetition_penalty is 0, expected more than 0', repetition_penalty=one(F, 0))
    yield case('vocab_mask must be int32 with 1 axes', vocab_mask=np.ones(5, np.int32))
    yield case('no_repeat_ngram_size 65 is not supported; up to 64 is', attributes={'no_repeat_ngram_size': 65})
    yield case('vocab_size 6 is not supported; 8 is', attributes={'vocab_size': 6})
    yield case('model_type 1 is not supported; 0 is', attributes={'model_type': 1})
    yield case('input 1 of graph "decoder" is "places", expected "position_ids"', graph=change(1, 'places'))
    yield case('beside 2 outputs, expected', graph=decoder.graph(names[:3]))
    yield case('that past and present share are not supported', graph=decoder.graph(names + [('past_sequence_length', INT32, [1]), ('beam_width', INT32, [1])][:1]))
    yield case('must be declared as [2, rows, heads, positions, size]', graph=decoder.graph(names[:3] + [('past_0', FLOAT, [2, 'r', 'h', 'p', 4])]))
    yield case('must be declared as [rows, positions, words]', graph=decoder.graph(logits=['r', 's', 'w']))
    yield case('min_tokens_to_keep is 9, expected less than the 8 words', 'Sampling', attributes={'min_tokens_to_keep': 9})
    yield case('num_beams is 0, expected 1 to', 'BeamSearch', num_beams=one(np.int32, 0))
    yield case('num_return_sequences is 3, expected 1 to the number of beams', 'BeamSearch', num_beams=one(np.int32, 2), num_return_sequences=one(np.int32, 3))
    yield case('', 'BeamSearch', constants=(), num_beams=one(np.int32, 2), num_return_sequences=one(np.int32, 3))
    yield case('', 'BeamSearch', constants=(), num_beams=one(np.int32, -1))
    yield case('model_type 3 is not supported; 0, a decoder alone, and 1 and 2, with an encoder of words and of sound, are', 'BeamSearch', attributes={'model_type': 3})
    yield case('attribute "encoder" is missing, model_type 1 needs it', 'BeamSearch', attributes={'model_type': 1})
    encoder, own = Decoder(np.random.default_rng(1), 8, encoded=True).graphs_encoded(own=False)
    encoded = {'model_type': 1, 'encoder': encoder, 'decoder': own, 'decoder_start_token_id': 0}
    yield case('decoder_start_token_id is -2, expected one of the 8 words', 'BeamSearch', attributes=dict(encoded, decoder_start_token_id=-2))
    yield case('input 0 of graph "encoder" is not called "encoder_input_ids"', 'BeamSearch', attributes=dict(encoded, encoder=decoder.graph(names[:3])))
    yield case('graph "decoder" must take "input_ids" first', 'BeamSearch', attributes=dict(encoded, decoder=encoder))


def main():
    global OURO
    if sys.argv[1] == 'models':
        for seed in range(int(sys.argv[4]) if len(sys.argv) > 4 else 1, (int(sys.argv[4]) if len(sys.argv) > 4 else 1) + int(sys.argv[3])):
            made, given, _, _, written = draw(seed)
            if not written:
                continue
            folder = os.path.join(sys.argv[2], '%05d' % seed, 'test_data_set_0')
            os.makedirs(folder, exist_ok=True)
            write(os.path.join(folder, '../model.onnx'), made)
            for i, value in enumerate(made.graph.input):
                write(os.path.join(folder, 'input_%d.pb' % i), numpy_helper.from_array(given[value.name], value.name))
        return 0
    OURO, work = (os.path.abspath(a) for a in sys.argv[1:3])
    cases, seed = int(sys.argv[3]) if len(sys.argv) > 3 else 72, int(sys.argv[4]) if len(sys.argv) > 4 else 1
    passed = failed = 0
    for i in range(seed, seed + cases):
        made, given, constants, expected, _ = draw(i)
        done = run(work, made, given, constants)
        wrong = 'status %d: %s' % (done.returncode, (done.stderr + done.stdout).strip()) if done.returncode else differs(work, expected)
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong:
            print('FAILED case %d (%s): %s' % (i, made.graph.node[0].op_type, wrong))
    for expected, made, given in refusals():
        done = run(work, made, given, [])
        right = done.returncode in (1, 2) and done.stderr.strip() and expected in done.stderr
        passed, failed = passed + bool(right), failed + (not right)
        if not right:
            print('FAILED to refuse: status %d, expected "%s", got: %s' % (done.returncode, expected, (done.stderr + done.stdout).strip()[:400]))
    print('%d passed, %d failed' % (passed, failed))
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
