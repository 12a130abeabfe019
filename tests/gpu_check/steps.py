"""The steps of run.py, in order of what they teach: what fails early must not cost what comes after. STEPS, at the end, is
the list; each takes the Run. A rehearsal on the simulated driver, which is a thousand times slower, takes fractions."""
import ctypes
import glob
import itertools
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FRACTIONS = ("every 16th case of test_gpu*, a 64th of test_ops, 4 random programs, 100 random calls, a 400th of the oracle, "
             "96 digits, rows of 64 to 4096 elements, stand-ins for compute-sanitizer, ncu and torch")
# CU_DEVICE_ATTRIBUTE_...
ATTRIBUTES = {"compute capability, major": 75, "minor": 76, "multiprocessors": 16, "warp size": 10,
              "threads of a block": 1, "shared memory of a block": 8, "with opt-in": 97, "registers of a block": 12,
              "L2 bytes": 38, "clock, kHz": 13, "memory clock, kHz": 36, "memory bus, bits": 37, "copy engines": 40,
              "unified addressing": 41, "managed memory": 83, "reads the host's pageable memory": 88,
              "memory pools": 115, "concurrent kernels": 31, "ECC": 32}


# --- What the machine has --------------------------------------------------------------------------------------------

def has_cxx_library():
    """Whether the machine's C++ library is as new as what our programs were linked with (GCC 12)."""
    for path in glob.glob("/usr/lib/*/libstdc++.so.6") + glob.glob("/usr/lib64/libstdc++.so.6"):
        if b"GLIBCXX_3.4.30" in pathlib.Path(path).read_bytes():
            return True
    return False


def folders_of_nvidia():
    """Where wheels of Python have CUDA's libraries."""
    return sorted({os.path.dirname(file) for folder in sys.path
                   for file in glob.glob(f"{folder}/nvidia/**/lib/lib*.so*", recursive=True)})


def tool(run, name):
    """compute-sanitizer or ncu, where it is found; in a rehearsal a stand-in that runs the program alone."""
    if run.simulated:
        path = run.work / name
        path.write_text('#!/bin/sh\nwhile case "$1" in -*) true;; *) false;; esac; do shift; done\n"$@"\n')
        path.chmod(0o755)
        return path
    places = [*glob.glob(f"/usr/local/cuda*/bin/{name}"), *glob.glob(f"/opt/nvidia/nsight-compute/*/{name}"),
              *glob.glob(f"/usr/local/cuda*/compute-sanitizer/{name}")]
    return shutil.which(name) or next(iter(sorted(places, reverse=True)), None)


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch; torch.zeros(1).cuda()"], capture_output=True).returncode == 0


def attributes():
    """Prints what the driver says of its first GPU. Called in a process of its own."""
    cuda = ctypes.CDLL("libcuda.so.1")
    number, name = ctypes.c_int(), ctypes.create_string_buffer(100)
    print("cuInit", cuda.cuInit(0))
    cuda.cuDriverGetVersion(ctypes.byref(number))
    print("driver for CUDA", number.value)
    cuda.cuDeviceGetCount(ctypes.byref(number))
    print("GPUs", number.value)
    if hasattr(cuda, "cuDeviceGetName") and cuda.cuDeviceGetName(name, 100, 0) == 0:
        print("name", name.value.decode())
    for what, which in ATTRIBUTES.items():
        if cuda.cuDeviceGetAttribute(ctypes.byref(number), which, 0) == 0:
            print(what, number.value)


def machine(run):
    glibc = platform.libc_ver()[1]
    version = lambda text: tuple(map(int, re.findall(r"\d+", text)[:2]))
    run.report.add("machine", "glibc", "passed" if version(glibc) >= version(run.about["glibc"]) else "failed",
                   note=f"{glibc}; {run.about['glibc']} is needed")
    found = {name: str(tool(run, name)) for name in ("compute-sanitizer", "ncu")}
    run.report.add("machine", "what is there", "passed", note=f"{platform.platform()}, {os.cpu_count()} processors, "
                   f"Python {platform.python_version()}, {found}, wheels in {folders_of_nvidia()}")
    run.case("attributes", [sys.executable, HERE / "steps.py"], 15, **run.plain)
    if shutil.which("nvidia-smi"):
        run.case("nvidia-smi", ["nvidia-smi", "-q"], 15, **run.plain)
    run.case("libraries", ["sh", "-c", "ldconfig -p | grep -iE 'cuda|nvrtc|cudnn|cublas|libstdc|libgomp' || true"], 10, **run.plain)
    for library in ("libcudnn.so.9", "libcublasLt.so.13", "libcublasLt.so.12", "libnvrtc.so.13", "libnvrtc.so.12"):
        run.case(f"opens {library}", [sys.executable, "-c", f"import ctypes\ntry: print(ctypes.CDLL('{library}'))\n"
                                      "except OSError as e: print('skipped:', e)"], 20)


