"""Networks as the exporters of torch and Keras write them, with random weights: ResNet-50, MobileNet-v3, a BERT, a GPT and
an LSTM. tests/test_onnx_networks.py compares what import_model makes of them with onnxruntime, and the rows onnx_* of the
benchmarks time them beside it.

  python networks.py FOLDER [NAME...]     writes FOLDER/NAME.onnx

Batches (and numbers of tokens) are open. Start at NETWORKS.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


class Net:
    """A graph that grows: a call of `op` appends a node and gives the name of its result."""

    def __init__(self, name, opset=17):
        self.name, self.opset = name, opset
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.random = np.random.default_rng(1)

    def op(self, kind, *inputs, **attributes):
        result = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [result], name=f"/{kind}_{len(self.nodes)}", **attributes))
        return result

    def input(self, name, dtype, shape):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value, name, shape, dtype=F32):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def constant(self, array, name="constant"):
        full = f"{name}.{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), full))
        return full

    def normal(self, *shape, scale=1.0, mean=0.0, name="weight"):
        values = self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale) + np.float32(mean)
        return self.constant(values, name)

    def uniform(self, low, high, *shape, name="weight"):
        return self.constant(self.random.uniform(low, high, shape).astype(np.float32), name)

    def integers(self, *values):
        return self.constant(np.array(values, np.int64), "shape")

    def scalar(self, value):
        return self.constant(np.float32(value), "scalar")

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    # --- Layers ---

    def conv(self, x, inputs, outputs, kernel, stride=1, groups=1, bias=False):
        fan_in = inputs // groups * kernel * kernel
        operands = [x, self.normal(outputs, inputs // groups, kernel, kernel, scale=(2 / fan_in) ** 0.5)]
        if bias:
            operands.append(self.normal(outputs, scale=0.1, name="bias"))
        return self.op(
            "Conv", *operands, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups,
            dilations=[1, 1],
        )  # fmt: skip

    def batch_norm(self, x, channels, scale=1.0):
        parameters = [self.uniform(0.8 * scale, 1.2 * scale, channels, name="gamma"), self.normal(channels, scale=0.1)]
        statistics = [self.normal(channels, scale=0.1), self.uniform(0.8, 1.2, channels)]
        return self.op("BatchNormalization", x, *parameters, *statistics, epsilon=1e-5)

    def dense(self, x, inputs, outputs):
        y = self.op("MatMul", x, self.normal(inputs, outputs, scale=inputs**-0.5))
        return self.op("Add", y, self.normal(outputs, scale=0.1, name="bias"))

    def gemm(self, x, inputs, outputs):
        weight = self.normal(outputs, inputs, scale=inputs**-0.5)
        return self.op("Gemm", x, weight, self.normal(outputs, scale=0.1, name="bias"), transB=1)

    def layer_norm(self, x, width):
        scale, offset = self.normal(width, scale=0.1, mean=1), self.normal(width, scale=0.1)
        return self.op("LayerNormalization", x, scale, offset, axis=-1, epsilon=1e-5)

    def size(self, x, axis):
        """The size of an axis as [1], computed in the graph as torch's exporter does."""
        one = self.op("Gather", self.op("Shape", x), self.constant(np.int64(axis)), axis=0)
        return self.op("Unsqueeze", one, self.integers(0))


# --- Images ----------------------------------------------------------------------------------------------------------


