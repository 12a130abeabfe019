"""Cases of layers and optimizers: what they give, and the path of a parameter under torch's optimizers."""

import math

import numpy as np
import torch

from judge import WIDE, Operand, Ulp, largest
from networks import attend

F = torch.nn.functional


# --- Layers -------------------------------------------------------------------------------------------------------------


def layers(cases):
    near = Ulp(4, 16, largest)

    def add(fn, operands, options, f, **more):
        for traced in [{}, {"trace": True}]:
            cases.by_torch(
                fn,
                [Operand(o.stored, o.dtype, o.layout, grad=False) for o in operands],
                options | traced,
                f,
                "f32",
                near,
                **more
            )

    x, k, b = cases.normals((5, 3)), cases.normals((3, 4)), cases.normals((4,))
    add("nn::Dense", [x, k, b], {}, lambda x, k, b: x @ k + b)
    add("nn::Dense", [x, k, b], {"relu": True}, lambda x, k, b: torch.relu(x @ k + b))
    k2, b2 = cases.normals((4, 2)), cases.normals((2,))
    add("nn::Sequential", [x, k, b, k2, b2], {}, lambda x, k, b, k2, b2: torch.relu(x @ k + b) @ k2 + b2)
    image, kernel, bias = cases.normals((2, 6, 5, 4)), cases.normals((3, 2, 2, 6)), cases.normals((6,))
    add(
        "nn::Conv2D",
        [image, kernel, bias],
        {"strides": [2], "padding": 1, "groups": 2},
        lambda x, k, b: F.conv2d(x.movedim(-1, 1), k.movedim(-1, 0).movedim(-1, 1), b, 2, 1, groups=2).movedim(1, -1),
    )
    add(
        "nn::MaxPool2D",
        [image],
        {"window": [2], "strides": [1]},
        lambda x: F.max_pool2d(x.movedim(-1, 1), 2, 1).movedim(1, -1),
    )
    add("nn::AvgPool2D", [image], {"window": [2, 3]}, lambda x: F.avg_pool2d(x.movedim(-1, 1), (2, 3)).movedim(1, -1))
    add("nn::Dropout", [image], {"rate": 0.5}, lambda x: x * 1)
    add("nn::Flatten", [image], {}, lambda x: x.flatten(1))
    scale, shift, mean, variance = (
        cases.normals((4,)),
        cases.normals((4,)),
        cases.normals((4,)),
        cases.floats((4,), "f32", 0.5, 2),
    )

    def trained(x, s, b, m, v):
        bm, bv = x.mean((0, 1, 2)), x.var((0, 1, 2), correction=0)
        return [(x - bm) / torch.sqrt(bv + 1e-3) * s + b, s * 1, b * 1, 0.9 * m + 0.1 * bm, 0.9 * v + 0.1 * bv]

    add(
        "nn::BatchNorm",
        [image, scale, shift, mean, variance],
        {},
        lambda x, s, b, m, v: (x - m) / torch.sqrt(v + 1e-3) * s + b,
    )
    add(
        "nn::BatchNorm",
        [image, scale, shift, mean, variance],
        {"training": True, "momentum": 0.9, "state": True},
        trained,
    )
    add("nn::LayerNorm", [image, scale, shift], {}, lambda x, s, b: F.layer_norm(x, (4,), s, b))
    table, ids = cases.normals((6, 3)), cases.ints((2, 4), "i64", 0, 6)
    add("nn::Embedding", [ids, table], {}, lambda i, t: t[i])
    words = cases.normals((2, 5, 6))
    p, pb, out, ob = cases.normals((6, 18)), cases.normals((18,)), cases.normals((6, 6)), cases.normals((6,))
    for causal in [False, True]:

        def heads(x, p, pb, out, ob):
            q, k, v = (x @ p + pb).reshape(2, 5, 3, 2, 3).movedim(2, 0).swapaxes(-3, -2)
            return attend(q, k, v, causal).swapaxes(-3, -2).reshape(2, 5, 6) @ out + ob

        add("nn::MultiHeadAttention", [words, p, pb, out, ob], {"heads": 2, "causal": causal}, heads)


# --- Optimizers ---------------------------------------------------------------------------------------------------------


def path(make, w, gradients, rates=None):
    """The parameter after each step of torch's optimizer."""
    w = torch.nn.Parameter(w.torch().clone())
    optimizer = make([w])
    out = []
    for i, g in enumerate(gradients.torch()):
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] if rates is None else rates[i]
        w.grad = g.clone()
        optimizer.step()
        out.append(w.detach().numpy().copy())
    return np.stack(out)


