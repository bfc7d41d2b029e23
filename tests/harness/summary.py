"""The report of a test run: a failure fits on a screen, and a summary of time ends the run."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter
from _pytest.terminal import TerminalReporter

from tests.harness.logs import VARIABLE, shorten

TRACEBACK_LINES = 28
LOG_LINES = 16
LONGEST_LINE = 240
SLOWEST_FILES = 10
# A run of fewer files shows nothing that its tests don't.
FEWEST_FILES = 20


class ShortTraceback(TerminalRepr):
    """A traceback of a screen's length, with the error and the expectation at the end."""

    def __init__(self, whole: object) -> None:
        self._lines = shorten(str(whole).splitlines(), TRACEBACK_LINES, first=4, longest=LONGEST_LINE)
        self.reprcrash: ReprFileLocation | None = getattr(whole, "reprcrash", None)

    def toterminal(self, tw: TerminalWriter) -> None:
        for line in self._lines:
            tw.line(line, red=line.startswith("E "))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Shorten a failure on the terminal: traceback, and logs of test and service."""
    if (
        report.outcome not in {"failed", "rerun"}
        or os.environ.get(VARIABLE) == "all"
        or "PYTEST_XDIST_WORKER" in os.environ
    ):
        return
    if report.longrepr is not None:
        report.longrepr = ShortTraceback(report.longrepr)
    logged = [(name, text.splitlines()) for name, text in report.sections if text.strip()]
    share = LOG_LINES // max(1, len(logged))
    report.sections = [(name, "\n".join(shorten(lines, share, longest=LONGEST_LINE))) for name, lines in logged]


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Show why tests were repeated; end a long run with its slowest files, the share of set-up, and slowest tests."""
    again = terminalreporter.stats.get("rerun", [])
    for report in again:
        terminalreporter.write_sep("_", f"first run of {report.nodeid}")
        report.toterminal(terminalreporter._tw)
    seconds, by_file = Counter[str](), Counter[str]()
    for report in _reports(terminalreporter):
        seconds[report.when or ""] += report.duration
        by_file[report.nodeid.partition("::")[0]] += report.duration
    if len(by_file) < FEWEST_FILES:
        return
    total = by_file.total()
    terminalreporter.section("where the time went")
    for file, spent in by_file.most_common(SLOWEST_FILES):
        terminalreporter.line(f"{spent:7.1f} s  {file}")
    share = (seconds["setup"] + seconds["teardown"]) / total
    terminalreporter.line(f"{total:7.1f} s  all {len(by_file)} files; {share:.0%} of it is set-up and tear-down")
    terminalreporter.line(f"{len(again):7d}    tests were run again")
    for report in again:
        terminalreporter.line(f"           {report.nodeid}")


def _reports(terminalreporter: TerminalReporter) -> Iterator[pytest.TestReport]:
    for reports in terminalreporter.stats.values():
        yield from (report for report in reports if isinstance(report, pytest.TestReport))
