"""References to principals: from the names in a request to ids. Each unknown name is reported with its field."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.admin import NamedGroup, NamedPrincipal, NamedServiceAccount, NamedUser
from carrel.wire.common import GroupReference, PrincipalReference, UserReference
from carrel.wire.fields import guest_address, normal_email
from service.identity import queries
from service.identity.queries import Principal
from service.platform.errors import BadRequest, FieldError

MOST_DETAILS = 20


@dataclass(frozen=True)
class Named:
    principal_id: UUID
    is_group: bool


class Nameable(Protocol):
    """A row with the columns of a principal."""

    @property
    def principal_id(self) -> UUID: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def email(self) -> str | None: ...


def to_named_principal(row: Nameable) -> NamedPrincipal:
    """Return the row of a user, group or service account as the named principal of an admin's response."""
    if row.kind == "group":
        return NamedGroup(id=row.principal_id, name=row.name)
    address = row.email or ""
    if row.kind == "serviceAccount":
        return NamedServiceAccount(id=row.principal_id, name=row.name, email=address)
    return NamedUser(id=row.principal_id, name=row.name, email=address)


async def resolve(
    connection: Connection,
    organization_id: UUID,
    *,
    references: Sequence[tuple[str, PrincipalReference]],
    may_be_named: Callable[[Principal, int], bool] | None = None,
) -> list[Named]:
    """Resolve references (each with its field) to principals, in order. BadRequest `unknown_principal` lists the
    unknown, and principals that the caller may not name in a place: the caller can't distinguish the two."""
    emails = {form for _, item in references if isinstance(item, UserReference) for form in _address_forms(item.email)}
    ids = {item.id for _, item in references if not isinstance(item, UserReference)}
    rows = await queries.find_principals(connection, organization_id, emails=emails, ids=ids)
    people = {row.email: row for row in rows if row.email is not None}
    others = {(row.kind, row.principal_id): row for row in rows}
    named: list[Named] = []
    unknown: list[FieldError] = []
    for place, (field, item) in enumerate(references):
        if isinstance(item, UserReference):
            known = [people[form] for form in _address_forms(item.email) if form in people]
        else:
            kind = "group" if isinstance(item, GroupReference) else "serviceAccount"
            known = [others[kind, item.id]] if (kind, item.id) in others else []
        nameable = (row.principal_id for row in known if may_be_named is None or may_be_named(row, place))
        found = next(nameable, None)
        if found is None:
            unknown.append(FieldError(field, f"{describe(item)} is unknown in this organization"))
        else:
            named.append(Named(principal_id=found, is_group=isinstance(item, GroupReference)))
    _refuse_unknown(unknown, is_limited=may_be_named is not None)
    return named


async def find_people(
    connection: Connection, organization_id: UUID, *, emails: Iterable[str], field: str
) -> frozenset[UUID]:
    """Return the ids of people and service accounts by address. BadRequest `unknown_principal` names the unknown."""
    wanted = {normal_email(email): _address_forms(email) for email in emails}
    forms = {form for each in wanted.values() for form in each}
    people = {
        row.email: row.principal_id for row in await queries.find_principals(connection, organization_id, emails=forms)
    }
    found = {email: next((people[form] for form in each if form in people), None) for email, each in wanted.items()}
    unknown = sorted(email for email, person in found.items() if person is None)
    _refuse_unknown([FieldError(field, f"{email} is unknown in this organization") for email in unknown])
    return frozenset(person for person in found.values() if person is not None)


def _address_forms(email: str) -> tuple[str, ...]:
    own = guest_address(email)
    return (normal_email(email),) if own is None else (normal_email(email), own)


async def find_group_ids(
    connection: Connection, organization_id: UUID, *, group_ids: Collection[UUID], field: str
) -> frozenset[UUID]:
    """Return the ids after checking that all belong to groups. BadRequest `unknown_principal` names the wrong ids."""
    rows = await queries.find_principals(connection, organization_id, ids=group_ids)
    groups = {row.principal_id for row in rows if row.kind == "group"}
    missing = sorted(set(group_ids) - groups)
    _refuse_unknown([FieldError(field, f"group {item} is unknown in this organization") for item in missing])
    return frozenset(groups)


def _refuse_unknown(unknown: Collection[FieldError], *, is_limited: bool = False) -> None:
    if unknown:
        details = list(unknown)[:MOST_DETAILS]
        names = "; ".join(detail.message for detail in details)
        more = f" (and {len(unknown) - len(details)} more)" if len(unknown) > len(details) else ""
        message = f"Create them first, or leave them out: {names}{more}."
        if is_limited:
            message = f"Use exact addresses of active people, or groups that you are in: {names}{more}."
        raise BadRequest(message, code="unknown_principal", details=details)


def describe(reference: PrincipalReference) -> str:
    if isinstance(reference, UserReference):
        return f"person {reference.email}"
    return f"{'group' if isinstance(reference, GroupReference) else 'service account'} {reference.id}"
