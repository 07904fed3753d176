# SPDX-License-Identifier: Apache-2.0
"""ouro: ONNX models compiled ahead of time into plans whose memory is laid out before the first run.

    import numpy, ouro

    plan = ouro.compile("model.onnx", dims={"batch": 1})
    session = plan.session()
    outputs = session.run({"image": numpy.zeros((1, 3, 224, 224), numpy.float32)})
    print(plan.arena_bytes, outputs["scores"].argmax())

Inputs are read where numpy has them. Outputs are written into arrays that numpy owns; `run(..., copy=False)` gives views of the
session's memory instead, which the next run overwrites. A plan may be used by any number of sessions on any number of threads; a
session by one thread at a time. While a session runs, other Python threads run, too.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

import numpy

from ouro._ouro import ffi, lib

__all__ = ["OuroError", "Tensor", "State", "Plan", "Session", "MemoryMap", "compile", "tradeoff", "load", "alloc", "command", "version"]

PathLike = Union[str, "os.PathLike[str]"]

_DTYPES: Dict[int, numpy.dtype] = {
    1: numpy.dtype(numpy.float32), 2: numpy.dtype(numpy.uint8), 3: numpy.dtype(numpy.int8), 4: numpy.dtype(numpy.uint16),
    5: numpy.dtype(numpy.int16), 6: numpy.dtype(numpy.int32), 7: numpy.dtype(numpy.int64), 8: numpy.dtype(object),
    9: numpy.dtype(numpy.bool_), 10: numpy.dtype(numpy.float16), 11: numpy.dtype(numpy.float64), 12: numpy.dtype(numpy.uint32),
    13: numpy.dtype(numpy.uint64), 14: numpy.dtype(numpy.complex64), 15: numpy.dtype(numpy.complex128),
}
"""numpy's types by the numbers that ONNX gives them. Others, such as bfloat16 and the types of 8 bits and fewer, are handed over as
the unsigned integers that hold their bits."""
_BITS = {16: numpy.dtype(numpy.uint16)}
_STRING, _INT64 = 8, 7
_TENSOR, _SEQUENCE, _OPTIONAL, _MAP = 0, 1, 2, 3
_KINDS = ("tensor", "sequence", "optional", "map")

Value = Union[numpy.ndarray, List[Any], Dict[Any, Any], None]
"""A tensor; a sequence as a list; an optional as what it holds, or None; a map as a dict."""


class OuroError(Exception):
    """What a call says when it fails. `status`: 1 invalid model, plan or data; 2 wrong usage; 3 the machine failed; 4 cancelled."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _check(status: int, error: Any) -> None:
    if status:
        raise OuroError(int(status), ffi.string(error.message).decode("utf-8", "replace"))


def _text(pointer: Any) -> str:
    return ffi.string(pointer).decode("utf-8", "replace")


def version() -> str:
    """The version of ouro that this package holds."""
    return _text(lib.ouro_version())


def _dtype(number: int) -> numpy.dtype:
    return _DTYPES.get(number) or _BITS.get(number) or numpy.dtype(numpy.uint8)


@dataclass(frozen=True)
class Tensor:
    """What an input or output is. A dimension is a number, its name in the model, or None where it has neither."""

    name: str
    kind: str  # "tensor", "sequence", "optional" or "map"
    element: str  # what a sequence or an optional holds
    dtype: numpy.dtype
    shape: Optional[Tuple[Union[int, str, None], ...]]  # None: the rank is not known
    bytes: int  # 0: not known before a run
    number: int  # ONNX's number of the element type


def _tensor(info: Any) -> Tensor:
    shape: Optional[Tuple[Union[int, str, None], ...]] = None
    if info.rank >= 0:
        shape = tuple(info.dims[d] if info.dims[d] >= 0 else
                      _text(info.dim_names[d]) if info.dim_names[d] != ffi.NULL else None for d in range(info.rank))
    return Tensor(_text(info.name), _KINDS[info.kind], _KINDS[info.element], _dtype(info.dtype), shape, info.bytes, info.dtype)


@dataclass(frozen=True)
class State:
    """What a plan keeps from run to run: after a run, `input` of the model is what `output` was."""

    input: str
    output: str
    dtype: numpy.dtype
    shape: Tuple[Optional[int], ...]  # None: not known before a run
    axis: Optional[int]  # along which runs append; None: it has one size
    bound: int  # the most positions along that axis; 0: any number


class MemoryMap(str):
    """A memory map: an SVG picture as text, which a notebook shows."""

    def _repr_svg_(self) -> str:
        return str(self)


