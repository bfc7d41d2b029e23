"""`carrel oauth-clients`, against the real service."""

import pytest

from tests.oauth.flow import Person, an_mcp_client

pytestmark = pytest.mark.own_service


def test_what_people_allowed_is_listed_and_withdrawn_and_hosts_are_allowed(run, service) -> None:
    agent, admin = an_mcp_client(service), Person(service)
    assert "Nobody has allowed anything" in run("oauth-clients", "consents").err
    admin.tokens(agent)
    assert agent.client_id in run("oauth-clients", "list").out
    listed = run("oauth-clients", "consents", "--client", agent.client_id, "--json").json["consents"]
    assert [one["email"] for one in listed] == [service.admin_email]
    assert "narrowed to" in run("oauth-clients", "consents", "--person", service.admin_email).out
    assert run("oauth-clients", "withdraw", agent.client_id).code == 2
    ended = run("oauth-clients", "withdraw", agent.client_id, "--person", service.admin_email, "--yes")
    assert (ended.code, ended.out) == (0, "An App does nothing any more for 1 person.\n")
    assert "allow-host" in run("oauth-clients", "hosts").err
    assert run("oauth-clients", "allow-host", "https://claude.ai/").code == 2
    assert run("oauth-clients", "allow-host", "Claude.ai", "vscode.dev").out == "Allowed: claude.ai, vscode.dev.\n"
    assert run("oauth-clients", "remove-host", "claude.ai").code == 2
    assert run("oauth-clients", "remove-host", "else.test", "--yes").code == 2
    assert run("oauth-clients", "remove-host", "claude.ai", "--yes").out == "Allowed: vscode.dev.\n"
    assert run("oauth-clients", "hosts").out == "vscode.dev\n"
