"""Cases of linear algebra and Fourier transforms, with torch's values and gradients in float64; least squares by LAPACK.

Of vectors that are unique up to a factor of magnitude 1 the cases compare what does not depend on it: the sum of k v_k
H(v_k) over the k-th vectors v_k.
"""

import numpy as np
import scipy.linalg
import torch

from judge import COMPLEX, Operand, is_complex, of_largest, of_terms

DTYPES = ["f32", "f64"] + COMPLEX
REAL = {"c64": "f32", "c128": "f64"}
TOLERANCE, SLOPES = of_largest(200), of_terms(4000)


def square(cases, shape, dtype, diagonal=(2.0, 1.5)):
    """Matrices far from singular, whose eigenvalues and singular values are far apart."""
    x = cases.any(shape, dtype)
    first, step = diagonal
    values = 0.3 * np.asarray(x.wide)
    for i in range(min(shape[-2:])):
        values[..., i, i] += first + step * i
    return Operand(values, dtype, layout=x.layout)


def parts(y):
    """Complex results as two real ones, which have gradients by real operands."""
    return [y.real.clone(), y.imag.clone()] if y.is_complex() else [y]


def parts_dtypes(dtype):
    return [REAL[dtype]] * 2 if dtype in REAL else [dtype]


def projections(v):
    weights = torch.arange(1, v.shape[-1] + 1, dtype=torch.float64)
    return (v * weights) @ v.mH


def add(cases, fn, operands, options, torch_fn, dtypes, tolerance=TOLERANCE, slopes=SLOPES):
    cases.by_torch(fn, operands, options, torch_fn, dtypes, tolerance, grad_tolerance=slopes)


def solvers(cases, dtype):
    real = REAL.get(dtype, dtype)
    # Up to 4 rows are done several in a vector; LAPACK has the others.
    for shape in [(3, 3), (2, 4, 4), (1, 1), (18, 2, 2), (6, 6)]:
        n = shape[-1]
        a, b = square(cases, shape, dtype), cases.any((n, 2), dtype)
        add(cases, "linalg::solve", [a, b], {}, lambda a, b: parts(torch.linalg.solve(a, b)), parts_dtypes(dtype))
        add(cases, "linalg::inv", [a], {}, lambda a: parts(torch.linalg.inv(a)), parts_dtypes(dtype))
        add(cases, "linalg::det", [a], {}, lambda a: parts(torch.linalg.det(a)), parts_dtypes(dtype))
        add(
            cases,
            "linalg::slogdet",
            [a],
            {},
            lambda a: parts(torch.linalg.slogdet(a)[0]) + [torch.linalg.slogdet(a)[1]],
            parts_dtypes(dtype) + [real],
        )
        for lower in [True, False]:
            left, unit = cases.choice([True, False]), cases.choice([True, False])
            right = b if left else cases.any((2, n), dtype)
            add(
                cases,
                "linalg::triangular_solve",
                [a, right],
                {"lower": lower, "left": left, "unit": unit},
                lambda a, b: parts(
                    torch.linalg.solve_triangular(
                        a, b.expand(*a.shape[:-2], *b.shape), upper=not lower, left=left, unitriangular=unit
                    )
                ),
                parts_dtypes(dtype),
            )


def factorisations(cases, dtype):
    real = REAL.get(dtype, dtype)
    both = parts_dtypes(dtype)
    for shape in [(3, 3), (2, 4, 4), (1, 1), (6, 6)]:
        positive = square(cases, shape, dtype, (6.0, 1.0))
        sym = lambda a: (a + a.mH) / 2
        for upper in [False, True]:
            add(
                cases,
                "linalg::cholesky",
                [positive],
                {"upper": upper},
                lambda a: parts(torch.linalg.cholesky(sym(a), upper=upper)),
                both,
            )
        add(
            cases,
            "linalg::eigh",
            [positive],
            {},
            lambda a: (lambda e: [e[0]] + parts(projections(e[1])))(torch.linalg.eigh(sym(a))),
            [real] + both,
        )
        add(cases, "linalg::eigvalsh", [positive], {}, lambda a: torch.linalg.eigvalsh(sym(a)), [real])
        general = square(cases, shape, dtype, (1.0, 4.0))
        add(cases, "linalg::eigvals", [general], {}, lambda a: ordered(torch.linalg.eig(a))[:2], [real] * 2)
        add(cases, "linalg::eig", [general], {}, lambda a: ordered(torch.linalg.eig(a)), [real] * 4)
    for shape in [(3, 3), (4, 2), (2, 2, 3)]:
        a = square(cases, shape, dtype)
        for mode in ["reduced", "complete"]:
            if mode == "complete" and shape[-2] > shape[-1]:
                continue
            add(
                cases,
                "linalg::qr",
                [a],
                {"mode": mode},
                lambda a: parts(torch.linalg.qr(a, mode)[0]) + parts(torch.linalg.qr(a, mode)[1]),
                both * 2,
            )
        add(
            cases,
            "linalg::lu",
            [a],
            {},
            lambda a: [torch.linalg.lu(a)[0].real] + parts(torch.linalg.lu(a)[1]) + parts(torch.linalg.lu(a)[2]),
            [real] + both * 2,
        )
        add(cases, "linalg::svdvals", [a], {}, torch.linalg.svdvals, [real])
        add(cases, "linalg::svd", [a], {"full": shape[-1] == shape[-2]}, singular, [real] + both * 2)
        add(cases, "linalg::pinv", [a], {}, lambda a: parts(torch.linalg.pinv(a)), both)
        b = cases.any((shape[-2], 2), dtype)
        least_squares(cases, a, b, TOLERANCE)
        add(cases, "linalg::matrix_rank", [a], {}, torch.linalg.matrix_rank, "i64", None)


