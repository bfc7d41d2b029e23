"""admin/owners: what belongs to whom."""

from collections.abc import Sequence
from typing import TypeVar, cast

from carrel._calls import Call
from carrel._operations import Operation, Raw, Resource
from carrel.resources._arguments import Members, as_list
from carrel.resources._choices import AnyResourceType
from carrel.resources.permissions import reference_to
from carrel.wire import owners as wire
from carrel.wire.common import PrincipalReference, ResourceIdentifier, ResourceReference, ResourceType

M = TypeVar("M")


class Owners(Resource[M]):
    """The owners of documents and collections, and of syncs, which act as theirs; an agent has none.

    `access.list_resources(owned_by=…)` and `access.count_resources(owned_by=…)` tell what documents and collections
    belong to somebody.
    """

    @property
    def with_raw_response(self) -> "Owners[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Owners(self._session.as_raw())

    @Operation
    def transfer(
        self,
        new_owner: PrincipalReference | Members,
        *,
        owner: PrincipalReference | Members | None = None,
        resource_types: Sequence[AnyResourceType] | None = None,
        resources: Sequence[ResourceReference | ResourceIdentifier | Members] | None = None,
    ) -> Call[wire.AdminOwnersTransferResponse]:
        """Give what `owner` owns (of these types), or the named `resources` (at most 1000), to an active principal.

        The old owner keeps no role on them. While `remaining` of the answer has any, call it again: many resources are
        transferred in parts, each as a whole. It is harmless to repeat.
        """
        request = wire.AdminOwnersTransferRequest(
            new_owner=cast("PrincipalReference", new_owner),
            owner=cast("PrincipalReference | None", owner),
            resource_types=as_list(ResourceType, resource_types),
            resources=None if resources is None else [reference_to(one) for one in resources],
        )
        return Call(wire.ADMIN_OWNERS_TRANSFER, request)
