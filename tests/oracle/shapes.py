"""Cases of creation, shaping, joining, padding and indexing: numpy moves the same elements; gradients by torch."""

import math

import numpy as np
import torch

from judge import COMPLEX, EXACT, FLOATS, INTS, WIDE, Operand, Ulp, is_float, promote

SOME = ["f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool", "c64"]


def moved(cases, fn, x, options, value, torch_fn=None):
    """A case that only moves elements."""
    values = [np.asarray(v) for v in value] if isinstance(value, (list, tuple)) else np.asarray(value)
    cases.add(fn, [x], options, values, x.dtype, EXACT, torch_fn if is_float(x.dtype) else None)


def elements(x):
    return x.wide if is_float(x.dtype) or x.dtype in COMPLEX else x.stored


def creation(cases):
    for dtype in FLOATS + INTS + ["bool"] + COMPLEX:
        for shape in [(2, 3), (), (0, 4)]:
            o = {"shape": list(shape), "dtype": dtype}
            cases.add("zeros", [], o, np.zeros(shape), dtype)
            cases.add("ones", [], o, np.ones(shape), dtype)
            cases.add("empty", [], o, np.zeros(shape), dtype)
            value = cases.any((), dtype, grad=False)
            cases.add("full", [value], {"shape": list(shape)}, np.full(shape, elements(value)), dtype)
            x = cases.any(shape, dtype, grad=False)
            cases.add("zeros_like", [x], {}, np.zeros(shape), dtype)
            cases.add("ones_like", [x], {}, np.ones(shape), dtype)
            cases.add("empty_like", [x], {"dtype": "f64"}, np.zeros(shape), "f64")
            cases.add("full_like", [x, value], {}, np.full(shape, elements(value)), dtype)
        if dtype != "bool":
            for rows, columns, k in [(3, -1, 0), (2, 4, 1), (4, 2, -1), (3, 3, 5), (0, 2, 0)]:
                o = {"rows": rows, "columns": columns, "k": k, "dtype": dtype}
                wide = rows if columns < 0 else columns
                cases.add("eye", [], o, np.eye(rows, wide, k), dtype)
                cases.add("tri", [], o, np.tri(rows, wide, k), dtype)
            cases.add("identity", [], {"n": 4, "dtype": dtype}, np.eye(4), dtype)
        for shape in [(4, 4), (2, 3, 5), (5, 2)]:
            x = cases.any(shape, dtype)
            for k in [0, 1, -2, 9]:
                moved(cases, "tril", x, {"k": k}, np.tril(elements(x), k), lambda x: torch.tril(x, k))
                moved(cases, "triu", x, {"k": k}, np.triu(elements(x), k), lambda x: torch.triu(x, k))
    column = cases.normals((3, 1), grad=False)
    cases.add("full", [column], {"shape": [3, 4]}, np.broadcast_to(column.wide, (3, 4)), "f32")


