"""Cases of matrices with a structure, windows, choices, histograms and the methods of quantiles: values of numpy and scipy,
gradients of torch."""

import math

import numpy as np
import scipy.linalg
import torch
from judge import EXACT, FLOATS, Operand, Ulp, Within, encode, is_complex, is_float, largest, of_largest, of_terms
from matrices import add, parts, parts_dtypes, square

METHODS = [
    "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf", "closest_observation",
    "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased",
]  # fmt: skip


def elements(x):
    return x.wide if is_float(x.dtype) or is_complex(x.dtype) else x.stored


def places(shape, of):
    """Which element of the flattened operand each element of a result is, or -1 for a zero: of(an array of 1, 2, ...)."""
    return of(np.arange(1, math.prod(shape) + 1).reshape(shape)).astype(np.int64) - 1


def moved(cases, fn, x, options, of):
    """A result that only moves x's elements, or puts zeros beside them; the gradients go the same way."""
    at = torch.from_numpy(places(x.shape, of))

    def run(t):
        flat = torch.cat([t.reshape(-1), torch.zeros(1, dtype=t.dtype)])
        return flat[at]  # -1 is the zero at the end

    zeros = np.concatenate([elements(x).reshape(-1), np.zeros(1, elements(x).dtype)])
    cases.add(fn, [x], options, zeros[at.numpy()], x.dtype, EXACT, run if is_float(x.dtype) else None)


def matrices(cases):
    for dtype in ["f32", "f64", "i32", "bf16"]:
        for n in [1, 2, 5]:
            c = cases.any((n,), dtype)
            moved(cases, "linalg::toeplitz", c, {}, scipy.linalg.toeplitz)
            moved(cases, "linalg::hankel", c, {}, scipy.linalg.hankel)
            moved(cases, "linalg::circulant", c, {}, scipy.linalg.circulant)
        for offset, axis1, axis2 in [(0, -2, -1), (1, 0, 1), (-2, 2, 0), (3, -1, 0)]:
            x = cases.any((2, 3), dtype)
            embed = lambda a: torch.diag_embed(torch.from_numpy(a), offset, axis1, axis2).numpy()
            moved(cases, "diag_embed", x, {"offset": offset, "axis1": axis1, "axis2": axis2}, embed)
        x = cases.any((4, 6), dtype)
        for sizes, axis in [([2, 3], 1), ([-1, 2], 0), ([4], 0), ([3, -1, 2], -1)]:
            unflatten = lambda a: torch.from_numpy(a).unflatten(axis, sizes).numpy()
            moved(cases, "unflatten", x, {"sizes": sizes, "axis": axis}, unflatten)
        for window, axes in [([2, 3], None), ([3], [1]), ([2], [-2]), ([1, 6], [0, 1]), ([2, 4], [1, 0])]:
            windows = lambda a: np.lib.stride_tricks.sliding_window_view(a, window, axes)
            o = {"window": window} | ({} if axes is None else {"axes": axes})
            moved(cases, "sliding_window_view", x, o, windows)
        for times, axis in [([2, 0, 1, 3], 0), ([1], 1), ([0, 1, 2, 3, 0, 1], -1), ([2], None)]:
            t = Operand(np.array(times), "i64")
            o = {} if axis is None else {"axis": axis}
            of = lambda x: torch.repeat_interleave(x, torch.tensor(times if len(times) > 1 else times[0]), axis)
            cases.add("repeat by a tensor", [x, t], o, np.repeat(elements(x), times, axis), dtype, EXACT, (lambda x, t: of(x)) if is_float(dtype) else None)
        v = cases.any((4,), dtype)
        for r, again in [(2, False), (3, False), (2, True), (1, True), (4, False), (5, False), (0, False)]:
            y = torch.combinations(torch.arange(4), r, again).numpy() if r else np.zeros((1, 0), np.int64)
            cases.add("combinations", [v], {"r": r, "with_replacement": again}, elements(v)[y], dtype, EXACT,
                      (lambda v, y=y: v[torch.from_numpy(y)]) if is_float(dtype) and y.size else None)  # fmt: skip
        a, b, c = cases.any((2,), dtype), cases.any((3,), dtype), cases.any((1,), dtype)
        product = lambda *v: torch.cartesian_prod(*v)
        cases.add("cartesian_prod", [a, b, c], {}, product(*[o.torch() for o in (a, b, c)]).numpy(), dtype, EXACT, product if is_float(dtype) else None)
        for shapes in [[(2, 3), (), (2,), (0, 2), (1, 1)], [(2, 1), (3,)]]:
            blocks = [cases.any(s, dtype) for s in shapes]
            joined = scipy.linalg.block_diag(*[np.atleast_2d(elements(o)) for o in blocks])
            cases.add("block_diag", blocks, {}, joined, dtype, EXACT, (lambda *v: torch.block_diag(*v)) if is_float(dtype) else None)
    for dtype in ["f32", "f64", "c64", "c128"]:
        c, r = cases.any((3,), dtype), cases.any((5,), dtype)
        cases.add("linalg::toeplitz", [c, r], {}, scipy.linalg.toeplitz(c.wide, r.wide), dtype)
        cases.add("linalg::toeplitz", [c], {}, scipy.linalg.toeplitz(c.wide), dtype)
        cases.add("linalg::hankel", [c, r], {}, scipy.linalg.hankel(c.wide, r.wide), dtype)
        if not is_complex(dtype):
            p = cases.floats((4,), dtype, 0.5, 2)
            row = lambda p: torch.cat([(-p[1:] / p[0])[None], torch.eye(2, 3, dtype=p.dtype)])
            cases.add("linalg::companion", [p], {}, scipy.linalg.companion(p.wide), dtype, Ulp(1), row)
            for n in [1, 2, 8]:
                cases.add("linalg::hadamard", [], {"n": n, "dtype": dtype}, scipy.linalg.hadamard(n), dtype)
            for n in [0, 1, 4]:
                cases.add("linalg::hilbert", [], {"n": n, "dtype": dtype}, scipy.linalg.hilbert(n) if n else np.zeros((0, 0)), dtype, Ulp(0.5))


