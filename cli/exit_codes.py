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
    ExitCode.PROBLEMS: "done with problems (items in quarantine, a blocked deletion, problems in files), or no",
    ExitCode.USAGE: "wrong usage: a missing, invalid or unknown argument or setting, or a source that cannot be read",
    ExitCode.REFUSED: "the service refuses the key, or the key does not allow this",
    ExitCode.AWAY: "the service does not answer, or an agent's model gave no reply",
    ExitCode.BUSY: "another run is loading the source",
    ExitCode.LEDGER: "the ledger cannot be used",
    ExitCode.FULL: "the service is out of space",
    ExitCode.UNEXPECTED: "an unexpected error",
    ExitCode.INTERRUPTED: "interrupted",
}
EXIT_CODES = f"Exit codes: {'; '.join(f'{code.value} {meaning}' for code, meaning in MEANINGS.items())}."
