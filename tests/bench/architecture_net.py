# SPDX-License-Identifier: Apache-2.0
"""What architecture_models.py is written with: a network as exporters write it, with seeded random weights, saved as an ONNX test folder
whose first data set has the inputs. Needs python3-onnx."""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


class Net:
    """Nodes, constants, inputs and outputs; values are names. A graph within another has a prefix of its own, so that it may name values of the graph around it."""

    def __init__(self, opset=17, seed=1, prefix=""):
        self.opset, self.random, self.prefix, self.functions = opset, np.random.default_rng(seed), prefix, []
        self.nodes, self.constants, self.inputs, self.data, self.outputs, self.count = [], [], [], [], [], 0

    # Constants and nodes.

    def constant(self, array):
        self.count += 1
        self.constants.append(numpy_helper.from_array(np.array(array, order="C"), f"{self.prefix}constant.{self.count}"))
        return self.constants[-1].name

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def index(self, value):
        return self.constant(np.array(value, np.int64))

    def number(self, value):
        return self.constant(np.array(value, np.float32))

    def weight(self, *shape, fan=None):
        """Of a deviation that keeps what goes through at one size."""
        fan = fan or (int(np.prod(shape[1:])) if len(shape) > 2 else shape[0])
        return self.constant((self.random.standard_normal(shape) * (1.6 / fan) ** 0.5).astype(np.float32))

    def bias(self, *shape):
        return self.constant((self.random.standard_normal(shape) * 0.1).astype(np.float32))

    def scale(self, *shape):
        return self.constant((1 + self.random.standard_normal(shape) * 0.1).astype(np.float32))

    def op(self, kind, *inputs, outs=1, **attributes):
        self.count += 1
        names = [f"{self.prefix}value.{self.count}.{i}" for i in range(outs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, f"{self.prefix}{kind}_{self.count}", **attributes))
        return names[0] if outs == 1 else names

    def input(self, name, array, dims=None):
        array = np.asarray(array)
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype) if hasattr(helper, "np_dtype_to_tensor_dtype")
                                                         else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype], dims or array.shape))
        self.data.append(array)
        return name

    def floats(self, name, *shape, dims=None):
        return self.input(name, self.random.standard_normal(shape).astype(np.float32), dims)

    def output(self, value, name=None, kind=FLOAT):
        name = name or f"output.{len(self.outputs)}"
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(onnx.ValueInfoProto(name=name))

    def save(self, folder):
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        graph = helper.make_graph(self.nodes, "main_graph", self.inputs, self.outputs, self.constants)
        others = sorted({node.domain for node in self.nodes} - {""})
        imports = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(domain, 3 if domain == "ai.onnx.ml" else 1) for domain in others]
        version = 8 if self.opset < 19 else 9 if self.opset < 21 else 10 if self.opset < 23 else 11
        onnx.save(helper.make_model(graph, functions=self.functions, opset_imports=imports, ir_version=version), os.path.join(folder, "model.onnx"))
        for i, array in enumerate(self.data):
            with open(os.path.join(data, f"input_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(array, self.inputs[i].name).SerializeToString())

    # Graphs within this one.

    def inner(self, name):
        """A graph whose values are its own; it may name those of this one."""
        self.count += 1
        return Net(self.opset, self.count + 1, f"{self.prefix}{name}.{self.count}.")

    def graph(self, name, inputs, outputs):
        """As an attribute: inputs are (name, element type, shape or None); outputs are values, whose types follow."""
        outputs = [self.op("Identity", value) for value in outputs]
        return helper.make_graph(self.nodes, name, [helper.make_tensor_value_info(*i) for i in inputs], [onnx.ValueInfoProto(name=o) for o in outputs], self.constants)

    def loop(self, trips, states, step, go=None):
        """states: (element type, shape, start). step(body, i, *states) gives (new states, what is stacked[, condition]). Results: the last states, then the stacks."""
        body = self.inner("body")
        at, goes, names = f"{body.prefix}i", f"{body.prefix}go", [f"{body.prefix}state.{i}" for i in range(len(states))]
        new, stacked, *condition = step(body, at, *names)
        inputs = [(at, TensorProto.INT64, []), (goes, TensorProto.BOOL, [])] + [(name, kind, shape) for name, (kind, shape, _) in zip(names, states)]
        graph = body.graph("body", inputs, [condition[0] if condition else goes, *new, *stacked])
        made = self.op("Loop", trips, go or self.constant(np.array(True)), *[start for _, _, start in states], outs=len(new) + len(stacked), body=graph)
        return made if isinstance(made, list) else [made]

    def branch(self, condition, then, other, outs=1):
        """then(body) and other(body) give one value, or a list of `outs`."""
        graphs = []
        for name, make in (("then", then), ("else", other)):
            body = self.inner(name)
            made = make(body)
            graphs.append(body.graph(name, [], made if isinstance(made, list) else [made]))
        return self.op("If", condition, outs=outs, then_branch=graphs[0], else_branch=graphs[1])

    def scan(self, states, scanned, step, **attributes):
        """states and scanned: (element type, shape in the body, value). step(body, *states, *slices) gives (new states, what is stacked)."""
        body = self.inner("scan")
        names = [f"{body.prefix}taken.{i}" for i in range(len(states) + len(scanned))]
        new, stacked = step(body, *names)
        graph = body.graph("scan", [(name, kind, shape) for name, (kind, shape, _) in zip(names, states + scanned)], [*new, *stacked])
        made = self.op("Scan", *[value for _, _, value in states + scanned], outs=len(new) + len(stacked), body=graph, num_scan_inputs=len(scanned), **attributes)
        return made if isinstance(made, list) else [made]

    # Shapes as the older exporter asks for them.

    def extent(self, x, axis):
        return self.op("Gather", self.op("Shape", x), self.index(axis), axis=0)

    def dims(self, *dims):
        """A shape put together of numbers and of extents."""
        return self.op("Concat", *[self.op("Unsqueeze", d, self.integers(0)) if isinstance(d, str) else self.integers(d) for d in dims], axis=0)

    def reshape(self, x, *dims):
        dynamic = any(isinstance(d, str) for d in dims)
        return self.op("Reshape", x, self.dims(*dims) if dynamic else self.integers(*dims))

    def transpose(self, x, *order):
        return self.op("Transpose", x, perm=list(order))

    def slice(self, x, axis, start, end, step=1):
        end = np.iinfo(np.int64).max if end is None else end
        return self.op("Slice", x, self.integers(start), self.integers(end), self.integers(axis), self.integers(step))

    def split(self, x, axis, *sizes):
        return self.op("Split", x, self.integers(*sizes), outs=len(sizes), axis=axis)

    def reduce(self, kind, x, axes, keep=1):
        if self.opset >= 18 or kind == "ReduceSum":
            return self.op(kind, x, self.integers(*axes), keepdims=keep)
        return self.op(kind, x, axes=list(axes), keepdims=keep)

    # Layers.

    def conv(self, x, taken, made, size=1, stride=1, pads=None, groups=1, dilation=1, rank=2, bias=True):
        sizes = [size] * rank if isinstance(size, int) else list(size)
        pads = [(s - 1) * dilation // 2 for s in sizes] if pads is None else [pads] * rank if isinstance(pads, int) else pads
        inputs = [x, self.weight(made, taken // groups, *sizes)] + ([self.bias(made)] if bias else [])
        return self.op("Conv", *inputs, dilations=[dilation] * rank, group=groups, kernel_shape=sizes, pads=pads * 2 if len(pads) == rank else pads,
                       strides=[stride] * rank)

    def conv_transpose(self, x, taken, made, size, stride, pads=0, rank=2):
        return self.op("ConvTranspose", x, self.weight(taken, made, *[size] * rank, fan=taken * (size // stride) ** rank), self.bias(made), dilations=[1] * rank, group=1,
                       kernel_shape=[size] * rank, pads=[pads] * rank * 2, strides=[stride] * rank)

    def relu(self, x):
        return self.op("Relu", x)

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def add(self, *values):
        x = values[0]
        for value in values[1:]:
            x = self.op("Add", x, value)
        return x

    def mul(self, *values):
        x = values[0]
        for value in values[1:]:
            x = self.op("Mul", x, value)
        return x

    def linear(self, x, taken, made, bias=True):
        """nn.Linear on three axes or more."""
        product = self.op("MatMul", x, self.weight(taken, made))
        return self.op("Add", self.bias(made), product) if bias else product

    def gemm(self, x, taken, made):
        """nn.Linear on two axes."""
        return self.op("Gemm", x, self.weight(made, taken, fan=taken), self.bias(made), alpha=1.0, beta=1.0, transB=1)

    def gelu(self, x):
        if self.opset >= 20:
            return self.op("Gelu", x, approximate="none")
        erf = self.op("Erf", self.op("Div", x, self.number(2 ** 0.5)))
        return self.mul(x, self.add(erf, self.number(1)), self.number(0.5))

    def gelu_tanh(self, x):
        """As transformers' gelu_new writes it."""
        cubed = self.mul(self.op("Pow", x, self.number(3)), self.number(0.044715))
        inner = self.mul(self.add(x, cubed), self.number((2 / np.pi) ** 0.5))
        return self.mul(self.mul(x, self.number(0.5)), self.add(self.op("Tanh", inner), self.number(1)))

    def layer_norm(self, x, width, epsilon=1e-5):
        if self.opset >= 17:
            return self.op("LayerNormalization", x, self.scale(width), self.bias(width), axis=-1, epsilon=epsilon)
        centred = self.op("Sub", x, self.reduce("ReduceMean", x, [-1]))
        variance = self.reduce("ReduceMean", self.op("Pow", centred, self.number(2)), [-1])
        return self.add(self.mul(self.op("Div", centred, self.op("Sqrt", self.add(variance, self.number(epsilon)))), self.scale(width)), self.bias(width))

    def rms_norm(self, x, width, epsilon=1e-6):
        mean = self.reduce("ReduceMean", self.op("Pow", x, self.number(2)), [-1])
        root = self.op("Sqrt", self.add(mean, self.number(epsilon)))
        inverse = self.op("Reciprocal", root) if self.opset >= 18 else self.op("Div", self.number(1), root)
        return self.mul(self.scale(width), self.mul(x, inverse))

    def group_norm(self, x, channels, groups, rank=2):
        """nn.GroupNorm as the older exporter writes it."""
        rows = self.op("InstanceNormalization", self.reshape(x, 0, groups, -1), self.constant(np.ones(groups, "f")), self.constant(np.zeros(groups, "f")), epsilon=1e-5)
        back = self.op("Reshape", rows, self.op("Shape", x))
        return self.add(self.mul(back, self.scale(channels, *[1] * rank)), self.bias(channels, *[1] * rank))

    def softmax(self, x, axis=-1):
        return self.op("Softmax", x, axis=axis)

    def heads(self, x, heads, size, length=0, order=(0, 2, 1, 3)):
        return self.transpose(self.reshape(x, 0, length, heads, size), *order)

    def feed_forward(self, x, width, hidden, activation=None):
        return self.linear((activation or self.gelu)(self.linear(x, width, hidden)), hidden, width)

    def self_attention(self, x, width, heads, mask=None):
        """Projections apart, keys transposed by heads, the scores divided: what transformers' encoders become."""
        size = width // heads
        q, k, v = (self.heads(self.linear(x, width, width), heads, size, -1, order) for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = self.op("Div", self.op("MatMul", q, k), self.number(size ** 0.5))
        weights = self.softmax(self.add(scores, mask) if mask else scores)
        return self.linear(self.reshape(self.transpose(self.op("MatMul", weights, v), 0, 2, 1, 3), 0, -1, width), width, width)
