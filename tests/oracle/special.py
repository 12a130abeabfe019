"""Special functions (ops/special.h), distributions with parameters (ops/distributions.h) and signals (ops/signal.h):
values by mpmath with forty digits, gradients by derivatives that torch's tape is told, draws by the quantiles and
probabilities of scipy.stats.
"""

import functools

import mpmath
import numpy as np
import scipy.special
import scipy.stats
import torch

from judge import FLOATS, WIDE, Operand, Ulp, Within, at_least_one, of_terms
from programs import counts, quantiles

mpmath.mp.dps = 40
INF, NAN = mpmath.mpf("inf"), mpmath.mpf("nan")


def exactly(f):
    """A function of mpmath's numbers on arrays of long doubles, which broadcast."""

    def number(*x):
        if any(np.isnan(v) for v in x):
            return WIDE(np.nan)
        y = f(*[mpmath.mpf(float(v)) + (mpmath.mpf(float(v - WIDE(float(v)))) if np.isfinite(v) else 0) for v in x])
        if isinstance(y, mpmath.mpc):
            y = mpmath.re(y)
        high = float(y)
        return WIDE(high) + WIDE(float(y - mpmath.mpf(high))) if np.isfinite(high) else WIDE(high)

    return lambda *x: np.array([number(*v) for v in np.broadcast(*x)], WIDE).reshape(np.broadcast_shapes(*map(np.shape, x)))


def known(f, *slopes):
    """The function f of arrays of float64 for torch's tape, with its derivatives, functions of tensors; None: there is
    none. `once` ones have no derivatives themselves."""

    class Known(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *x):
            ctx.save_for_backward(*x)
            return torch.tensor(np.asarray(f(*[t.detach().numpy() for t in x]), np.float64))

        @staticmethod
        def backward(ctx, g):
            return tuple(
                g * s(*ctx.saved_tensors) if s is not None and needs else None
                for s, needs in zip(slopes, ctx.needs_input_grad)
            )

    return lambda *x: Known.apply(*(torch.broadcast_tensors(*x) if len(x) > 1 else x))


def smooth(f, *slopes):
    """A function of one of mpmath's numbers for torch's tape. Its derivatives are mpmath's too, the first of them as given:
    for those whose closed form is a small difference of large numbers."""

    def value(x):
        with mpmath.workdps(60):
            return f(x)

    after = slopes or [lambda x: mpmath.diff(f, x)]
    return known(exactly(value), lambda x: smooth(*after)(x))


def once(f):
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *x):
            return torch.tensor(np.asarray(f(*[t.detach().numpy() for t in x]), np.float64))

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("there is no second derivative")

    return Once.apply


def slope_of(f, place):
    """The derivative of a function of mpmath's numbers by one of them, by differences."""

    def slope(*x):
        with mpmath.workdps(60):
            h = abs(x[place]) * mpmath.mpf(10) ** -15
            moved = lambda by: f(*[v + by if i == place else v for i, v in enumerate(x)])
            return (moved(h) - moved(-h)) / (2 * h)

    return exactly(slope)


# --- Functions of one number ------------------------------------------------------------------------------------------

unless_zero = lambda x, limit, f: torch.where(x == 0, limit, f(torch.where(x == 0, 1, x)))


def erfcx(x):
    return 1 / (x * mpmath.sqrt(mpmath.pi)) * (1 - 1 / (2 * x * x)) if x > 1e10 else mpmath.exp(x * x) * mpmath.erfc(x)


VALUE = {
    "j0": exactly(lambda x: mpmath.besselj(0, x)),
    "j1": exactly(lambda x: mpmath.besselj(1, x)),
    "y0": exactly(lambda x: mpmath.bessely(0, x)),
    "y1": exactly(lambda x: mpmath.bessely(1, x)),
    "k0": exactly(lambda x: mpmath.besselk(0, x)),
    "k1": exactly(lambda x: mpmath.besselk(1, x)),
    "i0": exactly(lambda x: mpmath.besseli(0, x)),
    "i1": exactly(lambda x: mpmath.besseli(1, x)),
    "i0e": exactly(lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
    "i1e": exactly(lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))),
    "erfcx": exactly(lambda x: erfcx(x)),
    "entr": exactly(lambda x: -x * mpmath.log(x) if x > 0 else mpmath.mpf(0) if x == 0 else -INF),
}
J0 = known(VALUE["j0"], lambda x: -J1(x))
J1 = known(VALUE["j1"], lambda x: J0(x) - unless_zero(x, 0.5, lambda z: J1(z) / z))
Y0 = known(VALUE["y0"], lambda x: -Y1(x))
Y1 = known(VALUE["y1"], lambda x: Y0(x) - Y1(x) / x)
K0 = known(VALUE["k0"], lambda x: -K1(x))
K1 = known(VALUE["k1"], lambda x: -K0(x) - K1(x) / x)
I0 = known(VALUE["i0"], lambda x: I1(x))
I1 = known(VALUE["i1"], lambda x: I0(x) - unless_zero(x, 0.5, lambda z: I1(z) / z))
I0E = smooth(lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)))
I1E = smooth(lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)))
ERFCX = smooth(erfcx)


