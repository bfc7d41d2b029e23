"""People and groups, cached for seconds per session; changes of members; a person's page, and the end of access."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import streamlit as st

from app import api
from app.credentials.tokens import ask_revoking, row_of
from app.formatting import ago, moment, one_line
from app.labels import GROUP, PERSON, SERVICE_ACCOUNT
from app.lookup import Principal, by_id, principal_from
from app.ui import notices
from app.ui.dialogs import NotYetError, Secret, confirm, dialog, hold_secret, naming, offer_submit, open_dialog, text_in
from app.ui.errors import FAILURES, problem_of, require_found, show_errors
from app.ui.passages import label
from app.ui.pickers import get_principals, pick_principals
from app.ui.saving import keep_opened, send_changes
from app.ui.tables import forget, pages_of, show_pages
from carrel.wire.access import AdminAccessCountResourcesResponse, ResourceCount
from carrel.wire.admin import Group, ListedUser
from carrel.wire.api_keys import CredentialStatus
from carrel.wire.owners import AdminUsersPlanOffboardingResponse
from carrel.wire.people import AdminGroupsPreviewLossesResponse, GroupMembership
from carrel.wire.sessions import PersonSession, SessionKind
from flows.operations.formatting import capitalize, count_text, counts_text

PEOPLE, GROUPS, MEMBERS, KEYS, SESSIONS = "people", "groups", "members", "person.keys", "person.sessions"
TRASHED = "groups.trash"

MOST_MEMBERSHIPS = 200


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def person_of(person_id: str) -> ListedUser | None:
    return by_id(api.client().admin.users.list, person_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def person_at(email: str) -> ListedUser | None:
    return next((user for user in api.client().admin.users.list(query=email) if user.email == email), None)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def group_of(group_id: str) -> Group | None:
    return by_id(api.client().admin.groups.list, group_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def memberships_of(principal: Principal) -> list[GroupMembership]:
    """Return a principal's groups, direct memberships first, at most `MOST_MEMBERSHIPS`."""
    listed = api.client().admin.groups.list_memberships(principal.reference, page_size=MOST_MEMBERSHIPS)
    return sorted(islice(listed, MOST_MEMBERSHIPS), key=lambda group: (not group.direct, group.name.lower()))


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def losses_of(group_id: str, members: tuple[Principal, ...] = ()) -> AdminGroupsPreviewLossesResponse:
    """Return the people who would lose access if `members` left the group or, for (), if the group were deleted."""
    return api.client().admin.groups.preview_losses(group_id, [member.reference for member in members] or None)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def counts_of(**filters: Any) -> AdminAccessCountResourcesResponse:
    """Return counts of resources by the service's filters; in `readable_by`, `owned_by` and the like a `Principal`."""
    asked: dict[str, Any] = {name: value.reference for name, value in filters.items() if isinstance(value, Principal)}
    return api.client().admin.access.count_resources(**filters | asked)


def gains_in_words(group: Principal, member: Principal) -> str:
    """Return counts of the resources that a new member of a group could read in addition. Raises NotYetError."""
    with naming(group, member):
        return counts_text(counts_of(readable_by=group, not_readable_by=member).counts) or "nothing"


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def offboarding_of(email: str) -> AdminUsersPlanOffboardingResponse:
    """Return the effects of offboarding a person; cached, because a dialog asks at every key press."""
    return api.client().admin.users.plan_offboarding(email)


def clear_caches() -> None:
    for kept in (person_of, person_at, group_of, memberships_of, losses_of, counts_of, offboarding_of):
        kept.clear()
    for table in (PEOPLE, GROUPS, MEMBERS, KEYS, SESSIONS, TRASHED):
        forget(table, unchoose=True)


ADD, JOIN, NEW_MEMBERS, NEW_GROUPS = "add_members", "join_groups", "members.new", "groups.new"
SHOWN_LOSSES = 10


