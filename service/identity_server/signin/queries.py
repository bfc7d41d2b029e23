"""SQL of sessions, invitations, sign-in attempts and bound identities. Times come from the caller's clock."""

from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, Float, and_, case, cast, delete, func, literal, or_, select, true
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import normal_email
from service.auth.callers import Caller, unknown_user
from service.identity.queries import select_to_enter
from service.platform.errors import require
from service.platform.sql import columns_of, delete_rows, find_row, in_array, insert_new, matches, update_rows
from service.schema.identity import organizations, principals
from service.schema.signin import (
    answered_challenges,
    browser_sessions,
    failed_sign_ins,
    invitations,
    pending_sign_ins,
    sign_in_attempts,
    upstream_identities,
)

MOST_DOUBLINGS = 30
LONGEST_WAIT = timedelta(minutes=15)
REMEMBERED = timedelta(hours=1)
# An attempt that must wait is counted on an entry that began within this time.
COUNTED_ON = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Session:
    """A session; `password_mark` is None if it began without a password."""

    organization_id: UUID
    organization_name: str
    principal_id: UUID
    password_mark: bytes | None
    expires_at: datetime
    last_used_at: datetime | None
    confirmed_at: datetime | None
    entered: InitVar[str]  # not stored: entering the organization (set_organization) uses this column


@dataclass(frozen=True, slots=True)
class Person:
    """A person, who may sign in if active; `password_hash` is None without a password."""

    principal_id: UUID
    organization_id: UUID
    name: str
    email: str
    is_admin: bool
    active: bool
    password_hash: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Invitation:
    organization_id: UUID
    organization_name: str
    principal_id: UUID
    created_at: datetime
    expires_at: datetime
    entered: InitVar[str]  # not stored: entering the organization (set_organization) uses this column


_SESSION_OF_HASH = select_to_enter(browser_sessions.c.secret_hash, Session)
_INVITATION_OF_HASH = select_to_enter(invitations.c.secret_hash, Invitation)


async def enter_by_session(connection: Connection, *, secret_hash: bytes) -> Session | None:
    """Find a session by hash, and enter its organization; None from within another organization."""
    return await find_row(connection, _SESSION_OF_HASH, Session, {"param_secret_hash": secret_hash})


async def enter_by_invitation(connection: Connection, *, secret_hash: bytes) -> Invitation | None:
    """Find an invitation by hash, and set the transaction to its organization."""
    return await find_row(connection, _INVITATION_OF_HASH, Invitation, {"param_secret_hash": secret_hash})


async def put_invitation(
    connection: Connection, organization_id: UUID, *, row: Mapping[str, object], unless_after: datetime | None = None
) -> bool:
    """Replace a person's invitation; False if the current invitation expires later than `unless_after`."""
    new = insert(invitations).values({**row, "organization_id": organization_id})
    statement = new.on_conflict_do_update(
        index_elements=[invitations.c.principal_id],
        set_={name: new.excluded[name] for name in ("secret_hash", "created_at", "expires_at")},
        where=and_(
            invitations.c.organization_id == organization_id,
            true() if unless_after is None else invitations.c.expires_at <= unless_after,
        ),
    )
    return (await connection.execute(statement.returning(invitations.c.principal_id))).one_or_none() is not None


async def delete_invitations(connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID]) -> None:
    await delete_rows(connection, invitations, organization_id, in_array(invitations.c.principal_id, principal_ids))


# Where passwords are switched off, passwords count as absent, which also ends sessions that began with a password.
_PASSWORD = case(
    (
        select(organizations.c.passwords_enabled)
        .where(organizations.c.organization_id == principals.c.organization_id)
        .correlate(principals)
        .scalar_subquery(),
        principals.c.password_hash,
    )
)
_PERSON = columns_of(principals, Person, _PASSWORD.label("password_hash"))


