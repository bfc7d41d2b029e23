"""The first page while an organization is new: for admins three first steps, for others what is missing."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

import carrel
from app import api
from app.auth.current import require_person
from app.auth.sessions import digest_of
from app.settings import settings
from app.ui.notices import offer_action, show_empty, show_help, show_link, show_text

_OVER, _GREETS = "welcome.over", "welcome.greets"


@dataclass(frozen=True)
class Step:
    """A first step: what to do and why, whether it is done, and the page to do it on, with its parameters."""

    title: str
    why: str
    done: bool
    action: str
    page: str


def show_welcome() -> None:
    """Show what to begin with, as long as there is something to begin with; errors leave it out."""
    # The service led here, after the person has set a password. The address is to be a bookmark without the greeting.
    if st.session_state.setdefault(_GREETS, st.query_params.pop("welcome", None) is not None):
        _greet()
    if st.session_state.get(_OVER):
        return
    try:
        is_new = _show_steps() if api.me().is_admin else _show_to_reader()
    except carrel.CarrelError:  # it is a help; what was asked for on the page says what is wrong
        return
    st.session_state[_OVER] = not is_new


def _greet() -> None:
    person = require_person()
    with st.container(border=True, key="greeting"):
        st.header("Welcome to Carrel", anchor=False)
        show_text(f"You are signed in to {person.organization_name} as {person.name} ({person.email}).")
        show_text("Search here for what is in the documents that you may read. In Chat, agents answer from them.")
        show_text(f"Next time, open {settings().public_url} and sign in with your new password. Bookmark this address.")
        show_help("How to use the workbench", "workbench")


def _show_steps() -> bool:
    if _mark().exists():
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
                show_link("Or look around with a sample organization first", "ingestion", job="sample")
            offer_action("Don't show this again", _dismiss, key="welcome.dismiss", kind="tertiary")
        show_help("The first hour, step by step", "first-hour")
    return True


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def first_steps() -> list[Step]:
    admin = api.client().admin
    loaded = admin.status.get().document_count > 0
    asked = next(iter(admin.agents.list(page_size=1)), None) is not None
    let_in = admin.users.count(active=True).count > 1
    agent = ("Make an agent", "agents") if api.collections() else ("Make a collection", "collections")
    return [
        Step("Load documents", "drop files, or name a folder or bucket.", loaded, "Load documents", "ingestion"),
        Step(
            "Make a collection and an agent",
            "the agent answers questions from the collection's documents, and quotes them.",
            asked,
            *agent,
        ),
        Step("Let people in", "invite somebody; all find what they may read.", let_in, "Add people", "people"),
    ]


def _mark() -> Path:
    return settings().app_dir / "dismissed" / digest_of(api.me().email)


def _dismiss() -> None:
    st.session_state[_OVER] = True
    with contextlib.suppress(OSError):  # it is gone for this session all the same
        _mark().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _mark().touch()


def _show_to_reader() -> bool:
    if reads_something():
        return False
    show_nothing_to_find()
    return True


def show_nothing_to_find() -> None:
    is_admin = api.me().is_admin
    todo = "Load documents first." if is_admin else "Ask an admin of your organization for access, or add documents."
    show_empty("There is nothing here for you to find yet.", todo)
    show_link(*("Load documents", "ingestion") if is_admin else ("Add a document", "documents"))


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def reads_something() -> bool:
    return next(iter(api.client().catalog.list_documents(page_size=1)), None) is not None