def counting(cases):
    whole = [(None, 5, 1), (2, 9, 3), (9, 2, -2), (3, 3, 1), (5, 2, 1), (-4, 4, 1)]
    for start, stop, step in whole:
        o = {"stop": stop} | ({} if start is None else {"start": start, "step": step})
        for dtype in ["", "i32", "f32", "f64", "u8", "f16", "bf16"]:
            if dtype != "u8" or (start or 0) >= 0:
                cases.add(
                    "arange",
                    [],
                    o | ({"dtype": dtype} if dtype else {}),
                    np.arange(start or 0, stop, step),
                    dtype or "i64",
                )
    for start, stop, step in [
        (0.0, 1.0, 0.1),
        (0.5, 3.0, 0.25),
        (1.0, -1.0, -0.3),
        (1.0, 0.0, 0.5),
        (0.0, 1.0, 0.3333333),
    ]:
        for dtype in ["", "f64"]:
            cases.add(
                "arange",
                [],
                {"start": start, "stop": stop, "step": step} | ({"dtype": dtype} if dtype else {}),
                np.arange(start, stop, step),
                dtype or "f32",
                Ulp(1, 2, max(abs(start), abs(stop))),
            )
    for start, stop, count in [
        (0, 1, 5),
        (-3.5, 2.25, 11),
        (1, 1, 3),
        (2, 7, 1),
        (5, -5, 4),
        (0, 1, 0),
        (0, 1e30, 3),
        (0, 0.1, 7),
    ]:
        for endpoint in [True, False]:
            for dtype in ["", "f64", "f16"]:
                if dtype != "f16" or stop < 1e4:
                    o = {"start": start, "stop": stop, "count": count, "endpoint": endpoint} | (
                        {"dtype": dtype} if dtype else {}
                    )
                    cases.add(
                        "linspace",
                        [],
                        o,
                        np.linspace(WIDE(start), WIDE(stop), count, endpoint),
                        dtype or "f32",
                        Ulp(1, 2, max(abs(start), abs(stop))),
                    )
    for start, stop, count, base in [(0, 2, 5, 10), (-1, 1, 4, 2), (0, 3, 3, math.e)]:
        for dtype in ["", "f64"]:
            o = {"start": start, "stop": stop, "count": count, "base": base} | ({"dtype": dtype} if dtype else {})
            cases.add(
                "logspace", [], o, WIDE(base) ** np.linspace(WIDE(start), WIDE(stop), count), dtype or "f32", Ulp(24)
            )
    for shape, axis in [((4,), 0), ((2, 3), 1), ((2, 3), -2), ((0, 2), 1)]:
        for dtype in ["", "f32", "i32", "u8"]:
            at = np.broadcast_to(
                np.arange(shape[axis]).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]), shape
            )
            cases.add(
                "iota",
                [],
                {"shape": list(shape), "axis": axis} | ({"dtype": dtype} if dtype else {}),
                at,
                dtype or "i64",
            )
    for indexing in ["xy", "ij"]:
        for sizes in [(3,), (2, 3), (2, 3, 4)]:
            x = [cases.normals((n,)) for n in sizes]
            cases.add(
                "meshgrid",
                x,
                {"indexing": indexing},
                list(np.meshgrid(*[v.wide for v in x], indexing=indexing)),
                "f32",
                EXACT,
                lambda *x: list(torch.meshgrid(*x, indexing=indexing)),
            )
    for dtype in ["f64", "f32", "i32"]:
        v = [float(n) for n in cases.rng.integers(-9, 9, 6)]
        for fn in ["tensor", "from_data"]:
            cases.add(fn, [], {"values": v, "shape": [2, 3], "dtype": dtype}, np.array(v).reshape(2, 3), dtype)