async def get_person(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> Person | None:
    own = matches(principals, organization_id, kind="user", principal_id=principal_id)
    return await find_row(connection, select(*_PERSON).where(own), Person)


async def find_person(connection: Connection, organization_id: UUID, **key: str) -> Person | None:
    """Find an active or inactive person by `email` (lower case), or by `external_id`, the identity provider's id."""
    statement = select(*_PERSON).where(matches(principals, organization_id, kind="user", **key))
    return await find_row(connection, statement, Person)


async def require_user(connection: Connection, caller: Caller, email: str) -> UUID:
    """Return the id of the user with an address. Raises BadRequest `unknown_user`."""
    person = await find_person(connection, caller.organization_id, email=normal_email(email))
    return require(person, unknown_user("email", active=False)).principal_id


async def insert_session(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await connection.execute(insert(browser_sessions).values({**row, "organization_id": organization_id}))


async def delete_session(connection: Connection, organization_id: UUID, *, secret_hash: bytes) -> None:
    await delete_rows(connection, browser_sessions, organization_id, secret_hash=secret_hash)


async def begin_attempt(
    connection: Connection, organization_id: UUID, *, subject: bytes, free: int, now: datetime
) -> datetime | None:
    """Count an attempt before its check; return any wait's end. After `free` failures waits double to LONGEST_WAIT."""
    failures = case((sign_in_attempts.c.forgotten_at <= now, 1), else_=sign_in_attempts.c.failures + 1)
    values = {"failures": 1, "blocked_until": now, "forgotten_at": now + REMEMBERED}
    new = insert(sign_in_attempts).values(organization_id=organization_id, subject=subject, **values)
    statement = new.on_conflict_do_update(
        index_elements=[sign_in_attempts.c.organization_id, sign_in_attempts.c.subject],
        set_={
            "failures": failures,
            "blocked_until": literal(now) + _wait(failures, free=free),
            "forgotten_at": now + REMEMBERED,
        },
        where=and_(
            sign_in_attempts.c.organization_id == organization_id,
            or_(sign_in_attempts.c.blocked_until <= now, sign_in_attempts.c.forgotten_at <= now),
        ),
    ).returning(sign_in_attempts.c.subject)
    if (await connection.execute(statement)).one_or_none() is not None:
        return None
    blocked = select(sign_in_attempts.c.blocked_until).where(
        matches(sign_in_attempts, organization_id, subject=subject)
    )
    return (await connection.execute(blocked)).scalar_one_or_none()


def _wait(failures: ColumnElement[int], *, free: int) -> ColumnElement[timedelta]:
    doublings = func.least(func.greatest(failures - free, 0), MOST_DOUBLINGS)
    seconds = func.least(func.power(2.0, cast(doublings, Float)) - 1, LONGEST_WAIT.total_seconds())
    return seconds * literal(timedelta(seconds=1))


async def remember_once(
    connection: Connection, organization_id: UUID, *, subject: bytes, until: datetime, now: datetime
) -> bool:
    """Record a single-use value by digest until the given time; False if already recorded."""
    row = {"subject": subject, "failures": 0, "blocked_until": now, "forgotten_at": until}
    return await insert_new(connection, sign_in_attempts, {**row, "organization_id": organization_id})


async def take_back_attempt(connection: Connection, organization_id: UUID, *, subject: bytes, now: datetime) -> None:
    """Subtract an attempt from a subject's failures, if any, and end the subject's wait."""
    failures = sign_in_attempts.c.failures
    values = {"failures": failures - 1, "blocked_until": now}
    await update_rows(connection, sign_in_attempts, organization_id, values, failures > 0, subject=subject)


async def delete_attempts(connection: Connection, organization_id: UUID, *, subject: bytes) -> None:
    await delete_rows(connection, sign_in_attempts, organization_id, subject=subject)


async def count_failed_sign_in(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> bool:
    """Count a failed sign-in per person, network and time span; return whether it is the first."""
    new = insert(failed_sign_ins).values({**row, "organization_id": organization_id})
    kept = failed_sign_ins.c
    statement = new.on_conflict_do_update(
        index_elements=[kept.organization_id, kept.principal_id, kept.began_at, kept.network],
        set_={"attempts": kept.attempts + 1, "last_at": new.excluded.last_at},
    ).returning(kept.audit_log_id)
    return (await connection.execute(statement)).scalar_one() == row["audit_log_id"]


async def count_refused_sign_in(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, network: str, now: datetime
) -> None:
    """Count a sign-in refused because of a wait on the person's newest failures, preferably from the same network."""
    kept = failed_sign_ins.c
    newest = (
        select(kept.audit_log_id)
        .where(
            kept.organization_id == organization_id, kept.principal_id == principal_id, kept.began_at > now - COUNTED_ON
        )
        .order_by((kept.network == network).desc(), kept.began_at.desc())
        .limit(1)
    )
    counted, key = {"attempts": kept.attempts + 1, "last_at": now}, {"audit_log_id": newest.scalar_subquery()}
    await update_rows(connection, failed_sign_ins, organization_id, counted, **key)


async def confirm_session(connection: Connection, organization_id: UUID, *, secret_hash: bytes, now: datetime) -> None:
    await update_rows(connection, browser_sessions, organization_id, {"confirmed_at": now}, secret_hash=secret_hash)


async def touch_session(connection: Connection, organization_id: UUID, *, secret_hash: bytes, now: datetime) -> None:
    await update_rows(connection, browser_sessions, organization_id, {"last_used_at": now}, secret_hash=secret_hash)


async def delete_expired(connection: Connection, organization_id: UUID, *, now: datetime) -> None:
    """Delete expired sessions, invitations, pending sign-ins and challenges, and attempts that no longer count."""
    for ends in (
        browser_sessions.c.expires_at,
        sign_in_attempts.c.forgotten_at,
        invitations.c.expires_at,
        pending_sign_ins.c.expires_at,
        answered_challenges.c.expires_at,
    ):
        await connection.execute(delete(ends.table).where(ends.table.c.organization_id == organization_id, ends < now))


async def find_identity(connection: Connection, organization_id: UUID, *, issuer: str, subject: str) -> UUID | None:
    statement = select(upstream_identities.c.principal_id).where(
        matches(upstream_identities, organization_id, issuer=issuer, subject=subject)
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def bind_identity(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> bool:
    """Bind a subject to a person for good; False if either is already bound."""
    return await insert_new(connection, upstream_identities, {**row, "organization_id": organization_id})


async def delete_identities(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> int:
    """Delete a person's identities at upstream providers, so that the next sign-in binds again; return the number."""
    return await delete_rows(connection, upstream_identities, organization_id, principal_id=principal_id)


async def delete_identities_of(connection: Connection, organization_id: UUID, *, issuer: str) -> None:
    await delete_rows(connection, upstream_identities, organization_id, issuer=issuer)
