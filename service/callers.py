"""Who is asking: from a credential to the caller whose permissions every query is narrowed by.

Nothing is kept between requests, so that a revoked key, a deactivated user or a lost group membership counts from the
next request on.
"""

import hmac
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service import secrets
from service.errors import BadRequest, FieldError, Forbidden, Unauthenticated
from service.identity import queries
from service.identity.principals import normal_email
from service.sql import AnyRow


@dataclass(frozen=True)
class Caller:
    """The acting principal of a request.

    `principals` are all it acts with: itself, every group it is in (nested ones too, each once) and, for an active
    user, the organization's own id, which stands for everyone in it. `acting_through` is the owner of the credential
    when the caller is a user whom a key acts for; `page_key` signs page tokens.
    """

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
    acting_through: UUID | None = None


async def authenticate(connection: AsyncConnection, authorization: str | None) -> Caller:
    """The caller of an `Authorization` header, whose organization this enters for the rest of the transaction.

    The transaction is a writing, READ COMMITTED one without an organization. Raises Unauthenticated: a key that is
    missing, unknown, expired or revoked, or whose owner is no longer active.
    """
    value = _bearer(authorization)
    _refuse_other_kinds(value)
    secret_hash = secrets.hash_secret(value)
    key = await queries.enter_by_api_key(connection, secret_hash)
    if key is None or not hmac.compare_digest(key.secret_hash, secret_hash):
        raise _unknown(value)
    if key.revoked_at is not None:
        raise _refused("credential_revoked", "This API key was revoked. Use another one.")
    if key.expired:
        raise _refused("credential_expired", "This API key has expired. Ask an admin for a new one.")
    owner = await queries.get_acting_principal(connection, key.organization_id, principal_id=key.owner_id)
    if owner is None or not owner.active:
        raise _refused("owner_inactive", "The owner of this API key is not active any more. Ask an admin.")
    if key.unused_for_a_minute:
        await queries.touch_api_key(connection, key.organization_id, api_key_id=key.api_key_id)
    return _caller(key, owner)


async def acting_for(
    connection: AsyncConnection, caller: Caller, user_email: str | None, *, field: str = "userEmail"
) -> Caller:
    """The user whom the caller's key acts for; the caller itself when no user is named (in the request's `field`).

    Raises Forbidden when the key may not act for users, BadRequest when there is no active user of that address.
    """
    if user_email is None:
        return caller
    if not caller.may_act_for_users:
        raise Forbidden(
            "This API key may not act for users. Leave out the user's address, or use a key that may.",
            code="key_may_not_act_for_users",
        )
    user = await queries.find_acting_user(connection, caller.organization_id, email=normal_email(user_email))
    if user is None:
        message = f"There is no active user with the address {user_email!r} in this organization."
        raise BadRequest(message, code="unknown_user", details=[FieldError(field, message)])
    return replace(
        caller,
        principal_id=user.principal_id,
        principals=_principals(user),
        kind=user.kind,
        email=user.email,
        name=user.name,
        is_admin=user.is_admin,
        acting_through=caller.principal_id,
    )


def _caller(key: AnyRow, owner: AnyRow) -> Caller:
    return Caller(
        organization_id=key.organization_id,
        principal_id=owner.principal_id,
        principals=_principals(owner),
        kind=owner.kind,
        email=owner.email,
        name=owner.name,
        is_admin=owner.is_admin,
        credential_id=key.api_key_id,
        may_act_for_users=key.may_act_for_users,
        page_key=key.page_key,
    )


def _principals(principal: AnyRow) -> tuple[UUID, ...]:
    everyone: list[UUID] = [principal.organization_id] if principal.kind == "user" else []
    return tuple(sorted([*principal.memberships, *everyone]))


def _bearer(authorization: str | None) -> str:
    if authorization is None:
        raise _refused("missing_credential", "Send a credential: `Authorization: Bearer <API key>`.")
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not value.strip():
        raise _refused("malformed_authorization", "The Authorization header is `Bearer <API key>`.")
    return value.strip()


def _refuse_other_kinds(value: str) -> None:
    if value.startswith(secrets.ACCESS_TOKEN):
        raise _refused("wrong_version", "An access token works on /api/v1; /api/v0 takes an API key.")
    if not value.startswith(secrets.PREFIXES):
        raise _refused("invalid_credential", f"This is not an API key: one begins with {secrets.API_KEY!r}.")


def _unknown(value: str) -> Unauthenticated:
    if not secrets.checksum_matches(value):
        return _refused("invalid_credential", "No such API key; it looks mistyped or cut off. Copy it again.")
    return _refused("invalid_credential", "No such API key. Ask an admin for a new one.")


def _refused(code: str, message: str) -> Unauthenticated:
    return Unauthenticated(message, code=code)
