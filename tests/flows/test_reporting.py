"""Reports of runs about their quarantine, and ignored items from the service, after every kind of end."""

import asyncio
import json
import shutil
import signal
from collections.abc import Iterator

import httpx
import pytest
from pydantic import SecretStr

from carrel import AsyncCarrel
from flows.errors import RefusedError, SourceError
from flows.operations import reporting
from flows.operations.jobs import Hooks, Job, open_client, outage_policy_of, run_in_turn
from flows.operations.ledger.quarantine import KnownSource, list_sources, mark_ignored, read_quarantine
from flows.operations.loading import open_ledger
from flows.operations.reporting import report, report_ledgers
from flows.operations.sources.documents import Problem
from service.domains.documents.sources import service as rules
from tests.flows.processes import CARREL, running, until
from tests.flows.sources import Source
from tests.harness.proxy import Proxy, faulty
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

POISONED = {"broken.pdf": "file_corrupt", "empty.md": "file_empty"}


@pytest.fixture
def proxy(service) -> Iterator[Proxy]:
    with faulty(service.base_url) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: Proxy, poisoned: Source) -> Source:
    return poisoned.using(base_url=proxy.base_url, flows_outage_seconds=0)


def _asked(proxy: Proxy) -> list[str]:
    return [one.operation.removeprefix("sources/") for one in proxy.passed if one.operation.startswith("sources/")]


def _known(source: Source) -> KnownSource:
    (known,) = list_sources(source.settings)
    return known


async def _report_all(source: Source) -> list[str]:
    async with open_client(source.settings) as client:
        outages = outage_policy_of(client, source.settings)
        return await report_ledgers(client, settings=source.settings, outages=outages)


async def test_a_quarantine_that_is_as_it_was_costs_one_request(proxy: Proxy, through: Source) -> None:
    await through.load(dry_run=True)
    assert _asked(proxy) == ["listSources"]
    proxy.passed.clear()
    await through.load()
    begun = ["listSources", "reportSource", "reportSourceItems", "endSourceReport"]
    assert _asked(proxy) == begun
    for _ in range(2):
        proxy.passed.clear()
        await through.load()
        assert [one for one in _asked(proxy) if one != "listSourceItems"] == ["listSources", "reportSource"]
        await through.ignore("empty.md")
    through.write("blank.txt", " ")
    proxy.passed.clear()
    await through.load()
    assert [one for one in _asked(proxy) if one != "listSourceItems"] == begun
    assert await through.ignored() == {"blank.txt": False, "broken.pdf": False, "empty.md": True}


async def test_many_items_are_reported_in_batches(proxy: Proxy, through: Source) -> None:
    many, names = through.beside("many"), [f"{number:04}.md" for number in range(1101)]
    for name in names:
        many.write(name, b"")
    await many.load()
    assert _asked(proxy).count("reportSourceItems") == 2
    items = await many.items()
    assert [item.name for item in items] == names
    assert {(item.code, item.ignored) for item in items} == {("file_empty", False)}
    assert (await many.reported())[0].item_count == 1101
    assert await many.ignore(*names[:-1], "unknown.md") == ["unknown.md"]
    outcome = await many.load()
    assert (outcome.summary.problems, outcome.summary.ignored) == (1, 1100)
    assert await many.ignore(*names[:-1], undo=True) == []
    assert (await many.load()).summary.problems == 1101


