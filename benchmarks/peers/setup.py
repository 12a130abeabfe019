"""Installs the libraries we compare with into .deps/peers, an environment of their own, and builds what is C++.

The PyPI wheel of torch for Linux is built with CUDA and links against it even on a machine without a GPU. Its own CUDA
packages are 3 GB; so we first give it only the pieces that a machine with a CUDA toolkit lacks, and fetch the rest where
that is not enough.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = Path(os.environ.get("RILL_PEERS", ROOT / ".deps" / "peers"))
PYTHON = VENV / "bin" / "python"

PLAIN = ["jax", "tensorflow-cpu==2.21.0", "mlx[cpu]", "grain", "pandas", "pyarrow", "polars"]
TORCH_NEEDS = ["setuptools>=77.0.3", "typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock"]
TORCH_CUDA = ["nvidia-cufile", "nvidia-cusparselt-cu13", "nvidia-nvshmem-cu13", "nvidia-nccl-cu13"]
LIGHTNING = ["lightning", "lightning-utilities", "torchmetrics", "tqdm", "pyyaml"]  # without what they need of torch
LIBTORCH = VENV / "rill-libtorch"


def pip(*args):
    subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", *args], check=True)


def works(*modules):
    code = "import os; os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'\n" + "".join(f"import {m}\n" for m in modules)
    return subprocess.run([PYTHON, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def package(name):
    return next((VENV / "lib").glob(f"python3*/site-packages/{name}"))


def libtorch_flags():
    """Compile flags and link flags of a C++ program that uses the wheel's libtorch."""
    torch = package("torch")
    compile_flags = ["-std=c++20", "-O2", "-w", f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
    link = [f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib", "-Wl,--no-as-needed", "-ltorch_cpu", "-ltorch", "-lc10"]
    return compile_flags, link


def ensure():
    """Everything installed and built, or an exception. Quick, and without network, once it has been done."""
    done = VENV / "rill-ready"
    if not done.exists():
        print("installing torch, JAX and TensorFlow into", VENV, "(several GB, once)", file=sys.stderr)
        if not PYTHON.exists():
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        pip(*PLAIN, *TORCH_NEEDS)
        pip("--no-deps", "torch", *TORCH_CUDA)
        if not works("torch"):
            pip("torch")
        if not works("torch", "jax", "tensorflow"):
            raise RuntimeError(f"the libraries in {VENV} do not import; remove that folder and try again")
        done.touch()
    lightning = VENV / "rill-lightning"  # only the rows fit_* need it: they are skipped without it
    if not lightning.exists():
        try:
            pip("--no-deps", *LIGHTNING)
        except subprocess.CalledProcessError:
            print("Lightning could not be installed: the rows fit_* do without it", file=sys.stderr)
        lightning.touch()
    source = HERE / "libtorch.cpp"
    text = source.read_bytes() + (HERE.parent / "answer.h").read_bytes()
    made_from = VENV / "rill-libtorch.sha256"  # git touches files that it does not change, so times say nothing
    digest = hashlib.sha256(text).hexdigest()
    if not LIBTORCH.exists() or not made_from.exists() or made_from.read_text() != digest:
        print("compiling peers/libtorch.cpp (half a minute)", file=sys.stderr)
        flags, link = libtorch_flags()
        subprocess.run([os.environ.get("CXX", "c++"), *flags, source, "-o", LIBTORCH, *link], check=True)
        made_from.write_text(digest)


if __name__ == "__main__":
    ensure()
