"""Prints the Ninja targets that a run of tests needs, and the word `formats` first where one needs .deps/formats.

usage: test_targets.py BUILD [ARGUMENT...]   the arguments of `meson test`, which says which tests they choose
"""
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys



def words(text):
    """Meson's versions list a test as "fast - rill:tape" or as "rill:fast / tape"; a test of another suite may have its name."""
    return frozenset(re.split(r"[ :/+-]+", text.strip()))


build, arguments = pathlib.Path(sys.argv[1]), sys.argv[2:]
listed = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--list", *arguments], stdout=subprocess.PIPE, text=True,
                        stderr=subprocess.DEVNULL).stdout
chosen = {words(line) for line in listed.splitlines()}
tests = json.loads((build / "meson-info/intro-tests.json").read_text())
if not chosen:
    names = sorted({test["name"] for test in tests})
    for before, word in zip(["", *arguments], arguments):
        if not word.startswith("-") and not before.startswith("-") and word not in names:
            near = difflib.get_close_matches(word, names, 1, 0.5)
            print(f"no test is called {word}" + (f"; did you mean {near[0]}?" if near else ""), file=sys.stderr)
    sys.exit("no test was chosen: `meson test -C build --list` lists them")

needed = set()
formats = False
for test in tests:
    if words(" ".join([*test["suite"], test["name"]])) in chosen:
        needed.update(test["depends"])
        scripts = [word for word in test["cmd"] if word.endswith(".py") and os.path.exists(word)]
        formats = formats or any("deps/formats" in pathlib.Path(script).read_text() for script in scripts)
if formats:
    print("formats")
for target in json.loads((build / "meson-info/intro-targets.json").read_text()):
    if target["id"] in needed:
        for file in target["filename"]:
            print(os.path.relpath(file, build.resolve()))
