"""SQL of people's own and shared conversations: turns, current sources, and whether a turn is `withheld` now."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, case, func, select, tuple_
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import ResourceType
from carrel.wire.conversations import Conversation
from carrel.wire.messages import Verdict
from carrel.wire.places import PassagePlace
from service.auth.callers import Caller
from service.auth.queries import is_by_hand
from service.permissions.queries import is_deployed, is_readable
from service.platform.sql import as_member, columns_of, find_row, find_rows, in_array, matches
from service.schema.agents import agents
from service.schema.catalog import documents
from service.schema.conversations import COMPLETED, conversation_readers, conversations, turn_passages, turns
from service.schema.identity import principals, resources

TITLE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn, and whether the reply is `withheld` from the caller now."""

    turn_id: UUID
    turn_no: int
    conversation_id: UUID
    message: str
    status: str
    attempt: int
    reply: str | None
    citations: Sequence[Mapping[str, Any]]
    warnings: Sequence[str]
    error_code: str | None
    error_message: str | None
    retry_after: int | None
    feedback: Verdict | None
    audit_log_id: UUID | None
    created_at: datetime
    withheld: bool


@dataclass(frozen=True, slots=True)
class Source:
    """A passage of a turn, from a document the caller may READ."""

    turn_id: UUID
    passage_no: int
    document_id: UUID
    name: str
    external_url: str | None
    resource_id: str
    resource_type: ResourceType
    place: PassagePlace | None
    text: str | None = None


class ListedConversation(Conversation):
    """A conversation in a list, ordered by when it was `touched`."""

    touched: datetime


@dataclass(frozen=True)
class WalkPosition:
    """A position in a list of conversations: its last row, and when the first row was last changed."""

    began: datetime
    touched: datetime
    last_id: UUID


def is_withheld_from(caller: Caller) -> ColumnElement[bool]:
    """Build the condition to withhold a turn's reply: a document behind it is gone, or the caller may not READ it."""
    readable = (
        select(resources.c.object_id)
        .where(
            matches(resources, caller.organization_id, object_id=turn_passages.c.document_id),
            is_readable(caller, resources),
        )
        .exists()
    )
    return (
        select(turn_passages.c.turn_id)
        .where(
            matches(turn_passages, caller.organization_id, turn_id=turns.c.turn_id), turn_passages.c.rests_on, ~readable
        )
        .correlate(turns)
        .exists()
    )


def _select_turns(caller: Caller) -> Select[*tuple[Any, ...]]:
    withheld = is_withheld_from(caller).label("withheld")
    return select(*columns_of(turns, StoredTurn, as_member(turns.c.feedback, Verdict), withheld))


async def find_turn(
    connection: Connection, caller: Caller, *, turn_id: UUID, agent_ids: Collection[UUID] | None
) -> StoredTurn | None:
    """Find a turn of the caller's own conversations with these agents (None: any agents)."""
    statement = (
        _select_turns(caller)
        .join(conversations, conversations.c.conversation_id == turns.c.conversation_id)
        .where(is_own(caller, agent_ids), matches(turns, caller.organization_id, turn_id=turn_id))
    )
    return await find_row(connection, statement, StoredTurn)


async def status_of(connection: Connection, organization_id: UUID, *, turn_id: UUID) -> str | None:
    statement = select(turns.c.status).where(matches(turns, organization_id, turn_id=turn_id))
    return (await connection.execute(statement)).scalar_one_or_none()


async def list_turns(
    connection: Connection, caller: Caller, *, conversation_id: UUID, after: int, limit: int
) -> list[StoredTurn]:
    """List the turns of a conversation that is the caller's or shared with the caller, after a turn number."""
    statement = (
        _select_turns(caller)
        .join(conversations, conversations.c.conversation_id == turns.c.conversation_id)
        .where(
            is_own(caller, None) | is_shared_with(caller, None),
            matches(turns, caller.organization_id, conversation_id=conversation_id),
            turns.c.turn_no > after,
        )
        .order_by(turns.c.turn_no)
        .limit(limit)
    )
    return await find_rows(connection, statement, StoredTurn)


