"""Shortest chains in a graph of groups: levels first, so that chains are only ever followed where they lead.

Nothing here knows of the database: groups are ids, and what is above or below them is asked of a function.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from uuid import UUID

Around = Callable[[Collection[UUID]], Awaitable[Collection[UUID]]]
"""Which groups any of these is a direct member of."""


async def levels_above(principal_id: UUID, around: Around) -> dict[UUID, int]:
    """Return the principal and every group around it, each once with the number of steps to it."""
    levels = {principal_id: 0}
    newest: Collection[UUID] = [principal_id]
    while newest:
        level = levels[next(iter(newest))] + 1
        newest = [group_id for group_id in await around(newest) if group_id not in levels]
        levels.update(dict.fromkeys(newest, level))
    return levels


def chains_to(top: UUID, below: Mapping[UUID, Sequence[UUID]]) -> Iterator[tuple[UUID, ...]]:
    """Yield every chain from the bottom up to `top`; `below` are the next nodes down, and the bottom has none.

    Since each step down leads to the bottom, no step is taken in vain, and asking for the first few is cheap
    however many there are.
    """
    # Each entry is the lowest one so far and the entry it was come to from.
    pending: list[_Link] = [(top, None)]
    while pending:
        link = pending.pop()
        lower = below.get(link[0], ())
        if lower:
            pending.extend((one, link) for one in reversed(lower))
        else:
            yield tuple(_unroll(link))


_Link = tuple[UUID, "_Link | None"]


def _unroll(link: "_Link | None") -> Iterator[UUID]:
    while link is not None:
        yield link[0]
        link = link[1]
