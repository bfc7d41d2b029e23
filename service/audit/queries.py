"""SQL of the audit log: entries are added and read, never changed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from sqlalchemy.sql.elements import KeyedColumnElement

from carrel.wire.common import ResourceType, UserPrincipal
from carrel.wire.fields import normal_email
from carrel.wire.oversight import MOST_LOOKED_THROUGH, AuditEntry, AuditTarget
from carrel.wire.oversight import AdminAuditLogQueryRequest as Filters
from service.platform import sql
from service.platform.batches import Batch
from service.schema.agents import agents, evaluation_sets
from service.schema.catalog import collections, documents, source_reports
from service.schema.identity import api_keys, organizations, principals, scim_tokens, service_account_tokens
from service.schema.search import audit_entries, free_texts, searches
from service.schema.signin import failed_sign_ins, oauth_clients, sign_in_providers

# For each kind of object that entries name: the columns with its id and name.
_NAMED: Mapping[str, tuple[KeyedColumnElement[UUID], sa.ColumnElement[str]]] = {
    **dict.fromkeys(("user", "group", "serviceAccount"), (principals.c.principal_id, principals.c.name)),
    "organization": (organizations.c.organization_id, organizations.c.name),
    "document": (documents.c.document_id, documents.c.name),
    **dict.fromkeys(("collection", "DOCUMENT_COLLECTION"), (collections.c.collection_id, collections.c.name)),
    **dict.fromkeys(("agent", "AGENT"), (agents.c.agent_id, agents.c.name)),
    "apiKey": (api_keys.c.api_key_id, api_keys.c.name),
    "serviceAccountToken": (service_account_tokens.c.token_id, service_account_tokens.c.name),
    "scimToken": (scim_tokens.c.token_id, scim_tokens.c.name),
    "oauthClient": (oauth_clients.c.client_id, oauth_clients.c.name),
    "signInProvider": (sign_in_providers.c.provider_id, sign_in_providers.c.name),
    "evaluationSet": (evaluation_sets.c.evaluation_set_id, evaluation_sets.c.name),
    "source": (source_reports.c.source_id, source_reports.c.source),
}
LONGEST_NAME = 1000
_SHOWN = (
    *("audit_log_id", "at", "actor_id", "acting_for_id", "action", "target_type", "target_id", "target_name"),
    *("details", "request_id", "address", "device"),
)
# Actions that change editable settings.
_CHANGES = (
    r"\.(create|update|update_sync|rename|set|share|deploy|members|judge|remove_judgements|offboard|approve"
    r"|add_document|remove_document|add_chunks|reindex_document|change_fields|change_values)$"
)


_GIVEN = (
    audit_entries.c.audit_log_id,
    audit_entries.c.actor_id,
    audit_entries.c.acting_for_id,
    audit_entries.c.credential_id,
    audit_entries.c.action,
    audit_entries.c.target_type,
    audit_entries.c.target_id,
    audit_entries.c.details,
    audit_entries.c.request_id,
    audit_entries.c.address,
    audit_entries.c.device,
)


def add_entries(batch: Batch, organization_id: UUID, *, entries: Sequence[Mapping[str, object]]) -> None:
    """Append entries with the names of targets and actors. A named target's id is a UUID. A statement for each kind."""
    by_kind: dict[str | None, list[Mapping[str, object]]] = {}
    for entry in entries:
        by_kind.setdefault(_kind_of(entry["target_type"]), []).append(entry)
    for kind, some in by_kind.items():
        arrays = {column.name: [entry[column.name] for entry in some] for column in _GIVEN}
        batch.ask(_build_insert(kind), dict[str, UUID], sql.params(organization_id, **arrays))


def _kind_of(target_type: object) -> str | None:
    if target_type in _NAMED:
        return str(target_type)
    # The only other kind of resource is a document.
    return "document" if target_type in ResourceType.__members__ else None


