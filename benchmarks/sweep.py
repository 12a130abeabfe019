#!/usr/bin/env python3
"""Every function on a million elements, beside torch and numpy: what `./dev bench sweep` calls.

  --program FILE   benchmarks/sweep of the build
  --worst N        how many lines to print (default 100)
  --limit X        exit with 1 where more calls than --allowed are more than X times slower than the faster peer. Such a
                   call is measured again, with longer timings, in a fresh process, until it is within the limit or five
                   times; the best counts. Those that stay above it are named at the very end
  --allowed N      (default 0)
  --threads N      for all three (default 2); with one, processor time is counted, which other work disturbs little
  --seconds S      only so many calls as fit into that time, in rounds that take one of each function; shorter timings
  --seed N         which calls those are (default 0)
  --dtypes A,B     only these
  --markdown FILE  docs/sweep.md: which calls are slower than ABOVE times the faster peer, and why
  NAMES            only these functions

A row is a function, a dtype and a layout, forward or with the gradient of its sum. A call that either side refuses is
left out. The functions are those of tests/oracle's tables; what torch and numpy call them is in FUNCTIONS below. A
function that is not listed there is not swept; the last line says how many are.
"""

import argparse
import itertools
import json
import os
import random
import re
import subprocess
import sys
import time
import warnings

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", required=True)
parser.add_argument("--worst", type=int, default=100)
parser.add_argument("--limit", type=float)
parser.add_argument("--allowed", type=int, default=0)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seconds", type=float)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--dtypes", default="bool,u8,i8,i16,i32,i64,f16,bf16,f32,f64,c64,c128")
parser.add_argument("--markdown")
parser.add_argument("names", nargs="*")
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(arguments.threads)
os.environ.setdefault("RILL_BENCH_SECONDS", "0.005" if arguments.seconds else "0.02")  # a call; there are thousands
if arguments.threads == 1:
    os.environ["RILL_BENCH_CLOCK"] = "cpu"
began = time.monotonic()

import numpy as np  # noqa: E402  after the number of threads
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from peers import common  # noqa: E402
from peers.common import median_us  # noqa: E402

torch.set_num_threads(arguments.threads)
warnings.filterwarnings("ignore")

