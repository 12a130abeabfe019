"""./dev on machines that it has not met, after what users do to it, and what it shows meanwhile. Debian's tools, compilers,
pip, Meson and Ninja are stand-ins here that keep what they are asked in files; nothing of the machine is touched.
"""
import json
import os
import pathlib
import pty
import shutil
import stat
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"

STANDINS = {
    # Every package is there but those that the file `missing` names, and LLVM's, of which those are that `installed` names.
    "dpkg-query": r"""
shift 3  # -W -f FORMAT
for package; do
  case $package in
    llvm-\*-dev) grep '^llvm' "$WORLD/installed" | sed 's/$/ install ok installed/' ;;
    *) if grep -q "^$package$" "$WORLD/installed" || { [[ $package != llvm-* ]] && ! grep -q "^$package$" "$WORLD/missing"; }; then
         echo "$package install ok installed"
       fi ;;
  esac
done""",
    "apt-cache": 'sed "s/$/ - modular compiler/" "$WORLD/lists" 2>/dev/null; true',
    "apt-get": r"""
echo "$@ proxy=$https_proxy" >>"$WORLD/apt"
case " $* " in
  *" update "*)
    echo dlstatus:1:34.5:Retrieving file 1 of 3
    [ ! -e "$WORLD/offline" ] || exit 100
    cp "$WORLD/mirror" "$WORLD/lists"
    [ ! -e "$WORLD/foreign" ] || { echo "E: The repository 'foreign' does not have a Release file."; exit 100; } ;;
  *" --assume-no "*) echo 'Need to get 241 MB of archives.'; echo 'After this operation, 1251 MB of additional disk space will be used.' ;;
  *" install "*)
    [ ! -e "$WORLD/refuses" ] || { cat "$WORLD/refuses"; exit 100; }
    for word; do [[ $word == *-* && $word != -* || $word == catch2 ]] && echo "$word" >>"$WORLD/installed"; done ;;
esac""",
    "id": 'echo "${UID_IS:-0}"',
    # sudo forgets the environment; it is there where the file `sudoer` is.
    "sudo": '[ -e "$WORLD/sudoer" ] && exec env -i "PATH=$PATH" "WORLD=$WORLD" "${@/#-n/env}"',
    "ninja": r"""
case "$*" in
  *targets*) printf '%s\n' 'librill.so.0.1.0: cpp_LINKER' 'librill_llvm.so: cpp_LINKER' 'librill.so.0: CUSTOM_COMMAND' \
    'benchmarks/rows: cpp_LINKER' 'benchmarks/sweep: cpp_LINKER' 'tests/test_ops: cpp_LINKER' ;;
  *build.ninja | *" -n"*) ;;
  *) echo "$@" >>"$WORLD/ninja" ;;
esac""",
    # A virtual environment has a Python whose pip is a stand-in too.
    "python3": rf"""
[ "$1 $2" = '-m venv' ] || exec {sys.executable} "$@"
mkdir -p "$3/bin" "$3/lib/{PYTHON}"
cp "$WORLD/bin/pip" "$3/bin/python"
printf '#!%s/bin/python\n' "$3" >"$3/bin/script"; chmod +x "$3/bin/script" """,
    "pip": rf"""
[ "$1" != -c ] || {{ echo {PYTHON}; exit; }}
""" + r"""
[ "$3" != --version ] || exit 0
echo "$@" >>"$WORLD/pip"
[ ! -e "$WORLD/refuses" ] || { cat "$WORLD/refuses"; exit 1; }
echo 'Downloading a-1-py3-none-any.whl (54.1 MB)'
while [ -e "$WORLD/slow" ]; do sleep 0.05; done
while [ $# -gt 0 ]; do [ "$1" != --prefix ] || mkdir -p "$2/lib"; shift; done""",
    # Its oneDNN is the system's, so that none is fetched, unless the file `bare` is there.
    "c++": r"""
case "$*" in
  *--version*) echo "c++ ${GCC:-12}" ;;
  *) echo "#define __GNUC__ ${GCC:-12}"
     [ -e "$WORLD/bare" ] || printf "#define DNNL_VERSION_MAJOR 3\n#define DNNL_VERSION_MINOR 4\n" ;;
esac""",
    "clang++": 'exec c++ "$@"',
    "ccache": 'exec "$@"',
    "meson": r"""
[ "$1" != --version ] || { [ -e "$WORLD/bare" ] && echo 0.61 || echo 1.5; exit; }
echo "$@ CXX=$CXX" >>"$WORLD/meson"
case $1 in
  introspect) echo '[{"name": "prefix", "value": "/usr/local"}]'; exit ;;
  install) mkdir -p build/install/usr/local/lib; touch build/install/usr/local/lib/librill.so; exit ;;
esac
while [ -e "$WORLD/slow" ]; do sleep 0.05; done
[ ! -e "$WORLD/unconfigured" ] || { cat "$WORLD/unconfigured"; exit 1; }
mkdir -p build; touch build/build.ninja
echo 'rill 0.1.0'; echo; echo '  Features'
grep -qE 'llvm-(1[6-9]|2[01])' "$WORLD/installed" && echo '    compiler : on   19' || echo '    compiler : off  not found. COMMAND turns it on'
echo; echo 'Found ninja'""",
}


