"""How often a search waits for the database, and how many messages an upload sends to it."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import event

from carrel.wire.search import SearchMode
from service.platform.logs import request_id
from tests.harness.documents import create_collection, get_document, ok, uploaded
from tests.harness.messages import OURS, messages_of
from tests.harness.services import ADMIN_EMAIL, RunningService, ServiceHarness

CATALOG, COLLECTION = "search/searchDocumentCatalog", "search/searchDocumentCollection"
MOST = 7
COUNTED = "ReadyForQuery"


@pytest.fixture(scope="module")
def fleet(service_harness: ServiceHarness) -> Iterator[tuple[RunningService, str]]:
    """A service of its own, in which nothing works beside the searches, and a collection with four documents."""
    with service_harness.running(sweep_seconds=3600) as service:
        collection_id = create_collection(service, "Fleet")
        for number in range(4):
            uploaded(service, f"ship-{number}", f"The ship {number} sails at noon.", collectionId=collection_id)
        yield service, collection_id


@pytest.fixture
def answers(fleet: tuple[RunningService, str], tmp_path) -> Iterator[Callable[[], int]]:
    """Count how often the database has said since the last call that it is ready for the requests' next message."""
    engine = fleet[0].runtime.database._engine.sync_engine
    path = tmp_path / "messages"
    with path.open("wb") as file:

        def trace(pooled, *_) -> None:
            if request_id() == OURS:
                pooled.driver_connection.pgconn.trace(file.fileno())

        def untrace(pooled, *_) -> None:
            pooled.driver_connection.pgconn.untrace()

        def count() -> int:
            found = path.read_text(errors="replace").count(COUNTED)
            before, seen[0] = seen[0], found
            return found - before

        seen = [0]
        fleet[0].http.headers["X-Request-Id"] = OURS
        event.listen(engine, "checkout", trace)
        event.listen(engine, "checkin", untrace)
        yield count
        event.remove(engine, "checkout", trace)
        event.remove(engine, "checkin", untrace)


@pytest.mark.parametrize("mode", [mode.value for mode in SearchMode])
@pytest.mark.parametrize("user", [None, ADMIN_EMAIL])
def test_a_search_waits_for_seven_answers_at_most(fleet, answers, mode, user) -> None:
    """In every mode, of the catalog and of a collection, also for another person; authentication included."""
    service, collection_id = fleet
    options = {"searchQuery": "ship", "searchOptions": {"mode": mode}} | ({"userEmail": user} if user else {})
    for operation, place in ((CATALOG, {}), (COLLECTION, {"documentCollectionId": collection_id})):
        counted = 0
        for _ in range(2):  # connections are opened and a credential's last use is noted by the first
            answers()
            assert len(ok(service.call(operation, options | place))["results"]) == 4
            counted = answers()
        assert 0 < counted <= MOST, operation


def test_an_upload_sends_few_messages(service: RunningService) -> None:
    """The words of a new document take seven, and its vectors three; of a changed one ten and four, as its vectors
    before are looked for. Statements that belong together go in one message."""
    uploaded(service, "first", "The first ferry leaves at noon.")
    with messages_of(service) as created:
        uploaded(service, "second", "The second ferry leaves at one.")
    with messages_of(service) as changed:
        assert uploaded(service, "second", "The second ferry leaves at two.")["status"] == "UPDATED"
    assert sum("INSERT INTO audit_entries" in message for message in created) == 1
    assert len(created) <= 7 + 3, created
    assert len(changed) <= 10 + 4, changed


def test_a_document_that_comes_back_has_the_next_version(service: RunningService) -> None:
    document_id = uploaded(service, "ferry", "The ferry leaves at noon.")["documentId"]
    uploaded(service, "ferry", "The ferry leaves at one.")
    ok(service.call("catalog/deleteDocument", {"documentId": document_id}))
    answer = uploaded(service, "ferry", "The ferry leaves at two.")
    assert (answer["status"], answer["documentVersion"]) == ("CREATED", 3)
    assert [each["documentVersion"] for each in get_document(service, document_id)["versions"]] == [3]
    entries = ok(service.call("admin/auditLog/query", {"action": "document.create"}))["entries"]
    assert [entry["details"]["version"] for entry in entries] == [3, 1]
