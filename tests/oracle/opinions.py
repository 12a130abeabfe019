"""A second opinion: JAX's Jacobian and Hessian, in float64, of the functions that it has under a plain name.

Each is written once more with jax.numpy, from the name and the options alone, so that the two judges share nothing but
the numbers.
"""

import math
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import nn, scipy

jax.config.update("jax_enable_x64", True)

# Their names are the same, in jax.numpy, jax.scipy.special or jax.nn.
SAME = {
    jnp: "exp exp2 expm1 log log2 log10 log1p sqrt cbrt reciprocal sin cos tan sinh cosh tanh square negative sinc "
    "deg2rad rad2deg floor ceil trunc round sign add subtract multiply divide power hypot logaddexp logaddexp2 remainder fmod "
    "maximum minimum dot vdot inner outer kron matmul ravel fliplr flipud atleast_1d atleast_2d atleast_3d",
    scipy.special: "erf erfc erfinv digamma xlogy ndtr ndtri logit",
    nn: "relu relu6 sigmoid softplus silu mish selu log_sigmoid",
}
OTHER = {
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "asinh": jnp.arcsinh,
    "acosh": jnp.arccosh,
    "atanh": jnp.arctanh,
    "atan2": jnp.arctan2,
    "abs": jnp.abs,
    "rsqrt": jax.lax.rsqrt,
    "lgamma": scipy.special.gammaln,
    "softsign": nn.soft_sign,
    "hard_tanh": nn.hard_tanh,
    "hard_sigmoid": nn.hard_sigmoid,
    "hard_swish": nn.hard_swish,
    "matrix_transpose": jnp.matrix_transpose,
}
PLAIN = {name: getattr(module, name) for module, names in SAME.items() for name in names.split()} | OTHER
FOLDS = {
    "sum": jnp.sum,
    "mean": jnp.mean,
    "prod": jnp.prod,
    "max": jnp.max,
    "min": jnp.min,
    "ptp": jnp.ptp,
    "logsumexp": scipy.special.logsumexp,
    "nansum": jnp.nansum,
    "nanmean": jnp.nanmean,
}
WITH_OPTIONS = {
    "var": lambda x, o: jnp.var(x, o["axis"], ddof=o["correction"], keepdims=o["keepdims"]),
    "stddev": lambda x, o: jnp.std(x, o["axis"], ddof=o["correction"], keepdims=o["keepdims"]),
    "softmax": lambda x, o: nn.softmax(x, o["axis"]),
    "log_softmax": lambda x, o: nn.log_softmax(x, o["axis"]),
    "gelu": lambda x, o: nn.gelu(x, o["approximate"]),
    "leaky_relu": lambda x, o: nn.leaky_relu(x, o["slope"]),
    "elu": lambda x, o: nn.elu(x, o["alpha"]),
    "celu": lambda x, o: nn.celu(x, o["alpha"]),
    "transpose": lambda x, o: jnp.transpose(x, o["axes"] or None),
    "reshape": lambda x, o: jnp.reshape(x, o["shape"]),
    "diff": lambda x, o: jnp.diff(x, o["n"], o["axis"]),
    "tril": lambda x, o: jnp.tril(x, o["k"]),
    "triu": lambda x, o: jnp.triu(x, o["k"]),
    "sort": lambda x, o: jnp.sort(x, o["axis"], descending=o["descending"]),
}
DEFAULTS = {
    "keepdims": False,
    "correction": 0,
    "approximate": True,
    "slope": 0.01,
    "alpha": 1.0,
    "n": 1,
    "k": 0,
    "descending": False,
}
LAST = {"softmax", "log_softmax", "diff", "sort"}  # the default axis


def function(fn, options):
    """The function by JAX, or None."""
    if fn in PLAIN and not options:
        return PLAIN[fn]
    if fn in FOLDS and set(options) <= {"axis", "keepdims"}:
        axis = options.get("axis")
        axis = tuple(axis) if isinstance(axis, list) else axis
        return lambda x: FOLDS[fn](x, axis=axis, keepdims=options.get("keepdims", False))
    if fn in WITH_OPTIONS:
        o = {"axis": -1 if fn in LAST else None} | DEFAULTS | options
        o["axis"] = tuple(o["axis"]) if isinstance(o["axis"], list) else o["axis"]
        return lambda x: WITH_OPTIONS[fn](x, o)
    if fn in ("cumsum", "cumprod") and set(options) <= {"axis"}:
        return lambda x: getattr(jnp, fn)(x, options.get("axis"))
    if fn in ("concat", "stack"):
        return lambda *x: getattr(jnp, fn)(x, axis=options.get("axis", 0))
    if fn == "einsum":
        return lambda *x: jnp.einsum(options["equation"], *x)
    return None


def of(fn, options, f, points):
    """JAX's Jacobian and Hessian of the transforms.Function `f`, or None where JAX has no such function."""
    g = function(fn, options)
    if g is None or len(f.operands) != len(points) or (fn in WITH_OPTIONS and len(points) > 1):
        return None
    x = [jnp.asarray(p.numpy()) for p in points]
    weight = jnp.asarray(f.weights[0].numpy())
    by = tuple(range(len(x)))
    loss = lambda *x: jnp.sum(weight * jnp.square(g(*x)))
    jacobian, hessian = jax.jacfwd(g, by)(*x), jax.jacrev(jax.grad(loss, by), by)(*x)
    return [np.asarray(j) for j in jacobian], [np.asarray(h) for row in hessian for h in row]


def holomorphic(fn, options, points):
    """JAX's Jacobian at complex points, or None."""
    g = function(fn, options)
    x = [jnp.asarray(p.numpy()) for p in points]
    by = tuple(range(len(x)))
    return None if g is None else [np.asarray(j) for j in jax.jacfwd(g, by, holomorphic=True)(*x)]
