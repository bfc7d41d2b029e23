"""Traces: the spans sent to a collector for a search, an upload and a message, from every process, without contents."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.platform import database, traces
from service.platform.batches import Batch
from tests.harness.cases import cases
from tests.harness.documents import ok
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess
from tests.harness.receivers import Receiver, receiving
from tests.harness.services import ADMIN_EMAIL, API_KEY
from tests.service.conversations import a_desk

QUESTION = "When does the ferry to Northlight leave?"
UPLOAD, SEARCH, MESSAGE = (digit * 32 for digit in "abc")
CALLER = "d" * 16
# Of each span, the one above it, and the process that it is of.
TREES: dict[str, dict[str, tuple[str, str]]] = {
    trace_id: {name: tuple(above) for name, above in cases("spans_of_traces")[request].items()}
    for request, trace_id in (("upload", UPLOAD), ("search", SEARCH), ("message", MESSAGE))
}


@dataclass
class Spans:
    """The received spans, by trace; each with name, parent, process and attributes."""

    receiver: Receiver

    def read(self, trace_id: str) -> dict[str, tuple[str, str]]:
        found, named = [], {CALLER: "caller"}
        for process, span in self._all():
            if span.trace_id.hex() == trace_id:
                named[span.span_id.hex()] = span.name
                found.append((process, span))
        return {span.name: (named.get(span.parent_span_id.hex(), "?"), process) for process, span in found}

    def attributes(self, name: str) -> dict[str, Any]:
        return next(
            {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
            for _, span in self._all()
            if span.name == name
        )

    def wait_for(self, trace_id: str, *names: str) -> dict[str, tuple[str, str]]:
        until(lambda: set(names) <= self.read(trace_id).keys())
        return self.read(trace_id)

    def _all(self) -> Iterator[tuple[str, Any]]:
        for _, body in list(self.receiver.posts):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                told = {each.key: each.value.string_value for each in resource.resource.attributes}
                for scope in resource.scope_spans:
                    yield from ((told["carrel.process"], span) for span in scope.spans)


def trace(service: ServiceProcess, trace_id: str) -> None:
    service.http.headers["traceparent"] = f"00-{trace_id}-{CALLER}-01"


def test_each_step_is_told_and_nothing_of_contents(service_process: Callable[..., ServiceProcess]) -> None:
    with receiving() as receiver:
        service = service_process(
            CARREL_WORKERS="1", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_BSP_SCHEDULE_DELAY="50"
        )
        spans, look = Spans(receiver), partial(service.call, "search/searchDocumentCatalog", {"searchQuery": QUESTION})
        trace(service, UPLOAD)
        desk = a_desk(service)  # pyright: ignore[reportArgumentType] - it calls, and is asked nothing else
        trace(service, SEARCH)
        ok(look())
        trace(service, MESSAGE)
        assert "noon" in desk.ask(QUESTION)["response"]["message"]
        for trace_id, tree in TREES.items():
            found = spans.wait_for(trace_id, *tree)
            assert {name: found[name] for name in tree} == tree
        searched = spans.attributes("POST /api/v0/search/searchDocumentCatalog")
        assert searched["http.response.status_code"] == 200
        assert {searched["carrel.request_id"]} == {
            event["request_id"] for event in service.events("request") if event.get("trace_id") == SEARCH
        }
        receiver.answers = [503] * 1000
        ok(look())
        receiver.open.clear()
        ok(look())
        assert service.stop() == 0
        sent = b"".join(body for _, body in receiver.posts).lower()
    for secret in (API_KEY, ADMIN_EMAIL, "ferr", "northlight", "noon", "harbour"):
        assert secret.lower().encode() not in sent, secret
    assert service.events("Queue full, dropping Span.") == []


@pytest.mark.parametrize(("statement", "summary"), cases("a_statement_is_named_by_its_tables"))
def test_a_statement_is_named_by_its_tables(statement: str, summary: str) -> None:
    assert traces.summarize(statement) == summary
    assert traces.summarize(database._complete(Batch(), uuid4(), None).parts[0].text) == ""


@pytest.mark.parametrize(("environment", "outcome"), cases("the_environment_decides"))
def test_the_environment_decides(monkeypatch, environment, outcome) -> None:
    for name in [each for each in os.environ if each.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    imported: list[str] = []
    monkeypatch.setattr(traces, "import_module", imported.append)
    if isinstance(outcome, str):
        with pytest.raises(ValueError, match=outcome):
            traces.load()
    else:
        traces.load()
        # Nothing of the SDK, where nobody wants traces.
        assert bool(imported) == outcome
