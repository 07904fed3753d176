# SPDX-License-Identifier: Apache-2.0
"""The example of a cluster, on two local workers; skipped where Dask is not installed."""
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import ouro

pytest.importorskip("distributed", reason="python3-distributed is not installed")


def test_two_workers(tmp_path):
    subprocess.run([os.environ["OURO_MODELS"], str(tmp_path), "convolution_recurrence"], check=True, stdout=subprocess.DEVNULL)
    plan = ouro.compile(tmp_path / "convolution_recurrence.onnx", tmp_path / "model.plan")
    name, shape = plan.inputs[0].name, plan.inputs[0].shape
    (tmp_path / "in").mkdir()
    inputs = [numpy.full(shape, i, numpy.float32) for i in range(6)]
    for i, x in enumerate(inputs):
        numpy.save(tmp_path / "in" / f"{i}.npy", x)
    example = Path(__file__).resolve().parent.parent / "examples" / "batch_dask.py"
    subprocess.run([sys.executable, str(example), str(tmp_path / "model.plan"), name, str(tmp_path / "in"), str(tmp_path / "out")],
                   check=True, timeout=120)
    for i, x in enumerate(inputs):
        found = numpy.load(tmp_path / "out" / f"{i}.npz")
        for key, value in plan.run({name: x}).items():
            numpy.testing.assert_array_equal(found[key.replace("/", "_")], value)
