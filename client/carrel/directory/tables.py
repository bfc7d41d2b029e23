"""Tables of a directory (CSV files or a program's rows), and their checked rows. A Problem names the line of a bad row;
later rows are still read. A Problem of a whole file cannot be skipped, because its missing rows prove nothing."""

import csv
import io
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import IO, Annotated, Protocol, TypeAlias, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from carrel.errors import InvalidArgumentError
from carrel.spreadsheets import flag_of
from carrel.wire.common import ResponseModel
from carrel.wire.fields import NO_NUL, EmailAddress, Identifier, Label, normal_email

Table: TypeAlias = str | os.PathLike[str] | bytes | IO[bytes] | IO[str] | Iterable[Mapping[str, object]]
"""A path, a file's bytes, an open file, or rows as mappings from column to value."""

DELIMITERS = ",;\t"
BLANK = DELIMITERS + " \r\n"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Problem(ResponseModel):
    """A problem in a line, counted from 1 with the header; without `skippable`, the whole file can't be used."""

    file: str
    line: int
    message: str
    skippable: bool = True


@dataclass(frozen=True, slots=True)
class Columns:
    """The required and the optional columns of a table."""

    required: Sequence[str]
    optional: Sequence[str] = ()

    def known(self) -> Mapping[str, str]:
        """Return the columns by normalized name: `is_admin`, `Is Admin` and `isAdmin` are equal."""
        return {_comparable(name): name for name in (*self.required, *self.optional)}


@dataclass(slots=True)
class Row:
    """A row's cells by column; empty cells are left out."""

    line: int
    cells: Mapping[str, str]


@dataclass(slots=True)
class Rows:
    """The usable rows of a table, the problems of the other rows, and the ignored columns."""

    name: str
    rows: list[Row] = field(default_factory=list[Row])
    problems: list[Problem] = field(default_factory=list[Problem])
    ignored: list[str] = field(default_factory=list[str])

    def refuse(self, line: int, message: str) -> None:
        """Report a problem of a row."""
        self.problems.append(Problem(file=self.name, line=line, message=message))

    def refuse_file(self, line: int, message: str) -> None:
        """Report a problem of the whole file; none of its rows are used."""
        self.rows.clear()
        self.problems.append(Problem(file=self.name, line=line, message=message, skippable=False))


class _Reader(Protocol):
    @property
    def line_num(self) -> int: ...
    def __iter__(self) -> Iterator[list[str]]: ...


def read_table(table: Table, *, kind: str, columns: Columns) -> Rows:
    """Return a table's rows; `kind` names a table without a file name. A file is UTF-8, with or without a mark,
    separated by commas, semicolons or tabs. Raises OSError for an unreadable path, InvalidArgumentError for others."""
    if isinstance(table, str | os.PathLike):
        path = Path(table)
        return _read_csv(Rows(str(path)), path.read_bytes(), columns=columns)
    if isinstance(table, bytes):
        return _read_csv(Rows(kind), table, columns=columns)
    if hasattr(table, "read"):
        return _read_csv(Rows(kind), cast("IO[bytes] | IO[str]", table).read(), columns=columns)
    return _read_mappings(Rows(kind), cast("Iterable[Mapping[str, object]]", table), columns=columns)


def _read_csv(found: Rows, contents: bytes | str, *, columns: Columns) -> Rows:
    try:
        text = contents if isinstance(contents, str) else contents.decode("utf-8")
        text = text.removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        fault = "is UTF-16" if exc.object.startswith(UTF_16_MARKS) else "is not UTF-8"
        line = exc.object.count(b"\n", 0, exc.start) + 1
        found.refuse_file(line, f"the file {fault}; save it as “CSV UTF-8”")
        return found
    lines = io.StringIO(text, newline="")
    first = next((line for line in io.StringIO(text, newline="") if line.strip(BLANK)), "")
    reader = csv.reader(lines, delimiter=_guess_delimiter(first, columns), strict=True)
    try:
        _read_lines(found, reader, columns=columns)
    except csv.Error as exc:
        found.refuse_file(reader.line_num, f"is not well-formed CSV from here on ({exc}); is a quote missing?")
    return found


def _guess_delimiter(header: str, columns: Columns) -> str:
    known = columns.known()

    def count_recognized(delimiter: str) -> int:
        cells = next(csv.reader([header], delimiter=delimiter), list[str]())
        return sum(_comparable(cell) in known for cell in cells)

    return max(DELIMITERS, key=count_recognized)


