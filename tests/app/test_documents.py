"""The page of documents, and page pictures with the found or cited passage marked."""

import html
import re
import sys
from datetime import date
from unittest.mock import Mock
from urllib.parse import parse_qsl, quote_plus
from uuid import uuid4

import pytest
import streamlit as st
from PIL import Image

import carrel
from app.document_collections import contents
from app.documents.facts import KINDS, kind_of, state_in, state_of
from app.ui.passages import mark_of_quote
from carrel.wire.catalog import Document, DocumentIndexing, IndexingStatus, RecognitionStatus, TextRecognition
from carrel.wire.formats import FORMATS
from tests import made_files
from tests.app.conftest import House
from tests.app.pages import MARKUP, NOWHERE, Page, new_word, reference
from tests.client.samples import DOCUMENT
from tests.harness.cases import cases
from tests.harness.jobs import until

MEMBER = "jonas@example.test"


@pytest.fixture(scope="module", autouse=True)
def _member(house: House) -> None:
    house.add_people(MEMBER)


def open_document(house: House, document: str, part: str = "about", **address: str) -> Page:
    return house.open("documents", document=document, part=part, **address)


def names(page: Page) -> list[str]:
    return page.column("Name")


def test_a_member_sees_their_own_first_and_all_that_they_may_read_by_choice(house: House, monkeypatch) -> None:
    paths = [f"minutes {uuid4()}" for _ in range(51)]
    house.load("Open minutes", document_external_id=paths[-1], internal_public=True)
    house.load("Board minutes")
    page = house.open("documents", signed_in_as=MEMBER)
    assert "You own no documents yet." in page.shown
    assert '<a href="documents?of=all"' in page.shown
    page.selectbox(key="filter.of").set_value("all").run()
    assert "Open minutes" in names(page)
    assert "Board minutes" not in names(page)
    assert page.address["of"] == "all"
    monkeypatch.setattr("app.loading.runs.documents_of", lambda _run: paths)
    page = house.open("documents", signed_in_as=MEMBER, run=str(uuid4()))
    assert (names(page), "51" in page.shown) == (["Open minutes"], False)
    assert "No documents to show." in house.open("documents", run="abc").shown


def test_a_type_is_an_everyday_word() -> None:
    office = "application/vnd.openxmlformats-officedocument."
    types = [f"{office}wordprocessingml.document", f"{office}spreadsheetml.template", "text/csv; header=present"]
    assert [kind_of(one) for one in [*types, "application/x-no"]] == ["Word", "Excel", "CSV", "application/x-no"]


def test_an_admin_sees_all_documents_and_narrows_them(house: House) -> None:
    tag = uuid4().hex[:8]
    house.load(f"{tag} plain")
    document = house.load(f"{tag} table", "a,b\n1,2\n", file_name="t.csv")
    house.load(f"{tag} theirs", upload_as_user_email=MEMBER)
    assert sorted(names(house.open("documents", name=tag))) == [f"{tag} plain", f"{tag} table", f"{tag} theirs"]
    page = house.open("documents", name=tag, kind="table")
    assert page.cells("Name", "State", "Type", "Owner") == [(f"{tag} table", "Searchable", "CSV", "admin")]
    page.choose()
    assert page.address == {"name": tag, "kind": "table", "document": document}
    assert f"{tag} table</h2>" in page.shown
    assert names(page.press("All documents")) == [f"{tag} table"]
    page = house.open("documents", name=tag)
    assert names(page.text_input(key="owner.typed").set_value("jona").run()) == [f"{tag} theirs"]
    assert page.address["owner"] == f"user:{MEMBER}"
    assert names(house.open("documents", name=tag, owner=MEMBER)) == [f"{tag} theirs"]  # of an earlier version
    assert sorted(names(house.open("documents", name=tag, of="mine"))) == [f"{tag} plain", f"{tag} table"]
    assert names(house.open("documents", name=tag, state="failed")) == []
    assert len(names(house.open("documents", name=tag, state="done"))) == 3
    readers = {"allowed_users_email_addresses": [house.service.admin_email]}
    house.load(f"{tag} shared", upload_as_user_email=MEMBER, **readers)
    page = house.open("documents", name=tag, of="shared", state="done", files="all")
    assert (names(page), "More filters (2)" in page.labels) == ([f"{tag} shared"], True)
    assert "a name that does not exist" in house.open("documents", owner="user:nobody@example.test").shown


def test_the_address_keeps_filters_order_and_folder_of_the_list(house: House) -> None:
    word = new_word()
    where = house.add_collection()
    for path, text in (("Wide/b.txt", "x" * 9), ("wide/deep/a.txt", "x"), ("c.txt", "x" * 5)):
        collection = where if path != "c.txt" else None
        house.load(f"{word} {path[-5]}", text, document_external_id=f"{word}/{path}", collection_id=collection)
    page = house.open("documents", folder=word, order="size")
    assert names(page) == [f"{word} b", f"{word} c", f"{word} a"]
    assert f'<a href="documents?order=size&amp;folder={word}%2FWide" target="_self">Wide (2)</a>' in page.shown
    page.selectbox(key="filter.order").set_value("name-turned").run()
    assert (names(page), page.address["order"]) == ([f"{word} c", f"{word} b", f"{word} a"], "name-turned")
    page = house.open("documents", folder=f"{word}/Wide", order="name", collection=str(where), changed="7")
    assert names(page) == [f"{word} a", f"{word} b"]
    assert "deep (1)" in page.shown
    call = page.code[0].value.split("documents = ")[1].partition("\nfor ")[0]
    found = eval(call, {"client": house.client})  # noqa: S307 - what people copy from the page
    assert [one.document_name for one in found] == [f"{word} a", f"{word} b"]
    lines = page.press("Export list as CSV").exported.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["Name", f"{word} a", f"{word} b"]
    assert "Folders" not in house.open("documents", signed_in_as=MEMBER, of="all", folder=word).shown
    assert names(house.open("documents", reader=f"user:{MEMBER}", name=word)) == []
    page = house.open("documents", name=word, changed="dates", to="2020-01-01")
    assert names(page) == []
    page = page.date_input(key="filter.to").set_value(date(2090, 1, 1)).run()
    assert len(names(page)) == 3
    page = page.date_input(key="filter.from").set_value(date(2090, 1, 2)).run()
    assert "No documents match." in page.shown


