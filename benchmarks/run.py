#!/usr/bin/env python3
"""Measures the rows of rows.py and prints them as a table: what `./dev bench [--peers] [ROW...]` calls.

  --build DIR    where rill was built (default: build)
  --peers        measure torch, torch.compile, libtorch, JAX and TensorFlow too (.deps/peers; installed on first use);
                 the rows onnx_* always measure onnxruntime, where ./dev test has installed it (.deps/formats)
  --rounds N     how often each row goes round all libraries (default 3); the table shows medians over the rounds
  --tries N      how often a measurement is repeated when other programs took processor time meanwhile (default 4)
  --markdown     print the table as docs/benchmarks.md has it
  --show         measure nothing; print what DIR/bench.json holds
  --check        measure nothing; say whether there are such rows, and which examples they run

Results are merged into DIR/bench.json row by row, so that a run of a few rows refreshes these and keeps the others. A row
goes round everybody (ours, the limits, each peer, ours again, ...) before the next one starts, for the machine drifts by
tens of percent within minutes: compare numbers of one row, not of two. Start reading at main.
"""

import argparse
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import compiling
from peers import setup
from rows import BUSY_NETWORKS, DATA, DECODER, EAGER, NETWORKS, ROWS, STEPS

STEP_PEERS = ("torch", "jax", "keras")
DATA_PEERS = ("tf", "torch", "grain", "pandas", "pyarrow", "polars")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CXX = os.environ.get("CXX", "c++")
ENV = {**os.environ, "OMP_NUM_THREADS": "2", "CCACHE_DISABLE": "1"}
ENV.pop("OMP_WAIT_POLICY", None)  # threads that sleep between small products cost every library some 10 us a product
PROCESS_ROWS = {}  # rows that are not a call in a loop, by name: the function that measures one round


class Worker:
    """A process that answers rows (answer.h and peers/common.py speak the same way). It starts when first asked."""

    alive = set()

    def __init__(self, *command):
        self.command, self.process = [str(c) for c in command], None

    def ask(self, row):
        if not Path(self.command[0]).exists():
            return []  # limits is not built for every processor
        if not self.process:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENV
            )
            Worker.alive.add(self.process.pid)
        print(row, file=self.process.stdin, flush=True)
        answers = []
        for line in self.process.stdout:
            if not line.strip():
                return answers
            answers.append(json.loads(line))
        Worker.alive.discard(self.process.pid)
        self.process = None
        return [{"row": row, "peer": Path(self.command[-1]).stem, "error": "the process ended"}]

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait(30)
            Worker.alive.discard(self.process.pid)


# --- A quiet machine -------------------------------------------------------------------------------------------------

