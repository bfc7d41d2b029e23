"""What a run tells while it goes on, as Prefect artifacts: its plan, its counts, its failures. flows.runs reads them.

| key | type | contents |
|---|---|---|
| carrel-plan | markdown | the plan, before anything is sent |
| carrel-planned | table, one row | its numbers: the members of operations.plan.Plan, and `problems` |
| carrel-progress | progress | percent of what is to be sent |
| carrel-counts | table, one row | operations.summary.Summary, `phase`, `waitingFor`, `documentsPerSecond`, `seconds` |
| carrel-failures | table | the quarantine's first rows: place, document, code, reason |
| carrel-names | table | the first hundred documents of each number: operations.named.COLUMNS |
| carrel-csv | text | all documents of all numbers as CSV, compressed; of the plan until the run has ended |

All but the plan are updated in place every two seconds, so that a run of any size leaves seven artifacts."""

import asyncio
import contextlib
import json
import logging
import time
import zlib
from base64 import b64encode
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.exceptions import PrefectException

from flows.errors import FlowError
from flows.operations.backlog import notes_of
from flows.operations.deletions import mark_of_deletions
from flows.operations.formatting import capitalize
from flows.operations.jobs import cancel_on_sigterm
from flows.operations.ledger.ledger import Ledger
from flows.operations.named import name_documents, names_as_csv
from flows.operations.plan import Plan
from flows.operations.quarantine import failure_rows
from flows.operations.reporting import reported_run_id
from flows.operations.scan import Scanned
from flows.operations.summary import SHOWN, Summary, summarize
from flows.runs import COUNTS, CSV, FAILURES, NAMES, PLAN, PLANNED, PROGRESS

_log = logging.getLogger(__name__)

_SECONDS = 2.0
_WINDOW = 8  # updates that the current rate is taken over
_SHOWN = 200
_NAMED_OFTEN = 20_000  # documents: of more, names are read at the plan and at the end alone