class _Values:
    """Python values as the tree that the library takes; keeps alive what it refers to."""

    def __init__(self) -> None:
        self.kept: List[Any] = []

    def fill(self, value: Any, target: Any, kind: int, number: int, element: int = _TENSOR) -> None:
        if kind != _TENSOR:
            if kind == _MAP:  # two vectors: keys, values
                keys = list(value)
                texts = any(isinstance(key, (str, bytes)) for key in keys)
                items = [numpy.array(keys, object if texts else numpy.int64),
                         numpy.array(list(value.values()), _dtype(number))]
                numbers = [_STRING if texts else _INT64, number]
            else:
                items = list(value) if kind == _SEQUENCE else [] if value is None else [value]
                numbers = [number] * len(items)
            elements = ffi.new("ouro_value[]", max(1, len(items)))
            self.kept.append(elements)
            for i, item in enumerate(items):
                inner = element if kind != _MAP else _TENSOR
                self.fill(item, ffi.addressof(elements, i), inner, numbers[i])
            target.kind, target.elements, target.count = kind, elements, len(items)
            return
        array = numpy.asarray(value) if number == _STRING else numpy.ascontiguousarray(value, _dtype(number))
        if number != _STRING and numpy.ndim(value) == 0:
            array = array.reshape(())
        target.kind, target.dtype, target.rank = _TENSOR, number, array.ndim
        if array.ndim > 12:
            raise ValueError("tensors have at most 12 dimensions")
        for d in range(array.ndim):
            target.dims[d] = array.shape[d]
        if number == _STRING:
            strings = ffi.new("ouro_string[]", max(1, array.size))
            for i, item in enumerate(array.reshape(-1)):
                data = item if isinstance(item, bytes) else str(item).encode()
                buffer = ffi.new("char[]", data)
                self.kept.append(buffer)
                strings[i].data, strings[i].length = buffer, len(data)
            self.kept.append(strings)
            target.data, target.bytes = strings, array.size * ffi.sizeof("ouro_string")
        else:
            self.kept.append(array)
            target.data, target.bytes = ffi.cast("void *", array.ctypes.data), array.nbytes


def _array(value: Any, copy: bool) -> numpy.ndarray:
    shape = tuple(value.dims[d] for d in range(value.rank))
    if value.dtype == _STRING:
        strings = ffi.cast("ouro_string *", value.data)
        count = int(numpy.prod(shape, dtype=numpy.int64))
        texts = [ffi.buffer(strings[i].data, strings[i].length)[:].decode("utf-8", "surrogateescape")
                 if strings[i].length else "" for i in range(count)]
        return numpy.array(texts, object).reshape(shape)
    dtype = _dtype(value.dtype)
    if value.bytes == 0:
        return numpy.empty(shape, dtype)
    flat = numpy.frombuffer(ffi.buffer(value.data, value.bytes), dtype)
    # Elements of fewer than 8 bits are packed: their bytes are handed over as they are.
    array = flat.reshape(shape) if flat.size == int(numpy.prod(shape, dtype=numpy.int64)) else flat
    return array.copy() if copy else array


def _python(value: Any, copy: bool) -> Value:
    if value.kind == _TENSOR:
        return _array(value, copy)
    items = [_python(value.elements[i], copy) for i in range(value.count)]
    if value.kind == _SEQUENCE:
        return items
    if value.kind == _MAP:
        return dict(zip(items[0].tolist(), items[1].tolist()))
    return items[0] if items else None