TORCH = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "c64": torch.complex64, "c128": torch.complex128,
}  # fmt: skip
NUMPY = {
    "bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip
ALL = arguments.dtypes.split(",")
FLOATS = ["f16", "bf16", "f32", "f64"]
SHAPE = [1000, 1000]


def operand(shape=SHAPE, low=0.5, high=1.5, dtype=None):
    """An operand of random numbers; `dtype` where it is not that of the row."""
    return {"shape": shape, "from": low, "to": high, "dtype": dtype}


class Function:
    def __init__(self, name, torch_call, numpy_call, operands, options, gradient):
        self.name, self.torch, self.numpy, self.operands, self.options = name, torch_call, numpy_call, operands, options
        self.gradient = gradient


FUNCTIONS = []


def add(name, torch_call=None, numpy_call=None, operands=None, options=None, gradient=True):
    FUNCTIONS.append(Function(name, torch_call, numpy_call, operands or [operand()], options or {}, gradient))


def one(names, gradient=True, **other):
    for name in names.split():
        ours, theirs = name.split("=") if "=" in name else (name, name)
        call = getattr(torch, theirs, None) or getattr(F, theirs, None) or getattr(torch.special, theirs)
        add(ours, call, getattr(np, ours, None), gradient=gradient, **other)


one("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh atanh")
one("sigmoid softplus erf erfc erfinv lgamma digamma negative square sign relu abs silu log_sigmoid=logsigmoid relu6")
one("softsign sinc deg2rad rad2deg selu mish")
# For integers the result is f32 here, and of their dtype in torch: the conversion is part of the call.
add("hard_tanh", lambda x: F.hardtanh(x) if x.is_floating_point() else F.hardtanh(x).float())
one("hard_sigmoid=hardsigmoid hard_swish=hardswish elu celu")
one("gelu leaky_relu")
one("acosh", operands=[operand(low=1.5, high=2.5)])
one("floor ceil trunc round angle isnan isinf isfinite signbit logical_not bitwise_not", gradient=False)
# Both peers return views of complex numbers here, and torch a lazy conjugation: the deferred computation
# is part of the call.
add("conj", lambda x: torch.conj(x).resolve_conj(), np.conj, gradient=False)
add("real", lambda x: torch.real(x).contiguous(), lambda x: np.ascontiguousarray(np.real(x)), gradient=False)
two = [operand(), operand(low=1, high=3)]
one("add subtract multiply divide power=pow maximum minimum atan2 hypot copysign logaddexp logaddexp2 xlogy", operands=two)
one("remainder fmod fmax fmin floor_divide nextafter heaviside gcd lcm", operands=two, gradient=False)
one("equal=eq not_equal=ne less=lt less_equal=le greater=gt greater_equal=ge", operands=two, gradient=False)
one("logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor", operands=two, gradient=False)
add("clip", torch.clamp, np.clip, [operand(), operand([], 0.8, 0.8), operand([], 1.2, 1.2)])

for axis in (None, 0, 1):
    at = {} if axis is None else {"axis": axis}
    dim = {} if axis is None else {"dim": axis}
    for name in "sum mean prod var".split():
        correction = {"correction": 0} if name == "var" else {}
        add(name, lambda x, f=getattr(torch, name), k={**dim, **correction}: f(x, **k),
            lambda x, f=getattr(np, name), a=axis: f(x, axis=a), options=at)  # fmt: skip
    for name in ("max", "min"):
        add(name, lambda x, f=getattr(torch, "a" + name), k=dim: f(x, **k),
            lambda x, f=getattr(np, name), a=axis: f(x, axis=a), options=at)  # fmt: skip
    add("stddev", lambda x, k=dim: torch.std(x, correction=0, **k), lambda x, a=axis: np.std(x, axis=a), options=at)
    for name in ("all", "any", "count_nonzero", "argmax", "argmin"):
        add(name, lambda x, f=getattr(torch, name), k=dim: f(x, **k),
            lambda x, f=getattr(np, name), a=axis: f(x, axis=a), options=at, gradient=False)  # fmt: skip
    add("logsumexp", lambda x, d=(0, 1) if axis is None else axis: torch.logsumexp(x, d), None, options=at)
    add("norm", lambda x, k=dim: torch.linalg.vector_norm(x, **k), None, options=at)
    add("nansum", lambda x, k=dim: torch.nansum(x, **k), lambda x, a=axis: np.nansum(x, axis=a), options=at)
for axis in (0, 1):
    for name in ("cumsum", "cumprod"):
        add(name, lambda x, f=getattr(torch, name), a=axis: f(x, a), lambda x, f=getattr(np, name), a=axis: f(x, axis=a),
            options={"axis": axis})  # fmt: skip
    for name in ("cummax", "cummin"):
        add(name, lambda x, f=getattr(torch, name), a=axis: f(x, a)[0], None, options={"axis": axis}, gradient=False)
    add("cumlogsumexp", lambda x, a=axis: torch.logcumsumexp(x, a), None, options={"axis": axis}, gradient=False)
    add("sort", lambda x, a=axis: torch.sort(x, a)[0], lambda x, a=axis: np.sort(x, a), options={"axis": axis})
    add("argsort", lambda x, a=axis: torch.argsort(x, a), lambda x, a=axis: np.argsort(x, a), options={"axis": axis},
        gradient=False)  # fmt: skip
    add("softmax", lambda x, a=axis: torch.softmax(x, a), None, options={"axis": axis})
    add("log_softmax", lambda x, a=axis: torch.log_softmax(x, a), None, options={"axis": axis})
    add("flip", lambda x, a=axis: torch.flip(x, [a]), lambda x, a=axis: np.flip(x, a).copy(), options={"axes": [axis]})
    add("roll", lambda x, a=axis: torch.roll(x, 3, a), lambda x, a=axis: np.roll(x, 3, a),
        options={"shift": [3], "axes": [axis]})  # fmt: skip

square = [operand([512, 512]), operand([512, 512])]
add("matmul", torch.matmul, np.matmul, square)
add("matmul", torch.matmul, np.matmul, [operand([1000, 1000]), operand([1000])])
add("matmul", torch.matmul, np.matmul, [operand([1000]), operand([1000, 1000])])
add("matmul", torch.matmul, np.matmul, [operand([64, 64, 64]), operand([64, 64, 64])])
add("dot", torch.dot, np.dot, [operand([1000000]), operand([1000000])])
add("outer", torch.outer, np.outer, [operand([1000]), operand([1000])])


def mine(worker, f, dtype, layout, gradient, warm=False):
    operands = [{**o, "dtype": o["dtype"] or dtype, "layout": layout} for o in f.operands]
    scaled(operands)
    asked = {"fn": f.name, "opt": f.options, "in": operands, "gradient": gradient, "warm": warm}
    print(json.dumps(asked), file=worker.stdin, flush=True)
    return json.loads(worker.stdout.readline())


def scaled(operands):
    for o in operands:
        if o["dtype"][0] in "iu":  # integers, none of them 0
            o["from"], o["to"] = 1, 11
        if o["dtype"] == "bool":
            o["from"], o["to"] = 0, 2


def theirs(f, dtype, layout, gradient):
    """{peer: us} of those that take the call."""
    found, operands = {}, [{**o, "dtype": o["dtype"] or dtype} for o in f.operands]
    scaled(operands)

    def number(o):
        shape = list(reversed(o["shape"])) if layout == "transposed" else list(o["shape"])
        if layout == "broadcast" and shape:
            shape[0] = 1
        return np.random.default_rng(7).uniform(o["from"], o["to"], shape)

    def laid_out(x, o, spread):
        return x.T if layout == "transposed" else spread(x, tuple(o["shape"])) if layout == "broadcast" else x

    try:
        xs = [laid_out(torch.from_numpy(number(o)).to(TORCH[o["dtype"]]), o, torch.broadcast_to) for o in operands]
        if gradient:
            xs = [x.detach().requires_grad_() if x.is_floating_point() else x for x in xs]
            leaves = [x for x in xs if x.requires_grad]
            found["torch"] = median_us(lambda: torch.autograd.grad(f.torch(*xs).sum(), leaves, allow_unused=True))
        else:
            with torch.no_grad():
                found["torch"] = median_us(lambda: f.torch(*xs))
    except Exception:  # it does not support this dtype
        pass
    if f.numpy and not gradient and all(o["dtype"] in NUMPY for o in operands):
        try:
            xs = [laid_out(number(o).astype(NUMPY[o["dtype"]]), o, np.broadcast_to) for o in operands]
            found["numpy"] = median_us(lambda: f.numpy(*xs))
        except Exception:
            pass
    return found


def rows():
    for f in FUNCTIONS:
        if arguments.names and f.name not in arguments.names:
            continue
        for dtype in ALL:
            yield f, dtype, "dense", False
        for dtype in sorted({"f32", "i32", "bf16"} & set(ALL)):
            yield f, dtype, "transposed", False
            yield f, dtype, "broadcast", False
        if f.gradient:
            for dtype in sorted({"f32", "bf16"} & set(ALL)):
                yield f, dtype, "dense", True
            if "f32" in ALL:
                yield f, "f32", "transposed", True


def chosen_rows():
    """All rows, or with --seconds, until the time is up, in rounds of one of each function."""
    if not arguments.seconds:
        yield from rows()
        return
    mixed, taken = list(rows()), {}
    random.Random(arguments.seed).shuffle(mixed)
    rounds = []
    for row in mixed:
        taken[row[0]] = taken.get(row[0], 0) + 1
        rounds.append(taken[row[0]])
    for _, row in sorted(zip(rounds, mixed), key=lambda pair: pair[0]):
        if time.monotonic() - began > arguments.seconds:
            return
        yield row


# Why calls are slower than that, by a pattern for the line of a call; the first match counts.
ABOVE = 1.2
ADDED = "sum|mean|prod|norm|nansum|var|stddev|logsumexp|softmax|log_softmax"
STEPS = r"log_sigmoid|mish|roll"
CURVES = ("lgamma|digamma|erfc?|gelu|log2|log10|log|log1p|expm1|acosh|asinh|atanh|atan2?|sinh|power|logsumexp|log_softmax|softmax|"
          "elu|celu|tan|sigmoid")  # fmt: skip
PLANE = ("acosh?|asinh?|atanh?|cosh?|exp2?|expm1|log|log2|log10|log1p|power|reciprocal|sign|sinc|sinh?|sqrt|rsqrt|tanh?|divide|"
         "abs|sigmoid|multiply|square|outer|prod|dot|var|stddev")  # fmt: skip
REASONS = [
    (rf"^({STEPS})\b.* gradient$", "The gradient of a function that is composed of several ops goes over the operand once for "
     "each of them. Inside `function` they are fused."),
    (r"^prod\b.* gradient$", "The gradient of a product multiplies the other elements, those before and those behind, so that "
     "zeros do no harm. torch divides the product."),
    (r"^(heaviside|hard_tanh) .* (bool|[iu]\d+) ", "Of integers the result is floating, as numpy's is. torch's is of integers."),
    (rf"^({ADDED})\b.* (bf16|f32) transposed", "The order in which floating numbers are added up depends on the shape and the axes "
     "alone ([determinism.md](determinism.md)), so that a transposed operand is turned first. The peers add as the memory lies."),
    (rf"^(?!matmul|dot|sort|argsort|cum|{ADDED}).* (bf16|f16) (transposed|broadcast)$", "Results of halves lie row-major, for oneDNN's "
     "products of them depend on how an operand lies: a transposed operand is turned, and one that is broadcast is written out."),
    (rf"^({PLANE})\b.* (c64|c128) ", "Each part of a complex result is held to the bounds in [ops.md](ops.md), at branch cuts and for "
     "parts of very different size too, so that products are computed with more digits. The peers' lose digits there, or "
     "overflow."),
    (r"^matmul .*(\[1000, 1000\], \[1000\]\]|\[\[1000\], \[1000, 1000\]).* [bfc]f?\d+ ", "A product with a vector adds up floating numbers in "
     "one order, however the matrix lies, so that `a @ x` and `x @ a.T` agree; where rows are dense that means to turn them."),
    (r"^matmul .* (f32|f64|c64|c128) ", "The peers call MKL or OpenBLAS, whose kernels are written for each processor."),
    (r"^(var|stddev|logsumexp)\b.* (bool|[iu]\d+) ", "Of integers the work is done in f64, which holds all of 32 bits."),
    (rf"^(?!power .* (bool|[iu]\d+) )({CURVES})\b", "Held to the bounds in [ops.md](ops.md), which takes more steps; integers are converted on the way."),
    (rf"^({ADDED}|dot)\b.* (bf16|f16) ", "16-bit floats are added up in f32 or more, in an order that is the same on every processor."),
]  # fmt: skip


def reason_for(result):
    return next((why for pattern, why in REASONS if re.search(pattern, name(result))), "")


def called(result):
    function = re.match(r"\w+", result[1])[0]
    return f"`{function}`" + (" along an axis" if '{"axis"' in result[1] else "")


def markdown(results):
    """The calls slower than ABOVE times the faster peer, by reason; those without one first."""
    slow, groups = [r for r in results if r[0] > ABOVE], {}
    for result in slow:
        groups.setdefault(reason_for(result), {}).setdefault(called(result), []).append(result)
    ahead, ratios = sum(r[0] <= 1 for r in results), sorted(r[0] for r in results)
    lines = [
        "# Where a peer is faster\n",
        f"{len({f.name for f in FUNCTIONS})} functions on a million elements, forward and with gradients, dense, transposed and broadcast, beside",
        f"torch and numpy; printed by `./dev bench sweep --markdown docs/sweep.md --threads {arguments.threads}`, "
        + ("by the time on the clock.\n" if arguments.threads > 1 else "by the processor's time.\n"),
        f"Of {len(results)} calls {ahead} are faster than both, the median takes {ratios[len(ratios) // 2]:.2f} times as long as the faster",
        f"peer, and {len(slow)} take more than {ABOVE} times as long. Here they are, with the largest ratio of each.\n",
    ]
    for why, functions in sorted(groups.items(), key=lambda g: (g[0] != "", -sum(map(len, g[1].values())))):
        lines += [why or "To be made faster:", "", "| call | times | dtypes and layouts |", "|---|---|---|"]
        for call, some in sorted(functions.items(), key=lambda f: -f[1][0][0]):
            kinds = sorted({f"{r[2]} {r[3]}{' gradient' if r[4] else ''}" for r in some})
            shown = ", ".join(kinds[:6]) + (f" and {len(kinds) - 6} more" if len(kinds) > 6 else "")
            lines.append(f"| {call} | {some[0][0]:.1f} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def name(result):
    _, what, dtype, layout, gradient, *_ = result
    return f"{what} {dtype} {layout}{' gradient' if gradient else ''}"


def start():
    return subprocess.Popen([arguments.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def result_of(row, ours, peers):
    """How many times slower than the faster peer, and what else main() prints; None where rill refuses the call."""
    f, dtype, layout, gradient = row
    if "us" not in ours:
        return None
    if not peers:
        return ()
    peer = min(peers, key=peers.get)
    what = f"{f.name}{json.dumps(f.options) if f.options else ''} {[o['shape'] for o in f.operands]}"
    return (ours["us"] / peers[peer], what, dtype, layout, gradient, ours["us"], peer, peers[peer])


def measured(worker, some):
    """The results of some rows: all of ours, which were compiled before, then all of the peers'.

    The peers' threads keep looking for work for a while after a call, which takes our cores (we would work on one thread
    and wait for that to pass), so that there is a pause before the first of ours.
    """
    if arguments.threads > 1:
        time.sleep(1.5)
    for row in some:
        mine(worker, *row, warm=True)
    ours = [mine(worker, *row) for row in some]
    return [result_of(row, us, theirs(*row) if "us" in us else {}) for row, us in zip(some, ours)]


def measured_again(result, row):
    """The best of up to five more measurements of a call above the limit, when what disturbed it may be over."""
    for _ in range(5):
        worker = start()
        result = min(result, *measured(worker, [row]))
        worker.stdin.close()
        worker.wait()
        if result[0] <= arguments.limit:
            break
    return result


def main():
    worker = start()
    results, slow, refused = [], [], 0
    np.seterr(all="ignore")
    left = chosen_rows()
    while some := list(itertools.islice(left, 24)):
        for result, row in zip(measured(worker, some), some):
            if result and arguments.limit and result[0] > arguments.limit:
                slow.append((result, row))
            elif result:
                results.append(result)
            refused += result is None
    common.SECONDS = 5 * common.SECONDS
    os.environ["RILL_BENCH_SECONDS"] = str(common.SECONDS)
    results += [measured_again(*one) for one in slow]
    results.sort(key=lambda r: -r[0])
    print(f"{'times':>6} {'ours us':>9} {'peer us':>9}  call")
    for result in results[: arguments.worst]:
        times, *_, us, peer, other = result
        print(f"{times:6.2f} {us:9.1f} {other:9.1f}  {name(result)} ({peer})")
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write(markdown(results))
    over = {x: sum(r[0] > x for r in results) for x in (1, 2, 3, 10)}
    print(f"{len(results)} calls of {len({f.name for f in FUNCTIONS})} functions, {refused} refused by rill; slower than")
    print("the faster peer: " + ", ".join(f"{n} more than {x} times" for x, n in over.items()))
    if arguments.limit:
        above = [r for r in results if r[0] > arguments.limit]
        print(f"{len(above)} above the limit of {arguments.limit:g} times, {arguments.allowed} allowed")
        for result in above:
            print(f"  {result[0]:.2f} times: {name(result)}")
        sys.exit(len(above) > arguments.allowed or not results)


main()