def test_the_preview_shows_a_document_beside_the_list_and_what_is_gone(house: House) -> None:
    word = new_word()
    text = house.load(f"{word} <b>", f"The {word} <i> sails.", allowed_users_email_addresses=[MEMBER])
    pages = house.load(f"{word} pages", made_files.pdf([("One", 12)], [("Two", 12)]), file_name="a.pdf")
    page = house.open("documents", name=word)
    assert 'class="carrel-preview"' not in page.shown
    shown = page.preview(text)
    assert f'<a href="documents?document={text}" target="_self">{word} &lt;b&gt;</a></h2>' in shown
    assert "<dt>Direct access</dt><dd>admin (owner) and Jonas</dd>" in shown
    assert f"The {word} &lt;i&gt; sails." in shown
    assert f'alt="Page 1 of {word} pages"' in page.preview(pages)
    house.client.catalog.delete_document(pages)
    assert "This document was deleted" in (shown := page.preview(pages))
    assert "<img" not in shown
    shown = house.open("documents", signed_in_as=MEMBER, of="all", name=word).preview(text)
    assert ("sails" in shown, "Access" in shown) == (True, False)


def test_folders_are_paged(house: House, monkeypatch) -> None:
    word = new_word()
    for path in ("a/1", "b/2", "b/3"):
        house.load(path, document_external_id=f"{word}/{path}", await_vector_store_sync=False)
    monkeypatch.setattr("app.documents.listing.MOST_FOLDERS", 1)
    page = house.open("documents", folder=word)
    assert ("Folders:" in page.shown, "a (1)" in page.shown, "b (2)" in page.shown) == (True, True, False)
    page = page.press_key("documents.folders.on")
    assert ("a (1)" in page.shown, "b (2)" in page.shown) == (False, True)


def test_chosen_documents_are_named_before_they_are_deleted_or_indexed_again(house: House) -> None:
    word = new_word()
    first, second, third = [house.load(f"{word} {number}") for number in range(3)]
    page = house.open("documents", name=word, rows="choose", order="name")
    assert "Delete …" not in page.labels
    page = page.choose(0, 1).press("Delete …")
    assert (f"{word} 0" in page.shown, f"{word} 1" in page.shown, f"{word} 2" in page.shown) == (True, True, False)
    assert page.download_button[0].label == "Export as CSV"
    house.client.catalog.delete_document(first)
    assert names(page.answer("Delete …", "Delete")) == [f"{word} 2"]
    with pytest.raises(carrel.NotFoundError):
        house.client.catalog.get_document(second)
    page = house.open("documents", name=word, rows="choose").choose(0).press("Re-index …")
    assert "Carrel indexes its text again" in page.shown
    assert house.client.catalog.get_document(third).document_version == 1
    assert names(page.answer("Re-index …", "Re-index")) == [f"{word} 2"]
    house.load(f"{word} 3", upload_as_user_email=MEMBER)
    house.load(f"{word} 4", internal_public=True)
    page = house.open("documents", signed_in_as=MEMBER, name=word, of="all", rows="choose", order="name")
    page = page.choose(0, 1).press("Delete …").answer("Delete …", "Delete")
    assert names(page) == [f"{word} 4"]  # which the member may only read; what is gone is not in the list


def test_chosen_documents_are_added_to_a_collection_and_removed(house: House, monkeypatch) -> None:
    word, collections = new_word(), house.client.document_collections
    first, second, third = [house.load(f"{word} {number}") for number in range(3)]
    schema = {"fields": [{"name": "port", "type": "STRING"}, {"name": "open", "type": "BOOLEAN"}]}
    where, other = house.add_collection(f"{word} shelf", custom_metadata_schema=schema), house.add_collection()
    house.add_to(where, first, port="Merlin")
    page = house.open("documents", name=word, rows="choose", order="name").choose(0, 1, 2)
    page = page.press("Add to a collection …").selectbox(key="chosen.add.collection").set_value(where).run()
    assert [page.shown.count(told) for told in ("Already added", "Will be added")] == [1, 2]
    page.text_input(key=f"chosen.add.{where}.1").set_value("maybe").run()
    assert "The field is yes or no" in page.shown
    assert page.button(key="chosen.add.submit").disabled
    page.text_input(key=f"chosen.add.{where}.1").set_value("Yes").run()
    house.client.catalog.delete_document(third)
    read, change = contents.find_inside, {"document_id": first, "custom_metadata": {"port": "Osprey"}}

    def read_before_others(*which) -> list:
        found = read(*which)
        if sys._getframe(1).f_code.co_name == "_add_to_collection":
            collections.change_values(where, [change])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(contents, "find_inside", read_before_others)
        page = page.press_key("chosen.add.submit")
    assert f"Of 3 documents, 1 could not be changed. {word} 2: " in page.shown
    values = {str(one.document_id): one.custom_metadata for one in collections.list_documents_in_collection(where)}
    assert values == {first: {"port": "Osprey", "open": "true"}, second: {"open": "true"}}
    page.press_key("chosen.add.cancel")
    assert (names(page), "Select rows to see the actions" in page.shown) == ([f"{word} 0", f"{word} 1"], True)
    page = house.open("documents", name=word, rows="choose").choose(0, 1).press("Add to a collection …")
    page.selectbox(key="chosen.add.collection").set_value(where).run().press_key("chosen.add.submit")
    assert f"0 documents added to {word} shelf. 2 already in it, 0 changed." in page.shown
    page = house.open("documents", name=word, rows="choose", order="name", collection=where).choose(0, 1)
    page.press("Remove from a collection …")
    assert page.selectbox(key="chosen.remove.collection").value == where  # which the list shows
    collections.remove_document_from_collection(document_id=second, document_collection_id=where)
    page.press_key("chosen.remove.submit")
    assert f"Of 2 documents, 1 could not be changed. {word} 1: The document is not in this collection." in page.shown
    house.add_to(where, first)
    page.run().press_key("chosen.remove.submit")
    assert (told := f"1 document removed from {word} shelf.") in page.shown
    assert told not in page.run().shown
    assert (names(page), list(collections.list_documents_in_collection(where))) == ([], [])
    page = house.open("documents", name=word, rows="choose").choose(0).press("Remove from a collection …")
    page.selectbox(key="chosen.remove.collection").set_value(other).run()
    assert "Not in it" in page.shown
    assert page.button(key="chosen.remove.submit").disabled


