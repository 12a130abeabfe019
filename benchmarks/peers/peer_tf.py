"""TensorFlow's side of the benchmark: tf.function, and the same with XLA (jit_compile). Start at ROWS."""

import os
import sys

import common

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(common.THREADS)
tf.config.threading.set_inter_op_parallelism_threads(common.THREADS)

if "--start" in sys.argv:
    (tf.ones((4, 4)) + tf.ones((4, 4))).numpy()
    common.start_main("tf")
    sys.exit()

tf.random.set_seed(0)
randn = lambda *shape: tf.random.normal(shape)
labels = lambda n, classes: tf.random.uniform((n,), 0, classes, tf.int32)


def both(f, *args):
    graph, xla = tf.function(f), tf.function(f, jit_compile=True)
    return {"tf": lambda: graph(*args), "tf-xla": lambda: xla(*args)}


def eager(f):
    a, b = randn(4, 4), randn(4, 4)
    return {"tf": lambda: f(a, b)}


def small_add_taped():
    a, b = randn(4, 4), randn(4, 4)

    def run():
        with tf.GradientTape() as tape:
            tape.watch(a)
            for _ in range(100):
                a + b

    return {"tf": (run, 100)}


def chain10_backward():
    x, w = randn(4, 4), randn(4, 4)

    def run():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(5):
                y = tf.tanh(y * w)
        return tape.gradient(y, x)

    return {"tf": run}


def chain_function(x, y, z):
    return tf.tanh(x * y + z) * 0.5 + x


def layer_norm(x, g, b):
    mean, var = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(var + 1e-5) * g + b


def training(loss, shapes, lr, ones=()):
    fan_in = lambda s: s[0] if len(s) == 2 else 25 * s[2] if len(s) == 4 else 0
    init = lambda i, s: randn(*s) * fan_in(s) ** -0.5 if fan_in(s) else tf.ones(s) if i in ones else tf.zeros(s)

    def make():
        params = [tf.Variable(init(i, s)) for i, s in enumerate(shapes)]

        def step():
            with tf.GradientTape() as tape:
                value = loss(params)
            for p, g in zip(params, tape.gradient(value, params)):
                p.assign_sub(lr * g)
            return value

        return step

    return {"tf": tf.function(make()), "tf-xla": tf.function(make(), jit_compile=True)}


def cross_entropy(logits, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def train_tiny():
    x, y = randn(16, 8), labels(16, 4)
    loss = lambda p: cross_entropy(tf.tanh(x @ p[0] + p[1]) @ p[2] + p[3], y)
    return training(loss, ((8, 16), (16,), (16, 4), (4,)), 0.1)


def train_mlp():
    x, y = randn(128, 784), labels(128, 10)

    def loss(p):
        h = tf.nn.relu(x @ p[0] + p[1])
        return cross_entropy(tf.nn.relu(h @ p[2] + p[3]) @ p[4] + p[5], y)

    return training(loss, ((784, 512), (512,), (512, 512), (512,), (512, 10), (10,)), 0.01)


def train_cnn():
    x, y = randn(64, 28, 28, 1), labels(64, 10)

    def loss(p):
        h = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, p[0], 1, "SAME") + p[1]), 2, 2, "VALID")
        h = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(h, p[2], 1, "SAME") + p[3]), 2, 2, "VALID")
        h = tf.nn.relu(tf.reshape(h, (64, -1)) @ p[4] + p[5])
        return cross_entropy(h @ p[6] + p[7], y)

    shapes = ((5, 5, 1, 32), (32,), (5, 5, 32, 64), (64,), (3136, 1024), (1024,), (1024, 10), (10,))
    return training(loss, shapes, 0.01)


def train_block():
    x = randn(8, 128, 256)
    mask = tf.where(tf.linalg.band_part(tf.ones((128, 128)), -1, 0) > 0, 0.0, -1e9)

    def loss(p):
        h = layer_norm(x, p[0], p[1]) @ p[2] + p[3]
        q, k, v = (tf.transpose(tf.reshape(t, (8, 128, 8, 32)), (0, 2, 1, 3)) for t in tf.split(h, 3, -1))
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 32**-0.5 + mask)
        a = tf.reshape(tf.transpose(weights @ v, (0, 2, 1, 3)), (8, 128, 256))
        h = x + a @ p[4] + p[5]
        m = tf.nn.gelu(layer_norm(h, p[6], p[7]) @ p[8] + p[9], approximate=True)
        return tf.reduce_mean(tf.square(h + m @ p[10] + p[11]))

    shapes = ((256,), (256,), (256, 768), (768,), (256, 256), (256,), (256,), (256,), (256, 1024), (1024,), (1024, 256), (256,))
    return training(loss, shapes, 0.01, ones=(0, 6))


def jacobian():
    v, w1, w2 = randn(64), randn(64, 64) / 8, randn(64, 32) / 8

    def f(v, w1, w2):
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = tf.linalg.matvec(w2, tf.tanh(tf.linalg.matvec(w1, v, transpose_a=True)), transpose_a=True)
        return tape.jacobian(y, v)

    return both(f, v, w1, w2)


ROWS = {
    "small_add": lambda: eager(lambda a, b: a + b),
    "small_add_taped": small_add_taped,
    "small_matmul": lambda: eager(lambda a, b: a @ b),
    "chain10_backward": chain10_backward,
    "call_hit": lambda: both(lambda a, b: a + b, randn(4, 4), randn(4, 4)),
    "chain_4K": lambda: both(chain_function, randn(4096), randn(4096), randn(4096)),
    "chain_16M": lambda: both(chain_function, randn(1 << 24), randn(1 << 24), randn(1 << 24)),
    "softmax": lambda: both(tf.nn.softmax, randn(4096, 1024)),
    "ln_gelu": lambda: both(
        lambda x, g, b: tf.nn.gelu(layer_norm(x, g, b), approximate=True), randn(4096, 1024), randn(1024), randn(1024)
    ),
    "sqsum0": lambda: both(lambda m: tf.reduce_sum(m * m, 0), randn(4096, 1024)),
    "matmul_64": lambda: both(lambda a, b: a @ b, randn(64, 64), randn(64, 64)),
    "matmul_512": lambda: both(lambda a, b: a @ b, randn(512, 512), randn(512, 512)),
    "matmul_2048": lambda: both(lambda a, b: a @ b, randn(2048, 2048), randn(2048, 2048)),
    "conv3x3": lambda: both(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), randn(8, 56, 56, 64), randn(3, 3, 64, 64)),
    "train_tiny": train_tiny,
    "train_mlp": train_mlp,
    "train_cnn": train_cnn,
    "train_block": train_block,
    "jacobian": jacobian,
}

if "--first-call" in sys.argv:
    xla = "--xla" in sys.argv
    args = [randn(4096) for _ in range(3)]
    common.first_call_main(
        lambda: tf.function(chain_function, jit_compile=xla)(*args).numpy(), "tf-xla" if xla else "tf"
    )
elif "--peak-memory" in sys.argv:
    common.peak_memory_main("tf", train_cnn()["tf"])
else:
    common.serve(ROWS, lambda result: None if result is None else result.numpy())
