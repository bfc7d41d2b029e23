"""OAuth applications: scopes, addresses, consents, and dialogs for changes."""

from collections.abc import Collection, Sequence
from functools import partial
from uuid import UUID

import streamlit as st
from pydantic import TypeAdapter, ValidationError

from app import api
from app.credentials.tokens import ask_scopes, fill_scopes, get_scopes, organization
from app.formatting import one_line
from app.labels import ADMIN_AT_MCP, APPLICATION_SCOPES, ONE_AGENT, PERSON, Meaning, scope_named, scopes_named
from app.lookup import by_id
from app.ui.dialogs import NotYetError, Secret, confirm, dialog, hold_secret, offer_submit, open_dialog, text_in
from app.ui.errors import show_errors
from app.ui.notices import show_empty, show_text
from app.ui.pickers import pick_principals
from app.ui.saving import keep_opened, send_changes
from app.ui.tables import forget, pages_of, show_pages, time_cell
from carrel.wire.oauth_clients import OAuthAudience, OAuthClient, OAuthClientStatus, OAuthConsent, RedirectUri
from carrel.wire.scopes import ApiScope

CLIENTS, CONSENTS = "clients", "consents"
"""The tables of applications and of people's consents."""

MOST_ADDRESSES = 20
_ADDRESS: TypeAdapter[str] = TypeAdapter(RedirectUri)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def count_waiting() -> int:
    """Count the applications waiting for an admin's approval, at most 1,000."""
    page = next(api.client().admin.oauth_clients.list(status=OAuthClientStatus.PENDING, page_size=1000).pages())
    return len(page.oauth_clients)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def application(client_id: str) -> OAuthClient | None:
    return by_id(api.client().admin.oauth_clients.list, client_id)


def clear_caches() -> None:
    count_waiting.clear()
    application.clear()
    forget(CLIENTS)
    forget(CONSENTS, unchoose=True)


def addresses_in(text: str) -> list[str]:
    """Return the addresses in a field, one per line, each once."""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def problems_with(addresses: Sequence[str]) -> list[str]:
    """Return a sentence for each problem with the redirect addresses; empty if the service will accept all."""
    if not addresses:
        return ["Enter at least one redirect URL. People return to it after they sign in."]
    if len(addresses) > MOST_ADDRESSES:
        return [f"Enter at most {MOST_ADDRESSES} redirect URLs. There are {len(addresses)}."]
    return [f"{address} {wrong}." for address in addresses if (wrong := _problem_with(address))]


def meaning_of(scope: str, audience: OAuthAudience) -> Meaning:
    if scope == ApiScope.ADMIN and audience is OAuthAudience.MCP:
        return ADMIN_AT_MCP
    if scope in set(ApiScope):
        return APPLICATION_SCOPES[ApiScope(scope)]
    return Meaning(
        scope_named(scope),
        "Send messages to this agent as the person, and read its answers.",
        "Answers quote documents that the person can read.",
    )


def _problem_with(address: str) -> str:
    try:
        _ADDRESS.validate_python(address)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=True)[0]
        reason = first.get("ctx", {}).get("error")
        return str(reason) if reason is not None else "is longer than 2,000 characters"
    return ""


NEW, EDIT = "new_client", "edit_client"
_FIELDS = "client"
AUDIENCES = {OAuthAudience.API: "The API", OAuthAudience.MCP: "The MCP endpoint, /mcp"}


def open_edit(client: OAuthClient) -> None:
    _fill_fields(client.name, client.redirect_uris, client.scopes)
    open_dialog(EDIT, str(client.client_id))


def open_new() -> None:
    _fill_fields("", [], [])
    open_dialog(NEW)


