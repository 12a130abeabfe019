"""What is done to images (ops/images.h): values and gradients by torch in float64, in both layouts."""

import math

import numpy as np
import torch
from judge import EQUAL, EXACT, FLOATS, Operand, at_least_one

F = torch.nn.functional


def in_layout(layout, f):
    """torch's function of [batch, channels, space...] as one of the layout."""
    if layout == "nchw":
        return f

    def of(x, *more):
        y = f(x.movedim(-1, 1), *more)
        return [t.movedim(1, -1) for t in y] if isinstance(y, (list, tuple)) else y.movedim(1, -1)

    return of


def image(cases, layout, batch, channels, space, dtype, **more):
    shape = (batch, *space, channels) if layout == "nhwc" else (batch, channels, *space)
    return cases.normals(shape, dtype, **more)


def layouts(cases):
    for dtype in FLOATS:
        for layout in ["nhwc", "nchw"]:
            yield dtype, layout


LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def resizing(cases):
    near, slope = at_least_one(32), at_least_one(64)
    for dtype, layout in layouts(cases):
        for space, size in [((4,), (7,)), ((5,), (3,)), ((3, 4), (5, 2)), ((4, 6), (4, 3)), ((1, 3), (2, 3)), ((2, 3, 2), (3, 2, 4))]:
            n = len(space)
            if dtype in ("f16", "bf16") and n != 2:
                continue
            x = image(cases, layout, 2 if n == 2 else 1, 2, space, dtype)
            for mode, torch_mode in [("nearest", "nearest"), ("nearest_exact", "nearest-exact"), ("area", "area"), ("linear", LINEAR[n]), ("cubic", "bicubic")]:
                if mode == "cubic" and n != 2:
                    continue
                smooth = mode in ("linear", "cubic")
                tolerance = EXACT if mode.startswith("nearest") else near
                for align in [False, True] if smooth else [None]:
                    o = {"size": list(size), "mode": mode, "layout": layout} | ({"align_corners": True} if align else {})
                    of = in_layout(layout, lambda x: F.interpolate(x, size, mode=torch_mode, align_corners=align))
                    cases.by_torch("interpolate", [x], o, of, dtype, tolerance, grad_tolerance=slope)
                if smooth and n == 2:
                    o = {"size": list(size), "mode": mode, "layout": layout, "antialias": True}
                    of = in_layout(layout, lambda x: F.interpolate(x, size, mode=torch_mode, antialias=True))
                    cases.by_torch("interpolate", [x], o, of, dtype, near, grad_tolerance=slope)
                for scale in [2.0, 0.7, 1.3]:
                    sizes = tuple(math.floor(s * scale) for s in space)
                    stays = [a == b for a, b in zip(sizes, space)]
                    if 0 in sizes or (mode == "cubic" and all(stays)) or (mode == "nearest" and n == 3 and any(stays)):
                        continue  # torch is of two minds: cubic's value is stretched, and its gradient that of a copy; of
                        # nearest volumes are stretched, and images are not
                    o = {"scale": [scale], "mode": mode, "layout": layout}
                    of = in_layout(layout, lambda x: F.interpolate(x, scale_factor=scale, mode=torch_mode))
                    cases.by_torch("interpolate", [x], o, of, dtype, tolerance, grad_tolerance=slope)


def off_kinks(places, space):
    """Places that are not so near to a pixel, or to where a reflection turns, that rounding to half precision crosses it:
    slopes jump there."""
    again = np.random.default_rng(len(space))
    for _ in range(1000):
        near = np.zeros(places.shape, bool)
        for size in space:
            for at in [(places + 1) * (size - 1)] * (size > 1) + [(places + 1) * size - 1]:  # in halves of a pixel
                near |= np.abs(at - np.round(at)) < 0.02 * size
        if not near.any():
            break
        places = np.where(near, again.uniform(-1.6, 1.6, places.shape), places)
    return places


