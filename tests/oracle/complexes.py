"""Cases of functions of functions on complex numbers, of holomorphic functions: Jacobians are f', by torch.func.jvp along
each number and by JAX with holomorphic=True; cotangents and gradients of real losses are torch's, with its conjugates.
"""

import numpy as np
import torch

import opinions
from judge import Operand, Ulp, at_least_one, largest
from transforms import Function, agree, numpy_of

UNARY = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "negative": torch.neg,
    "rsqrt": torch.rsqrt,
}
OTHERS = [
    ("add", {}, [(2, 3), (3,)], torch.add),
    ("subtract", {}, [(3,), (2, 1)], torch.sub),
    ("multiply", {}, [(2, 3), (3,)], torch.mul),
    ("divide", {}, [(3,), (2, 1)], torch.div),
    ("matmul", {}, [(2, 3), (3, 2)], torch.matmul),
    ("einsum", {"equation": "ij,kj->ik"}, [(2, 3), (2, 3)], lambda a, b: torch.einsum("ij,kj->ik", a, b)),
    ("outer", {}, [(2,), (3,)], torch.outer),
    ("sum", {"axis": 1}, [(2, 3)], lambda x: x.sum(1)),
    ("mean", {"axis": 0}, [(2, 3)], lambda x: x.mean(0)),
    ("prod", {"axis": 1}, [(2, 3)], lambda x: x.prod(1)),
    ("cumsum", {"axis": 0}, [(4,)], lambda x: x.cumsum(0)),
    ("transpose", {"axes": [1, 0]}, [(2, 3)], lambda x: x.T),
    ("reverse", {"axes": [0]}, [(4,)], lambda x: x.flip(0)),
    ("concat", {"axis": 0}, [(2,), (3,)], lambda *x: torch.cat(x)),
]


class Holomorphic(Function):
    """Of operands all of which are complex; the loss is real."""

    def __init__(self, torch_fn, operands):
        super().__init__(torch_fn, operands, [], list(range(len(operands))))
        self.kept = [0]

    def loss(self, *x):
        return sum((w.real * (y.real**2 + y.imag**2)).sum() for w, y in zip(self.weights, self(*x)))


def by_columns(f, x):
    """torch.func.jacfwd takes no complex numbers; its jvp does."""
    out = []
    for i, t in enumerate(x):
        units = torch.eye(t.numel(), dtype=t.dtype).reshape(t.numel(), *t.shape)
        along = lambda u: torch.func.jvp(
            f, tuple(x), tuple(u if k == i else torch.zeros_like(v) for k, v in enumerate(x))
        )
        columns = torch.stack([along(u)[1][0] for u in units], -1)
        out.append(columns.reshape(*columns.shape[:-1], *t.shape).numpy())
    return out


def add(cases, fn, options, operands, torch_fn):
    f = Holomorphic(torch_fn, operands)
    x = [o.torch() for o in operands]
    dtype, n = operands[0].dtype, len(operands)
    tangents = [cases.any(o.shape, dtype, layout="") for o in operands]
    (y,) = f(*x)
    weights = cases.any(tuple(y.shape), dtype, layout="")
    f.weights = [weights.torch()]
    batch = [Operand(np.stack([o.wide, o.wide * 0.875]), dtype) for o in operands]
    rows = [o.torch() for o in batch]
    axes = (0,) * n
    jacobian = by_columns(f, x)
    each = f.vmap_of_grad(rows, axes)
    found = {
        "jacobian": jacobian,
        "jvp": numpy_of(f.jvp(x, [t.torch() for t in tangents], [[torch.tensor(j) for j in jacobian]])),
        "vjp": numpy_of(f.vjp(x, f.weights)),
        "vmap": numpy_of(f.vmap(rows, axes, 0)),
        "vmap of grad": numpy_of(each),
        "grad of vmap": numpy_of(f.grad_of_vmap(rows, axes, each)),
    }
    along = [sum(np.tensordot(j, t.wide, t.wide.ndim) for j, t in zip(jacobian, tangents))]
    conjugate = [np.tensordot(weights.wide, np.conj(j), weights.wide.ndim) for j in jacobian]
    assert agree(found["jvp"], along) and agree(found["vjp"], conjugate), fn  # torch with itself
    if dtype == "c128" and not agree(jacobian, opinions.holomorphic(fn, options, x) or jacobian):
        return cases.transforms.refused.update([f"{fn}: torch and JAX differ on complex numbers"])
    near = Ulp(16, 32, lambda v: max(1, largest(v), max(largest(j) for j in jacobian)))
    put = lambda o: cases.tensor(o.stored, o.dtype, o.layout)
    cases.transforms.functions.add(fn)
    cases.cases.append(
        {
            "fn": fn,
            "in": [put(o) for o in operands],
            "opt": options,
            "out": [],
            "transforms": {
                "by": f.places,
                "kept": f.kept,
                "list": False,
                "tangents": [put(t) for t in tangents],
                "cotangents": [put(weights)],
                "batch": [put(b) for b in batch],
                "in_axes": list(axes),
                "out_axis": 0,
                "want": {
                    k: [cases.expected(v, dtype, near if k != "vmap" else at_least_one(64)) for v in values]
                    for k, values in found.items()
                },
            },
        }
    )


def add_all(cases):
    if cases.transforms is None:
        return
    for dtype in ["c64", "c128"]:
        away = lambda shape: Operand(
            cases.any(shape, dtype).wide * 0.4 + (0.3 + 0.5j), dtype
        )  # from branches and poles
        for fn, torch_fn in UNARY.items():
            add(cases, fn, {}, [away((4,))], torch_fn)
        for fn, options, shapes, torch_fn in OTHERS:
            add(cases, fn, options, [away(s) for s in shapes], torch_fn)
