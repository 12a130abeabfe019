"""Makes the pictures that are screenshots and plots: those of TensorBoard in docs/viewers.md, from the runs that
tests/api/viewers.cpp writes; training.png in README.md, from a run of the digits demo; and step.png there, the graph
that README.md's program writes; and that of TensorBoard's Debugger V2 in docs/debugger.md, from that page's first program.

TensorBoard is drawn by headless Chromium (apt-get install chromium), graphs by Graphviz. Pillow reduces them to a palette.

usage: docs/pictures.py BUILD [NAME...]    by a Python that has tensorboard and pillow: .deps/formats/bin/python after
                                           ./dev test; NAME: viewers, training, step, debugger; all of them without
"""
import base64
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from PIL import Image

LARGEST = 60_000  # bytes of a picture
TARGET = pathlib.Path(__file__).resolve().parent
BUILD = os.path.abspath(sys.argv[1])


def program(name):
    return shutil.which(name) or sys.exit(f"there is no {name}: apt-get install {dict(dot='graphviz').get(name, name)}")


def serve(logs):
    """TensorBoard on a folder of logs, until this process ends; its address."""
    from tensorboard import default, program as tensorboard
    board = tensorboard.TensorBoard(plugins=default.get_plugins())
    board.configure(argv=[None, "--logdir", logs, "--port", "0", "--load_fast", "false"])
    return board.launch()


def draw(url, folder, height=560):
    picture = f"{folder}/picture.png"
    subprocess.run([program("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu",
                    f"--user-data-dir={folder}/chromium", f"--window-size=1100,{height}", "--virtual-time-budget=15000",
                    f"--screenshot={picture}", url], capture_output=True, check=True, timeout=180)
    return Image.open(picture).convert("RGB")


class Page:
    """A page in headless Chromium, told what to do through the pipe of its DevTools: for what shows after a click alone."""

    def __init__(self, url, folder, height=560):
        (theirs_in, self.to), (self.back, theirs_out) = os.pipe(), os.pipe()

        def ends():  # where Chromium looks for them
            os.dup2(os.dup(theirs_in), 3)
            os.dup2(os.dup(theirs_out), 4)

        self.process = subprocess.Popen(
            [program("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={folder}/chromium", f"--window-size=1100,{height}"],
            preexec_fn=ends, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.count, self.text, self.session = 0, b"", None
        target = self.ask("Target.createTarget", url=url)["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params} | ({"sessionId": self.session} if self.session else {})
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.text:
                self.text += os.read(self.back, 1 << 20)
            line, self.text = self.text.split(b"\0", 1)
            answer = json.loads(line)
            if answer.get("id") == self.count:
                return answer["result"]

    def value(self, script):
        return self.ask("Runtime.evaluate", expression=script)["result"].get("value")

    def wait(self, script):
        """Until it is true: for pages that load on."""
        for _ in range(600):
            if self.value(script):
                return
            time.sleep(0.1)
        sys.exit(f"the page never came to {script}")

    def picture(self):
        data = self.ask("Page.captureScreenshot")["data"]
        self.process.kill()
        self.process.wait()
        return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


def write(picture, path):
    """In as many colours as fit."""
    for colours in (64, 32, 16):
        out = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= LARGEST:
            path.write_bytes(out.getvalue())
            return
    sys.exit(f"{path}: more than {LARGEST} bytes")


def viewers(folder):
    subprocess.run([f"{BUILD}/tests/api_viewers"], cwd=folder, check=True)
    url = serve("viewers/logs")
    for name in ("scalars", "histograms"):
        write(draw(f"{url}?darkMode=false#{name}", folder), TARGET / f"tensorboard-{name}.png")


def training(folder):
    subprocess.run([f"{BUILD}/examples/mnist"], cwd=folder, check=True)
    page = draw(f"{serve('logs')}?darkMode=false#scalars", folder, height=900)
    write(page.crop((0, 0, 1100, 484)), TARGET / "training.png")  # the accuracy


def blocks(page):
    """The C++ of a page."""
    return re.findall(r"^```cpp\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def run(source, *libraries):
    pathlib.Path("main.cpp").write_text(source, encoding="utf-8")
    subprocess.run(["c++", "-std=c++20", "main.cpp", "-o", "main", f"-I{TARGET.parent}/include", f"-L{BUILD}",
                    f"-Wl,-rpath,{BUILD}", *libraries, "-lrill_io", "-lrill"], check=True)
    subprocess.run(["./main"], check=True)


def debugger(folder):
    lines = blocks(TARGET / "debugger.md")[0].splitlines()
    includes = [line for line in lines if line.startswith("#")]
    body = [line for line in lines if not line.startswith("#")]
    run("\n".join([*includes, "int main() {", *body, "}"]))
    page = Page(f"{serve('dumps/network')}?darkMode=false#debugger-v2", folder)
    page.wait("document.querySelectorAll('.alerts-breakdown-type, .graph-executions-viewport').length == 2")
    time.sleep(2)  # what was drawn does not listen yet
    click = "[...document.querySelectorAll('%s')].filter(e => e.textContent.includes('%s')).slice(-1).map(e => e.click()).length"
    page.value(click % (".alerts-breakdown-type", ""))  # the list goes to the first infinity
    time.sleep(2)
    page.wait(click % (".tensor-name", "output/exp"))  # its line
    page.wait("document.querySelector('stack-trace-component').innerText.includes('Line')")
    write(page.picture().crop((0, 0, 1100, 432)), TARGET / "tensorboard-debugger.png")


def step(folder):
    (source,) = blocks(TARGET.parent / "README.md")
    run(source)
    subprocess.run([program("dot"), "-Tpng", "step.dot", "-o", "step.png"], check=True)
    write(Image.open("step.png").convert("RGB"), TARGET / "step.png")


for make in [globals()[name] for name in sys.argv[2:]] or [viewers, training, step, debugger]:
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)  # the page shows the path of the logs
        make(work)
        os.chdir("/")
