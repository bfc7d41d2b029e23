"""The command palette: which pages, actions and names it gives to whom."""

import json
from typing import Any

from streamlit.testing.v1.element_tree import UnknownElement

from app.auth.sessions import digest_of
from tests.app.conftest import House
from tests.app.pages import Page, new_word
from tests.service.conversations import a_desk

MEMBER = "jonas@example.test"
SCRIPT = """
from app.palette import show_palette

show_palette(is_admin={is_admin}, is_editor=False)
"""


def palette(house: House, email: str = "", *, is_admin: bool | None = None, **kept: object) -> dict[str, Any]:
    page = Page.from_string(SCRIPT.format(is_admin=not email if is_admin is None else is_admin))
    page.session_state["signed_in.owner"] = digest_of(house.sign_in(email))
    for name, value in kept.items():
        page.session_state[f"palette.{name}"] = value
    [part] = page.run().get("bidi_component")
    assert isinstance(part, UnknownElement)
    return json.loads(part.proto.json)


def names(data: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["kind"], one["name"]) for one in data["found"]["items"]}


def test_names_are_found_that_the_person_may_read_and_no_others(house: House) -> None:
    word = new_word()
    house.add_people(MEMBER, f"{word}@example.test")
    house.load(f"Open {word}", internal_public=True)
    house.load(f"Secret {word}")
    house.add_group(f"Crew {word}")
    house.add_collection(f"Shelf {word}")
    desk = a_desk(house.service, f"Desk {word}")
    hidden = a_desk(house.service, f"Hidden {word}")
    hidden.deploy()
    found = palette(house, asked=f" {word.upper()} ")
    kinds = ["Agent", "Agent", "Collection", "Collection", "Collection", "Document", "Document", "Group", "Person"]
    assert sorted(one["kind"] for one in found["found"]["items"]) == kinds
    [person] = [one["address"] for one in found["found"]["items"] if one["kind"] == "Person"]
    assert word in house.open("people", person=person.removeprefix("people?person=")).shown
    found = palette(house, MEMBER, asked=word)
    assert names(found) == {("Document", f"Open {word}"), ("Agent", f"Desk {word}")}
    assert f"chat?agent={desk.agent_id}" in {one["address"] for one in found["found"]["items"]}


def test_a_person_gets_their_pages_and_actions_and_leads_to_no_other(house: House) -> None:
    """What a browser says of a person who is no admin gives no names: the service decides."""
    house.add_people(MEMBER)
    everything = {one["name"] for one in palette(house)["items"]}
    assert {"Home", "Settings", "API keys", "Add person", "Open the runs"} <= everything
    data = palette(house, MEMBER, chosen={"address": "people", "dialog": "new_person"})
    assert [one["name"] for one in data["items"]] == ["Search", "Chat", "Documents"]
    found = palette(house, MEMBER, is_admin=True, asked="jonas")["found"]
    assert (found["items"], "admin" in found["problem"].lower()) == ([], True)
