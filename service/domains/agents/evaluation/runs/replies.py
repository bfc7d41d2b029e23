"""Measuring how well the replies of a run are supported by what they cite, a few at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from carrel.wire.evaluation_runs import CaseResult
from service.auth.callers import Caller
from service.domains.agents.answering.grounding import measure_groundedness
from service.domains.agents.conversations.reading.queries import list_sources, list_turns_of_everybody
from service.platform.database import Database

REPLIES_AT_ONCE = 50

_Reply = tuple[UUID, str, Mapping[int, str]]
"""A message's id, the text of its reply, and the texts of the passages that it cites, by the citation's number."""


async def measure_replies(
    database: Database, caller: Caller, results: Sequence[CaseResult]
) -> dict[UUID | None, float | None]:
    """Return how well each reply is supported, by message, if the admin may read it now; no transaction is open."""
    message_ids = [one.message_id for one in results if one.message_id is not None]
    measured: dict[UUID | None, float | None] = {}
    for begin in range(0, len(message_ids), REPLIES_AT_ONCE):
        replies = await _read_replies(database, caller, message_ids[begin : begin + REPLIES_AT_ONCE])
        for message_id, text, passages in replies:
            measured[message_id] = await asyncio.to_thread(measure_groundedness, text, passages)
    return measured


async def _read_replies(database: Database, caller: Caller, message_ids: Sequence[UUID]) -> list[_Reply]:
    async with database.transaction(caller.organization_id, read_only=True) as connection:
        turns = await list_turns_of_everybody(connection, caller, turn_ids=message_ids)
        shown = [turn for turn in turns if turn.reply and turn.citations and not turn.withheld]
        turn_ids = [turn.turn_id for turn in shown]
        sources = await list_sources(connection, caller, turn_ids=turn_ids, with_text=True) if shown else []
    texts = {(one.turn_id, one.passage_no): one.text or "" for one in sources}
    replies: list[_Reply] = []
    for turn in shown:
        cited = {number: (turn.turn_id, one["passageNo"]) for number, one in enumerate(turn.citations, 1)}
        passages = {number: texts[key] for number, key in cited.items() if key in texts}
        replies.append((turn.turn_id, turn.reply or "", passages))
    return replies
