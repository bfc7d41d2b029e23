"""Waiting until sent documents are searchable."""

import asyncio
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from flows.errors import RefusedError, ServiceDownError
from flows.operations import index_waits
from flows.operations.index_waits import wait_until_indexed
from flows.operations.jobs import Hooks, Job, open_client, outage_policy_of, run_in_turn
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Sent, State
from flows.operations.summary import summarize
from tests.flows.sources import Source
from tests.harness.cases import statement
from tests.unit.test_flows_ledger import planned


@pytest.fixture
def slow(make_service, source: Source, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setattr(index_waits, "_FIRST_PAUSE", 0.05)
    service = make_service(inline_indexing_seconds=0)
    url, key = service.base_url, SecretStr(service.api_key)
    return Source(source.folder, source.settings.model_copy(update={"base_url": url, "api_key": key}), service)


async def test_documents_uploaded_as_a_user_are_waited_for_as_that_user(slow: Source) -> None:
    slow.service.new_user("ada@example.com")
    key = slow.service.new_user("bob@example.com", mayActForUsers=True)
    outcome = await slow.using(api_key=SecretStr(key)).load(upload_as_user_email="ada@example.com")
    assert (outcome.summary.created, outcome.summary.quarantined, outcome.summary.indexing) == (12, 0, 0)


async def test_index_that_does_not_come_is_no_success(slow: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing_is_done(*_: object, **__: object) -> None:
        pass

    with monkeypatch.context() as stalled:
        stalled.setattr(index_waits._IndexWait, "_check_document", nothing_is_done)
        stalled.setattr(index_waits, "STALLED_SECONDS", 0.1)
        with pytest.raises(ServiceDownError, match=r"12 documents .* Run again"):
            await slow.load()
    outcome = await slow.load()
    assert (outcome.plan.resumed, outcome.summary.created, outcome.summary.indexing) == (12, 12, 0)


@pytest.fixture
def sent(tmp_path, source: Source) -> Iterator[Ledger]:
    with Ledger.at(tmp_path, target="t", source="s") as ledger, source.client() as client:
        ledger.begin()
        for key in ("kept", "gone"):
            uploaded = client.catalog.upload_file(b"Some words.", file_name="a.txt", document_external_id=key)
            planned(ledger, key)
            document_id = str(uploaded.document_id)
            ledger.mark_sent(key, Sent(State.UPLOADED, document_id, 1, "f1"))
        client.catalog.delete_document(document_id)
        yield ledger


async def test_document_deleted_meanwhile_costs_itself_alone(sent: Ledger, source: Source) -> None:
    async with open_client(source.settings) as client:
        await wait_until_indexed(client, sent, outages=outage_policy_of(client, source.settings))
    summary = summarize(sent)
    assert (summary.indexing, summary.created, summary.failed) == (0, 1, 1)
    assert [failure.external_id for failure in sent.failures()] == ["gone"]


async def test_a_key_that_is_revoked_meanwhile_ends_the_run(sent: Ledger, source: Source) -> None:
    settings = source.settings.model_copy(update={"api_key": SecretStr(f"{source.service.api_key}x")})
    async with open_client(settings) as client:
        with pytest.raises(RefusedError, match="does not accept the API key"):
            await wait_until_indexed(client, sent, outages=outage_policy_of(client, settings))


_BROKEN = statement("break_an_index")
_MENDED = "UPDATE space_documents SET indexed_version = version, attempts = 0, error = NULL, claimed_until = NULL"


@pytest.fixture
async def unsearchable(slow: Source) -> Source:
    """The library after an upload with one of twelve documents stored without an index."""

    async def break_one(job: Job) -> None:
        await run_in_turn(job, settings=slow.settings)
        with slow.service.owner_connection() as connection:
            pending = "SELECT count(*) FROM space_documents WHERE indexed_version IS DISTINCT FROM version"
            while connection.execute(pending).fetchone() != (0,):  # noqa: ASYNC110 - it happens in the service
                await asyncio.sleep(0.05)
            connection.execute(_BROKEN)

    first = await slow.load(hooks=Hooks(run_batches=break_one))
    assert (first.summary.created, first.summary.failed) == (11, 1)
    return slow


async def test_index_that_failed_is_asked_after_by_later_runs(unsearchable: Source) -> None:
    failed = {"shelf-1/note-1.md": "indexing_failed"}
    planned = await unsearchable.load(dry_run=True)
    assert (planned.plan.unchanged, planned.plan.resumed, planned.plan.sends) == (12, 0, 0)
    for waits in (True, False, True):
        again = (await unsearchable.load(wait_for_index=waits)).summary
        assert (again.documents, again.unchanged, again.failed, again.indexing) == (12, 11, 1, 0), waits
        assert not again.complete
        assert await unsearchable.quarantine() == failed
    retried = (await unsearchable.retry()).summary
    assert (retried.documents, retried.failed) == (1, 1)
    assert await unsearchable.quarantine() == failed
    unsearchable.service.execute(_MENDED)
    well = (await unsearchable.retry()).summary
    assert (well.unchanged, well.quarantined, well.complete) == (1, 0, True)
    assert await unsearchable.quarantine() == {}


async def test_index_that_failed_is_ignored_when_told(unsearchable: Source) -> None:
    await unsearchable.ignore("shelf-1/note-1.md")
    for _ in range(2):
        again = (await unsearchable.load()).summary
        assert (again.unchanged, again.ignored, again.complete) == (11, 1, True)
    assert await unsearchable.quarantine(ignored=True) == {"shelf-1/note-1.md": "indexing_failed"}
