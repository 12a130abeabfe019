"""Writes cases for rill that numpy, scipy, torch and JAX judge: generate.py OUT.gz [--seed N] [--share X].

Fixed cases are committed (cases.gz: --seed 0 --share 0.4); CI makes fresh ones with another seed (./dev oracle). A family is a function
of a file beside this one that adds cases to a judge.Cases; known_differences.py says which are left out, and why.
"""

import argparse
import collections
import warnings

import jax
import numpy
import scipy
import torch

import arrays
import binary
import complexes
import edges
import elementwise
import functional
import images
import indexing
import large
import matrices
import more_special
import structures
import networks
import numeric
import ordering
import products
import programs
import reductions
import shapes
import small
import sparse
import special
import training
import varied
from judge import Cases
from known_differences import is_known, rounds
from transforms import Transforms

FAMILIES = [
    elementwise,
    binary,
    reductions,
    ordering,
    shapes,
    indexing,
    products,
    networks,
    functional,
    images,
    numeric,
    arrays,
    special,
    more_special,
    structures,
    training,
    programs,
    edges,
    varied,
    small,
    complexes,
    large,
    matrices,
    sparse,
]


def sample(cases, share, rng):
    seen, kept = set(), []
    for c in cases:
        kind = c["fn"], "transforms" in c, *(t[0] for t in c["in"])
        if share < 1 and sum(int(numpy.prod(t[1])) for t in c["in"]) > 4000:
            continue
        if kind not in seen or rng.random() < share:
            kept.append(c)
        seen.add(kind)
    return kept


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("out")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="below 1: so many of the small cases, beside one of each function and dtype",
    )
    options = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    cases = Cases(options.seed)
    cases.transforms = Transforms(cases)
    for family in FAMILIES:
        family.add_all(cases)
    left_out = collections.Counter(reason for c in cases.cases if (reason := is_known(c)))
    cases.cases = [{**c, "rounds": True} if rounds(c) else c for c in cases.cases if not is_known(c)]
    cases.cases = sample(cases.cases, options.share, numpy.random.default_rng(options.seed))
    versions = {m.__name__: m.__version__.split("+")[0] for m in (numpy, scipy, torch, jax)}
    cases.write(options.out, versions)
    functions = {c["fn"] for c in cases.cases}
    gradients = sum(g is not None for c in cases.cases for g in c.get("grad", []))
    print(
        f"{options.out}: seed {options.seed}, {len(functions)} functions, {len(cases.cases)} cases, {gradients} gradients"
    )
    t = cases.transforms
    print(
        f"  derivatives by torch.func of {len(t.functions)} functions, {len(t.opinions)} of them confirmed by JAX; "
        f"by torch's tape for want of a rule: {dict(t.by_rows)}"
    )
    for reason, n in (left_out + t.refused).items():
        print(f"  {n} left out: {reason}")


if __name__ == "__main__":
    main()
