"""The examples of training: a few steps of each, of which a number comes out beside what to compare it with."""
import os
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(os.environ["RILL_BUILD_ROOT"]) / "examples/training"
NUMBERS = {"autoencoder": 1, "diffusion": 1, "digits": 1, "dqn": 1, "forecast": 1, "gan": 2, "languages": 2, "tables": 4, "unet": 1}
if not FOLDER.exists():
    print("skipped: the examples of training are not built: they need librill_io")
    sys.exit(77)

sources = {p.stem for p in (pathlib.Path(os.environ["RILL_SOURCE_ROOT"]) / "examples/training").glob("*.cpp")}
assert sources == set(NUMBERS), sources ^ set(NUMBERS)
for name, numbers in NUMBERS.items():
    done = subprocess.run([FOLDER / name, "--quick"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, (name, done.stderr)
    found = re.findall(r"^.{34} +(-?\d+\.\d{4})   ", done.stdout, re.M)
    assert len(found) == numbers, (name, done.stdout)
# A digit that is drawn, a picture, a guess: what the examples show besides.
assert "@" in subprocess.run([FOLDER / "autoencoder", "--quick"], capture_output=True, text=True).stdout
print(f"All tests passed (of the examples of training, in {len(NUMBERS)} test cases)")
