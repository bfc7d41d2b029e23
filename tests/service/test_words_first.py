"""A document is found by its words when the upload is answered, and by meaning once the vectors exist."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from service.domains.documents.catalog import uploads
from service.domains.search import pipeline
from service.index.ingestion import indexing
from service.index.ingestion.backlog.queries import claim_pending
from service.index.ingestion.feeding import feed, renew
from service.index.ingestion.sweeper import release_claims, sweep
from service.index.ingestion.turns import Lane
from service.index.progress import Half
from service.platform.sharing import Figure, Share
from service.text.embedding.local import LocalEmbedder
from tests.harness import documents
from tests.harness.documents import add_to_collection, add_users, get_document, ok, search, upload, uploaded
from tests.harness.jobs import until
from tests.harness.services import MakeService, RunningService

FERRY = "The quinquereme leaves at noon."
READER = "reader@example.test"


class Gate:
    """Lets documents be embedded while open; queries are always embedded."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.embedded: list[str] = []
        self.refuses = False

    async def embed(
        self, embedder: LocalEmbedder, texts: Sequence[str], *, in_background: bool = False
    ) -> NDArray[np.float32]:
        if in_background:
            await asyncio.to_thread(self.open.wait)
            if self.refuses:
                raise RuntimeError("refused")
        self.embedded += texts if in_background else []
        return await embed(embedder, texts, in_background=in_background)


embed = LocalEmbedder.embed


