"""A bad file of each kind among twelve notes: the notes arrive, and each bad file is named and can be repaired."""

from functools import cache
from pathlib import Path

import pytest

from flows.operations.jobs import Outcome
from flows.operations.ledger.ledger import Ledger
from flows.operations.quarantine import failure_rows
from tests import made_files

pytestmark = pytest.mark.own_service(max_upload_bytes=1_000_000)

NOTES = 12
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
    return made_files.word(paragraphs=[("Normal", "some words")])


@cache
def poisoned_files() -> dict[str, tuple[bytes, set[str]]]:
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
def library(library: Path) -> Path:
    """Twelve notes, a bad file of each kind, three links, and a name that is not valid text."""
    for name, (contents, _) in poisoned_files().items():
        (library / "shelf-2" / name).write_bytes(contents)
    (library.parent / "secret.md").write_text("Outside.")
    (library / "out.md").symlink_to(library.parent / "secret.md")
    (library / "nowhere.md").symlink_to(library / "gone.md")
    (library / "round.md").symlink_to(library / "round.md")
    (library / "caf\udce9.md").write_text("Not UTF-8.")
    return library


@cache
def mended_files() -> dict[str, bytes]:
    return {
        **dict.fromkeys(("empty.md", "blank.txt", "program.md", "large.txt"), b"Mended words."),
        **dict.fromkeys(("cut.docx", "laughs.docx", "bomb.docx"), words()),
        "broken.pdf": made_files.pdf([("Mended words.", 12)]),
        "deep.json": b'["Mended words."]',
    }


LINKS = {"out.md": "link_escapes", "nowhere.md": "link_broken", "caf\\udce9.md": "name_undecodable"}


def _reasons(outcome: Outcome) -> dict[str, str]:
    with Ledger(outcome.ledger) as ledger:
        ledger.join_latest()
        rows = failure_rows(ledger)
    assert all(row["reason"] for row in rows)
    return {Path(row["place"]).name: row["code"] for row in rows}


async def test_the_others_arrive_and_each_poisoned_one_is_named_and_can_be_mended(source) -> None:
    outcome = await source.load()
    first, reasons = outcome.summary, _reasons(outcome)
    assert (first.created, first.waiting, first.indexing) == (NOTES, 0, 0)
    assert reasons.keys() == poisoned_files().keys() | LINKS.keys() | {"round.md"}
    assert {name: reasons[name] for name in LINKS} == LINKS
    assert {name: reasons[name] for name, (_, codes) in poisoned_files().items() if reasons[name] not in codes} == {}
    assert len(source.documents()) == NOTES

    outcome = await source.load()
    assert (outcome.summary.unchanged, outcome.summary.sent_bytes) == (NOTES, 0)
    assert _reasons(outcome).keys() == reasons.keys()
    assert {Path(name).name for name in await source.quarantine()} == reasons.keys()

    for name in poisoned_files():
        (source.folder / "shelf-2" / name).unlink()
    for name, content in mended_files().items():
        source.write(f"shelf-2/{name}", content)
    for name in ("out.md", "nowhere.md", "round.md"):
        (source.folder / name).unlink()
        source.write(name, f"{name} is a file now.")
    (source.folder / "caf\udce9.md").unlink()
    mended, number = await source.retry(), len(mended_files()) + 3
    assert (mended.summary.documents, mended.summary.quarantined) == (number, 0), _reasons(mended)
    assert (mended.summary.created, mended.summary.unchanged) == (number, 0)
    assert len(source.documents()) == NOTES + number
    assert await source.quarantine() == {}
    last = (await source.load()).summary
    assert (last.sent_bytes, last.unchanged, last.complete) == (0, NOTES + number, True)
