"""How often a search waits for the database, and what it doesn't wait for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from carrel.wire.search import SearchMode
from tests.harness.documents import add_to_collection, create_collection, ok, uploaded
from tests.harness.services import ADMIN_EMAIL, RunningService

CATALOG, COLLECTION = "search/searchDocumentCatalog", "search/searchDocumentCollection"
MOST = 6
COUNTED = "ReadyForQuery"


@pytest.fixture
def answers(service: RunningService, tmp_path: Path) -> Iterator[Callable[[], int]]:
    """Count how often the database has said since the last call that it is ready for the next message."""
    engine = service.runtime.database._engine.sync_engine
    path = tmp_path / "messages"
    with path.open("wb") as file:

        def trace(pooled: Any, *_: Any) -> None:
            pooled.driver_connection.pgconn.trace(file.fileno())

        def untrace(pooled: Any, *_: Any) -> None:
            pooled.driver_connection.pgconn.untrace()

        def count() -> int:
            found = path.read_text(errors="replace").count(COUNTED)
            before, seen[0] = seen[0], found
            return found - before

        seen = [0]
        event.listen(engine, "checkout", trace)
        event.listen(engine, "checkin", untrace)
        yield count
        event.remove(engine, "checkout", trace)
        event.remove(engine, "checkin", untrace)


@pytest.mark.parametrize("mode", [mode.value for mode in SearchMode])
@pytest.mark.parametrize("user", [None, ADMIN_EMAIL])
def test_a_search_waits_for_six_answers_at_most(
    service: RunningService, answers: Callable[[], int], mode: str, user: str | None
) -> None:
    """In every mode, of the catalog and of a collection, also for somebody else; authentication included."""
    collection_id = create_collection(service, "Fleet")
    for number in range(4):
        document_id = uploaded(service, f"ship-{number}", f"The ship {number} sails at noon.")["documentId"]
        ok(add_to_collection(service, document_id, collection_id))
    acting = {"userEmail": user} if user else {}
    options = {"searchQuery": "ship", "searchOptions": {"mode": mode}} | acting
    for operation, place in ((CATALOG, {}), (COLLECTION, {"documentCollectionId": collection_id})):
        counted = 0
        for _ in range(2):  # connections are opened and a credential's last use is noted by the first
            answers()
            assert len(ok(service.call(operation, options | place))["results"]) == 4
            counted = answers()
        assert 0 < counted <= MOST, operation
