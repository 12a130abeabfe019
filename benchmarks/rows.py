"""The rows of the benchmark table, as data: what is done, and what we want to reach. run.py measures them.

A goal is an absolute number (`goal`, in the row's unit), or a multiple of what the machine allows, measured in the same run
(`of_limit`), or of the best other library (`of_peer`). Where a row counts arithmetic, `flops` over the GEMM peak of the
same run is its limit.

Absolute goals were set on one machine, whose GEMM peak was 355 GFLOP/s. `there` says what was measured there beside the
goal: the row's limit, or the time of one other library. Another machine's goal is scaled by what the same thing takes there.
"""

from dataclasses import dataclass
from typing import Optional

US, MS, S, MB = 1.0, 1e3, 1e6, float(1 << 20)  # times are kept in microseconds, sizes in bytes


@dataclass(frozen=True)
class Row:
    name: str
    work: str
    goal: Optional[float] = None
    of_limit: Optional[float] = None
    of_peer: Optional[float] = None
    flops: float = 0
    there: Optional[tuple] = None  # ("limit" or a library's name, what it took where the goal was set)
    unit: str = "time"  # or "size", or "ratio"


def dense(batch, *widths):
    """Forward, weight gradients, and the input gradient of every layer but the first."""
    pairs = list(zip(widths, widths[1:]))
    return sum(2 * batch * a * b * (2 if i == 0 else 3) for i, (a, b) in enumerate(pairs))


CNN = 2 * 64 * (2 * 28 * 28 * 25 * 32 + 3 * 14 * 14 * 25 * 32 * 64) + dense(64, 3136, 1024, 10) + 2 * 64 * 3136 * 1024
TOKENS = 8 * 128
NETWORKS = {
    "resnet50": "ResNet-50 on 224x224 images",
    "mobilenet_v3": "MobileNet-v3 large on 224x224 images",
    "bert": "BERT of 4 layers, width 512, 128 tokens",
    "gpt": "GPT of 4 layers, width 256, 128 tokens",
    "lstm": "two bidirectional LSTM layers of width 128, 128 tokens",
    "keywords": "DS-CNN for spoken words, 49 frames of 10 numbers",
}
BLOCK = 3 * 2 * TOKENS * 256 * (3 * 256 + 256 + 4 * 256 + 4 * 256) + 3 * 2 * 2 * 8 * 8 * 128 * 128 * 32

