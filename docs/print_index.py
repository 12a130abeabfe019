"""Prints docs/index.md: every public function and type, from the headers. `./dev docs` runs it.

usage: print_index.py [--check]    with --check it only says which public functions have no comment, and exits 1 if any
"""
import re
import sys

import headers


def first_sentence(comment):
    text = re.sub(r"\s+", " ", re.sub(r"\n\n.*", "", headers.words(comment), flags=re.S)).strip()
    text = re.sub(r"^--- .*? -+ ", "", text)
    # A sentence ends at a full stop, but not at the ones of "f(x, ...)" and "0.5".
    end = re.search(r"(?<![.\s])[.:](?=\s+[A-Z`]|$)|: (?=\w+\()", text)
    return (text[:end.start()] if end else text).rstrip(".:")


def entries(paths, of_ops):
    """By name, in order: what each is."""
    found = {}
    for path in paths:
        for item in headers.read(path).items:
            parts = item.name.split("::")
            if item.kind not in ("function", "type") or headers.is_special(item) or "operator" in parts[-1]:
                continue
            if item.kind == "type" and len(parts) > 1 and parts[-2][0].isupper():
                continue  # a type inside a class
            simple = parts[-1]
            is_op = item.kind == "function" and len(parts) == 1 and simple in of_ops
            if item.behind and item.kind == "function":
                text = first_sentence(item.behind)
            elif is_op and (item.shared or not item.above):
                text = of_ops[simple]
            else:
                text = first_sentence(item.above)
            if item.kind == "type" and not text:
                continue
            if text and not found.get(item.name):
                found[item.name] = text
            found.setdefault(item.name, "")
    return found


def undocumented(of_ops):
    everything = [(path, item) for _, paths in headers.PUBLIC for path in paths for item in headers.read(path).items
                  if item.kind == "function"]
    said = {item.name for _, item in everything if item.doc} | set(of_ops)
    return [f"{path}:{item.line + 1}: {item.name}" for path, item in everything
            if item.name not in said and not headers.is_special(item)]


def main():
    of_ops = headers.formulas()
    faults = undocumented(of_ops)
    for fault in faults:
        print(f"{fault} has no comment", file=sys.stderr)
    if "--check" not in sys.argv:
        print("# Index\n\nEvery public function and type, printed from the headers by `./dev docs`; do not edit. The"
              " headers say more, and [ops.md](ops.md)\nhas formulas, dtypes and gradients. Operators (`+`, `==`, `&`,"
              " `<<`, ...) are in `ops/ops.h`.")
        for topic, paths in headers.PUBLIC:
            print(f"\n## {topic}\n\n{', '.join(f'`rill/{p}`' for p in paths)}\n\n| | |\n|---|---|")
            for name, text in entries(paths, of_ops).items():
                print(f"| `{name}` | {text.replace('|', chr(92) + '|')} |")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
