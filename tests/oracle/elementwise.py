"""Cases of the elementwise functions: values by numpy in long double (by mpmath where numpy has no such function),
gradients by torch. Each over its domain, at special values, as a scalar, without elements, and in every layout."""

import math

import mpmath
import numpy as np
import scipy.special
import torch

from judge import COMPLEX, EQUAL, EXACT, FLOATS, INTS, LARGEST, NORMAL, SMALLEST, STORED, WIDE, Operand, Ulp

mpmath.mp.dps = 40


def by_mpmath(f):
    """A function of long doubles by way of mpmath's numbers, for one that numpy does not have in that precision."""

    def number(x):
        if np.isnan(x):
            return WIDE(np.nan)
        if x == 0 and f(mpmath.mpf(0)) == 0:
            return x  # mpmath has no signed zero; the odd functions keep the sign
        high = float(x)
        try:
            y = f(mpmath.mpf(high) + mpmath.mpf(float(x - WIDE(high))) if np.isfinite(x) else mpmath.mpf(high))
        except (ValueError, ZeroDivisionError, OverflowError):
            return WIDE(np.nan)
        if isinstance(y, mpmath.mpc):
            return WIDE(np.nan)
        high = float(y)
        return WIDE(high) + WIDE(float(y - mpmath.mpf(high))) if np.isfinite(high) else WIDE(high)

    return lambda x: np.array([number(v) for v in np.asarray(x).ravel()], WIDE).reshape(np.shape(x))


def lgamma(x):
    return mpmath.mpf("inf") if x <= 0 and x == mpmath.floor(x) or mpmath.isinf(x) else mpmath.re(mpmath.loggamma(x))


def digamma(x):
    if x == 0:
        return mpmath.mpf("-inf")
    if mpmath.isinf(x):
        return x if x > 0 else mpmath.mpf("nan")
    return mpmath.mpf("nan") if x < 0 and x == mpmath.floor(x) else mpmath.digamma(x)


def erfinv(x):
    return mpmath.mpf("inf") * mpmath.sign(x) if abs(x) == 1 else mpmath.mpf("nan") if abs(x) > 1 else mpmath.erfinv(x)


PI = WIDE(math.pi) + WIDE(1.2246467991473532e-16)


def sigmoid(x):
    return (
        np.where(x >= 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x)))
        if not np.iscomplexobj(x)
        else 1 / (1 + np.exp(-x))
    )


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sinc(x):
    y = PI * x
    sine = np.where(np.isfinite(x) & (x == np.round(x)), 0, np.sin(y))  # PI is rounded
    return np.where(np.abs(x) < 1e-6, 1 - y * y / 6, sine / np.where(x == 0, 1, y))


def gelu_tanh(x):
    """x / (1 + e^-2u), which keeps its digits far to the left where 1 + tanh(u) has none."""
    u = np.sqrt(2 / PI) * (x + WIDE("0.044715") * x**3)
    return np.where(np.isneginf(x), 0, x * sigmoid(2 * u))


def gelu_exact(x):
    return np.where(np.isneginf(x), 0, x * ERFC(-x / np.sqrt(WIDE(2))) / 2)


ERFC = by_mpmath(lambda x: mpmath.erfc(x) if x < 200 else mpmath.mpf(0))
DIGAMMA = by_mpmath(digamma)


class Polygamma(torch.autograd.Function):
    """torch's own digamma and its derivatives are good to nine digits only."""

    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return torch.tensor(scipy.special.polygamma(n, x.detach().numpy()))

    @staticmethod
    def backward(ctx, g):
        return g * Polygamma.apply(ctx.saved_tensors[0], ctx.n + 1), None


class Lgamma(torch.autograd.Function):
    """The same for those of lgamma."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.lgamma(x)

    @staticmethod
    def backward(ctx, g):
        return g * Polygamma.apply(ctx.saved_tensors[0], 0)


def sinc_for_gradients(x):
    """torch.sinc's own derivative cancels near 0; that of the series does not."""
    near = x.abs() < 0.25
    z, far = (math.pi * torch.where(near, x, 0)) ** 2, math.pi * torch.where(near, 1, x)
    series = sum((-1) ** k / math.factorial(2 * k + 1) * z**k for k in range(12))
    return torch.where(near, series, torch.sin(far) / far)


