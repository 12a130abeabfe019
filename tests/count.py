"""Prints what a run of `meson test` counted: "N passed, N failed, N skipped", and before it the names of what
failed or was skipped, and how the output of what failed ends.

usage: count.py BUILD. A Catch2 program counts as its test cases, anything else as one. A test case that says that it
cannot run here (skip_case of catch.h) counts as skipped.
Exits 1 when something failed or nothing ran.
"""
import json
import pathlib
import re
import sys

passed = failed = skipped = 0
names, skips, ends = [], [], []
# ./dev test removes those of an earlier run, and may run Meson twice; that of a run with --wrapper is called after it.
for log in sorted(pathlib.Path(sys.argv[1], "meson-logs").glob("testlog*.json")):
    for line in log.read_text().splitlines():
        test = json.loads(line)
        output = test.get("stdout", "")
        name = test["name"].rsplit(":", 1)[-1]  # without suite and project, which some versions of Meson add
        if test["result"] == "SKIP":
            skipped += 1
            skips.append(f"{name}: {output.strip().splitlines()[-1] if output.strip() else ''}")
            continue
        good, bad = (1, 0) if test["result"] in ("OK", "EXPECTEDFAIL") else (0, 1)
        if match := re.search(r"^All tests passed \((?:.* )?in (\d+) test cases?\)", output, re.M):
            good = int(match.group(1)) if good else 0
        elif match := re.search(r"^test cases: +(\d+) \|(.*)", output, re.M):
            counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped)", match.group(2))}
            good, bad = counts.get("passed", 0), max(bad, counts.get("failed", 0))
            skipped += counts.get("skipped", 0)
        said = re.findall(r"^skipped: (.+)$", output, re.M)
        skips += [f"{name}: {what}" for what in said]
        skipped += len(said)
        good -= min(good, len(said))
        passed += good
        failed += bad
        if bad:
            names.append(f"{name}: {test['result'].lower()}")
            said = (output + test.get("stderr", "")).strip().splitlines()
            ends.append("\n".join([f"--- the end of {name}", *said[-20:]]))

for end in ends:
    print(end)
for name in skips:
    print(f"skipped  {name}")
for name in names:
    print(f"failed  {name}")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed or not passed else 0)
