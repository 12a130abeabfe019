"""torch.nn.functional's activations, normalisations, losses and tables beyond those of networks.py (ops/nn_ops.h,
losses.h): values and gradients by torch in float64.
"""

import itertools
import math

import numpy as np
import torch
from judge import EQUAL, EXACT, FLOATS, WIDE, Operand, Ulp, at_least_one, of_largest

F = torch.nn.functional


def confirmed(composed, whole):
    """`composed`, whose derivatives of any order torch knows, where torch's own function `whole` gives the same."""

    def of(*x):
        y = composed(*x)
        if not torch._C._functorch.is_functorch_wrapped_tensor(y):
            with torch.no_grad():
                other = whole(*[t.detach() for t in x])
            assert torch.allclose(y.detach(), other, rtol=1e-9, atol=1e-12), (y, other)
        return y

    return of


def multi_margin(x, labels, p, margin, weights=None):
    right = F.one_hot(labels.long(), x.shape[-1]).bool()
    cost = torch.relu(margin - x.gather(-1, labels.long().unsqueeze(-1)) + x) ** p
    cost = torch.where(right, 0, cost).sum(-1) / x.shape[-1]
    return cost if weights is None else cost * weights[labels.long()]


def multilabel_margin(x, labels):
    counts = (labels < 0).long().cumsum(-1) == 0
    classes = torch.where(counts, labels, 0)
    is_label = (F.one_hot(classes, x.shape[-1]) * counts.unsqueeze(-1)).sum(-2).bool()
    cost = torch.relu(1 - x.gather(-1, classes).unsqueeze(-1) + x.unsqueeze(-2))
    return torch.where(counts.unsqueeze(-1) & ~is_label.unsqueeze(-2), cost, 0).sum((-2, -1)) / x.shape[-1]


def alignments(x, labels, steps, lengths, blank, zero):
    """ctc_loss of logits by its definition: the sum over all sequences of classes that become the labels."""
    x, out = torch.log_softmax(x, -1), []
    for b in range(x.shape[1]):
        wanted = labels[b, : int(lengths[b])].tolist()
        sums = []
        for path in itertools.product(range(x.shape[2]), repeat=int(steps[b])):
            kept = [c for i, c in enumerate(path) if (i == 0 or c != path[i - 1]) and c != blank]
            if kept == wanted:
                sums.append(sum(x[t, b, c] for t, c in enumerate(path)))
        none = x.new_full((), 0.0 if zero else math.inf)
        out.append(-torch.logsumexp(torch.stack(sums), 0) if sums else none)
    return torch.stack(out)


def bags(table, ids, mode, padding, weights=None):
    """embedding_bag of bags of ids, lists or rows."""
    out = []
    for i, bag in enumerate(ids):
        kept = [k for k, row in enumerate(bag.tolist()) if row != padding]
        rows = table[bag.long()[kept]]
        if weights is not None:
            rows = rows * weights[i, kept].unsqueeze(-1)
        empty = table[0] * 0
        out.append(empty if not kept else rows.sum(0) if mode == "sum" else rows.mean(0) if mode == "mean" else rows.amax(0))
    return torch.stack(out)


# The power series of x - tanh(x): powers, and the coefficients' numerators and denominators.
TANH = [
    (3, WIDE(1), 3), (5, WIDE(-2), 15), (7, WIDE(17), 315), (9, WIDE(-62), 2835), (11, WIDE(1382), 155925),
    (13, WIDE(-21844), 6081075), (15, WIDE(929569), 638512875), (17, WIDE(-6404582), 10854718875),
]  # fmt: skip


def sparsemax(x, axis):
    """The nearest point of the simplex, by bisection for the bound: 60 halvings of [max - 1, max], then the exact one of
    those above it, which is differentiated."""
    still = x.detach()
    low, high = still.amax(axis, True) - 1, still.amax(axis, True)
    for _ in range(60):
        middle = (low + high) / 2
        more = (still - middle).clamp(min=0).sum(axis, True) > 1
        low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    member = still > low
    bound = (torch.where(member, x, 0 * x).sum(axis, True) - 1) / member.sum(axis, True)
    return torch.where(member, x - bound, 0 * x)


