"""Makes Debian packages of a build folder: librillSOVERSION, librill-dev, and rill, the program.

usage: debian.py BUILD OUT

What is compiled already is not compiled again: the files are those of `meson install`, sorted by packages(), moved to
where Debian wants them, with the dependencies that dpkg-shlibdeps finds. These are packages for the release that runs
this (fmt, protobuf and others have another SONAME in each), so their version names it. Start at main().

The first package is named by its SONAME, librill0.1, as Debian Policy 8.1 asks: librill0.2 will be another library,
which is installed beside.
"""
import email.utils
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Packages whose code is compiled into ours: headers, and LLVM if it is linked statically.
BUILT_IN = ["libhwy-dev", "nlohmann-json3-dev", "libflatbuffers-dev", "libcli11-dev", "llvm-*-dev"]
SUMMARY = "tensors, a gradient tape and traced functions for C++20"
LONG = """ rill is an eager-first tensor library: numpy-like code, a GradientTape for
 gradients and Jacobians, and functions that are traced into graphs and compiled
 into fused kernels, with the same bits as the eager code.
 ."""


class Names:
    """The version of what was built, and of the packages."""

    def __init__(self, build, libraries):
        self.upstream = json.loads(say("meson", "introspect", "--projectinfo", build))["version"]
        lines = pathlib.Path("/etc/os-release").read_text().split("\n")
        release = dict(line.split("=", 1) for line in lines if "=" in line)
        name, number = (release.get(key, "").strip('"') for key in ("ID", "VERSION_ID"))
        self.version = f"{self.upstream}-1+{name.replace('debian', 'deb')}{number}"
        self.triplet = say("dpkg-architecture", "-qDEB_HOST_MULTIARCH")
        self.architecture = say("dpkg-architecture", "-qDEB_HOST_ARCH")
        self.so = re.search(r"SONAME.*\.so\.([\d.]+)\]", say("readelf", "-d", libraries / "librill.so")).group(1)
        self.library = f"librill{self.so}"


def packages(names):
    """Of each package: the files that it takes, the lines of its control file, and what its description adds."""
    return {
        names.library: (
            rf"lib/[^/]*/(librill\w*\.so\.{re.escape(names.so)}.*|rill-.*)|share/gdb/.*",
            "Section: libs\nMulti-Arch: same\nDepends: {shlibs}\nSuggests: libcuda1\n",
            "the library",
            " This package holds the shared libraries. libcuda1 lets them use NVIDIA's GPUs."),
        "librill-dev": (
            r"include/.*|lib/[^/]*/(librill\w*\.so|(pkgconfig|cmake)/.*)",
            f"Section: libdevel\nDepends: {names.library} (= {names.version})\n",
            "headers",
            " This package holds what programs are compiled with: headers, rill.pc and a\n CMake package."),
        "rill": (
            r"bin/rill",
            f"Section: science\nDepends: {names.library} (= {names.version}), {{shlibs}}\nSuggests: graphviz\n",
            "the program",
            " This package holds rill, which looks into models and files of tensors, runs,\n converts and compares them."),
    }


def say(*command, **more):
    done = subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE, **more)
    return done.stdout.strip()


def install(build, tree):
    """What an install holds, compiled where it is not yet, in tree/usr."""
    targets = {line.split(":")[0] for line in say("ninja", "-C", build, "-t", "targets", "all").split("\n")}
    installed = json.loads(say("meson", "introspect", "--installed", build))
    wanted = [os.path.relpath(file, build) for file in installed]
    subprocess.run(["ninja", "-C", str(build), *[file for file in wanted if file in targets]], check=True)
    say("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", tree / "destdir")
    options = {o["name"]: o["value"] for o in json.loads(say("meson", "introspect", "--buildoptions", build))}
    shutil.move(f"{tree}/destdir/{options['prefix']}", tree / "usr")
    return tree / "usr", options["libdir"]


def replace(file, old, new):
    text = file.read_text()
    if old not in text:
        sys.exit(f"{file.name} does not hold the line that a package changes: {old}")
    file.write_text(text.replace(old, new))


