"""GET /api/v1/agents: what a person may message, as far as the token goes."""

from typing import Any

import httpx
import pytest

from tests.harness.services import RunningService
from tests.oauth.flow import App, Person, a_person, an_app, v1
from tests.service.agents import an_agent, deploy
from tests.service.directory import a_group, code, done, group, user

ALL = "api:agent:message:*"


def listed(service: RunningService, token: str, *, page_size: int = 2) -> list[dict[str, Any]]:
    """The agents, all pages."""
    agents: list[dict[str, Any]] = []
    parameters: dict[str, Any] = {"pageSize": page_size}
    while True:
        page = done(v1(service, "agents", token, params=parameters))
        agents += page["agents"]
        if "nextPageToken" not in page:
            return agents
        parameters["pageToken"] = page["nextPageToken"]


@pytest.fixture
def app(service: RunningService) -> App:
    """A client."""
    return an_app(service)


@pytest.fixture
def ada(service: RunningService) -> Person:
    """A person."""
    return a_person(service)


def test_people_see_what_is_deployed_to_them(service: RunningService, app: App, ada: Person) -> None:
    """By id, page by page, with the words meant for them and no others; at once, in both directions."""
    token = ada.tokens(app, scope=ALL)["access_token"]
    assert done(v1(service, "agents", token)) == {"agents": []}
    names = ["Bosun", "Cook", "Pilot", "Closed", "Deleted"]
    made = [an_agent(service, name=name, description=f"{name}!", instructions="Secret.") for name in names]
    crew = group(a_group(service, "Crew", user(ada.email)))
    for agent, principals in zip(made, ([user(ada.email)], [crew], [], [], [crew]), strict=True):
        deploy(service, agent, *principals, organizationWide=agent["name"] == "Pilot")
    done(service.call("admin/agents/delete", {"agentId": made[-1]["agentId"]}))
    shown = [{name: agent[name] for name in ("agentId", "name", "description")} for agent in made[:3]]
    assert listed(service, token) == listed(service, token, page_size=1) == listed(service, token, page_size=3) == shown
    deploy(service, made[0])
    assert listed(service, token) == shown[1:]


def test_an_admin_sees_no_more_than_is_deployed(service: RunningService, app: App) -> None:
    """To define agents is not to use them."""
    an_agent(service, name="Bosun")
    token = Person(service).tokens(app, scope=f"{ALL} api:admin")["access_token"]
    assert listed(service, token) == []


def test_a_token_for_some_agents_shows_these_alone(service: RunningService, app: App, ada: Person) -> None:
    """Those of its scopes that are deployed; with the scope of all, all of them."""
    one, two, three = (an_agent(service, name=name) for name in ("One", "Two", "Three"))
    deploy(service, one, user(ada.email))
    deploy(service, two, user(ada.email))
    scopes = [f"api:agent:message:{agent['agentId']}" for agent in (one, two, three)]
    for wanted, expected in (
        (scopes[:1], ["One"]),
        (scopes[1:], ["Two"]),
        (scopes[2:], []),
        ([*scopes, ALL], ["One", "Two"]),
    ):
        token = ada.tokens(app, scope=" ".join(wanted))["access_token"]
        assert [agent["name"] for agent in listed(service, token)] == expected


def test_without_a_scope_of_messages_nothing_is_shown(service: RunningService, app: App, ada: Person) -> None:
    """403; and v0 has no such address, nor do its credentials work on v1."""
    token = ada.tokens(app, scope="api:catalog:read")["access_token"]
    assert code(v1(service, "agents", token)) == (403, "missing_scope")
    assert code(v1(service, "agents", service.api_key)) == (401, "wrong_version")
    assert service.http.get("/api/v0/agents").status_code == 404
    assert httpx.post(f"{service.base_url}/api/v1/agents", headers={"Authorization": f"Bearer {token}"}).is_error


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"pageSize": "0"}, "pageSize"),
        ({"pageSize": "1001"}, "pageSize"),
        ({"pageSize": "many"}, "pageSize"),
        ({"pageToken": "x"}, "pageToken"),
        ({"pageToken": "\0"}, "pageToken"),
        ({"userEmail": "ada@example.test"}, "userEmail"),
    ],
)
def test_odd_parameters_are_refused_by_name(
    service: RunningService, app: App, ada: Person, parameters: dict[str, str], field: str
) -> None:
    """400 in the shape of every error, the one that would name another person too."""
    refused = v1(service, "agents", ada.tokens(app, scope=ALL)["access_token"], params=parameters)
    assert refused.status_code == 400
    assert [detail["field"] for detail in refused.json()["error"]["details"]] == [field]
