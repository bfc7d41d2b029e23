"""What runs report of their quarantine, and take from the service, however they end."""

import asyncio
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from carrel import AsyncCarrel, Carrel
from flows.errors import RefusedError, SourceError
from flows.operations.bulk import upload, upload_ledger
from flows.operations.jobs import Hooks, Job, Outcome, open_client, outage_policy_of, run_in_turn
from flows.operations.ledger.registry import KnownSource, list_sources, mark_ignored, read_quarantine
from flows.operations.ledger.rows import ItemMark
from flows.operations.notes import notes_of
from flows.operations.options import UploadOptions
from flows.operations.reporting import report, report_ledgers
from flows.operations.sources.documents import Problem
from flows.settings import FlowSettings
from service.domains.sources import service as rules
from tests.flows.processes import CARREL, SERVE, running, until
from tests.flows.quarantined import ignore, items_of, listed, reported
from tests.harness.proxy import Proxy, faulty
from tests.harness.services import RunningService
from tests.service.service_accounts import a_token, an_account, enable_service_accounts


@pytest.fixture
def poisoned(library: Path) -> Path:
    """The library with two files that can't be read in it."""
    (library / "empty.md").write_bytes(b"")
    (library / "broken.pdf").write_bytes(b"%PDF-1.7 this is no PDF")
    return library


@pytest.fixture
def proxy(service: RunningService) -> Iterator[Proxy]:
    """What stands between runs and the service."""
    with faulty(service.base_url) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: Proxy, flow_settings: FlowSettings) -> FlowSettings:
    """Settings of runs through the proxy, which wait for nobody."""
    return flow_settings.model_copy(update={"base_url": proxy.base_url, "flows_outage_seconds": 0})


async def _upload(source: Path, settings: FlowSettings, **options: Any) -> Outcome:
    return await upload(str(source), options=UploadOptions(), settings=settings, **options)


def _asked(proxy: Proxy) -> list[str]:
    return [one.operation.removeprefix("sources/") for one in proxy.passed if one.operation.startswith("sources/")]


def _remarks(source: Path, settings: FlowSettings) -> list[str]:
    with upload_ledger(str(source), settings=settings) as ledger:
        return notes_of(ledger.address.name).remarks


def _known(settings: FlowSettings) -> KnownSource:
    (known,) = list_sources(settings)
    return known


async def test_a_quarantine_that_is_as_it_was_costs_one_request(
    poisoned: Path, proxy: Proxy, through: FlowSettings
) -> None:
    """Reported as a whole at first, then named by its fingerprint alone, also when something is ignored since."""
    await _upload(poisoned, through)
    begun = ["listSources", "reportSource", "reportSourceItems", "endSourceReport"]
    assert _asked(proxy) == begun
    for _ in range(2):
        proxy.passed.clear()
        await _upload(poisoned, through)
        assert [one for one in _asked(proxy) if one != "listSourceItems"] == ["listSources", "reportSource"]
        await ignore(through, str(poisoned), "empty.md")
    (poisoned / "blank.txt").write_text(" ")
    proxy.passed.clear()
    await _upload(poisoned, through)
    assert [one for one in _asked(proxy) if one != "listSourceItems"] == begun
    assert {item.name: item.ignored for item in await items_of(through)} == {
        "blank.txt": False,
        "broken.pdf": False,
        "empty.md": True,
    }


async def test_a_plan_reports_nothing(poisoned: Path, flow_settings: FlowSettings) -> None:
    """Nobody has loaded the source yet."""
    await _upload(poisoned, flow_settings, dry_run=True)
    assert await reported(flow_settings) == []


