"""Callers by credential. No state is kept: a revoked key or a lost membership counts from the next request."""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import normal_email
from carrel.wire.oauth_clients import OAuthAudience
from carrel.wire.scopes import ApiScope
from service.auth import queries
from service.auth.audiences import PREFIXES
from service.auth.queries import ActingPrincipal, Consent, Credential, CredentialKind
from service.auth.scopes import intersect_scopes
from service.identity.queries import get_organization
from service.platform import secrets
from service.platform.batches import Answer, Batch
from service.platform.database import leave_out_when_full
from service.platform.errors import BadRequest, FieldError, Forbidden, Unauthenticated, require
from service.platform.secrets import Keys

Version = Literal["v0", "v1", "mcp"]
# Members of v0 requests that name the user to act for. On v1, all callers act as themselves.
ACTING_MEMBERS = ("userEmail", "uploadAsUserEmail")
NO_TIME = timedelta(0)


@dataclass(frozen=True)
class Caller:
    """The acting principal of a request. `principals` are all ids with its permissions: its own, every group (also
    nested) and, for an active user, the organization's id, for everyone. `acting_through` is the owner of a key that
    acts for a user. `scopes` limit a token (None: no limit); only `api:admin` makes an admin then. `page_key` signs
    page tokens. `collection_ids` limit a token for /mcp (None: no limit): documents elsewhere are unreadable."""

    organization_id: UUID
    principal_id: UUID
    principals: tuple[UUID, ...]
    kind: Literal["user", "serviceAccount"]
    email: str
    name: str
    is_admin: bool
    credential_id: UUID
    may_act_for_users: bool
    page_key: bytes = field(repr=False)
    scopes: frozenset[str] | None = None
    service_accounts_enabled: bool = False
    acting_through: UUID | None = None
    credential: CredentialKind = "apiKey"
    collection_ids: frozenset[UUID] | None = None
    client_id: UUID | None = None

    @property
    def origin(self) -> UUID:
        """The OAuth client of a person's request; for a key or service account token, the credential's owner."""
        return self.client_id or self.acting_through or self.principal_id


@dataclass(frozen=True)
class _Kind:
    credential: CredentialKind
    prefix: secrets.Prefix
    name: str
    owner: str
    renewal: str = "Ask an admin for a new credential."


_ACCESS_TOKEN = _Kind("accessToken", secrets.ACCESS_TOKEN, "access token", "user", "Refresh it, or sign in again.")
_MCP_ACCESS_TOKEN = replace(_ACCESS_TOKEN, prefix=secrets.MCP_ACCESS_TOKEN)
_KINDS: dict[Version, tuple[_Kind, ...]] = {
    "v0": (
        _Kind("apiKey", secrets.API_KEY, "API key", "owner"),
        _Kind("serviceAccountToken", secrets.SERVICE_ACCOUNT_TOKEN, "token", "service account"),
    ),
    "v1": (_ACCESS_TOKEN,),
    "mcp": (_MCP_ACCESS_TOKEN,),
}
_AUDIENCES: dict[Version, OAuthAudience] = {"v1": OAuthAudience.API, "mcp": OAuthAudience.MCP}
_OTHER_VERSION: dict[Version, str] = {
    "v0": "An access token works on /api/v1 or /mcp. Send an API key or a service-account token to /api/v0.",
    "v1": "API keys and service-account tokens work on /api/v0. Send an access token to /api/v1.",
    "mcp": "API keys and service-account tokens work on /api/v0. Send an access token to /mcp.",
}
_OTHER_AUDIENCE: dict[Version, str] = {
    "v1": "This access token works only at /mcp. Send an access token of a client that is registered for the API.",
    "mcp": "This access token works only on /api/v1. Authorize again with a client that is registered for /mcp.",
}

# Credentials that the API does not accept.
_ELSEWHERE: dict[secrets.Prefix, str] = {
    secrets.SCIM_TOKEN: "a SCIM token, which an identity provider sends to /scim/v2",
    secrets.CLIENT_SECRET: "a client secret, which a client sends to /api/oauth/token with its client id",
    secrets.REFRESH_TOKEN: "a refresh token, which /api/oauth/token exchanges for an access token",
    secrets.AUTHORIZATION_CODE: "an authorization code, which /api/oauth/token exchanges for an access token",
    secrets.SESSION: "a session, which only a browser sends, as a cookie",
    secrets.INVITATION: "an invitation, which a person opens as a link in a browser",
}
_LONGEST_SHOWN = 200
_SLIPS = {
    r".*(\$\{?\w+\}?|%\w+%|\{\{.*\}\}).*": "This is a variable's name. In a shell, put its value in double quotes.",
    r"<.*>|.*(your|xxx|\.\.\.|…).*": "This is the placeholder of an example. Replace it with your own credential.",
    r"bearer\s.*": "The header has Bearer twice. Send it once.",
    r"([\"'`]|\xe2\x80).*|.*[\"'`]": "The credential has quotes around it. Send it without quotes.",
    r".*\s.*": "The credential contains white space. It may be two values, or broken at the end of a line.",
}

