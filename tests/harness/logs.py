"""Logs of failed tests: the services' last lines, and tracebacks without locals."""

import io
import os
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog

VARIABLE = "TEST_LOG_LINES"
MOST_LINES = 40
LONGEST_LINE = 4000
logged = io.StringIO()
"""The log of the services in this process since the test began; requests may end after a test's phase."""
logs_of_processes: dict[str, Path] = {}
"""The log files of processes outside the tests, by name: a failed test shows the end of each."""


def configure_logs() -> None:
    """Have services in this process log plain tracebacks; with every frame's locals, a traceback fills 4,000 lines."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        logger_factory=structlog.PrintLoggerFactory(logged),
    )


def shorten(lines: list[str], most: int, *, first: int = 0, longest: int = LONGEST_LINE) -> list[str]:
    """Keep the `first` lines and the last lines, `most` in all, each at most `longest` characters; mark omissions."""
    shown = [line if len(line) <= longest else f"{line[:longest]} …" for line in lines]
    if shown == lines and len(lines) <= most:
        return lines
    left_out = max(0, len(lines) - most)
    hint = f"… {left_out:,} lines and the ends of long ones are left out; {VARIABLE}=all shows all"
    return [*shown[:first], hint, *shown[left_out + first :]]


def shorten_log(text: str) -> str:
    """Return the last lines of a log: 40, or the number in the environment's TEST_LOG_LINES (`all`: every line)."""
    wanted = os.environ.get(VARIABLE, str(MOST_LINES))
    if wanted == "all":
        return text
    lines = text.splitlines()
    shown = shorten(lines, int(wanted))
    return text if shown == lines else "\n".join([*shown, ""])


def read_log(path: Path) -> str:
    return shorten_log(path.read_text(errors="replace") if path.exists() else "(there is no log)")


def pytest_runtest_logstart() -> None:
    configure_logs()
    logged.seek(0)
    logged.truncate()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten a report's captured output; add the logs of services and processes to a failed report."""
    report = yield
    if report.failed:
        report.sections.append(("Logged by services", logged.getvalue()))
        report.sections += [(name, read_log(path)) for name, path in logs_of_processes.items()]
    report.sections = [(name, shorten_log(text)) for name, text in report.sections]
    return report
