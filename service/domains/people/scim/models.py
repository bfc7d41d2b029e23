"""What SCIM clients see: the resources, and the description of the service (RFC 7643, sections 4 and 5).

Attributes that Carrel doesn't keep are accepted and dropped, among them all that would give rights.
"""

from typing import Annotated, Any, ClassVar, Union

from pydantic import Field
from scim2_models import (
    URN,
    AuthenticationScheme,
    Bulk,
    CaseExact,
    ChangePassword,
    ComplexAttribute,
    ETag,
    External,
    Filter,
    InvalidValueException,
    Mutability,
    Patch,
    Reference,
    Required,
    Resource,
    ScimPolicy,
    ScimProvider,
    ServiceProviderConfig,
    Sort,
    Uniqueness,
)

MOST_RESULTS = 1000
# So many members all groups of a page have together, unless one alone has more.
MOST_MEMBERS = 10_000
LONGEST_NAME = 1000


class User(Resource[Any]):
    """A person; `user_name` is their address."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Required.true, Uniqueness.server] = Field(
        None, description="The person's email address, by which Carrel knows them."
    )
    display_name: str | None = Field(None, description="The person's name.")
    active: Annotated[bool | None, Required.true] = Field(
        True, description="Whether the person may sign in and be acted for; true for a new one, if it is left out."
    )


class Member(ComplexAttribute):
    """A person or group directly in a group."""

    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = Field(None, description="Id of the member.")
    type: Annotated[str | None, Mutability.immutable] = Field(
        None, description="User or Group.", examples=["User", "Group"]
    )
    ref: Annotated[Reference[Union["User", "Group"]] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref", description="Address of the member."
    )


class Group(Resource[Any]):
    """A group of people and groups."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Required.true] = Field(None, description="The group's name.")
    members: list[Member] | None = Field(None, description="The people and groups directly in the group.")

    Members: ClassVar[type[ComplexAttribute]] = Member


def refuse_long(given: User | Group) -> None:
    """Raise InvalidValueException for a name or an external id that is too long, and for a group without a name."""
    for name, value in (("displayName", given.display_name), ("externalId", given.external_id)):
        if value is not None and len(value) > LONGEST_NAME:
            raise InvalidValueException(detail=f"{name} is longer than {LONGEST_NAME} characters. Send a shorter one.")
    if isinstance(given, Group) and not (given.display_name or "").strip():
        raise InvalidValueException(detail="A group needs a displayName.")


def describe_provider() -> ScimProvider:
    """Describe the service, and what it tolerates: Entra and Okta depart from the RFC in these points."""
    policy = ScimPolicy(
        unknown=ScimPolicy.Unknown.ignore,
        remove_value_as_filter=ScimPolicy.RemoveValue.apply,
        unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
    )
    config = ServiceProviderConfig(
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=MOST_RESULTS),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=True),
        etag=ETag(supported=True),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="Provisioning token",
                description="A token that an admin creates in Carrel, as the bearer token of each request",
                spec_uri=Reference[External]("https://www.rfc-editor.org/rfc/rfc6750"),
                primary=True,
            )
        ],
    )
    return ScimProvider(models=[User, Group], config=config, policy=policy)
