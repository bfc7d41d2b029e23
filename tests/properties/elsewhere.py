"""What agents of elsewhere are told for somebody through /mcp, held against what the model says."""

from typing import Any

from tests.oauth.talking import result, send
from tests.properties.asking import Asking
from tests.properties.model import Text

QUESTION = "What does the harbour log tell of {}?"


class Elsewhere(Asking):
    """Searches, texts, answers and readers, through a token that its person gave to a client."""

    def check_elsewhere(self, by: str) -> str:
        """A client is told what the person may read, and nothing else; what was looked at, and what came of it."""
        if not self.model.users[by].active:
            answer = send(self.world.service, self.world.agent_token(by), "tools/list")
            assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (401, "owner_inactive")
            return "inactive"
        looks = (self._search, self._fetch, self._fetch, self._ask, self._who)
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
