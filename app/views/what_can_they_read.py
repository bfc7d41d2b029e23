"""The page "What can they read?": readable resources, the reasons, and a comparison of two principals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from app import api
from app.formatting import one_line
from app.labels import GROUP, TYPES
from app.lookup import Principal, Resource, resource_at, tell_apart
from app.people.directory import counts_of
from app.permissions import browsing
from app.permissions.explaining import show_why
from app.permissions.panel import REACH, offer_access, offer_change
from app.ui import notices
from app.ui.errors import require_admin, require_found, show_errors
from app.ui.filters import choice_filter, filter_line, text_filter
from app.ui.pickers import pick_principal
from app.ui.progress import offer_export
from app.ui.tables import ALL_ROWS, PageAsked, pages_of, show_pages
from carrel import Pager
from carrel.wire.access import AdminAccessListResourcesResponse, ClassedResource, ResourceOrder
from carrel.wire.common import ResourceType
from flows.operations.formatting import count_text

HEADS = ("Name", "Type", "Through", "Id")
ONLY_FIRST, ONLY_SECOND = "first", "second"


@dataclass(frozen=True)
class ReachQuery:
    who: Principal
    without: Principal | None
    query: str
    types: tuple[ResourceType, ...]

    def ask(
        self, at: PageAsked, *, order: ResourceOrder = ResourceOrder.ID
    ) -> Pager[ClassedResource, AdminAccessListResourcesResponse]:
        return api.client().admin.access.list_resources(
            query=self.query or None,
            resource_types=self.types or None,
            readable_by=self.who.reference,
            not_readable_by=self.without.reference if self.without else None,
            order=order,
            with_through=True,
            **at,
        )

    def rows(self) -> Iterator[Sequence[Sequence[str]]]:
        for page in self.ask(ALL_ROWS).pages():
            yield [_row_of(resource) for resource in page.resources]


def _row_of(found: ClassedResource) -> tuple[str, str, str, str]:
    name = one_line(found.name or found.resource_id)
    return name, TYPES[found.resource_type], browsing.through_in_words(found.through or ()), found.resource_id


def counts(principal: Principal, without: Principal | None = None, query: str = "") -> browsing.Counts:
    return counts_of(readable_by=principal, not_readable_by=without, query=query or None)


def _show_counts(found: browsing.Counts) -> None:
    for column, (kind, name) in zip(st.columns(len(browsing.COUNTED)), browsing.COUNTED.items(), strict=True):
        column.metric(name, f"{browsing.count_kind(found, kind):,}", border=True)


def show_comparison(first: Principal, second: Principal) -> tuple[Principal, Principal | None]:
    """Show figures about two principals' access; return the principal to list and the principal to exclude."""
    if first.key == second.key:
        notices.show_warning("You selected the same person or group twice. Compare with another.")
        return first, None
    pair = (first, second)
    names = tell_apart({item.key: one_line(item.name) for item in pair}, {item.key: item.facts for item in pair})
    left_name, right_name = names[first.key], names[second.key]
    left, right = show_errors(lambda: counts(first)), show_errors(lambda: counts(second))
    only_left, only_right = show_errors(lambda: counts(first, second)), show_errors(lambda: counts(second, first))
    notices.show_table(
        browsing.compare_counts(left, right, only_first=only_left, only_second=only_right),
        heads=("", "Both can read", f"Only {left_name}", f"Only {right_name}"),
        named=True,
    )
    if (first.kind == GROUP) != (second.kind == GROUP):
        notices.show_note("Resources that are open to everyone count for each person, but not for groups.")
    lists = {
        "": f"All that {left_name} can read ({left.total:,})",
        ONLY_FIRST: f"Only {left_name} can read ({only_left.total:,})",
        ONLY_SECOND: f"Only {right_name} can read ({only_right.total:,})",
    }
    chosen = choice_filter("List", "only", lists)
    if chosen == ONLY_SECOND:
        return second, first
    return first, second if chosen == ONLY_FIRST else None


def _ask_filters(principal: Principal, without: Principal | None) -> ReachQuery:
    found = show_errors(lambda: counts(principal, without))
    counted = {item.resource_type: item.count for item in found.counts if item.count}
    kinds = {"": "Everything"} | {kind.value: f"{TYPES[kind]} ({count:,})" for kind, count in counted.items()}
    with filter_line("type"):
        query = text_filter("Name", "q", placeholder="Part of the name").replace("\0", "")
        kind = choice_filter("Type", "type", kinds)
    return ReachQuery(principal, without, query, (ResourceType(kind),) if kind else ())


def _say_nothing(question: ReachQuery) -> None:
    if question.query or question.types:
        notices.show_empty("Nothing matches.", "Clear the filters to see everything.")
    elif question.without is not None:
        notices.show_empty(f"{question.who.name} can read nothing that {question.without.name} cannot.")
    else:
        notices.show_empty(
            f"{question.who.name} can read nothing.",
            "To give access, find a resource under “Who can read this?”, and select “Manage access”.",
        )


def _show_reach(principal: Principal) -> None:
    if "with" not in st.query_params:
        _show_counts(show_errors(lambda: counts(principal)))
    second = pick_principal("with", label="Compare with another")
    whose, without = show_comparison(principal, second) if second is not None else (principal, None)
    question = _ask_filters(whose, without)
    found = show_errors(lambda: counts(question.who, question.without, question.query))
    of_types = (count.count for count in found.counts if count.resource_type in question.types)
    shown = sum(of_types) if question.types else found.total
    order = ResourceOrder.NAME if shown <= browsing.MOST_SORTED else ResourceOrder.ID
    notices.show_text(f"{count_text(shown, 'item')}. Select a row to see why." if shown else "")
    if order is ResourceOrder.ID:
        notices.show_note("There are too many results to sort by name. Filter the list.")
    show_pages(
        REACH,
        pages_of(partial(question.ask, order=order), about=(question, order)),
        row=lambda resource: dict(zip(HEADS[:3], _row_of(resource), strict=False)),
        empty=partial(_say_nothing, question),
        go=lambda chosen: notices.look_at("resource", Resource.of(chosen).key),
    )
    name = browsing.export_name("what-they-can-read", question.who.name)
    offer_export(name, HEADS, question.rows(), about=question)


def _explain_resource(principal: Principal, key: str) -> None:
    notices.offer_way_back("Everything they can read", "resource")
    found = require_found(lambda: resource_at(api.client(), key), "The resource in the URL does not exist.")
    notices.show_heading(found.name, TYPES[found.type])
    reads = show_why(found, principal)
    if (second := pick_principal("with", label="Compare with another")) is not None:
        principal, reads = second, show_why(found, second)
    if reads:
        offer_change(found)
    else:
        offer_access(found, principal)
    notices.show_link("Who else can read it?", "who_can_read", resource=found.key)


def page() -> None:
    require_admin()
    notices.show_title(
        "What can they read?", "Find a person, group or service account, and see what they can read and why."
    )
    if (principal := pick_principal("who", label="Person, group or service account")) is None:
        browsing.show_principals()
        return
    if "resource" in st.query_params:
        _explain_resource(principal, str(st.query_params["resource"]))
    else:
        _show_reach(principal)


page()
