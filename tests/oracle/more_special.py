"""Special functions beyond those of special.py: values by mpmath with forty digits, gradients by derivatives that
torch's tape is told.
"""

import mpmath
import numpy as np
import scipy.special
import torch
from judge import FLOATS, WIDE, Operand, Ulp, Within, of_terms
from special import digamma, exactly, known, smooth

SQRT2 = mpmath.sqrt(2)


def log_ndtr(x):
    return mpmath.log(mpmath.erfc(-x / SQRT2) / 2) if x < 5 else mpmath.log1p(-mpmath.erfc(x / SQRT2) / 2)


def erfcinv(y):
    if y <= 0 or y >= 2:
        return mpmath.inf if y == 0 else -mpmath.inf if y == 2 else mpmath.nan
    if y > 0.5:
        return mpmath.erfinv(1 - y)
    z = mpmath.sqrt(-mpmath.log(y))
    for _ in range(60):
        z += (mpmath.erfc(z) - y) / (2 / mpmath.sqrt(mpmath.pi)) * mpmath.exp(z * z)
    return z


def relative(x, y):
    return x * mpmath.log(x / y) if x > 0 and y > 0 else mpmath.mpf(0) if x == 0 and y >= 0 else mpmath.inf


def kl(x, y):
    return relative(x, y) - x + y if relative(x, y) != mpmath.inf else mpmath.inf


def airy(at, slope):
    return lambda x: (mpmath.airyai if at == "a" else mpmath.airybi)(x, derivative=slope)


real = lambda f: lambda *x: mpmath.re(f(*x))
ONE_VALUE = {
    "tgamma": mpmath.gamma,
    "factorial": lambda x: mpmath.gamma(x + 1) if x >= 0 else mpmath.mpf(0),
    "log_ndtr": log_ndtr,
    "erfcinv": erfcinv,
    "lambertw": real(mpmath.lambertw),
    "k0e": lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
    "k1e": lambda x: mpmath.besselk(1, x) * mpmath.exp(x),
    "exp1": mpmath.e1,
    "expi": mpmath.ei,
    "dawsn": lambda x: mpmath.exp(-x * x) * mpmath.erfi(x) * mpmath.sqrt(mpmath.pi) / 2,
    "ellipk": mpmath.ellipk,
    "ellipe": mpmath.ellipe,
    "si": mpmath.si,
    "ci": lambda x: mpmath.ci(abs(x)),
    "fresnel_s": mpmath.fresnels,
    "fresnel_c": mpmath.fresnelc,
    "ai": airy("a", 0),
    "aip": airy("a", 1),
    "bi": airy("b", 0),
    "bip": airy("b", 1),
}  # fmt: skip
VALUE = {name: exactly(f) for name, f in ONE_VALUE.items()}
K = {}
K["tgamma"] = known(VALUE["tgamma"], lambda x: K["tgamma"](x) * digamma(x))
K["factorial"] = known(VALUE["factorial"], lambda x: K["factorial"](x) * digamma(x + 1))  # x + 1 loses digits of values
K["log_ndtr"] = smooth(log_ndtr)  # torch's own second derivative is off by 5e-12
K["erfcinv"] = known(VALUE["erfcinv"], lambda y: -np.sqrt(np.pi) / 2 * torch.exp(K["erfcinv"](y) ** 2))
K["lambertw"] = known(VALUE["lambertw"], lambda x: torch.exp(-K["lambertw"](x)) / (1 + K["lambertw"](x)))
K["exp1"] = known(VALUE["exp1"], lambda x: -torch.exp(-x) / x)
K["expi"] = known(VALUE["expi"], lambda x: torch.exp(x) / x)
K |= {name: smooth(ONE_VALUE[name]) for name in ["dawsn", "ellipk", "ellipe"]}
k0e, k1e = ONE_VALUE["k0e"], ONE_VALUE["k1e"]  # mpmath's differences of these take seconds
k0e_slope, k1e_slope = lambda x: k0e(x) - k1e(x), lambda x: k1e(x) - k0e(x) - k1e(x) / x
K["k0e"] = smooth(k0e, k0e_slope, lambda x: k0e_slope(x) - k1e_slope(x))
K["k1e"] = smooth(k1e, k1e_slope, lambda x: (1 - 1 / x) * k1e_slope(x) - k0e_slope(x) + k1e(x) / x**2)
K["si"] = known(VALUE["si"], lambda x: torch.sinc(x / np.pi))
K["ci"] = known(VALUE["ci"], lambda x: torch.cos(x) / x)
K["fresnel_s"] = known(VALUE["fresnel_s"], lambda x: torch.sin(np.pi / 2 * x * x))
K["fresnel_c"] = known(VALUE["fresnel_c"], lambda x: torch.cos(np.pi / 2 * x * x))
for a in "ab":
    K[a + "i"] = known(VALUE[a + "i"], lambda x, a=a: K[a + "ip"](x))
    K[a + "ip"] = known(VALUE[a + "ip"], lambda x, a=a: x * K[a + "i"](x))

