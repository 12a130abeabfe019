#!/usr/bin/env python3
"""What collectives and training steps take on up to 4,096 ranks, by a model of latency and bandwidth (alpha and beta: Hockney, 1994;
the algorithms' costs: Thakur, Rabenseifner and Gropp, 2005), beside what is measured here. Prints tables in Markdown.

  --alpha US     a note between two ranks (default: measured on this machine)
  --beta GBPS    bytes that a rank sends in a second, in 1e9 (default: measured)
  --network NAME both, of a network: ethernet10 (25 us, 1.1), infiniband (2 us, 12); the tables are then predictions alone
  --step US --gradients MB
                 of a training step: what one rank computes, and what it adds up with others (default: dp_block's, 2 MB)
  --json FILE    what `collectives.py` has printed, instead of measuring

How rill's collectives move data, for n ranks and B bytes each: short ones (n B up to 8 KiB) by notes, in ceil(log2 n) rounds;
else an all_reduce is n - 1 messages to who adds up each part, and as many back: 2 (n - 1) alpha + 2 (n - 1) / n B beta, and B / n
bytes to be added n - 1 times. Of 8 ranks and more, a power of two, what is at most 64 KiB a rank goes by halves, 2 log2(n) alpha.
"""

import argparse
import math
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NETWORKS = {"ethernet10": (25.0, 1.1), "infiniband": (2.0, 12.0)}
RANKS = (2, 4, 8, 16, 64, 256, 1024, 4096)
SIZES = (4, 2048, 131072, 1 << 20, 8 << 20, 64 << 20)


def measured(text):
    """Microseconds by bytes, of the lines of collectives.py."""
    return {int(size): float(us) for size, us in re.findall(r"allreduce_(\d+)\s+rill ([\d.]+) us", text)}


class Model:
    def __init__(self, alpha_us, beta_gbps, add_gbps=8.0):
        self.alpha, self.byte, self.add = alpha_us, 1 / (beta_gbps * 1e3), 1 / (add_gbps * 1e3)

    def all_reduce(self, n, size, halves=True):
        if n == 1:
            return 0.0
        if n * size <= 8192:
            return math.ceil(math.log2(n)) * self.alpha + n * size * (self.byte + self.add)
        share = size / n
        if halves and n >= 8 and n & (n - 1) == 0 and share <= 64 << 10:
            return 2 * math.log2(n) * self.alpha + 2 * (n - 1) * share * self.byte + (n - 1) * share * self.add
        return 2 * (n - 1) * (self.alpha + share * self.byte) + (n - 1) * share * self.add

    def steps(self, n, compute, gradients):
        """A step's time by strategy, the batch of each rank being the same on any number of ranks."""
        whole = self.all_reduce(n, gradients)
        parts = self.all_reduce(n, gradients, halves=False)  # a reduce_scatter and an all_gather, from each rank to each
        hidden = max(0.0, whole - 0.6 * compute)  # the walk back is some 60 % of a step, and what arrives meanwhile is free
        return {
            "data parallel": compute + whole,
            "with overlap": compute + hidden,
            "sharded optimizer": compute + parts,
            "sharded parameters": compute + 1.5 * parts,  # gathered for both walks, and gradients scattered
            # A model divided among n ranks along its layers' width: two sums of activations (an eighth of the
            # gradients) a pass.
            "tensor parallel": compute / n + 4 * self.all_reduce(n, gradients / 8),
        }


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def time_name(us):
    return f"{us:.2g} us" if us < 100 else f"{us:.0f} us" if us < 1e4 else f"{us / 1e3:.0f} ms" if us < 1e6 else f"{us / 1e6:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alpha", type=float)
    parser.add_argument("--beta", type=float)
    parser.add_argument("--network", choices=NETWORKS)
    parser.add_argument("--step", type=float, default=9000.0)
    parser.add_argument("--gradients", type=float, default=3.2)
    parser.add_argument("--json")
    args = parser.parse_args()
    points = {}
    if args.network:
        args.alpha, args.beta = NETWORKS[args.network]
    elif args.json:
        points = measured(Path(args.json).read_text(encoding="utf-8"))
    elif args.alpha is None or args.beta is None:
        command = [sys.executable, HERE / "collectives.py", "--most", 64 << 20]
        points = measured(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout)
    alpha = args.alpha or min(points.values())
    # 2 (n - 1) / n is 1 of two ranks: the bytes of an all_reduce of some MiB, over its time without the additions.
    middle = [(size, us) for size, us in points.items() if 1 << 19 <= size <= 16 << 20]
    beta = args.beta or sum(size / (us * 1e3) for size, us in middle) / len(middle)
    model = Model(alpha, beta)
    print(f"alpha {alpha:.2f} us, {beta:.1f} GB/s\n")
    table(["all_reduce", "measured, 2"] + [f"{n:,}" for n in RANKS],
          [[size_name(s), time_name(points[near]) if (near := min(points, key=lambda p: abs(math.log(p / s)), default=0)) else "",
            *(time_name(model.all_reduce(n, s)) for n in RANKS)] for s in SIZES])
    strategies = list(model.steps(2, 1, 1))
    gradients = args.gradients * 1e6
    rows = []
    for strategy in strategies:
        times = [model.steps(n, args.step, gradients)[strategy] for n in RANKS]
        ideal = [args.step / n if strategy == "tensor parallel" else args.step for n in RANKS]
        useful = [n for n, t, i in zip(RANKS, times, ideal) if i / t >= 0.5]
        rows.append([strategy, *(time_name(t) for t in times), f"{max(useful):,}" if useful else "none"])
    table([f"a step of {time_name(args.step)}, {args.gradients:g} MB of gradients", *(f"{n:,}" for n in RANKS),
           "half of the time is lost beyond"], rows)


if __name__ == "__main__":
    main()
