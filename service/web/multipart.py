"""Receiving a file: a multipart/form-data body (RFC 7578) is written to disk on arrival, and never held whole."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from service.platform.errors import BadRequest, FieldError, TooLarge, UnsupportedMedia
from service.platform.files import clean_file_name, remove_untouched, storage_full
from service.platform.settings import Settings
from service.web.guidance import find_nearest, sent_as

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

# The size that a thread hashes and writes at once: a small file needs one thread call, and a thousand slow uploads a
# quarter of a gigabyte of memory.
_FLUSH_BYTES = 1 << 18
_FIELD_BYTES = 1 << 20
# The most bytes of boundaries, headers and fields besides the file.
_FRAMING_BYTES = 4 << 20
_PLAIN_ENCODINGS = frozenset({b"", b"7bit", b"8bit", b"binary"})
_NAME_CHARACTERS = 100
TEMPORARY_PREFIX = "upload-"


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file on disk: path, name given by the sender (cleaned), size in bytes and SHA-256."""

    path: Path
    name: str
    size: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class Received:
    fields: dict[str, str]
    file: ReceivedFile


@asynccontextmanager
async def receive(
    request: Request, *, folder: Path, file_part: str, max_file_bytes: int, allowed: frozenset[str]
) -> AsyncGenerator[Received]:
    """Yield a request's form, with its file below `folder`. The file is always removed at the end.

    Raises UnsupportedMedia unless the type is multipart/form-data, TooLarge beyond `max_file_bytes` (declared or
    received), and InsufficientStorage for a full disk. Raises BadRequest for a malformed or incomplete body, for text
    that isn't UTF-8, for repeated fields, fields not in `allowed`, too many parts, and a missing file."""
    parts = _Parts(file_part, max_file_bytes=max_file_bytes, allowed=allowed)
    parser = MultipartParser(_require_boundary(request), parts.callbacks())
    if (declared_length(request) or 0) > max_file_bytes + _FRAMING_BYTES:
        raise _too_large(max_file_bytes)
    async with _open_sink(folder) as sink:
        await _parse(request, parser, parts, sink, max_bytes=max_file_bytes + _FRAMING_BYTES)
        name = parts.finish()
        yield Received(parts.fields, ReceivedFile(sink.path, name, parts.file_size, sink.sha256()))


def uploads_folder(settings: Settings) -> Path:
    """Return the folder of files being uploaded or read, created if missing."""
    folder = settings.uploads_dir
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@asynccontextmanager
async def write_bytes(data: bytes, *, folder: Path, name: str, max_bytes: int) -> AsyncGenerator[ReceivedFile]:
    """Yield bytes as a file below `folder`, removed at the end. Raises TooLarge and InsufficientStorage."""
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    async with _open_sink(folder) as sink:
        await _write(sink, [data])
        size = len(data)
        del data  # release the memory, because the file's receiver may be busy for long
        yield ReceivedFile(sink.path, name, size, sink.sha256())


@asynccontextmanager
async def write_stream(pieces: AsyncIterator[bytes], *, folder: Path, name: str) -> AsyncGenerator[ReceivedFile]:
    """Yield pieces as a file below `folder`, of any size, removed at the end. Raises InsufficientStorage."""
    size = 0
    async with _open_sink(folder) as sink:
        async for piece in pieces:
            size += len(piece)
            await _write(sink, [piece])
        yield ReceivedFile(sink.path, name, size, sink.sha256())


@asynccontextmanager
async def _open_sink(folder: Path) -> AsyncGenerator["_Sink"]:
    sink = _Sink(folder / f"{TEMPORARY_PREFIX}{uuid4().hex}")
    try:
        yield sink
    finally:
        await asyncio.to_thread(sink.discard)


async def _write(sink: "_Sink", pieces: list[bytes]) -> None:
    try:
        await asyncio.to_thread(sink.write, pieces)
    except OSError as error:
        full = storage_full(error)
        if full is None:
            raise
        raise full from error


def declared_length(request: Request) -> int | None:
    """Return the Content-Length; None for chunks. The server refuses bad lengths and extra bytes (RFC 9112, 6.3)."""
    declared = request.headers.get("content-length")
    return None if declared is None else int(declared)


def remove_leftovers(folder: Path, *, untouched_seconds: float = 0) -> int:
    """Remove crashed uploads; return their number. `untouched_seconds` must exceed any live upload's pause."""
    return remove_untouched(folder.glob(f"{TEMPORARY_PREFIX}*"), seconds=untouched_seconds)


async def _parse(request: Request, parser: MultipartParser, parts: "_Parts", sink: "_Sink", *, max_bytes: int) -> None:
    received = 0
    try:
        async for chunk in request.stream():
            received += len(chunk)
            if received > max_bytes:
                raise _malformed("The file has no end boundary")
            parser.write(chunk)
            if parts.pending_bytes >= _FLUSH_BYTES:
                await _write(sink, parts.take())
        parser.finalize()
        await _write(sink, parts.take())
    except FormParserError as error:
        raise _malformed("Its parts can't be separated") from error
    except ClientDisconnect as error:
        raise BadRequest("The upload was interrupted. Send it again.", code="upload_interrupted") from error


