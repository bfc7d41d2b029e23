"""Grantees: finding the principal that a request names, with all principals through which it holds roles."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import GroupReference, PrincipalReference, UserReference
from carrel.wire.fields import normal_email
from service.auth.queries import Grantee, get_grantee
from service.identity import queries
from service.identity.queries import PrincipalSummary
from service.platform.errors import BadRequest, FieldError


async def find_referenced_principal(
    connection: AsyncConnection, organization_id: UUID, reference: PrincipalReference, *, field: str
) -> PrincipalSummary:
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
    """Find the principal of a reference with its groups; one that is deleted holds no role any more.

    Raises what `find_referenced_principal` raises.
    """
    named = await find_referenced_principal(connection, organization_id, reference, field=field)
    grantee = await get_grantee(connection, organization_id, principal_id=named.principal_id)
    return grantee or Grantee((), named.principal_id, organization_id, named.kind, active=False)
