"""Operators of other domains, by import_model and by onnxruntime: of com.microsoft, its own, fused products, activations, norms
and quantised operators; of ai.onnx.ml what scikit-learn's models are exported with. Each is a model of one node with a few settings; onnx_runner reads the folders that this script
writes. Runs in the environment .deps/formats (tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import pathlib
import subprocess
import sys
import tempfile

from formats_environment import BUILD, needed

with needed():
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

rng = np.random.default_rng(7)


def some(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype("f4")


def octets(*shape, dtype="u1"):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def one(x, dtype="f4"):
    return np.array(x, dtype)


def quantised(dtype, x_scale=0.05, zero=None):
    """A scale and a zero point."""
    return [one(x_scale), one((100 if dtype == "u1" else -7) if zero is None else zero, dtype)]


# Name: the operator, its operands (None is one that is left out), how many of the first are the model's inputs, attributes,
# its results, and what these may be off by: 0 of integers is the same integer.
CASES = {}


def case(name, op, operands, inputs=1, outputs=1, off=2e-6, domain="com.microsoft", **attributes):
    CASES[name] = op, operands, inputs, outputs, off, domain, attributes


for a, b in [(0, 0), (1, 0), (0, 1), (1, 1)]:
    left, right = some(*((2, 5, 3) if a else (2, 3, 5))), some(*((2, 4, 5) if b else (2, 5, 4)))
    case(f"matmul_{a}{b}", "FusedMatMul", [left, right], 2, transA=a, transB=b, alpha=0.25)
case("gemm", "FusedGemm", [some(3, 5), some(4, 5), some(4)], transB=1, activation="LeakyRelu", activation_alpha=0.2)
for activation, parameters in [("Relu", None), ("Clip", [0.1, 0.7]), ("HardSigmoid", [0.3, 0.4]), ("Tanh", None)]:
    given = {"activation_params": parameters} if parameters else {}
    case(f"conv_{activation}", "FusedConv", [some(2, 3, 6, 7), some(4, 3, 3, 3), some(4)], pads=[1, 1, 1, 1],
         activation=activation, **given)
case("conv_sum", "FusedConv", [some(2, 3, 6, 7), some(4, 3, 3, 3), some(4), some(2, 4, 4, 5)], activation="Relu")
case("bias_gelu", "BiasGelu", [some(3, 8), some(8)], 2)
case("gelu", "Gelu", [some(3, 8)])
case("fast_gelu", "FastGelu", [some(3, 8)])
case("fast_gelu_bias", "FastGelu", [some(3, 8), some(8)])
case("quick_gelu", "QuickGelu", [some(3, 8)], alpha=1.3)
case("skip_norm", "SkipLayerNormalization", [some(2, 3, 8), some(2, 3, 8), some(8), some(8), some(8)], 2, epsilon=1e-3)
case("skip_norm_plain", "SkipLayerNormalization", [some(2, 3, 8), some(2, 3, 8), some(8)], 2)
case("skip_norm_sum", "SkipLayerNormalization", [some(2, 3, 8), some(2, 3, 8), some(8), some(8)], 2, [0, 3])
case("skip_rms", "SkipSimplifiedLayerNormalization", [some(2, 3, 8), some(2, 3, 8), some(8), some(8)], 2)
case("rms", "SimplifiedLayerNormalization", [some(2, 3, 8), some(8)], domain="", axis=-1, epsilon=1e-3)

# Tables of numbers and texts; a spectrogram of signals without an axis of channels.
case("encoder", "LabelEncoder", [np.array([[3, 7], [-2, 5]])], domain="ai.onnx.ml", keys_int64s=[7, -2, 3],
     values_floats=[0.5, 1.5, 2.5], default_float=-3.0)
case("encoder_floats", "LabelEncoder", [np.array([1, 2.5, 2, 4], "f4")], domain="ai.onnx.ml",
     keys_floats=[4.0, 2.5, 1.0], values_int64s=[40, 50, 10])
case("spectrogram", "STFT", [some(2, 32), np.array(4), some(8), np.array(8)], domain="", off=1e-5)

# A convolution over time as a picture of one column.
for columns in (1, 2):
    case(f"conv_thin_{columns}", "Conv", [some(2, 4, 11, columns), some(6, 2, 3, 1), some(6)], domain="", group=2, pads=[2, 0, 1, 0],
         strides=[2, 1], dilations=[2, 1])

for kind in ("u1", "i1"):
    x, scale = octets(2, 3, 6, dtype=kind), quantised(kind)
    out = quantised(kind, 0.11, 3)
    for op in ("QLinearAdd", "QLinearMul"):
        case(f"{op}_{kind}", op, [x, *scale, octets(3, 6, dtype=kind), *quantised(kind, 0.03, 5), *out], off=0)
    case(f"sigmoid_{kind}", "QLinearSigmoid", [x, *scale, *quantised(kind, 1 / 256, 0 if kind == "u1" else -128)], off=0)
    case(f"leaky_{kind}", "QLinearLeakyRelu", [x, *scale, *out], off=0, alpha=0.2)
    case(f"softmax_{kind}", "QLinearSoftmax", [x, *scale, *quantised(kind, 1 / 256, 0 if kind == "u1" else -128)], off=1,
         axis=-1, opset=13)
    case(f"concat_{kind}", "QLinearConcat", [*out, x, *scale, octets(2, 2, 6, dtype=kind), *quantised(kind, 0.2, 1)], 3,
         off=0, axis=1)
    image = octets(2, 3, 7, 6, dtype=kind)
    case(f"pool_{kind}", "QLinearAveragePool", [image, *scale, *out], off=1, kernel_shape=[3, 2], strides=[2, 1],
         pads=[1, 0, 1, 1])
    case(f"pool_all_{kind}", "QLinearGlobalAveragePool", [image, *scale, *out], off=1)
    case(f"pool_all_last_{kind}", "QLinearGlobalAveragePool", [image, *scale, *out], off=1, channels_last=1)
weights = octets(8, 5, dtype="i1")
case("gemm_integers", "QGemm", [octets(4, 8), *quantised("u1"), weights, *quantised("i1", 0.02, 0),
                                rng.integers(-900, 900, 5).astype("i4"), *quantised("u1", 0.9)], off=0, alpha=1.0)
case("gemm_columns", "QGemm", [octets(4, 8), *quantised("u1"), weights.T.copy(), rng.random(5).astype("f4"),
                               np.zeros(5, "i1"), None], off=1e-4, alpha=1.0, transB=1)
case("to_float", "MatMulIntegerToFloat", [octets(4, 8), weights, one(0.02), one(0.3), one(9, "u1"), one(0, "i1"), some(5)],
     off=1e-5)
case("dynamic", "DynamicQuantizeMatMul", [some(4, 8), weights, one(0.03), one(0, "i1"), some(5)], off=1e-5)
for direction, n in [("forward", 1), ("reverse", 1), ("bidirectional", 2)]:
    by_column = (n, 16) if direction != "reverse" else (n,)
    case(f"lstm_{direction}", "DynamicQuantizeLSTM",
         [some(5, 2, 3), octets(n, 3, 16, dtype="i1"), octets(n, 4, 16, dtype="i1"), some(n, 32), None, None, None, None,
          (rng.random(by_column) * 0.01).astype("f4"), np.zeros(by_column, "i1"),
          (rng.random(by_column) * 0.01).astype("f4"), np.zeros(by_column, "i1")],
         off=1e-5, outputs=[0, 1, 2], hidden_size=4, direction=direction)

table = some(6, 4)
holes = np.where(rng.random((6, 4)) < 0.3, np.nan, table).astype("f4")
for norm in ("MAX", "L1", "L2"):
    case(f"normalizer_{norm}", "Normalizer", [np.abs(table)], domain="ai.onnx.ml", norm=norm)
case("scaler", "Scaler", [table], domain="ai.onnx.ml", offset=[0.1, 0.2, 0.3, 0.4], scale=[2.0, 0.5, 1.0, 3.0])
case("scaler_one", "Scaler", [table], domain="ai.onnx.ml", offset=[0.1], scale=[2.0])
case("binarizer", "Binarizer", [table], domain="ai.onnx.ml", threshold=0.2)
case("features", "ArrayFeatureExtractor", [table, np.array([2, 0], "i8")], domain="ai.onnx.ml")
case("imputer", "Imputer", [holes], domain="ai.onnx.ml", imputed_value_floats=[1.0, 2.0, 3.0, 4.0],
     replaced_value_float=float("nan"))
case("linear", "LinearRegressor", [table], domain="ai.onnx.ml", coefficients=some(8).tolist(), intercepts=[0.5, -0.5], targets=2)
texts = {"classlabels_strings": ["red", "green", "blue"]}
for post in ("NONE", "SOFTMAX", "LOGISTIC"):
    case(f"classifier_{post}", "LinearClassifier", [table], domain="ai.onnx.ml", outputs=2, coefficients=some(12).tolist(),
         intercepts=some(3).tolist(), post_transform=post, **texts)
    case(f"classifier_rows_{post}", "LinearClassifier", [table], domain="ai.onnx.ml", outputs=2,
         coefficients=some(8).tolist(), intercepts=[0.1, -0.1], classlabels_ints=[4, 9], post_transform=post)


def forest(depth, trees, columns, kind, positive=True, modes=("BRANCH_LEQ",)):
    """Random trees over four features; each leaf says something of each column."""
    a = {f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                                    "missing_value_tracks_true")}
    a |= {f"{kind}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        inner = 2 ** (depth + tree % 2) - 1
        for i in range(2 * inner + 1):
            leaf = i >= inner
            values = (tree, i, 0 if leaf else int(rng.integers(4)), 0.0 if leaf else float(one(rng.standard_normal())),
                      "LEAF" if leaf else modes[int(rng.integers(len(modes)))], 0 if leaf else 2 * i + 1,
                      0 if leaf else 2 * i + 2, 0 if leaf else int(rng.integers(2)))
            for key, value in zip(list(a)[:8], values):
                a[key].append(value)
            for column in columns if leaf else ():
                weight = rng.random() / trees if positive else rng.standard_normal()
                for key, value in zip(list(a)[8:], (tree, i, column, float(one(weight)))):
                    a[key].append(value)
    return a


ALL_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
for modes in (("BRANCH_LEQ",), ("BRANCH_LT",), ALL_MODES):
    name = "all" if len(modes) > 1 else modes[0]
    case(f"trees_{name}", "TreeEnsembleRegressor", [holes], domain="ai.onnx.ml", n_targets=2,
         **forest(3, 5, (0, 1), "target", False, modes))
case("trees_mean", "TreeEnsembleRegressor", [table], domain="ai.onnx.ml", n_targets=1, aggregate_function="AVERAGE",
     base_values=[0.25], **forest(2, 3, (0,), "target", False))
for post in ("NONE", "SOFTMAX", "LOGISTIC"):
    case(f"tree_classes_{post}", "TreeEnsembleClassifier", [holes], domain="ai.onnx.ml", outputs=2, post_transform=post,
         **texts, **forest(3, 4, (0, 1, 2), "class"))
    for positive in (True, False) if post != "SOFTMAX" else ():
        case(f"tree_two_{post}_{positive}", "TreeEnsembleClassifier", [table], domain="ai.onnx.ml", outputs=2,
             post_transform=post, classlabels_int64s=[3, 8], **forest(3, 4, (0,), "class", positive))

for activation in ("HardSigmoid", "Elu"):
    case(f"gemm_{activation}", "FusedGemm", [some(3, 5), some(5, 4)], activation=activation, activation_alpha=0.3,
         **({"activation_beta": 0.4} if activation == "HardSigmoid" else {}))
zeros = np.where(np.arange(6)[:, None] == 2, 0, table).astype("f4")  # a row of them
for norm in ("MAX", "L1", "L2"):
    for dtype in ("f4", "f8", "i8"):
        case(f"normalizer_{norm}_{dtype}", "Normalizer", [(zeros * 4).astype(dtype)], domain="ai.onnx.ml", norm=norm)
    case(f"normalizer_{norm}_row", "Normalizer", [table[0]], domain="ai.onnx.ml", norm=norm)
case("features_row", "ArrayFeatureExtractor", [table[0], np.array([2, 0], "i8")], domain="ai.onnx.ml")
case("imputer_integers", "Imputer", [(table * 3).astype("i8")], domain="ai.onnx.ml", imputed_value_int64s=[7],
     replaced_value_int64=0)
wide = forest(3, 3, (0,), "target", False)
for key in ("nodes_values", "target_weights"):
    wide[f"{key}_as_tensor"] = numpy_helper.from_array(np.array(wide.pop(key)) + 1e-9)
wide["base_values_as_tensor"] = numpy_helper.from_array(np.array([0.125]))
case("trees_wide", "TreeEnsembleRegressor", [table.astype("f8")], domain="ai.onnx.ml", n_targets=1, **wide)

# Files that say what cannot be: the operator, its attributes, and words of the error that import_model gives.
small = forest(2, 2, (0,), "target", False)
REFUSED = {
    "targets_many": ("TreeEnsembleRegressor", {**small, "n_targets": 2**40}, "1099511627776 results of 22 nodes"),
    "targets_none": ("TreeEnsembleRegressor", {**small, "n_targets": -1}, "-1 results"),
    "feature": ("TreeEnsembleRegressor", {**small, "nodes_featureids": [-1] * 22}, "a node reads feature -1"),
    "feature_beyond": ("TreeEnsembleRegressor", {**small, "nodes_featureids": [4] * 22}, "read feature 4, of 4"),
    "bases": ("TreeEnsembleRegressor", {**small, "base_values": [1.0, 2.0]}, "'base_values' has 2 numbers. expected 1"),
    "aggregate": ("TreeEnsembleRegressor", {**small, "aggregate_function": "MEAN"}, "aggregate_function MEAN"),
    "circle": ("TreeEnsembleRegressor", {**small, "nodes_truenodeids": [0] * 22}, "or goes in a circle"),
    "scaler": ("Scaler", {"scale": [1.0]}, "'offset' has 0 numbers. expected 4"),
    "norm": ("Normalizer", {"norm": "L3"}, "norm L3 is not known"),
    "intercepts": ("LinearRegressor", {"coefficients": [1.0] * 4, "intercepts": [1.0, 2.0]}, "'intercepts' has 2 numbers"),
    "coefficients": ("LinearRegressor", {"coefficients": [1.0] * 3}, "coefficients are not one for each"),
    "imputed": ("Imputer", {"imputed_value_floats": [1.0, 2.0]}, "'imputed_value_floats' has 2 numbers. expected 4"),
    "window": ("AveragePool", {"kernel_shape": [1000, 2], "ceil_mode": 1}, "a window of 1000 does not fit axis 0"),
    "window_large": ("LpPool", {"kernel_shape": [1000, 1000], "pads": [999] * 4}, "a kernel of more than 65536 elements"),
    "window_wide": ("MaxPool", {"kernel_shape": [2, 2], "dilations": [7, 1], "strides": [2, 1]}, "does not fit axis 0"),
}
image = np.zeros((2, 3, 7, 6), "f4")


def model_of(op, operands, inputs, outputs, domain, attributes):
    """A model whose batch is open where operands have one; which of the node's results it gives."""
    wanted = list(range(outputs)) if isinstance(outputs, int) else outputs
    given, weights, names, graph_inputs = {}, [], [], []
    for i, value in enumerate(operands):
        names.append("" if value is None else f"x{i}")
        is_input = value is not None and (op != "QLinearConcat" and i < inputs or op == "QLinearConcat" and i == 2)
        if is_input:
            given[f"x{i}"] = value
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            graph_inputs.append(helper.make_tensor_value_info(f"x{i}", kind, value.shape))
        elif value is not None:
            weights.append(numpy_helper.from_array(value, f"x{i}"))
    results = [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    graph_outputs = [onnx.ValueInfoProto(name=r) for r in results if r]
    graph = helper.make_graph([node], op, graph_inputs, graph_outputs, weights)
    opsets = [helper.make_opsetid(*d) for d in (("", 17), ("com.microsoft", 1), ("ai.onnx.ml", 3))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), given


def write(folder, op, operands, inputs, outputs, off, domain, attributes):
    model, given = model_of(op, operands, inputs, outputs, domain, attributes)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # each thread rounds its rows of an LSTM over their own range
    # What onnxruntime infers of the results goes into the file that rill reads.
    results = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, given)
    del model.graph.output[:]
    names = [name for name in model.graph.node[0].output if name]
    for name, value in zip(names, results, strict=True):
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        model.graph.output.append(helper.make_tensor_value_info(name, kind, value.shape))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for j, value in enumerate(given.values()):
        (data / f"input_{j}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    largest = 1.0
    for j, value in enumerate(results):
        (data / f"output_{j}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
        largest = max(largest, float(np.abs(value.astype("f8")).max())) if value.dtype.kind == "f" else 1.0
    (folder / "tolerance").write_text(f"0 {off * largest}")


def write_refused(folder, op, attributes):
    operand, domain = (image, "") if op.endswith("Pool") else (table, "ai.onnx.ml")
    model, _ = model_of(op, [operand], 1, 1, domain, attributes)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for file in ("input_0.pb", "output_0.pb"):
        (data / file).write_bytes(numpy_helper.from_array(operand).SerializeToString())


def run(folder):
    done = subprocess.run([f"{BUILD}/tests/onnx_runner", folder], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    return done.stdout.splitlines()[:-1]


def is_refused(line):
    name = line.split()[1].rstrip(":")
    return line.startswith("fail") and "[import_model]" in line and REFUSED[name][2] in line


def main():
    with tempfile.TemporaryDirectory() as temporary:
        for name, given in CASES.items():
            write(pathlib.Path(temporary) / name, *given)
        lines = run(temporary)
    with tempfile.TemporaryDirectory() as temporary:
        for name, (op, attributes, _) in REFUSED.items():
            write_refused(pathlib.Path(temporary) / name, op, attributes)
        refused = run(temporary)
    right = len(lines) == len(CASES) and all(line.startswith("pass") for line in lines)
    return 0 if right and len(refused) == len(REFUSED) and all(map(is_refused, refused)) else 1


if __name__ == "__main__":
    sys.exit(main())
