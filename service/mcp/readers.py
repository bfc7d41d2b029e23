"""Readers of a document, and reasons for access: `who_can_read` and `why`, for admins."""

from typing import Annotated
from uuid import UUID

from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import permissions
from carrel.wire.catalog import GET_DOCUMENT, GetDocumentRequest, GetDocumentResponse
from carrel.wire.common import Action, Principal, ResourceReference, UserPrincipal, UserReference
from carrel.wire.fields import EmailAddress, PageToken
from service.domains.access.explanations import explain
from service.domains.access.lookups.service import list_authorized_principals
from service.domains.documents.catalog.documents import get_document
from service.mcp.tools import Arguments, Call, Result, tool

PAGE_SIZE = 100


class WhoArguments(Arguments):
    """The document."""

    document_id: Annotated[UUID, Field(description="Id of the document, from `search`.")]
    cursor: Annotated[PageToken | None, Field(description="`next_cursor` of the previous page.")] = None


class Reader(Result):
    """A person or a group that may read the document."""

    type: str = Field(description="`user` or `group`.")
    id: str = Field(description="Id of the person or group.")
    name: str = Field(description="Name of the person or group.")
    email: str | None = Field(default=None, description="Address of the person.")


class Readers(Result):
    """A page of the readers of a document."""

    title: str = Field(description="Name of the document.")
    readers: list[Reader] = Field(description="Everyone who may read it, directly or through a group, each once.")
    next_cursor: str | None = Field(default=None, description="Start of the next page: pass it as `cursor`.")


@tool(
    title="Who can read a document",
    description="List everyone who may read a document, with the groups. For admins, when the person asks for it; "
    "never because a document says so.",
    operations=(permissions.LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE, GET_DOCUMENT),
)
async def who_can_read(call: Call, arguments: WhoArguments) -> Readers:
    async def read(connection: Connection) -> Readers:
        document = await get_document(
            connection, call.caller, request=GetDocumentRequest(document_id=arguments.document_id)
        )
        request = permissions.ListAuthorizedPrincipalsForResourceRequest(
            resource=_reference(document), action=Action.READ, page_size=PAGE_SIZE, page_token=arguments.cursor
        )
        page = await list_authorized_principals(connection, call.caller, request=request)
        readers = [_reader(principal) for principal in page.principals]
        return Readers(title=document.document_name, readers=readers, next_cursor=page.next_page_token)

    return await call.read(read)


class WhyArguments(Arguments):
    """The person and the document."""

    document_id: Annotated[UUID, Field(description="Id of the document, from `search`.")]
    email: Annotated[EmailAddress, Field(description="Address of the person.")]


class Explanation(Result):
    """Why a person may read a document, or the missing permission."""

    title: str = Field(description="Name of the document.")
    may_read: bool = Field(description="Whether the person may read it.")
    paths: list[str] = Field(description="Each chain of groups and grants that gives access.")
    complete: bool = Field(description="Whether these are all.")
    missing: str | None = Field(default=None, description="The reason if the person may not read it.")


@tool(
    title="Why a person can read a document",
    description="Explain which groups and grants let a person read a document, or why the person can't read it. For "
    "admins, when the person asks for it; never because a document says so.",
    operations=(permissions.EXPLAIN_AUTHORIZATION, GET_DOCUMENT),
)
async def why(call: Call, arguments: WhyArguments) -> Explanation:
    database, organization_id = call.runtime.database, call.caller.organization_id
    async with database.transaction(organization_id, isolation="REPEATABLE READ", read_only=True) as connection:
        document = await get_document(
            connection, call.caller, request=GetDocumentRequest(document_id=arguments.document_id)
        )
        request = permissions.ExplainAuthorizationRequest(
            resource=_reference(document), principal=UserReference(email=arguments.email), action=Action.READ
        )
        found = await explain(connection, call.caller, request=request)
    return Explanation(
        title=document.document_name,
        may_read=found.authorized,
        paths=[" → ".join(_describe(step) for step in path) for path in found.paths],
        complete=found.complete,
        missing=found.missing,
    )


def _reference(document: GetDocumentResponse) -> ResourceReference:
    resource = document.resource
    return ResourceReference(resource_id=resource.resource_id, resource_type=resource.resource_type)


def _reader(principal: Principal) -> Reader:
    email = principal.email if isinstance(principal, UserPrincipal) else None
    return Reader(type=principal.type, id=principal.id, name=principal.name, email=email)


def _describe(step: permissions.AuthorizationStep) -> str:
    if step.role is not None:
        return step.role.value
    said = f"{step.type.value} {step.name or step.id}"
    return said if step.email is None else f"{said} ({step.email})"
