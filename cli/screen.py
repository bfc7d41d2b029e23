"""Output for people and for programs: results on standard output, all else on standard error."""

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

_UNFOLDED = 4096  # in a file or pipe, each row has a line

OnProgress = Callable[[carrel.directory.Progress], None]


class Bar(Protocol):
    """A progress bar; `total` is None while the amount of work is unknown."""

    def __call__(self, text: str, *, done: int, total: int | None) -> None: ...


class _Out(Console):
    """Standard output; if the reader closes the pipe, the rest is dropped and the work continues."""

    def on_broken_pipe(self) -> None:
        _deafen()


def _deafen() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Screen:
    """The output of a command. `as_json`: only a JSON object on standard output. `agrees`: yes to all questions."""

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

    def show(self, content: RenderableType) -> None:
        """Print a part of the result, unless the output is JSON."""
        if not self.as_json:
            self._out.print(content, soft_wrap=isinstance(content, Text))

    def line(self, text: str, *, style: str = "") -> None:
        """Print a line of the result literally: no markup, no control characters, and no second line."""
        self.show(Text(printable(text), style=style))

    def lines(self, texts: Iterable[str], *, style: str = "") -> None:
        for text in texts:
            self.line(text, style=style)

    def write(self, text: str) -> None:
        """Print a piece of text literally, at once, unless the output is JSON."""
        if self.as_json:
            return
        try:
            sys.stdout.write("\n".join(map(printable, text.split("\n"))))
            sys.stdout.flush()
        except BrokenPipeError:
            _deafen()

    def say(self, text: str) -> None:
        """Print a text on standard error, also when the output is JSON."""
        self._err.print(Text("\n".join(map(printable, text.splitlines()))), soft_wrap=True)

    def confirm(self, question: str) -> bool:
        """Ask for confirmation unless it was given beforehand; Enter or the end of input means no."""
        try:
            return self._agrees or Confirm.ask(question, console=self._err, default=False)
        except EOFError:
            return False

    @property
    def is_watched(self) -> bool:
        return not self.as_json and self._err.is_terminal

    @contextmanager
    def bar(self, text: str) -> Generator[Bar]:
        """Show a progress bar on a terminal during a block. `text` is shown until the first progress arrives."""
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
        progress = Progress(
            *columns, TimeElapsedColumn(), console=self._err, transient=True, disable=not self.is_watched
        )
        with progress:
            shown = progress.add_task(text, total=None)

            def tell(text: str, *, done: int, total: int | None) -> None:
                progress.update(shown, description=text, completed=done, total=total)

            yield tell

    @contextmanager
    def progress(self) -> Generator[OnProgress]:
        with self.bar("reading the files") as bar:
            yield lambda now: bar(f"{now.stage} {now.done:,}", done=now.done, total=now.total)