QUIET = 0.05  # of one core's time may go to somebody else while we measure
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    """Processor time used so far by everybody on this machine, and by us and the programs that we started."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, soft, steal = (int(t) for t in stat.readline().split()[1:9])
    mine = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    for pid in Worker.alive:
        with open(f"/proc/{pid}/stat") as stat:
            mine += sum(int(t) for t in stat.read().rpartition(")")[2].split()[11:13]) / TICKS
    return (user + nice + system + irq + soft + steal) / TICKS, mine


def undisturbed(measure, tries):
    """What measure() returns, from the try in which other programs took the least processor time.

    One busy neighbour on a machine of two cores makes threads that wait for each other ten times slower, and medians do
    not heal that. So we look who used the processors, and measure again where it was not us.
    """
    best = None
    for _ in range(tries):
        begin, (all_before, mine_before) = time.monotonic(), cpu_seconds()
        answers = measure()
        all_after, mine_after = cpu_seconds()
        others = (all_after - all_before - (mine_after - mine_before)) / (time.monotonic() - begin)
        if best is None or others < best[0]:
            best = others, answers
        if others < QUIET:
            break
    return [{**answer, "others": round(max(0, best[0]), 3)} for answer in best[1]]


def run(command, **options):
    """subprocess.run with the output captured; a program that was not built looks like one that failed."""
    command = [str(c) for c in command]
    try:
        return subprocess.run(command, env=options.pop("env", ENV), capture_output=True, text=True, **options)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not built")


def last_line(done):
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode} and no word"])[-1][:200]


# --- Networks --------------------------------------------------------------------------------------------------------

FORMATS = ROOT / ".deps" / "formats" / "bin" / "python"  # ./dev test makes it; it has onnx and onnxruntime


def make_networks(build):
    """The files of the rows onnx_*, in a folder that the environment names from now on."""
    folder, script = (build / "networks").resolve(), ROOT / "tests" / "fixtures" / "onnx" / "networks.py"
    ENV["RILL_BENCH_NETWORKS"] = str(folder)
    made = folder / "made"
    if FORMATS.exists() and (not made.exists() or made.read_text().split() != list(NETWORKS)):
        subprocess.run([FORMATS, script, folder], check=True)
        made.write_text("\n".join(NETWORKS))


# --- Rows that are a call in a loop ----------------------------------------------------------------------------------


# How Google Benchmark repeats a row. Where others take cores, the mean over a repetition is mostly the time in which they
# had them: there, as peers/common.py does for everybody else, the median over many batches of a millisecond or two.
QUIET_REPEATS = ("--benchmark_repetitions=5", "--benchmark_min_time=0.08")
BUSY_REPEATS = ("--benchmark_repetitions=250", "--benchmark_min_time=0.0015")


def ours(build, row, repeats=QUIET_REPEATS):
    """One round of our own row: Google Benchmark's median of the repetitions."""
    program = "networks" if row.startswith("onnx_") else "rows"
    for rows, other in ((EAGER, "eager"), (STEPS, "steps"), ((*DATA, DECODER), "data_rows")):
        program = other if row in rows else program
    command = [build / "benchmarks" / program, f"--benchmark_filter=^{row}(/.*)?$", "--benchmark_format=json"]
    command += [*repeats, "--benchmark_report_aggregates_only=true"]
    # Every kernel is compiled before the timing starts; what waiting for the compiler costs is row first_call.
    done = run(command, env={"RILL_JIT": "wait", **ENV})
    if done.returncode:
        return {"error": last_line(done)}
    results = json.loads(done.stdout)["benchmarks"] if done.stdout else []
    to_us = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
    for r in results:
        if r.get("error_occurred"):
            return {"error": r["error_message"]}
        if r.get("aggregate_name") == "median":
            return {"median_us": r["real_time"] * to_us[r["time_unit"]]}
    return {"error": "no such row"}


def looped(row, build, workers, peers, tries):
    def ask(name, what=row.name):
        return undisturbed(lambda: workers[name].ask(what), tries)

    if row.name.startswith("onnx_"):
        answers = [("ours", "rill", a) for a in undisturbed(lambda: [ours(build, row.name)], tries)]
        return answers + [("peers", a["peer"], a) for a in ask("onnxruntime")]
    if row.name.startswith("busy_"):
        return beside_busy_programs(row.name, build, workers, peers)
    answers = [("ours", "rill", a) for a in undisturbed(lambda: [ours(build, row.name)], tries)]
    answers += [("limits", a["peer"], a) for a in ask("limits")]
    if row.flops:
        gemm = ask("limits", "matmul_2048")
        answers += [("limits", "flops at GEMM peak", {**a, "median_us": a["median_us"] * row.flops / 2 / 2048**3}) for a in gemm]
    libraries = ("libtorch", "torch", "jax", "tf")
    if row.name == "data_jpeg":
        answers += [("limits", "libjpeg-turbo", a) for a in undisturbed(lambda: [ours(build, DECODER)], tries)]
    if row.name in EAGER:
        libraries = ("arrays numpy", "arrays torch", "arrays jax")
    elif row.name in STEPS:
        libraries = [f"steps {name}" for name in STEP_PEERS]
    elif row.name in DATA:
        libraries = [f"data {name}" for name in DATA_PEERS]
    for name in libraries if peers else ():
        answers += [("peers", a["peer"], a) for a in ask(name)]
    return answers