def sampling(cases):
    near, slope = at_least_one(64), at_least_one(128)
    for dtype, layout in layouts(cases):
        for space, out in [((3, 2), (1, 2)), ((3, 4), (2, 3)), ((5, 1), (3, 2)), ((2, 3, 4), (2, 1, 2))]:
            n = len(space)
            x = image(cases, layout, 2, 2, space, dtype)
            places = off_kinks(cases.rng.uniform(-1.6, 1.6, (2, *out, n)), space)
            grid = Operand(places, dtype)
            for mode in ["linear", "nearest"] + (["cubic"] if n == 2 else []):
                for padding in ["zeros", "border", "reflection"]:
                    for align in [False, True]:
                        o = {"mode": mode, "padding": padding, "align_corners": align, "layout": layout}
                        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
                        of = in_layout(layout, lambda x, g: F.grid_sample(x, g, name, padding, align))
                        cases.by_torch("grid_sample", [x, grid], o, of, dtype, EQUAL if mode == "nearest" else near, grad_tolerance=slope)
        for size in [(2, 3), (1, 4), (2, 1, 3)]:
            n = len(size)
            theta = cases.normals((2, n, n + 1), dtype)
            for align in [False, True]:
                of = lambda t: F.affine_grid(t, (2, 1, *size), align)
                o = {"size": list(size), "align_corners": align}
                if layout == "nhwc":
                    cases.by_torch("affine_grid", [theta], o, of, dtype, near, grad_tolerance=at_least_one(32))


