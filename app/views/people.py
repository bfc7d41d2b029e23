"""The page of people: finding, adding and changing them, what they are in, and inviting them to set a password."""

from functools import partial

import streamlit as st

from app import api
from app.formatting import one_line
from app.people.directory import PEOPLE, clear_caches
from app.people.person import show_person
from app.ui.dialogs import NotYetError, close_dialog, is_open, offer_submit, open_dialog, show_held_secret
from app.ui.errors import require_admin, show_errors
from app.ui.filters import choice_filter, filter_line, text_filter
from app.ui.notices import look_at, show_count, show_empty, show_text, show_title, show_warning
from app.ui.tables import PAGE_ROWS, Source, show_pages, time_cell
from carrel.resources.admin.access import UserFilters
from carrel.wire.admin import AdminUsersListResponse, ListedUser
from carrel.wire.fields import normal_email

TITLE = "People"
PURPOSE = "Who belongs to your organization, what they are in, and whether they can sign in."
NEW = "new_person"
SHOWN = {
    "": "Everybody",
    "active": "Active",
    "inactive": "Not active",
    "admin": "Admins",
    "never": "Never signed in",
    "groupless": "In no group",
}
FILTERS: dict[str, UserFilters] = {
    "": {},
    "active": {"active": True},
    "inactive": {"active": False},
    "admin": {"is_admin": True},
    "never": {"signed_in": False},
    "groupless": {"in_group": False},
}


def offer_new() -> None:
    """Show the button that opens the dialog for a new person."""
    icon = ":material/person_add:"
    st.button("Add person", key="new.open", type="primary", icon=icon, on_click=open_dialog, args=(NEW,))


def show_people() -> None:
    """List the people; choosing one opens them."""
    place = show_title(TITLE, PURPOSE, action=offer_new)
    if is_open(NEW):
        show_new()
    with filter_line("show"):
        query = text_filter("Find", "q", placeholder="A part of the name or address").replace("\0", "")
        shown = choice_filter("Show", "show", SHOWN)
    filters: UserFilters = {**FILTERS[shown], "query": query or None}

    def fetch(token: str | None) -> AdminUsersListResponse:
        return next(api.client().admin.users.list(**filters, page_size=PAGE_ROWS, page_token=token).pages())

    show_count(place, show_errors(partial(count, query, shown)))
    show_pages(
        PEOPLE,
        Source(fetch, lambda page: page.users, about=(query, shown)),
        row=row_of,
        empty=lambda: show_empty("Nobody fits.", "Try fewer letters, or show everybody."),
        go=lambda chosen: look_at("person", chosen.id),
    )


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def count(query: str, shown: str) -> int:
    """Return the number of people whom a list shows."""
    filters: UserFilters = {**FILTERS[shown], "query": query or None}
    return api.client().admin.users.count(**filters).count


def row_of(person: ListedUser) -> dict[str, object]:
    """Return a person as a row."""
    state = "Admin" if person.is_admin else ""
    return {
        "Name": one_line(person.name),
        "Address": person.email,
        "Role": state,
        "Status": status_of(person),
        "Groups": person.group_count,
        "Last sign-in": time_cell(person.last_signed_in_at),
    }


def status_of(person: ListedUser) -> str:
    """Return whether somebody is active, or invited."""
    if not person.active:
        return "Not active"
    return "Invited" if person.invited_until is not None else "Active"


@st.dialog("Add person", on_dismiss=close_dialog)
def show_new() -> None:
    """Show the dialog for a new person."""
    if not is_open(NEW):
        st.rerun()
    show_text("They can read what everybody may, and more once they are in a group. Invite them afterwards.")
    st.text_input("Email address", key="new.email", max_chars=320, placeholder="ada@example.com", autocomplete="off")
    st.text_input("Name", key="new.name", max_chars=200, placeholder="Ada Lovelace", autocomplete="off")
    if st.checkbox("Admin", key="new.admin"):
        show_warning("An admin manages people, access and credentials of the whole organization.")
    offer_submit(NEW, "Add", action=create)


def create() -> None:
    """Add the person, and open them; for somebody who is there already it says so, and changes nothing."""
    email, name = (str(st.session_state[key] or "").strip() for key in ("new.email", "new.name"))
    if not email:
        raise NotYetError("Give the address that they sign in with.")
    users = api.client().admin.users
    if any(one.email == normal_email(email) for one in users.list(query=normal_email(email))):
        raise NotYetError("Somebody with this address is there already. Close this, and find them by it.")
    fields = {"email": email} | ({"is_admin": True} if st.session_state["new.admin"] else {})
    fields |= {"name": name} if name else {}
    [made] = users.upsert([fields]).users
    clear_caches()
    count.clear()
    st.query_params["person"] = str(made.id)


def page() -> None:
    """Draw the list of people, or the person in the address; for admins."""
    require_admin()
    if "person" in st.query_params:
        show_held_secret()
        show_title(TITLE, PURPOSE)
        show_person(str(st.query_params["person"]))
        return
    show_people()


page()
