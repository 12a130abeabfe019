"""numpy's functions beyond those of numeric.py (ops/shaping.h, editing.h, elementwise.h, linalg.h, numeric.h,
linear_algebra.h): values by numpy, gradients by torch.
"""

import math

import numpy as np
import torch
from judge import EXACT, FLOATS, INTS, Operand, Ulp, at_least_one, is_complex, is_float, largest, of_terms, to_floating


def values_of(x):
    return x.wide if is_float(x.dtype) or is_complex(x.dtype) else x.stored


def splitting(cases):
    for dtype in ["f32", "f64", "bf16", "i32", "bool", "c64"]:
        by_torch = is_float(dtype)
        for name, shape, parts in [("hsplit", (4,), 2), ("hsplit", (2, 6), 3), ("vsplit", (4, 3), 2), ("dsplit", (2, 1, 6), 3)]:
            x = cases.any(shape, dtype)
            split = getattr(torch, name)
            out = getattr(np, name)(values_of(x), parts)
            cases.add(name, [x], {"parts": parts}, list(out), dtype, EXACT, (lambda x: list(split(x, parts))) if by_torch else None)
        for k in [0, 1, -2]:
            for shape in [(3,), (2, 2)]:
                x = cases.any(shape, dtype)
                cases.add("diagflat", [x], {"k": k}, np.diagflat(values_of(x), k), dtype, EXACT, (lambda x: torch.diagflat(x, k)) if by_torch else None)


def differences(cases):
    for dtype in ["f32", "f64", "i32", "u8"]:
        x, a, b = cases.any((2, 3), dtype), cases.any((), dtype), cases.any((2,), dtype)
        near = Ulp(1) if is_float(dtype) else EXACT
        of = lambda x, *e: torch.cat([*[t.reshape(-1) for t in e[:1]], torch.diff(x.reshape(-1)), *e[1:]])
        torch_of = of if is_float(dtype) else None
        cases.add("ediff1d", [x], {}, np.ediff1d(values_of(x)), dtype, near, torch_of)
        want = np.ediff1d(values_of(x), to_begin=values_of(a), to_end=values_of(b))
        cases.add("ediff1d", [x, a, b], {}, want, dtype, near, torch_of)


