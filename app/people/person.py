"""One person: their account, groups, what they can read and own, their API keys and sessions."""

from functools import partial

import streamlit as st

from app import api
from app.credentials.expiry import STATUSES, end_noted
from app.formatting import ago, moment, one_line
from app.labels import PERSON
from app.lookup import Principal
from app.people.directory import KEYS, clear_caches, counts_in_words, memberships_of, person_of, readable_by
from app.people.leaving import (
    OFFBOARD,
    open_offboarding,
    show_offboarded,
    show_offboarding,
    show_owned,
    show_sessions,
)
from app.people.membership import JOIN, ask_removing, open_joining, show_joining
from app.ui.dialogs import (
    NotYetError,
    Secret,
    close_dialog,
    confirm,
    hold_secret,
    is_open,
    offer_submit,
    open_dialog,
)
from app.ui.errors import show_errors
from app.ui.links import offer_way_back, show_link
from app.ui.notices import show_empty, show_heading, show_table, show_text, show_warning
from app.ui.tables import PAGE_ROWS, Source, show_pages
from carrel.wire.admin import ListedUser
from carrel.wire.api_keys import AdminApiKeysListResponse, ApiKey, CredentialStatus
from carrel.wire.people import GroupMembership

CHANGE = "change_person"


def show_person(person_id: str) -> None:
    """Show a person, with what can be changed."""
    offer_way_back("All people", "person")
    person = show_errors(partial(person_of, person_id))
    if person is None:
        show_warning("There is no such person in your organization.")
        return
    who = Principal(PERSON, person.email, person.name, person.email)
    show_heading(person.name, person.email, "admin" if person.is_admin else "", "" if person.active else "not active")
    _offer_changes(person)
    _show_account(person)
    _show_groups(who)
    st.subheader("What they can read", anchor=False)
    counts = show_errors(partial(readable_by, who))
    show_text(f"{counts_in_words(counts) or 'Nothing'}, by groups, grants and what they own.")
    show_link("What can they read?", "what_can_they_read", who=who.key)
    show_owned(who)
    _show_keys(person)
    show_sessions(person)


def _offer_changes(person: ListedUser) -> None:
    with st.container(horizontal=True):
        st.button(
            "Invite" if not person.has_password else "Reset password",
            key="invite",
            type="primary",
            icon=":material/mail:",
            disabled=not person.active,
            on_click=_open_invitation,
            args=(person,),
        )
        st.button("Change", key="change", icon=":material/edit:", on_click=open_dialog, args=(CHANGE, str(person.id)))
        if person.active and st.button("Deactivate", key="deactivate", icon=":material/block:"):
            confirm(
                "Deactivate this person?",
                f"{person.name} ({person.email}) can't sign in any more, and what acts for them stops with the next "
                "request. What they own and are in stays, and works again when they are activated.",
                doing="Deactivate",
                action=partial(_set, person, active=False),
            )
        if not person.active and st.button("Activate", key="activate", icon=":material/check:"):
            show_errors(partial(_set, person, active=True))
            st.rerun()
        if person.email != api.me().email:
            st.button(
                "Offboard …", key="offboard", icon=":material/person_remove:", on_click=open_offboarding, args=(person,)
            )
    show_offboarded(person)
    if is_open(OFFBOARD, str(person.id)):
        show_offboarding(person)
    if is_open("invite", str(person.id)):
        _show_invitation(person)
    if is_open(CHANGE, str(person.id)):
        _show_change(person)


def _open_invitation(person: ListedUser) -> None:
    open_dialog("invite", str(person.id))


@st.dialog("Link to set a password", on_dismiss=close_dialog)
def _show_invitation(person: ListedUser) -> None:
    if not is_open("invite"):
        st.rerun()
    show_text(
        f"This makes a link at which {person.name} sets a password: once, within 7 days. Send it as you would send a "
        "password: anyone who has it can use it."
    )
    if person.invited_until is not None:
        show_warning(f"The link of before, good until {moment(person.invited_until)}, stops working.")
    if person.has_password:
        show_text("Their password of now works until they set another one.")
    offer_submit("invite", "Create the link", action=partial(_invite, person))


def _invite(person: ListedUser) -> None:
    made = api.client().admin.users.invite(person.email)
    hold_secret(
        Secret(
            "Link to set a password",
            made.url,
            hint=f"Send this link to {person.email}. It works once, until {moment(made.expires_at)}.",
        )
    )
    clear_caches()


