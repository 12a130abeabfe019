"""numpy's, torch's or JAX's side of the rows EAGER of rows.py: peer_arrays.py numpy|torch|jax [ROW...]. Start at ROWS."""

import sys

import common

library = sys.argv.pop(1)

import numpy as np  # noqa: E402

rng = np.random.default_rng(0)
MILLION, MANY = 1 << 20, 1 << 24


def normal(*shape, dtype="f4"):
    return rng.standard_normal(shape, dtype="f8" if dtype == "f8" else "f4")


def integers(below, *shape, dtype="i8"):
    return rng.integers(below, size=shape, dtype=dtype)


def complex_normal(*shape):
    return (normal(*shape) + 1j * normal(*shape)).astype("c8")


def finish(result):
    pass


if library == "torch":
    import torch

    torch.set_num_threads(common.THREADS)
elif library == "jax":
    import os

    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    finish = jax.block_until_ready


def scatter_add(y, i, v):
    y = y.copy()
    np.add.at(y, i, v)
    return y


def jax_scatter_add(y, i, v):
    return y.at[i].add(v)


def torch_conv(x, w):  # NHWC in memory, as in the others
    x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
    return torch.nn.functional.conv2d(x, w, padding="same")


def jax_conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


# Row: operands, and each library's computation on them; None if it has no such function. JAX's is compiled if its
# result has a size that the shapes determine.
ROWS = {
    "add_16M": (lambda: [normal(MANY), normal(MANY)], *3 * [lambda a, b: a + b]),
    "expression_16M": (lambda: [normal(MANY) for _ in range(4)], *3 * [lambda a, b, c, d: a * b + c - d]),
    "broadcast_row": (lambda: [normal(4096, 4096), normal(4096)], *3 * [lambda a, b: a + b]),
    "broadcast_column": (lambda: [normal(4096, 4096), normal(4096, 1)], *3 * [lambda a, b: a + b]),
    "where_mask": (
        lambda: [normal(MANY) > 0, normal(MANY), normal(MANY)],
        np.where, lambda *x: torch.where(*x), lambda *x: jnp.where(*x),
    ),
    "sum_16M": (lambda: [normal(MANY)], *3 * [lambda a: a.sum()]),
    "sum_axis0": (lambda: [normal(4096, 4096)], *3 * [lambda a: a.sum(0)]),
    "argmax_16M": (lambda: [normal(MANY)], *3 * [lambda a: a.argmax()]),
    "var_axis": (lambda: [normal(4096, 4096)], lambda a: a.var(1), lambda a: a.var(1, correction=0), lambda a: a.var(1)),
    "cumsum_16M": (lambda: [normal(MANY)], *3 * [lambda a: a.cumsum(0)]),
    "sort_1M": (lambda: [normal(MILLION)], np.sort, lambda a: a.sort(), lambda a: jnp.sort(a)),
    "argsort_1M": (lambda: [normal(MILLION)], np.argsort, lambda a: a.argsort(), lambda a: jnp.argsort(a)),
    "topk": (
        lambda: [normal(MILLION)],
        lambda a: a[np.argpartition(a, -100)[-100:]], lambda a: a.topk(100), lambda a: jax.lax.top_k(a, 100),
    ),
    "unique_1M": (lambda: [integers(100_000, MILLION)], np.unique, lambda a: a.unique(), None),
    "gather_1M": (lambda: [normal(MANY), integers(MANY, MILLION)], *3 * [lambda a, i: a[i]]),
    "scatter_add_1M": (
        lambda: [np.zeros(MILLION, "f4"), integers(MILLION, MILLION), normal(MILLION)],
        scatter_add, lambda y, i, v: y.index_add(0, i, v), jax_scatter_add,
    ),
    "transpose_4096": (
        lambda: [normal(4096, 4096)],
        lambda a: np.ascontiguousarray(a.T), lambda a: a.T.contiguous(), lambda a: a.T.copy(),
    ),
    "permute_4d": (
        lambda: [normal(32, 64, 64, 64)],
        lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)), lambda a: a.permute(0, 2, 3, 1).contiguous(),
        lambda a: a.transpose(0, 2, 3, 1).copy(),
    ),
    "concat_16M": (
        lambda: [normal(4096, 2048), normal(4096, 2048)],
        lambda a, b: np.concatenate([a, b], 1), lambda a, b: torch.cat([a, b], 1), lambda a, b: jnp.concatenate([a, b], 1),
    ),
    "boolean_mask_1M": (
        lambda: [normal(MILLION), normal(MILLION) > 0], lambda a, m: a[m], lambda a, m: a[m], None,
    ),
    "exp_16M": (lambda: [normal(MANY)], np.exp, lambda a: a.exp(), lambda a: jnp.exp(a)),
    "exp_16M_f64": (lambda: [normal(MANY, dtype="f8")], np.exp, lambda a: a.exp(), lambda a: jnp.exp(a)),
    "exp_16M_bf16": (lambda: [normal(MANY)], None, lambda a: a.exp(), lambda a: jnp.exp(a), "bf16"),
    "cast_bf16": (lambda: [normal(MANY)], None, lambda a: a.bfloat16(), lambda a: a.astype("bfloat16")),
    "complex_multiply": (lambda: [complex_normal(1 << 22), complex_normal(1 << 22)], *3 * [lambda a, b: a * b]),
    "complex_matmul": (lambda: [complex_normal(512, 512), complex_normal(512, 512)], *3 * [lambda a, b: a @ b]),
    "matmul_f64": (lambda: [normal(1024, 1024, dtype="f8"), normal(1024, 1024, dtype="f8")], *3 * [lambda a, b: a @ b]),
    "conv_f64": (lambda: [normal(8, 28, 28, 32, dtype="f8"), normal(3, 3, 32, 32, dtype="f8")], None, torch_conv, jax_conv),
    "matmul_i8": (
        lambda: [integers(100, 512, 512, dtype="i1"), integers(100, 512, 512, dtype="i1")], *3 * [lambda a, b: a @ b],
    ),
    "einsum_attention": (
        lambda: [normal(8, 128, 8, 64), normal(8, 128, 8, 64)],
        lambda a, b: np.einsum("bqhd,bkhd->bhqk", a, b, optimize=True),
        lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b), lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b),
    ),
    "normal_16M": (
        lambda: [], lambda: rng.standard_normal(MANY, dtype="f4"), lambda: torch.randn(MANY),
        lambda: jax.random.normal(jax.random.key(0), (MANY,)),
    ),
    "random_permutation": (
        lambda: [], lambda: rng.permutation(MILLION), lambda: torch.randperm(MILLION),
        lambda: jax.random.permutation(jax.random.key(0), MILLION),
    ),
}  # fmt: skip


def prepare(operands, *calls):
    dtype = calls[3] if len(calls) > 3 else None
    call = calls[("numpy", "torch", "jax").index(library)]
    if not call:
        return {}
    values = operands()
    if library == "torch":
        values = [torch.from_numpy(v) for v in values]
        values = [v.bfloat16() for v in values] if dtype else values
    if library == "jax":
        call = jax.jit(call)
        values = [jnp.asarray(v, dtype="bfloat16" if dtype else None) for v in values]
    return {library: lambda: call(*values)}


common.serve({name: (lambda row=row: prepare(*row)) for name, row in ROWS.items()}, finish)
