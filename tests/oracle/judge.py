"""What the families of cases are written with: operands of every dtype, expected values, gradients by torch, the file.

A value is computed in more digits than rill has (x86's long double, or float64 for f16, bf16 and f32) from the operands
as they are after rounding, then rounded once to the dtype of the result. A gradient is torch's, in float64.
cases.h describes the file.
"""

import gzip
import json
import struct

import numpy as np
import torch

WIDE, WIDE_COMPLEX = np.longdouble, np.clongdouble
EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52, "c64": 2.0**-23, "c128": 2.0**-52}
SMALLEST = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 5e-324}
NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}
LARGEST = {
    "f16": 65504.0,
    "bf16": float.fromhex("0x1.fep127"),
    "f32": float.fromhex("0x1.fffffep127"),
    "f64": 1.7976931348623157e308,
}
STORED = {
    "bool": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
}
FLOATS = ["f16", "bf16", "f32", "f64"]
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
COMPLEX = ["c64", "c128"]
LATTICE = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2, "c64": 3, "c128": 4}


def is_float(dtype):
    return dtype in FLOATS


def is_complex(dtype):
    return dtype in COMPLEX


def to_floating(dtype):
    return dtype if is_float(dtype) or is_complex(dtype) else "f32"


def promote(a, b):
    """JAX's lattice of dtypes."""
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if a in INTS and b in INTS:
        bits = max(int(a[1:]), int(b[1:]))
        if a[0] == b[0]:
            return a[0] + str(bits)
        signed, unsigned = (a, b) if a[0] == "i" else (b, a)
        if int(signed[1:]) > int(unsigned[1:]):
            return signed
        return "f64" if unsigned == "u64" else "i" + str(2 * int(unsigned[1:]))
    if a in INTS or b in INTS:
        return b if a in INTS else a
    if {a, b} == {"f16", "bf16"}:
        return "f32"
    if {a, b} == {"f64", "c64"}:
        return "c128"
    return a if LATTICE[a] > LATTICE[b] else b


def encode(values, dtype):
    """The elements as `dtype` stores them; of bf16 the upper halves of f32, rounded to even."""
    with np.errstate(all="ignore"):
        if dtype != "bf16":
            return np.array(values).astype(STORED[dtype], order="C")
        bits = np.array(values).astype(np.float32, order="C").view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(np.asarray(values, np.float64)), 0x7FC0, rounded).astype(np.uint16)


def decode(stored, dtype):
    """The wide values of stored elements; of integers and bools the elements themselves."""
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(WIDE)
    if is_complex(dtype):
        return stored.astype(WIDE_COMPLEX)
    return stored.astype(WIDE) if is_float(dtype) else stored


class Operand:
    """A tensor as rill gets it: `wide` holds the values that are left after rounding to `dtype`."""

    def __init__(self, values, dtype="f32", layout="", grad=True):
        self.dtype, self.layout = dtype, layout
        self.stored = encode(values, dtype)
        self.wide = decode(self.stored, dtype)
        self.grad = grad and is_float(dtype)
        self.shape = self.stored.shape

    def torch(self):
        if is_complex(self.dtype):
            return torch.tensor(self.wide.astype(np.complex128))
        if self.dtype in ("u16", "u32", "u64"):
            return torch.tensor(self.stored.astype(np.int64))
        return torch.tensor(self.wide.astype(np.float64) if is_float(self.dtype) else self.stored)


def rounded_up(tolerance):
    return np.nextafter(tolerance.astype(np.float32), np.float32(np.inf))


class Ulp:
    """Off by at most k units in the last place of the result, plus `eps` times its dtype's epsilon times `scale`."""

    def __init__(self, k, eps=0.0, scale=0.0):
        self.k, self.eps, self.scale = k, eps, scale

    def fields(self, dtype, values, add):
        out = {"ulp": self.k}
        scale = np.abs(np.asarray(self.scale, WIDE)) if not callable(self.scale) else np.abs(self.scale(values))
        if self.eps:
            tolerance = np.nan_to_num(scale.astype(np.float64), nan=0, posinf=0) * self.eps * EPSILON[dtype]
            real = {"c64": "f32", "c128": "f64"}.get(dtype, dtype)
            tolerance = tolerance + SMALLEST[real] * self.eps
            out["abs"] = (
                float(tolerance)
                if tolerance.ndim == 0
                else add(np.broadcast_to(rounded_up(tolerance), np.shape(values)), "f32")
            )
        return out


class Within:
    """Off by at most `amount`, a number or one an element: for what is drawn at random."""

    def __init__(self, amount):
        self.amount = amount

    def fields(self, dtype, values, add):
        a = np.asarray(self.amount, np.float64)
        return {"ulp": 0, "abs": float(a) if a.ndim == 0 else add(np.broadcast_to(a, np.shape(values)), "f64")}


