"""Cases of functional transforms, control flow and random draws: the programs of table_programs.cpp in torch; what
distributions say by scipy, whose counts and quantiles a draw of many must meet within six standard deviations."""

import math

import numpy as np
import scipy.stats
import torch

from judge import EXACT, Operand, Ulp, Within, at_least_one, largest

F = torch.nn.functional


def vector_program(x):
    return torch.tanh(x) * x.sum() + x**2 * x.flip(0)


def scalar_program(x):
    return (torch.exp(x * 0.3) * x.flip(0)).sum() + torch.cos(x).prod()


def transforms(cases):
    near, slope = Ulp(8, 16, largest), at_least_one(64)
    for dtype in ["f32", "f64"]:
        for n in [1, 4]:
            x, g = cases.normals((n,), dtype, layout=""), cases.normals((n,), dtype, layout="", grad=False)
            f, s = torch.func, scalar_program
            add = lambda fn, operands, t: cases.by_torch(fn, operands, {}, t, dtype, near, grad_tolerance=slope)
            add("grad", [x], f.grad(s))
            both = [at_least_one(16), near]  # the value is a sum whose terms, of about 1, may cancel
            cases.by_torch(
                "value_and_grad", [x], {}, lambda x: [s(x), f.grad(s)(x)], [dtype, dtype], both, grad_tolerance=slope
            )
            pushed = [near, at_least_one(16)]  # its terms may cancel, too
            for fn, t in [
                ("vjp", lambda x, g: [vector_program(x), f.vjp(vector_program, x)[1](g)[0]]),
                ("jvp", lambda x, g: list(f.jvp(vector_program, (x,), (g,)))),
                ("linearize", lambda x, g: list(f.jvp(vector_program, (x,), (g,)))),
            ]:
                cases.by_torch(fn, [x, g], {}, t, [dtype, dtype], pushed, grad_tolerance=slope)
            add("hvp", [x, g], lambda x, g: f.jvp(f.grad(s), (x,), (g,))[1])
            add("vhp", [x, g], lambda x, g: f.vjp(f.grad(s), x)[1](g)[0])
            add("jacrev", [x], f.jacrev(vector_program))
            add("jacfwd", [x], f.jacrev(vector_program))
            add("jacobian", [x], f.jacrev(vector_program))
            add("hessian", [x], f.jacrev(f.grad(s)))
            add("recompute", [x], vector_program)
            add("recompute_chain", [x], lambda x: torch.tanh(torch.sin(torch.tanh(x) * x.sum()) + x.flip(0)))
            add("named", [x], lambda x: torch.sin(x) * x)
            add("custom_gradient", [x], F.softplus)
            add("custom_jvp", [x], F.softplus)
            rows = cases.normals((3, n), dtype, layout="")
            add("vmap", [rows], f.vmap(vector_program))
            add("vmap of grad", [rows], f.vmap(f.grad(s)))
            add("batch_jacobian", [rows], f.vmap(f.jacrev(lambda r: torch.tanh(r) * r.sum() + r**2)))


def control_flow(cases):
    near, slope = Ulp(8, 16, largest), at_least_one(64)
    for dtype in ["f32", "f64"]:
        for offset in [-1.0, 1.0]:
            x, y = Operand(cases.rng.uniform(0.1, 2, (3,)) * offset, dtype), cases.normals((3,), dtype)
            cases.by_torch(
                "cond",
                [x, y],
                {},
                lambda x, y: torch.tanh(x) * y if x.sum() > 0 else x - y,
                dtype,
                near,
                grad_tolerance=slope,
            )
        for which in [-1, 0, 1, 2, 9]:
            at = Operand(np.array(which), "i64")
            f = [torch.sin, lambda x: x * x, lambda x: -x][which if 0 <= which < 3 else 2]
            cases.by_torch("switch_case", [x, at], {}, lambda x, i: f(x), dtype, near, grad_tolerance=slope)

        def loop(x):
            n = 0
            while x.abs().sum() > 0.5 and n < 20:
                x, n = torch.sin(x) * 0.7, n + 1
            return [x * 1, torch.tensor(n)]

        cases.by_torch("while_loop", [x], {}, loop, [dtype, "i64"], [near, EXACT], grad_tolerance=slope)
        for reverse in [False, True]:

            def scan(h, xs):
                ys = []
                for x in xs.flip(0) if reverse else xs:
                    h = torch.tanh(h * 0.5 + x)
                    ys.append(h * x)
                return [h, torch.stack(ys[::-1] if reverse else ys)]

            h, xs = cases.normals((2,), dtype), cases.normals((5, 2), dtype)
            cases.by_torch("scan", [h, xs], {"reverse": reverse}, scan, dtype, near, grad_tolerance=slope)


