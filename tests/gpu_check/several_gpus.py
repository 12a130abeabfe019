#!/usr/bin/env python3
"""What is proved between simulated GPUs, on true ones: for a machine with two or more, NVIDIA's driver, NVRTC, NCCL and MPI.

usage: several_gpus.py [BUILD]        BUILD: where rill was built (default: build), with tests/distribute_program

Each rank sees a GPU of its own. Sums must have the host's bits, whatever NCCL does below; then times of sums by rill's tree and
by NCCL itself are printed. It takes some minutes, most of them for NVRTC, and ends with the number of faults.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
PROGRAM = BUILD / "tests/distribute_program"
# Open MPI starts neither as root nor more ranks than cores unless it is told to.
ENV = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_rmaps_base_oversubscribe": "1", "RILL_SOURCE_ROOT": str(pathlib.Path(__file__).resolve().parents[2])}
CASES = ["on_a_gpu", "gpus_collectives", "gpus_dtypes", "gpus_begun", "gpus_tapes", "gpus_zero", "values", "compositions",
         "overlap", "pipelines", "shards", "ring"]
MISTAKES = {"gpus_other_place": "on a GPU", "gpus_other_shape": r"f32\[301\]", "gpus_die": "signal 9|Killed|KILLED"}
TIMES = ["gpus_times", "gpus_times_of_nccl"]
ONE_EACH = 'CUDA_VISIBLE_DEVICES=${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID} exec "$0" "$@"'


def gpus():
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return len(re.findall(r"^GPU \d+", done.stdout, re.M))


def run(ranks, case):
    began = time.monotonic()
    try:
        done = subprocess.run(["mpirun", "-n", str(ranks), "sh", "-c", ONE_EACH, str(PROGRAM), case], env=ENV, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = None, str(late.stdout)
    print(f"{case} on {ranks}: {'well' if status == 0 else status}, {time.monotonic() - began:.1f} s", flush=True)
    return status, output


def main():
    there, faults = gpus(), 0
    if there < 2:
        sys.exit(f"this machine has {there} GPUs, and two are needed")
    for ranks in sorted({2, min(there, 3), min(there, 4), min(there, 8)}):
        for case in CASES:
            status, output = run(ranks, case)
            wrong = status != 0 or "exchanged through the host" in output
            faults += wrong
            if wrong:
                print(output[-3000:])
    for mistake, says in MISTAKES.items():
        status, output = run(2, mistake)
        if status in (0, None) or not re.search(says, output):
            faults += 1
            print(f"no message says {says!r}:\n{output[-3000:]}")
    for case in TIMES:
        print(run(min(there, 8), case)[1])
    print(f"{faults} faults")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