@dialog("Add members", ADD, of="id", width="large")
def show_adding(group: Group) -> None:
    notices.show_text(f"New members get the access of {one_line(group.name)} and of its parent groups.")
    added = pick_principals(NEW_MEMBERS, label="People, groups and service accounts")
    show_gains([(principal_from(group), principal) for principal in added])
    offer_submit(ADD, "Add", action=partial(_add_chosen, group), disabled=not added)


def _add_chosen(group: Group) -> None:
    if not (added := get_principals(NEW_MEMBERS)):
        raise NotYetError("Select members to add.")
    with naming(principal_from(group), *added):
        api.client().admin.groups.add_members(group.id, [principal.reference for principal in added])
    clear_caches()


@dialog("Add to groups", JOIN, of="key", width="large")
def show_joining(person: Principal) -> None:
    notices.show_text(f"{one_line(person.name)} gets the access of these groups and of their parent groups.")
    groups = pick_principals(NEW_GROUPS, label="Groups", kinds=(GROUP,))
    show_gains([(group, person) for group in groups])
    offer_submit(JOIN, "Add", action=partial(_join_chosen, person), disabled=not groups)


def _join_chosen(person: Principal) -> None:
    if not (groups := get_principals(NEW_GROUPS)):
        raise NotYetError("Select at least one group.")
    for group in groups:
        clear_caches()
        with naming(group, person):
            api.client().admin.groups.add_members(group.id, [person.reference])
    clear_caches()


def show_gains(pairs: Sequence[tuple[Principal, Principal]]) -> None:
    if not pairs:
        notices.show_text("Nothing will change.")
        return
    rows: list[tuple[str]] = []
    for group, member in pairs:
        try:
            more = gains_in_words(group, member)
            rows.append((f"{one_line(member.name)} joins {one_line(group.name)}, and can read {more} more.",))
        except FAILURES as error:  # the dialog keeps its buttons
            problem_of(error).show()
    notices.show_table(rows, heads=("Changes, effective immediately",))


def ask_removing(group_id: str, group_name: str, member: Principal) -> None:
    losses = show_errors(partial(losses_of, group_id, (member,)))
    confirm(
        "Remove from the group?",
        f"{one_line(member.name)} leaves {one_line(group_name)}. {losses_in_words(losses)}",
        action=lambda: api.client().admin.groups.remove_members(group_id, [member.reference]),
        then=clear_caches,
    )


def show_losses(losses: AdminGroupsPreviewLossesResponse) -> None:
    if not losses.losses:
        notices.show_text(losses_in_words(losses))
        return
    rows = [(one_line(loss.principal.name), f"{counts_text(loss.counts)}") for loss in losses.losses]
    notices.show_table(rows[:SHOWN_LOSSES], heads=("Name", "Loses access to"), named=True)
    if len(rows) > SHOWN_LOSSES:
        notices.show_note(f"And {count_text(len(rows) - SHOWN_LOSSES, 'other')}.")
    if not losses.complete:
        notices.show_warning(
            f"This covers the first 100 of {count_text(losses.person_count, 'member')}. There may be more."
        )


def losses_in_words(losses: AdminGroupsPreviewLossesResponse) -> str:
    """Return a sentence with the names of the first three people to lose access, or with the reason for no loss."""
    first = [f"{one_line(loss.principal.name)} ({counts_text(loss.counts)})" for loss in losses.losses[:3]]
    if not losses.person_count:
        return "The group has no members, so nobody loses access."
    if not first:
        return "Nobody loses access: members have the same access in other ways, or the group has none."
    more = len(losses.losses) - len(first)
    others = [] if not more else [count_text(more, "other") if losses.complete else "others"]
    return f"These lose access immediately: {', '.join([*first, *others])}."


_MOST_TOKENS = 10
OFFBOARD, NEW_OWNER, _DONE = "offboard", "offboard.owner", "offboard.done"