# name: the functions of its results, the ranges of x, units, and what errors near zeros are held against
PLAIN = {
    "tgamma": (["tgamma"], [(0.1, 6), (-3.9, -3.1), (8, 30)], 8, None),
    "factorial": (["factorial"], [(0, 6), (8, 30)], 8, None),
    "log_ndtr": (["log_ndtr"], [(-3, 3), (-15, -2), (1, 8)], 8, 0.5),  # the second derivative is a difference that shrinks
    "erfcinv": (["erfcinv"], [(0.01, 1.99), (1e-4, 1e-3)], 6, 0.05),
    "lambertw": (["lambertw"], [(-0.32, 1), (0.5, 90)], 4, None),
    "k0e": (["k0e"], [(0.01, 3), (2, 900)], 8, None),
    "k1e": (["k1e"], [(0.01, 3), (2, 900)], 8, None),
    "exp1": (["exp1"], [(0.01, 3), (2, 60)], 6, None),
    "expi": (["expi"], [(0.5, 9), (-6, -0.1), (30, 40)], 8, 1),  # its square fits f32
    "dawsn": (["dawsn"], [(-3, 3), (2, 90)], 4, None),
    "ellipk": (["ellipk"], [(0.01, 0.85), (-9, -0.1)], 4, None),
    "ellipe": (["ellipe"], [(0.01, 0.85), (-9, -0.1)], 4, None),
    "sici": (["si", "ci"], [(0.1, 6), (4, 60)], 4, 1),
    "fresnel": (["fresnel_s", "fresnel_c"], [(-3, 3), (2, 9)], 6, 1),
    "airy": (["ai", "aip", "bi", "bip"], [(-6, 1), (1, 6), (-40, -5)], 8, 1),
}  # fmt: skip


def of_one(cases):
    for name, (parts, ranges, units, scale) in PLAIN.items():
        for low, high in ranges:
            for dtype in FLOATS:
                both = dtype in ("f32", "f64")
                if not both and max(abs(low), abs(high)) > 6.5:
                    continue
                for shape in [(3, 4), (2,)] + ([(), (0, 2)] if low == ranges[0][0] else []) if both else [(5,)]:
                    x = cases.floats(shape, dtype, low, high)
                    near = Ulp(units, *((16, scale) if scale else ()))
                    torch_fn = (lambda x: [K[p](x) for p in parts]) if len(parts) > 1 else K[parts[0]]
                    cases.add(name, [x], {}, [VALUE[p](x.wide) for p in parts], dtype, [near] * len(parts), torch_fn if both else None, of_terms(2048))
    inf, nan = np.inf, np.nan
    for dtype in ["f32", "f64"]:
        edge = Operand(np.array([0, -0.0, inf, -inf, nan]), dtype, grad=False)
        for name, want in [
            ("tgamma", [[inf, -inf, inf, nan, nan]]), ("exp1", [[inf, inf, 0, nan, nan]]), ("expi", [[-inf, -inf, inf, 0, nan]]),
            ("k0e", [[inf, inf, 0, nan, nan]]), ("k1e", [[inf, inf, 0, nan, nan]]), ("dawsn", [[0, 0, 0, 0, nan]]),
            ("lambertw", [[0, 0, inf, nan, nan]]), ("erfcinv", [[inf, inf, nan, nan, nan]]),
            ("sici", [[0, 0, np.pi / 2, -np.pi / 2, nan], [-inf, -inf, 0, 0, nan]]),
            ("fresnel", [[0, 0, 0.5, -0.5, nan], [0, 0, 0.5, -0.5, nan]]),
        ]:  # fmt: skip
            cases.add(name, [edge], {}, [np.array(w, np.float64) for w in want], dtype, [Within(2e-7 if name == "sici" else 5e-324)] * len(want))
        one = Operand(np.array([1.0, 0.0, 1.5, -inf]), dtype, grad=False)
        cases.add("ellipk", [one], {}, np.array([inf, np.pi / 2, nan, 0]), dtype, Ulp(2))
        cases.add("ellipe", [one], {}, np.array([1, np.pi / 2, nan, inf]), dtype, Ulp(2))
        far = Operand(np.array([-1e4, -50.0, -1.0, 10.0, 30.0]), dtype, grad=False)
        cases.add("log_ndtr", [far], {}, VALUE["log_ndtr"](far.wide), dtype, Ulp(8 if dtype == "f32" else 400))
        whole = Operand(np.arange(-2, 12), dtype, grad=False)
        cases.add("factorial", [whole], {}, scipy.special.factorial(np.arange(-2, 12)), dtype, Ulp(1))


