"""`carrel access explain`, against the real service."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.harness.services import ADMIN_EMAIL, RunningService

RESOURCE = "CONFLUENCE_PAGE:page-1"
EXPLAIN = ("access", "explain", "--resource", RESOURCE, "--who")


@pytest.fixture
def granted(service: RunningService) -> dict[str, Any]:
    """Ada is in Engineering, which is in Research, which may read a page; Grace is in none, the robot has a grant."""
    service.call("admin/organization/update", {"serviceAccountsEnabled": True}).raise_for_status()
    users = [{"email": "ada@example.test", "name": "Ada [bold]"}, {"email": "grace@example.test", "name": "Grace"}]
    service.call("admin/users/upsert", {"users": users}).raise_for_status()
    robot = service.call("admin/serviceAccounts/create", {"displayName": "Robot"}).raise_for_status().json()
    groups = [
        {"name": "Engineering", "externalId": "eng", "members": [{"type": "user", "email": "ada@example.test"}]},
        {"name": "Research", "externalId": "research"},
    ]
    made = service.call("admin/groups/upsert", {"groups": groups}).raise_for_status().json()["groups"]
    inner = {"groupId": made[1]["id"], "members": [{"type": "group", "id": made[0]["id"]}]}
    service.call("admin/groups/addMembers", inner).raise_for_status()
    parts = {"documentExternalId": "page", "resourceId": "page-1", "resourceType": "CONFLUENCE_PAGE"}
    service.http.post("/api/v0/catalog/uploadFile", data=parts, files={"file": ("a.txt", b"Trains")}).raise_for_status()
    plain = service.http.post(
        "/api/v0/catalog/uploadFile", data={"documentExternalId": "plain"}, files={"file": ("b.txt", b"Ferries")}
    )
    grants = [
        {"principal": {"type": "group", "id": made[1]["id"]}, "role": "VIEWER"},
        {"principal": {"type": "serviceAccount", "id": robot["serviceAccountId"]}, "role": "EDITOR"},
    ]
    resource = {"resourceId": "page-1", "resourceType": "CONFLUENCE_PAGE"}
    service.call("admin/grants/set", {"resource": resource, "grants": grants}).raise_for_status()
    return {"robot": robot["email"], "document": plain.raise_for_status().json()["documentId"]}


@pytest.mark.usefixtures("granted")
def test_the_way_is_drawn_as_a_tree(run: Run) -> None:
    """Each step of the way stands below the one before, from the person to the page, and the end is a good one."""
    ended = run(*EXPLAIN, "ada@example.test")
    assert ended.code == 0, ended.err
    lines = [line.lstrip(" │├└─") for line in ended.out.splitlines()]
    assert lines[0] == f"ada@example.test may read {RESOURCE}"
    assert lines[1:5] == [
        "Ada [bold] <ada@example.test>",
        "in the group Engineering",
        "in the group Research",
        "has the role VIEWER",
    ]
    assert lines[5].startswith("on ")
    indents = [len(line) - len(line.lstrip(" │├└─")) for line in ended.out.splitlines()]
    assert indents == sorted(indents)


@pytest.mark.usefixtures("granted")
def test_who_may_not_is_told_what_they_lack(run: Run) -> None:
    """A no ends with 1 and says why; as JSON it has the same."""
    ended = run(*EXPLAIN, "grace@example.test")
    assert ended.code == 1
    assert "may not read" in ended.out
    assert len(ended.out.splitlines()) > 1
    answer = json.loads(run(*EXPLAIN, "grace@example.test", "--json").out)
    assert (answer["authorized"], answer["paths"], answer["exitCode"]) == (False, [], 1)
    assert answer["missing"]


def test_everybody_can_be_asked_about(run: Run, granted: dict[str, Any]) -> None:
    """A service account by its address, and a group by its name or external id; a document by its id alone."""
    assert "service account Robot" in run(*EXPLAIN, granted["robot"]).out
    assert run(*EXPLAIN, "group:Engineering").code == 0
    assert run(*EXPLAIN, "group:research").code == 0
    about = ("access", "explain", "--resource", granted["document"], "--who")
    assert (run(*about, ADMIN_EMAIL).code, run(*about, "grace@example.test").code) == (0, 1)


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize(
    ("who", "resource", "message"),
    [
        ("ada", RESOURCE, "ada is nobody"),
        ("group:none", RESOURCE, "no group none"),
        ("a@b.c", "page", "page is no resource"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(run: Run, who: str, resource: str, message: str) -> None:
    """A principal or resource that can't be told ends with 2, saying what it must be."""
    ended = run("access", "explain", "--resource", resource, "--who", who)
    assert ended.code == 2
    assert message in ended.err
