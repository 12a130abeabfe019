"""Cases of normalisation, losses, activations, attention, layers and optimizers: values and gradients by torch in float64."""

import math

import numpy as np
import torch

from judge import EXACT, FLOATS, Operand, Ulp, at_least_one, largest, of_largest

F = torch.nn.functional


def of_cotangent(eps):
    """Gradients that are differences of cotangents, which may cancel."""
    return lambda cotangents: Ulp(
        4, eps, max([1.0] + [float(np.max(np.abs(c.wide), initial=0)) for c in cotangents if c is not None])
    )


ROWS = [((7,), -1), ((3, 5), -1), ((3, 5), 0), ((2, 3, 4), 1), ((4, 1), -1), ((1, 1), 0), ((2, 3, 64), -1)]


def softmaxes(cases):
    for dtype in FLOATS:
        for shape, axis in ROWS:
            for offset in [0.0, 0.0, 500.0]:
                x = Operand(cases.rng.normal(size=shape) * 3 + offset, dtype, cases.layout(shape))
                cases.by_torch(
                    "softmax",
                    [x],
                    {"axis": axis},
                    lambda x: torch.softmax(x, axis),
                    dtype,
                    # exp makes |x - max| / 2 units of the rounding of x - max, in torch's f64 as in ours
                    Ulp(24 if dtype == "f64" else 18),
                    grad_tolerance=of_cotangent(16),
                )
                cases.by_torch(
                    "log_softmax",
                    [x],
                    {"axis": axis},
                    lambda x: torch.log_softmax(x, axis),
                    dtype,
                    Ulp(18, 4, 1),
                    grad_tolerance=of_cotangent(8 * shape[axis]),
                )
        x = Operand(
            np.array([[0, -math.inf, 1], [1, 2, math.nan], [1, math.inf, 2], [1000, -1000, 999], [-math.inf] * 3]),
            dtype,
            grad=False,
        )
        cases.by_torch("softmax", [x], {}, lambda x: torch.softmax(x, -1), dtype, Ulp(18))
    x = cases.ints((2, 4), "i32")
    cases.by_torch("softmax", [x], {}, lambda x: torch.softmax(x.double(), -1), "f32", Ulp(18))