def waves(x):
    return np.sqrt(2 / np.pi / np.maximum(np.abs(x), WIDE(0.01)))


def multigammaln(p):
    """The logarithm of the multivariate gamma function, by its definition as a product of gamma functions."""
    return exactly(lambda a: mpmath.log(mpmath.fprod([mpmath.pi ** (mpmath.mpf(p * (p - 1)) / 4)] + [mpmath.gamma(a - mpmath.mpf(j) / 2) for j in range(p)])))


MULTIGAMMALN = {p: multigammaln(p) for p in [1, 2, 5]}

# name: torch's, the ranges of x, units, and what errors near zeros are held against, in epsilons
ONE = {
    "j0": (J0, [(-9, 9), (-90, 90)], 3, waves),
    "j1": (J1, [(-9, 9), (-90, 90)], 3, waves),
    "y0": (Y0, [(0.1, 9), (5, 90)], 3, waves),
    "y1": (Y1, [(0.1, 9), (5, 90)], 3, waves),
    "k0": (K0, [(0.01, 3), (2, 80)], 8, None),
    "k1": (K1, [(0.01, 3), (2, 80)], 8, None),
    "i0": (I0, [(-9, 9), (-80, 80)], 6, None),
    "i1": (I1, [(-9, 9), (-80, 80)], 6, None),
    "i0e": (I0E, [(-9, 9), (-900, 900)], 6, None),
    "i1e": (I1E, [(-9, 9), (-900, 900)], 6, None),
    "erfcx": (ERFCX, [(-4, 9), (5, 900)], 6, None),
    "entr": (torch.special.entr, [(0.01, 1), (0.5, 20)], 3, lambda x: np.abs(x)),
}  # fmt: skip


def of_one(cases):
    for name, (by_torch, ranges, units, scale) in ONE.items():
        f = VALUE[name]
        for low, high in ranges:
            for dtype in FLOATS:
                if (dtype == "f16" and name in ("i0", "i1", "k1")) and high > 10:
                    continue  # overflows
                for shape in [(5, 7), (3,), (), (0, 2)] if dtype in ("f32", "f64") else [(7,)]:
                    x = cases.floats(shape, dtype, low, high)
                    near = Ulp(units, *((4, scale(x.wide)) if scale else ()))
                    slope = of_terms(256 * (1 if high <= 90 else 16))
                    cases.add(name, [x], {}, f(x.wide), dtype, near, by_torch if dtype in ("f32", "f64") else None, slope)
        i = cases.ints((4,), "i32", 1, 6)
        cases.add(name, [i], {}, f(i.stored.astype(WIDE)), "f32", Ulp(units, *((4, 1) if scale else ())))
    inf, nan = np.inf, np.nan
    for dtype in ["f32", "f64"]:  # scipy has NaN at infinity, and no sign of 0
        edge = Operand(np.array([0, -0.0, inf, -inf, nan]), dtype, grad=False)
        for name, want in [
            ("y0", [-inf, -inf, 0, nan, nan]), ("y1", [-inf, -inf, 0, nan, nan]), ("k0", [inf, inf, 0, nan, nan]),
            ("k1", [inf, inf, 0, nan, nan]), ("j0", [1, 1, 0, 0, nan]), ("j1", [0, -0.0, 0, -0.0, nan]),
            ("entr", [0, 0, -inf, -inf, nan]), ("i0", [1, 1, inf, inf, nan]), ("i1", [0, -0.0, inf, -inf, nan]),
            ("i0e", [1, 1, 0, 0, nan]), ("i1e", [0, -0.0, 0, -0.0, nan]), ("erfcx", [1, 1, 0, inf, nan]),
        ]:  # fmt: skip
            cases.add(name, [edge], {}, np.array(want), dtype, Within(5e-324))
        for p in [1, 2, 5]:
            a = cases.floats((3, 4), dtype, p / 2 + 0.1, 20)
            want = MULTIGAMMALN[p](a.wide)
            cases.add("multigammaln", [a], {"p": p}, want, dtype, Ulp(4, 16 * p, 20), lambda a: sum(lgamma(a - j / 2) for j in range(p)) + np.log(np.pi) * p * (p - 1) / 4, of_terms(256))  # fmt: skip


