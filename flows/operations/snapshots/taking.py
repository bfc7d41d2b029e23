"""Taking a permission snapshot, independent of Prefect."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import UUID

from carrel import AsyncCarrel, AsyncPager
from carrel.wire.access import AccessHolder, ClassedResource
from carrel.wire.common import PagedResponse, ResponseModel
from flows.errors import SnapshotError
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.outages import OutagePolicy, walk_pages
from flows.operations.reporting import report_run
from flows.operations.snapshots import files
from flows.operations.snapshots.comparing import compare
from flows.operations.snapshots.parquet import Row, TableWriter
from flows.settings import FlowSettings


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot taken now. `difference` is None for the first snapshot, and when the previous is unreadable."""

    folder: Path
    manifest: files.Manifest
    difference: files.Difference | None
    problems: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            **self.manifest.model_dump(mode="json"),
            "difference": self.difference.model_dump(mode="json") if self.difference else None,
            "problems": list(self.problems),
        }

    def text(self) -> str:
        first = f"{self.manifest.rows[files.RESOURCES]:,} resources are in {self.folder}."
        compared = self.difference.text() if self.difference else "There is no earlier snapshot to compare with."
        return "\n".join((first, compared, *self.problems))


async def take_snapshot(settings: FlowSettings, *, on_rows: "OnRows" = lambda _: None) -> Taken:
    """Write who may read what, and the changes since the last snapshot, into a new folder of `settings.snapshots`.
    Requires an admin's key. `on_rows` receives the number of rows of the current list. An error leaves no files."""
    reporting = report_run(settings, flow="permission-snapshot", source="permissions")
    async with reporting as report, open_client(settings) as client:
        outages = outage_policy_of(client, settings)
        organization = await outages.call(client.admin.organization.get)
        report.has_begun = True
        home = settings.snapshots / str(organization.organization_id)
        with files.open_unfinished(home) as folder:
            identity = organization.organization_id
            manifest = await list_access(client, folder, identity, outages=outages, on_rows=on_rows)
            taken = await asyncio.to_thread(_finish, folder, manifest)
            report.take_problems(found=bool(taken.problems))
            return taken


def _finish(folder: Path, manifest: files.Manifest) -> Taken:
    problems: list[str] = []
    if not manifest.consistent:
        problems.append(
            f"Access changed during each of {ATTEMPTS} attempts, so this snapshot mixes several moments. Take "
            "another snapshot when there is less activity."
        )
    (folder / files.MANIFEST).write_text(manifest.model_dump_json(indent=2))
    difference: files.Difference | None = None
    if earlier := files.list_snapshots(folder.parent):
        try:
            difference = compare(earlier[-1], folder)
            (folder / files.DIFFERENCE).write_text(difference.model_dump_json(indent=2))
        except SnapshotError as exc:
            problems.append(f"The comparison with the last snapshot failed: {exc} Move its folder away.")
    return Taken(files.publish(folder, taken_at=manifest.taken_at), manifest, difference, tuple(problems))


ATTEMPTS = 3
PAGE_SIZE = 1000

Item = TypeVar("Item", bound=ResponseModel)
Page = TypeVar("Page", bound=PagedResponse)
OnRows = Callable[[int], object]


async def list_access(
    client: AsyncCarrel, folder: Path, organization_id: UUID, *, outages: OutagePolicy, on_rows: OnRows
) -> files.Manifest:
    """Write all access into the folder's tables; start over, up to `ATTEMPTS` times, if access changes during this."""
    access, attempt = client.admin.access, 0
    while True:
        attempt += 1
        before = await outages.call(access.get_state)
        rows = await _write_tables(client, folder, outages, on_rows)
        after = await outages.call(partial(access.get_state, since=before.state))
        if not after.changed or attempt == ATTEMPTS:
            return files.Manifest(
                taken_at=datetime.now(UTC),
                organization_id=organization_id,
                consistent=not after.changed,
                attempts=attempt,
                rows=rows,
            )


async def _write_tables(client: AsyncCarrel, folder: Path, outages: OutagePolicy, on_rows: OnRows) -> dict[str, int]:
    admin, access = client.admin, client.admin.access

    async def list_rows(
        pager_of: "Callable[..., AsyncPager[Item, Page]]", row_of: Callable[[Item], Row]
    ) -> AsyncGenerator[list[Row]]:
        async for page in walk_pages(outages, lambda token: pager_of(page_size=PAGE_SIZE, page_token=token)):
            yield [row_of(cast("Item", item)) for item in page.table_rows()]

    async def write(name: str, *lists: AsyncGenerator[list[Row]]) -> int:
        with TableWriter(files.table(folder, name), files.COLUMNS[name]) as writer:
            for listed in lists:
                async for rows in listed:
                    await asyncio.to_thread(writer.add, rows)
                    on_rows(writer.count)
            return writer.count

    return {
        files.RESOURCES: await write(files.RESOURCES, list_rows(access.list_resources, _resource)),
        files.HOLDERS: await write(files.HOLDERS, list_rows(access.list_holders, _holder)),
        files.GROUP_PEOPLE: await write(
            files.GROUP_PEOPLE,
            list_rows(access.list_group_people, lambda person: (str(person.group_id), str(person.principal_id))),
        ),
        files.PRINCIPALS: await write(
            files.PRINCIPALS,
            list_rows(
                admin.users.list,
                lambda user: (str(user.id), "user", user.name, user.email, "true" if user.active else "false"),
            ),
            list_rows(
                admin.service_accounts.list,
                lambda each: (str(each.service_account_id), "serviceAccount", each.display_name, each.email, "true"),
            ),
            list_rows(admin.groups.list, lambda group: (str(group.id), "group", group.name, None, "true")),
        ),
    }


def _resource(resource: ClassedResource) -> Row:
    return str(resource.object_id), resource.resource_type.value, resource.resource_id, resource.access_class


def _holder(holder: AccessHolder) -> Row:
    return holder.access_class, str(holder.principal_id), holder.principal_type.value, holder.role.value
