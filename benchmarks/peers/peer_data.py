"""Input pipelines of other libraries: the rows data_*. Which one the first argument says: tf, torch, grain, pandas, pyarrow or polars.

Files are those that our own program has made, in the folder that RILL_BENCH_DATA names. Start at the last lines.
"""

import os
import sys

import common

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
library = sys.argv.pop(1)
FOLDER = os.environ.get("RILL_BENCH_DATA", "bench-data")
MILLION, MANY, RECORDS = 1 << 20, 10_000_000, 20000


def part(n, call):
    """A pass of an n-th of the elements, counted n times: for who takes minutes for all."""
    return {f"{library}, 1/{n} of it": (call, 1 / n)}


def drain(dataset):
    def run():
        for _ in dataset:
            pass

    return run


def tf_rows():
    import tensorflow as tf

    def training():
        ds = tf.data.Dataset.range(MANY).shuffle(100_000, seed=1)
        return ds.map(lambda i: tf.fill([8], tf.cast(i, tf.float32)), num_parallel_calls=2).batch(128).prefetch(2)

    def resumed():
        ds, it = training(), None
        it = iter(ds)
        for _ in range(1_000_000 // 128):
            next(it)
        saved = tf.train.Checkpoint(it=it)
        path = saved.write(os.path.join(FOLDER, "tf-resume"))

        def run():
            later = iter(training())
            tf.train.Checkpoint(it=later).read(path)
            next(later)

        return run

    def parsed():
        ds = tf.data.TFRecordDataset(os.path.join(FOLDER, "images.tfrecord")).shuffle(4096, seed=1).batch(128)
        features = {"image": tf.io.FixedLenFeature([784], tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}
        return ds.map(lambda batch: tf.io.parse_example(batch, features), num_parallel_calls=2)

    def pictures():
        mean, deviation = tf.constant([0.485, 0.456, 0.406]), tf.constant([0.229, 0.224, 0.225])

        def read(path):
            x = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
            x = tf.image.random_flip_left_right(tf.image.resize(x, [224, 224], antialias=True))
            return (x / 255 - mean) / deviation

        files = tf.data.Dataset.list_files(os.path.join(FOLDER, "jpeg", "*.jpg"), shuffle=False)
        return files.map(read, num_parallel_calls=2).batch(32)

    def columns():
        types = [tf.float64] * 4 + [tf.int64] * 4 + [tf.string] * 2
        return tf.data.experimental.CsvDataset(os.path.join(FOLDER, "rows.csv"), types, header=True).batch(1024)

    return {
        "data_jpeg": lambda: drain(pictures()),
        "data_csv": lambda: drain(columns()),
        "data_overhead": lambda: drain(tf.data.Dataset.range(MILLION).map(lambda i: i).batch(1024)),
        # Only a buffer of all elements shuffles exactly.
        "data_shuffle": lambda: drain(tf.data.Dataset.range(MANY).shuffle(MANY, seed=1).batch(1024)),
        "data_first": lambda: lambda: next(iter(training())),
        "data_resume": resumed,
        "data_tfrecord": lambda: drain(parsed()),
    }


def torch_rows():
    import torch

    class Numbers(torch.utils.data.Dataset):
        def __init__(self, n, f=lambda i: i):
            self.n, self.f = n, f

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            return self.f(i)

    def loader(n, batch, f=lambda i: i, **options):
        return torch.utils.data.DataLoader(Numbers(n, f), batch_size=batch, num_workers=2, **options)

    return {
        "data_overhead": lambda: drain(loader(MILLION, 1024)),
        "data_shuffle": lambda: part(10, drain(loader(MANY // 10, 1024, shuffle=True))),
        "data_first": lambda: lambda: next(iter(loader(MANY, 128, lambda i: torch.full((8,), float(i)), shuffle=True))),
    }


def grain_rows():
    import grain.python as grain
    import numpy as np

    def training():
        ds = grain.MapDataset.range(MANY).shuffle(seed=1).map(lambda i: np.full((8,), i, np.float32))
        return ds.batch(128).to_iter_dataset()

    def resumed():
        it = iter(training())
        for _ in range(1_000_000 // 128):
            next(it)
        state = it.get_state()

        def run():
            later = iter(training())
            later.set_state(state)
            next(later)

        return run

    return {
        "data_overhead": lambda: drain(grain.MapDataset.range(MILLION).map(lambda i: i).batch(1024)),
        "data_shuffle": lambda: part(50, drain(grain.MapDataset.range(MANY // 50).shuffle(seed=1).batch(1024))),
        "data_first": lambda: lambda: next(iter(training())),
        "data_resume": resumed,
    }


def table_rows():
    """One table of a whole file, by what reads it fastest."""
    path = os.path.join(FOLDER, "rows.csv")

    def read():
        if library == "pandas":
            import pandas

            return lambda: pandas.read_csv(path)
        if library == "polars":
            import polars

            return lambda: polars.read_csv(path)
        import pyarrow.csv

        return lambda: pyarrow.csv.read_csv(path)

    return {"data_csv": read}


os.environ.setdefault("POLARS_MAX_THREADS", str(common.THREADS))
rows = {"tf": tf_rows, "torch": torch_rows, "grain": grain_rows}.get(library, table_rows)()


def named(made):
    return made if isinstance(made, dict) else {"tf.data" if library == "tf" else library: made}


common.serve({name: (lambda row=row: named(row())) for name, row in rows.items()})