def factors(cases):
    for dtype in ["f32", "f64", "c64", "c128"]:
        both, real = parts_dtypes(dtype), {"c64": "f32", "c128": "f64"}.get(dtype, dtype)
        for shape, right in [((3, 3), (3, 2)), ((2, 4, 4), (4, 1)), ((5, 5), (5,))]:
            a, b = square(cases, shape, dtype), cases.any(right, dtype)
            solve = lambda a, b: parts(torch.linalg.solve(a, b[:, None])[..., 0] if b.ndim == 1 else torch.linalg.solve(a, b))
            add(cases, "linalg::lu_solve", [a, b], {}, solve, both)
            for upper in [False, True]:
                add(cases, "linalg::cholesky_solve", [a, b], {"upper": upper},
                    lambda a, b: solve(a @ a.mH + torch.eye(a.shape[-1], dtype=a.dtype), b), both)  # fmt: skip
        for shape in [(4, 4), (5, 3), (2, 3, 4)]:
            x = square(cases, shape, dtype)
            for left in [False, True]:
                def polar(x):
                    u, s, vh = torch.linalg.svd(x, full_matrices=False)
                    p = (u * s[..., None, :]) @ u.mH if left else vh.mH @ (s[..., :, None] * vh)
                    return parts(u @ vh) + parts(p)
                # The imaginary part of p may be small beside the matrix, whose rounding it has.
                add(cases, "linalg::polar", [x], {"left": left}, polar, both * 2, of_largest(2000))
        m, rank = np.asarray(cases.any((5, 2), dtype).wide), 2
        x = Operand(m @ np.asarray(cases.any((2, 4), dtype).wide), dtype, grad=False)
        wide = np.asarray(x.wide).astype(np.complex128 if is_complex(dtype) else np.float64)
        u, _, vh = np.linalg.svd(wide)
        onto = u[:, :rank] @ u[:, :rank].conj().T, vh[rank:].conj().T @ vh[rank:]
        for fn, p in [("linalg::orth", onto[0]), ("linalg::null_space", onto[1])]:
            values = [p.real, p.imag] if is_complex(dtype) else [p]
            cases.add(fn, [x], {"rtol": 1e-4}, values, both, of_largest(4000))
        a, b = cases.any((2, 3), dtype), cases.any((4, 3), dtype)
        add(cases, "linalg::khatri_rao", [a, b], {}, lambda a, b: parts((a[:, None] * b).reshape(8, 3)), both, of_largest(8))


