"""A document's file as an answer that a browser saves and never runs."""

from urllib.parse import quote

from fastapi.responses import StreamingResponse

from service.domains.documents.queries import StoredFile
from service.runtime import Runtime


async def download(runtime: Runtime, file: StoredFile) -> StreamingResponse:
    """Stream a file as an attachment; no transaction is open meanwhile."""
    headers = {
        "Content-Disposition": content_disposition(file.name),
        "Content-Length": str(file.size),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }
    pieces = await runtime.files.stream(file.sha256)
    return StreamingResponse(pieces, media_type=file.media_type, headers=headers)


def content_disposition(name: str) -> str:
    """Return the header's value for an attachment of this name, whatever characters it has (RFC 6266, RFC 8187).

    The plain `filename` is for clients that know no other: ASCII, with `_` for what could end or escape the string.
    """
    plain = "".join(char if char.isascii() and char.isprintable() and char not in '"\\%/' else "_" for char in name)
    extended = quote(name.encode("utf-8", "replace"), safe="!#$&+-.^_`|~")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{extended}"
