"""The page of loading: runs, started after a plan, and watched; sources; documents that failed to load; schedules."""

import streamlit as st

from app.loading.quarantine import show_quarantine
from app.loading.run_page import show_run_page, show_runs
from app.loading.schedules import show_schedules
from app.loading.sources import show_sources
from app.loading.starting import JOBS
from app.ui.errors import require_admin
from app.ui.filters import choice_filter, part_of
from app.ui.notices import drop_parameters, show_title


def _show_start() -> None:
    job = choice_filter("Action", "job", {key: label for key, (label, _) in JOBS.items()}, default="upload")
    _, show = JOBS[job]
    show()


_PARTS = {  # by part: the address parameters
    "start": ("Start", _show_start, ("job", "collection", "what")),
    "sources": ("Sources", show_sources, ("location",)),
    "runs": ("Runs", show_runs, ("place", "state", "by", "days")),
    "quarantine": ("Failed", show_quarantine, ("source", "find", "show")),
    "schedules": ("Schedules", show_schedules, ("schedule", "from")),
}


def page() -> None:
    require_admin()
    show_title("Ingestion", "Load documents, follow runs, and handle documents that failed to load.")
    if run := st.query_params.get("run"):
        show_run_page(run)
        return
    part = part_of("part", {key: label for key, (label, *_) in _PARTS.items()}, default="start")
    drop_parameters(*(name for other, (*_, names) in _PARTS.items() if other != part for name in names))
    _, show, _ = _PARTS[part]
    show()


page()
