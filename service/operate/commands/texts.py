"""`texts erase`."""

import asyncio
from typing import Annotated

import typer

from service.operate.commands.context import format_count, new_group, open_database, settings_of
from service.platform.settings import Settings

app = new_group("What people wrote: queries, comments, conversations with agents.")


@app.command()
def erase(
    context: typer.Context, email: Annotated[str, typer.Option(help="The address of the person who wrote them.")]
) -> None:
    """Erase a person's texts in every organization. The audit log and search log still show the actions."""
    count = asyncio.run(_erase(settings_of(context), email))
    typer.echo(f"{format_count(count, 'text')} erased. Backups taken before still hold them.", err=True)


async def _erase(settings: Settings, email: str) -> int:
    # Imported here, because it brings the whole service, which no other command needs.
    from service.domains.oversight.audit_log.erasure import erase_person  # noqa: PLC0415

    async with open_database(settings) as database:
        return await erase_person(database, email=email)
