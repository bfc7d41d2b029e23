"""Routes that answer people in a browser, where nobody can read along: whatever goes wrong is a page, too."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from service.platform.errors import DATABASE_ERRORS, ServiceError, answer_for_database
from service.platform.logs import request_id
from service.web.dependencies import current_runtime
from service.web.pages import page
from service.web.pages.confidential import refuse_readable


class PageRoute(APIRoute):
    """A route of pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Show what the endpoint refuses as a page."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                refuse_readable(request, await current_runtime(request))
                return await handler(request)
            except ServiceError as error:
                return problem(request, error)
            except DATABASE_ERRORS as error:
                return problem(request, answer_for_database(request, error))

        return handle


def problem(request: Request, error: ServiceError) -> HTMLResponse:
    """Return the page that says what is wrong, and what to do."""
    title = "Please try again" if error.status >= 500 else "This doesn't work"
    return page(
        "message.html",
        depth=depth_of(request),
        status=error.status,
        headers=error.headers,
        title=title,
        message=error.message,
        hint=None,
        again=None,
        request_id=request_id(),
    )


def cookieless(request: Request, *, again: str) -> HTMLResponse:
    """Return the page for a form that came without a cookie; `again` is where its page is, relative to it.

    It gives no cookie: a form on another site comes without the person's, and a new one would replace that.
    """
    return page(
        "message.html",
        depth=depth_of(request),
        status=403,
        title="Please try again",
        message="This page was out of date. Please try again.",
        hint="If you see this again, let your browser keep cookies of this address until it is closed.",
        again=again,
        request_id=None,
    )


def depth_of(request: Request) -> int:
    """Return the number of folders between the root and a page."""
    return request.scope["path"].count("/") - 1
