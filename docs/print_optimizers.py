"""Prints docs/optimizers.md from the headers of nn/optimizers and the names that other libraries have. `./dev docs` runs it.

usage: print_optimizers.py    exits 1 where a rule has no line here, or a line no rule
"""
import os
import re
import sys

import headers

FOLDER = os.path.join(headers.ROOT, "nn/optimizers")
FILES = ["sgd.h", "adam.h", "adaptive.h", "layerwise.h", "closures.h"]
# rill: torch, Keras, optax, what differs.
NAMES = {
    "SGD": ("SGD", "SGD", "sgd", "Keras's velocity holds the rate; torch's `dampening` is left out"),
    "ASGD": ("ASGD", "-", "-", "the mean of parameters is the slot `mean`"),
    "Rprop": ("Rprop", "-", "rprop", ""),
    "Adam": ("Adam", "Adam", "adam", "Keras adds epsilon before it corrects; its default is 1e-7"),
    "AdamW": ("AdamW", "AdamW", "adamw", "Keras's and optax's weight decay is 0.004 and 1e-4 by default"),
    "Adamax": ("Adamax", "Adamax", "adamax", ""),
    "NAdam": ("NAdam", "Nadam", "nadam", "optax's momentum does not grow"),
    "RAdam": ("RAdam", "-", "radam", "optax adds epsilon to the corrected root"),
    "Lion": ("-", "Lion", "lion", "Keras's rate is 0.001 by default"),
    "RMSprop": ("RMSprop", "RMSprop", "rmsprop", "the velocity holds the rate, as Keras's; torch's does not, which differs where "
                "the rate changes; a negative variance counts as 0"),
    "Adagrad": ("Adagrad", "Adagrad", "adagrad", "torch's `lr_decay` is inverse_time_decay(rate, 1, lr_decay)"),
    "Adadelta": ("Adadelta", "Adadelta", "adadelta", ""),
    "FTRL": ("-", "Ftrl", "-", "the learning rate's power is -1/2"),
    "Adafactor": ("Adafactor", "Adafactor", "adafactor", "as torch's"),
    "LARS": ("-", "-", "lars", ""),
    "LAMB": ("-", "Lamb", "lamb", "optax's numbers"),
    "Muon": ("Muon", "Muon", "contrib.muon", "in f32, where torch iterates in bfloat16; kernels are [in, out]; vectors take AdamW's step"),
    "Lookahead": ("-", "-", "lookahead", "a template around any rule"),
    "SAM": ("-", "-", "contrib.sam", "is given a function of the loss, and an optimizer"),
    "WeightAverage": ("swa_utils.AveragedModel", "-", "-", "stands beside an optimizer: update() takes the parameters in, swap() gives them their means"),
    "LBFGS": ("LBFGS", "-", "lbfgs", "is given a function of the loss; torch's line search"),
}
TITLE = """# Optimizers

Each rule, its options beside those that all have, and what torch, Keras and optax call it. `g` is the gradient, `w` the
parameter, `t` counts steps from 1. Numbers are held to theirs step by step (`tests/nn/test_optimizers.cpp`), in f64 and f32. How
they are used: [layers, optimizers, training](nn.md#optimizers). Printed by `./dev docs`; do not edit.

| optimizer | rule | options and defaults | torch | Keras | optax | what differs |
|---|---|---|---|---|---|---|
"""


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def comment_before(text, end):
    """The lines of a comment that ends where a declaration begins."""
    lines = []
    for line in reversed(text[:end].splitlines()):
        if not line.startswith("//"):
            break
        lines.insert(0, line[2:].strip())
    return " ".join(lines)


def options_of(text, name):
    """`rate 0.1, momentum 0.9` of a struct of options."""
    body = re.search(rf"struct {name}Options {{(.*?)\n}};", text, re.S)
    if not body:
        return ""
    body = re.sub(r"//.*", "", body.group(1))
    found = re.findall(r"(\w+) = ([^,;{}]+)[,;]", body)
    shown = [f"{field} {value.strip()}" for field, value in found if field != "named_only_"]
    shared = re.search(r"RILL_SHARED_OPTIONS\(([\d.]+),", body)
    return ", ".join(shown + ([f"weight_decay {shared.group(1)}"] if shared else []))


def rules():
    for file in FILES:
        text = read(file)
        for match in re.finditer(r"^(?:template <class Rule>\n)?class (\w+)(?: : public (\w+))? {", text, re.M):
            comment = comment_before(text, match.start())
            if comment:
                yield match.group(1), comment, options_of(text, match.group(1))


def shared():
    """What RILL_SHARED_OPTIONS says of its fields, as a table."""
    text = read("optimizer.h")
    comment = re.search(r"// The options that every optimizer has.*?\n//\n(.*?)\n#define", text, re.S).group(1)
    rows = []
    for line in comment.splitlines():
        line = line[2:]
        if match := re.match(r"   (\w+) +(.*)", line):
            rows.append([match.group(1), match.group(2)])
        else:
            rows[-1][1] += " " + line.strip()
    return rows


def main():
    found = list(rules())
    missing = {name for name, _, _ in found} ^ set(NAMES)
    if missing:
        print(f"docs/print_optimizers.py: {', '.join(sorted(missing))} stands in one of NAMES and the headers alone", file=sys.stderr)
        return 1
    print(TITLE, end="")
    for name, rule, options in found:
        cells = [f"`{name}`", rule, options, *(n if n == "-" else f"`{n}`" for n in NAMES[name][:3]), NAMES[name][3]]
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    print("\n## What all have\n\n| option | |\n|---|---|")
    for name, what in shared():
        print(f"| `{name}` | {what} |")
    print("\nNext: [Operations](ops.md)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
