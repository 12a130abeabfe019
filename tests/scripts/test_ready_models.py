"""The networks of examples/models, at small sizes, as ONNX models and SavedModels: what onnxruntime and TensorFlow make of
them must be what rill does. test_ready_models.cpp writes them. Runs in the environment .deps/formats (tests/formats.txt),
which ./dev test --all makes; skipped where there is none.
"""
import os
import pathlib
import subprocess
import tempfile

from formats_environment import BUILD, needed

os.environ["CUDA_VISIBLE_DEVICES"] = ""
with needed():
    import numpy as np
    import onnx
    import onnxruntime
    import tensorflow as tf

# The order of sums differs, through some ten layers.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def by_onnxruntime(path, inputs):
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def by_tensorflow(path, inputs):
    model = tf.saved_model.load(path)
    return model.signatures["serving_default"](**{name: tf.constant(x) for name, x in inputs.items()})["output"].numpy()


with tempfile.TemporaryDirectory() as place:
    subprocess.run([f"{BUILD}/tests/test_ready_models", "the ready networks are written"], check=True,
                   env={**os.environ, "RILL_MODELS_FOLDER": place}, stdout=subprocess.DEVNULL)
    files = sorted(pathlib.Path(place).glob("*.npz"))
    assert len(files) >= 14, files
    for file in files:
        numbers = dict(np.load(file))
        want = numbers.pop("output")
        for got in (by_onnxruntime(file.with_suffix(".onnx").as_posix(), numbers),
                    by_tensorflow(file.with_suffix("").as_posix(), numbers)):
            np.testing.assert_allclose(got, want, **TOLERANCE, err_msg=file.stem)
        print(file.stem, want.shape)
print(f"{len(files)} networks agree in onnxruntime and TensorFlow")
