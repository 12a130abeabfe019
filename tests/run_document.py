"""Compiles and runs the C++ of a document, so that what a reader copies works.

usage: run_document.py FILE.md BUILD COMPILER... [-- FLAGS...]

A ```cpp block with `int main` is a program of its own. The others follow one another inside one main(), as a reader
meets them: later ones use what earlier ones declared, and lines with #include or `using namespace` go to the top. A
```text block right after a ```cpp block is what that block prints, exactly. In a table, the code in a column that is
headed `rill` is compiled and run as statements after the block before it, each in a scope of its own.

A ```console block is a session, run when the document's programs have been, in the folder where they wrote their files:
lines that begin with "$ " are commands, the others what these print, where a line "..." stands for any number of lines. In
a build without the program `rill` it counts as skipped.

A program that includes a header of a library that is not here counts as skipped.

FLAGS, where given, are what finds rill (an installed one, say) in place of the build folder's headers and libraries.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

document, build = sys.argv[1:3]
compiler = sys.argv[3:]
if "--" in compiler:
    split = compiler.index("--")
    compiler, FLAGS = compiler[:split], compiler[split + 1:]
else:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    FLAGS = [f"-I{root}/include", f"-L{build}", f"-Wl,-rpath,{build}", "-lrill", "-Wl,--as-needed", "-lrill_data", "-lrill_distribute", "-lrill_nn", "-lrill_ops"]
    if glob.glob(f"{build}/librill_io.so*"):
        FLAGS += [*(["-lrill_train"] if glob.glob(f"{build}/librill_train.so*") else []), *(["-lrill_models"] if glob.glob(f"{build}/librill_models.so*") else []), "-lrill_io"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
# A table: its head, the line below it, its rows.
TABLE = re.compile(r"^(\|.*\|)\n\|[-|: ]+\|\n((?:\|.*\|\n)+)", re.M)


def missing(source):
    """The headers of other libraries that are not here."""
    asked = re.findall(r"^#include <((?!rill/)[\w./]+/[\w./]+)>", source, re.M)
    return [h for h in asked if subprocess.run([*compiler, "-E", "-x", "c++", "-"], input=f"#include <{h}>\n", text=True,
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode]


def run(name, source, expected, folder):
    if (absent := missing(source)):
        return print(f"skipped: {name}, which includes {', '.join(absent)}")
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/{name}.cpp", "w", encoding="utf-8") as file:
            file.write(source)
        command = [*compiler, "-std=c++20", f"{work}/{name}.cpp", "-o", f"{work}/{name}", *FLAGS]
        if subprocess.run(command).returncode:
            sys.exit(f"{document}: {name} does not compile")
        done = subprocess.run([f"{work}/{name}"], cwd=folder, text=True, stdout=subprocess.PIPE, timeout=120)
    if done.returncode:
        sys.exit(f"{document}: {name} ends with {done.returncode}\n{done.stdout}")
    if expected and done.stdout.strip() != expected.strip():
        sys.exit(f"{document}: {name} prints\n{done.stdout}\nand the document says\n{expected}")


def run_session(session, folder):
    paths = os.pathsep.join([f"{build}/command", os.environ["PATH"]])
    if not shutil.which("rill", path=paths):
        return print("skipped: a session, for the program rill is not here")
    for step in re.split(r"^\$ ", session, flags=re.M)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(["bash", "-c", command], cwd=folder, text=True, timeout=120, stdout=subprocess.PIPE,
                              env={**os.environ, "PATH": paths, "NO_COLOR": "1"})
        if done.returncode > 1:  # 1: `rill diff` found differences
            sys.exit(f"{document}: `{command}` ends with {done.returncode}")
        lines = ["(?:.*\n)*" if line == "..." else re.escape(line.rstrip()) + "[ ]*\n" for line in expected.strip().splitlines()]
        if not re.fullmatch("".join(lines), done.stdout.strip() + "\n" if done.stdout.strip() else ""):
            sys.exit(f"{document}: `{command}` prints\n{done.stdout}\nand the document says\n{expected}")


def cells(row):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def statements(table):
    """The code of a table's column `rill`, and the lines it stands on."""
    head = cells(table.group(1))
    if "rill" in head:
        first = text.count("\n", 0, table.start()) + 3
        for i, row in enumerate(table.group(2).splitlines()):
            for code in re.findall(r"`([^`]+)`", cells(row)[head.index("rill")]):
                yield f'#line {first + i} "{document}"\n{{ {code}; }}\n'


with open(document, encoding="utf-8") as file:
    text = file.read()
folder_of_all = tempfile.TemporaryDirectory()
folder = folder_of_all.name
top, body, printed, programs, sessions = [], [], "", 0, []
for match in sorted([*FENCE.finditer(text), *TABLE.finditer(text)], key=lambda m: m.start()):
    if match.re is TABLE:
        body += statements(match)
        continue
    language, code = match.groups()
    line = text.count("\n", 0, match.start()) + 2
    if language == "console":
        sessions.append(code)
    if language == "cpp":
        output = re.match(r"\s*```text\n(.*?)^```$", text[match.end():], re.M | re.S)
        place = f'#line {line} "{document}"\n'
        if re.search(r"\bint main\(", code):
            programs += 1
            run(f"program_{line}", place + code, output.group(1) if output else "", folder)
            continue
        body.append(place)
        for row in code.splitlines(keepends=True):
            (top if re.match(r"#include|using namespace", row) else body).append(row)
            if row is not body[-1]:
                body.append("\n")  # keeps the line numbers
        printed += output.group(1) if output else ""
if body:
    programs += 1
    run("snippets", "".join(dict.fromkeys(top)) + "int main() {\n" + "".join(body) + "}\n", printed, folder)
for session in sessions:
    run_session(session, folder)
print(f"All tests passed ({os.path.basename(document)}, in {programs + len(sessions)} test cases)")
sys.exit(0 if programs else 1)
