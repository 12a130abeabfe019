"""The rows fit_* in other libraries: the same models, settings and digits as in ../fit.cpp.

Usage: peer_fit.py keras-tf|keras-jax|torch|lightning --overhead | --digits FOLDER | --small FOLDER

torch has no loop: its loop is written by hand, as its users do.
"""

import gzip
import json
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

NAME, MODE = sys.argv[1], sys.argv[2]
FOLDER = sys.argv[3] if len(sys.argv) > 3 else ""
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ["KERAS_BACKEND"] = {"keras-tf": "tensorflow", "keras-jax": "jax"}.get(NAME, "torch")
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")

import numpy as np

SECONDS = float(os.environ.get("RILL_BENCH_SECONDS", 0.4))
STEPS = 1000  # of a run whose overhead is measured


def read(which):
    def bytes_of(name, header):
        return np.frombuffer(gzip.decompress((Path(FOLDER) / name).read_bytes()), np.uint8, offset=header)

    images = bytes_of(f"{which}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28, 1).astype(np.float32) / 255
    return images, bytes_of(f"{which}-labels-idx1-ubyte.gz", 8).astype(np.int64)


def median_us(call):
    call()
    samples, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(samples) < 3:
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples) * 1e6


def answer(row, **what):
    print(json.dumps({"row": row, "peer": NAME, **what}))


# --- Keras -----------------------------------------------------------------------------------------------------------


