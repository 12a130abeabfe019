"""For the tests that hand our files to other programs: importing this runs the script in .deps/formats, where the packages
of tests/formats.txt are (./dev test --all makes it where PyPI can be reached). What is imported inside `needed()` may be missing:
then the script says what, and counts as skipped.
"""
import contextlib
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("RILL_BUILD_ROOT", "build"))
PYTHON = f"{ROOT}/.deps/formats/bin/python"
if os.path.exists(PYTHON) and sys.prefix != os.path.dirname(os.path.dirname(PYTHON)):
    os.execv(PYTHON, [PYTHON, *sys.argv])
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # TensorFlow's own messages


@contextlib.contextmanager
def needed():
    try:
        yield
    except ImportError as missing:
        print(f"{missing}: ./dev test --all makes .deps/formats where PyPI can be reached")
        sys.exit(77)
