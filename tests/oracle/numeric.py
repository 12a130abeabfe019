"""Numerical methods, editing, order statistics, sets and the array API's names (ops/numeric.h, editing.h, ordering.h,
sets.h, standard.h): values by numpy and scipy, gradients by torch.
"""

import math

import numpy as np
import scipy
import torch
from judge import EXACT, FLOATS, INTS, Operand, Ulp, at_least_one, is_complex, is_float, largest, of_terms, promote, to_floating


def real(dtype):
    return is_float(dtype)


def values_of(x):
    return x.wide if real(x.dtype) or is_complex(x.dtype) else x.stored


def names(cases):
    for dtype in INTS + ["bool"]:
        x = cases.any((3, 4), dtype)
        cases.add("bitwise_invert", [x], {}, ~x.stored, dtype)
    for dtype in INTS:
        x, n = cases.ints((3, 4), dtype, 0, 8), cases.ints((4,), dtype, 0, 4)
        cases.add("bitwise_left_shift", [x, n], {}, x.stored << n.stored, dtype)
        cases.add("bitwise_right_shift", [x, n], {}, x.stored >> n.stored, dtype)
    for dtype in FLOATS + INTS + ["c64"]:
        x = cases.any((3, 4), dtype)
        cases.add("positive", [x], {}, values_of(x), dtype, EXACT, (lambda x: x * 1) if real(dtype) else None)
    for dtype in ["f32", "f64", "i32"]:
        x = cases.any((2, 3, 4), dtype)
        axes = [2, 0, 1]
        cases.add("permute_dims", [x], {"axis": axes}, values_of(x).transpose(axes), dtype, EXACT, lambda x: x.permute(axes))
        for axis in [0, -1, None]:
            for initial in [False, True]:
                o = ({} if axis is None else {"axis": axis}) | ({"initial": True} if initial else {})
                for name, fold, torch_fold, first in [
                    ("cumulative_sum", np.cumsum, torch.cumsum, 0),
                    ("cumulative_prod", np.cumprod, torch.cumprod, 1),
                ]:
                    y = fold(values_of(x), axis=axis)
                    along = 0 if axis is None else axis

                    def by_torch(t, torch_fold=torch_fold, first=first, axis=axis, initial=initial):
                        t = torch_fold(t.reshape(-1) if axis is None else t, 0 if axis is None else axis)
                        return torch.cat([torch.full_like(t.narrow(along, 0, 1), first), t], along) if initial else t

                    if initial:
                        y = np.concatenate([np.full_like(np.take(y, [0], along), first), y], along)
                    cases.add(
                        name, [x], o, y, dtype if real(dtype) else "i64",
                        Ulp(4, 16, largest) if real(dtype) else EXACT, by_torch if real(dtype) else None,
                    )  # fmt: skip
    every = ["bool"] + INTS + FLOATS + ["c64", "c128"]
    for a in every:
        x = Operand(np.zeros(()), a)
        for b in every:
            y = Operand(np.zeros(()), b)
            cases.add("can_cast", [x, y], {}, np.array(promote(a, b) == b), "bool")
            cases.add("result_type", [x, y], {}, np.zeros(()), promote(a, b))
        numpy_type = np.dtype(x.stored.dtype) if a != "bf16" else np.dtype(np.float16)
        for kind in ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]:
            cases.add("isdtype", [x], {"kind": kind}, np.array(np.isdtype(numpy_type, kind)), "bool")
    for dtype in FLOATS + ["c64", "c128"]:
        i = torch.finfo({"bf16": torch.bfloat16}.get(dtype)) if dtype == "bf16" else np.finfo(Operand(0.0, dtype).stored.dtype)
        y = np.array([i.bits, i.eps, i.max, i.min, i.smallest_normal], np.float64)
        cases.add("finfo", [Operand(np.zeros(()), dtype)], {}, y, "f64")
    for dtype in INTS:
        i = np.iinfo(Operand(0, dtype).stored.dtype)
        out = [np.array(i.bits), np.array(i.max, np.uint64), np.array(i.min)]
        cases.add("iinfo", [Operand(np.zeros(()), dtype)], {}, out, ["i64", "u64", "i64"])