def gelu_for_gradients(x):
    """torch's own cancels far to the left, as gelu_tanh says."""
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x / (1 + torch.exp((-2 * u).clamp(max=300)))


# name: (value, gradient by torch, low, high, units in the last place)
REAL = {
    "exp": (np.exp, torch.exp, -8, 8, 2),
    "exp2": (np.exp2, torch.exp2, -10, 10, 2),
    "expm1": (np.expm1, torch.expm1, -3, 3, 3),
    "log": (np.log, torch.log, 0.01, 50, 2),
    "log2": (np.log2, torch.log2, 0.01, 50, 3),
    "log10": (np.log10, torch.log10, 0.01, 50, 3),
    "log1p": (np.log1p, torch.log1p, -0.9, 5, 3),
    "sqrt": (np.sqrt, torch.sqrt, 0.01, 50, 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), torch.rsqrt, 0.01, 50, 2),
    "cbrt": (np.cbrt, lambda x: x.sign() * x.abs() ** (1 / 3), -9, 9, 3),
    "reciprocal": (lambda x: 1 / x, torch.reciprocal, 0.1, 9, 1),
    "sin": (np.sin, torch.sin, -9, 9, 2),
    "cos": (np.cos, torch.cos, -9, 9, 2),
    "tan": (np.tan, torch.tan, -1.5, 1.5, 4),
    "asin": (np.arcsin, torch.asin, -0.99, 0.99, 4),
    "acos": (np.arccos, torch.acos, -0.99, 0.99, 4),
    "atan": (np.arctan, torch.atan, -9, 9, 4),
    "sinh": (np.sinh, torch.sinh, -5, 5, 4),
    "cosh": (np.cosh, torch.cosh, -5, 5, 4),
    "tanh": (np.tanh, torch.tanh, -5, 5, 5),
    "asinh": (np.arcsinh, torch.asinh, -9, 9, 4),
    "acosh": (np.arccosh, torch.acosh, 1.01, 9, 4),
    "atanh": (np.arctanh, torch.atanh, -0.99, 0.99, 4),
    "sigmoid": (sigmoid, torch.sigmoid, -9, 9, 4),
    "softplus": (softplus, lambda x: torch.nn.functional.softplus(x, threshold=500.0), -9, 9, 4),
    "erf": (by_mpmath(mpmath.erf), torch.erf, -4, 4, 4),
    "erfc": (ERFC, torch.erfc, -4, 4, 4),
    "erfinv": (by_mpmath(erfinv), torch.erfinv, -0.99, 0.99, 4),
    "lgamma": (by_mpmath(lgamma), Lgamma.apply, 0.05, 20, 4),
    "digamma": (
        lambda x: np.where((x == 0) & np.signbit(x), np.inf, DIGAMMA(x)),
        lambda x: Polygamma.apply(x, 0),
        0.05,
        20,
        4,
    ),
    "silu": (lambda x: x * sigmoid(x), torch.nn.functional.silu, -9, 9, 6),
    "log_sigmoid": (lambda x: -softplus(-x), torch.nn.functional.logsigmoid, -9, 9, 4),
    "softsign": (lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))), torch.nn.functional.softsign, -9, 9, 2),
    "sinc": (sinc, sinc_for_gradients, -3.3, 3.3, 4),
    "deg2rad": (lambda x: x * (PI / 180), torch.deg2rad, -360, 360, 2),
    "rad2deg": (lambda x: x * (180 / PI), torch.rad2deg, -6, 6, 2),
}
# Those of any number that keep its dtype; no rounding but where said.
KEEPING = {
    "negative": (np.negative, torch.neg),
    "square": (np.square, torch.square),
    "sign": (np.sign, torch.sign),
    "relu": (lambda x: np.maximum(x, np.zeros((), x.dtype)), torch.relu),
    "floor": (np.floor, torch.floor),
    "ceil": (np.ceil, torch.ceil),
    "trunc": (np.trunc, torch.trunc),
    "round": (np.rint, torch.round),
    "abs": (np.abs, torch.abs),
}
PREDICATES = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
    "logical_not": np.logical_not,
}
ACTIVATIONS = {  # name: (options, value, torch, units)
    "gelu": [
        ({}, gelu_tanh, gelu_for_gradients),
        ({"approximate": False}, gelu_exact, lambda x: x * torch.erfc(-x * math.sqrt(0.5)) / 2),  # torch's own cancel
    ],
    "relu6": [({}, lambda x: np.clip(x, 0, 6), torch.nn.functional.relu6)],
    "leaky_relu": [
        ({}, lambda x: np.where(x > 0, x, WIDE(0.01) * x), lambda x: torch.nn.functional.leaky_relu(x, 0.01)),
        ({"slope": 0.2}, lambda x: np.where(x > 0, x, WIDE(0.2) * x), lambda x: torch.nn.functional.leaky_relu(x, 0.2)),
    ],
    "elu": [
        ({}, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), torch.nn.functional.elu),
        (
            {"alpha": 0.7},
            lambda x: np.where(x > 0, x, WIDE(0.7) * np.expm1(np.minimum(x, 0))),
            lambda x: torch.nn.functional.elu(x, 0.7),
        ),
    ],
    "celu": [
        ({}, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), torch.nn.functional.celu),
        (
            {"alpha": 2.5},
            lambda x: np.where(x > 0, x, WIDE(2.5) * np.expm1(np.minimum(x, 0) / WIDE(2.5))),
            lambda x: torch.nn.functional.celu(x, 2.5),
        ),
    ],
    "selu": [
        (
            {},
            lambda x: WIDE(1.0507009873554805)
            * np.where(x > 0, x, WIDE(1.6732632423543772) * np.expm1(np.minimum(x, 0))),
            torch.nn.functional.selu,
        )
    ],
    "mish": [({}, lambda x: x * np.tanh(softplus(x)), torch.nn.functional.mish)],
    "hard_tanh": [({}, lambda x: np.clip(x, -1, 1), torch.nn.functional.hardtanh)],
    "hard_sigmoid": [({}, lambda x: np.clip(x + 3, 0, 6) / 6, lambda x: torch.clip(x + 3, 0, 6) / 6)],
    "hard_swish": [({}, lambda x: x * (np.clip(x + 3, 0, 6) / 6), torch.nn.functional.hardswish)],
}
SHAPES = [(), (0,), (1,), (3, 0, 2), (7, 9)]


