"""Organizations: creating an organization with its first admin, and changing settings, for admins only."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic.alias_generators import to_camel
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import organization as wire
from service.audit.service import Change, record_all, record_unattended
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.domains.people.directory import queries as listing
from service.identity import queries
from service.identity.queries import Principal
from service.identity_server.interface import has_domain
from service.platform.errors import BadRequest, Conflict, FieldError
from service.platform.identifiers import uuid7
from service.platform.secrets import Secret
from service.runtime import Runtime

# The most hosts that a request may name.
MOST_HOSTS = 100
_CHANGES_OF_HOSTS = {"added_client_document_hosts", "removed_client_document_hosts"}


async def create_organization(
    connection: Connection,
    organization_id: UUID,
    *,
    name: str,
    admin_email: str,
    password_hash: str | None = None,
    api_key: Secret | None = None,
    api_key_name: str = "Bootstrap",
) -> UUID:
    """Create an organization with "everyone" and a first admin, in a transaction set to the organization; return the
    admin's id. The admin's address gives the domain; `api_key` becomes the admin's key and may act for users."""
    row = {"name": name, "domain": admin_email.rpartition("@")[2], "owner_sharing_enabled": True}
    await queries.insert_organization(connection, organization_id, row=row)
    admin_id = uuid7()
    everyone = Principal(principal_id=organization_id, kind="everyone", name="Everyone")
    called = admin_email.partition("@")[0]
    admin = Principal(admin_id, "user", called, admin_email, is_admin=True, password_hash=password_hash)
    await queries.put_principals(connection, organization_id, rows=[everyone, admin])
    if api_key is not None:
        key = {"owner_id": admin_id, "name": api_key_name, "hint": api_key.hint, "secret_hash": api_key.hash}
        await queries.insert_api_key(
            connection, organization_id, row={**key, "api_key_id": uuid7(), "may_act_for_users": True}
        )
    change = Change("organization.create", "organization", organization_id)
    await record_unattended(connection, organization_id, change=change)
    return admin_id


async def get_organization(connection: Connection, caller: Caller) -> wire.AdminOrganizationGetResponse:
    """Show the organization's settings."""
    row = await queries.get_organization(connection, caller.organization_id)
    return wire.AdminOrganizationGetResponse.model_validate(row, from_attributes=True)


async def update_organization(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminOrganizationUpdateRequest
) -> wire.AdminOrganizationUpdateResponse:
    """Change the organization's settings; omitted settings stay. Raises Conflict `no_sign_in_provider`."""
    # Concurrent changes wait here, so that each sees the result of the other.
    await queries.lock_organization(connection, caller.organization_id)
    before = await get_organization(connection, caller)
    await refuse_stale(connection, caller, request.version, before, target_id=caller.organization_id)
    given = request.model_dump(by_alias=False, exclude={*_CHANGES_OF_HOSTS, "version"})
    values = {name: value for name, value in given.items() if value is not None}
    keeps_a_way_in = request.passwords_enabled is not False or runtime.settings.oidc_issuer is not None
    if not (keeps_a_way_in or await has_domain(connection, caller.organization_id)):
        message = "Nobody could sign in: no sign-in provider has a confirmed domain. Add a provider first."
        raise Conflict(message, code="no_sign_in_provider")
    if "domain" in values:
        values["domain"] = _normalize_domain(values["domain"])
    if (hosts := _hosts_after(before.client_document_hosts, request)) is not None:
        values["client_document_hosts"] = hosts
    if values:
        await queries.update_organization(connection, caller.organization_id, values=values)
    if hosts is not None:
        # After the update, because a client document that is being fetched waits for its lock.
        gone = await listing.list_described_clients(connection, caller.organization_id, other_than=hosts)
        changes = [
            Change("oauthClient.delete", "oauthClient", client_id, {"documentUrl": address})
            for client_id, address in gone.items()
        ]
        await record_all(connection, caller, changes=changes)
        await listing.delete_clients(connection, caller.organization_id, ids=gone)
    after = await get_organization(connection, caller)
    if values:
        about = ("organization.update", "organization", caller.organization_id)
        change = change_between(*about, before, after, details=_details(values))
        await record_all(connection, caller, changes=[change])
    return wire.AdminOrganizationUpdateResponse(**dict(after))


def _hosts_after(before: Sequence[str], changes: wire.AdminOrganizationUpdateRequest) -> Sequence[str] | None:
    hosts, added = changes.client_document_hosts, changes.added_client_document_hosts
    removed = changes.removed_client_document_hosts
    if hosts is None and added is None and removed is None:
        return None
    if hosts is None:
        hosts = before
    after = sorted({*hosts, *(added or ())} - {*(removed or ())})
    if len(after) > MOST_HOSTS:
        message = f"There would be {len(after)} hosts; an organization allows {MOST_HOSTS} at most."
        raise BadRequest(message, details=[FieldError("addedClientDocumentHosts", message)])
    return after


def _details(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed settings for the audit log; of the name, free text, only the fact of a change."""
    details = {to_camel(name): value for name, value in values.items() if name != "name"}
    return details | ({"nameSet": True} if "name" in values else {})


def _normalize_domain(text: str) -> str:
    domain = text.strip().lower()
    if not domain or "@" in domain or any(char.isspace() for char in domain):
        message = "must be a domain, such as example.com"
        raise BadRequest(f"domain: {message}", details=[FieldError("domain", message)])
    return domain
