"""Permission look-ups at scale: what a page costs, beside the bare look-up of its rows by their keys.

Readers of one access class to 20,000 of them, in groups of groups or in 2,000 groups; resources with 10,000 grants, and
with a group of 50,000. Each request goes over HTTP (in this process) with all that it costs. In turn with it come the
rows it shows, by primary key on a plain connection of the service's role (`bare ms`), and the least request there is
(`least ms`): on a busy machine all three grow alike, and the ratios tell more than the milliseconds. `cpu ms` is the
processor time of a request in this process and the database's together, which other work on the machine hardly changes.
Goal: a page of 100, the first or one from the middle of the list, in <= 50 ms of it. Run: `python -m bench.permissions
[--scale]`.
"""

import argparse
import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
import numpy as np
import psutil
import psycopg
from pydantic import SecretStr

from bench import directory
from bench.report import report
from bench.search import NoExtractor, VectorBook, address
from service.main import create_app
from service.operate.startup import open_runtime
from service.platform import logs
from service.platform.database import PLANNER, SERVICE_ROLE
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres
from service.platform.settings import Settings
from service.text.embedding import Embedders

RESOURCES = 100_000
SCALED = 1_000_000
PAGE = 100
ROUNDS = 16
WARM_UP = 12
GOAL_MS = 50
GRANTS = 10_000

RESOURCES_BY_KEY = (
    "SELECT object_id, resource_type, resource_id FROM resources"
    " WHERE organization_id = %(organization)s AND object_id = ANY(%(ids)s)"
)
PRINCIPALS_BY_KEY = (
    "SELECT principal_id, kind, name, email FROM principals"
    " WHERE organization_id = %(organization)s AND principal_id = ANY(%(ids)s)"
)


