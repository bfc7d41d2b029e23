"""Structured logs on standard error, each with the request's id; never a secret."""

import logging
import re
import sys
import time
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from functools import partial
from typing import Any
from uuid import uuid4

import structlog

from service.platform import traces
from service.platform.secrets import PREFIXES

# These have their own place in the line, or are of no use at a terminal.
_BESIDE = frozenset({"event", "level", "logger", "timestamp", "exception", "stack_info"})


def line_of(event: Mapping[str, object]) -> str:
    """Return a single line: the level, the event in words, the details, and the traceback's last line."""
    words = str(event.get("event", ""))
    if words.isidentifier():
        words = words.replace("_", " ").capitalize()
    details = [f"{name}={value}" for name, value in event.items() if name not in _BESIDE and value not in (None, "")]
    if trace := str(event.get("exception", "")).strip():
        details.append(trace.splitlines()[-1].lstrip(" |+-"))
    line = f"{event.get('level', 'info')}: {words}" + (f" ({', '.join(details)})" if details else "")
    return " ".join(line.split())


SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
# Patterns of Carrel's credentials, of bearer and basic headers, and of passwords in URLs.
CREDENTIALS = re.compile(rf"(?:{'|'.join(PREFIXES)})[A-Za-z0-9._~+/=-]+")
SECRET_SHAPES = re.compile(
    rf"{CREDENTIALS.pattern}|(?i:bearer\s+)[^\s\"',]+|(?i:basic\s+)[A-Za-z0-9+/]{{16,}}=*|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"
)
REDACTED = "[redacted]"

_request_id: ContextVar[str] = ContextVar("carrel_request_id", default="")

logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("carrel")


def request_id() -> str:
    """Return the id of the current request; empty outside a request."""
    return _request_id.get()


def begin_request(offered: str | None) -> str:
    """Set the log entries' request id: the caller's, if well-formed and unlike a credential, or a new id."""
    sane = offered is not None and SANE_REQUEST_ID.fullmatch(offered) and redact(offered) == offered
    chosen = offered if offered is not None and sane else uuid4().hex
    _request_id.set(chosen)
    return chosen


def redact(text: str) -> str:
    return SECRET_SHAPES.sub(REDACTED, text)


def redact_credentials(text: str) -> str:
    """Replace credentials in a text that is returned to a caller; the caller may have put one in the wrong place."""
    return CREDENTIALS.sub(REDACTED, text)


def configure(level: str = "INFO") -> None:
    """Send all logs through one redacting pipeline: plain lines on a terminal, JSON elsewhere."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_ids,
        structlog.processors.format_exc_info,
        _redact_values,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    render = partial(_write_line, level) if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    renderer = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, render]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=renderer))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Alembic logs six of its own plugins at each migration.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
    # Below warnings, the driver logs hosts, commands and documents of the databases of syncs.
    logging.getLogger("pymongo").setLevel(logging.WARNING)
    # The library logs the beginning and end of each message.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    # The worker logs each job, and its pool each look at the queue, several times.
    for name in ("procrastinate", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _write_line(level: str, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    """Render a line for people; tracebacks appear only at level DEBUG."""
    trace = event.get("exception") if level == "DEBUG" else None
    hint = " (CARREL_LOG_LEVEL=DEBUG shows more)" if "exception" in event and not trace else ""
    return f"{time.strftime('%H:%M:%S')} {line_of(event)}{hint}" + (f"\n{trace}" if trace else "")


def _add_ids(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if current := request_id():
        event.setdefault("request_id", current)
    event.update(traces.ids())
    return event


def _redact_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = redact(value)
    return event
