"""Apply operations to service and model, in turn or two at once; also through /mcp."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from time import sleep
from typing import Any

from tests.oauth.talking import result, send
from tests.properties.asking import Asking
from tests.properties.model import READING, Model, Text, outcome
from tests.properties.world import ADMIN, World, outcome_of

QUESTION = "What does the harbour log tell of {}?"


class Elsewhere(Asking):
    """Searches, texts, answers and readers, through a person's token for a client."""

    def check_elsewhere(self, by: str) -> str:
        if not self.model.users[by].active:
            answer = send(self.world.service, self.world.agent_token(by), "tools/list")
            assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (401, "owner_inactive")
            return "inactive"
        looks = (self._search, self._fetch, self._fetch, self._ask, self._who, self._shared, self._shared)
        return self.chance.choice(looks)(by)

    def _use(self, by: str, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = send(self.world.service, self.world.agent_token(by), "tools/call", name=tool, arguments=arguments)
        said = result(answer)
        if said.get("isError"):
            return {"refusal": said["content"][0]["text"].rpartition("(code ")[2].partition(",")[0]}
        return said["structuredContent"]

    def _search(self, by: str) -> str:
        readable = self.model.readable(by)
        markers = [document.text.marker for document in self.model.documents.values()]
        results = self._use(by, "search", query=" ".join(["harbour", *markers]), limit=50)["results"]
        shown = {each["id"]: each["title"] for each in results}
        assert shown == {self.world.document_id(name): text.title for name, text in readable.items()}
        self.check_silence(results, readable.values())
        return "search"

    def _fetch(self, by: str) -> str:
        name = self.chance.choice(sorted(self.model.documents) or ["log/never"])
        read = self._use(by, "fetch", id=self.world.document_id(name))
        text = self.model.readable(by).get(name)
        self.check_silence(read, [] if text is None else [text])
        if text is None:
            assert read == {"refusal": "document_not_found"}
            return "fetch document_not_found"
        assert (read["title"], read["text"].count(text.marker)) == (text.title, text.parts)
        return "fetch"

    def _ask(self, by: str) -> str:
        agents, documents = sorted(self.model.agents), sorted(self.model.documents)
        if not agents or not documents:
            return "nothing"
        agent, marker = self.chance.choice(agents), self.model.documents[self.chance.choice(documents)].text.marker
        told = self._use(by, "ask_agent", question=QUESTION.format(marker), agent=self.world.agent_ids[agent])
        if agent not in self.model.usable(by):
            assert told == {"refusal": "which_agent" if self.model.usable(by) else "no_agents"}
            return "ask refused"
        retrieved: dict[str, list[Text]] = {}
        for name, text in self.model.retrievable(by, agent):
            retrieved.setdefault(name, []).append(text)
        self.check_silence(told, [text for texts in retrieved.values() for text in texts])
        has_it = {name for name, texts in retrieved.items() if any(text.marker == marker for text in texts)}
        assert (marker in told["answer"]) == bool(has_it), told
        assert has_it <= {self.world.document_names[source["id"]] for source in told["sources"]}
        return "ask"

    def _shared(self, by: str) -> str:
        if not self.said:
            return "nothing"
        said, readable = self.chance.choice(self.said), self.model.readable(by)
        answer = self.world.read_shared(by, said.result["conversationId"])
        may_use = said.actor in self.model.actors and said.question.agent in self.model.usable(by)
        if by != said.actor and not may_use:
            assert outcome_of(answer) == (404, "conversation_not_found")
            return "shared refused"
        [reply] = [one for one in answer.json()["messages"] if one["messageId"] == said.result["messageId"]]
        is_readable = said.documents("referencedSources", self.world.document_names) <= readable.keys()
        assert ("agentResponseText" in reply) == is_readable
        self.check_silence({**reply, "message": ""}, self.still_readable(said, readable) if is_readable else [])
        return "shared" if is_readable else "shared withheld"

    def _who(self, by: str) -> str:
        name = self.chance.choice(sorted(self.model.documents) or ["log/never"])
        told = self._use(by, "who_can_read", document_id=self.world.document_id(name))
        if not self.model.is_admin(by):
            assert told == {"refusal": "admin_only"}
            return "who refused"
        if name not in self.model.documents:
            assert told == {"refusal": "document_not_found"}
            return "nothing"
        expected = self.model.readers(self.model.resources[name])
        assert sorted(self.world.names(told["readers"])) == sorted(expected)
        return "who"


# So many steps lie at least between two of a kind; more where one takes long, or stands in the way of others.
SHORT_REST, LONG_REST = 8, 25
BETWEEN_RACES = 3
# An upload takes about as long, so that the other of two racing requests meets it anywhere on its way.
LONGEST_HEAD_START = 0.08

# A user or a credential, or anybody who is able if that one is not: without these, most tries would be refused.
Actor = tuple[str, bool]


@dataclass(frozen=True, eq=False)
class Operation:
    name: str
    args: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def to(self, one: Model | World) -> Any:
        return getattr(one, self.name)(*self.args, **dict(self.options))


def an_operation(name: str, *args: Any, **options: Any) -> Operation:
    return Operation(name, args, tuple(options.items()))


class Operations(Elsewhere):
    """Applies operations to model and service; `taken` counts operations by outcome."""

    taken: "Counter[str]"
    steps: int
    rests: dict[str, int]

    def do(self, what: Operation) -> bool:
        working = self.working()
        expected = outcome(what.to, self.model)
        response = what.to(self.world)
        self.taken[f"{what.name} {expected[1] or 'done'}"] += 1
        assert outcome_of(response) == expected, response.text
        self.check_stopped(working)
        return expected[0] == 200

    def working(self) -> list[str]:
        return [name for name in self.model.credentials if outcome(self.model.enter, name, READING)[0] in {200, 403}]

    def check_stopped(self, worked: list[str]) -> None:
        for stopped in sorted(set(worked) - set(self.working())):
            self.check_entry(stopped)

    def do_as(self, actor: Actor, name: str, *args: Any, **options: Any) -> bool:
        return self.do(self.operation_of(actor, name, *args, **options))

    def operation_of(self, actor: Actor, name: str, *args: Any, **options: Any) -> Operation:
        named, or_anybody = actor
        alike, others = (self.model.users, self.model.credentials)
        if named in self.model.credentials:
            alike, others = others, alike
        for by in (named, *alike, *others) if or_anybody else ():
            tried = an_operation(name, by, *args, **options)
            if outcome(tried.to, deepcopy(self.model))[0] == 200:
                return tried
        return an_operation(name, named, *args, **options)

    def loss(self, by: str, how: int) -> Operation:
        owner = self.model.credentials[by].owner if by in self.model.credentials else by
        if by in self.model.credentials and (how < 2 or owner not in self.model.users.keys() | self.model.accounts):
            return an_operation("revoke", by)
        if owner in self.model.accounts:
            return an_operation("delete_account", owner) if how == 2 else an_operation("enable_accounts", enabled=False)
        return an_operation("change_user", owner, active=owner == ADMIN, is_admin=owner == ADMIN)

    def race(self, write: Operation, change: Operation, document: str, collection: str | None = None) -> None:
        self.rest("race", BETWEEN_RACES)
        working = self.working()
        head_start = self.chance.uniform(-LONGEST_HEAD_START / 4, LONGEST_HEAD_START)

        def send(what: Operation, after: float) -> tuple[int, str | None]:
            sleep(max(after, 0))
            return outcome_of(what.to(self.world))

        with ThreadPoolExecutor(2) as both:
            answers = (both.submit(send, write, -head_start), both.submit(send, change, head_start))
            answered = {write: answers[0].result(60), change: answers[1].result(60)}
        possible: list[Model] = []
        for order in ((write, change), (change, write)):
            model = deepcopy(self.model)
            expected = {each: outcome(each.to, model) for each in order}
            if expected[write][0] == 401 and change.args[0] in (dict(write.options).get("readers") or ()):
                # Who was let in before the change names a reader who is gone after it.
                expected[write] = answered[write] if answered[write] == (400, "unknown_principal") else expected[write]
            if expected == answered and model not in possible:
                possible.append(model)
        assert possible, f"{write} with {change} answered {list(answered.values())}"
        # Two that both say who may read the document: the grants tell which was the last.
        self.model = next((model for model in possible[:-1] if self.is_granted(model, document)), possible[-1])
        self.taken[f"{write.name} with {change.name}"] += 1
        self.check_stopped(working)
        self.check_after_race(document, collection)

    def is_granted(self, model: Model, resource: str) -> bool:
        roles = model.resources[resource].roles if resource in model.resources else set()
        return self.world.granted(resource) == {(who, role) for who, role in roles if role != "OWNER"}

    def check_after_race(self, document: str, collection: str | None) -> None:
        if document in self.model.documents:
            self.check_readers(document, 5)
        for by in sorted((*self.model.users, *self.model.credentials)):
            if outcome(self.model.enter, by, READING)[0] != 200:
                continue
            if document in self.model.documents:
                self.check_found_alone(by, document)
            if collection is not None:
                self.check_collection_search(by, collection, "LEXICAL")

    def rest(self, name: str, steps: int) -> None:
        self.rests[name] = self.steps + steps

    def rested(self, name: str) -> bool:
        return self.steps >= self.rests.get(name, 0)
