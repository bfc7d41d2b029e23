"""`carrel people` as admins and scheduled jobs run it."""

import json

import pytest

from service.domains.owners import transferring
from tests.cli.conftest import Run
from tests.harness.services import ADMIN_EMAIL, RunningService
from tests.service.directory import a_group, a_key, a_user, done, user
from tests.service.test_owners import make_resources, owned, upload

ADA, BEN = "ada@example.test", "ben@example.test"


@pytest.fixture
def ada(service: RunningService) -> str:
    """Ada's id: she is in a group, has a key, and owns a document and a collection; Ben has nothing."""
    identity = a_user(service, ADA, name="Ada [bold]")["id"]
    a_user(service, BEN)
    a_group(service, "Crew", user(ADA))
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    upload(service, key, "log", documentName="Log of [1900]")
    done(service.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"}, api_key=key))
    return str(identity)


def is_active(service: RunningService, email: str) -> bool:
    """Whether a user is active."""
    (found,) = done(service.call("admin/users/list", {"query": email}))["users"]
    return bool(found["active"])


@pytest.mark.usefixtures("ada")
def test_what_somebody_owns_is_shown(run: Run) -> None:
    """By name, counted by kind, and as one JSON object; somebody who owns nothing, and nobody at all."""
    ended = run("people", "owns", ADA)
    assert ended.code == 0, ended.err
    assert f"{ADA} owns 1 collection and 1 document." in ended.out
    assert "Log of [1900]  document" in ended.out
    shown = json.loads(run("people", "owns", ADA, "--json").out)
    assert (shown["outcome"], shown["total"], len(shown["resources"])) == ("listed", 2, 2)
    assert f"{BEN} owns nothing." in run("people", "owns", BEN).out
    assert run("people", "owns", "nobody@example.test").code == 2


@pytest.mark.usefixtures("ada")
def test_a_plan_shows_what_would_end_and_changes_nothing(run: Run, service: RunningService) -> None:
    """Names as they are; as JSON, too."""
    ended = run("people", "offboard", ADA, "--to", BEN, "--plan")
    assert ended.code == 0, ended.err
    for words in (
        f"Ada [bold] <{ADA}>",
        "API keys                   1",
        "groups                     1",
        "Crew",
        "which ben gets",
        "Nobody else can read",
    ):
        assert words in ended.out
    assert "this was the plan" in ended.err
    shown = json.loads(run("people", "offboard", ADA, "--plan", "--json").out)
    assert (shown["outcome"], shown["done"], shown["plan"]["user"]["email"]) == ("planned", None, ADA)
    assert is_active(service, ADA)


def test_many_are_handed_over_by_yes_and_the_second_time_there_is_nothing_to_do(
    run: Run, service: RunningService, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job says --yes; both times it ends with 0, however many answers the service takes for it."""
    monkeypatch.setattr(transferring, "MOST_SECONDS", 0)
    make_resources(service, ada, count=1200)
    first, second = (json.loads(run("people", "offboard", ADA, "--to", BEN, "--yes", "--json").out) for _ in range(2))
    assert (first["outcome"], first["done"]["transferredCount"], first["done"]["remaining"]) == ("offboarded", 1202, [])
    assert first["done"]["ended"]["apiKeyCount"] == 1
    assert (second["exitCode"], second["done"]["transferredCount"]) == (0, 0)
    assert not is_active(service, ADA)
    assert len(owned(service, BEN)) == 1202


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(("answer", "changed"), [("y\n", True), ("n\n", False)])
def test_on_a_terminal_somebody_is_asked(
    run_on_terminal: Run, service: RunningService, answer: str, changed: bool
) -> None:
    """The plan is shown, then the question; only a yes ends anything."""
    ended = run_on_terminal("people", "offboard", ADA, "--to", BEN, answer=answer)
    assert ended.code == 0, ended.out
    assert ended.out.index("Crew") < ended.out.index(f"Offboard {ADA}?")
    assert is_active(service, ADA) != changed
    assert ("has ended; 2 handed over" in ended.out) == changed


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ADA,), "--plan"),
        ((ADA, "--plan", "--yes"), "either"),
        ((ADA, "--yes"), "--to"),
        ((ADA, "--yes", "--to", ADA), "owner already"),
        ((ADMIN_EMAIL, "--yes", "--to", ADA), "yourself"),
        (("nobody@example.test", "--yes"), "no user"),
    ],
)
def test_wrong_usage_is_said_in_words(
    run: Run, service: RunningService, arguments: tuple[str, ...], message: str
) -> None:
    """It ends with 2, and nothing is changed."""
    ended = run("people", "offboard", *arguments)
    assert ended.code == 2, ended.err
    assert message in ended.err
    assert is_active(service, ADA)
