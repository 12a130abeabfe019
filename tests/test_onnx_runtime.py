"""What onnx and onnxruntime make of the models that rill writes: tests/test_onnx_export.cpp writes one for each sample of
each record, with operands and results; each must pass onnx.checker and give in onnxruntime what rill gives, within the
error that the record states and what onnxruntime's own functions may be off by. So must whole programs: the networks of
the benchmarks, control flow, open sizes. Runs in the environment .deps/formats (tests/formats.txt), which ./dev test
makes; skipped where there is none.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

from formats_environment import BUILD, needed

with needed():
    import numpy as np
    import onnx
    import onnxruntime

# What onnxruntime's functions may add, in epsilons of the value; more where a composite in f64 takes differences.
RUNTIME = 8
COMPOSITE = {("cos", "f64"): 64, ("erfc", "f64"): 1024, ("erfinv", "f64"): 64}
# Operators that onnxruntime has no kernel of for f64: the models are right, and another runtime may take them.
NO_F64 = {"AveragePool", "Conv", "ConvTranspose"}
# Records that cannot be exported, or not in each of their dtypes: complex numbers, and random draws.
REFUSED = {"cast", "complex", "conj", "full", "imag", "random_bits", "real"}
NOT_IMPLEMENTED = re.compile(r"NOT_IMPLEMENTED : Could not find an implementation for (\w+)\(")
DTYPES = {"bool": "?", "f16": "f2", "f32": "f4", "f64": "f8"} | {
    f"{kind}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}


def load(entry):
    if "strings" in entry:
        return np.array(entry["strings"], dtype=object).reshape(entry["shape"])
    if entry["dtype"] not in DTYPES:
        return None
    return np.fromfile(entry["file"], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])


def difference(got, want, allowed, epsilons):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} where {want.dtype}{want.shape} is right"
    if want.dtype.kind != "f":
        return "" if (got == want).all() else f"{(got != want).sum()} of {want.size} elements differ"
    info = np.finfo(want.dtype)
    a, b = got.astype("f8"), want.astype("f8")
    with np.errstate(invalid="ignore"):
        room = allowed + epsilons * info.eps * np.abs(b) + info.smallest_subnormal
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= room))
    if not wrong.any():
        return ""
    i = np.unravel_index(np.argmax(np.where(wrong, np.abs(a - b) / room, -1)), wrong.shape)
    return f"{wrong.sum()} of {want.size} elements differ, at {i} {a[i]} for {b[i]}, allowed {room[i]}"


def check(case):
    """What is wrong with a model, or ""."""
    onnx.checker.check_model(case["model"], full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(case["model"], options, providers=["CPUExecutionProvider"])
    feeds = {f"x{i}": load(e) for i, e in enumerate(case.get("in", []))}
    for got, want, allowed in zip(session.run(None, feeds), case["out"], case["allowed"]):
        epsilons = COMPOSITE.get((case["op"], want["dtype"]), RUNTIME)
        wrong = difference(np.asarray(got), load(want), load(allowed), epsilons)
        if wrong:
            return wrong
    return ""


def records(folder):
    program = f"{BUILD}/tests/test_onnx_export"
    subprocess.run([program, "[.write]"], check=True, env={**os.environ, "RILL_ONNX_FOLDER": folder},
                   stdout=subprocess.DEVNULL)
    cases = []
    for name in ("records", "programs"):
        with open(f"{folder}/{name}.json", encoding="utf-8") as file:
            cases += json.load(file)
    return cases


def main():
    counts, refused, faults = collections.Counter(), collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for case in records(folder):
            if "refused" in case:
                refused[case["op"]] += 1
                continue
            if any(e["dtype"] == "bf16" for e in case["out"]):  # which numpy lacks
                onnx.checker.check_model(case["model"], full_check=True)
                counts["only checked"] += 1
                continue
            try:
                wrong = check(case)
            except Exception as e:  # the packages throw many kinds
                wrong = str(e)
                missing = NOT_IMPLEMENTED.search(wrong)
                if missing and missing[1] in NO_F64 and any(e["dtype"] == "f64" for e in case["out"]):
                    counts["no kernel in onnxruntime"] += 1
                    continue
            if wrong:
                faults.append((case["what"], wrong))
            else:
                counts["agree"] += 1
    if set(refused) != REFUSED:
        faults.append(("refused", str(dict(refused))))
    if counts["agree"] < 2680:
        faults.append(("too few models", str(counts)))
    print(dict(counts), "refused:", dict(refused), len(faults), "faults")
    for what, wrong in faults:
        print(what[:150], "|", wrong[:300].replace("\n", " "))
    sys.exit(1 if faults else 0)


main()
