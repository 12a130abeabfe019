"""PyTorch's side of the benchmark: every row eagerly and, where the row is traced, through torch.compile too.

Start at ROWS. Convolutions run in channels_last, oneDNN's own layout, which is the fastest that torch offers on a CPU.
"""

import json
import os
import sys

import common

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of compilers that disturbs the timing

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint_sequential

if "--start" in sys.argv:
    torch.ones(4, 4) + torch.ones(4, 4)
    common.start_main("torch")
    sys.exit()

torch.set_num_threads(common.THREADS)
torch.manual_seed(0)


def compiled(f):
    return torch.compile(f, fullgraph=True, dynamic=False)


def both(f, *args):
    return {"torch": no_grad(lambda: f(*args)), "torch.compile": no_grad_compiled(f, args)}


def no_grad(call):
    def run():
        with torch.inference_mode():
            return call()

    return run


def no_grad_compiled(f, args):
    f = compiled(f)

    def run():
        with torch.no_grad():
            return f(*args)

    return run


def small(f):
    a, b = torch.randn(4, 4), torch.randn(4, 4)

    def run():  # one guard around a thousand calls, as in an inference program
        with torch.inference_mode():
            for _ in range(1000):
                f(a, b)

    return {"torch": (run, 1000)}


def small_add_taped():
    a, b = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    return {"torch": lambda: a + b}


def chain10_backward():
    x, w, seed = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4), torch.ones(4, 4)

    def run():
        y = x
        for _ in range(5):
            y = torch.tanh(y * w)
        return torch.autograd.grad(y, x, seed)

    return {"torch": run}


def tape_100K():
    x, w, seed, ops = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4), torch.ones(4, 4), 100_000

    def run():
        y = x
        for _ in range(ops):
            y = y + w
        return torch.autograd.grad(y, x, seed)

    return {"torch": (run, ops)}


def call_hit():
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    return {"torch.compile": no_grad_compiled(lambda a, b: a + b, (a, b))}


def chain_function(x, y, z):
    return torch.tanh(x * y + z) * 0.5 + x


def chain(n):
    return both(chain_function, torch.randn(n), torch.randn(n), torch.randn(n))


def ln_gelu():
    x, g, b = torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024)
    return both(lambda x, g, b: F.gelu(F.layer_norm(x, (1024,), g, b), approximate="tanh"), x, g, b)


def matmul(n):
    return both(torch.matmul, torch.randn(n, n), torch.randn(n, n))


def conv3x3():
    x = torch.randn(8, 64, 56, 56).to(memory_format=torch.channels_last)
    w = torch.randn(64, 64, 3, 3).to(memory_format=torch.channels_last)
    return both(lambda x, w: F.conv2d(x, w, padding=1), x, w)


def jacobian():
    v, w1, w2 = torch.randn(64), torch.randn(64, 64) / 8, torch.randn(64, 32) / 8
    return both(torch.func.jacrev(lambda v, w1, w2: torch.tanh(v @ w1) @ w2), v, w1, w2)


def jacobian_1000():
    def net(v, weights):
        for w in weights:
            v = torch.tanh(v @ w)
        return v

    return both(torch.func.jacrev(net), torch.randn(1000), [torch.randn(1000, 1000) * 0.03 for _ in range(10)])


def small_loss(p, x, y):
    h = torch.tanh(x @ p[:128].reshape(8, 16) + p[128:144])
    return (h @ p[144:192].reshape(16, 3) + p[192:195] - y).square().mean() + 1e-3 * p.square().sum()


def mlp_loss(p, x, y):
    h = torch.relu(x @ p[0] + p[1])
    return F.cross_entropy(torch.relu(h @ p[2] + p[3]) @ p[4] + p[5], y)


def mlp_parameters():
    shapes = ((784, 512), (512,), (512, 512), (512,), (512, 10), (10,))
    return [p.detach() for p in parameters(*shapes)]


def hvp_mlp():
    def product(p, v, x, y):
        return torch.func.jvp(torch.func.grad(lambda p: mlp_loss(p, x, y)), (p,), (v,))[1]

    return both(product, mlp_parameters(), mlp_parameters(), torch.randn(128, 784), torch.randint(10, (128,)))


