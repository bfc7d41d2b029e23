"""Grantees: the principal named in a request, with all ids that carry roles."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import GroupReference, PrincipalReference, UserReference
from carrel.wire.fields import normal_email
from service.auth.queries import Grantee, get_grantee
from service.identity import queries
from service.identity.principals import describe
from service.identity.queries import PrincipalSummary
from service.platform.errors import BadRequest, FieldError


async def find_referenced_principal(
    connection: Connection, organization_id: UUID, reference: PrincipalReference, *, field: str
) -> PrincipalSummary:
    """Return a reference's principal, inactive or deleted too. BadRequest `unknown_principal` names the `field`."""
    if isinstance(reference, UserReference):
        found = await queries.find_person(connection, organization_id, email=normal_email(reference.email))
    else:
        kind = "group" if isinstance(reference, GroupReference) else "serviceAccount"
        found = await queries.find_principal(connection, organization_id, principal_id=reference.id, kind=kind)
    if found is None:
        message = f"There is no {describe(reference)} in this organization. Check the address or the id."
        raise BadRequest(message, code="unknown_principal", details=[FieldError(field, message)])
    return found


async def find_grantee(
    connection: Connection, organization_id: UUID, reference: PrincipalReference, *, field: str
) -> Grantee:
    """Return the principal with groups; if deleted, without roles. Raises like `find_referenced_principal`."""
    named = await find_referenced_principal(connection, organization_id, reference, field=field)
    grantee = await get_grantee(connection, organization_id, principal_id=named.principal_id)
    return grantee or Grantee((), named.principal_id, organization_id, named.kind, active=False)
