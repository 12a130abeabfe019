"""Models that TensorFlow and Keras write, read by rill: networks of Keras's layers as model.export() writes them, functions
that tf.saved_model.save() writes, and frozen graphs, must give what TensorFlow gives, and be fine-tuned: their Variables
get gradients, and a few steps make the results smaller. tests/scripts/model_runner.cpp runs them. In the environment
.deps/formats (tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import os
import subprocess
import sys
import tempfile

from formats_environment import BUILD, needed

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
with needed():
    import numpy as np
    import tensorflow as tf
    import keras
L = keras.layers


def some(*shape, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def ids(*shape):
    return np.random.default_rng(3).integers(0, 20, shape).astype("int32")


def network(shape, layers, dtype="float32"):
    x = keras.Input(shape, dtype=dtype)
    return keras.Model(x, layers(x))


def residual(x):
    h = L.Conv2D(8, 3, padding="same")(x)
    h = L.Conv2D(8, 3, padding="same")(L.ReLU()(L.BatchNormalization()(h)))
    return L.Add()([h, L.Conv2D(8, 1)(x)])


def transformer(x):
    h = L.Embedding(20, 16)(x)
    h = L.LayerNormalization()(h + L.MultiHeadAttention(2, 8)(h, h))
    return L.Dense(5, activation="softmax")(L.Dropout(0.5)(L.Dense(32, activation="gelu")(h)))


def keras_models():
    """By name: a model, and its inputs."""
    x, image = some(3, 8), some(2, 12, 12, 3)
    models = {
        "dense": (network((8,), lambda x: L.Dense(4, activation="softmax")(L.Dense(16, activation="relu")(x))), x),
        "activations": (network((8,), lambda x: L.Concatenate()(
            [L.Activation(a)(x) for a in ("tanh", "elu", "selu", "softplus", "swish", "gelu", "relu6")] +
            [L.LeakyReLU()(x), L.PReLU()(x)])), x),
        "conv": (network((12, 12, 3), lambda x: L.Dense(3)(L.Flatten()(L.MaxPooling2D()(
            L.Conv2D(6, 3, strides=2, padding="same", activation="relu")(x))))), image),
        "conv_valid": (network((None, None, 3), lambda x: L.GlobalAveragePooling2D()(
            L.Conv2D(4, 3, dilation_rate=2)(x))), image),
        "depthwise": (network((12, 12, 3), lambda x: L.SeparableConv2D(5, 3)(L.DepthwiseConv2D(3, padding="same")(x))), image),
        "conv_transpose": (network((12, 12, 3), lambda x: L.Conv2DTranspose(4, 3, strides=2, padding="same")(x)), image),
        "conv1d": (network((10, 4), lambda x: L.AveragePooling1D(2)(L.Conv1D(6, 3, padding="causal")(x))), some(2, 10, 4)),
        "batch_norm": (network((12, 12, 3), residual), image),
        "pools": (network((12, 12, 3), lambda x: L.Concatenate()([L.GlobalMaxPooling2D()(x), L.Flatten()(
            L.AveragePooling2D(3, strides=2, padding="same")(x))])), image),
        "embedding": (network((7,), lambda x: L.GlobalAveragePooling1D()(L.Embedding(20, 6)(x)), "int32"), ids(3, 7)),
        "lstm": (network((9, 4), lambda x: L.Dense(2)(L.LSTM(6)(L.LSTM(5, return_sequences=True)(x)))), some(2, 9, 4)),
        "gru": (network((None, 4), lambda x: L.Bidirectional(L.GRU(6))(x)), some(2, 9, 4)),
        "transformer": (network((9,), transformer, "int32"), ids(2, 9)),
    }
    for name, (model, given) in models.items():
        for v in model.trainable_variables:  # so that no offset is 0
            v.assign(v + 0.1 * some(*v.shape, seed=7))
        yield name, model, given


class Functions(tf.Module):
    def __init__(self):
        self.w = tf.Variable(some(4, 3), name="w")
        self.scale = tf.Variable(2.0, name="scale", trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def product(self, x):
        return {"y": tf.nn.relu(x @ self.w) * self.scale, "rows": tf.shape(x)[0]}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def choose(self, x):
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: x @ self.w, lambda: tf.sin(x) @ self.w)
        return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 0.5 + 1), [0, y])[1]

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def shrink(self, x):  # in as many steps as it takes
        return tf.while_loop(lambda y: tf.reduce_sum(tf.abs(y)) > 1, lambda y: y * 0.7, [x @ self.w])[0]

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], tf.float32)])
    def shapes(self, x):
        s = tf.shape(x)
        y = tf.reshape(x, [s[0] * s[1], 2, 2])
        y = tf.transpose(tf.concat([y, y[:, ::-1]], -1), [0, 2, 1])
        return tf.reshape(y, tf.stack([s[0], s[1], -1])) + tf.cast(tf.range(s[1])[:, None], tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.uint8)])
    def places(self, x):  # more of them than the indices' dtype has
        return {"y": tf.one_hot(x, 300)}

    @tf.function(input_signature=[tf.TensorSpec([2, 3, 4], tf.complex64)])
    def adjoint(self, x):
        return {"y": tf.linalg.matmul(x, x, adjoint_b=True) + tf.linalg.matmul(x, x[:, :, :3], adjoint_a=True)[:, :3, :]}


SPECIAL = np.array([np.inf, -np.inf, 1, -1, 0, np.nan, 3.5, -7], "float32")
ROWS = some(3, 4)


def summed(x, at, step=1):
    """A loop over the rows of x, as AutoGraph makes it."""
    s = tf.zeros_like(at(tf.constant(0)))
    for i in tf.range(0, tf.shape(x)[0], step):
        s = tf.tanh(s + at(i))
    return s


def grown(x, steps, shape):
    rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=shape)
    for i in steps:
        rows = rows.write(i, x[i] * 2)
    return rows.stack()


def padded(x, n):
    return tf.pad(x, [[0, 5 - n], [1, n]])


def special(x):
    a = tf.constant([[0.7], [2.5], [6.]])
    s = tf.math.special
    return tf.stack([
        tf.math.bessel_i0(x), tf.math.bessel_i0e(x), tf.math.bessel_i1(x), tf.math.bessel_i1e(x), s.bessel_j0(x),
        s.bessel_j1(x), s.bessel_k0(x), s.bessel_k0e(x), s.bessel_k1(x), s.bessel_k1e(x), s.bessel_y0(x), s.bessel_y1(x),
        s.dawsn(x), s.expint(x), s.fresnel_cos(x), s.fresnel_sin(x), tf.math.ndtri(x / 8), tf.math.xlog1py(x, x),
        tf.math.igamma(a, x), tf.math.igammac(a, x), tf.raw_ops.IgammaGradA(a=a, x=x), tf.math.zeta(a + 1, x),
        tf.math.polygamma(tf.constant([[0.], [1.], [3.]]), x), tf.math.betainc(a + 0 * x, x, x / 8)])


MATRICES = some(2, 4, 4) + 3 * np.eye(4, dtype="float32")
COMPLEX = (some(2, 3, 3) + 1j * some(2, 3, 3, seed=5) + 2 * np.eye(3)).astype("complex64")


def flat(*parts):
    return tf.concat([tf.reshape(p, [-1]) for p in parts], 0)


def solving(x):
    b = x[..., :2] * 2
    return flat(tf.linalg.inv(x), tf.linalg.inv(x, adjoint=True), tf.linalg.solve(x, b),
                tf.linalg.solve(x, b, adjoint=True), tf.linalg.triangular_solve(x, b),
                tf.linalg.triangular_solve(x, b, lower=False, adjoint=True), tf.linalg.det(x), *tf.linalg.slogdet(x),
                tf.linalg.lstsq(x[..., :2], b, l2_regularizer=0.1), tf.linalg.lstsq(x[:, :2], b[:, :2], 0.1))


def real_solving(x):
    return flat(solving(x), tf.linalg.lstsq(x[..., :2], x[..., 1:2], fast=False), tf.linalg.tridiagonal_matmul(
        x[:, :3], x[..., :2], diagonals_format="compact"), tf.linalg.tridiagonal_solve(x[:, :3] + [[0], [5], [0]], x))


def up_to_signs(x):
    """Of both decompositions what the signs of vectors leave as it is."""
    s, u, v = tf.linalg.svd(x)
    tall = tf.linalg.svd(x[..., :2], full_matrices=True)[1]
    e, w = tf.linalg.eigh(x)
    values, vectors = tf.linalg.eig(x)
    rebuilt = vectors @ tf.linalg.diag(values) @ tf.linalg.inv(vectors)
    return flat(*[tf.cast(part, tf.complex64) for part in (
        s, u @ tf.linalg.diag(tf.cast(s, x.dtype)) @ tf.linalg.adjoint(v), tall @ tf.linalg.adjoint(tall), e,
        w @ tf.linalg.diag(tf.cast(e, x.dtype)) @ tf.linalg.adjoint(w), rebuilt, tf.linalg.trace(rebuilt),
        tf.linalg.svd(x, compute_uv=False), tf.linalg.eigvalsh(x), tf.reduce_sum(tf.linalg.eigvals(x)))])


def factors(x):
    q, r = tf.linalg.qr(x[..., :2])
    whole = tf.linalg.qr(x[..., :2], full_matrices=True)
    lu, p = tf.linalg.lu(x)
    h = x + 8 * tf.eye(tf.shape(x)[-1], dtype=x.dtype)
    return flat(tf.linalg.cholesky(h), q, r, *whole, lu, tf.cast(p, x.dtype))


def diagonals(x):
    d = tf.linalg.diag_part
    bands = [d(x, k=k, align=align, padding_value=7) for k in ((-1, 2), (1, 3), (-2, -1)) for align in
             ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")]
    wide = tf.concat([x, x[..., :2]], -1)
    raw = tf.raw_ops
    return flat(d(x), d(x, k=2), d(x, k=-1), d(wide, k=(-2, 1)), d(tf.linalg.matrix_transpose(wide), k=(-1, 2)), *bands,
                tf.linalg.set_diag(x, x[..., 0]), tf.linalg.set_diag(x, x[..., :3, 1], k=-1),
                tf.linalg.set_diag(x, bands[1], k=(-1, 2), align="LEFT_RIGHT"),
                tf.linalg.diag(x), tf.linalg.diag(x, k=1, padding_value=3), tf.linalg.diag(x, k=-2, num_rows=7),
                tf.linalg.diag(bands[0], k=(-1, 2)), tf.linalg.diag(bands[5], k=(1, 3), num_rows=5, align="LEFT_RIGHT"),
                raw.MatrixDiag(diagonal=x), raw.MatrixDiagPart(input=x), raw.MatrixSetDiag(input=x, diagonal=x[..., 2]),
                raw.MatrixDiagPartV2(input=x, k=[-1, 1], padding_value=0.),
                raw.MatrixSetDiagV2(input=x, diagonal=x[:, :2], k=[0, 1]),
                raw.MatrixDiagV2(diagonal=x[:, :2], k=[0, 1], num_rows=-1, num_cols=-1, padding_value=1.),
                tf.linalg.band_part(x, 1, 0), tf.linalg.cross(x[..., :3], x[..., 1:]))


# Functions of one tensor, which is given; the first size of ROWS and of MATRICES is open.
OPERATORS = {
    "quotients": (lambda x: tf.concat([x // 2, x // np.inf, x // 0.3, -1. // x, np.inf // x,
                                       tf.math.floormod(x, 2.), tf.math.floormod(x, -np.inf)], 0), SPECIAL),
    "extremes": (lambda x: tf.stack([tf.reduce_max(x), tf.reduce_min(x), tf.cast(tf.argmax(x), tf.float32),
                                     tf.cast(tf.argmin(x), tf.float32)]), SPECIAL),
    "no_axes": (lambda x: tf.stack([f(x, axis=[]) for f in (
        tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_prod, tf.math.reduce_euclidean_norm)]), ROWS),
    "no_places": (lambda x: tf.gather_nd(x, tf.zeros([2, 0], tf.int32)), ROWS),
    "bits": (lambda x: tf.bitcast(x, tf.int32), ROWS),
    "bits_of_parts": (lambda x: tf.bitcast(x, tf.uint8), ROWS),
    "bits_joined": (lambda x: tf.bitcast(x, tf.int32), np.arange(200, 212, dtype="uint8").reshape(3, 4)),
    "wide_bits_joined": (lambda x: tf.bitcast(x, tf.int64), np.array([[1, -2], [-3, 4]], "int32")),
    "row_by_counter": (lambda x: summed(x, lambda i: x[i]), ROWS),
    "every_other_row": (lambda x: summed(x, lambda i: x[i], 2), ROWS),
    "row_from_the_end": (lambda x: summed(x, lambda i: x[-1 - i]), ROWS),
    "row_and_columns": (lambda x: summed(x, lambda i: x[i, 1:3, tf.newaxis]), ROWS),
    "slice_by_counter": (lambda x: summed(x, lambda i: tf.slice(x, [i, 1], [1, 2])), ROWS),
    "grown": (lambda x: grown(x, range(3), [4]), ROWS),
    "grown_in_a_loop": (lambda x: summed(grown(x, tf.range(tf.shape(x)[0]), None), lambda i: x[i]), ROWS),
    "solving": (real_solving, MATRICES),
    "complex_solving": (solving, COMPLEX),
    "factors": (factors, MATRICES),
    "complex_factors": (factors, COMPLEX),
    "spectral": (up_to_signs, MATRICES),
    "complex_spectral": (up_to_signs, COMPLEX),
    "diagonals": (diagonals, MATRICES.copy()),  # of which TensorFlow must know the shape
    "complex_parts": (lambda x: flat(tf.math.real(x), tf.math.imag(x), tf.abs(x), tf.math.angle(x), tf.math.real(
        tf.transpose(tf.complex(tf.math.imag(x), tf.math.real(x)), [2, 0, 1], conjugate=True) * tf.math.conj(x[0, 0, 0]))),
                      COMPLEX),
    "special": (special, np.abs(some(3, 5)) * 7 + 0.1),
    "padded": (lambda x: padded(x, tf.shape(x)[0]), ROWS),
}


def write(folder, name, path, model_inputs, want):
    os.makedirs(f"{folder}/{name}")
    with open(f"{folder}/{name}/path", "w", encoding="utf-8") as file:
        file.write(path)
    np.savez(f"{folder}/{name}/inputs.npz", **model_inputs)
    return name, {k: np.asarray(v) for k, v in want.items()}


def signature_case(folder, name, path, given, shown=None):
    f = tf.saved_model.load(path).signatures["serving_default"]
    key = list(f.structured_input_signature[1])[0]
    return write(folder, name, shown or path, {key: given}, f(**{key: tf.constant(given)}))


def keras_cases(folder):
    for i, (name, model, given) in enumerate(keras_models()):
        path = f"{folder}/models/{name}/1"
        model.export(path, verbose=False)
        # A folder of versions stands for its last one.
        yield signature_case(folder, name, path, given, os.path.dirname(path) if i % 2 else path)


class WithKeras(tf.Module):
    """Keras's variables inside: what the graph restores are copies of them."""

    def __init__(self):
        super().__init__()
        self.net = keras.Sequential([L.Input((4,)), L.Dense(3, activation="relu"), L.BatchNormalization(), L.Dense(2)])
        self.net.layers[1].set_weights([some(3), some(3, seed=2), some(3, seed=3), 1 + some(3, seed=4) ** 2])
        self.scale = tf.Variable(2.0, name="scale")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
    def __call__(self, x):
        return self.net(x) * self.scale


