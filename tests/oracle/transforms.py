"""Cases of functions of functions: for each small case that has gradients, what torch.func's jvp, vjp, jacrev, hessian,
vmap, vmap of grad and grad of vmap say of its function, by all operands that have gradients. Those of a scalar are of
the results' squares, weighted and summed, so that linear functions have second derivatives too.

Where torch.func has no rule, torch's tape goes row by row. Jacobians are compared with torch's tangents, and both with
JAX where it has the function (opinions.py); a case of which judges disagree is left out, and listed.
"""

import collections

import numpy as np
import torch

import opinions
from judge import EQUAL, EXACT, Operand, Ulp, Within, is_float, largest, of_terms

SMALL, MEDIUM = 12, 40  # elements of differentiated operands; medium ones if a function has no small case
# Not mapped: the size of the result depends on values.
SIZED_BY_VALUES = {"boolean_mask", "index by mask"} | {
    "sparse matmul sparse", "sparse multiply sparse", "sparse coalesce", "sparse slice"
}


def tuple_of(y):
    return tuple(y) if isinstance(y, (list, tuple)) else (y,)


class Function:
    """A case's function of the operands at `places`, with the results of floating dtypes, in float64."""

    def __init__(self, torch_fn, operands, dtypes, places):
        self.torch_fn, self.operands, self.places = torch_fn, operands, places
        self.kept = [i for i, d in enumerate(dtypes) if is_float(d)]
        self.all = tuple(range(len(places)))
        self.weights = None
        self.by_rows = set()  # the transforms for which torch.func has no rule

    def __call__(self, *x):
        inputs = [o.torch() for o in self.operands]
        for place, t in zip(self.places, x):
            inputs[place] = t
        y = tuple_of(self.torch_fn(*inputs))
        return tuple(y[i] for i in self.kept)

    def loss(self, *x):
        return sum((w * y * y).sum() for w, y in zip(self.weights, self(*x)))

    def attempt(self, name, by_func, by_rows):
        try:
            return by_func()
        except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
            self.by_rows.add(name)
            return by_rows()

    def gradients(self, y, x, **more):
        if not y.requires_grad:
            return [torch.zeros_like(t) for t in x]
        found = torch.autograd.grad(y, x, allow_unused=True, **more)
        return [torch.zeros_like(t) if g is None else g for g, t in zip(found, x)]

    def loss_gradients(self, *x):
        x = [t.detach().clone().requires_grad_() for t in x]
        return self.gradients(self.loss(*x), x)

    def jacobian(self, x):
        def by_rows():
            leaves = [t.clone().requires_grad_() for t in x]
            out = []
            for y in self(*leaves):
                rows = [self.gradients(e, leaves, retain_graph=True) for e in y.reshape(-1)]
                out.append([torch.stack(r).reshape(y.shape + t.shape) for r, t in zip(zip(*rows), x)])
            return out

        return self.attempt("jacobian", lambda: torch.func.jacrev(self, self.all)(*x), by_rows)

    def hessian(self, x):
        def by_rows():
            leaves = [t.clone().requires_grad_() for t in x]
            y = self.loss(*leaves)
            first = self.gradients(y, leaves, create_graph=True)
            rows = [[self.gradients(e, leaves, retain_graph=True) for e in g.reshape(-1)] for g in first]
            return [[torch.stack(c).reshape(a.shape + b.shape) for c, b in zip(zip(*r), x)] for r, a in zip(rows, x)]

        return self.attempt("hessian", lambda: torch.func.hessian(self.loss, self.all)(*x), by_rows)

    def jvp(self, x, tangents, jacobian):
        along = lambda: [sum(torch.tensordot(j, t, t.ndim) for j, t in zip(row, tangents)) for row in jacobian]
        return self.attempt("jvp", lambda: torch.func.jvp(self, tuple(x), tuple(tangents))[1], along)

    def vjp(self, x, cotangents):
        def by_rows():
            leaves = [t.clone().requires_grad_() for t in x]
            return self.gradients(sum((y * c).sum() for y, c in zip(self(*leaves), cotangents)), leaves)

        return self.attempt("vjp", lambda: torch.func.vjp(self, *x)[1](tuple(cotangents)), by_rows)

    def rows(self, batch, axes):
        n = next(t.shape[a] for t, a in zip(batch, axes) if a is not None)
        return [[t if a is None else t.select(a, i) for t, a in zip(batch, axes)] for i in range(n)]

    def vmap(self, batch, axes, out_axis):
        by_rows = lambda: [torch.stack(y, out_axis) for y in zip(*[self(*r) for r in self.rows(batch, axes)])]
        return self.attempt("vmap", lambda: torch.func.vmap(self, axes, out_axis)(*batch), by_rows)

    def vmap_of_grad(self, batch, axes):
        by_rows = lambda: [torch.stack(g) for g in zip(*[self.loss_gradients(*r) for r in self.rows(batch, axes)])]
        by_func = lambda: torch.func.vmap(torch.func.grad(self.loss, self.all), axes)(*batch)
        return self.attempt("vmap of grad", by_func, by_rows)

    def grad_of_vmap(self, batch, axes, each):
        def loss(*x):
            y = torch.func.vmap(self, axes)(*x)
            return sum((w * t * t).sum() for w, t in zip(self.weights, y))

        by_rows = lambda: [g.sum(0) if a is None else g.movedim(0, a) for g, a in zip(each, axes)]
        return self.attempt("grad of vmap", lambda: torch.func.grad(loss, self.all)(*batch), by_rows)