def test_chosen_documents_go_only_into_collections_that_a_person_may_edit(house: House) -> None:
    word = new_word()
    house.add_people(who := f"{word}@example.test")
    house.load(word, upload_as_user_email=who)
    own, read = house.add_collection(), house.add_collection()
    everywhere = {"name": word, "rows": "choose", "of": "all", "signed_in_as": who}
    house.grant("DOCUMENT_COLLECTION", read, {"type": "user", "email": who})
    page = house.open("documents", **everywhere).choose(0).press("Remove from a collection …")
    assert "You cannot edit any collection." in page.shown
    page = house.open("documents", **everywhere).choose(0).press("Add to a collection …")
    page.selectbox(key="chosen.add.collection").set_value("new").run().press_key("chosen.add.submit")
    assert "Enter a name for the collection." in page.shown
    page.text_input(key="chosen.add.name").set_value(f"{word} new").run().press_key("chosen.add.submit")
    assert f"1 document added to {word} new." in page.shown
    house.grant("DOCUMENT_COLLECTION", own, {"type": "user", "email": who}, role="EDITOR")
    page = house.open("documents", **everywhere).choose(0).press("Add to a collection …")
    page.selectbox(key="chosen.add.collection").set_value(own).run()
    assert len(page.selectbox(key="chosen.add.collection").options) == 4, "without the collection that they only read"
    house.client.document_collections.delete_document_collection(own)
    assert "/help/errors#collection_not_found" in page.press_key("chosen.add.submit").shown


def access_of(house: House, document: str) -> dict[str, str]:
    grants = house.client.admin.grants.list(reference(f"UPLOADED_DOCUMENT:{document}"))
    return {one.principal.name: one.role for one in grants}


def test_access_to_chosen_documents_is_given_and_taken_as_the_dialog_says_and_undone(house: House) -> None:
    word = new_word()
    house.add_people("ada@chosen.test", "ben@chosen.test")
    house.add_group(f"{word} crew", "ada@chosen.test", "ben@chosen.test")
    first, second = house.load(f"{word} 0", allowed_users_email_addresses=[MEMBER]), house.load(f"{word} 1")
    asked = {"name": word, "rows": "choose", "order": "name"}
    assert "Access …" not in house.open("documents", signed_in_as=MEMBER, of="all", **asked).choose(0).labels
    page = house.open("documents", **asked).choose(0, 1).press("Access …")
    assert "Jonas · jonas@example.test · person <b>Viewer on 1 of 2 documents</b>" in page.shown
    assert ("Nothing will change." in page.shown, page.button(key="chosen.access.submit").disabled) == (True, True)
    page.text_input(key="chosen.access.who.typed").set_value(word).run()
    assert f"2 members of {word} crew will be able to read 2 documents." in page.shown
    page.segmented_control(key="chosen.access.role").set_value("EDITOR").run()
    assert f"2 members of {word} crew will be able to read and change 2 documents." in page.shown
    page = page.press_key("chosen.access.submit")
    assert access_of(house, first) == {f"{word} crew": "EDITOR", "Jonas": "VIEWER"}
    assert access_of(house, second) == {f"{word} crew": "EDITOR"}
    page = page.choose(0, 1).press("Access …")
    page.text_input(key="chosen.access.who.typed").set_value("jonas@example").run()
    page.segmented_control(key="chosen.access.role").set_value("EDITOR").run()
    said = page.shown
    assert "Jonas (now viewer) will be able to read and change 1 of 2 documents." in said
    assert "Jonas will be able to read and change 1 of 2 documents." in said
    page.segmented_control(key="chosen.access.role").set_value("").run()
    assert "Jonas will no longer have direct access to 1 of 2 documents." in page.shown
    assert (page.shown.count(">Changes<"), page.shown.count(">No change<")) == (1, 1)
    page = page.press_key("chosen.access.submit")
    assert access_of(house, first) == access_of(house, second) == {f"{word} crew": "EDITOR"}
    assert "You changed access to 1 document." in page.as_markdown
    page = page.press("Undo …").press_key("confirm.yes")
    assert access_of(house, first) == {f"{word} crew": "EDITOR", "Jonas": "VIEWER"}
    assert "Undo …" not in page.run().labels


def test_changes_of_others_to_chosen_documents_meanwhile_stay(house: House) -> None:
    word, ada = new_word(), "ada@chosen.test"
    house.add_people(ada, MEMBER)
    several = [house.load(f"{word} {number}") for number in range(3)]
    first, second, third = several
    page = house.open("documents", name=word, rows="choose", order="name").choose(0, 1, 2).press("Access …")
    page.text_input(key="chosen.access.who.typed").set_value("jonas@example").run()
    house.grant("UPLOADED_DOCUMENT", second, {"type": "user", "email": ada}, role="EDITOR")
    house.client.catalog.delete_document(third)
    page = page.press_key("chosen.access.submit")
    assert f"Of 3 documents, 2 could not be changed. {word} 1: Someone else changed this" in page.shown
    assert (access_of(house, first), access_of(house, second)) == ({"Jonas": "VIEWER"}, {"Ada": "EDITOR"})
    assert "Jonas will be able to read 1 of 3 documents." in page.shown
    assert (page.shown.count(">Changes<"), page.shown.count(">Deleted<")) == (1, 1)
    page = page.press_key("chosen.access.submit")
    assert access_of(house, second) == {"Ada": "EDITOR", "Jonas": "VIEWER"}
    house.grant("UPLOADED_DOCUMENT", first, {"type": "user", "email": ada})
    page = page.press("Undo …").answer("Undo …", "Undo")
    assert access_of(house, second) == {"Ada": "EDITOR"}, "as another person had left it before the change"
    assert access_of(house, first) == {"Ada": "VIEWER"}, "someone else has changed it since"


