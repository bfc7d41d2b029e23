"""Types of the members of wire models: bounded strings, addresses, secrets, flags and times."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, PlainSerializer, SecretStr, model_validator

_LONGEST_ADDRESS = 1024
_NUL_REFUSED = "must not contain NUL characters"
_RUN_BY_BROWSERS = frozenset({"javascript", "data", "vbscript"})
_RFC_3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def _refuse_unless(holds: Callable[[Any], object], reason: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value is not None and not holds(value):
            raise ValueError(reason)
        return value

    return check


def must(holds: Callable[[Any], object], reason: str) -> AfterValidator:
    """Return a validator of a member: `holds` is true of each value but None, or else `reason` says what it must be."""
    return AfterValidator(_refuse_unless(holds, reason))


def must_fit(holds: Callable[[Any], object], reason: str) -> Any:
    """Return a validator of a model, whose members fit together if `holds` is true of it."""
    return model_validator(mode="after")(_refuse_unless(holds, reason))


# PostgreSQL can't store NUL in text, so no string of a request may contain it.
NO_NUL = must(lambda text: "\0" not in text, _NUL_REFUSED)


def is_address(text: str) -> bool:
    """Return whether a text is an email address."""
    local, _, domain = text.rpartition("@")
    return bool(local and domain) and "@" not in local and not any(map(str.isspace, text)) and text.isprintable()


def normal_email(email: str) -> str:
    """Return an address in the form for storing and comparing: lower case, composed (RFC 6532, section 3.1)."""
    return unicodedata.normalize("NFC", email.strip().lower())


def guest_address(email: str) -> str | None:
    """Return a guest's own address from the guest's name in Microsoft Entra ID; None for other addresses. The name
    `gus_corp.example#EXT#@tenant.onmicrosoft.com` is gus@corp.example. A token's `email` never proves this address."""
    name, _, tenant = normal_email(email[:_LONGEST_ADDRESS]).partition("#ext#@")
    local, _, domain = name.rpartition("_")
    is_guest = tenant.endswith(".onmicrosoft.com") and local and "." in domain and "@" not in name
    return f"{local}@{domain}" if is_guest else None


def _is_url(text: str) -> bool:
    scheme, colon, rest = text.partition(":")
    known = re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) and scheme.lower() not in _RUN_BY_BROWSERS
    return bool(colon and rest and known) and all(not item.isspace() and item.isprintable() for item in text)


Label = Annotated[str, Field(min_length=1, max_length=200), NO_NUL]
"""A short name: of a collection, a field, a group, a key."""

DocumentName = Annotated[str, Field(min_length=1, max_length=1000, examples=["Holiday rules 2026"]), NO_NUL]
Identifier = Annotated[str, Field(min_length=1, max_length=1024), NO_NUL]
"""An identifier chosen by the caller or by a source system."""

Description = Annotated[str, Field(max_length=10_000), NO_NUL]
SearchQuery = Annotated[str, Field(min_length=1, max_length=8192, examples=["how many days of leave"]), NO_NUL]
MetadataValue = Annotated[str, Field(max_length=10_000), NO_NUL]
ChunkText = Annotated[str, Field(min_length=1, max_length=50_000), NO_NUL]
Fingerprint = Annotated[str, Field(min_length=1, max_length=128), NO_NUL]
PageToken = Annotated[str, Field(min_length=1, max_length=4096), NO_NUL]
EmailAddress = Annotated[
    str,
    Field(min_length=3, max_length=320, examples=["ada@example.com"], json_schema_extra={"format": "idn-email"}),
    NO_NUL,
    must(is_address, "must be one email address, such as ada@example.com"),
]
Url = Annotated[
    str,
    Field(
        min_length=3,
        max_length=4096,
        examples=["https://example.com/handbook/holidays"],
        json_schema_extra={"format": "iri"},
    ),
    NO_NUL,
    must(_is_url, "must be an absolute address, such as https://example.com/page"),
]
CustomMetadata = Annotated[dict[Label, MetadataValue], Field(max_length=200)]
"""A document's values for a collection's schema; always strings, for all field types."""


WRITTEN_OUT = PlainSerializer(SecretStr.get_secret_value, return_type=str, when_used="json")
"""How a secret of a request is written: hidden from `repr` and logs, and whole in the request's JSON."""


NO_NUL_SECRET = must(lambda secret: "\0" not in secret.get_secret_value(), _NUL_REFUSED)
Password = Annotated[SecretStr, Field(min_length=8, max_length=1024), NO_NUL_SECRET, WRITTEN_OUT]
"""Hidden from `repr` and logs; written out only in the request's JSON."""


def _require_rfc_3339(value: object) -> object:
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC_3339.fullmatch(value)):
        return value
    raise ValueError("must be an RFC 3339 time, such as 2026-01-31T09:30:00Z")


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("must lie between the years 1 and 9999 in UTC") from exc


def format_instant(value: datetime) -> str:
    """Return an aware time as RFC 3339 in UTC with `Z`."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def once_each(items: str, message: str, *, key: str = "") -> Any:
    """Return a model validator that refuses a list with two equal items, or two items with equal `key` members."""

    def has_each_once(model: Any) -> bool:
        given: Sequence[object] = getattr(model, items) or ()
        return len({getattr(item, key) if key else item for item in given}) == len(given)

    return must_fit(has_each_once, message)


_AS_RFC_3339 = PlainSerializer(format_instant, return_type=str, when_used="json")

StrictFlag = Annotated[bool, Field(strict=True)]
Instant = Annotated[AwareDatetime, _AS_RFC_3339]
"""A time in a response: aware, and RFC 3339 in UTC with `Z` in JSON."""

RequestInstant = Annotated[AwareDatetime, BeforeValidator(_require_rfc_3339), AfterValidator(_to_utc), _AS_RFC_3339]
"""A time in a request: RFC 3339 with offset (never a bare number or date), converted to UTC."""
