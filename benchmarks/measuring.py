"""How run.py gets its numbers: the programs and peers that it asks, a quiet machine, rows that are a call in a loop, and
rows that need a process of their own (PROCESS_ROWS). Start at looped(), and at process_row().
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import compiling
from peers import setup
from rows import BUSY_NETWORKS, DATA, DECODER, EAGER, NETWORKS, STEPS

STEP_PEERS = ("torch", "jax", "keras")
DATA_PEERS = ("tf", "torch", "grain", "pandas", "pyarrow", "polars")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CXX = os.environ.get("CXX", "c++")
ENV = {**os.environ, "OMP_NUM_THREADS": "2", "CCACHE_DISABLE": "1"}
ENV.pop("OMP_WAIT_POLICY", None)  # threads that sleep between small products cost every library some 10 us a call
# Settings that keep a library from wider instructions, by the name of the widest allowed one. onnxruntime has none.
HELD_DOWN = {
    "avx2": {
        "RILL_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    }
}  # fmt: skip
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

QUIET = 0.05  # the fraction of one core's time that others may use while we measure
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

FORMATS = ROOT / ".deps" / "formats" / "bin" / "python"  # `./dev bench` and `./dev test` make it; it has onnx and onnxruntime


def make_networks(build):
    """The files of the rows onnx_*, in a folder that the environment names from now on."""
    folder, script = (build / "networks").resolve(), ROOT / "tests" / "fixtures" / "onnx" / "networks.py"
    ENV["RILL_BENCH_NETWORKS"] = str(folder)
    made = folder / "made"
    if not FORMATS.exists():
        return print(f"onnx, which writes the networks of the rows onnx_*, is not installed in {FORMATS}", file=sys.stderr)
    if not made.exists() or made.read_text().split() != list(NETWORKS):
        subprocess.run([FORMATS, script, folder], check=True)
        made.write_text("\n".join(NETWORKS))


# --- Rows that are a call in a loop ----------------------------------------------------------------------------------


def ours(build, row):
    """One round of our own row: Google Benchmark's median of five repetitions."""
    program = "networks" if row.startswith("onnx_") else "rows"
    for rows, other in ((EAGER, "eager"), (STEPS, "steps"), ((*DATA, DECODER), "data_rows")):
        program = other if row in rows else program
    command = [build / "benchmarks" / program, f"--benchmark_filter=^{row}(/.*)?$", "--benchmark_format=json"]
    command += ["--benchmark_repetitions=5", "--benchmark_min_time=0.08", "--benchmark_report_aggregates_only=true"]
    # Every kernel is compiled before the timing starts; row first_call measures waiting for the compiler.
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
    """Another row while loops take cores, as means. Nobody looks for a quiet machine here: it is not one."""
    row, count = BUSY.get(name), 1
    pin = "import os\nos.sched_setaffinity(0, {0})\n"  # one busy core: the other is ours
    if not row:
        network, count = BUSY_NETWORKS[name]
        row, pin = f"onnx_{network}", ""
    others = [subprocess.Popen([sys.executable, "-c", f"{pin}while True: pass"]) for _ in range(count)]
    try:
        answers = [("ours", "rill", ours(build, row))]
        for peer in ("onnxruntime",) if name in BUSY_NETWORKS else ("torch", "jax") if peers else ():
            answers += [("peers", a["peer"], a) for a in workers[peer].ask(f"{row} mean")]
        return answers
    finally:
        for other in others:
            other.kill()
            other.wait()


def peer_script(name):
    return [setup.PYTHON, HERE / "peers" / f"peer_{name}.py"]


def all_workers(build):
    """Everybody that looped() may ask, by name. None has started yet."""
    workers = {"limits": Worker(build / "benchmarks" / "limits"), "libtorch": Worker(setup.LIBTORCH)}
    workers |= {name: Worker(*peer_script(name)) for name in ("torch", "jax", "tf")}
    workers |= {f"arrays {name}": Worker(*peer_script("arrays"), name) for name in ("numpy", "torch", "jax")}
    workers |= {f"steps {name}": Worker(*peer_script("steps"), name) for name in STEP_PEERS}
    workers |= {f"data {name}": Worker(*peer_script("data"), name) for name in DATA_PEERS}
    workers["onnxruntime"] = Worker(FORMATS, HERE / "peers" / "peer_onnxruntime.py")
    return workers


# --- Rows that need a process of their own ---------------------------------------------------------------------------


def process_row(f):
    PROCESS_ROWS[f.__name__] = f
    return f


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
        if answer.get("median_us", 1) <= 0:  # a difference of two times
            return {"error": "the noise is larger than the difference"}
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
    seconds = time.monotonic() - begin
    found = re.findall(accuracy, done.stdout)
    if done.returncode or not found:
        return {"error": last_line(done)}
    right = float(found[-1]) / (100 if "%" in accuracy else 1)  # the last line is about the trained network
    if right < least:
        return {"error": f"an accuracy of {right:.4f}, and {least:g} is what others reach"}
    return {"median_us": seconds * 1e6, "accuracy": right}


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
