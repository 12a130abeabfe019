"""The runner of `./dev gpu-check` (gpu_check/run.py), on a pack of shell scripts in place of programs: what passes, fails,
crashes, hangs or says that it cannot be tested is told apart, and each leaves the others."""
import csv
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CHECK = pathlib.Path(os.environ["RILL_SOURCE_ROOT"]) / "tests/gpu_check"
PROBE = r"""
case "$1" in
  list) echo 'program good'; echo 'program crashes'; echo 'row tiny_add' ;;
  crashes) kill -SEGV $$ ;;
  time) echo "row,$2,rill,1e-06,0.1,0,0" ;;
  *) [ -n "$RILL_CACHE_DIR" ] && echo "passed $1" ;;
esac
"""
TEST = r"""
case "$1" in
  'a, b') echo 'fine' ;;
  'a\, b') echo 'All tests passed' ;;
  wrong) echo 'x == y FAILED'; exit 1 ;;
  alone) echo 'skipped: alone: this machine has one GPU' ;;
  hangs) sleep 100 & sleep 100 ;;
esac
"""
NAMES = ["a, b", "wrong", "alone", "hangs"]


def program(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    pack, out = folder / "pack", folder / "out"
    for test in ("test_ops", "test_random_programs", "fuzz_api", "oracle"):
        program(pack / "tests" / test, "exit 0")
    program(pack / "tests/gpu_probe", PROBE)
    program(pack / "tests/test_gpu", TEST)
    program(pack / "examples/mnist", "echo 'loss: 0.5'; echo 'loss: 0.25'")
    program(pack / "examples/least_squares", "exit 0")
    (pack / "kernels").mkdir()
    about = {"commit": "none", "glibc": "2.1", "cases": {"test_gpu": NAMES}}
    (pack / "pack.json").write_text(json.dumps(about))

    # A step of 3 s, in which one case hangs; what it has started goes with it.
    code = ("import sys; sys.path.insert(0, sys.argv.pop(1)); import run, steps; "
            "steps.STEPS = [(f, 3 if f is steps.gpu_tests else limit) for f, limit in steps.STEPS "
            "if f is not steps.peers]; sys.exit(run.main())")
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-B", "-c", code, CHECK, pack], env={**os.environ, "OUT": str(out)},
                          capture_output=True, text=True, timeout=200)
    print(done.stdout, done.stderr)
    assert done.returncode == 1, "something failed, and it says otherwise"
    lines = [json.loads(line) for line in (out / "report.json").read_text().splitlines()]
    status = {(line["step"], line["case"]): line["status"] for line in lines}
    assert status["smoke", "good"] == "passed"
    assert status["smoke", "crashes"] == "lost"
    assert [status["gpu_tests", f"test_gpu: {case}"] for case in NAMES] == ["passed", "failed", "skipped", "timed out"]
    assert status["digits", "losses, traced"] == "passed"
    assert status["ops", "test_ops, share 0"] == "passed"
    assert status["cold_start", "chain, compiled now"] == "passed"
    assert time.monotonic() - begin < 100
    with open(out / "bench.csv") as file:
        assert [row["row"] for row in csv.DictReader(file)] == ["tiny_add"]
    assert "x == y FAILED" in lzma.open(out / "log.xz", "rt").read()
    assert "gpu_tests: test_gpu: wrong: failed" in done.stdout
