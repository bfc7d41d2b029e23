"""Lists shown first on the access pages, and counts of resources readable by a principal."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from app import api
from app.audit import names_for, sentence
from app.formatting import moment, one_line
from app.labels import AGENT, COLLECTION, DOCUMENT, PERSON, ROLES, TYPES
from app.labels import PRINCIPALS as PRINCIPAL_KINDS
from app.lookup import Principal, Resource, principal_from
from app.people.directory import counts_of
from app.ui.errors import show_errors
from app.ui.filters import filter_line, part_of, text_filter
from app.ui.notices import look_at, show_empty
from app.ui.progress import offer_export
from app.ui.tables import ItemsPage, Source, pages_of, show_pages, time_cell
from carrel import NotFoundError, Pager
from carrel.wire.access import AccessThrough, AdminAccessCountResourcesResponse, HolderType, ResourceOrder
from carrel.wire.common import Principal as Reader
from carrel.wire.common import Role
from carrel.wire.file_names import safe_name
from carrel.wire.oversight import AuditEntry
from flows.operations.formatting import kind_of

COUNTED = {DOCUMENT: "Documents", COLLECTION: "Collections", AGENT: "Agents"}

MOST_SORTED = 20_000
"""Most resources listed by name; longer lists have no useful order."""

Counts = AdminAccessCountResourcesResponse


def count_kind(counts: Counts, kind: str) -> int:
    return sum(count.count for count in counts.counts if kind_of(count.resource_type) == kind)


def compare_counts(first: Counts, second: Counts, *, only_first: Counts, only_second: Counts) -> list[tuple[str, ...]]:
    """Return the counts of each kind that either has: of both, only the first, only the second."""
    rows: list[tuple[str, ...]] = []
    for kind, name in COUNTED.items():
        one, two, left, right = (count_kind(each, kind) for each in (first, second, only_first, only_second))
        if one or two:
            rows.append((name, *(f"{number:,}" for number in (one - left, left, right))))
    return rows


NAMED_THROUGH = 3
"""The most groups or roles named as a way of access."""
READER_HEADS = ("Name", "Type", "Address", "Direct access", "Through")


def through_in_words(through: Sequence[AccessThrough], reader: str = "") -> str:
    """Return the ways of access in a few words: Owner, a group, Everyone. `reader` is the id of a reading group."""
    names = list(dict.fromkeys(way_in_words(path, reader) for path in through))
    more = len(names) - NAMED_THROUGH
    return ", ".join(names[:NAMED_THROUGH]) + (f" and {more} more" if more > 0 else "")


def way_in_words(path: AccessThrough, reader: str) -> str:
    """Return the name of a way of access: a group, Everyone, Owner, or direct access."""
    match path.principal_type:
        case HolderType.ORGANIZATION:
            return "Everyone"
        case HolderType.GROUP if str(path.principal_id) != reader:
            return one_line(path.name)
        case _:
            return ROLES[path.role] if path.role is Role.OWNER else "Direct access"


def reader_row(principal: Reader, through: Sequence[AccessThrough]) -> tuple[str, ...]:
    roles = ", ".join(dict.fromkeys(ROLES[way.role] for way in through if str(way.principal_id) == principal.id))
    address = principal.email if principal.type == PERSON else ""
    kind, ways = PRINCIPAL_KINDS[principal.type].capitalize(), through_in_words(through, principal.id)
    return one_line(principal.name), kind, address, roles, ways


def export_name(what: str, of: str) -> str:
    return safe_name(re.sub(r"[/\\]", "_", f"{what} {one_line(of)[:80]} {datetime.now(UTC):%Y-%m-%d}.csv"))


def offer_readers(resources: Iterable[Resource], *, of: str, about: Hashable, label: str = "Export as CSV") -> None:
    """Show a button for a CSV of named resources' readers, requested by resource while the file is made."""
    now = datetime.now(UTC)

    def rows() -> Iterator[Sequence[Sequence[str]]]:
        ask = api.client().permissions.list_authorized_principals_for_resource
        for resource in resources:
            head = (one_line(resource.name), TYPES[resource.type], resource.id)
            with suppress(NotFoundError):  # deleted since
                for page in ask(resource.reference, with_through=True, page_size=1000).pages():
                    through = page.through or {}
                    found = page.principals
                    yield [(*head, *reader_row(each, through.get(each.id, ())), moment(now)) for each in found]

    heads = ("Resource", "Resource type", "Resource id", *READER_HEADS, "As of")
    offer_export(export_name("who-can-read", of), heads, rows(), about=about, label=label)


CHANGED, OPEN, ALL = "changed", "open", "all"
RESOURCES = {CHANGED: "Recently changed", OPEN: "Open to everyone", ALL: "All resources"}
PRINCIPALS = {CHANGED: "Recently changed", "groups": "Groups", "people": "People", "accounts": "Service accounts"}
LATEST = 50
"""The most recent changes checked."""


@dataclass(frozen=True)
class Change:
    """The latest change of a principal's access or of a resource's readers, in words."""

    one: Principal | Resource
    said: str
    entry: AuditEntry


def show_resources() -> None:
    part = part_of("part", RESOURCES, default=CHANGED)
    if part == CHANGED:
        _list_changes("resource", _changed_resources)
    else:
        _list_resources(is_open=part == OPEN)


def show_principals() -> None:
    part = part_of("part", PRINCIPALS, default=CHANGED)
    if part == CHANGED:
        _list_changes("who", _changed_principals)
    else:
        _list_principals(part)