def resnet50():
    net = Net("resnet50")
    x = net.input("x", F32, ["N", 3, 224, 224])
    h = net.op("Relu", net.batch_norm(net.conv(x, 3, 64, 7, 2), 64))
    h = net.op("MaxPool", h, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            stride, outer, shortcut = first_stride if i == 0 else 1, 4 * width, h
            if i == 0:
                shortcut = net.batch_norm(net.conv(h, channels, outer, 1, stride), outer)
            y = net.op("Relu", net.batch_norm(net.conv(h, channels, width, 1), width))
            y = net.op("Relu", net.batch_norm(net.conv(y, width, width, 3, stride), width))
            y = net.batch_norm(net.conv(y, width, outer, 1), outer, 0.3)
            h, channels = net.op("Relu", net.op("Add", y, shortcut)), outer
    h = net.op("Flatten", net.op("GlobalAveragePool", h), axis=1)
    net.output(net.gemm(h, 2048, 1000), "logits", ["N", 1000])
    return net.model()


# Kernel, widened to, out, squeeze and excite, activation, stride: table 1 of Howard et al., "Searching for MobileNetV3".
MOBILENET_V3 = [
    (3, 16, 16, 0, "Relu", 1), (3, 64, 24, 0, "Relu", 2), (3, 72, 24, 0, "Relu", 1), (5, 72, 40, 1, "Relu", 2),
    (5, 120, 40, 1, "Relu", 1), (5, 120, 40, 1, "Relu", 1), (3, 240, 80, 0, "HardSwish", 2),
    (3, 200, 80, 0, "HardSwish", 1), (3, 184, 80, 0, "HardSwish", 1), (3, 184, 80, 0, "HardSwish", 1),
    (3, 480, 112, 1, "HardSwish", 1), (3, 672, 112, 1, "HardSwish", 1), (5, 672, 160, 1, "HardSwish", 2),
    (5, 960, 160, 1, "HardSwish", 1), (5, 960, 160, 1, "HardSwish", 1),
]  # fmt: skip


def mobilenet_v3():
    net = Net("mobilenet_v3")

    def layer(x, inputs, outputs, kernel, stride=1, groups=1, activation=None):
        y = net.batch_norm(net.conv(x, inputs, outputs, kernel, stride, groups), outputs)
        return net.op(activation, y) if activation else y

    x = net.input("x", F32, ["N", 3, 224, 224])
    h, channels = layer(x, 3, 16, 3, 2, activation="HardSwish"), 16
    for kernel, wide, out, squeeze, activation, stride in MOBILENET_V3:
        y = layer(h, channels, wide, 1, activation=activation) if wide != channels else h
        y = layer(y, wide, wide, kernel, stride, wide, activation)
        if squeeze:
            few = (wide // 4 + 7) // 8 * 8
            s = net.op("Relu", net.conv(net.op("GlobalAveragePool", y), wide, few, 1, bias=True))
            s = net.op("HardSigmoid", net.conv(s, few, wide, 1, bias=True), alpha=1 / 6, beta=0.5)
            y = net.op("Mul", s, y)
        y = layer(y, wide, out, 1)
        h, channels = net.op("Add", y, h) if stride == 1 and channels == out else y, out
    h = layer(h, 160, 960, 1, activation="HardSwish")
    h = net.op("Flatten", net.op("GlobalAveragePool", h), axis=1)
    h = net.op("HardSwish", net.gemm(h, 960, 1280))
    net.output(net.gemm(h, 1280, 1000), "logits", ["N", 1000])
    return net.model()


# --- Tokens ----------------------------------------------------------------------------------------------------------


def attention(net, x, width, heads, mask, joined):
    """Self-attention as exporters spell it out; `joined`: query, key and value by one product."""
    batch, tokens, each = net.size(x, 0), net.size(x, 1), width // heads
    split = net.op("Concat", batch, tokens, net.integers(heads), net.integers(each), axis=0)
    if joined:
        wide = net.dense(x, width, 3 * width)
        parts = [f"{wide}_part_{i}" for i in range(3)]
        net.nodes.append(helper.make_node("Split", [wide, net.integers(width, width, width)], parts, axis=-1))
    else:
        parts = [net.dense(x, width, width) for _ in range(3)]
    q, k, v = (net.op("Reshape", p, split) for p in parts)
    q, v = (net.op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 3, 1]))
    scores = net.op("Div", scores, net.scalar(each**0.5))
    weights = net.op("Softmax", mask(scores, tokens), axis=-1)
    mixed = net.op("Transpose", net.op("MatMul", weights, v), perm=[0, 2, 1, 3])
    flat = net.op("Reshape", mixed, net.op("Concat", batch, tokens, net.integers(width), axis=0))
    return net.dense(flat, width, width)


def bert(layers=4, width=512, heads=8, vocabulary=30522, longest=512):
    net = Net("bert")
    ids = net.input("input_ids", I64, ["N", "T"])
    given = net.input("attention_mask", I64, ["N", "T"])
    wide = net.op("Unsqueeze", net.op("Cast", given, to=F32), net.integers(1, 2))
    hidden = net.op("Mul", net.op("Sub", net.scalar(1), wide), net.scalar(-1e4))
    words = net.op("Gather", net.normal(vocabulary, width), ids)
    places = net.constant(np.arange(longest, dtype=np.int64)[None])
    places = net.op("Slice", places, net.integers(0), net.size(ids, 1), net.integers(1), net.integers(1))
    h = net.op("Add", words, net.op("Gather", net.normal(longest, width), places))
    h = net.layer_norm(h, width)
    for _ in range(layers):
        a = attention(net, h, width, heads, lambda scores, _: net.op("Add", scores, hidden), False)
        h = net.layer_norm(net.op("Add", a, h), width)
        y = net.dense(h, width, 4 * width)
        erf = net.op("Erf", net.op("Div", y, net.scalar(2**0.5)))
        y = net.op("Mul", net.op("Mul", y, net.op("Add", erf, net.scalar(1))), net.scalar(0.5))
        h = net.layer_norm(net.op("Add", net.dense(y, 4 * width, width), h), width)
    net.output(h, "last_hidden_state", ["N", "T", width])
    return net.model()


