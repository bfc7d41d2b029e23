"""Service account tokens and API keys: scopes, expiry and reach, and dialogs for creation."""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TypeAlias, TypeVar, cast
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import ago, browser_zone, moment, one_line
from app.labels import ROLES, SERVICE_ACCOUNT, TOKEN_SCOPES, Meaning, calls_in_words, scopes_named
from app.lookup import by_id
from app.settings import settings
from app.ui import notices
from app.ui.dialogs import NotYetError, Secret, confirm, dialog, hold_secret, offer_submit, open_dialog, text_in
from app.ui.errors import require_found, show_errors
from app.ui.tables import forget, pages_of, show_pages, time_cell
from carrel.wire.api_keys import ApiKey, CredentialStatus
from carrel.wire.organization import Organization
from carrel.wire.scim_tokens import ScimToken
from carrel.wire.scopes import Scope
from carrel.wire.service_accounts import (
    AdminServiceAccountTokensPreviewReachResponse,
    ServiceAccount,
    ServiceAccountToken,
)
from flows.operations.formatting import count_text

C = TypeVar("C", ServiceAccountToken, ApiKey, ScimToken)
Credential: TypeAlias = ServiceAccountToken | ApiKey | ScimToken

SOON = timedelta(days=14)
NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""Stands for no expiry where the service requires a time."""

ON_DATE, WITHOUT_END = "date", "never"
EXPIRIES: Mapping[str, str] = {
    "30": "In 30 days",
    "90": "In 90 days",
    "365": "In a year",
    ON_DATE: "On a date",
    WITHOUT_END: "Never",
}
STATUSES: Mapping[CredentialStatus, str] = {
    CredentialStatus.ACTIVE: "Active",
    CredentialStatus.EXPIRED: "Expired",
    CredentialStatus.REVOKED: "Revoked",
}


def expiry(choice: str, *, day: date | None, now: datetime | None = None) -> datetime | None:
    """Return the expiry for a choice in EXPIRIES; None: never. Days end at midnight in the browser's time zone."""
    at = now or datetime.now(UTC)
    if choice == WITHOUT_END:
        return None
    if choice == ON_DATE:
        return datetime.combine(day or at.date(), time(23, 59, 59), browser_zone())
    return at + timedelta(days=int(choice))


def ends(at: datetime | None, *, in_words: Callable[[datetime], str] = ago) -> str:
    return "Never" if at is None or at.year >= NEVER.year else in_words(at)


def _soon_over(credential: Credential) -> bool:
    at = credential.expires_at
    return credential.status is CredentialStatus.ACTIVE and at is not None and at - datetime.now(UTC) < SOON


def end_noted(credential: Credential) -> str:
    """Return the day of expiry, and until then the time left, with a warning sign in the last 14 days; or "Never"."""
    at = credential.expires_at
    if at is None or at.year >= NEVER.year:
        return ends(at)
    day = f"{at.astimezone(browser_zone()):%d %b %Y}"
    if credential.status is CredentialStatus.REVOKED:
        return day  # a revoked credential has already ended
    return f"{'⚠ ' if _soon_over(credential) else ''}{day}, {ends(at)}"


def row_of(credential: Credential) -> dict[str, object]:
    return {
        "Name": one_line(credential.name),
        "Ends in": f"…{credential.hint}",
        "Status": STATUSES[credential.status],
        "Last used": time_cell(credential.last_used_at),
        "Expires": end_noted(credential),
    }


def select_ending_soon(credentials: Iterable[C]) -> list[C]:
    """Return working credentials without a successor and with less than a fortnight left, the soonest first."""
    every = list(credentials)
    soon = [item for item in every if _soon_over(item) and find_successor(item, every) is None]
    return sorted(soon, key=lambda item: item.expires_at or NEVER)


def find_successor(item: C, every: Sequence[C]) -> C | None:
    """Return the newest working credential created later for the same account and name."""
    later = [
        other
        for other in every
        if other.status is CredentialStatus.ACTIVE
        and other.created_at > item.created_at
        and (_account_of(other), other.name) == (_account_of(item), item.name)
    ]
    return max(later, key=lambda other: other.created_at, default=None)


def _account_of(credential: Credential) -> object:
    if isinstance(credential, ScimToken):
        return None
    return credential.owner_email if isinstance(credential, ApiKey) else credential.service_account_id


