"""The page of collections in its states, on the real service."""

import html
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app import navigation
from app.auth import current
from app.document_collections import outcomes
from app.document_collections.contents import Done
from carrel import Carrel
from service.index.rebuilds.running import rebuild_all
from tests.app.conftest import VIEWS, House, html_of, markdown_of, sign_in
from tests.app.pressing import answer, button, press, press_twice
from tests.harness.embeddings import MODEL, EmbeddingsEndpoint
from tests.oauth.flow import a_person

MEMBER, EDITOR = "jonas@example.test", "edith@example.test"
HOSTILE = "<img src=x onerror=alert(1)> **b** https://evil.example :material/home:"


@pytest.fixture(scope="module", autouse=True)
def _people(house: House) -> None:
    a_person(house.service, MEMBER, name="Jonas")
    a_person(house.service, EDITOR, name="Edith")


def a_collection(client: Carrel, name: str = "", **options: Any) -> UUID:
    """Make a collection."""
    made = client.document_collections.create_document_collection(name or f"Shelf {uuid4()}", **options)
    return made.document_collection_id


def load(client: Carrel, name: str, text: str = "The ferry leaves at nine.", **options: Any) -> str:
    """Put a document into the catalog; return its id."""
    uploaded = client.catalog.upload_file(
        text.encode(),
        document_external_id=options.pop("identifier", f"{name[:100]} {uuid4()}"),
        document_name=name,
        file_name="note.txt",
        await_vector_store_sync=True,
        **options,
    )
    return str(uploaded.document_id)


def open_collection(house: House, collection: UUID, part: str = "documents", **options: Any) -> AppTest:
    """Open the page of a collection."""
    page = house.open("collections", collection=str(collection), part=part, **options)
    assert not page.exception
    return page


def inside(client: Carrel, collection: UUID) -> dict[str, int | None]:
    """The documents of a collection, with the version that can be found there."""
    listed = client.document_collections.list_documents_in_collection(collection)
    return {one.document_name: one.indexed_version for one in listed}


TEAM_AND_SECRET = {"fields": [{"name": "team", "type": "STRING"}, {"name": "secret", "type": "BOOLEAN"}]}
OPERATIONS = {"team": "operations", "secret": "true"}


def choose_to_add(house: House, collection: UUID, query: str, *documents: str) -> AppTest:
    """Find documents, and choose these to be added."""
    page = open_collection(house, collection, "add")
    page.text_input(key="add.query").set_value(query).run()
    page.multiselect(key="add.chosen").set_value(list(documents)).run()
    assert not page.exception
    return page


def fields_in(client: Carrel, collection: UUID) -> dict[str, dict[str, str]]:
    """The fields of a collection's documents."""
    listed = client.document_collections.list_documents_in_collection(collection)
    return {one.document_name: one.custom_metadata for one in listed}


def test_a_member_without_a_collection_to_look_after_is_told_so(house: House) -> None:
    """The page says for whom it is; the one who becomes an editor has it, without what only an owner may do."""
    page = house.open("collections", signed_in_as=MEMBER)
    assert "for editors of a collection" in html_of(page)
    assert not page.button
    collection = a_collection(house.client)
    grant = {"principal": {"type": "user", "email": EDITOR}, "role": "EDITOR"}
    house.client.admin.grants.set({"resourceId": str(collection), "resourceType": "DOCUMENT_COLLECTION"}, [grant])
    page = open_collection(house, collection, "about", signed_in_as=EDITOR)
    assert "you are its editor" in html_of(page)
    assert "Delete …" not in [one.label for one in page.button]


def test_a_collection_is_made_with_its_fields(house: House) -> None:
    """Rows with a name become fields of their type; two of one name are refused in words."""
    name = f"Handbook {uuid4()}"
    page = press(house.open("collections"), "New collection")
    assert "A collection needs a name." in html_of(press(page, "Create"))
    page.text_input(key="new.name").set_value(name)
    for number, (field, kind) in enumerate([("team", "Text"), ("pages", "Whole number"), (" ", "Text")]):
        page.text_input(key=f"new.fields.{number}.name").set_value(field)
        page.selectbox(key=f"new.fields.{number}.type").set_value(kind)
        page.run()
    page.text_input(key="new.fields.2.name").set_value("team ")
    page = press(page, "Create")
    assert "Two fields have the same name: team." in html_of(page)
    page.text_input(key="new.fields.2.name").set_value("")
    page = press_twice(page, "Create")
    assert "taken" not in html_of(page)
    (made,) = house.client.document_collections.list_document_collections(collection_name=name)
    assert [(field.name, field.type) for field in made.custom_metadata_schema.fields] == [
        ("team", "STRING"),
        ("pages", "INT"),
    ]
    assert page.query_params["collection"] in (str(made.document_collection_id), [str(made.document_collection_id)])
    listed = house.open("collections", name=name).dataframe[0].value
    assert listed[["Name", "Documents", "Your role"]].values.tolist() == [[name, 0, "Owner"]]