def gpt(layers=4, width=256, heads=4, vocabulary=8000, longest=256):
    net = Net("gpt")
    ids = net.input("input_ids", I64, ["N", "T"])
    table = net.normal(vocabulary, width, scale=0.05)
    tokens = net.size(ids, 1)
    last = net.op("Squeeze", tokens, net.integers(0))
    places = net.op("Range", net.constant(np.int64(0)), last, net.constant(np.int64(1)))
    h = net.op("Add", net.op("Gather", table, ids), net.op("Gather", net.normal(longest, width, scale=0.05), places))
    triangle = net.constant(np.tril(np.ones((1, 1, longest, longest), bool)))

    def causal(scores, tokens):
        sizes = net.op("Concat", tokens, tokens, axis=0)
        seen = net.op("Slice", triangle, net.integers(0, 0), sizes, net.integers(2, 3), net.integers(1, 1))
        return net.op("Where", seen, scores, net.scalar(-1e9))

    for _ in range(layers):
        h = net.op("Add", h, attention(net, net.layer_norm(h, width), width, heads, causal, True))
        y = net.dense(net.layer_norm(h, width), width, 4 * width)
        cube = net.op("Mul", net.op("Pow", y, net.scalar(3)), net.scalar(0.044715))
        t = net.op("Tanh", net.op("Mul", net.op("Add", y, cube), net.scalar(0.7978845608)))
        y = net.op("Mul", net.op("Mul", y, net.scalar(0.5)), net.op("Add", t, net.scalar(1)))
        h = net.op("Add", h, net.dense(y, 4 * width, width))
    logits = net.op("MatMul", net.layer_norm(h, width), net.op("Transpose", table, perm=[1, 0]))
    net.output(logits, "logits", ["N", "T", vocabulary])
    return net.model()


def lstm(vocabulary=5000, width=128, layers=2):
    """A tagger: an embedding, LSTM layers in both directions, a dense layer at every token."""
    net = Net("lstm")
    ids = net.input("ids", I64, ["N", "T"])
    h = net.op("Transpose", net.op("Gather", net.normal(vocabulary, width), ids), perm=[1, 0, 2])
    tokens = net.size(ids, 1)
    for i in range(layers):
        inputs = width if i == 0 else 2 * width
        weights = [
            net.normal(2, 4 * width, inputs, scale=inputs**-0.5), net.normal(2, 4 * width, width, scale=width**-0.5),
            net.normal(2, 8 * width, scale=0.1, name="bias"),
        ]  # fmt: skip
        state = net.op("Expand", net.scalar(0), net.op("Concat", net.integers(2), net.size(ids, 0), net.integers(width), axis=0))
        h = net.op("LSTM", h, *weights, "", state, state, hidden_size=width, direction="bidirectional")
        h = net.op("Transpose", h, perm=[0, 2, 1, 3])
        h = net.op("Reshape", h, net.op("Concat", tokens, net.size(ids, 0), net.integers(2 * width), axis=0))
    h = net.op("Transpose", h, perm=[1, 0, 2])
    net.output(net.dense(h, 2 * width, 20), "tags", ["N", "T", 20])
    return net.model()


NETWORKS = {"resnet50": resnet50, "mobilenet_v3": mobilenet_v3, "bert": bert, "gpt": gpt, "lstm": lstm}


def example(model, batch, tokens=128, seed=7):
    """Inputs for a call: images or token numbers, by name. Masks hide the last eighth of each row."""
    random, out = np.random.default_rng(seed), {}
    for value in model.graph.input:
        sizes = [d.dim_value or (batch if i == 0 else tokens) for i, d in enumerate(value.type.tensor_type.shape.dim)]
        if value.type.tensor_type.elem_type == F32:
            out[value.name] = random.standard_normal(sizes, dtype=np.float32)
        elif "mask" in value.name:
            out[value.name] = np.broadcast_to(np.arange(tokens) < tokens - tokens // 8, sizes).astype(np.int64)
        else:
            out[value.name] = random.integers(0, 5000, sizes)
    return out


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        save(NETWORKS[name](), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