def norms(cases):
    for dtype in FLOATS:
        half = dtype in ("f16", "bf16")
        kept = "f32" if half else dtype  # statistics are not rounded to half precision
        for shape, axis in [((4, 6), -1), ((2, 3, 4), 1), ((5,), 0), ((3, 33), -1), ((2, 1), -1)]:
            offset = 0.0 if half else cases.choice([0.0, 10.0])
            x = Operand(cases.rng.normal(size=shape) * 2 + offset, dtype, cases.layout(shape))
            inner = shape[axis % len(shape) :]
            scale, shift = cases.floats(inner, dtype, 0.5, 2), cases.normals(inner, dtype)
            for epsilon in [1e-5, 0.1]:
                o = {"axis": axis} | ({} if epsilon == 1e-5 else {"epsilon": epsilon})
                wide = (1 + abs(offset)) * (
                    16 if inner == (1,) else 1
                )  # where the gradient is 0, torch's roundings are left
                cases.by_torch(
                    "layer_norm",
                    [x],
                    o,
                    lambda x: F.layer_norm(x, inner, eps=epsilon),
                    dtype,
                    Ulp(2, 16 * wide, 2),
                    grad_tolerance=at_least_one(64 * wide),
                )
                cases.by_torch(
                    "layer_norm",
                    [x, scale, shift],
                    o,
                    lambda x, s, b: F.layer_norm(x, inner, s, b, epsilon),
                    dtype,
                    Ulp(2, 16 * wide, largest),
                    grad_tolerance=at_least_one(64 * wide),
                )
        for shape, axis in [((6, 3), -1), ((4, 3, 5), 1), ((2, 3, 4, 2), -1), ((8, 1), 1)]:
            x = cases.normals(shape, dtype)
            n = shape[axis]
            scale, shift = cases.floats((n,), dtype, 0.5, 2), cases.normals((n,), dtype)
            mean, variance = cases.normals((n,), dtype), cases.floats((n,), dtype, 0.3, 2)
            rest = [i for i in range(len(shape)) if i != axis % len(shape)]
            along = [n if i == axis % len(shape) else 1 for i in range(len(shape))]

            def batch_norm(x, s, b):
                m, v = x.mean(rest), x.var(rest, correction=0)
                return [
                    (x - m.reshape(along)) / torch.sqrt(v.reshape(along) + 1e-5) * s.reshape(along) + b.reshape(along),
                    m,
                    v,
                ]

            cases.by_torch(
                "batch_norm",
                [x, scale, shift],
                {"axis": axis},
                batch_norm,
                [dtype, kept, kept],
                at_least_one(24),
                grad_tolerance=at_least_one(64),
            )
            cases.by_torch(
                "batch_norm_inference",
                [x, scale, shift, mean, variance],
                {"axis": axis, "epsilon": 1e-3},
                lambda x, s, b, m, v: (x - m.reshape(along)) / torch.sqrt(v.reshape(along) + 1e-3) * s.reshape(along)
                + b.reshape(along),
                dtype,
                Ulp(2, 8, largest),
                grad_tolerance=of_largest(32),
            )
        for shape, axis in [((4, 6), None), ((4, 6), 0), ((2, 3, 4), [0, 2])]:
            x = cases.normals(shape, dtype)
            a = list(range(len(shape))) if axis is None else [axis] if isinstance(axis, int) else axis
            for keepdims in [False, True]:
                o = ({} if axis is None else {"axis": axis}) | {"keepdims": keepdims}
                cases.by_torch(
                    "moments",
                    [x],
                    o,
                    lambda x: [x.mean(a, keepdim=keepdims), x.var(a, correction=0, keepdim=keepdims)],
                    dtype,
                    Ulp(2, 12, 2),
                )
        x = cases.normals((3, 4), dtype)
        for axis in [-1, 0]:
            cases.by_torch(
                "l2_normalize",
                [x],
                {"axis": axis},
                lambda x: x / torch.sqrt((x * x).sum(axis, keepdim=True)),
                dtype,
                Ulp(8, 4, 1),
                grad_tolerance=of_largest(32),
            )


