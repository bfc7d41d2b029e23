"""kill -9 during a change of all documents that match: it goes on after the next start, and changes each once."""

from concurrent.futures import ThreadPoolExecutor

from tests.faults.loading import cheap_service
from tests.faults.points import kill_service
from tests.harness.documents import ok, upload
from tests.harness.jobs import until
from tests.service.directory import entries, walk

DOCUMENTS = 150


def test_a_killed_change_deletes_each_document_once() -> None:
    with cheap_service() as service:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda number: ok(upload(service, f"old/{number}", "Calm at sea.")), range(DOCUMENTS)))
        body = {"change": "DELETE", "folder": "old", "expectedCount": DOCUMENTS}
        named = {"documentChangeId": ok(service.call("catalog/startDocumentChange", body))["documentChangeId"]}
        kill_service(service)
        until(lambda: ok(service.call("catalog/getDocumentChange", named))["status"] == "DONE")
        ended = ok(service.call("catalog/getDocumentChange", named))
        assert (ended["doneCount"], ended["failedCount"]) == (DOCUMENTS, 0)
        assert not list(walk(service, "catalog/listDocuments"))
        deleted = [one["target"]["id"] for one in entries(service, action="document.delete", pageSize=1000)]
        assert len(deleted) == len(set(deleted)) == DOCUMENTS
