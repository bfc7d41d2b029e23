"""GET and POST /account/invitation: setting a password with the link that an admin made. Looking at the page changes
nothing: programs that check links in messages open it too. Only a holder of the link can send its form."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request, Response
from pydantic import SecretStr, TypeAdapter, ValidationError

from carrel.wire.fields import Password
from service.identity_server.requests import first_of, form_of, query_of
from service.identity_server.signin.invitations import PATH, Invited, accept_invitation, find_invited
from service.platform.errors import NotFound
from service.runtime import Runtime
from service.web.dependencies import RuntimeDep
from service.web.pages import page
from service.web.pages.routing import PageRoute, depth_of, link_to_account, message

UNFIT = "A password has 8 to 1024 characters. Choose another one."
NO_STORE = {"Cache-Control": "no-store"}

_PASSWORD: TypeAdapter[SecretStr] = TypeAdapter(Password)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(PATH)
async def show_invitation(request: Request, runtime: RuntimeDep) -> Response:
    """Ask the invited person for a password."""
    token = SecretStr(first_of(query_of(request)).get("token", ""))
    async with _count_failures(request, runtime):
        invited = await find_invited(runtime, token)
    return _page(request, token, invited)


@router.post(PATH)
async def take_password(request: Request, runtime: RuntimeDep) -> Response:
    """Set the password, and say where to go on."""
    form = first_of(await form_of(request))
    token, given = SecretStr(form.get("token", "")), form.get("password", "")
    async with _count_failures(request, runtime):
        invited = await find_invited(runtime, token)
        if given != form.get("again", ""):
            return _page(request, token, invited, notice="The two passwords are not the same. Type the same one twice.")
        try:
            password = _PASSWORD.validate_python(given)
        except ValidationError:
            return _page(request, token, invited, notice=UNFIT)
        await accept_invitation(runtime, token, password=password)
    return message(
        request,
        headers=NO_STORE,
        title="Your password is set",
        text=f"You can now sign in as {invited.person.email}.",
        hint="Go to the page where you use Carrel, and sign in there. This link works no more.",
        links=[link_to_account(request)],
    )


@asynccontextmanager
async def _count_failures(request: Request, runtime: Runtime) -> AsyncGenerator[None]:
    """Count a link that isn't good like any other credential that fails."""
    try:
        yield
    except NotFound:
        await runtime.rate_limits.count_failure(request.client.host if request.client else None)
        raise


def _page(request: Request, token: SecretStr, invited: Invited, *, notice: str | None = None) -> Response:
    return page(
        "invitation.html",
        depth=depth_of(request),
        status=200 if notice is None else 400,
        headers=NO_STORE,
        token=token.get_secret_value(),
        notice=notice,
        name=invited.person.name,
        email=invited.person.email,
        organization=invited.organization_name,
    )