def patches(cases):
    slope = at_least_one(32)
    for dtype, layout in layouts(cases):
        for factor, space in [(2, (2, 4)), (3, (3, 6)), (1, (2, 2))]:
            x = image(cases, layout, 2, 2 * factor * factor, space, dtype)
            o = {"factor": factor, "layout": layout}
            cases.by_torch("pixel_shuffle", [x], o, in_layout(layout, lambda x: F.pixel_shuffle(x, factor)), dtype, EXACT)
            x = image(cases, layout, 2, 2, [s * factor for s in space], dtype)
            cases.by_torch("pixel_unshuffle", [x], o, in_layout(layout, lambda x: F.pixel_unshuffle(x, factor)), dtype, EXACT)
        x = image(cases, layout, 1, 6, (2, 3), dtype)
        for groups in [1, 2, 3]:
            o = {"groups": groups, "axis": -1 if layout == "nhwc" else 1}
            cases.by_torch("channel_shuffle", [x], o, in_layout(layout, lambda x: F.channel_shuffle(x, groups)), dtype, EXACT)
        for space, window, strides, padding, dilation in [((2, 3), (2, 2), 1, 0, 1), ((4, 5), (2, 3), 1, 0, 1), ((5, 4), (3, 2), 2, 1, 1), ((6, 6), (2, 2), 2, 0, 2), ((3, 3), (3, 3), 1, 1, 1)]:
            channels, pixels = 2, window[0] * window[1]
            out = [(s + 2 * padding - dilation * (w - 1) - 1) // strides + 1 for s, w in zip(space, window)]
            o = {"window": list(window), "strides": [strides], "padding": padding, "dilation": [dilation], "layout": layout}
            x = image(cases, layout, 2, channels, space, dtype)

            def unfold(x):
                if layout == "nchw":
                    return F.unfold(x, window, dilation, padding, strides)
                y = F.unfold(x.movedim(-1, 1), window, dilation, padding, strides)  # [batch, channels pixels, places]
                y = y.reshape(2, channels, pixels, -1).permute(0, 3, 2, 1)
                return y.reshape(2, *out, pixels * channels)

            cases.by_torch("unfold", [x], o, unfold, dtype, EXACT, grad_tolerance=slope)
            places = out[0] * out[1]
            shapes = [(2, channels * pixels, places)] if layout == "nchw" else [(2, *out, pixels * channels), (2, places, pixels * channels)]
            for shape in shapes:
                y = cases.normals(shape, dtype)

                def fold(y):
                    if layout == "nhwc":
                        y = y.reshape(2, places, pixels, channels).permute(0, 3, 2, 1).reshape(2, -1, places)
                    y = F.fold(y, space, window, dilation, padding, strides)
                    return y if layout == "nchw" else y.movedim(1, -1)

                tolerance = at_least_one(8 if dtype in ("f32", "f64") else 4)
                cases.by_torch("fold", [y], o | {"size": list(space)}, fold, dtype, tolerance)


def pools(cases):
    near, slope = at_least_one(24), at_least_one(96)
    for dtype, layout in layouts(cases):
        for space, window in [((6,), (2,)), ((5, 4), (2, 2)), ((4, 3, 4), (2, 1, 2))]:
            n = len(space)
            x = image(cases, layout, 1 if n < 3 else 2, 2, space, dtype)
            positive = Operand(np.abs(x.wide) + 0.1, dtype)
            for p in [1.0, 2.0, 3.0]:
                for strides in [None, 1]:
                    o = {"window": list(window), "p": p, "layout": layout} | ({} if strides is None else {"strides": [strides]})
                    f = [F.lp_pool1d, F.lp_pool2d, F.lp_pool3d][n - 1]
                    of = in_layout(layout, lambda x: f(x, p, window if n > 1 else window[0], strides))
                    cases.by_torch("lp_pool", [positive], o, of, dtype, near, grad_tolerance=slope)
            distinct = Operand(cases.rng.permutation(x.stored.size).reshape(x.shape) / 16, dtype if dtype != "bf16" else "f32")
            kind = distinct.dtype
            for strides, padding in [(None, 0), (1, 0), (2, 1)]:
                if padding and min(window) < 2:
                    continue
                o = {"window": list(window), "padding": padding, "layout": layout} | ({} if strides is None else {"strides": [strides]})
                f = [F.max_pool1d, F.max_pool2d, F.max_pool3d][n - 1]
                of = in_layout(layout, lambda x: f(x, window, strides, padding, return_indices=True))
                cases.by_torch("max_pool_with_indices", [distinct], o, of, [kind, "i64"], EXACT)
            if min(space) > 2:
                o = {"window": [2], "strides": [1], "padding": 1, "dilation": [2], "layout": layout}
                f = [F.max_pool1d, F.max_pool2d, F.max_pool3d][n - 1]
                of = in_layout(layout, lambda x: f(x, 2, 1, 1, 2, return_indices=True))
                cases.by_torch("max_pool_with_indices", [distinct], o, of, [kind, "i64"], EXACT)
            y, at = [F.max_pool1d, F.max_pool2d, F.max_pool3d][n - 1](
                distinct.torch() if layout == "nchw" else distinct.torch().movedim(-1, 1), window, return_indices=True
            )
            put = lambda t: t if layout == "nchw" else t.movedim(1, -1)
            small, places = Operand(put(y).numpy(), kind), Operand(put(at).numpy(), "i64")
            f = [F.max_unpool1d, F.max_unpool2d, F.max_unpool3d][n - 1]
            for size in [None, space]:
                if size is None and any(s % w for s, w in zip(space, window)):
                    continue
                o = {"window": list(window), "layout": layout} | ({} if size is None else {"size": list(size)})

                def unpool(x, at):
                    if layout == "nchw":
                        return f(x, at, window, output_size=size)
                    return f(x.movedim(-1, 1), at.movedim(-1, 1), window, output_size=size).movedim(1, -1)

                cases.by_torch("max_unpool", [small, places], o, unpool, kind, EXACT)
            if n > 1:
                out = [s - w for s, w in zip(space, window)]
                samples = Operand(cases.rng.uniform(0, 1, (1 if n < 3 else 2, 2, n)), "f64", grad=False)
                f = [F.fractional_max_pool2d, F.fractional_max_pool3d][n - 2]

                def fractional(x, u):
                    if layout == "nchw":
                        return f(x, window, output_size=out, _random_samples=u)
                    return f(x.movedim(-1, 1), window, output_size=out, _random_samples=u).movedim(1, -1)

                o = {"window": list(window), "out": out, "layout": layout}
                cases.by_torch("fractional_max_pool", [distinct, samples], o, fractional, kind, EXACT)


def add_all(cases):
    for family in [resizing, sampling, patches, pools]:
        family(cases)