def special(dtype):
    """Zeros of both signs, subnormals, bounds, infinities, NaN, and what lies between."""
    big, tiny, normal = LARGEST[dtype], SMALLEST[dtype], NORMAL[dtype]
    plus = [
        0.0,
        tiny,
        3 * tiny,
        normal / 2,
        normal,
        3 * normal,
        1e-3,
        0.25,
        0.5,
        0.75,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        6.0,
        10.5,
        88.0,
        1000.0,
        big / 4,
        big,
        math.inf,
    ]
    return np.array(plus + [-x for x in plus] + [math.nan], WIDE)


def per_element(k):
    """Gradients of elementwise functions: each is the cotangent times a derivative that may cancel."""
    return lambda cotangents: Ulp(
        k, k, max(float(np.max(np.abs(c.wide), initial=0)) for c in cotangents if c is not None)
    )


def unary(cases, name, value, torch_fn, dtype, low, high, tolerance, options=None, fn=None):
    options = options or {}
    for shape in SHAPES:
        x = cases.floats(shape, dtype, low, high)
        cases.add(name, [x], options, value(x.wide), dtype, tolerance, torch_fn, per_element(16))
    x = Operand(special(dtype), dtype, grad=False)
    cases.add(name, [x], options, value(x.wide), dtype, tolerance)
    n = 23
    wide_range = np.exp(cases.rng.uniform(math.log(NORMAL[dtype]), math.log(LARGEST[dtype]), n)) * cases.rng.choice(
        [-1, 1], n
    )
    x = Operand(wide_range, dtype, grad=False)
    cases.add(name, [x], options, value(x.wide), dtype, tolerance)


def slopes_at_points(cases):
    """Gradients where a function has a kink, a pole, or nothing left of it."""
    points = np.array([0.0, -0.0, 1, -1, 3, -3, 6, 0.5, -2, 1e-20, -1e-20, 20, -20, 60, -60])
    table = [(name, {}, value, t) for name, (value, t, *_) in (REAL | KEEPING).items()]
    table += [(name, *form) for name, forms in ACTIVATIONS.items() for form in forms]
    for name, options, value, torch_fn in table:
        for dtype in ["f32", "f64", "bf16"]:
            x = Operand(points, dtype)
            value_at = value(x.wide)
            fine = np.isfinite(value_at)
            x = Operand(points[fine], dtype)
            near = Ulp(160, 4, 1) if name in ("gelu", "sinc") else Ulp(8, 1, 1e-20)
            cases.add(
                name,
                [x],
                options,
                value(x.wide),
                dtype,
                near,
                torch_fn,
                per_element(16),
                cotangent=np.full(x.shape, 1.5),
            )


