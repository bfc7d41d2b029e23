"""The page "Who can read this?": who may read a resource, why, and who granted it; and changing the grants."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import streamlit as st

from app import api
from app.formatting import one_line
from app.labels import DOCUMENT, GRANTED, GROUP, PERSON, PRINCIPALS, ROLE_MEANINGS
from app.lookup import Principal, Resource, disambiguate
from app.people.directory import clear_caches, counts_in_words, gains_of
from app.permissions.browsing import show_resources
from app.permissions.explanation import show_why
from app.permissions.grants import ConflictError, Grants, changes_in_words, grants_on, make_so
from app.ui.access import require_admin
from app.ui.dialogs import NotYetError, close_dialog, confirm, is_open, offer_submit, open_dialog
from app.ui.errors import show_errors
from app.ui.exporting import Export, offer_export
from app.ui.links import look_at, offer_way_back, show_link
from app.ui.notices import show_empty, show_note, show_table, show_text, show_title, show_warning
from app.ui.passages import label
from app.ui.pickers import drop_choice, pick_principal, pick_principals, pick_resource
from app.ui.tables import PAGE_ROWS, Source, forget, show_pages
from carrel.wire.common import GrantRole, GroupPrincipal, ResourceType, Role, UserPrincipal
from carrel.wire.permissions import ListAuthorizedPrincipalsForResourceResponse

READERS, CHANGE, ADDED = "readers", "change", "grants.added"
SHOWN_GRANTS, MOST_GRANTS = 20, 500
OFFERED_GROUPS = 5


def key_of(principal: UserPrincipal | GroupPrincipal) -> str:
    """Return the key of a reader for an address."""
    return f"{PERSON}:{principal.email}" if principal.type == PERSON else f"{principal.type}:{principal.id}"


def show_readers(resource: Resource, grants: Grants) -> None:
    """List everybody who may effectively read a resource, page by page; choosing one explains why."""

    direct = directly(grants)

    def fetch(token: str | None) -> ListAuthorizedPrincipalsForResourceResponse:
        readers = api.client().permissions.list_authorized_principals_for_resource
        return next(readers(resource.reference, page_size=PAGE_ROWS, page_token=token).pages())

    show_pages(
        READERS,
        Source(fetch, lambda page: page.principals, about=resource.key),
        row=lambda one: dict(zip(HEADS, row_of(one, direct), strict=True)),
        empty=lambda: show_empty("Nobody may read it.", "Choose “Manage access”, and add people or groups."),
        go=lambda chosen: look_at("who", key_of(chosen)),
    )


HEADS = ("Name", "Type", "Address", "Direct access")


def directly(grants: Grants) -> dict[str, str]:
    """Return the roles granted directly, by address or, for groups, by id."""
    return {
        holder.id if holder.kind == GROUP else holder.note: GRANTED[grants.roles[key]]
        for key, holder in grants.who.items()
    }


def row_of(principal: UserPrincipal | GroupPrincipal, direct: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Return a reader as a row of the list and of its export."""
    address = principal.email if principal.type == PERSON else ""
    role = direct.get(address or principal.id, "")
    return one_line(principal.name), PRINCIPALS[principal.type].capitalize(), address, role


def rows_of(resource: Resource, grants: Grants) -> Iterator[Sequence[Sequence[str]]]:
    """Walk all readers for an export."""
    readers = api.client().permissions.list_authorized_principals_for_resource(resource.reference, page_size=1000)
    direct = directly(grants)
    for page in readers.pages():
        yield [row_of(one, direct) for one in page.principals]


def show_grants(grants: Grants) -> None:
    """Show the grants, which name fewer principals than may read: groups have members."""
    everybody = [("Everybody in the organization", "", "Viewer")] if grants.everybody else []
    held = [
        (one_line(holder.name), holder.facts, GRANTED[grants.roles[key]])
        for key, holder in sorted(grants.who.items(), key=lambda pair: pair[1].name.lower())
    ]
    rows = everybody + held
    if not rows:
        show_text("Nobody but its owner has direct access.")
        return
    show_table(rows[:SHOWN_GRANTS], heads=("Name", "Type", "Role"))
    if len(rows) > SHOWN_GRANTS:
        with st.expander(f"{len(rows) - SHOWN_GRANTS:,} more"):
            show_table(rows[SHOWN_GRANTS:MOST_GRANTS])
            if len(rows) > MOST_GRANTS:
                show_note(f"… and {len(rows) - MOST_GRANTS:,} more, which the export has.")


def open_change(resource: Resource) -> None:
    """Open the dialog that changes grants, with no principal chosen."""
    drop_choice(ADDED)
    open_dialog(CHANGE, resource.key)


@st.dialog("Manage access", width="large", on_dismiss=close_dialog)
def change(resource: Resource, before: Grants, given: Sequence[Principal] = ()) -> None:
    """Show the dialog that changes grants, at first giving it to some, with the effect of the changes; save them."""
    if not is_open(CHANGE):
        st.rerun()
    show_text(resource.name)
    added = pick_principals(ADDED, label="Add people or groups", chosen=given)
    role = st.segmented_control(
        "Role", list(GRANTED), default=GrantRole.VIEWER, format_func=lambda one: GRANTED[one], required=True, key="as"
    )
    st.caption("A viewer " + ROLE_MEANINGS[Role.VIEWER] + ", an editor " + ROLE_MEANINGS[Role.EDITOR] + ".")
    holders = disambiguate(before.who.values())
    removed = st.multiselect(
        "Remove",
        list(holders),
        format_func=lambda key: holders[key][0] if key in holders else key,
        key="removed",
        placeholder="Choose whom to remove" if holders else "Nobody has direct access",
    )
    everybody = st.checkbox("Everybody in the organization may read it", value=before.everybody, key="everybody")
    after = before.with_changes(added=added, role=role, removed=removed, everybody=everybody)
    said = changes_in_words(before, after)
    show_changes(resource, said)
    # What was said is what is done, whatever the fields hold by then.
    offer_submit(CHANGE, "Save", action=partial(save, resource, before, after), disabled=not said)


