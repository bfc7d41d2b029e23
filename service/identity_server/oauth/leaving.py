"""Signing out at the provider, too, where the organization wants it (OpenID Connect RP-Initiated Logout 1.0)."""

from sqlalchemy.ext.asyncio import AsyncConnection

from service.identity_server.signin.browsers import Browser
from service.identity_server.signin.provider import ProviderAway, open_provider
from service.identity_server.signin.providers import queries
from service.identity_server.signin.providers.queries import LeftSession
from service.identity_server.signin.providers.registrations import ChosenProvider, open_registration
from service.identity_server.signin.sessions import SignedIn
from service.platform.errors import ServiceError
from service.platform.sealing import SealError, unseal
from service.runtime import Runtime


async def find_session_there(connection: AsyncConnection, browser: Browser, person: SignedIn) -> LeftSession | None:
    """Find the session that a browser's has at a provider which people are to be signed out at."""
    return await queries.find_session_there(connection, person.organization_id, secret_hash=browser.hash)


async def sign_out_address(runtime: Runtime, person: SignedIn, left: LeftSession) -> str | None:
    """Return the provider's address that signs the browser out there; None where there is none, or it is away."""
    organization_id = person.organization_id
    id_token: str | None = None
    if left.sealed_id_token is not None:
        key = runtime.keys.provider_key(organization_id)
        try:
            id_token = unseal(key, row_id=left.session_id, sealed=left.sealed_id_token).get_secret_value()
        except SealError:  # the service's key has changed since
            id_token = None
    back_to = f"{runtime.settings.issuer}/account/sign-in"
    try:
        registered = await open_registration(runtime, ChosenProvider(organization_id, left.provider_id))
        async with open_provider(registered.registration, runtime) as provider:
            return await provider.sign_out_address(back_to=back_to, id_token=id_token)
    except (ProviderAway, ServiceError):
        return None