def _read_lines(found: Rows, reader: "_Reader", *, columns: Columns) -> None:
    header: list[str] | None = None
    names: list[str | None] | None = None
    for line, cells in _number_rows(reader):
        if not any(cell.strip(BLANK) for cell in cells):
            continue
        if header is None or names is None:
            header, names = cells, _recognize_columns(found, cells, line=line, columns=columns)
            if names is None:
                return
        elif len(cells) != len(header):
            found.refuse(line, f"has {len(cells)} cells where the header has {len(header)}")
        else:
            _add_row(found, line, dict(zip(names, cells, strict=True)))
    _refuse_empty(found, columns=columns, has_header=header is not None)


def _number_rows(reader: "_Reader") -> Iterator[tuple[int, list[str]]]:
    line = 1
    for cells in reader:
        yield line, cells
        line = reader.line_num + 1


def _read_mappings(found: Rows, table: Iterable[Mapping[str, object]], *, columns: Columns) -> Rows:
    known = columns.known()
    rows: list[Mapping[str, object]] = list(table)
    if not all(isinstance(row, Mapping) for row in rows):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"{found.name} must be a path, a file, or mappings from column to value")
    header = list(dict.fromkeys(str(name) for row in rows for name in row))
    if rows and _recognize_columns(found, header, line=1, columns=columns) is None:
        return found
    for line, row in enumerate(rows, start=1):
        _add_row(found, line, {known.get(_comparable(str(name))): _to_cell(value) for name, value in row.items()})
    _refuse_empty(found, columns=columns, has_header=bool(rows))
    return found


def _to_cell(value: object) -> str:
    if value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _recognize_columns(found: Rows, header: Sequence[str], *, line: int, columns: Columns) -> list[str | None] | None:
    known = columns.known()
    names = [known.get(_comparable(cell)) for cell in header]
    missing = [name for name in columns.required if name not in names]
    twice = sorted({name for name in names if name is not None and names.count(name) > 1})
    if missing or twice:
        wrong = f"has no column {_join(missing)}" if missing else f"has the column {_join(twice)} twice"
        there = ", ".join(cell.strip() for cell in header[:20])
        found.refuse_file(line, f"{wrong}; its first line must contain the column names, but is: {printable(there)}")
        return None
    left = [cell.strip() for cell, name in zip(header, names, strict=True) if name is None]
    found.ignored += [printable(cell) for cell in left if cell]
    return names


def _refuse_empty(found: Rows, *, columns: Columns, has_header: bool) -> None:
    if not has_header:
        found.refuse_file(1, f"is empty; its first line must name the columns {_join(columns.required)}")
    elif not found.rows and not found.problems:
        found.refuse_file(1, "has no rows; to leave what is there as it is, don't give this file")


def _add_row(found: Rows, line: int, cells: Mapping[str | None, str]) -> None:
    values = {name: cell.strip() for name, cell in cells.items() if name is not None}
    if "name" in values:  # a line break inside a name comes from a spreadsheet's cell, and means a space
        values["name"] = " ".join(values["name"].split())
    for name, value in values.items():
        if wrong := _find_fault(name, value):
            found.refuse(line, f"{name}: {wrong}")
            return
    found.rows.append(Row(line, {name: value for name, value in values.items() if value}))


def _find_fault(name: str, value: str) -> str | None:
    if any(unicodedata.category(char) == "Cc" for char in value):
        return "has a control character" if "\0" not in value else "has a NUL character"
    if value.startswith("=") or (name == "name" and value.startswith(("+", "-", "@"))):
        return f"looks like a spreadsheet's formula ({printable(value[:40])}); write its value"
    return None


def _comparable(column: str) -> str:
    return re.sub(r"[\s_-]", "", column).lower()


def _join(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)


def printable(text: str) -> str:
    """Return text made safe for a terminal or a log."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


USERS = Columns(required=("email", "name"), optional=("isAdmin", "active"))
GROUPS = Columns(required=("externalId", "name"))
MEMBERSHIPS = Columns(required=("group", "member"))


_EMAIL = TypeAdapter[str](EmailAddress)
_LABEL = TypeAdapter[str](Label)
_IDENTIFIER = TypeAdapter[str](Identifier)
_MEMBER = TypeAdapter[str](Annotated[str, Field(min_length=1, max_length=1024), NO_NUL])


@dataclass(frozen=True, slots=True)
class UserEntry:
    """A user in the file; None leaves the organization's value unchanged."""

    line: int = field(compare=False)
    email: str
    name: str | None
    is_admin: bool | None
    active: bool | None


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group in the file."""

    line: int = field(compare=False)
    external_id: str
    name: str


@dataclass(frozen=True, slots=True)
class MembershipEntry:
    """A membership in the file: a group by its external id or name, a member by address or a group's external id."""

    line: int
    group: str
    member: str


