#!/usr/bin/env python3
"""Measures the rows of rows.py and prints them as a table: what `./dev bench [--peers] [ROW...]` calls.

  --build DIR    where rill was built (default: build)
  --peers        measure torch, torch.compile, libtorch, JAX and TensorFlow too (.deps/peers; installed on first use);
                 the rows onnx_* always measure onnxruntime (.deps/formats)
  --rounds N     how often each row goes round all libraries (default 3); the table shows medians over the rounds
  --tries N      how often a measurement is repeated when other programs took processor time meanwhile (default 4)
  --isa NAME     every library that can be is held down to these vector instructions (avx2); a report of its own
  --markdown     print the table as docs/benchmarks.md has it
  --show         measure nothing; print what DIR/bench.json holds
  --check        measure nothing; say whether there are such rows, which examples they run, and `formats` where onnx
                 writes their files

Results are merged into DIR/bench.json row by row, so that a run of a few rows refreshes these and keeps the others. A row
goes round everybody (ours, the limits, each peer, ours again, ...) before the next one starts, for the machine drifts by
tens of percent within minutes: compare numbers of one row, not of two. measuring.py says how a row is measured; here
answers become a table. Start reading at main.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from measuring import ENV, EXAMPLES, HELD_DOWN, PROCESS_ROWS, QUIET, all_workers, looped, make_networks, undisturbed
from peers import setup
from rows import BUSY_NETWORKS, ROWS


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
        for name, found in samples.items():  # disturbed samples are only used if there are no others
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
    parser.add_argument("--isa", choices=HELD_DOWN)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    unknown = set(args.rows) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"no row called {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in ROWS)}")
    asked = [row for row in ROWS if row.name in args.rows or not args.rows]
    networks = [row for row in asked if row.name.startswith("onnx_") or row.name in BUSY_NETWORKS]
    if args.check:
        return print(*(EXAMPLES[row.name] for row in asked if row.name in EXAMPLES), *(["formats"] if networks else []))

    path = args.build / (f"bench-{args.isa}.json" if args.isa else "bench.json")
    ENV.update(HELD_DOWN.get(args.isa, {}))
    report = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    if not args.show:
        if not shutil.which("strip") and any(row.name == "core_size" for row in asked):
            parser.error("row core_size needs `strip` (Debian: binutils)")
        if networks:
            make_networks(args.build)
        if args.peers and len(networks) < len(asked):
            setup.ensure()
            report["versions"] = versions()
        report["machine"] = machine()
        ENV["RILL_BENCH_DATA"] = str((args.build / "bench-data").resolve())
        workers = all_workers(args.build)
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