EXACT = None
EQUAL = Within(5e-324)  # but that zeros may differ in sign, where the judges differ among themselves


def largest(values):
    """The largest finite magnitude: what sums of terms of both signs are held against."""
    v = np.abs(np.asarray(values))
    v = v[np.isfinite(v)]
    return v.max() if v.size else WIDE(0)


def of_largest(eps):
    return Ulp(0, eps, largest)


def at_least_one(eps):
    return Ulp(0, eps, lambda values: max(1, largest(values)))


def of_terms(eps):
    """Gradients that are sums of cotangents times slopes, which may cancel."""
    return lambda cotangents: Ulp(
        4, eps, lambda values: max([largest(values)] + [largest(c.wide) for c in cotangents if c is not None])
    )


def moved_tensors(x, blob, to, places):
    """A case, or a part of one, whose tensors lie in the blob `to`: cases that are left out leave nothing behind."""
    if isinstance(x, dict):
        return {k: v if k == "opt" else moved_tensors(v, blob, to, places) for k, v in x.items()}
    if not isinstance(x, list):
        return x
    if not (len(x) == 4 and isinstance(x[0], str)):
        return [moved_tensors(v, blob, to, places) for v in x]
    dtype, shape, at, layout = x
    size = int(np.prod(shape)) * (2 if dtype == "bf16" else np.dtype(STORED[dtype]).itemsize)
    if (at, size) not in places:
        to += b"\0" * (-len(to) % 16)
        places[at, size] = len(to)
        to += blob[at : at + size]
    return [dtype, shape, places[at, size], layout]


# Without a second order: what gives tensors whose size depends on values, and what torch derives less exactly, or not.
ONCE = {"repeat by a tensor", "boolean_mask", "index by mask", "digamma", "norm", "gradient of"} | {
    "sparse matmul sparse", "sparse multiply sparse", "sparse coalesce", "sparse slice"
}


