#!/usr/bin/env python3
"""Sums over ranks, beside MPI's own and torch's by gloo: starts collectives.cpp on several ranks and prints a table.

  -n N           ranks on this machine (default 2)
  --build DIR    where rill was built (default: build)
  --most BYTES   the largest sum (default 16 MiB)
  --peers        torch too, where run.py has installed it (.deps/peers)

Each rank has one thread. The rows distributed_step say what averaging gradients adds to a step that computes them alone.
"""

import argparse
import json
import os
import socket
import subprocess
from pathlib import Path

from peers import setup

HERE = Path(__file__).resolve().parent
# Open MPI starts neither as root nor more ranks than cores unless it is told to.
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def of_mpi(args):
    command = ["mpirun", "-n", args.n, Path(args.build) / "benchmarks/collectives", args.most]
    return lines(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, env=ENV).stdout)


def of_gloo(args):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [setup.PYTHON, HERE / "peers/peer_gloo.py"]
    ranks = [subprocess.Popen([str(c) for c in (*command, r, args.n, port, args.most)], stdout=subprocess.PIPE, text=True, env=ENV)
             for r in range(args.n)]
    return lines("".join(rank.communicate()[0] for rank in ranks))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=2)
    parser.add_argument("--build", default=HERE.parent / "build")
    parser.add_argument("--most", type=int, default=16 << 20)
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    found = of_mpi(args) + (of_gloo(args) if args.peers and setup.PYTHON.exists() else [])
    rows = {}
    for line in found:
        rows.setdefault(line["row"], {})[line["peer"]] = line["median_us"]
    for row, times in rows.items():
        print(f"{row:20}", *(f"{peer} {us:.1f} us" for peer, us in times.items()), sep="  ")


if __name__ == "__main__":
    main()
