"""What ends when a person leaves: their sessions, and, by offboarding, all their access and what they own."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import api
from app.formatting import ago, moment, one_line
from app.labels import PERSON, SERVICE_ACCOUNT
from app.lookup import Principal
from app.people.directory import SESSIONS, clear_caches, counts_in_words, offboarding_of, owned_by, person_at
from app.ui.dialogs import NotYetError, close_dialog, confirm, is_open, offer_submit, open_dialog
from app.ui.errors import show_errors
from app.ui.notices import show_empty, show_table, show_text, show_warning
from app.ui.passages import label
from app.ui.pickers import drop_choice, get_principals, pick_principals
from app.ui.tables import PAGE_ROWS, Source, show_pages
from carrel.wire.access import ResourceCount
from carrel.wire.admin import ListedUser
from carrel.wire.owners import AdminUsersPlanOffboardingResponse
from carrel.wire.sessions import AdminSessionsListResponse, PersonSession, SessionKind
from flows.operations.formatting import count_text

_MOST_TOKENS = 10
OFFBOARD, NEW_OWNER, _DONE = "offboard", "offboard.owner", "offboard.done"


def show_sessions(person: ListedUser) -> None:
    """Show where a person is signed in; one session can be ended, or all of them."""

    def fetch(token: str | None) -> AdminSessionsListResponse:
        listed = api.client().admin.sessions.list(person.email, page_size=PAGE_ROWS, page_token=token)
        return next(listed.pages())

    st.subheader("Sessions", anchor=False)
    chosen = show_pages(
        SESSIONS,
        Source(fetch, lambda page: page.sessions, about=person.email),
        row=_row_of_session,
        empty=lambda: show_empty("They are signed in nowhere."),
        hint="Choose a session to end it.",
    )
    if chosen is not None and st.button("End this session", key="session.end"):
        _ask_ending(person, chosen)
    if st.button("End all sessions", key="sessions.end", icon=":material/logout:"):
        _ask_ending(person)


def _row_of_session(session: PersonSession) -> dict[str, str]:
    return {
        "Signed in with": one_line(session.application_name or "A browser"),
        "Device": one_line(session.device or ""),
        "Address": session.address or "",
        "Since": ago(session.created_at),
        "Last used": ago(session.last_used_at) if session.last_used_at else "",
        "Expires": moment(session.expires_at),
    }


def _ask_ending(person: ListedUser, session: PersonSession | None = None) -> None:
    which = "All sessions end" if session is None else "This session ends"
    again = "" if session is None or session.kind is SessionKind.BROWSER else " The application asks them again."
    confirm(
        "End all sessions?" if session is None else "End this session?",
        f"{which} with the next request. {one_line(person.name)} can sign in again.{again}",
        doing="End it" if session else "End them",
        action=partial(_end_sessions, person, [session] if session else None),
    )


def _end_sessions(person: ListedUser, sessions: Sequence[PersonSession] | None) -> None:
    ids = None if sessions is None else [one.session_id for one in sessions]
    api.client().admin.sessions.end(person.email, session_ids=ids)
    clear_caches()


def show_owned(who: Principal) -> None:
    """Say what a person owns."""
    owned = show_errors(partial(owned_by, who))
    st.subheader("What they own", anchor=False)
    show_text(f"{counts_in_words(owned) or 'Nothing'}." + (" Offboarding gives it another owner." if owned else ""))


def open_offboarding(person: ListedUser) -> None:
    """Open the dialog that offboards a person, with nobody chosen as the new owner."""
    drop_choice(NEW_OWNER)
    open_dialog(OFFBOARD, str(person.id))


@st.dialog("Offboard", width="large", on_dismiss=close_dialog)
def show_offboarding(person: ListedUser) -> None:
    """Show what would end at once and what they own, ask who gets that, and offboard them."""
    if not is_open(OFFBOARD):
        st.rerun()
    plan = show_errors(partial(offboarding_of, person.email))
    show_table(_ends(plan), heads=("What ends at once", "Now"), named=True)
    show_text(f"They own {counts_in_words(plan.owned) or 'nothing'}.")
    if plan.only_reader:
        show_warning(f"Nobody else can read {counts_in_words(plan.only_reader)} today.")
    if plan.made_tokens:
        named = ", ".join(f"{one_line(one.name)} (…{one.hint})" for one in plan.made_tokens[:_MOST_TOKENS])
        show_warning(
            f"{count_text(len(plan.made_tokens), 'token')} of service accounts that they made keep working: {named}"
            f"{', …' if len(plan.made_tokens) > _MOST_TOKENS else '.'}",
            "They may have written them down: replace those on the page Service accounts.",
        )
    receivers: list[Principal] = []
    if plan.owned:
        receivers = pick_principals(NEW_OWNER, label="Who gets what they own", kinds=(PERSON, SERVICE_ACCOUNT), most=1)
        for receiver in receivers:
            _warn_about(receiver)
    offer_submit(
        OFFBOARD,
        f"Offboard {label(one_line(person.name))}",
        action=partial(_offboard, person, owned=bool(plan.owned)),
        disabled=bool(plan.owned) and not receivers,
    )


def _warn_about(receiver: Principal) -> None:
    """Say so if nobody may be looking after what this person would get."""
    found = show_errors(partial(person_at, receiver.id)) if receiver.kind == PERSON else None
    if found is None:
        return
    name = one_line(found.name)
    if not found.active:
        show_warning(
            f"{name} is not active, and can't sign in.",
            "Offboarding gives nothing to them: choose somebody else, or activate them first.",
        )
    elif found.last_signed_in_at is None:
        show_warning(f"{name} has never signed in.", "Make sure that this is who shall look after it.")


def _ends(plan: AdminUsersPlanOffboardingResponse) -> list[tuple[str, str]]:
    groups = ", ".join(one_line(one.name) for one in plan.groups)
    return [
        ("Their account", "active" if plan.user.active else "not active any more"),
        ("Admin", "yes" if plan.user.is_admin else "no"),
        ("API keys", f"{len(plan.api_keys):,}"),
        ("Browsers signed in", f"{plan.browser_session_count:,}"),
        ("Applications allowed", f"{plan.application_count:,}"),
        ("Groups", groups or "none"),
    ]


def _offboard(person: ListedUser, *, owned: bool) -> None:
    """Offboard, and hand over as much as one request does; pressed again, it continues."""
    chosen = get_principals(NEW_OWNER)
    if owned and not chosen:
        raise NotYetError("Choose who gets what they own.")
    done = api.client().admin.users.offboard(person.email, new_owner=chosen[0].reference if chosen else None)
    clear_caches()
    if done.remaining:
        moved, left = _total(done.transferred), _total(done.remaining)
        message = (
            f"Their access has ended, and {count_text(moved, 'resource')} went to the new owner. {left:,} remain: "
        )
        raise NotYetError(f"{message}press the button again to continue.")
    moved = f" {count_text(_total(done.transferred), 'resource')} went to {one_line(chosen[0].name)}." if chosen else ""
    st.session_state[_DONE] = (str(person.id), f"All access of {one_line(person.name)} has ended.{moved}")


def show_offboarded(person: ListedUser) -> None:
    """Say once what an offboarding has done."""
    done: tuple[str, str] | None = st.session_state.pop(_DONE, None)
    if done is not None and done[0] == str(person.id):
        show_text(done[1])


def _total(counts: Sequence[ResourceCount]) -> int:
    return sum(one.count for one in counts)
