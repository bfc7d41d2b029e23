"""The audit log, newest first: filters by person, action, object and time, with the exact details of each entry."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

import streamlit as st

from app import api
from app.audit import WIDENED, WIDENING, action_labels, names_for, sentence, widens
from app.formatting import browser_zone, moment, one_line
from app.labels import PERSON, SERVICE_ACCOUNT
from app.lookup import by_id, is_id
from app.ui import notices
from app.ui.errors import require_admin, require_found
from app.ui.filters import choice_filter, days_filter, filter_line, text_filter
from app.ui.pickers import pick_principal
from app.ui.progress import find_rows, offer_export
from app.ui.saving import in_words
from app.ui.tables import ALL_ROWS, PAGE_ROWS, Cell, ItemsPage, PageAsked, Source, show_pages, time_cell
from carrel import Pager
from carrel.wire.fields import format_instant
from carrel.wire.oversight import MOST_LOOKED_THROUGH, AdminAuditLogQueryResponse, AuditEntry

MOST_EXPORTED = 50_000
HEADS = (
    "At (UTC)", "Event", "Who", "For", "Action", "Kind", "Id", "Name", "Device", "Address", "Attempts",
    "Last attempt", "Comment", "Request id", "Changes", "Details",
)  # fmt: skip

Filters: TypeAlias = dict[str, Any]


def _ask(filters: Filters, at: PageAsked) -> Pager[AuditEntry, AdminAuditLogQueryResponse]:
    return api.client().admin.audit_log.query(**filters, **at)


def _matching(filters: Filters, page: AdminAuditLogQueryResponse) -> list[AuditEntry]:
    return [entry for entry in page.entries if filters["actions"] != WIDENING or widens(entry)]


def _ask_filters() -> Filters:
    named = str(st.query_params.get("files", ""))
    container = {named: "Files of one archive or email"} if is_id(named) else {}
    with filter_line("action", "from", "to", "who", "target", "files"):
        name = text_filter("Name", "name", placeholder="Part of it")
        action = choice_filter("Event", "action", {"": "All", WIDENED: "Access: More access", **action_labels()})
        since, until = days_filter()
        who = pick_principal("who", label="By or for whom", kinds=(PERSON, SERVICE_ACCOUNT), compact=True)
        target = text_filter("Id", "target", placeholder="The exact id of a resource")
        files = choice_filter("Files in archives", "files", {"": "Summarize", "each": "Show each", **container})
    if since or until:
        notices.show_note(f"Days begin and end at midnight in {browser_zone()}.")
    return {
        "actor": None if who is None else who.id if who.kind == PERSON else who.note,
        "actions": WIDENING if action == WIDENED else [action] if action else None,
        "target_id": target.replace("\0", "") or None,
        "query": name.replace("\0", "") or None,
        # A name or id may be of a file in an archive.
        "contained": None if files or name or target else False,
        "container_id": UUID(files) if is_id(files) else None,
        "from_": since,
        "to": until,
    }


def _show_entries(filters: Filters) -> None:
    def fetch(token: str | None) -> ItemsPage[tuple[AuditEntry, dict[str, str]]]:
        pages = _ask(filters, {"page_size": PAGE_ROWS, "page_token": token}).pages()
        # With a name or address, the service looks through many entries for a page.
        most = MOST_LOOKED_THROUGH if filters["query"] else PAGE_ROWS
        page = find_rows(pages, rows=partial(_matching, filters), most=most, of="entries")
        known = names_for(entries := _matching(filters, page))
        return ItemsPage([(entry, known) for entry in entries], page.next_page_token)

    show_pages(
        "log",
        Source(fetch, about=str(filters)),
        row=lambda pair: _row_of(*pair),
        columns={"Resource": st.column_config.TextColumn(width="small")},
        empty=lambda: notices.show_empty("No entries match.", "Clear some filters, or choose other days."),
        go=lambda pair: notices.look_at("entry", pair[0].audit_log_id),
    )


def _row_of(entry: AuditEntry, known: dict[str, str]) -> dict[str, object]:
    target, actor = entry.target, entry.actor
    return {
        "Event": one_line(sentence(entry, known)),
        "Resource": one_line((target.name or known.get(target.id, "")) if target else ""),
        "Who": Cell(one_line(entry.who), _address_of(actor)) if actor else one_line(entry.who),
        "Device": " · ".join(filter(None, (entry.device, entry.address))),
        "When": time_cell(entry.at),
    }


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def _entry_at(entry_id: str) -> AuditEntry | None:
    return by_id(api.client().admin.audit_log.query, entry_id)


def _show_entry(entry_id: str) -> None:
    notices.offer_way_back("All entries", "entry")
    entry = require_found(lambda: _entry_at(entry_id), "This entry does not exist.")
    notices.show_heading(sentence(entry, names_for([entry])), moment(entry.at))
    if entry.text:
        notices.show_text(f"Comment: {entry.text}")
    target = entry.target
    facts = [
        ("At", format_instant(entry.at)),
        ("Who", f"{entry.who} ({_address_of(entry.actor)})" if entry.actor else one_line(entry.who)),
        ("For", f"{entry.acting_for.name} ({_address_of(entry.acting_for)})" if entry.acting_for else ""),
        ("Action", entry.action),
        ("Resource", f"{target.type or ''} {target.id}".strip() if target else ""),
        ("Name at the time", (target.name or "") if target else ""),
        ("Device", entry.device or ""),
        ("Address", entry.address or ""),
        ("Attempts", str(entry.attempts or "")),
        ("Last attempt", format_instant(entry.last_at) if entry.last_at else ""),
        ("Request id", entry.request_id or ""),
        ("Entry", str(entry.audit_log_id)),
    ]
    notices.show_table([fact for fact in facts if fact[1]], named=True)
    if entry.changes:
        heads = ("Changes", "From", "To")
        rows = [(name, in_words(change.from_), in_words(change.to)) for name, change in entry.changes.items()]
        notices.show_table(rows, heads=heads)
    if entry.details:
        st.code(json.dumps(entry.details, indent=2, ensure_ascii=False, sort_keys=True), language="json")
    if target is not None:
        notices.offer_action("All events of this resource", _narrow_to, "target", target.id, key="log.same")
        if entry.action == "document.unpack":
            notices.offer_action("All events of its files", _narrow_to, "files", target.id, key="log.files")


def _narrow_to(name: str, thing: str) -> None:
    notices.drop_parameters("entry", "who", "action", "name", "target", "files", "from", "to")
    st.query_params[name] = thing


def _address_of(principal: Any) -> str:
    return getattr(principal, "email", "") or principal.id


def _rows_of(filters: Filters) -> Iterator[Sequence[Sequence[str]]]:
    for page in _ask(filters, ALL_ROWS).pages():
        known = names_for(entries := _matching(filters, page))
        yield [_export_row(entry, known) for entry in entries]


def _export_row(entry: AuditEntry, names: dict[str, str]) -> tuple[str, ...]:
    target = entry.target
    return (
        format_instant(entry.at),
        sentence(entry, names),
        _address_of(entry.actor) if entry.actor else "",
        _address_of(entry.acting_for) if entry.acting_for else "",
        entry.action,
        (target.type or "") if target else "",
        target.id if target else "",
        (target.name or "") if target else "",
        entry.device or "",
        entry.address or "",
        str(entry.attempts or ""),
        format_instant(entry.last_at) if entry.last_at else "",
        entry.text or "",
        entry.request_id or "",
        in_words(entry.changes and {name: change.model_dump(mode="json") for name, change in entry.changes.items()}),
        json.dumps(entry.details, ensure_ascii=False, sort_keys=True) if entry.details else "",
    )


def page() -> None:
    require_admin()
    notices.show_title("Audit log", "Who did what, newest first. Nobody can change or delete entries.")
    if "entry" in st.query_params:
        _show_entry(str(st.query_params["entry"]))
        return
    filters = _ask_filters()
    if filters["from_"] is not None and filters["to"] is not None and filters["from_"] >= filters["to"]:
        notices.show_warning("The first day is after the last day. Swap them.")
        return
    _show_entries(filters)
    offer_export("audit-log.csv", HEADS, _rows_of(filters), about=str(filters), most=MOST_EXPORTED)


page()
