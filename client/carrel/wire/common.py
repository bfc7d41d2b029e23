"""Bases of the wire models. Requests refuse unknown members; responses ignore them, for newer services.
Members are camelCase on the wire (seed, "Resources and their fields"; wire contract, "Conventions")."""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast, get_args, get_origin
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel

from carrel.wire.frames import frame_of
from carrel.wire.schemas import complete_request, complete_response

if TYPE_CHECKING:
    import pandas as pd

from carrel.wire.fields import NO_NUL, EmailAddress, Identifier, Instant, PageToken

_IN_PYTHON = object()
"""Validation context of requests made in Python, with Python names of members."""


class RequestModel(BaseModel):
    """A request body, or an object in it: unknown members are refused by name."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )

    def __init__(self, /, **members: Any) -> None:
        """Create a request in Python; members may have their Python names or their wire names."""
        validate = self.__pydantic_validator__.validate_python
        validate(members, self_instance=self, context=_IN_PYTHON, by_alias=True, by_name=True)

    # Without this mark, validation would call `__init__`, and a body could use the Python names.
    __init__.__pydantic_base_init__ = True  # pyright: ignore[reportFunctionMemberAccess]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler(schema)
        complete_request(cls, handler.resolve_ref_schema(described))
        return described

    @model_validator(mode="before")
    @classmethod
    def leave_out_nulls(cls, members: Any, info: ValidationInfo) -> Any:
        """Treat null as omitted for an optional member with a default."""
        if not isinstance(members, dict):
            return members
        known = cast("dict[str, Any]", members)
        if all(value is not None for value in known.values()):
            return known
        defaulted = _defaulted_members(cls, in_python=info.context is _IN_PYTHON)
        return {name: value for name, value in known.items() if value is not None or name not in defaulted}

    def to_json(self) -> bytes:
        """Return the JSON body: UTF-8, camelCase, without members of None."""
        return self.__pydantic_serializer__.to_json(self, by_alias=True, exclude_none=True)


@cache
def _defaulted_members(model: type[RequestModel], *, in_python: bool) -> frozenset[str]:
    return frozenset(
        spelling
        for name, field in model.model_fields.items()
        if not field.is_required() and field.get_default(call_default_factory=True) is not None
        for spelling in ((name, str(field.alias)) if in_python else (str(field.alias),))
    )


class ResponseModel(BaseModel):
    """A response body, or an object in it: unknown members are ignored."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler(schema)
        complete_response(cls, handler.resolve_ref_schema(described))
        return described

    if TYPE_CHECKING:

        @property
        def request_id(self) -> str | None:
            """The name of the request in the service's logs, of a whole answer."""
            ...

    else:  # a property would hide members with this name

        def __getattr__(self, name: str) -> Any:
            return self.__dict__.get("_request_id") if name == "request_id" else super().__getattr__(name)


class Versioned(ResponseModel):
    """An editable resource, with the version of its editable members."""

    edited: ClassVar[tuple[str, ...]] = ()
    """Names of the members covered by the version; if empty, the service gives another version."""
    secret: ClassVar[tuple[str, ...]] = ()
    """Names of edited members with values left out of the audit log."""
    worded: ClassVar[tuple[str, ...]] = ()
    """Names of edited members with lists of people's words; the audit log keeps the words in its erasable text."""
    version: str | None = None
    """Version of the editable members; a change with an outdated version is refused (409 `changed_meanwhile`)."""

    @model_validator(mode="after")
    def _make_version(self, info: ValidationInfo) -> Self:
        # The service creates answers in Python. A client reads them as JSON, with the service's version.
        if self.version is None and self.edited and info.mode == "python":
            vars(self)["version"] = digest_of(self.model_dump(mode="json", include={*self.edited}))
        return self


