"""The first page: for admins first steps and cards that need attention, for others new documents and agents."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import streamlit as st

import carrel
from app import api, audit
from app.agents.questions import ERASED
from app.alerts import KINDS, about, place_of
from app.auth.current import require_person
from app.auth.sessions import digest_of
from app.chat.conversations import my_agents
from app.credentials.tokens import all_keys, all_tokens, ends, select_ending_soon
from app.formatting import ago, days_back, escape, isolate, one_line, shorten
from app.loading import runs
from app.settings import settings
from app.ui.errors import FAILURES, note_away, problem_of
from app.ui.notices import LinkedText, offer_action, show_empty, show_help, show_link, show_note, show_text
from carrel.wire.question_log import Outcome
from flows.operations.formatting import count_text
from flows.runs import RunsPage, RunStatus

_OVER, _GREETS = "welcome.over", "welcome.greets"
_RUNS = "ingestion?part=runs"
_FRESH_SECONDS = 30.0
_SHOWN, _MOST, _LOOKED_THROUGH, _LONGEST = 3, 50, 1000, 160
_LOADING = (runs.UPLOAD, "collection-add", "docstore-sync", "quarantine-retry")
_BEGUN = frozenset({"RUNNING", "CANCELLING", "COMPLETED"})
_BLOCKED = frozenset({"listing_empty", "deletion_limit"})
"""The codes of sync runs with blocked deletions."""


@dataclass(frozen=True)
class Answer:
    """The content of a card: a number, links to the first items, and the page for all."""

    count: int
    names: Sequence[LinkedText]
    action: LinkedText
    at_least: bool = False


def _days_ago(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def _find_alerts() -> Answer:
    page = next(api.client().admin.alerts.list(only_open=True, page_size=_MOST).pages())
    names = [LinkedText(f"{KINDS[alert.kind]}: {about(alert)}", place_of(alert)) for alert in page.alerts]
    return Answer(len(names), names, LinkedText("Open alerts", "health"), page.next_page_token is not None)


def _find_failures() -> Answer:
    status = api.client().admin.status.get()
    names, count = list[LinkedText](), 0
    if status.quarantine is not None:
        count = status.quarantine.item_count
        for source in status.quarantine.sources:
            url = f"ingestion?part=quarantine&source={source.source_id}"
            names.append(LinkedText(f"{source.item_count:,} from {runs.source_in_words(source.source)}", url))
    by_words = status.indexing.failed_in_meaning or 0
    parts = (
        (status.syncs.refused_documents, "not loaded by a sync", "syncs"),
        (status.indexing.failed - by_words, "not indexed", "documents?of=all&state=failed"),
        (by_words, "found only by words", "health"),
        (status.indexing.failed_in_collections, "not indexed in collections", "collections"),
    )
    for number, problem, url in parts:
        if number:
            count += number
            names.append(LinkedText(f"{count_text(number, 'document')} {problem}", url))
    return Answer(count, names, LinkedText("Open failed documents", names[0].address if names else "ingestion"))


@st.cache_data(ttl=_FRESH_SECONDS, show_spinner=False, scope="session")
def _runs_of_late(*flows: str, days: int, states: Sequence[str] = ()) -> RunsPage:
    return runs.server().page(size=2 * _MOST, flows=flows, states=states, after=_days_ago(days))


def _find_blocked_deletions() -> Answer:
    """Return deletions that wait for a person: syncs, and the newest whole upload of each source in the last week."""
    page = next(api.client().document_collections.docstore.list_docstore_syncs(page_size=_LOOKED_THROUGH).pages())
    syncs = [sync for sync in page.docstore_syncs if sync.warning is not None and sync.warning.code in _BLOCKED]
    links = [LinkedText(item.config.sync_name, f"syncs?sync={item.docstore_credential_id}") for item in syncs]
    uploads = _runs_of_late(runs.UPLOAD, days=7, states=("COMPLETED",))
    newest: dict[str, RunStatus] = {}
    for run in uploads.runs:
        if not run.only_plans and not run.skipped:
            newest.setdefault(run.source, run)
    links += [_link_to(run) for run in newest.values() if run.counts.held_back]
    is_more = page.next_page_token is not None or uploads.total > len(uploads.runs)
    return Answer(len(links), links, LinkedText("Open the first", links[0].address if links else _RUNS), is_more)


def _link_to(run: RunStatus, *facts: str) -> LinkedText:
    return LinkedText(" · ".join((runs.title_of(run), *facts)), f"ingestion?run={run.flow_run_id}")


def _find_unanswered() -> Answer:
    """Return the last week's questions without a reply, or with a reply without citations."""
    log, url = api.client().admin.question_log, "agents?show=questions"
    outcomes = (Outcome.UNANSWERED, Outcome.FAILED)
    pages = [next(log.query(outcome=outcome, from_=_days_ago(7), page_size=_MOST).pages()) for outcome in outcomes]
    newest = sorted((question for page in pages for question in page.questions), key=lambda item: item.at, reverse=True)
    names = [LinkedText(item.message or ERASED, f"{url}&question={item.message_id}") for item in newest]
    action = LinkedText("Open questions", f"{url}&over=week{'&list=unanswered' if pages[0].questions else ''}")
    return Answer(len(names), names, action, any(page.next_page_token is not None for page in pages))