def least_squares(cases, a, b, tolerance):
    """Values by LAPACK's gelsd; gradients by a product with the pseudo-inverse, which is enough where a is well-behaved."""
    wide = np.complex128 if is_complex(a.dtype) else np.float64
    left, right = np.asarray(a.wide, wide), np.asarray(b.wide, wide)
    x = np.stack([scipy.linalg.lstsq(m, right, lapack_driver="gelsd")[0] for m in left.reshape(-1, *left.shape[-2:])])
    x = x.reshape(*left.shape[:-2], *x.shape[-2:])
    values = [x.real, x.imag] if is_complex(a.dtype) else [x]
    by_product = None if tolerance is not TOLERANCE else lambda a, b: parts(torch.linalg.pinv(a) @ b)
    cases.add("linalg::lstsq", [a, b], {}, values, parts_dtypes(a.dtype), tolerance, by_product, SLOPES)


def ill_conditioned(cases, dtype):
    """Least squares whose error grows with the condition number once: by a pseudo-inverse it grows with its square."""
    condition = 1e3 if REAL.get(dtype, dtype) == "f32" else 1e7
    for shape in [(12, 5), (5, 12), (6, 6)]:
        q = [np.linalg.qr(np.asarray(cases.any((n, n), dtype).wide, np.complex128))[0] for n in shape]
        q = q if is_complex(dtype) else [np.linalg.qr(np.asarray(cases.any((n, n), dtype).wide, np.float64))[0] for n in shape]
        k = min(shape)
        a = Operand(q[0][:, :k] * np.geomspace(1, 1 / condition, k) @ q[1][:, :k].conj().T, dtype, grad=False)
        b = Operand(np.asarray(a.wide) @ np.asarray(cases.any((shape[1], 2), dtype).wide), dtype, grad=False)
        least_squares(cases, a, b, of_largest(8 * condition))


def ordered(e):
    """Eigenvalues by real part and then by imaginary part, and projections on the vectors in this order."""
    w, v = e
    keys = w.detach().numpy()
    order = torch.tensor(np.lexsort((keys.imag, keys.real), axis=-1)) if keys.ndim == 1 else None
    if order is None:
        flat = keys.reshape(-1, keys.shape[-1])
        order = torch.tensor(np.stack([np.lexsort((k.imag, k.real)) for k in flat]).reshape(keys.shape))
    w = torch.gather(w, -1, order)
    v = torch.gather(v, -1, order.unsqueeze(-2).expand(v.shape))
    p = projections(v)
    return [w.real, w.imag, p.real, p.imag]


def singular(a):
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    return [s] + parts(projections(u)) + parts(projections(vh.mH))


