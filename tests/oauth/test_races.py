"""Two at once: what is deleted or taken back, and what is being given for it. Each waits for the other."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from service.domains.oauth.purging import purge
from tests.harness.services import RunningService
from tests.oauth.flow import App, Person, Pkce, a_person, an_app, error, later, works
from tests.service.directory import done

DELETE_CLIENT = "DELETE FROM oauth_clients WHERE client_id = %s"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@contextmanager
def meanwhile(service: RunningService, statement: str, *values: Any) -> Iterator[Any]:
    """Do this in a transaction that commits at the end of the block; gives the connection."""
    with service.owner_connection() as connection, connection.transaction():
        connection.execute(statement, values)
        yield connection


def until_waiting(connection: Any, answer: "Future[Any]") -> None:
    """Go on when somebody waits for what the connection holds, or has been answered without."""
    while not answer.done() and not connection.execute(WAITING).fetchone()[0]:
        connection.execute("SELECT pg_sleep(0.01)")


def consent(person: Person, app: App) -> httpx.Response:
    """The consent page, in front of a person who has signed in."""
    return person.sign_in(person.open(app))


@pytest.mark.parametrize("doing", ["allow", "remembered", "exchange", "refresh"])
def test_a_client_that_is_being_deleted_gets_nothing(service: RunningService, doing: str) -> None:
    """Whoever asks for it waits, and is told what anybody is told afterwards; never that the service failed."""
    app, ada, pkce = an_app(service), a_person(service), Pkce()
    page = consent(ada, app) if doing == "allow" else None
    tokens = ada.tokens(app) if doing != "allow" else {}
    code = ada.code(app, pkce) if doing == "exchange" else ""

    def do() -> httpx.Response:
        if page is not None:
            return ada.press(page, "allow")
        return {
            "remembered": lambda: ada.open(app),
            "exchange": lambda: app.exchange(code, pkce),
            "refresh": lambda: app.refresh(tokens["refresh_token"]),
        }[doing]()

    with ThreadPoolExecutor(1) as threads:
        with meanwhile(service, DELETE_CLIENT, app.client_id) as deleting:
            answer = threads.submit(do)
            until_waiting(deleting, answer)
        given = answer.result()
    if doing in {"exchange", "refresh"}:
        assert error(given) == (401, "invalid_client")
    else:
        assert given.status_code == 400
        assert "Location" not in given.headers


def test_deleting_a_client_waits_for_what_is_being_given_to_it(service: RunningService) -> None:
    """And takes that along: neither is failed by the other."""
    app, ada = an_app(service), a_person(service)
    tokens = [ada.tokens(app) for _ in range(4)]
    with ThreadPoolExecutor(5) as threads:
        with meanwhile(service, "SELECT FROM oauth_token_families FOR UPDATE") as holding:
            refreshed = [threads.submit(app.refresh, one["refresh_token"]) for one in tokens]
            until_waiting(holding, refreshed[0])
            deleted = threads.submit(service.call, "admin/oauthClients/delete", {"clientId": app.client_id})
        assert done(deleted.result())["clientId"] == app.client_id
    for answer in (one.result() for one in refreshed):
        assert answer.status_code in {200, 401}
        assert answer.status_code == 401 or not works(service, answer.json()["access_token"])


def test_what_is_being_taken_back_is_not_given_without_asking(service: RunningService) -> None:
    """A remembered consent that goes away meanwhile is asked for again."""
    app, ada = an_app(service), a_person(service)
    ada.tokens(app)
    with ThreadPoolExecutor(1) as threads:
        with meanwhile(service, "DELETE FROM oauth_consents") as taking:
            answer = threads.submit(ada.open, app)
            until_waiting(taking, answer)
        assert "Allow An App" in answer.result().text


def test_what_is_taken_back_does_not_wait_for_a_purge_that_waits_for_it(service: RunningService) -> None:
    """Both lock consents, then families, then tokens."""
    app, ada = an_app(service), a_person(service)
    assert works(service, ada.tokens(app)["access_token"])
    later(service, days=100)
    with ThreadPoolExecutor(1) as threads:
        with meanwhile(service, "DELETE FROM oauth_consents") as taking:
            purged = threads.submit(lambda: service.run(purge(service.runtime)))
            until_waiting(taking, purged)
            taking.execute("UPDATE oauth_token_families SET revoked_at = now()")
            taking.execute("UPDATE oauth_access_tokens SET revoked_at = now()")
        purged.result()