def _find_expiring() -> Answer:
    tokens, keys = select_ending_soon(all_tokens()), select_ending_soon(all_keys())
    provisioning = select_ending_soon(islice(api.client().admin.scim_tokens.list(page_size=100), 100))
    listed = [
        *((token, f"service_accounts?account={token.service_account_id}&token={token.token_id}") for token in tokens),
        *((key, f"api_keys?key={key.api_key_id}") for key in keys),
        *((item, f"provisioning?token={item.token_id}") for item in provisioning),
    ]
    names = [LinkedText(f"{item.name}, {ends(item.expires_at)}", url) for item, url in listed]
    return Answer(len(names), names, LinkedText("Open the first credential", names[0].address if names else "api_keys"))


def _find_loaded() -> Answer:
    """Return runs that load or loaded documents, without dry runs and runs that ended before sending."""
    page = _runs_of_late(*_LOADING, days=1)
    loading = [run for run in page.runs if run.state in _BEGUN or run.figures.get("sent")]
    names = [_link_to(run, runs.state_in_words(run)) for run in loading if not run.only_plans and not run.skipped]
    return Answer(len(names), names, LinkedText("Open runs", _RUNS), page.total > len(page.runs))


def _find_new_access() -> Answer:
    """Return the last week's changes with more access for a person, group or service account."""
    query, since = api.client().admin.audit_log.query, days_back(7)
    page = next(query(actions=audit.WIDENING, from_=since, page_size=_LOOKED_THROUGH).pages())
    listed = list(filter(audit.widens, page.entries))
    names = audit.Names().of(api.client(), audit.ids_in(listed[:_SHOWN]))
    links = [
        LinkedText(f"{audit.sentence(item, names)}, {ago(item.at)}", f"audit_log?entry={item.audit_log_id}")
        for item in listed[:_SHOWN]
    ]
    url = f"audit_log?action={audit.WIDENED}&files=each&from={since:%Y-%m-%d}"
    return Answer(len(listed), links, LinkedText("Open audit log", url), page.next_page_token is not None)


CARDS: Mapping[str, tuple[str, Callable[[], Answer]]] = {
    "Open alerts": ("No open alerts.", _find_alerts),
    "Failed documents": ("Every document was loaded and indexed.", _find_failures),
    "Blocked deletions": ("No deletions wait for your approval.", _find_blocked_deletions),
    "Questions without an answer": ("No unanswered questions in the last seven days.", _find_unanswered),
    "Expiring credentials": ("No token or key expires within 14 days.", _find_expiring),
    "Loading runs in the last 24 hours": ("Nothing was loaded.", _find_loaded),
    "New access in the last seven days": ("No new access.", _find_new_access),
}
"""The title of each card, the text when empty, and the function."""
_NEWS = {_find_loaded, _find_new_access}


def _show_cards() -> None:
    st.header("Today", anchor=False)
    with st.container(key="home", horizontal=True, gap="small"):
        for title, (nothing, ask) in CARDS.items():
            _show_card(title, nothing, ask)


@st.fragment(parallel=True)
def _show_card(title: str, nothing: str, ask: Callable[[], Answer]) -> None:
    """Show a card, read in parallel with all other cards. Until then the previous content stays."""
    cards: dict[str, tuple[float, str]] = st.session_state.setdefault("home.cards", {})
    read_at, body = cards.get(title, (0.0, _OUTLINE))
    place = st.empty()

    def show(body: str) -> None:
        place.html(f'<section class="carrel-card"><h3>{escape(title)}</h3>{body}</section>')

    show(body)
    if read_at and time.monotonic() - read_at < _FRESH_SECONDS:
        return
    try:
        answer = ask()
    except FAILURES as error:  # the other cards stay
        cards.pop(title, None)
        note_away(error)
        problem = problem_of(error)
        text = escape(" ".join((problem.message, *problem.notes)))
        show(f'<p role="status">This can\'t be read now. {text}</p>')
        return
    none = f"None in the newest entries. {answer.action.body}" if answer.at_least else escape(nothing)
    body = _card_html(answer, is_trouble=ask not in _NEWS) if answer.count else f"<p>{none}</p>"
    cards[title] = (time.monotonic(), body)
    show(body)


_OUTLINE = '<div class="carrel-skeleton" aria-hidden="true"><span></span><span></span></div>'


def _card_html(answer: Answer, *, is_trouble: bool) -> str:
    number = f"{answer.count:,}{'+' if answer.at_least else ''}"
    names = "".join(f"<li>{_link_html(name)}</li>" for name in answer.names[:_SHOWN])
    mark = " carrel-is-trouble" if is_trouble else ""
    return f'<p class="carrel-number-of{mark}">{number}</p><ul>{names}</ul><p>{answer.action.body}</p>'


