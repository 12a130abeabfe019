"""Prints docs/index.md: every public function and type, from the headers. `./dev docs` runs it.

usage: print_index.py [--check]    with --check it only says which public functions have no comment, and exits 1 if any
"""
import re
import sys

import headers


def first_sentence(comment):
    text = re.sub(r"\s+", " ", re.sub(r"\n\n.*", "", headers.words(comment), flags=re.S)).strip()
    text = re.sub(r"^--- .*? -+ ", "", text)
    # A sentence ends at a full stop, but not at the ones of "f(x, ...)", "0.5" and "et al.".
    end = re.search(r"(?<![.\s])(?<!al)\.(?=\s+[A-Z`]|$)", text)
    return (text[:end.start()] if end else text).rstrip(".:, ")


def opening_sentence(reader, name):
    """What a header's opening comment says of the type that the header is about: "Tensor: an immutable ..."."""
    opening = re.match(r"(?://.*\n)+", reader.source)
    text = first_sentence(opening.group().rstrip()) if opening else ""
    return text[len(name) + 2:] if text.startswith(f"{name}: ") else ""


def entries(paths, of_ops):
    """By name, in order: what each is. Members that only their class's comment documents are left out."""
    found, of_types = {}, {}
    for path in paths:
        reader = headers.read(path)
        for item in reader.items:
            parts = item.name.split("::")
            if item.kind not in ("function", "type") or headers.is_special(item) or "operator" in parts[-1]:
                continue
            if parts[0] in headers.INTERNAL or any(outer[0].isupper() for outer in parts[:-1]) and (
                    item.kind == "type" or len([p for p in parts if p[0].isupper()]) > 2):
                continue  # types inside classes
            if item.kind == "type":
                above = item.line > 0 and reader.whole_line_comment(item.line - 1)
                text = opening_sentence(reader, parts[-1]) or (first_sentence(item.above) if above else "")
                of_types[item.name] = item.above
                if text:
                    found.setdefault(item.name, text)
                continue
            if not item.behind and item.above and item.above == of_types.get("::".join(parts[:-1])):
                continue
            simple = parts[-1]
            is_op = item.kind == "function" and len(parts) == 1 and simple in of_ops
            if item.behind and item.kind == "function":
                text = first_sentence(item.behind)
            elif is_op and (item.shared or not item.above):
                text = of_ops[simple]
            else:
                text = first_sentence(item.above)
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
        print("\nNext: [Which functions there are](functions.md)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