def activations(cases):
    for dtype in FLOATS:
        x = cases.normals((3, 4), dtype)
        edges = Operand(np.array([-math.inf, -1e4, -0.5, -0.0, 0.5, 1e4, math.inf, math.nan]), dtype, grad=False)
        for fn, torch_fn, option in [
            ("hard_shrink", F.hardshrink, "lambda"),
            ("soft_shrink", F.softshrink, "lambda"),
        ]:
            for amount in [0.5, 0.1, 0.0]:
                of = lambda x, f=torch_fn, a=amount: f(x, a)
                o = {} if amount == 0.5 else {option: amount}
                cases.by_torch(fn, [x], o, of, dtype, Ulp(1, 2, amount))
            cases.by_torch(fn, [edges], {}, torch_fn, dtype, EQUAL)
        for bound, value in [(0.0, 0.0), (0.5, -2.0)]:
            of = lambda x, b=bound, v=value: F.threshold(x, b, v)
            cases.by_torch("threshold", [x], {"bound": bound, "value": value}, of, dtype, EQUAL)
            cases.by_torch("threshold", [edges], {"bound": bound, "value": value}, of, dtype, EQUAL)
        wide = cases.floats((4, 5), dtype, -4, 4)
        for b in [4.0, 0.5]:
            of = lambda x, b=b: torch.where(x < 0, b / 2 / (torch.sqrt(x * x + b) - x), (x + torch.sqrt(x * x + b)) / 2)
            cases.by_torch("squareplus", [wide], {} if b == 4 else {"b": b}, of, dtype, Ulp(8), grad_tolerance=Ulp(16))
        of = lambda x: torch.where(x >= 1, x, torch.where(x <= -1, torch.zeros_like(x), (x + 1) ** 2 / 4))
        cases.by_torch("sparse_plus", [wide], {}, of, dtype, Ulp(4), grad_tolerance=at_least_one(8))
        cases.by_torch("sparse_sigmoid", [wide], {}, lambda x: torch.clip((x + 1) / 2, 0, 1), dtype, Ulp(2))
        for axis in [-1, 0]:
            of = lambda x, a=axis: sparsemax(x, a)
            cases.by_torch("sparsemax", [wide], {"axis": axis}, of, dtype, at_least_one(16), grad_tolerance=at_least_one(32))
        exact = lambda x: x - torch.tanh(x)
        cases.by_torch("tanh_shrink", [wide], {}, exact, dtype, Ulp(8, 8, 0.1) if dtype == "f64" else Ulp(8))
        cases.by_torch("tanh_shrink", [Operand(np.array([-30.0, 30.0, -1.0, 1.0, 0.999]), dtype)], {}, exact, dtype, Ulp(8))
        small = Operand(np.array([1e-3, -1e-2, 0.1]), dtype, grad=False)
        cases.add("tanh_shrink", [small], {}, sum(n * small.wide**k / d for k, n, d in TANH), dtype, Ulp(8))
        for shape in [(), (4,), (3, 4), (3, 1)]:
            slope = cases.floats(shape, dtype, 0.1, 0.6)
            of = lambda x, s: torch.where(x > 0, x, s * x)
            cases.by_torch("prelu", [x, slope], {}, of, dtype, Ulp(2), grad_tolerance=at_least_one(24))
        of = lambda x: F.rrelu(x, 0.1, 0.4, training=False)
        cases.by_torch("rrelu", [x], {"lower": 0.1, "upper": 0.4, "training": False}, of, dtype, Ulp(4))
        for axis in [-1, 0]:
            of = lambda x, a=axis: F.softmin(x, a)
            cases.by_torch("softmin", [x], {"axis": axis}, of, dtype, Ulp(24), grad_tolerance=at_least_one(16))
        sure = Operand(1000 * np.eye(4)[[2, 0, 3]], dtype, grad=False)
        for hard in [False, True]:
            cases.add("gumbel_softmax", [sure], {"hard": hard}, np.eye(4)[[2, 0, 3]], dtype, EXACT if hard else Ulp(2, 1, 1e-9))
        for fn in ["channel_dropout", "alpha_dropout"]:
            cases.by_torch(fn, [x], {"rate": 0.5, "training": False}, lambda x: x * 1, dtype, EXACT)
            cases.by_torch(fn, [x], {"rate": 0.0, "training": True}, lambda x: x * 1, dtype, EXACT)
    x = cases.ints((3, 4), "i32")
    cases.by_torch("hard_shrink", [x], {}, lambda x: F.hardshrink(x.double()), "f32", EQUAL)
    cases.by_torch("softmin", [x], {}, lambda x: F.softmin(x.double(), -1), "f32", Ulp(24))


