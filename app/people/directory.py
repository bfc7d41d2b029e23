"""People and groups of the service, cached for a few seconds per session."""

from collections.abc import Iterable
from itertools import islice

import streamlit as st

from app import api
from app.labels import kind_of
from app.lookup import Principal, by_id
from app.ui.tables import forget
from carrel.wire.access import ResourceCount
from carrel.wire.admin import Group, ListedUser
from carrel.wire.owners import AdminUsersPlanOffboardingResponse
from carrel.wire.people import AdminGroupsPreviewLossesResponse, GroupMembership
from flows.operations.formatting import count_text

PEOPLE, GROUPS, MEMBERS, KEYS, SESSIONS = "people", "groups", "members", "person.keys", "person.sessions"
"""The tables of people, of groups, of a group's members, and of a person's API keys and sessions."""

MOST_MEMBERSHIPS = 200


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def person_of(person_id: str) -> ListedUser | None:
    """Return a person by their id; None when there is nobody."""
    return by_id(api.client().admin.users.list, person_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def person_at(email: str) -> ListedUser | None:
    """Return the person with this address; None when there is nobody."""
    return next((one for one in api.client().admin.users.list(query=email) if one.email == email), None)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def group_of(group_id: str) -> Group | None:
    """Return a group by its id; None when there is none (any more)."""
    return by_id(api.client().admin.groups.list, group_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def memberships_of(one: Principal) -> list[GroupMembership]:
    """Return the groups that a principal is in, those that list it first, at most `MOST_MEMBERSHIPS`."""
    listed = api.client().admin.groups.list_memberships(one.reference, page_size=MOST_MEMBERSHIPS)
    return sorted(islice(listed, MOST_MEMBERSHIPS), key=lambda group: (not group.direct, group.name.lower()))


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def losses_of(group_id: str, members: tuple[Principal, ...] = ()) -> AdminGroupsPreviewLossesResponse:
    """Return who would read less without these members in a group, or, without members, without the group."""
    return api.client().admin.groups.preview_losses(group_id, [one.reference for one in members] or None)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def gains_of(group: Principal, member: Principal) -> list[ResourceCount]:
    """Return what a new member of a group could read more."""
    access = api.client().admin.access
    return access.count_resources(readable_by=group.reference, not_readable_by=member.reference).counts


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def readable_by(one: Principal) -> list[ResourceCount]:
    """Return how much a principal can read."""
    return api.client().admin.access.count_resources(readable_by=one.reference).counts


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def owned_by(one: Principal) -> list[ResourceCount]:
    """Return how much a principal owns."""
    return api.client().admin.access.count_resources(owned_by=one.reference).counts


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def offboarding_of(email: str) -> AdminUsersPlanOffboardingResponse:
    """Return what would end when a person is offboarded; a dialog asks for it at every key press."""
    return api.client().admin.users.plan_offboarding(email)


_CACHED = (person_of, person_at, group_of, memberships_of, losses_of, gains_of, readable_by, owned_by, offboarding_of)


def clear_caches() -> None:
    """Clear the cached people and groups of the session."""
    for kept in _CACHED:
        kept.clear()
    for table in (PEOPLE, GROUPS, MEMBERS, KEYS, SESSIONS):
        forget(table, unchoose=True)


def counts_in_words(counts: Iterable[ResourceCount]) -> str:
    """Return counts of resources in words: 12 documents and 1 collection."""
    sums: dict[str, int] = {}
    for one in counts:
        kind = kind_of(one.resource_type)
        sums[kind] = sums.get(kind, 0) + one.count
    parts = [count_text(count, kind) for kind, count in sums.items() if count]
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"
