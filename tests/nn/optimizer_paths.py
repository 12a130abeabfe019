#!/usr/bin/env python3
"""Prints optimizer_paths.h: where torch's, Keras's and optax's optimizers lead a parameter, step by step, in float64.

    python3 tests/nn/optimizer_paths.py >tests/nn/optimizer_paths.h      needs torch, optax and keras (with any backend)

The gradients do not depend on the parameter, so that an error in one step cannot hide in the next.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
import optax
import torch

torch.set_default_dtype(torch.float64)  # of what optimizers remember as scalars
STEPS = 7
START = np.array([[0.5, -1.25, 2.0], [-0.75, 1.5, 0.25]])
GRADIENTS = np.stack([np.sin(np.arange(6).reshape(2, 3) * 1.7 + i * 0.9) * (1 + i % 3) / 2 for i in range(STEPS)])


def by_torch(make, transposed=False):
    turn = (lambda a: a.T) if transposed else (lambda a: a)
    w = torch.nn.Parameter(torch.tensor(turn(START).copy()))
    optimizer, path = make([w]), []
    for g in GRADIENTS:
        w.grad = torch.tensor(turn(g).copy())
        optimizer.step()
        path.append(turn(w.detach().numpy().copy()))
    return path


def by_optax(rule):
    w, path = jnp.array(START), []
    state = rule.init(w)
    for g in GRADIENTS:
        change, state = rule.update(jnp.array(g), state, w)
        w = optax.apply_updates(w, change)
        path.append(np.array(w))
    return path


def by_keras(make):
    import keras

    keras.config.set_floatx("float64")
    w = keras.Variable(START, dtype="float64")
    optimizer, path = make(keras.optimizers), []
    for g in GRADIENTS:
        optimizer.apply([keras.ops.convert_to_tensor(g)], [w])
        path.append(np.array(w))
    return path


def muon(**options):
    """torch's Muon, whose iteration is in bfloat16, in float64. Its matrices are [out, in]."""
    bfloat16, torch.bfloat16 = torch.bfloat16, torch.float64
    try:
        return by_torch(lambda p: torch.optim.Muon(p, **options), transposed=True)
    finally:
        torch.bfloat16 = bfloat16


def lookahead():
    """torch's Adam, and every 3 steps the way back by half, as Zhang et al. write it."""
    w = torch.nn.Parameter(torch.tensor(START.copy()))
    optimizer, path, slow = torch.optim.Adam([w], 0.05), [], torch.tensor(START.copy())
    for i, g in enumerate(GRADIENTS):
        w.grad = torch.tensor(g.copy())
        optimizer.step()
        if (i + 1) % 3 == 0:
            slow = slow + 0.5 * (w.detach() - slow)
            w.data.copy_(slow)
        path.append(w.detach().numpy().copy())
    return path


def accumulated():
    w = torch.nn.Parameter(torch.tensor(START.copy()))
    optimizer, path = torch.optim.Adam([w], 0.05), []
    for i, g in enumerate(GRADIENTS):
        total = torch.tensor(g.copy()) if i % 3 == 0 else total + torch.tensor(g.copy())
        if i % 3 == 2:
            w.grad = total / 3 * min(1, 0.5 / (total / 3).norm())
            optimizer.step()
        path.append(w.detach().numpy().copy())
    return path


T = torch.optim
PATHS = {
    "SGD": lambda: by_torch(lambda p: T.SGD(p, 0.05, 0.9, weight_decay=0.1, nesterov=True)),
    "ASGD": lambda: by_torch(lambda p: T.ASGD(p, 0.05, lambd=0.02, alpha=0.7, t0=3)),
    "Rprop": lambda: by_torch(lambda p: T.Rprop(p, 0.05, (0.4, 1.3), (0.03, 0.2))),
    "Adam": lambda: by_torch(lambda p: T.Adam(p, 0.05, weight_decay=0.1)),
    "Adam amsgrad": lambda: by_torch(lambda p: T.Adam(p, 0.05, (0.8, 0.9), amsgrad=True)),
    "AdamW": lambda: by_torch(lambda p: T.AdamW(p, 0.05, weight_decay=0.1)),
    "AdamW amsgrad": lambda: by_torch(lambda p: T.AdamW(p, 0.05, (0.8, 0.9), weight_decay=0.1, amsgrad=True)),
    "Adamax": lambda: by_torch(lambda p: T.Adamax(p, 0.05, (0.8, 0.9))),
    "NAdam": lambda: by_torch(lambda p: T.NAdam(p, 0.05, (0.8, 0.9))),
    "RAdam": lambda: by_torch(lambda p: T.RAdam(p, 0.05, (0.8, 0.9))),
    "RMSprop centred": lambda: by_torch(lambda p: T.RMSprop(p, 0.05, 0.8, 1e-6, momentum=0.7, centered=True)),
    "Adagrad": lambda: by_torch(lambda p: T.Adagrad(p, 0.05, initial_accumulator_value=0.1)),
    "Adadelta": lambda: by_torch(lambda p: T.Adadelta(p, 0.5, 0.8)),
    "Adafactor": lambda: by_torch(lambda p: T.Adafactor(p, 0.05, weight_decay=0.1, d=1.2)),
    "Muon": lambda: muon(lr=0.05, weight_decay=0.1, momentum=0.9),
    "Lion": lambda: by_optax(optax.lion(0.05, 0.8, 0.9, weight_decay=0.1)),
    "LAMB": lambda: by_optax(optax.lamb(0.05, 0.8, 0.9, weight_decay=0.1)),
    "LARS": lambda: by_optax(optax.lars(0.05, 0.1, trust_coefficient=0.3, momentum=0.9)),
    "FTRL": lambda: by_keras(
        lambda k: k.Ftrl(
            0.5,
            initial_accumulator_value=0.2,
            l1_regularization_strength=0.05,
            l2_regularization_strength=0.02,
            l2_shrinkage_regularization_strength=0.03,
            beta=0.1,
        )
    ),
    "Lookahead": lookahead,
    "accumulated": accumulated,
}


