"""Runs a test, and again, at most three times, where the leak checker itself ended it.

usage: meson test --wrapper 'python3 tests/leak_check_again.py'

As a sanitized program ends, a thread of the leak checker's looks through its memory. GCC 12's now and then crashes there
after all tests have passed ("Tracer caught signal 11"), on a busy machine above all. That says nothing about the program.
Every other fault, leaks among them, is the test's and is never tried again.
"""
import subprocess
import sys

OWN_FAULT = b"LeakSanitizer has encountered a fatal error."

for attempt in range(3):
    done = subprocess.run(sys.argv[1:], capture_output=True)
    if done.returncode == 0 or OWN_FAULT not in done.stderr or b"All tests passed" not in done.stdout:
        break
sys.stdout.buffer.write(done.stdout)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
