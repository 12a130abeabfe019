"""Networks of Keras's layers as its exporter to ONNX writes them (model.export(format="onnx"), by tf2onnx), by import_model
and by onnxruntime, which must agree. Runs in the environment .deps/formats (tests/formats.txt), which ./dev test --all makes;
skipped where there is none.
"""
import os
import pathlib
import sys
import tempfile

from formats_environment import needed

os.environ["CUDA_VISIBLE_DEVICES"] = ""
with needed():
    import numpy as np
    import onnxruntime  # noqa: F401
    import tf2onnx  # noqa: F401
    import keras
from test_onnx_networks import compare

L = keras.layers  # without gelu: tf2onnx cannot write its Erfc


def residual(x):
    h = L.BatchNormalization()(L.Conv2D(8, 3, padding="same", activation="relu")(x))
    h = L.Add()([L.DepthwiseConv2D(3, padding="same")(h), L.Conv2D(8, 1)(x)])
    return L.Dense(4, activation="softmax")(L.Flatten()(L.MaxPooling2D()(L.ReLU()(h))))


def pyramid(x):
    h = L.Conv2DTranspose(4, 3, strides=2, padding="same")(L.SeparableConv2D(6, 3, strides=2, padding="same")(x))
    return L.GlobalAveragePooling2D()(L.Concatenate()([h, L.UpSampling2D()(L.AveragePooling2D(2)(x))]))


def attention(x):
    h = L.LayerNormalization()(x + L.MultiHeadAttention(2, 8)(x, x))
    return L.LayerNormalization()(h + L.Dense(16)(L.Dense(32, activation="swish")(h)))


NETWORKS = {
    "conv": ((12, 12, 3), residual),
    "pyramid": ((12, 12, 3), pyramid),
    "lstm": ((9, 4), lambda x: L.Dense(2)(L.LSTM(6)(L.LSTM(5, return_sequences=True)(x)))),
    "gru": ((9, 4), lambda x: L.Bidirectional(L.GRU(6))(x)),
    "attention": ((7, 16), attention),
    "activations": ((8,), lambda x: L.Concatenate()(
        [L.Activation(a)(x) for a in ("tanh", "elu", "selu", "softplus", "swish", "relu6", "softsign", "hard_sigmoid")])),
}


def network(shape, layers):
    x = keras.Input(shape, name="x")
    model = keras.Model(x, layers(x))
    model(np.zeros((1, *shape), "float32"))
    random = np.random.default_rng(7)
    for v in model.trainable_variables:  # so that no offset is 0
        v.assign(v + 0.1 * random.standard_normal(v.shape))
    return model


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        files = [folder / f"{name}.onnx" for name in NETWORKS]
        for file, (shape, layers) in zip(files, NETWORKS.values()):
            network(shape, layers).export(file, format="onnx", verbose=False)
        return compare(files, folder)


if __name__ == "__main__":
    sys.exit(main())
