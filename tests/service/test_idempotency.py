"""`Idempotency-Key`: what is sent again is done once."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import httpx

from service.web.idempotency.purging import purge
from tests.harness.documents import add_to_collection, create_collection, uploaded
from tests.harness.services import RunningService

CREATE = "documentCollections/createDocumentCollection"


def send(service: RunningService, name: str, key: str, **options: object) -> httpx.Response:
    """Create a collection under a key; a second one of the same name would be 409 `name_taken`."""
    return service.call(CREATE, {"collectionName": name}, headers={"Idempotency-Key": key}, **options)


def count(service: RunningService) -> int:
    """Count the collections there are."""
    with service.owner_connection() as connection:
        return connection.execute("SELECT FROM collections").rowcount


def test_a_request_sent_again_is_done_once_and_answered_the_same(service: RunningService) -> None:
    """The second answer is the first one, byte for byte, and says that it is a replay."""
    first, second = send(service, "Sales", "k1"), send(service, "Sales", "k1")
    assert first.status_code == 200, first.text
    assert second.content == first.content
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert count(service) == 1


def test_without_a_key_the_same_request_is_made_anew(service: RunningService) -> None:
    """Nothing is kept for a caller that doesn't ask for it."""
    body = {"collectionName": "Sales"}
    assert [service.call(CREATE, body).status_code for _ in range(2)] == [200, 409]


def test_a_key_used_for_another_body_is_a_conflict(service: RunningService) -> None:
    """A key names one request."""
    send(service, "Sales", "k1")
    response = send(service, "Support", "k1")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "idempotency_key_reused")
    assert count(service) == 1


def test_a_key_used_for_another_endpoint_is_a_conflict(service: RunningService) -> None:
    """A key names one request, its endpoint included."""
    assert send(service, "Sales", "k1").status_code == 200
    other = service.call("admin/apiKeys/create", {"name": "x"}, headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")


def test_the_same_request_many_times_at_once_is_done_once(service: RunningService) -> None:
    """Requests racing on one key wait for the first, and all get its answer."""
    with ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(lambda _: send(service, "Sales", "k1"), range(8)))
    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert sum("Idempotent-Replayed" in response.headers for response in responses) == 7
    assert count(service) == 1


def test_keys_belong_to_their_caller(service: RunningService) -> None:
    """Another caller's key of the same value is another key."""
    other = service.new_user("second@example.test")
    assert send(service, "Sales", "k1").status_code == 200
    second = send(service, "Support", "k1", api_key=other)
    assert second.status_code == 200, second.text
    assert count(service) == 2


def test_a_replay_is_authorized_anew(service: RunningService) -> None:
    """A kept response is not given to whoever may not make the request any more."""
    second = service.new_user("second@example.test")
    assert send(service, "Sales", "k1", api_key=second).status_code == 200
    service.call("admin/users/upsert", {"users": [{"email": "second@example.test", "active": False}]})
    assert send(service, "Sales", "k1", api_key=second).status_code == 401


def test_a_response_that_shows_a_secret_is_not_kept(service: RunningService) -> None:
    """Making an API key again under the same key is refused, saying that it was shown once; no second key is made."""
    headers = {"Idempotency-Key": "k1"}
    first = service.call("admin/apiKeys/create", {"name": "robot"}, headers=headers)
    again = service.call("admin/apiKeys/create", {"name": "robot"}, headers=headers)
    assert first.status_code == 200, first.text
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_done")
    names = [key["name"] for key in service.call("admin/apiKeys/list").json()["apiKeys"]]
    assert names.count("robot") == 1
    secret = first.json()["apiKey"]
    with service.owner_connection() as connection:
        rows = connection.execute("SELECT coalesce(encode(body, 'escape'), '') FROM kept_responses").fetchall()
    assert rows
    assert not any(secret in body for (body,) in rows)


def test_a_refused_request_leaves_its_key_free(service: RunningService) -> None:
    """Errors are not kept: the corrected request may use the same key."""
    send(service, "Sales", "k0")
    assert service.call(CREATE, {}, headers={"Idempotency-Key": "k1"}).status_code == 400
    assert send(service, "Sales", "k1").status_code == 409
    assert send(service, "Support", "k1").status_code == 200


def test_a_key_is_kept_for_a_day(service: RunningService) -> None:
    """After 24 hours the key is free again."""
    send(service, "Sales", "k1")
    with service.owner_connection() as connection:
        connection.execute("UPDATE kept_responses SET created_at = now() - interval '24 hours 1 second'")
    assert send(service, "Support", "k1").status_code == 200
    assert send(service, "Support", "k1").headers["Idempotent-Replayed"] == "true"


def test_old_responses_are_removed(service: RunningService) -> None:
    """What is older than a day goes, what is younger stays."""
    send(service, "Sales", "old")
    with service.owner_connection() as connection:
        connection.execute("UPDATE kept_responses SET created_at = now() - interval '25 hours'")
        send(service, "Support", "young")
        service.run(purge(service.runtime))
        kept = connection.execute("SELECT idempotency_key FROM kept_responses").fetchall()
    assert kept == [(hashlib.sha256(b"young").hexdigest(),)]


def test_a_key_is_not_kept_as_it_was_sent(service: RunningService) -> None:
    """Whatever a client takes for a key, it can't be read in the database."""
    send(service, "Sales", "hunter2-is-my-password")
    with service.owner_connection() as connection:
        kept = connection.execute("SELECT idempotency_key FROM kept_responses").fetchall()
    assert kept == [(hashlib.sha256(b"hunter2-is-my-password").hexdigest(),)]


def test_headers_of_the_first_answer_come_with_its_replay(service: RunningService) -> None:
    """A replay of a deprecated operation still says that it is deprecated."""
    first, again = send(service, "Sales", "k1"), send(service, "Sales", "k1")
    assert again.headers["Deprecation"] == first.headers["Deprecation"]


def test_a_malformed_key_is_refused(service: RunningService) -> None:
    """A key is 1 to 255 visible characters."""
    for key in ("", "with space", "x" * 256):
        response = send(service, "Sales", key)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_idempotency_key")
    assert count(service) == 0


def test_everything_the_client_keys_is_done_once(service: RunningService) -> None:
    """An operation that can't be repeated answers its repetition with the first answer, and does nothing again."""
    document = uploaded(service, "a")["documentId"]
    collection = create_collection(service, "Sales")
    assert add_to_collection(service, document, collection).status_code == 200
    search_id = service.call("search/searchDocumentCatalog", {"searchQuery": "ferry"}).json()["searchId"]
    in_collection = {"documentId": document, "documentCollectionId": collection}
    keyed = {
        "search/submitSearchFeedback": {"searchId": search_id, "feedback": "THUMBS_UP"},
        "documentCollections/removeDocumentFromCollection": in_collection,
        "documentCollections/deleteDocumentCollection": {"documentCollectionId": collection},
        "catalog/deleteDocument": {"documentId": document},
    }
    for operation, body in keyed.items():
        first, second = (service.call(operation, body, headers={"Idempotency-Key": operation}) for _ in range(2))
        assert first.status_code == 200, first.text
        assert (second.status_code, second.content) == (200, first.content), operation
        assert second.headers["Idempotent-Replayed"] == "true"
    entries = service.call("admin/auditLog/query", {"action": "search.feedback"}).json()["entries"]
    assert len(entries) == 1
