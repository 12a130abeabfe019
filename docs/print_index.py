"""Prints docs/index.md: every public function and type from A to Z, from the headers. `./dev docs` runs it.

usage: print_index.py [--check]    with --check it only says which public functions have no comment or no signature, and exits 1 if any

Start at entries(). A name stands under the letter of what follows its namespaces: linalg::svd is at S, Tensor::reshape
at T.
"""
import dataclasses
import functools
import os
import re
import sys

import headers

MOST_SIGNATURES = 6      # of one name
LONGEST_SIGNATURE = 200  # of a struct with its fields
LONGEST_COMMENT = 260    # that several functions share and that is printed whole


@dataclasses.dataclass
class Entry:
    name: str
    header: str
    kind: str
    signatures: list
    text: str = ""


# --- Comments --------------------------------------------------------------------------------------------------------


def plain(comment):
    """The first paragraph of a comment, as one line."""
    text = re.sub(r"\s+", " ", re.sub(r"\n\n.*", "", headers.words(comment), flags=re.S)).strip()
    return re.sub(r"^--- .*? -+ ", "", text)


def sentences(text):
    """A sentence ends at a full stop, but not at the ones of "f(x, ...)", "0.5" and "et al."."""
    return [s.strip() for s in re.split(r"(?<=(?<![.\s])(?<!al)\.)\s+(?=[A-Z`])", text) if s.strip()]


def ended(text):
    return text.rstrip(".:, ")


def first_sentence(comment):
    found = sentences(plain(comment))
    return ended(found[0]) if found else ""


def from_shared(comment, name, others):
    """What a comment that is about several functions says of `name`: its clause "name: ...", or all but those of others."""
    kept = []
    for sentence in sentences(plain(comment)):
        clauses = [re.match(r"(\w+)(?:\(\))?: (.*)", c) for c in re.split(r"; ", sentence)]
        for clause in filter(None, clauses):
            if clause.group(1) == name:
                return ended(clause.group(2))
        if not (clauses[0] and clauses[0].group(1) in others):
            kept.append("; ".join(c for c, of in zip(re.split(r"; ", sentence), clauses)
                                  if not (of and of.group(1) in others)))
    if len(text := " ".join(kept)) <= LONGEST_COMMENT:
        return ended(text)
    return ended(next((s for s in kept if re.search(rf"(?<![\w:]){name}(?!\w)", s)), kept[0]))


def opening_sentence(reader, name):
    """What a header's opening comment says of the type that the header is about: "Tensor: an immutable ..."."""
    opening = re.match(r"(?://.*\n)+", reader.source)
    text = first_sentence(opening.group().rstrip()) if opening else ""
    return text[len(name) + 2:] if text.startswith(f"{name}: ") else text if only_class(reader, name) else ""


def only_class(reader, name):
    """Whether the header is about this class alone, and says so at its opening instead of above the class."""
    classes = [i for i in reader.items if re.match(r"class ", i.text) and not i.text.endswith(";") and "::" not in i.name]
    return bool(classes) and classes[0].name == name and not classes[0].above


# --- Signatures ------------------------------------------------------------------------------------------------------


def simple_types(text):
    """A declaration as one says it: without the caller's place, references, std:: and what only a compiler reads."""
    text = re.sub(r",?\s*(?:const )?(?:Where|std::source_location)\s*&?\s*\w*(?:\s*=\s*[\w:]+\(\))?(?=\s*[,)])", "", text)
    text = re.sub(r"\[\[\w+\]\]|\bRILL_\w+\b|\b(?:inline|constexpr|consteval|static|explicit|virtual|friend|extern|noexcept|override)\b"
                  r"(?:\((?:true|false)\))?", "", text)
    text = re.sub(r"\b(?:std::same_as<(\w+)>|std::\w+<[^<>]*>) auto\b", lambda m: m.group(1) or "auto", text)
    text = re.sub(r"\b(?:const|std::|rill::|typename|detail::)\b\s*|\b(?:std|rill|detail)::", "", text)
    text = re.sub(r"\s*&&?(?=[\s,)>.])", "", text)
    text = re.sub(r"(Index i1 = \{\}),.*(Index i7)", r"\1, ..., \2", text.replace("initializer_list<", "list<"))
    text = re.sub(r"\(\s+", "(", re.sub(r"\s+([,)(])", r"\1", re.sub(r"\s+", " ", text)))
    return text.replace("( ", "(").strip(" ;{")


def after_parameters(text):
    """`text` up to the parenthesis that closes the parameters."""
    found = re.search(r"[\w>=\])]\s*\(", re.sub(r"operator\(\)", "operator__", text))
    if not found:
        return text
    end = headers.matching(text, found.end() - 1)
    return text[:end] + ("".join(re.findall(r"^\s*->.*", text[end:])))