def test_all_matches_are_changed_by_the_service_and_told_by_name(house: House) -> None:
    word = new_word()
    for number in range(51):
        house.load(f"{word} {number:02}", "x", await_vector_store_sync=False, upload_as_user_email=MEMBER)
    house.load(f"{word} zz", "x", internal_public=True)
    filtered = {"of": "all", "name": word, "rows": "choose", "order": "name"}
    listed = {"signed_in_as": MEMBER, **filtered}
    assert "match" not in house.open("documents", **listed).choose(0, 1).as_markdown
    page = house.open("documents", **listed).choose(*range(50))
    assert "All 50 on this page are selected." in page.as_markdown
    page = page.press("Select all 52 that match")
    assert ("All 52 that match are selected." in page.as_markdown, "Change access …" in page.labels) == (True, False)
    page = page.press("Delete …")
    assert f"{word} 00" in page.shown
    assert page.button(key="all_matches.submit").disabled
    page.text_input(key="all_matches.count").set_value("52").run()
    assert "restore them from the trash for 7 days" in page.shown
    change = page.press_key("all_matches.submit").address["change"]
    until(lambda: len(list(house.client.catalog.list_documents(document_name=word))) == 1)
    page = house.open("documents", change=change, **listed)
    assert "51 of 52 documents done." in page.shown
    assert "Only the document&#x27;s owner or an admin may delete it." in page.shown
    assert names(page) == [f"{word} zz"]
    assert "change" not in page.press("Close").address
    assert "done." not in house.open("documents", change=change, **filtered).shown, "the change of another person"


def test_all_matches_get_values_and_readers(house: House) -> None:
    word, schema = new_word(), {"fields": [{"name": "place", "type": "STRING"}]}
    where = house.add_collection(word, custom_metadata_schema=schema)
    for number in range(51):
        house.load(f"{word} {number:02}", "x", await_vector_store_sync=False, collection_id=where)
    page = house.open("documents", name=word, rows="choose", order="name").choose(*range(50))
    page = page.press("Select all 51 that match")
    assert "Clear the selection" in page.labels
    assert "Clear the selection" not in page.choose(0).labels  # a single row is left
    page = page.choose(*range(50)).press("Select all 51 that match").press("Set values …")
    assert page.button(key="all_matches.submit").disabled
    page.selectbox(key="all_matches.collection").set_value(where).run()
    page.text_input(key=f"all_matches.{where}.0").set_value("Oslo").run()
    page.text_input(key=f"all_matches.{where}.0").set_value("Bergen")  # sent with the press
    page = page.press_key("all_matches.submit")
    inside = house.client.document_collections.list_documents_in_collection
    until(lambda: {one.custom_metadata.get("place") for one in inside(where)} == {"Bergen"})
    page = house.open("documents", name=word, rows="choose", order="name").choose(*range(50))
    page = page.press("Select all 51 that match").press("Change access …")
    page.text_input(key="all_matches.who.typed").set_value("jonas@example").run()
    page.segmented_control(key="all_matches.role").set_value("OWNER")
    page.press("Change access")
    until(lambda: len(list(house.client.catalog.list_documents(document_name=word, owner_email=MEMBER))) == 51)


def test_many_documents_are_paged_by_the_service(house: House) -> None:
    tag = uuid4().hex[:8]
    for number in range(53):
        house.load(f"{tag} {number}", await_vector_store_sync=False)
    page = house.open("documents", name=tag)
    first = names(page)
    page = page.press("Next")
    second = names(page)
    assert (len(first), len(second)) == (50, 3)
    assert not set(first) & set(second)
    assert page.find_button("Next").disabled


def test_a_document_tells_where_it_can_be_found_and_how_far_it_is(house: House) -> None:
    where = house.add_collection()
    identifier = f"shelf-{uuid4()}"
    document = house.load("Livestock", "Sheep travel.", document_external_id=identifier, collection_id=where)
    assert "Re-index" not in open_document(house, document).labels
    house.load("Livestock", "Goats travel.", document_external_id=identifier, reindex_collections=False)
    page = open_document(house, document)
    assert "Version 2 is searchable, in 1 passage." in page.shown
    assert "The newest version is not searchable here." in page.shown
    assert "is not searchable here" not in page.press("Re-index").shown
    assert {place.indexed_version for place in house.client.catalog.get_document(document).indexed_in} == {2}


def test_a_document_that_could_not_be_indexed_says_why_and_what_to_do(house: House) -> None:
    document = house.load("Broken", internal_public=True)
    house.break_index(document, f"The model refused it. {MARKUP}")
    page = house.open("documents", signed_in_as=MEMBER, document=document)
    assert "could not be indexed" in page.shown
    assert "Re-index" not in page.labels
    page = open_document(house, document)
    assert house.client.catalog.get_document(document).indexed_in[0].status is IndexingStatus.FAILED
    assert "could not be indexed; no version is searchable" in page.shown
    page.assert_shown_as_text(MARKUP)
    assert "Carrel retries automatically." in page.shown
    assert 'href="/help/troubleshooting#indexing_failed"' in page.shown
    assert "could not be indexed" not in page.press("Re-index").shown
    assert house.client.catalog.get_document(document).indexed_in[0].status is IndexingStatus.DONE