def test_documents_are_found_by_name_and_added_with_their_fields(house: House) -> None:
    """Several at once; one that is refused stops no other, and says why."""
    tag = uuid4().hex[:8]
    schema = {"fields": [{"name": "pages", "type": "INT"}]}
    collection = a_collection(house.client, custom_metadata_schema=schema)
    first, second = load(house.client, f"{tag} one"), load(house.client, f"{tag} two")
    gone = load(house.client, f"{tag} gone")
    page = open_collection(house, collection, "add")
    page.text_input(key="add.query").set_value(tag).run()
    page.multiselect(key="add.chosen").set_value([first, second, gone]).run()
    house.client.catalog.delete_document(gone)
    page.text_input(key=f"add.value.{collection}.0").set_value("twelve")
    page = press(page, "Add")
    assert html_of(page).count("<td>pages: The field is INT: send a whole number such as 42, within 64 bits.</td>") == 2
    page.text_input(key=f"add.value.{collection}.0").set_value("12")
    page = press(page, "Add")
    assert "1 of 3 documents failed." in html_of(page)
    assert page.multiselect(key="add.chosen").value == [gone]
    assert inside(house.client, collection) == {f"{tag} one": 1, f"{tag} two": 1}
    listed = house.client.document_collections.list_documents_in_collection(collection)
    assert {tuple(one.custom_metadata.items()) for one in listed} == {(("pages", "12"),)}
    shown = open_collection(house, collection).dataframe[0].value
    assert sorted(shown["Name"]) == [f"{tag} one", f"{tag} two"]
    assert set(shown["State"]) == {"Searchable"}


def test_what_is_in_a_collection_already_keeps_its_fields(house: House) -> None:
    """It is marked, its fields are shown, and without being asked for nothing of them is changed."""
    tag = uuid4().hex[:8]
    collection = a_collection(house.client, custom_metadata_schema=TEAM_AND_SECRET)
    there, new = load(house.client, f"{tag} there"), load(house.client, f"{tag} new")
    page = choose_to_add(house, collection, tag, there, new)
    assert "already in" not in html_of(page)
    put = house.client.document_collections.add_document_to_collection
    put(document_id=there, document_collection_id=collection, custom_metadata=OPERATIONS)
    st.cache_data.clear()
    page.run()
    assert page.multiselect(key="add.chosen").value == [there, new]
    labels = page.multiselect(key="add.chosen").options
    assert [label.endswith(" · already in it") for label in labels] == [f"{tag} there" in label for label in labels]
    assert "1 of these is already in the collection:" in html_of(page)
    assert "<td>team: operations, secret: true</td>" in html_of(page)
    assert page.radio(key="add.again").value == "leave"
    page.text_input(key=f"add.value.{collection}.0").set_value("Kittiwake")
    page = press(page, "Add")
    assert "Done: 1 document." in html_of(page)
    assert "Already in it, and left as it is: 1 document." in html_of(page)
    assert fields_in(house.client, collection) == {f"{tag} there": OPERATIONS, f"{tag} new": {"team": "Kittiwake"}}


def test_what_is_added_meanwhile_keeps_its_fields_too(house: House) -> None:
    """Somebody else adds the document while the page stands open, which doesn't know of it yet."""
    tag = uuid4().hex[:8]
    collection = a_collection(house.client, custom_metadata_schema=TEAM_AND_SECRET)
    there = load(house.client, f"{tag} there")
    page = choose_to_add(house, collection, tag, there)
    put = house.client.document_collections.add_document_to_collection
    put(document_id=there, document_collection_id=collection, custom_metadata=OPERATIONS)
    assert "Already in it, and left as it is: 1 document." in html_of(press(page, "Add"))
    assert fields_in(house.client, collection) == {f"{tag} there": OPERATIONS}


@pytest.mark.parametrize(
    ("again", "expected"), [("change", {"team": "Kittiwake", "secret": "true"}), ("replace", {"team": "Kittiwake"})]
)
def test_fields_of_what_is_in_it_are_changed_by_choice(house: House, again: str, expected: dict[str, str]) -> None:
    """Those that are filled in, or all of them."""
    tag = uuid4().hex[:8]
    collection = a_collection(house.client, custom_metadata_schema=TEAM_AND_SECRET)
    there = load(house.client, f"{tag} there")
    put = house.client.document_collections.add_document_to_collection
    put(document_id=there, document_collection_id=collection, custom_metadata=OPERATIONS)
    page = choose_to_add(house, collection, tag, there)
    page.radio(key="add.again").set_value(again)
    page.text_input(key=f"add.value.{collection}.0").set_value("Kittiwake")
    assert "Done: 1 document." in html_of(press(page, "Add"))
    assert fields_in(house.client, collection) == {f"{tag} there": expected}


