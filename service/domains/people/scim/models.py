"""SCIM resources and the service's description (RFC 7643, sections 4 and 5). Attributes unknown to Carrel are dropped,
including all attributes that give rights. Filters use only stored attributes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar, TypeAlias, Union
from uuid import UUID

import scim2_models as scim
from pydantic import Field
from scim2_models import path
from sqlalchemy import Boolean, ColumnElement, DateTime, Text, Uuid, and_, cast, false, func, not_, or_

from carrel.wire.fields import guest_address, normal_email

MOST_RESULTS = 1000
# The most members that all groups of a page have together, unless a single group has more.
MOST_MEMBERS = 10_000
LONGEST_NAME = 1000


class User(scim.Resource[Any]):
    """A person; `user_name` is the address."""

    __schema__ = scim.URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, scim.Required.true, scim.Uniqueness.server] = Field(
        None, description="The person's email address, which identifies the person in Carrel."
    )
    display_name: str | None = Field(None, description="The person's name.")
    active: Annotated[bool | None, scim.Required.true] = Field(
        True, description="Whether the person may sign in and be acted for. The default for a new person is true."
    )


class Email(scim.ComplexAttribute):
    """A person's address, of type work, and the primary address."""

    value: str | None = None
    type: str | None = None
    primary: bool | None = None


class FilteredUser(User):
    """A person in a search that names emails. Other searches omit emails, because emails are looked up, not stored."""

    emails: list[Email] | None = None


class Member(scim.ComplexAttribute):
    """A person or group directly in a group."""

    value: Annotated[str | None, scim.Mutability.immutable, scim.CaseExact.true] = Field(
        None, description="Id of the member."
    )
    type: Annotated[str | None, scim.Mutability.immutable] = Field(
        None, description="User or Group.", examples=["User", "Group"]
    )
    ref: Annotated[scim.Reference[Union["User", "Group"]] | None, scim.Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref", description="Address of the member."
    )


class Group(scim.Resource[Any]):
    """A group of people and groups."""

    __schema__ = scim.URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, scim.Required.true] = Field(None, description="The group's name.")
    members: list[Member] | None = Field(None, description="The people and groups directly in the group.")

    Members: ClassVar[type[scim.ComplexAttribute]] = Member


def refuse_long(given: User | Group) -> None:
    """Raise InvalidValueException for an overlong name or external id, and for a group without a name."""
    for name, value in (("displayName", given.display_name), ("externalId", given.external_id)):
        if value is not None and len(value) > LONGEST_NAME:
            raise scim.InvalidValueException(
                detail=f"{name} is longer than {LONGEST_NAME} characters. Send a shorter {name}."
            )
    if isinstance(given, Group) and not (given.display_name or "").strip():
        raise scim.InvalidValueException(detail="A group needs a displayName.")


def describe_provider(user: type[User] = User) -> scim.ScimProvider:
    """Describe the service, with the departures from the RFC that Entra and Okta need."""
    policy = scim.ScimPolicy(
        unknown=scim.ScimPolicy.Unknown.ignore,
        remove_value_as_filter=scim.ScimPolicy.RemoveValue.apply,
        unmatched_path_filter=scim.ScimPolicy.UnmatchedPathFilter.create,
    )
    config = scim.ServiceProviderConfig(
        patch=scim.Patch(supported=True),
        bulk=scim.Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=scim.Filter(supported=True, max_results=MOST_RESULTS),
        change_password=scim.ChangePassword(supported=False),
        sort=scim.Sort(supported=True),
        etag=scim.ETag(supported=True),
        authentication_schemes=[
            scim.AuthenticationScheme(
                type=scim.AuthenticationScheme.Type.oauthbearertoken,
                name="Provisioning token",
                description="A token that an admin creates in Carrel, as the bearer token of each request",
                spec_uri=scim.Reference[scim.External]("https://www.rfc-editor.org/rfc/rfc6750"),
                primary=True,
            )
        ],
    )
    return scim.ScimProvider(models=[user, Group], config=config, policy=policy)


Match: TypeAlias = Callable[[ColumnElement[Any]], ColumnElement[bool]]
# More terms would cost the parser and the database too much, and no provider sends them.
MOST_TERMS = 50
CASE_EXACT = frozenset({"id", "externalid"})


@dataclass(frozen=True)
class Attributes:
    """The attributes of a resource allowed in filters, in lower case: columns, and conditions of several values."""

    columns: Mapping[str, ColumnElement[Any]]
    many: Mapping[str, Callable[[Match], ColumnElement[bool]]] = field(default_factory=dict[str, Any])

    def column(self, name: str) -> ColumnElement[Any]:
        """Return the column of an attribute. InvalidFilterException if filters can't use the attribute."""
        if name.lower() not in self.columns:
            known = "id, userName, emails.value, displayName, externalId, active, members.value and meta.created"
            raise scim.InvalidFilterException(
                detail=f"You can't filter or sort by {name[:100]!r}. You can use: {known}."
            )
        return self.columns[name.lower()]