ROWS = [
    Row("small_add", "eager a+b, 4x4, no tape", goal=0.06 * US, there=("libtorch", 0.39 * US)),
    Row("small_add_taped", "eager a+b, 4x4, recorded on a tape", goal=0.12 * US, there=("libtorch", 0.81 * US)),
    Row("small_matmul", "eager 4x4 @ 4x4", goal=0.25 * US, there=("libtorch", 0.51 * US)),
    Row("chain10_backward", "10 ops on 4x4 (five of tanh(y * w)), then the gradient", goal=2 * US, there=("libtorch", 43.6 * US)),
    Row("tape_100K", "an op in a chain of 100,000 recorded a+b of 4x4, with its gradient", of_peer=1.0),
    Row("tape_memory", "what a process grows by as a million a+b of 4x4 are recorded", of_peer=1.0, unit="size"),
    Row("call_hit", "traced a+b, 4x4, cache hit", goal=0.15 * US, there=("jax", 4.6 * US)),
    Row("first_call", "first call of a traced tanh(x*y+z)*0.5+x, 4096 elements, empty disk cache", goal=0.1 * MS),
    Row("chain_4K", "tanh(x*y+z)*0.5+x, 4096 elements, traced", goal=2 * US, there=("jax", 11.2 * US)),
    Row("chain_16M", "the same, 2^24 elements", of_limit=1.15),
    Row("softmax", "softmax over the last axis, 4096x1024", goal=1.2 * MS, there=("limit", 1.0 * MS)),
    Row("ln_gelu", "layer_norm with affine, then tanh-gelu, 4096x1024", goal=1.6 * MS, there=("limit", 1.0 * MS)),
    Row("sqsum0", "sum(m*m, 0), 4096x1024", goal=0.4 * MS, there=("limit", 0.33 * MS)),
    Row("matmul_64", "64x64 @ 64x64, traced", of_limit=1.03),
    Row("matmul_512", "512x512 @ 512x512, traced", of_limit=1.03),
    Row("matmul_2048", "2048x2048 @ 2048x2048, traced", of_limit=1.03),
    Row("conv3x3", "NHWC 8x56x56x64, 3x3x64, SAME, traced", of_limit=1.03),
    Row("train_tiny", "tanh MLP 8-16-4, batch 16, softmax cross entropy, SGD step, traced", goal=2.5 * US, there=("jax", 30 * US)),
    Row(
        "train_mlp",
        "relu MLP 784-512-512-10, batch 128, SGD step",
        of_limit=1.1,
        flops=dense(128, 784, 512, 512, 10),
    ),
    Row(
        "train_cnn",
        "conv5x5x32, pool, conv5x5x64, pool, 1024, 10 on 28x28, batch 64, SGD step",
        of_limit=1.05,
        flops=CNN,
    ),
    Row(
        "train_block",
        "pre-norm transformer block, batch 8, 128 tokens, width 256, 8 heads, causal, MLP x4, mean square, SGD step",
        of_limit=1.1,
        flops=BLOCK,
    ),
    Row("train_cnn_bf16", "train_cnn in bf16, its parameters f32 (torch: autocast)", of_peer=1.0),
    Row("train_block_bf16", "train_block in bf16, its parameters f32", of_peer=1.0),
    Row("train_mlp_eager", "train_mlp without `function`", of_peer=1.0, flops=dense(128, 784, 512, 512, 10)),
    Row("train_cnn_eager", "train_cnn without `function`", of_peer=1.0, flops=CNN),
    Row("train_block_eager", "train_block without `function`", of_peer=1.0, flops=BLOCK),
    Row("backward_mlp", "train_mlp's loss and gradients over the loss alone, traced", of_peer=1.0, unit="ratio"),
    Row("backward_cnn", "the same of train_cnn", of_peer=1.0, unit="ratio"),
    Row("backward_block", "the same of train_block", of_peer=1.0, unit="ratio"),
    Row("backward_mlp_eager", "backward_mlp without `function`", of_peer=1.0, unit="ratio"),
    Row("backward_cnn_eager", "backward_cnn without `function`", of_peer=1.0, unit="ratio"),
    Row("backward_block_eager", "backward_block without `function`", of_peer=1.0, unit="ratio"),
    Row("lstm_scan", "LSTM of width 128 over 128 steps of 32 rows by scan, its gradients, SGD step, traced", of_peer=1.0),
    Row("train_table", "mean square of 1,000 rows of a 1,000,000 x 64 table, sparse Adam step, traced", of_peer=1.0),
    Row("train_table_eager", "train_table without `function`", of_peer=1.0),
    Row("nbody", "forces between 2048 bodies by broadcasting, traced", of_peer=1.0),
    Row("spmm", "sparse 100,000 x 100,000 with 1,000,000 elements @ 64 columns, eager", of_peer=1.0),
    Row("spmv", "the same matrix @ a vector, eager", of_peer=1.0),
    Row("busy_tiny", "train_tiny while another program keeps one core busy", of_peer=1.0),
    Row("busy_mlp", "train_mlp while another program keeps one core busy", of_peer=1.0),
    Row("busy_lstm", "lstm_scan while another program keeps one core busy", of_peer=1.0),
    Row("cholesky_1024", "Cholesky factor of a 1024x1024 matrix", of_peer=1.0),
    Row("solve_1024", "1024 equations with 16 right sides", of_peer=1.0),
    Row("svd_512", "singular values and vectors of a 512x512 matrix", of_peer=1.0),
    Row("eigh_512", "eigenvalues and vectors of a symmetric 512x512 matrix", of_peer=1.0),
    Row("inv_3x3", "inverses of a million 3x3 matrices", of_peer=1.0),
    Row("fft_1M", "Fourier transform of 2^20 complex numbers", of_peer=1.0),
    Row("rfft_1M", "Fourier transform of 2^20 real numbers", of_peer=1.0),
    Row("fft2_2048", "Fourier transform of 2048x2048 complex numbers along both axes", of_peer=1.0),
    Row("fft_batch", "Fourier transforms of 4096 lines of 256 complex numbers", of_peer=1.0),
    Row("jacobian", "32x64 Jacobian of tanh(v W1) W2, traced", goal=8 * US, there=("jax", 19.3 * US)),
    Row("jacobian_1000", "1000x1000 Jacobian of ten layers of tanh(h W), traced", of_peer=1.0),
    Row("hessian_200", "Hessian of the loss of a network with 200 parameters, traced", of_peer=1.0),
    Row("hvp_mlp", "Hessian of train_mlp's loss times a vector, traced", of_peer=1.0),
    Row("per_example_mlp", "gradients of train_mlp's loss for each of the 128 examples by vmap of grad, traced", of_peer=1.0),
    Row("first_100_steps", "process start to the end of the hundredth step of train_block, empty disk cache", of_peer=1.0),
    Row("varying_lengths", "first pass of train_block's step over 50 lengths of 16 to 256 tokens, length open", of_peer=1.0),
    Row("compile_1K", "tracing and compiling a chain of 1,000 small ops, to its first result", of_peer=1.0),
    Row("compile_10K", "the same of 10,000 ops", of_peer=1.0),
    Row("compile_50K", "the same of 50,000 ops; too many for the peers", goal=15 * S),
    Row("tu_compile", "g++ -O2 of a 20-line program that includes the public header", goal=0.6 * S, there=("mlx", 1.7 * S)),
    Row("object_compile", "processor time of the compiler for librill's dearest object; limit: a file that includes <regex>", of_limit=8),
    Row("start", "process start to the first eager result", goal=3 * MS),
    Row("core_size", "librill.so, stripped, without what it loads (oneDNN, LLVM), librill_ops and librill_io", goal=8 * MB, unit="size"),
    Row("peak_memory", "train_cnn, resident peak of the process", goal=150 * MB, unit="size"),
    Row("peak_block", "train_block, resident peak of the process", of_peer=1.0, unit="size"),
    Row("peak_deep", "gradients of 50 layers of tanh(h W), 4096x256, eager, resident peak of the process", of_peer=1.0, unit="size"),
    Row("peak_deep_segments", "the same, recomputed in 7 segments", of_peer=1.0, unit="size"),
    Row("fit_overhead", "what train::Loop::fit adds to a bare traced step of train_tiny, a step", goal=3 * US),
    Row("fit_digits", "process start to 97 % on the thousand: conv5x5x32, pool, conv5x5x64, pool, 256, 10 by fit, empty disk cache", of_peer=1.0),
    Row("fit_small_batches", "an epoch of 4,000 digits by fit in batches of 8, shuffled: 784-64-10, Adam, accuracy", of_peer=1.0),
    Row("digits_resnet", "examples/training/digits: 18 epochs of a residual network on 4,000 digits that move about, the whole process, to 98.5 % of the thousand or more", of_peer=1.0),
    Row("demo_mnist", "examples/mnist: 5 epochs on 4,000 digits, the whole process", of_peer=1.0),
]

