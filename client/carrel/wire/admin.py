"""admin/*: the organization, its users, groups, grants, API keys, audit and search log; extensions, for admins."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from carrel.wire.common import (
    EmailAddress,
    GrantRole,
    Identifier,
    Instant,
    Label,
    NarrowedRequest,
    PagedRequest,
    PagedResponse,
    Password,
    Principal,
    PrincipalReference,
    RequestInstant,
    RequestModel,
    ResourceIdentifier,
    ResourceReference,
    ResponseModel,
    Tabular,
)
from carrel.wire.search import SearchFeedback, SearchMode

StrictFlag = Annotated[bool, Field(strict=True)]
Members = Annotated[list[PrincipalReference], Field(max_length=10_000)]


class AdminOrganizationGetRequest(RequestModel):
    """Ask for the organization's settings."""


class AdminOrganizationUpdateRequest(RequestModel):
    """Change the organization's settings; what is left out stays."""

    service_accounts_enabled: StrictFlag | None = None
    name: Label | None = None
    domain: Label | None = None


class Organization(ResponseModel):
    """An organization; service accounts have their addresses on `domain`."""

    organization_id: UUID
    name: str
    domain: str
    service_accounts_enabled: bool


class AdminOrganizationGetResponse(Organization):
    """The organization's settings."""


class AdminOrganizationUpdateResponse(Organization):
    """The organization's settings after the change."""


class UserUpsert(RequestModel):
    """A user to create or change, by email; what is left out stays (a new user is active and no admin)."""

    email: EmailAddress
    name: Label | None = None
    is_admin: StrictFlag | None = None
    active: StrictFlag | None = None
    password: Password | None = None


class AdminUsersUpsertRequest(RequestModel):
    """Create or change up to 1000 users; all or none."""

    users: Annotated[list[UserUpsert], Field(min_length=1, max_length=1000)]


class User(ResponseModel):
    """A user of the organization; an inactive one's credentials don't work."""

    id: UUID
    email: str
    name: str
    is_admin: bool
    active: bool


class AdminUsersUpsertResponse(Tabular):
    """The users, in the order given."""

    rows_in: ClassVar[str] = "users"
    users: list[User]


class AdminUsersListRequest(NarrowedRequest):
    """List users; `query` is part of a name or an address."""

    query: Label | None = None


class AdminUsersListResponse(PagedResponse):
    """One page of users."""

    rows_in: ClassVar[str] = "users"
    users: list[User]


class GroupUpsert(RequestModel):
    """A group to create or change; members given replace those it has.

    It is found by `id`, else by `external_id`, else by `name` among the groups without an external id.
    """

    id: UUID | None = None
    name: Label
    external_id: Identifier | None = None
    members: Members | None = None


class AdminGroupsUpsertRequest(RequestModel):
    """Create or change up to 1000 groups; all or none."""

    groups: Annotated[list[GroupUpsert], Field(min_length=1, max_length=1000)]


class Group(ResponseModel):
    """A group; `member_count` is of direct members."""

    id: UUID
    name: str
    external_id: str | None = None
    member_count: int


class AdminGroupsUpsertResponse(Tabular):
    """The groups, in the order given."""

    rows_in: ClassVar[str] = "groups"
    groups: list[Group]


class AdminGroupsListRequest(NarrowedRequest):
    """List groups; `query` is part of a name."""

    query: Label | None = None


class AdminGroupsListResponse(PagedResponse):
    """One page of groups."""

    rows_in: ClassVar[str] = "groups"
    groups: list[Group]


class _GroupMembersRequest(RequestModel):
    group_id: UUID
    members: Annotated[list[PrincipalReference], Field(min_length=1, max_length=10_000)]


class AdminGroupsAddMembersRequest(_GroupMembersRequest):
    """Add members to a group; those in it already stay."""


class AdminGroupsRemoveMembersRequest(_GroupMembersRequest):
    """Remove members from a group; those not in it are passed over."""


class AdminGroupsAddMembersResponse(ResponseModel):
    """How many direct members the group has now."""

    member_count: int


class AdminGroupsRemoveMembersResponse(AdminGroupsAddMembersResponse):
    """How many direct members the group has now."""


class AdminGroupsListMembersRequest(PagedRequest):
    """List the direct members of a group."""

    group_id: UUID


class Grant(RequestModel):
    """A role for a principal."""

    principal: PrincipalReference
    role: GrantRole


class AdminGrantsSetRequest(RequestModel):
    """Replace every grant on a resource (a document, DOCUMENT_COLLECTION or AGENT); its owner stays.

    `organization_wide`: every active user may read it.
    """

    resource: ResourceReference
    grants: Annotated[list[Grant], Field(max_length=10_000)]
    organization_wide: StrictFlag = False


class NamedUser(ResponseModel):
    """A user, as who holds a grant or is in a group."""

    type: Literal["user"] = "user"
    email: str
    id: UUID
    name: str


class NamedGroup(ResponseModel):
    """A group, likewise."""

    type: Literal["group"] = "group"
    id: UUID
    name: str


