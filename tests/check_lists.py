"""Whether every test is in a list: a test_NAME.cpp that no meson.build names is never compiled, and nobody would notice.

Compares the lists of tests/meson.build with the files that are there, among them the pages whose C++ is run, looks for
hidden test cases (tagged [.]) that nothing asks for by name or tag, for functions of the oracle's cases that
oracle/judges.txt gives no judge, and for names that one version of Catch2 lacks. Needs no build and takes a moment.
"""
import gzip
import json
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
THIS = "tests/check_lists.py"
# What a name in each list of tests/meson.build stands for.
LISTS = {
    "core_tests": "tests/{0}/test_{1}.cpp",
    "catch_tests": "tests/{0}/test_{1}.cpp",
    "gpu_tests": "tests/{0}/test_{1}.cpp",
    "api_tests": "tests/api/{1}.cpp",
    "python_tests": "tests/scripts/test_{1}.py",
    "documents": "{2}",
}
# Pages with C++ that is not run, and why.
PAGES_LEFT_OUT = {}
OTHER_PROJECTS = ("tests/consumer/",)  # which tests configure themselves


def read(path):
    return path.read_text(encoding="utf-8")


def relative(path):
    return path.relative_to(ROOT).as_posix()


def without_comments(build):
    return re.sub(r"^\s*#.*", "", read(build), flags=re.M)


def in_lists():
    """The files that the lists of tests/meson.build name."""
    found = []
    for name, value in re.findall(r"^\s*(\w+) \+?= ([^\n]*\[.*?\].*?)$", without_comments(TESTS / "meson.build"), re.M | re.S):
        if name in LISTS:
            items = [item for inside in re.findall(r"\[(.*?)\]", value, re.S) for item in re.findall(r"'([^']+)'", inside)]
            found += [LISTS[name].format(*item.rpartition("/")[::2], item) for item in items]
    return found


def by_path(builds):
    """The files that a meson.build names by their path."""
    return {relative((build.parent / file).resolve()) for build in builds
            for file in re.findall(r"'([\w./-]+\.(?:cpp|py))'", without_comments(build))}


def unlisted(known):
    tests = [relative(path) for pattern in ("**/*.cpp", "scripts/test_*.py") for path in sorted(TESTS.glob(pattern))]
    faults = [f"{file}: no list of tests/meson.build names it" for file in tests
              if file not in known and not file.startswith(OTHER_PROJECTS)]
    pages = [relative(page) for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if "\n```cpp" in read(page)]
    faults += [f"{page}: its C++ is not run. add it to `documents` of tests/meson.build, or say why not in {THIS}"
               for page in pages if page not in known and page not in PAGES_LEFT_OUT]
    faults += [f"{page}: PAGES_LEFT_OUT of {THIS} names it, and `documents` or nothing does"
               for page in PAGES_LEFT_OUT if page in known or page not in pages]
    return faults, len(tests) + len(pages)


def never_asked_for():
    """Hidden test cases whose name or tag stands nowhere but in their own first line."""
    texts = [read(path) for path in TESTS.rglob("*") if path.suffix in (".cpp", ".h", ".py", ".build", ".md")]
    for path in sorted(TESTS.glob("*/test_*.cpp")):
        for line, name, tag in re.findall(r'^(TEST_CASE\("([^"]+)", "\[(\.\w*)\]"\))', read(path), re.M):
            words = [f'"{name}"', f"'{name}'"] + ([f"[{tag}]", f"[{tag[1:]}]"] if tag != "." else [])
            if not any(word in text.replace(line, "") for text in texts for word in words):
                yield f"{relative(path)}: nothing runs the hidden test case '{name}'"


def without_judge():
    """Functions of the oracle's cases that are in no line of oracle/judges.txt, in several, or only there."""
    with gzip.open(TESTS / "oracle" / "cases.gz") as file:
        size = struct.unpack("<Q", file.read(22)[-8:])[0]
        judged = {case["fn"] for case in json.loads(file.read(size))["cases"]}
    lines = [line for line in read(TESTS / "oracle" / "judges.txt").splitlines() if line.startswith("  ")]
    listed = [name.strip() for line in lines for name in line.rstrip(",").split(", ")]
    for name in sorted(judged ^ set(listed)):
        yield f"{name}: tests/oracle/judges.txt {'gives it no judge' if name in judged else 'names it, and it has no case'}"
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{name}: tests/oracle/judges.txt gives it two judges"


def of_one_catch():
    """Tests that spell a name of Catch2 out, which one of its versions may not have: Debian 12 has 2.13, 13 has 3."""
    for path in sorted(TESTS.rglob("*.cpp")):
        for name in re.findall(r"\bCatch::\w+", read(path)) if path != TESTS / "main.cpp" else []:
            yield f"{relative(path)}: {name} is not in every version of Catch2. tests/support/catch.h has words for both"


def main():
    listed = in_lists()
    faults = [f"{file}: tests/meson.build names it, and it is not there" for file in listed if not (ROOT / file).exists()]
    missing, count = unlisted({*listed, *by_path([TESTS / "meson.build", *TESTS.glob("*/**/meson.build")])})
    faults += missing + list(never_asked_for()) + list(without_judge()) + list(of_one_catch())
    print(*faults, f"{len(listed)} names in lists, {count} tests and pages, {len(faults)} faults", sep="\n")
    return 1 if faults or not listed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
