"""Cases of cumulative functions, sorting and searching: values by numpy, gradients by torch."""

import math

import numpy as np
import torch

from judge import EXACT, FLOATS, INTS, WIDE, Operand, Ulp, is_float, largest
from reductions import folded


def running(cases):
    pairs = [("cumsum", np.cumsum, torch.cumsum), ("cumprod", np.cumprod, torch.cumprod)]
    for dtype in FLOATS + ["i32", "u8", "i64", "bool"]:
        for shape, axis in [
            ((7,), None),
            ((3, 5), 0),
            ((3, 5), -1),
            ((2, 3, 4), 1),
            ((3, 4), None),
            ((0, 3), 0),
            ((3, 1), 1),
            ((), None),
        ]:
            real = is_float(dtype)
            x = cases.floats(shape, dtype, 0.5, 1.5) if real else cases.ints(shape, dtype, 0, 4)
            w = x.wide if real else x.stored.astype(np.uint64 if dtype[0] == "u" else np.int64)
            w, a = (w.ravel(), 0) if axis is None else (w, axis)
            for name, f, t in pairs:
                for mode in [{}, {"reverse": True}, {"exclusive": True}, {"reverse": True, "exclusive": True}]:
                    value, tf = run(f, w, a, mode, 0 if name == "cumsum" else 1), torch_run(
                        t, axis, mode, 0.0 if name == "cumsum" else 1.0
                    )
                    cases.add(
                        name,
                        [x],
                        ({} if axis is None else {"axis": axis}) | mode,
                        value,
                        folded(dtype),
                        (
                            EXACT
                            if not real
                            else Ulp(40) if name == "cumprod" else Ulp(1, 2, np.sum(np.abs(w)) if w.size else 0)
                        ),
                        tf if real else None,
                    )
            if dtype == "bool":
                continue
            x = cases.any(shape, dtype)
            w = x.wide if real else x.stored
            w = w.ravel() if axis is None else w
            for mode in [{}, {"reverse": True}]:
                o = ({} if axis is None else {"axis": axis}) | mode
                for name, f, t in [
                    ("cummax", np.maximum.accumulate, lambda x, d: torch.cummax(x, d).values),
                    ("cummin", np.minimum.accumulate, lambda x, d: torch.cummin(x, d).values),
                ]:
                    cases.add(
                        name,
                        [x],
                        o,
                        run(f, w, a, mode, 0),
                        dtype,
                        EXACT,
                        torch_run(t, axis, mode, 0) if real and w.size else None,
                    )
                if real and w.size:
                    cases.add(
                        "cumlogsumexp",
                        [x],
                        o,
                        run(lambda v, axis: np.logaddexp.accumulate(v, axis), w, a, mode, 0),
                        dtype,
                        Ulp(4, 12, largest(w)),
                        torch_run(running_logsumexp, axis, mode, 0),
                    )
        if dtype != "bool":
            x = cases.any((4, 6), dtype)
            w = x.wide if real else x.stored
            for n, axis in [(1, -1), (2, 0), (3, 1), (0, 1)]:
                cases.add(
                    "diff",
                    [x],
                    {"n": n, "axis": axis},
                    np.diff(w, n=n, axis=axis),
                    dtype,
                    Ulp(1, 8, largest(w)) if real else EXACT,
                    (lambda x: torch.diff(x, n, axis)) if real else None,
                )


def run(f, w, axis, mode, start):
    if w.ndim == 0:
        w = w.reshape(1)
    if mode.get("reverse"):
        return np.flip(run(f, np.flip(w, axis), axis, {k: v for k, v in mode.items() if k != "reverse"}, start), axis)
    if mode.get("exclusive"):
        w = np.moveaxis(w, axis, 0)
        w = np.concatenate([np.full_like(w[:1], start), w[:-1]])
        w = np.moveaxis(w, 0, axis)
    return f(w, axis=axis)


def running_logsumexp(x, axis):
    """torch.logcumsumexp's own derivatives have lost three digits of float64."""
    top = x.max().detach()
    return torch.log(torch.cumsum(torch.exp(x - top), axis)) + top