# --- Whether it is right ---------------------------------------------------------------------------------------------

def listed(run, kind):
    _, _, text = run.process([run.program("tests/gpu_probe"), "list"], 20)
    return re.findall(rf"^{kind} (\S+)$", text, re.M)


def smoke(run):
    programs = listed(run, "program")
    if not programs:
        raise RuntimeError("gpu_probe does not start")
    for name in programs:
        run.case(name, [run.program("tests/gpu_probe"), name], 20 if not run.simulated else 60)


def gpu_tests(run):
    """A process a case: an address that is not there ends a context, and with it all that comes after in its process."""
    quoted = lambda name: re.sub(r'([\\,\[\]"*~])', r"\\\1", name)
    every = [(f"{program}: {name}", [run.program(f"tests/{program}"), quoted(name)], 110, {})
             for program, names in run.about["cases"].items() for name in names]
    run.cases(every[::16] if run.simulated else every)


def ops(run):
    """Every op, random programs and calls against the CPU, and the oracle's cases: shares side by side."""
    n, part = min(run.jobs, 8), 32 if run.simulated else 1
    on_gpu = {"RILL_TEST_DEVICE": "gpu:0"}
    tests, limit = run.program("tests"), run.left() / (3 if run.simulated else 1)
    cases = []
    for i in range(n):
        cases += [
            (f"test_ops, share {i}", [tests / "test_ops"], limit,
             on_gpu | {"RILL_TEST_SHARE": n * part, "RILL_TEST_TURN": i}),
            (f"the oracle's cases, share {i}",
             [tests / "oracle", run.pack / "data/cases.gz", "--compile", 8, "--device", "gpu:0", "--every",
              n * (200 if part > 1 else 1)], limit, {"RILL_TEST_TURN": i}),
            (f"random programs, share {i}", [tests / "test_random_programs"], limit,
             on_gpu | {"RILL_RANDOM_SEED": 1 + 1000 * i, "RILL_RANDOM_COUNT": 2 if part > 1 else 50}),
            (f"random calls, share {i}", [tests / "fuzz_api"], limit,
             on_gpu | {"RILL_FUZZ_SEED": 1 + i, "RILL_FUZZ_COUNT": 50 if part > 1 else 3000}),
        ]
    run.cases(cases)


def losses(text):
    return [float(x) for x in re.findall(r"loss[: ]+([0-9.]+)", text or "")]


def digits(run):
    """The digits demo on the GPU, traced and eager, beside the CPU."""
    count = 96 if run.simulated else None
    data = run.pack / "data" if not count else small_digits(run.pack / "data", run.work / "digits", count)
    command = [run.program("examples/mnist"), "--data", data, "--logdir", "", "--epochs", 2, "--batch", 32 if count else 64]
    want = losses(run.case("cpu:0", [*command, "--device", "cpu:0", "--threads", os.cpu_count()], 60, OMP_NUM_THREADS=os.cpu_count()))
    for case, more in {"traced": [], "eager": ["--eager"]}.items():
        text = run.case(f"gpu:0, {case}", [*command, "--device", "gpu:0", *more], 60)
        if text is None or not want:
            continue
        got = losses(text)
        off = max((abs(a - b) / abs(b) for a, b in zip(got, want)), default=1)
        good = len(got) == len(want) and off <= 0.02
        run.report.add("digits", f"losses, {case}", "passed" if good else "failed",
                       note=f"{got} on the GPU, {want} on the CPU: {'the same digits' if got == want else f'{off:.2%} apart'}")
    run.case("least_squares", [run.program("examples/least_squares")], 40)


def small_digits(source, folder, count):
    """The first digits of each file, in the middle 20 x 20 pixels."""
    import gzip
    import struct
    folder.mkdir(exist_ok=True)
    for path in source.glob("*-ubyte.gz"):
        data = gzip.decompress(path.read_bytes())
        if "images" in path.name:
            rows = [data[16 + 784 * i + 28 * r + 4:][:20] for i in range(count) for r in range(4, 24)]
            small = data[:4] + struct.pack(">III", count, 20, 20) + b"".join(rows)
        else:
            small = data[:4] + struct.pack(">I", count) + data[8:8 + count]
        (folder / path.name).write_bytes(gzip.compress(small))
    return folder


