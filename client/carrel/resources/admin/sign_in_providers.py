"""admin/signInProviders: the OpenID Connect providers that people of the organization sign in with."""

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from pydantic import SecretStr

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any, as_list
from carrel.resources._choices import AnyGroupsClaim
from carrel.wire import sign_in_providers as wire

M = TypeVar("M")


class SignInProviders(Resource[M]):
    """Providers that people of the organization sign in with, in place of a password here."""

    @property
    def with_raw_response(self) -> "SignInProviders[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return SignInProviders(self._session.as_raw())

    @Operation
    def create(
        self,
        name: str,
        *,
        issuer: str,
        client_id: str,
        client_secret: str,
        domains: Iterable[str],
        trust_addresses: bool = False,
        groups_claim: AnyGroupsClaim = wire.GroupsClaim.NONE,
        create_accounts: bool = False,
        sign_out_there: bool = False,
    ) -> Call[wire.AdminSignInProvidersCreateResponse]:
        """Add a provider, whose name is on the button of the sign-in page.

        `trust_addresses` counts its addresses as verified though its tokens don't say so, as those of Microsoft Entra
        ID. Raises InvalidRequestError `issuer_not_allowed` and `addresses_not_trustable`, ConflictError `issuer_taken`,
        `domain_taken` and `too_many_sign_in_providers`.
        """
        request = wire.AdminSignInProvidersCreateRequest(
            name=name,
            issuer=issuer,
            client_id=client_id,
            client_secret=SecretStr(client_secret),
            domains=as_list(str, domains),
            trust_addresses=trust_addresses,
            groups_claim=as_any(wire.GroupsClaim, groups_claim),
            create_accounts=create_accounts,
            sign_out_there=sign_out_there,
        )
        return Call(wire.ADMIN_SIGN_IN_PROVIDERS_CREATE, request)

    @ListOperation
    def list(
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.SignInProvider, wire.AdminSignInProvidersListResponse]:
        """Walk the providers, oldest first."""
        request = wire.AdminSignInProvidersListRequest(page_size=page_size, page_token=page_token)
        return Listing(wire.ADMIN_SIGN_IN_PROVIDERS_LIST, request, lambda page: page.sign_in_providers)

    @Operation
    def get(self, provider_id: Id) -> Call[wire.AdminSignInProvidersGetResponse]:
        """Get a provider. Raises NotFoundError `sign_in_provider_not_found`."""
        request = wire.AdminSignInProvidersGetRequest(provider_id=as_any(UUID, provider_id))
        return Call(wire.ADMIN_SIGN_IN_PROVIDERS_GET, request)

    @Operation
    def update(
        self,
        provider_id: Id,
        *,
        name: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        domains: Iterable[str] | None = None,
        trust_addresses: bool | None = None,
        groups_claim: AnyGroupsClaim | None = None,
        create_accounts: bool | None = None,
        sign_out_there: bool | None = None,
    ) -> Call[wire.AdminSignInProvidersUpdateResponse]:
        """Change a provider; what isn't given stays, and its issuer always does."""
        request = wire.AdminSignInProvidersUpdateRequest(
            provider_id=as_any(UUID, provider_id),
            name=name,
            client_id=client_id,
            client_secret=None if client_secret is None else SecretStr(client_secret),
            domains=as_list(str, domains),
            trust_addresses=trust_addresses,
            groups_claim=as_any(wire.GroupsClaim, groups_claim),
            create_accounts=create_accounts,
            sign_out_there=sign_out_there,
        )
        return Call(wire.ADMIN_SIGN_IN_PROVIDERS_UPDATE, request)

    @Operation
    def delete(self, provider_id: Id) -> Call[wire.AdminSignInProvidersDeleteResponse]:
        """Delete a provider: nobody signs in with it any more. Accounts and memberships that came by it stay."""
        request = wire.AdminSignInProvidersDeleteRequest(provider_id=as_any(UUID, provider_id))
        return Call(wire.ADMIN_SIGN_IN_PROVIDERS_DELETE, request)

    @Operation
    def test(self, provider_id: Id) -> Call[wire.AdminSignInProvidersTestResponse]:
        """Read a provider's metadata and keys; `problems` say what is wrong with it, as far as can be told."""
        request = wire.AdminSignInProvidersTestRequest(provider_id=as_any(UUID, provider_id))
        return Call(wire.ADMIN_SIGN_IN_PROVIDERS_TEST, request)
