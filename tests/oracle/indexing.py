"""Cases of picking elements by indices and putting them back: numpy moves the same elements; gradients by torch."""

import numpy as np
import torch

from judge import COMPLEX, EXACT, Operand, Ulp, is_float, largest
from shapes import SOME, elements

# --- Indexing -----------------------------------------------------------------------------------------------------------


def by_places(cases, fn, operands, options, index, **more):
    """A case of picking: `index` maps an array of places to those that are read."""
    x = operands[0]
    at = np.asarray(index(np.arange(x.stored.size).reshape(x.shape))).copy()
    cases.add(
        fn,
        operands,
        options,
        elements(x).reshape(-1)[at],
        x.dtype,
        EXACT,
        (lambda x, *_: x.reshape(-1)[torch.tensor(at)]) if is_float(x.dtype) and x.grad else None,
        **more,
    )


def picks(cases):
    for dtype in SOME:
        x = cases.any((5, 4, 3), dtype)
        for ids_dtype, axis, shape in [
            ("i64", 0, (3,)),
            ("i32", 1, (2, 2)),
            ("u8", -1, ()),
            ("i64", None, (6,)),
            ("i16", 0, (0,)),
        ]:
            n = x.stored.size if axis is None else x.shape[axis]
            ids = Operand(cases.rng.integers(0 if ids_dtype == "u8" else -n, n, shape), ids_dtype)
            by_places(
                cases,
                "take",
                [x, ids],
                {} if axis is None else {"axis": axis},
                lambda p: np.take(
                    p, ids.stored.astype(np.int64) % n if ids.stored.size else ids.stored.astype(np.int64), axis
                ),
            )
        ids = Operand(cases.rng.integers(-5, 5, (2, 4, 1)), "i64")
        by_places(
            cases,
            "take_along_axis",
            [x, ids],
            {"axis": 0},
            lambda p: np.take_along_axis(p, np.broadcast_to(ids.stored, (2, 4, 3)), 0),
        )
        ids = Operand(cases.rng.integers(0, 3, (5, 4, 2)), "i32")
        by_places(
            cases,
            "take_along_axis",
            [x, ids],
            {"axis": -1},
            lambda p: np.take_along_axis(p, ids.stored.astype(np.int64), -1),
        )
        nd = Operand(np.stack([cases.rng.integers(0, 5, (2, 3)), cases.rng.integers(-4, 4, (2, 3))], -1), "i64")
        by_places(cases, "gather_nd", [x, nd], {}, lambda p: p[nd.stored[..., 0], nd.stored[..., 1]])
        i, j = Operand(cases.rng.integers(0, 5, (2, 1)), "i64"), Operand(cases.rng.integers(0, 3, (4,)), "i64")
        by_places(cases, "gather", [x, i, j], {"axes": [0, 2], "at": 0}, lambda p: p[i.stored, :, j.stored])
        by_places(
            cases,
            "gather",
            [x, i],
            {"axes": [0], "at": 1},
            lambda p: np.moveaxis(p[i.stored], [0, 1, 2, 3], [1, 2, 0, 3]),
        )
        b = Operand(cases.rng.integers(0, 4, (5, 2)), "i64")
        by_places(
            cases,
            "gather",
            [x, b],
            {"axes": [1], "batch_axes": [0], "batch_dims": [0], "at": 0},
            lambda p: p[np.arange(5)[:, None], b.stored],
        )
        mask = cases.ints((5,), "bool")
        by_places(cases, "boolean_mask", [x, mask], {}, lambda p: p[mask.stored])
        mask = cases.ints((4, 3), "bool")
        by_places(cases, "boolean_mask", [x, mask], {"axis": 1}, lambda p: p[:, mask.stored])
        mask = cases.ints((5, 4, 3), "bool")
        by_places(cases, "boolean_mask", [x, mask], {}, lambda p: p[mask.stored])
        sparse = Operand(
            elements(x) * cases.rng.integers(0, 2, x.shape) if dtype != "bool" else x.stored, dtype, x.layout
        )
        cases.add("nonzero", [sparse], {}, list(np.nonzero(elements(sparse))), "i64")
        cases.add("argwhere", [sparse], {}, np.argwhere(elements(sparse)), "i64")
        table, ids = cases.any((6, 3), dtype), cases.ints((2, 4), "i32", 0, 6)
        by_places(cases, "embedding_lookup", [table, ids], {}, lambda p: p[ids.stored])


def numpy_index(entries, operands):
    out = []
    for e in entries:
        out.append(
            operands[e["tensor"]].stored
            if isinstance(e, dict)
            else (
                Ellipsis
                if e == "..."
                else None if e == "new" else slice(None) if e == "all" else slice(*e) if isinstance(e, list) else e
            )
        )
    return tuple(out)


