"""Where rill and its judges differ: each with its reason. What is not meant to stay so says that it is a fault."""

FAULTS = "a fault of rill, to be mended"


def on_special_values(case):
    return case["in"][0][1] != [7, 9]


KNOWN = [
    (FAULTS, lambda c: c["fn"] in ("softmax_cross_entropy", "sparse_softmax_cross_entropy") and "grad" in c),
    (FAULTS, lambda c: c["fn"] == "custom_gradient"),
    (FAULTS, lambda c: c["fn"] in ("digamma", "sinc") and "grad" in c),
    (FAULTS, lambda c: c["fn"] in ("digamma", "sinc") and on_special_values(c)),
    (FAULTS, lambda c: c["fn"] == "sinc" and c["in"][0][0] == "bf16"),
    (FAULTS, lambda c: c["fn"] in ("nanvar", "nanstd") and "grad" in c),
    (FAULTS, lambda c: c["fn"] == "norm" and c["opt"].get("ord") == 3 and c["in"][0][1] == [4]),
    (FAULTS, lambda c: c["fn"] in ("cov", "corrcoef") and c["in"][0][1] == [1, 6]),
]


def is_known(case):
    """The reason why a case is left out, or None."""
    return next((reason for reason, matches in KNOWN if matches(case)), None)
