"""The ASGI application: every domain's endpoints under /api/v0, and the ones operators use."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI

from service import errors, operations
from service.edge import Edge
from service.logs import logger
from service.metrics import Metrics
from service.routing import Router
from service.runtime import Runtime, open_runtime
from service.settings import Settings

DOMAINS = ("identity", "permissions", "audit", "catalog", "collections", "search")


def create_app(runtime: Runtime) -> FastAPI:
    """Assemble the application around a runtime that is already open."""
    app = FastAPI(title="Carrel", version="0.1.0", docs_url=None, redoc_url=None)
    app.state.runtime = runtime
    app.state.metrics = Metrics(runtime)
    app.add_middleware(Edge, metrics=app.state.metrics)
    errors.install(app)
    app.include_router(operations.router)
    api = Router(prefix="/api/v0")
    for domain in DOMAINS:
        name = f"service.{domain}.endpoints"
        if find_spec(name):
            try:
                api.include_router(import_module(name).router)
            except ImportError:  # until every domain has landed
                logger.exception("domain_not_importable", domain=domain)
    app.include_router(api)
    return app


@asynccontextmanager
async def open_app(settings: Settings, **shared: Any) -> AsyncGenerator[FastAPI]:
    """Open the runtime, start what runs beside the requests, and give the application; close it all afterwards."""
    async with open_runtime(settings, **shared) as runtime:
        try:
            from service.ingestion.sweeper import keep_sweeping  # noqa: PLC0415

            runtime.background.spawn(keep_sweeping(runtime))
        except ImportError:  # until chunking has landed
            logger.exception("sweeper_not_importable")
        yield create_app(runtime)
