"""SCIM resources and the service's description (RFC 7643, sections 4 and 5). Attributes that Carrel doesn't keep are
dropped, among them all that give rights. Filters use kept attributes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar, TypeAlias, Union
from uuid import UUID

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
    InvalidFilterException,
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
from scim2_models.path import (
    AttrPath,
    CompareOperator,
    Comparison,
    FilterNode,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
)
from sqlalchemy import Boolean, ColumnElement, DateTime, Text, Uuid, and_, cast, false, func, not_, or_

from carrel.wire.fields import guest_address, normal_email

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


class Email(ComplexAttribute):
    """A person's address, which is of type work, and the primary one."""

    value: str | None = None
    type: str | None = None
    primary: bool | None = None


class FilteredUser(User):
    """A person in a search that names emails: no others do, because emails are found and not kept."""

    emails: list[Email] | None = None


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


def describe_provider(user: type[User] = User) -> ScimProvider:
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
    return ScimProvider(models=[user, Group], config=config, policy=policy)


Match: TypeAlias = Callable[[ColumnElement[Any]], ColumnElement[bool]]
# Deeper ones would cost the parser and the database much, and no provider sends them.
MOST_TERMS = 50
CASE_EXACT = frozenset({"id", "externalid"})


@dataclass(frozen=True)
class Attributes:
    """The attributes of a resource that filters may name, in lower case: columns, and conditions of several values."""

    columns: Mapping[str, ColumnElement[Any]]
    many: Mapping[str, Callable[[Match], ColumnElement[bool]]] = field(default_factory=dict[str, Any])

    def column(self, name: str) -> ColumnElement[Any]:
        """Return the column of an attribute. InvalidFilterException for one that can't be asked for."""
        if name.lower() not in self.columns:
            known = "id, userName, emails.value, displayName, externalId, active, members.value and meta.created"
            raise InvalidFilterException(detail=f"{name[:100]!r} can't be filtered or sorted by. What can: {known}.")
        return self.columns[name.lower()]


_COMPARISONS: Mapping[CompareOperator, Callable[[ColumnElement[Any], Any], ColumnElement[bool]]] = {
    CompareOperator.eq: lambda column, value: column == value,
    CompareOperator.ne: lambda column, value: column.is_distinct_from(value),
    CompareOperator.co: lambda column, value: column.contains(value, autoescape=True),
    CompareOperator.sw: lambda column, value: column.startswith(value, autoescape=True),
    CompareOperator.ew: lambda column, value: column.endswith(value, autoescape=True),
    CompareOperator.gt: lambda column, value: column > value,
    CompareOperator.ge: lambda column, value: column >= value,
    CompareOperator.lt: lambda column, value: column < value,
    CompareOperator.le: lambda column, value: column <= value,
}
Condition: TypeAlias = Callable[[Attributes], ColumnElement[bool]]


def to_condition(node: FilterNode) -> Condition:
    """Convert a parsed filter to a condition over attributes. Raises InvalidFilterException for what can't be asked."""
    if _count_terms(node) > MOST_TERMS:
        raise InvalidFilterException(detail=f"The filter has more than {MOST_TERMS} terms. Ask in smaller ones.")
    return lambda attributes: _Conditions(attributes).visit(node)


def _count_terms(node: FilterNode) -> int:
    if isinstance(node, LogicalExpr):
        return sum(map(_count_terms, node.terms))
    if isinstance(node, Not):
        return 1 + _count_terms(node.expr)
    return 1 + _count_terms(node.val_filter) if isinstance(node, ValuePath) else 1


class _Conditions(FilterVisitor[ColumnElement[bool]]):
    def __init__(self, attributes: Attributes, *, within: str = "") -> None:
        self._attributes = attributes
        self._within = within

    def visit_comparison(self, node: Comparison) -> ColumnElement[bool]:
        name = self._name(node.attr_path)
        return self._of(name, lambda column: _compare(column, node.op, node.value, exact=name in CASE_EXACT))

    def visit_present(self, node: Present) -> ColumnElement[bool]:
        return self._of(self._name(node.attr_path), lambda column: column.is_not(None))

    def visit_not(self, node: Not) -> ColumnElement[bool]:
        return not_(func.coalesce(self.visit(node.expr), false()))

    def visit_logical_expr(self, node: LogicalExpr) -> ColumnElement[bool]:
        terms = [self.visit(term) for term in node.terms]
        return and_(*terms) if node.op is LogicalOperator.and_ else or_(*terms)

    def visit_value_path(self, node: ValuePath) -> ColumnElement[bool]:
        # One value fulfils all of it; of members there is the id alone to ask for, so one comparison is all.
        name = self._name(node.attr_path)
        if name in self._attributes.many and not isinstance(node.val_filter, Comparison | Present):
            raise InvalidFilterException(detail="Within [ ] one comparison can be asked for.")
        return _Conditions(self._attributes, within=name).visit(node.val_filter)

    def _name(self, path: AttrPath) -> str:
        names = (self._within, path.attr, path.sub_attr or "")
        return ".".join(name for name in names if name).lower()

    def _of(self, name: str, match: Match) -> ColumnElement[bool]:
        many = self._attributes.many.get(name)
        return many(match) if many is not None else match(self._attributes.column(name))


def _compare(column: ColumnElement[Any], op: CompareOperator, value: Any, *, exact: bool) -> ColumnElement[bool]:
    if isinstance(column.type, Uuid):
        return _compare_id(column, op, value)
    value = _value_for(column, value, exact=exact)
    if value is None and op is CompareOperator.eq:
        return column.is_(None)
    return _COMPARISONS[op](column, value)


def _compare_id(column: ColumnElement[Any], op: CompareOperator, value: Any) -> ColumnElement[bool]:
    """Compare an id: by its index where it is to be the same, else as a text."""
    if op is CompareOperator.eq and isinstance(value, str):
        try:
            return column == UUID(value)
        except ValueError:  # nobody's id
            return false()
    return _compare(cast(column, Text), op, value, exact=True)


def _value_for(column: ColumnElement[Any], value: Any, *, exact: bool) -> Any:
    if value is None:
        return None
    if isinstance(column.type, Boolean):
        given = {"true": True, "false": False}.get(str(value).lower())
        if given is None:
            raise InvalidFilterException(detail="This attribute is true or false.")
        return given
    if not isinstance(value, str) or "\x00" in value or not value.isprintable():
        raise InvalidFilterException(detail="This attribute is compared with a string of printable characters.")
    if isinstance(column.type, DateTime):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidFilterException(detail="This attribute is a time, such as 2026-01-31T09:30:00Z.") from None
        return moment if moment.tzinfo else moment.astimezone()
    if column.key == "email":
        return guest_address(value) or normal_email(value)
    return value if exact else value.lower()
