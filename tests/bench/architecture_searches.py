# SPDX-License-Identifier: Apache-2.0
"""Decoders within the operators of com.microsoft that generate text, as ONNX Runtime's convert_generation.py writes them. What architecture_models.py saves."""
import numpy as np
from onnx import TensorProto, helper

from architecture_decoding import attend
from architecture_net import FLOAT

INT32, MICROSOFT = TensorProto.INT32, "com.microsoft"


def search_graph(body, name, inputs, outputs):
    """A graph that a search owns: its inputs are (name, element type, shape), its outputs (value, name, shape)."""
    for value, called, _ in outputs:
        body.nodes.append(helper.make_node("Identity", [value], [called]))
    return helper.make_graph(body.nodes, name, [helper.make_tensor_value_info(*i) for i in inputs],
                             [helper.make_tensor_value_info(called, FLOAT, shape) for _, called, shape in outputs], body.constants)


def numbers(n, *pairs):
    """Inputs of the search that are constants of the model."""
    return [n.constant(np.array([value], np.float32 if isinstance(value, float) else np.int32)) for value in pairs]


def search(n, kind, inputs, outs=1, **attributes):
    made = n.op(kind, *inputs, outs=outs, domain=MICROSOFT, pad_token_id=0, **attributes)
    return made if isinstance(made, list) else [made]


def fused_decoder(n, width, heads, layers, words):
    """GPT-2 after the optimizer: embeddings of words and positions, Attention with one cache for keys and values, SkipLayerNormalization, FastGelu."""
    b, size = n.inner("decoder"), width // heads
    table = b.weight(words, width, fan=1)
    x = b.add(b.op("Gather", table, "input_ids"), b.op("Gather", b.weight(128, width, fan=16), "position_ids"))
    past = [2, "batch_size", heads, "past_sequence_length", size]
    inputs = [("input_ids", INT32, ["batch_size", "sequence_length"]), ("position_ids", INT32, ["batch_size", "sequence_length"]),
              ("attention_mask", INT32, ["batch_size", "total_sequence_length"])] + [(f"past_{i}", FLOAT, past) for i in range(layers)]
    outputs = []
    y = b.layer_norm(x, width)
    for i in range(layers):
        y, present = b.op("Attention", y, b.weight(width, 3 * width), b.bias(3 * width), "attention_mask", f"past_{i}", outs=2, domain=MICROSOFT, num_heads=heads, unidirectional=1)
        outputs.append((present, f"present_{i}", [2, "batch_size", heads, "total_sequence_length", size]))
        scale, bias = b.constant(np.ones(width, "f")), b.bias(width)
        y, _, _, x = b.op("SkipLayerNormalization", x, b.linear(y, width, width), scale, bias, outs=4, domain=MICROSOFT)
        y = b.op("FastGelu", b.op("MatMul", y, b.weight(width, 4 * width)), b.bias(4 * width), domain=MICROSOFT)
        y, _, _, x = b.op("SkipLayerNormalization", x, b.linear(y, 4 * width, width), scale, bias, outs=4, domain=MICROSOFT)
    logits = (b.op("MatMul", y, b.transpose(table, 1, 0)), "logits", ["batch_size", "sequence_length", words])
    return search_graph(b, "gpt", inputs, [logits] + outputs)


def greedy_search(n):
    """GPT-2 of four layers, 48 words after a prompt of 16, by GreedySearch; words that were there count less."""
    words = 3000
    ids = n.input("input_ids", n.random.integers(1, words - 1, (1, 16)).astype(np.int32), [1, 16])
    inputs = [ids, *numbers(n, 64, 1, 1.2)]
    n.output(search(n, "GreedySearch", inputs, decoder=fused_decoder(n, 256, 8, 4, words), eos_token_id=words - 1)[0], kind=INT32)


def beam_search_operator(n):
    """The same decoder in BeamSearch, with four beams for two prompts; lengths are given to the model."""
    words = 3000
    ids = n.input("input_ids", n.random.integers(1, words - 1, (2, 12)).astype(np.int32), ["batch_size", "sequence_length"])
    limits = [n.input(name, np.array([value], np.int32), [1]) for name, value in [("max_length", 44), ("min_length", 1), ("num_beams", 4), ("num_return_sequences", 2)]]
    made = search(n, "BeamSearch", [ids, *limits, *numbers(n, 1.0, 1.0)], outs=2, decoder=fused_decoder(n, 256, 8, 4, words), eos_token_id=words - 1, no_repeat_ngram_size=3,
                  early_stopping=1)
    n.output(made[0], kind=INT32), n.output(made[1])