def sets(cases):
    for dtype in FLOATS + INTS:
        for shape, other in [((12,), (5,)), ((3, 4), (2, 3)), ((0,), (3,)), ((4,), (0,)), ((), (2,))]:
            x, y = [
                cases.ints(s, dtype, 0, 6) if not real(dtype) else Operand(cases.rng.integers(-3, 4, s) / 2, dtype, grad=False)
                for s in (shape, other)
            ]
            a, b = values_of(x), values_of(y)
            cases.add("isin", [x, y], {}, np.isin(a, b), "bool")
            cases.add("isin", [x, y], {"invert": True}, np.isin(a, b, invert=True), "bool")
            for name in ["union1d", "intersect1d", "setdiff1d", "setxor1d"]:
                cases.add(name, [x, y], {}, getattr(np, name)(a, b), dtype)
            values, at, inverse, counts = np.unique(a, return_index=True, return_inverse=True, return_counts=True)
            inverse = inverse.reshape(shape)
            cases.add("unique_values", [x], {}, values, dtype)
            cases.add("unique_counts", [x], {}, [values, counts], [dtype, "i64"])
            cases.add("unique_inverse", [x], {}, [values, inverse], [dtype, "i64"])
            cases.add("unique_all", [x], {}, [values, at, inverse, counts], [dtype, "i64", "i64", "i64"])
        for shape in [(9, 2), (2, 9), (12, 1), (7, 3, 2), (5, 5), (1, 4), (6,)]:
            x = Operand(cases.rng.integers(0, 2, shape), dtype, grad=False)
            a = values_of(x)
            for axis in range(len(shape)):
                values, at, inverse, counts = np.unique(a, True, True, True, axis=axis)
                cases.add("unique_along", [x], {"axis": axis}, [values, at, inverse.reshape(-1), counts], [dtype, "i64", "i64", "i64"])
            values, inverse, counts = [t.numpy() for t in torch.unique_consecutive(torch.tensor(a.astype(np.float64)), True, True)]
            cases.add("unique_consecutive", [x], {}, [values.astype(a.dtype), inverse, counts], [dtype, "i64", "i64"])
    x = Operand(np.array([math.nan, 1, math.inf, -0.0]), "f32", grad=False)
    y = Operand(np.array([math.inf, math.nan, 0.0]), "f32", grad=False)
    cases.add("isin", [x, y], {}, np.isin(x.wide, y.wide), "bool")


def joining(cases):
    for dtype in ["f32", "f64", "bf16", "i32", "bool", "c64"]:
        torch_of = (lambda f: f) if real(dtype) else (lambda f: None)
        x, y = cases.any((3, 4), dtype), cases.any((2, 4), dtype)
        a, b = values_of(x), values_of(y)
        cases.add("append", [x, y], {"axis": 0}, np.append(a, b, 0), dtype, EXACT, torch_of(lambda x, y: torch.cat([x, y])))
        cases.add(
            "append", [x, y], {}, np.append(a, b), dtype, EXACT,
            torch_of(lambda x, y: torch.cat([x.reshape(-1), y.reshape(-1)])),
        )  # fmt: skip
        for places, values, axis in [
            ([1], cases.any((3, 2), dtype), 1), ([0, 4, 2], cases.any((3, 3), dtype), 1), ([-1, 1], cases.any((1, 4), dtype), 0),
            ([5], cases.any((3,), dtype), None), ([2, 2], cases.any((2,), dtype), None), ([3], cases.any((), dtype), 0),
        ]:  # fmt: skip
            o = {"places": places} | ({} if axis is None else {"axis": axis})
            # Numpy treats a list of one index as one element, and a number as all.
            at = places if len(places) > 1 or values.shape == () else places[0]
            v = values_of(values)
            w = np.moveaxis(v, axis, 0) if len(places) == 1 and axis is not None and v.ndim == 2 else v
            want = np.insert(a, at, w, axis=axis)

            def by_torch(x, v, places=places, axis=axis):
                x, v = (x.reshape(-1), v.reshape(-1)) if axis is None else (x, v)
                axis = axis or 0
                count = v.shape[axis] if len(places) == 1 and v.ndim == x.ndim else len(places)
                shape = list(x.shape)
                shape[axis] = count
                n, v = x.shape[axis], v.expand(shape)
                all_ = sorted([((p + n if p < 0 else p), 0, i) for i, p in enumerate(places * (count if len(places) == 1 else 1))]
                              + [(i, 1, i) for i in range(n)])  # fmt: skip
                return torch.cat([x, v], axis).index_select(axis, torch.tensor([i if old else n + i for _, old, i in all_]))

            cases.add("insert", [x, values], o, want, dtype, EXACT, torch_of(by_torch))
        for places, axis in [([1], 0), ([-1, 0], 1), ([2, 2, 5], None), ([], 0)]:
            o = {"places": places} | ({} if axis is None else {"axis": axis})
            kept = [i for i in range(x.stored.size if axis is None else x.shape[axis])]
            gone = {p % len(kept) for p in places}
            kept = torch.tensor([i for i in kept if i not in gone])
            cases.add(
                "erase", [x], o, np.delete(a, np.array(places, np.int64), axis=axis), dtype, EXACT,
                torch_of(lambda x, kept=kept, axis=axis: (x.reshape(-1) if axis is None else x).index_select(axis or 0, kept)),
            )  # fmt: skip
        v, m = cases.any((3,), dtype), cases.any((3, 2), dtype)
        cases.add(
            "column_stack", [v, m, v], {}, np.column_stack([values_of(v), values_of(m), values_of(v)]), dtype, EXACT,
            torch_of(lambda v, m, w: torch.column_stack([v, m, w])),
        )  # fmt: skip
        four = [cases.any(s, dtype) for s in [(2, 3), (2, 1), (1, 3), (1, 1)]]
        w = [values_of(t) for t in four]
        cases.add(
            "block", four, {}, np.block([[w[0], w[1]], [w[2], w[3]]]), dtype, EXACT,
            torch_of(lambda a, b, c, d: torch.cat([torch.cat([a, b], 1), torch.cat([c, d], 1)])),
        )  # fmt: skip


