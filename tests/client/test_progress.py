"""What shows progress: a bar in terminals and notebooks, and what the socket has taken of an upload."""

import asyncio
import fcntl
import io
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import nbformat
import pytest
from nbclient import NotebookClient

from carrel import APIConnectionError, _uploads
from carrel._uploads import READ_SIZE
from tests.client.contract import OPERATIONS
from tests.client.samples import UPLOADED
from tests.client.server import Server, refuse
from tests.client.test_files import BIG, Pipe, _upload

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


PIECES = [0, READ_SIZE, 2 * READ_SIZE, len(BIG)]
# Half of it is more than the kernel keeps for a sender and a receiver on one machine.
HUGE = 32 * 1024 * 1024


@pytest.mark.parametrize(
    ("file", "attempts", "told"),
    [(BIG, 1, PIECES), (BIG, 2, PIECES * 2), (b"", 1, [0, 0])],
    ids=["once", "again", "empty"],
)
async def test_each_piece_is_told(caller, server: Server, file: bytes, attempts: int, told: list[int]) -> None:
    """The file's bytes, without what the form adds: each attempt is told from its 0 on, to all of them at the end."""
    calls: list[tuple[int, int | None]] = []
    server.will(*[refuse(503)] * (attempts - 1), UPLOADED)
    await caller(_upload(io.BytesIO(file), on_progress=lambda *now: calls.append(now)))
    assert calls == [(sent, len(file)) for sent in told]
    assert len(caller.naps) == attempts - 1


async def test_a_pipe_has_no_total(caller, server: Server) -> None:
    calls: list[tuple[int, int | None]] = []
    server.will(UPLOADED)
    await caller(_upload(Pipe(BIG), file_name="stream.bin", on_progress=lambda *now: calls.append(now)))
    assert {total for _, total in calls} == {None}
    assert calls[-1][0] == len(BIG)


@contextmanager
def _stalling(*, after: int) -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """Give the address of a server that takes so many bytes, sets the first event, and hangs up at the second."""
    stalled, go_on = threading.Event(), threading.Event()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                taken = 0
                while taken < after:
                    taken += len(connection.recv(65536))
                stalled.set()
                go_on.wait(60)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", stalled, go_on
        finally:
            go_on.set()
            thread.join(10)


async def test_no_more_is_told_than_the_socket_took(make_caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece counts when the socket has taken all of it, not when it was read from the disk."""
    monkeypatch.setattr(_uploads, "READ_SIZE", HUGE // 2)
    told: list[tuple[int, int | None]] = []
    with _stalling(after=1_000_000) as (address, stalled, go_on):
        caller = make_caller(base_url=address, max_retries=0)

        async def look() -> list[int]:
            assert await asyncio.to_thread(stalled.wait, 30)
            await asyncio.sleep(0.3)
            sent = [sent for sent, _ in told]
            go_on.set()
            return sent

        looking = asyncio.create_task(look())
        upload = _upload(bytes(HUGE), on_progress=lambda *now: told.append(now))
        with pytest.raises(APIConnectionError):
            await (caller(upload) if caller.is_async else asyncio.to_thread(upload, caller.client))
        assert await looking == [0]
    assert told == [(0, HUGE)]


async def test_what_it_raises_ends_the_upload(caller, server: Server) -> None:
    """Whoever shows progress can stop the upload; the client can be used afterwards."""

    def stop(sent: int, total: int | None) -> None:
        del total
        if sent:
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        await caller(_upload(BIG, on_progress=stop))
    server.will(UPLOADED)
    await caller(_upload(b"hello"))
    assert len(server.received) == 1
