"""Routes of browser pages over confidential connections. Errors are pages, too."""

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
    async def serve(self, request: Request, handler: Handler) -> Response:
        """Serve pages only over confidential connections, at an address with a host name."""
        runtime = await current_runtime(request)
        refuse_readable(request, runtime)
        address = _named_address(request, issuer=runtime.settings.issuer)
        return await handler(request) if address is None else RedirectResponse(address)

    def refuse(self, request: Request, error: ServiceError) -> Response:
        return problem(request, error)


def _named_address(request: Request, *, issuer: str) -> str | None:
    """Return the page's address with `localhost` instead of this machine's IP, where passkeys work; None unless a
    browser opens the page at that IP."""
    address = name_loopback(issuer)
    is_opened = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
    if address == issuer or not is_opened or request.headers.get("host") != urlsplit(issuer).netloc:
        return None
    return str(request.url.replace(hostname="localhost"))


Link = tuple[str, str]
"""An address, relative to the page, and a text."""


def problem(
    request: Request, error: ServiceError, *, links: Sequence[Link] | None = None, title: str | None = None
) -> HTMLResponse:
    """Return the page for an error, with the request's id, and by default with ways to continue."""
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
    """Redirect a browser to another address, without sending a form again."""
    return Response(status_code=303, headers={"Location": address})


def cookieless(request: Request, *, again: str) -> HTMLResponse:
    """Return the page for a form without a cookie, at `again`. It sets none: a new cookie would replace the old."""
    return message(
        request,
        title="Please try again",
        text="This page has expired. Try again.",
        hint="If you see this again, allow cookies for this address in your browser.",
        links=[(again, "Try again")],
        status=403,
    )


def link_to_account(request: Request) -> Link:
    """Return a link to the sign-in page. People who are already signed in get to their account."""
    return address_from(request, "account/sign-in"), "Sign in, or go to your account"


def address_from(request: Request, path: str) -> str:
    """Return the relative address, from the requested page, of a path below the root."""
    return "../" * depth_of(request) + path


def _ways_on(request: Request, error: ServiceError) -> Sequence[Link]:
    """Return an error page's links: a form's page, a retry of a temporary problem, or else the account."""
    if error.code == "https_required":
        return ()
    passes = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status == HTTPStatus.TOO_MANY_REQUESTS
    if passes or (request.method == "POST" and error.status != HTTPStatus.NOT_FOUND):
        query = request.url.query
        same_page = request.url.path.rpartition("/")[2] + (f"?{query}" if query else "")
        return [(same_page, "Try again")]
    return [link_to_account(request)]


def depth_of(request: Request) -> int:
    return request.scope["path"].count("/") - 1
