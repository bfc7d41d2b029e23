"""Writing the service's lists of all access into files, repeated until they are of one moment."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from carrel import AsyncCarrel, AsyncPager
from carrel.wire.access import AccessHolder, ClassedResource, GroupPerson
from carrel.wire.admin import Group, User
from carrel.wire.common import PagedResponse, ResponseModel
from carrel.wire.service_accounts import ServiceAccount
from flows.operations.outages import OutagePolicy
from flows.operations.snapshots.files import COLUMNS, GROUP_PEOPLE, HOLDERS, PRINCIPALS, RESOURCES, table
from flows.operations.snapshots.parquet import Row, TableWriter

ATTEMPTS = 3
PAGE_SIZE = 1000

Item = TypeVar("Item", bound=ResponseModel)
Page = TypeVar("Page", bound=PagedResponse)
OnRows = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Listed:
    """The `rows` written, by table. Not `consistent`: access changed during every attempt."""

    consistent: bool
    attempts: int
    rows: dict[str, int]


async def list_access(client: AsyncCarrel, folder: Path, *, outages: OutagePolicy, on_rows: OnRows) -> Listed:
    """Write all access into the folder's tables, again when it changes meanwhile, `ATTEMPTS` times at most."""
    walk = _Walk(client, folder, outages=outages, on_rows=on_rows)
    access, attempt = client.admin.access, 0
    while True:
        attempt += 1
        before = await outages.call(access.get_state)
        rows = await walk.everything()
        after = await outages.call(partial(access.get_state, since=before.state))
        if not after.changed or attempt == ATTEMPTS:
            return Listed(consistent=not after.changed, attempts=attempt, rows=rows)


class _Walk:
    """One pass through all lists; another pass overwrites the same files."""

    def __init__(self, client: AsyncCarrel, folder: Path, *, outages: OutagePolicy, on_rows: OnRows) -> None:
        self._admin = client.admin
        self._folder = folder
        self._outages = outages
        self._on_rows = on_rows

    async def everything(self) -> dict[str, int]:
        """Write all tables; return how many rows each has."""
        access = self._admin.access
        return {
            RESOURCES: await self._write(RESOURCES, self._pages(access.list_resources, _resource)),
            HOLDERS: await self._write(HOLDERS, self._pages(access.list_holders, _holder)),
            GROUP_PEOPLE: await self._write(GROUP_PEOPLE, self._pages(access.list_group_people, _person)),
            PRINCIPALS: await self._write(PRINCIPALS, self._principals()),
        }

    async def _principals(self) -> AsyncGenerator[list[Row]]:
        admin = self._admin
        async for rows in self._pages(admin.users.list, _user):
            yield rows
        async for rows in self._pages(admin.service_accounts.list, _account):
            yield rows
        async for rows in self._pages(admin.groups.list, _group):
            yield rows

    async def _pages(
        self, pager_of: "Callable[..., AsyncPager[Item, Page]]", row_of: Callable[[Item], Row]
    ) -> AsyncGenerator[list[Row]]:
        """Yield a list's rows page by page; after an outage, only the failed page is fetched again."""
        token: str | None = None
        while True:
            pager = pager_of(page_size=PAGE_SIZE, page_token=token)
            page = await self._outages.call(partial(_first, pager))
            yield [row_of(cast("Item", item)) for item in page.table_rows()]
            if (token := page.next_page_token) is None:
                return

    async def _write(self, name: str, pages: AsyncGenerator[list[Row]]) -> int:
        with TableWriter(table(self._folder, name), COLUMNS[name]) as writer:
            async for rows in pages:
                await asyncio.to_thread(writer.add, rows)
                self._on_rows(writer.count)
            return writer.count


async def _first(pager: "AsyncPager[Item, Page]") -> Page:
    return await anext(pager.pages())


def _resource(one: ClassedResource) -> Row:
    return str(one.object_id), one.resource_type.value, one.resource_id, one.access_class


def _holder(one: AccessHolder) -> Row:
    return one.access_class, str(one.principal_id), one.principal_type.value, one.role.value


def _person(one: GroupPerson) -> Row:
    return str(one.group_id), str(one.principal_id)


def _user(one: User) -> Row:
    return str(one.id), "user", one.name, one.email, "true" if one.active else "false"


def _account(one: ServiceAccount) -> Row:
    return str(one.service_account_id), "serviceAccount", one.display_name, one.email, "true"


def _group(one: Group) -> Row:
    return str(one.id), "group", one.name, None, "true"
