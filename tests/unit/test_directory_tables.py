"""Reading the files of a directory, and errors."""

import io
from collections.abc import Iterator

import pytest

from carrel import InvalidArgumentError
from carrel.directory.tables import Entries, read_entries
from tests.harness.cases import cases

PEOPLE = "email,name,isAdmin,active\nada@example.com,Ada Lovelace,true,\nGRACE@example.com,Grace Hopper,,no\n"
READ = [("ada@example.com", "Ada Lovelace", True, None), ("grace@example.com", "Grace Hopper", None, False)]


def _users(table) -> list[tuple[str, str | None, bool | None, bool | None]]:
    entries = read_entries(users=table, groups=None, memberships=None)
    assert not entries.problems
    return [(one.email, one.name, one.is_admin, one.active) for one in (entries.users or {}).values()]


def _entries(text: str | bytes, kind: str = "users") -> Entries:
    tables = dict.fromkeys(("users", "groups", "memberships"))
    contents = text.encode() if isinstance(text, str) else text
    return read_entries(**(tables | {kind: contents}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        PEOPLE,
        "\ufeff" + PEOPLE,
        PEOPLE.replace("\n", "\r\n"),
        PEOPLE.replace("\n", "\r"),
        PEOPLE.replace(",", ";"),
        PEOPLE.replace(",", "\t"),
        "\n ; ; ; \n" + PEOPLE.replace(",", ";") + ";;;\n\n",
        PEOPLE.replace("email,name,isAdmin", "E-Mail, NAME ,is_admin"),
        PEOPLE.rstrip("\n"),
        PEOPLE.replace("Ada Lovelace", ' "Ada\r\n Lovelace"'.strip()),
        PEOPLE + "Ada@Example.com,Ada Lovelace,TRUE,\n",
        PEOPLE.replace("true", "Yes").replace("no", "0"),
    ],
    ids=["plain", "mark", "CRLF", "CR", "semicolons", "tabs", "blank", "header", "end", "break", "repeat", "flags"],
)
def test_files_are_read_as_spreadsheets_write_them(text: str) -> None:
    assert _users(text.encode()) == READ


def test_every_kind_of_source_is_the_same(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE)

    def rows() -> Iterator[dict[str, object]]:
        yield {"email": "ada@example.com", "name": "Ada Lovelace", "is_admin": True, "active": None}
        yield {"email": "GRACE@example.com", "name": "Grace Hopper", "is_admin": float("nan"), "active": False}

    sources: list = [path, str(path), PEOPLE.encode(), io.BytesIO(PEOPLE.encode()), io.StringIO(PEOPLE)]
    assert [_users(source) for source in [*sources, list(rows())]] == [READ] * 6


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        *cases("files_of_people_that_are_refused"),
        ("email,name\nada@example.com,Ada\ngr\xe4te@example.com,x\n".encode("latin-1"), 3, "not UTF-8"),
        ("email,name\nada@example.com,Ada\n".encode("utf-16"), 1, "UTF-16"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused_whole(text: str | bytes, line: int, message: str) -> None:
    entries = _entries(text)
    assert entries.users == {}
    (problem,) = entries.problems
    assert (problem.file, problem.line, problem.skippable) == ("users", line, False)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(problem.message)


@pytest.mark.parametrize(("row", "message"), cases("a_bad_row_costs_itself_alone"))
def test_a_bad_row_costs_itself_alone(row: str, message: str) -> None:
    text = f'email,name,isAdmin,active\nalan@example.com,"Alan\nTuring",,\n{row}\ngrace@example.com,Grace,,\n'
    entries = _entries(text)
    assert list(entries.users or ()) == ["alan@example.com", "grace@example.com"]
    (problem,) = entries.problems
    assert (problem.line, problem.skippable) == (4, True)
    assert message in problem.message
    assert problem.message.isprintable()


def test_rows_that_contradict_each_other_count_neither() -> None:
    text = "email,name,isAdmin\nada@example.com,Ada,true\nADA@example.com,Ada,false\nada@example.com,Ada,true\n"
    entries = _entries(text)
    assert entries.users == {}
    (problem,) = entries.problems
    assert (problem.line, problem.message) == (3, "says otherwise than line 2 of ada@example.com; keep one of them")
    groups = _entries("externalId,name\nops,Ops\nops,Operations\nhr,HR\nhr,HR\n", "groups")
    assert list(groups.groups or ()) == ["hr"]
    assert [one.line for one in groups.problems] == [3]


def test_addresses_are_compared_as_the_service_keeps_them() -> None:
    entries = _entries("email,name\nJ\u00f6rg@example.com,J\njo\u0308rg@example.com,J\n")
    assert list(entries.users or ()) == ["j\u00f6rg@example.com"]
    assert not entries.problems


def test_memberships_and_groups() -> None:
    groups = _entries("externalId;name;costCentre\n 007 ; Ops  Team ;1\n", "groups")
    assert [(one.external_id, one.name) for one in (groups.groups or {}).values()] == [("007", "Ops Team")]
    assert groups.notes == ["groups: ignored the columns costCentre"]
    memberships = _entries("group,member\n007,ada@example.com\n,x\nOps Team,hr\n", "memberships")
    found = [(each.line, each.group, each.member) for each in memberships.memberships or ()]
    assert found == [(2, "007", "ada@example.com"), (4, "Ops Team", "hr")]
    (problem,) = memberships.problems
    assert (problem.line, problem.message, problem.skippable) == (3, "group: is empty", True)


def test_what_is_no_table_is_an_argument_error(tmp_path) -> None:
    with pytest.raises(InvalidArgumentError, match="mappings"):
        _users(["ada@example.com"])
    with pytest.raises(FileNotFoundError):
        _users(tmp_path / "none.csv")
