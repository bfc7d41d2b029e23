"""Agents' replies compared with the model: at once, and whenever the same reply is read again."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import httpx

from tests.properties.comparisons import Comparisons
from tests.properties.model import MESSAGING, Text, outcome
from tests.properties.world import outcome_of

Retrievable = list[tuple[str, Text]]


@dataclass(frozen=True)
class AskedQuestion:
    """A message about a word of a single document, in a conversation (a person's with an agent) or none."""

    by: str
    agent: str
    marker: str
    key: str
    conversation: tuple[str, str] | None = None
    conversation_id: str | None = None

    @property
    def text(self) -> str:
        return f"What does the harbour log tell of {self.marker}?"


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question with result, person, and the model's possible sources."""

    question: AskedQuestion
    result: dict[str, Any]
    actor: str
    retrieved: Retrievable

    def documents(self, name: str, names: dict[str, str]) -> set[str]:
        return {names[source["id"]] for source in self.result[name]}


class Asking(Comparisons):
    """Messages to agents; `said` are the answered messages."""

    said: list[AnsweredQuestion]

    def send(self, question: AskedQuestion) -> httpx.Response:
        asked = {"conversation_id": question.conversation_id, "key": question.key}
        return self.world.message(question.by, question.agent, question.text, **asked)

    def check_question(self, question: AskedQuestion) -> str:
        expected = outcome(self.model.message, question.by, question.agent, question.conversation)
        response = self.send(question)
        assert outcome_of(response) == expected, response.text
        if expected[0] == 200:
            actor = self.model.enter(question.by, MESSAGING)
            retrieved = self.model.retrievable(actor, question.agent)
            self.note(AnsweredQuestion(question, response.json()["sendChatResult"], actor, retrieved))
        return expected[1] or "done"

    def note(self, said: AnsweredQuestion) -> None:
        self.check_silence(said.result, [text for _, text in said.retrieved])
        retrieved = {name for name, _ in said.retrieved}
        assert said.documents("sourcesInDataContext", self.world.document_names) <= retrieved
        asked_for = {name for name, text in said.retrieved if text.marker == said.question.marker}
        assert (said.question.marker in said.result["response"]["message"]) == bool(asked_for), said.result
        assert asked_for <= said.documents("referencedSources", self.world.document_names)
        self.said.append(said)

    def check_again(self, said: AnsweredQuestion) -> str:
        question = said.question
        expected = outcome(self.model.message, question.by, question.agent, question.conversation)
        response = self.send(question)
        assert outcome_of(response) == expected, response.text
        if expected[0] != 200:
            return expected[1] or ""
        shown, readable = response.json()["sendChatResult"], self.model.readable(said.actor)
        cited = said.documents("referencedSources", self.world.document_names)
        if not cited <= readable.keys():
            assert shown["type"] == "blocked_result"
            self.check_silence(shown, [])
            return "blocked"
        assert shown["response"] == said.result["response"]
        self.check_silence(shown, self.still_readable(said, readable))
        return "shown"

    def still_readable(self, said: AnsweredQuestion, readable: dict[str, Text]) -> Iterable[Text]:
        then = (text for name, text in said.retrieved if name in readable)
        now = (Text(readable[name].title, text.marker, 1) for name, text in said.retrieved if name in readable)
        return chain(then, now)