def _ask_ending(person: ListedUser, session: PersonSession | None = None) -> None:
    ids = None if session is None else [session.session_id]
    which = "All sessions end" if session is None else "This session ends"
    again = "" if session is None or session.kind is SessionKind.BROWSER else " The application asks for consent again."
    confirm(
        "End all sessions?" if session is None else "End this session?",
        f"{which} immediately. {one_line(person.name)} can sign in again.{again}",
        doing="End session" if session else "End sessions",
        action=partial(api.client().admin.sessions.end, person.email, session_ids=ids),
        then=clear_caches,
    )


@dialog("Offboard", OFFBOARD, of="id", width="large")
def _show_offboarding(person: ListedUser) -> None:
    plan = show_errors(partial(offboarding_of, person.email))
    notices.show_table(_rows_of_plan(plan), heads=("Ends immediately", "Now"), named=True)
    notices.show_text(f"Owns: {counts_text(plan.owned) or 'nothing'}. Access that they shared with others ends.")
    if plan.only_reader:
        notices.show_warning(f"Nobody else can read {counts_text(plan.only_reader)} today.")
    if plan.made_tokens:
        named = ", ".join(f"{one_line(token.name)} (…{token.hint})" for token in plan.made_tokens[:_MOST_TOKENS])
        notices.show_warning(
            f"{count_text(len(plan.made_tokens), 'token')} that they created for service accounts keep "
            f"working: {named}{', …' if len(plan.made_tokens) > _MOST_TOKENS else '.'}",
            "They may have copies of these tokens. Replace the tokens on the Service accounts page.",
        )
    receivers: list[Principal] = []
    if plan.owned:
        receivers = pick_principals(NEW_OWNER, label="New owner", kinds=(PERSON, SERVICE_ACCOUNT), most=1)
        for receiver in receivers:
            _warn_about(receiver)
    offer_submit(
        OFFBOARD,
        f"Offboard {label(one_line(person.name))}",
        action=partial(_offboard, person, owned=bool(plan.owned)),
        disabled=bool(plan.owned) and not receivers,
    )


def _warn_about(receiver: Principal) -> None:
    found = show_errors(partial(person_at, receiver.id)) if receiver.kind == PERSON else None
    if found is None:
        return
    name = one_line(found.name)
    if not found.active:
        todo = "Choose someone else, or activate this person first."
        notices.show_warning(f"{name} is not active and cannot sign in.", todo)
    elif found.last_signed_in_at is None:
        notices.show_warning(f"{name} has never signed in.", "Make sure that this is the right new owner.")


def _rows_of_plan(plan: AdminUsersPlanOffboardingResponse) -> list[tuple[str, str]]:
    groups = ", ".join(one_line(group.name) for group in plan.groups)
    return [
        ("Account", "Active" if plan.user.active else "Not active"),
        ("Admin", "Yes" if plan.user.is_admin else "No"),
        ("API keys", f"{len(plan.api_keys):,}"),
        ("Browser sessions", f"{plan.browser_session_count:,}"),
        ("Connected applications", f"{plan.application_count:,}"),
        ("Groups", groups or "None"),
    ]


def _offboard(person: ListedUser, *, owned: bool) -> None:
    """Offboard the person and transfer as much as a single request allows. Raises NotYetError until all is done."""
    chosen = get_principals(NEW_OWNER)
    if owned and not chosen:
        raise NotYetError("Choose the new owner.")
    done = api.client().admin.users.offboard(person.email, new_owner=chosen[0].reference if chosen else None)
    clear_caches()
    moved = count_text(_sum_counts(done.transferred), "resource")
    if done.remaining:
        message = f"Access has ended, and {moved} went to the new owner. {_sum_counts(done.remaining):,} remain: "
        raise NotYetError(f"{message}select the button again to continue.")
    moved = f" {one_line(chosen[0].name)} now owns {moved}." if chosen else ""
    st.session_state[_DONE] = (str(person.id), f"All access of {one_line(person.name)} has ended.{moved}")


def _sum_counts(counts: Sequence[ResourceCount]) -> int:
    return sum(count.count for count in counts)


