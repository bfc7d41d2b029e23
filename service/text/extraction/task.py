"""Extraction within a worker process, with limits. Only workers import parsers, so the service starts sooner."""

import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from service.text.extraction.blocks import ContainedFile, Extraction, pack_blocks
from service.text.extraction.building import Limits
from service.text.extraction.failures import OUT_OF_MEMORY, FailureCode, Unreadable, corrupt_file, too_complex

if TYPE_CHECKING:
    from service.text.extraction.pages import RenderedPage

Result = TypeVar("Result")


class Refused(NamedTuple):
    """The refusal of a file, and the underlying error if no parser expected it."""

    code: FailureCode
    message: str
    cause: str | None = None


def prepare(memory_bytes: int) -> None:
    """Limit the process to `memory_bytes` beyond present memory, no core files and no file writes."""
    from service.text.extraction import parsing  # noqa: F401, PLC0415 # pyright: ignore[reportUnusedImport] - see above

    # Python's own handler needs the interpreter, to which a parser in C may never return.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_bytes)


def ready() -> bool:
    return True


def extract(path: str, file_name: str, limits: Limits, seconds: float) -> Extraction | Refused:
    """Return the text, in packed blocks for cheap sending, or a refusal; killed after `seconds` of processor time."""
    from service.text.extraction.parsing import parse_file  # noqa: PLC0415 - see above

    def parse() -> Extraction:
        found = parse_file(Path(path), file_name, limits)
        return replace(found, blocks=(), packed=pack_blocks(found.blocks))

    return _within(seconds, parse)


def read_files(
    path: str, file_name: str, limits: Limits, seconds: float, *, start: int, most: int | None, largest: int
) -> list[ContainedFile] | Refused:
    """Return some of the files within a file (see `containers.read_files`), or the refusal; limited like `extract`."""
    from service.text.extraction import containers  # noqa: PLC0415 - see above

    return _within(
        seconds, lambda: containers.read_files(Path(path), file_name, limits, start=start, most=most, largest=largest)
    )


def render_page(
    path: str, _file_name: str, limits: Limits, seconds: float, *, media_type: str, page: int
) -> "RenderedPage | Refused":
    from service.text.extraction import pages  # noqa: PLC0415 - see above

    return _within(
        seconds, lambda: pages.render_page(Path(path), media_type=media_type, page=page, pixels=limits.pixels)
    )


def _within(seconds: float, read: Callable[[], Result]) -> Result | Refused:
    """Return the result of `read`, or its refusal; the process is killed after `seconds` of processor time."""
    limit_processor(seconds)
    try:
        return read()
    except Unreadable as error:
        refusal = error
    except MemoryError:
        refusal = too_complex(OUT_OF_MEMORY)
    except RecursionError:
        refusal = too_complex("The file's parts are nested too deeply.")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - libraries raise anything on a broken file, those in Rust no Exception
        refusal = corrupt_file("what its name says", traceback.format_exc(limit=-8))
    return Refused(refusal.code, refusal.message, refusal.cause)


def limit_processor(seconds: float) -> None:
    """Have this process killed (SIGXCPU) after `seconds` more of processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, ceil(used.ru_utime + used.ru_stime + seconds), hard=False)


def _limit(kind: int, value: int, *, hard: bool = True) -> None:
    """Lower a resource limit if allowed: some systems refuse to set a limit."""
    highest = resource.getrlimit(kind)[1]
    wanted = value if highest == resource.RLIM_INFINITY else min(value, highest)
    try:
        resource.setrlimit(kind, (wanted, wanted if hard else highest))
    except (ValueError, OSError):
        return
