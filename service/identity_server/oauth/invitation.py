"""GET and POST /account/invitation: set a password with a link, and sign in. Opening the page changes nothing, because
mail programs check links. The form works only in the browser that loaded it, so another site can't sign a person in."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlencode

from fastapi import APIRouter, Response
from pydantic import SecretStr

from service.identity.passwords import accept_password
from service.identity_server.oauth.queries import delete_sign_ins
from service.identity_server.oauth.second_factor import NO_STORE
from service.identity_server.oauth.visits import VisitorDep
from service.identity_server.requests import first_of, form_of, query_of
from service.identity_server.signin.attempts import Attempt, Refused
from service.identity_server.signin.factors.service import STALE
from service.identity_server.signin.invitations import PATH, Invited, accept_invitation, ask_link, find_invited
from service.identity_server.signin.sessions import Visitor
from service.platform.errors import NotFound
from service.web.pages import page
from service.web.pages.routing import PageRoute, cookieless, depth_of, link_to_account, message

FORGOTTEN = "forgotten"
UNFIT = "Choose a password of 8 to 1024 characters."
# The workbench page after the first sign-in, with a welcome message.
FIRST_PAGE = f"/oauth/login?{urlencode({'next': '/?welcome=1'})}"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(PATH)
async def show_invitation(visitor: VisitorDep) -> Response:
    token = SecretStr(first_of(query_of(visitor.request)).get("token", ""))
    async with _count_unknown_links(visitor):
        invited = await find_invited(visitor.runtime, token)
    return _page(visitor, token, invited)


@router.post(PATH)
async def take_password(visitor: VisitorDep) -> Response:
    """Set the password of a link's person and sign in, or show what is wrong. Raises NotFound for an unusable link."""
    request, runtime, browser = visitor.request, visitor.runtime, visitor.browser
    form = first_of(await form_of(request))
    token, given = SecretStr(form.get("token", "")), form.get("password", "")
    async with _count_unknown_links(visitor):
        invited = await find_invited(runtime, token)
        if not browser.known:
            return cookieless(request, again=f"invitation?{urlencode({'token': token.get_secret_value()})}")
        if not visitor.is_own_form(form, _purpose(token)):
            return _page(visitor, token, invited, notice=STALE)
        if given != form.get("again", ""):
            notice = "The passwords are different. Type the same password twice."
            return _page(visitor, token, invited, notice=notice)
        try:
            password = accept_password(given)
        except ValueError:
            return _page(visitor, token, invited, notice=UNFIT)
        invited, browser = await accept_invitation(
            runtime, token, password=password, browser=browser, end_sign_ins=delete_sign_ins
        )
    if workbench := runtime.settings.workbench_url:
        response = Response(status_code=303, headers={"Location": f"{workbench}{FIRST_PAGE}", **NO_STORE})
    else:
        response = message(
            request,
            headers=NO_STORE,
            title="Your password is set",
            text="Open the address at which your organization uses Carrel, and choose Sign in. Your email address is "
            f"{invited.person.email}. In this browser, you don't need to type the password again.",
            hint="If you don't know the address, ask the admin who sent you this link. This link no longer works.",
            links=[link_to_account(request)],
        )
    return browser.keep(response)


async def answer_forgotten(visitor: Visitor, attempt: Attempt) -> Response | Refused:
    """Answer a "forgot password" request with the same words for every address."""
    mailing = await ask_link(visitor.runtime, replace(attempt, step="forgotten"))
    if isinstance(mailing, Refused):
        return mailing
    response = message(
        visitor.request,
        headers=NO_STORE,
        title="Check your mail",
        text="If an account with this address has a password, we sent a link to it. The link works once, within an "
        "hour.",
        hint="No mail after a few minutes? If an admin has sent you a link before, use that link: we don't send "
        "another while it works. Otherwise ask an admin of your organization for a link. If you sign in with a "
        "provider, reset your password there.",
        links=[link_to_account(visitor.request)],
    )
    response.background = mailing
    return response


@asynccontextmanager
async def _count_unknown_links(visitor: Visitor) -> AsyncGenerator[None]:
    try:
        yield
    except NotFound:
        client = visitor.request.client
        await visitor.runtime.rate_limits.count_failure(client.host if client else None)
        raise


def _purpose(token: SecretStr) -> str:
    return f"invitation\n{token.get_secret_value()}"


def _page(visitor: Visitor, token: SecretStr, invited: Invited, *, notice: str | None = None) -> Response:
    workbench = visitor.runtime.settings.workbench_url
    response = page(
        "invitation.html",
        depth=depth_of(visitor.request),
        status=200 if notice is None else 400,
        leads_to=[workbench, visitor.runtime.settings.issuer] if workbench else (),
        headers=NO_STORE,
        token=token.get_secret_value(),
        csrf=visitor.form_token(_purpose(token)),
        notice=notice,
        invited=invited,
    )
    return visitor.browser.keep_new(response)
