"""Builds and runs a separate program against rill, found as users find it.

usage: consume.py HOW BUILD PREFIX COMPILER... -- MESON...
HOW is "pkg-config" (an install under a temporary root), "cmake" (the same, by find_package), "debian" (Debian packages,
unpacked), "uninstalled" (pkg-config, straight from the build tree), "fetchcontent" (CMake builds rill's source tree, in
BUILD), "subproject" (Meson builds it, in the new folder BUILD, with the arguments in RILL_MESON_ARGS; what that
installs is then found by pkg-config) or "first-project" (the programs of examples/first_project, by CMake against an
install). Exits 77 where the tool that HOW needs is missing.

With pkg-config the program of docs/extending.md, an op from outside the library, is built and run in the same way; with
"cmake" and "fetchcontent" what docs/start.md shows is, as well.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

how, build, prefix = sys.argv[1:4]
split = sys.argv.index("--")
compiler, meson = sys.argv[4:split], sys.argv[split + 1:]
here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
tool = {"cmake": "cmake", "debian": "dpkg-shlibdeps", "fetchcontent": "cmake", "first-project": "cmake",
        "subproject": "meson"}.get(how, "pkg-config")
if not shutil.which(tool) and not (tool == "meson" and meson):
    print(f"skipped: {tool} is missing")
    sys.exit(77)


def run(*command, **more):
    print("+", *command, flush=True)
    done = subprocess.run(command, text=True, **more)
    if done.returncode:
        print(getattr(done, "stderr", None) or "", end="")
        sys.exit(f"exit status {done.returncode}")
    return done


def find(folder, name):
    (file,) = glob.glob(f"{folder}/**/{name}", recursive=True)
    return os.path.dirname(file)


def install(work):
    """An install that was moved afterwards: nothing in it may hold a path to itself."""
    run(*meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", f"{work}/root")
    shutil.move(f"{work}/root/{prefix}", f"{work}/moved")
    return f"{work}/moved"


def unpack_packages(work):
    """Debian packages of the build, without the time that compressing takes, as apt would unpack them."""
    run(sys.executable, f"{root}/packaging/debian.py", build, f"{work}/packages",
        env={**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "none", "PATH": f"{os.path.dirname(meson[0])}:{os.environ['PATH']}"})
    for package in glob.glob(f"{work}/packages/*.deb"):
        run("dpkg-deb", "-x", package, f"{work}/root")
    os.environ["PKG_CONFIG_SYSROOT_DIR"] = f"{work}/root"
    return f"{work}/root/usr"


def compile_by_pkg_config(packages, program, static=False):
    flags = run("pkg-config", "--cflags", "--libs", *(["--static"] if static else []), "rill", stdout=subprocess.PIPE,
                env={**os.environ, "PKG_CONFIG_PATH": packages}).stdout.split()
    # With the build's own variables, a linker could find what the program will not.
    library = os.path.dirname(packages) if "meson-uninstalled" not in packages else build
    flags.append(f"-Wl,-rpath,{library}")
    # With a newer standard than rill needs, which stays: rill.pc asks for none.
    run(*compiler, "-std=c++23", "-DNEWER_THAN_20", f"{here}/main.cpp", "-o", program, *flags)
    if not static:
        run(sys.executable, f"{here}/../run_document.py", f"{root}/docs/extending.md", build, *compiler, "--", *flags)


def configure_by_cmake(source, folder, *arguments):
    return ("cmake", "-G", "Ninja", "-S", source, "-B", folder, f"-DCMAKE_CXX_COMPILER={compiler[-1]}", *arguments)


def compile_by_cmake(source, folder, *arguments):
    run(*configure_by_cmake(source, folder, *arguments))
    run("cmake", "--build", folder)


def check_start_page(work, *arguments):
    """The program of docs/start.md, by the CMakeLists.txt that it shows for an install or for a source tree."""
    with open(f"{root}/docs/start.md", encoding="utf-8") as text:
        blocks = re.findall(r"^```(cpp|cmake)\n(.*?)^```$", text.read(), re.M | re.S)
    (program,) = [code for language, code in blocks if language == "cpp"]
    (lists,) = [code for language, code in blocks
                if language == "cmake" and ("FetchContent" in code) == (how == "fetchcontent")]
    os.makedirs(f"{work}/start")
    for name, code in {"main.cpp": program, "CMakeLists.txt": lists.replace("/path/to/rill", root)}.items():
        with open(f"{work}/start/{name}", "w", encoding="utf-8") as file:
            file.write(code)
    compile_by_cmake(f"{work}/start", f"{work}/start/build", *arguments)
    run(f"{work}/start/build/main")


def check_first_project(work, place):
    """Trains by one program, and infers by the other from the file that the first wrote."""
    source, folder = f"{root}/examples/first_project", f"{work}/b"
    compile_by_cmake(source, folder, f"-DCMAKE_PREFIX_PATH={place}")
    said = run(f"{folder}/train", f"{source}/iris.csv", f"{work}/iris.rill", stdout=subprocess.PIPE).stdout
    accuracies = [float(number) for number in re.findall(r"validation ([\d.]+)", said)]
    if not accuracies or accuracies[-1] < 0.9:
        sys.exit(f"it should learn to tell the species, and said:\n{said}")
    said = run(f"{folder}/classify", f"{work}/iris.rill", f"{source}/flowers.csv", stdout=subprocess.PIPE).stdout
    if [line.split()[0] for line in said.splitlines()] != ["setosa", "versicolor", "virginica"]:
        sys.exit(f"one flower of each species should be told, in this order. it said:\n{said}")


def check_components(work, place):
    """An install without what was asked for is not found, and CMake says what is missing."""
    for component, there in (("core", True), ("io", has(place, "_io")), ("nonsense", False)):
        command = configure_by_cmake(here, f"{work}/{component}", f"-DCMAKE_PREFIX_PATH={place}", f"-DRILL_COMPONENTS={component}")
        done = subprocess.run(command, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        if (done.returncode == 0) != there or (not there and f"not: {component}" not in " ".join(done.stderr.split())):
            sys.exit(f"find_package(rill COMPONENTS {component}), which is {'' if there else 'not '}there:\n{done.stderr}")


def make_older(module):
    """Makes librill_llvm.so say that it is of rill 0.0.9."""
    with open(module, "r+b") as file:
        data = file.read()
        at = re.search(rb"\0(\d+\.\d+\.\d+) LLVM \d", data).start(1)
        file.seek(at)
        file.write(b"0.0.9")


def build_subproject():
    project = f"{build}-project"
    shutil.rmtree(project, ignore_errors=True)
    os.makedirs(f"{project}/subprojects")
    for name in ("main.cpp", "meson.build"):
        shutil.copy(f"{here}/{name}", project)
    shutil.copy(f"{root}/packaging/rill.wrap", f"{project}/subprojects")
    os.symlink(root, f"{project}/subprojects/rill")
    run(*meson, "setup", build, project, *os.environ.get("RILL_MESON_ARGS", "").split(),
        env={**os.environ, "CXX": " ".join(compiler)})
    run(*meson, "compile", "-C", build)
    return f"{build}/consumer"


def check(program, has_io, has_llvm):
    """Runs it: it writes a graph where it can, and what it traces is compiled where it can be. Returns what it said."""
    with tempfile.TemporaryDirectory() as folder:
        graph = f"{folder}/graph.dot"
        kept = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}  # meson's tests set it
        said = run(program, *([graph] if has_io else []), stderr=subprocess.PIPE,
                   env={**kept, "RILL_JIT": "wait", "RILL_LOG": "kernels", "RILL_CACHE_DIR": folder}).stderr
        if has_io and not os.path.exists(graph):
            sys.exit("the graph was not written")
        if has_llvm != ("rill: kernel compiled" in said) or said.count("kernels cannot be compiled") != (not has_llvm):
            sys.exit(f"compiled or not, against what was expected; it said:\n{said}")
        return said


def has(folder, name, ends=("so", "a")):
    return any(glob.glob(f"{folder}/**/librill{name}.{end}", recursive=True) for end in ends)


with tempfile.TemporaryDirectory() as work:
    program, place = f"{work}/consumer", build
    if how == "uninstalled":
        compile_by_pkg_config(f"{build}/meson-uninstalled", program)
    elif how == "pkg-config":
        place = install(work)
        compile_by_pkg_config(find(place, "rill.pc"), program, static=has(place, "", ["a"]))
        if has(place, "_llvm", ["so"]):  # without it, a program says once that nothing is compiled
            check(program, has(place, "_io"), True)
            module = f"{find(place, 'librill_llvm.so')}/librill_llvm.so"
            make_older(module)
            if "librill_llvm.so is of rill 0.0.9" not in (said := check(program, has(place, "_io"), False)):
                sys.exit(f"a module of another version was opened, or refused without a word; it said:\n{said}")
            # That of another version, which is installed beside, is left alone.
            beside = f"{os.path.dirname(os.path.dirname(module))}/rill-0.0.9"
            os.mkdir(beside)
            shutil.move(module, beside)
            if "librill_llvm.so is not installed" not in (said := check(program, has(place, "_io"), False)):
                sys.exit(f"it should have found no module; it said:\n{said}")
            shutil.rmtree(beside)
    elif how == "debian":
        if has(build, "", ["a"]):
            print("skipped: packages are made of shared libraries")
            sys.exit(77)
        place = unpack_packages(work)
        compile_by_pkg_config(find(place, "rill.pc"), program)
        check(program, has(place, "_io"), has(place, "_llvm"))
        program = f"{work}/b/consumer"
        compile_by_cmake(here, f"{work}/b", f"-DCMAKE_PREFIX_PATH={place}")
    elif how == "cmake":
        place = install(work)
        check_components(work, place)
        program = f"{work}/b/consumer"
        compile_by_cmake(here, f"{work}/b", f"-DCMAKE_PREFIX_PATH={place}", "-DCMAKE_CXX_STANDARD=23",
                         "-DCMAKE_CXX_FLAGS=-DNEWER_THAN_20")
        check_start_page(work, f"-DCMAKE_PREFIX_PATH={place}")
    elif how == "fetchcontent":
        program = f"{work}/b/consumer"
        compile_by_cmake(here, f"{work}/b", f"-DRILL_SOURCE={root}", f"-DRILL_BUILD_DIR={build}")
        check_start_page(work, f"-DRILL_BUILD_DIR={build}")
    elif how == "first-project":
        check_first_project(work, install(work))
        sys.exit()
    elif how == "subproject":
        inside = build_subproject()
        check(inside, has(build, "_io"), has(build, "_llvm"))
        place = install(work)
        compile_by_pkg_config(find(place, "rill.pc"), program, static=has(place, "", ["a"]))
    check(program, has(place, "_io"), has(place, "_llvm"))
