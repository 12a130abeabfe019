"""Prints docs/functions.md from docs/functions.txt and the headers: the functions of the array API standard, numpy, scipy and
torch, and which of them rill has. `./dev docs` runs it.

usage: print_functions.py [--judge]    with --judge it only says which names numpy, scipy and torch, those that can be
                                       imported, do not have, and which of numpy's functions are not listed; exits 1 if any
"""
import os
import re
import sys

import headers

DATA = os.path.join(headers.ROOT, "docs/functions.txt")
TITLE = """# Which functions there are

By name, in the Python array API standard (2024.12), in numpy (or scipy), in torch, and in rill; `-` where there is none. A name
is no promise of the same parameters, and the last column says where it gives other numbers:
[from numpy and torch](from_numpy_and_torch.md) has whole calls, and [index.md](index.md) all that rill has, much of which
is in neither. Printed by `./dev docs`; do not edit.
"""


def read():
    """[(heading, [(array API, numpy, torch, rill or None, why not or "", what differs or "")])], and the names that are
    left out."""
    sections, left_out, leaving = [], set(), False
    with open(DATA, encoding="utf-8") as file:
        for line in file:
            line, _, differs = line.partition(" ! ") if not line.startswith("#") else (line, "", "")
            line, _, why = line.partition(" # ")
            words = line.split()
            if line.startswith("## "):
                leaving = line == "## left out\n"
                if not leaving:
                    sections.append((line[3:].strip(), []))
            elif leaving:
                left_out |= set(words)
            elif words and words[0] != "#":
                assert 3 <= len(words) <= 4, line
                sections[-1][1].append((*words, None)[:4] + (why.strip(), differs.strip()))
    return sections, left_out


def declared():
    """The names of all public functions and types, and of two objects that are called as functions (tensor/index.h)."""
    return {"all", "any"} | {item.name for _, paths in headers.PUBLIC for path in paths for item in headers.read(path).items
            if item.kind in ("function", "type")}


def candidates(name):
    """What rill may call a function of this name."""
    last = re.sub(r"^.*\.", "", name)
    room = name.split(".")[0] + "::" if re.match(r"(linalg|fft)\.", name) else ""
    return [room + last, last, *(r + last for r in ("linalg::", "fft::", "random::"))]


def ours(row, names):
    *others, given, _, _ = row
    if given:
        if given != "-" and given not in names:
            sys.exit(f"docs/functions.txt: rill has no {given} (in the line of {row[1]} and {row[2]})")
        return given
    return next((c for n in others if n != "-" for c in candidates(n) if c in names), "-")


def found(module, name):
    for part in name.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


def judge(sections, left_out):
    faults, asked = [], []
    rows = [row for _, some in sections for row in some]
    try:
        import numpy
        asked.append("numpy")
        listed = {row[1] for row in rows} | left_out
        faults += [f"numpy has no {row[1]}" for row in rows
                   if row[1] != "-" and not row[1].startswith("scipy.") and not found(numpy, row[1])]
        faults += [f"numpy's {prefix}{name} is not listed"
                   for prefix, room in (("", numpy), ("linalg.", numpy.linalg), ("fft.", numpy.fft)) for name in room.__all__
                   if callable(getattr(room, name)) and not isinstance(getattr(room, name), type) and
                   prefix + name not in listed]
    except ImportError:
        pass
    try:
        import scipy.special
        asked.append("scipy")
        faults += [f"scipy has no {row[1]}" for row in rows
                   if row[1].startswith("scipy.") and not found(scipy, row[1].removeprefix("scipy."))]
    except ImportError:
        pass
    try:
        import torch
        asked.append("torch")
        faults += [f"torch has no {row[2]}" for row in rows if row[2] != "-" and not found(torch, row[2])]
    except ImportError:
        pass
    print("\n".join(faults) or f"docs/functions.txt names what {', '.join(asked)} have")
    return 1 if faults or not asked else 0


def main():
    sections, left_out = read()
    if "--judge" in sys.argv:
        return judge(sections, left_out)
    names = declared()
    print(TITLE)
    total = have = 0
    text = []
    for heading, rows in sections:
        cells = [(*row[:3], ours(row, names), *row[4:]) for row in rows]
        some = sum(row[3] != "-" for row in cells)
        total, have = total + len(cells), have + some
        text.append(f"\n## {heading}\n\n{some} of {len(cells)}\n\n| array API | numpy | torch | rill | differs |\n|---|---|---|---|---|")
        text += ["| " + " | ".join("-" if c == "-" else f"`{c}`" for c in row[:4]) + (f": {row[4]}" if row[4] else "") + f" | {row[5]} |".replace("|  |", "| |")
                 for row in cells]
    print(f"rill has {have} of these {total} functions.")
    print("\n".join(text))
    print("\nNext: [Optimizers](optimizers.md)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
