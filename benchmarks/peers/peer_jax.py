"""JAX's side of the benchmark: everything through jax.jit but the rows that are eager by name. Start at ROWS."""

import os
import sys

import common

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

if "--start" in sys.argv:
    (jnp.ones((4, 4)) + jnp.ones((4, 4))).block_until_ready()
    common.start_main("jax")
    sys.exit()

rng = np.random.default_rng(0)


def randn(*shape):
    return jnp.asarray(rng.standard_normal(shape, dtype=np.float32))


def labels(n, classes):
    return jnp.asarray(rng.integers(classes, size=n).astype(np.int32))


def jitted(f, *args):
    g = jax.jit(f)
    return {"jax": lambda: g(*args)}


def chain_function(x, y, z):
    return jnp.tanh(x * y + z) * 0.5 + x


def layer_norm(x, g, b):
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * g + b


def eager(f):
    a, b = randn(4, 4), randn(4, 4)
    return {"jax": lambda: f(a, b)}


def chain10_backward():
    x, w, seed = randn(4, 4), randn(4, 4), jnp.ones((4, 4))

    def chain(x):
        y = x
        for _ in range(5):
            y = jnp.tanh(y * w)
        return y

    return {"jax": lambda: jax.vjp(chain, x)[1](seed)}


def conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def cross_entropy(logits, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()


def training(loss, params, lr):
    def step(params):
        value, grads = jax.value_and_grad(loss)(params)
        return [p - lr * g for p, g in zip(params, grads)], value

    step, state = jax.jit(step, donate_argnums=0), [params]

    def run():
        state[0], value = step(state[0])
        return state[0]

    return {"jax": run}


def parameters(*shapes):
    fan_in = lambda s: s[0] if len(s) == 2 else 25 * s[2] if len(s) == 4 else 0
    return [randn(*s) * fan_in(s) ** -0.5 if fan_in(s) else jnp.zeros(s) for s in shapes]


def train_tiny():
    x, y = randn(16, 8), labels(16, 4)
    loss = lambda p: cross_entropy(jnp.tanh(x @ p[0] + p[1]) @ p[2] + p[3], y)
    return training(loss, parameters((8, 16), (16,), (16, 4), (4,)), 0.1)


def train_mlp():
    x, y = randn(128, 784), labels(128, 10)

    def loss(p):
        h = jax.nn.relu(x @ p[0] + p[1])
        return cross_entropy(jax.nn.relu(h @ p[2] + p[3]) @ p[4] + p[5], y)

    return training(loss, parameters((784, 512), (512,), (512, 512), (512,), (512, 10), (10,)), 0.01)


def train_cnn():
    x, y = randn(64, 28, 28, 1), labels(64, 10)

    def loss(p):
        h = max_pool(jax.nn.relu(conv(x, p[0]) + p[1]))
        h = max_pool(jax.nn.relu(conv(h, p[2]) + p[3]))
        h = jax.nn.relu(h.reshape(64, -1) @ p[4] + p[5])
        return cross_entropy(h @ p[6] + p[7], y)

    shapes = ((5, 5, 1, 32), (32,), (5, 5, 32, 64), (64,), (3136, 1024), (1024,), (1024, 10), (10,))
    return training(loss, parameters(*shapes), 0.01)


def block_loss(p, x):
    heads = (*x.shape[:2], 8, 32)
    h = layer_norm(x, p[0], p[1]) @ p[2] + p[3]
    q, k, v = (t.reshape(heads) for t in jnp.split(h, 3, -1))
    a = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
    h = x + a @ p[4] + p[5]
    m = jax.nn.gelu(layer_norm(h, p[6], p[7]) @ p[8] + p[9], approximate=True)
    return jnp.square(h + m @ p[10] + p[11]).mean()


def block_parameters():
    params = parameters(
        (256,), (256,), (256, 768), (768,), (256, 256), (256,), (256,), (256,), (256, 1024), (1024,), (1024, 256), (256,)
    )
    params[0], params[6] = jnp.ones(256), jnp.ones(256)
    return params


def train_block():
    x = randn(8, 128, 256)
    return training(lambda p: block_loss(p, x), block_parameters(), 0.01)


def lstm_scan():
    x = randn(128, 32, 128)

    def loss(p):
        def step(state, row):
            h, c = state
            i, f, g, o = jnp.split(row + h @ p[1], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        none = jnp.zeros((32, 128))
        (h, _), _ = jax.lax.scan(step, (none, none), x @ p[0] + p[2])
        return jnp.square(h).mean()

    return training(loss, parameters((128, 512), (128, 512), (512,)), 0.01)


def nbody():
    def forces(x, m):
        d = x[None] - x[:, None]
        r2 = jnp.square(d).sum(-1) + 1e-3
        return (d * (m[None] * jax.lax.rsqrt(r2) / r2)[:, :, None]).sum(1)

    return jitted(forces, randn(2048, 3), jnp.abs(randn(2048)))


def long_chain(x, w, n):
    for _ in range(n // 4):
        x = jnp.tanh(x * 0.5 + w) - 0.1
    return x


def varying_lengths():
    """One step of the jitted training at each of 50 lengths, each of which is traced and compiled."""
    step = jax.jit(lambda p, x: [a - 0.01 * g for a, g in zip(p, jax.grad(block_loss)(p, x))], donate_argnums=0)
    params, xs = block_parameters(), [randn(8, 16 + i * 37 % 50 * 240 // 49, 256) for i in range(50)]

    def run():
        p = params
        for x in xs:
            p = step(p, x)
        jax.block_until_ready(p)

    return run


def jacobian():
    f = lambda v, w1, w2: jnp.tanh(v @ w1) @ w2
    return jitted(jax.jacrev(f), randn(64), randn(64, 64) / 8, randn(64, 32) / 8)


def jacobian_1000():
    def net(v, weights):
        for w in weights:
            v = jnp.tanh(v @ w)
        return v

    return jitted(jax.jacrev(net), randn(1000), [randn(1000, 1000) * 0.03 for _ in range(10)])


def small_loss(p, x, y):
    h = jnp.tanh(x @ p[:128].reshape(8, 16) + p[128:144])
    return jnp.square(h @ p[144:192].reshape(16, 3) + p[192:195] - y).mean() + 1e-3 * jnp.square(p).sum()


def mlp_loss(p, x, y):
    h = jax.nn.relu(x @ p[0] + p[1])
    return cross_entropy(jax.nn.relu(h @ p[2] + p[3]) @ p[4] + p[5], y)


def mlp_parameters():
    return list(parameters((784, 512), (512,), (512, 512), (512,), (512, 10), (10,)))


def hvp_mlp():
    product = lambda p, v, x, y: jax.jvp(jax.grad(lambda p: mlp_loss(p, x, y)), (p,), (v,))[1]
    return jitted(product, mlp_parameters(), mlp_parameters(), randn(128, 784), labels(128, 10))


def per_example_mlp():
    one = lambda p, x, y: jax.grad(mlp_loss)(p, x[None], y[None])
    return jitted(jax.vmap(one, (None, 0, 0)), mlp_parameters(), randn(128, 784), labels(128, 10))


def symmetric(n, shift):
    x = randn(n, n)
    return x @ x.T / n + shift * jnp.eye(n) if shift else x + x.T


def complex_randn(*shape):
    return randn(*shape) + 1j * randn(*shape)


ROWS = {
    "small_add": lambda: eager(lambda a, b: a + b),
    "small_matmul": lambda: eager(lambda a, b: a @ b),
    "chain10_backward": chain10_backward,
    "call_hit": lambda: jitted(lambda a, b: a + b, randn(4, 4), randn(4, 4)),
    "chain_4K": lambda: jitted(chain_function, randn(4096), randn(4096), randn(4096)),
    "chain_16M": lambda: jitted(chain_function, randn(1 << 24), randn(1 << 24), randn(1 << 24)),
    "softmax": lambda: jitted(lambda x: jax.nn.softmax(x, -1), randn(4096, 1024)),
    "ln_gelu": lambda: jitted(
        lambda x, g, b: jax.nn.gelu(layer_norm(x, g, b), approximate=True), randn(4096, 1024), randn(1024), randn(1024)
    ),
    "sqsum0": lambda: jitted(lambda m: (m * m).sum(0), randn(4096, 1024)),
    "matmul_64": lambda: jitted(jnp.matmul, randn(64, 64), randn(64, 64)),
    "matmul_512": lambda: jitted(jnp.matmul, randn(512, 512), randn(512, 512)),
    "matmul_2048": lambda: jitted(jnp.matmul, randn(2048, 2048), randn(2048, 2048)),
    "conv3x3": lambda: jitted(conv, randn(8, 56, 56, 64), randn(3, 3, 64, 64)),
    "train_tiny": train_tiny,
    "train_mlp": train_mlp,
    "train_cnn": train_cnn,
    "train_block": train_block,
    "lstm_scan": lstm_scan,
    "nbody": nbody,
    "cholesky_1024": lambda: jitted(jnp.linalg.cholesky, symmetric(1024, 1)),
    "solve_1024": lambda: jitted(jnp.linalg.solve, randn(1024, 1024), randn(1024, 16)),
    "svd_512": lambda: jitted(jnp.linalg.svd, randn(512, 512)),
    "eigh_512": lambda: jitted(jnp.linalg.eigh, symmetric(512, 0)),
    "inv_3x3": lambda: jitted(jnp.linalg.inv, randn(1000000, 3, 3)),
    "fft_1M": lambda: jitted(jnp.fft.fft, complex_randn(1 << 20)),
    "rfft_1M": lambda: jitted(jnp.fft.rfft, randn(1 << 20)),
    "fft2_2048": lambda: jitted(jnp.fft.fft2, complex_randn(2048, 2048)),
    "fft_batch": lambda: jitted(jnp.fft.fft, complex_randn(4096, 256)),
    "jacobian": jacobian,
    "jacobian_1000": jacobian_1000,
    "hessian_200": lambda: jitted(jax.hessian(small_loss), randn(200) * 0.3, randn(64, 8), randn(64, 3)),
    "hvp_mlp": hvp_mlp,
    "per_example_mlp": per_example_mlp,
}

if "--first-call" in sys.argv:
    args = [randn(4096) for _ in range(3)]
    common.first_call_main(lambda: jax.jit(chain_function)(*args).block_until_ready(), "jax")
elif "--100-steps" in sys.argv:
    step = train_block()["jax"]
    for _ in range(100):
        result = step()
    jax.block_until_ready(result)
    common.start_main("jax")
elif "--lengths" in sys.argv:
    common.first_call_main(varying_lengths(), "jax")
elif "--compile" in sys.argv:
    x, w, n = randn(64, 64), randn(64, 64) * 0.1, int(sys.argv[-1])
    common.first_call_main(lambda: jax.jit(lambda x: long_chain(x, w, n))(x).block_until_ready(), "jax")
elif "--peak-memory" in sys.argv:
    step = (train_block() if sys.argv[-1] == "block" else train_cnn())["jax"]
    common.peak_memory_main("jax", lambda: jax.block_until_ready(step()))
else:
    common.serve(ROWS, jax.block_until_ready)
