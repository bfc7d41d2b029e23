"""Grantees: finding the principal that a request names, with all principals through which it holds roles."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import GroupReference, PrincipalReference, UserReference
from carrel.wire.fields import normal_email
from service.auth.callers import principals_of
from service.auth.queries import get_grantee
from service.identity import queries
from service.platform.errors import BadRequest, FieldError
from service.platform.sql import AnyRow


@dataclass(frozen=True)
class Grantee:
    """A principal with all principals that it holds roles through; without any when it isn't active."""

    organization_id: UUID
    principals: Collection[UUID]


async def find_referenced_principal(
    connection: AsyncConnection, organization_id: UUID, reference: PrincipalReference, *, field: str
) -> AnyRow:
    """Find the principal of a reference, an inactive or deleted one too.

    Raises BadRequest `unknown_principal`, which names the request's `field`.
    """
    if isinstance(reference, UserReference):
        found = await queries.find_person(connection, organization_id, email=normal_email(reference.email))
    else:
        kind = "group" if isinstance(reference, GroupReference) else "serviceAccount"
        found = await queries.find_principal(connection, organization_id, principal_id=reference.id, kind=kind)
    if found is None:
        message = "There is no such principal in this organization. Check its type, and its address or id."
        raise BadRequest(message, code="unknown_principal", details=[FieldError(field, message)])
    return found


async def find_grantee(
    connection: AsyncConnection, organization_id: UUID, reference: PrincipalReference, *, field: str
) -> Grantee:
    """Find the principal of a reference, with its groups and, for a user, the organization.

    Raises what `find_referenced_principal` raises.
    """
    named = await find_referenced_principal(connection, organization_id, reference, field=field)
    row = await get_grantee(connection, organization_id, principal_id=named.principal_id)
    principals = principals_of(row) if row is not None and row.active else ()
    return Grantee(organization_id=organization_id, principals=principals)
