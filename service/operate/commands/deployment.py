"""`rotate-key` and `distribute-index`."""

import asyncio
from typing import Annotated

import typer

from service.operate.commands.context import CommandError, check_schema, open_access, settings_of
from service.operate.deployment import service
from service.operate.deployment.service import Rotation, rotate_secret_key
from service.operate.distribution import distribute_index as distribute


def rotate_key(
    context: typer.Context,
    lost: Annotated[
        bool, typer.Option("--lost", help="Continue without the data that only the lost old key can decrypt.")
    ] = False,
) -> None:
    """Change the secret key; no service may be running. Page tokens issued before become invalid."""
    settings = settings_of(context)
    rotation = Rotation(settings.data_dir, given=settings.secret_key, new=settings.new_secret_key, is_lost=lost)
    with open_access(settings, alone=True) as access:
        check_schema(access)
        is_changed = asyncio.run(rotate_secret_key(access.owner, rotation))
    if rotation.given is None:
        message = f"The secret key was changed. The new key is in {settings.data_dir / service.KEY_FILE}."
    elif is_changed:
        message = "The secret key was changed. Set the new CARREL_SECRET_KEY on every replica, then start them."
    else:
        message = "The secret key was already changed. Set CARREL_SECRET_KEY to the new key on every replica."
    typer.echo(message, err=True)


def distribute_index(
    context: typer.Context,
    shards: Annotated[
        int, typer.Option(min=1, max=64000, help="Parts of the index. With more parts, you can add servers later.")
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
    typer.echo(f"{count} tables are spread over the servers." if count else "All tables were already spread.", err=True)