class OfEqualNames(tf.Module):
    """Variables that only the objects tell from each other."""

    def __init__(self):
        super().__init__()
        self.online, self.target = self.net(), self.net()
        self.first, self.second = keras.Variable([1.0] * 4, name="w"), keras.Variable([2.0] * 4, name="w")
        self.unnamed = [keras.Variable(some(4, seed=i)) for i in range(3)]
        for i, weights in enumerate(self.online.weights + self.target.weights):
            weights.assign(some(*weights.shape, seed=10 + i))

    @staticmethod
    def net():
        return keras.Sequential([L.Input((4,)), L.Dense(4, name="a"), L.Dense(4, name="b")], name="net")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
    def __call__(self, x):
        return self.target(x) * self.second + self.unnamed[2] - 3 * self.unnamed[0]


def module_cases(folder):
    for name, m in (("keras_inside", WithKeras()), ("equal_names", OfEqualNames())):
        path = f"{folder}/models/{name}"
        tf.saved_model.save(m, path, signatures=m.__call__)
        yield signature_case(folder, name, path, some(3, 4))


def function_cases(folder):
    m = Functions()
    for name, given in (("product", some(3, 4)), ("choose", some(3, 4)), ("shrink", some(3, 4)), ("shapes", some(2, 3, 4)),
                        ("places", np.array([0, 255, 44], np.uint8)),
                        ("adjoint", (some(2, 3, 4) + 1j * some(2, 3, 4, seed=3)).astype(np.complex64))):
        path = f"{folder}/models/{name}"
        tf.saved_model.save(m, path, signatures=getattr(m, name).get_concrete_function())
        yield signature_case(folder, name, path, given)


