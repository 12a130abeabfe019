#!/usr/bin/env python3
"""Packs what `./dev gpu-check` carries to a machine with a GPU that has nothing but a driver and Python 3.

usage: pack.py BUILD NVRTC [--seconds N]     makes BUILD/gpu-check.tar.xz, and says what is in it
       pack.py --targets                     what Ninja has to build before

BUILD is a build folder; NVRTC a folder with libnvrtc.so.12 somewhere below, which serves drivers of CUDA 12 and 13. The
pack is laid out like the build folder, so that programs find our libraries as they do there, and holds besides:
lib/, the shared libraries that Ubuntu may lack; nvrtc/; kernels/, those that tests have started on the simulated GPU
(BUILD/tests/cuda/texts), compiled for sm_90 as far as N seconds go (600; what was compiled once is kept); run.py and
its helpers; pack.json, which says what is needed and which cases there are. It must stay below 64 MB.
"""
import argparse
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MOST_BYTES = 64_000_000
GPU_TESTS = sorted(p.stem for p in ROOT.glob("tests/gpu/test_gpu*.cpp"))
PROGRAMS = [f"tests/{name}" for name in GPU_TESTS] + [
    "tests/test_ops", "tests/test_random_programs", "tests/fuzz_api", "tests/oracle", "tests/gpu_probe",
    "examples/mnist", "examples/least_squares"]
SIMULATED = [f"tests/cuda/{name}" for name in (
    "libcuda.so.1", "libhost_cuda.so", "host_cuda.h.gch", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libcublasLt.so.13",
    "libcudnn.so.9")]  # for rehearsals; they stay here
MODULES = ["librill_cuda.so", "librill_lapack.so", "librill_onednn.so"]  # of what librill opens; without the compiler CPUs run op by op
# Of the C library, whose parts go together: the machine's own.
OF_THE_SYSTEM = re.compile(r"^(ld-linux|libc\.|libm\.|libdl\.|libpthread\.|librt\.|linux-vdso)")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def strip(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    run("strip", "--strip-unneeded", "-o", target, source)


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def without_packed_relocations(build, name, draft):
    """A library of ours; linked anew where its relocations are packed, for glibc reads them from 2.36 on only: Ubuntu
    22.04 has 2.35."""
    packed, line = "-Wl,-z,pack-relative-relocs", run("ninja", "-C", build, "-t", "commands", name).splitlines()[-1]
    if packed not in line:
        return build / name
    subprocess.run(line.replace(packed, "").replace(f"-o {name} ", f"-o {draft} ", 1), shell=True, check=True, cwd=build)
    return draft


def libraries_of(files):
    """What the loader opens for these files, beyond our own libraries: {name: path}."""
    found = {}
    for file in files:
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", file), re.M):
            if not OF_THE_SYSTEM.match(name) and not name.startswith("librill"):
                found[name] = path
    return found


def glibc_needed(file):
    """The newest version of the C library whose symbols a file needs."""
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-VW", file))
    return max(((int(a), int(b)) for a, b in versions), default=(0, 0))


def cases_of(program):
    """The names of a Catch2 program's cases, hidden ones left out."""
    listed = subprocess.run([program, "--list-test-names-only"], text=True, stdout=subprocess.PIPE).stdout.splitlines()
    if not any(listed):  # Catch2 3
        listed = run(program, "--list-tests", "--verbosity", "quiet").splitlines()
    source = next(ROOT.glob(f"tests/*/{pathlib.Path(program).name}.cpp")).read_text()
    hidden = set(re.findall(r'TEST_CASE\("([^"]*)", "\[\.', source))
    return [name for name in map(str.strip, listed) if name and name not in hidden]


def compile_kernels(build, nvrtc, seconds):
    """Compiles what the simulated GPU has started; gives the folder of the cache, and what was said."""
    cache, texts = build / "gpu-check-kernels", build / "tests/cuda/texts"
    environment = {**os.environ, "RILL_CACHE_DIR": str(cache), "RILL_NVRTC": str(nvrtc)}
    done = subprocess.run([build / "tests/gpu_compile_kernels", "90", str(seconds), texts], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="", flush=True)
    return cache, done.stdout.strip().splitlines()[-1:]


def newest(files, most_bytes):
    chosen, total = [], 0
    for file in sorted(files, key=lambda f: -f.stat().st_mtime):
        total += file.stat().st_size
        if total <= most_bytes:
            chosen.append(file)
    return chosen


def fill(folder, build, nvrtc, seconds):
    for program in PROGRAMS:
        if not (build / program).exists():
            print(f"left out: {program} is not built")
            continue
        strip(build / program, folder / program)
    for library in sorted(build.glob("librill*.so.*.*.*")):
        if library.suffix == ".py" or library.is_dir():
            continue
        soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library)).group(1)
        draft = folder / "linked.so"
        strip(without_packed_relocations(build, library.name, draft), folder / soname)
        draft.unlink(missing_ok=True)
    for module in MODULES:
        strip(build / module, folder / module)
    ours = [f for f in folder.rglob("*") if f.is_file()]
    bundled = libraries_of([build / f.relative_to(folder) for f in ours])
    for name, path in bundled.items():
        # The C++ library of the machine is at hand, and may be newer than ours.
        copy(path, folder / ("fallback" if name.startswith("libstdc++") else "lib") / name)
    for library in nvrtc.parent.glob("libnvrtc*.so.*"):
        if ".alt." not in library.name:
            copy(library, folder / "nvrtc" / library.name)
    cache, said = compile_kernels(build, nvrtc, seconds)
    (folder / "kernels").mkdir()
    for kernel in newest(cache.glob("*.kernel"), 240 << 20):  # rill's cache keeps 256 MiB
        shutil.copy2(kernel, folder / "kernels")
    for file in [*HERE.glob("*.py"), ROOT / "tests/oracle/cases.gz", *ROOT.glob("examples/data/*.gz")]:
        (folder / "data").mkdir(exist_ok=True)
        shutil.copy2(file, folder if file.suffix == ".py" else folder / "data")
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], text=True, stdout=subprocess.PIPE)
    checked = [*ours, *(folder / "lib").glob("*")]
    needs = max(glibc_needed(f) for f in checked)
    about = {
        "commit": commit.stdout.strip(),
        "glibc": ".".join(map(str, needs)),
        "glibc_needed_by": sorted(f.name for f in checked if glibc_needed(f) == needs),
        "bundled": {name: (folder / "lib" / name).stat().st_size for name in bundled if (folder / "lib" / name).exists()},
        "kernels": said,
        "cases": {name: cases_of(build / "tests" / name) for name in GPU_TESTS if (build / "tests" / name).exists()},
    }
    (folder / "pack.json").write_text(json.dumps(about, indent=1))
    return about


