#!/usr/bin/env python3
"""Runs what pack.py has packed, on a machine with a GPU: the half of `./dev gpu-check` that has nine minutes.

usage: run.py PACK [--simulated DIR] [--only STEP,...]

PACK is BUILD/gpu-check.tar.xz, or the folder that it was unpacked into. Needs Python 3 and a driver; torch,
compute-sanitizer and ncu are used where they are found. Writes into $OUT, else build/gpu-check-results:

    report.json    a line a case: {"step", "case", "status", "seconds", "note"}; passed, failed, skipped, timed out, lost
                   (ended by a signal) or left out (its step had no time)
    bench.csv      row, library, seconds a call, seconds of the first call, GB/s, TFLOP/s
    sanitizer.txt  what compute-sanitizer said
    log.xz         all that every process wrote

Each process has a group and a limit of its own, and each step (steps.py) has a limit, so that what hangs or crashes early
leaves the rest. --simulated DIR rehearses: with the simulated driver of DIR, on smaller fractions of everything, which
the report says. Start at main.
"""
import argparse
import collections
import concurrent.futures
import json
import lzma
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import steps

SECONDS = 535  # for all of it, unpacking included: below nine minutes


class Report:
    """What is known so far, on disk after each case."""

    def __init__(self, folder, patient=False):
        self.folder = folder
        self.failing = ("failed", "lost") if patient else ("failed", "lost", "timed out")
        folder.mkdir(parents=True, exist_ok=True)
        for old in ("report.json", "bench.csv", "sanitizer.txt", "log.xz"):
            (folder / old).unlink(missing_ok=True)
        self.lines = open(folder / "report.json", "w")
        self.log = open(folder / "log", "w")
        self.lock = threading.Lock()
        self.counts = collections.defaultdict(collections.Counter)
        self.failures = []
        self.notes = []

    def add(self, step, case, status, seconds=0.0, note="", output=""):
        with self.lock:
            self.counts[step][status] += 1
            if status in self.failing:
                self.failures.append(f"{step}: {case}: {status}. {note}"[:300])
            line = {"step": step, "case": case, "status": status, "seconds": round(seconds, 3), "note": note}
            print(json.dumps(line), file=self.lines, flush=True)
            print(f"=== {step}: {case}: {status}, {seconds:.1f} s\n{output}", file=self.log, flush=True)

    def put(self, name, text):
        """Appends to a file of the results."""
        with self.lock, open(self.folder / name, "a") as file:
            file.write(text)

    def close(self):
        self.lines.close()
        self.log.close()
        with open(self.folder / "log", "rb") as plain, lzma.open(self.folder / "log.xz", "wb") as packed:
            shutil.copyfileobj(plain, packed)
        (self.folder / "log").unlink()


