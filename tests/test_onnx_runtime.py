"""What onnx and onnxruntime make of the models that rill writes: tests/test_onnx_export.cpp writes one for each sample of
each record, with operands and results; each must pass onnx.checker and give in onnxruntime what rill gives, within the
error that the record states and what onnxruntime's own functions may be off by. So must whole programs: the networks of
the benchmarks, control flow, open sizes. Runs in the environment .deps/formats (tests/formats.txt), which ./dev test
makes; skipped where there is none.
"""
import collections
import re
import sys
import tempfile

from formats_environment import needed

with needed():
    import numpy as np
    import onnx
    import onnxruntime
from model_cases import cases, difference, load

# What onnxruntime's functions may add, in epsilons of the value; more where a composite in f64 takes differences.
RUNTIME = 8
COMPOSITE = {("cos", "f64"): 64, ("erfc", "f64"): 1024, ("erfinv", "f64"): 64}
# Operators that onnxruntime has no kernel of for f64: the models are right, and another runtime may take them.
NO_F64 = {"AveragePool", "Conv", "ConvTranspose", "Det"}
# Records that cannot be exported, or not in each of their dtypes: complex numbers, factorisations, and random draws.
REFUSED = {"cast", "cholesky", "complex", "conj", "eig", "eigh", "eigvals", "eigvalsh", "expm", "fft", "full", "imag",
           "irfft", "lu", "pinv", "qr", "random_bits", "real", "rfft", "slogdet", "solve", "svd", "svdvals",
           "triangular_solve"}
NOT_IMPLEMENTED = re.compile(r"NOT_IMPLEMENTED : Could not find an implementation for (\w+)\(")


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


def main():
    counts, refused, faults = collections.Counter(), collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(folder, ".onnx"):
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