def composites(cases):
    """Programs of several functions and arguments, small enough for Hessians."""

    def mlp(x, w, v):
        return torch.tanh(x @ w) @ v

    def classifier(x, w, b, v, c):
        y = torch.log_softmax(F.softplus(x @ w + b) @ v + c, -1)
        return -(y * torch.eye(2)).sum() / 2

    def recurrent(h, x, w):
        gate, new = torch.sigmoid((torch.cat([h, x]) @ w)).reshape(2, 2)
        return (1 - gate) * h + gate * torch.tanh(new * x)

    def rosenbrock(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def log_density(x, mean, scale):
        z = (x - mean) / F.softplus(scale)
        return (-z * z / 2 - torch.log(F.softplus(scale))).sum(-1)

    def newton(x):
        y = torch.ones_like(x)
        for _ in range(5):
            y = (y + x / y) / 2
        return y

    def moves(x):
        return torch.cat([x.flip(0).cumsum(0), torch.sin(x.T).reshape(x.shape) * x[:1]]).reshape(-1)[::2]

    def distances(x, y):
        return torch.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))

    near, slope = Ulp(8, 32, largest), at_least_one(64)
    for dtype in ["f32", "f64"]:
        n = lambda *shape: cases.normals(shape, dtype)
        for fn, f, operands in [
            ("program mlp", mlp, [n(2, 2), n(2, 2), n(2, 1)]),
            ("program classifier", classifier, [n(2, 2), n(2, 2), n(2), n(2, 2), n(2)]),
            ("program recurrent", recurrent, [n(2), n(2), n(4, 4)]),
            ("program rosenbrock", rosenbrock, [n(5)]),
            ("program log_density", log_density, [n(3, 2), n(2), n(2)]),
            ("program newton", newton, [cases.floats((5,), dtype, 0.5, 3)]),
            ("program moves", moves, [n(2, 3)]),
            ("program distances", distances, [n(2, 2), n(3, 2)]),
        ]:
            cases.by_torch(fn, operands, {}, f, dtype, near, grad_tolerance=slope)


# --- Random draws -------------------------------------------------------------------------------------------------------

DRAWS, SIGMAS, SHARES = 10000, 6.0, [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]