# --- Functions of several numbers -------------------------------------------------------------------------------------

digamma = lambda x: polygamma(torch.zeros_like(x), x)
polygamma = known(lambda n, x: scipy.special.polygamma(n.astype(int), x), None, lambda n, x: polygamma(n + 1, x))
betaln = known(exactly(lambda a, b: log_beta(a, b)), lambda a, b: digamma(a) - digamma(a + b), lambda a, b: digamma(b) - digamma(a + b))
zeta = known(scipy.special.zeta, None, lambda x, q: -x * zeta(x + 1, q))
lgamma = known(scipy.special.gammaln, lambda x: digamma(x))
gamma_density = known(
    lambda a, x: np.exp(scipy.special.xlogy(a - 1, x) - x - scipy.special.gammaln(a)),
    lambda a, x: gamma_density(a, x) * (torch.log(x) - digamma(a)),
    lambda a, x: gamma_density(a, x) * ((a - 1) / x - 1),
)
beta_density = known(
    lambda a, b, x: np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - scipy.special.betaln(a, b)),
    lambda a, b, x: beta_density(a, b, x) * (torch.log(x) - digamma(a) + digamma(a + b)),
    lambda a, b, x: beta_density(a, b, x) * (torch.log1p(-x) - digamma(b) + digamma(a + b)),
    lambda a, b, x: beta_density(a, b, x) * ((a - 1) / x - (b - 1) / (1 - x)),
)
P = lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)
Q = lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True)
I = lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)
GAMMA = {
    "igamma": (P, known(exactly(P), once(slope_of(P, 0)), gamma_density)),
    "igammac": (Q, known(exactly(Q), once(slope_of(Q, 0)), lambda a, x: -gamma_density(a, x))),
}
BETA = known(exactly(I), once(slope_of(I, 0)), once(slope_of(I, 1)), beta_density)
log_beta = lambda a, b: mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)


