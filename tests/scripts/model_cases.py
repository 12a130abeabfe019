"""Models that rill writes, with operands and results, for tests that run them in other programs: tests/serialize/test_onnx_export.cpp
writes one for each sample of each record, and whole programs.
"""
import collections
import json
import os
import subprocess
import sys

import numpy as np

from formats_environment import BUILD

DTYPES = {"bool": "?", "f16": "f2", "f32": "f4", "f64": "f8"} | {
    f"{kind}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}


def load(entry):
    """An operand or a result; None of dtypes that numpy lacks."""
    if "strings" in entry:
        return np.array(entry["strings"], dtype=object).reshape(entry["shape"])
    if entry["dtype"] not in DTYPES:
        return None
    return np.fromfile(entry["file"], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])


def difference(got, want, allowed, epsilons):
    """Where an array is further from what it should be than `allowed` and so many epsilons of its value, or ""."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} where {want.dtype}{want.shape} is right"
    if want.dtype.kind != "f":
        return "" if (got == want).all() else f"{(got != want).sum()} of {want.size} elements differ"
    info = np.finfo(want.dtype)
    a, b = got.astype("f8"), want.astype("f8")
    with np.errstate(invalid="ignore"):
        room = allowed + epsilons * info.eps * np.abs(b) + info.smallest_subnormal
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.isfinite(b) & (np.abs(a - b) <= room)))
    if not wrong.any():
        return ""
    i = np.unravel_index(np.argmax(np.where(wrong, np.abs(a - b) / room, -1)), wrong.shape)
    return f"{wrong.sum()} of {want.size} elements differ, at {i} {a[i]} for {b[i]}, allowed {room[i]}"


# The test cases of test_onnx_export.cpp that write them.
PARTS = {"records": "models of the records*", "programs": "models of whole programs*"}


def cases(folder, extension, parts=tuple(PARTS)):
    """Writes the models, in the format that the extension says, into `folder`; what each should give."""
    found = []
    for part in parts:
        subprocess.run([f"{BUILD}/tests/test_onnx_export", PARTS[part]], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "RILL_ONNX_FOLDER": folder, "RILL_MODEL_EXTENSION": extension})
        with open(f"{folder}/{part}.json", encoding="utf-8") as file:
            found += json.load(file)
    return found


class Report:
    """Counts of the cases that agree with another program, that were refused or set aside, and the faults."""

    def __init__(self):
        self.counts, self.refused, self.faults = collections.Counter(), collections.Counter(), []

    def add(self, found, check, set_aside, excuse=lambda case, error: ""):
        """check(case) says what is wrong, or ""; set_aside(case) under which count a case goes that cannot be run, or "";
        excuse(case, error) the same of one that failed with an exception."""
        for case in found:
            if "refused" in case:
                self.refused[case["op"]] += 1
                continue
            aside = set_aside(case)
            try:
                wrong = "" if aside else check(case)
            except Exception as e:  # the packages throw many kinds
                wrong = f"{type(e).__name__}: {e}"
                aside = excuse(case, wrong)
            if wrong and not aside:
                self.faults.append((case["what"], wrong))
            else:
                self.counts[aside or "agree"] += 1

    def end(self, refused, least):
        """Prints all and ends the program: well where the records in `refused` were refused and at least so many agree."""
        if set(self.refused) != refused:
            self.faults.append(("refused", str(dict(self.refused))))
        if self.counts["agree"] < least:
            self.faults.append(("too few models", str(self.counts)))
        print(dict(self.counts), "refused:", dict(self.refused), len(self.faults), "faults")
        for what, wrong in self.faults:
            print(what[:150], "|", wrong[:300].replace("\n", " "))
        sys.exit(1 if self.faults else 0)
