"""What can be said of a change before anything is compiled: formatting, lists of tests, layers, and pages that are printed
from the sources. All are begun at once and take seconds; CI begins with them, and stops where one fails.

usage: quick_checks.py    exits 1 where a check fails, and says what to do
"""
import difflib
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = [sys.executable, "-B"]
CHECKS = {
    "formatting": ["./dev", "fmt", "--check"],
    "lists of tests": [*PYTHON, "tests/check_lists.py"],
    "layers": [*PYTHON, "tests/scripts/test_layers.py"],
}
# Pages that a script prints from the sources. (docs/ops.md comes from the built records: `./dev docs --check`.)
PRINTED = {
    "docs/index.md": [*PYTHON, "docs/print_index.py"],
    "docs/functions.md": [*PYTHON, "docs/print_functions.py"],
    "docs/optimizers.md": [*PYTHON, "docs/print_optimizers.py"],
}


def start(command):
    environment = {**os.environ, "RILL_SOURCE_ROOT": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, encoding="utf-8", stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def stale(page, printed):
    """What a page lacks of what its script prints; "" where it is fresh."""
    lines = difflib.unified_diff((ROOT / page).read_text(encoding="utf-8").splitlines(), printed.splitlines(), page, "now",
                                 lineterm="", n=0)
    lines = list(lines)[:20]
    return "\n".join([*lines, f"{page} is stale: run ./dev docs and commit it"]) if lines else ""


def main():
    began, failed = time.monotonic(), []
    running = {what: start(command) for what, command in {**CHECKS, **PRINTED}.items()}
    for what, process in running.items():
        said = process.communicate()[0]
        wrong = process.returncode != 0
        if what in PRINTED and not wrong:
            said = stale(what, said)
            wrong = bool(said)
        print(f"{'FAILED' if wrong else 'ok    '}  {what}")
        if wrong:
            failed.append(what)
            print(said.strip())
    print(f"{len(running)} checks in {time.monotonic() - began:.0f} s, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
