"""A full disk of 64 MB with the whole service: writes are refused with a message, reads continue, and it recovers."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from service.platform.disk import LOOK_SECONDS, RESERVE_NAME
from tests.harness.documents import ok, refused, upload
from tests.harness.embeddings_server import embeddings_server
from tests.harness.first_start import bring_model
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess

MEBIBYTE = 1 << 20
SIZE = 64 * MEBIBYTE
LOW = SIZE // 8
# What works on jobs writes now and then that it lives: on a disk without a byte, the fewer write, the longer PostgreSQL
# has room in the log that it began, however slow the machine is.
FEW_WRITERS = {"CARREL_WORKERS": "1", "CARREL_DOCSTORE_WORKERS": "0", "CARREL_OCR_WORKERS": "0"}
TEXT = "The ferry to the island leaves at nine, and the tide is written down every hour. "


@dataclass
class SmallDisk:
    """A service on a separate file system, which a foreign file fills."""

    process: ServiceProcess

    def free(self) -> int:
        found = os.statvfs(self.process.data_dir)
        return found.f_bavail * found.f_frsize

    def fill(self, *, leaving: int) -> None:
        with (self.process.data_dir / "foreign").open("ab", buffering=0) as file:
            while (more := self.free() - leaving) > 0:
                try:
                    file.write(b"\0" * min(more, MEBIBYTE))
                except OSError:  # PostgreSQL was quicker
                    return

    def upload(self, name: str, content: bytes) -> httpx.Response:
        return upload(self.process, name, content, file_name=f"{name}.txt")

    def names(self) -> set[str]:
        """Return the listed external ids; assert that each document is indexed with a complete file."""
        listed = ok(self.process.call("catalog/listDocuments", {"pageSize": 1000}))["documents"]
        for one in listed:
            got = self.process.http.post("/api/v0/catalog/downloadDocument", json={"documentId": one["documentId"]})
            assert (got.status_code, got.content) == (200, content_of(one["documentName"].removesuffix(".txt")))
        return {one["documentName"].removesuffix(".txt") for one in listed}

    def readiness(self) -> tuple[int, str | None]:
        answer = self.process.http.get("/readyz")
        return answer.status_code, answer.json().get("storage")

    def search(self) -> int:
        found = ok(self.process.call("search/searchDocumentCatalog", {"searchQuery": "ferry to the island"}))
        return len(found["results"])


def content_of(name: str) -> bytes:
    return f"{name}. {TEXT}".encode() * 20 + b" island" * (40_000 if name.startswith("edge") else 0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A service with database, uploads and files on 64 MB; its larger model is elsewhere."""
    with embeddings_server() as environment, tempfile.TemporaryDirectory(prefix="carrel-model-") as model:
        process = ServiceProcess(from_nothing=True, **FEW_WRITERS, **environment)
        process.log = tmp_path / "service.log"
        mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=711", "tmpfs", str(process.data_dir)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            process.data_dir.rmdir()
            pytest.skip("only root may mount a file system")
        try:
            (process.data_dir / "model").symlink_to(model)
            bring_model(process.data_dir)
            process.start()
            yield SmallDisk(process)
        finally:
            for path in process.data_dir.glob("foreign*"):
                path.unlink()
            stop(process)


def stop(process: ServiceProcess) -> None:
    process.http.close()
    if process.process is not None and process.process.poll() is None:
        process.kill()
    process.database_server().stop()
    subprocess.run(["/bin/umount", "--lazy", str(process.data_dir)], check=True)
    process.data_dir.rmdir()


@pytest.mark.slow
def test_a_full_disk_is_refused_read_on_and_healed(disk: SmallDisk) -> None:
    names = {f"log-{number}" for number in range(5)}
    ids = [ok(disk.upload(name, content_of(name)))["documentId"] for name in sorted(names)]
    assert disk.readiness() == (200, None)
    names |= meet_at_the_edge(disk)
    names.remove("log-0")
    refuse_and_go_on(disk, len(names), deleting=ids[0])
    read_on_without_a_byte(disk, len(names))
    start_while_full(disk, names)
    heal(disk, names)


