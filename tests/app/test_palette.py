"""The command palette: which pages, actions and names it gives to whom."""

import json
from typing import Any

from app.auth.sessions import digest_of
from tests.app.conftest import House
from tests.app.pages import Page, new_word
from tests.service.conversations import a_desk

MEMBER = "jonas@example.test"


def palette(house: House, email: str = "", *, is_admin: bool | None = None, **kept: object) -> dict[str, Any]:
    admin = not email if is_admin is None else is_admin
    page = Page.from_string(f"from app import palette; palette.show_palette(is_admin={admin}, is_editor=False)")
    page.session_state["signed_in.owner"] = digest_of(house.sign_in(email))
    for name, value in kept.items():
        page.session_state[f"palette.{name}"] = value
    [part] = page.run().get("bidi_component")
    return json.loads(part.proto.json)


def test_names_are_found_that_the_person_may_read_and_no_others(house: House) -> None:
    word = new_word()
    house.add_people(MEMBER, f"{word}@example.test")
    house.load(f"Open {word}", internal_public=True)
    house.load(f"Secret {word}")
    house.add_group(f"Crew {word}")
    house.add_collection(f"Shelf {word}")
    desk, hidden, _ = (a_desk(house.service, name) for name in (f"Desk {word}", f"Hidden {word}", "Another"))
    hidden.deploy()
    found = palette(house, asked=f" {word.upper()} ")["found"]["items"]
    kinds = ["Agent", "Agent", "Collection", "Collection", "Collection", "Document", "Document", "Group", "Person"]
    assert sorted(one["kind"] for one in found) == kinds
    [person] = [one["address"].removeprefix("people?person=") for one in found if one["kind"] == "Person"]
    assert word in house.open("people", person=person).shown
    found = palette(house, MEMBER, asked=word)["found"]["items"]
    assert [one["name"] for one in found] == [f"Open {word}", f"Desk {word}"]
    assert found[1]["address"] == f"chat?agent={desk.agent_id}"


def test_a_person_gets_their_pages_and_actions_and_leads_to_no_other(house: House) -> None:
    """What a browser says of a person who is no admin gives no names: the service decides."""
    house.add_people(MEMBER)
    everything = {one["name"] for one in palette(house)["items"]}
    assert {"Home", "Settings", "API keys", "Add person", "Open the runs"} <= everything
    data = palette(house, MEMBER, chosen={"address": "people", "dialog": "new_person"})
    assert [one["name"] for one in data["items"]] == ["Search", "Chat", "Documents"]
    found = palette(house, MEMBER, is_admin=True, asked="jonas")["found"]
    assert (found["items"], "admin" in found["problem"].lower()) == ([], True)
