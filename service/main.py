"""The ASGI application: every domain's endpoints under /api/v0, and the ones operators use."""

from importlib import import_module
from importlib.util import find_spec

from fastapi import FastAPI

from service import errors
from service.logs import logger
from service.routing import Router
from service.runtime import Runtime

DOMAINS = ("identity", "permissions", "audit", "catalog", "collections", "search")


def create_app(runtime: Runtime) -> FastAPI:
    """Assemble the application around a runtime that is already open."""
    app = FastAPI(title="Carrel", version="0.1.0", docs_url=None, redoc_url=None)
    app.state.runtime = runtime
    errors.install(app)
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
