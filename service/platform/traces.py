"""Traces of requests and jobs, sent to a collector by OpenTelemetry. Its standard variables set target, sampling and
name (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/). Without an
`OTEL_EXPORTER_OTLP_ENDPOINT` nothing is measured or imported. A span has a name, times, counts and ids, and of an error
only the type; never document text, a query, a secret, a person's address or an error's message."""

import logging
import os
import re
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.platform.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

Attributes = Mapping[str, str | int | float | bool]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
SENDERS = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk.trace.export")
TRACEPARENT = "traceparent"
# How long a process may send waiting spans at its end.
STOP_SECONDS = 2.0
# How often the log reports that the collector is away.
COMPLAINT_SECONDS = 60.0
_LONGEST_NAME = 120
_MOST_TABLES = 4

_W3C = TraceContextTextMapPropagator()
_NOTHING: AbstractContextManager[trace.Span] = nullcontext(trace.INVALID_SPAN)
_WRITING = re.compile(r"\b(?:(INSERT)\s+INTO|(DELETE)\s+FROM|(UPDATE)\s+[a-z_0-9]+\s+SET)\b")
_TABLES = re.compile(r"\bINTO\s+([a-z][a-z0-9_]*)|\b(?:FROM|JOIN|UPDATE)\s+(?!pg_)([a-z][a-z0-9_]*)\b(?!\s*\()")
_NAMED_PARTS = re.compile(r"\b([a-z][a-z0-9_]*)\s+AS\s+(?:NOT\s+)?(?:MATERIALIZED\s+)?\(")

_tracer: trace.Tracer | None = None
_provider: "TracerProvider | None" = None


def are_on() -> bool:
    return _tracer is not None


def is_wanted() -> bool:
    """Return whether the environment names an endpoint for traces without disabling traces."""
    return (
        any(os.environ.get(name) for name in ENDPOINTS)
        and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
        and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    )


def load() -> None:
    """Import the trace exporter, if wanted, before the fork, to share memory. Raises ValueError for a protocol other
    than `PROTOCOL`, and for an invalid address."""
    if not is_wanted():
        return
    protocol = next((os.environ[name] for name in PROTOCOLS if os.environ.get(name)), PROTOCOL)
    if protocol != PROTOCOL:
        msg = f"Traces are sent only by {PROTOCOL}. Set {PROTOCOLS[1]}={PROTOCOL} and its port (4318)."
        raise ValueError(msg)
    name = next(name for name in ENDPOINTS if os.environ.get(name))
    parts = urlsplit(os.environ[name])
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{name} must be an address such as http://collector.example.com:4318")
    for module in SENDERS:
        import_module(module)


@contextmanager
def sending(process: str) -> Generator[None]:
    """Send this forked process's traces during the block, from a bounded queue: a slow collector loses only spans."""
    if not is_wanted():
        yield
        return
    _start(process)
    try:
        yield
    finally:
        _stop()


def _start(process: str) -> None:
    global _tracer, _provider  # noqa: PLW0603 - a process has one of each
    load()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    own = {"service.version": VERSION, "carrel.process": process, "process.pid": os.getpid()}
    if not os.environ.get("OTEL_SERVICE_NAME") and "service.name=" not in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    ):
        own["service.name"] = "carrel"
    for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal"):
        logging.getLogger(name).addFilter(_Seldom())
    # Not the global provider, because libraries' own spans may contain contents.
    _provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = _provider.get_tracer("carrel", VERSION)


def _stop() -> None:
    global _tracer, _provider  # noqa: PLW0603
    if _provider is not None:
        sending = Thread(target=_provider.shutdown, daemon=True)
        sending.start()
        sending.join(STOP_SECONDS)
    _tracer = _provider = None


def begin(
    name: str,
    attributes: Attributes | None = None,
    *,
    kind: trace.SpanKind = trace.SpanKind.INTERNAL,
    parent: Mapping[str, str] | None = None,
    link: str | None = None,
) -> AbstractContextManager[trace.Span]:
    """Begin a trace or a span, if traces are on. The parent is the trace of a caller's W3C headers in `parent`, or the
    current span; a `parent` without headers begins a new trace. `link` is the traceparent of the causing trace."""
    if _tracer is None:
        return _NOTHING
    context = contexts.get_current() if parent is None else _W3C.extract(parent, Context())
    linked = trace.get_current_span(_W3C.extract({TRACEPARENT: link}, Context())).get_span_context() if link else None
    links = [trace.Link(linked)] if linked is not None and linked.is_valid else None
    return _activate(_tracer.start_span(name, context, kind, attributes, links))