def views(cases):
    for dtype in SOME:
        x = cases.any((2, 3, 4), dtype)
        w = elements(x)
        for shape in [[6, 4], [-1], [3, -1, 2], [24, 1], [1, 2, 3, 4]]:
            moved(cases, "reshape", x, {"shape": shape}, w.reshape(shape), lambda x: x.reshape(shape))
        for axes in [[], [0, 2, 1], [2, 0, 1], [-1, 0, 1]]:
            moved(
                cases,
                "transpose",
                x,
                {"axes": axes},
                np.transpose(w, axes or None),
                lambda x: x.permute(axes or [2, 1, 0]),
            )
        y = cases.any((3, 1), dtype)
        for shape in [[3, 4], [2, 3, 5], [3, 1], [3, 0]]:
            moved(
                cases,
                "broadcast_to",
                y,
                {"shape": shape},
                np.broadcast_to(elements(y), shape),
                lambda y: y.broadcast_to(shape),
            )
        for starts, stops, steps in [
            ([0, 1], [2, 3], [1, 1]),
            ([1], [2], []),
            ([-1, 0, 3], [-9, 3, 0], [-1, 2, -2]),
            ([0, 0, 1], [9, -1, 4], [1, 1, 2]),
            ([1, 1, 1], [1, 9, 0], [1, 1, 1]),
        ]:
            at = tuple(slice(a, b, s) for a, b, s in zip(starts, stops, steps or [1] * len(starts)))
            o = {"starts": starts, "stops": stops, "steps": steps}
            # numpy reads a stop of -1 with a negative step as the last element, too: these lists have none.
            picked = torch.arange(w.size).reshape(w.shape).numpy()[at].copy()
            moved(cases, "strided_slice", x, o, w[at], lambda x: x.reshape(-1)[torch.tensor(picked)])
            value = cases.any((w[at].shape[-1],) if w[at].ndim else (), dtype)
            want = w.copy()
            want[at] = elements(value)
            cases.add("update_slice", [x, value], o, want, dtype, EXACT, updated(picked) if is_float(dtype) else None)
        moved(cases, "slice_axis", x, {"axis": -1, "start": 1, "stop": 3}, w[..., 1:3], lambda x: x[..., 1:3])
        z = cases.any((1, 3, 1, 2), dtype)
        v = elements(z)
        for axes in [[], [0], [2], [0, 2], [-2]]:
            moved(
                cases,
                "squeeze",
                z,
                {"axes": axes},
                np.squeeze(v, tuple(axes) or None),
                lambda z: z.squeeze(axes) if axes else z.squeeze(),
            )
        for axes in [[0], [-1], [0, 2], [1, -1]]:
            new = np.expand_dims(v, tuple(axes))
            moved(cases, "expand_dims", z, {"axes": axes}, new, lambda z: z.reshape(new.shape))
        for a, b in [(0, 1), (-1, 0), (1, 1)]:
            moved(cases, "swapaxes", x, {"a": a, "b": b}, np.swapaxes(w, a, b), lambda x: x.swapaxes(a, b))
        for a, b in [(0, -1), ([0, 1], [-1, -2]), ([2, 0], [0, 1])]:
            moved(cases, "moveaxis", x, {"from": a, "to": b}, np.moveaxis(w, a, b), lambda x: torch.movedim(x, a, b))
        for start, end in [(0, -1), (1, 2), (0, 1), (1, 1)]:
            moved(
                cases,
                "flatten",
                x,
                {"start": start, "end": end},
                w.reshape(torch.zeros(2, 3, 4).flatten(start, end).shape),
                lambda x: x.flatten(start, end),
            )
        moved(cases, "ravel", x, {}, w.ravel(), lambda x: x.reshape(-1))
        for shape in [(), (3,), (2, 3), (2, 1, 3)]:
            y = cases.any(shape, dtype)
            for fn, f in [("atleast_1d", np.atleast_1d), ("atleast_2d", np.atleast_2d), ("atleast_3d", np.atleast_3d)]:
                want = f(elements(y))
                moved(cases, fn, y, {}, want, lambda y: y.reshape(want.shape))
        cases.add(
            "broadcast_arrays", [x, y := cases.any((3, 1), dtype)], {}, list(np.broadcast_arrays(w, elements(y))), dtype
        )
    for a, b in [([2, 1], [3]), ([], [4, 5]), ([1, 0], [3, 1])]:
        cases.add("broadcast_shapes", [], {"a": a, "b": b}, np.array(np.broadcast_shapes(a, b)), "i64")


def updated(places):
    def f(x, value):
        flat = x.reshape(-1).clone()
        flat[torch.tensor(places).reshape(-1)] = value.broadcast_to(places.shape).reshape(-1)
        return flat.reshape(x.shape)

    return f


