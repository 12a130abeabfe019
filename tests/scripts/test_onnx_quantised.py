"""Models that onnxruntime's quantiser writes, run by import_model: a perceptron and two small networks of convolutions, in the
forms that there are: integers from what a call gives (dynamic), operators on integers (QOperator), pairs of DequantizeLinear
and QuantizeLinear (QDQ); with a scale for the weights, or one for each channel. ONNX's reference says what is right, for its own operators onnxruntime; integers
that are rounded from other sums may be a step away. Runs in .deps/formats (tests/formats.txt); skipped where there is none.
`python test_onnx_quantised.py --keep DIR` leaves the models, with inputs, in DIR.
"""
import logging
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
    from onnx.reference import ReferenceEvaluator
    from onnxruntime import quantization as q

rng = np.random.default_rng(11)


def some(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype("f4")


def model(nodes, weights, shape, out_shape):
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", 1, shape)],
                              [helper.make_tensor_value_info("y", 1, out_shape)],
                              [numpy_helper.from_array(w, name) for name, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def perceptron():
    sizes = [96, 200, 130, 10]
    weights, nodes, x = {}, [], "x"
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        weights[f"w{i}"], weights[f"b{i}"] = some(a, b, scale=a**-0.5), some(b, scale=0.1)
        last = i == len(sizes) - 2
        nodes += [helper.make_node("MatMul", [x, f"w{i}"], [f"p{i}"]), helper.make_node("Add", [f"p{i}", f"b{i}"], ["y" if last else f"s{i}"])]
        if not last:
            nodes.append(helper.make_node("Relu", [f"s{i}"], [f"h{i}"]))
        x = f"h{i}"
    return model(nodes, weights, ["batch", 96], ["batch", 10]), some(5, 96)


def pictures():
    weights, nodes, x, channels = {}, [], "x", 3
    for i, (out, kernel, group, stride) in enumerate([(16, 3, 1, 2), (16, 3, 16, 1), (40, 1, 1, 1), (40, 3, 2, 2)]):
        weights[f"w{i}"] = some(out, channels // group, kernel, kernel, scale=(channels // group * kernel * kernel) ** -0.5)
        weights[f"b{i}"] = some(out, scale=0.1)
        nodes += [helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], group=group, strides=[stride, stride], pads=[kernel // 2] * 4),
                  helper.make_node("Relu", [f"c{i}"], [f"h{i}"])]
        x, channels = f"h{i}", out
    weights["w"], weights["b"] = some(40, 7, scale=0.2), some(7)
    nodes += [helper.make_node("GlobalAveragePool", [x], ["pooled"]), helper.make_node("Flatten", ["pooled"], ["flat"]),
              helper.make_node("Gemm", ["flat", "w", "b"], ["y"])]
    return model(nodes, weights, ["batch", 3, 24, 20], ["batch", 7]), some(2, 3, 24, 20)


def branches():
    """A residual around a depthwise convolution, poolings, and groups of channels."""
    weights, nodes = {}, []

    def conv(x, name, channels, out, kernel, group=1, relu=True):
        fan = channels // group * kernel * kernel
        weights[f"{name}_w"], weights[f"{name}_b"] = some(out, channels // group, kernel, kernel, scale=fan**-0.5), some(out, scale=0.1)
        nodes.append(helper.make_node("Conv", [x, f"{name}_w", f"{name}_b"], [f"{name}_c" if relu else name], group=group, pads=[kernel // 2] * 4))
        if relu:
            nodes.append(helper.make_node("Relu", [f"{name}_c"], [name]))
        return name

    conv("x", "a", 3, 32, 3)
    nodes.append(helper.make_node("MaxPool", ["a"], ["pool"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    conv(conv("pool", "deep", 32, 32, 5, group=32), "narrow", 32, 32, 1, relu=False)
    nodes.append(helper.make_node("Add", ["narrow", "pool"], ["sum"]))
    conv("sum", "grouped", 32, 40, 3, group=2)
    nodes.append(helper.make_node("AveragePool", ["grouped"], ["mean"], kernel_shape=[2, 2], strides=[2, 2]))
    weights["w"], weights["b"] = some(40 * 6 * 5, 7, scale=0.03), some(7)
    nodes += [helper.make_node("Flatten", ["mean"], ["flat"]), helper.make_node("Gemm", ["flat", "w", "b"], ["y"])]
    return model(nodes, weights, ["batch", 3, 24, 20], ["batch", 7]), some(2, 3, 24, 20)


class Samples(q.CalibrationDataReader):
    def __init__(self, x):
        self.left = iter([{"x": x}, {"x": x * 1.2}])

    def get_next(self):
        return next(self.left, None)


def quantised(source, target, x, kind, per_channel, signed):
    act = q.QuantType.QInt8 if signed else q.QuantType.QUInt8
    if kind == "dynamic":
        q.quantize_dynamic(source, target, weight_type=act, per_channel=per_channel)
        return
    form = q.QuantFormat.QDQ if kind == "qdq" else q.QuantFormat.QOperator
    q.quantize_static(source, target, Samples(x), quant_format=form, per_channel=per_channel, activation_type=act,
                      weight_type=q.QuantType.QInt8)


def right(net, x):
    """What ONNX's reference gives, or onnxruntime for operators of its own."""
    if any(n.domain == "com.microsoft" for n in net.graph.node):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(net.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {"x": x})[0]
    return ReferenceEvaluator(net).run(None, {"x": x})[0].astype("f4")


def write(folder, target, x):
    net = onnx.load(target)
    y = right(net, x)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(net, folder / "model.onnx")
    (data / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(y).SerializeToString())
    return y


def main():
    logging.getLogger().setLevel(logging.ERROR)
    keep = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv else None
    with tempfile.TemporaryDirectory() as temporary:
        folder, work, count = pathlib.Path(keep or temporary) / "cases", pathlib.Path(temporary), 0
        for net, (float_model, x) in (("perceptron", perceptron()), ("pictures", pictures()), ("branches", branches())):
            source = work / f"{net}.onnx"
            onnx.save(float_model, source)
            for kind in ("dynamic", "qoperator", "qdq"):
                for per_channel in (False, True):
                    for signed in (False, True):
                        target = work / "quantised.onnx"
                        quantised(source, target, x, kind, per_channel, signed)
                        place = folder / f"{net}_{kind}_{'channels' if per_channel else 'whole'}_{'i8' if signed else 'u8'}"
                        y = write(place, target, x)
                        # A step of a result, where it is rounded to a byte.
                        (place / "tolerance").write_text(f"0 {(1e-4 if kind == 'dynamic' else 1.5 / 127) * np.abs(y).max()}")
                        count += 1
        passed = 0
        for options in ([], ["--constants"]):
            done = subprocess.run([f"{BUILD}/tests/onnx_runner", *options, folder], capture_output=True, text=True)
            print(done.stdout, done.stderr)
            passed += sum(line.startswith("pass ") for line in done.stdout.splitlines())
    return 0 if passed == 2 * count else 1


if __name__ == "__main__":
    sys.exit(main())