BUSY = {"busy_tiny": "train_tiny", "busy_mlp": "train_mlp", "busy_lstm": "lstm_scan"}


def beside_busy_programs(name, build, workers, peers):
    """Another row while loops take cores. Nobody looks for a quiet machine here: it is not one."""
    row, count = BUSY.get(name), 1
    pin = "import os\nos.sched_setaffinity(0, {0})\n"  # one busy core: the other is ours
    if not row:
        network, count = BUSY_NETWORKS[name]
        row, pin = f"onnx_{network}", ""
    others = [subprocess.Popen([sys.executable, "-c", f"{pin}while True: pass"]) for _ in range(count)]
    try:
        answers = [("ours", "rill", ours(build, row, BUSY_REPEATS))]
        for peer in ("onnxruntime",) if name in BUSY_NETWORKS else ("torch", "jax") if peers else ():
            answers += [("peers", a["peer"], a) for a in workers[peer].ask(row)]
        return answers
    finally:
        for other in others:
            other.kill()
            other.wait()


# --- Rows that need a process of their own ---------------------------------------------------------------------------


def process_row(f):
    PROCESS_ROWS[f.__name__] = f
    return f


def peer_script(name):
    return [setup.PYTHON, HERE / "peers" / f"peer_{name}.py"]


def run_json(command, env=ENV):
    """The last JSON line that a command prints; and the clock just before it started."""
    before = time.monotonic() * 1e6
    done = run(command, env=env)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": last_line(done)}, before
    return json.loads(lines[-1]), before


@process_row
def tu_compile(build, peers, first):
    def timed(flags, source):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            done = run([CXX, *flags, "-c", source, "-o", f"{folder}/it.o"])
            return {"error": last_line(done)} if done.returncode else {"median_us": (time.monotonic() - begin) * 1e6}

    cpp = ["-std=c++20", "-O2"]
    yield "ours", "rill", lambda: timed([*cpp, f"-I{HERE.parent}/include"], HERE / "tu_rill.cpp")
    if peers:
        yield "peers", "mlx", lambda: timed([*cpp, f"-I{setup.package('mlx')}/include"], HERE / "peers" / "tu_mlx.cpp")
    if peers and first:
        yield "peers", "libtorch", lambda: timed(setup.libtorch_flags()[0], HERE / "peers" / "tu_libtorch.cpp")


@process_row
def object_compile(build, peers, first):
    if first:  # a minute, and always the same work
        yield "ours", "rill", lambda: {"median_us": compiling.dearest(build) * 1e6}
    yield "limits", "compiler", lambda: {"median_us": compiling.yardstick() * 1e6}


@process_row
def start(build, peers, first):
    def until_result(*command):
        answer, before = run_json([*command, "--start"])
        return answer if "error" in answer else {"median_us": answer["clock_us"] - before}

    for _ in range(5):
        yield "ours", "rill", lambda: until_result(build / "benchmarks" / "process")
    if peers:
        yield "peers", "libtorch", lambda: until_result(setup.LIBTORCH)
        for name in ("jax", "torch", "tf"):
            yield "peers", name, lambda: until_result(*peer_script(name))