class World:
    """A checkout, whose path has a space in it, on a machine of stand-ins."""

    def __init__(self, folder, installed, lists, mirror, missing):
        self.path = pathlib.Path(folder)
        given = {"installed": installed, "lists": lists, "mirror": mirror, "missing": missing}
        for name, lines in {**given, "apt": "", "meson": "", "ninja": "", "pip": ""}.items():
            (self.path / name).write_text("".join(f"{line}\n" for line in lines))
        (self.path / "bin").mkdir()
        for name, body in STANDINS.items():
            self.tool(name, body)
        self.tree = self.path / "my rill"
        (self.tree / "docs").mkdir(parents=True)
        (self.tree / "benchmarks").mkdir()
        shutil.copy(ROOT / "dev", self.tree)
        shutil.copy(ROOT / "docs/platforms.md", self.tree / "docs")
        shutil.copytree(ROOT / "packaging/dev", self.tree / "packaging/dev")

    def tool(self, name, body):
        file = self.path / "bin" / name
        file.write_text(f"#!/bin/bash\n{body}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def without(self, *beginnings):
        """A PATH for what is no stand-in: this machine's tools but those that begin so."""
        folder = self.path / "usr"
        folder.mkdir()
        for tool in os.scandir("/usr/bin"):
            if not tool.name.startswith(beginnings):
                (folder / tool.name).symlink_to(tool.path)
        return str(folder)

    def state(self, name, text=""):
        (self.path / name).write_text(text)

    def start(self, *arguments, cwd=None, path="/usr/bin:/bin", **environment):
        dropped = ("RILL_", "CXX", "PKG_CONFIG", "LDFLAGS", "CPPFLAGS", "http", "HTTP")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        kept |= {"PATH": f"{self.path}/bin:{path}", "WORLD": str(self.path), **environment}
        return subprocess.Popen(["bash", str(self.tree / "dev"), *arguments], cwd=cwd or self.tree, text=True, env=kept,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def dev(self, *arguments, **more):
        process = self.start(*arguments or ["setup"], **more)
        text = process.communicate()[0]
        return process.returncode, text

    def said(self, tool):
        return (self.path / tool).read_text()

    def has(self, package):
        return package in self.said("installed").split()


def check(what, good, more=""):
    print("ok  " if good else "NOT ", what)
    if not good:
        sys.exit(more)


def world(test):
    def run(**state):
        with tempfile.TemporaryDirectory() as folder:
            test(World(folder, **{"installed": [], "lists": [], "mirror": [], "missing": [], **state}))
    return run


def until(condition):
    for _ in range(400):
        if condition():
            return True
        time.sleep(0.05)
    return False


# --- Packages ------------------------------------------------------------------------------------------------------
@world
def older_llvm(w):
    status, text = w.dev()
    check("an LLVM that is too old does not hide the one that is offered", status == 0 and w.has("llvm-19-dev"), text)
    w.dev()
    check("done once, nothing is asked of the network", w.said("apt").count("update") == 1, w.said("apt"))


@world
def empty_lists(w):
    status, text = w.dev()
    check("empty package lists are fetched", status == 0 and w.has("llvm-19-dev"), text)


@world
def announced(w):
    status, text = w.dev()
    check("how large packages are is said before", "241 MB to fetch, 1251 MB on disk" in text, text)
    check("and what each is for", any(line.split() == ["tests", "and", "benchmarks", "catch2"] for line in text.splitlines()), text)
    check("and they are installed", status == 0 and w.has("catch2"), text)
    check("apt's own words are in its log, and colours are for terminals", not any(mark in text for mark in ("dlstatus", "\033")), text)


@world
def for_the_demo(w):
    _, text = w.dev("demo")
    check("the demo installs what it needs alone", w.has("libpng-dev") and not w.has("catch2"), text)
    check("and says so", "What is off is not needed here" in text and "off: " not in text, text)
    count = w.said("apt").count("update")
    _, text = w.dev("demo")
    check("once", w.said("apt").count("update") == count, text)
    status, text = w.dev()
    check("another command installs the rest", status == 0 and w.has("catch2") and "--reconfigure" in w.said("meson"), text)
    _, text = w.dev("demo")
    check("after which nothing is said to be missing", "not needed here" not in text, text)


@world
def none_offered(w):
    status, text = w.dev()
    check("what is off is said, with the command", status == 0 and "off: compiler: not found. COMMAND turns it on" in text, text)
    status, text = w.dev()
    check("and said again by each run", "COMMAND turns it on" in text, text)
    check("`./dev features` then fails", w.dev("features")[0] != 0)
    check("the lists are not fetched at each run", w.said("apt").count("update") == 1, w.said("apt"))
    w.state("installed", "llvm-18-dev\n")
    status, text = w.dev()
    check("what is installed later is seen", "compiler : on" in text and "--reconfigure" in w.said("meson"), text)
    check("`./dev features` then passes", w.dev("features")[0] == 0)


@world
def no_network(w):
    w.state("offline")
    status, text = w.dev()
    check("a missing network costs the compiler alone", status == 0 and "off: compiler" in text, text)
    (w.path / "offline").unlink()
    w.dev()
    check("and the next run has it", w.has("llvm-19-dev"))


@world
def foreign_list(w):
    w.state("foreign")
    status, text = w.dev()
    check("one broken list of somebody else's stops nothing", status == 0 and w.has("catch2"), text)
    w.state("missing", "libpng-dev\n")
    w.state("refuses", "E: Unable to locate package libpng-dev\n")
    status, text = w.dev()
    check("where an install fails, both complaints are shown", status == 1 and "'foreign' does not" in text and "Unable to locate" in text, text)


@world
def no_root(w):
    status, text = w.dev(UID_IS="1000")
    check("without root what is missing is said, and what is off", "apt-get install catch2" in text and "COMMAND turns it on" in text, text)
    check("without root nothing is tried", status == 0 and not w.said("apt"), text)
    w.state("sudoer")
    w.dev(UID_IS="1000", https_proxy="proxy:3128")
    check("sudo installs it, through the proxy", w.has("catch2") and "proxy=proxy:3128" in w.said("apt"), w.said("apt"))


@world
def kept_packages(w):
    status, text = w.dev(RILL_PACKAGES="keep")
    check("RILL_PACKAGES=keep installs nothing", status == 0 and not w.said("apt"), text)
    w.state("unconfigured", "ERROR: Dependency \"libpng\" not found\n")
    status, text = w.dev(RILL_PACKAGES="keep", RILL_MESON_ARGS="-Dnew=true")
    check("and says what is missing where configuring fails", status == 1 and "apt-get install catch2" in text, text)


@world
def other_system(w):
    for tool in ("dpkg-query", "apt-get", "apt-cache"):
        (w.path / "bin" / tool).unlink()
    w.tool("dnf", "true")
    w.state("unconfigured", "ERROR: Dependency \"fmt\" not found\n")
    status, text = w.dev(path=w.without("dpkg", "apt"))
    check("Fedora is told its own packages", status == 1 and "dnf install" in text and "fmt-devel" in text, text)


# --- Compilers -----------------------------------------------------------------------------------------------------
@world
def compilers(w):
    w.dev()
    status, text = w.dev(CXX="clang++")
    last = w.said("meson").splitlines()[-1]
    check("CXX is heard after the first set-up", status == 0 and "--wipe" in last and "CXX=clang++" in last, last)
    w.dev()
    check("and kept", w.said("meson").count("\n") == 2, w.said("meson"))
    w.dev(RILL_MESON_ARGS="-Dwerror=true")
    last = w.said("meson").splitlines()[-1]
    check("an option does not begin a build folder anew", "--reconfigure" in last and "-Dwerror=true" in last and "CXX=clang++" in last, last)
    w.dev()
    check("and is kept where it is not named again", w.said("meson").count("\n") == 3, w.said("meson"))
    w.dev(RILL_MESON_ARGS="-Dwerror=false", LDFLAGS="-Lplace")
    last = w.said("meson").splitlines()[-1]
    check("flags begin it anew", "--wipe" in last and "-Dwerror=false" in last, last)
    w.dev()
    check("and are kept too", w.said("meson").count("\n") == 4, w.said("meson"))
    w.dev(RILL_MESON_ARGS="--cross-file arm.txt")
    check("so does what is no option", "--wipe" in w.said("meson").splitlines()[-1], w.said("meson"))
    w.dev(RILL_MESON_ARGS="--cross-file arm.txt")
    check("once", w.said("meson").count("\n") == 5, w.said("meson"))
    status, text = w.dev(CXX="ccache c++")
    check("CXX may be two words", status == 0 and "CXX=ccache c++" in w.said("meson"), text)
    status, text = w.dev(CXX="ccache g++-99")
    check("and the second is looked for", status == 1 and "there is no g++-99" in text, text)


@world
def old_compiler(w):
    path = w.without("g++-", "clang++-")
    status, text = w.dev(GCC="11", UID_IS="1000", path=path)
    check("a compiler that is too old is said, with the cure", status == 1 and "too old" in text and "apt-get install g++-12" in text, text)
    w.tool("g++-12", 'GCC=12 exec c++ "$@"')
    w.tool("g++-13", 'GCC=13 exec c++ "$@"')
    status, text = w.dev(GCC="11", UID_IS="1000", path=path)
    check("the newest beside it is taken", status == 0 and "CXX=g++-13" in w.said("meson"), text + w.said("meson"))


@world
def old_highway(w):
    w.state("unconfigured", "meson.build:99:6: ERROR: Dependency lookup for libhwy with method 'pkgconfig' failed: Invalid version, need 'libhwy' ['>=1.0'] found '0.16'.\n")
    status, text = w.dev()
    check("a Highway that is too old is said, with the cure", status == 1 and "PKG_CONFIG_PATH" in text, text)


# --- Wheels --------------------------------------------------------------------------------------------------------
@world
def wheels(w):
    w.state("bare")
    status, text = w.dev()
    check("wheels are said before they are fetched, what for, how large", "oneDNN" not in text and
          "matrix products and convolutions, " in text and "the build system, " in text, text)
    check("and fetched once", status == 0 and w.said("pip").count("\n") == 2, w.said("pip"))
    w.dev()
    check("and not again", w.said("pip").count("\n") == 2, w.said("pip"))
    deps = w.tree / ".deps"
    (deps / "onednn.stamp").write_text("--prefix elsewhere onednn==1\n")
    (deps / "onednn/lib/libdnnl.so.1").touch()
    status, text = w.dev()
    check("wheels of another version are replaced, not mixed", status == 0 and w.said("pip").count("\n") == 3 and
          not (deps / "onednn/lib/libdnnl.so.1").exists(), text)
    shutil.rmtree(deps / "venv/lib")
    (deps / "venv/lib/python3.1").mkdir(parents=True)
    status, text = w.dev()
    check("an environment of a Python that is gone is made anew", status == 0 and (deps / "venv/lib" / PYTHON).exists(), text)


@world
def interrupted(w):
    w.state("bare")
    w.state("slow")
    process = w.start("setup")
    check("a fetch begins", until(lambda: w.said("pip")))
    half = w.tree / ".deps/venv/half"
    half.touch()
    process.kill()
    (w.path / "slow").unlink()
    process.communicate()
    status, text = w.dev()
    check("a fetch that was killed is begun anew by the next run", status == 0 and not half.exists(), text)
    check("which leaves nothing of it", not list((w.tree / ".deps").glob("*.fetched")) and not list((w.tree / ".deps").glob("*.begun")))


@world
def refused(w):
    w.state("bare")
    w.state("refuses", "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution\n")
    status, text = w.dev(https_proxy="proxy:3128")
    check("no network is said, with the proxy", status == 1 and "network cannot be reached" in text and "now: proxy:3128" in text, text)
    w.state("refuses", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n")
    status, text = w.dev()
    check("a full disk is said", status == 1 and "disk is full" in text, text)


# --- Commands ------------------------------------------------------------------------------------------------------
@world
def mistyped(w):
    status, text = w.dev("tset")
    check("a command that does not exist is an error, with the nearest", status == 1 and "Did you mean ./dev test?" in text, text)
    status, text = w.dev("--help")
    check("--help is none", status == 0 and "./dev install DIR" in text, text)
    status, text = w.dev("install")
    check("install needs a folder", status == 1 and "usage: ./dev install DIR" in text, text)


@world
def programs_alone(w):
    # librill opens librill_llvm.so as it runs: a demo whose build left it out would train without the compiler.
    w.dev("demo")
    check("the demo is built with what librill opens", "examples/mnist librill_llvm.so\n" in w.said("ninja"))
    w.state("refuses", "no such wheel")  # the judges are 3 GB: none can be had here
    w.dev("oracle")
    check("and so is what compares with judges", "tests/oracle librill.so.0.1.0 librill_llvm.so\n" in w.said("ninja"))
    (w.tree / "benchmarks/run.py").write_text("import sys; sys.exit('no such row' if 'nonsense' in sys.argv else 0)")
    status, text = w.dev("bench", "nonsense")
    check("a row that does not exist is said before a build", status == 1 and "benchmarks" not in w.said("ninja"), text)
    status, text = w.dev("bench", "add")
    check("benchmarks are built alone", status == 0 and w.said("ninja").endswith("build benchmarks/rows librill.so.0.1.0 librill_llvm.so\n"), text)


@world
def installs(w):
    status, text = w.dev("install", "there", cwd=w.path)
    check("a fresh clone installs, into a folder of where the user is", status == 0 and (w.path / "there/lib/librill.so").exists(), text)


@world
def moved(w):
    w.state("bare")
    w.dev()
    w.tree = w.tree.rename(w.path / "elsewhere")
    status, text = w.dev()
    check("a checkout that was moved is configured anew", status == 0 and "--wipe" in w.said("meson").splitlines()[-1], text)
    said = subprocess.run([w.tree / ".deps/venv/bin/script", "-m", "x", "in a", "space"], stdout=subprocess.DEVNULL,
                          env={"WORLD": str(w.path)})
    check("and its scripts find their Python", said.returncode == 0 and w.said("pip").splitlines()[-1].endswith("/script -m x in a space"))
    check("nothing is fetched again", w.said("pip").count("pip install") == 2, w.said("pip"))
    w.dev()
    check("once", w.said("meson").count("setup") == 2, w.said("meson"))


@world
def read_only(w):
    (w.tree / ".deps").symlink_to("/proc/none/deps")  # nobody makes a folder there, not even root
    status, text = w.dev()
    check("a tree that cannot be written to is said, with the cure", status == 1 and "cannot be written to" in text and "cp -r" in text, text)


@world
def two_at_once(w):
    w.state("slow")
    first = w.start("setup")
    check("a set-up begins", until(lambda: w.said("meson")))
    second = w.start("features")
    line = second.stdout.readline()
    check("a second ./dev waits, and says for whom", f"Waiting for ./dev setup (process {first.pid}" in line, line)
    (w.path / "slow").unlink()
    first.communicate()
    second.communicate()
    check("then it goes on", first.returncode == second.returncode == 0 and w.said("meson").count("setup") == 1)


# --- Tests ---------------------------------------------------------------------------------------------------------
TESTS = r"""
case "$*" in
  --version) echo 1.5 ;;
  *--list*--suite\ core*) printf 'fast+core - rill:%s\n' tape tensor ;;
  *--list*--suite\ fast*) echo 'fast - rill:data' ;;
  *--list*--no-suite*) echo 'scripts - rill:tape' ;;
  *--list*tape*) printf '%s - rill:tape\n' fast+core scripts ;;
  *--list*) ;;
  *testlog-core*) echo "$@" >>"$WORLD/meson"; echo '1/1 fast+core - rill:tape OK 0.1s'
    echo '{"name": "tape", "result": "OK", "stdout": "All tests passed (9 assertions in 5 test cases)"}' >build/meson-logs/testlog-core.json ;;
  *testlog-fast*) echo "$@" >>"$WORLD/meson"; echo '1/1 fast - rill:data OK 0.1s'
    echo '{"name": "data", "result": "OK", "stdout": "All tests passed (2 assertions in 2 test cases)"}' >build/meson-logs/testlog-fast.json ;;
  *) echo "$@" >>"$WORLD/meson"
    echo '{"name": "tape", "result": "FAIL", "stdout": "tape is broken"}' >build/meson-logs/testlog.json; exit 1 ;;
esac"""
KNOWN = [("tape", "fast core", "a"), ("tensor", "fast core", "b"), ("tape", "scripts", "c"), ("data", "fast", "d")]


@world
def testing(w):
    w.dev()
    w.tool("meson", TESTS)
    for folder in ("meson-info", "meson-logs"):
        (w.tree / "build" / folder).mkdir()
    info = w.tree / "build/meson-info"
    (info / "intro-tests.json").write_text(json.dumps(
        [{"name": name, "suite": [f"rill:{suite}" for suite in suites.split()], "depends": [target], "cmd": []}
         for name, suites, target in KNOWN]))
    (info / "intro-targets.json").write_text(json.dumps(
        [{"id": target, "filename": [f"{w.tree}/build/tests/{target}"]} for _, _, target in KNOWN]))
    (w.tree / "tests").mkdir()
    shutil.copy(ROOT / "tests/count.py", w.tree / "tests")
    shutil.copy(ROOT / "tests/formats.txt", w.tree / "tests")
    status, text = w.dev("test")
    runs = [line for line in w.said("meson").splitlines() if line.startswith("test")]
    check("fast tests run, the core first, and what does not is said", len(runs) == 2 and "--suite core" in runs[0]
          and "--suite fast --no-suite core" in runs[1] and "./dev test --all" in text, text)
    w.state("meson")
    w.state("ninja")
    status, text = w.dev("test", "--all")
    runs = [line for line in w.said("meson").splitlines() if line.startswith("test")]
    check("the core runs first, then the other fast tests, then all else", len(runs) == 3 and "--suite core" in runs[0]
          and "--suite fast --no-suite core" in runs[1] and "--no-suite fast" in runs[2], text)
    builds = [line.split()[2:] for line in w.said("ninja").splitlines() if "-C build" in line]
    check("for each its own programs alone are built", builds[:3] == [["tests/a", "tests/b"], ["tests/d"], ["tests/c"]], str(builds))
    if not os.path.exists("/dev/nvidiactl"):
        check("where there is no GPU the simulated one is left out, and that is said",
              "--no-suite gpu" in runs[2] and "./dev test --suite gpu" in text, text)
    check("what has passed by then is said", "5 passed, 0 failed, 0 skipped" in text and "7 passed, 0 failed, 0 skipped" in text, text)
    check("and at the end what all counted", status == 1 and text.endswith("\n7 passed, 1 failed, 0 skipped\n"), text)
    w.dev("test", "tape")
    check("a test that is named builds what it needs", w.said("ninja").splitlines()[-1].split()[2:] == ["tests/a", "tests/c"], w.said("ninja"))
    # Of a test that is new, as by `git pull`, nothing is known before Meson has looked again, which Ninja has it do.
    tests = (info / "intro-tests.json").read_text()
    (info / "intro-tests.json").write_text("[]")
    w.path.joinpath("later").write_text(tests)
    w.tool("ninja", f'case "$*" in *build.ninja) cp "$WORLD/later" "{info}/intro-tests.json" ;; *" -n"*) ;; *) echo "$@" >>"$WORLD/ninja" ;; esac')
    w.dev("test", "tape")
    check("a new test is built, too", w.said("ninja").splitlines()[-1].split()[2:] == ["tests/a", "tests/c"], w.said("ninja"))
    status, text = w.dev("test", "tepa")
    check("a test that does not exist is said, with the nearest", status != 0 and "did you mean tape?" in text, text)


# --- Progress ------------------------------------------------------------------------------------------------------
BUILDING = r"""
mark=$(printf '\036')
case "$*" in
  *build.ninja) ;;
  *" -n "*) for n in 1 2 3; do printf "$mark$n 3$mark%s\n" "Linking target lib$n.so"; done ;;
  *) echo 'ninja: Entering directory'
     printf "${mark}1 3$mark%s\n" 'Linking target lib1.so'
     printf '../a.cpp:1: warning: a warning\n'
     printf "${mark}2 3$mark%s\n" 'Linking target lib2.so'
     echo 'FAILED: lib3.so'; echo 'no newline at the end' | tr -d '\n'
     printf "${mark}3 3$mark%s\n" 'Linking target lib3.so'
     exit 7 ;;
esac"""
TESTING = r"""
case "$*" in
  *--list*) printf 'rill:fast / %s\n' tensor tape ;;
  *) echo '1/2 rill:fast / tensor        OK              0.10s   2 subtests passed'
     echo '2/2 rill:fast / tape          FAIL            0.20s   exit status 1'
     echo 'what tape said'; exit 1 ;;
esac"""


def terminal(command, **environment):
    """What a command writes to a terminal; nothing where a container has none."""
    try:
        ours, its = pty.openpty()
    except OSError:
        return None, ""
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env={**os.environ, "TERM": "xterm", **environment})
    os.close(its)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    return process.wait(), text.decode()


def left_on_screen(text):
    """The lines of a terminal after it was told `text`."""
    lines = [""]
    for piece in text.replace("\r\n", "\n").split("\n"):
        line = ""
        for part in piece.split("\r"):
            line = part.replace("\033[K", "") if "\033[K" in part else part + line[len(part):]
        lines.append(line)
    return lines


@world
def progress(w):
    w.tool("ninja", BUILDING)
    w.tool("meson", TESTING)
    (w.path / "build/meson-logs").mkdir(parents=True)
    w.state("build/.ninja_log", "# ninja log v5\n0\t600000\t1\tlib3.so\t0\n")  # ten minutes, when it was last built
    script = str(w.tree / "packaging/dev/progress.py")
    path = {"PATH": f"{w.path}/bin:{os.environ['PATH']}"}
    for what, expected in (("build", ["a.cpp:1: warning: a warning", "FAILED: lib3.so", "no newline at the end"]),
                           ("test", ["tape          FAIL", "what tape said"])):
        command = [sys.executable, script, what, str(w.path / "build")]
        done = subprocess.run(command, env={**os.environ, **path}, text=True, capture_output=True)
        text = done.stderr
        check(f"{what}: a log has lines only, and all that was said", not set("\r\033\x1e") & set(text) and
              all(any(words in line for line in text.split("\n")) for words in expected), text)
        check(f"{what}: the status is the command's", done.returncode == (7 if what == "build" else 1))
        check(f"{what}: how much there is to do is said first", (text.startswith("3 steps to build, about ") if what == "build" else
              text.startswith("2 tests to run")), text)
        w.state("build/meson-logs/seconds.json", json.dumps({"rill:fast / tape": 600}))
        status, text = terminal(command, **path)
        if status is None:
            continue
        check(f"{what}: a terminal shows how far it is and the time left", "left\033[K" in text and ("[2/3]" if what == "build" else "[1/2]") in text, repr(text))
        screen = left_on_screen(text)
        check(f"{what}: what was said stays there, and no bar does", all(any(words in line for line in screen) for words in expected) and
              not any(line.endswith(" left") for line in screen), repr(screen))


OFFERED = ["llvm-14-dev", "llvm-16-dev", "llvm-19-dev", "llvm-22-dev"]
older_llvm(installed=["llvm-14-dev"], lists=OFFERED, mirror=OFFERED)
empty_lists(mirror=OFFERED)
announced(missing=["catch2", "libpng-dev"], mirror=OFFERED)
for_the_demo(missing=["catch2", "libpng-dev"], mirror=OFFERED)
none_offered(mirror=["llvm-14-dev"])
no_network(mirror=OFFERED)
foreign_list(missing=["catch2"], mirror=OFFERED)
no_root(missing=["catch2"], mirror=OFFERED)
kept_packages(missing=["catch2"])
other_system()
compilers(installed=["llvm-19-dev"])
old_compiler(installed=["llvm-19-dev"])
old_highway(installed=["llvm-19-dev"])
wheels(installed=["llvm-19-dev"])
interrupted(installed=["llvm-19-dev"])
refused(installed=["llvm-19-dev"])
mistyped()
programs_alone(installed=["llvm-19-dev"])
installs(installed=["llvm-19-dev"])
moved(installed=["llvm-19-dev"])
read_only()
two_at_once(installed=["llvm-19-dev"])
testing(installed=["llvm-19-dev"])
progress()