def complex_unary(cases, name, value, dtype, tolerance):
    x = cases.any((5, 4), dtype)
    cases.add(name, [x], {}, value(x.wide), dtype, tolerance)


def one_operand(cases):
    for name, (value, torch_fn, low, high, k) in REAL.items():
        for dtype in FLOATS:
            unary(cases, name, value, torch_fn, dtype, low, high, Ulp(k + 1, 2, 1) if name == "sinc" else Ulp(k + 1))
        for dtype in ["bool", "i8", "i32", "u8", "i64"]:
            x = cases.ints((3, 5), dtype, 0 if low < 0 else 1, 8)
            cases.add(name, [x], {}, value(x.wide.astype(WIDE)), "f32", Ulp(k + 1))
    for name in [
        "exp",
        "log",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "reciprocal",
        "rsqrt",
    ]:
        for dtype in COMPLEX:
            complex_unary(cases, name, REAL[name][0], dtype, Ulp(REAL[name][4] + 4))
    for name, (value, torch_fn) in KEEPING.items():
        for dtype in FLOATS:
            unary(
                cases,
                name,
                value,
                torch_fn,
                dtype,
                -9,
                9,
                Ulp(1) if name == "square" else EQUAL if name in ("relu", "sign") else EXACT,
            )
        for dtype in INTS:
            x = Operand(np.concatenate([extremes(dtype), cases.ints((9,), dtype, -90, 90).stored]), dtype)
            cases.add(name, [x], {}, x.stored if name == "round" else value(x.stored), dtype)
    for name in ["negative", "square", "reciprocal"]:
        for dtype in COMPLEX:
            complex_unary(
                cases,
                name,
                np.square if name == "square" else np.negative if name == "negative" else lambda x: 1 / x,
                dtype,
                Ulp(4),
            )
    for name, value in PREDICATES.items():
        for dtype in FLOATS:
            x = Operand(special(dtype), dtype)
            cases.add(name, [x], {}, value(x.wide), "bool")
    for dtype in INTS + ["bool"]:
        x = cases.ints((11,), dtype)
        cases.add("bitwise_not", [x], {}, np.invert(x.stored), dtype)
        cases.add("logical_not", [x], {}, np.logical_not(x.stored), "bool")
    for name, forms in ACTIVATIONS.items():
        for options, value, torch_fn in forms:
            for dtype in FLOATS:
                # gelu's e^-v has an error of v roundings, and nothing is left of it below the normal numbers.
                unary(
                    cases,
                    name,
                    value,
                    torch_fn,
                    dtype,
                    -8,
                    8,
                    Ulp(160, 1, 1e-30) if name == "gelu" else Ulp(8, 1, SMALLEST[dtype]),
                    options,
                )
    complex_parts(cases)


def complex_parts(cases):
    for dtype, real in [("c64", "f32"), ("c128", "f64")]:
        x = cases.any((6, 3), dtype)
        cases.add("conj", [x], {}, np.conj(x.wide), dtype)
        cases.add("real", [x], {}, np.real(x.wide), real)
        cases.add("imag", [x], {}, np.imag(x.wide), real)
        cases.add("abs", [x], {}, np.abs(x.wide), real, Ulp(2))
        cases.add("angle", [x], {}, np.angle(x.wide), real, Ulp(4))
        a, b = cases.normals((3, 1), real, grad=False), cases.normals((4,), real, grad=False)
        cases.add("complex", [a, b], {}, a.wide + 1j * b.wide, dtype)
    for dtype in FLOATS:
        x = cases.floats((7,), dtype, grad=False)
        cases.add("angle", [x], {}, np.angle(x.wide), dtype, Ulp(1))


def extremes(dtype):
    info = np.iinfo(STORED[dtype])
    return np.array([info.min, info.min + 1, 0, 1, 2, info.max - 1, info.max], info.dtype)


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [one_operand, slopes_at_points]:
            family(cases)
