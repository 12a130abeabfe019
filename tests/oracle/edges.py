"""Cases at the edges: tensors without elements, the bounds of integers, NaN and infinities, branch cuts, far magnitudes."""

import math

import numpy as np
import torch

from elementwise import extremes
from judge import COMPLEX, FLOATS, INTS, STORED, WIDE, Operand, Ulp, at_least_one

F = torch.nn.functional


def empties(cases):
    empty = lambda *shape, dtype="f32": Operand(np.zeros(shape), dtype)
    for dtype in ["f32", "f64", "f16"]:

        def by_torch(fn, operands, options, f, out=dtype):
            cases.by_torch(fn, operands, options, f, out, Ulp(1))

        a, b, none = empty(0, 3, dtype=dtype), empty(3, 0, dtype=dtype), empty(0, dtype=dtype)
        x, v = cases.normals((3, 4), dtype), cases.normals((3,), dtype)
        for y in [a, b]:
            by_torch("softmax", [y], {}, lambda x: torch.softmax(x, -1))
            by_torch("log_softmax", [y], {}, lambda x: torch.log_softmax(x, -1))
            by_torch("transpose", [y], {"axes": []}, lambda x: x.mT)
            by_torch("reverse", [y], {"axes": []}, lambda x: x.flip(0, 1))
            by_torch("roll", [y], {"shift": 2, "axes": [0]}, lambda x: torch.roll(x, 2, 0))
            by_torch("tile", [y], {"reps": [2, 2]}, lambda x: x.tile(2, 2))
            by_torch("repeat", [y], {"times": 2, "axis": 1}, lambda x: x.repeat_interleave(2, 1))
            by_torch("pad", [y], {"widths": [[1, 1, 0], [0, 2, 0]]}, lambda x: F.pad(x, (0, 2, 1, 1)))
            by_torch("stack", [y, y], {"axis": 1}, lambda x, y: torch.stack([x, y], 1))
            by_torch("tril", [y], {}, torch.tril)
            by_torch("cumsum", [y], {"axis": 1}, lambda x: x.cumsum(1))
            by_torch("cumprod", [y], {"axis": 0}, lambda x: x.cumprod(0))
            by_torch("flatten", [y], {}, lambda x: x.flatten())
            by_torch("logsumexp", [y], {"axis": 0}, lambda x: torch.logsumexp(x, 0))
            by_torch("mean", [y], {}, torch.mean)
            by_torch("norm", [y], {"axis": 1}, lambda x: torch.linalg.vector_norm(x, 2, 1))
            by_torch("mean_squared_error", [y, y], {}, F.mse_loss)
            by_torch("outer", [y, v], {}, lambda x, y: torch.outer(x.reshape(-1), y))
            cases.add("var", [y], {}, np.array(math.nan), dtype)
            cases.add("nansum", [y], {"axis": 0}, np.zeros(y.shape[1]), dtype)
            cases.add("any", [y], {"axis": 1}, np.zeros(y.shape[0]), "bool")
            cases.add("all", [y], {"axis": 1}, np.ones(y.shape[0]), "bool")
            cases.add("nonzero", [y], {}, [np.zeros(0), np.zeros(0)], "i64")
            cases.add("argwhere", [y], {}, np.zeros((0, 2)), "i64")
            cases.add(
                "unique",
                [y],
                {},
                [np.zeros(0), np.zeros(0), np.zeros(y.shape), np.zeros(0)],
                [dtype, "i64", "i64", "i64"],
            )
            cases.add("sort", [y], {}, np.zeros(y.shape), dtype)
        by_torch("softmax_cross_entropy", [a, a], {}, lambda x, p: -(p * torch.log_softmax(x, -1)).sum(-1))
        cases.add("sparse_softmax_cross_entropy", [a, Operand(np.zeros(0), "i64")], {}, np.zeros(0), dtype)
        for layers in [(0, 4), (0, 2, 4)]:
            by_torch("layer_norm", [empty(*layers, dtype=dtype)], {}, lambda x: F.layer_norm(x, (4,)))
        cases.add("layer_norm", [empty(3, 0, dtype=dtype)], {}, np.zeros((3, 0)), dtype)
        w = cases.normals((3, 3, 2, 4), dtype)
        conv = lambda x, w: F.conv2d(x.movedim(-1, 1), w.movedim(-1, 0).movedim(-1, 1)).movedim(1, -1)
        by_torch("conv", [empty(0, 5, 6, 2, dtype=dtype), w], {}, conv)
        cases.add("max_pool", [empty(0, 4, 4, 2, dtype=dtype)], {"window": [2]}, np.zeros((0, 2, 2, 2)), dtype)
        cases.add("avg_pool", [empty(2, 4, 4, 0, dtype=dtype)], {"window": [2]}, np.zeros((2, 2, 2, 0)), dtype)
        q = cases.normals((2, 3, 4), dtype)
        cases.add("attention", [empty(2, 0, 4, dtype=dtype), q, q], {}, np.zeros((2, 0, 4)), dtype)
        cases.add(
            "attention", [q, empty(2, 0, 4, dtype=dtype), empty(2, 0, 5, dtype=dtype)], {}, np.zeros((2, 3, 5)), dtype
        )
        ids = Operand(np.zeros(0), "i64")
        by_torch("take", [x, ids], {"axis": 1}, lambda x, i: x[:, i.long()])
        cases.add("scatter", [x, empty(0, 4, dtype=dtype), ids], {"axes": [0], "mode": "add"}, x.wide, dtype)
        cases.add("segment_sum", [empty(0, 3, dtype=dtype), ids], {"segments": 2}, np.zeros((2, 3)), dtype)
        cases.add("one_hot", [ids], {"depth": 3, "dtype": dtype}, np.zeros((0, 3)), dtype)
        cases.add("searchsorted", [none, v], {}, np.zeros(3), "i64")
        cases.add("topk", [x], {"k": 0}, [np.zeros((3, 0)), np.zeros((3, 0))], [dtype, "i64"])
        cases.add("diff", [x], {"n": 5, "axis": 0}, np.zeros((0, 4)), dtype)
        cases.add("cross", [empty(0, 3, dtype=dtype), v], {}, np.zeros((0, 3)), dtype)
        if dtype != "f16":
            cases.add("median", [none], {}, np.array(math.nan), dtype)
        cases.add("split_at", [a], {"places": [0, 0]}, [np.zeros((0, 3))] * 3, dtype)
        cases.add("index", [a], {"index": [[None, None, -1], 1]}, np.zeros(0), dtype)
        cases.add("embedding_lookup", [x, ids], {}, np.zeros((0, 4)), dtype)


