"""Cases of the elementwise functions: values by numpy in long double (by mpmath where numpy has no such function),
gradients by torch. Each over its domain, at special values, as a scalar, without elements, and in every layout."""
import math

import mpmath
import numpy as np
import scipy.special
import torch

from judge import COMPLEX, EQUAL, EXACT, FLOATS, INTS, LARGEST, NORMAL, SMALLEST, STORED, WIDE, Operand, Ulp, is_complex, is_float, promote, to_floating

mpmath.mp.dps = 40


def by_mpmath(f):
    """A function of long doubles by way of mpmath's numbers, for one that numpy does not have in that precision."""
    def number(x):
        if np.isnan(x):
            return WIDE(np.nan)
        if x == 0 and f(mpmath.mpf(0)) == 0:
            return x  # mpmath knows no sign of zero; the odd functions keep it
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
    return np.where(x >= 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x))) if not np.iscomplexobj(x) else 1 / (1 + np.exp(-x))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sinc(x):
    y = PI * x
    return np.where(np.abs(x) < 1e-6, 1 - y * y / 6, np.sin(y) / np.where(x == 0, 1, y))


def gelu_tanh(x):
    """x / (1 + e^-2u), which keeps its digits far to the left where 1 + tanh(u) has none."""
    u = np.sqrt(2 / PI) * (x + WIDE("0.044715") * x**3)
    return np.where(np.isneginf(x), 0, x * sigmoid(2 * u))


def gelu_exact(x):
    return np.where(np.isneginf(x), 0, x * ERFC(-x / np.sqrt(WIDE(2))) / 2)


ERFC = by_mpmath(lambda x: mpmath.erfc(x) if x < 200 else mpmath.mpf(0))
DIGAMMA = by_mpmath(digamma)


