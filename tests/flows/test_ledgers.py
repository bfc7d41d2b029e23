"""Ledgers in a file and in PostgreSQL: equal promises, and the extra promises of a shared ledger."""

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from flows.errors import LedgerError, SourceBusyError
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Action, Digest, Sent, State
from flows.operations.sources.documents import Access, Problem
from flows.operations.summary import summarize
from tests.harness.cases import script
from tests.unit.test_flows_ledger import an_entry, pending_in, planned

Open = Callable[..., Ledger]


@pytest.fixture(params=["file", "database"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    url = request.getfixturevalue("database_url") if request.param == "database" else None
    return lambda source="s": Ledger.at(tmp_path, target="t", source=source, database_url=url)


@pytest.fixture
def shared(tmp_path: Path, database_url: SecretStr) -> Open:
    return lambda source="s": Ledger.at(tmp_path, target="t", source=source, database_url=database_url)


@contextmanager
def _run(open_ledger: Open) -> Iterator[Ledger]:
    with open_ledger() as ledger:
        ledger.begin()
        yield ledger


def _sent(ledger: Ledger, key: str, fingerprint: str = "f1", parts_not_read: int = 0, pages_waiting: int = 0) -> None:
    ledger.mark_sent(key, Sent(State.INDEXED, f"id-{key}", 10, fingerprint, parts_not_read, pages_waiting))


def _missing(ledger: Ledger) -> list[str]:
    return sorted(missing.external_id for _, missing in ledger.find_missing())


def test_run_goes_from_scan_to_end_and_leaves_what_was_sent(open_ledger: Open) -> None:
    digest = Digest(3, "marker", b"\1" * 32, 2**62)
    with open_ledger() as ledger:
        ledger.begin(options='{"source": "s"}')
        ledger.keep_digests({"/library/a": digest})
        planned(ledger, "a", "b", "c")
        ledger.record_problems([Problem("line 2", "row_invalid", "bad \udcff\0", "x\udcff")])
        assert [entry.document.external_id for entry in ledger.record([an_entry("a", "other")])] == ["a"]
        _sent(ledger, "a", parts_not_read=2, pages_waiting=12)
        ledger.mark_failed(an_entry("b"), state=State.FAILED, code="file_empty", message="Empty.", for_good=True)
        summary = summarize(ledger)
        assert (summary.created, summary.failed, summary.problems, summary.waiting) == (1, 1, 1, 1)
        assert (summary.partly_read, ledger.partly_read(limit=20)) == (1, ["a"])
        assert "1 read only in part, 12 scanned pages or pictures are still being read" in summary.text()
        assert summary.sent_bytes == 10
        assert [(one.place, one.code) for one in ledger.failures()] == [("line 2", "row_invalid"), ("b", "file_empty")]
        assert ledger.failure_codes() == {"row_invalid": 1, "file_empty": 1}
        ledger.finish()
    with _run(open_ledger) as ledger:
        assert ledger.digests(["/library/a", "/library/b"]) == {"/library/a": digest}
        assert summarize(ledger).documents == 0
        assert _missing(ledger) == ["a", "c"]  # c may have been sent without anybody having heard of it


def test_killed_run_is_taken_up_where_it_was(open_ledger: Open) -> None:
    with _run(open_ledger) as first:
        planned(first, "a", "b")
        _sent(first, "a")
        key = first.run.key
    with _run(open_ledger) as second:
        assert second.run.key == key
        second.record([an_entry("a"), an_entry("b")])
        second.forget_unseen()
        second.apply_plan({"a": State.UNCHANGED, "b": Action.CREATE})
        assert pending_in(second) == ["b"]
        assert summarize(second).created == 1
        second.finish()
    with _run(open_ledger) as third:
        assert third.run.key != key
        assert summarize(third).documents == 0


def test_document_that_arrived_unheard_of_is_known_as_sent(open_ledger: Open) -> None:
    with _run(open_ledger) as first:
        planned(first, "heard", "gone")
    with _run(open_ledger) as second:
        second.record([an_entry("heard"), an_entry("of others")])
        second.forget_unseen()
        second.apply_plan({"heard": State.UNCHANGED, "of others": State.UNCHANGED})
        second.finish()
    with _run(open_ledger) as third:
        found = {one.external_id: (one.fingerprint, one.intended) for _, one in third.find_missing()}
        assert found == {"heard": ("f1", None), "gone": (None, "f1")}


def test_second_run_on_a_source_is_told_who_has_it(open_ledger: Open) -> None:
    with open_ledger() as first, open_ledger() as rival, open_ledger("other") as other:
        first.begin()
        with pytest.raises(SourceBusyError, match=f"process {os.getpid()}"):
            rival.begin()
        other.begin()
        first.close()
        _until_begun(rival)


def test_of_many_that_begin_at_once_one_has_the_source(open_ledger: Open) -> None:
    with ExitStack() as opened, ThreadPoolExecutor(6) as pool:

        def begin(_: int) -> bool:
            ledger = open_ledger()
            try:
                ledger.begin()
            except SourceBusyError:
                ledger.close()
                return False
            opened.callback(ledger.close)
            return True

        assert sorted(pool.map(begin, range(6))) == [False] * 5 + [True]


def test_who_was_taken_over_writes_no_more(open_ledger: Open) -> None:
    with _run(open_ledger) as first:
        planned(first, "a")
        stale = Ledger.join(first.address, first.run.claim)
    with stale, _run(open_ledger) as second:
        with pytest.raises(SourceBusyError, match="taken over this source"):
            _sent(stale, "a")
        with pytest.raises(SourceBusyError):
            Ledger.join(first.address, first.run.claim)
        assert summarize(second).created == 0


_HOLD = script("ledgers_hold.txt")


def test_lock_ends_with_its_process(open_ledger: Open, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["open_ledger"]
    url = request.getfixturevalue("database_url").get_secret_value() if kind == "database" else ""
    command = [sys.executable, "-c", _HOLD, str(tmp_path), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with open_ledger() as rival:
            with pytest.raises(SourceBusyError, match=f"process {process.pid}{' on ' if url else ','}"):
                rival.begin()
            process.kill()
            process.wait()
            _until_begun(rival)


def _until_begun(ledger: Ledger) -> None:
    """PostgreSQL notices a lost client only a moment later."""
    for _ in range(600):
        try:
            ledger.begin()
        except SourceBusyError:
            continue
        return
    ledger.begin()


def test_run_whose_lock_is_lost_writes_no_more(shared: Open, databases, database: str) -> None:
    """When the lock's connection breaks, every later write is refused, even without a competitor."""
    with _run(shared) as ledger:
        planned(ledger, "a", "b")
        _sent(ledger, "a")
        with Ledger.join(ledger.address, ledger.run.claim) as batch:
            with databases.connect(database) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND granted"
                )
            for writer in (ledger, batch):
                with pytest.raises(LedgerError, match="Run again"):
                    _sent(writer, "b")
            with pytest.raises(LedgerError):
                ledger.finish()
        assert summarize(ledger).created == 1
    with _run(shared) as again:
        again.record([an_entry("a"), an_entry("b")])
        again.apply_plan({"a": State.UNCHANGED, "b": Action.CREATE})
        assert pending_in(again) == ["b"]


def test_database_that_is_away_is_said_without_its_password(tmp_path: Path) -> None:
    for url in ("postgresql://u:geheim@127.0.0.1:9/x", "mysql://u:geheim@h/x", "geheim", "postgresql://u:geheim@[h/x"):
        with pytest.raises(LedgerError, match="CARREL_FLOWS_DATABASE_URL") as raised:
            Ledger.at(tmp_path, target="t", source="s", database_url=SecretStr(url))
        shown: BaseException | None = raised.value
        while shown is not None:
            assert "geheim" not in str(shown)
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


def test_external_ids_longer_than_an_index_takes(open_ledger: Open) -> None:
    letters = "".join(map(chr, random.Random(1).choices(range(0x1F300, 0x1F600), k=1023)))  # noqa: S311 - unpackable
    keys = [letters + end for end in ("a", "b")]
    with _run(open_ledger) as ledger:
        planned(ledger, *keys)
        assert pending_in(ledger) == keys


_WRITTEN_BY_0_2_0 = Path(__file__).parents[1] / "data" / "ledger-0.2.0.sql"
"""The file of a run killed half-way in version 0.2.0, as statements; later versions write the same tables."""


def _write_old_ledger(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(_WRITTEN_BY_0_2_0.read_text())
    connection.close()


def test_run_that_version_0_2_0_began_is_taken_up(tmp_path: Path) -> None:
    with Ledger.at(tmp_path / "new", target="t", source="s") as ledger:
        old = tmp_path / "old" / ledger.address.path.name
    _write_old_ledger(old)
    with Ledger.at(tmp_path / "old", target="t", source="s") as ledger:
        ledger.begin()
        assert ledger.run.key == "62cff2344b2e4e48b578b3b57344c9fb"
        kept = ledger.page(State.PLANNED)[0].document
        assert (kept.external_id, kept.access) == ("planned", Access(users=("ada@x.org",), groups=("crew",)))
        assert ledger.digests(["/library/sent"]) == {"/library/sent": Digest(10, "1:2:3", bytes(range(32)), 2**62)}
        assert ledger.quarantined_among(["empty", "line 9", "sent"]) == {"empty", "line 9"}
        ledger.record([an_entry(key) for key in ("sent", "planned", "empty")])
        ledger.forget_unseen()
        ledger.apply_plan({"sent": State.UNCHANGED, "planned": Action.CREATE, "empty": Action.CREATE})
        ledger.set_aside()
        assert pending_in(ledger) == ["planned"]
        assert [(one.external_id, one.code) for one in ledger.failures()] == [("empty", "file_empty")]
        assert summarize(ledger).created == 1
        assert _missing(ledger) == ["gone"]
        ledger.finish()


def test_tables_are_those_of_version_0_2_0(tmp_path: Path) -> None:
    """A change of tables must raise the format, and provide an upgrade."""
    with Ledger.at(tmp_path / "new", target="t", source="s") as ledger:
        new = ledger.address.path
    old = tmp_path / "old" / new.name
    _write_old_ledger(old)
    assert _read_tables(old) == _read_tables(new)


def _read_tables(path: Path) -> set[Any]:
    with sqlite3.connect(path) as connection:
        columns = connection.execute(
            "SELECT made.name, one.* FROM sqlite_master AS made, pragma_table_info(made.name) AS one"
        )
        others = connection.execute(
            "SELECT sql FROM sqlite_master WHERE type <> 'table' UNION SELECT user_version FROM pragma_user_version"
        )
        tables = {*columns, *others}
    connection.close()
    return tables


def test_tables_in_postgresql_of_another_format_are_left_as_they_are(shared, database, databases) -> None:
    shared().close()
    with databases.connect(database) as connection:
        connection.execute("UPDATE ledger_format SET format = 99")
    with pytest.raises(LedgerError, match="newer"):
        shared()


@pytest.mark.parametrize(("number", "words"), [(99, "newer"), (2, "before 0.2.0")])
def test_ledger_of_another_format_is_left_as_it_is(tmp_path: Path, number: int, words: str) -> None:
    with Ledger.at(tmp_path, target="t", source="s") as ledger:
        path = ledger.address.path
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    connection.close()
    with pytest.raises(LedgerError, match=words):
        Ledger.at(tmp_path, target="t", source="s")


def test_quarantine_is_read_in_pages(open_ledger: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.operations.ledger.quarantine.PAGE", 3)
    with _run(open_ledger) as ledger:
        ledger.record_problems([Problem(f"line {number}", "row_invalid", "bad") for number in range(7)])
        keys = [f"doc-{number}" for number in range(5)]
        planned(ledger, *keys)
        for key in reversed(keys):
            ledger.mark_failed(an_entry(key), state=State.FAILED, code="c", message="m", for_good=False)
        places = [one.place for one in ledger.failures()]
        assert places == [f"line {number}" for number in range(7)] + keys
        assert [one.place for one in ledger.failures(limit=8)] == places[:8]
        found: Any = [ledger.pending(partition=n, partitions=3) for n in range(3)]
        assert found == [[], [], []]
