"""Applications that sign people in: listing them, describing scopes, and checking addresses."""

from collections.abc import Sequence

import streamlit as st
from pydantic import TypeAdapter, ValidationError

from app import api
from app.labels import ADMIN_AT_MCP, APPLICATION_SCOPES, ONE_AGENT, Meaning, scope_named
from app.lookup import by_id
from app.ui.tables import forget
from carrel.wire.oauth_clients import OAuthAudience, OAuthClient, OAuthClientStatus, RedirectUri
from carrel.wire.scopes import ApiScope

CLIENTS, CONSENTS = "clients", "consents"
"""The tables of applications, and of what people allowed them."""

MOST_AGENTS = 1000
MOST_ADDRESSES = 20
_ADDRESS: TypeAdapter[str] = TypeAdapter(RedirectUri)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def agents() -> dict[str, str]:
    """Return the names of agents by id, of at most `MOST_AGENTS`."""
    page = next(api.client().admin.agents.list(page_size=MOST_AGENTS).pages())
    return {str(agent.agent_id): agent.name for agent in page.agents}


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def count_waiting() -> int:
    """Count the applications that wait for an admin's approval, up to a thousand."""
    page = next(api.client().admin.oauth_clients.list(status=OAuthClientStatus.PENDING, page_size=1000).pages())
    return len(page.oauth_clients)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def application(client_id: str) -> OAuthClient | None:
    """Return an application by its id; None when there is none (any more)."""
    return by_id(api.client().admin.oauth_clients.list, client_id)


def clear_caches() -> None:
    """Clear the cached applications of the session."""
    count_waiting.clear()
    application.clear()
    forget(CLIENTS)
    forget(CONSENTS, unchoose=True)


def addresses_in(text: str) -> list[str]:
    """Return the addresses in a field, one per line, each once."""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def problems_with(addresses: Sequence[str]) -> list[str]:
    """Return a sentence for each problem of the redirect addresses; none when the service will accept them."""
    if not addresses:
        return ["Give at least one redirect address: where people are sent back to when they have signed in."]
    if len(addresses) > MOST_ADDRESSES:
        return [f"An application has at most {MOST_ADDRESSES} redirect addresses; these are {len(addresses)}."]
    return [f"{address} {wrong}." for address in addresses if (wrong := _wrong(address))]


def meaning_of(scope: str, audience: OAuthAudience) -> Meaning:
    """Return the meaning of a scope at its audience in words, also of a scope for a single agent."""
    if scope == ApiScope.ADMIN and audience is OAuthAudience.MCP:
        return ADMIN_AT_MCP
    if scope in set(ApiScope):
        return APPLICATION_SCOPES[ApiScope(scope)]
    return Meaning(
        scope_named(scope),
        "Send messages to this one agent, as the person, and read its answers.",
        "Answers quote documents that the person may read.",
    )


def is_for_one_agent(scope: str) -> bool:
    """Return whether a scope is for a single agent."""
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
