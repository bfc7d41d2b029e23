"""People and groups, cached for a few seconds per session, and changing who is in a group."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

import streamlit as st

from app import api
from app.formatting import one_line
from app.labels import GROUP, kind_of
from app.lookup import Principal, by_id
from app.ui.dialogs import NotYetError, confirm, dialog, naming, offer_submit, open_dialog
from app.ui.errors import FAILURES, problem_of, show_errors
from app.ui.notices import show_note, show_table, show_text, show_warning
from app.ui.pickers import drop_choice, get_principals, pick_principals
from app.ui.tables import forget
from carrel.wire.access import ResourceCount
from carrel.wire.admin import Group, ListedUser
from carrel.wire.owners import AdminUsersPlanOffboardingResponse
from carrel.wire.people import AdminGroupsPreviewLossesResponse, GroupMembership
from flows.operations.formatting import count_text, list_text

PEOPLE, GROUPS, MEMBERS, KEYS, SESSIONS = "people", "groups", "members", "person.keys", "person.sessions"

MOST_MEMBERSHIPS = 200


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def person_of(person_id: str) -> ListedUser | None:
    return by_id(api.client().admin.users.list, person_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def person_at(email: str) -> ListedUser | None:
    """Return the person with this address; None when there is nobody."""
    return next((one for one in api.client().admin.users.list(query=email) if one.email == email), None)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def group_of(group_id: str) -> Group | None:
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
    access = api.client().admin.access
    return access.count_resources(readable_by=group.reference, not_readable_by=member.reference).counts


def gains_in_words(group: Principal, member: Principal) -> str:
    """Return what a new member of a group could read more, in words; NotYetError names what is gone."""
    with naming(group, member):
        return counts_in_words(gains_of(group, member)) or "nothing"


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def readable_by(one: Principal) -> list[ResourceCount]:
    return api.client().admin.access.count_resources(readable_by=one.reference).counts


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def owned_by(one: Principal) -> list[ResourceCount]:
    return api.client().admin.access.count_resources(owned_by=one.reference).counts


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def offboarding_of(email: str) -> AdminUsersPlanOffboardingResponse:
    """Return what would end when a person is offboarded; a dialog asks for it at every key press."""
    return api.client().admin.users.plan_offboarding(email)


def clear_caches() -> None:
    cached = (
        person_of,
        person_at,
        group_of,
        memberships_of,
        losses_of,
        gains_of,
        readable_by,
        owned_by,
        offboarding_of,
    )
    for kept in cached:
        kept.clear()
    for table in (PEOPLE, GROUPS, MEMBERS, KEYS, SESSIONS):
        forget(table, unchoose=True)


def counts_in_words(counts: Iterable[ResourceCount]) -> str:
    """Return counts of resources in words: 12 documents and 1 collection."""
    sums: dict[str, int] = {}
    for one in counts:
        kind = kind_of(one.resource_type)
        sums[kind] = sums.get(kind, 0) + one.count
    return list_text([count_text(count, kind) for kind, count in sums.items() if count])


ADD, JOIN, NEW_MEMBERS, NEW_GROUPS = "add_members", "join_groups", "members.new", "groups.new"
SHOWN_LOSSES = 10


def principal_of(group: Group) -> Principal:
    return Principal(GROUP, str(group.id), group.name)


def open_adding(group: Group) -> None:
    drop_choice(NEW_MEMBERS)
    open_dialog(ADD, str(group.id))


def open_joining(person: Principal) -> None:
    drop_choice(NEW_GROUPS)
    open_dialog(JOIN, person.key)


@dialog("Add members", ADD, width="large")
def show_adding(group: Group) -> None:
    show_text(f"They read what is granted to {one_line(group.name)}, and to the groups around it.")
    added = pick_principals(NEW_MEMBERS, label="People, groups and service accounts")
    show_gains([(principal_of(group), one) for one in added])
    offer_submit(ADD, "Add", action=partial(_add_chosen, group), disabled=not added)


def _add_chosen(group: Group) -> None:
    if not (added := get_principals(NEW_MEMBERS)):
        raise NotYetError("Choose who is to be added.")
    with naming(principal_of(group), *added):
        api.client().admin.groups.add_members(group.id, [one.reference for one in added])
    clear_caches()


@dialog("Add to groups", JOIN, width="large")
def show_joining(person: Principal) -> None:
    show_text(f"{one_line(person.name)} reads what is granted to the groups, and to those around them.")
    groups = pick_principals(NEW_GROUPS, label="Groups", kinds=(GROUP,))
    show_gains([(group, person) for group in groups])
    offer_submit(JOIN, "Add", action=partial(_join_chosen, person), disabled=not groups)


def _join_chosen(person: Principal) -> None:
    if not (groups := get_principals(NEW_GROUPS)):
        raise NotYetError("Choose the groups.")
    for group in groups:
        clear_caches()
        with naming(group, person):
            api.client().admin.groups.add_members(group.id, [person.reference])
    clear_caches()


def show_gains(pairs: Sequence[tuple[Principal, Principal]]) -> None:
    """Show what members would read more by their new groups, each pair by itself."""
    if not pairs:
        show_text("Nothing will change.")
        return
    rows: list[tuple[str]] = []
    for group, member in pairs:
        try:
            more = gains_in_words(group, member)
            rows.append((f"{one_line(member.name)} joins {one_line(group.name)}, and can read {more} more.",))
        except FAILURES as error:  # the dialog keeps its buttons
            problem_of(error).show()
    show_table(rows, heads=("What will change, from the next request on",))


def ask_removing(group_id: str, group_name: str, member: Principal) -> None:
    losses = show_errors(partial(losses_of, group_id, (member,)))
    confirm(
        "Remove from the group?",
        f"{one_line(member.name)} leaves {one_line(group_name)}. {losses_in_words(losses)}",
        doing="Remove",
        action=lambda: api.client().admin.groups.remove_members(group_id, [member.reference]),
        then=clear_caches,
    )


def show_losses(losses: AdminGroupsPreviewLossesResponse) -> None:
    if not losses.losses:
        show_text(losses_in_words(losses))
        return
    rows = [(one_line(one.principal.name), f"{counts_in_words(one.counts)} less") for one in losses.losses]
    show_table(rows[:SHOWN_LOSSES], heads=("Who", "Would read"), named=True)
    if len(rows) > SHOWN_LOSSES:
        show_note(f"And {count_text(len(rows) - SHOWN_LOSSES, 'other')}.")
    if not losses.complete:
        show_warning(f"These are of the first 100 of {count_text(losses.person_count, 'member')}; there may be more.")


def losses_in_words(losses: AdminGroupsPreviewLossesResponse) -> str:
    first = [f"{one_line(one.principal.name)} ({counts_in_words(one.counts)})" for one in losses.losses[:3]]
    if not losses.person_count:
        return "Nobody is in it, so nobody reads less."
    if not first:
        return "Nobody reads less: they read all that it opens in other ways too, or it opens nothing."
    more = len(losses.losses) - len(first)
    others = [] if not more else [count_text(more, "other") if losses.complete else "others"]
    return f"From the next request on, these read less: {', '.join([*first, *others])}."
