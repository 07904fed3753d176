# SPDX-License-Identifier: Apache-2.0
"""Tests of the Python package. OURO_MODELS names the program that writes the example models."""
import inspect
import os
import pickle
import re
import subprocess
import threading

import numpy
import pytest

import ouro


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([os.environ["OURO_MODELS"], str(folder), "swap", "convolution_recurrence", "newton", "rnn_cell",
                    "greedy_decoding", "decoder"], check=True, stdout=subprocess.DEVNULL)
    return folder


def random(shape, seed=1):
    return numpy.random.default_rng(seed).standard_normal(shape, numpy.float32)


def test_loop(models):
    plan = ouro.compile(models / "swap.onnx", memory_map=True)
    a, b = random(65536), random(65536, 2)
    outputs = plan.run({"a": a, "b": b})
    left, right = a, b
    for _ in range(9):
        left, right = right, left + right
    numpy.testing.assert_array_equal(outputs["x"], left)
    numpy.testing.assert_array_equal(outputs["y"], right)
    loop = plan.report["loops"][0]
    assert (loop["unroll"], loop["repeat_lengths"], loop["copied_bytes_per_iteration"]) == (2, [2, 2], 0)
    assert plan.memory_map._repr_svg_().startswith("<?xml")
    assert plan.inputs[0].shape == (65536,) and plan.inputs[0].dtype == numpy.float32


def test_nothing_is_copied(models):
    session = ouro.compile(models / "swap.onnx").session()
    a, b, x = random(65536), random(65536, 2), numpy.empty(65536, numpy.float32)
    session.bind({"a": a, "b": b})
    session.bind_output("x", x)
    outputs = session.run(copy=False)
    assert numpy.shares_memory(outputs["x"], x)
    first = x.copy()
    a += 1  # read where it lies
    session.run(copy=False)
    assert not numpy.array_equal(first, x)
    with pytest.raises(ouro.OuroError, match="in C order"):
        session.bind_output("x", numpy.empty(65536, numpy.float64))


def test_default_values(models):
    with pytest.raises(ouro.OuroError, match="no input to keep is called 'none'"):
        ouro.compile(models / "swap.onnx", keep_input=["none"])


def test_files_and_pickles(models, tmp_path):
    path = tmp_path / "swap.plan"
    made = ouro.compile(models / "swap.onnx", path)
    a, b = random(65536), random(65536, 2)
    expected = made.run({"a": a, "b": b})
    for plan in (ouro.load(path), ouro.load(path, share=True), pickle.loads(pickle.dumps(made))):
        numpy.testing.assert_array_equal(plan.run({"a": a, "b": b})["y"], expected["y"])
    assert ouro.load(path).report["arena_bytes"] == made.arena_bytes
    loaded = ouro.load(path)
    assert [loop["node"] for loop in loaded.report["loops"]] == [loop["node"] for loop in made.report["loops"]] == ["swap"]
    assert loaded.memory_map._repr_svg_().startswith("<?xml") and "addresses repeat after 2" in loaded.memory_map
    assert "addresses repeat after 2" in made.memory_map  # it has a file
    with pytest.raises(ouro.OuroError, match="memory_map=True"):
        ouro.compile(models / "swap.onnx").memory_map
    with pytest.raises(TypeError):
        pickle.dumps(ouro.compile(models / "swap.onnx"))