def beam_search_encoded(n):
    """T5-like: two layers of an encoder, whose graph also begins the decoder of two layers; three beams of 32 words."""
    words, width, heads, size, layers = 2000, 256, 8, 32, 2
    names = lambda kind, which: [f"{which}_{half}_{kind}_{i}" for i in range(layers) for half in ("key", "value")]
    shared = ["rows", heads, "read", size]

    def decode(b, ids, own, cross):
        """Two runs of it draw the same weights."""
        b.random = np.random.default_rng(5)
        y, presents = b.op("Gather", b.weight(words, width, fan=1), ids), []
        hidden = b.op("Unsqueeze", b.op("Sub", b.number(1), b.op("Cast", "encoder_attention_mask", to=FLOAT)), b.integers(1, 2))
        mask = b.mul(hidden, b.number(-1e4))
        for i in range(layers):
            q, k, v = (b.heads(b.linear(b.layer_norm(y, width), width, width, bias=False), heads, size, -1) for _ in range(3))
            if own:
                k, v = b.op("Concat", own[2 * i], k, axis=2), b.op("Concat", own[2 * i + 1], v, axis=2)
            presents += [k, v]
            y = b.add(y, b.linear(b.reshape(b.transpose(attend(b, q, k, v, size), 0, 2, 1, 3), 0, -1, width), width, width, bias=False))
            q = b.heads(b.linear(b.layer_norm(y, width), width, width, bias=False), heads, size, -1)
            y = b.add(y, b.linear(b.reshape(b.transpose(attend(b, q, cross[2 * i], cross[2 * i + 1], size, mask), 0, 2, 1, 3), 0, -1, width), width, width, bias=False))
            y = b.add(y, b.feed_forward(b.layer_norm(y, width), width, 512, b.relu))
        return b.linear(b.layer_norm(y, width), width, words, bias=False), presents

    e = n.inner("encoder")
    x = e.op("Gather", e.weight(words, width, fan=1), "encoder_input_ids")
    for _ in range(2):
        x = e.add(x, e.self_attention(e.layer_norm(x, width), width, heads))
        x = e.add(x, e.feed_forward(e.layer_norm(x, width), width, 512, e.relu))
    cross = [e.heads(e.linear(x, width, width, bias=False), heads, size, -1) for _ in range(2 * layers)]
    logits, presents = decode(e, "decoder_input_ids", None, cross)
    outputs = [(logits, "logits", ["rows", 1, words]), (x, "encoder_hidden_states", ["rows", "read", width])]
    outputs += [(value, name, ["rows", heads, 1, size]) for value, name in zip(presents, names("self", "present"))]
    outputs += [(value, name, shared) for value, name in zip(cross, names("cross", "present"))]
    mask = ("encoder_attention_mask", INT32, ["rows", "read"])
    encoder = search_graph(e, "encoder", [("encoder_input_ids", INT32, ["rows", "read"]), mask, ("decoder_input_ids", INT32, ["rows", 1])], outputs)
    d = n.inner("decoder")
    logits, presents = decode(d, "input_ids", names("self", "past"), names("cross", "past"))
    inputs = [("input_ids", INT32, ["rows", 1]), mask] + [(name, FLOAT, ["rows", heads, "before", size]) for name in names("self", "past")]
    inputs += [(name, FLOAT, shared) for name in names("cross", "past")]
    decoder = search_graph(d, "decoder", inputs, [(logits, "logits", ["rows", 1, words])] +
                           [(value, name, ["rows", heads, "after", size]) for value, name in zip(presents, names("self", "present"))])
    ids = n.input("input_ids", n.random.integers(1, words - 1, (1, 20)).astype(np.int32), [1, 20])
    made = search(n, "BeamSearch", [ids, *numbers(n, 33, 1, 3, 1, 1.0, 1.0)], outs=2, encoder=encoder, decoder=decoder, model_type=1, decoder_start_token_id=0, eos_token_id=1)
    n.output(made[0], kind=INT32), n.output(made[1])


MODELS = {f.__name__: (f, opset) for f, opset in [(greedy_search, 17), (beam_search_operator, 17), (beam_search_encoded, 17)]}
