"""Versions of editable objects: a stale change is refused, and audit entries have old and new values."""

import json
from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import MeanwhileChange, Versioned
from service.audit import queries
from service.audit.service import Change
from service.auth.callers import Caller
from service.platform.errors import Conflict

LONGEST = 500
"""Most characters of a text in an entry; the versions of an agent hold full texts."""
_BEFORE = 100


async def refuse_stale(
    connection: Connection, caller: Caller, expected: str | None, current: Versioned | None, *, target_id: UUID
) -> None:
    """Raise 409 `changed_meanwhile` unless `expected` is None or the version of `current`, which the caller locked."""
    if expected is None or (current is not None and current.version == expected):
        return
    last = await queries.find_last_change(connection, caller.organization_id, target_id=target_id)
    by = last.actor_name if last is not None and caller.is_admin else None
    error = Conflict(
        f"This was changed after you read it, most recently by {by or 'another person'}. Your change was not saved. "
        "Read it again, and send your change with the new version.",
        code="changed_meanwhile",
    )
    shown = {} if current is None else current.model_dump(mode="json", exclude_none=True)
    meanwhile = MeanwhileChange(current=shown, changed_at=last and last.at, changed_by=by)
    error.meanwhile = meanwhile.model_dump(mode="json", exclude_none=True)
    raise error


def change_between(
    action: str,
    target_type: str,
    target_id: UUID,
    before: Versioned,
    after: Versioned,
    *,
    details: Mapping[str, Any] | None = None,
) -> Change:
    """Build an audit entry for a change of edited members. People's words go to the erasable text, except secrets."""
    changes = differences(before, after)
    words = {
        to_camel(name)
        for name in after.edited
        if name in after.worded or _has_words(getattr(before, name)) or _has_words(getattr(after, name))
    }
    shown = {member: None if member in words else pair for member, pair in changes.items()}
    hidden = set(map(to_camel, after.secret))
    said = {member: pair for member, pair in changes.items() if member in words - hidden}
    return Change(action, target_type, target_id, {**(details or {}), "changes": shown}, to_text(said))


def differences(before: Versioned, after: Versioned) -> dict[str, dict[str, object]]:
    """Return the old and new value of each changed member of `edited`, by wire name; long texts are cut."""
    old, new = (versioned.model_dump(mode="json", include={*after.edited}) for versioned in (before, after))
    return {member: _cut_around_difference(old[member], new[member]) for member in new if old[member] != new[member]}


def to_text(changes: Mapping[str, object]) -> str:
    return json.dumps(changes, ensure_ascii=False) if changes else ""


def _has_words(value: object) -> bool:
    # Enum members are settings; a list contains the values that documents have in a collection.
    if isinstance(value, list):
        return any(isinstance(item, BaseModel) for item in cast("list[object]", value))
    return type(value) is str or isinstance(value, BaseModel | dict)


def _cut_around_difference(old: object, new: object) -> dict[str, object]:
    start = 0
    if isinstance(old, str) and isinstance(new, str):
        pairs = enumerate(zip(old, new, strict=False))
        start = max(0, next((at for at, (old, new) in pairs if old != new), 0) - _BEFORE)
    return {"from": _cut(old, start), "to": _cut(new, start)}


def _cut(value: object, start: int) -> object:
    if isinstance(value, dict):
        return {name: _cut(item, 0) for name, item in cast("dict[str, object]", value).items()}
    if not isinstance(value, str) or len(value) <= LONGEST:
        return value
    end = start + LONGEST
    return f"{'…' if start else ''}{value[start:end]}{'…' if end < len(value) else ''}"
