"""How `carrel` ends says what to change, whoever finds it wrong: the command itself or the service."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.cli.conftest import Run
from tests.harness.services import ADMIN_EMAIL, RunningService, ServiceHarness

NOBODYS = str(uuid4())
NOBODY_LISTENS = "http://127.0.0.1:9"
ABOUT_NOTHING = ("access", "explain", "--resource", NOBODYS, "--who", ADMIN_EMAIL)


@pytest.fixture(scope="module")
def service(service_harness: ServiceHarness) -> Iterator[RunningService]:
    """One service for all of them, which change nothing."""
    service, stack = service_harness.start()
    yield service
    service_harness.stop(service, stack)


@pytest.mark.parametrize(
    "arguments",
    [
        ("collections", "show", "Elsewhere"),
        ("collections", "show", NOBODYS),
        ("collections", "create", "x" * 2000),
        ("sync", "show", "Elsewhere"),
        ("sync", "watch", NOBODYS),
        ("reindex", "Elsewhere"),
        ("reindex", NOBODYS),
        ("reindex", "catalog:", "--model", "no such model"),
        ("search", "noon", "--collection", "Elsewhere"),
        ("search", "noon", "--collection", NOBODYS),
        ("search", "noon", "--limit", "0"),
        ("search", "noon", "--as", "nobody@example.test"),
        ABOUT_NOTHING,
        ("upload", "elsewhere", "--direct"),
    ],
)
def test_what_is_to_be_changed_in_the_command_ends_it_with_2(run: Run, arguments: tuple[str, ...]) -> None:
    """A name or an id that nothing has, and what isn't valid, whether here or by the service's word."""
    ended = run(*arguments)
    assert ended.code == 2, ended
    assert ended.err


@pytest.mark.parametrize(
    "arguments", [("collections", "list"), ("search", "noon"), ("reindex", NOBODYS), ABOUT_NOTHING]
)
def test_a_key_that_will_not_do_ends_it_with_3(run: Run, arguments: tuple[str, ...]) -> None:
    """Whatever it is that was asked for."""
    ended = run(*arguments, CARREL_API_KEY=f"svc_key_{'unknown' * 6}")
    assert (ended.code, "CARREL_API_KEY" in ended.err) == (3, True), ended


def test_what_only_others_may_do_ends_it_with_3(run: Run, service: RunningService) -> None:
    """The key works, and is not an admin's."""
    member = service.new_user("member@example.test")
    assert run("snapshot", "take", CARREL_API_KEY=member).code == 3


@pytest.mark.parametrize("arguments", [("collections", "list"), ("sync", "show", "x"), ABOUT_NOTHING])
def test_a_service_that_is_away_ends_it_with_4(run: Run, arguments: tuple[str, ...]) -> None:
    """There is nothing to change but the time."""
    assert run(*arguments, CARREL_BASE_URL=NOBODY_LISTENS).code == 4


def test_no_key_ends_it_with_2(run: Run) -> None:
    """It is a setting that is missing."""
    assert run("collections", "list", CARREL_API_KEY=None).code == 2
    assert run("reindex", "x", CARREL_API_KEY=None).code == 2
