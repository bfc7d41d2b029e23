"""Memberships by the groups that a provider's token names: brought at each sign-in, and taken away when they end.

A group is one whose external id the claim names. Memberships that came otherwise stay, whatever the token says.
"""

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.sign_in_providers import GroupsClaim
from service.audit.service import Change, record_for
from service.identity.memberships import queries as memberships
from service.identity.memberships.queries import Membership
from service.identity.queries import lock_organization
from service.identity_server.signin.id_tokens import is_named_elsewhere
from service.identity_server.signin.providers import queries
from service.identity_server.signin.providers.queries import StoredProvider

MOST_GROUPS = 1000
LONGEST_GROUP = 1024
# What a sign-in's audit entry says where a token doesn't list the groups: Entra names too many by a link alone.
LEFT_OUT = {"groups": "leftOut"}


async def update_memberships(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    provider: StoredProvider,
    person_id: UUID,
    claims: Mapping[str, Any],
) -> dict[str, str]:
    """Bring the memberships that a provider manages in line with a token; return what to say of it on the audit log."""
    if provider.groups_claim is GroupsClaim.NONE:
        return {}
    claim = provider.groups_claim.value.lower()
    if is_left_out(claims, claim):
        return dict(LEFT_OUT)
    await lock_organization(connection, organization_id)
    named = named_groups(claims, claim)
    wanted = await queries.list_group_ids(connection, organization_id, external_ids=named)
    brought = await queries.list_brought(
        connection, organization_id, provider_id=provider.provider_id, member_id=person_id
    )
    added = await memberships.bring_members(
        connection, organization_id, memberships=[Membership(one, person_id, False) for one in sorted(wanted - brought)]
    )
    new = [group_id for group_id, _ in added]
    await queries.note_brought(
        connection, organization_id, provider_id=provider.provider_id, member_id=person_id, group_ids=new
    )
    ended = sorted(brought - wanted)
    for group_id in ended:
        await memberships.remove_members(connection, organization_id, group_id=group_id, member_ids=[person_id])
    for group_id, what in [*((one, "added") for one in new), *((one, "removed") for one in ended)]:
        details = {what: [str(person_id)], "providerId": str(provider.provider_id)}
        change = Change("group.members", "group", group_id, details=details)
        await record_for(connection, organization_id, actor_id=person_id, change=change)
    return {}


def is_left_out(claims: Mapping[str, Any], claim: str) -> bool:
    """Return whether a token says that it doesn't list the groups, of which there are too many for it (Entra).

    Such a token has a link in place of the claim (`_claim_names`), or `hasgroups`.
    """
    if is_named_elsewhere(claims, claim):
        return True
    return claim == "groups" and claim not in claims and claims.get("hasgroups") in {True, "true"}


def named_groups(claims: Mapping[str, Any], claim: str) -> set[str]:
    """Return the groups that a claim names: a list of texts, or one text."""
    value: object = claims.get(claim)
    given = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = [one for one in given if isinstance(one, str) and 0 < len(one) <= LONGEST_GROUP and "\0" not in one]
    return set(texts[:MOST_GROUPS])
