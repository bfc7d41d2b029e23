"""Concurrent deletion or withdrawal, and issuing: each waits for the other."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.harness.services import RunningService
from tests.oauth.flow import App, Person, Pkce, asks_for_consent, error, later, works
from tests.service.directory import done, organization_id

DELETE_CLIENT = "DELETE FROM oauth_clients WHERE client_id = %s"
DELETE_CONSENTS = "DELETE FROM oauth_consents WHERE client_id = %s"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@contextmanager
def meanwhile(service: RunningService, statement: str, *values: Any) -> Iterator[Any]:
    with service.owner_connection() as connection, connection.transaction():
        connection.execute(statement, values)
        yield connection


def until_waiting(connection: Any, *answers: "Future[Any]") -> None:
    while not any(one.done() for one in answers) and connection.execute(WAITING).fetchone()[0] < len(answers):
        connection.execute("SELECT pg_sleep(0.01)")


@pytest.mark.parametrize("doing", ["allow", "remembered", "exchange", "refresh"])
def test_a_client_that_is_being_deleted_gets_nothing(app: App, ada: Person, pkce: Pkce, doing: str) -> None:
    page = ada.sign_in(ada.open(app))
    tokens = ada.tokens(app) if doing != "allow" else {}
    code = ada.code(app, pkce) if doing == "exchange" else ""
    do: dict[str, Callable[[], httpx.Response]] = {
        "allow": lambda: ada.press(page, "allow"),
        "remembered": lambda: ada.open(app),
        "exchange": lambda: app.exchange(code, pkce),
        "refresh": lambda: app.refresh(tokens["refresh_token"]),
    }
    with ThreadPoolExecutor(1) as threads:
        with meanwhile(app.service, DELETE_CLIENT, app.client_id) as deleting:
            answer = threads.submit(do[doing])
            until_waiting(deleting, answer)
        given = answer.result()
    if doing in {"exchange", "refresh"}:
        assert error(given) == (401, "invalid_client")
    else:
        assert given.status_code == 400
        assert "Location" not in given.headers


def test_deleting_a_client_waits_for_what_is_being_given_to_it(service: RunningService, app: App, ada: Person) -> None:
    tokens = [ada.tokens(app) for _ in range(4)]
    with ThreadPoolExecutor(5) as threads:
        families = "SELECT FROM oauth_token_families WHERE client_id = %s FOR UPDATE"
        with meanwhile(service, families, app.client_id) as holding:
            refreshed = [threads.submit(app.refresh, one["refresh_token"]) for one in tokens]
            until_waiting(holding, refreshed[0])
            deleted = threads.submit(service.call, "admin/oauthClients/delete", {"clientId": app.client_id})
        assert done(deleted.result())["clientId"] == app.client_id
    for answer in (one.result() for one in refreshed):
        assert answer.status_code in {200, 401}
        assert answer.status_code == 401 or not works(service, answer.json()["access_token"])


def test_what_is_being_taken_back_is_not_given_without_asking(service: RunningService, app: App, ada: Person) -> None:
    ada.tokens(app)
    with ThreadPoolExecutor(1) as threads:
        with meanwhile(service, DELETE_CONSENTS, app.client_id) as taking:
            answer = threads.submit(ada.open, app)
            until_waiting(taking, answer)
        assert asks_for_consent(answer.result())


def test_what_is_taken_back_does_not_wait_for_a_purge_that_waits_for_it(app, ada, purge):
    """Both lock consents, then families, then tokens."""
    here = organization_id(app.service)
    assert works(app.service, ada.tokens(app)["access_token"])
    later(app.service, days=100)
    with ThreadPoolExecutor(1) as threads:
        with meanwhile(app.service, DELETE_CONSENTS, app.client_id) as taking:
            purged = threads.submit(purge)
            until_waiting(taking, purged)
            for table in ("oauth_token_families", "oauth_access_tokens"):
                taking.execute(f"UPDATE {table} SET revoked_at = now() WHERE organization_id = %s", [here])  # noqa: S608 - ours
        purged.result()
