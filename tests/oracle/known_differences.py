"""Where rill and its judges differ: each with its reason. What is not meant to stay so says that it is a fault."""

FAULT = "a fault of rill, to be mended"
KINKS = ("relu6", "elu", "celu", "selu", "hard_tanh", "hard_sigmoid", "hard_swish", "cbrt", "lgamma", "digamma", "sinc")


def name(case):
    return case["opt"]["of"] if case["fn"] == "gradient of" else case["fn"]


KNOWN = [
    (
        "second order through traced control flow runs forward steps again: cotangents meet in another order than in eager",
        lambda c: c["fn"] == "gradient of" and name(c) in ("scan", "while_loop", "cond", "switch_case"),
    ),
    (FAULT, lambda c: name(c) in KINKS and "grad" in c),
    (FAULT, lambda c: name(c) in ("digamma", "sinc")),
    (FAULT, lambda c: name(c) in ("softmax_cross_entropy", "sparse_softmax_cross_entropy") and "grad" in c),
    (FAULT, lambda c: name(c) == "custom_gradient"),
    (FAULT, lambda c: name(c) in ("nanvar", "nanstd") and "grad" in c),
    (FAULT, lambda c: name(c) == "norm" and c["opt"].get("ord") == 3 and c["in"][0][1] == [4]),
    (FAULT, lambda c: name(c) in ("cov", "corrcoef") and c["in"][0][1] == [1, 6]),
    (FAULT, lambda c: name(c) == "remainder" and "grad" in c),
]


def is_known(case):
    """The reason why a case is left out, or None."""
    return next((reason for reason, matches in KNOWN if matches(case)), None)
