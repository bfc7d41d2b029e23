"""Send a document's file, or a page as a picture. Browsers save the answer and never run it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

from fastapi import Response
from fastapi.responses import StreamingResponse

from carrel.wire.pages import PAGE_COUNT, WITH_PAGES
from service.domains.documents.stored.queries import StoredFile
from service.platform.errors import BadRequest, NotFound
from service.runtime import Runtime
from service.web.multipart import uploads_folder, write_stream


async def download(runtime: Runtime, file: StoredFile) -> StreamingResponse:
    """Stream a file as an attachment, with no transaction open."""
    pieces = await runtime.files.stream(file.sha256)
    headers = {**_headers(file.name), "Content-Length": str(file.size)}
    return StreamingResponse(pieces, media_type=file.media_type, headers=headers)


async def download_page(runtime: Runtime, file: StoredFile, *, page: int, wanted_by: UUID) -> Response:
    """Send a page, counted from 1, as a JPEG; raises `document_without_pages`, `page_not_found` or a render error."""
    if file.media_type not in WITH_PAGES:
        raise BadRequest(
            "Only pages of PDF files and pictures can be shown. Use getDocumentChunks for the text of this document, "
            "or downloadDocument for its file.",
            code="document_without_pages",
        )
    rendered = await runtime.extractor.render_page(
        _on_disk(runtime, file), media_type=file.media_type, page=page, wanted_by=wanted_by
    )
    if not rendered.jpeg:
        raise NotFound(f"The document has no such page. Its last page is {rendered.page_count}.", code="page_not_found")
    headers = {**_headers(f"{file.name} page {page}.jpg"), PAGE_COUNT: str(rendered.page_count)}
    return Response(rendered.jpeg, media_type="image/jpeg", headers=headers)


@asynccontextmanager
async def _on_disk(runtime: Runtime, file: StoredFile) -> AsyncGenerator[Path]:
    """Yield the path of a file: the store's own if it is a local folder, otherwise a copy."""
    path = await asyncio.to_thread(runtime.files.find_path, file.sha256)
    if path is not None:
        yield path
        return
    async with runtime.copies.open(file.sha256, _copy(runtime, file)) as copy:
        yield copy


@asynccontextmanager
async def _copy(runtime: Runtime, file: StoredFile) -> AsyncGenerator[Path]:
    pieces = await runtime.files.stream(file.sha256)
    async with write_stream(pieces, folder=uploads_folder(runtime.settings), name=file.name) as copy:
        yield copy.path


def _headers(name: str) -> dict[str, str]:
    return {
        "Content-Disposition": content_disposition(name),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }


def content_disposition(name: str) -> str:
    """Return a header for any attachment's name. Plain `filename` is ASCII without escapes (RFC 6266, RFC 8187)."""
    plain = "".join(char if char.isascii() and char.isprintable() and char not in '"\\%/' else "_" for char in name)
    extended = quote(name.encode("utf-8", "replace"), safe="!#$&+-.^_`|~")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{extended}"
