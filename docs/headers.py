"""The public headers, read for what they declare and what their comments say of it. Start at read().

A comment above a declaration documents it and those that follow it without a blank line or another comment between,
the first members of a class among them; a comment behind one, on its line, is its own. That is how the headers are written for people. print_index.py prints
docs/index.md from it, and as Doxygen's input filter (`headers.py FILE`) it writes a header with these comments in
Doxygen's form, in front of each declaration that they are about. `headers.py --functions FILE...` lists what users call.
"""
import dataclasses
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def in_folder(folder, but=()):
    """The headers of a folder, where every one is public."""
    path = os.path.join(ROOT, folder)
    return [f"{folder}/{name}" for name in sorted(os.listdir(path) if os.path.isdir(path) else [])
            if name.endswith(".h") and name not in but]


# What users call, by topic. Other installed headers are there because these include them.
PUBLIC = [
    ("Tensors", ["tensor/tensor.h", "tensor/index.h", "tensor/shape.h", "tensor/dim.h", "tensor/dtype.h", "tensor/device.h",
                 "tensor/error.h", "tensor/print.h", "tensor/strided_span.h", "tensor/stream.h", "tensor/version.h"]),
    ("Making tensors", ["ops/creation.h"]),
    ("Memory of yours and of other libraries", ["ops/buffers.h", "tensor/lent_memory.h", "ops/dlpack.h"]),
    ("Elementwise functions", ["ops/elementwise.h"]),
    ("Reductions, statistics, sorting", ["ops/reductions.h", "ops/histograms.h", "ops/ordering.h", "ops/sets.h"]),
    ("Shapes", ["ops/shaping.h", "ops/editing.h"]),
    ("Numerical methods", ["ops/numeric.h", "ops/signal.h"]),
    ("Special functions", ["ops/special.h"]),
    ("The array API's names, dtypes and constants", ["ops/standard.h"]),
    ("Indexing", ["ops/indexing.h"]),
    ("Products", ["ops/linalg.h", "ops/blocks.h"]),
    ("Linear algebra", ["ops/linear_algebra.h"]),
    ("Fourier transforms", ["ops/fft.h"]),
    ("Sparse tensors", ["ops/sparse.h"]),
    ("Strings", ["ops/strings.h", "ops/ragged.h"]),
    ("Convolution and pooling", ["ops/conv.h"]),
    ("Images", ["ops/images.h"]),
    ("Neural networks", ["ops/nn_ops.h", "ops/losses.h", "ops/activations.h", "ops/likeness_losses.h", "ops/attention.h", "ops/positions.h"]),
    ("Random numbers", ["ops/random.h", "ops/distributions.h"]),
    ("Effects, names", ["ops/effects.h", "ops/scopes.h"]),
    ("Variables, names", ["ops/variable.h", "ops/names.h"]),
    ("Gradients", ["autodiff/tape.h", "autodiff/sparse.h", "autodiff/transforms.h", "autodiff/recompute.h",
                   "autodiff/recompute_policy.h", "autodiff/forward.h", "autodiff/jacobians.h", "autodiff/vmap.h",
                   "autodiff/gradcheck.h"]),
    ("Finding where numbers go wrong", ["ops/numerics.h", "autodiff/debug.h", "serialize/debugger.h"]),
    ("Traced functions", ["trace/function.h", "trace/control_flow.h", "trace/graph.h", "trace/graph_run.h",
                          "trace/graph_text.h", "trace/jit.h", "trace/profile.h", "trace/export.h"]),
    ("Models and layers (rill/nn.h)", ["nn/call.h", "nn/param.h", "nn/activation.h", "nn/layer.h", "nn/sequential.h", "nn/model.h",
                                       *in_folder("nn/layers", but=("common.h", "windows.h"))]),
    ("Optimizers and initializers (rill/nn.h)", ["nn/initializers.h", "nn/optimizers.h", *in_folder("nn/optimizers")]),
    ("Metrics (rill/metrics.h)", ["nn/metrics.h"]),
    ("Distributions (rill/distributions.h)", ["nn/distributions.h"]),
    ("Training (rill/train.h)", ["train/loop.h", "train/core.h", "train/callbacks.h", "train/history.h", "train/ranks.h", "train/search.h",
                                "train/estimators.h", "train/monitored.h"]),
    ("Many processes (rill/distribute.h)", ["distribute/session.h", "distribute/collectives.h", "distribute/tape.h",
                                            "distribute/model.h", "distribute/async.h", "distribute/cluster.h", "distribute/devices.h",
                                            *in_folder("distribute/parallel", but=("parts.h",)), "distribute/sharded.h",
                                            "distribute/server.h", "distribute/timeline.h"]),
    ("Input pipelines (rill/data.h)", ["data/dataset.h", "data/options.h", "data/stats.h", "data/batches.h"]),
    ("Data files (rill/data.h)", ["data/sources.h", "data/files/arrays.h", "data/files/csv.h", "data/files/arrow.h",
                                  "data/files/text.h", "data/files/audio.h", "data/idx.h", "data/image_folder.h",
                                  "data/vocabulary.h"]),
    ("Pictures (rill/data.h)", ["data/images/codecs.h", "data/images/geometry.h", "data/images/colour.h", "data/images/augment.h",
                                  "data/images/measure.h"]),
    ("Feature columns (rill/data.h)", ["data/features.h"]),
    ("Sounds (rill/data.h)", ["data/audio.h"]),
    ("Summaries (rill/summary.h)", ["serialize/summary.h"]),
    ("Files (rill/serialize.h)", ["serialize/save.h", "serialize/checkpoint.h", "serialize/checkpoint_manager.h",
                                  "serialize/model.h", "serialize/export_model.h", "serialize/rill_file.h", "serialize/records.h",
                                  "serialize/examples.h", "serialize/table.h", "serialize/csv.h", "serialize/arrow.h",
                                  "serialize/graph_formats.h",
                                  "serialize/events.h", "serialize/png_image.h", "serialize/wav_audio.h"]),
    ("Devices and threads", ["devices/registry.h", "devices/threads.h"]),
    ("Ops of your own", ["ops/op.h", "ops/apply.h", "devices/kernel.h"]),
]
# Where what a header has for users ends, and what only the library itself calls begins.
ENDS = {"ops/apply.h": "// --- What tapes and traces share"}
# What only rill's own templates and dispatch use, though it is in public headers.
INTERNAL = {"FunctionCore", "TensorRep", "lend", "is_lent", "may_write", "placement_is_logged", "report_placement"}
# What layers, ops and model formats of your own use; a program that calls rill does not.
FOR_EXTENSIONS = {"Tensor::rep", "Tensor::mutable_rep", "Tensor::ref", "Tensor::exclusive", "make_tensor", "make_view",
                  "make_alias", "make_stand_in", "require_defined", "VariablePaths", "VariableSlots", "ModelVisitor", "ModelPart", "LayerRun", "LayerObserver", "ReplayScope",
                  "CallerScope", "Origin", "fail", "fail_at", "fail_placed", "caller_or", "place_of", "called_function",
                  "holds_no_variables"}
