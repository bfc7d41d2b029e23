"""Service accounts: identities that aren't people, which have only the access they are granted (seed)."""

from collections.abc import Iterator
from itertools import count, islice

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire import service_accounts as wire
from carrel.wire.fields import normal_email
from service.audit.service import Change, record, record_all
from service.auth.callers import Caller
from service.domains.people.directory.groups import leave_all_groups
from service.domains.people.service_accounts import queries
from service.domains.people.service_accounts.addresses import make_local_part
from service.identity.queries import get_organization, lock_organization
from service.platform.errors import FieldError, NotFound
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor

FIRST_CANDIDATES = 8


async def create_account(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminServiceAccountsCreateRequest
) -> wire.AdminServiceAccountsCreateResponse:
    """Make a service account; its address is made from its name.

    The address was never used before. The account has no access yet.
    """
    display_name = request.display_name
    await lock_organization(connection, caller.organization_id)
    organization = await get_organization(connection, caller.organization_id)
    email = await _free_address(connection, caller, local=make_local_part(display_name), domain=organization.domain)
    account_id = uuid7()
    account = await queries.insert_account(
        connection, caller.organization_id, account_id=account_id, name=display_name, email=email
    )
    await record(connection, caller, action="serviceAccount.create", target_type="serviceAccount", target_id=account_id)
    return wire.AdminServiceAccountsCreateResponse(**dict(account))


async def list_accounts(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminServiceAccountsListRequest
) -> wire.AdminServiceAccountsListResponse:
    """List service accounts; `query` is part of a name or an address."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_SERVICE_ACCOUNTS_LIST.path, request=request)
    rows = await queries.list_accounts(
        connection,
        caller.organization_id,
        query=request.query,
        ids=request.ids,
        after=cursor.after_id,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: [str(row.service_account_id)])
    return wire.AdminServiceAccountsListResponse(
        service_accounts=list(page.items), next_page_token=page.next_page_token
    )


async def delete_account(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminServiceAccountsDeleteRequest
) -> wire.AdminServiceAccountsDeleteResponse:
    """Delete a service account and stop its tokens at once; what it uploaded stays.

    NotFound when unknown.

    The documents that it uploaded stay. Its grants stay without effect, since nobody can act with them any more.
    """
    account_id = request.service_account_id
    await lock_organization(connection, caller.organization_id)
    if not await queries.mark_deleted(connection, caller.organization_id, account_id=account_id):
        raise unknown_account()
    # A token that was being minted is committed by now, so it is seen.
    stopped = await queries.revoke_tokens_of(connection, caller.organization_id, account_id=account_id)
    await leave_all_groups(connection, caller, member_id=account_id)
    worked = sum(row.worked for row in stopped)
    account = Change(
        action="serviceAccount.delete",
        target_type="serviceAccount",
        target_id=account_id,
        details={"revokedTokenCount": worked},
    )
    tokens = [
        Change(
            action="serviceAccountToken.revoke",
            target_type="serviceAccountToken",
            target_id=row.token_id,
            details={"serviceAccountId": str(account_id)},
        )
        for row in stopped
    ]
    await record_all(connection, caller, changes=[account, *tokens])
    return wire.AdminServiceAccountsDeleteResponse(service_account_id=account_id, revoked_token_count=worked)


def unknown_account() -> NotFound:
    """Build the error for a service account that is unknown, deleted, or another organization's."""
    message = "There is no such service account in this organization."
    return NotFound(message, code="service_account_not_found", details=[FieldError("serviceAccountId", message)])


async def _free_address(connection: AsyncConnection, caller: Caller, *, local: str, domain: str) -> str:
    """Return the first free address of a local part, numbered from 2 on. The caller has locked the organization."""
    candidates = _number_addresses(local, domain)
    tried = FIRST_CANDIDATES
    while True:
        some = list(islice(candidates, tried))
        taken = await queries.list_taken_addresses(connection, caller.organization_id, emails=some)
        if free := next((email for email in some if email not in taken), None):
            return free
        tried *= 4


def _number_addresses(local: str, domain: str) -> Iterator[str]:
    yield normal_email(f"{local}@{domain}")
    yield from (normal_email(f"{local}-{number}@{domain}") for number in count(2))