def losses(cases):
    for dtype in FLOATS:
        for shape in [(5,), (4, 6), (2, 3, 7), (3, 40)]:
            for offset in [0.0, 1000.0]:
                logits = Operand(cases.rng.normal(size=shape) * 3 + offset, dtype, cases.layout(shape))
                labels = Operand(cases.rng.dirichlet(np.ones(shape[-1]), shape[:-1]), dtype, grad=False)
                o = Ulp(4, 16, 4)
                cases.by_torch(
                    "softmax_cross_entropy",
                    [logits, labels],
                    {},
                    lambda x, p: -(p * torch.log_softmax(x, -1)).sum(-1),
                    dtype,
                    o,
                    grad_tolerance=of_largest(32),
                )
                classes = cases.ints(shape[:-1], cases.choice(["i64", "i32", "u8"]), 0, shape[-1])
                cases.by_torch(
                    "sparse_softmax_cross_entropy",
                    [logits, classes],
                    {},
                    lambda x, c: -torch.gather(torch.log_softmax(x, -1), -1, c.long().unsqueeze(-1)).squeeze(-1),
                    dtype,
                    o,
                    grad_tolerance=of_largest(32),
                )
        a, b = cases.normals((3, 4), dtype), cases.normals((3, 4), dtype)
        share = cases.floats((3, 4), dtype, 0, 1)
        cases.by_torch(
            "sigmoid_cross_entropy",
            [a, share],
            {},
            lambda a, p: F.binary_cross_entropy_with_logits(a, p, reduction="none"),
            dtype,
            Ulp(8, 4, 2),
        )
        far = Operand(np.array([-100.0, 100.0, 30.0, -30.0]), dtype)
        label = Operand(np.array([0.0, 1.0, 0.0, 1.0]), dtype, grad=False)
        cases.by_torch(
            "sigmoid_cross_entropy",
            [far, label],
            {},
            lambda a, p: F.binary_cross_entropy_with_logits(a, p, reduction="none"),
            dtype,
            Ulp(8, 1, 1e-20),
        )
        cases.by_torch("mean_squared_error", [a, b], {}, F.mse_loss, dtype, Ulp(12))
        cases.by_torch("mean_absolute_error", [a, b], {}, F.l1_loss, dtype, Ulp(8))
        for delta in [1.0, 0.4]:
            cases.by_torch(
                "huber_loss",
                [a, b],
                {"delta": delta},
                lambda a, b: F.huber_loss(a, b, reduction="none", delta=delta),
                dtype,
                Ulp(6, 8, 4),
            )
        sign = Operand(cases.rng.choice([-1.0, 1.0], (3, 4)), dtype, grad=False)
        cases.by_torch("hinge_loss", [a, sign], {}, lambda a, s: torch.relu(1 - s * a), dtype, Ulp(2, 2, 2))
        p = Operand(cases.rng.dirichlet(np.ones(5), (3,)), dtype, grad=False)
        q = Operand(np.log(cases.rng.dirichlet(np.ones(5), (3,))), dtype)
        cases.by_torch(
            "kl_divergence", [p, q], {}, lambda p, q: F.kl_div(q, p, reduction="none").sum(-1), dtype, Ulp(4, 16, 4)
        )
        with_zero = Operand(np.array([0.0, 0.25, 0.75]), dtype, grad=False)
        q = Operand(np.log([0.2, 0.3, 0.5]), dtype)
        cases.by_torch(
            "kl_divergence",
            [with_zero, q],
            {},
            lambda p, q: F.kl_div(q, p, reduction="none").sum(-1),
            dtype,
            Ulp(4, 8, 2),
        )
        for axis in [-1, 0]:
            cases.by_torch(
                "cosine_similarity",
                [a, b],
                {"axis": axis},
                lambda a, b: (a * b).sum(axis) / a.norm(dim=axis) / b.norm(dim=axis),
                dtype,
                Ulp(4, 12, 1),
                grad_tolerance=of_largest(32),
            )
        for axis in [-1, 0]:
            x = cases.normals((4, 6), dtype)
            cases.by_torch("glu", [x], {"axis": axis}, lambda x: F.glu(x, axis), dtype, Ulp(6))
        for max_norm, axis in [(1.0, None), (100.0, None), (0.5, 1)]:
            x = cases.normals((3, 4), dtype)
            n = lambda x: x.norm() if axis is None else x.norm(dim=axis, keepdim=True)
            cases.by_torch(
                "clip_by_norm",
                [x],
                {"max_norm": max_norm} | ({} if axis is None else {"axis": axis}),
                lambda x: x * torch.clamp(max_norm / n(x), max=1),
                dtype,
                Ulp(8),
                grad_tolerance=of_largest(32),
            )
        low, high = -0.5, 0.75
        x = cases.normals((3, 4), dtype)
        while np.isin(x.wide, [low, high]).any():  # where either slope would do
            x = cases.normals((3, 4), dtype)
        cases.by_torch("clip_by_value", [x], {"low": low, "high": high}, lambda x: x.clamp(low, high), dtype, Ulp(0))
        x, y = cases.normals((3, 4), dtype), cases.normals((5,), dtype)
        norm = lambda x, y: torch.sqrt((x * x).sum() + (y * y).sum())
        cases.by_torch("global_norm", [x, y], {}, norm, dtype, Ulp(8))
        for most in [1.0, 100.0]:
            cases.by_torch(
                "clip_by_global_norm",
                [x, y],
                {"max_norm": most},
                lambda x, y: [
                    x * torch.clamp(most / norm(x, y), max=1),
                    y * torch.clamp(most / norm(x, y), max=1),
                    norm(x, y),
                ],
                dtype,
                Ulp(10),
                grad_tolerance=of_largest(32),
            )
        x = cases.normals((3, 4), dtype)
        cases.by_torch("dropout", [x], {"rate": 0.4}, lambda x: x * 1, dtype, EXACT)
        cases.by_torch("dropout", [x], {"rate": 0.0, "training": True}, lambda x: x * 1, dtype, EXACT)


