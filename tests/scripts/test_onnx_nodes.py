"""ONNX's own tests of each operator, as its Python package `onnx` makes them, and the models that it holds, run by
import_model: onnx_runner reads the folders that this script writes. What does not pass is listed in onnx_nodes.txt, with
"unsupported" or "fail" before the name and the reason behind it; a test that does not pass and is not listed there is
a failure of this script, and so is one that is listed and passes, or that has no reason. Runs in the environment
.deps/formats (tests/formats.txt), which ./dev test --all makes; skipped where there is none. `python test_onnx_nodes.py --write`
makes the list anew and keeps the reasons; `--keep DIR` leaves the folders in DIR.
"""
import collections
import os
import subprocess
import sys
import tempfile

from formats_environment import BUILD, needed

with needed():
    import onnx

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx_nodes.txt")


def write_value(path, value, type_proto):
    from onnx import helper, numpy_helper

    if type_proto.HasField("sequence_type"):
        message = numpy_helper.from_list(value)
    elif type_proto.HasField("optional_type"):
        message = numpy_helper.from_optional(value)
    elif type_proto.HasField("map_type"):
        message = numpy_helper.from_dict(value)
    elif hasattr(value, "SerializeToString"):
        message = value
    else:
        message = numpy_helper.from_array(value)
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def write_cases(folder):
    """Each test as a folder: model.onnx and test_data_set_0/{input,output}_*.pb. Gives how many there are."""
    import numpy
    from onnx.backend.test.case.node import collect_testcases

    numpy.random.seed(0)
    count = 0
    for case in collect_testcases(None):
        place = os.path.join(folder, case.name)
        os.makedirs(os.path.join(place, "test_data_set_0"), exist_ok=True)
        with open(os.path.join(place, "model.onnx"), "wb") as file:
            file.write(case.model.SerializeToString())
        with open(os.path.join(place, "tolerance"), "w") as file:
            file.write(f"{case.rtol} {case.atol}")
        for i, (inputs, outputs) in enumerate(case.data_sets):
            values = os.path.join(place, f"test_data_set_{i}")
            os.makedirs(values, exist_ok=True)
            for kind, infos, given in (("input", case.model.graph.input, inputs), ("output", case.model.graph.output, outputs)):
                for j, (info, value) in enumerate(zip(infos, given, strict=True)):
                    write_value(os.path.join(values, f"{kind}_{j}.pb"), value, info.type)
        count += 1
    return count


def other_folders():
    """Tests that the package holds as files: small models, and what torch exported in opset 6."""
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    return [os.path.join(data, kind) for kind in ("pytorch-converted", "pytorch-operator", "simple")]


def run_cases(folders):
    """The runner's lines, by test: ("pass", ""), ("fail", why) or ("unsupported", why)."""
    runner = f"{BUILD}/tests/onnx_runner"
    environment = dict(os.environ, RILL_JIT="off", OMP_NUM_THREADS="1")
    lines = subprocess.run([runner, *folders], capture_output=True, text=True, env=environment).stdout.splitlines()
    out = {}
    for line in lines[:-1]:
        word, _, rest = line.partition(" ")
        name, _, why = rest.partition(": ")
        out[name] = (word, why)
    return out


def listed():
    """By test, what is expected of it and why: ("fail", reason) or ("unsupported", reason)."""
    with open(LIST) as file:
        lines = [line.strip().partition(" ") for line in file if line.strip() and not line.startswith("#")]
    return {rest.partition(": ")[0]: (word, rest.partition(": ")[2]) for word, _, rest in lines}


def write_list(results, version):
    counts = collections.Counter(word for word, _ in results.values())
    reasons = {name: f": {why}" for name, (_, why) in listed().items() if why}
    with open(LIST, "w") as file:
        file.write(f"# ONNX's own tests ({version}) that do not pass: {counts['fail']} fail, {counts['unsupported']} are\n"
                   f"# unsupported, {counts['pass']} of {len(results)} pass. Made by test_onnx_nodes.py --write.\n")
        for name, (word, _) in sorted(results.items()):
            if word != "pass":
                file.write(f"{word} {name}{reasons.get(name, '')}\n")


def main():
    keep = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv else None
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or temporary
        count = write_cases(folder)
        results = run_cases([folder, *other_folders()])
    if len(results) < count:
        print(f"{count} tests and {len(results)} results")
        return 1
    if "--write" in sys.argv:
        write_list(results, f"onnx {onnx.__version__}")
    expected = listed()
    wrong = [f"{name}: onnx_nodes.txt does not say why" for name, (_, why) in expected.items() if not why]
    wrong += [f"{name}: onnx_nodes.txt lists it, and there is no such test" for name in expected if name not in results]
    for name, (word, why) in sorted(results.items()):
        known = expected.get(name, ("pass", ""))[0]
        if word != known:
            wrong.append(f"{name}: {word}, was {known}: {why}")
    counts = collections.Counter(word for word, _ in results.values())
    print(f"onnx {onnx.__version__}: {counts['pass']} pass, {counts['fail']} fail, {counts['unsupported']} unsupported")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
