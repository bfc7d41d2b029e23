"""GET and POST /account/consents: a person's connected applications, and revoking their access."""

from collections.abc import Sequence
from uuid import UUID

from fastapi import APIRouter, Response
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.oauth_clients import OAuthAudience
from service.audit.service import Change, record_for
from service.auth.queries import get_acting_principal
from service.auth.scopes import agent_of, meaning
from service.identity_server.oauth.consented.queries import find_reuses, list_consents
from service.identity_server.oauth.consented.service import withdraw_for
from service.identity_server.oauth.visits import VisitorDep
from service.identity_server.requests import first_of, form_of
from service.identity_server.signin.factors.service import STALE
from service.identity_server.signin.provider import ProviderAway, open_provider
from service.identity_server.signin.providers import queries as providers
from service.identity_server.signin.providers.queries import ChosenProvider, LeftSession
from service.identity_server.signin.providers.registrations import open_registration
from service.identity_server.signin.sessions import SignedIn, Visitor, end_session, find_session
from service.permissions.agents.queries import read_deployed_names
from service.platform.errors import BadRequest, ServiceError, require
from service.platform.identifiers import to_uuid
from service.platform.secrets import try_unseal
from service.runtime import Runtime
from service.web.pages import page
from service.web.pages.routing import PageRoute, depth_of, lead_to

PATH = "/account/consents"
TAKEN_BACK = "Access revoked. The application can do nothing in your name unless you allow it again."

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(PATH)
async def show_consents(visitor: VisitorDep) -> Response:
    runtime = visitor.runtime
    async with runtime.database.transaction(None) as connection:
        person = await find_session(connection, visitor.browser, now=await runtime.clock.now(connection))
        if person is None:
            return lead_to("sign-in")
        done = TAKEN_BACK if "takenBack" in visitor.request.query_params else None
        return await _consents_page(visitor, connection, person, done=done)


@router.post(PATH)
async def change_consents(visitor: VisitorDep) -> Response:
    """Revoke an application's access, or sign out here and at the provider. Raises BadRequest for another button."""
    form = first_of(await form_of(visitor.request))
    runtime, browser, left = visitor.runtime, visitor.browser, None
    async with runtime.database.transaction(None) as connection:
        person = await find_session(connection, browser, now=await runtime.clock.now(connection))
        if person is None:
            return lead_to("sign-in")
        if not visitor.is_own_form(form, _purpose(person)):
            return await _consents_page(visitor, connection, person, notice=STALE)
        if form.get("action") == "signOut":
            left = await providers.find_session_there(connection, person.organization_id, secret_hash=browser.hash)
            await end_session(connection, browser, organization_id=person.organization_id)
        elif form.get("action") == "withdraw":
            unknown = BadRequest("You have no such application. Reload the page to see the applications you allowed.")
            client_id = require(to_uuid(form.get("client_id", "")), unknown)
            await _withdraw(runtime, connection, person=person, client_id=client_id)
        else:
            raise BadRequest("This form has no such button. Go back and try again.")
    address = await _sign_out_address(runtime, person, left) if left else None
    back = "consents?takenBack=" if form.get("action") == "withdraw" else "consents"
    return lead_to(address or back)


async def _withdraw(runtime: Runtime, connection: Connection, *, person: SignedIn, client_id: UUID) -> None:
    """Delete a person's consent to a client and revoke the tokens; record this if there was a consent."""
    organization_id, principal_id = person.organization_id, person.principal_id
    now = await runtime.clock.now(connection)
    if await withdraw_for(connection, organization_id, client_id=client_id, principal_id=principal_id, now=now):
        change = Change("consent.withdraw", "oauthClient", client_id)
        await record_for(connection, organization_id, actor_id=principal_id, change=change)


async def _consents_page(
    visitor: Visitor, connection: Connection, person: SignedIn, *, notice: str | None = None, done: str | None = None
) -> Response:
    settings, organization_id, whose = visitor.runtime.settings, person.organization_id, person.principal_id
    left = await providers.find_session_there(connection, organization_id, secret_hash=visitor.browser.hash)
    reader = await get_acting_principal(connection, organization_id, principal_id=whose)
    rows = [] if reader is None else await list_consents(connection, organization_id, principal_id=whose, reader=reader)
    reuses = await find_reuses(connection, organization_id, principal_id=whose)
    scopes = sorted({(scope, row.audience) for row in rows for scope in row.scopes})
    meanings = dict(zip(scopes, await meanings_to(connection, person, scopes=scopes), strict=True))
    return page(
        "consents.html",
        depth=depth_of(visitor.request),
        status=403 if notice else 200,
        leads_to=[] if left is None else [left.issuer, settings.issuer],
        person=person,
        consents=sorted(rows, key=lambda row: (row.application_name, row.client_id)),
        meanings=meanings,
        reuses=reuses,
        csrf=visitor.form_token(_purpose(person)),
        notice=notice,
        done=done,
        workbench=settings.workbench_url,
    )


def _purpose(person: SignedIn) -> str:
    return f"consents\n{person.principal_id}"


async def meanings_to(
    connection: Connection, person: SignedIn, *, scopes: Sequence[tuple[str, OAuthAudience]]
) -> list[str]:
    """Return the meaning of each scope at the given audience. An agent not deployed to the person is named by id."""
    agents = {scope: agent_id for scope, _ in scopes if (agent_id := agent_of(scope))}
    names = await read_deployed_names(
        connection, person.organization_id, principal_id=person.principal_id, agent_ids=agents.values()
    )
    return [
        meaning(scope, audience=audience, agent_name=names.get(agents[scope]) if scope in agents else None)
        for scope, audience in scopes
    ]


async def _sign_out_address(runtime: Runtime, person: SignedIn, left: LeftSession) -> str | None:
    """Return the provider's address for signing out; None without an address, or if the provider can't be used."""
    organization_id = person.organization_id
    key = runtime.keys.provider_key(organization_id)
    hint = try_unseal(key, row_id=left.session_id, sealed=left.sealed_id_token)
    id_token = None if hint is None else hint.get_secret_value()
    back_to = f"{runtime.settings.issuer}/account/sign-in"
    try:
        registered = await open_registration(runtime, ChosenProvider(organization_id, left.provider_id))
        async with open_provider(registered.registration, runtime) as provider:
            return await provider.sign_out_address(back_to=back_to, id_token=id_token)
    except (ProviderAway, ServiceError):
        return None