# --- Attention ----------------------------------------------------------------------------------------------------------


def attend(q, k, v, causal=False, mask=None, scale=None):
    shared = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    k, v = (t.repeat_interleave(shared, -3) if q.ndim > 2 else t for t in (k, v))
    if causal:
        queries, keys = q.shape[-2], k.shape[-2]
        sees = torch.arange(keys)[None] <= torch.arange(queries)[:, None] + keys - queries
        mask = sees if mask is None else mask & sees if mask.dtype == torch.bool else mask.masked_fill(~sees, -math.inf)
    return (
        torch.nan_to_num(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale))
        if mask is not None
        else F.scaled_dot_product_attention(q, k, v, scale=scale)
    )


def attentions(cases):
    for dtype in FLOATS:
        near, slope = Ulp(4, 32, largest), of_largest(64)
        for q, k, e in [
            ((2, 2, 5, 4), (2, 2, 6, 4), 3),
            ((3, 4), (5, 4), 4),
            ((1, 4, 3, 8), (1, 2, 7, 8), 8),
            ((2, 1, 1, 4), (2, 1, 9, 4), 4),
            ((2, 17, 16), (2, 17, 16), 16),
        ]:
            x, y, z = cases.normals(q, dtype), cases.normals(k, dtype), cases.normals(k[:-1] + (e,), dtype)
            for causal in [False, True]:
                o = {"causal": True} if causal else {}
                cases.by_torch(
                    "attention",
                    [x, y, z],
                    o,
                    lambda q, k, v: attend(q, k, v, causal),
                    dtype,
                    near,
                    grad_tolerance=slope,
                )
            cases.by_torch(
                "attention",
                [x, y, z],
                {"scale": 0.3},
                lambda q, k, v: attend(q, k, v, scale=0.3),
                dtype,
                near,
                grad_tolerance=slope,
            )
            sees = cases.rng.random((q[-2], k[-2])) < 0.7
            sees[:, 0] = True
            mask = Operand(sees, "bool")
            cases.by_torch(
                "attention",
                [x, y, z, mask],
                {},
                lambda q, k, v, m: attend(q, k, v, mask=m),
                dtype,
                near,
                grad_tolerance=slope,
            )
            added = cases.normals((q[-2], k[-2]), dtype)
            for causal in [False, True]:
                cases.by_torch(
                    "attention",
                    [x, y, z, added],
                    {"causal": causal},
                    lambda q, k, v, m: attend(q, k, v, causal, mask=m),
                    dtype,
                    near,
                    grad_tolerance=slope,
                )
        x = cases.normals((2, 5, 3, 2, 4), dtype)
        for causal in [False, True]:

            def self_attend(x):
                q, k, v = x.movedim(-3, 0).swapaxes(-3, -2)
                return attend(q, k, v, causal).swapaxes(-3, -2)

            cases.by_torch("self_attention", [x], {"causal": causal}, self_attend, dtype, near, grad_tolerance=slope)
            cases.by_torch(
                "self_attention",
                [x],
                {"causal": causal, "scale": 0.25},
                lambda x: attend(*x.movedim(-3, 0).swapaxes(-3, -2), causal, scale=0.25).swapaxes(-3, -2),
                dtype,
                near,
                grad_tolerance=slope,
            )


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [softmaxes, norms, losses, attentions]:
            family(cases)