def numpy_of(values):
    return [v.detach().numpy() for v in tuple_of(values)]


def agree(a, b, share=1e-9):
    """Whether judges' values are equal to `share` of the largest."""
    return all(x.shape == y.shape and np.all(np.abs(x - y) <= share * max(1, largest(x))) for x, y in zip(a, b))


def mirror(a, b):
    """The axes that make of a block of a Hessian by a and b the one by b and a."""
    return [*range(a.ndim, a.ndim + b.ndim), *range(a.ndim)]


class Transforms:
    """Adds to `cases` one of transforms for each function, dtype and set of options, and for a tenth of the others."""

    def __init__(self, cases):
        self.cases, self.rng = cases, np.random.default_rng([cases.seed, 12])  # of its own: the others stay as they are
        self.seen, self.functions, self.refused = set(), set(), collections.Counter()
        self.by_rows, self.opinions = collections.Counter(), set()
        self.every = False  # uses all cases

    def __call__(self, fn, operands, options, torch_fn, dtypes, tolerances, grad_tolerance):
        places = [i for i, o in enumerate(operands) if o.grad and o.layout != "weak"]
        known = {o.dtype for o in operands if o.grad} | {d for d in dtypes if is_float(d)}  # of one dtype: judged in it
        size = sum(operands[i].stored.size for i in places)
        if known not in ({"f32"}, {"f64"}) or not 0 < size <= (MEDIUM if fn not in self.functions else SMALL):
            return
        kind = fn, operands[places[0]].dtype, len(operands), *sorted(options)
        if kind in self.seen and not self.every and self.rng.random() > 0.1:
            return
        f = Function(torch_fn, operands, dtypes, places)
        try:
            case = self.case(
                f, fn, options, [dtypes[i] for i in f.kept], [tolerances[i] for i in f.kept], grad_tolerance
            )
        except RuntimeError as e:
            return self.refused.update([f"{fn}: torch cannot: {str(e).splitlines()[0]}"])
        if case is not None:
            self.seen.add(kind), self.functions.add(fn)
            self.by_rows.update(f.by_rows)
            self.cases.cases.append(case)

    def uniform(self, like, dtype):
        return Operand(self.rng.uniform(0.5, 2, tuple(like.shape)) * self.rng.choice([-1, 1], tuple(like.shape)), dtype)

    def batch(self, f, x):
        """Two rows of some operands: the operand, and more or less of it, on any axis."""
        axes = [int(self.rng.integers(o.torch().ndim + 1)) if self.rng.random() < 0.6 else None for o in x]
        if all(a is None for a in axes):
            axes[0] = 0
        if len(x) > 3 or self.rng.random() < 0.2:
            axes = [0] * len(x)
        for more in [1.125, 0.875, 1.0]:
            rows = [o if a is None else Operand(np.stack([o.wide, o.wide * more], a), o.dtype) for o, a in zip(x, axes)]
            try:
                y = [t for row in f.rows([o.torch() for o in rows], axes) for t in f(*row)]
            except RuntimeError:  # outside of the domain
                continue
            if all(torch.isfinite(t).all() for t in y):
                break
        return rows, tuple(axes)

    def case(self, f, fn, options, dtypes, tolerances, grad_tolerance):
        x = [f.operands[i] for i in f.places]
        points = [o.torch() for o in x]
        y = f(*points)
        if any(t.numel() > MEDIUM for t in y) or sum(t.numel() for t in y) == 0:
            return None
        tangents = [self.uniform(o.stored, o.dtype) for o in x]
        cotangents = [self.uniform(t, d) for t, d in zip(y, dtypes)]
        f.weights = [c.torch() for c in cotangents]
        jacobian, hessian = f.jacobian(points), f.hessian(points)
        batch, axes = self.batch(f, x)
        mapped = [o.torch() for o in batch]
        out_axis = int(self.rng.integers(min(t.ndim for t in y) + 1))
        found = {
            "jacobian": sum([numpy_of(j) for j in jacobian], []),
            "hessian": sum([numpy_of(h) for h in hessian], []),
            "jvp": numpy_of(f.jvp(points, [t.torch() for t in tangents], jacobian)),
            "vjp": numpy_of(f.vjp(points, f.weights)),
        }
        if fn not in SIZED_BY_VALUES:
            each = f.vmap_of_grad(mapped, axes)
            found["vmap"] = numpy_of(f.vmap(mapped, axes, out_axis))
            found["vmap of grad"] = numpy_of(each)
            found["grad of vmap"] = numpy_of(f.grad_of_vmap(mapped, axes, each))
        if not all(np.all(np.isfinite(v)) for values in found.values() for v in values):
            return None
        jacobians = [numpy_of(j) for j in jacobian]
        if not self.judges_agree(f, fn, options, points, tangents, found, jacobians):
            return None
        out_dtypes = {"jvp": dtypes, "vmap": dtypes, "jacobian": [d for d in dtypes for _ in x]}
        near = self.tolerances(f, y, jacobians, tangents, cotangents, found, tolerances, grad_tolerance)
        by = [o.dtype for o in x]
        dtype_of = lambda name: out_dtypes.get(name, [d for d in by for _ in x] if name == "hessian" else by)
        put = lambda o: self.cases.tensor(o.stored, o.dtype, o.layout)
        return {
            "fn": fn,
            "in": [put(o) for o in f.operands],
            "opt": options,
            "out": [],
            "transforms": {
                "by": f.places,
                "kept": f.kept,
                "list": len(x) > 3 or (None not in axes and len(set(axes)) == 1 and bool(self.rng.random() < 0.3)),
                "tangents": [put(o) for o in tangents],
                "cotangents": [put(o) for o in cotangents],
                "batch": [put(o) for o in batch],
                "in_axes": list(axes),
                "out_axis": out_axis,
                "want": {
                    name: [self.cases.expected(v, d, t) for v, d, t in zip(values, dtype_of(name), near[name])]
                    for name, values in found.items()
                },
            },
        }

    def judges_agree(self, f, fn, options, points, tangents, found, jacobians):
        along = [sum(np.tensordot(j, t.wide, t.wide.ndim) for j, t in zip(row, tangents)) for row in jacobians]
        n = len(points)
        blocks = found["hessian"]
        mirrored = [np.transpose(blocks[j * n + i], mirror(points[j], points[i])) for i in range(n) for j in range(n)]
        if not agree(found["jvp"], along) or not agree(blocks, mirrored):
            self.refused.update([f"{fn}: torch's tangents are not its Jacobian's, or its Hessian is not symmetric"])
            return False
        other = opinions.of(fn, options, f, points) if fn not in self.opinions and not self.every else None
        if other is None:
            return True
        self.opinions.add(fn)
        if agree(found["jacobian"], other[0]) and agree(found["hessian"], other[1]):
            return True
        self.refused.update([f"{fn} {options}: torch and JAX differ"])
        return False

    def tolerances(self, f, y, jacobians, tangents, cotangents, found, tolerances, grad_tolerance):
        """How far off each may be: a Jacobian's rows are gradients, and the others sums of its elements' products, held
        against the sum of the magnitudes of what is added."""
        slope = grad_tolerance or of_terms(16)
        slope = slope([Operand(np.ones(1), f.operands[f.places[0]].dtype)]) if callable(slope) else slope
        if callable(slope.scale):  # a row's terms are those of a cotangent of 1
            slope = Ulp(slope.k, slope.eps, lambda values, scale=slope.scale: max(1, scale(values)))
        units = slope.k + slope.eps
        values = max([0] + [t.k + t.eps for t in tolerances if isinstance(t, Ulp)])
        size = [np.abs(t.detach().numpy()) for t in y]
        # The magnitudes of J t, of c J and of J' c J, each the largest.
        forward = [
            sum(np.tensordot(np.abs(j), np.abs(t.wide), t.wide.ndim) for j, t in zip(row, tangents))
            for row in jacobians
        ]
        back = lambda weights: max(
            largest(np.tensordot(w, np.abs(j), w.ndim)) for w, row in zip(weights, jacobians) for j in row
        )
        weights = [np.abs(c.wide) for c in cotangents]
        squares = [2 * w * s for w, s in zip(weights, size)]
        products = max(
            largest(np.tensordot((np.abs(j).T * (2 * w).T).T, np.abs(k), (range(w.ndim), range(w.ndim))))
            for w, row in zip(weights, jacobians)
            for j in row
            for k in row
        )
        sums = lambda scale, more=1: Ulp(4, more * (units + 4), lambda v: max(1, largest(v), scale))
        rows = Ulp(4, 4 * (units + values + 4), lambda v: max(1, largest(v), 2 * back(squares)))
        return {
            "jacobian": [slope] * len(found["jacobian"]),
            "jvp": [sums(largest(s)) for s in forward],
            "vjp": [sums(back(weights))] * len(found["vjp"]),
            "hessian": [sums(max(products, back(squares)), 8)] * len(found["hessian"]),
            "vmap": [self.value_tolerance(t) for t in tolerances],
            "vmap of grad": [rows] * len(f.places),
            "grad of vmap": [rows] * len(f.places),
        }

    def value_tolerance(self, t):
        if t is EXACT:
            return EQUAL
        if isinstance(t, Within):
            return t
        scale = t.scale if callable(t.scale) else lambda v: 2 * max(largest(v), largest(t.scale))
        return Ulp(t.k + 2, t.eps, scale)
