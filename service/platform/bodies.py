"""Reading what somebody sends in pieces, up to a limit."""

from collections.abc import AsyncIterable


async def read_at_most(pieces: AsyncIterable[bytes], *, most_bytes: int) -> bytes | None:
    """Return the pieces of a body as one, or None for a longer one, of which the rest is not read."""
    content = bytearray()
    async for piece in pieces:
        content += piece
        if len(content) > most_bytes:
            return None
    return bytes(content)