def masks(cases):
    for dtype in ["f32", "f64", "f16", "i64", "u8"]:
        torch_of = (lambda f: f) if real(dtype) else (lambda f: None)
        x, y, z = cases.any((3, 4), dtype), cases.any((4,), dtype), cases.any((), dtype)
        p, q = cases.ints((3, 4), "bool"), cases.ints((3, 1), "bool")
        a, b, c = values_of(x), values_of(y), values_of(z)
        cases.add(
            "select", [p, q, x, y, z], {}, np.where(p.stored, a, np.where(q.stored, b, c)), dtype, EXACT,
            torch_of(lambda p, q, x, y, z: torch.where(p, x, torch.where(q, y, z))),
        )  # fmt: skip
        cases.add(
            "masked_fill", [x, q, z], {}, np.where(q.stored, c, a), dtype, EXACT,
            torch_of(lambda x, q, z: torch.where(q, z, x)),
        )  # fmt: skip
        source = cases.any((15,), dtype)
        want = np.array(a)
        want[p.stored] = values_of(source)[: p.stored.sum()]
        cases.add(
            "masked_scatter", [x, p, source], {}, want, dtype, EXACT, torch_of(lambda x, p, s: torch.masked_scatter(x, p, s))
        )
        m = cases.any((2, 4, 5), dtype)
        i, j = np.indices((4, 5))
        for lower, upper in [(0, 0), (1, -1), (-1, 2), (2, 1), (-1, -1), (10, 0)]:
            keep = ((lower < 0) | (i - j <= lower)) & ((upper < 0) | (j - i <= upper))
            cases.add(
                "band_part", [m], {"lower": lower, "upper": upper}, np.where(keep, values_of(m), 0), dtype, EXACT,
                torch_of(lambda m, keep=torch.tensor(keep): torch.where(keep, m, 0)),
            )  # fmt: skip


def slices(cases):
    for dtype in ["f32", "f64", "i32"]:
        torch_of = (lambda f: f) if real(dtype) else (lambda f: None)
        x, ids = cases.any((4, 5), dtype), Operand(np.array([3, 0, 2]), "i64")
        for axis in [0, 1, -1]:
            shape = [4, 5]
            shape[axis] = 3
            u = cases.any(tuple(shape), dtype)
            at = [slice(None)] * 2
            at[axis] = ids.stored
            at = tuple(at)
            added, put, filled = (np.array(values_of(x)) for _ in range(3))
            np.add.at(added, at, values_of(u))
            put[at] = values_of(u)
            z = cases.any((), dtype)
            filled[at] = values_of(z)
            o, i = {"axis": axis}, torch.tensor(ids.stored)
            near = Ulp(1) if real(dtype) else EXACT
            cases.add("index_add", [x, ids, u], o, added, dtype, near, torch_of(lambda x, _, u: x.index_add(axis, i, u)))
            cases.add("index_copy", [x, ids, u], o, put, dtype, EXACT, torch_of(lambda x, _, u: x.index_copy(axis, i, u)))
            cases.add("index_fill", [x, ids, z], o, filled, dtype, EXACT, torch_of(lambda x, _, z: x.index_copy(axis, i, z.expand(shape))))
        u, ids = cases.any((7, 2), dtype), Operand(cases.rng.integers(0, 4, 7), "i64")
        w, n = values_of(u), 5
        limits = (-math.inf, math.inf) if real(dtype) else (np.iinfo(np.int32).min, np.iinfo(np.int32).max)
        for name, fold, empty in [
            ("segment_prod", lambda r: r.prod(0), 1), ("segment_max", lambda r: r.max(0), limits[0]),
            ("segment_min", lambda r: r.min(0), limits[1]), ("segment_mean", lambda r: r.mean(0), 0),
        ]:  # fmt: skip
            rows = [w[ids.stored == s] for s in range(n)]
            want = np.array([fold(r) if len(r) else np.full(2, empty) for r in rows])
            mean = name == "segment_mean"

            def by_torch(u, ids, fold=fold, empty=empty, name=name):
                rows = [u[ids == s] for s in range(n)]
                f = {"segment_prod": lambda r: r.prod(0), "segment_mean": lambda r: r.mean(0),
                     "segment_max": lambda r: r.amax(0), "segment_min": lambda r: r.amin(0)}[name]  # fmt: skip
                return torch.stack([f(r) if len(r) else torch.full((2,), float(empty), dtype=u.dtype) for r in rows])

            cases.add(
                name, [u, ids], {"segments": n}, want, "f32" if mean and not real(dtype) else dtype,
                Ulp(3, 4, largest) if real(dtype) or mean else EXACT,
                torch_of(by_torch) if name not in ("segment_max", "segment_min") else None,
            )  # fmt: skip


