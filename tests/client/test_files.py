"""Uploads and downloads of files: streamed, rewound, complete or not at all."""

import io
import os
import threading
import tracemalloc
from email.message import Message
from pathlib import Path

import pytest

from carrel import APIConnectionError, CarrelError, InvalidArgumentError, NotFoundError, PermissionDeniedError
from carrel._uploads import READ_SIZE, Upload, source_of
from carrel.wire.uploads import UploadFileForm
from tests.client.conftest import Caller
from tests.client.samples import DOCUMENT_ID, OTHER_ID, UPLOADED
from tests.client.server import Received, Server, cut_short, raw, refuse
from tests.harness.cases import cases

BIG = os.urandom(READ_SIZE * 2 + 17)


def _content(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content


def _file_of(request: Received, part: str = "file") -> tuple[str | None, bytes]:
    message = request.parts[part]
    return message.get_filename(), _content(message)


def _upload(file, **options):
    return lambda client: client.catalog.upload_file(file, document_external_id="a", **options)


async def test_every_part(caller: Caller, server: Server) -> None:
    given: dict = {
        "document_name": "Réport «final» 📎",
        "collection_id": OTHER_ID,
        "upload_as_user_email": "ada@example.com",
        "allowed_users_email_addresses": ["ada@example.com", "bob@example.com"],
        "allowed_group_ids": [],
        "internal_public": False,
        "document_external_url": "https://example.com/a",
        "custom_metadata": {"team": 'o"p\ns'},
        "source_system_updated": "2026-01-31T09:30:00+01:00",
        "resource_id": "page-1",
        "resource_type": "CONFLUENCE_PAGE",
        "force_update": True,
        "reindex_collections": False,
        "fingerprint": "f-1",
        "await_vector_store_sync": True,
        "read_pictures": True,
    }
    server.will(UPLOADED)
    uploaded = await caller(_upload(b"hello", **given))
    texts = {name: _content(part).decode() for name, part in server.received[0].parts.items()}
    assert texts.popitem() == ("file", "hello")
    assert UploadFileForm.model_validate(texts) == UploadFileForm(document_external_id="a", **given)
    assert set(UploadFileForm.model_fields) == {"document_external_id", *given}
    assert (str(uploaded.document_id), uploaded.status, uploaded.indexing) == (DOCUMENT_ID, "CREATED", "DONE")


async def test_absent_parts_stay_absent(caller: Caller, server: Server) -> None:
    """An update leaves unsent access unchanged; an empty list removes all access."""
    server.will(UPLOADED, UPLOADED)
    await caller(_upload(b"hello"))
    await caller(_upload(b"hello", allowed_group_ids=[]))
    names = [{name for name in one.parts if name.startswith(("allowed", "internal"))} for one in server.received]
    assert names == [set(), {"allowedGroupIds"}]


@pytest.mark.parametrize("kind", ["path", "text path", "bytes", "file", "mid-file"])
@pytest.mark.parametrize("content", [b"", b"hello", BIG], ids=["empty", "small", "big"])
async def test_kinds_of_files(caller: Caller, server: Server, tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / "report.bin"
    path.write_bytes(content)
    server.will(refuse(503), UPLOADED)
    with path.open("rb") as opened, io.BytesIO(b"skip" + content) as memory:
        memory.seek(4)
        files = {"path": path, "text path": str(path), "bytes": content, "file": opened, "mid-file": memory}
        await caller(_upload(files[kind]))
        assert not opened.closed
        assert not memory.closed
    for request in server.received:
        name, received = _file_of(request)
        assert received == content
        assert name == ("report.bin" if kind in {"path", "text path", "file"} else "a")
        assert int(request.headers["content-length"]) == len(request.body)
    assert len(server.received) == 2


class Pipe(io.BytesIO):
    """Bytes readable only once."""

    def seekable(self) -> bool:
        return False


async def test_pipes_are_sent_once(caller: Caller, server: Server) -> None:
    server.will(UPLOADED)
    await caller(_upload(Pipe(BIG), file_name="stream.bin"))
    assert _file_of(server.received[0]) == ("stream.bin", BIG)
    assert server.received[0].headers["transfer-encoding"] == "chunked"
    server.will(refuse(503), UPLOADED)
    with pytest.raises(CarrelError, match="503"):
        await caller(_upload(Pipe(BIG)))
    assert caller.naps == []


async def test_file_that_gets_shorter(caller: Caller, server: Server) -> None:
    class Shrinking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            del size
            return b""

    with pytest.raises(CarrelError, match="became shorter"):
        await caller(_upload(Shrinking(BIG)))
    assert not server.received


async def test_unreadable_files(caller: Caller, server: Server, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await caller(_upload(tmp_path / "absent"))
    with pytest.raises(IsADirectoryError):
        await caller(_upload(tmp_path))
    with pytest.raises(InvalidArgumentError, match="'rb'"):
        await caller(_upload(io.StringIO("text")))
    with pytest.raises(InvalidArgumentError, match="together"):
        await caller(_upload(b"", resource_id="alone"))
    assert not server.received


@pytest.mark.parametrize("name", ['a"b.txt', "a\r\nX-Evil: 1.txt", "naïve 📎.txt", "a/b.txt", "\udcff.txt"])
async def test_odd_file_names(caller: Caller, server: Server, name: str) -> None:
    server.will(UPLOADED)
    await caller(_upload(b"hello", file_name=name))
    assert "x-evil" not in {key.lower() for key in server.received[0].parts["file"]}
    assert _file_of(server.received[0])[1] == b"hello"


async def test_upload_document_file(caller: Caller, server: Server) -> None:
    server.will(refuse(503), UPLOADED)
    await caller(lambda c: c.catalog.upload_document_file(b"hello", file_name="a.txt"))
    assert [_file_of(request, "document") for request in server.received] == [("a.txt", b"hello")] * 2
    assert set(server.received[0].parts) == {"document"}
    assert len({request.headers["idempotency-key"] for request in server.received}) == 1


async def test_refused_upload(caller: Caller, server: Server) -> None:
    server.will(refuse(403, "external_id_taken"))
    with pytest.raises(PermissionDeniedError) as caught:
        await caller(_upload(BIG))
    assert caught.value.code == "external_id_taken"


def test_uploads_are_never_whole_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(64 * 2**20)
    upload = Upload(fields={}, part="file", source=source_of(path, file_name=None, fallback_name="x"))
    tracemalloc.start()
    size = sum(len(piece) for piece in upload.stream())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == upload.length
    assert peak < 2 * 2**20


async def test_async_uploads_read_in_a_thread() -> None:
    readers = set()

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            readers.add(threading.get_ident())
            return super().read(size)

    upload = Upload(fields={}, part="file", source=source_of(Watched(BIG), file_name="x", fallback_name="x"))
    assert BIG in b"".join([piece async for piece in upload.stream()])
    assert readers
    assert threading.get_ident() not in readers


def _names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def _download(caller: Caller):
    return await caller(lambda c: c.catalog.download_document(DOCUMENT_ID, document_version=2))


async def test_download(caller: Caller, server: Server, tmp_path: Path) -> None:
    headers = {"content-type": "text/plain; charset=utf-8", "content-disposition": "attachment; filename=travel.txt"}
    server.will(*[raw(BIG, headers=headers)] * 5)
    download = await _download(caller)
    assert (download.file_name, download.media_type, download.size) == ("travel.txt", "text/plain", len(BIG))
    assert await caller(lambda _: download.read()) == BIG
    assert server.received[0].json == {"documentId": DOCUMENT_ID, "documentVersion": 2}
    pieces = await caller.walk((await _download(caller)).iter_bytes())
    assert b"".join(pieces) == BIG
    assert len(pieces) > 1
    for target, expected in ((tmp_path / "x.bin", "x.bin"), (tmp_path, "travel.txt")):
        download = await _download(caller)
        saved = await caller(lambda _, download=download, target=target: download.save(target))
        assert (saved, saved.read_bytes()) == (tmp_path / expected, BIG)
    assert _names_in(tmp_path) == ["travel.txt", "x.bin"]
    download = await _download(caller)
    with pytest.raises(FileExistsError, match="replace=True"):
        await caller(lambda _: download.save(tmp_path))


async def test_a_page_tells_how_many_there_are(caller: Caller, server: Server) -> None:
    headers = {"content-type": "image/jpeg", "page-count": "12"}
    server.will(raw(b"page", headers=headers), raw(b"file", headers={"content-type": "text/plain"}))
    page = await caller(lambda c: c.catalog.download_document_page(DOCUMENT_ID, 3))
    assert (await caller(lambda _: page.read()), page.page_count) == (b"page", 12)
    assert server.received[0].json == {"documentId": DOCUMENT_ID, "page": 3}
    download = await caller(lambda c: c.catalog.download_document(DOCUMENT_ID))
    assert (await caller(lambda _: download.read()), download.page_count) == (b"file", None)


async def test_a_download_tells_how_far_it_is(caller: Caller, server: Server, tmp_path: Path) -> None:
    server.will(*[raw(BIG, headers={"content-type": "text/plain"})] * 2)
    told: list[tuple[int, int | None]] = []
    download = await _download(caller)
    await caller(lambda _: download.save(tmp_path / "x.bin", on_progress=lambda *now: told.append(now)))
    assert (told[0], told[-1]) == ((0, len(BIG)), (len(BIG), len(BIG)))
    assert len(told) > 3
    assert told == sorted(told)

    def stop(received: int, total: int | None) -> None:
        raise InterruptedError(received, total)

    ended = await _download(caller)
    with pytest.raises(InterruptedError):
        await caller(lambda _: ended.save(tmp_path / "y.bin", on_progress=stop))
    assert _names_in(tmp_path) == ["x.bin"]


async def test_broken_download_leaves_nothing(caller: Caller, server: Server, tmp_path: Path) -> None:
    target = tmp_path / "x.bin"
    target.write_bytes(b"before")
    server.will(cut_short(BIG, promised=len(BIG) * 2))
    download = await _download(caller)
    with pytest.raises(APIConnectionError):
        await caller(lambda _: download.save(target, replace=True))
    assert target.read_bytes() == b"before"
    assert _names_in(tmp_path) == [target.name]


async def test_refused_download(caller: Caller, server: Server) -> None:
    server.will(refuse(503), refuse(404, "not_found"))
    with pytest.raises(NotFoundError, match="request-1"):
        await _download(caller)
    assert len(server.received) == 2


async def test_download_closed_unread(caller: Caller, server: Server) -> None:
    server.will(raw(BIG), {"documentId": DOCUMENT_ID})
    download = await _download(caller)
    await caller.enter(download)
    assert download._response.is_closed
    await caller(lambda c: c.catalog.delete_document(DOCUMENT_ID))


@pytest.mark.parametrize(
    ("header", "expected"),
    [*cases("names_of_downloads"), (f"attachment; filename*=UTF-8''{'%C3%A4' * 200}.docx", "ä" * 125 + ".docx")],
)
async def test_download_names(caller: Caller, server: Server, header: str, expected: str) -> None:
    server.will(raw(b"x", headers={"content-disposition": header}))
    download = await _download(caller)
    assert download.file_name == expected
    await caller(lambda _: download.read())
