"""What gdb shows of rill's values: packaging/gdb.py, which gdb loads with librill.so, in a program that stops in a breakpoint.

usage: test_gdb.py BUILD COMPILER...
"""
import os
import shutil
import subprocess
import sys
import tempfile

build, compiler = os.path.abspath(sys.argv[1]), sys.argv[2:]
root = os.environ.get("RILL_SOURCE_ROOT", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
if not shutil.which("gdb"):
    print("gdb: it is not installed. apt-get install gdb")
    sys.exit(77)

PROGRAM = r"""
#include <rill/rill.h>
#include <complex>
using namespace rill;
int stop(const Tensor& argument) { return argument.ndim(); }
int main() {
  Tensor x = tensor({{1.f, 2.5f}, {-3.f, INFINITY}}), column = x.T()(1), scalar = tensor(0.1f), undefined;
  Tensor whole = arange(3), flags = tensor({true, false}), half = tensor({0.1f, 2.f}, bf16), small = tensor({1.5f}, f16);
  Tensor eights = tensor({448.f, -0x1p-9f, 0.1f, NAN}, f8_e4m3fn), fives = tensor({-57344.f, 0x1p-16f, INFINITY}, f8_e5m2);
  Tensor complexes = tensor({std::complex<double>(1, -2)}), empty = zeros({0, 3}), text = tensor({"a", "b"});
  Tensor large = arange(1000), other = ones({1}, {.device = "ref:0"});
  Shape shape = {2, 3};
  Dim size = 5;
  Spec spec = x.spec();
  Tensor& reference = x;
  function("traced", [](const Tensor& symbol) { stop(symbol); return symbol + 1; })(whole);
  return stop(x) + reference.ndim() + shape.ndim() + int(size) + spec.shape.ndim() + other.ndim();
}
"""
# The frame: 1 is main() at the second stop.
EXPECTED = {
    "x": "f32[2,2] [[1, 2.5], [-3, inf]]",
    "column": "f32[2] [2.5, inf]",
    "scalar": "f32[] 0.1",
    "undefined": "undefined",
    "whole": "i64[3] [0, 1, 2]",
    "flags": "bool[2] [True, False]",
    "half": "bf16[2] [0.1000977, 2]",
    "small": "f16[1] [1.5]",
    "eights": "f8_e4m3fn[4] [448, -0.001953125, 0.1015625, nan]",
    "fives": "f8_e5m2[3] [-57344, 1.525879e-05, inf]",
    "complexes": "c128[1] [(1-2j)]",
    "empty": "f32[0,3] []",
    "other": "f32[1] on ref:0 [1]",
    "shape": "[2,3]",
    "size": "5",
    "spec": "f32[2,2]",
}

with tempfile.TemporaryDirectory() as work:
    with open(f"{work}/shown.cpp", "w", encoding="utf-8") as file:
        file.write("#include <cmath>\n" + PROGRAM)
    subprocess.run([*compiler, "-std=c++20", "-g", "-O0", f"{work}/shown.cpp", "-o", f"{work}/shown", f"-I{root}/include",
                    f"-L{build}", f"-Wl,-rpath,{build}", "-lrill"], check=True)
    commands = ["set breakpoint pending on", "set confirm off", "set debuginfod enabled off", "break stop", "run",
                "print argument", "continue", "print argument", "up", *(f"print {name}" for name in EXPECTED),
                "print reference", "print large", "print text", "kill"]
    done = subprocess.run(
        ["gdb", "-batch", "-nx", "-iex", f"add-auto-load-safe-path {build}", *(f"-ex={c}" for c in commands),
         f"{work}/shown"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1", "RILL_JIT": "off"})
if "ptrace: Operation not permitted" in done.stdout or "Couldn't get registers" in done.stdout:
    print("gdb: this machine lets no program trace another")
    sys.exit(77)
shown = [line.split(" = ", 1)[1] for line in done.stdout.splitlines() if line.startswith("$")]
x = EXPECTED["x"]
expected = ["i64[3] <%0> of a traced function", "@" + x, *EXPECTED.values(), "@" + x]
wrong = [f"{theirs!r} and not {ours!r}" for theirs, ours in zip(shown, expected)
         if not (theirs.endswith(ours[1:]) if ours[0] == "@" else theirs == ours)]
if len(shown) != len(expected) + 2:
    wrong.append(f"{len(shown)} values are shown and not {len(expected) + 2}")
else:
    large, text = shown[-2:]
    if not (large.startswith("i64[1000] [0, 1, 2,") and large.endswith("199, ...]")):
        wrong.append(large)
    if not text.startswith("string[2] of std::string at 0x"):
        wrong.append(text)
if wrong:
    print(done.stdout)
    sys.exit("gdb shows " + "\n".join(wrong))
print(f"gdb shows {len(shown)} values")
