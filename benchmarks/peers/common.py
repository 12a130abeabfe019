"""What the Python peers share: how a call is timed and how rows are asked for.

A peer is a process that stays alive, so that run.py can ask it for one row, then ask another peer for the same row, and so
on in rounds: every library meets the same drift of the machine. Start reading at `serve`.

By hand:  python peer_torch.py small_add softmax        (answers these rows, then exits)
"""

import json
import os
import statistics
import sys
import time

THREADS = 2
SECONDS = float(os.environ.get("RILL_BENCH_SECONDS", 0.4))  # each row is timed for this long, in each round
# As in answer.h: `cpu` counts the processor time of this process.
now = time.process_time if os.environ.get("RILL_BENCH_CLOCK") == "cpu" else time.perf_counter
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
os.environ.setdefault("MKL_NUM_THREADS", str(THREADS))


def median_us(call, finish=lambda result: None, calls_per_run=1, average=statistics.median):
    """Median time of one call, in microseconds, over batches of at least a millisecond.

    Beside busy programs a batch either runs undisturbed or waits for a core, so that a median of such short ones leaves out
    all waiting; `average` is then the mean, which Google Benchmark takes of our rows as well.
    `finish(result)` waits until the last result of a batch exists (JAX returns before it does). A `call` that does
    several pieces of work says how many in `calls_per_run`.
    """
    finish(call())
    batch, spent = 1, 0.0
    while True:  # grow the batch until the clock's own cost is far below what is measured
        spent = _time(call, finish, batch)
        if spent >= 1e-3 or batch >= 1 << 16:
            break
        batch = max(batch + 1, min(batch * 8, int(batch * 1.5e-3 / max(spent, 1e-7))))
    if spent > 3:  # a pass over millions of elements in Python: once more
        return min(spent, _time(call, finish, batch)) / batch / calls_per_run * 1e6
    samples = [_time(call, finish, batch)]
    end = now() + SECONDS
    while now() < end or len(samples) < 5:
        samples.append(_time(call, finish, batch))
    return average(samples) / batch / calls_per_run * 1e6


def _time(call, finish, batch):
    start = now()
    for _ in range(batch):
        result = call()
    finish(result)
    return now() - start


def serve(rows, finish=lambda result: None):
    """Answers rows named on the command line or, without one, one a line on standard input.

    `rows` maps a row's name to a function that prepares it and returns {peer: call} or {peer: (call, calls_per_run)}.
    Each answer is a JSON line {"row", "peer", "median_us"} for every way this library has to do the work; an empty line
    ends the row. "ROW mean" asks for the mean in its place.
    """
    prepared = {}  # only the row requested last is kept, so that large ones do not add up
    names = sys.argv[1:]
    for line in names or sys.stdin:
        name, *how = line.split()
        average = statistics.mean if how else statistics.median
        if name not in prepared:
            prepared.clear()
            if name in rows:
                prepared[name] = rows[name]()
        for peer, call in prepared.get(name, {}).items():
            call, per_run = call if isinstance(call, tuple) else (call, 1)
            try:
                answer = {"row": name, "peer": peer, "median_us": median_us(call, finish, per_run, average)}
            except Exception as error:  # a peer that cannot run a row reports it and continues
                answer = {"row": name, "peer": peer, "error": f"{type(error).__name__}: {error}"[:300]}
            print(json.dumps(answer), flush=True)
        print(flush=True)


def first_call_main(make, peer):
    """`PEER.py --first-call`: the time from a plain Python function to its first compiled result."""
    start = time.perf_counter()
    make()
    print(json.dumps({"row": "first_call", "peer": peer, "median_us": (time.perf_counter() - start) * 1e6}))


def start_main(peer):
    """`PEER.py --start`: prints the monotonic clock; the parent took it before it started this process."""
    print(json.dumps({"row": "start", "peer": peer, "clock_us": time.monotonic() * 1e6}))


def peak_memory_main(peer, step):
    """`PEER.py --peak-memory`: the resident peak of a process that did a few training steps, in bytes."""
    for _ in range(5):
        step()
    print(json.dumps({"row": "peak_memory", "peer": peer, "bytes": peak_bytes()}))


def peak_bytes():
    """The most that was resident of this process so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
