"""What a person sees, and what a program reads: results on standard output, everything else on standard error."""

import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm
from rich.text import Text

import carrel.directory
from carrel.directory.tables import printable

_UNFOLDED = 4096  # a file or a program gets each row in one line

OnProgress = Callable[[carrel.directory.Progress], None]


class Bar(Protocol):
    """Takes how far work is: `total` None while nobody knows how much there is."""

    def __call__(self, what: str, *, done: int, total: int | None) -> None: ...


class _Out(Console):
    """Standard output, which whoever reads it may leave: then the rest is for nobody, and the work goes on."""

    def on_broken_pipe(self) -> None:
        _deafen()


def _deafen() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Screen:
    """Where a command shows what it does; `as_json`: one JSON object on standard output, and nothing else there.
    `agrees`: every question was answered beforehand, with yes."""

    def __init__(self, *, as_json: bool, agrees: bool = False) -> None:
        self.as_json, self._agrees = as_json, agrees
        self._out = _Out(emoji=False, highlight=False, width=None if sys.stdout.isatty() else _UNFOLDED)
        self._err = Console(stderr=True, emoji=False, highlight=False)

    @property
    def can_ask(self) -> bool:
        return not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()

    def json(self, members: Mapping[str, Any]) -> None:
        try:
            sys.stdout.write(json.dumps(members) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            _deafen()

    def show(self, what: RenderableType) -> None:
        """Print a part of the result, unless a program reads it."""
        if not self.as_json:
            self._out.print(what, soft_wrap=isinstance(what, Text))

    def line(self, text: str, *, style: str = "") -> None:
        """Print a line of the result as it is: no markup, no control characters, and no second line."""
        self.show(Text(printable(text), style=style))

    def lines(self, texts: Iterable[str], *, style: str = "") -> None:
        for text in texts:
            self.line(text, style=style)

    def write(self, text: str) -> None:
        """Print a piece of a text as it is, at once, unless a program reads the result."""
        if self.as_json:
            return
        try:
            sys.stdout.write("\n".join(map(printable, text.split("\n"))))
            sys.stdout.flush()
        except BrokenPipeError:
            _deafen()

    def say(self, text: str) -> None:
        self._err.print(Text("\n".join(map(printable, text.splitlines()))), soft_wrap=True)

    def confirm(self, question: str) -> bool:
        """Ask whether to go on; no is the answer of who just presses Enter, or goes away."""
        try:
            return self._agrees or Confirm.ask(question, console=self._err, default=False)
        except EOFError:
            return False

    @property
    def is_watched(self) -> bool:
        return not self.as_json and self._err.is_terminal

    @contextmanager
    def bar(self, what: str) -> Generator[Bar]:
        """Show a bar on a terminal while work goes on: first `what`, then what the bar is told."""
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
        progress = Progress(
            *columns, TimeElapsedColumn(), console=self._err, transient=True, disable=not self.is_watched
        )
        with progress:
            shown = progress.add_task(what, total=None)

            def tell(what: str, *, done: int, total: int | None) -> None:
                progress.update(shown, description=what, completed=done, total=total)

            yield tell

    @contextmanager
    def progress(self) -> Generator[OnProgress]:
        with self.bar("reading the files") as bar:
            yield lambda now: bar(f"{now.stage} {now.done:,}", done=now.done, total=now.total)