class _Sink:
    """The temporary file: created with the first bytes, hashed during writing, open only then, so a slow upload holds
    no descriptor of it. A cancelled request may leave a thread writing: the lock decides the last user."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mode = "xb"
        self._hash = hashlib.sha256()
        self._lock = threading.Lock()
        self._discarded = False

    def write(self, pieces: list[bytes]) -> None:
        data = b"".join(pieces)
        self._hash.update(data)
        with self._lock:
            if not self._discarded:
                self._append(data)

    def sha256(self) -> bytes:
        return self._hash.digest()

    def discard(self) -> None:
        with self._lock:
            self._discarded = True
            self.path.unlink(missing_ok=True)

    def _append(self, data: bytes) -> None:
        with self.path.open(self._mode, buffering=0) as file:
            self._mode = "ab"
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) or 0 :]


class _Parts:
    """The parser's callbacks: separate the parts, check each as early as its name is known, and collect data."""

    def __init__(self, file_part: str, *, max_file_bytes: int, allowed: frozenset[str]) -> None:
        self.fields: dict[str, str] = {}
        self.file_size = 0
        self.pending_bytes = 0
        self._file_part = file_part
        self._max_file_bytes = max_file_bytes
        self._allowed = allowed
        self._file_name: str | None = None
        self._headers: dict[bytes, bytes] = {}
        self._header = (bytearray(), bytearray())
        self._name = ""
        self._field = bytearray()
        self._pending: list[bytes] = []
        self._ended = False

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._collect(0),
            "on_header_value": self._collect(1),
            "on_header_end": self._header_end,
            "on_headers_finished": self._open_part,
            "on_part_data": self._take_data,
            "on_part_end": self._end_part,
            "on_end": self._finish,
        }

    def take(self) -> list[bytes]:
        pieces, self._pending, self.pending_bytes = self._pending, [], 0
        return pieces

    def finish(self) -> str:
        """Return the file's name. Raises BadRequest for an incomplete body, or without a file."""
        if not self._ended:
            raise _malformed("It ends before the end of its last part")
        if self._file_name is None:
            raise BadRequest(
                f"The file is missing. Send it as the part `{self._file_part}`, next to the other parts.",
                code="file_missing",
                details=[FieldError(self._file_part, "required")],
            )
        return self._file_name

    def _begin_part(self) -> None:
        self._headers = {}
        self._header = (bytearray(), bytearray())
        self._field = bytearray()

    def _collect(self, which: int) -> Callable[[bytes, int, int], None]:
        def collect(data: bytes, start: int, end: int) -> None:
            self._header[which].extend(data[start:end])

        return collect

    def _header_end(self) -> None:
        name, value = (bytes(part) for part in self._header)
        self._headers[name.lower()] = value
        self._header = (bytearray(), bytearray())

    def _open_part(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if kind != b"form-data" or b"name" not in options:
            raise _malformed("A part has no name")
        if self._headers.get(b"content-transfer-encoding", b"").strip().lower() not in _PLAIN_ENCODINGS:
            raise _malformed("A part is encoded; send its bytes unencoded")
        self._name = _decode_value(options[b"name"], "part name")
        self._check_name(is_file=b"filename" in options)
        if self._name == self._file_part:
            self._file_name = _file_name(options.get(b"filename"), self._file_part)

    def _check_name(self, *, is_file: bool) -> None:
        short_name = self._name[:_NAME_CHARACTERS]
        if self._name != self._file_part and self._name not in self._allowed:
            known = sorted({self._file_part, *self._allowed})
            nearest = self._file_part if is_file else find_nearest(short_name, known)
            hint = f"the nearest is {nearest}" if nearest else f"there are {', '.join(known)}"
            raise BadRequest(
                f"The form has a part that this operation doesn't know. Send the file as the part `{self._file_part}`.",
                code="part_unknown",
                details=[FieldError(short_name, f"unknown part; remove it; {hint}")],
            )
        if self._name in self.fields or (self._name == self._file_part and self._file_name is not None):
            raise BadRequest(
                "The form has a part twice. Send each part once.",
                code="part_duplicate",
                details=[FieldError(short_name, "send it once")],
            )

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        if self._name == self._file_part:
            self.file_size += end - start
            if self.file_size > self._max_file_bytes:
                raise _too_large(self._max_file_bytes)
            self._pending.append(data[start:end])
            self.pending_bytes += end - start
        else:
            self._field.extend(data[start:end])
            if len(self._field) > _FIELD_BYTES:
                raise BadRequest(
                    f"A field is longer than {_FIELD_BYTES:,} bytes. Send a shorter value.",
                    code="field_too_large",
                    details=[FieldError(self._name, "too long")],
                )

    def _end_part(self) -> None:
        if self._name != self._file_part:
            self.fields[self._name] = _decode_value(bytes(self._field), self._name)

    def _finish(self) -> None:
        self._ended = True


def _require_boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data":
        message = f"Send the body as multipart/form-data, with the file in its own part{sent_as(request)}."
        raise UnsupportedMedia(message, code="content_type_unsupported")
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 70:
        raise _malformed("Its Content-Type names no boundary of 1 to 70 characters: let the HTTP library set it")
    return boundary


def _file_name(value: bytes | None, part: str) -> str:
    if not value:
        raise BadRequest(f"The part `{part}` has no file name. Send the part as a file.", code="file_name_missing")
    # Browsers' escapes for characters that would end the header's value (WHATWG HTML, form data encoding).
    name = _decode_value(value, "file name", code="file_name_invalid")
    return clean_file_name(name.replace("%22", '"').replace("%0D", "").replace("%0A", ""))


def _decode_value(value: bytes, name: str, *, code: str = "field_invalid") -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(
            "A value isn't UTF-8. Encode it as UTF-8.", code=code, details=[FieldError(name, "must be UTF-8")]
        ) from error
    if "\x00" in text:
        raise BadRequest(
            "A value has a NUL character. Remove it.", code=code, details=[FieldError(name, "must have no NUL")]
        )
    return text


def _malformed(reason: str) -> BadRequest:
    return BadRequest(f"The multipart body is malformed. {reason}.", code="multipart_invalid")


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The file is larger than {limit:,} bytes, which is the limit. Split it, or ask an operator.",
        code="file_too_large",
    )
