"""Where rill and its judges differ: each with its reason."""


def name(case):
    return case["opt"]["of"] if case["fn"] == "gradient of" else case["fn"]


KNOWN = [
    (
        "where x is 0 the derivative of cbrt is infinite and the second of sinc -pi^2 / 3; torch has NaN",
        lambda c: ("grad" in c and name(c) == "cbrt") or (c["fn"] == "gradient of" and name(c) == "sinc"),
    ),
]


def rounds(case):
    """Whether traced gradients are held to the judge alone, not to eager's bits: those of second order through control
    flow run forward steps again, and add up cotangents in another order than eager code; zeros in Jacobians may have
    another sign."""
    derived = case["fn"] == "gradient of" or "transforms" in case
    return derived and name(case) in ("scan", "while_loop", "cond", "switch_case")


def is_known(case):
    """The reason why a case is left out, or None."""
    return next((reason for reason, matches in KNOWN if matches(case)), None)