def expiry_like(credential: Credential) -> tuple[str, int]:
    """Return the choice of EXPIRIES, and the days, for a new credential with an equal lifetime."""
    if credential.expires_at is None or credential.expires_at.year >= NEVER.year:
        return WITHOUT_END, 0
    days = max(1, round((credential.expires_at - credential.created_at) / timedelta(days=1)))
    return str(days) if str(days) in EXPIRIES else ON_DATE, days


def curl_line(token: str, scopes: Collection[str], *, base_url: str) -> str:
    """Return a command that tries a token with the first operation allowed; empty if no operation is allowed."""
    head = f"curl -s {shlex.quote(f'{base_url}/api/v0/')}"
    bearer = f"-H {shlex.quote(f'Authorization: Bearer {token}')}"
    json = "-H 'Content-Type: application/json' -d"
    if Scope.CATALOG_READ in scopes:
        return f'{head}search/searchDocumentCatalog {bearer} {json} \'{{"searchQuery": "hello"}}\''
    if Scope.CATALOG_WRITE in scopes:
        return f"{head}catalog/uploadFile {bearer} -F documentExternalId=a-note -F file=@note.txt"
    if Scope.AGENT_MESSAGE in scopes:
        return f'{head}copilots/sendMessage {bearer} {json} \'{{"agentId": "…", "message": "hello"}}\''
    return ""


S = TypeVar("S", bound=StrEnum)


def fill_scopes(name: str, meanings: Mapping[S, Meaning], chosen: Iterable[str]) -> None:
    wanted = frozenset(chosen)
    for scope in meanings:
        st.session_state[_key(name, scope)] = scope.value in wanted


def ask_scopes(name: str, meanings: Mapping[S, Meaning]) -> list[S]:
    """Show fields for scopes, and return the chosen scopes. In a callback use `get_scopes` with an equal name."""
    for scope, meaning in meanings.items():
        with st.container(gap=None):
            st.checkbox(meaning.name, key=_key(name, scope))
            notices.show_note(f"{meaning.lets} {meaning.risk}")
    return get_scopes(name, meanings)


def get_scopes(name: str, meanings: Mapping[S, Meaning]) -> list[S]:
    return [scope for scope in meanings if st.session_state.get(_key(name, scope))]


def _key(name: str, scope: StrEnum) -> str:
    return f"{name}.{scope.value}"