class Progress:
    """Publishes one run's progress. A Prefect server that does not answer costs an update, never the run."""

    def __init__(self, client: PrefectClient, flow_run_id: UUID) -> None:
        self._client = client
        self._flow_run_id = flow_run_id
        self._artifacts: dict[str, UUID] = {}
        self._published: dict[str, object] = {}
        self._began = time.perf_counter()
        self._marks: deque[tuple[float, int]] = deque([(0.0, 0)], maxlen=_WINDOW)
        self._ledger: Ledger | None = None
        self._gone = ""
        self.phase = "scanning"

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    async def on_plan(self, ledger: Ledger, scanned: Scanned, plan: Plan) -> None:
        """Publish the plan, and remember the ledger whose counts are published from now on."""
        self._ledger = ledger
        problems = await asyncio.to_thread(ledger.problem_count)
        remarks = "".join(f"\n{remark}\n" for remark in notes_of(ledger.address.name).remarks)
        await self.publish(PLAN, kind="markdown", data=plan_markdown(scanned, plan, problems=problems) + remarks)
        numbers = {name: number for name, number in asdict(plan).items() if isinstance(number, int)}
        await self.publish_table(PLANNED, [{**numbers, "problems": problems}])
        has_gone = plan.delete or plan.gone or plan.held_back
        self._gone = await asyncio.to_thread(mark_of_deletions, ledger) if has_gone else ""
        await self.end()
        self.phase = "sending"

    async def update(self) -> None:
        if self._ledger is None:
            return
        summary = await asyncio.to_thread(summarize, self._ledger)
        await self.publish_summary(summary)
        if summary.documents <= _NAMED_OFTEN or self.phase != "sending":
            named = name_documents(self._ledger, limit=SHOWN)
            await self.publish_table(NAMES, await asyncio.to_thread(list[dict[str, str]], named))
        if summary.quarantined:
            rows = await asyncio.to_thread(failure_rows, self._ledger, limit=_SHOWN)
            await self.publish_table(FAILURES, rows)

    async def end(self) -> None:
        """Publish the current progress of the run, and the names of all its documents."""
        await self.update()
        if self._ledger is not None:
            text = await asyncio.to_thread(names_as_csv, self._ledger)
            packed = await asyncio.to_thread(zlib.compress, text.encode("utf-8-sig", errors="backslashreplace"))
            await self.publish(CSV, kind="text", data=b64encode(packed).decode())

    async def publish_summary(self, summary: Summary) -> None:
        counts = {
            **summary.as_json(),
            "phase": self.phase,
            "gone_mark": self._gone,
            "seconds": round(self._seconds, 1),
            "documentsPerSecond": round(self._rate(summary.sent), 4),
            "waitingFor": "" if self._ledger is None else notes_of(self._ledger.address.name).waiting_for,
        }
        await self.publish_counts(counts)

    async def publish_average(self, counts: Mapping[str, Any], *, phase: str, progress: float, done: int) -> None:
        """Publish a run's counts, with its average pace: `done` since it began."""
        seconds = self._seconds
        rate = round(done / seconds, 4) if seconds else 0.0
        pace = {"phase": phase, "progress": progress, "seconds": round(seconds, 1), "documentsPerSecond": rate}
        await self.publish_counts({**counts, **pace})

    async def publish_counts(self, counts: Mapping[str, Any]) -> None:
        """Publish a run's counts as a row, and their member `progress` (percent) as a progress artifact."""
        await self.publish_table(COUNTS, [counts])
        await self.publish(PROGRESS, kind="progress", data=counts["progress"])

    async def publish_table(self, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        await self.publish(key, kind="table", data=json.dumps(rows))

    def _rate(self, sent: int) -> float:
        then, before = self._marks[0]
        now = self._seconds
        self._marks.append((now, sent))
        return max(0, sent - before) / (now - then) if now > then else 0.0

    async def publish(self, key: str, *, kind: str, data: str | float) -> None:
        """Publish or update an artifact; do nothing when its data are unchanged."""
        if self._published.get(key) == data:
            return
        try:
            if key in self._artifacts:
                await self._client.update_artifact(self._artifacts[key], ArtifactUpdate(data=data))
            else:
                new = ArtifactCreate(key=key, type=kind, data=data, flow_run_id=self._flow_run_id)
                self._artifacts[key] = (await self._client.create_artifact(new)).id
            self._published[key] = data
        except (httpx.HTTPError, PrefectException) as exc:
            _log.warning("The run's progress could not be published: %s", exc)

    async def follow(self) -> None:
        """Publish every two seconds until cancelled; a failed update is skipped."""
        while True:
            await asyncio.sleep(_SECONDS)
            try:
                await self.update()
            except FlowError as exc:
                _log.warning("The run's progress could not be read: %s", exc)


@asynccontextmanager
async def publish_progress(flow_run_id: UUID) -> AsyncGenerator[Progress]:
    """Publish a flow run's progress until the block ends, which SIGTERM cancels; alerts about it lead to this run."""
    reported_run_id.set(flow_run_id)
    with cancel_on_sigterm():
        async with get_client() as client:
            progress = Progress(client, flow_run_id)
            follower = asyncio.create_task(progress.follow())
            try:
                yield progress
            finally:
                follower.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await follower


def plan_markdown(scanned: Scanned, plan: Plan, *, problems: int) -> str:
    """Return the plan as a page for people; `problems` counts items that can't be a document and aren't ignored."""
    lines = [
        "| planned | documents |",
        "|---|---|",
        f"| create | {plan.create} |",
        f"| update | {plan.update} |",
        f"| unchanged | {plan.unchanged} |",
        f"| forbidden | {plan.forbidden} |",
        f"| refused before, still the same | {plan.refused} |",
        f"| sent already by this run | {plan.resumed} |",
        f"| items that can't be a document | {problems} |",
        f"| ignored | {plan.ignored} |",
        f"| delete, since the source no longer has them | {plan.delete} |",
        f"| gone from the source: they stay | {plan.gone} |",
        f"| sent before and left out now: they stay | {plan.left_out} |",
        f"| no longer in the source, but changed by others or in another source: left alone | {plan.left} |",
        "",
    ]
    if plan.held_back:
        lines += [f"**{plan.held_back}**", ""]
    if plan.unread:
        lines += [f"**{plan.unread_text()}.**", ""]
    lines += [f"{capitalize(line)}." for line in scanned.left_out()]
    return "\n".join(lines)
