"""The sources that runs have reported to the service: read, labeled, and one of them chosen."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import moment, one_line
from app.loading.labels import is_of_dropped_files, source_in_words
from app.ui.errors import show_errors
from app.ui.filters import choice_filter, text_filter
from app.ui.notices import show_empty, show_text, show_warning
from carrel.wire.sources import Source

ADDRESS = "source"
MANY = 20
"""From more sources on, there is a field that narrows them down."""
MOST = 200
"""The most sources to choose from at once."""
_PAGE = 1000


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def read_sources() -> list[Source]:
    """Return all sources; those of which something was not loaded first, then those of which something is ignored."""
    found = api.client().sources.list_sources(page_size=_PAGE)
    return sorted(found, key=lambda one: (not one.item_count, not one.ignored_count, one.source.lower()))


def choose_source(found: Sequence[Source]) -> Source | None:
    """Show a choice of sources, and return the chosen one, which the address names; None when none of them fits."""
    known = {str(one.source_id): one for one in found}
    asked = _find_asked(known)
    if asked and asked not in known:
        show_warning("The address names a source that isn't there.", "Choose here instead.")
    labels = _narrow(label_sources(found))
    if not labels:
        show_empty("No source has this in its name.", "Try fewer letters.")
        return None
    options = dict(islice(labels.items(), MOST))
    if asked in labels:
        options[asked] = labels[asked]
    # What is chosen stays so when the order changes, or a label.
    chosen = choice_filter("Source", ADDRESS, options, default=asked if asked in options else next(iter(options)))
    if len(labels) > len(options):
        show_text(f"{len(labels):,} sources fit: type more of the name to narrow them down.")
    if st.query_params.get(ADDRESS) != chosen:
        st.query_params[ADDRESS] = chosen
    return known[chosen]


def label_sources(found: Sequence[Source]) -> dict[str, str]:
    """Return a unique label of each source by its id; who reports it is named where several report the same."""
    names = collection_names() if any(one.document_collection_id for one in found) else {}
    labels = {str(one.source_id): _label(one, names) for one in found}
    labels = _disambiguate(labels, found, lambda one: f"reported by {one.reported_by.email}")
    return _disambiguate(labels, found, lambda one: one.ledger)


def collection_names() -> dict[UUID, str]:
    """Return the names of the collections by their ids."""
    return {one.document_collection_id: one.collection_name for one in show_errors(api.collections)}


def purpose_in_words(source: Source, names: Mapping[UUID, str]) -> str:
    """Return what is done with the documents of a source; `names` are those of collections."""
    if source.document_collection_id is None:
        return "uploaded"
    return f"added to {one_line(names.get(source.document_collection_id, 'a collection'))}"


def _find_asked(known: Mapping[str, Source]) -> str:
    """Return the id of the source that the address names by it, or by its ledger as older addresses do."""
    asked = st.query_params.get(ADDRESS, "")
    found = next((key for key, one in known.items() if one.ledger == asked), None)
    if found is not None:
        st.query_params[ADDRESS] = found
    return found or asked


def _narrow(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) <= MANY:
        return labels
    part = text_filter("Find a source", "find", placeholder="A part of its path or address").lower()
    return {key: label for key, label in labels.items() if part in label.lower()}


def _label(source: Source, names: Mapping[UUID, str]) -> str:
    at = f", {moment(source.reported_at)}" if is_of_dropped_files(source.source) else ""
    return f"{one_line(source_in_words(source.source))}{at} · {purpose_in_words(source, names)}"


def _disambiguate(
    labels: Mapping[str, str], found: Sequence[Source], detail: Callable[[Source], str]
) -> dict[str, str]:
    """Return the labels, with the detail added to those that read alike."""
    counts = Counter(labels.values())
    known = {str(one.source_id): one for one in found}
    return {
        key: label if counts[label] == 1 else f"{label} · {one_line(detail(known[key]))}"
        for key, label in labels.items()
    }
