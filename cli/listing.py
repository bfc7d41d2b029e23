"""Output of commands: lists, single objects and changes, for people or as a JSON object."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from rich.table import Table
from rich.text import Text

from carrel.directory.tables import printable
from carrel.wire.common import ResponseModel
from carrel.wire.fields import format_instant
from cli.exit_codes import ExitCode
from cli.screen import Screen

SHOWN = 20
T = TypeVar("T", bound=ResponseModel)
Columns: TypeAlias = Mapping[str, Callable[[T], object]]
"""The value of each column, by the column's heading."""


def to_json(model: ResponseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


def print_json(screen: Screen, outcome: str, *, code: ExitCode = ExitCode.DONE, **members: Any) -> None:
    screen.json({"outcome": outcome, "exitCode": code, **members})


def show_list(screen: Screen, key: str, found: Iterable[T], columns: Columns[T], *, empty: str, **members: Any) -> None:
    rows = list(found)
    if screen.as_json:
        print_json(screen, "listed", **{key: [to_json(row) for row in rows]}, **members)
    elif rows:
        screen.show(table_of(rows, columns))
    else:
        screen.say(empty)


def show_first(
    screen: Screen,
    key: str,
    listed: Iterable[T],
    columns: Columns[T],
    *,
    most: int,
    empty: str,
    more: str = "There are older entries",
) -> None:
    """Print at most `most` rows, and `more` if rows are left: callers request a row more than printed."""
    found = list(islice(listed, most + 1))
    has_more = len(found) > most
    show_list(screen, key, found[:most], columns, empty=empty, hasMore=has_more)
    if has_more:
        screen.say(f"{more}. --most shows more than {most}.")


def show_object(
    screen: Screen, found: ResponseModel, *, title: str, facts: Iterable[tuple[str, object]], **members: Any
) -> None:
    """Print an object's title and facts, or a JSON object with the members."""
    if screen.as_json:
        print_json(screen, "found", **to_json(found), **members)
        return
    screen.line(title, style="bold")
    for label, value in facts:
        screen.line(f"{label:<10} {words_of(value)}")


def show_more(screen: Screen, number: int, what: str = "", *, indent: int = 2) -> None:
    if number > 0:
        screen.line(f"{' ' * indent}… and {number:,} more{what} (--json has all of them)", style="dim")


def say_done(screen: Screen, outcome: str, words: str, *, code: ExitCode = ExitCode.DONE, **members: Any) -> None:
    if screen.as_json:
        print_json(screen, outcome, code=code, **members)
    else:
        screen.line(words)


def words_of(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return format_instant(value.replace(microsecond=0))
    if isinstance(value, list | tuple):
        return ", ".join(map(words_of, value))  # pyright: ignore[reportUnknownArgumentType] - of any type
    return "" if value is None else str(value)


def table_of(found: Sequence[T], columns: Columns[T]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head, take in columns.items():
        value = take(found[0]) if found else None
        counts = isinstance(value, int) and not isinstance(value, bool)
        table.add_column(head, justify="right" if counts else "left")
    for item in found:
        table.add_row(*(Text(printable(words_of(take(item)))) for take in columns.values()))
    return table