def torch_run(f, axis, mode, start):
    def g(x):
        x, a = (x.reshape(-1), 0) if axis is None else (x, axis)
        if mode.get("reverse"):
            x = x.flip(a)
        if mode.get("exclusive"):
            first = torch.full_like(x.narrow(a, 0, min(1, x.shape[a])), start)
            x = torch.cat([first, x.narrow(a, 0, max(0, x.shape[a] - 1))], a)
        y = f(x, a)
        return y.flip(a) if mode.get("reverse") else y

    return g


def orders(cases):
    for dtype in FLOATS + INTS + ["bool"]:
        for shape, axis in [((9,), -1), ((4, 5), 0), ((4, 5), 1), ((2, 3, 4), 1), ((0,), 0), ((3, 1), 1)]:
            real = is_float(dtype)
            x = cases.normals(shape, dtype) if real else cases.ints(shape, dtype, -3, 4)
            w = x.wide if real else x.stored
            if real and w.size > 5 and cases.rng.integers(2):
                values = w.astype(np.float64).copy()
                values.flat[1] = values.flat[4] = math.nan
                values.flat[2], values.flat[3] = -math.inf, math.inf
                x = Operand(values, dtype, x.layout, grad=False)
                w = x.wide
            for descending in [False, True]:
                o = {"axis": axis} | ({"descending": True} if descending else {})
                key = w.astype(WIDE)
                key = np.where(np.isnan(key), math.inf, -key if descending else key)
                late = np.isnan(w.astype(WIDE))
                at = (
                    np.lexsort((np.broadcast_to(key, w.shape), late), axis=axis)
                    if w.size
                    else np.zeros(shape, np.int64)
                )
                cases.add("argsort", [x], o, at, "i64")
                cases.add(
                    "sort",
                    [x],
                    o,
                    np.take_along_axis(w, at, axis),
                    dtype,
                    EXACT,
                    (
                        (lambda x: torch.sort(x, axis, descending=descending).values)
                        if real and not np.any(late)
                        else None
                    ),
                )
                if w.size:
                    k = int(cases.rng.integers(1, shape[axis] + 1))
                    first = np.take(at, np.arange(k), axis)
                    cases.add(
                        "topk",
                        [x],
                        {"k": k, "axis": axis} | ({} if descending else {"largest": False}),
                        [np.take_along_axis(w, first, axis), first],
                        [dtype, "i64"],
                        EXACT,
                        (
                            (lambda x: [torch.gather(x, axis, torch.tensor(first)), torch.tensor(first)])
                            if real and not np.any(late)
                            else None
                        ),
                    )


def searches(cases):
    for dtype in FLOATS + INTS:
        real = is_float(dtype)
        s = np.sort(cases.normals((9,), dtype, layout="").wide if real else cases.ints((9,), dtype, -4, 5).stored)
        edges, x = Operand(s, dtype, grad=False), cases.any((3, 4), dtype, grad=False)
        x = Operand(
            np.where(np.arange(12).reshape(3, 4) % 3 == 0, s[3], x.wide if real else x.stored), dtype, grad=False
        )
        w = x.wide if real else x.stored
        for right in [False, True]:
            o = {"right": True} if right else {}
            cases.add("searchsorted", [edges, x], o, np.searchsorted(s, w, side="right" if right else "left"), "i64")
            unique = np.unique(s)
            cases.add(
                "digitize",
                [x, Operand(unique, dtype, grad=False)],
                o,
                np.digitize(w.astype(np.float64), unique.astype(np.float64), right=right),
                "i64",
            )
        for shape in [(12,), (3, 4), (0,), ()]:
            x = (
                cases.ints(shape, dtype, 0, 4)
                if not real
                else Operand(cases.rng.integers(-2, 3, shape) / 2, dtype, grad=False)
            )
            values, at, inverse, counts = np.unique(
                x.wide if real else x.stored, return_index=True, return_inverse=True, return_counts=True
            )
            cases.add("unique", [x], {}, [values, at, inverse.reshape(shape), counts], [dtype, "i64", "i64", "i64"])
    x = Operand(np.array([math.nan, 1, math.inf, math.nan, 1, -math.inf]), "f32", grad=False)
    values, at, inverse, counts = np.unique(x.wide, return_index=True, return_inverse=True, return_counts=True)
    cases.add("unique", [x], {}, [values, at, inverse, counts], ["f32", "i64", "i64", "i64"])


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [running, orders, searches]:
            family(cases)
