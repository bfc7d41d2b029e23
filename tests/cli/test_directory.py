"""`carrel directory import` as operators and scheduled jobs run it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Run, environment_for
from tests.harness.services import ADMIN_EMAIL, RunningService

USERS = "email,name,isAdmin\nada@example.test,Ada,true\ngrace@example.test,Grace [bold],\n"
GROUPS = "externalId,name\neng,Engineering\n"
MEMBERSHIPS = "group,member\neng,ada@example.test\neng,grace@example.test\n"
IMPORT = ("directory", "import")
ALL = (*IMPORT, "--users", "users.csv", "--groups", "groups.csv", "--memberships", "memberships.csv")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    """Three files of a small directory, in the folder the command runs in."""
    (tmp_path / "users.csv").write_text(USERS)
    (tmp_path / "groups.csv").write_text(GROUPS)
    (tmp_path / "memberships.csv").write_text(MEMBERSHIPS)


def _emails(service: RunningService) -> set[str]:
    users = service.call("admin/users/list", {"pageSize": 1000}).json()["users"]
    return {user["email"] for user in users if user["active"]}


def test_a_dry_run_shows_the_plan_and_changes_nothing(run: Run, service: RunningService) -> None:
    """--dry-run prints what would change, names as they are, and leaves everything as it was."""
    ended = run(*ALL, "--dry-run")
    assert ended.code == 0, ended.err
    assert "+ grace@example.test  Grace [bold]" in ended.out
    assert "+ ada@example.test  Ada, admin" in ended.out
    assert "+ eng: ada@example.test" in ended.out
    assert "dry run" in ended.err
    assert _emails(service) == {ADMIN_EMAIL}


def test_yes_applies_and_the_second_time_there_is_nothing_to_do(run: Run, service: RunningService) -> None:
    """A scheduled job runs with --yes; both times it ends with 0."""
    first, second = run(*ALL, "--yes"), run(*ALL, "--yes")
    assert (first.code, second.code) == (0, 0)
    assert "Done: 5 changes" in first.err
    assert "nothing to change" in second.err
    assert _emails(service) == {ADMIN_EMAIL, "ada@example.test", "grace@example.test"}


def test_without_a_terminal_nobody_is_asked(run: Run, service: RunningService) -> None:
    """A job that says neither --yes nor --dry-run is told to, and changes nothing."""
    ended = run(*ALL)
    assert (ended.code, ended.out) == (2, "")
    assert "--dry-run" in ended.err
    assert "--yes" in ended.err
    assert _emails(service) == {ADMIN_EMAIL}


@pytest.mark.parametrize(("answer", "changed"), [("y\n", True), ("n\n", False), ("\n", False), ("\x04", False)])
def test_on_a_terminal_somebody_is_asked(
    run_on_terminal: Run, service: RunningService, answer: str, changed: bool
) -> None:
    """The plan is shown, then the question; only a yes applies it, and either way the end is a good one."""
    ended = run_on_terminal(*ALL, answer=answer)
    assert ended.code == 0, ended.out
    assert ended.out.index("ada@example.test") < ended.out.index("Apply this?")
    assert ("ada@example.test" in _emails(service)) == changed
    assert ("Done: 5 changes" in ended.out) == changed


def test_ctrl_c_at_the_question(run_on_terminal: Run, service: RunningService) -> None:
    """Ctrl-C ends it with 130, in words, and changes nothing."""
    ended = run_on_terminal(*ALL, answer=None)
    assert ended.code == 130
    assert "Interrupted" in ended.out
    assert "Traceback" not in ended.out
    assert _emails(service) == {ADMIN_EMAIL}


def test_problems_end_with_1(run: Run, service: RunningService, tmp_path: Path) -> None:
    """Problems are shown with file and line, nothing is changed, and skipping them still ends with 1."""
    (tmp_path / "memberships.csv").write_text(MEMBERSHIPS + "eng,nobody@example.test\n")
    refused = run(*ALL, "--yes")
    assert refused.code == 1
    assert "! memberships.csv, line 4: member: there is no user or group nobody@example.test" in refused.out
    assert _emails(service) == {ADMIN_EMAIL}
    skipped = run(*ALL, "--yes", "--skip-problems")
    assert skipped.code == 1
    assert "Left out: 1 rows" in skipped.err
    assert "ada@example.test" in _emails(service)
    assert run(*ALL, "--yes", "--skip-problems").code == 1


def test_deactivating_too_many_ends_with_1_unless_forced(run: Run, service: RunningService, tmp_path: Path) -> None:
    """A users file that lost most of its rows deactivates nobody by itself."""
    assert run(*ALL, "--yes").code == 0
    (tmp_path / "users.csv").write_text("email,name\nada@example.test,Ada\n")
    users = (*IMPORT, "--users", "users.csv", "--yes", "--deactivate-missing")
    refused = run(*users)
    assert refused.code == 1
    assert "--force" in refused.err
    assert "grace@example.test" in _emails(service)
    assert run(*users, "--force").code == 0
    assert _emails(service) == {ADMIN_EMAIL, "ada@example.test"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*IMPORT, "--yes"), "Give at least one of"),
        ((*IMPORT, "--groups", "groups.csv", "--yes", "--deactivate-missing"), "needs --users"),
        ((*ALL, "--yes", "--dry-run"), "either"),
        ((*IMPORT, "--users", "none.csv", "--yes"), "none.csv"),
        ((*IMPORT, "--users", ".", "--yes"), "is a directory"),
        ((*IMPORT, "--user", "users.csv"), "--user"),
        (("directory", "export"), "export"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """What is wrong with the command is said, without a traceback."""
    ended = run(*arguments)
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_the_environment_is_wrong(run: Run, service: RunningService) -> None:
    """No key, a key of nobody's, one of no admin, nobody listening, no service: each is told apart, none is echoed."""
    nobody = service.new_user("nobody@example.test")
    wrong = "svc_key_" + "a" * 40
    for changes, code, words in (
        ({"CARREL_API_KEY": None}, 2, "CARREL_API_KEY"),
        ({"CARREL_BASE_URL": "nowhere"}, 2, "CARREL_BASE_URL"),
        ({"CARREL_API_KEY": wrong}, 3, "working key"),
        ({"CARREL_API_KEY": nobody}, 3, "admin"),
        ({"CARREL_BASE_URL": service.base_url + "/elsewhere"}, 2, "404"),
    ):
        ended = run(*ALL, "--yes", **changes)
        assert (changes, ended.code) == (changes, code)
        assert words in ended.err
        assert "Traceback" not in ended.err
        assert not any(key in ended.err + ended.out for key in (wrong, nobody, service.api_key))


