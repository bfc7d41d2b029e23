"""admin/oauthClients: the applications that people may let act for them on v1, or at /mcp."""

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any, as_list
from carrel.resources._choices import AnyOAuthAudience, AnyOAuthClientStatus
from carrel.wire import oauth_clients as wire

M = TypeVar("M")


class OAuthClients(Resource[M]):
    """Applications that sign people in (RFC 6749): each has its redirect addresses and the scopes it may ask for."""

    @property
    def with_raw_response(self) -> "OAuthClients[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return OAuthClients(self._session.as_raw())

    @Operation
    def create(
        self,
        name: str,
        *,
        redirect_uris: Iterable[str],
        scopes: Iterable[str],
        audience: AnyOAuthAudience | None = None,
        is_public: bool | None = None,
    ) -> Call[wire.AdminOAuthClientsCreateResponse]:
        """Create a client, approved at once; `client_secret` is shown this once.

        `audience` is what its tokens are for: `"api"` (v1), or `"mcp"` (the endpoint /mcp). Only for the latter may it
        be public (`is_public`): it has no secret then.

        When the answer was lost on the way, the retry raises ConflictError `already_done`: rotate its secret.
        """
        request = wire.AdminOAuthClientsCreateRequest(
            name=name,
            redirect_uris=as_list(str, redirect_uris),
            scopes=as_list(str, scopes),
            audience=as_any(wire.OAuthAudience, audience),
            is_public=is_public,
        )
        return Call(wire.ADMIN_OAUTH_CLIENTS_CREATE, request)

    @Operation
    def request(
        self,
        name: str,
        *,
        redirect_uris: Iterable[str],
        scopes: Iterable[str],
        audience: AnyOAuthAudience | None = None,
        is_public: bool | None = None,
    ) -> Call[wire.AdminOAuthClientsRequestResponse]:
        """Ask for a client, which can do nothing until an admin approves it; `client_secret` is shown this once."""
        request = wire.AdminOAuthClientsRequestRequest(
            name=name,
            redirect_uris=as_list(str, redirect_uris),
            scopes=as_list(str, scopes),
            audience=as_any(wire.OAuthAudience, audience),
            is_public=is_public,
        )
        return Call(wire.ADMIN_OAUTH_CLIENTS_REQUEST, request)

    @ListOperation
    def list(
        self,
        *,
        status: AnyOAuthClientStatus | None = None,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.OAuthClient, wire.AdminOAuthClientsListResponse]:
        """Walk the clients, without their secrets; those of one status, and of `ids` (at most 1000), if given."""
        request = wire.AdminOAuthClientsListRequest(
            status=as_any(wire.OAuthClientStatus, status),
            ids=as_list(UUID, ids),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.ADMIN_OAUTH_CLIENTS_LIST, request, lambda page: page.oauth_clients)

    @Operation
    def update(
        self,
        client_id: Id,
        *,
        name: str | None = None,
        redirect_uris: Iterable[str] | None = None,
        scopes: Iterable[str] | None = None,
    ) -> Call[wire.AdminOAuthClientsUpdateResponse]:
        """Change a client; what is left out stays. A scope that is taken away stops at once."""
        request = wire.AdminOAuthClientsUpdateRequest(
            client_id=as_any(UUID, client_id),
            name=name,
            redirect_uris=as_list(str, redirect_uris),
            scopes=as_list(str, scopes),
        )
        return Call(wire.ADMIN_OAUTH_CLIENTS_UPDATE, request)

    @Operation
    def approve(self, client_id: Id) -> Call[wire.AdminOAuthClientsApproveResponse]:
        """Let a client be used that a member asked for."""
        request = wire.AdminOAuthClientsApproveRequest(client_id=as_any(UUID, client_id))
        return Call(wire.ADMIN_OAUTH_CLIENTS_APPROVE, request)

    @Operation
    def rotate_secret(self, client_id: Id) -> Call[wire.AdminOAuthClientsRotateSecretResponse]:
        """Give a client a new secret, shown this once; the one before stops at once."""
        request = wire.AdminOAuthClientsRotateSecretRequest(client_id=as_any(UUID, client_id))
        return Call(wire.ADMIN_OAUTH_CLIENTS_ROTATE_SECRET, request)

    @Operation
    def delete(self, client_id: Id) -> Call[wire.AdminOAuthClientsDeleteResponse]:
        """Delete a client: its codes and tokens stop at once, and what people allowed it is forgotten."""
        request = wire.AdminOAuthClientsDeleteRequest(client_id=as_any(UUID, client_id))
        return Call(wire.ADMIN_OAUTH_CLIENTS_DELETE, request)

    @ListOperation
    def list_consents(
        self,
        *,
        client_id: Id | None = None,
        email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.OAuthConsent, wire.AdminOAuthClientsListConsentsResponse]:
        """Walk what people have allowed clients; what they allowed this client, or this person allowed, if given."""
        request = wire.AdminOAuthClientsListConsentsRequest(
            client_id=as_any(UUID, client_id), email=email, page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_OAUTH_CLIENTS_LIST_CONSENTS, request, lambda page: page.consents)

    @Operation
    def withdraw_consents(
        self, client_id: Id, *, email: str | None = None
    ) -> Call[wire.AdminOAuthClientsWithdrawConsentsResponse]:
        """Withdraw what people have allowed a client, or this person alone: its codes and tokens stop at once."""
        request = wire.AdminOAuthClientsWithdrawConsentsRequest(client_id=as_any(UUID, client_id), email=email)
        return Call(wire.ADMIN_OAUTH_CLIENTS_WITHDRAW_CONSENTS, request)
