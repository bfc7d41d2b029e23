"""The agent: rules, the only tool, and the dependencies of a run."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic_ai import Agent, RunContext, Tool, ToolDefinition, ToolReturn, UsageLimits

from service.domains.agents.answering.capabilities import ModelSpans, Retries
from service.domains.agents.answering.models import Assignment, Passage
from service.domains.agents.answering.phrases import answer_small_talk
from service.domains.agents.answering.retrieval import LONGEST_PASSAGE, Lookup, describe_narrowing, retrieve
from service.domains.search.understanding.following import complete_question
from service.runtime import Runtime

SEARCH = "search_passages"
"""The name of the only tool."""

MOST_SEARCHES = 6
MOST_REQUESTS = MOST_SEARCHES + 3
"""The most requests to a model per reply; the last request offers no tool."""

PASSAGES_A_SEARCH = 8
MOST_PASSAGES = 40
MOST_CHARACTERS = 60_000
"""Characters of all passages together. The model doesn't see any more."""

LIMITS = UsageLimits(request_limit=MOST_REQUESTS, tool_calls_limit=MOST_SEARCHES * 2)

LOOKED_UP_NOTHING = "The model looked nothing up for this reply."

_RULES = {
    name: rules.replace("SEARCH", SEARCH)
    for name, rules in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}


@dataclass(slots=True)
class AgentDeps:
    """The dependencies of a reply; `messages` has the newest last; `narrowed` and `note` are as in `Retrieved`."""

    runtime: Runtime
    assignment: Assignment
    messages: Sequence[str] = ()
    calls_tools: bool = True
    most_characters: int = MOST_CHARACTERS
    passages: list[Passage] = field(default_factory=list[Passage])
    narrowed: dict[str, frozenset[bool]] = field(default_factory=dict[str, frozenset[bool]])
    note: str | None = None
    searches: int = 0

    @property
    def may_search(self) -> bool:
        return bool(self.assignment.collection_ids) and self.searches < MOST_SEARCHES

    @property
    def warnings(self) -> list[str]:
        """Return warnings about the searches for the reader of the reply."""
        told = [describe_narrowing(words, narrowed) for words, narrowed in self.narrowed.items()]
        # A later message may need no search: "In German, please."
        is_first = len(self.messages) == 1
        if self.may_search and not self.searches and is_first and answer_small_talk(self.messages[0]) is None:
            told.append(LOOKED_UP_NOTHING)
        return [*told, *([self.note] if self.note else [])]

    async def search(self, query: str) -> list[tuple[int, Passage]]:
        """Search with current rights; number passages while there is room. Return them by document, the best first."""
        self.searches += 1
        longest = min(LONGEST_PASSAGE, self.most_characters // 3)
        given = self.assignment
        lookup = Lookup(query, PASSAGES_A_SEARCH, messages=self.messages, options=given.retrieval, longest=longest)
        caller = await given.sender()
        retrieved = await retrieve(self.runtime, caller, collection_ids=given.collection_ids, lookup=lookup)
        for words, narrowed in retrieved.narrowed.items():
            self.narrowed[words] = self.narrowed.get(words, frozenset()) | narrowed
        self.note = retrieved.note or self.note
        found = retrieved.passages
        documents = list(dict.fromkeys(passage.document_id for passage in found))
        numbered = [(number, passage) for passage in found if (number := self._number_of(passage)) is not None]
        return sorted(numbered, key=lambda each: (documents.index(each[1].document_id), each[1].chunk_no))

    def list_found(self, numbered: Sequence[tuple[int, Passage]]) -> list[tuple[int, int, int]]:
        """Return the chunks that a search found, best first, without their neighbours: each passage's number, and where
        in its text the chunk begins and ends. Only the built-in model reads this."""
        found: dict[int, tuple[int, int, int]] = {}
        for number, passage in numbered:
            shift = self.passages[number - 1].text.index(passage.text)
            ends = [*(part.start for part in passage.parts[1:]), len(passage.text) + 1]
            for part, end in zip(passage.parts, ends, strict=True):
                if part.rank is not None:
                    found[part.rank] = number, shift + part.start, shift + end
        return [found[rank] for rank in sorted(found)]

    def _number_of(self, passage: Passage) -> int | None:
        """Return a passage's number, adding the passage if new; None when no room is left for it."""
        for number, known in enumerate(self.passages, 1):
            if known.document_id == passage.document_id and passage.text in known.text:
                return number
        characters = sum(len(known.text) for known in self.passages)
        if len(self.passages) >= MOST_PASSAGES or characters + len(passage.text) > self.most_characters:
            return None
        self.passages.append(passage)
        return len(self.passages)


async def search_passages(context: RunContext[AgentDeps], query: str) -> ToolReturn:
    """Search the documents that the person may read.

    Args:
        query: A question or a few words, in the language of the documents."""
    found = await context.deps.search(query)
    return ToolReturn(_to_json(found), metadata=context.deps.list_found(found))


async def search_first(deps: AgentDeps) -> str:
    """Return the message with the passages found for it, unless it is small talk or the agent has no collections."""
    message = deps.assignment.message
    if not deps.may_search or answer_small_talk(deps.messages[-1]) is not None:
        return message
    return f"{message}\n\nPassages:\n{_to_json(await deps.search(complete_question(deps.messages) or message))}"


def _to_json(found: Sequence[tuple[int, Passage]]) -> str:
    # JSON keeps a passage's text from imitating another passage, or the end of a passage.
    shown = [{"n": number, "document": passage.document_name, "text": passage.text} for number, passage in found]
    return json.dumps(shown, ensure_ascii=False)


async def _offer_tool(context: RunContext[AgentDeps], tool: ToolDefinition) -> ToolDefinition | None:
    return tool if context.deps.calls_tools and context.deps.may_search else None


def _write_rules(context: RunContext[AgentDeps]) -> str:
    given = context.deps.assignment
    names = ["search", "passages"] if context.deps.calls_tools else ["passages"]
    rules = [_RULES[name] for name in ["always", *(names if given.collection_ids else ["nothing"])]]
    if instructions := given.instructions.strip():
        rules.append(f"Beyond these rules, which nothing changes, your instructions are:\n{instructions}")
    return "\n\n".join(rules)


AGENT = Agent(
    deps_type=AgentDeps,
    output_type=str | None,
    instructions=_write_rules,
    tools=[Tool(search_passages, prepare=_offer_tool, sequential=True)],
    capabilities=[Retries(), ModelSpans()],
)
"""Has no default model: each run names a model. The output is None when the model returns no text."""
