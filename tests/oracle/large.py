"""Cases past the sizes where kernels change their way: more than a tile, a vector, a thread's piece. Not committed."""

import numpy as np
import torch

from judge import EQUAL, EXACT, Ulp, largest, of_largest, of_terms
from products import product

SIZES = [17, 257, 4099]


def rows(cases):
    for dtype in ["f32", "f64", "f16"]:
        for n in SIZES:
            for shape, axis in [((n,), -1), ((3, n), 1), ((n, 5), 0), ((n, 2), 1)]:
                x = cases.normals(shape, dtype)
                w = x.wide
                total = np.sum(np.abs(w), axis)
                cases.add("sum", [x], {"axis": axis}, np.sum(w, axis), dtype, Ulp(1, 8, total), lambda x: x.sum(axis))
                cases.add(
                    "mean",
                    [x],
                    {"axis": axis},
                    np.mean(w, axis),
                    dtype,
                    Ulp(2, 8, total / shape[axis]),
                    lambda x: x.mean(axis),
                )
                if n > 4000 and dtype == "f64":
                    continue
                cases.add("max", [x], {"axis": axis}, np.max(w, axis), dtype, EXACT)
                cases.add("argmin", [x], {"axis": axis}, np.argmin(w, axis), "i64")
                cases.add(
                    "var",
                    [x],
                    {"axis": axis},
                    np.var(w, axis),
                    dtype,
                    Ulp(4, 16, 1),
                    lambda x: x.var(axis, correction=0),
                )
                cases.by_torch(
                    "softmax",
                    [x],
                    {"axis": axis},
                    lambda x: torch.softmax(x, axis),
                    dtype,
                    Ulp(20, 0 if dtype != "f64" else 0.01 * n, largest),
                    grad_tolerance=Ulp(8, 32, 1),
                )
                cases.by_torch(
                    "logsumexp",
                    [x],
                    {"axis": axis},
                    lambda x: torch.logsumexp(x, axis),
                    dtype,
                    Ulp(8, 8, 4),
                    grad_tolerance=Ulp(32),
                )
                cases.add("sort", [x], {"axis": axis}, np.sort(w, axis), dtype, EQUAL)
                cases.add("argsort", [x], {"axis": axis}, np.argsort(w, axis, stable=True), "i64")
                if dtype != "f16":
                    cases.add(
                        "cumsum",
                        [x],
                        {"axis": axis},
                        np.cumsum(w, axis),
                        dtype,
                        Ulp(1, 8, largest(np.cumsum(np.abs(w), axis))),
                        lambda x: x.cumsum(axis),
                        grad_tolerance=of_largest(64),
                    )
                    cases.add("cummax", [x], {"axis": axis}, np.maximum.accumulate(w, axis), dtype, EXACT)
                    cases.add("median", [x], {"axis": axis}, np.median(w, axis), dtype, Ulp(1))
                if shape[-1] > 2:
                    cases.by_torch(
                        "layer_norm",
                        [x],
                        {},
                        lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
                        dtype,
                        Ulp(2, 32, 4),
                        grad_tolerance=Ulp(8, 256, 4),
                    )
            i = cases.ints((n,), "i32", -1000, 1000)
            cases.add("sort", [i], {}, np.sort(i.stored), "i32")
            cases.add("cumsum", [i], {}, np.cumsum(i.stored.astype(np.int64)), "i64")
            at = cases.ints((n,), "i64", 0, 50)
            x = cases.normals((50, 3), dtype)
            np.arange(150).reshape(50, 3)[at.stored].copy()
            cases.add(
                "take",
                [x, at],
                {"axis": 0},
                x.wide[at.stored],
                dtype,
                EXACT,
                lambda x, i: x[i],
                grad_tolerance=of_largest(16 * n**0.5),
            )
            cases.add("bincount", [at], {}, np.bincount(at.stored), "i64")


def matrices(cases):
    for dtype in ["f32", "f64", "bf16"]:
        for m, k, n in [(1, 300, 200), (7, 64, 129), (130, 70, 65), (33, 500, 3), (200, 1, 200), (64, 257, 128)]:
            product(
                cases,
                "matmul",
                [cases.normals((m, k), dtype), cases.normals((k, n), dtype)],
                {},
                torch.matmul,
                slope=of_terms(256),
            )
        product(
            cases,
            "matmul",
            [cases.normals((9, 40, 30), dtype), cases.normals((9, 30, 20), dtype)],
            {},
            torch.matmul,
            slope=of_terms(256),
        )
        x, w = cases.normals((4, 28, 28, 8), dtype), cases.normals((3, 3, 8, 16), dtype)
        product(
            cases,
            "conv2d",
            [x, w],
            {"padding": "SAME"},
            lambda x, w: torch.nn.functional.conv2d(
                x.movedim(-1, 1), w.movedim(-1, 0).movedim(-1, 1), padding=1
            ).movedim(1, -1),
            slope=of_terms(256),
        )


def elements(cases):
    for dtype in ["f32", "f64", "bf16"]:
        for shape in [(20001,), (101, 103)]:
            x, y = cases.normals(shape, dtype), cases.normals(shape[-1:], dtype)
            for name, f, t in [
                ("add", np.add, torch.add),
                ("multiply", np.multiply, torch.mul),
                ("maximum", np.maximum, torch.maximum),
            ]:
                cases.add(
                    name,
                    [x, y],
                    {},
                    f(x.wide, y.wide),
                    dtype,
                    EQUAL if name == "maximum" else Ulp(1),
                    t,
                    grad_tolerance=of_largest(64),
                )
            for name, f, t in [
                ("exp", np.exp, torch.exp),
                ("tanh", np.tanh, torch.tanh),
                ("sin", np.sin, torch.sin),
                ("atan", np.arctan, torch.atan),
            ]:
                cases.add(name, [x], {}, f(x.wide), dtype, Ulp(6), t)
            cases.add("transpose", [x], {}, x.wide.T, dtype, EXACT, lambda x: x.permute(*reversed(range(x.ndim))))
            cases.add(
                "roll",
                [x],
                {"shift": 1234, "axes": []},
                np.roll(x.wide, 1234),
                dtype,
                EXACT,
                lambda x: torch.roll(x, 1234),
            )


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [rows, matrices, elements]:
            family(cases)
