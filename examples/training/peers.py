"""What scikit-learn and Keras reach on the data of the examples, on the same rows: the numbers that stand beside ours.

Usage: peers.py [tables] [languages] [digits]      (needs scikit-learn; digits needs Keras on TensorFlow)
"""
import csv
import gzip
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

DATA = Path(__file__).resolve().parent.parent / "data"


def read(name):
    with (gzip.open if name.endswith(".gz") else open)(DATA / name, "rt", encoding="utf-8") as file:
        return list(csv.reader(file))


def table(name, target):
    """The rows to train on and the test, a fifth of all, as the examples have them: x, y, x, y."""
    header, *rows = read(name)
    values, at = np.array(rows, float), header.index(target)
    x, y = np.delete(values, at, 1), values[:, at]
    test = np.arange(len(y)) % 5 == 4
    test[len(y) // 5 * 5 :] = False
    train = np.arange(len(y)) % 5 != 4
    return x[train], y[train], x[test], y[test]


def tables():
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    for name, target, models in [
        ("small_digits.csv.gz", "digit", [SVC(), LogisticRegression(max_iter=3000), MLPClassifier(max_iter=500, random_state=0)]),
        ("wine.csv", "cultivar", [LogisticRegression(), SVC(), MLPClassifier(max_iter=2000, random_state=0)]),
        ("breast_cancer.csv.gz", "benign", [LogisticRegression(), SVC(), MLPClassifier(max_iter=2000, random_state=0)]),
        ("diabetes.csv.gz", "progression", [Ridge(), MLPRegressor(hidden_layer_sizes=(32,), max_iter=5000, random_state=0)]),
    ]:
        x, y, x_test, y_test = table(name, target)
        for model in models:
            fitted = make_pipeline(StandardScaler(), model).fit(x, y)
            print(f"{name:22} {type(model).__name__:20} {fitted.score(x_test, y_test):.4f}")


def languages():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rows = read("names.csv.gz")[1:]
    train, test = ([r for r in rows if r[2] == which] for which in "01")
    pieces = CountVectorizer(analyzer="char", ngram_range=(1, 4), lowercase=False)
    model = make_pipeline(pieces, LogisticRegression(max_iter=1000))
    model.fit([f"^{r[0]}$" for r in train], [r[1] for r in train])
    print(f"names.csv.gz           LogisticRegression   {model.score([f'^{r[0]}$' for r in test], [r[1] for r in test]):.4f}")


def digits():
    import keras
    import tensorflow as tf
    from keras import layers

    def images(which):
        pixels = np.frombuffer(gzip.decompress((DATA / f"{which}-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
        labels = np.frombuffer(gzip.decompress((DATA / f"{which}-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
        return pixels.reshape(-1, 28, 28, 1).astype(np.float32) / 255, labels.astype(np.int32)

    def moved(image, label):
        return tf.image.random_crop(tf.pad(image, [[2, 2], [2, 2], [0, 0]]), (28, 28, 1)), label

    def block(x, channels):
        h = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)))
        h = layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same", use_bias=False)(h))
        return layers.ReLU()(layers.add([x, h]))

    keras.utils.set_random_seed(1)
    inputs = layers.Input((28, 28, 1))
    h = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(32, 3, padding="same", use_bias=False)(inputs)))
    h = block(layers.MaxPooling2D(2)(h), 32)
    h = block(block(layers.Conv2D(64, 3, strides=2, padding="same", activation="relu")(h), 64), 64)
    model = keras.Model(inputs, layers.Dense(10)(layers.Dropout(0.3)(layers.GlobalAveragePooling2D()(h))))
    rate = keras.optimizers.schedules.CosineDecay(0.0, 18 * 63 - 60, warmup_target=3e-3, warmup_steps=60)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(rate, weight_decay=0.02), loss, metrics=["accuracy"])
    batches = tf.data.Dataset.from_tensor_slices(images("train")).shuffle(4000).map(moved).batch(64).prefetch(2)
    model.fit(batches, epochs=18, verbose=0)
    print(f"digits                 Keras, the same      {model.evaluate(*images('t10k'), verbose=0)[1]:.4f}")


for name in sys.argv[1:] or ["tables", "languages"]:
    {"tables": tables, "languages": languages, "digits": digits}[name]()