def indices(cases):
    for n, k, m in [(3, 0, 0), (4, 1, 3), (2, -1, 5), (0, 0, 0), (3, 9, 2), (3, -9, 2)]:
        o = {"n": n} | ({"k": k} if k else {}) | ({"m": m} if m else {})
        cases.add("tril_indices", [], o, list(np.tril_indices(n, k, m or n)), "i64")
        cases.add("triu_indices", [], o, list(np.triu_indices(n, k, m or n)), "i64")
    for dtype in ["i64", "i32", "u8"]:
        for shape in [(3, 4), (2, 3, 5), (7,)]:
            at = cases.ints((2, 3), dtype, 0, math.prod(shape))
            places = np.unravel_index(at.stored.astype(np.int64), shape)
            cases.add("unravel_index", [at], {"shape": list(shape)}, list(places), "i64")
            parts = [Operand(p, dtype) for p in places]
            cases.add("ravel_multi_index", parts, {"shape": list(shape)}, np.ravel_multi_index(places, shape), "i64")
    for dtype in ["bool", "u8", "i32"]:
        for shape in [(16,), (3, 11), (2, 8), (0,)]:
            x = cases.ints(shape, dtype, 0, 2)
            cases.add("packbits", [x], {}, np.packbits(x.stored.astype(bool)), "u8")
            if len(shape) > 1:
                for axis in [0, 1]:
                    cases.add("packbits", [x], {"axis": axis}, np.packbits(x.stored.astype(bool), axis=axis), "u8")
    x = cases.ints((3, 4), "u8", 0, 256)
    cases.add("unpackbits", [x], {}, np.unpackbits(x.stored), "u8")
    for axis in [0, 1]:
        cases.add("unpackbits", [x], {"axis": axis}, np.unpackbits(x.stored, axis=axis), "u8")


def order(cases):
    for dtype in FLOATS + ["i32", "u8"]:
        torch_of = (lambda f: f) if real(dtype) else (lambda f: None)
        x = Operand(cases.rng.permutation(24).reshape(2, 3, 4), dtype, str(cases.layout((2, 3, 4))))
        w = values_of(x)
        for axis in [-1, 0, 1]:
            k = int(cases.rng.integers(0, x.shape[axis]))
            at = np.argsort(w, axis=axis, kind="stable")
            cases.add("partition", [x], {"k": k, "axis": axis}, np.sort(w, axis), dtype, EXACT, torch_of(lambda x: torch.sort(x, axis).values))
            cases.add("argpartition", [x], {"k": k, "axis": axis}, at, "i64")
            place = np.take(at, [k], axis)
            value = np.take_along_axis(w, place, axis)
            for keep in [False, True]:
                o = {"k": k + 1, "axis": axis} | ({"keepdims": True} if keep else {})
                out = [value, place] if keep else [value.squeeze(axis), place.squeeze(axis)]
                cases.add("kthvalue", [x], o, out, [dtype, "i64"], EXACT, torch_of(lambda x: list(torch.kthvalue(x, k + 1, axis, keep))))
        y = Operand(cases.rng.integers(0, 3, (3, 7)), dtype, grad=False)
        for axis in [0, 1]:
            for keep in [False, True]:
                found = scipy.stats.mode(y.stored if dtype != "bf16" else y.wide.astype(np.float32), axis=axis, keepdims=keep)
                o = {"axis": axis} | ({"keepdims": True} if keep else {})
                cases.add("mode", [y], o, [found.mode, found.count], [dtype, "i64"])
        keys = [Operand(cases.rng.integers(0, 3, (2, 9)), d) for d in (dtype, "i32", dtype)]
        for axis in [-1, 0]:
            cases.add("lexsort", keys, {"axis": axis}, np.lexsort([values_of(k) for k in keys], axis=axis), "i64")


def without_nan(cases):
    for dtype in FLOATS + ["i32"]:
        w = cases.rng.normal(size=(3, 5, 4))
        if real(dtype):
            w[cases.rng.random(w.shape) < 0.3] = math.nan
            w[0, :, 1] = math.nan
            w[1, 0, 0] = w[2, 4, 3] = -math.inf
        x = Operand(w, dtype, grad=False) if real(dtype) else cases.ints((3, 5, 4), dtype)
        a = values_of(x).astype(np.float64)
        for axis in [None, 0, 2, -1]:
            o = {} if axis is None else {"axis": axis}
            if axis in (None, 2, -1):  # along these no line is without a number
                if not np.isnan(a).all(axis).any():
                    # Numpy treats NaN as an infinity, which may come after it.
                    lines = np.moveaxis(a, axis, -1) if axis is not None else a.reshape(1, -1)
                    best = lambda f, worst: np.array(
                        [
                            next(i for i in np.argsort(worst * line, kind="stable") if not np.isnan(line[i]))
                            for line in lines.reshape(-1, lines.shape[-1])
                        ]
                    ).reshape(lines.shape[:-1] if axis is not None else ())
                    cases.add("nanargmax", [x], o, best(np.nanargmax, -1), "i64")
                    cases.add("nanargmin", [x], o, best(np.nanargmin, 1), "i64")
            for name, f in [("nancumsum", np.nancumsum), ("nancumprod", np.nancumprod)]:
                cases.add(name, [x], o, f(values_of(x), axis=axis), dtype if real(dtype) else "i64", Ulp(4, 16, lambda v: np.abs(f(np.abs(values_of(x)), axis=axis))) if real(dtype) else EXACT)
            for keep in [False, True]:
                k = o | ({"keepdims": True} if keep else {})
                out = "f32" if dtype == "i32" else dtype
                cases.add("nanmedian", [x], k, np.nanmedian(a, axis=axis, keepdims=keep), out, Ulp(2))
                for q in [np.array(0.3), np.array([0, 0.5, 1.0])]:
                    t = Operand(q, "f64", grad=False)
                    y = Operand(np.where(np.isinf(a), 3, a), dtype, grad=False) if real(dtype) else x
                    b = values_of(y).astype(np.float64)
                    near = Ulp(4, 4, 4)
                    cases.add("nanquantile", [y, t], k, np.nanquantile(b, q, axis=axis, keepdims=keep), out, near)
                    t = Operand(q * 100, "f64", grad=False)
                    cases.add("nanpercentile", [y, t], k, np.nanpercentile(b, q * 100, axis=axis, keepdims=keep), out, near)
    for dtype in ["f32", "f64"]:
        x = Operand(cases.rng.permutation(20).reshape(4, 5), dtype)
        cases.add("nanmedian", [x], {"axis": 1}, np.nanmedian(x.wide, 1), dtype, EXACT, lambda x: torch.nanmedian(x, 1).values)
        q = Operand(np.array(0.3), "f64", grad=False)
        cases.add("nanquantile", [x, q], {"axis": 1}, np.nanquantile(x.wide.astype(np.float64), 0.3, 1), dtype, Ulp(4), lambda x, q: torch.nanquantile(x, 0.3, 1))
        cases.add("nancumsum", [x], {"axis": 0}, np.cumsum(x.wide, 0), dtype, EXACT, lambda x: torch.cumsum(x, 0))