@cache
def _build_insert(kind: str | None) -> sa.Select[UUID]:
    arrays = (sa.bindparam(f"param_{each.name}", type_=sa.ARRAY(each.type)) for each in _GIVEN)
    rows = (
        sa.func.unnest(*arrays)
        .table_valued(*(sa.column(each.name, each.type) for each in _GIVEN))
        .render_derived("given")
    )
    names = {
        "actor_name": _name_of("user", rows.c.actor_id),
        "acting_for_name": _name_of("user", rows.c.acting_for_id),
        "target_name": sa.null() if kind is None else _name_of(kind, sa.cast(rows.c.target_id, sa.Uuid)),
    }
    new = sa.insert(audit_entries).from_select(
        ["organization_id", *rows.c.keys(), *names], sa.select(sql.ORGANIZATION, *rows.c, *names.values())
    )
    added = new.returning(audit_entries.c.audit_log_id).cte("added")
    return sa.select(added.c.audit_log_id)


def _name_of(kind: str, object_id: sa.ColumnElement[UUID]) -> sa.ColumnElement[Any]:
    key, name = _NAMED[kind]
    found = sa.select(sa.func.left(name, LONGEST_NAME)).where(
        key.table.c.organization_id == sql.ORGANIZATION, key == object_id
    )
    # A source has several reports with one name.
    return found.limit(1).scalar_subquery()


async def insert_texts(connection: Connection, organization_id: UUID, *, texts: Mapping[UUID, str]) -> None:
    rows = [{"subject_id": key, "organization_id": organization_id, "text": text} for key, text in texts.items()]
    await connection.execute(sa.insert(free_texts), rows)


async def delete_texts_before(connection: Connection, organization_id: UUID, *, before: UUID, limit: int) -> int:
    """Delete up to `limit` texts of entries and searches with ids below a given id; return the number deleted."""
    old = (
        sa.select(free_texts.c.subject_id)
        .where(free_texts.c.organization_id == organization_id, free_texts.c.subject_id < before)
        .order_by(free_texts.c.subject_id)
        .limit(limit)
    )
    return await sql.delete_rows(connection, free_texts, organization_id, free_texts.c.subject_id.in_(old))


