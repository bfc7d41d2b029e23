"""The previous release runs on the new schema, as required during an upgrade."""

import subprocess
from typing import cast

import pytest
from sqlalchemy import URL

from carrel import Carrel, NotFoundError
from service import migrations
from service.migrations import HEAD
from service.platform.postgres.host import own_binaries
from tests.harness.processes import ServiceProcess
from tests.harness.releases import ServiceOfBefore, export_release_before, head_of_before, migrate_before
from tests.harness.services import API_KEY, SECRET_KEY, RunningService
from tests.oauth.flow import SCOPE, a_person, an_app

ADA = {"type": "user", "email": "ada@example.test"}
SCOPES = f"{SCOPE} api:agent:message:*"
QUESTION = "When does the ferry to Northlight leave?"


def sign_in(service: ServiceProcess) -> str:
    running = cast("RunningService", service)  # of which this asks what a process has, too
    return str(a_person(running).tokens(an_app(running), scope=SCOPES)["access_token"])


def walk_main_road(admin: Carrel, ada: Carrel) -> None:
    collection = admin.document_collections.create_document_collection("Timetable").document_collection_id
    document = admin.catalog.upload_file(
        b"The ferry to Northlight leaves at noon.",
        document_external_id="ferry",
        file_name="ferry.txt",
        collection_id=collection,
        await_vector_store_sync=True,
    ).document_id
    agent = admin.admin.agents.create("Lobby", collection_ids=[collection]).agent_id
    admin.admin.agents.deploy(agent, [ADA])
    [known] = admin.search.search_document_catalog(QUESTION).results
    assert ada.search.search_document_catalog(QUESTION).results == []
    for resource in (known.resource, {"resourceId": str(collection), "resourceType": "DOCUMENT_COLLECTION"}):
        admin.admin.grants.set(resource, [{"principal": ADA, "role": "VIEWER"}])
    [found] = ada.search.search_document_catalog(QUESTION).results
    assert found.document_id == document
    reply = ada.agents.send_and_wait(agent, QUESTION)
    assert "noon" in reply.text, reply
    admin.admin.grants.set(known.resource, [])
    with pytest.raises(NotFoundError):
        ada.catalog.get_document(document)
    assert ada.search.search_document_catalog(QUESTION).results == []
    admin.catalog.delete_document(document)
    assert admin.search.search_document_catalog(QUESTION).results == []


def schema_of(url: URL) -> str:
    """Return a database's schema in SQL, without lines with a random key."""
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    command = [own_binaries() / "pg_dump", "--schema-only", address]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in dumped.splitlines() if not line.startswith("\\"))


def test_a_migrated_database_equals_a_new_one(databases, tmp_path) -> None:
    """Migrated from the previous release: tables, functions, policies, privileges and revision are the same."""
    urls = [databases.owner_url(databases.empty()) for _ in range(2)]
    migrate_before(export_release_before(tmp_path), urls[0])
    for url in urls:
        migrations.upgrade(url)
    migrated, new = map(schema_of, urls)
    assert "CREATE POLICY organization ON public.documents" in new
    assert migrated == new
    for url in urls:
        with databases.connect(str(url.database)) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
        databases.drop(str(url.database))


@pytest.mark.slow
def test_the_release_before_serves_on_the_new_schema(databases, tmp_path) -> None:
    tree = export_release_before(tmp_path)
    known = head_of_before(tree)
    name = databases.clone()
    address = databases.owner_url(name).set(drivername="postgresql").render_as_string(hide_password=False)
    service = ServiceOfBefore(tree, CARREL_DATABASE_URL=address, CARREL_SECRET_KEY=SECRET_KEY, CARREL_WORKERS="1")
    try:
        service.start()
        with (
            Carrel(base_url=service.base_url, api_key=API_KEY) as admin,
            Carrel(base_url=service.base_url, access_token=sign_in(service)) as ada,
        ):
            walk_main_road(admin, ada)
        assert service.stop() == 0
        # It was that release's code, and nobody else's.
        told = {(event["schema"], event["known"]) for event in service.events("database_is_newer")}
        assert told == {(HEAD, known)} - {(known, known)}
        with databases.connect(name) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
    finally:
        service.close()
        databases.drop(name)
