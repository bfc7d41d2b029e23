"""Answering a SCIM request with the protocol's library, over Carrel's people and groups."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast
from uuid import UUID

from scim2_models import PatchOp, Resource, ResourceType, SCIMException
from scim2_models.path import AttrPath, CompareOperator, Comparison, ValuePath
from scim2_server.conditions import Conditions
from scim2_server.handler import ScimHandler
from scim2_server.requests import ScimRequest
from scim2_server.responses import ScimResponse
from scim2_server.service import ScimService

from service.domains.people.scim.groups import parse_member_id
from service.domains.people.scim.models import FilteredUser, User, describe_provider
from service.domains.people.scim.storage import Storage
from service.platform.errors import BadRequest, ServiceError

# The most operations of a request that may each read all members of a group.
MOST_COMPLEX = 10
# Carrel's error codes with a scimType of their own (RFC 7644, section 3.12).
_TYPES = {"last_admin": "mutability", "invalid_request": "invalidSyntax", "unknown_members": "invalidValue"}


class Refused(Exception):  # noqa: N818 - it carries an answer
    """A refusing answer; raised so that the transaction is rolled back."""

    def __init__(self, answer: ScimResponse) -> None:
        super().__init__()
        self.answer = answer


class Handler(ScimHandler):
    """The library's handler, with bulk changes of group members. `shows_members`: a PATCH answer may have members."""

    def __init__(self, service: ScimService, storage: Storage, *, shows_members: bool) -> None:
        super().__init__(service, storage)
        self._groups = storage
        self._shows_members = shows_members

    def patch_resource(
        self, resource_type: ResourceType, resource_id: str, patch_op: "PatchOp[Any]", conditions: Conditions
    ) -> Resource[Any]:
        """Apply a PATCH. Raises BadRequest for too many operations on members, if bulk changes are impossible."""
        changes = _split(patch_op) if resource_type.name == "Group" else None
        if changes is None:
            return super().patch_resource(resource_type, resource_id, patch_op, conditions)
        self.service.check_preconditions(self._groups.get_bare_group(resource_id), "PATCH", conditions)
        if changes.others:
            others = patch_op.model_copy(update={"operations": changes.others})
            super().patch_resource(resource_type, resource_id, others, Conditions())
        self._groups.change_members(resource_id, added=changes.added, removed=changes.removed)
        if self._shows_members:
            return self._groups.get(resource_type, resource_id)
        return self._groups.get_bare_group(resource_id)


def answer(storage: Storage, request: ScimRequest) -> ScimResponse:
    """Answer a request; call in a thread. Raises Refused for a refusal."""
    names_emails = "emails" in str(request.query).lower() or (
        request.path.endswith("/.search") and b"emails" in (request.body or b"").lower()
    )
    service = _service(FilteredUser if names_emails else User)
    try:
        return Handler(service, storage, shows_members=bool(request.query)).handle(request)
    except SCIMException as error:
        raise Refused(service.error_response(error)) from error


def refusal_of(error: ServiceError) -> ScimResponse:
    body: dict[str, Any] = {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
        "status": str(error.status),
        "detail": error.message,
    }
    if error.code in _TYPES:
        body["scimType"] = _TYPES[error.code]
    return ScimResponse(status=cast("Any", error.status), body=body, headers=error.headers)


@cache
def _service(user: type[User]) -> ScimService:
    return ScimService(describe_provider(user))


@dataclass
class _Changes:
    """The effects of a PATCH on a group: members to add and remove, and operations unrelated to members."""

    added: set[UUID] = field(default_factory=set[UUID])
    removed: set[UUID] = field(default_factory=set[UUID])
    others: list[Any] = field(default_factory=list[Any])


def _split(patch: "PatchOp[Any]") -> _Changes | None:
    """Return a PATCH's changes to a group, None if members change not by ids; BadRequest for too many operations."""
    changes, operations = _Changes(), patch.operations or ()
    for operation in operations:
        if not _is_about_members(operation):
            changes.others.append(operation)
            continue
        values = _changed_members(operation)
        if not values:
            if len(operations) > MOST_COMPLEX:
                raise BadRequest(
                    f"More than {MOST_COMPLEX} operations add and remove members only by id. Send fewer operations."
                )
            return None
        ids = {parse_member_id(value) for value in values}
        is_added = operation.op == operation.Op.add
        coming, going = (changes.added, changes.removed) if is_added else (changes.removed, changes.added)
        coming |= ids
        going -= ids
    return changes


def _is_about_members(operation: Any) -> bool:
    if operation.path is None:
        names = cast("dict[str, Any]", operation.value) if isinstance(operation.value, dict) else {"members": None}
        return any("members" in name.lower() for name in names)
    node = operation.path.ast
    attribute = node.attr_path if isinstance(node, ValuePath) else node
    return not isinstance(attribute, AttrPath) or attribute.attr.lower() == "members"


def _changed_members(operation: Any) -> Sequence[str] | None:
    """Return the member ids that an operation adds or removes; None if it changes members in another way."""
    node = None if operation.path is None else operation.path.ast
    if operation.op == operation.Op.replace_:
        return None
    if isinstance(node, AttrPath) and node.sub_attr is None:
        return _member_ids(operation.value)
    if isinstance(node, ValuePath) and operation.op == operation.Op.remove and operation.value is None:
        wanted = node.val_filter
        if node.sub_attr is not None or not isinstance(wanted, Comparison):
            return None
        is_id = wanted.op is CompareOperator.eq and wanted.attr_path == AttrPath("value")
        return [str(wanted.value)] if is_id else None
    return None


def _member_ids(given: Any) -> Sequence[str] | None:
    members = cast("list[Any]", given if isinstance(given, list) else [given])
    values = [cast("dict[str, Any]", member).get("value") for member in members if isinstance(member, dict)]
    return [str(value) for value in values] if values and len(values) == len(members) and all(values) else None
