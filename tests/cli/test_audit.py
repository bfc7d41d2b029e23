"""`carrel audit list`, sessions in `carrel people`, and `carrel oauth-clients`, against the real service."""

import pytest

from tests.cli.conftest import Run, ran
from tests.oauth.flow import Person, a_person, an_app, an_mcp_client, works
from tests.service.provisioning import Provider

pytestmark = pytest.mark.own_service

ADA = "ada@example.test"


@pytest.fixture
def ada(service) -> Person:
    return a_person(service)


@pytest.mark.usefixtures("ada")
def test_the_log_is_listed_and_narrowed(run: Run) -> None:
    ended = run("audit", "list", "--query", "lovelace")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[1].split()[1:5] == ["user.create", "admin", "Ada", "Lovelace"]
    listed = run("audit", "list", "--action", "user.create", "--most", "1", "--json").json
    assert [one["target"]["name"] for one in listed["entries"]] == ["Ada Lovelace"]
    assert listed["entries"][0]["address"] == "127.0.0.1"
    assert listed["hasMore"] is False
    assert run("audit", "list", "--most", "1", "--json").json["hasMore"] is True
    assert "--most" in run("audit", "list", "--most", "1").err
    none = ("--person", ADA), ("--since", "2100-01-01T00:00:00Z"), ("--query", "no such name")
    assert [run("audit", "list", *one, "--json").json["entries"] for one in none] == [[], [], []]
    assert run("audit", "list", "--since", "yesterday").code == 2


@pytest.mark.usefixtures("ada")
def test_what_no_person_did_names_who_did_it(service, run: Run) -> None:
    Provider(service).user("ben@example.test")
    stranger = Person(service, ADA, "not the password")
    stranger.press(stranger.http.get("/account/sign-in"), "signIn", email=ADA, password="wrong")
    for action, who in (("user.create", "Entra (provisioning)"), ("session.fail", "Someone")):
        [_, newest, *_] = run("audit", "list", "--action", action).out.splitlines()
        assert who in newest
    service.execute("UPDATE audit_entries SET actor_id = NULL, details = '{}' WHERE action = 'user.create'")
    assert "The service" in run("audit", "list", "--action", "user.create").out


def test_sessions_are_listed_and_ended(service, ada: Person, run: Run) -> None:
    token = ada.tokens(an_app(service))["access_token"]
    listed = run("people", "sessions", ADA, "--json").json["sessions"]
    assert [one["kind"] for one in listed] == ["BROWSER", "APPLICATION"]
    assert "An App" in run("people", "sessions", ADA).out
    assert run("people", "end-sessions", ADA).code == 2
    assert works(service, token)
    one = ran(run, "people", "end-sessions", ADA, "--session", listed[0]["sessionId"], "--yes")
    assert one["endedCount"] == 1
    assert "1 session of ada@example.test ended." in run("people", "end-sessions", ADA, "--yes").out
    assert not works(service, token)
    assert "no active sessions" in run("people", "sessions", ADA).err
    assert run("people", "sessions", "nobody@example.test").code == 2


def test_second_factors_are_demanded_and_reset(ada: Person, run: Run) -> None:
    assert "Nobody needs" in run("people", "second-factor").out
    assert run("people", "second-factor", "ADMINS", "--json").json["secondFactor"] == "ADMINS"
    assert "Admins who sign in" in run("people", "second-factor").out
    assert run("people", "second-factor", "SOME").code == 2
    assert run("people", "reset-second-factor", ada.email).code == 2
    assert run("people", "reset-second-factor", ada.email, "--yes", "--json").json["removedCount"] == 0
    assert "no user with this address" in run("people", "reset-second-factor", "nobody@example.test", "--yes").err


def test_what_people_allowed_is_listed_and_withdrawn_and_hosts_are_allowed(run, service) -> None:
    agent, admin = an_mcp_client(service), Person(service)
    assert "No consents" in run("oauth-clients", "consents").err
    admin.tokens(agent)
    assert agent.client_id in run("oauth-clients", "list").out
    listed = run("oauth-clients", "consents", "--client", agent.client_id, "--json").json["consents"]
    assert [one["email"] for one in listed] == [service.admin_email]
    assert "limited to" in run("oauth-clients", "consents", "--person", service.admin_email).out
    assert run("oauth-clients", "withdraw", agent.client_id).code == 2
    ended = run("oauth-clients", "withdraw", agent.client_id, "--person", service.admin_email, "--yes")
    assert (ended.code, ended.out) == (0, "An App can no longer act for 1 person.\n")
    assert "allow-host" in run("oauth-clients", "hosts").err
    assert run("oauth-clients", "allow-host", "https://claude.ai/").code == 2
    assert run("oauth-clients", "allow-host", "Claude.ai", "vscode.dev").out == "Allowed: claude.ai, vscode.dev.\n"
    assert run("oauth-clients", "remove-host", "claude.ai").code == 2
    assert run("oauth-clients", "remove-host", "else.test", "--yes").code == 2
    assert run("oauth-clients", "remove-host", "claude.ai", "--yes").out == "Allowed: vscode.dev.\n"
    assert run("oauth-clients", "hosts").out == "vscode.dev\n"
