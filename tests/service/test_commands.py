"""`python -m service` with a command: effects, output, and refusals."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import AsyncMock
from uuid import UUID

import pytest
from argon2 import PasswordHasher
from pydantic import SecretStr
from sqlalchemy.exc import IntegrityError

from service.identity_server.interface import Claim
from service.operate.commands import domains, run
from service.operate.commands.context import CommandError, format_count, format_size
from service.platform.settings import Settings
from tests.harness.cases import cases
from tests.harness.processes import environment_without_settings
from tests.harness.services import RunningService
from tests.service.directory import a_user, another_organization, done, entries, on_rows, organization_id
from tests.service.service_accounts import an_account, enable_service_accounts

pytestmark = pytest.mark.own_service  # commands are about all organizations

Command = Callable[..., tuple[int, str, str]]
# Makes the terminal named first its own, and runs the command that the further arguments are.
ON_A_TERMINAL = """
import os, sys
os.login_tty(int(sys.argv.pop(1)))
from service.__main__ import main
sys.exit(main())
"""
PASSWORD = "4-quinqueremes-of-nineveh"


class Typed(io.StringIO):
    """A standard input that can claim to be a terminal."""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:

    def command(settings: Settings, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", Typed(typed))
        monkeypatch.setenv("COLUMNS", "200")
        statuses: list[int] = []
        # A thread, because an event loop of the tests' is in this one.
        thread = threading.Thread(target=lambda: statuses.append(run(arguments, settings)))
        thread.start()
        thread.join(60)
        said = capsys.readouterr()
        return statuses[0], said.out, said.err

    return command


def password_hashes(service: RunningService) -> dict[str, str | None]:
    return dict(service.execute("SELECT email, password_hash FROM principals WHERE kind = 'user'"))


def test_an_organization_is_made_with_an_admin_whose_key_works(service: RunningService, command: Command) -> None:
    arguments = ("--name", "Acme", "--admin-email", "Admin@Example.test", "--admin-password")
    status, out, err = command(service.settings, "organization", "create", *arguments, typed=f"{PASSWORD}\n")
    assert (status, err) == (0, "")
    printed = dict(line.split("=") for line in out.splitlines())
    assert printed.keys() == {"organization_id", "api_key"}
    made = done(service.call("admin/organization/get", api_key=printed["api_key"]))
    expected = (printed["organization_id"], "Acme", "example.test")
    assert (made["organizationId"], made["name"], made["domain"]) == expected
    assert made["organizationId"] != str(organization_id(service))
    users = done(service.call("admin/users/list", api_key=printed["api_key"]))["users"]
    assert [(one["email"], one["isAdmin"], one["active"]) for one in users] == [("admin@example.test", True, True)]
    [entry] = done(service.call("admin/auditLog/query", api_key=printed["api_key"]))["entries"]
    assert (entry["action"], entry["target"]["id"]) == ("organization.create", made["organizationId"])
    statement = "SELECT password_hash FROM principals WHERE kind = 'user' AND organization_id = %s"
    [[kept]] = service.execute(statement, [made["organizationId"]])
    assert PasswordHasher().verify(kept, PASSWORD)


def test_an_organization_that_cannot_be_is_not_made(service: RunningService, command: Command) -> None:
    for name, email, said in (("", "a@b.test", "--name: "), ("Acme", "nobody", "--admin-email: must be one email")):
        arguments = ("--name", name, "--admin-email", email)
        status, out, err = command(service.settings, "organization", "create", *arguments)
        assert (status, out, err.startswith(said)) == (1, "", True), err
    assert service.execute("SELECT count(*) FROM organizations") == [(1,)]


def test_a_password_is_set_and_audited(service: RunningService, command: Command) -> None:
    ada = a_user(service, "ada@example.test", name="Ada", isAdmin=True)
    before = password_hashes(service)
    arguments = ("user", "set-password", "--email", "Ada@example.test")
    status, out, err = command(service.settings, *arguments, typed=f"{PASSWORD}\r\nsomething else\n")
    assert (status, out) == (0, "")
    assert PASSWORD not in err
    after = password_hashes(service)
    assert PasswordHasher().verify(str(after.pop("ada@example.test")), PASSWORD)
    assert after.items() <= before.items()
    entry, target = entries(service)[0], {"type": "user", "id": ada["id"], "name": "Ada"}
    assert (entry["action"], entry["target"], entry.get("actor")) == ("user.update", target, None)
    assert entry["details"] == {"isAdmin": True, "active": True, "passwordChanged": True}
    [changed] = done(service.call("admin/users/list", {"query": "ada"}))["users"]
    assert changed.items() >= ada.items()


def test_a_password_lets_an_admin_in_where_passwords_are_off(service: RunningService, command: Command) -> None:
    on_rows(service, "UPDATE organizations SET passwords_enabled = false")
    arguments = ("user", "set-password", "--email", service.admin_email)
    for more, said, enabled in (((), "are switched off", False), (("--allow-passwords",), "was changed.\n", True)):
        status, _, err = command(service.settings, *arguments, *more, typed=f"{PASSWORD}\n")
        assert (status, said in err) == (0, True)
        assert done(service.call("admin/organization/get"))["passwordsEnabled"] is enabled
    assert entries(service)[0]["details"] == {"passwordsEnabled": True}


def test_an_address_of_several_organizations_needs_the_organization(service: RunningService, command: Command) -> None:
    key = another_organization(service, admin_email=service.admin_email)
    other = str(organization_id(service, api_key=key))
    arguments = ("user", "set-password", "--email", service.admin_email)
    status, _, err = command(service.settings, *arguments, typed=f"{PASSWORD}\n")
    assert status == 1
    assert "--organization" in err
    assert other in err
    for number, wanted in enumerate(("Other", other)):
        typed = f"{PASSWORD} {number}"
        status, _, err = command(service.settings, *arguments, "--organization", wanted, typed=f"{typed}\n")
        assert status == 0, err
        statement = "SELECT organization_id::text, password_hash FROM principals WHERE email = %s"
        kept = dict(service.execute(statement, [service.admin_email]))
        assert PasswordHasher().verify(kept.pop(other), typed)
        assert PasswordHasher().verify(*kept.values(), service.admin_password)


def test_a_password_that_cannot_be_set_changes_nothing(service: RunningService, command: Command) -> None:
    enable_service_accounts(service)
    account = an_account(service)["email"]
    before = password_hashes(service)
    for arguments, typed, said in (
        (("--email", "nobody@example.test"), PASSWORD, "no user nobody@example.test"),
        (("--email", account), PASSWORD, "no user"),
        (("--email", service.admin_email, "--organization", "Nowhere"), PASSWORD, "no organization 'Nowhere'"),
        (("--email", service.admin_email), "short", "8 to 1024 characters"),
        (("--email", service.admin_email), "", "8 to 1024 characters"),
    ):
        status, out, err = command(service.settings, "user", "set-password", *arguments, typed=typed)
        assert (status, out) == (1, ""), arguments
        assert said in err
        assert "Traceback" not in err
        assert len(typed) < 8 or typed not in err
    assert password_hashes(service) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("user", "set-password", "--email", "a@b.test", "--password", PASSWORD),
        ("user", "set-password", "--email", "a@b.test", PASSWORD),
        ("organization", "create", "--name", "A", "--admin-email", "a@b.test", "--admin-password", PASSWORD),
        ("backup",),
        ("serve",),
    ],
)
def test_a_command_line_that_is_not_understood_is_status_2(module_service, command, arguments) -> None:
    """Passwords are never accepted as arguments: arguments are public."""
    before = password_hashes(module_service)
    assert command(module_service.settings, *arguments)[:2] == (2, "")
    assert password_hashes(module_service) == before


def test_help_names_every_command(module_service: RunningService, command: Command) -> None:
    status, out, _ = command(module_service.settings, "--help")
    assert status == 0
    assert "Without a command: start the service" in out
    for name in ("organization", "user", "texts", "backup", "restore", "rotate-key"):
        assert name in out


def test_what_a_person_wrote_is_erased(service: RunningService, command: Command) -> None:
    key = service.new_user("ada@example.test")
    done(service.call("search/searchDocumentCatalog", {"searchQuery": "where do the tall ships berth"}, api_key=key))
    assert on_rows(service, "SELECT text FROM free_texts") == [("where do the tall ships berth",)]
    status, out, err = command(service.settings, "texts", "erase", "--email", "ada@example.test")
    assert (status, out) == (0, "")
    assert err.startswith("1 text erased.")
    assert on_rows(service, "SELECT text FROM free_texts") == []
    status, _, err = command(service.settings, "texts", "erase", "--email", "nobody@example.test")
    assert status == 1
    assert "Traceback" not in err


def test_a_path_that_leads_nowhere_is_said_in_words(module_service, command, tmp_path) -> None:
    nowhere = tmp_path / "nowhere" / "x.tar.gz"
    for name, said in (("backup", f"There is no folder {nowhere.parent}."), ("restore", f"{nowhere}: No such")):
        status, out, err = command(module_service.settings, name, str(nowhere))
        assert (status, out) == (1, "")
        assert err.startswith(said)


@pytest.mark.parametrize(("count", "said", "size"), cases("counts_and_sizes_read_as_words"))
def test_counts_and_sizes_read_as_words(count: int, said: str, size: str) -> None:
    assert (format_count(count, "file"), format_size(count)) == (said, size)


def test_a_database_that_is_away_is_said_without_its_address(tmp_path, command: Command) -> None:
    url = SecretStr("postgresql://carrel:hunter2hunter2@127.0.0.1:1/carrel")
    settings = Settings(data_dir=tmp_path, database_url=url)
    status, _, err = command(settings, "user", "set-password", "--email", "a@b.test", typed=PASSWORD)
    assert status == 1
    assert "The database refused the command, or the connection broke" in err
    assert "hunter2" not in err
    assert "Traceback" not in err


def test_without_a_database_nothing_is_made(tmp_path, command: Command) -> None:
    of_ada = ("user", "reset-second-factor", "--email", "ada@example.test")
    for arguments in (("backup", str(tmp_path / "x")), ("rotate-key",), ("domains", "list"), of_ada):
        status, _, err = command(Settings(data_dir=tmp_path / "data"), *arguments)
        assert status == 1
        assert "CARREL_DATA_DIR" in err
    assert list(tmp_path.iterdir()) == []


def test_two_passwords_that_differ_change_nothing(service, command, monkeypatch) -> None:
    typed = iter((PASSWORD, "something else"))
    monkeypatch.setattr("getpass.getpass", lambda _: next(typed))
    monkeypatch.setattr(Typed, "isatty", lambda _: True)
    before = password_hashes(service)
    status, _, err = command(service.settings, "user", "set-password", "--email", service.admin_email)
    assert (status, "don't match" in err) == (1, True)
    assert password_hashes(service) == before


def test_on_a_terminal_a_password_is_asked_for_twice_without_echo(service: RunningService) -> None:
    url = service.settings.database_url
    assert url is not None
    environment = environment_without_settings() | {
        "CARREL_DATABASE_URL": url.get_secret_value(),
        "CARREL_DATA_DIR": str(service.settings.data_dir),
    }
    shown, status = typed_on_a_terminal(environment, PASSWORD, PASSWORD)
    assert status == 0, shown
    assert shown.count("Password: ") == 1
    assert PASSWORD not in shown
    assert PasswordHasher().verify(str(password_hashes(service)[service.admin_email]), PASSWORD)


def typed_on_a_terminal(environment: dict[str, str], *answers: str) -> tuple[str, int]:
    ours, theirs = os.openpty()
    arguments = ["user", "set-password", "--email", "admin@example.test"]
    command = [sys.executable, "-c", ON_A_TERMINAL, str(theirs), *arguments]
    process = subprocess.Popen(command, env=environment, pass_fds=(theirs,))
    os.close(theirs)
    shown = ""
    for prompt, answer in zip(("Password: ", "Repeat the password: "), answers, strict=True):
        while prompt not in shown:
            shown += os.read(ours, 1024).decode()
        os.write(ours, f"{answer}\n".encode())
    try:
        while piece := os.read(ours, 1024):
            shown += piece.decode()
    except OSError:  # as Linux says that nobody has the terminal open any more
        pass
    os.close(ours)
    return shown, process.wait(60)


def test_a_domain_that_another_operator_confirms_at_the_same_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = Claim("example.test", UUID(int=1), UUID(int=2), None)
    refuse = IntegrityError("", {}, Exception())
    monkeypatch.setattr(domains, "_claims", AsyncMock(return_value=([claim], {claim.organization_id: "One"})))
    monkeypatch.setattr(domains, "open_database", lambda _: nullcontext())
    monkeypatch.setattr(domains, "confirm_domain", AsyncMock(side_effect=refuse))
    with pytest.raises(CommandError, match=r"is confirmed for another organization\. Withdraw that confirmation first"):
        asyncio.run(domains._set_confirmed(Settings(), claim.domain, None, confirmed=True))


def test_an_operator_says_whose_a_domain_is(service: RunningService, command: Command) -> None:
    assert command(service.settings, "domains", "list")[1:] == ("", "No organization has claimed a domain.\n")
    body = {"name": "Work", "clientId": "c", "clientSecret": "s", "domains": ["example.test"]}

    def claim(issuer: str, **options) -> list[str]:
        made = service.call("admin/signInProviders/create", {**body, "issuer": issuer}, **options)
        return done(made)["unconfirmedDomains"]

    assert claim("https://one.test") == []
    assert claim("https://two.test", api_key=another_organization(service)) == ["example.test"]

    def states() -> list[list[str]]:
        return [line.split("\t")[:2] for line in command(service.settings, "domains", "list")[1].splitlines()]

    assert sorted(states()) == [["example.test", "confirmed"], ["example.test", "waiting"]]
    status, _, err = command(service.settings, "domains", "confirm", "example.test")
    assert (status, "Add --organization" in err) == (1, True)
    status, _, err = command(service.settings, "domains", "confirm", "example.test", "--organization", "Other")
    assert (status, "Withdraw that confirmation first" in err) == (1, True)
    assert command(service.settings, "domains", "withdraw", "Example.test")[0] == 0
    status, _, err = command(service.settings, "domains", "withdraw", "example.test")
    assert (status, err.startswith("Nothing to do: example.test is not claimed or confirmed for any")) == (1, True)
    status, _, err = command(service.settings, "domains", "confirm", "example.test", "--organization", "Other")
    assert (status, err.startswith("example.test is confirmed for Other.")) == (0, True)
    status, _, err = command(service.settings, "domains", "confirm", "example.test", "--organization", "Other")
    assert (status, err) == (0, "example.test was already confirmed for Other. Nothing was changed.\n")
    status, _, err = command(service.settings, "domains", "confirm", "nowhere.test")
    assert (status, "No organization claims nowhere.test" in err) == (1, True)
