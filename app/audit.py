"""Sentences for entries of the audit log: a verb, then the kind of the object with its name in quotation marks."""

import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import streamlit as st

from app import api
from app.formatting import one_line
from app.labels import AGENT, COLLECTION, DOCUMENT, GROUP, PERSON, ROLES, SERVICE_ACCOUNT, scopes_named
from app.lookup import is_id
from app.ui.errors import show_errors
from carrel import Carrel
from carrel.wire.common import ResourceType, Role
from carrel.wire.oversight import AuditEntry
from flows.operations.formatting import count_text, kind_of, list_text

_SWITCHED = {"true": "on", "false": "off", "": "none"}


def _setting_in_words(value: object) -> str:
    words = ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value).lower()
    return _SWITCHED.get(words, words)


KnownNames: TypeAlias = Mapping[str, str]

EVERYONE = "everyone"
"""Stands for a whole organization as the holder of a role."""

HOLDER = "holder"
"""Placeholder for a person, a group, a service account or everyone."""

FAILED_SIGN_IN = "session.fail"
"""The only action without a known person."""

_MOST_NAMED = 4

WIDENED = "more-access"
WIDENING = ["grants.set", "grants.share", "agent.deploy", "group.members", "owner.set", "user.create", "user.update"]
"""Actions that can give more access; `widens` tells whether an entry does. `WIDENED` stands for these entries."""
_RANKS = {"VIEWER": 1, "EDITOR": 2, "OWNER": 3}


@dataclass(frozen=True)
class ActionText:
    """The texts of an action: group, label, and a sentence (`{it}` is the target: kind and name)."""

    group: str
    name: str
    said: str


_TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
ACTION_TEXTS: Mapping[str, ActionText] = {code: ActionText(*texts) for code, texts in _TEXTS["actions"].items()}

_KINDS: Mapping[str, str] = _TEXTS["kinds"]
_SETTINGS: Mapping[str, str] = _TEXTS["settings"]
_NAMED_IN_DETAILS: Mapping[str, str] = _TEXTS["named_in_details"]
_VERDICTS = {"THUMBS_UP": "helpful", "THUMBS_DOWN": "not helpful", "POSITIVE": "helpful", "NEGATIVE": "not helpful"}


def action_labels() -> dict[str, str]:
    return {code: f"{text.group}: {text.name}" for code, text in ACTION_TEXTS.items()}


def sentence(entry: AuditEntry, names: KnownNames) -> str:
    """Return a sentence for an audit entry: person, action, target. A target without a name is called by its kind."""
    actor = one_line(entry.who)
    if entry.acting_for is not None and entry.acting_for.id != (entry.actor.id if entry.actor else None):
        actor += f", for {one_line(entry.acting_for.name)},"
    told = _TOLD.get(entry.action)
    special = told(entry, names) if told is not None else None
    return one_line(f"{actor} {special or _default_sentence(entry, names)}")


def ids_in(entries: Iterable[AuditEntry]) -> set[tuple[str, str]]:
    """Return the objects named in the sentences of audit entries, as (kind, id)."""
    found: set[tuple[str, str]] = set()
    for entry in entries:
        if entry.target is not None:
            found.add((_kind(entry.target.type), entry.target.id))
        for member, kind in _NAMED_IN_DETAILS.items():
            if isinstance(value := entry.details.get(member), str):
                found.add((kind, value))
        for member in ("before", "after", "added", "removed"):
            if isinstance(value := entry.details.get(member), dict | list):
                found |= {(HOLDER, item) for item in cast("Iterable[str]", value)}
    return found


def _default_sentence(entry: AuditEntry, names: KnownNames) -> str:
    if (text := ACTION_TEXTS.get(entry.action)) is None:
        return f"did an action that this page does not know ({entry.action})"
    details = entry.details
    return text.said.format(
        it=_target(entry, names),
        collection=_name_thing(COLLECTION, details.get("collectionId"), names, "the catalog"),
        document=_name_thing(DOCUMENT, details.get("documentId"), names, "a search"),
        agent=_name_thing(AGENT, details.get("agentId"), names, "an agent"),
        account=_name_thing(SERVICE_ACCOUNT, details.get("serviceAccountId"), names, "a service account"),
        owner=_name_thing(PERSON, details.get("ownerId"), names, "someone" if "ownerId" in details else "themselves"),
    )