@dialog("New application", NEW, width="large")
def show_new() -> None:
    show_text("Carrel approves it immediately. It can act only for people who allow it.")
    _ask_fields()
    audience = st.radio(
        "API",
        list(AUDIENCES),
        format_func=AUDIENCES.__getitem__,
        key="client.audience",
        help="Tokens work only there. You cannot change this later. At /mcp, Administer lets the application see "
        "who can read a document and why, and nothing else.",
    )
    if audience is OAuthAudience.API:
        show_text("The API requires an application to keep a secret on its server. /mcp does not.")
    else:
        st.checkbox(
            "The application keeps no secret",
            key="client.public",
            help="For applications on people's computers, such as editors and desktop assistants.",
        )
    offer_submit(NEW, "Create", action=_create)


@dialog("Edit application", EDIT, of="client_id", width="large")
def show_edit(client: OAuthClient) -> None:
    client = keep_opened(EDIT, client)
    show_text("If you remove a scope, people who allowed it lose it immediately.")
    _ask_fields()
    offer_submit(EDIT, "Save", action=partial(_update, client))


def secret_of(client_id: UUID, value: str) -> Secret:
    return Secret(
        "Client secret",
        value,
        hint="The application needs this and the client id. Keep it on a server, never in a browser or an app.",
        command=f"CLIENT_ID={client_id}\nCLIENT_SECRET={value}",
    )


def _fill_fields(name: str, addresses: Sequence[str], scopes: Sequence[str]) -> None:
    of_agents = [scope for scope in scopes if scope.startswith(ONE_AGENT) and scope != ApiScope.AGENT_MESSAGE]
    agents = [agent.removeprefix(ONE_AGENT) for agent in of_agents]
    st.session_state.update({"client.name": name, "client.addresses": "\n".join(addresses), "client.agents": agents})
    fill_scopes(_FIELDS, APPLICATION_SCOPES, scopes)


def _ask_fields() -> None:
    st.text_input("Name", key="client.name", max_chars=200, placeholder="People see it when they allow it")
    st.text_area(
        "Redirect URLs, one per line",
        key="client.addresses",
        placeholder="https://app.example.com/callback",
        help="Where people return after signing in. Carrel compares these URLs character by character.",
    )
    ask_scopes(_FIELDS, APPLICATION_SCOPES)
    names = show_errors(api.agent_names)
    options = list(dict.fromkeys([*st.session_state["client.agents"], *names]))
    st.multiselect(
        "Message only these agents",
        options,
        key="client.agents",
        format_func=lambda agent: f"{one_line(names.get(agent, 'An agent'))} · …{agent[-4:]}",
        placeholder="Choose agents" if options else "There are no agents yet",
    )


def _read_fields() -> tuple[str, list[str], list[str]]:
    """Return the name, addresses and scopes in the dialog's fields. Raises NotYetError."""
    state = st.session_state
    unnamed = "Enter a name. People see it when they allow the application."
    name, addresses = text_in("client.name", missing=unnamed), addresses_in(str(state["client.addresses"] or ""))
    if wrong := problems_with(addresses):
        raise NotYetError(" ".join(wrong))
    scopes = [scope.value for scope in get_scopes(_FIELDS, APPLICATION_SCOPES)]
    scopes += [f"{ONE_AGENT}{agent}" for agent in state["client.agents"]]
    if not scopes:
        raise NotYetError("Choose at least one scope.")
    return name, addresses, scopes


def _create() -> None:
    name, addresses, scopes = _read_fields()
    audience = OAuthAudience(st.session_state["client.audience"])
    made = api.client().admin.oauth_clients.create(
        name,
        redirect_uris=addresses,
        scopes=scopes,
        audience=audience,
        is_public=bool(st.session_state.get("client.public")) if audience is OAuthAudience.MCP else None,
    )
    if not made.is_public:
        hold_secret(secret_of(made.client_id, made.client_secret))
    st.query_params["client"] = str(made.client_id)
    clear_caches()


