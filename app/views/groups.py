"""The page of groups: members, access, and losses if a member or the group were removed."""

from functools import partial

import streamlit as st

from app import api
from app.documents.listing import tell_trash
from app.formatting import one_line
from app.labels import GROUP, PERSON, PRINCIPALS, SERVICE_ACCOUNT
from app.lookup import Principal, principal_from
from app.people import directory
from app.ui import notices
from app.ui.dialogs import NotYetError, confirm, dialog, offer_dialog, offer_submit, open_dialog, text_in
from app.ui.errors import require_admin, require_found, show_errors
from app.ui.filters import filter_line, text_filter
from app.ui.saving import keep_opened, send_changes
from app.ui.tables import pages_of, show_pages
from carrel.wire.admin import Group
from flows.operations.formatting import count_text, counts_text

TITLE, PURPOSE = "Groups", "Groups, their members, and what they can read."
NEW, RENAME, _DELETED = "new_group", "rename_group", "groups.deleted"
FROM_DIRECTORY, MADE_HERE = "Another directory", "Created here"
PAGES = {PERSON: ("people", "person"), GROUP: ("groups", "group"), SERVICE_ACCOUNT: ("service_accounts", "account")}
"""The page for each kind of member, and the page's parameter for the member."""
NONE_CALLED = ("No groups match.", "Try fewer letters.")
NONE_YET = ("No groups yet.", "Give a group access to documents, and all its members can read them.")


@dialog("Add group", NEW)
def _show_new() -> None:
    notices.show_text("All members of a group get its access.")
    st.text_input("Name", key="group.new_name", max_chars=200, placeholder="Harbour crew")
    offer_submit(NEW, "Add", action=_create)


def _create() -> None:
    name = text_in("group.new_name", missing="Enter a name for the group.")
    groups = api.client().admin.groups
    if any(group.name == name for group in groups.list(query=name)):
        raise NotYetError("A group with this name already exists. Enter another name.")
    [made] = groups.upsert([{"name": name}]).groups
    directory.clear_caches()
    st.query_params["group"] = str(made.id)


def _show_group(group_id: str) -> None:
    notices.offer_way_back("All groups", "group")
    group = require_found(partial(directory.group_of, group_id), "This group does not exist.")
    losses = show_errors(partial(directory.losses_of, group_id))
    reached = f"{count_text(losses.person_count, 'person', 'people')} in all"
    notices.show_heading(group.name, count_text(group.member_count, "direct member"), reached)
    if group.external_id:
        notices.show_note(
            f"This group was imported from another directory (id {one_line(group.external_id)}). The next "
            "import overwrites changes to its name and members."
        )
    _offer_changes(group)
    st.subheader("Members", anchor=False)
    _show_members(group)
    principal = principal_from(group)
    if around := show_errors(partial(directory.memberships_of, principal)):
        notices.show_text(f"Parent groups: {', '.join(one_line(membership.name) for membership in around)}.")
    st.subheader("What members can read", anchor=False)
    counts = show_errors(partial(directory.counts_of, readable_by=principal)).counts
    with_others = ", including the access of parent groups" if around else ""
    notices.show_text(f"{counts_text(counts) or 'Nothing'}{with_others}.")
    notices.show_link("What can they read?", "what_can_they_read", who=principal.key)
    st.subheader("Effect of deleting the group", anchor=False)
    directory.show_losses(losses)


def _offer_changes(group: Group) -> None:
    with st.container(horizontal=True):
        adding = partial(open_dialog, directory.ADD, str(group.id), directory.NEW_MEMBERS)
        notices.offer_action("Add members", adding, key="add", icon="group_add", kind="primary")
        notices.offer_action("Rename", open_dialog, RENAME, str(group.id), key="rename", icon="edit")
        if st.button("Delete group", key="delete", icon=":material/delete:"):
            in_words = directory.losses_in_words(show_errors(partial(directory.losses_of, str(group.id))))
            again = " The next import from the other directory creates it again, without its access."
            confirm(
                "Delete this group?",
                f"{tell_trash(f'“{one_line(group.name)}”', by='Admins')} {in_words}"
                + (again if group.external_id else ""),
                action=lambda: api.client().admin.groups.delete(group.id),
                then=partial(_tell_deleted, group),
                leaving=("group",),
            )
    directory.show_adding(group)
    _show_rename(group)


def _tell_deleted(group: Group) -> None:
    directory.clear_caches()
    st.session_state[_DELETED] = f"{one_line(group.name)} is deleted. {tell_trash('it', by='Admins')}"


@dialog("Rename", RENAME, of="id")
def _show_rename(group: Group) -> None:
    group = keep_opened(RENAME, group)
    st.text_input("Name", value=group.name, key="group.name", max_chars=200)
    if group.external_id:
        notices.show_warning("The next import from the other directory overwrites the name.")
    offer_submit(RENAME, "Save", action=partial(_rename, group))


def _rename(group: Group) -> None:
    def send(**changed: object) -> None:
        api.client().admin.groups.upsert([{"id": str(group.id), **changed}])

    send_changes(RENAME, group, {"name": text_in("group.name", missing="Enter a name for the group.")}, send)
    directory.clear_caches()


def _show_members(group: Group) -> None:
    chosen = show_pages(
        directory.MEMBERS,
        pages_of(lambda at: api.client().admin.groups.list_members(group.id, **at), about=group.id),
        row=lambda member: {
            "Name": one_line(member.name),
            "Type": PRINCIPALS[member.type].capitalize(),
            "Address": "" if member.type == GROUP else member.email,
        },
        empty=lambda: notices.show_empty("No members yet.", "Add members to give them the group's access."),
        hint="Select a member to open or remove it.",
    )
    if chosen is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        page, parameter = PAGES[chosen.type]
        notices.show_link(f"Open {one_line(chosen.name)}", page, **{parameter: str(chosen.id)})
        if st.button("Remove from the group", key="remove", icon=":material/group_remove:"):
            directory.ask_removing(str(group.id), group.name, Principal.of(chosen))


def page() -> None:
    require_admin()
    if "group" in st.query_params:
        notices.show_title(TITLE, PURPOSE)
        _show_group(str(st.query_params["group"]))
        return
    count = notices.show_title(TITLE, PURPOSE, action=partial(offer_dialog, "Add group", NEW))
    _show_new()
    if deleted := st.session_state.pop(_DELETED, ""):
        notices.show_note(deleted)
    with filter_line():
        query = text_filter("Find", "q", placeholder="Part of the name").replace("\0", "")
    show_pages(
        directory.GROUPS,
        pages_of(lambda at: api.client().admin.groups.list(query=query or None, **at), about=query),
        row=lambda group: {
            "Name": one_line(group.name),
            "Direct members": group.member_count,
            "Origin": FROM_DIRECTORY if group.external_id else MADE_HERE,
        },
        empty=lambda: notices.show_empty(*(NONE_CALLED if query else NONE_YET)),
        go=lambda chosen: notices.look_at("group", chosen.id),
        columns={"Origin": {"help": "The next import overwrites changes to groups from another directory."}},
        count_at=count,
    )
    notices.show_link("Trash", "documents", trash="open", of="groups")


page()
