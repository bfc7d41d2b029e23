"""Endpoints for operators: liveness, readiness, metrics, and the API description. None needs a credential."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import SQLAlchemyError

from carrel.wire.oversight import StorageLevel
from service.platform.errors import database_away, error_response, requests_saturated
from service.web.dependencies import RuntimeDep
from service.web.openapi import read_description

READY_SECONDS = 3

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Return 200 while the process is alive."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(runtime: RuntimeDep) -> JSONResponse:
    """Return whether the service can serve: 200, 503 while the database is unreachable or has no connection left, else
    507.

    507 means that the database is unavailable because of a full disk. `storage` is present when a disk runs short
    (`low`, `full`): reading continues, new data is refused."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await runtime.database.ping()
    except (SQLAlchemyError, TimeoutError):
        busy = requests_saturated() if runtime.database.is_saturated else database_away()
        return error_response(runtime.disk.refusal_of_database() or busy)
    level = runtime.disk.level
    return JSONResponse({"status": "ready"} | ({} if level is StorageLevel.OK else {"storage": level.lower()}))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the counts since the start in Prometheus format."""
    return Response(request.app.state.metrics.render(), media_type=CONTENT_TYPE_LATEST)


@router.get("/openapi.json", include_in_schema=False)
def openapi() -> Response:
    """Return the API description in OpenAPI. Runs outside the event loop, because of the file."""
    return Response(read_description(), media_type="application/json")


@router.get("/api/v0/openapi.json", include_in_schema=False)
def openapi_of_v0() -> Response:
    """Return the API description of v0 only."""
    return Response(read_description("v0"), media_type="application/json")


@router.get("/api/v1/openapi.json", include_in_schema=False)
def openapi_of_v1() -> Response:
    """Return the API description of v1 only, with OAuth as the source of tokens."""
    return Response(read_description("v1"), media_type="application/json")