_COMPARISONS: Mapping[path.CompareOperator, Callable[[ColumnElement[Any], Any], ColumnElement[bool]]] = {
    path.CompareOperator.eq: lambda column, value: column == value,
    path.CompareOperator.ne: lambda column, value: column.is_distinct_from(value),
    path.CompareOperator.co: lambda column, value: column.contains(value, autoescape=True),
    path.CompareOperator.sw: lambda column, value: column.startswith(value, autoescape=True),
    path.CompareOperator.ew: lambda column, value: column.endswith(value, autoescape=True),
    path.CompareOperator.gt: lambda column, value: column > value,
    path.CompareOperator.ge: lambda column, value: column >= value,
    path.CompareOperator.lt: lambda column, value: column < value,
    path.CompareOperator.le: lambda column, value: column <= value,
}
Condition: TypeAlias = Callable[[Attributes], ColumnElement[bool]]


def to_condition(node: path.FilterNode) -> Condition:
    """Convert a parsed filter to a condition over attributes. Raises InvalidFilterException for unsupported filters."""
    if _count_terms(node) > MOST_TERMS:
        raise scim.InvalidFilterException(detail=f"The filter has more than {MOST_TERMS} terms. Use smaller filters.")
    return lambda attributes: _Conditions(attributes).visit(node)


def _count_terms(node: path.FilterNode) -> int:
    if isinstance(node, path.LogicalExpr):
        return sum(map(_count_terms, node.terms))
    if isinstance(node, path.Not):
        return 1 + _count_terms(node.expr)
    return 1 + _count_terms(node.val_filter) if isinstance(node, path.ValuePath) else 1


class _Conditions(path.FilterVisitor[ColumnElement[bool]]):
    def __init__(self, attributes: Attributes, *, within: str = "") -> None:
        self._attributes = attributes
        self._within = within

    def visit_comparison(self, node: path.Comparison) -> ColumnElement[bool]:
        name = self._name(node.attr_path)
        return self._of(name, lambda column: _compare(column, node.op, node.value, exact=name in CASE_EXACT))

    def visit_present(self, node: path.Present) -> ColumnElement[bool]:
        return self._of(self._name(node.attr_path), lambda column: column.is_not(None))

    def visit_not(self, node: path.Not) -> ColumnElement[bool]:
        return not_(func.coalesce(self.visit(node.expr), false()))

    def visit_logical_expr(self, node: path.LogicalExpr) -> ColumnElement[bool]:
        terms = [self.visit(term) for term in node.terms]
        return and_(*terms) if node.op is path.LogicalOperator.and_ else or_(*terms)

    def visit_value_path(self, node: path.ValuePath) -> ColumnElement[bool]:
        # A single value must fulfil the whole filter. Members have only ids to compare, so one comparison is enough.
        name = self._name(node.attr_path)
        if name in self._attributes.many and not isinstance(node.val_filter, path.Comparison | path.Present):
            raise scim.InvalidFilterException(detail="Put only a single comparison between [ and ].")
        return _Conditions(self._attributes, within=name).visit(node.val_filter)

    def _name(self, path: path.AttrPath) -> str:
        names = (self._within, path.attr, path.sub_attr or "")
        return ".".join(name for name in names if name).lower()

    def _of(self, name: str, match: Match) -> ColumnElement[bool]:
        many = self._attributes.many.get(name)
        return many(match) if many is not None else match(self._attributes.column(name))


def _compare(column: ColumnElement[Any], op: path.CompareOperator, value: Any, *, exact: bool) -> ColumnElement[bool]:
    if isinstance(column.type, Uuid):
        return _compare_id(column, op, value)
    value = _parse_value(column, value, exact=exact)
    if value is None and op is path.CompareOperator.eq:
        return column.is_(None)
    return _COMPARISONS[op](column, value)


def _compare_id(column: ColumnElement[Any], op: path.CompareOperator, value: Any) -> ColumnElement[bool]:
    """Compare an id: equality by index, other operators as text."""
    if op is path.CompareOperator.eq and isinstance(value, str):
        try:
            return column == UUID(value)
        except ValueError:  # not an id
            return false()
    return _compare(cast(column, Text), op, value, exact=True)


def _parse_value(column: ColumnElement[Any], value: Any, *, exact: bool) -> Any:
    if value is None:
        return None
    if isinstance(column.type, Boolean):
        given = {"true": True, "false": False}.get(str(value).lower())
        if given is None:
            raise scim.InvalidFilterException(detail="Compare this attribute with true or false.")
        return given
    if not isinstance(value, str) or "\x00" in value or not value.isprintable():
        raise scim.InvalidFilterException(detail="Compare this attribute with a string of printable characters.")
    if isinstance(column.type, DateTime):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise scim.InvalidFilterException(
                detail="Compare this attribute with a time, such as 2026-01-31T09:30:00Z."
            ) from None
        return moment if moment.tzinfo else moment.astimezone()
    if column.key == "email":
        return guest_address(value) or normal_email(value)
    return value if exact else value.lower()
