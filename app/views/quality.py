"""The Quality page: the worst queries, searches over time, judging results, and evaluation sets with their runs."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import sub

import streamlit as st

from app import api
from app.agents.definitions import models
from app.formatting import browser_zone
from app.quality import searches
from app.quality.set_page import show_set
from app.quality.sets import SET, list_sets, show_judging
from app.search.queries import HOW_TO_RERANK
from app.ui.dialogs import confirm
from app.ui.errors import require_admin, show_errors
from app.ui.filters import choice_filter, part_of
from app.ui.notices import show_empty, show_help, show_note, show_text, show_title
from app.ui.progress import offer_export

# Blue and orange look different to people with any colour vision, in both themes.
BLUE, ORANGE = "#2f7fb8", "#d9730d"

_COUNTED = {
    "Searches": "searches",
    "Without results": "without_results",
    "Thumbs up": "thumbs_up",
    "Thumbs down": "thumbs_down",
}


def _show_overview() -> None:
    chosen = choice_filter("Period", "over", {key: span.name for key, span in searches.SPANS.items()}, default="month")
    buckets = show_errors(lambda: searches.count_searches(searches.SPANS[chosen]))
    counts = {label: [getattr(bucket, member) for bucket in buckets] for label, member in _COUNTED.items()}
    total = sum(counts["Searches"])
    for column, (label, counted) in zip(st.columns(len(counts)), counts.items(), strict=True):
        number = sum(counted)
        column.metric(label, searches.share(number, total) if label == "Without results" else f"{number:,}")
    if total:
        show_note(
            "Searches without results found nothing, because no document that the person can read contains "
            "the words or matches the filters. A search by meaning always finds something, so use thumbs "
            "down to judge it. A search counts its newest thumb, also on a result."
        )
        _show_charts([item.from_ for item in buckets], counts)
    else:
        show_empty("No searches in this period.", "Choose a longer period.")
        searches.show_link_to_replies()
    offer_models()


def offer_models() -> None:
    """Show switches for reranking and reading by models in all searches, if the service has models."""
    st.subheader("Search models", anchor=False)
    organization, update = show_errors(api.client().admin.organization.get), api.client().admin.organization.update
    if api.me().reranks_by_default is None:
        show_help(HOW_TO_RERANK, "running#reranking")
    else:
        offer_switch(
            "Rerank searches of agents, and searches that do not choose",
            "Queries and results are sent to the reranking endpoint. Each search waits for it.",
            is_on=organization.enable_reranking,
            keep=lambda is_on: update(enable_reranking=is_on, version=organization.version),
        )
    if len(show_errors(models)) > 1:  # the last is the built-in model, which reads no queries
        offer_switch(
            "Let the language model read filters and questions from searches",
            "Queries are sent to the language model. Each search waits for it.",
            is_on=organization.enable_query_model,
            keep=lambda is_on: update(enable_query_model=is_on, version=organization.version),
        )


def offer_switch(label: str, warning: str, *, is_on: bool, keep: Callable[[bool], object]) -> None:
    """Show a setting of the organization as a switch; the change is saved after confirmation."""
    chosen = st.toggle(label, is_on, key=label)
    if chosen is not is_on and st.button("Save", key=f"{label}.save", type="primary"):
        said = warning if chosen else "Only searches that ask for it are still sent."
        confirm("Change this for everyone?", said, action=lambda: keep(chosen), then=api.me.clear)


def _show_charts(begins: Sequence[datetime], counts: Mapping[str, Sequence[int]]) -> None:
    whole, without, ups, downs = counts.values()
    zone = browser_zone()
    at = [begin.astimezone(zone).replace(tzinfo=None) for begin in begins]
    found = {"With results": list(map(sub, whole, without)), "Without results": without}
    draw("Searches", at, found, alt="Searches with and without results")
    if any(ups) or any(downs):
        thumbs = {"Thumbs up": ups, "Thumbs down": downs}
        draw("Feedback", at, thumbs, alt="Searches with thumbs up and down")
    else:
        show_text("No feedback on searches in this period.")
    searches.show_link_to_replies()
    show_text(f"Each bar starts at midnight in {zone}; the first bar on {at[0]:%d %b %Y}.")
    rows = [[f"{day:%d %b %Y}", *map(str, row)] for day, *row in zip(at, *counts.values(), strict=True)]
    heads = (f"From, in {zone}", *counts)
    offer_export("searches-over-time.csv", heads, [rows], about=tuple(map(tuple, rows)))


def draw(title: str, at: Sequence[datetime], counted: Mapping[str, Sequence[int]], *, alt: str) -> None:
    """Draw two counts of searches in a chart; `alt` describes the chart for people who can't see it."""
    st.header(title, anchor=False)
    st.bar_chart(  # pyright: ignore[reportUnknownMemberType] - pandas has no types for all it takes
        {"From": at, **counted},
        x="From",
        x_label="Time",
        y=list(counted),
        color=[BLUE, ORANGE],
        y_label="Searches",
        height=240,
        alt=f"{alt}, over time.",
    )


_PARTS = {
    "worst": ("Worst first", searches.list_worst),
    "overview": ("Over time", _show_overview),
    "without": ("Without results", searches.list_without_results),
    "down": ("Thumbs down", searches.list_thumbs_down),
    "judge": ("Judge", show_judging),
    "sets": ("Evaluation sets", list_sets),
}


def page() -> None:
    require_admin()
    show_title("Quality", "How well searches and agents answer, and what to improve.")
    if (search := st.query_params.get("search")) is not None:
        searches.show_replay(search)
        return
    part = part_of("part", {key: label for key, (label, _) in _PARTS.items()}, default="worst")
    if part == "sets" and (set_id := st.query_params.get(SET)) is not None:
        show_set(set_id)
        return
    _, show = _PARTS[part]
    show()


page()