def as_debian_wants(usr, libdir, names):
    """Libraries go into the folder of their architecture, and gdb's script to where gdb trusts it."""
    there = f"lib/{names.triplet}"
    if libdir != there:
        os.rename(usr / libdir, usr / "libraries")
        (usr / "lib").mkdir(exist_ok=True)
        os.rename(usr / "libraries", usr / there)
    replace(usr / there / "pkgconfig/rill.pc", f"libdir=${{prefix}}/{libdir}\n", f"libdir=${{prefix}}/{there}\n")
    replace(usr / there / "pkgconfig/rill.pc", "prefix=${pcfiledir}/../..\n", "prefix=/usr\n")
    replace(usr / there / "cmake/rill/rillConfig.cmake", f'set(_rill_libdir "{libdir}")', f'set(_rill_libdir "{there}")')
    scripts = usr / f"share/gdb/auto-load/usr/{there}"
    scripts.mkdir(parents=True)
    for script in (usr / there).glob("*-gdb.py"):
        shutil.move(script, scripts)


def sort_files(usr, chosen, tree):
    """Moves each file into the tree of the package that takes it; one that none takes is a fault of packages()."""
    for file in sorted(path for path in usr.rglob("*") if path.is_symlink() or not path.is_dir()):
        name = str(file.relative_to(usr))
        takers = [package for package, (pattern, *_) in chosen.items() if re.fullmatch(pattern, name)]
        if len(takers) != 1:
            sys.exit(f"{name} belongs into {' and '.join(takers) or 'no package'}: see packages() in {__file__}")
        target = tree / takers[0] / "usr" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(file, target)


def programs(package):
    """The files of a package that a loader reads."""
    for file in sorted(package.rglob("*")):
        if file.is_file() and not file.is_symlink():
            with open(file, "rb") as start:
                if start.read(4) == b"\x7fELF":
                    yield file


def shared_libraries(tree, package, names):
    """The packages that this one's programs need, as a control file lists them, and those that only programs of several
    processes do; what is in ours itself is left out."""
    found = list(programs(package))
    if not found:
        return "", ""
    (tree / "debian").mkdir(exist_ok=True)
    (tree / "debian/control").write_text("Source: rill\n\nPackage: rill\nArchitecture: any\n")
    libraries = tree / names.library / "usr/lib" / names.triplet
    text = say("dpkg-shlibdeps", "-O", f"-x{names.library}", f"-S{tree / names.library}", f"-l{libraries}",
               f"-l{libraries}/rill-{names.upstream}", "--ignore-missing-info", "--warnings=0",
               *[word for file in found for word in ("-dRecommends" if is_for_many(file) else "-dDepends", "-e", file)],
               cwd=tree)
    fields = dict(line.split("=", 1) for line in text.split("\n"))
    many = fields.get("shlibs:Recommends", "")
    launcher = ", mpich" if "libmpich" in many else ", openmpi-bin"  # mpirun
    return fields.get("shlibs:Depends", ""), many and f"Recommends: {many}{launcher}\n"


def is_for_many(file):
    """Whether librill opens it in jobs of several processes alone."""
    return file.name == "librill_mpi.so"


def last_commit(what):
    """"" in a source distribution."""
    return say("git", "-C", ROOT, "log", "-1", f"--format={what}") if (ROOT / ".git").exists() else ""


def maintainer():
    """Who makes the packages, by the variables of Debian's tools, else by git."""
    name, address = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    known = f"{name} <{address}>" if name and address else last_commit("%cn <%ce>")
    return known or sys.exit("a package names who made it: set DEBFULLNAME and DEBEMAIL")


