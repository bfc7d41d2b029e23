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

# The entries with the same reason from a network before only some are recorded.
FREE_ENTRIES = 5
LONGEST_AUDIENCE = 200
HINTS = {
    "unverified": (
        " The provider did not verify your address; Microsoft Entra ID never does. An admin can trust the addresses of "
        "this provider on the page Sign-in."
    ),
    "personal": (
        " You signed in with a personal account, or with an account of another organization. Use the account that your "
        "organization gave you."
    ),
    "domain": " This provider is not responsible for the domain of your address.",
}


def refusal_of(error: NotVouched | ProviderAway) -> ServiceError:
    if isinstance(error, ProviderAway):
        return Unavailable(
            "Your sign-in provider can't be reached at the moment. Try again, or sign in with your password.",
            code="upstream_unavailable",
        )
    if why := REASONS.get(error.reason):
        if error.audience:
            why += f" ({error.audience[:LONGEST_AUDIENCE]}). An admin can accept other audiences on the page Sign-in"
        return BadRequest(
            f"Your sign-in provider didn't confirm your identity: {why}. Try again.", code="upstream_refused"
        )
    hint = HINTS.get(error.reason, "")
    return BadRequest(
        f"There is no account here for the person that you signed in as.{hint} Ask an admin of your organization.",
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
