"""What must not compile, and the words that the compiler must then say.

Mistakes stand in one program, a function each, which the compiler reads once; each must have an error of its own, that
contains what is written beside it, and the program without them must have none.

usage: test_compile_errors.py BUILD COMPILER...
"""
import os
import re
import subprocess
import sys
import tempfile

HEAD = """#include <rill/nn.h>
#include <rill/rill.h>
using namespace rill;
const Tensor x = ones({2, 3}), y = x;
Tensor v = x;
"""
# The mistake, and what one of its errors says: the compiler's own words, or rill's.
MISTAKES = [
    # Options of other libraries' names, and a bool, are not axes.
    ("stddev(x, {.ddof = 1});", "no match|no viable|could not convert"),
    ("var(x, {.unbiased = true});", "no match|no viable|could not convert"),
    ("sum(x, {.keepdim = true});", "no match|no viable|could not convert"),
    ("mean(x, {.dim = 0});", "no match|no viable|could not convert"),
    ("any(x, {.dim = 1});", "no match|no viable|could not convert"),
    ("all(x, {.keepdim = true});", "no match|no viable|could not convert"),
    ("sum(x, true);", "no match|no viable|could not convert"),
    ("max(x, {.dims = 1});", "no match|no viable|could not convert"),
    # Tensors never change.
    ("v(0) = y;", r"write x = x.at\(i\).set\(value\)"),
    ("v(0) = 3.f;", r"write x = x.at\(i\).set\(value\)"),
    ("(x + 1).data<float>();", "deleted"),
    ("auto d = ones({2}).data<float>();", "deleted"),
    # Names of other libraries.
    ("max(x, y);", r"maximum\(x, y\)"),
    ("min(x, y);", r"minimum\(x, y\)"),
    # Callables of traced functions.
    ('function("f", [](auto t) { return t; });', r"write \[\]\(const Tensor& x\)"),
    ('function("f", gelu);', "no match|couldn't infer|couldn't deduce|unresolved overloaded"),
    ('function("f", [](Tensor& t) { t = t + 1; });', "cannot write to what it is given"),
    ('function("f", [](std::vector<Tensor>& t) { t.clear(); });', "cannot write to what it is given"),
    ('function("f", [](const Tensor& t) { return t; })(1, 2, 3);', "no match|no viable"),
    ("Function<Tensor(Tensor)> f = x;", "conversion|convert"),
]
# What compilers warn of, where warnings are errors.
WARNINGS = [
    ("v.at(0).set(1);", "nodiscard"),
    ("v.at(0).add(1);", "nodiscard"),
]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
build, compiler = sys.argv[1], sys.argv[2:]
clang = "clang" in subprocess.run([*compiler, "--version"], stdout=subprocess.PIPE, text=True).stdout


def errors(source):
    """The compiler's errors, each with the program's line that led to it."""
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/mistakes.cpp", "w", encoding="utf-8") as file:
            file.write(source)
        command = [*compiler, "-std=c++20", "-fsyntax-only", "-Werror", "-fdiagnostics-color=never",
                   "-Wno-unused-variable", "-Wno-unused-value", "-Wunused-result",
                   "-ferror-limit=0" if clang else "-fmax-errors=0", f"-I{ROOT}/include", f"{work}/mistakes.cpp"]
        text = subprocess.run(command, stderr=subprocess.PIPE, text=True).stderr
    found, line, pending = [], 0, []
    for row in text.splitlines():
        here = re.search(r"mistakes\.cpp:(\d+)", row)
        if here:
            line = int(here.group(1))
            for message in pending:  # clang names the user's line behind the error
                found.append((line, message))
            pending = []
        if " error: " in row:
            message = row.split(" error: ", 1)[1]
            found.append((line, message)) if here or not clang else pending.append(message)
    return found, text


def program(mistakes):
    return HEAD + "".join(f"void f{i}() {{ {code} }}\n" for i, (code, _) in enumerate(mistakes))


if text := errors(program([]))[1]:
    sys.exit("the program without mistakes has errors:\n" + text)
faults = []
for mistakes in (MISTAKES, WARNINGS):  # clang stops to warn where there are errors
    found, _ = errors(program(mistakes))
    for i, (code, words) in enumerate(mistakes):
        line = HEAD.count("\n") + 1 + i
        said = [message for at, message in found if at == line]
        if not said:
            faults.append(f"{code}  compiles")
        elif not any(re.search(words, message) for message in said):
            faults.append(f"{code}  does not compile, but says: {said[0]}")
for fault in faults:
    print(fault)
print(f"{len(MISTAKES) + len(WARNINGS)} mistakes, {len(faults)} without the error that they should have")
sys.exit(1 if faults else 0)