def of_several(cases):
    for dtype in FLOATS:
        both = dtype in ("f32", "f64")
        near, slope = Ulp(4), of_terms(256)
        torch_of = lambda f: f if both else None
        for name, (value, by_torch) in GAMMA.items():
            f = exactly(value)
            for low, high in [(0.1, 9), (15, 40), (60, 500)] if both else [(0.1, 9)]:
                for shapes in [((3, 4), (4,)), ((3,), (3,)), ((), (2,))]:
                    x = cases.floats(shapes[1], dtype, low, high)
                    for by_a in [False, True]:  # with a second derivative by x, and by both once
                        a = Operand(np.maximum(0.1, np.broadcast_to(x.wide, shapes[0] if len(shapes[0]) > 1 else shapes[1]) * cases.rng.uniform(0.7, 1.4)), dtype, grad=by_a)  # fmt: skip
                        if by_a and shapes[0] == ():
                            a = Operand(low * 1.2, dtype)
                        cases.add(name, [a, x], {}, f(a.wide, x.wide), dtype, near, torch_of(by_torch), slope)
        f = exactly(I)
        for low, high in [(0.2, 6), (12, 60)] if both else [(0.2, 6)]:
            for by_ab in [False, True]:
                a, b = cases.floats((3, 4), dtype, low, high, grad=by_ab), cases.floats((4,), dtype, low, high, grad=by_ab)
                x = cases.floats((3, 1), dtype, 0.05, 0.95)
                cases.add("betainc", [a, b, x], {}, f(a.wide, b.wide, x.wide), dtype, near, torch_of(BETA), slope)
                a, b, x = [cases.floats((3,), dtype, l, h, grad=g) for l, h, g in [(low, high, by_ab), (low, high, by_ab), (0.1, 0.9, True)]]  # fmt: skip
                cases.add("betainc", [a, b, x], {}, f(a.wide, b.wide, x.wide), dtype, near, torch_of(BETA), slope)
        for low, high in [(0.2, 6), (12, 900)]:
            a, b = cases.floats((3, 2), dtype, low, high), cases.floats((2,), dtype, 0.5, 9)
            cases.add("betaln", [a, b], {}, exactly(log_beta)(a.wide, b.wide), dtype, Ulp(4, 4, 1), torch_of(betaln), of_terms(4096 if dtype == "f64" else 64))  # fmt: skip
        x, q = cases.floats((3, 2), dtype, 1.2, 9, grad=False), cases.floats((2,), dtype, 0.3, 20)
        cases.add("zeta", [x, q], {}, exactly(mpmath.zeta)(x.wide, q.wide), dtype, Ulp(8), torch_of(zeta), slope)
        x, q = cases.floats((5,), dtype, 1.2, 9), cases.floats((5,), dtype, 0.3, 20, grad=False)
        once_by_s = known(scipy.special.zeta, once(exactly(lambda x, q: mpmath.zeta(x, q, 1))), None)
        cases.add("zeta", [x, q], {}, exactly(mpmath.zeta)(x.wide, q.wide), dtype, Ulp(8), torch_of(once_by_s), slope)
        n, x = Operand(np.array([[0], [1], [2], [5]]), dtype, grad=False), cases.floats((3,), dtype, 0.6, 9)
        far = exactly(lambda n, x: mpmath.polygamma(int(n), x))
        cases.add("polygamma", [n, x], {}, far(n.wide, x.wide), dtype, Ulp(12, 8, 1), torch_of(polygamma), of_terms(4096))
        if both:
            one = Operand(np.array(1), "i64")
            below = cases.floats((6,), dtype, -9, -0.1, grad=False)
            cases.add("polygamma", [one, below], {}, far(np.ones((), WIDE), below.wide), dtype, Ulp(16))
            edge = lambda *v: [Operand(np.array(t, float), dtype, grad=False) for t in v]
            for name, f, operands in [
                ("igamma", scipy.special.gammainc, edge([0, 1, 0, 2, -1, 1, np.nan], [1, 0, 0, np.inf, 1, -1, 1])),
                ("igammac", scipy.special.gammaincc, edge([0, 1, 0, 2, -1, 1, np.nan], [1, 0, 0, np.inf, 1, -1, 1])),
                ("zeta", scipy.special.zeta, edge([1, 0.5, 2, 2, 1.5, 3, np.nan], [1, 1, 0, -1, -0.5, np.inf, 1])),
                ("betainc", scipy.special.betainc, edge([1, 2, 2, -1, 2], [1, 3, 3, 1, 3], [0, 1, 0, 0.5, 1.5])),
            ]:
                cases.add(name, operands, {}, f(*[o.wide.astype(np.float64) for o in operands]), dtype, near)


# --- Draws ------------------------------------------------------------------------------------------------------------


def draws(cases):
    d = scipy.stats
    at = lambda *v: [Operand(np.array(t), "f64", grad=False) for t in v]

    def continuous(name, distribution, parameters, dtype):
        q = functools.partial(quantiles, cases, "random::" + name, {"dtype": dtype} | dict(zip("ab", parameters)))
        q(distribution)

    for dtype in ["f32", "f64"]:
        for a in [0.3, 1.0, 2.5, 300.0]:
            continuous("gamma", d.gamma(a), [a], dtype)
        for a, b in [(0.5, 0.7), (2.0, 5.0), (90.0, 30.0)]:
            continuous("beta", d.beta(a, b), [a, b], dtype)
        continuous("chisquare", d.chi2(3), [3.0], dtype)
        continuous("student_t", d.t(7), [7.0], dtype)
        continuous("logistic", d.logistic(), [], dtype)
        continuous("rayleigh", d.rayleigh(), [], dtype)
        continuous("weibull", d.weibull_min(1.7), [1.7], dtype)
        continuous("pareto", d.pareto(7.5), [7.5], dtype)
        continuous("log_gamma", d.loggamma(0.5), [0.5], dtype)
    for rate in [0.7, 9.0, 12.0, 300.0]:
        k = np.arange(int(rate + 12 * rate**0.5 + 9))
        counts(cases, "random::poisson", at(rate), {}, d.poisson(rate).pmf(k))
    for n, p in [(5, 0.3), (60, 0.45), (60, 0.9), (1000, 0.02), (200, 1.0), (7, 0.0)]:
        counts(cases, "random::binomial", at(n, p), {}, d.binom(n, p).pmf(np.arange(n + 1)))
    for p in [0.2, 0.75, 1.0]:
        counts(cases, "random::geometric", at(p), {}, np.concatenate([[0], d.geom(p).pmf(np.arange(1, 60))]))