EXTENSION_TOPICS = {"Ops of your own"}
EXTENSION_MEMBERS = {"name_variables", "name_of_scope", "visit_parts", "impl", "state", "shared_state", "core"}
# The page that explains a header's functions, where it names them; the first of several that does.
PAGES = {"tensor/": ["tensors"], "ops/": ["tensors"], "ops/creation.h": ["tensors"],
         "tensor/error.h": ["errors"], "tensor/lent_memory.h": ["memory"], "tensor/strided_span.h": ["memory"],
         "ops/buffers.h": ["memory"], "ops/dlpack.h": ["memory"], "ops/sparse.h": ["sparse"],
         "ops/strings.h": ["strings"], "ops/ragged.h": ["strings", "records"], "ops/effects.h": ["function"],
         "ops/scopes.h": ["function"], "ops/variable.h": ["tape", "function", "threads"],
         "ops/names.h": ["nn", "checkpoints"], "ops/numerics.h": ["errors"], "autodiff/debug.h": ["errors"],
         "autodiff/": ["tape", "derivatives"], "trace/": ["function", "performance", "command_line", "rill_files"],
         "trace/export.h": ["viewers"], "trace/profile.h": ["performance", "viewers"],
         "nn/": ["nn", "tape"], "nn/metrics.h": ["training", "nn"], "nn/distributions.h": ["distributions"], "train/": ["training", "estimators"],
         "train/estimators.h": ["estimators"], "distribute/": ["distribute"], "train/ranks.h": ["distribute"], "data/audio.h": ["audio"], "data/features.h": ["features"], "data/vocabulary.h": ["strings", "features"],
         "data/": ["nn", "checkpoints", "records"], "serialize/summary.h": ["viewers"],
         "serialize/events.h": ["viewers"], "serialize/save.h": ["saving"],
         "serialize/checkpoint.h": ["checkpoints"], "serialize/checkpoint_manager.h": ["checkpoints"],
         "serialize/model.h": ["onnx", "tensorflow", "rill_files"],
         "serialize/export_model.h": ["onnx", "tensorflow", "rill_files"], "serialize/rill_file.h": ["rill_files"],
         "serialize/": ["records", "viewers", "saving"], "devices/": ["cuda", "performance", "threads", "tensors"],
         "ops/op.h": ["extending"], "ops/apply.h": ["extending"], "devices/kernel.h": ["extending"]}
