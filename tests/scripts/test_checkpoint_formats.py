"""Checkpoints both ways with TensorFlow: it saves tensors of every dtype, tensors in parts, objects, a Keras model and runs
of its own manager; rill reads them, writes them anew and goes on where its managers stopped; and TensorFlow reads that. The
program tests/api/checkpoints.cpp is rill's side. Runs in the environment .deps/formats (tests/formats.txt), which ./dev test --all
makes; skipped where there is none.
"""
import os
import shutil
import subprocess
import tempfile

from formats_environment import BUILD, needed

with needed():
    import keras
    import numpy as np
    import tensorflow as tf

random = np.random.default_rng(5)
program = subprocess.Popen([f"{BUILD}/tests/api_checkpoints", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True, encoding="utf-8")


def rill(*words):
    print(*words, file=program.stdin, flush=True)
    answer = program.stdout.readline().rstrip("\n")
    assert not answer.startswith("error"), answer
    return answer.split()


def tensors_of(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {name: (tf.as_dtype(dtype), reader.get_tensor(name)) for name, dtype in reader.get_variable_to_dtype_map().items()}


def assert_same(a, b):
    """The same names, dtypes, shapes and bits."""
    a, b = tensors_of(a), tensors_of(b)
    assert a.keys() == b.keys() and a, a.keys() ^ b.keys()
    for name, (dtype, value) in a.items():
        other, again = b[name]
        assert dtype == other and np.shape(value) == np.shape(again), name
        if dtype == tf.string:
            assert np.array(value).tolist() == np.array(again).tolist(), name
        else:
            assert np.asarray(value).tobytes() == np.asarray(again).tobytes(), name


def save(prefix, tensors, slices=None):
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(tensors), shape_and_slices=slices or [""] * len(tensors),
                      tensors=[tf.convert_to_tensor(t) for t in tensors.values()])


def every_dtype(folder):
    dtypes = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 "
              "complex128").split()
    tensors = {}
    for dtype in dtypes:
        for shape in ((), (1,), (3, 5), (2, 0, 4), (1, 2, 1, 3)):
            values = tf.constant(random.integers(0, 100, shape) / 3)
            if dtype == "bool":
                values = values > 16
            tensors[f"{dtype}/{len(shape)}"] = tf.cast(values, dtype)
    tensors["text"] = tf.constant([b"", b"one", b"x" * 100000, b"\0\xff", "Größe".encode()])
    tensors["text/scalar"] = tf.constant("word")
    tensors["text/none"] = tf.constant([], tf.string)
    tensors["special"] = tf.constant([np.nan, np.inf, -np.inf, -0.0, 1e-45], tf.float32)
    tensors["ein Name, größer"] = tf.constant(1)
    save(f"{folder}/tf", tensors)
    for shards in (1, 3):
        rill("convert", f"{folder}/tf", f"{folder}/rill{shards}", shards)
        assert_same(f"{folder}/tf", f"{folder}/rill{shards}")
        # Whole, and a part of a tensor, by the op that TensorFlow restores with.
        (part, whole) = tf.raw_ops.RestoreV2(prefix=f"{folder}/rill{shards}", tensor_names=["float32/2", "int64/2"],
                                             shape_and_slices=["3 5 1,2:0,4", ""], dtypes=[tf.float32, tf.int64])
        np.testing.assert_array_equal(part, tensors["float32/2"][1:3, 0:4])
        np.testing.assert_array_equal(whole, tensors["int64/2"])


def many_and_large(folder):
    """An index of many blocks, and tensors of some MB over several shards."""
    tensors = {f"scope_{i % 7}/layer_{i}/kernel": random.standard_normal((i % 5, 3)).astype("float32") for i in range(5000)}
    tensors["large"] = random.standard_normal((1000, 1000))
    save(f"{folder}/many", tensors)
    rill("convert", f"{folder}/many", f"{folder}/again", 4)
    assert_same(f"{folder}/many", f"{folder}/again")
    assert len([name for name in os.listdir(folder) if name.startswith("again.data")]) == 4


def parts(folder):
    whole = random.standard_normal((4, 6)).astype("float32")
    names, slices, values = [], [], []
    for row in (0, 3):
        for column, width in ((0, 2), (2, 4)):
            rows = 3 if row == 0 else 1
            names.append("whole")
            slices.append(f"4 6 {row},{rows}:{column},{width}")
            values.append(tf.constant(whole[row:row + rows, column:column + width]))
    tf.raw_ops.SaveV2(prefix=f"{folder}/parts", tensor_names=names, shape_and_slices=slices, tensors=values)
    rill("convert", f"{folder}/parts", f"{folder}/joined", 1)
    np.testing.assert_array_equal(tf.train.load_checkpoint(f"{folder}/joined").get_tensor("whole"), whole)


def restored(prefix, shapes, out):
    words = [word for path, shape in shapes.items() for word in (path, "x".join(map(str, shape)))]
    rill("restore", prefix, out, *words)
    return np.load(out)


