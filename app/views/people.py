"""The page of people: finding, adding and changing people, their groups, and invitations to set a password."""

from functools import partial
from typing import Unpack

import streamlit as st

from app import api
from app.formatting import one_line
from app.people.directory import PEOPLE, clear_caches, show_person
from app.ui.dialogs import NotYetError, dialog, offer_dialog, offer_submit, show_held_secret, text_in
from app.ui.errors import require_admin, show_errors
from app.ui.filters import choice_filter, filter_line, text_filter
from app.ui.notices import look_at, show_count, show_empty, show_text, show_title, show_warning
from app.ui.tables import pages_of, show_pages, time_cell
from carrel.resources.admin.access import UserFilters
from carrel.wire.fields import normal_email

TITLE = "People"
PURPOSE = "People in your organization, their groups, and whether they can sign in."
NEW = "new_person"
SHOWN: dict[str, tuple[str, UserFilters]] = {
    "": ("Everyone", {}),
    "active": ("Active", {"active": True}),
    "inactive": ("Not active", {"active": False}),
    "admin": ("Admins", {"is_admin": True}),
    "never": ("Never signed in", {"signed_in": False}),
    "groupless": ("In no group", {"in_group": False}),
}


def _show_people() -> None:
    place = show_title(TITLE, PURPOSE, action=partial(offer_dialog, "Add person", NEW, icon="person_add"))
    _show_new()
    with filter_line("show"):
        query = text_filter("Find", "q", placeholder="Part of the name or email address").replace("\0", "")
        shown = choice_filter("Show", "show", {key: label for key, (label, _) in SHOWN.items()})
    filters: UserFilters = {**SHOWN[shown][1], "query": query or None}
    show_count(place, show_errors(partial(_count, **filters)))
    show_pages(
        PEOPLE,
        pages_of(lambda at: api.client().admin.users.list(**filters, **at), about=(query, shown)),
        row=lambda person: {
            "Name": one_line(person.name),
            "Email": person.email,
            "Role": "Admin" if person.is_admin else "",
            "Status": ("Invited" if person.invited_until is not None else "Active") if person.active else "Not active",
            "Groups": person.group_count,
            "Last sign-in": time_cell(person.last_signed_in_at),
        },
        empty=lambda: show_empty("Nobody matches.", "Try fewer letters, or clear the filters."),
        go=lambda chosen: look_at("person", chosen.id),
    )


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _count(**filters: Unpack[UserFilters]) -> int:
    return api.client().admin.users.count(**filters).count


@dialog("Add person", NEW)
def _show_new() -> None:
    show_text("New people can read what everyone can read. Add them to groups for more access, then invite them.")
    st.text_input("Email address", key="new.email", max_chars=320, placeholder="ada@example.com", autocomplete="off")
    st.text_input("Name", key="new.name", max_chars=200, placeholder="Ada Lovelace", autocomplete="off")
    if st.checkbox("Admin", key="new.admin"):
        show_warning("An admin manages people, access and credentials of the whole organization.")
    offer_submit(NEW, "Add", action=create)


def create() -> None:
    """Add a person, and open the person's page. Raises NotYetError for an existing person."""
    email, name = text_in("new.email", missing="Enter the email address that they sign in with."), text_in("new.name")
    users = api.client().admin.users
    if any(user.email == normal_email(email) for user in users.list(query=normal_email(email))):
        raise NotYetError("A person with this email address already exists.")
    given = {"email": email, "name": name, "is_admin": st.session_state["new.admin"]}
    [made] = users.upsert([{field: value for field, value in given.items() if value}]).users
    clear_caches()
    _count.clear()
    st.query_params["person"] = str(made.id)


def page() -> None:
    require_admin()
    if "person" in st.query_params:
        show_held_secret()
        show_title(TITLE, PURPOSE)
        show_person(str(st.query_params["person"]))
        return
    _show_people()


page()