def _update(client: OAuthClient) -> None:
    name, addresses, scopes = _read_fields()
    written = {"name": name, "redirect_uris": addresses, "scopes": scopes}
    send_changes(EDIT, client, written, partial(api.client().admin.oauth_clients.update, client.client_id))
    clear_caches()


def show_consents(client: OAuthClient | None = None) -> None:
    """Show people's consents to all applications, or to `client`, with buttons for an admin to withdraw them."""
    st.header("Consents", anchor=False)
    people = [] if client else pick_principals("consents.person", label="Person", kinds=(PERSON,), most=1)
    email = people[0].id if people else None
    shown_empty: list[bool] = []
    clients = api.client().admin.oauth_clients

    def show_none() -> None:
        shown_empty.append(True)
        if email is not None:
            show_empty("This person has not allowed any application.")
            return
        show_empty("No consents yet.", "People are asked when an application first sends them here.")

    chosen = show_pages(
        CONSENTS,
        pages_of(
            lambda at: clients.list_consents(client_id=client and client.client_id, email=email, **at),
            about=(client and client.client_id, email),
        ),
        row=partial(_row_of_consent, names=show_errors(api.agent_names), with_client=client is None),
        empty=show_none,
        columns=dict.fromkeys(("Application", "Scopes", "Limited to"), st.column_config.TextColumn(width="small")),
        hint="Select a row to withdraw the consent.",
    )
    if chosen is not None and st.button("Withdraw …", key="consent.withdraw"):
        confirm(
            "Withdraw this consent?",
            f"“{chosen.application_name}” can no longer act for {chosen.person_name} ({chosen.email}), "
            "effective immediately. They can allow it again.",
            action=partial(clients.withdraw_consents, chosen.client_id, email=chosen.email),
            then=clear_caches,
        )
    if client is None or shown_empty:
        return
    if st.button("Withdraw all …", key="consents.withdraw", icon=":material/link_off:"):
        confirm(
            "Withdraw it for everyone?",
            f"“{client.name}” can no longer act for anyone, effective immediately. People can allow it again. "
            "To prevent this, delete the application or remove its host.",
            doing="Withdraw all",
            action=partial(clients.withdraw_consents, client.client_id),
            then=clear_caches,
        )


def _row_of_consent(consent: OAuthConsent, *, names: dict[str, str], with_client: bool) -> dict[str, object]:
    narrowed_to = "Not limited" if consent.collection_ids is None else ", ".join(consent.collection_names or [])
    return {
        "Person": f"{one_line(consent.person_name)} ({consent.email})",
        **({"Application": one_line(consent.application_name)} if with_client else {}),
        "Scopes": one_line(scopes_named(consent.scopes, agents=names)),
        "Limited to": one_line(narrowed_to) or "Deleted collections",
        "Allowed": time_cell(consent.granted_at),
        "Last used": time_cell(consent.last_used_at),
    }


def show_hosts() -> None:
    st.header("Hosts of assistants", anchor=False)
    show_text(
        "Assistants such as Claude identify themselves by a URL. Allow its host, and people in your "
        "organization can connect that assistant to their own documents."
    )
    allowed = show_errors(organization).client_document_hosts
    text = st.text_area("Allowed hosts, one per line", "\n".join(allowed), key="hosts", placeholder="claude.ai")
    hosts = sorted({line.lower() for line in addresses_in(text)})
    if hosts != sorted(allowed) and st.button("Save", key="hosts.save", type="primary"):
        confirm(
            "Change the allowed hosts?",
            "People can connect assistants of these hosts. Assistants of removed hosts stop immediately, and "
            "their consents are deleted.",
            action=partial(_change_hosts, set(hosts) - set(allowed), set(allowed) - set(hosts)),
        )


def _change_hosts(added: Collection[str], removed: Collection[str]) -> None:
    """Apply the person's changes and keep later changes by other admins."""
    api.client().admin.organization.update(added_client_document_hosts=added, removed_client_document_hosts=removed)
    organization.clear()
    clear_caches()
