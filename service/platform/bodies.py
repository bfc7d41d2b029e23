"""Reading a body that arrives in pieces, up to a limit."""

from collections.abc import AsyncIterable


async def read_at_most(pieces: AsyncIterable[bytes], *, most_bytes: int) -> bytes | None:
    """Return a body's pieces joined; None as soon as the body exceeds the limit, without reading the rest."""
    content = bytearray()
    async for piece in pieces:
        content += piece
        if len(content) > most_bytes:
            return None
    return bytes(content)