def digest_of(value: object) -> str:
    """Return a digest of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


class VersionedRequest(RequestModel):
    """A change of a resource that several people may edit."""

    version: Annotated[str, Field(max_length=100), NO_NUL] | None = None
    """Version of the resource when it was read; absent: the change overwrites concurrent changes."""


class Tabular(ResponseModel):
    """A response with a list of similar objects, suitable as a table."""

    rows_in: ClassVar[str]
    """Name of the member with the list."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        lists = (name for name, field in cls.model_fields.items() if get_origin(field.annotation) is list)
        cls.rows_in = next(lists, "")

    def to_frame(self) -> "pd.DataFrame":
        """Return the rows as a pandas DataFrame, in order; see `carrel.wire.frames.frame_of`."""
        return frame_of(self.table_rows(), self.row_type())

    def table_rows(self) -> Sequence[BaseModel]:
        """Return the rows of the table."""
        return cast("Sequence[BaseModel]", getattr(self, self.rows_in))

    @classmethod
    def row_type(cls) -> object:
        """Return the type of a line: a model, or a union of models."""
        return get_args(cls.model_fields[cls.rows_in].annotation)[0]


class PagedResponse(Tabular):
    """A page of a list."""

    next_page_token: str | None = None
    """Token of the next page; absent on the last page."""


class ActingRequest(RequestModel):
    """A request that an API key may make for a user of the organization: the service must act as `user_email` if given,
    never as the key's owner (403 if the key may not, 400 for a service-account token or an unknown user)."""

    user_email: EmailAddress | None = None
    """Address of the user to act for; requires an API key that may act for users. Default: the caller."""


class FeedbackRequest(ActingRequest):
    """A request with an end user's feedback; unlike in other acting requests, the user may be unknown."""

    user_email: EmailAddress | None = None
    """Address of the end user giving feedback, for a key that may act for users (default: the caller). A user judges
    their own items, or the caller's. An unknown address goes into the audit entry, as the caller's feedback."""


class PagedRequest(RequestModel):
    """A request for a page of a list; a token is valid only for its own query."""

    page_size: Annotated[int, Field(strict=True, ge=1, le=1000)] = 10
    page_token: PageToken | None = None
    """Token from the previous page, valid only for the same query. Absent: the first page."""


class NarrowedRequest(PagedRequest):
    """A list with an optional filter by ids, at most 1000; unknown ids are ignored."""

    ids: Annotated[list[UUID] | None, Field(min_length=1, max_length=1000)] = None
    """Only items with these ids, at most 1000; unknown ids are ignored."""


class PagedParameters(PagedRequest):
    """Page size and token in a URL's query, with numbers as text."""

    page_size: Annotated[int, Field(ge=1, le=1000)] = 10


class ResourceType(StrEnum):
    """Kind of a resource in the source system."""

    GOOGLE_DRIVE_ITEM = "GOOGLE_DRIVE_ITEM"
    MICROSOFT_DRIVE_ITEM = "MICROSOFT_DRIVE_ITEM"
    BOX_FILE = "BOX_FILE"
    BOX_FOLDER = "BOX_FOLDER"
    CONFLUENCE_PAGE = "CONFLUENCE_PAGE"
    CONFLUENCE_SPACE = "CONFLUENCE_SPACE"
    JIRA_TICKET = "JIRA_TICKET"
    JIRA_PROJECT = "JIRA_PROJECT"
    NOTION_PAGE = "NOTION_PAGE"
    NOTION_DATABASE = "NOTION_DATABASE"
    SALESFORCE_TASK = "SALESFORCE_TASK"
    SLACK_CHANNEL = "SLACK_CHANNEL"
    ZENDESK_TICKET = "ZENDESK_TICKET"
    ZENDESK_ARTICLE = "ZENDESK_ARTICLE"
    UPLOADED_DOCUMENT = "UPLOADED_DOCUMENT"
    DOCSTORE_SYNC = "DOCSTORE_SYNC"
    DOCUMENT_COLLECTION = "DOCUMENT_COLLECTION"
    AGENT = "AGENT"
    UNKNOWN = "UNKNOWN"


class Role(StrEnum):
    """Role on a resource: a VIEWER may read the resource, an EDITOR may also change it, an OWNER may do everything."""

    OWNER = "OWNER"
    EDITOR = "EDITOR"
    VIEWER = "VIEWER"


class GrantRole(StrEnum):
    """The roles for grants. The owner role isn't granted: owners created the resource, or an admin assigned them."""

    EDITOR = "EDITOR"
    VIEWER = "VIEWER"


class SecondFactorPolicy(StrEnum):
    """The people required to give a second factor after a Carrel password; anyone with a second factor must always."""

    NOBODY = "NOBODY"
    ADMINS = "ADMINS"
    EVERYBODY = "EVERYBODY"