async def test_what_finds_no_room_is_said(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_ITEMS", 4)
    monkeypatch.setattr(reporting, "_BATCH", 4)
    for number in range(6):
        source.write(f"{number}.md", b"")
    assert (await source.load()).summary.problems == 6
    assert (await source.reported())[0].item_count == 4
    assert source.remarks() == ["The service had no room for 2 of the items in quarantine, and shows the others."]


@pytest.mark.slow
async def test_a_service_that_is_away_at_the_end_costs_a_remark(proxy: Proxy, through: Source) -> None:
    async def go_away() -> None:
        proxy.away = True

    outcome = await through.load(hooks=Hooks(on_end=go_away))
    assert (outcome.summary.created, outcome.summary.quarantined) == (12, 2)
    (remark,) = through.remarks()
    assert remark.startswith("The quarantine was not reported to the service (")
    proxy.away = False
    assert await through.reported() == []
    await through.load()
    assert through.remarks() == []
    assert await through.quarantine() == POISONED


async def test_a_run_that_ends_with_an_error_reports_what_it_came_upon(poisoned: Source) -> None:
    async def refuse(job: Job) -> None:
        await run_in_turn(job, settings=poisoned.settings)
        raise RefusedError

    with pytest.raises(RefusedError):
        await poisoned.load(hooks=Hooks(run_batches=refuse))
    assert await poisoned.quarantine() == POISONED
    manifest = poisoned.manifest("path", "missing.md")
    await poisoned.load(manifest)
    await _forget(poisoned)
    poisoned.manifest("nonsense")
    for source in (manifest, "mistyped"):
        with pytest.raises(SourceError):
            await poisoned.load(source)
    assert [one.source for one in await poisoned.reported()] == [str(manifest)]
    assert await poisoned.quarantine() == {"missing.md": "file_missing"}


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
async def test_a_stopped_run_is_made_up_for(poisoned: Source, stop: signal.Signals) -> None:
    poisoned.write("blank.txt", " ")
    await poisoned.load()
    poisoned.write("blank.txt")
    for number in range(60):
        poisoned.write(f"later-{number}.md", f"The ferry number {number} is late.")
    poisoned.write("late.txt", " ")

    known = _known(poisoned)

    def is_mended() -> bool:
        return "blank.txt" not in {one.place for one in read_quarantine(poisoned.settings, known)}

    with running(CARREL, "upload", str(poisoned), "--direct", CARREL_FLOWS_CONCURRENCY="1") as process:
        await until(is_mended)
        process.send_signal(stop)
        await asyncio.to_thread(process.communicate)
    assert process.returncode == (130 if stop is signal.SIGTERM else -signal.SIGKILL)
    assert ("blank.txt" in await poisoned.quarantine()) is (stop is signal.SIGKILL)
    await poisoned.load()
    assert set(await poisoned.quarantine()) == {"broken.pdf", "empty.md", "late.txt"}


async def test_two_people_load_what_has_the_same_name(poisoned: Source, tmp_path) -> None:
    hers = poisoned.using(api_key=SecretStr(poisoned.service.new_user("ada@example.com")), data_dir=tmp_path / "hers")
    await poisoned.load()
    await hers.load()
    (own,) = await hers.reported()
    assert own.reported_by.email == "ada@example.com"
    assert set(await hers.quarantine()) >= {"broken.pdf", "empty.md", "shelf-0/note-0.md"}
    both = await poisoned.reported(poisoned)
    assert {one.ledger for one in both} == {own.ledger}
    assert {one.reported_by.email for one in both} == {"ada@example.com", poisoned.service.admin_email}
    with pytest.raises(SourceError, match=f"{own.source_id} .uploaded, reported by ada@example.com"):
        await poisoned.ignore("empty.md", of=own.ledger)
    await poisoned.ignore("empty.md", of=own.source_id)
    assert "empty.md" not in await hers.quarantine()
    assert (await hers.load()).summary.ignored == 1
    assert (await poisoned.load()).summary.ignored == 0
    assert [one.ignored_count for one in await poisoned.reported() if one.source_id != own.source_id] == [0]


async def test_what_is_ignored_outlasts_a_ledger(poisoned: Source) -> None:
    await poisoned.load()
    await poisoned.ignore("empty.md")
    shutil.rmtree(poisoned.settings.ledgers)
    await poisoned.load()
    assert await poisoned.quarantine() == {"broken.pdf": "file_corrupt"}
    assert (await poisoned.load()).summary.ignored == 1


async def test_a_row_of_a_manifest_is_ignored_for_its_document(source: Source) -> None:
    for name in ("a.md", "c.md"):
        source.write(name, b"")

    async def load(*names: str) -> tuple[dict[str, str], int]:
        manifest = source.manifest("path", *names)
        return await source.quarantine(), (await source.load(manifest)).summary.ignored

    await load("a.md")
    await source.ignore("a.md", of=source.folder / "m.csv")
    assert await load("a.md") == ({}, 1)
    assert await load("c.md") == ({}, 0)
    await source.ignore("c.md", of=source.folder / "m.csv")
    assert await load("a.md", "c.md") == ({}, 1)
    assert await source.quarantine() == {"a.md": "file_empty"}


async def test_a_key_that_may_only_write_reports_what_is_mended(source: Source) -> None:
    enable_service_accounts(source.service)
    token = a_token(source.service, an_account(source.service), "catalog:write")["token"]
    writing = source.using(api_key=SecretStr(token))
    manifest = source.manifest("path", "later.md")
    await writing.load(manifest)
    assert await source.quarantine() == {"later.md": "file_missing"}
    source.write("later.md")
    await writing.load(manifest)
    assert await source.quarantine() == {}
    (remark,) = writing.remarks(manifest)
    assert remark.startswith("The service did not report the ignored items of this source (")


async def _forget(source: Source) -> None:
    for one in await source.reported():
        async with open_client(source.settings) as client:
            await client.sources.remove_source(one.source_id)


async def test_ledgers_that_were_never_reported_are(poisoned: Source, tmp_path) -> None:
    await poisoned.load()
    await _forget(poisoned)
    known = _known(poisoned)
    marks = {
        (one.place, one.fingerprint) for one in read_quarantine(poisoned.settings, known) if one.place == "empty.md"
    }
    assert mark_ignored(poisoned.settings, known, marks, ignored=True) == 1
    with pytest.raises(SourceError):
        await poisoned.using(base_url="http://127.0.0.1:9", flows_outage_seconds=0).load(tmp_path / "nothing")
    clean = poisoned.beside("clean")
    clean.write("note.md", "The ferry is on time.")
    await clean.load()
    assert await _report_all(poisoned) == []
    (first,) = await poisoned.reported()
    assert first.source == str(poisoned)
    assert await _report_all(poisoned) == []
    assert await poisoned.reported() == [first]
    assert await poisoned.ignored() == {"broken.pdf": False, "empty.md": True}


async def test_ledgers_of_others_are_left_to_them(poisoned: Source) -> None:
    await poisoned.using(api_key=SecretStr(poisoned.service.new_user("ada@example.com"))).load()
    assert await _report_all(poisoned) == []
    assert [one.reported_by.email for one in await poisoned.reported()] == ["ada@example.com"]


async def test_a_report_of_what_changes_meanwhile_never_counts(poisoned: Source) -> None:
    """Otherwise a fingerprint would stand for wrong items, and later runs would not correct it."""
    await poisoned.load()
    await _forget(poisoned)
    known, service = _known(poisoned), poisoned.service

    def add_problem() -> None:
        with open_ledger(str(poisoned), settings=poisoned.settings) as ledger:
            ledger.begin()
            ledger.record_problems([Problem("later.md", "file_missing", "It is gone.")])

    async def change(request: httpx.Request) -> None:
        if request.url.path.endswith("/reportSource"):
            await asyncio.to_thread(add_problem)

    hooked = httpx.AsyncClient(event_hooks={"request": [change]})
    async with hooked, AsyncCarrel(service.api_key, service.base_url, http_client=hooked) as client:
        assert await report(client, known, settings=poisoned.settings) == ""
        assert await poisoned.reported() == []
    async with open_client(poisoned.settings) as client:
        assert await report(client, known, settings=poisoned.settings) == ""
    assert len(await poisoned.quarantine()) == 3


async def test_items_of_any_length_are_reported(source: Source) -> None:
    """An item too long for the service costs neither the item nor the report; it can be ignored too."""
    rows = [{"path": "shelf-0/note-0.md", "externalId": "x" * 5000}, {"path": "shelf-0/" + "y" * 5000}]
    manifest = source.manifest(*map(json.dumps, rows), name="m.jsonl")
    assert ((await source.load(manifest)).summary.problems, source.remarks(manifest)) == (2, [])
    names = list(await source.quarantine())
    assert len(names) == 2
    await source.ignore(*names, of=manifest)
    assert (await source.load(manifest)).summary.ignored == 2
