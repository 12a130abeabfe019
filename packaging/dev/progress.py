"""Runs a long command of ./dev and shows how far it is, with the time left: start reading at `main`.

usage: progress.py build BUILD [TARGET...]        Ninja
       progress.py plan BUILD [TARGET...]         no more than how much there is to build
       progress.py test BUILD [ARGUMENT...]       `meson test`
       progress.py pip LOG PYTHON [ARGUMENT...]   `PYTHON -m pip install`, all of whose words go to LOG

In a terminal that is one line at the bottom, redrawn each second; in a log, a line now and then. What compilers and
failing tests say goes through whole, above the line. The exit status is the command's.
"""
import glob
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading
import time

LOG_SECONDS = 30  # between two lines in a log
SHORT = 10  # a build of fewer seconds announces nothing
MARK = "\x1e"  # stands before what Ninja says of its own; no compiler prints it
MARKED = {**os.environ, "NINJA_STATUS": f"{MARK}%f %t{MARK}"}


def clock(seconds):
    minutes, seconds = divmod(max(0, round(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


class Bar:
    """The line at the bottom, on stderr."""

    def __init__(self):
        self.live = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.drawn = False
        self.said = time.monotonic()

    def show(self, text):
        if self.live:
            width = shutil.get_terminal_size().columns  # the window may have changed
            sys.stderr.write(f"\r{text[:width - 1]}\033[K")
            sys.stderr.flush()
            self.drawn = True
        elif time.monotonic() - self.said >= LOG_SECONDS:
            self.say(text)

    def say(self, text):
        """Prints lines that stay, above the bar."""
        if self.drawn:
            sys.stderr.write("\r\033[K")
            self.drawn = False
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
        self.said = time.monotonic()

    def close(self):
        if self.drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


class Pace:
    """Time left, from the weights (expected seconds) of the steps that are done and of those that are not.

    The machine may be slower or faster than the one on which the weights were measured, and a compiler cache may answer:
    so a weight counts only in proportion to the others. Until the first minute has shown the pace, one is assumed.
    """

    ASSUMED = 20  # seconds of work at the assumed pace, which count beside what was seen

    def __init__(self, total):
        self.total, self.done, self.workers = total, 0.0, os.cpu_count() or 1
        self.began = self.last = time.monotonic()

    def step(self, weight):
        self.done += weight
        self.last = time.monotonic()

    def left(self):
        """Between two steps it counts down, for the next ones are under way."""
        pace = (self.done + self.ASSUMED * self.workers) / (self.last - self.began + self.ASSUMED)
        return max(0.0, (self.total - self.done) / pace - (time.monotonic() - self.last))

    def words(self):
        left = self.left()
        return f"  {clock(left)} left" if left >= 1 else ""


def lines_of(process):
    """The lines that a process prints; None each second in which there is none, so that the time left goes on."""
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(EOFError)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            line = None
        if line is EOFError:
            return
        yield line


def start(command, **more):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", **more)


# --- Building ------------------------------------------------------------------------------------------------------
def measured(build):
    """How many seconds of a processor each step took, by its output: in this build folder, else in another one of the
    checkout. Ninja runs more steps at once than there are processors, each of which takes the longer for it."""
    cores = os.cpu_count() or 1
    crowding = (cores + (1 if cores <= 2 else 2)) / cores
    seconds = {}
    for log in [*glob.glob(f"{glob.escape(os.path.dirname(os.path.abspath(build)))}/build*/.ninja_log"), f"{build}/.ninja_log"]:
        if os.path.exists(log):
            for line in open(log, errors="replace"):
                fields = line.split("\t")
                if len(fields) == 5:
                    seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000 / crowding
    return seconds


def guessed(source):
    """Seconds for a source that was never compiled here: headers, and its own text, which vector code compiles for each
    instruction set."""
    try:
        text = pathlib.Path(source).read_text(errors="replace")
    except OSError:
        return 1.0
    return (1.5 + len(text) / 6500) * (3 if "foreach_target" in text else 1)


def planned(build, targets):
    """What Ninja is about to run: {its words for a step: (about how many seconds, what to call it)}."""
    said = subprocess.run(["ninja", "-C", build, "-n", *targets], env=MARKED, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout
    seconds, sources = measured(build), {}
    if os.path.exists(f"{build}/compile_commands.json"):
        for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text()):
            sources[entry["output"]] = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
    steps = {}
    for line in said.split("\n"):  # MARK would end a line of splitlines()
        if MARK not in line:
            continue
        words = line.split(MARK)[2]
        output = next((word for word in words.split() if word in sources or word in seconds), None)
        source = sources.get(output)
        name = f"compiled {os.path.relpath(source)}" if source else words
        steps[words] = (seconds.get(output) or (guessed(source) if source else 1.0), name)
    return steps


def build(folder, *targets):
    if any(re.fullmatch(r"-[tvdn].*|--verbose|--version|--help|-h|--quiet", word) for word in targets):
        return subprocess.run(["ninja", "-C", folder, *targets]).returncode
    environment, bar = dict(MARKED), Bar()
    if bar.live:
        environment["CLICOLOR_FORCE"] = "1"
    # Meson looks again first where one of its files changed, for only then is it known what there is to build.
    again = subprocess.run(["ninja", "-C", folder, "build.ninja"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if again.returncode != 0:
        bar.say(again.stdout)
        return again.returncode
    steps = planned(folder, targets)
    pace = Pace(sum(weight for weight, _ in steps.values()))
    worth_saying = pace.left() > SHORT
    if worth_saying:
        bar.say(f"{len(steps)} steps to build, about {clock(pace.left())}")
    process, counts, name, where, began = start(["ninja", "-C", folder, *targets], env=environment), "", "", "", time.monotonic()
    for line in lines_of(process):
        if line is not None:
            before, mark, status = line.partition(MARK)
            if not mark:
                if line.startswith("ninja: Entering directory"):
                    where = line  # editors find files by it; nobody else wants to read it
                elif line != "ninja: no work to do.":
                    bar.say(f"{where}\n{line}" if where else line)
                    where = ""
                continue
            if before:
                bar.say(before)
            counts, _, words = status.partition(MARK)
            weight, name = steps.get(words, (0, words))
            pace.step(weight)
            done, total = counts.split()
            counts = f"[{done:>{len(total)}}/{total}]"
        if steps:
            bar.show(f"{counts or f'[0/{len(steps)}]'} {name}{pace.words()}")
    bar.close()
    status = process.wait()
    if worth_saying and status == 0:
        bar.say(f"built {len(steps)} steps in {clock(time.monotonic() - began)}")
    return status


def plan(folder, *targets):
    steps = planned(folder, targets)
    print(f"{len(steps)} steps, about {clock(Pace(sum(weight for weight, _ in steps.values())).left())}")
    return 0


# --- Tests ---------------------------------------------------------------------------------------------------------
RESULT = re.compile(r"^ *(\d+)/(\d+) +(\S.*?) +(OK|EXPECTEDFAIL|FAIL|SKIP|TIMEOUT|ERROR|INTERRUPT|UNEXPECTEDPASS) +([\d.]+)s")


def short(line):
    """The name of a test alone, of what Meson's versions print: "fast - rill:tape", "rill:fast / tape"."""
    return re.split(r"[ :/]+", line.strip())[-1]


def test(folder, *arguments):
    command = ["meson", "test", "-C", folder, *arguments]
    if any(word in ("-i", "--interactive", "-v", "--verbose", "-q", "--quiet", "--gdb", "--list", "-h", "--help") for word in arguments):
        return subprocess.run(command).returncode
    kept = pathlib.Path(folder, "meson-logs", "seconds.json")  # how long each test took when it last ran
    try:
        seconds = json.loads(kept.read_text())
    except (OSError, ValueError):
        seconds = {}
    listed = subprocess.run([*command, "--list"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    names = [line.strip() for line in listed.splitlines()]  # with the suite, for two may have one name
    usual = sorted(seconds.values())[len(seconds) // 2] if seconds else 4.0
    pace = Pace(sum(seconds.get(name, usual) for name in names))
    bar = Bar()
    if names:
        known = f", about {clock(pace.left())}" if sum(name in seconds for name in names) * 2 >= len(names) else ""
        bar.say(f"{len(names)} tests to run{known}")
    passed = failed = skipped = 0
    last = ""
    # Meson keeps its results back until a buffer is full, unless Python is told not to.
    process = start(command, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    for line in lines_of(process):
        if line is not None:
            match = RESULT.match(line)
            if not match:
                bar.say(line)
                continue
            name, result = match.group(3), match.group(4)
            passed += result in ("OK", "EXPECTEDFAIL")
            skipped += result == "SKIP"
            failed += result not in ("OK", "EXPECTEDFAIL", "SKIP")
            pace.step(seconds.get(name, usual))
            seconds[name] = float(match.group(5))
            last = f"{short(name)} {result} {match.group(5)} s"
            if not bar.live or result not in ("OK", "EXPECTEDFAIL"):
                bar.say(line)
        if names and bar.live:
            bar.show(f"[{passed + failed + skipped}/{len(names)}] {failed} failed  {last}{pace.words()}")
    bar.close()
    status = process.wait()
    if kept.parent.is_dir():
        kept.write_text(json.dumps(seconds))
    return status


# --- Fetching ------------------------------------------------------------------------------------------------------
def pip(log, python, *arguments):
    bar, folder = Bar(), os.path.abspath(f"{log}.fetched")
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was interrupted
    os.mkdir(folder)
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", *arguments]
    # What it downloads lies below TMPDIR, where it can be seen to grow; a small /tmp does not matter then.
    process = start(command, env={**os.environ, "TMPDIR": folder, "PYTHONUNBUFFERED": "1"})
    name, size, began = "", 0.0, time.monotonic()
    with open(log, "a", buffering=1) as words:
        for line in lines_of(process):
            if line is not None:
                words.write(f"{line}\n")
                if match := re.search(r"Downloading (\S+) \(([\d.]+) (kB|MB|GB)\)", line):
                    name = match.group(1).rsplit("/", 1)[-1].split("-cp")[0].split("-py")[0]
                    size = float(match.group(2)) * {"kB": 1e-3, "MB": 1.0, "GB": 1e3}[match.group(3)]
                    began = time.monotonic()
                elif line.startswith("Installing collected packages"):
                    name, size = "unpacking", 0.0
                elif match := re.match(r"Collecting ([^ <>=!~]+)", line):
                    name, size = f"looking for {match.group(1)}", 0.0
            there = sum(os.path.getsize(file) for file in glob.glob(f"{folder}/pip-unpack-*/*") if os.path.isfile(file)) / 1e6
            if size and there < size:
                left = (time.monotonic() - began) * (size - there) / there if there else 0.0
                bar.show(f"[{there:.0f} of {size:.0f} MB] {name}" + (f"  {clock(left)} left" if there else ""))
            elif name:
                bar.show(name)
    bar.close()
    shutil.rmtree(folder, ignore_errors=True)
    return process.wait()


def main():
    try:
        return {"build": build, "plan": plan, "test": test, "pip": pip}[sys.argv[1]](*sys.argv[2:])
    except KeyboardInterrupt:  # the command heard it too, and has ended or is about to
        sys.stderr.write("\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
