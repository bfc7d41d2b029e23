"""The provider of a sign-in with its secret, an organization's or the settings'; and the links on the sign-in page."""

from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.sign_in_providers import GroupsClaim
from service.identity_server.signin.id_tokens import text_of
from service.identity_server.signin.provider import Registration, SignedInThere, registration_of
from service.identity_server.signin.providers import queries
from service.identity_server.signin.providers.queries import ChosenProvider, StoredProvider
from service.identity_server.signin.sessions import ProviderSession
from service.platform.errors import BadRequest, NotFound, require
from service.platform.identifiers import NIL
from service.platform.secrets import try_unseal
from service.platform.settings import Settings
from service.platform.sql import Window
from service.runtime import Runtime

# The longest ID token that is sent to the provider at sign-out: browsers and servers limit addresses.
LONGEST_HINT = 6000


@dataclass(frozen=True)
class Registered:
    """The service's registration at a provider; `stored` is None for the provider of the settings."""

    registration: Registration
    stored: StoredProvider | None

    @property
    def issuer(self) -> str:
        return self.registration.issuer

    def needed_claims(self) -> list[set[str]]:
        """Return the claims a sign-in needs in addition to the subject; any claim of each set is enough."""
        if self.stored is None:
            return [{"email"}]
        address = {"email", "preferred_username"} if self.stored.trust_addresses else {"email"}
        groups = self.stored.groups_claim
        return [address] if groups is GroupsClaim.NONE else [address, {groups.value.lower()}]

    def session(self, runtime: Runtime, vouched: SignedInThere) -> ProviderSession | None:
        """Return data on an organization's provider, if any; the ID token only if sign-out needs it and it fits."""
        if self.stored is None:
            return None
        kept = self.stored.sign_out_there and len(vouched.id_token) <= LONGEST_HINT
        return ProviderSession(
            provider_id=self.stored.provider_id,
            session_id=text_of(vouched.subject.claims, "sid"),
            id_token=SecretStr(vouched.id_token) if kept else None,
            key=runtime.keys.provider_key(self.stored.organization_id),
        )


async def open_registration(runtime: Runtime, chosen: ChosenProvider | None) -> Registered:
    """Return the registration at a provider; None means the provider of the settings. Raises NotFound
    `sign_in_provider_not_found`, and BadRequest `no_upstream_provider` or `provider_secret_lost`."""
    if chosen is None:
        refusal = BadRequest("There is no other sign-in provider. Use your password.", code="no_upstream_provider")
        return Registered(require(registration_of(runtime.settings), refusal), None)
    async with runtime.database.transaction(chosen.organization_id, read_only=True) as connection:
        stored = await require_provider(connection, chosen.organization_id, provider_id=chosen.provider_id)
    return Registered(_require_registration(runtime, stored), stored)


async def require_provider(
    connection: Connection, organization_id: UUID, *, provider_id: UUID, lock: bool = False
) -> StoredProvider:
    """Return a provider of an organization. Raises NotFound `sign_in_provider_not_found`."""
    found = await queries.find_provider(connection, organization_id, provider_id=provider_id, lock=lock)
    return require(found, unknown_provider())


def unknown_provider() -> NotFound:
    message = "There is no such sign-in provider. List the providers with admin/signInProviders/list."
    return NotFound(message, code="sign_in_provider_not_found")


def _require_registration(runtime: Runtime, stored: StoredProvider) -> Registration:
    key = runtime.keys.provider_key(stored.organization_id)
    secret = try_unseal(key, row_id=stored.provider_id, sealed=stored.sealed_secret)
    if secret is None:
        raise BadRequest(
            "This provider's client secret was lost with the service's secret key. Ask an admin to enter it again.",
            code="provider_secret_lost",
        )
    return Registration(stored.provider_id, stored.issuer, stored.client_id, secret, stored.accepted_audiences)


MOST_SHOWN = 100


@dataclass(frozen=True)
class Way:
    name: str
    address: str


def way_of_settings(settings: Settings, *, address: str) -> Way | None:
    issuer = settings.oidc_issuer
    return None if issuer is None else Way(urlsplit(issuer).hostname or issuer, address)


async def list_ways(connection: Connection, organization_id: UUID, settings: Settings, *, address: str) -> list[Way]:
    """List the ways to sign in: providers, oldest first, below `address`, then the settings' provider at `address`."""
    path, mark, query = address.partition("?")
    found = await queries.list_providers(connection, organization_id, Window(NIL, MOST_SHOWN))
    ways = [Way(provider.name, f"{path}/{provider.provider_id}{mark}{query}") for provider in found]
    own = way_of_settings(settings, address=address)
    return [*ways, own] if own else ways
