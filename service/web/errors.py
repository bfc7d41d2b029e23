"""Routes whose errors have a form of their own: pages, and the protocols that clients of elsewhere speak."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from service.platform.errors import DATABASE_ERRORS, ServiceError, answer_for_database

Handler = Callable[[Request], Awaitable[Response]]


class OwnErrorsRoute(APIRoute):
    """A route that says in its own form what it refuses, also before its endpoint is called."""

    async def serve(self, request: Request, handler: Handler) -> Response:
        return await handler(request)

    def refuse(self, request: Request, error: ServiceError) -> Response:
        raise NotImplementedError

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Answer by `serve`, and what goes wrong by `refuse`."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await self.serve(request, handler)
            except ServiceError as error:
                return self.refuse(request, error)
            except DATABASE_ERRORS as error:
                return self.refuse(request, answer_for_database(request, error))

        return answer
