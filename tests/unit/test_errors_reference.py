"""docs/errors.md, the service's errors and the command line's exit codes are one."""

import sys
from pathlib import Path

import pytest

from cli.exit_codes import MEANINGS, ExitCode
from scripts import errors_reference
from scripts.refusals import FORWARDED, Module, Source, Unseen
from service.text.extraction.failures import FailureCode
from tests.harness.cases import cases

HEAD = "from service.platform import errors\nfrom service.platform.errors import BadRequest, Conflict, NotFound\n"


@pytest.fixture(scope="module")
def source() -> Source:
    """The service's source, of which the refusals are found once."""
    source = Source()
    refusals = list(source.refusals())
    source.refusals = lambda: iter(refusals)
    return source


def read(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, str]]:
    path = tmp_path / "made_up.py"
    path.write_text(HEAD + source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made_up", raising=False)
    return [(one.status, one.code, one.message) for one in Source([Module(path, root=tmp_path)]).refusals()]


def test_the_page_is_what_the_code_says(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each code has a word of explanation; `make docs` brings it there."""
    monkeypatch.setattr(errors_reference, "Source", lambda: source)
    page = errors_reference.PAGE.read_text()
    assert page == errors_reference.reference()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if not any(letter.isalpha() for letter in row.split("|")[2])] == []
    assert set(MEANINGS) == set(ExitCode)


def test_what_is_named_apart_is_there(source: Source) -> None:
    """Modules that are left out, told apart or passed over have errors, and codes of unreadable files are made."""
    refusals = list(source.refusals())
    assert set(FailureCode.__args__) <= {one.code for one in refusals}
    modules = {one.module for one in refusals}
    named = (*errors_reference.ELSEWHERE, *errors_reference.REPLIES)
    assert [name for name in named if not any(f"{one}.".startswith(f"{name}.") for one in modules)] == []
    assert {(module.name, getattr(node, "name", "")) for module in source.modules for node in module.nodes} >= FORWARDED


def test_codes_and_messages_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
LIMIT = 1000
ROWS = (("row_one", "One."), ("row_two", "Two."))

def refuse(code, message="Nothing."):
    raise BadRequest(message, code=code)

def call(name):
    refuse("given", f"At most {LIMIT:,} of {name}.")
    refuse("silent", message="Silence.")

def choose(late):
    if late:
        code, message = "late", "Too late."
    else:
        code = "early"
        message = "Too early."
    return Conflict(message, code=code)

def table():
    for code, message in ROWS:
        raise NotFound(message, code=code)

def plain():
    return Conflict("Not now.")

def named():
    return errors.TooLarge("Too much.")
"""
    assert sorted(read(source, tmp_path, monkeypatch)) == [
        (400, "given", "At most 1,000 of …."),
        (400, "silent", "Silence."),
        (404, "row_one", "One."),
        (404, "row_two", "Two."),
        (409, "conflict", "Not now."),
        (409, "early", "Too early."),
        (409, "late", "Too late."),
        (413, "too_large", "Too much."),
    ]


@pytest.mark.parametrize("source", cases("what_can_not_be_told_is_said"))
def test_what_can_not_be_told_is_said(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unseen, match=r"made_up\.py:\d+"):
        read(source, tmp_path, monkeypatch)