class Session:
    """Runs a plan. Made by `Plan.session`; for one thread at a time."""

    def __init__(self, plan: "Plan", threads: int = 0, allocator: Optional[str] = None, run_seconds: float = 0,
                 spill: Optional[PathLike] = None) -> None:
        name = ffi.new("char[]", allocator.encode()) if allocator else ffi.NULL
        file = ffi.new("char[]", os.fsencode(spill)) if spill is not None else ffi.NULL
        options = ffi.new("ouro_session_options *",
                          {"threads": threads, "allocator": name, "run_seconds": run_seconds, "spill_path": file})
        session, error = ffi.new("ouro_session **"), ffi.new("ouro_error *")
        _check(lib.ouro_session_new(plan._handle, options, session, error), error)
        self._adopt(plan, session[0])

    def _adopt(self, plan: "Plan", handle: Any) -> None:
        self.plan = plan

        def free(session: Any, free: Any = lib.ouro_session_free, keep: Any = plan._handle) -> None:
            free(session)  # the plan must outlive it, in whatever order Python clears what it clears

        self._handle = ffi.gc(handle, free)
        self._kept: Dict[int, _Values] = {}

    def bind(self, inputs: Mapping[str, Any]) -> None:
        """Binds inputs by name: the next runs read them where they are. Arrays of another type or order are converted once, here."""
        error = ffi.new("ouro_error *")
        for name, value in inputs.items():
            index = lib.ouro_plan_find_input(self.plan._handle, name.encode())
            if index < 0:
                known = ", ".join(tensor.name for tensor in self.plan.inputs)
                raise OuroError(2, f"there is no input '{name}', expected one of: {known}")
            tensor = self.plan.inputs[index]
            kept, target = _Values(), ffi.new("ouro_value *")
            kept.fill(value, target, _KINDS.index(tensor.kind), tensor.number, _KINDS.index(tensor.element))
            _check(lib.ouro_session_bind_value(self._handle, index, target, error), error)
            self._kept[index] = kept

    def bind_output(self, name: str, array: Optional[numpy.ndarray]) -> None:
        """The next runs write this output straight into `array`, which is kept until another one is bound; None: no longer."""
        index, error = lib.ouro_plan_find_output(self.plan._handle, name.encode()), ffi.new("ouro_error *")
        if index < 0:
            raise OuroError(2, f"there is no output '{name}'")
        if array is None:
            _check(lib.ouro_session_bind_output(self._handle, index, ffi.NULL, 0, error), error)
        else:
            if not array.flags.c_contiguous or not array.flags.writeable or array.dtype != self.plan.outputs[index].dtype:
                raise OuroError(2, f"output '{name}' needs a writeable array of {self.plan.outputs[index].dtype} in C order")
            pointer = ffi.cast("void *", array.ctypes.data)
            _check(lib.ouro_session_bind_output(self._handle, index, pointer, array.nbytes, error), error)
        self._kept[-1 - index] = array  # type: ignore[assignment]

    def run(self, inputs: Optional[Mapping[str, Any]] = None, copy: bool = True) -> Dict[str, Value]:
        """Binds the inputs given, runs, and returns all outputs by name. `copy=False`: views of the session's memory, or of what was
        bound; the next run overwrites them."""
        if inputs:
            self.bind(inputs)
        error = ffi.new("ouro_error *")
        _check(lib.ouro_session_run(self._handle, error), error)
        outputs: Dict[str, Value] = {}
        for index, tensor in enumerate(self.plan.outputs):
            value = ffi.new("ouro_value *")
            _check(lib.ouro_session_output_value(self._handle, index, value, error), error)
            outputs[tensor.name] = _python(value, copy)
        return outputs

    def stream(self, steps: Iterable[Mapping[str, Any]], copy: bool = True) -> Iterator[Dict[str, Value]]:
        """One run for each of the steps, in their order: what the plan keeps from run to run goes on from one to the next."""
        for inputs in steps:
            yield self.run(inputs, copy)

    def cancel(self) -> None:
        """Ends the run that another thread is in, before its next step."""
        lib.ouro_session_cancel(self._handle)

    def reset(self) -> None:
        """The states become what they are in a new session."""
        error = ffi.new("ouro_error *")
        _check(lib.ouro_session_state_reset(self._handle, error), error)

    def _state(self, name: str) -> int:
        index = lib.ouro_plan_find_state(self.plan._handle, name.encode())
        if index < 0:
            known = ", ".join(state.input for state in self.plan.states) or "it has none"
            raise OuroError(2, f"there is no state '{name}', expected one of: {known}")
        return int(index)

    def state(self, name: str) -> numpy.ndarray:
        """What a state is now, by the name of its input or output: a copy."""
        info, data, error = ffi.new("ouro_state_info *"), ffi.new("void **"), ffi.new("ouro_error *")
        _check(lib.ouro_session_state_get(self._handle, self._state(name), info, ffi.cast("const void **", data), error), error)
        shape = tuple(info.dims[d] for d in range(info.rank))
        dtype = _dtype(info.dtype)
        if data[0] == ffi.NULL or info.bytes == 0:
            return numpy.empty(shape, dtype)
        flat = numpy.frombuffer(ffi.buffer(data[0], info.bytes), dtype)
        return numpy.lib.stride_tricks.as_strided(flat, shape, tuple(info.strides[d] for d in range(info.rank))).copy()

    def set_state(self, name: str, value: Any) -> None:
        """A state becomes this array; the others keep their values."""
        index, error = self._state(name), ffi.new("ouro_error *")
        array = numpy.ascontiguousarray(value, self.plan.states[index].dtype)
        dims = ffi.new("int64_t[]", list(numpy.shape(value)) or 1)
        _check(lib.ouro_session_state_set(self._handle, index, ffi.cast("void *", array.ctypes.data), array.nbytes, dims, error),
               error)

    def truncate(self, length: int) -> None:
        """States that grow keep their first `length` positions."""
        error = ffi.new("ouro_error *")
        _check(lib.ouro_session_state_truncate(self._handle, length, error), error)

    @property
    def length(self) -> int:
        """How many positions the states that grow have."""
        return int(lib.ouro_session_state_length(self._handle))

    def save(self) -> bytes:
        """All states as bytes, which any session of this plan continues from."""
        size, error = lib.ouro_session_state_saved_bytes(self._handle), ffi.new("ouro_error *")
        buffer = ffi.new("char[]", max(1, size))
        _check(lib.ouro_session_state_save(self._handle, buffer, size, error), error)
        return bytes(ffi.buffer(buffer, size))

    def restore(self, saved: bytes) -> None:
        """The states become what they were when `save` gave these bytes."""
        error = ffi.new("ouro_error *")
        _check(lib.ouro_session_state_load(self._handle, ffi.from_buffer(saved), len(saved), error), error)

    def clone(self) -> "Session":
        """A session with the same states, which goes its own way from there. Its inputs are to be bound anew."""
        clone, error = ffi.new("ouro_session **"), ffi.new("ouro_error *")
        _check(lib.ouro_session_clone(self._handle, clone, error), error)
        made = Session.__new__(Session)
        made._adopt(self.plan, clone[0])
        return made

    @property
    def memory(self) -> Dict[str, int]:
        """The bytes that the session has, and had at most, by kind."""
        memory = ffi.new("ouro_memory *")
        lib.ouro_session_memory(self._handle, memory)
        names = ("arena_bytes", "shape_bytes", "run_time_bytes", "run_time_peak_bytes", "run_time_reserved_bytes",
                 "run_time_allocations", "state_bytes", "output_bytes", "scratch_bytes", "table_bytes", "total_bytes")
        return {name: int(getattr(memory, name)) for name in names}


