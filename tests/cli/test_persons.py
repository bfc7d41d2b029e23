"""`carrel people`, as used by operators."""

import httpx

from tests.cli.conftest import Run, ran
from tests.harness.services import ADMIN_EMAIL, RunningService
from tests.service.directory import a_group, a_user, group, user, walk

ADA = "ada@example.test"


def test_people_are_listed_by_what_is_known_of_them(run: Run, service: RunningService) -> None:
    a_user(service, ADA, name="Ada [bold]")
    a_user(service, "bob@example.test", active=False)
    a_group(service, "Crew", user(ADA))
    for options, expected in (
        ((), {ADMIN_EMAIL, ADA, "bob@example.test"}),
        (("--inactive",), {"bob@example.test"}),
        (("--admins",), {ADMIN_EMAIL}),
        (("--in-no-group", "--active"), {ADMIN_EMAIL}),
        (("--never-signed-in", "--query", "ada@"), {ADA}),
    ):
        assert {one["email"] for one in ran(run, "people", "list", *options)["people"]} == expected
    shown = run("people", "list", "--query", "ada@").out
    assert all(words in shown for words in ("Ada [bold]", "never"))


def test_a_person_is_added_changed_and_shown(run: Run, service: RunningService) -> None:
    assert ran(run, "people", "add", ADA, "--name", "Ada")["name"] == "Ada"
    again = run("people", "add", "ADA@example.test")
    assert (again.code, "already exists" in again.err) == (2, True)
    assert ran(run, "people", "change", ADA, "--admin")["isAdmin"] is True
    changed = ran(run, "people", "change", ADA, "--no-admin", "--inactive")
    person = {"id": changed["id"], "email": ADA, "name": "Ada", "isAdmin": False, "active": False}
    assert changed == {"outcome": "changed", "exitCode": 0, "version": changed["version"], **person}
    assert run("people", "change", ADA).code == 2
    assert run("people", "change", "nobody@example.test", "--inactive").code == 2
    assert len(walk(service, "admin/users/list", {}, page_size=9)) == 2


def test_groups_are_joined_and_left_and_shown_with_what_they_are_through(run: Run, service: RunningService) -> None:
    ada = a_user(service, ADA, name="Ada")
    crew = a_group(service, "Crew", externalId="crew-1")
    a_group(service, "Ship", group(crew))
    for name in ("Crew", "crew-1", crew["id"]):
        assert ran(run, "people", "join", ADA, name)["memberCount"] == 1
    service.execute(
        "INSERT INTO second_factors (factor_id, organization_id, principal_id, kind, created_at) "
        "SELECT principal_id, organization_id, principal_id, 'passkey', '2026-11-26' FROM principals "
        "WHERE principal_id = %s",
        [ada["id"]],
    )
    service.execute(
        "INSERT INTO passkeys SELECT factor_id, organization_id, principal_id, 'id', 'key', 'ada', 0, 'Phone' "
        "FROM second_factors WHERE principal_id = %s",
        [ada["id"]],
    )
    shown = run("people", "show", ADA)
    assert "2nd factor passkey Phone, since 2026-11-26" in shown.out
    assert "in         Crew" in shown.out
    assert "in         Ship, through Crew" in shown.out
    assert [one["direct"] for one in ran(run, "people", "show", ADA)["memberships"]] == [True, False]
    assert "no longer a member of Crew" in run("people", "leave", ADA, "Crew").out
    assert ran(run, "people", "show", ADA)["memberships"] == []
    assert run("people", "join", ADA, "Nowhere").code == 2


def test_an_invitation_is_a_link_that_opens(run: Run, service: RunningService) -> None:
    a_user(service, ADA, name="Ada")
    ended = run("people", "invite", ADA)
    link = ended.out.strip()
    assert "securely" in ended.err
    assert "You are Ada (ada@example.test)" in httpx.get(link, timeout=60).text
    assert run("people", "invite", "nobody@example.test").code == 2
