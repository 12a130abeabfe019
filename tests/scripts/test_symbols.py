"""What the shared libraries show: the public API and what librill_ops, librill_llvm, librill_io and the tests need; nothing of the
kernels, of the kernel compilers or of other libraries. A header that shows what it declares says so (ARCHITECTURE.md).
"""
import os
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(os.environ["RILL_BUILD_ROOT"])
# Kernels for an instruction set, CPU and reference kernels, and what other libraries' headers instantiate.
HIDDEN = re.compile(r"\brill::N_[A-Z0-9_]+::|\brill::(cpu|ref|scalar_math)::|^(?:[\w:]+ )?(fmt|hwy|dnnl|google|nlohmann)::")
SHOWN = {f"rill::cpu::{name}" for name in (
    "record_of",  # for the tests
    "blend_axis", "scale_bytes", "end_of_scaling", "blend_bytes_below", "mirror_pixels", "PixelTaps::PixelTaps", "PixelTaps::blend",
    "scan_rows", "find_marks",  # for the pictures and the CSV files of librill_data
    "run_elementwise", "ScalarLoops::offer", "transposes", "gemm_blocked", "gemm_dots",  # for librill_ops
)} | {"rill::ref::for_each_element", "rill::ref::load_wide", "rill::ref::store_wide"}

faults = []
for library in ("librill.so", "librill_ops.so", "librill_nn.so", "librill_data.so", "librill_io.so", "librill_models.so", "librill_train.so", "librill_distribute.so"):
    if not (BUILD / library).exists():
        if library == "librill.so":
            print("skipped: a static build shows no symbols")
            sys.exit(77)
        continue
    names = subprocess.run(["nm", "-D", "-C", "--defined-only", BUILD / library], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.splitlines()
    names = [line.split(" ", 2)[2] for line in names]
    print(f"{library} shows {len(names)} symbols")
    if not any(name.startswith("rill::") for name in names):
        faults.append(f"{library} shows none of rill's symbols")
    for name in names:
        plain = name.split("(")[0]  # of a template with the type of its result in front, and its arguments
        if HIDDEN.search(plain) and not SHOWN.intersection(re.findall(r"rill::(?:cpu|ref)::[\w:]+", plain)[-1:]):
            faults.append(f"{library} shows {name}")
    # Variables of threads are in the static block (-ftls-model=initial-exec), of which glibc keeps about 1,600 bytes for all
    # libraries that are opened late, as a Python extension opens these.
    segments = subprocess.run(["readelf", "-lW", BUILD / library], stdout=subprocess.PIPE, text=True, check=True).stdout
    of_threads = [int(line.split()[5], 16) for line in segments.splitlines() if line.split()[:1] == ["TLS"]]
    if sum(of_threads) > 1152:
        faults.append(f"{library} has {sum(of_threads)} bytes of thread-local variables, and 1152 are its share")
    dynamic = subprocess.run(["readelf", "-d", BUILD / library], stdout=subprocess.PIPE, text=True, check=True).stdout
    soname = re.search(r"SONAME.*\[(.*)\]", dynamic).group(1)
    version = (pathlib.Path(__file__).resolve().parents[2] / "meson.build").read_text().split("version: '")[1].split("'")[0]
    major, minor, _ = version.split(".")
    if soname != f"{library}.{major}" + (f".{minor}" if major == "0" else ""):
        faults.append(f"{library}: the SONAME {soname} does not say which programs version {version} can run")
print("\n".join(faults[:40]))
sys.exit(1 if faults else 0)
