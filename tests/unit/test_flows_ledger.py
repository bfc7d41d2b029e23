"""The ledger: persistence over runs, crashes and rivals, and trust in hashes of files."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flows.errors import LedgerError
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Action, Digest, Entry, Sent, State
from flows.operations.quarantine import failure_rows, write_quarantine
from flows.operations.sources.contents import hash_files
from flows.operations.sources.documents import Access, Problem, SourceDocument
from flows.operations.summary import summarize


@contextmanager
def begun(folder: Path) -> Iterator[Ledger]:
    with Ledger.at(folder, target="http://x", source="/library") as opened:
        opened.begin()
        yield opened


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with begun(tmp_path) as opened:
        yield opened


def an_entry(key: str, fingerprint: str = "f1") -> Entry:
    document = SourceDocument(path=f"/library/{key}", external_id=key, name=key, file_name=key, place=key)
    return Entry(document, size=10, sha256=bytes(32), fingerprint=fingerprint)


def planned(ledger: Ledger, *keys: str) -> None:
    ledger.record([an_entry(key) for key in keys])
    ledger.apply_plan(dict.fromkeys(keys, Action.CREATE))


def pending_in(ledger: Ledger) -> list[str]:
    return sorted(entry.document.external_id for entry in ledger.pending(partition=0, partitions=1))


def test_document_comes_back_as_it_went_in(ledger: Ledger) -> None:
    document = SourceDocument(
        path="/library/ä.md",
        external_id="id",
        name="Näme 🚢",
        file_name="ä.md",
        access=Access(users=("a@x.org",), groups=("g",), internal_public=True),
        metadata={"k": "v"},
        collection="c",
        external_url="https://x.org",
        place="line 7",
    )
    before = Entry(document, size=3, sha256=b"\7" * 32, fingerprint="f")
    ledger.record([before])
    ledger.apply_plan({"id": Action.CREATE})
    assert ledger.pending(partition=0, partitions=1) == [before]


def test_catalog_that_lost_a_document_gets_it_again(ledger: Ledger) -> None:
    planned(ledger, "a")
    ledger.mark_sent("a", Sent(State.INDEXED, "1", 10, "f1"))
    ledger.apply_plan({"a": Action.CREATE})
    assert pending_in(ledger) == ["a"]


def test_changed_document_is_sent_again_by_a_resumed_run(tmp_path: Path) -> None:
    for fingerprint in ("f1", "f2"):
        with begun(tmp_path) as opened:
            opened.record([an_entry("a", fingerprint)])
            opened.apply_plan({"a": Action.UPDATE})
            assert pending_in(opened) == ["a"]
            opened.mark_sent("a", Sent(State.INDEXED, "1", 10, fingerprint))


def test_documents_that_left_the_source_are_forgotten(tmp_path: Path) -> None:
    for keys in (["a", "b"], ["b"]):
        with begun(tmp_path) as opened:
            opened.record([an_entry(key) for key in keys])
            opened.forget_unseen()
            opened.apply_plan(dict.fromkeys(["a", "b"], Action.CREATE))
            assert pending_in(opened) == keys


def test_repeated_external_id_is_given_back(ledger: Ledger) -> None:
    assert [item.fingerprint for item in ledger.record([an_entry("a", "1"), an_entry("a", "2")])] == ["2"]
    assert [item.fingerprint for item in ledger.record([an_entry("b"), an_entry("a", "3")])] == ["3"]


def test_refused_document_is_not_sent_again_until_it_changes(tmp_path: Path) -> None:
    for fingerprint, expected in (("f1", ["a"]), ("f1", []), ("f2", ["a"])):
        with begun(tmp_path) as opened:
            opened.record([an_entry("a", fingerprint)])
            opened.apply_plan({"a": Action.CREATE})
            opened.set_aside()
            assert pending_in(opened) == expected
            if expected:
                opened.mark_failed(
                    an_entry("a", fingerprint), state=State.FAILED, code="file_empty", message="m", for_good=True
                )
            assert [row["code"] for row in failure_rows(opened)] == ["file_empty"]
            opened.finish()


def test_quarantine_lists_the_source_first_and_is_written_whole(ledger: Ledger, tmp_path: Path) -> None:
    ledger.record([an_entry("b"), an_entry("a"), an_entry("fine")])
    ledger.record_problems([Problem("line 9", "row_invalid", "bad"), Problem("line 2", "row_invalid", "worse", "x")])
    ledger.apply_plan({"a": State.FORBIDDEN, "b": Action.CREATE, "fine": State.UNCHANGED})
    ledger.mark_failed(an_entry("b"), state=State.FAILED, code="file_corrupt", message="broken", for_good=False)
    assert [(row["place"], row["code"]) for row in failure_rows(ledger)] == [
        ("line 9", "row_invalid"),
        ("line 2", "row_invalid"),
        ("a", "external_id_taken"),
        ("b", "file_corrupt"),
    ]
    assert write_quarantine(ledger, tmp_path / "out" / "q.jsonl") == 4
    assert len((tmp_path / "out" / "q.jsonl").read_text().splitlines()) == 4
    assert summarize(ledger).quarantined == 4


def test_partitions_hold_every_document_once(ledger: Ledger) -> None:
    keys = [f"doc-{number}" for number in range(500)]
    planned(ledger, *keys)
    found = [item.document.external_id for n in range(7) for item in ledger.pending(partition=n, partitions=7)]
    assert sorted(found) == sorted(keys)


@pytest.mark.parametrize(
    ("later_ns", "is_trusted"), [(3_000_000_000, True), (1_000_000_000, False), (-1, False)], ids=str
)
def test_hash_is_trusted_only_for_a_file_that_was_old_when_read(ledger, tmp_path, later_ns, is_trusted):
    path = tmp_path / "a"
    path.write_text("x")
    read = _digest_of(ledger, path)
    kept = replace(read, sha256=b"kept".ljust(32), taken_at_ns=path.stat().st_ctime_ns + later_ns)
    ledger.keep_digests({str(path): kept})
    assert _digest_of(ledger, path).sha256 == (kept.sha256 if is_trusted else read.sha256)


def _digest_of(ledger: Ledger, path: Path) -> Digest:
    found = hash_files(ledger, [str(path)])[str(path)]
    assert isinstance(found, Digest)
    return found


def test_edit_is_seen_though_the_modification_time_was_set_back(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old!")
    os.utime(path, (time.time() - 10, time.time() - 10))
    before = path.stat()
    first = _digest_of(ledger, path)
    time.sleep(0.02)
    path.write_text("new!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = _digest_of(ledger, path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert first.sha256 != second.sha256


def test_known_file_is_not_read(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    monkeypatch.setattr("flows.operations.sources.contents._RACY_NS", -(10**12))
    first = hash_files(ledger, [str(path)])
    monkeypatch.setattr("flows.operations.sources.contents.FileIO", None)
    assert hash_files(ledger, [str(path)]) == first


def test_unreadable_file_is_given_back_as_its_error(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    found = hash_files(ledger, [str(tmp_path / "gone"), str(path)])
    assert isinstance(found[str(tmp_path / "gone")], FileNotFoundError)
    assert isinstance(found[str(path)], Digest)


def test_full_disk_is_said_and_leaves_the_ledger_usable(ledger: Ledger) -> None:
    ledger.record([an_entry("kept")])
    with ledger._store.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(LedgerError, match="Free disk space"):
        ledger.record_problems([Problem(place=f"{n}" + "x" * 3000, code="c", message="m") for n in range(200)])
    with ledger._store.read() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    ledger.apply_plan({"kept": Action.CREATE})
    assert pending_in(ledger) == ["kept"]


def test_damaged_ledger_is_said_and_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(LedgerError, match="data"):
        Ledger.at(tmp_path / "data" / "ledgers", target="t", source="s")
    for suffix in (".sqlite", ".lock"):
        with Ledger.at(tmp_path, target="t", source=suffix) as ledger:
            path = ledger.address.path.with_suffix(suffix)
        path.write_bytes(b"this is no database" * 1000)
        with pytest.raises(LedgerError, match=path.name), Ledger.at(tmp_path, target="t", source=suffix) as ledger:
            ledger.begin()
        path.unlink()
        with Ledger.at(tmp_path, target="t", source=suffix) as ledger:
            ledger.begin()