class Digamma(torch.autograd.Function):
    """torch's own derivative of digamma is good to nine digits only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx, g):
        return g * torch.tensor(scipy.special.polygamma(1, ctx.saved_tensors[0].numpy()))

# name: (value, gradient by torch, low, high, units in the last place)
REAL = {
    "exp": (np.exp, torch.exp, -8, 8, 2), "exp2": (np.exp2, torch.exp2, -10, 10, 2), "expm1": (np.expm1, torch.expm1, -3, 3, 3),
    "log": (np.log, torch.log, 0.01, 50, 2), "log2": (np.log2, torch.log2, 0.01, 50, 3), "log10": (np.log10, torch.log10, 0.01, 50, 3),
    "log1p": (np.log1p, torch.log1p, -0.9, 5, 3), "sqrt": (np.sqrt, torch.sqrt, 0.01, 50, 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), torch.rsqrt, 0.01, 50, 2), "cbrt": (np.cbrt, lambda x: x.sign() * x.abs() ** (1 / 3), -9, 9, 3),
    "reciprocal": (lambda x: 1 / x, torch.reciprocal, 0.1, 9, 1), "sin": (np.sin, torch.sin, -9, 9, 2), "cos": (np.cos, torch.cos, -9, 9, 2),
    "tan": (np.tan, torch.tan, -1.5, 1.5, 4), "asin": (np.arcsin, torch.asin, -0.99, 0.99, 4), "acos": (np.arccos, torch.acos, -0.99, 0.99, 4),
    "atan": (np.arctan, torch.atan, -9, 9, 4), "sinh": (np.sinh, torch.sinh, -5, 5, 4), "cosh": (np.cosh, torch.cosh, -5, 5, 4),
    "tanh": (np.tanh, torch.tanh, -5, 5, 5), "asinh": (np.arcsinh, torch.asinh, -9, 9, 4), "acosh": (np.arccosh, torch.acosh, 1.01, 9, 4),
    "atanh": (np.arctanh, torch.atanh, -0.99, 0.99, 4), "sigmoid": (sigmoid, torch.sigmoid, -9, 9, 4),
    "softplus": (softplus, torch.nn.functional.softplus, -9, 9, 4), "erf": (by_mpmath(mpmath.erf), torch.erf, -4, 4, 4),
    "erfc": (ERFC, torch.erfc, -4, 4, 4), "erfinv": (by_mpmath(erfinv), torch.erfinv, -0.99, 0.99, 4),
    "lgamma": (by_mpmath(lgamma), torch.lgamma, 0.05, 20, 4), "digamma": (lambda x: np.where((x == 0) & np.signbit(x), np.inf, DIGAMMA(x)), Digamma.apply, 0.05, 20, 4),
    "silu": (lambda x: x * sigmoid(x), torch.nn.functional.silu, -9, 9, 6),
    "log_sigmoid": (lambda x: -softplus(-x), torch.nn.functional.logsigmoid, -9, 9, 4),
    "softsign": (lambda x: x / (1 + np.abs(x)), torch.nn.functional.softsign, -9, 9, 2),
    "sinc": (sinc, torch.sinc, -3.3, 3.3, 4), "deg2rad": (lambda x: x * (PI / 180), torch.deg2rad, -360, 360, 2),
    "rad2deg": (lambda x: x * (180 / PI), torch.rad2deg, -6, 6, 2),
}
# Those of any number that keep its dtype; no rounding but where said.
KEEPING = {
    "negative": (np.negative, torch.neg), "square": (np.square, torch.square), "sign": (np.sign, torch.sign), "relu": (lambda x: np.maximum(x, np.zeros((), x.dtype)), torch.relu),
    "floor": (np.floor, torch.floor), "ceil": (np.ceil, torch.ceil), "trunc": (np.trunc, torch.trunc), "round": (np.rint, torch.round), "abs": (np.abs, torch.abs),
}
PREDICATES = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit, "logical_not": np.logical_not}
ACTIVATIONS = {  # name: (options, value, torch, units)
    "gelu": [({}, gelu_tanh, lambda x: torch.nn.functional.gelu(x, approximate="tanh")), ({"approximate": False}, gelu_exact, torch.nn.functional.gelu)],
    "relu6": [({}, lambda x: np.clip(x, 0, 6), torch.nn.functional.relu6)],
    "leaky_relu": [({}, lambda x: np.where(x > 0, x, WIDE(0.01) * x), lambda x: torch.nn.functional.leaky_relu(x, 0.01)),
                   ({"slope": 0.2}, lambda x: np.where(x > 0, x, WIDE(0.2) * x), lambda x: torch.nn.functional.leaky_relu(x, 0.2))],
    "elu": [({}, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), torch.nn.functional.elu),
            ({"alpha": 0.7}, lambda x: np.where(x > 0, x, WIDE(0.7) * np.expm1(np.minimum(x, 0))), lambda x: torch.nn.functional.elu(x, 0.7))],
    "celu": [({}, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), torch.nn.functional.celu),
             ({"alpha": 2.5}, lambda x: np.where(x > 0, x, WIDE(2.5) * np.expm1(np.minimum(x, 0) / WIDE(2.5))), lambda x: torch.nn.functional.celu(x, 2.5))],
    "selu": [({}, lambda x: WIDE(1.0507009873554805) * np.where(x > 0, x, WIDE(1.6732632423543772) * np.expm1(np.minimum(x, 0))), torch.nn.functional.selu)],
    "mish": [({}, lambda x: x * np.tanh(softplus(x)), torch.nn.functional.mish)],
    "hard_tanh": [({}, lambda x: np.clip(x, -1, 1), torch.nn.functional.hardtanh)],
    "hard_sigmoid": [({}, lambda x: np.clip(x + 3, 0, 6) / 6, lambda x: torch.clip(x + 3, 0, 6) / 6)],
    "hard_swish": [({}, lambda x: x * (np.clip(x + 3, 0, 6) / 6), torch.nn.functional.hardswish)],
}
SHAPES = [(), (0,), (1,), (3, 0, 2), (7, 9)]


def special(dtype):
    """Zeros of both signs, subnormals, bounds, infinities, NaN, and what lies between."""
    big, tiny, normal = LARGEST[dtype], SMALLEST[dtype], NORMAL[dtype]
    plus = [0.0, tiny, 3 * tiny, normal / 2, normal, 3 * normal, 1e-3, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 10.5, 88.0, 1000.0, big / 4, big, math.inf]
    return np.array(plus + [-x for x in plus] + [math.nan], WIDE)


def per_element(k):
    """Gradients of elementwise functions: each is the cotangent times a derivative that may cancel."""
    return lambda cotangents: Ulp(k, k, max(float(np.max(np.abs(c.wide), initial=0)) for c in cotangents if c is not None))


def unary(cases, name, value, torch_fn, dtype, low, high, tolerance, options=None, fn=None):
    options = options or {}
    for shape in SHAPES:
        x = cases.floats(shape, dtype, low, high)
        cases.add(name, [x], options, value(x.wide), dtype, tolerance, torch_fn, per_element(16))
    x = Operand(special(dtype), dtype, grad=False)
    cases.add(name, [x], options, value(x.wide), dtype, tolerance)
    n = 23
    wide_range = np.exp(cases.rng.uniform(math.log(NORMAL[dtype]), math.log(LARGEST[dtype]), n)) * cases.rng.choice([-1, 1], n)
    x = Operand(wide_range, dtype, grad=False)
    cases.add(name, [x], options, value(x.wide), dtype, tolerance)


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
    for name in ["exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "reciprocal", "rsqrt"]:
        for dtype in COMPLEX:
            complex_unary(cases, name, REAL[name][0], dtype, Ulp(REAL[name][4] + 4))
    for name, (value, torch_fn) in KEEPING.items():
        for dtype in FLOATS:
            unary(cases, name, value, torch_fn, dtype, -9, 9, Ulp(1) if name == "square" else EQUAL if name in ("relu", "sign") else EXACT)
        for dtype in INTS:
            x = Operand(np.concatenate([extremes(dtype), cases.ints((9,), dtype, -90, 90).stored]), dtype)
            cases.add(name, [x], {}, x.stored if name == "round" else value(x.stored), dtype)
    for name in ["negative", "square", "reciprocal"]:
        for dtype in COMPLEX:
            complex_unary(cases, name, np.square if name == "square" else np.negative if name == "negative" else lambda x: 1 / x, dtype, Ulp(4))
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
                unary(cases, name, value, torch_fn, dtype, -8, 8, Ulp(64, 1, 1e-30) if name == "gelu" else Ulp(8, 1, SMALLEST[dtype]), options)
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


# --- Two operands ------------------------------------------------------------------------------------------------------

def logaddexp2(x, y):
    return np.logaddexp2(x, y)


# name: (value, torch, low, high, units)
BINARY = {
    "add": (np.add, torch.add, -9, 9, 1), "subtract": (np.subtract, torch.sub, -9, 9, 1), "multiply": (np.multiply, torch.mul, -9, 9, 1),
    "multiply_no_nan": (lambda x, y: np.where(y == 0, 0, x * y), torch.mul, -9, 9, 1), "divide": (np.divide, torch.div, 0.5, 9, 1),
    "maximum": (np.maximum, torch.maximum, -9, 9, 0), "minimum": (np.minimum, torch.minimum, -9, 9, 0),
    "fmax": (np.fmax, torch.fmax, -9, 9, 0), "fmin": (np.fmin, torch.fmin, -9, 9, 0), "atan2": (np.arctan2, torch.atan2, -9, 9, 4),
    "hypot": (np.hypot, torch.hypot, -9, 9, 3), "copysign": (np.copysign, torch.copysign, -9, 9, 0),
    "logaddexp": (np.logaddexp, torch.logaddexp, -9, 9, 6), "logaddexp2": (logaddexp2, torch.logaddexp2, -9, 9, 6),
    "xlogy": (lambda x, y: np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)), torch.xlogy, 0.1, 9, 4),
    "squared_difference": (lambda x, y: np.square(x - y), lambda x, y: (x - y) ** 2, -9, 9, 2),
    "remainder": (np.remainder, torch.remainder, 0.5, 9, 0), "fmod": (np.fmod, torch.fmod, 0.5, 9, 0),
    "power": (np.power, torch.pow, 0.2, 4, 4), "floor_divide": (np.floor_divide, None, 0.5, 9, 0),
    "heaviside": (np.heaviside, None, -2, 2, 0),
}
WHOLE = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "gcd": np.gcd, "lcm": np.lcm}
COMPARED = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal}
LOGICAL = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
PAIRS = [((5, 7), (5, 7)), ((), (4,)), ((3, 1, 2), (4, 1)), ((0, 3), (1, 3)), ((1,), ())]


def two_operands(cases):
    for name, (value, torch_fn, low, high, k) in BINARY.items():
        tolerance = Ulp(k + 1) if k else EQUAL if "m" in name else EXACT
        for dtype in FLOATS:
            for a, b in PAIRS:
                x, y = cases.floats(a, dtype, low, high), cases.floats(b, dtype, low, high)
                cancels = Ulp(k + 1, k + 2, np.maximum(np.abs(x.wide), np.abs(y.wide)).max(initial=0)) if "logaddexp" in name else tolerance
                cases.add(name, [x, y], {}, value(x.wide, y.wide), dtype, cancels, torch_fn)
            s = special(dtype)[::2] if dtype in ("f16", "f64") else special(dtype)[1::2]
            s = np.concatenate([s, [0.0, math.inf, -math.inf, math.nan]])
            x, y = Operand(s[:, None], dtype, grad=False), Operand(s[None, :], dtype, grad=False)
            if name not in ("power", "remainder", "fmod", "floor_divide"):  # their own list below
                sizes = np.maximum(np.abs(x.wide), np.abs(y.wide))
                cases.add(name, [x, y], {}, value(x.wide, y.wide), dtype, Ulp(k + 1, 4, np.where(np.isfinite(sizes), sizes, 0)) if "logaddexp" in name else tolerance)
    integers(cases)
    comparisons(cases)
    divisions(cases)


def integers(cases):
    with np.errstate(all="ignore"):
        for dtype in INTS:
            x, y = cases.ints((4, 6), dtype, -60, 60), cases.ints((6,), dtype, -60, 60)
            e = extremes(dtype)
            for a, b in [(x, y), (Operand(e[:, None], dtype), Operand(e[None, :], dtype))]:
                for name in ["add", "subtract", "multiply", "maximum", "minimum", "squared_difference"]:
                    cases.add(name, [a, b], {}, BINARY[name][0](a.stored, b.stored), dtype)
                for name in WHOLE:
                    if name != "lcm" or a is x:
                        cases.add(name, [a, b], {}, WHOLE[name](a.stored, b.stored), dtype)
                zero = b.stored == 0
                safe = np.where(zero, 1, b.stored).astype(b.stored.dtype)
                if a is x or dtype[0] == "u":
                    cases.add("floor_divide", [a, b], {}, np.where(zero, 0, a.stored // safe), dtype)
                    cases.add("remainder", [a, b], {}, np.where(zero, 0, a.stored % safe), dtype)
                    cases.add("fmod", [a, b], {}, np.where(zero, 0, np.fmod(a.stored, safe)), dtype)
                for name, value in COMPARED.items():
                    cases.add(name, [a, b], {}, value(a.stored, b.stored), "bool")
            bits = int(dtype[1:])
            by = Operand(cases.rng.integers(0, bits, (6,)), dtype)
            cases.add("left_shift", [x, by], {}, np.left_shift(x.stored, by.stored), dtype)
            cases.add("right_shift", [x, by], {}, np.right_shift(x.stored, by.stored), dtype)
            small, exponent = cases.ints((5,), dtype, -3, 4), Operand(np.array([0, 1, 2, 3, 4]), dtype)
            cases.add("power", [small, exponent], {}, np.power(small.stored, exponent.stored), dtype)
            cases.add("divide", [x, Operand(np.array([1, 2, 3, 5, 7, 9]), dtype)], {}, x.wide.astype(WIDE) / np.array([1, 2, 3, 5, 7, 9], WIDE), "f32", Ulp(2))
    for name in WHOLE:
        if name not in ("gcd", "lcm"):
            x, y = cases.ints((9,), "bool"), cases.ints((9,), "bool")
            cases.add(name, [x, y], {}, WHOLE[name](x.stored, y.stored), "bool")


def comparisons(cases):
    for dtype in FLOATS + ["i16", "bool"]:
        s = special(dtype)[::3] if is_float(dtype) else np.arange(-3, 4) if dtype == "i16" else np.array([0, 1])
        x, y = Operand(s[:, None], dtype, grad=False), Operand(s[None, :], dtype, grad=False)
        for name, value in COMPARED.items():
            cases.add(name, [x, y], {}, value(x.wide, y.wide), "bool")
        for name, value in LOGICAL.items():
            cases.add(name, [x, y], {}, value(x.wide, y.wide), "bool")
    for dtype in COMPLEX:
        x = cases.any((6,), dtype)
        y = Operand(np.where(np.arange(6) % 2, x.wide, x.wide + 1), dtype)
        cases.add("equal", [x, y], {}, x.wide == y.wide, "bool")
        cases.add("not_equal", [x, y], {}, x.wide != y.wide, "bool")


def divisions(cases):
    """What has a sign and a size to get wrong: dividends and divisors of all kinds."""
    s = np.array([0.0, -0.0, 0.5, -0.5, 1, -1, 2.5, -2.5, 3, -3, 7, -7, 1000.5, math.inf, -math.inf, math.nan])
    for dtype in FLOATS:
        x, y = Operand(s[:, None], dtype, grad=False), Operand(s[None, :], dtype, grad=False)
        small = {"f32": np.float32, "f64": np.float64, "f16": np.float32, "bf16": np.float32}[dtype]
        a, b = x.wide.astype(small), y.wide.astype(small)
        with np.errstate(all="ignore"):
            cases.add("floor_divide", [x, y], {}, np.floor_divide(a, b), dtype)
            cases.add("remainder", [x, y], {}, np.remainder(a, b), dtype)
            cases.add("fmod", [x, y], {}, np.fmod(a, b), dtype)
            cases.add("power", [x, y], {}, np.power(x.wide, y.wide), dtype, Ulp(5))
    for dtype in ["f32", "f64"]:
        x, y = Operand(special(dtype), dtype, grad=False), Operand(np.roll(special(dtype), 7), dtype, grad=False)
        kind = np.float32 if dtype == "f32" else np.float64
        cases.add("nextafter", [x, y], {}, np.nextafter(x.stored.astype(kind), y.stored.astype(kind)), dtype)


def mixed_dtypes(cases):
    every = FLOATS + INTS + ["bool"] + COMPLEX
    for a in every:
        for b in every:
            dtype = promote(a, b)
            x, y = cases.any((3, 1), a, grad=False), cases.any((2,), b, grad=False)
            if dtype == "bool":
                continue
            wide = [np.asarray(o.wide, np.clongdouble if is_complex(dtype) else WIDE) for o in (x, y)]
            if dtype in INTS:
                with np.errstate(all="ignore"):
                    wide = [o.stored.astype(np.int64) for o in (x, y)]
            cases.add("add", [x, y], {}, wide[0] + wide[1], dtype, Ulp(1) if dtype not in INTS else EXACT)
            cases.add("equal", [x, y], {}, np.asarray(x.wide) == np.asarray(y.wide), "bool")


# --- The others --------------------------------------------------------------------------------------------------------

def selections(cases):
    for dtype in FLOATS + ["i32", "bool", "c64"]:
        c, a, b = cases.ints((3, 1, 4), "bool"), cases.any((2, 4), dtype), cases.any((3, 1, 1), dtype)
        cases.add("where", [c, a, b], {}, np.where(c.stored, a.wide, b.wide), dtype, EXACT, torch.where if is_float(dtype) else None)
    for dtype in FLOATS + ["i32", "u8"]:
        x = cases.any((4, 5), dtype)
        low, high = (Operand(v, dtype, grad=False) for v in ((-0.5, 0.75) if is_float(dtype) else (1, 3)))
        cases.add("clip", [x, low, high], {}, np.clip(x.wide, low.wide, high.wide), dtype, EXACT, (lambda x, low, high: torch.clip(x, low, high)) if is_float(dtype) else None)
    for dtype in FLOATS:
        x = Operand(special(dtype), dtype, grad=False)
        for nan in [0.0, 2.5]:
            big = LARGEST[dtype]
            cases.add("nan_to_num", [x], {"nan": nan}, np.nan_to_num(x.wide, nan=nan, posinf=big, neginf=-big), dtype)
        x = cases.normals((3, 4), dtype)
        cases.add("stop_gradient", [x], {}, x.wide, dtype, EXACT, lambda x: x.detach())
        cases.add("identity", [x], {}, x.wide, dtype, EXACT, lambda x: x * 1)
    for a in ["f32", "f64", "f16"]:
        x = Operand(special(a), a, grad=False)
        y = Operand(special(a) * (1 + 1e-6), a, grad=False)
        for options in [{}, {"equal_nan": True}, {"rtol": 1e-3, "atol": 1e-2}]:
            want = np.isclose(x.wide.astype(np.float64), y.wide.astype(np.float64), **options)
            cases.add("isclose", [x, y], options, want, "bool")
            cases.add("allclose", [x, y], options, want.all(), "bool")
    x = cases.normals((4,), "f32")
    for other in [x, Operand(x.wide + 1, "f32"), cases.normals((5,), "f32")]:
        same = x.shape == other.shape and bool(np.all(x.wide == other.wide))
        cases.add("array_equal", [x, other], {}, np.array(same), "bool")
        cases.add("same_bits", [x, other], {}, np.array(same), "bool")
    zeros = [Operand(np.array([0.0, 1.0]), "f32"), Operand(np.array([-0.0, 1.0]), "f32")]
    cases.add("same_bits", zeros, {}, np.array(False), "bool")
    cases.add("array_equal", zeros, {}, np.array(True), "bool")


def casts(cases):
    with np.errstate(all="ignore"):
        for a in FLOATS + INTS + ["bool"] + COMPLEX:
            for b in FLOATS + INTS + ["bool"] + COMPLEX:
                if is_complex(a) and not is_complex(b):
                    continue
                x = cases.ints((3, 4), a, 0, 90, grad=False) if a in INTS or a == "bool" else Operand(cases.rng.uniform(0, 90, (3, 4)), a, grad=is_float(b))
                wide = np.trunc(np.real(x.wide)) if b in INTS and not a in INTS + ["bool"] else x.wide
                cases.add("astype", [x], {"dtype": b}, wide != 0 if b == "bool" else wide, b, EXACT, (lambda x: x * 1) if is_float(a) and is_float(b) else None)
    for a, b, kind in [("f32", "i32", np.int32), ("f64", "u64", np.uint64), ("f16", "i16", np.int16), ("f32", "u32", np.uint32)]:
        x = Operand(special(a)[:-1], a, grad=False)
        cases.add("bitcast", [x], {"dtype": b}, x.stored.view(kind), b)


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [one_operand, two_operands, mixed_dtypes, selections, casts]:
            family(cases)
