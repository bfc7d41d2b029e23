"""Refused provider sign-ins: page and log. A page reveals no account: its text is by token and provider's settings."""

import hashlib

from service.audit.service import Change, record_attempt
from service.identity_server.signin import queries
from service.identity_server.signin.id_tokens import REASONS, NotVouched
from service.identity_server.signin.provider import ProviderAway
from service.identity_server.signin.providers.queries import StoredProvider
from service.platform.errors import BadRequest, ServiceError, Unavailable
from service.platform.identifiers import uuid7
from service.platform.rate_limits import network_of
from service.runtime import Runtime

# So many entries of one reason from one network, then fewer and fewer.
FREE_ENTRIES = 5
LONGEST_AUDIENCE = 200
HINTS = {
    "unverified": " The provider doesn't say that your address is verified. Microsoft Entra ID never does: an admin "
    "can trust the addresses of its issuer on the page Sign-in.",
    "personal": " You signed in with an account that your organization didn't give you: a personal one, or another "
    "organization's. Sign in with the one that it gave you.",
    "domain": " Your address is of a domain that this provider doesn't decide about.",
}


def refusal_of(error: NotVouched | ProviderAway) -> ServiceError:
    if isinstance(error, ProviderAway):
        return Unavailable(
            "The provider you sign in with can't be reached just now. Try again, or use your password here.",
            code="upstream_unavailable",
        )
    if why := REASONS.get(error.reason):
        if error.audience:
            why += f" ({error.audience[:LONGEST_AUDIENCE]}). An admin can accept other audiences on the page Sign-in"
        return BadRequest(
            f"The provider you signed in with doesn't confirm who you are: {why}. Try again.", code="upstream_refused"
        )
    hint = HINTS.get(error.reason, "")
    return BadRequest(
        f"There is no account here for the person you signed in as.{hint} Ask an admin of your organization.",
        code="unknown_upstream_person",
    )


async def record_refusal(runtime: Runtime, provider: StoredProvider | None, error: NotVouched, *, address: str) -> None:
    """Record a refused sign-in of the person, if known, or the provider; entries are limited per reason and network."""
    organization_id = error.organization_id if provider is None else provider.organization_id
    target = ("signInProvider", None if provider is None else provider.provider_id)
    if error.principal_id is not None:
        target = ("user", error.principal_id)
    if organization_id is None or target[1] is None:
        return
    details = {"reason": error.reason, **({} if provider is None else {"providerId": str(provider.provider_id)})}
    if error.audience:
        details["audience"] = "".join(filter(str.isprintable, error.audience))[:LONGEST_AUDIENCE]
    counted = f"refused\n{target}\n{error.reason}\n{network_of(address)}"
    async with runtime.database.transaction(organization_id) as connection:
        now, subject = await runtime.clock.now(connection), hashlib.sha256(counted.encode()).digest()
        waits = await queries.begin_attempt(connection, organization_id, subject=subject, free=FREE_ENTRIES, now=now)
        if waits is None:
            change = Change("session.refuse", *target, details=details)
            await record_attempt(connection, organization_id, audit_log_id=uuid7(), change=change)