def rounding(cases):
    for dtype in FLOATS:
        x = cases.floats((20,), dtype, -700, 700)
        for d in [0, 1, 2, -1, -2]:
            work = np.float32 if dtype != "f64" else np.float64
            v, unit = x.wide.astype(work), work(10 ** abs(d))
            y = np.rint(v * unit) / unit if d >= 0 else np.rint(v / unit) * unit
            cases.add("round", [x], {"decimals": d}, y, dtype, Ulp(0.5), lambda x: torch.round(x, decimals=d))
        cases.add("frac", [x], {}, np.modf(x.wide)[0], dtype, EXACT, torch.frac)
    for dtype in ["i8", "u8", "i32", "i64", "u64"]:
        x = cases.ints((30,), dtype, -128, 127)
        for d in [2, 0, -1, -2]:
            y = np.rint(x.stored.astype(np.float64) / 10 ** max(0, -d)) * 10 ** max(0, -d)
            cases.add("round", [x], {"decimals": d}, y.astype(np.int64).astype(x.stored.dtype), dtype)
    for dtype, out in [("f32", "c64"), ("f64", "c128")]:
        m, a = cases.floats((6,), dtype, 0.1, 3), cases.floats((6,), dtype, -4, 4)
        cases.add("polar", [m, a], {}, [m.wide * np.cos(a.wide), m.wide * np.sin(a.wide)], dtype, Ulp(3),
                  lambda m, a: [m * torch.cos(a), m * torch.sin(a)])  # fmt: skip


def counts(cases):
    for dtype in ["f32", "f64"]:
        near, sums = Ulp(2, 4, largest), Ulp(2, 2, largest)
        x, w = cases.normals((30,), dtype, grad=False), cases.floats((30,), dtype)
        wide, weights = x.wide.astype(np.float64), w.wide.astype(np.float64)
        for o in [{}, {"bins": 7}, {"bins": 5, "range": [-1.0, 1.5]}]:
            k = {"bins": o.get("bins", 10)} | ({"range": tuple(o["range"])} if "range" in o else {})
            share, edges = np.histogram(wide, density=True, **k)
            cases.add("histogram", [x], o | {"density": True}, [share, edges], dtype, [Ulp(16), near])
            sum_, _ = np.histogram(wide, weights=weights, **k)
            at = np.clip(np.searchsorted(edges, wide, "right") - 1 - (wide == edges[-1]), -1, len(sum_))
            pick = torch.from_numpy(np.where((at >= 0) & (at < len(sum_)), at, len(sum_)))
            added = lambda x, w: [torch.zeros(len(sum_) + 1, dtype=w.dtype).index_add(0, pick, w)[:-1], torch.from_numpy(edges)]
            cases.add("histogram", [x, w], o, [sum_, edges], dtype, [sums, near], added if "range" in o else None)
            cases.add("histogram_bin_edges", [x], o, edges, dtype, near)
        given = Operand(np.array([-2, -0.5, -0.5, 0, 0.25, 3]), dtype, grad=False)
        found, _ = np.histogram(wide, given.wide.astype(np.float64))
        cases.add("histogram", [x, given], {"given": True}, [found, given.wide], ["i64", dtype])
        points, more = cases.normals((50, 2), dtype, grad=False), Operand(np.array([-1.0, 0, 2]), dtype, grad=False)
        grid = [given.wide.astype(np.float64)[[0, 1, 3, 5]], more.wide.astype(np.float64)]
        cut = Operand(np.array(grid[0]), dtype, grad=False)
        for density in [False, True]:
            h, edges = np.histogramdd(points.wide.astype(np.float64), grid, density=density)
            cases.add("histogramdd", [points, cut, more], {"given": True, "density": density}, [h, *edges],
                      [dtype if density else "i64", dtype, dtype], [Ulp(16) if density else EXACT, EXACT, EXACT])  # fmt: skip
        ids = cases.ints((30,), "i32", 0, 7)
        t = cases.normals((30,), dtype)
        one = lambda ids, t: torch.zeros(9, dtype=t.dtype).index_add(0, ids.long(), t)
        sums = np.bincount(ids.stored, t.wide.astype(np.float64), 9)
        for o in [{"minlength": 9}, {"length": 9}]:
            cases.add("bincount", [ids, t], o, sums, dtype, Ulp(2, 4, largest), one if "length" in o else None)


def methods(cases):
    for dtype in ["f32", "f64", "f16"]:
        for n in [1, 2, 5, 8]:
            x = cases.normals((3, n), dtype)
            wide = x.wide.astype(np.float64)
            holed = np.where(cases.rng.random((3, n)) < 0.3, np.nan, wide)
            h = Operand(holed, dtype, grad=False)
            for method in METHODS:
                q = Operand(np.array([0, 0.125, 0.25, 0.5, 0.625, 0.875, 1]), "f64", grad=False)
                o = {"axis": 1, "method": method}
                near = Ulp(2, 4, largest) if dtype != "f16" else Ulp(1)
                cases.add("quantile", [x, q], o, np.quantile(wide, q.wide.astype(np.float64), axis=1, method=method), dtype, near)
                with np.errstate(all="ignore"):
                    y = np.nanquantile(holed, q.wide.astype(np.float64), axis=1, method=method)
                cases.add("nanquantile", [h, q], o, y, dtype, near)


def add_all(cases):
    for family in [matrices, factors, rounding, counts, methods]:
        family(cases)
