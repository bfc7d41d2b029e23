"""`carrel directory import`, as used by operators and scheduled jobs."""

import subprocess
import sys

import pytest

from tests.cli.conftest import COMMAND, Run, environment_for, ran
from tests.harness.services import ADMIN_EMAIL, RunningService

USERS = "email,name,isAdmin\nada@example.test,Ada,true\ngrace@example.test,Grace [bold],\n"
GROUPS = "externalId,name\neng,Engineering\n"
MEMBERSHIPS = "group,member\neng,ada@example.test\neng,grace@example.test\n"
IMPORT = ("directory", "import")
ALL = (*IMPORT, "--users", "users.csv", "--groups", "groups.csv", "--memberships", "memberships.csv")


@pytest.fixture(autouse=True)
def _files(tmp_path) -> None:
    (tmp_path / "users.csv").write_text(USERS)
    (tmp_path / "groups.csv").write_text(GROUPS)
    (tmp_path / "memberships.csv").write_text(MEMBERSHIPS)


def _emails(service: RunningService) -> set[str]:
    users = service.call("admin/users/list", {"pageSize": 1000}).json()["users"]
    return {user["email"] for user in users if user["active"]}


def test_an_import_changes_nothing_unless_told_to(run: Run, service: RunningService) -> None:
    """Without a terminal there is no question; the second --yes finds no changes."""
    silent = run(*ALL)
    assert (silent.code, silent.out, "--dry-run" in silent.err, "--yes" in silent.err) == (2, "", True, True)
    planned = run(*ALL, "--dry-run")
    assert planned.code == 0, planned.err
    for line in ("+ grace@example.test  Grace [bold]", "+ ada@example.test  Ada, admin", "+ eng: ada@example.test"):
        assert line in planned.out
    assert "dry run" in planned.err
    assert _emails(service) == {ADMIN_EMAIL}
    first, second = run(*ALL, "--yes"), run(*ALL, "--yes")
    assert (first.code, "Done: 5 changes" in first.err) == (0, True)
    assert (second.code, "nothing to change" in second.err) == (0, True)
    assert _emails(service) == {ADMIN_EMAIL, "ada@example.test", "grace@example.test"}


@pytest.mark.parametrize("answer", ["y\n", "n\n", "\n", "\x04", None])
def test_on_a_terminal_somebody_is_asked(run_on_terminal: Run, service: RunningService, answer: str | None) -> None:
    ended = run_on_terminal(*ALL, answer=answer)
    assert ended.code == (130 if answer is None else 0), ended.out
    assert ended.out.index("ada@example.test") < ended.out.index("Apply this?")
    assert ("ada@example.test" in _emails(service)) == (answer == "y\n")
    assert ("Done: 5 changes" in ended.out) == (answer == "y\n")
    assert ("Interrupted" in ended.out) == (answer is None)
    assert "Traceback" not in ended.out


def test_problems_end_with_1(run: Run, service: RunningService, tmp_path) -> None:
    (tmp_path / "memberships.csv").write_text(MEMBERSHIPS + "eng,nobody@example.test\n")
    refused = run(*ALL, "--yes")
    assert refused.code == 1
    assert "! memberships.csv, line 4: member: there is no user or group nobody@example.test" in refused.out
    assert _emails(service) == {ADMIN_EMAIL}
    skipped = run(*ALL, "--yes", "--skip-problems")
    assert (skipped.code, "Skipped 1 rows" in skipped.err) == (1, True)
    assert "ada@example.test" in _emails(service)
    assert run(*ALL, "--yes", "--skip-problems").code == 1


def test_deactivating_too_many_ends_with_1_unless_forced(run: Run, service: RunningService, tmp_path) -> None:
    assert run(*ALL, "--yes").code == 0
    (tmp_path / "users.csv").write_text("email,name\nada@example.test,Ada\n")
    users = (*IMPORT, "--users", "users.csv", "--yes", "--deactivate-missing")
    refused = run(*users)
    assert (refused.code, "--force" in refused.err) == (1, True)
    assert "grace@example.test" in _emails(service)
    assert run(*users, "--force").code == 0
    assert _emails(service) == {ADMIN_EMAIL, "ada@example.test"}


