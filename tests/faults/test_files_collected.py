"""Only files without a version are collected, even under concurrent changes."""

import asyncio
import hashlib
import json
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from service.domains.documents.files import queries
from service.domains.documents.files.collecting import collect_files, collect_when_due
from service.operate.backup.queries import open_snapshot
from service.operate.backup.taking import verify
from service.operate.commands import run
from service.platform.batches import Batch
from service.platform.database import driver_url
from service.platform.files import FileStore
from service.platform.identifiers import uuid7
from tests.harness.documents import ok, upload, uploaded
from tests.harness.object_store import Bucket, object_store
from tests.harness.services import MakeService, RunningService

pytestmark = pytest.mark.own_service  # these tests look at all of its store

TEXT = "The ferry leaves at noon."
DIGEST = hashlib.sha256(TEXT.encode()).digest()
# The service itself collects at its start, and then no more during a test.
AT_ONCE = {"file_grace_hours": 0, "sweep_seconds": 3600}


def collect(service: RunningService) -> int:
    return service.run(collect_files(service.runtime.beside_requests()))


@pytest.fixture
def make_service(make_service: MakeService) -> MakeService:
    """Start services without a trash that have looked at their stores, and so own the stores."""

    def make(**overrides: object) -> RunningService:
        service = make_service(**{"sweep_seconds": 3600, "trash_days": 0, **overrides})
        collect(service)
        return service

    return make


@pytest.fixture
def eager(make_service: MakeService) -> RunningService:
    return make_service(**AT_ONCE)


def delete(service: RunningService, document: dict[str, object]) -> None:
    ok(service.call("catalog/deleteDocument", {"documentId": document["documentId"]}))


def content_of(service: RunningService, document: dict[str, object]) -> bytes:
    return service.call("catalog/downloadDocument", {"documentId": document["documentId"]}).content


def stored(service: RunningService) -> set[str]:
    folder = service.runtime.files.folder
    assert folder is not None
    return {path.name for path in folder.glob("??/*")}


def let_hours_pass(service: RunningService, hours: int) -> None:
    service.execute("UPDATE unused_files SET since = since - make_interval(hours => %s)", [hours])


def test_a_deleted_documents_file_goes_after_the_grace(service: RunningService) -> None:
    first, second = uploaded(service, "first"), uploaded(service, "second")
    delete(service, first)
    assert collect(service) == 0
    let_hours_pass(service, 25)
    assert collect(service) == 0
    delete(service, second)
    assert collect(service) == 0
    let_hours_pass(service, 23)
    assert collect(service) == 0
    assert stored(service) == {DIGEST.hex()}
    let_hours_pass(service, 2)
    assert collect(service) == 1
    assert stored(service) == set()


def test_a_file_that_is_not_archived_stays(eager, tmp_path, monkeypatch) -> None:
    """The archive still needs the file, however long the archive is unreachable."""
    files = eager.runtime.files
    monkeypatch.setattr(files, "_unarchived", tmp_path)
    delete(eager, uploaded(eager, "notes"))
    for _ in range(2):  # noted, and then taken
        collect(eager)
        assert stored(eager) == {DIGEST.hex()}
        assert files.take_unarchived() == {DIGEST}
    files.drop_notes({DIGEST})
    collect(eager)
    assert stored(eager) == set()


def test_a_file_that_was_marked_in_error_stays(service: RunningService) -> None:
    uploaded(service, "notes")
    service.execute(
        "INSERT INTO unused_files VALUES (%s, 1, now() - interval '9 days'), (%s, 1, now() - interval '9 days')",
        [DIGEST, b"1" * 32],
    )
    collect(service)
    assert stored(service) == {DIGEST.hex()}
    assert service.execute("SELECT count(*) FROM unused_files") == [(0,)]