class Plan:
    """A compiled model. Shared by any number of sessions; it can be sent to other processes where it has a file."""

    def __init__(self, handle: Any, path: Optional[str], report: Optional[Dict[str, Any]] = None,
                 memory_map: Optional[str] = None) -> None:
        self._handle = ffi.gc(handle, lib.ouro_plan_free)
        self.path = path
        self._report = report
        self._memory_map = memory_map
        info = ffi.new("ouro_tensor_info *")

        def describe(count: int, ask: Any) -> List[Tensor]:
            tensors = []
            for index in range(count):
                ask(self._handle, index, info)
                tensors.append(_tensor(info))
            return tensors

        self.inputs: List[Tensor] = describe(lib.ouro_plan_input_count(self._handle), lib.ouro_plan_input)
        self.outputs: List[Tensor] = describe(lib.ouro_plan_output_count(self._handle), lib.ouro_plan_output)
        self.states: List[State] = []
        state = ffi.new("ouro_state_info *")
        for index in range(lib.ouro_plan_state_count(self._handle)):
            lib.ouro_plan_state(self._handle, index, state)
            shape = tuple(state.dims[d] if state.dims[d] >= 0 else None for d in range(state.rank))
            self.states.append(State(_text(state.input), _text(state.output), _dtype(state.dtype), shape,
                                     state.axis if state.axis >= 0 else None, state.bound))

    @property
    def arena_bytes(self) -> int:
        """What one session needs besides constants, states, and the caller's inputs and outputs."""
        return int(lib.ouro_plan_arena_bytes(self._handle))

    @property
    def state_bytes(self) -> int:
        """What a session keeps from run to run."""
        return int(lib.ouro_plan_state_bytes(self._handle))

    @property
    def report(self) -> Dict[str, Any]:
        """What was planned: bytes, loops, kernels, the tensors at the peak. Of a loaded plan: what `ouro inspect --json` tells."""
        if self._report is None:
            if not self.path:
                raise OuroError(2, "this plan has no report")
            self._report = json.loads(command("inspect", self.path, "--json"))
        return self._report

    @property
    def memory_map(self) -> MemoryMap:
        """A picture of the memory, which a notebook shows. Compiled with `memory_map=True` its loops are unrolled; else it is drawn from
        the plan's file."""
        if self._memory_map is None:
            if not self.path:
                raise OuroError(2, "this plan has no file: compile with memory_map=True for a memory map")
            with tempfile.TemporaryDirectory() as folder:
                picture = Path(folder) / "map.svg"
                command("inspect", self.path, "--memory-map", picture)
                self._memory_map = picture.read_text()
        return MemoryMap(self._memory_map)

    def session(self, threads: int = 0, allocator: Optional[str] = None, run_seconds: float = 0,
                spill: Optional[PathLike] = None) -> Session:
        """A new session; `run_seconds` is what a run may take (0: any time); `spill` is where a plan that spills makes its file."""
        return Session(self, threads, allocator, run_seconds, spill)

    def run(self, inputs: Mapping[str, Any]) -> Dict[str, Value]:
        """One run in a session of its own."""
        return self.session().run(inputs)

    def __reduce__(self) -> Tuple[Any, Tuple[str, bool]]:
        if not self.path:
            raise TypeError("only a plan with a file can be sent to another process: compile(..., output=PATH)")
        return load, (self.path, True)

    def __repr__(self) -> str:
        return f"<ouro.Plan {self.path or 'in memory'}: {len(self.inputs)} in, {len(self.outputs)} out, " \
               f"arena {self.arena_bytes} bytes>"


