"""What commands print of what the service has: lists, single things and changes, for people or as one JSON object."""

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

T = TypeVar("T", bound=ResponseModel)
Columns: TypeAlias = Mapping[str, Callable[[T], object]]
"""By its head: what stands in a column."""


def to_json(model: ResponseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


def print_json(screen: Screen, outcome: str, *, code: ExitCode = ExitCode.DONE, **members: Any) -> None:
    """Print the one JSON object of a command that did what it was asked."""
    screen.json({"outcome": outcome, "exitCode": code, **members})


def show_list(screen: Screen, key: str, found: Iterable[T], columns: Columns[T], *, empty: str, **members: Any) -> None:
    """Print rows as a table, or as `key` of the JSON object; without any, say `empty`."""
    rows = list(found)
    if screen.as_json:
        print_json(screen, "listed", **{key: [to_json(one) for one in rows]}, **members)
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
    more: str = "There are older ones",
) -> None:
    """Print at most so many rows, and say `more` when there are more: commands ask for one more than they print."""
    found = list(islice(listed, most + 1))
    has_more = len(found) > most
    show_list(screen, key, found[:most], columns, empty=empty, hasMore=has_more)
    if has_more:
        screen.say(f"{more}; --most shows more than {most}.")


def show_one(
    screen: Screen, found: ResponseModel, *, title: str, facts: Iterable[tuple[str, object]], **members: Any
) -> None:
    """Print a thing's title and what is known of it, or its JSON object with these members."""
    if screen.as_json:
        print_json(screen, "found", **to_json(found), **members)
        return
    screen.line(title, style="bold")
    for label, value in facts:
        screen.line(f"{label:<10} {words_of(value)}")


def show_more(screen: Screen, number: int, what: str = "", *, indent: int = 2) -> None:
    """Say how many things are not shown, if any."""
    if number > 0:
        screen.line(f"{' ' * indent}… and {number:,} more{what} (--json has all of them)", style="dim")


def say_done(screen: Screen, outcome: str, words: str, *, code: ExitCode = ExitCode.DONE, **members: Any) -> None:
    """Say what was done, or print the JSON object about it."""
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
        return ", ".join(map(words_of, value))  # pyright: ignore[reportUnknownArgumentType] - whatever they are
    return "" if value is None else str(value)


def table_of(found: Sequence[T], columns: Columns[T]) -> Table:
    """Return rows as a table; numbers are aligned to the right."""
    table = Table(box=None, pad_edge=False)
    for head, take in columns.items():
        value = take(found[0]) if found else None
        counts = isinstance(value, int) and not isinstance(value, bool)
        table.add_column(head, justify="right" if counts else "left")
    for one in found:
        table.add_row(*(Text(printable(words_of(take(one)))) for take in columns.values()))
    return table