def test_nobody_listening_ends_with_4(tmp_path: Path) -> None:
    """Offline, the command says whom it couldn't reach, after having tried again."""
    environment = environment_for(None, CARREL_BASE_URL="http://127.0.0.1:9", CARREL_API_KEY="svc_key_" + "a" * 40)
    command = [COMMAND, *ALL, "--dry-run", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["exitCode"], answer["outcome"]) == (4, 4, "unreachable")
    assert "http://127.0.0.1:9" in answer["message"]
    assert done.stderr == ""


def test_json_is_one_object(run: Run) -> None:
    """--json prints the plan and what was done as one object, and nothing else."""
    planned = run(*ALL, "--dry-run", "--json")
    answer = json.loads(planned.out)
    assert (planned.code, planned.err, answer["outcome"], answer["applied"]) == (0, "", "planned", None)
    assert [change["email"] for change in answer["plan"]["users"]] == ["ada@example.test", "grace@example.test"]
    applied = json.loads(run(*ALL, "--yes", "--json").out)
    assert (applied["outcome"], applied["exitCode"], applied["applied"]["membersAdded"]) == ("applied", 0, 2)
    assert json.loads(run(*ALL, "--yes", "--json").out)["outcome"] == "unchanged"
    usage = run(*ALL, "--json")
    assert (usage.code, json.loads(usage.out)["outcome"]) == (2, "usage")


def test_names_do_nothing_to_the_terminal(run: Run, service: RunningService, tmp_path: Path) -> None:
    """Neither a file's cell nor a name the service has already can send the terminal an escape sequence."""
    escape = "\x1b]0;owned\x07"
    service.call("admin/users/upsert", {"users": [{"email": "grace@example.test", "name": f"Old{escape}"}]})
    service.call("admin/groups/upsert", {"groups": [{"externalId": "eng", "name": "Old\n+ forged@example.test"}]})
    (tmp_path / "groups.csv").write_text(f"externalId,name,col{escape}\neng,Engineering,x\nops,O{escape},x\n")
    ended = run(*ALL, "--dry-run")
    assert ended.code == 1
    assert "has a control character" in ended.out
    assert "Old" in ended.out
    assert not any(line.startswith("+ forged") for line in ended.out.splitlines())
    assert "\x1b" not in ended.out + ended.err


@pytest.mark.parametrize("options", [("--json",), ()])
def test_a_reader_that_goes_away_is_no_error(service: RunningService, tmp_path: Path, options: tuple[str, ...]) -> None:
    """`carrel … | head -1` ends as it would have, without a traceback; and what was to be done is done."""
    rows = "".join(f"u{number}@example.test,{'U' * 150} {number}\n" for number in range(1000))
    (tmp_path / "users.csv").write_text("email,name\n" + rows)
    command = [COMMAND, *IMPORT, "--users", "users.csv", "--yes", *options]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment_for(service), **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        process.stdout.close()
        errors = process.stderr.read().decode()
        code = process.wait(60)
    assert code == 0, errors
    assert "Error" not in errors
    assert "u7@example.test" in _emails(service)


def test_killed_half_way_and_run_again(run: Run, service: RunningService, tmp_path: Path) -> None:
    """Killed while it applies, the import is completed by the next run, which finds what is left to do."""
    numbers = range(6000)
    (tmp_path / "users.csv").write_text("email,name\n" + "".join(f"u{n}@example.test,U {n}\n" for n in numbers))
    (tmp_path / "groups.csv").write_text("externalId,name\n" + "".join(f"g{n},G {n}\n" for n in range(10)))
    rows = "".join(f"g{n % 10},u{n}@example.test\n" for n in numbers)
    (tmp_path / "memberships.csv").write_text("group,member\n" + rows)
    with subprocess.Popen(
        [COMMAND, *ALL, "--yes"], cwd=tmp_path, env=environment_for(service), stdin=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(_emails(service)) < 2:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert len(_emails(service)) > 1
    again = json.loads(run(*ALL, "--yes", "--json").out)
    assert again["outcome"] == "applied"
    assert again["applied"]["users"] < 6000
    last = json.loads(run(*ALL, "--dry-run", "--json").out)
    assert last["outcome"] == "unchanged"
    assert [last["plan"][f"unchanged{what}"] for what in ("Users", "Groups", "Memberships")] == [6000, 10, 6000]


def test_the_sdk_alone_has_no_command_line_and_says_so() -> None:
    """Without typer, `carrel` says what to install; the SDK needs neither it nor anything of the command line."""
    code = "import sys; sys.modules['typer'] = None; from cli.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install -e '.[cli]'" in done.stderr
    code = "import sys, carrel, carrel.directory; print([name for name in ('typer', 'cli') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