_TAKEN_BACK = "The access of this client was revoked, by the person or by an admin. Connect the client again."


async def authenticate(
    connection: Connection,
    authorization: str | None,
    *,
    keys: Keys,
    version: Version = "v0",
    clock_offset: timedelta = NO_TIME,
) -> Caller:
    """Authenticate an `Authorization` header, return the caller and enter the caller's organization. The transaction
    must be a writing, READ COMMITTED transaction without an organization. Raises the errors of `Identification`."""
    identification = identify(authorization, keys=keys, version=version, clock_offset=clock_offset)
    await identification.batch.run(connection)
    caller = identification.caller()
    if identification.is_to_be_noted:
        await note_use(connection, caller)
    return caller


def identify(
    authorization: str | None, *, keys: Keys, version: Version = "v0", clock_offset: timedelta = NO_TIME
) -> "Identification":
    """Return the database questions for identifying a header's caller. Raises Unauthenticated for a bad header."""
    value = _bearer(authorization)
    if not value:
        raise _no_credential(authorization, version)
    kind = _require_kind(value, version=version)
    secret_hash = secrets.hash_secret(value)
    batch = Batch()
    answers = queries.ask_credential(batch, kind.credential, secret_hash=secret_hash, clock_offset=clock_offset)
    consent = queries.ask_consent(batch, secret_hash=secret_hash) if version == "mcp" else None
    return Identification(version, kind, value, secret_hash, keys, batch, *answers, consent)


@dataclass(frozen=True, slots=True)
class Identification:
    """The questions about a credential (`batch`, without an organization), and the result of the answers."""

    version: Version
    kind: _Kind
    value: str = field(repr=False)
    secret_hash: bytes = field(repr=False)
    keys: Keys
    batch: Batch
    credential: Answer[Credential]
    owner: Answer[ActingPrincipal]
    consent: Answer[Consent] | None

    def caller(self) -> Caller:
        """Return the caller after the batch has run. Raises Unauthenticated: unknown, expired or revoked credential, or
        inactive owner; Forbidden: a service account token while the organization has not enabled service accounts."""
        credential, kind = self.credential.row, self.kind
        if credential is None or not hmac.compare_digest(credential.secret_hash, self.secret_hash):
            raise _unknown_credential(kind, self.value)
        if credential.audience is not None and credential.audience != _AUDIENCES.get(self.version):
            raise _unauthenticated("wrong_audience", _OTHER_AUDIENCE[self.version])
        if self.consent is not None and self.consent.row is None:
            raise _unauthenticated("credential_revoked", _TAKEN_BACK)
        if credential.status == "revoked":
            raise _unauthenticated("credential_revoked", f"This {kind.name} was revoked. Use another one.")
        if credential.status == "expired":
            raise _unauthenticated("credential_expired", f"This {kind.name} has expired. {kind.renewal}")
        owner = self.owner.row
        if owner is None or not owner.active:
            raise _unauthenticated(
                "owner_inactive", f"The {kind.owner} of this {kind.name} is no longer active. Ask an admin."
            )
        if owner.kind == "serviceAccount" and not credential.service_accounts_enabled:
            raise service_accounts_disabled()
        page_key = self.keys.page_key(credential.organization_id)
        caller = _build_caller(credential, owner, kind=kind.credential, page_key=page_key)
        narrowed_to = self.consent and self.consent.row and self.consent.row.collection_ids
        return caller if narrowed_to is None else replace(caller, collection_ids=frozenset(narrowed_to))

    @property
    def is_to_be_noted(self) -> bool:
        """Whether the credential's last recorded use was a minute ago or more."""
        credential = self.credential.row
        return credential is not None and credential.unused_for_a_minute


async def note_use(connection: Connection, caller: Caller) -> None:
    """Record the use of a caller's credential, unless the disk is full."""
    async with leave_out_when_full(connection):
        await queries.touch_credential(
            connection, caller.organization_id, kind=caller.credential, credential_id=caller.credential_id
        )