def test_wrong_usage_ends_with_2(run: Run) -> None:
    for arguments, message in (
        ((*IMPORT, "--yes"), "Give at least one of"),
        ((*IMPORT, "--groups", "groups.csv", "--yes", "--deactivate-missing"), "needs --users"),
        ((*ALL, "--yes", "--dry-run"), "either"),
        ((*IMPORT, "--users", "none.csv", "--yes"), "none.csv"),
        ((*IMPORT, "--users", ".", "--yes"), "is a directory"),
        ((*IMPORT, "--user", "users.csv"), "--user"),
        (("directory", "export"), "export"),
    ):
        ended = run(*arguments)
        assert (ended.code, message in ended.err, "Traceback" in ended.err) == (2, True, False), ended


def test_the_environment_is_wrong(run: Run, service: RunningService) -> None:
    nobody = service.new_user("nobody@example.test")
    wrong = "svc_key_" + "a" * 40
    for changes, code, words in (
        ({"CARREL_API_KEY": wrong}, 3, "active key"),
        ({"CARREL_API_KEY": nobody}, 3, "admin"),
        ({"CARREL_BASE_URL": service.base_url + "/elsewhere"}, 2, "404"),
        ({"CARREL_BASE_URL": "http://127.0.0.1:9"}, 4, "http://127.0.0.1:9"),
    ):
        ended = run(*ALL, "--yes", **changes)
        assert (ended.code, words in ended.err, "Traceback" in ended.err) == (code, True, False), ended
        assert not any(key in ended.err + ended.out for key in (wrong, nobody, service.api_key))


def test_json_is_one_object(run: Run) -> None:
    planned = run(*ALL, "--dry-run", "--json")
    assert (planned.code, planned.err, planned.json["outcome"], planned.json["applied"]) == (0, "", "planned", None)
    assert [one["email"] for one in planned.json["plan"]["users"]] == ["ada@example.test", "grace@example.test"]
    applied = ran(run, *ALL, "--yes")
    assert (applied["outcome"], applied["applied"]["membersAdded"]) == ("applied", 2)
    assert ran(run, *ALL, "--yes")["outcome"] == "unchanged"
    assert ran(run, *ALL, exit_code=2)["outcome"] == "usage"
    away = run(*ALL, "--dry-run", "--json", CARREL_BASE_URL="http://127.0.0.1:9")
    assert (away.code, away.err, away.json["outcome"]) == (4, "", "unreachable")
    assert "http://127.0.0.1:9" in away.json["message"]


def test_names_do_nothing_to_the_terminal(run: Run, service: RunningService, tmp_path) -> None:
    escape = "\x1b]0;owned\x07"
    service.call("admin/users/upsert", {"users": [{"email": "grace@example.test", "name": f"Old{escape}"}]})
    service.call("admin/groups/upsert", {"groups": [{"externalId": "eng", "name": "Old\n+ forged@example.test"}]})
    (tmp_path / "groups.csv").write_text(f"externalId,name,col{escape}\neng,Engineering,x\nops,O{escape},x\n")
    ended = run(*ALL, "--dry-run")
    assert ended.code == 1
    assert all(words in ended.out for words in ("has a control character", "Old"))
    assert not any(line.startswith("+ forged") for line in ended.out.splitlines())
    assert "\x1b" not in ended.out + ended.err


@pytest.mark.parametrize("options", [("--json",), ()])
def test_a_reader_that_goes_away_is_no_error(service: RunningService, tmp_path, options: tuple[str, ...]) -> None:
    rows = "".join(f"u{number}@example.test,{'U' * 150} {number}\n" for number in range(1000))
    (tmp_path / "users.csv").write_text("email,name\n" + rows)
    command = [COMMAND, *IMPORT, "--users", "users.csv", "--yes", *options]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment_for(service), **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        process.stdout.close()
        errors = process.stderr.read().decode()
        code = process.wait(60)
    assert (code, "Error" in errors) == (0, False), errors
    assert "u7@example.test" in _emails(service)


def test_without_typer_what_to_install_is_said() -> None:
    code = "import sys; sys.modules['typer'] = None; from cli.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "pip install -e '.[cli]'" in done.stderr) == (2, True)