# Words that stand before the parenthesis of what is no function.
NO_FUNCTION = {"static_assert", "requires", "if", "for", "while", "switch", "return", "sizeof", "noexcept", "decltype",
               "alignas"}


@dataclasses.dataclass
class Item:
    """A declaration of a public scope."""
    kind: str         # "function", "type", "member", "other"
    name: str         # "random::normal", "Tensor::reshape"
    text: str         # the declaration, without its body
    line: int         # of its first character, from 0
    last: int         # its last line
    above: str = ""   # the comment above it, or above the run that it stands in
    shared: bool = False  # whether that comment is for a run of several
    first: "Item" = None  # of that run
    shown: str = ""       # `text` with what stands in its strings
    behind: str = ""  # the comment behind it

    @property
    def doc(self):
        return self.behind or self.above


def matching(text, at):
    """The place behind the bracket that closes the one at `at`; text has no comments and no strings."""
    depth = 0
    for i in range(at, len(text)):
        depth += text[i] in "({["
        depth -= text[i] in ")}]"
        if depth == 0:
            return i + 1
    raise ValueError("a bracket that nothing closes")


def blanked(source):
    """The source with comments, strings and directives as spaces of the same length, the same with its strings, and the
    comments by line."""
    comments, out, texts, directive = {}, [], [], False
    for number, line in enumerate(source.split("\n")):
        if directive or line.lstrip().startswith("#"):
            directive = line.endswith("\\")
            out.append(" " * len(line))
            texts.append(out[-1])
            continue
        text = line
        line = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'', lambda m: '"' + " " * (len(m.group()) - 2) + '"', line)
        if (at := line.find("//")) >= 0:
            comments[number] = (at, source.split("\n")[number][at:])
            line = line[:at] + " " * (len(line) - at)
        out.append(line)
        texts.append(text[:len(line.rstrip())].ljust(len(line)))
    return "\n".join(out), "\n".join(texts), comments


def without_template(text):
    """A declaration without its leading template<...> and requires clauses."""
    text = text.strip()
    while (found := re.match(r"(template\s*)<", text)):
        depth, i = 0, found.end() - 1
        while True:
            depth += (text[i] == "<") - (text[i] == ">" and text[i - 1] != "-")
            i += 1
            if depth == 0:
                break
        text = text[i:].strip()
        if text.startswith("requires"):
            text = re.sub(r"^requires\s*", "", text)
            if text.startswith("requires"):
                text = text[matching(text, text.index("{")):].strip()
            # terms: (...) or a name with <...> or (...), joined by && and ||
            while (term := re.match(r"\s*!?(\((?:[^()]|\([^()]*\))*\)|[\w:]+(<(?:[^<>]|<[^<>]*>)*>)?(::value)?)\s*(&&|\|\|)?", text)):
                text = text[term.end():].strip()
                if not term.group(4):
                    break
    return text