def _describe_grant_change(entry: AuditEntry, names: KnownNames) -> str | None:
    """Return a sentence for a change of grants: gave Crew Viewer access to document “X”. None if no grant changed."""
    before, after = roles_in(entry.details, "before"), roles_in(entry.details, "after")
    gained: dict[str, list[str]] = {}
    lost: dict[str, list[str]] = {}
    # "everyone" comes last: "Crew and everyone".
    named = {holder: names.get(holder, "someone") for holder in before.keys() | after.keys()}
    for holder in sorted(named, key=lambda item: (named[item] == EVERYONE, named[item].lower(), item)):
        had, has = before.get(holder), after.get(holder)
        if had != has:
            table, role = (lost, had) if has is None else (gained, has)
            table.setdefault(ROLES[Role(role)] if role in set(Role) else "some", []).append(named[holder])
    said: list[str] = []
    for role, holders in gained.items():
        said.append(f"gave {_list_names(holders)} {role} access to {'it' if said else _target(entry, names)}")
    for role, holders in lost.items():
        said.append(f"removed {role} access to {'it' if said else _target(entry, names)} from {_list_names(holders)}")
    return " and ".join(said) or None


def _describe_members(entry: AuditEntry, names: KnownNames) -> str | None:
    parts = [
        f"{verb} {_list_names([names.get(item, 'someone') for item in ids])} {preposition}"
        for verb, preposition, key in (("added", "to", "added"), ("removed", "from", "removed"))
        if (ids := cast("list[str]", entry.details.get(key) or []))
    ]
    return " and ".join(f"{part} {_target(entry, names)}" for part in parts) if parts else None


def _describe_feedback(entry: AuditEntry, names: KnownNames) -> str | None:
    verdict = _VERDICTS.get(str(entry.details.get("feedback")))
    return f"{_default_sentence(entry, names)} {verdict}" if verdict else None


def _describe_unpacking(entry: AuditEntry, names: KnownNames) -> str | None:
    """Return a sentence about the contents: read 12 files in document “Box”, 2 left out."""
    counts = (entry.details.get(member) for member in ("files", "leftOut", "deleted"))
    files, left_out, deleted = (number if isinstance(number, int) else 0 for number in counts)
    rest = f", {left_out:,} left out" if left_out else ""
    gone = f", and deleted {count_text(deleted, 'document')} of removed files" if deleted else ""
    return f"read {count_text(files, 'file')} in {_target(entry, names)}{rest}{gone}"


def _describe_new_credential(entry: AuditEntry, names: KnownNames) -> str | None:
    scopes = cast("list[str]", entry.details.get("scopes") or [])
    return f"{_default_sentence(entry, names)} ({scopes_named(scopes).lower()})" if scopes else None


def _describe_account(entry: AuditEntry, names: KnownNames) -> str | None:
    facts = [
        words
        for member, value, words in (
            ("isAdmin", True, "an admin"),
            ("active", False, "not active"),
            ("passwordChanged", True, "with another password"),
        )
        if entry.details.get(member) is value
    ]
    return f"{_default_sentence(entry, names)} ({', '.join(facts)})" if facts else None


def _describe_failed_sign_in(entry: AuditEntry, names: KnownNames) -> str | None:
    said = {
        "secondFactor": "entered the correct password of {it} but a wrong second factor",
        "passkey": "failed to sign in as {it} with a passkey",
        "session": "failed to confirm the identity of {it} during a session",
    }.get("session" if entry.details.get("inSession") is True else str(entry.details.get("by")))
    return said and said.format(it=_target(entry, names))


def _describe_settings(entry: AuditEntry, names: KnownNames) -> str | None:
    said = ", ".join(
        said.format(_setting_in_words(entry.details[name])) for name, said in _SETTINGS.items() if name in entry.details
    )
    return f"{_default_sentence(entry, names)}: {said}" if said else None