async def acting_for(
    connection: Connection, caller: Caller, user_email: str | None, *, field: str = "userEmail"
) -> Caller:
    """Return the user for whom the caller's key acts, or the caller if `user_email` is None. Raises Forbidden if the
    key may not act for users, BadRequest for service accounts, access tokens, and addresses of no active user."""
    return require(await find_acting(connection, caller, user_email, field=field), unknown_user(field))


async def find_acting(
    connection: Connection, caller: Caller, user_email: str | None, *, field: str = "userEmail"
) -> Caller | None:
    """Like `acting_for`, but None without an active user. Raises Forbidden, BadRequest if no user may be named."""
    if user_email is None:
        return caller
    _require_acting(caller, field)
    user = await queries.find_acting_user(connection, caller.organization_id, email=normal_email(user_email))
    return None if user is None else _act_for(caller, user)


@dataclass(frozen=True, slots=True)
class ActingFor:
    """A question in a batch: the user for a caller to act for."""

    _caller: Caller
    _user: Answer[ActingPrincipal] | None
    _field: str

    def caller(self) -> Caller:
        """Return or raise the result of `acting_for`, once the batch has run."""
        if self._user is None:
            return self._caller
        return _act_for(self._caller, require(self._user.row, unknown_user(self._field)))


def ask_acting_for(batch: Batch, caller: Caller, user_email: str | None, *, field: str = "userEmail") -> ActingFor:
    """Like `acting_for`, but in a batch. Raises Forbidden and BadRequest for callers that may not name a user."""
    if user_email is None:
        return ActingFor(caller, None, field)
    _require_acting(caller, field)
    user = queries.ask_acting_user(batch, caller.organization_id, email=normal_email(user_email))
    return ActingFor(caller, user, field)


def _require_acting(caller: Caller, field: str) -> None:
    if caller.credential == "accessToken":
        raise acts_as_its_user(field)
    if caller.kind == "serviceAccount":
        message = f"A service-account token acts as its service account, never as a person. Leave out {field}."
        raise BadRequest(message, code="service_account_acts_as_itself", details=[FieldError(field, message)])
    if not caller.may_act_for_users:
        message = "This API key may not act for users. Leave out the user's address, or use a key that may."
        raise Forbidden(message, code="key_may_not_act_for_users")


def unknown_user(field: str, *, active: bool = True) -> BadRequest:
    message = (
        "There is no active user with this address in this organization."
        if active
        else "There is no user with this address in this organization."
    )
    return BadRequest(message, code="unknown_user", details=[FieldError(field, message)])


def _act_for(caller: Caller, user: ActingPrincipal) -> Caller:
    return replace(_replace_principal(caller, user), acting_through=caller.principal_id)


async def load_service_account_caller(
    connection: Connection, caller: Caller, *, account_id: UUID, scopes: Iterable[str]
) -> Caller | None:
    """Return the caller of a service account's token with these scopes; None if unknown, inactive or deleted."""
    account = await queries.get_acting_principal(connection, caller.organization_id, principal_id=account_id)
    if account is None or account.kind != "serviceAccount" or not account.active:
        return None
    bearer = replace(_replace_principal(caller, account), scopes=frozenset(scopes), may_act_for_users=False)
    # An admin may ask with an access token about another kind of token.
    return replace(bearer, credential="serviceAccountToken")


async def reload_caller(
    connection: Connection,
    organization_id: UUID,
    *,
    principal_id: UUID,
    credential_id: UUID,
    acting_through: UUID | None,
    keys: Keys,
    may_be_admin: bool = False,
) -> Caller | None:
    """Load the caller of an earlier request again, without scopes; None if the principal may no longer sign in. The
    caller is an admin only with `may_be_admin`, and if the principal is still an admin."""
    principal = await queries.get_acting_principal(connection, organization_id, principal_id=principal_id)
    enabled = (await get_organization(connection, organization_id)).service_accounts_enabled
    if principal is None or not principal.active or (principal.kind == "serviceAccount" and not enabled):
        return None
    return Caller(
        organization_id=organization_id,
        principal_id=principal.principal_id,
        principals=principal.principals,
        kind=principal.kind,
        email=principal.email,
        name=principal.name,
        is_admin=may_be_admin and principal.is_admin,
        credential_id=credential_id,
        may_act_for_users=False,
        page_key=keys.page_key(organization_id),
        scopes=frozenset(),
        service_accounts_enabled=enabled,
        acting_through=acting_through,
    )


def service_accounts_disabled() -> Forbidden:
    return Forbidden(
        "Service accounts are not enabled in this organization. An admin enables them with admin/organization/update.",
        code="service_accounts_disabled",
    )


def acts_as_its_user(field: str) -> BadRequest:
    message = f"An access token acts only as the person who allowed it. Leave out {field}."
    return BadRequest(message, code="access_token_acts_as_its_user", details=[FieldError(field, message)])