def classify(text, scope):
    """Kind and name of a declaration at the scope ["random::", "Key::"]."""
    prefix = "".join(scope)
    if re.match(r"\s*RILL_LAYER\(", text) or re.search(r"\)\s*->\s*[\w<>:, ]+;?\s*$", text) and "auto" not in text:
        return "other", ""  # the list of a layer's fields; a deduction guide
    if (macro := re.match(r"\s*RILL_\w+\((\w+)(?:, \1)?\)", text)):
        return "function", prefix + macro.group(1)
    if re.match(r"\s*RILL_\w+\(", text):
        return "other", ""  # another form of a function, or what does not compile
    plain = without_template(text)
    if (found := re.match(r"(?:class|struct|enum class|enum)\s+(?:\[\[\w+\]\]\s*)?(\w+)", plain)):
        return "type", prefix + found.group(1)
    if re.match(r"(using|concept|typedef|friend class|friend struct|namespace|extern|static_assert)\b", plain):
        return "other", ""
    if re.match(r"[\w:<>,\s*&]+\(\*\w+\)", plain):
        return "member", ""  # a pointer to a function
    head = re.sub(r"\[\[\w+\]\]|explicit\([^)]*\)", "", plain)
    while (plainer := re.sub(r"(?<!operator)<[^<>()]*(\([^<>()]*\)[^<>()]*)?>", "", head)) != head:
        head = plainer  # what stands in template arguments is no declaration
    found = re.search(r"(operator\s*(?:\(\)|[^\s\w(]+|\w+(?:<[^>]*>)?)|~?\b\w+)\s*\(", head)
    if found and found.group(1) not in NO_FUNCTION and not re.search(r"=[^=]", head[:found.start()].replace("operator=", "")):
        return "function", prefix + re.sub(r"operator\s+(?=\W)", "operator", found.group(1))
    return "member", ""


class Reader:
    def __init__(self, source):
        self.source = source
        self.code, self.texts, self.comments = blanked(source)
        self.items = []
        self.starts = [0]
        for i, c in enumerate(self.code):
            if c == "\n":
                self.starts.append(i + 1)

    def line_of(self, at):
        low, high = 0, len(self.starts)
        while high - low > 1:
            mid = (low + high) // 2
            low, high = (mid, high) if self.starts[mid] <= at else (low, mid)
        return low

    def whole_line_comment(self, line):
        return line in self.comments and not self.code[self.starts[line]:].split("\n", 1)[0].strip()

    def comment_above(self, line):
        """The lines of the comment that ends above `line`."""
        first = line
        while first > 0 and self.whole_line_comment(first - 1) and "// ---" not in self.comments[first - 1][1]:
            first -= 1
        return [self.comments[i][1] for i in range(first, line)], first

    def scan(self, at, end, scope, public, is_enum=False, comment=()):
        run = [comment, [], self.line_of(at)]  # the comment, the items that it is about, their last line
        while at < end:
            if self.code[at].isspace():
                at += 1
                continue
            if self.code[at] in ";}":
                at += 1
                continue
            if (access := re.compile(r"(public|private|protected)\s*:(?!:)").match(self.code, at)):
                public = access.group(1) == "public"
                at = access.end()
                run = [run[0] if run and not run[1] else (), [], self.line_of(at)]
                continue
            start = at
            at, body = self.declaration(at, end, is_enum)
            text = self.code[start:body[0] if body else at]
            line, last = self.line_of(start), self.line_of(max(start, at - 1))
            if (space := re.match(r"(?:inline\s+)?namespace\s*([\w:]*)\s*$", text)):
                names = [n for n in space.group(1).split("::") if n]
                inner = [*scope, *[n + "::" for n in names if n != "rill"]]
                if names and "detail" not in names and "impl" not in names:
                    self.scan(body[0] + 1, body[1] - 1, inner, True)
                run = None
                continue
            if not public:
                continue
            kind, name = ("member", "") if is_enum else classify(text, scope)
            if body and re.match(r"\{\s*static_assert\(!sizeof", self.code[body[0]:body[1]]):
                kind, name = "other", ""  # it never compiles: its message says how the call is written
            lines, first = self.comment_above(line)
            if lines:
                run = [lines, [], last]
            elif run is None or line > run[2] + 1:
                run = [[], [], last]
            item = Item(kind, name, re.sub(r"\s+", " ", text).strip(), line, last, "\n".join(run[0]))
            run[1].append(item)
            run[2] = last
            item.first = run[1][0]
            item.shown = re.sub(r"\s+", " ", self.texts[start:start + len(text)]).strip()
            for member in run[1]:
                member.shared = len(run[1]) > 1
            if last in self.comments and not self.whole_line_comment(last) and last == self.line_of(at - 1):
                item.behind = self.comments[last][1]
                more = last + 1  # what goes on below, at the same column
                while self.whole_line_comment(more) and self.comments[more][0] == self.comments[last][0] > 4:
                    item.behind += "\n" + self.comments[more][1]
                    run[2] = more
                    more += 1
            elif body and line in self.comments and kind == "function" and not self.whole_line_comment(line):
                item.behind = self.comments[line][1]
            self.items.append(item)
            if kind == "type" and body:
                plain = without_template(text)
                self.scan(body[0] + 1, body[1] - 1, [*scope, name[len("".join(scope)):] + "::"],
                          not plain.startswith("class"), plain.startswith("enum"), run[0])

    def declaration(self, at, end, is_enum):
        """The end of the declaration at `at`, and where its braces are: (open, behind), or None."""
        body = None
        begin = at
        if re.compile(r"RILL_\w+\(").match(self.code, at):
            return matching(self.code, self.code.index("(", at)), None
        while at < end:
            c = self.code[at]
            if c in "([":
                at = matching(self.code, at)
            elif c == "{":
                close = matching(self.code, at)
                before = self.code[begin:at].rstrip()
                if before.endswith(("=", "(", ",")) or re.search(r"\b(requires|return)\s*(\([^()]*\))?$", before) or \
                        re.search(r"[\w>]$", before) and self.code[close:close + 1] in ",;" and not re.match(
                            r"(template\s*<.*>\s*)?(class|struct|enum|namespace|inline namespace)\b", self.code[begin:at], re.S):
                    at = close  # an initialiser, or a requires expression
                    continue
                body = (at, close)
                at = close
                if self.code[at:at + 1] == ";":
                    at += 1
                return at, body
            elif c == ";" or (is_enum and c == ","):
                return at + 1, None
            else:
                at += 1
        return at, body


