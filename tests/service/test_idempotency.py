"""`Idempotency-Key`: a repeated request takes effect once."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import httpx

from service.identity.queries import in_each_organization
from service.web.idempotency.queries import delete_old
from tests.harness.services import RunningService
from tests.service.directory import code, on_rows

CREATE = "documentCollections/createDocumentCollection"


def send(service: RunningService, name: str, key: str, **options: object) -> httpx.Response:
    return service.call(CREATE, {"collectionName": name}, headers={"Idempotency-Key": key}, **options)


def count(service: RunningService) -> int:
    return len(on_rows(service, "SELECT collection_id FROM collections"))


def kept_keys(service: RunningService) -> list[str]:
    return [key for (key,) in on_rows(service, "SELECT idempotency_key FROM kept_responses")]


def test_a_request_sent_again_is_done_once_and_answered_the_same(service: RunningService) -> None:
    first, second = send(service, "Sales", "k1"), send(service, "Sales", "k1")
    assert first.status_code == 200, first.text
    assert second.content == first.content
    assert second.headers["Deprecation"] == first.headers["Deprecation"]
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert count(service) == 1
    assert kept_keys(service) == [hashlib.sha256(b"k1").hexdigest()]


def test_a_key_used_for_another_request_is_a_conflict(service: RunningService) -> None:
    assert send(service, "Sales", "k1").status_code == 200
    assert code(send(service, "Support", "k1")) == (409, "idempotency_key_reused")
    other = service.call("admin/apiKeys/create", {"name": "x"}, headers={"Idempotency-Key": "k1"})
    assert code(other) == (409, "idempotency_key_reused")
    assert count(service) == 1


def test_the_same_request_many_times_at_once_is_done_once(service: RunningService) -> None:
    with ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(lambda _: send(service, "Sales", "k1"), range(8)))
    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert sum("Idempotent-Replayed" in response.headers for response in responses) == 7
    assert count(service) == 1


def test_keys_belong_to_their_caller_who_is_authorized_anew(service: RunningService) -> None:
    other = service.new_user("second@example.test")
    assert send(service, "Sales", "k1").status_code == 200
    assert send(service, "Support", "k1", api_key=other).status_code == 200
    assert count(service) == 2
    service.call("admin/users/upsert", {"users": [{"email": "second@example.test", "active": False}]})
    assert send(service, "Support", "k1", api_key=other).status_code == 401


def test_a_response_that_shows_a_secret_is_not_kept(service: RunningService) -> None:
    headers = {"Idempotency-Key": "k1"}
    first, again = (service.call("admin/apiKeys/create", {"name": "robot"}, headers=headers) for _ in range(2))
    assert first.status_code == 200, first.text
    assert code(again) == (409, "already_done")
    assert [key["name"] for key in service.call("admin/apiKeys/list").json()["apiKeys"]].count("robot") == 1
    [(body,)] = on_rows(service, "SELECT coalesce(encode(body, 'escape'), '') FROM kept_responses")
    assert first.json()["apiKey"] not in body


def test_a_refused_request_leaves_its_key_free(service: RunningService) -> None:
    send(service, "Sales", "k0")
    assert service.call(CREATE, {}, headers={"Idempotency-Key": "k1"}).status_code == 400
    assert send(service, "Sales", "k1").status_code == 409
    assert send(service, "Support", "k1").status_code == 200


def test_a_key_is_kept_for_a_day(service: RunningService) -> None:
    send(service, "Sales", "k1")
    send(service, "Deck", "old")
    on_rows(service, "UPDATE kept_responses SET created_at = now() - interval '24 hours 1 second'")
    assert send(service, "Support", "k1").status_code == 200
    assert send(service, "Support", "k1").headers["Idempotent-Replayed"] == "true"
    service.run(in_each_organization(service.runtime.database, delete_old))
    assert kept_keys(service) == [hashlib.sha256(b"k1").hexdigest()]


def test_a_malformed_key_is_refused(service: RunningService) -> None:
    for key in ("", "with space", "x" * 256):
        assert code(send(service, "Sales", key)) == (400, "invalid_idempotency_key")
    assert count(service) == 0
