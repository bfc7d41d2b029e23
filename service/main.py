"""The ASGI application: every domain's endpoints under /api/v0 and /api/v1, OAuth, and the endpoints for operators."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from carrel.wire.common import ErrorResponse
from service.alerting.sending.task import ALERTS, DELIVER, WORKERS, enqueue_overdue
from service.alerting.telling import Telling
from service.domains.access import endpoints as permissions
from service.domains.agents import endpoints as agents
from service.domains.agents.conversations import endpoints as conversations
from service.domains.agents.conversations import jobs
from service.domains.agents.conversations.jobs import ANSWER_TURN
from service.domains.documents import endpoints as documents
from service.domains.documents.catalog import endpoints as catalog
from service.domains.documents.catalog.trash import service as trash
from service.domains.documents.catalog.unpacking import UNPACK
from service.domains.documents.docstore.running.task import DOCSTORE, RUN_SYNC, begin_stuck
from service.domains.documents.files.collecting import collect_seconds, collect_when_due
from service.domains.documents.recognition.jobs import OCR, READ_PAGES, SWEEP_SECONDS
from service.domains.documents.recognition.jobs import sweep as sweep_pages
from service.domains.oversight import endpoints as oversight
from service.domains.oversight.alerts import reports
from service.domains.oversight.alerts.reports import begin_expired
from service.domains.oversight.audit_log import erasure
from service.domains.oversight.changes.changing import CHANGE_DOCUMENTS, CHANGES
from service.domains.oversight.changes.queries import delete_old as delete_old_changes
from service.domains.people import endpoints as people
from service.domains.people.directory import me
from service.domains.people.scim import endpoints as scim
from service.domains.search import endpoints as search
from service.identity.queries import in_each_organization
from service.identity_server import interface as identity_server
from service.index.ingestion.feeding import keep_indexing
from service.index.ingestion.renewal import RENEWED_EVERY, renew_all
from service.index.ingestion.sweeper import fold_all, sweep
from service.index.rebuilds.running import rebuild_all
from service.mcp import endpoint as mcp
from service.operate.startup import open_runtime
from service.platform import errors
from service.platform.disk import LOOK_SECONDS
from service.platform.files import UNTOUCHED_SECONDS
from service.platform.settings import Settings
from service.platform.version import VERSION
from service.runtime import Runtime, standbys
from service.runtime.jobs.models import AGENTS, Queue, Task
from service.runtime.jobs.worker import NAME as JOBS
from service.runtime.jobs.worker import RELEASE_SECONDS, keep_working, release_stalled
from service.web import guidance, openapi, operations, pages
from service.web.dependencies import V0_PREFIX, V1_PREFIX
from service.web.edge import Edge
from service.web.idempotency import queries as idempotency
from service.web.metrics import Metrics
from service.web.multipart import remove_leftovers

# Each operation is on v0, for keys and service accounts, and on v1, for access tokens, unless declared for one only.
DOMAINS = (
    people,
    me,
    scim,
    permissions,
    catalog,
    documents,
    search,
    identity_server.endpoints,
    agents,
    conversations,
    oversight,
)
# FastAPI's own telemetry would contain queries and the senders' addresses (`platform/traces.py`).
NO_TELEMETRY = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
AGENT_TASKS: tuple[Task, ...] = (ANSWER_TURN,)
PURGE_SECONDS = 3600
# The most containers in each process; several files of each are unpacked at once.
UNPACKED_AT_ONCE = 2
ERRORS: dict[int | str, dict[str, Any]] = {
    "default": {"model": ErrorResponse, "description": "Every error: 400 to 507, in one shape."}
}


def create_app(runtime: Runtime) -> FastAPI:
    options: dict[str, Any] = {"openapi_url": None, "redirect_slashes": False, "telemetry": NO_TELEMETRY}
    app = FastAPI(title="Carrel", version=VERSION, **options)
    app.state.runtime = runtime
    app.state.connections = None
    app.state.metrics = Metrics(runtime)
    app.add_middleware(Edge, metrics=app.state.metrics)
    errors.install(app)
    guidance.install(app)
    app.router.routes.extend(routes())
    return app


@cache
def routes() -> Sequence[BaseRoute]:
    """Return every endpoint. Cached, because FastAPI's inspection is slow; all applications share the result."""
    router = APIRouter()
    router.include_router(operations.router)
    router.include_router(openapi.router)
    for version, prefix in (("v0", V0_PREFIX), ("v1", V1_PREFIX)):
        for domain in DOMAINS:
            router.include_router(domain.router.of_version(version), prefix=prefix, responses=ERRORS)
    for module in (*identity_server.PAGES, pages):
        router.include_router(module.router)
    router.include_router(scim.scim_router)
    router.include_router(mcp.router)
    return tuple(router.routes)


