"""Whole networks (fixtures/onnx/networks.py), and recurrent layers of every kind, by import_model and by onnxruntime.

They must agree: weights as Variables and as constants, kernels compiled, two batches of one trace. onnx_runner reads the
folders that this script writes. More files to compare may be given on the command line: what torch or Keras exported, say.
Runs in the environment .deps/formats (tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from formats_environment import BUILD, ROOT, needed

sys.path.insert(0, f"{ROOT}/tests/fixtures/onnx")
with needed():
    import numpy
    import onnx
    import onnxruntime
    import networks

TOLERANCE = 5e-5  # of the largest element of a result: what two ways to round differ by after 50 layers


def write(path, name, value):
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(onnx.numpy_helper.from_array(value).SerializeToString())


def write_case(folder, model_file):
    """model.onnx, and for two batches what onnxruntime makes of them."""
    model = onnx.load(model_file)
    session = onnxruntime.InferenceSession(str(model_file), providers=["CPUExecutionProvider"])
    folder.mkdir()
    shutil.copy(model_file, folder / "model.onnx")
    largest = 0
    for i, (batch, tokens) in enumerate([(1, 16), (2, 24)]):
        inputs = networks.example(model, batch, tokens)
        values = folder / f"test_data_set_{i}"
        for j, value in enumerate(model.graph.input):
            write(values, f"input_{j}.pb", inputs[value.name])
        for j, result in enumerate(session.run(None, inputs)):
            assert numpy.isfinite(result).all()
            largest = max(largest, float(abs(result).max()))
            write(values, f"output_{j}.pb", result)
    (folder / "tolerance").write_text(f"0 {TOLERANCE * largest}")


def compare(files, folder):
    """Each file by import_model and by onnxruntime, with weights as Variables and as constants; 0 where all agree."""
    runner = f"{BUILD}/tests/onnx_runner"
    failures, cases = 0, 0
    for file in files:
        write_case(folder / file.stem, file)
    for options in ([], ["--constants"]):
        environment = dict(os.environ, RILL_JIT="wait")
        done = subprocess.run([runner, *options, folder], capture_output=True, text=True, env=environment)
        lines = done.stdout.splitlines()[:-1]
        cases += len(lines)
        failures += sum(not line.startswith("pass") for line in lines)
        print("\n".join(" ".join([*options, line]) for line in lines))
    if cases != 2 * len(files):
        print(f"{len(files)} networks and {cases} results")
        return 1
    return 1 if failures else 0


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        files = [pathlib.Path(given) for given in sys.argv[1:]]
        for name, make in (networks.NETWORKS | networks.RECURRENT).items() if not files else []:
            files.append(folder / f"{name}.onnx")
            onnx.save(make(), files[-1])
        return compare(files, folder)


if __name__ == "__main__":
    sys.exit(main())
