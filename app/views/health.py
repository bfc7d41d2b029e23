"""The Health page: working parts, running work, and problems."""

import html
from collections.abc import Mapping, Sequence
from datetime import datetime

import streamlit as st

from app.alerts import show_alerts
from app.documentation import HELP
from app.formatting import browser_zone
from app.health import Finding, ask_service, check_credentials, check_flows, check_questions, findings_of, troubles
from app.ui.errors import require_admin, show_errors
from app.ui.notices import link_to_help, show_title
from flows.operations.formatting import count_text

REFRESH_SECONDS = 5.0


@st.fragment(run_every=REFRESH_SECONDS)
def watch() -> None:
    """Read and show the state of all parts. Refreshes while the page is open."""
    status = show_errors(ask_service)
    numbers: Mapping[str, int] = {}
    if isinstance(status, Finding):
        found = [status]
    else:
        found = [*findings_of(status), *filter(None, (check_credentials(), check_questions()))]
        counts = (status.document_count, status.collection_count, status.chunk_count)
        numbers = dict(zip(("Documents", "Collections", "Passages"), counts, strict=True))
    found.append(check_flows())
    st.html(_summary(found))
    for column, (label, number) in zip(st.columns(3), numbers.items(), strict=False):
        column.metric(label, f"{number:,}")
    st.html(f'<div class="carrel-health">{"".join(_card(finding) for finding in found)}</div>')
    st.html(f'<p class="carrel-facts">As of {datetime.now(browser_zone()):%T %Z}. This page refreshes itself.</p>')


def _summary(found: Sequence[Finding]) -> str:
    count = troubles(found)
    said = f"{count_text(count, 'finding needs', 'findings need')} attention." if count else "All systems operational."
    kind = "warning" if count else "fine"
    return f'<div class="carrel-notice carrel-{kind}" role="status"><p>{said}</p></div>'


def _card(finding: Finding) -> str:
    todo = f"<p>{html.escape(finding.todo)}</p>" if finding.todo else ""
    way = ""
    if see := finding.see:
        way = f"<p>{link_to_help(see.text, see.address) if see.address.startswith(HELP) else see.body}</p>"
    return (
        f'<section class="carrel-is-{finding.level.name.lower()}"><h2>{html.escape(finding.about)}</h2>'
        f'<p class="carrel-level">{finding.level}</p><div><p>{html.escape(finding.said)}</p>{todo}{way}</div></section>'
    )


def page() -> None:
    require_admin()
    show_title("Health", "What works, what is running, and what needs attention.")
    watch()
    show_alerts()


page()
