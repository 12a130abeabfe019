"""The examples on gpu:0, this machine's or the simulated one: the digits demo, traced and eager, learns what it learns on
cpu:0; least_squares ends at the certified numbers."""
import gzip
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["RILL_SOURCE_ROOT"])
PROGRAM = pathlib.Path(os.environ["RILL_BUILD_ROOT"]) / "examples/mnist"
DIGITS = 96
if not PROGRAM.exists():
    print("skipped: examples/mnist is not built")
    sys.exit(77)


def small_set(folder):
    """The first digits, in the middle 20 x 20 of their 28 x 28 pixels."""
    for path in (SOURCE / "examples/data").glob("*.gz"):
        data = gzip.decompress(path.read_bytes())
        if "images" in path.name:
            rows = [data[16 + 784 * i + 28 * r + 4:][:20] for i in range(DIGITS) for r in range(4, 24)]
            small = data[:4] + struct.pack(">III", DIGITS, 20, 20) + b"".join(rows)
        else:
            small = data[:4] + struct.pack(">I", DIGITS) + data[8:8 + DIGITS]
        (folder / path.name).write_bytes(gzip.compress(small))


def losses(folder, *arguments):
    done = subprocess.run([PROGRAM, "--data", folder, "--logdir", "", "--epochs", "2", "--batch", "32", *arguments],
                          capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    found = [float(x) for x in re.findall(r"loss[: ]+([0-9.]+)", done.stdout)]
    assert len(found) >= 2, done.stdout
    return found


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    small_set(folder)
    want = losses(folder, "--device", "cpu:0")
    for how in [[], ["--eager"]]:
        got = losses(folder, "--device", "gpu:0", *how)
        print(how, want, got)
        assert len(got) == len(want) and all(abs(a - b) <= 0.02 * abs(b) for a, b in zip(got, want)), (got, want)

fits = subprocess.run([PROGRAM.parent / "least_squares"], capture_output=True, text=True, timeout=800)
assert fits.returncode == 0, fits.stderr
pairs = re.findall(r"(\S+)  certified (\S+)", fits.stdout)
assert len(pairs) >= 20, fits.stdout
assert all(abs(float(a) - float(b)) <= 1e-6 * abs(float(b)) for a, b in pairs), fits.stdout
