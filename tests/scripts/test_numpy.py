"""rill and numpy in one process: arrays and tensors over the same memory by DLPack, and tensors' text held to numpy's
array2string under its options. Runs in the environment .deps/formats (tests/formats.txt).
"""
import gc
import subprocess
import sys
import warnings
import weakref

from formats_environment import BUILD, ROOT, needed

with needed():
    import numpy as np

from bridge import Bridge, Checks, MODES, error_of

warnings.simplefilter("ignore", RuntimeWarning)  # samples that overflow in a narrow dtype are meant to
rill = Bridge(BUILD)
check = Checks()
random = np.random.default_rng(7)
def numbers(dtype, shape):
    dtype = np.dtype(dtype)
    if dtype == bool:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return random.integers(np.iinfo(dtype).min // 3, np.iinfo(dtype).max // 3, shape, dtype=dtype)
    if dtype.kind == "c":
        return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(dtype)
    return random.normal(size=shape).astype(dtype)


DTYPES = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


class Owned(np.ndarray):
    """An array that a weak reference can point to."""


# --- From numpy -------------------------------------------------------------------------------------------------------

LAYOUTS = [lambda a: a, lambda a: a.T, lambda a: a[::2, 1:], lambda a: a[::-1, ::-1], lambda a: a[1],
           lambda a: np.broadcast_to(a[0], (3, a.shape[1])), lambda a: a[0, 0], lambda a: a[:0]]
for dtype in DTYPES:
    for layout in LAYOUTS:
        for versioned in (True, False):
            a = layout(numbers(dtype, (4, 6)))
            if not versioned and not np.asarray(a).flags.writeable:
                continue  # numpy itself says that it needs DLPack 1.0 there
            a = np.asarray(a)
            for copy in (-1, 1):
                t = rill.take(a, versioned, copy)
                back = np.from_dlpack(t)
                check(back.dtype == a.dtype and back.shape == a.shape and np.array_equal(back, a), (dtype, a))
                check((a.size == 0) or np.shares_memory(back, a) == (copy != 1), (dtype, a.strides, copy))
            if dtype[0] in "iufc":
                check(np.array_equal(np.from_dlpack(rill.take(a).call("bridge_twice")), a + a), (dtype, a))

# The memory lives as long as a tensor does, a view of a view too.
base = numbers("f4", (5, 3)).view(Owned)
alive = weakref.ref(base)
expected = np.array(base.T[::2])
t = rill.take(base).call("bridge_view", b"T").call("bridge_view", b"[::2]")
del base
gc.collect()
check(alive() is not None, "the array went while a tensor reads it")
check(np.array_equal(np.from_dlpack(t), expected), "a view of a view")
del t
gc.collect()
check(alive() is None, "the array is kept")

# What rill makes of a tensor never changes the array.
a = numbers("f4", (4,))
before = a.copy()
updated = rill.take(a).call("bridge_update")
check(np.array_equal(a, before) and np.from_dlpack(updated)[0] == 7, "an update wrote into numpy's memory")

# --- To numpy ---------------------------------------------------------------------------------------------------------

t = rill.take(numbers("f8", (3, 4)))
shared = np.from_dlpack(t)
check(not shared.flags.writeable, "a tensor's memory may be written to")
check("read-only" in error_of(lambda: shared.__setitem__((0, 0), 1)), "numpy wrote into a tensor")
check(np.from_dlpack(t, copy=True).flags.writeable, "a copy may not be written to")
expected = np.array(shared)
del t
gc.collect()
check(np.array_equal(shared, expected), "the elements went with the tensor")
old = np.from_dlpack(type("Old", (), {  # a library that gives no version
    "__dlpack__": lambda self, **_: rill.take(expected).capsule(versioned=False), "__dlpack_device__": lambda self: (1, 0)})())
check(np.array_equal(old, expected), "DLPack before 1.0")

# --- What cannot be taken ---------------------------------------------------------------------------------------------
odd = np.frombuffer(bytes(33), np.uint8)[1:].view("f4")
check("aligned" in error_of(lambda: rill.take(odd)), error_of(lambda: rill.take(odd)))
bytes_as_bools = np.array([0, 1, 2], "u1").view(bool)
check("0 or 1" in error_of(lambda: rill.take(bytes_as_bools)), "bools of other bytes")

# --- Text -------------------------------------------------------------------------------------------------------------


def samples():
    for dtype in DTYPES:
        for shape in [(3,), (2, 3), (30,), (2, 2, 7), (1, 1), ()]:
            yield numbers(dtype, shape)
    for dtype in ("f2", "f4", "f8"):
        finite = np.finfo(dtype)
        for values in ([0, -0.0, 1], [np.nan, 1, 2.5], [np.inf, -1.5], [-np.inf, np.nan], [np.nan], [1e-4, 1], [1e-5, 1],
                       [1000, 1], [999.9, 1001], [1e4, 1e-3], [123456.789], [1234567], [finite.max, 1], [finite.tiny],
                       [finite.smallest_subnormal], [0.1, 0.25, 3], [1 / 3, -2 / 3], [1e6], [999999], [99999999, 1],
                       [9.9999, 99.99999], [0.5, 1.5, 2.5], [1e-10, 1e-12], [-1e-10, 5]):
            yield np.array(values).astype(dtype)
        for scale in (1, 1e-3, 1e3, 1e5):
            yield (random.normal(size=(4, 5)) * scale).astype(dtype)
            yield np.round(random.normal(size=(3, 40)) * scale, 2).astype(dtype)
        yield np.exp(random.normal(size=20) * 4).astype(dtype)
    for dtype in ("c8", "c16"):
        yield np.array([1 + 2j, complex(np.nan, 1), complex(-np.inf, -0.0)]).astype(dtype)
        yield (np.exp(random.normal(size=6) * 4) + 1j * np.exp(random.normal(size=6) * 4)).astype(dtype)
    yield np.arange(2000).reshape(20, 100)
    yield np.arange(2000.) / 7
    yield numbers("f4", (40, 50))
    yield numbers("i4", (11, 3, 40))
    yield np.array([-5, 100, 7], "i8")
    yield np.zeros((0, 3))


OPTIONS = [{}, *({"floatmode": m} for m in MODES), *({"floatmode": m, "precision": p} for m in MODES for p in (0, 2, 3, 12)),
           {"precision": 0}, {"precision": 3, "suppress": True}, {"suppress": True}, {"sign": "+"}, {"sign": " "},
           {"sign": "+", "floatmode": "fixed", "precision": 2}, {"sign": " ", "precision": 3, "suppress": True},
           {"linewidth": 40}, {"linewidth": 20, "precision": 2}, {"linewidth": 120}, {"linewidth": 1},
           {"threshold": 5}, {"threshold": 5, "edgeitems": 1}, {"threshold": 0, "edgeitems": 2, "linewidth": 30},
           {"threshold": 5, "edgeitems": 0}, {"threshold": 10**6}]


def numpys(a, options):
    return np.array2string(a, max_line_width=options.get("linewidth"), precision=options.get("precision"),
                           suppress_small=options.get("suppress"), threshold=options.get("threshold"),
                           edgeitems=options.get("edgeitems"), sign=options.get("sign"),
                           floatmode=options.get("floatmode"))


# --- docs/functions.md names numpy's functions by their names, and none is missing ---
judged = subprocess.run([sys.executable, f"{ROOT}/docs/print_functions.py", "--judge"], text=True, stdout=subprocess.PIPE)
check(judged.returncode == 0, judged.stdout)

different = []
for a in samples():
    t = rill.take(np.asarray(a))
    if t.text() != str(a):
        different.append(("str", a.dtype, t.text(), str(a)))
    check.count += 1
    for options in OPTIONS:
        if not options:
            continue
        if t.text(**options) != numpys(a, options):
            different.append((options, a.dtype, t.text(**options), numpys(a, options)))
        check.count += 1
for options, dtype, ours, theirs in different[:10]:
    print(f"{options} {dtype}\n  rill:  {ours!r}\n  numpy: {theirs!r}")
print(f"numpy {np.__version__}: {check.count} comparisons, {len(different)} differ")
sys.exit(1 if different else 0)