def quantiles(cases, fn, options, distribution, slack=0.0):
    """Quantiles and the mean of many draws; `slack` allows for the rounding of a coarse dtype."""
    q = np.array(SHARES)
    want = distribution.ppf(q)
    off = SIGMAS * np.sqrt(q * (1 - q) / DRAWS) / distribution.pdf(want) + slack
    mean = SIGMAS * distribution.std() / math.sqrt(DRAWS) + slack
    o = {
        "shape": [DRAWS // 100, 100],
        "q": SHARES,
        "key": int(cases.rng.integers(1, 10**6)),
        "kind": fn.removeprefix("random::"),
    } | options
    cases.add(fn, [], o, [want, np.array(distribution.mean())], "f64", [Within(off), Within(mean)])


def counts(cases, fn, operands, options, shares):
    shares = np.array(shares)
    o = {
        "shape": [DRAWS],
        "length": len(shares),
        "key": int(cases.rng.integers(1, 10**6)),
        "kind": fn.removeprefix("random::"),
    } | options
    want = np.round(shares * DRAWS)
    # If almost none are expected, a count is not normal: the bound is then as unlikely as six sigmas.
    most = scipy.stats.binom.isf(scipy.stats.norm.sf(SIGMAS), DRAWS, shares)
    off = np.maximum(SIGMAS * np.sqrt(shares * (1 - shares) * DRAWS) + 1, most - want)
    cases.add(fn, operands, o, want, "i64", Within(off))


def draws(cases):
    d = scipy.stats
    for dtype, slack in [("f32", 0), ("f64", 0), ("f16", 4e-3), ("bf16", 3e-2)]:
        quantiles(cases, "random::uniform", {"dtype": dtype}, d.uniform(), slack)
        quantiles(cases, "random::uniform", {"dtype": dtype, "low": -3.0, "high": 5.0}, d.uniform(-3, 8), 8 * slack)
        quantiles(cases, "random::normal", {"dtype": dtype}, d.norm(), 3 * slack)
        quantiles(cases, "random::normal", {"dtype": dtype, "mean": -1.5, "stddev": 0.5}, d.norm(-1.5, 0.5), 3 * slack)
        if slack:
            continue
        quantiles(cases, "random::truncated_normal", {"dtype": dtype}, d.truncnorm(-2, 2))
        quantiles(
            cases,
            "random::truncated_normal",
            {"dtype": dtype, "low": 0.5, "high": 3.0, "mean": 1.0, "stddev": 2.0},
            d.truncnorm(0.5, 3, 1, 2),
        )
        quantiles(cases, "random::exponential", {"dtype": dtype}, d.expon())
        quantiles(cases, "random::gumbel", {"dtype": dtype}, d.gumbel_r())
        quantiles(cases, "random::laplace", {"dtype": dtype}, d.laplace())
    for dtype in ["i32", "i64", "u8", "i8"]:
        counts(cases, "random::randint", [], {"low": 0, "high": 7, "dtype": dtype}, [1 / 7] * 7)
    for p in [0.0, 0.25, 0.9, 1.0]:
        counts(cases, "random::bernoulli", [Operand(np.array(p), "f64", grad=False)], {}, [1 - p, p])
    logits = np.array([0.5, -1, 2, 0])
    counts(
        cases,
        "random::categorical",
        [Operand(logits, "f64", grad=False)],
        {"length": 4},
        np.exp(logits) / np.exp(logits).sum(),
    )
    four = Operand(np.arange(4), "i64")
    counts(cases, "random::choice", [four], {}, [0.25] * 4)
    counts(
        cases,
        "random::choice",
        [four, Operand(np.array([0.1, 0.2, 0.3, 0.4]), "f64", grad=False)],
        {},
        [0.1, 0.2, 0.3, 0.4],
    )
    cases.add(
        "random::choice",
        [Operand(np.arange(50), "i64")],
        {"kind": "choice", "shape": [50], "replace": False, "length": 50},
        np.ones(50),
        "i64",
    )
    cases.add("random::permutation", [], {"kind": "permutation", "n": 37, "key": 5}, np.arange(37), "i64")
    cases.normals((9, 4), grad=False)
    for axis in [0, 1]:
        rows = Operand(np.sort(np.tile(np.arange(5.0), (5, 1)), axis), "f32", grad=False)
        cases.add(
            "random::shuffle", [rows], {"kind": "shuffle", "axis": axis, "key": 3}, np.sort(rows.wide, axis), "f32"
        )


def initializers(cases):
    d = scipy.stats
    for shape in [[200, 300], [3, 3, 40, 50]]:
        inner, outer = np.prod(shape[:-1]), np.prod(shape[:-2]) * shape[-1]
        uniform, normal = lambda v: d.uniform(-math.sqrt(3 * v), 2 * math.sqrt(3 * v)), lambda v: d.norm(
            0, math.sqrt(v)
        )
        for fn, distribution in [
            ("glorot_uniform", uniform(2 / (inner + outer))),
            ("glorot_normal", normal(2 / (inner + outer))),
            ("he_uniform", uniform(2 / inner)),
            ("he_normal", normal(2 / inner)),
            ("lecun_uniform", uniform(1 / inner)),
            ("lecun_normal", normal(1 / inner)),
            ("uniform", d.uniform(-0.5, 2)),
            ("normal", d.norm(1, 2)),
        ]:
            quantiles(cases, "nn::" + fn, {"shape": shape}, distribution)
    cases.add("nn::constant", [], {"value": 2.5, "shape": [2, 3]}, np.full((2, 3), 2.5), "f32")


# --- Philox4x32-10 (Salmon et al.: Parallel random numbers: as easy as 1, 2, 3, 2011), written from the paper --------------


def philox(counter, key):
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def words(seed, draw, n):
    """The key is the seed; a counter is a block's number and the draw, 64 bits each."""
    out = []
    for i in range(-(-n // 4)):
        out += philox([i & 0xFFFFFFFF, i >> 32, draw & 0xFFFFFFFF, draw >> 32], [seed & 0xFFFFFFFF, seed >> 32])
    return np.array(out[:n], np.uint32)


def bits(cases):
    assert philox([0] * 4, [0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # the authors' own test vector
    for seed in [0, 1, 12345, int(cases.rng.integers(2**62))]:
        cases.add(
            "random::bits", [], {"shape": [3, 7], "key": seed, "kind": "bits"}, words(seed, 0, 21).reshape(3, 7), "u32"
        )
        for fn in ["random::seed", "random::generator"]:
            cases.add(fn, [], {"shape": [10], "key": seed}, words(seed, 0, 10), "u32")


# --- Sizes -------------------------------------------------------------------------------------------------------------


def sizes(cases):
    for axis in [0, 1, -1]:
        cases.add("size_of", [cases.normals((3, 0, 2), grad=False)], {"axis": axis}, [3, 0, 2][axis], "i64")


def add_all(cases):
    for family in [transforms, control_flow, composites, draws, initializers, bits, sizes]:
        family(cases)
