"""Taking a permission snapshot. It knows nothing of Prefect."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.errors import SnapshotError
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.run_reports import report_run
from flows.operations.snapshots.comparing import compare
from flows.operations.snapshots.difference import Difference
from flows.operations.snapshots.files import (
    DIFFERENCE,
    MANIFEST,
    RESOURCES,
    Manifest,
    list_snapshots,
    open_unfinished,
    publish,
)
from flows.operations.snapshots.listing import ATTEMPTS, list_access
from flows.settings import FlowSettings


def _nobody(rows: int) -> None:
    del rows


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that was taken. `difference` is None for the first one, and when the one before can't be read."""

    folder: Path
    manifest: Manifest
    difference: Difference | None
    problems: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON members."""
        return {
            "folder": str(self.folder),
            **self.manifest.model_dump(mode="json"),
            "difference": self.difference.model_dump(mode="json") if self.difference else None,
            "problems": list(self.problems),
        }

    def text(self) -> str:
        """Return the result in a few lines, for people."""
        first = f"{self.manifest.rows[RESOURCES]:,} resources are in {self.folder}."
        compared = self.difference.text() if self.difference else "There is nothing to compare it with."
        return "\n".join((first, compared, *self.problems))


async def take_snapshot(settings: FlowSettings, *, on_rows: Callable[[int], None] = _nobody) -> Taken:
    """Write who may read what into a new folder of `settings.snapshots`, with the changes since the last one there.

    Needs an admin's key. `on_rows` is called with the number of rows written of the current list. Raises RefusedError,
    ServiceDownError, or OSError when the folder can't be written to; nothing is left then.
    """
    reporting = report_run(settings, flow="permission-snapshot", source="permissions")
    async with reporting as report, open_client(settings) as client:
        outages = outage_policy_of(client, settings)
        organization = await outages.call(client.admin.organization.get)
        report.has_begun = True
        home = settings.snapshots / str(organization.organization_id)
        with open_unfinished(home) as folder:
            listed = await list_access(client, folder, outages=outages, on_rows=on_rows)
            manifest = Manifest(
                taken_at=datetime.now(UTC),
                organization_id=organization.organization_id,
                consistent=listed.consistent,
                attempts=listed.attempts,
                rows=listed.rows,
            )
            taken = await asyncio.to_thread(_finish, folder, manifest)
            report.take_problems(found=bool(taken.problems))
            return taken


def _finish(folder: Path, manifest: Manifest) -> Taken:
    problems: list[str] = []
    if not manifest.consistent:
        problems.append(
            f"Access changed during each of {ATTEMPTS} attempts: this snapshot is not of one moment. "
            "Take another one when less is going on."
        )
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2))
    difference: Difference | None = None
    earlier = list_snapshots(folder.parent)
    if earlier:
        try:
            difference = compare(earlier[-1], folder)
            (folder / DIFFERENCE).write_text(difference.model_dump_json(indent=2))
        except SnapshotError as exc:
            problems.append(f"The last snapshot was not compared with: {exc} Move its folder away.")
    return Taken(publish(folder, taken_at=manifest.taken_at), manifest, difference, tuple(problems))
