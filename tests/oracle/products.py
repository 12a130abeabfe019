"""Cases of matrix products, convolutions and pooling: values and gradients by torch in float64, in numpy where it has them."""

import numpy as np
import torch

from judge import COMPLEX, EXACT, FLOATS, Operand, Ulp, is_complex, is_float, largest

F = torch.nn.functional


def product(cases, fn, operands, options, torch_fn, dtype=None, slope=None):
    """A case of sums of products: held against the sum of their magnitudes."""
    dtype = dtype or operands[0].dtype
    t = [
        o.torch() if is_float(o.dtype) or is_complex(o.dtype) else torch.tensor(o.stored.astype(np.int64))
        for o in operands
    ]
    with torch.no_grad():
        value = torch_fn(*t).numpy()
        magnitude = torch_fn(*[a.abs() for a in t]).numpy() if is_float(dtype) or is_complex(dtype) else None
    exact = not is_float(dtype) and not is_complex(dtype)
    cases.add(
        fn,
        operands,
        options,
        value,
        dtype,
        EXACT if exact else Ulp(1, 10, magnitude),
        torch_fn if is_float(dtype) else None,
        slope,
    )


def matrices(cases):
    for dtype in FLOATS + ["i32", "i64", "u8"] + COMPLEX:
        pairs = [
            ((3, 4), (4, 5)),
            ((4,), (4,)),
            ((4,), (4, 3)),
            ((2, 4), (4,)),
            ((2, 3, 4), (4, 2)),
            ((2, 1, 3, 4), (5, 4, 2)),
            ((1, 1), (1, 1)),
            ((3, 0), (0, 2)),
            ((0, 3), (3, 2)),
            ((2, 3), (5, 3, 4)),
            ((17, 9), (9, 20)),
        ]
        for a, b in pairs:
            x, y = cases.any(a, dtype), cases.any(b, dtype)
            product(cases, "matmul", [x, y], {}, torch.matmul)
        for a, b in [((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (5, 4, 2)), ((2, 3), (3,)), ((), (3,))]:
            x, y = cases.any(a, dtype), cases.any(b, dtype)
            product(cases, "dot", [x, y], {}, numpy_dot)
            if a and b and a != (3, 4):
                y = cases.any(a[-1:] if len(a) > 1 else a, dtype)
                product(cases, "inner", [x, y], {}, torch.inner)
            product(cases, "outer", [x, y], {}, lambda x, y: torch.outer(x.reshape(-1), y.reshape(-1)))
        product(
            cases,
            "vdot",
            [cases.any((2, 3), dtype), cases.any((2, 3), dtype)],
            {},
            lambda x, y: (x.conj().reshape(-1) * y.reshape(-1)).sum(),
        )
        x, y = cases.any((2, 3, 4), dtype), cases.any((4, 3, 5), dtype)
        product(
            cases,
            "tensordot",
            [x, y],
            {"a_axes": [1, 2], "b_axes": [1, 0]},
            lambda x, y: torch.tensordot(x, y, ([1, 2], [1, 0])),
        )
        product(cases, "tensordot", [x, y], {"axes": 1}, lambda x, y: torch.tensordot(x, y, 1))
        product(cases, "tensordot", [x, cases.any((3, 4, 2), dtype)], {}, lambda x, y: torch.tensordot(x, y, 2))
        product(
            cases,
            "tensordot",
            [cases.any((2,), dtype), cases.any((3,), dtype)],
            {"axes": 0},
            lambda x, y: torch.tensordot(x, y, 0),
        )
        z = cases.any((5, 3, 2), dtype)
        product(
            cases,
            "dot_general",
            [x, z],
            {"lhs_contract": [1], "rhs_contract": [1], "lhs_batch": [0], "rhs_batch": [2]},
            lambda x, z: torch.einsum("bij,kib->bjk", x, z),
        )
        product(
            cases,
            "dot_general",
            [x, z],
            {"lhs_contract": [], "rhs_contract": [], "lhs_batch": [1], "rhs_batch": [-2]},
            lambda x, z: torch.einsum("abc,dbe->bacde", x, z),
        )
        product(
            cases,
            "kron",
            [cases.any((2, 3), dtype), cases.any((3, 2), dtype)],
            {},
            lambda x, y: torch.kron(x.contiguous(), y.contiguous()),
        )
        product(
            cases,
            "kron",
            [cases.any((2,), dtype), cases.any((2, 2), dtype)],
            {},
            lambda x, y: torch.kron(x.contiguous(), y.contiguous()),
        )
        for shape, axis in [((2, 3), -1), ((3, 4), 0), ((3,), -1)]:
            x, y = cases.any(shape, dtype), cases.any(shape, dtype)
            value = cross(
                x.wide if dtype[0] != "u" and (is_float(dtype) or is_complex(dtype)) else x.stored,
                y.wide if is_float(dtype) or is_complex(dtype) else y.stored,
                axis,
            )
            exact = not is_float(dtype) and not is_complex(dtype)
            cases.add(
                "cross",
                [x, y],
                {"axis": axis},
                value,
                dtype,
                EXACT if exact else Ulp(1, 6, largest),
                (lambda x, y: torch.linalg.cross(x, y, dim=axis)) if is_float(dtype) else None,
            )


def cross(x, y, axis):
    x, y = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    return np.moveaxis(
        np.stack([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]]), 0, axis
    )