CHANGE = "change_person"


def show_person(person_id: str) -> None:
    notices.offer_way_back("All people", "person")
    person = require_found(partial(person_of, person_id), "This person does not exist in your organization.")
    principal = Principal(PERSON, person.email, person.name, person.email)
    facts = ["admin"] * person.is_admin + ["not active"] * (not person.active)
    notices.show_heading(person.name, person.email, *facts)
    _offer_changes(person)
    _show_account(person)
    _show_groups(principal)
    st.subheader("What they can read", anchor=False)
    counts = show_errors(partial(counts_of, readable_by=principal)).counts
    notices.show_text(f"{counts_text(counts) or 'Nothing'}, through groups, grants, ownership and access for everyone.")
    notices.show_link("What can they read?", "what_can_they_read", who=principal.key)
    owned = show_errors(partial(counts_of, owned_by=principal)).counts
    st.subheader("What they own", anchor=False)
    then = " Offboarding transfers this to another owner." if owned else ""
    notices.show_text(f"{counts_text(owned) or 'Nothing'}.{then}")
    _show_keys(person)
    st.subheader("Sessions", anchor=False)
    chosen = show_pages(
        SESSIONS,
        pages_of(lambda at: api.client().admin.sessions.list(person.email, **at), about=person.email),
        row=lambda session: {
            "Signed in with": one_line(session.application_name or "Browser"),
            "Device": one_line(session.device or ""),
            "Address": session.address or "",
            "Since": ago(session.created_at),
            "Last used": ago(session.last_used_at) if session.last_used_at else "",
            "Expires": moment(session.expires_at),
        },
        empty=lambda: notices.show_empty("No active sessions."),
        hint="Select a session to end it.",
    )
    if chosen is not None and st.button("End this session", key="session.end"):
        _ask_ending(person, chosen)
    if st.button("End all sessions", key="sessions.end", icon=":material/logout:"):
        _ask_ending(person)


def _has_rights_left(person: ListedUser) -> bool:
    plan = show_errors(partial(offboarding_of, person.email))
    held = (plan.owned, plan.api_keys, plan.groups, plan.browser_session_count, plan.application_count)
    return any(held) or plan.user.is_admin


def _offer_changes(person: ListedUser) -> None:
    with st.container(horizontal=True):
        words = "Reset password" if person.has_password else "Invite"
        invite = partial(open_dialog, "invite", str(person.id))
        notices.offer_action(words, invite, key="invite", icon="mail", kind="primary", disabled=not person.active)
        notices.offer_action("Change", open_dialog, CHANGE, str(person.id), key="change", icon="edit")
        if person.active and st.button("Deactivate", key="deactivate", icon=":material/block:"):
            confirm(
                "Deactivate this person?",
                f"{person.name} ({person.email}) can no longer sign in, and their keys and tokens stop immediately. "
                "What they own and their group memberships stay, and work again after you activate the person. Access "
                "that they shared with others ends, and does not come back.",
                action=partial(_update_person, person, active=False),
            )
        if not person.active and st.button("Activate", key="activate", icon=":material/check:"):
            show_errors(partial(_update_person, person, active=True))
            st.rerun()
        if person.email != api.me().email and (person.active or _has_rights_left(person)):
            offboard = partial(open_dialog, OFFBOARD, str(person.id), NEW_OWNER)
            notices.offer_action("Offboard …", offboard, key="offboard", icon="person_remove")
    done: tuple[str, str] | None = st.session_state.pop(_DONE, None)
    if done is not None and done[0] == str(person.id):
        notices.show_text(done[1])
    _show_offboarding(person)
    _show_invitation(person)
    _show_change(person)


@dialog("Link to set a password", "invite", of="id")
def _show_invitation(person: ListedUser) -> None:
    notices.show_text(
        f"{person.name} can set a password once with this link, within 7 days. Anyone who has the link can "
        "use it, so send it securely."
    )
    if person.invited_until is not None:
        notices.show_warning(f"The previous link, valid until {moment(person.invited_until)}, stops working.")
    if person.has_password:
        notices.show_text("The current password works until they set a new password.")
    offer_submit("invite", "Create link", action=partial(_invite, person))


