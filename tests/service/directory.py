"""Helpers for setting up an organization over HTTP, and for reading refusals."""

from typing import Any, LiteralString
from uuid import UUID

import httpx

from service.domains.people.directory.organizations import create_organization
from service.permissions.service import Access, register_resource
from service.platform.identifiers import uuid7
from service.platform.secrets import API_KEY, mint
from tests.harness.documents import ok as done
from tests.harness.services import RunningService


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def a_key(service: RunningService, **body: Any) -> dict[str, Any]:
    return done(service.call("admin/apiKeys/create", {"name": "a key", **body}))


def a_user(service: RunningService, email: str, **body: Any) -> dict[str, Any]:
    return done(service.call("admin/users/upsert", {"users": [{"email": email, **body}]}))["users"][0]


def a_group(service: RunningService, name: str, *members: dict[str, Any], **body: Any) -> dict[str, Any]:
    groups = [{"name": name, "members": list(members), **body}]
    return done(service.call("admin/groups/upsert", {"groups": groups}))["groups"][0]


def user(email: str) -> dict[str, Any]:
    return {"type": "user", "email": email}


def group(one: dict[str, Any]) -> dict[str, Any]:
    return {"type": "group", "id": one["id"]}


def document(document_id: str) -> dict[str, str]:
    return {"resourceId": document_id, "resourceType": "UPLOADED_DOCUMENT"}


def collection(collection_id: str) -> dict[str, str]:
    return {"resourceId": collection_id, "resourceType": "DOCUMENT_COLLECTION"}


def organization_id(service: RunningService, *, api_key: str | None = None) -> UUID:
    return UUID(done(service.call("admin/organization/get", api_key=api_key))["organizationId"])


def on_rows(
    service: RunningService, statement: LiteralString, *values: object, more: LiteralString = ""
) -> list[tuple[Any, ...]]:
    """Run a statement without WHERE (`more` continues it) on the organization's rows, as owner; return rows."""
    statement = f"{statement} WHERE organization_id = %s {more}"
    return service.execute(statement, [*values, organization_id(service)])


def a_resource(
    service: RunningService, resource_id: str, *, resource_type: str = "UPLOADED_DOCUMENT", owner: str | None = None
) -> dict[str, str]:
    organization = organization_id(service)
    service.in_transaction(
        organization,
        lambda connection: register_resource(
            connection,
            organization,
            object_id=uuid7(),
            resource_type=resource_type,
            resource_id=resource_id,
            access=Access(owner_id=UUID(owner) if owner else None),
        ),
    )
    return {"resourceId": resource_id, "resourceType": resource_type}


def grant(
    service: RunningService, resource: dict[str, str], *principals: dict[str, Any], role: str = "VIEWER", **body: Any
) -> dict[str, Any]:
    given = [{"principal": one, "role": role} for one in principals]
    return done(service.call("admin/grants/set", {"resource": resource, "grants": given, **body}))


def another_organization(service: RunningService, *, admin_email: str = "admin@other.test") -> str:
    key, organization = mint(API_KEY), uuid7()
    service.in_transaction(
        organization,
        lambda one: create_organization(one, organization, name="Other", admin_email=admin_email, api_key=key),
    )
    return key.value.get_secret_value()


def readers(service: RunningService, resource: dict[str, str], *, page_size: int = 1000, **options: Any) -> list[str]:
    body = {"resource": resource, "action": "READ"}
    found = walk(service, "permissions/listAuthorizedPrincipalsForResource", body, page_size=page_size, **options)
    return [one.get("email", one["name"]) for one in found]


def entries(service: RunningService, **body: Any) -> list[dict[str, Any]]:
    return walk(service, "admin/auditLog/query", body)


def readable(service: RunningService, email: str | None = None, **body: Any) -> list[str]:
    body = {"action": "READ", **({"userEmail": email} if email else {}), **body}
    return [one["resourceId"] for one in walk(service, "permissions/listAuthorizedResources", body)]


def walk(
    service: RunningService, operation: str, body: dict[str, Any] | None = None, *, page_size=1000, **options: Any
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while True:
        page = done(service.call(operation, {**(body or {}), "pageSize": page_size, **token}, **options))
        items += next(value for value in page.values() if isinstance(value, list))
        if "nextPageToken" not in page:
            return items
        assert token.get("pageToken") != page["nextPageToken"], "the walk does not get on"
        token = {"pageToken": page["nextPageToken"]}
