"""The page "Who can read this?": who may read a resource, why, and who granted it; and changing the grants."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import streamlit as st

from app import api
from app.formatting import one_line
from app.labels import DOCUMENT, GRANTED, GROUP, PERSON, PRINCIPALS
from app.lookup import Principal, Resource
from app.permissions.browsing import show_resources
from app.permissions.changing import READERS, Grants, grants_on, offer_access, offer_change, show_why
from app.ui.errors import require_admin, show_errors
from app.ui.notices import look_at, offer_way_back, show_empty, show_link, show_note, show_table, show_text, show_title
from app.ui.pickers import pick_principal, pick_resource
from app.ui.progress import offer_export
from app.ui.tables import pages_of, show_pages
from carrel.wire.common import GroupPrincipal, UserPrincipal

SHOWN_GRANTS, MOST_GRANTS = 20, 500


def _key_of(principal: UserPrincipal | GroupPrincipal) -> str:
    return f"{PERSON}:{principal.email}" if principal.type == PERSON else f"{principal.type}:{principal.id}"


HEADS = ("Name", "Type", "Address", "Direct access")


def _directly(grants: Grants) -> dict[str, str]:
    return {
        holder.id if holder.kind == GROUP else holder.note: GRANTED[grants.roles[key]]
        for key, holder in grants.who.items()
    }


def _row_of(principal: UserPrincipal | GroupPrincipal, direct: Mapping[str, str]) -> tuple[str, str, str, str]:
    address = principal.email if principal.type == PERSON else ""
    role = direct.get(address or principal.id, "")
    return one_line(principal.name), PRINCIPALS[principal.type].capitalize(), address, role


def _rows_of(resource: Resource, grants: Grants) -> Iterator[Sequence[Sequence[str]]]:
    readers = api.client().permissions.list_authorized_principals_for_resource(resource.reference, page_size=1000)
    direct = _directly(grants)
    for page in readers.pages():
        yield [_row_of(one, direct) for one in page.principals]


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


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def owner_of(resource: Resource) -> str:
    """Name who owns a document, which no list of grants does."""
    if resource.kind != DOCUMENT or resource.object_id is None:
        return ""
    owner = api.client().catalog.get_document(resource.object_id).owner
    return f"{owner.name} · {owner.email}" if owner.type == PERSON else owner.name


def _show_resource(resource: Resource) -> None:
    grants = show_errors(partial(grants_on, api.client(), resource))
    st.header("Direct access", anchor=False)
    if owner := show_errors(partial(owner_of, resource)):
        show_text(f"Owner: {owner}")
    show_grants(grants)
    offer_change(resource, grants)
    st.header("Effective access", anchor=False)
    show_text("Everyone who can read this, listed once. Choose one to see why.")
    direct = _directly(grants)

    show_pages(
        READERS,
        pages_of(
            lambda at: api.client().permissions.list_authorized_principals_for_resource(resource.reference, **at),
            about=resource.key,
        ),
        row=lambda one: dict(zip(HEADS, _row_of(one, direct), strict=True)),
        empty=lambda: show_empty("Nobody may read it.", "Choose “Manage access”, and add people or groups."),
        go=lambda chosen: look_at("who", _key_of(chosen)),
    )
    offer_export("who-can-read.csv", HEADS, _rows_of(resource, grants), about=(resource.key, hash(str(grants.roles))))
    st.header("Why, or why not?", anchor=False)
    pick_principal("who", label="Somebody in particular")


def _show_one(resource: Resource) -> None:
    offer_way_back("All who may read it", "who")
    who: Principal | None = pick_principal("who", label="Why may they read it, or why not?")
    if who is None:
        return
    if show_why(resource, who):
        offer_change(resource)
    else:
        offer_access(resource, who)


def page() -> None:
    """Draw who may read the resource in the address; for admins."""
    require_admin()
    show_title("Who can read this?", "Find a document, a collection or an agent, and see who may read it and why.")
    resource = pick_resource("resource", label="Document, collection or agent")
    if resource is None:
        if "who" in st.query_params:
            pick_principal("who", label="To give access to")
        show_resources()
        return
    if resource.kind == DOCUMENT and resource.object_id is not None:
        show_link("Open document", "documents", document=str(resource.object_id))
    if "who" in st.query_params:
        _show_one(resource)
    else:
        _show_resource(resource)


page()