def expanded(item, reader):
    """The declaration that a macro makes: RILL_UNARY(exp) is Tensor exp(const Tensor& x, ...)."""
    call = re.match(r"(RILL_\w+)\((\w+)", item.text)
    if not call:
        return item.shown
    if call.group(1) == "RILL_RULE":  # of an optimizer: its constructor, and what it overrides
        return f"explicit {call.group(2)}(const {call.group(2)}Options& options = {{}})"
    define = re.search(rf"#define {call.group(1)}\((\w+)[^)]*\)((?:.*\\\n)*.*)", reader.source)
    body = define.group(2).replace("\\\n", " ")
    if (outer := re.match(r"\s*(RILL_\w+)\(\w+, (\w+)\)", body)):  # a macro of a macro
        define = re.search(rf"#define {outer.group(1)}\((\w+), (\w+)\)((?:.*\\\n)*.*)", reader.source)
        body = re.sub(rf"\b{define.group(2)}\b", outer.group(2), define.group(3).replace("\\\n", " "))
    return re.split(r"[;{]", re.sub(rf"\b{define.group(1)}\b", call.group(2), body))[0]


def signature(item, reader):
    if re.match(r"RILL_TAKES_|RILL_OPTIONS_ARE_NAMED", item.text):
        return ""  # another form of a function that stands beside it
    return simple_types(after_parameters(headers.without_template(expanded(item, reader))))


def fields(item, reader):
    """A struct with its fields, an enum with its values, a class by its name."""
    word, name = re.match(r"(struct|class|enum)", headers.without_template(item.text)).group(), item.name.split("::")[-1]
    inside = [i for i in reader.items if item.line <= i.line and i.last <= item.last and i.kind == "member"]
    texts = [simple_types(i.shown).rstrip(",") for i in inside if "named_only_" not in i.shown]
    if word == "class" or not texts:
        return f"{word} {name}"
    between = ", " if word == "enum" else "; "
    while len(between.join(texts)) > LONGEST_SIGNATURE and len(texts) > 1:
        texts = [*texts[:-2], "..."] if texts[-1] == "..." else [*texts[:-1], "..."]
    return f"{word} {name} {{ {between.join(texts)} }}"


# --- Entries ---------------------------------------------------------------------------------------------------------


def is_hidden(item):
    parts = item.name.split("::")
    inner = item.kind == "type" or len([p for p in parts if p[0].isupper()]) > 2
    if item.kind == "type" and item.text.endswith(";"):
        return True  # declared here, defined elsewhere
    if re.search(r"(?:none|neither|not) compiles?, and", item.above):
        return True  # there to be an error
    return parts[0] in headers.INTERNAL or any(outer[0].isupper() for outer in parts[:-1]) and inner


def is_constructor(item):
    parts = item.name.split("::")
    return len(parts) > 1 and parts[-1] == parts[-2] and "= delete" not in item.text


def copies(item):
    """A constructor that copies or moves, which nobody looks up."""
    name = re.escape(item.name.split("::")[-1])
    return re.search(rf"\b{name}\((?:const {name}&|{name}&&)", item.text)


def comment_of(item, reader, of_ops, of_types):
    parts = item.name.split("::")
    name = parts[-1]
    if item.kind == "type":
        of_function = item.shared and (item.first.kind == "function" or name.endswith("Options"))
        return opening_sentence(reader, name) or ("" if of_function else first_sentence(item.above))
    if item.behind:
        return first_sentence(item.behind)
    if len(parts) == 1 and name in of_ops and (item.shared or not item.above):
        return of_ops[name]
    # The comment of a class, or of its constructor, is not about what follows.
    if item.above and item.above == of_types.get("::".join(parts[:-1])) or headers.is_special(item.first):
        return ""
    others = {i.name.split("::")[-1] for i in reader.items if i.above == item.above} - {name}
    return from_shared(item.above, name, others) if others else first_sentence(item.above)


def entries():
    """By name: what each is."""
    of_ops, found = headers.formulas(), {}
    for path in (p for _, paths in headers.PUBLIC for p in paths):
        reader, of_types = headers.read(path), {}
        for item in reader.items:
            if item.kind == "type":
                of_types[item.name] = item.above
            if item.kind not in ("function", "type") or is_hidden(item):
                continue
            if is_constructor(item):
                if not copies(item) and (owner := found.get(item.name.rpartition("::")[0])):
                    owner.signatures = [s for s in owner.signatures if not s.startswith("class ")]
                    owner.signatures.append(signature(item, reader))
                continue
            if headers.is_special(item) or "operator" in item.name.split("::")[-1]:
                continue
            entry = found.setdefault(item.name, Entry(item.name, path, item.kind, []))
            entry.signatures.append(fields(item, reader) if item.kind == "type" else signature(item, reader))
            entry.text = entry.text or comment_of(item, reader, of_ops, of_types)
    describe_options(found)
    # A member that its class's comment documents is left out.
    return [e for e in found.values() if e.text or "::" not in e.name or not e.name.split("::")[-2][0].isupper()]