def fresh_caches(command, mode, argument=()):
    """The answer of a process that finds nothing compiled before."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {k: folder for k in ("XDG_CACHE_HOME", "RILL_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "HOME")}
        return run_json([*command, mode, *argument], {**ENV, **caches})


@process_row
def first_call(build, peers, first):
    def fresh(*command):
        return fresh_caches(command, "--first-call")[0]

    for _ in range(5):
        yield "ours", "rill", lambda: fresh(build / "benchmarks" / "process")
    if peers:
        yield "peers", "jax", lambda: fresh(*peer_script("jax"))
        yield "peers", "tf", lambda: fresh(*peer_script("tf"))
        yield "peers", "tf-xla", lambda: fresh(*peer_script("tf"), "--xla")
    if peers and first:
        yield "peers", "torch.compile", lambda: fresh(*peer_script("torch"))


@process_row
def first_100_steps(build, peers, first):
    def until_result(*command):
        answer, before = fresh_caches(command, "--100-steps")
        return answer if "error" in answer else {"median_us": answer["clock_us"] - before}

    yield "ours", "rill", lambda: until_result(build / "benchmarks" / "process")
    if peers:
        for name in ("jax", "torch"):
            yield "peers", name, lambda: until_result(*peer_script(name))


@process_row
def nn_build(build, peers, first):
    def until_result(*command):
        answer, before = fresh_caches(command, "--first-step")
        return answer if "error" in answer else {"median_us": answer["clock_us"] - before}

    yield "ours", "rill", lambda: until_result(build / "benchmarks" / "process")
    for name in ("torch", "keras") if peers else ():
        yield "peers", name, lambda: until_result(*peer_script("steps"), name)


@process_row
def varying_lengths(build, peers, first):
    yield "ours", "rill", lambda: fresh_caches([build / "benchmarks" / "process"], "--lengths")[0]
    if peers and first:
        for name in ("jax", "torch"):
            yield "peers", name, lambda: fresh_caches(peer_script(name), "--lengths")[0]


def compile_row(name, ops, with_peers):
    def row(build, peers, first):
        yield "ours", "rill", lambda: fresh_caches([build / "benchmarks" / "process"], "--compile", [str(ops)])[0]
        for peer in with_peers if peers and first else ():
            yield "peers", peer, lambda: fresh_caches(peer_script(peer), "--compile", [str(ops)])[0]

    PROCESS_ROWS[name] = row


compile_row("compile_1K", 1000, ["jax", "torch"])
compile_row("compile_10K", 10000, ["jax"])
compile_row("compile_50K", 50000, [])


@process_row
def core_size(build, peers, first):
    def stripped(library):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["strip", "-o", f"{folder}/it", library], check=True)
            return {"bytes": os.path.getsize(f"{folder}/it")}

    yield "ours", "rill", lambda: stripped(build / "librill.so")
    if peers:
        for name, library in (("libtorch", "torch/lib/libtorch_cpu.so"), ("mlx", "mlx/lib/libmlx.so")):
            yield "peers", name, lambda: {"bytes": setup.package(library).stat().st_size}


@process_row
def peak_memory(build, peers, first):
    command = [build / "benchmarks" / "process", "--peak-memory"]
    yield "ours", "rill", lambda: run_json(command, {"RILL_JIT": "wait", **ENV})[0]
    if peers:
        yield "peers", "libtorch", lambda: run_json([setup.LIBTORCH, "--peak-memory"])[0]
        for name in ("torch", "jax", "tf"):
            yield "peers", name, lambda: run_json([*peer_script(name), "--peak-memory"])[0]


def process_mode(name, with_peers, mode):
    """A row that a process of its own answers when it is started so."""

    def row(build, peers, first):
        command = [build / "benchmarks" / "process", *mode]
        yield "ours", "rill", lambda: run_json(command, {"RILL_JIT": "wait", **ENV})[0]
        for peer in with_peers if peers else ():
            yield "peers", peer, lambda: run_json([*peer_script(peer), *mode])[0]

    PROCESS_ROWS[name] = row


process_mode("tape_memory", ["torch"], ["--tape"])
process_mode("peak_block", ["torch", "jax"], ["--peak-memory", "block"])
process_mode("peak_deep", ["torch"], ["--peak-memory", "deep"])
process_mode("peak_deep_segments", ["torch"], ["--peak-memory", "segments"])
for model in ("mlp", "cnn", "block"):
    process_mode(f"backward_{model}", ["torch"], ["--backward", model, "traced"])
    process_mode(f"backward_{model}_eager", ["torch"], ["--backward", model, "eager"])


FIT_PEERS = ("keras-tf", "keras-jax", "torch", "lightning")
DIGITS = ROOT / "examples" / "data"


def fit_row(name, *mode):
    """A row of the training loop, in a process that finds nothing compiled before."""

    def until_result(*command):
        answer, before = fresh_caches(command, *mode[:1], mode[1:])
        if "clock_us" not in answer:
            return answer
        return {"median_us": answer["clock_us"] - before} if answer["clock_us"] else {"error": "97 % was not reached"}

    def row(build, peers, first):
        yield "ours", "rill", lambda: until_result(build / "benchmarks" / "fit")
        for peer in FIT_PEERS if peers and first else ():
            yield "peers", peer, lambda: until_result(*peer_script("fit"), peer)

    PROCESS_ROWS[name] = row


fit_row("fit_overhead", "--overhead")
fit_row("fit_digits", "--digits", str(DIGITS))
fit_row("fit_small_batches", "--small", str(DIGITS))


EXAMPLES = {"demo_mnist": "examples/mnist", "digits_resnet": "examples/training/digits"}  # that rows run


def trained(accuracy, command, least=0.0, **options):
    """How long a program trained that prints its accuracy, which must not be below `least`; a number of 100 is percent."""
    begin = time.monotonic()
    done = run(command, **options)
    found = re.search(accuracy, done.stdout)
    if done.returncode or not found:
        return {"error": last_line(done)}
    share = float(found[1]) / (100 if "%" in accuracy else 1)
    if share < least:
        return {"error": f"an accuracy of {share:.4f}, and {least:g} is what others reach"}
    return {"median_us": (time.monotonic() - begin) * 1e6, "accuracy": share}


@process_row
def digits_resnet(build, peers, first):
    """The whole processes, ours and Keras's, and what each tells right of a thousand digits that it has not seen."""
    if first:
        yield "ours", "rill", lambda: trained(r"accuracy on the thousand +([\d.]+)", [build / EXAMPLES["digits_resnet"]], 0.985)
    if first and peers:
        keras = [setup.PYTHON, ROOT / "examples" / "training" / "peers.py", "digits"]
        yield "peers", "keras-tf", lambda: trained(r"digits .* ([\d.]+)", keras)