@asynccontextmanager
async def open_app(settings: Settings, **shared: Any) -> AsyncGenerator[FastAPI]:
    """Open the runtime, start the background work, yield the application, and close everything afterwards."""
    async with open_runtime(settings, **shared) as runtime:
        _keep_tasks(runtime)
        app = create_app(runtime)
        if settings.archive_url is not None:
            app.state.metrics.watch_archive()
        app.state.metrics.keep_told(runtime.background)
        yield app


def _keep_tasks(runtime: Runtime) -> None:
    settings, repeat, indexer, disk = runtime.settings, runtime.background.repeat, runtime.indexer, runtime.disk
    beside, database = runtime.beside_requests(), indexer.database
    repeat("storage", partial(asyncio.to_thread, disk.look), every=LOOK_SECONDS)
    if runtime.standbys.all:
        repeat("standbys", partial(runtime.standbys.look, database), every=standbys.LOOK_SECONDS)
    keep_indexing(indexer, disk, runtime.background)
    repeat("sweeping", partial(sweep, indexer, disk), every=settings.sweep_seconds)
    repeat("statistics", partial(fold_all, database), every=settings.sweep_seconds)
    repeat("word-forms", partial(renew_all, database, disk), every=RENEWED_EVERY)
    repeat("rebuilds", partial(rebuild_all, indexer, disk), every=settings.sweep_seconds)
    visit = partial(in_each_organization, beside.database)
    repeat("idempotency-keys", partial(visit, idempotency.delete_old), every=PURGE_SECONDS)
    repeat("document-changes", partial(visit, delete_old_changes), every=PURGE_SECONDS)
    repeat("oauth-tokens", partial(visit, partial(identity_server.purge_tokens, beside)), every=PURGE_SECONDS)
    remove = partial(remove_leftovers, settings.uploads_dir, untouched_seconds=UNTOUCHED_SECONDS)
    repeat("broken-off-uploads", partial(asyncio.to_thread, remove), every=UNTOUCHED_SECONDS / 24)
    repeat("files", partial(collect_when_due, beside), every=collect_seconds(settings))
    repeat("trash", partial(trash.purge, beside.database, days=settings.trash_days), every=PURGE_SECONDS)
    if settings.text_retention_days is not None:
        erase = partial(erasure.erase_old, beside, days=settings.text_retention_days)
        repeat("erasure", erase, every=erasure.EVERY_SECONDS)
    repeat("abandoned-replies", partial(jobs.expire_turns, beside), every=jobs.EVERY_SECONDS)
    repeat("stalled-jobs", partial(release_stalled, runtime), every=RELEASE_SECONDS)
    tell: tuple[reports.Check, ...] = (
        lambda run, link, org: Telling(run, link, org).end_settled(),
        lambda run, link, org: Telling(run, link, org).tell_left_out(),
    )
    watch = reports.Watch(beside, checks=(begin_expired, begin_stuck, *tell, enqueue_overdue))
    repeat("missing-reports", watch.look, every=reports.EVERY_SECONDS)
    repeat("old-alerts", partial(visit, reports.purge), every=PURGE_SECONDS)
    if settings.ocr:
        repeat("forgotten-pages", partial(sweep_pages, beside), every=SWEEP_SECONDS)
    runtime.background.keep(JOBS, partial(keep_working, runtime, _queues(settings)))


def _queues(settings: Settings) -> Sequence[Queue]:
    queues = (
        Queue(ALERTS, (DELIVER,), WORKERS),
        Queue(AGENTS, AGENT_TASKS, settings.agent_workers),
        Queue(UNPACK.queue, (UNPACK,), UNPACKED_AT_ONCE),
        Queue(CHANGES, (CHANGE_DOCUMENTS,), 1),
        Queue(DOCSTORE, (RUN_SYNC,), settings.docstore_workers),
        Queue(OCR, (READ_PAGES,), settings.ocr_workers if settings.ocr else 0),
    )
    return [queue for queue in queues if queue.concurrency]
