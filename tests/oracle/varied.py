"""Cases whose sizes, axes and options are drawn too: each seed tries others."""

import numpy as np
import torch

from judge import EQUAL, EXACT, FLOATS, Operand, Ulp, is_float, largest, of_terms
from products import (
    channels_first,
    channels_last,
    convolve,
    first_of_largest,
    pads_of,
    product,
    transposed_conv,
    weights_first,
    windows_of,
)
from reductions import folded
from indexing import by_places, numpy_index, put
from shapes import elements, padded
from networks import attend, at_least_one

F = torch.nn.functional


def numbers(cases, low, high, n):
    return [int(v) for v in cases.rng.integers(low, high + 1, n)]


def convolutions(cases):
    for _ in range(60):
        dtype, n, layout = (
            cases.choice(["f32", "f32", "f64", "bf16"]),
            cases.choice([1, 2, 2, 3]),
            cases.choice(["nhwc", "nchw"]),
        )
        groups = cases.choice([1, 1, 2, 3])
        sizes, window = numbers(cases, 1, 9 - n, n), numbers(cases, 1, 4, n)
        strides, dilation = numbers(cases, 1, 3, n), numbers(cases, 1, 2, n)
        padding = cases.choice(["SAME", "VALID", 1, [numbers(cases, 0, 3, 2) for _ in range(n)]])
        pads = pads_of(padding, sizes, window, strides, dilation)
        if any(s + sum(p) < (k - 1) * d + 1 for s, p, k, d in zip(sizes, pads, window, dilation)):
            continue
        inner, outer, batch = cases.choice([1, 2]) * groups, cases.choice([1, 3, 8]) * groups, cases.choice([1, 3])
        first = layout == "nchw"
        x = cases.normals((batch, inner, *sizes) if first else (batch, *sizes, inner), dtype)
        w = cases.normals((outer, inner // groups, *window) if first else (*window, inner // groups, outer), dtype)
        same = lambda t: t
        into, weights, out = (same, same, same) if first else (channels_first, weights_first, channels_last)
        o = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups, "layout": layout}
        product(
            cases, "conv", [x, w], o, lambda x, w: out(convolve(into(x), weights(w), pads, strides, dilation, groups))
        )
        if groups == 1:
            transposed_conv(
                cases,
                dtype,
                n,
                sizes[:n],
                window,
                strides,
                padding if padding in ("SAME", "VALID") else "VALID",
                dilation,
                1,
                layout,
            )


def pools(cases):
    for _ in range(50):
        dtype, n, layout = cases.choice(FLOATS), cases.choice([1, 2, 3]), cases.choice(["nhwc", "nchw"])
        sizes, window, strides = numbers(cases, 1, 8, n), numbers(cases, 1, 4, n), numbers(cases, 1, 4, n)
        padding = cases.choice(
            ["SAME", "VALID", [[int(cases.rng.integers(0, k)), int(cases.rng.integers(0, k))] for k in window]]
        )
        pads = pads_of(padding, sizes, window, strides, [1] * n)
        if any(s + sum(p) < k for s, p, k in zip(sizes, pads, window)):
            continue
        count, first = bool(cases.rng.integers(2)), layout == "nchw"
        # Windows that contain only padding have no mean and no largest element.
        if any((s + sum(p) - k) // t * t >= s + p[0] for s, p, k, t in zip(sizes, pads, window, strides)):
            continue
        x = cases.normals((2, 3, *sizes) if first else (2, *sizes, 3), dtype)
        into, out = ((lambda t: t), (lambda t: t)) if first else (channels_first, channels_last)
        o = {"window": window, "strides": strides, "padding": padding, "layout": layout}
        cases.by_torch(
            "max_pool",
            [x],
            o,
            lambda x: out(first_of_largest(windows_of(into(x), window, strides, pads, -np.inf))),
            dtype,
            EXACT,
        )

        def mean(x):
            v = windows_of(into(x), window, strides, pads, 0.0)
            return out(
                v.sum(-1) / windows_of(torch.ones_like(into(x)), window, strides, pads, 1.0 if count else 0.0).sum(-1)
            )

        cases.by_torch("avg_pool", [x], o | {"count_include_pad": count}, mean, dtype, Ulp(2, 4, largest))


def folds(cases):
    for _ in range(80):
        dtype, shape = cases.choice(FLOATS + ["i32", "u8", "bool"]), cases.shape(1, 5, 5)
        x, keepdims = cases.any(shape, dtype), bool(cases.rng.integers(2))
        a = [int(i) for i in cases.rng.permutation(len(shape))[: int(cases.rng.integers(1, len(shape) + 1))]]
        axis = [i - len(shape) if cases.rng.integers(2) else i for i in a]
        o, t, w = {"axis": axis, "keepdims": keepdims}, is_float(dtype), elements(x)
        size = np.sum(np.abs(w.astype(np.longdouble)), tuple(a), keepdims=keepdims)
        cases.add(
            "sum",
            [x],
            o,
            np.sum(w, tuple(a), keepdims=keepdims),
            folded(dtype),
            Ulp(1, 8, size) if t else EXACT,
            (lambda x: x.sum(axis, keepdim=keepdims)) if t else None,
        )
        cases.add(
            "max",
            [x],
            o,
            np.max(w, tuple(a), keepdims=keepdims),
            dtype,
            EXACT,
            (lambda x: x.amax(axis, keepdim=keepdims)) if t else None,
        )
        if t:
            cases.by_torch(
                "var", [x], o, lambda x: x.var(axis, correction=0, keepdim=keepdims), dtype, Ulp(4, 8, largest)
            )
            cases.by_torch(
                "logsumexp", [x], o, lambda x: torch.logsumexp(x, axis, keepdim=keepdims), dtype, Ulp(6, 6, 2)
            )
        one = axis[0]
        cases.add(
            "sort",
            [x],
            {"axis": one},
            np.sort(w, one),
            dtype,
            EXACT,
            (lambda x: x.sort(dim=one, stable=True).values) if t else None,
        )
        cases.add("argmax", [x], {"axis": one, "keepdims": keepdims}, np.argmax(w, one, keepdims=keepdims), "i64")
        if dtype not in ("bool", "f16", "bf16"):
            cases.add(
                "cumsum",
                [x],
                {"axis": one},
                np.cumsum(w, one),
                folded(dtype),
                Ulp(1, 8, largest(np.cumsum(np.abs(w), one))) if t else EXACT,
                (lambda x: x.cumsum(one)) if t else None,
            )


def binaries(cases):
    table = {
        "add": (np.add, torch.add),
        "multiply": (np.multiply, torch.mul),
        "subtract": (np.subtract, torch.sub),
        "minimum": (np.minimum, torch.minimum),
    }
    for _ in range(80):
        dtype, shape = cases.choice(FLOATS + ["i32", "i8"]), cases.shape(0, 5, 4)
        cut = [
            tuple(1 if cases.rng.random() < 0.3 else n for n in shape)[
                int(cases.rng.integers(0, len(shape) + 1)) if k else 0 :
            ]
            for k in range(2)
        ]
        x, y = (cases.any(s, dtype) for s in (cut if cases.rng.integers(2) else cut[::-1]))
        name = cases.choice(list(table))
        f, t = table[name]
        cases.add(
            name,
            [x, y],
            {},
            f(elements(x), elements(y)),
            dtype,
            EQUAL if name == "minimum" else Ulp(1) if is_float(dtype) else EXACT,
            t if is_float(dtype) else None,
            of_terms(64),
        )


def slices(cases):
    for _ in range(120):
        dtype, shape = cases.choice(["f32", "f64", "i16", "bool"]), cases.shape(1, 4, 6)
        x, plan = cases.any(shape, dtype), []
        operands = [x]
        lists = tuple(int(n) for n in cases.rng.integers(1, 4, int(cases.rng.integers(0, 3))))
        axis = 0
        while axis < len(shape):
            kind = cases.choice(["number", "slice", "slice", "tensor", "all", "new", "stop"])
            n = shape[axis]
            if kind == "stop":
                break
            if kind == "number":
                plan.append(int(cases.rng.integers(-n, n)))
            elif kind == "slice":
                ends = [None if cases.rng.integers(3) == 0 else int(v) for v in cases.rng.integers(-n - 2, n + 3, 2)]
                plan.append([*ends, int(cases.choice([1, 1, 2, -1, -2, 3]))])
            elif kind == "tensor" and len(operands) < 3:
                operands.append(Operand(cases.rng.integers(-n, n, lists), cases.choice(["i64", "i32"])))
                plan.append({"tensor": len(operands) - 1})
            elif kind == "new":
                plan.append("new")
                continue
            else:
                plan.append("all")
            axis += 1
        if len(plan) > 8 or not plan:
            continue
        at = numpy_index(plan, operands)
        by_places(cases, "index", operands, {"index": plan}, lambda p: p[at])
        mode = cases.choice(["set", "add", "max"])
        if dtype == "bool" or (mode == "max" and len(operands) > 1):
            mode = "set"
        picked = elements(x)[at]
        if (
            mode == "set"
            and len(operands) > 1
            and np.unique(np.arange(x.stored.size).reshape(shape)[at]).size != picked.size
        ):
            continue
        value = cases.any(picked.shape, dtype)
        put(cases, x, operands + [value], {"index": plan, "mode": mode}, at, value, mode)


def paddings(cases):
    for _ in range(60):
        dtype, shape = cases.choice(["f32", "f64", "i32", "f16"]), cases.shape(1, 4, 5)
        x = cases.any(shape, dtype)
        widths = [
            [int(cases.rng.integers(-n, 4)), int(cases.rng.integers(0, 4)), int(cases.rng.integers(0, 3))]
            for n in shape
        ]
        at = padded(np.arange(1, x.stored.size + 1).reshape(shape), widths, 0)
        t = (lambda x: torch.cat([torch.zeros(1), x.reshape(-1)])[torch.tensor(at)]) if is_float(dtype) else None
        cases.add("pad", [x], {"widths": widths}, padded(elements(x), widths, 0), dtype, EXACT, t)
        mode = cases.choice(["edge", "reflect", "symmetric", "wrap"])
        widths = [[*numbers(cases, 0, 7, 2), 0] for _ in shape]
        at = np.pad(np.arange(x.stored.size).reshape(shape), [w[:2] for w in widths], mode)
        cases.add(
            "pad",
            [x],
            {"widths": widths, "mode": mode},
            elements(x).reshape(-1)[at],
            dtype,
            EXACT,
            (lambda x: x.reshape(-1)[torch.tensor(at)]) if is_float(dtype) else None,
        )
        shift, axes = numbers(cases, -9, 9, len(shape)), list(range(len(shape)))
        cases.add(
            "roll",
            [x],
            {"shift": shift, "axes": axes},
            np.roll(elements(x), shift, tuple(axes)),
            dtype,
            EXACT,
            (lambda x: torch.roll(x, shift, axes)) if is_float(dtype) else None,
        )


def einsums(cases):
    for _ in range(60):
        size = {c: int(cases.rng.integers(1, 5)) for c in "abcde"}
        terms = [
            "".join(
                cases.rng.choice(list("abcde"), int(cases.rng.integers(1, 4)), replace=bool(cases.rng.integers(5) == 0))
            )
            for _ in range(int(cases.rng.integers(1, 4)))
        ]
        letters = sorted(set("".join(terms)))
        out = "".join(cases.rng.permutation(letters)[: int(cases.rng.integers(0, len(letters) + 1))])
        dtype = cases.choice(["f32", "f64", "i32"])
        operands = [cases.any(tuple(size[c] for c in term), dtype) for term in terms]
        equation = ",".join(terms) + "->" + out
        product(
            cases, "einsum", operands, {"equation": equation}, lambda *x: torch.einsum(equation, *x), None, of_terms(64)
        )


def attentions(cases):
    for _ in range(30):
        dtype, shared, groups = (
            cases.choice(["f32", "f64", "f16"]),
            int(cases.rng.integers(1, 3)),
            int(cases.rng.integers(1, 4)),
        )
        queries, keys, d, e = numbers(cases, 1, 40, 2) + numbers(cases, 1, 20, 2)
        lead = cases.choice([(), (2,), (1, 2)])
        x, y, z = (
            cases.normals((*lead, shared * groups, queries, d), dtype),
            cases.normals((*lead, shared, keys, d), dtype),
            cases.normals((*lead, shared, keys, e), dtype),
        )
        causal = bool(cases.rng.integers(2)) and keys >= queries
        cases.by_torch(
            "attention",
            [x, y, z],
            {"causal": causal},
            lambda q, k, v: attend(q, k, v, causal),
            dtype,
            Ulp(4, 32, largest),
            grad_tolerance=at_least_one(128),
        )


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [convolutions, pools, folds, binaries, slices, paddings, einsums, attentions]:
            family(cases)
