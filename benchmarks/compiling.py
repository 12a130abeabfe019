"""How long the compiler takes for the objects of librill and librill_ops: the rows `object_compile` and `library_compile` of run.py.

Objects are those of the last build (compile_commands.json); how long each took then is in Ninja's log, by which the dearest
are found. These are compiled again, alone, and their processor time is what counts: it does not hang on what else runs. Before
a change, `python3 benchmarks/compiling.py BUILD [N]` lists the N dearest.
"""

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY = ("librill.so", "liblight.a", "libsmall.a", "libvectors.a", "librill_ops.so", "libops_light.a", "libops_vectors.a")
# A measure of the machine that every C++ compiler can run: templates, inlining, no headers of rill's.
YARDSTICK = "#include <regex>\n#include <string>\nbool f(const std::string& s) { return std::regex_match(s, std::regex(\"a+|b\")); }\n"


def objects(build):
    """Those of both: (seconds that the last build took, object, command), the dearest first."""
    took = {}
    for line in (Path(build) / ".ninja_log").read_text().splitlines()[1:]:
        begin, end, _, output, _ = line.split("\t")
        took[output] = (int(end) - int(begin)) / 1000
    commands = {c["output"]: c["command"] for c in json.loads((Path(build) / "compile_commands.json").read_text())}
    ours = [(took.get(o, 0.0), o, c) for o, c in commands.items() if o.startswith(LIBRARY)]
    return sorted(ours, reverse=True)


def processor_seconds(arguments, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def again(build, output, command):
    """Processor seconds of one object, which is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = shlex.split(command)
        for flag in ("-o", "-MF", "-MQ"):
            arguments[arguments.index(flag) + 1] = f"{folder}/it"
        return processor_seconds(arguments, build)


def dearest(build):
    return max(again(build, o, c) for _, o, c in objects(build)[:3])


def yardstick():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "it.cpp").write_text(YARDSTICK)
        command = shlex.split(os.environ.get("CXX", "c++")) + ["-std=c++20", "-O2", "-c", "it.cpp", "-o", "it.o"]
        return processor_seconds(command, folder)


if __name__ == "__main__":
    of = objects(sys.argv[1])
    measure = yardstick()
    print(f"{len(of)} objects of librill and librill_ops, {sum(t for t, _, _ in of):.0f} s in the last build; <regex> takes {measure:.1f} s")
    for _, output, command in of[: int(sys.argv[2]) if len(sys.argv) > 2 else 10]:
        seconds = again(sys.argv[1], output, command)
        print(f"{seconds:6.1f} s {seconds / measure:5.1f}x  {output}")