beta = known(exactly(mpmath.beta), lambda a, b: beta(a, b) * (digamma(a) - digamma(a + b)), lambda a, b: beta(a, b) * (digamma(b) - digamma(a + b)))
binom = known(
    exactly(mpmath.binomial),
    lambda n, k: binom(n, k) * (digamma(n + 1) - digamma(n - k + 1)),
    lambda n, k: binom(n, k) * (digamma(n - k + 1) - digamma(k + 1)),
)
jv = known(exactly(mpmath.besselj), None, lambda v, x: 0.5 * (jv(v - 1, x) - jv(v + 1, x)))
iv = known(exactly(mpmath.besseli), None, lambda v, x: 0.5 * (iv(v - 1, x) + iv(v + 1, x)))
kv = known(exactly(mpmath.besselk), None, lambda v, x: -0.5 * (kv(v - 1, x) + kv(v + 1, x)))
spherical = lambda n, x: mpmath.sqrt(mpmath.pi / 2 / x) * mpmath.besselj(n + mpmath.mpf(1) / 2, x)
spherical_jn = known(exactly(spherical), None, lambda n, x: n / x * spherical_jn(n, x) - spherical_jn(n + 1, x))
ORDERS = {
    "jv": (jv, mpmath.besselj, [0, 1, 0.25, 2.5, 7], [(0.1, 6), (5, 60)]),
    "iv": (iv, mpmath.besseli, [0, 1, 0.25, 2.5, -1.5, 7], [(0.1, 6), (5, 60)]),
    "kv": (kv, mpmath.besselk, [0, 1, 0.25, 2.5, -1.5, 12], [(0.1, 6), (5, 60)]),
    "spherical_jn": (spherical_jn, spherical, [0, 1, 2, 7], [(0.1, 6), (5, 60)]),
}