def describe_options(found):
    """Of structs of options without a comment of their own: who takes them."""
    for entry in found.values():
        if entry.kind != "type" or entry.text:
            continue
        name = entry.name.split("::")[-1]
        takers = [e.name for e in found.values() if e is not entry and not is_for_extensions(e) and
                  any(re.search(rf"\b{name}\b", s) for s in e.signatures)]
        what = "Options of" if name.endswith("Options") else "See"
        entry.text = f"{what} {', '.join(f'`{t}`' for t in takers[:4])}" if takers else ""


# --- The page --------------------------------------------------------------------------------------------------------


def key(name):
    """What a name is sorted by: without its namespaces."""
    parts = name.split("::")
    first = next((i for i, p in enumerate(parts) if p[0].isupper()), len(parts) - 1)
    return "::".join(parts[first:])


@functools.cache
def page_text(page):
    with open(os.path.join(headers.ROOT, f"docs/{page}.md"), encoding="utf-8") as file:
        return file.read()


def page_of(entry):
    """The page that explains it, or ""."""
    own = max((p for p in headers.PAGES if entry.header.startswith(p)), key=len)
    name = re.escape(entry.name.split("::")[-1])
    for page in headers.PAGES[own]:
        if re.search(rf"(?<![\w-]){name}(?:<[^<>]*>)?[({{]|`(?:[\w.]*::|\.)*{name}(?:\(\))?`", page_text(page)):
            return f"[{page}]({page}.md)"
    return ""


def cell(text):
    return text.replace("|", "\\|")


def row(entry):
    signatures = [s for s in dict.fromkeys(entry.signatures) if s]
    more = "" if len(signatures) <= MOST_SIGNATURES else f"<br>and {len(signatures) - MOST_SIGNATURES} more"
    shown = "<br>".join(f"`{cell(s)}`" for s in signatures[:MOST_SIGNATURES]) + more
    header = f"[{os.path.basename(entry.header)}](../{entry.header})"
    return f"| **{entry.name}** | {shown} | {cell(entry.text)} | {', '.join(filter(None, [page_of(entry), header]))} |"


def is_for_extensions(entry):
    topic = next(t for t, paths in headers.PUBLIC if entry.header in paths)
    names = entry.name.split("::")
    return topic in headers.EXTENSION_TOPICS or entry.name in headers.FOR_EXTENSIONS or \
        names[0] in headers.FOR_EXTENSIONS or names[-1] in headers.EXTENSION_MEMBERS


def tables(listed, heading):
    letter = ""
    for entry in sorted(listed, key=lambda e: (key(e.name).lower(), e.name)):
        if key(entry.name)[0].upper() != letter:
            letter = key(entry.name)[0].upper()
            print(f"\n{heading} {letter}\n\n| | | | |\n|---|---|---|---|")
        print(row(entry))


def undocumented(of_ops):
    everything = [(path, item) for _, paths in headers.PUBLIC for path in paths for item in headers.read(path).items
                  if item.kind == "function"]
    said = {item.name for _, item in everything if item.doc} | set(of_ops)
    return [f"{path}:{item.line + 1}: {item.name}" for path, item in everything
            if item.name not in said and not headers.is_special(item)]


def main():
    everything = entries()
    faults = [f"{fault} has no comment" for fault in undocumented(headers.formulas())]
    faults += [f"{e.header}: {e.name} has no signature that this can read" for e in everything if not any(e.signatures)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if "--check" not in sys.argv:
        extending = [e for e in everything if is_for_extensions(e)]
        letters = sorted({key(e.name)[0].upper() for e in everything if e not in extending})
        print("# Index\n\nEvery public function and type from A to Z, printed from the headers by `./dev docs`; do not"
              " edit. A name is at the letter\nof what follows its namespaces: `linalg::svd` is at S, `Tensor::reshape` at"
              " T. Signatures leave out `const`, references,\n`std::` and the last parameter of nearly every function, the"
              " caller's place. Formulas, dtypes and gradients: [ops](ops.md).\nOperators (`+`, `==`, `&`, `<<`, ...) are in"
              " [ops.h](../ops/ops.h).\n")
        print(" ".join(f"[{c}](#{c.lower()})" for c in letters) + " · [for ops and layers of your own](#for-ops-and-layers-of-your-own)")
        tables([e for e in everything if e not in extending], "##")
        print("\n## For ops and layers of your own\n\nWhat rill's own ops are made with: [extending](extending.md).")
        tables(extending, "###")
        print("\nNext: [Layers](layers.md)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