def optimizers(cases):
    plans = []
    for m in [0, 0.9]:
        for nesterov in [False, True][: 2 if m else 1]:
            for decay in [0, 0.1]:
                plans.append(
                    (
                        "nn::SGD",
                        {"momentum": m, "nesterov": nesterov, "weight_decay": decay},
                        lambda p, m=m, n=nesterov, d=decay: torch.optim.SGD(p, 0.05, m, nesterov=n, weight_decay=d),
                    )
                )
    for b1, b2, e in [(0.9, 0.999, 1e-8), (0.8, 0.95, 1e-3), (0.0, 0.9, 1e-8)]:
        plans.append(
            (
                "nn::Adam",
                {"beta1": b1, "beta2": b2, "epsilon": e},
                lambda p, b=(b1, b2), e=e: torch.optim.Adam(p, 0.05, b, e),
            )
        )
        for d in [0.0, 0.2]:
            plans.append(
                (
                    "nn::AdamW",
                    {"beta1": b1, "beta2": b2, "epsilon": e, "weight_decay": d},
                    lambda p, b=(b1, b2), e=e, d=d: torch.optim.AdamW(p, 0.05, b, e, d),
                )
            )
    for rho in [0.9, 0.5]:
        for m in [0, 0.7]:
            plans.append(
                (
                    "nn::RMSprop",
                    {"rho": rho, "momentum": m, "epsilon": 1e-6},
                    lambda p, r=rho, m=m: torch.optim.RMSprop(p, 0.05, r, 1e-6, momentum=m),
                )
            )
    for fn, options, make in plans:
        for dtype in ["f32", "f64"]:
            for traced in [{}, {"trace": True}]:
                w, g = cases.normals((3, 2), dtype, grad=False), cases.normals((7, 3, 2), dtype, grad=False)
                cases.add(
                    fn, [w, g], options | {"learning_rate": 0.05} | traced, path(make, w, g), dtype, Ulp(16, 16, 1)
                )
    schedules(cases)
    adam_updates(cases)


def schedules(cases):
    kinds = {
        "exponential": ([0.1, 4, 0.5], {}, lambda t: 0.1 * 0.5 ** (t / 4)),
        "cosine": (
            [0.1, 10, 0.1, 3],
            {},
            lambda t: (
                0.1 * t / 3 if t < 3 else 0.1 * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1, (t - 3) / (10 - 3)))))
            ),
        ),
        "piecewise": ([0.3, 0.2, 0.1], {"boundaries": [2, 5]}, lambda t: 0.3 if t < 2 else 0.2 if t < 5 else 0.1),
    }
    names = {
        "exponential": "nn::exponential_decay",
        "cosine": "nn::cosine_decay",
        "piecewise": "nn::piecewise_constant",
    }
    for kind, (numbers, more, rate) in kinds.items():
        o = {"schedule": numbers} | more
        for t in [0, 1, 2, 3, 4, 5, 9, 10, 15]:
            cases.add(
                names[kind], [Operand(np.array(t), "f64", grad=False)], o, np.array(rate(t)), "f64", Ulp(8, 8, 0.1)
            )
        for traced in [{}, {"trace": True}]:
            w, g = cases.normals((3,), "f64", grad=False), cases.normals((8, 3), "f64", grad=False)
            cases.add(
                "nn::SGD",
                [w, g],
                o | {"kind": kind} | traced,
                path(lambda p: torch.optim.SGD(p, 1.0), w, g, [rate(t) for t in range(8)]),
                "f64",
                Ulp(16, 16, 1),
            )


def adam_updates(cases):
    for dtype in ["f32", "f64"]:
        w, m, g = (cases.normals((4, 3), dtype, grad=False) for _ in range(3))
        v = cases.floats((4, 3), dtype, 0.1, 2, grad=False)
        rate, correction, decay = (Operand(np.array(n), dtype, grad=False) for n in (0.05, 1.5, 0.01))
        b1, b2, e = WIDE(0.9), WIDE(0.999), WIDE(1e-8)
        m1 = b1 * m.wide + (1 - b1) * g.wide
        v1 = b2 * v.wide + (1 - b2) * g.wide**2
        w1 = (1 - decay.wide) * w.wide - rate.wide * m1 / (np.sqrt(v1) * correction.wide + e)
        cases.add("adam_update", [w, m, v, g, rate, correction, decay], {}, [w1, m1, v1], dtype, Ulp(8, 4, 1))


def add_all(cases):
    with np.errstate(all="ignore"):
        for family in [layers, optimizers]:
            family(cases)
