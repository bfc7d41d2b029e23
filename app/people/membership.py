"""Changing who is in a group, with what will change said before: who reads more, and who reads less."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import api
from app.formatting import one_line
from app.labels import GROUP
from app.lookup import Principal
from app.people.directory import clear_caches, counts_in_words, gains_of, losses_of
from app.ui.dialogs import NotYetError, close_dialog, confirm, is_open, offer_submit, open_dialog
from app.ui.errors import show_errors
from app.ui.notices import show_note, show_table, show_text, show_warning
from app.ui.pickers import drop_choice, get_principals, pick_principals
from carrel.wire.admin import Group
from carrel.wire.people import AdminGroupsPreviewLossesResponse
from flows.operations.formatting import count_text

ADD, JOIN, NEW_MEMBERS, NEW_GROUPS = "add_members", "join_groups", "members.new", "groups.new"
WILL_CHANGE = ("What will change, from the next request on",)
SHOWN_LOSSES = 10


def principal_of(group: Group) -> Principal:
    """Return a group as a principal."""
    return Principal(GROUP, str(group.id), group.name)


def open_adding(group: Group) -> None:
    """Open the dialog that adds members to a group, with nobody chosen."""
    drop_choice(NEW_MEMBERS)
    open_dialog(ADD, str(group.id))


def open_joining(person: Principal) -> None:
    """Open the dialog that puts somebody into groups, with none chosen."""
    drop_choice(NEW_GROUPS)
    open_dialog(JOIN, person.key)


@st.dialog("Add members", width="large", on_dismiss=close_dialog)
def show_adding(group: Group) -> None:
    """Show the dialog that adds members to a group."""
    if not is_open(ADD):
        st.rerun()
    show_text(f"They read what is granted to {one_line(group.name)}, and to the groups around it.")
    added = pick_principals(NEW_MEMBERS, label="People, groups and service accounts")
    show_gains([(principal_of(group), one) for one in added])
    offer_submit(ADD, "Add", action=partial(add_chosen, group), disabled=not added)


def add_chosen(group: Group) -> None:
    """Add the chosen members to a group."""
    added = get_principals(NEW_MEMBERS)
    if not added:
        raise NotYetError("Choose who is to be added.")
    api.client().admin.groups.add_members(group.id, [one.reference for one in added])
    clear_caches()


@st.dialog("Add to groups", width="large", on_dismiss=close_dialog)
def show_joining(person: Principal) -> None:
    """Show the dialog that puts somebody into groups."""
    if not is_open(JOIN):
        st.rerun()
    show_text(f"{one_line(person.name)} reads what is granted to the groups, and to those around them.")
    groups = pick_principals(NEW_GROUPS, label="Groups", kinds=(GROUP,))
    show_gains([(group, person) for group in groups])
    offer_submit(JOIN, "Add", action=partial(join_chosen, person), disabled=not groups)


def join_chosen(person: Principal) -> None:
    """Put somebody into the chosen groups."""
    groups = get_principals(NEW_GROUPS)
    if not groups:
        raise NotYetError("Choose the groups.")
    for group in groups:
        api.client().admin.groups.add_members(group.id, [person.reference])
    clear_caches()


def show_gains(pairs: Sequence[tuple[Principal, Principal]]) -> None:
    """Show what members would read more by their new groups, each pair by itself."""
    if not pairs:
        show_text("Nothing will change.")
        return
    rows = [
        (f"{one_line(member.name)} joins {one_line(group.name)}, and can read {more or 'nothing'} more.",)
        for group, member in pairs
        for more in [counts_in_words(show_errors(partial(gains_of, group, member)))]
    ]
    show_table(rows, heads=WILL_CHANGE)


def ask_removing(group_id: str, group_name: str, member: Principal) -> None:
    """Ask before a member is removed from a group, saying who would read less."""
    losses = show_errors(partial(losses_of, group_id, (member,)))
    confirm(
        "Remove from the group?",
        f"{one_line(member.name)} leaves {one_line(group_name)}. {losses_in_words(losses)}",
        doing="Remove",
        action=partial(remove, group_id, member),
    )


def remove(group_id: str, member: Principal) -> None:
    """Remove a member from a group."""
    api.client().admin.groups.remove_members(group_id, [member.reference])
    clear_caches()


def show_losses(losses: AdminGroupsPreviewLossesResponse) -> None:
    """Show who would read less, a row each."""
    if not losses.losses:
        show_text("Nobody would read less: what it opens, they read in other ways too.")
        return
    rows = [
        (one_line(one.principal.name), f"{counts_in_words(one.counts)} less") for one in losses.losses[:SHOWN_LOSSES]
    ]
    show_table(rows, heads=("Who", "Would read"), named=True)
    if len(losses.losses) > SHOWN_LOSSES:
        show_note(f"And {count_text(len(losses.losses) - SHOWN_LOSSES, 'other')}.")
    if not losses.complete:
        show_warning(f"These are of the first 100 of {count_text(losses.person_count, 'member')}; there may be more.")


def losses_in_words(losses: AdminGroupsPreviewLossesResponse) -> str:
    """Return who would read less, in a sentence."""
    first = [f"{one_line(one.principal.name)} ({counts_in_words(one.counts)})" for one in losses.losses[:3]]
    if not first:
        return "Nobody will read less: what it opens, they read in other ways too."
    more = len(losses.losses) - len(first)
    others = [] if not more else [count_text(more, "other") if losses.complete else "others"]
    return f"From the next request on, these read less: {', '.join([*first, *others])}."
