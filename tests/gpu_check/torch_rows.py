"""The rows of probe.cpp in torch, on its first GPU, as lines of bench.csv: torch alone, and the products' f32 without
TF32, as rill computes them."""
import statistics
import time

import torch
import torch.nn.functional as F

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
M = 1 << 20


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def product(n, dtype):
    a, b = normal(n, n, dtype=dtype), normal(n, n, dtype=dtype)
    return lambda: a @ b


def unary(f, *shape):
    x = normal(*shape)
    return lambda: f(x)


def attend(dtype):
    x = normal(4, 16, 2048, 64, dtype=dtype)
    return lambda: F.scaled_dot_product_attention(x, x, x, is_causal=True)


def convolve():
    x = normal(64, 128, 56, 56).to(memory_format=torch.channels_last)
    w = normal(128, 128, 3, 3).to(memory_format=torch.channels_last)
    return lambda: F.conv2d(x, w, padding=1)


def take_rows():
    x, at = normal(65536, 1024), torch.randperm(65536, device="cuda")
    return lambda: x[at]


def factorise():
    x = normal(512, 64, 64)
    a = x @ x.transpose(1, 2) / 64 + torch.eye(64, device="cuda")
    return lambda: torch.linalg.cholesky(a)


def train():
    net = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096), torch.nn.ReLU(),
                              torch.nn.Linear(4096, 10)).cuda()
    adam, x = torch.optim.Adam(net.parameters()), normal(1024, 4096)

    def step():
        adam.zero_grad()
        net(x).square().mean().backward()
        adam.step()
    return step


# name: bytes, operations, what makes the call
ROWS = {
    "tiny_add": (0, 0, lambda: unary(lambda x: x + x, 4, 4)),
    "add_64M": (12 * 64 * M, 64 * M, lambda: unary(lambda x: x + x * 1.0, 64 * M)),
    "exp_64M": (8 * 64 * M, 64 * M, lambda: unary(torch.exp, 64 * M)),
    "traced_chain_64M": (8 * 64 * M, 0, lambda: unary(lambda x: torch.tanh(x * 2 + 1) * torch.sigmoid(x), 64 * M)),
    "sum_64M": (4 * 64 * M, 64 * M, lambda: unary(torch.sum, 64 * M)),
    "sum_rows_16K": (4 * 64 * M, 64 * M, lambda: unary(lambda x: x.sum(1), 16384, 4096)),
    "sum_columns_16K": (4 * 64 * M, 64 * M, lambda: unary(lambda x: x.sum(0), 16384, 4096)),
    "softmax_16K": (8 * 64 * M, 0, lambda: unary(lambda x: torch.softmax(x, 1), 16384, 4096)),
    "softmax_1_row": (8 * 50304, 0, lambda: unary(lambda x: torch.softmax(x, 1), 1, 50304)),
    "layer_norm_16K": (8 * 64 * M, 0, lambda: unary(lambda x: F.layer_norm(x, (4096,)), 16384, 4096)),
    "cumsum_16M": (8 * 16 * M, 16 * M, lambda: unary(lambda x: x.cumsum(0), 16 * M)),
    "sort_4M": (0, 0, lambda: unary(torch.sort, 4 * M)),
    "take_rows": (8 * 64 * M, 0, take_rows),
    "matmul_f32_4096": (0, 2 * 4096**3, lambda: product(4096, torch.float32)),
    "matmul_f16_8192": (0, 2 * 8192**3, lambda: product(8192, torch.float16)),
    "matmul_bf16_8192": (0, 2 * 8192**3, lambda: product(8192, torch.bfloat16)),
    "conv_3x3": (0, 2 * 64 * 56 * 56 * 128 * 128 * 9, convolve),
    "attention_f32": (0, 2 * 4 * 16 * 2048 * 2048 * 64, lambda: attend(torch.float32)),
    "attention_bf16": (0, 2 * 4 * 16 * 2048 * 2048 * 64, lambda: attend(torch.bfloat16)),
    "fft_4M": (0, 0, lambda: unary(torch.fft.rfft, 4096, 1024)),
    "cholesky_512x64": (0, 0, factorise),
    "mlp_step": (0, 0, train),
}


def seconds_of(call, times):
    begin = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times


for name, (moved, computed, prepare) in ROWS.items():
    try:
        call = prepare()
        first = seconds_of(call, 1)
        seconds_of(call, 3)
        times = min(2000, max(1, int(0.03 / seconds_of(call, 1))))
        s = statistics.median(seconds_of(call, times) for _ in range(5))
        print(f"row,{name},torch {torch.__version__},{s:.9g},{first:.9g},{moved / s * 1e-9:.9g},{computed / s * 1e-12:.9g}", flush=True)
    except Exception as e:  # a row that torch cannot do leaves the others
        print(f"{name}: {type(e).__name__}: {e}", flush=True)
    torch.cuda.empty_cache()
