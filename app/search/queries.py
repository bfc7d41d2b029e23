"""Search queries with conditions on metadata. Kept out of the page's script, which runs at every interaction."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from html import escape
from typing import TypeAlias, TypeVar
from urllib.parse import quote, unquote
from uuid import UUID

import streamlit as st

from app import api
from app.labels import YES_NO
from app.ui.errors import show_errors
from app.ui.notices import show_note, show_text, show_warning
from carrel.wire import search as wire
from carrel.wire.collections import DocumentCollection, FieldType
from carrel.wire.field_values import BETWEEN, expectation, read_value

MOST = 50
"""Most conditions in a search; the service's limit."""

_OPERATORS = {
    wire.FilterOperator.EQUAL: ("is", "is", "is"),
    wire.FilterOperator.NOT_EQUAL: ("not", "is not", "is not"),
    wire.FilterOperator.CONTAINS: ("contains", "contains", "contains"),
    wire.FilterOperator.LESS: ("under", "less than", "before"),
    wire.FilterOperator.LESS_OR_EQUAL: ("upto", "at most", "until"),
    wire.FilterOperator.GREATER_OR_EQUAL: ("from", "at least", "on or after"),
    wire.FilterOperator.GREATER: ("over", "more than", "after"),
}
_IN_ADDRESS, IN_WORDS, OF_TIMES = (
    {operator: names[number] for operator, names in _OPERATORS.items()} for number in range(3)
)
_FROM_ADDRESS = {word: operator for operator, word in _IN_ADDRESS.items()}

_NUMBERS = tuple(operator for operator in wire.FilterOperator if operator is not wire.FilterOperator.CONTAINS)
OFFERED: dict[FieldType, Sequence[wire.FilterOperator]] = {
    FieldType.STRING: (wire.FilterOperator.EQUAL, wire.FilterOperator.NOT_EQUAL, wire.FilterOperator.CONTAINS),
    FieldType.INT: _NUMBERS,
    FieldType.DOUBLE: _NUMBERS,
    # A day means its beginning in UTC, so "until" would exclude the day itself.
    FieldType.DATETIME: (wire.FilterOperator.GREATER_OR_EQUAL, wire.FilterOperator.LESS, wire.FilterOperator.EQUAL),
    FieldType.BOOLEAN: (wire.FilterOperator.EQUAL,),
    FieldType.LIST: (wire.FilterOperator.EQUAL, wire.FilterOperator.NOT_EQUAL, wire.FilterOperator.CONTAINS),
}
"""Useful operators for each field type, the most usual first."""

T = TypeVar("T")
Kinds: TypeAlias = Mapping[str, FieldType]
"""The types of a collection's fields, by name; empty for the catalog, which has no schema."""


@dataclass(frozen=True)
class Condition:
    """A condition on a metadata field; the value is text, as in requests."""

    field: str
    operator: wire.FilterOperator
    value: str

    def in_address(self) -> str:
        """Return the condition as text for an address: team:is:deck."""
        return f"{quote(self.field, safe='')}:{_IN_ADDRESS[self.operator]}:{self.value}"

    def in_words(self, kinds: Kinds) -> str:
        """Return the condition as text for people. The field's type decides the words for an order."""
        kind = kinds.get(self.field)
        words = OF_TIMES if kind is FieldType.DATETIME else IN_WORDS
        value = YES_NO.get(self.value, self.value) if kind is FieldType.BOOLEAN else self.value
        value = value.removesuffix(".0") if kind is FieldType.DOUBLE else value
        return f"{self.field} {words[self.operator]} {value}"

    def as_filters(self, kinds: Kinds) -> list[dict[str, str]]:
        """Return the condition as API filters. A time on a day becomes two filters."""
        if kinds.get(self.field) is FieldType.DATETIME and self.operator is wire.FilterOperator.EQUAL:
            try:
                day = date.fromisoformat(self.value)
                bounds = {wire.FilterOperator.GREATER_OR_EQUAL: day, wire.FilterOperator.LESS: day + timedelta(days=1)}
            except (ValueError, OverflowError):
                pass  # not a day: a time, or a value that the service refuses
            else:
                return [self._filter_of(operator, at.isoformat()) for operator, at in bounds.items()]
        return [self._filter_of(self.operator, self.value)]

    def _filter_of(self, operator: wire.FilterOperator, value: str) -> dict[str, str]:
        return {"field": self.field, "operator": operator.value, "value": value}


