"""`carrel people`, as used by admins and scheduled jobs."""

import pytest

from service.domains.oversight.owners import transferring
from tests.cli.conftest import Run, ran
from tests.harness.documents import ok, upload
from tests.harness.services import ADMIN_EMAIL, RunningService
from tests.service.directory import a_group, a_key, a_user, done, user
from tests.service.test_owners import make_resources, owned

ADA, BEN = "ada@example.test", "ben@example.test"


@pytest.fixture(autouse=True)
def ada(service: RunningService) -> str:
    identity = a_user(service, ADA, name="Ada [bold]")["id"]
    a_user(service, BEN)
    a_group(service, "Crew", user(ADA))
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    ok(upload(service, "log", as_user=ADA, documentName="Log of [1900]"))
    done(service.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"}, api_key=key))
    return str(identity)


def is_active(service: RunningService, email: str) -> bool:
    (found,) = done(service.call("admin/users/list", {"query": email}))["users"]
    return bool(found["active"])


def test_possessions_and_a_plan_are_shown(run: Run, service: RunningService) -> None:
    owned_by_ada = run("people", "owns", ADA)
    assert owned_by_ada.code == 0, owned_by_ada.err
    for words in (f"{ADA} owns 1 collection and 1 document.", "Log of [1900]  document"):
        assert words in owned_by_ada.out
    shown = ran(run, "people", "owns", ADA)
    assert (shown["outcome"], shown["total"], len(shown["resources"])) == ("listed", 2, 2)
    assert f"{BEN} owns nothing." in run("people", "owns", BEN).out
    assert run("people", "owns", "nobody@example.test").code == 2
    planned = run("people", "offboard", ADA, "--to", BEN, "--plan")
    assert (planned.code, "this was the plan" in planned.err) == (0, True), planned
    counts = "API keys                   1", "groups                     1"
    for words in (f"Ada [bold] <{ADA}>", *counts, "Crew", "the new owner is ben", "Nobody else can read"):
        assert words in planned.out
    shown = ran(run, "people", "offboard", ADA, "--plan")
    assert (shown["outcome"], shown["done"], shown["plan"]["user"]["email"]) == ("planned", None, ADA)
    assert is_active(service, ADA)


def test_many_are_handed_over_by_yes_and_the_second_time_there_is_nothing_to_do(run, service, ada, monkeypatch):
    monkeypatch.setattr(transferring, "MOST_SECONDS", 0)
    monkeypatch.setattr(transferring, "BATCH", 2)
    make_resources(service, ada, count=5)
    first, second = (run("people", "offboard", ADA, "--to", BEN, "--yes", "--json").json for _ in range(2))
    assert (first["outcome"], first["done"]["transferredCount"], first["done"]["remaining"]) == ("offboarded", 7, [])
    assert first["done"]["ended"]["apiKeyCount"] == 1
    assert (second["exitCode"], second["done"]["transferredCount"]) == (0, 0)
    assert not is_active(service, ADA)
    assert len(owned(service, BEN)) == 7


@pytest.mark.parametrize("answer", ["y\n", "n\n"])
def test_on_a_terminal_somebody_is_asked(run_on_terminal: Run, service: RunningService, answer: str) -> None:
    ended = run_on_terminal("people", "offboard", ADA, "--to", BEN, answer=answer)
    assert ended.code == 0, ended.out
    assert ended.out.index("Crew") < ended.out.index(f"Offboard {ADA}?")
    assert is_active(service, ADA) == (answer == "n\n")
    assert ("has ended; 2 transferred" in ended.out) == (answer == "y\n")


def test_wrong_usage_is_said_in_words(run: Run, service: RunningService) -> None:
    for arguments, message in (
        ((ADA,), "--plan"),
        ((ADA, "--plan", "--yes"), "either"),
        ((ADA, "--yes"), "--to"),
        ((ADA, "--yes", "--to", ADA), "already the owner"),
        ((ADMIN_EMAIL, "--yes", "--to", ADA), "yourself"),
        (("nobody@example.test", "--yes"), "no user"),
    ):
        ended = run("people", "offboard", *arguments)
        assert (ended.code, message in ended.err) == (2, True), ended
    assert is_active(service, ADA)
