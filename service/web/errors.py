"""Routes with error responses in a special form: pages, and the protocols of external clients."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from service.platform.errors import DATABASE_ERRORS, ServiceError, answer_for_database

Handler = Callable[[Request], Awaitable[Response]]


class OwnErrorsRoute(APIRoute):
    """A route with a special form (`refuse`) for service and database errors, also before the endpoint is called."""

    async def serve(self, request: Request, handler: Handler) -> Response:
        return await handler(request)

    def refuse(self, request: Request, error: ServiceError) -> Response:
        raise NotImplementedError

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await self.serve(request, handler)
            except ServiceError as error:
                return self.refuse(request, error)
            except DATABASE_ERRORS as error:
                return self.refuse(request, answer_for_database(request, error))

        return answer