@process_row
def demo_mnist(build, peers, first):
    """Ours from start to exit; TensorFlow's training alone, without its imports, which is the harder comparison."""
    data = DIGITS

    def demo():
        with tempfile.TemporaryDirectory() as folder:
            return trained(r"test accuracy ([\d.]+) %", [build.resolve() / "examples" / "mnist", "--data", data], cwd=folder)

    if first:
        yield "ours", "rill", demo
    if first and peers:
        yield "peers", "tf", lambda: run_json([setup.PYTHON, HERE / "peers" / "demo_tf.py", data])[0]


# --- From answers to a table -----------------------------------------------------------------------------------------


def measure(row, build, workers, peers, rounds, tries):
    """{"ours": {name: samples}, "limits": ..., "peers": ..., "errors": {name: text}, ...} of one row."""
    result = {"ours": {}, "limits": {}, "peers": {}, "errors": {}, "disturbed": {}, "accuracies": {}}
    for i in range(rounds):
        if row.name in PROCESS_ROWS:
            things = PROCESS_ROWS[row.name](build, peers, i == 0)
            answers = [(kind, name, a) for kind, name, thing in things for a in undisturbed(lambda: [thing()], tries)]
        else:
            answers = looped(row, build, workers, peers, tries)
        for kind, name, answer in answers:
            if "error" in answer:
                result["errors"][name] = answer["error"]
            else:
                sample = (answer.get("median_us", answer.get("bytes")), answer.get("others", 0))
                result[kind].setdefault(name, []).append(sample)
                if "accuracy" in answer:
                    result["accuracies"][name] = answer["accuracy"]
        show_progress(row.name, i + 1, rounds)
    for samples in (result["ours"], result["limits"], result["peers"]):
        for name, found in samples.items():  # disturbed samples count only where there are no others
            quiet = [value for value, others in found if others < QUIET]
            samples[name] = quiet or [value for value, _ in found]
            if not quiet:
                result["disturbed"][name] = min(others for _, others in found)
    return {**result, "when": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())}


