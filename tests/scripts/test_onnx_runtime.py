"""What onnx and onnxruntime make of the models that rill writes: tests/serialize/test_onnx_export.cpp writes one for each sample of
each record, with operands and results; each must pass onnx.checker and give in onnxruntime what rill gives, within the
error that the record states and what onnxruntime's own functions may be off by. So must whole programs: the networks of
the benchmarks, control flow, open sizes. Runs in the environment .deps/formats (tests/formats.txt), which ./dev test --all
makes; skipped where there is none.
"""
import re
import tempfile

from formats_environment import needed

with needed():
    import numpy as np
    import onnx
    import onnxruntime
from model_cases import Report, cases, difference, load

# What onnxruntime's functions may add, in epsilons of the value; more where a composite in f64 takes differences.
RUNTIME = 8
COMPOSITE = {("cos", "f64"): 64, ("erfc", "f64"): 1024, ("erfinv", "f64"): 64}
# Operators that onnxruntime has no kernel of for f64: the models are right, and another runtime may take them.
NO_F64 = {"AveragePool", "Conv", "ConvTranspose", "Det"}
# Records that cannot be exported, or not in each of their dtypes: complex numbers, factorisations, and random draws.
REFUSED = {"airy_ai", "airy_ai_slope", "airy_bi", "airy_bi_slope", "beta", "beta_density", "betainc", "betainc_by_a",
           "betainc_by_b", "betaln", "binom", "block_matmul", "cast", "cholesky", "complex", "conj",
           "cosine_integral", "dawsn", "dawsn_derivative", "eig", "eigh", "eigvals", "eigvalsh", "erfcx",
           "erfcx_derivative", "erfcx_slope", "exp1", "expi", "expm", "fft", "fresnel_cosine", "fresnel_cosine_slope",
           "fresnel_sine", "fresnel_sine_slope", "from_blocks", "full", "gamma_density", "i0", "i0e",
           "i0e_derivative", "i0e_slope", "i1", "i1_slope", "i1e", "i1e_derivative", "i1e_slope", "igamma",
           "igamma_by_a", "igammac", "igammac_by_a", "imag", "irfft", "iv", "j0", "j1", "j1_slope", "jv", "k0", "k0e",
           "k0e_derivative", "k1", "k1e", "k1e_derivative", "kv", "lambertw", "log_gamma_sample_slope", "lstsq", "lu",
           "pinv", "polygamma", "polygamma_drop", "qr", "random_binomial", "random_bits", "random_gamma",
           "random_multinomial", "random_poisson", "real", "rfft", "sine_integral", "slogdet", "solve",
           "spherical_jn", "string_cross_bucket", "string_fingerprint", "string_hash_bucket", "string_length",
           "string_lower", "string_of_number", "string_replace", "string_strip", "string_upper", "svd", "svdvals",
           "tgamma", "triangular_solve", "y0", "y1", "zeta", "zeta_by_s"}
# How many nodes a function goes out as, and the opset that the model is of: the lowest that has them.
IDIOMS = {f"idiom_{name}": written for name, written in {
    "gelu": (1, 20), "gelu_tanh": (1, 20), "silu": (2, 13), "mish": (1, 18), "softplus": (1, 13), "log_sigmoid": (3, 13),
    "softsign": (1, 13), "selu": (1, 13), "celu": (1, 13), "elu": (1, 13), "leaky_relu": (1, 13), "hard_swish": (1, 14),
    "hard_sigmoid": (1, 13), "relu6": (1, 13), "rms_norm": (5, 18), "beside": (9, 20)}.items()}
# Records that go out as an operator of onnxruntime's, which is right to the last digits of 1 alone where it is small.
OPERATORS = {"gelu", "softplus"}
NOT_IMPLEMENTED = re.compile(r"NOT_IMPLEMENTED : Could not find an implementation for (\w+)\(")


def check(case):
    """What is wrong with a model, or ""."""
    onnx.checker.check_model(case["model"], full_check=True)
    if case["op"] in IDIOMS:
        model = onnx.load(case["model"])
        written = len(model.graph.node), model.opset_import[0].version
        if written != IDIOMS[case["op"]]:
            return f"{written[0]} nodes of opset {written[1]}: {[n.op_type for n in model.graph.node]}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(case["model"], options, providers=["CPUExecutionProvider"])
    feeds = {f"x{i}": load(e) for i, e in enumerate(case.get("in", []))}
    for got, want, allowed in zip(session.run(None, feeds), case["out"], case["allowed"], strict=True):
        epsilons = COMPOSITE.get((case["op"], want["dtype"]), RUNTIME)
        room = load(allowed)
        if case["op"] in OPERATORS and want["dtype"] == "f32":
            room = room + RUNTIME * np.finfo("f4").eps
        wrong = difference(np.asarray(got), load(want), room, epsilons)
        if wrong:
            return wrong
    return ""


def set_aside(case):
    if not any(e["dtype"] in ("bf16", "f8_e4m3fn", "f8_e5m2") for e in case["out"]):
        return ""
    onnx.checker.check_model(case["model"], full_check=True)
    return "only checked"  # numpy has no bf16


def excuse(case, error):
    missing = NOT_IMPLEMENTED.search(error)
    f64 = any(e["dtype"] == "f64" for e in case["out"])
    return "no kernel in onnxruntime" if f64 and missing and missing[1] in NO_F64 else ""


report = Report()
with tempfile.TemporaryDirectory() as place:
    report.add(cases(place, ".onnx"), check, set_aside, excuse)
report.end(REFUSED, 2680)
