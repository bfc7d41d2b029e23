"""What a person sees, and what a program reads: results on standard output, everything else on standard error."""

import json
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm
from rich.text import Text

import carrel.directory

OnProgress = Callable[[carrel.directory.Progress], None]


class _Out(Console):
    """Standard output, which whoever reads it may leave: then the rest is for nobody, and the work goes on."""

    def on_broken_pipe(self) -> None:
        """Write to nowhere from here on."""
        _deafen()


def _deafen() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Screen:
    """Where a command shows what it does; `as_json`: one JSON object on standard output, and nothing else there."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._out = _Out(emoji=False, highlight=False)
        self._err = Console(stderr=True, emoji=False, highlight=False)

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to answer."""
        return not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()

    def json(self, members: Mapping[str, Any]) -> None:
        """Print the command's one JSON object."""
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
        """Print a line of the result as it is: no markup, and no control characters."""
        self.show(Text(printable(text), style=style))

    def say(self, text: str) -> None:
        """Tell whoever is watching."""
        self._err.print(Text(printable(text)), soft_wrap=True)

    def confirm(self, question: str) -> bool:
        """Ask whether to go on; no is the answer of who just presses Enter, or goes away."""
        try:
            return Confirm.ask(question, console=self._err, default=False)
        except EOFError:
            return False

    @contextmanager
    def progress(self) -> Generator[OnProgress]:
        """Show a bar on a terminal while work goes on."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
        quiet = self.as_json or not self._err.is_terminal
        with Progress(*columns, TimeElapsedColumn(), console=self._err, transient=True, disable=quiet) as bar:
            shown = bar.add_task("reading the files", total=None)

            def tell(progress: carrel.directory.Progress) -> None:
                done = f"{progress.stage} {progress.done:,}"
                bar.update(shown, description=done, completed=progress.done, total=progress.total)

            yield tell


def printable(text: str) -> str:
    """Return text that does nothing to a terminal but stand there."""
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)