def show_progress(name, done, rounds):
    if sys.stderr.isatty():
        print(f"\r\033[K{name} {done}/{rounds}", end="" if done < rounds else "\r\033[K", file=sys.stderr, flush=True)


def best(samples):
    """(name, median) of the fastest, or (None, None)."""
    medians = {name: statistics.median(values) for name, values in samples.items()}
    name = min(medians, key=medians.get) if medians else None
    return name, medians.get(name)


def scaled_goal(row, measured, limit):
    """The row's absolute goal for this machine: times what the measurement beside the goal takes here and took there."""
    if not row.there:
        return None
    name, took = row.there
    here = limit if name == "limit" else measured["peers"].get(name) and statistics.median(measured["peers"][name])
    return here and row.goal * here / took


def summary(row, measured):
    """What one line of the table says, as data."""
    _, mine = best(measured["ours"])
    peer, theirs = best(measured["peers"])
    limit_name, limit = best(measured["limits"])
    goal = row.goal
    if row.of_limit:
        goal = limit and row.of_limit * limit
    if row.of_peer:
        goal = theirs and row.of_peer * theirs
    return {
        "row": row.name, "work": row.work, "unit": row.unit, "ours": mine, "best_peer": peer, "peer": theirs,
        "limit_name": limit_name, "limit": limit, "goal": goal, "scaled_goal": scaled_goal(row, measured, limit),
        "times_faster": theirs / mine if mine and theirs else None, "met": mine <= goal if mine and goal else None,
    }  # fmt: skip


def amount(value, unit):
    if value is None:
        return "-"
    if unit == "ratio":
        return f"{value:.3g}"
    if unit == "size":
        return f"{value / (1 << 20):.3g} MB"
    for scale, name in ((1e6, "s"), (1e3, "ms")):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:.3g} us"


def cells(row, s):
    goal = amount(s["goal"], row.unit)
    if row.of_limit:
        goal = f"{row.of_limit:g} x limit" + (f" ({goal})" if s["goal"] else "")
    if row.of_peer:
        goal = "faster than the peer"
    met = {True: "yes", False: "no", None: "-"}[s["met"]]
    if s["met"] is False and s["scaled_goal"] and s["ours"] <= s["scaled_goal"]:
        met = "scaled"
    return [
        s["row"],
        amount(s["ours"], row.unit),
        f"{amount(s['peer'], row.unit)} {s['best_peer'] or ''}".strip(),
        amount(s["limit"], row.unit),
        goal,
        amount(s["scaled_goal"], row.unit),
        "-" if s["times_faster"] is None else f"{s['times_faster']:.3g}x",
        met,
    ]


SCALED = (
    "The absolute goals were set on another machine. The column `scaled` converts a goal to this machine: the goal times the "
    "ratio of what the limit, or one other library, takes here and took there (rows.py). `met` says `scaled` where a row "
    "meets only the converted goal."
)
HEAD = ["row", "ours", "best peer", "limit", "goal", "scaled", "peer / ours", "met"]