def _show_reader_home() -> None:
    documents = next(api.client().catalog.list_documents(contained=False, page_size=6).pages()).documents
    left, right = st.columns(2, gap="large")
    with left:
        st.header("Newest documents", anchor=False)
        _show_links(
            (LinkedText(document.document_name, f"documents?document={document.document_id}"), ago(document.created_at))
            for document in documents
        )
    with right:
        st.header("Your agents", anchor=False)
        agents = my_agents()[:6]
        _show_links((LinkedText(agent.name, f"chat?agent={agent.agent_id}"), agent.description) for agent in agents)
        if not agents:
            show_note("You cannot use any agent yet. Ask an admin for access to an agent.")


def _show_links(rows: Iterable[tuple[LinkedText, str]]) -> None:
    listed = "".join(f"<li>{_link_html(link)} <small>{isolate(one_line(fact))}</small></li>" for link, fact in rows)
    st.html(f'<ul class="carrel-links">{listed}</ul>')


def _link_html(link: LinkedText) -> str:
    return LinkedText(shorten(one_line(link.text), _LONGEST), link.address).body


@dataclass(frozen=True)
class Step:
    """A first step: task, reason, whether it is done, and the page with parameters."""

    title: str
    why: str
    done: bool
    action: str
    page: str


def show_home() -> None:
    """Show the first steps, or else the home of an admin or a reader. After an error the first steps are left out."""
    # The service leads here after the person has set a password. The address, a future bookmark, loses the greeting.
    if st.session_state.setdefault(_GREETS, st.query_params.pop("welcome", None) is not None):
        _greet()
    has_more = True
    with contextlib.suppress(carrel.CarrelError):
        if not st.session_state.get(_OVER):
            st.session_state[_OVER] = not (_show_steps() if api.me().is_admin else _show_to_reader())
        has_more = st.session_state[_OVER] or (api.me().is_admin and first_steps()[0].done)
    if not has_more:
        return
    try:
        (_show_cards if api.me().is_admin else _show_reader_home)()
    except carrel.CarrelError as error:
        problem_of(error).show()


def _greet() -> None:
    person = require_person()
    with st.container(border=True, key="greeting"):
        st.header("Welcome to Carrel", anchor=False)
        show_text(f"You are signed in to {person.organization_name} as {person.name} ({person.email}).")
        show_text("Search the contents of documents that you can read. In Chat, agents answer from these documents.")
        show_text(f"Next time, open {settings().public_url} and sign in with your new password. Bookmark this page.")
        show_help("How to use the workbench", "workbench")


def _show_steps() -> bool:
    if _dismissed_mark().exists():
        return False
    steps = first_steps()
    if all(step.done for step in steps):
        return False
    with st.container(border=True, key="welcome"):
        st.header("Welcome: three first steps", anchor=False)
        for number, step in enumerate(steps, 1):
            left, right = st.columns((4, 1), vertical_alignment="center")
            with left:
                show_text(f"✓ Done: {step.title}" if step.done else f"{number}. {step.title}: {step.why}")
            with right:
                if not step.done:
                    show_link(step.action, step.page)
        with st.container(horizontal=True, vertical_alignment="center"):
            if not steps[0].done:
                show_link("Or try a sample organization first", "ingestion", job="sample")
            offer_action("Don't show this again", _dismiss, key="welcome.dismiss", kind="tertiary")
        show_help("The first hour, step by step", "first-hour")
    return True


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def first_steps() -> list[Step]:
    admin = api.client().admin
    loaded = next(iter(api.client().catalog.list_documents(page_size=1)), None) is not None
    has_agent = next(iter(admin.agents.list(page_size=1)), None) is not None
    let_in = admin.users.count(active=True).count > 1
    agent = ("Create an agent", "agents") if api.collections() else ("Create a collection", "collections")
    return [
        Step("Load documents", "upload files, or enter a folder or bucket.", loaded, "Load documents", "ingestion"),
        Step(
            "Create a collection and an agent",
            "an agent answers questions from the collection's documents, and quotes them.",
            has_agent,
            *agent,
        ),
        Step("Invite people", "they find the documents that they can read.", let_in, "Add people", "people"),
    ]


def _dismissed_mark() -> Path:
    return settings().app_dir / "dismissed" / digest_of(api.me().email)


def _dismiss() -> None:
    st.session_state[_OVER] = True
    with contextlib.suppress(OSError):  # the hint is hidden for this session in any case
        _dismissed_mark().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _dismissed_mark().touch()


def _show_to_reader() -> bool:
    if has_documents():
        return False
    show_nothing_to_find()
    return True


def show_nothing_to_find() -> None:
    is_admin = api.me().is_admin
    todo = "Load documents first." if is_admin else "Ask an admin of your organization for access, or add documents."
    show_empty("There are no documents that you can read yet.", todo)
    show_link(*("Load documents", "ingestion") if is_admin else ("Add a document", "documents"))


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def has_documents() -> bool:
    return next(iter(api.client().catalog.list_documents(page_size=1)), None) is not None