def read(path):
    """The declarations of public scopes in the header `path`, relative to the root."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        source = file.read()
    if path in ENDS:
        source = source[:source.index(ENDS[path])] + "}  // namespace rill\n"
    reader = Reader(source)
    reader.scan(0, len(reader.code), [], True)
    return reader


def is_special(item):
    """A constructor, a destructor or an operator of a class, whose own comment documents it; or internal."""
    parts = item.name.split("::")
    return parts[0] in INTERNAL or len(parts) > 1 and (parts[-2][0].isupper() and parts[-1] in (parts[-2], "~" + parts[-2]) or "operator" in parts[-1]) or \
        "= delete" in item.text


def words(comment):
    """A comment without its slashes."""
    return "\n".join(re.sub(r"^\s*///?<?\s?", "", line) for line in comment.split("\n"))


def formulas():
    """What each record says of its op, by name: from docs/ops.md."""
    with open(os.path.join(ROOT, "docs/ops.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| (\w+) \| (.*?) \| ", file.read(), re.M)
    return {name: doc.replace("\\|", "|").rstrip(".") for name, doc in rows if name != "op"}


def for_doxygen(path):
    """The header's text, with its comments in Doxygen's form."""
    reader = read(path)
    lines = reader.source.split("\n")
    of_ops = formulas()
    above = {}
    for item in reader.items:
        text = words(item.above)
        simple = item.name.split("::")[-1]
        if item.kind == "function" and item.name == simple and simple in of_ops and item.shared:
            text = of_ops[simple] + (".\n" + text if text else "")
        if item.kind == "function" and item.behind:
            text = words(item.behind) + ("\n" + text if text else "")
        if text:
            above[item.line] = [re.match(r"\s*", lines[item.line]).group() + "/// " + row for row in text.split("\n")]
        if item.kind != "function" and item.behind:
            lines[item.last] = lines[item.last].replace("//", "///<", 1)
    out = []
    for number, line in enumerate(lines):
        out += above.get(number, [])
        out.append(line)
    return "\n".join(out)


def called(path):
    """What users call by name: functions outside of classes, and the classes of nn, which are called as layers."""
    for item in read(path).items:
        *outer, name = item.name.split("::")
        if item.kind == "function" and "operator" not in name and not any(part[0].isupper() for part in outer) or \
                outer == ["nn"] and item.text.startswith("class "):
            yield item.name


def main():
    paths = [os.path.relpath(os.path.realpath(path), ROOT) for path in sys.argv[1:] if path != "--functions"]
    if "--functions" in sys.argv:
        print("\n".join(sorted({name for path in paths for name in called(path)})))
    else:
        sys.stdout.write(for_doxygen(paths[0]))


if __name__ == "__main__":
    main()
