"""The include direction of rill's layers, that the meson.build files list what is there, that types have one name, that
large folders say what they hold, that numbers are read and written without the locale, that docs/README.md lists every
page and each page the next one, that links between pages lead somewhere, and that each layer has a row in the table of
layers.

    tensor <- devices <- ops <- autodiff <- trace <- {serialize, nn <- distribute} <- data <- train

A file includes its own layer and those to its left, and spells every path from the root of an install. The layers on
the right are siblings: none includes another. The rooms of trace/ have an order as well, graph <- fusion <- run <-
call <- control. Sources must be listed, or they would silently not be compiled; headers
that a public header reaches must be installed, or users could not compile.
"""
import glob
import os
import re
import sys

ROOT = os.environ.get("RILL_SOURCE_ROOT", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
LEFT = {
    "tensor": [],
    "devices": ["tensor"],
    "ops": ["tensor", "devices"],
    "autodiff": ["tensor", "devices", "ops"],
    "trace": ["tensor", "devices", "ops", "autodiff"],
    "serialize": ["tensor", "devices", "ops", "autodiff", "trace"],
    "nn": ["tensor", "devices", "ops", "autodiff", "trace"],
    "distribute": ["tensor", "devices", "ops", "autodiff", "trace", "nn"],
    "data": ["tensor", "devices", "ops", "autodiff", "trace", "serialize"],
    "train": ["tensor", "devices", "ops", "autodiff", "trace", "serialize", "nn", "distribute", "data"],
}
# Libraries of their own, which librill opens: they may use what is to the right of their layer too.
ABOVE = {"devices/cuda/driver/": ["ops"], "devices/cuda/families/": ["ops"]}
# The same of the rooms of trace/. What a room needs of one to its right, it asks through a table that it declares and
# that one fills: graph/control_node.h.
ROOMS = ["graph", "fusion", "run", "call", "control"]
UMBRELLAS = {"rill.h": "trace", "serialize.h": "serialize", "summary.h": "serialize", "nn.h": "nn", "metrics.h": "nn", "distributions.h": "nn", "data.h": "data", "distribute.h": "distribute", "train.h": "train"}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
# Headers of dependencies that no installed header may pull in.
HEAVY = re.compile(r"^(fmt|llvm-c|hwy|dnnl|oneapi|nlohmann|google/protobuf|omp\.h|zlib\.h)")
# Nor may <rill/rill.h> these, each of which takes a twentieth of the time to compile a small program, or more: callback.h,
# shared.h and ref.h stand in for some.
SLOW = re.compile(
    r"^(algorithm|atomic|chrono|filesystem|functional|iostream|map|memory|mutex|ranges|regex|sstream|thread|unordered_map)$"
)

faults = []


def files(layer, *endings):
    for folder, _, names in os.walk(f"{ROOT}/{layer}"):
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def includes(file):
    with open(f"{ROOT}/{file}", encoding="utf-8") as text:
        return INCLUDE.findall(text.read())


def target(path):
    """The file that `#include "rill/..."` means, relative to the root, and its layer."""
    parts = path.split("/")[1:]
    if len(parts) == 1 and parts[0] in UMBRELLAS:
        return f"{UMBRELLAS[parts[0]]}/{parts[0]}", UMBRELLAS[parts[0]]
    return "/".join(parts), parts[0]


def listed(file):
    """Whether a meson.build of the file's own folder, or of one above it, names it."""
    folder, name = os.path.split(file)
    while folder:
        build = f"{ROOT}/{folder}/meson.build"
        if os.path.exists(build):
            with open(build, encoding="utf-8") as text:
                if f"'{os.path.relpath(file, folder)}'" in text.read():
                    return True
        folder = os.path.dirname(folder)
    return False


checked = 0
for layer, allowed in LEFT.items():
    for file in files(layer, ".h", ".cpp"):
        for bracket, path in includes(file):
            checked += 1
            if path.startswith("rill/"):
                meant, other = target(path)
                if other not in LEFT:
                    faults.append(f"{file}: includes {path}, which is in no layer")
                elif other != layer and other not in allowed + [o for f, more in ABOVE.items() if file.startswith(f) for o in more]:
                    faults.append(f"{file}: {layer} must not include {other} ({path})")
                elif not os.path.exists(f"{ROOT}/{meant}"):
                    faults.append(f"{file}: includes {path}, which does not exist")
            elif bracket == '"' and path.split("/")[0] in LEFT:
                faults.append(f'{file}: write "rill/{path}" for "{path}"')
    for file in files(layer, ".cpp", ".proto"):
        if not listed(file):
            faults.append(f"{file}: no meson.build lists it")

for room in ROOMS:
    for file in files(f"trace/{room}", ".h", ".cpp"):
        for _, path in includes(file):
            other = path.removeprefix("rill/trace/").split("/")[0]
            if path.startswith("rill/trace/") and other in ROOMS[ROOMS.index(room) + 1:]:
                faults.append(f"{file}: trace/{room} must not include trace/{other} ({path})")
rooms = {f.split("/")[1] for f in files("trace", ".cpp") if f.count("/") > 1}
faults += [f"trace/{room}: ROOMS does not say where it stands" for room in rooms - set(ROOMS)]

# A source with vector code first says for which instruction sets: Highway's own list is longer.
for layer in LEFT:
    for file in files(layer, ".cpp"):
        paths = [path for _, path in includes(file)]
        if "hwy/foreach_target.h" in paths and "rill/devices/kernel/targets.h" not in paths[:paths.index("hwy/foreach_target.h")]:
            faults.append(f"{file}: includes rill/devices/kernel/targets.h before hwy/foreach_target.h")

# Whether memory may be overwritten is asked of may_write(), which knows lent memory; exclusive() does not.
for layer in LEFT:
    for file in files(layer, ".cpp", ".h"):
        with open(f"{ROOT}/{file}", encoding="utf-8") as text:
            if re.search(r"(\.|->)exclusive\(\)", text.read()) and file != "tensor/lent_memory.cpp":
                faults.append(f"{file}: ask may_write() of tensor/lent_memory.h, for exclusive() knows nothing of lent memory")

# The environment's RILL_ variables are read by tensor/settings.h, and docs/performance.md has a row of each.
with open(f"{ROOT}/docs/performance.md", encoding="utf-8") as text:
    documented = set(re.findall(r"`(RILL_\w+)`", "".join(re.findall(r"^\| `RILL_.*$", text.read(), re.M))))
for layer in LEFT:
    for file in files(layer, ".h", ".cpp"):
        with open(f"{ROOT}/{file}", encoding="utf-8") as text:
            code = text.read()
        if found := re.search(r'getenv\("RILL_\w+', code):
            faults.append(f"{file}: {found[0]}\" is read past tensor/settings.h, which reports wrong values")
        for name in re.findall(r'"(RILL_[A-Z0-9_]+)"', code):
            if name not in documented:
                faults.append(f"{file}: docs/performance.md has no row of {name}")

# Numbers are the same in every locale: no function that takes the locale's decimal point, in or out.
LOCALE = re.compile(r"\b(?:strto(?:d|f|ld)|sto(?:d|f|ld)|atof|s?scanf)\(|printf\([^;]*%[-+ #0-9.*]*[aefgAEFG]|\{:[^}]*L\}")
for layer in LEFT:
    for file in files(layer, ".h", ".cpp"):
        with open(f"{ROOT}/{file}", encoding="utf-8") as text:
            for found in LOCALE.finditer(re.sub(r"//.*", "", text.read())):
                faults.append(f"{file}: {found[0]!r} depends on the locale. use from_chars, to_chars or fmt")

# No two types of one name outside anonymous namespaces: the linker would take the members of either for both.
types = {}
for layer in LEFT:
    for file in files(layer, ".h", ".cpp"):
        inside = []
        with open(f"{ROOT}/{file}", encoding="utf-8") as text:
            for line in text:
                if opened := re.match(r"namespace ?([\w:]*) \{", line):
                    inside.append(opened[1])
                elif line.startswith("}  // namespace"):
                    inside.pop()
                elif "" not in inside and (found := re.match(r"(?:struct|class|union) (\w+)(?: final)?(?: :[^;]*)? \{", line)):
                    types.setdefault("::".join([*inside, found[1]]), []).append(file)
faults += [f"{name}: a type in each of {', '.join(places)}" for name, places in types.items() if len(places) > 1]


# What a header shows outside the library stands between push and pop; an include there would show another's insides.
for layer in LEFT:
    for file in files(layer, ".h"):
        shown = False
        with open(f"{ROOT}/{file}", encoding="utf-8") as text:
            for line in text:
                if line.startswith("#pragma GCC visibility"):
                    if shown != ("pop" in line):
                        faults.append(f"{file}: visibility is pushed and popped in turn")
                    shown = not shown
                elif shown and line.startswith("#include"):
                    faults.append(f"{file}: an include where the header shows what it declares")
        if shown:
            faults.append(f"{file}: visibility that is pushed is popped")


def reached_from(umbrella, unwanted):
    """What users reach from an umbrella header; faults where that includes what `unwanted` matches."""
    seen, queue = set(), [f"{UMBRELLAS[umbrella]}/{umbrella}"]
    while queue:
        file = queue.pop()
        if file in seen or not os.path.exists(f"{ROOT}/{file}"):
            continue
        seen.add(file)
        for bracket, path in includes(file):
            if path.startswith("rill/"):
                queue.append(target(path)[0])
            elif unwanted.match(path):
                faults.append(f"{file}: <rill/{umbrella}> must not include <{path}>")
    return seen


# Every mutex is one that a child of fork() finds free. GPUs, which a child cannot use, have the library's own.
MUTEX = re.compile(r"std::((recursive_|shared_|timed_)?mutex|condition_variable)|once_flag|call_once|pthread_atfork\(")
for layer in LEFT:
    for file in files(layer, ".h", ".cpp"):
        if file.startswith(("devices/cuda/", "tensor/fork_")):
            continue
        with open(f"{ROOT}/{file}", encoding="utf-8") as text:
            if found := MUTEX.search(text.read()):
                faults.append(f"{file}: {found[0]} is not safe beside fork(). use tensor/fork_mutex.h or fork_condition.h")

# What ops use lasts until the last destructor has run: a thread_local with one of its own ends before those of statics. Of
# the types here each says that it has ended.
THREAD_LOCAL = re.compile(r"^[^/\n]*\bthread_local (?:const )?([\w:]+)([^;={(\n]*)", re.M)
MAY_END = {"EndWithMain", "RepListOwner", "HeapOwner", "FaultSlot"}
PLAIN = {"constinit", "bool", "int", "int64_t", "size_t"}
for layer in LEFT:
    for file in files(layer, ".h", ".cpp"):
        with open(f"{ROOT}/{file}", encoding="utf-8") as text:
            for kind, rest in THREAD_LOCAL.findall(text.read()):
                if kind not in MAY_END | PLAIN and "*" not in rest:
                    faults.append(f"{file}: a thread_local {kind} ends before statics do, whose destructors may run ops. use "
                                  "`thread_local constinit PerThread` (tensor/per_thread.h)")

# A folder of more than a dozen files has a README.md.
for layer in [*LEFT, "tests", "docs"]:
    for folder, _, names in os.walk(f"{ROOT}/{layer}"):
        if len([n for n in names if not n.endswith(".pyc")]) > 12 and "README.md" not in names:
            faults.append(f"{os.path.relpath(folder, ROOT)}: a README.md should say what these {len(names)} files are")

# docs/README.md lists every page, and each page ends with a link to the one that is next there.
with open(f"{ROOT}/docs/README.md", encoding="utf-8") as text:
    contents = re.findall(r"^\* (\[.*?\]\((\w+\.md)\))", text.read(), re.M)
faults += [f"docs/README.md does not list {name}" for name in sorted(os.listdir(f"{ROOT}/docs"))
           if name.endswith(".md") and name != "README.md" and name not in [page for _, page in contents]]
for (_, page), (link, _) in zip(contents, contents[1:]):
    with open(f"{ROOT}/docs/{page}", encoding="utf-8") as text:
        if text.read().rstrip().rsplit("\n", 1)[-1] != f"Next: {link}":
            faults.append(f"docs/{page} should end with 'Next: {link}'")


def anchors(page):
    """The anchors of a page's headings, as GitHub names them."""
    with open(page, encoding="utf-8") as text:
        return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text.read(), re.M)}