def operator_cases(folder):
    for name, (f, given) in OPERATORS.items():
        shape = [None, *given.shape[1:]] if given is ROWS or given is MATRICES else given.shape
        m = tf.Module()
        m.f = tf.function(f, input_signature=[tf.TensorSpec(shape, given.dtype, "x")])
        path = f"{folder}/models/{name}"
        tf.saved_model.save(m, path, signatures=m.f)
        yield signature_case(folder, name, path, given)


def frozen_cases(folder):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    m = Functions()
    signature = [tf.TensorSpec(MATRICES.shape, tf.float32)]
    resized = tf.function(lambda x: tf.image.resize(x, (3, 5), "lanczos3", antialias=True), [tf.TensorSpec([2, 4, 4, 3])])
    for name, f, given in (("choose", m.choose, some(3, 4)), ("resized", resized, some(2, 4, 4, 3)), ("factors", tf.function(factors, signature), MATRICES),
                           ("solving", tf.function(real_solving, signature), MATRICES)):
        frozen = convert_variables_to_constants_v2(f.get_concrete_function(), lower_control_flow=False)
        tf.io.write_graph(frozen.graph, f"{folder}/models", f"{name}.pb", as_text=False)
        yield write(folder, f"frozen_{name}", f"{folder}/models/{name}.pb", {frozen.inputs[0].op.name: given},
                    {"Identity": f(tf.constant(given))})