def made():
    """When this version was made, in seconds: packages of the same source have the same bytes."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or last_commit("%ct") or (ROOT / "meson.build").stat().st_mtime)


def copyright_text(bundles_onednn):
    text = "rill is licensed under the Apache License 2.0, in /usr/share/common-licenses/Apache-2.0.\n"
    if bundles_onednn:
        text += ("\nlibdnnl.so.3 is oneDNN, of Intel Corporation and others, under the same licence. It is here because\n"
                 "Debian's is older than rill needs. What it contains of others: THIRD-PARTY-PROGRAMS.oneDNN.gz.\n")
    for pattern in BUILT_IN:
        for file in sorted(pathlib.Path("/usr/share/doc").glob(f"{pattern}/copyright")):
            text += f"\n{'=' * 78}\nParts of {file.parent.name} are compiled in. Its copyright file:\n\n{file.read_text()}"
    return text


def write_documents(package, names, onednn):
    folder = package / "usr/share/doc" / package.name
    folder.mkdir(parents=True)
    bundled = list(package.rglob("libdnnl.so*"))
    (folder / "copyright").write_text(copyright_text(bundled))
    if bundled:
        with gzip.GzipFile(folder / "THIRD-PARTY-PROGRAMS.oneDNN.gz", "wb", mtime=0) as out:
            out.write((onednn / "share/doc/onednn/THIRD-PARTY-PROGRAMS").read_bytes())
    with gzip.GzipFile(folder / "changelog.gz", "wb", mtime=0) as out:
        out.write((ROOT / "CHANGELOG.md").read_bytes())
    entry = (f"rill ({names.version}) unstable; urgency=medium\n\n  * Version {names.upstream}: see changelog.gz.\n\n"
             f" -- {maintainer()}  {email.utils.formatdate(made())}\n")
    with gzip.GzipFile(folder / "changelog.Debian.gz", "wb", mtime=0) as out:
        out.write(entry.encode())


def write_control(tree, package, names, lines, what, about):
    control = package / "DEBIAN"
    control.mkdir()
    size = sum(f.lstat().st_size for f in package.rglob("*") if not f.is_dir()) // 1024
    if package.name == names.library:
        libraries = sorted({f.name.split(".so")[0] for f in (package / "usr/lib" / names.triplet).glob("*.so.*")})
        (control / "shlibs").write_text("".join(
            f"{name} {names.so} {names.library} (>= {names.upstream})\n" for name in libraries))
        (control / "triggers").write_text("activate-noawait ldconfig\n")
    needed, recommended = shared_libraries(tree, package, names)
    lines = lines.format(shlibs=needed) + recommended
    (control / "control").write_text(
        f"Package: {package.name}\nSource: rill\nVersion: {names.version}\nArchitecture: {names.architecture}\n"
        f"Maintainer: {maintainer()}\nInstalled-Size: {size}\nPriority: optional\n{lines}"
        f"Description: {SUMMARY} ({what})\n{LONG}\n{about}\n")
    files = sorted(f for f in package.rglob("*") if f.is_file() and not f.is_symlink() and control not in f.parents)
    (control / "md5sums").write_text("".join(
        f"{hashlib.md5(f.read_bytes()).hexdigest()}  {f.relative_to(package)}\n" for f in files))


def main(build, out):
    if not shutil.which("dpkg-shlibdeps"):
        sys.exit("Debian packages need Debian's tools: apt-get install dpkg-dev")
    onednn = json.loads(say("meson", "introspect", "--buildoptions", build))
    onednn = pathlib.Path(next(o["value"] for o in onednn if o["name"] == "onednn_root") or ROOT / ".deps/onednn")
    os.umask(0o022)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        usr, libdir = install(build, tree)
        if not (usr / libdir / "librill.so").exists():
            sys.exit("packages are made of shared libraries, and this build is of static ones")
        names = Names(build, usr / libdir)
        as_debian_wants(usr, libdir, names)
        chosen = packages(names)
        sort_files(usr, chosen, tree)
        os.environ["SOURCE_DATE_EPOCH"] = str(made())  # dpkg-deb reads it
        for name, (_, lines, what, about) in chosen.items():
            package = tree / name
            if not package.exists():
                print(f"{name}: the build has none of it")
                continue
            for file in programs(package):
                say("strip", "--strip-unneeded", "--remove-section=.comment", file)
                file.chmod(0o755 if "bin" in file.parts else 0o644)
            write_documents(package, names, onednn)
            write_control(tree, package, names, lines, what, about)
            print(say("dpkg-deb", "--root-owner-group", "--build", package, out).split("'")[-2])


if __name__ == "__main__":
    try:
        main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]} failed with exit status {error.returncode}")