def interpolation(cases):
    def by_torch(x, xp, fp):
        at = (torch.searchsorted(xp.detach(), x.detach(), right=True) - 1).clamp(0, len(xp) - 2)
        y = fp[at] + (fp[at + 1] - fp[at]) / (xp[at + 1] - xp[at]) * (x - xp[at])
        return torch.where(x > xp[-1], fp[-1], torch.where(x < xp[0], fp[0], y))

    for dtype in ["f32", "f64"]:
        xp = Operand(np.sort(cases.rng.permutation(40)[:7]) / 4, dtype)
        fp = cases.normals((7,), dtype, layout="")
        for shape in [(9,), (2, 3), ()]:
            x = Operand(cases.rng.uniform(-1, 11, shape), dtype)
            near = Ulp(4, 16, np.abs(fp.wide).max())
            w = [t.wide.astype(np.float64) for t in (x, xp, fp)]
            cases.add("interp", [x, xp, fp], {}, np.interp(*w), dtype, near, by_torch)
            cases.add("interp", [x, xp, fp], {"left": -1.5, "right": 2.5}, np.interp(*w, left=-1.5, right=2.5), dtype, near)
            shuffled = cases.rng.permutation(7)
            loose = Ulp(4, 256, np.abs(fp.wide).max() * 8)
            p, f = Operand(xp.wide[shuffled], dtype), Operand(fp.wide[shuffled], dtype)
            cases.add("interp", [x, p, f], {"period": 10.5}, np.interp(w[0], p.wide.astype(np.float64), f.wide.astype(np.float64), period=10.5), dtype, loose)
        edge = Operand(np.array([xp.wide[0], xp.wide[-1], xp.wide[3], math.nan, math.inf, -math.inf]), dtype, grad=False)
        cases.add("interp", [edge, xp, fp], {}, np.interp(*[t.wide.astype(np.float64) for t in (edge, xp, fp)]), dtype, Ulp(4, 16, 2))
    one = Operand(np.array([2.0]), "f32", grad=False)
    cases.add("interp", [Operand(np.array([1.0, 2, 3]), "f32", grad=False), one, one], {}, np.full(3, 2.0), "f32")


def searches(cases):
    for dtype in ["f32", "i32", "u8"]:
        for right in [False, True]:
            o = {"right": True} if right else {}
            side = "right" if right else "left"
            x, v = cases.ints((9,), dtype, 0, 6, grad=False), cases.ints((4,), dtype, 0, 7, grad=False)
            at = np.argsort(x.stored, kind="stable")
            cases.add("searchsorted", [x, v, Operand(at, "i64")], o, np.searchsorted(x.stored, v.stored, side, at), "i64")
            for rows, m in [((3,), 5), ((2, 2), 1), ((2,), 0)]:
                s = Operand(np.sort(cases.ints((*rows, 6), dtype, 0, 6).stored, -1), dtype, grad=False)
                v = cases.ints((*rows, m), dtype, 0, 7, grad=False)
                pairs = zip(s.stored.reshape(-1, 6), v.stored.reshape(math.prod(rows), m))
                found = np.array([np.searchsorted(a, b, side) for a, b in pairs]).reshape(v.shape)
                cases.add("searchsorted", [s, v], o, found, "i64")
    for dtype in ["f32", "f64"]:
        x = cases.normals((3, 4), dtype)
        for axis in [0, 1]:
            before, behind = cases.normals((2, 4) if axis == 0 else (3, 1), dtype), cases.normals((), dtype)
            row = lambda t: t.reshape(1, 1).expand(*[1 if i == axis else n for i, n in enumerate((3, 4))])
            want = np.diff(x.wide, 1, axis, before.wide, behind.wide)
            cases.add(
                "diff", [x, before, behind], {"axis": axis}, want, dtype, Ulp(1),
                lambda x, p, a: torch.diff(x, dim=axis, prepend=p, append=row(a)),
            )  # fmt: skip


