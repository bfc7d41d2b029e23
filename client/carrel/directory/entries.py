"""The rows of a directory's three files: checked, normalized, and each once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Protocol, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from carrel.directory.tables import Columns, Problem, Row, Rows, Table, printable, read_table
from carrel.wire.fields import NO_NUL, EmailAddress, Identifier, Label, normal_email

USERS = Columns(required=("email", "name"), optional=("isAdmin", "active"))
GROUPS = Columns(required=("externalId", "name"))
MEMBERSHIPS = Columns(required=("group", "member"))

TRUE, FALSE = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})

_EMAIL = TypeAdapter[str](EmailAddress)
_LABEL = TypeAdapter[str](Label)
_IDENTIFIER = TypeAdapter[str](Identifier)
_MEMBER = TypeAdapter[str](Annotated[str, Field(min_length=1, max_length=1024), NO_NUL])


@dataclass(frozen=True, slots=True)
class UserEntry:
    """A user in the file; values of None leave the organization's as they are."""

    line: int = field(compare=False)
    email: str
    name: str | None
    is_admin: bool | None
    active: bool | None

    @property
    def key(self) -> str:
        """The unique key of a user."""
        return self.email


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group in the file."""

    line: int = field(compare=False)
    external_id: str
    name: str

    @property
    def key(self) -> str:
        """The unique key of a group."""
        return self.external_id


@dataclass(frozen=True, slots=True)
class MembershipEntry:
    """A membership in the file: a group by its external id or name, a member by address or a group's external id."""

    line: int
    group: str
    member: str


class _Keyed(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def key(self) -> str: ...


Keyed = TypeVar("Keyed", bound=_Keyed)


@dataclass(slots=True)
class Entries:
    """The rows of the three files; None for a file that wasn't given."""

    users: Mapping[str, UserEntry] | None
    groups: Mapping[str, GroupEntry] | None
    memberships: list[MembershipEntry] | None
    names: Mapping[str, str]
    problems: list[Problem]
    notes: list[str]


def read_entries(*, users: Table | None, groups: Table | None, memberships: Table | None) -> Entries:
    """Read the files; raises OSError when one can't be read at all."""
    given = {
        kind: read_table(table, kind=kind, columns=columns)
        for kind, table, columns in (
            ("users", users, USERS),
            ("groups", groups, GROUPS),
            ("memberships", memberships, MEMBERSHIPS),
        )
        if table is not None
    }
    return Entries(
        users=_each_once(given["users"], _user) if "users" in given else None,
        groups=_each_once(given["groups"], _group) if "groups" in given else None,
        memberships=_memberships(given["memberships"]) if "memberships" in given else None,
        names={kind: rows.name for kind, rows in given.items()},
        problems=[problem for rows in given.values() for problem in sorted(rows.problems, key=_line)],
        notes=[
            f"{rows.name}: left aside the columns {', '.join(rows.ignored)}" for rows in given.values() if rows.ignored
        ],
    )


def _line(problem: Problem) -> int:
    return problem.line


def _each_once(found: Rows, parse: Callable[[Row], Keyed]) -> dict[str, Keyed]:
    """Return the rows by key; an equal repetition counts once, and of two different rows neither counts."""
    entries: dict[str, Keyed] = {}
    doubtful: set[str] = set()
    for row in found.rows:
        try:
            entry = parse(row)
        except ValueError as exc:
            found.refuse(row.line, str(exc))
            continue
        first = entries.setdefault(entry.key, entry)
        if first != entry:
            doubtful.add(entry.key)
            found.refuse(
                entry.line, f"says otherwise than line {first.line} of {printable(entry.key)}; keep one of them"
            )
    return {key: entry for key, entry in entries.items() if key not in doubtful}


def _memberships(found: Rows) -> list[MembershipEntry]:
    entries: list[MembershipEntry] = []
    for row in found.rows:
        try:
            group, member = _value(row, "group", _IDENTIFIER), _value(row, "member", _MEMBER)
        except ValueError as exc:
            found.refuse(row.line, str(exc))
        else:
            entries.append(MembershipEntry(row.line, group, member))
    return entries


def _user(row: Row) -> UserEntry:
    email = normal_email(_value(row, "email", _EMAIL))
    name = _value(row, "name", _LABEL) if "name" in row.cells else None
    return UserEntry(row.line, email, name, is_admin=_flag(row, "isAdmin"), active=_flag(row, "active"))


def _group(row: Row) -> GroupEntry:
    return GroupEntry(row.line, _value(row, "externalId", _IDENTIFIER), _value(row, "name", _LABEL))


def _value(row: Row, column: str, kind: TypeAdapter[str]) -> str:
    if column not in row.cells:
        msg = f"{column}: is empty"
        raise ValueError(msg)
    value = row.cells[column]
    try:
        return kind.validate_python(value)
    except ValidationError as exc:
        message = exc.errors(include_url=False, include_input=False)[0]["msg"].removeprefix("Value error, ")
        raise ValueError(f"{column}: {message} (here: {printable(value[:80])})") from exc


def _flag(row: Row, column: str) -> bool | None:
    value = row.cells.get(column, "").lower()
    if not value:
        return None
    if value not in TRUE | FALSE:
        msg = f"{column}: must be true or false (here: {printable(value[:80])})"
        raise ValueError(msg)
    return value in TRUE
