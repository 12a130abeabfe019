"""What TensorFlow makes of the models that rill writes: a graph for each sample of each record must give what rill gives,
within the error that the record states and what TensorFlow's own functions may be off by. So must whole programs as
SavedModels: the networks of the benchmarks, control flow, open sizes. Runs in the environment .deps/formats
(tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import os
import tempfile

from formats_environment import needed

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
with needed():
    import numpy as np
    import tensorflow as tf
from model_cases import Report, cases, difference, load

# What TensorFlow's functions may add, in epsilons of the value.
RUNTIME = 8
COMPOSITE = {("erfinv", "f64"): 64, ("betainc", "f32"): 32, ("betainc", "f64"): 32, ("igammac", "f64"): 16,
             ("igamma_by_a", "f64"): 1024, ("igammac_by_a", "f64"): 1024}
# TensorFlow's are off by epsilons of 1, however small the value is.
NEAR_ZEROS = {("j0", "f32"), ("j1", "f32")}
# Records that cannot be exported, or not in each of their dtypes: complex numbers, random draws, special functions that
# TensorFlow lacks, and pooling of volumes in other dtypes than f32, of which TensorFlow has no kernels.
REFUSED = {"airy_ai", "airy_ai_slope", "airy_bi", "airy_bi_slope", "avg_pool", "avg_pool_grad", "beta",
           "beta_density", "betainc_by_a", "betainc_by_b", "betaln", "binom", "block_matmul", "cast", "complex",
           "conj", "cosine_integral", "dawsn_derivative", "eig", "eigvals", "erfcx", "erfcx_derivative",
           "erfcx_slope", "exp1", "expm", "fft", "fresnel_cosine_slope", "fresnel_sine_slope", "from_blocks", "full",
           "gamma_density", "i0e_derivative", "i0e_slope", "i1_slope", "i1e_derivative", "i1e_slope", "imag", "irfft",
           "iv", "j1_slope", "jv", "k0e_derivative", "k1e_derivative", "kv", "lambertw", "log_gamma_sample_slope",
           "lu", "max_pool", "max_pool_grad", "max_pool_pick", "polygamma_drop", "random_binomial", "random_bits",
           "random_gamma", "random_multinomial", "random_poisson", "real", "rfft", "sine_integral", "spherical_jn",
           "string_fingerprint", "string_strip", "tgamma", "zeta_by_s"}


def run_graph(path, feeds, count):
    definition = tf.compat.v1.GraphDef()
    with open(path, "rb") as file:
        definition.ParseFromString(file.read())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        names = ["output:0"] if count == 1 else [f"output_{i}:0" for i in range(count)]
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run(names, {f"{name}:0": value for name, value in feeds.items()})


def run_saved_model(path, feeds, loaded={}):
    if path not in loaded:
        loaded[path] = tf.saved_model.load(path)
    given = loaded[path].signatures["serving_default"](**{n: tf.constant(v) for n, v in feeds.items()})
    return [given[name].numpy() for name in sorted(given)]


def check(case):
    """What is wrong with a model, or ""."""
    feeds = {f"x{i}": load(e) for i, e in enumerate(case.get("in", []))}
    if case["model"].endswith(".pb"):
        results = run_graph(case["model"], feeds, len(case["out"]))
    else:
        results = run_saved_model(case["model"], feeds)
    for got, want, allowed in zip(results, case["out"], case["allowed"], strict=True):
        if want["dtype"] == "string":
            got = np.array([text.decode() for text in np.ravel(got)], dtype=object).reshape(np.shape(got))
        what, room = (case["op"], want["dtype"]), load(allowed)
        if what in NEAR_ZEROS:
            room = room + RUNTIME * np.finfo(load(want).dtype).eps
        wrong = difference(np.asarray(got), load(want), room, COMPOSITE.get(what, RUNTIME))
        if wrong:
            return wrong
    return ""


def set_aside(case):
    return "not run" if any(e["dtype"] in ("bf16", "f8_e4m3fn", "f8_e5m2") for e in case["out"] + case.get("in", [])) else ""  # numpy has none


report = Report()
for extension, part in ((".pb", "records"), ("", "programs")):
    with tempfile.TemporaryDirectory() as place:
        report.add(cases(place, extension, (part,)), check, set_aside)
report.end(REFUSED, 3150)