def show_changes(resource: Resource, said: Sequence[str]) -> None:
    """Show what saving will change."""
    if not said:
        show_text("Nothing will change.")
        return
    show_table([(sentence,) for sentence in said], heads=("What will change, from the next request on",))
    if resource.kind == "document" and resource.type is not ResourceType.UPLOADED_DOCUMENT:
        show_warning("The next load from its source may set its readers again.")


def save(resource: Resource, before: Grants, after: Grants) -> None:
    """Save the changes, unless somebody else has changed the grants meanwhile."""
    try:
        make_so(api.client(), resource, before=before, after=after)
    except ConflictError:
        message = "Somebody changed this meanwhile, so nothing was saved. Close this, look, and begin again."
        raise NotYetError(message) from None
    forget(READERS)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def owner_of(resource: Resource) -> str:
    """Name who owns a document, which no list of grants does."""
    if resource.kind != DOCUMENT or resource.object_id is None:
        return ""
    owner = api.client().catalog.get_document(resource.object_id).owner
    return f"{owner.name} · {owner.email}" if owner.type == PERSON else owner.name


def show_resource(resource: Resource) -> None:
    """Show a resource with its grants, its readers, and a search for why somebody can read it."""
    grants = show_errors(partial(grants_on, api.client(), resource))
    st.header("Direct access", anchor=False)
    if owner := show_errors(partial(owner_of, resource)):
        show_text(f"Owner: {owner}")
    show_grants(grants)
    st.button("Manage access", key="grants.change", icon=":material/edit:", on_click=open_change, args=(resource,))
    if is_open(CHANGE, resource.key):
        change(resource, grants)
    st.header("Effective access", anchor=False)
    show_text("People and groups, each once, however they come by it. Choose one to see why.")
    show_readers(resource, grants)
    offer_export(
        Export("who-can-read.csv", HEADS, rows_of(resource, grants), about=(resource.key, hash(str(grants.roles))))
    )
    st.header("Why, or why not?", anchor=False)
    pick_principal("who", label="Somebody in particular")


def show_one(resource: Resource) -> None:
    """Show why somebody may read a resource, or why not, in place of the list."""
    offer_way_back("All who may read it", "who")
    who: Principal | None = pick_principal("who", label="Why may they read it, or why not?")
    if who is not None and not show_why(resource, who):
        offer_access(resource, who)


def offer_access(resource: Resource, who: Principal) -> None:
    """Say which groups have access, and offer to add somebody to one, or to grant the resource to them."""
    if who.kind == PERSON:
        users = api.client().admin.users
        found = show_errors(lambda: next((one for one in users.list(query=who.id) if one.email == who.id), None))
        if found is None or not found.active:
            show_link("Open person", "people", person=str(found.id) if found else "")
            return
    grants = show_errors(partial(grants_on, api.client(), resource))
    groups = sorted(
        (one for one in grants.who.values() if one.kind == GROUP and one.key != who.key), key=lambda one: one.name
    )
    show_text(groups_in_words(groups, who))
    with st.container(horizontal=True):
        st.button("Give access", key="give", type="primary", on_click=open_change, args=(resource,))
        for group in groups[:OFFERED_GROUPS]:
            if st.button(f"Add to {label(one_line(group.name))}", key=f"join.{group.id}"):
                ask_joining(group, who)
    if is_open(CHANGE, resource.key):
        change(resource, grants, given=[who])


def groups_in_words(groups: Sequence[Principal], who: Principal) -> str:
    """Say which groups are granted a resource that somebody in none of them may not read."""
    name = one_line(who.name)
    if not groups:
        return "It is granted to no group."
    if len(groups) == 1:
        return f"{one_line(groups[0].name)} is the only group with access; {name} isn't in it."
    named = ", ".join(one_line(one.name) for one in groups[:OFFERED_GROUPS])
    more = f" and {len(groups) - OFFERED_GROUPS:,} more" if len(groups) > OFFERED_GROUPS else ""
    return f"Groups with access: {named}{more}. {name} is in none of them."


def ask_joining(group: Principal, who: Principal) -> None:
    """Ask before somebody is put into a group, saying what they could read more."""
    more = counts_in_words(show_errors(partial(gains_of, group, who))) or "nothing"
    confirm(
        "Add to the group?",
        f"{one_line(who.name)} joins {one_line(group.name)}, and can read {more} more from the next request on.",
        doing="Add",
        action=partial(join, group, who),
    )


def join(group: Principal, who: Principal) -> None:
    """Put somebody into a group."""
    api.client().admin.groups.add_members(group.id, [who.reference])
    clear_caches()
    forget(READERS)


def page() -> None:
    """Draw who may read the resource in the address; for admins."""
    require_admin()
    show_title("Who can read this?", "Find a document, a collection or an agent, and see who may read it and why.")
    resource = pick_resource("resource", label="Document, collection or agent")
    if resource is None:
        show_resources()
        return
    if resource.kind == DOCUMENT and resource.object_id is not None:
        show_link("Open document", "documents", document=str(resource.object_id))
    if "who" in st.query_params:
        show_one(resource)
    else:
        show_resource(resource)


page()
