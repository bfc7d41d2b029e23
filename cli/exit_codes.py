"""The exit codes of `carrel`; a module without other imports, so that help is shown at once."""

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes that scheduled jobs can rely on."""

    DONE = 0
    PROBLEMS = 1
    USAGE = 2
    REFUSED = 3
    AWAY = 4
    BUSY = 5
    LEDGER = 6
    FULL = 7
    UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130


MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.DONE: "done, or nothing to do",
    ExitCode.PROBLEMS: "done, with problems (something is in quarantine, the files have problems, a deletion was "
    "blocked), or the answer is no",
    ExitCode.USAGE: "wrong usage: an argument or a setting that is missing, isn't valid, or names what isn't there; or "
    "a source that can't be read",
    ExitCode.REFUSED: "the service refuses the key, or the key may not do this",
    ExitCode.AWAY: "the service is away, or an agent's model gave no reply",
    ExitCode.BUSY: "another run has the source",
    ExitCode.LEDGER: "the ledger can't be used",
    ExitCode.FULL: "the service has no room",
    ExitCode.UNEXPECTED: "an unexpected error",
    ExitCode.INTERRUPTED: "interrupted",
}
EXIT_CODES = f"Exit codes: {'; '.join(f'{code.value} {meaning}' for code, meaning in MEANINGS.items())}."