def meet_at_the_edge(disk: SmallDisk) -> set[str]:
    edges = ("edge-1", "edge-2")
    disk.fill(leaving=LOW + 6 * len(content_of("edge-1")))
    time.sleep(2 * LOOK_SECONDS)
    with ThreadPoolExecutor(2) as senders:
        answers = list(senders.map(lambda name: disk.upload(name, content_of(name)), edges))
    taken = {name for name, answer in zip(edges, answers, strict=True) if answer.status_code == 200}
    assert taken, [answer.text for answer in answers]
    # The other upload takes the room, or has taken it.
    for answer in answers:
        if answer.status_code != 200:
            refused(answer, *((503, "storage_busy") if answer.status_code == 503 else (507, "storage_full")))
    assert taken == {name for name in disk.names() if name in edges}
    assert len(list((disk.process.data_dir / "files").glob("*/*"))) == 5 + len(taken)
    return {f"log-{number}" for number in range(5)} | taken


def refuse_and_go_on(disk: SmallDisk, expected: int, *, deleting: str) -> None:
    process = disk.process
    disk.fill(leaving=LOW - MEBIBYTE)
    until(lambda: disk.readiness() == (200, "low"))
    answer = disk.upload("late", content_of("late"))
    said = refused(answer, 507, "storage_full")["message"]
    assert re.search(r"The disk of the database, uploads and files has \d MiB free, but this needs \d+ MiB", said), said
    assert int(answer.headers["Retry-After"]) > 0
    made = process.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"})
    refused(made, 507, "storage_full")
    ok(process.call("admin/users/upsert", {"users": [{"email": "ada@example.test", "name": "Ada"}]}))
    assert ok(process.call("admin/status/get"))["storage"][0]["level"] == "LOW"
    assert 'carrel_storage_free_bytes{area="database"}' in process.http.get("/metrics").text
    ok(process.call("catalog/deleteDocument", {"documentId": deleting}))
    until(lambda: disk.search() == expected)  # what was taken in at the edge is still indexed


def read_on_without_a_byte(disk: SmallDisk, expected: int) -> None:
    server = disk.process.database_server()
    with server.connect("postgres") as connection:  # log to spare: the disk fills faster than the reserve shrinks
        connection.execute("CHECKPOINT")
    database = server.process()
    disk.fill(leaving=0)
    until(lambda: disk.readiness() == (200, "full") and disk.free())
    disk.fill(leaving=0)
    for _ in range(10):
        assert disk.search() == expected
        ok(disk.process.call("catalog/listDocuments"))
    refused(disk.upload("late", content_of("late")), 507, "storage_full")
    assert disk.process.database_server().process() == database, "PostgreSQL didn't stay up"


def start_while_full(disk: SmallDisk, names: set[str]) -> None:
    disk.process.kill()
    disk.process.kill_database()
    disk.fill(leaving=0)
    disk.process.start()
    assert disk.readiness() == (200, "full")
    assert disk.names() == names
    assert disk.search() == len(names)
    refused(disk.upload("late", content_of("late")), 507, "storage_full")


def heal(disk: SmallDisk, names: set[str]) -> None:
    process = disk.process
    (process.data_dir / "foreign").unlink()
    until(lambda: disk.readiness() == (200, None))
    ok(disk.upload("late", content_of("late")))
    assert disk.names() == names | {"late"}
    assert disk.search() == len(names) + 1
    assert not any((process.data_dir / "uploads").iterdir())
    assert (process.data_dir / "postgres" / RESERVE_NAME).stat().st_size == SIZE // 16
    levels = [line for line in process.log.read_text().splitlines() if '"storage_level"' in line]
    assert 3 <= len(levels) <= 8, levels
