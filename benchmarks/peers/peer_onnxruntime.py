"""onnxruntime's side of the rows onnx_*: the same files as networks.cpp runs. In the environment .deps/formats."""

import os
import sys
from pathlib import Path

import onnx
import onnxruntime
from common import THREADS, serve

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "fixtures" / "onnx"))
import networks  # noqa: E402


def prepare(name, batch):
    path = Path(os.environ["RILL_BENCH_NETWORKS"]) / f"{name}.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = networks.example(onnx.load(path), batch)
    return {"onnxruntime": lambda: session.run(None, inputs)}


ROWS = {}
for name in networks.NETWORKS:
    ROWS[f"onnx_{name}"] = lambda name=name: prepare(name, 1)
    ROWS[f"onnx_{name}_batch8"] = lambda name=name: prepare(name, 8)

if __name__ == "__main__":
    serve(ROWS)
