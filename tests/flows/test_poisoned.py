"""One poisoned file of each kind among five hundred: the others arrive, each poisoned one is named and mended."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from carrel import Carrel
from cli.app import run
from flows.settings import FlowSettings
from tests import made_files
from tests.harness.services import RunningService

_BODY = "word/document.xml"
_LAUGHS = (
    "<!DOCTYPE lolz [<!ENTITY a 'lollollollol'>"
    + "".join(f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9))
    + "]><x>&j;</x>"
)


def _cut(package: bytes) -> bytes:
    return package[: len(package) // 2]


@cache
def words() -> bytes:
    """Return a whole document."""
    return made_files.word(paragraphs=[("Normal", "some words")])


@cache
def poisoned() -> dict[str, tuple[bytes, set[str]]]:
    """Return a file of each kind, with the reasons of which it must be told."""
    return {
        "empty.md": (b"", {"file_empty"}),
        "blank.txt": (b" \n\t \n", {"file_without_text"}),
        "broken.pdf": (b"%PDF-1.7 this is no PDF", {"file_corrupt"}),
        "scanned.pdf": (made_files.picture_pdf(), {"file_without_text"}),
        "locked.pdf": (made_files.encrypted_pdf(), {"file_encrypted"}),
        "cut.docx": (_cut(words()), {"file_corrupt", "file_type_mismatch"}),
        "laughs.docx": (made_files.with_part(words(), _BODY, _LAUGHS.encode()), {"file_too_complex"}),
        "bomb.docx": (made_files.with_part(words(), _BODY, b"<a/>" * 40_000_000), {"file_too_complex"}),
        "cut.pptx": (_cut(made_files.slides()), {"file_corrupt", "file_type_mismatch"}),
        "cut.xlsx": (_cut(made_files.workbook(A=[["x"], [1]])), {"file_corrupt", "file_type_mismatch"}),
        "cut.zip": (_cut(made_files.archive({"readme.txt": "Words."})), {"file_corrupt"}),
        "picture.png": (b"\x89PNG\r\n\x1a\n" + bytes(100), {"file_corrupt"}),
        "program.md": (b"\x7fELF\x02\x01\x01" + bytes(500), {"file_type_unsupported", "file_type_mismatch"}),
        "deep.json": (b"[" * 200_000 + b"]" * 200_000, {"file_too_complex"}),
        "large.txt": (b"pears " * 200_000, {"file_too_large", "content_too_large"}),
    }


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Five hundred documents, and among them one poisoned file of each kind, three links and a name that is no text."""
    folder = tmp_path / "library"
    for number in range(500):
        path = folder / f"shelf-{number % 7}" / f"note-{number:03}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\nThe ferry number {number} leaves from pier {number * 7}.\n")
    for name, (contents, _) in poisoned().items():
        (folder / "shelf-3" / name).write_bytes(contents)
    (tmp_path / "secret.md").write_text("Outside.")
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "nowhere.md").symlink_to(folder / "gone.md")
    (folder / "round.md").symlink_to(folder / "round.md")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text("Not UTF-8.")
    return folder


@cache
def mended_files() -> dict[str, bytes]:
    """Return the damaged files as they are once they are mended; the others are taken away."""
    return {
        **dict.fromkeys(("empty.md", "blank.txt", "program.md", "large.txt"), b"Mended words."),
        **dict.fromkeys(("cut.docx", "laughs.docx", "bomb.docx"), words()),
        "broken.pdf": made_files.pdf([("Mended words.", 12)]),
        "deep.json": b'["Mended words."]',
    }


LINKS = {"out.md": "link_escapes", "nowhere.md": "link_broken", "caf\\udce9.md": "name_undecodable"}


@pytest.fixture
def carrel_json(flow_settings: FlowSettings, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `carrel … --json` in this process; returns the exit code and the object it printed."""
    assert flow_settings.api_key is not None

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = run([*arguments, "--json"])
        # Around it stands the service's log.
        return code, next(json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{"))

    return call


@pytest.fixture
def service(make_service: Any) -> RunningService:
    """A service that takes files up to a megabyte."""
    return make_service(max_upload_bytes=1_000_000)


def _names(service: RunningService) -> set[str]:
    with Carrel(service.api_key, service.base_url) as client:
        return {document.document_external_id for document in client.catalog.list_documents(page_size=1000)}


@pytest.mark.slow
def test_five_hundred_arrive_and_each_poisoned_one_is_named_and_can_be_mended(
    library: Path, service: RunningService, carrel_json: Any
) -> None:
    """Each poisoned file costs itself alone, keeps its reason over runs, is sent only once, and can be mended."""
    code, counts = carrel_json("upload", str(library), "--direct")
    assert (code, counts["created"], counts["waiting"], counts["indexing"]) == (1, 500, 0, 0)
    reasons = {Path(row["place"]).name: row["code"] for row in counts["failures"]}
    assert reasons.keys() == poisoned().keys() | LINKS.keys() | {"round.md"}
    assert {name: reasons[name] for name in LINKS} == LINKS
    wrong = {name: reasons[name] for name, (_, codes) in poisoned().items() if reasons[name] not in codes}
    assert wrong == {}
    assert all(row["reason"] for row in counts["failures"])
    assert len(_names(service)) == 500

    code, again = carrel_json("upload", str(library), "--direct")
    assert (code, again["unchanged"], again["sent_bytes"]) == (1, 500, 0)
    assert {Path(row["place"]).name for row in again["failures"]} == reasons.keys()
    _, listed = carrel_json("quarantine", "list")
    assert {Path(row["place"]).name for row in listed["quarantine"]} == reasons.keys()

    for name in poisoned():
        if name in mended_files():
            (library / "shelf-3" / name).write_bytes(mended_files()[name])
        else:
            (library / "shelf-3" / name).unlink()
    for name in ("out.md", "nowhere.md", "round.md"):
        (library / name).unlink()
        (library / name).write_text(f"{name} is a file now.")
    Path(os.fsdecode(os.fsencode(library) + b"/caf\xe9.md")).unlink()
    code, mended = carrel_json("quarantine", "retry", str(library))
    assert (code, mended["documents"], mended["quarantined"]) == (0, len(mended_files()) + 3, 0), mended["failures"]
    assert (mended["created"], mended["unchanged"]) == (len(mended_files()) + 3, 0)
    assert len(_names(service)) == 500 + len(mended_files()) + 3
    assert carrel_json("quarantine", "list")[1]["quarantine"] == []
    code, last = carrel_json("upload", str(library), "--direct")
    assert (code, last["sent_bytes"], last["unchanged"]) == (0, 0, len(_names(service)))