@dataclass(frozen=True)
class Setting:
    """Where a measurement happens: the service, and a plain connection of its role."""

    client: httpx.AsyncClient
    plain: psycopg.AsyncConnection
    organization_id: UUID
    resources: int
    server: psutil.Process

    def cpu_seconds(self) -> float:
        """The processor time that this process and the database's have used so far."""
        times = [one.cpu_times() for one in [self.server, *self.server.children()]]
        return time.process_time() + sum(one.user + one.system for one in times)

    async def ask(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask as the admin, whose key may act for users."""
        answer = await self.client.post(f"/api/v0/{operation}", json=body)
        answer.raise_for_status()
        return cast("dict[str, Any]", answer.json())

    async def bare(self, statement: str, ids: Sequence[str]) -> None:
        """Fetch rows by their keys."""
        values = {"organization": self.organization_id, "ids": [UUID(one) for one in ids]}
        await (await self.plain.execute(statement, values)).fetchall()

    async def object_ids(self, resources: Sequence[dict[str, str]]) -> list[str]:
        """The keys of resources that a page shows."""
        statement = "SELECT object_id FROM resources WHERE resource_id = ANY(%s)"
        found = await self.plain.execute(statement, [[one["resourceId"] for one in resources]])
        return [str(one) for (one,) in await found.fetchall()]


async def milliseconds(work: Callable[[], Awaitable[object]]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


async def measure(
    setting: Setting,
    what: str,
    *,
    ask: Callable[[], Awaitable[object]],
    bare: Callable[[], Awaitable[object]],
    rows: int,
    goal: bool = True,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """A line of the table."""

    async def least() -> None:
        await setting.ask("admin/organization/get", {})

    # Statements are prepared only when they have been used a few times, and planned for good only then.
    for _ in range(WARM_UP):
        await ask()
    began = setting.cpu_seconds()
    for _ in range(rounds):
        await ask()
    cpu = (setting.cpu_seconds() - began) / rounds * 1000
    times = [[await milliseconds(work) for work in (ask, bare, least)] for _ in range(rounds)]
    p50, base, floor = (float(one) for one in np.median(np.array(times), axis=0))
    row = {
        "resources": setting.resources,
        "what": what,
        "rows": rows,
        "cpu ms": round(cpu, 1),
        "p50 ms": round(p50, 1),
        "p95 ms": round(float(np.percentile([one for one, _, _ in times], 95)), 1),
        "bare ms": round(base, 2),
        "least ms": round(floor, 1),
        "p50/bare": round(p50 / base, 1),
        "p50/least": round(p50 / floor, 1),
        "goal": f"cpu <= {GOAL_MS} ms" if goal else "-",
    }
    print(row)
    return row


async def middle(setting: Setting, operation: str, body: dict[str, Any]) -> str | None:
    """The token of a page in the middle of a list; None when all of it is one page."""
    tokens: list[str] = []
    page = await setting.ask(operation, {**body, "pageSize": 1000})
    while token := page.get("nextPageToken"):
        tokens.append(token)
        page = await setting.ask(operation, {**body, "pageSize": 1000, "pageToken": token})
    return tokens[len(tokens) // 2] if tokens else None


async def measure_list(
    setting: Setting, what: str, *, operation: str, body: dict[str, Any], member: str
) -> list[dict[str, Any]]:
    """A list's first page and one from its middle."""
    lines: list[dict[str, Any]] = []
    for place, token in (("first page", None), ("deep page", await middle(setting, operation, body))):
        if place == "deep page" and token is None:
            continue
        asked = {**body, "pageSize": PAGE, **({"pageToken": token} if token else {})}
        shown = (await setting.ask(operation, asked))[member]
        if member == "resources":
            statement, ids = RESOURCES_BY_KEY, await setting.object_ids(shown)
        else:
            statement, ids = PRINCIPALS_BY_KEY, [one.get("principal", one)["id"] for one in shown]

        async def ask(asked: dict[str, Any] = asked) -> None:
            await setting.ask(operation, asked)

        async def bare(statement: str = statement, ids: list[str] = ids) -> None:
            await setting.bare(statement, ids)

        lines.append(await measure(setting, f"{what}, {place}", ask=ask, bare=bare, rows=len(shown)))
    return lines


async def measure_lists(setting: Setting) -> list[dict[str, Any]]:
    """What every kind of reader may read, of all types and of a rare one; who may read what many may read."""
    lines: list[dict[str, Any]] = []
    for kind, name in directory.READERS.items():
        for only, what in (({}, "resources of"), ({"resourceType": "AGENT"}, "agents of")):
            lines += await measure_list(
                setting,
                f"{what}: {kind}",
                operation="permissions/listAuthorizedResources",
                body={"action": "READ", "userEmail": f"{name}@bench.example", **only},
                member="resources",
            )
    for kind, name in directory.RESOURCES.items():
        lines += await measure_list(
            setting,
            f"principals of: {kind}",
            operation="permissions/listAuthorizedPrincipalsForResource",
            body={"action": "READ", "resource": reference_of(name)},
            member="principals",
        )
    lines += await measure_list(
        setting,
        "grants of: 10,000 grants, 2,000 to groups",
        operation="admin/grants/list",
        body={"resource": reference_of("teams")},
        member="grants",
    )
    return lines


def reference_of(name: str) -> dict[str, str]:
    """How requests name one of the resources with many readers."""
    return {"resourceId": name, "resourceType": "GOOGLE_DRIVE_ITEM"}


async def measure_questions(setting: Setting) -> list[dict[str, Any]]:
    """Explanations where there is most to explain, and checks of one resource and of a thousand."""
    lines: list[dict[str, Any]] = []
    for what, name, who in (
        ("30 groups deep", "chain", f"user{directory.DEPTH}"),
        ("2^30 chains", "lattice", "user1"),
        ("in 2,000 groups", "teams", "joiner"),
        ("in a group of 50,000", "crowd", "user7"),
        ("not authorized, in 2,000 groups", "ring", "joiner"),
    ):
        principal = {"type": "user", "email": f"{who}@bench.example"}
        body = {"resource": reference_of(name), "principal": principal, "action": "READ"}
        paths = (await setting.ask("permissions/explainAuthorization", body))["paths"]
        ids = list({step["id"] for path in paths for step in path[:-2]})

        async def explain(body: dict[str, Any] = body) -> None:
            await setting.ask("permissions/explainAuthorization", body)

        async def bare(ids: list[str] = ids) -> None:
            await setting.bare(PRINCIPALS_BY_KEY, ids)

        lines.append(await measure(setting, f"explain: {what}", ask=explain, bare=bare, rows=len(paths), goal=False))
    for reader in ("parts", "author", "joiner"):
        lines += [await measure_check(setting, reader, number) for number in (1, 1000)]
    return lines


async def measure_check(setting: Setting, reader: str, number: int) -> dict[str, Any]:
    """Check so many resources for a reader, about half of which it may not read."""
    listing = {"action": "READ", "pageSize": 1000}
    email = f"{reader}@bench.example"
    own, wide = [
        (await setting.ask("permissions/listAuthorizedResources", {**listing, "userEmail": one}))["resources"]
        for one in (email, "wide@bench.example")
    ]
    asked = [one for pair in zip(own, wide, strict=False) for one in pair][:number]
    ids = await setting.object_ids(asked)

    async def check() -> None:
        await setting.ask(
            "permissions/checkBulkResourcesAuthorizationForUser",
            {"action": "READ", "resources": asked, "userEmail": email},
        )

    async def bare() -> None:
        await setting.bare(RESOURCES_BY_KEY, ids)

    what = next(kind for kind, name in directory.READERS.items() if name == reader)
    return await measure(setting, f"check {number}: {what}", ask=check, bare=bare, rows=len(asked), goal=number == 1)


async def measure_setting(setting: Setting) -> dict[str, Any]:
    """Replace 10,000 grants by others: each time by a set that no resource has had yet."""
    users = [
        {"type": "user", "email": f"user{number}@bench.example"} for number in range(1, GRANTS + WARM_UP + 2 * ROUNDS)
    ]
    begin = iter(range(len(users)))

    async def replace() -> None:
        at = next(begin)
        grants = [{"principal": one, "role": "VIEWER"} for one in users[at : at + GRANTS]]
        await setting.ask("admin/grants/set", {"resource": reference_of("users"), "grants": grants})

    await replace()
    found = await setting.plain.execute("SELECT principal_id FROM principals WHERE kind = 'user' LIMIT %s", [GRANTS])
    ids = [str(one) for (one,) in await found.fetchall()]

    async def bare() -> None:
        await setting.bare(PRINCIPALS_BY_KEY, ids)

    return await measure(setting, "set 10,000 grants", ask=replace, bare=bare, rows=GRANTS, goal=False, rounds=3)


async def main(resources: int) -> None:
    """Make the organization on a throwaway PostgreSQL, measure, and report."""
    folder = Path(tempfile.mkdtemp(prefix="carrel-bench-permissions-"))
    folder.chmod(0o711)  # noqa: ASYNC240 - nothing else runs yet
    api_key = f"svc_key_{secrets.token_hex(24)}"
    settings = Settings(
        data_dir=folder,
        bootstrap_admin_email="admin@bench.example",
        bootstrap_api_key=SecretStr(api_key),
        log_level="ERROR",
        rate_limit_requests=0,
    )
    logs.configure(settings.log_level)
    parts = {"extractor": cast("Any", NoExtractor()), "embedders": Embedders(cast("Any", VectorBook()))}
    try:
        async with open_runtime(settings, **parts) as runtime:
            server = EmbeddedPostgres(folder)
            organization_id = fill(address(server, SUPERUSER), resources)
            async with (
                httpx.AsyncClient(
                    transport=httpx.ASGITransport(create_app(runtime)),
                    base_url="http://bench",
                    headers={"Authorization": f"Bearer {api_key}"},
                    timeout=300,
                ) as client,
                await psycopg.AsyncConnection.connect(
                    address(server, SERVICE_ROLE), autocommit=True, options=PLANNER
                ) as plain,
            ):
                await plain.execute("SELECT set_config('carrel.organization_id', %s, false)", [str(organization_id)])
                process = server.process()
                assert process is not None
                setting = Setting(client, plain, organization_id, resources, process)
                lines = [
                    *await measure_lists(setting),
                    *await measure_questions(setting),
                    await measure_setting(setting),
                ]
        report("permissions" if resources == RESOURCES else "permissions-scale", lines)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fill(owner_url: str, resources: int) -> UUID:
    """Make the organization; its id."""
    began = time.perf_counter()
    with psycopg.connect(owner_url, autocommit=True) as connection:
        found = connection.execute("SELECT organization_id FROM organizations").fetchone()
        organization_id = cast("tuple[UUID]", found)[0]
        directory.make(connection, organization_id=organization_id, resources=resources)
    print(f"made {resources} resources in {time.perf_counter() - began:.0f} s")
    return organization_id


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", action="store_true", help="a million resources")
    arguments = parser.parse_args()
    asyncio.run(main(SCALED if arguments.scale else RESOURCES))
