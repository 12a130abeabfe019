"""Ends ranks of a training run by kill -9, again and again, and starts it anew: each time the job must end within seconds with a
message that names the rank, and at last the weights must have the bits of a run that nobody disturbed.

usage: kills.py PROGRAM [KILLS] [SEED]        PROGRAM: distribute_program
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MOST_SECONDS = 10


def start(ranks, program, folder, env):
    # A file and not a pipe, which a rank that lives on would hold open.
    output = tempfile.TemporaryFile("w+")
    return subprocess.Popen(["mpirun", "-n", str(ranks), program, "killed", folder], env=env, stdout=output,
                            stderr=subprocess.STDOUT), output


def wait_long(job):
    """On a machine that has much else to do a run of a second takes minutes."""
    try:
        job.wait(timeout=1200)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


def text_of(output):
    output.seek(0)
    return output.read()


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as text:
            return text.read().split(b"\0")
    except OSError:
        return []


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as text:
            return [int(child) for child in text.read().split()]
    except OSError:
        return []


def rank_pid(job, rank):
    """Of a rank that has been started, or none."""
    wanted = {f"OMPI_COMM_WORLD_RANK={rank}".encode(), f"PMI_RANK={rank}".encode()}
    below = children(job.pid)
    for pid in below + [p for b in below for p in children(b)]:
        if wanted & set(environment(pid)):
            return pid
    return None


def kill_one(ranks, program, folder, env, draw, span):
    """Kills a rank after a while: (whether it was one in time, a fault or none)."""
    job, output = start(ranks, program, folder, env)
    time.sleep(draw.uniform(0.05, span))
    rank = draw.randrange(ranks)
    pid = rank_pid(job, rank)
    if pid is None:
        job.wait(timeout=120)
        return False, None
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    try:
        status = job.wait(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        job.kill()
        return True, f"rank {rank} was killed, and the job did not end in {MOST_SECONDS} s:\n{text_of(output)[-2000:]}"
    took, text = time.monotonic() - began, text_of(output)
    if status == 0:
        return "bits" in text, None  # it had ended just before
    if not re.search(rf"rank {rank}\b.*(signal 9|Killed)|RANK {rank} PID.*KILLED BY SIGNAL: 9", text, re.S | re.I):
        return True, f"rank {rank} was killed, and no message names it after {took:.1f} s:\n{text[-2000:]}"
    return True, None


def check(program, kills, seed, env, ranks_of=(2, 3, 4), tell=lambda done: None):
    """Faults, and how many kills there were; `tell` is told of these now and then."""
    draw, faults, done = random.Random(seed), [], 0
    undisturbed = {}
    for ranks in ranks_of:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            job, output = start(ranks, program, folder, env)
            wait_long(job)
            found = re.search(r"epochs \d+ bits \w+", text_of(output))
            undisturbed[ranks] = found[0] if found else text_of(output)[-500:], time.monotonic() - began
    while done < kills and len(faults) < 5:
        ranks = ranks_of[draw.randrange(len(ranks_of))]
        expected, span = undisturbed[ranks]
        folder = tempfile.mkdtemp()
        for _ in range(draw.randint(1, 4)):  # also a run that was killed and has gone on
            was_killed, fault = kill_one(ranks, program, folder, env, draw, span)
            done += was_killed
            if fault:
                faults.append(f"kill {done}: {fault}")
        job, output = start(ranks, program, folder, env)
        wait_long(job)
        if job.returncode != 0 or expected not in text_of(output):
            faults.append(f"after kill {done}, on {ranks} ranks: {expected} expected:\n{text_of(output)[-2000:]}")
        shutil.rmtree(folder, ignore_errors=True)
        tell(done)
    return faults, done


if __name__ == "__main__":
    OPTIONS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}
    FAULTS, DONE = check(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200,
                         int(sys.argv[3]) if len(sys.argv) > 3 else 1, os.environ | OPTIONS,
                         tell=lambda done: print(f"{done} kills", flush=True))
    print(*FAULTS, f"{DONE} kills, {len(FAULTS)} faults", sep="\n")
    sys.exit(1 if FAULTS else 0)
