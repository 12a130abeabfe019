"""examples/mnist in TensorFlow: the same model, settings and digits. Prints the seconds that training took, without imports.

Usage: demo_tf.py DATA_FOLDER
"""

import gzip
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

BATCH, EPOCHS = 64, 5
tf.config.threading.set_intra_op_parallelism_threads(2)
tf.config.threading.set_inter_op_parallelism_threads(2)
tf.random.set_seed(0)


def read(path, header):
    return np.frombuffer(gzip.decompress(Path(path).read_bytes()), np.uint8, offset=header)


def digits(folder, which):
    images = read(f"{folder}/{which}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28, 1).astype(np.float32) / 255
    return images, read(f"{folder}/{which}-labels-idx1-ubyte.gz", 8).astype(np.int32)


def main():
    begin = time.monotonic()
    train, test = digits(sys.argv[1], "train"), digits(sys.argv[1], "t10k")
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(1024, activation="relu"),
            layers.Dropout(0.4),
            layers.Dense(10),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def correct(images, labels):
        return tf.reduce_sum(tf.cast(tf.argmax(model(images), -1, tf.int32) == labels, tf.int32))

    data = tf.data.Dataset.from_tensor_slices(train).shuffle(len(train[1])).batch(BATCH).prefetch(2)
    for _ in range(EPOCHS):
        for images, labels in data:
            loss = step(images, labels)
        accuracy = correct(*map(tf.constant, test)).numpy() / len(test[1])
    seconds = time.monotonic() - begin
    print(json.dumps({"row": "demo_mnist", "peer": "tf", "median_us": seconds * 1e6, "accuracy": accuracy}))


main()
