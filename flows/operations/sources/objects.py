"""Sources in object stores: listed without reading, and read only when sent. An object is identified by ETag (in a
store without ETags, the time of the last change) and size: while both are unchanged, nothing is downloaded. The
credentials come from the environment, as for each store's own tools."""

import errno
import hashlib
import io
import re
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING
from unicodedata import normalize
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, InvalidPathError
from obstore.store import ObjectStore, from_url

from flows.errors import SourceError
from flows.operations.sources import documents
from flows.operations.sources.exclusions import HIDDEN

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta

SCHEMES = frozenset({"s3", "gs", "az"})
IN_MEMORY = 4 * 1024 * 1024
_PAGE = 1000
WILDCARDS = frozenset("*?[")
_SHOWN = 300


def is_object_url(source: str) -> bool:
    return urlsplit(source).scheme.lower() in SCHEMES if "://" in source else False


def object_identity(url: str) -> str:
    """Return the URL in its normal form. Raises SourceError for a malformed URL, or a URL with a secret."""
    parts = urlsplit(url)
    if "@" in parts.netloc or ":" in parts.netloc:
        advice = "Set them in the environment of the store's own tools."
        raise SourceError(f"Remove credentials from the source's URL. {advice}")
    if parts.query or parts.fragment or WILDCARDS & set(parts.path):
        msg = f"{url.partition('?')[0]}: give a bucket and a prefix, without pattern or query: s3://reports/published"
        raise SourceError(msg)
    if not parts.netloc:
        raise SourceError(f"{url} has no bucket; give a bucket, such as s3://reports/published")
    prefix = "/".join(part for part in parts.path.split("/") if part)
    return f"{parts.scheme.lower()}://{parts.netloc}/{prefix}".rstrip("/")


def list_objects(url: str, *, defaults: documents.Defaults) -> Iterator[documents.SourceItem]:
    """Yield the objects under a prefix. Raises SourceError, also after some items, and for an empty prefix."""
    store = object_identity(url)
    found = 0
    try:
        for page in obstore.list(_open_store(store), chunk_size=_PAGE):  # pyright: ignore[reportUnknownMemberType] - Arrow's types, which aren't asked for
            found += len(page)
            for meta in page:
                yield _item(meta, store=store, defaults=defaults)
    except InvalidPathError as exc:
        reason = describe_error(exc)
        msg = f"{store} has an object with an unusable key ({reason}). Rename the object, or give a prefix without it."
        raise SourceError(msg) from exc
    except (BaseError, OSError, ValueError) as exc:
        reason = describe_error(exc)
        msg = f"{store} cannot be listed: {reason}. Check the bucket, and the credentials in the environment."
        raise SourceError(msg) from exc
    if not found:
        msg = f"{store} has no objects. Check the prefix. It must end at a folder: s3://bucket/reports/2026"
        raise SourceError(msg)


def _item(meta: "ObjectMeta", *, store: str, defaults: documents.Defaults) -> documents.SourceItem:
    key = meta["path"]
    if not key or (meta["size"] == 0 and key.endswith("/")):
        return documents.Skipped(place=key or ".", reason="folder marker")
    if documents.is_undecodable(key):
        return documents.Problem(key, "name_undecodable", "The key is not valid UTF-8. Rename the object.")
    if not defaults.hidden and any(part.startswith(".") for part in PurePosixPath(key).parts):
        return documents.Skipped(place=key, reason=HIDDEN)
    stored = documents.StoredObject(store, key, marker_of(meta), meta["size"])
    return documents.document_at(key, normalize("NFC", key), defaults, stored=stored)


def marker_of(meta: "ObjectMeta") -> str:
    """Return an object's marker, which changes whenever the object does; quotes of ETags don't matter."""
    tag = meta["e_tag"]
    changed = meta["last_modified"].isoformat() if tag is None else tag.removeprefix("W/").strip('"')
    return f"{changed}:{meta['size']}"


def marker_digest(marker: str) -> bytes:
    """Return the digest used in place of a hash of an object's contents, to avoid reading them."""
    return hashlib.sha256(f"object {marker}".encode()).digest()


def read_object(stored: documents.StoredObject) -> tuple[IO[bytes], int, str]:
    """Return an object's contents, size and marker. Raises OSError when the object can't be read completely."""
    try:
        found = obstore.get(_open_store(stored.store), stored.key)
        meta = found.meta
        file: IO[bytes] = io.BytesIO() if meta["size"] <= IN_MEMORY else tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        try:
            _copy(found, file)
        except BaseException:
            file.close()
            raise
    except FileNotFoundError as exc:
        raise OSError(errno.ENOENT, "the object no longer exists") from exc
    except (BaseError, ValueError) as exc:
        raise OSError(errno.EIO, describe_error(exc)) from exc
    return file, meta["size"], marker_of(meta)


def _copy(found: "GetResult", file: IO[bytes]) -> None:
    for piece in found.stream():
        file.write(piece)
    if file.tell() != found.meta["size"]:
        raise OSError(errno.EIO, f"only {file.tell()} of {found.meta['size']} bytes arrived")
    file.seek(0)


@lru_cache(maxsize=16)
def _open_store(url: str) -> ObjectStore:
    """Open a store by its URL; safe to use from several threads. Client options would override the environment's."""
    return from_url(url, retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=60)})


def describe_error(exc: Exception) -> str:
    """Describe a store's error in one line, without the addresses and response bodies it may contain."""
    text = str(exc).strip()
    code = re.search(r"<Code>(\w+)</Code>", text)
    line = re.sub(r"\?[^\s\"')]*", "", text.splitlines()[0] if text else type(exc).__name__).partition("<")[0]
    return f"{line.strip(' :')[:_SHOWN]}{f' ({code[1]})' if code else ''}"