def compress(folder, target):
    filters = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 9}]
    draft = target.with_suffix(".draft")
    with lzma.open(draft, "wb", filters=filters) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        for part in sorted(folder.iterdir()):
            tar.add(part, arcname=part.name)
    draft.rename(target)


def table(folder, about):
    print(f"\n{'what':<24}{'files':>8}{'MB':>8}")
    groups = {}
    for file in folder.rglob("*"):
        if file.is_file():
            place = file.relative_to(folder)
            groups.setdefault(place.parts[0] if len(place.parts) > 1 else "our libraries", []).append(file.stat().st_size)
    for name, sizes in sorted(groups.items()):
        print(f"{name:<24}{len(sizes):>8}{sum(sizes) / 1e6:>8.1f}")
    print(f"\nlib/ has: {', '.join(f'{name} ({size / 1e6:.1f})' for name, size in sorted(about['bundled'].items()))}")
    print(f"glibc {about['glibc']} or newer is needed, by {', '.join(about['glibc_needed_by'][:8])}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("nvrtc", nargs="?", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--targets", action="store_true")
    given = parser.parse_args()
    if given.targets:
        print("\n".join([*PROGRAMS, *MODULES, "tests/gpu_compile_kernels", *SIMULATED]))
        return 0
    build = given.build.resolve()
    nvrtc = next(given.nvrtc.resolve().rglob("libnvrtc.so.12"))
    folder, target = build / "gpu-check-pack", build / "gpu-check.tar.xz"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    about = fill(folder, build, nvrtc, given.seconds)
    table(folder, about)
    compress(folder, target)
    shutil.rmtree(folder)
    size = target.stat().st_size
    print(f"\n{target}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        print(f"that is more than {MOST_BYTES / 1e6:.0f} MB")
    return size > MOST_BYTES


if __name__ == "__main__":
    sys.exit(main())
