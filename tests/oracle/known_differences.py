"""Where rill and its judges differ: each with its reason."""


def name(case):
    return case["opt"]["of"] if case["fn"] == "gradient of" else case["fn"]


KNOWN = [
    (
        "second order through traced control flow runs forward steps again: cotangents meet in another order than in eager",
        lambda c: c["fn"] == "gradient of" and name(c) in ("scan", "while_loop", "cond", "switch_case"),
    ),
    (
        "where x is 0 the derivative of cbrt is infinite and the second of sinc -pi^2 / 3; torch has NaN",
        lambda c: ("grad" in c and name(c) == "cbrt") or (c["fn"] == "gradient of" and name(c) == "sinc"),
    ),
]


def is_known(case):
    """The reason why a case is left out, or None."""
    return next((reason for reason, matches in KNOWN if matches(case)), None)
