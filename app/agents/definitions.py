"""An agent's settings and access, a test of the agent, and the history of its settings, with restoring."""

import difflib
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice

import streamlit as st

import carrel
from app import api
from app.auth.current import person_client
from app.chat.conversations import message_html, reply_html
from app.formatting import moment, one_line
from app.labels import GROUP, label_of
from app.lookup import Principal, Resource, by_id
from app.people.directory import counts_of
from app.permissions.panel import show_access
from app.ui.dialogs import confirm, text_in
from app.ui.errors import Problem, keep_problem, problem_of, show_errors, show_kept_problem
from app.ui.notices import show_empty, show_note, show_text, show_warning
from app.ui.saving import ConflictError, in_words, keep_opened, key_of, reset_fields, send_changes, show_conflict
from app.ui.tables import forget
from carrel import Reply
from carrel.drafts import lend_draft, may_ask
from carrel.wire.agents import BUILT_IN_MODEL, AgentDefinition, AgentSettings, AgentVersion, RetrievalOptions
from carrel.wire.common import ResourceType

DEFAULT_MODEL = ""
"""Stands for the service's default model."""
INSTRUCTIONS_IGNORED = f"The built-in model, {BUILT_IN_MODEL}, only quotes documents. It ignores instructions."
MOST_LOOKED_AT = 10
"""Most people checked for access to the agent's collections."""
MOST_STARTERS = 6
_MANY = 1000


def find_agent(address: str) -> AgentDefinition | None:
    return by_id(api.client().admin.agents.list, address)


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def models() -> list[str]:
    """Return the models available to an agent, the service's default first."""
    return next(api.client().admin.agents.list(page_size=1).pages()).models


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def all_collections() -> dict[str, str]:
    """Return the names of the organization's collections by id, at most 1,000. An agent may use any collection."""
    listed = api.client().admin.access.list_resources
    found = next(listed(resource_types=[ResourceType.DOCUMENT_COLLECTION], page_size=_MANY).pages()).resources
    names = {str(item.object_id): one_line(item.name or "") for item in found}
    return dict(sorted(names.items(), key=lambda pair: pair[1].lower()))


_PROBLEM = "agent.problem"
_INSTRUCTING = "What the model is told before every conversation. A model may repeat it, so enter no secrets."
_SEARCHES = (
    "People who can use the agent see its answer above the results of a search that is a question. Other "
    "searches show a button. Each answer calls the model and starts a conversation."
)
_PATIENCE = 120.0
_READS = {
    "enable_smart_filtering": "Read filters from the message, such as “finance reports since March 2025”",
    "enable_query_extraction": "Look up each question of a long message separately",
}
_RERANKS = {None: "Organization's default", True: "Always", False: "Never"}


def show_definition(agent: AgentDefinition) -> None:
    """Show an agent's settings in a form. Changes apply from the next message."""
    names = show_errors(all_collections)
    known = [str(collection_id) for collection_id in agent.collection_ids if str(collection_id) in names]
    form = _key(agent, "form")
    seen = keep_opened(form, agent, field=_key(agent, "name"))
    with st.form(form, border=False):
        st.text_input("Name", agent.name, key=_key(agent, "name"), max_chars=200)
        for part, text, most, height, said in (
            ("description", agent.description, 10_000, 90, "Purpose of the agent. People see this text."),
            ("instructions", agent.instructions, 20_000, 160, _INSTRUCTING),
        ):
            st.text_area(part.capitalize(), text, key=_key(agent, part), max_chars=most, height=height, help=said)
        offered = show_errors(models)
        default = f"Default of the service (currently {offered[0]})" if offered else "Default of the service"
        options = list(dict.fromkeys([DEFAULT_MODEL, *offered, *([agent.model] if agent.model else [])]))
        st.selectbox(
            "Model",
            options,
            index=options.index(agent.model or DEFAULT_MODEL),
            key=_key(agent, "model"),
            format_func=lambda model: default if model == DEFAULT_MODEL else model,
        )
        if BUILT_IN_MODEL in {agent.model, *([] if agent.model else offered[:1])}:
            show_note(INSTRUCTIONS_IGNORED)
        st.multiselect(
            "Collections",
            list(names),
            known,
            key=_key(agent, "collections"),
            format_func=lambda item: names[item],
            placeholder="Choose collections" if names else "You cannot search any collection",
            max_selections=100,
        )
        st.text_area(
            "Starter questions",
            "\n".join(agent.starter_questions),
            key=_key(agent, "starters"),
            height=90,
            help=f"One question per line, at most {MOST_STARTERS}. Chat offers them at the start of a conversation.",
        )
        st.checkbox(
            "Open to programs (API keys and service accounts)", agent.api_access_enabled, key=_key(agent, "api")
        )
        st.checkbox("Answer on the Search page", agent.answers_searches, key=_key(agent, "searches"), help=_SEARCHES)
        _show_retrieval(agent)
        show_conflict(form, names)
        st.form_submit_button("Save", type="primary", on_click=_save_settings, args=(seen,))
    show_kept_problem(_PROBLEM)
    if not known:
        show_warning("This agent has no collections, so it finds nothing.", "Choose a collection above.")