class Words(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([3], tf.int32)])
    def __call__(self, x):  # of texts that are made of the numbers
        text = tf.strings.reduce_join(tf.strings.as_string(x), separator="-,") + ",x"
        v1 = tf.raw_ops.StringSplit(input=[text, "a,,b"], delimiter="-,", skip_empty=False)
        letters = tf.raw_ops.StringSplit(input=[text], delimiter="")
        grams = tf.raw_ops.StringNGrams(data=v1.values, data_splits=tf.constant([0, 4, 4, 5, 10]), separator="+", ngram_widths=[2, 3],
                                        left_pad="<", right_pad=">", pad_width=1, preserve_short_sequences=True)
        long = tf.raw_ops.StringNGrams(data=v1.values, data_splits=tf.constant([0, 4, 10], tf.int64), separator="", ngram_widths=[5],
                                       left_pad="", right_pad="", pad_width=0, preserve_short_sequences=True)
        return {"values": v1.values, "indices": v1.indices, "shape": v1.shape, "letters": letters.values,
                "grams": grams.ngrams, "splits": grams.ngrams_splits, "long": long.ngrams}


def old_choice(x, w):
    """Switch and Merge, one choice in another, with several results and values from outside."""
    def positive():
        inner = tf.cond(tf.reduce_max(x) > 0.5, lambda: x * 2, lambda: x - 1)
        return tf.matmul(inner, w), tf.reduce_sum(inner)

    y, total = tf.cond(tf.reduce_sum(x) > 0, positive, lambda: (tf.matmul(tf.sin(x), w), tf.constant(3.0)))
    training = tf.compat.v1.placeholder_with_default(False, [], name="training")
    y = tf.cond(training, lambda: y * 0, lambda: tf.nn.relu(y) + total)
    return tf.cond(tf.reduce_mean(x) > 10, lambda: y * 100, lambda: y)


