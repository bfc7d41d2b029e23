"""Routes that answer people in a browser, where nobody can read along: whatever goes wrong is a page, too."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from service.platform.errors import ServiceError
from service.platform.logs import request_id
from service.platform.networks import name_loopback
from service.web.dependencies import current_runtime
from service.web.errors import Handler, OwnErrorsRoute
from service.web.pages import page
from service.web.pages.confidential import refuse_readable


class PageRoute(OwnErrorsRoute):
    """A route of pages."""

    async def serve(self, request: Request, handler: Handler) -> Response:
        """Show each page at an address that has a name, where nobody can read along."""
        runtime = await current_runtime(request)
        refuse_readable(request, runtime)
        named = _named_address(request, issuer=runtime.settings.issuer)
        return await handler(request) if named is None else RedirectResponse(named)

    def refuse(self, request: Request, error: ServiceError) -> Response:
        return problem(request, error)


def _named_address(request: Request, *, issuer: str) -> str | None:
    """Return a page's address with `localhost` in place of this machine's IP, where passkeys work; else None. Only
    browsers are led there, by the header for what a person opens (Fetch Metadata): programs keep their cookies."""
    named = name_loopback(issuer)
    is_opened = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
    if named == issuer or not is_opened or request.headers.get("host") != urlsplit(issuer).netloc:
        return None
    return str(request.url.replace(hostname="localhost"))


Link = tuple[str, str]
"""An address, relative to the page that it is on, and its words."""


def problem(
    request: Request, error: ServiceError, *, links: Sequence[Link] | None = None, title: str | None = None
) -> HTMLResponse:
    """Return the page that says what is wrong, and what to do, with links that lead on."""
    fallback = "Please try again" if error.status >= 500 else "This doesn't work"
    return message(
        request,
        title=title or fallback,
        text=error.message,
        links=_ways_on(request, error) if links is None else links,
        status=error.status,
        headers=error.headers,
        request_id=request_id(),
    )


def message(
    request: Request,
    *,
    title: str,
    text: str,
    hint: str | None = None,
    links: Sequence[Link] = (),
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request_id: str | None = None,
) -> HTMLResponse:
    """Return a page that says one thing, and where to go on."""
    return page(
        "message.html",
        depth=depth_of(request),
        status=status,
        headers=headers,
        title=title,
        message=text,
        hint=hint,
        links=links,
        request_id=request_id,
    )


def lead_to(address: str) -> Response:
    """Lead a browser on to another address, to which a form is not sent again."""
    return Response(status_code=303, headers={"Location": address})


def cookieless(request: Request, *, again: str) -> HTMLResponse:
    """Return the page for a form that came without a cookie; `again` is where its page is, relative to it. It gives no
    cookie: a form on another site comes without the person's, and a new cookie would replace that."""
    return message(
        request,
        title="Please try again",
        text="This page was out of date. Please try again.",
        hint="If you see this again, let your browser keep cookies of this address until it is closed.",
        links=[(again, "Try again")],
        status=403,
    )


def link_to_account(request: Request) -> Link:
    """Return the link to the page where people sign in, which leads to their account where they are signed in."""
    return address_from(request, "account/sign-in"), "Sign in, or go to your account"


def address_from(request: Request, path: str) -> str:
    """Return the address of a path below the root, relative to a request's."""
    return "../" * depth_of(request) + path


def _ways_on(request: Request, error: ServiceError) -> Sequence[Link]:
    """Return where a problem's page leads: a form to its page; what may work later to itself; else to the account."""
    if error.code == "https_required":
        return ()
    passes = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status == HTTPStatus.TOO_MANY_REQUESTS
    if passes or (request.method == "POST" and error.status != HTTPStatus.NOT_FOUND):
        query = request.url.query
        own = request.url.path.rpartition("/")[2] + (f"?{query}" if query else "")
        return [(own, "Try again")]
    return [link_to_account(request)]


def depth_of(request: Request) -> int:
    """Return the number of folders between the root and a page."""
    return request.scope["path"].count("/") - 1