def objects(folder):
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(random.standard_normal((2, 3)).astype("float32"))
            self.inner = {"a": tf.Variable(tf.ones([4])), "b": [tf.Variable(tf.range(5.0))]}

    net = Net()
    prefix = tf.train.Checkpoint(net=net, same=net.w).save(f"{folder}/objects")
    found = restored(prefix, {"net/w": (2, 3), "net/inner/a": (4,), "net/inner/b/0": (5,)}, f"{folder}/objects.npz")
    np.testing.assert_array_equal(found["net/w"], net.w)
    np.testing.assert_array_equal(found["net/inner/b/0"], np.arange(5))
    found = restored(prefix, {"same": (2, 3)}, f"{folder}/same.npz")  # another path to it
    np.testing.assert_array_equal(found["same"], net.w)


def keras_model(folder):
    """A model that was trained, and its optimizer's slots, in the form of TensorFlow's checkpoints."""
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4, name="hidden"), keras.layers.Dense(2, name="out")])
    model.compile(optimizer="adam", loss="mse")
    model.fit(random.standard_normal((8, 3)), random.standard_normal((8, 2)), verbose=0)
    prefix = tf.train.Checkpoint(model=model).write(f"{folder}/keras")
    kernels = {"sequential/hidden/kernel": (3, 4), "sequential/out/bias": (2,)}
    by_name = {path.replace("sequential", model.name): shape for path, shape in kernels.items()}
    found = restored(prefix, by_name, f"{folder}/keras.npz")
    np.testing.assert_array_equal(found[f"{model.name}/hidden/kernel"], model.layers[0].kernel)
    np.testing.assert_array_equal(found[f"{model.name}/out/bias"], model.layers[1].bias)
    rill("convert", prefix, f"{folder}/keras_again", 1)
    assert_same(prefix, f"{folder}/keras_again")
    for v in model.trainable_variables:
        v.assign(v * 0)
    # The object graph is a tensor of the checkpoint as well: TensorFlow restores its objects from rill's copy.
    tf.train.Checkpoint(model=model).read(f"{folder}/keras_again").assert_existing_objects_matched()
    np.testing.assert_array_equal(found[f"{model.name}/hidden/kernel"], model.layers[0].kernel)


def managers(folder):
    """TensorFlow's manager and rill's take turns in one folder."""
    step = tf.Variable(0, dtype=tf.int64)
    theirs = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), folder, max_to_keep=3, checkpoint_name="run")
    for i in (1, 2):
        step.assign(i)
        theirs.save(checkpoint_number=i)
    assert rill("manage", folder, "run", 3) == [f"{folder}/run-1", f"{folder}/run-2"]
    assert rill("manage", folder, "run", 3, 3, 4) == [f"{folder}/run-{i}" for i in (2, 3, 4)]
    assert rill("manage", folder, "best", 1, 3) == [f"{folder}/best-3"]
    assert tf.train.latest_checkpoint(folder) == f"{folder}/best-3"
    assert tf.train.load_checkpoint(folder).get_tensor("step") == 3
    theirs = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), folder, max_to_keep=3, checkpoint_name="run")
    assert theirs.checkpoints == [f"{folder}/run-{i}" for i in (2, 3, 4)] + [f"{folder}/best-3"]
    state = tf.train.get_checkpoint_state(folder)
    assert len(state.all_model_checkpoint_timestamps) == 4 and state.last_preserved_timestamp > 1.7e9
    step.assign(5)
    theirs.save(checkpoint_number=5)
    assert rill("manage", folder, "run", 2, 6) == [f"{folder}/run-5", f"{folder}/run-6"]
    assert tf.train.load_checkpoint(folder).get_tensor("step") == 6
    # A list with whole paths, as TensorFlow 1 wrote it, which was moved with its folder.
    os.rename(folder, f"{folder}.moved")
    with open(f"{folder}.moved/checkpoint", "w", encoding="utf-8") as file:
        file.write("".join(f'{key}: "{folder}/run-6"\n' for key in ("model_checkpoint_path", "all_model_checkpoint_paths")))
    assert rill("manage", f"{folder}.moved", "run", 2) == [f"{folder}.moved/run-6"]


def several_ranks(folder):
    """One checkpoint that three ranks have written, a data file each, with pieces of one tensor."""
    ranks = f"{BUILD}/tests/distribute_program"
    if not (shutil.which("mpirun") and os.path.exists(ranks) and os.path.exists(f"{BUILD}/librill_mpi.so")):
        return
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    subprocess.run(["mpirun", "-n", "3", ranks, "shared_checkpoint", folder], env=os.environ | allowed, check=True, timeout=120)
    assert len([name for name in os.listdir(folder) if "-of-00003" in name]) == 3
    found = {name: value for name, (_, value) in tensors_of(f"{folder}/all").items()}
    np.testing.assert_array_equal(found["table"], np.arange(21, dtype=np.float32).reshape(7, 3))
    np.testing.assert_array_equal(found["big"], np.full(1000, 2.0))
    assert [float(found[f"own{rank}"][1]) for rank in range(3)] == [0, 1, 2] and found["note"] == b"of rank 0"


checks = (every_dtype, many_and_large, parts, objects, keras_model, managers, several_ranks)
with tempfile.TemporaryDirectory() as temporary:
    for check in checks:
        place = f"{temporary}/{check.__name__}"
        os.mkdir(place)
        check(place)
program.stdin.close()
assert program.wait() == 0
print(f"{len(checks)} kinds of checkpoints went both ways")
