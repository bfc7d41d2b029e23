"""Labels of the service's terms on pages: kinds of resources, roles and scopes."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from carrel.wire.alerts import ALERT_TITLES, DeliveryStatus
from carrel.wire.common import GrantRole, ResourceType, Role
from carrel.wire.scopes import ApiScope, Scope

PERSON, GROUP, SERVICE_ACCOUNT = "user", "group", "serviceAccount"
EVERYONE, SELECTED = "Everyone in the organization", "Selected people and groups"
PRINCIPALS: Mapping[str, str] = {PERSON: "person", GROUP: "group", SERVICE_ACCOUNT: "service account"}
"""The kinds of holders of grants, by the service's type."""

YES_NO: Mapping[str, str] = {"true": "yes", "false": "no"}
DOCUMENT, COLLECTION, AGENT = "document", "collection", "agent"
_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
TYPES: Mapping[ResourceType, str] = {ResourceType(code): text for code, text in _TEXTS["types"].items()}
"""Sources of documents, and further types of resources."""

FIELDS, MESSAGES, ICONS, SCORES, FILE_KINDS = (
    cast("Mapping[str, str]", _TEXTS[part]) for part in ("fields", "messages", "icons", "scores", "file_kinds")
)
"""Labels of fields by SDK name, messages about alerts, icons of file types, meanings of scores, kinds of files."""
RUN_KINDS, RUN_PHASES, RUN_STATES, SCHEDULED, EVERY, VALUE_EFFECTS = (
    cast("Mapping[str, str]", _TEXTS[part])
    for part in ("run_kinds", "run_phases", "run_states", "scheduled", "every", "value_effects")
)
DOCUMENT_CHANGES: Mapping[str, Sequence[str]] = _TEXTS["document_changes"]
"""Changes of all documents that match: label, icon, and consequence."""
CODES: Mapping[str, str] = {**ALERT_TITLES, **{code: texts[0] for code, texts in _TEXTS["application_scopes"].items()}}
"""Labels of codes among the values of fields."""
DELIVERIES: Mapping[DeliveryStatus, str] = {DeliveryStatus(code): text for code, text in _TEXTS["deliveries"].items()}

ROLES: Mapping[Role, str] = {Role.OWNER: "Owner", Role.EDITOR: "Editor", Role.VIEWER: "Viewer"}
GRANTED: Mapping[GrantRole, str] = {GrantRole.VIEWER: "Viewer", GrantRole.EDITOR: "Editor"}
ROLE_MEANINGS: Mapping[Role, str] = {Role(code): text for code, text in _TEXTS["role_meanings"].items()}


def label_of(field: str) -> str:
    return FIELDS.get(field, field.replace("_", " ").capitalize())


@dataclass(frozen=True)
class Meaning:
    """The texts of a scope: label, permission, and risk."""

    name: str
    lets: str
    risk: str


TOKEN_SCOPES: Mapping[Scope, Meaning] = {Scope(name): Meaning(*said) for name, said in _TEXTS["token_scopes"].items()}
"""Scopes of service account tokens, the least risky first."""

APPLICATION_SCOPES: Mapping[ApiScope, Meaning] = {
    ApiScope(name): Meaning(*said) for name, said in _TEXTS["application_scopes"].items()
}

ADMIN_AT_MCP = Meaning(
    APPLICATION_SCOPES[ApiScope.ADMIN].name,
    "See who can read a document, and why (who_can_read and why), when the person is an admin.",
    "The application learns who is in which group. It can change nothing.",
)
"""The admin scope of applications at /mcp; the only admin tools there."""

CALLS: Mapping[str, str] = _TEXTS["calls"]
"""Operations open to service account tokens, in words to follow "it can"."""


def calls_in_words(endpoints: Iterable[str]) -> str:
    """Return the labels of operations in a line. An operation without a label is named by its path."""
    return ", ".join(CALLS.get(endpoint, endpoint) for endpoint in endpoints)


ONE_AGENT = "api:agent:message:"
"""Prefix of the scope for a single agent, before the agent's id."""

_MEANINGS: Mapping[str, Meaning] = {**APPLICATION_SCOPES, **TOKEN_SCOPES}


def scope_named(scope: str, *, agents: Mapping[str, str] | None = None) -> str:
    """Return the label of a scope; of an agent's scope with the agent's name, of an unknown scope the scope itself."""
    if (meaning := _MEANINGS.get(scope)) is not None:
        return meaning.name
    agent = scope.removeprefix(ONE_AGENT)
    return scope if agent == scope else f"Message the agent {(agents or {}).get(agent, agent)}"


def scopes_named(scopes: Iterable[str], *, agents: Mapping[str, str] | None = None) -> str:
    return ", ".join(scope_named(scope, agents=agents) for scope in scopes) or "Nothing"