def test_after_adding_the_form_is_empty_and_the_count_is_new(house: House) -> None:
    """What was chosen and filled in is gone, and so is the offer to add it once more."""
    tag = uuid4().hex[:8]
    collection = a_collection(house.client, custom_metadata_schema=TEAM_AND_SECRET)
    documents = [load(house.client, f"{tag} {number}") for number in range(2)]
    page = choose_to_add(house, collection, tag, *documents)
    page.text_input(key=f"add.value.{collection}.0").set_value("Kittiwake")
    assert "0 documents that you may read" in html_of(page)
    page = press(page, "Add")
    assert "2 documents that you may read" in html_of(page)
    assert page.multiselect(key="add.chosen").value == []
    assert page.text_input(key="add.query").value == ""
    assert page.text_input(key=f"add.value.{collection}.0").value == ""
    assert button(page, "Add").disabled
    assert fields_in(house.client, collection) == {f"{tag} {number}": {"team": "Kittiwake"} for number in range(2)}


def test_what_is_left_half_way_stays_in_the_form(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else is pressed when the first is added: the other one is still chosen, and the count is new."""
    tag = uuid4().hex[:8]
    collection = a_collection(house.client)
    first, second = load(house.client, f"{tag} one"), load(house.client, f"{tag} two")
    page = choose_to_add(house, collection, tag, first, second)

    def interrupted(outcomes: Iterable[Done], **_: object) -> Iterator[Done]:
        yield next(iter(outcomes))
        st.rerun()

    monkeypatch.setattr(outcomes, "show_progress", interrupted)
    page = press(page, "Add")
    assert "1 of 2 documents were not begun." in html_of(page)
    assert "1 document that you may read" in html_of(page)
    assert page.multiselect(key="add.chosen").value == [second]


def test_what_was_not_begun_is_said(house: House) -> None:
    """Who presses something else half-way learns how far it went."""
    page = open_collection(house, a_collection(house.client))
    page.session_state["collection.outcomes"] = ([Done(uuid4(), "Rules")], 3)
    page.run()
    assert "2 of 3 documents were not begun." in html_of(page)
    assert "Done: 1 document." in html_of(page)


def test_stale_documents_are_looked_for_and_indexed_again(house: House) -> None:
    """Those whose contents changed are named, and up to date afterwards."""
    collection = a_collection(house.client)
    identifier = f"rules {uuid4()}"
    load(house.client, "Rules", "Sheep travel.", identifier=identifier, collection_id=collection)
    load(house.client, "Fares", collection_id=collection)
    page = press(open_collection(house, collection), "Find stale documents")
    assert "None is stale." in html_of(page)
    load(house.client, "Rules", "Goats travel.", identifier=identifier, reindex_collections=False)
    page = open_collection(house, collection)
    assert sorted(page.dataframe[0].value["State"]) == ["Searchable", "Stale"]
    page = press(page, "Find stale documents")
    assert "1 document of those that you may read" in html_of(page)
    page = press(page, "Re-index them")
    assert "Done: 1 document." in html_of(page)
    assert inside(house.client, collection) == {"Rules": 2, "Fares": 1}


def test_a_chosen_document_is_taken_out_after_being_asked(house: House) -> None:
    """The dialog comes first; the document stays in the catalog."""
    collection = a_collection(house.client)
    document = load(house.client, "Rota", collection_id=collection)
    page = open_collection(house, collection)
    page.session_state[page.dataframe[0].key] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    page.run()
    assert f"documents?document={document}" in html_of(page)
    page = press(page, "Remove …")
    assert inside(house.client, collection) == {"Rota": 1}
    answer(page, "Remove …", "Remove")
    assert inside(house.client, collection) == {}
    assert house.client.catalog.get_document(document)


def test_a_reader_sees_what_is_in_it_and_changes_nothing(house: House) -> None:
    """Somebody who edits another collection may read this one: no adding, no index, no stale ones."""
    mine, theirs = a_collection(house.client), a_collection(house.client)
    load(house.client, "Open", collection_id=theirs, internal_public=True)
    for collection, role in ((mine, "EDITOR"), (theirs, "VIEWER")):
        grant = {"principal": {"type": "user", "email": EDITOR}, "role": role}
        resource = {"resourceId": str(collection), "resourceType": "DOCUMENT_COLLECTION"}
        house.client.admin.grants.set(resource, [grant])
    page = open_collection(house, theirs, "index", signed_in_as=EDITOR)
    assert page.dataframe[0].value["Name"].tolist() == ["Open"]
    assert [one.label for one in page.button] == ["All collections"]


def test_an_index_is_made_anew_watched_and_given_up(house: House, embeddings: EmbeddingsEndpoint) -> None:
    """It goes on beside the old one, names what fails, and can be given up; the index stays as it was."""
    a_collection(house.client, embeddings_model=MODEL)  # which lets the page know of the model
    collection = a_collection(house.client)
    load(house.client, f"Stubborn {HOSTILE}", "stubborn words", collection_id=collection)
    embeddings.refuse("stubborn")
    page = open_collection(house, collection, "index")
    page.selectbox(key="rebuild.model").set_value(MODEL).run()
    page = press(page, "Rebuild …")
    page.selectbox(key="rebuild.model").set_value(MODEL)
    page = answer(page, "Rebuild …", "Rebuild")
    house.service.run(rebuild_all(house.service.runtime.indexer, house.service.runtime.disk))
    page = open_collection(house, collection, "index")
    shown = html_of(page)
    assert "Searches use the old one." in shown
    assert "1 document failed." in shown
    assert html.escape(HOSTILE) in shown
    page = press(page, "Stop the rebuild …")
    answer(page, "Stop the rebuild …", "Stop the rebuild")
    assert "Cancelled" in html_of(open_collection(house, collection, "index"))
    (found,) = [
        one
        for one in house.client.document_collections.list_document_collections()
        if one.document_collection_id == collection
    ]
    assert found.embeddings_model != MODEL


def test_a_collection_is_deleted_after_its_name_is_typed(house: House) -> None:
    """Without the name the button does nothing; with it the collection is gone, and its documents stay."""
    name = f"Old {uuid4()}"
    collection = a_collection(house.client, name)
    document = load(house.client, "Kept", collection_id=collection)
    page = press(open_collection(house, collection, "about"), "Delete …")
    assert page.button(key="confirm.yes").disabled
    page.text_input(key="confirm.name").set_value(name)
    page.button(key="delete").click().run()
    assert not page.button(key="confirm.yes").disabled
    page.text_input(key="confirm.name").set_value(name)
    page = answer(page, "Delete …", "Delete")
    assert "collection" not in page.query_params
    assert not list(house.client.document_collections.list_document_collections(collection_name=name))
    assert house.client.catalog.get_document(document)


def test_names_of_others_are_never_markdown(house: House) -> None:
    """A hostile name of a collection, a field or a document is text in every part."""
    schema = {"fields": [{"name": HOSTILE, "type": "STRING"}]}
    collection = a_collection(house.client, HOSTILE, custom_metadata_schema=schema)
    load(house.client, HOSTILE, collection_id=collection)
    for part in ("documents", "add", "index", "about"):
        page = open_collection(house, collection, part)
        assert html.escape(HOSTILE) in html_of(page)
        assert "<img" not in html_of(page)
        assert "evil" not in markdown_of(page)


@pytest.mark.parametrize("address", ["nothing", "0198c5b0-0000-7000-8000-000000000000"])
def test_an_address_of_nothing_is_said_calmly(house: House, address: str) -> None:
    """An unknown collection, or none at all, is a word and the way back."""
    page = house.open("collections", collection=address)
    assert not page.exception
    assert "This collection isn&#x27;t here." in html_of(page)


@pytest.mark.parametrize(("email", "shown"), [(MEMBER, False), (EDITOR, True)])
def test_the_navigation_has_collections_for_those_who_look_after_one(
    house: House, monkeypatch: pytest.MonkeyPatch, email: str, shown: bool
) -> None:
    """An editor who is no admin has the page; a member has its address alone."""
    collection = a_collection(house.client)
    grant = {"principal": {"type": "user", "email": EDITOR}, "role": "EDITOR"}
    house.client.admin.grants.set({"resourceId": str(collection), "resourceType": "DOCUMENT_COLLECTION"}, [grant])
    cookie = sign_in(house.service, email)
    monkeypatch.setattr(current, "_cookie", lambda: cookie)
    seen: list[bool] = []
    kept = navigation.pages

    def pages(*, is_admin: bool, is_editor: bool = False) -> Any:
        found = kept(is_admin=is_admin, is_editor=is_editor)
        seen.extend(page.visibility == "visible" for page in found["Documents"] if page.url_path == "collections")
        return found

    monkeypatch.setattr(navigation, "pages", pages)
    st.cache_data.clear()
    page = AppTest.from_file(str(VIEWS.parent / "main.py"), default_timeout=60).run()
    assert not page.exception
    assert seen == [shown]
