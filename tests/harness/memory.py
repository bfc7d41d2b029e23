"""Temporary files in memory: databases are created and dropped much faster there than on a disk."""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - names in it are chosen by tempfile
# A session has few databases at a time, of ten megabytes each; the rest is room to spare.
NEEDED_BYTES = 4 * 1024**3


def use_memory(folder: Path = MEMORY, *, needed_bytes: int = NEEDED_BYTES) -> None:
    """Put temporary files of the process and children into memory, if there is space; `TMPDIR` overrides."""
    if "TMPDIR" in os.environ or not folder.is_dir() or shutil.disk_usage(folder).free < needed_bytes:
        return
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it is looked up once, and has been
