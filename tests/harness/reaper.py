"""End the leftovers of a test runafter any end: `python reaper.py FOLDER`, with a pipe as input closing with the run's
first process. Processes of the run have the folder in the environment."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

RUN = "TEST_RUN_FOLDER"
"""The variable with the run's folder, shared by all processes of a run."""
PREFIX = "carrel-tests-"
GRACE_SECONDS = 2


def begin_run(place: Path) -> None:
    """Make the run's folder for temporary files, and start its cleaner; pytest keeps failed tests' files."""
    for owner in place.glob(f"{PREFIX}*/owner"):
        if not psutil.pid_exists(int(owner.read_text() or 0)):
            shutil.rmtree(owner.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    folder.chmod(0o1777)  # PostgreSQL runs as another user where this one is root
    (folder / "owner").write_text(str(os.getpid()))
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))
    os.environ |= {RUN: str(folder), "TMPDIR": str(folder)}
    tempfile.tempdir = None  # it is looked up once, and has been
    reading, _ = os.pipe()
    subprocess.run([sys.executable, __file__, str(folder)], stdin=reading, env={"PATH": os.defpath}, check=True)
    os.close(reading)


def processes_of(folder: Path) -> list[psutil.Process]:
    found = list[psutil.Process]()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(RUN) == str(folder):
                found.append(process)
    return found


def reap(folder: Path) -> None:
    # Processes that notice the end by themselves, as workers of pytest-xdist do, may tidy up.
    psutil.wait_procs(processes_of(folder), timeout=GRACE_SECONDS)
    while left := processes_of(folder):
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=GRACE_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__" and not os.fork():
    os.setsid()
    sys.stdin.read()
    reap(Path(sys.argv[1]))
