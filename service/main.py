"""The ASGI application: every domain's endpoints under /api/v0, and the ones operators use."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from carrel.wire.common import ErrorResponse
from service import errors, operations
from service.audit import endpoints as audit
from service.audit.erasure import keep_erasing
from service.catalog import endpoints as catalog
from service.collections import endpoints as collections
from service.edge import Edge
from service.idempotency.forgetting import keep_forgetting
from service.identity import endpoints as identity
from service.ingestion.sweeper import keep_sweeping
from service.metrics import Metrics
from service.openapi import DescribedApi
from service.permissions import endpoints as permissions
from service.routing import Router
from service.runtime import Runtime, open_runtime
from service.search import endpoints as search
from service.service_accounts import endpoints as service_accounts
from service.settings import Settings

DOMAINS = (identity, service_accounts, permissions, audit, catalog, collections, search)
ERRORS = {"default": {"model": ErrorResponse, "description": "Every error: 400 to 503, in one shape."}}


def create_app(runtime: Runtime) -> FastAPI:
    """Assemble the application around a runtime that is already open."""
    app = DescribedApi(title="Carrel", version="0.1.0", docs_url=None, redoc_url=None)
    app.state.runtime = runtime
    app.state.metrics = Metrics(runtime)
    app.add_middleware(Edge, metrics=app.state.metrics)
    errors.install(app)
    app.include_router(operations.router)
    api = Router(prefix="/api/v0", responses=ERRORS)
    for domain in DOMAINS:
        api.include_router(domain.router)
    app.include_router(api)
    return app


@asynccontextmanager
async def open_app(settings: Settings, **shared: Any) -> AsyncGenerator[FastAPI]:
    """Open the runtime, start what runs beside the requests, and give the application; close it all afterwards."""
    async with open_runtime(settings, **shared) as runtime:
        runtime.background.spawn(keep_sweeping(runtime))
        runtime.background.spawn(keep_forgetting(runtime))
        runtime.background.spawn(keep_erasing(runtime))
        yield create_app(runtime)