async def test_many_items_are_reported_in_batches(tmp_path: Path, proxy: Proxy, through: FlowSettings) -> None:
    """Of 1,101 none is missing, a thousand at a time; each is as the run found it."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(1101):
        (folder / f"{number:04}.md").write_bytes(b"")
    await _upload(folder, through)
    assert _asked(proxy).count("reportSourceItems") == 2
    items = await items_of(through)
    assert [item.name for item in items] == [f"{number:04}.md" for number in range(1101)]
    assert {(item.code, item.ignored) for item in items} == {("file_empty", False)}
    assert (await reported(through))[0].item_count == 1101
    names = [f"{number:04}.md" for number in range(1100)]
    assert await ignore(through, str(folder), *names, "unknown.md") == ["unknown.md"]
    outcome = await _upload(folder, through)
    assert (outcome.summary.problems, outcome.summary.ignored) == (1, 1100)
    assert await ignore(through, str(folder), *names, undo=True) == []
    assert (await _upload(folder, through)).summary.problems == 1101


async def test_what_finds_no_room_is_said(
    tmp_path: Path, flow_settings: FlowSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the service takes are shown there, and the run says how many are not."""
    monkeypatch.setattr(rules, "MOST_ITEMS", 1000)
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(1010):
        (folder / f"{number:04}.md").write_bytes(b"")
    assert (await _upload(folder, flow_settings)).summary.problems == 1010
    assert (await reported(flow_settings))[0].item_count == 1000
    assert _remarks(folder, flow_settings) == [
        "10 of the items in quarantine found no room at the service, which shows the others."
    ]


@pytest.mark.slow
async def test_a_service_that_is_away_at_the_end_costs_a_remark(
    poisoned: Path, proxy: Proxy, through: FlowSettings
) -> None:
    """The run is done all the same and says it once; the next one reports, and says nothing more."""

    async def go_away() -> None:
        proxy.away = True

    outcome = await _upload(poisoned, through, hooks=Hooks(on_end=go_away))
    assert (outcome.summary.created, outcome.summary.quarantined) == (12, 2)
    (remark,) = _remarks(poisoned, through)
    assert remark.startswith("What is in quarantine was not reported to the service (")
    proxy.away = False
    assert await reported(through) == []
    await _upload(poisoned, through)
    assert _remarks(poisoned, through) == []
    assert await listed(through) == {"broken.pdf": "file_corrupt", "empty.md": "file_empty"}


async def test_a_run_that_ends_with_an_error_reports_what_it_came_upon(
    poisoned: Path, flow_settings: FlowSettings, tmp_path: Path
) -> None:
    """A refusal in the middle, and a source that can't be read; but where nothing ever was is no source."""

    async def refuse(job: Job) -> None:
        await run_in_turn(job, settings=flow_settings)
        raise RefusedError

    with pytest.raises(RefusedError):
        await _upload(poisoned, flow_settings, hooks=Hooks(run_batches=refuse))
    assert await listed(flow_settings) == {"broken.pdf": "file_corrupt", "empty.md": "file_empty"}
    manifest = poisoned / "m.csv"
    manifest.write_text("path\nmissing.md\n")
    await _upload(manifest, flow_settings)
    await _forget(flow_settings)
    manifest.write_text("nonsense\n")
    for source in (manifest, tmp_path / "mistyped"):
        with pytest.raises(SourceError):
            await _upload(source, flow_settings)
    assert [one.source for one in await reported(flow_settings)] == [str(manifest)]
    assert await listed(flow_settings) == {"missing.md": "file_missing"}


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
async def test_a_stopped_run_is_made_up_for(poisoned: Path, flow_settings: FlowSettings, stop: signal.Signals) -> None:
    """Stopped, a run reports how far it came; killed, it can't. The next one reports what is right, in either case."""
    (poisoned / "blank.txt").write_text(" ")
    await _upload(poisoned, flow_settings)
    (poisoned / "blank.txt").write_text("Mended.")
    for number in range(60):
        (poisoned / f"later-{number}.md").write_text(f"The ferry number {number} is late.")
    (poisoned / "late.txt").write_text(" ")

    known = _known(flow_settings)

    def is_mended() -> bool:
        return "blank.txt" not in {one.place for one in read_quarantine(flow_settings, known)}

    with running(CARREL, "upload", str(poisoned), "--direct", CARREL_FLOWS_CONCURRENCY="1") as process:
        await until(is_mended)
        process.send_signal(stop)
        await asyncio.to_thread(process.communicate)
    assert process.returncode == (130 if stop is signal.SIGTERM else -signal.SIGKILL)
    assert ("blank.txt" in await listed(flow_settings)) is (stop is signal.SIGKILL)
    await _upload(poisoned, flow_settings)
    assert set(await listed(flow_settings)) == {"broken.pdf", "empty.md", "late.txt"}