for name, work in NETWORKS.items():
    for suffix, batch in (("", 1), ("_batch8", 8)):
        ROWS.append(Row(f"onnx_{name}{suffix}", f"{work}, batch {batch}, imported from ONNX, constant weights", of_peer=1.0))

# Networks while other programs compete for the cores, each of which would fill one: the network, and their number.
BUSY_NETWORKS = {}
for name, network in (("busy_small_model", "keywords"), ("busy_detector", "mobilenet_v3")):
    for count in (2, 3):
        BUSY_NETWORKS[f"{name}_{count}"] = (network, count)
        ROWS.append(Row(f"{name}_{count}", f"onnx_{network} while {count} other programs compute", of_peer=1.0))

# Steps of networks made of layers, traced: steps.cpp, and peers/peer_steps.py for torch, JAX and Keras.
RESNET18 = 3 * 2 * 64 * 37_010_000  # 64 images; forward, and twice as much backward
VIT = 3 * 2 * 16 * 65 * 12 * (192 * 4 * 192 + 2 * 192 * 768 + 2 * 65 * 192)
STEPS = {
    "step_resnet18": ("ResNet-18 of 10 classes on 32x32, batch 64, Adam", RESNET18),
    "step_resnet18_bf16": ("the same in bf16, its parameters f32 (torch: autocast)", 0),
    "step_lstm": ("an LSTM of width 128 over 64 steps of 32 rows of 128, a layer on its last state, Adam", 0),
    "step_lstm_bf16": ("the same in bf16", 0),
    "step_vit": ("ViT of 12 layers, width 192, on 32x32 in patches of 4x4, batch 16, Adam", VIT),
    "step_vit_bf16": ("the same in bf16", 0),
    "adam_200": ("Adam on 200 parameters of 64 to 256 numbers, gradients given", 0),
}
ROWS += [Row(name, f"a step of {work}" if name != "adam_200" else work, **({"of_limit": 1.15} if flops else {"of_peer": 1.0}), flops=flops)
         for name, (work, flops) in STEPS.items()]
