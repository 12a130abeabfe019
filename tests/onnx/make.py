"""Makes the models of this folder, which test_onnx_import.cpp reads: with the Python packages onnx and numpy. Run in the
folder. Those that are committed were made by onnx 1.23.2; expected outputs stand in the tests.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I = TensorProto.FLOAT, TensorProto.INT64
info = helper.make_tensor_value_info
node = helper.make_node


def tensor(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.array(values, dtype), name)


def save(name, nodes, inputs, outputs, weights=(), opset=17, functions=(), domains=(), **options):
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, producer_name="rill's tests", ir_version=8)
    onnx.save(model, name + ".onnx", **options)


# An open batch, weights, a softmax: x [n, 3] -> [n, 2].
save("mlp", [node("Gemm", ["x", "w", "b"], ["h"], name="dense", transB=1), node("Relu", ["h"], ["r"]),
             node("MatMul", ["r", "v"], ["s"]), node("Softmax", ["s"], ["y"], axis=-1)],
     [info("x", F, ["n", 3])], [info("y", F, ["n", 2])],
     [tensor("w", np.arange(12).reshape(4, 3) / 10 - 0.5), tensor("b", [0.1, 0.2, 0.3, 0.4]),
      tensor("v", np.arange(8).reshape(4, 2) / 8 - 0.4)])

# Shapes computed from open sizes: [n, 2, 3] -> [n, 6] by Shape, Gather, Concat and Reshape.
save("flatten", [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Unsqueeze", ["n", "axes"], ["n1"]),
                 node("Concat", ["n1", "rest"], ["to"], axis=0), node("Reshape", ["x", "to"], ["y"])],
     [info("x", F, ["n", 2, 3])], [info("y", F, ["n", 6])],
     [tensor("zero", 0, np.int64), tensor("axes", [0], np.int64), tensor("rest", [-1], np.int64)])

# Places that are computed from an open size and may be negative: d = n - 4; x [n, 2] -> x[d:], x[:d], x[d::-1]; and an
# open size with two new axes, [1, 1].
save("slices", [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Unsqueeze", ["n", "axis"], ["n1"]),
                node("Sub", ["n1", "four"], ["d"]), node("Slice", ["x", "d", "end", "axis"], ["last"]),
                node("Slice", ["x", "axis", "d", "axis"], ["first"]), node("Slice", ["x", "d", "begin", "axis", "back"], ["reversed"]),
                node("Unsqueeze", ["n", "axes"], ["size"])],
     [info("x", F, ["n", 2])], [info("last", F, [None, 2]), info("first", F, [None, 2]), info("reversed", F, [None, 2]),
                                info("size", I, [1, 1])],
     [tensor("zero", 0, np.int64), tensor("axis", [0], np.int64), tensor("axes", [0, 1], np.int64), tensor("four", [4], np.int64),
      tensor("end", [2**62], np.int64), tensor("begin", [-2**62], np.int64), tensor("back", [-1], np.int64)])

# Of opset 11, where a softmax goes over all axes from the given one: [n, 2, 3].
save("softmax", [node("Softmax", ["x"], ["y"])], [info("x", F, ["n", 2, 3])], [info("y", F, ["n", 2, 3])], opset=11)

# Convolution, normalisation, pooling over [1, 1, 4, 4].
save("conv", [node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("BatchNormalization", ["c", "g", "o", "m", "v"], ["n"]),
              node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), node("GlobalAveragePool", ["p"], ["y"])],
     [info("x", F, [1, 1, 4, 4])], [info("y", F, [1, 2, 1, 1])],
     [tensor("w", np.arange(18).reshape(2, 1, 3, 3) / 18), tensor("b", [0.5, -0.5]), tensor("g", [1, 2]), tensor("o", [0, 1]),
      tensor("m", [0.1, 0.2]), tensor("v", [1, 4])])

# If and Loop: y = x doubled while its sum is below 100, at most ten times; z = -y where the sum of x is negative.
double = helper.make_graph(
    [node("Add", ["a", "a"], ["b"]), node("ReduceSum", ["b"], ["t"], keepdims=0), node("Less", ["t", "limit"], ["go"])],
    "double", [info("i", I, []), info("c", TensorProto.BOOL, []), info("a", F, [2])],
    [info("go", TensorProto.BOOL, []), info("b", F, [2])])
negated = helper.make_graph([node("Neg", ["y"], ["n"])], "negated", [], [info("n", F, [2])])
same = helper.make_graph([node("Identity", ["y"], ["k"])], "same", [], [info("k", F, [2])])
save("control", [node("Loop", ["ten", "", "x"], ["y"], body=double), node("ReduceSum", ["x"], ["s"], keepdims=0),
                 node("Less", ["s", "zero"], ["negative"]), node("If", ["negative"], ["z"], then_branch=negated, else_branch=same)],
     [info("x", F, [2])], [info("z", F, [2])],
     [tensor("ten", 10, np.int64), tensor("limit", 100), tensor("zero", 0)])

# A function of the file's own, with an attribute.
scaled = helper.make_function("own", "Scaled", ["a"], ["b"],
                              [node("Constant", [], ["f"]), node("Mul", ["a", "f"], ["b"])],
                              [helper.make_opsetid("", 17)], ["factor"])
scaled.node[0].attribute.append(helper.make_attribute_ref("value_float", onnx.AttributeProto.FLOAT))
scaled.node[0].attribute[0].ref_attr_name = "factor"
save("function", [node("Scaled", ["x"], ["h"], domain="own", factor=3.0), node("Scaled", ["h"], ["y"], domain="own", factor=0.5)],
     [info("x", F, [2])], [info("y", F, [2])], functions=[scaled], domains=["own"])

# What values decide: NonZero.
save("nonzero", [node("NonZero", ["x"], ["y"])], [info("x", F, ["n"])], [info("y", I, [1, "k"])])

# Quantised weights.
save("quantised", [node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=1), node("MatMul", ["x", "w"], ["y"])],
     [info("x", F, [1, 2])], [info("y", F, [1, 2])],
     [tensor("q", [[1, 2], [3, 4]], np.int8), tensor("s", [0.5, 0.25]), tensor("z", [1, 0], np.int8)])

# A sequence: x cut along axis 0, joined in reverse order.
save("sequence", [node("SplitToSequence", ["x"], ["s"]), node("SequenceAt", ["s", "one"], ["b"]), node("SequenceAt", ["s", "zero"], ["a"]),
                  node("Concat", ["b", "a"], ["y"], axis=0)],
     [info("x", F, [2, 2])], [info("y", F, [2, 2])], [tensor("one", 1, np.int64), tensor("zero", 0, np.int64)])

# A function whose name w is that of scales, which it takes; outside w is a weight: [1, 3] -> [1, 8].
stretch = helper.make_function("own", "Stretch", ["a", "s"], ["b"],
                               [node("Identity", ["s"], ["w"]), node("Resize", ["a", "", "w"], ["b"], mode="linear")],
                               [helper.make_opsetid("", 17)])
save("scoped", [node("MatMul", ["x", "w"], ["h"]), node("Stretch", ["h", "scales"], ["y"], domain="own")],
     [info("x", F, [1, 3])], [info("y", F, [1, 8])],
     [tensor("w", np.arange(12).reshape(3, 4)), tensor("scales", [1, 2])], functions=[stretch], domains=["own"])

# Twice as long: [1, n] -> [1, 2 n].
save("resize", [node("Resize", ["x", "", "scales"], ["y"], mode="linear")], [info("x", F, [1, "n"])], [info("y", F, [1, None])],
     [tensor("scales", [1, 2])])

# Rounded to eight bits and back, and by weights of four bits: [n, 2] -> [n, 2].
save("narrow", [node("Cast", ["x"], ["e"], to=TensorProto.FLOAT8E4M3FN), node("Cast", ["e"], ["f"], to=F),
                node("DequantizeLinear", ["q", "scale"], ["w"]), node("MatMul", ["f", "w"], ["y"])],
     [info("x", F, ["n", 2])], [info("y", F, ["n", 2])],
     [helper.make_tensor("q", TensorProto.INT4, [2, 2], [1, -8, 7, 0]), tensor("scale", 0.5)], opset=21)

# Weights in a file of their own.
pathlib.Path("external.data").unlink(missing_ok=True)
save("external", [node("MatMul", ["x", "w"], ["y"])], [info("x", F, [1, 3])], [info("y", F, [1, 2])],
     [tensor("w", np.arange(6).reshape(3, 2))], save_as_external_data=True, location="external.data", size_threshold=0)
for name, location in (("escapes", "../onnx/external.data"), ("absolute", "/etc/hostname"), ("absent", "nowhere.data")):
    model = onnx.load("external.onnx", load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    with open(name + ".onnx", "wb") as file:
        file.write(model.SerializeToString())
model = onnx.load("external.onnx", load_external_data=False)
model.graph.initializer[0].external_data[1].value = "1000"
with open("beyond.onnx", "wb") as file:
    file.write(model.SerializeToString())

# Operators that nobody has, and an opset that is too old.
save("missing", [node("Mystery", ["x"], ["a"], name="first", domain="com.example"), node("Mystery", ["a"], ["b"], name="second", domain="com.example"),
                 node("Enigma", ["b"], ["y"], name="third")],
     [info("x", F, [1])], [info("y", F, [1])], domains=["com.example"])
# An operator that lacks an operand.
save("one_operand", [node("CastLike", ["x"], ["y"], name="alone")], [info("x", F, [1])], [info("y", F, [1])])
# Of sizes that do not fit when it is called.
save("suppression", [node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"], name="best")],
     [info("boxes", F, ["a", "n", 4]), info("scores", F, ["b", "c", "n"])], [info("y", I, [None, 3])], [tensor("most", [2], np.int64)])
save("unordered", [node("Relu", ["h"], ["y"], name="late"), node("Relu", ["x"], ["h"])], [info("x", F, [1])], [info("y", F, [1])])
loops = helper.make_function("own", "Loops", ["a"], ["b"], [node("Loops", ["a"], ["b"], domain="own")],
                             [helper.make_opsetid("own", 1)])
save("endless", [node("Loops", ["x"], ["y"], domain="own")], [info("x", F, [1])], [info("y", F, [1])], functions=[loops], domains=["own"])

# Forty functions, each of which calls the one before twice.
doubling = [helper.make_function("own", "F0", ["a"], ["b"], [node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 17)])]
for i in range(1, 41):
    doubling.append(helper.make_function("own", f"F{i}", ["a"], ["b"], [node(f"F{i - 1}", ["a"], ["c"], domain="own"),
                                                                     node(f"F{i - 1}", ["c"], ["b"], domain="own")],
                                         [helper.make_opsetid("own", 1)]))
save("doubling", [node("F40", ["x"], ["y"], domain="own")], [info("x", F, [1])], [info("y", F, [1])], functions=doubling, domains=["own"])

# Two hundred functions, each of which calls the one before.
chain = [helper.make_function("own", f"F{i}", ["a"], ["b"],
                              [node(f"F{i - 1}", ["a"], ["b"], domain="own")] if i else [node("Neg", ["a"], ["b"])],
                              [helper.make_opsetid("own", 1), helper.make_opsetid("", 17)]) for i in range(200)]
save("deep", [node("F199", ["x"], ["y"], domain="own")], [info("x", F, [1])], [info("y", F, [1])], functions=chain, domains=["own"])