def per_example_mlp():
    def one(p, x, y):
        return torch.func.grad(mlp_loss)(p, x[None], y[None])

    f = torch.func.vmap(one, (None, 0, 0))
    return both(f, mlp_parameters(), torch.randn(128, 784), torch.randint(10, (128,)))


def training(loss, params, lr):
    """One SGD step on `params`, with autograd and an in-place update; and the same step compiled as a whole."""

    def eager():
        value = loss(params)
        with torch.no_grad():
            for p, g in zip(params, torch.autograd.grad(value, params)):
                p.sub_(g, alpha=lr)
        return value

    own = [p.detach().clone() for p in params]

    @compiled
    def whole(ps):
        grads, value = torch.func.grad_and_value(loss)(ps)
        for p, g in zip(ps, grads):
            p.sub_(g, alpha=lr)
        return value

    def run():
        with torch.no_grad():
            return whole(own)

    return {"torch": eager, "torch.compile": run}


def parameters(*shapes):
    result = []
    for shape in shapes:
        fan_in = shape[0] if len(shape) == 2 else 25 * shape[1] if len(shape) == 4 else 0
        data = torch.randn(shape) * fan_in**-0.5 if fan_in else torch.zeros(shape)
        result.append(data.requires_grad_())
    return result


def train_tiny():
    x, y = torch.randn(16, 8), torch.randint(4, (16,))

    def loss(p):
        return F.cross_entropy(torch.tanh(x @ p[0] + p[1]) @ p[2] + p[3], y)

    return training(loss, parameters((8, 16), (16,), (16, 4), (4,)), 0.1)


def mlp():
    """The loss of train_mlp as a function of its parameters, and these."""
    x, y = torch.randn(128, 784), torch.randint(10, (128,))

    def loss(p):
        h = torch.relu(x @ p[0] + p[1])
        return F.cross_entropy(torch.relu(h @ p[2] + p[3]) @ p[4] + p[5], y)

    return loss, parameters((784, 512), (512,), (512, 512), (512,), (512, 10), (10,))


def train_mlp():
    return training(*mlp(), 0.01)


def cnn():
    x, y = torch.randn(64, 1, 28, 28).to(memory_format=torch.channels_last), torch.randint(10, (64,))

    def loss(p):
        h = F.max_pool2d(torch.relu(F.conv2d(x, p[0], p[1], padding=2)), 2)
        h = F.max_pool2d(torch.relu(F.conv2d(h, p[2], p[3], padding=2)), 2)
        h = torch.relu(h.flatten(1) @ p[4] + p[5])
        return F.cross_entropy(h @ p[6] + p[7], y)

    params = parameters((32, 1, 5, 5), (32,), (64, 32, 5, 5), (64,), (3136, 1024), (1024,), (1024, 10), (10,))
    for i in (0, 2):
        params[i].data = params[i].data.to(memory_format=torch.channels_last)
    return loss, params


def train_cnn():
    return training(*cnn(), 0.01)


def block_loss(p, x):
    batch, tokens, _ = x.shape
    h = F.layer_norm(x, (256,), p[0], p[1]) @ p[2] + p[3]
    q, k, v = (t.reshape(batch, tokens, 8, 32).transpose(1, 2) for t in h.split(256, -1))
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, tokens, 256)
    h = x + a @ p[4] + p[5]
    m = F.gelu(F.layer_norm(h, (256,), p[6], p[7]) @ p[8] + p[9], approximate="tanh")
    return (h + m @ p[10] + p[11]).square().mean()


def block_parameters():
    params = parameters(
        (256,), (256,), (256, 768), (768,), (256, 256), (256,), (256,), (256,), (256, 1024), (1024,), (1024, 256), (256,)
    )
    for i in (0, 6):
        params[i].data.fill_(1)
    return params


def block():
    x = torch.randn(8, 128, 256)
    return lambda p: block_loss(p, x), block_parameters()


def train_block():
    return training(*block(), 0.01)


def narrow(model):
    """A step whose parameters stay f32 and whose products are of bf16."""
    loss, params = model()

    def under_autocast(p):
        with torch.autocast("cpu", torch.bfloat16):
            return loss(p)

    return training(under_autocast, params, 0.01)


