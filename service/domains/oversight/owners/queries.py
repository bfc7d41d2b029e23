"""SQL of owners: the property of a principal, resources without other readers, and remaining ways to sign in."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, Table, and_, exists, func, literal, or_, select, union
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.access import ResourceCount
from carrel.wire.common import ResourceType
from service.domains.documents.docstore.queries import StoredSync
from service.identity.queries import PrincipalSummary
from service.permissions.queries import Reader, owned_classes, readable_classes
from service.platform.sql import columns_of, count_of, find_rows, in_array, matches, optional, optional_in, update_rows
from service.schema.catalog import docstore_syncs, documents, trashed_documents
from service.schema.identity import class_readers, group_members, principals, resources
from service.schema.signin import browser_sessions, oauth_consents, oauth_token_families


async def set_document_owner(
    connection: Connection, organization_id: UUID, *, document_ids: Collection[UUID], owner_id: UUID
) -> None:
    chosen = in_array(documents.c.document_id, document_ids)
    await update_rows(connection, documents, organization_id, {"owner_id": owner_id}, chosen)


async def lock_syncs(
    connection: Connection,
    organization_id: UUID,
    *,
    owner_id: UUID | None = None,
    sync_ids: Collection[UUID] | None = None,
) -> list[StoredSync]:
    """Lock syncs by owner, by ids, or by both, in order of their ids; return the syncs."""
    statement = (
        select(*columns_of(docstore_syncs, StoredSync))
        .where(docstore_syncs.c.organization_id == organization_id)
        .where(optional(docstore_syncs.c.principal_id, owner_id), optional_in(docstore_syncs.c.sync_id, sync_ids))
        .order_by(docstore_syncs.c.sync_id)
        .with_for_update()
    )
    return await find_rows(connection, statement, StoredSync)


async def count_owned(
    connection: Connection, organization_id: UUID, *, owner_id: UUID, resource_types: Collection[str] | None = None
) -> list[ResourceCount]:
    """Count a principal's property by type, also in the trash, limited to types if given, without files inside."""
    things = select(resources.c.resource_type).where(
        resources.c.organization_id == organization_id,
        resources.c.access_class.in_(owned_classes(organization_id, owner_id)),
        resources.c.container_id.is_(None),
    )
    trashed = (
        select(trashed_documents.c.resource_type)
        .join(documents, documents.c.document_id == trashed_documents.c.trashed_document_id)
        .where(matches(documents, organization_id, owner_id=owner_id))
    )
    syncs = select(literal(ResourceType.DOCSTORE_SYNC.value)).where(
        matches(docstore_syncs, organization_id, principal_id=owner_id)
    )
    resource_type = things.union_all(trashed, syncs).subquery("every").c.resource_type
    statement = select(resource_type, func.count().label("count")).group_by(resource_type).order_by(resource_type)
    if resource_types is not None:
        statement = statement.where(in_array(resource_type, resource_types))
    return await find_rows(connection, statement, ResourceCount)


async def count_read_alone(
    connection: Connection, organization_id: UUID, *, person: Reader, person_id: UUID
) -> list[ResourceCount]:
    """Count the resources readable by a person but by no other active user or service account, ordered by type."""
    own = readable_classes(person).cte("own")
    others = (
        select(principals.c.principal_id)
        .where(
            principals.c.organization_id == organization_id,
            principals.c.kind.in_(("user", "serviceAccount")),
            principals.c.active,
            principals.c.principal_id != person_id,
        )
        .cte("others")
    )
    # Groups with another person, also in nested groups; UNION ends cycles.
    peopled = (
        select(group_members.c.group_id)
        .join(others, others.c.principal_id == group_members.c.member_id)
        .where(group_members.c.organization_id == organization_id)
        .distinct()
        .cte("peopled", recursive=True)
    )
    peopled = peopled.union(
        select(group_members.c.group_id)
        .join(peopled, peopled.c.group_id == group_members.c.member_id)
        .where(group_members.c.organization_id == organization_id)
    )
    other_user = exists().where(
        matches(principals, organization_id, kind="user"), principals.c.active, principals.c.principal_id != person_id
    )
    shared = select(class_readers.c.access_class).where(
        class_readers.c.organization_id == organization_id,
        class_readers.c.access_class.in_(select(own.c.access_class)),
        or_(
            class_readers.c.principal_id.in_(
                union(select(others.c.principal_id), select(peopled.c.group_id)).scalar_subquery()
            ),
            and_(class_readers.c.principal_id == organization_id, other_user),
        ),
    )
    alone = select(own.c.access_class).except_(shared)
    statement = (
        select(resources.c.resource_type, func.count().label("count"))
        .where(resources.c.organization_id == organization_id, resources.c.access_class.in_(alone))
        .group_by(resources.c.resource_type)
        .order_by(resources.c.resource_type)
    )
    return await find_rows(connection, statement, ResourceCount)


async def list_groups_of(connection: Connection, organization_id: UUID, *, member_id: UUID) -> list[PrincipalSummary]:
    """List the groups with a principal as a direct member, by name."""
    statement = (
        select(*columns_of(principals, PrincipalSummary))
        .join(group_members, group_members.c.group_id == principals.c.principal_id)
        .where(matches(group_members, organization_id, member_id=member_id))
        .order_by(principals.c.name, principals.c.principal_id)
    )
    return await find_rows(connection, statement, PrincipalSummary)


async def read_held_access(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, now: datetime
) -> dict[str, int]:
    """Count a person's working sessions, consents and token families, by the members of the offboarding plan."""
    sessions = _rows_of(browser_sessions, organization_id, principal_id).where(browser_sessions.c.expires_at > now)
    families = _rows_of(oauth_token_families, organization_id, principal_id).where(
        oauth_token_families.c.revoked_at.is_(None)
    )
    statement = select(
        count_of(sessions.subquery()).label("browser_session_count"),
        count_of(_rows_of(oauth_consents, organization_id, principal_id).subquery()).label("application_count"),
        count_of(families.subquery()).label("application_token_count"),
    )
    return dict((await connection.execute(statement)).mappings().one())


def _rows_of(table: Table, organization_id: UUID, principal_id: UUID) -> Select[*tuple[object, ...]]:
    return select(table).where(matches(table, organization_id, principal_id=principal_id))
