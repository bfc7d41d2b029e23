"""Sending a batch: results are stored, bad documents quarantined, outages waited out, refusals final."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock, call

import httpx
import pytest

from carrel import errors
from carrel._calls import error_from
from flows.errors import RefusedError, ServiceDownError
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Action, Entry, Sent, State
from flows.operations.outages import OutagePolicy
from flows.operations.sending import apply_batch
from flows.operations.sources.contents import ChangingFileError, open_contents
from flows.operations.sources.documents import SourceDocument, fingerprint_of
from flows.operations.summary import Summary, summarize
from tests.unit.test_flows_ledger import an_entry, planned

Script = Callable[[str], Awaitable[None]]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    keys = [f"doc-{number:02}" for number in range(20)]
    with Ledger.at(tmp_path, target="t", source="s") as opened:
        opened.begin()
        planned(opened, *keys)
        yield opened


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.operations.outages._FIRST_PAUSE", 0.0001)
    monkeypatch.setattr("flows.operations.outages._LONGEST_PAUSE", 0.001)


def _refusal(status: int, code: str) -> errors.APIError:
    return error_from(httpx.Response(status, json={"error": {"message": "no", "code": code}}))


async def _apply(
    ledger: Ledger, script: Script, *, probe: Callable[[], Awaitable[object]] | None = None, seconds: float = 60
) -> tuple[Summary, list[str]]:
    sent: list[str] = []

    async def send(entry: Entry) -> Sent:
        key = entry.document.external_id
        sent.append(key)
        await script(key)
        return Sent(State.INDEXED, "id", 1, "f1")

    outages = OutagePolicy(seconds=seconds, probe=probe or AsyncMock())
    await apply_batch(ledger, partition=0, partitions=1, send=send, outages=outages, concurrency=4)
    return summarize(ledger), sent


async def test_every_document_is_sent_once_and_no_more_than_the_limit_at_a_time(ledger: Ledger) -> None:
    now, most = 0, 0

    async def script(_: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1

    summary, sent = await _apply(ledger, script)
    assert (summary.created, most, len(sent), len(set(sent))) == (20, 4, 20, 20)


@pytest.mark.parametrize(
    ("error", "code", "for_good"),
    [
        (_refusal(400, "file_encrypted"), "file_encrypted", True),
        (_refusal(415, "file_type_unsupported"), "file_type_unsupported", True),
        (_refusal(400, "invalid_request"), "invalid_request", False),
        (_refusal(409, "changed"), "changed", False),
        (_refusal(403, "external_id_taken"), "external_id_taken", False),
        (_refusal(403, "owner_required"), "owner_required", False),
        (_refusal(403, "collection_editor_required"), "collection_editor_required", False),
        (ChangingFileError(), "file_changing", False),
        (FileNotFoundError(2, "gone"), "file_unreadable", False),
        (ValueError("a bug"), "unexpected", False),
    ],
)
async def test_bad_document_goes_to_quarantine_and_the_others_on(ledger, error, code, for_good):
    async def script(key: str) -> None:
        if key == "doc-07":
            raise error

    summary, _ = await _apply(ledger, script)
    assert (summary.created, summary.quarantined) == (19, 1)
    assert [(failure.external_id, failure.code) for failure in ledger.failures()] == [("doc-07", code)]
    ledger.record([an_entry("doc-07")])
    ledger.apply_plan({"doc-07": Action.CREATE})
    ledger.set_aside()
    assert (not ledger.pending(partition=0, partitions=1)) == for_good


async def test_outage_is_waited_out(ledger: Ledger) -> None:
    away = 0

    async def script(key: str) -> None:
        nonlocal away
        if key == "doc-05":
            away = max(away, 1)
        if 0 < away < 50:
            raise errors.APIConnectionError("refused")

    async def probe() -> None:
        nonlocal away
        away += 1
        if away < 50:
            raise errors.APIConnectionError("refused")

    summary, _ = await _apply(ledger, script, probe=probe)
    assert (summary.created, summary.quarantined) == (20, 0)


async def test_busy_service_is_asked_again_soon_and_then_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pause, busy = AsyncMock(), _refusal(503, "database_unavailable")
    monkeypatch.undo()
    monkeypatch.setattr("flows.operations.outages._pause", pause)
    outages = OutagePolicy(seconds=60, probe=AsyncMock(side_effect=AssertionError))
    assert await outages.call(AsyncMock(side_effect=[*[busy] * 6, "done"])) == "done"
    assert [each.args for each in pause.await_args_list] == [(1,), (2,), (4,), (8,), (15,), (15,)]


@pytest.mark.parametrize("error", [_refusal(503, "saturated"), _refusal(429, "slow")])
async def test_busy_service_costs_no_document(ledger: Ledger, error: errors.APIError) -> None:
    refused: dict[str, int] = {}

    async def script(key: str) -> None:
        refused[key] = refused.get(key, 0) + 1
        if refused[key] < 10:
            raise error

    summary, _ = await _apply(ledger, script)
    assert (summary.created, summary.quarantined) == (20, 0)


async def test_refused_document_shows_that_the_service_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = iter(range(1, 100))
    monkeypatch.setattr("flows.operations.outages.time", SimpleNamespace(monotonic=lambda: 3600.0 * next(hours)))

    notice = Mock(begin=AsyncMock())
    outages = OutagePolicy(seconds=600, probe=AsyncMock(), notice=notice)
    operation = AsyncMock(side_effect=[_refusal(503, "unavailable"), _refusal(415, "unsupported")] * 3)
    for _ in range(3):
        with pytest.raises(errors.APIError, match="no") as refused:
            await outages.call(operation)
        assert refused.value.status == 415
        assert notice.mock_calls[-1] == call.end()


async def test_service_that_stays_away_stops_the_batch_and_keeps_the_plan(ledger: Ledger) -> None:
    async def gone(_: str = "") -> None:
        raise errors.APIConnectionError("refused")

    with pytest.raises(ServiceDownError, match="Run again"):
        await _apply(ledger, gone, probe=gone, seconds=0.01)
    assert (summarize(ledger).waiting, summarize(ledger).quarantined) == (20, 0)


async def test_document_that_breaks_its_connection_each_time_is_given_up(ledger: Ledger) -> None:
    async def script(key: str) -> None:
        if key == "doc-07":
            raise errors.APIConnectionError("reset")
        if key == "doc-08":
            raise _refusal(500, "internal_error")

    summary, sent = await _apply(ledger, script)
    assert (summary.created, summary.failed) == (18, 2)
    assert (sent.count("doc-07"), sent.count("doc-08")) == (6, 6)
    assert {failure.code for failure in ledger.failures()} == {"connection_lost", "internal_error"}


@pytest.mark.parametrize("error", [_refusal(401, "unauthenticated"), _refusal(403, "scope")])
async def test_refused_caller_stops_the_batch_at_once(ledger: Ledger, error: errors.APIError) -> None:
    async def script(_: str) -> None:
        raise error

    sent: list[str] = []
    with pytest.raises(RefusedError, match="run again"):
        _, sent = await _apply(ledger, script)
    assert summarize(ledger).quarantined == 0
    assert len(sent) <= 4


def _file(path: Path) -> SourceDocument:
    return SourceDocument(path=str(path), external_id="a", name="a", file_name="a")


def test_fingerprint_is_of_the_bytes_that_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("now")
    document = _file(path)
    stale = Entry(document, size=3, sha256=bytes(32), fingerprint=fingerprint_of(document, sha256=bytes(32)))
    contents = open_contents(stale)
    assert contents.file.read() == b"now"
    assert contents.fingerprint != stale.fingerprint


def test_large_file_is_streamed_and_a_change_meanwhile_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.operations.sources.contents.IN_MEMORY", 10)
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    contents = open_contents(Entry(_file(path), size=100, sha256=bytes(32), fingerprint="f"))
    assert contents.file.read() == b"x" * 100
    contents.check()
    path.write_bytes(b"y" * 101)
    with pytest.raises(ChangingFileError):
        contents.check()
    contents.file.close()


def test_path_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link could lead out of the source."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic link"):
        open_contents(Entry(_file(tmp_path / "a"), size=1, sha256=bytes(32), fingerprint="f"))
