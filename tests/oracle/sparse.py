"""Sparse tensors (ops/sparse.h): values by scipy.sparse, or numpy where it has none, in more digits than rill's; gradients
by torch, of the dense tensors that they stand for.

A sparse operand comes as its values and a vector of indices for each axis, and its shape as an option.
"""

import numpy as np
import scipy.sparse
import torch
from judge import EXACT, Operand, Ulp, at_least_one, is_float, largest, of_terms, promote

WHOLE = ["i8", "i32", "i64", "u8"]


class Sparse:
    """A random sparse operand: places in no order, some of them repeatedly."""

    def __init__(self, cases, shape, dtype, count=None, ordered=False):
        self.shape, self.dtype = shape, dtype
        count = count if count is not None else max(1, int(np.prod(shape)) // 3)
        self.values = cases.any((count,), dtype, layout="")
        columns = [cases.rng.integers(0, n, count) for n in shape]
        if ordered:
            flat = np.sort(cases.rng.choice(int(np.prod(shape)), count, replace=False))
            columns = np.unravel_index(flat, shape)
        self.columns = [Operand(c.astype(np.int64), "i64") for c in columns]
        self.operands = [self.values, *self.columns]

    def dense(self):
        out = np.zeros(self.shape, self.values.wide.dtype)
        np.add.at(out, tuple(c.stored for c in self.columns), self.values.wide)
        return out

    def scipy(self):
        wide = np.complex128 if self.dtype[0] == "c" else np.float64 if is_float(self.dtype) else self.values.stored.dtype
        places = tuple(c.stored for c in self.columns)
        return scipy.sparse.coo_array((self.values.wide.astype(wide), places), shape=self.shape)

    def torch(self, values, columns):
        return torch.zeros(self.shape, dtype=values.dtype).index_put(tuple(columns), values, accumulate=True)


def tolerance(dtype, terms=8):
    return Ulp(2, terms, largest) if is_float(dtype) or dtype[0] == "c" else EXACT


def products(cases):
    for dtype in ["f16", "bf16", "f32", "f64", "c64", "c128"] + WHOLE:
        for ordered in [False, True]:
            s = Sparse(cases, (5, 7), dtype, 13, ordered)
            for n in [None, 1, 3, 70]:
                d = cases.any((7,) if n is None else (7, n), dtype, layout="")
                e = cases.any((5,) if n is None else (n, 5), dtype, layout="")
                differentiable = is_float(dtype)

                def by_torch(v, i, j, d, s=s):
                    return s.torch(v, [i, j]) @ d

                def from_left(v, i, j, e, s=s):
                    return e @ s.torch(v, [i, j])

                # scipy's own product where its sums are wider than rill's; else those of the dense matrices.
                wide = dtype in ("f16", "bf16", "f32", "c64")
                y = s.scipy() @ d.wide.astype(s.scipy().dtype) if wide else s.dense() @ d.wide
                z = e.wide.astype(s.scipy().dtype) @ s.scipy() if wide else e.wide @ s.dense()
                options, more = {"shape": [5, 7]}, {"grad_tolerance": of_terms(64)}
                cases.add("sparse matmul", [*s.operands, d], options, y, dtype, tolerance(dtype),
                          by_torch if differentiable else None, **more)  # fmt: skip
                cases.add("matmul sparse", [*s.operands, e], options, z, dtype, tolerance(dtype),
                          from_left if differentiable else None, **more)  # fmt: skip
    for dtype in ["f32", "f64", "i32"]:
        a, b = Sparse(cases, (4, 6), dtype), Sparse(cases, (6, 5), dtype)
        both = [*a.operands, *b.operands]

        def of_both(v, i, j, w, k, l, a=a, b=b):
            return a.torch(v, [i, j]) @ b.torch(w, [k, l])

        cases.add("sparse matmul sparse", both, {"shape": [4, 6], "other": [6, 5]}, a.dense() @ b.dense(), dtype,
                  tolerance(dtype, 16), of_both if is_float(dtype) else None)  # fmt: skip
        x, y = cases.any((4, 3), dtype), cases.any((5, 3), dtype)
        rows, columns = (Operand(cases.rng.integers(0, n, 9), "i64") for n in (4, 5))
        cases.add("sampled_matmul", [x, y, rows, columns], {}, (x.wide @ y.wide.T)[rows.stored, columns.stored], dtype,
                  tolerance(dtype), (lambda x, y, r, c: (x @ y.T)[r, c]) if is_float(dtype) else None)  # fmt: skip


def elementwise(cases):
    for dtype in ["f32", "f64", "i32"]:
        for shape in [(6,), (4, 5), (3, 4, 2)]:
            a, b = Sparse(cases, shape, dtype), Sparse(cases, shape, dtype)
            both, options = [*a.operands, *b.operands], {"shape": list(shape)}
            n = 1 + len(shape)

            def of_both(f, a=a, b=b, n=n):
                return lambda *x: f(a.torch(x[0], x[1:n]), b.torch(x[n], x[n + 1 :]))

            for name, f in [("add", lambda x, y: x + y), ("subtract", lambda x, y: x - y), ("multiply", lambda x, y: x * y)]:
                y = f(a.dense(), b.dense())
                cases.add("sparse " + name + " sparse", both, options, y, dtype, tolerance(dtype),
                          of_both(f) if is_float(dtype) else None)  # fmt: skip
            other = cases.choice(["f32", "f64", "i32"])
            other = dtype if shape == (6,) else other  # transforms are of one dtype
            for of in [shape, shape[-1:], (), (1,) * len(shape)]:
                d = cases.any(of, other)
                result = promote(dtype, other)
                for name, f in [("add", lambda x, y: x + y), ("multiply", lambda x, y: x * y)]:
                    if name == "add" and of != shape:
                        continue

                    def by_torch(*x, f=f, a=a):
                        return f(a.torch(x[0], x[1:-1]), x[-1])

                    cases.add("sparse " + name, [*a.operands, d], options, f(a.dense(), d.wide), result, tolerance(result),
                              by_torch if is_float(dtype) and is_float(other) else None)  # fmt: skip


def shapes(cases):
    for dtype in ["f32", "f64", "i32", "c64"]:
        for shape in [(5,), (4, 6), (3, 4, 2)]:
            s = Sparse(cases, shape, dtype)
            options = {"shape": list(shape)}
            n = len(shape)
            made = [
                ("dense", {}, lambda x: x),
                ("transpose", {}, lambda x: x.permute(*range(x.ndim)[::-1]) if torch.is_tensor(x) else x.T),
                ("transpose", {"axis": [*range(1, n), 0]}, lambda x: x.permute(*range(1, n), 0) if torch.is_tensor(x) else x.transpose(*range(1, n), 0)),
                ("reshape", {"to": [-1, shape[-1]]}, lambda x: x.reshape(-1, shape[-1])),
                ("slice", {"start": 1, "stop": 3, "step": 1}, lambda x: x[1:3]),
                ("slice", {"start": 0, "stop": 100, "step": 2}, lambda x: x[0:100:2]),
                ("coalesce", {}, lambda x: x),
                ("concat", {"axis": 0}, lambda x: torch.cat([x, x], 0) if torch.is_tensor(x) else np.concatenate([x, x], 0)),
                ("concat", {"axis": -1}, lambda x: torch.cat([x, x], -1) if torch.is_tensor(x) else np.concatenate([x, x], -1)),
            ] + [("sum", {} if axis is None else {"axis": axis}, lambda x, axis=axis: x.sum() if axis is None else x.sum(axis)) for axis in [None, 0, -1]]  # fmt: skip
            for name, more, f in made:

                def by_torch(*x, f=f, s=s):
                    return f(s.torch(x[0], x[1:]))

                y = f(s.dense())
                result = ("i64" if dtype == "i32" else dtype) if name == "sum" else dtype
                within = at_least_one(16) if name == "sum" and is_float(dtype) else tolerance(dtype)  # terms cancel
                cases.add("sparse " + name, s.operands, options | more, y, result, within,
                          by_torch if is_float(dtype) else None)  # fmt: skip


def add_all(cases):
    products(cases)
    elementwise(cases)
    shapes(cases)
