"""The meaning of scopes, in the words of the consent page."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.oauth_clients import OAuthAudience
from service.auth.scopes import agent_of, meaning
from service.identity_server.signin.sessions import SignedIn
from service.permissions.agents.queries import read_deployed_names


async def meanings_to(
    connection: AsyncConnection, person: SignedIn, *, scopes: Sequence[tuple[str, OAuthAudience]]
) -> list[str]:
    """Return what each scope allows at its audience; an agent that isn't deployed to the person is called by its id."""
    agents = {scope: agent_id for scope, _ in scopes if (agent_id := agent_of(scope))}
    names = await read_deployed_names(
        connection, person.organization_id, principal_id=person.principal_id, agent_ids=agents.values()
    )
    return [
        meaning(scope, audience=audience, agent_name=names.get(agents[scope]) if scope in agents else None)
        for scope, audience in scopes
    ]
