"""The owner and admins plan and change a collection's fields. A plan names only documents that they may READ."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import collections as wire
from carrel.wire.collections import FieldChange, SchemaFieldInfo, ValueEffect, ValueExample
from carrel.wire.common import digest_of
from service.audit.service import record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.domains.documents.collections import queries
from service.domains.documents.collections.queries import MemberValues, StoredCollection
from service.domains.documents.collections.service import find_unfit_choices, lock_owned, require_owned
from service.index.spaces.queries import lock_spaces, stands_for
from service.platform.errors import BadRequest, Conflict, FieldError
from service.platform.identifiers import NIL

MOST_FIELDS = 200
MOST_CHANGED = 100_000
MOST_EXAMPLES = 5
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class _Step:
    """A change of the field `before` (None: a new field) to the field `after` (None: removed), and its effects."""

    change: FieldChange
    before: SchemaFieldInfo | None
    after: SchemaFieldInfo | None
    counts: Counter[ValueEffect] = field(default_factory=Counter[ValueEffect])
    examples: dict[ValueEffect, list[ValueExample]] = field(default_factory=lambda: defaultdict(list))
    unread: set[ValueEffect] = field(default_factory=set[ValueEffect])
    """Effects on documents that the caller may not READ."""
    changed: Any = field(default_factory=hashlib.sha256)
    """Digest of the readable documents whose values don't stay."""

    @property
    def name(self) -> str:
        return self.change.field or self.change.name or ""

    @property
    def narrows(self) -> bool:
        """Whether the field takes fewer values than before by its choices."""
        wanted, had = ((field and field.choices) or [] for field in (self.after, self.before))
        return bool(wanted) and not (had and set(had) <= set(wanted))

    def apply(self, member: MemberValues) -> str:
        """Note the effect on a document's value, and return the new value; empty: none."""
        held = member.custom_metadata.get(self.before.name, "") if self.before else ""
        effect, value = self._convert(held)
        if effect is None:
            return value
        if not member.may_read:
            # An effect that depends on the hidden value would reveal whether it is among the choices.
            self.unread.add(ValueEffect.UNFIT if held and self.narrows else effect)
            return value
        self.counts[effect] += 1
        if effect is not ValueEffect.KEPT:
            self.changed.update(repr((member.document_id, held)).encode())
        if self.counts[effect] <= MOST_EXAMPLES:
            name, document_id = member.name, member.document_id
            example = ValueExample(document_id=document_id, document_name=name, before=held, after=value)
            self.examples[effect].append(example)
        return value

    def _convert(self, held: str) -> tuple[ValueEffect | None, str]:
        """Return the effect on a held value (None: none), and the new value; empty for an unfit or removed value."""
        if self.after is None:
            return (ValueEffect.REMOVED if held else None), ""
        if not held and self.change.value:
            return ValueEffect.FILLED, self.after.read(self.change.value) or ""
        if not held:
            return (ValueEffect.UNFIT if self.after.required else None), ""
        value = self.after.read(held)
        effect = ValueEffect.UNFIT if not value else ValueEffect.KEPT if value == held else ValueEffect.CONVERTED
        return effect, value or ""


async def plan_changes(
    connection: Connection, caller: Caller, *, request: wire.PlanFieldChangesRequest
) -> wire.CollectionFields:
    """Plan changes of a collection's fields, with effects on values. 404, 403 except for owner and admins, 400."""
    collection = await require_owned(connection, caller, collection_id=request.document_collection_id)
    steps = _read_changes(request.changes, collection)
    await _work_through(connection, caller, collection, steps, saves=False)
    return _to_plan(collection, steps)


async def change_fields(
    connection: Connection, caller: Caller, *, request: wire.ChangeFieldsRequest
) -> wire.CollectionFields:
    """Change a collection's fields and its documents' values. 409 for another plan or unfit values; 404, 403, 400."""
    organization_id, collection_id = caller.organization_id, request.document_collection_id
    collection = await lock_owned(connection, caller, collection_id=collection_id)
    await lock_spaces(connection, organization_id, stands_for(collection.space_id), exclusively=True)
    steps = _read_changes(request.changes, collection)
    await _work_through(connection, caller, collection, steps, saves=True)
    plan = _to_plan(collection, steps)
    await refuse_stale(connection, caller, request.version, plan, target_id=collection_id)
    _refuse_unfit(steps)
    after = plan.model_copy(update={"fields": _fields_after(collection, steps), "version": None})
    rows = [item.model_dump(mode="json", exclude_none=True) for item in after.fields]
    await queries.write_fields(connection, organization_id, collection_id=collection_id, fields=rows)
    change = change_between("collection.change_fields", "collection", collection_id, plan, after)
    await record_all(connection, caller, changes=[change] if after.fields != plan.fields else [])
    return after


