"""What no command foresees ends with a code of its own, not with the one for problems."""

import json
from typing import NoReturn

import pytest

from cli.app import run


@pytest.fixture(autouse=True)
def _blue(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> NoReturn:
        msg = "out of\nthe blue"
        raise RuntimeError(msg)

    monkeypatch.setattr("cli.app.app", fails)
    monkeypatch.delenv("CARREL_LOG", raising=False)


def test_unexpected_error_is_one_line_and_a_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A scheduled job tells it from a run that is done with problems; a person reads one line."""
    assert run(["plan", "reports"]) == 70
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "RuntimeError: out of" in err
    assert "CARREL_LOG=debug" in err


def test_program_gets_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json it is on standard output, and the line still on standard error."""
    assert run(["plan", "reports", "--json"]) == 70
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert (answer["outcome"], answer["exitCode"]) == ("unexpected", 70)
    assert "RuntimeError" in err


def test_traceback_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """CARREL_LOG=debug says where it was."""
    monkeypatch.setenv("CARREL_LOG", "debug")
    assert run(["plan", "reports"]) == 70
    assert "Traceback" in capsys.readouterr().err