def _invite(person: ListedUser) -> None:
    made = api.client().admin.users.invite(person.email)
    hint = f"Send this link to {person.email}. It works once, until {moment(made.expires_at)}."
    hold_secret(Secret("Link to set a password", made.url, hint=hint))
    clear_caches()


@dialog("Edit person", CHANGE, of="id")
def _show_change(person: ListedUser) -> None:
    person = keep_opened(CHANGE, person)
    st.text_input("Name", value=person.name, key="person.name", max_chars=200)
    if st.checkbox("Admin", value=person.is_admin, key="person.admin") and not person.is_admin:
        notices.show_warning("An admin manages people, access and credentials of the whole organization.")
    offer_submit(CHANGE, "Save", action=partial(_save_person, person))


def _save_person(person: ListedUser) -> None:
    name = text_in("person.name", missing="Enter a name.")
    written = {"name": name, "is_admin": bool(st.session_state["person.admin"])}
    send_changes(CHANGE, person, written, partial(_update_person, person))


def _update_person(person: ListedUser, **fields: object) -> None:
    api.client().admin.users.upsert([{"email": person.email, **fields}])
    clear_caches()


def _show_account(person: ListedUser) -> None:
    factors = "; ".join(f"{factor.description}, since {moment(factor.created_at)}" for factor in person.second_factors)
    rows = [
        ("Last sign-in with a browser", moment(person.last_signed_in_at) or "Never"),
        ("Password", "Set" if person.has_password else "Not set yet"),
        ("Second factor", capitalize(factors) or "None"),
        ("Open invitation", f"Until {moment(person.invited_until)}" if person.invited_until is not None else "None"),
    ]
    notices.show_table(rows, named=True)
    if person.has_second_factor and st.button("Reset second factor", key="reset", icon=":material/phonelink_erase:"):
        confirm(
            "Reset their second factor?",
            f"{person.name} ({person.email}) can then sign in with only a password, or must set up a new second factor "
            "if your organization requires it. Make sure that this person requested the reset.",
            action=lambda: api.client().admin.users.reset_second_factor(person.email),
            then=clear_caches,
        )


def _show_groups(principal: Principal) -> None:
    groups = show_errors(partial(memberships_of, principal))
    st.subheader("Groups", anchor=False)
    notices.offer_action("Add to groups", open_dialog, JOIN, principal.key, NEW_GROUPS, key="join", icon="group_add")
    show_joining(principal)
    if not groups:
        notices.show_empty("Not in any group yet.", "Add them to a group to give them its access.")
        return
    for group in groups:
        with st.container(horizontal=True, vertical_alignment="center", key=f"membership-{group.id}"):
            notices.show_link(one_line(group.name), "groups", group=str(group.id))
            through = ", ".join(one_line(item.name) for item in group.through)
            notices.show_text(f"{'Also through' if group.direct else 'Through'} {through}" if through else "")
            if group.direct and st.button("Remove", key=f"leave.{group.id}", type="tertiary"):
                ask_removing(str(group.id), group.name, principal)


def _show_keys(person: ListedUser) -> None:
    st.subheader("API keys", anchor=False)
    chosen = show_pages(
        KEYS,
        pages_of(lambda at: api.client().admin.api_keys.list(owner_email=person.email, **at), about=person.email),
        row=row_of,
        empty=lambda: notices.show_empty("No API keys."),
        hint="Select a key to revoke it.",
    )
    if chosen is not None and chosen.status is CredentialStatus.ACTIVE and st.button("Revoke …", key="revoke"):
        revoke = partial(api.client().admin.api_keys.revoke, chosen.api_key_id)
        ask_revoking(chosen, "key", revoke, then=clear_caches)
