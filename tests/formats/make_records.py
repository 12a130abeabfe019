"""Made the .tfrecord, .tfexample and .tfsequence files in this folder, with TensorFlow 2.21.0: the records of
tests/test_records.cpp as TensorFlow writes them, and the last Example and SequenceExample bare, for fuzz_files."""
import os

import tensorflow as tf

here = os.path.dirname(os.path.abspath(__file__))
floats = lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v))
wholes = lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v))
texts = lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=v))

examples = []
for i in range(3):
    features = {
        "image": floats([i + 0.25 * k for k in range(6)]),
        "label": wholes([i - 1]),
        "words": texts([b"w%d" % k for k in range(i)]),
        "ids": wholes(list(range(10 * i, 10 * i + 2 * i))),
        "splits": wholes([0, i, 2 * i]),
        "empty": tf.train.Feature(),
    }
    if i != 1:
        features["weight"] = floats([0.5 * i])
    examples.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
for name, compression in (("plain", ""), ("zlib", "ZLIB"), ("gzip", "GZIP")):
    with tf.io.TFRecordWriter(f"{here}/{name}.tfrecord", compression) as out:
        for e in examples:
            out.write(e)

with tf.io.TFRecordWriter(f"{here}/sequences.tfrecord") as out:
    for i in range(2):
        steps = [floats([i, k]) for k in range(1 + 2 * i)]
        tokens = [texts([b"t"] * k) for k in range(i + 2)]
        sequence = tf.train.SequenceExample(
            context=tf.train.Features(feature={"length": wholes([len(steps)])}),
            feature_lists=tf.train.FeatureLists(feature_list={
                "steps": tf.train.FeatureList(feature=steps), "tokens": tf.train.FeatureList(feature=tokens)}),
        ).SerializeToString()
        out.write(sequence)
for name, content in (("example.tfexample", examples[-1]), ("sequence.tfsequence", sequence)):
    with open(f"{here}/{name}", "wb") as out:
        out.write(content)