def orders(cases):
    for dtype in SOME:
        x = cases.any((3, 4, 2), dtype)
        w = elements(x)
        for fn in ["reverse", "flip"]:
            for axes in [[], [0], [-1], [0, 2]]:
                moved(
                    cases, fn, x, {"axes": axes}, np.flip(w, tuple(axes) or None), lambda x: x.flip(axes or [0, 1, 2])
                )
        moved(cases, "fliplr", x, {}, np.fliplr(w), lambda x: x.fliplr())
        moved(cases, "flipud", x, {}, np.flipud(w), lambda x: x.flipud())
        for k in [-1, 0, 1, 2, 3, 7]:
            for axes in [None, [1, 2], [2, 0]]:
                moved(
                    cases,
                    "rot90",
                    x,
                    {"k": k} | ({"axes": axes} if axes else {}),
                    np.rot90(w, k, axes or (0, 1)),
                    lambda x: torch.rot90(x, k, axes or [0, 1]),
                )
        for shift, axes in [(2, []), (-1, [0]), ([1, -5], [0, 1]), (3, [-1]), (1, [0, 2]), ([1, 2], [1, 1]), (100, [])]:
            np_axes = tuple(axes) if axes else None
            moved(
                cases,
                "roll",
                x,
                {"shift": shift, "axes": axes},
                np.roll(w, shift, np_axes),
                lambda x: torch.roll(
                    x,
                    (
                        shift
                        if isinstance(shift, (int, list)) and (not axes or isinstance(shift, list))
                        else [shift] * len(axes)
                    ),
                    axes or None,
                ),
            )
        for reps in [2, [2], [1, 3, 2], [2, 1, 1, 2], [0, 1, 1], []]:
            r = [reps] if isinstance(reps, int) else reps
            moved(cases, "tile", x, {"reps": reps}, np.tile(w, reps), lambda x: x.tile(r) if r else x * 1)
        for times, axis in [(2, None), (3, 1), (0, 0), ([1, 0, 2], 0), ([2, 1], -1), (1, -1)]:
            moved(
                cases,
                "repeat",
                x,
                {"times": times} | ({} if axis is None else {"axis": axis}),
                np.repeat(w, times, axis),
                lambda x: torch.repeat_interleave(x, times if isinstance(times, int) else torch.tensor(times), axis),
            )
        image = cases.any((2, 4, 6, 3), dtype)
        block = image_blocks(elements(image), 2)
        moved(
            cases,
            "space_to_depth",
            image,
            {"block": 2},
            block,
            lambda i: i.reshape(2, 2, 2, 3, 2, 3).permute(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, 12),
        )
        deep = Operand(block, dtype)
        moved(
            cases,
            "depth_to_space",
            deep,
            {"block": 2},
            elements(image),
            lambda i: i.reshape(2, 2, 3, 2, 2, 3).permute(0, 1, 3, 2, 4, 5).reshape(2, 4, 6, 3),
        )