def rosenbrock(**options):
    """The parameters after each of LBFGS's calls, from (-1.2, 1)."""
    w = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
    optimizer, path = torch.optim.LBFGS([w], **options), []

    def loss():
        optimizer.zero_grad()
        value = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
        value.backward()
        return value

    for _ in range(5):
        optimizer.step(loss)
        path.append(w.detach().numpy().copy())
    return path


def schedules():
    """The rates at steps 0 to 24."""
    L, result = torch.optim.lr_scheduler, {}

    def by(name, make, base=0.5):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], base, momentum=0.9)
        schedule, rates = make(optimizer), []
        for _ in range(24):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        result[name] = rates

    by("step_decay", lambda o: L.StepLR(o, 5, 0.3))
    by("multi_step_decay", lambda o: L.MultiStepLR(o, [4, 9, 15], 0.3))
    by("polynomial_decay", lambda o: L.PolynomialLR(o, 20, 2.5))
    by("cosine_restarts", lambda o: L.CosineAnnealingWarmRestarts(o, 5, eta_min=0.05))
    by("cosine_restarts doubled", lambda o: L.CosineAnnealingWarmRestarts(o, 3, 2))
    by("one_cycle", lambda o: L.OneCycleLR(o, 0.5, 24, pct_start=0.3))
    by("one_cycle lines", lambda o: L.OneCycleLR(o, 0.5, 24, pct_start=0.4, anneal_strategy="linear"))
    by("cyclic", lambda o: L.CyclicLR(o, 0.1, 0.5, 4, 3))
    by("cyclic halved", lambda o: L.CyclicLR(o, 0.1, 0.5, 4, mode="triangular2"))
    by("cyclic falling", lambda o: L.CyclicLR(o, 0.1, 0.5, 4, mode="exp_range", gamma=0.95))
    steps = np.arange(24)
    of = lambda rule: [float(rule(i)) for i in steps]
    result["joined"] = of(
        optax.join_schedules([optax.cosine_decay_schedule(0.5, 10), optax.polynomial_schedule(0.2, 0.1, 1, 6)], [8])
    )
    result["warmed_up"] = of(
        optax.join_schedules([optax.linear_schedule(0, 0.5, 6), optax.cosine_decay_schedule(0.5, 12)], [6])
    )
    result["warmup_stable_decay"] = of(
        optax.join_schedules(
            [optax.linear_schedule(0, 0.5, 4), optax.constant_schedule(0.5), optax.linear_schedule(0.5, 0.1, 8)], [4, 12]
        )
    )
    result["inverse_time_decay"] = [0.5 / (1 + 0.7 * i / 4) for i in steps]
    result["noam"] = [2 * 512**-0.5 * min((i + 1) ** -0.5, (i + 1) * 8**-1.5) for i in steps]
    metrics = [3, 2, 1.5, 1.5, 1.6, 1.55, 1.7, 1.2, 1.3, 1.3, 1.3, 1.3, 1.4, 1.3, 1.25, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.5)
    schedule, rates = L.ReduceLROnPlateau(optimizer, factor=0.3, patience=2, cooldown=1, min_lr=0.02), []
    for m in metrics:
        schedule.step(m)
        rates.append(optimizer.param_groups[0]["lr"])
    result["Plateau"] = rates
    return result


def table(name, paths):
    print(f"\ninline const std::map<std::string, std::vector<double>> {name} = {{")
    for key, path in paths.items():
        numbers = ", ".join(repr(float(x)) for x in np.ravel(path))
        print(f'    {{"{key}",\n     {{{numbers}}}}},')
    print("};")


def main():
    print("// Printed by optimizer_paths.py from torch, optax and Keras: the paths of parameters, the rates of schedules.")
    print("// clang-format off\n#pragma once\n#include <map>\n#include <string>\n#include <vector>")
    table("optimizer_paths", {name: make() for name, make in PATHS.items()})
    table(
        "lbfgs_paths",
        {
            "strong Wolfe": rosenbrock(max_iter=6, line_search_fn="strong_wolfe"),
            "plain": rosenbrock(lr=0.01, max_iter=6, history_size=3),
        },
    )
    table("rates", schedules())
    print("// clang-format on")


main()