def bounds(cases):
    def wrapped(values, dtype):
        bits, values = int(dtype[1:]), np.array(values, object)
        flat = np.array([int(v) & (2**bits - 1) for v in values.ravel()], np.uint64)
        return flat.reshape(values.shape).astype(f"u{bits // 8}").view(STORED[dtype])

    for dtype in INTS:
        e = extremes(dtype)
        x, m = Operand(e, dtype), Operand(np.tile(e, (7, 1)), dtype)
        wide = "u64" if dtype[0] == "u" else "i64"
        exact = [int(v) for v in e]
        totals, products = [], []
        for v in exact:
            totals.append((totals[-1] if totals else 0) + v)
            products.append((products[-1] if products else 1) * (v or 1))
        nonzero = Operand(np.where(e == 0, 1, e).astype(e.dtype), dtype)
        cases.add("cumsum", [x], {}, wrapped(totals, wide), wide)
        cases.add("sum", [x], {}, wrapped(np.array(totals[-1], object), wide), wide)
        cases.add("cumprod", [nonzero], {}, wrapped(products, wide), wide)
        cases.add("prod", [nonzero], {}, wrapped(np.array(products[-1], object), wide), wide)
        cases.add("matmul", [m, m], {}, wrapped([[sum(exact) * v for v in exact]] * 7, dtype), dtype)
        for fn, f in [("max", np.max), ("min", np.min)]:
            cases.add(fn, [x], {}, f(e), dtype)
        order = cases.rng.permutation(7)
        y = Operand(e[order], dtype)
        for descending in [False, True]:
            o = {"descending": True} if descending else {}
            cases.add("sort", [y], o, np.sort(e)[::-1] if descending else np.sort(e), dtype)
            at = np.argsort(e[order])
            if len(set(exact)) == 7:  # else the order of equal ones matters
                cases.add("argsort", [y], o, at[::-1] if descending else at, "i64")
            if len(set(exact)) == 7:
                largest_first = at[::-1] if descending else at
                cases.add(
                    "topk",
                    [y],
                    {"k": 3, "largest": descending},
                    [e[order][largest_first[:3]], largest_first[:3]],
                    [dtype, "i64"],
                )
        cases.add("cummax", [y], {}, np.maximum.accumulate(e[order]), dtype)
        cases.add("argmax", [y], {}, np.argmax(e[order]), "i64")
        cases.add("clip", [y, Operand(e[1], dtype), Operand(e[-2], dtype)], {}, np.clip(e[order], e[1], e[-2]), dtype)
        at = [-3, -2, -1, 0, 1, 2, 3, 5, 63, 64] if dtype[0] == "i" else [0, 1, 2, 3, 5, 63, 64]
        powers = [[0 if p < 0 and abs(b) != 1 else b ** abs(p) for p in at] for b in exact]
        base, exponent = Operand(e[:, None], dtype), Operand(np.array(at)[None], dtype)
        cases.add("power", [base, exponent], {}, wrapped(np.array(powers, object), dtype), dtype)
        bits = int(dtype[1:])
        by = Operand(np.array([0, 1, bits - 1, bits, bits + 1])[None], dtype)
        shifts = np.minimum(by.stored.astype(np.int64), bits)
        cases.add(
            "left_shift", [base, by], {}, wrapped([[v << int(s) for s in shifts[0]] for v in exact], dtype), dtype
        )
        cases.add(
            "right_shift",
            [base, by],
            {},
            np.array([[v >> int(s) for s in shifts[0]] for v in exact], object).astype(STORED[dtype]),
            dtype,
        )
        for to in INTS:
            cases.add("astype", [x], {"dtype": to}, wrapped(exact, to), to)
        for to in FLOATS:
            if to not in ("f16",):
                cases.add("astype", [x], {"dtype": to}, e.astype(WIDE), to)


