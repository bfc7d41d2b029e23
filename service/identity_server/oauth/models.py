# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pyright: reportUnknownMemberType=false
# Authlib has no types, and its base classes name some parameters differently.
"""Clients, codes and tokens with the methods Authlib calls, backed by their rows."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, OAuth2Payload, OAuth2Request, TokenMixin

from carrel.wire.oauth_clients import OAuthAudience
from service.auth.audiences import hash_client_secret
from service.auth.scopes import covers, intersect_scopes, parse_scopes
from service.identity_server.requests import Parameters, all_of, first_of
from service.platform.networks import without_local_port


class _Payload(OAuth2Payload):
    def __init__(self, parameters: Parameters) -> None:
        self._data = first_of(parameters)
        self._datalist = all_of(parameters)

    @property
    def data(self) -> dict[str, str]:
        return self._data

    @property
    def datalist(self) -> Mapping[str, list[str]]:
        return self._datalist


class Request(OAuth2Request):
    """A request, read by Authlib; the person `granted` scopes, and last proved their identity at `confirmed_at`."""

    client: Any
    headers: Mapping[str, str]

    def __init__(
        self, method: Literal["GET", "POST"], *, parameters: Parameters, headers: Mapping[str, str] | None = None
    ) -> None:
        # Authlib refuses http and uses the address for nothing else; the service can't tell whether a proxy ends TLS.
        super().__init__(method, "https://localhost", headers=headers or {})
        self.payload = self._values = _Payload(parameters)
        self.granted: tuple[str, ...] = ()
        self.confirmed_at: datetime | None = None

    @property
    def form(self) -> dict[str, str]:
        return self._values.data

    args = form

    @property
    def values(self) -> Mapping[str, list[str]]:
        return self._values.datalist


@dataclass(frozen=True, eq=False)
class Client(ClientMixin):
    """A pending or approved client, with the name of its organization."""

    client_id: UUID
    organization_id: UUID
    organization_name: str
    name: str
    redirect_uris: Sequence[str]
    scopes: Sequence[str]
    status: str
    audience: OAuthAudience
    is_public: bool
    document_url: str | None
    secret_hash: bytes = field(repr=False)
    entered: InitVar[str]  # not stored: entering the organization (set_organization) uses this column

    def get_client_id(self) -> str:
        return str(self.client_id)

    def get_default_redirect_uri(self) -> None:
        """Return None: every request names its redirect URI (seed, "v1")."""

    def get_allowed_scope(self, scope: str | None) -> str | None:
        """Return the requested scopes, or all of the client's; None if a scope isn't registered. A client for /mcp may
        request any scope in the metadata, and gets its registered scopes (RFC 6749, section 3.3), or None."""
        asked = parse_scopes(scope or "")
        if asked is None:
            return None
        if self.audience is OAuthAudience.MCP and asked:
            return " ".join(intersect_scopes(asked, to=self.scopes)) or None
        return " ".join(asked or self.scopes) if all(covers(self.scopes, item) for item in asked) else None

    def describe_refused(self, scope: str) -> str:
        refused = [item for item in scope.split() if not covers(self.scopes, item)] or ["more than the person allowed"]
        return f"This client can't be given {' '.join(refused)[:200]}. It may ask for: {' '.join(self.scopes)}."

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Compare exactly (RFC 9700, section 2.1), except a public client's loopback port (RFC 8252, section 7.3)."""
        if redirect_uri in self.redirect_uris:
            return True
        local = without_local_port(redirect_uri) if self.is_public else None
        return local is not None and local in {without_local_port(item) for item in self.redirect_uris}

    def is_confidential_at(self, redirect_uris: Sequence[str]) -> bool:
        """Return whether the client is a v1 client with a secret, registered for exactly these redirect URIs."""
        return not self.is_public and self.audience is OAuthAudience.API and self.redirect_uris == redirect_uris

    def check_client_secret(self, client_secret: str) -> bool:
        """Compare a secret in constant time; a public client sends none."""
        if self.is_public:
            return not client_secret
        return hmac.compare_digest(self.secret_hash, hash_client_secret(client_secret, self.audience))

    def check_endpoint_auth_method(self, *_: str) -> bool:
        """Return True: `check_client_secret` has already judged the client's proof."""
        return True

    def check_response_type(self, _: str) -> bool:
        """Return True: the grant refuses every response type but `code`."""
        return True

    def check_grant_type(self, _: str) -> bool:
        """Return True: every client may use both grants."""
        return True


@dataclass(frozen=True, slots=True)
class StoredCode:
    """A code; if used, with the id of its family of tokens."""

    code_id: UUID
    principal_id: UUID
    redirect_uri: str
    scopes: Sequence[str]
    code_challenge: str
    expires_at: datetime
    used_at: datetime | None
    family_id: UUID | None
    address: str | None
    device: str | None
    confirmed_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredToken:
    token_id: UUID
    family_id: UUID
    client_id: UUID
    principal_id: UUID
    scopes: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoredRefreshToken(StoredToken):
    """A refresh token; `revoked_at` is the time its family was revoked."""

    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None


Row = TypeVar("Row", StoredCode, StoredToken)


class _Scoped(Generic[Row]):
    def __init__(self, row: Row, client: Client) -> None:
        self.row = row
        self._left = intersect_scopes(row.scopes, to=client.scopes)

    def get_scope(self) -> str:
        """Return the scopes allowed by the person and still registered for the client."""
        return " ".join(self._left)


class Code(_Scoped[StoredCode], AuthorizationCodeMixin):
    """A usable authorization code."""

    code_challenge_method = "S256"

    @property
    def code_challenge(self) -> str:
        return self.row.code_challenge

    def get_redirect_uri(self) -> str:
        """Return the code's redirect URI, to be repeated in the token request."""
        return self.row.redirect_uri


class Token(_Scoped[StoredToken], TokenMixin):
    """A usable refresh token, or a token to revoke."""

    def check_client(self, client: Client) -> bool:
        return self.row.client_id == client.client_id
