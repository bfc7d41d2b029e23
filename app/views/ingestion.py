"""The page of loading: runs, started after a plan, and watched; sources; documents that failed to load; schedules."""

import streamlit as st

from app.loading.quarantine import show_quarantine
from app.loading.run_page import show_run_page, show_runs
from app.loading.schedules import show_schedules
from app.loading.sources import show_sources
from app.loading.starting import offer_addition, offer_indexing, offer_sample, offer_upload
from app.ui.errors import require_admin
from app.ui.filters import choice_filter, part_of
from app.ui.notices import show_title

PARTS = {"start": "Start", "sources": "Sources", "runs": "Runs", "quarantine": "Failed", "schedules": "Schedules"}
ONLY_ON = {
    "quarantine": ("source", "find", "show"),
    "sources": ("location",),
    "runs": ("place", "state", "by", "days"),
    "start": ("job", "collection", "what"),
    "schedules": ("schedule", "from"),
}
"""Address parameters used by a single part."""
JOBS = {"upload": "Load documents", "addition": "Add to a collection", "indexing": "Re-index", "sample": "Sample"}


def page() -> None:
    require_admin()
    show_title("Ingestion", "Load documents, follow runs, and handle documents that failed to load.")
    if run := st.query_params.get("run"):
        show_run_page(run)
        return
    part = part_of("part", PARTS, default="start")
    for name in [name for other, names in ONLY_ON.items() if other != part for name in names]:
        st.query_params.pop(name, None)
    if part == "sources":
        show_sources()
    elif part == "runs":
        show_runs()
    elif part == "quarantine":
        show_quarantine()
    elif part == "schedules":
        show_schedules()
    else:
        job = choice_filter("Action", "job", JOBS, default="upload")
        if job == "upload":
            offer_upload()
        elif job == "addition":
            offer_addition()
        elif job == "indexing":
            offer_indexing()
        else:
            offer_sample()


page()
