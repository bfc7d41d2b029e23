"""Helpers for reporting and reading a source's quarantine."""

from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from tests.harness.services import RunningService
from tests.service.directory import done, walk

LEDGER = "5f0c6a1e9b3d4c7f8a2e1b0d"


def an_item(name: str, /, **members) -> dict:
    return {
        "documentExternalId": name,
        "place": f"{name}.md",
        "code": "file_encrypted",
        "message": "It is encrypted.",
        "fingerprint": "one",
        "since": "2026-01-31T09:30:00Z",
        **members,
    }


@dataclass
class Reporter:
    """A reporter of a ledger's source, with a credential (None: the admin)."""

    service: RunningService
    api_key: str | None = None
    ledger: str = LEDGER

    def call(self, operation: str, body: dict | None = None, **options) -> httpx.Response:
        return self.service.call(f"sources/{operation}", body, api_key=self.api_key, **options)

    def begin(self, **members) -> dict:
        return done(self.call("reportSource", {"ledger": self.ledger, "source": "/srv/handbook", **members}))

    def add(self, report: dict, *items: dict) -> httpx.Response:
        return self.call("reportSourceItems", {**report, "items": list(items)})

    def end(self, report: dict) -> httpx.Response:
        return self.call("endSourceReport", report)

    def report(self, items: Sequence[dict] = (), **members) -> dict:
        report = self.begin(**members)
        for start in range(0, len(items), 1000):
            done(self.add(report, *items[start : start + 1000]))
        return done(self.end(report))

    def sources(self) -> list[dict]:
        return walk(self.service, "sources/listSources", {}, page_size=100, api_key=self.api_key)

    def items(self, source_id: str, *, page_size: int = 1000, **filters) -> list[dict]:
        body = {"sourceId": source_id, **filters}
        return walk(self.service, "sources/listSourceItems", body, page_size=page_size, api_key=self.api_key)

    def names(self, source_id: str, **filters) -> list[str]:
        return [item["name"] for item in self.items(source_id, **filters)]

    def ignore(self, source_id: str, *names: str, undo: bool = False) -> list[str]:
        operation = "restoreSourceItems" if undo else "ignoreSourceItems"
        return done(self.call(operation, {"sourceId": source_id, "names": names}))["unknownNames"]
