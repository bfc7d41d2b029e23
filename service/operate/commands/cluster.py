"""`distribute-index`."""

import asyncio
from typing import Annotated

import typer

from service.operate.commands.access import check_schema, open_access
from service.operate.commands.context import settings_of
from service.operate.commands.errors import CommandError
from service.operate.distribution import distribute_index as distribute


def distribute_index(
    context: typer.Context,
    shards: Annotated[
        int, typer.Option(min=1, max=64000, help="Parts of the index: more than servers, so that one can be added.")
    ] = 32,
) -> None:
    """Spread the index over the servers of a Citus cluster; no service may be running."""
    settings = settings_of(context)
    if settings.database_url is None:
        raise CommandError(
            "Set CARREL_DATABASE_URL to the coordinator's address: the embedded PostgreSQL has no Citus."
        )
    with open_access(settings) as access:
        check_schema(access)
        count = asyncio.run(distribute(access.owner, shards=shards))
    typer.echo(f"{count} tables are spread over the servers." if count else "All were spread before.", err=True)
