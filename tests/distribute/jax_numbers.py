"""Writes tests/fixtures/distribute/jax.npz: collectives and their gradients by JAX's shard_map, on 2 and 4 devices of the
host, which the case `jax` of program.cpp compares with. A gradient is that of the sum over all devices of what each
computes.

usage: python jax_numbers.py  (with jax; 0.10.2 wrote what is committed)
"""
import os
import pathlib

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

jax.config.update("jax_enable_x64", True)


def functions(n):
    ring = [(i, (i + 1) % n) for i in range(n)]
    return {
        "all_reduce": lambda x: lax.psum(x, "r"),
        "mean": lambda x: lax.pmean(x, "r"),
        "all_gather": lambda x: lax.all_gather(x, "r"),
        "reduce_scatter": lambda x: lax.psum_scatter(x, "r", tiled=True),
        "all_to_all": lambda x: lax.all_to_all(x, "r", 0, 0, tiled=True),
        "rotate": lambda x: lax.ppermute(x, "r", ring),
        "permute": lambda x: lax.ppermute(x, "r", [(0, n - 1)]),
        "several": lambda x: lax.psum(jnp.tanh(lax.ppermute(x, "r", ring) * lax.pmean(x, "r")), "r"),
    }


numbers = {}
rng = np.random.default_rng(1)
for n in (2, 4):
    mesh = Mesh(np.array(jax.devices()[:n]), ("r",))
    x = rng.normal(size=(n, 2 * n, 3))
    numbers[f"x_{n}"] = x
    for name, f in functions(n).items():
        def parts(v, f=f):
            run = jax.shard_map(lambda own: f(own[0])[None], mesh=mesh, in_specs=P("r"), out_specs=P("r"), check_vma=False)
            return run(v)
        y = parts(x)
        w = rng.normal(size=y.shape)
        numbers[f"{name}_{n}"] = np.asarray(y)
        numbers[f"{name}_{n}_weights"] = w
        numbers[f"{name}_{n}_gradient"] = np.asarray(jax.grad(lambda v: jnp.sum(w * jnp.sin(parts(v))))(x))
np.savez(pathlib.Path(__file__).parent.parent / "fixtures/distribute/jax.npz", **numbers)