def tests_and_bits(cases):
    for dtype in INTS + ["bool"]:
        x = cases.any((3, 4), dtype)
        cases.add("bitwise_count", [x], {}, np.bitwise_count(x.stored), "u8")
        for name in ["isposinf", "isneginf", "isreal", "iscomplex"]:
            cases.add(name, [x], {}, np.full((3, 4), name == "isreal"), "bool")
        if dtype != "bool":
            i = np.iinfo(x.stored.dtype)
            edge = Operand(np.array([i.min, i.max, 0, 1], x.stored.dtype), dtype)
            cases.add("bitwise_count", [edge], {}, np.bitwise_count(edge.stored), "u8")
    for dtype in FLOATS:
        x = Operand(np.array([1.0, math.inf, -math.inf, math.nan, 0.0]), dtype, grad=False)
        for name in ["isposinf", "isneginf", "isreal", "iscomplex"]:
            cases.add(name, [x], {}, getattr(np, name)(x.wide), "bool")
        if dtype != "bf16":
            x = cases.normals((3, 4), dtype, grad=False)
            spacing = lambda t: (np.nextafter(t, np.copysign(t.dtype.type(np.inf), t)) - t).astype(np.float64)
            cases.add("spacing", [x], {}, spacing(x.stored), dtype)  # as np.spacing, which f16 has otherwise below 0
            edge = Operand(np.array([0.0, 1.0, -1.0, 4.0, math.inf, math.nan]), dtype, grad=False)
            cases.add("spacing", [edge], {}, spacing(edge.stored), dtype)
        x, y = cases.floats((3, 4), dtype, 0.5, 3), cases.floats((4,), dtype, -2, 2)
        cases.add("float_power", [x, y], {}, np.float_power(x.wide.astype(np.float64), y.wide.astype(np.float64)), "f64", Ulp(2), torch.float_power)
    for dtype in ["c64", "c128"]:
        x = Operand(np.array([1 + 0j, 1j, 2 - 0j, complex(1, math.nan)]), dtype)
        for name in ["isreal", "iscomplex"]:
            cases.add(name, [x], {}, getattr(np, name)(x.stored), "bool")
        z, w = cases.any((3,), dtype), cases.any((3,), dtype)
        cases.add("float_power", [z, w], {}, np.float_power(z.stored, w.stored), "c128", Ulp(4, 32, largest))
    x, y = cases.ints((3, 4), "i32", 1, 6), cases.ints((4,), "i64", -2, 3)
    cases.add("float_power", [x, y], {}, np.float_power(x.stored, y.stored), "f64", Ulp(2))
    for a, b in [((2, 3), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((2, 3), (2,)), ((1,), (2,)), ((), (2, 2)), ((2, 1), (1, 2))]:
        x, y = Operand(np.ones(a), "f32", grad=False), Operand(np.ones(b), "i32")
        cases.add("array_equiv", [x, y], {}, np.array(np.array_equiv(x.stored, y.stored)), "bool")
        z = Operand(np.arange(np.prod(b)).reshape(b), "i32")
        cases.add("array_equiv", [x, z], {}, np.array(np.array_equiv(x.stored, z.stored)), "bool")


def places(cases):
    for dtype in ["f32", "i32", "bool", "u8"]:
        for shape in [(3, 4), (5,), (0,), ()]:
            x = Operand(cases.rng.integers(0, 2, shape), dtype, grad=False)
            cases.add("flatnonzero", [x], {}, np.flatnonzero(x.stored), "i64")
        for values in [[0, 0, 1, 0, 2, 0], [0, 0], [1, 2], []]:
            x = Operand(np.array(values, np.int64), dtype, grad=False)
            for trim in ["fb", "f", "b", ""]:
                want = np.trim_zeros(x.stored, trim) if trim else x.stored
                cases.add("trim_zeros", [x], {"trim": trim}, values_of(Operand(want, dtype)), dtype)
    for n, axes in [(3, 2), (0, 2), (2, 3), (4, 1)]:
        out = np.diag_indices(n, axes)
        cases.add("diag_indices", [], {"n": n, "ndim": axes}, list(out), "i64")
    rows, columns = cases.ints((3,), "i64", 0, 5), cases.ints((2,), "i32", 0, 5)
    mask = Operand(np.array([True, False, True]), "bool")
    cases.add("ix_", [rows, columns], {}, list(np.ix_(rows.stored, columns.stored)), ["i64", "i32"])
    cases.add("ix_", [rows, mask, columns], {}, list(np.ix_(rows.stored, mask.stored, columns.stored)), ["i64", "i64", "i32"])
    for dtype in ["f32", "f64", "i32", "bf16"]:
        which = cases.ints((2, 3), "i64", 0, 3)
        choices = [cases.any((2, 3), dtype), cases.any((3,), dtype), cases.any((), dtype)]
        want = np.choose(which.stored, [values_of(c) for c in choices])
        of = lambda i, *c: torch.gather(torch.stack([t.expand(2, 3) for t in c]), 0, i.unsqueeze(0)).squeeze(0)
        cases.add("choose", [which, *choices], {}, want, dtype, EXACT, of if is_float(dtype) else None)


def products(cases):
    for dtype in ["f32", "f64", "i32", "c64"]:
        for a, x, y in [((3, 4), (4,), (3,)), ((2, 3, 4), (2, 4), (3,)), ((3, 4), (2, 4), (2, 3)), ((1, 2), (2,), (1,))]:
            m, v, w = cases.any(a, dtype), cases.any(x, dtype), cases.any(y, dtype)
            near = EXACT if dtype == "i32" else Ulp(2, 32, largest)
            torch_of = (lambda f: f) if is_float(dtype) else (lambda f: None)
            values = lambda o: o.wide.astype(np.complex128) if is_complex(dtype) else values_of(o)
            want = np.matvec(values(m), values(v)) if dtype != "f64" else (values(m) * values(v)[..., None, :]).sum(-1)
            cases.add("matvec", [m, v], {}, want, dtype, near, torch_of(lambda m, v: (m * v.unsqueeze(-2)).sum(-1)), of_terms(32))
            want = (np.conj(values(w))[..., :, None] * values(m)).sum(-2)
            cases.add("vecmat", [w, m], {}, want, dtype, near, torch_of(lambda w, m: (w.unsqueeze(-1) * m).sum(-2)), of_terms(32))


def coefficients(cases):
    for dtype in ["f32", "f64", "i32"]:
        torch_of = (lambda f: f) if is_float(dtype) else (lambda f: None)
        p, q = cases.any((4,), dtype), cases.any((2,), dtype)
        pad = torch.nn.functional.pad
        cases.add("polysub", [p, q], {}, np.polysub(values_of(p), values_of(q)), dtype, EXACT if dtype == "i32" else Ulp(2), torch_of(lambda p, q: p - pad(q, (2, 0))))
        for m, n in [(4, 2), (5, 3), (3, 3), (4, 1), (2, 3)]:
            u = cases.any((m,), dtype)
            v = Operand(np.concatenate([[2], cases.rng.integers(-3, 4, n - 1)]), dtype)

            def divide(u, v):
                if m < n:
                    return [u[:1] * 0, pad(u, (n - 1 - m, 0))]
                found = []
                for k in range(m - n + 1):
                    found.append(u[k] / v[0])
                    u = u - pad(found[-1] * v, (k, m - n - k))
                return [torch.stack(found), u[m - n + 1 :]]

            d = to_floating(dtype)
            quotient, rest = np.polydiv(values_of(u).astype(np.float64), values_of(v).astype(np.float64))
            rest = np.concatenate([np.zeros(max(0, n - 1 - len(rest))), rest])[: n - 1] if n > 1 else np.zeros(0)
            cases.add("polydiv", [u, v], {}, [quotient, rest], d, at_least_one(32), torch_of(divide), at_least_one(128))
    for dtype in ["f32", "f64"]:
        for n in [1, 3, 5, 0]:
            r = cases.floats((n,), dtype, -2, 2)

            def product(r):
                p = torch.ones(1, dtype=torch.float64)
                for x in r:
                    p = torch.nn.functional.pad(p, (0, 1)) - x * torch.nn.functional.pad(p, (1, 0))
                return p

            cases.add("poly", [r], {}, np.atleast_1d(np.poly(r.wide.astype(np.float64))), dtype, at_least_one(16), product if n else None, at_least_one(64))
        a = cases.normals((3, 3), dtype)
        of = lambda a: torch.stack([torch.ones((), dtype=torch.float64), -a.trace(), (a.trace() ** 2 - (a @ a).trace()) / 2, -torch.linalg.det(a)])
        cases.add("poly", [Operand(a.wide, dtype, grad=False)], {}, of(a.torch()).numpy(), dtype, at_least_one(128))
        z = Operand(cases.rng.normal(size=3) + 1j * cases.rng.normal(size=3), {"f32": "c64", "f64": "c128"}[dtype])
        cases.add("poly", [z], {}, np.poly(z.stored.astype(np.complex128)), z.dtype, at_least_one(32))
        for c in [[1, -6, 11, -6], [2, 0, -8], [0, 0, 1, 3, 0, 0], [5], [0, 0], [1, 0, 0], [1, 2, 5]]:
            p = Operand(np.array(c), dtype, grad=False)
            found = np.roots(p.wide.astype(np.float64))
            # in the order of our eigenvalues: compared as sums of powers, which have none
            powers = np.array([np.sum(found**k) for k in range(4)]) if found.size else np.zeros(4)
            cases.add("roots", [p], {}, powers.astype(np.complex128), {"f32": "c64", "f64": "c128"}[dtype], at_least_one(4096))


def tensors(cases):
    for dtype in ["f32", "f64"]:
        for shape, n in [((2, 3, 6), 2), ((4, 2, 2), 1), ((3, 3), 1), ((2, 2, 2, 2), 2)]:
            a, b = cases.normals(shape, dtype), cases.normals(shape[:n], dtype)
            size = int(np.prod(shape[:n]))
            a = Operand(a.wide + 3 * np.eye(size).reshape(shape), dtype)
            near = Ulp(0, 64 * 16, lambda v: max(1, largest(v)))
            of = lambda a, b: torch.linalg.tensorsolve(a, b)
            cases.by_torch("linalg::tensorsolve", [a, b], {}, of, dtype, near, grad_tolerance=near)
            cases.by_torch("linalg::tensorinv", [a], {"ind": n}, lambda a: torch.linalg.tensorinv(a, n), dtype, near, grad_tolerance=near)


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [splitting, differences, tests_and_bits, places, products, coefficients, tensors]:
            family(cases)
