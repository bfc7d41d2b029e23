"""Answering a SCIM request by the library, which knows the protocol, over Carrel's people and groups."""

from collections.abc import Sequence
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

from service.domains.scim.groups import to_id
from service.domains.scim.models import describe_provider
from service.domains.scim.storage import Storage
from service.platform.errors import ServiceError

# What SCIM has words of its own for (RFC 7644, section 3.12).
_TYPES = {"last_admin": "mutability", "invalid_request": "invalidSyntax"}


class Refused(Exception):  # noqa: N818 - it carries an answer
    """An answer that refuses, so that the transaction it was made in is rolled back."""

    def __init__(self, answer: ScimResponse) -> None:
        super().__init__()
        self.answer = answer


class Handler(ScimHandler):
    """The library's handler, but that members added to a group or removed from it are not compared with all others."""

    def patch_resource(
        self, resource_type: ResourceType, resource_id: str, patch_op: "PatchOp[Any]", conditions: Conditions
    ) -> Resource[Any]:
        """Apply a PATCH; one of members alone in bulk, unless it depends on the group's version."""
        changes = _member_changes(patch_op) if resource_type.name == "Group" and conditions == Conditions() else None
        if changes is None:
            return super().patch_resource(resource_type, resource_id, patch_op, conditions)
        added, removed = changes
        return cast("Storage", self.storage).change_members(resource_id, added=added, removed=removed)


def answer(storage: Storage, request: ScimRequest) -> ScimResponse:
    """Answer a request; to be called in a thread. Raises Refused for what is refused."""
    handler = Handler if not request.query else ScimHandler
    try:
        return handler(_service(), storage).handle(request)
    except SCIMException as error:
        raise Refused(_service().error_response(error)) from error


def refusal_of(error: ServiceError) -> ScimResponse:
    """Return an error of the service in SCIM's form."""
    body: dict[str, Any] = {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
        "status": str(error.status),
        "detail": error.message,
    }
    if error.code in _TYPES:
        body["scimType"] = _TYPES[error.code]
    return ScimResponse(status=cast("Any", error.status), body=body, headers=error.headers)


@cache
def _service() -> ScimService:
    return ScimService(describe_provider())


def _member_changes(patch: "PatchOp[Any]") -> tuple[set[UUID], set[UUID]] | None:
    """Return who comes into a group and who goes, if that is all a PATCH says; else None."""
    added, removed = set[UUID](), set[UUID]()
    for operation in patch.operations or ():
        node = None if operation.path is None else operation.path.ast
        coming, going = (added, removed) if operation.op == operation.Op.add else (removed, added)
        if operation.op == operation.Op.replace_:
            return None
        if isinstance(node, AttrPath) and (node.attr.lower(), node.sub_attr) == ("members", None):
            values = _values(operation.value)
        elif isinstance(node, ValuePath) and operation.op == operation.Op.remove and operation.value is None:
            values = _selected(node)
        else:
            return None
        if not values:
            return None
        ids = {to_id(value) for value in values}
        coming |= ids
        going -= ids
    return added, removed


def _values(given: Any) -> Sequence[str] | None:
    members = cast("list[Any]", given if isinstance(given, list) else [given])
    values = [cast("dict[str, Any]", one).get("value") for one in members if isinstance(one, dict)]
    return [str(value) for value in values] if values and len(values) == len(members) and all(values) else None


def _selected(node: ValuePath) -> Sequence[str] | None:
    wanted = node.val_filter
    if node.attr_path.attr.lower() != "members" or node.sub_attr is not None or not isinstance(wanted, Comparison):
        return None
    is_id = wanted.op is CompareOperator.eq and wanted.attr_path == AttrPath("value")
    return [str(wanted.value)] if is_id else None