def _show_retrieval(agent: AgentDefinition) -> None:
    """Show an agent's retrieval fields. Without a choice the organization's setting decides about reranking."""
    for part, label in _READS.items():
        st.checkbox(label, bool(getattr(agent.retrieval, part)), key=_key(agent, part))
    if api.me().reranks_by_default is None and agent.retrieval.enable_reranking is None:
        return  # no endpoint can do this
    st.selectbox(
        "Reranking",
        list(_RERANKS),
        index=list(_RERANKS).index(agent.retrieval.enable_reranking),
        key=_key(agent, "enable_reranking"),
        format_func=_RERANKS.__getitem__,
    )


def _key(agent: AgentDefinition, part: str) -> str:
    return key_of(f"agent.{agent.agent_id}", part)


def _save_settings(seen: AgentDefinition) -> None:
    state = st.session_state
    written = {
        **{part: state[_key(seen, part)] for part in ("description", "instructions")},
        "name": text_in(_key(seen, "name")),
        "model": state[_key(seen, "model")] or None,
        "collection_ids": tuple(state[_key(seen, "collections")]),
        "api_access_enabled": state[_key(seen, "api")],
        "starter_questions": [line for each in state[_key(seen, "starters")].splitlines() if (line := each.strip())],
        "answers_searches": state[_key(seen, "searches")],
        "retrieval": RetrievalOptions(
            **{part: state[_key(seen, part)] or None for part in _READS},
            enable_reranking=state.get(_key(seen, "enable_reranking")),
        ),
    }
    if not written["name"]:
        state[_PROBLEM] = Problem("Enter a name for the agent.")
        return
    with keep_problem(_PROBLEM, ConflictError):
        send_changes(_key(seen, "form"), seen, written, partial(api.client().admin.agents.update, seen.agent_id))
        reset_fields(f"agent.{seen.agent_id}")
        forget("agents")
        st.toast("Saved. Changes apply from the next message.")


def show_deployment(agent: AgentDefinition) -> None:
    """Show the people and groups with access to an agent, and offer to change them."""
    show_text(
        "An agent answers each person only from collections that this person can search, and from documents there that "
        "this person can read. Access to the agent gives no access to them."
    )
    resource = Resource(ResourceType.AGENT, str(agent.agent_id), agent.name, agent.agent_id)
    show_access(resource, warn=partial(_warn_without_sources, agent))


def _warn_without_sources(agent: AgentDefinition, users: Iterable[Principal]) -> None:
    """Name the people and groups, of the first ten, that can search none of the agent's collections."""
    if not (ids := agent.collection_ids):
        return
    # Collections that are open to everyone do not count for groups.
    is_open = show_errors(lambda: counts_of(object_ids=ids, organization_wide=True).total)
    looked_at = [principal for principal in islice(users, MOST_LOOKED_AT) if not is_open or principal.kind != GROUP]
    if lacking := show_errors(
        lambda: [principal for principal in looked_at if not counts_of(object_ids=ids, readable_by=principal).total]
    ):
        show_warning(
            "These people and groups cannot search any of its collections, so the agent cannot answer them.",
            f"Give them access to a collection: {'; '.join(principal.label for principal in lacking)}.",
        )


