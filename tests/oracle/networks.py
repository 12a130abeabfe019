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


# --- Positions, and activations with options ----------------------------------------------------------------------------


def turned_by_halves(x, at, base, n):
    """As transformers has it for Llama."""
    inv = base ** (-torch.arange(0, n, 2, dtype=torch.float64) / n)
    angles = torch.cat([at[..., None] * inv] * 2, -1)
    part, rest = x[..., :n], x[..., n:]
    rotated = torch.cat([-part[..., n // 2 :], part[..., : n // 2]], -1)
    return torch.cat([part * angles.cos() + rotated * angles.sin(), rest], -1)


def turned_as_complex(x, at, base, n):
    """RoFormer's pairs of neighbours as complex numbers."""
    part, rest = x[..., :n], x[..., n:]
    pairs = torch.complex(part[..., 0::2], part[..., 1::2])
    angles = at[..., None] * base ** (-torch.arange(0, n, 2, dtype=torch.float64) / n)
    y = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    return torch.cat([y, rest], -1)


def alibi_slopes(heads):
    """As the paper's code has it."""

    def of_power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return of_power(heads)
    near = 2 ** math.floor(math.log2(heads))
    return of_power(near) + alibi_slopes(2 * near)[0::2][: heads - near]


def t5_bucket(distance, buckets, most, both):
    """T5's, one by one."""
    b = 0
    if both:
        buckets //= 2
        b = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return b + distance
    far = exact + int(np.float32(math.log(distance / exact) / math.log(most / exact) * (buckets - exact)))
    return b + min(far, buckets - 1)


def positions(cases):
    for dtype in FLOATS:
        near, slope = Ulp(4, 16, largest), of_largest(16)
        for shape, n, base in [((2, 5, 8), 8, 1e4), ((3, 2, 4, 6), 4, 500.0), ((1, 2), 2, 1e4)]:
            x = cases.normals(shape, dtype)
            at = Operand(np.arange(shape[-2]) * 3 + 2, "i64")
            for interleaved in [False, True]:
                turn = turned_as_complex if interleaved else turned_by_halves
                o = {"base": base, "size": n, "interleaved": interleaved}
                cases.by_torch("rotary", [x, at], o, lambda x, at: turn(x, at, base, n), dtype, near, grad_tolerance=slope)
        x = cases.normals((4, 7), dtype)
        wide = np.asarray(x.wide)
        x = Operand(np.where(np.isin(wide, [-0.5, 0, 0.25, 1, 1.5]), 0.7, wide), dtype)  # not at a bound, where there is no slope
        for most, below, bound in [(None, 0.0, 0.0), (1.0, 0.0, 0.0), (1.5, 0.25, -0.5), (None, 0.5, 0.25)]:
            o = {"negative_slope": below, "threshold": bound} | ({} if most is None else {"max_value": most})

            def keras_relu(x):
                y = torch.where(x >= bound, x, below * (x - bound))
                return y if most is None else torch.where(x >= most, most, y)

            cases.by_torch("bounded_relu", [x], o, keras_relu, dtype, Ulp(1, 4), grad_tolerance=slope)
        for beta in [0.5, 3.0]:
            cases.by_torch("scaled_softplus", [x], {"beta": beta}, lambda x: F.softplus(x, beta, 1e3), dtype, Ulp(4, 8), grad_tolerance=slope)
    for heads, keys in [(8, 5), (4, 3), (6, 4), (12, 2), (1, 3)]:
        bias = np.array(alibi_slopes(heads))[:, None, None] * np.arange(keys)
        cases.add("alibi_bias", [], {"heads": heads, "keys": keys}, bias, "f32", Ulp(1, 4))
    for buckets, most, both in [(32, 128, True), (32, 128, False), (8, 20, True), (6, 50, False)]:
        d = cases.ints((6, 9), "i64", -160, 161)
        want = np.vectorize(lambda v: t5_bucket(int(v), buckets, most, both))(d.wide)
        cases.add("relative_buckets", [d], {"buckets": buckets, "max_distance": most, "bidirectional": both}, want, "i64")
    for width, base, mixed in [(6, 1e4, True), (5, 1e4, True), (6, 100.0, False), (1, 1e4, True)]:
        at = cases.ints((2, 4), "i64", 0, 300)
        angles = at.wide[..., None] * base ** (-2 * np.arange((width + 1) // 2) / width)
        sines, cosines = np.sin(angles), np.cos(angles)[..., : width // 2]
        want = np.concatenate([sines, cosines], -1)
        if mixed:
            order = [i // 2 + (i % 2) * sines.shape[-1] for i in range(width)]
            want = want[..., order]
        cases.add("sinusoids", [at], {"width": width, "base": base, "interleaved": mixed}, want, "f32", Ulp(1, 4, largest))


# --- Losses beside torch.nn's, by torch's functions and the papers' formulas (ops/likeness_losses.h) ---------------------


def reduced(losses, weights, how):
    y = losses if weights is None else losses * weights
    if how == "none":
        return y
    return y.sum() if how == "sum" else y.sum() / (y.numel() if weights is None else weights.expand_as(y).sum())


def focal(x, y, gamma, alpha):
    """torchvision.ops.sigmoid_focal_loss, as its source has it."""
    p = torch.sigmoid(x)
    loss = F.binary_cross_entropy_with_logits(x, y, reduction="none") * (1 - (p * y + (1 - p) * (1 - y))) ** gamma
    return loss if alpha is None else (alpha * y + (1 - alpha) * (1 - y)) * loss


def similar(a, b):
    unit = lambda t: t / t.square().sum(-1, keepdim=True).sqrt()
    return unit(a) @ unit(b).mT


def nt_xent(a, b, temperature):
    z = torch.cat([a, b])
    logits = (similar(z, z) / temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), -math.inf)
    n = len(a)
    return F.cross_entropy(logits, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]), reduction="none")


def divergence(p, q):
    return (p.exp() * (p - q)).sum(-1)


def more_losses(cases):
    for dtype in FLOATS:
        near, slope = Ulp(16, 64, largest), of_largest(128)
        x, y = cases.normals((3, 4), dtype), cases.normals((3, 4), dtype)
        labels = Operand(np.array([1, 3, 0]), "i64")
        bits = Operand((cases.rng.random((3, 4)) < 0.5) * 1.0, dtype, grad=False)
        signs = Operand(cases.rng.choice([-1.0, 1.0], (3, 4)), dtype, grad=False)
        hot = Operand(np.eye(4)[[1, 3, 0]], dtype, grad=False)
        shares, others = [Operand(cases.rng.uniform(0.1, 0.9, (3, 4)), dtype) for _ in range(2)]
        weights = Operand(np.array([0.5, 1.0, 2.0, 0.25]), dtype, grad=False)
        run = lambda fn, operands, o, f: cases.by_torch(fn, operands, o, f, dtype, near, grad_tolerance=slope)
        for how in ["none", "sum", "mean"]:
            run("reduce_loss", [x], {"reduction": how}, lambda x: reduced(x, None, how))
            run("reduce_loss", [x, weights], {"reduction": how}, lambda x, w: reduced(x, w, how))
            o = {"reduction": how, "ignored": 3, "smoothing": 0.2}
            of = lambda x, l, w=None: F.cross_entropy(x, l, w, ignore_index=3, reduction=how, label_smoothing=0.2)
            run("cross_entropy", [x, labels], o, of)
            run("cross_entropy", [x, labels, weights], o, of)
        for gamma, alpha in [(2.0, None), (1.5, 0.25)]:
            o = {"gamma": gamma} | ({} if alpha is None else {"alpha": alpha})
            run("sigmoid_focal_loss", [x, bits], o, lambda x, y: focal(x, y, gamma, alpha))
            of = lambda x, y: -((alpha or 1) * y * (1 - x.softmax(-1)) ** gamma * x.log_softmax(-1)).sum(-1)
            run("softmax_focal_loss", [x, hot], o, of)
        for axes in [[], [1]]:
            total = lambda t: t.sum(axes or None)
            run("dice_loss", [shares, bits], {"axis": axes, "smooth": 0.5}, lambda p, t: 1 - (2 * total(p * t) + 0.5) / (total(p) + total(t) + 0.5))

            def tversky(p, t):
                n = total(p * t)
                return 1 - (n + 0.5) / (n + 0.3 * total(p * (1 - t)) + 0.8 * total(t * (1 - p)) + 0.5)

            run("tversky_loss", [shares, bits], {"alpha": 0.3, "beta": 0.8, "axis": axes, "smooth": 0.5}, tversky)
        run("squared_hinge_loss", [x, signs], {}, lambda x, s: F.relu(1 - s * x) ** 2)
        of = lambda x, h: F.relu(1 + ((1 - h) * x).max(-1).values - (h * x).sum(-1))
        run("categorical_hinge_loss", [x, hot], {}, of)
        run("log_cosh_loss", [x, y], {}, lambda x, y: torch.logaddexp(x - y, y - x) - math.log(2))
        for q in [0.2, 0.5]:
            run("quantile_loss", [x, y], {"q": q}, lambda x, y: torch.maximum(q * (y - x), (q - 1) * (y - x)))
        run("percentage_error", [x, shares], {}, lambda x, t: 100 * ((t - x) / t).abs())
        run("squared_log_error", [shares, others], {}, lambda x, t: (t.log1p() - x.log1p()) ** 2)
        run("cosine_distance", [x, y], {}, lambda x, y: 1 - F.cosine_similarity(x, y))
        run("cosine_distance", [x, y], {"axis": 0}, lambda x, y: 1 - F.cosine_similarity(x, y, 0))
        of = lambda d, y: y * d**2 + (1 - y) * F.relu(0.6 - d) ** 2
        run("contrastive_loss", [shares, bits], {"margin": 0.6}, of)
        longer = cases.normals((5, 4), dtype)
        of = lambda a, b: F.cross_entropy(similar(a, b) / 0.2, torch.arange(3), reduction="none")
        run("info_nce_loss", [x, longer], {"temperature": 0.2}, of)
        run("nt_xent_loss", [x, y], {"temperature": 0.4}, lambda a, b: nt_xent(a, b, 0.4))
        run("kl_divergence_of_logs", [x, y], {}, divergence)
        run("symmetric_kl_divergence", [x, y], {}, lambda p, q: divergence(p, q) + divergence(q, p))


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [softmaxes, norms, losses, attentions, positions, more_losses]:
            family(cases)
