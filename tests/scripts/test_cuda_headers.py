"""What rill declares of CUDA, cuBLASLt and cuDNN (devices/cuda/driver) agrees with NVIDIA's headers, where those are.

They are looked for in CUDA_HOME, /usr/local/cuda and what ./dev cuda --cudnn has fetched.
"""
import os
import pathlib
import subprocess
import sys

root = pathlib.Path(os.environ.get("RILL_SOURCE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
wanted = ["cuda.h", "nvrtc.h", "cublasLt.h", "cudnn_graph.h"]


def folders():
    """Where headers may be."""
    yield pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    yield from sorted((root / ".deps").glob("cud*/lib/python3*/site-packages/nvidia/*/include"))
    yield pathlib.Path("/usr/include")


def compiles(text, found):
    """Whether nvidia_headers.h agrees, with `text` in front of it; and what the compiler says."""
    line = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-w", "-x", "c++", "-I", root / "include"]
    for folder in found:
        line += ["-I", folder]
    source = text + (root / "tests/cuda/nvidia_headers.h").read_text()
    done = subprocess.run([*line, "-"], input=source, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def main():
    all_folders = list(folders())
    found = [next((f for f in all_folders if (f / name).exists()), None) for name in wanted]
    missing = [name for name, folder in zip(wanted, found) if folder is None]
    if missing:
        print(f"skipped: NVIDIA's headers are not here: {', '.join(missing)}")
        sys.exit(77)
    agrees, errors = compiles("", found)
    if not agrees:
        print(errors)
        sys.exit("a declaration differs from NVIDIA's header")
    # It can fail: where a number of ours is another, and where a function has another parameter.
    front = '#include "rill/devices/cuda/driver/api.h"\n'
    for wrong in ["#define CUDA_ERROR_OUT_OF_MEMORY 3\n", "#define CU_STREAM_NON_BLOCKING 2\n"]:
        agrees, _ = compiles("#include <cuda.h>\n" + front + wrong, found)
        if agrees:
            sys.exit(f"it compiles although {wrong.strip()!r} is wrong")


main()
