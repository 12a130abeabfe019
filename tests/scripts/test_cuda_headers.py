"""What rill declares of CUDA, cuBLASLt, cuDNN and NCCL (devices/cuda/driver) agrees with NVIDIA's headers, where those are.

Without them, that each name of ours which is compared is declared at all.
They are looked for in CUDA_HOME, /usr/local/cuda and what ./dev cuda --cudnn has fetched; NCCL's in NCCL_HOME as well.
"""
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(os.environ.get("RILL_SOURCE_ROOT", pathlib.Path(__file__).resolve().parents[2]))


def folders():
    """Where headers may be."""
    if home := os.environ.get("NCCL_HOME"):
        yield pathlib.Path(home) / "include"
    yield pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    yield from sorted((root / ".deps").glob("cud*/lib/python3*/site-packages/nvidia/*/include"))
    yield pathlib.Path("/usr/include")


def syntax(source, folders):
    """What the compiler says of a source, with further folders of headers."""
    line = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-w", "-x", "c++", "-I", root / "include",
            "-I", root / "tests/cuda"]
    for folder in folders:
        line += ["-I", folder]
    return subprocess.run([*line, "-"], input=source, capture_output=True, text=True)


def compiles(text, found, header):
    """Whether a header of tests/cuda agrees, with `text` in front of it; and what the compiler says."""
    done = syntax(text + (root / "tests/cuda" / header).read_text(), found)
    return done.returncode == 0, done.stderr


def check_names(header):
    """Whether what a header of tests/cuda compares of ours is declared. NVIDIA's headers are not asked for."""
    alone = ("#undef SAME\n#undef SAME_PLACE\n#define SAME(ours, theirs) static_assert(sizeof(ours) != 0);\n"
             "#define SAME_PLACE(Ours, ours, Theirs, theirs) SAME(offsetof(Ours, ours), 0)\n")
    text = (root / "tests/cuda" / header).read_text()
    includes = re.findall(r'^#include ".*$', text, re.M)
    compared = [line for line in re.findall(r"^(?:SAME|namespace|\}).*$", text, re.M) if "theirs." not in line]
    compared = [re.sub(r"SAME\(sizeof\((\w+)\), .*", r"SAME(\1(), 0)", line) for line in compared]
    compared = [re.sub(r"SAME_OPERANDS\((.*?),.*", r"SAME(\1, 0)", line) for line in compared]
    if len(compared) < 20:
        sys.exit(f"{header}: {len(compared)} names are compared, where there must be dozens")
    done = syntax(chr(10).join(includes) + "\n" + alone + chr(10).join(compared), [])
    if done.returncode != 0:
        print(done.stderr)
        sys.exit(f"{header}: it compares what is not declared")


def check(header, wanted, wrong):
    """Whether all of it could be compared. `wrong`: includes, and definitions of which each makes it differ."""
    all_folders = list(folders())
    found = [next((f for f in all_folders if (f / name).exists()), None) for name in wanted]
    missing = [name for name, folder in zip(wanted, found) if folder is None]
    if missing:
        print(f"{header}: NVIDIA's headers are not here: {', '.join(missing)}")
        return False
    agrees, errors = compiles("", found, header)
    if not agrees:
        print(errors)
        sys.exit(f"{header}: a declaration differs from NVIDIA's header")
    front, definitions = wrong
    for definition in definitions:
        agrees, _ = compiles(front + definition, found, header)
        if agrees:
            sys.exit(f"{header}: it compiles although {definition.strip()!r} is wrong")
    return True


for each in ("nvidia_headers.h", "nccl_headers.h"):
    check_names(each)
ours = '#include "rill/devices/cuda/driver/{}.h"\n'
compared = [
    check("nvidia_headers.h", ["cuda.h", "nvrtc.h", "cublasLt.h", "cudnn_graph.h"],
          ("#include <cuda.h>\n" + ours.format("api"),
           ["#define CUDA_ERROR_OUT_OF_MEMORY 3\n", "#define CU_STREAM_NON_BLOCKING 2\n"])),
    check("nccl_headers.h", ["nccl.h", "cuda_runtime.h"],
          ("#include <nccl.h>\n" + ours.format("nccl"), ["#define ncclBfloat16 8\n", "#define ncclSend ncclReduce\n"])),
]
if not any(compared):
    print("skipped: there are none of NVIDIA's headers")
    sys.exit(77)