def norms(cases):
    for dtype in FLOATS:
        for shape, axis in [((4, 6), -1), ((2, 3, 4), 1), ((5,), 0), ((3, 33), -1)]:
            x = cases.normals(shape, dtype)
            inner = shape[axis % len(shape) :]
            scale = cases.floats(inner, dtype, 0.5, 2)
            for epsilon in [1e-5, 0.1]:
                o = {"axis": axis, "epsilon": epsilon}
                of = lambda x, e=epsilon: F.rms_norm(x, inner, eps=e)
                cases.by_torch("rms_norm", [x], o, of, dtype, Ulp(4, 4, 1), grad_tolerance=at_least_one(64))
                of = lambda x, s, e=epsilon: F.rms_norm(x, inner, s, e)
                cases.by_torch("rms_norm", [x, scale], o, of, dtype, Ulp(4, 4, 1), grad_tolerance=at_least_one(64))
        for shape, axis, groups in [((2, 3, 4), -1, 2), ((3, 6, 2, 2), 1, 3), ((2, 5, 4), -1, 1), ((4, 6), -1, 2), ((2, 2, 3, 3, 4), -1, 2)]:
            x = cases.normals(shape, dtype)
            channels = shape[axis]
            if shape == (4, 6):  # groups of three, which must not happen to be nearly equal
                x = Operand(0.3 * np.tanh(x.wide) + np.arange(channels), dtype)
            scale, offset = cases.floats((channels,), dtype, 0.5, 2), cases.normals((channels,), dtype)
            near, slope = at_least_one(24), at_least_one(96)
            along = lambda f, axis=axis: lambda x, *more: f(x.movedim(axis, 1), *more).movedim(1, axis)
            for epsilon in [1e-5, 0.1]:
                o = {"axis": axis, "epsilon": epsilon, "groups": groups}
                of = along(lambda x, e=epsilon, g=groups: F.group_norm(x, g, eps=e))
                cases.by_torch("group_norm", [x], o, of, dtype, near, grad_tolerance=slope)
                of = along(lambda x, s, b, e=epsilon, g=groups: F.group_norm(x, g, s, b, e))
                cases.by_torch("group_norm", [x, scale, offset], o, of, dtype, near, grad_tolerance=slope)
            if len(shape) > 2:
                o = {"axis": axis, "epsilon": 1e-3}
                of = along(lambda x: F.instance_norm(x, eps=1e-3))
                cases.by_torch("instance_norm", [x], o, of, dtype, near, grad_tolerance=slope)
                of = along(lambda x, s, b: F.instance_norm(x, weight=s, bias=b, eps=1e-3))
                cases.by_torch("instance_norm", [x, scale, offset], o, of, dtype, near, grad_tolerance=slope)
                for size, alpha, k in [(5, 1e-4, 1.0), (2, 0.5, 2.0), (3, 1.0, 1.0)]:
                    o = {"axis": axis, "size": size, "alpha": alpha, "beta": 0.6, "k": k}
                    of = along(lambda x, n=size, a=alpha, k=k: F.local_response_norm(x, n, a, 0.6, k))
                    cases.by_torch("local_response_norm", [x], o, of, dtype, Ulp(8), grad_tolerance=at_least_one(32))