async def list_turns_of_all(connection: Connection, caller: Caller, *, turn_ids: Collection[UUID]) -> list[StoredTurn]:
    """List turns of all people's conversations, each with `withheld`. Only for admins."""
    statement = _select_turns(caller).where(
        turns.c.organization_id == caller.organization_id, in_array(turns.c.turn_id, turn_ids)
    )
    return await find_rows(connection, statement, StoredTurn)


async def list_sources(
    connection: Connection, caller: Caller, *, turn_ids: Collection[UUID], with_text: bool
) -> list[Source]:
    """List the passages that turns retrieved from documents the caller may READ, with names, and texts if requested."""
    names = ("turn_id", "passage_no", "document_id", "place", *(("text",) if with_text else ()))
    statement = (
        select(
            *(turn_passages.c[name] for name in names),
            documents.c.name,
            documents.c.external_url,
            resources.c.resource_id,
            as_member(resources.c.resource_type, ResourceType),
        )
        .join(documents, documents.c.document_id == turn_passages.c.document_id)
        .join(resources, resources.c.object_id == turn_passages.c.document_id)
        .where(
            turn_passages.c.organization_id == caller.organization_id,
            in_array(turn_passages.c.turn_id, turn_ids),
            turn_passages.c.text.is_not(None),
            is_readable(caller, resources),
        )
        .order_by(turn_passages.c.turn_id, turn_passages.c.passage_no)
    )
    return await find_rows(connection, statement, Source)


