"""Builds and runs a separate program against rill, found as users find it.

usage: consume.py HOW BUILD PREFIX COMPILER... -- MESON...
HOW is "pkg-config" (an install under a temporary root), "cmake" (the same, by find_package) or "uninstalled"
(pkg-config, straight from the build tree). Exits 77 where the tool that HOW needs is missing.

With pkg-config the program of docs/extending.md, an op from outside the library, is built and run in the same way.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

how, build, prefix = sys.argv[1:4]
split = sys.argv.index("--")
compiler, meson = sys.argv[4:split], sys.argv[split + 1:]
here = os.path.dirname(os.path.abspath(__file__))
tool = "cmake" if how == "cmake" else "pkg-config"
if not shutil.which(tool):
    print(f"skipped: {tool} is missing")
    sys.exit(77)


def run(*command, **more):
    print("+", *command, flush=True)
    done = subprocess.run(command, text=True, **more)
    if done.returncode:
        sys.exit(f"exit status {done.returncode}")
    return done


def find(root, name):
    (file,) = glob.glob(f"{root}/**/{name}", recursive=True)
    return os.path.dirname(file)


with tempfile.TemporaryDirectory() as work:
    if how == "uninstalled":
        packages, library = f"{build}/meson-uninstalled", build
    else:
        run(*meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", f"{work}/root")
        # The tree is moved after the install: nothing in it may hold a path to itself.
        shutil.move(f"{work}/root/{prefix}", f"{work}/moved")
        packages, library = find(f"{work}/moved", "rill.pc"), find(f"{work}/moved", "librill.so")

    if how == "cmake":
        run("cmake", "-G", "Ninja", "-S", here, "-B", f"{work}/b", f"-DCMAKE_PREFIX_PATH={work}/moved",
            f"-DCMAKE_CXX_COMPILER={compiler[-1]}")
        run("cmake", "--build", f"{work}/b")
        program = f"{work}/b/consumer"
    else:
        flags = run("pkg-config", "--cflags", "--libs", "rill", stdout=subprocess.PIPE,
                    env={**os.environ, "PKG_CONFIG_PATH": packages}).stdout.split()
        program = f"{work}/consumer"
        flags.append(f"-Wl,-rpath,{library}")
        run(*compiler, f"{here}/main.cpp", "-o", program, *flags)
        run(sys.executable, f"{here}/../run_document.py", f"{here}/../../docs/extending.md", build, *compiler, "--", *flags)

    graph = f"{work}/graph.dot"
    run(program, *([graph] if os.path.exists(f"{library}/librill_io.so") else []),
        env={name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"})  # meson's tests set it
    if os.path.exists(f"{library}/librill_io.so") and not os.path.exists(graph):
        sys.exit("the graph was not written")