def old_cases(folder):
    """What programs of TensorFlow 1 write: variables that are references, and choices without functions."""
    v1 = tf.compat.v1
    for name, unnamed in (("old", False), ("old_unnamed", True)):
        for sign in (1, -1):
            given = some(3, 4) * np.float32(0.1) + np.float32(0.6 * sign)
            with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
                v1.disable_control_flow_v2()
                v1.disable_resource_variables()
                x = v1.placeholder(tf.float32, [None, 4], "x")
                w = v1.get_variable("w", initializer=some(4, 3), use_resource=False)
                counted = v1.get_variable("counted", initializer=1.5, use_resource=False, trainable=False)
                y = tf.identity(old_choice(x, w) * counted, "y")
                assert {"VariableV2", "Switch", "Merge"} <= {n.op for n in graph.as_graph_def().node}
                session.run(v1.global_variables_initializer())
                path = f"{folder}/models/{name}_{sign}"
                v1.saved_model.simple_save(session, path, {"x": x}, {"y": y})
                if unnamed:
                    for file in os.listdir(f"{path}/variables"):
                        os.rename(f"{path}/variables/{file}", f"{path}/variables/{file.removeprefix('variables')}")
                yield write(folder, f"{name}_{sign}", path, {"x": given}, {"y": session.run(y, {x: given})})
                if not unnamed:
                    frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
                    tf.io.write_graph(frozen, f"{folder}/models", f"{name}_{sign}.pb", as_text=False)
                    yield write(folder, f"frozen_{name}_{sign}", f"{folder}/models/{name}_{sign}.pb", {"x": given},
                                {"y": session.run(y, {x: given})})
    v1.enable_control_flow_v2()
    v1.enable_resource_variables()


