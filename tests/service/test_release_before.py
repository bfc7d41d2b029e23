"""The release before runs on the schema of this one: what its replicas need while a deployment is upgraded."""

from pathlib import Path
from typing import cast

import pytest

from carrel import Carrel, NotFoundError
from service.migrations import HEAD
from tests.harness.databases import TestDatabases
from tests.harness.processes import ServiceProcess
from tests.harness.releases import ServiceOfBefore, export_release_before, head_of_before
from tests.harness.services import API_KEY, SECRET_KEY, RunningService
from tests.oauth.flow import SCOPE, a_person, an_app

ADA = {"type": "user", "email": "ada@example.test"}
SCOPES = f"{SCOPE} api:agent:message:*"
QUESTION = "When does the ferry to Northlight leave?"


def sign_in(service: ServiceProcess) -> str:
    """Have Ada sign in with her password, and return the access token."""
    running = cast("RunningService", service)  # of which this asks what a process has, too
    return str(a_person(running).tokens(an_app(running), scope=SCOPES)["access_token"])


def walk_main_road(admin: Carrel, ada: Carrel) -> None:
    """Load a document, find it, ask an agent about it; Ada may only while it is shared with her; then it is gone."""
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


@pytest.mark.slow
def test_the_release_before_serves_on_the_new_schema(databases: TestDatabases, tmp_path: Path) -> None:
    """Its main road, from signing in to deleting; started there, it leaves the schema as it is."""
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
