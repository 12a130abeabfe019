"""Cases of the functions of two and three operands, of scalars beside tensors, mixed dtypes, selections and casts."""

import math

import numpy as np
import torch

from elementwise import extremes, special
from judge import COMPLEX, EQUAL, EXACT, FLOATS, INTS, LARGEST, WIDE, Operand, Ulp, is_complex, is_float, promote

# --- Two operands ------------------------------------------------------------------------------------------------------


def logaddexp2(x, y):
    return np.logaddexp2(x, y)


# name: (value, torch, low, high, units)
BINARY = {
    "add": (np.add, torch.add, -9, 9, 1),
    "subtract": (np.subtract, torch.sub, -9, 9, 1),
    "multiply": (np.multiply, torch.mul, -9, 9, 1),
    "multiply_no_nan": (lambda x, y: np.where(y == 0, 0, x * y), torch.mul, -9, 9, 1),
    "divide": (np.divide, torch.div, 0.5, 9, 1),
    "maximum": (np.maximum, torch.maximum, -9, 9, 0),
    "minimum": (np.minimum, torch.minimum, -9, 9, 0),
    "fmax": (np.fmax, torch.fmax, -9, 9, 0),
    "fmin": (np.fmin, torch.fmin, -9, 9, 0),
    "atan2": (np.arctan2, torch.atan2, -9, 9, 4),
    "hypot": (np.hypot, torch.hypot, -9, 9, 3),
    "copysign": (np.copysign, torch.copysign, -9, 9, 0),
    "logaddexp": (np.logaddexp, torch.logaddexp, -9, 9, 6),
    "logaddexp2": (logaddexp2, torch.logaddexp2, -9, 9, 6),
    "xlogy": (lambda x, y: np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)), torch.xlogy, 0.1, 9, 4),
    "squared_difference": (lambda x, y: np.square(x - y), lambda x, y: (x - y) ** 2, -9, 9, 2),
    "remainder": (np.remainder, torch.remainder, 0.5, 9, 0),
    "fmod": (np.fmod, torch.fmod, 0.5, 9, 0),
    "power": (np.power, torch.pow, 0.2, 4, 4),
    "pow": (np.power, torch.pow, 0.2, 4, 4),
    "floor_divide": (np.floor_divide, None, 0.5, 9, 0),
    "heaviside": (np.heaviside, None, -2, 2, 0),
}
WHOLE = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "gcd": np.gcd,
    "lcm": np.lcm,
}
COMPARED = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
LOGICAL = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
PAIRS = [((5, 7), (5, 7)), ((), (4,)), ((3, 1, 2), (4, 1)), ((0, 3), (1, 3)), ((1,), ())]


def two_operands(cases):
    for name, (value, torch_fn, low, high, k) in BINARY.items():
        tolerance = Ulp(k + 1) if k else EQUAL if "m" in name else EXACT
        for dtype in FLOATS:
            for a, b in PAIRS:
                x, y = cases.floats(a, dtype, low, high), cases.floats(b, dtype, low, high)
                cancels = (
                    Ulp(k + 1, k + 2, np.maximum(np.abs(x.wide), np.abs(y.wide)).max(initial=0))
                    if "logaddexp" in name
                    else tolerance
                )
                cases.add(name, [x, y], {}, value(x.wide, y.wide), dtype, cancels, torch_fn)
            s = special(dtype)[::2] if dtype in ("f16", "f64") else special(dtype)[1::2]
            s = np.concatenate([s, [0.0, math.inf, -math.inf, math.nan]])
            x, y = Operand(s[:, None], dtype, grad=False), Operand(s[None, :], dtype, grad=False)
            if name not in ("power", "pow", "remainder", "fmod", "floor_divide"):  # their own list below
                sizes = np.maximum(np.abs(x.wide), np.abs(y.wide))
                cases.add(
                    name,
                    [x, y],
                    {},
                    value(x.wide, y.wide),
                    dtype,
                    Ulp(k + 1, 4, np.where(np.isfinite(sizes), sizes, 0)) if "logaddexp" in name else tolerance,
                )
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
            cases.add(
                "divide",
                [x, Operand(np.array([1, 2, 3, 5, 7, 9]), dtype)],
                {},
                x.wide.astype(WIDE) / np.array([1, 2, 3, 5, 7, 9], WIDE),
                "f32",
                Ulp(2),
            )
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