ACCOUNTS, TOKENS, KEYS = "accounts", "tokens", "keys"
MOST_TOKENS = 5000


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def organization() -> Organization:
    return api.client().admin.organization.get()


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def all_tokens() -> list[ServiceAccountToken]:
    """Return the tokens of all service accounts, at most `MOST_TOKENS`."""
    return list(islice(api.client().admin.service_account_tokens.list(page_size=1000), MOST_TOKENS))


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def tokens_of(account_id: UUID) -> list[ServiceAccountToken]:
    """Return the tokens of an account, at most 1,000, with a single request."""
    return next(api.client().admin.service_account_tokens.list(account_id, page_size=1000).pages()).tokens


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def account_of(account_id: str) -> ServiceAccount | None:
    return by_id(api.client().admin.service_accounts.list, account_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def token_of(token_id: str, account_id: UUID) -> ServiceAccountToken | None:
    """Return an account's token by id; None for another account's or unknown token."""
    listed = next((token for token in tokens_of(account_id) if str(token.token_id) == token_id), None)
    found = listed or by_id(api.client().admin.service_account_tokens.list, token_id)
    return found if found is not None and found.service_account_id == account_id else None


def clear_caches() -> None:
    for kept in (organization, all_tokens, tokens_of, account_of, token_of, _read_reach):
        kept.clear()
    forget(ACCOUNTS)
    forget(TOKENS)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def key_of(key_id: str) -> ApiKey | None:
    return by_id(api.client().admin.api_keys.list, key_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def all_keys() -> list[ApiKey]:
    """Return the API keys of the organization, at most `MOST_TOKENS`."""
    return list(islice(api.client().admin.api_keys.list(page_size=1000), MOST_TOKENS))


def clear_keys() -> None:
    key_of.clear()
    all_keys.clear()
    forget(KEYS)


def show_credential(
    item: C,
    *,
    every: Sequence[C],
    kind: str,
    facts: Sequence[tuple[str, str]],
    revoke: Callable[[], object],
    then: Callable[[], object],
) -> None:
    """Show a credential, with its successor in `every` and a button to revoke it. `kind` is the noun: token or key."""
    notices.show_heading(item.name, f"…{item.hint}", STATUSES[item.status])
    times = [
        ("Created", moment(item.created_at)),
        ("Last used", moment(item.last_used_at) or "Never"),
        ("Expires", ends(item.expires_at, in_words=moment)),
    ]
    notices.show_table([*facts, *times], named=True)
    successor = find_successor(item, every) if item.status is CredentialStatus.ACTIVE else None
    if successor is not None:
        made = f"A new {kind} with this name, …{successor.hint}, was created {ago(successor.created_at)}"
        said, todo = " and is in use.", f"The old {kind} is unused since then. Revoke it."
        if successor.last_used_at is None:
            said, todo = " and is not used yet.", "Give it to the program, and revoke the old one when it is used."
        elif item.last_used_at is not None and item.last_used_at > successor.last_used_at:
            said, todo = f", but the old {kind} was used after it.", "Find the program that uses it, then revoke it."
        notices.show_warning(f"{made}{said}", todo)
    if item.status is CredentialStatus.ACTIVE and st.button("Revoke …", key="revoke", icon=":material/block:"):
        ask_revoking(item, kind, revoke, then=then)


def ask_revoking(item: Credential, kind: str, revoke: Callable[[], object], *, then: Callable[[], object]) -> None:
    said = f"“{item.name}” (…{item.hint}) stops working immediately. This can't be undone."
    confirm(f"Revoke this {kind}?", said, action=revoke, then=then)


MINT = "mint"
_MOST_NAMED = 8


@dialog("Create token", MINT, of="service_account_id", width="medium")
def show_mint(account: ServiceAccount) -> None:
    """Show the fields of a new token with a preview of its reach, while the dialog is open."""
    notices.show_text(f"A program with this token acts as {account.display_name} ({account.email}).")
    st.text_input("Name", key="mint.name", max_chars=200, placeholder="For example: Intranet, production")
    st.text_input("Description (optional)", key="mint.description", max_chars=10_000)
    scopes = ask_scopes("mint", TOKEN_SCOPES)
    ask_expiry("mint")
    if scopes:
        with st.container(border=True):
            _show_reach(show_errors(lambda: _read_reach(account.service_account_id, tuple(scopes))))
    else:
        notices.show_text("Choose scopes to see what the token can access.")
    offer_submit(MINT, "Create", action=partial(mint, account))


def mint(account: ServiceAccount) -> None:
    """Create the token described in the dialog's fields and hold its value to show. Raises NotYetError."""
    unnamed = "Enter a name for the token."
    name, scopes = text_in("mint.name", missing=unnamed), get_scopes("mint", TOKEN_SCOPES)
    if not scopes:
        raise NotYetError("Choose at least one scope.")
    minted = api.client().admin.service_account_tokens.mint(
        account.service_account_id,
        name,
        description=text_in("mint.description") or None,
        scopes=scopes,
        expires_at=get_expiry("mint") or NEVER,
    )
    hold_credential("New token", minted.token, scopes)
    clear_caches()


def hold_credential(title: str, value: str, scopes: Collection[str]) -> None:
    """Hold a new credential, with a command line to try, until the page has shown it once."""
    hint = "Test it with this command on a machine that can reach the service:"
    hold_secret(Secret(title, value, hint=hint, command=curl_line(value, scopes, base_url=settings().base_url)))


def open_mint(account_id: str, like: ServiceAccountToken | None = None) -> None:
    """Open the dialog for an account's new token, filled in for a replacement of the token `like` if given."""
    if like is not None:
        st.session_state.update({"mint.name": like.name, "mint.description": like.description or ""})
        fill_scopes("mint", TOKEN_SCOPES, like.scopes)
    fill_expiry("mint", like)
    open_dialog(MINT, account_id)


def fill_expiry(name: str, like: ServiceAccountToken | ApiKey | None) -> None:
    """Fill the fields of `ask_expiry` before they are drawn, with the lifetime of the credential `like`."""
    st.session_state.pop(f"{name}.default", None)
    if like is None:
        return
    choice, days = expiry_like(like)
    st.session_state[f"{name}.default"] = choice
    if choice == ON_DATE:
        st.session_state[f"{name}.day"] = datetime.now(browser_zone()).date() + timedelta(days=days)


def ask_expiry(name: str, *, default: str = "90") -> None:
    """Show fields for an expiry; `get_expiry` returns the expiry by name."""
    # A session value would be sent once: a slow browser may miss it, and then sends no value back.
    filled: str = st.session_state.get(f"{name}.default", default)
    choice = st.segmented_control(
        "Expires",
        list(EXPIRIES),
        default=filled,
        format_func=lambda item: EXPIRIES[item],
        required=True,
        key=f"{name}.expiry",
    )
    if choice == ON_DATE:
        today = datetime.now(browser_zone()).date()
        st.session_state.setdefault(f"{name}.day", today + timedelta(days=180))
        st.date_input(f"Last valid day (in {browser_zone()})", min_value=today, key=f"{name}.day")
    if choice == WITHOUT_END:
        notices.show_warning(
            "Anyone who finds it can use it at any time. Prefer an expiry date, and replace it in time.",
            "Choose this only if nobody can replace the credential, and check when it was last used.",
        )


def get_expiry(name: str) -> datetime | None:
    """Return the expiry set in the dialog's fields; None: never."""
    day = cast("date | None", st.session_state.get(f"{name}.day"))
    return expiry(str(st.session_state[f"{name}.expiry"]), day=day)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _read_reach(
    account_id: UUID | None = None, scopes: tuple[Scope, ...] | None = None, *, token_id: UUID | None = None
) -> AdminServiceAccountTokensPreviewReachResponse:
    """Return the reach of a token, or of a new token of an account with these scopes."""
    return api.client().admin.service_account_tokens.preview_reach(account_id, scopes, token_id=token_id)


def _show_reach(reach: AdminServiceAccountTokensPreviewReachResponse) -> None:
    for warning in reach.warnings:
        notices.show_warning(warning)
    collections = [f"{item.collection_name} ({ROLES[item.role].lower()})" for item in reach.collections]
    closed = " (closed to programs)"
    agents = [f"{agent.agent_name}{'' if agent.api_access_enabled else closed}" for agent in reach.agents]
    rows = [
        ("Documents it can read", f"{reach.document_count:,}"),
        ("Documents it can change", f"{reach.editable_document_count:,}"),
        ("Collections", _name_resources(collections, reach.collection_count)),
        ("Agents", _name_resources(agents, reach.agent_count)),
        ("Documents that agents can quote to it", f"{reach.agent_document_count:,}"),
        ("It can", calls_in_words(reach.endpoints) or "nothing"),
    ]
    notices.show_text("Current reach of the token:")
    notices.show_table(rows, named=True)


def _name_resources(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    more = count - min(len(names), _MOST_NAMED)
    return f"{shown} and {count_text(more, 'other')}" if more > 0 else shown or "None"


_SHOWN_ENDING = 10


def show_ending_soon(tokens: Sequence[ServiceAccountToken]) -> None:
    if not (soon := select_ending_soon(tokens)):
        return
    expire = f"{count_text(len(soon), 'token')} will expire within 14 days"
    notices.show_warning(f"{expire}. Open each token and create its replacement.")
    for token in soon[:_SHOWN_ENDING]:
        said = f"{token.name} (…{token.hint}) expires {ends(token.expires_at)} ({moment(token.expires_at)})"
        account = str(token.service_account_id)
        notices.show_link(said, "service_accounts", account=account, token=str(token.token_id))


def show_tokens(account: ServiceAccount) -> None:
    show_pages(
        TOKENS,
        pages_of(
            lambda at: api.client().admin.service_account_tokens.list(account.service_account_id, **at),
            about=account.service_account_id,
        ),
        row=lambda token: row_of(token) | {"Scopes": scopes_named(token.scopes)},
        empty=lambda: notices.show_empty("No tokens yet.", "Create a token, and give it to the program."),
        go=lambda chosen: notices.look_at("token", chosen.token_id),
    )


def show_token(account: ServiceAccount, token_id: str) -> None:
    notices.offer_way_back("All its tokens", "token")
    find = partial(token_of, token_id, account.service_account_id)
    token = require_found(find, "This token does not exist.")
    about = [("Description", token.description)] if token.description else []
    facts = [("Scopes", scopes_named(token.scopes)), *about]
    if token.status is not CredentialStatus.REVOKED:
        label, is_off = "New token with the same scopes", not show_errors(organization).service_accounts_enabled
        again = partial(open_mint, str(token.service_account_id), token)
        notices.offer_action(label, again, key="mint.successor", icon="autorenew", disabled=is_off)
    every = show_errors(partial(tokens_of, account.service_account_id))
    revoke = partial(api.client().admin.service_account_tokens.revoke, token.token_id)
    show_credential(token, every=every, kind="token", facts=facts, revoke=revoke, then=clear_caches)
    reach = show_errors(partial(_read_reach, token_id=token.token_id))
    _show_reach(reach)
    if not reach.document_count and token.status is CredentialStatus.ACTIVE:
        notices.show_link("Give access", "who_can_read", who=f"{SERVICE_ACCOUNT}:{account.service_account_id}")