def field(number, value):
    """A field of a message in protobuf's encoding: a number, or bytes or text with their length."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def test_maps(tmp_path):
    """What classifiers give: a sequence of maps from labels to probabilities (Softmax, ZipMap)."""
    shape = b"".join(field(1, field(1, extent)) for extent in (2, 3))
    maps = field(5, field(1, 8) + field(2, field(1, field(1, 1) + field(2, b""))))  # string to float
    labels = field(1, "classlabels_strings") + b"".join(field(9, label) for label in ("cat", "dog", "owl")) + field(20, 8)
    graph = (field(1, field(1, "x") + field(2, "p") + field(4, "Softmax"))
             + field(1, field(1, "p") + field(2, "z") + field(4, "ZipMap") + field(5, labels) + field(7, "ai.onnx.ml"))
             + field(2, "maps") + field(11, field(1, "x") + field(2, field(1, field(1, 1) + field(2, shape))))
             + field(12, field(1, "z") + field(2, field(4, field(1, maps)))))
    model = field(1, 8) + field(7, graph) + field(8, field(2, 13)) + field(8, field(1, "ai.onnx.ml") + field(2, 1))
    (tmp_path / "maps.onnx").write_bytes(model)
    x = random((2, 3))
    rows = ouro.compile(tmp_path / "maps.onnx").run({"x": x})["z"]
    expected = numpy.exp(x) / numpy.exp(x).sum(axis=1, keepdims=True)
    assert len(rows) == 2
    for row, probabilities in zip(rows, expected):
        assert list(row) == ["cat", "dog", "owl"]
        numpy.testing.assert_allclose([float(v) for v in row.values()], probabilities, rtol=1e-6)


def test_sequences(models):
    plan = ouro.compile(models / "greedy_decoding.onnx")
    outputs = plan.run({tensor.name: numpy.ones([n if isinstance(n, int) else 1 for n in tensor.shape], tensor.dtype)
                        for tensor in plan.inputs})
    assert len(outputs) == len(plan.outputs)


def test_threads(models):
    plan = ouro.compile(models / "convolution_recurrence.onnx")
    tensor = plan.inputs[0]
    x = random(tensor.shape)
    expected = plan.run({tensor.name: x})[plan.outputs[0].name]
    found = []
    threads = [threading.Thread(target=lambda: found.append(plan.run({tensor.name: x}))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for outputs in found:
        numpy.testing.assert_array_equal(outputs[plan.outputs[0].name], expected)


def test_states(models):
    plan = ouro.compile(models / "swap.onnx", state={"a": "x", "b": "y"})
    assert plan.state_bytes >= 2 * 65536 * 4 and not plan.inputs
    session = plan.session()
    saved = session.save()
    assert [session.run() for _ in range(2)] == [{}, {}]
    session.restore(saved)
    session.reset()
    assert list(session.clone().stream([{}, {}, {}])) == [{}, {}, {}]


def test_errors(models):
    with pytest.raises(ouro.OuroError, match="cannot be opened") as caught:
        ouro.compile(models / "none.onnx")
    assert caught.value.status in (1, 3)
    plan = ouro.compile(models / "swap.onnx")
    with pytest.raises(ouro.OuroError, match="there is no input 'z', expected one of: a, b"):
        plan.run({"z": 1})
    with pytest.raises(ouro.OuroError, match="input 'a'"):
        plan.run({"a": random(7), "b": random(65536)})
    with pytest.raises(ouro.OuroError, match="not bound"):
        plan.session().run()


def test_state_values(models, tmp_path):
    plan = ouro.compile(models / "decoder.onnx", state={"past.*": "present.*"}, max={"past": 8, "sequence": 4})
    assert len(plan.states) > 0 and all(state.axis is not None for state in plan.states)
    session = plan.session()
    feeds = {tensor.name: numpy.zeros([1 if not isinstance(d, int) else d for d in tensor.shape], tensor.dtype)
             for tensor in plan.inputs}
    outputs = [step for step in session.stream([feeds] * 3)]
    assert len(outputs) == 3 and session.length == 3
    name = plan.states[0].input
    kept = session.state(name)
    assert kept.shape[plan.states[0].axis] == 3 and numpy.array_equal(kept, session.state(plan.states[0].output))
    other = plan.session()
    for state in plan.states:
        other.set_state(state.input, session.state(state.input))
    for left, right in zip(session.run(feeds).values(), other.run(feeds).values()):
        numpy.testing.assert_array_equal(left, right)
    assert session.memory["table_bytes"] > 0
    assert session.memory["state_bytes"] > 0 and session.memory["total_bytes"] >= session.memory["state_bytes"]
    with pytest.raises(ouro.OuroError, match="there is no state 'nothing'"):
        session.state("nothing")


def test_tuning_and_tradeoff(models, tmp_path):
    times = tmp_path / "times.txt"
    plan = ouro.compile(models / "convolution_recurrence.onnx", tune=True, times=times)
    again = ouro.compile(models / "convolution_recurrence.onnx", times=times)
    assert times.exists() and plan.arena_bytes == again.arena_bytes
    least = ouro.compile(models / "convolution_recurrence.onnx", arena_limit="min", spill=tmp_path / "spilled")
    assert least.arena_bytes <= plan.arena_bytes and least.session(spill=tmp_path / "elsewhere")
    table = ouro.tradeoff(models / "convolution_recurrence.onnx", tmp_path / "curve.svg")
    assert "arena" in table and (tmp_path / "curve.svg").read_text().startswith("<")


def test_compile_refuses_nothing(models, capfd):
    """Each option of the command's `compile` has its parameter, or the attribute of a plan that gives the same."""
    other = {"--help": None, "--quiet": None, "--verbose": None, "--dim": "dims", "--shape": "shapes", "--states": "state_type", "--tradeoff": "tradeoff",
             "--tradeoff-picture": "tradeoff", "--report": "report"}
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", ouro.command("compile", "--help"), re.MULTILINE)
    parameters = inspect.signature(ouro.compile).parameters
    assert len(options) > 25
    for option in options:
        name = other.get(option, option[2:].replace("-", "_"))
        assert name is None or name in parameters or hasattr(ouro, name) or hasattr(ouro.Plan, name), option
    ouro.compile(models / "swap.onnx", dump_after="schedule")
    assert "Loop(" in capfd.readouterr().err


def test_alloc():
    solved = ouro.alloc([(0, 2, 64), (1, 3, 64), (2, 4, 64)])
    assert solved["height"] == solved["lower_bound"] == 128
    assert solved["offsets"][0] != solved["offsets"][1] != solved["offsets"][2]
    assert "ouro" in ouro.command("--version") and ouro.version() in ouro.command("--version")
