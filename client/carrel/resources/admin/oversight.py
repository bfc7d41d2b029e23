"""admin/status: how the organization is doing."""

from typing import TypeVar

from carrel._calls import Call
from carrel._operations import Operation, Raw, Resource
from carrel.wire.oversight import ADMIN_STATUS_GET, AdminStatusGetRequest, AdminStatusGetResponse

M = TypeVar("M")


class Status(Resource[M]):
    """The status of the organization."""

    @property
    def with_raw_response(self) -> "Status[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Status(self._session.as_raw())

    @Operation
    def get(self) -> Call[AdminStatusGetResponse]:
        """Tell what there is, what is being indexed, and which jobs and syncs go on or failed, at this moment."""
        return Call(ADMIN_STATUS_GET, AdminStatusGetRequest())