class SecondFactor(ResponseModel):
    """A proof in addition to a Carrel password; a passkey can replace the password."""

    kind: str
    """`TOTP` (an authenticator app) or `PASSKEY`; more kinds may follow."""
    name: str | None = None
    """Name of a passkey, chosen by the person; absent for apps."""
    synced: bool | None = None
    """Whether a passkey may be synced to the person's other devices; absent: unknown, or not a passkey."""
    created_at: Instant
    """When the person set up the factor."""
    last_used_at: Instant | None = None
    """When the person last used the factor; absent: never."""

    @property
    def description(self) -> str:
        """The kind, with a passkey's name and sync state: `passkey Laptop (synced)`."""
        kind = {"TOTP": "authenticator app", "PASSKEY": "passkey"}.get(self.kind, self.kind)
        where = "" if self.synced is None else " (synced)" if self.synced else " (this device only)"
        return f"{kind}{f' {self.name}' if self.name else ''}{where}"


class Action(StrEnum):
    """Actions of permission look-ups."""

    READ = "READ"


_RESOURCE_TYPES = frozenset(member.value for member in ResourceType)


def _known_type(value: object) -> object:
    return value if isinstance(value, str) and value in _RESOURCE_TYPES else ResourceType.UNKNOWN


class ResourceReference(RequestModel):
    """A resource in a request, named by its identity in the source system."""

    resource_id: Identifier
    resource_type: ResourceType


ReportedType = Annotated[ResourceType, BeforeValidator(_known_type)]
"""A type in a response; a type unknown to the client reads as UNKNOWN."""


class ResourceIdentifier(ResponseModel):
    """A resource named in a response."""

    resource_id: str
    resource_type: ReportedType


class NamedDocument(ResponseModel):
    """A document with its names for people and programs."""

    document_id: UUID
    document_name: str
    name = property(attrgetter("document_name"))
    document_external_id: str


class UserPrincipal(ResponseModel):
    """A user or a service account, by email address."""

    type: Literal["user"] = "user"
    """A user or a service account."""
    email: str
    id: str
    """Id of the user or service account."""
    name: str
    """Name of the user or service account."""


class GroupPrincipal(ResponseModel):
    """A group."""

    type: Literal["group"] = "group"
    id: str
    name: str


Principal = Annotated[UserPrincipal | GroupPrincipal, Field(discriminator="type")]
"""A principal in a response."""


class UserReference(RequestModel):
    """A user named in a request."""

    type: Literal["user"] = "user"
    """A user, by email address."""
    email: EmailAddress


class GroupReference(RequestModel):
    """A group named in a request."""

    type: Literal["group"] = "group"
    """A group, by id."""
    id: UUID


class ServiceAccountReference(RequestModel):
    """A service account named in a request."""

    type: Literal["serviceAccount"] = "serviceAccount"
    """A service account, by id."""
    id: UUID


PrincipalReference = Annotated[UserReference | GroupReference | ServiceAccountReference, Field(discriminator="type")]
"""A principal in an admin request."""


class ErrorDetail(ResponseModel):
    """A problem with a member of the request."""

    field: str
    """Path of the member in wire names, for example `searchOptions.maxResults`; empty for the whole body."""
    message: str
    """The problem with the member."""


class MeanwhileChange(ResponseModel):
    """A change by another caller after the resource was read."""

    current: dict[str, Any]
    """The current resource, in the shape used in lists; empty: deleted."""
    changed_at: Instant | None = None
    """When the resource was last changed; absent: unknown."""
    changed_by: str | None = None
    """Name of the person or program with the last change; absent: unknown, or the caller isn't an admin."""


class ErrorBody(ResponseModel):
    """Why a request was refused."""

    message: str
    """The problem and its solution, for people; the wording may change."""
    code: str = "error"
    """Stable code of the error, for programs."""
    request_id: str | None = None  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    confirmation_url: str | None = None
    """With the code `confirmation_required`: the URL for the person to confirm their identity."""
    details: list[ErrorDetail] | None = None
    """The invalid members of the request."""
    meanwhile: MeanwhileChange | None = None
    """With the code `changed_meanwhile`: the current resource and its last change."""


class ErrorResponse(ResponseModel):
    """The body of every error outside OAuth."""

    error: ErrorBody
