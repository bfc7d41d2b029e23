"""Receiving files over a real server: limits, malformed bodies, lost senders, full disks."""

import asyncio
import hashlib
import os
import resource
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
import uvicorn
from fastapi import FastAPI, Request

from service.domains.documents.docstore.running import applying
from service.platform import errors
from service.platform.files import UNTOUCHED_SECONDS
from service.web import multipart
from service.web.multipart import receive
from tests.harness.cases import bytes_of_case, cases
from tests.harness.jobs import until
from tests.harness.processes import limiting

LIMIT = 8 << 20
FIELDS = frozenset({"documentExternalId", "customMetadata"})


def hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Endpoint:
    """An upload endpoint behind a real uvicorn; `received` counts the complete forms."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.received = 0
        self.entered = 0
        app = FastAPI()
        errors.install(app)

        @app.post("/upload")
        async def upload(request: Request) -> dict[str, object]:
            self.entered += 1
            async with receive(
                request, folder=folder, file_part="file", max_file_bytes=LIMIT, allowed=FIELDS
            ) as received:
                self.received += 1
                on_disk = await asyncio.to_thread(hash_of, received.file.path)
                return {
                    "fields": received.fields,
                    "name": received.file.name,
                    "size": received.file.size,
                    "sha256": received.file.sha256.hex(),
                    "onDisk": on_disk,
                }

        self.server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/upload"
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))

    def left(self) -> list[str]:
        for _ in range(100):
            names = [path.name for path in self.folder.iterdir()]
            if not names:
                break
            time.sleep(0.02)
        return names


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """An endpoint with a limit of 8 MB; tests use `endpoint`."""
    made = Endpoint(tmp_path_factory.mktemp("uploads"))
    made.thread.start()
    while not made.server.started:
        time.sleep(0.01)
    yield made
    made.server.should_exit = True
    made.thread.join()
    made.socket.close()


@pytest.fixture
def endpoint(standing):
    standing.received = standing.entered = 0
    return standing


def post(endpoint: Endpoint, body: bytes, content_type: str = "multipart/form-data; boundary=B") -> httpx.Response:
    return httpx.post(endpoint.url, content=body, headers={"Content-Type": content_type}, timeout=60)


def part(disposition: bytes, content: bytes = b"words", *headers: bytes) -> bytes:
    lines = [b"--B", b"Content-Disposition: form-data; " + disposition, *headers, b"", content]
    return b"\r\n".join(lines) + b"\r\n"


FILE = part(b'name="file"; filename="a.md"')
END = b"--B--\r\n"


@pytest.mark.parametrize("size", [0, 1, 5_000, (1 << 20) + 7, LIMIT])
def test_a_file_arrives_as_it_was_sent(endpoint, size):
    content = os.urandom(size)
    answer = httpx.post(
        endpoint.url,
        files={"file": ("🍐 plan.md", content)},
        data={"documentExternalId": "ä-1", "customMetadata": "{}"},
    )
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["fields"] == {"documentExternalId": "ä-1", "customMetadata": "{}"}
    assert (found["name"], found["size"]) == ("🍐 plan.md", size)
    assert found["sha256"] == found["onDisk"] == hashlib.sha256(content).hexdigest()
    assert endpoint.left() == []


def test_content_that_looks_like_a_boundary_arrives_whole(endpoint):
    content = b"\r\n--B\r--B\n--BC\r\n--" * 10_000
    body = part(b'name="file"; filename="a.md"', content.replace(b"\r\n--B\r", b"\r\n--A\r")) + END
    answer = post(endpoint, body.replace(b"\r\n--BC", b"\r\n--AC"))
    assert answer.status_code == 200, answer.text
    assert answer.json()["sha256"] == answer.json()["onDisk"]


@pytest.mark.parametrize(("parts", "status", "code"), cases("bad_forms"))
def test_a_bad_form_is_refused_with_its_reason(endpoint, parts, status, code):
    answer = post(endpoint, bytes_of_case(parts))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert len(answer.json()["error"]["message"]) > 20
    assert endpoint.received == 0
    assert endpoint.left() == []


@pytest.mark.parametrize(("content_type", "status"), cases("types_of_bodies_that_are_no_forms"))
def test_a_body_of_another_type_is_refused(endpoint, content_type, status):
    assert post(endpoint, FILE + END, content_type).status_code == status


@pytest.mark.parametrize(("sent", "kept"), [("say %22hi%22.md", 'say "hi".md'), ('say \\"hi\\".md', 'say "hi".md')])
def test_quotes_in_the_name_of_a_file_are_read_as_browsers_write_them(endpoint, sent, kept):
    assert post(endpoint, part(f'name="file"; filename="{sent}"'.encode()) + END).json()["name"] == kept


@pytest.mark.parametrize("declared", [True, False])
def test_three_hundred_megabytes_cost_no_memory_and_leave_nothing(endpoint, declared):
    piece = b"x" * (1 << 20)
    before = psutil.Process().memory_info().rss

    def body():
        yield part(b'name="file"; filename="a.md"')[:-7]
        for _ in range(300):
            yield piece

    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    if declared:
        headers["Content-Length"] = str(len(part(b'name="file"; filename="a.md"')[:-7]) + 300 * len(piece))
    answer = httpx.post(endpoint.url, content=body(), headers=headers, timeout=60)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "file_too_large"
    assert psutil.Process().memory_info().rss - before < 64 << 20
    assert endpoint.left() == []


def test_no_bytes_are_hashed_or_written_on_the_event_loop(endpoint, monkeypatch):
    writers: set[int] = set()
    write = multipart._Sink.write

    def watched(sink, *args, **options):
        writers.add(threading.get_ident())
        return write(sink, *args, **options)

    monkeypatch.setattr(multipart._Sink, "write", watched)
    assert httpx.post(endpoint.url, files={"file": ("a.bin", bytes(5 << 20))}, timeout=60).json()["size"] == 5 << 20
    assert writers
    assert endpoint.thread.ident not in writers


@pytest.mark.parametrize("sent", [1_000, 3 << 20])
def test_a_sender_that_vanishes_leaves_nothing(endpoint, sent):
    head = (
        "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\n"
        f"Content-Length: {LIMIT}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", endpoint.port)) as connection:
        connection.sendall(head.encode() + FILE[:-7] + b"x" * sent)
        while not endpoint.entered:
            time.sleep(0.01)
        time.sleep(0.1)
    assert endpoint.left() == []
    assert endpoint.received == 0
    assert post(endpoint, FILE + END).status_code == 200


@pytest.mark.parametrize("size", [200_000, 4 << 20])
def test_a_full_disk_is_507_and_leaves_nothing(endpoint, size):
    body = part(b'name="file"; filename="a.md"', b"x" * size) + END
    with limiting(resource.RLIMIT_FSIZE, 100_000):
        answer = post(endpoint, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "storage_full")
    assert int(answer.headers["Retry-After"]) > 0
    assert endpoint.left() == []
    assert post(endpoint, body).status_code == 200


def test_what_a_crash_left_is_removed_while_requests_come(make_service):
    service = make_service()
    folder = service.settings.uploads_dir
    folder.mkdir()
    old, new = 2 * UNTOUCHED_SECONDS, UNTOUCHED_SECONDS - 600
    for name, age in (("upload-old", old), ("upload-new", new), ("other", old)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age, time.time() - age))

    async def look_again():
        service.runtime.background.kept["broken-off-uploads"].running.cancel()

    until(lambda: "broken-off-uploads" in service.runtime.background.kept)
    service.run(look_again())
    until(lambda: not (folder / "upload-old").exists())
    assert {path.name for path in folder.iterdir()} == {"upload-new", "other"}


def test_a_sync_cut_off_while_it_writes_leaves_nothing(tmp_path, monkeypatch):
    """The writing thread is not cancelled with the sync, so the file is removed after it ends."""
    begun, may_write = threading.Event(), threading.Event()
    opened = Path.open

    def wait_and_open(path, *args, **options):
        begun.set()
        assert may_write.wait(20)
        return opened(path, *args, **options)

    async def cut_off():
        settings = SimpleNamespace(uploads_dir=tmp_path, max_upload_bytes=LIMIT)
        document = SimpleNamespace(content=b"words", file_name="a.md", form=None)
        upload = asyncio.create_task(applying._upload_and_wait(SimpleNamespace(settings=settings), None, document))
        assert await asyncio.to_thread(begun.wait, 20)
        upload.cancel()
        # What doesn't wait for the thread has removed the file by now, and what does is still there.
        await asyncio.wait([upload], timeout=0.5)
        may_write.set()
        with pytest.raises(asyncio.CancelledError):
            await upload

    with monkeypatch.context() as slow:
        slow.setattr(Path, "open", wait_and_open)
        asyncio.run(cut_off())
    assert list(tmp_path.iterdir()) == []