def table(lines, markdown):
    lines = [HEAD, *lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    padded = [[c.ljust(w) for c, w in zip(line, widths)] for line in lines]
    if not markdown:
        return "\n".join("  ".join(line).rstrip() for line in padded)
    padded.insert(1, ["-" * w for w in widths])
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def machine():
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores"


def versions():
    packages = ("torch", "jax", "tensorflow-cpu", "mlx")
    code = f"import importlib.metadata as m\nfor p in {packages}: print(p, m.version(p))"
    done = subprocess.run([setup.PYTHON, "-c", code], capture_output=True, text=True)
    return ", ".join(done.stdout.splitlines())


def markdown(report, lines):
    text = ["# Benchmarks", "", "Printed by `./dev bench --peers --markdown`; `benchmarks/run.py` explains how it measures.", ""]
    text += [f"Machine: {report['machine']}. {report.get('versions', '')}".strip(), ""]
    text += [SCALED, "", table(lines, True), ""]
    text += ["| row | work |", "| --- | --- |"]
    text += [f"| {row.name} | {row.work} |" for row in ROWS if row.name in report["rows"]]
    return "\n".join([*text, "", "Next: [Sweep](sweep.md)"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows of rows.py; all of them without any")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tries", type=int, default=4)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    unknown = set(args.rows) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"no row called {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in ROWS)}")
    asked = [row for row in ROWS if row.name in args.rows or not args.rows]
    if args.check:
        return print(*(EXAMPLES[row.name] for row in asked if row.name in EXAMPLES))

    path = args.build / "bench.json"
    report = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    if not args.show:
        if not shutil.which("strip") and any(row.name == "core_size" for row in asked):
            parser.error("row core_size needs `strip` (Debian: binutils)")
        networks = [row for row in asked if row.name.startswith("onnx_") or row.name in BUSY_NETWORKS]
        if networks:
            make_networks(args.build)
        if args.peers and len(networks) < len(asked):
            setup.ensure()
            report["versions"] = versions()
        report["machine"] = machine()
        ENV["RILL_BENCH_DATA"] = str((args.build / "bench-data").resolve())
        workers = {"limits": Worker(args.build / "benchmarks" / "limits"), "libtorch": Worker(setup.LIBTORCH)}
        workers |= {name: Worker(*peer_script(name)) for name in ("torch", "jax", "tf")}
        workers |= {f"arrays {name}": Worker(*peer_script("arrays"), name) for name in ("numpy", "torch", "jax")}
        workers |= {f"steps {name}": Worker(*peer_script("steps"), name) for name in STEP_PEERS}
        workers |= {f"data {name}": Worker(*peer_script("data"), name) for name in DATA_PEERS}
        workers["onnxruntime"] = Worker(FORMATS, HERE / "peers" / "peer_onnxruntime.py")
        try:
            for row in asked:
                measured = measure(row, args.build, workers, args.peers, args.rounds, args.tries)
                report["rows"][row.name] = {**summary(row, measured), **measured}
                path.write_text(json.dumps(report, indent=1) + "\n")
        finally:
            for worker in workers.values():
                worker.stop()

    shown = [row for row in asked if row.name in report["rows"]]
    results = [summary(row, report["rows"][row.name]) | {"unit": row.unit} for row in shown]
    lines = [cells(row, s) for row, s in zip(shown, results)]
    print(markdown(report, lines) if args.markdown else table(lines, False))
    for row in shown:
        for name, error in report["rows"][row.name]["errors"].items():
            print(f"{row.name}: {name}: {error}", file=sys.stderr)
        for name, accuracy in report["rows"][row.name].get("accuracies", {}).items():
            print(f"{row.name}: {name}: {accuracy:.2%} of the thousand are right", file=sys.stderr)
    disturbed = [row.name for row in shown if report["rows"][row.name]["disturbed"]]
    if disturbed:
        print(f"other programs were busy while these were measured: {', '.join(disturbed)}", file=sys.stderr)
    met = [s["met"] for s in results]
    print(f"{met.count(True)} of {len(met)} goals met; all numbers in {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
