"""admin/searchLog/summarize: how an organization is doing, in numbers; extensions, for admins."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from carrel.wire.common import Instant, RequestInstant, RequestModel, ResponseModel, Tabular


class Bucket(StrEnum):
    """How long a bucket is, in UTC; a week begins on Monday."""

    DAY = "day"
    WEEK = "week"


class AdminSearchLogSummarizeRequest(RequestModel):
    """Count searches by day or week; `from_` is included, `to` is not. At most 400 buckets."""

    from_: Annotated[RequestInstant, Field(alias="from")]
    to: RequestInstant
    bucket: Bucket


class SearchesInBucket(ResponseModel):
    """Searches of the day or week that begins at `from_`; of the first and the last only what was asked for.

    `thumbs_up` and `thumbs_down`: how many were given that feedback, each with its newest.
    """

    from_: Annotated[Instant, Field(alias="from")]
    searches: int
    without_results: int
    thumbs_up: int
    thumbs_down: int


class AdminSearchLogSummarizeResponse(Tabular):
    """Every bucket in its order, those without searches, too."""

    rows_in: ClassVar[str] = "buckets"
    buckets: list[SearchesInBucket]