def integrals(cases):
    for dtype in ["f32", "f64", "bf16", "i32"]:
        torch_of = (lambda f: f) if real(dtype) else (lambda f: None)
        y = cases.any((3, 5), dtype)
        out = to_floating(dtype)
        w = values_of(y).astype(np.float64)
        near = at_least_one(32)
        for axis in [-1, 0]:
            cases.add("trapezoid", [y], {"dx": 0.5, "axis": axis}, np.trapezoid(w, dx=0.5, axis=axis), out, near, torch_of(lambda y: torch.trapezoid(y, dx=0.5, dim=axis)))
            cases.add("cumulative_trapezoid", [y], {"dx": 0.5, "axis": axis}, scipy.integrate.cumulative_trapezoid(w, dx=0.5, axis=axis), out, near, torch_of(lambda y: torch.cumulative_trapezoid(y, dx=0.5, dim=axis)))
            if out != dtype:
                continue
            x = Operand(np.cumsum(cases.rng.uniform(0.2, 1, y.shape[axis])), dtype)
            full = cases.normals((3, 5), dtype)
            for p in [x, full]:
                a = p.wide.astype(np.float64)
                cases.add("trapezoid", [y, p], {"axis": axis}, np.trapezoid(w, a, axis=axis), dtype, near, lambda y, p: torch.trapezoid(y, p, dim=axis))
                cases.add("cumulative_trapezoid", [y, p], {"axis": axis}, scipy.integrate.cumulative_trapezoid(w, a, axis=axis), dtype, near, lambda y, p: torch.cumulative_trapezoid(y, p, dim=axis))


def differences(cases):
    for dtype in ["f32", "f64"]:
        f = cases.normals((4, 5), dtype)
        w = f.wide.astype(np.float64)
        for edge in [1, 2]:
            h = Operand(np.array(0.5), dtype, grad=False)
            near = at_least_one(64)
            cases.add("gradient", [f], {"edge_order": edge}, list(np.gradient(w, edge_order=edge)), dtype, near, lambda f: list(torch.gradient(f, edge_order=edge)))
            cases.add("gradient", [f, h], {"edge_order": edge}, list(np.gradient(w, 0.5, edge_order=edge)), dtype, near, lambda f, h: list(torch.gradient(f, spacing=0.5, edge_order=edge)))
            for axis in [0, 1]:
                cases.add("gradient", [f], {"axis": axis, "edge_order": edge}, np.gradient(w, axis=axis, edge_order=edge), dtype, near, lambda f: list(torch.gradient(f, dim=axis, edge_order=edge)))
                x = Operand(np.cumsum(cases.rng.uniform(0.4, 1, f.shape[axis])), dtype, grad=False)
                cases.add("gradient", [f, x], {"axis": axis, "edge_order": edge}, np.gradient(w, x.wide.astype(np.float64), axis=axis, edge_order=edge), dtype, at_least_one(256))
    x = cases.ints((6,), "i32")
    cases.add("gradient", [x], {}, np.gradient(x.stored.astype(np.float64)), "f32", Ulp(1))
    for dtype in ["f32", "f64"]:
        for shape, axis in [((12,), -1), ((3, 6), 0), ((3, 6), 1), ((1,), 0)]:
            p = Operand(cases.rng.uniform(-12, 12, shape), dtype)
            w = p.wide.astype(np.float64)

            def by_torch(p, o):
                period = o.get("period", 2 * math.pi)
                d = torch.diff(p, dim=axis)
                near = torch.remainder(d + period / 2, period) - period / 2
                near = torch.where((near == -period / 2) & (d > 0), period / 2, near)
                mend = torch.where(d.abs() < o.get("discont", period / 2), 0.0, near - d)
                first = p.narrow(axis, 0, 1)
                return p + torch.cat([torch.zeros_like(first), torch.cumsum(mend, axis)], axis)

            for o in [{}, {"discont": 4.0}, {"period": 3.0}]:
                want = np.unwrap(w, discont=o.get("discont"), axis=axis, period=o.get("period", 2 * np.pi))
                cases.add("unwrap", [p], o | {"axis": axis}, want, dtype, at_least_one(128), lambda p: by_torch(p, o))