async def delete_texts_of(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> int:
    """Delete the texts of a principal's searches and of entries by or for the principal; return the number."""
    searched = sa.select(searches.c.search_id).where(sql.matches(searches, organization_id, principal_id=principal_id))
    # The owner of a key that acts for users did not write the users' texts.
    author = sa.func.coalesce(audit_entries.c.acting_for_id, audit_entries.c.actor_id)
    noted = sa.select(audit_entries.c.audit_log_id).where(
        audit_entries.c.organization_id == organization_id, author == principal_id
    )
    return await sql.delete_rows(
        connection, free_texts, organization_id, free_texts.c.subject_id.in_(sa.union_all(searched, noted))
    )


@dataclass(frozen=True, slots=True)
class Position:
    at: datetime
    audit_log_id: UUID


@dataclass(frozen=True, slots=True)
class LastChange:
    actor_name: str | None
    at: datetime


async def find_last_change(connection: Connection, organization_id: UUID, *, target_id: UUID) -> LastChange | None:
    """Return the last change of an object's editable settings; None without an entry."""
    changes = audit_entries.c.action.regexp_match(_CHANGES)
    statement = _entries(organization_id, Filters(target_id=str(target_id)), None).where(changes).limit(1)
    return await sql.find_row(
        connection, statement.with_only_columns(*sql.columns_of(audit_entries, LastChange)), LastChange
    )


def looks_through(filters: Filters) -> bool:
    """Return whether a filter lacks an index, so that a page looks through a bounded number of entries."""
    return not (filters.query is None and filters.contained is None and filters.container_id is None)


async def list_entries(
    connection: Connection, organization_id: UUID, *, filters: Filters, before: Position | None, limit: int
) -> list[AuditEntry]:
    """List audit entries, newest first, before a position; of the next MOST_LOOKED_THROUGH if `looks_through`."""
    actors, subjects = principals.alias("actors"), principals.alias("subjects")
    looked_through = MOST_LOOKED_THROUGH if looks_through(filters) else limit
    entries = _entries(organization_id, filters, before).limit(looked_through).subquery("entries")
    actor_name = sa.func.coalesce(entries.c.actor_name, actors.c.name)
    acting_for_name = sa.func.coalesce(entries.c.acting_for_name, subjects.c.name)
    statement = (
        sa.select(
            *(entries.c[name] for name in _SHOWN),
            actor_name.label("actor_name"),
            actors.c.email.label("actor_email"),
            acting_for_name.label("acting_for_name"),
            subjects.c.email.label("acting_for_email"),
            free_texts.c.text,
            failed_sign_ins.c.attempts,
            failed_sign_ins.c.last_at,
        )
        .outerjoin(actors, actors.c.principal_id == entries.c.actor_id)
        .outerjoin(subjects, subjects.c.principal_id == entries.c.acting_for_id)
        .outerjoin(free_texts, free_texts.c.subject_id == entries.c.audit_log_id)
        .outerjoin(failed_sign_ins, failed_sign_ins.c.audit_log_id == entries.c.audit_log_id)
        .order_by(entries.c.at.desc(), entries.c.audit_log_id.desc())
        .limit(limit)
    )
    container_id = entries.c.details["containerId"].astext
    if filters.contained is not None:
        statement = statement.where(container_id.is_not(None) if filters.contained else container_id.is_(None))
    if filters.container_id is not None:
        statement = statement.where(container_id == str(filters.container_id))
    if filters.query is not None:
        names = (entries.c.target_name, actor_name, acting_for_name)
        statement = statement.where(sa.or_(*(element.icontains(filters.query, autoescape=True) for element in names)))
    return await sql.find_rows(connection, statement, _to_entry)


def _to_entry(*, target_id: str | None, details: dict[str, Any], **columns: Any) -> AuditEntry:
    kind, name, words = (columns.pop(item) for item in ("target_type", "target_name", "text"))
    parts = ("_id", "_name", "_email")
    actor, acting_for = (_to_person(*(columns.pop(role + name) for name in parts)) for role in ("actor", "acting_for"))
    target = None if target_id is None else AuditTarget(type=kind, id=target_id, name=name)
    said: dict[str, Any] = {"details": details, "text": words}
    if "changes" in details:
        # `words` is the text that people wrote, until it is erased.
        changes = {name: pair or {} for name, pair in details["changes"].items()} | json.loads(words or "{}")
        said = {"details": {name: value for name, value in details.items() if name != "changes"}, "changes": changes}
    return AuditEntry(**columns, **said, actor=actor, acting_for=acting_for, target=target)


def _to_person(principal_id: UUID | None, name: str | None, email: str | None) -> UserPrincipal | None:
    return None if principal_id is None else UserPrincipal(id=str(principal_id), name=name or "", email=email or "")


async def find_last_searched(
    connection: Connection, organization_id: UUID, *, filters: Filters, before: Position | None
) -> Position | None:
    """Return the position of the last entry that a page examines; None at the end of the log."""
    statement = _entries(organization_id, filters, before).offset(MOST_LOOKED_THROUGH - 1).limit(1)
    narrowed = statement.with_only_columns(audit_entries.c.at, audit_entries.c.audit_log_id)
    return await sql.find_row(connection, narrowed, Position)


def _entries(organization_id: UUID, filters: Filters, before: Position | None) -> sa.Select[Any]:
    order = (audit_entries.c.at, audit_entries.c.audit_log_id)
    statement = sa.select(audit_entries).where(
        audit_entries.c.organization_id == organization_id, *_conditions(organization_id, filters)
    )
    if before is not None:
        statement = statement.where(sa.tuple_(*order) < (before.at, before.audit_log_id))
    return statement.order_by(*(column.desc() for column in order))


def _conditions(organization_id: UUID, filters: Filters) -> list[sa.ColumnElement[bool]]:
    conditions = [sql.optional_in(audit_entries.c.audit_log_id, filters.ids)]
    if filters.actor is not None:
        named = sa.select(principals.c.principal_id).where(
            sql.matches(principals, organization_id, email=normal_email(filters.actor))
        )
        conditions.append(sa.or_(audit_entries.c.actor_id.in_(named), audit_entries.c.acting_for_id.in_(named)))
    if filters.action is not None:
        conditions.append(audit_entries.c.action == filters.action)
    if filters.actions is not None:
        conditions.append(sql.in_array(audit_entries.c.action, filters.actions))
    if filters.target_id is not None:
        conditions.append(audit_entries.c.target_id == filters.target_id)
    if filters.from_ is not None:
        conditions.append(audit_entries.c.at >= filters.from_)
    if filters.to is not None:
        conditions.append(audit_entries.c.at < filters.to)
    return conditions
