"""admin/serviceAccounts, admin/serviceAccountTokens: identities that aren't people, and what they are called with.

Service accounts are enabled by organization; where they aren't, `create` and `mint` raise PermissionDeniedError
`service_accounts_disabled`, and what there is can still be listed, previewed, revoked and deleted.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any, as_list
from carrel.resources._choices import AnyScope
from carrel.wire import service_accounts as wire
from carrel.wire.scopes import Scope

M = TypeVar("M")


class ServiceAccounts(Resource[M]):
    """Identities that aren't people; they have the access they are granted and no other."""

    @property
    def with_raw_response(self) -> "ServiceAccounts[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return ServiceAccounts(self._session.as_raw())

    @Operation
    def create(self, display_name: str) -> Call[wire.AdminServiceAccountsCreateResponse]:
        """Create a service account, which may read nothing yet: grant it access, or put it into groups.

        Its address is made from its name, on the organization's domain.
        """
        request = wire.AdminServiceAccountsCreateRequest(display_name=display_name)
        return Call(wire.ADMIN_SERVICE_ACCOUNTS_CREATE, request)

    @ListOperation
    def list(
        self,
        *,
        query: str | None = None,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.ServiceAccount, wire.AdminServiceAccountsListResponse]:
        """Walk the service accounts, those of `ids` (at most 1000) if given; `query` is part of a name or address."""
        request = wire.AdminServiceAccountsListRequest(
            query=query, ids=as_list(UUID, ids), page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_SERVICE_ACCOUNTS_LIST, request, lambda page: page.service_accounts)

    @Operation
    def delete(self, service_account_id: Id) -> Call[wire.AdminServiceAccountsDeleteResponse]:
        """Delete a service account: its tokens stop at once, it leaves its groups; documents it uploaded stay."""
        request = wire.AdminServiceAccountsDeleteRequest(service_account_id=as_any(UUID, service_account_id))
        return Call(wire.ADMIN_SERVICE_ACCOUNTS_DELETE, request)


class ServiceAccountTokens(Resource[M]):
    """Tokens of service accounts; scopes narrow what the account may do and never widen it."""

    @property
    def with_raw_response(self) -> "ServiceAccountTokens[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return ServiceAccountTokens(self._session.as_raw())

    @Operation
    def mint(
        self,
        service_account_id: Id,
        name: str,
        *,
        scopes: Iterable[AnyScope],
        description: str | None = None,
        expires_at: datetime | str | None = None,
    ) -> Call[wire.AdminServiceAccountTokensMintResponse]:
        """Create a token, for one year unless `expires_at` says otherwise; `token` is its value, shown this once.

        When the answer was lost on the way, the retry raises ConflictError `already_done`: revoke that token and create
        another.
        """
        request = wire.AdminServiceAccountTokensMintRequest(
            service_account_id=as_any(UUID, service_account_id),
            name=name,
            description=description,
            scopes=as_list(Scope, scopes),
            expires_at=as_any(datetime, expires_at),
        )
        return Call(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_MINT, request)

    @ListOperation
    def list(
        self,
        service_account_id: Id | None = None,
        *,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.ServiceAccountToken, wire.AdminServiceAccountTokensListResponse]:
        """Walk the tokens without their values, of every account unless one is named; those that stopped too.

        `ids` leaves those of these ids, at most 1000.
        """
        request = wire.AdminServiceAccountTokensListRequest(
            service_account_id=as_any(UUID, service_account_id),
            ids=as_list(UUID, ids),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_LIST, request, lambda page: page.tokens)

    @Operation
    def revoke(self, token_id: Id) -> Call[wire.AdminServiceAccountTokensRevokeResponse]:
        """Stop a token at once."""
        request = wire.AdminServiceAccountTokensRevokeRequest(token_id=as_any(UUID, token_id))
        return Call(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_REVOKE, request)

    @Operation
    def preview_reach(
        self,
        service_account_id: Id | None = None,
        scopes: Iterable[AnyScope] | None = None,
        *,
        token_id: Id | None = None,
    ) -> Call[wire.AdminServiceAccountTokensPreviewReachResponse]:
        """Return what a token with these scopes could read and do now.

        Name an account and scopes before there is a token, or else the `token_id` of one that exists; anything between
        raises InvalidArgumentError.
        """
        request = wire.AdminServiceAccountTokensPreviewReachRequest(
            service_account_id=as_any(UUID, service_account_id),
            scopes=as_list(Scope, scopes),
            token_id=as_any(UUID, token_id),
        )
        return Call(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_PREVIEW_REACH, request)