pages = glob.glob(f"{ROOT}/*.md")
for folder in [*LEFT, "tests", "docs", "examples", "benchmarks"]:
    pages += glob.glob(f"{ROOT}/{folder}/**/*.md", recursive=True)
for page in pages:
    with open(page, encoding="utf-8") as text:
        for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text.read()):
            path, _, anchor = link.partition("#")
            to = os.path.join(os.path.dirname(page), path) if path else page
            if not os.path.exists(to) or anchor and anchor not in anchors(to):
                faults.append(f"{os.path.relpath(page, ROOT)}: the link {link} leads nowhere")

# Every layer has a row in the table from which its tests and docs/layers.md are made. A cell is a step of one.
rows = "".join(open(path, encoding="utf-8").read() for path in glob.glob(f"{ROOT}/tests/*/layer_rows_*.h"))
for path in sorted(glob.glob(f"{ROOT}/nn/layers/*.h")):
    with open(path, encoding="utf-8") as text:
        for name in re.findall(r"^class (\w+)[^;]*?\{\n public:(?:(?!^\};).)*?RILL_LAYER\(\1\b", text.read(), re.M | re.S):
            if f'"{name}",' not in rows and not name.endswith("Cell"):
                faults.append(f"{os.path.relpath(path, ROOT)}: {name} has no row in tests/layer_rows_*.h")
