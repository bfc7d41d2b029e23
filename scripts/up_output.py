"""The output of `make up`: the lines of its parts, for a person at a terminal or for a file."""

import json
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from service.platform.logs import line_of

LARGEST_FILE = 4 * 1024 * 1024
COLOURS = (36, 33, 32, 35, 34)
_BEGINS = re.compile(r"^[\s|+]*(Exception Group )?Traceback \(most recent call last\):")
_LINKS = ("During handling of the above exception", "The above exception was the direct cause")


@dataclass
class Trace:
    """A traceback that a part is printing: its lines, and whether the line with the exception has come."""

    lines: list[str] = field(default_factory=list)
    is_whole: bool = False
    came: float = field(default_factory=time.monotonic)

    def takes(self, line: str) -> bool:
        """Add a line if it belongs to the traceback."""
        text = line.strip()
        if self.is_whole and text and not text.startswith(_LINKS) and not _BEGINS.match(line) and line[:1] not in " |+":
            return False
        if not self.is_whole and text and not line[:1].isspace() and not _BEGINS.match(line):
            self.is_whole = not text.startswith(_LINKS)
        elif text.startswith(_LINKS) or _BEGINS.match(line):
            self.is_whole = False
        self.lines.append(line)
        self.came = time.monotonic()
        return True

    @property
    def reason(self) -> str:
        """The last line that names an exception."""
        named = [line for line in self.lines if line.strip() and not line[:1].isspace() and not _BEGINS.match(line)]
        return (named or self.lines)[-1].strip(" |+-")


class Output:
    """Where lines are shown. `is_broken` once nobody can read them any more."""

    def __init__(self, traces: Path, *, width: int, is_whole: bool) -> None:
        self._traces = traces
        self._width = width
        self._is_whole = is_whole
        self._is_terminal = sys.stdout.isatty()
        self._begun: dict[str, Trace] = {}
        self._colours: dict[str, int] = {}
        self.said_at = time.monotonic()
        self.is_broken = False

    def take(self, part: str, line: str) -> None:
        """Show a line of a part; of a traceback, only the line that says what happened."""
        trace = self._begun.get(part)
        if trace is not None:
            if trace.takes(line):
                return
            self._tell(part)
        if not self._is_whole and _BEGINS.match(line):
            self._begun[part] = Trace([line])
            return
        self.say(part, self._readable(line) if self._is_terminal else line)

    def tell_late(self, *, age: float = 0.5) -> None:
        """Tell of tracebacks whose last line came a while ago."""
        for part in [name for name, trace in self._begun.items() if time.monotonic() - trace.came >= age]:
            self._tell(part)

    def say(self, part: str, text: str) -> None:
        """Write a line, with the time and the part that it is of."""
        prefix = f"{time.strftime('%H:%M:%S')} {part.ljust(self._width)} | "
        if self._is_terminal:
            colour = self._colours.setdefault(part, COLOURS[len(self._colours) % len(COLOURS)])
            prefix = f"\033[{colour}m{prefix}\033[0m"
        written = f"{prefix}{text}\n".encode(sys.stdout.encoding or "utf-8", "replace")
        self.said_at = time.monotonic()
        try:
            while written:
                written = written[os.write(1, written) :]
        except OSError:
            self.is_broken = True

    def _readable(self, line: str) -> str:
        if not line.startswith("{"):
            return line
        try:
            event = json.loads(line)
        except ValueError:
            return line
        shown = line_of(event)
        if "exception" not in event:
            return shown
        return f"{shown}\n{event['exception']}" if self._is_whole else shown + self._keep(str(event["exception"]))

    def _tell(self, part: str) -> None:
        trace = self._begun.pop(part)
        self.say(part, trace.reason + self._keep("\n".join(trace.lines)))

    def _keep(self, text: str) -> str:
        """Add a traceback to the file of tracebacks, and return the words that name the file."""
        with suppress(OSError):
            if self._traces.exists() and self._traces.stat().st_size > LARGEST_FILE:
                self._traces.replace(self._traces.with_suffix(".old.log"))
            descriptor = os.open(self._traces, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}\n{text}\n\n")
            return f" (details in {self._traces})"
        return " (CARREL_LOG_LEVEL=DEBUG shows details)"