def image_blocks(w, b):
    n, h, k, c = w.shape
    return w.reshape(n, h // b, b, k // b, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b, k // b, b * b * c)


def padded(w, widths, value):
    """lo, hi (negative: cut off) and interior, an axis at a time."""
    for axis, (lo, hi, interior) in enumerate(widths):
        w = np.moveaxis(w, axis, 0)
        n = len(w)
        inner = np.full((n + max(0, n - 1) * interior,) + w.shape[1:], value, w.dtype)
        inner[:: interior + 1] = w
        inner = np.concatenate(
            [
                np.full((max(0, lo),) + w.shape[1:], value, w.dtype),
                inner,
                np.full((max(0, hi),) + w.shape[1:], value, w.dtype),
            ]
        )
        inner = inner[max(0, -lo) : len(inner) - max(0, -hi)]
        w = np.moveaxis(inner, 0, axis)
    return w


def pads(cases):
    for dtype in SOME:
        x = cases.any((3, 4), dtype)
        w = elements(x)
        places = np.arange(1, 13).reshape(3, 4)
        for widths in [
            [[1, 2, 0], [0, 1, 0]],
            [[0, 0, 2], [1, 0, 1]],
            [[-1, 1, 0], [2, -2, 0]],
            [[1, 1, 0]],
            [[-1, 0, 1], [0, 0, 0]],
            [[0, 0, 0], [0, -4, 0]],
        ]:
            every = widths * 2 if len(widths) == 1 else widths
            at = padded(places, every, 0)
            moved(
                cases,
                "pad",
                x,
                {"widths": widths},
                padded(w, every, 0),
                lambda x: torch.cat([torch.zeros(1), x.reshape(-1)])[torch.tensor(at)],
            )
            value = cases.any((), dtype)
            cases.add(
                "pad",
                [x, value],
                {"widths": widths},
                padded(w, every, elements(value)),
                dtype,
                EXACT,
                (lambda x, v: torch.cat([v.reshape(1), x.reshape(-1)])[torch.tensor(at)]) if is_float(dtype) else None,
            )
        for mode in ["edge", "reflect", "symmetric", "wrap"]:
            for widths in [[[1, 2, 0], [0, 3, 0]], [[2, 0, 0], [1, 1, 0]], [[5, 7, 0], [9, 4, 0]]]:
                at = np.pad(places - 1, [p[:2] for p in widths], mode)
                moved(
                    cases,
                    "pad",
                    x,
                    {"widths": widths, "mode": mode},
                    np.pad(w, [p[:2] for p in widths], mode),
                    lambda x: x.reshape(-1)[torch.tensor(at)],
                )


def joins(cases):
    for dtype in SOME:
        x, y, z = cases.any((2, 3), dtype), cases.any((2, 3), dtype), cases.any((2, 3), dtype)
        all3, t = [elements(v) for v in (x, y, z)], is_float(dtype)
        for axis in [0, 1, -1]:
            cases.add(
                "concat",
                [x, y, z],
                {"axis": axis},
                np.concatenate(all3, axis),
                dtype,
                EXACT,
                (lambda *v: torch.cat(v, axis)) if t else None,
            )
            cases.add(
                "stack",
                [x, y, z],
                {"axis": axis},
                np.stack(all3, axis),
                dtype,
                EXACT,
                (lambda *v: torch.stack(v, axis)) if t else None,
            )
        cases.add("concat", [x, cases.any((2, 0), dtype), z], {"axis": 1}, np.concatenate([all3[0], all3[2]], 1), dtype)
        for shape in [(), (3,), (2, 3), (2, 3, 2)]:
            v = [cases.any(shape, dtype) for _ in range(2)]
            for fn, f, g in [
                ("hstack", np.hstack, torch.hstack),
                ("vstack", np.vstack, torch.vstack),
                ("dstack", np.dstack, torch.dstack),
            ]:
                cases.add(fn, v, {}, f([elements(a) for a in v]), dtype, EXACT, (lambda *a, g=g: g(a)) if t else None)
        x = cases.any((6, 5), dtype)
        w = elements(x)
        for parts, axis in [(3, 0), (5, 1), (1, -1), (6, -2)]:
            moved(
                cases,
                "split",
                x,
                {"parts": parts, "axis": axis},
                np.split(w, parts, axis),
                lambda x: torch.tensor_split(x, parts, axis),
            )
        for parts, axis in [(4, 0), (2, 1), (7, 0), (3, -1)]:
            moved(
                cases,
                "array_split",
                x,
                {"parts": parts, "axis": axis},
                np.array_split(w, parts, axis),
                lambda x: torch.tensor_split(x, parts, axis),
            )
        for places, axis in [([2, 5], 0), ([1], 1), ([0, 3], -1), ([], 0)]:
            moved(
                cases,
                "split_at",
                x,
                {"places": places, "axis": axis},
                np.split(w, places, axis),
                lambda x: torch.tensor_split(x, places, axis),
            )
        for axis in [0, -1]:
            moved(cases, "unstack", x, {"axis": axis}, list(np.moveaxis(w, axis, 0)), lambda x: torch.unbind(x, axis))
    for a, b in [("i32", "f32"), ("f16", "f32"), ("bool", "i8"), ("f16", "bf16"), ("i32", "u32"), ("f32", "c64")]:
        x, y = cases.any((2, 2), a, grad=False), cases.any((1, 2), b, grad=False)
        cases.add("concat", [x, y], {}, np.concatenate([elements(x), elements(y)]), promote(a, b))


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [creation, counting, views, orders, pads, joins]:
            family(cases)
