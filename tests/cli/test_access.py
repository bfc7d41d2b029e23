"""`carrel access explain`, against the real service."""

import pytest

from tests.cli.conftest import Run, ran
from tests.harness.documents import ok, upload
from tests.harness.services import ADMIN_EMAIL, RunningService
from tests.service.directory import a_group, a_user, done, group, user
from tests.service.service_accounts import account, an_account, enable_service_accounts

RESOURCE = "CONFLUENCE_PAGE:page-1"
EXPLAIN = ("access", "explain", "--resource", RESOURCE, "--who")


@pytest.fixture(autouse=True)
def granted(service: RunningService) -> dict:
    """Ada is in Engineering, part of Research, which can read a page; Grace is in no group; the robot has a grant."""
    enable_service_accounts(service)
    a_user(service, "ada@example.test", name="Ada [bold]")
    a_user(service, "grace@example.test", name="Grace")
    robot = an_account(service, "Robot")
    inner = a_group(service, "Engineering", user("ada@example.test"), externalId="eng")
    outer = a_group(service, "Research", group(inner), externalId="research")
    ok(upload(service, "page", "Trains", resourceId="page-1", resourceType="CONFLUENCE_PAGE"))
    grants = [{"principal": group(outer), "role": "VIEWER"}, {"principal": account(robot), "role": "EDITOR"}]
    resource = {"resourceId": "page-1", "resourceType": "CONFLUENCE_PAGE"}
    done(service.call("admin/grants/set", {"resource": resource, "grants": grants}))
    return {"robot": robot["email"], "document": ok(upload(service, "plain", "Ferries"))["documentId"]}


def test_the_way_is_drawn_as_a_tree(run: Run) -> None:
    ended = run(*EXPLAIN, "ada@example.test")
    assert ended.code == 0, ended.err
    lines = [line.lstrip(" │├└─") for line in ended.out.splitlines()]
    assert lines[0] == f"ada@example.test can read {RESOURCE}"
    groups = ["in the group Engineering", "in the group Research"]
    assert lines[1:5] == ["Ada [bold] <ada@example.test>", *groups, "has the role VIEWER"]
    assert lines[5].startswith("on ")
    indents = [len(line) - len(line.lstrip(" │├└─")) for line in ended.out.splitlines()]
    assert indents == sorted(indents)


def test_who_may_not_is_told_what_they_lack(run: Run) -> None:
    ended = run(*EXPLAIN, "grace@example.test")
    assert (ended.code, "cannot read" in ended.out) == (1, True)
    assert len(ended.out.splitlines()) > 1
    answer = ran(run, *EXPLAIN, "grace@example.test", exit_code=1)
    assert (answer["authorized"], answer["paths"], bool(answer["missing"])) == (False, [], True)


def test_everybody_can_be_asked_about(run: Run, granted: dict) -> None:
    assert "service account Robot" in run(*EXPLAIN, granted["robot"]).out
    assert run(*EXPLAIN, "group:Engineering").code == 0
    assert run(*EXPLAIN, "group:research").code == 0
    about = ("access", "explain", "--resource", granted["document"], "--who")
    assert (run(*about, ADMIN_EMAIL).code, run(*about, "grace@example.test").code) == (0, 1)


def test_what_cannot_be_meant_is_wrong_usage(run: Run) -> None:
    for who, resource, message in (
        ("ada", RESOURCE, "ada is unknown"),
        ("group:none", RESOURCE, "no group none"),
        ("a@b.c", "page", "page is not a resource"),
    ):
        ended = run("access", "explain", "--resource", resource, "--who", who)
        assert (ended.code, message in ended.err) == (2, True), ended