def layers(cases):
    for trace in [False, True]:
        x = cases.normals((2, 3, 4), "f32", grad=False)
        scale, offset = cases.floats((4,), "f32", 0.5, 2, grad=False), cases.normals((4,), "f32", grad=False)
        of = lambda x, s, b: F.group_norm(x.movedim(-1, 1), 2, s, b).movedim(1, -1)
        cases.by_torch("nn::GroupNorm", [x, scale, offset], {"groups": 2, "trace": trace}, of, "f32", at_least_one(24))
        of = lambda x, s: F.rms_norm(x, (4,), s, 1e-5)
        cases.by_torch("nn::RMSNorm", [x, scale], {"trace": trace}, of, "f32", at_least_one(24))
        for n in [1, 4]:
            slope = cases.floats((n,), "f32", 0.1, 0.6, grad=False)
            of = lambda x, s: torch.where(x > 0, x, s * x)
            cases.by_torch("nn::PReLU", [x, slope], {"trace": trace}, of, "f32", at_least_one(4))


def regression(cases, dtype):
    a, b = cases.normals((3, 4), dtype), cases.normals((3, 4), dtype)
    for beta in [1.0, 0.4, 0.0]:
        of = lambda a, b, k=beta: F.smooth_l1_loss(a, b, reduction="none", beta=k)
        cases.by_torch("smooth_l1_loss", [a, b], {"beta": beta}, of, dtype, Ulp(6, 8, 4), grad_tolerance=at_least_one(32))
    variance = cases.floats((3, 4), dtype, 0.2, 2)
    for full in [False, True]:
        of = lambda a, b, v, f=full: F.gaussian_nll_loss(a, b, v, full=f, reduction="none")
        cases.by_torch("gaussian_nll_loss", [a, b, variance], {"full": full}, of, dtype, at_least_one(16), grad_tolerance=at_least_one(64))
    narrow = Operand(np.array([0.01, 0.5]), dtype, grad=False)
    of = lambda a, b, v: F.gaussian_nll_loss(a, b, v, eps=0.125, reduction="none")
    c = cases.normals((2,), dtype)
    cases.by_torch("gaussian_nll_loss", [c, cases.normals((2,), dtype), narrow], {"epsilon": 0.125}, of, dtype, at_least_one(24), grad_tolerance=at_least_one(64))
    count = Operand(cases.rng.integers(0, 6, (3, 4)), dtype, grad=False)
    rate = cases.floats((3, 4), dtype, 0.5, 4)
    for full in [False, True]:
        of = lambda a, t, f=full: F.poisson_nll_loss(a, t, full=f, reduction="none")
        cases.by_torch("poisson_nll_loss", [a, count], {"full": full}, of, dtype, at_least_one(16), grad_tolerance=at_least_one(32))
        of = lambda a, t, f=full: F.poisson_nll_loss(a, t, log_input=False, full=f, eps=0.25, reduction="none")
        o = {"full": full, "log_input": False, "epsilon": 0.25}
        cases.by_torch("poisson_nll_loss", [rate, count], o, of, dtype, at_least_one(24), grad_tolerance=at_least_one(32))


