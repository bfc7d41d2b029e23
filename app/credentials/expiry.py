"""Texts about tokens and keys: their expiry, their status, and a command that uses one."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import TypeAlias, TypeVar

from app.formatting import ago, moment
from carrel.wire.api_keys import ApiKey, CredentialStatus
from carrel.wire.scim_tokens import ScimToken
from carrel.wire.scopes import Scope
from carrel.wire.service_accounts import ServiceAccountToken

C = TypeVar("C", ServiceAccountToken, ApiKey, ScimToken)
Credential: TypeAlias = ServiceAccountToken | ApiKey | ScimToken

SOON = timedelta(days=14)
NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""What stands for no end where the service wants one."""

ON_DATE, WITHOUT_END = "date", "never"
EXPIRIES: Mapping[str, str] = {
    "30": "In 30 days",
    "90": "In 90 days",
    "365": "In a year",
    ON_DATE: "On a date",
    WITHOUT_END: "Never",
}
STATUSES: Mapping[CredentialStatus, str] = {
    CredentialStatus.ACTIVE: "Works",
    CredentialStatus.EXPIRED: "Expired",
    CredentialStatus.REVOKED: "Revoked",
}


def expiry(choice: str, *, day: date | None, now: datetime | None = None) -> datetime | None:
    """Return when something ends by a choice of EXPIRIES; a day counts to its end, in UTC. None: never."""
    at = now or datetime.now(UTC)
    if choice == WITHOUT_END:
        return None
    if choice == ON_DATE:
        return datetime.combine(day or at.date(), time(23, 59, 59), tzinfo=UTC)
    return at + timedelta(days=int(choice))


def ends(at: datetime | None) -> str:
    """Return the end of a token or key in words."""
    return "Never" if at is None or at.year >= NEVER.year else ago(at)


def ends_exactly(at: datetime | None) -> str:
    """Return the end of a token or key to the minute."""
    return "Never" if at is None or at.year >= NEVER.year else moment(at)


def soon_over(one: Credential, *, now: datetime | None = None) -> bool:
    """Return whether a working credential expires within a fortnight."""
    at = now or datetime.now(UTC)
    return one.status is CredentialStatus.ACTIVE and one.expires_at is not None and one.expires_at - at < SOON


def end_noted(one: Credential) -> str:
    """Return the day of expiry and how soon it is, with a sign if it is very soon."""
    at = one.expires_at
    if at is None or at.year >= NEVER.year:
        return ends(at)
    day = f"{at.astimezone(UTC):%d %b %Y}"
    if one.status is CredentialStatus.REVOKED:
        return day  # nothing ends then any more
    return f"{'⚠ ' if soon_over(one) else ''}{day}, {ends(at)}"


def select_ending_soon(credentials: Iterable[C]) -> list[C]:
    """Return those that work, end within a fortnight and have no successor, the soonest first."""
    every = list(credentials)
    soon = [one for one in every if soon_over(one) and find_successor(one, every) is None]
    return sorted(soon, key=lambda one: one.expires_at or NEVER)


def find_successor(one: C, every: Sequence[C]) -> C | None:
    """Return the newest working credential that was made after this one, for the same account under the same name."""
    later = [
        other
        for other in every
        if other.status is CredentialStatus.ACTIVE
        and other.created_at > one.created_at
        and (_account_of(other), other.name) == (_account_of(one), one.name)
    ]
    return max(later, key=lambda other: other.created_at, default=None)


def _account_of(one: Credential) -> object:
    if isinstance(one, ScimToken):
        return None
    return one.owner_email if isinstance(one, ApiKey) else one.service_account_id


def expiry_like(one: Credential) -> tuple[str, int]:
    """Return the choice of EXPIRIES, and its days, with which a new credential lasts as long as this one did."""
    if one.expires_at is None or one.expires_at.year >= NEVER.year:
        return WITHOUT_END, 0
    days = max(1, round((one.expires_at - one.created_at) / timedelta(days=1)))
    return str(days) if str(days) in EXPIRIES else ON_DATE, days


def curl_line(token: str, scopes: Collection[str], *, base_url: str) -> str:
    """Return a command that tries a token with the first operation it may call; empty if it may call none."""
    head = f"curl -s {shlex.quote(f'{base_url}/api/v0/')}"
    bearer = f"-H {shlex.quote(f'Authorization: Bearer {token}')}"
    json = "-H 'Content-Type: application/json' -d"
    if Scope.CATALOG_READ in scopes:
        return f'{head}search/searchDocumentCatalog {bearer} {json} \'{{"searchQuery": "hello"}}\''
    if Scope.CATALOG_WRITE in scopes:
        return f"{head}catalog/uploadFile {bearer} -F documentExternalId=a-note -F file=@note.txt"
    if Scope.AGENT_MESSAGE in scopes:
        return f'{head}copilots/sendMessage {bearer} {json} \'{{"agentId": "…", "message": "hello"}}\''
    return ""
