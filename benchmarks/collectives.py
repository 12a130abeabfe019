#!/usr/bin/env python3
"""Sums over ranks, beside MPI's own and torch's by gloo: starts collectives.cpp on several ranks and prints a table. With --steps,
training steps whose batch is divided among ranks of a core each (data_parallel.cpp), beside one rank of all these cores and
torch's DistributedDataParallel.

  -n N           ranks on this machine (default 2)
  --build DIR    where rill was built (default: build)
  --most BYTES   the largest sum (default 16 MiB)
  --delay US, --bandwidth GBPS
                 between ranks, as over a network (slow_network.cpp): what rill sends is late, and MPI's own sums are not
  --steps        the rows dp_mlp, dp_cnn and dp_block instead of sums
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
    program = Path(args.build) / "benchmarks/collectives"
    if not args.delay and not args.bandwidth:
        return run(args.n, 1, program, args.most)
    slow = Path(args.build).resolve() / "benchmarks/libslow_network.so"
    network = {"RILL_DELAY_US": str(args.delay), "RILL_BANDWIDTH_GBPS": str(args.bandwidth or 1e6), "LD_PRELOAD": str(slow)}
    return run(args.n, 1, "env", *(f"{name}={value}" for name, value in network.items()), program, args.most, "sums")


def run(ranks, threads, *command):
    start = [] if ranks == 0 else ["mpirun", "-n", ranks, *([] if threads == 1 else ["--bind-to", "none"])]
    done = subprocess.run([str(c) for c in (*start, *command)], check=True, stdout=subprocess.PIPE, text=True,
                          env={**ENV, "OMP_NUM_THREADS": str(threads)})
    return lines(done.stdout)


def of_steps(args):
    program = Path(args.build) / "benchmarks/data_parallel"
    return (run(args.n, 1, program, f"{args.n} ranks of a core") + run(1, args.n, program, f"1 rank of {args.n} cores")
            + run(0, args.n, program, "plain"))


def of_torch(args, script, *more):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [setup.PYTHON, HERE / "peers" / script]
    ranks = [subprocess.Popen([str(c) for c in (*command, r, args.n, port, *more)], stdout=subprocess.PIPE, text=True, env=ENV)
             for r in range(args.n)]
    return lines("".join(rank.communicate()[0] for rank in ranks))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=2)
    parser.add_argument("--build", default=HERE.parent / "build")
    parser.add_argument("--most", type=int, default=16 << 20)
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--bandwidth", type=float, default=0)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    found = of_steps(args) if args.steps else of_mpi(args)
    if args.peers and setup.PYTHON.exists():
        found += of_torch(args, "peer_ddp.py") if args.steps else of_torch(args, "peer_gloo.py", args.most)
    rows = {}
    for line in found:
        rows.setdefault(line["row"], {})[line["peer"]] = line["median_us"]
    for row, times in rows.items():
        print(f"{row:20}", *(f"{peer} {us:.1f} us" for peer, us in times.items()), sep="  ")


if __name__ == "__main__":
    main()
