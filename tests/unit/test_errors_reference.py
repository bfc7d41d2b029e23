"""docs/errors.md, the service's errors and the command line's exit codes are one."""

import sys
from pathlib import Path

import pytest

from cli.exit_codes import MEANINGS, ExitCode
from scripts.errors_reference import ELSEWHERE, PAGE, REPLIES, reference
from scripts.refusals import FORWARDED, Module, Refusal, Source, Unseen
from service.text.extraction.failures import FailureCode

HEAD = "from service.platform import errors\nfrom service.platform.errors import BadRequest, Conflict, NotFound\n"


@pytest.fixture(scope="module")
def refusals() -> list[Refusal]:
    """What the whole service refuses."""
    return list(Source().refusals())


def read(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, str]]:
    """Return what a module of this source refuses."""
    path = tmp_path / "made_up.py"
    path.write_text(HEAD + source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made_up", raising=False)
    found = Source([Module(path, root=tmp_path)]).refusals()
    return [(one.status, one.code, one.message) for one in found]


def test_the_page_is_what_the_code_says() -> None:
    """Every code is on the page with its status and what it says; `make docs` brings it there."""
    assert PAGE.read_text() == reference()


def test_every_row_says_something() -> None:
    """No code stands there without a word of explanation."""
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert [row for row in rows if not any(letter.isalpha() for letter in row.split("|")[2])] == []


def test_no_file_is_refused_by_a_code_that_is_not_there(refusals: list[Refusal]) -> None:
    """Every code that a reader of files may give is made somewhere, and found."""
    assert set(FailureCode.__args__) <= {one.code for one in refusals}


def test_what_is_left_out_is_there(refusals: list[Refusal]) -> None:
    """Modules that are left out, told apart or passed over have errors: none is named that has gone."""
    modules = {one.module for one in refusals}
    gone = [name for name in (*ELSEWHERE, *REPLIES) if not any(f"{one}.".startswith(f"{name}.") for one in modules)]
    assert gone == []
    known = {(module.name, getattr(node, "name", "")) for module in Source().modules for node in module.nodes}
    assert known >= FORWARDED


def test_every_exit_code_has_a_meaning() -> None:
    """No exit code of the command line is without one."""
    assert set(MEANINGS) == set(ExitCode)


def test_codes_and_messages_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code or message that is a parameter, a variable or a row of a table is found with what belongs to it."""
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


@pytest.mark.parametrize(
    "source",
    [
        "def f(row):\n    raise BadRequest('No.', code=row.code)",
        "def f(name):\n    raise BadRequest('No.', code=f'no_{name}')",
        "def f(code):\n    raise BadRequest('No.', code=code)",
        "def f(name):\n    code = name.lower()\n    raise BadRequest('No.', code=code)",
        "def f(away):\n    kind = NotFound if away else Conflict\n    raise kind('No.')",
        "KINDS = {1: NotFound}\n",
        "def f():\n    return fail(Conflict, 'No.')",
    ],
)
def test_what_can_not_be_told_is_said(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code or a class that is computed makes the page fail, and names the place, instead of missing from it."""
    with pytest.raises(Unseen, match=r"made_up\.py:\d+"):
        read(source, tmp_path, monkeypatch)