class Run:
    """What the steps work with: the pack, its environment, the time that is left."""

    def __init__(self, pack, report, simulated, end):
        self.pack, self.report, self.simulated, self.end = pack, report, simulated, end
        self.about = json.loads((pack / "pack.json").read_text())
        self.step_name, self.step_end = "", end
        self.jobs = 2 if simulated else max(8, os.cpu_count() or 1)  # kernels that are not at hand are compiled by each
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="rill-gpu-check-"))
        self.running = set()
        self.environment = self.make_environment()
        # What is the machine's own gets the machine's own libraries.
        self.plain = {"LD_LIBRARY_PATH": ":".join(filter(None, [str(simulated or ""), os.environ.get("LD_LIBRARY_PATH")]))}

    def make_environment(self):
        libraries = [self.pack / "lib"]
        if not steps.has_cxx_library():
            libraries.append(self.pack / "fallback")
        e = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2", "RILL_SOURCE_ROOT": str(self.pack)}
        if self.simulated:
            libraries.insert(0, self.simulated)
            e |= {"RILL_CACHE_DIR": str(self.simulated / "kernels"), "RILL_SIMULATED_GPUS": "1",
                  "RILL_SIMULATED_PAGEABLE": "1", "RILL_SIMULATED_TEXTS": str(self.simulated / "texts")}
        else:
            e["RILL_CACHE_DIR"] = str(self.pack / "kernels")
            if (self.pack / "nvrtc").exists():  # else the machine's own
                e["RILL_NVRTC"] = str(self.pack / "nvrtc/libnvrtc.so.12")
            libraries += steps.folders_of_nvidia()  # cuDNN and cuBLAS, where Python brought them
        e["LD_LIBRARY_PATH"] = ":".join([*map(str, libraries), os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")
        return e

    def program(self, name):
        return self.pack / name

    def left(self):
        return self.step_end - time.monotonic()

    def process(self, command, limit, **settings):
        """Runs a command in a process group of its own. Gives its exit status (None: it ran out of time), seconds, and
        what it wrote."""
        begin = time.monotonic()
        environment = {**self.environment, **{name: str(value) for name, value in settings.items()}}
        with tempfile.TemporaryFile(dir=self.work) as output:
            child = subprocess.Popen([str(word) for word in command], env=environment, cwd=self.work, stdout=output,
                                     stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
            self.running.add(child.pid)
            try:
                status = child.wait(max(0.1, min(limit, self.left())))
            except subprocess.TimeoutExpired:
                status = None
            end_group(child.pid)
            child.wait()
            self.running.discard(child.pid)
            output.seek(0, os.SEEK_END)
            output.seek(max(0, output.tell() - 1_000_000))
            text = output.read().decode(errors="replace")
        return status, time.monotonic() - begin, text

    def case(self, case, command, limit, **settings):
        """Runs a command as a case of this step; gives what it wrote, or None where it did not pass."""
        if self.left() <= 0:
            self.report.add(self.step_name, case, "left out", note="the step had no time left")
            return None
        status, seconds, text = self.process(command, limit, **settings)
        told = "timed out" if status is None else "lost" if status < 0 else "failed" if status else "passed"
        skipped = [line for line in text.splitlines() if line.startswith("skipped: ")]
        if told == "passed" and skipped:
            told = "skipped"
        note = skipped[0] if skipped else "" if told == "passed" else last_words(text, status)
        self.report.add(self.step_name, case, told, seconds, note, text)
        return text if told == "passed" else None

    def cases(self, all_cases):
        """Runs many, self.jobs at a time: (case, command, limit, settings) each."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            done = [pool.submit(self.case, case, command, limit, **settings)
                    for case, command, limit, settings in all_cases]
            return [d.result() for d in done]

    def step(self, function, limit):
        self.step_name = function.__name__
        begin = time.monotonic()
        self.step_end = min(begin + limit, self.end)
        print(f"{self.step_name} ...", flush=True)
        try:
            if self.left() <= 0:
                self.report.add(self.step_name, "", "left out", note="no time was left")
            else:
                function(self)
        except Exception as e:  # what is wrong with one step is no matter of the others
            self.report.add(self.step_name, "the step itself", "failed", note=f"{type(e).__name__}: {e}")
        print(f"{self.step_name}: {tell(self.report.counts[self.step_name])}, {time.monotonic() - begin:.0f} s", flush=True)

    def close(self):
        for pid in list(self.running):
            end_group(pid)
        shutil.rmtree(self.work, ignore_errors=True)


def end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_words(text, status):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "FAILED" in line or "rror" in line or "rill: " in line]
    return f"exit status {status}: {' | '.join((told or lines)[-3:])}"[:500]


def tell(counts):
    return ", ".join(f"{n} {status}" for status, n in counts.items()) or "nothing"


def unpack(path):
    """The pack's folder: itself, or made beside it where it is an archive."""
    if path.is_dir():
        return path
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rill-gpu-pack-"))
    with lzma.open(path) as file, tarfile.open(fileobj=file, mode="r|") as tar:
        tar.extractall(folder)
    for kernel in (folder / "kernels").glob("*"):
        kernel.chmod(0o600)  # rill takes kernels that nobody else could have written
    return folder


def summary(report, run, seconds, fractions):
    print(f"\n{'step':<16}{'result'}")
    for step, counts in report.counts.items():
        print(f"{step:<16}{tell(counts)}")
    for note in report.notes:
        print(note)
    for failure in report.failures[:40]:
        print(f"  {failure}")
    if len(report.failures) > 40:
        print(f"  and {len(report.failures) - 40} more: report.json")
    if fractions:
        print(f"rehearsed on the simulated driver, in fractions: {fractions}")
    print(f"results: {report.folder}; pack of {run.about['commit']}; {seconds:.0f} s in all")


def main():
    begin = time.monotonic()
    parser = argparse.ArgumentParser()
    parser.add_argument("pack", type=pathlib.Path)
    parser.add_argument("--simulated", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    # A simulated GPU may be slow: there, running out of time is no failure.
    report = Report(pathlib.Path(os.environ.get("OUT") or "build/gpu-check-results").resolve(), patient=bool(given.simulated))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what is known is written all the same
    pack = unpack(given.pack.resolve())
    run = Run(pack, report, given.simulated, begin + SECONDS)
    try:
        for function, limit in steps.STEPS:
            if not given.only or function.__name__ in given.only.split(","):
                run.step(function, limit)
    finally:
        run.close()
        report.close()
        if pack != given.pack.resolve():
            shutil.rmtree(pack, ignore_errors=True)
        summary(report, run, time.monotonic() - begin, steps.FRACTIONS if given.simulated else "")
    return bool(report.failures)


if __name__ == "__main__":
    sys.exit(main())
