"""SQL of an organization's state: a single statement, with each figure from an index or a small table."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, DateTime, Subquery, Text, Uuid, and_, cast, column, func, select, table
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.alerts import AlertKind
from carrel.wire.common import ResourceType
from carrel.wire.oversight import SourceQuarantine
from service.alerting.sending.task import ALERTS
from service.domains.documents.docstore.running.applying import SOME_FAILED
from service.domains.documents.recognition.jobs import OCR
from service.index.ingestion.queries import is_old
from service.index.progress import FAILED_AFTER
from service.index.queries import is_pending, lacks_words
from service.platform.sql import columns_of, find_rows, matches
from service.schema.alerts import alerts
from service.schema.catalog import (
    collections,
    docstore_failures,
    docstore_syncs,
    document_versions,
    scanned_pages,
    source_reports,
    sources,
)
from service.schema.conversations import conversations, turns
from service.schema.identity import resources
from service.schema.indexing import TOTAL_TERM, index_rebuilds, space_documents, spaces, term_deltas, term_statistics

LATELY = timedelta(hours=24)
# A message updates its conversation's time; the reply ends at most this much later.
REPLYING = timedelta(hours=1)
MOST_SOURCES = 20
NO_DOCUMENTS = (ResourceType.DOCUMENT_COLLECTION.value, ResourceType.AGENT.value)

_Figures = dict[str, ColumnElement[Any]]
# Members that are absent when 0, so that old and new services answer alike.
_SYNC_TROUBLES = ("syncs.incomplete", "syncs.refused_documents", "syncs.refusing")
_OF_INDEXING = ("indexing.failed_in_collections", "indexing.failed_in_meaning", "indexing.without_meaning")
_ABSENT = ("failed_run_count", "renewing_count", *_OF_INDEXING, *_SYNC_TROUBLES)
_jobs = table("procrastinate_jobs", column("status", Text), column("args", JSONB), column("queue_name", Text))


async def read_state(connection: Connection, organization_id: UUID) -> dict[str, Any]:
    """Read the figures of `AdminStatusGetResponse`, keyed by the path to each member."""
    figures = _Figures()
    for subject in (_of_index, _of_jobs, _of_syncs, _of_loading):
        figures |= subject(organization_id)
    figures |= {name: func.nullif(figures[name], 0) for name in _ABSENT}
    statement = select(*(figure.label(name) for name, figure in figures.items()))
    return dict((await connection.execute(statement)).mappings().one())


def _of_index(organization_id: UUID) -> _Figures:
    pending, of_rebuilds = _pending(organization_id), index_rebuilds.c.organization_id == organization_id
    has_failed, is_document = pending.c.attempts >= FAILED_AFTER, resources.c.resource_type.not_in(NO_DOCUMENTS)
    own = space_documents.c.organization_id == organization_id
    old = select(func.count(space_documents.c.document_id.distinct())).where(own, is_old())
    return {
        "renewing_count": old.scalar_subquery(),
        "document_count": _number(resources, resources.c.organization_id == organization_id, is_document),
        "collection_count": _number(collections, collections.c.organization_id == organization_id),
        "chunk_count": _chunks(organization_id),
        "indexing.running": _number(pending, ~has_failed),
        "indexing.failed": _number(pending, has_failed),
        "indexing.failed_in_meaning": _number(pending, has_failed, ~pending.c.lacks_words),
        "indexing.without_meaning": _number(pending, ~has_failed, ~pending.c.lacks_words),
        "indexing.failed_in_collections": _number(
            space_documents,
            own,
            space_documents.c.space_id != _catalog(organization_id, spaces.c.space_id),
            space_documents.c.attempts >= FAILED_AFTER,
            is_pending(),
        ),
        "indexing.oldest_waiting_at": _oldest(pending, and_(~has_failed, pending.c.lacks_words)),
        "rebuilds_running": _number(index_rebuilds, of_rebuilds, index_rebuilds.c.status == "RUNNING"),
        "embedding_model": _catalog(organization_id, spaces.c.model),
    }


def _of_jobs(organization_id: UUID) -> _Figures:
    jobs, of_pages = _select_jobs(organization_id), scanned_pages.c.organization_id == organization_id
    of_pages &= scanned_pages.c.document_id.in_(select(resources.c.object_id))  # none in the trash
    waits = jobs.c.status == "todo"
    return {
        "jobs.waiting": _number(jobs, waits),
        "jobs.running": _number(jobs, jobs.c.status == "doing"),
        "jobs.oldest_waiting_at": _oldest(jobs, waits),
        "jobs.failed": _count_failed_lately(organization_id),
        "pages_waiting": _number(scanned_pages, of_pages, scanned_pages.c.state == "WAITING"),
    }


def _of_syncs(organization_id: UUID) -> _Figures:
    own = docstore_syncs.c.organization_id == organization_id
    refused = docstore_failures.c.organization_id == organization_id
    return {
        "syncs.running": _number(docstore_syncs, own, docstore_syncs.c.status.in_(["PENDING", "RUNNING"])),
        "syncs.failed": _number(docstore_syncs, own, docstore_syncs.c.status == "FAILED"),
        "syncs.incomplete": _number(docstore_syncs, own, docstore_syncs.c.warning_code != SOME_FAILED),
        "syncs.refused_documents": _number(docstore_failures, refused),
        "syncs.refusing": select(func.count(docstore_failures.c.sync_id.distinct())).where(refused).scalar_subquery(),
    }


def _of_loading(organization_id: UUID) -> _Figures:
    has_items = and_(sources.c.organization_id == organization_id, sources.c.item_count > 0)
    is_open = and_(alerts.c.organization_id == organization_id, alerts.c.ended_at.is_(None))
    items = select(func.coalesce(func.sum(sources.c.item_count), 0)).where(has_items)
    return {
        "quarantine.item_count": items.scalar_subquery(),
        "quarantine.source_count": _number(sources, has_items),
        "open_alert_count": _number(alerts, is_open),
        "failed_run_count": _number(alerts, is_open, alerts.c.kind == AlertKind.RUN_FAILED),
    }


async def list_quarantined(connection: Connection, organization_id: UUID) -> list[SourceQuarantine]:
    """List the MOST_SOURCES sources with the most items, the most first; none without items."""
    shown = and_(source_reports.c.source_id == sources.c.source_id, source_reports.c.report_no == sources.c.shown_no)
    statement = (
        select(*columns_of(sources, SourceQuarantine, source_reports.c.source))
        .join(source_reports, shown)
        .where(sources.c.organization_id == organization_id, sources.c.item_count > 0)
        .order_by(sources.c.item_count.desc(), sources.c.source_id)
        .limit(MOST_SOURCES)
    )
    return await find_rows(connection, statement, SourceQuarantine)


def _number(source: Any, *conditions: ColumnElement[bool]) -> ColumnElement[int]:
    return select(func.count()).select_from(source).where(*conditions).scalar_subquery()


def _oldest(source: Subquery, condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return select(func.min(source.c.since)).where(condition).scalar_subquery()


def _catalog(organization_id: UUID, what: ColumnElement[Any]) -> ColumnElement[Any]:
    return select(what).where(spaces.c.organization_id == organization_id, spaces.c.is_catalog).scalar_subquery()


def _pending(organization_id: UUID) -> Subquery:
    wanted = and_(
        document_versions.c.document_id == space_documents.c.document_id,
        document_versions.c.version == space_documents.c.version,
    )
    since = func.greatest(space_documents.c.added_at, document_versions.c.created_at)
    return (
        select(space_documents.c.attempts, since.label("since"), lacks_words().label("lacks_words"))
        .outerjoin(document_versions, wanted)
        .where(
            matches(space_documents, organization_id, space_id=_catalog(organization_id, spaces.c.space_id)),
            is_pending(),
        )
        .subquery("pending")
    )


def _chunks(organization_id: UUID) -> ColumnElement[Any]:
    """Select the number of the catalog's chunks from its term statistics, without reading the chunks."""
    sums = (
        select(func.coalesce(func.sum(number), 0))
        .where(
            matches(counted, organization_id, space_id=_catalog(organization_id, spaces.c.space_id), term=TOTAL_TERM)
        )
        .scalar_subquery()
        for counted, number in ((term_statistics, term_statistics.c.frequency), (term_deltas, term_deltas.c.delta))
    )
    return next(sums) + next(sums)


