"""Cases small enough for Hessians, of functions whose others are larger: convolutions, pools, attention, gathers."""

import numpy as np
import torch

from indexing import by_places
from judge import EXACT, Operand, Ulp, largest, of_largest
from products import (
    adaptive_max,
    channels_first,
    channels_last,
    convolve,
    first_of_largest,
    most_of_space,
    product,
    weights_first,
    windows_of,
)
from shapes import image_blocks, moved

F = torch.nn.functional
DTYPES = ["f32", "f64"]


def convolutions(cases):
    for dtype in DTYPES:
        for n, sizes, window, groups in [
            (1, (4,), (2,), 1),
            (1, (3,), (2,), 2),
            (2, (2, 3), (2, 2), 1),
            (3, (2, 2, 2), (1, 2, 2), 1),
        ]:
            inner, outer = (2, 2) if groups == 2 else (1, 1)
            x = cases.normals((1, *sizes, inner), dtype)
            w = cases.normals((*window, inner // groups, outer), dtype)
            pads = [(0, 1)] * n
            o = {"strides": [1], "padding": pads, "dilation": [1], "groups": groups, "layout": "nhwc"}
            f = lambda x, w: channels_last(
                convolve(channels_first(x), weights_first(w), pads, [1] * n, [1] * n, groups)
            )
            for name in ["conv", f"conv{n}d"]:
                product(cases, name, [x, w], o, f)
            with torch.no_grad():
                g = cases.normals(tuple(f(x.torch(), w.torch()).shape), dtype)
            params = o | {"strides": [1] * n, "dilation": [1] * n, "pads_lo": [0] * n, "pads_hi": [1] * n}
            del params["padding"]
            towards_x = lambda g, w: torch.func.vjp(lambda v: f(v, w), x.torch())[1](g)[0]
            towards_w = lambda x, g: torch.func.vjp(lambda v: f(x, v), w.torch())[1](g)[0]
            product(cases, "conv_grad_input", [g, w], params | {"sizes": list(sizes)}, towards_x)
            product(cases, "conv_grad_weight", [x, g], params | {"sizes": list(window)}, towards_w)
        for stride in [1, 2]:
            x, w = cases.normals((1, 3, 2), dtype), cases.normals((2, 1, 2), dtype)
            f = lambda x, w: channels_last(F.conv_transpose1d(channels_first(x), weights_first(w), stride=stride))
            o = {"strides": [stride], "padding": "VALID", "dilation": [1], "groups": 1, "layout": "nhwc"}
            product(cases, "conv_transpose", [x, w], o, f)
        x, w = cases.normals((1, 2, 3, 2), dtype), cases.normals((2, 2, 1, 2), dtype)
        f = lambda x, w: channels_last(convolve(channels_first(x), weights_first(w), [(0, 0)] * 2, 1, 1, 2))
        product(cases, "depthwise_conv", [x, w], {"padding": "VALID"}, f)


def pools(cases):
    near = Ulp(2, 6, largest)
    for dtype in DTYPES:
        x = cases.normals((1, 5, 2), dtype)
        into, out = channels_first, channels_last
        windows = lambda x: windows_of(into(x), (3,), (2,), [(0, 0)], -np.inf)
        o = {"window": [3], "strides": [2], "padding": "VALID", "layout": "nhwc"}
        cases.by_torch("max_pool", [x], o, lambda x: out(first_of_largest(windows(x))), dtype, EXACT)
        cases.by_torch("avg_pool", [x], o, lambda x: out(windows(x).mean(-1)), dtype, near)
        o = {"layout": "nhwc"}
        cases.by_torch("global_max_pool", [x], o, lambda x: most_of_space(x, into, False, out), dtype, EXACT)
        cases.by_torch("global_avg_pool", [x], o, lambda x: x.mean(1), dtype, near)
        o = {"out": [3], "layout": "nhwc"}
        cases.by_torch("adaptive_max_pool", [x], o, lambda x: out(adaptive_max(into(x), [3])), dtype, EXACT)
        cases.by_torch("adaptive_avg_pool", [x], o, lambda x: out(F.adaptive_avg_pool1d(into(x), [3])), dtype, near)


def blocks(cases):
    for dtype in DTYPES:
        image = cases.normals((1, 2, 4, 1), dtype)
        deep = image_blocks(image.wide, 2)
        to_depth = lambda i: i.reshape(1, 1, 2, 2, 2, 1).permute(0, 1, 3, 2, 4, 5).reshape(1, 1, 2, 4)
        to_space = lambda i: i.reshape(1, 1, 2, 2, 2, 1).permute(0, 1, 3, 2, 4, 5).reshape(1, 2, 4, 1)
        moved(cases, "space_to_depth", image, {"block": 2}, deep, to_depth)
        moved(cases, "depth_to_space", Operand(deep, dtype), {"block": 2}, image.wide, to_space)


def attend(q, k, v, causal=False, mask=None, scale=None):
    """By its formula: torch's own attention has no second derivative."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale) + (0 if mask is None else mask)
    if causal:
        queries, keys = scores.shape[-2:]
        sees = torch.arange(keys)[None] <= torch.arange(queries)[:, None] + keys - queries
        scores = torch.where(sees, scores, -torch.inf)
    return torch.softmax(scores, -1) @ v


def attentions(cases):
    near, slope = Ulp(4, 32, largest), of_largest(64)
    for dtype in DTYPES:
        q, k, v = (cases.normals((n, 2), dtype) for n in (2, 3, 3))
        for o in [{}, {"causal": True}, {"scale": 0.3}]:
            cases.by_torch(
                "attention", [q, k, v], o, lambda q, k, v: attend(q, k, v, **o), dtype, near, grad_tolerance=slope
            )
        bias = cases.normals((2, 3), dtype)
        cases.by_torch(
            "attention",
            [q, k, v, bias],
            {},
            lambda q, k, v, m: attend(q, k, v, mask=m),
            dtype,
            near,
            grad_tolerance=slope,
        )
        x = cases.normals((1, 2, 3, 1, 2), dtype)

        def self_attend(x):
            q, k, v = x.movedim(-3, 0).swapaxes(-3, -2)
            return attend(q, k, v, True).swapaxes(-3, -2)

        cases.by_torch("self_attention", [x], {"causal": True}, self_attend, dtype, near, grad_tolerance=slope)


def picks(cases):
    for dtype in DTYPES:
        x = cases.normals((4, 3), dtype)
        ids = Operand(np.array([2, -4, 2]), "i64")
        by_places(cases, "take", [x, ids], {"axis": 0}, lambda p: np.take(p, ids.stored % 4, 0))
        by_places(cases, "take", [x, ids], {}, lambda p: np.take(p, ids.stored))
        along = cases.ints((2, 3), "i64", 0, 4)
        by_places(cases, "take_along_axis", [x, along], {"axis": 0}, lambda p: np.take_along_axis(p, along.stored, 0))
        i, j = cases.ints((2, 1), "i64", 0, 4), cases.ints((3,), "i64", 0, 3)
        pairs = Operand(np.stack([i.stored[:, 0], j.stored[:2]], -1), "i64")
        by_places(cases, "gather_nd", [x, pairs], {}, lambda p: p[pairs.stored[..., 0], pairs.stored[..., 1]])
        by_places(cases, "gather", [x, i, j], {"axes": [0, 1], "at": 0}, lambda p: p[i.stored, j.stored])
        rows = cases.ints((4, 2), "i64", 0, 3)
        o = {"axes": [1], "batch_axes": [0], "batch_dims": [0], "at": 0}
        by_places(cases, "gather", [x, rows], o, lambda p: p[np.arange(4)[:, None], rows.stored])
        mask = Operand(np.array([True, False, True, True]), "bool")
        by_places(cases, "boolean_mask", [x, mask], {}, lambda p: p[mask.stored])
        by_places(cases, "index by mask", [x, mask], {"index": [{"tensor": 1}]}, lambda p: p[mask.stored])


def contractions(cases):
    for dtype in DTYPES:
        x, y = cases.normals((2, 3), dtype), cases.normals((2, 3), dtype)
        o = {"lhs_contract": [1], "rhs_contract": [1], "lhs_batch": [0], "rhs_batch": [0]}
        product(cases, "dot_general", [x, y], o, lambda x, y: (x * y).sum(1))
        o = {"lhs_contract": [0], "rhs_contract": [0], "lhs_batch": [], "rhs_batch": []}
        product(cases, "dot_general", [x, y], o, lambda x, y: x.T @ y)


def corners(cases):
    """Where docs/derivatives.md says what a derivative is, and torch agrees."""
    if cases.transforms is not None:
        cases.transforms.every = True
    first = lambda x: x.gather(-1, torch.sort(x, stable=True, dim=-1).indices)
    for dtype in DTYPES:
        for fn, f, values in [
            ("abs", torch.abs, [0.0, 1, -1]),
            ("sign", torch.sign, [0.0, 1, -1]),
            ("relu", torch.relu, [0.0, 1, -1]),
            ("leaky_relu", lambda x: F.leaky_relu(x, 0.01), [0.0, 1, -1]),
            ("elu", F.elu, [0.0, 1, -1]),
            ("square", torch.square, [0.0, -0.0, 1]),
            ("floor", torch.floor, [0.0, 1, -1]),
            ("round", torch.round, [0.5, -1.5, 2]),
            ("max", torch.amax, [2.0, 2, 1, 2]),
            ("min", torch.amin, [2.0, 1, 1]),
            ("prod", torch.prod, [2.0, 0, 3]),
            ("sort", first, [2.0, 1, 2, 1]),
            ("cumprod", lambda x: x.cumprod(0), [2.0, 0, 3]),
        ]:
            cases.by_torch(fn, [Operand(np.array(values), dtype)], {}, f, dtype, Ulp(4))
        x, y = Operand(np.array([1.0, 2, 0, -1]), dtype), Operand(np.array([1.0, 3, 0, -2]), dtype)
        for fn, f in [("maximum", torch.maximum), ("minimum", torch.minimum)]:
            cases.by_torch(fn, [x, y], {}, f, dtype, EXACT)
    if cases.transforms is not None:
        cases.transforms.every = False


def add_all(cases):
    for family in [convolutions, pools, blocks, attentions, picks, contractions, corners]:
        family(cases)