def sanitizers(run):
    sanitizer = tool(run, "compute-sanitizer")
    if not sanitizer:
        run.report.add("sanitizers", "compute-sanitizer", "skipped", note="it is not found")
        return
    probe = run.program("tests/gpu_probe")
    cases = [("memcheck", "smoke")] + list(itertools.product(
        ("racecheck", "synccheck", "initcheck"),
        ("fold", "scan", "sort", "attention", "factorisations", "fft", "product")))
    if run.simulated:
        cases = [cases[0], *cases[1::4]]
    run.jobs, before = min(run.jobs, 4), run.jobs
    texts = run.cases([(f"{name} of {what}", [sanitizer, f"--tool={name}", "--error-exitcode=9", probe, what], 60,
                        {"RILL_CUDA_GRAPHS": "off"}) for name, what in cases])
    run.jobs = before
    for (name, what), text in zip(cases, texts):
        run.report.put("sanitizer.txt", f"=== {name} of {what}\n{text or 'did not pass: see the log'}\n")


# --- How fast --------------------------------------------------------------------------------------------------------

def rows_of(text):
    return [line[4:] for line in (text or "").splitlines() if line.startswith("row,")]


def bench(run):
    """Each row alone on the GPU, in a process of its own."""
    run.report.put("bench.csv", "row,library,seconds,first_call_seconds,GB_per_s,TFLOP_per_s\n")
    size = ["0.00001"] if run.simulated else []
    names = listed(run, "row")
    for name in names[::5] if run.simulated else names:
        text = run.case(name, [run.program("tests/gpu_probe"), "time", name, *size], 20 if not run.simulated else 60)
        for line in rows_of(text):
            run.report.put("bench.csv", line + "\n")
            run.report.notes.append(f"  {line}")


def peers(run):
    """The same rows in torch; to be read beside `bench`."""
    if run.simulated or not has_torch():
        run.report.add("peers", "torch", "skipped", note="torch with a GPU is not found")
        return
    text = run.case("torch", [sys.executable, HERE / "torch_rows.py"], 60, **run.plain)
    for line in rows_of(text):
        run.report.put("bench.csv", line + "\n")
        run.report.notes.append(f"  {line}")


METRICS = ",".join(["gpu__time_duration.sum", "dram__bytes.sum.per_second", "launch__registers_per_thread",
                    "launch__occupancy_limit_registers", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                    "dram__throughput.avg.pct_of_peak_sustained_elapsed", "sm__warps_active.avg.pct_of_peak_sustained_active",
                    "smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum"])


# Launches to be counted after the seven that make the operand.
COUNTED = {"add_64M": 2, "sum_64M": 2, "sum_columns_16K": 2, "softmax_16K": 1, "cumsum_16M": 3, "sort_4M": 12,
           "attention_f32": 1, "attention_bf16": 2}


def counters(run):
    """Nsight's counters of some rows' kernels."""
    ncu = tool(run, "ncu")
    if not ncu:
        run.report.add("counters", "ncu", "skipped", note="it is not found")
        return
    size = ["0.00001"] if run.simulated else []
    for name in list(COUNTED)[:2 if run.simulated else None]:
        text = run.case(name, [ncu, "--csv", f"--metrics={METRICS}", "--clock-control=none", "--launch-skip=7",
                               f"--launch-count={COUNTED[name]}", "--kill=yes", run.program("tests/gpu_probe"), "time",
                               name, *size], 25, RILL_CUDA_GRAPHS="off")
        if text:
            run.report.put("counters.txt", f"=== {name}\n{text}\n")


def cold_start(run):
    """A process's first results: with the kernels that were compiled ahead, and with none."""
    probe = run.program("tests/gpu_probe")
    empty = run.work / "no-kernels"
    for name in ("chain", "product", "gradient"):
        run.case(f"{name}, kernels at hand", [probe, name], 30)
        run.case(f"{name}, compiled now", [probe, name], 30, RILL_CACHE_DIR=empty)
        shutil.rmtree(empty, ignore_errors=True)


# Seconds: their sum is below run.py's SECONDS.
STEPS = [(machine, 25), (smoke, 40), (gpu_tests, 120), (ops, 110), (digits, 40), (sanitizers, 50), (bench, 60), (peers, 40),
         (counters, 30), (cold_start, 20)]

if __name__ == "__main__":
    attributes()
