"""Steps of training of networks made of layers, as torch, JAX and Keras have them: peer_steps.py torch|jax|keras [ROW...].

torch eagerly, by torch.compile (the network compiled, its fused Adam), and in bf16 under torch.autocast; JAX as one jit
of functions written here, with Adam over its tree, for its packages of layers are no part of it; Keras by a model's
train_on_batch on TensorFlow, in f32. Start at ROWS.
"""

import os
import sys

library = sys.argv.pop(1)
import common

THREADS = common.THREADS


# --- torch -----------------------------------------------------------------------------------------------------------


def torch_rows():
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of compilers that disturbs the timing
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)

    def conv(cin, cout, k, stride=1):
        return nn.Conv2d(cin, cout, k, stride, k // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, cin, width, stride, expansion=1):
            super().__init__()
            out = width * expansion
            sizes = [(cin, width, 3, stride), (width, width, 3, 1)]
            if expansion > 1:
                sizes = [(cin, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
            parts = []
            for a, b, k, s in sizes:
                parts += [conv(a, b, k, s), nn.BatchNorm2d(b), nn.ReLU()]
            self.body = nn.Sequential(*parts[:-1])
            self.short = nn.Identity()
            if stride > 1 or cin != out:
                self.short = nn.Sequential(conv(cin, out, 1, stride), nn.BatchNorm2d(out))

        def forward(self, x):
            return torch.relu(self.body(x) + self.short(x))

    def resnet(blocks, expansion, classes):
        parts, cin = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for i, n in enumerate(blocks):
            for j in range(n):
                parts.append(Block(cin, 64 << i, 2 if i and j == 0 else 1, expansion))
                cin = expansion * (64 << i)
        net = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, classes))
        return net.to(memory_format=torch.channels_last)

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    class Encoder(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, t, w = x.shape
            qkv = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
            x = x + self.out(F.scaled_dot_product_attention(*qkv).transpose(1, 2).reshape(n, t, w))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 192, 4, 4)
            self.first, self.positions = nn.Parameter(torch.zeros(1, 1, 192)), nn.Parameter(torch.randn(1, 65, 192) * 0.02)
            self.blocks = nn.Sequential(*[Encoder(192, 3) for _ in range(12)])
            self.norm, self.head = nn.LayerNorm(192, eps=1e-6), nn.Linear(192, 10)

        def forward(self, x):
            h = self.patches(x).flatten(2).transpose(1, 2)
            h = torch.cat([self.first.expand(len(x), -1, -1), h], 1) + self.positions
            return self.head(self.norm(self.blocks(h))[:, 0])

    def step(net, x, half, fused):
        y, adam = torch.arange(len(x)) % 10, torch.optim.Adam(net.parameters(), fused=fused)

        def run():
            adam.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits = net(x)
            loss = F.cross_entropy(logits.float(), y)
            loss.backward()
            adam.step()
            return loss.detach()

        return run

    def both(make, x, half=False):
        compiled = make()
        compiled.compile(fullgraph=True, dynamic=False)
        return {"torch": step(make(), x, half, True), "torch.compile": step(compiled, x, half, True)}

    def resnet18(half=False):
        x = torch.randn(64, 3, 32, 32).to(memory_format=torch.channels_last)
        return both(lambda: resnet([2, 2, 2, 2], 1, 10), x, half)

    def lstm(half=False):  # one call of a fused kernel, which torch.compile leaves alone
        return {"torch": step(Reader(), torch.randn(32, 64, 128), half, True)}

    def vit(half=False):
        return both(ViT, torch.randn(16, 3, 32, 32), half)

    def adam_200():
        params = [torch.randn(64 if i % 2 else (16, 16)).requires_grad_() for i in range(200)]
        ways = {}
        for name, options in (("torch", {"fused": True}), ("torch foreach", {"foreach": True})):
            own = [p.detach().clone().requires_grad_() for p in params]
            for p in own:
                p.grad = torch.randn_like(p)
            ways[name] = torch.optim.Adam(own, **options).step
        return ways

    def first_step():
        net = resnet([3, 4, 6, 3], 4, 1000)
        step(net, torch.randn(4, 3, 64, 64).to(memory_format=torch.channels_last), False, True)()

    return {"resnet18": resnet18, "lstm": lstm, "vit": vit, "adam_200": adam_200}, first_step


# --- JAX -------------------------------------------------------------------------------------------------------------


def jax_rows():
    import jax
    import jax.numpy as jnp
    from jax import lax, nn

    key = iter(jax.random.split(jax.random.key(0), 4096))

    def normal(*shape, fan=None):
        return jax.random.normal(next(key), shape) * (fan**-0.5 if fan else 1.0)

    def adam(params, grads, state):
        m, v, t = state
        t = t + 1
        rate, fix = 1e-3 / (1 - 0.9**t), 1 / jnp.sqrt(1 - 0.999**t)
        tree = jax.tree_util.tree_map
        m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = tree(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        params = tree(lambda p, m, v: p - rate * m / (jnp.sqrt(v) * fix + 1e-8), params, m, v)
        return params, (m, v, t)

    def zeros_like(params):
        z = jax.tree_util.tree_map(jnp.zeros_like, params)
        return z, z, jnp.zeros(())

    def stepped(loss, params, *data):
        @jax.jit
        def step(params, state, *data):
            value, grads = jax.value_and_grad(loss)(params, *data)
            params, state = adam(params, grads, state)
            return value, params, state

        kept = [params, zeros_like(params)]

        def run():
            value, *kept[:] = step(*kept, *data)
            return value

        return {"jax": run}

    def cross_entropy(logits, y):
        return -jnp.take_along_axis(nn.log_softmax(logits.astype(jnp.float32)), y[:, None], 1).mean()

    def lstm(half=False):
        p = {"k": normal(128, 512, fan=128), "r": normal(128, 512, fan=128), "b": jnp.zeros(512), "h": normal(128, 10, fan=128), "c": jnp.zeros(10)}

        def loss(p, x, y):
            if half:
                p, x = jax.tree_util.tree_map(lambda t: t.astype(jnp.bfloat16), (p, x))

            def one(s, row):
                i, f, g, o = jnp.split(row + s[0] @ p["r"], 4, -1)
                c = nn.sigmoid(f) * s[1] + nn.sigmoid(i) * jnp.tanh(g)
                h = nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), None

            none = jnp.zeros((len(x), 128), x.dtype)
            (h, _), _ = lax.scan(one, (none, none), jnp.swapaxes(x @ p["k"] + p["b"], 0, 1))
            return cross_entropy(h @ p["h"] + p["c"], y)

        return stepped(loss, p, normal(32, 64, 128), jnp.arange(32) % 10)

    def norm(x, p):
        m = x.astype(jnp.float32)
        m = (m - m.mean(-1, keepdims=True)) * lax.rsqrt(m.var(-1, keepdims=True) + 1e-6)
        return m.astype(x.dtype) * p[0] + p[1]

    def dense_p(a, b):
        return (normal(a, b, fan=a), jnp.zeros(b))

    def vit(half=False):
        def block():
            ones = lambda: (jnp.ones(192), jnp.zeros(192))
            return {"n1": ones(), "n2": ones(), "qkv": dense_p(192, 576), "out": dense_p(192, 192), "up": dense_p(192, 768), "down": dense_p(768, 192)}

        p = {"patches": dense_p(48, 192), "first": jnp.zeros((1, 1, 192)), "pos": normal(1, 65, 192) * 0.02,
             "blocks": [block() for _ in range(12)], "n": (jnp.ones(192), jnp.zeros(192)), "head": dense_p(192, 10)}

        def loss(p, x, y):
            if half:
                p, x = jax.tree_util.tree_map(lambda t: t.astype(jnp.bfloat16), (p, x))
            d = lambda h, q: h @ q[0] + q[1]
            h = d(x.reshape(16, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(16, 64, 48), p["patches"])
            h = jnp.concatenate([jnp.broadcast_to(p["first"], (16, 1, 192)), h], 1) + p["pos"]
            for b in p["blocks"]:
                q, k, v = jnp.split(d(norm(h, b["n1"]), b["qkv"]).reshape(16, 65, 9, 64), 3, 2)
                h = h + d(nn.dot_product_attention(q, k, v).reshape(16, 65, 192), b["out"])
                h = h + d(nn.gelu(d(norm(h, b["n2"]), b["up"])), b["down"])
            return cross_entropy(d(norm(h, p["n"])[:, 0], p["head"]), y)

        return stepped(loss, p, normal(16, 32, 32, 3), jnp.arange(16) % 10)

    def resnet18(half=False):
        def conv_p(k, a, b):
            return normal(k, k, a, b, fan=k * k * a), jnp.ones(b), jnp.zeros(b)

        def conv(x, p, stride=1):
            k = p[0].shape[0] // 2
            h = lax.conv_general_dilated(x, p[0], (stride, stride), [(k, k)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))
            f = h.astype(jnp.float32)
            f = (f - f.mean((0, 1, 2))) * lax.rsqrt(f.var((0, 1, 2)) + 1e-5)
            return f.astype(h.dtype) * p[1] + p[2]

        p, cin, strides = {"stem": conv_p(7, 3, 64), "blocks": [], "head": dense_p(512, 10)}, 64, []
        for i in range(4):
            for j in range(2):
                stride, width = 2 if i and j == 0 else 1, 64 << i
                block = {"a": conv_p(3, cin, width), "b": conv_p(3, width, width)}
                if stride > 1:
                    block["s"] = conv_p(1, cin, width)
                p["blocks"].append(block)
                strides.append(stride)
                cin = width

        def loss(p, x, y):
            if half:
                p, x = jax.tree_util.tree_map(lambda t: t.astype(jnp.bfloat16), (p, x))
            h = nn.relu(conv(x, p["stem"], 2))
            h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
            for b, stride in zip(p["blocks"], strides):
                short = conv(h, b["s"], stride) if "s" in b else h
                h = nn.relu(conv(nn.relu(conv(h, b["a"], stride)), b["b"]) + short)
            return cross_entropy(h.mean((1, 2)) @ p["head"][0] + p["head"][1], y)

        return stepped(loss, p, normal(64, 32, 32, 3), jnp.arange(64) % 10)

    def adam_200():
        params = [normal(64) if i % 2 else normal(16, 16) for i in range(200)]
        grads, step, kept = [jnp.ones_like(p) for p in params], jax.jit(adam), [params, zeros_like(params)]

        def run():
            kept[:] = step(kept[0], grads, kept[1])
            return kept[0]

        return {"jax": run}

    return {"resnet18": resnet18, "lstm": lstm, "vit": vit, "adam_200": adam_200}, jax.block_until_ready


# --- Keras -----------------------------------------------------------------------------------------------------------


def keras_rows():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import keras
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    L = keras.layers

    def conv(x, n, k, stride=1):
        x = L.Conv2D(n, k, stride, "same", use_bias=False)(x)
        return L.BatchNormalization()(x)

    def resnet(blocks, bottleneck, classes, size):
        x = keras.Input((size, size, 3))
        h = L.MaxPooling2D(3, 2, "same")(L.ReLU()(conv(x, 64, 7, 2)))
        for i, n in enumerate(blocks):
            for j in range(n):
                stride, width = 2 if i and j == 0 else 1, 64 << i
                sizes = [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)] if bottleneck else [(width, 3, stride), (width, 3, 1)]
                y, short = h, h
                for k, (w, window, s) in enumerate(sizes):
                    y = conv(y, w, window, s)
                    y = L.ReLU()(y) if k + 1 < len(sizes) else y
                if j == 0 and (i or bottleneck):
                    short = conv(h, sizes[-1][0], 1, stride)
                h = L.ReLU()(L.Add()([y, short]))
        return keras.Model(x, L.Dense(classes)(L.GlobalAveragePooling2D()(h)))

    def step(model, *shape):
        model.compile(keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        x, y = np.random.randn(*shape).astype("float32"), np.arange(shape[0]) % 10
        return lambda: model.train_on_batch(x, y)

    def resnet18():
        return {"keras": step(resnet([2, 2, 2, 2], False, 10, 32), 64, 32, 32, 3)}

    def lstm():
        x = keras.Input((64, 128))
        return {"keras": step(keras.Model(x, L.Dense(10)(L.LSTM(128)(x))), 32, 64, 128)}

    class Tokens(L.Layer):
        """A first token ahead of the patches, and where each stands."""

        def build(self, shape):
            self.first = self.add_weight(shape=(1, 1, 192), initializer="zeros")
            self.positions = self.add_weight(shape=(1, 65, 192), initializer=keras.initializers.RandomNormal(stddev=0.02))

        def call(self, h):
            first = keras.ops.broadcast_to(self.first, (keras.ops.shape(h)[0], 1, 192))
            return keras.ops.concatenate([first, h], 1) + self.positions

    def vit():
        norm = lambda h: L.LayerNormalization(epsilon=1e-6)(h)
        x = keras.Input((32, 32, 3))
        h = Tokens()(L.Reshape((64, 192))(L.Conv2D(192, 4, 4)(x)))
        for _ in range(12):
            n = norm(h)
            h = L.Add()([h, L.MultiHeadAttention(3, 64)(n, n)])
            wide = L.Dense(768, activation=lambda t: keras.activations.gelu(t, approximate=True))(norm(h))
            h = L.Add()([h, L.Dense(192)(wide)])
        return {"keras": step(keras.Model(x, L.Dense(10)(norm(h)[:, 0])), 16, 32, 32, 3)}

    def adam_200():
        params = [keras.Variable(np.random.randn(*((64,) if i % 2 else (16, 16))).astype("float32")) for i in range(200)]
        grads = [tf.ones(p.shape) for p in params]
        adam = keras.optimizers.Adam()
        adam.build(params)
        return {"keras": tf.function(lambda: adam.apply(grads, params))}

    def first_step():
        step(resnet([3, 4, 6, 3], True, 1000, 64), 4, 64, 64, 3)()

    return {"resnet18": resnet18, "lstm": lstm, "vit": vit, "adam_200": adam_200}, first_step


# --- The rows: a network, and whether it computes in bf16 ------------------------------------------------------------

ROWS = {
    "step_resnet18": ("resnet18",),
    "step_resnet18_bf16": ("resnet18", True),
    "step_lstm": ("lstm",),
    "step_lstm_bf16": ("lstm", True),
    "step_vit": ("vit",),
    "step_vit_bf16": ("vit", True),
    "adam_200": ("adam_200",),
}
made, last = {"torch": torch_rows, "jax": jax_rows, "keras": keras_rows}[library]()
rows = {row: lambda name=name, how=how: made[name](*how) for row, (name, *how) in ROWS.items() if library != "keras" or not row.endswith("bf16")}
if library == "jax":
    common.serve(rows, last)
elif "--first-step" in sys.argv:
    last()
    common.start_main(library)
else:
    common.serve(rows)