def numpy_dot(x, y):
    return x * y if x.ndim == 0 or y.ndim == 0 else torch.tensordot(x, y, ([-1], [max(0, y.ndim - 2)]))


def einsums(cases):
    plans = [
        ("ij,jk->ik", (3, 4), (4, 2)),
        ("ij,jk", (3, 4), (4, 2)),
        ("ii->i", (3, 3)),
        ("ii", (4, 4)),
        ("ij->ji", (2, 3)),
        ("ij->", (2, 3)),
        ("ij->i", (2, 3)),
        ("i,j->ij", (3,), (2,)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
        ("...ij,...jk->...ik", (2, 3, 4), (4, 2)),
        ("...i->...", (2, 3)),
        ("ijk,kl,l->ij", (2, 3, 4), (4, 5), (5,)),
        ("ba,cb->ca", (3, 2), (4, 3)),
        ("i,i->", (4,), (4,)),
        ("iij->j", (3, 3, 2)),
        ("ij,ij->ij", (2, 3), (2, 3)),
        ("a,ab,abc->abc", (2,), (2, 3), (2, 3, 2)),
        ("...,...->...", (3, 1), (1, 2)),
        ("ij,kj->ik", (3, 0), (2, 0)),
    ]
    for dtype in ["f32", "f64", "i32", "c64", "f16"]:
        for equation, *shapes in plans:
            product(
                cases,
                "einsum",
                [cases.any(s, dtype) for s in shapes],
                {"equation": equation},
                lambda *t: torch.einsum(equation, *t),
            )


def diagonals(cases):
    for dtype in FLOATS + ["i32", "bool", "c64"]:
        x = cases.any((3, 4, 3), dtype)
        w = x.wide if is_float(dtype) or is_complex(dtype) else x.stored
        t = is_float(dtype)
        for offset, a, b in [(0, 0, 1), (1, 0, 2), (-1, 1, 2), (2, -1, 0), (7, 0, 1)]:
            o = {"offset": offset, "axis1": a, "axis2": b}
            cases.add(
                "diagonal",
                [x],
                o,
                np.diagonal(w, offset, a, b),
                dtype,
                EXACT,
                (lambda x: torch.diagonal(x, offset, a, b)) if t else None,
            )
            if offset != 7:
                value = np.trace(w, offset, a, b)
                cases.add(
                    "trace",
                    [x],
                    o,
                    value,
                    "i64" if dtype in ("i32", "bool") else dtype,
                    Ulp(2, 6, largest(w)) if t or dtype == "c64" else EXACT,
                    (lambda x: torch.diagonal(x, offset, a, b).sum(-1)) if t else None,
                )
        cases.add("matrix_transpose", [x], {}, np.swapaxes(w, -1, -2), dtype, EXACT, (lambda x: x.mT) if t else None)
        for shape in [(4,), (3, 5), (0,)]:
            y = cases.any(shape, dtype)
            v = y.wide if t or is_complex(dtype) else y.stored
            for offset in [0, 1, -2]:
                cases.add(
                    "diag",
                    [y],
                    {"offset": offset},
                    np.diag(v, offset),
                    dtype,
                    EXACT,
                    (lambda y: torch.diag(y, offset)) if t else None,
                )


# --- Convolutions -------------------------------------------------------------------------------------------------------

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def channels_first(x):
    return x.movedim(-1, 1)


def channels_last(x):
    return x.movedim(1, -1)


def weights_first(w):
    """[space..., in, out] to [out, in, space...]."""
    return w.movedim(-1, 0).movedim(-1, 1)


def pads_of(padding, sizes, window, strides, dilation):
    n = len(sizes)
    if isinstance(padding, int):
        return [(padding, padding)] * n
    if padding == "VALID":
        return [(0, 0)] * n
    if padding != "SAME":
        return [tuple(p) for p in padding]
    out = []
    for s, k, t, d in zip(sizes, window, strides, dilation):
        total = max(0, (-(-s // t) - 1) * t + (k - 1) * d + 1 - s)
        out.append((total // 2, total - total // 2))
    return out


def torch_pad(x, pads, value=0.0):
    return F.pad(x, [p for pair in reversed(pads) for p in pair], value=value)


def convolve(x, w, pads, strides, dilation, groups):
    # torch's gradient of some small convolutions refuses weights in another layout.
    return CONV[w.ndim - 2](
        torch_pad(x, pads).contiguous(), w.contiguous(), stride=strides, dilation=dilation, groups=groups
    )


def conv_plans(cases, n):
    sizes = {1: (9,), 2: (7, 6), 3: (4, 5, 4)}[n]
    window = {1: (3,), 2: (3, 2), 3: (2, 3, 2)}[n]
    for strides, padding, dilation, groups in [
        ([], "VALID", [], 1),
        ([2], "SAME", [], 1),
        ([1], 1, [2], 1),
        ([2] * n, [[1, 2]] * n, [1] * n, 2),
        ([3], "SAME", [1], 4),
        ([1], "SAME", [2], 1),
        ([2], [[0, 3]] * n, [], 1),
        ([], "VALID", [], 2),
    ]:
        yield sizes, window, strides, padding, dilation, groups


def convolutions(cases):
    for dtype in FLOATS:
        for n in [1, 2, 3]:
            for sizes, window, strides, padding, dilation, groups in conv_plans(cases, n):
                for layout in ["nhwc", "nchw"]:
                    one_conv(cases, dtype, n, sizes, window, strides, padding, dilation, groups, layout)
        for padding in ["SAME", "VALID"]:
            x, w = cases.normals((2, 5, 6, 3), dtype), cases.normals((3, 3, 1, 6), dtype)
            pads = pads_of(padding, (5, 6), (3, 3), (1, 1), (1, 1))
            product(
                cases,
                "depthwise_conv",
                [x, w],
                {"padding": padding},
                lambda x, w: channels_last(convolve(channels_first(x), weights_first(w), pads, 1, 1, 3)),
            )


def spread(values, n):
    return list(values) * n if len(values) == 1 else list(values) or [1] * n


def one_conv(cases, dtype, n, sizes, window, strides, padding, dilation, groups, layout):
    first = layout == "nchw"
    inner, outer = 4, 8 if groups > 1 else 3
    s, d = spread(strides, n), spread(dilation, n)
    pads = pads_of(padding, sizes, window, s, d)
    o = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups, "layout": layout}
    x = cases.normals((2, inner, *sizes) if first else (2, *sizes, inner), dtype)
    w = cases.normals((outer, inner // groups, *window) if first else (*window, inner // groups, outer), dtype)
    last = (lambda y: y) if first else channels_last
    as_x, as_w = ((lambda x: x), (lambda w: w)) if first else (channels_first, weights_first)
    f = lambda x, w: last(convolve(as_x(x), as_w(w), pads, s, d, groups))
    product(cases, "conv" if cases.rng.integers(2) else f"conv{n}d", [x, w], o, f)
    if dtype in ("f32", "f64"):
        with torch.no_grad():
            out = f(x.torch(), w.torch())
        params = {
            "strides": s,
            "pads_lo": [p[0] for p in pads],
            "pads_hi": [p[1] for p in pads],
            "dilation": d,
            "groups": groups,
            "layout": layout,
        }
        g = cases.normals(tuple(out.shape), dtype)
        product(
            cases,
            "conv_grad_input",
            [g, w],
            params | {"sizes": list(sizes)},
            lambda g, w: torch.func.vjp(lambda v: f(v, w), x.torch())[1](g)[0],
        )
        product(
            cases,
            "conv_grad_weight",
            [x, g],
            params | {"sizes": list(window)},
            lambda x, g: torch.func.vjp(lambda v: f(x, v), w.torch())[1](g)[0],
        )
    transposed_conv(cases, dtype, n, {1: (5,), 2: (4, 3), 3: (2, 3, 2)}[n], window, s, padding, d, groups, layout)


def transposed_conv(cases, dtype, n, sizes, window, s, padding, d, groups, layout):
    """The gradient towards its input of the convolution whose output has x's sizes."""
    first = layout == "nchw"
    k = [(a - 1) * b + 1 for a, b in zip(window, d)]
    extra = [cases.choice([0, t - 1]) if padding != "SAME" else 0 for t in s]
    if padding == "SAME":
        out = [a * t for a, t in zip(sizes, s)]
        pads = pads_of("SAME", out, window, s, d)
        # If the kernel is smaller than the stride, SAME pads nothing and the last elements get zeros.
    else:
        pads = pads_of(padding, sizes, window, s, d)
        out = [(a - 1) * t + w - sum(p) + e for a, t, w, p, e in zip(sizes, s, k, pads, extra)]
    outer, inner = 4 if groups > 1 else 2, 4
    o = {"strides": s, "padding": padding, "dilation": d, "groups": groups, "layout": layout} | (
        {"output_padding": extra} if any(extra) else {}
    )
    x = cases.normals((1, inner, *sizes) if first else (1, *sizes, inner), dtype)
    w = cases.normals((inner, outer // groups, *window) if first else (*window, outer // groups, inner), dtype)
    last = (lambda y: y) if first else channels_last
    as_x, as_w = ((lambda x: x), (lambda w: w)) if first else (channels_first, weights_first)

    def f(x, w):
        full = TRANSPOSED[n](as_x(x).contiguous(), as_w(w).contiguous(), stride=s, dilation=d, groups=groups)
        short = [max(0, a + p[0] - b) for a, b, p in zip(out, full.shape[2:], pads)]
        full = F.pad(full, [v for e in reversed(short) for v in (0, e)])
        for axis, (a, p) in enumerate(zip(out, pads)):
            full = full.narrow(axis + 2, p[0], a)
        return last(full)

    product(cases, "conv_transpose", [x, w], o, f)


# --- Pooling ------------------------------------------------------------------------------------------------------------


def windows_of(x, window, strides, pads, value):
    """[batch, channels, out..., elements of a window] of a channels-first tensor."""
    x = torch_pad(x, pads, value)
    for axis, (k, s) in enumerate(zip(window, strides)):
        x = x.unfold(axis + 2, k, s)
    return x.flatten(2 + len(window))


def first_of_largest(v):
    """The largest along the last axis; its gradient goes to the first of equal ones."""
    return torch.gather(v, -1, torch.tensor(np.argmax(v.detach().numpy(), -1))[..., None])[..., 0]


def most_of_space(x, into, keepdims, out):
    y = first_of_largest(into(x).flatten(2))
    return out(y.reshape(*y.shape, *[1] * (x.ndim - 2))) if keepdims else y


def adaptive_max(x, to):
    """Of windows from floor(i in / out) to ceil((i + 1) in / out), each a max of its own, first come first."""
    cells = []
    for place in np.ndindex(*to):
        v = x
        for axis, (i, n) in enumerate(zip(place, to)):
            size = x.shape[axis + 2]
            v = v.narrow(axis + 2, i * size // n, -(-(i + 1) * size // n) - i * size // n)
        cells.append(first_of_largest(v.flatten(2)))
    return torch.stack(cells, -1).reshape(*x.shape[:2], *to)


def pools(cases):
    for dtype in FLOATS:
        for n, sizes in [(1, (9,)), (2, (6, 7)), (3, (4, 3, 5))]:
            for window, strides, padding, count in [
                ([2], [], "VALID", False),
                ([3] * n, [2], "SAME", False),
                ([2] * n, [1] * n, [[1, 0]] * n, True),
                ([3], [2], 1, True),
                ([2], [3], "SAME", False),
            ]:
                for layout in ["nhwc", "nchw"]:
                    first = layout == "nchw"
                    x = cases.normals((2, 3, *sizes) if first else (2, *sizes, 3), dtype)
                    k, s = spread(window, n), spread(strides or window, n)
                    pads = pads_of(padding, sizes, k, s, [1] * n)
                    o = {"window": window, "strides": strides, "padding": padding, "layout": layout}
                    into, out = ((lambda x: x), (lambda x: x)) if first else (channels_first, channels_last)
                    cases.by_torch(
                        "max_pool",
                        [x],
                        o,
                        lambda x: out(first_of_largest(windows_of(into(x), k, s, pads, -np.inf))),
                        dtype,
                        EXACT,
                    )

                    def mean(x):
                        v = windows_of(into(x), k, s, pads, 0.0)
                        number = windows_of(torch.ones_like(into(x)), k, s, pads, 1.0 if count else 0.0).sum(-1)
                        return out(v.sum(-1) / number)

                    cases.by_torch(
                        "avg_pool",
                        [x],
                        o | ({"count_include_pad": True} if count else {}),
                        mean,
                        dtype,
                        Ulp(2, 4, largest),
                    )
            for layout in ["nhwc", "nchw"]:
                first = layout == "nchw"
                x = cases.normals((2, 3, *sizes) if first else (2, *sizes, 3), dtype)
                space = list(range(2, 2 + n)) if first else list(range(1, 1 + n))
                into, out = ((lambda x: x), (lambda x: x)) if first else (channels_first, channels_last)
                for keepdims in [False, True]:
                    o = {"layout": layout} | ({"keepdims": True} if keepdims else {})
                    cases.by_torch(
                        "global_max_pool", [x], o, lambda x: most_of_space(x, into, keepdims, out), dtype, EXACT
                    )
                    cases.by_torch(
                        "global_avg_pool",
                        [x],
                        o,
                        lambda x: torch.mean(x, space, keepdim=keepdims),
                        dtype,
                        Ulp(2, 6, largest),
                    )
                for sizes_out in [[1], [2] * n, [3]]:
                    o = {"out": sizes_out, "layout": layout}
                    to = spread(sizes_out, n)
                    mean_of = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[n]
                    cases.by_torch("adaptive_max_pool", [x], o, lambda x: out(adaptive_max(into(x), to)), dtype, EXACT)
                    cases.by_torch(
                        "adaptive_avg_pool", [x], o, lambda x: out(mean_of(into(x), to)), dtype, Ulp(2, 6, largest)
                    )
    for dtype in ["i32", "u8"]:
        x = cases.ints((1, 4, 4, 2), dtype, 0, 50)
        cases.add("max_pool", [x], {"window": [2]}, x.stored.reshape(1, 2, 2, 2, 2, 2).max((2, 4)), dtype)
    values = cases.rng.normal(size=(1, 6, 1))
    values[0, 3] = np.nan
    x = Operand(values, "f32", grad=False)
    cases.add("max_pool", [x], {"window": [3]}, x.wide.reshape(1, 2, 3, 1).max(2), "f32")


def further_pools(cases):
    """ceil_mode, dilation and a divisor, as torch's pools have them."""
    maxima, means = [F.max_pool1d, F.max_pool2d, F.max_pool3d], [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d]
    for dtype in FLOATS:
        for n, sizes in [(1, (9,)), (2, (6, 7)), (3, (4, 3, 5))]:
            x = cases.normals((2, *sizes, 3), dtype)
            # bf16 has many equal numbers, of which torch takes the first as well.
            for window, stride, padding, dilation, ceil in [
                (2, 2, 0, 1, True),
                (3, 2, 1, 1, True),
                (2, 1, 0, 2, False),
                (2, 2, 1, 2, True),
                (2, 3, 1, 1, True),
            ]:
                o = {"window": [window], "strides": [stride], "padding": padding}
                o |= ({"ceil_mode": True} if ceil else {}) | ({"dilation": [dilation]} if dilation > 1 else {})
                of = lambda x: channels_last(maxima[n - 1](channels_first(x), window, stride, padding, dilation, ceil))
                cases.by_torch("max_pool", [x], o, of, dtype, EXACT)
                if dilation > 1:
                    continue
                for count in [False, True]:
                    of = lambda x: channels_last(means[n - 1](channels_first(x), window, stride, padding, ceil, count))
                    more = {"count_include_pad": True} if count else {}
                    cases.by_torch("avg_pool", [x], o | more, of, dtype, Ulp(4, 4, largest))
                if n > 1:
                    of = lambda x: channels_last(means[n - 1](channels_first(x), window, stride, padding, ceil, True, 3))
                    cases.by_torch("avg_pool", [x], o | {"divisor": 3}, of, dtype, Ulp(4, 4, largest))
        # Windows that are longer than the operand.
        for n, sizes, window, stride, dilation in [(1, (2,), 3, 2, 1), (2, (1, 6), 2, 3, 1), (1, (3,), 2, 4, 3)]:
            x = cases.normals((2, *sizes, 2), dtype)
            o = {"window": [window], "strides": [stride], "ceil_mode": True} | ({"dilation": [dilation]} if dilation > 1 else {})
            of = lambda x: channels_last(maxima[n - 1](channels_first(x), window, stride, 0, dilation, True))
            cases.by_torch("max_pool", [x], o, of, dtype, EXACT)
            if dilation == 1:
                of = lambda x: channels_last(means[n - 1](channels_first(x), window, stride, 0, True, False))
                cases.by_torch("avg_pool", [x], o, of, dtype, Ulp(4, 4, largest))


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [matrices, einsums, diagonals, convolutions, pools, further_pools]:
            family(cases)