def not_finite(cases):
    inf, nan = math.inf, math.nan
    rows = np.array([[1, nan, 2, 0], [inf, 1, -inf, 2], [inf, 1, 2, 3], [-inf, -inf, 0, 1], [nan, inf, -inf, 1]])
    for dtype in FLOATS:
        x = Operand(rows, dtype, cases.layout(rows.shape), grad=False)
        w = x.wide
        for fn, f in [
            ("cummax", np.maximum.accumulate),
            ("cummin", np.minimum.accumulate),
            ("cumsum", np.cumsum),
            ("cumprod", np.cumprod),
        ]:
            cases.add(fn, [x], {"axis": 1}, f(w, axis=1), dtype, Ulp(2))
        for fn, f in [
            ("sum", np.sum),
            ("mean", np.mean),
            ("prod", np.prod),
            ("max", np.max),
            ("min", np.min),
            ("var", np.var),
            ("stddev", np.std),
            ("median", np.median),
            ("nansum", np.nansum),
            ("nanmax", np.nanmax),
            ("nanmin", np.nanmin),
            ("nanmean", np.nanmean),
            ("ptp", np.ptp),
        ]:
            cases.add(fn, [x], {"axis": 1}, f(w, axis=1), dtype, Ulp(4))
        for order in [1, 2, 3, inf, -inf, 0]:
            m = np.abs(w)
            value = (
                np.max(m, 1)
                if order == inf
                else (
                    np.min(m, 1)
                    if order == -inf
                    else np.sum(w != 0, 1) if order == 0 else np.sum(m**order, 1) ** (1 / WIDE(order))
                )
            )
            cases.add(
                "norm", [x], {"axis": 1, "ord": order if math.isfinite(order) else str(order)}, value, dtype, Ulp(8)
            )
        low, high = Operand(np.array([nan, 0.0, -inf, 1.0]), dtype, grad=False), Operand(
            np.array([1.0, nan, inf, -1.0]), dtype, grad=False
        )
        cases.add("clip", [x, low, high], {}, np.minimum(np.maximum(w, low.wide), high.wide), dtype)
        cases.by_torch("layer_norm", [x], {}, lambda x: F.layer_norm(x, (4,)), dtype, Ulp(8))
        cases.by_torch("log_softmax", [x], {}, lambda x: torch.log_softmax(x, -1), dtype, Ulp(16))
        s = Operand(np.array([-inf, -1, 0, 2, inf, nan]), dtype, grad=False)
        for right in [False, True]:
            cases.add(
                "searchsorted",
                [s, x],
                {"right": right},
                np.searchsorted(s.wide, w, "right" if right else "left"),
                "i64",
            )
        for q in [0.0, 0.5, 1.0]:
            if dtype in ("f32", "f64"):
                finite = Operand(rows[[0, 2, 3]][:, [0, 1, 2]], dtype, grad=False)
                want = [
                    nan,
                    {0.0: 1, 0.5: 2, 1.0: inf}[q],
                    0 if q == 1.0 else -inf,
                ]  # at a point that needs no neighbour
                cases.add(
                    "quantile",
                    [finite, Operand(np.array(q), dtype, grad=False)],
                    {"axis": 1},
                    np.array(want),
                    dtype,
                    Ulp(2),
                )
        # Far magnitudes: squares that leave the range, sums that lose small terms, differences of near numbers.
        if dtype in ("f32", "f64"):
            far = {"f32": 1e30, "f64": 1e300}[dtype]
            y = Operand(np.array([[far, far], [1 / far, 1 / far], [far, 1]]), dtype, grad=False)
            cases.add(
                "hypot",
                [Operand(y.wide[:, 0], dtype, grad=False), Operand(y.wide[:, 1], dtype, grad=False)],
                {},
                np.hypot(y.wide[:, 0], y.wide[:, 1]),
                dtype,
                Ulp(3),
            )
            cases.add(
                "logsumexp",
                [y],
                {"axis": 1},
                np.log(np.exp(y.wide - y.wide.max(1, keepdims=True)).sum(1)) + y.wide.max(1),
                dtype,
                Ulp(3),
            )
            cases.add("mean", [y], {"axis": 1}, np.mean(y.wide, 1), dtype, Ulp(2))
            near = Operand(10000 + cases.rng.uniform(0, 1, (6, 50)), dtype)
            cases.add(
                "var",
                [near],
                {"axis": 1},
                np.var(near.wide, 1),
                dtype,
                Ulp(256),
                lambda x: x.var(1, correction=0),
                at_least_one(4096),
            )