def span(
    name: str, attributes: Attributes | None = None, *, kind: trace.SpanKind = trace.SpanKind.INTERNAL
) -> AbstractContextManager[trace.Span]:
    """Measure a step of the current trace; does nothing without a recorded trace."""
    if _tracer is None or not trace.get_current_span().is_recording():
        return _NOTHING
    return _activate(_tracer.start_span(name, None, kind, attributes))


def statements(texts: Iterable[str]) -> AbstractContextManager[trace.Span]:
    """Measure statements sent together, as a step of the current trace (`span`)."""
    if _tracer is None or not trace.get_current_span().is_recording():
        return _NOTHING
    return _activate(_begin_statements(_tracer, list(texts)))


def begin_statement(text: str) -> trace.Span | None:
    """Begin a statement's span in the current trace; call `end` to finish. None without a recorded trace."""
    if _tracer is None or not trace.get_current_span().is_recording():
        return None
    return _begin_statements(_tracer, [text])


def end(begun: trace.Span, error: BaseException | None = None) -> None:
    """End a span; an error marks it as failed, with the error's type."""
    if error is not None:
        _mark_failed(begun, error)
    begun.end()


def fail() -> None:
    """Mark the current span as failed when callers don't see the error."""
    if _tracer is not None:
        trace.get_current_span().set_status(trace.StatusCode.ERROR)


def traceparent() -> str:
    """Return the W3C header that makes spans elsewhere children of the current span; empty without a span."""
    if _tracer is None:
        return ""
    headers: dict[str, str] = {}
    _W3C.inject(headers)
    return headers.get(TRACEPARENT, "")


def ids() -> dict[str, str]:
    """Return the ids of the current trace and span for a log line; empty without a span."""
    if _tracer is None:
        return {}
    present = trace.get_current_span().get_span_context()
    return {"trace_id": f"{present.trace_id:032x}", "span_id": f"{present.span_id:016x}"} if present.is_valid else {}


@contextmanager
def _activate(entered: trace.Span) -> Generator[trace.Span]:
    token = contexts.attach(trace.set_span_in_context(entered))
    try:
        yield entered
    except BaseException as error:
        _mark_failed(entered, error)
        raise
    finally:
        contexts.detach(token)
        entered.end()


def _mark_failed(failed: trace.Span, error: BaseException) -> None:
    failed.set_attribute("error.type", type(error).__name__)
    failed.set_status(trace.StatusCode.ERROR)


def _begin_statements(tracer: trace.Tracer, texts: list[str]) -> trace.Span:
    summary = "; ".join(dict.fromkeys(said for text in texts if (said := summarize(text)))) or "statements"
    attributes: dict[str, str | int] = {"db.system.name": "postgresql", "db.query.summary": summary[:255]}
    if len(texts) > 1:
        attributes["db.operation.batch.size"] = len(texts)
    return tracer.start_span(summary[:_LONGEST_NAME], None, trace.SpanKind.CLIENT, attributes)


@lru_cache(1024)
def summarize(statement: str) -> str:
    """Return a statement's verb and tables (`SELECT documents`), no values; empty if it only sets the organization."""
    if statement.startswith("SELECT enter_organization("):
        return ""
    writing = _WRITING.search(statement)
    first = statement.removeprefix("/* batch */").split(None, 1)
    reads = "SELECT" in statement
    word = writing[writing.lastindex or 0] if writing else "SELECT" if reads else first[0].upper() if first else ""
    named = {*_NAMED_PARTS.findall(statement), ""}
    found = dict.fromkeys(name for pair in _TABLES.findall(statement) for name in pair)
    tables = [name for name in found if name not in named]
    return " ".join([word, ", ".join(tables[:_MOST_TABLES])]).strip()


class _Seldom(logging.Filter):
    """Limits a library's messages about lost spans to at most once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        del record
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + COMPLAINT_SECONDS
        return True