def classes(cases, dtype):
    near, slope = at_least_one(16), at_least_one(48)
    p, share = cases.floats((3, 4), dtype, 0.05, 0.95), cases.floats((3, 4), dtype, 0, 1)
    of = lambda p, y: -(y * torch.log(p) + (1 - y) * torch.log1p(-p))
    cases.by_torch("binary_cross_entropy", [p, share], {}, of, dtype, near, grad_tolerance=at_least_one(96))
    sure = Operand(np.array([0.0, 1.0, 0.0, 1.0]), dtype, grad=False)
    label = Operand(np.array([0.0, 1.0, 1.0, 0.0]), dtype, grad=False)
    of = lambda p, y: F.binary_cross_entropy(p, y, reduction="none")
    cases.by_torch("binary_cross_entropy", [sure, label], {}, of, dtype, EQUAL)
    for shape in [(5,), (4, 6), (2, 3, 7)]:
        n = shape[-1]
        log_p = Operand(np.log(cases.rng.dirichlet(np.ones(n), shape[:-1])), dtype)
        labels = cases.ints(shape[:-1], cases.choice(["i64", "i32"]), 0, n)
        weights = cases.floats((n,), dtype, 0.5, 2, grad=False)
        rows = lambda x: x.reshape(-1, n)
        of = lambda x, y: F.nll_loss(rows(x), y.reshape(-1).long(), reduction="none").reshape(shape[:-1])
        cases.by_torch("nll_loss", [log_p, labels], {}, of, dtype, EXACT)
        of = lambda x, y, w: F.nll_loss(rows(x), y.reshape(-1).long(), w, reduction="none").reshape(shape[:-1])
        cases.by_torch("nll_loss", [log_p, labels, weights], {}, of, dtype, Ulp(2), grad_tolerance=slope)
        for ignored in [1, -100]:
            kept = Operand(np.where(labels.stored == 2, ignored, labels.stored), "i64")
            of = lambda x, y, w, i=ignored: F.nll_loss(rows(x), y.reshape(-1), w, ignore_index=i, reduction="none").reshape(shape[:-1])
            cases.by_torch("nll_loss", [log_p, kept, weights], {"ignored": ignored}, of, dtype, Ulp(2), grad_tolerance=slope)
        x = cases.normals(shape, dtype)
        for power, margin in [(1, 1.0), (2, 0.5)]:
            o = {"p": power, "margin": margin}
            whole = lambda x, y, *w: F.multi_margin_loss(rows(x), y.reshape(-1).long(), power, margin, *w, reduction="none").reshape(shape[:-1])
            of = confirmed(lambda x, y, *w: multi_margin(x, y, power, margin, *w), whole)
            cases.by_torch("multi_margin_loss", [x, labels], o, of, dtype, near, grad_tolerance=slope)
            cases.by_torch("multi_margin_loss", [x, labels, weights], o, of, dtype, near, grad_tolerance=slope)
        several = np.full(shape, -1)
        flat = several.reshape(-1, n)
        for row in flat:
            k = int(cases.rng.integers(0, n + 1))
            row[:k] = cases.rng.permutation(n)[:k]
            if k + 1 < n:
                row[k + 1 :] = 0  # nothing after the first -1 counts
        several = Operand(several, "i64")
        whole = lambda x, y: F.multilabel_margin_loss(rows(x), y.reshape(-1, n), reduction="none").reshape(shape[:-1])
        of = confirmed(multilabel_margin, whole)
        cases.by_torch("multilabel_margin_loss", [x, several], {}, of, dtype, near, grad_tolerance=slope)
        hits = Operand(cases.rng.integers(0, 2, shape), dtype, grad=False)
        of = lambda x, y: F.multilabel_soft_margin_loss(x, y, reduction="none")
        cases.by_torch("multilabel_soft_margin_loss", [x, hits], {}, of, dtype, near, grad_tolerance=slope)
        of = lambda x, y, w: F.multilabel_soft_margin_loss(x, y, w, reduction="none")
        cases.by_torch("multilabel_soft_margin_loss", [x, hits, weights], {}, of, dtype, near, grad_tolerance=slope)