def test_every_version_can_be_had(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("One.", "Two.", "Three."):
        document = house.load("Fares", text, document_external_id="versions")
    monkeypatch.setattr("app.documents.sections.MOST_VERSIONS", 1)
    page = open_document(house, document, "versions")
    assert "… and 2 older versions" in page.shown
    assert page.selectbox(key="version").options == ["3", "2", "1"]
    page.selectbox(key="version").set_value(1).run()
    assert page.download_button[0].label == "Download"


def test_the_text_is_shown_as_a_place_has_it(house: House) -> None:
    document = house.load("Rules", "Sheep travel on deck.")
    where = house.add_collection()
    house.client.document_collections.add_document_chunks_to_collection(
        document_id=document,
        document_collection_id=where,
        chunks=[f"Rule {number}: {MARKUP}" for number in range(1, 24)],
        custom_metadata={},
    )
    assert "Sheep travel on deck." in open_document(house, document, "text").shown
    page = open_document(house, document, "text", place=str(where))
    assert page.shown.count("carrel-chunk") == 20
    page.assert_shown_as_text(f"Rule 1: {MARKUP}")
    page = page.press("Next")
    assert page.shown.count("carrel-chunk") == 3
    assert "<p>23</p>" in page.shown


def test_an_admin_who_may_not_read_a_document_sees_that_it_is_there_and_no_word_of_it(house: House) -> None:
    document = house.load("Diary", "HERON is the word.", upload_as_user_email=MEMBER)
    assert "Diary</h2>" in open_document(house, document).shown
    page = open_document(house, document, "text")
    assert "There is no text to show." in page.shown
    assert "HERON" not in page.shown


def test_who_may_read_it_is_told_to_admins(house: House) -> None:
    document = house.load("Rota", upload_as_user_email=MEMBER, allowed_group_ids=[house.add_group("Crew")])
    page = open_document(house, document, "readers")
    assert "Crew · group <b>Viewer</b>" in page.shown
    assert "Crew will" not in page.press("Manage access").shown
    assert f"who_can_read?resource=UPLOADED_DOCUMENT%3A{document}" in page.shown
    page = house.open("documents", signed_in_as=MEMBER, document=document, part="readers")
    assert not page.dataframe
    assert "Ask an admin of your organization who else can read it." in page.shown


def test_an_owner_shares_by_address_and_with_their_groups(house: House) -> None:
    """Owners see their own shares; admins see the giver. Without the setting owners can only take shares back."""
    house.add_people("vera@example.test", "wim@example.test")
    crew, hidden = house.add_group("Rowers", MEMBER), house.add_group("Hidden")
    access = {"allowed_group_ids": [hidden], "allowed_users_email_addresses": ["wim@example.test"]}
    document = house.load("Rowing", upload_as_user_email=MEMBER, **access)
    with pytest.MonkeyPatch.context() as known:  # the page has the document
        known.setattr("app.permissions.panel._container_of", Mock(side_effect=AssertionError))
        assert "Manage access" in open_document(house, document, "readers").labels
        page = house.open("documents", signed_in_as=MEMBER, document=document, part="readers")
        assert "You haven&#x27;t shared it." in page.shown
    typed = page.press("Manage access").text_input(key="grants.added.typed")
    typed.set_value("Vera@example.test, jim").run()
    assert "jim is not an email address." in page.shown
    assert page.button(key="change.submit").disabled
    page.multiselect(key="grants.added.groups").set_value([crew])
    page.text_input(key="grants.added.typed").set_value("vera@example.test no@example.test").run()
    assert "person no@example.test is unknown in this organization" in page.shown
    assert ("will be able to read" in page.shown, page.button(key="change.submit").disabled) == (False, True)
    page.text_input(key="grants.added.typed").set_value("vera@example.test, Wim@example.test").run()
    assert "The members of Rowers, vera@example.test and wim@example.test will be able to read “Rowing”." in page.shown
    page.press_key("change.submit")
    assert "Rowers · group <b>Viewer</b>" in page.shown
    assert "Already had access: wim@example.test." in page.shown
    assert "Already had access" not in page.run().shown
    assert "Hidden" not in page.shown
    assert "Vera · vera@example.test · shared by Jonas · person" in open_document(house, document, "readers").shown
    house.client.admin.organization.update(owner_sharing_enabled=False)
    page = house.open("documents", signed_in_as=MEMBER, document=document, part="readers").press("Manage access")
    assert "choose who can read a document when you upload it." in page.shown
    assert "You can remove access that you gave." in page.shown
    assert not [*page.text_input, *page.multiselect, *page.selectbox]
    page.press_key(f"remove.group:{crew}")
    assert "The members of Rowers lose access, unless they have access in another way." in page.shown
    page.press_key("change.submit")
    assert "Rowers" not in page.shown
    house.client.admin.organization.update(owner_sharing_enabled=True)


def test_a_document_is_renamed_and_its_path_shown(house: House) -> None:
    document = house.load("Old", document_external_id="shelf/a.txt")
    page = open_document(house, document).press("Rename")
    page.text_input(key="document.name").set_value("New").run().press_key("rename_document.submit")
    assert house.client.catalog.get_document(document).document_name == "New"
    assert "shelf/a.txt · Text" in open_document(house, document).shown


def test_a_document_is_deleted_after_being_asked(house: House) -> None:
    document = house.load("Old", collection_id=house.add_collection())
    page = open_document(house, document).press("Delete …")
    assert "It is removed from 1 collection: Shelf" in page.shown
    assert "restore it from the trash for 7 days" in page.shown
    assert house.client.catalog.get_document(document)
    page = page.answer("Delete …", "Delete")
    assert ("document" in page.query_params, "Old is deleted." in page.shown) == (False, True)
    assert "This document is not available." in open_document(house, document).shown


def test_deleted_documents_are_restored_or_deleted_for_good(house: House) -> None:
    word = new_word()
    group = house.add_group(f"{word} crew")
    for number in range(4):
        parts = {"upload_as_user_email": MEMBER} if number == 3 else {}
        house.client.catalog.delete_document(house.load(f"{word} {number}", allowed_group_ids=[group], **parts))
    house.client.admin.groups.delete(group)
    mine = house.open("documents", signed_in_as=MEMBER, trash="open", deleted=word)
    assert (names(mine), "CARREL_TRASH_DAYS" in mine.as_markdown) == ([f"{word} 3"], False)
    page = house.open("documents", trash="open", deleted=word)
    assert names(page) == [f"{word} {number}" for number in (3, 2, 1, 0)]
    hint = "for good. An operator sets the days with CARREL_TRASH_DAYS."
    assert (set(page.column("Days left")), hint in page.as_markdown) == ({7}, True)
    page = page.choose(0, 2).press("Restore …")
    assert "Owners must share their documents again." in page.shown
    page = page.answer("Restore …", "Restore")
    assert names(page) == [f"{word} 2", f"{word} 0"]
    assert f"{word} 3 was restored without {word} crew" in page.shown
    assert f"Restored: {word} 3 and {word} 1." in page.shown
    assert re.search(rf'href="documents\?document=[0-9a-f-]+"[^>]*>Open {word} 3<', page.shown)
    page = page.choose(0, 1).press("Delete for good …")
    assert (f"{word} 2" in page.shown, "can&#x27;t be undone" in page.shown) == (True, True)
    [kept, other] = house.client.catalog.list_trashed_documents(document_name=word)
    house.client.catalog.delete_trashed_documents([kept.trashed_document_id, other.trashed_document_id])
    page = page.answer("Delete for good …", "Delete")  # what another person has deleted since
    assert ("No deleted documents match." in page.shown, "trash is empty" in page.shown) == (True, False)
    assert "Deleted for good" not in page.shown
    house.client.catalog.delete_document(house.load(f"{word} 4"))
    page = house.open("documents", trash="open", deleted=word).choose(0)
    page = page.press("Delete for good …").answer("Delete for good …", "Delete")
    assert f"Deleted for good: {word} 4." in page.shown
    assert names(house.open("documents", name=word, order="name")) == [f"{word} 1", f"{word} 3"]


def test_admins_restore_a_deleted_group_or_delete_it_for_good(house: House) -> None:
    word, groups = new_word(), house.client.admin.groups
    kept, gone = (house.add_group(f"{word} {name}", f"{word}@groups.test") for name in ("kept", "gone"))
    for group in (kept, gone):
        groups.delete(group)
    assert word not in house.open("documents", signed_in_as=MEMBER, trash="open", of="groups").shown
    page = house.open("documents", trash="open", of="groups")
    page = page.choose(names(page).index(f"{word} kept")).press("Restore …").answer("Restore …", "Restore")
    assert f"{word} kept is restored, with 1 of 1 member and 0 of 0 resources." in page.shown
    page = page.choose(names(page).index(f"{word} gone")).press("Delete for good …")
    page = page.answer("Delete for good …", "Delete")
    assert [one for one in names(page) if one.startswith(word)] == []
    assert [str(one.id) for one in groups.list(query=word)] == [kept]


def test_an_empty_trash_says_how_long_documents_stay(house: House, monkeypatch) -> None:
    for days, told in (
        (7, "You can restore deleted documents here for 7 days."),
        (0, "You cannot restore documents after you delete them."),
    ):
        monkeypatch.setitem(vars(house.service.runtime.settings), "trash_days", days)
        house.add_people(empty := f"{uuid4().hex[:8]}@example.test")
        assert told in house.open("documents", signed_in_as=empty, trash="open").shown


def test_what_a_member_may_not_read_looks_like_what_is_not_there(house: House) -> None:
    """An unknown id, a forbidden document, and no id give the same page, byte for byte."""
    document = house.load("Secret plan")
    pages = [house.open("documents", signed_in_as=MEMBER, document=one).shown for one in (document, NOWHERE, "no-id")]
    assert pages[0] == pages[1] == pages[2]
    assert "This document is not available." in pages[0]
    # Of what they may read they have no button either that the service would refuse.
    page = house.open("documents", signed_in_as=MEMBER, document=house.load("Notice", internal_public=True))
    assert "Notice</h2>" in page.shown
    assert "Delete …" not in page.labels


def drop(house: House, *files: tuple[str, bytes, str]) -> Page:
    return house.open("documents", signed_in_as=MEMBER).file_uploader[0].set_value(list(files)).run()


def test_a_member_adds_files_of_their_own(house: House) -> None:
    name = f"note-{uuid4().hex[:8]}.txt"
    page = drop(house, (name, b"The pier is closed.", "text/plain"), ("empty.txt", b"", "text/plain"))
    page = page.press("Add")
    shown = page.shown
    assert "1 of 2 files could not be added." in shown
    assert "Failed." in shown
    (document,) = house.client.catalog.list_documents(document_name=name)
    assert document.document_external_id == f"{MEMBER}/{name}"
    assert document.owner.name == "Jonas"
    assert not next(house.client.admin.grants.list(document.resource).pages()).organization_wide
    assert name in names(page)
    page = page.press("Done")
    assert "could not be added" not in page.shown
    assert "load.collection" not in {one.key for one in page.selectbox}


def test_added_files_go_into_a_collection_too(house: House) -> None:
    collections = house.client.document_collections
    schema = {"fields": [{"name": "port", "type": "STRING"}, {"name": "open", "type": "BOOLEAN"}]}
    gone, there = (house.add_collection(custom_metadata_schema=schema) for _ in "ab")
    name = f"tide-{uuid4().hex[:8]}.txt"

    def drop_into(collection: str, text: bytes) -> Page:
        page = house.open("documents").file_uploader[0].set_value([(name, text, "text/plain")]).run()
        return page.selectbox(key="load.collection").set_value(collection).run()

    page = drop_into(gone, b"High at noon.")
    collections.delete_document_collection(gone)
    assert "Loaded, but not added to the collection." in page.press("Add").shown
    assert "Loaded, but" not in page.selectbox(key="load.collection").set_value(there).run().press("Add").shown
    (loaded,) = house.client.catalog.list_documents(document_name=name)
    house.add_to(there, str(loaded.document_id), port="Merlin")
    page = drop_into(there, b"High at one.")
    page.text_input(key=f"load.value.{there}.1").set_value("maybe")
    page = page.press("Add")
    assert "The field is yes or no" in page.shown
    page.text_input(key=f"load.value.{there}.1").set_value("Yes")
    page.press("Add")
    (document,) = collections.list_documents_in_collection(there)
    assert (document.document_id, document.custom_metadata) == (loaded.document_id, {"port": "Merlin", "open": "true"})
    assert document.document_version == 2


def test_the_same_name_again_is_the_next_version_and_everybody_may_be_let_in(house: House) -> None:
    name = f"rota-{uuid4().hex[:8]}.txt"
    house.load(name, document_external_id=name)
    drop(house, (name, b"One.", "text/plain")).press("Add")
    page = drop(house, (name, b"Two.", "text/plain"))
    page.radio(key="load.readers").set_value("Everyone in the organization").run()
    page.toggle(key="load.pictures").set_value(True).run().press("Add")
    mine = [one for one in house.client.catalog.list_documents(document_name=name) if one.document_external_id != name]
    assert [one.document_version for one in mine] == [2]
    asked = "SELECT reads_pictures FROM document_versions WHERE document_id = %s ORDER BY version"
    assert house.service.execute(asked, [mine[0].document_id]) == [(False,), (True,)]
    assert next(house.client.admin.grants.list(mine[0].resource).pages()).organization_wide
    house.client.admin.groups.upsert([{"name": f"Crew {name}", "members": [{"type": "user", "email": MEMBER}]}])
    st.cache_data.clear()
    page = drop(house, (f"to-{name}", b"Three.", "text/plain")).radio(key="load.readers").set_value("My groups").run()
    page.press("Add")
    [shared] = house.client.catalog.list_documents(document_name=f"to-{name}")
    assert [one.principal.name for one in house.client.admin.grants.list(shared.resource)] == [f"Crew {name}"]


def test_files_of_one_name_and_too_many_files_are_not_begun(house: House) -> None:
    page = drop(house, ("twin.txt", b"a", "text/plain"), ("Twin.txt", b"b", "text/plain"))
    assert "Several files are called" in page.shown
    assert page.find_button("Add").disabled
    page = drop(house, *((f"{number}.txt", b"a", "text/plain") for number in range(21)))
    assert "You selected 21 files" in page.shown
    assert page.find_button("Add").disabled


def test_names_of_others_are_never_markdown(house: House) -> None:
    document = house.load(MARKUP, custom_metadata=None)
    for part in ("about", "versions", "text", "readers"):
        open_document(house, document, part).assert_shown_as_text(MARKUP)
    mail = house.load("Mail", f"Subject: Re: Sea\n\nYes.\n\nBen wrote at 10:30:\n> {MARKUP}", file_name="a.eml")
    open_document(house, mail, "text").assert_shown_as_text(MARKUP)
    open_document(house, document).press("Delete …").assert_shown_as_text()


def test_an_address_that_nobody_wrote_by_the_page_is_taken_as_far_as_it_goes(house: House) -> None:
    page = house.open("documents", kind="nonsense", state="?", of="them", part="x", name="x" * 5000)
    assert "No documents match." in page.shown
    assert "carrel-problem" in house.open("documents", name="a\0b").shown
    assert "a name that does not exist" in house.open("documents", owner="two words@x y").shown


def test_a_document_says_what_of_it_was_not_read(house: House) -> None:
    mail = b"From a Mon Mar  2 10:00:00 2026\nFrom: a@b.example\n"
    mail += b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\nPears\n--x\nContent-Type: image/png\n"
    mail += b"Content-Disposition: attachment; filename=a.png\n\nx\n--x--\n"
    shown = open_document(house, house.load("Mail", mail, file_name="a.mbox")).shown
    assert (
        "Not read, and therefore not searchable: 1 attachment (message 1). Upload attachments and embedded files"
        in shown
    )
    assert "Not read" not in open_document(house, house.load("Whole")).shown
    scan = made_files.scanned(made_files.scan("Pears"), kind="PNG")
    waiting = open_document(house, house.load("Scan", scan, file_name="a.png")).shown
    assert (
        "Text recognition read this document, and can make mistakes: 0 of 1 page. 1 page is still being read."
        in waiting
    )
    assert "Not read" not in waiting
    icon = made_files.word(paragraphs=[("Normal", "Pears")], picture=Image.new("RGB", (20, 20)))
    helps = "To read text in images, load the file again"
    for asked in (None, True):
        figure = house.load("Figure", icon, document_external_id="figure", file_name="a.docx", read_pictures=asked)
        with house.service.owner_connection() as connection:
            # As where it could not be read.
            left = (
                'UPDATE document_versions SET not_read = \'[{"kind": "picture", "count": 1}]\' WHERE document_id = %s'
            )
            connection.execute(left, [figure])
        shown = open_document(house, figure).shown
        assert "Not read, and therefore not searchable: 1 picture" in shown
        assert (helps in shown) == (asked is None)


def test_an_archive_and_the_files_in_it_lead_to_each_other(house: House) -> None:
    files = {"in/one.txt": "One.", "tool.exe": b"MZ\x90\x00"}
    archive = house.load("Box", made_files.archive(files), file_name="box.zip")
    until(lambda: house.client.catalog.get_document(archive).files_done == 2)
    shown = open_document(house, archive).shown
    assert "one.txt</a>" in shown
    assert "1 of 2 files read, 1 left out" in shown
    assert "tool.exe" in shown
    [inside] = house.client.catalog.list_documents(parent_document_id=archive)
    who = house.open("who_can_read", resource=f"UPLOADED_DOCUMENT:{inside.resource.resource_id}", who=f"user:{MEMBER}")
    for page in (open_document(house, str(inside.document_id), "readers"), who):
        assert "The archive or email that contains this file has its access." in page.shown
        assert f"documents?document={archive}&amp;part=readers" in page.shown
        assert not {"Manage access", "Give access"}.intersection(page.labels)
    page = open_document(house, str(inside.document_id))
    assert "In: Box</a>" in page.shown
    lost = "Files in an archive or email cannot be restored: one.txt."
    assert lost in page.press("Delete …").shown
    page = house.open("documents", files="all", rows="choose")
    rows = [names(page).index(name) for name in ("one.txt", "Box")]
    shown = page.choose(*rows).press("Delete …").shown
    assert (lost in shown, "can restore the others from the trash for 7 days" in shown) == (True, True)
    shown = house.open("documents", files="all", rows="choose").choose(rows[0]).press("Delete …").shown
    assert (lost in shown, "from the trash" in shown, "Nobody can find it" in shown) == (True, False, True)
    page = house.open("documents")
    assert page.cells("Name", "Type")[0] == ("Box", "ZIP, 2 files inside")
    assert "one.txt" not in names(page)
    assert all("one.txt" in names(house.open("documents", **chosen)) for chosen in ({"files": "all"}, {"name": "one"}))


def test_a_document_without_text_is_not_called_searchable() -> None:
    document = Document.model_validate({**DOCUMENT, "indexing": "DONE"})
    for is_being_read, said in ((False, "No text"), (True, "Being read")):
        document = document.model_copy(update={"is_being_read": is_being_read})
        states = [state_of(document.model_copy(update={"chunk_count": count})) for count in (None, 0, 2)]
        assert states == ["Searchable", said, "Searchable"]


@pytest.mark.parametrize(
    ("chunks", "pages_read", "pictures", "said"), cases("a_document_without_all_of_its_text_is_not_said_to_be_found")
)
def test_a_document_without_all_of_its_text_is_not_said_to_be_found(chunks, pages_read, pictures, said):
    place = DocumentIndexing(
        document_version=1,
        indexed_version=1,
        status=IndexingStatus.DONE,
        chunk_count=chunks,
        language="de" if pages_read is None else None,
    )
    recognition = None
    if pages_read is not None:
        running = RecognitionStatus.RUNNING
        recognition = TextRecognition(status=running, pages=2, pages_read=pages_read, pages_failed=0, pictures=pictures)
    assert state_in(place, recognition) == said
    again = place.model_copy(update={"status": IndexingStatus.RUNNING, "document_version": 2})
    found = "version 1 is searchable" if chunks else "no version is searchable"
    assert state_in(again) == f"Version 2 is being indexed. Until then, {found}."


PAGES = [[("Anchors are dropped slowly.", 12)], [("Buoys are painted yellow.", 12)], [("Cranes rest at night.", 12)]]


@pytest.fixture(scope="module")
def rules(house: House) -> str:
    house.add_people(MEMBER)
    return house.load(f"Rules {uuid4().hex[:8]}", made_files.pdf(*PAGES), file_name="rules.pdf")


def open_original(house: House, document: str, **address: str) -> Page:
    return house.open("documents", document=document, part="original", **address)


def leads_to(house: House, words: str, document: str) -> dict[str, str]:
    found = re.findall(r'href="documents\?([^"]*)"', house.open("search", q=words).shown)
    return next(address for one in found if (address := dict(parse_qsl(html.unescape(one))))["document"] == document)


def test_a_page_is_shown_with_ways_to_the_others(house: House, rules: str) -> None:
    page = open_original(house, rules)
    assert 'src="data:image/jpeg;base64,' in page.shown
    assert 'alt="Page 1 of Rules' in page.shown
    assert page.button(key="original.previous").disabled
    page = page.press("Next page").press("Next page")
    assert 'alt="Page 3 of Rules' in page.shown
    assert page.address["page"] == "3"
    assert page.button(key="original.next").disabled
    page.number_input(key="original.page.3").set_value(2).run()
    assert 'alt="Page 2 of Rules' in page.shown


def test_what_is_found_is_marked_on_its_page(house: House, rules: str) -> None:
    address = leads_to(house, "what colour have buoys", rules)
    assert (address["part"], address["chunk"], address["version"]) == ("original", "0", "1")
    assert address["at"].startswith("1_")
    assert address["search"].startswith("q=")
    page = open_original(house, rules, chunk="0", search="q=painted")
    shown = page.shown
    # Of its three pages, the one with the word that was searched for.
    assert 'alt="Page 2 of Rules' in shown
    assert shown.count("carrel-page-mark") == 1
    assert [one.value for one in page.subheader] == ["The passage"]
    assert "Buoys are <mark>painted</mark> yellow." in shown
    shown = open_original(house, rules, chunk="0", quoted=mark_of_quote("Cranes rest")).shown
    assert "<mark>Cranes rest</mark> at night." in shown
    assert 'alt="Page 3 of Rules' in shown
    page = open_original(house, rules, chunk="0", search="q=painted", page="3")
    assert 'alt="Page 3 of Rules' in page.shown
    assert 'alt="Page 2 of Rules' in page.press("Back to the passage").shown


def test_one_page_is_marked_by_its_box(house: House) -> None:
    page = open_original(house, house.load("One rule", made_files.pdf(PAGES[0], []), file_name="rule.pdf"), chunk="0")
    shown = page.shown
    assert '; the passage is marked"' in shown
    style = shown.partition('class="carrel-page-mark" style="')[2].partition('"')[0]
    edges = dict(edge.split(": ") for edge in style.split("; "))
    assert 0 < float(edges["left"][:-1]) < 10
    assert 0 < float(edges["height"][:-1]) < 5
    page = page.press("Next page")
    assert "carrel-page-mark" not in page.shown
    assert "carrel-page-mark" in page.press("Back to the passage").shown


def test_a_passage_without_boxes_is_shown_beside_its_first_page(house: House) -> None:
    """Entries indexed by older versions have no boxes."""
    document = house.load("Older rules", made_files.pdf(*PAGES), file_name="older.pdf")
    with house.service.owner_connection() as connection:
        changed = connection.execute(
            "UPDATE chunks_384 SET place = place - 'boxes' WHERE document_id = %s AND place ? 'boxes'", (document,)
        )
        assert changed.rowcount > 0
    shown = open_original(house, document, chunk="0", search="q=painted").shown
    assert 'alt="Page 1 of Older rules"' in shown
    assert "Buoys are <mark>painted</mark> yellow." in shown


def test_a_passage_of_another_version_is_shown_in_that_version(house: House) -> None:
    name = f"Changed rule {uuid4().hex[:8]}"
    document = house.load(name, made_files.pdf(PAGES[0]), file_name="rule.pdf", document_external_id=name)
    address = leads_to(house, name, document)
    assert address["version"] == "1"
    house.load(name, made_files.pdf(PAGES[1], PAGES[2]), file_name="rule.pdf", document_external_id=name)
    shown = house.open("documents", **address).shown
    assert "This is version 1, which contains the passage. The newest version is 2." in shown
    assert "carrel-page-mark" in shown
    assert "Back to the search" in shown
    assert f"search?q={quote_plus(name)}" in shown
    # Its chunks are of version 2 now, and not what was found.
    assert "Buoys" not in shown
    shown = house.open("documents", **{**address, "part": "text", "quoted": mark_of_quote("painted yellow")}).shown
    assert "The passage is from version 1. In version 2, shown here," in shown
    assert "<mark>painted yellow</mark>" in shown


def test_a_row_is_marked_in_its_table(house: House) -> None:
    fees = [["Berth", "Fee in crowns"], *([f"Quay {name}", number] for name, number in (("Ash", 71), ("Elm", 72)))]
    document = house.load("Berth fees", made_files.workbook(Fees=fees), file_name="fees.xlsx")
    shown = house.open("documents", **leads_to(house, "fee at quay elm", document)).shown
    assert '<th scope="col">Row</th><th scope="col">Berth</th><th scope="col">Fee in crowns</th>' in shown
    assert '<tr><th scope="row">2</th><td>Quay Ash</td><td>71</td></tr>' in shown
    assert '<tr><th scope="row">3</th><td><mark>Quay Elm</mark></td><td><mark>72</mark></td></tr>' in shown


def test_a_text_begins_at_the_passage(house: House) -> None:
    rules = [f"Rule {number}. {'The harbour is open. ' * 80}" for number in range(4)]
    address = leads_to(house, "heron", house.load("Long rules", "\n\n".join([*rules, "The heron sleeps."])))
    assert address["part"] == "text"
    assert int(address["chunk"]) > 1
    page = house.open("documents", **address)
    shown = page.shown
    assert "heron sleeps." in shown.partition("<mark>")[2]
    assert "Rule 0." not in shown
    shown = page.press("From the beginning").shown
    assert "Rule 0." in shown
    assert "<mark>" not in shown


@pytest.mark.parametrize(("address", "said"), cases("passages_that_are_nowhere"))
def test_an_address_that_leads_nowhere_is_said_in_words(house, rules, address, said):
    assert said in open_original(house, rules, **address).shown


def test_pages_are_for_those_who_may_read_the_document(house: House) -> None:
    document = house.load("Theirs", made_files.pdf(PAGES[0]), file_name="t.pdf", upload_as_user_email=MEMBER)
    shown = open_original(house, document).shown
    assert "You cannot read this document." in shown
    assert "data:image" not in shown


def test_every_kind_of_file_has_a_name() -> None:
    assert KINDS.keys() == {each.kind for each in FORMATS}
