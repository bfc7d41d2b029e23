"""GET /api/v1/agents: what a person may message, as far as the token goes."""

import pytest

from tests.harness.cases import cases
from tests.harness.services import RunningService
from tests.oauth.flow import App, Person, v1
from tests.service.conversations import an_agent, deploy
from tests.service.directory import a_group, done, group, user

ALL = "api:agent:message:*"


def listed(service: RunningService, token: str, *, page_size: int = 2) -> list[dict]:
    agents: list[dict] = []
    parameters: dict = {"pageSize": page_size}
    while True:
        page = done(v1(service, "agents", token, params=parameters))
        agents += page["agents"]
        if "nextPageToken" not in page:
            return agents
        parameters["pageToken"] = page["nextPageToken"]


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
    an_agent(service, name="Bosun")
    assert listed(service, Person(service).tokens(app, scope=f"{ALL} api:admin")["access_token"]) == []


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


@pytest.mark.parametrize(("parameters", "field"), cases("odd_parameters_are_refused_by_name"))
def test_odd_parameters_are_refused_by_name(standing, parameters: dict[str, str], field: str) -> None:
    token = standing.person().tokens(standing.app, scope=ALL)["access_token"]
    refused = v1(standing.service, "agents", token, params=parameters)
    assert refused.status_code == 400
    assert [detail["field"] for detail in refused.json()["error"]["details"]] == [field]