def backward(model, whole):
    """Prints the time of a loss and its gradients over that of the loss alone; compiled where `whole`."""
    loss, params = model()

    def alone():
        with torch.no_grad():
            return value(params)

    def both():
        v = loss(params)
        return v, torch.autograd.grad(v, params)

    value = loss
    if whole:
        value, own, compiled_both = compiled(loss), [p.detach() for p in params], compiled(torch.func.grad_and_value(loss))

        def both():
            with torch.no_grad():
                return compiled_both(own)

    ratio = common.median_us(both) / common.median_us(alone)
    print(json.dumps({"row": "backward", "peer": "torch.compile" if whole else "torch", "median_us": ratio}))


def deep(segments):
    """A step of 50 layers of tanh(h W); all values are kept, or those between 7 segments."""
    x = torch.randn(4096, 256)
    params = [(torch.randn(256, 256) / 16).requires_grad_() for _ in range(50)]
    layers = torch.nn.Sequential(*[Layer(w) for w in params])

    def step():
        h = checkpoint_sequential(layers, 7, x, use_reentrant=False) if segments else layers(x)
        return torch.autograd.grad(h.square().mean(), params)

    return step


class Layer(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def forward(self, h):
        return torch.tanh(h @ self.w)


def eagerly(row):
    return {"torch": row["torch"]}


def lstm_scan():
    """torch has no scan outside of its compiler's: its LSTM layer, which is one call of a fused kernel."""
    x, layer = torch.randn(128, 32, 128), torch.nn.LSTM(128, 128)

    def run():
        output, (h, c) = layer(x)
        value = h.square().mean()
        with torch.no_grad():
            for p, g in zip(layer.parameters(), torch.autograd.grad(value, list(layer.parameters()))):
                p.sub_(g, alpha=0.01)
        return value

    return {"torch": run}


def train_table():
    table, ids = torch.nn.Embedding(1000000, 64, sparse=True), torch.randint(1000000, (1000,))
    adam = torch.optim.SparseAdam(table.parameters())

    def run():
        adam.zero_grad()
        value = table(ids).square().mean()
        value.backward()
        adam.step()
        return value

    return {"torch": run}


def forces(x, m):
    d = x[None] - x[:, None]
    r2 = d.square().sum(-1) + 1e-3
    return (d * (m[None] * r2.rsqrt() / r2)[:, :, None]).sum(1)


def long_chain(x, w, n):
    for _ in range(n // 4):
        x = torch.tanh(x * 0.5 + w) - 0.1
    return x


def varying_lengths():
    """One step at each of 50 lengths, the length open."""
    params, xs = block_parameters(), [torch.randn(8, 16 + i * 37 % 50 * 240 // 49, 256) for i in range(50)]

    @torch.compile(dynamic=True)
    def whole(ps, x):
        grads, value = torch.func.grad_and_value(block_loss)(ps, x)
        for p, g in zip(ps, grads):
            p.sub_(g, alpha=0.01)
        return value

    def run():
        with torch.no_grad():
            for x in xs:
                whole([p.detach() for p in params], x)

    return run


def sparse_product(columns):
    n, count = 100_000, 1_000_000
    a = torch.sparse_coo_tensor(torch.randint(0, n, (2, count)), torch.randn(count), (n, n)).coalesce().to_sparse_csr()
    x = torch.randn(n) if columns is None else torch.randn(n, columns)
    return {"torch": no_grad(lambda: a @ x)}


def symmetric(n, shift):
    x = torch.randn(n, n)
    return x @ x.T / n + shift * torch.eye(n) if shift else x + x.T


def on(f, *args):
    return {"torch": no_grad(lambda: f(*args))}


ROWS = {
    "small_add": lambda: small(torch.add),
    "small_add_taped": small_add_taped,
    "small_matmul": lambda: small(torch.matmul),
    "chain10_backward": chain10_backward,
    "tape_100K": tape_100K,
    "call_hit": call_hit,
    "chain_4K": lambda: chain(4096),
    "chain_16M": lambda: chain(1 << 24),
    "softmax": lambda: both(lambda x: torch.softmax(x, -1), torch.randn(4096, 1024)),
    "ln_gelu": ln_gelu,
    "sqsum0": lambda: both(lambda m: (m * m).sum(0), torch.randn(4096, 1024)),
    "matmul_64": lambda: matmul(64),
    "matmul_512": lambda: matmul(512),
    "matmul_2048": lambda: matmul(2048),
    "conv3x3": conv3x3,
    "train_tiny": train_tiny,
    "train_mlp": train_mlp,
    "train_cnn": train_cnn,
    "train_block": train_block,
    "train_cnn_bf16": lambda: narrow(cnn),
    "train_block_bf16": lambda: narrow(block),
    "train_mlp_eager": lambda: eagerly(train_mlp()),
    "train_cnn_eager": lambda: eagerly(train_cnn()),
    "train_block_eager": lambda: eagerly(train_block()),
    "lstm_scan": lstm_scan,
    "train_table": train_table,
    "train_table_eager": train_table,
    "nbody": lambda: both(forces, torch.randn(2048, 3), torch.rand(2048)),
    "spmm": lambda: sparse_product(64),
    "spmv": lambda: sparse_product(None),
    "cholesky_1024": lambda: on(torch.linalg.cholesky, symmetric(1024, 1)),
    "solve_1024": lambda: on(torch.linalg.solve, torch.randn(1024, 1024), torch.randn(1024, 16)),
    "svd_512": lambda: on(torch.linalg.svd, torch.randn(512, 512)),
    "eigh_512": lambda: on(torch.linalg.eigh, symmetric(512, 0)),
    "inv_3x3": lambda: on(torch.linalg.inv, torch.randn(1000000, 3, 3)),
    "fft_1M": lambda: on(torch.fft.fft, torch.randn(1 << 20, dtype=torch.complex64)),
    "rfft_1M": lambda: on(torch.fft.rfft, torch.randn(1 << 20)),
    "fft2_2048": lambda: on(torch.fft.fft2, torch.randn(2048, 2048, dtype=torch.complex64)),
    "fft_batch": lambda: on(torch.fft.fft, torch.randn(4096, 256, dtype=torch.complex64)),
    "jacobian": jacobian,
    "jacobian_1000": jacobian_1000,
    "hessian_200": lambda: both(torch.func.hessian(small_loss), torch.randn(200) * 0.3, torch.randn(64, 8), torch.randn(64, 3)),
    "hvp_mlp": hvp_mlp,
    "per_example_mlp": per_example_mlp,
}

if "--first-call" in sys.argv:
    args = [torch.randn(4096) for _ in range(3)]
    common.first_call_main(lambda: compiled(chain_function)(*args), "torch.compile")
elif "--100-steps" in sys.argv:
    step = train_block()["torch"]
    for _ in range(100):
        step()
    common.start_main("torch")
elif "--lengths" in sys.argv:
    common.first_call_main(varying_lengths(), "torch.compile")
elif "--compile" in sys.argv:
    x, w, n = torch.randn(64, 64), torch.randn(64, 64) * 0.1, int(sys.argv[-1])
    common.first_call_main(lambda: compiled(lambda x: long_chain(x, w, n))(x), "torch.compile")
elif "--tape" in sys.argv:
    x, w = torch.ones(4, 4, requires_grad=True), torch.ones(4, 4)
    y, before = x + w, common.peak_bytes()
    for _ in range(1_000_000):
        y = y + w
    print(json.dumps({"row": "tape_memory", "peer": "torch", "bytes": common.peak_bytes() - before}))
elif "--backward" in sys.argv:
    model, mode = sys.argv[2:]
    backward({"mlp": mlp, "cnn": cnn, "block": block}[model], mode == "traced")
elif "--peak-memory" in sys.argv and sys.argv[-1] in ("deep", "segments"):
    common.peak_memory_main("torch", deep(sys.argv[-1] == "segments"))
elif "--peak-memory" in sys.argv and sys.argv[-1] == "block":
    common.peak_memory_main("torch", train_block()["torch"])
elif "--peak-memory" in sys.argv:
    common.peak_memory_main("torch", train_cnn()["torch"])
else:
    common.serve(ROWS)