def _describe_transfer(entry: AuditEntry, names: KnownNames) -> str | None:
    """Return the number of transferred resources in words: made Ben the owner of 12 resources of Ada; or None."""
    counts = entry.details.get("counts")
    if not isinstance(counts, dict):
        return None
    number = sum(cast("dict[str, int]", counts).values())
    said = f"made {_target(entry, names)} the owner of {count_text(number, 'resource')}"
    owner = entry.details.get("ownerId")
    return said if owner is None else f"{said} of {_name_thing(PERSON, owner, names, 'someone')}"


def _describe_deleted_account(entry: AuditEntry, names: KnownNames) -> str | None:
    count = entry.details.get("revokedTokenCount")
    if not isinstance(count, int) or not count:
        return None
    return f"{_default_sentence(entry, names)} and {count_text(count, 'token')}"


_TOLD: Mapping[str, Callable[[AuditEntry, KnownNames], str | None]] = {
    "grants.set": _describe_grant_change,
    "grants.share": _describe_grant_change,
    "owner.set": _describe_grant_change,
    "owners.transfer": _describe_transfer,
    "agent.deploy": _describe_grant_change,
    "group.members": _describe_members,
    "document.unpack": _describe_unpacking,
    "search.feedback": _describe_feedback,
    "agent.feedback": _describe_feedback,
    "serviceAccountToken.mint": _describe_new_credential,
    "user.create": _describe_account,
    "user.update": _describe_account,
    "serviceAccount.delete": _describe_deleted_account,
    "organization.update": _describe_settings,
    FAILED_SIGN_IN: _describe_failed_sign_in,
}


def _target(entry: AuditEntry, names: KnownNames) -> str:
    return "something" if entry.target is None else _phrase(_kind(entry.target.type), _target_name(entry, names))


def _target_name(entry: AuditEntry, names: KnownNames) -> str | None:
    """Return the target's name at the time of the entry (older: the current name), with facts if unchanged."""
    if entry.target is None:
        return None
    then, now = entry.target.name, names.get(entry.target.id)
    if then is None:
        return now or entry.details.get("name")  # older entries of deleted groups have the name here
    return now if now is not None and now.startswith(f"{then} (") else then


def _name_thing(kind: str, identity: object, names: KnownNames, otherwise: str) -> str:
    name = names.get(identity) if isinstance(identity, str) else None
    return _phrase(kind, name) if name else otherwise


def _phrase(kind: str, name: str | None) -> str:
    """Return the phrase for an object: person Ada as `Ada`, agent Desk as `agent “Desk”`, unnamed as `an agent`."""
    if not name:
        return _KINDS.get(kind, "something")
    if kind == PERSON:
        return one_line(name)
    known = _KINDS.get(kind, "")
    return f"{known.partition(' ')[2]} “{one_line(name)}”".lstrip()


def _kind(target_type: str | None) -> str:
    return kind_of(ResourceType(target_type)) if target_type in set(ResourceType) else target_type or ""


def roles_in(details: Mapping[str, Any], member: str) -> dict[str, str]:
    """Return the roles by holder in a member of an entry's details; empty if absent."""
    value: object = details.get(member)
    return cast("dict[str, str]", value) if isinstance(value, dict) else {}


def widens(entry: AuditEntry) -> bool:
    """Return whether a change gives more access than before. Entries about admin rights say `isAdmin`."""
    turned_on = {member for member, change in (entry.changes or {}).items() if change.to is True}
    is_new = entry.action == "user.create" or bool(turned_on & {"isAdmin", "active"})
    if entry.details.get("added") or (entry.details.get("isAdmin") is True and is_new):
        return True
    before, after = roles_in(entry.details, "before"), roles_in(entry.details, "after")
    return any(_RANKS.get(role, 0) > _RANKS.get(before.get(holder, ""), 0) for holder, role in after.items())


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return list_text([*map(one_line, names[:_MOST_NAMED]), *([count_text(more, "other")] if more > 0 else [])])


FRESH_SECONDS = 60.0

APPLICATION = "oauthClient"
_AT_ONCE = 8
_A_CALL = 1000


