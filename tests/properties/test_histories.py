"""Random histories of loads, syncs and feedback: pages, commands and the API agree with an independent count."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from app.health import Level, findings_of
from carrel import Carrel
from carrel.wire.search import SearchFeedback
from cli.app import app as cli_app
from flows.errors import SourceError
from flows.settings import FlowSettings
from tests.flows.sources import Source
from tests.harness.mongo.processes import MongoServer
from tests.harness.services import RunningService, ServiceHarness
from tests.service.docstore import LOOPBACK, Syncing, a_thing

HISTORIES = int(os.environ.get("HISTORIES", "2000"))
STEPS, COMPARED_EVERY = 12, 2
NAMES = tuple(f"note-{number}.md" for number in range(6))
EMPTY = b""
THUMBS = (SearchFeedback.THUMBS_UP, SearchFeedback.THUMBS_DOWN)


@dataclass
class History:
    """A person's folder and document database, and an independent count of the state."""

    source: Source
    syncing: Syncing
    client: Carrel
    random: Random
    folder: dict[str, bytes] = field(default_factory=dict[str, bytes])
    loaded: dict[str, bytes] = field(default_factory=dict[str, bytes])
    failed: dict[str, bytes] = field(default_factory=dict[str, bytes])
    found: dict[str, bytes] = field(default_factory=dict[str, bytes])  # by plans alone, since the last whole run
    ignored: set[str] = field(default_factory=set[str])
    things: dict[int, bool] = field(default_factory=dict[int, bool])
    taken: set[int] = field(default_factory=set[int])
    not_taken: set[int] = field(default_factory=set[int])
    is_behind: bool = False
    has_run_failed: bool = False
    searches: dict[UUID, list[UUID]] = field(default_factory=dict[UUID, list[UUID]])
    thumbs: dict[tuple[UUID, UUID], SearchFeedback] = field(default_factory=dict[tuple[UUID, UUID], SearchFeedback])
    told: list[str] = field(default_factory=list[str])

    async def step(self) -> None:
        ways = (
            self.write,
            self.remove,
            self.load,
            self.load,
            self.plan,
            self.retry,
            self.ignore,
            self.sync,
            self.judge,
        )
        way = self.random.choice(ways)
        self.told.append(way.__name__)
        await way()

    async def write(self) -> None:
        name = self.random.choice(NAMES)
        content = EMPTY if self.random.random() < 0.4 else f"# {name}\n\nFerry {self.random.random()}.\n".encode()
        self.source.write(name, content)
        self.folder[name] = content

    async def remove(self) -> None:
        if self.folder:
            name = self.random.choice(sorted(self.folder))
            (self.source.folder / name).unlink()
            del self.folder[name]

    async def load(self) -> None:
        deletes = self.random.random() < 0.5
        if await self.is_refused():
            return
        expected = self.expected_plan(deletes=deletes)
        summary = (await self.source.load(delete_missing=deletes, delete_limit_percent=100)).summary
        gone = set(self.loaded) - set(self.folder) if deletes and self.folder else set[str]()
        self.has_run_failed = bool(self.loaded and not self.folder)
        self.found.clear()
        self.take(self.folder)
        self.loaded = {name: content for name, content in self.loaded.items() if name not in gone}
        for name in self.failed.keys() - self.folder.keys():
            del self.failed[name]
        self.ignored &= self.failed.keys()
        assert summary.deleted == len(gone), self.told
        assert summary.quarantined == len(self.waiting), self.told
        assert summary.unchanged == expected["unchanged"], self.told

    async def is_refused(self, *, dry_run: bool = False) -> bool:
        if self.folder or self.loaded:
            return False
        with pytest.raises(SourceError, match="has no document"):
            await self.source.load(dry_run=dry_run)
        self.has_run_failed = self.has_run_failed or not dry_run
        if not dry_run:
            self.failed = self.found | self.failed
        return True

    async def plan(self) -> None:
        deletes = self.random.random() < 0.5
        if await self.is_refused(dry_run=True):
            return
        plan = (await self.source.load(dry_run=True, delete_missing=deletes, delete_limit_percent=100)).plan
        expected = self.expected_plan(deletes=deletes)
        self.found |= {name: content for name, content in self.folder.items() if not content}
        assert {name: getattr(plan, name) for name in expected} == expected, self.told

    async def retry(self) -> None:
        if not self.waiting:
            return
        names = self.random.sample(sorted(self.waiting), self.random.randint(1, len(self.waiting)))
        await self.source.retry(names=names)
        self.found = {name: content for name, content in self.found.items() if name not in names}
        self.failed = self.found | self.failed
        self.take({name: self.folder[name] for name in names if name in self.folder})
        for name in set(names) - self.folder.keys():
            del self.failed[name]

    async def ignore(self) -> None:
        if not self.failed:
            return
        names = self.random.sample(sorted(self.failed), 1)
        await self.source.ignore(*names, undo=names[0] in self.ignored)
        self.ignored.symmetric_difference_update(names)

    async def sync(self) -> None:
        number = self.random.randrange(6)
        collection, has_title = self.syncing.mongo.collection, self.random.random() < 0.6
        thing = a_thing(number) if has_title else {**a_thing(number), "title": ""}
        await asyncio.to_thread(collection.replace_one, {"_id": thing["_id"]}, thing, upsert=True)
        self.things[number] = has_title
        self.is_behind = self.random.random() < 0.3
        if self.is_behind:
            self.syncing.mongo.misbehave(find_code=13, find_times=50)
        run = self.syncing.run if self.syncing.sync_id else self.syncing.first_run
        ended = await asyncio.to_thread(run)
        self.syncing.mongo.misbehave()
        is_reached, self.is_behind = not self.is_behind, ended["status"] == "FAILED"
        assert self.is_behind == (not is_reached or not any(self.things.values())), (self.told, ended)
        if is_reached:
            self.not_taken = {one for one, is_good in self.things.items() if not is_good}
            self.taken |= self.things.keys() - self.not_taken

    async def judge(self) -> None:
        asked = self.client.search
        answer = asked.search_document_catalog("ferry lamp", mode="LEXICAL")
        self.searches[answer.search_id] = [one.document_id for one in answer.results]
        search = self.random.choice(list(self.searches))
        if not self.searches[search]:
            return
        document, verdict = self.random.choice(self.searches[search]), self.random.choice(THUMBS)
        asked.submit_search_feedback(search_id=search, feedback=verdict, document_id=document, comments="!")
        self.thumbs[search, document] = verdict

    @property
    def waiting(self) -> set[str]:
        return self.failed.keys() - self.ignored

    def take(self, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            if name in self.ignored and self.failed[name] == content:
                continue
            self.ignored.discard(name)
            if content:
                self.loaded[name] = content
                self.failed.pop(name, None)
            else:
                self.failed[name] = content

    def expected_plan(self, *, deletes: bool) -> dict[str, int]:
        fresh = {name: content for name, content in self.folder.items() if content}  # an empty file is refused at once
        changed = {name for name, content in fresh.items() if self.loaded.get(name) != content}
        return {
            "create": len(changed - self.loaded.keys()),
            "update": len(changed & self.loaded.keys()),
            "unchanged": len(fresh) - len(changed),
            "delete": len(self.loaded.keys() - self.folder.keys()) if deletes and self.folder else 0,
        }

    def compare_loading(self) -> None:
        admin = self.client.admin
        found = list(admin.alerts.list(only_open=True))
        alerts = {(one.kind.value, one.sync_id is not None) for one in found}
        status = admin.status.get()
        documents = {one.document_external_id for one in self.client.catalog.list_documents()}
        logged = {one.search_id: (one.thumbs_up or 0, one.thumbs_down or 0) for one in admin.search_log.query()}
        synced = {self.syncing.external_id(a_thing(number)["_id"]) for number in self.taken}
        assert documents == self.loaded.keys() | synced, self.told
        expected = {("RUN_QUARANTINE", False)} if self.waiting else set[Any]()
        expected |= {("RUN_QUARANTINE", True)} if self.not_taken else set()
        expected |= {("SYNC_BEHIND", True)} if self.is_behind else set()
        expected |= {("RUN_FAILED", False)} if self.has_run_failed else set()
        assert alerts == expected, (self.told, [(one.code, one.name) for one in found])
        assert status.quarantine is None or status.quarantine.item_count == len(self.waiting), self.told
        given = Counter((search, verdict) for (search, _), verdict in self.thumbs.items())
        assert all(logged[one] == tuple(given[one, verdict] for verdict in THUMBS) for one in self.searches), self.told
        troubles = {one.about for one in findings_of(status) if one.level is Level.TROUBLE}
        assert ("Loading" in troubles) == bool(self.waiting or self.has_run_failed), self.told
        assert ("Syncs" in troubles) == bool(self.not_taken or self.is_behind), self.told


async def run_history(service: RunningService, mongo: MongoServer, folder: Path, seed: int) -> None:
    with service.new_organization() as organization, pytest.MonkeyPatch.context() as environment:
        values = {"base_url": organization.base_url, "api_key": organization.api_key, "data_dir": str(folder / "data")}
        for name, value in values.items():
            environment.setenv(f"CARREL_{name.upper()}", value)
        (folder / "notes").mkdir(parents=True)
        syncing = await asyncio.to_thread(Syncing, organization, mongo.with_collection())
        source = Source(folder / "notes", FlowSettings(), organization)
        with source.client() as client:
            history = History(source, syncing, client, Random(seed))  # noqa: S311 - no secret
            for number in range(STEPS):
                await history.step()
                if number % COMPARED_EVERY == COMPARED_EVERY - 1:
                    history.compare_loading()
        listed = await asyncio.to_thread(CliRunner().invoke, cli_app, ["quarantine", "list", "--json"])
        assert {one["document"] for one in json.loads(listed.stdout)["quarantine"]} == history.waiting, history.told


@pytest.fixture(scope="module")
def service(service_harness: ServiceHarness) -> Iterator[RunningService]:
    with service_harness.running(docstore_allowed_hosts=LOOPBACK) as service:
        yield service


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_pages_commands_and_api_say_what_is(service, mongo, tmp_path, seed) -> None:
    await run_history(service, mongo, tmp_path, seed)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
async def test_two_thousand_histories(service: RunningService, mongo: MongoServer, tmp_path: Path) -> None:
    """HISTORIES different histories; a failing history is named by its number."""
    for seed in range(HISTORIES):
        await run_history(service, mongo, tmp_path / str(seed), seed)