ROWS += [Row("nn_build", "process start to the end of the first step of ResNet-50, 4 images of 64x64", of_peer=1.0)]

# Input pipelines: data.cpp, and peers/peer_data.py for tf.data, torch's DataLoader with two workers and grain; for CSV
# files pandas, pyarrow and polars as well.
DATA = {
    "data_overhead": "a pass of range(2^20).map(identity).batch(1024)",
    "data_shuffle": "a pass of ten million numbers, shuffled, in batches of 1024 (torch and grain: a part of them, whose time is multiplied)",
    "data_first": "the first batch of ten million shuffled numbers, each mapped to a tensor, in batches of 128",
    "data_resume": "the same from a saved state at the millionth element",
    "data_tfrecord": "20,000 records of 784 pixels and a label: shuffled by a buffer of 4096, in batches of 128, parsed",
    "data_jpeg": "500 JPEGs of 500x375, decoded, resized to 224x224, flipped by chance, normalised, in batches of 32; limit: the decoder alone",
    "data_csv": "200,000 rows of 4 floats, 4 integers and 2 texts, in batches of 1024 (pandas, pyarrow, polars: as one table)",
}
DECODER = "decoder_of_data_jpeg"  # the limit of that row, which data.cpp measures as well
ROWS += [Row(name, work, **({"of_limit": 1.15} if name == "data_jpeg" else {"of_peer": 1.0})) for name, work in DATA.items()]

# Eager functions on large arrays: eager.cpp, and peers/peer_arrays.py for numpy, torch and JAX (which compiles).
EAGER = {
    "add_16M": "a + b, 2^24 elements",
    "expression_16M": "a * b + c - d, 2^24 elements",
    "broadcast_row": "4096x4096 plus a row",
    "broadcast_column": "4096x4096 plus a column",
    "where_mask": "where(mask, a, b), 2^24 elements",
    "sum_16M": "the sum of 2^24 elements",
    "sum_axis0": "sum over the first axis, 4096x4096",
    "argmax_16M": "argmax of 2^24 elements",
    "var_axis": "variance over the last axis, 4096x4096",
    "cumsum_16M": "cumsum of 2^24 elements",
    "sort_1M": "sort of 2^20 elements",
    "argsort_1M": "argsort of 2^20 elements",
    "topk": "the 100 largest of 2^20 elements",
    "unique_1M": "distinct values of 2^20 integers below 100,000",
    "gather_1M": "2^20 elements of 2^24 by their indices",
    "scatter_add_1M": "2^20 numbers added to a vector of 2^20 by their indices",
    "transpose_4096": "the transpose of 4096x4096, copied",
    "permute_4d": "32x64x64x64 with the second axis last, copied",
    "concat_16M": "two of 4096x2048 along the last axis",
    "boolean_mask_1M": "elements of 2^20 where a mask is set",
    "exp_16M": "exp of 2^24 elements",
    "exp_16M_f64": "the same in f64",
    "exp_16M_bf16": "the same in bf16",
    "cast_bf16": "2^24 elements of f32 to bf16",
    "complex_multiply": "a * b, 2^22 elements of c64",
    "complex_matmul": "512x512 @ 512x512 of c64",
    "matmul_f64": "1024x1024 @ 1024x1024 of f64",
    "conv_f64": "NHWC 8x28x28x32, 3x3x32, SAME, f64",
    "matmul_i8": "512x512 @ 512x512 of i8",
    "einsum_attention": 'einsum("bqhd,bkhd->bhqk"), 8 x 128 x 8 x 64',
    "normal_16M": "2^24 normal numbers",
    "random_permutation": "a permutation of 2^20",
}
ROWS += [Row(name, f"eager {work}", of_peer=1.0) for name, work in EAGER.items()]
