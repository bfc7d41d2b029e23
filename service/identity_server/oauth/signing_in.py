"""Sign-in on the way to an application."""

from collections.abc import Sequence

from fastapi import Response
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity.queries import get_organization
from service.identity_server.oauth.invitation import FORGOTTEN, answer_forgotten
from service.identity_server.oauth.second_factor import STALE, Step, form_page
from service.identity_server.oauth.server import Answer
from service.identity_server.oauth.visits import AuthorizationRequest, Visit
from service.identity_server.signin.attempts import Attempt, Refused
from service.identity_server.signin.factors.pending import GONE
from service.identity_server.signin.providers.registrations import list_ways
from service.identity_server.signin.signing_in import PasskeySignIn, sign_in
from service.web.pages.routing import cookieless

SIGN_INS = frozenset({"signIn", "passkeySignIn", FORGOTTEN})


async def submit_sign_in(visit: Visit, form: dict[str, str]) -> Response:
    async with visit.runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
    if isinstance(asked, Answer):
        return visit.redirect(asked)
    if not visit.browser.known:
        return cookieless(visit.request, again=visit.address)
    if not visit.is_own_form(form, "signIn"):
        # Another tab may have signed in, so that no sign-in is needed here.
        return visit.show_next() if asked.person else await _show_again(visit, asked, STALE)
    email, organization_id = form.get("email", ""), asked.client.organization_id
    if form.get("action") == "passkeySignIn":
        answer = form.get("credential", "")
        outcome = await PasskeySignIn(visit, visit.address).take(answer, organization_id=organization_id)
    else:
        attempt = Attempt(organization_id, email, SecretStr(form.get("password", "")), visit.sender)
        is_forgotten = form.get("action") == FORGOTTEN
        outcome = await (answer_forgotten(visit, attempt) if is_forgotten else sign_in(visit, attempt))
    if isinstance(outcome, Refused):
        return await _show_again(visit, asked, outcome, email=email)
    return outcome if isinstance(outcome, Response) else outcome.keep(visit.show_next())


async def submit_second_factor(visit: Visit, form: dict[str, str]) -> Response:
    async with visit.runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
    if isinstance(asked, Answer):
        return visit.redirect(asked)
    if not visit.browser.known:
        return cookieless(visit.request, again=visit.address)
    taken = await second_step(visit, leads_to=[asked.redirect_uri]).take(form)
    if taken is not None:
        return taken
    # Another tab may have signed in, as above.
    return visit.show_next() if asked.person else await _show_again(visit, asked, Refused(GONE, 403))


def second_step(visit: Visit, *, leads_to: Sequence[str]) -> Step:
    return Step(visit, action=visit.address, done=visit.next_address(), leads_to=leads_to)


async def _show_again(visit: Visit, asked: AuthorizationRequest, refused: Refused, *, email: str = "") -> Response:
    async with visit.runtime.database.transaction(asked.client.organization_id, read_only=True) as connection:
        return await sign_in_page(visit, asked, connection, refused, email=email)


async def sign_in_page(
    visit: Visit,
    asked: AuthorizationRequest,
    connection: Connection,
    refused: Refused | None = None,
    *,
    email: str = "",
) -> Response:
    """Return the sign-in page, and set a cookie if the browser has none."""
    address = visit.address.replace("authorize?", "upstream?", 1)
    ways = await list_ways(connection, asked.client.organization_id, visit.runtime.settings, address=address)
    by_password = (await get_organization(connection, asked.client.organization_id)).passwords_enabled
    passkeys = await PasskeySignIn(visit, visit.address).ask(connection) if by_password else None
    response = form_page(
        "sign_in.html",
        visit.request,
        refused,
        leads_to=[asked.redirect_uri],
        headers={},
        organization=asked.client.organization_name,
        client=asked.client.name,
        asked=passkeys,
        action=visit.address,
        csrf=visit.form_token("signIn"),
        email=email,
        asks_organization=False,
        confirms=None,
        by_password=by_password,
        mails=visit.runtime.settings.smtp_url is not None,
        upstream=None,
        has_providers=False,
        ways=ways,
    )
    return visit.browser.keep_new(response)
