"""Cases of reductions, statistics, cumulative functions, sorting and searching: values by numpy, gradients by torch."""

import math

import numpy as np
import scipy.special
import torch

from judge import COMPLEX, EXACT, FLOATS, INTS, STORED, WIDE, Operand, Ulp, is_complex, is_float, largest, to_floating

SHAPES = [
    ((6,), None),
    ((3, 4), 0),
    ((3, 4), -1),
    ((2, 3, 4), [0, 2]),
    ((2, 3, 4), [-2]),
    ((2, 1, 3), None),
    ((), None),
    ((2, 3, 4), [2, 0, 1]),
]
EMPTY = [((0,), None), ((3, 0), 1), ((3, 0), 0), ((0, 2), [0])]


def axes(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def options_of(axis, keepdims):
    return ({} if axis is None else {"axis": axis}) | ({"keepdims": True} if keepdims else {})


def folded(dtype):
    return "u64" if dtype[0] == "u" else "i64" if dtype in INTS or dtype == "bool" else dtype


def torch_axes(x, axis):
    return list(range(x.ndim)) if axis is None else [axis] if isinstance(axis, int) else axis


def torch_prod(x, axis, keepdims):
    for a in sorted((a % x.ndim for a in torch_axes(x, axis)), reverse=True):
        x = torch.prod(x, a, keepdim=keepdims)
    return x


def torch_median(x, axis, keepdims):
    y = torch.quantile(*flat_axes(x, axis, keepdims, 0.5))
    return restore(y, x, axis, keepdims)


def flat_axes(x, axis, keepdims, q):
    a = [i % x.ndim for i in torch_axes(x, axis)]
    rest = [i for i in range(x.ndim) if i not in a]
    return x.permute(rest + a).reshape([x.shape[i] for i in rest] + [-1]), q, len(rest)


def restore(y, x, axis, keepdims):
    return (
        y.reshape([1 if i in [a % x.ndim for a in torch_axes(x, axis)] else n for i, n in enumerate(x.shape)])
        if keepdims
        else y
    )


def sums(cases):
    for dtype in FLOATS + COMPLEX + INTS + ["bool"]:
        for shape, axis in SHAPES + EMPTY:
            keepdims = bool(cases.rng.integers(2))
            x = cases.any(shape, dtype)
            o, a = options_of(axis, keepdims), axes(axis)
            wide = x.wide if dtype not in INTS + ["bool"] else x.stored
            magnitude = np.sum(
                np.abs(np.asarray(wide, WIDE if not is_complex(dtype) else None)), axis=a, keepdims=keepdims
            )
            near = EXACT if dtype in INTS + ["bool"] else Ulp(1, 8, magnitude)
            real = is_float(dtype)
            sum_t = (lambda x: torch.sum(x, torch_axes(x, axis), keepdim=keepdims)) if real else None
            cases.add("sum", [x], o, np.sum(wide, axis=a, keepdims=keepdims), folded(dtype), near, sum_t)
            if x.stored.size:
                mean = np.mean(wide.astype(WIDE) if not is_complex(dtype) else wide, axis=a, keepdims=keepdims)
                count = max(1, x.stored.size / max(1, np.size(mean)))
                cases.add(
                    "mean",
                    [x],
                    o,
                    mean,
                    to_floating(dtype),
                    Ulp(2, 8, magnitude / count),
                    (lambda x: torch.mean(x, torch_axes(x, axis), keepdim=keepdims)) if real else None,
                )
            if not is_complex(dtype):
                y = cases.floats(shape, dtype, 0.5, 2) if real else x
                w = y.wide if real else y.stored
                cases.add(
                    "prod",
                    [y],
                    o,
                    np.prod(w, axis=a, keepdims=keepdims),
                    folded(dtype),
                    Ulp(40) if real else EXACT,
                    (lambda x: torch_prod(x, axis, keepdims)) if real and len(shape) and 0 not in shape else None,
                )
            for name, f in [("all", np.all), ("any", np.any), ("count_nonzero", np.count_nonzero)]:
                cases.add(
                    name,
                    [x],
                    o,
                    np.asarray(f(wide, axis=a, keepdims=keepdims)),
                    "i64" if name == "count_nonzero" else "bool",
                )


def given_dtypes(cases):
    """numpy's dtype=: what the elements are converted to before they are folded."""
    for dtype in ["f32", "f64", "i8", "u8", "i32", "bool"]:
        for to in ["f64", "f32", "i8", "u16", "i64"]:
            for shape, axis in [((5,), None), ((3, 4), 0), ((2, 3, 4), 1)]:
                x = cases.floats(shape, dtype, 0, 100) if is_float(dtype) else cases.any(shape, dtype)
                o = {"dtype": to} | ({} if axis is None else {"axis": axis})
                terms = x.stored.astype(STORED[to])
                wide = terms.astype(WIDE) if is_float(to) else terms
                work = {"dtype": WIDE if is_float(to) else STORED[to]}
                near = Ulp(1, 8, np.sum(np.abs(wide), axis=axis)) if is_float(to) else EXACT
                real = is_float(dtype) and to in (dtype, "f64")  # otherwise the gradient is rounded too
                run = lambda f: lambda y: f(y) if axis is None else f(y, axis)
                cases.add("sum", [x], o, np.sum(terms, axis=axis, **work), to, near, run(torch.sum) if real else None)
                cases.add("prod", [x], o, np.prod(terms, axis=axis, **work), to, Ulp(40) if is_float(to) else EXACT)
                line = terms if axis is not None else terms.ravel()
                running = np.cumsum(line, axis=axis or 0, **work)
                near = Ulp(1, 8, np.cumsum(np.abs(wide.reshape(line.shape)), axis=axis or 0)) if is_float(to) else EXACT
                cases.add("cumsum", [x], o, running, to, near)
                running = np.cumprod(line, axis=axis or 0, **work)
                cases.add("cumprod", [x], o, running, to, Ulp(40) if is_float(to) else EXACT)
                if is_float(to):
                    near = Ulp(2, 8, np.mean(np.abs(wide), axis=axis))
                    cases.add("mean", [x], o, np.mean(wide, axis=axis), to, near, run(torch.mean) if real else None)


def zero_products(cases):
    """Gradients of a product with zeros among its factors."""
    for dtype in ["f32", "f64"]:
        for zeros in [[1], [0, 2], [0, 1, 2, 3]]:
            values = cases.rng.uniform(0.5, 2, (4, 3))
            values[zeros, 1] = 0
            x = Operand(values, dtype)
            cases.add("prod", [x], {"axis": 0}, np.prod(x.wide, axis=0), dtype, Ulp(40), lambda x: torch.prod(x, 0))
            cases.add(
                "cumprod", [x], {"axis": 0}, np.cumprod(x.wide, axis=0), dtype, Ulp(40), lambda x: torch.cumprod(x, 0)
            )


def extremes(cases):
    for dtype in FLOATS + INTS + ["bool"]:
        for shape, axis in SHAPES:
            keepdims = bool(cases.rng.integers(2))
            x = cases.any(shape, dtype)
            o, a = options_of(axis, keepdims), axes(axis)
            wide = x.wide if is_float(dtype) else x.stored
            real = is_float(dtype)
            for name, f, t in [("max", np.max, torch.amax), ("min", np.min, torch.amin)]:
                cases.add(
                    name,
                    [x],
                    o,
                    f(wide, axis=a, keepdims=keepdims),
                    dtype,
                    EXACT,
                    (lambda x, t=t: t(x, torch_axes(x, axis), keepdim=keepdims)) if real else None,
                )
            if dtype != "bool":
                cases.add(
                    "ptp",
                    [x],
                    o,
                    np.max(wide, axis=a, keepdims=keepdims) - np.min(wide, axis=a, keepdims=keepdims),
                    dtype,
                    Ulp(1) if real else EXACT,
                    (
                        (
                            lambda x: torch.amax(x, torch_axes(x, axis), keepdim=keepdims)
                            - torch.amin(x, torch_axes(x, axis), keepdim=keepdims)
                        )
                        if real
                        else None
                    ),
                )
            if axis is None or isinstance(axis, int):
                for name, f in [("argmax", np.argmax), ("argmin", np.argmin)]:
                    cases.add(name, [x], o, np.asarray(f(wide, axis=axis, keepdims=keepdims)), "i64")
        if is_float(dtype):
            for values in [
                [1, math.nan, 3, math.nan],
                [math.inf, -math.inf, 0, 1],
                [-0.0, 0.0, -0.0, 0.0],
                [2, 2, 1, 2],
                [math.nan] * 4,
            ]:
                x = Operand(np.array(values), dtype, grad=not np.any(~np.isfinite(values)))
                for name, f, t in [("max", np.max, torch.amax), ("min", np.min, torch.amin)]:
                    if values[1] != 0:
                        cases.add(name, [x], {}, f(x.wide), dtype, EXACT, lambda x, t=t: t(x, [0]))
                for name, f in [("argmax", np.argmax), ("argmin", np.argmin)]:
                    cases.add(name, [x], {}, np.asarray(f(x.wide)), "i64")


def torch_var(x, axis, keepdims, correction):
    mean = torch.mean(x, torch_axes(x, axis), keepdim=True)
    n = x.numel() / max(1, mean.numel()) - correction
    return torch.sum((x - mean) ** 2, torch_axes(x, axis), keepdim=keepdims) / n


def spreads(cases):
    for dtype in FLOATS:
        for shape, axis in SHAPES[:6] + SHAPES[7:]:
            for correction in [0, 1, 0.5]:
                keepdims = bool(cases.rng.integers(2))
                offset = cases.choice([0, 0, 30])
                x = Operand(cases.rng.normal(size=shape) + offset, dtype, cases.layout(shape))
                o = options_of(axis, keepdims) | ({"correction": correction} if correction else {})
                a = axes(axis)
                var = np.var(x.wide, axis=a, keepdims=keepdims, ddof=correction)
                t = lambda x: torch_var(x, axis, keepdims, correction)
                cases.add("var", [x], o, var, dtype, Ulp(2, 8, largest), t)
                cases.add("stddev", [x], o, np.sqrt(var), dtype, Ulp(2, 8, largest), lambda x: torch.sqrt(t(x)))
    for dtype in ["i32", "bool", "u8"]:
        x = cases.ints((3, 5), dtype)
        cases.add("var", [x], {"axis": 1}, np.var(x.stored.astype(WIDE), axis=1), "f32", Ulp(2, 8, largest))
        cases.add("stddev", [x], {}, np.std(x.stored.astype(WIDE)), "f32", Ulp(2, 8, largest))
    x = cases.any((4, 3), "c64")
    cases.add("var", [x], {"axis": 0}, np.var(x.wide, axis=0), "f32", Ulp(4, 8, largest))


def logsumexps(cases):
    for dtype in FLOATS:
        for shape, axis in SHAPES:
            keepdims = bool(cases.rng.integers(2))
            x = cases.floats(shape, dtype, -5, 5)
            a = axes(axis)
            wide = x.wide
            top = np.max(wide, axis=a, keepdims=True)
            value = np.log(np.sum(np.exp(wide - top), axis=a, keepdims=True)) + top
            value = value if keepdims else np.squeeze(value, axis=tuple(range(wide.ndim)) if a is None else a)
            cases.add(
                "logsumexp",
                [x],
                options_of(axis, keepdims),
                value,
                dtype,
                Ulp(4, 4, largest(wide)),
                lambda x: torch.logsumexp(x, torch_axes(x, axis), keepdim=keepdims),
            )
        x = Operand(
            np.array([[1, math.inf, 2], [-math.inf] * 3, [math.nan, 1, 2], [1000, 1001, 999]]), dtype, grad=False
        )
        value = scipy.special.logsumexp(x.wide.astype(np.float64), axis=1)
        cases.add("logsumexp", [x], {"axis": 1}, value, dtype, Ulp(6))


def nan_reductions(cases):
    for dtype in FLOATS:
        for shape, axis in SHAPES[:6]:
            keepdims = bool(cases.rng.integers(2))
            values = cases.rng.uniform(0.5, 2, shape)
            if values.size > 3:
                values = np.where(cases.rng.random(shape) < 0.3, math.nan, values)
            if shape == (3, 4):
                values[1] = math.nan
            x = Operand(values, dtype, cases.layout(shape))
            o, a = options_of(axis, keepdims), axes(axis)
            pick = lambda x: torch.where(torch.isnan(x), 0.0, x)
            near = Ulp(1, 8, largest)
            cases.add(
                "nansum",
                [x],
                o,
                np.nansum(x.wide, axis=a, keepdims=keepdims),
                dtype,
                near,
                lambda x: torch.sum(pick(x), torch_axes(x, axis), keepdim=keepdims),
            )
            cases.add("nanprod", [x], o, np.nanprod(x.wide, axis=a, keepdims=keepdims), dtype, Ulp(40))
            cases.add("nanmean", [x], o, np.nanmean(x.wide, axis=a, keepdims=keepdims), dtype, near)
            cases.add("nanmax", [x], o, np.nanmax(x.wide, axis=a, keepdims=keepdims), dtype)
            cases.add("nanmin", [x], o, np.nanmin(x.wide, axis=a, keepdims=keepdims), dtype)
            for correction in [0, 1]:
                c = o | ({"correction": correction} if correction else {})
                cases.add(
                    "nanvar",
                    [x],
                    c,
                    np.nanvar(x.wide, axis=a, keepdims=keepdims, ddof=correction),
                    dtype,
                    Ulp(2, 8, largest),
                )
                cases.add(
                    "nanstd",
                    [x],
                    c,
                    np.nanstd(x.wide, axis=a, keepdims=keepdims, ddof=correction),
                    dtype,
                    Ulp(2, 8, largest),
                )
    for dtype in ["f32", "f64"]:  # gradients, where every row has three numbers
        values = cases.rng.normal(size=(4, 5))
        values[np.arange(4), [0, 2, 4, 1]] = values[np.arange(4), [1, 3, 0, 2]] = math.nan
        x = Operand(values, dtype)
        keep = ~torch.isnan(x.torch())
        rows = lambda x: x[keep].reshape(4, 3)
        for name, f in [
            ("nanmean", lambda r: r.mean(1)),
            ("nanvar", lambda r: r.var(1, correction=0)),
            ("nanstd", lambda r: r.std(1, correction=0)),
            ("nanmax", lambda r: r.amax(1)),
            ("nanmin", lambda r: r.amin(1)),
            ("nanprod", lambda r: r.prod(1)),
        ]:
            cases.by_torch(name, [x], {"axis": 1}, lambda x, f=f: f(rows(x)), dtype, Ulp(8, 8, largest))


def norms(cases):
    for dtype in FLOATS:
        for shape, axis in SHAPES[:6]:
            for order in [2, 1, math.inf, -math.inf, 0, 3, 0.5, 2.5]:
                keepdims = bool(cases.rng.integers(2))
                x = cases.normals(shape, dtype)
                a = tuple(range(len(shape))) if axis is None else axes(axis)
                m = np.abs(x.wide)
                value = (
                    np.max(m, axis=a, keepdims=keepdims)
                    if order == math.inf
                    else (
                        np.min(m, axis=a, keepdims=keepdims)
                        if order == -math.inf
                        else (
                            np.sum(m != 0, axis=a, keepdims=keepdims)
                            if order == 0
                            else np.sum(m ** WIDE(order), axis=a, keepdims=keepdims) ** (1 / WIDE(order))
                        )
                    )
                )
                o = options_of(axis, keepdims) | (
                    {} if order == 2 else {"ord": order if math.isfinite(order) else str(order)}
                )
                cases.add(
                    "norm",
                    [x],
                    o,
                    value,
                    dtype,
                    Ulp(12),
                    lambda x: torch.linalg.vector_norm(x, order, torch_axes(x, axis), keepdim=keepdims),
                )
    for dtype in ["f32", "f64"]:
        for order in [1, 2, 3]:
            x = Operand(np.zeros(4), dtype)
            cases.add(
                "norm", [x], {"ord": order}, np.array(0.0), dtype, EXACT, lambda x: torch.linalg.vector_norm(x, order)
            )
    x = cases.any((3, 2), "c64")
    cases.add("norm", [x], {}, np.sqrt(np.sum(np.abs(x.wide) ** 2)), "f32", Ulp(6))


def quantiles(cases):
    for dtype in ["f32", "f64"]:
        for shape, axis in SHAPES[:6]:
            keepdims = bool(cases.rng.integers(2))
            x = cases.normals(shape, dtype)
            o, a = options_of(axis, keepdims), axes(axis)
            near = Ulp(2, 4, largest(x.wide))
            cases.add(
                "median",
                [x],
                o,
                np.median(x.wide, axis=a, keepdims=keepdims),
                dtype,
                Ulp(1),
                lambda x: torch_quantile(x, torch.tensor(0.5, dtype=torch.float64), axis, keepdims, middle),
            )
            for q in [0.25, 0.0, 1.0, [0.1, 0.5, 0.9]]:
                share = Operand(np.array(q), dtype, grad=False)
                cases.add(
                    "quantile",
                    [x, share],
                    o,
                    np.quantile(x.wide.astype(np.float64), share.wide.astype(np.float64), axis=a, keepdims=keepdims),
                    dtype,
                    near,
                    lambda x, q: torch_quantile(x, q, axis, keepdims),
                )
                percent = Operand(np.array(q) * 100, dtype, grad=False)
                cases.add(
                    "percentile",
                    [x, percent],
                    o,
                    np.percentile(
                        x.wide.astype(np.float64), percent.wide.astype(np.float64), axis=a, keepdims=keepdims
                    ),
                    dtype,
                    Ulp(2, 8, largest(x.wide)),
                )
        x = Operand(np.array([[1, 2, math.nan, 4], [4, 3, 2, 1]]), dtype, grad=False)
        cases.add("median", [x], {"axis": 1}, np.median(x.wide, axis=1), dtype)


def middle(x, q, axis):
    """The median, whose interpolation by torch.quantile cancels."""
    s, n = torch.sort(x, axis).values, x.shape[axis]
    return (s.select(axis, (n - 1) // 2) + s.select(axis, n // 2)) / 2


def torch_quantile(x, q, axis, keepdims, f=torch.quantile):
    flat, _, _ = flat_axes(x, axis, keepdims, q)
    y = f(flat, q, -1)
    if keepdims:
        shape = [1 if i in [a % x.ndim for a in torch_axes(x, axis)] else n for i, n in enumerate(x.shape)]
        y = y.reshape(list(q.shape) + shape)
    return y


def statistics(cases):
    for dtype in ["f32", "f64"]:
        x, w = cases.normals((3, 4), dtype), cases.floats((3, 4), dtype, 0.2, 2)
        v = cases.floats((4,), dtype, 0.2, 2)
        for weights, axis, average in [
            (w, None, lambda x, w: (x * w).sum() / w.sum()),
            (w, 0, lambda x, w: (x * w).sum(0) / w.sum(0)),
            (v, 1, lambda x, v: (x * v).sum(1) / v.sum()),
            (v, -1, None),
        ]:
            o = {} if axis is None else {"axis": axis}
            if average is None:
                o["keepdims"] = True
            mean = lambda x: np.average(x, weights=weights.wide, **o)
            near = Ulp(4, 12, mean(np.abs(x.wide)))  # of the terms' magnitudes: they may cancel
            cases.add("average", [x, weights], o, mean(x.wide), dtype, near, average)
        for shape in [(3, 6), (5,), (2, 4), (1, 6)]:
            y = cases.normals(shape, dtype)
            for c in [1, 0]:
                cases.add(
                    "cov",
                    [y],
                    {} if c == 1 else {"correction": 0},
                    np.cov(y.wide.astype(np.float64), ddof=c),
                    dtype,
                    Ulp(4, 12, largest),
                    lambda y, c=c: torch.cov(y, correction=c),
                )
            cases.add(
                "corrcoef",
                [y],
                {},
                np.corrcoef(y.wide.astype(np.float64)),
                dtype,
                Ulp(4, 12, largest),
                lambda y: torch.corrcoef(y),
            )
    for dtype in ["i32", "u8", "i64"]:
        x = cases.ints((30,), dtype, 0, 7)
        cases.add("bincount", [x], {}, np.bincount(x.stored), "i64")
        cases.add("bincount", [x], {"minlength": 12}, np.bincount(x.stored, minlength=12), "i64")
        cases.add("bincount", [x], {"length": 4}, np.bincount(x.stored, minlength=12)[:4], "i64")
    cases.add("bincount", [Operand(np.zeros(0), "i64")], {}, np.zeros(0), "i64")
    for dtype in ["f32", "f64"]:
        x = cases.normals((60,), dtype, grad=False)
        for o in [{}, {"bins": 7}, {"bins": 5, "range": [-1.0, 1.5]}]:
            counts, edges = np.histogram(
                x.wide.astype(np.float64), bins=o.get("bins", 10), range=tuple(o["range"]) if "range" in o else None
            )
            cases.add("histogram", [x], o, [counts, edges], ["i64", dtype], [EXACT, Ulp(2, 4, largest)])


def sums_to(cases):
    for dtype in FLOATS + ["i32"]:
        for shape, to in [((3, 4), (4,)), ((2, 3, 4), (3, 1)), ((3, 4), ()), ((2, 3), (2, 3))]:
            x = cases.any(shape, dtype)
            w = x.wide if is_float(dtype) else x.stored
            lead = len(shape) - len(to)
            a = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(to) if n == 1 and shape[i + lead] != 1)
            y = np.sum(w, axis=a, keepdims=True).reshape(to) if a else w
            cases.add(
                "sum_to",
                [x],
                {"shape": list(to)},
                y,
                dtype,
                Ulp(1, 8, np.sum(np.abs(w))) if is_float(dtype) else EXACT,
                (lambda x: (x.sum(a, keepdim=True) if a else x * 1).reshape(to)) if is_float(dtype) else None,
            )


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [
            sums,
            given_dtypes,
            zero_products,
            extremes,
            spreads,
            logsumexps,
            nan_reductions,
            norms,
            quantiles,
            statistics,
            sums_to,
        ]:
            family(cases)