@st.dialog("Change this person", on_dismiss=close_dialog)
def _show_change(person: ListedUser) -> None:
    if not is_open(CHANGE):
        st.rerun()
    st.text_input("Name", value=person.name, key="person.name", max_chars=200)
    is_admin = st.checkbox("Admin", value=person.is_admin, key="person.admin")
    if is_admin and not person.is_admin:
        show_warning("An admin manages people, access and credentials of the whole organization.")
    offer_submit(CHANGE, "Save", action=partial(_change, person))


def _change(person: ListedUser) -> None:
    name = str(st.session_state["person.name"] or "").strip()
    if not name:
        raise NotYetError("Give the name that others see.")
    is_admin = bool(st.session_state["person.admin"])
    # What was not touched is left out: somebody else may have changed it meanwhile.
    changed: dict[str, object] = {"name": name} if name != person.name else {}
    changed |= {"is_admin": is_admin} if is_admin != person.is_admin else {}
    _set(person, **changed)


def _set(person: ListedUser, **fields: object) -> None:
    api.client().admin.users.upsert([{"email": person.email, **fields}])
    clear_caches()


def _show_account(person: ListedUser) -> None:
    invited = f"Until {moment(person.invited_until)}" if person.invited_until is not None else "None"
    rows = [
        ("Last sign-in with a browser", moment(person.last_signed_in_at) or "Never"),
        ("Password", "Set" if person.has_password else "Not set yet"),
        ("Second factor", _second_factors(person)),
        ("Open invitation", invited),
    ]
    show_table(rows, named=True)
    if person.has_second_factor and st.button("Reset second factor", key="reset", icon=":material/phonelink_erase:"):
        confirm(
            "Reset their second factor?",
            f"{person.name} ({person.email}) signs in with the password alone then, or sets up another second factor "
            "first if your organization asks for one. Be sure that it is them who asks.",
            doing="Reset it",
            action=partial(_reset_second_factor, person),
        )


def _second_factors(person: ListedUser) -> str:
    named = "; ".join(f"{one.description}, since {moment(one.created_at)}" for one in person.second_factors)
    return f"{named[0].upper()}{named[1:]}" if named else "None"


def _reset_second_factor(person: ListedUser) -> None:
    api.client().admin.users.reset_second_factor(person.email)
    clear_caches()


def _show_groups(who: Principal) -> None:
    groups = show_errors(partial(memberships_of, who))
    st.subheader("Groups", anchor=False)
    st.button("Add to groups", key="join", icon=":material/group_add:", on_click=open_joining, args=(who,))
    if is_open(JOIN, who.key):
        show_joining(who)
    if not groups:
        show_empty("They are in no group.", "Add them to one, so that they read what it does.")
        return
    for group in groups:
        _show_group(group, who)


def _show_group(group: GroupMembership, who: Principal) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key=f"membership-{group.id}"):
        show_link(one_line(group.name), "groups", group=str(group.id))
        through = ", ".join(one_line(one.name) for one in group.through)
        if group.direct:
            show_text("a member" + (f", and through {through}" if through else ""))
            if st.button("Remove", key=f"leave.{group.id}", type="tertiary"):
                ask_removing(str(group.id), group.name, who)
        else:
            show_text(f"through {through}")


def _show_keys(person: ListedUser) -> None:
    def fetch(token: str | None) -> AdminApiKeysListResponse:
        keys = api.client().admin.api_keys.list(owner_email=person.email, page_size=PAGE_ROWS, page_token=token)
        return next(keys.pages())

    st.subheader("API keys", anchor=False)
    chosen = show_pages(
        KEYS,
        Source(fetch, lambda page: page.api_keys, about=person.email),
        row=_row_of_key,
        empty=lambda: show_empty("They have no API key."),
        hint="Choose a key to revoke it.",
    )
    if chosen is not None and chosen.status is CredentialStatus.ACTIVE and st.button("Revoke", key="revoke"):
        confirm(
            "Revoke this key?",
            f"“{chosen.name}” (…{chosen.hint}) stops at once: the next request with it is refused. This can't be "
            "undone.",
            doing="Revoke it",
            action=partial(_revoke, chosen),
        )


def _row_of_key(key: ApiKey) -> dict[str, str]:
    return {
        "Name": one_line(key.name),
        "Ends in": f"…{key.hint}",
        "Status": STATUSES[key.status],
        "Last used": ago(key.last_used_at),
        "Expires": end_noted(key),
    }


def _revoke(key: ApiKey) -> None:
    api.client().admin.api_keys.revoke(key.api_key_id)
    clear_caches()