@dataclass(frozen=True)
class _Called:
    """The name of an id; `facts`, if any, tell apart objects with equal kind and name."""

    kind: str
    id: object
    name: str
    facts: str = ""


Ask: TypeAlias = Callable[[Carrel, list[str]], Iterator[_Called]]


class Names:
    """A session's known names by id, cached for a minute. Unknown names are fetched in batches per kind."""

    def __init__(self) -> None:
        self._known: dict[str, _Called] = {}
        self._asked: set[tuple[str, str]] = set()
        self._since = 0.0

    def of(self, client: Carrel, wanted: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return at least the names of the wanted (kind, id). Deleted objects have none."""
        if time.monotonic() - self._since > FRESH_SECONDS:
            self._known, self._asked, self._since = {}, set(), time.monotonic()
        missing = frozenset(wanted) - self._asked

        def look_up(batch: tuple[Ask, list[str]]) -> list[_Called]:
            ask, ids = batch
            return list(ask(client, ids))

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = list(pool.map(look_up, _batch_by_list(missing)))
        self._known |= {str(call.id): call for found in answers for call in found}
        self._asked |= missing
        return _disambiguate(self._known)


def names_for(entries: Iterable[AuditEntry]) -> dict[str, str]:
    names = cast("Names", st.session_state.setdefault("log.names", Names()))
    return show_errors(lambda: names.of(api.client(), ids_in(entries)))


def _batch_by_list(missing: Iterable[tuple[str, str]]) -> list[tuple[Ask, list[str]]]:
    """Return the valid ids to look up in each list of the service, in batches as large as a call allows."""
    ids: dict[Ask, set[str]] = {}
    for kind, identity in missing:
        for ask in _ASKED.get(kind, ()) if is_id(identity) else ():
            ids.setdefault(ask, set()).add(identity)
    sorted_ids = {ask: sorted(some) for ask, some in ids.items()}
    return [
        (ask, some[start : start + _A_CALL])
        for ask, some in sorted_ids.items()
        for start in range(0, len(some), _A_CALL)
    ]


def _disambiguate(known: Mapping[str, _Called]) -> dict[str, str]:
    shared = Counter((each.kind, each.name) for each in known.values())
    return {
        identity: f"{each.name} ({each.facts})" if each.facts and shared[each.kind, each.name] > 1 else each.name
        for identity, each in known.items()
    }


def _find_organization(client: Carrel, ids: list[str]) -> Iterator[_Called]:
    organization_id = client.admin.organization.get().organization_id
    if str(organization_id) in ids:
        yield _Called(HOLDER, organization_id, EVERYONE)


def _list_by(
    lists: Callable[[Carrel], Callable[..., Iterable[Any]]], called: Callable[[Any], _Called], *, by: str = "ids"
) -> Ask:
    return lambda client, ids: map(called, lists(client)(**{by: ids}, page_size=_A_CALL))


_people = _list_by(lambda client: client.admin.users.list, lambda item: _Called(PERSON, item.id, item.name, item.email))
_groups = _list_by(
    lambda client: client.admin.groups.list, lambda item: _Called(GROUP, item.id, item.name, f"…{str(item.id)[-6:]}")
)
_accounts = _list_by(
    lambda client: client.admin.service_accounts.list,
    lambda item: _Called(SERVICE_ACCOUNT, item.service_account_id, item.display_name, item.email),
)
_applications = _list_by(
    lambda client: client.admin.oauth_clients.list,
    lambda item: _Called(APPLICATION, item.client_id, item.name, f"…{str(item.client_id)[-6:]}"),
)
_resources = _list_by(
    lambda client: client.admin.access.list_resources,
    lambda item: _Called(DOCUMENT, item.object_id, item.name or ""),
    by="object_ids",
)
_ASKED: Mapping[str, tuple[Ask, ...]] = {
    PERSON: (_people,),
    GROUP: (_groups,),
    SERVICE_ACCOUNT: (_accounts,),
    APPLICATION: (_applications,),
    "organization": (_find_organization,),
    HOLDER: (_find_organization, _people, _groups, _accounts),
    DOCUMENT: (_resources,),
    COLLECTION: (_resources,),
    AGENT: (_resources,),
}