# What a tool leaves in the root is not to be committed.
ROOT_FILES = {"ARCHITECTURE.md", "CHANGELOG.md", "CMakeLists.txt", "CONTRIBUTING.md", "LICENSE", "README.md", "compile_flags.txt",
              "dev", "meson.build", "meson.options"}
faults += [f"{name}: the root has no such file; add it to ROOT_FILES in this test if it is meant to stand there"
           for name in sorted(os.listdir(ROOT)) if os.path.isfile(f"{ROOT}/{name}") and name not in ROOT_FILES and
           not name.startswith(".")]

reached_from("rill.h", SLOW)
seen = set().union(*(reached_from(umbrella, HEAVY) for umbrella in UMBRELLAS))
faults += [f"{file}: public headers reach it, but no install_headers() lists it" for file in seen if not listed(file)]
# An install has these at its root, and not in their layer's folder, where the tree has them, too.
faults += [f"{file} includes {path}: an install has it as rill/{name} only" for file in seen for _, path in includes(file)
           for name, layer in UMBRELLAS.items() if path == f"rill/{layer}/{name}"]

print(*faults, sep="\n")
print(f"{checked} includes checked, {len(types)} types, {len(seen)} public headers, {len(faults)} faults")
sys.exit(1 if faults or not checked or not types else 0)
