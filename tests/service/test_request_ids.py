"""A request's id is equal in the answer, the log lines, and the audit and search log."""

from collections.abc import Callable
from functools import partial

from tests.harness.processes import ServiceProcess
from tests.service.conversations import at_once
from tests.service.directory import a_user, done, entries, on_rows

Start = Callable[..., ServiceProcess]


def post(service: ServiceProcess, operation: str, body: object, **headers: str) -> tuple[int, str, dict]:
    answer = service.http.post(f"/api/v0/{operation}", json=body, headers=headers)
    return answer.status_code, answer.headers["X-Request-Id"], answer.json()


def test_one_id_goes_through_answer_log_and_audit(service_process: Start) -> None:
    service = service_process()
    update = "admin/organization/update"
    status, given, _ = post(service, update, {"name": "A"}, **{"X-Request-Id": "caller-1.2:3"})
    assert (status, given) == (200, "caller-1.2:3")
    status, made, _ = post(service, update, {"name": "B"})
    assert status == 200
    status, refused, body = post(service, update, {"nonsense": 1}, **{"X-Request-Id": "caller-2"})
    assert (status, refused, body["error"]["requestId"]) == (400, "caller-2", "caller-2")
    status, stranger, body = post(service, update, {}, Authorization="", **{"X-Request-Id": "caller-3"})
    assert (status, stranger, body["error"]["requestId"]) == (401, "caller-3", "caller-3")
    _, _, page = post(service, "admin/auditLog/query", {"action": "organization.update"})
    assert [entry["requestId"] for entry in page["entries"]] == [made, given]
    assert service.stop() == 0  # a request's line is written after its answer; from here on each is there
    log = {line["request_id"]: line["status"] for line in service.events("request")}
    assert [log[one] for one in (given, made, refused, stranger)] == [200, 200, 400, 401]
    unasked = service.events("listening") + service.events("stopped")
    assert len(unasked) == 2
    assert all("request_id" not in line for line in unasked)


def test_what_is_done_beside_the_answer_keeps_its_requests_id(service) -> None:
    a_user(service, "ada@example.test")
    search = {"searchQuery": "ferry", "userEmail": "ada@example.test"}
    found = done(service.call("search/searchDocumentCatalog", search, headers={"X-Request-Id": "searching"}))
    body = {"searchId": found["searchId"], "feedback": "THUMBS_UP"}
    done(service.call("search/submitSearchFeedback", body, headers={"X-Request-Id": "judging"}))
    [entry] = entries(service, targetId=found["searchId"])
    assert entry["requestId"] == "judging"
    assert on_rows(service, "SELECT request_id FROM searches") == [("searching",)]


def test_requests_at_once_keep_their_own_ids(service) -> None:
    def make(number: int) -> tuple[str, str]:
        body, marked = {"users": [{"email": f"user{number}@example.test"}]}, {"X-Request-Id": f"request-{number}"}
        answer = service.call("admin/users/upsert", body, headers=marked)
        assert answer.headers["X-Request-Id"] == f"request-{number}"
        return done(answer)["users"][0]["id"], f"request-{number}"

    made = dict(at_once(*(partial(make, number) for number in range(20))))
    assert {entry["target"]["id"]: entry["requestId"] for entry in entries(service, action="user.create")} == made
