"""rill and torch in one process: tensors over the same memory by DLPack, bfloat16 among them. Runs in the environment
.deps/oracle, which ./dev oracle makes.
"""
import gc
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = f"{ROOT}/.deps/oracle/bin/python"
if os.path.exists(PYTHON) and sys.prefix != os.path.dirname(os.path.dirname(PYTHON)):
    os.execv(PYTHON, [PYTHON, *sys.argv])
from bridge import Bridge, Checks, error_of

# Before torch, whose thread-local variables leave no room for those that rill and libstdc++ want to reach directly.
rill = Bridge(os.path.abspath(os.environ.get("RILL_BUILD_ROOT", "build")))
try:
    import torch
except ImportError as missing:
    print(f"{missing}: ./dev oracle makes .deps/oracle")
    sys.exit(77)

check = Checks()
DTYPES = [torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64, torch.complex128]
LAYOUTS = [lambda a: a, lambda a: a.T, lambda a: a[::2, 1:], lambda a: a[1], lambda a: a[0].expand(3, 6),
           lambda a: a[0, 0], lambda a: a[:0]]
for dtype in DTYPES:
    for layout in LAYOUTS:
        a = layout((torch.randn(4, 6) * 50).to(dtype))
        for versioned in (True, False):
            t = rill.take(a, versioned)
            back = torch.from_dlpack(t)
            check(back.dtype == dtype and back.shape == a.shape and torch.equal(back, a), (dtype, a))
            for give in (True, False):
                old = torch.from_dlpack(t.capsule(versioned=give))
                check(torch.equal(old, a), (dtype, versioned, give))
            if dtype != torch.bool:
                check(torch.equal(torch.from_dlpack(t.call("bridge_twice")), a + a), (dtype, a))

# Where the structure cannot say that memory is read-only, torch gets a copy, which it may write to.
a = torch.ones(3)
t = rill.take(a)
torch.from_dlpack(t.capsule(versioned=False)).add_(1)
check(torch.equal(a, torch.ones(3)), "torch wrote into what rill reads")
shared = torch.from_dlpack(t.capsule(versioned=False, copy=0))
check(shared.data_ptr() == a.data_ptr(), "copied though copy is false")

# The elements outlive either side.
a = torch.arange(1000.)
t = rill.take(a[::3])
expected = a[::3].clone()
del a
gc.collect()
back = torch.from_dlpack(t)
check(torch.equal(back, expected), "torch's memory went while rill reads it")
del t
gc.collect()
check(torch.equal(back, expected), "rill's view went while torch reads it")

if hasattr(torch, "float8_e4m3fnuz"):
    said = error_of(lambda: rill.take(torch.ones(2).to(torch.float8_e4m3fnuz)))
    check("rill has no dtype" in said, said)
# docs/functions.md names torch's functions by their names.
judged = subprocess.run([sys.executable, f"{ROOT}/docs/print_functions.py", "--judge"], text=True, stdout=subprocess.PIPE)
check(judged.returncode == 0, judged.stdout)
print(f"torch {torch.__version__}: {check.count} checks")