def _select_jobs(organization_id: UUID) -> Subquery:
    asked_at = func.coalesce(turns.c.created_at, docstore_syncs.c.progress_at, docstore_syncs.c.updated_at)
    own = and_(turns.c.organization_id == organization_id, turns.c.turn_id == _id_in("turn_id"))
    sync = and_(docstore_syncs.c.organization_id == organization_id, docstore_syncs.c.sync_id == _id_in("sync_id"))
    return (
        select(cast(_jobs.c.status, Text).label("status"), cast(asked_at, DateTime(timezone=True)).label("since"))
        .select_from(_jobs.outerjoin(turns, own).outerjoin(docstore_syncs, sync))
        # Alert deliveries wait on purpose and are listed separately; text recognition is counted by pages.
        .where(_jobs.c.args["organization_id"].astext == str(organization_id), _jobs.c.queue_name.not_in([ALERTS, OCR]))
        .subquery("jobs")
    )


def _id_in(name: str) -> ColumnElement[UUID]:
    return cast(_jobs.c.args[name].astext, Uuid)


def _count_failed_lately(organization_id: UUID) -> ColumnElement[int]:
    # Recently updated conversations, which an index finds.
    recent = and_(matches(conversations, organization_id), conversations.c.updated_at > func.now() - LATELY - REPLYING)
    return _number(
        turns.join(conversations, conversations.c.conversation_id == turns.c.conversation_id),
        recent,
        matches(turns, organization_id, status="FAILED"),
        turns.c.finished_at > func.now() - LATELY,
    )
