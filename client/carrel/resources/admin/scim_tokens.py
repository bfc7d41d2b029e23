"""admin/scimTokens: the tokens by which an identity provider keeps people and groups (SCIM)."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any, as_list
from carrel.wire.scim_tokens import (
    ADMIN_SCIM_TOKENS_CREATE,
    ADMIN_SCIM_TOKENS_LIST,
    ADMIN_SCIM_TOKENS_REVOKE,
    AdminScimTokensCreateRequest,
    AdminScimTokensCreateResponse,
    AdminScimTokensListRequest,
    AdminScimTokensListResponse,
    AdminScimTokensRevokeRequest,
    AdminScimTokensRevokeResponse,
    ScimToken,
)

M = TypeVar("M")


class ScimTokens(Resource[M]):
    """Tokens of identity providers, for SCIM."""

    @property
    def with_raw_response(self) -> "ScimTokens[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return ScimTokens(self._session.as_raw())

    @Operation
    def create(self, name: str, *, expires_at: datetime | str | None = None) -> Call[AdminScimTokensCreateResponse]:
        """Create a token; `token` is its value, shown this once, and `base_url` the address to give with it.

        When the answer was lost on the way, the retry raises ConflictError `already_done`: revoke that token and
        create another.
        """
        request = AdminScimTokensCreateRequest(name=name, expires_at=as_any(datetime, expires_at))
        return Call(ADMIN_SCIM_TOKENS_CREATE, request)

    @ListOperation
    def list(
        self, *, ids: Iterable[Id] | None = None, page_size: int = 100, page_token: str | None = None
    ) -> Listing[ScimToken, AdminScimTokensListResponse]:
        """Walk the tokens without their values; those of `ids` (at most 1000), if given."""
        request = AdminScimTokensListRequest(ids=as_list(UUID, ids), page_size=page_size, page_token=page_token)
        return Listing(ADMIN_SCIM_TOKENS_LIST, request, lambda page: page.tokens)

    @Operation
    def revoke(self, token_id: Id) -> Call[AdminScimTokensRevokeResponse]:
        """Stop a token at once."""
        return Call(ADMIN_SCIM_TOKENS_REVOKE, AdminScimTokensRevokeRequest(token_id=as_any(UUID, token_id)))