@pytest.fixture
def gate(make_service: MakeService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    del make_service  # is ended after the gate is opened
    gate = Gate()

    async def embed_when_open(embedder: LocalEmbedder, texts: Sequence[str], **how: bool) -> NDArray[np.float32]:
        return await gate.embed(embedder, texts, **how)

    monkeypatch.setattr(LocalEmbedder, "embed", embed_when_open)
    yield gate
    gate.open.set()


@pytest.fixture
def service(make_service: MakeService, gate: Gate) -> RunningService:
    del gate
    return make_service(sweep_seconds=3600)


def place(service: RunningService, document_id: str) -> dict[str, Any]:
    return get_document(service, document_id)["indexedIn"][0]


def state(service: RunningService, document_id: str) -> tuple[str, bool, int | None]:
    there = place(service, document_id)
    return there["status"], there["wordsIndexed"], there.get("indexedVersion")


def search_by(service: RunningService, mode: str, query: str, **members: Any) -> dict[str, Any]:
    options = {"mode": mode, **members.pop("options", {})}
    return ok(service.call("search/searchDocumentCatalog", {"searchQuery": query, "searchOptions": options, **members}))


def names(found: dict[str, Any]) -> list[str]:
    return [each["documentName"].removesuffix(".txt") for each in found["results"]]


def send(service: RunningService, name: str, text: str, **parts: str) -> dict[str, Any]:
    return ok(upload(service, name, text, file_name=f"{name}.txt", **parts))


def finish(service: RunningService, gate: Gate, *document_ids: str) -> None:
    gate.open.set()
    for each in document_ids:
        until(lambda key=each: state(service, key)[0] == "DONE")


def count_rows(service: RunningService) -> tuple[int, int, int]:
    [counts] = service.execute(
        "SELECT (SELECT count(*) FROM chunks_384), (SELECT count(*) FROM vectors_384),"
        " (SELECT count(*) FROM code_pages_384)"
    )
    return counts[0], counts[1], counts[2]


def test_an_upload_is_found_by_its_words_when_it_is_answered(service: RunningService, gate: Gate) -> None:
    answer = send(service, "log", FERRY)
    assert (answer["indexing"], answer["wordsIndexed"]) == ("RUNNING", True)
    document_id = answer["documentId"]
    assert state(service, document_id) == ("RUNNING", True, 1)
    again = send(service, "log", FERRY)
    assert (again["status"], again["indexing"], again["wordsIndexed"]) == ("UNCHANGED", "RUNNING", True)
    for mode in ("LEXICAL", "HYBRID"):
        found = search_by(service, mode, "quinquereme")
        assert names(found) == ["log"]
        assert found["applied"].get("withoutMeaning") == (1 if mode == "HYBRID" else None)
    found = search_by(service, "SEMANTIC", "quinquereme")
    assert (names(found), found["applied"]["withoutMeaning"]) == ([], 1)
    health = ok(service.call("admin/status/get"))
    assert (health["indexing"]["running"], health["indexing"]["withoutMeaning"], health["chunkCount"]) == (1, 1, 1)
    assert count_rows(service) == (1, 0, 0)
    finish(service, gate, document_id)
    found = search_by(service, "SEMANTIC", "quinquereme")
    assert (names(found), found["applied"].get("withoutMeaning")) == (["log"], None)
    assert state(service, document_id) == ("DONE", True, 1)
    assert "withoutMeaning" not in ok(service.call("admin/status/get"))["indexing"]


def test_nobody_is_told_of_a_document_that_they_may_not_read(service: RunningService, gate: Gate) -> None:
    add_users(service, READER)
    ids = [send(service, name, FERRY)["documentId"] for name in ("log", "diary")]
    assert search_by(service, "SEMANTIC", "quinquereme")["applied"]["withoutMeaning"] == 2
    mine = search_by(service, "SEMANTIC", "quinquereme", userEmail=READER)
    assert (mine["results"], "withoutMeaning" in mine["applied"]) == ([], False)
    assert "withoutMeaning" not in search_by(service, "HYBRID", "quinquereme", userEmail=READER)["applied"]
    send(service, "log", FERRY, allowedUsersEmailAddresses=READER)
    assert names(search_by(service, "HYBRID", "quinquereme", userEmail=READER)) == ["log"]
    assert search_by(service, "SEMANTIC", "quinquereme", userEmail=READER)["applied"]["withoutMeaning"] == 1
    send(service, "log", FERRY, allowedUsersEmailAddresses="")
    assert search_by(service, "HYBRID", "quinquereme", userEmail=READER)["results"] == []
    finish(service, gate, *ids)
    for mode in ("HYBRID", "SEMANTIC"):
        assert search_by(service, mode, "quinquereme", userEmail=READER)["results"] == []


def test_an_update_takes_the_words_and_vectors_of_the_version_before(service: RunningService, gate: Gate) -> None:
    gate.open.set()
    kept = "The tide table is on page two. " * 60
    document_id = uploaded(service, "log", f"{FERRY}\n\n{kept}", file_name="log.txt")["documentId"]
    before = count_rows(service)
    assert before[0] == before[1] > 1
    gate.open.clear()
    gate.embedded.clear()
    send(service, "log", f"The galleon leaves at dusk.\n\n{kept}")
    assert state(service, document_id) == ("RUNNING", True, 2)
    assert names(search_by(service, "LEXICAL", "galleon")) == ["log"]
    assert names(search_by(service, "LEXICAL", "quinquereme")) == []
    chunks, vectors, _ = count_rows(service)
    assert 0 < chunks - vectors < chunks  # the passage that stayed keeps its vector
    finish(service, gate, document_id)
    chunks, vectors, pages = count_rows(service)
    assert (vectors, pages) == (chunks, 1)
    assert len(gate.embedded) == 1
    assert not any("quinquereme" in each for each in gate.embedded)


def test_embedding_is_told_of_words_that_are_awaited(service, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    told, read_text, read_file = list[float](), indexing._read_text, uploads.read

    def count() -> float:
        return service.runtime.share.total(Figure.WORDS_AWAITED)

    monkeypatch.setattr(indexing, "_read_text", lambda *given: told.append(count()) or read_text(*given))
    monkeypatch.setattr(uploads, "read", lambda *given, **named: told.append(count()) or read_file(*given, **named))
    document_id = send(service, "log", FERRY)["documentId"]
    assert (told, count(), state(service, document_id)[0]) == ([1, 1], 0, "RUNNING")
    finish(service, gate, document_id)


def test_uploads_are_told_of_searches(service: RunningService, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    told, find = list[float](), pipeline.find

    def count() -> float:
        return service.runtime.share.total(Figure.SEARCHES_RUNNING)

    monkeypatch.setattr(pipeline, "find", lambda *given: told.append(count()) or find(*given))
    document_id = send(service, "log", FERRY)["documentId"]
    search_by(service, "LEXICAL", "quinquereme")
    assert (told, count()) == ([1], 0)
    finish(service, gate, document_id)


async def test_an_upload_waits_for_others_while_searches_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "TURN_SECONDS", 0)
    share = Share()
    with share.count_in(Figure.SEARCHES_RUNNING):
        await uploads.let_searches_go_first(share)
        with share.count_in(Figure.WORDS_AWAITED):
            waiting = asyncio.create_task(uploads.let_searches_go_first(share))
            for _ in range(9):
                await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
    with share.count_in(Figure.WORDS_AWAITED):
        await uploads.let_searches_go_first(share)
        with share.count_in(Figure.SEARCHES_RUNNING):
            monkeypatch.setattr(uploads, "LATER_SECONDS", -1)
            await uploads.let_searches_go_first(share)


def test_a_version_that_an_earlier_release_writes_is_shown(service: RunningService, gate: Gate) -> None:
    gate.open.set()
    document_id = uploaded(service, "log", FERRY, file_name="log.txt")["documentId"]
    service.execute("UPDATE space_documents SET version = 2, indexed_version = 2")
    assert state(service, document_id) == ("DONE", True, 2)


def test_a_deletion_between_the_halves_leaves_nothing(service: RunningService, gate: Gate) -> None:
    document_id = send(service, "log", FERRY)["documentId"]
    ok(service.call("catalog/deleteDocument", {"documentId": document_id}))
    gate.open.set()
    until(lambda: service.runtime.indexer.running == 0)
    assert search(service, "quinquereme") == []
    assert count_rows(service) == (0, 0, 0)


def test_a_newer_version_is_found_by_its_words_while_the_older_is_embedded(service: RunningService, gate: Gate) -> None:
    document_id = send(service, "log", FERRY)["documentId"]
    until(lambda: service.runtime.indexer.embedding.running == 1)
    assert send(service, "log", "The galleon leaves at dusk.")["wordsIndexed"]
    assert names(search_by(service, "LEXICAL", "galleon")) == ["log"]
    finish(service, gate, document_id)
    assert state(service, document_id) == ("DONE", True, 2)
    assert (names(search_by(service, "SEMANTIC", "galleon")), count_rows(service)) == (["log"], (1, 1, 1))


def test_what_waits_for_its_meaning_is_gone_on_with_by_another_process_the_newest_first(
    service: RunningService, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexer, cut, unpack = service.runtime.indexer, list[bytes](), indexing.unpack_blocks
    monkeypatch.setattr(indexing, "unpack_blocks", lambda blocks: cut.append(blocks) or unpack(blocks))
    assert indexer.meaning is not None
    with monkeypatch.context() as full:
        full.setattr(indexer.meaning, "room", lambda _organization_id, _lane: 0)
        ids = [send(service, f"log-{number}", f"{FERRY} {number}")["documentId"] for number in range(3)]
        assert [state(service, each)[:2] for each in ids] == [("RUNNING", True)] * 3
        assert indexer.running == 0
    assert len(names(search_by(service, "HYBRID", "quinquereme"))) == 3
    service.execute(
        "UPDATE document_contents SET title = 'Trireme' FROM documents"
        " WHERE documents.document_id = document_contents.document_id AND external_id = 'log-0'"
    )
    organization_id = UUID(ok(service.call("admin/organization/get"))["organizationId"])

    async def claim(*, newest_first: bool) -> str:
        how: dict[str, Any] = {"lane": Lane.SMALL, "half": Half.MEANING, "newest_first": newest_first}
        async with indexer.database.transaction(organization_id) as connection:
            [claimed] = await claim_pending(connection, organization_id, limit=1, **how)
        return str(claimed.document_id)

    async def go_on() -> list[str]:
        newest = [await claim(newest_first=True)]
        await release_claims(indexer.database)  # as when that process is killed
        newest.append(await claim(newest_first=True))
        await release_claims(indexer.database)
        oldest = await claim(newest_first=False)
        await release_claims(indexer.database)
        await sweep(indexer, service.runtime.disk)
        return [*newest, oldest]

    assert service.run(go_on()) == [ids[-1], ids[-1], ids[0]]
    finish(service, gate, *ids)
    assert [cut.count(each) for each in cut] == [2, 1, 1, 2]
    assert count_rows(service) == (3, 3, 3)
    assert len(names(search_by(service, "SEMANTIC", "quinquereme"))) == 3


def test_a_document_that_a_search_found_gets_its_vectors_before_newer_documents(
    service: RunningService, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    meaning = service.runtime.indexer.embedding
    with monkeypatch.context() as full:
        full.setattr(meaning, "room", lambda _organization_id, _lane: 0)
        ids = [send(service, each, f"The galleon leaves at {each}.")["documentId"] for each in ("noon", "dusk", "dawn")]
        assert names(search_by(service, "HYBRID", "dusk")) == ["dusk"]
        full.setattr(meaning, "room", lambda _organization_id, _lane: 1)
        service.run(feed(meaning))
    assert [str(each.document_id) for told in meaning.progress().values() for each in told] == [ids[1]]
    finish(service, gate, *ids)


def test_the_claim_on_a_document_of_a_rebuild_is_renewed(service: RunningService, gate: Gate) -> None:
    gate.open.set()
    document_id = uploaded(service, "log", FERRY, file_name="log.txt")["documentId"]
    gate.open.clear()
    service.execute("UPDATE space_documents SET indexed_version = NULL, words_version = NULL, claimed_until = now()")
    service.execute("UPDATE chunks_384 SET text_hash = 'another'")
    organization_id = UUID(ok(service.call("admin/organization/get"))["organizationId"])
    indexer = service.runtime.indexer

    async def begin() -> None:
        async with indexer.database.transaction(organization_id) as connection:
            claimed = await claim_pending(connection, organization_id, limit=1)
        service.runtime.background.spawn(indexer.index_now(organization_id, claimed))

    service.run(begin())
    until(lambda: any(each.chunks_expected for told in indexer.embedding.progress().values() for each in told))
    service.execute("UPDATE space_documents SET claimed_until = now()")
    service.run(renew(indexer.embedding))
    assert service.execute("SELECT claimed_until > now(), chunks_expected FROM space_documents") == [(True, 1)]
    finish(service, gate, document_id)


def test_the_failure_of_a_version_does_not_delay_the_words_of_the_next(service, gate: Gate, monkeypatch) -> None:
    send(service, "log", FERRY)
    until(lambda: any(each.chunks_expected for [each] in service.runtime.indexer.embedding.progress().values()))
    monkeypatch.setattr(gate, "refuses", True)
    # As requested by another process, which has no room for it.
    service.execute("UPDATE space_documents SET version = 2, claimed_until = now()")
    gate.open.set()
    until(lambda: service.runtime.indexer.embedding.running == 0)
    state = "SELECT attempts, error, claimed_until < now() FROM space_documents"
    assert service.execute(state) == [(0, None, True)]


def test_a_collection_has_its_words_first_too(service: RunningService, gate: Gate) -> None:
    gate.open.set()
    document_id = uploaded(service, "log", FERRY, file_name="log.txt")["documentId"]
    collection_id = documents.create_collection(service, "Log")
    ok(add_to_collection(service, document_id, collection_id))
    gate.open.clear()
    send(service, "log", "The galleon leaves at dusk.")
    places = get_document(service, document_id)["indexedIn"]
    assert [(each["status"], each["wordsIndexed"], each["indexedVersion"]) for each in places] == [
        ("RUNNING", True, 2)
    ] * 2
    body = {"documentCollectionId": collection_id, "searchQuery": "galleon", "searchOptions": {"mode": "SEMANTIC"}}
    found = ok(service.call("search/searchDocumentCollection", body))
    assert found["applied"]["withoutMeaning"] == 1
    finish(service, gate, document_id)


def test_a_document_without_a_vector_ranks_as_if_its_meaning_were_average(service: RunningService, gate: Gate) -> None:
    """All share words with the question. Answers come first, foreign subjects last."""
    gate.open.set()
    near = [f"The boat sails to the island at {hour}." for hour in ("noon", "dusk", "dawn")]
    far = [f"Payroll codes: boat {name}, island {name}, dentist." for name in ("AX", "BX", "CX")]
    for number, text in enumerate([*near, *far]):
        uploaded(service, f"{number}", text, file_name=f"{number}.txt")
    gate.open.clear()
    new = send(service, "new", "The boat sails to the island at night.")["documentId"]
    found = search_by(service, "HYBRID", "When does the boat leave for the island?")
    ranked = names(found)
    assert {*ranked[:3]} == {"0", "1", "2"}
    assert ranked[3] == "new"
    finish(service, gate, new)
    assert "new" in names(search_by(service, "HYBRID", "When does the boat leave for the island?"))[:4]
