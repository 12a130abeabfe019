#!/usr/bin/env python3
"""Prints loss_numbers.h: losses and their gradients by torch, torchvision's formula, Keras and optax, in float64.

    python3 tests/nn/loss_numbers.py >tests/nn/loss_numbers.h      needs torch, optax and keras (with jax)
"""
import os

os.environ["KERAS_BACKEND"] = "jax"
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import keras
import numpy as np
import optax
import torch
import torch.nn.functional as F

keras.config.set_floatx("float64")
keras.config.set_epsilon(1e-30)  # rill's stands on both sides of the fraction, so that two empty masks agree
torch.set_default_dtype(torch.float64)


def waves(shape, speed, phase):
    """test_losses.cpp makes the same."""
    return np.sin(np.arange(np.prod(shape)) * speed + phase).reshape(shape)


X, Y = waves((4, 5), 1.7, 0.3), waves((4, 5), 2.3, 1.1)
LABELS, BITS = np.array([2, 0, 4, 1]), (waves((4, 5), 2.9, 0.2) > 0) * 1.0
P, T = 1 / (1 + np.exp(-2 * X)), 1 / (1 + np.exp(-2 * Y))
WEIGHTS = np.array([0.5, 1.0, 2.0, 0.25, 1.5])
ONE_HOT = np.eye(5)[LABELS]


def by_torch(f, x=X):
    x = torch.tensor(x, requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y.detach().numpy(), x.grad.numpy()


def by_jax(f, x=X):
    return np.asarray(f(jnp.array(x))), np.asarray(jax.grad(lambda v: jnp.sum(f(v)))(jnp.array(x)))


def t(x):
    return torch.tensor(x)


def torch_entropy(**options):
    return lambda x: F.cross_entropy(x, t(LABELS), **options)


def focal(alpha, gamma):
    """torchvision.ops.sigmoid_focal_loss, as its source has it."""

    def f(x):
        p, y = torch.sigmoid(x), t(BITS)
        loss = F.binary_cross_entropy_with_logits(x, y, reduction="none")
        loss = loss * (1 - (p * y + (1 - p) * (1 - y))) ** gamma
        return loss if alpha is None else (alpha * y + (1 - alpha) * (1 - y)) * loss

    return f


def info_nce(x):
    logits = F.normalize(x) @ F.normalize(t(Y)).T / 0.2
    return F.cross_entropy(logits, torch.arange(4), reduction="none")


def nt_xent(x):
    z = F.normalize(torch.cat([x, t(Y)]))
    logits = (z @ z.T / 0.4).masked_fill(torch.eye(8, dtype=torch.bool), -np.inf)
    return F.cross_entropy(logits, torch.cat([torch.arange(4, 8), torch.arange(4)]), reduction="none")


# Keras's alpha weighs what is missed, where the paper's (Salehi et al., 2017) and rill's weighs what is wrongly found.
# Its means are in float32 under JAX; those of percentages and logarithms are its formulas, in float64.
L = keras.losses
CASES = {
    "cross_entropy": by_torch(torch_entropy()),
    "cross_entropy none": by_torch(torch_entropy(reduction="none", weight=t(WEIGHTS), ignore_index=4)),
    "cross_entropy mean": by_torch(torch_entropy(weight=t(WEIGHTS), ignore_index=4)),
    "cross_entropy smooth": by_torch(torch_entropy(weight=t(WEIGHTS), ignore_index=0, label_smoothing=0.2)),
    "cross_entropy sum": by_torch(torch_entropy(weight=t(WEIGHTS), reduction="sum", label_smoothing=0.1)),
    "sigmoid_focal_loss": by_torch(focal(None, 2)),
    "sigmoid_focal_loss weighted": by_torch(focal(0.25, 1.5)),
    "softmax_focal_loss": by_jax(lambda x: L.categorical_focal_crossentropy(ONE_HOT, x, 0.3, 2.0, from_logits=True)),
    "dice_loss": by_jax(lambda x: L.dice(BITS, x), P),
    "dice_loss rows": by_jax(lambda x: L.dice(BITS, x, axis=1), P),
    "tversky_loss": by_jax(lambda x: L.tversky(BITS, x, 0.8, 0.3), P),
    "squared_hinge_loss": by_jax(lambda x: jnp.square(jnp.maximum(1 - (2 * BITS - 1) * x, 0))),
    "categorical_hinge_loss": by_jax(lambda x: L.categorical_hinge(ONE_HOT, x)),
    "log_cosh_loss": by_jax(lambda x: optax.log_cosh(x, Y)),
    "quantile_loss": by_torch(lambda x: torch.maximum(0.3 * (t(Y) - x), -0.7 * (t(Y) - x))),
    "percentage_error": by_jax(lambda x: 100 * jnp.abs((Y - x) / jnp.maximum(jnp.abs(Y), 1e-7))),
    "squared_log_error": by_jax(
        lambda x: jnp.square(jnp.log(jnp.maximum(x, 1e-7) + 1) - jnp.log(jnp.maximum(T, 1e-7) + 1)), P
    ),
    "cosine_distance": by_torch(lambda x: 1 - F.cosine_similarity(x, t(Y))),
    "contrastive_loss": by_torch(lambda x: t(BITS) * x**2 + (1 - t(BITS)) * F.relu(0.8 - x) ** 2, P),
    "info_nce_loss": by_torch(info_nce),
    "nt_xent_loss": by_torch(nt_xent),
    "kl_divergence_of_logs": by_torch(
        lambda x: F.kl_div(t(Y).log_softmax(-1), x.log_softmax(-1), reduction="none", log_target=True).sum(-1)
    ),
    "symmetric_kl_divergence": by_torch(
        lambda x: (
            F.kl_div(t(Y).log_softmax(-1), x.log_softmax(-1), reduction="none", log_target=True)
            + F.kl_div(x.log_softmax(-1), t(Y).log_softmax(-1), reduction="none", log_target=True)
        ).sum(-1)
    ),
}


def numbers(x):
    return "{" + ", ".join(repr(float(v)) for v in np.ravel(x)) + "}"


print("// Printed by loss_numbers.py from torch, Keras and optax: losses, and the gradients of their sums.")
print("// clang-format off\n#pragma once\n#include <map>\n#include <string>\n#include <vector>\n")
print("struct LossNumbers {\n  std::vector<double> loss, gradient;\n};")
print("inline const std::map<std::string, LossNumbers> loss_numbers = {")
for name, (loss, gradient) in CASES.items():
    print(f'    {{"{name}",\n     {{{numbers(loss)},\n      {numbers(gradient)}}}}},')
print("};\n// clang-format on")