# --- Signals (ops/signal.h) -------------------------------------------------------------------------------------------


def signals(cases):
    for dtype, complex_dtype in [("f32", "c64"), ("f64", "c128")]:
        near, slope = at_least_one(64), at_least_one(256)
        for shape, n_fft, o, window in [
            ((20,), 8, {}, 8), ((20,), 8, {"hop": 3, "center": False}, 8), ((2, 15), 6, {"hop": 2, "normalized": True}, None),
            ((2, 20), 8, {"win": 6, "pad": "constant"}, 6), ((17,), 7, {"onesided": False, "pad": "replicate"}, 7),
            ((11,), 5, {"hop": 1, "win": 5}, None), ((12,), 8, {"win": 3, "hop": 5}, None),
        ]:  # fmt: skip
            x = cases.normals(shape, dtype)
            w = [] if window is None else [Operand(np.hanning(window + 2)[1:-1], dtype)]

            def by_torch(x, *w, n_fft=n_fft, o=o):
                return torch.stft(
                    x, n_fft, o.get("hop"), o.get("win"), *(w or [torch.ones(o.get("win", n_fft), dtype=torch.float64)]),
                    center=o.get("center", True), pad_mode=o.get("pad", "reflect"), normalized=o.get("normalized", False),
                    onesided=o.get("onesided", True), return_complex=True,
                )  # fmt: skip

            case = {"n_fft": n_fft} | o
            want = by_torch(*[t.torch() for t in [x, *w]]).numpy()
            cases.add("stft", [x, *w], case, want, complex_dtype, near)
            if o.get("center", True) and n_fft != 8 or window == 8:
                back = {k: v for k, v in case.items() if k != "pad"}
                y = Operand(want, complex_dtype)

                def inverse(y, *w, n_fft=n_fft, o=o, **more):
                    return torch.istft(
                        y, n_fft, o.get("hop"), o.get("win"), *(w or [torch.ones(o.get("win", n_fft), dtype=torch.float64)]),
                        center=o.get("center", True), normalized=o.get("normalized", False),
                        onesided=o.get("onesided", True), return_complex=not o.get("onesided", True), **more,
                    )  # fmt: skip

                fixed = [t.torch() for t in w]
                out = dtype if o.get("onesided", True) else complex_dtype
                cases.add("istft", [y, *w], back, inverse(y.torch(), *fixed).numpy(), out, near)
                for length in [9, 25]:
                    if length == 25 and not o.get("center", True):
                        continue
                    cut = inverse(y.torch(), *fixed, length=length).numpy()
                    cases.add("istft", [y, *w], back | {"length": length}, cut, out, near)
        for n in [0, 1, 2, 9, 12]:
            for beta in [0.0, 2.5, 14.0, 900.0]:
                at = lambda k: 2 * beta * mpmath.sqrt(k * (n - 1 - k)) / (n - 1) if n > 1 else mpmath.mpf(beta)
                want = [float(mpmath.besseli(0, at(k)) / mpmath.besseli(0, beta)) for k in range(n)]
                cases.add("kaiser", [], {"n": n, "beta": beta, "dtype": dtype}, np.array(want), dtype, Ulp(16 + 2 * beta))
        for degree, shape in [(0, (5,)), (1, (4,)), (3, (9,)), (2, (6, 2))]:
            x = Operand(np.linspace(-1, 2, shape[0]), dtype, grad=False)
            y, w = cases.normals(shape, dtype), cases.floats((shape[0],), dtype, 0.5, 2, grad=False)
            wide = [t.wide.astype(np.float64) for t in (x, y, w)]
            matrix = torch.tensor(np.vander(wide[0], degree + 1))
            fit = at_least_one(1024)
            cases.add(
                "polyfit", [x, y], {"degree": degree}, np.polyfit(wide[0], wide[1], degree), dtype, fit,
                lambda x, y: torch.linalg.pinv(matrix) @ y, at_least_one(4096),
            )  # fmt: skip
            cases.add("polyfit", [x, y, w], {"degree": degree}, np.polyfit(*wide[:2], degree, w=wide[2]), dtype, fit)


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [of_one, of_several, draws, signals]:
            family(cases)
