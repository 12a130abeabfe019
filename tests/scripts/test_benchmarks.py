#!/usr/bin/env python3
"""The benchmark table cannot rot unseen: every row of benchmarks/rows.py has a program that measures it, every program
starts, and the runner prints a line for each row asked for. Times are not looked at. Skipped where Google Benchmark is off.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, BUILD = Path(os.environ["RILL_SOURCE_ROOT"]), Path(os.environ["RILL_BUILD_ROOT"])
PROGRAMS = BUILD / "benchmarks"
sys.path.insert(0, str(SOURCE / "benchmarks"))
sys.dont_write_bytecode = True

if not (PROGRAMS / "rows").exists():
    print("the benchmarks are not built: apt-get install libbenchmark-dev")
    sys.exit(77)

import measuring  # noqa: E402
from rows import BUSY_NETWORKS, DATA, DECODER, EAGER, ROWS, STEPS  # noqa: E402


def output(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **options).stdout


def test_every_row_has_a_program():
    expected = {row.name for row in ROWS} - set(measuring.PROCESS_ROWS) - set(measuring.BUSY) - set(BUSY_NETWORKS)
    networks = {name for name in expected if name.startswith("onnx_")}
    eager, data = set(EAGER), {*DATA, DECODER}
    steps = set(STEPS)
    programs = {"rows": expected - networks - eager - data - steps, "networks": networks, "eager": eager, "steps": steps, "data_rows": data}
    for program, rows in programs.items():
        if not (PROGRAMS / program).exists() and program in ("networks", "data_rows"):
            continue  # a build without librill_io
        listed = output(PROGRAMS / program, "--benchmark_list_tests").split()
        names = {name.split("/")[0] for name in listed}
        assert names == rows, f"{program}.cpp and rows.py differ in {sorted(names ^ rows)}"


def test_every_row_has_one_goal():
    for row in ROWS:
        goals = [g for g in (row.goal, row.of_limit, row.of_peer) if g is not None]
        assert len(goals) == 1, f"{row.name} has {len(goals)} goals"


def test_processes_answer():
    modes = (
        ("--start", "clock_us"),
        ("--first-call", "median_us"),
        ("--peak-memory", "bytes"),
        ("--peak-memory segments", "bytes"),
        ("--tape", "bytes"),
        ("--backward mlp traced", "median_us"),
        ("--compile 40", "median_us"),
    )
    for mode, key in modes:
        answer = json.loads(output(PROGRAMS / "process", *mode.split()))
        assert answer[key] > 0, f"process {mode} said {answer}"


def test_the_training_loop_answers():
    if not (PROGRAMS / "fit").exists():
        return  # a build without librill_io
    quick = {**os.environ, "RILL_BENCH_SECONDS": "0.01"}
    for mode, key in (["--overhead"], "median_us"), (["--small", SOURCE / "examples/data"], "median_us"):
        answer = json.loads(output(PROGRAMS / "fit", *mode, env=quick))
        assert key in answer, f"fit {mode} said {answer}"


def test_runner_prints_a_table():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("benchmarks", "librill.so"):
            os.symlink(BUILD / name, f"{folder}/{name}")
        command = [sys.executable, SOURCE / "benchmarks" / "run.py", "--build", folder, "--rounds", "1"]
        table = output(*command, "small_add", "core_size", env={**os.environ, "RILL_BENCH_SECONDS": "0.01"}).splitlines()
        assert table[0].split()[:2] == ["row", "ours"], table
        assert [line.split()[0] for line in table[1:]] == ["small_add", "core_size"], table
        shown = output(*command, "--show", "small_add").splitlines()
        assert shown[1].split() == table[1].split()


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