def _fail(message: str) -> NoReturn:
    raise OuroError(2, message)


def compile(model: PathLike, output: Optional[PathLike] = None, *, dims: Optional[Mapping[str, int]] = None,
            shapes: Optional[Mapping[str, Sequence[Optional[int]]]] = None, max: Optional[Mapping[str, int]] = None,
            keep_input: Sequence[str] = (), state: Optional[Mapping[str, str]] = None, allocator: Optional[str] = None, seconds: float = 0,
            threads: int = 1, max_unroll: int = 0, arena_limit: Union[int, str, None] = None,
            exact_arithmetic: bool = False, no_bands: bool = False, whole_batch: bool = False, weights: Optional[str] = None, state_type: Optional[str] = None, tune: bool = False, times: Optional[PathLike] = None,
            spill: Optional[PathLike] = None, portable: bool = False, memory_map: bool = False, dot: Optional[PathLike] = None, dot_nodes: int = 0,
            problem: Optional[PathLike] = None, dump_after: Optional[str] = None) -> Plan:
    """Compiles a model (.onnx), into a plan file where `output` names one.

    dims: extents of symbolic dimensions by name. shapes: of inputs, None leaves a dimension as it is. max: the most that a dimension
    may be. keep_input: inputs that have a default value, and are to be given all the same. state: outputs that become inputs of the next run, {input: output}, `*` stands for any text. arena_limit: bytes, or
    "min", or "5%": the least that takes at most 5 percent more time, as predicted. spill: a file for what the arena may not take even so. tune: kernels are measured on this machine; times: a file
    of measured times, read where it is there, written after tuning. state_type: what `--states` takes. dump_after: a pass or "all", whose IR goes to stderr. The
    rest is as in `ouro compile --help`.
    """
    kept: List[Any] = []

    def text(value: Optional[PathLike]) -> Any:
        if value is None:
            return ffi.NULL
        kept.append(ffi.new("char[]", os.fsencode(value)))
        return kept[-1]

    def pairs(mapping: Optional[Mapping[str, int]]) -> Tuple[Any, int]:
        mapping = mapping or {}
        array = ffi.new("ouro_dim[]", [{"name": text(name), "extent": extent} for name, extent in mapping.items()] or 1)
        kept.append(array)
        return array, len(mapping)

    with tempfile.TemporaryDirectory() as folder:
        options = ffi.new("ouro_compile_options *")
        options.model_path, options.plan_path = text(model), text(output)
        options.dims, options.dim_count = pairs(dims)
        options.bounds, options.bound_count = pairs(max)
        given = ffi.new("ouro_shape[]", len(shapes or {}) or 1)
        for i, (name, shape) in enumerate((shapes or {}).items()):
            if len(shape) > 12:
                _fail(f"the shape of '{name}' has more than 12 dimensions")
            given[i].input, given[i].rank = text(name), len(shape)
            for d, extent in enumerate(shape):
                given[i].dims[d] = -1 if extent is None else extent
        options.shapes, options.shape_count = given, len(shapes or {})
        names = ffi.new("char *[]", [text(name) for name in keep_input] or 1)
        options.kept_inputs, options.kept_input_count = names, len(keep_input)
        states = ffi.new("ouro_state_pair[]", [{"input": text(a), "output": text(b)} for a, b in (state or {}).items()] or 1)
        options.states, options.state_count = states, len(state or {})
        options.allocator, options.seconds, options.threads = text(allocator), seconds, threads
        options.max_unroll, options.exact_arithmetic, options.portable = max_unroll, exact_arithmetic, portable
        options.no_bands, options.whole_batch = no_bands, whole_batch
        options.weights, options.state_type = text(weights), text(state_type)
        options.tune, options.times_path = tune, text(times)
        if arena_limit is not None:
            percent = isinstance(arena_limit, str) and arena_limit.endswith("%")
            options.arena_limit = ffi.cast("size_t", -1) if percent or arena_limit == "min" else int(arena_limit)
            if percent:
                options.time_limit = 1 + float(str(arena_limit)[:-1]) / 100
        options.spill_path = text(spill)
        report, picture = Path(folder) / "report.json", Path(folder) / "map.svg"
        options.report_path = text(report)
        options.memory_map_path = text(picture) if memory_map else ffi.NULL
        options.dot_path, options.dot_nodes, options.problem_path = text(dot), dot_nodes, text(problem)
        options.dump_after = text(dump_after)
        plan, error = ffi.new("ouro_plan **"), ffi.new("ouro_error *")
        _check(lib.ouro_compile_plan(options, plan, error), error)
        path = os.path.abspath(os.fspath(output)) if output is not None else None
        return Plan(plan[0], path, json.loads(report.read_text()), picture.read_text() if memory_map else None)


