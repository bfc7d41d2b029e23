"""Visits of people with their own agent: conversations on the page Chat, and growing replies."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from tests.app.conftest import House
from tests.app.pages import Page
from tests.service.conversations import SECONDS, Desk, a_desk

ASKED = "When does the ferry leave?"


@dataclass
class Visit:
    """A person in the module's workbench, with a private agent."""

    house: House
    desk: Desk
    email: str

    def open(self, **address: str) -> Page:
        return self.house.open("chat", signed_in_as=self.email, **address)

    def ask(self, words: str = ASKED, **address: str) -> Page:
        return say(self.open(**address), words)

    def reopen(self, page: Page) -> Page:
        return self.open(conversation=page.address["conversation"])

    def kept(self) -> list[list[str]]:
        return list(self._conversations().values())

    def kept_of(self, page: Page) -> list[str]:
        return self._conversations()[page.address["conversation"]]

    def _conversations(self) -> dict[str, list[str]]:
        rows = self.house.service.execute(
            "SELECT conversation_id::text, array_agg(message ORDER BY turn_no) FROM turns "
            "JOIN conversations USING (conversation_id) WHERE agent_id = %s GROUP BY 1 ORDER BY 1",
            [self.desk.agent_id],
        )
        return dict(rows)


def begin_visit(house: House) -> Visit:
    name = uuid4().hex[:8]
    email = f"{name}@example.test"
    house.add_people(email)
    desk = a_desk(house.service, f"Harbour desk {name}")
    desk.deploy(email)
    return Visit(house, desk, email)


def say(page: Page, words: str) -> Page:
    return page.chat_input(key="chat.words").set_value(words).run()


def until(page: Page, fits: Callable[[str], bool]) -> str:
    deadline = time.monotonic() + SECONDS
    while not fits(shown := page.shown):
        assert time.monotonic() < deadline, shown[-2000:]
        page.run()
    return shown


def until_replied(page: Page, words: str = "carrel-reply") -> str:
    return until(page, lambda shown: words in shown and "aria-busy" not in shown)