async def list_names(connection: Connection, caller: Caller, *, document_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return names by id, only for documents the caller may READ."""
    statement = (
        select(documents.c.document_id, documents.c.name)
        .join(resources, resources.c.object_id == documents.c.document_id)
        .where(
            documents.c.organization_id == caller.organization_id,
            in_array(documents.c.document_id, document_ids),
            is_readable(caller, resources),
        )
    )
    return {row.document_id: row.name for row in await connection.execute(statement)}


async def find_conversation(
    connection: Connection,
    caller: Caller,
    *,
    conversation_id: UUID,
    agent_ids: Collection[UUID] | None,
    or_shared: bool,
) -> Conversation | None:
    """Find a conversation of the caller with messages; with `or_shared` also a conversation shared with the caller."""
    own = is_own(caller, agent_ids)
    visible = own | is_shared_with(caller, agent_ids) if or_shared else own
    statement = _conversations(caller, visible).where(conversations.c.conversation_id == conversation_id)
    return await find_row(connection, statement, Conversation)


async def list_conversations(
    connection: Connection,
    caller: Caller,
    *,
    agent_ids: Collection[UUID] | None,
    shared: bool,
    words: Iterable[str],
    position: WalkPosition | None,
    limit: int,
) -> list[ListedConversation]:
    """List conversations with all words, the last `touched` (changed) first: the caller's own not begun by programs, or
    those `shared` with the caller. Later pages keep the first page's order despite changes, so each is listed once."""
    touched: ColumnElement[datetime] = conversations.c.updated_at
    if position is not None:
        touched = case(
            (conversations.c.updated_at <= position.began, touched),
            else_=_latest_message_before(caller, position.began),
        )
    own = is_own(caller, agent_ids) & is_by_hand(conversations.c.origin, caller.organization_id)
    statement = (
        _conversations(caller, is_shared_with(caller, agent_ids) if shared else own)
        .where(*(_has_word(caller, word) for word in words))
        .add_columns(touched.label("touched"))
        .order_by(touched.desc(), conversations.c.conversation_id.desc())
        .limit(limit)
    )
    if position is not None:
        statement = statement.where(
            tuple_(touched, conversations.c.conversation_id) < (position.touched, position.last_id)
        )
    return await find_rows(connection, statement, ListedConversation)


def _has_word(caller: Caller, word: str) -> ColumnElement[bool]:
    may_see = (turns.c.status == COMPLETED) & ~is_withheld_from(caller)
    said = (
        select(turns.c.turn_id)
        .where(
            matches(turns, caller.organization_id, conversation_id=conversations.c.conversation_id),
            turns.c.message.icontains(word, autoescape=True)
            | (turns.c.reply.icontains(word, autoescape=True) & may_see),
        )
        .correlate(conversations)
        .exists()
    )
    return conversations.c.title.icontains(word, autoescape=True) | said


def _latest_message_before(caller: Caller, moment: datetime) -> ColumnElement[datetime]:
    return (
        select(func.max(turns.c.created_at))
        .where(
            matches(turns, caller.organization_id, conversation_id=conversations.c.conversation_id),
            turns.c.created_at <= moment,
        )
        .correlate(conversations)
        .scalar_subquery()
    )


def _conversations(caller: Caller, visible: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    of_conversation = matches(turns, caller.organization_id, conversation_id=conversations.c.conversation_id)
    first = (
        select(func.left(turns.c.message, TITLE_CHARACTERS))
        .where(of_conversation)
        .order_by(turns.c.turn_no)
        .limit(1)
        .correlate(conversations)
        .scalar_subquery()
    )
    sharer = select(principals.c.name).where(_is_sharer(caller), ~is_own(caller, None))
    reader, of_reader = principals.c.email, principals.c.principal_id == conversation_readers.c.principal_id
    readers = (
        select(func.array_agg(aggregate_order_by(reader, reader)))
        .join(conversation_readers, of_reader & principals.c.active)
        .where(_is_reader(caller), is_own(caller, None))
    )
    length = select(func.count()).select_from(turns).where(of_conversation).correlate(conversations).scalar_subquery()
    return (
        select(
            conversations.c.conversation_id,
            conversations.c.agent_id,
            conversations.c.created_at,
            conversations.c.updated_at,
            agents.c.name.label("agent_name"),
            func.coalesce(conversations.c.title, first).label("title"),
            length.label("message_count"),
            sharer.correlate(conversations).scalar_subquery().label("shared_by"),
            readers.correlate(conversations).scalar_subquery().label("shared_with"),
        )
        .join(agents, agents.c.agent_id == conversations.c.agent_id)
        .where(visible, select(turns.c.turn_id).where(of_conversation).correlate(conversations).exists())
    )


def is_shared_with(caller: Caller, agent_ids: Collection[UUID] | None) -> ColumnElement[bool]:
    """Build the condition: an active person shares the conversation with the caller, who may use the agent."""
    reads = matches(conversation_readers, caller.organization_id, principal_id=caller.principal_id)
    usable = select(agents.c.agent_id).join(resources, resources.c.object_id == agents.c.agent_id)
    needed = (
        select(conversation_readers.c.principal_id).where(_is_reader(caller), reads),
        select(principals.c.principal_id).where(_is_sharer(caller), principals.c.active),
        usable.where(*is_deployed(caller), agents.c.agent_id == conversations.c.agent_id),
    )
    shared = and_(
        conversations.c.organization_id == caller.organization_id,
        *(item.correlate(conversations).exists() for item in needed),
    )
    return shared if agent_ids is None else shared & in_array(conversations.c.agent_id, agent_ids)


def _is_reader(caller: Caller) -> ColumnElement[bool]:
    return matches(conversation_readers, caller.organization_id, conversation_id=conversations.c.conversation_id)


def _is_sharer(caller: Caller) -> ColumnElement[bool]:
    return matches(principals, caller.organization_id, principal_id=conversations.c.principal_id)


def is_own(caller: Caller, agent_ids: Collection[UUID] | None) -> ColumnElement[bool]:
    own = (conversations.c.organization_id == caller.organization_id) & (
        conversations.c.principal_id == caller.principal_id
    )
    return own if agent_ids is None else own & in_array(conversations.c.agent_id, agent_ids)