def tradeoff(model: PathLike, picture: Optional[PathLike] = None, *, dims: Optional[Mapping[str, int]] = None) -> str:
    """What the arena takes, and the predicted time, at several limits of it: the table of `ouro compile --tradeoff`, and with
    `picture` a file (.svg) of the curve."""
    chosen = [f"{name}={extent}" for name, extent in (dims or {}).items()]
    with tempfile.TemporaryDirectory() as folder:
        drawn: List[PathLike] = ["--tradeoff-picture", picture] if picture is not None else []
        return command("compile", model, "-q", "-o", Path(folder) / "unused.plan", "--tradeoff", *drawn,
                       *(part for one in chosen for part in ("--dim", one)))


def load(path: PathLike, share: bool = False) -> Plan:
    """Loads a plan, which is checked in full. `share`: the file is mapped, so that processes share its pages; it must not change
    while they use it."""
    plan, error = ffi.new("ouro_plan **"), ffi.new("ouro_error *")
    ask = lib.ouro_plan_map if share else lib.ouro_plan_load
    _check(ask(os.fsencode(path), plan, error), error)
    return Plan(plan[0], os.path.abspath(os.fspath(path)))


def command(*arguments: PathLike) -> str:
    """Runs the command `ouro` that this package holds, and returns what it prints."""
    program = Path(__file__).parent / "bin" / "ouro"
    done = subprocess.run([str(program), *map(os.fspath, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise OuroError(done.returncode, done.stderr.strip())
    return done.stdout


def alloc(problem: Iterable[Sequence[int]], allocator: str = "auto", *, seconds: float = 0) -> Dict[str, Any]:
    """Solves a static allocation problem: rows of (lower, upper, size), upper exclusive, or what `numpy.asarray` makes of them.

    Returns {"height", "lower_bound", "optimal", "offsets"}, the offsets in the order of the rows.
    """
    rows = [tuple(int(number) for number in row) for row in problem]
    with tempfile.TemporaryDirectory() as folder:
        source, solution, table = (Path(folder) / name for name in ("problem.csv", "solution.csv", "table.json"))
        source.write_text("id,lower,upper,size\n" + "".join(f"{i},{a},{b},{n}\n" for i, (a, b, n) in enumerate(rows)))
        limit = ["--seconds", str(seconds)] if seconds else []
        command("alloc", source, "--allocator", allocator, "-o", solution, "--json", table, *limit)
        told = json.loads(table.read_text())[0]
        lines = solution.read_text().splitlines()
        column = lines[0].split(",").index("offset")
        offsets = {int(line.split(",")[0]): int(line.split(",")[column]) for line in lines[1:]}
    result = told["results"][0]
    return {"height": result["height"], "lower_bound": told["lower_bound"], "optimal": result["optimal"],
            "offsets": [offsets[i] for i in range(len(rows))]}
