"""The status of an organization: each figure counts exactly its meaning, for the organization alone."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from service.index.progress import FAILED_AFTER
from service.platform.identifiers import uuid7
from service.platform.version import VERSION
from service.text.embedding import MODEL_FOLDER
from service.text.embedding.local import choose
from tests.harness.documents import create_collection, uploaded
from tests.harness.services import MakeService, RunningService
from tests.service.directory import another_organization, done, on_rows, organization_id


def status(service: RunningService, **options: Any) -> dict[str, Any]:
    return done(service.call("admin/status/get", {}, **options))


instant = datetime.fromisoformat
Connection = psycopg.Connection[Any]
NOTHING_WAITS = {"waitingDocuments": 0, "waitingChunks": 0, "chunksPerSecond": 0.0}


def test_an_empty_organization(service: RunningService) -> None:
    found = status(service)
    [disk] = found.pop("storage")
    assert (disk["areas"], disk["level"]) == (["UPLOADS", "FILES"], "OK")
    assert 0 < disk["lowBelowBytes"] < disk["freeBytes"] <= disk["totalBytes"]
    assert found == {
        "version": VERSION,
        "documentCount": 0,
        "collectionCount": 0,
        "chunkCount": 0,
        "indexing": {"done": 0, "running": 0, "failed": 0} | NOTHING_WAITS,
        "jobs": {"waiting": 0, "running": 0, "failed": 0},
        "syncs": {"running": 0, "failed": 0},
        "quarantine": {"itemCount": 0, "sourceCount": 0, "sources": []},
        "openAlertCount": 0,
        "pagesWaiting": 0,
        "rebuildsRunning": 0,
        "embeddingModel": "all-MiniLM-L6-v2",
        "arithmetic": {"precision": "int8"},
        "languageModel": "built-in",
    }


def test_documents_and_how_far_they_are_indexed(service: RunningService) -> None:
    stranger = another_organization(service)
    into = {"collectionId": create_collection(service, "Logs")}
    ids = [uploaded(service, name, f"The log of {name}.", **into)["documentId"] for name in "abcdef"]
    before = status(service)
    assert (before["documentCount"], before["collectionCount"], before["chunkCount"]) == (6, 1, 6)
    assert before["indexing"] == {"done": 6, "running": 0, "failed": 0} | NOTHING_WAITS
    done(service.call("catalog/deleteDocument", {"documentId": ids.pop()}))
    [(catalog,)] = on_rows(service, "SELECT space_id FROM spaces", more="AND is_catalog")
    with service.owner_connection() as connection:
        # The words of the first and the last are still there.
        for document, attempts, words in zip(ids, (0, 1, *[FAILED_AFTER] * 2), (1, None, None, 1), strict=False):
            # Nobody takes it up.
            connection.execute(
                "UPDATE space_documents SET indexed_version = NULL, words_version = %s, attempts = %s,"
                " claimed_until = 'infinity' WHERE document_id = %s AND space_id = %s",
                (words, attempts, UUID(document), catalog),
            )
        [(since,)] = connection.execute(
            "SELECT min(greatest(added_at, created_at)) FROM space_documents JOIN document_versions"
            " USING (document_id, version) WHERE document_id = ANY(%s) AND space_id = %s",
            ([UUID(ids[1])], catalog),
        ).fetchall()
    now = status(service)
    assert (now["documentCount"], now["chunkCount"]) == (5, 5)
    assert {**now["indexing"], "oldestWaitingAt": instant(now["indexing"]["oldestWaitingAt"])} == {
        "done": 1,
        "running": 2,
        "withoutMeaning": 1,
        "failed": 2,
        "failedInMeaning": 1,
        "oldestWaitingAt": since,
        # What has failed waits for nothing but its next attempt.
        "waitingDocuments": 1,
        "waitingChunks": 1,
        "chunksPerSecond": 0.0,
    }
    for name in ("DONE", "RUNNING", "FAILED"):
        listed = done(service.call("catalog/listDocuments", {"indexing": name, "pageSize": 1000}))["documents"]
        assert len(listed) == now["indexing"][name.lower()]
    on_rows(service, "UPDATE spaces SET model = 'another'", more="AND is_catalog")
    assert status(service)["embeddingModel"] == "another"
    other = status(service, api_key=stranger)
    assert other["documentCount"] == other["collectionCount"] == other["chunkCount"] == 0
    assert other["indexing"] == {"done": 0, "running": 0, "failed": 0} | NOTHING_WAITS


def test_jobs_syncs_and_rebuilds(desk) -> None:
    service = desk.service
    stranger = another_organization(service)
    own, collection = organization_id(service), UUID(create_collection(service, "Synced"))
    moment = datetime.now(UTC).replace(microsecond=0)
    with service.owner_connection() as connection:
        turns = [a_turn(connection, own, desk.agent_id, at=moment - timedelta(minutes=one)) for one in (1, 2, 3)]
        for turn, state in zip(turns, ("todo", "todo", "doing"), strict=True):
            a_job(connection, own, state, turn_id=turn)
        a_job(connection, organization_id(service, api_key=stranger), "todo", turn_id=turns[2])
        for hours in (1, 23.5, 25):
            failed_at = moment - timedelta(hours=hours)
            a_turn(connection, own, desk.agent_id, at=failed_at - timedelta(minutes=50), failed_at=failed_at)
        for state, hours in (("PENDING", 0), ("RUNNING", 0), ("FAILED", 1), ("FAILED", 25), ("COMPLETED", 1)):
            sync = a_sync(connection, collection, state, finished=moment - timedelta(hours=hours))
        connection.execute(
            "UPDATE docstore_syncs SET updated_at = %s, progress_at = %s WHERE sync_id = %s",
            (moment - timedelta(hours=9), moment - timedelta(minutes=5), sync),
        )
        for state in ("RUNNING", "COMPLETED"):
            connection.execute(
                "INSERT INTO index_rebuilds (rebuild_id, organization_id, collection_id, space_id, model,"
                " previous_model, status, started_by) SELECT %s, organization_id, %s, 0, 'x', 'y', %s, created_by"
                " FROM collections WHERE collection_id = %s",
                (uuid7(), collection, state, collection),
            )
    found = status(service)
    assert found["documentCount"] == len(done(service.call("catalog/listDocuments", {}))["documents"])
    assert (found["jobs"]["waiting"], found["jobs"]["running"], found["jobs"]["failed"]) == (2, 1, 2)
    assert instant(found["jobs"]["oldestWaitingAt"]) == moment - timedelta(minutes=2)
    with service.owner_connection() as connection:
        a_job(connection, own, "todo", sync_id=sync)
    with_run = status(service)["jobs"]
    assert (with_run["waiting"], instant(with_run["oldestWaitingAt"])) == (3, moment - timedelta(minutes=5))
    assert found["syncs"] == {"running": 2, "failed": 2}
    assert found["rebuildsRunning"] == 1
    other = status(service, api_key=stranger)
    assert other["jobs"] == {"waiting": 1, "running": 0, "failed": 0}
    assert other["syncs"] == {"running": 0, "failed": 0}
    assert other["rebuildsRunning"] == 0


def a_turn(
    connection: Connection, organization: UUID, agent_id: str, *, at: datetime, failed_at: datetime | None = None
) -> UUID:
    conversation, turn = uuid7(), uuid7()
    connection.execute(
        "INSERT INTO conversations (conversation_id, organization_id, agent_id, principal_id, created_at, updated_at)"
        " SELECT %s, organization_id, agent_id, created_by, %s, %s FROM agents WHERE agent_id = %s",
        (conversation, at, at, agent_id),
    )
    connection.execute(
        "INSERT INTO turns (turn_id, organization_id, conversation_id, turn_no, credential_id, message, status,"
        " created_at, finished_at, attempt) VALUES (%s, %s, %s, 1, %s, 'Hello?', %s, %s, %s, 1)",
        (turn, organization, conversation, uuid7(), "FAILED" if failed_at else "RUNNING", at, failed_at),
    )
    return turn


def a_job(connection: Connection, organization: UUID, state: str, **about: UUID) -> None:
    ids = {name: str(one) for name, one in about.items()}
    args = {"organization_id": str(organization), **ids, "request_id": "r"}
    [(worker,)] = connection.execute(
        "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() + interval '1 day') RETURNING id"
    ).fetchall()
    connection.execute(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, worker_id)"
        " VALUES ('beside', 'x', %s, %s, %s)",
        (Jsonb(args), state, worker if state == "doing" else None),
    )


def a_sync(connection: Connection, collection: UUID, state: str, *, finished: datetime) -> UUID:
    sync = uuid7()
    connection.execute(
        "INSERT INTO docstore_syncs (sync_id, organization_id, collection_id, principal_id, credential_id, config,"
        " status, finished_at) SELECT %s, organization_id, collection_id, created_by, %s, '{}', %s, %s"
        " FROM collections WHERE collection_id = %s",
        (sync, uuid7(), state, finished, collection),
    )
    return sync


def test_the_agents_own_model_is_named(make_service: MakeService) -> None:
    service = make_service(model_url="http://127.0.0.1:9/v1", model_names=("small", "large"))
    assert status(service)["languageModel"] == "small"


def test_the_arithmetic_is_named_with_what_was_measured(make_service: MakeService) -> None:
    service = make_service(embeddings_precision="auto")
    chosen = choose(service.settings.data_dir / MODEL_FOLDER, "auto")
    assert status(service)["arithmetic"] == {
        "precision": chosen.precision,
        "processor": chosen.processor,
        "timesAsFast": chosen.times_as_fast,
    }