def others(cases, dtype):
    real, both = REAL.get(dtype, dtype), parts_dtypes(dtype)
    a, tall = square(cases, (2, 3, 3), dtype), square(cases, (4, 2), dtype)
    for ord in ["fro", "nuc", 1, -1, 2, -2, "inf", "-inf"]:
        number = float(ord) if ord in ("inf", "-inf") else ord
        keep = bool(cases.choice([True, False]))
        add(
            cases,
            "linalg::matrix_norm",
            [a if ord == 1 else tall],
            {"ord": ord, "keepdims": keep},
            lambda a: torch.linalg.matrix_norm(a, number, keepdim=keep),
            [real],
        )
        add(cases, "linalg::cond", [a], {"ord": ord}, lambda a: torch.linalg.cond(a, number), [real]) if ord in (2, -2) else add(
            cases,
            "linalg::cond",
            [a],
            {"ord": ord},
            lambda a: torch.linalg.matrix_norm(a, number) * torch.linalg.matrix_norm(torch.linalg.inv(a), number),
            [real],
        )
    for ord in [2.0, 1.0, 3.0, "inf", "-inf", 0.0]:
        number = float(ord)
        add(
            cases,
            "linalg::vector_norm",
            [a],
            {"ord": ord, "axis": 1},
            lambda a: torch.linalg.vector_norm(a, number, dim=1),
            [real],
        )
    for n in [0, 1, 2, 5, -1, -3]:
        add(cases, "linalg::matrix_power", [a], {"n": n}, lambda a: parts(torch.linalg.matrix_power(a, n)), both)
    small = cases.any((2, 3, 3), dtype)
    add(cases, "linalg::expm", [small], {}, lambda a: parts(torch.linalg.matrix_exp(a)), both, of_largest(1000))
    p, q, r = cases.any((5, 2), dtype), cases.any((2, 6), dtype), cases.any((6, 3), dtype)
    add(cases, "linalg::multi_dot", [p, q, r], {}, lambda *x: parts(torch.linalg.multi_dot(x)), both)
    x, y = cases.any((3, 4), dtype), cases.any((2, 3, 4), dtype)
    for axis in [-1, -2]:
        add(
            cases,
            "linalg::vecdot",
            [x, y],
            {"axis": axis},
            lambda x, y: parts(torch.linalg.vecdot(x, y, dim=axis)),
            both,
        )
    for k in [0, 1, -1]:
        add(cases, "linalg::diagonal", [y], {"k": k}, lambda y: parts(torch.diagonal(y, k, -2, -1)), both)
        add(cases, "linalg::trace", [y], {"k": k}, lambda y: parts(torch.diagonal(y, k, -2, -1).sum(-1)), both)


def lines(cases, fn, torch_fn, dtype, real_operand, real_result):
    """One function of one axis, with all norms and some lengths."""
    if real_operand and dtype in REAL:
        return
    out = [REAL.get(dtype, dtype)] * (1 if real_result else 2)
    for norm in ["backward", "ortho", "forward"]:
        for shape, axis, n in [((7,), -1, None), ((2, 6), 1, None), ((6, 3), 0, 4), ((3, 5), -1, 8), ((17,), 0, None)]:
            x = cases.any(shape, dtype)
            options = {"norm": norm, "axis": axis} | ({"n": n} if n else {})
            run = lambda x: parts(torch_fn(x, n=n, dim=axis, norm=norm))
            add(cases, fn, [x], options, run, out, of_largest(20), of_terms(200))


def grids(cases, fn, torch_fn, dtype, real_operand, real_result):
    if real_operand and dtype in REAL:
        return
    out = [REAL.get(dtype, dtype)] * (1 if real_result else 2)
    for norm in ["backward", "ortho", "forward"]:
        for shape, axes, s in [((3, 4), None, None), ((2, 4, 5), (0, 2), None), ((2, 4, 3), (1, 2), (3, 6))]:
            if fn.endswith("2") and axes is None:
                axes = (-2, -1)
            x = cases.any(shape, dtype)
            options = {"norm": norm} | ({"axes": list(axes)} if axes else {}) | ({"s": list(s)} if s else {})
            run = lambda x: parts(torch_fn(x, s=s, dim=axes, norm=norm))
            add(cases, fn, [x], options, run, out, of_largest(20), of_terms(200))


def transforms(cases, dtype):
    f = torch.fft
    for name, real_operand, real_result in [
        ("fft", False, False),
        ("ifft", False, False),
        ("rfft", True, False),
        ("irfft", False, True),
        ("hfft", False, True),
        ("ihfft", True, False),
    ]:
        lines(cases, f"fft::{name}", getattr(f, name), dtype, real_operand, real_result)
    for name, real_operand, real_result in [
        ("fftn", False, False),
        ("ifftn", False, False),
        ("rfftn", True, False),
        ("irfftn", False, True),
    ]:
        grids(cases, f"fft::{name}", getattr(f, name), dtype, real_operand, real_result)
        two = name[:-1] + "2"
        grids(cases, f"fft::{two}", getattr(f, two), dtype, real_operand, real_result)
    for shape in [(5,), (4, 3)]:
        for name in ["fftshift", "ifftshift"]:
            x = cases.any(shape, dtype)
            add(cases, f"fft::{name}", [x], {}, lambda x: parts(getattr(f, name)(x)), parts_dtypes(dtype), None)


def frequencies(cases):
    for n in [1, 4, 5]:
        for d in [1.0, 0.25]:
            cases.add("fft::fftfreq", [], {"n": n, "d": d}, np.fft.fftfreq(n, d), "f32", of_largest(2))
            cases.add("fft::rfftfreq", [], {"n": n, "d": d}, np.fft.rfftfreq(n, d), "f32", of_largest(2))


def add_all(cases):
    for dtype in DTYPES:
        solvers(cases, dtype)
        factorisations(cases, dtype)
        ill_conditioned(cases, dtype)
        others(cases, dtype)
        transforms(cases, dtype)
    frequencies(cases)