async def test_two_people_load_what_has_the_same_name(
    poisoned: Path, tmp_path: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """Each has a source of their own, ignores in it alone and sees it alone; an admin sees both, and says which."""
    key = SecretStr(service.new_user("ada@example.com"))
    hers = flow_settings.model_copy(update={"api_key": key, "data_dir": tmp_path / "hers"})
    await _upload(poisoned, flow_settings)
    await _upload(poisoned, hers)
    (own,) = await reported(hers)
    assert own.reported_by.email == "ada@example.com"
    assert set(await listed(hers)) >= {"broken.pdf", "empty.md", "shelf-0/note-0.md"}
    both = await reported(flow_settings, str(poisoned))
    assert {one.ledger for one in both} == {own.ledger}
    assert {one.reported_by.email for one in both} == {"ada@example.com", service.admin_email}
    with pytest.raises(SourceError, match=f"{own.source_id} .uploaded, reported by ada@example.com"):
        await ignore(flow_settings, own.ledger, "empty.md")
    await ignore(flow_settings, str(own.source_id), "empty.md")
    assert "empty.md" not in await listed(hers)
    assert (await _upload(poisoned, hers)).summary.ignored == 1
    assert (await _upload(poisoned, flow_settings)).summary.ignored == 0
    assert [one.ignored_count for one in await reported(flow_settings) if one.source_id != own.source_id] == [0]


async def test_what_is_ignored_outlasts_a_ledger(poisoned: Path, flow_settings: FlowSettings) -> None:
    """A ledger that is lost has nothing to say against what the service keeps."""
    await _upload(poisoned, flow_settings)
    await ignore(flow_settings, str(poisoned), "empty.md")
    shutil.rmtree(flow_settings.ledgers)
    await _upload(poisoned, flow_settings)
    assert await listed(flow_settings) == {"broken.pdf": "file_corrupt"}
    assert (await _upload(poisoned, flow_settings)).summary.ignored == 1


async def test_a_row_of_a_manifest_is_ignored_for_its_document(library: Path, flow_settings: FlowSettings) -> None:
    """Another document in the same row is not ignored, though it is as empty; the same one in another row is."""
    manifest = library / "m.csv"
    for name in ("a.md", "c.md"):
        (library / name).write_bytes(b"")

    async def load(*names: str) -> tuple[dict[str, str], int]:
        manifest.write_text("\n".join(("path", *names)))
        return await listed(flow_settings), (await _upload(manifest, flow_settings)).summary.ignored

    await load("a.md")
    await ignore(flow_settings, str(manifest), "a.md")
    assert await load("a.md") == ({}, 1)
    assert await load("c.md") == ({}, 0)
    await ignore(flow_settings, str(manifest), "c.md")
    assert await load("a.md", "c.md") == ({}, 1)
    assert await listed(flow_settings) == {"a.md": "file_empty"}


async def test_a_key_that_may_only_write_reports_what_is_mended(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """It can't see what is ignored; its last document that is loaded leaves the quarantine all the same."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:write")["token"]
    writing = flow_settings.model_copy(update={"api_key": SecretStr(token)})
    manifest = library / "m.csv"
    manifest.write_text("path\nlater.md\n")
    await _upload(manifest, writing)
    assert await listed(flow_settings) == {"later.md": "file_missing"}
    (library / "later.md").write_text("The ferry is late.")
    await _upload(manifest, writing)
    assert await listed(flow_settings) == {}
    (remark,) = _remarks(manifest, writing)
    assert remark.startswith("The service did not tell what is ignored of this source (")


async def _forget(settings: FlowSettings) -> None:
    """Let the service know nothing of any source, as before it knew of them."""
    for source in await reported(settings):
        async with open_client(settings) as client:
            await client.sources.remove_source(source.source_id)


async def test_ledgers_that_were_never_reported_are(
    poisoned: Path, flow_settings: FlowSettings, tmp_path: Path
) -> None:
    """With what was ignored in them, once; not where there is nothing to report, nor what another service has."""
    await _upload(poisoned, flow_settings)
    await _forget(flow_settings)
    known = _known(flow_settings)
    (mark,) = (
        ItemMark(one.place, one.external_id, one.fingerprint)
        for one in read_quarantine(flow_settings, known)
        if one.place == "empty.md"
    )
    assert mark_ignored(flow_settings, known, [mark], ignored=True) == 1
    elsewhere = flow_settings.model_copy(update={"base_url": "http://127.0.0.1:9", "flows_outage_seconds": 0})
    with pytest.raises(SourceError):
        await _upload(tmp_path / "nothing", elsewhere)
    (clean := tmp_path / "clean").mkdir()
    (clean / "note.md").write_text("The ferry is on time.")
    await _upload(clean, flow_settings)

    async def report_all() -> list[str]:
        async with open_client(flow_settings) as client:
            outages = outage_policy_of(client, flow_settings)
            return await report_ledgers(client, settings=flow_settings, outages=outages)

    assert await report_all() == []
    (first,) = await reported(flow_settings)
    assert first.source == str(poisoned)
    assert await report_all() == []
    assert await reported(flow_settings) == [first]
    assert {item.name: item.ignored for item in await items_of(flow_settings)} == {
        "broken.pdf": False,
        "empty.md": True,
    }


async def test_ledgers_of_others_are_left_to_them(
    poisoned: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """Who serves the flows reports nothing twice that people load here with keys of their own."""
    hers = flow_settings.model_copy(update={"api_key": SecretStr(service.new_user("ada@example.com"))})
    await _upload(poisoned, hers)
    async with open_client(flow_settings) as client:
        outages = outage_policy_of(client, flow_settings)
        assert await report_ledgers(client, settings=flow_settings, outages=outages) == []
    assert [one.reported_by.email for one in await reported(flow_settings)] == ["ada@example.com"]


@pytest.mark.slow
async def test_serving_the_flows_reports_what_never_was(
    prefect_api: str, poisoned: Path, flow_settings: FlowSettings, service: RunningService, tmp_path: Path
) -> None:
    """`python -m flows serve` does it once at its start, beside its work."""
    await _upload(poisoned, flow_settings)
    await _forget(flow_settings)
    file = tmp_path / "prefect.yaml"
    file.write_text("deployments: []\n")
    environment = {"PREFECT_API_URL": prefect_api, "CARREL_FLOWS_DEPLOYMENTS": str(file)}
    with running(*SERVE, **environment), Carrel(service.api_key, service.base_url) as client:
        (source,) = await until(lambda: list(client.sources.list_sources()))
    assert (source.source, source.item_count) == (str(poisoned), 2)


async def test_a_report_of_what_changes_meanwhile_never_counts(
    poisoned: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """Else a fingerprint would stand for items that it is not of, and later runs would leave it so."""
    await _upload(poisoned, flow_settings)
    await _forget(flow_settings)
    known = _known(flow_settings)

    async def change(request: httpx.Request) -> None:
        if request.url.path.endswith("/reportSource"):
            await asyncio.to_thread(_add_problem, poisoned, flow_settings)

    hooked = httpx.AsyncClient(event_hooks={"request": [change]})
    async with hooked, AsyncCarrel(service.api_key, service.base_url, http_client=hooked) as client:
        assert await report(client, known, settings=flow_settings) == ""
        assert await reported(flow_settings) == []
    async with open_client(flow_settings) as client:
        assert await report(client, known, settings=flow_settings) == ""
    assert len(await listed(flow_settings)) == 3


def _add_problem(source: Path, settings: FlowSettings) -> None:
    with upload_ledger(str(source), settings=settings) as ledger:
        ledger.begin()
        ledger.record_problems([Problem("later.md", "file_missing", "It is gone.")])


async def test_items_of_any_length_are_reported(library: Path, flow_settings: FlowSettings) -> None:
    """What the service has no room for in one item costs neither the item nor the report; it can be ignored too."""
    manifest = library / "m.jsonl"
    rows = [{"path": "shelf-0/note-0.md", "externalId": "x" * 5000}, {"path": "shelf-0/" + "y" * 5000}]
    manifest.write_text("\n".join(json.dumps(row) for row in rows))
    outcome = await _upload(manifest, flow_settings)
    assert (outcome.summary.problems, _remarks(manifest, flow_settings)) == (2, [])
    names = list(await listed(flow_settings))
    assert len(names) == 2
    await ignore(flow_settings, str(manifest), *names)
    assert (await _upload(manifest, flow_settings)).summary.ignored == 2