def branch_cuts(cases):
    parts = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-20, -1e-20, 30.0])
    grid = np.array([complex(a, b) for a in parts for b in parts])
    for dtype in COMPLEX:
        x = Operand(grid, dtype)
        w = x.wide
        for fn, f in [
            ("exp", np.exp),
            ("log", np.log),
            ("sqrt", np.sqrt),
            ("sin", np.sin),
            ("cos", np.cos),
            ("tan", np.tan),
            ("asin", np.arcsin),
            ("acos", np.arccos),
            ("atan", np.arctan),
            ("sinh", np.sinh),
            ("cosh", np.cosh),
            ("tanh", np.tanh),
            ("asinh", np.arcsinh),
            ("acosh", np.arccosh),
            ("atanh", np.arctanh),
        ]:
            pole = np.isfinite(f(w.astype(np.complex128)))
            y = Operand(grid[pole], dtype)
            cases.add(fn, [y], {}, f(y.wide), dtype, Ulp(8, 1, 1e-30))
        cases.add("abs", [x], {}, np.abs(w), "f32" if dtype == "c64" else "f64", Ulp(2))
        cases.add("angle", [x], {}, np.angle(w), "f32" if dtype == "c64" else "f64", Ulp(4))
        far = Operand(np.array([1e30 + 1e30j, 1e-30 + 1e-30j, 3e30 - 1j]), dtype)
        cases.add("abs", [far], {}, np.abs(far.wide), "f32" if dtype == "c64" else "f64", Ulp(2))
        y = Operand(np.roll(grid, 5), dtype)
        some = (w != 0) & (y.wide != 0)
        a, b = Operand(grid[some], dtype), Operand(np.roll(grid, 5)[some], dtype)
        cases.add("divide", [a, b], {}, a.wide / b.wide, dtype, Ulp(4, 1, 1e-30))
        cases.add("multiply", [x, y], {}, w * y.wide, dtype, Ulp(3, 1, 1e-30))
        cases.add("reciprocal", [a], {}, 1 / a.wide, dtype, Ulp(4, 1, 1e-30))


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [empties, bounds, not_finite, branch_cuts]:
            family(cases)
