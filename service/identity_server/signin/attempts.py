"""Sign-in by address and password, slowed after failures of an account or a network. An attempt counts as failed before
the check, in its own transaction, so concurrent attempts count too. No answer, time or wait reveals an account."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Literal
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from starlette.background import BackgroundTask

from carrel.wire.fields import normal_email
from service.audit.service import Change, record_attempt
from service.identity.passwords import verify_password
from service.identity_server.signin import queries
from service.platform.errors import TooMany
from service.platform.identifiers import uuid7
from service.platform.rate_limits import network_of
from service.runtime import Runtime

FREE_FOR_ACCOUNT = 5
FREE_FOR_ADDRESS = 20
# The audit log has one entry for an account's failures from one network in this time, and another one for its second
# factor. It equals the longest wait, so that a long attack has an entry in each wait.
AN_ENTRY = queries.LONGEST_WAIT


@dataclass(frozen=True)
class Attempt:
    """An attempt to sign in, to prove identity in a session (`in_session`), or to get a link (`forgotten` password)."""

    organization_id: UUID
    email: str
    password: SecretStr
    address: str
    step: Literal["account", "secondFactor", "passkey", "forgotten"] = "account"
    in_session: bool = False

    @property
    def method(self) -> str:
        return "password" if self.step == "account" else self.step

    @property
    def source(self) -> str:
        """The network, any step but the password, and any session. A source's failures share an audit entry."""
        apart = [*(["session"] if self.in_session else []), *([self.step] if self.step != "account" else [])]
        return " ".join([*apart, network_of(self.address)])

    @property
    def account(self) -> bytes:
        """The digest for counting an account's failures; a password never resets the second-factor failures."""
        return hashlib.sha256(f"{self.step}\n{normal_email(self.email)}".encode()).digest()

    @property
    def network(self) -> bytes:
        """The digest for counting failures of the address; for IPv6, of the whole network."""
        kind = "forgotten address" if self.step == "forgotten" else "address"
        return hashlib.sha256(f"{kind}\n{network_of(self.address)}".encode()).digest()


async def try_password(runtime: Runtime, attempt: Attempt) -> queries.Person | None:
    """Return the active person with this address and password, if any. Raises TooMany during a wait."""
    await count_attempt(runtime, attempt)
    email = normal_email(attempt.email)
    async with runtime.database.transaction(attempt.organization_id) as connection:
        person = (
            await queries.find_person(connection, attempt.organization_id, email=email) if "\0" not in email else None
        )
    right = await verify_password(attempt.password, None if person is None else person.password_hash)
    if not right or person is None or not person.active:
        return None
    async with runtime.database.transaction(attempt.organization_id) as connection:
        await forgive(connection, attempt, now=await runtime.clock.now(connection))
    return person


async def forgive(connection: Connection, attempt: Attempt, *, now: datetime) -> None:
    """Remove a successful attempt, and all earlier failures of the account, from the count."""
    await queries.delete_attempts(connection, attempt.organization_id, subject=attempt.account)
    await queries.take_back_attempt(connection, attempt.organization_id, subject=attempt.network, now=now)


async def record_failure(runtime: Runtime, attempt: Attempt, *, was_made: bool) -> None:
    """Record a failed attempt on the audit log if the address is a person's; unknown addresses are never stored. An
    attempt refused for a wait counts on the newest entry. Call after the answer: known accounts take longer."""
    email, source = normal_email(attempt.email), attempt.source
    organization_id = attempt.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        person = await queries.find_person(connection, organization_id, email=email) if "\0" not in email else None
        if person is None:
            return
        now = await runtime.clock.now(connection)
        if not was_made:
            await queries.count_refused_sign_in(
                connection, organization_id, principal_id=person.principal_id, network=source, now=now
            )
            return
        audit_log_id = uuid7()
        row = {
            "audit_log_id": audit_log_id,
            "principal_id": person.principal_id,
            "network": source,
            "began_at": now - (now - datetime.fromtimestamp(0, UTC)) % AN_ENTRY,
            "last_at": now,
            "attempts": 1,
        }
        if await queries.count_failed_sign_in(connection, organization_id, row=row):
            details = {"by": attempt.method} | ({"inSession": True} if attempt.in_session else {})
            change = Change("session.fail", "user", person.principal_id, details=details)
            await record_attempt(connection, organization_id, audit_log_id=audit_log_id, change=change)


async def count_attempt(runtime: Runtime, attempt: Attempt) -> None:
    """Count an attempt as failed before the check. Raises TooMany while the account or the network must wait."""
    async with runtime.database.transaction(attempt.organization_id) as connection:
        now = await runtime.clock.now(connection)
        for subject, free in ((attempt.network, FREE_FOR_ADDRESS), (attempt.account, FREE_FOR_ACCOUNT)):
            until = await queries.begin_attempt(
                connection, attempt.organization_id, subject=subject, free=free, now=now
            )
            if until is not None:
                raise _wait_error(until, now=now, step=attempt.step)


def _wait_error(until: datetime, *, now: datetime, step: str) -> TooMany:
    failed = "Links were asked for" if step == "forgotten" else "Signing in failed"
    seconds = max(1, ceil((until - now).total_seconds()))
    return TooMany(
        f"{failed} too often. Try again in {_format_wait(seconds)}.", retry_after=seconds, code="sign_in_throttled"
    )


def _format_wait(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} second{'s' if seconds != 1 else ''}"
    return f"{ceil(seconds / 60)} minutes"


@dataclass(frozen=True)
class Refused:
    """The reason for refusing a sign-in, in the words of the page; `afterwards` runs once the answer is sent."""

    notice: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    afterwards: BackgroundTask | None = None


def refuse_wrong(runtime: Runtime, attempt: Attempt, notice: str) -> Refused:
    return Refused(notice, 403, afterwards=BackgroundTask(record_failure, runtime, attempt, was_made=True))


def refuse_waiting(runtime: Runtime, attempt: Attempt, error: TooMany) -> Refused:
    """Refuse an attempt during a wait, without checking it; the refusal is recorded after the answer."""
    recording = BackgroundTask(record_failure, runtime, attempt, was_made=False)
    return Refused(error.message, error.status, error.headers, recording)
