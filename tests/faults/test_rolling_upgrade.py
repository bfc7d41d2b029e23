"""Two replicas of the previous release, replaced in turn by the new release under use."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import count, islice
from typing import cast
from uuid import UUID, uuid4

import psycopg
import pytest

from carrel import Carrel, NotFoundError
from service import migrations
from service.migrations.job_queue import PREFIX
from tests.harness.cutting import cutting
from tests.harness.databases import TestDatabases
from tests.harness.jobs import until
from tests.harness.loops import going_on
from tests.harness.processes import ServiceProcess
from tests.harness.releases import ServiceOfBefore, export_release_before, head_of_before
from tests.harness.services import API_KEY, SECRET_KEY, RunningService
from tests.service.test_release_before import ADA, sign_in, walk_main_road

QUESTION = "When does the ferry leave the pier?"
SETTLED_SECONDS = 3.0
TURNS = 5
SEARCH = "/search/searchDocumentCatalog"


class Traffic:
    """People who search, load, share and revoke with the SDK until stopped. `calls` counts their calls, `sent_again`
    the SDK's retries; `failed` are errors and wrong results."""

    def __init__(self, base_url: str, token: str) -> None:
        self.calls: Counter[str] = Counter()
        self.sent_again: list[str] = []
        self.failed: list[str] = []
        self._base_url, self._token = base_url, token
        self._turns = count()

    def going_on(self) -> AbstractContextManager[None]:
        self._take_turns(self._load, turns=1)
        work = (self._search, self._search, self._load, self._share)
        return going_on(*(partial(self._take_turns, each) for each in work))

    def _take_turns(self, work: Callable[[Carrel, Carrel, str], None], *, turns: int = TURNS) -> None:
        """Do some of a person's work; then continue with new connections, possibly to another replica."""
        with (
            Carrel(base_url=self._base_url, api_key=API_KEY) as admin,
            Carrel(base_url=self._base_url, access_token=self._token) as ada,
        ):
            for turn in islice(self._turns, turns):
                try:
                    work(admin, ada, f"{work.__name__}-{turn}")
                except Exception as error:  # noqa: BLE001 - it is what is counted
                    self.failed.append(f"{work.__name__}: {error!r}")

    def _search(self, admin: Carrel, ada: Carrel, name: str) -> None:
        del admin, name
        assert ada.search.search_document_catalog(QUESTION).results, "what everybody may read was not found"
        self.calls["search"] += 1

    def _load(self, admin: Carrel, ada: Carrel, name: str) -> None:
        text = f"The ferry {name} leaves the pier at noon.".encode()
        loaded = admin.catalog.upload_file(
            text, document_external_id=name, file_name="ferry.txt", internal_public=True, await_vector_store_sync=True
        )
        assert ada.catalog.download_document(loaded.document_id).read() == text
        self.calls["load"] += 1

    def _share(self, admin: Carrel, ada: Carrel, name: str) -> None:
        secret = f"Secret {name} is under the doormat."
        loaded = admin.catalog.upload_file(
            secret.encode(), document_external_id=name, file_name="secret.txt", await_vector_store_sync=True
        )
        resource = {"resourceId": str(loaded.document_id), "resourceType": "UPLOADED_DOCUMENT"}
        admin.admin.grants.set(resource, [{"principal": ADA, "role": "VIEWER"}])
        ada.catalog.get_document(loaded.document_id)
        assert loaded.document_id in self._find(ada, secret), "what is shared was not found"
        admin.admin.grants.set(resource, [])
        with pytest.raises(NotFoundError):
            ada.catalog.get_document(loaded.document_id)
        assert loaded.document_id not in self._find(ada, secret), "what was taken back was found"
        self.calls["share and take back"] += 1

    def _find(self, ada: Carrel, question: str) -> set[UUID | None]:
        return {found.document_id for found in ada.search.search_document_catalog(question).results}


@contextmanager
def counting_retries(traffic: Traffic) -> Iterator[None]:
    logger, handler = logging.getLogger("carrel"), logging.Handler()
    handler.emit = lambda record: (
        None if " attempt 1" in (said := record.getMessage()) else traffic.sent_again.append(said)
    )  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield
    logger.removeHandler(handler)
    logger.setLevel(level)


def add_to_every_table(databases: TestDatabases, name: str) -> None:
    """Add a column to each table, as a migration may; prepared statements of connections stay valid."""
    with databases.connect(name) as connection:
        connection.execute(f"SET lock_timeout = {migrations.LOCK_MILLISECONDS}")
        tables = connection.execute("SELECT tablename FROM pg_policies WHERE policyname = 'organization'").fetchall()
        waiting = [table for (table,) in tables if not table.startswith(PREFIX)]
        while waiting:
            try:
                connection.execute(f"ALTER TABLE {waiting[0]} ADD COLUMN added_{len(waiting)}_{uuid4().hex} text")
                waiting.pop(0)
            except psycopg.errors.LockNotAvailable:
                time.sleep(migrations.PAUSE_SECONDS)


def schema_of(databases: TestDatabases, name: str) -> str:
    with databases.connect(name) as connection:
        [(revision,)] = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return str(revision)


def searches_of(service: ServiceProcess) -> int:
    return sum(str(event["route"]).endswith(SEARCH) for event in service.events("request"))


def wait_for_searches(service: ServiceProcess, *, after: int) -> None:
    until(lambda: searches_of(service) > after)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_nobody_notices_an_upgrade(databases: TestDatabases, tmp_path) -> None:
    tree = export_release_before(tmp_path / "before")
    name = databases.empty()
    address = databases.owner_url(name).set(drivername="postgresql").render_as_string(hide_password=False)
    shared = {
        "CARREL_DATABASE_URL": address,
        "CARREL_SECRET_KEY": SECRET_KEY,
        "CARREL_FILES_URL": f"file://{tmp_path}/files",
    }
    with ExitStack() as stack:
        old = [ServiceOfBefore(tree, **shared) for _ in range(2)]
        new = [ServiceProcess(**shared) for _ in range(2)]
        for service in (*old, *new):
            stack.callback(service.close)
        for service in old:
            service.start()
        network = stack.enter_context(cutting(*(service.base_url for service in (*old, *new))))
        traffic = Traffic(network.base_url, sign_in(cast("ServiceProcess", old[0])))
        with counting_retries(traffic), traffic.going_on():
            assert schema_of(databases, name) == head_of_before(tree)
            for before, after in zip(old, new, strict=True):
                answered = searches_of(before)
                time.sleep(SETTLED_SECONDS)
                wait_for_searches(before, after=answered)
                assert before.stop() == 0
                time.sleep(SETTLED_SECONDS)
                add_to_every_table(databases, name)
                after.start()
                assert schema_of(databases, name) == migrations.HEAD
            for after in new:
                wait_for_searches(after, after=searches_of(after))
        print(f"{dict(traffic.calls)}; sent again: {traffic.sent_again}")  # noqa: T201 - what the test is for
        assert traffic.failed == []
        assert traffic.calls.keys() == {"search", "load", "share and take back"}
        running = cast("RunningService", new[0])
        with Carrel(base_url=new[1].base_url, api_key=API_KEY) as admin:
            for document in admin.catalog.list_documents():
                admin.catalog.delete_document(document.document_id)
            ada = stack.enter_context(Carrel(base_url=running.base_url, access_token=sign_in(new[0])))
            walk_main_road(admin, ada)
        assert [service.stop() for service in new] == [0, 0]
    databases.drop(name)