def likeness(cases, dtype):
    near, slope = at_least_one(16), at_least_one(64)
    a, b, c = [cases.normals((3, 4), dtype) for _ in range(3)]
    sign = Operand(cases.rng.choice([-1.0, 1.0], (3, 4)), dtype, grad=False)
    row = Operand(np.array([1, -1, -1]), "i32")
    of = lambda a, s: torch.log1p(torch.exp(-s * a))
    cases.by_torch("soft_margin_loss", [a, sign], {}, of, dtype, near, grad_tolerance=slope)
    far = Operand(np.array([500.0, -500.0]), dtype, grad=False)
    cases.add("soft_margin_loss", [far, Operand(np.ones(2), dtype, grad=False)], {}, np.array([0.0, 500.0]), dtype, Ulp(1, 1, 1e-20))
    for margin in [1.0, 0.25]:
        o = {"margin": margin}
        of = lambda a, s, m=margin: F.hinge_embedding_loss(a, s, m, reduction="none")
        cases.by_torch("hinge_embedding_loss", [a, sign], o, of, dtype, near, grad_tolerance=slope)
        of = lambda a, b, s, m=margin: F.margin_ranking_loss(a, b, s, m, reduction="none")
        cases.by_torch("margin_ranking_loss", [a, b, sign], o, of, dtype, near, grad_tolerance=slope)
        of = lambda a, b, s, m=margin: torch.where(
            s > 0, 1 - F.cosine_similarity(a, b), torch.relu(F.cosine_similarity(a, b) - m + 0.9)
        )
        o = {"margin": margin - 0.9}
        cases.by_torch("cosine_embedding_loss", [a, b, row], o, of, dtype, near, grad_tolerance=slope)
        for p, swap in [(2.0, False), (2.0, True), (1.0, False), (3.0, True)]:
            o = {"margin": margin, "p": p, "swap": swap, "epsilon": 1e-3}
            of = lambda a, b, c, m=margin, p=p, s=swap: F.triplet_margin_loss(a, b, c, m, p, 1e-3, s, reduction="none")
            cases.by_torch("triplet_margin_loss", [a, b, c], o, of, dtype, at_least_one(24), grad_tolerance=slope)
        one = lambda a, b: (a - b).abs().sum(-1)
        of = lambda a, b, c, m=margin: F.triplet_margin_with_distance_loss(a, b, c, distance_function=one, margin=m, reduction="none")
        o = {"margin": margin, "taxi": True}
        cases.by_torch("triplet_margin_loss", [a, b, c], o, of, dtype, at_least_one(24), grad_tolerance=slope)
    for p in [2.0, 1.0, 3.5, math.inf]:
        o = {"p": p if math.isfinite(p) else "inf"}
        of = lambda a, b, p=p: F.pairwise_distance(a, b, p, 1e-3)
        cases.by_torch("pairwise_distance", [a, b], o | {"epsilon": 1e-3}, of, dtype, Ulp(12), grad_tolerance=slope)
        of = lambda a, b, p=p: F.pairwise_distance(a, b, p, 1e-3, keepdim=True)
        cases.by_torch("pairwise_distance", [a, b], o | {"epsilon": 1e-3, "keepdims": True}, of, dtype, Ulp(12), grad_tolerance=slope)
        if dtype in ("f32", "f64"):
            x = cases.normals((5, 3), dtype)
            cases.by_torch("pdist", [x], o, lambda x, p=p: F.pdist(x, p), dtype, Ulp(12), grad_tolerance=slope)