def lowered_cases(folder):
    """The same as freezing makes it of functions."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    m = Functions()
    f = tf.function(lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x @ m.w, lambda: tf.sin(x) @ m.w), [tf.TensorSpec([None, 4], tf.float32)])
    for sign in (1, -1):
        given = some(3, 4) + np.float32(0.6 * sign)
        frozen = convert_variables_to_constants_v2(f.get_concrete_function())
        assert "Merge" in {n.op for n in frozen.graph.as_graph_def().node}
        tf.io.write_graph(frozen.graph, f"{folder}/models", f"lowered_{sign}.pb", as_text=False)
        yield write(folder, f"lowered_{sign}", f"{folder}/models/lowered_{sign}.pb", {frozen.inputs[0].op.name: given},
                    {"Identity": f(tf.constant(given))})


def text_cases(folder):
    m, path = Words(), f"{folder}/models/words"
    tf.saved_model.save(m, path, signatures=m.__call__)
    yield signature_case(folder, "words", path, np.array([5, 12, -3], "int32"))


def wrong_with(folder, name, want):
    place = f"{folder}/{name}"
    if os.path.exists(f"{place}/error"):
        with open(f"{place}/error", encoding="utf-8") as file:
            return file.read()
    got = np.load(f"{place}/outputs.npz")
    if sorted(got) != sorted(want):
        return f"gives {sorted(got)}, and should give {sorted(want)}"
    for key, value in want.items():
        if value.dtype == object:  # texts
            if got[key].astype(str).tolist() != [text.decode() for text in value.tolist()]:
                return f"{key}: {got[key]} where {value} is right"
            continue
        if got[key].shape != value.shape or got[key].dtype != value.dtype:
            return f"{key}: {got[key].dtype}{got[key].shape} where {value.dtype}{value.shape} is right"
        if not np.allclose(got[key], value, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{key} is off by {np.abs(got[key] - value).max()}"
    with open(f"{place}/explain", encoding="utf-8") as file:
        if "runs op by op" in (text := file.read()) and name != "words":
            return text
    trained = np.load(f"{place}/trained.npz")
    if int(trained["weights"]) > 0 and not trained["after"] < trained["before"]:
        return f"training leads from {trained['before']} to {trained['after']}"
    return ""


def main():
    with tempfile.TemporaryDirectory() as folder:
        wanted = dict([*keras_cases(folder), *module_cases(folder), *function_cases(folder), *operator_cases(folder), *frozen_cases(folder), *lowered_cases(folder),
                       *text_cases(folder), *old_cases(folder)])
        subprocess.run([f"{BUILD}/tests/model_runner", "train", *(f"{folder}/{name}" for name in wanted)], check=False)
        faults = [(name, wrong) for name, want in wanted.items() if (wrong := wrong_with(folder, name, want))]
    print(f"{len(wanted) - len(faults)} models agree, {len(faults)} faults")
    for name, wrong in faults:
        print(name, "|", wrong[:1000])
    sys.exit(1 if faults else 0)


main()
