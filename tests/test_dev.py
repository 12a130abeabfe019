"""./dev on machines that it has not met: an LLVM that is too old, package lists that are empty, a package that is installed
later. Debian's tools and Meson are stand-ins here that keep what is installed in files; nothing of the machine is touched.
"""
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

STANDINS = {
    # Every package but LLVM's is there; those are in the file `installed`.
    "dpkg-query": r"""
for last; do :; done
case "$*" in
  *llvm-\*-dev*) sed 's/$/ 1 install ok installed/' "$WORLD/installed" ;;
  *llvm-*) grep -q "^$last$" "$WORLD/installed" && echo 'install ok installed' || exit 1 ;;
  *) echo 'install ok installed' ;;
esac""",
    "apt-cache": 'sed "s/$/ - modular compiler/" "$WORLD/lists" 2>/dev/null; true',
    "apt-get": r"""
echo "$@" >>"$WORLD/apt"
case " $* " in
  *" update "*) [ ! -e "$WORLD/offline" ] || exit 100; cp "$WORLD/mirror" "$WORLD/lists" ;;
  *" install "*) for last; do :; done; echo "$last" >>"$WORLD/installed" ;;
esac""",
    "id": 'echo "${UID_IS:-0}"',
    "sudo": "exit 1",
    "ninja": r"""
case "$*" in
  *targets*) printf '%s\n' 'librill.so.0.1.0: cpp_LINKER' 'librill_llvm.so: cpp_LINKER' 'librill.so.0: CUSTOM_COMMAND' ;;
  *) echo "$@" >>"$WORLD/ninja" ;;
esac""",
    "pip": "true",
    # oneDNN of the system, so that none is fetched.
    "c++": 'case "$*" in *--version*) echo c++ 12;; *) printf "#define DNNL_VERSION_MAJOR 3\n#define DNNL_VERSION_MINOR 4\n";; esac',
    "meson": r"""
[ "$1" != --version ] || { echo 1.5; exit; }
echo "$@" >>"$WORLD/meson"
for last; do :; done
mkdir -p build; touch build/build.ninja
echo 'rill 0.1.0'; echo; echo '  Features'
grep -qE 'llvm-(1[6-9]|2[01])' "$WORLD/installed" && echo '    compiler : on   19' || echo '    compiler : off  not found. COMMAND turns it on'
echo; echo 'Found ninja'""",
}


class World:
    def __init__(self, folder, installed, lists, mirror):
        self.path = pathlib.Path(folder)
        for name, text in {"installed": installed, "lists": lists, "mirror": mirror, "apt": "", "meson": ""}.items():
            (self.path / name).write_text("".join(f"{line}\n" for line in text))
        (self.path / "bin").mkdir()
        for name, body in STANDINS.items():
            file = self.path / "bin" / name
            file.write_text(f"#!/bin/bash\n{body}\n")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        (self.path / "tree").mkdir()
        shutil.copy(ROOT / "dev", self.path / "tree/dev")

    def dev(self, command="setup", **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RILL_", "CXX"))}
        done = subprocess.run(["bash", "./dev", command], cwd=self.path / "tree", text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env={**kept, "PATH": f"{self.path}/bin:/usr/bin:/bin", "WORLD": str(self.path), **environment})
        return done.returncode, done.stdout

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
            test(World(folder, **{"installed": [], "lists": [], "mirror": [], **state}))
    return run


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
def none_offered(w):
    status, text = w.dev()
    check("what is off is said, with the command", status == 0 and "off: compiler: not found. COMMAND turns it on" in text, text)
    status, text = w.dev()
    check("and said again by each run", "COMMAND turns it on" in text, text)
    check("`./dev features` then fails", w.dev("features")[0] != 0)
    check("the lists are not fetched at each run", w.said("apt").count("update") == 1, w.said("apt"))
    (w.path / "installed").write_text("llvm-18-dev\n")
    status, text = w.dev()
    check("what is installed later is seen", "compiler : on" in text and "--reconfigure" in w.said("meson"), text)
    check("`./dev features` then passes", w.dev("features")[0] == 0)


@world
def no_network(w):
    (w.path / "offline").touch()
    status, text = w.dev()
    check("a missing network costs the compiler alone", status == 0 and "off: compiler" in text, text)
    (w.path / "offline").unlink()
    w.dev()
    check("and the next run has it", w.has("llvm-19-dev"))


@world
def no_root(w):
    status, text = w.dev(UID_IS="1000")
    check("without root what is off is said", status == 0 and "COMMAND turns it on" in text, text)
    w.dev()
    check("and root's run installs it", w.has("llvm-19-dev"))


@world
def programs_alone(w):
    # librill opens librill_llvm.so as it runs: a demo whose build left it out would train without the compiler.
    w.dev("demo")
    check("the demo is built with what librill opens", "examples/mnist librill.so.0.1.0 librill_llvm.so\n" in w.said("ninja"))
    pip = w.path / "tree/.deps/oracle/bin/pip"  # the judges are 3 GB: none can be had here
    pip.parent.mkdir(parents=True)
    pip.symlink_to("/bin/false")
    w.dev("oracle")
    check("and so is what compares with judges", "tests/oracle librill.so.0.1.0 librill_llvm.so\n" in w.said("ninja"))


OFFERED = ["llvm-14-dev", "llvm-16-dev", "llvm-19-dev", "llvm-22-dev"]
older_llvm(installed=["llvm-14-dev"], lists=OFFERED, mirror=OFFERED)
empty_lists(mirror=OFFERED)
none_offered(mirror=["llvm-14-dev"])
no_network(mirror=OFFERED)
no_root(mirror=OFFERED)
programs_alone(mirror=OFFERED)