def kinds_of(collection: DocumentCollection | None) -> Kinds:
    """Return the types of a collection's fields; empty for the catalog, with text fields only."""
    return {} if collection is None else {field.name: field.type for field in collection.custom_metadata_schema.fields}


def places() -> dict[str, str]:
    """Return the names of the catalog and of the collections open to the person's searches, by key."""
    return {CATALOG: "The whole catalog", **show_errors(api.collection_names)}


def condition_of(found: wire.AppliedFilter) -> Condition:
    return Condition(found.field, found.operator, found.value)


def from_address(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Return the conditions in address texts, without duplicates, at most `MOST`. Invalid texts are ignored."""
    read = (_read_condition(text) for text in texts)
    return tuple(dict.fromkeys(condition for condition in read if condition is not None))[:MOST]


def _read_condition(text: str) -> Condition | None:
    field, _, rest = text.partition(":")
    word, colon, value = rest.partition(":")
    operator = _FROM_ADDRESS.get(word)
    return Condition(unquote(field), operator, value) if field and operator is not None and colon else None


CATALOG = "catalog"
FILTERS, QUESTIONS = "filters", "questions"
LONGEST = 1000
"""Most characters of a question on pages: fewer than the service's limit, since the address holds them all."""

MODES: Mapping[wire.SearchMode, str] = {
    wire.SearchMode.HYBRID: "Hybrid",
    wire.SearchMode.LEXICAL: "Keywords",
    wire.SearchMode.SEMANTIC: "Meaning",
}

HOW_TO_RERANK = "A reranking model can order results too. Set up its endpoint in the service"

SIZES = (10, 30, 100)
"""Numbers of results: at first, and after each request for more. The last is the service's limit."""

_MOST_PASSAGES = 3

_YES_NO = {"yes": True, "no": False}

Answer = wire.SearchDocumentCatalogResponse | wire.SearchDocumentCollectionResponse


@dataclass(frozen=True)
class SearchQuery:
    """A search, also the cache key. `where` is CATALOG or a collection's id. `reranks` None is the default. `drawn` are
    conditions drawn by the service and kept. `like` is a document's id, searched for instead of `text`."""

    text: str
    where: str = CATALOG
    mode: wire.SearchMode = wire.SearchMode.HYBRID
    only: tuple[Condition, ...] = ()
    draws_filters: bool = False
    extracts_questions: bool = False
    reranks: bool | None = None
    drawn: tuple[Condition, ...] = ()
    is_literal: bool = False
    order: wire.ResultOrder = wire.ResultOrder.RELEVANCE
    like: UUID | None = None

    @classmethod
    def from_address(cls, parameters: Mapping[str, Sequence[str]]) -> "SearchQuery":
        """Return the query in an address. `only`, `drawn` and `read` use all values, other parameters the last."""
        last = {name: values[-1] for name, values in parameters.items() if values}
        mode = _read_as(wire.SearchMode, last.get("by", "").upper()) or wire.SearchMode.HYBRID
        order = _read_as(wire.ResultOrder, last.get("order", "").upper()) or wire.ResultOrder.RELEVANCE
        only, drawn = (from_address(parameters.get(name, ())) for name in ("only", "drawn"))
        text, where, reads = last.get("q", "").replace("\0", " "), last.get("in") or CATALOG, parameters.get("read", ())
        reranks, like = _YES_NO.get(last.get("rerank", "")), _read_as(UUID, last.get("like", ""))
        asked = (text, where, mode, only, FILTERS in reads, QUESTIONS in reads, reranks, drawn)
        return cls(*asked, is_literal="typed" in last, order=order, like=like)

    def address(self) -> dict[str, list[str]]:
        """Return the address parameters for this query, without default values."""
        wanted = {
            "q": [self.text],
            "in": ["" if self.where == CATALOG else self.where],
            "by": ["" if self.mode is wire.SearchMode.HYBRID else self.mode.value.lower()],
            "only": [condition.in_address() for condition in self.only],
            "read": [FILTERS] * self.draws_filters + [QUESTIONS] * self.extracts_questions,
            "drawn": [condition.in_address() for condition in self.drawn],
            "rerank": [word for word, reranks in _YES_NO.items() if reranks is self.reranks],
            "typed": ["yes"] * self.is_literal,
            "order": ["" if self.order is wire.ResultOrder.RELEVANCE else self.order.value.lower()],
            "like": [str(self.like or "")],
        }
        return {name: values for name, values in wanted.items() if any(values)}


def _read_as(read: Callable[[str], T], text: str) -> T | None:
    with suppress(ValueError):
        return read(text)
    return None


def search(question: SearchQuery, kinds: Kinds, *, size: int) -> Answer:
    """Search for at most `size` documents of the catalog, or chunks of a collection with fields of these kinds."""
    conditions = [asked for condition in (*question.only, *question.drawn) for asked in condition.as_filters(kinds)]
    if question.where == CATALOG:
        return api.client().search.search_document_catalog(
            search_query=question.text,
            max_results=size,
            mode=question.mode,
            metadata_filters=conditions,
            enable_reranking=question.reranks,
            literal_query=question.is_literal or None,
            order=None if question.order is wire.ResultOrder.RELEVANCE else question.order,
            passages_per_document=_MOST_PASSAGES,
            group_similar=True,
            count_facets=True,
            similar_to=question.like,
        )
    return api.client().search.search_document_collection(
        document_collection_id=UUID(question.where),
        search_query=question.text,
        max_chunks=size,
        mode=question.mode,
        structured_query_filters=conditions,
        enable_smart_filtering=question.draws_filters or None,
        enable_query_extraction=question.extracts_questions or None,
        enable_reranking=question.reranks,
        literal_query=question.is_literal or None,
    )


Go = Callable[[SearchQuery], None]

_ONLY, _DRAWN, _FIELD, OPEN = "only", "only.drawn", "only.field", "only.open"
_MOST_VALUES = 200


def show_chips(name: str, chips: Mapping[T, str], key: str, keep: Callable[[Sequence[T]], None]) -> None:
    st.session_state[key] = list(chips)
    st.multiselect(
        name,
        list(chips),
        key=key,
        format_func=chips.__getitem__,
        placeholder="None",
        on_change=lambda: keep(st.session_state[key]),
    )


def offer_conditions(question: SearchQuery, collection: DocumentCollection | None, go: Go) -> None:
    """Show a question's removable conditions and a form for a new condition; `go` asks the changed question."""
    kinds = kinds_of(collection)
    if question.only:
        chips = {condition: condition.in_words(kinds) for condition in question.only}
        show_chips("Filters", chips, _ONLY, lambda kept: go(replace(question, only=tuple(kept))))
    full = len(question.only) >= MOST
    with st.popover("Add a filter", icon=":material/filter_alt:", disabled=full, key=OPEN, on_change="rerun") as offer:
        if collection is not None and not kinds:
            show_text("Documents in this collection have no fields to filter by.")
        else:
            collection_id = collection.document_collection_id if collection else None
            _offer(question, kinds, go, collection_id, asks_values=bool(offer.open))


def show_applied(found: Answer, question: SearchQuery, kinds: Kinds, go: Go) -> None:
    """Show the questions and filters read from the text of a search in a collection, with filters to remove by `go`."""
    if not isinstance(found, wire.SearchDocumentCollectionResponse):
        return
    extracted, drawn = found.applied.extraction, found.applied.filtering
    if extracted and extracted.questions != [question.text]:
        st.html(f'<p class="carrel-facts">Searched for: {escape(" · ".join(extracted.questions))}</p>')
    if drawn and drawn.filters and drawn.dropped:
        told = " · ".join(condition_of(item).in_words(kinds) for item in drawn.filters)
        show_warning("The filters in the question match nothing.", f"The search ignored them: {told}.")
    elif conditions := [condition_of(item) for item in drawn.filters] if drawn else list(question.drawn):
        chips = {condition: condition.in_words(kinds) for condition in conditions}
        show_chips(
            "From the question",
            chips,
            _DRAWN,
            lambda kept: go(replace(question, drawn=tuple(kept), draws_filters=False)),
        )
    for note in {applied.note for applied in (extracted, drawn) if applied and applied.note}:
        show_note(note)


def _offer(question: SearchQuery, kinds: Kinds, go: Go, collection_id: UUID | None, *, asks_values: bool) -> None:
    has_schema = collection_id is not None
    field = _ask_field(kinds, has_schema=has_schema)
    kind = kinds.get(field, FieldType.STRING)
    words = OF_TIMES if kind is FieldType.DATETIME else IN_WORDS
    operator = st.selectbox(
        "Condition",
        OFFERED[kind] if has_schema else tuple(IN_WORDS),
        key=f"only.operator.{kind if has_schema else ''}",
        format_func=lambda item: words[item],
    )
    known, is_all = list[str](), True
    is_text = kind in {FieldType.STRING, FieldType.LIST} and operator is not wire.FilterOperator.CONTAINS
    if asks_values and collection_id and is_text:
        known, is_all = show_errors(partial(values_seen, collection_id, field, kind))
    value = _ask_value(kind, known)
    if not is_all:
        show_note("These are the values of the first 1,000 documents. You can enter other values.")
    if not st.button("Filter", key="only.add", type="primary"):
        return
    if field and value:
        go(replace(question, only=tuple(dict.fromkeys((*question.only, Condition(field, operator, value))))))
        st.rerun()
    show_warning("Enter a field and a value.")


def _ask_field(kinds: Kinds, *, has_schema: bool) -> str:
    if has_schema:
        names = list(kinds)
        if st.session_state.get(_FIELD) not in names:
            st.session_state[_FIELD] = names[0]
        return st.selectbox("Field", names, key=_FIELD)
    return st.text_input("Field", key="only.name", max_chars=200, placeholder="For example: team").strip()


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def values_seen(collection_id: UUID, field: str, kind: FieldType) -> tuple[list[str], bool]:
    """Return a field's 200 most frequent short values in the first 1,000 readable documents, and if these are all."""
    page = next(api.client().document_collections.list_documents_in_collection(collection_id, page_size=1000).pages())
    held = [document.custom_metadata.get(field, "") for document in page.documents]
    held = [item for value in held for item in value.split(BETWEEN)] if kind is FieldType.LIST else held
    counted = Counter(value for value in held if 0 < len(value) <= _MOST_VALUES)
    return [value for value, _ in counted.most_common(_MOST_VALUES)], page.next_page_token is None


def _ask_value(kind: FieldType, known: Sequence[str]) -> str:
    key = f"only.value.{kind}"
    match kind:
        case FieldType.BOOLEAN:
            return st.selectbox("Value", list(YES_NO), key=key, format_func=lambda item: YES_NO[item])
        case FieldType.INT | FieldType.DOUBLE:  # browsers drop a comma in a number field: 99,5 becomes 995
            if (value := read_value(kind, written := st.text_input("Value", key=key))) is None and written:
                show_warning(expectation(kind, written))
            return value or ""
        case FieldType.DATETIME:
            day = st.date_input("Day", key=key, value=None)
            return "" if day is None else day.isoformat()
        case FieldType.STRING | FieldType.LIST if known:
            shown = st.selectbox(
                "Value", known, None, key=f"{key}.known", accept_new_options=True, placeholder="Choose or enter a value"
            )
            return (shown or "")[:2000]
        case FieldType.STRING | FieldType.LIST:
            return st.text_input("Value", key=key, max_chars=2000)