def convolutions(cases):
    def by_torch(a, v, mode, flipped):
        if len(a) < len(v):
            y = by_torch(v, a, mode, flipped)
            return y if flipped else y.flip(0)
        n, m = len(a), len(v)
        pads = {"full": (m - 1, m - 1), "same": (m // 2, m - m // 2 - 1), "valid": (0, 0)}[mode]
        if flipped:
            v = v.flip(0)
        return torch.nn.functional.conv1d(torch.nn.functional.pad(a, pads)[None, None], v[None, None])[0, 0]

    for dtype in FLOATS + ["i32", "u8", "bool", "c64", "c128"]:
        for n, m in [(9, 4), (3, 7), (5, 5), (6, 1), (8, 3)]:
            a, v = cases.any((n,), dtype), cases.any((m,), dtype)
            x, y = values_of(a), values_of(v)
            if dtype == "bool":
                continue
            near = Ulp(2, 16, np.abs(x).sum() * np.abs(y).max()) if real(dtype) or is_complex(dtype) else EXACT
            for mode in ["full", "same", "valid"]:
                for name, f in [("convolve", np.convolve), ("correlate", np.correlate)]:
                    grad = lambda a, v: by_torch(a, v, mode, name == "convolve")
                    cases.add(name, [a, v], {"mode": mode}, f(x, y, mode), dtype, near, grad if real(dtype) else None)


def polynomials(cases):
    for dtype in ["f32", "f64", "i32"]:
        torch_of = (lambda f: f) if real(dtype) else (lambda f: None)
        p, q, x = cases.any((4,), dtype), cases.any((2,), dtype), cases.any((3, 2), dtype)
        a, b, c = values_of(p), values_of(q), values_of(x)
        size = np.polyval(np.abs(a), np.abs(c))
        near = (lambda scale: Ulp(2, 16, scale)) if real(dtype) else lambda scale: EXACT

        def horner(p, x):
            y = torch.zeros_like(x)
            for t in p:
                y = y * x + t
            return y

        def multiply(p, q):
            return sum(torch.nn.functional.pad(q[i] * p, (i, len(q) - 1 - i)) for i in range(len(q)))

        cases.add("polyval", [p, x], {}, np.polyval(a, c), dtype, near(size), torch_of(horner))
        cases.add("polyadd", [p, q], {}, np.polyadd(a, b), dtype, near(1), torch_of(lambda p, q: p + torch.nn.functional.pad(q, (2, 0))))
        if a[0] and b[0]:  # numpy leaves out leading zeros
            cases.add("polymul", [p, q], {}, np.polymul(a, b), dtype, near(np.abs(a).sum() * np.abs(b).max()), torch_of(multiply))
            for m in [1, 2]:
                powers = torch.tensor(np.polyder(np.ones(4), m))
                cases.add("polyder", [p], {"m": m}, np.polyder(a, m), dtype, near(0), torch_of(lambda p: p[: 4 - m] * powers))
                below = torch.tensor(np.polyint(np.ones(4), m)[:4])
                cases.add("polyint", [p], {"m": m}, np.polyint(a.astype(np.float64), m), to_floating(dtype), Ulp(3), torch_of(lambda p: torch.nn.functional.pad(p * below, (0, m))))
        v = cases.floats((4,), dtype, 0.5, 2) if real(dtype) else cases.ints((4,), dtype)
        for n, increasing in [(0, False), (3, True), (6, False)]:
            o = ({"n": n} if n else {}) | ({"increasing": True} if increasing else {})
            want = np.vander(values_of(v), n or None, increasing)
            cases.add("vander", [v], o, want, dtype, Ulp(4) if real(dtype) else EXACT, torch_of(lambda v: torch.stack([v**k for k in (range(n or 4) if increasing else reversed(range(n or 4)))], 1)))
    for dtype in ["f32", "f64"]:
        for n in [0, 1, 2, 7, 10]:
            for name in ["bartlett", "blackman", "hamming", "hanning"]:
                cases.add(name, [], {"n": n, "dtype": dtype}, getattr(np, name)(n), dtype, Ulp(2, 4, 1))
        for start, stop, num, endpoint in [(1, 1000, 4, True), (-2, -32, 5, False), (0.1, 7, 9, True), (3, 5, 1, True), (1, 2, 0, True)]:
            o = {"start": start, "stop": stop, "num": num, "dtype": dtype} | ({} if endpoint else {"endpoint": False})
            cases.add("geomspace", [], o, np.geomspace(start, stop, num, endpoint), dtype, Ulp(8))


def grids(cases):
    for dtype in ["f32", "f64"]:
        x = cases.normals((40, 2), dtype, grad=False)
        w = x.wide.astype(np.float64)
        for o in [{}, {"bins": [3, 4]}, {"bins": [5], "range": [-1.0, 1.0, -0.5, 2.0]}]:
            bins = o.get("bins", [10]) * (1 if len(o.get("bins", [10])) == 2 else 2)
            ranges = [tuple(o["range"][:2]), tuple(o["range"][2:])] if "range" in o else None
            counts, edges = np.histogramdd(w, bins, ranges)
            near = Ulp(2, 4, largest)
            cases.add("histogramdd", [x], o, [counts, *edges], ["i64", dtype, dtype], [EXACT, near, near])
            t = cases.floats((40,), dtype, grad=False)
            sums, _ = np.histogramdd(w, bins, ranges, weights=t.wide.astype(np.float64))
            cases.add("histogramdd", [x, t], o, [sums, *edges], [dtype, dtype, dtype], [Ulp(4, 64, largest), near, near])
        a, b = cases.normals((30,), dtype, grad=False), cases.normals((30,), dtype, grad=False)
        counts, *edges = np.histogram2d(a.wide.astype(np.float64), b.wide.astype(np.float64), [4, 3])
        cases.add("histogram2d", [a, b], {"bins": [4, 3]}, [counts, *edges], ["i64", dtype, dtype], [EXACT, near, near])


def pairwise(cases):
    for dtype in FLOATS:
        a, b, w = cases.normals((3, 4), dtype), cases.normals((4,), dtype), cases.floats((3, 1), dtype, -0.5, 1.5)
        near = Ulp(2, 8, (np.abs(a.wide) + np.abs(b.wide)) * 2)
        cases.add("lerp", [a, b, w], {}, a.wide + w.wide * (b.wide - a.wide), dtype, near, torch.lerp)
        p = cases.floats((3, 4), dtype, 0.05, 0.95)
        for o in [{}, {"eps": 0.125}]:
            c = np.clip(p.wide, o["eps"], 1 - o["eps"]) if o else p.wide
            cases.add("logit", [p], o, np.log(c / (1 - c)), dtype, Ulp(4, 8, 1), (lambda p: torch.logit(p, o.get("eps"))) if dtype in ("f32", "f64") else None)
        x = cases.floats((3, 5), dtype, -3, 3)
        cases.add("ndtr", [x], {}, scipy.special.ndtr(x.wide.astype(np.float64)), dtype, Ulp(16), torch.special.ndtr)
        y = cases.floats((3, 5), dtype, 0.01, 0.99)
        cases.add("ndtri", [y], {}, scipy.special.ndtri(y.wide.astype(np.float64)), dtype, Ulp(4, 8, 0.01), torch.special.ndtri, of_terms(1024))
        y = Operand(np.array([0, 1, 0.5, 1e-7, 1.2e-5, 2, -1, math.nan]), dtype, grad=False)
        cases.add("ndtri", [y], {}, scipy.special.ndtri(y.wide.astype(np.float64)), dtype, Ulp(8))
        m = cases.choice([1e-3, 1, 1e3])
        z = Operand(cases.rng.normal(size=(3, 4)) * m, dtype)
        parts = np.modf(z.wide)
        cases.add("modf", [z], {}, list(parts), dtype, EXACT, lambda z: [z - torch.trunc(z).detach(), torch.trunc(z)])
        mantissa, e = np.frexp(z.wide)
        cases.add("frexp", [z], {}, [mantissa, e], [dtype, "i32"], EXACT, lambda z: list(torch.frexp(z)))
        i = cases.ints((4,), "i32", -3, 4)
        cases.add("ldexp", [z, i], {}, np.ldexp(z.wide, i.stored), dtype, EXACT, lambda z, _: z * torch.tensor(np.ldexp(1.0, i.stored)))
    special = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1, -2.5, 5e-324, 2.0**-149, 2.0**-1030, 1.7e308, 3e38])
    for dtype in ["f32", "f64"]:
        x = Operand(special, dtype, grad=False)
        mantissa, e = np.frexp(x.stored)
        e = np.where(np.isfinite(x.stored) & (x.stored != 0), e, 0)
        cases.add("frexp", [x], {}, [mantissa, e], [dtype, "i32"])
        cases.add("modf", [x], {}, list(np.modf(x.stored)), dtype)
        i = Operand(np.array([[0], [1], [-1], [60], [-60], [-1074], [1100], [-2100], [2100], [5000], [-(2**31)]]), "i64")
        with np.errstate(all="ignore"):
            want = np.ldexp(x.stored, np.clip(i.stored, -5000, 5000).astype(np.int32))
        cases.add("ldexp", [x, i], {}, want, dtype)
    for dtype in FLOATS + ["i32", "u8", "i64"]:
        x = cases.any((3, 4), dtype, grad=False)
        y = Operand(np.where(values_of(cases.any((4,), dtype)) == 0, 1, 2), dtype, grad=False)
        q, r = np.divmod(values_of(x), values_of(y))
        cases.add("divmod", [x, y], {}, [q, r], dtype, Ulp(1, 8, 2) if real(dtype) else EXACT)
    for dtype in ["f32", "f64"]:
        for shape, other in [((4, 3), (5, 3)), ((2, 3, 2), (1, 4, 2)), ((1, 3), (2, 3))]:
            x, y = cases.normals(shape, dtype), cases.normals(other, dtype)
            for p in [2, 1, 3, 0.5, math.inf, 0]:
                d = np.abs(x.wide[..., :, None, :] - y.wide[..., None, :, :])
                want = d.max(-1) if math.isinf(p) else (d != 0).sum(-1) if p == 0 else (d**p).sum(-1) ** (1 / p)
                o = {} if p == 2 else {"p": "inf" if math.isinf(p) else p}
                cases.add("cdist", [x, y], o, want, dtype, Ulp(4, 32, largest), (lambda x, y: torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)) if p else None)


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [
            names, sets, joining, masks, slices, indices, order, without_nan, interpolation, searches, integrals, differences,
            convolutions, polynomials, grids, pairwise,
        ]:  # fmt: skip
            family(cases)
