"""Complete found passages with the neighbouring chunks of the same section, where lists, tables and answers go on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from uuid import UUID

from service.domains.agents.answering.models import Part, Passage
from service.domains.agents.answering.segments import is_heading
from service.domains.search.queries import FoundPassage
from service.text.chunking import PATH_SEPARATOR

REACH = 5
"""Chunks on each side of a found chunk that are looked at."""
MOST_HEADINGS = 3
"""Lines at the beginning of a chunk: the path of headings and headings of its own."""

Chunks = Mapping[tuple[UUID | None, UUID, int], FoundPassage]
"""Chunks by collection, document and number."""


def complete(passages: Sequence[Passage], chunks: Chunks, *, longest: int) -> list[Passage]:
    """Return the passages, best first, as sections up to `longest` characters, without repeating a chunk."""
    ranks = {_key(each): rank for rank, each in reversed([*enumerate(passages)])}
    shown: set[tuple[UUID, str]] = set()
    completed: list[Passage] = []
    for passage in passages:
        if _key(passage) not in shown:
            section = _section_of(passage, chunks, shown, longest)
            shown.update(map(_key, section))
            completed.append(_join_section(passage, section, ranks))
    return completed


def _key(chunk: Passage | FoundPassage) -> tuple[UUID, str]:
    return chunk.document_id, chunk.text


def _section_of(
    passage: Passage, chunks: Chunks, shown: set[tuple[UUID, str]], longest: int
) -> list[Passage | FoundPassage]:
    """Return a passage between its section's chunks not yet shown, in order, within `longest` characters."""
    section, ways, room = list[Passage | FoundPassage]([passage]), [1, -1], longest - len(passage.text)
    while ways:
        way = ways.pop(0)
        end = section[-1] if way > 0 else section[0]
        more = chunks.get((passage.collection_id, passage.document_id, end.chunk_no + way))
        if more is None or _key(more) in shown or len(more.text) >= room:
            continue
        if repeated_path(*((end.text, more.text) if way > 0 else (more.text, end.text))) is not None:
            section = [*section, more] if way > 0 else [more, *section]
            room -= len(more.text) + 1
            ways.append(way)
    return section


def repeated_path(before: str, after: str) -> str | None:
    """Return the first line of a chunk if it repeats headings above the chunk before, "" if the text goes on without
    a heading, and None if another section begins."""
    lines, above = after.split("\n"), before.split("\n", MOST_HEADINGS)[:MOST_HEADINGS]
    path = lines[0]
    paths = (PATH_SEPARATOR.join(above[: count + 1]) for count in range(len(above)))
    is_within = above[0].startswith(path + PATH_SEPARATOR)
    if len(lines) > 1 and (is_within or any(each == path or each.endswith(PATH_SEPARATOR + path) for each in paths)):
        return f"{path}\n"
    return None if is_heading(lines, 0) else ""


def _join_section(
    passage: Passage, section: Sequence[Passage | FoundPassage], ranks: Mapping[tuple[UUID, str], int]
) -> Passage:
    after = (below.text.removeprefix(repeated_path(above.text, below.text) or "") for above, below in pairwise(section))
    texts = [section[0].text, *after]
    starts = accumulate((len(text) + 1 for text in texts[:-1]), initial=0)
    parts = [
        Part(start, each.chunk_no, each.place, ranks.get(_key(each)))
        for start, each in zip(starts, section, strict=True)
    ]
    return replace(passage, text="\n".join(texts), chunk_no=parts[0].chunk_no, parts=parts)