def scalars(cases):
    """C++ numbers beside tensors: they take the tensor's dtype, but that a fraction beside integers gives f32."""
    for dtype in FLOATS + INTS:
        for number, kind in [(2.5, "f64"), (3, "i64")]:
            x, weak = cases.any((3, 4), dtype), Operand(np.array(number), kind, "weak", grad=False)
            out = "f32" if dtype in INTS and kind == "f64" else dtype
            exact = out in INTS
            a = x.stored if exact else x.wide.astype(WIDE)
            b = np.array(number, a.dtype)
            if is_float(out):  # the number is rounded to the dtype first
                b = Operand(np.array(number), out).wide
            torch_add = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "maximum": torch.maximum}
            for name in torch_add:
                cases.add(
                    name,
                    [x, weak],
                    {},
                    BINARY[name][0](a, b),
                    out,
                    EXACT if exact else EQUAL if name == "maximum" else Ulp(1),
                    torch_add[name] if is_float(dtype) else None,
                )
                cases.add(
                    name,
                    [weak, x],
                    {},
                    BINARY[name][0](b, a),
                    out,
                    EXACT if exact else EQUAL if name == "maximum" else Ulp(1),
                )
            cases.add("divide", [x, weak], {}, a.astype(WIDE) / WIDE(number), "f32" if dtype in INTS else dtype, Ulp(2))
            cases.add(
                "less", [x, weak], {}, x.stored.astype(WIDE) < number if dtype != "bf16" else x.wide < number, "bool"
            )


# --- The others --------------------------------------------------------------------------------------------------------


def selections(cases):
    for dtype in FLOATS + ["i32", "bool", "c64"]:
        c, a, b = cases.ints((3, 1, 4), "bool"), cases.any((2, 4), dtype), cases.any((3, 1, 1), dtype)
        cases.add(
            "where",
            [c, a, b],
            {},
            np.where(c.stored, a.wide, b.wide),
            dtype,
            EXACT,
            torch.where if is_float(dtype) else None,
        )
    for dtype in FLOATS + ["i32", "u8"]:
        x = cases.any((4, 5), dtype)
        low, high = (Operand(v, dtype, grad=False) for v in ((-0.5, 0.75) if is_float(dtype) else (1, 3)))
        cases.add(
            "clip",
            [x, low, high],
            {},
            np.clip(x.wide, low.wide, high.wide),
            dtype,
            EXACT,
            (lambda x, low, high: torch.clip(x, low, high)) if is_float(dtype) else None,
        )
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
                x = (
                    cases.ints((3, 4), a, 0, 90, grad=False)
                    if a in INTS or a == "bool"
                    else Operand(cases.rng.uniform(0, 90, (3, 4)), a, grad=is_float(b))
                )
                wide = np.trunc(np.real(x.wide)) if b in INTS and not a in INTS + ["bool"] else x.wide
                cases.add(
                    "astype",
                    [x],
                    {"dtype": b},
                    wide != 0 if b == "bool" else wide,
                    b,
                    EXACT,
                    (lambda x: x * 1) if is_float(a) and is_float(b) else None,
                )
    for a, b, kind in [
        ("f32", "i32", np.int32),
        ("f64", "u64", np.uint64),
        ("f16", "i16", np.int16),
        ("f32", "u32", np.uint32),
    ]:
        x = Operand(special(a)[:-1], a, grad=False)
        cases.add("bitcast", [x], {"dtype": b}, x.stored.view(kind), b)


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [two_operands, mixed_dtypes, scalars, selections, casts]:
            family(cases)