def _build_caller(credential: Credential, owner: ActingPrincipal, *, kind: CredentialKind, page_key: bytes) -> Caller:
    scopes = None if credential.scopes is None else frozenset(credential.scopes)
    is_admin = owner.is_admin
    if kind == "accessToken":
        scopes = frozenset(intersect_scopes(scopes or (), to=credential.client_scopes or ()))
        is_admin = is_admin and ApiScope.ADMIN in scopes
    return Caller(
        organization_id=credential.organization_id,
        principal_id=owner.principal_id,
        principals=owner.principals,
        kind=owner.kind,
        email=owner.email,
        name=owner.name,
        is_admin=is_admin,
        credential_id=credential.credential_id,
        may_act_for_users=credential.may_act_for_users,
        page_key=page_key,
        scopes=scopes,
        service_accounts_enabled=credential.service_accounts_enabled,
        credential=kind,
        client_id=credential.client_id,
    )


def _replace_principal(caller: Caller, principal: ActingPrincipal) -> Caller:
    return replace(
        caller,
        principal_id=principal.principal_id,
        principals=principal.principals,
        kind=principal.kind,
        email=principal.email,
        name=principal.name,
        is_admin=principal.is_admin,
    )


# Schemes of the Authorization header. Another first word may be a part of a secret, so no answer repeats it.
_OTHER_SCHEMES = frozenset({"basic", "digest", "token", "apikey", "api-key", "oauth", "negotiate", "key"})
_CREDENTIALS: dict[Version, tuple[str, str]] = {
    "v0": ("API key or token", ""),
    "v1": ("access token", " An OAuth client gets an access token when a person allows it: see docs/oauth.md."),
    "mcp": ("access token", " Connect with OAuth: the WWW-Authenticate header has the address of the metadata."),
}


def _bearer(authorization: str | None) -> str:
    scheme, _, value = (authorization or "").strip().partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def _no_credential(authorization: str | None, version: Version) -> Unauthenticated:
    credential, how = _CREDENTIALS[version]
    if authorization is None:
        return _unauthenticated(
            "missing_credential", f"Send a credential: `Authorization: Bearer <{credential}>`.{how}"
        )
    scheme = authorization.strip().partition(" ")[0]
    if scheme.lower() == "bearer":
        how = " The header has nothing after Bearer. The variable with the credential may be empty."
    elif scheme.startswith(secrets.PREFIXES):
        how = " Put Bearer and a space before this credential."
    elif scheme.lower() in _OTHER_SCHEMES:
        how = f" {scheme} isn't taken here.{how}"
    return _unauthenticated("malformed_authorization", f"Send the Authorization header `Bearer <{credential}>`.{how}")


def _require_kind(value: str, *, version: Version) -> _Kind:
    for kind in _KINDS[version]:
        if value.startswith(kind.prefix):
            return kind
    others = [kind.prefix for other, kinds in _KINDS.items() if other != version for kind in kinds]
    if value.startswith(tuple(PREFIXES.values())) and version in _OTHER_AUDIENCE:
        raise _unauthenticated("wrong_audience", _OTHER_AUDIENCE[version])
    if value.startswith(tuple(others)):
        raise _unauthenticated("wrong_version", _OTHER_VERSION[version])
    wanted = " or ".join(f"{kind.name} ({kind.prefix}…)" for kind in _KINDS[version])
    found = next((words for prefix, words in _ELSEWHERE.items() if value.startswith(prefix)), "no credential")
    raise _unauthenticated("invalid_credential", f"This is {found}. Send an {wanted}.{_hint_at_slip(value)}")


def _hint_at_slip(value: str) -> str:
    value = value[:_LONGEST_SHOWN]
    return next((f" {words}" for pattern, words in _SLIPS.items() if re.fullmatch(pattern, value, re.IGNORECASE)), "")


def _unknown_credential(kind: _Kind, value: str) -> Unauthenticated:
    if slip := _hint_at_slip(value):
        return _unauthenticated("invalid_credential", f"No such {kind.name}.{slip}")
    if not secrets.checksum_matches(value):
        return _unauthenticated(
            "invalid_credential", f"No such {kind.name}; it looks mistyped or cut off. Copy it again."
        )
    return _unauthenticated("invalid_credential", f"No such {kind.name}. {kind.renewal}")


def credential_gone() -> Unauthenticated:
    return _unauthenticated("invalid_credential", "This credential no longer exists. Use another one.")


def _unauthenticated(code: str, message: str) -> Unauthenticated:
    return Unauthenticated(message, code=code)