def test_a_file_that_can_not_be_deleted_keeps_no_other(eager: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = FileStore.delete

    async def refuse(store: FileStore, sha256: bytes) -> None:
        if sha256 == DIGEST:
            raise PermissionError(13, "Permission denied")
        await remove(store, sha256)

    monkeypatch.setattr(FileStore, "delete", refuse)
    for name, content in (("notes", TEXT), ("others", "Other words.")):
        delete(eager, uploaded(eager, name, content))
        with pytest.raises(PermissionError):
            collect(eager)
        assert stored(eager) == {DIGEST.hex()}


def test_the_same_bytes_come_back_within_the_grace_and_after_it(service: RunningService) -> None:
    document = uploaded(service, "notes")
    delete(service, document)
    collect(service)
    let_hours_pass(service, 23)
    delete(service, uploaded(service, "notes"))
    let_hours_pass(service, 23)
    assert collect(service) == 0
    let_hours_pass(service, 23)
    assert collect(service) == 0
    assert stored(service) == {DIGEST.hex()}
    let_hours_pass(service, 2)
    assert collect(service) == 1
    document = uploaded(service, "notes")
    assert content_of(service, document) == TEXT.encode()


def test_a_file_that_is_collected_during_its_upload_is_stored_again(eager, monkeypatch) -> None:
    put = FileStore.put
    came: list[bool] = []

    async def put_and_collect(store: FileStore, path: Path, sha256: bytes) -> None:
        await put(store, path, sha256)
        if not came:
            came.append(True)
            while await store.exists(sha256):
                await collect_files(eager.runtime.beside_requests())

    monkeypatch.setattr(FileStore, "put", put_and_collect)
    document = uploaded(eager, "notes")
    assert came
    assert content_of(eager, document) == TEXT.encode()


def test_what_an_upload_or_a_backup_holds_is_left_alone(eager: RunningService) -> None:
    delete(eager, uploaded(eager, "notes"))

    async def collect_beside_an_upload() -> int:
        async with eager.runtime.database.transaction(None) as connection:
            upload_begins = Batch()
            queries.keep_file(upload_begins, sha256=DIGEST)
            await upload_begins.run(connection)
            return await collect_files(eager.runtime.beside_requests())

    owner = driver_url(eager.settings.database_url.get_secret_value())  # type: ignore[union-attr]
    with open_snapshot(owner):
        assert collect(eager) == 0
    # It is marked by now, and the upload takes the mark away, which the collector doesn't wait for.
    assert eager.run(collect_beside_an_upload()) == 0
    assert stored(eager) == {DIGEST.hex()}
    assert collect(eager) == 1


def test_a_backup_taken_while_files_are_collected_is_whole(eager, tmp_path, capsys) -> None:
    documents = [uploaded(eager, f"note {number}", f"{TEXT} {number}") for number in range(20)]

    async def delete_and_collect() -> None:
        for document in documents:
            await asyncio.to_thread(delete, eager, document)
            await collect_files(eager.runtime.beside_requests())

    beside = eager.loop.submit(delete_and_collect())
    archives = [tmp_path / f"{number}.tar.gz" for number in range(3)]
    for archive in archives:
        assert run(["backup", str(archive)], eager.settings) == 0, capsys.readouterr().err
    beside.result(60)
    collect(eager)
    assert stored(eager) == set()
    for archive in archives:
        with archive.open("rb") as file:
            manifest = verify(file)
        assert manifest.contents.files == manifest.rows["document_versions"]


def linger_after(step: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def do(*arguments: object) -> None:
        await step(*arguments)
        await asyncio.sleep(0.05)

    return do


def test_several_collect_at_once_beside_uploads(eager: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in ("put", "ensure"):
        monkeypatch.setattr(FileStore, step, linger_after(getattr(FileStore, step)))
    contents = [f"{TEXT} {number}" for number in range(3)]

    async def come_and_go(thread: int) -> None:
        for turn in range(6):
            content = contents[(thread + turn) % len(contents)]
            document = ok(await asyncio.to_thread(upload, eager, f"note {thread}", content))
            if turn < 5:
                await asyncio.to_thread(delete, eager, document)

    async def keep_collecting() -> None:
        while True:
            await collect_files(eager.runtime.beside_requests())

    async def do_all() -> None:
        collecting = [asyncio.create_task(keep_collecting()) for _ in range(2)]
        await asyncio.gather(*(come_and_go(thread) for thread in range(4)))
        for task in collecting:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    eager.run(do_all())
    collect(eager)
    kept = {contents[(thread + 5) % len(contents)] for thread in range(4)}
    assert stored(eager) == {hashlib.sha256(content.encode()).hexdigest() for content in kept}


def test_what_a_killed_put_left_goes_and_other_things_stay(service: RunningService) -> None:
    """A partial file unchanged for a day is removed from a folder; foreign files stay."""
    folder = service.runtime.files.folder
    assert folder is not None
    (folder / "ab").mkdir()
    half, strange = folder / "ab" / f"{'ab' * 32}#1", folder / "ab" / "readme#1"
    for path in (half, strange):
        path.write_bytes(b"half")
    collect(service)
    assert half.exists()
    service.runtime.files.remove_leftovers()
    assert not half.exists()
    assert strange.exists()


def test_a_store_that_is_another_deployments_is_left_alone(make_service: MakeService, tmp_path: Path) -> None:
    first = make_service(files_url=(tmp_path / "store").as_uri(), **AT_ONCE)
    assert collect(first) == 0
    assert first.runtime.files.has_owner()
    uploaded(first, "notes")
    first.execute("UPDATE deployment SET store_id = %s", [uuid7()])
    first.execute("DELETE FROM document_versions")
    assert collect(first) == 0
    assert stored(first) == {DIGEST.hex()}
    # Nor does it become the deployment's when nobody has claimed it yet, as before the first update.
    (tmp_path / "store" / "deployment").unlink()
    assert collect(first) == 0
    assert not first.runtime.files.has_owner()
    assert stored(first) == {DIGEST.hex()}


@pytest.mark.slow
def test_files_in_a_bucket_are_collected_and_checked(make_service, tmp_path, monkeypatch, capsys) -> None:
    with object_store(str(tmp_path / "log")) as given:
        for name, value in given.environment.items():
            monkeypatch.setenv(name, value)
        bucket = Bucket(given.endpoint, given.environment).make()
        bucket.put("other/readme.md", b"not ours")
        service = make_service(files_url=f"s3://{bucket.name}/carrel", **AT_ONCE)
        document, kept = uploaded(service, "notes"), uploaded(service, "kept", "Other words.")
        delete(service, document)
        assert collect(service) == 1
        assert not service.run(service.runtime.files.exists(DIGEST))
        assert content_of(service, kept) == b"Other words."
        assert run(["files", "check"], service.settings) == 0
        archive = tmp_path / "backup.tar.gz"
        assert run(["backup", str(archive)], service.settings) == 0
        other = service.settings.model_copy(update={"data_dir": tmp_path / "other"})
        capsys.readouterr()
        assert run(["restore", str(archive)], other) == 1
        assert "CARREL_FILES_URL" in capsys.readouterr().err


def test_check_finds_what_is_missing_altered_and_left_over(service, capsys) -> None:
    """The exit code is 1 only for a faulty file of a document."""
    names = ("whole", "missing", "altered", "shorter", "left")
    made = {name: uploaded(service, name, f"{TEXT} {name}") for name in names}
    digests = {name: hashlib.sha256(f"{TEXT} {name}".encode()).hexdigest() for name in names}
    delete(service, made["left"])
    capsys.readouterr()
    assert run(["files", "check"], service.settings) == 0
    said = capsys.readouterr()
    # Only not empty because the service, in this process, may log a line there meanwhile.
    assert "left over" not in said.out
    assert "4 files" in said.err
    assert "0 missing, 0 altered" in said.err
    assert "1 file left over" in said.err
    folder = service.runtime.files.folder
    assert folder is not None
    places = {name: folder / digest[:2] / digest for name, digest in digests.items()}
    places["missing"].unlink()
    places["altered"].write_bytes(f"{TEXT} aLtered".encode())
    places["shorter"].write_bytes(b"")
    before = {path: path.read_bytes() for path in folder.glob("??/*")}

    def faults(*options: str) -> dict[str, str]:
        assert run(["files", "check", "--json", *options], service.settings) == 1
        result = json.loads(next(line for line in capsys.readouterr().out.splitlines() if "leftOver" in line))
        assert (result["files"], result["leftOver"]) == (4, 1)
        assert result["leftOverBytes"] == len(f"{TEXT} left")
        return {document: one["fault"] for one in result["faulty"] for document in one["documentIds"]}

    expected = {"missing": "MISSING", "altered": "ALTERED", "shorter": "ALTERED"}
    assert faults() == {made[name]["documentId"]: fault for name, fault in expected.items()}
    del expected["altered"]
    assert faults("--quick") == {made[name]["documentId"]: fault for name, fault in expected.items()}
    assert {path: path.read_bytes() for path in folder.glob("??/*")} == before
    assert run(["files", "check"], service.settings) == 1
    assert f"missing: {digests['missing']}, of {made['missing']['documentId']}" in capsys.readouterr().err


def test_one_of_several_processes_collects_in_a_period(eager: RunningService) -> None:
    delete(eager, uploaded(eager, "notes"))

    async def collect_in_several() -> None:
        await asyncio.gather(*(collect_when_due(eager.runtime.beside_requests()) for _ in range(4)))

    eager.run(collect_in_several())
    assert stored(eager) == {DIGEST.hex()}
    eager.execute("UPDATE deployment SET files_listed_at = files_listed_at - interval '1 hour'")
    begun = eager.execute("SELECT files_listed_at FROM deployment")
    eager.run(collect_in_several())
    assert stored(eager) == set()
    assert eager.execute("SELECT files_listed_at FROM deployment") > begun


def test_deletions_under_way_keep_their_locks(eager: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a cancelled collection or a failed deletion, an upload still waits for unanswered deletions."""
    texts = {name: f"{TEXT} {name}" for name in ("slow", "refused")}
    digests = {name: hashlib.sha256(text.encode()).digest() for name, text in texts.items()}
    remove = FileStore.delete
    began, goes_on = threading.Event(), threading.Event()

    async def remove_slowly(store: FileStore, sha256: bytes) -> None:
        if sha256 == digests["refused"]:
            raise PermissionError(13, "Permission denied")
        began.set()
        await asyncio.to_thread(goes_on.wait, 30)
        await remove(store, sha256)

    for name, content in texts.items():
        delete(eager, uploaded(eager, name, content))
    monkeypatch.setattr(FileStore, "delete", remove_slowly)
    tasks: list[asyncio.Task[Any] | None] = []

    async def begin() -> None:
        tasks.append(asyncio.current_task())
        await collect_files(eager.runtime.beside_requests())

    async def cancel() -> None:
        for task in tasks * 2:
            assert task is not None
            task.cancel()
            await asyncio.sleep(0.1)

    eager.loop.submit(begin())
    assert began.wait(30)
    eager.run(cancel())
    with ThreadPoolExecutor() as threads:
        sent = threads.submit(uploaded, eager, "slow", texts["slow"])
        with pytest.raises(TimeoutError):
            sent.result(1)
        goes_on.set()
        document = sent.result(30)
    assert content_of(eager, document) == texts["slow"].encode()
    with pytest.raises(PermissionError):
        collect(eager)
    monkeypatch.undo()
    assert collect(eager) == 1
    assert stored(eager) == {digests["slow"].hex()}


def test_files_are_collected_though_the_database_takes_no_marks(make_service, monkeypatch) -> None:
    """On a full disk no file can be marked, but already marked files are removed, which frees space."""
    service = make_service()
    delete(service, uploaded(service, "notes"))
    collect(service)
    let_hours_pass(service, 25)

    async def find_no_room(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    uploaded(service, "others", "Other words.")
    service.execute("DELETE FROM document_versions")
    monkeypatch.setattr(queries, "mark_unused", find_no_room)
    with pytest.raises(OSError, match="No space"):
        collect(service)
    assert DIGEST.hex() not in stored(service)
