"""Makes the pictures of TensorBoard in docs/viewers.md: a server on the runs that tests/api/viewers.cpp writes, and headless
Chromium (apt-get install chromium), which draws dashboards. Pillow reduces them to a palette.

usage: docs/pictures.py BUILD      by a Python that has tensorboard and pillow: .deps/formats/bin/python after ./dev test
"""
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from PIL import Image
from tensorboard import default, program

LARGEST = 60_000  # bytes of a picture
DASHBOARDS = ["scalars", "histograms"]


def draw(chromium, url, folder):
    picture = f"{folder}/picture.png"
    subprocess.run([chromium, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/chromium",
                    "--window-size=1100,560", "--virtual-time-budget=15000", f"--screenshot={picture}", url],
                   capture_output=True, check=True, timeout=180)
    return Image.open(picture).convert("RGB")


def write(picture, path):
    """In as many colours as fit."""
    for colours in (64, 32, 16):
        out = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= LARGEST:
            path.write_bytes(out.getvalue())
            return
    sys.exit(f"{path}: more than {LARGEST} bytes")


def main():
    build = os.path.abspath(sys.argv[1])
    target = pathlib.Path(__file__).resolve().parent
    chromium = shutil.which("chromium") or sys.exit("there is no Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{build}/tests/api_viewers"], cwd=folder, check=True)
        os.chdir(folder)  # the page shows the path of the logs
        board = program.TensorBoard(plugins=default.get_plugins())
        board.configure(argv=[None, "--logdir", "viewers/logs", "--port", "0", "--load_fast", "false"])
        url = board.launch()
        for name in DASHBOARDS:
            write(draw(chromium, f"{url}?darkMode=false#{name}", folder), target / f"tensorboard-{name}.png")


main()