def _list_changes(parameter: str, find: Callable[[], Sequence[Change]]) -> None:
    show_pages(
        f"changed.{parameter}",
        Source(lambda _: ItemsPage(find())),
        row=lambda change: {
            "Name": one_line(change.one.name),
            "Type": (
                change.one.kind if isinstance(change.one, Resource) else PRINCIPAL_KINDS[change.one.kind]
            ).capitalize(),
            "Latest change": change.said,
            "When": time_cell(change.entry.at),
        },
        empty=lambda: show_empty("No access was changed yet.", "Choose another list above, or type a name."),
        columns={"Latest change": {"width": "large"}},
        go=lambda change: look_at(parameter, change.one.key),
    )


def _list_resources(*, is_open: bool) -> None:
    with filter_line():
        query = text_filter("Find", "find", placeholder="Part of the name").replace("\0", "")
    filters: dict[str, Any] = {"query": query or None, "organization_wide": is_open}
    access, total = api.client().admin.access, show_errors(partial(counts_of, **filters)).total
    # Sorting very many is slow except by id.
    order = ResourceOrder.NAME if total <= MOST_SORTED else ResourceOrder.ID
    show_pages(
        "resources",
        pages_of(lambda at: access.list_resources(**filters, order=order, **at), about=(query, is_open, order)),
        row=lambda item: {"Name": one_line(item.name or item.resource_id), "Type": TYPES[item.resource_type]},
        empty=lambda: show_empty("Nothing matches.", "Try fewer letters, or choose another list above."),
        go=lambda item: look_at("resource", Resource.of(item).key),
    )
    listed = (Resource.of(resource) for resource in access.list_resources(**filters, page_size=1000))
    label = "Export who can read these"
    offer_readers(listed, of=query or RESOURCES[OPEN if is_open else ALL], about=(query, is_open), label=label)


def _list_principals(part: str) -> None:
    with filter_line():
        query = text_filter("Find", "find", placeholder="Part of the name").replace("\0", "")
    admin = api.client().admin
    lists: Mapping[str, tuple[Callable[..., Pager[Any, Any]], str]] = {
        "groups": (admin.groups.list, "Members"),
        "people": (admin.users.list, "Email"),
        "accounts": (admin.service_accounts.list, "Address"),
    }
    find, column = lists[part]
    show_pages(
        f"principals.{part}",
        pages_of(lambda at: cast("Pager[Any, Any]", find(query=query or None, **at)), about=query),
        row=lambda item: {"Name": one_line(principal_from(item).name), column: principal_from(item).note},
        empty=lambda: show_empty("Nobody matches.", "Try fewer letters, or choose another list above."),
        go=lambda item: look_at("who", principal_from(item).key),
    )


def _latest(action: str) -> Sequence[AuditEntry]:
    log = api.client().admin.audit_log
    return show_errors(lambda: next(log.query(action=action, page_size=LATEST).pages()).entries)


def _latest_grants() -> Sequence[AuditEntry]:
    """Return recent changes of grants, without agents lent for a test and taken back."""
    kept: list[AuditEntry] = []
    for entry in sorted(
        (*_latest("grants.set"), *_latest("grants.share"), *_latest("agent.deploy")), key=lambda item: item.at
    ):
        lent = next((item for item in reversed(kept) if item.target == entry.target), None)
        if lent and lent.action == "agent.deploy" and lent.details.get("before") == entry.details.get("after"):
            kept.remove(lent)
        else:
            kept.append(entry)
    return kept[::-1]


def _changed_resources() -> Sequence[Change]:
    latest: dict[str, AuditEntry] = {}
    for entry in _latest_grants():
        if entry.target is not None:
            latest.setdefault(entry.target.id, entry)
    if not latest:
        return []
    access = api.client().admin.access
    listed = show_errors(lambda: list(access.list_resources(object_ids=list(latest), page_size=LATEST)))
    there = {str(resource.object_id): Resource.of(resource) for resource in listed}
    return _describe_changes(there, latest)


def _changed_principals() -> Sequence[Change]:
    """Return principals with changed access, directly or by an existing group, each once."""
    joined = [(entry.target.id, entry) for entry in _latest("group.members") if entry.target is not None]
    groups = _principals_by_id(list({group for group, _ in joined}))
    by_group = [entry for group, entry in joined if group in groups]
    entries = sorted((*_latest_grants(), *by_group), key=lambda item: item.at, reverse=True)
    latest: dict[str, AuditEntry] = {}
    for entry in entries:
        for holder in _holders(entry):
            latest.setdefault(holder, entry)
    there = _principals_by_id(list(latest)[:LATEST])
    return _describe_changes(there, latest)


def _describe_changes(there: Mapping[str, Principal | Resource], latest: Mapping[str, AuditEntry]) -> Sequence[Change]:
    names = names_for(list(latest.values()))
    return [Change(there[key], sentence(entry, names), entry) for key, entry in latest.items() if key in there]


def _holders(entry: AuditEntry) -> Iterator[str]:
    """Yield the ids of principals with changed access in an entry: changed role, joined or left."""
    before, after = (cast("Mapping[str, str]", entry.details.get(member) or {}) for member in ("before", "after"))
    yield from (holder for holder in {**before, **after} if before.get(holder) != after.get(holder))
    for member in ("added", "removed"):
        yield from cast("Sequence[str]", entry.details.get(member) or ())


def _principals_by_id(ids: Sequence[str]) -> Mapping[str, Principal]:
    if not ids:
        return {}
    admin = api.client().admin
    users = show_errors(lambda: list(admin.users.list(ids=ids, page_size=LATEST)))
    groups = show_errors(lambda: list(admin.groups.list(ids=ids, page_size=LATEST)))
    accounts = show_errors(lambda: list(admin.service_accounts.list(ids=ids, page_size=LATEST)))
    return {
        **{str(user.id): principal_from(user) for user in (*users, *groups)},
        **{str(account.service_account_id): principal_from(account) for account in accounts},
    }
