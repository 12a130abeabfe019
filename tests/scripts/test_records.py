"""Records and tables both ways with TensorFlow and pyarrow: they write files, tests/api/records.cpp reads them, parses
Examples as TensorFlow does and writes them anew, and they read that. Runs in the environment .deps/formats
(tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import subprocess
import tempfile

from formats_environment import BUILD, needed

with needed():
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import tensorflow as tf

random = np.random.default_rng(3)


def floats(v):
    return tf.train.Feature(float_list=tf.train.FloatList(value=v))


def wholes(v):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=v))


def texts(v):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=v))


def example(i):
    rows = random.integers(0, 4, random.integers(0, 4))       # the lengths of the innermost rows
    outer = []                                                # and how many of these stand together
    while sum(outer) < len(rows):
        outer.append(int(random.integers(0, len(rows) - sum(outer) + 1)))
    features = {
        "fixed": floats(random.normal(size=6)),
        "padded": floats(random.normal(size=2 * random.integers(0, 4))),
        "variable": texts([b"\xff" * int(n) for n in random.integers(0, 9, random.integers(0, 5))]),
        "values": wholes(random.integers(-2**62, 2**62, rows.sum())),
        "outer": wholes(outer),
        "inner": wholes(np.concatenate([[0], np.cumsum(rows)])),
    }
    if i % 2:
        features["maybe"] = wholes([i])
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def sequence(i):
    steps = [floats(random.normal(size=2)) for _ in range(i % 4)]
    tokens = [texts([b"t%d" % k for k in range(n)]) for n in random.integers(0, 4, random.integers(0, 4))]
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={"id": wholes([i])}),
        feature_lists=tf.train.FeatureLists(feature_list={
            "steps": tf.train.FeatureList(feature=steps), "tokens": tf.train.FeatureList(feature=tokens)})
    ).SerializeToString()


def same(ours, theirs, kind):
    """Of two lists of encoded messages."""
    assert len(ours) == len(theirs), (len(ours), len(theirs))
    for a, b in zip(ours, theirs):
        assert kind.FromString(a) == kind.FromString(b)


with tempfile.TemporaryDirectory() as folder:
    examples = [example(i) for i in range(40)]
    packings = {"plain": "", "zlib": "ZLIB", "gzip": "GZIP"}
    for name, packing in packings.items():
        with tf.io.TFRecordWriter(f"{folder}/tf_{name}.tfrecord", packing) as out:
            for e in examples:
                out.write(e)
    sequences = [sequence(i) for i in range(20)]
    with tf.io.TFRecordWriter(f"{folder}/tf_sequences.tfrecord") as out:
        for s in sequences:
            out.write(s)
    table = pa.table({"id": pa.array(random.integers(-2**62, 2**62, 50)), "x": random.normal(size=50) * 10.0**random.integers(-300, 300, 50),
                      "yes": random.integers(0, 2, 50).astype(bool), "text": [f'"{i}",\n{i}' * (i % 3) for i in range(50)]})
    pa.csv.write_csv(table, f"{folder}/arrow.csv")

    subprocess.run([f"{BUILD}/tests/api_records", folder], check=True)

    for name, packing in packings.items():
        ours = [r.numpy() for r in tf.data.TFRecordDataset(f"{folder}/{name}.tfrecord", packing)]
        same(ours, examples, tf.train.Example)
    same([r.numpy() for r in tf.data.TFRecordDataset(f"{folder}/sequences.tfrecord")], sequences, tf.train.SequenceExample)

    R = tf.io.RaggedFeature
    parsed = tf.io.parse_example(examples, {
        "fixed": tf.io.FixedLenFeature([2, 3], tf.float32), "maybe": tf.io.FixedLenFeature([], tf.int64, -5),
        "padded": tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True, default_value=9.0),
        "variable": tf.io.VarLenFeature(tf.string),
        "rows": R(tf.int64, "values", [R.RowLengths("outer"), R.RowSplits("inner")], row_splits_dtype=tf.int64)})
    ours = np.load(f"{folder}/parsed.npz")
    for name in ("fixed", "maybe", "padded"):
        np.testing.assert_array_equal(ours[name], parsed[name].numpy(), name)
    np.testing.assert_array_equal(ours["indices"], parsed["variable"].indices.numpy())
    np.testing.assert_array_equal(ours["values"], parsed["rows"].flat_values.numpy())
    for level, splits in enumerate(parsed["rows"].nested_row_splits):
        np.testing.assert_array_equal(ours[f"splits{level}"], splits.numpy())

    back = pa.csv.read_csv(f"{folder}/table.csv", parse_options=pa.csv.ParseOptions(newlines_in_values=True))
    assert back == table, back.to_pydict()
print(f"{len(examples)} Examples in {len(packings)} packings, {len(sequences)} SequenceExamples and a table of {table.num_rows} rows, both ways")
