"""An index on several servers: results are checked with the coordinator, and servers show no rows without an
organization. Other tests of this folder run with `CARREL_TEST_CLUSTER`."""

import asyncio
import os
from uuid import UUID

import pytest
from psycopg import sql

from service.operate import startup
from service.operate.backup import taking
from service.operate.commands import run
from service.operate.distribution import distribute_index
from service.platform.database import SERVICE_ROLE
from service.platform.deployment_errors import ClusterError
from tests.harness.cluster import VARIABLE, ClusterDatabases
from tests.harness.documents import add_to_collection, add_users, create_collection, ok, uploaded
from tests.harness.messages import messages_of
from tests.harness.services import RunningService
from tests.service.directory import collection as resource_of
from tests.service.directory import document, grant, on_rows, organization_id, user

READER = "reader@example.test"
on_a_cluster = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no Citus cluster")


def search(service: RunningService, operation: str, **where: str) -> list[dict[str, object]]:
    body = {"searchQuery": "quinquereme", "userEmail": READER, **where}
    return ok(service.call(f"search/{operation}", body))["results"]


def test_what_a_server_is_behind_with_is_not_shown(own_service: RunningService) -> None:
    service = own_service
    service.runtime.database.is_distributed = True
    add_users(service, READER)
    text = "A quinquereme of Nineveh."
    document_id = uploaded(service, "log", text, allowedUsersEmailAddresses=READER)["documentId"]
    collection = {"documentCollectionId": create_collection(service, "Log")}
    ok(add_to_collection(service, document_id, collection["documentCollectionId"]))
    grant(service, resource_of(collection["documentCollectionId"]), user(READER))
    assert search(service, "searchDocumentCatalog")
    assert search(service, "searchDocumentCollection", **collection)
    tables = ("chunks_384", "vectors_384", "code_pages_384")
    with service.owner_connection() as owner:
        [(before,)] = owner.execute("SELECT DISTINCT access_class FROM chunks_384").fetchall()
        grant(service, document(document_id))
        for table in tables:
            moved = owner.execute(f"UPDATE {table} SET access_class = %s WHERE access_class <> %s", [before, before])  # noqa: S608
            assert moved.rowcount
    assert not search(service, "searchDocumentCatalog")
    assert not search(service, "searchDocumentCollection", **collection)
    logged = on_rows(service, "SELECT result_count, document_ids FROM searches", more="ORDER BY search_id")
    assert logged == [(1, [UUID(document_id)])] * 2 + [(0, [])] * 2


def test_chunks_are_checked_twice_only_on_several_servers(own_service: RunningService) -> None:
    """On one server all data are of one moment, so a second check is useless."""
    document_id = uploaded(own_service, "log", "A quinquereme of Nineveh.")["documentId"]
    counts: list[int] = []
    for distributed in (False, True):
        own_service.runtime.database.is_distributed = distributed
        with messages_of(own_service) as messages:
            ok(own_service.call("documentCollections/getDocumentChunks", {"documentId": document_id}))
        counts.append(len(messages))
    assert counts[1] == counts[0] + 1


def test_a_worker_sees_that_the_index_was_spread_after_the_database_was_prepared(make_service, monkeypatch) -> None:
    """No client is connected in between, so the command isn't refused."""
    answers = iter([False, True])

    monkeypatch.setattr(startup, "is_distributed", lambda _: next(answers))
    assert make_service().runtime.database.is_distributed


@on_a_cluster
def test_a_server_shows_nothing_unasked(service: RunningService, databases) -> None:
    """Without an organization in its transaction, the service's role finds no row, on the coordinator or a worker."""
    uploaded(service, "log", "A quinquereme of Nineveh.")
    assert isinstance(databases, ClusterDatabases)
    own = organization_id(service)

    async def count(organization: UUID | None, how: str) -> int:
        async with service.runtime.database.transaction(None) as connection:
            await connection.exec_driver_sql(how, (str(organization or ""),))
            return (await connection.exec_driver_sql("SELECT count(*) FROM chunks_384")).scalar_one()

    assert service.run(count(own, "SELECT enter_organization(%s)")) > 0
    assert service.run(count(None, "SELECT enter_organization(%s)")) == 0
    assert service.run(count(own, "SELECT set_config('carrel.organization_id', %s, true)")) == 0
    shards = "SELECT c.oid::regclass::text FROM pg_class c WHERE relkind = 'r' AND relname ~ '^chunks_384_[0-9]+$'"
    found = 0
    for worker in databases.worker_connections(service.database):
        with worker:
            names = [name for (name,) in worker.execute("SET citus.override_table_visibility = off").execute(shards)]
            assert names
            for name in names:
                count_rows = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name))
                [(number,)] = worker.execute(count_rows).fetchall()
                found += int(number)
                worker.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(SERVICE_ROLE)))
                assert worker.execute(count_rows).fetchone() == (0,)
                worker.execute("RESET ROLE")
    assert found > 0


def test_no_backup_is_taken_of_several_servers(service, tmp_path, monkeypatch, capsys) -> None:
    if VARIABLE not in os.environ:
        monkeypatch.setattr(taking, "is_distributed", lambda _: True)
    assert run(["backup", str(tmp_path / "x")], service.settings) == 1
    assert "Back up each server" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_index_needs_a_cluster_to_be_spread(databases) -> None:
    name = databases.empty()
    try:
        with pytest.raises(ClusterError, match=r"docs/scaling\.md|citus_add_node"):
            asyncio.run(distribute_index(databases.owner_url(name), shards=4))
    finally:
        databases.drop(name)