Entry = TypeVar("Entry", UserEntry, GroupEntry, MembershipEntry)
Keyed = TypeVar("Keyed", UserEntry, GroupEntry)


@dataclass(slots=True)
class Entries:
    """The rows of the three files; None for an omitted file."""

    users: Mapping[str, UserEntry] | None
    groups: Mapping[str, GroupEntry] | None
    memberships: list[MembershipEntry] | None
    names: Mapping[str, str]
    problems: list[Problem]
    notes: list[str]


def read_entries(*, users: Table | None, groups: Table | None, memberships: Table | None) -> Entries:
    """Read the files. Raises OSError for an unreadable file."""
    given = {
        kind: read_table(table, kind=kind, columns=columns)
        for kind, table, columns in (
            ("users", users, USERS),
            ("groups", groups, GROUPS),
            ("memberships", memberships, MEMBERSHIPS),
        )
        if table is not None
    }
    tables = given.values()
    return Entries(
        users=_each_once(given["users"], _parse_user, attrgetter("email")) if "users" in given else None,
        groups=_each_once(given["groups"], _parse_group, attrgetter("external_id")) if "groups" in given else None,
        memberships=list(_parse_rows(given["memberships"], _parse_membership)) if "memberships" in given else None,
        names={kind: rows.name for kind, rows in given.items()},
        problems=[problem for rows in tables for problem in sorted(rows.problems, key=attrgetter("line"))],
        notes=[f"{rows.name}: ignored the columns {', '.join(rows.ignored)}" for rows in tables if rows.ignored],
    )


def _parse_rows(found: Rows, parse: Callable[[Row], Entry]) -> Iterator[Entry]:
    for row in found.rows:
        try:
            yield parse(row)
        except ValueError as exc:
            found.refuse(row.line, str(exc))


def _each_once(found: Rows, parse: Callable[[Row], Keyed], key_of: Callable[[Keyed], str]) -> dict[str, Keyed]:
    """Return the rows by key; an equal repetition counts once, and of two different rows neither counts."""
    entries: dict[str, Keyed] = {}
    doubtful: set[str] = set()
    for entry in _parse_rows(found, parse):
        key = key_of(entry)
        first = entries.setdefault(key, entry)
        if first != entry:
            doubtful.add(key)
            found.refuse(entry.line, f"says otherwise than line {first.line} of {printable(key)}; keep one of them")
    return {key: entry for key, entry in entries.items() if key not in doubtful}


def _parse_user(row: Row) -> UserEntry:
    email = normal_email(_require_value(row, "email", _EMAIL))
    name = _require_value(row, "name", _LABEL) if "name" in row.cells else None
    return UserEntry(row.line, email, name, is_admin=_read_flag(row, "isAdmin"), active=_read_flag(row, "active"))


def _parse_group(row: Row) -> GroupEntry:
    return GroupEntry(row.line, _require_value(row, "externalId", _IDENTIFIER), _require_value(row, "name", _LABEL))


def _parse_membership(row: Row) -> MembershipEntry:
    return MembershipEntry(row.line, _require_value(row, "group", _IDENTIFIER), _require_value(row, "member", _MEMBER))


def _require_value(row: Row, column: str, kind: TypeAdapter[str]) -> str:
    if column not in row.cells:
        raise ValueError(f"{column}: is empty")
    value = row.cells[column]
    try:
        return kind.validate_python(value)
    except ValidationError as exc:
        message = exc.errors(include_url=False, include_input=False)[0]["msg"].removeprefix("Value error, ")
        raise ValueError(f"{column}: {message} (here: {printable(value[:80])})") from exc


def _read_flag(row: Row, column: str) -> bool | None:
    if not (value := row.cells.get(column, "")):
        return None
    if (flag := flag_of(value)) is None:
        raise ValueError(f"{column}: must be true or false (here: {printable(value[:80])})")
    return flag
