"""A bar shows what tells its progress, in terminals and notebooks, and is silent elsewhere."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import nbformat
from nbclient import NotebookClient

from tests.client.contract import OPERATIONS

CODE = """
from carrel.directory.progress import Progress
from carrel.progress import ProgressBar
upload = ProgressBar("<film>", unit="B")
for sent in (0, 1_000_000, 0, 1_000_000, 4_000_000):
    upload(sent, 4_000_000)
documents = ProgressBar("Documents")
documents(1000)
documents(1500, 1500)
people = ProgressBar()
people(Progress("reading users", 3, None))
people(Progress("reading groups", 2, 2))
"""
BARS = [r"<film>: 100%.*4.00M/4.00M", "Documents: 100%.*1500/1500", r"Reading users: 3 \[", "Reading groups: 100%.*2/2"]


def test_a_terminal_shows_it() -> None:
    """On its standard error, over the whole width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    done = subprocess.run([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    lines = os.read(ours, 100_000).decode().split("\r\n")
    os.close(ours)
    assert done.stdout == b""
    for line, pattern in zip([line for line in lines if line.strip()], BARS, strict=True):
        assert re.search(pattern, line)


def test_a_notebook_keeps_its_end() -> None:
    """One output for each bar, as it was last, its text escaped; nothing on standard error, and no widget."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    NotebookClient(notebook, kernel_name="python3").execute(transport_encryption="auto")
    outputs = notebook.cells[0].outputs
    assert [output.output_type for output in outputs] == ["display_data"] * len(BARS)
    for output, pattern in zip(outputs, BARS, strict=True):
        assert re.match(pattern, output.data["text/plain"])
        assert output.data["text/html"].startswith("<progress ")
        assert "<film>" not in output.data["text/html"]


def test_a_file_gets_nothing() -> None:
    """A scheduled job's log stays free of bars; and without tqdm nothing fails."""
    without = "import sys\nsys.modules['tqdm.std'] = None\n"
    for code in (CODE, without + CODE):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert (done.stdout, done.stderr) == (b"", b"")


async def test_a_list_tells_how_much_came(caller, server) -> None:
    told: list[tuple[int, int | None]] = []
    page = OPERATIONS["admin/groups/list"].response()
    server.will(page, {"groups": page["groups"]})
    await caller(lambda c: c.admin.groups.list().with_progress(lambda *counts: told.append(counts)).to_frame())
    assert told == [(1, None), (2, 2)]