class NamedServiceAccount(ResponseModel):
    """A service account, likewise."""

    type: Literal["serviceAccount"] = "serviceAccount"
    id: UUID
    email: str
    name: str


NamedPrincipal = Annotated[NamedUser | NamedGroup | NamedServiceAccount, Field(discriminator="type")]
"""A principal as admin responses name it: of three types, like the references of admin requests."""


class AdminGroupsListMembersResponse(PagedResponse):
    """One page of members."""

    rows_in: ClassVar[str] = "members"
    members: list[NamedPrincipal]


class GrantInfo(ResponseModel):
    """A role a principal holds on a resource."""

    principal: NamedPrincipal
    role: GrantRole


class ResourceGrants(ResponseModel):
    """A resource with the grants on it."""

    resource: ResourceIdentifier
    grants: list[GrantInfo]
    organization_wide: bool


class AdminGrantsSetResponse(ResourceGrants):
    """The grants as they are now."""


class AdminGrantsSetManyRequest(RequestModel):
    """Replace the grants on up to 1000 resources; all or none."""

    resources: Annotated[list[AdminGrantsSetRequest], Field(min_length=1, max_length=1000)]


class AdminGrantsSetManyResponse(ResponseModel):
    """How many resources have their grants replaced."""

    resource_count: int


class AdminGrantsListRequest(PagedRequest):
    """List the grants on a resource."""

    resource: ResourceReference


class AdminGrantsListResponse(PagedResponse, ResourceGrants):
    """One page of the grants on a resource."""

    rows_in: ClassVar[str] = "grants"


class CredentialStatus(StrEnum):
    """Whether a credential works."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class ApiKey(ResponseModel):
    """An API key without its value; `hint` is the value's last four characters."""

    api_key_id: UUID
    hint: str
    name: str
    owner_email: str
    may_act_for_users: bool
    status: CredentialStatus
    created_at: Instant
    expires_at: Instant | None = None
    last_used_at: Instant | None = None


class AdminApiKeysCreateRequest(RequestModel):
    """Create an API key for a user, the caller unless named; without `expires_at` it doesn't expire."""

    name: Label
    owner_email: EmailAddress | None = None
    may_act_for_users: StrictFlag = False
    expires_at: RequestInstant | None = None


class AdminApiKeysCreateResponse(ApiKey):
    """The new key; `api_key` is its value, shown this once."""

    api_key: str = Field(repr=False)


class AdminApiKeysListRequest(NarrowedRequest):
    """List API keys."""


class AdminApiKeysListResponse(PagedResponse):
    """One page of API keys."""

    rows_in: ClassVar[str] = "api_keys"
    api_keys: list[ApiKey]


class AdminApiKeysRevokeRequest(RequestModel):
    """Stop an API key at once."""

    api_key_id: UUID


class AdminApiKeysRevokeResponse(ApiKey):
    """The key as it is now."""


class AdminAuditLogQueryRequest(NarrowedRequest):
    """Read the audit log, newest first; `from_` is included, `to` is not; `actor` is an email address."""

    actor: EmailAddress | None = None
    action: Label | None = None
    target_id: Identifier | None = None
    from_: Annotated[RequestInstant | None, Field(alias="from")] = None
    to: RequestInstant | None = None


class AuditTarget(ResponseModel):
    """What an entry is about."""

    type: str | None = None
    id: str


class AuditEntry(ResponseModel):
    """One entry of the audit log; `details` holds ids, never free text.

    `actor` owns the credential that was used (nobody: the service itself), `acting_for` is the user it named; `text`
    (a comment) can have been erased.
    """

    audit_log_id: UUID
    at: Instant
    actor: Principal | None = None
    acting_for: Principal | None = None
    action: str
    target: AuditTarget | None = None
    details: dict[str, Any]
    text: str | None = None
    request_id: str | None = None


class AdminAuditLogQueryResponse(PagedResponse):
    """One page of entries."""

    rows_in: ClassVar[str] = "entries"
    entries: list[AuditEntry]


class AdminSearchLogQueryRequest(NarrowedRequest):
    """Read the search log, newest first; `from_` is included, `to` is not.

    `without_results`: only searches that found nothing; `feedback`: only those that were given it.
    """

    from_: Annotated[RequestInstant | None, Field(alias="from")] = None
    to: RequestInstant | None = None
    without_results: StrictFlag = False
    feedback: SearchFeedback | None = None


class LoggedSearch(ResponseModel):
    """One search; `query` can have been erased, `feedback` is the newest it was given.

    `actor` is who the search was done as; `document_collection_id` is absent for a search of the catalog.
    """

    search_id: UUID
    at: Instant
    actor: Principal
    query: str | None = None
    document_collection_id: UUID | None = None
    mode: SearchMode
    result_count: int
    feedback: SearchFeedback | None = None


class AdminSearchLogQueryResponse(PagedResponse):
    """One page of searches."""

    rows_in: ClassVar[str] = "searches"
    searches: list[LoggedSearch]