def indices(cases):
    for dtype in ["f32", "f64", "i32", "bool", "c64", "bf16"]:
        x = cases.any((4, 5, 3), dtype)
        i, j = Operand(cases.rng.integers(-4, 4, (2, 1)), "i64"), Operand(cases.rng.integers(0, 3, (3,)), "i32")
        mask = Operand(np.array([True, False, True, True]), "bool")
        plans = [
            [1],
            [-1, [1, 4, 2]],
            ["...", 0],
            ["new", "...", [None, None, -1]],
            [[3, 0, -2], "all", 1],
            [{"tensor": 1}],
            ["all", 2, {"tensor": 2}],
            [{"tensor": 1}, "all", {"tensor": 2}],
            [{"tensor": 1}, [1, None, 2], {"tensor": 2}],
            ["all", "new", {"tensor": 2}, "..."],
            [1, "...", "new", {"tensor": 2}],
            [{"tensor": 1}, 2, {"tensor": 2}],
            [[10, 20, 1]],
            [[-100, 2, 1], [None, -100, -1]],
        ]
        for plan in plans:
            operands = [x, i, j]
            at = numpy_index(plan, operands)
            by_places(cases, "index", operands, {"index": plan}, lambda p: p[at])
            shape = elements(x)[at].shape
            for mode in ["set", "add", "multiply", "min", "max"]:
                if (
                    (dtype == "bool" and mode != "set")
                    or (dtype == "c64" and mode in ("min", "max", "multiply"))
                    or dtype == "bf16"
                    and mode == "add"
                    and i.stored[0] == i.stored[1]
                ):
                    continue
                value = cases.any(shape if cases.rng.integers(2) else shape[-1:], dtype)
                put(cases, x, operands + [value], {"index": plan, "mode": mode}, at, value, mode)
        for plan in [[{"tensor": 1}], [{"tensor": 1}, "all", 2], [{"tensor": 1}, "...", [1, None, 1]]]:
            at = numpy_index(plan, [x, mask])
            by_places(cases, "index by mask", [x, mask], {"index": plan}, lambda p: p[at])
            value = cases.any((), dtype)
            put(cases, x, [x, mask, value], {"index": plan, "mode": "set"}, at, value, "set", "index by mask")


def put(cases, x, operands, options, at, value, mode, fn="index"):
    want = elements(x).copy()
    f = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
    if mode == "set":
        want[at] = elements(value)
    else:
        f[mode].at(want, at, elements(value))
    places = np.asarray(np.arange(x.stored.size).reshape(x.shape)[at]).copy()
    unique = np.unique(places).size == places.size
    t = updates(places, mode) if is_float(x.dtype) and (unique and mode in ("set", "add") or mode == "add") else None
    k = (
        EXACT
        if mode in ("set", "min", "max") or not is_float(x.dtype) and x.dtype not in COMPLEX
        else Ulp(4, 8, largest(want))
    )
    cases.add(fn, operands, options, want, x.dtype, k, t)


def updates(places, mode):
    def f(x, *rest):
        value = rest[-1].broadcast_to(places.shape).reshape(-1)
        flat, at = x.reshape(-1), torch.tensor(places).reshape(-1)
        if mode == "add":
            return flat.index_add(0, at, value).reshape(x.shape)
        return flat.index_copy(0, at, value).reshape(x.shape)

    return f


def scatters(cases):
    f = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
    for dtype in ["f32", "f64", "i32", "f16"]:
        near = Ulp(4, 8, largest) if is_float(dtype) else EXACT
        x = cases.any((5, 4), dtype)
        i = Operand(cases.rng.permutation(5)[:3], "i64")
        j = Operand(np.stack([cases.rng.permutation(4)[:2] for _ in range(5)]), "i64")
        for mode in ["set", "add", "multiply", "min", "max"]:
            v = cases.any((3, 4), dtype)
            want = elements(x).copy()
            if mode == "set":
                want[i.stored] = elements(v)
            else:
                f[mode].at(want, i.stored, elements(v))
            places = np.arange(20).reshape(5, 4)[i.stored].copy()
            t = (lambda x, v, i: updates(places, mode)(x, v)) if mode in ("set", "add") and is_float(dtype) else None
            cases.add(
                "scatter",
                [x, v, i],
                {"axes": [0], "at": 0, "mode": mode},
                want,
                dtype,
                EXACT if mode in ("set", "min", "max") else near,
                t,
            )
            v = cases.any((5, 2), dtype)
            want = elements(x).copy()
            at = (np.arange(5)[:, None], j.stored)
            if mode == "set":
                want[at] = elements(v)
            else:
                f[mode].at(want, at, elements(v))
            places = np.arange(20).reshape(5, 4)[at].copy()
            t = (lambda x, j, v: updates(places, mode)(x, v)) if mode in ("set", "add") and is_float(dtype) else None
            cases.add(
                "put_along_axis",
                [x, j, v],
                {"axis": 1, "mode": mode},
                want,
                dtype,
                EXACT if mode in ("set", "min", "max") else near,
                t,
            )
        rows, ids = cases.any((7, 3), dtype), cases.ints((7,), "i32", 0, 4)
        want = np.zeros((5, 3), elements(rows).dtype)
        np.add.at(want, ids.stored, elements(rows))
        cases.add(
            "segment_sum",
            [rows, ids],
            {"segments": 5},
            want,
            dtype,
            near,
            (
                (lambda r, i: torch.zeros(5, 3, dtype=torch.float64).index_add(0, i.long(), r))
                if is_float(dtype)
                else None
            ),
        )


def one_hots(cases):
    for ids_dtype in ["i64", "i32", "u8"]:
        ids = cases.ints((2, 3), ids_dtype, -1, 6)
        for axis, dtype in [(-1, "f32"), (0, "f64"), (1, "i32"), (-1, "bool"), (1, "f16")]:
            hot = np.moveaxis(ids.stored[..., None].astype(np.int64) == np.arange(5), -1, axis)
            cases.add("one_hot", [ids], {"depth": 5, "axis": axis, "dtype": dtype}, hot, dtype)
            if dtype not in ("bool", "i32"):
                cases.add(
                    "one_hot",
                    [ids],
                    {"depth": 5, "axis": axis, "dtype": dtype, "on": 2.5, "off": -0.5},
                    np.where(hot, 2.5, -0.5),
                    dtype,
                )


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [picks, indices, scatters, one_hots]:
            family(cases)
