"""The ways to sign in beside a password that the sign-in page shows."""

from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.identity_server.signin.providers import queries
from service.platform.identifiers import NIL
from service.platform.settings import Settings

MOST_SHOWN = 100


@dataclass(frozen=True)
class Way:
    """A provider's name, and the address that leads to it."""

    name: str
    address: str


def way_of_settings(settings: Settings, *, address: str) -> Way | None:
    """Return the way by the provider of the settings, if there is one."""
    issuer = settings.oidc_issuer
    return None if issuer is None else Way(urlsplit(issuer).hostname or issuer, address)


async def list_ways(
    connection: AsyncConnection, organization_id: UUID, settings: Settings, *, address: str
) -> list[Way]:
    """List the ways into an organization: its providers, oldest first, and the one of the settings.

    `address` is where the one of the settings is left for; those of the organization are below it.
    """
    path, mark, query = address.partition("?")
    found = await queries.list_providers(connection, organization_id, after=NIL, limit=MOST_SHOWN)
    ways = [Way(one.name, f"{path}/{one.provider_id}{mark}{query}") for one in found]
    own = way_of_settings(settings, address=address)
    return [*ways, own] if own else ways
