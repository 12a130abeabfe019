"""Estimators as SavedModels, run by TensorFlow: signatures that take the raw columns, texts among them, and give what predict()
gives. tests/train/test_estimators.cpp writes them. Runs in the environment .deps/formats (tests/formats.txt), which ./dev test --all
makes; skipped where there is none.
"""
import os
import subprocess
import tempfile

from formats_environment import BUILD, needed

os.environ["CUDA_VISIBLE_DEVICES"] = ""
with needed():
    import numpy as np
    import tensorflow as tf

PEOPLE = {"age": np.array([20, 35, 61, 44], np.float32), "visits": np.array([1, 7, 3, 12], np.int64),
          "city": np.array(["Rome", "Oslo", "", "Ulm"]), "job": np.array(["cook", "nurse", "cook", "pilot"])}


def served(path, names, rows):
    model = tf.saved_model.load(path)
    signature = model.signatures["serving_default"]
    inputs = signature.structured_input_signature[1]
    assert sorted(inputs) == sorted(names), inputs
    for name in ("city", "job"):
        assert name not in inputs or inputs[name].dtype == tf.string, inputs
    given = signature(**{n: tf.constant(PEOPLE[n][:rows], inputs[n].dtype) for n in names})
    return {name: value.numpy() for name, value in given.items()}


with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([f"{BUILD}/tests/test_estimators", "child: exports for TensorFlow"],
                          env=os.environ | {"RILL_SERVED": folder}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    predicted = np.load(f"{folder}/predicted.npz")
    for rows in (4, 1):
        buyers = served(f"{folder}/buyers/1", ["age", "visits", "city", "job"], rows)
        assert set(buyers) == {"logits", "probabilities", "classes"}, buyers
        for name in ("logits", "probabilities"):
            np.testing.assert_allclose(buyers[name], predicted[name][:rows], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(buyers["classes"], predicted["classes"][:rows])
        spenders = served(f"{folder}/spenders/1", ["age", "visits"], rows)
        np.testing.assert_allclose(spenders["predictions"], predicted["predictions"][:rows], rtol=1e-5, atol=1e-6)
print("All tests passed (of estimators in TensorFlow, in 4 test cases)")