def sequences(cases, dtype):
    """From logits: torch's gradient is right for those alone."""
    for time, batch, n, length, blank in [(6, 3, 4, 2, 0), (5, 2, 3, 2, 2), (3, 1, 2, 0, 0), (12, 2, 5, 4, 1), (1, 2, 3, 1, 0)]:
        x = cases.normals((time, batch, n), dtype)
        labels = cases.rng.integers(0, n - 1, (batch, length))
        labels = labels + (labels >= blank)
        steps = cases.rng.integers(max(1, time - 2), time + 1, batch)
        lengths = cases.rng.integers(0, length + 1, batch)
        y, s, k = Operand(labels, "i64"), Operand(steps, "i32"), Operand(lengths, "i64")
        for zero in [False, True]:
            of = lambda x, y, s, k, z=zero: F.ctc_loss(
                torch.log_softmax(x, -1), y, s.long(), k, blank, reduction="none", zero_infinity=z
            )
            if n**time < 5000:
                whole, x = of, cases.normals((time, batch, n), dtype)
                of = confirmed(lambda x, y, s, k, z=zero: alignments(x, y, s, k, blank, z), whole)
            with torch.no_grad():
                finite = bool(torch.isfinite(of(x.torch(), y.torch(), s.torch(), k.torch())).all())
            given = x if finite or zero else Operand(x.wide, dtype, grad=False)
            o = {"blank": blank, "zero_infinity": zero}
            cases.by_torch("ctc_loss", [given, y, s, k], o, of, dtype, at_least_one(64), grad_tolerance=at_least_one(256))
    x = cases.normals((3, 2, 3), dtype, grad=False)
    y, s, k = Operand(np.array([[1, 1], [1, 2]]), "i64"), Operand(np.array([2, 3]), "i64"), Operand(np.array([2, 2]), "i64")
    for zero in [False, True]:  # two equal labels take three steps
        of = lambda x, y, s, k, z=zero: F.ctc_loss(torch.log_softmax(x, -1), y, s, k, 0, reduction="none", zero_infinity=z)
        cases.by_torch("ctc_loss", [x, y, s, k], {"zero_infinity": zero}, of, dtype, at_least_one(32))


def tables(cases, dtype):
    near, slope = at_least_one(16), at_least_one(32)
    table = cases.normals((5, 3), dtype)
    ids = cases.ints((2, 4), "i64", 0, 5)
    line = cases.ints((9,), "i32", 0, 5)
    offsets = Operand(np.array([0, 3, 3, 7]), "i64")
    for mode in ["sum", "mean", "max"]:
        for padding in [None, 2]:
            o = {"mode": mode} | ({} if padding is None else {"padding": padding})
            whole = lambda t, i, m=mode, p=padding: F.embedding_bag(i, t, mode=m, padding_idx=p)
            of = confirmed(lambda t, i, m=mode, p=padding: bags(t, i, m, p), whole)
            cases.by_torch("embedding_bag", [table, ids], o, of, dtype, near, grad_tolerance=slope)
            whole = lambda t, i, f, m=mode, p=padding: F.embedding_bag(i.long(), t, f, mode=m, padding_idx=p)
            of = confirmed(lambda t, i, f, m=mode, p=padding: bags(t, torch.tensor_split(i, f[1:].tolist()), m, p), whole)
            cases.by_torch("embedding_bag", [table, line, offsets], o | {"offsets": True}, of, dtype, near, grad_tolerance=slope)
    weights = cases.floats((2, 4), dtype, 0.5, 2)
    whole = lambda t, i, w: F.embedding_bag(i, t, mode="sum", per_sample_weights=w)
    of = confirmed(lambda t, i, w: bags(t, i, "sum", None, w), whole)
    cases.by_torch("embedding_bag", [table, ids, weights], {"mode": "sum", "weights": True}, of, dtype, near, grad_tolerance=slope)
    for shape in [(), (4,), (2, 3)]:
        x, y = cases.normals((*shape, 3), dtype), cases.normals((*shape, 2), dtype)
        w, b = cases.normals((3, 2, 4), dtype), cases.normals((4,), dtype)
        of = lambda x, y, w: F.bilinear(x, y, w.permute(2, 0, 1).contiguous())
        cases.by_torch("bilinear", [x, y, w], {}, of, dtype, of_largest(24), grad_tolerance=at_least_one(64))
        of = lambda x, y, w, b: F.bilinear(x, y, w.permute(2, 0, 1).contiguous(), b)
        cases.by_torch("bilinear", [x, y, w, b], {}, of, dtype, of_largest(24), grad_tolerance=at_least_one(64))


def add_all(cases):
    with np.errstate(all="ignore"):
        activations(cases)
        norms(cases)
        layers(cases)
        for dtype in FLOATS:
            for family in [regression, classes, likeness, tables]:
                family(cases, dtype)
        for dtype in ["f32", "f64", "bf16"]:
            sequences(cases, dtype)
