"""Applications that sign people in: what is wrong with a redirect address, in words, and which scopes there are."""

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from app.vocabulary import APPLICATION_SCOPES, ONE_AGENT, Meaning, scope_named
from carrel.wire.oauth_clients import ApiScope, RedirectUri

MOST_ADDRESSES = 20
_ADDRESS: TypeAdapter[str] = TypeAdapter(RedirectUri)


def addresses_in(text: str) -> list[str]:
    """Return the addresses of a field, one a line, each once."""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def problems_with(addresses: Sequence[str]) -> list[str]:
    """Say what is wrong with redirect addresses, a sentence each; nothing when they will be taken."""
    if not addresses:
        return ["Give at least one redirect address: where people are sent back to when they have signed in."]
    if len(addresses) > MOST_ADDRESSES:
        return [f"An application has at most {MOST_ADDRESSES} redirect addresses; these are {len(addresses)}."]
    return [f"{address} {wrong}." for address in addresses if (wrong := _wrong(address))]


def meaning_of(scope: str) -> Meaning:
    """Return a scope in words; one for a single agent likewise."""
    if scope in set(ApiScope):
        return APPLICATION_SCOPES[ApiScope(scope)]
    return Meaning(
        scope_named(scope),
        "Send messages to this one agent, as the person, and read its answers.",
        "Answers quote documents that the person may read.",
    )


def is_for_one_agent(scope: str) -> bool:
    """Tell whether a scope is for a single agent."""
    return scope.startswith(ONE_AGENT) and scope != ApiScope.AGENT_MESSAGE


def scope_for(agent_id: object) -> str:
    """Return the scope for a single agent."""
    return f"{ONE_AGENT}{agent_id}"


def _wrong(address: str) -> str:
    try:
        _ADDRESS.validate_python(address)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=True)[0]
        reason = first.get("ctx", {}).get("error")
        return str(reason) if reason is not None else "is longer than 2,000 characters"
    return ""