def _read_changes(changes: Sequence[FieldChange], collection: StoredCollection) -> list[_Step]:
    """Read changes of fields in order; BadRequest `invalid_fields` names the errors of all changes."""
    known = collection.schema
    steps, errors = list[_Step](), list[FieldError]()
    for number, each in enumerate(changes):
        before = known.get(each.field or "")
        name, kind = each.name or each.field, each.type or (before and before.type)
        if each.field is not None and before is None:
            message = f"The collection has no field “{each.field}”. Its fields: {', '.join(known) or 'none'}."
            errors.append(FieldError(f"changes.{number}.field", message))
        elif before is not None and any(step.before is before for step in steps):
            message = f"Two changes are for the field “{each.field}”. Send one change for each field."
            errors.append(FieldError(f"changes.{number}.field", message))
        elif name is None or kind is None:
            errors.append(FieldError(f"changes.{number}", "A new field needs a name and a type."))
        else:
            required = (before and before.required) if each.required is None else each.required
            choices = (before and before.choices) if each.choices is None else each.choices
            after = SchemaFieldInfo(name=name, type=kind, required=required or None, choices=choices or None)
            if each.value and not after.read(each.value):
                errors.append(FieldError(f"changes.{number}.value", after.explain(each.value)))
            steps.append(_Step(each, before, None if each.remove else after))
    fields = _fields_after(collection, steps)
    names = [field.name for field in fields]
    errors += find_unfit_choices(fields, "changes")
    if twice := sorted({item for item in names if names.count(item) > 1}):
        errors.append(FieldError("changes", f"Choose other names. Two fields would have the name {', '.join(twice)}."))
    if len(names) > MOST_FIELDS:
        errors.append(FieldError("changes", f"A collection has at most {MOST_FIELDS} fields."))
    if errors:
        raise BadRequest(f"{errors[0].field}: {errors[0].message}", code="invalid_fields", details=errors)
    return steps


def _fields_after(collection: StoredCollection, steps: Sequence[_Step]) -> list[SchemaFieldInfo]:
    changed = {step.before.name: step.after for step in steps if step.before}
    old = [changed.get(item.name, item) for item in collection.schema.values()]
    return [item for item in (*old, *(step.after for step in steps if step.before is None)) if item]


async def _work_through(
    connection: Connection, caller: Caller, collection: StoredCollection, steps: Sequence[_Step], *, saves: bool
) -> None:
    """Note the steps' effects on each document, and save new values (`saves`). Only optional new fields without a value
    need no look at documents. BadRequest `too_many_to_change` above MOST_CHANGED documents."""
    if not any(step.before or step.change.value or step.change.required for step in steps):
        return
    read, after, space_id = 0, NIL, collection.space_id
    while members := await queries.list_values(connection, caller, space_id=space_id, after=after, limit=_AT_ONCE):
        read, after = read + len(members), members[-1].document_id
        if read > MOST_CHANGED:
            message = f"The collection has more than {MOST_CHANGED:,} documents. Add only optional fields."
            raise BadRequest(message, code="too_many_to_change")
        changed = {one.document_id: values for one in members if (values := _apply(steps, one)) != one.custom_metadata}
        if saves and changed:
            await queries.write_values(connection, caller.organization_id, space_id=space_id, values=changed)


def _apply(steps: Sequence[_Step], member: MemberValues) -> dict[str, str]:
    """Note the steps' effects on a document, and return its new values."""
    old = {step.before.name for step in steps if step.before}
    stay = {name: value for name, value in member.custom_metadata.items() if name not in old}
    return stay | {step.after.name: value for step in steps if (value := step.apply(member)) and step.after}


def _to_plan(collection: StoredCollection, steps: Sequence[_Step]) -> wire.CollectionFields:
    fields = [*collection.schema.values()]
    effects = [
        wire.FieldEffect(field=step.name, effect=effect, count=count, examples=step.examples[effect])
        for step in steps
        for effect, count in step.counts.items()
    ]
    hidden = any(ValueEffect.UNFIT in step.unread for step in steps)
    said = [hidden, *(item.model_dump(mode="json") for item in fields), *(step.changed.hexdigest() for step in steps)]
    return wire.CollectionFields(fields=fields, effects=effects, hidden_unfit=hidden or None, version=digest_of(said))


def _refuse_unfit(steps: Sequence[_Step]) -> None:
    errors = [
        FieldError(f"changes.{number}.emptyUnfit", f"{_say_unfit(step)} no value that fits the field “{step.name}”.")
        for number, step in enumerate(steps)
        if not step.change.empty_unfit and ValueEffect.UNFIT in {*step.counts, *step.unread}
    ]
    if errors:
        message = f"Nothing was changed: {errors[0].message} Correct the values, or empty them (emptyUnfit)."
        raise Conflict(message, code="unfit_values", details=errors)


def _say_unfit(step: _Step) -> str:
    if count := step.counts[ValueEffect.UNFIT]:
        return f"{count:,} documents (such as {step.examples[ValueEffect.UNFIT][0].document_name}) have"
    return "Documents that you may not read have"