def show_trial(agent: AgentDefinition) -> None:
    """Show a field for a question to an agent, and the last question in the session with its reply."""
    with st.form("try", border=False):
        question = st.text_area("Question", key="try.question", max_chars=20_000, height=90)
        asked = st.form_submit_button("Ask", type="primary")
    show_text("The agent answers from documents that you can read. The conversation also appears under Chat.")
    if not show_errors(lambda: may_ask(person_client(), agent.agent_id)):
        show_text("You have no access to this agent. You get access while it answers; no other access changes.")
    if asked and question.strip():
        _ask_agent(agent, question.strip())
    said: tuple[str, str, Reply] | None = st.session_state.get("try.said")
    if said is not None and said[0] == str(agent.agent_id):
        _, words, reply = said
        st.html(message_html(words))
        st.html(reply_html(reply.text, reply.sources, message_id=reply.message_id))
        if reply.warnings:
            show_warning(*reply.warnings)


def _ask_agent(agent: AgentDefinition, question: str) -> None:
    """Ask an agent, with access lent if needed, and keep the reply in the session, or show the error."""
    st.session_state.pop("try.said", None)
    with st.spinner("Thinking …"):
        try:
            with lend_draft(api.client(), agent.agent_id, email=api.me().email):
                reply = person_client().agents.send_and_wait(agent.agent_id, question, timeout=_PATIENCE)
        except carrel.CarrelError as error:
            problem_of(error).show()
            return
    st.session_state["try.said"] = (str(agent.agent_id), question, reply)


def show_versions(agent: AgentDefinition) -> None:
    kept = show_errors(lambda: list(api.client().admin.agents.list_versions(agent.agent_id)))
    earlier = [version for version in kept if version.version != agent.version]
    if not earlier:
        show_empty("No earlier settings.", "Each save keeps the settings. The newest 50 appear here.")
        return
    chosen = st.selectbox("Settings of", earlier, format_func=_when, key=f"agent.{agent.agent_id}.earlier")
    names = show_errors(all_collections)
    changes = _diff_lines(chosen, agent, names)
    show_text("Restoring these settings removes (-) and adds (+):")
    st.code("\n".join(changes), language="diff", wrap_lines=True)
    gone = [str(collection_id) for collection_id in chosen.collection_ids if str(collection_id) not in names]
    if gone:
        show_warning(f"Deleted collections are not restored: {len(gone)}.")
    if st.button("Restore …", key="restore", icon=":material/restore:"):
        said = f"{agent.name} uses the settings of {_when(chosen)} from the next message. The current settings stay."
        confirm("Restore these settings?", said, action=partial(_restore_settings, agent, chosen, gone))


def _restore_settings(agent: AgentDefinition, chosen: AgentVersion, gone: list[str]) -> None:
    settings = {name: getattr(chosen, name) for name in chosen.edited}
    settings["collection_ids"] = [item for item in chosen.collection_ids if str(item) not in gone]
    settings["retrieval"] = RetrievalOptions.model_validate_json(chosen.retrieval.model_dump_json(exclude_none=True))
    api.client().admin.agents.update(agent.agent_id, **settings, version=agent.version)
    reset_fields(f"agent.{agent.agent_id}")
    forget("agents")


def _when(version: AgentVersion) -> str:
    by = f", saved by {one_line(version.saved_by)}" if version.saved_by else ""
    return f"{moment(version.saved_at)}{by} (number {version.number})"


def _diff_lines(earlier: AgentSettings, now: AgentSettings, names: Mapping[str, str]) -> list[str]:
    said: list[str] = []
    for name in now.edited:
        new, old = (
            [names.get(str(each), str(each)) for each in settings.collection_ids]
            if name == "collection_ids"
            else in_words(getattr(settings, name)).splitlines()
            for settings in (now, earlier)
        )
        if new != old:
            differing = [line for line in difflib.ndiff(new, old) if line[0] in "+-"]
            said += [f"@@ {label_of(name)} @@", *differing]
    return said
