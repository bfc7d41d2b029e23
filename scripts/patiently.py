"""`python3 scripts/patiently.py WORDS -- COMMAND…`: run a command, and print a line every two seconds while it runs.

It runs before `.venv` exists, so it uses only the standard library.
"""

import subprocess
import sys
import time

SILENCE_SECONDS = 2.0


def main(words: str, command: list[str]) -> int:
    """Run the command, and return its exit status; Ctrl-C ends both."""
    began = time.monotonic()
    with subprocess.Popen(command) as process:  # noqa: S603 - the Makefile names it
        while True:
            try:
                return process.wait(SILENCE_SECONDS)
            except subprocess.TimeoutExpired:
                sys.stdout.write(f"{words}, {time.monotonic() - began:.0f} s …\n")
                sys.stdout.flush()
            except KeyboardInterrupt:
                return 128 + 2


if __name__ == "__main__":
    split = sys.argv.index("--")
    sys.exit(main(" ".join(sys.argv[1:split]), sys.argv[split + 1 :]))
