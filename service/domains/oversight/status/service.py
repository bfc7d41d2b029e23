"""The state of an organization, for the Health page."""

from collections import defaultdict
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import oversight as wire
from carrel.wire.reranking import RerankingState
from carrel.wire.servers import ArchiveState, PrimaryState
from service.auth.callers import Caller
from service.domains.oversight.status import queries
from service.index.ingestion.backlog.queries import measure_backlog
from service.platform.sharing import Figure, Share
from service.platform.version import VERSION
from service.runtime import Runtime
from service.text.embedding import MODEL_FOLDER
from service.text.embedding.local import LocalEmbedder, read_chosen
from service.web.connections import Connections

BUILT_IN = "built-in"


async def get_status(
    runtime: Runtime, connection: Connection, caller: Caller, *, connections: Connections | None
) -> wire.AdminStatusGetResponse:
    """Return the state of the caller's organization and of the service; None for parts that are not set up."""
    figures = await queries.read_state(connection, caller.organization_id)
    backlog = await measure_backlog(connection, caller.organization_id)
    settings, indexer, latest = runtime.settings, runtime.indexer, runtime.share.latest
    embedding = indexer.embedding
    parts: dict[str, dict[str, Any]] = defaultdict(dict)
    for path, figure in figures.items():
        part, _, name = path.rpartition(".")
        parts[part][name] = figure
    state, indexing, quarantine = parts.pop(""), parts["indexing"], parts["quarantine"]
    indexing |= {
        "done": state["document_count"] - indexing["running"] - indexing["failed"],
        "waiting_documents": backlog.documents,
        "waiting_chunks": embedding.deps.pace.chunks_in(backlog),
        "chunks_per_second": round(embedding.pace_of(caller.organization_id), 1) if backlog.documents else 0.0,
        "uploads_refused_seconds": indexer.refused_seconds(caller.organization_id),
    }
    sources = await queries.list_quarantined(connection, caller.organization_id) if quarantine["item_count"] else []
    state["embedding_model"] = state["embedding_model"] or runtime.embedders.default.model.name
    return wire.AdminStatusGetResponse(
        **state,
        indexing=wire.IndexingState(**indexing),
        jobs=wire.JobsState(**parts["jobs"]),
        syncs=wire.SyncsState(**parts["syncs"]),
        quarantine=wire.QuarantineState(**quarantine, sources=sources),
        version=VERSION,
        arithmetic=_describe_arithmetic(runtime),
        language_model=settings.model_names[0] if settings.model_url else BUILT_IN,
        text_retention_days=settings.text_retention_days,
        storage=[file_system.describe() for file_system in runtime.disk.file_systems],
        connections=connections.describe() if connections else None,
        standbys=[standby.describe() for standby in runtime.standbys.all] or None,
        primary=_describe_primary(runtime.share),
        archive=ArchiveState(archived_at=latest(Figure.ARCHIVED_AT), backed_up_at=latest(Figure.BACKED_UP_AT))
        if settings.archive_url is not None
        else None,
        reranking=RerankingState(answered_at=latest(Figure.RERANKED_AT), failed_at=latest(Figure.NOT_RERANKED_AT))
        if runtime.reranker is not None
        else None,
    )


def _describe_arithmetic(runtime: Runtime) -> wire.ArithmeticState | None:
    settings, is_local = runtime.settings, isinstance(runtime.embedders.default, LocalEmbedder)
    chosen = read_chosen(settings.data_dir / MODEL_FOLDER, settings.embeddings_precision) if is_local else None
    return chosen and wire.ArithmeticState(
        precision=chosen.precision, processor=chosen.processor, times_as_fast=chosen.times_as_fast
    )


def _describe_primary(share: Share) -> PrimaryState | None:
    unconfirmed_at, older_refused_at = share.latest(Figure.UNCONFIRMED_AT), share.latest(Figure.OLDER_PRIMARY_AT)
    if unconfirmed_at is None and older_refused_at is None:
        return None
    return PrimaryState(unconfirmed_at=unconfirmed_at, older_refused_at=older_refused_at)