def of_several(cases):
    for dtype in FLOATS:
        both = dtype in ("f32", "f64")
        torch_of = lambda f: f if both else None
        for shapes in [((3, 4), (4,)), ((3,), (3,)), ((), (2,))]:
            a, b = cases.floats(shapes[0], dtype, 0.2, 6), cases.floats(shapes[1], dtype, 0.2, 6)
            cases.add("beta", [a, b], {}, exactly(mpmath.beta)(a.wide, b.wide), dtype, Ulp(8), torch_of(beta), of_terms(1024))
            n, k = cases.floats(shapes[0], dtype, 6, 12), cases.floats(shapes[1], dtype, 0.2, 5)
            cases.add("binom", [n, k], {}, exactly(mpmath.binomial)(n.wide, k.wide), dtype, Ulp(8), torch_of(binom), of_terms(1024))
            y = cases.floats(shapes[1], dtype, -0.9, 3)
            cases.add("xlog1py", [a, y], {}, a.wide * np.log1p(y.wide), dtype, Ulp(3), torch_of(torch.special.xlog1py), of_terms(64))
            for name, f in [("rel_entr", relative), ("kl_div", kl)]:
                torch_fn = (lambda x, y: x * torch.log(x / y)) if name == "rel_entr" else (lambda x, y: x * torch.log(x / y) - x + y)
                cases.add(name, [a, b], {}, exactly(f)(a.wide, b.wide), dtype, Ulp(8, 16, 6), torch_of(torch_fn), of_terms(64))
        for name, (torch_fn, f, orders, ranges) in ORDERS.items():
            for low, high in ranges if both else ranges[:1]:
                x = cases.floats((2, len(orders)), dtype, low, high)
                v = Operand(np.array(orders), dtype, grad=False)
                wave = Ulp(8, 16, 1) if name in ("jv", "spherical_jn") else Ulp(8)
                cases.add(name, [v, x], {}, exactly(f)(v.wide, x.wide), dtype, wave, torch_of(torch_fn), of_terms(2048))
    for dtype in ["f32", "f64"]:
        x = Operand(np.array([0.0, 0, 1, -1, 1, np.nan, 1]), dtype, grad=False)
        y = Operand(np.array([1.0, 0, 0, 1, -1, 1, np.nan]), dtype, grad=False)
        cases.add("rel_entr", [x, y], {}, scipy.special.rel_entr(x.wide.astype(float), y.wide.astype(float)), dtype, Within(5e-324))
        cases.add("kl_div", [x, y], {}, scipy.special.kl_div(x.wide.astype(float), y.wide.astype(float)), dtype, Within(5e-324))
        tiny = Operand(np.array([1e-30, 1e30]), dtype, grad=False)
        cases.add("rel_entr", [tiny, Operand(tiny.wide[::-1], dtype)], {}, exactly(relative)(tiny.wide, tiny.wide[::-1]), dtype, Ulp(8))
        n = Operand(np.array([5.0, 5, 5, 30, 4, -3, 60]), dtype, grad=False)
        k = Operand(np.array([2.0, 0, 7, 15, -1, 2, 30]), dtype, grad=False)
        cases.add("binom", [n, k], {}, np.array([10, 1, 0, 155117520, 0, np.nan, 118264581564861424]), dtype, Ulp(1))
        v = Operand(np.array([0.0, 1, 0.5, 1, 2, 0, 3, 300, 40]), dtype, grad=False)
        x = Operand(np.array([0.0, 0, -1, -2, -2, 5000, 700, 310, 0.5]), dtype, grad=False)
        cases.add("jv", [v, x], {}, np.array([np.nan if v == 0.5 else float(mpmath.besselj(v, x)) for v, x in zip(v.wide.astype(float), x.wide.astype(float))]), dtype, Ulp(8, 16, 0.05))
        for n in [0, 1, 2, 5, 20]:
            x = cases.floats((3, 4), dtype, -1.2, 1.2)
            for name, f, scale in [
                ("eval_legendre", mpmath.legendre, 1), ("eval_chebyt", mpmath.chebyt, 30), ("eval_hermite", mpmath.hermite, None),
            ]:  # fmt: skip
                want = exactly(lambda x, f=f: f(n, x))(x.wide)

                def by_recurrence(x, name=name):
                    before, here = torch.ones_like(x), 2 * x if name == "eval_hermite" else x
                    if n == 0:
                        return before + 0 * x
                    for k in range(1, n):
                        after = {
                            "eval_legendre": lambda: ((2 * k + 1) * x * here - k * before) / (k + 1),
                            "eval_chebyt": lambda: 2 * x * here - before,
                            "eval_hermite": lambda: 2 * x * here - 2 * k * before,
                        }[name]()
                        before, here = here, after
                    return here

                size = float(np.max(np.abs(want))) if scale is None else scale
                cases.add(name, [x], {"n": n}, want, dtype, Ulp(max(4, n), 64, size), by_recurrence, of_terms(65536))


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [of_one, of_several]:
            family(cases)