def keras_main():
    import keras
    from keras import layers

    if NAME == "keras-tf":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(2)
        tf.config.threading.set_inter_op_parallelism_threads(2)

    def compiled(model, optimizer, metrics=()):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, metrics=list(metrics))
        return model

    if MODE == "--overhead":
        x, y = np.random.randn(16, 8).astype(np.float32), np.arange(16) % 4
        tiny = [layers.Input((8,)), layers.Dense(16, activation="tanh"), layers.Dense(4)]
        model = compiled(keras.Sequential(tiny), keras.optimizers.SGD(0.1))
        if NAME == "keras-tf":
            batches = tf.data.Dataset.from_tensors((x, y)).repeat(STEPS)
            whole = median_us(lambda: model.fit(batches, verbose=0))
            # The compiled step that fit() calls, on an iterator of the same batches.
            step, endless = model.make_train_function(), iter(batches.repeat())
            bare = median_us(lambda: [step(endless) for _ in range(STEPS)][-1]) / STEPS
        else:

            def endless_batches():
                while True:
                    yield x, y

            batches = endless_batches()
            model.fit(batches, steps_per_epoch=1, verbose=0)
            whole = median_us(lambda: model.fit(batches, steps_per_epoch=STEPS, verbose=0))
            state = (  # the steps donate it: fit() could not continue with it
                [v.value for v in model.trainable_variables],
                [v.value for v in model.non_trainable_variables],
                [v.value for v in model.optimizer.variables],
                [v.value for v in model.metrics_variables],
            )

            def steps():
                nonlocal state
                for _ in range(STEPS):
                    _, state = model.train_function(state, iter([(x, y)]))
                state[0][0].block_until_ready()

            bare = median_us(steps) / STEPS
        answer("fit_overhead", median_us=whole / STEPS - bare, step_us=bare)
    elif MODE == "--digits":

        class Reached(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                if logs["val_accuracy"] >= 0.97:
                    self.model.stop_training = self.reached = True

        wide = [layers.Conv2D(n, 5, padding="same", activation="relu") for n in (32, 64)]
        tail = [layers.Flatten(), layers.Dense(256, activation="relu"), layers.Dense(10)]
        parts = [layers.Input((28, 28, 1)), wide[0], layers.MaxPooling2D(2), wide[1], layers.MaxPooling2D(2), *tail]
        model = compiled(keras.Sequential(parts), keras.optimizers.Adam(1e-3), ["accuracy"])
        reached = Reached()
        train, test = read("train"), read("t10k")
        model.fit(*train, batch_size=64, epochs=20, validation_data=test, validation_batch_size=250, verbose=0, callbacks=[reached])
        answer("fit_digits", clock_us=time.monotonic() * 1e6 if reached.reached else 0)
    else:
        parts = [layers.Input((28, 28, 1)), layers.Flatten(), layers.Dense(64, activation="relu"), layers.Dense(10)]
        model = compiled(keras.Sequential(parts), keras.optimizers.Adam(1e-3), ["accuracy"])
        train = read("train")
        answer("fit_small_batches", median_us=median_us(lambda: model.fit(*train, batch_size=8, verbose=0)))


# --- torch, by hand and by Lightning ---------------------------------------------------------------------------------


def torch_main():
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(2)

    def tensors(which):
        images, labels = read(which)
        return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels)

    def tiny():
        net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        return net, torch.optim.SGD(net.parameters(), 0.1)

    def convolutions():
        head = [nn.Flatten(), nn.Linear(3136, 256), nn.ReLU(), nn.Linear(256, 10)]
        first = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        net = nn.Sequential(*first, nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), *head)
        return net, torch.optim.Adam(net.parameters(), 1e-3)

    def small():
        net = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
        return net, torch.optim.Adam(net.parameters(), 1e-3)

    def step(net, optimizer, x, y):
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return logits, loss

    def accuracy(net, data):
        with torch.no_grad():
            return sum((net(x).argmax(-1) == y).sum().item() for x, y in DataLoader(data, 250)) / len(data)

    def epoch(net, optimizer, loader):
        """What fit() does: the step, and the running means of the loss and the accuracy."""
        loss_sum, right, count = torch.zeros(()), torch.zeros((), dtype=torch.int64), 0
        for x, y in loader:
            logits, loss = step(net, optimizer, x, y)
            loss_sum += loss.detach() * len(y)
            right += (logits.argmax(-1) == y).sum()
            count += len(y)
        return loss_sum.item() / count, right.item() / count

    def lightning_fit(made, loader, epochs, validation=None):
        import logging

        import lightning as L

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Module(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.net, self.optimizer = made
                self.reached = False

            def training_step(self, batch, i):
                return F.cross_entropy(self.net(batch[0]), batch[1])

            def configure_optimizers(self):
                return self.optimizer

            def on_train_epoch_end(self):
                if validation is not None and accuracy(self.net, validation) >= 0.97:
                    self.trainer.should_stop = self.reached = True

        quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
        module = Module()
        L.Trainer(max_epochs=epochs, accelerator="cpu", **quiet).fit(module, loader)
        return module.reached

    if MODE == "--overhead":
        x, y = torch.randn(16, 8), torch.arange(16) % 4
        bare_net = tiny()
        bare = median_us(lambda: [step(*bare_net, x, y) for _ in range(STEPS)][-1]) / STEPS
        batches = [(x, y)] * STEPS
        if NAME == "torch":
            net = tiny()
            whole = median_us(lambda: epoch(*net, batches))
        else:
            whole = median_us(lambda: lightning_fit(tiny(), DataLoader(batches, batch_size=None), 1))
        answer("fit_overhead", median_us=whole / STEPS - bare, step_us=bare)
    elif MODE == "--digits":
        train, test = TensorDataset(*tensors("train")), TensorDataset(*tensors("t10k"))
        loader, made, reached = DataLoader(train, 64, shuffle=True), convolutions(), False
        if NAME == "torch":
            for _ in range(20):
                epoch(*made, loader)
                if reached := accuracy(made[0], test) >= 0.97:
                    break
        else:
            reached = lightning_fit(made, loader, 20, test)
        answer("fit_digits", clock_us=time.monotonic() * 1e6 if reached else 0)
    else:
        loader, made = DataLoader(TensorDataset(*tensors("train")), 8, shuffle=True), small()
        one = (lambda: epoch(*made, loader)) if NAME == "torch" else (lambda: lightning_fit(made, loader, 1))
        answer("fit_small_batches", median_us=median_us(one))


keras_main() if NAME.startswith("keras") else torch_main()