class Cases:
    """The cases so far, and the random numbers that they are made of."""

    def __init__(self, seed):
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.cases, self.blob, self.places = [], bytearray(), {}
        self.transforms = None  # called for each case with gradients (transforms.py)

    # --- Tensors in the file ---
    def tensor(self, stored, dtype, layout=""):
        data = stored.tobytes()
        at = self.places.get(data)
        if at is None:
            self.blob += b"\0" * (-len(self.blob) % 16)
            at = self.places[data] = len(self.blob)
            self.blob += data
        return [dtype, list(stored.shape), at, layout]

    def expected(self, values, dtype, tolerance):
        e = {"t": self.tensor(encode(values, dtype), dtype)}
        if tolerance is not EXACT:
            e |= tolerance.fields(dtype, values, lambda v, d: self.tensor(encode(v, d), d))
        return e

    # --- Random operands ---
    def layout(self, shape):
        if len(shape) == 0 or 0 in shape:
            return ""
        return self.rng.choice(["", "", "transposed", "sliced", "reversed", "offset"])

    def floats(self, shape, dtype="f32", low=-2.0, high=2.0, **more):
        more.setdefault("layout", str(self.layout(shape)))
        return Operand(self.rng.uniform(low, high, shape), dtype, **more)

    def normals(self, shape, dtype="f32", **more):
        more.setdefault("layout", str(self.layout(shape)))
        return Operand(self.rng.normal(size=shape), dtype, **more)

    def ints(self, shape, dtype="i64", low=-5, high=6, **more):
        more.setdefault("layout", str(self.layout(shape)))
        if dtype[0] == "u" or dtype == "bool":
            low = 0
        return Operand(self.rng.integers(low, 2 if dtype == "bool" else high, shape), dtype, **more)

    def any(self, shape, dtype, **more):
        """Numbers of any dtype, small enough that nothing overflows."""
        if is_complex(dtype):
            more.setdefault("layout", str(self.layout(shape)))
            return Operand(self.rng.normal(size=shape) + 1j * self.rng.normal(size=shape), dtype, **more)
        return self.normals(shape, dtype, **more) if is_float(dtype) else self.ints(shape, dtype, **more)

    def choice(self, options):
        return options[int(self.rng.integers(len(options)))]

    def shape(self, least=0, most=4, size=5):
        return tuple(int(n) for n in self.rng.integers(1, size + 1, int(self.rng.integers(least, most + 1))))

    # --- Cases ---
    def add(
        self, fn, operands, options, values, dtypes, tolerance=EXACT, torch_fn=None, grad_tolerance=None, cotangent=None
    ):
        """A case whose results are `values` (one array or a list) of `dtypes`; gradients where torch_fn gives them.

        torch_fn takes float64 tensors and gives the results, or a list of them.
        """
        values = values if isinstance(values, list) else [values]
        dtypes = dtypes if isinstance(dtypes, list) else [dtypes] * len(values)
        tolerances = tolerance if isinstance(tolerance, list) else [tolerance] * len(values)
        case = {
            "fn": fn,
            "in": [self.tensor(o.stored, o.dtype, o.layout) for o in operands],
            "opt": options,
            "out": [self.expected(v, d, t) for v, d, t in zip(values, dtypes, tolerances)],
        }
        if torch_fn is not None and any(o.grad for o in operands) and any(is_float(d) for d in dtypes):
            case |= self.gradients(operands, torch_fn, dtypes, grad_tolerance or of_terms(16), cotangent)
            self.cases.append(case)
            if self.transforms is not None:
                self.transforms(fn, operands, options, torch_fn, dtypes, tolerances, grad_tolerance)
            if self.rng.random() < 0.1 and fn not in ONCE and not fn.startswith("nn::"):
                self.second_order(fn, operands, options, torch_fn, dtypes)
        else:
            self.cases.append(case)

    def second_order(self, fn, operands, options, torch_fn, dtypes):
        """The gradient of the sum of the first result by the first operand that has one, as a function with gradients."""
        by = next(i for i, o in enumerate(operands) if o.grad)
        if dtypes[0] not in ("f32", "f64") or max(o.stored.size for o in operands) > 2000:
            return

        def slope(*x):
            y = torch_fn(*x)
            y = y[0] if isinstance(y, (list, tuple)) else y
            x = x[by] if x[by].requires_grad else None
            return torch.autograd.grad((y * y).sum(), x, create_graph=True)[0]

        # A result that is coarser than the operand, as of astype, rounds the terms of its gradient.
        coarser = max(1, EPSILON[dtypes[0]] / EPSILON[operands[by].dtype])
        try:
            inputs = [o.torch().requires_grad_(o.grad) for o in operands]
            values = slope(*inputs).detach().numpy()
            more = self.gradients(operands, slope, [operands[by].dtype], at_least_one(4096 * coarser), None)
        except RuntimeError:
            return  # torch has no second derivative, or the first does not depend on the operand
        if not np.all(np.isfinite(values)):
            return
        out = self.expected(values, operands[by].dtype, at_least_one(1024 * coarser))
        self.cases.append(
            {
                "fn": "gradient of",
                "in": [self.tensor(o.stored, o.dtype, o.layout) for o in operands],
                "opt": {"of": fn, "by": by, "opt": options},
                "out": [out],
            }
            | more
        )

    def by_torch(self, fn, operands, options, torch_fn, dtype, tolerance, **more):
        """A case whose values are torch's too."""
        with torch.no_grad():
            out = torch_fn(*[o.torch() for o in operands])
        values = [t.numpy() for t in out] if isinstance(out, (list, tuple)) else [out.numpy()]
        self.add(fn, operands, options, values, dtype, tolerance, torch_fn, **more)

    def gradients(self, operands, torch_fn, dtypes, tolerance, cotangent):
        inputs = [o.torch().requires_grad_(o.grad) for o in operands]
        out = torch_fn(*inputs)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        cotangents = [
            (
                Operand(
                    (
                        self.rng.uniform(0.5, 2, tuple(t.shape)) * self.rng.choice([-1, 1])
                        if cotangent is None
                        else cotangent
                    ),
                    d,
                )
                if is_float(d)
                else None
            )
            for t, d in zip(out, dtypes)
        ]
        total = sum((t * c.torch()).sum() for t, c in zip(out, cotangents) if c is not None)
        wanted = [i for i, o in enumerate(operands) if o.grad]
        if total.requires_grad:
            found = torch.autograd.grad(total, [inputs[i] for i in wanted], allow_unused=True)
        else:
            found = [None] * len(wanted)
        grads = [None] * len(operands)
        for i, g in zip(wanted, found):
            g = np.zeros(operands[i].shape) if g is None else g.numpy()
            t = tolerance(cotangents) if callable(tolerance) else tolerance
            grads[i] = self.expected(g, operands[i].dtype, t)
        return {"cot": [None if c is None else self.tensor(c.stored, c.dtype) for c in cotangents], "grad": grads}

    def write(self, path, versions):
        level = 9 if len(self.cases) < 8000 else 1
        blob, places = bytearray(), {}
        cases = [moved_tensors(c, self.blob, blob, places) for c in self.cases]
        text = json.dumps(
            {"versions": versions, "seed": self.seed, "cases": cases}, separators=(",", ":"), allow_nan=False
        ).encode()
        with open(path, "wb") as file:  # without a time and a name: the same cases give the same file
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=level, mtime=0) as packed:
                packed.write(b"rill oracle 1\n" + struct.pack("<Q", len(text)) + text + bytes(blob))
