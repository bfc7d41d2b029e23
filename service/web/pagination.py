"""Pages in keyset order: an item present throughout a walk is seen exactly once. A page token holds the last position,
signed with caller and query; every page checks permissions again. Also the days or weeks of figures."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, time, timedelta, tzinfo
from typing import Any, Generic, TypeVar, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from carrel.wire.common import PagedResponse
from carrel.wire.oversight import Bucket
from service.auth.callers import Caller
from service.platform import base64url
from service.platform.errors import BadRequest, FieldError
from service.platform.identifiers import NIL
from service.platform.sql import Window

DEFAULT_PAGE_SIZE = 10
MAX_PAGE_SIZE = 1000

_SIGNATURE_LENGTH = 16
_PAGE_FIELDS = frozenset({"page_size", "page_token"})

Item = TypeVar("Item")
Paged = TypeVar("Paged", bound=PagedResponse)


@dataclass(frozen=True)
class Page(Generic[Item]):
    items: list[Item]
    next_page_token: str | None


@dataclass(frozen=True)
class Cursor:
    """The start of a page (`after`: the position of the previous item; empty for the first page) and its length."""

    after: tuple[str, ...]
    page_size: int
    key: bytes
    query: bytes

    @property
    def window(self) -> Window:
        return Window(self.after_id, self.limit)

    @classmethod
    def read(cls, caller: Caller, *, operation: str, request: BaseModel) -> "Cursor":
        """Read the cursor in a request's page token. Raises BadRequest for an altered token, or another query's."""
        fields = request.model_dump(mode="json", exclude=set(_PAGE_FIELDS))
        page_size: int | None = getattr(request, "page_size", None)
        page_token: str | None = getattr(request, "page_token", None)
        return cls.of(caller, operation=operation, parameters=fields, page_size=page_size, page_token=page_token)

    @classmethod
    def of(
        cls,
        caller: Caller,
        *,
        operation: str,
        parameters: Mapping[str, object],
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> "Cursor":
        """Read the cursor of separate parameters (JSON values). Also raises BadRequest for a wrong page size."""
        size = DEFAULT_PAGE_SIZE if page_size is None else page_size
        if not 1 <= size <= MAX_PAGE_SIZE:
            message = f"pageSize must be from 1 to {MAX_PAGE_SIZE}."
            raise BadRequest(message, code="invalid_request", details=[FieldError("pageSize", message)])
        query = hashlib.sha256(
            json.dumps([operation, str(caller.principal_id), dict(parameters)], sort_keys=True, default=str).encode()
        ).digest()
        after = () if page_token is None else _read_position(page_token, key=caller.page_key, query=query)
        return cls(after=after, page_size=size, key=caller.page_key, query=query)

    @property
    def after_id(self) -> UUID:
        """The last id of the previous page; for the first page, an id before every real id."""
        return UUID(self.after[0]) if self.after else NIL

    @property
    def limit(self) -> int:
        """The number of rows to fetch: the page size and an extra row, to see whether another page follows."""
        return self.page_size + 1

    def page(self, rows: Sequence[Item], *, position: Callable[[Item], Sequence[str]]) -> Page[Item]:
        """Cut `rows` (up to `limit`, in keyset order) to the page; `position` returns the `after` of the next page."""
        items = list(rows[: self.page_size])
        if len(rows) <= self.page_size:
            return Page(items=items, next_page_token=None)
        return Page(items=items, next_page_token=self._token(position(items[-1])))

    def answer(self, model: type[Paged], rows: Sequence[Any], *position: str, **others: Any) -> Paged:
        """Return `model` with the page of `rows`; the members named in `position` give the `after` of the next page."""
        page = self.page(rows, position=lambda row: [str(getattr(row, name)) for name in position])
        return model(**{model.rows_in: page.items}, next_page_token=page.next_page_token, **others)

    def page_until(self, items: Sequence[Item], *, after: Sequence[str]) -> Page[Item]:
        """Return a page that may be short, because the search has only reached the position `after`."""
        return Page(items=list(items), next_page_token=self._token(after))

    def _token(self, position: Sequence[str]) -> str:
        payload = json.dumps(list(position), separators=(",", ":")).encode()
        return base64url.encode(_sign(payload, key=self.key, query=self.query) + payload)


def _read_position(token: str, *, key: bytes, query: bytes) -> tuple[str, ...]:
    try:
        signed = base64url.decode(token)
    except ValueError as exc:
        raise _invalid() from exc
    signature, payload = signed[:_SIGNATURE_LENGTH], signed[_SIGNATURE_LENGTH:]
    if not hmac.compare_digest(signature, _sign(payload, key=key, query=query)):
        raise _invalid()
    return tuple(cast("list[str]", json.loads(payload)))


def _sign(payload: bytes, *, key: bytes, query: bytes) -> bytes:
    return hmac.new(key, query + payload, hashlib.sha256).digest()[:_SIGNATURE_LENGTH]


def _invalid() -> BadRequest:
    message = "This page token belongs to another query, or was changed. Start again without pageToken."
    return BadRequest(message, code="invalid_page_token", details=[FieldError("pageToken", message)])


MOST_BUCKETS = 400
LENGTHS = {Bucket.DAY: timedelta(days=1), Bucket.WEEK: timedelta(weeks=1)}


def bucket_starts(since: datetime, until: datetime, bucket: Bucket, time_zone: str = "UTC") -> list[datetime]:
    """Return the start of each day or week of a time zone from `since` until before `until`. Raises BadRequest: `since`
    not before `until`, more than `MOST_BUCKETS` buckets (`too_many_buckets`), or an unknown time zone."""
    require_span(since, until)
    try:
        zone = UTC if time_zone == "UTC" else ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:  # an unknown name, or the name of a folder or of another file
        message = f"There is no time zone {time_zone!r}. Send a time zone name such as UTC or Pacific/Auckland."
        raise BadRequest(message, details=[FieldError("timeZone", message)]) from error
    length = LENGTHS[bucket]
    # Other zones can't show all times of the calendar's first and last year.
    zone = zone if 1 < since.year < MAXYEAR else UTC
    first = _beginning(since, bucket, zone)
    if (until - first) > MOST_BUCKETS * length:
        advice = "Choose weeks, or a shorter period." if bucket is Bucket.DAY else "Choose a shorter period."
        message = f"This period has more than {MOST_BUCKETS} steps. {advice}"
        raise BadRequest(message, code="too_many_buckets", details=[FieldError("bucket", message)])
    # Days of the zone's clock may have 23 or 25 hours; none is beyond the calendar's last day.
    starts, start, last = [first.astimezone(UTC)], first, datetime.max.replace(tzinfo=first.tzinfo)
    while last - start > length + timedelta(days=zone is not UTC) and (start := start + length) < until:
        starts.append(start.astimezone(UTC))
    return starts


def require_span(since: datetime, until: datetime) -> None:
    """Raise BadRequest unless `since` is before `until`."""
    if since >= until:
        message = "`from` must lie before `to`."
        raise BadRequest(message, details=[FieldError("to", message)])


def _beginning(moment: datetime, bucket: Bucket, zone: tzinfo) -> datetime:
    midnight = datetime.combine(moment.astimezone(zone).date(), time(), zone)
    return midnight - timedelta(days=midnight.weekday() if bucket is Bucket.WEEK else 0)
