"""examples/mnist: what it prints for --help, and that bad data and bad options end in a message and exit status 1."""
import gzip
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(os.environ["RILL_SOURCE_ROOT"])
PROGRAM = pathlib.Path(os.environ["RILL_BUILD_ROOT"]) / "examples/mnist"
DIGITS = SOURCE / "examples/data"
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FILES = [
    "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
if not PROGRAM.exists():
    print("skipped: examples/mnist is not built")
    sys.exit(77)


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=250)
    return done.returncode, done.stdout, done.stderr


def idx(magic, *sizes, content=b""):
    return struct.pack(f">{1 + len(sizes)}I", magic, *sizes) + content


def small_set(folder, digits=40):
    """The first digits of each file, as files of their own."""
    for name in FILES:
        data = gzip.decompress((DIGITS / name).read_bytes())
        header, element = (16, 784) if "images" in name else (8, 1)
        (folder / name).write_bytes(gzip.compress(data[:4] + struct.pack(">I", digits) + data[8:header + digits * element]))


def rejects(change, *expected):
    """`change` spoils a folder of good files: the program must fail, naming what is expected."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        small_set(folder)
        change(folder)
        status, _, errors = run("--data", folder, "--logdir", "")
        assert status == 1, (status, errors)
        for text in expected:
            assert text in errors, (text, errors)
        assert errors.count("\n") <= 2, errors


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def truncate(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-20])


rejects(lambda folder: (folder / TEST_LABELS).unlink(), "t10k-labels-idx1-ubyte", "no such file")
rejects(lambda folder: shutil.rmtree(folder), "train-images-idx3-ubyte")
rejects(truncate(TRAIN_IMAGES), TRAIN_IMAGES, "truncated")
rejects(write(TRAIN_IMAGES, b"\x1f\x8b" + b"nonsense" * 10), TRAIN_IMAGES, "corrupt")
rejects(write(TRAIN_IMAGES, b""), TRAIN_IMAGES, "truncated")
rejects(write(TRAIN_LABELS, idx(0x803, 40, 28, 28, content=bytes(40 * 784))), TRAIN_LABELS, "0x00000803", "expected 0x00000801")
rejects(write(TEST_IMAGES, idx(0x803, 40, 28, 28, content=bytes(40 * 784 - 1))), TEST_IMAGES, "31359 bytes", "31360")
rejects(write(TEST_LABELS, idx(0x801, 40, content=bytes([3] * 39 + [10]))), TEST_LABELS, "label 39 is 10", "0 to 9")
rejects(write(TRAIN_LABELS, idx(0x801, 41, content=bytes(41))), TRAIN_LABELS, "41 labels", "40")
rejects(write(TEST_IMAGES, idx(0x803, 40, 20, 20, content=bytes(40 * 400))), TEST_IMAGES, "[40,20,20]")

status, output, errors = run("--help")
assert status == 0, errors
for option in ["--data", "--eager", "--epochs", "--batch", "--lr", "--seed", "--logdir", "--threads", "--checkpoint"]:
    assert option in output, (option, output)
for wrong in [["--epochs", "many"], ["--batch", "0"], ["--lr", "-1"], ["--nonsense"]]:
    status, _, errors = run(*wrong)
    assert status == 1 and wrong[0] in errors, (wrong, status, errors)

# Traced and eager training print the same numbers, and the event file is where it was asked for.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    small_set(folder)
    texts = []
    for mode in [[], ["--eager"]]:
        logs = folder / ("logs" + str(len(texts)))
        status, output, errors = run("--data", folder, "--epochs", "2", "--batch", "16", "--logdir", logs, *mode)
        assert status == 0, errors
        assert "confusion matrix" in output and "epoch 2/2" in output, output
        for part in ("train", "validation"):
            assert any(".tfevents." in p.name for p in (logs / part).iterdir()), list(logs.rglob("*"))
        texts.append([line.split(" %  ")[0:2] for line in output.splitlines() if line.startswith("epoch")])
    assert texts[0] == texts[1], texts
# The exported model tells the test digits as the program does.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    small_set(folder)
    status, output, errors = run("--data", folder, "--epochs", "2", "--batch", "16", "--logdir", "",
                                 "--checkpoint", folder / "checkpoint")
    assert status == 0, (output, errors)
    export = PROGRAM.parent / "export_digits"
    done = subprocess.run([export, folder / "checkpoint", folder / "digits.onnx"], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0 and "the model: " in done.stdout, done
    done = subprocess.run([export, folder / "nowhere", folder / "digits.onnx"], capture_output=True, text=True, timeout=250)
    assert done.returncode == 1 and "nowhere" in done.stderr, done
    share = float(re.search(r"test accuracy ([\d.]+) % after", output)[1])
    rill = PROGRAM.parent.parent / "command/rill"
    if not rill.exists():
        print("skipped: the exported model by `rill run`: a build without the program rill")
    else:
        done = subprocess.run([rill, "run", folder / "digits.onnx", "--input", f"{folder / TEST_IMAGES}[0:40]"],
                              capture_output=True, text=True, timeout=250)
        assert done.returncode == 0 and done.stdout.startswith("digit  i64[40]\n"), done
        told = [int(n) for n in re.findall(r"\d+", done.stdout[len("digit  i64[40]"):].split("]")[0])]
        truth = list(gzip.decompress((folder / TEST_LABELS).read_bytes())[8:])
        assert abs(100 * sum(a == b for a, b in zip(told, truth)) / 40 - share) < 0.01, (told, truth, share)
# A run that is killed after an epoch and started again ends with the bits of one that was not.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    small_set(folder, 400)
    arguments = ["--data", folder, "--epochs", "3", "--batch", "16", "--logdir", ""]
    status, output, errors = run(*arguments, "--checkpoint", folder / "whole")
    assert status == 0, errors
    if "leveldb" in errors:
        print("skipped: a killed run that goes on: a build without leveldb writes no checkpoints")
    else:
        program = subprocess.Popen([PROGRAM, *arguments, "--checkpoint", folder / "killed"], stdout=subprocess.DEVNULL)
        deadline = time.time() + 120
        while not (folder / "killed/checkpoint").exists() and time.time() < deadline:
            time.sleep(0.002)
        program.kill()
        program.wait()
        status, output, errors = run(*arguments, "--checkpoint", folder / "killed")
        assert status == 0 and "goes on from" in output, (output, errors)
        for which in ["whole", "killed"]:  # the checkpoints have how long epochs took, and differ by that
            subprocess.run([PROGRAM.parent / "export_digits", folder / which, folder / f"{which}.onnx"], check=True, timeout=250)
        assert (folder / "whole.onnx").read_bytes() == (folder / "killed.onnx").read_bytes()
print("All tests passed (of examples/mnist, in 5 test cases)")
